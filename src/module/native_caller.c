/* The next caller of a thread that libdw has found no way on from. */
#include "module/native_caller.h"

#include <string.h>

#include <elf.h>
#include <elfutils/libdw.h>

enum {
	SCAN_WORDS = 512,
	SCANNED_MAX = 1 << 24, /* words, of all threads */
	PROBE_FRAMES = 2,      /* callers that have to be right */
	POINTER_SPAN = 1 << 20,
};

void unwind_begin_at(struct unwind *u, const struct regs *r, addr_t pc, uint8_t bits)
{
	if (r != &u->from)
		u->from = *r;
	u->from.pc = pc - (bits & NATIVE_CALL);
	u->from_pc = pc;
	u->from_bits = bits;
	u->again = true;
}

bool unwind_by_itself(const struct unwind *u)
{
	return u->n == u->n_begun + 1 && !(u->from_bits & NATIVE_CALL);
}

/* Where the function that pc is in begins. */
static bool function_start(struct unwind *u, addr_t pc, addr_t *ret)
{
	struct str name;
	uint64_t into;
	if (modules_name(u->mods, pc, &name, &into) < 0)
		return false;
	*ret = guess_plain(&u->guess, pc - into);
	return true;
}

/* A function's link register leads into itself, once it has called another. */
bool unwind_same_function(struct unwind *u, addr_t a, addr_t b)
{
	addr_t x, y;
	return function_start(u, a, &x) && function_start(u, b, &y) && x == y;
}

static void set_reg(struct regs *r, int reg, uint64_t v)
{
	if (reg >= 0) {
		r->value[reg] = v;
		r->known |= (uint64_t)1 << reg;
	}
}

/* The caller of a frame that called nothing, where its registers tell. */
bool unwind_by_registers(struct unwind *u)
{
	struct regs r = u->from;
	const bool nowhere = !guess_code(&u->guess, r.pc);
	uint64_t word;
	if (!unwind_by_itself(u))
		return false;
	if (u->lr_reg >= 0) {
		word = r.known >> u->lr_reg & 1 ? r.value[u->lr_reg] : 0;
		const addr_t pc = guess_plain(&u->guess, word);
		if ((!nowhere && u->tables == TABLES_YES) || (!nowhere && unwind_same_function(u, r.pc, pc - 1)) ||
		    (guess_after_call(&u->guess, word) != AFTER_CALL && !guess_is_sigreturn(&u->guess, pc)))
			return false;
		r.known &= ~((uint64_t)1 << u->lr_reg); /* the call has overwritten the caller's */
		unwind_begin_at(u, &r, pc, NATIVE_LINK | NATIVE_CALL);
		return true;
	}
	/* A call of what is no code leaves its return address on top, where its own code may not be at hand. */
	if (!nowhere || image_read_uint(u->img, u->last.sp, u->abi->width, &word) < 0 || guess_after_call(&u->guess, word) == AFTER_NO_CALL)
		return false;
	set_reg(&r, u->sp_reg, u->last.sp + u->abi->width);
	unwind_begin_at(u, &r, word, NATIVE_SCAN | NATIVE_CALL);
	return true;
}

/*
 * Is this where clone returned 0 to a new thread, on whose stack nothing is yet?  glibc's clone.S and clone3.S end the table before the
 * system call, since it would tell of the thread that called.  What a call returns is in DWARF's register 0 on all of these.
 */
bool unwind_is_unborn(const struct unwind *u)
{
	static const struct { uint16_t machine; int64_t nr; } clones[] = {
		{ EM_X86_64, 56 }, { EM_X86_64, 435 }, { EM_386, 120 }, { EM_386, 435 },
		{ EM_AARCH64, 220 }, { EM_AARCH64, 435 }, { EM_ARM, 120 }, { EM_ARM, 435 },
	};
	const struct regs *r = &u->threads[u->thread].regs;

	if (u->n != 1 || u->tables == TABLES_YES || !r->syscall.known || !(r->known & 1) || r->value[0])
		return false;
	for (size_t i = 0; i < sizeof clones / sizeof *clones; i++)
		if (clones[i].machine == u->abi->machine && clones[i].nr == r->syscall.nr)
			return true;
	return false;
}

/* x86: a function that no table tells of, and that makes no frame pointer, or has not made it yet. */
bool unwind_is_frameless(struct unwind *u)
{
	addr_t start;
	return u->lr_reg < 0 && u->tables == TABLES_NO && unwind_by_itself(u) && u->last.sp && u->last.sp % u->abi->width == 0 &&
	       function_start(u, u->last.pc, &start) && !guess_has_frame(&u->guess, start, u->last.pc);
}

static int probe_frame(Dwfl_Frame *state, void *arg)
{
	struct unwind *u = arg;
	Dwarf_Addr pc;
	bool activation;
	if (!dwfl_frame_pc(state, &pc, &activation)) {
		u->probe.bad = true;
		return DWARF_CB_ABORT;
	}
	const addr_t sp = unwind_reg(state, u->sp_reg);
	if (u->probe.n++ == 0) {
		u->probe.sp = sp;
		return DWARF_CB_OK;
	}
	u->probe.bad = sp <= u->probe.sp || !(activation ? guess_code(&u->guess, pc) : guess_after_call(&u->guess, pc) == AFTER_CALL);
	u->probe.sp = sp;
	return u->probe.bad || u->probe.n > PROBE_FRAMES ? DWARF_CB_ABORT : DWARF_CB_OK;
}

/* Can libdw go on from there? */
static bool proved(struct unwind *u)
{
	u->probe.n = 0;
	u->probe.bad = u->is_missing = false;
	const int rc = dwfl_getthread_frames(u->dwfl, (pid_t)u->thread + 1, probe_frame, u);
	return u->probe.n > 1 && !u->probe.bad && ((rc == 0 && !u->is_missing) || u->probe.n > PROBE_FRAMES);
}

/* A return address at `at`: its caller's frame pointer may be any of u->pointer. */
static bool goes_on(struct unwind *u, addr_t word, addr_t at)
{
	const addr_t pc = guess_plain(&u->guess, word);
	/* Without tables there is nothing to hold it against, and no way to know the frame pointer. */
	const bool tables = unwind_tables(u, pc - 1) == TABLES_YES && !guess_is_sigreturn(&u->guess, pc);
	for (size_t i = tables ? 0 : u->n_pointers; i <= u->n_pointers; i++) {
		struct regs r = { .pc = pc - 1 };
		set_reg(&r, u->sp_reg, at + u->abi->width);
		if (i < u->n_pointers)
			set_reg(&r, u->fp_reg, u->pointer[i]);
		u->from = r;
		if (!tables || proved(u)) {
			unwind_begin_at(u, &u->from, pc, NATIVE_SCAN | NATIVE_CALL);
			return true;
		}
	}
	return false;
}

/* May it be the frame pointer of a frame above at?  The newest are kept. */
static void add_pointer(struct unwind *u, addr_t at, addr_t word)
{
	size_t n = 0;
	if (word <= at || word - at >= POINTER_SPAN || word % u->abi->width)
		return;
	for (size_t i = u->n_pointers < POINTERS ? 0 : 1; i < u->n_pointers; i++)
		if (u->pointer[i] != word)
			u->pointer[n++] = u->pointer[i];
	u->pointer[n++] = word;
	u->n_pointers = n;
}

static void drop_pointers(struct unwind *u, addr_t at)
{
	size_t n = 0;
	for (size_t i = 0; i < u->n_pointers; i++)
		if (u->pointer[i] > at)
			u->pointer[n++] = u->pointer[i];
	u->n_pointers = n;
}

/* The last frame's frame pointer, which one that makes none mostly leaves alone, is asked before what lies on the stack. */
static void own_pointer_first(struct unwind *u, addr_t at)
{
	add_pointer(u, at, u->last_fp);
	const size_t n = u->n_pointers;
	if (!n || u->pointer[n - 1] != u->last_fp)
		return;
	memmove(u->pointer + 1, u->pointer, (n - 1) * sizeof *u->pointer);
	u->pointer[0] = u->last_fp;
}

/* Does the call lead to another function than the last frame's?  One that ended in a jump to that looks so too. */
static bool calls_another(struct unwind *u, addr_t word, addr_t callee)
{
	addr_t target, start;
	if (!callee || !guess_call_target(&u->guess, word, &target) || guess_plain(&u->guess, target) == callee)
		return false;
	target = guess_plain(&u->guess, target);
	return function_start(u, target, &start) && start == target; /* else it may be a way there: a procedure linkage table */
}

/*
 * The caller of one that is frameless: by the frame pointer, which is its caller's or an older one's, that one would be missed.  The return
 * address is on top, or the first that a call of this very function left.
 */
static bool by_call(struct unwind *u)
{
	const unsigned width = u->abi->width;
	addr_t start, target;
	if (!u->frameless || !function_start(u, u->last.pc, &start))
		return false;
	add_pointer(u, u->last.sp, u->last_fp);
	for (unsigned i = 0; i < SCAN_WORDS && u->scanned < SCANNED_MAX; i++) {
		uint64_t word, at = u->last.sp + (uint64_t)i * width;
		u->scanned++;
		if (at < u->last.sp || image_read_uint(u->img, at, width, &word) < 0)
			break;
		add_pointer(u, at, word);
		if (!i && guess_after_call(&u->guess, word) == AFTER_CALL && !calls_another(u, word, start)) {
			struct regs r = u->from; /* it has saved none, and so changed none that its caller keeps */
			set_reg(&r, u->sp_reg, at + width);
			unwind_begin_at(u, &r, word, NATIVE_SCAN | NATIVE_CALL);
			return true;
		}
		if (!guess_call_target(&u->guess, word, &target) || (target != start && (!guess_stub_target(&u->guess, target, &target) || target != start)))
			continue;
		drop_pointers(u, at);
		own_pointer_first(u, at);
		const struct regs from = u->from;
		if (goes_on(u, word, at))
			return true;
		u->from = from;
	}
	u->n_pointers = 0;
	return false;
}

/* The first word on the stack that a call could have left and that leads on. */
static bool scan(struct unwind *u)
{
	const unsigned width = u->abi->width;
	uint8_t byte;
	addr_t callee = 0;
	struct { addr_t word, at; } other = { 0 }; /* the first that leads on, but calls another function */
	/* Where the code of a frame is not at hand its callers' may not be either: a search would only find what older calls left. */
	if (!u->last.sp || u->last.sp % width || (guess_code(&u->guess, u->last.pc) && image_read(u->img, u->last.pc, &byte, 1) < 0))
		return false;
	if (!function_start(u, u->last.pc - (u->last.bits & NATIVE_CALL), &callee))
		callee = 0;
	add_pointer(u, u->last.sp, u->last_fp);
	for (unsigned i = 0; i < SCAN_WORDS && u->scanned < SCANNED_MAX; i++) {
		uint64_t word, at = u->last.sp + (uint64_t)i * width;
		u->scanned++;
		if (at < u->last.sp || image_read_uint(u->img, at, width, &word) < 0)
			break;
		add_pointer(u, at, word);
		enum after after = guess_after_call(&u->guess, word);
		if (after == AFTER_NO_CALL && guess_is_sigreturn(&u->guess, guess_plain(&u->guess, word)))
			after = AFTER_CALL;
		if (after == AFTER_UNKNOWN)
			break;
		if (after != AFTER_CALL)
			continue;
		drop_pointers(u, at);
		if (!calls_another(u, word, callee) ? goes_on(u, word, at) : !other.word && goes_on(u, word, at)) {
			if (!calls_another(u, word, callee))
				return true;
			u->again = false;
			other.word = word;
			other.at = at;
		}
	}
	return other.word && goes_on(u, other.word, other.at);
}

static bool by_pointer(struct unwind *u)
{
	struct guess_frame g;
	struct regs r = { 0 };
	/* On x86 libdw has followed it, but where it was stopped. */
	if (u->tables == TABLES_YES || (u->lr_reg < 0 && !u->frameless) || !guess_by_pointer(&u->guess, u->last.sp, u->last_fp, &g))
		return false;
	set_reg(&r, u->sp_reg, g.sp);
	set_reg(&r, u->fp_reg, g.fp);
	unwind_begin_at(u, &r, guess_plain(&u->guess, g.pc), NATIVE_GUESS | NATIVE_CALL);
	return true;
}

bool unwind_is_entry(struct unwind *u)
{
	enum { NEAR = 64 };
	uint64_t entry;
	addr_t start, pc = u->last.pc - 1;
	if (u->n < 2 || image_auxv(u->img, AT_ENTRY, &entry) < 0)
		return false;
	entry = guess_plain(&u->guess, entry);
	return function_start(u, pc, &start) ? start == entry : pc >= entry && pc - entry < NEAR;
}

bool unwind_caller(struct unwind *u)
{
	return unwind_by_registers(u) || by_call(u) || by_pointer(u) || scan(u);
}
