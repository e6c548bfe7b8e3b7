/*
 * In the child: every thread unwound by libdw through the image's memory and registers.
 *
 * dwfl_attach_state with reads of our own, since libdw 0.188's dwfl_core_file_attach looks each word up in a list of all
 * segments (37 s for 10,000 frames against 0.06 s).  A module's ELF is opened when a pc first falls into it: its file where
 * there is one, else one made from memory (memory_elf.c).
 */
#include "module/native_unwind.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <dwarf.h>
#include <elfutils/libdw.h>
#include <elfutils/libdwfl.h>

#include "config.h"
#include "module/memory_elf.h"
#include "module/modules.h"

enum {
	FLUSH = 1 << 16, SCAN_WORDS = 512, SCANS = 8, BACKWARDS = 64,
	PCS_MAX = 1 << 20,    /* remembered; more are looked up again */
	PLACES_MAX = 1 << 14, /* with source lines */
	COPY_MAX = 128 << 20, /* of unwind tables out of the image */
};

enum tables { TABLES_YES, TABLES_NO, TABLES_NO_ELF, TABLES_NO_MODULE };
/* A pc that was met: does a table say how to go on from there? */
struct known_pc { addr_t pc; uint8_t tables; bool used, call; };

struct unwind {
	struct image *img;
	struct modules *mods;
	const struct native_limits *lim;
	const struct abi *abi;
	int sp_reg;
	const struct thread *threads;
	struct reported { struct unwind *u; struct mod *m; } *reported;
	Dwfl *dwfl;
	uint64_t budget;
	int fd, rc;
	struct sb out;
	/* The thread that is under way. */
	size_t thread;
	addr_t pc, sp;             /* where a resumed one begins */
	bool resumed;
	struct VEC(struct native_frame) frames; /* not written yet */
	struct native_frame last;
	uint64_t n;
	unsigned backwards;
	uint8_t bits;              /* of the next frame */
	enum native_end end;       /* why it was stopped; NATIVE_WHOLE: it was not */
	const char *why;
	/* All of them. */
	struct known_pc *pcs;
	size_t n_pcs, room;
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
	int fd = mod_file_fd(r->m);
	if (fd >= 0)
		*elf = elf_begin(fd, ELF_C_READ_MMAP, NULL);
	if (!*elf)
		*elf = memory_elf(r->m, &r->u->budget);
	return -1;
}

static int find_debuginfo(Dwfl_Module *mod, void **userdata, const char *name, Dwarf_Addr base, const char *file_name,
			  const char *link, GElf_Word crc, char **ret)
{
	(void)mod, (void)userdata, (void)name, (void)base, (void)file_name, (void)link, (void)crc, (void)ret;
	return -1; /* only src/module/opener.c opens files */
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
	if (image_read_uint(u->img, addr, u->abi->width, &v) < 0)
		return false;
	*ret = v;
	return true;
}

static bool set_registers(Dwfl_Thread *thread, void *arg)
{
	struct unwind *u = arg;
	const struct regs *r = &u->threads[u->thread].regs;
	Dwarf_Word sp = u->sp, pc = u->resumed ? u->pc : r->pc;
	if (u->resumed) {
		dwfl_thread_state_registers(thread, u->sp_reg, 1, &sp);
	} else {
		for (int i = 0; i < 64; i++) {
			Dwarf_Word v = r->value[i];
			if (r->known >> i & 1) /* false: a register that libdw does not unwind */
				dwfl_thread_state_registers(thread, i, 1, &v);
		}
	}
	dwfl_thread_state_register_pc(thread, pc);
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

static enum tables tables_at(struct unwind *u, const struct native_frame *f)
{
	const bool call = f->bits & NATIVE_CALL;
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
	size_t i = slot(u, f->pc, call);
	if (!u->pcs[i].used) {
		enum tables t = look_up_tables(u, f->pc - call);
		if (full)
			return t;
		u->pcs[i] = (struct known_pc){ f->pc, (uint8_t)t, true, call };
		u->n_pcs++;
	}
	return u->pcs[i].tables;
}

static int stop(struct unwind *u, enum native_end end, const char *why)
{
	u->end = end;
	u->why = why;
	return DWARF_CB_ABORT;
}

/* Could a caller be there? */
static bool may_be_code(struct unwind *u, addr_t at)
{
	const struct segment *s = image_segment_at(u->img, at);
	return modules_at(u->mods, at) || (s && s->prot & 4);
}

static int frame(Dwfl_Frame *state, void *arg)
{
	struct unwind *u = arg;
	struct native_frame f = { 0 };
	Dwarf_Addr pc;
	bool activation;
	if (!dwfl_frame_pc(state, &pc, &activation))
		return stop(u, NATIVE_BROKEN, dwfl_errmsg(-1));
#if HAVE_DWFL_FRAME_REG
	Dwarf_Word sp;
	if (u->sp_reg >= 0 && dwfl_frame_reg(state, (unsigned)u->sp_reg, &sp) == 0)
		f.sp = sp;
#endif
	f.pc = pc;
	f.bits = (uint8_t)(u->bits | (activation && !u->resumed ? 0 : NATIVE_CALL));
	u->resumed = false; /* from here on activation tells */
	if (u->n) {
		if (!may_be_code(u, f.pc - (f.bits & NATIVE_CALL)))
			return stop(u, f.pc ? NATIVE_BROKEN : NATIVE_WHOLE, "the caller would be where no code is");
		if (f.sp && f.sp <= u->last.sp && (f.bits & NATIVE_GUESS || ++u->backwards > BACKWARDS))
			return stop(u, NATIVE_BROKEN, "the stack would run backwards");
		if (f.sp == u->last.sp && f.pc == u->last.pc)
			return stop(u, NATIVE_BROKEN, "the stack loops");
	}
	if (u->n >= u->lim->frames)
		return stop(u, NATIVE_LIMIT, NULL);
	u->n++;
	u->last = f;
	*vec_push(&u->frames) = f;
	u->bits = tables_at(u, &f) == TABLES_YES ? 0 : NATIVE_GUESS;
	if (u->frames.n >= 4096)
		put_frames(u);
	return u->rc == 0 ? DWARF_CB_OK : DWARF_CB_ABORT;
}

/* Does a call instruction end at pc?  call rel32, call r/m with every form of address. */
static bool after_call(struct unwind *u, addr_t pc)
{
	uint8_t b[7];
	if (pc < sizeof b || !may_be_code(u, pc - 1) || image_read(u->img, pc - sizeof b, b, sizeof b) < 0)
		return false;
	if (b[2] == 0xe8)
		return true;
	for (unsigned len = 2; len <= 7; len++) {
		uint8_t mod = len >= 2 ? b[7 - len + 1] : 0;
		if (b[7 - len] != 0xff || (mod >> 3 & 7) != 2)
			continue;
		unsigned sib = (mod & 7) == 4 && mod >> 6 != 3, disp = mod >> 6 == 1 ? 1 : mod >> 6 == 2 || (mod >> 6 == 0 && (mod & 7) == 5) ? 4 : 0;
		if (2 + sib + disp == len)
			return true;
	}
	return false;
}

/* A jump into nowhere leaves its return address on top; else the first word above that a call could have left. */
static bool scan(struct unwind *u)
{
	if (u->abi->machine != EM_X86_64 || !u->last.sp)
		return false;
	for (unsigned i = 0; i < SCAN_WORDS; i++) {
		uint64_t word, at = u->last.sp + i * 8u;
		if (image_read_uint(u->img, at, 8, &word) < 0)
			return false;
		if (word == u->last.pc || !after_call(u, word))
			continue;
		u->pc = word;
		u->sp = at + 8;
		return true;
	}
	return false;
}

static void unwind_thread(struct unwind *u, size_t i)
{
	const struct regs *r = &u->threads[i].regs;
	u->thread = i;
	u->n = 0;
	u->backwards = 0;
	u->last = (struct native_frame){ 0 };
	u->resumed = false;
	u->bits = 0;
	native_put_thread(&u->out, (uint32_t)i);
	if (!r->known || (!r->pc && !r->sp)) {
		native_put_end(&u->out, NATIVE_NO_REGS, 0, NULL);
		return;
	}
	char why[256] = "";
	for (unsigned n = 0;; n++) {
		u->end = NATIVE_WHOLE;
		u->why = NULL;
		const int rc = dwfl_getthread_frames(u->dwfl, (pid_t)i + 1, frame, u);
		if (u->why || (rc < 0 && u->end == NATIVE_WHOLE)) {
			const char *text = u->why ? u->why : dwfl_errmsg(-1);
			snprintf(why, sizeof why, "%s", text ? text : "?");
		}
		/* A frame pointer of 0 where no table can be read is no end to believe in. */
		enum tables t = u->n ? tables_at(u, &u->last) : TABLES_NO;
		if (u->end == NATIVE_WHOLE || u->end == NATIVE_BROKEN)
			u->end = !u->n ? NATIVE_NO_REGS : t == TABLES_NO_ELF ? NATIVE_NO_TABLES : t == TABLES_NO_MODULE ? NATIVE_NO_MODULE
				 : rc < 0 || u->end == NATIVE_BROKEN ? NATIVE_BROKEN : NATIVE_WHOLE;
		/* Without the tables of a whole module its code is not there either: a search would only find what older calls left. */
		if ((u->end != NATIVE_BROKEN && u->end != NATIVE_NO_MODULE) || n == SCANS || !scan(u))
			break;
		u->resumed = true;
		u->bits = NATIVE_SCAN;
	}
	put_frames(u);
	native_put_end(&u->out, u->end, u->last.pc, u->end == NATIVE_BROKEN ? why : NULL);
	if (u->out.len >= FLUSH / 4)
		flush(u);
}

/* ---- source lines and inlined functions */

static struct str name_of(Dwarf_Die *die)
{
	const char *s = dwarf_diename(die);
	return (struct str){ s, s ? strlen(s) : 0 };
}

static void place_of_line(Dwfl_Line *line, struct native_place *ret)
{
	int n;
	const char *file = line ? dwfl_lineinfo(line, NULL, &n, NULL, NULL, NULL) : NULL;
	ret->line = file ? n : -1;
	ret->file = (struct str){ file, file ? strlen(file) : 0 };
}

/* Where an inlined function was called. */
static void place_of_call(Dwarf_Die *cu, Dwarf_Die *inlined, struct native_place *ret)
{
	Dwarf_Attribute a;
	Dwarf_Word v;
	Dwarf_Files *files;
	ret->line = dwarf_formudata(dwarf_attr(inlined, DW_AT_call_line, &a), &v) == 0 && v <= INT32_MAX ? (int)v : -1;
	ret->file = (struct str){ 0 };
	if (dwarf_formudata(dwarf_attr(inlined, DW_AT_call_file, &a), &v) == 0 && dwarf_getsrcfiles(cu, &files, NULL) == 0) {
		const char *file = dwarf_filesrc(files, (size_t)v, NULL, NULL);
		ret->file = (struct str){ file, file ? strlen(file) : 0 };
	}
}

static void put_place(struct unwind *u, addr_t pc, addr_t at)
{
	struct native_place list[NATIVE_PLACE_FUNCTIONS] = { 0 };
	size_t n = 0;
	Dwarf_Addr bias = 0;
	Dwarf_Die *scopes = NULL, *outer = NULL;
	Dwfl_Module *mod = dwfl_addrmodule(u->dwfl, at);
	Dwfl_Line *line = mod ? dwfl_module_getsrc(mod, at) : NULL;
	Dwarf_Die *cu = mod ? dwfl_module_addrdie(mod, at, &bias) : NULL;
	if (!cu && !line)
		return;
	place_of_line(line, &list[0]);
	int depth = cu ? dwarf_getscopes(cu, at - bias, &scopes) : 0;
	/* Those lead from the innermost inlined function to its abstract one; its own parents are asked for again. */
	if (depth > 0)
		depth = dwarf_getscopes_die(&scopes[0], &outer);
	for (int i = 0; i < depth && n + 1 < NATIVE_PLACE_FUNCTIONS; i++) {
		int tag = dwarf_tag(&outer[i]);
		if (tag != DW_TAG_inlined_subroutine && tag != DW_TAG_subprogram && tag != DW_TAG_entry_point)
			continue;
		list[n].pc = pc;
		list[n].function = name_of(&outer[i]);
		n++;
		if (tag != DW_TAG_inlined_subroutine)
			break;
		place_of_call(cu, &outer[i], &list[n]);
	}
	native_put_place(&u->out, pc, list, n ? n : 1);
	free(scopes);
	free(outer);
	if (u->out.len >= FLUSH)
		flush(u);
}

static void put_places(struct unwind *u)
{
	size_t n = 0;
	for (size_t i = 0; i < u->room && n < PLACES_MAX && u->rc == 0; i++) {
		if (!u->pcs[i].used)
			continue;
		put_place(u, u->pcs[i].pc, u->pcs[i].pc - u->pcs[i].call);
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
	u.sp_reg = abi_sp(u.abi);
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
	if (lim->lines)
		put_places(&u);
	native_put_done(&u.out);
	flush(&u);
	return u.rc;
}
