/*
 * Line tables against what the interpreters say of themselves: fixtures/linetable.cases, made by
 * tools/linetable_cases.py, replayed for every instruction; damaged tables by hand.
 * FIXTURES is the folder of that file (default: fixtures).  LINETABLE_CASES=FILE replays another file, such as the
 * whole standard library (tools/linetable_cases.py --all).
 */
#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "python/linetable.h"
#include "python/py.h"
#include "suite.h"

enum scheme { LNOTAB_U8, LNOTAB_S8, TABLE_310, LOCATIONS, SCHEMES };
static const char *const scheme_name[SCHEMES] = { "lnotab-u8", "lnotab-s8", "linetable-310", "locations" };

static int position_at(enum scheme scheme, struct blob table, int first, int64_t lasti, struct position *ret)
{
	switch (scheme) {
	case LNOTAB_U8: return linetable_lnotab(table, first, lasti, false, ret);
	case LNOTAB_S8: return linetable_lnotab(table, first, lasti, true, ret);
	case TABLE_310: return linetable_310(table, first, lasti, ret);
	default:        return linetable_locations(table, first, lasti, ret);
	}
}

static FILE *open_cases(void)
{
	const char *path = getenv("LINETABLE_CASES"), *dir = getenv("FIXTURES");
	char buf[4096];
	if (!path) {
		snprintf(buf, sizeof buf, "%s/linetable.cases", dir ? dir : "fixtures");
		path = buf;
	}
	FILE *f = fopen(path, "r");
	ck_assert_msg(f, "%s: %s", path, strerror(errno));
	return f;
}

static int number_of(const char *word)
{
	return strcmp(word, "-") == 0 ? -1 : atoi(word);
}

/* One code object of the fixture: each answer holds from its lasti up to the next one's. */
struct code_case {
	enum scheme scheme;
	int first;
	uint8_t *table;
	size_t len;
	char name[256];
	bool any;
	int64_t lasti;
	struct position want;
};

static void expect_until(const struct code_case *c, int64_t end)
{
	for (int64_t i = c->lasti; i < end; i += c->scheme == LOCATIONS || c->scheme == TABLE_310 ? 2 : 1) {
		struct position got = { -7, -7, -7, -7 };
		int rc = position_at(c->scheme, (struct blob){ c->table, c->len }, c->first, i, &got);
		bool none = c->want.line < 0;
		if (rc != (none ? ERR_ABSENT : 0))
			ck_abort_msg("%s %s at %lld: rc %d", scheme_name[c->scheme], c->name, (long long)i, rc);
		const struct position *want = none ? &(struct position){ -7, -7, -7, -7 } : &c->want;
		if (memcmp(&got, want, sizeof got) != 0)
			ck_abort_msg("%s %s at %lld: %d-%d %d-%d, wanted %d-%d %d-%d", scheme_name[c->scheme], c->name, (long long)i,
				     got.line, got.end_line, got.col, got.end_col, want->line, want->end_line, want->col,
				     want->end_col);
	}
}

START_TEST(interpreters_agree)
{
	FILE *f = open_cases();
	char *line = NULL;
	size_t room = 0;
	struct code_case c = { 0 };
	unsigned seen[SCHEMES] = { 0 }, answers = 0;
	while (getline(&line, &room, f) > 0) {
		char *save = NULL, *word = strtok_r(line, " \n", &save);
		if (!word || *word == '#')
			continue;
		if (strcmp(word, "code") != 0) {
			if (c.any)
				expect_until(&c, atoll(word));
			c.lasti = atoll(word);
			word = strtok_r(NULL, " \n", &save);
			c.any = strcmp(word, "end") != 0;
			if (!c.any)
				continue;
			c.want.line = number_of(word);
			c.want.end_line = number_of(strtok_r(NULL, " \n", &save));
			c.want.col = number_of(strtok_r(NULL, " \n", &save));
			c.want.end_col = number_of(strtok_r(NULL, " \n", &save));
			answers++;
			continue;
		}
		if (c.any)
			ck_abort_msg("%s: no end", c.name);
		free(c.table);
		c = (struct code_case){ 0 };
		word = strtok_r(NULL, " \n", &save);
		while (c.scheme < SCHEMES && strcmp(scheme_name[c.scheme], word) != 0)
			c.scheme++;
		if (c.scheme == SCHEMES)
			ck_abort_msg("scheme %s", word);
		c.first = atoi(strtok_r(NULL, " \n", &save));
		word = strtok_r(NULL, " \n", &save);
		size_t digits = strcmp(word, "-") == 0 ? 0 : strlen(word);
		c.table = xmalloc(digits / 2 + 1);
		c.len = digits / 2;
		if (str_unhex(word, digits, c.table, digits / 2 + 1) != (int)c.len)
			ck_abort_msg("%s", word);
		snprintf(c.name, sizeof c.name, "%s", strtok_r(NULL, "\n", &save));
		seen[c.scheme]++;
	}
	ck_assert(!c.any);
	free(c.table);
	free(line);
	fclose(f);
	if (!getenv("LINETABLE_CASES"))
		for (unsigned i = 0; i < SCHEMES; i++)
			ck_assert_msg(seen[i] >= 5, "%u code objects of %s", seen[i], scheme_name[i]);
	ck_assert_uint_gt(answers, 500);
}
END_TEST

/* By hand: the forms that interpreters seldom write, and tables that are cut or cannot be. */
static const struct {
	const char *what;
	enum scheme scheme;
	const char *bytes;
	size_t len;
	int first;
	int64_t lasti;
	int rc;
	struct position want;
} by_hand[] = {
#define T(s) s, sizeof(s) - 1
	{ "lnotab: empty", LNOTAB_S8, T(""), 5, 40, 0, { 5, -1, -1, -1 } },
	{ "lnotab: not started", LNOTAB_S8, T("\0\4"), 5, -1, 0, { 5, -1, -1, -1 } },
	{ "lnotab: a step at 0 counts", LNOTAB_S8, T("\0\4"), 5, 0, 0, { 9, -1, -1, -1 } },
	{ "lnotab: just before the step", LNOTAB_S8, T("\6\4"), 5, 5, 0, { 5, -1, -1, -1 } },
	{ "lnotab: on the step", LNOTAB_S8, T("\6\4"), 5, 6, 0, { 9, -1, -1, -1 } },
	{ "lnotab: back", LNOTAB_S8, T("\6\4\2\xfe"), 5, 8, 0, { 7, -1, -1, -1 } },
	{ "lnotab: no sign before 3.6", LNOTAB_U8, T("\6\4\2\xfe"), 5, 8, 0, { 263, -1, -1, -1 } },
	{ "lnotab: odd length", LNOTAB_S8, T("\6\4\2"), 5, 8, 0, { 9, -1, -1, -1 } },
	{ "lnotab: below line 0", LNOTAB_S8, T("\0\x80"), 5, 8, ERR_CORRUPT, { 0 } },
	{ "310: empty", TABLE_310, T(""), 5, 0, ERR_ABSENT, { 0 } },
	{ "310: not started", TABLE_310, T("\4\1"), 5, -2, 0, { 5, -1, -1, -1 } },
	{ "310: empty ranges carry steps", TABLE_310, T("\0\x7f\0\x7f\4\1"), 5, 2, 0, { 260, -1, -1, -1 } },
	{ "310: end is outside", TABLE_310, T("\4\1\4\1"), 5, 4, 0, { 7, -1, -1, -1 } },
	{ "310: no line", TABLE_310, T("\4\x80\4\1"), 5, 0, ERR_ABSENT, { 0 } },
	{ "310: no line leaves the line alone", TABLE_310, T("\4\x80\4\1"), 5, 6, 0, { 6, -1, -1, -1 } },
	{ "310: past the end", TABLE_310, T("\4\1"), 5, 4, ERR_CORRUPT, { 0 } },
	{ "310: below line 0", TABLE_310, T("\4\x81"), 5, 0, ERR_CORRUPT, { 0 } },
	{ "locations: empty", LOCATIONS, T(""), 5, 0, ERR_ABSENT, { 0 } },
	{ "locations: not started", LOCATIONS, T(""), 5, -2, 0, { 5, -1, -1, -1 } },
	{ "locations: short", LOCATIONS, T("\x8b\x35"), 5, 6, 0, { 5, 5, 11, 16 } },
	{ "locations: short, past the end", LOCATIONS, T("\x8b\x35"), 5, 8, ERR_CORRUPT, { 0 } },
	{ "locations: short, bit 7", LOCATIONS, T("\x80\x80"), 5, 0, ERR_CORRUPT, { 0 } },
	{ "locations: one line, bytes above 127", LOCATIONS, T("\xe0\xc8\xff"), 5, 0, 0, { 7, 7, 200, 255 } },
	{ "locations: no columns, back", LOCATIONS, T("\xe8\x05"), 5, 0, 0, { 3, 3, -1, -1 } },
	{ "locations: long", LOCATIONS, T("\xf0\x06\x02\x40\x01\x43\x02"), 5, 0, 0, { 8, 10, 63, 130 } },
	{ "locations: long, columns not known", LOCATIONS, T("\xf0\x06\x02\0\0"), 5, 0, 0, { 8, 10, -1, -1 } },
	{ "locations: none", LOCATIONS, T("\xf8\x80\0"), 5, 0, ERR_ABSENT, { 0 } },
	{ "locations: none leaves the line alone", LOCATIONS, T("\xf8\x80\0"), 5, 2, 0, { 5, 5, 0, 0 } },
	{ "locations: no start bit", LOCATIONS, T("\x0b\x35"), 5, 0, ERR_CORRUPT, { 0 } },
	{ "locations: cut varint", LOCATIONS, T("\xe8\x40"), 5, 0, ERR_CORRUPT, { 0 } },
	{ "locations: endless varint", LOCATIONS, T("\xe8\x7f\x7f\x7f\x7f\x7f\x7f\x7f\1"), 5, 0, ERR_CORRUPT, { 0 } },
	{ "locations: start bit in a varint", LOCATIONS, T("\xe8\xc0\x01"), 5, 0, ERR_CORRUPT, { 0 } },
	{ "locations: below line 0", LOCATIONS, T("\xe8\x0d"), 5, 0, ERR_CORRUPT, { 0 } },
	{ "locations: from below line 0", LOCATIONS, T("\xf0\x0d\x0a\0\0"), 5, 0, ERR_CORRUPT, { 0 } },
	{ "locations: above any line", LOCATIONS, T("\xe8\x7e\x7f\x7f\x7f\x7f\x03"), 5, 0, ERR_CORRUPT, { 0 } },
#undef T
};

START_TEST(forms_by_hand)
{
	struct position got = { -7, -7, -7, -7 };
	struct blob table = { (const uint8_t *)by_hand[_i].bytes, by_hand[_i].len };
	int rc = position_at(by_hand[_i].scheme, table, by_hand[_i].first, by_hand[_i].lasti, &got);
	ck_assert_msg(rc == by_hand[_i].rc, "%s: rc %d", by_hand[_i].what, rc);
	struct position want = rc < 0 ? (struct position){ -7, -7, -7, -7 } : by_hand[_i].want;
	ck_assert_msg(memcmp(&got, &want, sizeof got) == 0, "%s: %d-%d %d-%d", by_hand[_i].what, got.line, got.end_line,
		      got.col, got.end_col);
}
END_TEST

/* CPython caps no table; a tool that stops at 4096 bytes loses the end of long functions. */
START_TEST(long_tables)
{
	size_t n = 3 << 20;
	uint8_t *p = xmalloc(n);
	struct position got;
	for (size_t i = 0; i < n; i += 3) {
		p[i] = 0xd8; /* one line down, one unit */
		p[i + 1] = 4;
		p[i + 2] = 9;
	}
	ck_assert_int_eq(linetable_locations((struct blob){ p, n }, 1, 2 * (1 << 20) - 2, &got), 0);
	ck_assert_int_eq(got.line, 1 + (1 << 20));
	memset(p, 1, n);
	ck_assert_int_eq(linetable_310((struct blob){ p, n }, 1, 1000000, &got), 0);
	ck_assert_int_eq(got.line, 1 + 1000001);
	ck_assert_int_eq(linetable_lnotab((struct blob){ p, n }, 1, 1000000, true, &got), 0);
	ck_assert_int_eq(got.line, 1 + 1000000);
	free(p);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("linetable");
	TCase *tc = tcase_create("linetable");
	tcase_set_timeout(tc, 300);
	tcase_add_test(tc, interpreters_agree);
	tcase_add_loop_test(tc, forms_by_hand, 0, COUNT(by_hand));
	tcase_add_test(tc, long_tables);
	suite_add_tcase(s, tc);
	return suite_run(s);
}
