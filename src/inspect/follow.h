/*
 * A function's code followed from its start to a call: what it gave to whom it called, and where it kept what it had been given
 * itself.  x86-64 only and only with Zydis.  Nothing is run: a value that depends on the way taken is not known.
 */
#ifndef INSPECT_FOLLOW_H
#define INSPECT_FOLLOW_H

#include "image/image.h"

enum { FOLLOW_ARGUMENTS = 6 };
struct followed {
	enum follow_how {
		FOLLOW_UNKNOWN,
		FOLLOW_CONST,     /* value */
		FOLLOW_GIVEN,     /* what the function was given as argument number reg */
		FOLLOW_REGISTER,  /* what register reg (by DWARF number), which callees keep, holds in the frame that calls */
		FOLLOW_SP,        /* the stack pointer of the frame that calls, and value */
		FOLLOW_ENTRY,     /* the stack pointer at the function's first instruction, and value */
		FOLLOW_FRAME,     /* what register reg holds in the frame, and value */
	} how;
	bool load;                /* it is what lies in memory there (of the last three) */
	int reg;
	uint64_t value;
};
struct follow {
	struct followed passed[FOLLOW_ARGUMENTS]; /* what the callee was given */
	struct followed kept[FOLLOW_ARGUMENTS];   /* where what the function was given is as long as it calls */
	addr_t callee;            /* 0: not known */
};
/*
 * start: of a function (entered: else of a piece of one, which was jumped to); after: where the call returns to (returns: it may have
 * done so before).  ERR_ABSENT: not this
 * machine, no decoder; ERR_LIMIT, ERR_FAULT, ERR_CORRUPT: the code cannot be followed.
 */
int follow_call(struct image *img, addr_t start, bool entered, addr_t after, bool returns, struct follow *ret) MUST_CHECK;

#endif
