/* Names to addresses and back, from the tables in the image and those in files; hostile tables. */
#include <check.h>
#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "config.h"
#if HAVE_LZMA
#include <lzma.h>
#endif

#include "build_so.h"
#include "module/mini.h"
#include "module/module.h"
#include "suite.h"

static const struct so_symbol symbols[] = {
	{ "_PyRuntime", SO_RUNTIME, 0x100, false, true },
	{ "PyEval_Go", SO_TEXT + 0x10, 0x20, true, true },
	{ "__libc_thing", SO_TEXT + 0x100, 0x40, true, true },
	{ "thing", SO_TEXT + 0x100, 0x40, true, true },
	{ "outer", SO_TEXT + 0x200, 0x100, true, true },
	{ "inner", SO_TEXT + 0x240, 0x10, true, true },
	{ "assembly", SO_TEXT + 0x400, 0, true, true },
	{ "after", SO_TEXT + 0x5f0, 0x10, true, true },
	{ "hidden", SO_TEXT + 0x600, 0x20, true, false },
	{ "outside", 0x7fff0000, 0x20, true, true },
};
enum { N_SYMS = sizeof symbols / sizeof *symbols };

static char path[64], second[64];

static void make_files(void)
{
	strcpy(path, "/tmp/test_symbol.XXXXXX");
	strcpy(second, "/tmp/test_symbol.XXXXXX");
	close(mkstemp(path));
	close(mkstemp(second));
}

static void remove_files(void)
{
	unlink(path);
	unlink(second);
}

static struct modules *open_modules(struct image *img, bool files)
{
	struct modules *mods;
	struct search where = { .no_files = !files };
	ck_assert_int_eq(modules_open(img, &where, &mods, NULL), 0);
	return mods;
}

static void want_symbol(struct modules *mods, const char *name, addr_t want, const char *want_how)
{
	addr_t at = 1;
	uint64_t size = 1;
	const char *how = "";
	int rc = modules_symbol(mods, name, &at, &size, &how);
	if (!want) {
		ck_assert_msg(rc == ERR_ABSENT && at == 1 && size == 1, "%s: %d at 0x%llx", name, rc, (unsigned long long)at);
		return;
	}
	ck_assert_msg(rc == 0 && at == want, "%s: %d at 0x%llx, want 0x%llx", name, rc, (unsigned long long)at, (unsigned long long)want);
	ck_assert_str_eq(how, want_how);
}

static void want_name(struct modules *mods, addr_t pc, const char *want, uint64_t want_off)
{
	struct str name = { 0 };
	uint64_t off = 0;
	int rc = modules_name(mods, pc, &name, &off);
	if (!want) {
		ck_assert_msg(rc == ERR_ABSENT && !name.s, "0x%llx: %d " STR_FMT, (unsigned long long)pc, rc, STR_ARG(name));
		return;
	}
	ck_assert_msg(rc == 0 && str_is(name, want) && off == want_off, "0x%llx: %d " STR_FMT "+0x%llx", (unsigned long long)pc, rc,
		      STR_ARG(name), (unsigned long long)off);
}

static const char *const abis[] = { "x86_64", "i386", "aarch64", "ppc64", "s390x", "arm" };
enum { N_ABIS = sizeof abis / sizeof *abis };

/* _i: machine, which hash tables, relocated by the linker or not, PIE or not.  All from the image alone. */
START_TEST(in_the_image)
{
	const int hash = _i % 3, relocated = _i / 3 % 2, pie = _i / 6 % 2;
	struct build_elf *b = build_so_core(abis[_i / 12]);
	const addr_t base = pie ? 0 : 0x400000, bias = pie ? 0x50000000 : 0, at = base + bias;
	struct build_so so = { .abi = *build_elf_abi(b), .base = base, .symbols = symbols, .n_symbols = N_SYMS,
		.no_gnu_hash = hash == 1, .no_sysv_hash = hash == 2, .stripped = true };
	uint8_t *file = build_so(&so);
	build_so_map(b, &so, file, bias, "/nowhere/libx.so", (SO_USUAL & ~SO_RELOCATED) | SO_READ_ONLY | (relocated ? SO_RELOCATED : 0));
	struct image *img = build_elf_open(b);
	struct modules *mods = open_modules(img, false);
	uint64_t size;
	addr_t got;
	want_symbol(mods, "_PyRuntime", at + SO_RUNTIME, "dynamic");
	ck_assert_int_eq(modules_symbol(mods, "_PyRuntime", &got, &size, NULL), 0);
	ck_assert_uint_eq(size, 0x100);
	ck_assert_int_eq(modules_symbol(mods, "_PyRuntime", &got, NULL, NULL), 0);
	for (size_t i = 0; i < N_SYMS - 2; i++)
		want_symbol(mods, symbols[i].name, at + symbols[i].value, "dynamic");
	want_symbol(mods, "hidden", 0, NULL);
	want_symbol(mods, "outside", 0, NULL);
	want_symbol(mods, "_PyRuntim", 0, NULL);
	want_symbol(mods, "_PyRuntime2", 0, NULL);
	want_symbol(mods, "", 0, NULL);
	want_name(mods, at + SO_TEXT + 0x10, "PyEval_Go", 0);
	want_name(mods, at + SO_TEXT + 0x2f, "PyEval_Go", 0x1f);
	want_name(mods, at + SO_TEXT + 0x30, NULL, 0);
	want_name(mods, at + SO_TEXT, NULL, 0);
	want_name(mods, at + SO_TEXT + 0x108, "thing", 8);
	want_name(mods, at + SO_TEXT + 0x230, "outer", 0x30);
	want_name(mods, at + SO_TEXT + 0x241, "inner", 1);
	want_name(mods, at + SO_TEXT + 0x251, "outer", 0x51);
	want_name(mods, at + SO_TEXT + 0x410, "assembly", 0x10);
	want_name(mods, at + SO_TEXT + 0x5ef, "assembly", 0x1ef);
	want_name(mods, at + SO_RUNTIME, NULL, 0);
	modules_close(mods);
	image_close(img);
	build_elf_free(b);
	free(file);
}
END_TEST

static void count_dynamic(void *arg, addr_t addr, size_t len)
{
	*(unsigned *)arg += len && addr >= 0x50000000 + SO_DYNAMIC && addr < 0x50000000 + SO_DYNAMIC + 0x200;
}

/* What was learnt while a watch was paused is read again once it counts: a recording has what it stands on. */
START_TEST(learnt_in_a_pause)
{
	struct build_elf *b = build_so_core("x86_64");
	struct build_so so = { .abi = *build_elf_abi(b), .symbols = symbols, .n_symbols = N_SYMS, .stripped = true };
	uint8_t *file = build_so(&so);
	build_so_map(b, &so, file, 0x50000000, "/nowhere/libx.so", SO_USUAL | SO_READ_ONLY);
	struct image *img = build_elf_open(b);
	struct modules *mods = open_modules(img, false);
	unsigned n = 0;
	image_watch(img, count_dynamic, &n);
	image_watch_pause(img, true);
	want_symbol(mods, "thing", 0x50000000 + SO_TEXT + 0x100, "dynamic");
	ck_assert_uint_eq(n, 0);
	image_watch_pause(img, false);
	want_symbol(mods, "thing", 0x50000000 + SO_TEXT + 0x100, "dynamic");
	ck_assert_uint_gt(n, 0);
	const unsigned once = n;
	want_symbol(mods, "thing", 0x50000000 + SO_TEXT + 0x100, "dynamic");
	ck_assert_uint_eq(n, once);
	modules_close(mods);
	image_close(img);
	build_elf_free(b);
	free(file);
}
END_TEST

/* A default core and its file: dynamic symbols through the pages laid beneath, local ones and sections from the file. */
START_TEST(in_the_file)
{
	struct build_elf *b = build_so_core(abis[_i]);
	struct build_so so = { .abi = *build_elf_abi(b), .build_id = "12345678", .symbols = symbols, .n_symbols = N_SYMS };
	uint8_t *file = build_so(&so);
	file_write(path, file, SO_FILE);
	build_so_map(b, &so, file, 0x50000000, path, SO_USUAL);
	struct image *img = build_elf_open(b);
	struct modules *mods = open_modules(img, true);
	addr_t at = 0;
	uint64_t size = 0;
	want_symbol(mods, "_PyRuntime", 0x50000000 + SO_RUNTIME, "dynamic");
	want_symbol(mods, "hidden", 0x50000000 + SO_TEXT + 0x600, "symbol");
	want_symbol(mods, "outside", 0, NULL);
	want_name(mods, 0x50000000 + SO_TEXT + 0x61f, "hidden", 0x1f);
	ck_assert_int_eq(modules_section(mods, ".PyRuntime", &at, &size), 0);
	ck_assert_uint_eq(at, 0x50000000 + SO_RUNTIME);
	ck_assert_uint_eq(size, 0x100);
	ck_assert_int_eq(modules_section(mods, ".PyRuntim", &at, &size), ERR_ABSENT);
	ck_assert_int_eq(modules_section(mods, ".symtab", &at, &size), ERR_ABSENT); /* not in memory */
	modules_close(mods);
	image_close(img);
	build_elf_free(b);
	free(file);
}
END_TEST

/* What is static has another name where files were compiled as one: it is found if it is the only one, and the plain name before all. */
START_TEST(renamed)
{
	static const struct so_symbol locals[] = {
		{ "plain.lto_priv.0", SO_RUNTIME + 0x40, 8, false, false }, { "plain", SO_RUNTIME, 8, false, false }, { "plain.lto_priv.1", SO_RUNTIME + 0x48, 8, false, false },
		{ "xcollecting.lto_priv.0", SO_RUNTIME + 0x70, 8, false, false }, { "collecting.lto_priv.0", SO_RUNTIME + 0x10, 8, false, false },
		{ "collecting.lto_priv.0x", SO_RUNTIME + 0x78, 8, false, false },
		{ "several.lto_priv.0", SO_RUNTIME + 0x20, 8, false, false }, { "several.lto_priv.1", SO_RUNTIME + 0x28, 8, false, false },
		{ "alias.lto_priv.0", SO_RUNTIME + 0x30, 8, false, false }, { "alias.localalias", SO_RUNTIME + 0x30, 8, false, false },
		{ "piece.cold", SO_TEXT + 0x10, 8, true, false }, { "variant.constprop.0", SO_TEXT + 0x20, 8, true, false },
	};
	struct build_elf *b = build_so_core(abis[_i]);
	struct build_so so = { .abi = *build_elf_abi(b), .build_id = "12345678", .symbols = locals, .n_symbols = sizeof locals / sizeof *locals };
	uint8_t *file = build_so(&so);
	file_write(path, file, SO_FILE);
	build_so_map(b, &so, file, 0x50000000, path, SO_USUAL);
	struct image *img = build_elf_open(b);
	struct modules *mods = open_modules(img, true);
	want_symbol(mods, "plain", 0x50000000 + SO_RUNTIME, "symbol");
	want_symbol(mods, "collecting", 0x50000000 + SO_RUNTIME + 0x10, "symbol");
	want_symbol(mods, "alias", 0x50000000 + SO_RUNTIME + 0x30, "symbol");
	want_symbol(mods, "several", 0, NULL);
	want_symbol(mods, "piece", 0, NULL);
	want_symbol(mods, "variant", 0, NULL);
	modules_close(mods);
	image_close(img);
	build_elf_free(b);
	free(file);
}
END_TEST

/* Strings are read 64 KiB at a time: a name, or what was added to one, may lie in two pieces. */
START_TEST(strings_in_pieces)
{
	enum { PIECE = 64 << 10, STRINGS = PIECE + 5000 };
	static const struct { const char *string, *name; size_t before; } at[] = {
		{ "straddling", "straddling", 5 }, { "static_one.lto_priv.0", "static_one", 14 }, { "ends_there", "ends_there", 11 }, { "begins_there", "begins_there", 0 },
	};
	static const struct so_symbol locals[] = { { "one", SO_RUNTIME + 0x40, 8, false, false } };
	struct build_elf *b = build_so_core("x86_64");
	struct build_so so = { .abi = *build_elf_abi(b), .build_id = "12345678", .symbols = locals, .n_symbols = 1 };
	uint8_t *file = build_so(&so), *whole = xcalloc(1, SO_FILE + STRINGS);
	memcpy(whole, file, SO_FILE);
	const Elf64_Ehdr *eh = (const void *)whole;
	Elf64_Shdr *sh = (void *)(whole + eh->e_shoff), *table = sh;
	while (table->sh_type != SHT_SYMTAB)
		table++;
	Elf64_Shdr *strings = &sh[table->sh_link];
	Elf64_Sym *symbol = (void *)(whole + table->sh_offset);
	while (strcmp((const char *)whole + strings->sh_offset + symbol->st_name, "one") != 0)
		symbol++;
	const size_t place = PIECE - at[_i].before;
	memcpy(whole + SO_FILE, whole + strings->sh_offset, strings->sh_size);
	strcpy((char *)whole + SO_FILE + place, at[_i].string);
	strings->sh_offset = SO_FILE;
	strings->sh_size = STRINGS;
	symbol->st_name = (Elf64_Word)place;
	FILE *f = fopen(path, "w");
	ck_assert_uint_eq(fwrite(whole, 1, SO_FILE + STRINGS, f), SO_FILE + STRINGS);
	ck_assert_int_eq(fclose(f), 0);
	build_so_map(b, &so, file, 0x50000000, path, SO_USUAL);
	struct image *img = build_elf_open(b);
	struct modules *mods = open_modules(img, true);
	want_symbol(mods, at[_i].name, 0x50000000 + SO_RUNTIME + 0x40, "symbol");
	modules_close(mods);
	image_close(img);
	build_elf_free(b);
	free(file);
	free(whole);
}
END_TEST

/* ---- tables that travel in a snapshot, and MiniDebugInfo */

static int tail_read(void *ctx, uint64_t at, void *buf, size_t len)
{
	memcpy(buf, (const uint8_t *)ctx + at, len);
	return 0;
}

static const struct {
	const char *what, *noted;   /* the build-id that was noted */
	bool cut, no_id, used;
} inside[] = {
	{ "of the same build", "12345678", false, false, true }, { "of another build", "87654321", false, false, false },
	{ "without a build-id", "", false, false, false }, { "of a file that has none", "", false, true, true },
	{ "not of it, which has none", "12345678", false, true, false }, { "cut", "12345678", true, false, false },
};

/* No file is here; all that is exported is in the image, and what is not travelled beside it. */
START_TEST(travelled)
{
	struct build_elf *b = build_so_core("x86_64");
	struct build_so so = { .abi = *build_elf_abi(b), .build_id = inside[_i].no_id ? NULL : "12345678", .symbols = symbols, .n_symbols = N_SYMS }, bare = so;
	bare.stripped = true;
	uint8_t *file = build_so(&bare), *whole = build_so(&so);
	build_so_map(b, &bare, file, 0x50000000, path, SO_USUAL | SO_READ_ONLY);
	struct image *img = build_elf_open(b);
	struct image_facts *facts = image_facts_mut(img);
	struct noted_file noted = { 0x50000000, 0x50000000 + SO_SPAN, { (const uint8_t *)inside[_i].noted, strlen(inside[_i].noted) }, 0, inside[_i].cut ? 0x5100 : SO_FILE };
	facts->noted = &noted;
	facts->n_noted = 1;
	facts->tail.read = tail_read;
	facts->tail.ctx = whole;
	facts->tail.size = SO_FILE;
	struct modules *mods = open_modules(img, false);
	const struct module *m;
	ck_assert_uint_eq(modules_list(mods, &m), 1);
	ck_assert_int_eq(m->symbols, inside[_i].used ? SYMBOLS_FULL : SYMBOLS_DYNSYM);
	ck_assert_ptr_null(m->file);
	want_symbol(mods, "hidden", inside[_i].used ? 0x50000000 + SO_TEXT + 0x600 : 0, "symbol");
	want_name(mods, 0x50000000 + SO_TEXT + 0x61f, inside[_i].used ? "hidden" : NULL, 0x1f);
	want_name(mods, 0x50000000 + SO_TEXT + 0x10, "PyEval_Go", 0);
	modules_close(mods);
	image_close(img);
	build_elf_free(b);
	free(file);
	free(whole);
}
END_TEST

#if HAVE_LZMA
static struct blob pack(const uint8_t *p, size_t len)
{
	size_t room = lzma_stream_buffer_bound(len), n = 0;
	uint8_t *buf = xmalloc(room);
	ck_assert_int_eq(lzma_easy_buffer_encode(6, LZMA_CHECK_CRC64, NULL, p, len, buf, &n, room), LZMA_OK);
	return (struct blob){ buf, n };
}

enum packed { WHOLE, DAMAGED, CUT, NOT_XZ, NOT_ELF, OTHER_MACHINE };
static const struct { const char *what; enum packed how; bool good; } minis[] = {
	{ "whole", WHOLE, true }, { "damaged", DAMAGED, false }, { "cut", CUT, false }, { "not xz", NOT_XZ, false }, { "not ELF", NOT_ELF, false },
	{ "of another machine", OTHER_MACHINE, false },
};

/* A file that was stripped, with a .gnu_debugdata. */
START_TEST(mini_debug_info)
{
	static const struct so_symbol mini_symbols[] = { { "hidden", SO_TEXT + 0x600, 0x20, true, false }, { "sizeless", SO_TEXT + 0x700, 0, true, false } };
	struct build_elf *b = build_so_core("x86_64");
	struct build_so so = { .abi = *build_elf_abi(b), .build_id = "12345678", .symbols = symbols, .n_symbols = N_SYMS, .stripped = true };
	struct build_so kept = { .abi = so.abi, .symbols = mini_symbols, .n_symbols = 2 };
	if (minis[_i].how == OTHER_MACHINE)
		kept.abi.machine = EM_AARCH64;
	uint8_t *debug = build_so(&kept);
	if (minis[_i].how == NOT_ELF)
		debug[0] = 'x';
	so.debugdata = pack(debug, SO_FILE);
	uint8_t *packed = (uint8_t *)(uintptr_t)so.debugdata.p;
	ck_assert_uint_lt(so.debugdata.len, 0x1000);
	if (minis[_i].how == DAMAGED)
		packed[so.debugdata.len / 2] ^= 0x40;
	if (minis[_i].how == CUT)
		so.debugdata.len -= 20;
	if (minis[_i].how == NOT_XZ)
		packed[0] = 'x';
	uint8_t *file = build_so(&so);
	file_write(path, file, SO_FILE);
	build_so_map(b, &so, file, 0x50000000, path, SO_USUAL);
	struct image *img = build_elf_open(b);
	struct modules *mods = open_modules(img, true);
	const struct module *m;
	ck_assert_uint_eq(modules_list(mods, &m), 1);
	ck_assert_int_eq(m->symbols, SYMBOLS_MINI);
	ck_assert_int_eq(m->mini_rc, 0);
	want_name(mods, 0x50000000 + SO_TEXT + 0x61f, minis[_i].good ? "hidden" : NULL, 0x1f);
	want_name(mods, 0x50000000 + SO_TEXT + 0x10, "PyEval_Go", 0); /* dynamic symbols, which it leaves out */
	want_name(mods, 0x50000000 + SO_TEXT + 0x700, minis[_i].good ? "sizeless" : NULL, 0);
	modules_close(mods);
	image_close(img);
	build_elf_free(b);
	free(packed);
	free(debug);
	free(file);
}
END_TEST

static int memory_read(void *ctx, uint64_t at, void *buf, size_t len)
{
	const struct blob *b = ctx;
	if (at > b->len || len > b->len - at)
		return ERR_FAULT;
	memcpy(buf, b->p + at, len);
	return 0;
}

/* However much it says or makes, so much is taken. */
START_TEST(mini_bounds)
{
	struct build_so so = { .abi = { EM_X86_64, 8, false }, .symbols = symbols, .n_symbols = N_SYMS };
	uint8_t *file = xcalloc(1, MINI_MAX + 1), *head = build_so(&so);
	memcpy(file, head, SO_FILE);
	struct mini m;
	const struct { size_t len; uint64_t room; int rc; } rows[] = {
		{ SO_FILE, SO_FILE, 0 }, { SO_FILE, SO_FILE - 1, ERR_LIMIT }, { MINI_MAX, UINT64_MAX, 0 }, { MINI_MAX + 1, UINT64_MAX, ERR_LIMIT },
	};
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		struct blob packed = pack(file, rows[i].len);
		struct elf_source src = { memory_read, &packed };
		ck_assert_int_eq(mini_read(&src, 0, packed.len, rows[i].room, &m), rows[i].rc);
		if (!rows[i].rc) {
			ck_assert_uint_eq(m.n, rows[i].len);
			mini_free(&m);
		}
		ck_assert_int_eq(mini_read(&src, 0, packed.len + 1, rows[i].room, &m) < 0, true); /* runs out of the file */
		ck_assert_int_eq(mini_read(&src, UINT64_MAX - 2, packed.len, rows[i].room, &m), ERR_CORRUPT);
		free((void *)(uintptr_t)packed.p);
	}
	ck_assert_int_eq(mini_check((uint64_t)MINI_PACKED_MAX + 1), ERR_LIMIT);
	ck_assert_int_eq(mini_check(MINI_PACKED_MAX), 0);
	free(file);
	free(head);
}
END_TEST
#endif

/* The core was cut off before .dynamic: the tables are the file's, local symbols or not. */
START_TEST(dynamic_lost)
{
	struct build_elf *b = build_so_core("x86_64");
	struct build_so so = { .abi = *build_elf_abi(b), .build_id = "12345678", .symbols = symbols, .n_symbols = N_SYMS, .stripped = _i == 1 };
	uint8_t *file = build_so(&so);
	file_write(path, file, SO_FILE);
	build_so_map(b, &so, file, 0x50000000, path, SO_USUAL);
	struct blob core = build_elf_finish(b);
	struct image *img;
	ck_assert_int_eq(image_open_bytes(bytes_from_memory(core.p, core.len - 0x2000, "core"), &img, NULL), 0);
	struct modules *mods = open_modules(img, true);
	want_symbol(mods, "_PyRuntime", 0x50000000 + SO_RUNTIME, "symbol");
	want_symbol(mods, "hidden", _i == 1 ? 0 : 0x50000000 + SO_TEXT + 0x600, "symbol");
	want_name(mods, 0x50000000 + SO_TEXT + 0x10, "PyEval_Go", 0);
	modules_close(mods);
	image_close(img);
	build_elf_free(b);
	free(file);
}
END_TEST

/* The program's own before libpython's before any other's; but a local one of these before an exported one elsewhere. */
START_TEST(order)
{
	static const struct so_symbol all[] = {
		{ "everywhere", SO_TEXT + 0x10, 8, true, true }, { "not_in_exe", SO_TEXT + 0x20, 8, true, true },
		{ "local_in_exe", SO_TEXT + 0x30, 8, true, true }, { "only_other", SO_TEXT + 0x40, 8, true, true },
		{ "exe_or_other", SO_TEXT + 0x50, 8, true, true },
	};
	static const struct so_symbol in_exe[] = {
		{ "everywhere", SO_TEXT + 0x10, 8, true, true }, { "local_in_exe", SO_TEXT + 0x30, 8, true, false },
		{ "exe_or_other", SO_TEXT + 0x50, 8, true, false },
	};
	struct build_elf *b = build_so_core("x86_64");
	struct build_so exe = { .abi = *build_elf_abi(b), .build_id = "exe1", .symbols = in_exe, .n_symbols = 3 };
	struct build_so lib = { .abi = *build_elf_abi(b), .build_id = "lib1", .symbols = all, .n_symbols = 3 };
	struct build_so other = { .abi = *build_elf_abi(b), .build_id = "oth1", .symbols = all, .n_symbols = 5 };
	uint8_t *exe_file = build_so(&exe), *lib_file = build_so(&lib), *other_file = build_so(&other);
	file_write(path, exe_file, SO_FILE);
	build_so_map(b, &other, other_file, 0x30000000, "/nowhere/libother.so", SO_USUAL | SO_READ_ONLY);
	build_so_map(b, &lib, lib_file, 0x40000000, "/nowhere/libpython3.12.so.1.0", SO_USUAL | SO_READ_ONLY);
	build_so_map(b, &exe, exe_file, 0x50000000, path, SO_USUAL);
	build_elf_auxv(b, AT_ENTRY, 0x50000000 + SO_TEXT);
	struct image *img = build_elf_open(b);
	struct modules *mods = open_modules(img, true);
	want_symbol(mods, "everywhere", 0x50000000 + SO_TEXT + 0x10, "dynamic");
	want_symbol(mods, "not_in_exe", 0x40000000 + SO_TEXT + 0x20, "dynamic");
	want_symbol(mods, "local_in_exe", 0x40000000 + SO_TEXT + 0x30, "dynamic");
	want_symbol(mods, "only_other", 0x30000000 + SO_TEXT + 0x40, "dynamic");
	want_symbol(mods, "exe_or_other", 0x50000000 + SO_TEXT + 0x50, "symbol");
	modules_close(mods);
	image_close(img);
	build_elf_free(b);
	free(exe_file);
	free(lib_file);
	free(other_file);
}
END_TEST

/* Tables that lie.  Each is `width` bytes of `value` at `at` of the file; the answer is "no such symbol", in bounded time. */
static const struct {
	const char *name;
	size_t at, width;
	uint64_t value;
	bool sysv;
} lies[] = {
	{ "no buckets", SO_GNU_HASH, 4, 0, false },
	{ "all the buckets", SO_GNU_HASH, 4, 0xffffffff, false },
	{ "bloom words not a power of two", SO_GNU_HASH + 8, 4, 3, false },
	{ "bloom words past the module", SO_GNU_HASH + 8, 4, 0x80000000, false },
	{ "no bloom words", SO_GNU_HASH + 8, 4, 0, false },
	{ "first symbol past the buckets", SO_GNU_HASH + 4, 4, 0xffffffff, false },
	{ "buckets point past the module", SO_GNU_HASH + 32, 4, 0x7fffffff, false },
	{ "no buckets", SO_HASH, 4, 0, true },
	{ "all the buckets", SO_HASH, 4, 0xffffffff, true },
	{ "all the chains", SO_HASH + 4, 4, 0xffffffff, true },
	{ "a symbol out of reach", SO_HASH + 8, 4, 0x7ffffff, true },
	{ "symbols outside of the module", SO_DATA_FILE + 24, 8, 0x10, true },
	{ "symbols at its very end", SO_DATA_FILE + 24, 8, SO_SPAN - 1, true },
	{ "strings outside of it", SO_DATA_FILE + 8, 8, 0x7000, true },
	{ "strings at its very end", SO_DATA_FILE + 8, 8, SO_SPAN - 1, true },
	{ "strange symbols", SO_DATA_FILE + 56, 8, 25, true },
	{ "names out of reach", SO_DYNSYM + 24, 4, 0xffffffff, true },
	{ "names out of reach", SO_DYNSYM + 24, 4, 0xffffffff, false },
};

START_TEST(lying_tables)
{
	static const struct so_symbol one[] = { { "_PyRuntime", SO_RUNTIME, 0x100, false, true } };
	struct build_elf *b = build_so_core("x86_64");
	struct build_so so = { .abi = *build_elf_abi(b), .symbols = one, .n_symbols = 1, .no_gnu_hash = lies[_i].sysv,
		.no_sysv_hash = !lies[_i].sysv, .stripped = true };
	uint8_t *file = build_so(&so);
	build_elf_put(b, file + lies[_i].at, lies[_i].width, lies[_i].value);
	if (lies[_i].at == SO_GNU_HASH + 32)
		for (size_t i = 0; i < 3; i++)
			build_elf_put(b, file + SO_GNU_HASH + 32 + 4 * i, 4, lies[_i].value);
	if (lies[_i].at == SO_HASH + 8)
		for (size_t i = 0; i < 3; i++)
			build_elf_put(b, file + SO_HASH + 8 + 4 * i, 4, lies[_i].value);
	build_so_map(b, &so, file, 0x50000000, "/nowhere/libx.so", (SO_USUAL & ~SO_RELOCATED) | SO_READ_ONLY);
	struct image *img = build_elf_open(b);
	struct modules *mods = open_modules(img, false);
	want_symbol(mods, "_PyRuntime", 0, NULL);
	want_name(mods, 0x50000000 + SO_TEXT, NULL, 0);
	modules_close(mods);
	image_close(img);
	build_elf_free(b);
	free(file);
}
END_TEST

/* Chains without an end: the System V one loops, the GNU one runs into 256 MiB of zeros. */
START_TEST(endless_chains)
{
	static const struct so_symbol one[] = { { "_PyRuntime", SO_RUNTIME, 0x100, false, true } };
	struct build_elf *b = build_so_core("x86_64");
	struct build_so so = { .abi = *build_elf_abi(b), .symbols = one, .n_symbols = 1, .no_gnu_hash = _i == 0, .no_sysv_hash = _i == 1 };
	uint8_t *file = build_so(&so);
	if (_i == 0) {
		build_elf_put(b, file + SO_DYNSTR + 1, 1, 'x');      /* the name does not fit, */
		build_elf_put(b, file + SO_HASH + 8 + 12 + 4, 4, 1); /* and the next after it is itself */
	} else {
		build_elf_put(b, file + SO_GNU_HASH + 32 + 12, 4, 0);
		build_elf_put(b, file + 64 + 3 * 56 + 40, 8, 0x10000000); /* p_memsz of .data */
		memset(file + SO_GNU_HASH + 32, 0, 12);
		for (size_t i = 0; i < 3; i++)
			build_elf_put(b, file + SO_GNU_HASH + 32 + 4 * i, 4, 0x10000);
	}
	build_so_map(b, &so, file, 0x50000000, "/nowhere/libx.so", (SO_USUAL & ~SO_RELOCATED) | SO_READ_ONLY);
	if (_i == 1)
		build_elf_memory(b, 0x50000000 + 0x6000, 1 << 20, 3);
	struct image *img = build_elf_open(b);
	struct modules *mods = open_modules(img, false);
	want_symbol(mods, "_PyRuntime", 0, NULL);
	want_name(mods, 0x50000000 + SO_TEXT, NULL, 0);
	modules_close(mods);
	image_close(img);
	build_elf_free(b);
	free(file);
}
END_TEST

/* Functions without a size end with their section: what follows _init is stubs of the PLT.  _i: the file, the image alone. */
START_TEST(sizeless)
{
	static const struct so_symbol some[] = {
		{ SO_NAME_INIT, SO_TEXT, 0, true, true },
		{ "first", SO_TEXT + 0x100, 0, true, true },
		{ "alias", SO_TEXT + 0x200, 0x20, true, true }, { "lias", SO_TEXT + 0x200, 0, true, true },
		{ "second", SO_TEXT + 0x300, 0x10, true, true },
		{ SO_NAME_STUB, SO_RUNTIME + 0x10, 0, true, true },
	};
	struct build_elf *b = build_so_core("x86_64");
	struct build_so so = { .abi = *build_elf_abi(b), .build_id = "12345678", .symbols = some, .n_symbols = sizeof some / sizeof *some };
	uint8_t *file = build_so(&so);
	file_write(path, file, SO_FILE);
	build_so_map(b, &so, file, 0x50000000, _i ? "/nowhere/libx.so" : path, SO_USUAL | SO_READ_ONLY);
	struct image *img = build_elf_open(b);
	struct modules *mods = open_modules(img, !_i);
	const addr_t text = 0x50000000 + SO_TEXT, runtime = 0x50000000 + SO_RUNTIME;
	want_name(mods, text, SO_NAME_INIT, 0);
	want_name(mods, text + 1, NULL, 0);
	want_name(mods, text + 0xff, NULL, 0);
	want_name(mods, text + 0x1ff, "first", 0xff);
	want_name(mods, text + 0x21f, "alias", 0x1f);
	want_name(mods, text + 0x220, NULL, 0);
	want_name(mods, text + 0x310, NULL, 0);
	want_name(mods, runtime + 0x10, SO_NAME_STUB, 0);
	want_name(mods, runtime + 0xff, _i ? NULL : SO_NAME_STUB, 0xef);
	want_name(mods, runtime + 0x100, NULL, 0);
	modules_close(mods);
	image_close(img);
	build_elf_free(b);
	free(file);
}
END_TEST

/* A name in a lying file is escaped, not passed on as it is. */
START_TEST(names_are_text)
{
	static const struct so_symbol one[] = { { "a\xff\x1b[1mb", SO_TEXT, 0x10, true, true } };
	struct build_elf *b = build_so_core("x86_64");
	struct build_so so = { .abi = *build_elf_abi(b), .symbols = one, .n_symbols = 1 };
	uint8_t *file = build_so(&so);
	build_so_map(b, &so, file, 0x50000000, "/nowhere/libx.so", SO_USUAL | SO_READ_ONLY);
	struct image *img = build_elf_open(b);
	struct modules *mods = open_modules(img, false);
	struct str name;
	uint64_t off;
	ck_assert_int_eq(modules_name(mods, 0x50000000 + SO_TEXT, &name, &off), 0);
	ck_assert(str_valid(name.s, name.len));
	modules_close(mods);
	image_close(img);
	build_elf_free(b);
	free(file);
}
END_TEST

/* Random damage to the tables of the image and of the file: any answer, but no crash and no read outside. */
START_TEST(damaged_tables)
{
	uint64_t seed = 362436069362436069u + (uint64_t)_i;
	struct build_elf *probe = build_elf_new(abis[_i]);
	struct build_so so = { .abi = *build_elf_abi(probe), .build_id = "12345678", .symbols = symbols, .n_symbols = N_SYMS };
	uint8_t *good = build_so(&so);
	for (int round = 0; round < 120; round++) {
		struct build_elf *b = build_so_core(abis[_i]);
		uint8_t *file = xmalloc(SO_FILE);
		memcpy(file, good, SO_FILE);
		for (int k = 0; k < 1 + round % 6; k++) {
			static const struct { size_t at, size; } area[] = {
				{ SO_GNU_HASH, 0x60 }, { SO_HASH, 0x60 }, { SO_DYNSYM, 0xf0 }, { SO_DYNSTR, 0x80 },
				{ SO_DATA_FILE, 0x90 }, { 0x4000, 0xf0 }, { 0x5000, 0x1c0 }, { 0x5800, 0x40 },
			};
			static const uint8_t odd[] = { 0, 1, 0x7f, 0x80, 0xff };
			draw(&seed);
			size_t a = (seed >> 4) % 8, where = area[a].at + (seed >> 16) % area[a].size;
			file[where] = seed % 3 ? odd[(seed >> 40) % 5] : (uint8_t)(seed >> 48);
		}
		file_write(path, file, SO_FILE);
		build_so_map(b, &so, file, 0x50000000, path, round % 2 ? SO_USUAL : SO_USUAL | SO_READ_ONLY);
		struct image *img = build_elf_open(b);
		struct modules *mods = open_modules(img, round % 4 > 0);
		addr_t at;
		uint64_t size;
		struct str name;
		for (size_t i = 0; i < N_SYMS; i++) {
			(void)!modules_symbol(mods, symbols[i].name, &at, &size, NULL);
			if (modules_name(mods, 0x50000000 + symbols[i].value + 1, &name, &size) == 0)
				ck_assert(str_valid(name.s, name.len));
		}
		(void)!modules_section(mods, ".PyRuntime", &at, &size);
		modules_close(mods);
		image_close(img);
		build_elf_free(b);
		free(file);
	}
	build_elf_free(probe);
	free(good);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("symbol");
	TCase *tc = tcase_create("symbol");
	tcase_set_timeout(tc, 120);
	tcase_add_checked_fixture(tc, make_files, remove_files);
	tcase_add_loop_test(tc, in_the_image, 0, 12 * N_ABIS);
	tcase_add_test(tc, learnt_in_a_pause);
	tcase_add_loop_test(tc, in_the_file, 0, N_ABIS);
	tcase_add_loop_test(tc, renamed, 0, N_ABIS);
	tcase_add_loop_test(tc, strings_in_pieces, 0, 4);
	tcase_add_loop_test(tc, travelled, 0, COUNT(inside));
#if HAVE_LZMA
	tcase_add_loop_test(tc, mini_debug_info, 0, COUNT(minis));
	tcase_add_test(tc, mini_bounds);
#endif
	tcase_add_loop_test(tc, dynamic_lost, 0, 2);
	tcase_add_test(tc, order);
	tcase_add_loop_test(tc, lying_tables, 0, COUNT(lies));
	tcase_add_loop_test(tc, endless_chains, 0, 2);
	tcase_add_test(tc, names_are_text);
	tcase_add_loop_test(tc, sizeless, 0, 2);
	tcase_add_loop_test(tc, damaged_tables, 0, N_ABIS);
	suite_add_tcase(s, tc);
	return suite_run(s);
}
