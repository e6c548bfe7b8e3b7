/* Views of objects.  Nothing an object says is believed before it was checked: lengths, links, digits, code points. */
#include "python/object.h"

#include <string.h>

/* Bits of tp_flags that say what a type derives from. */
static const struct { uint8_t trait, kind; } fast_subclass[] = {
	{ T_flag_int_subclass, O_INT }, { T_flag_long_subclass, O_INT }, { T_flag_list_subclass, O_LIST }, { T_flag_tuple_subclass, O_TUPLE },
	{ T_flag_bytes_subclass, O_BYTES }, { T_flag_unicode_subclass, O_STR }, { T_flag_dict_subclass, O_DICT },
	{ T_flag_exception_subclass, O_EXCEPTION }, { T_flag_type_subclass, O_TYPE },
};

enum {
	META_DEPTH = 16,     /* metaclasses of metaclasses; nobody has more than two */
	CHUNK = 4096,        /* bytes read at a time, on the stack */
	NAME_MAX_BYTES = 4096, /* of a static type's name */
};

/* No length above this is real: the address space of any machine is smaller. */
#define LENGTH_MAX (UINT64_C(1) << 47)

/* A signed field that counts something. */
static int read_length(const struct py *py, addr_t addr, enum py_field f, uint64_t *ret)
{
	uint64_t n;
	int rc = layout_read(py->img, &py->layout, addr, f, &n);
	if (rc < 0)
		return rc;
	if (n > LENGTH_MAX) /* negative ones too */
		return ERR_CORRUPT;
	*ret = n;
	return 0;
}

/* trait: one that holds a bit's number, -1 where there is no such bit. */
static bool has_flag(const struct py *py, uint64_t flags, uint8_t trait)
{
	int32_t bit = py->layout.trait[trait];
	return bit >= 0 && bit < 64 && flags >> bit & 1;
}

/* Is this a type?  Its own type must lead to `type`, the only one that is its own type. */
static int check_type(const struct py *py, addr_t type, uint64_t *flags)
{
	uint64_t meta, seen;
	if (type % py->layout.abi.width)
		return ERR_CORRUPT;
	int rc = READ(py, type, PyType, tp_flags, flags);
	addr_t at = type;
	for (unsigned i = 0; rc == 0 && i < META_DEPTH; i++) {
		rc = READ(py, at, PyObject, ob_type, &meta);
		if (rc < 0)
			break;
		if (meta == 0 || meta % py->layout.abi.width)
			return ERR_CORRUPT;
		if (py->types.type ? meta == py->types.type : meta == at)
			return 0;
		rc = READ(py, meta, PyType, tp_flags, &seen);
		if (rc == 0 && !has_flag(py, seen, T_flag_type_subclass))
			return ERR_CORRUPT;
		at = meta;
	}
	return rc < 0 ? rc : ERR_CORRUPT;
}

/* A type that was not captured, but is known by where it is: a truncated core has lost the static ones, and another one is another. */
static bool kind_by_identity(const struct py *py, addr_t type, uint8_t *ret)
{
	if (type == py->types.str)
		*ret = O_STR;
	else if (type == py->types.bytes)
		*ret = O_BYTES;
	else if (type == py->types.dict)
		*ret = O_DICT;
	else if (type == py->types.int_)
		*ret = O_INT;
	else
		return py->salvaged;
	return true;
}

int object_at(const struct py *py, addr_t addr, struct object *ret)
{
	struct object o = { .py = py, .addr = addr };
	if (addr == 0)
		return ERR_FAULT;
	if (addr % py->layout.abi.width)
		return ERR_CORRUPT;
	int rc = READ(py, addr, PyObject, ob_type, &o.type);
	if (rc < 0)
		return rc;
	if (o.type == 0)
		return ERR_CORRUPT;
	rc = check_type(py, o.type, &o.flags);
	if (rc == ERR_FAULT && kind_by_identity(py, o.type, &o.kind)) {
		*ret = o;
		return 0;
	}
	if (rc < 0)
		return rc;
	for (size_t i = 0; i < sizeof fast_subclass / sizeof *fast_subclass; i++)
		if (has_flag(py, o.flags, fast_subclass[i].trait))
			o.kind = fast_subclass[i].kind;
	*ret = o;
	return 0;
}

/*
 * How many digits, and the sign.  Trait int_sign: ob_size is the count with the number's sign, or lv_tag has the sign in
 * its low 2 bits (0 plus, 1 zero, 2 minus), a bit for other uses, and the count above.
 */
static int int_size(const struct object *o, uint64_t *count, bool *negative)
{
	const struct py *py = o->py;
	uint64_t size;
	int rc;
	if (TRAIT(py, int_sign) == INT_SIGN_LV_TAG) {
		rc = READ(py, o->addr, PyLong, lv_tag, &size);
		if (rc < 0)
			return rc;
		*count = size >> 3;
		*negative = (size & 3) == 2;
		if ((size & 3) == 3 || ((size & 3) == 1) != (*count == 0))
			return ERR_CORRUPT;
	} else {
		rc = READ(py, o->addr, PyLong, ob_size, &size);
		if (rc < 0)
			return rc;
		*negative = (int64_t)size < 0;
		*count = *negative ? -size : size;
	}
	return *count > LENGTH_MAX ? ERR_CORRUPT : 0;
}

int object_int(const struct object *o, int64_t *ret)
{
	const struct py *py = o->py;
	uint64_t count, at, value = 0;
	bool negative;
	if (o->kind != O_INT)
		return ERR_ABSENT;
	int rc;
	if (has_flag(py, o->flags, T_flag_int_subclass)) { /* 2.7: a C long */
		rc = READ(py, o->addr, PyInt, ob_ival, &value);
		if (rc == 0)
			*ret = (int64_t)value;
		return rc;
	}
	rc = int_size(o, &count, &negative);
	if (rc < 0)
		return rc;
	size_t width = py->layout.size[S_PyDigit];
	unsigned bits = (unsigned)TRAIT(py, digit_bits);
	if (width == 0 || width > 8 || bits == 0 || bits > 32)
		return ERR_ABSENT;
	if (count > 64 / bits + 1)
		return ERR_LIMIT;
	rc = READ(py, o->addr, PyLong, ob_digit, &at);
	if (rc < 0)
		return rc;
	for (uint64_t i = count; i-- > 0;) {
		uint64_t digit;
		rc = image_read_uint(py->img, at + i * width, width, &digit);
		if (rc < 0)
			return rc;
		if (digit >> bits)
			return ERR_CORRUPT;
		if (value >> (64 - bits))
			return ERR_LIMIT;
		value = value << bits | digit;
	}
	if (value > (uint64_t)INT64_MAX + negative)
		return ERR_LIMIT;
	*ret = (int64_t)(negative ? -value : value);
	return 0;
}

/* Where a str's characters are: unit bytes each, in the target's byte order. */
struct text {
	addr_t data;
	uint64_t length;
	uint8_t unit;
};

/* 2.7's unicode: units of a width that was chosen when Python was built. */
static int find_wide_text(const struct object *o, struct text *ret)
{
	int32_t unit = TRAIT(o->py, wide_unit);
	uint64_t length, end;
	addr_t data;
	int rc;
	if (unit != 2 && unit != 4)
		return ERR_UNSUPPORTED;
	if ((rc = READ(o->py, o->addr, PyUnicode, wide, &data)) < 0 || (rc = read_length(o->py, o->addr, F_PyUnicode_length, &length)) < 0)
		return rc;
	if (data == 0 || !add_fits(data, length * (uint64_t)unit, &end))
		return ERR_CORRUPT;
	*ret = (struct text){ data, length, (uint8_t)unit };
	return 0;
}

/* One of the four kinds of str (Include/cpython/unicodeobject.h). */
static int find_text(const struct object *o, struct text *ret)
{
	const struct py *py = o->py;
	struct text t = { 0 };
	uint64_t kind, compact, ascii, ready = 1;
	int rc;
	if (o->kind != O_STR)
		return ERR_ABSENT;
	if (TRAIT(py, str_model) == STR_MODEL_WIDE)
		return find_wide_text(o, ret);
	if ((rc = READ(py, o->addr, PyUnicode, kind, &kind)) < 0 ||
	    (rc = READ(py, o->addr, PyUnicode, compact, &compact)) < 0 ||
	    (rc = READ(py, o->addr, PyUnicode, ascii, &ascii)) < 0)
		return rc;
	if (HAS(py, PyUnicode, ready) && (rc = READ(py, o->addr, PyUnicode, ready, &ready)) < 0)
		return rc;
	t.unit = (uint8_t)kind;
	if (!ready) {
		/* Up to 3.11: made by PyUnicode_FromUnicode and not looked at since; wchar_t is 4 bytes on Linux. */
		t.unit = 4;
		if ((rc = READ(py, o->addr, PyUnicode, wstr, &t.data)) < 0 ||
		    (rc = read_length(py, o->addr, F_PyUnicode_wstr_length, &t.length)) < 0)
			return rc;
	} else {
		if ((kind != 1 && kind != 2 && kind != 4) || (ascii && kind != 1))
			return ERR_CORRUPT;
		if ((rc = read_length(py, o->addr, F_PyUnicode_length, &t.length)) < 0 ||
		    (rc = compact && ascii ? READ(py, o->addr, PyUnicode, data_ascii, &t.data) :
			  compact	   ? READ(py, o->addr, PyUnicode, data_compact, &t.data) :
					     READ(py, o->addr, PyUnicode, data, &t.data)) < 0)
			return rc;
	}
	uint64_t bytes, end;
	if (t.data == 0 || !mul_fits(t.length, t.unit, &bytes) || !add_fits(t.data, bytes, &end))
		return ERR_CORRUPT;
	*ret = t;
	return 0;
}

static uint32_t unit_at(const struct py *py, const uint8_t *p, uint8_t unit)
{
	uint32_t value = 0;
	for (unsigned i = 0; i < unit; i++)
		value |= (uint32_t)p[i] << 8 * (py->layout.abi.big_endian ? unit - 1u - i : i);
	return value;
}

/* Up to CHUNK bytes of count units from the i-th on; returns how many units. */
static int read_units(const struct py *py, const struct text *t, uint64_t i, uint64_t count, uint8_t buf[CHUNK])
{
	size_t n = CHUNK / t->unit;
	if (n > count)
		n = (size_t)count;
	int rc = image_read(py->img, t->data + i * t->unit, buf, n * t->unit);
	return rc < 0 ? rc : (int)n;
}

/* As UTF-8; what is half of a pair, and so has no UTF-8, as text. */
static void put_code_point(struct sb *b, uint32_t cp)
{
	char utf8[4];
	if (cp < 0x80)
		sb_char(b, (char)cp);
	else if (cp >= 0xd800 && cp < 0xe000)
		sb_printf(b, "\\u%04x", cp);
	else
		sb_bytes(b, utf8, str_encode(cp, utf8));
}

int object_text(const struct object *o, struct arena *a, size_t max, struct str *ret, uint64_t *total)
{
	struct text t;
	uint8_t buf[CHUNK];
	int rc = find_text(o, &t);
	if (rc < 0)
		return rc;
	CLEANUP(cleanup_sb) struct sb b = { 0 };
	uint64_t end = t.length < max ? t.length : max;
	/* A narrow build of 2.7 has characters past U+FFFF as two units; later ones have no such pairs. */
	bool pairs = t.unit == 2 && TRAIT(o->py, str_model) == STR_MODEL_WIDE;
	uint32_t high = 0;
	for (uint64_t i = 0; i < end;) {
		int n = read_units(o->py, &t, i, end - i, buf);
		if (n < 0)
			return n;
		for (int k = 0; k < n; k++) {
			uint32_t cp = unit_at(o->py, buf + k * t.unit, t.unit);
			if (cp > 0x10ffff)
				return ERR_CORRUPT;
			if (high && cp >= 0xdc00 && cp < 0xe000) {
				cp = 0x10000 + ((high - 0xd800) << 10) + (cp - 0xdc00);
				high = 0;
			}
			if (high)
				put_code_point(&b, high);
			high = pairs && cp >= 0xd800 && cp < 0xdc00 ? cp : 0;
			if (!high)
				put_code_point(&b, cp);
		}
		i += (uint64_t)n;
	}
	if (high)
		put_code_point(&b, high);
	if (total)
		*total = t.length;
	*ret = b.len ? sb_take(&b, a) : STR("");
	return 0;
}

int object_text_is(const struct object *o, const char *ascii)
{
	struct text t;
	uint8_t buf[CHUNK];
	size_t len = strlen(ascii);
	int rc = find_text(o, &t);
	if (rc < 0)
		return rc;
	if (t.length != len)
		return 0;
	for (size_t i = 0; i < len;) {
		int n = read_units(o->py, &t, i, len - i, buf);
		if (n < 0)
			return n;
		for (int k = 0; k < n; k++, i++)
			if (unit_at(o->py, buf + k * t.unit, t.unit) != (unsigned char)ascii[i])
				return 0;
	}
	return 1;
}

int object_bytes_is(const struct object *o, const char *ascii)
{
	uint8_t buf[CHUNK];
	uint64_t size, at;
	size_t len = strlen(ascii);
	int rc;
	if (o->kind != O_BYTES)
		return ERR_ABSENT;
	if ((rc = read_length(o->py, o->addr, F_PyBytes_ob_size, &size)) < 0)
		return rc;
	if (size != len || len > sizeof buf)
		return 0;
	if ((rc = READ(o->py, o->addr, PyBytes, ob_sval, &at)) < 0 || (rc = image_read(o->py->img, at, buf, len)) < 0)
		return rc;
	return memcmp(buf, ascii, len) == 0;
}

int object_bytes(const struct object *o, struct arena *a, size_t max, struct blob *ret, uint64_t *total)
{
	const struct py *py = o->py;
	uint8_t buf[CHUNK];
	uint64_t size, at;
	int rc;
	if (o->kind != O_BYTES)
		return ERR_ABSENT;
	if ((rc = read_length(py, o->addr, F_PyBytes_ob_size, &size)) < 0 ||
	    (rc = READ(py, o->addr, PyBytes, ob_sval, &at)) < 0)
		return rc;
	CLEANUP(cleanup_sb) struct sb b = { 0 };
	uint64_t end = size < max ? size : max;
	for (uint64_t i = 0; i < end;) {
		size_t n = end - i < CHUNK ? (size_t)(end - i) : CHUNK;
		rc = image_read(py->img, at + i, buf, n);
		if (rc < 0)
			return rc;
		sb_bytes(&b, buf, n);
		i += n;
	}
	if (total)
		*total = size;
	*ret = (struct blob){ arena_dup(a, b.s, b.len), b.len };
	return 0;
}

int object_unit(const struct object *o, uint64_t i, uint32_t *ret)
{
	const struct py *py = o->py;
	struct text t = { .unit = 1 };
	uint64_t value;
	int rc;
	if (o->kind != O_BYTES)
		rc = find_text(o, &t);
	else if ((rc = read_length(py, o->addr, F_PyBytes_ob_size, &t.length)) == 0)
		rc = READ(py, o->addr, PyBytes, ob_sval, &t.data);
	if (rc < 0)
		return rc;
	if (i >= t.length)
		return ERR_ABSENT;
	rc = image_read_uint(py->img, t.data + i * t.unit, t.unit, &value);
	if (rc == 0)
		*ret = (uint32_t)value;
	return rc;
}

int object_length(const struct object *o, uint64_t *ret)
{
	switch (o->kind) {
	case O_TUPLE: return read_length(o->py, o->addr, F_PyTuple_ob_size, ret);
	case O_LIST:  return read_length(o->py, o->addr, F_PyList_ob_size, ret);
	default:      return ERR_ABSENT;
	}
}

int object_item(const struct object *o, uint64_t i, addr_t *ret)
{
	uint64_t length, at, offset;
	int rc = object_length(o, &length);
	if (rc < 0)
		return rc;
	if (i >= length)
		return ERR_ABSENT;
	rc = o->kind == O_TUPLE ? READ(o->py, o->addr, PyTuple, ob_item, &at) : READ(o->py, o->addr, PyList, ob_item, &at);
	if (rc < 0)
		return rc;
	if (!mul_fits(i, o->py->layout.abi.width, &offset) || !add_fits(at, offset, &at))
		return ERR_CORRUPT;
	return image_read_ptr(o->py->img, at, ret);
}

/* The dictionary of a class with tp_dictoffset: from the start, or for negative ones from the end of a var-sized object. */
static int dict_at_offset(const struct object *o, addr_t *ret)
{
	const struct py *py = o->py;
	uint64_t raw, basic, item, count = 0, size;
	int rc = READ(py, o->type, PyType, tp_dictoffset, &raw);
	if (rc < 0)
		return rc;
	int64_t offset = (int64_t)raw;
	if (offset == 0)
		return ERR_ABSENT;
	if (offset < 0) {
		bool negative;
		if ((rc = READ(py, o->type, PyType, tp_basicsize, &basic)) < 0 ||
		    (rc = READ(py, o->type, PyType, tp_itemsize, &item)) < 0)
			return rc;
		if (has_flag(py, o->flags, T_flag_long_subclass))
			rc = int_size(o, &count, &negative);
		else if (item)
			rc = READ(py, o->addr, PyVarObject, ob_size, &count);
		if (rc < 0)
			return rc;
		if ((int64_t)count < 0)
			count = -count;
		/* _PyObject_VAR_SIZE: rounded up to a pointer. */
		if (!mul_fits(count, item, &size) || !add_fits(size, basic, &size) ||
		    !add_fits(size, py->layout.abi.width - 1u, &size))
			return ERR_CORRUPT;
		size -= size % py->layout.abi.width;
		offset += (int64_t)size;
		if (size > LENGTH_MAX || offset <= 0)
			return ERR_CORRUPT;
	}
	if ((uint64_t)offset > LENGTH_MAX)
		return ERR_CORRUPT;
	return image_read_ptr(py->img, o->addr + (uint64_t)offset, ret);
}

/* The names of the values that instances of a class keep outside a dictionary. */
int object_managed_values(const struct object *o, addr_t values, struct dict_walk *ret)
{
	uint64_t keys;
	if (!has_flag(o->py, o->flags, T_flag_heap_type))
		return ERR_CORRUPT;
	int rc = READ(o->py, o->type, PyHeapType, ht_cached_keys, &keys);
	if (rc < 0)
		return rc;
	return keys ? dict_begin_values(o->py, keys, values, ret) : ERR_CORRUPT;
}

/*
 * Where 3.11 and later keep attributes of ordinary classes: a word or two before the object, and from 3.13 values right
 * behind the basic object.  The traits say which.
 */
int object_managed(const struct object *o, struct object_managed *ret)
{
	const struct py *py = o->py;
	int64_t width = py->layout.abi.width;
	struct object_managed m = { 0 };
	uint64_t basic, valid;
	if (!has_flag(py, o->flags, T_flag_managed_dict))
		return ERR_ABSENT;
	int rc = image_read_ptr(py->img, o->addr + (uint64_t)(TRAIT(py, managed_dict_word) * width), &m.dict);
	if (rc < 0)
		return rc;
	switch (TRAIT(py, attributes)) {
	case ATTRIBUTES_WORDS:
		if (!m.dict) {
			rc = image_read_ptr(py->img, o->addr + (uint64_t)(TRAIT(py, managed_values_word) * width), &m.values);
			if (rc < 0)
				return rc;
		}
		break;
	case ATTRIBUTES_TAGGED:
		if (m.dict & 1) {
			m.values = m.dict + 1;
			m.dict = 0;
		}
		break;
	case ATTRIBUTES_INLINE:
		/* A dictionary that was asked for later has the same values in it. */
		if (m.dict || !has_flag(py, o->flags, T_flag_inline_values))
			break;
		rc = READ(py, o->type, PyType, tp_basicsize, &basic);
		if (rc < 0)
			return rc;
		if (basic > LENGTH_MAX || basic % (uint64_t)width)
			return ERR_CORRUPT;
		rc = READ(py, o->addr + basic, PyDictValues, valid, &valid);
		if (rc < 0)
			return rc;
		if (valid)
			m.values = o->addr + basic;
		break;
	default:
		return ERR_UNSUPPORTED;
	}
	*ret = m;
	return 0;
}

int object_attrs(const struct object *o, struct dict_walk *ret)
{
	addr_t dict;
	int rc;
	if (has_flag(o->py, o->flags, T_flag_managed_dict)) {
		struct object_managed m;
		if ((rc = object_managed(o, &m)) < 0)
			return rc;
		return m.dict ? dict_begin(o->py, m.dict, ret) : m.values ? object_managed_values(o, m.values, ret) : ERR_ABSENT;
	}
	if (o->py->types.instance && o->type == o->py->types.instance) {
		rc = READ(o->py, o->addr, PyInstance, in_dict, &dict);
		return rc < 0 ? rc : dict_begin(o->py, dict, ret);
	}
	rc = dict_at_offset(o, &dict);
	if (rc < 0)
		return rc;
	return dict ? dict_begin(o->py, dict, ret) : ERR_ABSENT;
}

int object_attr_within(const struct object *o, const char *name, uint64_t *left, addr_t *ret)
{
	struct dict_walk w;
	int rc = object_attrs(o, &w);
	return rc < 0 ? rc : dict_find_within(&w, name, left, ret);
}

int object_attr(const struct object *o, const char *name, addr_t *ret)
{
	uint64_t left = UINT64_MAX;
	return object_attr_within(o, name, &left, ret);
}

int type_name(const struct py *py, addr_t type, struct arena *a, struct str *ret)
{
	uint64_t flags, at;
	int rc = check_type(py, type, &flags);
	if (rc < 0)
		return rc;
	if (has_flag(py, flags, T_flag_heap_type)) {
		struct object name;
		if ((rc = READ(py, type, PyHeapType, ht_name, &at)) < 0 || (rc = object_at(py, at, &name)) < 0)
			return rc;
		if (name.kind == O_STR)
			return object_text(&name, a, NAME_MAX_BYTES, ret, NULL);
		struct blob old; /* 2.7 */
		if (name.kind != O_BYTES)
			return ERR_CORRUPT;
		rc = object_bytes(&name, a, NAME_MAX_BYTES, &old, NULL);
		if (rc == 0)
			*ret = str_from_bytes(a, old.p, old.len);
		return rc;
	}
	char buf[NAME_MAX_BYTES + 1];
	rc = READ(py, type, PyType, tp_name, &at);
	if (rc < 0)
		return rc;
	if (at == 0)
		return ERR_CORRUPT;
	rc = image_read_cstr(py->img, at, buf, NAME_MAX_BYTES);
	if (rc < 0)
		return rc == ERR_LIMIT ? ERR_CORRUPT : rc;
	*ret = str_from_bytes(a, buf, (size_t)rc);
	return 0;
}
