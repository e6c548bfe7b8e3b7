/* Register notes of one stopped thread, as the kernel writes them into a core. */
#ifndef SNAP_REGISTERS_H
#define SNAP_REGISTERS_H

#include "image/proc.h"

/* Room that the notes of one thread need at most (a multiple of 64). */
size_t registers_room(void);
/* May threads of this machine be read from here? ERR_UNSUPPORTED */
int registers_check(const struct abi *abi, pid_t pid, struct err *err) MUST_CHECK;

struct registers {
	struct blob prstatus, fpregset, xstate, siginfo; /* in the buffer; len 0 where there is none */
	struct blob more[ABI_MORE_NOTES];                /* abi_more_notes() */
	struct blob gregs;                               /* pr_reg inside prstatus */
};
/* Reads them from a thread that this thread traces and that is stopped; stopped_by: the signal it is about to get, or 0.
 * ERR_GONE: it was killed; ERR_IO. */
int registers_read(const struct abi *abi, pid_t tid, int stopped_by, const struct proc_stat *st, uint8_t *buf, size_t room,
		   struct registers *ret) MUST_CHECK;

#endif
