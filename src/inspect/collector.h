/* A crash while garbage was being collected. */
#ifndef INSPECT_COLLECTOR_H
#define INSPECT_COLLECTOR_H

#include "inspect/parts.h"

struct fault;
/* What the native frames of a thread say of the collector. */
struct collector_place {
	bool names;               /* it is on the stack */
	bool evaluated;           /* and Python frames are inside of its run: a finalizer's, a callback's */
	bool own;                 /* all from the crash up to it - or, where names are lacking, up to Python - is the interpreter's code */
	const char *phase;        /* NULL: not known */
};
/* From the frame that stands at pc on; 0: the innermost.  interpreter: the path of its module, s NULL: not known. */
struct collector_place collector_on(const struct report_thread *th, addr_t pc, struct str interpreter);

/* Who collects, where Python says that it does; SOME: it cannot be told. */
enum collector_who { COLLECTS_THIS, COLLECTS_OTHER, COLLECTS_SOME };
enum collector_who collector_who(const struct report *r, const struct report_thread *th, const struct collector_place *here, struct str interpreter);

/*
 * Where th crashed while garbage was being collected: a note of that.  Where it was the collector's own doing, also the object that
 * it tripped over, if one is found.
 */
void collector_notes(struct target *t, struct report *r, const struct report_thread *th, const struct regs *regs, const struct fault *f, struct str interpreter);

#endif
