/* Status codes and the error message that travels with them. */
#ifndef BASE_ERR_H
#define BASE_ERR_H

#include <stdarg.h>

#define PRINTF(f, a) __attribute__((format(printf, f, a)))
#define MUST_CHECK __attribute__((warn_unused_result))

/* Every fallible function returns 0 (or a count) or one of these. */
enum {
	ERR_FAULT = -1,       /* this memory was not captured */
	ERR_CORRUPT = -2,     /* captured, but cannot be right */
	ERR_ABSENT = -3,      /* this build or file has no such thing */
	ERR_LIMIT = -4,       /* stopped at a stated cap; what was got is valid */
	ERR_UNSUPPORTED = -5, /* a form that this program does not read or write */
	ERR_IO = -6,          /* the operating system refused; errno tells */
	ERR_PERM = -7,        /* not allowed */
	ERR_GONE = -8,        /* no such process, or it ended */
	ERR_NOPYTHON = -9,    /* nothing of CPython found */
	ERR_EXISTS = -10,     /* the output is there already */
	ERR_MEMORY = -11,     /* not enough free memory for what was asked */
	ERR_TRACED = -12,     /* somebody else traces the process */
};

/* Lives on the caller's stack; nothing to free.  why, hint and detail may be empty. */
struct err {
	int code;
	char msg[512];  /* what: where, found, wanted; lower case, no full stop */
	char why[1024]; /* the cause, if it is known */
	char hint[256]; /* what to try */
	char detail[1280]; /* lines for who asks more closely: what was tried, and what became of it */
};

/* Fill err->msg (err may be NULL) and return code.  Clears why, hint and detail. */
int err_set(struct err *err, int code, const char *fmt, ...) PRINTF(3, 4);
/* Add the cause, what to try, or the details; each returns err->code. */
int err_why(struct err *err, const char *fmt, ...) PRINTF(2, 3);
int err_hint(struct err *err, const char *fmt, ...) PRINTF(2, 3);
int err_detail(struct err *err, const char *fmt, ...) PRINTF(2, 3);
/* The code in a few words ("not captured"), for messages that have nothing better. */
const char *err_word(int code);

#endif
