/*
 * For what unwinds, and for what judges how a thread came to where it is: where no unwind table tells a frame's caller.  What a
 * call leaves behind on each machine, what a frame pointer leads to, and what the kernel keeps while a signal handler runs.  All
 * answers are likely ones, but for the last.
 */
#ifndef MODULE_NATIVE_GUESS_H
#define MODULE_NATIVE_GUESS_H

#include "module/module.h"

struct guess {
	struct image *img;
	struct modules *mods;
	const struct abi *abi;
};
enum after { AFTER_CALL, AFTER_NO_CALL, AFTER_UNKNOWN /* the code there is not at hand, or this machine's calls are not known */ };

/* May at be in code?  Where nothing tells, a module may hold some. */
bool guess_code(const struct guess *g, addr_t at);
/* A return address as it lies in memory -> the address of the instruction: without ARM's Thumb bit, without a signature. */
addr_t guess_plain(const struct guess *g, addr_t word);
/* Does a call instruction end at word, a return address as it lies in memory? */
enum after guess_after_call(const struct guess *g, addr_t word);
/* Where the call that ends at word leads, if the instruction itself says so. */
bool guess_call_target(const struct guess *g, addr_t word, addr_t *ret);
/* Where a jump by a word of a table leads, as one of a procedure linkage table. */
bool guess_stub_target(const struct guess *g, addr_t at, addr_t *ret);
/* x86: has the function that begins at start made a frame pointer of its own before it comes to pc? */
bool guess_has_frame(const struct guess *g, addr_t start, addr_t pc);
/* Frame pointers (libdw knows nothing of ARM's): the caller's registers, from a frame's. False: fp leads nowhere. */
struct guess_frame { addr_t pc, sp, fp; };
bool guess_by_pointer(const struct guess *g, addr_t sp, addr_t fp, struct guess_frame *ret);
/* Is pc where a signal handler returns to? */
bool guess_is_sigreturn(const struct guess *g, addr_t pc);
/* The registers that the signal interrupted, when the handler has returned to pc with sp: as the kernel keeps them. */
bool guess_interrupted(const struct guess *g, addr_t pc, addr_t sp, struct regs *ret);

#endif
