/*
 * What a signal handler interrupted: the kernel lays registers and, for some handlers, siginfo on the stack before it calls
 * one.  Where the handler then ended the process, that is the crash.
 */
#ifndef INSPECT_SIGNAL_FRAME_H
#define INSPECT_SIGNAL_FRAME_H

#include "image/image.h"

struct signal_frame {
	addr_t at;                /* the sigcontext */
	struct regs regs;         /* that were interrupted */
	/* What lies where the kernel puts siginfo could be that.  It writes none for a handler that did not ask (SA_SIGINFO), and what was there
	 * before stays: handler_info.h says whether to believe it. */
	bool has_info;
	bool whole;               /* has_info: all of it is as the kernel writes it, also where nothing is to be told */
	bool asked;               /* has_info: such a frame is made only for a handler that asked */
	int signo, code;          /* has_info */
	addr_t addr;              /* of a fault, has_info or trapped */
	int64_t pid, uid;         /* of a sender, has_info; 0: it has none */
	addr_t trap_addr;         /* as the thread's last trap has it */
	uint64_t mask;            /* the signals that were held off before; all where that is not known */
	/* What the processor said when it last trapped in this thread, which need not have been for this signal.  In x86's terms; on
	 * aarch64 only faults of memory are kept, on ARM none. */
	bool trapped;
	bool no_trap;             /* aarch64: Linux would have kept a fault of memory, and there was none; an emulator keeps none */
	unsigned trap;            /* 14: page fault, 13: general protection, 6: illegal instruction, 0: division, or none at all */
	uint64_t error;           /* of a page fault: 1 the mapping refused it, 2 a write, 16 an instruction */
};
/*
 * The next one on th's stack from `from` (0: from its stack pointer) outwards, which is looked through for no more than the
 * stack's segment; where the stack pointer has left it by its lower end, from there.  ERR_ABSENT: none, or no such machine.  Old ones may lie there that were returned from: a caller asks
 * whether the stack's frames lead to it.
 */
int signal_frame_next(struct image *img, const struct thread *th, addr_t from, struct signal_frame *ret) MUST_CHECK;

/* The same in [from, to), the first one. */
int signal_frame_in(struct image *img, addr_t from, addr_t to, struct signal_frame *ret) MUST_CHECK;

enum { TRAP_DIVIDE = 0, TRAP_ILLEGAL = 6, TRAP_PROTECTION = 13, TRAP_PAGE = 14, TRAP_ALIGNMENT = 17 };

#endif
