/* What a kernel leaves on the stack of a signal handler and how signals are sent, machine by machine; nothing here reads an image. */
#ifndef IMAGE_SIGNAL_ABI_H
#define IMAGE_SIGNAL_ABI_H

#include "image/abi.h"

/* Where struct sigcontext keeps what was interrupted; all offsets are from its start. */
struct signal_context {
	struct kept_reg { uint8_t dwarf; uint16_t at; } const *regs;
	size_t n_regs;
	uint8_t general;             /* so many general registers, numbered from 0 */
	uint16_t sp, pc, size;
	bool traps;                  /* x86: trap and error are what the processor said when it last trapped in the thread */
	uint16_t trap, error, fault;
	uint16_t floats;             /* x86: where a pointer to what fxsave wrote is kept; 0: none */
	uint8_t status, mxcsr, magic; /* in that: x87's status (its control is at 0), mxcsr, and what is 0 where there is one (0: there always is) */
	uint16_t records;            /* aarch64: what follows the registers; 0: none */
};
/* NULL: not known. */
const struct signal_context *signal_context_of(const struct abi *abi);

/*
 * A kind of frame: which words around a sigcontext are as they are in no other data.  Not all kernels write the same words, and
 * a handler that asked for siginfo (SA_SIGINFO) gets another frame on some machines.
 */
struct signal_kind {
	uint16_t machine;
	int16_t info;                /* siginfo, from the context; 0: there is none */
	int16_t mask;                /* a word of what was held off, the lowest signals, from the context */
	int16_t back;                /* where the handler's return address is kept, from the context, and what that leads to; 0: in no such place */
	uint8_t back_size, back_code[9];
	struct signal_mark { int16_t at; uint8_t width; uint64_t mask, value; } mark[7]; /* the first one, whole, is looked for; width 0 ends */
};
/* NULL: there is no kind number i for the machine. */
const struct signal_kind *signal_kind_at(const struct abi *abi, size_t i);

/* The instructions that a handler returns to, and where the sigcontext is then: above the stack pointer. */
struct signal_return {
	uint16_t machine;
	uint8_t size, code[9];
	uint16_t context;
};
const struct signal_return *signal_return_at(const struct abi *abi, size_t i);

/* A system call instruction, and the numbers of the calls that send a signal. */
struct signal_call {
	uint16_t machine;
	uint8_t size, code[4];
	uint16_t kill, tkill, tgkill, queue, tqueue, pidfd; /* rt_sigqueueinfo, rt_tgsigqueueinfo, pidfd_send_signal */
	uint8_t arg[4], result;      /* DWARF numbers */
	int8_t back;                 /* the register in which the instruction leaves where it returns to; -1: none */
	int8_t number;               /* the one that still has the number after the call; -1: the result is in its place */
	uint16_t lets_in[6];         /* the calls that let signals in which were held off: sigreturn, sigprocmask, sigsuspend, rt_ and older; 0 ends */
};
const struct signal_call *signal_call_at(const struct abi *abi, size_t i);

#endif
