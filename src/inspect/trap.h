/* Is what the kernel keeps of a thread's last trap that of the instruction which was interrupted?  It may be of one long past. */
#ifndef INSPECT_TRAP_H
#define INSPECT_TRAP_H

#include "inspect/parts.h"
#include "inspect/signal_frame.h"

enum trap_fit { TRAP_OTHER, TRAP_FITS, TRAP_UNDECIDED };

/* Is this x86 trap told by that signal? */
bool trap_is(unsigned trap, int signo);
/* The signal by which Linux tells of sf's trap, and that signal's code ; 0: of none that a program can have. */
int trap_signal(const struct image *img, const struct signal_frame *sf);
int trap_code(struct image *img, const struct signal_frame *sf, int signo);
/*
 * Would the instruction at sf->regs trap so, for a fault of memory at sf->addr?  TRAP_UNDECIDED: its bytes are not at hand, there is no
 * decoder for it, or it can do many things.
 */
enum trap_fit trap_fits(struct target *t, struct report *r, const struct signal_frame *sf);

#endif
