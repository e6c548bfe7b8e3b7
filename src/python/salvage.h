/* Thread states and their stacks out of what a truncated core still holds, when the runtime or the types are cut off. */
#ifndef PYTHON_SALVAGE_H
#define PYTHON_SALVAGE_H

#include "python/prove.h"

/* A layout that may be the one. */
struct salvage_try { struct layout layout; const char *config; };
/*
 * base: image, modules and the threads' index are set.  Fills *ret (a copy of base with layout, types, version and the
 * thread states) and *which of tries fits.  ERR_ABSENT: nothing is lost here, or nothing could be proved; ERR_CORRUPT: more
 * than one layout fits, so that none is believed.  why is filled then.
 */
int py_salvage(const struct py *base, const struct salvage_try *tries, size_t n, const struct known_version *known, struct arena *a,
	       struct py *ret, size_t *which, char *why, size_t room) MUST_CHECK;

/* The thread state of an interpreter that follows the first n; 0: no more.  The interpreter behind one; 0: no more. */
addr_t salvage_thread(const struct py *py, addr_t interp, unsigned long n);
addr_t salvage_interp_after(const struct py *py, addr_t interp);

#endif
