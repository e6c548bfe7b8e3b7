/* Where in its life the process was when it crashed: ending, starting, a child that another one forked. */
#ifndef INSPECT_LIFE_H
#define INSPECT_LIFE_H

#include "inspect/parts.h"

void life_notes(struct target *t, struct report *r, const struct report_thread *th);

#endif
