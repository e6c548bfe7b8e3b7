/* Separate debug files: where they are looked for, which are used, and debuginfod-find in a PATH of the test's own. */
#include <check.h>
#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <zlib.h>

#include "build_so.h"
#include "module/module.h"
#include "suite.h"

static const struct so_symbol symbols[] = {
	{ "PyEval_Go", SO_TEXT + 0x10, 0x20, true, true },
	{ "hidden", SO_TEXT + 0x40, 0x20, true, false },
};
static const char ID[] = "0123456789abcdefghij", OTHER_ID[] = "another-build-of-it!";
/* What ID is called. */
#define ID_NAME "30/313233343536373839616263646566676869" "6a"
enum { BIAS = 0x50000000 };

static char dir[64];

static const char *in_dir(const char *name)
{
	static char buf[64][256];
	static unsigned next;
	char *p = buf[next++ % 64];
	snprintf(p, sizeof buf[0], "%s/%s", dir, name);
	return p;
}

static void make_dir(void)
{
	strcpy(dir, "/tmp/test_debug_file.XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(dir));
}

static void remove_dir(void)
{
	char cmd[128];
	snprintf(cmd, sizeof cmd, "/bin/rm -rf '%s'", dir);
	ck_assert_int_eq(system(cmd), 0);
}

/* With the folders that lead to it. */
static void write_file(const char *name, const void *p, size_t len)
{
	char path[512];
	snprintf(path, sizeof path, "%s/%s", dir, name);
	for (char *slash = path + strlen(dir) + 1; (slash = strchr(slash, '/')); slash++) {
		*slash = 0;
		mkdir(path, 0700);
		*slash = '/';
	}
	file_write(path, p, len);
}

/* A process with dir/app/libx.so in it: a stripped file. */
struct scene {
	struct build_elf *core;
	struct build_so so;
	uint8_t *debug;
	uint32_t crc;
	struct image *img;
	struct modules *mods;
	const struct module *m;
};

static void scene_of(struct scene *s, bool link, bool no_id, bool no_file, bool lost_id)
{
	*s = (struct scene){ .core = build_elf_new("x86_64") };
	build_elf_thread(s->core, 100, 0x10000, 0x70000100);
	build_elf_memory(s->core, 0x70000000, 0x1000, 3);
	s->so = (struct build_so){ .abi = *build_elf_abi(s->core), .build_id = no_id ? NULL : ID, .symbols = symbols, .n_symbols = 2 };
	s->debug = build_so(&s->so);
	s->crc = (uint32_t)crc32(crc32(0, NULL, 0), s->debug, SO_FILE);
	struct build_so stripped = s->so;
	stripped.stripped = true;
	stripped.debuglink = link ? "libx.dbg" : NULL;
	stripped.debugcrc = s->crc;
	uint8_t *file = build_so(&stripped);
	if (!no_file)
		write_file("app/libx.so", file, SO_FILE);
	if (lost_id) {
		stripped.build_id = NULL;
		free(file);
		file = build_so(&stripped);
	}
	build_so_map(s->core, &stripped, file, BIAS, in_dir("app/libx.so"), SO_USUAL | SO_READ_ONLY);
	build_elf_auxv(s->core, AT_ENTRY, BIAS + SO_TEXT);
	s->img = build_elf_open(s->core);
	free(file);
}

static void scene(struct scene *s, bool link, bool no_id, bool no_file)
{
	scene_of(s, link, no_id, no_file, false);
}

static void look(struct scene *s, const struct search *where)
{
	ck_assert_int_eq(modules_open(s->img, where, &s->mods, NULL), 0);
	ck_assert_uint_eq(modules_list(s->mods, &s->m), 1);
}

static void end(struct scene *s)
{
	modules_close(s->mods);
	image_close(s->img);
	build_elf_free(s->core);
	free(s->debug);
}

enum content { RIGHT, OTHER_BUILD, CHANGED, NOT_ELF, OTHER_MACHINE };
static const struct {
	const char *what, *at;
	enum content content;
	bool link, no_id, no_file, usual, root, used, refused, lost_id; /* lost_id: only the file has its build-id */
} places[] = {
	{ "by build-id", "debug/.build-id/" ID_NAME ".debug", RIGHT, .used = true },
	{ "by build-id in the sysroot", "root/debug/.build-id/" ID_NAME ".debug", RIGHT, .root = true, .used = true },
	{ "by build-id, the file itself is not here", "debug/.build-id/" ID_NAME ".debug", RIGHT, .no_file = true, .used = true },
	{ "by the file's own build-id", "debug/.build-id/" ID_NAME ".debug", RIGHT, .lost_id = true, .used = true },
	{ "another build, under the file's own build-id", "debug/.build-id/" ID_NAME ".debug", OTHER_BUILD, .lost_id = true, .refused = true },
	{ "by name, beside the file", "app/libx.dbg", RIGHT, .link = true, .used = true },
	{ "by name, in .debug", "app/.debug/libx.dbg", RIGHT, .link = true, .used = true },
	{ "by name, in .debug, no debug path given", "app/.debug/libx.dbg", RIGHT, .link = true, .usual = true, .used = true },
	{ "by name, under the debug path", "debug/DIR/app/libx.dbg", RIGHT, .link = true, .used = true },
	{ "by name, under the debug path in the sysroot", "root/debug/DIR/app/libx.dbg", RIGHT, .link = true, .root = true, .used = true },
	{ "by name, no name in the file", "app/libx.dbg", RIGHT },
	{ "by name and checksum, no build-id", "app/libx.dbg", RIGHT, .link = true, .no_id = true, .used = true },
	{ "another checksum, no build-id", "app/libx.dbg", CHANGED, .link = true, .no_id = true },
	{ "another checksum", "app/libx.dbg", CHANGED, .link = true },
	{ "another build, by its name", "app/libx.dbg", OTHER_BUILD, .link = true, .refused = true },
	{ "another build, under the build-id", "debug/.build-id/" ID_NAME ".debug", OTHER_BUILD, .refused = true },
	{ "no ELF", "debug/.build-id/" ID_NAME ".debug", NOT_ELF },
	{ "another machine's", "debug/.build-id/" ID_NAME ".debug", OTHER_MACHINE },
	{ "nothing", "unused", RIGHT },
};

START_TEST(looked_for)
{
	struct scene s;
	char at[512];
	scene_of(&s, places[_i].link, places[_i].no_id, places[_i].no_file, places[_i].lost_id);
	const char *slot = strstr(places[_i].at, "DIR/");
	if (slot && places[_i].root)
		snprintf(at, sizeof at, "root%s%.*s%s%s", dir, (int)(slot - places[_i].at - 4), places[_i].at + 4, dir, slot + 3);
	else if (slot)
		snprintf(at, sizeof at, "%.*s%s%s", (int)(slot - places[_i].at), places[_i].at, dir, slot + 3);
	else if (places[_i].root)
		snprintf(at, sizeof at, "root%s%s", dir, places[_i].at + 4);
	else
		snprintf(at, sizeof at, "%s", places[_i].at);
	struct build_so other = s.so;
	other.build_id = OTHER_ID;
	uint8_t *content = s.debug, *made = NULL;
	if (places[_i].content == OTHER_BUILD)
		content = made = build_so(&other);
	else if (places[_i].content == NOT_ELF)
		content[0] = 'E';
	else if (places[_i].content == OTHER_MACHINE)
		content[18] = EM_AARCH64;
	else if (places[_i].content == CHANGED)
		content[SO_FILE - 1] ^= 1;
	write_file(at, content, SO_FILE);
	const char *const debug_path[] = { ".debug", in_dir("debug"), NULL }, *const lib_path[] = { in_dir("app"), NULL };
	struct search where = { .debug_path = places[_i].usual ? NULL : debug_path, .sysroot = places[_i].root ? in_dir("root") : NULL };
	if (places[_i].no_id || places[_i].lost_id)
		where.lib_path = lib_path;
	look(&s, &where);
	ck_assert_msg((s.m->file != NULL) == !places[_i].no_file, "%s", places[_i].what);
	ck_assert_msg((s.m->debug_file != NULL) == places[_i].used, "%s: %s", places[_i].what, s.m->debug_file ? s.m->debug_file : "none");
	ck_assert_msg(s.m->symbols == (places[_i].used ? SYMBOLS_FULL : SYMBOLS_DYNSYM), "%s: %d", places[_i].what, s.m->symbols);
	ck_assert_msg((s.m->debug_refused != NULL) == places[_i].refused, "%s", places[_i].what);
	if (places[_i].refused)
		ck_assert(s.m->debug_refused_id.len == 20 && memcmp(s.m->debug_refused_id.p, OTHER_ID, 20) == 0);
	struct str name;
	uint64_t off;
	addr_t sym;
	ck_assert_int_eq(modules_symbol(s.mods, "hidden", &sym, NULL, NULL), places[_i].used ? 0 : ERR_ABSENT);
	ck_assert_int_eq(modules_name(s.mods, BIAS + SO_TEXT + 0x44, &name, &off), places[_i].used ? 0 : ERR_ABSENT);
	if (places[_i].used)
		ck_assert(str_is(name, "hidden") && off == 4);
	ck_assert_int_eq(modules_name(s.mods, BIAS + SO_TEXT + 0x11, &name, &off), 0);
	end(&s);
	free(made);
}
END_TEST

/* The file itself by its build-id, where nothing is at its path: here and in the sysroot; another build is not used. */
START_TEST(file_by_id)
{
	struct scene s;
	scene(&s, false, false, true);
	struct build_so other = s.so;
	other.build_id = OTHER_ID;
	uint8_t *wrong = build_so(&other);
	char at[512];
	snprintf(at, sizeof at, _i == 1 ? "root%s/debug/.build-id/" ID_NAME : "debug/.build-id/" ID_NAME, dir);
	write_file(at, _i == 2 ? wrong : s.debug, SO_FILE);
	const char *const debug_path[] = { in_dir("debug"), NULL };
	look(&s, &(struct search){ .debug_path = debug_path, .sysroot = _i == 1 ? in_dir("root") : NULL });
	ck_assert_int_eq(s.m->file != NULL, _i != 2);
	ck_assert_int_eq(s.m->disk_path != NULL, _i == 2);
	ck_assert_int_eq(s.m->symbols, _i != 2 ? SYMBOLS_FULL : SYMBOLS_DYNSYM);
	end(&s);
	free(wrong);
}
END_TEST

/* What a .gnu_debuglink of bad will leads to. */
START_TEST(bad_links)
{
	static const char *const links[] = { "../app/libx.dbg", "/etc/passwd", "..", ".", "libx.so", "a/../libx.dbg" };
	struct scene s;
	scene(&s, true, false, false);
	write_file("app/libx.dbg", s.debug, SO_FILE);
	struct build_so stripped = s.so;
	stripped.stripped = true;
	stripped.debuglink = links[_i];
	stripped.debugcrc = s.crc;
	uint8_t *file = build_so(&stripped);
	write_file("app/libx.so", file, SO_FILE);
	look(&s, &(struct search){ 0 });
	ck_assert_ptr_null(s.m->debug_file);
	end(&s);
	free(file);
}
END_TEST

/* As many sections of that name as there can be: one counts, and no more is kept. */
START_TEST(very_many_links)
{
	enum { MANY = 60000, TEXT = 4000, SHDR = 64, SIZE = SO_FILE + 4096 + MANY * SHDR };
	struct scene s;
	struct rusage before, after;
	scene(&s, true, false, false);
	write_file("app/libx.dbg", s.debug, SO_FILE);
	struct build_so stripped = s.so;
	stripped.stripped = true;
	stripped.debuglink = "libx.dbg";
	stripped.debugcrc = s.crc;
	uint8_t *small = build_so(&stripped), *file = xcalloc(SIZE, 1), *table = file + SO_FILE + 4096;
	memcpy(file, small, SO_FILE);
	memset(file + SO_FILE, 'a', TEXT);
	Elf64_Ehdr eh;
	memcpy(&eh, file, sizeof eh);
	memcpy(table, file + eh.e_shoff, eh.e_shnum * (size_t)SHDR);
	Elf64_Shdr names, link = { 0 }, sh;
	memcpy(&names, table + eh.e_shstrndx * (size_t)SHDR, SHDR);
	for (size_t i = 0; i < eh.e_shnum; i++) {
		memcpy(&sh, table + i * SHDR, SHDR);
		if (!strcmp((const char *)file + names.sh_offset + sh.sh_name, ".gnu_debuglink"))
			link = sh;
	}
	ck_assert_uint_gt(link.sh_name, 0);
	link.sh_offset = SO_FILE;
	link.sh_size = TEXT + 8;
	for (size_t i = eh.e_shnum; i < MANY; i++)
		memcpy(table + i * SHDR, &link, SHDR);
	eh.e_shoff = SO_FILE + 4096;
	eh.e_shnum = MANY;
	memcpy(file, &eh, sizeof eh);
	write_file("app/libx.so", file, SIZE);
	getrusage(RUSAGE_SELF, &before);
	look(&s, &(struct search){ 0 });
	getrusage(RUSAGE_SELF, &after);
	ck_assert(s.m->debug_file && strstr(s.m->debug_file, "/app/libx.dbg"));
	ck_assert_int_lt(after.ru_maxrss - before.ru_maxrss, 64 << 10);
	end(&s);
	free(small);
	free(file);
}
END_TEST

/* ---- debuginfod */

static const struct {
	const char *what, *script; /* NULL: no such program */
	bool used;
	unsigned max_s;
} finders[] = {
	{ "finds", "test \"$1 $2\" = \"debuginfo 303132333435363738396162636465666768696a\" && echo \"$DIR/cache/it\" || exit 1", true, 5 },
	{ "has none", "exit 1", false, 5 },
	{ "says what is not there", "echo /nowhere/at/all", false, 5 },
	{ "says a relative path", "cd \"$DIR/cache\"; echo it", false, 5 },
	{ "says another build", "echo \"$DIR/cache/other\"", false, 5 },
	{ "says a fifo", "mkfifo $DIR/fifo; echo $DIR/fifo", false, 5 },
	{ "says very much", "yes /", false, 5 },
	{ "takes too long", "echo \"$DIR/cache/it\"; sleep 1000", false, 5 },
	{ "closes its output and takes too long", "echo \"$DIR/cache/it\"; exec >&-; sleep 1000", false, 5 },
	{ "says and fails", "echo \"$DIR/cache/it\"; exit 3", false, 5 },
	{ "leaves something behind", "sleep 1000 >&- & echo \"$DIR/cache/it\"", true, 5 },
	{ "is not there", NULL, false, 5 },
};

START_TEST(fetched)
{
	struct scene s;
	scene(&s, false, false, false);
	struct build_so other = s.so;
	other.build_id = OTHER_ID;
	uint8_t *wrong = build_so(&other);
	write_file("cache/it", s.debug, SO_FILE);
	write_file("cache/other", wrong, SO_FILE);
	free(wrong);
	char script[1024];
	mkdir(in_dir("bin"), 0700);
	if (finders[_i].script) {
		snprintf(script, sizeof script, "#!/bin/sh\nDIR=%s\necho \"$@\" >> $DIR/asked\n%s\n", dir, finders[_i].script);
		write_file("bin/debuginfod-find", script, strlen(script));
		ck_assert_int_eq(chmod(in_dir("bin/debuginfod-find"), 0700), 0);
	}
	char path[512];
	snprintf(path, sizeof path, "%s%s", in_dir("bin"), finders[_i].script ? ":/usr/bin:/bin" : "");
	setenv("PATH", path, 1);
	/* Not allowed: not run. */
	look(&s, &(struct search){ 0 });
	ck_assert(!modules_fetch(s.mods, s.m, true));
	ck_assert_int_ne(access(in_dir("asked"), F_OK), 0);
	modules_close(s.mods);
	time_t before = time(NULL);
	look(&s, &(struct search){ .fetch_ms = 500 });
	ck_assert_ptr_null(s.m->debug_file);
	ck_assert_int_eq(s.m->symbols, SYMBOLS_DYNSYM);
	bool new = modules_fetch(s.mods, s.m, true);
	ck_assert_msg(new == finders[_i].used, "%s", finders[_i].what);
	ck_assert_msg((s.m->debug_file != NULL) == finders[_i].used, "%s", finders[_i].what);
	ck_assert_int_eq(s.m->symbols, finders[_i].used ? SYMBOLS_FULL : SYMBOLS_DYNSYM);
	ck_assert(!modules_fetch(s.mods, s.m, true)); /* asked once */
	size_t asked, given;
	modules_fetched(s.mods, &asked, &given);
	ck_assert_msg(finders[_i].script ? asked > 0 : !given, "%s: %zu", finders[_i].what, asked);
	if (finders[_i].used || strcmp(finders[_i].what, "has none") == 0)
		ck_assert_msg((given > 0) == finders[_i].used, "%s: %zu", finders[_i].what, given);
	ck_assert_int_le(time(NULL) - before, (time_t)finders[_i].max_s);
	end(&s);
}
END_TEST

/* The executable itself, as soon as the modules are looked at. */
START_TEST(fetched_executable)
{
	struct scene s;
	scene(&s, false, false, true);
	write_file("cache/it", s.debug, SO_FILE);
	char script[512], path[512];
	snprintf(script, sizeof script, "#!/bin/sh\ntest \"$1 $2\" = \"executable 303132333435363738396162636465666768696a\" && echo %s/cache/it\n", dir);
	write_file("bin/debuginfod-find", script, strlen(script));
	ck_assert_int_eq(chmod(in_dir("bin/debuginfod-find"), 0700), 0);
	snprintf(path, sizeof path, "%s:/usr/bin:/bin", in_dir("bin"));
	setenv("PATH", path, 1);
	look(&s, &(struct search){ .fetch_ms = _i ? 5000 : 0 });
	ck_assert(s.m->exe);
	ck_assert_int_eq(s.m->file != NULL, _i);
	ck_assert_int_eq(s.m->symbols, _i ? SYMBOLS_FULL : SYMBOLS_DYNSYM);
	end(&s);
}
END_TEST

/* Build-ids become digits, whatever they are: nothing but .build-id's own folders is looked into. */
START_TEST(bad_ids)
{
	static const char *const ids[] = { "../../../../../etc/passwd", "/", "a/../../app/libx.dbg", "x", "-rf /", "\x7f\x01\n", "%s%s%n" };
	struct scene s;
	scene(&s, false, false, false);
	modules_close(NULL);
	image_close(s.img);
	build_elf_free(s.core);
	free(s.debug);
	struct build_elf *b = build_elf_new("x86_64");
	build_elf_thread(b, 100, 0x10000, 0x70000100);
	build_elf_memory(b, 0x70000000, 0x1000, 3);
	struct build_so so = { .abi = *build_elf_abi(b), .build_id = ids[_i], .symbols = symbols, .n_symbols = 2, .stripped = true };
	uint8_t *file = build_so(&so);
	so.stripped = false;
	uint8_t *debug = build_so(&so);
	write_file("app/libx.so", file, SO_FILE);
	char name[256] = "debug/.build-id/", *p = name + strlen(name);
	for (const char *c = ids[_i]; *c; c++)
		p += sprintf(p, "%02x%s", (unsigned char)*c, c == ids[_i] ? "/" : "");
	strcpy(p, ".debug");
	write_file(name, debug, SO_FILE);
	build_so_map(b, &so, file, BIAS, in_dir("app/libx.so"), SO_USUAL);
	struct image *img = build_elf_open(b);
	const char *const debug_path[] = { in_dir("debug"), NULL };
	struct modules *mods;
	const struct module *m;
	ck_assert_int_eq(modules_open(img, &(struct search){ .debug_path = debug_path }, &mods, NULL), 0);
	ck_assert_uint_eq(modules_list(mods, &m), 1);
	ck_assert_uint_eq(m->build_id.len, strlen(ids[_i]));
	ck_assert_int_eq(m->debug_file != NULL, strlen(ids[_i]) > 1); /* one byte names no file */
	modules_close(mods);
	image_close(img);
	build_elf_free(b);
	free(file);
	free(debug);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("debug_file");
	TCase *tc = tcase_create("debug_file");
	tcase_add_checked_fixture(tc, make_dir, remove_dir);
	tcase_set_timeout(tc, 100);
	tcase_add_loop_test(tc, looked_for, 0, COUNT(places));
	tcase_add_loop_test(tc, file_by_id, 0, 3);
	tcase_add_loop_test(tc, bad_links, 0, 6);
	tcase_add_test(tc, very_many_links);
	tcase_add_loop_test(tc, fetched, 0, COUNT(finders));
	tcase_add_loop_test(tc, fetched_executable, 0, 2);
	tcase_add_loop_test(tc, bad_ids, 0, 7);
	suite_add_tcase(s, tc);
	return suite_run(s);
}
