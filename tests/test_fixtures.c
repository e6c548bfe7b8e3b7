/*
 * Every recorded snapshot (fixtures/snaps) still holds all that a report reads: a page that is asked for and was left out
 * by tools/make_fixture means that the report is not the one of the whole process any more, and recording is due.
 */
#include <check.h>
#include <fts.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "image/pz.h"
#include "inspect/footprint.h"
#include "suite.h"

enum { FIXTURE_MAX = 300 * 1000 };

struct fixture { char *path; off_t size; bool native; };
static struct VEC(struct fixture) fixtures;

static void find_fixtures(void)
{
	const char *top = getenv("FIXTURES");
	char *snaps = xasprintf("%s/snaps", top ? top : "fixtures"), *paths[] = { snaps, NULL };
	FTS *f = fts_open(paths, FTS_LOGICAL | FTS_NOCHDIR, NULL);
	for (FTSENT *e; f && (e = fts_read(f));)
		if (e->fts_info == FTS_F && e->fts_namelen > 3 && !strcmp(e->fts_name + e->fts_namelen - 3, ".pz"))
			*vec_push(&fixtures) = (struct fixture){ xstrdup(e->fts_path), e->fts_statp->st_size, strstr(e->fts_name, "-native") };
	if (f)
		fts_close(f);
	free(snaps);
}

/* Was the page left out by choice?  Then the process had it. */
static bool left_out(const struct image *img, addr_t page)
{
	const struct note *notes;
	size_t n = image_notes(img, &notes);
	for (size_t i = 0; i < n; i++) {
		if (notes[i].owner.len != 6 || memcmp(notes[i].owner.p, "PYSNAP", 6) != 0 || notes[i].type != PZ_NOTE_LOST)
			continue;
		struct cursor c = cursor_of(notes[i].desc.p, notes[i].desc.len, image_abi(img)->big_endian);
		uint64_t start, end;
		uint32_t error, why;
		while (cursor_u64(&c, &start) == 0 && cursor_u64(&c, &end) == 0 && cursor_u32(&c, &error) == 0 && cursor_u32(&c, &why) == 0)
			if (why == PZ_WHY_OPTION && page + 4096 > start && page < end)
				return true;
	}
	return false;
}

static size_t pages_lacking(struct image *img, bool native, addr_t *first)
{
	struct search where = { .no_files = true };
	struct footprint fp = { 0 };
	struct err err = { 0 };
	struct arena *a = arena_new();
	ck_assert_msg(footprint_find(img, &where, NULL, native ? FOOTPRINT_NATIVE : FOOTPRINT_PYTHON, a, &fp, &err) == 0, "%s: %s", err.msg, err.why);
	ck_assert_uint_gt(fp.n_pages, 10);
	size_t lacking = 0;
	for (size_t i = 0; i < fp.n_missed; i++)
		if (left_out(img, fp.missed[i]) && !lacking++)
			*first = fp.missed[i];
	arena_free(a);
	return lacking;
}

START_TEST(hold_what_a_report_reads)
{
	const struct fixture *f = &fixtures.p[_i];
	struct image *img;
	struct err err = { 0 };
	addr_t first = 0;
	ck_assert_msg(f->size <= FIXTURE_MAX, "%s has %lld bytes", f->path, (long long)f->size);
	ck_assert_msg(image_open(f->path, &img, &err) == 0, "%s: %s", f->path, err.msg);
	size_t lacking = pages_lacking(img, f->native, &first);
	ck_assert_msg(!lacking, "%s: %zu pages are asked for and were left out, the first 0x%llx: record it anew (tools/make_fixture)", f->path,
		      lacking, (unsigned long long)first);
	image_close(img);
}
END_TEST

static int hidden_read(void *ctx, uint64_t offset, void *buf, size_t len)
{
	return ERR_FAULT;
}

/* The check above sees it when a page goes missing: any that the report reads, from outside to inside of a stack. Native stacks have ways
 * around some pages. */
START_TEST(a_page_that_is_lacking_is_seen)
{
	struct image *img;
	struct err err = { 0 };
	struct footprint fp = { 0 };
	struct search where = { .no_files = true };
	struct arena *a = arena_new();
	ck_assert_int_eq(image_open(fixtures.p[_i].path, &img, &err), 0);
	ck_assert_int_eq(footprint_find(img, &where, NULL, FOOTPRINT_PYTHON, a, &fp, &err), 0);
	for (size_t k = 0; k < fp.n_pages; k += fp.n_pages / 5 + 1) {
		struct image *cut;
		struct footprint less = { 0 };
		bool seen = false;
		ck_assert_int_eq(image_open(fixtures.p[_i].path, &cut, &err), 0);
		struct segment hole = { .start = fp.pages[k], .size = 4096, .prot = 3, .read = hidden_read };
		ck_assert_int_eq(image_add_segment(cut, &hole, LAY_OVER), 0);
		(void)!footprint_find(cut, &where, NULL, FOOTPRINT_PYTHON, a, &less, &err);
		for (size_t i = 0; i < less.n_missed; i++)
			seen |= less.missed[i] == fp.pages[k];
		ck_assert_msg(seen, "%s: page 0x%llx", fixtures.p[_i].path, (unsigned long long)fp.pages[k]);
		image_close(cut);
	}
	image_close(img);
	arena_free(a);
}
END_TEST

START_TEST(there_are_some)
{
	ck_assert_uint_ge(fixtures.n, 8);
}
END_TEST

int main(void)
{
	find_fixtures();
	Suite *s = suite_create("fixtures");
	TCase *t = tcase_create("fixtures");
	tcase_set_timeout(t, 60);
	tcase_add_test(t, there_are_some);
	tcase_add_loop_test(t, hold_what_a_report_reads, 0, (int)fixtures.n);
	tcase_add_loop_test(t, a_page_that_is_lacking_is_seen, 0, (int)fixtures.n);
	suite_add_tcase(s, t);
	int status = suite_run(s);
	for (size_t i = 0; i < fixtures.n; i++)
		free(fixtures.p[i].path);
	vec_free(&fixtures);
	return status;
}
