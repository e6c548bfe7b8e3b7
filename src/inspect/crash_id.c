/* The two ids of a crash, as formats/crash_id.md defines them, and the module that it comes from. */
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "inspect/parts.h"

enum { FUNCTIONS = 64, NATIVE = 16, SCANNED = 100000 };

static struct str id_text(struct arena *a, const struct sb *b)
{
	unsigned long long h = XXH3_64bits(b->s, b->len);
	return str_printf(a, "%04llx-%04llx-%04llx-%04llx", h >> 48, h >> 32 & 0xffff, h >> 16 & 0xffff, h & 0xffff);
}

/* The base name of a module's path, without what tells its versions apart. */
static void module_line(struct sb *b, struct str path)
{
	static const char deleted[] = " (deleted)";
	struct str name = str_base(path);
	if (str_ends(name, deleted))
		name.len -= sizeof deleted - 1;
	const char *dot = name.len ? memchr(name.s, '.', name.len) : NULL;
	if (dot)
		name.len = (size_t)(dot - name.s);
	while (name.len && name.s[name.len - 1] >= '0' && name.s[name.len - 1] <= '9')
		name.len--;
	sb_str(b, path.len ? name : STR("?"));
	sb_char(b, '\n');
}

const struct report_frame *inward_next(struct inward *w)
{
	while (w->run && !w->k) {
		w->run--;
		w->k = w->t->runs[w->run].n;
	}
	if (!w->k || w->scanned++ >= SCANNED)
		return NULL;
	return w->t->runs[w->run].frames[--w->k];
}

struct inward inward_all(const struct report_thread *t)
{
	return (struct inward){ t, t->n_runs, 0, 0 };
}

/*
 * evaluated: from the Python frames on that the frame at pc evaluates.  interrupted: it is the frame below a signal frame; the handler's
 * own may stand at the same pc, where all system calls are made in one place (i386).
 */
static struct inward from_frame(const struct report_thread *t, addr_t pc, bool evaluated, bool interrupted)
{
	const struct inward all = inward_all(t);
	const struct report_frame *f;
	struct inward w = all, before = all, first = all;
	bool found = false, signal = false;
	while ((f = inward_next(&w))) {
		if (!f->python && f->pc == pc) {
			if (!interrupted || signal)
				return before;
			if (!found)
				first = before;
			found = true;
		}
		if (!f->python)
			signal = f->signal;
		if (!evaluated || !f->python)
			before = w;
	}
	return first;
}

struct inward inward_interrupted(const struct report_thread *t, addr_t pc)
{
	return from_frame(t, pc, false, true);
}

struct inward inward_from(const struct report_thread *t, addr_t pc)
{
	return from_frame(t, pc, false, t->handled);
}

struct inward inward_python_from(const struct report_thread *t, addr_t pc)
{
	return from_frame(t, pc, true, t->handled);
}

bool module_is_other(struct str base)
{
	return module_run_time(base) == RUN_TIME_NO;
}

struct str crash_culprit(const struct report_thread *t, addr_t pc, bool no_code, const struct report_frame *sure, bool *likely)
{
	const struct report_frame *f;
	*likely = false;
	for (struct inward w = inward_from(t, pc); (f = inward_next(&w)) && !f->python; no_code = false) {
		*likely |= f != sure && f->found_by && !strcmp(f->found_by, "scan");
		if (!f->signal && !(no_code && f->pc == pc) && f->module.len && module_is_other(str_base(f->module)))
			return f->module;
	}
	*likely = false;
	return (struct str){ 0 };
}

static bool has_problem(const struct report *r, enum problem id)
{
	for (size_t i = 0; i < r->problems.n; i++)
		if (r->problems.p[i].id == id)
			return true;
	return false;
}

/* Why not all Python functions of a thread are known, or may not be; NULL: they are. */
static const char *functions_lost(const struct report *r, const struct report_thread *t, addr_t pc)
{
	const struct report_frame *f;
	if (!t->has_python && (r->python.salvaged || has_problem(r, P_THREADS_BROKEN) || has_problem(r, P_THREADS_UNLISTED) || has_problem(r, P_INTERPS_BROKEN)))
		return "its thread state may be lost";
	if (!t->has_python && r->python.others)
		return "another Python of the process may have run on its thread";
	if (t->broken.s)
		return t->active ? "the older part of its Python stack is not known" : "its Python stack is not known";
	for (struct inward w = inward_python_from(t, pc); (f = inward_next(&w));)
		if (f->python && f->unread)
			return "the name of a function in its Python stack, or of its file, is not known";
	return NULL;
}

/* The file that code is of; the vdso has none, and is one piece of memory wherever the system put it.  len 0: neither. */
static struct str module_of(struct image *img, struct arena *a, addr_t pc)
{
	enum { AT_SYSINFO_EHDR = 33 };
	const struct mapping *m = image_mapping_at(img, pc);
	const struct segment *seg = image_segment_at(img, pc);
	uint64_t vdso;
	if (m && m->path.len)
		return str_from_bytes(a, m->path.p, m->path.len);
	return seg && image_auxv(img, AT_SYSINFO_EHDR, &vdso) == 0 && image_segment_at(img, vdso) == seg ? STR("[vdso]") : (struct str){ 0 };
}

void crash_ids(struct image *img, struct report *r, const struct report_thread *t, addr_t pc, enum crash_kind kind)
{
	static const char *const kinds[] = { [CRASH_UNTOLD] = "?", [CRASH_FAULT] = "fault", [CRASH_NULL] = "null", [CRASH_WILD] = "wild", [CRASH_SENT] = "sent" };
	const char *lost = functions_lost(r, t, pc);
	if (lost) {
		verdict_note(r, "id", str_printf(r->arena, "none is given: %s", lost));
		return;
	}
	CLEANUP(cleanup_sb) struct sb b = { 0 };
	sb_printf(&b, "pysnap-crash-3\n%s" STR_FMT "\n%s\n", r->verdict.ids_likely ? "likely\n" : "", STR_ARG(r->verdict.signal.name), kinds[kind]);
	module_line(&b, kind == CRASH_NULL || kind == CRASH_WILD ? (struct str){ 0 } : module_of(img, r->arena, pc));
	const struct report_frame *f, *seen[FUNCTIONS];
	size_t n = 0;
	for (struct inward w = inward_python_from(t, pc); n < FUNCTIONS && (f = inward_next(&w));) {
		size_t i = 0;
		if (!f->python)
			continue;
		while (i < n && !(str_eq(seen[i]->function, f->function) && str_eq(str_base(seen[i]->file), str_base(f->file))))
			i++;
		if (i < n)
			continue;
		seen[n++] = f;
		sb_str(&b, f->function);
		sb_char(&b, ' ');
		sb_str(&b, str_base(f->file));
		sb_char(&b, '\n');
	}
	r->verdict.group_id = id_text(r->arena, &b);

	struct str names[NATIVE];
	n = 0;
	module_line(&b, r->verdict.culprit);
	for (struct inward w = inward_from(t, pc); n < NATIVE && (f = inward_next(&w)) && !f->python;) {
		size_t i = 0;
		if (f->inlined) /* only known with lines */
			continue;
		if (f != r->verdict.caller && f->found_by && !strcmp(f->found_by, "scan")) {
			verdict_note(r, NOTE_DETAIL_ID, STR("none is given: a native function was only found by a search of the stack"));
			return;
		}
		struct str name = str_function(f->symbol.s ? f->symbol : f->function);
		if (!name.len) {
			verdict_note(r, NOTE_DETAIL_ID, f->module.len ? str_printf(r->arena, "none is given: a function of " STR_FMT " has no name", STR_ARG(str_base(f->module)))
				     : STR("none is given: a native function has no name"));
			return;
		}
		while (i < n && !str_eq(names[i], name))
			i++;
		if (i < n)
			continue;
		names[n++] = name;
		sb_str(&b, name);
		sb_char(&b, '\n');
	}
	if (n)
		r->verdict.detail_id = id_text(r->arena, &b);
}
