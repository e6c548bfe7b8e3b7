/*
 * Thread states that an interpreter's list should lead to and does not: a link of it is broken, though each of them is whole.  They are
 * reached by what else points to thread states: the links back, the main thread's pointer, the lock's holder, its thread's pointer.
 */
#include <stdlib.h>

#include "python/py.h"
#include "python/search.h"
#include "python/walk.h"

enum { SEEDS = 12, MISFITS = 8, HITS = 100000 };

struct unlisted {
	const struct py *py;
	const struct py_interp *in;
	const addr_t *listed;     /* sorted */
	size_t n_listed;
	addr_t first[SEEDS];      /* of each piece of list that was found */
	size_t n_first;
	struct VEC(addr_t) found; /* all of those pieces */
	addr_t at;                /* what a search found */
};

static int addr_order(const void *a, const void *b)
{
	addr_t x = *(const addr_t *)a, y = *(const addr_t *)b;

	return x < y ? -1 : x > y;
}

static bool is_new(const struct unlisted *u, addr_t at)
{
	if (u->n_listed && bsearch(&at, u->listed, u->n_listed, sizeof at, addr_order))
		return false;
	for (size_t i = 0; i < u->n_first; i++)
		if (u->first[i] == at)
			return false;
	return true;
}

/* Does a state lie here, of this interpreter, that was not seen? */
static bool is_state(const struct unlisted *u, addr_t at)
{
	addr_t interp;

	return at && at % image_abi(u->py->img)->width == 0 && READ(u->py, at, PyThread, interp, &interp) == 0 && interp == u->in->addr && is_new(u, at);
}

/* Does it run Python?  One that was deleted a moment ago has no frames any more. */
static bool has_frames(const struct py *py, addr_t first)
{
	struct walk w = py_frames(py, first);
	struct py_frame f;

	while (w.n < 1000 && py_next_frame(&w, &f) == 1)
		if (!f.shim)
			return true;
	return false;
}

/* The piece of list around a state: back to its first one, then on to the end or to what is known. */
static size_t take_piece(struct unlisted *u, addr_t at, void (*got)(void *arg, const struct py_thread *t), void *arg)
{
	const struct py *py = u->py;
	struct walk back = walk_start(py, at, PY_MAX_THREADS);
	addr_t prev, next;
	size_t n = 0;

	if (u->n_first == SEEDS || !is_state(u, at))
		return 0;
	for (size_t i = 0; i < u->found.n; i++)
		if (u->found.p[i] == at)
			return 0;
	while (walk_enter(&back) == 1) {
		at = back.next;
		if (READ(py, at, PyThread, prev, &prev) < 0 || !is_state(u, prev) || READ(py, prev, PyThread, next, &next) < 0 || next != at)
			break;
		walk_leave(&back, prev);
	}
	/* All of it only if one of them runs Python. */
	for (int pass = 0; pass < 2; pass++) {
		struct walk w = py_threads(py, u->in);
		struct py_thread t;
		bool any = false;
		w.next = at;
		w.failed = 0;
		while (is_new(u, w.next) && py_next_thread(&w, &t) == 1) {
			any |= !pass && has_frames(py, t.frame);
			if (pass) {
				*vec_push(&u->found) = t.addr;
				got(arg, &t);
			}
			n += (size_t)pass;
		}
		if (!pass && !any)
			return 0;
	}
	u->first[u->n_first++] = at;
	return n;
}

static int found_ident(void *arg, addr_t at, uint64_t word)
{
	struct unlisted *u = arg;
	const int32_t offset = u->py->layout.offset[F_PyThread_thread_id];

	(void)word;
	if (offset < 0 || at < (addr_t)offset || !is_state(u, at - (addr_t)offset))
		return 0;
	u->at = at - (addr_t)offset;
	return 1;
}

/* Mostly the process's first thread is Python's main one: then nothing further has to be read. */
static bool first_is_listed(const struct py *py, const struct py_thread *listed, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (listed[i].tid && listed[i].tid == image_facts(py->img)->pid)
			return true;
	return false;
}

size_t py_unlisted(const struct py *py, const struct py_interp *in, const struct py_thread *listed, size_t n, bool *misfit,
		   void (*got)(void *arg, const struct py_thread *t), void *arg)
{
	CLEANUP(cleanup_free) addr_t *sorted = xcalloc(n + 1, sizeof *sorted);
	struct unlisted u = { .py = py, .in = in, .listed = sorted, .n_listed = n };
	size_t found = 0, misfits = 0;
	uint64_t main_ident;
	addr_t at;

	*misfit = false;
	if (py->salvaged)
		return 0;
	for (size_t i = 0; i < n; i++)
		sorted[i] = listed[i].addr;
	qsort(sorted, n, sizeof *sorted, addr_order);
	for (size_t i = 0; i < n && misfits < MISFITS; i++) {
		if (READ(py, listed[i].addr, PyThread, prev, &at) < 0 || at == (i ? listed[i - 1].addr : 0))
			continue;
		misfits++;
		found += take_piece(&u, at, got, arg);
	}
	*misfit = misfits > 0;
	if (READ(py, in->addr, PyInterp, threads_main, &at) == 0)
		found += take_piece(&u, at, got, arg);
	if (in->gil_locked)
		found += take_piece(&u, in->gil_holder, got, arg);
	/* The main thread's state is there as long as its interpreter: where the thread is and the state is not, it is looked for. */
	if (!in->main || found || first_is_listed(py, listed, n) || py_main_ident(py, &main_ident) < 0 || !main_ident)
		goto out;
	bool here = false, has = false;
	for (size_t i = 0; i < n; i++)
		has |= listed[i].ident == main_ident;
	for (size_t i = 0; i < py->n_by_tls; i++)
		here |= py->by_tls[i].at == main_ident;
	if (has || !here)
		goto out;
	struct search_set *set = search_set_new(&main_ident, 1);
	int rc = search_words(py->img, set, SEARCH_ELF, HITS, found_ident, &u);
	if (rc == 0)
		rc = search_words(py->img, set, SEARCH_REST, HITS, found_ident, &u);
	search_set_free(set);
	if (rc == 1)
		found += take_piece(&u, u.at, got, arg);
out:
	vec_free(&u.found);
	return found;
}
