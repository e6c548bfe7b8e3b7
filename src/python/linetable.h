/* Line tables of every version: pure functions over bytes (Objects/lnotab_notes.txt, Objects/locations.md). */
#ifndef PYTHON_LINETABLE_H
#define PYTHON_LINETABLE_H

#include "base/cursor.h"

struct position;
/* lasti: byte offset of the instruction.  Each returns 0, ERR_ABSENT (no line here) or ERR_CORRUPT. */
int linetable_lnotab(struct blob table, int firstlineno, int64_t lasti, bool signed_lines, struct position *ret) MUST_CHECK; /* 2.7 - 3.9 */
int linetable_310(struct blob table, int firstlineno, int64_t lasti, struct position *ret) MUST_CHECK;                       /* 3.10 */
int linetable_locations(struct blob table, int firstlineno, int64_t lasti, struct position *ret) MUST_CHECK;                 /* 3.11+ */

#endif
