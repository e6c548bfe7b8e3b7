/* model: problems, folding, grouping. */
#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "build_report.h"
#include "suite.h"

/* A stack as letters, oldest first; the runs as "ab*3 c": must give back the same stack when written out. */
static const struct { const char *stack, *runs; } folds[] = {
	{ "", "" },
	{ "a", "a" },
	{ "abc", "abc" },
	{ "aa", "aa" },
	{ "aaa", "aaa" },                              /* saves too little */
	{ "aaaa", "a*4" },
	{ "abab", "abab" },
	{ "ababab", "ab*3" },
	{ "xababaab", "xababaab" },
	{ "xabababy", "x ab*3 y" },
	{ "xabababa", "x ab*3 a" },                    /* the last round is not whole */
	{ "abcdefghabcdefghabcdefgh", "abcdefgh*3" },
	{ "abcdefghijklmnopqrstuvwxabcdefghijklmnopqrstuvwxabcdefghijklmnopqrstuvwx", "abcdefghijklmnopqrstuvwx*3" },
	{ "abcdefghijklmnopqrstuvwxyabcdefghijklmnopqrstuvwxyabcdefghijklmnopqrstuvwxy",
	  "abcdefghijklmnopqrstuvwxyabcdefghijklmnopqrstuvwxyabcdefghijklmnopqrstuvwxy" }, /* 25 frames are too many */
	{ "aaaaaaaabbbbbbbb", "a*8 b*8" },
	{ "aaaabaaaabaaaab", "aaaab*3" },              /* the period that covers most */
	{ "aaaaaaaaaaab", "a*11 b" },                  /* and the shortest of equals */
	{ "xyzaaaayzaaaaq", "xyz a*4 yz a*4 q" },
};

START_TEST(fold)
{
	struct report *r = report_new();
	struct report_frame letter[26] = { 0 };
	const struct report_frame *frames[256];
	size_t n = strlen(folds[_i].stack);
	for (size_t i = 0; i < n; i++)
		frames[i] = &letter[folds[_i].stack[i] - 'a'];
	const struct report_run *runs = (void *)-1;
	size_t n_runs = 99;
	report_fold(r, frames, n, &runs, &n_runs);
	struct sb b = { 0 }, whole = { 0 };
	for (size_t i = 0; i < n_runs; i++) {
		if (i)
			sb_char(&b, ' ');
		ck_assert(runs[i].n > 0 && runs[i].repeat > 0);
		for (uint64_t round = 0; round < runs[i].repeat; round++)
			for (size_t k = 0; k < runs[i].n; k++)
				sb_char(&whole, (char)('a' + (runs[i].frames[k] - letter)));
		for (size_t k = 0; k < runs[i].n; k++)
			sb_char(&b, (char)('a' + (runs[i].frames[k] - letter)));
		if (runs[i].repeat > 1)
			sb_printf(&b, "*%d", (int)runs[i].repeat);
	}
	sb_char(&b, '\0');
	sb_char(&whole, '\0');
	ck_assert_str_eq(b.s, folds[_i].runs);
	ck_assert_str_eq(whole.s, folds[_i].stack);
	sb_free(&b);
	sb_free(&whole);
	report_free(r);
}
END_TEST

/* Random stacks of few letters, so that repetitions of all kinds come up: unfolded again they are the same. */
START_TEST(fold_random)
{
	unsigned seed = 20261130u + (unsigned)_i;
	srand(seed);
	struct report *r = report_new();
	struct report_frame letter[3] = { 0 };
	enum { N = 3000 };
	const struct report_frame *frames[N];
	int letters = 1 + _i % 3;
	for (size_t i = 0; i < N; i++)
		frames[i] = i > 40 && rand() % 20 ? frames[i - (size_t)(1 + rand() % 9)] : &letter[rand() % letters];
	const struct report_run *runs;
	size_t n_runs, at = 0;
	report_fold(r, frames, N, &runs, &n_runs);
	for (size_t i = 0; i < n_runs; i++)
		for (uint64_t round = 0; round < runs[i].repeat; round++)
			for (size_t k = 0; k < runs[i].n; k++, at++)
				ck_assert_msg(at < N && runs[i].frames[k] == frames[at], "seed %u: frame %zu differs", seed, at);
	ck_assert_msg(at == N, "seed %u: %zu frames", seed, at);
	report_free(r);
}
END_TEST

static double seconds(void)
{
	struct timespec t;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

START_TEST(fold_scales)
{
	/* The worst for folding: near repetitions of every period.  Ten times the frames may not take hundred times as long. */
	double took[2];
	for (int big = 0; big < 2; big++) {
		struct report *r = report_new();
		struct report_frame letter[8] = { 0 };
		size_t n = big ? 2000000 : 200000;
		const struct report_frame **frames = xcalloc(n, sizeof *frames);
		for (size_t i = 0; i < n; i++)
			frames[i] = &letter[i % 17 < 16 ? i % 17 % 8 : 3];
		const struct report_run *runs;
		size_t n_runs;
		double start = seconds();
		report_fold(r, frames, n, &runs, &n_runs);
		took[big] = seconds() - start;
		free(frames);
		report_free(r);
	}
	ck_assert_msg(took[1] < 40 * took[0] + 0.05, "%.3f s, then %.3f s", took[0], took[1]);
}
END_TEST

/* Threads by stack, a letter a thread, and the groups that must come out. */
static void group_check(const char *threads, const char *groups)
{
	struct report *r = report_new();
	for (const char *p = threads; *p; p++) {
		char function[] = { *p, 0 };
		/* Each thread has frames of its own: what is compared is what they say. */
		const struct report_frame *stack[] = { build_frame(r, "/base.py", 1, "run", -1, -1, NULL), build_frame(r, "/x.py", 7, function, -1, -1, NULL) };
		build_thread(r, p - threads, NULL);
		build_stack(r, stack, 2);
	}
	report_group(r);
	report_group(r); /* again gives the same */
	struct sb b = { 0 };
	for (size_t g = 0; g < r->groups.n; g++) {
		if (g)
			sb_char(&b, ' ');
		for (size_t i = 0; i < r->groups.p[g].n; i++) {
			ck_assert_uint_eq(r->threads.p[r->groups.p[g].threads[i]].group, g);
			sb_printf(&b, "%zu", r->groups.p[g].threads[i]);
		}
	}
	sb_char(&b, '\0');
	ck_assert_str_eq(b.s, groups);
	sb_free(&b);
	report_free(r);
}

START_TEST(group)
{
	group_check("", "");
	group_check("a", "0");
	group_check("aaa", "012");
	group_check("abc", "0 1 2");
	group_check("abacab", "024 15 3");
}
END_TEST

/* What else parts two stacks: each row changes one thing of the second thread. */
START_TEST(group_differs)
{
	struct report *r = report_new();
	for (int i = 0; i < 2; i++) {
		struct report_frame *f = (struct report_frame *)(uintptr_t)build_frame(r, "/a.py", 3, "f", 4, 9, "f()");
		const struct report_frame *stack[] = { f, f, f, f, f };
		struct report_thread *t = build_thread(r, i, NULL);
		size_t n = _i == 8 ? 0 : 5;
		if (i) {
			t->on_cpu = true; /* the state does not part them */
			f->at.col = 5;    /* nor do columns */
			switch (_i) {
			case 1: f->at.line = 4; break;
			case 2: f->file = STR("/b.py"); break;
			case 3: f->function = STR("g"); break;
			case 4: n = 4; break;
			case 5: t->broken = STR("points to itself"); break;
			case 6: f->python = false; break;
			case 7: t->has_python = false; break;
			case 8: t->has_python = false; break;
			}
		}
		build_stack(r, stack, n);
	}
	report_group(r);
	ck_assert_uint_eq(r->groups.n, _i ? 2 : 1);
	report_free(r);
}
END_TEST

/* Threads of one stack are one group whatever interpreter each is in; those that go through several only with their like. */
START_TEST(group_interpreters)
{
	static const int64_t in[][2] = { { 0, 1 }, { 0, 2 }, { 0, 2 }, { 2, 0 } };
	struct report *r = report_new();
	for (int i = 0; i < 3; i++)
		*vec_push(&r->interps) = (struct report_interp){ .id = i, .gil_holder_tid = -1 };
	for (int i = 0; i < 8; i++) {
		const struct report_frame *f = build_frame(r, "/a.py", 3, "f", 4, 9, "f()");
		struct report_thread *t = build_thread(r, i, NULL);
		t->interpreter = in[i % 4][1];
		if (i < 4) {
			t->interpreters = in[i];
			t->n_interpreters = 2;
		}
		((struct report_frame *)(uintptr_t)f)->interpreter = t->interpreter;
		build_stack(r, &f, 1);
	}
	report_group(r);
	static const size_t want[] = { 0, 1, 1, 2, 3, 3, 3, 3 };
	for (size_t i = 0; i < 8; i++)
		ck_assert_uint_eq(r->threads.p[i].group, want[i]);
	report_free(r);
}
END_TEST

START_TEST(group_many)
{
	struct report *r = build_threads(5000, 1000);
	report_group(r);
	ck_assert_uint_eq(r->groups.n, 1000);
	for (size_t g = 0; g < 1000; g++)
		ck_assert_uint_eq(r->groups.p[g].n, 5);
	report_free(r);
}
END_TEST

static void problem_is(const struct report_problem *p, const char *code, const char *message, const char *hint)
{
	ck_assert_str_eq(p->code, code);
	ck_assert_msg(str_is(p->message, message), "%.*s", (int)p->message.len, p->message.s);
	if (hint)
		ck_assert_msg(str_is(p->hint, hint), "%.*s", (int)p->hint.len, p->hint.s);
	else
		ck_assert_ptr_null(p->hint.s);
}

START_TEST(problem)
{
	struct report *r = report_new();
	report_problem(r, P_FRAMES_BROKEN, 7LL, "loops", 12ULL, "copy it again");
	report_problem(r, P_FRAMES_BROKEN, 7LL, "loops", 12ULL, "copy it again");
	report_problem(r, P_FRAMES_BROKEN, 8LL, "loops", 12ULL, "copy it again");
	report_problem(r, P_SOURCE_MISSING, (size_t)2, "a.py, %s.py", "--source-map OLD=NEW, or --sysroot DIR", "", "");
	report_problem(r, P_NO_LAYOUT, "", "--layout FILE, or a newer pyanalyze");
	report_problem(r, P_NO_LAYOUT, "\xff\xfe", "--layout FILE, or a newer pyanalyze");
	report_problem(r, P_NONE);
	report_problem(r, PROBLEM_COUNT);
	ck_assert_uint_eq(r->problems.n, 5);
	problem_is(&r->problems.p[0], "PZ401", "thread 7: loops; older frames are unknown, 12 known", "copy it again");
	problem_is(&r->problems.p[1], "PZ401", "thread 8: loops; older frames are unknown, 12 known", "copy it again");
	problem_is(&r->problems.p[2], "PZ204", "source files that are not here (2): a.py, %s.py", "--source-map OLD=NEW, or --sysroot DIR");
	problem_is(&r->problems.p[3], "PZ302", "", "--layout FILE, or a newer pyanalyze");
	problem_is(&r->problems.p[4], "PZ302", "\\xff\\xfe", "--layout FILE, or a newer pyanalyze");
	ck_assert_int_eq(r->problems.p[0].severity, SEVERITY_WARNING);
	ck_assert_int_eq(r->problems.p[3].severity, SEVERITY_ERROR);
	report_free(r);
	report_free(NULL);
}
END_TEST

/* One for each of many threads: not compared with all others. */
START_TEST(many_problems)
{
	enum { MANY = 100000 };
	struct report *r = report_new();
	for (int twice = 0; twice < 2; twice++)
		for (int i = 0; i < MANY; i++)
			report_problem(r, P_FRAMES_BROKEN, (long long)i, "loops", 12ULL, "copy it again");
	ck_assert_uint_eq(r->problems.n, MANY);
	report_free(r);
}
END_TEST

/* Codes are looked for by scripts: each is one problem's, and well formed; each says what to try or why nothing helps. */
START_TEST(codes)
{
	static const char *const code[] = {
#define PROBLEM(id, code_, severity, text, hint) code_,
#include "problems.def"
#undef PROBLEM
	};
	static const char *const hints[] = {
#define PROBLEM(id, code_, severity, text, hint) hint,
#include "problems.def"
#undef PROBLEM
	};
	size_t n = sizeof code / sizeof *code;
	ck_assert_uint_eq(n, PROBLEM_COUNT - 1);
	for (size_t i = 0; i < n; i++)
		ck_assert_msg(hints[i] && *hints[i], "%s", code[i]);
	for (size_t i = 0; i < n; i++) {
		ck_assert_msg(strlen(code[i]) == 5 && strncmp(code[i], "PZ", 2) == 0 && strspn(code[i] + 2, "0123456789") == 3, "%s", code[i]);
		for (size_t k = 0; k < i; k++)
			ck_assert_str_ne(code[i], code[k]);
	}
}
END_TEST

int main(void)
{
	Suite *s = suite_create("report");
	TCase *c = tcase_create("model");
	tcase_add_loop_test(c, fold, 0, COUNT(folds));
	tcase_add_loop_test(c, fold_random, 0, 12);
	tcase_add_test(c, fold_scales);
	tcase_add_test(c, group);
	tcase_add_loop_test(c, group_differs, 0, 9);
	tcase_add_test(c, group_interpreters);
	tcase_add_test(c, group_many);
	tcase_add_test(c, problem);
	tcase_add_test(c, many_problems);
	tcase_add_test(c, codes);
	tcase_set_timeout(c, 60);
	suite_add_tcase(s, c);
	return suite_run(s);
}
