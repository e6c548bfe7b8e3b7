/*
 * One instruction of the target: what it wanted of memory, in words of its registers.  x86 only and only with Zydis; the page
 * fault's error code is not in a core, so the instruction has to tell a read from a write.
 */
#ifndef INSPECT_INSTRUCTION_H
#define INSPECT_INSTRUCTION_H

#include "image/image.h"

enum access { ACCESS_UNKNOWN, ACCESS_READ, ACCESS_WRITE, ACCESS_BOTH, ACCESS_EXEC };

struct instruction {
	struct str text;          /* "mov rax, [rdi]" */
	struct str operands;      /* the registers that it reads: "rdi = 0x0"; empty if none is known */
	enum access access;       /* of the operand that faulted */
	bool has_address;         /* false: which one faulted, or where it is, is not known */
	addr_t address;
	unsigned size;            /* bytes of that operand */
	unsigned multiple;        /* what the address has to be a multiple of, and is not; 0: it may be as it is */
	bool unmapped;            /* nothing is mapped there: a page fault, though the processor's address was not handed on */
	bool privileged;          /* no program may execute it, or (in, out, cli) none without the kernel's leave */
	bool checked;             /* what it loads has to be of a certain kind: a selector, bits of a control register */
	bool no_memory;           /* it neither reads nor writes memory */
	bool elsewhere;           /* it may access memory that is not known here: by vector registers, another segment, a repeated or very large operand */
	bool undefined;           /* it is one that there is for not being one: ud2 */
	bool floats;              /* it has operands in vector registers or those of the x87 */
	const char *mnemonic;     /* "hlt"; NULL: not known */
	bool divides;
	bool divisor_known;
	uint64_t divisor;
	bool quotient_fits;       /* it is known that it does not fault */
	addr_t target;            /* where a return, jump or call would have gone; 0: not known, or it is none */
	const char *transfer;     /* "return", "jump", "call"; NULL */
};
/*
 * The instruction at regs->pc.  fault: the address that could not be accessed; with known false the processor gave none, and an
 * operand that cannot be an address, else one where nothing is mapped, is looked for.  ERR_ABSENT: no decoder for this machine; ERR_FAULT: its bytes were not
 * captured; ERR_CORRUPT: they are no instruction.
 */
int instruction_at(struct image *img, const struct regs *regs, bool known, addr_t fault, struct arena *a, struct instruction *ret) MUST_CHECK;
/*
 * Did the call that ends at `after` lead to regs->pc, where nothing has run since?  x86 with Zydis; LED_UNKNOWN also where the memory
 * that its operand is in was not captured.
 */
enum led { LED_UNKNOWN, LED_THERE, LED_ELSEWHERE };
enum led instruction_led(struct image *img, const struct regs *regs, addr_t after);
/* Can no address be like that? */
bool address_is_wild(const struct abi *abi, addr_t addr);

/*
 * What the code before the call that returns to `after` put into the first two arguments, where it is constant: followed from
 * the function's first instruction at `start`.  set[i]: it is known; passed[i]: the function has left it as its caller gave it.
 */
struct call_arguments { bool set[2], passed[2]; uint64_t value[2]; };
int instruction_arguments(struct image *img, addr_t start, addr_t after, struct call_arguments *ret) MUST_CHECK;

#endif
