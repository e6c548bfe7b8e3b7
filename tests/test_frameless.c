/* native: the caller of a function that no table tells of and that makes no frame pointer; over a library in memory, unwound by the real child. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "build_cfi.h"
#include "build_so.h"
#include "module/native.h"
#include "suite.h"

enum { BIAS = 0x50000000, SP = 0x70000100, FP = 0x70000180, OUTER = SO_TEXT + 0x100, BASE = SO_TEXT + 0x180, LEAF = SO_TEXT + 0x200, OTHER = SO_TEXT + 0x300, STUB = SO_TEXT + 0x380,
	KEEPS = SO_TEXT + 0x280, AT = 0x10, SLOT = SO_DATA + 0xf00 };
/* Where calls end: of leaf, of another function, of leaf by a stub, of one that makes a frame pointer, of outer. */
enum { CALLS_LEAF = OUTER + 0x10, CALLS_OTHER = OUTER + 0x18, CALLS_STUB = OUTER + 0x20, CALLS_KEEPS = OUTER + 0x28, CALLS_OUTER = BASE + 0x20 };

static const struct so_symbol functions[] = {
	{ "outer", OUTER, 0x40, true, true }, { "base", BASE, 0x40, true, true }, { "leaf", LEAF, 0x40, true, true }, { "keeps", KEEPS, 0x40, true, true }, { "other", OTHER, 0x40, true, true },
};

/* pc: where it stands; words from the stack pointer on; the frame pointer leads to outer's frame, but where it is none. */
static const struct { const char *what; addr_t pc, word[3]; bool none; const char *out; } cases[] = {
	{ "on top", LEAF + AT, { CALLS_LEAF }, false, "leaf outer/s base/g" },
	{ "on top, by a stub", LEAF + AT, { CALLS_STUB }, false, "leaf outer/s base/g" },
	{ "below something else", LEAF + AT, { 7, CALLS_LEAF }, false, "leaf outer/s base/s" },
	{ "below something else, by a stub", LEAF + AT, { 7, 8, CALLS_STUB }, false, "leaf outer/s base/s" },
	{ "what another call left is passed over", LEAF + AT, { CALLS_OTHER, CALLS_LEAF }, false, "leaf outer/s base/s" },
	{ "no call of it is there: by the frame pointer", LEAF + AT, { CALLS_OTHER, 7 }, false, "leaf base/g" },
	{ "nor that: searched, and what there is", LEAF + AT, { CALLS_OTHER, 7 }, true, "leaf outer/s base/s" },
	{ "one that has made a frame pointer", KEEPS + AT, { CALLS_LEAF, CALLS_KEEPS }, false, "keeps base/g" },
	{ "one that has not made it yet", KEEPS + 1, { 7, CALLS_KEEPS }, false, "keeps outer/s base/s" },
};

static void put_call(const struct build_elf *b, uint8_t *file, addr_t end, addr_t to)
{
	file[end - 5] = 0xe8;
	build_elf_put(b, file + end - 4, 4, to - end);
}

/* Tables, as other functions have them: of 16 bytes of code that nothing runs. */
static void put_tables(const struct build_elf *b, uint8_t *file)
{
	enum { HDR = SO_TEXT + 0x800, FRAME = HDR + 16, CODE = SO_TEXT + 0x700, FDE = 24, PHDR = 56 };
	uint8_t *ph = file + 64 + file[56] * PHDR;
	file[56]++;
	build_elf_put(b, ph, 4, 0x6474e550); /* PT_GNU_EH_FRAME */
	build_elf_put(b, ph + 4, 4, 4);
	for (unsigned i = 8; i < 32; i += 8)
		build_elf_put(b, ph + i, 8, HDR);
	build_elf_put(b, ph + 32, 8, 16);
	build_elf_put(b, ph + 40, 8, 16);
	memcpy(file + HDR, "\1\x1b\xff\xff", 4); /* no count, no table */
	build_elf_put(b, file + HDR + 4, 4, FRAME - HDR - 4);
	cfi_table(file + FRAME);
	build_elf_put(b, file + FRAME + FDE + 8, 4, (uint32_t)(CODE - (FRAME + FDE + 8)));
	build_elf_put(b, file + FRAME + FDE + 12, 4, 16);
}

START_TEST(caller)
{
	struct build_elf *b = build_elf_new("x86_64");
	build_elf_thread(b, 100, BIAS + cases[_i].pc, SP);
	build_elf_reg(b, "rbp", cases[_i].none ? 5 : FP);
	uint8_t *stack = build_elf_memory(b, 0x70000000, 0x1000, 3);
	for (size_t i = 0; i < COUNT(cases[_i].word); i++)
		build_elf_put(b, stack + (SP - 0x70000000) + 8 * i, 8, cases[_i].word[i] > SO_TEXT ? BIAS + cases[_i].word[i] : cases[_i].word[i]);
	build_elf_put(b, stack + (FP - 0x70000000) + 8, 8, BIAS + CALLS_OUTER);
	struct build_so so = { .abi = *build_elf_abi(b), .symbols = functions, .n_symbols = COUNT(functions) };
	uint8_t *file = build_so(&so);
	memset(file + OUTER, 0x90, 0x300);
	put_call(b, file, CALLS_LEAF, LEAF);
	put_call(b, file, CALLS_OTHER, OTHER);
	put_call(b, file, CALLS_STUB, STUB);
	put_call(b, file, CALLS_KEEPS, KEEPS);
	put_call(b, file, CALLS_OUTER, OUTER);
	memcpy(file + OUTER, "\x55\x48\x89\xe5", 4);
	memcpy(file + KEEPS, "\x55\x48\x89\xe5", 4);
	memcpy(file + LEAF, "\x48\x83\xec\x08", 4);
	memcpy(file + STUB, "\xff\x25", 2);
	build_elf_put(b, file + STUB + 2, 4, SLOT - (STUB + 6));
	build_elf_put(b, file + SO_DATA_FILE + (SLOT - SO_DATA), 8, BIAS + LEAF);
	put_tables(b, file);
	build_so_map(b, &so, file, BIAS, "/nowhere/libx.so", SO_USUAL | SO_READ_ONLY);
	struct image *img = build_elf_open(b);
	struct modules *mods;
	struct native *n;
	const struct native_records *r;
	struct err err = { 0 };
	ck_assert_int_eq(modules_open(img, &(struct search){ .no_files = true }, &mods, NULL), 0);
	ck_assert_int_eq(native_start(img, mods, &native_default, &n, &err), 0);
	ck_assert_msg(native_finish(n, &r, &err) == 0, "%s", err.msg);
	struct sb got = { 0 };
	for (size_t i = 0; i < r->stacks[0].n; i++) {
		const struct native_frame *f = &r->frames.p[r->stacks[0].first + i];
		const struct native_name *name = native_name_at(r, f->pc, f->bits & NATIVE_CALL);
		sb_printf(&got, i ? " " : "");
		sb_str(&got, name ? name->symbol : STR("?"));
		sb_printf(&got, "%s%s", f->bits & NATIVE_SCAN ? "/s" : "", f->bits & NATIVE_GUESS ? "/g" : "");
	}
	ck_assert_msg(str_is(sb_view(&got), cases[_i].out), "%s: " STR_FMT ", not %s", cases[_i].what, STR_ARG(sb_view(&got)), cases[_i].out);
	sb_free(&got);
	native_close(n);
	modules_close(mods);
	image_close(img);
	build_elf_free(b);
	free(file);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("frameless");
	TCase *c = tcase_create("frameless");
	tcase_set_timeout(c, 60);
	tcase_add_loop_test(c, caller, 0, COUNT(cases));
	suite_add_tcase(s, c);
	return suite_run(s);
}
