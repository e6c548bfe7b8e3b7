/* Which frames of a stack are shown, in what order: oldest first, repeated pieces once, the middle left out past a limit. */
#ifndef RENDER_STACK_H
#define RENDER_STACK_H

#include "model/report.h"

struct stack_item {
	enum { STACK_FRAME, STACK_REPEAT, STACK_GAP } kind;
	const struct report_frame *frame; /* STACK_FRAME */
	uint64_t repeat;                  /* STACK_FRAME: it stands for so many, >= 1; STACK_REPEAT: so many times more than shown */
	uint64_t n;                       /* STACK_REPEAT: frames of the piece just shown; STACK_GAP: frames left out */
};
struct stack_walk {
	const struct report_thread *thread;
	uint64_t head, tail;              /* shown: [0, head) and [tail, ...), as positions where each piece stands once */
	uint64_t at;
	size_t run, k;
	bool repeat_due;
};

/* limit: at most so many STACK_FRAME items, the first and the last half; 0: all. */
struct stack_walk stack_walk(const struct report_thread *t, uint64_t limit);
bool stack_next(struct stack_walk *w, struct stack_item *ret); /* false at the end */

#endif
