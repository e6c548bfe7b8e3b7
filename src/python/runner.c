/*
 * Which thread runs a thread state, where several states name the same one.
 *
 * Up to 3.11 thread_id is that of whoever made the state, and nobody sets it again but Python's own threads when they begin
 * (Python/pystate.c, new_threadstate; Modules/_threadmodule.c, thread_run); from 3.12 on it is set where the state is bound, which
 * PyThreadState_New does too.  So a host's workers, which take over states that its first thread made, are named by none of them.
 * And a pthread_t is used again once its thread is gone, which a state may outlive (fork, pthread_exit).  Two threads may run in the
 * states that the other one made, so that no id is claimed twice.
 *
 * What tells better, in this order: native_thread_id, which is used again much later; where the shim beneath the innermost run of frames
 * lies, on the C stack of who evaluates it; whose stack in use holds pointers to the frames, as the evaluation loop keeps them.
 */
#include "python/runner.h"

#include <stdlib.h>

#include <uthash.h>

enum {
	LOOKED_AT = 32,           /* of a state's frames, the innermost */
	NEAR = 8,                 /* of those, one of which the stack of who evaluates them has */
	TO_SHIM = 100000,         /* frames between the innermost and the shim beneath it */
	TO_SHIMS = 10000000,      /* ... of all states: nothing keeps damaged ones from leading to one chain */
	STACK_MAX = 8 << 20,      /* bytes of a stack in use that are read */
	ALL_MAX = 1 << 30,        /* ... of all stacks */
	BLOCK = 1 << 12
};

struct held { addr_t frame; size_t state, seen; UT_hash_handle hh; };

struct claim {
	struct py_thread *t;
	size_t frames;            /* that were looked for; 0: it has none */
	addr_t here_at, best_at, own_at; /* the lowest address where one was seen */
	size_t here, best, second; /* how many of them one stack has, and the two that have most */
	const struct thread *by;  /* who has most */
	size_t own;               /* of them on the stack of the thread that its ids name */
	bool read;                /* that stack is there */
	bool placed;              /* what lies on the C stack says so */
	bool nowhere;             /* there is such a thing, but on no stack in use that is known */
	bool native;              /* native_thread_id says so too */
};

static int claim_order(const void *a, const void *b)
{
	const struct claim *x = a, *y = b;

	if (x->t->tid != y->t->tid)
		return x->t->tid < y->t->tid ? -1 : 1;
	return x->t < y->t ? -1 : x->t > y->t;
}

static int tid_order(const void *a, const void *b)
{
	const pid_t *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

static void give(const struct py *py, struct py_thread *t, pid_t tid, addr_t tls)
{
	if (t->tid == tid)
		return;
	t->tid = tid;
	t->stale = false;
	if (tls && abi_tls_is_self(image_abi(py->img)))
		t->ident = tls;
}

/* Its thread is gone, and what it calls it by is another's. */
static void lose(struct py_thread *t)
{
	t->tid = 0;
	t->ident = 0;
	t->stale = true;
}

/* From 3.12 on: the shim beneath the innermost run. 0: none, or that of no run (3.15's base_frame). */
static addr_t shim_of(const struct py *py, const struct py_thread *t, unsigned long *left)
{
	struct walk w = py_frames(py, t->frame);
	struct py_frame f;
	addr_t base = 0;

	(void)!READ(py, t->addr, PyThread, base_frame, &base);
	for (unsigned n = 0; n < TO_SHIM && *left && py_next_frame(&w, &f) == 1; n++, --*left)
		if (f.shim)
			return f.addr == base ? 0 : f.addr;
	return 0;
}

/* What a thread that evaluates keeps on its own stack of it. */
static void place(const struct py *py, struct claim *c, unsigned long *left)
{
	addr_t at, root = 0;

	if (HAS(py, PyThread, cframe))
		c->placed = READ(py, c->t->addr, PyThread, cframe, &at) == 0 && !(READ(py, c->t->addr, PyThread, root_cframe, &root) == 0 && at == root);
	else
		c->placed = HAS(py, PyThread, current_frame) && (at = shim_of(py, c->t, left));
	const struct py_tid *on = c->placed ? thread_by_stack(py, at) : NULL;
	c->nowhere = c->placed && !on;
	c->placed = on != NULL;
	if (on)
		give(py, c->t, on->tid, on->tls);
}

/*
 * One whose thread is gone, by its ids.  The stack of that may be another's now, which leaves alone only what lies above its own: so it
 * has to be that of a thread that nothing else is known to run in.
 */
static void place_gone(const struct py *py, struct claim *c, const pid_t *busy, size_t n, unsigned long *left)
{
	const addr_t at = shim_of(py, c->t, left);
	const struct py_tid *on = at ? thread_by_stack(py, at) : NULL;

	if (on && bsearch(&on->tid, busy, n, sizeof *busy, tid_order))
		return;
	c->placed = on != NULL;
	if (on)
		give(py, c->t, on->tid, on->tls);
}

/* Are there frame objects, whose addresses who evaluates them has on its stack, and nothing that lies there itself? */
static bool is_kept(const struct py *py)
{
	return !HAS(py, PyThread, current_frame) && !HAS(py, PyThread, cframe);
}

/*
 * States of one thread by their ids, of which one has its number too: another's number is that of the thread whose id came to be used
 * again; where that one is alive, the id is wrong.
 */
static void by_number(const struct py *py, struct claim *c, size_t n)
{
	uint64_t native;
	bool any = false;

	for (size_t i = 0; i < n; i++) {
		c[i].native = READ(py, c[i].t->addr, PyThread, native_thread_id, &native) == 0 && native == (uint64_t)c[i].t->tid;
		any |= c[i].native;
	}
	for (size_t i = 0; any && i < n; i++) {
		if (c[i].native || READ(py, c[i].t->addr, PyThread, native_thread_id, &native) < 0 || !native || c[i].t->ident != c[0].t->ident)
			continue;
		const struct py_tid *other = thread_by_tid(py, native);
		if (other)
			give(py, c[i].t, other->tid, other->tls);
		else
			lose(c[i].t);
	}
}

static void look_for(const struct py *py, struct claim *c, size_t i, struct held **all, struct arena *a)
{
	struct walk w = py_frames(py, c[i].t->frame);
	struct py_frame f;

	while (c[i].frames < LOOKED_AT && py_next_frame(&w, &f) == 1) {
		struct held *h;
		if (f.shim)
			continue;
		HASH_FIND(hh, *all, &f.addr, sizeof f.addr, h);
		if (h)
			continue;
		c[i].frames++;
		h = arena_alloc(a, sizeof *h);
		h->frame = f.addr;
		h->state = i;
		HASH_ADD(hh, *all, frame, sizeof h->frame, h);
	}
}

struct looking {
	const struct py *py;
	struct claim *claims;     /* sorted by thread */
	size_t n;
	struct held *held;
	struct VEC(size_t) touched; /* of claims, by the thread that is looked at */
	size_t nth;               /* that one, from 1 */
	uint64_t left;            /* bytes that may still be read */
};

/* A word of a thread's registers, or of its stack, at where; true: that is enough. */
typedef bool word_fn(void *arg, uint64_t word, addr_t where);

/* What of its stack is in use; is any of it there? */
static bool read_stack(const struct py *py, const struct thread *t, uint64_t *left, word_fn *got, void *arg)
{
	const struct abi *abi = image_abi(py->img);
	const addr_t sp = t->regs.sp & ~(addr_t)(abi->width - 1u);
	const struct segment *seg = sp ? image_segment_at(py->img, sp) : NULL;
	uint8_t bytes[BLOCK];
	bool any = false;

	for (unsigned r = 0; r < 64; r++)
		if (t->regs.known >> r & 1 && got(arg, t->regs.value[r], sp))
			return seg != NULL;
	if (!seg)
		return false;
	addr_t end = seg->start + seg->size;
	if (t->regs.tls > sp && t->regs.tls < end)
		end = t->regs.tls;
	for (addr_t at = sp; at < end && at - sp < STACK_MAX && *left;) {
		size_t want = BLOCK - at % BLOCK; /* a page at a time: mostly the first has enough */
		want = end - at < want ? (size_t)(end - at) : want;
		want = want < *left ? want : (size_t)*left;
		const size_t n = image_read_some(py->img, at, bytes, want);
		struct cursor words = cursor_of(bytes, n, abi->big_endian);
		uint64_t word;
		while (cursor_uint(&words, abi->width, &word) == 0)
			if (got(arg, word, at + cursor_at(&words) - abi->width))
				return true;
		any |= n > 0;
		*left -= want;
		if (n < want)
			break;
		at += n;
	}
	return any;
}

struct near { addr_t frame[NEAR]; size_t n; bool found; };

static bool is_near(void *arg, uint64_t word, addr_t where)
{
	struct near *near = arg;

	(void)where;
	for (size_t i = 0; i < near->n && !near->found; i++)
		near->found = near->frame[i] == word;
	return near->found;
}

/* Does the thread's own stack show that it does not evaluate what it alone claims?  Only where it keeps addresses of frames. */
static bool is_elsewhere(const struct py *py, const struct claim *c, const struct thread *t, uint64_t *left)
{
	struct walk w = py_frames(py, c->t->frame);
	struct near near = { 0 };
	struct py_frame f;

	while (near.n < NEAR && py_next_frame(&w, &f) == 1)
		if (!f.shim)
			near.frame[near.n++] = f.addr;
	return near.n && read_stack(py, t, left, is_near, &near) && !near.found;
}

static bool see(void *arg, uint64_t word, addr_t where)
{
	struct looking *l = arg;
	const addr_t at = word;
	struct held *h;

	HASH_FIND(hh, l->held, &at, sizeof at, h);
	if (!h || h->seen == l->nth)
		return false;
	h->seen = l->nth;
	struct claim *c = &l->claims[h->state];
	if (!c->here++) {
		c->here_at = where; /* they come in the order of addresses */
		*vec_push(&l->touched) = h->state;
	}
	return false;
}

/* The first of the claims on a thread; n: none. */
static size_t first_of(const struct claim *c, size_t n, pid_t tid)
{
	size_t lo = 0, hi = n;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;
		if (c[mid].t->tid < tid)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo < n && c[lo].t->tid == tid ? lo : n;
}

static void look_at(struct looking *l, const struct thread *t)
{
	l->touched.n = 0;
	l->nth++;
	const bool any = read_stack(l->py, t, &l->left, see, l);
	for (size_t i = 0; i < l->touched.n; i++) {
		struct claim *c = &l->claims[l->touched.p[i]];
		if (t->tid == c->t->tid) {
			c->own = c->here;
			c->own_at = c->here_at;
		}
		if (c->here > c->best) {
			c->second = c->best;
			c->best = c->here;
			c->best_at = c->here_at;
			c->by = t;
		} else if (c->here > c->second) {
			c->second = c->here;
		}
		c->here = 0;
	}
	for (size_t i = first_of(l->claims, l->n, t->tid); any && i < l->n && l->claims[i].t->tid == t->tid; i++)
		l->claims[i].read = true;
}

/* The best that another stack than its own has is enough. */
static bool is_taken(const struct claim *c)
{
	return c->frames && c->best > c->second && c->best * 2 >= c->frames && !c->placed && !c->own && (c->read || !c->t->tid);
}

static void take(const struct py *py, struct claim *c)
{
	give(py, c->t, c->by->tid, c->by->regs.tls);
	c->t->sure = true;
	c->t->at = c->best_at;
}

/* c[0..n) are of one thread by what is known so far; those of thread 0 each of one that is gone. */
static void decide(const struct py *py, struct claim *c, size_t n)
{
	size_t held = 0, open = 0;

	if (n == 1 || !c->t->tid) {
		for (size_t i = 0; i < n; i++) {
			if (is_taken(&c[i]))
				take(py, &c[i]);
			else
				c[i].t->at = c[i].own_at;
		}
		return;
	}
	for (size_t i = 0; i < n; i++)
		held += c[i].own > 0;
	for (size_t i = 0; i < n; i++) {
		struct claim *const k = &c[i];
		if (!k->frames || k->t->stale)
			continue;
		if (k->best > k->second && k->best * 2 >= k->frames && !k->placed) {
			take(py, k);
		} else if (k->native) {
			continue;
		} else if (!k->own && held && !k->best) {
			lose(k->t);
		} else if (!k->placed && (k->read || !k->nowhere)) {
			k->t->unsure = true;
			open++;
		}
	}
	/* One that nothing contradicts is taken at its word. */
	for (size_t i = 0; i < n && open == 1; i++)
		if (c[i].t->unsure && !c[i].read)
			c[i].t->unsure = false;
}

void py_find_runners(const struct py *py, struct py_thread *const *threads, size_t n)
{
	CLEANUP(cleanup_free) struct claim *all = xcalloc(n + 1, sizeof *all);
	const struct thread *image;
	const size_t n_image = image_threads(py->img, &image);
	struct held *held = NULL;
	size_t n_all = 0, n_left = 0;
	unsigned long shims_left = TO_SHIMS;

	for (size_t i = 0; i < n; i++)
		if ((threads[i]->tid || (threads[i]->stale && threads[i]->frame)) && !threads[i]->starting)
			all[n_all++].t = threads[i];
	qsort(all, n_all, sizeof *all, claim_order);
	size_t n_gone = 0;
	while (n_gone < n_all && !all[n_gone].t->tid)
		n_gone++;
	/*
	 * Which thread has a shim is known without more ado, and what ids say is held against it.  In doubt are those that share their
	 * thread with others, where one of them has frames.
	 */
	const bool shims = HAS(py, PyThread, current_frame);
	for (size_t i = n_gone, next; i < n_all; i = next) {
		bool runs = false;
		for (next = i; next < n_all && all[next].t->tid == all[i].t->tid; next++)
			runs |= all[next].t->frame != 0;
		if (next > i + 1 && runs)
			by_number(py, all + i, next - i);
		for (size_t k = i; k < next && runs && (shims || next > i + 1); k++)
			if (all[k].t->tid && all[k].t->frame)
				place(py, &all[k], &shims_left);
	}
	CLEANUP(cleanup_free) pid_t *busy = xcalloc(n_all + 1, sizeof *busy); /* those with frames */
	size_t n_busy = 0;
	for (size_t i = n_gone; i < n_all; i++)
		if (all[i].t->tid && all[i].t->frame)
			busy[n_busy++] = all[i].t->tid;
	qsort(busy, n_busy, sizeof *busy, tid_order);
	for (size_t i = 0; i < n_gone; i++)
		if (shims)
			place_gone(py, &all[i], busy, n_busy, &shims_left);
	for (size_t i = 0; i < n_all; i++)
		if (i < n_gone || all[i].t->tid)
			all[n_left++] = all[i];
	qsort(all, n_left, sizeof *all, claim_order);
	struct arena *a = arena_new();
	uint64_t left = ALL_MAX;
	bool open = false;
	for (n_gone = 0; n_gone < n_left && !all[n_gone].t->tid; n_gone++)
		open |= is_kept(py);
	for (size_t i = n_gone, next; i < n_left && !open; i = next) {
		size_t runs = 0, placed = 0;
		for (next = i; next < n_left && all[next].t->tid == all[i].t->tid; next++) {
			runs += all[next].t->frame != 0;
			placed += all[next].placed;
		}
		open = next > i + 1 && runs && (runs > 1 || placed < runs);
	}
	for (size_t i = 0; i < n_image && !open && is_kept(py); i++) {
		const size_t k = first_of(all, n_left, image[i].tid);
		open = k < n_left && all[k].t->frame && is_elsewhere(py, &all[k], &image[i], &left);
	}
	/* All, since where those lie matters too that are alone in a thread to which another one is found to belong. */
	const size_t n_open = open ? n_left : 0;
	for (size_t i = 0; i < n_open; i++)
		look_for(py, all, i, &held, a);
	struct looking l = { .py = py, .claims = all, .n = n_open, .held = held, .left = left };
	for (size_t i = 0; held && i < n_image; i++)
		look_at(&l, &image[i]);
	vec_free(&l.touched);
	for (size_t i = 0, next; i < n_open; i = next) {
		const pid_t tid = all[i].t->tid;
		for (next = i; next < n_open && all[next].t->tid == tid; next++)
			;
		decide(py, all + i, next - i);
	}
	HASH_CLEAR(hh, held);
	arena_free(a);
}
