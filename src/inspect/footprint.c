/* Runs a whole report over an image and throws it away: what is kept is which pages that took. */
#include "inspect/footprint.h"

#include "image/record.h"

static const addr_t *kept(struct arena *a, const addr_t *list, size_t n)
{
	return n ? arena_dup(a, list, n * sizeof *list) : NULL;
}

int footprint_find(struct image *img, const struct search *where, const struct py_options *opt, struct arena *a, struct footprint *ret,
		   struct err *err)
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
		rc = inspect(&t, &lim, "", r);
	}
	record_stop(rec);
	const addr_t *list;
	ret->n_pages = record_pages(rec, &list);
	ret->pages = kept(a, list, ret->n_pages);
	ret->n_missed = record_missed(rec, &list);
	ret->missed = kept(a, list, ret->n_missed);
	record_free(rec);
	report_free(r);
	modules_close(t.mods);
	arena_free(t.arena);
	return rc;
}
