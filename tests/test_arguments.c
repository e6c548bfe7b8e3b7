/* inspect/arguments: the command line in a core's memory, held against the kernel's note of it. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "build_elf.h"
#include "inspect/parts.h"
#include "suite.h"

enum { STACK = 0x7f000000, SIZE = 0x20000, TOP = STACK + SIZE, AT_ENTRY = 9, AT_RANDOM = 25, AT_EXECFN = 31 };

struct way {
	const char *abi, *noted;
	const char *argv[8];   /* as they lie; shown by their order */
	bool turned;           /* the pointers were put in another order, as getopt_long does */
	int unset;             /* so many variables were taken out of the environment's list */
	size_t lengthen;       /* the last argument is so much longer */
	const char *title;     /* what the process wrote over all of it */
	bool lost;             /* the strings are not there */
	const char *want;      /* NULL: that it begins so, and the lengthened one's end */
};

#define SEVENTY "/opt/python/bin/python3.12 -u -X dev -W ignore /srv/app/main.py --jobs"
static const struct way ways[] = {
	{ "x86_64", "python -m http.server 0", { "python", "-m", "http.server", "0" }, .want = "python -m http.server 0" },
	{ "i386", "python -m http.server 0", { "python", "-m", "http.server", "0" }, .want = "python -m http.server 0" },
	{ "aarch64", "python", { "python" }, .want = "python" },
	{ "x86_64", SEVENTY "=16 --", { SEVENTY "=16", "--name", "a b", "", "end" }, .want = SEVENTY "=16 --name a b  end" },
	{ "x86_64", SEVENTY " aaaaaaaa", { SEVENTY, "aaaaaaaaaaaa" }, .want = SEVENTY " aaaaaaaaaaaa" },
	/* A byte that is no character, and a character that the note cuts. */
	{ "x86_64", "python \xff x", { "python", "\xff", "x" }, .want = "python \\xff x" },
	{ "x86_64", SEVENTY " 2345678\xc3", { SEVENTY, "2345678\xc3\xa9", "x" }, .want = SEVENTY " 2345678\xc3\xa9 x" },
	{ "x86_64", "python -v x.py", { "python", "-v", "x.py" }, .turned = true, .want = "python -v x.py" },
	{ "x86_64", "python x.py", { "python", "x.py" }, .unset = 2, .want = "python x.py" },
	/* gcore notes the program alone. */
	{ "x86_64", "python", { "python", "x.py" }, .want = "python x.py" },
	{ "x86_64", "", { "python", "x.py" }, .want = "python x.py" },
	/* Its own words of it, over the arguments or at another place. */
	{ "x86_64", "worker: idle", { "python", "x.py", "--long" }, .title = "worker: idle", .want = "worker: idle" },
	{ "x86_64", "worker: idle", { "python", "x.py" }, .want = "worker: idle" },
	{ "x86_64", "python x", { "python", "x.py" }, .want = "python x" },
	{ "x86_64", "python x.py", { "python", "x.py" }, .lost = true, .want = "python x.py" },
	{ "x86_64", SEVENTY " 234567890", { SEVENTY, "234567890" }, .lost = true, .want = SEVENTY " 23456789..." },
	{ "x86_64", SEVENTY " aaaaaaaa", { SEVENTY, "" }, .lengthen = 0x18000, .want = NULL },
	/* As the arguments of no process lie. */
	{ "x86_64", "python x.py", { NULL }, .want = "python x.py" },
};

static struct image *image_of(struct build_elf *b, const struct way *w)
{
	const size_t width = build_elf_abi(b)->width;
	uint8_t *m = build_elf_memory(b, STACK, SIZE, 3);
	memset(m, 0, SIZE);
#define AT(addr) (m + ((addr) - STACK))
	static const char *const env[] = { "A=1", "PWD=/srv", "Z=" };
	addr_t argp[8], envp[3], at = TOP - width - sizeof "/usr/bin/python3";
	const addr_t execfn = at;
	memcpy(AT(at), "/usr/bin/python3", sizeof "/usr/bin/python3");
	for (size_t i = 3; i-- > 0;) {
		at -= strlen(env[i]) + 1;
		memcpy(AT(at), env[i], strlen(env[i]) + 1);
		envp[i] = at;
	}
	size_t n = 0;
	while (n < 8 && w->argv[n])
		n++;
	const addr_t end = at;
	for (size_t i = n; i-- > 0;) {
		const size_t more = i + 1 == n ? w->lengthen : 0, len = strlen(w->argv[i]);
		at -= len + more + 1;
		memset(AT(at), 'a', len + more);
		memcpy(AT(at), w->argv[i], len);
		argp[i] = at;
	}
	if (w->title) {
		memset(AT(at), 0, (size_t)(end - at));
		memcpy(AT(at), w->title, strlen(w->title));
	}
	const addr_t random = (at - 100) & ~(addr_t)0xf;
	memset(AT(random), 0x55, 16);
	addr_t vector = (random - 24 - 4 * 2 * width) & ~(addr_t)0xf, p = vector;
	const uint64_t pairs[][2] = { { AT_ENTRY, 0x401000 }, { AT_RANDOM, random }, { AT_EXECFN, execfn }, { 0, 0 } };
	for (size_t i = 0; i < 4; i++)
		for (size_t k = 0; k < 2; k++, p += width)
			build_elf_put(b, AT(p), width, pairs[i][k]);
	for (size_t i = 0; i < 3; i++)
		build_elf_auxv(b, pairs[i][0], pairs[i][1]);
	p = vector - width; /* 0 */
	for (size_t i = 3; i-- > 0;) {
		p -= width;
		build_elf_put(b, AT(p), width, (int)i >= 3 - w->unset ? 0 : envp[i]);
	}
	p -= width; /* 0 */
	for (size_t i = n; i-- > 0;) {
		p -= width;
		build_elf_put(b, AT(p), width, argp[w->turned ? n - 1 - i : i]);
	}
	build_elf_put(b, AT(p - width), width, n);
	if (w->lost)
		for (size_t i = 0; i < n; i++)
			build_elf_put(b, AT(p + i * width), width, 0x1000);
	return build_elf_open(b);
}

START_TEST(command_line)
{
	const struct way *w = &ways[_i];
	struct build_elf *b = build_elf_new(w->abi);
	build_elf_thread(b, 100, 0x401000, STACK + 0x100);
	build_elf_prpsinfo(b, 100, 1, 0, "python", w->noted);
	struct image *img = image_of(b, w);
	struct target t = { .img = img, .arena = arena_new() };
	struct str got = arguments_of(&t, NULL, t.arena);
	if (w->want)
		ck_assert_msg(str_is(got, w->want), "row %d: " STR_FMT, _i, STR_ARG(got));
	else
		ck_assert_msg(str_starts(got, SEVENTY " aaaaaaaaaaaaaa") && str_ends(got, "aaa ...") && got.len < 0x18000, "row %d: %zu", _i, got.len);
	arena_free(t.arena);
	image_close(img);
	build_elf_free(b);
}
END_TEST

/* A stack of nothing but what looks like it: it ends, and claims nothing. */
START_TEST(hostile)
{
	struct build_elf *b = build_elf_new("x86_64");
	build_elf_thread(b, 100, 0x401000, STACK + 0x100);
	build_elf_prpsinfo(b, 100, 1, 0, "python", "python x.py");
	uint8_t *m = build_elf_memory(b, STACK, 0x100000, 3);
	const addr_t random = STACK + 0xff000;
	build_elf_auxv(b, AT_RANDOM, random);
	build_elf_put(b, m + 0xfef00, 8, AT_RANDOM);
	build_elf_put(b, m + 0xfef08, 8, random);
	for (size_t i = 0; i < 0xfef00; i += 8)
		build_elf_put(b, m + i, 8, _i == 0 ? random + 8 : _i == 1 ? i / 8 % 2 : _i == 2 ? 1 : (addr_t)-1);
	struct image *img = build_elf_open(b);
	struct target t = { .img = img, .arena = arena_new() };
	struct str got = arguments_of(&t, NULL, t.arena);
	ck_assert_msg(str_is(got, "python x.py"), STR_FMT, STR_ARG(got));
	arena_free(t.arena);
	image_close(img);
	build_elf_free(b);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("arguments");
	TCase *tc = tcase_create("arguments");
	tcase_add_loop_test(tc, command_line, 0, COUNT(ways));
	tcase_add_loop_test(tc, hostile, 0, 4);
	suite_add_tcase(s, tc);
	return suite_run(s);
}
