/* Names of C++ and Rust as they are written; hostile ones come back as they are, soon and without harm. */
#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "config.h"
#include "module/demangle.h"
#include "suite.h"

static const struct { const char *symbol, *shown; } names[] = {
	{ "_Z3foov", "foo" },
	{ "_ZN3net6Client4sendERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE", "net::Client::send" },
	{ "_ZNK5shape3Box6volumeEv", "shape::Box::volume" },
	{ "_ZN3FooC1Ei", "Foo::Foo" },
	{ "_ZN3FooD0Ev", "Foo::~Foo" },
	{ "_ZNSt6vectorIiSaIiEE9push_backERKi", "std::vector<int, std::allocator<int> >::push_back" },
	{ "_ZN12_GLOBAL__N_14workEv", "(anonymous namespace)::work" },
	{ "_Z1fIiET_S0_", "f<int>" },
	{ "_ZplRK1AS1_", "operator+" },
	{ "_ZZ4mainENKUlvE_clEv", "main::{lambda()#1}::operator()" },
	{ "_ZN4core3fmt9Formatter3pad17h0123456789abcdefE", "core::fmt::Formatter::pad" },
	{ "_ZN60_$LT$alloc..string..String$u20$as$u20$core..fmt..Display$GT$3fmt17h0123456789abcdefE",
	  "<alloc::string::String as core::fmt::Display>::fmt" },
	{ "_RNvNtCs123_7mycrate3foo3bar", "mycrate::foo::bar" },
	{ "_RNvCskwGfYPst2Cb_3foo16example_function", "foo::example_function" },
	{ "_RINvNtC3std3mem8align_ofdE", "std::mem::align_of::<f64>" },
	/* Not mangled, or not well. */
	{ "main", NULL }, { "", NULL }, { "_", NULL }, { "_Z", NULL }, { "_R", NULL }, { "_ZN", NULL }, { "_Z3fo", NULL }, { "_Z99999999999999999999999x", NULL },
	{ "PyObject_Call", NULL }, { "_ZN3foo", NULL }, { "_RNvC", NULL }, { "Z3foov", NULL },
};

START_TEST(known)
{
	char buf[DEMANGLED_MAX];
	bool got = demangle(str_of(names[_i].symbol), buf, sizeof buf);
	const char *want = HAVE_LIBIBERTY ? names[_i].shown : NULL;
	ck_assert_msg(got == (want != NULL), "%s: %s", names[_i].symbol, got ? buf : "as it is");
	if (want)
		ck_assert_str_eq(buf, want);
}
END_TEST

/* name, repeated until it is n long, between two texts. */
static char *repeated(const char *before, const char *name, const char *after, size_t n)
{
	struct sb b = { 0 };
	sb_printf(&b, "%s", before);
	while (b.len < n)
		sb_printf(&b, "%s", name);
	sb_printf(&b, "%s", after);
	sb_char(&b, 0);
	return b.s;
}

static const struct { const char *before, *name, *after; } hostile[] = {
	{ "_Z", "P", "i" }, { "_Z1f", "P", "i" }, { "_ZN", "1a", "E" }, { "_Z1fI", "1XI", "E" }, { "_Z1fDT", "cv", "E" }, { "_Z", "N", "" },
	{ "_Z1fIJ", "S_", "EE" }, { "_Z1f1A", "S_", "" }, { "_Z1fI1AIS_S_E", "S0_S0_", "E" }, { "_R", "Nv", "C1a1b" }, { "_RNv", "I", "C1aE" },
	{ "_RMC0", "R", "e" }, { "_RMC0T", "B2_", "E" }, { "_RINvC1a1b", "TBa_Ba_E", "E" }, { "_ZN1a", "17h0123456789abcdef", "E" }, { "_RNvC", "u9", "" },
	{ "_Z", "\xff", "" }, { "_Z1f", "U8enable_if", "" },
};

START_TEST(bounded)
{
	static const size_t sizes[] = { 100, 1000, 1020, 5000, 1 << 20 };
	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
		char *symbol = repeated(hostile[_i].before, hostile[_i].name, hostile[_i].after, sizes[i]), buf[DEMANGLED_MAX], small[8];
		clock_t before = clock();
		if (demangle(str_of(symbol), buf, sizeof buf))
			ck_assert_uint_lt(strlen(buf), sizeof buf);
		if (demangle(str_of(symbol), small, sizeof small))
			ck_assert_uint_lt(strlen(small), sizeof small);
		ck_assert_msg(clock() - before < 2 * CLOCKS_PER_SEC, "%s", hostile[_i].before);
		free(symbol);
	}
}
END_TEST

/* Each type is a pair of the one before: 2^30 names would come of it. */
START_TEST(doubling)
{
	struct sb b = { 0 };
	char buf[DEMANGLED_MAX];
	sb_printf(&b, "_Z1f1AIiE");
	for (int i = 0; i < 30; i++)
		i < 36 ? sb_printf(&b, "1AIS%c_S%c_E", i < 10 ? '0' + i : 'A' + i - 10, i < 10 ? '0' + i : 'A' + i - 10) : (void)0;
	clock_t before = clock();
	(void)demangle(sb_view(&b), buf, sizeof buf);
	sb_free(&b);
	sb_printf(&b, "_RINvC1a1b");
	for (int i = 0; i < 60; i++)
		sb_printf(&b, "TB%x_B%x_E", i, i);
	sb_printf(&b, "E");
	(void)demangle(sb_view(&b), buf, sizeof buf);
	ck_assert(clock() - before < 2 * CLOCKS_PER_SEC);
	sb_free(&b);
}
END_TEST

START_TEST(with_nul)
{
	char buf[DEMANGLED_MAX];
	ck_assert(!demangle((struct str){ "_Z3foov\0x", 9 }, buf, sizeof buf));
}
END_TEST

/* Bytes at random after a good start. */
START_TEST(random_names)
{
	srand(4711);
	for (int i = 0; i < 100000; i++) {
		char name[64], buf[256];
		static const char letters[] = "_ZNRSTCIEKPLXJD0123456789abcdefghijklmnopqrstuvwx$.u";
		int n = 3 + rand() % 60;
		name[0] = '_';
		name[1] = i % 2 ? 'Z' : 'R';
		for (int k = 2; k < n; k++)
			name[k] = letters[(size_t)rand() % (sizeof letters - 1)];
		if (demangle((struct str){ name, (size_t)n }, buf, sizeof buf))
			ck_assert_uint_lt(strlen(buf), sizeof buf);
	}
}
END_TEST

int main(void)
{
	Suite *s = suite_create("demangle");
	TCase *tc = tcase_create("demangle");
	tcase_set_timeout(tc, 60);
	tcase_add_loop_test(tc, known, 0, COUNT(names));
	tcase_add_loop_test(tc, bounded, 0, COUNT(hostile));
	tcase_add_test(tc, doubling);
	tcase_add_test(tc, with_nul);
	tcase_add_test(tc, random_names);
	suite_add_tcase(s, tc);
	return suite_run(s);
}
