/* Which source files are Python's own library, and which frame of a stack is the innermost outside of it. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "inspect/parts.h"
#include "suite.h"

static const struct { const char *file; bool library; } files[] = {
	{ "/usr/lib/python3.11/threading.py", true },
	{ "/usr/lib/python2.7/threading.py", true },
	{ "/usr/lib64/python3.14/asyncio/base_events.py", true },
	{ "/opt/py/lib/python3.13t/ctypes/__init__.py", true },
	{ "lib/python3.12/os.py", true },
	{ "<frozen importlib._bootstrap>", true },
	{ "<frozen runpy>", true },
	/* Packages; /usr/lib/python3 is Debian's for all versions. */
	{ "/opt/py/lib/python3.13/site-packages/numpy/core.py", false },
	{ "/usr/local/lib/python3.11/dist-packages/six.py", false },
	{ "/usr/lib/python3/dist-packages/yaml/__init__.py", false },
	{ "/srv/venv/lib/python3.12/site-packages/lib/python3.12/os.py", false },
	{ "/opt/lib/python3.12/site-packages.py", true },
	/* A program's own. */
	{ "/srv/python3.11/app.py", false },
	{ "/srv/lib/python/app.py", false },
	{ "/srv/lib/python3/app.py", false },
	{ "/srv/lib/python3./app.py", false },
	{ "/srv/lib/python3.11", false },
	{ "/srv/lib/python3.11-extras/app.py", false },
	{ "/srv/app.py", false },
	{ "<string>", false },
	{ "<stdin>", false },
	{ "<frozen", false },
	{ "/python", false },
	{ "", false },
};

START_TEST(file)
{
	ck_assert_msg(python_library(str_of(files[_i].file)) == files[_i].library, "%s", files[_i].file);
}
END_TEST

enum { FRAMES = 8, PC = 0x1000 };

/* Innermost first: "P" the program's, "L" the library's, "U" one of no file, "c" a native one. */
static const struct { const char *stack; int at; } stacks[] = {
	{ "ccLP", 3 },
	{ "LLcPP", 3 },
	{ "LUP", 2 },
	{ "P", 0 },
	{ "LPL", 1 },
	{ "LLcL", -1 },
	{ "cU", -1 },
	{ "c", -1 },
};

START_TEST(outside)
{
	const char *text = stacks[_i].stack;
	const size_t n = strlen(text);
	struct report_frame f[FRAMES];
	const struct report_frame *p[FRAMES];
	memset(f, 0, sizeof f);
	for (size_t i = 0; i < n; i++) {
		f[i].pc = PC + i;
		f[i].python = text[i] != 'c';
		f[i].file = text[i] == 'P' ? STR("/srv/app.py") : text[i] == 'L' ? STR("/usr/lib/python3.11/os.py") : (struct str){ 0 };
		p[n - 1 - i] = &f[i];
	}
	const struct report_run run = { .frames = p, .n = n, .repeat = 1 };
	const struct report_thread th = { .runs = &run, .n_runs = 1 };
	const struct report_frame *found = outside_library(&th, 0);
	ck_assert_msg(found == (stacks[_i].at < 0 ? NULL : &f[stacks[_i].at]), "%s: frame %td", text, found ? found - f : -1);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("library");
	TCase *c = tcase_create("frames");
	tcase_add_loop_test(c, file, 0, COUNT(files));
	tcase_add_loop_test(c, outside, 0, COUNT(stacks));
	suite_add_tcase(s, c);
	return suite_run(s);
}
