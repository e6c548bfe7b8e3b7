/* The threads of a report among each other: in which order they stand, and who has another's name. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <uthash.h>

#include "inspect/parts.h"

enum { KERNEL_NAME = 15 }; /* bytes of it: TASK_COMM_LEN - 1 */

static struct str kernel_name(struct str s)
{
	return s.len > KERNEL_NAME ? (struct str){ s.s, KERNEL_NAME } : s;
}

/* From 3.14 on threading tells the kernel its names (Lib/threading.py: Thread._set_os_name), and a new thread begins with its maker's. */
void threads_inherited_names(struct report *r)
{
	struct own { struct str name; UT_hash_handle hh; } *own = NULL, *e;
	for (size_t i = 0; i < r->threads.n; i++) {
		const struct report_thread *t = &r->threads.p[i];
		const struct str name = kernel_name(t->name);
		if (!name.len || t->name_from_kernel)
			continue;
		HASH_FIND(hh, own, name.s, name.len, e);
		if (e)
			continue;
		e = arena_alloc(r->arena, sizeof *e);
		e->name = name;
		HASH_ADD_KEYPTR(hh, own, e->name.s, e->name.len, e);
	}
	for (size_t i = 0; i < r->threads.n; i++) {
		struct report_thread *t = &r->threads.p[i];
		if (!t->name.len || !t->name_from_kernel)
			continue;
		HASH_FIND(hh, own, t->name.s, t->name.len, e);
		t->name_inherited = e != NULL;
	}
	HASH_CLEAR(hh, own);
}

/*
 * Of a process in which nothing crashed the thread that matters: the one that kept others from running Python, else one that ran it.  The
 * lock's holder says nothing where it evaluates nothing: it may be about to let go.  SIZE_MAX: neither is there.
 */
static size_t busy(const struct report *r)
{
	size_t ran = SIZE_MAX;
	for (size_t i = 0; i < r->threads.n; i++) {
		const struct report_thread *t = &r->threads.p[i];
		if (!t->active || t->stale || t->starting)
			continue;
		if (t->holds_gil)
			return i;
		if (t->on_cpu && !t->stopped && (ran == SIZE_MAX || (t->main && !r->threads.p[ran].main)))
			ran = i;
	}
	return ran;
}

/* The thread that the signal came to, the main one, those with Python frames; a thread state whose thread is gone is to blame for nothing. */
static int rank(const struct report_thread *t)
{
	if (t->crashed || t->signalled) /* most often both */
		return (t->crashed ? 0 : 2) + (t->holds_gil ? 0 : 1); /* it may have a thread state in each of several interpreters */
	if (!t->has_python)
		return t->main ? 8 : 9;
	return t->stale || t->starting ? 7 : t->main ? 4 : t->active ? 5 : 6;
}

struct ranked { int rank; int64_t tid; size_t i; };

static int ranked_order(const void *a, const void *b)
{
	const struct ranked *x = a, *y = b;

	if (x->rank != y->rank)
		return x->rank < y->rank ? -1 : 1;
	if (x->tid != y->tid)
		return x->tid < y->tid ? -1 : 1;
	return x->i < y->i ? -1 : x->i > y->i;
}

/* In the order of Python's lists; those that it does not know by number, since the image has them in one of its own. */
void threads_sort(struct report *r, bool one_meant)
{
	const size_t n = r->threads.n, first = one_meant ? SIZE_MAX : busy(r);
	CLEANUP(cleanup_free) struct report_thread *sorted = xcalloc(n + 1, sizeof *sorted);
	CLEANUP(cleanup_free) struct ranked *order = xcalloc(n + 1, sizeof *order);

	for (size_t i = 0; i < n; i++) {
		const struct report_thread *t = &r->threads.p[i];
		order[i] = (struct ranked){ i == first ? -1 : rank(t), t->has_python ? 0 : t->tid, i };
	}
	qsort(order, n, sizeof *order, ranked_order);
	for (size_t i = 0; i < n; i++)
		sorted[i] = r->threads.p[order[i].i];
	if (n)
		memcpy(r->threads.p, sorted, n * sizeof *sorted);
}
