/* Threads of the image by what thread states know of them. */
#ifndef PYTHON_RUNNER_H
#define PYTHON_RUNNER_H

#include "python/py.h"

/* The thread whose stack in use an address lies in: the nearest stack pointer below it, in the same piece of memory; NULL. */
const struct py_tid *thread_by_stack(const struct py *py, addr_t at);
/* The thread of this number; NULL: there is none. */
const struct py_tid *thread_by_tid(const struct py *py, uint64_t tid);

#endif
