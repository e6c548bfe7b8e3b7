/*
 * Walks over interpreters and thread states, and who holds the interpreter lock.  Finding and proving the runtime is
 * runtime.c's and prove.c's affair, frames are frame.c's.
 */
#include "python/py.h"

#include <stdlib.h>

#include "python/object.h"
#include "python/prove.h"
#include "python/runner.h"
#include "python/salvage.h"
#include "python/walk.h"

static int tid_order(const void *a, const void *b)
{
	const struct py_tid *x = a, *y = b;

	return x->tid < y->tid ? -1 : x->tid > y->tid;
}

static int at_order(const void *a, const void *b)
{
	const struct py_tid *x = a, *y = b;

	return x->at < y->at ? -1 : x->at > y->at ? 1 : tid_order(a, b);
}

void py_index_threads(struct py *py, struct arena *a)
{
	const struct thread *threads;
	size_t n = image_threads(py->img, &threads), n_tls = 0;
	struct py_tid *by_tid = arena_alloc(a, n * sizeof *by_tid + 1), *by_tls = arena_alloc(a, n * sizeof *by_tls + 1);

	for (size_t i = 0; i < n; i++) {
		by_tid[i] = (struct py_tid){ threads[i].regs.tls, threads[i].regs.tls, threads[i].tid };
		if (threads[i].regs.tls)
			by_tls[n_tls++] = by_tid[i];
	}
	struct py_tid *by_sp = arena_alloc(a, n * sizeof *by_sp + 1);
	for (size_t i = 0; i < n; i++)
		by_sp[i] = (struct py_tid){ threads[i].regs.sp, threads[i].regs.tls, threads[i].tid };
	qsort(by_sp, n, sizeof *by_sp, at_order);
	py->by_sp = by_sp;
	qsort(by_tid, n, sizeof *by_tid, tid_order);
	qsort(by_tls, n_tls, sizeof *by_tls, at_order);
	py->by_tid = by_tid;
	py->n_by_tid = n;
	py->by_tls = by_tls;
	py->n_by_tls = n_tls;
}

struct walk walk_start(const struct py *py, addr_t first, unsigned long limit)
{
	return (struct walk){ .py = py, .next = first, .limit = limit, .lap = 1 };
}

int walk_stop(struct walk *w, int rc)
{
	w->ended = true;
	return rc;
}

int walk_enter(struct walk *w)
{
	if (w->ended)
		return 0;
	if (w->failed)
		return walk_stop(w, w->failed);
	if (!w->next)
		return 0;
	if (w->next == w->mark)
		return walk_stop(w, ERR_CORRUPT);
	if (w->n >= w->limit)
		return walk_stop(w, ERR_LIMIT);
	return 1;
}

void walk_leave(struct walk *w, addr_t next)
{
	/* Brent: the mark rests while the walk goes lap entries on, then jumps to where the walk is and lap doubles. */
	w->n++;
	if (w->n == w->lap) {
		w->mark = w->next;
		w->lap *= 2;
	}
	w->next = next;
}

struct walk py_interps(const struct py *py)
{
	return walk_start(py, py->interp_head, PY_MAX_INTERPS);
}

struct walk py_threads(const struct py *py, const struct py_interp *in)
{
	addr_t first = py->salvaged ? salvage_thread(py, in->addr, 0) : 0;
	int rc = py->salvaged ? 0 : READ(py, in->addr, PyInterp, tstate_head, &first);
	struct walk w = walk_start(py, first, PY_MAX_THREADS);

	w.owner = in->addr;
	w.gil_holder = in->gil_holder;
	w.main = in->main;
	w.failed = rc < 0 ? rc : 0;
	return w;
}

/* Up to 3.11 the lock belongs to the process; from 3.12 on interpreters have their own or share the main one's. */
static void gil_state(const struct py *py, struct py_interp *in)
{
	addr_t gil, holder = 0;
	uint64_t locked, enabled;

	if (HAS(py, PyInterp, gil) && HAS(py, PyGil, locked)) {
		if (READ(py, in->addr, PyInterp, gil, &gil) < 0)
			return;
		if (READ(py, gil, PyGil, locked, &locked) < 0) {
			if (!gil || !py_is_lost(py, gil))
				in->gil_doubt = gil ? "its pointer to the lock leads nowhere" : "its pointer to the lock is null";
			return;
		}
		/* Free-threaded builds have the lock still, switched off unless asked for (3.13t: gil.enabled). */
		if (HAS(py, PyGil, enabled) && READ(py, gil, PyGil, enabled, &enabled) == 0 && !enabled) {
			in->gil_known = true;
			return;
		}
		if ((int32_t)locked > 0 && READ(py, gil, PyGil, last_holder, &holder) < 0)
			return;
	} else if (py->runtime && HAS(py, PyRuntime, gil_locked)) {
		if (READ(py, py->runtime, PyRuntime, gil_locked, &locked) < 0)
			return;
		/*
		 * gilstate.tstate_current is cleared before the lock is dropped and set after it is taken (Python/ceval_gil.h
		 * 3.8 - 3.11): in between, the lock's own last_holder tells.
		 */
		if (!(int32_t)locked && READ(py, py->runtime, PyRuntime, gil_tstate_current, &holder) == 0 && holder) {
			in->gil_doubt = "the lock is free, though a thread state is current";
			return;
		}
		if ((int32_t)locked > 0 && (READ(py, py->runtime, PyRuntime, gil_tstate_current, &holder) < 0 || !holder) &&
		    READ(py, py->runtime, PyRuntime, gil_last_holder, &holder) < 0)
			return;
	} else if (py->tstate_current && !HAS(py, PyRuntime, interp_head)) {
		/* Up to 3.6: 0 while nobody has the lock. */
		if (image_read_ptr(py->img, py->tstate_current, &holder) < 0)
			return;
		locked = holder != 0;
	} else {
		return;
	}
	in->gil_known = true;
	in->gil_locked = (int32_t)locked > 0; /* -1: not made yet */
	in->gil_holder = holder;
}

int py_next_interp(struct walk *w, struct py_interp *ret)
{
	const struct py *py = w->py;
	int rc = walk_enter(w);
	if (rc <= 0)
		return rc;
	struct py_interp in = { .addr = w->next, .id = -1 };
	addr_t next, main;
	uint64_t id;
	if (py->salvaged)
		next = salvage_interp_after(py, in.addr);
	else
		rc = READ(py, in.addr, PyInterp, next, &next);
	if (rc < 0)
		return walk_stop(w, rc);
	if (READ(py, in.addr, PyInterp, id, &id) == 0)
		in.id = (int64_t)id;
	/* interpreters.main; without the runtime the main one is the last of the list (head is the newest), with id 0. */
	if (py->runtime && READ(py, py->runtime, PyRuntime, interp_main, &main) == 0)
		in.main = main == in.addr;
	else
		in.main = in.id == 0 || (in.id == -1 && !next && !py->salvaged);
	gil_state(py, &in);
	walk_leave(w, next);
	*ret = in;
	return 1;
}

/* The thread of the image whose thread pointer is ident, where that is what pthread_t is (abi_tls_is_self). */
static pid_t tid_by_tls(const struct py *py, uint64_t ident)
{
	size_t lo = 0, hi = py->n_by_tls;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;
		if (py->by_tls[mid].at < ident)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo < py->n_by_tls && py->by_tls[lo].at == ident ? py->by_tls[lo].tid : 0;
}

const struct py_tid *thread_by_stack(const struct py *py, addr_t at)
{
	size_t lo = 0, hi = py->n_by_tid;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;
		if (py->by_sp[mid].at <= at)
			lo = mid + 1;
		else
			hi = mid;
	}
	if (!lo || !py->by_sp[lo - 1].at)
		return NULL;
	const struct segment *seg = image_segment_at(py->img, at);
	const struct py_tid *on = &py->by_sp[lo - 1];
	/* Where a thread's control block is at the top of its stack, what lies above is not its own (glibc nptl/allocatestack.c). */
	if (!seg || image_segment_at(py->img, on->at) != seg ||
	    (abi_tls_is_self(image_abi(py->img)) && on->tls > on->at && on->tls <= at && image_segment_at(py->img, on->tls) == seg))
		return NULL;
	return on;
}

const struct py_tid *thread_by_tid(const struct py *py, uint64_t tid)
{
	size_t lo = 0, hi = py->n_by_tid;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;
		if ((uint64_t)py->by_tid[mid].tid < tid)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo < py->n_by_tid && (uint64_t)py->by_tid[lo].tid == tid ? &py->by_tid[lo] : NULL;
}

static int number_order(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

void py_index_idents(struct py *py, struct arena *a)
{
	const struct abi *abi = image_abi(py->img);
	struct VEC(uint64_t) all = { 0 };

	if (abi_tls_is_self(abi) || HAS(py, PyThread, native_thread_id))
		return;
	struct walk interps = py_interps(py);
	struct py_interp in;
	struct py_thread t;
	while (py_next_interp(&interps, &in) == 1) {
		struct walk threads = py_threads(py, &in);
		while (all.n < PY_MAX_THREADS && py_next_thread(&threads, &t) == 1)
			*vec_push(&all) = t.ident;
	}
	if (all.n)
		qsort(all.p, all.n, sizeof *all.p, number_order);
	py->idents = arena_dup(a, all.p, all.n * sizeof *all.p);
	py->n_idents = all.n;
	vec_free(&all);
}

/* Words of glibc's struct pthread before the thread's number: a header and a list, where the thread pointer points behind it (nptl/descr.h). */
enum { PTHREAD_TID = 26 };

/*
 * Where pthread_t is not the thread pointer it is the address of struct pthread, in which glibc keeps the thread's number.  Else: a thread
 * that libpthread made has it at the top of its stack (glibc nptl/allocatestack.c, musl src/thread/pthread_create.c): of the states
 * above a stack pointer, the nearest.  The main thread has it elsewhere.
 */
static pid_t tid_by_self(const struct py *py, uint64_t ident, bool main)
{
	const struct abi *abi = image_abi(py->img);
	addr_t at;
	uint64_t tid;

	if (add_fits(ident, PTHREAD_TID * (uint64_t)abi->width, &at) && image_read_uint(py->img, at, 4, &tid) == 0 && tid && thread_by_tid(py, tid))
		return (pid_t)tid;
	if (main) {
		int64_t pid = image_facts(py->img)->pid;
		return pid > 0 && thread_by_tid(py, (uint64_t)pid) ? (pid_t)pid : 0;
	}
	const struct py_tid *on = thread_by_stack(py, ident);
	if (!on)
		return 0;
	size_t lo = 0, hi = py->n_idents;
	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;
		if (py->idents[mid] < ident)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo && py->idents[lo - 1] > on->at ? 0 : on->tid;
}

static int frame_link(const struct py *py, addr_t obj, enum py_field field, addr_t *ret)
{
	int rc = layout_read(py->img, &py->layout, obj, field, ret);

	/* Not captured: the walk over frames is to start there, and to say so. */
	if (rc == ERR_FAULT && obj && !add_fits(obj, (uint64_t)py->layout.offset[field], ret))
		*ret = obj;
	return rc == ERR_FAULT && obj ? 1 : rc;
}

/*
 * 3.13 keeps the frame in the thread, 3.11 and 3.12 behind a C frame (which lies on the C stack), earlier ones as an
 * object.  1: *ret is what could not be read.
 */
static int thread_frame(const struct py *py, addr_t thread, addr_t *ret)
{
	addr_t cframe;

	if (HAS(py, PyThread, current_frame))
		return frame_link(py, thread, F_PyThread_current_frame, ret);
	if (!HAS(py, PyThread, cframe) || !HAS(py, PyCFrame, current_frame)) /* 3.10's C frame does not know the frame yet */
		return frame_link(py, thread, F_PyThread_frame, ret);
	int rc = frame_link(py, thread, F_PyThread_cframe, &cframe);
	if (rc || !cframe) {
		if (rc >= 0)
			*ret = cframe;
		return rc;
	}
	return frame_link(py, cframe, F_PyCFrame_current_frame, ret);
}

int py_next_thread(struct walk *w, struct py_thread *ret)
{
	const struct py *py = w->py;
	int rc = walk_enter(w);
	if (rc <= 0)
		return rc;
	struct py_thread t = { .addr = w->next };
	addr_t next;
	rc = READ(py, t.addr, PyThread, interp, &t.interp);
	if (rc == 0 && t.interp != w->owner)
		rc = ERR_CORRUPT;
	if (rc == 0)
		rc = READ(py, t.addr, PyThread, next, &next);
	if (rc < 0)
		return walk_stop(w, rc);
	uint64_t native, holds;
	if (READ(py, t.addr, PyThread, thread_id, &t.ident) < 0)
		t.ident = 0;
	if (READ(py, t.addr, PyThread, id, &t.id) < 0)
		t.id = 0;
	if (thread_frame(py, t.addr, &t.frame) < 0)
		t.frame = 0;
	/* The thread pointer first: native_thread_id is the number in the innermost PID namespace, the image's need not be. */
	if (t.ident)
		t.tid = tid_by_tls(py, t.ident);
	bool has_native = READ(py, t.addr, PyThread, native_thread_id, &native) == 0 && native;
	if (!t.tid && has_native && thread_by_tid(py, native))
		t.tid = (pid_t)native;
	bool self = abi_tls_is_self(image_abi(py->img));
	if (!t.tid && !has_native && t.ident && py->n_idents)
		t.tid = tid_by_self(py, t.ident, !next && w->main && TRAIT(py, main_thread_last) == 1);
	/*
	 * The thread state of a subinterpreter keeps the ids of the thread that created it, whoever runs it (3.8.18, 3.10.13,
	 * 3.12.1 _xxsubinterpreters.run_string; 3.13 makes one for each thread).  Where the evaluation loop keeps a C frame, that
	 * lies on the stack of the thread that runs.
	 */
	addr_t cframe, root = 0;
	const struct py_tid *runs = NULL;
	(void)!READ(py, t.addr, PyThread, root_cframe, &root);
	if (READ(py, t.addr, PyThread, cframe, &cframe) == 0 && cframe && cframe != root)
		runs = thread_by_stack(py, cframe);
	if (runs && runs->tid != t.tid) {
		t.tid = runs->tid;
		if (runs->tls && self)
			t.ident = runs->tls;
	}
	/* It had a thread that is not here: told by what every thread of the image would have. */
	t.stale = !t.tid && (has_native ? py->n_by_tid : self && t.ident && py->n_by_tls);
	t.holds_gil = w->gil_holder && w->gil_holder == t.addr;
	if (t.holds_gil && READ(py, t.addr, PyThread, holds_gil, &holds) == 0 && !holds)
		t.holds_gil = false; /* 3.14: the thread has let go, the lock does not say so yet */
	if (py->salvaged)
		next = salvage_thread(py, w->owner, w->n + 1);
	walk_leave(w, next);
	*ret = t;
	return 1;
}

/*
 * The process's first thread, whose number is the process's, where it has a state that is the list's last (states are put at its head, and
 * the main thread's is made first).  A list that was cut ends at another thread's, and then nothing here tells.  Those that were salvaged
 * have no order.
 */
static int first_ident(const struct py *py, bool ordered, uint64_t *ret)
{
	const int64_t pid = image_facts(py->img)->pid;
	struct walk interps = py_interps(py);
	struct py_interp in;
	uint64_t first = 0;

	while (pid > 0 && py_next_interp(&interps, &in) == 1) {
		struct walk threads = py_threads(py, &in);
		struct py_thread t;
		while (in.main && py_next_thread(&threads, &t) == 1)
			first = t.tid == pid ? t.ident : t.stale || !ordered ? first : 0;
	}
	if (!first)
		return ERR_ABSENT;
	*ret = first;
	return 0;
}

struct by_ident { uint64_t ident; size_t i; };

static int ident_order(const void *a, const void *b)
{
	const struct by_ident *x = a, *y = b;

	return x->ident < y->ident ? -1 : x->ident > y->ident ? 1 : x->i < y->i ? -1 : x->i > y->i;
}

/*
 * Up to 3.11 a new state has the ids of the thread that makes it until its own thread has begun (Python/pystate.c, new_threadstate and
 * init_threadstate; Modules/_threadmodule.c, thread_run); from 3.12 on it has none until bind_tstate.  States are put at the
 * list's head, so of two with one id the maker's comes later.  Of subinterpreters the first state has its maker's ids too, but
 * there is none of that thread after it.
 */
void py_find_starting(const struct py *py, struct py_thread *threads, size_t n)
{
	CLEANUP(cleanup_free) struct by_ident *order = xcalloc(n + 1, sizeof *order);

	for (size_t i = 0; i < n; i++)
		order[i] = (struct by_ident){ threads[i].ident, i };
	qsort(order, n, sizeof *order, ident_order);
	for (size_t k = 0; k < n; k++) {
		struct py_thread *t = &threads[order[k].i];
		addr_t base = 0; /* 3.15: what all its frames will stand on */
		if (t->frame && (READ(py, t->addr, PyThread, base_frame, &base) < 0 || t->frame != base))
			continue;
		/* From 3.12 on one that has ids was bound: it is there for later. */
		if (t->ident ? HAS(py, PyInterp, gil) || k + 1 == n || order[k + 1].ident != t->ident : t->tid || t->stale)
			continue;
		t->starting = true;
		t->stale = t->holds_gil = false;
		t->tid = 0;
		t->ident = 0;
	}
}

uint64_t py_ident(const struct py *py, int64_t n)
{
	return py->layout.abi.width == 4 ? (uint32_t)n : (uint64_t)n;
}

/* Is there a thread, or a thread state, that has it? */
static bool ident_is_here(const struct py *py, uint64_t ident)
{
	struct walk interps = py_interps(py);
	struct py_interp in;

	if (tid_by_tls(py, ident))
		return true;
	while (py_next_interp(&interps, &in) == 1) {
		struct walk threads = py_threads(py, &in);
		struct py_thread t;
		while (py_next_thread(&threads, &t) == 1)
			if (t.ident == ident)
				return true;
	}
	return false;
}

/* The key of threading._active whose thread is of the class that threading's dictionary has by this name. */
static int of_class(const struct py *py, addr_t threading, const char *name, uint64_t *left, int64_t *ret)
{
	addr_t class, active, key, value;
	struct dict_walk w;
	struct object o;

	if (dict_get_within(py, threading, name, left, &class) < 0 || dict_get_within(py, threading, "_active", left, &active) < 0 || dict_begin(py, active, &w) < 0)
		return ERR_ABSENT;
	dict_most(&w, *left);
	*left -= w.n;
	for (unsigned n = 0; n < PY_MAX_THREADS && dict_next(&w, &key, &value) == 1; n++)
		if (object_at(py, value, &o) == 0 && o.type == class && object_at(py, key, &o) == 0 && object_int(&o, ret) == 0)
			return 0;
	return ERR_ABSENT;
}

/* What threading keeps of the thread that imported it: _main_thread, 2.7: the one of this class. */
static int main_of_threading(const struct py *py, uint64_t *ret)
{
	struct walk interps = py_interps(py);
	struct py_interp in;
	uint64_t left = PY_NAMES_LOOKED;

	while (py_next_interp(&interps, &in) == 1) {
		addr_t dict, thread, value;
		struct object o;
		int64_t n;
		if (!in.main || py_module_dict_within(py, in.addr, "threading", &left, &dict) < 0)
			continue;
		if (dict_get_within(py, dict, "_main_thread", &left, &thread) == 0) {
			if (object_at(py, thread, &o) < 0 || object_attr_within(&o, "_ident", &left, &value) < 0 || object_at(py, value, &o) < 0 || object_int(&o, &n) < 0)
				continue;
		} else if (of_class(py, dict, "_MainThread", &left, &n) < 0) {
			continue;
		}
		*ret = py_ident(py, n);
		return 0;
	}
	return ERR_ABSENT;
}

int py_main_ident(const struct py *py, uint64_t *ret)
{
	uint64_t ident, other;

	if (py->runtime && READ(py, py->runtime, PyRuntime, main_thread, &ident) == 0 && ident) {
		/* That of no thread: it has ended, or the word was damaged. */
		*ret = !ident_is_here(py, ident) && main_of_threading(py, &other) == 0 && ident_is_here(py, other) ? other : ident;
		return 0;
	}
	if (first_ident(py, !py->salvaged && TRAIT(py, main_thread_last) == 1, ret) == 0 || main_of_threading(py, ret) == 0)
		return 0;
	return ERR_ABSENT;
}
