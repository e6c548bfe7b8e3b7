/* Where in its life the process was: forked by another, not begun or ending as a Python. */
#include "inspect/life.h"

#include <inttypes.h>

#include "inspect/generation.h"
#include "python/object.h"
#include "python/prove.h"

enum { AT_RANDOM = 25, NAME_MAX = 200 };

static void say(struct report *r, struct str text)
{
	verdict_note(r, "state", text);
}

/* ---- ending, or not begun */

/* The thread state that shuts the interpreter down. 3.12 on: the interpreter's own; up to 3.6 a variable of its own. */
static bool finalizing(struct target *t, addr_t interp, addr_t *ret)
{
	const struct py *py = t->py;
	addr_t at;
	*ret = 0;
	if (HAS(py, PyRuntime, finalizing) && READ(py, py->runtime, PyRuntime, finalizing, ret) == 0 && *ret)
		return true;
	if (interp && HAS(py, PyInterp, finalizing) && READ(py, interp, PyInterp, finalizing, ret) == 0 && *ret)
		return true;
	return !py->runtime && modules_symbol(t->mods, "_Py_Finalizing", &at, NULL, NULL) == 0 && image_read_ptr(t->img, at, ret) == 0 && *ret;
}

static void python_life(struct target *t, struct report *r, const struct report_thread *th)
{
	const struct py *py = t->py;
	addr_t interp = 0, state;
	uint64_t initialized;
	if (!py) {
		addr_t at;
		uint8_t byte;
		/* One is mapped, its variables (up to 3.6 the one) are there, and no interpreter is. */
		if (t->py_err.code == ERR_NOPYTHON && !image_facts(t->img)->truncated && t->py_seen[0] &&
		    (modules_symbol(t->mods, "_PyRuntime", &at, NULL, NULL) == 0 || modules_symbol(t->mods, "_PyThreadState_Current", &at, NULL, NULL) == 0) &&
		    image_read(t->img, at, &byte, 1) == 0)
			say(r, STR("Python had no interpreter: this was before Py_Initialize, or after Py_Finalize"));
		return;
	}
	if (!th->state || READ(py, th->state, PyThread, interp, &interp) < 0)
		interp = py->interp_head;
	if (finalizing(t, interp, &state)) {
		const struct report_thread *by = NULL;
		for (size_t i = 0; i < r->threads.n && !by; i++)
			if (r->threads.p[i].state == state)
				by = &r->threads.p[i];
		if (state == th->state)
			say(r, STR("Python was shutting down, which this thread did"));
		else if (by && by->name.s)
			say(r, str_printf(r->arena, "Python was shutting down, which thread \"" STR_FMT "\" did", STR_ARG(by->name)));
		else
			say(r, STR("Python was shutting down"));
	} else if (HAS(py, PyRuntime, initialized) && READ(py, py->runtime, PyRuntime, initialized, &initialized) == 0 && !initialized) {
		say(r, STR("Python was still starting: Py_Initialize had not returned"));
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

/* A child of multiprocessing that was forked, not spawned: it has the module that forked it.  Its name. */
static bool by_multiprocessing(const struct py *py, addr_t interp, struct arena *a, struct str *name, int64_t *parent)
{
	addr_t dict, at, unused;
	struct object o;
	/* 2.7 knows no other way than to fork, but the module is another one. */
	if ((py_module_dict(py, interp, "multiprocessing.popen_fork", &unused) < 0 && py_module_dict(py, interp, "multiprocessing.forking", &unused) < 0) ||
	    py_module_dict(py, interp, "multiprocessing.process", &dict) < 0 ||
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

static void forked(struct target *t, struct report *r)
{
	const struct image_facts *f = image_facts(t->img);
	const struct py *py = t->py;
	const struct thread *native, *main = NULL;
	size_t n = image_threads(t->img, &native);
	const int generation = fork_generation(t);
	struct str name = { 0 };
	int64_t parent;
	if (generation == 0) /* whatever looks like it: it was not */
		return;
	for (size_t i = 0; i < n && !main; i++)
		if (native[i].tid == f->pid)
			main = &native[i];
	if (py && by_multiprocessing(py, py->interp_head, r->arena, &name, &parent)) {
		say(r, name.len ? str_printf(r->arena, "in a child that multiprocessing forked (\"" STR_FMT "\") from pid %" PRId64, STR_ARG(name), parent)
			: str_printf(r->arena, "in a child that multiprocessing forked from pid %" PRId64, parent));
		return;
	}
	/* Python makes the thread that forked the main one.  The core's parent is that thread too, or who has adopted the child since
	 * (fill_psinfo of Linux 6.1, fs/binfmt_elf.c: the number of real_parent, which is a thread). */
	parent = py ? number_of_main_thread(py, py->interp_head) : -1;
	if (parent == f->pid || f->pid <= 0 || is_thread(native, n, parent))
		parent = -1;
	if (main && on_a_threads_stack(t->img, main)) {
		const int64_t by = parent > 0 ? parent : f->ppid;
		say(r, by > 1 ? str_printf(r->arena, "in a child that a thread other than the main one forked (thread %" PRId64 ")", by)
			: STR("in a child that a thread other than the main one forked"));
		return;
	}
	if (parent > 0) {
		say(r, str_printf(r->arena, "in a child that pid %" PRId64 " forked%s", parent, parent == f->ppid || generation == 1 ? "" : ", or that a child of it did"));
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
	forked(t, r);
}
