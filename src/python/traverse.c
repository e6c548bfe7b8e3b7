/*
 * The fields that the tp_traverse functions follow: Objects/listobject.c, tupleobject.c, dictobject.c, setobject.c, typeobject.c
 * (subtype_traverse).  A visited object is read from its start: its type (visit_decref up to 3.11), or its count first (3.12 and later:
 * those that are immortal are left out).
 */
#include "python/traverse.h"

#include <inttypes.h>

#include "python/exception.h"
#include "python/prove.h"

enum {
	CHUNK = 512,            /* references read at a time */
	BODY_MAX = 4096,        /* bytes of an object of another type */
	NEAR = 1 << 12,         /* bytes from what a word leads to */
	WORD_MIN = 1 << 16,     /* less is a number rather than an address (vm.mmap_min_addr) */
	BRIEF = 64,
	MEMBERS = 256, BASES = 16, NAME_MAX_BYTES = 128,
};

struct trip {
	const struct py *py;
	struct object o;
	addr_t at;
	bool near;
	uint64_t *left;
	struct arena *a;
	struct traversed *ret;
	const struct py_struct_info *in; /* what the object's type is laid out as, once asked for; NULL: no struct of CPython's that is known */
	bool in_known;
};

static bool readable(const struct py *py, addr_t at)
{
	uint64_t byte;
	return image_read_uint(py->img, at, 1, &byte) == 0;
}

/* Is it none of n bytes from `from` on that could be read? */
static bool within(const struct trip *s, addr_t from, uint64_t n)
{
	return s->at - from < n && !readable(s->py, s->at);
}

static int found(const struct trip *s, enum traversed_how how, struct str field, addr_t value, addr_t from, uint64_t bytes)
{
	addr_t to;
	*s->ret = (struct traversed){ how, field, value, from, add_fits(from, bytes, &to) ? to : UINT64_MAX };
	return 1;
}

/* Would at be read of the object at ref, where none is? */
static bool is_ref(const struct trip *s, addr_t ref)
{
	struct object o;
	/* 0 is not visited. */
	if (!ref || s->at < ref || s->at - ref >= s->py->layout.size[S_PyObject])
		return false;
	return object_at(s->py, ref, &o) < 0 && !py_is_lost(s->py, ref);
}

/* So many references in a row, and how many there may be. */
static int references(const struct trip *s, addr_t items, uint64_t n, uint64_t room)
{
	const unsigned width = s->py->layout.abi.width;
	for (uint64_t i = 0; i < n && *s->left;) {
		uint8_t raw[CHUNK * 8];
		uint64_t want = n - i < CHUNK ? n - i : CHUNK;
		const size_t got = image_read_some(s->py->img, items + i * width, raw, (size_t)want * width) / width;
		for (size_t k = 0; k < got; k++) {
			addr_t ref = 0;
			for (unsigned b = 0; b < width; b++)
				ref |= (addr_t)raw[k * width + b] << 8 * (s->py->layout.abi.big_endian ? width - 1u - b : b);
			if (is_ref(s, ref) && i + k >= room)
				return found(s, TRAVERSED_COUNT, STR("ob_size"), n, items, n * width);
			if (is_ref(s, ref))
				return found(s, TRAVERSED_ITEM, str_printf(s->a, "ob_item[%" PRIu64 "]", i + k), ref, items, n * width);
		}
		*s->left -= got < *s->left ? got : *s->left;
		if (got < want)
			break;
		i += got;
	}
	return 0;
}

static int sequence(const struct trip *s)
{
	const struct py *py = s->py;
	const unsigned width = py->layout.abi.width;
	uint64_t n, allocated, bytes, end;
	addr_t items;
	const bool list = s->o.kind == O_LIST;
	if (list ? READ(py, s->o.addr, PyList, ob_size, &n) < 0 || READ(py, s->o.addr, PyList, ob_item, &items) < 0 || READ(py, s->o.addr, PyList, allocated, &allocated) < 0
		 : READ(py, s->o.addr, PyTuple, ob_size, &n) < 0 || READ(py, s->o.addr, PyTuple, ob_item, &items) < 0)
		return 0;
	if (n == 0 || (int64_t)n < 0)
		return 0;
	if (!mul_fits(n, width, &bytes) || !add_fits(items, bytes, &end))
		bytes = (uint64_t)0 - items; /* up to where addresses end */
	if (within(s, items, bytes) && (s->at - items) % width == 0) {
		if (list && (!readable(py, items) || n <= allocated))
			return found(s, TRAVERSED_ARRAY, STR("ob_item"), items, items, bytes);
		return found(s, TRAVERSED_COUNT, STR("ob_size"), n, items, bytes);
	}
	return references(s, items, bytes / width, list ? allocated : bytes / width);
}

static struct str with_brief(const struct trip *s, const char *before, addr_t key)
{
	struct sb b = { 0 };
	sb_printf(&b, "%s", before);
	object_brief(s->py, key, BRIEF, &b);
	return sb_take(&b, s->a);
}

/* Keys and their values; attributes: those of an instance. */
static int entries(const struct trip *s, struct dict_walk *w, bool attributes)
{
	addr_t key, value;
	struct object name;
	struct str text;
	const uint64_t bytes = s->py->layout.size[w->shape ? S_PyDictUnicodeEntry : S_PyDictKeyEntry] * w->n;
	const uint64_t from = attributes ? w->values : w->entries, size = attributes ? w->n * s->py->layout.abi.width : bytes;
	const uint64_t first = w->i;
	int rc = 0;
	dict_most(w, *s->left);
	while (!rc && dict_next(w, &key, &value) == 1) {
		if (is_ref(s, value)) {
			const bool named = attributes && object_at(s->py, key, &name) == 0 && name.kind == O_STR && object_text(&name, s->a, BRIEF, &text, NULL) == 0;
			rc = found(s, TRAVERSED_ITEM, named ? str_printf(s->a, "attribute " STR_FMT, STR_ARG(text)) : with_brief(s, "value of ", key), value, from, size);
		} else if (!attributes && is_ref(s, key)) {
			rc = found(s, TRAVERSED_ITEM, str_printf(s->a, "key of entry %" PRIu64, w->i - 1), key, from, size);
		}
	}
	*s->left -= w->i - first;
	return rc;
}

static int dictionary(const struct trip *s)
{
	const struct py *py = s->py;
	const addr_t dict = s->o.addr;
	struct dict_walk w;
	addr_t keys, values = 0, indices;
	uint64_t n, bytes;
	if (READ(py, dict, PyDict, ma_table, &keys) == 0) {
		if (READ(py, dict, PyDict, ma_mask, &n) == 0 && mul_fits(n + 1, py->layout.size[S_PyDictKeyEntry], &bytes) && within(s, keys, bytes))
			return found(s, TRAVERSED_ARRAY, STR("ma_table"), keys, keys, bytes);
	} else if (READ(py, dict, PyDict, ma_keys, &keys) == 0) {
		if (READ(py, keys, PyDictKeys, dk_indices, &indices) < 0)
			indices = keys + py->layout.size[S_PyDictKeys]; /* keys is 0 */
		if (within(s, keys, indices - keys))
			return found(s, TRAVERSED_ARRAY, STR("ma_keys"), keys, keys, indices - keys);
		if (READ(py, dict, PyDict, ma_values, &values) == 0 && values && READ(py, keys, PyDictKeys, dk_nentries, &n) == 0 &&
		    n < DICT_MAX_ENTRIES && within(s, values, (n + 1) * py->layout.abi.width))
			return found(s, TRAVERSED_ARRAY, STR("ma_values"), values, values, n * py->layout.abi.width);
	}
	return dict_begin(py, dict, &w) == 0 ? entries(s, &w, false) : 0;
}

static int set(const struct trip *s)
{
	const struct py *py = s->py;
	const uint64_t size = py->layout.size[S_PySetEntry];
	uint64_t mask, bytes;
	addr_t table, key;
	if (READ(py, s->o.addr, PySet, table, &table) < 0 || READ(py, s->o.addr, PySet, mask, &mask) < 0 || mask & (mask + 1) || !mul_fits(mask + 1, size, &bytes))
		return 0;
	if (within(s, table, bytes))
		return found(s, TRAVERSED_ARRAY, STR("table"), table, table, bytes);
	for (uint64_t i = 0; i <= mask && *s->left && READ(py, table + i * size, PySetEntry, key, &key) == 0; i++, --*s->left)
		if (is_ref(s, key))
			return found(s, TRAVERSED_ITEM, str_printf(s->a, "table[%" PRIu64 "]", i), key, table, bytes);
	return 0;
}

/* ---- objects of other types: their words */

#define WEAK_REFERENCES "list of weak references"

/* What CPython calls its own; a class may have such a name, too. */
static const struct { const char *type; enum py_struct is; } own[] = {
	{ "function", S_PyFunction }, { "module", S_PyModule }, { "cell", S_PyCell }, { "method", S_PyMethod }, { "instancemethod", S_PyMethod }, { "generator", S_PyGen },
	{ "coroutine", S_PyGen }, { "async_generator", S_PyGen }, { "builtin_function_or_method", S_PyCFunction }, { "traceback", S_PyTraceback },
	{ "set", S_PySet }, { "frozenset", S_PySet }, { "instance", S_PyInstance },
};

/*
 * PyMemberDef (structmember.h, Include/descrobject.h: the same since 2.x): name, type, offset, flags, doc, each as wide as an address.  Types
 * of heap have some that say where something else lies ("__dictoffset__"); those that hold an object are of type 6 or 16.
 */
static bool member_name(const struct trip *s, addr_t type, uint64_t offset, struct str *ret)
{
	enum { T_OBJECT = 6, T_OBJECT_EX = 16 };
	const unsigned width = s->py->layout.abi.width;
	char text[NAME_MAX_BYTES + 1];
	addr_t members, name;
	for (unsigned depth = 0; depth < BASES && type && *s->left; depth++) {
		--*s->left;
		if (READ(s->py, type, PyType, tp_members, &members) < 0)
			return false;
		for (unsigned i = 0; members && i < MEMBERS && *s->left; i++, members += 5 * width) {
			uint64_t at, kind;
			--*s->left;
			if (image_read_ptr(s->py->img, members, &name) < 0 || !name || image_read_uint(s->py->img, members + width, 4, &kind) < 0 ||
			    image_read_ptr(s->py->img, members + 2 * width, &at) < 0)
				break;
			const int n = at == offset && (kind == T_OBJECT || kind == T_OBJECT_EX) ? image_read_cstr(s->py->img, name, text, NAME_MAX_BYTES) : -1;
			if (n > 0) {
				*ret = str_from_bytes(s->a, text, (size_t)n);
				return true;
			}
		}
		if (READ(s->py, type, PyType, tp_base, &type) < 0)
			return false;
	}
	return false;
}

static const struct py_struct_info *struct_of(const struct trip *s)
{
	CLEANUP(cleanup_arena) struct arena *a = arena_new();
	struct str name;
	if (s->o.kind == O_EXCEPTION)
		return &py_struct_info[S_PyException];
	if (!(s->o.flags >> TRAIT(s->py, flag_heap_type) & 1) && type_name(s->py, s->o.type, a, &name) == 0)
		for (size_t i = 0; i < sizeof own / sizeof *own; i++)
			if (str_is(name, own[i].type))
				return &py_struct_info[own[i].is];
	return NULL;
}

/* s NULL: what it means is not known. */
static struct str word_name(struct trip *s, uint64_t offset)
{
	struct str name;
	if (!s->in_known)
		s->in = struct_of(s);
	s->in_known = true;
	const struct py_struct_info *in = s->in;
	for (unsigned i = 0; in && i < in->n_fields; i++)
		if (py_field_info[in->first + i].kind == K_PTR && layout_has(&s->py->layout, in->first + i) && (uint64_t)s->py->layout.offset[in->first + i] == offset)
			return str_of(py_field_info[in->first + i].name);
	/* What every type says of its objects. */
	uint64_t at;
	if (READ(s->py, s->o.type, PyType, tp_weaklistoffset, &at) == 0 && at == offset)
		return STR(WEAK_REFERENCES);
	if (READ(s->py, s->o.type, PyType, tp_dictoffset, &at) == 0 && at == offset)
		return STR("__dict__");
	if (member_name(s, s->o.type, offset, &name))
		return str_printf(s->a, "attribute " STR_FMT, STR_ARG(name));
	return (struct str){ 0 };
}

static int word_found(struct trip *s, enum traversed_how how, uint64_t offset, addr_t word, uint64_t size)
{
	struct str name = word_name(s, offset);
	if (!name.s && !s->near)
		return 0;
	return found(s, how, name.s ? name : str_printf(s->a, "word at +0x%" PRIx64, offset), word, s->o.addr, size);
}

/* Would it be read near what the word leads to? */
static bool is_near(const struct trip *s, addr_t word)
{
	return s->near && word >= WORD_MIN && s->at >= word && within(s, word, NEAR);
}

/* Where the list of weak references is before the object, from 3.12 on; what is read of one lies behind its header. */
static int weak_references(const struct trip *s)
{
	const struct py *py = s->py;
	uint64_t at;
	addr_t word;
	if (READ(py, s->o.type, PyType, tp_weaklistoffset, &at) < 0)
		return 0;
	const int64_t from = py->layout.abi.width == 4 ? (int32_t)(uint32_t)at : (int64_t)at;
	const addr_t header = py->layout.abi.width * 8u;
	if (from >= 0 || (addr_t)0 - (addr_t)from > header || image_read_ptr(py->img, s->o.addr + (addr_t)from, &word) < 0)
		return 0;
	if (is_ref(s, word))
		return found(s, TRAVERSED_ITEM, STR(WEAK_REFERENCES), word, s->o.addr - header, header);
	return is_near(s, word) ? found(s, TRAVERSED_NEAR, STR(WEAK_REFERENCES), word, s->o.addr - header, header) : 0;
}

/* From that one on. */
static int words(struct trip *s, uint64_t first)
{
	const struct py *py = s->py;
	const unsigned width = py->layout.abi.width;
	uint64_t basic;
	addr_t word;
	if (READ(py, s->o.type, PyType, tp_basicsize, &basic) < 0)
		return 0;
	for (uint64_t i = first; i + width <= basic && i < BODY_MAX && *s->left; i += width) {
		--*s->left;
		if (image_read_ptr(py->img, s->o.addr + i, &word) < 0)
			break;
		if (word < WORD_MIN)
			continue;
		if (is_ref(s, word) ? word_found(s, TRAVERSED_ITEM, i, word, basic) : is_near(s, word) && word_found(s, TRAVERSED_NEAR, i, word, basic))
			return 1;
	}
	return 0;
}

/* What instances of ordinary classes have before them. */
static int attributes(const struct trip *s)
{
	struct object_managed m;
	struct dict_walk w;
	const uint64_t header = s->py->layout.abi.width * 4u;
	const uint64_t values = s->py->layout.size[S_PyDictValues] + 256u * s->py->layout.abi.width; /* SHARED_KEYS_MAX_SIZE is less */
	if (object_managed(&s->o, &m) < 0)
		return 0;
	if (m.dict && is_ref(s, m.dict))
		return found(s, TRAVERSED_ITEM, STR("__dict__"), m.dict, s->o.addr - header, header);
	if (m.values && within(s, m.values, values))
		return found(s, TRAVERSED_ARRAY, STR("values"), m.values, s->o.addr - header, header);
	return m.values && object_managed_values(&s->o, m.values, &w) == 0 ? entries(s, &w, true) : 0;
}

int traverse_trip(const struct py *py, addr_t obj, addr_t at, bool near, uint64_t *left, struct arena *a, struct traversed *ret)
{
	struct trip s = { .py = py, .at = at, .near = near, .left = left, .a = a, .ret = ret };
	if (!*left || object_at(py, obj, &s.o) < 0)
		return 0;
	--*left;
	int rc = 0;
	uint64_t first = py->layout.size[S_PyObject];
	addr_t kind = 0;
	switch (s.o.kind) {
	case O_LIST: rc = sequence(&s); kind = py->types.list; break;
	case O_TUPLE: rc = sequence(&s); break;
	case O_DICT: rc = dictionary(&s); kind = py->types.dict; break;
	default:
		if (py->types.set && s.o.type == py->types.set)
			rc = set(&s);
		break;
	}
	if (!rc)
		rc = attributes(&s);
	if (!rc)
		rc = weak_references(&s);
	/* The words of these are no references, but addresses of such; what a class of their kind has of its own lies behind them. */
	if (rc || s.o.kind == O_TUPLE || (kind && s.o.type == kind) ||
	    ((s.o.kind == O_LIST || s.o.kind == O_DICT) && (!kind || READ(py, kind, PyType, tp_basicsize, &first) < 0)))
		return rc;
	return words(&s, first);
}
