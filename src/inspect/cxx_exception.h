/* The C++ exception that a process ended of. */
#ifndef INSPECT_CXX_EXCEPTION_H
#define INSPECT_CXX_EXCEPTION_H

#include "inspect/given.h"

/* In words; s NULL: it was not C++ that ended it. */
struct str cxx_exception(struct target *t, struct report *r, const struct native_view *s);

/*
 * What the C++ run time keeps of a thread (tls: its thread pointer), by the code of its __cxa_get_globals: the header of the exception that was
 * caught last, 0 for none; how many have been thrown and not yet caught.  False: it cannot be told (x86-64 only).
 */
bool cxx_globals(struct target *t, addr_t code, addr_t tls, addr_t *caught, uint64_t *flying);

#endif
