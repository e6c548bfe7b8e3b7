/*
 * A thread that libdw unwinds (native_unwind.c), as far as it has got, and its next caller where libdw finds no way on: by the link register,
 * the frame pointer, the registers that a signal interrupted, else by a search of the stack.  In the child only.
 */
#ifndef MODULE_NATIVE_CALLER_H
#define MODULE_NATIVE_CALLER_H

#include <elfutils/libdwfl.h>

#include "module/modules.h"
#include "module/native.h"
#include "module/native_guess.h"
#include "module/native_places.h"

enum {
	POINTERS = 4,         /* words of the stack that may be a caller's frame pointer */
	INNERMOST = 32,       /* of the first thread: those that may have lines where not all have them */
};

enum tables { TABLES_YES, TABLES_NO, TABLES_NO_ELF, TABLES_NO_MODULE };
/* A pc that was met: does a table say how to go on from there? */
struct known_pc { addr_t pc; uint8_t tables; bool used, call, sigreturn; };

struct unwind {
	struct image *img;
	struct modules *mods;
	const struct native_limits *lim;
	const struct abi *abi;
	struct guess guess;
	int sp_reg, fp_reg, lr_reg;
	const struct thread *threads;
	struct reported { struct unwind *u; struct mod *m; } *reported;
	Dwfl *dwfl;
	uint64_t budget;
	int fd, rc;
	struct sb out;
	/* The thread that is under way. */
	size_t thread;
	struct regs from;          /* where libdw begins; pc within the call, if it is a return address */
	addr_t from_pc;            /* as it is shown */
	uint8_t from_bits;
	bool begins;               /* the next frame is that one */
	uint64_t n_begun;          /* frames before it */
	bool frameless;            /* the last one has no frame pointer of its own: libdw was stopped there */
	bool again;                /* libdw is to begin at from, since it could not go on itself */
	struct VEC(struct native_frame) frames; /* not written yet */
	struct native_frame last;
	addr_t last_fp;
	uint64_t n;
	unsigned backwards;
	enum tables tables;        /* of the last one */
	addr_t missing;            /* what could not be read since the last one: libdw takes it for the stack's end */
	bool is_missing;
	enum native_end end;       /* why it was stopped; NATIVE_WHOLE: it was not */
	const char *why;
	struct { unsigned n; addr_t sp; bool bad; } probe;
	addr_t pointer[POINTERS];  /* words of the stack, newest last, that may be the frame pointer of an older frame */
	size_t n_pointers;
	/* Of the first thread. */
	struct native_met innermost[INNERMOST];
	size_t n_innermost;
	/* All of them. */
	struct known_pc *pcs;
	size_t n_pcs, room;
	uint64_t scanned;
};

/* Does a table say how to go on from a pc within that instruction? */
enum tables unwind_tables(struct unwind *u, addr_t at);
/* Register of DWARF's number reg (-1: none) in that frame; 0 where it is not known. */
addr_t unwind_reg(Dwfl_Frame *state, int reg);

/* Begin again with these registers, at a return address (bits has NATIVE_CALL) or at the instruction itself. */
void unwind_begin_at(struct unwind *u, const struct regs *r, addr_t pc, uint8_t bits);
/* Is the last frame one whose registers are all known: the thread's innermost, or what a signal interrupted? */
bool unwind_by_itself(const struct unwind *u);
bool unwind_same_function(struct unwind *u, addr_t a, addr_t b);
bool unwind_is_unborn(const struct unwind *u);    /* it has no caller yet */
bool unwind_is_entry(struct unwind *u);           /* the program begins there */
bool unwind_is_frameless(struct unwind *u);       /* libdw would take an older frame's frame pointer for its own */
/* The caller of the last frame: unwind_begin_at was called with it.  The first: only where its registers tell. */
bool unwind_by_registers(struct unwind *u);
bool unwind_caller(struct unwind *u);

#endif
