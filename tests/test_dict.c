/* Dictionaries under every built-in layout: general, str keys, split, with holes; and damaged ones. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "build_py.h"
#include "every_layout.h"
#include "suite.h"

static const enum build_dict shapes[] = { BUILD_DICT, BUILD_GENERAL, BUILD_SPLIT };
enum { SHAPES = sizeof shapes / sizeof *shapes };

static void walks(const struct layout *l)
{
	/* Index tables of 1, 2 and 4 bytes an index. */
	static const size_t counts[] = { 0, 1, 5, 6, 85, 86, 200, 1000, 50000 };
	for (size_t s = 0; s < SHAPES; s++)
		for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
			size_t n = counts[c];
			if (shapes[s] == BUILD_SPLIT && n > 200) /* their capacity is one byte */
				continue;
			struct build *b = build_bare(l);
			addr_t d = build_dict(b, shapes[s]), *keys = xcalloc(n + 1, sizeof *keys), *values = xcalloc(n + 1, sizeof *values);
			for (size_t i = 0; i < n; i++) {
				char name[32];
				snprintf(name, sizeof name, "k%zu", i);
				keys[i] = build_str(b, name);
				values[i] = i % 7 == 3 ? 0 : build_object(b, b->types.object, 16); /* some are deleted */
				build_dict_set(b, d, keys[i], values[i]);
			}
			struct py *py = build_py(b);
			struct dict_walk w;
			addr_t key, value;
			int rc;
			ck_assert_int_eq(dict_begin(py, d, &w), 0);
			for (size_t i = 0; i < n; i++) {
				if (!values[i])
					continue;
				rc = dict_next(&w, &key, &value);
				MUST(rc == 1, "%s: shape %zu, %zu of %zu: rc %d", l->name, s, i, n, rc);
				MUST(key == keys[i] && value == values[i], "%s: shape %zu, entry %zu is another", l->name, s, i);
			}
			key = value = 7;
			ck_assert_int_eq(dict_next(&w, &key, &value), 0);
			ck_assert_int_eq(dict_next(&w, &key, &value), 0);
			ck_assert(key == 7 && value == 7);
			free(keys);
			free(values);
			build_free(b);
		}
}

static void lookups(const struct layout *l)
{
	static const uint32_t wide[] = { 'w', 'i', 'd', 'e' }, euro[] = { 0x20ac };
	struct build *b = build_bare(l);
	addr_t d = build_dict(b, BUILD_DICT), mixed = build_dict(b, BUILD_DICT), got = 7;
	addr_t sub = build_type(b, "Sub", O_STR, true), named = build_text(b, wide, 4, 1, BUILD_POINTER), bytes = build_bytes(b, "b", 1);
	WRITE(b, named, PyObject, ob_type, sub);
	build_dict_str(b, d, "modules", b->true_);
	build_dict_str(b, d, "module", b->false_);
	build_dict_str(b, d, "", b->types.none);
	build_dict_str(b, d, "gone", 0);
	/* Keys of all sorts come before the one that is wanted; one cannot be read at all. */
	addr_t lost = build_str(b, "lost");
	build_lose(b, lost, 16);
	build_dict_set(b, mixed, build_int(b, 5), b->types.none);
	build_dict_set(b, mixed, build_tuple(b, NULL, 0), b->types.none);
	build_dict_set(b, mixed, bytes, b->types.none);
	build_dict_set(b, mixed, build_text(b, euro, 1, 2, BUILD_COMPACT), b->types.none);
	build_dict_set(b, mixed, named, b->true_);
	build_dict_set(b, mixed, lost, b->true_);
	build_dict_str(b, mixed, "b", b->false_);
	struct py *py = build_py(b);
	ck_assert_int_eq(dict_get(py, d, "modules", &got), 0);
	ck_assert(got == b->true_);
	ck_assert_int_eq(dict_get(py, d, "module", &got), 0);
	ck_assert(got == b->false_);
	ck_assert_int_eq(dict_get(py, d, "", &got), 0);
	ck_assert(got == b->types.none);
	got = 7;
	ck_assert_int_eq(dict_get(py, d, "modulesx", &got), ERR_ABSENT);
	ck_assert_int_eq(dict_get(py, d, "gone", &got), ERR_ABSENT);
	ck_assert_uint_eq(got, 7);
	ck_assert_int_eq(dict_get(py, mixed, "wide", &got), 0);
	ck_assert(got == b->true_);
	/* b'b' is not 'b' since 3.0; in 2.7 it would have been found first. */
	ck_assert_int_eq(dict_get(py, mixed, "b", &got), 0);
	ck_assert(got == (layout_has(l, F_PyUnicode_kind) ? b->false_ : b->types.none));
	build_free(b);
}

static void expect(struct build *b, addr_t dict, int rc, const char *what)
{
	struct dict_walk w, before;
	struct py *py = build_py(b);
	memset(&w, 7, sizeof w);
	before = w;
	int got = dict_begin(py, dict, &w);
	ck_assert_msg(got == rc, "%s: %s: rc %d", b->layout.name, what, got);
	ck_assert(memcmp(&w, &before, sizeof w) == 0);
}

/* 2.7: no keys object; ends with build_free. */
static void damaged_table(struct build *b, addr_t d)
{
	static const int64_t masks[] = { -1, 6, 8, INT64_MAX, INT64_MIN };
	addr_t table = build_field_get(b, d, F_PyDict_ma_table), key, value;
	for (size_t i = 0; i < sizeof masks / sizeof *masks; i++) {
		if (b->layout.abi.width == 4 && masks[i] == INT64_MIN) /* 0, with 32 bits */
			continue;
		WRITE(b, d, PyDict, ma_mask, masks[i]);
		expect(b, d, ERR_CORRUPT, "odd mask");
	}
	WRITE(b, d, PyDict, ma_mask, 7);
	WRITE(b, d, PyDict, ma_table, 0);
	expect(b, d, ERR_CORRUPT, "no table");
	WRITE(b, d, PyDict, ma_table, table);
	/* The third entry stands in slot 3. */
	build_lose(b, build_field_at(b, table + 3 * b->layout.size[S_PyDictKeyEntry], F_PyDictKeyEntry_me_key), 8);
	struct py *py = build_py(b);
	struct dict_walk w;
	ck_assert_int_eq(dict_begin(py, d, &w), 0);
	int n = 0, rc;
	while ((rc = dict_next(&w, &key, &value)) == 1)
		n++;
	ck_assert_int_eq(rc, ERR_FAULT);
	ck_assert_int_eq(n, 2);
	build_free(b);
}

static void damaged(const struct layout *l)
{
	struct build *b = build_bare(l);
	addr_t d = build_dict(b, BUILD_GENERAL), split = build_dict(b, BUILD_SPLIT);
	for (int i = 0; i < 5; i++) {
		build_dict_set(b, d, build_int(b, i), b->types.none);
		build_dict_str(b, split, "k", b->types.none);
	}
	build_settle(b);
	if (l->trait[T_dict_shape] == DICT_SHAPE_MASK) {
		damaged_table(b, d);
		return;
	}
	addr_t keys = build_field_get(b, d, F_PyDict_ma_keys);
	bool log = l->trait[T_dict_shape] == DICT_SHAPE_LOG2;

	WRITE(b, keys, PyDictKeys, dk_nentries, -1);
	expect(b, d, ERR_CORRUPT, "negative count");
	WRITE(b, keys, PyDictKeys, dk_nentries, 9);
	expect(b, d, ERR_CORRUPT, "more entries than slots");
	WRITE(b, keys, PyDictKeys, dk_nentries, 5);
	if (log) {
		WRITE(b, keys, PyDictKeys, dk_kind, 3);
		expect(b, d, ERR_CORRUPT, "kind 3");
		WRITE(b, keys, PyDictKeys, dk_kind, 0);
		WRITE(b, keys, PyDictKeys, dk_log2_size, 63);
		expect(b, d, ERR_CORRUPT, "2**63 slots");
		WRITE(b, keys, PyDictKeys, dk_log2_size, 3);
		WRITE(b, keys, PyDictKeys, dk_log2_index_bytes, 200);
		expect(b, d, ERR_CORRUPT, "2**200 bytes of indices");
		WRITE(b, keys, PyDictKeys, dk_log2_index_bytes, 2);
		expect(b, d, ERR_CORRUPT, "half a byte an index");
		WRITE(b, keys, PyDictKeys, dk_log2_index_bytes, 3);
		WRITE(b, d, PyDict, ma_values, 0x7000);
		expect(b, d, ERR_CORRUPT, "values, but not split");
		WRITE(b, d, PyDict, ma_values, 0);
	} else {
		static const int64_t sizes[] = { 0, -8, 7, INT64_MAX, INT64_MIN };
		for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
			WRITE(b, keys, PyDictKeys, dk_size, sizes[i]);
			expect(b, d, ERR_CORRUPT, "odd size");
		}
		WRITE(b, keys, PyDictKeys, dk_size, 8);
	}
	WRITE(b, d, PyDict, ma_keys, 0);
	expect(b, d, ERR_FAULT, "no keys");
	WRITE(b, d, PyDict, ma_keys, UINT64_MAX - 40);
	expect(b, d, ERR_FAULT, "keys at the end of memory");
	WRITE(b, d, PyDict, ma_keys, keys);
	expect(b, b->types.none, ERR_CORRUPT, "not a dictionary");
	expect(b, 0, ERR_FAULT, "0");

	/* Entries, or values, that are not there: what comes before is given. */
	struct dict_walk w;
	addr_t key, value;
	struct py *py = build_py(b);
	ck_assert_int_eq(dict_begin(py, d, &w), 0);
	ck_assert_uint_eq(w.n, 5);
	build_lose(b, build_field_at(b, w.entries + 2 * l->size[S_PyDictKeyEntry], F_PyDictKeyEntry_me_key), 8);
	py = build_py(b);
	ck_assert_int_eq(dict_begin(py, d, &w), 0);
	int n = 0, rc;
	while ((rc = dict_next(&w, &key, &value)) == 1)
		n++;
	ck_assert_int_eq(rc, ERR_FAULT);
	ck_assert_int_eq(n, 2);

	WRITE(b, split, PyDict, ma_values, 0x7000);
	py = build_py(b);
	rc = dict_begin(py, split, &w);
	if (rc == 0)
		rc = dict_next(&w, &key, &value);
	ck_assert_int_eq(rc, ERR_FAULT);
	build_free(b);
}

/* Keys that other instances made longer (3.13): this one has room for two values. */
static void grown_keys(const struct layout *l)
{
	if (!layout_has(l, F_PyDictValues_capacity))
		return;
	struct build *b = build_bare(l);
	addr_t d = build_dict(b, BUILD_SPLIT), key, value;
	for (int i = 0; i < 4; i++)
		build_dict_str(b, d, "k", b->types.none);
	build_settle(b);
	WRITE(b, build_field_get(b, d, F_PyDict_ma_values), PyDictValues, capacity, 2);
	struct py *py = build_py(b);
	struct dict_walk w;
	ck_assert_int_eq(dict_begin(py, d, &w), 0);
	for (int i = 0; i < 3; i++)
		ck_assert_int_eq(dict_next(&w, &key, &value), i < 2);
	build_free(b);
}

/* 2**40 slots (with 32 bits 2**27) that nobody has memory for: what is there is walked, in bounded time. */
static int read_zeros(void *ctx, uint64_t offset, void *buf, size_t len)
{
	(void)ctx, (void)offset;
	memset(buf, 0, len);
	return 0;
}

static void endless(const struct layout *l)
{
	const bool wide = l->abi.width == 8;
	const unsigned log2 = wide ? 40 : 27;
	const struct segment zeros = { .start = wide ? UINT64_C(1) << 33 : 0x30000000, .size = wide ? UINT64_C(1) << 46 : 0xc0000000, .prot = 3,
				       .read = read_zeros };
	struct build *b = build_bare(l);
	addr_t d = build_dict(b, BUILD_GENERAL), got;
	build_settle(b);
	bool table = l->trait[T_dict_shape] == DICT_SHAPE_MASK;
	addr_t keys = table ? 0 : build_field_get(b, d, F_PyDict_ma_keys);
	if (table) {
		WRITE(b, d, PyDict, ma_mask, (UINT64_C(1) << (log2 - 1)) - 1);
		WRITE(b, d, PyDict, ma_table, zeros.start);
	} else if (l->trait[T_dict_shape] == DICT_SHAPE_LOG2) {
		WRITE(b, keys, PyDictKeys, dk_log2_size, log2);
		WRITE(b, keys, PyDictKeys, dk_log2_index_bytes, log2 > 32 ? log2 + 3 : log2 + 2);
	} else {
		WRITE(b, keys, PyDictKeys, dk_size, UINT64_C(1) << log2);
	}
	if (!table)
		WRITE(b, keys, PyDictKeys, dk_nentries, UINT64_C(1) << (log2 - 1));
	struct py *py = build_py(b);
	ck_assert_int_eq(image_add_segment(py->img, &zeros, LAY_OVER), 0);
	image_settle(py->img);
	struct dict_walk w;
	ck_assert_int_eq(dict_begin(py, d, &w), 0);
	ck_assert_int_eq(dict_find(&w, "x", &got), ERR_LIMIT);
	ck_assert_uint_eq(w.i, 1000000);
	build_free(b);
}

static void (*const cases[])(const struct layout *l) = { walks, lookups, damaged, grown_keys, endless };

START_TEST(dicts)
{
	each_layout(cases[_i]);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("dict");
	TCase *tc = tcase_create("dict");
	tcase_set_timeout(tc, 120);
	tcase_add_loop_test(tc, dicts, 0, COUNT(cases));
	suite_add_tcase(s, tc);
	return suite_run(s);
}
