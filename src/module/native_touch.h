/*
 * Inside src/module: what of the tables that were copied out of an image is looked at.  For a record of what unwinding takes, in a
 * process that does nothing else: a tool or a test.
 */
#ifndef MODULE_NATIVE_TOUCH_H
#define MODULE_NATIVE_TOUCH_H

#include "module/native.h"

/* From now on a copy is unreadable until it is looked at.  The process's handlers of SIGSEGV and SIGTRAP are taken over.  exact: not
 * by whole pages, which is slow. */
void touch_begin(bool exact);
/* base, of span bytes and mapped by itself, is a copy of what is at `at`.  Nothing, if there was no touch_begin. */
void touch_watch(void *base, size_t span, addr_t at);
/* Reads what was looked at from the image, so that its record has it, and lets all be as it was. */
void touch_end(struct image *img);

#endif
