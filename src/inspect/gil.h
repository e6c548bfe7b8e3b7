/* A crash of the interpreter's code in a thread that did not hold the GIL. */
#ifndef INSPECT_GIL_H
#define INSPECT_GIL_H

#include "inspect/parts.h"

/* After the ids: r->verdict.without_gil, and a note where thread th's crash at pc was in what needs the lock. interpreter: the path of its module. */
void gil_notes(struct target *t, struct report *r, const struct report_thread *th, addr_t pc, struct str interpreter);

/* Does a function of the interpreter's work on objects, or evaluate? */
bool gil_needed_by(struct str name);

#endif
