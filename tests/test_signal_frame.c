/* Signal frames, and where a signal came from: by the frame, the code that was interrupted and what the stack still has, over images built in memory. */
#include <check.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "build_elf.h"
#include "config.h"
#include "inspect/abort.h"
#include "inspect/handler.h"
#include "inspect/sending.h"
#include "inspect/signal_frame.h"
#include "inspect/trap.h"
#include "suite.h"

enum { CODE = 0x401000, STACK = 0x30000, SP = 0x31000, DATA = 0x50000 };

#define BYTES(s) s, sizeof(s) - 1
#define WILD 0x4141414141414140u

/*
 * Machines and kinds of frames, from the start of struct sigcontext: where things are, words that tell one, and one of them spoilt.
 * old: a frame without siginfo.
 */
static const struct kind {
	const char *name, *abi;
	unsigned width, sp, pc, trap, error, fault, reg, dwarf; /* reg: of one register that is looked at */
	int info;                                               /* 0: none */
	struct { int at; unsigned width; uint64_t v; } word[8];
	int back;                                               /* where the return address is, which leads to RETURN; 0: not looked at */
	const char *code; size_t n_code;
} kinds[] = {
	{ "x86-64", "x86_64", 8, 120, 128, 160, 152, 176, 64, 5, 264, { { 144, 8, 0x002b000000000033 }, { -40, 8, 7 } }, 0, NULL, 0 },
	{ "aarch64", "aarch64", 8, 256, 264, 0, 0, 0, 48, 5, -304, { { 288, 8, 0x0000021046508001 } }, 0, NULL, 0 },
	{ "i386", "i386", 4, 28, 56, 48, 52, 84, 16, 7, -148, { { 60, 4, 0x23 }, { 72, 4, 0x2b }, { 8, 4, 0x2b }, { 12, 4, 0x2b }, { -20, 4, 5 }, { -8, 4, 2 } }, -164, BYTES("\xb8\xad\0\0\0\xcd\x80") },
	{ "i386, old", "i386", 4, 28, 56, 48, 52, 84, 16, 7, 0, { { 60, 4, 0x23 }, { 72, 4, 0x2b }, { 8, 4, 0x2b }, { 12, 4, 0x2b } }, -8, BYTES("\x58\xb8\x77\0\0\0\xcd\x80") },
	{ "i386 of a 32-bit kernel", "i386", 4, 28, 56, 48, 52, 84, 16, 7, -148, { { 60, 4, 0x73 }, { 72, 4, 0x7b }, { 8, 4, 0x7b }, { 12, 4, 0x7b } }, -164, BYTES("\xb8\xad\0\0\0\xcd\x80") },
	{ "arm", "arm", 4, 64, 72, 0, 0, 80, 32, 5, -148, { { 212, 4, 0x56465001 }, { 216, 4, 0x120 }, { 76, 4, 0x60000030 } }, 0, NULL, 0 },
	{ "arm, old", "arm", 4, 64, 72, 0, 0, 80, 32, 5, 0, { { 212, 4, 0x56465001 }, { 216, 4, 0x120 }, { 76, 4, 0x10 }, { -20, 4, 0x5ac3c35a } }, 0, NULL, 0 },
	{ "arm with iwMMXt", "arm", 4, 64, 72, 0, 0, 80, 32, 5, 0, { { 372, 4, 0x56465001 }, { 376, 4, 0x120 }, { 76, 4, 0x10 }, { -20, 4, 0x5ac3c35a } }, 0, NULL, 0 },
	{ "arm, big-endian", "armeb", 4, 64, 72, 0, 0, 80, 32, 5, -148, { { 212, 4, 0x56465001 }, { 216, 4, 0x120 }, { 76, 4, 0x210 } }, 0, NULL, 0 },
};
enum { RETURN = CODE + 0x100 };

static void put_context(struct build_elf *b, uint8_t *at, const struct kind *k, addr_t pc, addr_t sp)
{
	build_elf_put(b, at + k->sp, k->width, sp);
	build_elf_put(b, at + k->pc, k->width, pc);
	build_elf_put(b, at + k->fault, k->width, 0x1234);
	build_elf_put(b, at + k->reg, k->width, 0x777);
	for (size_t i = 0; i < 8 && k->word[i].width; i++)
		build_elf_put(b, at + k->word[i].at, k->word[i].width, k->word[i].v);
	if (k->back)
		build_elf_put(b, at + k->back, k->width, RETURN);
	if (k->trap) {
		build_elf_put(b, at + k->error, k->width, 6);     /* a write */
		build_elf_put(b, at + k->trap, k->width, TRAP_PAGE);
	}
}

static void put_info(struct build_elf *b, uint8_t *at, const struct kind *k, int signo, int code, uint64_t addr_or_pid, unsigned uid)
{
	at += k->info;
	build_elf_put(b, at, 4, (uint32_t)signo);
	build_elf_put(b, at + 8, 4, (uint32_t)code);
	at += k->width == 8 ? 16 : 12;
	build_elf_put(b, at, code > 0 ? k->width : 4, addr_or_pid);
	if (code <= 0)
		build_elf_put(b, at + 4, 4, uid);
}

enum { CONTEXT = 0x200 /* from sp */, INFO = 264 };

static struct build_elf *with_code(const struct kind *k)
{
	struct build_elf *b = build_elf_new(k->abi);
	build_elf_thread(b, 100, CODE, SP);
	uint8_t *code = build_elf_memory(b, CODE, 0x1000, 5);
	if (k->n_code)
		memcpy(code + (RETURN - CODE), k->code, k->n_code);
	return b;
}

START_TEST(frame)
{
	const struct kind *k = &kinds[_i];
	struct build_elf *b = with_code(k);
	uint8_t *stack = build_elf_memory(b, STACK, 0x4000, 3), *sp = stack + (SP - STACK);
	put_context(b, sp - 0x400, k, 0x666, SP + 0x800); /* below what is in use */
	put_context(b, sp + CONTEXT, k, CODE + 8, SP + 0x800);
	put_context(b, sp + 0x1000, k, CODE + 16, SP + 0x1800);
	if (k->info) {
		put_info(b, sp + CONTEXT, k, SIGSEGV, 1, 0x1234, 0);
		put_info(b, sp + 0x1000, k, SIGUSR1, -6, 100, 1000);
	}
	struct image *img = build_elf_open(b);
	struct signal_frame f;
	ck_assert_msg(signal_frame_next(img, build_elf_first(img), 0, &f) == 0, "%s", k->name);
	ck_assert_uint_eq(f.at, SP + CONTEXT);
	ck_assert_uint_eq(f.regs.pc, CODE + 8);
	ck_assert_uint_eq(f.regs.sp, SP + 0x800);
	ck_assert_int_eq(f.has_info, k->info != 0);
	ck_assert_uint_eq(f.addr, 0x1234);
	ck_assert_int_eq(f.trapped, k->trap != 0);
	ck_assert_uint_eq(f.regs.value[k->dwarf], 0x777);
	if (k->info)
		ck_assert_int_eq(f.signo, SIGSEGV);
	if (k->trap) {
		ck_assert_uint_eq(f.error, 6);
		ck_assert_uint_eq(f.trap, TRAP_PAGE);
	}
	ck_assert_int_eq(signal_frame_next(img, build_elf_first(img), f.at + 8, &f), 0);
	ck_assert_uint_eq(f.at, SP + 0x1000);
	if (k->info) {
		ck_assert_int_eq(f.signo, SIGUSR1);
		ck_assert_int_eq(f.pid, 100);
		ck_assert_int_eq(f.uid, 1000);
	}
	ck_assert_int_eq(signal_frame_next(img, build_elf_first(img), f.at + 8, &f), ERR_ABSENT);
	image_close(img);
	build_elf_free(b);
}
END_TEST

/*
 * A stack pointer that leads nowhere is one of a context only where code faulted by it: an address near it that is not mapped, too.
 */
START_TEST(astray)
{
	enum { FAR = 0x9000000 };
	static const struct { addr_t sp, pc; unsigned trap; bool is; } rows[] = {
		{ FAR, CODE + 8, TRAP_PAGE, true }, { FAR + 16, CODE + 8, TRAP_PAGE, true }, { FAR + 16, DATA, TRAP_PAGE, false }, { FAR + 16, 0x900000, TRAP_PAGE, false },
		{ FAR + 0x900000, CODE + 8, TRAP_PAGE, false }, { FAR + 16, CODE + 8, TRAP_DIVIDE, false },
	};
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		struct build_elf *b = with_code(&kinds[0]);
		uint8_t *at = build_elf_memory(b, STACK, 0x4000, 3) + (SP - STACK) + CONTEXT;
		build_elf_memory(b, DATA, 0x1000, 3);
		put_context(b, at, &kinds[0], rows[i].pc, rows[i].sp);
		build_elf_put(b, at + kinds[0].trap, 8, rows[i].trap);
		build_elf_put(b, at + kinds[0].fault, 8, FAR);
		struct image *img = build_elf_open(b);
		struct signal_frame f;
		const bool is = signal_frame_next(img, build_elf_first(img), 0, &f) == 0;
		ck_assert_msg(is == rows[i].is && (!is || (f.regs.sp == rows[i].sp && f.regs.pc == rows[i].pc)), "%zu", i);
		image_close(img);
		build_elf_free(b);
	}
}
END_TEST

/* Each word that tells a frame from other data, and the code that is returned to, is looked at. */
START_TEST(spoilt)
{
	const struct kind *k = &kinds[_i];
	for (size_t i = 0; i < 9; i++) {
		struct build_elf *b = with_code(k);
		uint8_t *at = build_elf_memory(b, STACK, 0x4000, 3) + (SP - STACK) + CONTEXT;
		put_context(b, at, k, CODE + 8, SP + 0x800);
		if (i < 8 && k->word[i].width)
			build_elf_put(b, at + k->word[i].at, k->word[i].width, 0x7004);
		else if (i == 8 && k->back)
			build_elf_put(b, at + k->back, k->width, RETURN - 1);
		else if (i == 8)
			build_elf_put(b, at + k->sp, k->width, 0x900004);
		struct image *img = build_elf_open(b);
		struct signal_frame f;
		ck_assert_msg(signal_frame_next(img, build_elf_first(img), 0, &f) == (i < 8 && !k->word[i].width ? 0 : ERR_ABSENT), "%s: word %zu", k->name, i);
		image_close(img);
		build_elf_free(b);
	}
}
END_TEST

/* Where the code that is returned to is not in the image, the words have to do. */
START_TEST(no_return_code)
{
	const struct kind *k = &kinds[3];
	struct build_elf *b = with_code(k);
	uint8_t *at = build_elf_memory(b, STACK, 0x4000, 3) + (SP - STACK) + CONTEXT;
	put_context(b, at, k, CODE + 8, SP + 0x800);
	build_elf_put(b, at + k->back, 4, 0xf7f00540);
	struct image *img = build_elf_open(b);
	struct signal_frame f;
	ck_assert_int_eq(signal_frame_next(img, build_elf_first(img), 0, &f), 0);
	ck_assert(!f.has_info);
	image_close(img);
	build_elf_free(b);
}
END_TEST

/* A stack that is full: its pointer stands below it, up to a guard's size; not below what cannot be a stack, nor further. */
START_TEST(overflown)
{
	static const struct { addr_t sp; int rc; } at[] = { { STACK - 8, 0 }, { STACK - 0x10000, 0 }, { DATA - 8, ERR_ABSENT }, { 0x90000, ERR_ABSENT } };
	struct build_elf *b = build_elf_new("x86_64");
	build_elf_thread(b, 100, CODE, SP);
	put_context(b, build_elf_memory(b, STACK, 0x4000, 3) + (SP - STACK) + CONTEXT, &kinds[0], CODE + 8, at[_i].sp);
	memset(build_elf_memory(b, DATA, 0x1000, 1), 0, 0x1000);
	struct image *img = build_elf_open(b);
	struct signal_frame f;
	ck_assert_int_eq(signal_frame_next(img, build_elf_first(img), 0, &f), at[_i].rc);
	image_close(img);
	build_elf_free(b);
}
END_TEST

/* Frames without siginfo of pid 100's thread 101; pc is 8 bytes into the code. */
#define TGKILL "\x90\xb8\xea\x00\x00\x00\x0f\x05\x90\x90\x90\x90"
#define READING "\x90\xb8\x00\x00\x00\x00\x0f\x05\x90\x90\x90\x90"
#define KILL "\x90\xb8\x3e\x00\x00\x00\x0f\x05\x90\x90\x90\x90"
#define OTHER "\x89\xc8\x90\x90\x90\x90\x0f\x05\x90\x90\x90\x90"
#define NOPS "\x90\x90\x90\x90\x90\x90\x90\x90\x90\x90\x90\x90"
#define READS "\x90\x90\x90\x90\x90\x90\x90\x90\x8b\x07\x90\x90"
#define I386_READS "\x90\x90\x90\x90\x90\x90\x90\x90\x8b\x03\x90\x90"
#define DIVIDE "\x90\x90\x90\x90\x90\x90\x90\x90\xf7\xf7\x90\x90"
#define UD2 "\x90\x90\x90\x90\x90\x90\x90\x90\x0f\x0b\x90\x90"
#define AGAIN "\x90\x90\x90\x90\x90\x90\x90\x90\x0f\x05\x90\x90"
#define SVC "\x1f\x20\x03\xd5\x01\x00\x00\xd4\x1f\x20\x03\xd5"
#define ARM_SVC "\x00\x00\xa0\xe1\x00\x00\x00\xef\x00\x00\xa0\xe1"
#define THUMB_SVC "\xc0\x46\xc0\x46\xc0\x46\x00\xdf\xc0\x46\xc0\x46"
#define INT80 "\x90\xb8\x0e\x01\x00\x00\xcd\x80\x90\x90\x90\x90"
#define INT80_READING "\x90\xb8\x03\x00\x00\x00\xcd\x80\x90\x90\x90\x90"
#define VSYSCALL "\x51\x52\x55\x89\xcd\x05\xcd\x80\x5d\x5a\x59\xc3"
#define A64_READS "\x1f\x20\x03\xd5\x1f\x20\x03\xd5\x01\x00\x40\xf9"
#define A64_NOPS "\x1f\x20\x03\xd5\x1f\x20\x03\xd5\x1f\x20\x03\xd5"
static const struct { const char *code; int last; unsigned trap; uint64_t arg[3], result; enum origin origin; int signo, si_code; uint64_t nr; const char *abi; } origins[] = {
	{ TGKILL, SIGABRT, 0, { 100, 101, SIGABRT }, 0, ORIGIN_OWN, SIGABRT, SI_TKILL, 0 },
	{ OTHER, SIGSEGV, 0, { 100, 101, SIGSEGV }, 0, ORIGIN_OWN, SIGSEGV, SI_TKILL, 0 },
	{ KILL, SIGABRT, 0, { 100, SIGABRT, 0 }, 0, ORIGIN_OWN, SIGABRT, SI_TKILL, 0 },
	{ KILL, SIGABRT, 0, { 0, SIGABRT, 0 }, 0, ORIGIN_OWN, SIGABRT, SI_TKILL, 0 },
	/* Another call, signal, thread, process; it failed. */
	{ READING, SIGABRT, 0, { 100, 101, SIGABRT }, 0, ORIGIN_OUTSIDE, SIGABRT, SI_TKILL, 0 },
	{ TGKILL, SIGABRT, 0, { 100, 101, SIGUSR1 }, 0, ORIGIN_OUTSIDE, SIGABRT, SI_TKILL, 0 },
	{ TGKILL, SIGABRT, 0, { 100, 102, SIGABRT }, 0, ORIGIN_OUTSIDE, SIGABRT, SI_TKILL, 0 },
	{ KILL, SIGABRT, 0, { 55, SIGABRT, 0 }, 0, ORIGIN_OUTSIDE, SIGABRT, SI_TKILL, 0 },
	{ READING, SIGABRT, 0, { 3, 0x1234, 4096 }, (uint64_t)-4, ORIGIN_OUTSIDE, SIGABRT, SI_TKILL, 0 },
	{ NOPS, SIGABRT, 0, { 100, 101, SIGABRT }, 0, ORIGIN_OUTSIDE, SIGABRT, SI_TKILL, 0 },
	/* What the processor did not trap for. */
	{ NOPS, SIGSEGV, 0, { 0 }, 0, ORIGIN_OUTSIDE, SIGSEGV, SI_TKILL, 0 },
	{ NOPS, SIGBUS, 0, { 0 }, 0, ORIGIN_OUTSIDE, SIGBUS, SI_TKILL, 0 },
	{ NOPS, SIGILL, 0, { 0 }, 0, ORIGIN_OUTSIDE, SIGILL, SI_TKILL, 0 },
	{ NOPS, SIGFPE, 0, { 0 }, 0, ORIGIN_OUTSIDE, SIGFPE, SI_TKILL, 0 },
	{ READING, SIGFPE, 0, { 0 }, 0, ORIGIN_OUTSIDE, SIGFPE, SI_TKILL, 0 },
	/* An old trap, and a system call. */
	{ READING, SIGSEGV, TRAP_PAGE, { 0 }, 1, ORIGIN_OUTSIDE, SIGSEGV, SI_TKILL, 0 },
	{ AGAIN, SIGSEGV, TRAP_PAGE, { 0 }, 1, ORIGIN_OUTSIDE, SIGSEGV, SI_TKILL, 0 },
	{ READS, SIGSEGV, TRAP_PAGE, { 0x1234 }, 0, ORIGIN_FAULT, SIGSEGV, 1, 0 },
	{ READS, SIGABRT, TRAP_PAGE, { 0x1234 }, 0, ORIGIN_FAULT, SIGSEGV, 1, 0 },
	{ NOPS, SIGSEGV, TRAP_PROTECTION, { 0 }, 0, ORIGIN_FAULT, SIGSEGV, SI_KERNEL, 0 },
	{ READS, SIGBUS, TRAP_PAGE, { 0x1234 }, 0, ORIGIN_FAULT, SIGBUS, 2, 0, NULL },
	{ NOPS, SIGBUS, TRAP_ALIGNMENT, { 0 }, 0, ORIGIN_FAULT, SIGBUS, 1, 0 },
	{ NOPS, SIGILL, TRAP_ILLEGAL, { 0 }, 0, ORIGIN_FAULT, SIGILL, 2, 0 },
	{ DIVIDE, SIGFPE, TRAP_DIVIDE, { 0 }, 0, ORIGIN_FAULT, SIGFPE, 1, 0 },
	/* What the trap is told by, where the handler raised another signal; a trap that is not the instruction's is not claimed, nor trap 0 elsewhere. */
	{ DIVIDE, SIGABRT, TRAP_DIVIDE, { 0 }, 0, ORIGIN_FAULT, SIGFPE, 1, 0 },
	{ DIVIDE, SIGSEGV, TRAP_DIVIDE, { 0 }, 0, ORIGIN_FAULT, SIGFPE, 1, 0 },
	{ NOPS, SIGABRT, TRAP_DIVIDE, { 0 }, 0, ORIGIN_OUTSIDE, SIGABRT, SI_TKILL, 0 },
	{ UD2, SIGABRT, TRAP_ILLEGAL, { 0 }, 0, ORIGIN_FAULT, SIGILL, 2, 0 },
	{ NOPS, SIGSEGV, TRAP_ILLEGAL, { 0 }, 0, ORIGIN_OUTSIDE, SIGSEGV, SI_TKILL, 0 },
	{ NOPS, SIGABRT, TRAP_PROTECTION, { 0 }, 0, ORIGIN_FAULT, SIGSEGV, SI_KERNEL, 0 },
	{ NOPS, SIGABRT, TRAP_ALIGNMENT, { 0 }, 0, ORIGIN_FAULT, SIGBUS, 1, 0 },
	{ READING, SIGABRT, TRAP_ILLEGAL, { 0 }, 0, ORIGIN_OUTSIDE, SIGABRT, SI_TKILL, 0 },
	/* Another signal that it sent to itself, and is a crash. */
	{ TGKILL, SIGABRT, 0, { 100, 101, SIGFPE }, 0, ORIGIN_OWN, SIGFPE, SI_TKILL, 0 },
	{ TGKILL, SIGABRT, 0, { 100, 102, SIGFPE }, 0, ORIGIN_OUTSIDE, SIGABRT, SI_TKILL, 0 },
	/* aarch64: the first argument is gone, the number is not. */
	{ SVC, SIGABRT, 0, { 0, 101, SIGABRT }, 0, ORIGIN_OWN, SIGABRT, SI_TKILL, 131 },
	{ SVC, SIGABRT, 0, { 0, 101, SIGABRT }, 0, ORIGIN_OUTSIDE, SIGABRT, SI_TKILL, 63 },
	{ SVC, SIGSEGV, 0, { 0, 5, 6 }, 0, ORIGIN_OUTSIDE, SIGSEGV, SI_TKILL, 63 },
	{ A64_NOPS, SIGSEGV, 0, { 0, 5, 6 }, 0, ORIGIN_FAULT, SIGSEGV, 1, 63 },
	/* arm, and Thumb: tgkill is 268. */
	{ ARM_SVC, SIGABRT, 0, { 0, 101, SIGABRT }, 0, ORIGIN_OWN, SIGABRT, SI_TKILL, 268, "arm" },
	{ THUMB_SVC, SIGABRT, 0, { 0, 101, SIGABRT }, 0, ORIGIN_OWN, SIGABRT, SI_TKILL, 268, "arm" },
	{ THUMB_SVC, SIGABRT, 0, { 0, 101, SIGABRT }, 0, ORIGIN_OUTSIDE, SIGABRT, SI_TKILL, 3, "arm" },
	{ A64_NOPS, SIGSEGV, 0, { 0, 101, SIGABRT }, 0, ORIGIN_FAULT, SIGSEGV, 1, 268, "arm" },
	/* i386: by the number that the caller of int $0x80 gave, and through __kernel_vsyscall, where only the arguments tell. */
	{ INT80, SIGABRT, 0, { 100, 101, SIGABRT }, 0, ORIGIN_OWN, SIGABRT, SI_TKILL, 0, "i386" },
	{ INT80_READING, SIGABRT, 0, { 100, 101, SIGABRT }, 0, ORIGIN_OUTSIDE, SIGABRT, SI_TKILL, 0, "i386" },
	{ VSYSCALL, SIGABRT, 0, { 100, 101, SIGABRT }, 0, ORIGIN_OWN, SIGABRT, SI_TKILL, 0, "i386" },
	{ VSYSCALL, SIGABRT, 0, { 3, 0x1234, 4096 }, (uint32_t)-4, ORIGIN_OUTSIDE, SIGABRT, SI_TKILL, 0, "i386" },
	{ I386_READS, SIGSEGV, TRAP_PAGE, { 0x1234 }, 0, ORIGIN_FAULT, SIGSEGV, 1, 0, "i386" },
	{ DIVIDE, SIGFPE, TRAP_DIVIDE, { 0 }, 0, ORIGIN_FAULT, SIGFPE, 1, 0, "i386" },
};
static const struct { const char *abi; uint8_t arg[3], result; int8_t nr; bool traps; } callers[] = {
	{ "x86_64", { 5, 4, 1 }, 0, -1, true }, { "aarch64", { 0, 1, 2 }, 8, 8, false }, { "arm", { 0, 1, 2 }, 7, 7, false }, { "i386", { 3, 1, 2 }, 0, -1, true },
};

START_TEST(origin)
{
	__auto_type c = &origins[_i];
	const char *abi = c->abi ? c->abi : c->nr ? "aarch64" : "x86_64";
	__auto_type k = &callers[0];
	while (strcmp(k->abi, abi))
		k++;
	struct build_elf *b = build_elf_new(abi);
	build_elf_thread(b, 101, CODE, SP);
	build_elf_prpsinfo(b, 100, 1, 0, "python", "python x.py");
	build_elf_load(b, CODE, c->code, 12, 5);
	memset(build_elf_memory(b, STACK, 0x2000, 3), 0, 0x2000);
	struct image *img = build_elf_open(b);
	struct target t = { .img = img, .arena = arena_new() };
	struct report *r = report_new();
	struct signal_frame f = { .regs = { .pc = CODE + 8, .sp = SP, .known = UINT64_MAX }, .trapped = k->traps, .trap = c->trap, .error = 4, .addr = 0x1234 };
	for (int i = 0; i < 3; i++)
		f.regs.value[k->arg[i]] = c->arg[i];
	f.regs.value[k->result] = k->nr >= 0 ? c->nr : c->result;
	struct interrupted in = { 0 };
	ck_assert_int_eq(handler_origin(&t, r, &f, 101, c->last, &in), c->origin);
	ck_assert_int_eq(in.signo, c->signo);
	ck_assert_int_eq(in.code, c->si_code);
	if (c->trap == TRAP_PAGE && c->origin == ORIGIN_FAULT)
		ck_assert_uint_eq(in.addr, 0x1234);
	arena_free(t.arena);
	report_free(r);
	image_close(img);
	build_elf_free(b);
}
END_TEST

/* The last trap, of an access to 0x1234, is that of the instruction (pc is at its start), or of another long ago.  set: rdi, x0. */
#define GATHER "\xc4\xe2\x69\x90\x04\x07" /* vpgatherdd xmm0, [rdi+xmm0], xmm2 */
static const struct { const char *abi, *code; size_t n; unsigned trap, error; uint64_t set; enum trap_fit fit; } fits[] = {
	{ "x86_64", BYTES("\x8b\x07\x90\x90"), TRAP_PAGE, 4, 0x1234, TRAP_FITS },
	{ "x86_64", BYTES("\x8b\x07\x90\x90"), TRAP_PAGE, 4, 0x1230, TRAP_OTHER },
	{ "x86_64", BYTES("\x8b\x07\x90\x90"), TRAP_PAGE, 4, 0x1232, TRAP_FITS },        /* its last bytes lie there */
	{ "x86_64", BYTES("\x01\xc3\x90\x90"), TRAP_PAGE, 4, 0x1234, TRAP_OTHER },        /* add ebx, eax */
	{ "x86_64", BYTES("\x8b\x07\x90\x90"), TRAP_PAGE, 20, 0x1234, TRAP_OTHER },       /* pc is not there */
	{ "x86_64", BYTES(GATHER), TRAP_PAGE, 4, 0x1234, TRAP_UNDECIDED },
	{ "x86_64", BYTES("\xf3\xaa\x90\x90"), TRAP_PAGE, 6, 0x1200, TRAP_UNDECIDED },    /* rep stosb */
	{ "x86_64", "", 0, TRAP_PAGE, 4, 0x1234, TRAP_UNDECIDED },                         /* not captured */
	{ "x86_64", BYTES("\x01\xc3\x90\x90"), TRAP_DIVIDE, 0, 0, TRAP_OTHER },
	{ "x86_64", BYTES("\xf7\xf7\x90\x90"), TRAP_DIVIDE, 0, 0, TRAP_FITS },
	{ "x86_64", BYTES("\x0f\x0b\x90\x90"), TRAP_ILLEGAL, 0, 0, TRAP_FITS },
	{ "x86_64", BYTES("\x01\xc3\x90\x90"), TRAP_ILLEGAL, 0, 0, TRAP_UNDECIDED },
	{ "x86_64", BYTES("\x8b\x07\x90\x90"), TRAP_PROTECTION, 0, WILD, TRAP_FITS },
	{ "x86_64", BYTES("\xf4\x90\x90\x90"), TRAP_PROTECTION, 0, 0, TRAP_FITS },        /* hlt */
	{ "x86_64", BYTES("\x01\xc3\x90\x90"), TRAP_PROTECTION, 0, 0, TRAP_UNDECIDED },
	{ "i386", BYTES("\x8b\x07\x90\x90"), TRAP_PAGE, 4, 0x1234, TRAP_FITS },
	{ "i386", BYTES("\x8b\x07\x90\x90"), TRAP_PAGE, 4, 0x99, TRAP_OTHER },
	{ "aarch64", BYTES("\x01\x00\x40\xf9"), TRAP_PAGE, 0, 0x1200, TRAP_FITS },        /* ldr x1, [x0] */
	{ "aarch64", BYTES("\x01\x00\x40\xf9"), TRAP_PAGE, 0, 0xdead0000, TRAP_OTHER },
	{ "aarch64", BYTES("\x01\x68\x60\xf8"), TRAP_PAGE, 0, 0x91a, TRAP_FITS },         /* ldr x1, [x0, x0] */
	{ "aarch64", BYTES("\x01\x68\x60\xf8"), TRAP_PAGE, 0, 0x91a00, TRAP_OTHER },
	{ "aarch64", BYTES("\x1f\x20\x03\xd5"), TRAP_PAGE, 0, 0x1234, TRAP_OTHER },       /* nop */
	{ "aarch64", BYTES("\x20\x74\x0b\xd5"), TRAP_PAGE, 2, 0x1234, TRAP_UNDECIDED },   /* dc zva, x0 */
	{ "arm", BYTES("\x00\x10\x90\xe5"), TRAP_PAGE, 0, 0x1230, TRAP_FITS },
	{ "arm", BYTES("\x00\x10\x90\xe5"), TRAP_PAGE, 0, 0xdead0000, TRAP_UNDECIDED },
};

START_TEST(last_trap)
{
	__auto_type c = &fits[_i];
	struct build_elf *b = build_elf_new(c->abi);
	build_elf_thread(b, 101, CODE, SP);
	if (c->n)
		build_elf_load(b, CODE, c->code, c->n, 5);
	memset(build_elf_memory(b, STACK, 0x2000, 3), 0, 0x2000);
	struct image *img = build_elf_open(b);
	struct target t = { .img = img, .arena = arena_new() };
	struct report *r = report_new();
	struct signal_frame f = { .regs = { .pc = CODE, .sp = SP, .known = UINT64_MAX }, .trapped = true, .trap = c->trap, .error = c->error, .addr = 0x1234 };
	const bool x86 = strcmp(c->abi, "x86_64") == 0 || strcmp(c->abi, "i386") == 0;
	f.regs.value[strcmp(c->abi, "x86_64") == 0 ? 5 : x86 ? 7 : 0] = c->set;
	const bool decoder = HAVE_ZYDIS || !x86 || c->trap == TRAP_DIVIDE || c->error & 16;
	ck_assert_int_eq(trap_fits(&t, r, &f), decoder ? c->fit : TRAP_UNDECIDED);
	/* A signal from outside; no claim is made where it is not known. */
	struct interrupted in = { 0 };
	const int last = c->trap == TRAP_DIVIDE ? SIGFPE : c->trap == TRAP_ILLEGAL ? SIGILL : SIGSEGV;
	const enum origin from = handler_origin(&t, r, &f, 101, last, &in);
	ck_assert_int_eq(from == ORIGIN_FAULT, !decoder || c->fit != TRAP_OTHER);
	ck_assert_int_eq(in.doubtful, !decoder || c->fit == TRAP_UNDECIDED);
	arena_free(t.arena);
	report_free(r);
	image_close(img);
	build_elf_free(b);
}
END_TEST

/* aarch64's records: what the syndrome of the last fault of memory says.  trap 0: it says nothing of one. */
START_TEST(syndrome)
{
	static const struct { uint32_t before, magic, size; uint64_t esr; int trap; unsigned error; bool no_trap; } says[] = {
		{ 0, 0x45535201, 16, 0x92000047, TRAP_PAGE, 2, false },      /* a write, nothing is mapped */
		{ 0, 0x45535201, 16, 0x9200000f, TRAP_PAGE, 1, false },      /* a read that is not allowed */
		{ 0, 0x45535201, 16, 0x82000006, TRAP_PAGE, 16, false },     /* an instruction */
		{ 0, 0x45535201, 16, 0x92000061, TRAP_ALIGNMENT, 2, false },
		{ 0, 0x45535201, 16, 0x8a000000, TRAP_ALIGNMENT, 0, false }, /* of pc */
		{ 0, 0x45535201, 16, 0x56000000, 0, 0, false },              /* svc */
		{ 0x53564501, 0x45535201, 16, 0x92000047, TRAP_PAGE, 2, false },
		{ 0x53564501, 0, 0, 0, 0, 0, true },
		{ 0, 0, 0, 0, 0, 0, true },
		{ 0, 0x45535201, 4, 0x92000047, 0, 0, false },               /* sizes that cannot be */
		{ 0, 0x12345678, 8000, 0, 0, 0, false },
	};
	__auto_type c = &says[_i];
	const struct kind *k = &kinds[0];
	while (strcmp(k->abi, "aarch64"))
		k++;
	struct build_elf *b = with_code(k);
	uint8_t *at = build_elf_memory(b, STACK, 0x4000, 3) + (SP - STACK) + CONTEXT, *record = at + 288 + 528;
	put_context(b, at, k, CODE + 8, SP + 0x1800);
	if (c->before) {
		build_elf_put(b, record, 4, c->before);
		build_elf_put(b, record + 4, 4, 32);
		record += 32;
	}
	build_elf_put(b, record, 4, c->magic);
	build_elf_put(b, record + 4, 4, c->size);
	build_elf_put(b, record + 8, 8, c->esr);
	struct image *img = build_elf_open(b);
	struct signal_frame f;
	ck_assert_int_eq(signal_frame_next(img, build_elf_first(img), 0, &f), 0);
	ck_assert_int_eq(f.trapped, c->trap != 0);
	ck_assert_int_eq(f.trap, c->trap);
	ck_assert_uint_eq(f.error, c->error);
	ck_assert_int_eq(f.no_trap, c->no_trap);
	image_close(img);
	build_elf_free(b);
}
END_TEST

/* aarch64, at what is no system call: was it a fault?  no_trap: Linux would have kept one, if that wrote the core (siginfo). */
START_TEST(arm_origin)
{
	static const struct { int last; addr_t addr; bool no_trap, siginfo; unsigned trap; enum origin origin; int signo, code; } ways[] = {
		{ SIGSEGV, 0x1234, true, false, 0, ORIGIN_FAULT, SIGSEGV, 1 },
		{ SIGSEGV, 0, true, false, 0, ORIGIN_UNTOLD, SIGSEGV, 0 },
		{ SIGSEGV, CODE, true, false, 0, ORIGIN_UNTOLD, SIGSEGV, 0 },        /* which cannot be written to */
		{ SIGSEGV, STACK + 8, true, false, 0, ORIGIN_OUTSIDE, SIGSEGV, SI_TKILL },
		{ SIGSEGV, 0, false, true, 0, ORIGIN_UNTOLD, SIGSEGV, 0 },
		{ SIGSEGV, 0, true, true, 0, ORIGIN_OUTSIDE, SIGSEGV, SI_TKILL },
		{ SIGSEGV, 0x1234, true, true, 0, ORIGIN_OUTSIDE, SIGSEGV, SI_TKILL },
		{ SIGABRT, 0x1234, true, false, 0, ORIGIN_FAULT, SIGSEGV, 1 },
		{ SIGABRT, 0, true, false, 0, ORIGIN_OUTSIDE, SIGABRT, SI_TKILL },
		{ SIGABRT, 0x1234, false, true, TRAP_PAGE, ORIGIN_FAULT, SIGSEGV, 1 },
		{ SIGBUS, 0x1234, false, true, TRAP_PAGE, ORIGIN_FAULT, SIGBUS, 2 },
		{ SIGILL, 0x1234, false, true, TRAP_PAGE, ORIGIN_FAULT, SIGILL, 1 },
	};
	__auto_type c = &ways[_i];
	struct build_elf *b = build_elf_new("aarch64");
	build_elf_thread(b, 101, CODE, SP);
	build_elf_prpsinfo(b, 100, 1, 0, "python", "python x.py");
	build_elf_load(b, CODE, A64_READS, 12, 5);
	memset(build_elf_memory(b, STACK, 0x2000, 3), 0, 0x2000);
	if (c->siginfo)
		build_elf_signal_from(b, c->last, -6, 100, 0);
	struct image *img = build_elf_open(b);
	struct target t = { .img = img, .arena = arena_new() };
	struct report *r = report_new();
	struct signal_frame f = { .regs = { .pc = CODE + 8, .sp = SP, .known = UINT64_MAX }, .trapped = c->trap != 0, .trap = c->trap, .no_trap = c->no_trap, .addr = c->addr };
	f.regs.value[0] = 0x1234;
	struct interrupted in = { 0 };
	ck_assert_int_eq(handler_origin(&t, r, &f, 101, c->last, &in), c->origin);
	ck_assert_int_eq(in.signo, c->signo);
	ck_assert_int_eq(in.code, c->code);
	arena_free(t.arena);
	report_free(r);
	image_close(img);
	build_elf_free(b);
}
END_TEST

/* Code that is not at hand, and where no code is: x86 keeps in rcx where a system call returns to, and what it was given is still there. */
START_TEST(sending)
{
	static const struct { uint64_t rcx, rax, arg[3]; bool call; enum sends sends; bool nowhere; } ways[] = {
		{ 8, 0, { 100, 101, 6 }, false, SENDS_NO, true },
		{ 8, 0, { 100, 101, 6 }, true, SENDS_YES }, { 8, 0, { 100, 6, 0 }, true, SENDS_YES }, { 10, 0, { 100, 101, 6 }, true, SENDS_YES },
		{ 8, 0, { 100, 102, 6 }, true, SENDS_NO }, { 8, (uint64_t)-4, { 100, 101, 6 }, true, SENDS_NO }, { 7, 0, { 5, 0, 6 }, false, SENDS_NO },
	};
	struct build_elf *b = build_elf_new("x86_64");
	build_elf_thread(b, 101, CODE, SP);
	if (!ways[_i].nowhere) {
		build_elf_file(b, CODE, CODE + 0x1000, 0, "/usr/lib/libx.so");
		build_elf_absent(b, CODE, 0x1000, 5);
	}
	struct image *img = build_elf_open(b);
	struct regs regs = { .pc = CODE + 8, .sp = SP, .known = 0x1ffff };
	regs.value[2] = CODE + ways[_i].rcx;
	regs.value[0] = ways[_i].rax;
	for (int i = 0; i < 3; i++)
		regs.value[(const int[]){ 5, 4, 1 }[i]] = ways[_i].arg[i];
	ck_assert_int_eq(sending_in_call(img, &regs), ways[_i].call);
	ck_assert_int_eq(sending_to(img, &regs, 100, 101, 6), ways[_i].sends);
	ck_assert_int_eq(sending_to(img, &regs, -1, 101, 6), SENDS_UNKNOWN);
	image_close(img);
	build_elf_free(b);
}
END_TEST

/* A frame that a handler left behind: below the stack pointer, on a stack of its own; one register is another; none is there. */
START_TEST(returned)
{
	enum { LARGE = 1 << 21, HOLE = 0x10000000, HOLE_SIZE = 1 << 30, FAR = 0x60000000 /* behind more than is searched */ };
	static const struct { addr_t at; int reg; bool found; unsigned kind; } ways[] = {
		{ SP - 0x900, -1, true, 0 }, { DATA + 0x200, -1, true, 0 }, { DATA + (1 << 20) - 0x80, -1, true, 0 }, { FAR + 0x200, -1, true, 0 }, { SP - 0x900, 72, false, 0 }, { SP - 0x900, 128, false, 0 }, { 0, -1, false, 0 },
		{ SP - 0x900, -1, true, 3 }, { SP - 0x900, 20, false, 3 }, { SP - 0x900, -1, true, 5 }, { SP - 0x900, 68, false, 5 },
	};
	const struct kind *k = &kinds[ways[_i].kind];
	struct build_elf *b = build_elf_new(k->abi);
	build_elf_thread(b, 100, CODE + 8, SP);
	build_elf_reg(b, ways[_i].kind == 0 ? "rdi" : ways[_i].kind == 3 ? "edi" : "r5", 0x777);
	uint8_t *stack = build_elf_memory(b, STACK, 0x2000, 3), *data = build_elf_memory(b, DATA, LARGE, 3), *far = build_elf_memory(b, FAR, 0x1000, 3);
	build_elf_absent(b, HOLE, HOLE_SIZE, 3);
	memset(data, 0x55, LARGE);
	uint8_t *at = !ways[_i].at ? NULL : ways[_i].at >= FAR ? far + (ways[_i].at - FAR) : ways[_i].at >= DATA ? data + (ways[_i].at - DATA) : stack + (ways[_i].at - STACK);
	if (ways[_i].at >= DATA)
		memset(at - 0x40, 0, 0x180);
	if (ways[_i].at)
		put_context(b, at, k, CODE + 8, SP);
	if (ways[_i].reg >= 0)
		build_elf_put(b, at + ways[_i].reg, k->width, CODE + 9);
	struct image *img = build_elf_open(b);
	struct signal_frame f;
	ck_assert_int_eq(handler_returned(img, build_elf_first(img), &f), ways[_i].found);
	if (ways[_i].found)
		ck_assert_uint_eq(f.at, ways[_i].at);
	image_close(img);
	build_elf_free(b);
}
END_TEST

/* Oldest first, innermost last; the crash is at 0x10.  A function of Python is no handler of the kernel's. */
START_TEST(handler_name)
{
	static const struct { const char *above[2]; bool python[2]; const char *note, *module; } cases[] = {
		{ { "on_fault", "abort" }, { 0 }, "on_fault ran then; the process ended by SIGABRT" },
		{ { "go", "abort" }, { true }, "a signal handler, which left no frame, ran then; the process ended by SIGABRT" },
		{ { "go", "on_fault" }, { true }, "on_fault ran then; the process ended by SIGABRT" },
		{ { "", "PyObject_Call" }, { 0 }, "a signal handler ran then; the process ended by SIGABRT" },
		{ { "", "abort" }, { 0 }, "a signal handler in libhandlers.so ran then; the process ended by SIGABRT", "/x/libhandlers.so" },
		{ { "", "abort" }, { 0 }, "a signal handler in python3.9 ran then; the process ended by SIGABRT", "/usr/bin/python3.9" },
		{ { "", "abort" }, { 0 }, "a signal handler ran then; the process ended by SIGABRT", "/usr/lib/libc.so.6" },
		{ { "__kernel_sigreturn", "on_fault" }, { 0 }, "on_fault ran then; the process ended by SIGABRT" },
		{ { "on_fault.part.0", "pthread_kill@@GLIBC_2.34" }, { 0 }, "on_fault ran then; the process ended by SIGABRT" },
		{ { "abort.cold", "" }, { 0 }, "a signal handler, which left no frame, ran then; the process ended by SIGABRT" },
		{ { "on_fault", "likely" }, { 0 }, "a signal handler ran then; the process ended by SIGABRT" },
	};
	struct report *r = report_new();
	struct report_frame frames[3] = { { .function = STR("work"), .pc = 0x10 } };
	const struct report_frame *list[3] = { &frames[0], &frames[1], &frames[2] };
	for (size_t i = 0; i < 2; i++) {
		frames[i + 1].function = str_of(cases[_i].above[i]);
		frames[i + 1].python = cases[_i].python[i];
		frames[i + 1].likely = !strcmp(cases[_i].above[i], "likely");
		frames[i + 1].signal = strstr(cases[_i].above[i], "sigreturn");
		frames[i + 1].pc = frames[i + 1].python ? 0 : 0x20 + i;
	}
	if (cases[_i].module)
		frames[1].module = str_of(cases[_i].module);
	struct report_thread th = { .tid = 100 };
	report_fold(r, list, 3, &th.runs, &th.n_runs);
	struct image_facts facts = { .pid = 100 };
	struct interrupted in = { .signo = SIGSEGV, .code = 1, .regs = { .pc = 0x10 }, .sender_pid = -1, .sender_uid = -1 };
	r->verdict.signal.name = STR("SIGABRT");
	handler_said(r, &facts, &in, &th);
	ck_assert_uint_eq(r->verdict.notes.n, 1);
	CLEANUP(cleanup_free) char *note = xasprintf(STR_FMT, STR_ARG(r->verdict.notes.p[0].text));
	ck_assert_str_eq(note, cases[_i].note);
	ck_assert(!r->verdict.signal.code_unknown && r->verdict.signal.code_name.len);
	in.outside = true;
	handler_said(r, &facts, &in, &th);
	ck_assert(r->verdict.signal.code_unknown && !r->verdict.signal.code_name.len && r->verdict.signal.sender_pid == -1);
	CLEANUP(cleanup_free) char *unasked = xasprintf(STR_FMT, STR_ARG(handler_sender(r, &in)));
	ck_assert_str_eq(unasked, "SIGSEGV from outside (the sender is not in the core)");
	in.maybe_own = true;
	CLEANUP(cleanup_free) char *either = xasprintf(STR_FMT, STR_ARG(handler_sender(r, &in)));
	ck_assert_str_eq(either, "SIGSEGV from another thread of the process or from outside (the sender is not in the core)");
	in.maybe_own = false;
	in.sender_known = true;
	in.sender_pid = 5;
	in.sender_uid = 7;
	CLEANUP(cleanup_free) char *sent = xasprintf(STR_FMT, STR_ARG(handler_sender(r, &in)));
	ck_assert_str_eq(sent, "SIGSEGV sent by pid 5 (uid 7)");
	report_free(r);
}
END_TEST

/* Oldest first; what was interrupted is at 0x10, and 0x20 is the handler. */
START_TEST(in_raise)
{
	static const struct { const char *f[4]; bool python[4], is; } cases[] = {
		{ { "main", "abort", "raise", "on_abort" }, { 0 }, true },
		{ { "raise", "__restore_sigs", "__kernel_vsyscall", "on_abort" }, { 0 }, true },
		{ { "main", "work", "read", "raise" }, { 0 }, false },
		{ { "main", "abort", "raise@@GLIBC_2.2.5", "on_abort" }, { 0 }, true },
		{ { "main", "abort", "raise.part.0", "on_abort" }, { 0 }, true },
		{ { "main", "raise", "read", "on_abort" }, { false, true }, false },
	};
	struct report *r = report_new();
	struct report_frame frames[4] = { { 0 } };
	const struct report_frame *list[4] = { &frames[0], &frames[1], &frames[2], &frames[3] };
	for (size_t i = 0; i < 4; i++) {
		frames[i].function = str_of(cases[_i].f[i]);
		frames[i].python = cases[_i].python[i];
		frames[i].pc = i == 2 ? 0x10 : 0x20 + i;
	}
	struct report_thread th = { .tid = 100 };
	report_fold(r, list, 4, &th.runs, &th.n_runs);
	ck_assert_int_eq(handler_in_raise(&th, 0x10), cases[_i].is);
	report_free(r);
}
END_TEST

/* Innermost first, up to a Python frame; the crash is at 0x20, the first one. */
START_TEST(ended_itself)
{
	static const struct { const char *f[10], *chain; bool panicked; unsigned searched; /* from which on frames were looked for on the stack */ const char *sanitizer; } cases[] = {
		{ { "raise", "abort", "__sanitizer::Abort", "__sanitizer::Die", "__asan::ScopedInErrorReport::~ScopedInErrorReport", "__asan::ReportGenericError",
		    "__asan_report_load1", "work" }, "abort() <- __asan_report_load1 <- work", .sanitizer = "AddressSanitizer" },
		{ { "raise", "abort", "__sanitizer::Abort", "__sanitizer::Die", "__ubsan_handle_add_overflow_abort", "work" },
		  "abort() <- __ubsan_handle_add_overflow_abort <- work", .sanitizer = "UndefinedBehaviorSanitizer" },
		{ { "raise", "abort", "__sanitizer::Abort", "__sanitizer::Die", "other", "__asan_report_load1" }, "abort() <- other <- __asan_report_load1", .sanitizer = "a sanitizer" },
		{ { "raise", "abort", "work", "__sanitizer::Abort" }, "abort() <- work <- __sanitizer::Abort" },
		{ { "raise", "__sanitizer::Abort" }, "raise()", .sanitizer = "a sanitizer" },
		{ { "raise", "abort", "__stack_chk_fail", "smashed", "left", "over" }, "abort() <- __stack_chk_fail <- smashed <- (likely) left <- over", false, 4 },
		{ { "__pthread_kill_implementation", "raise", "abort", "work", "run" }, "abort() <- work <- run" },
		{ { "__pthread_kill_implementation.constprop.0", "raise@@GLIBC_2.2.5", "__GI_abort.cold", "work.isra.0" }, "abort() <- work" },
		{ { "raise", "abort", "_Py_FatalErrorFunc.cold", "PyMem_Free.localalias" }, "abort() <- _Py_FatalErrorFunc <- PyMem_Free" },
		{ { "read", "work" }, NULL },
		{ { "__pthread_kill_implementation", "gsignal", "work" }, "raise() <- work" },
		{ { "gsignal", "abort", "std::sys::pal::unix::abort_internal", "std::process::abort", "std::panicking::panic_with_hook", "__rustc::rust_begin_unwind",
		    "core::panicking::panic_fmt", "core::option::unwrap_failed", "shop::total" }, "abort() <- core::option::unwrap_failed <- shop::total", true },
		{ { "raise", "abort", "std::sys_common::backtrace::__rust_end_short_backtrace", "rust_begin_unwind", "core::panicking::panic_nounwind_fmt",
		    "core::panicking::panic_cannot_unwind", "go_on" }, "abort() <- core::panicking::panic_cannot_unwind <- go_on", true },
		{ { "raise", "abort", "std::process::abort", "give_up", "std::panicking::try" }, "abort() <- give_up <- std::panicking::try", false },
		{ { "raise", "abort", "std::sys::pal::unix::abort_internal", "std::process::abort", "std::panicking::catch_unwind::do_call", "f" },
		  "abort() <- std::panicking::catch_unwind::do_call <- f", false },
		{ { "raise", "abort", "std::process::abort", "std::panicking::try", "f" }, "abort() <- std::panicking::try <- f", false },
		{ { "raise", "abort", "work", "std::panicking::begin_panic" }, "abort() <- work <- std::panicking::begin_panic", false },
		{ { "read", "rust_panic" }, NULL, false },
	};
	struct report *r = report_new();
	struct report_frame frames[11] = { { .function = STR("go"), .python = true } };
	const struct report_frame *list[11] = { &frames[0] };
	size_t n = 1;
	for (size_t k = 10; k-- > 0;)
		if (cases[_i].f[k]) {
			frames[n] = (struct report_frame){ .function = str_of(cases[_i].f[k]), .pc = 0x20 + k, .module = STR("/usr/lib/libpython3.so") };
			frames[n].found_by = cases[_i].searched && k >= cases[_i].searched ? "scan" : "cfi";
			list[n] = &frames[n];
			n++;
		}
	struct report_thread th = { .tid = 100 };
	report_fold(r, list, n, &th.runs, &th.n_runs);
	const struct str chain = abort_chain(r, &th, 0x20);
	ck_assert_msg(cases[_i].chain ? str_is(chain, cases[_i].chain) : !chain.s, STR_FMT, STR_ARG(chain));
	ck_assert_int_eq(abort_panicked(&th, 0x20), cases[_i].panicked);
	const char *sanitizer = abort_sanitizer(&th, 0x20);
	ck_assert_msg(cases[_i].sanitizer ? sanitizer && !strcmp(sanitizer, cases[_i].sanitizer) : !sanitizer, "%s", sanitizer);
	report_free(r);
}
END_TEST

/* i386 makes all system calls in one place: the handler's own, and the one that the signal came in. */
START_TEST(same_place)
{
	struct report *r = report_new();
	struct report_frame frames[] = { { .function = STR("sleep"), .pc = 0x30 }, { .function = STR("vsyscall"), .pc = 0x10 },
					 { .function = STR("sigreturn"), .pc = 0x20, .signal = true }, { .function = STR("raise"), .pc = 0x40 }, { .function = STR("vsyscall"), .pc = 0x10 } };
	const struct report_frame *list[5];
	for (size_t i = 0; i < 5; i++)
		list[i] = &frames[i];
	struct report_thread th = { .tid = 100 };
	report_fold(r, list, 5, &th.runs, &th.n_runs);
	struct inward w = inward_from(&th, 0x10);
	ck_assert_ptr_eq(inward_next(&w), &frames[4]);
	w = inward_interrupted(&th, 0x10);
	ck_assert_ptr_eq(inward_next(&w), &frames[1]);
	ck_assert(!handler_in_raise(&th, 0x10));
	th.handled = true;
	w = inward_from(&th, 0x10);
	ck_assert_ptr_eq(inward_next(&w), &frames[1]);
	w = inward_from(&th, 0x40);
	ck_assert_ptr_eq(inward_next(&w), &frames[3]);
	w = inward_from(&th, 0x77);
	ck_assert_ptr_eq(inward_next(&w), &frames[4]);
	report_free(r);
}
END_TEST

/* One thing is wrong: it is no signal frame (0), or one whose siginfo is left over from something else (1). */
static const struct { int offset; uint64_t value; size_t width; int is_one; } wrong[] = {
	{ -40, 0x12345, 8, 0 },              /* uc_flags */
	{ -32, 0x31000, 8, 0 },              /* uc_link */
	{ 120, 0x7f0000000000, 8, 0 },       /* sp: no stack there */
	{ 144, 0x002b000000000023, 8, 0 },   /* cs */
	{ 160, 99, 8, 0 },                   /* no such trap */
	{ INFO, 0, 4, 1 }, { INFO, 65, 4, 1 }, /* si_signo */
	{ INFO + 4, 3, 4, 1 },               /* si_errno */
	{ INFO + 12, 1, 4, 1 },              /* padding */
	{ INFO + 16, 0x9999, 8, 1 },         /* si_addr is not that of the page fault */
};

START_TEST(no_frame)
{
	struct build_elf *b = build_elf_new("x86_64");
	build_elf_thread(b, 100, CODE, SP);
	uint8_t *stack = build_elf_memory(b, STACK, 0x4000, 3), *at = stack + (SP - STACK) + CONTEXT;
	put_context(b, at, &kinds[0], CODE + 8, SP + 0x800);
	put_info(b, at, &kinds[0], SIGSEGV, 1, 0x1234, 0);
	build_elf_put(b, at + wrong[_i].offset, wrong[_i].width, wrong[_i].value);
	struct image *img = build_elf_open(b);
	struct signal_frame f;
	ck_assert_int_eq(signal_frame_next(img, build_elf_first(img), 0, &f), wrong[_i].is_one ? 0 : ERR_ABSENT);
	if (wrong[_i].is_one)
		ck_assert(!f.has_info);
	image_close(img);
	build_elf_free(b);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("signal_frame");
	TCase *c = tcase_create("signal_frame");
	tcase_add_loop_test(c, frame, 0, COUNT(kinds));
	tcase_add_loop_test(c, spoilt, 0, COUNT(kinds));
	tcase_add_test(c, astray);
	tcase_add_test(c, no_return_code);
	tcase_add_loop_test(c, overflown, 0, 4);
	tcase_add_loop_test(c, origin, 0, COUNT(origins));
	tcase_add_loop_test(c, last_trap, 0, COUNT(fits));
	tcase_add_test(c, same_place);
	tcase_add_loop_test(c, syndrome, 0, 11);
	tcase_add_loop_test(c, arm_origin, 0, 12);
	tcase_add_loop_test(c, sending, 0, 7);
	tcase_add_loop_test(c, returned, 0, 11);
	tcase_add_loop_test(c, handler_name, 0, 11);
	tcase_add_loop_test(c, in_raise, 0, 6);
	tcase_add_loop_test(c, ended_itself, 0, 16);
	tcase_add_loop_test(c, no_frame, 0, COUNT(wrong));
	suite_add_tcase(s, c);
	return suite_run(s);
}
