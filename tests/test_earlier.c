/* src/cmd/earlier: what is a report by its beginning. */
#include "cmd/earlier.h"

#include <glob.h>
#include <string.h>

#include "suite.h"

START_TEST(reports)
{
	static const char *const forms[] = { "txt", "json", "svg" };
	char pattern[4096], text[8192];
	size_t seen = 0;
	for (size_t i = 0; i < COUNT(forms); i++) {
		glob_t g;
		snprintf(pattern, sizeof pattern, "%s/golden/*.%s", getenv("FIXTURES"), forms[i]);
		ck_assert_int_eq(glob(pattern, 0, NULL, &g), 0);
		for (size_t k = 0; k < g.gl_pathc; k++, seen++) {
			FILE *f = fopen(g.gl_pathv[k], "r");
			ck_assert_ptr_nonnull(f);
			size_t n = fread(text, 1, sizeof text, f);
			fclose(f);
			ck_assert_msg(earlier_is_report((struct str){ text, n }), "%s", g.gl_pathv[k]);
		}
		globfree(&g);
	}
	ck_assert_uint_gt(seen, 40);
}
END_TEST

#define SVG_1 "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"1200\" height=\"206\" viewBox=\"0 0 1200 206\">\n"
#define SVG_2 "<title>x</title>\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n"
static const struct { const char *text; bool is; } files[] = {
	{ "CRASH  SIGSEGV\n  in  f\n\npython\ncore 1 B\n1 thread\n", true },
	{ "UNKNOWN\n\npython\n  pid 1\ncore 1 B\n  complete\n0 threads\n", true },
	{ "python\nsnapshot 1 B\n1,234 threads\n", true },
	{ "python\ndumped 2026-11-30\n  core 1 B\n2 of 3 threads shown\n", true },
	{ "{\"schema\":\"pysnap.report/1\"}\n", true },
	{ "{\n \"schema\" : \"pysnap.report/2\"", true },
	{ SVG_1 SVG_2 "<g font-family=\"'DejaVu Sans Mono', Menlo, Consolas, monospace\" font-size=\"12\">", true },
	{ "", false }, { "\n", false }, { "{", false }, { "{}", false }, { "{\"schema\": \"other/1\"}", false }, { "[{\"schema\":\"pysnap.report/1\"}]", false },
	{ "CRASH", false }, { "CRASH  SIGSEGV\n", false }, { "CRASHED\n\npython\ncore 1 B\n1 thread\n", false }, { "CRASH  test\nimport os\n\npython\ncore 1 B\n1 thread\n", false },
	{ "CRASH  SIGSEGV\n\npython\ncore dump\nof 3 threads\n", false }, { "\n\npython\ncore 1 B\n1 thread\n", false },
	{ "import time\n    x = 1\ncore = 2\n1 thread\n", false }, { "See below.\nCRASH  SIGSEGV\n\npython\ncore 1 B\n1 thread\n", false },
	{ "python\ncore 1 B\n1 file\n", false }, { "python\ncore 1 B\n", false }, { "python\ncore 1 B\n,", false },
	{ SVG_1, false }, { SVG_1 SVG_2 "<g font-family=\"Arial\">", false }, { "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"1200\" height=\"206\">", false },
};

START_TEST(beginnings)
{
	ck_assert_msg(earlier_is_report(str_of(files[_i].text)) == files[_i].is, "row %d", _i);
}
END_TEST

/* Wherever it is cut, it is looked at no further. */
START_TEST(cut)
{
	for (size_t i = 0; i < COUNT(files); i++)
		for (size_t n = 0; n < strlen(files[i].text); n++) {
			char *exact = malloc(n + 1);
			memcpy(exact, files[i].text, n);
			exact[n] = 'x';
			(void)earlier_is_report((struct str){ exact, n });
			free(exact);
		}
}
END_TEST

int main(void)
{
	Suite *s = suite_create("earlier");
	TCase *c = tcase_create("earlier");
	tcase_add_test(c, reports);
	tcase_add_loop_test(c, beginnings, 0, COUNT(files));
	tcase_add_test(c, cut);
	suite_add_tcase(s, c);
	return suite_run(s);
}
