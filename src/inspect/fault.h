/* A fault - of memory, of an instruction - in words. */
#ifndef INSPECT_FAULT_H
#define INSPECT_FAULT_H

#include "inspect/parts.h"

enum { FAULT_NULL_PAGE = 4096 };
struct fault {
	int signo, code;
	bool has_addr;
	addr_t addr;
	const struct regs *regs;  /* of the thread then; NULL: not known */
	int64_t tid;              /* of the thread */
	bool has_error;           /* x86: the page fault's error code, which only a signal frame has */
	uint64_t error;
	bool no_room;             /* SIGSEGV of the kernel's: no room was left on the stack for a handler */
	/* By fault_title: where it was, also when the processor gave no address; that was the instruction itself, where no code is. */
	bool at_known, fetched;
	bool overflow;            /* a stack's end was reached */
	addr_t at;
};
/* Is there memory at pc, of which the file says that it is no code? */
bool fault_in_data(const struct image *img, addr_t pc);

/* Line 1's text; fills r->verdict.access, instruction and operands where they can be known. */
struct str fault_title(struct target *t, struct report *r, struct fault *f);

/* "SIGSEGV"; "SEGV_MAPERR", or NULL.  Linux's numbers, which are the same on every machine that registers.def has. */
struct str signal_name(struct arena *a, int signo);
const char *signal_code_name(int signo, int code);
/* Does the kernel send it for what an instruction did? */
bool signal_is_fault(int signo);

/* Does the kernel give an address with it? */
bool signal_gives_address(int signo, int code, addr_t addr);

/* What is known of an address that could not be accessed: "null pointer", "12 bytes past the end of libfoo.so", "stack overflow: ...";
 * s NULL where nothing is.  unmapped: the kernel says that nothing is mapped there; regs, tid: of the thread, NULL, 0: not known. */
struct str address_words(struct image *img, struct arena *a, addr_t addr, bool unmapped, const struct regs *regs, int64_t tid);
bool address_is_overflow(struct str words);
/* Is that piece of memory, which a stack pointer leads to, another stack than the thread's own?  false: also where it is not known. */
bool address_on_another_stack(struct image *img, const struct segment *seg, const struct regs *regs, int64_t tid);

#endif
