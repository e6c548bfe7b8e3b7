/* The list of modules, which files are used for them, and what is laid beneath an image. */
#include <check.h>
#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "build_so.h"
#include "module/native.h"
#include "suite.h"

static const struct so_symbol symbols[] = {
	{ "_PyRuntime", SO_RUNTIME, 0x100, false, true },
	{ "PyEval_Go", SO_TEXT + 0x10, 0x20, true, true },
	{ "hidden", SO_TEXT + 0x40, 0x20, true, false },
};
static const struct so_symbol *const syms = symbols;
enum { N_SYMS = 3 };
static const char ID[] = "0123456789abcdefghij", OTHER_ID[] = "another-build-of-it!";

static char dir[64], path[128], other_path[128];

static void make_dir(void)
{
	strcpy(dir, "/tmp/test_module.XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(dir));
	snprintf(path, sizeof path, "%s/libx.so", dir);
	snprintf(other_path, sizeof other_path, "%s/other/libx.so", dir);
	char other[128];
	snprintf(other, sizeof other, "%s/other", dir);
	ck_assert_int_eq(mkdir(other, 0700), 0);
}

static void remove_dir(void)
{
	char other[128];
	snprintf(other, sizeof other, "%s/other", dir);
	unlink(path);
	unlink(other_path);
	rmdir(other);
	rmdir(dir);
}

static struct build_so so_of(const struct build_elf *b, addr_t base)
{
	return (struct build_so){ .abi = *build_elf_abi(b), .base = base, .build_id = ID, .symbols = syms, .n_symbols = N_SYMS };
}

static struct modules *open_modules(struct image *img, const struct search *where)
{
	struct modules *mods;
	struct err err;
	ck_assert_int_eq(modules_open(img, where, &mods, &err), 0);
	return mods;
}

static const struct module *only(struct modules *mods)
{
	const struct module *m;
	ck_assert_uint_eq(modules_list(mods, &m), 1);
	return m;
}

static int byte_at(struct image *img, addr_t at)
{
	uint8_t byte;
	int rc = image_read(img, at, &byte, 1);
	return rc < 0 ? rc : byte;
}

static const char *const abis[] = { "x86_64", "i386", "aarch64", "ppc64", "s390x", "arm" };
enum { N_ABIS = sizeof abis / sizeof *abis };

/* Every machine, PIE and not: places, build-id, symbols, and what comes from the file. */
START_TEST(usual_core)
{
	struct build_elf *b = build_so_core(abis[_i / 2]);
	const addr_t base = _i % 2 ? 0x400000 : 0, bias = _i % 2 ? 0 : 0x50000000, at = base + bias;
	struct build_so so = so_of(b, base);
	uint8_t *file = build_so(&so);
	file_write(path, file, SO_FILE);
	build_so_map(b, &so, file, bias, path, SO_USUAL);
	build_elf_auxv(b, AT_ENTRY, at + SO_TEXT);
	struct image *img = build_elf_open(b);
	ck_assert_int_eq(byte_at(img, at + SO_TEXT), ERR_FAULT);
	struct modules *mods = open_modules(img, &(struct search){ 0 });
	const struct module *m = only(mods);
	ck_assert_uint_eq(m->start, at);
	ck_assert_uint_eq(m->end, at + SO_SPAN);
	ck_assert_uint_eq(m->bias, bias);
	ck_assert(m->bias_known && m->headers_in_image && m->exe && !m->vdso && !m->unverified);
	ck_assert_uint_eq(m->build_id.len, strlen(ID));
	ck_assert_int_eq(memcmp(m->build_id.p, ID, strlen(ID)), 0);
	ck_assert_str_eq(m->file, path);
	ck_assert_ptr_null(m->disk_path);
	ck_assert_int_eq(m->symbols, SYMBOLS_FULL);
	ck_assert_ptr_eq(modules_exe(mods), m);
	ck_assert_ptr_eq(modules_at(mods, at), m);
	ck_assert_ptr_eq(modules_at(mods, at + SO_SPAN - 1), m);
	ck_assert_ptr_null(modules_at(mods, at + SO_SPAN));
	ck_assert_ptr_null(modules_at(mods, at - 1));
	/* Text and read-only data are the file's; what the core has is the core's, also where the file says otherwise. */
	ck_assert_int_eq(byte_at(img, at + SO_TEXT), 0xc3);
	ck_assert_int_eq(byte_at(img, at + SO_TEXT + 0xfff), 0xc3);
	ck_assert_int_eq(byte_at(img, at + SO_DYNSTR + 1), file[SO_DYNSTR + 1]);
	ck_assert_int_eq(byte_at(img, at + SO_DATA + 0xfff), 0xee);
	ck_assert_int_eq(byte_at(img, at + SO_DATA + 0x1fff), 0xee);
	ck_assert_int_eq(byte_at(img, at + SO_DATA + 0xffe), 0xdd);
	ck_assert_int_eq(byte_at(img, at + 0x3000), ERR_FAULT);
	const struct segment *seg = image_segment_at(img, at + SO_TEXT);
	ck_assert(seg && seg->from_file && seg->prot == 5);
	modules_close(mods);
	image_close(img);
	build_elf_free(b);
	free(file);
}
END_TEST

/* What is (not) taken from disk. */
enum on_disk { SAME, OTHER, MISSING, NOT_ELF, NO_ID, TRUNCATED_FILE, FIFO, SAME_ELSEWHERE };
static const struct {
	const char *name;
	enum on_disk disk;
	const char *suffix;        /* of the path in the core */
	bool no_id;                /* the core's module has no build-id */
	unsigned map;
	bool ask, ask_exe;         /* --lib-path (with the other build in it), -e */
	bool used, unverified, mismatch;
	enum symbols symbols;
	const char *noted;         /* the build-id that a snapshot noted */
} files[] = {
	{ "same build", SAME, "", false, SO_USUAL, false, false, true, false, false, SYMBOLS_FULL },
	{ "deleted, and put back", SAME, " (deleted)", false, SO_USUAL, false, false, true, false, false, SYMBOLS_FULL },
	{ "replaced", OTHER, " (deleted)", false, SO_USUAL, false, false, false, false, true, SYMBOLS_MISMATCH },
	{ "another build", OTHER, "", false, SO_USUAL, false, false, false, false, true, SYMBOLS_MISMATCH },
	{ "another build, but symbols in the image", OTHER, "", false, SO_USUAL | SO_READ_ONLY, false, false, false, false, true, SYMBOLS_DYNSYM },
	{ "missing", MISSING, "", false, SO_USUAL, false, false, false, false, false, SYMBOLS_NONE },
	{ "not ELF", NOT_ELF, "", false, SO_USUAL, false, false, false, false, false, SYMBOLS_NONE },
	{ "file without build-id", NO_ID, "", false, SO_USUAL, false, false, false, false, true, SYMBOLS_MISMATCH },
	{ "a fifo", FIFO, "", false, SO_USUAL, false, false, false, false, false, SYMBOLS_NONE },
	{ "no id in memory", NO_ID, "", true, SO_USUAL, false, false, false, false, false, SYMBOLS_NONE },
	{ "no id in memory, asked for", NO_ID, "", true, SO_USUAL, false, true, true, true, false, SYMBOLS_FULL },
	{ "no headers", SAME, "", false, SO_USUAL & ~SO_HEADERS, false, false, false, false, false, SYMBOLS_NONE },
	{ "no headers, asked for", SAME, "", false, SO_USUAL & ~SO_HEADERS, false, true, true, true, false, SYMBOLS_FULL },
	{ "no headers, noted", SAME, "", false, SO_USUAL & ~SO_HEADERS, false, false, true, false, false, SYMBOLS_FULL, ID },
	{ "no headers, noted, another build on disk", OTHER, "", false, SO_USUAL & ~SO_HEADERS, false, false, false, false, true, SYMBOLS_MISMATCH, ID },
	{ "no headers, noted, asked for another build", SAME, "", false, SO_USUAL & ~SO_HEADERS, false, true, false, false, true, SYMBOLS_MISMATCH, OTHER_ID },
	{ "no headers, noted without an id", SAME, "", false, SO_USUAL & ~SO_HEADERS, false, false, false, false, false, SYMBOLS_NONE, "" },
	{ "memory knows better than the note", SAME, "", false, SO_USUAL, false, false, true, false, false, SYMBOLS_FULL, OTHER_ID },
	{ "memory knows that there is none", NO_ID, "", true, SO_USUAL, false, false, false, false, false, SYMBOLS_NONE, OTHER_ID },
	{ "the user names another build", SAME_ELSEWHERE, "", false, SO_USUAL, true, false, true, false, true, SYMBOLS_FULL },
};

START_TEST(file_choice)
{
	struct build_elf *b = build_so_core("x86_64");
	const addr_t bias = 0x50000000;
	struct build_so so = so_of(b, 0), other = so;
	char in_core[160], lib[128];
	snprintf(in_core, sizeof in_core, "%s%s", path, files[_i].suffix);
	snprintf(lib, sizeof lib, "%s/other", dir);
	other.build_id = OTHER_ID;
	if (files[_i].no_id)
		so.build_id = NULL;
	uint8_t *file = build_so(&so), *on_disk;
	if (files[_i].disk == NO_ID)
		other.build_id = NULL;
	on_disk = files[_i].disk == OTHER || files[_i].disk == NO_ID ? build_so(&other) : build_so(&so);
	switch (files[_i].disk) {
	case MISSING:
		break;
	case NOT_ELF:
		file_write(path, (const uint8_t *)"no such thing", 13);
		break;
	case FIFO:
		ck_assert_int_eq(mkfifo(path, 0600), 0);
		break;
	case SAME_ELSEWHERE: {
		uint8_t *wrong = build_so(&other);
		file_write(other_path, wrong, SO_FILE);
		free(wrong);
		file_write(path, on_disk, SO_FILE);
		break;
	}
	default:
		file_write(path, on_disk, SO_FILE);
	}
	build_so_map(b, &so, file, bias, in_core, files[_i].map);
	build_elf_auxv(b, AT_ENTRY, bias + SO_TEXT);
	struct image *img = build_elf_open(b);
	const char *noted = files[_i].noted;
	struct noted_file note[] = {
		{ bias - 0x2000, bias - 0x1000, { (const uint8_t *)OTHER_ID, strlen(OTHER_ID) } },
		{ bias, bias + SO_SPAN, { (const uint8_t *)noted, noted ? strlen(noted) : 0 } },
		{ bias + SO_SPAN, bias + 2 * SO_SPAN, { (const uint8_t *)OTHER_ID, strlen(OTHER_ID) } },
	};
	if (noted) {
		image_facts_mut(img)->noted = note;
		image_facts_mut(img)->n_noted = 3;
	}
	const char *const lib_path[] = { lib, NULL };
	struct search where = { .exe = files[_i].ask_exe ? path : NULL, .lib_path = files[_i].ask ? lib_path : NULL };
	struct modules *mods = open_modules(img, &where);
	const struct module *m = only(mods);
	ck_assert_msg((m->file != NULL) == files[_i].used, "%s: file %s", files[_i].name, m->file ? m->file : "-");
	ck_assert_msg(m->unverified == files[_i].unverified, "%s: unverified", files[_i].name);
	ck_assert_msg((m->disk_path != NULL) == files[_i].mismatch, "%s: mismatch %s", files[_i].name, m->disk_path ? m->disk_path : "-");
	ck_assert_msg(m->disk_named == (files[_i].mismatch && (files[_i].ask || files[_i].ask_exe)), "%s: named", files[_i].name);
	bool no_id = files[_i].no_id || (!(files[_i].map & SO_HEADERS) && !(noted && *noted));
	ck_assert_msg((m->unproven != NULL) == (no_id && !files[_i].used), "%s: unproven %s", files[_i].name, m->unproven ? m->unproven : "-");
	ck_assert_msg(m->symbols == files[_i].symbols, "%s: symbols %d", files[_i].name, m->symbols);
	if (files[_i].disk == OTHER || files[_i].disk == SAME_ELSEWHERE) {
		ck_assert_uint_eq(m->disk_build_id.len, strlen(OTHER_ID));
		ck_assert_int_eq(memcmp(m->disk_build_id.p, OTHER_ID, strlen(OTHER_ID)), 0);
	}
	ck_assert_int_eq(byte_at(img, bias + SO_TEXT), files[_i].used || files[_i].map & SO_READ_ONLY ? 0xc3 : ERR_FAULT);
	ck_assert_uint_eq(m->start, bias);
	ck_assert_int_eq(m->bias_known, files[_i].used || files[_i].map & SO_HEADERS);
	addr_t at;
	uint64_t size;
	ck_assert_int_eq(modules_symbol(mods, "hidden", &at, &size, NULL), files[_i].used ? 0 : ERR_ABSENT);
	modules_close(mods);
	image_close(img);
	build_elf_free(b);
	free(file);
	free(on_disk);
}
END_TEST

/* A file that the user names is refused where it cannot be the one: other loads, or another dynamic section in memory. */
START_TEST(asked_file_must_fit)
{
	struct build_elf *b = build_so_core("x86_64");
	struct build_so so = so_of(b, 0), other = so;
	so.build_id = other.build_id = NULL;
	uint8_t *file = build_so(&so);
	if (_i == 0)
		other.n_symbols = 1; /* another DT_STRSZ */
	uint8_t *on_disk = build_so(&other);
	if (_i == 1)
		on_disk[64 + 2 * 56 + 17] = 0x40; /* p_vaddr of .text: 0x4000, overlaps */
	if (_i == 2)
		on_disk[64 + 3 * 56 + 17] = 0x50; /* p_vaddr of .data: 0x5000 */
	file_write(path, on_disk, SO_FILE);
	build_so_map(b, &so, file, 0x50000000, path, SO_USUAL & ~SO_HEADERS);
	build_elf_auxv(b, AT_ENTRY, 0x50000000 + SO_TEXT);
	struct image *img = build_elf_open(b);
	struct modules *mods = open_modules(img, &(struct search){ .exe = path });
	const struct module *m = only(mods);
	ck_assert(m->exe);
	if (_i == 3) {
		ck_assert_str_eq(m->file, path);
		ck_assert_uint_eq(m->bias, 0x50000000);
	} else {
		ck_assert_ptr_null(m->file);
		ck_assert(!m->bias_known);
		ck_assert_int_eq(byte_at(img, 0x50000000 + SO_TEXT), ERR_FAULT);
	}
	ck_assert_uint_eq(m->start, 0x50000000);
	modules_close(mods);
	image_close(img);
	build_elf_free(b);
	free(file);
	free(on_disk);
}
END_TEST

/* One file mapped twice is two modules; a locale archive, a catalogue and a file that was only read are none. */
START_TEST(what_is_a_module)
{
	struct build_elf *b = build_so_core("x86_64");
	struct build_so so = so_of(b, 0);
	uint8_t *file = build_so(&so);
	file_write(path, file, SO_FILE);
	build_so_map(b, &so, file, 0x50000000, path, SO_USUAL);
	build_so_map(b, &so, file, 0x50006000, path, SO_USUAL);
	build_so_map(b, &so, file, 0x60000000, "/nowhere/liby.so", SO_USUAL);
	build_elf_load(b, 0x61000000, file, SO_FILE, 1); /* open(); mmap() of the whole */
	build_elf_file(b, 0x61000000, 0x61006000, 0, path);
	build_elf_absent(b, 0x62000000, 0x2000, 1);
	build_elf_file(b, 0x62000000, 0x62002000, 0, "/usr/lib/locale/locale-archive");
	build_elf_load(b, 0x63000000, "\336\022\004\225 a catalogue", 16, 1);
	build_elf_file(b, 0x63000000, 0x63001000, 0, "/usr/share/locale/x.mo");
	build_elf_absent(b, 0x64000000, 0x2000, 3);
	build_elf_file(b, 0x64000000, 0x64002000, 0, "/dev/zero (deleted)");
	build_elf_absent(b, 0x65000000, 0x1000, 5); /* a page of text once more: libffi's closures */
	build_elf_file(b, 0x65000000, 0x65001000, SO_TEXT, path);
	struct image *img = build_elf_open(b);
	struct modules *mods = open_modules(img, &(struct search){ 0 });
	const struct module *m;
	ck_assert_uint_eq(modules_list(mods, &m), 3);
	ck_assert_uint_eq(m[0].start, 0x50000000);
	ck_assert_uint_eq(m[1].start, 0x50006000);
	ck_assert_uint_eq(m[1].bias, 0x50006000);
	ck_assert_uint_eq(m[2].start, 0x60000000);
	ck_assert_ptr_null(m[2].file);
	ck_assert_int_eq(byte_at(img, 0x50006000 + SO_TEXT), 0xc3);
	ck_assert_int_eq(byte_at(img, 0x60000000 + SO_TEXT), ERR_FAULT);
	modules_close(mods);
	image_close(img);
	build_elf_free(b);
	free(file);
}
END_TEST

/* Writable loads: filled only where they are known not to have been written to. */
static const struct {
	const char *name;
	bool stack, cut;
	int want;
} writable[] = {
	{ "left out although private memory is kept: clean", true, false, 0xdd },
	{ "private memory is not kept (coredump_filter 0x10)", false, false, ERR_FAULT },
	{ "cut off", true, true, ERR_FAULT },
};

START_TEST(writable_loads)
{
	struct build_elf *b = build_elf_new("x86_64");
	struct build_so so = so_of(b, 0);
	build_elf_thread(b, 100, 0x10000, 0x40000100);
	if (writable[_i].stack)
		build_elf_memory(b, 0x40000000, 0x1000, 3);
	uint8_t *file = build_so(&so);
	file_write(path, file, SO_FILE);
	build_so_map(b, &so, file, 0x50000000, path, SO_HEADERS | SO_FILE_NOTE | (writable[_i].cut ? SO_WRITABLE : 0));
	struct image *img = NULL;
	struct err err;
	struct blob core = build_elf_finish(b);
	struct bytes *bytes = bytes_from_memory(core.p, core.len - (writable[_i].cut ? 0x2000 : 0), "core");
	ck_assert_int_eq(image_open_bytes(bytes, &img, &err), 0);
	struct modules *mods = open_modules(img, &(struct search){ 0 });
	ck_assert_str_eq(only(mods)->file, path);
	ck_assert_msg(byte_at(img, 0x50000000 + SO_DATA + 0xff0) == writable[_i].want, "%s: %d", writable[_i].name,
		      byte_at(img, 0x50000000 + SO_DATA + 0xff0));
	ck_assert_int_eq(byte_at(img, 0x50000000 + SO_DATA + 0x1000), ERR_FAULT); /* .bss is nobody's file */
	ck_assert_int_eq(byte_at(img, 0x50000000 + SO_TEXT), 0xc3);
	modules_close(mods);
	image_close(img);
	build_elf_free(b);
	free(file);
}
END_TEST

/* Lists that lie: a file mapped over another, the vdso's header in the middle of one, one file again and again. */
START_TEST(overlaps)
{
	struct build_elf *b = build_so_core("x86_64");
	struct build_so so = so_of(b, 0), other = so;
	other.build_id = OTHER_ID;
	uint8_t *file = build_so(&so), *second = build_so(&other);
	file_write(path, file, SO_FILE);
	build_so_map(b, &so, file, 0x50000000, path, SO_USUAL | SO_READ_ONLY);
	switch (_i) {
	case 0:
		build_so_map(b, &other, second, 0x50002000, "/lib/over.so", SO_USUAL | SO_READ_ONLY);
		break;
	case 1:
		build_elf_auxv(b, AT_SYSINFO_EHDR, 0x50000000);
		break;
	case 2:
		for (addr_t at = 0; at < 40; at++)
			build_so_map(b, &other, second, 0x50001000 + at * 0x1000, "/lib/over.so", SO_HEADERS | SO_FILE_NOTE);
		break;
	case 3:
		build_elf_auxv(b, AT_SYSINFO_EHDR, UINT64_MAX - 0xfff);
		break;
	}
	build_elf_auxv(b, AT_ENTRY, 0x50000000 + SO_TEXT);
	struct image *img = build_elf_open(b);
	struct modules *mods = open_modules(img, &(struct search){ 0 });
	const struct module *m;
	size_t n = modules_list(mods, &m);
	ck_assert_uint_ge(n, 1);
	for (size_t i = 0; i < n; i++)
		ck_assert(m[i].end > m[i].start && (!i || m[i].start >= m[i - 1].start));
	struct native *native;
	const struct native_records *rec;
	struct err err = { 0 };
	ck_assert_int_eq(native_start(img, mods, &native_default, &native, &err), 0);
	ck_assert_msg(native_finish(native, &rec, &err) == 0, "%s", err.msg);
	native_close(native);
	struct str name;
	uint64_t off;
	for (addr_t at = 0x4ffff000; at < 0x50040000; at += 0x800)
		(void)!modules_name(mods, at, &name, &off);
	modules_close(mods);
	image_close(img);
	build_elf_free(b);
	free(file);
	free(second);
}
END_TEST

/* The file is exchanged, or shrinks, after its build-id was looked at: no page of the new one is shown, the old one is still open. */
START_TEST(file_changes)
{
	struct build_elf *b = build_so_core("x86_64");
	struct build_so so = so_of(b, 0);
	uint8_t *file = build_so(&so);
	file_write(path, file, SO_FILE);
	build_so_map(b, &so, file, 0x50000000, path, SO_USUAL);
	struct image *img = build_elf_open(b);
	struct modules *mods = open_modules(img, &(struct search){ 0 });
	if (_i == 0) {
		unlink(path);
		memset(file + SO_TEXT, 0x90, 0x1000);
		file_write(path, file, SO_FILE);
	} else {
		ck_assert_int_eq(truncate(path, 0x1000), 0);
	}
	ck_assert_int_eq(byte_at(img, 0x50000000 + SO_TEXT), _i == 0 ? 0xc3 : ERR_FAULT);
	ck_assert_int_eq(byte_at(img, 0x50000000), 0x7f);
	modules_close(mods);
	image_close(img);
	build_elf_free(b);
	free(file);
}
END_TEST

/* A file that is shorter than its headers say is used as far as it goes. */
START_TEST(short_file)
{
	struct build_elf *b = build_so_core("x86_64");
	struct build_so so = so_of(b, 0);
	uint8_t *file = build_so(&so);
	file_write(path, file, SO_TEXT + 0x800);
	build_so_map(b, &so, file, 0x50000000, path, SO_USUAL);
	struct image *img = build_elf_open(b);
	struct modules *mods = open_modules(img, &(struct search){ 0 });
	ck_assert_int_eq(byte_at(img, 0x50000000 + SO_TEXT + 0x7ff), 0xc3);
	ck_assert_int_eq(byte_at(img, 0x50000000 + SO_TEXT + 0x800), ERR_FAULT);
	modules_close(mods);
	image_close(img);
	build_elf_free(b);
	free(file);
}
END_TEST

/* Without a file note: the program from the auxiliary vector, the rest from r_debug; the vdso is a module, too. */
START_TEST(link_map)
{
	struct build_elf *b = build_so_core(abis[_i / 2]);
	const unsigned w = build_elf_abi(b)->width;
	const addr_t bias = _i % 2 ? 0 : 0x50000000, base = _i % 2 ? 0x400000 : 0, exe_at = bias + base;
	struct build_so exe = so_of(b, base), lib = so_of(b, 0), vdso = so_of(b, 0);
	uint8_t *exe_file = build_so(&exe), *lib_file = build_so(&lib), *vdso_file = build_so(&vdso);
	/* DT_DEBUG is the sixth or seventh entry: find it */
	build_so_map(b, &exe, exe_file, bias, "", SO_HEADERS);
	uint8_t *data = build_elf_memory(b, exe_at + SO_DATA, 0x1000, 3);
	memcpy(data, exe_file + SO_DATA_FILE, 0x1000);
	for (size_t i = 0; i < 20; i++) {
		uint8_t tag[8];
		build_elf_put(b, tag, w, DT_DEBUG);
		if (memcmp(data + 2 * i * w, tag, w) == 0) {
			build_elf_put(b, data + 2 * i * w + w, w, 0x20000);
			break;
		}
	}
	build_so_map(b, &lib, lib_file, 0x60000000, "", SO_HEADERS | SO_WRITABLE);
	build_so_map(b, &vdso, vdso_file, 0x61000000, "", SO_HEADERS | SO_READ_ONLY | SO_WRITABLE);
	uint8_t *r = build_elf_memory(b, 0x20000, 0x1000, 3);
	build_elf_put(b, r, 4, 1);
	build_elf_put(b, r + w, w, 0x20100);
	const addr_t maps[][3] = { { bias, 0x20800, exe_at + SO_DYNAMIC }, { 0x60000000, 0x20810, 0x60000000 + SO_DYNAMIC },
		{ 0x61000000, 0x20820, 0x61000000 + SO_DYNAMIC } }; /* glibc has the vdso in its list, under a name of its own */
	for (size_t i = 0; i < 3; i++) {
		uint8_t *lm = r + 0x100 + i * 0x100;
		for (size_t k = 0; k < 3; k++)
			build_elf_put(b, lm + k * w, w, maps[i][k]);
		build_elf_put(b, lm + 3 * w, w, i < 2 ? 0x20200 + i * 0x100 : 0x20100); /* and round again */
	}
	strcpy((char *)r + 0x810, "/lib/libx.so");
	strcpy((char *)r + 0x820, "linux-vdso.so.1");
	strcpy((char *)r + 0x900, "/bin/program");
	build_elf_auxv(b, AT_PHDR, exe_at + (w == 8 ? 64 : 52));
	build_elf_auxv(b, AT_PHNUM, 6);
	build_elf_auxv(b, AT_ENTRY, exe_at + SO_TEXT);
	build_elf_auxv(b, AT_EXECFN, 0x20900);
	build_elf_auxv(b, AT_SYSINFO_EHDR, 0x61000000);
	struct image *img = build_elf_open(b);
	struct modules *mods = open_modules(img, NULL);
	const struct module *m;
	ck_assert_uint_eq(modules_list(mods, &m), 3);
	ck_assert_uint_eq(m[0].start, exe_at);
	ck_assert_uint_eq(m[0].bias, bias);
	ck_assert(m[0].exe && !m[1].exe);
	ck_assert_uint_eq(m[0].path.len, 12);
	ck_assert_int_eq(memcmp(m[0].path.p, "/bin/program", 12), 0);
	ck_assert_uint_eq(m[1].start, 0x60000000);
	ck_assert_int_eq(memcmp(m[1].path.p, "/lib/libx.so", 12), 0);
	ck_assert(m[2].vdso && m[2].path.len == 6 && memcmp(m[2].path.p, "[vdso]", 6) == 0);
	ck_assert_uint_eq(m[2].build_id.len, strlen(ID));
	ck_assert_int_eq(m[2].symbols, SYMBOLS_DYNSYM);
	modules_close(mods);
	image_close(img);
	build_elf_free(b);
	free(exe_file);
	free(lib_file);
	free(vdso_file);
}
END_TEST

/* Nothing at all, and no files. */
START_TEST(empty)
{
	struct build_elf *b = build_so_core("x86_64");
	struct image *img = build_elf_open(b);
	struct modules *mods = open_modules(img, NULL);
	const struct module *m;
	addr_t at;
	uint64_t size;
	struct str name;
	ck_assert_uint_eq(modules_list(mods, &m), 0);
	ck_assert_ptr_null(modules_exe(mods));
	ck_assert_ptr_null(modules_at(mods, 0));
	ck_assert_int_eq(modules_symbol(mods, "_PyRuntime", &at, &size, NULL), ERR_ABSENT);
	ck_assert_int_eq(modules_section(mods, ".PyRuntime", &at, &size), ERR_ABSENT);
	ck_assert_int_eq(modules_name(mods, 0x1000, &name, &size), ERR_ABSENT);
	modules_close(mods);
	modules_close(NULL);
	image_close(img);
	build_elf_free(b);
}
END_TEST

/* Any byte of a module's headers may be anything: every answer but a crash or a read outside is right. */
START_TEST(damaged_headers)
{
	uint64_t seed = 88172645463325252u + (uint64_t)_i;
	struct build_elf *probe = build_elf_new(abis[_i]);
	struct build_so so = so_of(probe, 0);
	uint8_t *good = build_so(&so);
	for (int round = 0; round < 120; round++) {
		struct build_elf *b = build_so_core(abis[_i]);
		uint8_t *file = xmalloc(SO_FILE);
		memcpy(file, good, SO_FILE);
		for (int k = 0; k < 1 + round % 4; k++) {
			draw(&seed);
			static const uint8_t odd[] = { 0, 1, 0x7f, 0x80, 0xff };
			size_t where = (seed >> 8) % 3 ? (seed >> 16) % 0x330 : SO_DATA_FILE + (seed >> 16) % 0x90;
			file[where] = seed % 3 ? odd[(seed >> 40) % 5] : (uint8_t)(seed >> 48);
		}
		file_write(path, file, SO_FILE);
		build_so_map(b, &so, file, 0x50000000, path, SO_USUAL);
		build_elf_auxv(b, AT_ENTRY, 0x50000000 + SO_TEXT);
		struct image *img = build_elf_open(b);
		struct modules *mods = open_modules(img, &(struct search){ .exe = path });
		addr_t at;
		uint64_t size;
		struct str name;
		(void)!modules_symbol(mods, "_PyRuntime", &at, &size, NULL);
		(void)!modules_section(mods, ".PyRuntime", &at, &size);
		(void)!modules_name(mods, 0x50000000 + SO_TEXT + 0x18, &name, &size);
		(void)byte_at(img, 0x50000000 + SO_TEXT);
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
	Suite *s = suite_create("module");
	TCase *tc = tcase_create("module");
	tcase_set_timeout(tc, 120);
	tcase_add_checked_fixture(tc, make_dir, remove_dir);
	tcase_add_loop_test(tc, usual_core, 0, 2 * N_ABIS);
	tcase_add_loop_test(tc, file_choice, 0, COUNT(files));
	tcase_add_loop_test(tc, asked_file_must_fit, 0, 4);
	tcase_add_test(tc, what_is_a_module);
	tcase_add_loop_test(tc, writable_loads, 0, COUNT(writable));
	tcase_add_loop_test(tc, overlaps, 0, 4);
	tcase_add_loop_test(tc, file_changes, 0, 2);
	tcase_add_test(tc, short_file);
	tcase_add_loop_test(tc, link_map, 0, 2 * N_ABIS);
	tcase_add_test(tc, empty);
	tcase_add_loop_test(tc, damaged_headers, 0, N_ABIS);
	suite_add_tcase(s, tc);
	return suite_run(s);
}
