/* Where in its life the process was when it crashed: ending, starting, a child that another one forked. */
#ifndef INSPECT_LIFE_H
#define INSPECT_LIFE_H

#include "inspect/parts.h"

void life_notes(struct target *t, struct report *r, const struct report_thread *th);
/* The part of it about who made the process.  Forks since its program was executed, as fork_generation says; negative: not known.  The
 * numbers that Python keeps are those of its pid namespace; all others of a snapshot are those that pysnap saw. */
void life_forked(struct target *t, struct report *r, const struct report_thread *th, int generation);

#endif
