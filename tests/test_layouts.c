/*
 * Every built-in table and column: a runtime built through it gives back the same threads and frames when it is opened
 * from nothing, and no other table passes its proof.
 */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "build_py.h"
#include "every_layout.h"
#include "python/prove.h"
#include "suite.h"

#define IDENT BUILD_IDENT(b)
enum { THREADS = 3, FRAMES = 5 };

static const struct layout *tables;
static size_t n_tables;

static const char *const functions[FRAMES] = { "outermost", "run", "gen", "call", "innermost" };

/* Thread i has frames outermost .. up to number 2 + i, at instruction 2 * (i + k). */
static struct build *sample(const struct layout *l)
{
	struct build *b = build_new(l);

	for (int i = 0; i < THREADS; i++) {
		addr_t t = build_thread(b, b->interp, IDENT + 0x1000 * (uint64_t)i, 100 + i);
		build_frame(b, t, &(struct build_frame){ .shim = true });
		for (int k = 0; k < 3 + i; k++) {
			addr_t code = build_code(b, &(struct build_code){ .name = functions[k], .file = "/srv/app.py",
									  .firstlineno = 10 * (k + 1), .units = 8 });
			build_frame(b, t, &(struct build_frame){ .code = code, .lasti = 2 * (i + k), .generator = k == 2, .entry = !k });
		}
	}
	return b;
}

static void check_sample(const struct build *b, const struct py *py)
{
	struct walk interps = py_interps(py), threads;
	struct py_interp in;
	struct py_thread t;
	int i = THREADS;

	ck_assert_int_eq(py_next_interp(&interps, &in), 1);
	threads = py_threads(py, &in);
	while (i-- > 0) {
		ck_assert_int_eq(py_next_thread(&threads, &t), 1);
		ck_assert_uint_eq(t.ident, IDENT + 0x1000 * (uint64_t)i);
		ck_assert_int_eq(t.tid, 100 + i);
		struct walk frames = py_frames(py, t.frame);
		struct py_frame f;
		int rc, k = 3 + i;
		while ((rc = py_next_frame(&frames, &f)) == 1) {
			if (f.shim)
				continue;
			struct py_code code;
			struct position at;
			k--;
			ck_assert_int_ge(k, 0);
			ck_assert_int_eq(py_code_read(py, f.code, b->arena, &code), 0);
			ck_assert_msg(str_is(code.name, functions[k]), "%s: " STR_FMT, py->layout.name, STR_ARG(code.name));
			ck_assert(str_is(code.file, "/srv/app.py"));
			ck_assert_int_eq(py_code_position(py, f.code, f.lasti, &at), 0);
			ck_assert_msg(at.line == 10 * (k + 1) + i + k, "%s: thread %d, %s: line %d", py->layout.name, i, functions[k], at.line);
		}
		ck_assert_int_eq(rc, 0);
		ck_assert_int_eq(k, 0);
	}
	ck_assert_int_eq(py_next_thread(&threads, &t), 0);
	ck_assert_int_eq(py_next_interp(&interps, &in), 0);
}

START_TEST(each_table_gives_back_what_was_built)
{
	const struct layout *l = &tables[_i];
	struct build *b = sample(l);
	struct py *py;
	struct err err = { 0 };
	/* As an ordinary core: text and names of static types are not there. */
	b->no_rodata = true;
	ck_assert_msg(py_open(build_image(b), NULL, NULL, b->arena, &py, &err) == 0, "%s", err.msg);
	ck_assert_str_eq(py->layout.name, l->name);
	check_sample(b, py);
	build_free(b);
}
END_TEST

/* Led to the right interpreter, another table must still fail: by what it finds there, or at the latest by the version. */
START_TEST(no_other_table_fits)
{
	const struct layout *l = &tables[_i];
	struct build *b = sample(l);
	struct image *img = build_image(b);
	for (size_t k = 0; k < n_tables; k++) {
		if (tables[k].version >> 16 == l->version >> 16) /* of one minor version: the release decides, as the test above shows */
			continue;
		struct py py = { .layout = tables[k], .img = img, .runtime = b->runtime };
		struct known_version known = { 0 };
		struct proof proof;
		py.interp_head = b->interp;
		int rc = py_prove(&py, &known, false, &(uint64_t){ UINT64_MAX }, &proof);
		ck_assert_msg(rc == ERR_CORRUPT, "a process of %s passes as %s", l->name, py.layout.name);
		ck_assert_str_ne(proof.why, "");
	}
	build_free(b);
}
END_TEST

/* A version that no table is for must not open under any, whichever table it resembles. */
START_TEST(a_version_between_tables_is_refused)
{
	struct layout l = tables[_i];
	if (layout_has(&l, F_PyDebugOffsets_cookie)) /* describes itself */
		return;
	l.version = 0x03050af0; /* 3.5.10, whose interpreters and threads look much like 3.6's */
	struct build *b = sample(&l);
	struct py *py;
	struct err err = { 0 };
	ck_assert_int_eq(py_open(build_image(b), NULL, NULL, b->arena, &py, &err), ERR_UNSUPPORTED);
	ck_assert_msg(!strncmp(err.msg, "no layout fits this Python 3.5.10 (tried: ", 42), "%s", err.msg);
	build_free(b);
}
END_TEST

int main(void)
{
	tables = every_layout(&n_tables);
	const int n = (int)n_tables;
	Suite *s = suite_create("layouts");
	TCase *tc = tcase_create("layouts");
	tcase_set_timeout(tc, 120);
	tcase_add_loop_test(tc, each_table_gives_back_what_was_built, 0, n);
	tcase_add_loop_test(tc, no_other_table_fits, 0, n);
	tcase_add_loop_test(tc, a_version_between_tables_is_refused, 0, n);
	suite_add_tcase(s, tc);
	return suite_run(s);
}
