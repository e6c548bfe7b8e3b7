/* What code says of frames without tables: stubs of procedure linkage tables, and whether a function makes a frame pointer. */
#include <check.h>
#include <string.h>

#include "build_elf.h"
#include "module/native_guess.h"
#include "suite.h"

enum { CODE = 0x401000, SLOTS = 0x402000, SLOT = SLOTS + 0x20, BELOW = 0x400800, TARGET = 0x777770 };

#define BYTES(s) (const uint8_t *)s, sizeof(s) - 1
#define ENDBR64 "\xf3\x0f\x1e\xfa"
#define ENDBR32 "\xf3\x0f\x1e\xfb"

/* Its code is all there is from CODE on; disp: where in it four bytes lead to `to`, by themselves or from the instruction's end. */
static struct image *image_with(struct build_elf *b, const uint8_t *code, size_t n, size_t disp, addr_t to)
{
	build_elf_thread(b, 100, CODE, 0x70000100);
	if (n) {
		uint8_t *at = build_elf_memory(b, CODE, n, 5);
		memcpy(at, code, n);
		if (disp)
			build_elf_put(b, at + disp, 4, build_elf_abi(b)->width == 4 ? to : to - (CODE + disp + 4));
	}
	build_elf_put(b, build_elf_memory(b, SLOTS, 0x28, 3) + 0x20, build_elf_abi(b)->width, TARGET);
	build_elf_put(b, build_elf_memory(b, BELOW, 8, 3), build_elf_abi(b)->width, TARGET + 16);
	return build_elf_open(b);
}

static const struct { const char *abi; const uint8_t *code; size_t n, disp; addr_t to, target; /* 0: it is none */ } stubs[] = {
	{ "x86_64", BYTES("\xff\x25????\x90\x90"), 2, SLOT, TARGET },
	{ "x86_64", BYTES("\xff\x25????\x90\x90"), 2, BELOW, TARGET + 16 },
	{ "x86_64", BYTES("\xf2\xff\x25????"), 3, SLOT, TARGET },
	{ "x86_64", BYTES(ENDBR64 "\xff\x25????"), 6, SLOT, TARGET },
	{ "x86_64", BYTES(ENDBR64 "\xf2\xff\x25????"), 7, BELOW, TARGET + 16 },
	{ "i386", BYTES("\xff\x25????\x90\x90"), 2, SLOT, TARGET },
	{ "i386", BYTES(ENDBR32 "\xff\x25????"), 6, BELOW, TARGET + 16 },
	/* A call; a push; by a register; cut off; its word is not there; another machine. */
	{ "x86_64", BYTES("\xff\x15????\x90\x90"), 2, SLOT, 0 },
	{ "x86_64", BYTES("\x90\x25????\x90\x90"), 2, SLOT, 0 },
	{ "x86_64", BYTES("\xff\x35????\x90\x90"), 2, SLOT, 0 },
	{ "i386", BYTES("\xff\xa3????\x90\x90"), 2, SLOT, 0 },
	{ "x86_64", BYTES("\xff\x25???"), 0, 0, 0 },
	{ "x86_64", BYTES("\xff\x25????\x90\x90"), 2, SLOT + 8, 0 },
	{ "x86_64", BYTES(""), 0, 0, 0 },
	{ "aarch64", BYTES("\xff\x25????\x90\x90"), 2, SLOT, 0 },
};

START_TEST(stub)
{
	__auto_type c = &stubs[_i];
	struct build_elf *b = build_elf_new(c->abi);
	struct image *img = image_with(b, c->code, c->n, c->disp, c->to);
	const struct guess g = { img, NULL, image_abi(img) };
	addr_t got = 0;
	ck_assert_int_eq(guess_stub_target(&g, CODE, &got), c->target != 0);
	ck_assert_uint_eq(got, c->target);
	image_close(img);
	build_elf_free(b);
}
END_TEST

/* made: from this byte of it on there is one; 0: never. */
static const struct { const char *abi; const uint8_t *code; size_t n, made; } functions[] = {
	{ "x86_64", BYTES("\x55\x48\x89\xe5\x90\x90"), 4 },
	{ "x86_64", BYTES("\x55\x48\x8b\xec\x90\x90"), 4 },
	{ "x86_64", BYTES(ENDBR64 "\x55\x48\x89\xe5\x90"), 8 },
	{ "x86_64", BYTES(ENDBR64 "\x55\x48\x89\xe5"), 8 },
	{ "i386", BYTES("\x55\x89\xe5\x90\x90\x90"), 3 },
	{ "i386", BYTES("\x55\x8b\xec"), 3 },
	{ "i386", BYTES(ENDBR32 "\x55\x89\xe5\x90"), 7 },
	{ "x86_64", BYTES("\x53\x48\x89\xe5\x90\x90"), 0 },
	{ "x86_64", BYTES("\x55\x53\x48\x89\xe5\x90"), 0 },
	{ "x86_64", BYTES("\x55\x49\x89\xe5\x90\x90"), 0 },
	{ "x86_64", BYTES("\x55\x48\x89\xec\x90\x90"), 0 },
	{ "x86_64", BYTES("\x55\x48\x8b\xe5\x90\x90"), 0 },
	{ "x86_64", BYTES("\x55\x48\x90\xe5\x90\x90"), 0 },
	{ "x86_64", BYTES("\x55\x89\xe5\x90\x90\x90"), 0 },
	{ "x86_64", BYTES("\x55\x48\x89"), 0 }, /* cut off */
	{ "x86_64", BYTES("\x55"), 0 },
	{ "x86_64", BYTES(ENDBR64), 0 },
	{ "i386", BYTES("\x55\x48\x89\xe5\x90\x90"), 0 },
};

START_TEST(frame)
{
	__auto_type c = &functions[_i];
	struct build_elf *b = build_elf_new(c->abi);
	struct image *img = image_with(b, c->code, c->n, 0, 0);
	const struct guess g = { img, NULL, image_abi(img) };
	for (size_t into = 0; into < 12; into++)
		ck_assert_msg(guess_has_frame(&g, CODE, CODE + into) == (c->made && into >= c->made), "%zu bytes into it", into);
	ck_assert(guess_has_frame(&g, 0x666000, 0x666000)); /* not at hand: as libdw takes it */
	image_close(img);
	build_elf_free(b);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("guess");
	TCase *c = tcase_create("guess");
	tcase_add_loop_test(c, stub, 0, COUNT(stubs));
	tcase_add_loop_test(c, frame, 0, COUNT(functions));
	suite_add_tcase(s, c);
	return suite_run(s);
}
