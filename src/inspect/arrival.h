/* How a thread came to where no code is, by what the call before it has left. */
#ifndef INSPECT_ARRIVAL_H
#define INSPECT_ARRIVAL_H

#include "inspect/target.h"

enum arrival_how { ARRIVED_ANYHOW, ARRIVED_CALL, ARRIVED_CALL_OR_JUMP, ARRIVED_JUMP, ARRIVED_RETURN, ARRIVED_JUMP_OR_RETURN };
struct arrival {
	enum arrival_how how;
	addr_t after;     /* where the last call returns to; 0: none is known */
	bool another;     /* that call went elsewhere, from where it came here */
	addr_t callee;    /* another: the function that the call named; 0: not known */
};
struct arrival arrival_at(struct target *t, const struct regs *regs);
/* "a call of", "a jump or return to". */
const char *arrival_words(enum arrival_how how);

#endif
