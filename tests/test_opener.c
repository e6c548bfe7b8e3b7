/* What the opener opens and what it refuses; sources, their lines and encodings. */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "module/opener.h"
#include "suite.h"

static char dir[64];

static const char *in_dir(const char *name)
{
	static char buf[64][256]; /* more than a test needs at once */
	static unsigned next;
	char *p = buf[next++ % 64];
	snprintf(p, sizeof buf[0], "%s/%s", dir, name);
	return p;
}

static void make_dir(void)
{
	strcpy(dir, "/tmp/test_opener.XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(dir));
}

static void remove_dir(void)
{
	char cmd[128];
	snprintf(cmd, sizeof cmd, "rm -rf '%s'", dir);
	ck_assert_int_eq(system(cmd), 0);
}

static void write_to(const char *name, const void *p, size_t len)
{
	FILE *f = fopen(in_dir(name), "w");
	ck_assert_ptr_nonnull(f);
	ck_assert_uint_eq(fwrite(p, 1, len, f), len);
	ck_assert_int_eq(fclose(f), 0);
}

static void write_text(const char *name, const char *text)
{
	write_to(name, text, strlen(text));
}

static struct blob blob_of(const char *s)
{
	return (struct blob){ (const uint8_t *)s, strlen(s) };
}

/* The text that the nth candidate begins with, or its error. */
static int open_nth(struct opener *o, const char *path, bool exe, unsigned nth, char *ret, struct candidate *c)
{
	int fd = opener_elf(o, &(struct wanted){ .path = blob_of(path), .exe = exe }, nth, c);
	if (fd < 0)
		return fd;
	ck_assert_int_ne(fcntl(fd, F_GETFD) & FD_CLOEXEC, 0);
	ssize_t n = read(fd, ret, 63);
	ck_assert_int_ge(n, 0);
	ret[n] = 0;
	close(fd);
	return 0;
}

/* Without openat2, as on kernels before 5.6 and in sandboxes. */
static void no_openat2(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat2, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog prog = { sizeof code / sizeof *code, code };
	ck_assert_int_eq(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
	ck_assert_int_eq(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog), 0);
}

START_TEST(candidates)
{
	char text[64];
	struct candidate c;
	mkdir(in_dir("root"), 0700);
	mkdir(in_dir("lib1"), 0700);
	mkdir(in_dir("lib2"), 0700);
	write_text("lib2/x.so", "lib2");
	write_text("x.so", "itself");
	write_text("exe", "exe");
	const char *const libs[] = { in_dir("lib1"), in_dir("lib2"), NULL };
	struct search where = { .exe = in_dir("exe"), .sysroot = in_dir("root"), .lib_path = libs };
	struct opener *o = opener_new(&where);
	const char *path = in_dir("x.so");
	/* the program: -e, the sysroot, --lib-path, the path */
	ck_assert_int_eq(open_nth(o, path, true, 0, text, &c), 0);
	ck_assert_str_eq(text, "exe");
	ck_assert(c.asked);
	ck_assert_int_eq(open_nth(o, path, true, 1, text, &c), ERR_GONE);
	ck_assert_int_eq(open_nth(o, path, true, 2, text, &c), ERR_GONE);
	ck_assert_int_eq(open_nth(o, path, true, 3, text, &c), 0);
	ck_assert_str_eq(text, "lib2");
	ck_assert(c.asked);
	ck_assert_int_eq(open_nth(o, path, true, 4, text, &c), 0);
	ck_assert_str_eq(text, "itself");
	ck_assert_str_eq(c.path, path);
	ck_assert(!c.asked);
	ck_assert_int_eq(open_nth(o, path, true, 5, text, &c), ERR_ABSENT);
	/* a library: no -e */
	ck_assert_int_eq(open_nth(o, path, false, 3, text, &c), 0);
	ck_assert_str_eq(text, "itself");
	ck_assert_int_eq(open_nth(o, path, false, 4, text, &c), ERR_ABSENT);
	opener_free(o);
	o = opener_new(&(struct search){ 0 });
	char deleted[256];
	snprintf(deleted, sizeof deleted, "%s (deleted)", path);
	ck_assert_int_eq(open_nth(o, deleted, false, 0, text, &c), 0);
	ck_assert_str_eq(text, "itself");
	ck_assert_str_eq(c.path, path);
	opener_free(o);
	o = opener_new(NULL);
	ck_assert_int_eq(open_nth(o, path, true, 0, text, &c), ERR_ABSENT);
	opener_free(o);
}
END_TEST

/* %: the test's folder */
static const struct { const char *path; int want; } refused[] = {
	{ "%/fifo", ERR_UNSUPPORTED }, { "/dev/null", ERR_UNSUPPORTED }, { "/dev/tty", ERR_UNSUPPORTED }, { "%", ERR_UNSUPPORTED },
	{ "%/socket/", ERR_GONE }, { "/proc/self/mem", ERR_UNSUPPORTED }, { "/proc/self/environ", ERR_UNSUPPORTED },
	{ "/sys/kernel/uevent_seqnum", ERR_UNSUPPORTED }, { "relative", ERR_ABSENT }, { "", ERR_ABSENT }, { "/", ERR_ABSENT },
	{ "[vdso]", ERR_ABSENT }, { "anon_inode:[x]", ERR_ABSENT }, { "%/missing", ERR_GONE }, { "%/link_to_fifo", ERR_UNSUPPORTED },
	{ "%/file/below", ERR_GONE }, { "%/loop", ERR_UNSUPPORTED }, { "%/big", ERR_LIMIT },
};

START_TEST(refusals)
{
	char text[64], path[256];
	struct candidate c;
	ck_assert_int_eq(mkfifo(in_dir("fifo"), 0600), 0);
	ck_assert_int_eq(symlink("fifo", in_dir("link_to_fifo")), 0);
	ck_assert_int_eq(symlink("loop", in_dir("loop")), 0);
	write_text("file", "x");
	write_text("big", "x");
	ck_assert_int_eq(truncate(in_dir("big"), (off_t)OPENER_ELF_MAX + 1), 0);
	const char *p = refused[_i].path;
	snprintf(path, sizeof path, "%s%s", *p == '%' ? dir : "", *p == '%' ? p + 1 : p);
	struct opener *o = opener_new(&(struct search){ 0 });
	int rc = open_nth(o, path, false, 0, text, &c);
	ck_assert_msg(rc == refused[_i].want, "%s: %d, want %d", path, rc, refused[_i].want);
	opener_free(o);
}
END_TEST

/* Did anybody open something in the folder since? */
static bool was_opened(int watch)
{
	char buf[4096];
	return read(watch, buf, sizeof buf) > 0;
}

/* Opening a device or a fifo can act (a watchdog starts): it is only looked at. */
START_TEST(only_looked_at)
{
	char text[64];
	struct candidate c;
	ck_assert_int_eq(mkfifo(in_dir("fifo"), 0600), 0);
	write_text("file", "x");
	int watch = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
	ck_assert_int_ge(watch, 0);
	ck_assert_int_ge(inotify_add_watch(watch, dir, IN_OPEN), 0);
	int fd = open(in_dir("fifo"), O_PATH | O_CLOEXEC);
	ck_assert_int_ge(fd, 0);
	close(fd);
	bool tells = !was_opened(watch); /* kernels before 5.19 report O_PATH, too: then nothing can be seen here */
	struct opener *o = opener_new(&(struct search){ 0 });
	ck_assert_int_eq(open_nth(o, in_dir("fifo"), false, 0, text, &c), ERR_UNSUPPORTED);
	if (tells)
		ck_assert(!was_opened(watch));
	ck_assert_int_eq(open_nth(o, in_dir("file"), false, 0, text, &c), 0);
	ck_assert(was_opened(watch));
	opener_free(o);
	close(watch);
}
END_TEST

/* In a sysroot, links are taken as in a chroot; nothing outside is opened, whatever it is called. */
static const struct { const char *path; int want; const char *text; } rooted[] = {
	{ "/usr/lib/a", 0, "inside" },
	{ "/lib/a", 0, "inside" },             /* lib -> usr/lib */
	{ "/abs/a", 0, "inside" },             /* abs -> /usr/lib */
	{ "/usr/lib/../lib/./a", 0, "inside" },
	{ "/../../../usr/lib/a", 0, "inside" },/* .. at the top stays there */
	{ "/out", ERR_GONE, NULL },            /* -> ../secret: there is no such file in the root */
	{ "/abs_out", ERR_GONE, NULL },        /* -> the secret's absolute path */
	{ "/updir/secret", ERR_GONE, NULL },   /* updir -> .. */
	{ "/../secret", ERR_GONE, NULL },
	{ "/loop/a", ERR_UNSUPPORTED, NULL },
	{ "/fifo", ERR_UNSUPPORTED, NULL },
	{ "/usr", ERR_UNSUPPORTED, NULL },
	{ "/file/a", ERR_GONE, NULL },
};
enum { N_ROOTED = sizeof rooted / sizeof *rooted };

START_TEST(sysroot)
{
	char text[64];
	struct candidate c;
	unsigned i = (unsigned)_i % N_ROOTED;
	mkdir(in_dir("root"), 0700);
	mkdir(in_dir("root/usr"), 0700);
	mkdir(in_dir("root/usr/lib"), 0700);
	write_text("root/usr/lib/a", "inside");
	write_text("root/file", "file");
	write_text("secret", "outside");
	ck_assert_int_eq(symlink("usr/lib", in_dir("root/lib")), 0);
	ck_assert_int_eq(symlink("/usr/lib", in_dir("root/abs")), 0);
	ck_assert_int_eq(symlink("../secret", in_dir("root/out")), 0);
	ck_assert_int_eq(symlink(in_dir("secret"), in_dir("root/abs_out")), 0);
	ck_assert_int_eq(symlink("..", in_dir("root/updir")), 0);
	ck_assert_int_eq(symlink("loop", in_dir("root/loop")), 0);
	ck_assert_int_eq(mkfifo(in_dir("root/fifo"), 0600), 0);
	if (_i >= N_ROOTED)
		no_openat2();
	struct search where = { .sysroot = in_dir("root") };
	struct opener *o = opener_new(&where);
	int rc = open_nth(o, rooted[i].path, false, 0, text, &c);
	ck_assert_msg(rc == rooted[i].want, "%s: %d, want %d", rooted[i].path, rc, rooted[i].want);
	if (rc == 0)
		ck_assert_str_eq(text, rooted[i].text);
	opener_free(o);
}
END_TEST

static struct str path_str(const char *name)
{
	return str_of(in_dir(name));
}

static const struct { const char *name; int want; } names[] = {
	{ "a.py", 0 }, { "a.pyw", 0 }, { "a.pyx", 0 }, { "a.pxd", 0 }, { "a.pxi", 0 }, { "a.py3", 0 }, { "a.PY", ERR_UNSUPPORTED },
	{ "a", ERR_UNSUPPORTED }, { "a.txt", ERR_UNSUPPORTED }, { "a.py.txt", ERR_UNSUPPORTED }, { "a.pyc", ERR_UNSUPPORTED },
	{ "shadow", ERR_UNSUPPORTED },
};

START_TEST(source_suffixes)
{
	struct blob text;
	write_text(names[_i].name, "x = 1\n");
	struct opener *o = opener_new(&(struct search){ 0 });
	ck_assert_int_eq(opener_source(o, path_str(names[_i].name), &text), names[_i].want);
	if (names[_i].want == 0)
		ck_assert(text.len == 6 && memcmp(text.p, "x = 1\n", 6) == 0);
	opener_free(o);
}
END_TEST

/* What a link leads to counts, and not what it is called: or the input could show any file that its reader may read. */
static const struct { const char *path; int want, rooted; } linked[] = {
	{ "link.py", 0, ERR_ABSENT },                       /* -> real.py */
	{ "lib/real.py", 0, ERR_ABSENT },                   /* lib -> folder */
	{ "folder/up.py", 0, ERR_ABSENT },                  /* -> ../real.py */
	{ "abs.py", 0, ERR_ABSENT },
	{ "twice.py", 0, ERR_ABSENT },                      /* -> link.py */
	{ "shadow.py", ERR_UNSUPPORTED, ERR_ABSENT },       /* -> secret */
	{ "shadow2.py", ERR_UNSUPPORTED, ERR_ABSENT },      /* -> shadow.py */
	{ "lib/shadow3.py", ERR_UNSUPPORTED, ERR_ABSENT },  /* -> ../secret, by its whole path */
	{ "dir.d/hidden.py", ERR_UNSUPPORTED, ERR_ABSENT }, /* -> secret in a folder that is called as a source */
	{ "environ.py", ERR_UNSUPPORTED, ERR_ABSENT },      /* -> /proc/self/environ */
	{ "self.py", ERR_UNSUPPORTED, ERR_ABSENT },         /* -> /proc/self/exe */
	{ "root/in.py", 0, 0 },                             /* in the root: -> /real.py */
	{ "root/in_shadow.py", ERR_UNSUPPORTED, ERR_UNSUPPORTED }, /* in the root: -> secret */
};
enum { N_LINKED = sizeof linked / sizeof *linked };

static void link_to(const char *to, const char *name)
{
	ck_assert_int_eq(symlink(to, in_dir(name)), 0);
}

START_TEST(linked_sources)
{
	char abs[256], secret[256];
	mkdir(in_dir("folder"), 0700);
	mkdir(in_dir("dir.py"), 0700);
	mkdir(in_dir("root"), 0700);
	write_text("real.py", "x = 1\n");
	write_text("folder/real.py", "x = 1\n");
	write_text("secret", "outside");
	write_text("dir.py/secret", "outside");
	write_text("root/secret", "inside");
	write_text("root/real.py", "x = 1\n");
	snprintf(abs, sizeof abs, "%s", in_dir("real.py"));
	snprintf(secret, sizeof secret, "%s", in_dir("secret"));
	link_to("real.py", "link.py");
	link_to("folder", "lib");
	link_to("../real.py", "folder/up.py");
	link_to(abs, "abs.py");
	link_to("link.py", "twice.py");
	link_to("secret", "shadow.py");
	link_to("shadow.py", "shadow2.py");
	link_to(secret, "folder/shadow3.py");
	link_to("dir.py", "dir.d");
	link_to("secret", "dir.py/hidden.py");
	link_to("/proc/self/environ", "environ.py");
	link_to("/proc/self/exe", "self.py");
	link_to("real.py", "root/in.py");
	link_to("secret", "root/in_shadow.py");
	unsigned i = (unsigned)_i % N_LINKED;
	if (_i >= 2 * N_LINKED)
		no_openat2();
	bool in_root = _i >= N_LINKED;
	struct search where = { .sysroot = in_root ? in_dir("root") : NULL };
	struct opener *o = opener_new(&where);
	struct blob text = { 0 };
	int want = linked[i].want, rc;
	if (in_root && linked[i].rooted != ERR_ABSENT) {
		/* As the process calls it: the root's name goes before it, and it is there. */
		want = linked[i].rooted;
		rc = opener_source(o, str_of(linked[i].path + strlen("root")), &text);
	} else {
		rc = opener_source(o, path_str(linked[i].path), &text);
	}
	ck_assert_msg(rc == want, "%s: %d, want %d", linked[i].path, rc, want);
	if (want == 0)
		ck_assert(text.len == 6 && memcmp(text.p, "x = 1\n", 6) == 0);
	opener_free(o);
}
END_TEST

START_TEST(source_refusals)
{
	struct blob text;
	int64_t when;
	ck_assert_int_eq(mkfifo(in_dir("fifo.py"), 0600), 0);
	ck_assert_int_eq(mkdir(in_dir("dir.py"), 0700), 0);
	write_text("big.py", "x");
	ck_assert_int_eq(truncate(in_dir("big.py"), OPENER_SOURCE_MAX + 1), 0);
	struct opener *o = opener_new(&(struct search){ 0 });
	ck_assert_int_eq(opener_source(o, path_str("fifo.py"), &text), ERR_UNSUPPORTED);
	ck_assert_int_eq(opener_source(o, path_str("dir.py"), &text), ERR_UNSUPPORTED);
	ck_assert_int_eq(opener_source(o, path_str("big.py"), &text), ERR_LIMIT);
	ck_assert_int_eq(opener_source(o, path_str("missing.py"), &text), ERR_ABSENT);
	ck_assert_int_eq(opener_source(o, path_str("missing.py"), &text), ERR_ABSENT);
	ck_assert_int_eq(opener_source(o, str_of("relative.py"), &text), ERR_ABSENT);
	ck_assert_int_eq(opener_source(o, str_of("<string>"), &text), ERR_UNSUPPORTED);
	ck_assert_int_eq(opener_source(o, STR(""), &text), ERR_ABSENT);
	ck_assert_int_eq(opener_source_time(o, path_str("missing.py"), &when), ERR_ABSENT);
	opener_free(o);
	o = opener_new(NULL);
	write_text("a.py", "x");
	ck_assert_int_eq(opener_source(o, path_str("a.py"), &text), ERR_ABSENT);
	opener_free(o);
}
END_TEST

static const struct {
	const char *name, *text;
	size_t len;          /* 0: strlen */
	unsigned line;
	const char *want;
	int rc;
} lines[] = {
	{ "first", "a\nb\n", 0, 1, "a", 0 },
	{ "second", "a\nb\n", 0, 2, "b", 0 },
	{ "past the end", "a\nb\n", 0, 3, NULL, ERR_ABSENT },
	{ "line 0", "a\nb\n", 0, 0, NULL, ERR_ABSENT },
	{ "no newline at the end", "a\nb", 0, 2, "b", 0 },
	{ "carriage returns", "a\r\nb\rc\n", 0, 3, "c", 0 },
	{ "carriage returns", "a\r\nb\rc\n", 0, 1, "a", 0 },
	{ "empty lines", "\n\n\nd", 0, 4, "d", 0 },
	{ "a form feed ends no line", "a\fb\nc\n", 0, 2, "c", 0 },
	{ "nor does U+2028", "a\xe2\x80\xa8" "b\nc\n", 0, 2, "c", 0 },
	{ "NUL in a line", "a\0b\nc\n", 6, 2, "c", 0 },
	{ "utf-8", "n = 'gr\xc3\xbc\xc3\x9f'\n", 0, 1, "n = 'gr\xc3\xbc\xc3\x9f'", 0 },
	{ "not utf-8", "n = '\xfc'\n", 0, 1, "n = '\\xfc'", 0 },
	{ "byte order mark", "\xef\xbb\xbfx\n", 0, 1, "x", 0 },
	{ "latin-1", "# -*- coding: latin-1 -*-\nn = '\xfc\xe9'\n", 0, 2, "n = '\xc3\xbc\xc3\xa9'", 0 },
	{ "iso-8859-1, second line", "#!/usr/bin/python\n# vim: set fileencoding=ISO_8859-1 :\nn = '\xfc'\n", 0, 3, "n = '\xc3\xbc'", 0 },
	{ "after code it is no cookie", "x = 1\n# coding: latin-1\nn = '\xfc'\n", 0, 3, "n = '\\xfc'", 0 },
	{ "in the third line neither", "#\n#\n# coding: latin-1\nn = '\xfc'\n", 0, 4, "n = '\\xfc'", 0 },
	{ "in a string neither", "s = 'coding: latin-1'\nn = '\xfc'\n", 0, 2, "n = '\\xfc'", 0 },
	{ "utf-8 by name", "# coding: UTF_8\nn = '\xc3\xbc'\n", 0, 2, "n = '\xc3\xbc'", 0 },
	{ "utf-8-sig", "# coding: utf-8-sig\nx\n", 0, 2, "x", 0 },
	{ "ascii", "# coding: us-ascii\nx\n", 0, 2, "x", 0 },
	{ "an encoding we do not have", "# coding: cp1251\nx\n", 0, 2, NULL, ERR_UNSUPPORTED },
	{ "latin-15 is not latin-1", "# coding: iso-8859-15\nx\n", 0, 2, NULL, ERR_UNSUPPORTED },
	{ "empty", "", 0, 1, NULL, ERR_ABSENT },
};

START_TEST(source_lines)
{
	struct arena *a = arena_new();
	struct str got = { 0 };
	write_to("a.py", lines[_i].text, lines[_i].len ? lines[_i].len : strlen(lines[_i].text));
	struct opener *o = opener_new(&(struct search){ 0 });
	int rc = opener_line(o, a, path_str("a.py"), lines[_i].line, &got);
	ck_assert_msg(rc == lines[_i].rc, "%s: %d", lines[_i].name, rc);
	if (rc == 0)
		ck_assert_msg(str_is(got, lines[_i].want), "%s: '" STR_FMT "'", lines[_i].name, STR_ARG(got));
	opener_free(o);
	arena_free(a);
}
END_TEST

/* A file is read once: what comes after is what was there at first, and 100,000 look-ups are no work. */
START_TEST(sources_are_kept)
{
	struct arena *a = arena_new();
	struct str got;
	struct sb b = { 0 };
	for (int i = 1; i <= 20000; i++)
		sb_printf(&b, "line %d\n", i);
	write_to("a.py", b.s, b.len);
	sb_free(&b);
	struct opener *o = opener_new(&(struct search){ 0 });
	struct str path = path_str("a.py");
	ck_assert_int_eq(opener_line(o, a, path, 1, &got), 0);
	ck_assert_int_eq(unlink(path.s), 0);
	for (unsigned i = 0; i < 100000; i++) {
		char want[32];
		unsigned line = i * 7919 % 20000 + 1;
		snprintf(want, sizeof want, "line %u", line);
		ck_assert_int_eq(opener_line(o, a, path, line, &got), 0);
		ck_assert(str_is(got, want));
	}
	opener_free(o);
	arena_free(a);
}
END_TEST

/* A process that made its code, a name of a file for each piece, none of which is a file. */
START_TEST(sources_very_many)
{
	enum { MANY = 400000 };
	struct arena *a = arena_new();
	struct opener *o = opener_new(NULL);
	struct timespec from, to;
	size_t absent = 0;
	struct str got;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &from);
	for (int round = 0; round < 2; round++)
		for (int i = 0; i < MANY; i++) {
			char path[32];
			snprintf(path, sizeof path, "/made/%07d.py", i);
			absent += opener_line(o, a, str_of(path), 1, &got) == ERR_ABSENT;
		}
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &to);
	ck_assert_uint_eq(absent, 2 * MANY);
	ck_assert_int_lt(to.tv_sec - from.tv_sec, 5);
	opener_free(o);
	arena_free(a);
}
END_TEST

START_TEST(source_map_and_sysroot)
{
	struct blob text;
	mkdir(in_dir("new"), 0700);
	mkdir(in_dir("newer"), 0700);
	mkdir(in_dir("root"), 0700);
	mkdir(in_dir("root/app"), 0700);
	write_text("newer/a.py", "not this");
	write_text("new/a.py", "mapped");
	write_text("root/app/a.py", "rooted");
	const char *const map[] = { "/app/old", in_dir("new"), "rel/", in_dir("new"), NULL };
	struct search where = { .source_map = map, .sysroot = in_dir("root") };
	struct opener *o = opener_new(&where);
	ck_assert_int_eq(opener_source(o, str_of("/app/old/a.py"), &text), 0);
	ck_assert(text.len == 6 && memcmp(text.p, "mapped", 6) == 0);
	ck_assert_int_eq(opener_source(o, str_of("rel/a.py"), &text), 0);
	ck_assert(text.len == 6 && memcmp(text.p, "mapped", 6) == 0);
	ck_assert_int_eq(opener_source(o, str_of("/app/a.py"), &text), 0);
	ck_assert(text.len == 6 && memcmp(text.p, "rooted", 6) == 0);
	ck_assert_int_eq(opener_source(o, str_of("/app/older/a.py"), &text), ERR_ABSENT); /* another folder */
	opener_free(o);
}
END_TEST

static void in_folder(struct opener *o, const char *folder)
{
	opener_folders(o, (const struct str[OPENER_FOLDERS]){ str_of(folder) });
}

/* Scripts named on the command line have the name they were given up to 3.8. */
START_TEST(relative_sources)
{
	static const struct { const char *path, *map[2], *folder, *text; bool used; } rows[] = {
		{ "crash.py", { 0 }, NULL, NULL, false },
		{ "crash.py", { "crash.py", "mapped/other.py" }, NULL, "other", false },
		{ "./crash.py", { "crash.py", "mapped/other.py" }, NULL, "other", false },
		{ "crash.py", { "./crash.py", "mapped/other.py" }, NULL, "other", false },
		{ "crash.py", { ".", "mapped" }, NULL, "mapped", false },
		{ ".//./crash.py", { ".", "mapped" }, NULL, "mapped", false },
		{ "crash.py", { "", "mapped/" }, NULL, "mapped", false },
		{ "crash.py", { ".", "mapped" }, "cwd", "mapped", false },
		{ "crash.py", { "rash", "mapped" }, "cwd", "cwd", true },
		{ "crash.py", { 0 }, "cwd", "cwd", true },
		{ "./crash.py", { 0 }, "cwd", "cwd", true },
		{ "../cwd/crash.py", { 0 }, "mapped", "cwd", true },
		{ "crash.txt", { 0 }, "cwd", NULL, false },
		{ "crash.txt", { ".", "cwd" }, NULL, NULL, false },
	};
	mkdir(in_dir("mapped"), 0700);
	mkdir(in_dir("cwd"), 0700);
	mkdir(in_dir("root"), 0700);
	write_text("mapped/crash.py", "mapped");
	write_text("mapped/other.py", "other");
	write_text("cwd/crash.py", "cwd");
	write_text("cwd/crash.txt", "secret");
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		const char *const map[] = { rows[i].map[0], rows[i].map[0] ? in_dir(rows[i].map[1]) : NULL, NULL };
		struct search where = { .source_map = map };
		struct opener *o = opener_new(&where);
		struct blob text;
		if (rows[i].folder)
			in_folder(o, in_dir(rows[i].folder));
		int rc = opener_source(o, str_of(rows[i].path), &text);
		ck_assert_msg((rc == 0) == (rows[i].text != NULL), "row %zu: %d", i, rc);
		if (rc == 0)
			ck_assert_msg(text.len == strlen(rows[i].text) && memcmp(text.p, rows[i].text, text.len) == 0, "row %zu", i);
		ck_assert_msg(opener_folders_used(o) == rows[i].used, "row %zu", i);
		if (rows[i].map[0] && !*rows[i].map[0])
			ck_assert_int_eq(opener_source(o, str_of("/crash.py"), &text), ERR_ABSENT); /* not relative */
		opener_free(o);
	}
}
END_TEST

/* Beneath the first of two folders that has it, by a source map of either; which one is told. */
START_TEST(relative_sources_of_two_folders)
{
	static const struct { const char *path, *folders[OPENER_FOLDERS], *map[2], *text; unsigned used; } rows[] = {
		{ "a.py", { "end", "start" }, { 0 }, "end", 1 },
		{ "b.py", { "end", "start" }, { 0 }, "begun", 2 },
		{ "b.py", { "", "start" }, { 0 }, "begun", 2 },
		{ "b.py", { "end", "" }, { 0 }, NULL, 0 },
		{ "c.py", { "end", "start" }, { 0 }, NULL, 0 },
		{ "b.py", { "end", "start" }, { "start", "end" }, NULL, 0 },
		{ "a.py", { "none", "start" }, { "start", "end" }, "end", 0 },
	};
	mkdir(in_dir("end"), 0700);
	mkdir(in_dir("start"), 0700);
	write_text("end/a.py", "end");
	write_text("start/a.py", "start");
	write_text("start/b.py", "begun");
	for (size_t i = 0; i < COUNT(rows); i++) {
		CLEANUP(cleanup_free) char *from = rows[i].map[0] ? xstrdup(in_dir(rows[i].map[0])) : NULL;
		const char *const map[] = { from, rows[i].map[0] ? in_dir(rows[i].map[1]) : NULL, NULL };
		struct search where = { .source_map = map };
		struct opener *o = opener_new(&where);
		struct str folders[OPENER_FOLDERS] = { 0 };
		char paths[OPENER_FOLDERS][4096];
		struct blob text;
		for (size_t k = 0; k < OPENER_FOLDERS; k++)
			if (*rows[i].folders[k])
				snprintf(paths[k], sizeof paths[k], "%s", in_dir(rows[i].folders[k])), folders[k] = str_of(paths[k]);
		opener_folders(o, folders);
		const int rc = opener_source(o, str_of(rows[i].path), &text);
		ck_assert_msg(rc == (rows[i].text ? 0 : ERR_ABSENT), "row %zu: %d", i, rc);
		ck_assert_msg(rc < 0 || (text.len == strlen(rows[i].text) && memcmp(text.p, rows[i].text, text.len) == 0), "row %zu", i);
		ck_assert_msg(opener_folders_used(o) == rows[i].used, "row %zu", i);
		opener_free(o);
	}
}
END_TEST

/* The process's folder is looked for in the sysroot first; a place that the user named stands by itself. */
START_TEST(relative_sources_elsewhere)
{
	struct blob text;
	char here[4096];
	mkdir(in_dir("root"), 0700);
	mkdir(in_dir("root/srv"), 0700);
	mkdir(in_dir("mine"), 0700);
	write_text("root/srv/a.py", "rooted");
	write_text("mine/a.py", "mine");
	struct search in_root = { .sysroot = in_dir("root") };
	struct opener *o = opener_new(&in_root);
	in_folder(o, "/srv");
	ck_assert_int_eq(opener_source(o, str_of("a.py"), &text), 0);
	ck_assert(text.len == 6 && memcmp(text.p, "rooted", 6) == 0);
	opener_free(o);

	const char *const map[] = { "/srv", "mine", NULL }; /* of the folder, and relative to where pyanalyze runs */
	struct search mapped = { .sysroot = in_dir("root"), .source_map = map };
	ck_assert_ptr_nonnull(getcwd(here, sizeof here));
	ck_assert_int_eq(chdir(in_dir("")), 0);
	o = opener_new(&mapped);
	in_folder(o, "/srv");
	ck_assert_int_eq(opener_source(o, str_of("a.py"), &text), 0);
	ck_assert(text.len == 4 && memcmp(text.p, "mine", 4) == 0);
	opener_free(o);

	o = opener_new(&mapped);
	in_folder(o, "srv"); /* no folder */
	ck_assert_int_eq(opener_source(o, str_of("a.py"), &text), ERR_ABSENT);
	opener_free(o);
	ck_assert_int_eq(chdir(here), 0);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("opener");
	TCase *tc = tcase_create("opener");
	tcase_set_timeout(tc, 60);
	tcase_add_checked_fixture(tc, make_dir, remove_dir);
	tcase_add_test(tc, candidates);
	tcase_add_loop_test(tc, refusals, 0, COUNT(refused));
	tcase_add_test(tc, only_looked_at);
	tcase_add_loop_test(tc, sysroot, 0, 2 * N_ROOTED);
	tcase_add_loop_test(tc, source_suffixes, 0, COUNT(names));
	tcase_add_loop_test(tc, linked_sources, 0, 3 * N_LINKED);
	tcase_add_test(tc, source_refusals);
	tcase_add_loop_test(tc, source_lines, 0, COUNT(lines));
	tcase_add_test(tc, sources_are_kept);
	tcase_add_test(tc, sources_very_many);
	tcase_add_test(tc, source_map_and_sysroot);
	tcase_add_test(tc, relative_sources);
	tcase_add_test(tc, relative_sources_of_two_folders);
	tcase_add_test(tc, relative_sources_elsewhere);
	suite_add_tcase(s, tc);
	return suite_run(s);
}
