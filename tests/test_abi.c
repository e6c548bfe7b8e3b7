/* src/image/abi: what each row of registers.def means, against figures from outside (elfutils' tables, real cores). */
#include "build_elf.h"
#include "suite.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

/* Sizes of elf_prstatus, pr_reg and elf_prpsinfo by elfutils 0.188 backends/ARCH_corenote.c. */
static const struct { const char *name; uint16_t machine; uint8_t width; bool big; size_t prstatus, at, gregs, prpsinfo; } rows[] = {
	{ "x86_64", 62, 8, false, 336, 112, 216, 136 },
	{ "i386", 3, 4, false, 144, 72, 68, 124 },
	{ "aarch64", 183, 8, false, 392, 112, 272, 136 },
	{ "aarch64_be", 183, 8, true, 392, 112, 272, 136 },
	{ "arm", 40, 4, false, 148, 72, 72, 124 },
	{ "armeb", 40, 4, true, 148, 72, 72, 124 },
	{ "ppc64le", 21, 8, false, 504, 112, 384, 136 },
	{ "ppc64", 21, 8, true, 504, 112, 384, 136 },
	{ "s390x", 22, 8, true, 336, 112, 216, 136 },
};

START_TEST(names_and_sizes)
{
	struct abi abi = { rows[_i].machine, rows[_i].width, rows[_i].big }, back;
	struct abi_notes n;
	ck_assert(abi_known(&abi));
	ck_assert_str_eq(abi_name(&abi), rows[_i].name);
	ck_assert(abi_by_name(rows[_i].name, &back));
	ck_assert(back.machine == abi.machine && back.width == abi.width && back.big_endian == abi.big_endian);
	ck_assert_int_eq(abi_notes(&abi, &n), 0);
	ck_assert_uint_eq(n.prstatus_size, rows[_i].prstatus);
	ck_assert_uint_eq(n.pr_reg, rows[_i].at);
	ck_assert_uint_eq(n.pr_reg_size, rows[_i].gregs);
	ck_assert_uint_eq(n.prpsinfo_size, rows[_i].prpsinfo);
}
END_TEST

START_TEST(unknown_machines_have_words)
{
	static const struct { struct abi abi; const char *name; } unknown[] = {
		{ { 243, 8, false }, "machine 243 (64-bit, little-endian)" },
		{ { 62, 4, false }, "machine 62 (32-bit, little-endian)" }, /* x32 */
		{ { 62, 8, true }, "machine 62 (64-bit, big-endian)" },
		{ { 22, 8, false }, "machine 22 (64-bit, little-endian)" },
	};
	for (size_t i = 0; i < COUNT(unknown); i++) {
		struct regs r = { .pc = 7 };
		struct abi_notes n;
		size_t at, width;
		ck_assert(!abi_known(&unknown[i].abi));
		ck_assert_str_eq(abi_name(&unknown[i].abi), unknown[i].name);
		ck_assert_int_eq(abi_regs(&unknown[i].abi, (struct blob){ 0 }, &r), ERR_UNSUPPORTED);
		ck_assert_uint_eq(r.pc, 7);
		ck_assert_int_eq(abi_notes(&unknown[i].abi, &n), ERR_UNSUPPORTED);
		ck_assert_int_eq(abi_regs_note(&unknown[i].abi, 0x401, (struct blob){ 0 }, &r), ERR_ABSENT);
		ck_assert(!abi_register(&unknown[i].abi, "rip", &at, &width));
	}
	struct abi abi = { 1, 2, true };
	ck_assert(!abi_by_name("vax", &abi));
	ck_assert_uint_eq(abi.machine, 1);
}
END_TEST

/*
 * pr_reg is filled with word number + 1 in each word of the machine's width; the expected values are word numbers + 1,
 * counted by hand in each machine's struct, so that a row with a wrong offset shows.
 */
static const struct {
	const char *name;
	uint64_t pc, sp, tls, arg[6];
	struct { int dwarf; uint64_t v; } some[4]; /* two or more DWARF registers; -1 ends */
} layouts[] = {
	{ "x86_64", 17, 20, 22, { 15, 14, 13, 8, 10, 9 }, { { 0, 11 }, { 15, 1 }, { 6, 5 }, { 3, 6 } } },
	{ "i386", 13, 16, 0, { 1, 2, 3, 4, 5, 6 }, { { 0, 7 }, { 4, 16 }, { 5, 6 }, { 45, 11 } } },
	{ "aarch64", 33, 32, 0, { 1, 2, 3, 4, 5, 6 }, { { 29, 30 }, { 30, 31 }, { 31, 32 }, { 19, 20 } } },
	{ "aarch64_be", 33, 32, 0, { 1, 2, 3, 4, 5, 6 }, { { 29, 30 }, { 30, 31 }, { 31, 32 }, { 0, 1 } } },
	{ "arm", 16, 14, 0, { 18, 2, 3, 4, 5, 6 }, { { 11, 12 }, { 14, 15 }, { 15, 16 }, { 0, 1 } } },
	{ "ppc64le", 33, 2, 14, { 35, 5, 6, 7, 8, 9 }, { { 1, 2 }, { 31, 32 }, { 0, 1 }, { 13, 14 } } },
	{ "ppc64", 33, 2, 14, { 35, 5, 6, 7, 8, 9 }, { { 1, 2 }, { 31, 32 }, { 0, 1 }, { 13, 14 } } },
	/* access registers 0 and 1 share word 18 (from 0), so the thread pointer reads as 0 << 32 | 19 */
	{ "s390x", 2, 18, 19, { 27, 6, 7, 8, 9, 10 }, { { 15, 18 }, { 0, 3 }, { 48, 0 }, { 49, 19 } } },
};

START_TEST(registers_are_where_they_should_be)
{
	struct abi abi;
	struct abi_notes n;
	struct regs r;
	uint8_t gregs[512];
	ck_assert(abi_by_name(layouts[_i].name, &abi));
	ck_assert_int_eq(abi_notes(&abi, &n), 0);
	for (size_t i = 0; i < n.pr_reg_size; i++)
		gregs[i] = (uint8_t)(i % abi.width == (abi.big_endian ? abi.width - 1u : 0) ? i / abi.width + 1 : 0);
	ck_assert_int_eq(abi_regs(&abi, (struct blob){ gregs, n.pr_reg_size }, &r), 0);
	ck_assert_uint_eq(r.pc, layouts[_i].pc);
	ck_assert_uint_eq(r.sp, layouts[_i].sp);
	ck_assert_uint_eq(r.tls, layouts[_i].tls);
	for (size_t i = 0; i < 6; i++)
		ck_assert_uint_eq(r.syscall.arg[i], layouts[_i].arg[i]);
	for (size_t i = 0; i < COUNT(layouts[_i].some); i++) {
		ck_assert(r.known >> layouts[_i].some[i].dwarf & 1);
		ck_assert_uint_eq(r.value[layouts[_i].some[i].dwarf], layouts[_i].some[i].v);
	}
	for (size_t len = 0; len < n.pr_reg_size; len++) { /* cut: nothing is set */
		struct regs cut = { .pc = 99 };
		ck_assert_int_eq(abi_regs(&abi, (struct blob){ gregs, len }, &cut), ERR_CORRUPT);
		ck_assert_uint_eq(cut.pc, 99);
	}
}
END_TEST

/* Is the thread in a system call, and in which?  Two registers are set, then perhaps a note is given. */
static const struct {
	const char *name, *reg[2];
	uint64_t v[2];
	uint32_t note, value;
	bool known;
	int64_t nr;
} calls[] = {
	{ "x86_64", { "orig_rax", "rax" }, { 202, 1 }, 0, 0, true, 202 },
	{ "x86_64", { "orig_rax", "rax" }, { UINT64_MAX, 1 }, 0, 0, true, -1 },
	{ "x86_64", { "orig_rax", "rax" }, { (uint64_t)-35, 1 }, 0, 0, true, -1 },
	{ "i386", { "orig_eax", "eax" }, { 240, 1 }, 0, 0, true, 240 },
	{ "i386", { "orig_eax", "eax" }, { 0xffffffff, 1 }, 0, 0, true, -1 },
	{ "aarch64", { "x8", "x0" }, { 98, 1 }, 0, 0, false, -1 },
	{ "aarch64", { "x8", "x0" }, { 98, 1 }, 0x404, 98, true, 98 },
	{ "aarch64_be", { "x8", "x0" }, { 98, 1 }, 0x404, 98, true, 98 },
	{ "aarch64", { "x8", "x0" }, { 98, 1 }, 0x404, 0xffffffff, true, -1 },
	{ "arm", { "r7", "orig_r0" }, { 240, 5 }, 0, 0, true, 240 },
	{ "arm", { "r7", "orig_r0" }, { 240, 0xffffffff }, 0, 0, false, -1 },
	{ "ppc64le", { "r0", "trap" }, { 221, 0xc00 }, 0, 0, true, 221 },
	{ "ppc64le", { "r0", "trap" }, { 221, 0x3000 }, 0, 0, true, 221 },
	{ "ppc64", { "r0", "trap" }, { 221, 0x300 }, 0, 0, true, -1 },
	{ "s390x", { "r1", "r2" }, { 1, 1 }, 0, 0, false, -1 },
	{ "s390x", { "r1", "r2" }, { 1, 1 }, 0x307, 0x200ee, true, 238 },
	{ "s390x", { "r1", "r2" }, { 1, 1 }, 0x307, 0, true, -1 },
};

START_TEST(system_calls)
{
	struct build_elf *b = build_elf_new(calls[_i].name);
	build_elf_thread(b, 1, 0x1000, 0x2000);
	for (size_t i = 0; i < 2; i++)
		build_elf_reg(b, calls[_i].reg[i], calls[_i].v[i]);
	if (calls[_i].note) {
		uint8_t desc[4];
		build_elf_put(b, desc, 4, calls[_i].value);
		build_elf_note(b, "LINUX", calls[_i].note, desc, 4);
	}
	struct image *img = build_elf_open(b);
	const struct thread *t;
	ck_assert_uint_eq(image_threads(img, &t), 1);
	ck_assert_int_eq(t->regs.syscall.known, calls[_i].known);
	ck_assert_int_eq(t->regs.syscall.nr, calls[_i].nr);
	ck_assert_uint_eq(t->regs.pc, 0x1000);
	ck_assert_uint_eq(t->regs.sp, 0x2000);
	image_close(img);
	build_elf_free(b);
}
END_TEST

static const struct { const char *name; uint64_t tls; } pointers[] = {
	{ "x86_64", 0x7ffff7d8a740 }, { "i386", 0xf7d8a740 }, { "aarch64", 0xffff8000123450 }, { "aarch64_be", 0xffff8000123450 }, { "arm", 0xb6f00c30 }, { "armeb", 0xb6f00c30 },
	{ "ppc64le", 0x7fffb7ff0123 }, { "ppc64", 0x7fffb7ff0123 }, { "s390x", 0x3ff8d8a7400 },
};

START_TEST(thread_pointers)
{
	struct build_elf *b = build_elf_new(pointers[_i].name);
	build_elf_thread(b, 1, 0, 0);
	build_elf_tls(b, pointers[_i].tls);
	struct image *img = build_elf_open(b);
	const struct thread *t;
	ck_assert_uint_eq(image_threads(img, &t), 1);
	ck_assert_uint_eq(t->regs.tls, pointers[_i].tls);
	image_close(img);
	build_elf_free(b);
}
END_TEST

START_TEST(notes_that_are_short_or_foreign)
{
	struct abi x86 = { 62, 8, false }, arm64 = { 183, 8, false }, i386 = { 3, 4, false };
	struct regs r = { .tls = 5, .syscall.nr = 7 };
	static const uint8_t some[64] = { 6 };
	ck_assert_int_eq(abi_regs_note(&x86, 0x401, (struct blob){ some, 64 }, &r), ERR_ABSENT);
	ck_assert_int_eq(abi_regs_note(&x86, 0, (struct blob){ some, 64 }, &r), ERR_ABSENT);
	ck_assert_int_eq(abi_regs_note(&arm64, 0x401, (struct blob){ some, 7 }, &r), ERR_CORRUPT);
	ck_assert_int_eq(abi_regs_note(&arm64, 0x404, (struct blob){ some, 3 }, &r), ERR_CORRUPT);
	r.value[45] = 7 << 3 | 3; /* gs: entry 7, which the note does not have */
	ck_assert_int_eq(abi_regs_note(&i386, 0x200, (struct blob){ some, 64 }, &r), ERR_ABSENT);
	ck_assert_uint_eq(r.tls, 5);
	ck_assert_int_eq(r.syscall.nr, 7);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("abi");
	TCase *t = tcase_create("abi");
	tcase_add_loop_test(t, names_and_sizes, 0, COUNT(rows));
	tcase_add_test(t, unknown_machines_have_words);
	tcase_add_loop_test(t, registers_are_where_they_should_be, 0, COUNT(layouts));
	tcase_add_loop_test(t, system_calls, 0, COUNT(calls));
	tcase_add_loop_test(t, thread_pointers, 0, COUNT(pointers));
	tcase_add_test(t, notes_that_are_short_or_foreign);
	suite_add_tcase(s, t);
	return suite_run(s);
}
