/* What a record says was read: pages as they were asked for, not as a cache reads; and what was not there. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "image/record.h"
#include "suite.h"

enum { BASE = 0x10000, PAGES = 24 };

static int from_nothing(void *ctx, uint64_t offset, void *buf, size_t len)
{
	uint64_t *calls = ctx;
	++*calls;
	memset(buf, 'a', len);
	return 0;
}

static struct image *an_image(uint64_t *calls)
{
	struct image *img = image_new((struct abi){ 62, 8, false });
	struct segment s = { .start = BASE, .size = PAGES * RECORD_PAGE, .prot = 3, .read = from_nothing, .ctx = calls };
	ck_assert_int_eq(image_add_segment(img, &s, LAY_OVER), 0);
	s.start = BASE + (PAGES + 2) * RECORD_PAGE;
	s.size = RECORD_PAGE;
	ck_assert_int_eq(image_add_segment(img, &s, LAY_OVER), 0);
	image_settle(img);
	return img;
}

/* The pages of a list, by number from BASE. */
static void same(size_t n, const addr_t *list, const char *want)
{
	struct sb b = { 0 };
	for (size_t i = 0; i < n; i++)
		sb_printf(&b, "%s%lld", i ? " " : "", ((long long)list[i] - BASE) / RECORD_PAGE);
	sb_char(&b, '\0');
	ck_assert_str_eq(b.s, want);
	sb_free(&b);
}

static void check_record(struct record *r, const char *read, const char *missed)
{
	const addr_t *list;
	size_t n = record_pages(r, &list);
	same(n, list, read);
	n = record_missed(r, &list);
	same(n, list, missed);
}

START_TEST(what_was_asked_for)
{
	uint64_t calls = 0, v;
	char buf[PAGES * RECORD_PAGE];
	struct image *img = an_image(&calls);
	/* What is cached from before counts as well. */
	ck_assert_int_eq(image_read_uint(img, BASE, 8, &v), 0);
	struct record *r = record_start(img);
	check_record(r, "", "");
	ck_assert_int_eq(image_read_uint(img, BASE + 3 * RECORD_PAGE + 8, 8, &v), 0);
	check_record(r, "3", "");
	ck_assert_int_eq(image_read_uint(img, BASE + 16, 8, &v), 0);
	ck_assert_int_eq(image_read_uint(img, BASE + 3 * RECORD_PAGE + 8, 8, &v), 0);
	check_record(r, "0 3", "");
	/* Across an edge, and more than a block at once. */
	ck_assert_int_eq(image_read(img, BASE + 5 * RECORD_PAGE - 1, buf, 2), 0);
	check_record(r, "0 3 4 5", "");
	ck_assert_int_eq(image_read(img, BASE + 8 * RECORD_PAGE, buf, 6 * RECORD_PAGE), 0);
	check_record(r, "0 3 4 5 8 9 10 11 12 13", "");
	/* A text that does not end reads on; what was given in part was read. */
	ck_assert_int_eq(image_read_cstr(img, BASE + 23 * RECORD_PAGE - 100, buf, 150), ERR_LIMIT);
	check_record(r, "0 3 4 5 8 9 10 11 12 13 22 23", "");
	record_free(r);
	image_close(img);
}
END_TEST

START_TEST(what_is_not_there)
{
	uint64_t calls = 0, v;
	char buf[64];
	struct image *img = an_image(&calls);
	struct record *r = record_start(img);
	ck_assert_int_eq(image_read_uint(img, 8, 8, &v), ERR_FAULT);
	ck_assert_int_eq(image_read_uint(img, BASE + PAGES * RECORD_PAGE, 8, &v), ERR_FAULT);
	check_record(r, "", "-16 24");
	/* It begins where there is something. */
	ck_assert_int_eq(image_read(img, BASE + PAGES * RECORD_PAGE - 8, buf, 16), ERR_FAULT);
	ck_assert_int_eq(image_read_cstr(img, BASE + (PAGES + 3) * RECORD_PAGE - 8, buf, 60), ERR_FAULT);
	check_record(r, "26", "-16 24 27");
	record_free(r);
	image_close(img);
}
END_TEST

START_TEST(a_search_needs_nothing)
{
	uint64_t calls = 0, v;
	char buf[3 * RECORD_PAGE];
	struct image *img = an_image(&calls);
	struct record *r = record_start(img);
	ck_assert_uint_eq(image_scan(img, BASE, buf, sizeof buf), sizeof buf);
	check_record(r, "", "");
	ck_assert_int_eq(image_read_uint(img, BASE + RECORD_PAGE, 8, &v), 0);
	check_record(r, "1", "");
	record_stop(r);
	ck_assert_int_eq(image_read_uint(img, BASE + 6 * RECORD_PAGE, 8, &v), 0);
	check_record(r, "1", "");
	/* Reads are cached again. */
	uint64_t before = calls;
	for (int i = 0; i < 10; i++)
		ck_assert_int_eq(image_read_uint(img, BASE + 6 * RECORD_PAGE + 8, 8, &v), 0);
	ck_assert_uint_eq(calls, before);
	record_free(r);
	image_close(img);
}
END_TEST

START_TEST(many_pages_in_any_order)
{
	uint64_t calls = 0, v;
	struct image *img = image_new((struct abi){ 62, 8, false });
	struct segment s = { .start = BASE, .size = 5000ull * RECORD_PAGE, .prot = 3, .read = from_nothing, .ctx = &calls };
	ck_assert_int_eq(image_add_segment(img, &s, LAY_OVER), 0);
	struct record *r = record_start(img);
	for (unsigned round = 0; round < 3; round++)
		for (unsigned i = 0; i < 5000; i++)
			ck_assert_int_eq(image_read_uint(img, BASE + (uint64_t)(i * 1237 % 5000) * RECORD_PAGE, 8, &v), 0);
	const addr_t *list;
	ck_assert_uint_eq(record_pages(r, &list), 5000);
	for (unsigned i = 0; i < 5000; i++)
		if (list[i] != BASE + (uint64_t)i * RECORD_PAGE)
			ck_abort_msg("page %u is %llx", i, (unsigned long long)list[i]);
	record_free(r);
	image_close(img);
}
END_TEST

START_TEST(blocks)
{
	uint64_t calls = 0, v;
	char buf[200];
	struct image *img = an_image(&calls);
	struct record *r = record_start(img);
	ck_assert_int_eq(image_read_uint(img, BASE + 60, 8, &v), 0); /* across two */
	ck_assert_int_eq(image_read(img, BASE + RECORD_PAGE - 64, buf, 65), 0);
	const addr_t *list;
	ck_assert_uint_eq(record_blocks(r, &list), 4);
	static const addr_t want[] = { BASE, BASE + 64, BASE + RECORD_PAGE - 64, BASE + RECORD_PAGE };
	ck_assert(!memcmp(list, want, sizeof want));
	record_free(r);
	image_close(img);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("record");
	TCase *t = tcase_create("record");
	tcase_add_test(t, what_was_asked_for);
	tcase_add_test(t, what_is_not_there);
	tcase_add_test(t, a_search_needs_nothing);
	tcase_add_test(t, many_pages_in_any_order);
	tcase_add_test(t, blocks);
	suite_add_tcase(s, t);
	return suite_run(s);
}
