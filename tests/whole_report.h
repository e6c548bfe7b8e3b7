/* A whole report of an image that was built in memory, with no files beside it. */
#ifndef WHOLE_REPORT_H
#define WHOLE_REPORT_H

#include <check.h>
#include <signal.h>

#include "inspect/parts.h"

enum { PID = 4711 };

/* What becomes of the native stacks: not asked for; unwound; no child can be had; it dies at once. */
enum natives { NATIVE_NONE, NATIVE_UNWOUND, NATIVE_REFUSED, NATIVE_KILLED, NATIVE_WAYS };

static struct limits lim = { .frames = 100000, .threads = 10000 };

static inline void say_with(enum natives how, struct image *img, struct py *py, const struct err *err, struct report *r)
{
	struct target t = { .img = img, .py = py, .arena = arena_new() };
	struct search none = { .no_files = true };
	struct err e;
	ck_assert_int_eq(modules_open(img, &none, &t.mods, &e), 0);
	if (err)
		t.py_err = *err;
	if (py)
		py->mods = t.mods;
	if (how == NATIVE_REFUSED)
		err_set(&t.native_err, ERR_IO, "no process for unwinding");
	if (how == NATIVE_UNWOUND || how == NATIVE_KILLED)
		ck_assert_int_eq(native_start(img, t.mods, &native_default, &t.native, &e), 0);
	if (how == NATIVE_KILLED)
		kill(native_pid(t.native), SIGKILL);
	int rc = inspect(&t, &lim, "core", r);
	ck_assert_int_eq(rc, py ? 0 : err ? err->code : 0);
	native_close(t.native);
	modules_close(t.mods);
	arena_free(t.arena);
}

static inline void say(struct image *img, struct py *py, const struct err *err, struct report *r)
{
	say_with(NATIVE_NONE, img, py, err, r);
}

#endif
