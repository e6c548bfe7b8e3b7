/* The two ids of a crash, as formats/crash_id.md defines them, and the module that it comes from. */
#define XXH_INLINE_ALL
#include <stdlib.h>

#include <xxhash.h>

#include "inspect/parts.h"

enum { FUNCTIONS = 64, NATIVE = 16, SCANNED = 100000, RECURSION = 16 /* times that a function is on a stack which overflowed */ };

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

/* Functions in the order of a stack, innermost first, each once. */
struct functions {
	struct one { struct str name, file; uint64_t times; } p[FUNCTIONS];
	size_t n, max;
	bool all;                 /* count on when it is full */
};

/* times: how often the piece of the stack that its frame is in stands there one after the other.  false: no more are wanted. */
static bool add_function(struct functions *list, struct str name, struct str file, uint64_t times)
{
	for (size_t i = 0; i < list->n; i++)
		if (str_eq(list->p[i].name, name) && str_eq(list->p[i].file, file)) {
			list->p[i].times += times;
			return true;
		}
	if (list->n < list->max)
		list->p[list->n++] = (struct one){ name, file, times };
	return list->all || list->n < list->max;
}

static int function_order(const void *a, const void *b)
{
	const struct one *x = a, *y = b;
	const int order = str_cmp(x->name, y->name);
	return order ? order : str_cmp(x->file, y->file);
}

/*
 * Where in a recursion a stack ends is chance: so what was called last goes, and of those that called each other again and again the order.
 * Is there a recursion?
 */
static bool forget_depth(struct functions *list)
{
	const struct functions of = *list;
	size_t first = 0;
	while (first < of.n && of.p[first].times < RECURSION)
		first++;
	if (first == of.n)
		return false;
	list->n = 0;
	for (size_t i = first; i < of.n; i++)
		if (of.p[i].times >= RECURSION)
			list->p[list->n++] = of.p[i];
	qsort(list->p, list->n, sizeof *list->p, function_order);
	for (size_t i = first; i < of.n; i++)
		if (of.p[i].times < RECURSION)
			list->p[list->n++] = of.p[i];
	return true;
}

static void no_detail(struct report *r, struct str why)
{
	verdict_note(r, NOTE_DETAIL_ID, str_printf(r->arena, "none is given: " STR_FMT, STR_ARG(why)));
}

/* The native functions of detail_id; false: there is none, which is said. */
static bool native_functions(struct report *r, const struct report_thread *t, addr_t pc, struct functions *ret)
{
	const struct report_frame *f;
	bool more = true;
	for (struct inward w = inward_from(t, pc); more && (f = inward_next(&w)) && !f->python;) {
		if (f->inlined) /* only known with lines */
			continue;
		if (f != r->verdict.caller && f->found_by && !strcmp(f->found_by, "scan")) {
			no_detail(r, STR("a native function was only found by a search of the stack"));
			return false;
		}
		const struct str name = str_function(f->symbol.s ? f->symbol : f->function);
		if (!name.len) {
			no_detail(r, f->module.len ? str_printf(r->arena, "a function of " STR_FMT " has no name", STR_ARG(str_base(f->module))) : STR("a native function has no name"));
			return false;
		}
		more = add_function(ret, name, (struct str){ 0 }, t->runs[w.run].repeat);
	}
	if (ret->all && ret->n && !forget_depth(ret)) {
		no_detail(r, STR("no C function called itself, so those at the stack's end are there by chance"));
		return false;
	}
	return ret->n;
}

void crash_ids(struct image *img, struct report *r, const struct report_thread *t, addr_t pc, enum crash_kind kind)
{
	static const char *const kinds[] = { [CRASH_UNTOLD] = "?", [CRASH_FAULT] = "fault", [CRASH_NULL] = "null", [CRASH_WILD] = "wild", [CRASH_SENT] = "sent",
		[CRASH_OVERFLOW] = "overflow" };
	const char *lost = functions_lost(r, t, pc);
	if (lost) {
		verdict_note(r, "id", str_printf(r->arena, "none is given: %s", lost));
		return;
	}
	const bool overflow = kind == CRASH_OVERFLOW, placed = !overflow && kind != CRASH_NULL && kind != CRASH_WILD;
	CLEANUP(cleanup_sb) struct sb b = { 0 };
	sb_printf(&b, "pysnap-crash-4\n%s" STR_FMT "\n%s\n", r->verdict.ids_likely ? "likely\n" : "", STR_ARG(r->verdict.signal.name), kinds[kind]);
	module_line(&b, placed ? module_of(img, r->arena, pc) : (struct str){ 0 });
	const struct report_frame *f;
	struct functions list = { .max = FUNCTIONS, .all = overflow };
	bool more = true;
	for (struct inward w = inward_python_from(t, pc); more && (f = inward_next(&w));)
		if (f->python)
			more = add_function(&list, f->function, str_base(f->file), t->runs[w.run].repeat);
	const bool recursion = overflow && forget_depth(&list);
	for (size_t i = 0; i < list.n; i++) {
		sb_str(&b, list.p[i].name);
		sb_char(&b, ' ');
		sb_str(&b, list.p[i].file);
		sb_char(&b, '\n');
	}
	r->verdict.group_id = id_text(r->arena, &b);

	if (recursion) {
		no_detail(r, STR("Python functions called each other until the stack was full, and which C function came last is chance"));
		return;
	}
	module_line(&b, r->verdict.culprit);
	list = (struct functions){ .max = NATIVE, .all = overflow };
	if (!native_functions(r, t, pc, &list))
		return;
	for (size_t i = 0; i < list.n; i++) {
		sb_str(&b, list.p[i].name);
		sb_char(&b, '\n');
	}
	r->verdict.detail_id = id_text(r->arena, &b);
}
