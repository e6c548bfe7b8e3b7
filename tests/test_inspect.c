/* inspect: the verdict on every way a process ends, and what threads, frames and damage become in a report. */
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

enum { PID = 4711 };

/* sender 0: no sender, addr is the fault's; code 999: no NT_SIGINFO at all, cursig only. */
static const struct { int signo, code; int sender; addr_t addr; enum verdict_kind kind; bool likely; const char *title; } verdicts[] = {
	{ SIGSEGV, 1, 0, 0x0, VERDICT_CRASH, false, "SIGSEGV: access to address 0x0 (null pointer)" },
	{ SIGSEGV, 1, 0, 0xfff, VERDICT_CRASH, false, "SIGSEGV: access to address 0xfff (4095 bytes past a null pointer)" },
	{ SIGSEGV, 1, 0, 0x1000, VERDICT_CRASH, false, "SIGSEGV: access to address 0x1000 (nothing is mapped there)" },
	{ SIGSEGV, 2, 0, 0x7f0012345678, VERDICT_CRASH, false, "SIGSEGV: access to address 0x7f0012345678 (the mapping does not allow it)" },
	/* The stack is at 0x30000 to 0x32000, sp 0x30010; libx.so at 0x50000 to 0x51000. */
	{ SIGSEGV, 1, 0, 0x2fff8, VERDICT_CRASH, false, "SIGSEGV: access to address 0x2fff8 (stack overflow: in the guard page of main's stack)" },
	{ SIGSEGV, 2, 0, 0x2f000, VERDICT_CRASH, false, "SIGSEGV: access to address 0x2f000 (stack overflow: in the guard page of main's stack)" },
	/* A guard that is part of the stack's own mapping; further from sp, and refused, it is none. */
	{ SIGSEGV, 1, 0, 0x30008, VERDICT_CRASH, false, "SIGSEGV: access to address 0x30008 (stack overflow: in the guard page of main's stack)" },
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
	{ SIGSTOP, 0x80, 0, 0, VERDICT_STOPPED, false, "the core was taken from a running process (by gcore or a debugger)" },
	{ SIGSEGV, 999, 0, 0, VERDICT_CRASH, true, "SIGSEGV: the core does not say who sent it" },
	{ SIGTERM, 999, 0, 0, VERDICT_STOPPED, true, "SIGTERM: the core does not say who sent it" },
	{ 0, 999, 0, 0, VERDICT_STOPPED, true, "the core was taken from a running process (by gcore or a debugger)" },
};

/* What becomes of the native stacks: not asked for; unwound; no child can be had; it dies at once. */
enum natives { NATIVE_NONE, NATIVE_UNWOUND, NATIVE_REFUSED, NATIVE_KILLED, NATIVE_WAYS };

static struct limits lim = { .frames = 100000, .threads = 10000 };

static void say_with(enum natives how, struct image *img, struct py *py, const struct err *err, struct report *r)
{
	struct target t = { .img = img, .py = py, .arena = arena_new() };
	struct search none = { .no_files = true };
	struct err e;
	ck_assert_int_eq(modules_open(img, &none, &t.mods, &e), 0);
	if (err)
		t.py_err = *err;
	if (py)
		py->mods = t.mods;
	if (how == NATIVE_REFUSED)
		err_set(&t.native_err, ERR_IO, "no process for unwinding");
	if (how == NATIVE_UNWOUND || how == NATIVE_KILLED)
		ck_assert_int_eq(native_start(img, t.mods, &native_default, &t.native, &e), 0);
	if (how == NATIVE_KILLED)
		kill(native_pid(t.native), SIGKILL);
	int rc = inspect(&t, &lim, "core", r);
	ck_assert_int_eq(rc, py ? 0 : err ? err->code : 0);
	native_close(t.native);
	modules_close(t.mods);
	arena_free(t.arena);
}

static void say(struct image *img, struct py *py, const struct err *err, struct report *r)
{
	say_with(NATIVE_NONE, img, py, err, r);
}

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
static const struct {
	int signo; addr_t pc; bool returned; unsigned trap; bool second; addr_t second_pc; enum verdict_kind kind; const char *title; addr_t place; const char *sender;
	addr_t fault; /* of the second thread, at the end of a stack of its own */
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
		build_elf_put(b, stack + (SP - 0x30000) + 8, 8, 0x61300);
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
		build_elf_thread(b, PID + 1, c->second_pc, 0x30800);
		build_elf_reg(b, "rdi", PID);
		build_elf_reg(b, "rsi", !to_thread ? (uint64_t)c->signo : c->second_pc == 0x61407 ? PID : PID + 2);
		build_elf_reg(b, "rdx", (uint64_t)c->signo);
		if (c->second_pc == 0x61180) {
			build_elf_reg(b, "rbp", 0x30800);
			build_elf_put(b, stack + 0x808, 8, 0x61300);
			put_context(b, stack + 0x810, 0x52345, c->fault ? c->fault + 0x108 : 0x30f00, 14, c->fault ? c->fault : 0x1234);
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
		{ "x86_64", 0x10, SIGSEGV, "SIGSEGV: execution of address 0x10 (a jump to a null pointer)", true, false }, /* rax is 0 */
		{ "x86_64", 0, SIGSEGV, "SIGSEGV" NOT_SAID, false, true }, /* its registers are not known */
		{ "x86_64", 0, SIGABRT, "SIGABRT" NOT_SAID, false, false },
		{ "x86_64", 0x61100, SIGSEGV, "SIGSEGV" NOT_SAID, false, false },
		{ "x86_64", 0x77000, SIGSEGV, "SIGSEGV" NOT_SAID, false, false },
		{ "i386", 0, SIGSEGV, "SIGSEGV: execution of address 0x0 (a call of a null pointer)", true, false },
		{ "aarch64", 0, SIGSEGV, "SIGSEGV: execution of address 0x0 (a jump or return to a null pointer)", false, false },
		{ "arm", 0x20, SIGSEGV, "SIGSEGV: execution of address 0x20 (a jump or return to a null pointer)", false, false },
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

static const struct layout *tables;
static int n_tables;

static const struct report_thread *thread_named(const struct report *r, const char *name)
{
	for (size_t i = 0; i < r->threads.n; i++)
		if (str_is(r->threads.p[i].name, name))
			return &r->threads.p[i];
	return NULL;
}

static size_t problems(const struct report *r, enum problem id)
{
	size_t n = 0;
	for (size_t i = 0; i < r->problems.n; i++)
		n += r->problems.p[i].id == id;
	return n;
}

/* Two threads: one with frames that repeat, one without; and an LWP that Python does not know. */
START_TEST(threads)
{
	struct build *b = build_new(&tables[_i]);
	addr_t run = build_code(b, &(struct build_code){ .name = "run", .file = "a.py", .firstlineno = 10, .units = 8 });
	addr_t spin = build_code(b, &(struct build_code){ .name = "spin", .file = "a.py", .firstlineno = 20, .units = 8 });
	addr_t main = build_thread(b, b->interp, BUILD_IDENT(b), PID), other = build_thread(b, b->interp, BUILD_IDENT(b) + 0x1000, PID + 1);
	build_frame(b, main, &(struct build_frame){ .code = run, .lasti = 2 });
	for (int i = 0; i < 50; i++)
		build_frame(b, main, &(struct build_frame){ .code = spin, .lasti = 2 });
	(void)other;
	build_thread_name(b, b->interp, BUILD_IDENT(b), "MainThread");
	build_thread_name(b, b->interp, BUILD_IDENT(b) + 0x1000, "w\xc3\xb6rker");
	struct py *py = build_py(b);
	struct report *r = report_new();
	say(py->img, py, NULL, r);
	const struct report_thread *m = thread_named(r, "MainThread"), *o = thread_named(r, "w\xc3\xb6rker");
	ck_assert_ptr_nonnull(m);
	ck_assert_ptr_nonnull(o);
	ck_assert_int_eq(m->tid, PID);
	ck_assert_int_eq(o->tid, PID + 1);
	ck_assert_uint_eq(m->n_frames, 51);
	ck_assert_int_eq(m->active, true);
	ck_assert_int_eq(o->active, false);
	ck_assert_int_eq(o->has_python, true);
	ck_assert_uint_eq(m->n_runs, 2);
	ck_assert(str_is(m->runs[0].frames[0]->function, "run"));
	ck_assert(str_is(m->runs[1].frames[0]->function, "spin"));
	ck_assert_uint_eq(m->runs[1].repeat, 50);
	ck_assert_uint_eq(r->interps.n, 1);
	ck_assert_uint_eq(problems(r, P_FRAMES_BROKEN) + problems(r, P_THREADS_BROKEN) + problems(r, P_INTERPS_BROKEN), 0);
	ck_assert_int_eq(r->python.found, true);
	report_free(r);
	build_free(b);
}
END_TEST

/* A limit is said where something was left out, and only there; what it leaves out is not said to be broken. */
START_TEST(limits)
{
	static const struct { struct limits lim; size_t threads, frames, said_threads, said_frames; } ways[] = {
		{ { .frames = 5, .threads = 4 }, 4, 5, 0, 0 }, { { .frames = 4, .threads = 3 }, 3, 4, 1, 2 }, { { .frames = 4, .threads = 2 }, 2, 4, 1, 1 }, { { .frames = 5, .threads = 1 }, 1, 5, 1, 0 },
	};
	const struct limits usual = lim;
	for (size_t way = 0; way < sizeof ways / sizeof *ways; way++) {
		struct build *b = build_new(&tables[_i]);
		addr_t other = build_interp(b, 1), code = build_code(b, &(struct build_code){ .name = "work", .file = "a.py", .firstlineno = 10, .units = 8 });
		for (int i = 0; i < 4; i++) {
			addr_t t = build_thread(b, i < 2 ? b->interp : other, BUILD_IDENT(b) + 0x1000 * (addr_t)i, PID + i);
			for (int k = 0; k < (i ? 5 : 2); k++)
				build_frame(b, t, &(struct build_frame){ .code = code, .lasti = 2 * k });
		}
		lim = ways[way].lim;
		struct py *py = build_py(b);
		struct report *r = report_new();
		say(py->img, py, NULL, r);
		lim = usual;
		size_t shown = 0, deepest = 0;
		for (size_t i = 0; i < r->threads.n; i++) {
			shown += r->threads.p[i].has_python;
			deepest = r->threads.p[i].n_frames > deepest ? r->threads.p[i].n_frames : deepest;
		}
		ck_assert_msg(shown == ways[way].threads && deepest == ways[way].frames, "%s, %zu: %zu threads, %zu frames", tables[_i].name, way, shown, deepest);
		ck_assert_msg(problems(r, P_THREADS_LIMIT) == ways[way].said_threads, "%s: %zu", tables[_i].name, way);
		ck_assert_msg(problems(r, P_FRAMES_LIMIT) == ways[way].said_frames, "%s: %zu, %zu", tables[_i].name, way, problems(r, P_FRAMES_LIMIT));
		ck_assert_uint_eq(problems(r, P_THREADS_UNLISTED) + problems(r, P_FRAMES_BROKEN), 0);
		report_free(r);
		build_free(b);
	}
}
END_TEST

/* Whatever becomes of the native stacks, Python's are whole. */
START_TEST(natives)
{
	for (enum natives how = NATIVE_NONE; how < NATIVE_WAYS; how++) {
		struct build *b = build_new(&tables[_i]);
		addr_t main = build_thread(b, b->interp, BUILD_IDENT(b), PID);
		const char *const names[] = { "outer", "middle", "inner" };
		for (int i = 0; i < 3; i++) {
			addr_t code = build_code(b, &(struct build_code){ .name = names[i], .file = "a.py", .firstlineno = 10, .units = 8 });
			build_frame(b, main, &(struct build_frame){ .code = code, .lasti = 2 });
		}
		struct py *py = build_py(b);
		struct report *r = report_new();
		say_with(how, py->img, py, NULL, r);
		ck_assert_uint_eq(r->threads.n, 1);
		size_t n = 0;
		for (size_t i = 0; i < r->threads.p[0].n_runs; i++) {
			const struct report_run *run = &r->threads.p[0].runs[i];
			for (size_t k = 0; k < run->n; k++)
				if (run->frames[k]->python)
					ck_assert_msg(n < 3 && str_is(run->frames[k]->function, names[n++]), "%s: %d", tables[_i].name, how);
		}
		ck_assert_uint_eq(n, 3);
		ck_assert_int_eq(r->threads.p[0].active, true);
		if (how != NATIVE_KILLED) /* it may have been faster */
			ck_assert_uint_eq(problems(r, P_NATIVE_FAILED), how == NATIVE_REFUSED);
		report_free(r);
		build_free(b);
	}
}
END_TEST

/* What of frames cannot be read is shown in their place, and said once. */
START_TEST(broken_code)
{
	struct build *b = build_new(&tables[_i]);
	addr_t main = build_thread(b, b->interp, BUILD_IDENT(b), PID);
	const char *const names[] = { "outer", "typeless", "nameless", "inner" };
	addr_t code[4];
	for (int i = 0; i < 4; i++) {
		code[i] = build_code(b, &(struct build_code){ .name = names[i], .qualname = names[i], .file = "a.py", .firstlineno = 10, .units = 8 });
		build_frame(b, main, &(struct build_frame){ .code = code[i], .lasti = 2 });
	}
	build_settle(b);
	WRITE(b, code[1], PyObject, ob_type, 0x4141414141414140 >> (64 - 8 * tables[_i].abi.width));
	WRITE(b, code[2], PyCode, co_name, 0x123456780);
	WRITE_IF(b, code[2], PyCode, co_qualname, 0x123456780);
	struct py *py = build_py(b);
	struct report *r = report_new();
	say(py->img, py, NULL, r);
	ck_assert_uint_eq(r->threads.n, 1);
	ck_assert_uint_eq(r->threads.p[0].n_frames, 4);
	ck_assert_ptr_null(r->threads.p[0].broken.s);
	char text[2][64];
	snprintf(text[0], sizeof text[0], "<0x%llx is not a code object>", (unsigned long long)code[1]);
	snprintf(text[1], sizeof text[1], "<code 0x%llx: its name is not in the capture>", (unsigned long long)code[2]);
	const char *const want[] = { "outer", text[0], text[1], "inner" };
	for (size_t i = 0, k = 0; i < r->threads.p[0].n_runs; i++)
		for (size_t j = 0; j < r->threads.p[0].runs[i].n; j++, k++) {
			struct str name = r->threads.p[0].runs[i].frames[j]->function;
			ck_assert_msg(str_is(name, want[k]), "%s: " STR_FMT ", not %s", tables[_i].name, STR_ARG(name), want[k]);
		}
	ck_assert_uint_eq(problems(r, P_CODE_BROKEN), 1);
	for (size_t i = 0; i < r->problems.n; i++)
		if (r->problems.p[i].id == P_CODE_BROKEN) {
			CLEANUP(cleanup_free) char *message = xasprintf(STR_FMT, STR_ARG(r->problems.p[i].message));
			ck_assert_ptr_nonnull(strstr(message, "cannot be read: 2 ("));
		}
	report_free(r);
	build_free(b);
}
END_TEST

static const char *message_of(const struct report *r, enum problem id)
{
	for (size_t i = 0; i < r->problems.n; i++)
		if (r->problems.p[i].id == id)
			return str_c(r->arena, r->problems.p[i].message);
	return "";
}

/* What is lost without a frame or a thread being lost: a line, a name, who holds the lock. */
START_TEST(small_losses)
{
	const struct layout *l = &tables[_i];
	struct build *b = build_new(l);
	addr_t main = build_thread(b, b->interp, BUILD_IDENT(b), PID), other = build_thread(b, b->interp, BUILD_IDENT(b) + 0x1000, PID + 1);
	addr_t code = build_code(b, &(struct build_code){ .name = "run", .file = "a.py", .firstlineno = 10, .units = 8 });
	build_frame(b, main, &(struct build_frame){ .code = code, .lasti = 2 });
	addr_t frame = build_frame(b, main, &(struct build_frame){ .code = code, .lasti = 2 });
	build_frame(b, main, &(struct build_frame){ .code = code, .lasti = 2 });
	build_thread_name(b, b->interp, BUILD_IDENT(b), "MainThread");
	build_gil(b, b->interp, other);
	for (int damaged = 0; damaged < 2; damaged++) {
		if (damaged) {
			enum py_field at = layout_has(l, F_PyFrame_instr_ptr) ? F_PyFrame_instr_ptr : layout_has(l, F_PyFrame_prev_instr) ? F_PyFrame_prev_instr : F_PyFrameObject_f_lasti;
			build_field(b, frame, at, at == F_PyFrameObject_f_lasti ? 0x7ffffff0 : 0x1234);
			build_dict_set(b, b->threading_active, build_int(b, 7), b->types.none);
			build_gil(b, b->interp, other + 8);
		}
		struct py *py = build_py(b);
		struct report *r = report_new();
		say(py->img, py, NULL, r);
		const struct report_thread *t = thread_named(r, "MainThread");
		ck_assert_ptr_nonnull(t);
		ck_assert_uint_eq(t->n_frames, 3);
		size_t lines = 0;
		for (size_t i = 0; i < t->n_runs; i++)
			for (size_t k = 0; k < t->runs[i].n; k++)
				lines += t->runs[i].frames[k]->at.line > 0 ? t->runs[i].repeat : 0;
		ck_assert_msg(lines == 3 - (size_t)damaged, "%s: %zu lines", l->name, lines);
		ck_assert_msg((strstr(message_of(r, P_LINES_UNREAD), "not known: 1 (thread 4711, run: its ") != NULL) == damaged, "%s: %s", l->name, message_of(r, P_LINES_UNREAD));
		ck_assert_msg((strstr(message_of(r, P_NAMES_UNREAD), "cannot be read: 1;") != NULL) == damaged, "%s: %s", l->name, message_of(r, P_NAMES_UNREAD));
		ck_assert_int_eq(r->interps.p[0].gil_locked, true);
		ck_assert_int_eq(r->interps.p[0].gil_holder_tid, damaged ? -1 : PID + 1);
		ck_assert_msg((strstr(message_of(r, P_GIL_HOLDER), "is no thread state") != NULL) == damaged, "%s: %s", l->name, message_of(r, P_GIL_HOLDER));
		report_free(r);
	}
	build_free(b);
}
END_TEST

/* Words of the lock that cannot be right: then it is unknown, and that is said.  So are a file without a name and a main thread that is none. */
START_TEST(contradictions)
{
	enum { RIGHT, FREE, NO_LOCK, NO_FILE, NO_MAIN, CUT, CASES };
	const struct layout *l = &tables[_i];
	for (int i = 0; i < CASES; i++) {
		struct build *b = build_new(l);
		addr_t main = build_thread(b, b->interp, BUILD_IDENT(b), PID);
		addr_t code = build_code(b, &(struct build_code){ .name = "run", .file = "a.py", .firstlineno = 10, .units = 8 });
		build_frame(b, main, &(struct build_frame){ .code = code, .lasti = 2 });
		build_gil(b, b->interp, main);
		build_thread_name(b, b->interp, BUILD_IDENT(b), "MainThread");
		const char *const name[] = { "_ident" };
		const addr_t value[] = { build_int(b, (int64_t)BUILD_IDENT(b)) };
		build_dict_str(b, b->threading, "_main_thread", build_instance(b, "_MainThread", name, value, 1, false));
		build_settle(b);
		const bool own = layout_has(l, F_PyInterp_gil), word = layout_has(l, F_PyThread_holds_gil) || (!own && layout_has(l, F_PyRuntime_gil_locked));
		const bool threaded = layout_has(l, F_PyObject_ob_tid);
		if ((i == FREE && (!word || threaded)) || (i == NO_LOCK && !own) || (i == NO_MAIN && !layout_has(l, F_PyRuntime_main_thread))) {
			build_free(b);
			continue;
		}
		if (i == CUT) /* of the list only a newer thread is left, and nothing of the main one's state */
			build_thread(b, b->interp, BUILD_IDENT(b) + 0x1000, PID + 1);
		if (i == CUT) {
			const addr_t other = build_field_get(b, b->interp, F_PyInterp_tstate_head);
			WRITE(b, other, PyThread, next, 0);
			WRITE(b, main, PyThread, interp, 0);
		}
		if (i == FREE && own)
			WRITE(b, build_field_get(b, b->interp, F_PyInterp_gil), PyGil, locked, 0);
		else if (i == FREE)
			WRITE(b, b->runtime, PyRuntime, gil_locked, 0);
		else if (i == NO_LOCK)
			WRITE(b, b->interp, PyInterp, gil, 0);
		else if (i == NO_FILE)
			WRITE(b, code, PyCode, co_filename, 0);
		else if (i == NO_MAIN)
			WRITE(b, b->runtime, PyRuntime, main_thread, 0x4242);
		struct py *py = build_py(b);
		struct report *r = report_new();
		say(py->img, py, NULL, r);
		const char *doubt = message_of(r, P_GIL_DOUBT);
		ck_assert_msg(i == CUT || r->threads.p[0].main, "%s: %d", l->name, i);
		ck_assert_msg((strstr(message_of(r, P_FRAMES_BROKEN), "thread 4711: no thread state of it was found") != NULL) ==
			      (i == CUT && layout_has(l, F_PyRuntime_interp_head) && abi_tls_is_self(&l->abi)), "%s: %d: %s", l->name, i, message_of(r, P_FRAMES_BROKEN));
		ck_assert_msg((doubt[0] != 0) == (i == FREE || i == NO_LOCK), "%s: %d: %s", l->name, i, doubt);
		if (i == FREE)
			ck_assert_msg(strstr(doubt, "the lock is free, though a thread state ") != NULL, "%s: %s", l->name, doubt);
		if (i == NO_LOCK)
			ck_assert_msg(strstr(doubt, "its pointer to the lock is null") != NULL, "%s: %s", l->name, doubt);
		ck_assert(!(doubt[0] && r->interps.p[0].gil_known));
		ck_assert_msg((strstr(message_of(r, P_CODE_BROKEN), "run: its file's name cannot be read") != NULL) == (i == NO_FILE), "%s: %d: %s", l->name, i,
			      message_of(r, P_CODE_BROKEN));
		report_free(r);
		build_free(b);
	}
}
END_TEST

/* A version or a layout that a user forced against the image's word, and another Python that is alive: said, each with what lifts it. */
START_TEST(not_the_only_word)
{
	static const char *const forced[] = { "3.12.1", "3.9.18" }; /* against 3.9.18: by its version; by a layout, which leaves the version alone */
	struct build *b = build_new(&tables[_i]);
	build_thread(b, b->interp, BUILD_IDENT(b), PID);
	for (size_t i = 0; i < 3; i++) {
		struct py *py = build_py(b), other;
		snprintf(py->version_denied, sizeof py->version_denied, "%s", i < 2 ? "3.9.18" : "");
		snprintf(py->version_text, sizeof py->version_text, "%s", i < 2 ? forced[i] : "3.8.18");
		other = *py;
		py->other = i < 2 ? NULL : &other;
		struct report *r = report_new();
		say(py->img, py, NULL, r);
		char want[256];
		if (i < 2) {
			snprintf(want, sizeof want, "the image says it is Python 3.9.18; %s was forced by --%s: stacks and values may be wrong", i ? tables[_i].name : "3.12.1",
				 i ? "layout" : "python-version");
			ck_assert_str_eq(message_of(r, P_VERSION_FORCED), want);
			ck_assert_int_eq(r->verdict.likely, true);
			ck_assert_str_eq(message_of(r, P_OTHER_PYTHON), "");
		} else {
			const unsigned long long at = py->runtime ? py->runtime : py->interp_head;
			snprintf(want, sizeof want, "a second Python (3.8.18, at 0x%llx) is alive in this process; its thread states (1) are not shown", at);
			ck_assert_str_eq(message_of(r, P_OTHER_PYTHON), want);
			ck_assert_str_eq(message_of(r, P_VERSION_FORCED), "");
			ck_assert_int_eq(r->python.others, true);
			snprintf(want, sizeof want, "--runtime=0x%llx shows that one instead", at);
			for (size_t k = 0; k < r->problems.n; k++)
				ck_assert(r->problems.p[k].id != P_OTHER_PYTHON || str_is(r->problems.p[k].hint, want));
		}
		report_free(r);
	}
	build_free(b);
}
END_TEST

/* A new thread has its maker's name in the kernel; what Python calls somebody else it is not called. */
START_TEST(inherited_name)
{
	struct build *b = build_new(&tables[_i]);
	build_thread(b, b->interp, BUILD_IDENT(b), PID);
	build_thread_name(b, b->interp, BUILD_IDENT(b), "a worker with a long name");
	static const char *const kernel[] = { "a worker with a", "a worker with", "other" };
	for (int i = 0; i < 3; i++) {
		struct thread *lwp = vec_push(&b->lwps);
		lwp->tid = PID + 1 + i;
		lwp->name = str_of(kernel[i]);
		lwp->regs.syscall.nr = -1;
	}
	struct py *py = build_py(b);
	struct report *r = report_new();
	say(py->img, py, NULL, r);
	ck_assert_uint_eq(r->threads.n, 4);
	for (size_t i = 0; i < 4; i++)
		ck_assert_msg(r->threads.p[i].name_inherited == (r->threads.p[i].tid == PID + 1), "%s: %d", tables[_i].name, (int)r->threads.p[i].tid);
	report_free(r);
	build_free(b);
}
END_TEST

/* Which threads stand where depends on Python, not on where the image has them; only the one that crashed is put first. */
/* Up to 3.9 nothing tells which thread runs a further interpreter: its state names the one that made it. */
static bool names_maker_only(const struct layout *l)
{
	return !layout_has(l, F_PyThread_cframe) && !layout_has(l, F_PyThread_current_frame);
}

START_TEST(unsure_interpreter)
{
	struct build *b = build_new(&tables[_i]);
	b->bare_chains = true;
	addr_t code = build_code(b, &(struct build_code){ .name = "run", .file = "a.py", .firstlineno = 10, .units = 8 });
	addr_t sub = build_interp(b, 1);
	build_frame(b, build_thread(b, b->interp, BUILD_IDENT(b), PID), &(struct build_frame){ .code = code, .lasti = 2 });
	build_frame(b, build_thread(b, sub, BUILD_IDENT(b), 0), &(struct build_frame){ .code = code, .lasti = 2 });
	build_thread_name(b, b->interp, BUILD_IDENT(b), "MainThread");
	struct py *py = build_py(b);
	struct report *r = report_new();
	say(py->img, py, NULL, r);
	bool old = names_maker_only(&tables[_i]);
	ck_assert_uint_eq(r->threads.n, 2);
	ck_assert_uint_eq(problems(r, P_INTERP_THREAD), old ? 1 : 0);
	ck_assert_int_eq(r->threads.p[0].tid, PID);
	ck_assert_int_eq(r->threads.p[1].tid, old ? -1 : PID);
	ck_assert_int_eq(r->threads.p[1].python_id != 0, !old);
	ck_assert_int_eq(r->threads.p[1].name.s != NULL, !old);
	ck_assert(r->threads.p[1].again && r->threads.p[1].active);
	report_free(r);
	build_free(b);
}
END_TEST

/* A frame belongs to one thread: where the chains of two meet, that is said, once. */
START_TEST(frames_of_two)
{
	struct build *b = build_new(&tables[_i]);
	addr_t code = build_code(b, &(struct build_code){ .name = "run", .file = "a.py", .firstlineno = 10, .units = 8 }), f[2];
	for (int i = 0; i < 2; i++)
		f[i] = build_frame(b, build_thread(b, b->interp, BUILD_IDENT(b) + 0x1000 * (uint64_t)i, PID + i),
				   &(struct build_frame){ .code = code, .lasti = 2, .entry = true });
	if (!layout_has(&tables[_i], F_PyThread_base_frame)) /* which tells by itself that a chain is not its own */
		build_uint(b, build_frame_back(b, f[1]), tables[_i].abi.width, f[0]);
	struct py *py = build_py(b);
	struct report *r = report_new();
	say(py->img, py, NULL, r);
	ck_assert_uint_eq(r->threads.n, 2);
	ck_assert_uint_eq(problems(r, P_FRAMES_SHARED), layout_has(&tables[_i], F_PyThread_base_frame) ? 0 : 1);
	report_free(r);
	build_free(b);
}
END_TEST

/* A thread that went from one interpreter into another is one stack: the place of each on the C stack tells which is inside. */
START_TEST(chain)
{
	const struct layout *l = &tables[_i];
	if (names_maker_only(l))
		return;
	for (int way = 0; way < 2; way++) { /* from the main interpreter into the other, and the other way round */
		struct build *b = build_new(l);
		addr_t sub = build_interp(b, 7), third = build_interp(b, 9), in[2] = { way ? b->interp : sub, way ? sub : b->interp }; /* inner, outer */
		addr_t code[2];
		for (int k = 0; k < 2; k++) {
			code[k] = build_code(b, &(struct build_code){ .name = k ? "outer" : "inner", .file = "a.py", .firstlineno = 10, .units = 8 });
			addr_t t = build_thread(b, in[k], 0x70000700, k ? PID : 0);
			if (layout_has(l, F_PyThread_native_thread_id))
				build_field(b, t, F_PyThread_native_thread_id, PID);
			if (layout_has(l, F_PyThread_cframe) && layout_has(l, F_PyThread_root_cframe)) {
				addr_t cframe = build_alloc(b, 64); /* of an evaluation, while the builder's is the thread's own */
				if (layout_has(l, F_PyCFrame_current_frame))
					build_field(b, build_field_get(b, t, F_PyThread_cframe), F_PyCFrame_current_frame, 0);
				build_field(b, t, F_PyThread_cframe, cframe);
			}
			build_frame(b, t, &(struct build_frame){ .shim = true });
			build_frame(b, t, &(struct build_frame){ .code = code[k], .lasti = 2, .entry = true });
			build_frame(b, t, &(struct build_frame){ .code = code[k], .lasti = 4 });
		}
		build_thread(b, third, 0x70000700, 0); /* one that runs nothing is outside */
		build_thread_name(b, b->interp, 0x70000700, "both");
		struct py *py = build_py(b);
		struct report *r = report_new();
		say(py->img, py, NULL, r);
		MUST(r->threads.n == 1, "%s: %zu threads", l->name, r->threads.n);
		const struct report_thread *t = &r->threads.p[0];
		int64_t inner = way ? 0 : 7, outer = way ? 7 : 0;
		MUST(t->n_interpreters == 3 && t->interpreters[2] == inner && t->interpreters[1] == outer && t->interpreters[0] == 9 &&
		     t->interpreter == inner && !t->again && str_is(t->name, "both"), "%s: way %d: %zu interpreters", l->name, way, t->n_interpreters);
		static const char *const names[] = { "outer", "outer", "inner", "inner" };
		size_t n = 0;
		for (size_t i = 0; i < t->n_runs; i++)
			for (size_t k = 0; k < t->runs[i].n; k++, n++)
				MUST(n < 4 && str_is(t->runs[i].frames[k]->function, names[n]) && t->runs[i].frames[k]->interpreter == (n < 2 ? outer : inner),
				     "%s: way %d: frame %zu", l->name, way, n);
		ck_assert_uint_eq(n, 4);
		report_free(r);
		build_free(b);
	}
}
END_TEST

START_TEST(order)
{
	if (names_maker_only(&tables[_i]))
		return; /* one of the states has no thread that could be ordered: unsure_interpreter */
	enum { WAYS = 6, MOST = 12 };
	static const struct { bool snapshot; int signo; size_t swap; } ways[WAYS] = { { true, 0, 0 }, { false, 0, 0 }, { false, SIGSEGV, 0 },
		{ false, 0, 3 }, { false, SIGSEGV, 3 }, { false, SIGTERM, 4 } };
	struct { pid_t tid; int64_t interp; } seen[WAYS][MOST];
	size_t n[WAYS];
	for (int i = 0; i < WAYS; i++) {
		struct build *b = build_new(&tables[_i]);
		b->bare_chains = true;
		addr_t code = build_code(b, &(struct build_code){ .name = "run", .file = "a.py", .firstlineno = 10, .units = 8 });
		addr_t sub = build_interp(b, 1), in[] = { b->interp, b->interp, sub, sub, sub };
		/* The main thread, and the last one, have states in the subinterpreter too. */
		static const int lwp[] = { 0, 1, 0, 2, 3 };
		for (int k = 0; k < 5; k++)
			build_frame(b, build_thread(b, in[k], BUILD_IDENT(b) + 0x1000 * (uint64_t)lwp[k], k == 2 ? 0 : PID + lwp[k]),
				    &(struct build_frame){ .code = code, .lasti = 2 });
		for (int k = 7; k >= 6; k--) { /* that run no Python */
			struct thread lone = b->lwps.p[0];
			lone.tid = PID + k;
			lone.regs.tls = BUILD_IDENT(b) + 0x1000 + 0x1000 * (uint64_t)k;
			*vec_push(&b->lwps) = lone;
		}
		pid_t pid = b->lwps.p[0].tid;
		struct thread first = b->lwps.p[0];
		b->lwps.p[0] = b->lwps.p[ways[i].swap];
		b->lwps.p[ways[i].swap] = first;
		b->lwps.p[0].signo = ways[i].signo;
		struct py *py = build_py(b);
		image_facts_mut(py->img)->pid = pid;
		image_facts_mut(py->img)->kind = ways[i].snapshot ? IMAGE_SNAPSHOT : IMAGE_CORE;
		struct report *r = report_new();
		say(py->img, py, NULL, r);
		n[i] = r->threads.n;
		ck_assert_uint_eq(n[i], 7);
		for (size_t k = 0; k < n[i]; k++) {
			seen[i][k].tid = (pid_t)r->threads.p[k].tid;
			seen[i][k].interp = r->threads.p[k].interpreter;
			ck_assert_int_eq(r->threads.p[k].crashed, ways[i].signo == SIGSEGV && r->threads.p[k].tid == b->lwps.p[0].tid);
		}
		ck_assert_uint_eq(r->verdict.thread, 0);
		report_free(r);
		build_free(b);
	}
	static const pid_t plain[] = { 0, 1, 0, 2, 3, 6, 7 }, main_crashed[] = { 0, 0, 1, 2, 3, 6, 7 }, last_crashed[] = { 3, 0, 1, 0, 2, 6, 7 },
		lone_stopped[] = { 7, 0, 1, 0, 2, 3, 6 };
	const pid_t *const want[WAYS] = { plain, plain, main_crashed, plain, last_crashed, lone_stopped };
	for (int i = 0; i < WAYS; i++)
		for (size_t k = 0; k < 7; k++)
			ck_assert_msg(seen[i][k].tid == PID + want[i][k], "%s: way %d: %zu is %d, not %d", tables[_i].name, i, k, (int)seen[i][k].tid,
				      PID + (int)want[i][k]);
	for (int i = 1; i < WAYS; i++)
		for (size_t k = 0; k < 7 && want[i] == plain; k++)
			ck_assert_int_eq(seen[i][k].interp, seen[0][k].interp);
}
END_TEST

/*
 * Where nothing crashed: who held the GIL and evaluated Python, else who ran and had frames, else who the signal came to, else the main
 * thread.  Threads 0 (the main one) to 3 have frames, 4 is in none, 5 runs no Python; the signal came to `came`.
 */
START_TEST(matters)
{
	enum { SNAP = -1, THREADS = 5, ALL = 6, NOBODY = -1 };
	static const struct { int signo, code, came, holder; unsigned ran; bool stopped; int want; } cases[] = {
		{ SNAP, 0, 0, NOBODY, 0, false, 0 },
		{ SNAP, 0, 0, 2, 0, false, 2 },            /* holds it, in a call that waits */
		{ SNAP, 0, 0, 2, 1u << 3, false, 2 },
		{ SNAP, 0, 0, 4, 0, false, 0 },            /* holds it, and evaluates nothing */
		{ SNAP, 0, 0, 4, 1u << 3, false, 3 },
		{ SNAP, 0, 0, NOBODY, 1u << 3, false, 3 },
		{ SNAP, 0, 0, NOBODY, 1u << 2 | 1u << 3, false, 2 },
		{ SNAP, 0, 0, NOBODY, 1u << 0 | 1u << 1, false, 0 },
		{ SNAP, 0, 0, NOBODY, 1u << 4 | 1u << 5, false, 0 },
		{ SNAP, 0, 0, NOBODY, 1u << 3, true, 0 },  /* all had been stopped: none ran */
		{ 0, 0, 0, 1, 0, false, 1 },               /* a debugger's */
		{ SIGTERM, 0 /* SI_USER */, 0, 1, 0, false, 1 },
		{ SIGTERM, 0, 0, NOBODY, 1u << 2, false, 2 },
		{ SIGTERM, 0, 3, NOBODY, 0, false, 3 },
		{ SIGTERM, SI_TKILL, 3, 1, 1u << 2, false, 3 }, /* that one was meant */
		{ SIGSEGV, 1, 3, 1, 1u << 2, false, 3 },
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		if (cases[i].holder != NOBODY && layout_has(&tables[_i], F_PyObject_ob_tid))
			continue; /* free-threaded: there is no such lock */
		struct build *b = build_new(&tables[_i]);
		addr_t code = build_code(b, &(struct build_code){ .name = "run", .file = "a.py", .firstlineno = 10, .units = 8 });
		addr_t holder = 0;
		for (int k = 0; k < THREADS; k++) {
			addr_t th = build_thread(b, b->interp, BUILD_IDENT(b) + 0x1000 * (uint64_t)k, PID + k);
			if (k != 4)
				build_frame(b, th, &(struct build_frame){ .code = code, .lasti = 2 });
			if (k == cases[i].holder)
				holder = th;
		}
		build_gil(b, b->interp, holder);
		struct thread lone = b->lwps.p[0];
		lone.tid = PID + 5;
		lone.regs.tls = BUILD_IDENT(b) + 0x1000 * 9;
		*vec_push(&b->lwps) = lone;
		for (int k = 0; k < ALL; k++) {
			b->lwps.p[k].regs.syscall.known = true;
			b->lwps.p[k].regs.syscall.nr = cases[i].ran >> k & 1 ? -1 : 202;
			b->lwps.p[k].state = cases[i].stopped ? 'T' : 'S';
		}
		struct thread first = b->lwps.p[0];
		b->lwps.p[0] = b->lwps.p[cases[i].came];
		b->lwps.p[cases[i].came] = first;
		b->lwps.p[0].signo = cases[i].signo > 0 ? cases[i].signo : 0;
		struct py *py = build_py(b);
		struct image_facts *f = image_facts_mut(py->img);
		f->pid = PID;
		f->kind = cases[i].signo == SNAP ? IMAGE_SNAPSHOT : IMAGE_CORE;
		if (cases[i].signo > 0) {
			f->siginfo.known = true;
			f->siginfo.signo = cases[i].signo;
			f->siginfo.code = cases[i].code;
			f->siginfo.has_sender = cases[i].code <= 0;
			f->siginfo.pid = 99;
		}
		struct report *r = report_new();
		say(py->img, py, NULL, r);
		ck_assert_msg(r->verdict.tid == PID + cases[i].want && r->threads.p[0].tid == r->verdict.tid, "%s: case %zu: %d", tables[_i].name, i, (int)r->verdict.tid - PID);
		ck_assert(r->verdict.location && r->verdict.location->python);
		for (size_t k = 2; k < r->threads.n; k++) /* the others stay in their order */
			ck_assert_int_lt(r->threads.p[k - 1].tid, r->threads.p[k].tid);
		report_free(r);
		build_free(b);
	}
}
END_TEST

/* A main thread that has ended, and holds the GIL for ever. */
START_TEST(ended_main)
{
	/* Where only the place of a pthread_t tells, that no thread is found does not say that it ended. */
	if (!abi_tls_is_self(&tables[_i].abi) && !layout_has(&tables[_i], F_PyThread_native_thread_id))
		return;
	struct build *b = build_new(&tables[_i]);
	addr_t code = build_code(b, &(struct build_code){ .name = "run", .file = "a.py", .firstlineno = 10, .units = 8 });
	addr_t main = build_thread(b, b->interp, BUILD_IDENT(b), 0);
	build_frame(b, main, &(struct build_frame){ .code = code, .lasti = 2 });
	build_frame(b, build_thread(b, b->interp, BUILD_IDENT(b) + 0x1000, PID + 1), &(struct build_frame){ .code = code, .lasti = 2 });
	build_thread_name(b, b->interp, BUILD_IDENT(b), "MainThread");
	build_thread_name(b, b->interp, BUILD_IDENT(b) + 0x1000, "worker");
	build_gil(b, b->interp, main);
	struct py *py = build_py(b);
	image_facts_mut(py->img)->kind = IMAGE_SNAPSHOT;
	image_facts_mut(py->img)->pid = PID; /* the process's number stays that of its first thread */
	struct report *r = report_new();
	say(py->img, py, NULL, r);
	ck_assert_uint_eq(r->threads.n, 2);
	ck_assert(str_is(r->threads.p[0].name, "worker") && r->verdict.tid == PID + 1);
	ck_assert(r->threads.p[1].stale && r->threads.p[1].main);
	CLEANUP(cleanup_free) char *title = xasprintf(STR_FMT, STR_ARG(r->verdict.title));
	ck_assert_ptr_nonnull(strstr(title, "\"MainThread\" held the GIL, but that thread has ended"));
	report_free(r);
	build_free(b);
}
END_TEST

/* The thread list leads back into itself: what was seen stays, and it is said once. */
START_TEST(thread_loop)
{
	struct build *b = build_new(&tables[_i]);
	addr_t a = build_thread(b, b->interp, BUILD_IDENT(b), PID), c = build_thread(b, b->interp, BUILD_IDENT(b) + 0x1000, PID + 1);
	WRITE(b, a, PyThread, next, c);
	struct py *py = build_py(b);
	struct report *r = report_new();
	say(py->img, py, NULL, r);
	ck_assert_uint_eq(problems(r, P_THREADS_BROKEN), 1);
	ck_assert_uint_ge(r->threads.n, 2);
	ck_assert_uint_lt(r->threads.n, 100);
	report_free(r);
	build_free(b);
}
END_TEST

/* Python initialised in another thread than the process's first: the runtime's main thread is the main one, and no other. */
START_TEST(main_of_python)
{
	struct build *b = build_new(&tables[_i]);
	addr_t code = build_code(b, &(struct build_code){ .name = "run", .file = "a.py", .firstlineno = 10, .units = 8 });
	build_frame(b, build_thread(b, b->interp, BUILD_IDENT(b), PID + 1), &(struct build_frame){ .code = code, .lasti = 2 });
	build_thread_name(b, b->interp, BUILD_IDENT(b), "MainThread");
	struct thread first = b->lwps.p[0];
	first.tid = PID;
	first.regs.tls = BUILD_IDENT(b) + 0x5000;
	*vec_push(&b->lwps) = first;
	struct py *py = build_py(b);
	image_facts_mut(py->img)->pid = PID;
	uint64_t ident;
	const bool known = py_main_ident(py, &ident) == 0;
	struct report *r = report_new();
	say(py->img, py, NULL, r);
	ck_assert_uint_eq(r->threads.n, 2);
	for (size_t i = 0; i < 2; i++)
		ck_assert_msg(!known || r->threads.p[i].main == (r->threads.p[i].has_python), "%s: %d", tables[_i].name, (int)r->threads.p[i].tid);
	report_free(r);
	build_free(b);
}
END_TEST

/* A link of the list is 0 too early: what else leads to the rest finds it, and it is said; a whole list has nothing of it. */
START_TEST(thread_list_cut)
{
	const int ways = layout_has(&tables[_i], F_PyInt_ob_ival) ? 2 : 3; /* 2.7 has no word for its main thread */
	for (int cut = 0; cut < ways; cut++) { /* 2: nobody has the lock, and where the runtime is is not known: threading says who the main thread is */
		struct build *b = build_new(&tables[_i]);
		addr_t code = build_code(b, &(struct build_code){ .name = "run", .file = "a.py", .firstlineno = 10, .units = 8 }), t[3];
		for (int k = 0; k < 3; k++) {
			t[k] = build_thread(b, b->interp, BUILD_IDENT(b) + 0x1000 * (uint64_t)k, PID + k);
			build_frame(b, t[k], &(struct build_frame){ .code = code, .lasti = 2 });
		}
		if (cut < 2)
			build_gil(b, b->interp, t[1]);
		else
			build_thread_name(b, b->interp, BUILD_IDENT(b), "MainThread");
		if (cut)
			WRITE(b, t[2], PyThread, next, 0);
		if (cut == 2)
			WRITE_IF(b, b->interp, PyInterp, threads_main, 0);
		struct py *py = build_py(b);
		if (cut == 2)
			py->runtime = 0;
		else if (!b->runtime)
			py->tstate_current = b->tstate_current;
		struct report *r = report_new();
		say(py->img, py, NULL, r);
		size_t with_frames = 0;
		for (size_t i = 0; i < r->threads.n; i++)
			with_frames += r->threads.p[i].active;
		ck_assert_msg(problems(r, P_THREADS_UNLISTED) == (cut ? 1u : 0u) && with_frames == 3 && r->threads.n == 3, "%s: cut %d: %zu threads, %zu problems",
			      tables[_i].name, cut, with_frames, problems(r, P_THREADS_UNLISTED));
		report_free(r);
		build_free(b);
	}
}
END_TEST

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
	for (; n < 8 && crashes[row].stack[n]; n++) {
		const char *text = crashes[row].stack[n], *space = strchr(text, ' ');
		frames[n].python = space;
		frames[n].function = (struct str){ text, space ? (size_t)(space - text) : strlen(text) };
		frames[n].file = str_of(space ? space + 1 : NULL);
		frames[n].at.line = (int)(row * 10 + n); /* of no matter */
		frames[n].pc = frames[n].python ? 0 : str_is(frames[n].function, "strlen") ? 0x50010 : 0x50100 + n;
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
	ck_assert_uint_eq(r->verdict.notes.n, r->verdict.group_id.len ? 0 : 1);
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
	ck_assert_str_eq(first, "836f-9ad1-5466-7c74"); /* the definition does not change unnoticed */
	ids_of((size_t)_i, LOST_NOTHING, group, detail);
	ck_assert_int_eq(strcmp(first, group) == 0, crashes[_i].equal);
	ck_assert_int_eq(detail[0] != '\0', crashes[_i].detail);
	ck_assert_str_ne(group, detail);
}
END_TEST

/* Names of native functions in detail_id: those of two builds are the same. */
START_TEST(crash_detail)
{
	static const struct { const char *strlen, *symbol, *caller; bool equal; } names[] = {
		{ "strlen", NULL, "work", true }, { "strlen.cold", NULL, "work", true }, { "strlen@@GLIBC_2.2.5", NULL, "work.constprop.0.isra.0", true },
		{ "strnlen", NULL, "work", false }, { "strlen", "_Z6strlenPc", "work", false }, { "strlen", NULL, "main.work", false },
	};
	char first[32] = "", group[32] = "";
	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		struct build_elf *b = build_elf_new("x86_64");
		build_elf_thread(b, PID, 0x50010, 0x7ff0);
		struct image *img = build_elf_open(b);
		struct report *r = report_new();
		struct report_frame frames[3] = { { .python = true, .function = STR("go"), .file = STR("a.py") }, { .function = str_of(names[i].caller), .pc = 0x50100 },
						  { .function = str_of(names[i].strlen), .symbol = str_of(names[i].symbol), .pc = 0x50010 } };
		const struct report_frame *list[3] = { &frames[0], &frames[1], &frames[2] };
		struct report_thread t = { .tid = PID, .has_python = true, .active = true };
		report_fold(r, list, 3, &t.runs, &t.n_runs);
		r->verdict.signal.name = STR("SIGSEGV");
		crash_ids(img, r, &t, 0x50010, CRASH_FAULT);
		ck_assert(r->verdict.group_id.len && r->verdict.detail_id.len);
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
	enum { KINDS = CRASH_SENT + 1, HELD = 4 /* by nothing; by a file; by the vdso, at one place and another */ };
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
			const bool nowhere = a[0] == CRASH_NULL || a[0] == CRASH_WILD, held = a[1] == c[1] || (a[1] > 1 && c[1] > 1);
			const bool same = !strcmp(id[a[0]][a[1]][a[2]], id[c[0]][c[1]][c[2]]), want = a[0] == c[0] && a[2] == c[2] && (nowhere || held);
			ck_assert_msg(same == want, "kind %d held %d likely %d, and %d %d %d", a[0], a[1], a[2], c[0], c[1], c[2]);
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

/* Innermost first, "" is a Python frame. */
static const struct { const char *modules[6], *culprit; } culprits[] = {
	{ { "/usr/lib/libc.so.6", "/x/_speed.cpython-312-x86_64-linux-gnu.so", "/usr/lib/libpython3.12.so.1.0", "", "/x/other.so" }, "/x/_speed.cpython-312-x86_64-linux-gnu.so" },
	{ { "/usr/lib/libc.so.6", "/usr/lib/libffi.so.8", "/y/_ctypes.cpython-312.so", "/usr/bin/python3.12", "" }, NULL },
	{ { "/usr/lib/libc.so.6", "", "/x/other.so" }, NULL },
	{ { "", "/x/other.so" }, NULL },
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
	struct str got = crash_culprit(&t, 0);
	ck_assert(culprits[_i].culprit ? str_is(got, culprits[_i].culprit) : !got.s);
	report_free(r);
}
END_TEST

int main(void)
{
	size_t n;
	tables = every_layout(&n);
	n_tables = (int)n;
	Suite *s = suite_create("inspect");
	TCase *c = tcase_create("verdict");
	tcase_add_loop_test(c, verdict, 0, COUNT(verdicts));
	tcase_add_loop_test(c, handlers, 0, COUNT(handled));
	tcase_add_loop_test(c, untold, 0, 10);
	tcase_add_loop_test(c, culprit, 0, COUNT(culprits));
	tcase_add_test(c, no_crash_id);
	tcase_add_test(c, crash_detail);
	tcase_add_test(c, crash_kinds);
	tcase_add_loop_test(c, crash_ways, 0, (n_tables + SOME - 1) / SOME);
	tcase_add_loop_test(c, crash_id, 0, COUNT(crashes));
	suite_add_tcase(s, c);
	c = tcase_create("threads");
	tcase_add_loop_test(c, threads, 0, n_tables);
	tcase_add_loop_test(c, broken_code, 0, n_tables);
	tcase_add_loop_test(c, small_losses, 0, n_tables);
	tcase_add_loop_test(c, contradictions, 0, n_tables);
	tcase_add_loop_test(c, inherited_name, 0, n_tables);
	tcase_add_loop_test(c, not_the_only_word, 0, n_tables);
	tcase_add_loop_test(c, natives, 0, n_tables);
	tcase_add_loop_test(c, limits, 0, n_tables);
	tcase_add_loop_test(c, order, 0, n_tables);
	tcase_add_loop_test(c, matters, 0, n_tables);
	tcase_add_loop_test(c, ended_main, 0, n_tables);
	tcase_add_loop_test(c, unsure_interpreter, 0, n_tables);
	tcase_add_loop_test(c, chain, 0, n_tables);
	tcase_add_loop_test(c, frames_of_two, 0, n_tables);
	tcase_add_loop_test(c, thread_loop, 0, n_tables);
	tcase_add_loop_test(c, thread_list_cut, 0, n_tables);
	tcase_add_loop_test(c, main_of_python, 0, n_tables);
	tcase_set_timeout(c, 60);
	suite_add_tcase(s, c);
	return suite_run(s);
}
