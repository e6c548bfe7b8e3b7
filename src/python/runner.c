/*
 * Which thread runs a thread state, where several states name the same one.
 *
 * Up to 3.11 thread_id is that of whoever made the state, and nobody sets it again but Python's own threads when they begin
 * (Python/pystate.c, new_threadstate; Modules/_threadmodule.c, thread_run); from 3.12 on it is set where the state is bound, which
 * PyThreadState_New does too.  So a host's workers, which take over states that its first thread made, are named by none of them.
 * And a pthread_t is used again once its thread is gone, which a state may outlive (fork, pthread_exit).
 *
 * What tells better, in this order: native_thread_id, which is used again much later; where the shim beneath the innermost run of frames
 * lies, on the C stack of who evaluates it; whose stack in use holds pointers to the frames, as the evaluation loop keeps them.
 */
#include "python/runner.h"

#include <stdlib.h>

#include <uthash.h>

enum {
	LOOKED_AT = 32,           /* of a state's frames, the innermost */
	TO_SHIM = 100000,         /* frames between the innermost and the shim beneath it */
	STACK_MAX = 8 << 20,      /* bytes of a stack in use that are read */
	ALL_MAX = 1 << 30,        /* ... of all stacks */
	BLOCK = 1 << 14
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
static addr_t shim_of(const struct py *py, const struct py_thread *t)
{
	struct walk w = py_frames(py, t->frame);
	struct py_frame f;
	addr_t base = 0;

	(void)!READ(py, t->addr, PyThread, base_frame, &base);
	for (unsigned n = 0; n < TO_SHIM && py_next_frame(&w, &f) == 1; n++)
		if (f.shim)
			return f.addr == base ? 0 : f.addr;
	return 0;
}

/* What a thread that evaluates keeps on its own stack of it. */
static void place(const struct py *py, struct claim *c)
{
	addr_t at, root = 0;

	if (HAS(py, PyThread, cframe))
		c->placed = READ(py, c->t->addr, PyThread, cframe, &at) == 0 && !(READ(py, c->t->addr, PyThread, root_cframe, &root) == 0 && at == root);
	else
		c->placed = HAS(py, PyThread, current_frame) && (at = shim_of(py, c->t));
	const struct py_tid *on = c->placed ? thread_by_stack(py, at) : NULL;
	c->nowhere = c->placed && !on;
	c->placed = on != NULL;
	if (on)
		give(py, c->t, on->tid, on->tls);
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

static void see(struct looking *l, uint64_t word, addr_t where)
{
	const addr_t at = word;
	struct held *h;

	HASH_FIND(hh, l->held, &at, sizeof at, h);
	if (!h || h->seen == l->nth)
		return;
	h->seen = l->nth;
	struct claim *c = &l->claims[h->state];
	if (!c->here++) {
		c->here_at = where; /* they come in the order of addresses */
		*vec_push(&l->touched) = h->state;
	}
}

/* What of its stack is in use; is any of it there? */
static bool read_stack(struct looking *l, const struct thread *t)
{
	const struct abi *abi = image_abi(l->py->img);
	const addr_t sp = t->regs.sp & ~(addr_t)(abi->width - 1u);
	const struct segment *seg = sp ? image_segment_at(l->py->img, sp) : NULL;
	uint8_t bytes[BLOCK];
	bool any = false;

	for (unsigned r = 0; r < 64; r++)
		if (t->regs.known >> r & 1)
			see(l, t->regs.value[r], sp);
	if (!seg)
		return false;
	addr_t end = seg->start + seg->size;
	if (t->regs.tls > sp && t->regs.tls < end)
		end = t->regs.tls;
	for (addr_t at = sp; at < end && at - sp < STACK_MAX && l->left;) {
		size_t want = end - at < BLOCK ? (size_t)(end - at) : BLOCK;
		want = want < l->left ? want : (size_t)l->left;
		const size_t got = image_read_some(l->py->img, at, bytes, want);
		struct cursor words = cursor_of(bytes, got, abi->big_endian);
		uint64_t word;
		while (cursor_uint(&words, abi->width, &word) == 0)
			see(l, word, at + cursor_at(&words) - abi->width);
		any |= got > 0;
		l->left -= want;
		if (got < want)
			break;
		at += got;
	}
	return any;
}

static void look_at(struct looking *l, const struct thread *t)
{
	l->touched.n = 0;
	l->nth++;
	const bool any = read_stack(l, t);
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
	size_t lo = 0, hi = l->n;
	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;
		if (l->claims[mid].t->tid < t->tid)
			lo = mid + 1;
		else
			hi = mid;
	}
	for (; any && lo < l->n && l->claims[lo].t->tid == t->tid; lo++)
		l->claims[lo].read = true;
}

/* c[0..n) are of one thread by what is known so far. */
static void decide(const struct py *py, struct claim *c, size_t n)
{
	size_t held = 0, open = 0;

	if (n == 1) {
		c->t->at = c->own_at;
		return;
	}
	for (size_t i = 0; i < n; i++)
		held += c[i].own > 0;
	for (size_t i = 0; i < n; i++) {
		struct claim *const k = &c[i];
		if (!k->frames || k->t->stale)
			continue;
		if (k->best > k->second && k->best * 2 >= k->frames && !k->placed) {
			give(py, k->t, k->by->tid, k->by->regs.tls);
			k->t->sure = true;
			k->t->at = k->best_at;
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

	for (size_t i = 0; i < n; i++)
		if (threads[i]->tid && !threads[i]->starting)
			all[n_all++].t = threads[i];
	qsort(all, n_all, sizeof *all, claim_order);
	/* In doubt are those that share their thread with others, where one of them has frames. */
	for (size_t i = 0, next; i < n_all; i = next) {
		bool runs = false;
		for (next = i; next < n_all && all[next].t->tid == all[i].t->tid; next++)
			runs |= all[next].t->frame != 0;
		if (next > i + 1 && runs) {
			by_number(py, all + i, next - i);
			for (size_t k = i; k < next; k++)
				if (all[k].t->tid && all[k].t->frame)
					place(py, &all[k]);
		}
		for (size_t k = i; k < next; k++)
			if (all[k].t->tid)
				all[n_left++] = all[k];
	}
	qsort(all, n_left, sizeof *all, claim_order);
	struct arena *a = arena_new();
	bool open = false;
	for (size_t i = 0, next; i < n_left && !open; i = next) {
		size_t runs = 0, placed = 0;
		for (next = i; next < n_left && all[next].t->tid == all[i].t->tid; next++) {
			runs += all[next].t->frame != 0;
			placed += all[next].placed;
		}
		open = next > i + 1 && runs && (runs > 1 || placed < runs);
	}
	/* All, since where those lie matters too that are alone in a thread to which another one is found to belong. */
	const size_t n_open = open ? n_left : 0;
	for (size_t i = 0; i < n_open; i++)
		look_for(py, all, i, &held, a);
	struct looking l = { .py = py, .claims = all, .n = n_open, .held = held, .left = ALL_MAX };
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
