/* Which frames of a stack are shown, in what order: oldest first or newest first, repeated pieces once, the middle left out past a limit. */
#ifndef RENDER_STACK_H
#define RENDER_STACK_H

#include "model/report.h"

struct stack_item {
	enum { STACK_FRAME, STACK_PLUMBING, STACK_REPEAT, STACK_GAP } kind;
	const struct report_frame *frame; /* STACK_FRAME; STACK_PLUMBING: the oldest of them */
	const struct report_frame *const *frames; /* STACK_PLUMBING: n of them, oldest first */
	uint64_t repeat;                  /* STACK_FRAME: it stands for so many, >= 1; STACK_REPEAT: so many times more than shown */
	uint64_t n;                       /* STACK_REPEAT: frames of the piece just shown; STACK_GAP: frames left out; silent ones are in neither; STACK_PLUMBING */
	size_t items;                     /* STACK_REPEAT: items of that piece */
};
struct stack_walk {
	const struct report_thread *thread;
	const struct report_frame *crashed, *caller; /* where the thread crashed, and whose call led there: plumbing or not, they are shown; NULL: it did not */
	uint64_t head, tail;              /* shown: [0, head) and [tail, ...), as positions of items where each piece stands once */
	uint64_t at;
	size_t run, k;
	uint64_t shown;                   /* frames of the run under way that are in items */
	size_t items;                     /* and these */
	bool repeat_due, fold;
};

/* limit: at most so many STACK_FRAME and STACK_PLUMBING items, the first and the last half; 0: all.  fold: plumbing frames that
 * follow each other are one item, or none if all are silent; but never the one that the thread crashed in. */
struct stack_walk stack_walk(const struct report *r, const struct report_thread *t, uint64_t limit, bool fold);
bool stack_next(struct stack_walk *w, struct stack_item *ret); /* false at the end */

struct stack_items VEC(struct stack_item);
/* All of them, newest first: a piece's STACK_REPEAT still follows it.  Of STACK_PLUMBING, frame is the oldest and frames oldest first all the same. */
void stack_newest_first(struct stack_walk *w, struct stack_items *ret);

#endif
