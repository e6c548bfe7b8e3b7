/* Views of objects under every built-in layout: each kind whole, then with holes and nonsense in it. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "build_py.h"
#include "every_layout.h"
#include "suite.h"

static struct object view(const struct py *py, addr_t addr)
{
	struct object o = { 0 };
	int rc = object_at(py, addr, &o);
	MUST(rc == 0, "%s: object 0x%llx: %d", py->layout.name, (unsigned long long)addr, rc);
	return o;
}

static void kinds(const struct layout *l)
{
	struct build *b = build_bare(l);
	addr_t sub = build_type(b, "MyStr", O_STR, true), text = build_str(b, "x"), meta = build_type(b, "Meta", O_TYPE, true);
	addr_t made = build_type(b, "Made", O_OTHER, true), error = build_exception(b, build_type(b, "E", O_EXCEPTION, true), 0);
	WRITE(b, text, PyObject, ob_type, sub);
	WRITE(b, made, PyObject, ob_type, meta);
	addr_t of_made = build_object(b, made, 32);
	const struct { addr_t at; int kind; } cases[] = {
		{ build_str(b, "x"), layout_has(l, F_PyUnicode_kind) ? O_STR : O_BYTES }, { text, O_STR },
		{ build_bytes(b, "x", 1), O_BYTES }, { build_int(b, 1), O_INT }, { b->true_, O_INT },
		{ build_tuple(b, NULL, 0), O_TUPLE }, { build_list(b, NULL, 0), O_LIST }, { build_dict(b, BUILD_DICT), O_DICT },
		{ b->types.type, O_TYPE }, { b->types.object, O_TYPE }, { made, O_TYPE }, { error, O_EXCEPTION },
		{ of_made, O_OTHER }, { b->types.none, O_OTHER }, { build_float(b, 1.5), O_OTHER },
	};
	struct py *py = build_py(b);
	/* Once with `type` known, once as while a layout is being proved. */
	for (unsigned known = 2; known-- > 0; py->types = (struct py_types){ 0 })
		for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
			ck_assert_msg(view(py, cases[i].at).kind == cases[i].kind, "%s: case %zu is %d, not %d", l->name, i,
				      view(py, cases[i].at).kind, cases[i].kind);
	build_free(b);
}

static void not_objects(const struct layout *l)
{
	struct build *b = build_bare(l);
	addr_t no_type = build_int(b, 1), wild = build_int(b, 1), odd = build_int(b, 1), lost = build_int(b, 1);
	addr_t not_type = build_int(b, 1), loop = build_int(b, 1), untyped = build_int(b, 1);
	WRITE(b, no_type, PyObject, ob_type, 0);
	WRITE(b, wild, PyObject, ob_type, 0x7000);
	WRITE(b, odd, PyObject, ob_type, b->types.int_ + 1);
	WRITE(b, not_type, PyObject, ob_type, build_int(b, 7));
	/* Two types that are each other's type. */
	addr_t one = build_type(b, "One", O_TYPE, true), two = build_type(b, "Two", O_TYPE, true);
	WRITE(b, one, PyObject, ob_type, two);
	WRITE(b, two, PyObject, ob_type, one);
	WRITE(b, loop, PyObject, ob_type, one);
	/* A type whose type is not one. */
	addr_t bad = build_type(b, "Bad", O_OTHER, true);
	WRITE(b, bad, PyObject, ob_type, b->types.none_type);
	WRITE(b, untyped, PyObject, ob_type, bad);
	/* Whole, but not at a multiple of a pointer's width; and a type that has no type. */
	addr_t shifted = build_alloc(b, 64) + l->abi.width / 2u, orphan = build_type(b, "Orphan", O_OTHER, true);
	addr_t of_orphan = build_object(b, orphan, 16);
	build_ptr(b, shifted + (addr_t)l->offset[F_PyObject_ob_type], b->types.int_);
	WRITE(b, orphan, PyObject, ob_type, 0);
	build_lose(b, lost, l->size[S_PyObject]);
	const struct { const char *what; addr_t at; int rc; } cases[] = {
		{ "shifted", shifted, ERR_CORRUPT }, { "of a type without type", of_orphan, ERR_CORRUPT },
		{ "0", 0, ERR_FAULT }, { "not there", 0x7000, ERR_FAULT }, { "unaligned", b->types.none + 1, ERR_CORRUPT },
		{ "no type", no_type, ERR_CORRUPT }, { "wild type", wild, ERR_FAULT }, { "odd type", odd, ERR_CORRUPT },
		{ "not a type", not_type, ERR_CORRUPT }, { "types in a circle", loop, ERR_CORRUPT },
		{ "type of no type", untyped, ERR_CORRUPT }, { "lost", lost, ERR_FAULT }, { "end of memory", UINT64_MAX - 7, ERR_FAULT },
	};
	struct py *py = build_py(b);
	for (unsigned known = 2; known-- > 0; py->types = (struct py_types){ 0 })
		for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
			struct object o = { .addr = 7 };
			int rc = object_at(py, cases[i].at, &o);
			ck_assert_msg(rc == cases[i].rc, "%s: %s: rc %d", l->name, cases[i].what, rc);
			ck_assert_uint_eq(o.addr, 7);
		}
	build_free(b);
}

static void ints(const struct layout *l)
{
	static const int64_t values[] = { 0, 1, -1, 255, 1 << 15, (1 << 30) - 1, 1 << 30, -(1 << 30), INT64_C(1) << 60, -(INT64_C(1) << 60),
		INT64_C(0x7f0000000700), INT64_MAX, INT64_MIN, INT64_MIN + 1 };
	enum { N = sizeof values / sizeof *values };
	struct build *b = build_bare(l);
	addr_t at[N];
	for (size_t i = 0; i < N; i++)
		at[i] = build_int(b, values[i]);
	bool tag = l->trait[T_int_sign] == INT_SIGN_LV_TAG;
	enum py_field size = tag ? F_PyLong_lv_tag : F_PyLong_ob_size;
	addr_t wide = build_long(b, INT64_MAX), above = build_long(b, INT64_MIN), huge = build_long(b, 1), digit = build_long(b, 1);
	addr_t cut = build_long(b, 1), sign = build_long(b, 1);
	/* Of the digits of 2**63 - 1 the topmost is made greater: above 2**64, what is shifted out must not be lost. */
	size_t top = 63 / (size_t)l->trait[T_digit_bits] * l->size[S_PyDigit];
	build_uint(b, build_field_at(b, wide, F_PyLong_ob_digit) + top, l->size[S_PyDigit], 1 << 10);
	/* 2**63, 7 million digits, a digit with its top bit set, a digit that is not there. */
	build_field(b, above, size, tag ? build_field_get(b, above, size) & ~UINT64_C(3) : -build_field_get(b, above, size));
	build_field(b, huge, size, tag ? 7000000u << 3 : 7000000);
	build_uint(b, build_field_at(b, digit, F_PyLong_ob_digit), l->size[S_PyDigit], 0xffffffff);
	build_lose(b, build_field_at(b, cut, F_PyLong_ob_digit), 4);
	build_field(b, sign, size, tag ? 1 << 3 | 3 : UINT64_C(1) << (8 * l->abi.width - 1));
	struct py *py = build_py(b);
	struct object o;
	int64_t got;

	for (size_t i = 0; i < N; i++) {
		o = view(py, at[i]);
		ck_assert_int_eq(object_int(&o, &got), 0);
		ck_assert_msg(got == values[i], "%s: %lld, not %lld", l->name, (long long)got, (long long)values[i]);
	}
	got = -7;
	o = view(py, wide);
	ck_assert_int_eq(object_int(&o, &got), ERR_LIMIT);
	o = view(py, above);
	ck_assert_int_eq(object_int(&o, &got), ERR_LIMIT);
	o = view(py, huge);
	ck_assert_int_eq(object_int(&o, &got), ERR_LIMIT);
	o = view(py, digit);
	ck_assert_int_eq(object_int(&o, &got), ERR_CORRUPT);
	o = view(py, cut);
	ck_assert_int_eq(object_int(&o, &got), ERR_FAULT);
	o = view(py, sign);
	/* with 32 bits its size is only too large */
	ck_assert_int_eq(object_int(&o, &got), tag || l->abi.width == 8 ? ERR_CORRUPT : ERR_LIMIT);
	o = view(py, b->types.none);
	ck_assert_int_eq(object_int(&o, &got), ERR_ABSENT);
	ck_assert_int_eq(got, -7);
	build_free(b);
}

/* Every kind of str, with what UTF-8 should come out. */
static const struct {
	uint32_t cp[6];
	size_t n;
	unsigned unit;
	const char *utf8;
} texts[] = {
	{ { 0 }, 0, 1, "" },
	{ { 'a', 'b' }, 2, 1, "ab" },
	{ { 'a', 0, 'b' }, 3, 1, "a\0b" },
	{ { 'a', 0xe9 }, 2, 1, "a\u00e9" },
	{ { 0x65e5, 'x', 0x20ac }, 3, 2, "\u65e5x\u20ac" },
	{ { 'x' }, 1, 2, "x" },
	{ { 0x1f40d, 'x', 0x10ffff }, 3, 4, "\U0001f40dx\U0010ffff" },
	{ { 'a', 0xd800, 'b' }, 3, 2, "a\\ud800b" },
	{ { 0xdfff, 0xd800 }, 2, 4, "\\udfff\\ud800" },
};

static void text_kinds(const struct layout *l)
{
	struct build *b = build_bare(l);
	for (enum build_text how = BUILD_COMPACT; how <= BUILD_WSTR; how++) {
		if (!build_can_text(b, how))
			continue;
		for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
			unsigned unit = how == BUILD_WSTR ? 4 : texts[i].unit;
			addr_t at = build_text(b, texts[i].cp, texts[i].n, unit, how);
			struct py *py = build_py(b);
			struct object o = view(py, at);
			struct str s;
			uint64_t total;
			size_t len = texts[i].n == 3 && !texts[i].cp[1] ? 3 : strlen(texts[i].utf8);
			ck_assert_int_eq(object_text(&o, b->arena, 100, &s, &total), 0);
			ck_assert_msg(s.s && s.len == len && memcmp(s.s, texts[i].utf8, len) == 0, "%s: text %zu way %d: %.*s", l->name, i,
				      how, STR_ARG(s));
			ck_assert_uint_eq(total, texts[i].n);
			ck_assert(str_valid(s.s, s.len));
			ck_assert_int_eq(object_text(&o, b->arena, 1, &s, &total), 0);
			ck_assert_uint_eq(total, texts[i].n);
			ck_assert(s.len <= 6);
			ck_assert_int_eq(object_text_is(&o, "ab"), i == 1);
			ck_assert_int_eq(object_text_is(&o, "x"), i == 5);
			ck_assert_int_eq(object_text_is(&o, ""), i == 0);
		}
	}
	build_free(b);
}

static void long_texts(const struct layout *l)
{
	struct build *b = build_bare(l);
	enum { N = 10000 };
	uint32_t *cp = xcalloc(N, sizeof *cp);
	for (size_t i = 0; i < N; i++)
		cp[i] = 0x4e00 + (uint32_t)(i % 1000);
	enum build_text how = build_can_text(b, BUILD_COMPACT) ? BUILD_COMPACT : BUILD_POINTER;
	addr_t whole = build_text(b, cp, N, 2, how), cut = build_text(b, cp, N, 2, how);
	if (how == BUILD_COMPACT)
		build_lose(b, build_field_at(b, cut, F_PyUnicode_data_compact) + 18000, 8);
	else
		build_lose(b, build_field_get(b, cut, F_PyUnicode_wide) + 9000 * (size_t)TRAIT(b, wide_unit), 8);
	struct py *py = build_py(b);
	struct str s = { 0 };
	struct object o = view(py, whole);
	ck_assert_int_eq(object_text(&o, b->arena, SIZE_MAX, &s, NULL), 0);
	ck_assert_uint_eq(s.len, 3 * N);
	size_t used;
	for (size_t i = 0; i < N; i++)
		MUST(str_decode(s.s + 3 * i, 3, &used) == cp[i], "character %zu", i);
	s = (struct str){ 0 };
	o = view(py, cut);
	ck_assert_int_eq(object_text(&o, b->arena, N, &s, NULL), ERR_FAULT);
	ck_assert(!s.s);
	ck_assert_int_eq(object_text(&o, b->arena, 9000, &s, NULL), 0); /* up to the hole is there */
	ck_assert_uint_eq(s.len, 27000);
	free(cp);
	build_free(b);
}

/* 2.7's unicode in a narrow build: pairs are one character, halves of pairs are told. */
static void pairs(const struct layout *l)
{
	if (l->trait[T_str_model] != STR_MODEL_WIDE)
		return;
	struct layout narrow = *l;
	narrow.trait[T_wide_unit] = 2;
	struct build *b = build_bare(&narrow);
	static const uint32_t whole[] = { 'a', 0x1f40d, 0x20ac }, halves[] = { 0xd83d, 'b', 0xdc0d, 0xd800 };
	addr_t at = build_text(b, whole, 3, 4, BUILD_POINTER), half = build_text(b, halves, 4, 2, BUILD_POINTER);
	addr_t negative = build_text(b, whole, 3, 4, BUILD_POINTER), none = build_text(b, whole, 3, 4, BUILD_POINTER);
	WRITE(b, negative, PyUnicode, length, -1);
	WRITE(b, none, PyUnicode, wide, 0);
	struct py *py = build_py(b);
	struct str s = { 0 };
	uint64_t total;
	struct object o = view(py, at);
	ck_assert_int_eq(object_text(&o, b->arena, 100, &s, &total), 0);
	ck_assert_msg(str_is(s, "a\U0001f40d\u20ac") && total == 4, STR_FMT, STR_ARG(s));
	o = view(py, half);
	ck_assert_int_eq(object_text(&o, b->arena, 100, &s, NULL), 0);
	ck_assert_msg(str_is(s, "\\ud83db\\udc0d\\ud800"), STR_FMT, STR_ARG(s));
	o = view(py, negative);
	ck_assert_int_eq(object_text(&o, b->arena, 100, &s, NULL), ERR_CORRUPT);
	o = view(py, none);
	ck_assert_int_eq(object_text(&o, b->arena, 100, &s, NULL), ERR_CORRUPT);
	build_free(b);
}

/* 2.7: instances of classes that derive from nothing keep their dictionary in a place of their own. */
static void old_instances(const struct layout *l)
{
	if (!layout_has(l, F_PyInstance_in_dict))
		return;
	struct build *b = build_bare(l);
	addr_t at = build_object(b, b->types.instance, l->size[S_PyInstance]), dict = build_dict(b, BUILD_DICT), got;
	build_dict_str(b, dict, "name", b->true_);
	WRITE(b, at, PyInstance, in_dict, dict);
	struct py *py = build_py(b);
	struct object o = view(py, at);
	ck_assert_int_eq(object_attr(&o, "name", &got), 0);
	ck_assert_uint_eq(got, b->true_);
	ck_assert_int_eq(object_attr(&o, "other", &got), ERR_ABSENT);
	build_free(b);
}

static void bad_texts(const struct layout *l)
{
	if (l->trait[T_str_model] != STR_MODEL_COMPACT)
		return;
	struct build *b = build_bare(l);
	static const uint32_t cp[] = { 'a', 0x20ac }, out[] = { 0x110000 };
	enum { N = 7 };
	addr_t at[N];
	for (int i = 0; i < N; i++)
		at[i] = build_text(b, cp, 2, 2, i < 5 ? BUILD_COMPACT : BUILD_POINTER);
	WRITE(b, at[0], PyUnicode, length, -1);
	WRITE(b, at[1], PyUnicode, length, INT64_MAX / 2);
	WRITE(b, at[2], PyUnicode, kind, 3);
	WRITE(b, at[3], PyUnicode, kind, 0);
	WRITE(b, at[4], PyUnicode, ascii, 1);
	WRITE(b, at[5], PyUnicode, data, 0);
	WRITE(b, at[6], PyUnicode, data, UINT64_MAX - 1);
	addr_t above = build_text(b, out, 1, 4, BUILD_COMPACT), far = build_text(b, cp, 2, 2, BUILD_COMPACT);
	WRITE(b, far, PyUnicode, length, UINT64_C(1) << (l->abi.width == 8 ? 40 : 28)); /* could be, but is not there */
	struct py *py = build_py(b);
	struct str s = { "untouched", 9 };
	struct object o;
	for (int i = 0; i < (l->abi.width == 4 ? N - 1 : N); i++) { /* with 32 bits the last one does not wrap */
		o = view(py, at[i]);
		int rc = object_text(&o, b->arena, 100, &s, NULL);
		ck_assert_msg(rc == ERR_CORRUPT, "%s: bad text %d: %d", l->name, i, rc);
		ck_assert_int_lt(object_text_is(&o, "a"), 0);
	}
	o = view(py, above);
	ck_assert_int_eq(object_text(&o, b->arena, 100, &s, NULL), ERR_CORRUPT);
	o = view(py, far);
	ck_assert_int_eq(object_text(&o, b->arena, SIZE_MAX, &s, NULL), ERR_FAULT);
	o = view(py, b->types.none);
	ck_assert_int_eq(object_text(&o, b->arena, 100, &s, NULL), ERR_ABSENT);
	ck_assert_uint_eq(s.len, 9);
	build_free(b);
}

static void bytes_kinds(const struct layout *l)
{
	struct build *b = build_bare(l);
	uint8_t data[9000];
	for (size_t i = 0; i < sizeof data; i++)
		data[i] = (uint8_t)(i * 7);
	addr_t empty = build_bytes(b, NULL, 0), big = build_bytes(b, data, sizeof data), negative = build_bytes(b, data, 8);
	addr_t cut = build_bytes(b, data, sizeof data);
	WRITE(b, negative, PyBytes, ob_size, -8);
	build_lose(b, build_field_at(b, cut, F_PyBytes_ob_sval) + 8000, 8);
	struct py *py = build_py(b);
	struct blob got = { data, 1 };
	uint64_t total = 7;
	struct object o = view(py, empty);
	ck_assert_int_eq(object_bytes(&o, b->arena, 100, &got, &total), 0);
	ck_assert(got.len == 0 && total == 0);
	o = view(py, big);
	ck_assert_int_eq(object_bytes(&o, b->arena, SIZE_MAX, &got, &total), 0);
	ck_assert(got.len == sizeof data && total == sizeof data && memcmp(got.p, data, sizeof data) == 0);
	ck_assert_int_eq(object_bytes(&o, b->arena, 5, &got, &total), 0);
	ck_assert(got.len == 5 && total == sizeof data);
	o = view(py, cut);
	ck_assert_int_eq(object_bytes(&o, b->arena, SIZE_MAX, &got, &total), ERR_FAULT);
	ck_assert_int_eq(object_bytes(&o, b->arena, 8000, &got, NULL), 0);
	o = view(py, negative);
	ck_assert_int_eq(object_bytes(&o, b->arena, 100, &got, &total), ERR_CORRUPT);
	ck_assert_uint_eq(got.len, 8000);
	build_free(b);
}

static void sequences(const struct layout *l)
{
	struct build *b = build_bare(l);
	addr_t items[] = { b->types.none, b->true_, 0, b->false_ };
	addr_t both[] = { build_tuple(b, items, 4), build_list(b, items, 4) }, absurd = build_tuple(b, items, 4);
	addr_t negative = build_list(b, items, 4), far = build_list(b, items, 4);
	WRITE(b, absurd, PyTuple, ob_size, INT64_MAX);
	WRITE(b, negative, PyList, ob_size, -3);
	const uint64_t many = UINT64_C(1) << (l->abi.width == 8 ? 40 : 28);
	WRITE(b, far, PyList, ob_size, many);
	struct py *py = build_py(b);
	uint64_t n = 7;
	addr_t at = 7;
	for (int k = 0; k < 2; k++) {
		struct object o = view(py, both[k]);
		ck_assert_int_eq(object_length(&o, &n), 0);
		ck_assert_uint_eq(n, 4);
		for (uint64_t i = 0; i < 4; i++) {
			ck_assert_int_eq(object_item(&o, i, &at), 0);
			ck_assert(at == items[i]);
		}
		at = 7;
		ck_assert_int_eq(object_item(&o, 4, &at), ERR_ABSENT);
		ck_assert_int_eq(object_item(&o, UINT64_MAX, &at), ERR_ABSENT);
	}
	n = 7;
	struct object o = view(py, absurd);
	ck_assert_int_eq(object_length(&o, &n), ERR_CORRUPT);
	ck_assert_int_eq(object_item(&o, 0, &at), ERR_CORRUPT);
	o = view(py, negative);
	ck_assert_int_eq(object_length(&o, &n), ERR_CORRUPT);
	o = view(py, far);
	ck_assert_int_eq(object_item(&o, many - 1, &at), ERR_FAULT);
	o = view(py, b->types.none);
	ck_assert_int_eq(object_length(&o, &n), ERR_ABSENT);
	ck_assert_int_eq(object_item(&o, 0, &at), ERR_ABSENT);
	ck_assert(n == 7 && at == 7);
	build_free(b);
}

static void attributes(const struct layout *l)
{
	static const char *const names[] = { "first", "_name", "gone", "last" };
	for (int as_values = 0; as_values < 2; as_values++) {
		struct build *b = build_bare(l);
		addr_t values[] = { build_int(b, 1), build_str(b, "worker"), 0, build_int(b, 4) };
		addr_t at = build_instance(b, "Thread", names, values, 4, as_values), got = 7;
		addr_t module = build_dict(b, BUILD_DICT), mod = build_module(b, "m", module);
		build_dict_str(b, module, "x", b->true_);
		struct py *py = build_py(b);
		struct object o = view(py, at);
		{ int rc = object_attr(&o, "gone", &got); ck_assert_msg(rc == ERR_ABSENT, "%s: %d", l->name, rc); }
		ck_assert_int_eq(object_attr(&o, "never", &got), ERR_ABSENT);
		ck_assert_uint_eq(got, 7);
		for (int i = 0; i < 4; i++)
			if (values[i]) {
				ck_assert_msg(object_attr(&o, names[i], &got) == 0, "%s: %s", l->name, names[i]);
				ck_assert(got == values[i]);
			}
		o = view(py, mod);
		ck_assert_int_eq(object_attr(&o, "x", &got), 0);
		ck_assert(got == b->true_);
		o = view(py, b->types.none);
		ck_assert_int_eq(object_attr(&o, "x", &got), ERR_ABSENT);
		build_free(b);
	}
}

/* A subclass of tuple has its dictionary behind its items: tp_dictoffset counts from the end. */
static void attributes_at_the_end(const struct layout *l)
{
	struct build *b = build_bare(l);
	unsigned width = l->abi.width;
	addr_t type = build_type(b, "Point", O_TUPLE, true), items[] = { b->types.none, b->true_, b->false_ }, got;
	addr_t at = build_tuple(b, items, 3), dict = build_dict(b, BUILD_DICT);
	addr_t start = build_field_at(b, 0, F_PyTuple_ob_item);
	WRITE(b, at, PyObject, ob_type, type);
	WRITE(b, type, PyType, tp_basicsize, start + width);
	WRITE(b, type, PyType, tp_itemsize, width);
	WRITE(b, type, PyType, tp_dictoffset, -(int64_t)width);
	build_ptr(b, at + start + 3 * width, dict);
	build_dict_str(b, dict, "label", b->true_);
	struct py *py = build_py(b);
	struct object o = view(py, at);
	ck_assert_int_eq(object_attr(&o, "label", &got), 0);
	ck_assert(got == b->true_);
	WRITE(b, at, PyTuple, ob_size, INT64_MAX);
	o = view(build_py(b), at);
	ck_assert_int_lt(object_attr(&o, "label", &got), 0);
	WRITE(b, type, PyType, tp_dictoffset, INT64_MIN);
	o = view(build_py(b), at);
	ck_assert_int_lt(object_attr(&o, "label", &got), 0);
	build_free(b);
}

/* A dictionary asked for after the values were made, and values that are not valid any more (3.13). */
static void attributes_moved(const struct layout *l)
{
	static const char *const names[] = { "a" };
	if (l->trait[T_attributes] == ATTRIBUTES_DICTOFFSET)
		return;
	struct build *b = build_bare(l);
	addr_t values[] = { b->true_ }, at = build_instance(b, "C", names, values, 1, true), dict = build_dict(b, BUILD_DICT), got;
	build_dict_str(b, dict, "a", b->false_);
	addr_t word = at + (addr_t)((int64_t)l->trait[T_managed_dict_word] * l->abi.width);
	if (l->trait[T_attributes] == ATTRIBUTES_INLINE) {
		addr_t inside = at + build_field_get(b, view(build_py(b), at).type, F_PyType_tp_basicsize);
		WRITE(b, inside, PyDictValues, valid, 0);
		struct object o = view(build_py(b), at);
		ck_assert_int_eq(object_attr(&o, "a", &got), ERR_ABSENT);
	}
	build_ptr(b, word, dict);
	struct object o = view(build_py(b), at);
	ck_assert_int_eq(object_attr(&o, "a", &got), 0);
	ck_assert(got == b->false_);
	build_ptr(b, word, 0x7000);
	o = view(build_py(b), at);
	ck_assert_int_eq(object_attr(&o, "a", &got), ERR_FAULT);
	build_ptr(b, word, 0x7001);
	o = view(build_py(b), at);
	ck_assert_int_lt(object_attr(&o, "a", &got), 0);
	build_free(b);
}

static void names_of_types(const struct layout *l)
{
	struct build *b = build_bare(l);
	addr_t heap = build_type(b, "Z\u00fcrich", O_OTHER, true), unnamed = build_type(b, "x", O_OTHER, true);
	addr_t endless = build_type(b, "x", O_OTHER, false);
	char *big = xmalloc(10001);
	memset(big, 'x', 10000);
	big[10000] = 0;
	WRITE(b, endless, PyType, tp_name, build_cstr(b, big));
	free(big);
	WRITE(b, unnamed, PyHeapType, ht_name, b->types.none);
	struct py *py = build_py(b);
	struct str s;
	ck_assert_int_eq(type_name(py, heap, b->arena, &s), 0);
	ck_assert(str_is(s, "Z\u00fcrich"));
	ck_assert_int_eq(type_name(py, b->types.module, b->arena, &s), 0);
	ck_assert(str_is(s, "module"));
	ck_assert_int_eq(type_name(py, unnamed, b->arena, &s), ERR_CORRUPT);
	ck_assert_int_eq(type_name(py, endless, b->arena, &s), ERR_CORRUPT);
	ck_assert_int_lt(type_name(py, b->true_, b->arena, &s), 0);
	ck_assert_int_eq(type_name(py, 0, b->arena, &s), ERR_FAULT);
	/* An ordinary core has no .rodata: heap types keep their names. */
	b->no_rodata = true;
	py = build_py(b);
	ck_assert_int_eq(type_name(py, b->types.module, b->arena, &s), ERR_FAULT);
	ck_assert_int_eq(type_name(py, heap, b->arena, &s), 0);
	build_free(b);
}

static void (*const cases[])(const struct layout *l) = {
	kinds, not_objects, pairs, old_instances, ints, text_kinds, long_texts, bad_texts, bytes_kinds, sequences, attributes, attributes_at_the_end,
	attributes_moved, names_of_types,
};

START_TEST(objects)
{
	each_layout(cases[_i]);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("object");
	TCase *tc = tcase_create("object");
	tcase_set_timeout(tc, 60);
	tcase_add_loop_test(tc, objects, 0, COUNT(cases));
	suite_add_tcase(s, tc);
	return suite_run(s);
}
