/* How often the process was forked since it executed its program: a count that glibc keeps. */
#ifndef INSPECT_GENERATION_H
#define INSPECT_GENERATION_H

#include "inspect/target.h"

/* 0 or more; ERR_ABSENT: its place is not known (another C library or machine, or libc's code or data is not at hand). */
int fork_generation(struct target *t) MUST_CHECK;
/* Where it is, by the code of one definition of fork; 0: none is in it, or several, so that none is believed. */
addr_t fork_generation_place(struct image *img, addr_t start, size_t size);

#endif
