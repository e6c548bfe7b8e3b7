/*
 * native: stacks built in memory, unwound by the real child; and a child that is killed, stopped, starved.  Real processes and gdb's
 * opinion of them: tests/live/native.py.
 */
#include <check.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "build_cfi.h"
#include "config.h"
#include "image/record.h"
#include "module/native.h"
#include "suite.h"

enum { CODE = 0x400000, STACK = 0x7ff00000, SIZE = 0x4000, RBP = 6, RSP = 7, RIP = 16 };

static uint8_t code[SIZE], stack[SIZE];

/* Calls end at 0x20, 0x30 and 0x200. */
static void set_code(void)
{
	memset(code, 0x90, sizeof code);
	for (const unsigned *at = (const unsigned[]){ 0x20, 0x30, 0x200, 0 }; *at; at++)
		memcpy(code + *at - 5, "\xe8\0\0\0", 5);
}

static int read_mem(void *ctx, uint64_t offset, void *buf, size_t len)
{
	memcpy(buf, (uint8_t *)ctx + offset, len);
	return 0;
}

static void put_word(uint64_t at, uint64_t v, unsigned width)
{
	for (unsigned i = 0; i < width; i++)
		stack[at - STACK + i] = (uint8_t)(v >> 8 * i);
}

static void put(uint64_t at, uint64_t v)
{
	put_word(at, v, 8);
}

/* Code without any table, and a stack. */
static struct image *image_of(struct abi abi, size_t threads)
{
	struct image *img = image_new(abi);
	struct segment seg = { .start = CODE, .size = SIZE, .prot = 1 | 4, .read = read_mem, .ctx = code };
	ck_assert_int_eq(image_add_segment(img, &seg, LAY_OVER), 0);
	seg = (struct segment){ .start = STACK, .size = SIZE, .prot = 3, .read = read_mem, .ctx = stack };
	ck_assert_int_eq(image_add_segment(img, &seg, LAY_OVER), 0);
	for (size_t i = 0; i < threads; i++) {
		struct thread *t = image_add_thread(img);
		t->tid = 100 + (pid_t)i;
	}
	image_settle(img);
	return img;
}

static struct image *image(size_t threads)
{
	return image_of((struct abi){ .machine = 62, .width = 8 }, threads);
}

static void registers(struct image *img, size_t i, uint64_t pc, uint64_t sp, uint64_t bp)
{
	const struct thread *t;
	image_threads(img, &t);
	struct regs *r = (struct regs *)&t[i].regs;
	r->pc = r->value[RIP] = pc;
	r->sp = r->value[RSP] = sp;
	r->value[RBP] = bp;
	r->known = 1u << RBP | 1u << RSP | 1u << RIP;
}

static struct modules *no_modules(struct image *img)
{
	struct modules *mods;
	struct search where = { .no_files = true };
	ck_assert_int_eq(modules_open(img, &where, &mods, NULL), 0);
	return mods;
}

static void pcs(const struct native_records *r, size_t i, struct sb *b)
{
	ck_assert(r->has[i]);
	for (size_t k = 0; k < r->stacks[i].n; k++) {
		const struct native_frame *f = &r->frames.p[r->stacks[i].first + k];
		sb_printf(b, "%s%lx%s%s%s", k ? " " : "", f->pc, f->bits & NATIVE_CALL ? "" : "!", f->bits & NATIVE_GUESS ? "g" : "", f->bits & NATIVE_SCAN ? "s" : "");
		sb_printf(b, "%s%s", f->bits & NATIVE_LINK ? "l" : "", f->bits & NATIVE_SIGNAL ? "S" : "");
		ck_assert(!(f->bits & NATIVE_TOP) == (k != 0));
	}
	sb_printf(b, ";%d", r->stacks[i].end);
}

/* The first thread's stack. */
static void want_stack(struct image *img, const char *what, const char *want)
{
	struct modules *mods = no_modules(img);
	struct native *n;
	const struct native_records *r;
	struct err err = { 0 };
	ck_assert_int_eq(native_start(img, mods, &native_default, &n, &err), 0);
	ck_assert_msg(native_finish(n, &r, &err) == 0, "%s", err.msg);
	struct sb b = { 0 };
	pcs(r, 0, &b);
	sb_char(&b, '\0');
	ck_assert_msg(strcmp(b.s, want) == 0, "%s: %s, not %s", what, b.s, want);
	sb_free(&b);
	native_close(n);
	modules_close(mods);
}

/* Stacks as words from STACK + 0x100 on; registers pc, sp, bp (offsets into the stack). */
static const struct {
	const char *what;
	uint64_t pc, sp, bp, word[12];
	const char *out;
} stacks[] = {
	{ "frame pointers, up to one that is 0", CODE + 0x10, 0x100, 0x110, { 1, 2, STACK + 0x130, CODE + 0x20, 3, 4, 0, 0 }, "400010! 400020g;4" },
	{ "a chain of three", CODE + 0x10, 0x100, 0x100, { STACK + 0x110, CODE + 0x20, STACK + 0x120, CODE + 0x30, 0, 0 }, "400010! 400020g 400030g;4" },
	{ "a chain that loops", CODE + 0x10, 0x100, 0x100, { STACK + 0x110, CODE + 0x20, STACK + 0x100, CODE + 0x30 }, "400010! 400020g 400030g;4" },
	{ "a caller where no code is", CODE + 0x10, 0x100, 0x100, { STACK + 0x110, 0x1234 }, "400010!;4" },
	{ "no frame pointer at all", CODE + 0x10, 0x100, 0xfffff, { 0 }, "400010!;4" },
	{ "a jump into nowhere, its return address on top", 0, 0x100, 0xfffff, { CODE + 0x200 }, "0! 400200s;4" },
	{ "and some words below it", 0x10, 0x100, 0xfffff, { 7, CODE + 0x300, CODE + 0x200 }, "10! 400200s;4" },
	{ "a call of nothing, by a function that keeps a frame pointer", 0, 0x100, 0x118, { CODE + 0x20, 5, 6, STACK + 0x130, CODE + 0x200 }, "0! 400020s 400200g;4" },
	{ "the same where its code is not at hand", 0, 0x100, 0x118, { CODE + 2, 5, 6, STACK + 0x130, CODE + 0x200 }, "0! 400002s 400200g;4" },
	{ "no call of nothing: by the frame pointer", 0, 0x100, 0x118, { CODE + 0x21, 5, 6, STACK + 0x130, CODE + 0x200 }, "0! 400200g;4" },
	{ "a word that no call left", 0, 0x100, 0xfffff, { CODE + 0x201 }, "0!;4" },
	{ "a frame pointer to what no call left: searched", CODE + 0x10, 0x100, 0x100, { STACK + 0x110, CODE + 0x21, 5, CODE + 0x30 }, "400010! 400030s;4" },
};

START_TEST(built)
{
	set_code();
	memset(stack, 0, sizeof stack);
	for (size_t k = 0; k < 12; k++)
		put(STACK + 0x100 + 8 * k, stacks[_i].word[k]);
	struct image *img = image(1);
	registers(img, 0, stacks[_i].pc, STACK + stacks[_i].sp, STACK + stacks[_i].bp);
	want_stack(img, stacks[_i].what, stacks[_i].out);
	image_close(img);
}
END_TEST

/* A new thread to which clone has just returned 0: whatever lies on its stack, it has no caller, and nothing is missing. */
START_TEST(unborn)
{
	static const struct { int64_t nr; uint64_t returned; const char *out; } cases[] = {
		{ 435, 0, "400010!;1" }, { 56, 0, "400010!;1" },
		{ 435, 4711, "400010! 400020g;4" }, { 56, 4711, "400010! 400020g;4" }, /* the one that made it */
		{ 202, 0, "400010! 400020g;4" }, { -1, 0, "400010! 400020g;4" },
	};
	set_code();
	memset(stack, 0, sizeof stack);
	put(STACK + 0x108, CODE + 0x20);
	struct image *img = image(1);
	registers(img, 0, CODE + 0x10, STACK + 0x100, STACK + 0x100);
	const struct thread *t;
	image_threads(img, &t);
	struct regs *r = (struct regs *)&t->regs;
	r->value[0] = cases[_i].returned;
	r->known |= 1;
	r->syscall.known = true;
	r->syscall.nr = cases[_i].nr;
	want_stack(img, "a new thread", cases[_i].out);
	image_close(img);
}
END_TEST

/*
 * Other machines.  Code: calls end at 0x20, 0x30 (ARM: in Thumb) and 0x200, and a handler returns to 0x400.  Registers: pc, sp, fp, lr;
 * words from STACK + 0x100 on, of the machine's width.
 */
enum { I386, I386_RT, AARCH64, ARM, X86_64, S390X };
static const struct kind {
	struct abi abi;
	int sp, fp, lr, pc;
	const char *call, *thumb, *sigreturn;
	unsigned n_sigreturn;
} kinds[] = {
	[I386] = { { 3, 4, false }, 4, 5, -1, 8, "\xff\x90\1\2\3\4", NULL, "\x58\xb8\x77\0\0\0\xcd\x80", 8 },
	[I386_RT] = { { 3, 4, false }, 4, 5, -1, 8, "\xff\x90\1\2\3\4", NULL, "\xb8\xad\0\0\0\xcd\x80", 7 },
	[AARCH64] = { { 183, 8, false }, 31, 29, 30, 32, "\0\0\0\x94", NULL, "\x68\x11\x80\xd2\1\0\0\xd4", 8 },
	[ARM] = { { 40, 4, false }, 13, 11, 14, 15, "\0\0\0\xeb", "\0\xf0\0\xf8", "\255\x70\xa0\xe3\0\0\0\xef", 8 },
	[X86_64] = { { 62, 8, false }, RSP, RBP, -1, RIP, "\xe8\0\0\0", NULL, "\x48\xc7\xc0\x0f\0\0\0\x0f\x05", 9 },
	[S390X] = { { 22, 8, true }, 15, 11, 14, -1, "\x0d\xe1", NULL, "", 0 },
};
static const struct {
	const char *what;
	int kind;
	uint64_t pc, sp, fp, lr, word[8];
	struct { uint16_t at; uint64_t v; } more[3]; /* further words */
	const char *out;
} others[] = {
	{ "i386: frame pointers", I386, CODE + 0x10, 0x100, 0x108, 0, { 1, 2, STACK + 0x118, CODE + 0x20, 3, 4, STACK + 0x700, CODE + 0x30 }, { { 0 } }, "400010! 400020g 400030g;4" },
	{ "i386: a jump into nowhere", I386, 0x10, 0x100, 0, 0, { CODE + 0x30 }, { { 0 } }, "10! 400030s;4" },
	{ "i386: searched", I386, CODE + 0x10, 0x100, 0x5, 0, { 1, CODE + 0x31, CODE + 0x30 }, { { 0 } }, "400010! 400030s;4" },
	{ "aarch64: link register, then frame pointers", AARCH64, CODE + 0x10, 0x100, 0x110, CODE + 0x30, { 1, 2, STACK + 0x120, CODE + 0x20, 0, 0 }, { { 0 } },
	  "400010! 400030g 400020g;4" },
	{ "aarch64: a link register that no call left: by the frame pointer", AARCH64, CODE + 0x10, 0x100, 0x110, CODE + 0x34, { 1, 2, 0, CODE + 0x20 }, { { 0 } },
	  "400010! 400020g;4" },
	{ "aarch64: signed return addresses", AARCH64, CODE + 0x10, 0x100, 0x110, 0xff, { 1, 2, 0, 0x7a000000000000 * 2 + CODE + 0x20 }, { { 0 } }, "400010! 400020g;4" },
	{ "aarch64: a jump into nowhere", AARCH64, 0x10, 0x100, 0, CODE + 0x30, { 0 }, { { 0 } }, "10! 400030l;4" },
	{ "aarch64: a call of nothing, by a function that keeps a frame pointer", AARCH64, 0, 0x100, 0x110, CODE + 0x30, { 1, 2, STACK + 0x120, CODE + 0x20 }, { { 0 } },
	  "0! 400030l 400020g;4" },
	{ "i386: a call of nothing, by a function that keeps a frame pointer", I386, 0, 0x100, 0x108, 0, { CODE + 0x20, 2, STACK + 0x118, CODE + 0x30 }, { { 0 } },
	  "0! 400020s 400030g;4" },
	{ "aarch64: searched", AARCH64, CODE + 0x10, 0x100, 3, 0, { 1, CODE + 0x24, CODE + 0x20 }, { { 0 } }, "400010! 400020s;4" },
	{ "aarch64: a handler's return", AARCH64, CODE + 0x10, 0x100, 0, CODE + 0x400, { 0 }, { { 0x100 + 312 + 31 * 8, STACK + 0x800 }, { 0x100 + 312 + 32 * 8, CODE + 0x50 }, { 0 } },
	  "400010! 400400!lS 400050!;4" },
	{ "arm: link register, then gcc's frame pointers", ARM, CODE + 0x10, 0x100, 0x104, CODE + 0x20, { 0, CODE + 0x200, 0, 0 }, { { 0 } }, "400010! 400020l 400200g;4" },
	{ "arm: clang's frame pointers, Thumb", ARM, CODE + 0x10, 0x100, 0x108, 0, { 0, 0, STACK + 0x118, CODE + 0x31, 0, 0, 0, CODE + 0x200 }, { { 0 } },
	  "400010! 400030g 400200g;4" },
	{ "arm: searched, twice", ARM, CODE + 0x10, 0x100, 3, 0, { 1, CODE + 0x30, CODE + 0x31, 7, CODE + 0x200 }, { { 0 } }, "400010! 400030s 400200s;4" },
	{ "arm: a Thumb address in ARM's code", ARM, CODE + 0x10, 0x100, 3, 0, { CODE + 0x21, CODE + 0x201 }, { { 0 } }, "400010!;4" },
	{ "arm: what a signal interrupted", ARM, CODE + 0x10, 0x100, 3, 0, { 1, CODE + 0x400 }, { { 0x108 + 160 + 13 * 4, STACK + 0x800 }, { 0x108 + 160 + 15 * 4, CODE + 0x50 }, { 0x800, CODE + 0x20 } },
	  "400010! 400400!sS 400050! 400020s;4" },
	{ "x86-64: what a signal interrupted", X86_64, CODE + 0x10, 0x100, 3, 0, { 1, CODE + 0x400 }, { { 0x110 + 40 + 15 * 8, STACK + 0x800 }, { 0x110 + 40 + 16 * 8, CODE + 0x50 }, { 0x808, CODE + 0x20 } },
	  "400010! 400400!sS 400050! 400020s;4" },
	{ "x86-64: a signal interrupted a call of nothing", X86_64, CODE + 0x10, 0x100, 3, 0, { 1, CODE + 0x400 },
	  { { 0x110 + 40 + 10 * 8, STACK + 0x810 }, { 0x110 + 40 + 15 * 8, STACK + 0x800 }, { 0x800, CODE + 0x20 } }, "400010! 400400!sS 0! 400020s;4" },
	{ "i386: what a signal interrupted, without siginfo", I386, CODE + 0x10, 0x100, 3, 0, { 1, CODE + 0x400 }, { { 0x108 + 4 + 28, STACK + 0x800 }, { 0x108 + 4 + 56, CODE + 0x50 }, { 0x804, CODE + 0x20 } },
	  "400010! 400400!sS 400050! 400020s;4" },
	{ "i386: and with it", I386_RT, CODE + 0x10, 0x100, 3, 0, { 1, CODE + 0x400 }, { { 0x108 + 160 + 28, STACK + 0x800 }, { 0x108 + 160 + 56, CODE + 0x50 }, { 0x804, CODE + 0x20 } },
	  "400010! 400400!sS 400050! 400020s;4" },
	{ "a machine whose calls are not known", S390X, CODE + 0x10, 0x100, 0, CODE + 0x20, { CODE + 0x20, CODE + 0x20 }, { { 0 } }, "400010!;4" },
};

START_TEST(machines)
{
	const struct kind *k = &kinds[others[_i].kind];
	set_code();
	memset(stack, 0, sizeof stack);
	memset(code, 0, sizeof code);
	const unsigned len = k->abi.machine == 3 ? 6 : k->abi.machine == 62 ? 5 : k->abi.machine == 22 ? 2 : 4;
	memcpy(code + 0x20 - len, k->call, len);
	memcpy(code + 0x200 - len, k->call, len);
	memcpy(code + 0x30 - len, k->thumb ? k->thumb : k->call, len);
	memcpy(code + 0x400, k->sigreturn, k->n_sigreturn);
	for (unsigned i = 0; i < 8; i++)
		put_word(STACK + 0x100 + i * k->abi.width, others[_i].word[i], k->abi.width);
	for (unsigned i = 0; i < 3 && others[_i].more[i].at; i++)
		put_word(STACK + others[_i].more[i].at, others[_i].more[i].v, k->abi.width);
	struct image *img = image_of(k->abi, 1);
	const struct thread *t;
	image_threads(img, &t);
	struct regs *r = (struct regs *)&t->regs;
	r->pc = others[_i].pc;
	r->sp = STACK + others[_i].sp;
	const struct { int reg; uint64_t v; } set[] = {
		{ k->pc, r->pc }, { k->sp, r->sp }, { k->fp, others[_i].fp < 0x100 ? others[_i].fp : STACK + others[_i].fp }, { k->lr, others[_i].lr },
	};
	for (size_t i = 0; i < sizeof set / sizeof *set; i++)
		if (set[i].reg >= 0) {
			r->value[set[i].reg] = set[i].v;
			r->known |= (uint64_t)1 << set[i].reg;
		}
	want_stack(img, others[_i].what, others[_i].out);
	image_close(img);
}
END_TEST

/*
 * Tables of a module in memory at CODE, damaged: code[] patched at `at` with n bytes; the thread's stack as words from 0x100 on.  Whatever
 * they say, what is found is bounded, and fallbacks are marked.
 */
enum { IN = CODE + CFI_CODE };
static const struct {
	const char *what;
	uint16_t at;
	uint8_t n;
	const char *patch;
	uint64_t pc, sp, fp, word[10];
	const char *out;
} damages[] = {
	{ "sound: by the table, up to where no code is", 0, 0, "", IN + 0x10, 0x100, 0, { 1, IN + 0x20, 2, IN + 0x30, 3, 0 }, "401010! 401020 401030;1" },
	{ "a caller outside of all code: searched, nothing found", 0, 0, "", IN + 0x10, 0x100, 0, { 1, 0x1234, 0 }, "401010!;2" },
	{ "and what is found instead", 0, 0, "", IN + 0x10, 0x100, 0, { 1, 0x1234, IN + 0x20, 5, IN + 0x30, 6, 0 }, "401010! 401020s 401030;1" },
	{ "found but not led on from: passed over", 0, 0, "", IN + 0x10, 0x100, 0, { 1, 0x1234, IN + 0x20, 5, 6, IN + 0x30, 7, IN + 0x20, 8, 0 }, "401010! 401030s 401020;1" },
	{ "a loop: one frame that is its own caller", CFI_FRAME + 24 + 17, 2, "\x0e\0", IN + 0x10, 0x108, 0, { IN + 0x10 }, "401010!;2" },
	{ "a return address of 0 is the end", 0, 0, "", IN + 0x10, 0x100, 0, { 1, IN + 0x20, 2, 0 }, "401010! 401020;1" },
	{ "the length of the first entry leads out of the table", CFI_FRAME, 4, "\xff\xff\xff\x7f", IN + 0x10, 0x100, 0, { 1, IN + 0x20, 2, IN + 0x30 },
	  "401010! 401020s 401030s;2" },
	{ "an entry that refers to no CIE", CFI_FRAME + 28, 4, "\x77\x77\0\0", IN + 0x10, 0x100, 0, { 1, IN + 0x20, 2, IN + 0x30 }, "401010! 401020s 401030s;2" },
	{ "a CIE of a version that is none", CFI_FRAME + 8, 1, "\x63", IN + 0x10, 0x100, 0, { 1, IN + 0x20, 2, IN + 0x30 }, "401010! 401020s 401030s;2" },
	{ "an augmentation without an end", CFI_FRAME + 9, 15, "zzzzzzzzzzzzzzzzz", IN + 0x10, 0x100, 0, { 1, IN + 0x20, 2, IN + 0x30 }, "401010! 401020s 401030s;2" },
	{ "instructions that run out: libdw takes that for an offset of -1, where a return address of 0 is", CFI_FRAME + 24 + 17, 7,
	  "\x0e\xff\xff\xff\xff\xff\xff", IN + 0x10, 0x100, 0, { 1, IN + 0x20, 2, IN + 0x30 }, "401010!;1" },
	{ "a frame that ends where no stack is", CFI_FRAME + 24 + 17, 6, "\x0e\xff\xff\xff\xff\x07", IN + 0x10, 0x100, 0, { 1, IN + 0x20, 2, IN + 0x30 },
	  "401010!;2" },
	{ "a header that leads nowhere", CFI_HDR + 4, 4, "\0\0\0\x7f", IN + 0x10, 0x100, 0, { 1, IN + 0x20, 2, IN + 0x30 }, "401010! 401020s 401030s;3" },
	{ "a header of another version", CFI_HDR, 1, "\x09", IN + 0x10, 0x100, 0, { 1, IN + 0x20, 2, IN + 0x30 }, "401010! 401020s 401030s;3" },
	{ "program headers past the end", 56, 2, "\xff\xff", IN + 0x10, 0x100, 0, { 1, IN + 0x20, 2, IN + 0x30 }, "401010! 401020s 401030s;4" },
	{ "a stack pointer that leads nowhere", 0, 0, "", IN + 0x10, 0x500000000, 0, { 1, IN + 0x20 }, "401010!;2" },
	{ "a stack pointer at the end of what there is", 0, 0, "", IN + 0x10, 0xfffffff0000fffff, 0, { 1, IN + 0x20 }, "401010!;2" },
};

START_TEST(damaged)
{
	cfi_module(code, NULL, 0);
	memset(stack, 0, sizeof stack);
	for (const unsigned *at = (const unsigned[]){ 0x20, 0x30, 0 }; *at; at++)
		memcpy(code + CFI_CODE + *at - 5, "\xe8\0\0\0", 5);
	memcpy(code + damages[_i].at, damages[_i].patch, damages[_i].n);
	for (size_t k = 0; k < 10; k++)
		put(STACK + 0x100 + 8 * k, damages[_i].word[k]);
	struct image *img = image(1);
	struct mapping *m = image_add_mapping(img); /* three that overlap: a list that lies */
	*m = (struct mapping){ .start = CODE, .end = CODE + SIZE, .prot = 5, .path = { (const uint8_t *)"/a.so", 5 } };
	m = image_add_mapping(img);
	*m = (struct mapping){ .start = CODE + 0x1000, .end = CODE + 2 * SIZE, .prot = 5, .path = { (const uint8_t *)"/b.so", 5 } };
	m = image_add_mapping(img);
	*m = (struct mapping){ .start = CODE, .end = CODE + 0x1000, .prot = 5, .path = { (const uint8_t *)"/c.so", 5 } };
	image_settle(img);
	registers(img, 0, damages[_i].pc, damages[_i].sp + (damages[_i].sp < SIZE ? STACK : 0), damages[_i].fp);
	want_stack(img, damages[_i].what, damages[_i].out);
	image_close(img);
}
END_TEST

static bool among(const addr_t *list, size_t n, addr_t at)
{
	for (size_t i = 0; i < n; i++)
		if (list[i] == at)
			return true;
	return false;
}

/* A record has what unwinding reads: of tables, which are copied, what of the copy was looked at; by pages, and on x86-64 by bytes. */
START_TEST(recorded)
{
	const bool exact = _i;
	cfi_module(code, NULL, 0);
	memset(stack, 0, sizeof stack);
	put(STACK + 0x108, IN + 0x20);
	struct image *img = image(1);
	*image_add_mapping(img) = (struct mapping){ .start = CODE, .end = CODE + SIZE, .prot = 5, .path = { (const uint8_t *)"/a.so", 5 } };
	image_settle(img);
	registers(img, 0, IN + 0x10, STACK + 0x100, 0);
	struct modules *mods = no_modules(img);
	struct record *rec = record_start(img);
	ck_assert_int_eq(native_read_all(img, mods, &native_default, exact), 0);
	record_stop(rec);
	const addr_t *list;
	size_t n = record_pages(rec, &list);
	ck_assert(among(list, n, CODE));
	ck_assert(among(list, n, (CODE + CFI_FRAME) & ~(addr_t)(RECORD_PAGE - 1)));
	ck_assert(among(list, n, STACK));
	ck_assert(!among(list, n, CODE + 0x3000));
	n = record_blocks(rec, &list);
	ck_assert(among(list, n, (CODE + CFI_FRAME + 24) & ~(addr_t)(RECORD_BLOCK - 1)));
#if defined(__x86_64__)
	ck_assert_int_eq(among(list, n, ((CODE + CFI_FRAME) & ~(addr_t)(RECORD_PAGE - 1)) + RECORD_PAGE - RECORD_BLOCK), !exact);
#endif
	record_free(rec);
	modules_close(mods);
	image_close(img);
}
END_TEST

static void start(size_t threads, const struct native_limits *lim, struct image **img, struct modules **mods, struct native **n)
{
	set_code();
	for (uint64_t at = 0x100; at + 0x10 < SIZE; at += 0x10) { /* a long chain of frame pointers */
		put(STACK + at, STACK + at + 0x10);
		put(STACK + at + 8, CODE + 0x20);
	}
	*img = image(threads);
	for (size_t i = 0; i < threads; i++)
		registers(*img, i, CODE + 0x10, STACK + 0x100, STACK + 0x100);
	*mods = no_modules(*img);
	ck_assert_int_eq(native_start(*img, *mods, lim, n, NULL), 0);
}

static void stop(struct image *img, struct modules *mods, struct native *n)
{
	native_close(n);
	modules_close(mods);
	image_close(img);
}

START_TEST(frames_limit)
{
	struct image *img;
	struct modules *mods;
	struct native *n;
	struct native_limits lim = native_default;
	lim.frames = 100;
	start(1, &lim, &img, &mods, &n);
	const struct native_records *r;
	ck_assert_int_eq(native_finish(n, &r, NULL), 0);
	ck_assert_uint_eq(r->stacks[0].n, 100);
	ck_assert_int_eq(r->stacks[0].end, NATIVE_LIMIT);
	stop(img, mods, n);
}
END_TEST

/* The registers of the innermost frames of the first thread, and of no other's. */
START_TEST(frame_registers)
{
	struct image *img;
	struct modules *mods;
	struct native *n;
	const struct native_records *r;
	const struct thread *t;
	start(2, &native_default, &img, &mods, &n);
	ck_assert_int_eq(native_finish(n, &r, NULL), 0);
	image_threads(img, &t);
	const struct native_regs *first = native_regs_of(r, 0, 0), *second = native_regs_of(r, 0, 1);
#if HAVE_DWFL_FRAME_REG
	ck_assert(first && second && !native_regs_of(r, 1, 0));
	ck_assert_uint_eq(first->known & (1u << RBP | 1u << RSP), 1u << RBP | 1u << RSP);
	ck_assert_uint_eq(first->value[RSP], t[0].regs.sp);
	ck_assert_uint_eq(first->value[RBP], t[0].regs.value[RBP]);
	ck_assert_uint_eq(second->value[RSP], r->frames.p[r->stacks[0].first + 1].sp);
	ck_assert(!native_regs_of(r, 0, NATIVE_REGS_FRAMES) && r->stacks[0].n > NATIVE_REGS_FRAMES);
#else
	ck_assert(!first && !second);
#endif
	stop(img, mods, n);
}
END_TEST

/* What a record of them may not be. */
START_TEST(register_records)
{
	struct sb b = { 0 };
	struct arena *a = arena_new();
	struct native_records r;
	const struct native_regs regs = { .frame = 3, .known = 1u << 6, .value = { [6] = 77 } };
	native_put_thread(&b, 1);
	native_put_regs(&b, &regs);
	ck_assert_int_eq(native_records_parse((struct blob){ (const uint8_t *)b.s, b.len }, 2, a, &r), 0);
	const struct native_regs *got = native_regs_of(&r, 1, 3);
	ck_assert(got && got->known == 1u << 6 && got->value[6] == 77 && !native_regs_of(&r, 0, 3) && !native_regs_of(&r, 1, 2));
	native_records_free(&r);
	b.s[b.len - 8 - 4]++; /* another register is said to follow */
	ck_assert_int_eq(native_records_parse((struct blob){ (const uint8_t *)b.s, b.len }, 2, a, &r), ERR_CORRUPT);
	native_records_free(&r);
	b.len = 0;
	native_put_regs(&b, &regs); /* of no thread */
	ck_assert_int_eq(native_records_parse((struct blob){ (const uint8_t *)b.s, b.len }, 2, a, &r), ERR_CORRUPT);
	native_records_free(&r);
	b.len = 0;
	native_put_thread(&b, 0);
	for (unsigned i = 0; i <= NATIVE_REGS_FRAMES; i++)
		native_put_regs(&b, &regs);
	ck_assert_int_eq(native_records_parse((struct blob){ (const uint8_t *)b.s, b.len }, 2, a, &r), ERR_CORRUPT);
	ck_assert_uint_eq(r.regs.n, NATIVE_REGS_FRAMES);
	native_records_free(&r);
	arena_free(a);
	sb_free(&b);
}
END_TEST

START_TEST(mini_records)
{
	struct sb b = { 0 };
	struct arena *a = arena_new();
	struct native_records r;
	native_put_mini(&b, 0x7000, ERR_LIMIT);
	ck_assert_int_eq(native_records_parse((struct blob){ (const uint8_t *)b.s, b.len }, 0, a, &r), 0);
	ck_assert(r.minis.n == 1 && r.minis.p[0].start == 0x7000 && r.minis.p[0].rc == ERR_LIMIT);
	native_records_free(&r);
	b.s[b.len - 1] = 0; /* no failure */
	ck_assert_int_eq(native_records_parse((struct blob){ (const uint8_t *)b.s, b.len }, 0, a, &r), ERR_CORRUPT);
	native_records_free(&r);
	arena_free(a);
	sb_free(&b);
}
END_TEST

/* A record is bounded by what a child that is as it should be can say: an empty place is six bytes here, and many more once it is read. */
START_TEST(too_many_records)
{
	struct arena *a = arena_new();
	struct native_records r;
	struct sb b = { 0 }, piece = { 0 };
	const struct native_place empty[NATIVE_PLACE_FUNCTIONS] = { 0 };
	const struct native_name name = { .pc = 1, .symbol = STR("f") };
	if (_i == 0)
		native_put_place(&piece, 1, empty, NATIVE_PLACE_FUNCTIONS);
	else if (_i == 1)
		native_put_name(&piece, &name);
	else
		native_put_mini(&piece, 1, ERR_LIMIT);
	const size_t most = _i == 0 ? NATIVE_PLACES_MAX / NATIVE_PLACE_FUNCTIONS : _i == 1 ? NATIVE_NAMES_MAX : NATIVE_MINIS_MAX;
	for (size_t i = 0; i < most; i++)
		sb_str(&b, sb_view(&piece));
	ck_assert_int_eq(native_records_parse((struct blob){ (const uint8_t *)b.s, b.len }, 0, a, &r), 0);
	native_records_free(&r);
	sb_str(&b, sb_view(&piece));
	ck_assert_int_eq(native_records_parse((struct blob){ (const uint8_t *)b.s, b.len }, 0, a, &r), ERR_CORRUPT);
	ck_assert_uint_eq(_i == 0 ? r.places.n : _i == 1 ? r.names.n : r.minis.n, _i == 0 ? NATIVE_PLACES_MAX : most);
	native_records_free(&r);
	sb_free(&piece);
	sb_free(&b);
	arena_free(a);
}
END_TEST

/* What a child does that somebody else has taken over: in place of a read of the code. */
static pid_t parent_pid;
static int taken_over_fd;

static int read_taken_over(void *ctx, uint64_t offset, void *buf, size_t len)
{
	if (getpid() == parent_pid)
		return read_mem(ctx, offset, buf, len);
	if (taken_over_fd >= 0) {
		(void)!write(taken_over_fd, "x", 1);
		return ERR_FAULT;
	}
	for (int fd = 0; fd < 100; fd++) /* it has nothing more to say, but does not end */
		close(fd);
	for (int forever = 0;;)
		syscall(SYS_futex, &forever, FUTEX_WAIT, 0, NULL, NULL, 0);
}

static struct image *image_taken_over(void)
{
	struct image *img = image_new((struct abi){ .machine = 62, .width = 8 });
	struct segment seg = { .start = CODE, .size = SIZE, .prot = 1 | 4, .read = read_taken_over, .ctx = code };
	parent_pid = getpid();
	set_code();
	ck_assert_int_eq(image_add_segment(img, &seg, LAY_OVER), 0);
	seg = (struct segment){ .start = STACK, .size = SIZE, .prot = 3, .read = read_mem, .ctx = stack };
	ck_assert_int_eq(image_add_segment(img, &seg, LAY_OVER), 0);
	image_add_thread(img);
	image_settle(img);
	registers(img, 0, CODE + 0x10, STACK + 0x100, STACK + 0x100);
	return img;
}

START_TEST(says_nothing_and_stays)
{
	struct native *n;
	const struct native_records *r;
	struct err err = { 0 };
	taken_over_fd = -1;
	struct image *img = image_taken_over();
	struct modules *mods = no_modules(img);
	ck_assert_int_eq(native_start(img, mods, &native_default, &n, NULL), 0);
	pid_t pid = native_pid(n);
	ck_assert_int_eq(native_finish(n, &r, &err), ERR_GONE);
	ck_assert(!r->done);
	ck_assert_int_eq(kill(pid, 0), -1);
	stop(img, mods, n);
}
END_TEST

/* Descriptors that this program was started with are nothing to it. */
START_TEST(inherited)
{
	struct native *n;
	const struct native_records *r;
	int fd[2];
	char byte;
	ck_assert_int_eq(pipe2(fd, O_NONBLOCK), 0);
	taken_over_fd = fd[1];
	struct image *img = image_taken_over();
	struct modules *mods = no_modules(img);
	ck_assert_int_eq(native_start(img, mods, &native_default, &n, NULL), 0);
	ck_assert_int_eq(native_finish(n, &r, NULL), 0);
	ck_assert_int_eq(read(fd[0], &byte, 1), -1);
	stop(img, mods, n);
	ck_assert_int_eq(write(fd[1], "x", 1), 1); /* here it is still open */
	close(fd[0]);
	close(fd[1]);
}
END_TEST

/* A child that is ended in the middle: said, and nothing hangs. */
START_TEST(killed)
{
	struct image *img;
	struct modules *mods;
	struct native *n;
	const struct native_records *r;
	struct err err = { 0 };
	start(20000, &native_default, &img, &mods, &n); /* more than the pipe holds: it waits for us */
	kill(native_pid(n), SIGKILL);
	ck_assert_int_eq(native_finish(n, &r, &err), ERR_GONE);
	ck_assert_msg(strstr(err.msg, "died of signal 9") != NULL, "%s", err.msg);
	ck_assert(!r->done);
	ck_assert_int_eq(native_finish(n, &r, &err), ERR_GONE); /* asked again: the same */
	stop(img, mods, n);
}
END_TEST

/* What comes to the child before anything of its own has run: it ends the child, and no handler of the parent's sees it. */
static volatile sig_atomic_t *handled; /* shared with the child */
static int early; /* 0: none */

static void parents_handler(int signo)
{
	*handled = signo;
	_exit(0);
}

static void send_early(void)
{
	if (early)
		raise(early);
}

static const struct { int signo; bool ignored; const char *said; } earlies[] = {
	{ SIGSEGV, false, "died of signal 11" }, { SIGABRT, false, "died of signal 6" }, { SIGTERM, false, "died of signal 15" }, { SIGUSR1, false, "died of signal 10" },
	{ SIGXCPU, false, "longer than" }, { SIGINT, false, NULL }, { SIGHUP, false, "died of signal 1" }, { SIGHUP, true, NULL }, { SIGXCPU, true, "longer than" },
};

START_TEST(signals_early)
{
	struct image *img;
	struct modules *mods;
	struct native *n;
	const struct native_records *r;
	struct err err = { 0 };
	sigset_t before, after;
	struct sigaction act = { .sa_handler = earlies[_i].ignored ? SIG_IGN : parents_handler }, now;
	handled = mmap(NULL, sizeof *handled, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ck_assert(handled != MAP_FAILED);
	ck_assert_int_eq(sigaction(earlies[_i].signo, &act, NULL), 0);
	sigemptyset(&before);
	sigaddset(&before, SIGUSR2); /* a caller's own, which is to stay */
	sigprocmask(SIG_SETMASK, &before, NULL);
	ck_assert_int_eq(pthread_atfork(NULL, NULL, send_early), 0);
	early = earlies[_i].signo;
	start(100, &native_default, &img, &mods, &n);
	early = 0;
	ck_assert_int_eq(native_finish(n, &r, &err), !earlies[_i].said ? 0 : earlies[_i].signo == SIGXCPU ? ERR_LIMIT : ERR_GONE);
	ck_assert_msg(!earlies[_i].said || strstr(err.msg, earlies[_i].said), "%s", err.msg);
	ck_assert_int_eq(*handled, 0);
	/* The parent's own are as they were. */
	ck_assert(sigaction(earlies[_i].signo, NULL, &now) == 0 && now.sa_handler == act.sa_handler);
	sigprocmask(SIG_SETMASK, NULL, &after);
	for (int s = 1; s < NSIG; s++)
		ck_assert_int_eq(sigismember(&after, s), sigismember(&before, s));
	stop(img, mods, n);
	munmap((void *)(uintptr_t)handled, sizeof *handled);
}
END_TEST

START_TEST(too_slow)
{
	struct image *img;
	struct modules *mods;
	struct native *n;
	const struct native_records *r;
	struct err err = { 0 };
	struct native_limits lim = native_default;
	lim.seconds = 1;
	start(20000, &lim, &img, &mods, &n);
	pid_t pid = native_pid(n);
	kill(pid, SIGSTOP);
	ck_assert_int_eq(native_finish(n, &r, &err), ERR_LIMIT);
	ck_assert_msg(strstr(err.msg, "longer than 1 s") != NULL, "%s", err.msg);
	ck_assert_int_eq(kill(pid, 0), -1); /* and it is gone */
	stop(img, mods, n);
}
END_TEST

START_TEST(starved)
{
	struct image *img;
	struct modules *mods;
	struct native *n;
	const struct native_records *r;
	struct err err = { 0 };
	struct native_limits lim = native_default;
	lim.memory = 0;
	lim.seconds = 100; /* it is not that of which it dies, on a busy machine either */
	start(10000, &lim, &img, &mods, &n);
	int rc = native_finish(n, &r, &err);
	ck_assert_msg(rc == ERR_GONE || rc == 0, "%d %s", rc, err.msg); /* it may have had enough already */
	stop(img, mods, n);
}
END_TEST

START_TEST(nobody_asks)
{
	struct image *img;
	struct modules *mods;
	struct native *n;
	start(20000, &native_default, &img, &mods, &n);
	pid_t pid = native_pid(n);
	stop(img, mods, n);
	ck_assert_int_eq(kill(pid, 0), -1);
}
END_TEST

START_TEST(other_machines)
{
	/* No unwinding for it, or no registers: said for each thread. */
	struct image *img = image_new((struct abi){ .machine = 0x1234, .width = 4, .big_endian = true });
	image_add_thread(img);
	image_settle(img);
	struct modules *mods = no_modules(img);
	struct native *n;
	const struct native_records *r;
	ck_assert_int_eq(native_start(img, mods, &native_default, &n, NULL), 0);
	ck_assert_int_eq(native_finish(n, &r, NULL), 0);
	ck_assert_int_eq(r->stacks[0].end, NATIVE_NO_REGS);
	ck_assert_uint_eq(r->stacks[0].n, 0);
	stop(img, mods, n);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("native");
	TCase *c = tcase_create("child");
	tcase_set_timeout(c, 120);
	tcase_add_loop_test(c, built, 0, COUNT(stacks));
	tcase_add_loop_test(c, unborn, 0, 6);
	tcase_add_loop_test(c, damaged, 0, COUNT(damages));
	tcase_add_loop_test(c, recorded, 0, 2);
	tcase_add_loop_test(c, machines, 0, COUNT(others));
	tcase_add_test(c, frames_limit);
	tcase_add_test(c, frame_registers);
	tcase_add_test(c, register_records);
	tcase_add_test(c, mini_records);
	tcase_add_loop_test(c, too_many_records, 0, 3);
	tcase_add_test(c, says_nothing_and_stays);
	tcase_add_test(c, inherited);
	tcase_add_test(c, killed);
	tcase_add_loop_test(c, signals_early, 0, COUNT(earlies));
	tcase_add_test(c, too_slow);
	tcase_add_test(c, starved);
	tcase_add_test(c, nobody_asks);
	tcase_add_test(c, other_machines);
	suite_add_tcase(s, c);
	return suite_run(s);
}
