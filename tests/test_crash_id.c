/* The ids of a crash: which ones are the same, which differ, and when none is given. */
#include <check.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "build_elf.h"
#include "build_py.h"
#include "every_layout.h"
#include "inspect/parts.h"
#include "suite.h"
#include "whole_report.h"

static const struct layout *tables;
static int n_tables;

/* Stacks oldest first, "name file" each; native ones have no file. equal: has the first row's group_id. */
static const struct { const char *signal, *module; const char *stack[8]; bool equal, detail; } crashes[] = {
	{ "SIGSEGV", "/usr/lib/libc.so.6", { "main /srv/a.py", "work /srv/a.py", "strlen" }, true, true },
	{ "SIGSEGV", "/opt/x/libc.so.7.1", { "main /home/b/a.py", "work /else/a.py", "strlen" }, true, true },
	{ "SIGSEGV", "/opt/x/libc.so.7.1 (deleted)", { "main /home/b/a.py", "work /else/a.py", "strlen" }, true, true },
	{ "SIGSEGV", "/opt/x/libc (deleted)", { "main /home/b/a.py", "work /else/a.py", "strlen" }, true, true },
	{ "SIGSEGV", "/usr/lib/libc.so.6", { "main /srv/a.py", "work /srv/a.py", "work /srv/a.py", "work /srv/a.py", "strlen" }, true, true },
	{ "SIGSEGV", "/usr/lib/libc.so.6", { "main /srv/a.py", "work /srv/a.py" }, true, false },
	{ "SIGSEGV", "/usr/lib/libc.so.6", { "main /srv/a.py", "work /srv/a.py", "" }, true, false },
	{ "SIGSEGV", "/usr/lib/libc.so.6", { "start", "main /srv/a.py", "eval", "work /srv/a.py", "strlen" }, true, true },
	{ "SIGABRT", "/usr/lib/libc.so.6", { "main /srv/a.py", "work /srv/a.py", "strlen" }, false, true },
	{ "SIGSEGV", "/usr/lib/libm.so.6", { "main /srv/a.py", "work /srv/a.py", "strlen" }, false, true },
	{ "SIGSEGV", "/usr/lib/libc.so.6", { "main /srv/a.py", "play /srv/a.py", "strlen" }, false, true },
	{ "SIGSEGV", "/usr/lib/libc.so.6", { "main /srv/a.py", "work /srv/b.py", "strlen" }, false, true },
	{ "SIGSEGV", "/usr/lib/libc.so.6", { "work /srv/a.py", "main /srv/a.py", "strlen" }, false, true },
	{ "SIGSEGV", NULL, { "main /srv/a.py", "work /srv/a.py", "strlen" }, false, true },
	/* A handler ran on it, also one written in Python: what counts is what it interrupted. */
	{ "SIGSEGV", "/usr/lib/libc.so.6", { "main /srv/a.py", "work /srv/a.py", "strlen", "__restore_rt", "raise" }, true, true },
	{ "SIGSEGV", "/usr/lib/libc.so.6", { "main /srv/a.py", "work /srv/a.py", "strlen", "__restore_rt", "on_signal /srv/c.py", "abort" }, true, true },
};

/* What of the Python functions is lost. */
enum loss { LOST_NOTHING, LOST_OLDER, LOST_ALL, LOST_NAME, LOST_ABOVE /* in a handler, which does not count */, LOST_STATE, LOST_STATE_LISTED, LOST_OTHER, LOST_NONE_RUN };

static void ids_of(size_t row, enum loss lost, char group[32], char detail[32])
{
	struct build_elf *b = build_elf_new("x86_64");
	build_elf_thread(b, PID, 0x50010, 0x7ff0);
	if (crashes[row].module)
		build_elf_file(b, 0x50000, 0x51000, 0, crashes[row].module);
	struct image *img = build_elf_open(b);
	struct report *r = report_new();
	struct report_frame frames[8] = { 0 };
	const struct report_frame *list[8];
	size_t n = 0;
	bool nameless = false;
	for (; n < 8 && crashes[row].stack[n]; n++) {
		const char *text = crashes[row].stack[n], *space = strchr(text, ' ');
		frames[n].python = space;
		frames[n].function = (struct str){ text, space ? (size_t)(space - text) : strlen(text) };
		frames[n].file = str_of(space ? space + 1 : NULL);
		frames[n].at.line = (int)(row * 10 + n); /* of no matter */
		frames[n].pc = frames[n].python ? 0 : str_is(frames[n].function, "strlen") ? 0x50010 : 0x50100 + n;
		nameless |= !*text;
		list[n] = &frames[n];
	}
	struct report_thread t = { .tid = PID, .has_python = lost < LOST_STATE, .active = lost < LOST_ALL };
	frames[lost == LOST_ABOVE ? n - 2 : 1].unread = lost == LOST_NAME || lost == LOST_ABOVE;
	t.broken = lost == LOST_OLDER || lost == LOST_ALL ? STR("it is not in the capture") : (struct str){ 0 };
	r->python.salvaged = lost == LOST_STATE;
	r->python.others = lost == LOST_OTHER;
	if (lost == LOST_STATE_LISTED)
		report_problem(r, P_THREADS_BROKEN, 0LL, "loops", 0ULL, "?");
	report_fold(r, list, n, &t.runs, &t.n_runs);
	r->verdict.signal.name = str_of(crashes[row].signal);
	crash_ids(img, r, &t, 0x50010, CRASH_FAULT);
	snprintf(group, 32, STR_FMT, STR_ARG(r->verdict.group_id));
	snprintf(detail, 32, STR_FMT, STR_ARG(r->verdict.detail_id));
	const bool told = !r->verdict.group_id.len || nameless;
	ck_assert_uint_eq(r->verdict.notes.n, told);
	ck_assert_str_eq(told ? r->verdict.notes.p[0].key : "", !told ? "" : r->verdict.group_id.len ? NOTE_DETAIL_ID : "id");
	report_free(r);
	image_close(img);
	build_elf_free(b);
}

/* Without all of its functions one crash in the C library is like another. */
START_TEST(no_crash_id)
{
	static const struct { enum loss lost; bool given; } ways[] = {
		{ LOST_NOTHING, true }, { LOST_OLDER, false }, { LOST_ALL, false }, { LOST_NAME, false }, { LOST_ABOVE, true }, { LOST_STATE, false }, { LOST_STATE_LISTED, false },
		{ LOST_OTHER, false }, { LOST_NONE_RUN, true },
	};
	for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
		char group[32], detail[32];
		ids_of(sizeof crashes / sizeof *crashes - 1, ways[i].lost, group, detail);
		ck_assert_msg((*group != 0) == ways[i].given && (ways[i].given || !*detail), "row %zu: %s", i, group);
	}
}
END_TEST

START_TEST(crash_id)
{
	char first[32], group[32], detail[32];
	ids_of(0, LOST_NOTHING, first, detail);
	ck_assert_str_eq(first, "7363-30cf-3b7c-dead"); /* the definition does not change unnoticed */
	ids_of((size_t)_i, LOST_NOTHING, group, detail);
	ck_assert_int_eq(strcmp(first, group) == 0, crashes[_i].equal);
	ck_assert_int_eq(detail[0] != '\0', crashes[_i].detail);
	ck_assert_str_ne(group, detail);
}
END_TEST

/* Names of native functions in detail_id: those of two builds are the same. */
START_TEST(crash_detail)
{
	static const struct { const char *strlen, *symbol, *caller; bool equal, inlined; const char *searched; } names[] = {
		{ "strlen", NULL, "work", true }, { "strlen.cold", NULL, "work", true }, { "strlen@@GLIBC_2.2.5", NULL, "work.constprop.0.isra.0", true },
		{ "strnlen", NULL, "work", false }, { "strlen", "_Z6strlenPc", "work", false }, { "strlen", NULL, "main.work", false },
		{ "strlen", NULL, "work", true, true }, { "strlen", NULL, "work", true, false, "cfi" },
		/* What a search of the stack found may be left of a call that is over. */
		{ "strlen", NULL, "work", false, false, "scan" },
	};
	char first[32] = "", group[32] = "";
	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		struct build_elf *b = build_elf_new("x86_64");
		build_elf_thread(b, PID, 0x50010, 0x7ff0);
		struct image *img = build_elf_open(b);
		struct report *r = report_new();
		struct report_frame frames[4] = { { .python = true, .function = STR("go"), .file = STR("a.py") }, { .function = str_of(names[i].caller), .pc = 0x50100 },
						  { .function = str_of(names[i].strlen), .symbol = str_of(names[i].symbol), .pc = 0x50010 },
						  { .function = STR("length"), .inlined = true, .pc = 0x50010 } };
		const struct report_frame *list[4] = { &frames[0], &frames[1], &frames[2], &frames[3] };
		struct report_thread t = { .tid = PID, .has_python = true, .active = true };
		frames[1].found_by = names[i].searched;
		const bool given = !names[i].searched || strcmp(names[i].searched, "scan");
		report_fold(r, list, names[i].inlined ? 4 : 3, &t.runs, &t.n_runs);
		r->verdict.signal.name = STR("SIGSEGV");
		crash_ids(img, r, &t, 0x50010, CRASH_FAULT);
		ck_assert(r->verdict.group_id.len && !r->verdict.detail_id.len == !given);
		if (i == 0) {
			snprintf(first, sizeof first, STR_FMT, STR_ARG(r->verdict.detail_id));
			snprintf(group, sizeof group, STR_FMT, STR_ARG(r->verdict.group_id));
		}
		ck_assert_msg(str_is(r->verdict.detail_id, first) == names[i].equal, "%zu", i);
		ck_assert(str_is(r->verdict.group_id, group));
		report_free(r);
		image_close(img);
		build_elf_free(b);
	}
}
END_TEST

/* The same stack and signal: what brought it and what holds the pc tell crashes apart, and that it is only likely. */
START_TEST(crash_kinds)
{
	enum { KINDS = CRASH_OVERFLOW + 1, HELD = 4 /* by nothing; by a file; by the vdso, at one place and another */ };
	char id[KINDS][HELD][2][32];
	for (int n = 0; n < KINDS * HELD * 2; n++) {
		const int kind = n / HELD / 2, held = n / 2 % HELD, likely = n % 2;
		const addr_t pc = held == 3 ? 0xf7f00549 : 0x50549;
		struct build_elf *b = build_elf_new("i386");
		build_elf_thread(b, PID, pc, 0x7ff0);
		if (held == 1)
			build_elf_file(b, 0x50000, 0x51000, 0, "/lib/libc.so.6");
		build_elf_auxv(b, 33, held > 1 ? pc & ~(addr_t)0xfff : 0x70000);
		memset(build_elf_memory(b, pc & ~(addr_t)0xfff, 0x2000, 5), 0, 0x2000);
		memset(build_elf_memory(b, 0x70000, 0x2000, 5), 0, 0x2000);
		struct image *img = build_elf_open(b);
		struct report *r = report_new();
		struct report_frame python = { .python = true, .function = STR("work"), .file = STR("/srv/a.py") }, native = { .pc = pc };
		const struct report_frame *list[] = { &python, &native };
		struct report_thread t = { .tid = PID, .has_python = true, .active = true };
		report_fold(r, list, 2, &t.runs, &t.n_runs);
		r->verdict.signal.name = STR("SIGSEGV");
		r->verdict.ids_likely = likely;
		crash_ids(img, r, &t, pc, (enum crash_kind)kind);
		snprintf(id[kind][held][likely], 32, STR_FMT, STR_ARG(r->verdict.group_id));
		ck_assert_uint_eq(strlen(id[kind][held][likely]), 19);
		report_free(r);
		image_close(img);
		build_elf_free(b);
	}
	for (int i = 0; i < KINDS * HELD * 2; i++)
		for (int k = 0; k < i; k++) {
			const int a[] = { i / HELD / 2, i / 2 % HELD, i % 2 }, c[] = { k / HELD / 2, k / 2 % HELD, k % 2 };
			const bool nowhere = a[0] == CRASH_NULL || a[0] == CRASH_WILD || a[0] == CRASH_OVERFLOW, held = a[1] == c[1] || (a[1] > 1 && c[1] > 1);
			const bool same = !strcmp(id[a[0]][a[1]][a[2]], id[c[0]][c[1]][c[2]]), want = a[0] == c[0] && a[2] == c[2] && (nowhere || held);
			ck_assert_msg(same == want, "kind %d held %d likely %d, and %d %d %d", a[0], a[1], a[2], c[0], c[1], c[2]);
		}
}
END_TEST

/* A stack that overflowed, oldest first: outer ones, a cycle so many times, inner ones.  "name file" is Python's; the pc is the innermost's. */
static const struct {
	const char *outer[3], *cycle[4];
	int cycles;
	const char *inner[3];
	int group, detail; /* the row that it is like; detail -1: none is given */
} overflows[] = {
	{ { "main /a.py" }, { "f /a.py", "g /b.py" }, 100, { "f /a.py" }, 0, -1 },
	{ { "main /a.py" }, { "f /a.py", "g /b.py" }, 57, { 0 }, 0, -1 },
	{ { "main /x/a.py" }, { "g /b.py", "f /a.py" }, 57, { "g /b.py", "leaf /c.py" }, 0, -1 },
	{ { "main /a.py" }, { "f /a.py", "call", "g /b.py", "eval" }, 99, { "malloc" }, 0, -1 }, /* which C functions are innermost is chance */
	{ { "main /a.py" }, { "f /a.py", "call", "g /b.py", "eval" }, 99, { "f /a.py", "call" }, 0, -1 },
	{ { "main /a.py" }, { "f /a.py", "g /b.py" }, 16, { 0 }, 0, -1 },
	{ { "main /a.py" }, { "f /a.py", "g /b.py" }, 15, { 0 }, 6, -1 }, /* no recursion: the order of the stack */
	{ { "main /a.py" }, { "g /b.py", "f /a.py" }, 15, { 0 }, 0, -1 }, /* which is that of the names */
	{ { "main /a.py" }, { "f /a.py", "h /b.py" }, 100, { 0 }, 8, -1 },
	{ { "main /a.py" }, { "f /a.py", "g /a.py" }, 100, { 0 }, 9, -1 },
	{ { "other /a.py" }, { "f /a.py", "g /b.py" }, 100, { 0 }, 10, -1 },
	{ { "main /a.py" }, { "f /a.py" }, 100, { 0 }, 11, -1 },
	{ { "main /a.py", "f /a.py", "enter" }, { "visit", "walk" }, 100, { "visit", "malloc" }, 11, 12 }, /* C's own recursion */
	{ { "main /a.py", "f /a.py", "enter" }, { "walk", "visit" }, 300, { 0 }, 11, 12 },
	{ { "main /a.py", "f /a.py", "enter" }, { "walk", "stroll" }, 300, { 0 }, 11, 14 },
	{ { "main /a.py", "f /a.py", "enter" }, { "walk", "visit" }, 3, { 0 }, 11, -1 },
	{ { "main /a.py", "g /a.py", "enter" }, { "walk", "visit" }, 300, { 0 }, 16, 16 },
	{ { "main /a.py" }, { "f /a.py", "call" }, 100, { 0 }, 11, -1 }, /* C's by turns with Python's: as where another is innermost */
	{ { "main /a.py" }, { "f /a.py", "call" }, 100, { "f /a.py" }, 11, -1 },
};

static void overflow_ids(size_t row, char group[32], char detail[32])
{
	enum { ALL = 1024 };
	struct report_frame *frames = xcalloc(ALL, sizeof *frames);
	const struct report_frame **list = xcalloc(ALL, sizeof *list);
	size_t n = 0;
	for (int part = 0; part < 3; part++) {
		const char *const *of = part == 0 ? overflows[row].outer : part == 1 ? overflows[row].cycle : overflows[row].inner;
		for (int k = 0; k < (part == 1 ? overflows[row].cycles : 1); k++)
			for (size_t i = 0; i < (part == 1 ? 4 : 3) && of[i]; i++, n++) {
				const char *space = strchr(of[i], ' ');
				ck_assert_uint_lt(n, ALL);
				frames[n] = (struct report_frame){ .python = space, .function = { of[i], space ? (size_t)(space - of[i]) : strlen(of[i]) },
								   .file = str_of(space ? space + 1 : NULL), .pc = space ? 0 : 0x50100 + i };
				list[n] = &frames[n];
			}
	}
	if (!frames[n - 1].python)
		frames[n - 1].pc = 0x50010;
	struct build_elf *b = build_elf_new("x86_64");
	build_elf_thread(b, PID, 0x50010, 0x7ff0);
	build_elf_file(b, 0x50000, 0x51000, 0, row % 2 ? "/lib/libm.so.6" : "/lib/libc.so.6"); /* of no matter */
	struct image *img = build_elf_open(b);
	struct report *r = report_new();
	struct report_thread t = { .tid = PID, .has_python = true, .active = true };
	report_fold(r, list, n, &t.runs, &t.n_runs);
	r->verdict.signal.name = STR("SIGSEGV");
	crash_ids(img, r, &t, 0x50010, CRASH_OVERFLOW);
	snprintf(group, 32, STR_FMT, STR_ARG(r->verdict.group_id));
	snprintf(detail, 32, STR_FMT, STR_ARG(r->verdict.detail_id));
	report_free(r);
	image_close(img);
	build_elf_free(b);
	free(list);
	free(frames);
}

/* Where in a recursion the stack ended is in no id. */
START_TEST(recursions)
{
	char group[32], detail[32], other[32], other_detail[32];
	overflow_ids((size_t)_i, group, detail);
	ck_assert_uint_eq(strlen(group), 19);
	ck_assert_int_eq(*detail != 0, overflows[_i].detail >= 0);
	for (int k = 0; k < _i; k++) {
		overflow_ids((size_t)k, other, other_detail);
		ck_assert_msg(!strcmp(group, other) == (overflows[_i].group == overflows[k].group), "%d and %d", _i, k);
		ck_assert_msg(!*detail || !strcmp(detail, other_detail) == (overflows[_i].detail == overflows[k].detail), "%d and %d", _i, k);
	}
}
END_TEST

enum { SOME = 16 /* of all tables one in so many */ };

/* Whole reports of one Python function: only how it crashed differs. */
START_TEST(crash_ways)
{
	static const struct { int signo, code; addr_t pc, addr; bool likely; } ways[] = {
		{ SIGSEGV, 1, 0x41000, 0x1234, false }, { SIGSEGV, 1, 0, 0, false }, { SIGSEGV, 1, 0x77000, 0x77000, false }, { SIGSEGV, SI_TKILL, 0x41000, 0, false },
		{ SIGSEGV, 999, 0x41000, 0, true }, { SIGABRT, SI_TKILL, 0x41000, 0, false }, { SIGBUS, 2, 0x41000, 0x1234, false }, { SIGABRT, 999, 0x41000, 0, true },
		/* as others before: where it was does not matter */
		{ SIGSEGV, 2, 0x41000, 0x9999, false }, { SIGSEGV, 1, 0x10, 0x10, false }, { SIGSEGV, 2, 0x66000, 0x66000, false }, { SIGSEGV, SI_TIMER, 0x41000, 0, false },
	};
	enum { N = sizeof ways / sizeof *ways, OTHERS = 8 };
	static const int like[N] = { 0, 1, 2, 3, 4, 5, 6, 7, 0, 1, 2, 3 };
	char id[N][32];
	for (size_t i = 0; i < N; i++) {
		struct build *b = build_new(&tables[_i * SOME]);
		addr_t code = build_code(b, &(struct build_code){ .name = "run", .file = "a.py", .firstlineno = 10, .units = 8 });
		build_frame(b, build_thread(b, b->interp, BUILD_IDENT(b), PID), &(struct build_frame){ .code = code, .lasti = 2 });
		b->lwps.p[0].signo = ways[i].signo;
		b->lwps.p[0].regs.pc = ways[i].pc;
		b->lwps.p[0].regs.sp = build_alloc(b, 64); /* all of its stack is there, and has no signal frame */
		struct py *py = build_py(b);
		struct image_facts *f = image_facts_mut(py->img);
		f->kind = IMAGE_CORE;
		f->pid = PID;
		f->siginfo.known = ways[i].code != 999;
		f->siginfo.signo = ways[i].signo;
		f->siginfo.code = ways[i].code;
		f->siginfo.has_addr = ways[i].code > 0;
		f->siginfo.addr = ways[i].addr;
		f->siginfo.has_sender = ways[i].code <= 0 && ways[i].code != SI_TIMER;
		f->siginfo.pid = PID;
		struct report *r = report_new();
		say(py->img, py, NULL, r);
		ck_assert_int_eq(r->verdict.kind, VERDICT_CRASH);
		ck_assert_int_eq(r->verdict.ids_likely, ways[i].likely);
		snprintf(id[i], 32, STR_FMT, STR_ARG(r->verdict.group_id));
		ck_assert_uint_eq(strlen(id[i]), 19);
		report_free(r);
		build_free(b);
		for (size_t k = 0; k < i; k++)
			ck_assert_msg(!strcmp(id[i], id[k]) == (like[i] == like[k]), "%s: %zu and %zu: %s %s", tables[_i * SOME].name, i, k, id[i], id[k]);
	}
}
END_TEST

int main(void)
{
	size_t n;
	tables = every_layout(&n);
	n_tables = (int)n;
	Suite *s = suite_create("crash_id");
	TCase *c = tcase_create("crash_id");
	tcase_add_test(c, no_crash_id);
	tcase_add_test(c, crash_detail);
	tcase_add_test(c, crash_kinds);
	tcase_add_loop_test(c, recursions, 0, COUNT(overflows));
	tcase_add_loop_test(c, crash_ways, 0, (n_tables + SOME - 1) / SOME);
	tcase_add_loop_test(c, crash_id, 0, COUNT(crashes));
	suite_add_tcase(s, c);
	return suite_run(s);
}
