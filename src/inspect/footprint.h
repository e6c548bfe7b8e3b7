/* What of an image a full report needs: the inspections themselves say it, by being run while it is recorded. */
#ifndef INSPECT_FOOTPRINT_H
#define INSPECT_FOOTPRINT_H

#include "inspect/target.h"

struct footprint {
	const addr_t *pages, *missed; /* addresses of pages, sorted: those read; those asked for that the image has not */
	const addr_t *blocks;         /* what of the pages was read, as blocks of RECORD_BLOCK bytes */
	size_t n_pages, n_missed, n_blocks;
};
enum footprint_native { FOOTPRINT_PYTHON, FOOTPRINT_NATIVE, FOOTPRINT_NATIVE_EXACT };
/*
 * Opens modules and Python and runs all inspections, as pyanalyze does for a report; the lists go to the arena.  As the
 * inspections: 0, or ERR_* when there is no Python (err says why); the lists are filled all the same.
 * native: of native stacks too, as with lines of theirs (native_read_all).
 */
int footprint_find(struct image *img, const struct search *where, const struct py_options *opt, enum footprint_native native,
		   struct arena *a, struct footprint *ret, struct err *err) MUST_CHECK;

#endif
