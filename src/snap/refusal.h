/* Why a process may not be stopped, in words. */
#ifndef SNAP_REFUSAL_H
#define SNAP_REFUSAL_H

#include "image/proc.h"

/* Each fills err and returns its code. */
int refusal_gone(pid_t pid, struct err *err);                 /* there is no such process, or /proc does not show it */
/* `what` of it cannot be read: code is why, with errno of that very moment for ERR_IO and ERR_PERM. */
int refusal_read(pid_t pid, int code, const char *what, struct err *err);
int refusal_ended(pid_t pid, struct err *err);                /* it ended while it was being read; or refusal_replaced, if it lives on */
int refusal_replaced(pid_t pid, struct err *err);             /* it became another program meanwhile */
int refusal_traced(pid_t pid, pid_t tracer, struct err *err);
/* The kernel refused with EPERM or EACCES; looks for the reason: other user, capability, yama, not dumpable, container. */
int refusal_perm(pid_t pid, pid_t tid, struct err *err);
/* The thread's tracer that is not this process; 0 if none. */
pid_t refusal_tracer(pid_t pid, pid_t tid);

#endif
