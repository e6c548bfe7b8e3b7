/*
 * In the child: every thread unwound by libdw through the image's memory and registers.
 *
 * dwfl_attach_state with reads of our own, since libdw 0.188's dwfl_core_file_attach looks each word up in a list of all
 * segments (37 s for 10,000 frames against 0.06 s).  A module's ELF is opened when a pc first falls into it: its file where
 * there is one, else one made from memory (memory_elf.c).
 *
 * Where libdw finds no way on, the caller is looked for (native_caller.c) and libdw is started again from there: by the link
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
#include "module/native_caller.h"
#include "module/native_places.h"

enum {
	FLUSH = 1 << 16, BACKWARDS = 64,
	STARTS_MAX = 4096,    /* of libdw, for one thread */
	PCS_MAX = 1 << 20,    /* remembered; more are looked up again */
	PLACES_MAX = 1 << 14, /* with source lines */
	COPY_MAX = 128 << 20, /* of unwind tables out of the image */
};
/* What the parser takes: the table of pcs is half full at most. */
_Static_assert(PCS_MAX / 2 <= NATIVE_NAMES_MAX && PLACES_MAX * NATIVE_PLACE_FUNCTIONS <= NATIVE_PLACES_MAX, "more is told than is believed");

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

enum tables unwind_tables(struct unwind *u, addr_t at)
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
	struct known_pc k = { pc, (uint8_t)unwind_tables(u, pc - call), true, call, guess_is_sigreturn(&u->guess, pc) };
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

addr_t unwind_reg(Dwfl_Frame *state, int reg)
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

/* All registers of a frame that libdw cannot go on from, since its pc is not plain. */
static void take_registers(struct unwind *u, Dwfl_Frame *state)
{
	struct regs r = { 0 };
	for (int i = 0; i < 64; i++) {
		r.value[i] = u->from.known >> i & 1 ? unwind_reg(state, i) : 0;
		r.known |= (uint64_t)(r.value[i] != 0) << i;
	}
	u->from = r;
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

static int frame(Dwfl_Frame *state, void *arg)
{
	struct unwind *u = arg;
	struct native_frame f = { .sp = unwind_reg(state, u->sp_reg) };
	const addr_t fp = unwind_reg(state, u->fp_reg);
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
	if (unwind_is_unborn(u))
		return stop(u, NATIVE_WHOLE, NULL);
	if (u->n && !code && !(begins && !f.bits) && !guess_is_sigreturn(&u->guess, f.pc))
		return stop(u, f.pc ? NATIVE_BROKEN : NATIVE_WHOLE, "the caller would be where no code is");
	if (!begins && u->abi->machine == EM_AARCH64 && f.pc != pc) {
		take_registers(u, state);
		unwind_begin_at(u, &u->from, f.pc, f.bits);
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
			if (unwind_by_itself(u) && u->lr_reg >= 0 && unwind_same_function(u, u->last.pc, f.pc - 1))
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
		unwind_begin_at(u, &r, r.pc, 0);
		return stop(u, NATIVE_BROKEN, "the registers that a signal interrupted");
	}
	/* Where it went from no code: the frame pointer, which libdw would follow, is that of the function that went there, or an older one's. */
	if (!code && unwind_by_registers(u))
		return stop(u, NATIVE_BROKEN, "the return address of a call of what is no code");
	/* Nor is it that of a function which makes none. */
	if (code && unwind_is_frameless(u)) {
		u->frameless = true;
		return stop(u, NATIVE_BROKEN, "no unwind table tells of the function there");
	}
	return u->rc == 0 ? DWARF_CB_OK : DWARF_CB_ABORT;
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
	unwind_begin_at(u, r, guess_plain(&u->guess, r->pc), NATIVE_TOP);
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
		if (t != TABLES_YES && (unwind_is_entry(u) || unwind_is_unborn(u)))
			u->end = NATIVE_WHOLE;
		else
			(void)!unwind_caller(u);
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
