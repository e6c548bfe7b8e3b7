/* What the walks over interpreters, threads and frames share: the limit and the notice of cycles. */
#ifndef PYTHON_WALK_H
#define PYTHON_WALK_H

#include "python/py.h"

struct walk walk_start(const struct py *py, addr_t first, unsigned long limit);
/* 1: w->next is to be read; 0: the end; <0: a cycle or the limit. */
int walk_enter(struct walk *w) MUST_CHECK;
/* w->next was good, next follows. */
void walk_leave(struct walk *w, addr_t next);
/* Nothing follows any more; returns rc. */
int walk_stop(struct walk *w, int rc);
/* The thread whose stack in use an address lies in: the nearest stack pointer (->at) below it, in the same piece of memory; NULL. */
const struct py_tid *thread_by_stack(const struct py *py, addr_t at);

#endif
