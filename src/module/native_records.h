/*
 * What the child that unwinds tells: records in a stream that ends anywhere if the child does.  One function writes each
 * kind, one parser reads all of them and believes none.
 *
 *   u32 bytes that follow the type, u8 type, then (little-endian)
 *   THREAD  u32 index into image_threads
 *   FRAMES  of that thread, innermost first, on from the last: u64 pc, u64 sp (0: not known), u8 bits (NATIVE_BITS)
 *   END     of that thread: u8 enum native_end, u64 pc where it ended, text
 *   PLACE   u64 pc, then for each function that is there, the innermost inlined one first: u32 line (0: not known), two texts with a NUL:
 *           function (may be empty), file
 *   NAME    u64 pc, u8 is it where a call returns to?, u64 bytes from the function's start, two texts with a NUL: the symbol as it stands in
 *           the table, and demangled (empty: it is no mangled one)
 *   REGS    of a frame of that thread, by its number from the innermost: u32 number, u32 bits of the registers (by DWARF number) that are known
 *           there, u64 for each
 *   MINI    u64 start of a module, u8 less than 0 by so much: why its MiniDebugInfo could not be read (ERR_*)
 *   SANDBOX u8 bits (SANDBOX_*) of what confines the child
 *   DONE    nothing follows
 */
#ifndef MODULE_NATIVE_RECORDS_H
#define MODULE_NATIVE_RECORDS_H

#include "image/abi.h"

enum native_end {
	NATIVE_CUT,       /* the child ended before the thread did */
	NATIVE_WHOLE,     /* up to where the thread began */
	NATIVE_BROKEN,    /* no way on; why says what libdw said */
	NATIVE_NO_TABLES, /* the module there has no unwind tables that can be read */
	NATIVE_NO_MODULE, /* no module there */
	NATIVE_LIMIT,     /* more frames than were asked for */
	NATIVE_NO_REGS,   /* the thread's registers are not known, or no unwinding for this machine */
	NATIVE_ENDS,
};
enum {
	NATIVE_CALL = 1,    /* pc is where a call returns to */
	NATIVE_GUESS = 2,   /* found by a frame pointer, not by a table */
	NATIVE_SCAN = 4,    /* found by looking for a return address */
	NATIVE_LINK = 8,    /* found by the link register, not by a table */
	NATIVE_SIGNAL = 16, /* what a signal handler returns to: the next older frame is the interrupted one */
	NATIVE_TOP = 32,    /* the thread's own registers */
	NATIVE_BITS = 63
};

struct native_frame {
	addr_t pc, sp;
	uint8_t bits;
};
/* What the registers held in a frame when it called the next inner one. */
struct native_regs {
	size_t thread, frame;
	uint32_t known;            /* by DWARF number, like value */
	uint64_t value[32];
};
struct native_stack {
	size_t first, n;           /* of native_records.frames */
	uint8_t end;               /* enum native_end */
	addr_t at;                 /* where it ended */
	struct str why;            /* of NATIVE_BROKEN */
};
struct native_place {
	addr_t pc;
	int line;                  /* -1: not known */
	struct str function, file; /* s NULL: not known */
};
struct native_name {
	addr_t pc;
	bool call;
	uint64_t into;
	struct str symbol, shown;  /* shown: demangled; s NULL: as symbol */
};
struct native_mini { addr_t start; int rc; };
struct native_records {
	struct VEC(struct native_frame) frames;
	struct native_stack *stacks; /* by index of the image's thread */
	bool *has;                   /* is there anything of that thread? */
	size_t n_threads;
	struct VEC(struct native_regs) regs; /* of the innermost frames of the first thread */
	struct VEC(struct native_place) places; /* sorted by pc; of one pc the innermost first */
	struct VEC(struct native_name) names;   /* sorted by pc and call */
	struct VEC(struct native_mini) minis;   /* that could not be read */
	uint8_t sandbox;           /* SANDBOX_* */
	bool done;
};

enum {
	NATIVE_TEXT_MAX = 4096, NATIVE_PLACE_FUNCTIONS = 32, NATIVE_REGS_FRAMES = 32,
	/* As many as the child has to tell of at most. */
	NATIVE_PLACES_MAX = NATIVE_PLACE_FUNCTIONS << 14, NATIVE_NAMES_MAX = 1 << 19, NATIVE_MINIS_MAX = 1 << 15,
};

void native_put_thread(struct sb *b, uint32_t thread);
void native_put_frames(struct sb *b, const struct native_frame *frames, size_t n);
void native_put_regs(struct sb *b, const struct native_regs *regs);
void native_put_end(struct sb *b, enum native_end end, addr_t at, const char *why);
void native_put_place(struct sb *b, addr_t pc, const struct native_place *functions, size_t n);
void native_put_name(struct sb *b, const struct native_name *name);
void native_put_mini(struct sb *b, addr_t start, int rc);
void native_put_sandbox(struct sb *b, uint8_t bits);
void native_put_done(struct sb *b);

/* 0, or ERR_CORRUPT: what came before the wrong record is in *ret all the same.  A last record that is cut is no error; done tells. */
int native_records_parse(struct blob stream, size_t n_threads, struct arena *a, struct native_records *ret) MUST_CHECK;
void native_records_free(struct native_records *r);
/* The functions at pc: how many, and the first. */
size_t native_places_at(const struct native_records *r, addr_t pc, const struct native_place **ret);

/* Of a frame of a thread, by its number from the innermost; NULL: none came. */
const struct native_regs *native_regs_of(const struct native_records *r, size_t thread, size_t frame);

/* The name of the function at pc; NULL: none came. */
const struct native_name *native_name_at(const struct native_records *r, addr_t pc, bool call);

#endif
