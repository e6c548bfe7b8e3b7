/* Where in its life the process was: forked by another, not begun or ending as a Python. */
#include "inspect/life.h"

#include <inttypes.h>

#include "inspect/generation.h"
#include "inspect/given.h"
#include "python/object.h"
#include "python/prove.h"

enum { AT_RANDOM = 25, NAME_MAX = 200, OLDEST = 24 };

static void say(struct report *r, struct str text)
{
	verdict_note(r, "state", text);
}

/* ---- ending, or not begun */

/* The thread state that takes the interpreter apart. 3.12 on: the interpreter's own; up to 3.6 a variable of its own.  known: whether it is told. */
static bool finalizing(struct target *t, addr_t interp, addr_t *ret, bool *known)
{
	const struct py *py = t->py;
	addr_t at;
	*ret = 0;
	*known = (HAS(py, PyRuntime, finalizing) && READ(py, py->runtime, PyRuntime, finalizing, ret) == 0) ||
		 (!py->runtime && modules_symbol(t->mods, "_Py_Finalizing", &at, NULL, NULL) == 0 && image_read_ptr(t->img, at, ret) == 0);
	if (!*ret && interp && HAS(py, PyInterp, finalizing) && READ(py, interp, PyInterp, finalizing, ret) == 0)
		*known = true;
	return *ret;
}

/* Is a function of one of these names among the oldest frames of a thread's native stack?  What the compiler added to a name does not count. */
static bool on_stack(struct target *t, const struct report_thread *th, const char *const *names)
{
	const struct native_view v = native_view_of(t, th, 0);
	for (size_t i = v.n > OLDEST ? v.n - OLDEST : 0; i < v.n; i++) {
		const struct str name = str_function(native_view_function(&v, i, NULL));
		for (const char *const *n = names; name.len && *n; n++)
			if (str_is(name, *n))
				return true;
	}
	return false;
}

static const char *const finalizers[] = { "Py_Finalize", "Py_FinalizeEx", "_Py_Finalize", NULL };
static const char *const initializers[] = { "Py_Initialize", "Py_InitializeEx", "Py_InitializeFromConfig", "_Py_InitializeFromConfig", "pymain_init", NULL };

static const struct report_thread *main_thread(const struct report *r)
{
	for (size_t i = 0; i < r->threads.n; i++)
		if (r->threads.p[i].main && !r->threads.p[i].stale)
			return &r->threads.p[i];
	return NULL;
}

static const struct report_frame *oldest_python(const struct report_thread *th)
{
	for (size_t i = 0; i < th->n_runs; i++)
		for (size_t k = 0; k < th->runs[i].n; k++)
			if (th->runs[i].frames[k]->python)
				return th->runs[i].frames[k];
	return NULL;
}

static void shutting_down(struct report *r, const struct report_thread *th, const struct report_thread *by, const char *how)
{
	if (by == th)
		say(r, str_printf(r->arena, "Python was shutting down, which this thread did%s", how));
	else if (by && by->name.s)
		say(r, str_printf(r->arena, "Python was shutting down, which thread \"" STR_FMT "\" did%s", STR_ARG(str_quotable(r->arena, by->name)), how));
	else if (by && by->tid >= 0)
		say(r, str_printf(r->arena, "Python was shutting down, which thread %" PRId64 " did%s", by->tid, how));
	else
		say(r, str_printf(r->arena, "Python was shutting down%s", how));
}

/*
 * Before anything is taken apart, threading._shutdown (2.7: threading._MainThread._exitfunc) waits for the threads that are no daemons,
 * then atexit's functions run, by Python code of its own in 2.7 (Python/pylifecycle.c: Py_FinalizeEx; 2.7 Python/pythonrun.c: Py_Finalize).
 * Nothing else calls these from C.
 */
enum leaving { LEAVING_NOT, LEAVING_WAITS, LEAVING_HANDLERS };
static enum leaving leaving(const struct report_frame *oldest)
{
	const struct str file = oldest && oldest->file.s ? str_base(oldest->file) : STR("");
	if (str_is(file, "threading.py") && (str_is(oldest->function, "_shutdown") || str_is(oldest->function, "_exitfunc")))
		return LEAVING_WAITS;
	return str_is(file, "atexit.py") && str_is(oldest->function, "_run_exitfuncs") ? LEAVING_HANDLERS : LEAVING_NOT;
}

static void before_teardown(struct report *r, const struct report_thread *th, const struct report_thread *by, bool whole)
{
	const struct report_frame *f = by ? oldest_python(by) : NULL;
	const enum leaving how = leaving(f);
	if (how == LEAVING_WAITS)
		say(r, STR("the main program had ended; Python waited for threads that are no daemons"));
	else
		shutting_down(r, th, by, (f && whole) || how == LEAVING_HANDLERS ? ": it ran an exit handler" : "");
}

static void python_life(struct target *t, struct report *r, const struct report_thread *th)
{
	const struct py *py = t->py;
	const struct report_thread *main = main_thread(r), *by = on_stack(t, th, finalizers) ? th : main && on_stack(t, main, finalizers) ? main : NULL;
	if (!by && main && leaving(oldest_python(main)) != LEAVING_NOT)
		by = main;
	addr_t interp = 0, state;
	uint64_t initialized, now = 0;
	bool told;
	if (!py) {
		addr_t at;
		uint64_t size;
		size_t from = 0;
		uint8_t byte;
		if (by)
			shutting_down(r, th, by, "");
		else if (on_stack(t, th, initializers))
			say(r, STR("Python was still starting, which this thread did"));
		/* One is mapped, its variables (up to 3.6 the one) are there, and no interpreter is; where an option named a place, that is not known. */
		else if (!t->py_named && t->py_err.code == ERR_NOPYTHON && !image_facts(t->img)->truncated &&
			 (modules_symbol(t->mods, "_PyRuntime", &at, NULL, NULL) == 0 || modules_symbol(t->mods, "_PyThreadState_Current", &at, NULL, NULL) == 0 ||
			  modules_section_next(t->mods, ".PyRuntime", &from, &at, &size) == 0) &&
			 image_read(t->img, at, &byte, 1) == 0)
			say(r, STR("Python had no interpreter: this was before Py_Initialize, or after Py_Finalize"));
		return;
	}
	if (!th->state || READ(py, th->state, PyThread, interp, &interp) < 0)
		interp = py->interp_head;
	if (finalizing(t, interp, &state, &told)) {
		by = NULL;
		for (size_t i = 0; i < r->threads.n && !by; i++)
			if (r->threads.p[i].state == state)
				by = &r->threads.p[i];
		shutting_down(r, th, by, "");
	} else if (by) {
		before_teardown(r, th, by, told);
	} else if (HAS(py, PyInterp, shutting_down) && READ(py, interp, PyInterp, shutting_down, &now) == 0 && now == 1) {
		before_teardown(r, th, th->interpreter > 0 ? NULL : main, told); /* another interpreter than the main one: whoever ends it */
	} else if (HAS(py, PyRuntime, initialized) && READ(py, py->runtime, PyRuntime, initialized, &initialized) == 0 && !initialized) {
		say(r, STR("Python was still starting: Py_Initialize had not returned"));
	} else if (!HAS(py, PyRuntime, initialized) && on_stack(t, th, initializers)) {
		say(r, STR("Python was still starting, which this thread did"));
	}
}

/* ---- forked */

/*
 * The main thread of a process that was executed has the stack that the kernel made, and what AT_RANDOM points to lies on it.
 * A fork from another thread leaves the child's only thread on that one's stack, where glibc keeps its thread pointer too.
 */
static bool on_a_threads_stack(struct image *img, const struct thread *main)
{
	uint64_t random;
	const struct segment *first, *own;
	if (image_auxv(img, AT_RANDOM, &random) < 0 || !main->regs.sp || !main->regs.tls)
		return false;
	first = image_segment_at(img, random);
	own = image_segment_at(img, main->regs.sp);
	return first && own && first != own && main->regs.tls >= own->start && main->regs.tls - own->start < own->size;
}

static int attribute(const struct py *py, addr_t object, const char *name, struct object *ret)
{
	struct object o;
	addr_t at;
	int rc = object_at(py, object, &o);
	if (rc == 0)
		rc = object_attr(&o, name, &at);
	return rc < 0 ? rc : object_at(py, at, ret);
}

/* threading's main thread keeps the number that it had: os.fork renews it in later releases of 3.13 (3.13.5) and from 3.14 on, multiprocessing always did. */
static int64_t number_of_main_thread(const struct py *py, addr_t interp)
{
	addr_t dict, at;
	struct object number;
	int64_t n;
	if (py_module_dict(py, interp, "threading", &dict) < 0 || dict_get(py, dict, "_main_thread", &at) < 0 ||
	    attribute(py, at, "_native_id", &number) < 0 || number.kind != O_INT || object_int(&number, &n) < 0 || n <= 0)
		return -1;
	return n;
}

/*
 * Was the process forked by multiprocessing's own fork?  Its main thread's stack begins with the parent's, up to popen_fork's _launch (2.7:
 * forking.py's __init__), which calls Process._bootstrap; a spawned one's begins with spawn.py, and one of the fork server's too, which
 * also call that.  A child that such a child forks has the same stack.
 */
static bool launched(const struct report *r, int64_t pid)
{
	for (size_t i = 0; i < r->threads.n; i++) {
		const struct report_thread *th = &r->threads.p[i];
		const struct report_frame *before = NULL;
		for (size_t k = 0; k < th->n_runs && th->tid == pid && !th->stale; k++)
			for (size_t n = 0; n < th->runs[k].n; n++) {
				const struct report_frame *f = th->runs[k].frames[n];
				if (!f->python)
					continue;
				if (before && str_is(f->function, "_bootstrap") && f->file.s && str_is(str_base(f->file), "process.py") && before->file.s)
					return (str_is(before->function, "_launch") && str_is(str_base(before->file), "popen_fork.py")) ||
					       (str_is(before->function, "__init__") && str_is(str_base(before->file), "forking.py"));
				before = f;
			}
	}
	return false;
}

/* What multiprocessing calls the process, and who made it. */
static bool by_multiprocessing(const struct py *py, addr_t interp, struct arena *a, struct str *name, int64_t *parent)
{
	addr_t dict, at;
	struct object o;
	if (py_module_dict(py, interp, "multiprocessing.process", &dict) < 0 ||
	    dict_get(py, dict, "_current_process", &at) < 0 || attribute(py, at, "_parent_pid", &o) < 0 || o.kind != O_INT || object_int(&o, parent) < 0)
		return false;
	struct blob old;
	*name = (struct str){ 0 };
	if (attribute(py, at, "_name", &o) < 0)
		;
	else if (o.kind == O_BYTES && object_bytes(&o, a, NAME_MAX, &old, NULL) == 0)
		*name = str_from_bytes(a, old.p, old.len);
	else if (o.kind == O_STR && object_text(&o, a, NAME_MAX, name, NULL) < 0)
		*name = (struct str){ 0 };
	return *parent > 0;
}

/* Is threading's main thread this one?  Where C code forked, it is one of the parent's. */
static bool is_this(const struct py *py, addr_t interp, const struct thread *main)
{
	addr_t dict, at;
	struct object ident;
	int64_t n;
	return py_module_dict(py, interp, "threading", &dict) == 0 && dict_get(py, dict, "_main_thread", &at) == 0 && attribute(py, at, "_ident", &ident) == 0 &&
	       ident.kind == O_INT && object_int(&ident, &n) == 0 && main->regs.tls && (addr_t)n == main->regs.tls;
}

static bool is_thread(const struct thread *native, size_t n, int64_t tid)
{
	for (size_t i = 0; i < n; i++)
		if (native[i].tid == tid)
			return true;
	return false;
}

/* Who forked it is not known, only who its parent was when the file was written: who adopted it, if that one has ended. */
static struct str parent_words(struct arena *a, const struct image_facts *f, int generation)
{
	struct str depth = generation == 1 ? STR("no exec since") : str_printf(a, "%d forks since its program was executed", generation);
	return f->ppid > 0 ? str_printf(a, "in a child that was forked (" STR_FMT "); its parent was pid %" PRId64, STR_ARG(depth), f->ppid)
		: str_printf(a, "in a child that was forked (" STR_FMT ")", STR_ARG(depth));
}

/*
 * fork() did not make it, but its only thread is known to Python by the parent's number: vfork and clone run none of Python's hooks.
 * threading's main thread has one; a thread state has that of the thread that called (3.11 on).
 */
static void made_otherwise(struct target *t, struct report *r, const struct report_thread *th)
{
	const struct image_facts *f = image_facts(t->img);
	const struct thread *native;
	uint64_t own = 0;
	if (!t->py || f->ppid <= 0 || f->pid <= 0 || (f->ns_pid > 0 ? f->ns_pid != f->pid : f->kind == IMAGE_SNAPSHOT) ||
	    image_threads(t->img, &native) != 1 || native[0].tid == f->ppid)
		return;
	const int64_t number = number_of_main_thread(t->py, t->py->interp_head);
	if (number == f->ppid)
		say(r, str_printf(r->arena, "likely in a child that pid %" PRId64 " made by vfork or clone", f->ppid));
	else if (th->state && HAS(t->py, PyThread, native_thread_id) && READ(t->py, th->state, PyThread, native_thread_id, &own) == 0 && own == (uint64_t)f->ppid)
		say(r, str_printf(r->arena, "likely in a child that %s %" PRId64 " made by vfork or clone", number > 0 ? "thread" : "pid", f->ppid));
}

void life_forked(struct target *t, struct report *r, const struct report_thread *th, int generation)
{
	const struct image_facts *f = image_facts(t->img);
	const struct py *py = t->py;
	const struct thread *native, *main = NULL;
	size_t n = image_threads(t->img, &native);
	struct str name = { 0 };
	int64_t parent;
	const bool inner = f->ns_pid > 0 && f->ns_pid != f->pid;
	const char *where = inner ? " (in its pid namespace)" : "";
	for (size_t i = 0; i < n && !main; i++)
		if (native[i].tid == f->pid)
			main = &native[i];
	if (generation == 0) { /* whatever looks like it: it was not */
		made_otherwise(t, r, th);
		return;
	}
	const int64_t number = py ? number_of_main_thread(py, py->interp_head) : -1;
	const bool own = number > 0 && (number == f->pid || number == f->ns_pid);
	/* It is the one that multiprocessing forked, and none that this has forked: by its one fork, its parent, or what _bootstrap noted. */
	if (py && launched(r, f->pid) && by_multiprocessing(py, py->interp_head, r->arena, &name, &parent) && (number < 0 || own) &&
	    (generation == 1 || (!inner && parent == f->ppid))) {
		say(r, name.len ? str_printf(r->arena, "in a child that multiprocessing forked (\"" STR_FMT "\") from pid %" PRId64 "%s", STR_ARG(str_quotable(r->arena, name)), parent, where)
			: str_printf(r->arena, "in a child that multiprocessing forked from pid %" PRId64 "%s", parent, where));
		return;
	}
	/*
	 * Python makes the thread that forked the main one, which keeps the number that it had (above).  The core's or the snapshot's parent
	 * says nothing of that thread: it may be another one, since the one that forked has ended (fill_psinfo of Linux 6.1,
	 * fs/binfmt_elf.c: the number of real_parent, which is a thread), its process, or who has adopted the child.
	 */
	parent = own || number == f->pid || f->pid <= 0 || is_thread(native, n, number) ? -1 : number;
	if (parent > 0 && f->kind == IMAGE_SNAPSHOT && !f->ns_pid && generation < 0 && parent != f->ppid)
		parent = -1; /* it may be its own number in a namespace of its own */
	if (main && on_a_threads_stack(t->img, main)) {
		say(r, parent > 0 && is_this(py, py->interp_head, main) ? str_printf(r->arena, "in a child that a thread other than the main one forked (thread %" PRId64 "%s)", parent, inner ? " in its pid namespace" : "")
			: STR("in a child that a thread other than the main one forked"));
		return;
	}
	if (f->parent.same_exec) {
		say(r, f->parent.comm.len ? str_printf(r->arena, "in a child that pid %" PRId64 " (\"" STR_FMT "\") forked", f->parent.pid, STR_ARG(str_quotable(r->arena, f->parent.comm)))
			: str_printf(r->arena, "in a child that pid %" PRId64 " forked", f->parent.pid));
		return;
	}
	if (parent > 0) {
		say(r, str_printf(r->arena, "in a child that pid %" PRId64 "%s forked%s", parent, where, (!inner && parent == f->ppid) || generation == 1 ? "" : ", or that a child of it did"));
		return;
	}
	if (generation > 0) {
		say(r, parent_words(r->arena, f, generation));
		return;
	}
	/* fork() in C without PyOS_AfterFork_Child: thread states name threads that only the parent has. */
	size_t stale = 0;
	for (size_t i = 0; i < r->threads.n; i++)
		stale += r->threads.p[i].stale;
	if (n == 1 && stale)
		say(r, str_printf(r->arena, "likely in a child that C code forked without telling Python: of %zu of its threads only the state is there", stale));
}

void life_notes(struct target *t, struct report *r, const struct report_thread *th)
{
	python_life(t, r, th);
	life_forked(t, r, th, fork_generation(t));
}
