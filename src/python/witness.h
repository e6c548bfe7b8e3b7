/* Inside src/python only: what a thread state knows of its frames besides the chain of them. */
#ifndef PYTHON_WITNESS_H
#define PYTHON_WITNESS_H

#include "python/py.h"

/* Before f is given out: can it be what the frame before it leads to?  ERR_CORRUPT: no, and w->why says it. */
int witness_place(struct walk *w, const struct py_frame *f) MUST_CHECK;
/* f is given out, next follows: where something speaks against that, the walk's next step fails, and w->why says it. */
void witness_frame(struct walk *w, const struct py_frame *f, addr_t next);

#endif
