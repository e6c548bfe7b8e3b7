/* Inside src/module: what runs in the child. */
#ifndef MODULE_NATIVE_UNWIND_H
#define MODULE_NATIVE_UNWIND_H

#include "module/native.h"

/* Unwinds every thread and writes native_records to fd; what was got is written even if the rest fails.  0 or ERR_*. */
int native_unwind(struct image *img, struct modules *mods, const struct native_limits *lim, int fd) MUST_CHECK;

#endif
