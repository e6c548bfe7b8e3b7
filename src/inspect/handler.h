/* A crash on which a signal handler ran: what the handler interrupted is the crash, not the end that came later. */
#ifndef INSPECT_HANDLER_H
#define INSPECT_HANDLER_H

#include "inspect/parts.h"

struct interrupted {
	int signo, code;
	addr_t addr;              /* of a fault */
	struct regs regs;
	bool has_error;           /* x86: it was a page fault, and error is what the processor said of it */
	uint64_t error;
};
/*
 * The oldest fault that a handler on th's stack interrupted, or the signal by which the process first tried to end itself.
 * False: none; a handler of another signal is noted all the same.
 */
bool handler_find(struct target *t, struct report *r, const struct report_thread *th, const struct thread *native, struct interrupted *ret);
/* Make the signal of the verdict that one, and say what ended the process later. */
void handler_said(struct report *r, const struct image_facts *f, const struct interrupted *in, const struct report_thread *th);

#endif
