/* Inside src/module: what the child that unwinds gives up before it looks at anything. */
#ifndef MODULE_SANDBOX_H
#define MODULE_SANDBOX_H

#include <stdint.h>

enum { SANDBOX_SECCOMP = 1, SANDBOX_LANDLOCK = 2 };

/*
 * As much of it as this kernel has: no file is opened or made, no program run, no process made or signalled but itself, no network, no memory
 * made executable; what is open can be read, and written where it is open for that.  Returns what holds (SANDBOX_*).
 */
uint8_t sandbox_enter(void);

#endif
