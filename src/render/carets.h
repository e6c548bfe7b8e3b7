/* Which part of a marked piece of Python source the "^" go under, and which the "~": as Python 3.13's tracebacks have it. */
#ifndef RENDER_CARETS_H
#define RENDER_CARETS_H

#include "base/str.h"

struct carets { size_t from, to; }; /* "^" under [from, to) of the piece, "~" under the rest of it */

/* Of an expression on one line; {0, len} where Python tells no parts apart. */
struct carets carets_find(struct str piece);
/* Do marks under line[from, to) tell anything?  Not where they are all of the line, or of what it returns or assigns by a call. */
bool carets_useful(struct str line, size_t from, size_t to);

#endif
