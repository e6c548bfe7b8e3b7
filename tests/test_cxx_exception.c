/* Which C++ exception ended a process: by the variable of the thread that has what it handles, and by its stack. */
#include <check.h>
#include <string.h>

#include "build_so.h"
#include "inspect/cxx_exception.h"
#include "suite.h"

enum { CODE = 0x401000, STACK = 0x30000, TLS = 0x50800, DTV = 0x51000, BLOCK = 0x52000, OTHER_BLOCK = 0x52800, SLOT = 0x403000, DATA = 0x50000, CAUGHT = 0x777770 };

#define BYTES(s) s, sizeof(s) - 1
#define ENDBR "\xf3\x0f\x1e\xfa"
#define CALL "\xe8\x10\x30\x00\x00"
#define FS0 "\x25\x00\x00\x00\x00"
#define INDEX "\x48\x8d\x3d" /* lea rdi, [rip + x] */
/*
 * index: module and offset, or the offset from the thread pointer, at SLOT; at: where the variable lies; pair: words an entry of the list has, of
 * which there are `listed`.
 */
enum { LISTED = 6 };
static const struct { const char *abi, *code; size_t n, disp; uint64_t index[2]; addr_t at; unsigned pair; bool told; unsigned listed; } ways[] = {
	/* gcc: shared libraries, old and new; the offset in the index */
	{ "x86_64", BYTES("\x48\x83\xec\x08" INDEX "\0\0\0\0" CALL "\x48\x83\xc4\x08\x48\x05\x00\x00\x00\x00\xc3"), 7, { 3, 0 }, BLOCK, 2, true, LISTED },
	{ "x86_64", BYTES(ENDBR "\x48\x83\xec\x08" INDEX "\0\0\0\0" CALL "\x48\x83\xc4\x08\x48\x05\x20\x00\x00\x00\xc3"), 11, { 3, 0 }, BLOCK + 0x20, 2, true, LISTED },
	{ "x86_64", BYTES("\x50\x66" INDEX "\0\0\0\0\x66\x66\x48" CALL "\x59\xc3"), 5, { 3, 0x40 }, BLOCK + 0x40, 2, true, LISTED },
	{ "x86_64", BYTES("\x50\x66" INDEX "\0\0\0\0\x66\x48\xff\x15\0\0\0\0\x59\xc3"), 5, { 3, 0x40 }, BLOCK + 0x40, 2, true, LISTED },
	{ "x86_64", BYTES("\x55\x48\x89\xe5" INDEX "\0\0\0\0" CALL "\x48\x8d\x80\x08\x00\x00\x00\x5d\xc3"), 7, { 3, 0 }, BLOCK + 8, 1, true, LISTED }, /* musl's list */
	/* through the thread pointer: the offset in a slot, in the code */
	{ "x86_64", BYTES("\x48\x8b\x05\0\0\0\0\x64\x48\x03\x04" FS0 "\xc3"), 3, { (uint64_t)-0x100, 0 }, TLS - 0x100, 2, true, LISTED },
	{ "x86_64", BYTES(ENDBR "\x64\x48\x8b\x04" FS0 "\x48\x03\x05\0\0\0\0\xc3"), 16, { (uint64_t)-0x100, 0 }, TLS - 0x100, 2, true, LISTED },
	{ "x86_64", BYTES("\x64\x48\x8b\x04" FS0 "\x48\x8d\x80\xf0\xff\xff\xff\xc3"), 0, { 0 }, TLS - 0x10, 2, true, LISTED },
	/* no module, one that has no block yet, one behind the list */
	{ "x86_64", BYTES("\x48\x83\xec\x08" INDEX "\0\0\0\0" CALL "\x48\x83\xc4\x08\xc3"), 7, { 0, 0 }, BLOCK, 2, false, LISTED },
	{ "x86_64", BYTES("\x48\x83\xec\x08" INDEX "\0\0\0\0" CALL "\x48\x83\xc4\x08\xc3"), 7, { 4, 0 }, BLOCK, 2, false, LISTED },
	{ "x86_64", BYTES("\x48\x83\xec\x08" INDEX "\0\0\0\0" CALL "\x48\x83\xc4\x08\xc3"), 7, { 0x7fffffff, 0 }, BLOCK, 2, false, LISTED },
	{ "x86_64", BYTES("\x48\x83\xec\x08" INDEX "\0\0\0\0" CALL "\x48\x83\xc4\x08\xc3"), 7, { 3, 0 }, BLOCK, 2, false, 2 },
	{ "x86_64", BYTES("\x48\x83\xec\x08" INDEX "\0\0\0\0" CALL "\x48\x83\xc4\x08\xc3"), 7, { 3, 0 }, BLOCK, 1, false, 2 },
	/* other code: libc++abi's; that only returns; without an end; cut off */
	{ "x86_64", BYTES("\x53\x48\x8d\x3d\0\0\0\0\x48\x8d\x35\xc1\x00\x00\x00\xe8\0\0\0\0\xc3"), 0, { 0 }, BLOCK, 2, false, LISTED },
	{ "x86_64", BYTES("\xc3"), 0, { 0 }, BLOCK, 2, false, LISTED },
	{ "x86_64", BYTES("\x50\x50\x50\x50\x50\x50\x50\x50\x50\x50\x50\x50\x50\x50\x50\xc3"), 0, { 0 }, BLOCK, 2, false, LISTED },
	{ "x86_64", BYTES("\x48\x83\xec\x08\x48\x8d"), 0, { 0 }, BLOCK, 2, false, LISTED },
	{ "i386", BYTES("\x48\x83\xec\x08" INDEX "\0\0\0\0" CALL "\x48\x83\xc4\x08\xc3"), 7, { 3, 0 }, BLOCK, 2, false, LISTED },
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
	build_elf_put(b, data + (DTV - DATA) - (c->pair - 1) * 16, 8, c->listed);
	for (unsigned i = 1; i <= LISTED; i++) /* of other modules */
		build_elf_put(b, data + (DTV - DATA) + i * 8 * c->pair, 8, OTHER_BLOCK);
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

/* ---- which it was */

enum { HEAP = 0x60000, NEW = HEAP + 0x100, OLD = HEAP + 0x300, FREED = HEAP + 0x500, NAMES = HEAP + 0x800, SP = 0x70000100, THREAD_POINTER = 0x70000f00, MAPPED = 0x50000000,
	GLOBALS = SO_TEXT + 0x100, FUNCTION = SO_TEXT + 0x200 };
#define BEFORE_UNWINDER 0x50u /* of struct _Unwind_Exception: the header from its type on */

static const struct so_symbol run_time[] = { { "__cxa_get_globals", GLOBALS, 0x20, true, true } };

#define TERMINATE "_ZSt9terminatev"
#define TITLE "an uncaught C++ exception: "
#define UNKNOWN "an uncaught C++ exception (its type is not known)"
#define CALLED "C++'s std::terminate was called"
/* From the innermost frame on, 0x40 bytes each; *: a signal came there. */
static const struct said {
	const char *frames[6];
	addr_t word[4];       /* of the stack: at the first words of the frames */
	addr_t caught;        /* what the thread's variable leads to */
	unsigned flying;
	bool variable, likely;
	const char *want;     /* NULL: it is none of C++'s */
} said[] = {
	{ { "abort", TERMINATE, "__cxa_throw", "f" }, { 0 }, NEW, 0, true, false, TITLE "New" },
	/* What is left of an older one, or of one that is being handled, is not taken for it. */
	{ { "abort", "h", TERMINATE, "__cxa_throw", "f" }, { 0, OLD, NEW }, NEW, 0, true, false, TITLE "New" },
	{ { "abort", "h", TERMINATE, "__cxa_throw", "f" }, { 0, FREED, NEW }, 0, 0, false, true, TITLE "New" },
	{ { "abort", "h", TERMINATE, "__cxa_throw", "f" }, { 0, FREED }, 0, 0, false, false, UNKNOWN },
	{ { "abort", "h", TERMINATE, "__cxa_throw", "f" }, { 0, OLD, NEW }, 0, 0, false, true, TITLE "Old" },
	/* Behind what throws lies what is none of it. */
	{ { "abort", TERMINATE, "__cxa_throw", "f" }, { 0, 0, 0, NEW }, 0, 0, false, false, UNKNOWN },
	/* The unwinder ended it, or a signal's handler did. */
	{ { "abort", "_Unwind_RaiseException", "__cxa_throw", "f" }, { 0, NEW, NEW }, 0, 1, true, false, NULL },
	{ { "abort", "", "__cxa_throw", "f" }, { 0, NEW, NEW }, OLD, 1, true, false, NULL },
	{ { "abort", "_Unwind_RaiseException", "__cxa_throw", "f" }, { 0, NEW, NEW }, OLD, 0, false, false, NULL },
	{ { "abort", "handler", "*restore", "_Unwind_RaiseException", "__cxa_throw", "f" }, { 0, NEW, NEW }, 0, 0, false, false, NULL },
	{ { "abort", "handler", "*restore", TERMINATE, "f" }, { 0, NEW, NEW }, 0, 0, false, false, NULL },
	{ { "abort", "f" }, { NEW, NEW }, NEW, 0, true, false, NULL },
	/* No name tells of std::terminate, but it was caught. */
	{ { "abort", "", "__cxa_throw", "f" }, { 0 }, NEW, 0, true, false, TITLE "New" },
	{ { "abort", TERMINATE, "f" }, { OLD, OLD }, NEW, 0, true, false, CALLED " while New was being handled" },
	{ { "abort", TERMINATE, "__cxa_call_terminate", "f" }, { OLD, OLD }, NEW, 0, true, false, TITLE "New" },
	{ { "abort", TERMINATE, "f" }, { OLD, OLD }, 0, 0, true, false, CALLED },
	{ { "abort", TERMINATE, "f" }, { OLD, OLD }, 0, 1, true, true, TITLE "Old" },
	{ { "abort", TERMINATE, "__cxa_rethrow", "f" }, { OLD, OLD }, 0, 0, true, false, CALLED },
	{ { "abort", TERMINATE, "__cxa_rethrow", "f" }, { OLD, OLD }, NEW, 0, true, false, TITLE "New" },
	{ { "abort", TERMINATE, "__cxa_pure_virtual", "f" }, { OLD }, NEW, 0, true, false, "a pure virtual method was called" },
	{ { "abort", "__cxa_deleted_virtual", "f" }, { OLD }, NEW, 0, true, false, "a deleted virtual method was called" },
};

static void put_exception(const struct build_elf *b, uint8_t *heap, addr_t header, uint64_t references, const char *name, unsigned n)
{
	const addr_t type = NAMES + n * 0x40;
	uint8_t *at = heap + (header - HEAP);
	build_elf_put(b, at, 8, UINT64_C(0x474e5543432b2b00));
	build_elf_put(b, at - BEFORE_UNWINDER, 8, type);
	build_elf_put(b, at - BEFORE_UNWINDER - 0x10, 4, references);
	build_elf_put(b, heap + (type - HEAP) + 8, 8, type + 0x20);
	memcpy(heap + (type - HEAP) + 0x20, name, strlen(name));
}

START_TEST(which)
{
	const struct said *c = &said[_i];
	static const char code[] = "\x64\x48\x8b\x04" FS0 "\x48\x8d\x80\xf0\xff\xff\xff\xc3"; /* 0x10 below the thread pointer */
	struct build_elf *b = build_elf_new("x86_64");
	build_elf_thread(b, 100, MAPPED + FUNCTION, SP);
	build_elf_tls(b, THREAD_POINTER);
	uint8_t *stack = build_elf_memory(b, 0x70000000, 0x1000, 3), *heap = build_elf_memory(b, HEAP, 0x1000, 3);
	put_exception(b, heap, NEW, 1, "3New", 0);
	put_exception(b, heap, OLD, 1, "3Old", 1);
	put_exception(b, heap, FREED, 0x559efe23, "5Freed", 2);
	struct native_records rec = { 0 };
	size_t n = 0;
	for (addr_t pc = MAPPED + FUNCTION, sp = SP; n < COUNT(c->frames) && c->frames[n]; n++, pc += 0x10, sp += 0x40) {
		const bool signal = *c->frames[n] == '*';
		*vec_push(&rec.frames) = (struct native_frame){ pc, sp, (uint8_t)(signal ? NATIVE_SIGNAL : n ? NATIVE_CALL : NATIVE_TOP) };
		if (*c->frames[n])
			*vec_push(&rec.names) = (struct native_name){ .pc = pc, .call = n && !signal, .symbol = str_of(c->frames[n] + signal) };
		if (n < COUNT(c->word))
			build_elf_put(b, stack + (sp - 0x70000000), 8, c->word[n]);
	}
	build_elf_put(b, stack + (THREAD_POINTER - 0x10 - 0x70000000), 8, c->caught ? c->caught - BEFORE_UNWINDER : 0);
	build_elf_put(b, stack + (THREAD_POINTER - 8 - 0x70000000), 4, c->flying);
	struct build_so so = { .abi = *build_elf_abi(b), .symbols = run_time, .n_symbols = c->variable ? 1 : 0 };
	uint8_t *file = build_so(&so);
	memcpy(file + GLOBALS, code, sizeof code - 1);
	build_so_map(b, &so, file, MAPPED, "/nowhere/libstdc++.so.6", SO_USUAL | SO_READ_ONLY);
	struct image *img = build_elf_open(b);
	struct modules *mods;
	ck_assert_int_eq(modules_open(img, &(struct search){ 0 }, &mods, NULL), 0);
	struct report *r = report_new();
	struct target t = { .img = img, .mods = mods };
	const struct native_view view = { &rec, rec.frames.p, n, 0, 0, 0 };
	const struct str got = cxx_exception(&t, r, &view);
	if (!c->want)
		ck_assert_msg(!got.s, STR_FMT, STR_ARG(got));
	else
		ck_assert_msg(str_is(got, c->want), STR_FMT, STR_ARG(got));
	ck_assert_int_eq(r->verdict.likely, c->likely);
	report_free(r);
	modules_close(mods);
	vec_free(&rec.frames);
	vec_free(&rec.names);
	image_close(img);
	build_elf_free(b);
	free(file);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("cxx_exception");
	TCase *c = tcase_create("cxx_exception");
	tcase_add_loop_test(c, globals, 0, COUNT(ways));
	tcase_add_loop_test(c, which, 0, COUNT(said));
	suite_add_tcase(s, c);
	return suite_run(s);
}
