/* What is being inspected, walked once; and the table of inspections, run in order. */
#ifndef INSPECT_TARGET_H
#define INSPECT_TARGET_H

#include "model/report.h"
#include "module/native.h"
#include "python/object.h"

struct limits {
	uint64_t frames;          /* walked per thread */
	uint64_t threads;
};
struct target {
	struct image *img;
	struct modules *mods;
	struct py *py;            /* NULL: no Python found */
	struct err py_err;        /* why, when py is NULL */
	bool py_named;            /* an option said where it is, and nowhere else was looked */
	char py_seen[32];         /* its version, when py is NULL but a Python is there; else "" */
	char py_asked[64];        /* and as what an option would have it; else "" */
	struct native_limits native_limits; /* it was started with */
	struct native *native;    /* unwinding, which is under way; NULL: not asked for */
	struct err native_err;    /* why, when it was asked for and could not be started; code 0: not so */
	struct arena *arena;
};
struct inspection {
	const char *name, *help;
	int (*run)(struct target *t, const struct limits *lim, struct report *r); /* 0, or ERR_* when nothing could be said */
};
extern const struct inspection *const inspections[]; /* in the order they run; NULL-terminated */

/* Runs all of them; r gets the facts, threads, groups, modules, verdict and problems. */
int inspect(struct target *t, const struct limits *lim, const char *path, struct report *r) MUST_CHECK;

#endif
