/* What a thread's last trap says by itself: its signal and code, and whether a division can have trapped. */
#include <check.h>
#include <signal.h>
#include <string.h>

#include "build_elf.h"
#include "config.h"
#include "inspect/instruction.h"
#include "inspect/trap.h"
#include "suite.h"

enum { CODE = 0x401000, STACK = 0x30000, AT = 0x31000, STATE = 0x31800, DATA = 0x50000, FILE_AT = 0x60000, REFUSING = 0x70000, SIZE = 0x1000 };

static struct image *image_of(struct build_elf *b)
{
	build_elf_thread(b, 100, CODE, AT);
	build_elf_load(b, CODE, "\x90\x90\x90\x90", 4, 5);
	memset(build_elf_memory(b, DATA, SIZE, 3), 0, SIZE);
	build_elf_absent(b, FILE_AT, SIZE, 3);
	build_elf_absent(b, REFUSING, SIZE, 1);
	build_elf_absent(b, REFUSING + SIZE, SIZE, 0);
	build_elf_file(b, CODE, CODE + SIZE, 0, "/usr/bin/python");
	build_elf_file(b, FILE_AT, FILE_AT + SIZE, 0, "/tmp/empty (deleted)");
	return build_elf_open(b);
}

/* error: 1 it was refused, 2 a write, 16 an instruction, 32 by a protection key.  A page that was never touched is not there, whatever its mapping allows. */
static const struct { unsigned trap; uint64_t error; addr_t addr; int signo, code; } traps[] = {
	{ TRAP_PAGE, 6, 0x99990, SIGSEGV, 1 },
	{ TRAP_PAGE, 7, CODE, SIGSEGV, 2 },
	{ TRAP_PAGE, 6, REFUSING + 5, SIGSEGV, 2 },
	{ TRAP_PAGE, 4, REFUSING + SIZE, SIGSEGV, 2 },
	{ TRAP_PAGE, 20, DATA, SIGSEGV, 2 },
	{ TRAP_PAGE, 37, DATA, SIGSEGV, 4 },
	{ TRAP_PAGE, 6, FILE_AT + 8, SIGBUS, 2 },
	{ TRAP_PAGE, 4, FILE_AT + 8, SIGBUS, 2 },
	{ TRAP_PAGE, 20, FILE_AT + 8, SIGSEGV, 2 },
	{ TRAP_PAGE, 6, FILE_AT + SIZE, SIGSEGV, 1 },
	{ TRAP_PAGE, 6, DATA, SIGSEGV, 1 }, /* mapped since, or a guard that madvise made */
	{ TRAP_DIVIDE, 0, 0, SIGFPE, 1 },
	{ TRAP_ILLEGAL, 0, 0, SIGILL, 2 },
	{ TRAP_PROTECTION, 0, 0, SIGSEGV, SI_KERNEL },
	{ TRAP_ALIGNMENT, 0, 0, SIGBUS, 1 },
	{ 1, 0, 0, SIGTRAP, 2 },
	{ 3, 0, 0, SIGTRAP, SI_KERNEL },
	{ 12, 0, 0, SIGBUS, SI_KERNEL },
	{ 2, 0, 0, 0, SI_KERNEL },
};

START_TEST(told_by)
{
	__auto_type c = &traps[_i];
	struct build_elf *b = build_elf_new("x86_64");
	struct image *img = image_of(b);
	const struct signal_frame f = { .trapped = true, .trap = c->trap, .error = c->error, .addr = c->addr };
	ck_assert_int_eq(trap_signal(img, &f), c->signo);
	ck_assert_int_eq(trap_code(img, &f, c->signo), c->code);
	image_close(img);
	build_elf_free(b);
}
END_TEST

/* The flags of all exceptions that ever were, and which of them are masked. */
static const struct { const char *abi; unsigned trap, control, status, mxcsr, magic; bool lost; int code; } floats[] = {
	{ "x86_64", 19, 0, 0, 0x1f80 & ~0x200u, 0, false, 14 },
	{ "x86_64", 19, 0, 0, (0x1f80 & ~0x200u) | 4 | 0x20, 0, false, FPE_FLTDIV },
	{ "x86_64", 19, 0, 0, (0x1f80 & ~0x80u) | 1 | 4, 0, false, FPE_FLTINV },
	{ "x86_64", 19, 0, 0, (0x1f80 & ~0x400u) | 8 | 0x20, 0, false, FPE_FLTOVF },
	{ "x86_64", 19, 0, 0, (0x1f80 & ~0x800u) | 0x10, 0, false, FPE_FLTUND },
	{ "x86_64", 19, 0, 0, (0x1f80 & ~0x1000u) | 0x20, 0, false, FPE_FLTRES },
	{ "x86_64", 16, 0x37b, 4, 0x1f80 | 1, 0, false, FPE_FLTDIV },
	{ "x86_64", 16, 0x37f, 4, 0, 0, false, 14 },
	{ "x86_64", 19, 0, 0, 4, 0, true, 14 },
	{ "i386", 19, 0, 0, (0x1f80 & ~0x200u) | 4, 0, false, FPE_FLTDIV },
	{ "i386", 19, 0, 0, (0x1f80 & ~0x200u) | 4, 0xffff, false, 14 }, /* no mxcsr */
	{ "i386", 16, 0x37b, 4, 0, 0xffff, false, FPE_FLTDIV },
};

START_TEST(which_float)
{
	__auto_type c = &floats[_i];
	const bool wide = strcmp(c->abi, "x86_64") == 0;
	struct build_elf *b = build_elf_new(c->abi);
	uint8_t *stack = build_elf_memory(b, STACK, 0x2000, 3), *state = stack + (STATE - STACK);
	memset(stack, 0, 0x2000);
	build_elf_put(b, stack + (AT - STACK) + (wide ? 184 : 76), wide ? 8 : 4, c->lost ? 0 : STATE);
	build_elf_put(b, state, 2, c->control);
	build_elf_put(b, state + (wide ? 2 : 4), 2, c->status);
	build_elf_put(b, state + (wide ? 24 : 136), 4, c->mxcsr);
	if (!wide)
		build_elf_put(b, state + 110, 2, c->magic);
	struct image *img = image_of(b);
	const struct signal_frame f = { .at = AT, .trapped = true, .trap = c->trap };
	ck_assert_int_eq(trap_signal(img, &f), SIGFPE);
	ck_assert_int_eq(trap_code(img, &f, SIGFPE), c->code);
	image_close(img);
	build_elf_free(b);
}
END_TEST

/* div and idiv of rdx:rax (dx:ax, ax) by rdi. */
#define BYTES(s) s, sizeof(s) - 1
static const struct { const char *bytes; size_t n; uint64_t rdx, rax, rdi; bool fits; } divisions[] = {
	{ BYTES("\xf7\xf7"), 0, 1, 0, false },
	{ BYTES("\xf7\xf7"), 0, 1000, 7, true },
	{ BYTES("\xf7\xf7"), 6, 0xffffffff, 7, true },
	{ BYTES("\xf7\xf7"), 7, 0, 7, false },
	{ BYTES("\xf7\xf7"), 0xffffffff00000000, 1000, 0xffffffff00000007, true },
	{ BYTES("\xf7\xff"), 0xffffffff, 0x80000000, 0xffffffff, false },  /* the least number by -1 */
	{ BYTES("\xf7\xff"), 0xffffffff, 0x80000001, 0xffffffff, true },
	{ BYTES("\xf7\xff"), 0xffffffff, 0x80000000, 1, true },
	{ BYTES("\xf7\xff"), 0, 0x80000000, 1, false },
	{ BYTES("\xf7\xff"), 0, 0x7fffffff, 1, true },
	{ BYTES("\xf7\xff"), 0, 0x80000000, 0xffffffff, true },
	{ BYTES("\xf7\xff"), 0, 0x80000001, 0xffffffff, false },
	{ BYTES("\x48\xf7\xff"), 0xffffffffffffffff, 0x8000000000000000, 0xffffffffffffffff, false },
	{ BYTES("\x48\xf7\xff"), 0xffffffffffffffff, 0x8000000000000000, 1, true },
	{ BYTES("\x48\xf7\xff"), 0xffffffffffffffff, (uint64_t)-1000, 7, true },
	{ BYTES("\x48\xf7\xff"), 0x4000000000000000, 0x8000000000000000, 0x8000000000000000, false },
	{ BYTES("\x48\xf7\xff"), 0x4000000000000000, 0x7fffffffffffffff, 0x8000000000000000, true },
	{ BYTES("\x48\xf7\xf7"), 7, 0, 8, true },
	{ BYTES("\x48\xf7\xf7"), 8, 0, 8, false },
	{ BYTES("\x66\xf7\xf7"), 0x30007, 1, 8, true },
	{ BYTES("\x40\xf6\xf7"), 99, 0x7ff, 8, true },
	{ BYTES("\x40\xf6\xf7"), 0, 0x800, 8, false },
};

START_TEST(division)
{
	__auto_type c = &divisions[_i];
	struct build_elf *of = build_elf_new("x86_64");
	build_elf_thread(of, 100, CODE, AT);
	build_elf_load(of, CODE, c->bytes, c->n, 5);
	build_elf_reg(of, "rdx", c->rdx);
	build_elf_reg(of, "rax", c->rax);
	build_elf_reg(of, "rdi", c->rdi);
	struct image *at = build_elf_open(of);
	const struct thread *t;
	ck_assert_uint_eq(image_threads(at, &t), 1);
	struct target target = { .img = at, .arena = arena_new() };
	struct report *r = report_new();
	struct instruction in;
	const int rc = instruction_at(at, &t->regs, false, 0, target.arena, &in);
	const struct signal_frame f = { .regs = t->regs, .trapped = true, .trap = TRAP_DIVIDE };
	if (HAVE_ZYDIS) {
		ck_assert_int_eq(rc, 0);
		ck_assert(in.divides && in.divisor_known);
		ck_assert_int_eq(in.quotient_fits, c->fits);
		ck_assert_int_eq(trap_fits(&target, r, &f), c->fits ? TRAP_OTHER : TRAP_FITS);
	} else {
		ck_assert_int_eq(rc, ERR_ABSENT);
	}
	arena_free(target.arena);
	report_free(r);
	image_close(at);
	build_elf_free(of);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("trap");
	TCase *c = tcase_create("trap");
	tcase_add_loop_test(c, told_by, 0, COUNT(traps));
	tcase_add_loop_test(c, which_float, 0, COUNT(floats));
	tcase_add_loop_test(c, division, 0, COUNT(divisions));
	suite_add_tcase(s, c);
	return suite_run(s);
}
