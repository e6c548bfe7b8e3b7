/* The object whose traversal by the collector led to where it crashed. */
#ifndef INSPECT_TRIPPED_H
#define INSPECT_TRIPPED_H

#include "inspect/parts.h"
#include "python/collector.h"
#include "python/traverse.h"

struct fault;
struct tripped {
	addr_t object;
	struct traversed what;
	bool sure;                /* what the functions on the stack had at hand leads to it, and to no other */
};
/* 1; 0: none is found.  c: whose lists are looked through where registers and the stack do not lead to it. */
int tripped_find(struct target *t, const struct report_thread *th, const struct regs *regs, const struct fault *f, const struct py_collector *c,
		 struct arena *a, struct tripped *ret);

#endif
