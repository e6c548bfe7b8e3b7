/* Native frames of the report's threads, and Python's among them. */
#ifndef INSPECT_NATIVE_H
#define INSPECT_NATIVE_H

#include "inspect/target.h"

/* What unwinding gave, while threads are collected. */
struct natives;
/* Asks debuginfod, where that is allowed, for what the modules on stacks lack, and unwinds again as long as something new came. */
void natives_fetch(struct target *t);
/* Waits for t->native.  NULL: native stacks were not asked for. */
struct natives *natives_new(struct target *t, struct report *r);
/* Says what of all threads together has to be said; takes NULL. */
void natives_end(struct natives *n);

/* The frame of what stands at pc, which a signal frame told of. */
const struct report_frame *native_frame_at(struct target *t, struct report *r, addr_t pc);

/* A Python frame or shim as the walk gave it. */
struct native_python {
	const struct report_frame *frame; /* NULL: a shim */
	addr_t addr;
	bool entry;
};
struct native_list VEC(const struct report_frame *);
/* Those of one thread state; a thread may have several, which run inside each other. */
struct native_part { addr_t state; size_t first, n; };
/*
 * The stack of the image's thread `index`, innermost first, onto out: native frames with py's among them.  parts, and what of py is
 * theirs, are innermost first too.  broken: Python's walk ended early.  Fills th->unmatched and th->native_broken.
 */
void natives_stack(struct natives *n, size_t index, const struct native_part *parts, size_t n_parts, const struct native_python *py, size_t n_py,
		   bool broken, struct report_thread *th, struct native_list *out);

#endif
