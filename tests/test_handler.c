/* Handlers that are not the verdict, in whole reports of images built in memory: nested, left over, of another signal, of another thread. */
#include <check.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "build_elf.h"
#include "config.h"
#include "inspect/parts.h"
#include "suite.h"
#include "whole_report.h"

#define HELD(signo) (UINT64_C(1) << ((signo) - 1))
enum { STACK = 0x30000, SIZE = 0x8000, SP = 0x30800, APART = 0x400, LIB = 0x52000, PC = LIB + 0x345 };

/* An x86-64 frame at sp + 0x100 of what was interrupted at pc, writing to 0x1234 by rdi. */
static void put_frame(struct build_elf *b, uint8_t *stack, addr_t sp, addr_t pc, addr_t was, unsigned trap)
{
	uint8_t *context = stack + (sp - STACK) + 0x100;
	build_elf_put(b, context - 40, 8, 7);
	build_elf_put(b, context + 64, 8, 0x1234);
	build_elf_put(b, context + 120, 8, was);
	build_elf_put(b, context + 128, 8, pc);
	build_elf_put(b, context + 144, 8, 0x002b000000000033);
	build_elf_put(b, context + 152, 8, 6);
	build_elf_put(b, context + 160, 8, trap);
	build_elf_put(b, context + 176, 8, 0x1234);
}

#define NO_ROOM "SIGSEGV: stack overflow: no room was left for the frame of a signal handler"
#define REFUSED "SIGSEGV: the processor refused an instruction; no address is given (often an address that is not canonical, else a privileged instruction)"
#define NESTED "likely 10 signal handlers had interrupted each other; the first ran on likely SIGSEGV: "
/* signo, code: of the end.  depth: so many frames, of a trap or of siginfo's signal; title NULL: not looked at; note NULL: none. */
static const struct { int signo, code; unsigned depth, trap; int asked; bool code_there; const char *title, *note; } ends[] = {
	{ SIGSEGV, SI_KERNEL, 10, 14, 0, false, NO_ROOM, NESTED },
	{ SIGSEGV, SI_KERNEL, 10, 14, 0, true, NO_ROOM, HAVE_ZYDIS ? "likely 10 signal handlers had interrupted each other; the first ran on SIGSEGV: write to address 0x1234" : NESTED },
	{ SIGSEGV, SI_KERNEL, 10, 0, 0, true, NO_ROOM, "likely 10 signal handlers had interrupted each other" },
	{ SIGSEGV, SI_KERNEL, 10, 0, SIGALRM, true, NO_ROOM, "likely 10 signal handlers had interrupted each other; the first ran on SIGALRM" },
	{ SIGSEGV, SI_KERNEL, 1, 0, 0, true, REFUSED, NULL },
	{ SIGSEGV, 1, 10, 14, 0, true, "SIGSEGV: access to address 0xbad000 (nothing is mapped there)", "likely 10 signal handlers had interrupted each other" },
	{ SIGSEGV, 1, 3, 14, 0, true, "SIGSEGV: access to address 0xbad000 (nothing is mapped there)", "it likely came in the handler of another fault: SIGSEGV: " },
	{ SIGSEGV, 1, 1, 14, 0, false, "SIGSEGV: access to address 0xbad000 (nothing is mapped there)", "it likely came in the handler of another fault: SIGSEGV: " },
	/* What may be left over of another signal is not told of a fault, and of an abort as likely. */
	{ SIGSEGV, 1, 1, 0, SIGALRM, true, "SIGSEGV: access to address 0xbad000 (nothing is mapped there)", NULL },
	{ SIGABRT, SI_TKILL, 1, 0, SIGALRM, true, NULL, "it likely came in a handler of SIGALRM" },
	{ SIGABRT, SI_TKILL, 3, 0, SIGALRM, true, NULL, "it likely came in a handler of SIGALRM" },
	/* An old trap of a fault, and a handler that was told of a signal from outside: the code tells them apart, if it is there. */
	{ SIGABRT, SI_TKILL, 1, 14, SIGALRM, false, NULL, "it likely came in a handler of SIGALRM" },
};

START_TEST(told)
{
	__auto_type c = &ends[_i];
	struct build_elf *b = build_elf_new("x86_64");
	build_elf_thread(b, PID, 0x41100, _i & 1 ? SP : STACK - 0x90); /* of a stack that has overflowed, too */
	build_elf_sighold(b, c->asked ? HELD(c->asked) : 0);
	uint8_t *stack = build_elf_memory(b, STACK, SIZE, 3);
	for (unsigned i = 0; i < c->depth; i++) {
		const addr_t sp = SP + i * APART;
		put_frame(b, stack, sp, PC, sp + APART, c->trap);
		if (c->asked) {
			uint8_t *info = stack + (sp - STACK) + 0x100 + 264;
			build_elf_put(b, info, 4, (uint32_t)c->asked);
			build_elf_put(b, info + 8, 4, SI_KERNEL);
		}
	}
	build_elf_file(b, 0x40000, 0x42000, 0, "/usr/lib/liba.so");
	build_elf_absent(b, 0x40000, 0x2000, 5);
	build_elf_file(b, LIB, LIB + 0x1000, 0, "/usr/lib/libx.so");
	if (c->code_there)
		memcpy(build_elf_memory(b, LIB, 0x1000, 5) + (PC - LIB), "\x89\x07\x90\x90", 4); /* mov [rdi], eax */
	else
		build_elf_absent(b, LIB, 0x1000, 5);
	build_elf_cursig(b, c->signo);
	build_elf_prpsinfo(b, PID, 1, 0, "python", "python x.py");
	if (c->code > 0)
		build_elf_signal(b, c->signo, c->code, c->code == 1 ? 0xbad000 : 0);
	else
		build_elf_signal_from(b, c->signo, c->code, PID, 0);
	struct image *img = build_elf_open(b);
	struct report *r = report_new();
	say(img, NULL, &(struct err){ .code = ERR_NOPYTHON, .msg = "found no CPython" }, r);
	ck_assert_int_eq(r->verdict.kind, VERDICT_CRASH);
	if (c->title)
		ck_assert_msg(str_is(r->verdict.title, c->title), STR_FMT ", not %s", STR_ARG(r->verdict.title), c->title);
	size_t n = 0;
	for (size_t i = 0; i < r->verdict.notes.n; i++)
		if (!strcmp(r->verdict.notes.p[i].key, "handler")) {
			ck_assert_msg(c->note && str_starts(r->verdict.notes.p[i].text, c->note), STR_FMT, STR_ARG(r->verdict.notes.p[i].text));
			n++;
		}
	ck_assert_uint_eq(n, c->note != NULL);
	report_free(r);
	image_close(img);
	build_elf_free(b);
}
END_TEST

/*
 * What lies where the kernel puts siginfo, for a handler that may not have asked.  Frame pointers lead from raise() out to the handler's frame;
 * it interrupted a system call, or a write to 0x1234.
 */
#define OUTSIDE "SIGABRT from outside (the sender is not in the core)"
#define ITSELF "SIGABRT: the process aborted itself (abort, a failed assertion or a fatal error)"
static const struct {
	int last, signo, code;                /* signo 0: zeros */
	uint64_t first, after;                /* the address, or pid and uid; a word where the kernel leaves zeros */
	uint64_t held, before;                /* while the handler runs, and when the signal came */
	bool writes;
	unsigned trap;
	enum verdict_kind kind; bool likely; const char *title, *note;
} infos[] = {
	/* faulthandler, which does not ask, on a stack of its own that has words of what its memory was before. */
	{ SIGABRT, SIGHUP, 0, 6 | UINT64_C(0x52) << 32, 6, 0, 0, false, 0, VERDICT_STOPPED, true, OUTSIDE, "a signal handler ran then; the process ended by SIGABRT" },
	/* All of it is right: only the mask tells whether it is of this signal. */
	{ SIGABRT, SIGHUP, 0, 6, 0, 0, 0, false, 0, VERDICT_CRASH, true, ITSELF, "it likely came in a handler of SIGHUP, which pid 6 had sent" },
	{ SIGABRT, SIGHUP, 0, 6, 0, HELD(SIGHUP), 0, false, 0, VERDICT_CRASH, false, ITSELF, "it came in a handler of SIGHUP, which pid 6 had sent" },
	{ SIGABRT, SIGHUP, 0, 6, 9, HELD(SIGHUP), 0, false, 0, VERDICT_CRASH, true, ITSELF, "it likely came in a handler of SIGHUP, which pid 6 had sent" }, /* Linux before 4.20 */
	{ SIGABRT, SIGHUP, 0, 6, 0, HELD(SIGHUP), HELD(SIGHUP), false, 0, VERDICT_CRASH, true, ITSELF, "it likely came in a handler of SIGHUP, which pid 6 had sent" },
	{ SIGABRT, SIGHUP, 0, 6, 0, UINT64_MAX, 0, false, 0, VERDICT_CRASH, true, ITSELF, "it likely came in a handler of SIGHUP, which pid 6 had sent" },
	{ SIGABRT, SIGHUP, 0, 6, 0, HELD(SIGTERM), 0, false, 0, VERDICT_CRASH, true, ITSELF, "it came in a signal handler, likely of SIGTERM" },
	{ SIGABRT, 0, 0, 0, 0, HELD(SIGTERM), 0, false, 0, VERDICT_CRASH, true, ITSELF, "it came in a signal handler, likely of SIGTERM" },
	{ SIGABRT, 0, 0, 0, 0, HELD(SIGTERM) | HELD(SIGINT), 0, false, 0, VERDICT_STOPPED, true, OUTSIDE, "a signal handler ran then; the process ended by SIGABRT" },
	{ SIGABRT, SIGALRM, -2, 77, 0, HELD(SIGALRM), 0, false, 0, VERDICT_CRASH, false, ITSELF, "it came in a handler of SIGALRM" }, /* 77 is the timer's number */
	{ SIGABRT, SIGCHLD, 1, 77, 0, HELD(SIGCHLD), 0, false, 0, VERDICT_CRASH, false, ITSELF, "it came in a handler of SIGCHLD" },
	{ SIGABRT, SIGHUP, -9, 6, 0, HELD(SIGHUP), 0, false, 0, VERDICT_CRASH, true, ITSELF, "it came in a signal handler, likely of SIGHUP" }, /* no such code */
	/* What the handler raised again. */
	{ SIGABRT, SIGABRT, 0, 99, 0, 0, 0, false, 0, VERDICT_STOPPED, false, "SIGABRT sent by pid 99 (uid 0)", "a signal handler ran then; the process ended by SIGABRT" },
	{ SIGABRT, SIGABRT, 0, 99, 9, 0, 0, false, 0, VERDICT_STOPPED, true, "SIGABRT sent by pid 99 (uid 0)", "a signal handler ran then; the process ended by SIGABRT" },
	/* A fault that the process once recovered from on that stack: the instruction is another one. */
	{ SIGABRT, SIGSEGV, 1, 0x1234, 0, 0, 0, false, 14, VERDICT_STOPPED, true, OUTSIDE, "a signal handler ran then; the process ended by SIGABRT" },
	{ SIGABRT, SIGFPE, 1, 0x1234, 0, 0, 0, false, 0, VERDICT_STOPPED, true, OUTSIDE, "a signal handler ran then; the process ended by SIGABRT" },
	{ SIGABRT, SIGILL, 2, 0x1234, 9, 0, 0, false, 0, VERDICT_STOPPED, true, OUTSIDE, "a signal handler ran then; the process ended by SIGABRT" },
	{ SIGSEGV, SIGSEGV, 1, 0x1234, 0, 0, 0, false, 14, VERDICT_STOPPED, true, "SIGSEGV from outside (the sender is not in the core)", "a signal handler ran then; the process ended by SIGSEGV" },
#if HAVE_ZYDIS
	{ SIGABRT, SIGSEGV, 1, 0x1234, 0, 0, 0, true, 14, VERDICT_CRASH, false, "SIGSEGV: write to address 0x1234 (nothing is mapped there)", "a signal handler ran then; the process ended by SIGABRT" },
	{ SIGABRT, SIGSEGV, 1, 0x1234, 9, 0, 0, true, 14, VERDICT_CRASH, false, "SIGSEGV: write to address 0x1234 (nothing is mapped there)", "a signal handler ran then; the process ended by SIGABRT" },
	{ SIGABRT, SIGFPE, 1, 0x1234, 0, 0, 0, true, 14, VERDICT_CRASH, false, "SIGSEGV: write to address 0x1234 (nothing is mapped there)", "a signal handler ran then; the process ended by SIGABRT" },
#endif
};

START_TEST(believed)
{
	__auto_type c = &infos[_i];
	enum { CODE = 0x61000, RAISE = 0x100, IN_CALL = 0x207, WRITES = 0x240, BACK = 0x300, INFO = 264, MASK = 256 };
	struct build_elf *b = build_elf_new("x86_64");
	build_elf_thread(b, PID, CODE + RAISE, SP);
	build_elf_reg(b, "rbp", SP);
	build_elf_sighold(b, c->held);
	build_elf_cursig(b, c->last);
	build_elf_prpsinfo(b, PID, 1, 0, "python", "python x.py");
	build_elf_signal_from(b, c->last, SI_TKILL, PID, 0);
	uint8_t *stack = build_elf_memory(b, STACK, SIZE, 3), *context = stack + (SP - STACK) + 16 + 40, *code = build_elf_memory(b, CODE, 0x1000, 5);
	build_elf_put(b, stack + (SP - STACK) + 8, 8, CODE + BACK);
	put_frame(b, stack, SP + 16 + 40 - 0x100, CODE + (c->writes ? WRITES : IN_CALL), SP + 0x900, c->trap);
	build_elf_put(b, context + MASK, 8, c->before);
	if (c->signo) {
		build_elf_put(b, context + INFO, 4, (uint32_t)c->signo);
		build_elf_put(b, context + INFO + 8, 4, (uint32_t)c->code);
		build_elf_put(b, context + INFO + 16, 8, c->first);
		build_elf_put(b, context + INFO + 96, 8, c->after);
	}
	memset(code, 0x90, 0x1000);
	memcpy(code + 0x200, "\xb8\0\0\0\0\x0f\x05", 7);   /* read */
	memcpy(code + WRITES, "\x89\x07", 2);              /* mov [rdi], eax */
	memcpy(code + BACK, "\x48\xc7\xc0\x0f\0\0\0\x0f\x05", 9);
	build_elf_file(b, CODE, CODE + 0x1000, 0, "/usr/lib/libx.so");
	struct image *img = build_elf_open(b);
	struct report *r = report_new();
	say_with(NATIVE_UNWOUND, img, NULL, &(struct err){ .code = ERR_NOPYTHON, .msg = "found no CPython" }, r);
	CLEANUP(cleanup_free) char *title = xasprintf(STR_FMT, STR_ARG(r->verdict.title));
	ck_assert_str_eq(title, c->title);
	ck_assert_int_eq(r->verdict.kind, c->kind);
	ck_assert_int_eq(r->verdict.likely, c->likely);
	const char *note = NULL;
	for (size_t i = 0; i < r->verdict.notes.n; i++)
		if (!strcmp(r->verdict.notes.p[i].key, "handler"))
			note = str_c(r->arena, r->verdict.notes.p[i].text);
	ck_assert_str_eq(note ? note : "", c->note);
	report_free(r);
	image_close(img);
	build_elf_free(b);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("handler");
	TCase *c = tcase_create("handler");
	tcase_add_loop_test(c, told, 0, COUNT(ends));
	tcase_add_loop_test(c, believed, 0, COUNT(infos));
	suite_add_tcase(s, c);
	return suite_run(s);
}
