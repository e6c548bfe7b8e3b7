/* The copy of a stopped process's memory: several processors take it in turns.  Inside src/snap only. */
#ifndef SNAP_COPY_H
#define SNAP_COPY_H

#include "snap/held.h"

struct copy;

/*
 * Before the stop: starts as many helping threads as `bytes` are worth on the processors of this machine (none for little; none
 * is no failure).  They sleep until copy_run, with every signal blocked.  Never NULL; c is borrowed until copy_free.
 */
struct copy *copy_new(struct capture *c, uint64_t bytes);
/*
 * While the process stands still: c->kept into c->data (`total` bytes, which fit), what cannot be read into c->missing.  mem:
 * /proc/PID/mem.  0, ERR_GONE (it died), ERR_LIMIT (interrupted, or frozen_over).
 */
int copy_run(struct copy *copy, pid_t tid, int mem, uint64_t total) MUST_CHECK;
void copy_free(struct copy *copy);   /* ends the helpers, also those never used; takes NULL */

#endif
