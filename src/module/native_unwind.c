/*
 * In the child: every thread unwound by libdw through the image's memory and registers.
 *
 * dwfl_attach_state with reads of our own, since libdw 0.188's dwfl_core_file_attach looks each word up in a list of all
 * segments (37 s for 10,000 frames against 0.06 s).  A module's ELF is opened when a pc first falls into it: its file where
 * there is one, else one made from memory (memory_elf.c).
 *
 * Where libdw finds no way on, the caller is looked for (native_guess.c) and libdw is started again from there: by the link
 * register, the frame pointer, the registers that a signal interrupted, else by a search of the stack.  What a search finds is
 * taken only if libdw can go on from it, where tables tell how.
 */
#include "module/native_unwind.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <dwarf.h>
#include <elf.h>
#include <elfutils/libdw.h>
#include <elfutils/libdwfl.h>

#include "config.h"
#include "module/demangle.h"
#include "module/memory_elf.h"
#include "module/modules.h"
#include "module/native_places.h"
#include "module/native_guess.h"

enum {
	FLUSH = 1 << 16, BACKWARDS = 64,
	SCAN_WORDS = 512,
	SCANNED_MAX = 1 << 24, /* words, of all threads */
	STARTS_MAX = 4096,    /* of libdw, for one thread */
	PROBE_FRAMES = 2,     /* callers that have to be right */
	POINTERS = 4,         /* words of the stack that may be a caller's frame pointer */
	POINTER_SPAN = 1 << 20,
	PCS_MAX = 1 << 20,    /* remembered; more are looked up again */
	PLACES_MAX = 1 << 14, /* with source lines */
	INNERMOST = 32, /* of the first thread: those that may have lines where not all have them */
	COPY_MAX = 128 << 20, /* of unwind tables out of the image */
};
/* What the parser takes: the table of pcs is half full at most. */
_Static_assert(PCS_MAX / 2 <= NATIVE_NAMES_MAX && PLACES_MAX * NATIVE_PLACE_FUNCTIONS <= NATIVE_PLACES_MAX, "more is told than is believed");

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

static void flush(struct unwind *u)
{
	size_t done = 0;
	while (u->rc == 0 && done < u->out.len) {
		ssize_t n = write(u->fd, u->out.s + done, u->out.len - done);
		if (n < 0 && errno != EINTR)
			u->rc = ERR_IO;
		done += n > 0 ? (size_t)n : 0;
	}
	u->out.len = 0;
}

static void put_frames(struct unwind *u)
{
	native_put_frames(&u->out, u->frames.p, u->frames.n);
	u->frames.n = 0;
	if (u->out.len >= FLUSH)
		flush(u);
}

/* ---- libdw's callbacks */

static int find_elf(Dwfl_Module *mod, void **userdata, const char *name, Dwarf_Addr base, char **file_name, Elf **elf)
{
	struct reported *r = *userdata;
	(void)mod, (void)name, (void)base;
	*file_name = NULL;
	*elf = NULL;
	/* Mapped for reading only, and by us: libdw would map it to be written to, and look for compressed kernels in it. */
	int fd = disk_file_fd(r->m->file);
	if (fd >= 0)
		*elf = elf_begin(fd, ELF_C_READ_MMAP, NULL);
	if (!*elf)
		*elf = memory_elf(r->m, &r->u->budget);
	return -1;
}

/* Asked for the separate debug file, then for the file that one shares parts with. */
static int find_debuginfo(Dwfl_Module *mod, void **userdata, const char *name, Dwarf_Addr base, const char *file_name,
			  const char *link, GElf_Word crc, char **ret)
{
	struct reported *r = *userdata;
	(void)mod, (void)name, (void)base, (void)file_name, (void)crc;
	*ret = NULL;
	int fd = disk_file_fd(link && r->m->alt_name && !strcmp(link, r->m->alt_name) ? r->m->alt : r->m->debug);
	return fd < 0 ? -1 : fd;
}

static pid_t next_thread(Dwfl *dwfl, void *arg, void **thread_arg)
{
	(void)dwfl, (void)arg, (void)thread_arg;
	return 0;
}

static bool get_thread(Dwfl *dwfl, pid_t tid, void *arg, void **thread_arg)
{
	(void)dwfl, (void)tid;
	*thread_arg = arg;
	return true;
}

static bool read_word(Dwfl *dwfl, Dwarf_Addr addr, Dwarf_Word *ret, void *arg)
{
	struct unwind *u = arg;
	uint64_t v;
	(void)dwfl;
	if (image_read_uint(u->img, addr, u->abi->width, &v) < 0) {
		u->missing = addr;
		u->is_missing = true;
		return false;
	}
	*ret = v;
	return true;
}

static bool set_registers(Dwfl_Thread *thread, void *arg)
{
	struct unwind *u = arg;
	for (int i = 0; i < 64; i++) {
		Dwarf_Word v = u->from.value[i];
		if (u->from.known >> i & 1) /* false: a register that libdw does not unwind */
			dwfl_thread_state_registers(thread, i, 1, &v);
	}
	dwfl_thread_state_register_pc(thread, u->from.pc);
	return true;
}

static const Dwfl_Callbacks dwfl_callbacks = { .find_elf = find_elf, .find_debuginfo = find_debuginfo };
static const Dwfl_Thread_Callbacks thread_callbacks = {
	.next_thread = next_thread, .get_thread = get_thread, .memory_read = read_word, .set_initial_registers = set_registers,
};

/* ---- frames */

static enum tables look_up_tables(struct unwind *u, addr_t at)
{
	Dwarf_Addr bias;
	Dwfl_Module *mod = dwfl_addrmodule(u->dwfl, at);
	Dwarf_Frame *frame = NULL;
	if (!mod)
		return TABLES_NO_MODULE;
	Dwarf_CFI *cfi = dwfl_module_eh_cfi(mod, &bias);
	if (!cfi || dwarf_cfi_addrframe(cfi, at - bias, &frame) != 0) {
		frame = NULL;
		Dwarf_CFI *debug = dwfl_module_dwarf_cfi(mod, &bias);
		if (!cfi && !debug)
			return TABLES_NO_ELF;
		if (!debug || dwarf_cfi_addrframe(debug, at - bias, &frame) != 0)
			return TABLES_NO;
	}
	free(frame);
	return TABLES_YES;
}

static size_t slot(const struct unwind *u, addr_t pc, bool call)
{
	uint64_t h = (pc ^ call) * 0x9e3779b97f4a7c15u;
	size_t i = (h >> 20) & (u->room - 1);
	while (u->pcs[i].used && (u->pcs[i].pc != pc || u->pcs[i].call != call))
		i = (i + 1) & (u->room - 1);
	return i;
}

static struct known_pc known(struct unwind *u, addr_t pc, bool call)
{
	if (u->n_pcs * 2 >= u->room && u->room < PCS_MAX) {
		struct known_pc *old = u->pcs;
		size_t n = u->room;
		u->room = n ? n * 2 : 1024;
		u->pcs = xcalloc(u->room, sizeof *u->pcs);
		for (size_t i = 0; i < n; i++)
			if (old[i].used)
				u->pcs[slot(u, old[i].pc, old[i].call)] = old[i];
		free(old);
	}
	const bool full = u->n_pcs * 2 >= u->room;
	size_t i = slot(u, pc, call);
	if (u->pcs[i].used)
		return u->pcs[i];
	struct known_pc k = { pc, (uint8_t)look_up_tables(u, pc - call), true, call, guess_is_sigreturn(&u->guess, pc) };
	if (!full) {
		u->pcs[i] = k;
		u->n_pcs++;
	}
	return k;
}

static int stop(struct unwind *u, enum native_end end, const char *why)
{
	u->end = end;
	u->why = why;
	return DWARF_CB_ABORT;
}

static addr_t frame_reg(Dwfl_Frame *state, int reg)
{
	Dwarf_Word v = 0;
#if HAVE_DWFL_FRAME_REG
	if (reg < 0 || dwfl_frame_reg(state, (unsigned)reg, &v) != 0)
		v = 0;
#else
	(void)state, (void)reg;
#endif
	return v;
}

/* Begin again with these registers, at a return address (bits has NATIVE_CALL) or at the instruction itself. */
static void begin_at(struct unwind *u, const struct regs *r, addr_t pc, uint8_t bits)
{
	if (r != &u->from)
		u->from = *r;
	u->from.pc = pc - (bits & NATIVE_CALL);
	u->from_pc = pc;
	u->from_bits = bits;
	u->again = true;
}

/* Is the last frame one whose registers are all known: the thread's innermost, or what a signal interrupted? */
static bool by_itself(const struct unwind *u)
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
static bool same_function(struct unwind *u, addr_t a, addr_t b)
{
	addr_t x, y;
	return function_start(u, a, &x) && function_start(u, b, &y) && x == y;
}

/* All registers of a frame that libdw cannot go on from, since its pc is not plain. */
static void take_registers(struct unwind *u, Dwfl_Frame *state)
{
	struct regs r = { 0 };
	for (int i = 0; i < 64; i++) {
		r.value[i] = u->from.known >> i & 1 ? frame_reg(state, i) : 0;
		r.known |= (uint64_t)(r.value[i] != 0) << i;
	}
	u->from = r;
}

static void set_reg(struct regs *r, int reg, uint64_t v)
{
	if (reg >= 0) {
		r->value[reg] = v;
		r->known |= (uint64_t)1 << reg;
	}
}

/* The caller of a frame that called nothing, where its registers tell. */
static bool by_registers(struct unwind *u)
{
	struct regs r = u->from;
	const bool nowhere = !guess_code(&u->guess, r.pc);
	uint64_t word;
	if (!by_itself(u))
		return false;
	if (u->lr_reg >= 0) {
		word = r.known >> u->lr_reg & 1 ? r.value[u->lr_reg] : 0;
		const addr_t pc = guess_plain(&u->guess, word);
		if ((!nowhere && u->tables == TABLES_YES) || (!nowhere && same_function(u, r.pc, pc - 1)) ||
		    (guess_after_call(&u->guess, word) != AFTER_CALL && !guess_is_sigreturn(&u->guess, pc)))
			return false;
		r.known &= ~((uint64_t)1 << u->lr_reg); /* the call has overwritten the caller's */
		begin_at(u, &r, pc, NATIVE_LINK | NATIVE_CALL);
		return true;
	}
	/* A call of what is no code leaves its return address on top, where its own code may not be at hand. */
	if (!nowhere || image_read_uint(u->img, u->last.sp, u->abi->width, &word) < 0 || guess_after_call(&u->guess, word) == AFTER_NO_CALL)
		return false;
	set_reg(&r, u->sp_reg, u->last.sp + u->abi->width);
	begin_at(u, &r, word, NATIVE_SCAN | NATIVE_CALL);
	return true;
}

/*
 * What the frame's registers hold, as far as the tables say that it is what they held when it called: libdw knows which ones a
 * machine's functions keep.
 */
static void put_regs(struct unwind *u, Dwfl_Frame *state)
{
	struct native_regs r = { .frame = u->n };
#if HAVE_DWFL_FRAME_REG
	for (unsigned i = 0; i < 32; i++) {
		Dwarf_Word v;
		if (dwfl_frame_reg(state, i, &v) == 0) {
			r.known |= UINT32_C(1) << i;
			r.value[i] = v;
		}
	}
#else
	(void)state;
#endif
	if (r.known)
		native_put_regs(&u->out, &r);
}

/*
 * Is this where clone returned 0 to a new thread, on whose stack nothing is yet?  glibc's clone.S and clone3.S end the table before the
 * system call, since it would tell of the thread that called.  What a call returns is in DWARF's register 0 on all of these.
 */
static bool is_unborn(const struct unwind *u)
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
static bool frameless(struct unwind *u)
{
	addr_t start;
	return u->lr_reg < 0 && u->tables == TABLES_NO && by_itself(u) && u->last.sp && u->last.sp % u->abi->width == 0 &&
	       function_start(u, u->last.pc, &start) && !guess_has_frame(&u->guess, start, u->last.pc);
}

static int frame(Dwfl_Frame *state, void *arg)
{
	struct unwind *u = arg;
	struct native_frame f = { .sp = frame_reg(state, u->sp_reg) };
	const addr_t fp = frame_reg(state, u->fp_reg);
	const bool begins = u->begins;
	Dwarf_Addr pc;
	bool activation;
	u->is_missing = false; /* dwfl_frame_pc unwinds to the next one, to know what this one is */
	if (!dwfl_frame_pc(state, &pc, &activation))
		return stop(u, NATIVE_BROKEN, dwfl_errmsg(-1));
	u->begins = false;
	f.pc = begins ? u->from_pc : guess_plain(&u->guess, pc);
	f.bits = begins ? u->from_bits : (uint8_t)((u->tables == TABLES_YES ? 0 : NATIVE_GUESS) | (activation ? 0 : NATIVE_CALL));
	const bool code = guess_code(&u->guess, f.pc - (f.bits & NATIVE_CALL));
	if (is_unborn(u))
		return stop(u, NATIVE_WHOLE, NULL);
	if (u->n && !code && !(begins && !f.bits) && !guess_is_sigreturn(&u->guess, f.pc))
		return stop(u, f.pc ? NATIVE_BROKEN : NATIVE_WHOLE, "the caller would be where no code is");
	if (!begins && u->abi->machine == EM_AARCH64 && f.pc != pc) {
		take_registers(u, state);
		begin_at(u, &u->from, f.pc, f.bits);
		return stop(u, NATIVE_BROKEN, "a signed return address");
	}
	struct known_pc k = known(u, f.pc, f.bits & NATIVE_CALL);
	if (u->n && (k.sigreturn || !(f.bits & NATIVE_CALL)) && !(u->last.bits & NATIVE_SIGNAL)) {
		if (f.bits & NATIVE_CALL)
			k = known(u, f.pc, false);
		f.bits = (uint8_t)((f.bits & ~NATIVE_CALL) | NATIVE_SIGNAL);
	}
	if (u->n) {
		if (f.bits & NATIVE_GUESS && !begins) {
			if (f.bits & NATIVE_CALL && guess_after_call(&u->guess, pc) == AFTER_NO_CALL)
				return stop(u, NATIVE_BROKEN, "no call ends where the caller would be");
			if (by_itself(u) && u->lr_reg >= 0 && same_function(u, u->last.pc, f.pc - 1))
				return DWARF_CB_OK; /* the next one is its caller */
		}
		if (f.sp && f.sp <= u->last.sp && !begins && (f.bits & NATIVE_GUESS || ++u->backwards > BACKWARDS))
			return stop(u, NATIVE_BROKEN, "the stack would run backwards");
		if (f.sp == u->last.sp && f.pc == u->last.pc)
			return stop(u, NATIVE_BROKEN, "the stack loops");
	}
	if (u->n >= u->lim->frames)
		return stop(u, NATIVE_LIMIT, NULL);
	if (u->thread == 0 && u->n < NATIVE_REGS_FRAMES)
		put_regs(u, state);
	if (u->thread == 0 && u->n_innermost < INNERMOST) {
		u->innermost[u->n_innermost].pc = f.pc;
		u->innermost[u->n_innermost++].call = f.bits & NATIVE_CALL;
	}
	u->n++;
	u->last = f;
	u->last_fp = fp;
	u->tables = k.tables;
	if (k.tables == TABLES_YES)
		u->n_pointers = 0;
	*vec_push(&u->frames) = f;
	if (u->frames.n >= 4096)
		put_frames(u);
	struct regs r;
	/* libdw takes a pc of 0 for the stack's end. */
	if (f.bits & NATIVE_SIGNAL && guess_interrupted(&u->guess, f.pc, f.sp, &r) && (k.tables != TABLES_YES || !guess_code(&u->guess, r.pc) || known(u, r.pc, false).tables == TABLES_NO)) {
		begin_at(u, &r, r.pc, 0);
		return stop(u, NATIVE_BROKEN, "the registers that a signal interrupted");
	}
	/* Where it went from no code: the frame pointer, which libdw would follow, is that of the function that went there, or an older one's. */
	if (!code && by_registers(u))
		return stop(u, NATIVE_BROKEN, "the return address of a call of what is no code");
	/* Nor is it that of a function which makes none. */
	if (code && frameless(u)) {
		u->frameless = true;
		return stop(u, NATIVE_BROKEN, "no unwind table tells of the function there");
	}
	return u->rc == 0 ? DWARF_CB_OK : DWARF_CB_ABORT;
}

/* ---- where libdw finds no way on */

static int probe_frame(Dwfl_Frame *state, void *arg)
{
	struct unwind *u = arg;
	Dwarf_Addr pc;
	bool activation;
	if (!dwfl_frame_pc(state, &pc, &activation)) {
		u->probe.bad = true;
		return DWARF_CB_ABORT;
	}
	const addr_t sp = frame_reg(state, u->sp_reg);
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
	const bool tables = look_up_tables(u, pc - 1) == TABLES_YES && !guess_is_sigreturn(&u->guess, pc);
	for (size_t i = tables ? 0 : u->n_pointers; i <= u->n_pointers; i++) {
		struct regs r = { .pc = pc - 1 };
		set_reg(&r, u->sp_reg, at + u->abi->width);
		if (i < u->n_pointers)
			set_reg(&r, u->fp_reg, u->pointer[i]);
		u->from = r;
		if (!tables || proved(u)) {
			begin_at(u, &u->from, pc, NATIVE_SCAN | NATIVE_CALL);
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
			begin_at(u, &r, word, NATIVE_SCAN | NATIVE_CALL);
			return true;
		}
		if (!guess_call_target(&u->guess, word, &target) || (target != start && (!guess_stub_target(&u->guess, target, &target) || target != start)))
			continue;
		drop_pointers(u, at);
		add_pointer(u, at, u->last_fp); /* which it may have left alone */
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
	begin_at(u, &r, guess_plain(&u->guess, g.pc), NATIVE_GUESS | NATIVE_CALL);
	return true;
}

/* The program begins there: it has no caller. */
static bool is_entry(struct unwind *u)
{
	enum { NEAR = 64 };
	uint64_t entry;
	addr_t start, pc = u->last.pc - 1;
	if (u->n < 2 || image_auxv(u->img, AT_ENTRY, &entry) < 0)
		return false;
	entry = guess_plain(&u->guess, entry);
	return function_start(u, pc, &start) ? start == entry : pc >= entry && pc - entry < NEAR;
}

static void unwind_thread(struct unwind *u, size_t i)
{
	const struct regs *r = &u->threads[i].regs;
	u->thread = i;
	u->n = 0;
	u->backwards = 0;
	u->last = (struct native_frame){ 0 };
	u->last_fp = 0;
	u->n_pointers = 0;
	native_put_thread(&u->out, (uint32_t)i);
	if (!r->known || (!r->pc && !r->sp)) {
		native_put_end(&u->out, NATIVE_NO_REGS, 0, NULL);
		return;
	}
	char why[256] = "";
	begin_at(u, r, guess_plain(&u->guess, r->pc), NATIVE_TOP);
	for (unsigned starts = 0; u->again && starts < STARTS_MAX && u->rc == 0; starts++) {
		u->end = NATIVE_WHOLE;
		u->why = NULL;
		u->begins = true;
		u->frameless = false;
		u->n_begun = u->n;
		u->again = false;
		const int rc = dwfl_getthread_frames(u->dwfl, (pid_t)i + 1, frame, u);
		if (u->again)
			continue;
		if (u->why || (rc < 0 && u->end == NATIVE_WHOLE)) {
			const char *text = u->why ? u->why : dwfl_errmsg(-1);
			snprintf(why, sizeof why, "%s", text ? text : "?");
		}
		if (rc == 0 && u->end == NATIVE_WHOLE && u->is_missing) {
			snprintf(why, sizeof why, "the stack at 0x%llx is not in the file", (unsigned long long)u->missing);
			u->end = NATIVE_BROKEN;
		}
		/* A frame pointer of 0 where no table can be read is no end to believe in. */
		enum tables t = u->n ? u->tables : TABLES_NO;
		if (u->end == NATIVE_WHOLE || u->end == NATIVE_BROKEN)
			u->end = !u->n ? NATIVE_NO_REGS : t == TABLES_NO_ELF ? NATIVE_NO_TABLES : t == TABLES_NO_MODULE ? NATIVE_NO_MODULE
				 : rc < 0 || u->end == NATIVE_BROKEN || (t == TABLES_NO && u->last.pc) ? NATIVE_BROKEN : NATIVE_WHOLE;
		if (u->end == NATIVE_BROKEN && t == TABLES_NO && !u->why)
			snprintf(why, sizeof why, "no unwind table tells of the function there");
		if (u->end != NATIVE_BROKEN && u->end != NATIVE_NO_MODULE && u->end != NATIVE_NO_TABLES)
			continue;
		if (t != TABLES_YES && (is_entry(u) || is_unborn(u)))
			u->end = NATIVE_WHOLE;
		else
			(void)!(by_registers(u) || by_call(u) || by_pointer(u) || scan(u));
	}
	put_frames(u);
	native_put_end(&u->out, u->end, u->last.pc, u->end == NATIVE_BROKEN ? why : NULL);
	if (u->out.len >= FLUSH / 4)
		flush(u);
}

/* ---- what is at the pcs that were met */

static void put_names(struct unwind *u)
{
	for (size_t i = 0; i < u->room && u->rc == 0; i++) {
		const struct known_pc *k = &u->pcs[i];
		struct native_name n = { .pc = k->pc, .call = k->call };
		char shown[DEMANGLED_MAX];
		if (!k->used || modules_name(u->mods, k->pc - k->call, &n.symbol, &n.into) < 0)
			continue;
		if (demangle(n.symbol, shown, sizeof shown))
			n.shown = str_of(shown);
		native_put_name(&u->out, &n);
		if (u->out.len >= FLUSH)
			flush(u);
	}
}

static void put_minis(struct unwind *u)
{
	for (size_t i = 0; i < u->mods->n; i++)
		if (u->mods->mod[i].mini_in && u->mods->mod[i].mini_rc < 0)
			native_put_mini(&u->out, u->mods->mod[i].pub.start, u->mods->mod[i].mini_rc);
}

static void put_places(struct unwind *u)
{
	size_t n = 0;
	for (size_t i = 0; i < u->room && n < PLACES_MAX && u->rc == 0; i++) {
		const struct known_pc *k = &u->pcs[i];
		/* A pc has its places once, also where it was met as both: a call's, unless no call returns there. */
		if (!k->used || (k->call ? k->sigreturn : !k->sigreturn && u->pcs[slot(u, k->pc, true)].used))
			continue;
		native_places_put(&u->out, u->dwfl, u->pcs[i].pc, u->pcs[i].pc - u->pcs[i].call);
		if (u->out.len >= FLUSH)
			flush(u);
		n++;
	}
}

/* ---- the whole */

static int report_modules(struct unwind *u)
{
	addr_t end = 0;
	u->reported = xcalloc(u->mods->n + 1, sizeof *u->reported);
	dwfl_report_begin(u->dwfl);
	for (size_t i = 0; i < u->mods->n; i++) {
		struct mod *m = &u->mods->mod[i];
		void **userdata;
		char name[32];
		if (!m->pub.bias_known || m->pub.start < end || m->pub.end <= m->pub.start)
			continue; /* a list that overlaps lies */
		end = m->pub.end;
		snprintf(name, sizeof name, "%zu", i);
		Dwfl_Module *mod = dwfl_report_module(u->dwfl, name, m->pub.start, m->pub.end);
		if (!mod)
			return ERR_MEMORY;
		u->reported[i] = (struct reported){ u, m };
		if (dwfl_module_info(mod, &userdata, NULL, NULL, NULL, NULL, NULL, NULL))
			*userdata = &u->reported[i];
	}
	return dwfl_report_end(u->dwfl, NULL, NULL) == 0 ? 0 : ERR_CORRUPT;
}

int native_unwind(struct image *img, struct modules *mods, const struct native_limits *lim, int fd)
{
	struct unwind u = { .img = img, .mods = mods, .lim = lim, .abi = image_abi(img), .fd = fd, .budget = COPY_MAX };
	size_t n = image_threads(img, &u.threads);
	u.guess = (struct guess){ img, mods, u.abi };
	u.sp_reg = abi_sp(u.abi);
	u.fp_reg = abi_fp(u.abi);
	u.lr_reg = abi_lr(u.abi);
	elf_version(EV_CURRENT);
	u.dwfl = dwfl_begin(&dwfl_callbacks);
	if (!u.dwfl)
		return ERR_MEMORY;
	int rc = report_modules(&u);
	Elf *machine = memory_elf_machine(u.abi);
	bool can = rc == 0 && machine && dwfl_attach_state(u.dwfl, machine, 1, &thread_callbacks, &u);
	for (size_t i = 0; i < n && i < lim->threads && u.rc == 0; i++) {
		if (can) {
			unwind_thread(&u, i);
		} else {
			native_put_thread(&u.out, (uint32_t)i);
			native_put_end(&u.out, NATIVE_NO_REGS, 0, NULL);
		}
	}
	flush(&u); /* what there is, before what costs more */
	put_names(&u);
	put_minis(&u);
	flush(&u);
	if (lim->lines == NATIVE_LINES_ALL)
		put_places(&u);
	else if (lim->lines == NATIVE_LINES_FIRST)
		native_innermost_put(&u.out, u.dwfl, u.mods, u.innermost, u.n_innermost);
	native_put_done(&u.out);
	flush(&u);
	dwfl_end(u.dwfl);
	elf_end(machine);
	vec_free(&u.frames);
	sb_free(&u.out);
	free(u.reported);
	free(u.pcs);
	return u.rc;
}
