/* The cyclic garbage collector: is it at work, which objects does it know, which of them cannot be right. */
#ifndef PYTHON_COLLECTOR_H
#define PYTHON_COLLECTOR_H

#include "python/object.h"

enum { COLLECTOR_LISTS = 4 /* three generations, and what is never looked at */, COLLECTOR_MAX = 1 << 26 /* objects walked over */ };

struct py_collector {
	addr_t state;                     /* _gc_runtime_state; 0 up to 3.6, where it is static variables */
	bool known, collecting;
	addr_t list[COLLECTOR_LISTS];     /* heads, which are PyGC_Heads; 0: not known (free-threaded builds have none) */
};
/* Of an interpreter; ERR_ABSENT: this build keeps nothing that is known. */
int py_collector_find(const struct py *py, addr_t interp, struct py_collector *ret) MUST_CHECK;
/* Where the variable is that says whether it is at work, by PyGC_Collect's code (2.7 to 3.6, x86). */
int collector_at_work(const struct py *py, addr_t code, addr_t *ret) MUST_CHECK;

/* The objects of a list.  Ends where the list leads to nothing or into itself. */
struct collector_walk {
	const struct py *py;
	addr_t head, at, mark;            /* at: the PyGC_Head that follows */
	unsigned long n, lap;
	bool ended;
};
struct collected { addr_t head, object; bool looked_at; /* the collection that is under way looks at it */ };
struct collector_walk collector_list(const struct py *py, addr_t head);
/* 1; 0 at the end; ERR_FAULT, ERR_CORRUPT: w->at cannot be; ERR_LIMIT. */
int collector_next(struct collector_walk *w, struct collected *ret) MUST_CHECK;
/* The PyGC_Head that follows an object's in its list. */
int collector_after(const struct py *py, addr_t object, addr_t *ret) MUST_CHECK;

/* Types that were looked at, so that a list of millions is soon looked through. */
struct collector_types { addr_t good[1024]; };
/*
 * What stands in obj's ob_type, where that is surely no type: 1, and *ret is it; 0: it is one, or it cannot be told.  ERR_FAULT:
 * the object is not there.
 */
int collector_bad_type(const struct py *py, struct collector_types *seen, addr_t obj, addr_t *ret) MUST_CHECK;

#endif
