/* Exceptions of a thread: the one being handled, the one being raised, what they say, where they have been. */
#ifndef PYTHON_EXCEPTION_H
#define PYTHON_EXCEPTION_H

#include "python/object.h"

struct py_exception {
	addr_t type, value;      /* value may be what the exception is to be made of (a tuple of arguments, a text, 0) up to 3.11 */
	addr_t traceback;        /* 0: none */
};
/*
 * What sys.exc_info() would say in the thread.  2.7 keeps it until the function returns, later ones until the handler ends.
 * ERR_ABSENT: nothing is being handled; other ERR_*: it cannot be read.
 */
int py_exception_handled(const struct py *py, addr_t thread, struct py_exception *ret) MUST_CHECK;
/* The same of one thread of many: *left is how many entries may be read of all, and becomes what is left.  ERR_LIMIT. */
int py_exception_handled_within(const struct py *py, addr_t thread, uint64_t *left, struct py_exception *ret) MUST_CHECK;
/*
 * 2.7: the exception that the innermost `finally` holds which a frame of the thread stands in; sys.exc_info() does not say it
 * there.  ERR_ABSENT: none is held; other ERR_*: it cannot be told.  Later versions have it in py_exception_handled.
 */
int py_exception_in_finally(const struct py *py, addr_t thread, struct py_exception *ret) MUST_CHECK;
/* What C code has set and nobody has caught yet.  As above. */
int py_exception_raised(const struct py *py, addr_t thread, struct py_exception *ret) MUST_CHECK;

/* An exception by its object. */
int py_exception_of(const struct py *py, addr_t value, struct py_exception *ret) MUST_CHECK;

/* "ValueError", "shop.Rejected": as a traceback names it.  Built-in ones by identity where their names were not captured. */
int py_exception_type(const struct py *py, const struct py_exception *e, struct arena *a, struct str *ret) MUST_CHECK;
/*
 * What str() of it says where its class leaves that to CPython: from the arguments, by the rules of BaseException, KeyError,
 * OSError, SyntaxError, exception groups and what cannot be encoded, decoded or translated.  Cut at max bytes.
 */
int py_exception_text(const struct py *py, const struct py_exception *e, size_t max, struct arena *a, struct str *ret) MUST_CHECK;

/* An entry of a traceback: a frame that it passed, the one that handles it first. */
struct py_passed { addr_t frame, code; int64_t lasti; int line; /* -1: not stated, the code's table tells */ };
struct walk py_traceback(const struct py *py, addr_t traceback);
int py_next_passed(struct walk *w, struct py_passed *ret) MUST_CHECK; /* as py_next_frame */

/* repr() of plain values in at most max bytes: texts, bytes, numbers, None, and tuples, lists and exceptions of these; else its type and address. */
void object_brief(const struct py *py, addr_t addr, size_t max, struct sb *b);

#endif
