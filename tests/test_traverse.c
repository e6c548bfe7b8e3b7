/* What of an object leads to where its traversal stopped, under every built-in layout; and what only looks so. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "build_py.h"
#include "every_layout.h"
#include "python/traverse.h"
#include "suite.h"

#define WILD UINT64_C(0x66600000)
enum { MANY = 1 << 20 };

static addr_t type_offset(const struct build *b)
{
	return (addr_t)b->layout.offset[F_PyObject_ob_type];
}

/* at is what `field` of obj, which holds value, led to; how -1: it is not said of it. */
static void expect(struct build *b, addr_t obj, addr_t at, bool near, int how, const char *field, addr_t value)
{
	struct traversed t = { 0 };
	uint64_t left = MANY;
	int rc = traverse_trip(build_py(b), obj, at, near, &left, b->arena, &t);
	MUST(rc == (how >= 0), "%s: %s: %d", b->layout.name, field, rc);
	if (rc)
		MUST((int)t.how == how && str_is(t.field, field) && t.value == value, "%s: %s: got %d " STR_FMT " 0x%llx", b->layout.name, field, (int)t.how,
		     STR_ARG(t.field), (unsigned long long)t.value);
	MUST(left < MANY, "%s: %s counts nothing", b->layout.name, field);
}

static void lists(const struct layout *l)
{
	struct build *b = build_new(l);
	const unsigned width = l->abi.width;
	const addr_t one = build_int(b, 1), items[] = { one, one, one, one };
	addr_t list = build_list(b, (const addr_t[]){ one, one, one, one, one }, 5), at = build_field_get(b, list, F_PyList_ob_item);
	WRITE(b, list, PyList, ob_size, 4);
	WRITE(b, list, PyList, allocated, 4);
	expect(b, list, WILD + type_offset(b), false, -1, "whole", 0);
	build_ptr(b, at + 2 * width, WILD);
	expect(b, list, WILD + type_offset(b), false, TRAVERSED_ITEM, "ob_item[2]", WILD);
	expect(b, list, WILD + l->size[S_PyObject], false, -1, "past the object", 0);
	expect(b, list, WILD - width, false, -1, "before it", 0);
	build_ptr(b, at + 2 * width, (addr_t)-1 & (width == 4 ? 0xffffffff : ~UINT64_C(0)));
	expect(b, list, width, false, -1, "an address that wraps", 0);
	build_ptr(b, at + 2 * width, 0);
	expect(b, list, type_offset(b), false, -1, "nothing, which is not visited", 0);
	/* What it leads to is an object: that is not where it stopped. */
	build_ptr(b, at + 2 * width, one);
	expect(b, list, one + type_offset(b), false, -1, "an object", 0);
	/* Not its items, but how many. */
	WRITE(b, list, PyList, ob_size, 1 << 24);
	expect(b, list, at + ((1 << 24) - 1) * width, false, TRAVERSED_COUNT, "ob_size", 1 << 24);
	expect(b, list, at + ((1 << 24) - 1) * width + 1, false, -1, "between two items", 0);
	/* What lies behind the items may look like one of them. */
	WRITE(b, list, PyList, ob_size, 5);
	build_ptr(b, at + 4 * width, WILD);
	expect(b, list, WILD + type_offset(b), false, TRAVERSED_COUNT, "ob_size", 5);
	WRITE(b, list, PyList, allocated, 5);
	expect(b, list, WILD + type_offset(b), false, TRAVERSED_ITEM, "ob_item[4]", WILD);
	WRITE(b, list, PyList, allocated, 4);
	WRITE(b, list, PyList, ob_size, 4);
	WRITE(b, list, PyList, ob_item, WILD);
	expect(b, list, WILD + 3 * width, false, TRAVERSED_ARRAY, "ob_item", WILD);
	expect(b, list, WILD + 4 * width, false, -1, "past the items", 0);
	WRITE(b, list, PyList, ob_size, -1);
	expect(b, list, WILD, false, -1, "a count that is negative", 0);

	addr_t tuple = build_tuple(b, items, 4);
	build_ptr(b, build_field_at(b, tuple, F_PyTuple_ob_item) + width, WILD);
	expect(b, tuple, WILD, false, TRAVERSED_ITEM, "ob_item[1]", WILD);
	WRITE(b, tuple, PyTuple, ob_size, UINT64_C(1) << (width * 8 - 2));
	expect(b, tuple, build_field_at(b, tuple, F_PyTuple_ob_item) + (UINT64_C(1) << 28) * width, false, TRAVERSED_COUNT, "ob_size", UINT64_C(1) << (width * 8 - 2));
	/* Bounded. */
	struct traversed t;
	uint64_t left = 0;
	ck_assert_int_eq(traverse_trip(build_py(b), tuple, WILD, false, &left, b->arena, &t), 0);
	/* Where memory was lost that the file should have, an object may have been. */
	WRITE(b, list, PyList, ob_size, 4);
	WRITE(b, list, PyList, ob_item, at);
	build_ptr(b, at + 2 * width, WILD);
	struct py *py = build_py(b);
	left = MANY;
	ck_assert_int_eq(traverse_trip(py, list, WILD, false, &left, b->arena, &t), 1);
	image_add_lost(py->img, WILD, WILD + 4096);
	left = MANY;
	ck_assert_int_eq(traverse_trip(py, list, WILD, false, &left, b->arena, &t), 0);
	build_free(b);
}

static void dicts(const struct layout *l)
{
	const enum build_dict how[] = { BUILD_DICT, BUILD_GENERAL, BUILD_SPLIT };
	for (size_t i = 0; i < sizeof how / sizeof *how; i++) {
		struct build *b = build_new(l);
		addr_t dict = build_dict(b, how[i]);
		build_dict_str(b, dict, "first", build_int(b, 1));
		build_dict_str(b, dict, "last", WILD);
		build_settle(b);
		expect(b, dict, WILD + type_offset(b), false, TRAVERSED_ITEM, "value of 'last'", WILD);
		expect(b, dict, WILD + 64, false, -1, "elsewhere", 0);
		if (how[i] == BUILD_GENERAL)
			build_dict_set(b, dict, WILD + 0x100, build_int(b, 2));
		build_settle(b);
		if (how[i] == BUILD_GENERAL && layout_has(l, F_PyDict_ma_keys))
			expect(b, dict, WILD + 0x100, false, TRAVERSED_ITEM, "key of entry 2", WILD + 0x100);
		const bool table = layout_has(l, F_PyDict_ma_table);
		if (!table && build_field_get(b, dict, F_PyDict_ma_values)) {
			WRITE(b, dict, PyDict, ma_values, 2 * WILD);
			expect(b, dict, 2 * WILD, false, TRAVERSED_ARRAY, "ma_values", 2 * WILD);
		}
		build_field(b, dict, table ? F_PyDict_ma_table : F_PyDict_ma_keys, UINT64_C(0x30000000));
		expect(b, dict, UINT64_C(0x30000000) + 4, false, TRAVERSED_ARRAY, table ? "ma_table" : "ma_keys", UINT64_C(0x30000000));
		build_free(b);
	}
}

static void sets(const struct layout *l)
{
	enum { SLOTS = 8 };
	struct build *b = build_new(l);
	const addr_t type = build_type(b, "set", O_OTHER, false), set = build_object(b, type, l->size[S_PySet]), size = l->size[S_PySetEntry];
	const addr_t table = build_alloc(b, SLOTS * size);
	struct traversed t;
	WRITE(b, set, PySet, table, table);
	WRITE(b, set, PySet, mask, SLOTS - 1);
	WRITE(b, table + 5 * size, PySetEntry, key, WILD);
	const struct { addr_t table, mask, at; int how; const char *field; addr_t value; } cases[] = {
		{ table, SLOTS - 1, WILD + type_offset(b), TRAVERSED_ITEM, "table[5]", WILD },
		{ table, 3, WILD + type_offset(b), -1, "fewer slots", 0 },
		{ table, SLOTS - 2, WILD + type_offset(b), -1, "a mask that is none", 0 },
		{ 2 * WILD, SLOTS - 1, 2 * WILD + 3, TRAVERSED_ARRAY, "table", 2 * WILD },
		{ 2 * WILD, SLOTS - 1, 2 * WILD + SLOTS * size, -1, "past the table", 0 },
		{ 2 * WILD, (addr_t)-1, 2 * WILD, -1, "a mask of all bits", 0 },
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		WRITE(b, set, PySet, table, cases[i].table);
		WRITE(b, set, PySet, mask, cases[i].mask);
		struct py *py = build_py(b);
		py->types.set = type;
		uint64_t left = MANY;
		const int rc = traverse_trip(py, set, cases[i].at, false, &left, b->arena, &t);
		MUST(rc == (cases[i].how >= 0), "%s: %s: %d", l->name, cases[i].field, rc);
		MUST(!rc || ((int)t.how == cases[i].how && str_is(t.field, cases[i].field) && t.value == cases[i].value), "%s: %s: " STR_FMT, l->name, cases[i].field, STR_ARG(t.field));
	}
	build_free(b);
}

/* Where an instance keeps its attributes outside of a dictionary. */
static void values(const struct layout *l)
{
	struct build *b = build_new(l);
	const char *const names[] = { "first" };
	const addr_t one = build_int(b, 1), outside = 2 * WILD, o = build_instance(b, "Plain", names, &one, 1, true), width = l->abi.width;
	const int64_t way = TRAIT(b, attributes);
	build_settle(b);
	if (way == ATTRIBUTES_WORDS || way == ATTRIBUTES_TAGGED) {
		build_ptr(b, o + (addr_t)(way == ATTRIBUTES_WORDS ? TRAIT(b, managed_values_word) : TRAIT(b, managed_dict_word)) * width, way == ATTRIBUTES_WORDS ? outside : outside - 1);
		expect(b, o, outside + 4, false, TRAVERSED_ARRAY, "values", outside);
		expect(b, o, outside - 4, false, -1, "before them", 0);
	}
	if (TRAIT(b, flag_managed_dict) >= 0) {
		build_ptr(b, o + (addr_t)TRAIT(b, managed_dict_word) * width, WILD);
		expect(b, o, WILD + type_offset(b), false, TRAVERSED_ITEM, "__dict__", WILD);
	}
	build_free(b);
}

/* Entries that are passed over, since they have no value, count too: one table of nothing else may be that of many dictionaries. */
static void holes(const struct layout *l)
{
	enum { HOLES = 40 };
	struct build *b = build_new(l);
	struct traversed t;
	addr_t dict = build_dict(b, BUILD_DICT);
	char name[16];
	for (int i = 0; i < HOLES; i++) {
		snprintf(name, sizeof name, "hole%d", i);
		build_dict_str(b, dict, name, 0);
	}
	build_dict_str(b, dict, "last", WILD);
	build_settle(b);
	struct py *py = build_py(b);
	uint64_t left = MANY;
	MUST(traverse_trip(py, dict, WILD, false, &left, b->arena, &t) == 1, "%s", l->name);
	MUST(MANY - left > HOLES, "%s: %d counted", l->name, (int)(MANY - left));
	left = HOLES;
	MUST(traverse_trip(py, dict, WILD, false, &left, b->arena, &t) == 0 && left == 0, "%s: %d left", l->name, (int)left);
	build_free(b);
}

/* Words that lead to nothing are looked up among the members of their type, and its bases. */
static void members(const struct layout *l)
{
	enum { MEMBERS = 50 };
	struct build *b = build_new(l);
	const unsigned width = l->abi.width;
	struct traversed t;
	const addr_t type = build_type(b, "Node", O_OTHER, true), word = l->size[S_PyObject] + width;
	WRITE(b, type, PyType, tp_basicsize, l->size[S_PyObject] + 4 * width);
	addr_t node = build_object(b, type, l->size[S_PyObject] + 4 * width), all = build_alloc(b, 5 * width * (MEMBERS + 1));
	for (unsigned i = 0; i < MEMBERS; i++)
		build_ptr(b, all + 5 * width * i, build_cstr(b, "other"));
	WRITE(b, type, PyType, tp_members, all);
	build_ptr(b, node + word, WILD);
	struct py *py = build_py(b);
	uint64_t left = MANY;
	MUST(traverse_trip(py, node, WILD, false, &left, b->arena, &t) == 0 && MANY - left > MEMBERS, "%s: %d counted", l->name, (int)(MANY - left));
	left = MEMBERS / 2;
	MUST(traverse_trip(py, node, WILD, false, &left, b->arena, &t) == 0 && left == 0, "%s: %d left", l->name, (int)left);
	build_free(b);
}

static void others(const struct layout *l)
{
	struct build *b = build_new(l);
	const unsigned width = l->abi.width;
	const addr_t type = build_type(b, "Node", O_OTHER, true), word = l->size[S_PyObject] + width;
	WRITE(b, type, PyType, tp_basicsize, l->size[S_PyObject] + 4 * width);
	addr_t node = build_object(b, type, l->size[S_PyObject] + 4 * width);
	char name[32];
	snprintf(name, sizeof name, "word at +0x%llx", (unsigned long long)word);
	build_ptr(b, node + word, WILD);
	/* What the word means is not known, so only where the object is known to be looked at is it said. */
	expect(b, node, WILD + type_offset(b), false, -1, name, 0);
	expect(b, node, WILD + type_offset(b), true, TRAVERSED_ITEM, name, WILD);
	expect(b, node, WILD + 0x100, true, TRAVERSED_NEAR, name, WILD);
	expect(b, node, WILD + 0x10000, true, -1, "far", 0);
	/* A small number is no address. */
	build_ptr(b, node + word, 0x1000);
	expect(b, node, 0x1000, true, -1, "a number", 0);
	/* A member has a name. */
	addr_t members = build_alloc(b, 15 * width);
	build_ptr(b, members, build_cstr(b, "__dictoffset__"));
	build_uint(b, members + width, 4, 19); /* Py_T_PYSSIZET */
	build_ptr(b, members + 2 * width, word);
	build_ptr(b, members + 5 * width, build_cstr(b, "right"));
	build_uint(b, members + 6 * width, 4, 16);
	build_ptr(b, members + 7 * width, word);
	WRITE(b, type, PyType, tp_members, members);
	build_ptr(b, node + word, WILD);
	expect(b, node, WILD, false, TRAVERSED_ITEM, "attribute right", WILD);
	/* What every type says. */
	WRITE(b, type, PyType, tp_dictoffset, word);
	expect(b, node, WILD, false, TRAVERSED_ITEM, "__dict__", WILD);
	WRITE(b, type, PyType, tp_dictoffset, 0);
	WRITE(b, type, PyType, tp_weaklistoffset, word);
	expect(b, node, WILD, false, TRAVERSED_ITEM, "list of weak references", WILD);
	/* It would have to be read before what the word leads to. */
	build_ptr(b, node + word, width == 4 ? 0xffffffff : ~UINT64_C(0));
	expect(b, node, 0x100, true, -1, "an address that wraps", 0);
	/* Before the object, 3.12 and later. */
	build_ptr(b, node + word, 0);
	WRITE(b, type, PyType, tp_weaklistoffset, (uint64_t)-4 * width);
	build_ptr(b, node - 4 * width, WILD);
	expect(b, node, WILD + type_offset(b), false, TRAVERSED_ITEM, "list of weak references", WILD);
	expect(b, node, WILD + 0x40, true, TRAVERSED_NEAR, "list of weak references", WILD);
	expect(b, node, WILD + 0x40, false, -1, "near it", 0);
	/* Far before it, and as far as a number goes. */
	WRITE(b, type, PyType, tp_weaklistoffset, (uint64_t)1 << (8 * width - 1));
	expect(b, node, WILD + type_offset(b), false, -1, "the least number", 0);
	WRITE(b, type, PyType, tp_weaklistoffset, (uint64_t)-4000);
	expect(b, node, WILD + type_offset(b), false, -1, "far before it", 0);

	/* What CPython has of its own is known by name; a class of that name is not it. */
	if (layout_has(l, F_PyCell_ob_ref)) {
		const addr_t at = (addr_t)l->offset[F_PyCell_ob_ref];
		snprintf(name, sizeof name, "word at +0x%llx", (unsigned long long)at);
		for (int class = 0; class < 2; class++) {
			const addr_t cells = build_type(b, "cell", O_OTHER, class), cell = build_object(b, cells, at + width);
			WRITE(b, cells, PyType, tp_basicsize, at + width);
			build_ptr(b, cell + at, WILD);
			expect(b, cell, WILD, true, TRAVERSED_ITEM, class ? name : "ob_ref", WILD);
			expect(b, cell, WILD, false, class ? -1 : TRAVERSED_ITEM, "ob_ref", WILD);
		}
	}

	/* A class of list's kind, with a word of its own behind those of list. */
	const addr_t derived = build_type(b, "Kind", O_LIST, true), own = l->size[S_PyList] + width;
	WRITE(b, b->types.list, PyType, tp_basicsize, own);
	WRITE(b, derived, PyType, tp_basicsize, own + width);
	WRITE(b, derived, PyType, tp_members, members);
	build_ptr(b, members + 7 * width, own);
	const addr_t kind = build_object(b, derived, own + width);
	build_ptr(b, kind + own, WILD);
	build_ptr(b, kind + own - width, WILD);
	expect(b, kind, WILD, false, TRAVERSED_ITEM, "attribute right", WILD);
	build_ptr(b, kind + own, 0);
	expect(b, kind, WILD, true, -1, "a word of list's", 0);

	if (TRAIT(b, flag_managed_dict) >= 0) {
		const char *const names[] = { "first", "second" };
		const addr_t values[] = { build_int(b, 1), WILD };
		addr_t o = build_instance(b, "Plain", names, values, 2, true);
		build_settle(b);
		expect(b, o, WILD + type_offset(b), false, TRAVERSED_ITEM, "attribute second", WILD);
		/* A dictionary is an object of its own, which is traversed by itself. */
		o = build_instance(b, "Kept", names, values, 2, false);
		build_settle(b);
		expect(b, o, WILD + type_offset(b), false, -1, "its dictionary's", 0);
	}
	build_free(b);
}

static void (*const cases[])(const struct layout *l) = { lists, dicts, sets, values, holes, members, others };

START_TEST(traverse)
{
	each_layout(cases[_i]);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("traverse");
	TCase *tc = tcase_create("traverse");
	tcase_set_timeout(tc, 60);
	tcase_add_loop_test(tc, traverse, 0, COUNT(cases));
	suite_add_tcase(s, tc);
	return suite_run(s);
}
