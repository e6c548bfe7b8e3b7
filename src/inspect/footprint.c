/* Runs a whole report over an image and throws it away: what is kept is which pages that took. */
#include "inspect/footprint.h"

#include "image/record.h"

static const addr_t *kept(struct arena *a, const addr_t *list, size_t n)
{
	return n ? arena_dup(a, list, n * sizeof *list) : NULL;
}

int footprint_find(struct image *img, const struct search *where, const struct py_options *opt, enum footprint_native native,
		   struct arena *a, struct footprint *ret, struct err *err)
{
	struct record *rec = record_start(img);
	struct target t = { .img = img, .arena = arena_new() };
	struct limits lim = { .frames = 2000000, .threads = 200000 };
	struct report *r = report_new();
	int rc = modules_open(img, where, &t.mods, err);

	if (rc == 0) {
		if (py_open(img, t.mods, opt, t.arena, &t.py, &t.py_err) < 0) {
			t.py = NULL;
			if (err)
				*err = t.py_err;
		}
		if (native != FOOTPRINT_PYTHON) {
			t.native_limits = native_default;
			t.native_limits.lines = NATIVE_LINES_ALL;
			if (native_start(img, t.mods, &t.native_limits, &t.native, &t.native_err) < 0)
				t.native = NULL;
		}
		rc = inspect(&t, &lim, "", r);
		native_close(t.native);
		if (native != FOOTPRINT_PYTHON && rc == 0)
			rc = native_read_all(img, t.mods, &t.native_limits, native == FOOTPRINT_NATIVE_EXACT);
	}
	record_stop(rec);
	const addr_t *list;
	ret->n_pages = record_pages(rec, &list);
	ret->pages = kept(a, list, ret->n_pages);
	ret->n_blocks = record_blocks(rec, &list);
	ret->blocks = kept(a, list, ret->n_blocks);
	ret->n_missed = record_missed(rec, &list);
	ret->missed = kept(a, list, ret->n_missed);
	record_free(rec);
	report_free(r);
	modules_close(t.mods);
	arena_free(t.arena);
	return rc;
}
