/* What the functions on a thread's native stack were given. */
#ifndef INSPECT_GIVEN_H
#define INSPECT_GIVEN_H

#include "inspect/parts.h"

/* A thread's native frames from one on, innermost first. */
struct native_view {
	const struct native_records *rec;
	const struct native_frame *f;
	size_t n;
	size_t thread, number; /* index of the image's thread; of f[0] from the innermost */
	size_t ending;         /* the frames up to this one called what never returns */
};
/* From where the thread stood at pc; n 0: it is not known. */
struct native_view native_view_of(struct target *t, const struct report_thread *th, addr_t pc);
/* The function that frame i is in, as the symbol table has it, and where it begins (ret may be NULL); s NULL: not known. */
struct str native_view_function(const struct native_view *s, size_t i, addr_t *start);

/*
 * Where the function of frame i begins, by its name or the unwind tables; entered: it is called there, rather than a piece of one that was
 * put elsewhere.  False: not known.
 */
bool native_view_start(struct target *t, const struct native_view *s, size_t i, addr_t *start, bool *entered);

/*
 * The argument n (from 0) that the function of frame i was called with, by what its caller loads, or where it or whom it called
 * keeps it.  ERR_ABSENT: it cannot be told.
 */
int given_argument(struct target *t, const struct native_view *s, size_t i, unsigned n, uint64_t *ret) MUST_CHECK;
/* The same of a function of `fixed` arguments and any number more: whole numbers and pointers. */
int given_more(struct target *t, const struct native_view *s, size_t i, unsigned fixed, unsigned n, uint64_t *ret) MUST_CHECK;

#endif
