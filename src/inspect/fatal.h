/* CPython's fatal errors: their text. */
#ifndef INSPECT_FATAL_H
#define INSPECT_FATAL_H

#include "inspect/given.h"

/* Is this the name of a function that ends the process with a text? */
bool fatal_function(struct str name);
/* "Fatal Python error: ..." where one is on the stack; s NULL: none is.  Adds to r where it is a guess. */
struct str fatal_error(struct target *t, struct report *r, const struct native_view *s);
/* A text of the target in one line of at most 1024 bytes, without what ends it; s NULL: none is there. */
struct str fatal_text_at(struct target *t, struct arena *a, addr_t at);

#endif
