/* A crash while garbage was being collected. */
#ifndef INSPECT_COLLECTOR_H
#define INSPECT_COLLECTOR_H

#include "inspect/parts.h"

struct fault;
/* Where the crash of th is one inside the collector: a note of that, with the object that it tripped over where one is found. */
void collector_notes(struct target *t, struct report *r, const struct report_thread *th, const struct regs *regs, const struct fault *f);

#endif
