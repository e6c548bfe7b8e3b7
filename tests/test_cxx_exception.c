/* The variable of a thread that has what C++ handles, by the code that leads to it. */
#include <check.h>
#include <string.h>

#include "build_elf.h"
#include "inspect/cxx_exception.h"
#include "suite.h"

enum { CODE = 0x401000, STACK = 0x30000, TLS = 0x50800, DTV = 0x51000, BLOCK = 0x52000, SLOT = 0x403000, DATA = 0x50000, CAUGHT = 0x777770 };

#define BYTES(s) s, sizeof(s) - 1
#define ENDBR "\xf3\x0f\x1e\xfa"
#define CALL "\xe8\x10\x30\x00\x00"
#define FS0 "\x25\x00\x00\x00\x00"
#define INDEX "\x48\x8d\x3d" /* lea rdi, [rip + x] */
/* index: module and offset, or the offset from the thread pointer, at SLOT; at: where the variable lies; pair: words an entry of the list has. */
static const struct { const char *abi, *code; size_t n, disp; uint64_t index[2]; addr_t at; unsigned pair; bool told; } ways[] = {
	/* gcc: shared libraries, old and new; the offset in the index */
	{ "x86_64", BYTES("\x48\x83\xec\x08" INDEX "\0\0\0\0" CALL "\x48\x83\xc4\x08\x48\x05\x00\x00\x00\x00\xc3"), 7, { 3, 0 }, BLOCK, 2, true },
	{ "x86_64", BYTES(ENDBR "\x48\x83\xec\x08" INDEX "\0\0\0\0" CALL "\x48\x83\xc4\x08\x48\x05\x20\x00\x00\x00\xc3"), 11, { 3, 0 }, BLOCK + 0x20, 2, true },
	{ "x86_64", BYTES("\x50\x66" INDEX "\0\0\0\0\x66\x66\x48" CALL "\x59\xc3"), 5, { 3, 0x40 }, BLOCK + 0x40, 2, true },
	{ "x86_64", BYTES("\x50\x66" INDEX "\0\0\0\0\x66\x48\xff\x15\0\0\0\0\x59\xc3"), 5, { 3, 0x40 }, BLOCK + 0x40, 2, true },
	{ "x86_64", BYTES("\x55\x48\x89\xe5" INDEX "\0\0\0\0" CALL "\x48\x8d\x80\x08\x00\x00\x00\x5d\xc3"), 7, { 3, 0 }, BLOCK + 8, 1, true }, /* musl's list */
	/* through the thread pointer: the offset in a slot, in the code */
	{ "x86_64", BYTES("\x48\x8b\x05\0\0\0\0\x64\x48\x03\x04" FS0 "\xc3"), 3, { (uint64_t)-0x100, 0 }, TLS - 0x100, 2, true },
	{ "x86_64", BYTES(ENDBR "\x64\x48\x8b\x04" FS0 "\x48\x03\x05\0\0\0\0\xc3"), 16, { (uint64_t)-0x100, 0 }, TLS - 0x100, 2, true },
	{ "x86_64", BYTES("\x64\x48\x8b\x04" FS0 "\x48\x8d\x80\xf0\xff\xff\xff\xc3"), 0, { 0 }, TLS - 0x10, 2, true },
	/* no module, one that has no block yet, one behind the list */
	{ "x86_64", BYTES("\x48\x83\xec\x08" INDEX "\0\0\0\0" CALL "\x48\x83\xc4\x08\xc3"), 7, { 0, 0 }, BLOCK, 2, false },
	{ "x86_64", BYTES("\x48\x83\xec\x08" INDEX "\0\0\0\0" CALL "\x48\x83\xc4\x08\xc3"), 7, { 4, 0 }, BLOCK, 2, false },
	{ "x86_64", BYTES("\x48\x83\xec\x08" INDEX "\0\0\0\0" CALL "\x48\x83\xc4\x08\xc3"), 7, { 0x7fffffff, 0 }, BLOCK, 2, false },
	/* other code: libc++abi's; that only returns; without an end; cut off */
	{ "x86_64", BYTES("\x53\x48\x8d\x3d\0\0\0\0\x48\x8d\x35\xc1\x00\x00\x00\xe8\0\0\0\0\xc3"), 0, { 0 }, BLOCK, 2, false },
	{ "x86_64", BYTES("\xc3"), 0, { 0 }, BLOCK, 2, false },
	{ "x86_64", BYTES("\x50\x50\x50\x50\x50\x50\x50\x50\x50\x50\x50\x50\x50\x50\x50\xc3"), 0, { 0 }, BLOCK, 2, false },
	{ "x86_64", BYTES("\x48\x83\xec\x08\x48\x8d"), 0, { 0 }, BLOCK, 2, false },
	{ "i386", BYTES("\x48\x83\xec\x08" INDEX "\0\0\0\0" CALL "\x48\x83\xc4\x08\xc3"), 7, { 3, 0 }, BLOCK, 2, false },
};

START_TEST(globals)
{
	__auto_type c = &ways[_i];
	struct build_elf *b = build_elf_new(c->abi);
	build_elf_thread(b, 100, CODE, STACK);
	uint8_t *code = build_elf_memory(b, CODE, c->n, 5);
	memcpy(code, c->code, c->n);
	if (c->disp)
		build_elf_put(b, code + c->disp, 4, SLOT - (CODE + c->disp + 4));
	uint8_t *slot = build_elf_memory(b, SLOT, 0x100, 3), *data = build_elf_memory(b, DATA, 0x3000, 3);
	memset(data, 0, 0x3000);
	build_elf_put(b, slot, 8, c->index[0]);
	build_elf_put(b, slot + 8, 8, c->index[1]);
	build_elf_put(b, data + (TLS - DATA) + 8, 8, DTV);
	build_elf_put(b, data + (DTV - DATA) + 3 * 8 * c->pair, 8, BLOCK);
	build_elf_put(b, data + (DTV - DATA) + 4 * 8 * c->pair, 8, (uint64_t)-1);
	build_elf_put(b, data + (c->at - DATA), 8, CAUGHT);
	build_elf_put(b, data + (c->at - DATA) + 8, 4, 2);
	struct image *img = build_elf_open(b);
	struct target t = { .img = img };
	addr_t caught = 0;
	uint64_t flying = 0;
	ck_assert_int_eq(cxx_globals(&t, CODE, TLS, &caught, &flying), c->told);
	ck_assert_uint_eq(caught, c->told ? CAUGHT : 0);
	ck_assert_uint_eq(flying, c->told ? 2 : 0);
	ck_assert(!cxx_globals(&t, CODE, 0, &caught, &flying));
	image_close(img);
	build_elf_free(b);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("cxx_exception");
	TCase *c = tcase_create("cxx_exception");
	tcase_add_loop_test(c, globals, 0, COUNT(ways));
	suite_add_tcase(s, c);
	return suite_run(s);
}
