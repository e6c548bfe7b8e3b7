/* src/inspect/cxx_type: names of C++ types as type_info has them. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "inspect/cxx_type.h"

static const struct { const char *mangled, *words; } cases[] = {
	{ "St13runtime_error", "std::runtime_error" },
	{ "N4shop5ErrorE", "shop::Error" },
	{ "5Order", "Order" },
	{ "i", "int" },
	{ "PKc", "const char *" },
	{ "PSt13runtime_error", "std::runtime_error*" },
	{ "NSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE", "std::string" },
	{ "NSt3__112basic_stringIcNS_11char_traitsIcEENS_9allocatorIcEEEE", "std::string" },
	{ "NSt8ios_base7failureB5cxx11E", "std::ios_base::failure[abi:cxx11]" },
	{ "N12_GLOBAL__N_14AnonE", "(anonymous namespace)::Anon" },
	{ "N5boost10wrapexceptISt13runtime_errorEE", "boost::wrapexcept<std::runtime_error>" },
	{ "St17_Nested_exceptionISt11logic_errorE", "std::_Nested_exception<std::logic_error>" },
	/* What was named before: a namespace, a template, a type of its arguments. */
	{ "N3lib5OuterINS_5InnerEEE", "lib::Outer<lib::Inner>" },
	{ "N1a1bINS_1cES1_EE", "a::b<a::c, a::c>" },
	{ "N1a1bIPNS_1cES2_EE", "a::b<a::c*, a::c*>" },
	{ "N1a1bIPKNS_1cES3_S2_RS1_EE", "a::b<a::c const*, a::c const*, a::c const, a::c&>" },
	{ "NSt3__19bad_tupleINS_4pairIidEEEE", "std::__1::bad_tuple<std::__1::pair<int, double>>" },
	/* Values, packs. */
	{ "N3lib4ManyILi3ELb1EJiPKcEEE", "lib::Many<3, true, int, char const*>" },
	{ "1tILin7ELm8ELc65EE", "t<-7, 8, (char)65>" },
	{ "1tILN1a4kindE2EE", "t<(a::kind)2>" },
	{ "1tIJEE", "t<>" },
	/* Local to a function; without a name. */
	{ "Z7y_localE3Loc", "y_local::Loc" },
	{ "Z4mainE3Loc_0", "main::Loc" },
	{ "Z3runiPKcE3Loc", "run(int, char const*)::Loc" },
	{ "ZN4shop3runEvE3Loc", "shop::run()::Loc" },
	{ "ZNK4shop3runEvE3Loc", "shop::run() const::Loc" },
	/* The function has no number of its own: libcppcheck-core.so's and another's. */
	{ "ZN16ForwardTraversal15updateInnerLoopEP5TokenS1_S1_EUlvE_", "ForwardTraversal::updateInnerLoop(Token*, Token*, Token*)::{lambda()#1}" },
	{ "ZN1a3runENS_1bES0_E3Loc", "a::run(a::b, a::b)::Loc" },
	{ "Z8y_lambdaEUlvE_", "y_lambda::{lambda()#1}" },
	{ "Z8y_lambdaEUliE1_", "y_lambda::{lambda(int)#3}" },
	{ "Z3runvEUt_", "run()::{unnamed type#1}" },
	/* As they are: functions, arrays, members, expressions, a template's function; damaged ones. */
	{ "FivE", NULL }, { "A4_i", NULL }, { "M1ai", NULL }, { "1tIXsrT_E1vEE", NULL }, { "Z3runIiEvvE3Loc", NULL },
	{ "", NULL }, { "N", NULL }, { "N1a", NULL }, { "N1aE1b", NULL }, { "9short", NULL }, { "0", NULL }, { "1", NULL }, { "S_", NULL }, { "N1aS9_E", NULL },
	{ "1tI", NULL }, { "1tIi", NULL }, { "1tILi", NULL }, { "1tILiE", NULL }, { "Z", NULL }, { "Z1a", NULL }, { "Z1aE", NULL }, { "Z1aEUl", NULL }, { "St", NULL },
	{ "NB5cxx11E", NULL }, { "N1aB9cxx11E", NULL }, { "N1aBE", NULL }, { "99999999999999999999a", NULL }, { "P", NULL }, { "D", NULL }, { "NSt", NULL }, { "NK1a1bE", NULL }, { "ZNE3Loc", NULL },
};

static struct str words(struct arena *a, const char *mangled, size_t len)
{
	char *copy = malloc(len ? len : 1); /* so that what reads past it is seen */
	ck_assert_ptr_nonnull(copy);
	memcpy(copy, mangled, len);
	struct str got = cxx_type_words(a, (struct str){ copy, len });
	if (got.s == copy)
		got = (struct str){ mangled, len };
	free(copy);
	return got;
}

START_TEST(each)
{
	struct arena *a = arena_new();
	const char *mangled = cases[_i].mangled, *want = cases[_i].words ? cases[_i].words : mangled;
	struct str got = words(a, mangled, strlen(mangled));
	ck_assert_msg(str_is(got, want), "%s: " STR_FMT ", not %s", mangled, STR_ARG(got), want);
	/* Cut anywhere, or with any letter for another, it ends. */
	for (size_t i = 0; i < strlen(mangled); i++) {
		(void)words(a, mangled, i);
		for (const char *c = "SNIEZPLJU_09tBK"; *c; c++) {
			char other[256];
			snprintf(other, sizeof other, "%s", mangled);
			other[i] = *c;
			(void)words(a, other, strlen(other));
		}
	}
	arena_free(a);
}
END_TEST

/* What doubles with every step, and what lies deep in itself, stays as it is. */
START_TEST(bounded)
{
	struct arena *a = arena_new();
	struct sb b = { 0 };
	sb_printf(&b, "1aI1bEI");
	for (int i = 0; i < 40; i++)
		sb_printf(&b, "1aIS%c_S%c_E", i < 10 ? '0' + i : 'A' + i - 10, i < 10 ? '0' + i : 'A' + i - 10);
	struct str view = sb_view(&b), got = cxx_type_words(a, view);
	ck_assert(got.s == view.s);
	sb_free(&b);
	for (int i = 0; i < 100000; i++)
		sb_char(&b, i % 2 ? 'P' : 'K');
	sb_char(&b, 'i');
	view = sb_view(&b);
	got = cxx_type_words(a, view);
	ck_assert(got.s == view.s);
	sb_free(&b);
	sb_printf(&b, "1a");
	for (int i = 0; i < 100000; i++)
		sb_printf(&b, i % 2 ? "I1a" : "IJ");
	view = sb_view(&b);
	got = cxx_type_words(a, view);
	ck_assert(got.s == view.s);
	sb_free(&b);
	arena_free(a);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("cxx_type");
	TCase *c = tcase_create("cxx_type");
	tcase_add_loop_test(c, each, 0, (int)(sizeof cases / sizeof *cases));
	tcase_add_test(c, bounded);
	suite_add_tcase(s, c);
	SRunner *r = srunner_create(s);
	srunner_run_all(r, CK_SILENT);
	int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed != 0;
}
