/* Does a thread stand at a system call, and is it one that sends a signal? */
#ifndef INSPECT_SENDING_H
#define INSPECT_SENDING_H

#include "image/image.h"

/* Was it in a system call?  Where the handler had come before one that is begun again, pc stands at it, else just after. */
bool sending_in_call(struct image *img, const struct regs *regs);

/* Was the system call that it is in, if it is in one, none that lets signals in which were held off?  false: also where it is not known which. */
bool sending_lets_none_in(struct image *img, const struct regs *regs);

/* The number of the system call that seccomp refused (SIGSYS), which left the registers as they were before it; -1: not known. */
int64_t sending_refused(struct image *img, const struct regs *regs);

enum sends { SENDS_NO, SENDS_YES, SENDS_UNKNOWN };
/*
 * Does it stand just after having sent the signal to thread tid of process pid?  A signal that a thread sends itself comes before
 * the call returns.  SENDS_UNKNOWN: not such a machine, or the process is not known.
 */
enum sends sending_to(struct image *img, const struct regs *regs, int64_t pid, int64_t tid, int signo);

#endif
