/* Code objects under every built-in layout: names, and the line of every instruction. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "build_py.h"
#include "every_layout.h"
#include "suite.h"

static void names(const struct layout *l)
{
	struct build *b = build_bare(l);
	addr_t plain = build_code(b, &(struct build_code){ .name = "f", .qualname = "C.f", .file = "/a/b.py", .firstlineno = 7 });
	addr_t odd = build_code(b, &(struct build_code){ .name = "\u65e5\u672c", .file = "/tmp/\u00e9.py", .firstlineno = 1 });
	char *big = xmalloc(70001);
	memset(big, 'x', 70000);
	big[70000] = 0;
	addr_t lengthy = build_code(b, &(struct build_code){ .name = big, .file = "<string>", .firstlineno = 0 });
	free(big);
	addr_t bytes_name = build_code(b, &(struct build_code){ .name = "f", .file = "b.py" });
	addr_t no_name = build_code(b, &(struct build_code){ .name = "f", .qualname = "C.m.<locals>.f", .file = "b.py" });
	addr_t no_long_name = build_code(b, &(struct build_code){ .name = "f", .qualname = "C.f", .file = "b.py" });
	addr_t nothing = build_code(b, &(struct build_code){ .name = "f", .file = "b.py" });
	WRITE(b, bytes_name, PyCode, co_name, build_int(b, 3));
	build_lose(b, build_field_get(b, no_name, F_PyCode_co_name), l->size[S_PyObject]);
	build_lose(b, build_field_get(b, nothing, F_PyCode_co_name), l->size[S_PyObject]);
	if (layout_has(&b->layout, F_PyCode_co_qualname))
		build_lose(b, build_field_get(b, no_long_name, F_PyCode_co_qualname), l->size[S_PyObject]);
	build_lose(b, build_field_get(b, nothing, F_PyCode_co_filename), l->size[S_PyObject]);
	struct py *py = build_py(b);
	struct py_code c = { .firstlineno = -7 };

	ck_assert_int_eq(py_code_read(py, plain, b->arena, &c), 0);
	ck_assert(str_is(c.name, "f") && str_is(c.file, "/a/b.py"));
	ck_assert_int_eq(c.firstlineno, 7);
	ck_assert(c.addr == plain);
	if (HAS(py, PyCode, co_qualname))
		ck_assert(str_is(c.qualname, "C.f"));
	else
		ck_assert(!c.qualname.s);
	ck_assert_int_eq(py_code_read(py, odd, b->arena, &c), 0);
	ck_assert(str_is(c.name, "\u65e5\u672c") && str_is(c.file, "/tmp/\u00e9.py"));
	ck_assert_int_eq(py_code_read(py, lengthy, b->arena, &c), 0);
	ck_assert_uint_eq(c.name.len, 65536);

	ck_assert_int_eq(py_code_read(py, no_name, b->arena, &c), 0);
	/* The end of the long one is the same, where there is one. */
	ck_assert((HAS(py, PyCode, co_qualname) ? str_is(c.name, "f") : !c.name.s) && str_is(c.file, "b.py"));
	ck_assert_int_eq(py_code_read(py, no_long_name, b->arena, &c), 0);
	ck_assert(str_is(c.name, "f") && !c.qualname.s);
	struct py_code before = c;
	ck_assert_int_eq(py_code_read(py, bytes_name, b->arena, &c), ERR_CORRUPT);
	ck_assert_int_eq(py_code_read(py, nothing, b->arena, &c), ERR_FAULT);
	ck_assert_int_eq(py_code_read(py, b->types.none, b->arena, &c), ERR_CORRUPT);
	ck_assert_int_eq(py_code_read(py, 0, b->arena, &c), ERR_FAULT);
	ck_assert_int_eq(py_code_read(py, 0x1000, b->arena, &c), ERR_FAULT);
	ck_assert(memcmp(&before, &c, sizeof c) == 0);
	build_free(b);
}

static void positions(const struct layout *l)
{
	struct build *b = build_bare(l);
	enum { UNITS = 3000 }; /* a table that is longer than what is read at once */
	addr_t few = build_code(b, &(struct build_code){ .name = "f", .file = "b.py", .firstlineno = 100, .units = 5 });
	addr_t many = build_code(b, &(struct build_code){ .name = "f", .file = "b.py", .firstlineno = 100, .units = UNITS });
	addr_t cut = build_code(b, &(struct build_code){ .name = "f", .file = "b.py", .firstlineno = 100, .units = UNITS });
	addr_t absurd = build_code(b, &(struct build_code){ .name = "f", .file = "b.py", .firstlineno = 100 });
	addr_t big = build_code(b, &(struct build_code){ .name = "f", .file = "b.py", .firstlineno = 100 });
	addr_t other = build_code(b, &(struct build_code){ .name = "f", .file = "b.py", .firstlineno = 100 });
	enum py_field table = layout_has(l, F_PyCode_co_linetable) ? F_PyCode_co_linetable : F_PyCode_co_lnotab;
	build_lose(b, build_field_get(b, cut, table) + 5000, 8);
	WRITE(b, build_field_get(b, absurd, table), PyBytes, ob_size, INT64_MAX);
	build_field(b, other, table, b->types.none);
	WRITE(b, build_field_get(b, big, table), PyBytes, ob_size, 1 << 30);
	struct py *py = build_py(b);
	struct position p;

	for (int i = 0; i < UNITS; i++) {
		int rc = py_code_position(py, i < 5 ? few : many, 2 * i, &p);
		bool columns = TRAIT(py, line_table) == LINE_TABLE_LOCATIONS;
		MUST(rc == 0 && p.line == 100 + i, "%s: instruction %d: rc %d, line %d", l->name, i, rc, p.line);
		MUST(p.end_line == (columns ? 100 + i : -1) && p.col == (columns ? 4 : -1) &&
		     p.end_col == (columns ? 4 + i % 10 : -1), "%s: instruction %d: %d-%d", l->name, i, p.col, p.end_col);
	}
	ck_assert_int_eq(py_code_position(py, few, -1, &p), 0);
	ck_assert_int_eq(p.line, 100);
	if (TRAIT(py, line_table) != LINE_TABLE_LNOTAB)
		ck_assert_int_eq(py_code_position(py, few, 10, &p), ERR_CORRUPT);
	p.line = -7;
	ck_assert_int_eq(py_code_position(py, cut, 2, &p), ERR_FAULT);
	ck_assert_int_eq(py_code_position(py, absurd, 2, &p), ERR_CORRUPT);
	ck_assert_int_eq(py_code_position(py, big, 2, &p), ERR_CORRUPT);
	ck_assert_int_eq(py_code_position(py, other, 2, &p), ERR_CORRUPT);
	ck_assert_int_eq(py_code_position(py, 0, 2, &p), ERR_FAULT);
	ck_assert_int_eq(p.line, -7);
	build_free(b);
}

START_TEST(code_names)
{
	each_layout(names);
}
END_TEST

START_TEST(code_positions)
{
	each_layout(positions);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("code");
	TCase *tc = tcase_create("code");
	tcase_set_timeout(tc, 60);
	tcase_add_test(tc, code_names);
	tcase_add_test(tc, code_positions);
	suite_add_tcase(s, tc);
	return suite_run(s);
}
