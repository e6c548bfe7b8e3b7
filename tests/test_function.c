/* Functions without names, by the table of a module's unwind tables, and tables that lie. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "build_cfi.h"
#include "module/module.h"
#include "suite.h"

enum { BASE = 0x400000, HDR = 0x2800, FRAMES = 0x2a00, FUNCTIONS = 5 };

static uint8_t code[CFI_SIZE];
static const struct { uint32_t start, size; } functions[FUNCTIONS] = { { 0x1000, 0x40 }, { 0x1040, 0x100 }, { 0x1200, 0x10 }, { 0x1210, 0x200 }, { 0x1800, 0x700 } };

static int read_code(void *ctx, uint64_t offset, void *buf, size_t len)
{
	memcpy(buf, (uint8_t *)ctx + offset, len);
	return 0;
}

static void build(void)
{
	cfi_module(code, NULL, 0);
	uint8_t *ph = code + 64 + 56; /* PT_GNU_EH_FRAME: a larger one */
	cfi_put(ph + 8, 8, HDR);
	cfi_put(ph + 16, 8, HDR);
	cfi_put(ph + 24, 8, HDR);
	cfi_put(ph + 32, 8, 12 + FUNCTIONS * 8);
	cfi_put(ph + 40, 8, 12 + FUNCTIONS * 8);
	memcpy(code + HDR, "\1\x1b\x03\x3b", 4);
	cfi_put(code + HDR + 4, 4, (uint32_t)(CFI_FRAME - (int)HDR - 4));
	cfi_put(code + HDR + 8, 4, FUNCTIONS);
	for (unsigned i = 0; i < FUNCTIONS; i++) {
		const uint32_t fde = FRAMES + i * 24;
		cfi_put(code + HDR + 12 + 8 * i, 4, functions[i].start - HDR);
		cfi_put(code + HDR + 16 + 8 * i, 4, fde - HDR);
		cfi_put(code + fde, 4, 20);
		cfi_put(code + fde + 8, 4, functions[i].start - (fde + 8));
		cfi_put(code + fde + 12, 4, functions[i].size);
	}
}

/* pc's function, from what is in code now. */
static int function_at(addr_t pc, addr_t *start, addr_t *end)
{
	const struct segment seg = { .start = BASE, .size = CFI_SIZE, .prot = 5, .read = read_code, .ctx = code };
	struct image *img = image_new((struct abi){ .machine = 62, .width = 8 });
	struct modules *mods;
	struct err err;
	ck_assert_int_eq(image_add_segment(img, &seg, LAY_OVER), 0);
	*image_add_mapping(img) = (struct mapping){ .start = BASE, .end = BASE + CFI_SIZE, .prot = 5, .path = { (const uint8_t *)"/a.so", 5 } };
	image_settle(img);
	ck_assert_int_eq(modules_open(img, NULL, &mods, &err), 0);
	const int rc = modules_function(mods, pc, start, end);
	modules_close(mods);
	image_close(img);
	return rc;
}

START_TEST(found)
{
	addr_t start = 0, end = 0;
	build();
	for (unsigned i = 0; i < FUNCTIONS; i++) {
		const addr_t first = BASE + functions[i].start, past = first + functions[i].size;
		for (const addr_t *pc = (const addr_t[]){ first, first + 7, past - 1, 0 }; *pc; pc++) {
			ck_assert_int_eq(function_at(*pc, &start, &end), 0);
			ck_assert_uint_eq(start, first);
			ck_assert_uint_eq(end, past);
		}
	}
	/* Between two, before the first, after the last, elsewhere. */
	for (const addr_t *pc = (const addr_t[]){ BASE + 0x1140, BASE + 0xfff, BASE + 0x1f00, 0x700000, 0 }; *pc; pc++)
		ck_assert_int_eq(function_at(*pc, &start, &end), ERR_ABSENT);
}
END_TEST

static const struct { const char *what; unsigned at, width; uint64_t value; int rc; } lies[] = {
	{ "no table", HDR + 3, 1, 0xff, ERR_UNSUPPORTED },
	{ "another form", HDR + 3, 1, 0x1b, ERR_UNSUPPORTED },
	{ "another version", HDR, 1, 2, ERR_UNSUPPORTED },
	{ "more entries than there is room for", HDR + 8, 4, FUNCTIONS + 1, ERR_CORRUPT },
	{ "a great many", HDR + 8, 4, 0xffffffff, ERR_CORRUPT },
	{ "none", HDR + 8, 4, 0, ERR_ABSENT },
	{ "an entry that leads out of it", HDR + 16 + 8, 4, 0x7fffffff, ERR_FAULT },
	{ "an FDE of another function", FRAMES + 24 + 8, 4, 0, ERR_UNSUPPORTED },
	{ "a header outside of the module", 64 + 56 + 16, 8, 0x90000, ERR_FAULT },
};

START_TEST(damaged)
{
	addr_t start = 1, end = 2;
	build();
	cfi_put(code + lies[_i].at, lies[_i].width, lies[_i].value);
	const int rc = function_at(BASE + 0x1050, &start, &end);
	ck_assert_msg(rc == lies[_i].rc, "%s: %d", lies[_i].what, rc);
	ck_assert(start == 1 && end == 2);
}
END_TEST

/* The table's part of the file ends before the count would. */
START_TEST(too_small)
{
	addr_t start = 7, end = 7;
	build();
	cfi_put(code + 64 + 56 + 32, 8, 11);
	cfi_put(code + 64 + 56 + 40, 8, 11);
	ck_assert_int_eq(function_at(BASE + functions[1].start, &start, &end), ERR_CORRUPT);
	ck_assert(start == 7 && end == 7);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("function");
	TCase *c = tcase_create("function");
	tcase_add_test(c, found);
	tcase_add_loop_test(c, damaged, 0, COUNT(lies));
	tcase_add_test(c, too_small);
	suite_add_tcase(s, c);
	return suite_run(s);
}
