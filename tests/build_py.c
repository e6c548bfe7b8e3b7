/* Objects, dictionaries and code through a layout; build_run.c has interpreters, threads and frames. */
#include "build_py.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

enum { BEFORE_OBJECT = 64 }; /* GC head and managed words */

/* Memory. */

static addr_t region_alloc(struct build_region *r, size_t size)
{
	size_t at = (r->n + 15) & ~(size_t)15;
	if (at + size > r->room) {
		size_t room = (at + size) * 2 + 4096;
		r->p = xrealloc(r->p, room);
		memset(r->p + r->room, 0, room - r->room);
		r->room = room;
	}
	r->n = at + size;
	return r->base + at;
}

addr_t build_alloc(struct build *b, size_t size)
{
	return region_alloc(&b->heap, size ? size : 1);
}

static uint8_t *at_of(struct build *b, addr_t at, size_t len)
{
	struct build_region *r = at >= b->heap.base ? &b->heap : &b->rodata;
	MUST(at >= r->base && at - r->base <= r->n && len <= r->n - (at - r->base), "build: 0x%llx + %zu is not allocated",
		      (unsigned long long)at, len);
	return r->p + (at - r->base);
}

void build_put(struct build *b, addr_t at, const void *p, size_t len)
{
	if (len)
		memcpy(at_of(b, at, len), p, len);
}

void build_uint(struct build *b, addr_t at, size_t width, uint64_t value)
{
	uint8_t *p = at_of(b, at, width);
	for (size_t i = 0; i < width; i++)
		p[b->layout.abi.big_endian ? width - 1 - i : i] = (uint8_t)(value >> 8 * i);
}

uint64_t build_get(struct build *b, addr_t at, size_t width)
{
	const uint8_t *p = at_of(b, at, width);
	uint64_t value = 0;
	for (size_t i = 0; i < width; i++)
		value |= (uint64_t)p[b->layout.abi.big_endian ? width - 1 - i : i] << 8 * i;
	return value;
}

void build_ptr(struct build *b, addr_t at, addr_t value)
{
	build_uint(b, at, b->layout.abi.width, value);
}

addr_t build_cstr(struct build *b, const char *s)
{
	addr_t at = region_alloc(&b->rodata, strlen(s) + 1);
	build_put(b, at, s, strlen(s) + 1);
	return at;
}

void build_lose(struct build *b, addr_t at, size_t len)
{
	*vec_push(&b->lost) = (struct lost){ at, at + len };
}

/* Fields. */

addr_t build_field_at(const struct build *b, addr_t obj, enum py_field f)
{
	MUST(layout_has(&b->layout, f), "build: %s has no field %s.%s", b->layout.name,
		      py_struct_info[py_field_info[f].of].name, py_field_info[f].name);
	return obj + (addr_t)b->layout.offset[f];
}

static void put_bits(struct build *b, addr_t at, unsigned bit, unsigned bits, uint64_t value)
{
	for (unsigned i = 0; i < bits; i++) {
		bool big = b->layout.abi.big_endian;
		unsigned at_bit = bit + i, shift = big ? bits - 1 - i : i;
		uint8_t *p = at_of(b, at + at_bit / 8, 1);
		uint8_t mask = (uint8_t)(big ? 0x80 >> at_bit % 8 : 1 << at_bit % 8);
		*p = (uint8_t)(value >> shift & 1 ? *p | mask : *p & ~mask);
	}
}

void build_field(struct build *b, addr_t obj, enum py_field f, uint64_t value)
{
	addr_t at = build_field_at(b, obj, f);
	MUST(py_field_info[f].kind != K_AT, "build: %s is embedded data", py_field_info[f].name);
	if (py_field_info[f].kind == K_BITS)
		put_bits(b, at, b->layout.bit[f], b->layout.bits[f], value);
	else
		build_uint(b, at, layout_width(&b->layout, f), value);
}

void build_field_if(struct build *b, addr_t obj, enum py_field f, uint64_t value)
{
	if (layout_has(&b->layout, f))
		build_field(b, obj, f, value);
}

uint64_t build_field_get(struct build *b, addr_t obj, enum py_field f)
{
	return build_get(b, build_field_at(b, obj, f), layout_width(&b->layout, f));
}

static size_t offset_of(const struct build *b, enum py_field f)
{
	return (size_t)build_field_at(b, 0, f);
}

addr_t build_ref(const struct build *b, addr_t obj)
{
	/* 3.14: 1 says that the frame holds no count of its own, and 1 alone is NULL. */
	return TRAIT(b, stackref) == STACKREF_PLAIN ? obj : obj | 1;
}

/* Objects. */

addr_t build_object(struct build *b, addr_t type, size_t size)
{
	size_t least = b->layout.size[S_PyObject];
	addr_t at = build_alloc(b, BEFORE_OBJECT + (size > least ? size : least)) + BEFORE_OBJECT;
	WRITE_IF(b, at, PyObject, ob_refcnt, 1);
	WRITE(b, at, PyObject, ob_type, type);
	return at;
}

static const struct { uint8_t kind; enum py_trait flag; } kind_flag[] = {
	{ O_INT, T_flag_long_subclass }, { O_LIST, T_flag_list_subclass }, { O_TUPLE, T_flag_tuple_subclass },
	{ O_BYTES, T_flag_bytes_subclass }, { O_STR, T_flag_unicode_subclass }, { O_DICT, T_flag_dict_subclass },
	{ O_EXCEPTION, T_flag_exception_subclass }, { O_TYPE, T_flag_type_subclass },
};

addr_t build_type(struct build *b, const char *name, unsigned kind, bool heap)
{
	uint64_t flags = 0;
	for (size_t i = 0; i < sizeof kind_flag / sizeof *kind_flag; i++)
		if (kind_flag[i].kind == kind)
			flags |= UINT64_C(1) << b->layout.trait[kind_flag[i].flag];
	if (kind == O_INT && TRAIT(b, flag_int_subclass) >= 0) /* 2.7's int; build_long makes the type of the other */
		flags = UINT64_C(1) << TRAIT(b, flag_int_subclass);
	if (heap)
		flags |= UINT64_C(1) << TRAIT(b, flag_heap_type);
	addr_t t = build_object(b, b->types.type, b->layout.size[heap ? S_PyHeapType : S_PyType]);
	WRITE(b, t, PyType, tp_flags, flags);
	WRITE(b, t, PyType, tp_name, build_cstr(b, name));
	WRITE(b, t, PyType, tp_basicsize, b->layout.size[S_PyObject]);
	if (b->types.object)
		WRITE(b, t, PyType, tp_base, b->types.object);
	if (heap) {
		WRITE(b, t, PyHeapType, ht_name, build_str(b, name));
		WRITE_IF(b, t, PyHeapType, ht_qualname, build_str(b, name));
	}
	return t;
}

/* 2.7 has an int that is a C long, and a long, which is what int is later. */
static bool is_small_int(const struct build *b, int64_t value)
{
	return layout_has(&b->layout, F_PyInt_ob_ival) && (b->layout.abi.width == 8 || (value >= INT32_MIN && value <= INT32_MAX));
}

addr_t build_int(struct build *b, int64_t value)
{
	if (!is_small_int(b, value))
		return build_long(b, value);
	addr_t o = build_object(b, b->types.int_, b->layout.size[S_PyInt]);
	WRITE(b, o, PyInt, ob_ival, value);
	return o;
}

addr_t build_long(struct build *b, int64_t value)
{
	unsigned bits = (unsigned)TRAIT(b, digit_bits), n = 0;
	size_t width = b->layout.size[S_PyDigit];
	uint64_t left = value < 0 ? -(uint64_t)value : (uint64_t)value;
	addr_t o = build_object(b, b->long_type, offset_of(b, F_PyLong_ob_digit) + 8 * width);
	for (; left; n++, left >>= bits)
		build_uint(b, build_field_at(b, o, F_PyLong_ob_digit) + n * width, width, left & ((UINT64_C(1) << bits) - 1));
	if (TRAIT(b, int_sign) == INT_SIGN_LV_TAG)
		WRITE(b, o, PyLong, lv_tag, (uint64_t)n << 3 | (value == 0 ? 1u : value < 0 ? 2u : 0u));
	else
		WRITE(b, o, PyLong, ob_size, value < 0 ? -(int64_t)n : (int64_t)n);
	return o;
}

addr_t build_float(struct build *b, double value)
{
	uint64_t bits;
	memcpy(&bits, &value, sizeof bits);
	addr_t o = build_object(b, b->types.float_, b->layout.size[S_PyFloat]);
	WRITE(b, o, PyFloat, ob_fval, bits);
	return o;
}

addr_t build_bytes(struct build *b, const void *p, size_t len)
{
	addr_t o = build_object(b, b->types.bytes, offset_of(b, F_PyBytes_ob_sval) + len + 1);
	WRITE(b, o, PyBytes, ob_size, len);
	build_put(b, build_field_at(b, o, F_PyBytes_ob_sval), p, len);
	return o;
}

bool build_can_text(const struct build *b, enum build_text how)
{
	if (TRAIT(b, str_model) == STR_MODEL_WIDE)
		return how == BUILD_POINTER;
	return how != BUILD_WSTR || layout_has(&b->layout, F_PyUnicode_wstr);
}

/* 2.7's unicode: units of the build's width, wherever characters would fit into fewer bytes. */
static addr_t wide_text(struct build *b, const uint32_t *cp, size_t n)
{
	unsigned unit = (unsigned)TRAIT(b, wide_unit);
	addr_t o = build_object(b, b->types.str, b->layout.size[S_PyUnicode]), data = build_alloc(b, (2 * n + 1) * unit);
	size_t units = 0;
	for (size_t i = 0; i < n; i++) {
		bool pair = unit == 2 && cp[i] > 0xffff;
		if (pair)
			build_uint(b, data + units++ * unit, unit, 0xd800 + ((cp[i] - 0x10000) >> 10));
		build_uint(b, data + units++ * unit, unit, pair ? 0xdc00 + (cp[i] & 0x3ff) : cp[i]);
	}
	WRITE(b, o, PyUnicode, length, units);
	WRITE(b, o, PyUnicode, wide, data);
	return o;
}

addr_t build_text(struct build *b, const uint32_t *cp, size_t n, unsigned unit, enum build_text how)
{
	if (TRAIT(b, str_model) == STR_MODEL_WIDE)
		return wide_text(b, cp, n);
	bool ascii = unit == 1;
	for (size_t i = 0; i < n; i++)
		ascii = ascii && cp[i] < 0x80;
	size_t start = how != BUILD_COMPACT ? b->layout.size[S_PyUnicode] :
		       offset_of(b, ascii ? F_PyUnicode_data_ascii : F_PyUnicode_data_compact);
	addr_t o = build_object(b, b->types.str, start + (how == BUILD_COMPACT ? (n + 1) * unit : 0));
	addr_t data = how == BUILD_COMPACT ? o + start : build_alloc(b, (n + 1) * unit);
	if (how == BUILD_WSTR) {
		WRITE(b, o, PyUnicode, wstr, data);
		WRITE(b, o, PyUnicode, wstr_length, n);
	} else {
		WRITE(b, o, PyUnicode, length, n);
		WRITE(b, o, PyUnicode, kind, unit);
		WRITE(b, o, PyUnicode, compact, how == BUILD_COMPACT);
		WRITE(b, o, PyUnicode, ascii, ascii);
		WRITE_IF(b, o, PyUnicode, ready, 1);
		if (how == BUILD_POINTER)
			WRITE(b, o, PyUnicode, data, data);
	}
	for (size_t i = 0; i < n; i++)
		build_uint(b, data + i * unit, unit, cp[i]);
	return o;
}

addr_t build_str(struct build *b, const char *utf8)
{
	size_t len = strlen(utf8), n = 0, used;
	if (!build_can_text(b, BUILD_COMPACT))
		return build_bytes(b, utf8, len);
	uint32_t *cp = xcalloc(len + 1, sizeof *cp), most = 0;
	for (size_t i = 0; i < len; i += used) {
		cp[n] = str_decode(utf8 + i, len - i, &used);
		most = cp[n] > most ? cp[n] : most;
		n++;
	}
	addr_t o = build_text(b, cp, n, most < 0x100 ? 1 : most < 0x10000 ? 2 : 4, BUILD_COMPACT);
	free(cp);
	return o;
}

addr_t build_tuple(struct build *b, const addr_t *items, size_t n)
{
	unsigned width = b->layout.abi.width;
	addr_t o = build_object(b, b->types.tuple, offset_of(b, F_PyTuple_ob_item) + (n + 1) * width);
	WRITE(b, o, PyTuple, ob_size, n);
	for (size_t i = 0; i < n; i++)
		build_ptr(b, build_field_at(b, o, F_PyTuple_ob_item) + i * width, items[i]);
	return o;
}

addr_t build_list(struct build *b, const addr_t *items, size_t n)
{
	unsigned width = b->layout.abi.width;
	addr_t o = build_object(b, b->types.list, b->layout.size[S_PyList]), at = build_alloc(b, (n + 4) * width);
	WRITE(b, o, PyList, ob_size, n);
	WRITE(b, o, PyList, ob_item, at);
	WRITE_IF(b, o, PyList, allocated, n + 4);
	for (size_t i = 0; i < n; i++)
		build_ptr(b, at + i * width, items[i]);
	return o;
}

/* Dictionaries: pairs are kept here and written out when an image is made. */

struct pair { addr_t key, value; };
struct build_dict_state {
	addr_t dict;    /* 0: only keys and values, of an instance */
	enum build_dict how;
	bool dirty;
	struct VEC(struct pair) pairs;
};

addr_t build_dict(struct build *b, enum build_dict how)
{
	struct build_dict_state *s = arena_alloc(b->arena, sizeof *s);
	s->dict = build_object(b, b->types.dict, b->layout.size[S_PyDict]);
	s->how = how;
	s->dirty = true;
	*vec_push(&b->dicts) = s;
	return s->dict;
}

void build_dict_set(struct build *b, addr_t dict, addr_t key, addr_t value)
{
	for (size_t i = b->dicts.n; i-- > 0;) {
		struct build_dict_state *s = b->dicts.p[i];
		if (s->dict != dict)
			continue;
		*vec_push(&s->pairs) = (struct pair){ key, value };
		s->dirty = true;
		return;
	}
	ck_abort_msg("build: 0x%llx is no dictionary", (unsigned long long)dict);
}

void build_dict_str(struct build *b, addr_t dict, const char *key, addr_t value)
{
	build_dict_set(b, dict, build_str(b, key), value);
}

/* Slots for n entries: at least 8, a power of two, never more than two thirds full. */
static unsigned log2_slots(size_t n)
{
	unsigned log2 = 3;
	while ((UINT64_C(2) << log2) / 3 < n)
		log2++;
	return log2;
}

static bool all_str(struct build *b, const struct build_dict_state *s)
{
	for (size_t i = 0; i < s->pairs.n; i++)
		if (build_field_get(b, s->pairs.p[i].key, F_PyObject_ob_type) != b->types.str)
			return false;
	return true;
}

/* The keys object; entries' values are in it unless split. */
static addr_t put_keys(struct build *b, const struct build_dict_state *s)
{
	bool log = TRAIT(b, dict_shape) == DICT_SHAPE_LOG2, split = s->how == BUILD_SPLIT;
	bool unicode = log && s->how != BUILD_GENERAL && all_str(b, s);
	unsigned log2 = log2_slots(s->pairs.n), ix = log2 < 8 ? 0 : log2 < 16 ? 1 : 2;
	size_t entry = b->layout.size[unicode ? S_PyDictUnicodeEntry : S_PyDictKeyEntry];
	size_t table = (size_t)1 << (log2 + ix), head = offset_of(b, F_PyDictKeys_dk_indices);
	addr_t keys = build_alloc(b, head + table + ((size_t)1 << log2) * entry);
	if (log) {
		WRITE(b, keys, PyDictKeys, dk_log2_size, log2);
		WRITE(b, keys, PyDictKeys, dk_log2_index_bytes, log2 + ix);
		WRITE(b, keys, PyDictKeys, dk_kind, split ? 2 : unicode);
	} else {
		WRITE(b, keys, PyDictKeys, dk_size, UINT64_C(1) << log2);
	}
	WRITE_IF(b, keys, PyDictKeys, dk_usable, (UINT64_C(2) << log2) / 3 - s->pairs.n);
	WRITE(b, keys, PyDictKeys, dk_nentries, s->pairs.n);
	memset(at_of(b, keys + head, table), 0xff, table); /* DKIX_EMPTY: readers walk the entries */
	for (size_t i = 0; i < s->pairs.n; i++) {
		addr_t at = keys + head + table + i * entry;
		addr_t key = s->pairs.p[i].key, value = split ? 0 : s->pairs.p[i].value;
		if (!split && !value)
			key = 0; /* deleted */
		build_field(b, at, unicode ? F_PyDictUnicodeEntry_me_key : F_PyDictKeyEntry_me_key, key);
		build_field(b, at, unicode ? F_PyDictUnicodeEntry_me_value : F_PyDictKeyEntry_me_value, value);
		if (!unicode)
			WRITE(b, at, PyDictKeyEntry, me_hash, 0x1234567 * (i + 1));
	}
	return keys;
}

/* An array of values, at `at` if that is not 0. */
static addr_t put_values(struct build *b, const struct build_dict_state *s, addr_t at)
{
	unsigned width = b->layout.abi.width;
	size_t head = layout_has(&b->layout, F_PyDictValues_values) ? offset_of(b, F_PyDictValues_values) : 0;
	if (!at)
		at = build_alloc(b, head + (s->pairs.n + 8) * width);
	WRITE_IF(b, at, PyDictValues, capacity, s->pairs.n);
	WRITE_IF(b, at, PyDictValues, size, s->pairs.n);
	WRITE_IF(b, at, PyDictValues, valid, 1);
	for (size_t i = 0; i < s->pairs.n; i++)
		build_ptr(b, at + head + i * width, s->pairs.p[i].value);
	return at;
}

/* 2.7: one table of hash, key, value with gaps in it; here in order, hashes do not matter to a walk. */
static void put_table(struct build *b, const struct build_dict_state *s)
{
	unsigned log2 = log2_slots(s->pairs.n);
	size_t entry = b->layout.size[S_PyDictKeyEntry];
	addr_t table = build_alloc(b, entry << log2);
	for (size_t i = 0; i < s->pairs.n; i++) {
		addr_t at = table + (i + i / 2) * entry;
		WRITE(b, at, PyDictKeyEntry, me_hash, 0x1234567 * (i + 1));
		WRITE(b, at, PyDictKeyEntry, me_key, s->pairs.p[i].value ? s->pairs.p[i].key : b->types.none); /* a dummy */
		WRITE(b, at, PyDictKeyEntry, me_value, s->pairs.p[i].value);
	}
	WRITE(b, s->dict, PyDict, ma_fill, s->pairs.n);
	WRITE(b, s->dict, PyDict, ma_mask, ((uint64_t)1 << log2) - 1);
	WRITE(b, s->dict, PyDict, ma_table, table);
}

static void put_dict(struct build *b, struct build_dict_state *s)
{
	size_t used = 0;
	for (size_t i = 0; i < s->pairs.n; i++)
		used += s->pairs.p[i].value != 0;
	WRITE_IF(b, s->dict, PyDict, ma_used, used);
	if (TRAIT(b, dict_shape) == DICT_SHAPE_MASK) {
		put_table(b, s);
		s->dirty = false;
		return;
	}
	WRITE(b, s->dict, PyDict, ma_keys, put_keys(b, s));
	WRITE(b, s->dict, PyDict, ma_values, s->how == BUILD_SPLIT ? put_values(b, s, 0) : 0);
	s->dirty = false;
}

void build_settle(struct build *b)
{
	for (size_t i = 0; i < b->dicts.n; i++)
		if (b->dicts.p[i]->dirty)
			put_dict(b, b->dicts.p[i]);
}

void build_forget_dicts(struct build *b)
{
	for (size_t i = 0; i < b->dicts.n; i++)
		vec_free(&b->dicts.p[i]->pairs);
	vec_free(&b->dicts);
}

/* What has attributes. */

addr_t build_module(struct build *b, const char *name, addr_t dict)
{
	addr_t o = build_object(b, b->types.module, b->layout.size[S_PyModule]);
	WRITE(b, o, PyModule, md_dict, dict);
	WRITE_IF(b, o, PyModule, md_name, build_str(b, name));
	return o;
}

addr_t build_function(struct build *b, const char *name, addr_t code)
{
	addr_t o = build_object(b, b->types.function, b->layout.size[S_PyFunction]), text = build_str(b, name);
	WRITE(b, o, PyFunction, func_code, code);
	WRITE(b, o, PyFunction, func_name, text);
	WRITE_IF(b, o, PyFunction, func_qualname, text);
	return o;
}

addr_t build_exception(struct build *b, addr_t type, addr_t args)
{
	addr_t o = build_object(b, type, b->layout.size[S_PyException]);
	WRITE(b, o, PyException, args, args);
	return o;
}

addr_t build_instance(struct build *b, const char *type_name, const char *const *names, const addr_t *values, size_t n,
		      bool as_values)
{
	unsigned width = b->layout.abi.width;
	size_t basic = (b->layout.size[S_PyObject] + width - 1u) / width * width, head = 2 * sizeof(uint64_t);
	addr_t type = build_type(b, type_name, O_OTHER, true);
	struct build_dict_state s = { .how = BUILD_SPLIT };
	for (size_t i = 0; i < n; i++)
		*vec_push(&s.pairs) = (struct pair){ build_str(b, names[i]), values[i] };
	int32_t kind = TRAIT(b, attributes);
	bool offset = kind == ATTRIBUTES_DICTOFFSET;
	/* A word or two for __dict__ and __weakref__ where they are in the object. */
	addr_t o = build_object(b, type, basic + 2 * width + head + n * width), dict = 0;
	WRITE(b, type, PyType, tp_basicsize, offset ? basic + 2 * width : basic);
	if (!as_values || offset) {
		dict = build_dict(b, as_values ? BUILD_SPLIT : BUILD_DICT);
		for (size_t i = 0; i < n; i++)
			build_dict_set(b, dict, s.pairs.p[i].key, s.pairs.p[i].value);
	}
	if (offset) {
		WRITE(b, type, PyType, tp_dictoffset, basic);
		build_ptr(b, o + basic, dict);
	} else {
		uint64_t flags = build_field_get(b, type, F_PyType_tp_flags) | UINT64_C(1) << TRAIT(b, flag_managed_dict);
		if (kind == ATTRIBUTES_INLINE)
			flags |= UINT64_C(1) << TRAIT(b, flag_inline_values);
		addr_t word = o + (addr_t)((int64_t)TRAIT(b, managed_dict_word) * width);
		WRITE(b, type, PyType, tp_flags, flags);
		WRITE(b, type, PyType, tp_dictoffset, -1);
		WRITE(b, type, PyHeapType, ht_cached_keys, put_keys(b, &s));
		if (dict)
			build_ptr(b, word, dict);
		else if (kind == ATTRIBUTES_INLINE)
			put_values(b, &s, o + basic);
		else if (kind == ATTRIBUTES_TAGGED)
			build_ptr(b, word, put_values(b, &s, 0) - 1);
		else
			build_ptr(b, o + (addr_t)((int64_t)TRAIT(b, managed_values_word) * width), put_values(b, &s, 0));
	}
	vec_free(&s.pairs);
	return o;
}

/* Code. */

/* Instruction i on line first + i, columns 4 to 4 + i % 10, in the table of this version. */
static addr_t plain_table(struct build *b, int units)
{
	uint8_t *p = xmalloc((size_t)units * 3);
	size_t n = 0;
	for (int i = 0; i < units; i++) {
		switch (TRAIT(b, line_table)) {
		case LINE_TABLE_LNOTAB:
			p[n++] = i ? 2 : 0;
			p[n++] = i ? 1 : 0;
			break;
		case LINE_TABLE_V310:
			p[n++] = 2;
			p[n++] = i ? 1 : 0;
			break;
		default: /* one-line form of one unit: kind 10 + lines down */
			p[n++] = (uint8_t)(0x80 | (i ? 11 : 10) << 3);
			p[n++] = 4;
			p[n++] = (uint8_t)(4 + i % 10);
		}
	}
	addr_t o = build_bytes(b, p, n);
	free(p);
	return o;
}

addr_t build_code(struct build *b, const struct build_code *c)
{
	int units = c->units ? c->units : 8;
	size_t len = c->code.p ? c->code.len : 2 * (size_t)units, size = b->layout.size[S_PyCode];
	bool adaptive = layout_has(&b->layout, F_PyCode_co_code_adaptive);
	if (adaptive && size < offset_of(b, F_PyCode_co_code_adaptive))
		size = offset_of(b, F_PyCode_co_code_adaptive);
	addr_t o = build_object(b, b->types.code, size + len);
	uint8_t *zeros = xcalloc(1, len + 1);
	const void *bytes = c->code.p ? c->code.p : zeros;
	if (adaptive) {
		build_put(b, build_field_at(b, o, F_PyCode_co_code_adaptive), bytes, len);
		WRITE(b, o, PyVarObject, ob_size, len / 2);
	} else {
		WRITE(b, o, PyCode, co_code, build_bytes(b, bytes, len));
	}
	free(zeros);
	addr_t table = c->table.p ? build_bytes(b, c->table.p, c->table.len) : plain_table(b, units);
	build_field(b, o, layout_has(&b->layout, F_PyCode_co_linetable) ? F_PyCode_co_linetable : F_PyCode_co_lnotab, table);
	WRITE(b, o, PyCode, co_name, build_str(b, c->name));
	WRITE(b, o, PyCode, co_filename, build_str(b, c->file));
	WRITE_IF(b, o, PyCode, co_qualname, build_str(b, c->qualname ? c->qualname : c->name));
	WRITE(b, o, PyCode, co_firstlineno, c->firstlineno);
	WRITE_IF(b, o, PyCode, co_nlocals, c->nlocals);
	WRITE_IF(b, o, PyCode, co_nlocalsplus, c->nlocals);
	WRITE_IF(b, o, PyCode, co_stacksize, c->stacksize);
	WRITE_IF(b, o, PyCode, co_flags, c->flags);
	addr_t none = build_tuple(b, NULL, 0);
	static const enum py_field tuples[] = { F_PyCode_co_consts, F_PyCode_co_names, F_PyCode_co_varnames, F_PyCode_co_freevars,
		F_PyCode_co_cellvars, F_PyCode_co_localsplusnames };
	for (size_t i = 0; i < sizeof tuples / sizeof *tuples; i++)
		build_field_if(b, o, tuples[i], none);
	WRITE_IF(b, o, PyCode, co_localspluskinds, build_bytes(b, NULL, 0));
	WRITE_IF(b, o, PyCode, co_exceptiontable, build_bytes(b, c->exceptiontable.p, c->exceptiontable.len));
	return o;
}
