/* inspect: the verdict on every way a process ends. */
#include <check.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "build_elf.h"
#include "inspect/gil.h"
#include "inspect/parts.h"
#include "suite.h"
#include "whole_report.h"

/* sender 0: no sender, addr is the fault's; code 999: no NT_SIGINFO at all, cursig only. */
static const struct { int signo, code; int sender; addr_t addr; enum verdict_kind kind; bool likely; const char *title; } verdicts[] = {
	{ SIGSEGV, 1, 0, 0x0, VERDICT_CRASH, false, "SIGSEGV: access to address 0x0 (null pointer)" },
	{ SIGSEGV, 1, 0, 0xfff, VERDICT_CRASH, false, "SIGSEGV: access to address 0xfff (4095 bytes past a null pointer)" },
	{ SIGSEGV, 1, 0, 0x1000, VERDICT_CRASH, false, "SIGSEGV: access to address 0x1000 (nothing is mapped there)" },
	{ SIGSEGV, 1, 0, 0xfffffffffffffffc, VERDICT_CRASH, false, "SIGSEGV: access to address 0xfffffffffffffffc (4 bytes before a null pointer)" },
	{ SIGSEGV, 1, 0, 0xffffffff80000000, VERDICT_CRASH, false, "SIGSEGV: access to address 0xffffffff80000000 (in the kernel's half of memory)" },
	{ SIGSEGV, 2, 0, 0x7f0012345678, VERDICT_CRASH, false, "SIGSEGV: access to address 0x7f0012345678 (the mapping does not allow it)" },
	/* The stack is at 0x30000 to 0x32000, sp 0x30010; libx.so at 0x50000 to 0x51000. */
	{ SIGSEGV, 1, 0, 0x2fff8, VERDICT_CRASH, false, "SIGSEGV: access to address 0x2fff8 (stack overflow: in the guard page of the main thread's stack)" },
	{ SIGSEGV, 2, 0, 0x2f000, VERDICT_CRASH, false, "SIGSEGV: access to address 0x2f000 (stack overflow: in the guard page of the main thread's stack)" },
	/* A guard that is part of the stack's own mapping; further from sp, and refused, it is none. */
	{ SIGSEGV, 1, 0, 0x30008, VERDICT_CRASH, false, "SIGSEGV: access to address 0x30008 (stack overflow: in the guard page of the main thread's stack)" },
	{ SIGSEGV, 2, 0, 0x30008, VERDICT_CRASH, false, "SIGSEGV: access to address 0x30008 (the mapping does not allow it)" },
	{ SIGSEGV, 1, 0, 0x70008, VERDICT_CRASH, false, "SIGSEGV: access to address 0x70008 (nothing is mapped there)" },
	{ SIGSEGV, 1, 0, 0x51000, VERDICT_CRASH, false, "SIGSEGV: access to address 0x51000 (at the very end of libx.so)" },
	{ SIGSEGV, 1, 0, 0x5100c, VERDICT_CRASH, false, "SIGSEGV: access to address 0x5100c (12 bytes past the end of libx.so)" },
	{ SIGSEGV, 2, 0, 0x50008, VERDICT_CRASH, false, "SIGSEGV: access to address 0x50008 (the mapping does not allow it)" },
	{ SIGSEGV, 1, 0, 0x401000, VERDICT_CRASH, false, "SIGSEGV: execution of address 0x401000 (a jump to unmapped memory)" },
	{ SIGSEGV, 77, 0, 0x4242, VERDICT_CRASH, false, "SIGSEGV: access to address 0x4242" },
	{ SIGSEGV, 0x80, 0, 0, VERDICT_CRASH, false,
	  "SIGSEGV: the processor refused an instruction; no address is given (often an address that is not canonical, else a privileged instruction)" },
	{ SIGBUS, 2, 0, 0x7000, VERDICT_CRASH, false, "SIGBUS: access to address 0x7000 (past the end of the mapped file, or its file system is full or failed)" },
	/* The page of the instruction itself. */
	{ SIGBUS, 2, 0, 0x401000, VERDICT_CRASH, false, "SIGBUS: execution of address 0x401000 (past the end of the mapped file, or its file system is full or failed)" },
	{ SIGFPE, 1, 0, 0x401000, VERDICT_CRASH, false, "SIGFPE: integer division by zero or overflow at 0x401000" },
	{ SIGILL, 2, 0, 0x401000, VERDICT_CRASH, false, "SIGILL: illegal operand at 0x401000" },
	{ SIGABRT, -6, PID, 0, VERDICT_CRASH, false, "SIGABRT: the process aborted itself (abort, a failed assertion or a fatal error)" },
	{ SIGSEGV, -6, PID, 0, VERDICT_CRASH, false, "SIGSEGV: the process sent it to itself" },
	{ SIGSEGV, -2, 0, 0, VERDICT_CRASH, false, "SIGSEGV: a timer of the process ran out (timer_create)" },
	{ SIGALRM, -2, 0, 0, VERDICT_STOPPED, false, "SIGALRM: a timer of the process ran out (timer_create)" },
	{ SIGABRT, 0, 99, 0, VERDICT_STOPPED, false, "SIGABRT sent by pid 99 (uid 1000)" },
	{ SIGABRT, -6, 99, 0, VERDICT_STOPPED, false, "SIGABRT sent by pid 99 (uid 1000)" },
	{ SIGSEGV, 0, 99, 0, VERDICT_STOPPED, false, "SIGSEGV sent by pid 99 (uid 1000)" },
	{ 40, 0, 99, 0, VERDICT_STOPPED, false, "SIG40 sent by pid 99 (uid 1000)" },
	{ SIGQUIT, 0x80, 0, 0, VERDICT_STOPPED, false, "SIGQUIT sent by the kernel (a terminal key or a limit)" },
	{ SIGXCPU, 0x80, 0, 0, VERDICT_STOPPED, false, "SIGXCPU sent by the kernel (a limit of CPU time, RLIMIT_CPU or RLIMIT_RTTIME)" },
	{ SIGSTOP, 0x80, 0, 0, VERDICT_STOPPED, false, "the core was taken from a running process (by gcore or a debugger)" },
	{ SIGSEGV, 999, 0, 0, VERDICT_CRASH, true, "SIGSEGV: the core does not say who sent it" },
	{ SIGTERM, 999, 0, 0, VERDICT_STOPPED, true, "SIGTERM: the core does not say who sent it" },
	{ 0, 999, 0, 0, VERDICT_STOPPED, true, "the core was taken from a running process (by gcore or a debugger)" },
};

START_TEST(verdict)
{
	struct build_elf *b = build_elf_new("x86_64");
	build_elf_thread(b, PID, 0x401000, 0x30010);
	memset(build_elf_memory(b, 0x30000, 0x2000, 3), 0, 0x2000);
	memset(build_elf_memory(b, 0x50000, 0x1000, 1), 0, 0x1000);
	memset(build_elf_memory(b, 0x70000, 0x1000, 3), 0, 0x1000);
	build_elf_file(b, 0x50000, 0x51000, 0, "/usr/lib/libx.so");
	build_elf_cursig(b, verdicts[_i].signo);
	build_elf_prpsinfo(b, PID, 1, 0, "python", "python x.py");
	if (verdicts[_i].code == 999)
		;
	else if (verdicts[_i].sender)
		build_elf_signal_from(b, verdicts[_i].signo, verdicts[_i].code, verdicts[_i].sender, 1000);
	else
		build_elf_signal(b, verdicts[_i].signo, verdicts[_i].code, verdicts[_i].addr);
	build_elf_thread(b, PID + 1, 0x401000, 0x9ff0);
	struct image *img = build_elf_open(b);
	struct report *r = report_new();
	struct err err = { .code = ERR_NOPYTHON, .msg = "found no CPython" };
	say(img, NULL, &err, r);
	CLEANUP(cleanup_free) char *title = xasprintf(STR_FMT, STR_ARG(r->verdict.title));
	ck_assert_str_eq(title, verdicts[_i].title);
	ck_assert_int_eq(r->verdict.kind, verdicts[_i].kind);
	ck_assert_int_eq(r->verdict.likely, verdicts[_i].likely);
	ck_assert_uint_eq(r->threads.n, 2);
	/* Only of a crash is a thread to blame, and then the first. */
	ck_assert_int_eq(r->threads.p[0].crashed, verdicts[_i].kind == VERDICT_CRASH);
	ck_assert_int_eq(r->threads.p[1].crashed, false);
	ck_assert_int_eq(r->verdict.tid, PID);
	for (size_t i = 0; i < r->problems.n; i++) /* there is another limit: no Python was found */
		ck_assert(r->problems.p[i].id != P_LIKELY || str_is(r->problems.p[i].hint, "nothing lifts this by itself, but what lifts another of these limits may"));
	report_free(r);
	image_close(img);
	build_elf_free(b);
}
END_TEST

/* The file ends before the stack: where that was is known, and so is what lies right beneath it; nothing is said of what lies elsewhere. */
START_TEST(lost_stack)
{
	static const struct { addr_t addr, sp; const char *words; } rows[] = {
		{ 0x2fff8, 0x30010, "stack overflow: in the guard page of the main thread's stack" }, { 0x2fff8, 0x2fff8, "stack overflow: in the guard page of the main thread's stack" },
		{ 0x2fff8, 0x70010, "nothing is mapped there" }, { 0x80008, 0x30010, "nothing is mapped there" }, { 0x3fff8, 0x40010, "nothing is mapped there" },
	};
	struct build_elf *b = build_elf_new("x86_64");
	build_elf_thread(b, PID, 0x401000, rows[_i].sp);
	build_elf_prpsinfo(b, PID, 1, 0, "python", "python x.py");
	build_elf_cursig(b, SIGSEGV);
	build_elf_signal(b, SIGSEGV, 1, rows[_i].addr);
	memset(build_elf_memory(b, 0x10000, 0x1000, 3), 0, 0x1000);
	memset(build_elf_memory(b, 0x30000, 0x2000, 3), 0, 0x2000);
	struct blob file = build_elf_finish(b);
	struct image *img;
	struct err err;
	ck_assert_int_eq(image_open_bytes(bytes_from_memory(file.p, build_elf_data(b) + 0x1000, "cut.core"), &img, &err), 0);
	ck_assert_uint_eq(image_facts(img)->n_lost, 1);
	struct report *r = report_new();
	say(img, NULL, &(struct err){ .code = ERR_NOPYTHON, .msg = "found no CPython" }, r);
	CLEANUP(cleanup_free) char *title = xasprintf(STR_FMT, STR_ARG(r->verdict.title)), *want = xasprintf("SIGSEGV: access to address 0x%llx (%s)", (unsigned long long)rows[_i].addr, rows[_i].words);
	ck_assert_str_eq(title, want);
	report_free(r);
	image_close(img);
	build_elf_free(b);
}
END_TEST

/* What of stacks is lost: where they are, further up, of the first one while a handler runs elsewhere, or nothing. */
START_TEST(lost_stacks)
{
	static const struct { addr_t sp, random; size_t keep; const char *words; } rows[] = {
		{ 0x30010, 0, 0x1000, "; segments lost: 1 of 2: 1 with thread stacks (of 1 of 1 thread)" }, { 0x30010, 0x31ff0, 0x1000, "; segments lost: 1 of 2: 1 with thread stacks (of 1 of 1 thread)" },
		{ 0x30010, 0, 0x1800, "; segments lost: 1 of 2: 1 with thread stacks (of 1 of 1 thread, in part)" }, { 0x10010, 0x31ff0, 0x1000, "; segments lost: 1 of 2: 1 with thread stacks (of 1 of 1 thread, in part)" },
		{ 0x10010, 0, 0x1000, "; segments lost: 1 of 2: 1 of heap and other memory" }, { 0x10010, 0x10ff0, 0x1000, "; segments lost: 1 of 2: 1 of heap and other memory" },
	};
	__auto_type c = &rows[_i];
	struct build_elf *b = build_elf_new("x86_64");
	build_elf_thread(b, PID, 0x401000, c->sp);
	build_elf_prpsinfo(b, PID, 1, 0, "python", "python x.py");
	if (c->random)
		build_elf_auxv(b, 25 /* AT_RANDOM */, c->random);
	memset(build_elf_memory(b, 0x10000, 0x1000, 3), 0, 0x1000);
	memset(build_elf_memory(b, 0x30000, 0x2000, 3), 0, 0x2000);
	struct blob file = build_elf_finish(b);
	struct image *img;
	struct err err;
	ck_assert_int_eq(image_open_bytes(bytes_from_memory(file.p, build_elf_data(b) + c->keep, "cut.core"), &img, &err), 0);
	struct report *r = report_new();
	say(img, NULL, &(struct err){ .code = ERR_NOPYTHON, .msg = "found no CPython" }, r);
	bool found = false;
	for (size_t i = 0; i < r->problems.n; i++)
		found |= r->problems.p[i].id == P_TRUNCATED && str_ends(r->problems.p[i].message, c->words);
	ck_assert_msg(found, "%s, not %zu and %zu", c->words, r->input.lost.stacks, r->input.lost.in_part);
	report_free(r);
	image_close(img);
	build_elf_free(b);
}
END_TEST

/* Where the stack is lost, what a handler may have passed on is too; where it is there and has no signal frame, there was none. */
START_TEST(lost_handler)
{
	static const struct { int signo; bool cut, absent; const char *title; bool elsewhere; addr_t random; } rows[] = {
		{ SIGABRT, false, false, "SIGABRT: the process aborted itself (abort, a failed assertion or a fatal error)" },
		{ SIGABRT, true, false, "SIGABRT: the process sent it to itself; a handler may have passed on what came before: its stack is not in the file" },
		{ SIGSEGV, true, false, "SIGSEGV: the process sent it to itself; a handler may have passed on what came before: its stack is not in the file" },
		{ SIGSEGV, false, true, "SIGSEGV: the process sent it to itself; a handler may have passed on what came before: its stack is not in the file" },
		/* On its own stack, and on one that a handler may have been given. */
		{ SIGSEGV, false, false, "SIGSEGV: the process sent it to itself", false, 0x31000 },
		{ SIGSEGV, false, false, "SIGSEGV: the process sent it to itself; a handler may have passed on what came before: native frames do not lead to where its thread began", false, 0x71000 },
		/* What was cut off is not the stack, but may be the code that tells what lies there. */
		{ SIGABRT, false, false, "SIGABRT: the process sent it to itself; a handler may have passed on what came before: native frames do not lead to where its thread began", true },
	};
	__auto_type c = &rows[_i];
	struct build_elf *b = build_elf_new("x86_64");
	build_elf_thread(b, PID, 0x10107, 0x30010);
	build_elf_reg(b, "rdi", PID);
	build_elf_reg(b, "rsi", (uint64_t)c->signo);
	build_elf_prpsinfo(b, PID, 1, 0, "python", "python x.py");
	build_elf_cursig(b, c->signo);
	build_elf_signal_from(b, c->signo, SI_TKILL, PID, 0);
	memcpy(build_elf_memory(b, 0x10000, 0x1000, 5) + 0x100, "\xb8\x3e\0\0\0\x0f\x05", 7); /* kill */
	if (c->random)
		build_elf_auxv(b, 25 /* AT_RANDOM */, c->random);
	if (c->absent)
		build_elf_absent(b, 0x30000, 0x2000, 3);
	else
		memset(build_elf_memory(b, 0x30000, 0x2000, 3), 0, 0x2000);
	struct blob file = build_elf_finish(b);
	struct image *img;
	struct err err;
	ck_assert_int_eq(image_open_bytes(bytes_from_memory(file.p, c->cut ? build_elf_data(b) + 0x1800 : file.len, "cut.core"), &img, &err), 0);
	image_facts_mut(img)->truncated |= c->elsewhere;
	struct report *r = report_new();
	say(img, NULL, &(struct err){ .code = ERR_NOPYTHON, .msg = "found no CPython" }, r);
	CLEANUP(cleanup_free) char *title = xasprintf(STR_FMT, STR_ARG(r->verdict.title));
	ck_assert_str_eq(title, c->title);
	ck_assert_int_eq(r->verdict.kind, VERDICT_CRASH);
	bool hinted = false;
	for (size_t i = 0; i < r->problems.n; i++)
		hinted |= r->problems.p[i].id == P_LIKELY && str_is(r->problems.p[i].hint, "without --show=-native: C frames may tell");
	ck_assert(hinted == r->verdict.likely);
	ck_assert(r->verdict.likely == (strstr(c->title, "may have passed") != NULL) && r->verdict.ids_likely == r->verdict.likely);
	report_free(r);
	image_close(img);
	build_elf_free(b);
}
END_TEST

/*
 * A stack pointer that leads nowhere, since a frame was too large or it was overwritten: that is said of an address there.  It is no core
 * without memory where the top of the stack or a thread's own data is.
 */
START_TEST(astray)
{
	static const struct { addr_t addr, sp, random, tls; const char *words; bool memory; } rows[] = {
		{ 0x9000000, 0x9000010, 0x31000, 0, "where the stack pointer is, but no stack", true },
		{ 0x9000000, 0x9000010, 0, 0x31000, "where the stack pointer is, but no stack", true },
		{ 0x9000000, 0x9000010, 0, 0, "where the stack pointer is, but no stack", false },
		{ 0x9000000, 0x9000010, 0x61000, 0x61000, "where the stack pointer is, but no stack", false },
		{ 0x9000000, 0x9900010, 0x31000, 0, "nothing is mapped there", true },
		{ 0x9000000, 0x31010, 0, 0, "nothing is mapped there", true },
	};
	struct build_elf *b = build_elf_new("x86_64");
	build_elf_thread(b, PID, 0x401000, rows[_i].sp);
	build_elf_tls(b, rows[_i].tls);
	build_elf_prpsinfo(b, PID, 1, 0, "python", "python x.py");
	build_elf_cursig(b, SIGSEGV);
	build_elf_signal(b, SIGSEGV, 1, rows[_i].addr);
	if (rows[_i].random)
		build_elf_auxv(b, 25 /* AT_RANDOM */, rows[_i].random);
	memset(build_elf_memory(b, 0x30000, 0x2000, 3), 0, 0x2000);
	struct image *img = build_elf_open(b);
	struct report *r = report_new();
	say(img, NULL, &(struct err){ .code = ERR_NOPYTHON, .msg = "found no CPython" }, r);
	CLEANUP(cleanup_free) char *title = xasprintf(STR_FMT, STR_ARG(r->verdict.title)), *want = xasprintf("SIGSEGV: access to address 0x%llx (%s)", (unsigned long long)rows[_i].addr, rows[_i].words);
	ck_assert_str_eq(title, want);
	bool memory = true;
	for (size_t i = 0; i < r->problems.n; i++)
		memory &= r->problems.p[i].id != P_NO_STACKS;
	ck_assert_int_eq(memory, rows[_i].memory);
	report_free(r);
	image_close(img);
	build_elf_free(b);
}
END_TEST

/*
 * A handler, which did not ask for siginfo, in a library of which nothing is here, and what it interrupted, also of a library; or a
 * handler that has returned, and the second thread that sent the signal, or stands in a handler itself.
 */
enum { NO_HANDLER = 99 };
#define PASSED_ON "; a handler may have passed on what came before: "
static const struct {
	int signo; addr_t pc; bool returned; unsigned trap; bool second; addr_t second_pc; enum verdict_kind kind; const char *title; addr_t place; const char *sender;
	addr_t fault; /* of the second thread, at the end of a stack of its own */
	bool no_frame; /* native frames come from where a handler returns to, and what it interrupted is nowhere */
} handled[] = {
	{ SIGABRT, 0x41100, false, 14, false, 0, VERDICT_CRASH, "SIGSEGV: write to address 0x1234 (nothing is mapped there)", 0x52345, NULL },
	{ SIGSEGV, 0x52345, true, 14, false, 0, VERDICT_CRASH, "SIGSEGV: write to address 0x1234 (nothing is mapped there)", 0x52345, NULL },
	{ SIGSEGV, 0x52345, false, NO_HANDLER, false, 0, VERDICT_CRASH, "SIGSEGV: the process sent it to itself", 0x52345, NULL },
	{ SIGABRT, 0x61100, false, 0, false, 0, VERDICT_STOPPED, "SIGABRT from outside (the sender is not in the core)", 0, NULL },
	{ SIGABRT, 0x61100, false, 0, true, 0x61100, VERDICT_STOPPED, "SIGABRT from another thread of the process or from outside (the sender is not in the core)", 0, NULL },
	{ SIGABRT, 0x61100, false, 0, true, 0x61207, VERDICT_CRASH, "SIGABRT: the process aborted itself (abort, a failed assertion or a fatal error)", 0x61207, "it came to thread 4711" },
	/* Not handled where it came to: another thread sent it, or stands in a handler of a fault, which sent it. */
	{ SIGSEGV, 0x61100, false, NO_HANDLER, true, 0x61207, VERDICT_CRASH, "SIGSEGV: the process sent it to itself", 0x61207, "it came to thread 4711" },
	{ SIGABRT, 0x61100, false, NO_HANDLER, true, 0x61180, VERDICT_CRASH, "SIGSEGV: write to address 0x1234 (nothing is mapped there)", 0x52345, "it came to thread 4711" },
	{ SIGABRT, 0x61100, false, NO_HANDLER, true, 0x61180, VERDICT_CRASH, "SIGSEGV: write to address 0x7fff8 (stack overflow: in the guard page of thread 4712's stack)", 0x52345,
	  "it came to thread 4711", 0x7fff8 },
	{ SIGABRT, 0x61100, false, NO_HANDLER, true, 0x61100, VERDICT_CRASH, "SIGABRT: the process aborted itself (abort, a failed assertion or a fatal error)", 0x61100, NULL },
	/* By tgkill: to that thread, or to another one. */
	{ SIGSEGV, 0x61100, false, NO_HANDLER, true, 0x61407, VERDICT_CRASH, "SIGSEGV: the process sent it to itself", 0x61407, "it came to thread 4711" },
	{ SIGABRT, 0x61100, false, 0, true, 0x61407, VERDICT_CRASH, "SIGABRT: the process aborted itself (abort, a failed assertion or a fatal error)", 0x61407, "it came to thread 4711" },
	{ SIGSEGV, 0x61100, false, NO_HANDLER, true, 0x61507, VERDICT_CRASH, "SIGSEGV: the process sent it to itself", 0x61100, NULL },
	{ SIGABRT, 0x61100, false, NO_HANDLER, false, 0, VERDICT_CRASH, "SIGABRT: the process sent it to itself" PASSED_ON "what its handler was called for is not in the file", 0x61100, NULL, .no_frame = true },
	/* It sent it itself, while another thread was in a handler of a fault. */
	{ SIGABRT, 0x61207, false, NO_HANDLER, true, 0x61180, VERDICT_CRASH, "SIGABRT: the process aborted itself (abort, a failed assertion or a fatal error)", 0x61207, NULL },
};

static void put_context(struct build_elf *b, uint8_t *context, addr_t pc, addr_t sp, unsigned trap, addr_t fault)
{
	build_elf_put(b, context, 8, 7);
	build_elf_put(b, context + 160, 8, sp);
	build_elf_put(b, context + 168, 8, pc);
	build_elf_put(b, context + 184, 8, 0x002b000000000033);
	build_elf_put(b, context + 192, 8, 6);
	build_elf_put(b, context + 200, 8, trap);
	build_elf_put(b, context + 216, 8, fault);
}

START_TEST(handlers)
{
	__auto_type c = &handled[_i];
	enum { SP = 0x31800 };
	const bool chained = c->pc == 0x61100 || c->pc == 0x61207, there = c->trap != NO_HANDLER;
	struct build_elf *b = build_elf_new("x86_64");
	build_elf_thread(b, PID, c->pc, SP);
	build_elf_reg(b, "rbp", chained ? SP : 0);
	if (c->pc == 0x61207) {
		build_elf_reg(b, "rdi", PID);
		build_elf_reg(b, "rsi", (uint64_t)c->signo);
	}
	uint8_t *stack = build_elf_memory(b, 0x30000, 0x4000, 3), *context = stack + (SP - 0x30000) + (c->returned ? -0x800 : chained ? 16 : 0x200);
	if (there)
		put_context(b, context, chained ? 0x61050 : 0x52345, c->returned ? SP : SP + 0x900, c->trap, 0x1234);
	if (chained) { /* a frame pointer to the handler's return */
		build_elf_put(b, stack + (SP - 0x30000) + 8, 8, there || c->no_frame ? 0x61300 : 0);
		uint8_t *code = build_elf_memory(b, 0x61000, 0x1000, 5);
		memset(code, 0x90, 0x1000);
		memcpy(code + 0x300, "\x48\xc7\xc0\x0f\0\0\0\x0f\x05", 9);
		memcpy(code + 0x200, "\xb8\x3e\0\0\0\x0f\x05", 7); /* kill */
		memcpy(code + 0x400, "\xb8\xea\0\0\0\x0f\x05", 7); /* tgkill */
		memcpy(code + 0x500, "\xb8\xea\0\0\0\x0f\x05", 7);
	}
	build_elf_file(b, 0x40000, 0x42000, 0, "/usr/lib/liba.so");
	build_elf_absent(b, 0x40000, 0x2000, 5);
	build_elf_file(b, 0x52000, 0x53000, 0, "/usr/lib/libx.so");
	build_elf_absent(b, 0x52000, 0x1000, 5);
	build_elf_cursig(b, c->signo);
	build_elf_prpsinfo(b, PID, 1, 0, "python", "python x.py");
	build_elf_signal_from(b, c->signo, -6, PID, 1000);
	if (c->second) {
		const bool to_thread = c->second_pc > 0x61400;
		uint8_t *other = build_elf_memory(b, 0x36000, 0x2000, 3);
		build_elf_thread(b, PID + 1, c->second_pc, 0x36800);
		build_elf_reg(b, "rdi", PID);
		build_elf_reg(b, "rsi", !to_thread ? (uint64_t)c->signo : c->second_pc == 0x61407 ? PID : PID + 2);
		build_elf_reg(b, "rdx", (uint64_t)c->signo);
		if (c->second_pc == 0x61180) {
			build_elf_reg(b, "rbp", 0x36800);
			build_elf_put(b, other + 0x808, 8, 0x61300);
			put_context(b, other + 0x810, 0x52345, c->fault ? c->fault + 0x108 : 0x36f00, 14, c->fault ? c->fault : 0x1234);
			if (c->fault)
				memset(build_elf_memory(b, c->fault + 8, 0x2000, 3), 0, 0x2000);
		}
	}
	struct image *img = build_elf_open(b);
	struct report *r = report_new();
	struct err err = { .code = ERR_NOPYTHON, .msg = "found no CPython" };
	say_with(NATIVE_UNWOUND, img, NULL, &err, r);
	CLEANUP(cleanup_free) char *title = xasprintf(STR_FMT, STR_ARG(r->verdict.title));
	ck_assert_str_eq(title, c->title);
	ck_assert_int_eq(r->verdict.kind, c->kind);
	if (strstr(c->title, PASSED_ON))
		ck_assert(r->verdict.likely && r->verdict.ids_likely);
	if (c->place) {
		ck_assert_ptr_nonnull(r->verdict.location);
		ck_assert_uint_eq(r->verdict.location->pc, c->place);
		ck_assert_int_eq(str_is(r->verdict.culprit, "/usr/lib/libx.so"), c->place == 0x52345);
	}
	const char *sender = NULL, *beside = NULL;
	for (size_t i = 0; i < r->verdict.notes.n; i++)
		if (!strcmp(r->verdict.notes.p[i].key, "signal"))
			sender = str_c(r->arena, r->verdict.notes.p[i].text);
		else if (strstr(str_c(r->arena, r->verdict.notes.p[i].text), "stands in"))
			beside = str_c(r->arena, r->verdict.notes.p[i].text);
	if (c->pc == 0x61207) {
		ck_assert_str_eq(beside ? beside : "", "thread 4712 stands in a handler of a fault: likely SIGSEGV: access to address 0x1234 (nothing is mapped there)");
		ck_assert(!r->threads.p[0].in_handler.s && r->threads.p[1].in_handler.s && str_starts(r->threads.p[1].in_handler, "likely SIGSEGV: "));
	} else {
		ck_assert_msg(!beside, "%s", beside);
	}
	ck_assert(c->sender ? sender && !strcmp(sender, c->sender) : !sender);
	report_free(r);
	image_close(img);
	build_elf_free(b);
}
END_TEST

/*
 * A core without NT_SIGINFO, as qemu writes: a thread that stands at 0 has faulted all the same.  Where code of which nothing is in the
 * file may be, no call is blamed for having led to where none is.
 */
#define NOT_SAID ": the core does not say who sent it"
START_TEST(untold)
{
	static const struct { const char *abi; addr_t pc; int signo; const char *title; bool called, no_stack; } ways[] = {
		{ "x86_64", 0, SIGSEGV, "SIGSEGV: execution of address 0x0 (a call of a null pointer)", true, false },
		{ "x86_64", 0x10, SIGSEGV, "SIGSEGV: execution of address 0x10 (a jump to an address 16 bytes past a null pointer)", true, false }, /* rax is 0 */
		{ "x86_64", 0, SIGSEGV, "SIGSEGV" NOT_SAID, false, true }, /* its registers are not known */
		{ "x86_64", 0, SIGABRT, "SIGABRT" NOT_SAID, false, false },
		{ "x86_64", 0x61100, SIGSEGV, "SIGSEGV" NOT_SAID, false, false },
		{ "x86_64", 0x77000, SIGSEGV, "SIGSEGV" NOT_SAID, false, false },
		{ "i386", 0, SIGSEGV, "SIGSEGV: execution of address 0x0 (a call of a null pointer)", true, false },
		{ "aarch64", 0, SIGSEGV, "SIGSEGV: execution of address 0x0 (a jump or return to a null pointer)", false, false },
		{ "arm", 0x20, SIGSEGV, "SIGSEGV: execution of address 0x20 (a jump or return to an address 32 bytes past a null pointer)", false, false },
		{ "arm", 0x61100, SIGSEGV, "SIGSEGV" NOT_SAID, false, false },
	};
	__auto_type c = &ways[_i];
	struct build_elf *b = build_elf_new(c->abi);
	build_elf_thread(b, PID, c->pc, c->no_stack ? 0 : 0x31000);
	build_elf_cursig(b, c->signo);
	build_elf_prpsinfo(b, PID, 1, 0, "python", "python x.py");
	uint8_t *stack = build_elf_memory(b, 0x30000, 0x2000, 3);
	memset(stack, 0x11, 0x2000);
	build_elf_put(b, stack + 0x1000, build_elf_abi(b)->width, 0x41105);
	build_elf_file(b, 0x41000, 0x42000, 0, "/usr/lib/liba.so");
	uint8_t *code = build_elf_memory(b, 0x41000, 0x1000, 5);
	memset(code, 0x90, 0x1000);
	memcpy(code + 0x103, "\xff\xd0", 2); /* call rax */
	build_elf_absent(b, 0x61000, 0x1000, 5);
	struct image *img = build_elf_open(b);
	struct report *r = report_new();
	struct err err = { .code = ERR_NOPYTHON, .msg = "found no CPython" };
	say_with(NATIVE_UNWOUND, img, NULL, &err, r);
	CLEANUP(cleanup_free) char *title = xasprintf(STR_FMT, STR_ARG(r->verdict.title));
	ck_assert_str_eq(title, c->title);
	ck_assert(r->verdict.kind == VERDICT_CRASH && r->verdict.likely);
	ck_assert_msg((r->verdict.caller != NULL) == c->called, "%s", title);
	report_free(r);
	image_close(img);
	build_elf_free(b);
}
END_TEST

/*
 * The process sent the signal, and the thread that it came to stands in a function without a name: the number of its system call says whether
 * the signal may have been held off before.  -1: it was in none.
 */
START_TEST(nameless)
{
	static const struct { const char *abi; int64_t nr; bool alone, elsewhere; } rows[] = {
		{ "x86_64", 230, false, true }, { "x86_64", -1, false, true }, { "x86_64", 14, false, false }, { "x86_64", 130, false, false }, { "x86_64", 15, false, false },
		{ "x86_64", 230, true, false }, { "i386", 407, false, true }, { "i386", 175, false, false }, { "i386", 72, false, false },
	};
	__auto_type c = &rows[_i];
	struct build_elf *b = build_elf_new(c->abi);
	build_elf_thread(b, PID, 0x41100, 0x31000);
	build_elf_reg(b, c->abi[0] == 'x' ? "orig_rax" : "orig_eax", (uint64_t)c->nr);
	build_elf_cursig(b, SIGSEGV);
	build_elf_prpsinfo(b, PID, 1, 0, "python", "python x.py");
	build_elf_signal_from(b, SIGSEGV, -6, PID, 1000);
	build_elf_memory(b, 0x30000, 0x2000, 3);
	build_elf_file(b, 0x41000, 0x42000, 0, "/usr/lib/liba.so");
	memset(build_elf_memory(b, 0x41000, 0x1000, 5), 0x90, 0x1000);
	if (!c->alone)
		build_elf_thread(b, PID + 1, 0x41200, 0x31800);
	struct image *img = build_elf_open(b);
	struct report *r = report_new();
	say_with(NATIVE_UNWOUND, img, NULL, &(struct err){ .code = ERR_NOPYTHON, .msg = "found no CPython" }, r);
	const char *want = c->elsewhere ? "SIGSEGV: the process sent it to itself, likely by another thread than this one" : "SIGSEGV: the process sent it to itself";
	ck_assert_str_eq(str_c(r->arena, r->verdict.title), want);
	ck_assert_int_eq(r->verdict.likely, c->elsewhere);
	report_free(r);
	image_close(img);
	build_elf_free(b);
}
END_TEST

/* Innermost first, "" is a Python frame. */
static const struct { const char *modules[6], *culprit; } culprits[] = {
	{ { "/usr/lib/libc.so.6", "/x/_speed.cpython-312-x86_64-linux-gnu.so", "/usr/lib/libpython3.12.so.1.0", "", "/x/other.so" }, "/x/_speed.cpython-312-x86_64-linux-gnu.so" },
	{ { "/usr/lib/libc.so.6", "/usr/lib/libffi.so.8", "/y/_ctypes.cpython-312.so", "/usr/bin/python3.12", "" }, NULL },
	{ { "/usr/lib/libc.so.6", "", "/x/other.so" }, NULL },
	{ { "", "/x/other.so" }, NULL },
	{ { "/usr/lib/libc.so.6", "/usr/lib/libasan.so.8.0.0", "/usr/lib/libpython3.12.so.1.0", "" }, NULL },
	{ { "/x/libcrypto.so.3", "" }, "/x/libcrypto.so.3" },
	{ { NULL }, NULL },
};

START_TEST(culprit)
{
	struct report *r = report_new();
	struct report_frame frames[6] = { 0 };
	const struct report_frame *list[6];
	size_t n = 0, depth = 0;
	while (depth < 6 && culprits[_i].modules[depth])
		depth++;
	for (size_t i = depth; i-- > 0; n++) {
		frames[n].module = str_of(culprits[_i].modules[i]);
		frames[n].python = !frames[n].module.len;
		frames[n].pc = frames[n].python ? 0 : 0x1000 + n;
		list[n] = &frames[n];
	}
	struct report_thread t = { .tid = PID };
	report_fold(r, list, n, &t.runs, &t.n_runs);
	bool likely = true;
	struct str got = crash_culprit(&t, 0, false, NULL, &likely);
	ck_assert(!likely);
	ck_assert(culprits[_i].culprit ? str_is(got, culprits[_i].culprit) : !got.s);
	/* Where the innermost is data of its file, that is not to blame. */
	if (depth > 1 && n && !frames[n - 1].python && !frames[n - 2].python) {
		t.runs = NULL, t.n_runs = 0;
		report_fold(r, list, n - 1, &t.runs, &t.n_runs);
		const struct str without = crash_culprit(&t, 0, false, NULL, &likely);
		report_fold(r, list, n, &t.runs, &t.n_runs);
		got = crash_culprit(&t, frames[n - 1].pc, true, NULL, &likely);
		ck_assert(without.s ? str_eq(got, without) : !got.s);
	}
	/* The second was found by a search: likely, if that is on the way there, unless it is sure otherwise. */
	for (size_t i = 0; depth > 1 && i < 3; i++) {
		frames[n - 2].found_by = i == 2 ? "cfi" : "scan";
		t.runs = NULL, t.n_runs = 0;
		report_fold(r, list, n, &t.runs, &t.n_runs);
		got = crash_culprit(&t, 0, false, i == 1 ? &frames[n - 2] : NULL, &likely);
		ck_assert_int_eq(likely, i == 0 && _i == 0);
	}
	report_free(r);
}
END_TEST

static const struct { const char *name; bool needs; } locks[] = {
	{ "PyList_New", true }, { "_PyFunction_Vectorcall", true }, { "_PyEval_EvalFrameDefault.cold", true }, { "list_dealloc", true }, { "PyErr_Clear.localalias", true },
	{ "PyErr_SetInterruptEx", false }, { "take_gil", false }, { "drop_gil.lto_priv.0", false }, { "PyEval_RestoreThread", false }, { "PyEval_AcquireThread", false },
	{ "new_threadstate", false }, { "PyGILState_Ensure", false }, { "PyMem_RawMalloc", false }, { "PyThread_acquire_lock_timed", false }, { "_Py_DumpTracebackThreads", false },
	{ "PyThreadState_Swap", false }, { "os_read", false }, { "memcpy", false }, { "_Py_read", false },
};

START_TEST(lock)
{
	ck_assert_msg(gil_needed_by(str_of(locks[_i].name)) == locks[_i].needs, "%s", locks[_i].name);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("inspect");
	TCase *c = tcase_create("inspect");
	tcase_add_loop_test(c, verdict, 0, COUNT(verdicts));
	tcase_add_loop_test(c, lost_handler, 0, 7);
	tcase_add_loop_test(c, lost_stack, 0, 5);
	tcase_add_loop_test(c, lost_stacks, 0, 6);
	tcase_add_loop_test(c, astray, 0, 6);
	tcase_add_loop_test(c, handlers, 0, COUNT(handled));
	tcase_add_loop_test(c, untold, 0, 10);
	tcase_add_loop_test(c, nameless, 0, 9);
	tcase_add_loop_test(c, culprit, 0, COUNT(culprits));
	tcase_add_loop_test(c, lock, 0, COUNT(locks));
	suite_add_tcase(s, c);
	return suite_run(s);
}
