/*
 * merge: stacks as text in, one stack as text out, innermost first.  A native frame is its letter and its stack pointer, "e" in
 * front where its name says that it evaluates, "?" where it was guessed; a run is where it lies and how many Python frames it has.
 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "inspect/merge.h"
#include "suite.h"

static const struct {
	const char *what, *native, *runs;
	bool whole;
	int rc;
	const char *out; /* letters of native frames (upper case: evaluates; '>': enters), digits of Python frames */
} merges[] = {
	{ "no Python", "a10 b20 c30", "", true, 0, "abc" },
	{ "no native frames", "", "0*2", true, ERR_ABSENT, "01" },
	{ "neither", "", "", true, 0, "" },
	{ "one run by place", "a10 b20 c30 d40", "25*3", true, 0, "a012Bcd" },
	{ "at the very bottom of its part", "a10 b20 c30", "20*1", true, 0, "a0Bc" },
	{ "one byte above it: the caller's", "a10 b20 c30 d40", "30*1", true, 0, "ab0Cd" },
	{ "by place, whatever the names say", "ea10 b20 ec30 d40", "25*1", true, 0, ">0Bcd" },
	{ "two runs, C between them", "a10 b20 c30 d40 e50 f60", "25*2 45*1", true, 0, "a01Bc2Def" },
	{ "an empty run on top: just left", "a10 b20 c30 d40 f60", "15*0 35*2", true, 0, "Ab01Cdf" },
	{ "entering: the innermost evaluation has no frame yet", "a10 eb20 c30 ed40 f60", "45*1", true, 0, "a>c0Df" },
	{ "two runs in one frame cannot be", "a10 b20 c30", "22*1 24*1", true, ERR_CORRUPT, "abc01" },
	{ "runs in the wrong order", "a10 b20 c30 d40", "35*1 15*1", true, ERR_CORRUPT, "abcd01" },
	{ "below the stack", "a10 b20", "5*1", true, ERR_CORRUPT, "ab0" },
	{ "past a whole stack", "a10 b20", "25*1", true, ERR_CORRUPT, "ab0" },
	{ "past a stack that is cut: older than all that is known", "a10 b20", "15*1 25*2 99*1", false, 0, "0Ab123" },
	{ "cut, and below all of it", "a10 b20", "5*1", false, ERR_CORRUPT, "ab0" },
	{ "a signal handler's own stack", "a910 b920 c20 d30 e40", "925*1 35*1", true, ERR_CORRUPT, "abcde01" },
	{ "run below a handler's own stack", "a910 b920 c20 d30 e40", "25*1 35*1", true, 0, "ab0C1De" },
	{ "a gap: between, in neither", "a10 ?b90 c99", "25*2", true, 0, "a01bc" },
	{ "a gap: two runs in it, one past all", "a10 ?b90", "25*1 45*1 95*2", false, 0, "a01b23" },
	{ "a gap: two runs in it, then one that is in the next", "a10 ?b90 c99", "25*1 45*1 95*2", true, 0, "a0123Bc" },
	{ "a gap: runs in the wrong order", "a10 ?b90 c99", "45*1 25*1", true, ERR_CORRUPT, "abc01" },
	{ "a gap after one that evaluates", "ea10 ?b90 c99", "25*1 45*2", true, 0, "0A12bc" },
	{ "a gap, and no run in it", "a10 ?b20 c30", "25*1", true, 0, "a0Bc" },
	{ "count: one each", "ea10 b20 ec30 d40", "0*1 0*1", true, 0, "0Ab1Cd" },
	{ "count: several frames a run", "a10 eb20 ec30 d40", "0*3 0*2", true, 0, "a012B34Cd" },
	{ "count: one is entering", "ea10 b20 ec30 d40", "0*1", true, 0, ">b0Cd" },
	{ "count: two more is no answer", "ea10 eb20 ec30 d40", "0*1", true, ERR_CORRUPT, "abcd0" },
	{ "count: one too few", "ea10 b20", "0*1 0*1", true, ERR_CORRUPT, "ab01" },
	{ "count: no name known", "a10 b20", "0*1", true, ERR_ABSENT, "ab0" },
	{ "a run without a place: all are counted", "ea10 b20 ec30 d40", "15*1 0*1", true, 0, "0Ab1Cd" },
	{ "no stack pointers: counted", "ea0 b0 ec0 d0", "5*1 25*1", true, 0, "0Ab1Cd" },
	{ "no stack pointers, no names", "a0 b0", "5*1", true, ERR_ABSENT, "ab0" },
	{ "evaluates nothing of Python's: shown as entering", "a10 eb20 c30", "", true, 0, "a>c" },
};

START_TEST(merge)
{
	struct merge_native native[32];
	struct merge_run runs[32];
	struct merge_item items[64];
	char letter[32], out[65];
	size_t n = 0, r = 0, got, all = 0;
	for (const char *s = merges[_i].native; *s; n++) {
		native[n].gap = s[0] == '?';
		s += native[n].gap;
		native[n].eval = s[0] == 'e' && s[1] >= 'a';
		s += native[n].eval;
		letter[n] = *s++;
		native[n].sp = strtoul(s, (char **)&s, 10);
		s += *s == ' ';
	}
	for (const char *s = merges[_i].runs; *s; r++) {
		runs[r].at = strtoul(s, (char **)&s, 10);
		ck_assert_int_eq(*s, '*');
		runs[r].n = strtoul(s + 1, (char **)&s, 10);
		all += runs[r].n;
		s += *s == ' ';
	}
	int rc = merge_stacks(native, n, merges[_i].whole, runs, r, items, &got);
	ck_assert_uint_eq(got, n + all); /* none is dropped */
	for (size_t i = 0; i < got; i++)
		out[i] = items[i].python ? (char)('0' + items[i].index) : items[i].role == MERGE_ENTERING ? '>'
			 : items[i].role == MERGE_EVAL ? (char)(letter[items[i].index] - 32) : letter[items[i].index];
	out[got] = '\0';
	ck_assert_msg(rc == merges[_i].rc && strcmp(out, merges[_i].out) == 0, "%s: %d \"%s\", not %d \"%s\"", merges[_i].what, rc, out, merges[_i].rc,
		      merges[_i].out);
}
END_TEST

/* Linear: a stack of a million frames, a run in every second one. */
START_TEST(deep)
{
	const size_t n = 1000000;
	struct merge_native *native = xcalloc(n, sizeof *native);
	struct merge_run *runs = xcalloc(n / 2, sizeof *runs);
	struct merge_item *items = xcalloc(2 * n, sizeof *items);
	for (size_t i = 0; i < n; i++)
		native[i].sp = 1000 + i * 100;
	for (size_t r = 0; r < n / 2 - 1; r++)
		runs[r] = (struct merge_run){ 1000 + r * 200 + 50, 1 };
	size_t got;
	ck_assert_int_eq(merge_stacks(native, n, true, runs, n / 2 - 1, items, &got), 0);
	ck_assert_uint_eq(got, n + n / 2 - 1);
	size_t wrong = 0;
	for (size_t i = 0; i < 3 * (n / 2 - 1); i++)
		wrong += items[i].python != (i % 3 == 0);
	ck_assert_uint_eq(wrong, 0);
	free(native);
	free(runs);
	free(items);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("merge");
	TCase *c = tcase_create("stacks");
	tcase_set_timeout(c, 60);
	tcase_add_loop_test(c, merge, 0, COUNT(merges));
	tcase_add_test(c, deep);
	suite_add_tcase(s, c);
	return suite_run(s);
}
