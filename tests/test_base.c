/* src/base: bounded parsing, text that is always valid UTF-8, the arena, checked sums, the error message. */
#include "base/cursor.h"
#include "suite.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

/* ck_assert costs a system call, so bytes are compared here. */
static bool all_are(const uint8_t *p, size_t len, uint8_t v)
{
	for (size_t i = 0; i < len; i++)
		if (p[i] != v)
			return false;
	return true;
}

/* --- cursor --- */

static const uint8_t octets[] = { 0x01, 0x82, 0x03, 0x84, 0x05, 0x86, 0x07, 0x88, 0x99 };
static const struct { size_t width; bool big; int rc; uint64_t v; } uints[] = {
	{ 0, false, ERR_CORRUPT, 0 },
	{ 1, false, 0, 0x01 },
	{ 2, false, 0, 0x8201 },
	{ 2, true, 0, 0x0182 },
	{ 3, false, 0, 0x038201 },
	{ 3, true, 0, 0x018203 },
	{ 4, false, 0, 0x84038201 },
	{ 4, true, 0, 0x01820384 },
	{ 8, false, 0, 0x8807860584038201 },
	{ 8, true, 0, 0x0182038405860788 },
	{ 9, false, ERR_CORRUPT, 0 },
};

START_TEST(cursor_uints)
{
	uint64_t v = 42;
	struct cursor c = cursor_of(octets, sizeof octets, uints[_i].big);
	ck_assert_int_eq(cursor_uint(&c, uints[_i].width, &v), uints[_i].rc);
	ck_assert_uint_eq(v, uints[_i].rc ? 42 : uints[_i].v);
	ck_assert_uint_eq(cursor_at(&c), uints[_i].rc ? 0 : uints[_i].width);
}
END_TEST

START_TEST(cursor_stops_at_the_end)
{
	for (size_t len = 0; len < 8; len++)
		for (size_t width = 1; width <= 8; width++) {
			uint64_t v = 42;
			struct cursor c = cursor_of(octets, len, false);
			int rc = cursor_uint(&c, width, &v);
			ck_assert_int_eq(rc, width <= len ? 0 : ERR_CORRUPT);
			ck_assert_uint_eq(cursor_left(&c), width <= len ? len - width : len);
			if (rc)
				ck_assert_uint_eq(v, 42);
		}
	struct cursor none = cursor_of(NULL, 0, false), sub;
	struct blob b;
	uint8_t u8;
	uint16_t u16 = 7;
	uint32_t u32;
	ck_assert_int_eq(cursor_u8(&none, &u8), ERR_CORRUPT);
	ck_assert_int_eq(cursor_cstr(&none, &b), ERR_CORRUPT);
	ck_assert_int_eq(cursor_line(&none, &b), ERR_CORRUPT);
	ck_assert_int_eq(cursor_take(&none, 1, &b), ERR_CORRUPT);
	ck_assert_int_eq(cursor_take(&none, 0, &b), 0);
	struct cursor c = cursor_of(octets, sizeof octets, true);
	ck_assert_int_eq(cursor_skip(&c, UINT64_MAX), ERR_CORRUPT);
	ck_assert_int_eq(cursor_seek(&c, 10), ERR_CORRUPT);
	ck_assert_int_eq(cursor_seek(&c, 9), 0);
	ck_assert_int_eq(cursor_u16(&c, &u16), ERR_CORRUPT);
	ck_assert_uint_eq(u16, 7);
	ck_assert_int_eq(cursor_seek(&c, 1), 0);
	ck_assert_int_eq(cursor_sub(&c, 8, &sub), 0);
	ck_assert_int_eq(cursor_sub(&c, 1, &sub), ERR_CORRUPT);
	ck_assert_int_eq(cursor_u32(&sub, &u32), 0);
	ck_assert_uint_eq(u32, 0x82038405); /* the byte order is inherited */
	ck_assert_int_eq(cursor_align(&sub, 8), 0);
	ck_assert_uint_eq(cursor_left(&sub), 0); /* aligned to the sub-cursor's start */
}
END_TEST

START_TEST(cursor_align_needs_the_bytes)
{
	struct cursor c = cursor_of(octets, 6, false);
	ck_assert_int_eq(cursor_align(&c, 4), 0);
	ck_assert_uint_eq(cursor_at(&c), 0);
	ck_assert_int_eq(cursor_skip(&c, 5), 0);
	ck_assert_int_eq(cursor_align(&c, 4), ERR_CORRUPT);
	ck_assert_uint_eq(cursor_at(&c), 5);
}
END_TEST

static const struct { const char *bytes; size_t len; int rc; uint64_t u; int64_t s; size_t used; } lebs[] = {
	{ "\x00", 1, 0, 0, 0, 1 },
	{ "\x7f", 1, 0, 127, -1, 1 },
	{ "\x3f", 1, 0, 63, 63, 1 },
	{ "\x40", 1, 0, 64, -64, 1 },
	{ "\xe5\x8e\x26", 3, 0, 624485, 624485, 3 },
	{ "\x80\x7f", 2, 0, 16256, -128, 2 },
	{ "\x80\x00", 2, 0, 0, 0, 2 }, /* longer than needed */
	{ "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 10, 0, UINT64_MAX, -1, 10 },
	{ "\x80\x80\x80\x80\x80\x80\x80\x80\x80\x7f", 10, 0, UINT64_C(1) << 63, INT64_MIN, 10 },
	{ "", 0, ERR_CORRUPT, 0, 0, 0 },
	{ "\x80", 1, ERR_CORRUPT, 0, 0, 0 },
	{ "\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x00", 11, ERR_CORRUPT, 0, 0, 0 }, /* past 64 bits */
};

START_TEST(cursor_lebs)
{
	struct cursor u = cursor_of(lebs[_i].bytes, lebs[_i].len, false), s = u;
	uint64_t uv = 42;
	int64_t sv = 42;
	ck_assert_int_eq(cursor_uleb(&u, &uv), lebs[_i].rc);
	ck_assert_int_eq(cursor_sleb(&s, &sv), lebs[_i].rc);
	ck_assert_uint_eq(uv, lebs[_i].rc ? 42 : lebs[_i].u);
	ck_assert_int_eq(sv, lebs[_i].rc ? 42 : lebs[_i].s);
	ck_assert_uint_eq(cursor_at(&u), lebs[_i].used);
	ck_assert_uint_eq(cursor_at(&s), lebs[_i].used);
}
END_TEST

START_TEST(cursor_text)
{
	struct cursor c = cursor_of("ab\0\0cd", 6, false);
	struct blob b;
	ck_assert_int_eq(cursor_cstr(&c, &b), 0);
	ck_assert_mem_eq(b.p, "ab", 2);
	ck_assert_uint_eq(b.len, 2);
	ck_assert_int_eq(cursor_cstr(&c, &b), 0);
	ck_assert_uint_eq(b.len, 0);
	ck_assert_int_eq(cursor_cstr(&c, &b), ERR_CORRUPT); /* no NUL */
	ck_assert_uint_eq(cursor_left(&c), 2);
	c = cursor_of("x\n\nlast", 7, false);
	static const char *const lines[] = { "x", "", "last" };
	for (size_t i = 0; i < COUNT(lines); i++) {
		ck_assert_int_eq(cursor_line(&c, &b), 0);
		ck_assert_uint_eq(b.len, strlen(lines[i]));
		ck_assert_mem_eq(b.p, lines[i], b.len);
	}
	ck_assert_int_eq(cursor_line(&c, &b), ERR_CORRUPT);
}
END_TEST

/* --- text --- */

/* Bytes, whether they are UTF-8, and what str_from_bytes makes of them. */
static const struct { const char *bytes; bool valid; const char *text; } texts[] = {
	{ "", true, "" },
	{ "plain", true, "plain" },
	{ "gr\xc3\xbc\xc3\x9f", true, "gr\xc3\xbc\xc3\x9f" },
	{ "\xe6\x97\xa5\xe6\x9c\xac", true, "\xe6\x97\xa5\xe6\x9c\xac" },
	{ "\xf0\x9f\x90\x8d", true, "\xf0\x9f\x90\x8d" },
	{ "\xf4\x8f\xbf\xbf", true, "\xf4\x8f\xbf\xbf" },
	{ "\xf4\x90\x80\x80", false, "\\xf4\\x90\\x80\\x80" },       /* past U+10FFFF */
	{ "\xf8\x88\x80\x80\x80", false, "\\xf8\\x88\\x80\\x80\\x80" },
	{ "a\xff" "b", false, "a\\xffb" },
	{ "\xc0\x80", false, "\\xc0\\x80" },                         /* overlong */
	{ "\xe0\x9f\xbf", false, "\\xe0\\x9f\\xbf" },
	{ "\xf0\x8f\xbf\xbf", false, "\\xf0\\x8f\\xbf\\xbf" },
	{ "\x80", false, "\\x80" },
	{ "x\xc3", false, "x\\xc3" },                                /* cut */
	{ "x\xe6\x97", false, "x\\xe6\\x97" },
	{ "\xc3(", false, "\\xc3(" },
	{ "\xed\xa0\x80", false, "\\ud800" },                        /* surrogates, as surrogateescape leaves them */
	{ "\xed\xb3\xbf!", false, "\\udcff!" },
	{ "\xed\x9f\xbf", true, "\xed\x9f\xbf" },                    /* U+D7FF, the last before them */
	{ "\xed\xa0", false, "\\xed\\xa0" },
	{ "\xc3\xbc\xff\xc3\xbc", false, "\xc3\xbc\\xff\xc3\xbc" },
};

START_TEST(text_from_bytes)
{
	size_t len = strlen(texts[_i].bytes);
	CLEANUP(cleanup_arena) struct arena *a = arena_new();
	ck_assert_int_eq(str_valid(texts[_i].bytes, len), texts[_i].valid);
	struct str s = str_from_bytes(a, texts[_i].bytes, len);
	ck_assert(str_is(s, texts[_i].text));
	ck_assert(str_valid(s.s, s.len));
}
END_TEST

START_TEST(text_from_any_bytes_is_valid)
{
	CLEANUP(cleanup_arena) struct arena *a = arena_new();
	for (unsigned b0 = 0x70; b0 < 256; b0++)
		for (unsigned b1 = 0x70; b1 < 256; b1 += 3) {
			uint8_t p[] = { (uint8_t)b0, (uint8_t)b1, 0x80, (uint8_t)(b0 ^ b1), 0xbf };
			for (size_t len = 1; len <= sizeof p; len++) {
				struct str s = str_from_bytes(a, p, len);
				if (!str_valid(s.s, s.len))
					ck_abort_msg("%02x %02x, %zu bytes", b0, b1, len);
			}
		}
}
END_TEST

static const struct { const char *text, *safe; size_t columns; } safes[] = {
	{ "plain text", "plain text", 10 },
	{ "gr\xc3\xbc\xc3\x9f", "gr\xc3\xbc\xc3\x9f", 4 },
	{ "\xe6\x97\xa5\xe6\x9c\xac", "\xe6\x97\xa5\xe6\x9c\xac", 4 },       /* wide */
	{ "e\xcc\x81", "e\xcc\x81", 1 },                                     /* combining */
	{ "a\nb\tc\rd", "a\\nb\\tc\\rd", 7 },
	{ "\x1b[31m", "\\x1b[31m", 5 },                                      /* the terminal's escape */
	{ "\x07\x7f", "\\x07\\x7f", 2 },
	{ "\xc2\x9b" "31m", "\\x9b31m", 4 },                                 /* C1: CSI in one byte */
	{ "\xe2\x80\xae" "gnp", "\\u202egnp", 4 },                           /* right-to-left override */
	{ "\xe2\x81\xa6x\xe2\x81\xa9", "\\u2066x\\u2069", 3 },               /* isolates */
	{ "\xe2\x80\x8b\xef\xbb\xbf", "\\u200b\\ufeff", 2 },                 /* zero width */
	{ "\xe2\x80\xa8", "\\u2028", 1 },                                    /* line separator */
	{ "\xf3\xa0\x81\x81", "\\U000e0041", 1 },                            /* tag characters */
	{ "\xee\x80\x80", "\\ue000", 1 },                                    /* private use */
};

START_TEST(text_is_safe_to_show)
{
	CLEANUP(cleanup_sb) struct sb b = { 0 };
	sb_safe(&b, str_of(safes[_i].text));
	ck_assert(str_is(sb_view(&b), safes[_i].safe));
	ck_assert_uint_eq(str_columns(str_of(safes[_i].text)), safes[_i].columns);
	for (size_t i = 0; i < b.len; i++)
		ck_assert((uint8_t)b.s[i] >= 0x20 && b.s[i] != 0x7f);
}
END_TEST

START_TEST(text_round_trip)
{
	for (uint32_t cp = 0; cp <= 0x10ffff; cp += cp < 0x3000 ? 1 : 97) {
		if (cp >= 0xd800 && cp < 0xe000)
			continue;
		char out[4];
		size_t n = str_encode(cp, out), used;
		if (!str_valid(out, n) || str_decode(out, n, &used) != cp || used != n)
			ck_abort_msg("U+%04X", (unsigned)cp);
	}
}
END_TEST

/* whole: what was added names the whole function or object. */
static const struct { const char *name, *function; bool whole; } functions[] = {
	{ "main", "main", false }, { "", "", false }, { ".text", ".text", false }, { "PyCFuncPtr_call.cold", "PyCFuncPtr_call", false }, { "f.cold.1", "f", false },
	{ "f.part.0", "f", false }, { "f.isra.12", "f", false }, { "collect.constprop.0", "collect", false }, { "f.constprop.0.isra.0.cold", "f", false },
	{ "f.isra.0.lto_priv.0", "f", false }, { "collecting.lto_priv.0", "collecting", true }, { "f.llvm.1234567890", "f", true }, { "f.lto_priv.0.llvm.5", "f", true },
	{ "f.__uniq.77", "f", true }, { "f.localalias", "f", true }, { "f.localalias.cold", "f", false }, { "f.clone.3", "f", false }, { "state.1234", "state", false },
	{ "_ZN4shop5OrderC2Ev.cold", "_ZN4shop5OrderC2Ev", false }, { "shop::Order::Order() [clone .cold]", "shop::Order::Order()", false },
	{ "shop::log(char const*, ...)", "shop::log(char const*, ...)", false }, { "pthread_kill@@GLIBC_2.34", "pthread_kill", false }, { "read@plt", "read", false },
	/* Other languages' dots, and what only looks alike. */
	{ "main.run", "main.run", false }, { "main.init.0", "main.init", false }, { "main.colder", "main.colder", false }, { "f.cold2", "f.cold2", false }, { "f.", "f.", false },
	{ "f..cold", "f.", false }, { "f.1x", "f.1x", false }, { "f.part.x", "f", false },
};

START_TEST(text_functions)
{
	const struct str name = str_of(functions[_i].name), f = str_function(name);
	ck_assert_msg(str_is(f, functions[_i].function), "%s: " STR_FMT, functions[_i].name, STR_ARG(f));
	ck_assert_int_eq(str_is_renaming((struct str){ name.s + f.len, name.len - f.len }), functions[_i].whole);
}
END_TEST

START_TEST(text_parts)
{
	ck_assert(str_is(str_base(STR("/usr/bin/python")), "python"));
	ck_assert(str_is(str_base(STR("python")), "python"));
	ck_assert(str_is(str_base(STR("dir/")), ""));
	ck_assert(str_starts(STR("abc"), "ab") && !str_starts(STR("a"), "ab") && str_starts(STR("a"), ""));
	ck_assert(str_ends(STR("abc"), "bc") && !str_ends(STR("c"), "bc"));
	ck_assert_int_lt(str_cmp(STR("ab"), STR("abc")), 0);
	ck_assert_int_gt(str_cmp(STR("b"), STR("abc")), 0);
	ck_assert_int_eq(str_cmp(STR(""), (struct str){ 0 }), 0);
	CLEANUP(cleanup_arena) struct arena *a = arena_new();
	ck_assert(str_is(str_printf(a, "%d %s", 7, "x"), "7 x"));
	ck_assert_ptr_null(str_dup(a, (struct str){ 0 }).s);
	ck_assert_str_eq(str_c(a, STR("xy")), "xy");
	static const uint8_t id[] = { 0x00, 0x9a, 0xff };
	ck_assert(str_is(str_hex(a, (struct blob){ id, 3 }), "009aff"));
	uint8_t back[3] = { 1, 1, 1 };
	ck_assert_int_eq(str_unhex("009aFF", 6, back, 3), 3);
	ck_assert_mem_eq(back, id, 3);
	ck_assert_int_eq(str_unhex("009", 3, back, 3), -1);
	ck_assert_int_eq(str_unhex("0g", 2, back, 3), -1);
	ck_assert_int_eq(str_unhex("00112233", 8, back, 3), -1);
}
END_TEST

/* --- memory --- */

START_TEST(arena_gives_zeroed_aligned_memory)
{
	CLEANUP(cleanup_arena) struct arena *a = arena_new();
	static const size_t sizes[] = { 1, 15, 16, 17, 4096, 20000, 70000, 1, 65536, 0, 33, 1 << 20 };
	uint8_t *got[COUNT(sizes)];
	size_t sum = 0;
	for (size_t i = 0; i < COUNT(sizes); i++) {
		got[i] = arena_alloc(a, sizes[i]);
		ck_assert_uint_eq((uintptr_t)got[i] % 16, 0);
		ck_assert(all_are(got[i], sizes[i], 0));
		memset(got[i], (int)i + 1, sizes[i]);
		sum += (sizes[i] + 15) / 16 * 16;
	}
	for (size_t i = 0; i < COUNT(sizes); i++) /* nobody has written over another */
		ck_assert(all_are(got[i], sizes[i], (uint8_t)(i + 1)));
	ck_assert_uint_eq(arena_used(a), sum);
	ck_assert_mem_eq(arena_dup(a, "xyz", 4), "xyz", 4);
}
END_TEST

START_TEST(vec_grows_and_zeroes)
{
	struct VEC(uint32_t) v = { 0 };
	for (uint32_t i = 0; i < 10000; i++) {
		uint32_t *p = vec_push(&v);
		if (*p != 0)
			ck_abort_msg("element %u is not zeroed", i);
		*p = i;
	}
	ck_assert_uint_eq(v.n, 10000);
	uint32_t right = 0;
	while (right < v.n && v.p[right] == right)
		right++;
	ck_assert_uint_eq(right, 10000);
	vec_free(&v);
	ck_assert_uint_eq(v.n, 0);
	ck_assert_ptr_null(v.p);
}
END_TEST

static const struct { uint64_t a, b; bool sum, product; } sums[] = {
	{ 0, 0, true, true },
	{ UINT64_MAX, 0, true, true },
	{ UINT64_MAX, 1, false, true },
	{ UINT64_MAX / 2, 2, true, true },
	{ UINT64_C(1) << 32, UINT64_C(1) << 32, true, false },
	{ UINT64_MAX, UINT64_MAX, false, false },
};

START_TEST(checked_sums)
{
	uint64_t r;
	ck_assert_int_eq(add_fits(sums[_i].a, sums[_i].b, &r), sums[_i].sum);
	if (sums[_i].sum)
		ck_assert_uint_eq(r, sums[_i].a + sums[_i].b);
	ck_assert_int_eq(mul_fits(sums[_i].a, sums[_i].b, &r), sums[_i].product);
	if (sums[_i].product)
		ck_assert_uint_eq(r, sums[_i].a * sums[_i].b);
}
END_TEST

/* --- errors --- */

START_TEST(errors_carry_what_why_and_hint)
{
	struct err e = { .why = "old", .hint = "old", .detail = "old" };
	ck_assert_int_eq(err_set(&e, ERR_FAULT, "at 0x%x", 16), ERR_FAULT);
	ck_assert_str_eq(e.msg, "at 0x10");
	ck_assert_str_eq(e.why, "");
	ck_assert_str_eq(e.hint, "");
	ck_assert_str_eq(e.detail, "");
	ck_assert_int_eq(err_detail(&e, "%s", "d"), ERR_FAULT);
	ck_assert_str_eq(e.detail, "d");
	ck_assert_int_eq(err_why(&e, "%s", "w"), ERR_FAULT);
	ck_assert_int_eq(err_hint(&e, "%s", "h"), ERR_FAULT);
	ck_assert_str_eq(e.why, "w");
	ck_assert_str_eq(e.hint, "h");
	ck_assert_int_eq(err_set(NULL, ERR_IO, "nobody listens"), ERR_IO);
	char longer[2000];
	memset(longer, 'x', sizeof longer - 1);
	longer[sizeof longer - 1] = '\0';
	ck_assert_int_eq(err_set(&e, ERR_IO, "%s", longer), ERR_IO);
	ck_assert_uint_eq(strlen(e.msg), sizeof e.msg - 1);
	for (int code = ERR_TRACED; code < 0; code++)
		ck_assert_str_ne(err_word(code), "unknown");
}
END_TEST

static const struct { uint64_t bytes; const char *text; } sizes[] = {
	{ 0, "0 B" }, { 812, "812 B" }, { 1023, "1023 B" }, { 1024, "1.0 KiB" }, { 6186598, "5.9 MiB" }, { 37748736, "36 MiB" }, { 10434000, "10 MiB" },
	{ 65806336, "63 MiB" }, { 1048063, "1023 KiB" }, { 1048064, "1.0 MiB" }, { 1048575, "1.0 MiB" }, { (uint64_t)3 << 30, "3.0 GiB" }, { UINT64_MAX, "16 EiB" },
};

START_TEST(sizes_in_words)
{
	char buf[STR_SIZE];
	ck_assert_str_eq(str_size(sizes[_i].bytes, buf), sizes[_i].text);
}
END_TEST

static const struct { int64_t ns; const char *text; } durations[] = {
	{ 0, "0.0 ms" }, { 3049999, "3.0 ms" }, { 3070000, "3.1 ms" }, { 9949999, "9.9 ms" }, { 9950000, "10 ms" }, { 99499999, "99 ms" }, { 99500000, "0.10 s" },
	{ 994999999, "0.99 s" }, { 995000000, "1.0 s" }, { 59949999999, "59.9 s" }, { 59950000000, "1 min 0 s" }, { 312400000000, "5 min 12 s" },
	{ 3599499999999, "59 min 59 s" }, { 3599500000000, "1 h 0 min" }, { 10945000000000, "3 h 2 min" }, { 172799499999999, "47 h 59 min" },
	{ 172799500000000, "2 days" }, { INT64_MAX, "106751 days" },
};

START_TEST(durations_in_words)
{
	char buf[STR_SIZE];
	ck_assert_str_eq(str_duration(durations[_i].ns, buf), durations[_i].text);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("base");
	TCase *t = tcase_create("base");
	tcase_add_loop_test(t, cursor_uints, 0, COUNT(uints));
	tcase_add_test(t, cursor_stops_at_the_end);
	tcase_add_test(t, cursor_align_needs_the_bytes);
	tcase_add_loop_test(t, cursor_lebs, 0, COUNT(lebs));
	tcase_add_test(t, cursor_text);
	tcase_add_loop_test(t, text_from_bytes, 0, COUNT(texts));
	tcase_add_test(t, text_from_any_bytes_is_valid);
	tcase_add_loop_test(t, text_is_safe_to_show, 0, COUNT(safes));
	tcase_add_test(t, text_round_trip);
	tcase_add_test(t, text_parts);
	tcase_add_loop_test(t, text_functions, 0, COUNT(functions));
	tcase_add_test(t, arena_gives_zeroed_aligned_memory);
	tcase_add_test(t, vec_grows_and_zeroes);
	tcase_add_loop_test(t, checked_sums, 0, COUNT(sums));
	tcase_add_loop_test(t, sizes_in_words, 0, COUNT(sizes));
	tcase_add_loop_test(t, durations_in_words, 0, COUNT(durations));
	tcase_add_test(t, errors_carry_what_why_and_hint);
	suite_add_tcase(s, t);
	return suite_run(s);
}
