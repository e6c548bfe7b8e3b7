/*
 * What a cut core still holds.  The kernel writes memory in the order of addresses, so what goes first is the data of
 * libpython (the runtime, static types, 3.12's main interpreter), while the heap with thread states, code objects and names
 * is there.  A word that equals a thread's thread pointer may be the thread_id of its thread state.
 *
 * What proves one without a runtime: its neighbours link back or were cut off, its frames lead to objects of one type,
 * whose names are str objects of one other type and whose line table gives a line for each frame's instruction.  The types
 * are told by their addresses alone.  A stack of which anything contradicts is not shown, and when two layouts prove
 * different stacks, none is.
 */
#include "python/salvage.h"

#include <stdlib.h>
#include <string.h>

#include <uthash.h>

#include "python/object.h"
#include "python/search.h"
#include "python/self.h"

enum {
	HITS_PER_THREAD = 1000,
	HITS_MAX = 200000,
	VOTES = 16,                /* kinds of code objects told apart while they are counted */
	VOTE_FRAMES = 64,          /* looked at for the vote, of each thread state */
	VOTES_MAX = 100000,        /* and of all */
	CHECK_FRAMES = 1000000,    /* walked to prove, of all thread states under one layout */
	CHECK_TEXT = 64 << 20,     /* bytes of names read for that; what comes later is not known to fit */
	LINE_MAX = 1 << 24,
};

struct hit { addr_t at; uint64_t word; };
struct hits { struct VEC(struct hit) list; };

struct state {
	addr_t thread, interp, prev, next, frame;
	uint64_t ident, id;
	unsigned long frames;      /* whose code fits */
	bool proved, cut;          /* cut: some of what its stack leads to is not in the capture */
};
/* An instruction of a code object that was looked at: most frames of most threads stand at the same few. */
struct checked {
	struct { addr_t code; int64_t lasti; } key;
	int fits;
	uint64_t digest;           /* of its names and line */
	UT_hash_handle hh;
};
struct attempt {
	struct py py;
	struct VEC(struct state) list;
	unsigned long n_proved, walked;
	size_t text;
	struct checked *checked;
	uint64_t digest;           /* of all that would be shown */
};

static int take_hit(void *arg, addr_t at, uint64_t word)
{
	struct hits *h = arg;
	*vec_push(&h->list) = (struct hit){ at, word };
	return 0;
}

static void find_hits(struct image *img, struct hits *h)
{
	const struct thread *threads;
	size_t n = image_threads(img, &threads), known;
	CLEANUP(cleanup_free) uint64_t *words = NULL;
	const size_t n_words = self_words(img, &words, &known);
	struct search_set *set = search_set_new(words, n_words);
	unsigned long max = n < HITS_MAX / HITS_PER_THREAD ? (n + 1) * HITS_PER_THREAD : HITS_MAX;
	int rc = search_words(img, set, SEARCH_ELF, max, take_hit, h);
	if (rc == 0 || rc == ERR_LIMIT)
		rc = search_words(img, set, SEARCH_REST, max, take_hit, h);
	search_set_free(set);
}

/* --- one thread state --- */

/* Is a neighbour one, or not in the capture?  Its link back is `back`. */
static bool neighbour_fits(const struct py *py, addr_t at, enum py_field link, addr_t interp, addr_t back)
{
	addr_t owner, to;
	if (!at)
		return true;
	if (at % py->layout.abi.width)
		return false;
	int rc = READ(py, at, PyThread, interp, &owner);
	bool both = layout_has(&py->layout, link); /* 2.7 is linked one way */
	if (rc == 0 && both)
		rc = layout_read(py->img, &py->layout, at, link, &to);
	if (rc == 0)
		return owner == interp && (!both || to == back);
	return py_is_lost(py, at);
}

static bool is_state(const struct py *py, const struct hit *h, struct state *ret)
{
	const struct layout *l = &py->layout;
	const uint8_t width = l->abi.width;
	struct state c = { .thread = h->at - (addr_t)l->offset[F_PyThread_thread_id], .ident = h->word };
	uint64_t head;
	if (c.thread > h->at || c.thread % width || READ(py, c.thread, PyThread, interp, &c.interp) < 0 || !c.interp || c.interp % width ||
	    READ(py, c.thread, PyThread, next, &c.next) < 0 || c.next == c.thread)
		return false;
	if (HAS(py, PyThread, prev)) {
		if (READ(py, c.thread, PyThread, prev, &c.prev) < 0 || !neighbour_fits(py, c.prev, F_PyThread_next, c.interp, c.thread) ||
		    !neighbour_fits(py, c.next, F_PyThread_prev, c.interp, c.thread))
			return false;
		/* The first one is what the interpreter's list begins with. */
		if (!c.prev && READ(py, c.interp, PyInterp, tstate_head, &head) == 0 && head != c.thread)
			return false;
	} else if (!neighbour_fits(py, c.next, F_PyThread_prev, c.interp, c.thread)) {
		return false;
	}
	uint64_t seen;
	if (READ(py, c.interp, PyInterp, tstate_head, &seen) < 0 && !py_is_lost(py, c.interp))
		return false;
	if (READ(py, c.thread, PyThread, id, &c.id) < 0)
		c.id = 0;
	*ret = c;
	return true;
}

static int by_thread(const void *a, const void *b)
{
	const struct state *x = a, *y = b;
	return x->thread < y->thread ? -1 : x->thread > y->thread;
}

/* Interpreter by interpreter, the newest first, as the lists of a living process are. */
static int by_age(const void *a, const void *b)
{
	const struct state *x = a, *y = b;
	if (x->interp != y->interp)
		return x->interp < y->interp ? -1 : 1;
	return x->id > y->id ? -1 : x->id < y->id ? 1 : by_thread(a, b);
}

static void find_states(struct attempt *t, const struct hits *h)
{
	for (size_t i = 0; i < h->list.n; i++) {
		struct state c;
		if (!is_state(&t->py, &h->list.p[i], &c))
			continue;
		/* Where its innermost frame is, as every walk finds it. */
		struct walk w = { .py = &t->py, .next = c.thread, .limit = 1, .lap = 1, .owner = c.interp };
		struct py_thread th;
		if (py_next_thread(&w, &th) != 1)
			continue;
		c.frame = th.frame;
		*vec_push(&t->list) = c;
	}
}

/* --- the types --- */

struct vote { addr_t code, str, bytes; unsigned n; };

static int type_at(const struct py *py, addr_t obj, enum py_field f, addr_t *ret)
{
	addr_t at;
	int rc = layout_read(py->img, &py->layout, obj, f, &at);
	return rc < 0 ? rc : READ(py, at, PyObject, ob_type, ret);
}

/* What a code object, the names in it and its line table are instances of. */
static bool types_of_code(const struct py *py, addr_t code, struct vote *ret)
{
	struct vote v = { 0 };
	addr_t file;
	enum py_field table = HAS(py, PyCode, co_linetable) ? F_PyCode_co_linetable : F_PyCode_co_lnotab;
	if (READ(py, code, PyObject, ob_type, &v.code) < 0 || type_at(py, code, F_PyCode_co_name, &v.str) < 0 ||
	    type_at(py, code, F_PyCode_co_filename, &file) < 0 || type_at(py, code, table, &v.bytes) < 0)
		return false;
	/* 2.7's names and its table are both str. */
	bool compact = TRAIT(py, str_model) == STR_MODEL_COMPACT;
	if (file != v.str || !v.code || v.code == v.str || v.code == v.bytes || (v.str == v.bytes) == compact)
		return false;
	const uint8_t width = py->layout.abi.width;
	if (v.code % width || v.str % width || v.bytes % width)
		return false;
	*ret = v;
	return true;
}

static bool find_types(struct attempt *t)
{
	struct vote votes[VOTES] = { 0 };
	unsigned long looked = 0;
	for (size_t i = 0; i < t->list.n && looked < VOTES_MAX; i++, looked++) {
		struct walk w = py_frames(&t->py, t->list.p[i].frame);
		struct py_frame f;
		for (unsigned k = 0; k < VOTE_FRAMES && py_next_frame(&w, &f) == 1; k++, looked++) {
			struct vote v;
			if (f.shim || !f.code || !types_of_code(&t->py, f.code, &v))
				continue;
			for (size_t j = 0; j < VOTES; j++) {
				if (votes[j].n && (votes[j].code != v.code || votes[j].str != v.str || votes[j].bytes != v.bytes))
					continue;
				v.n = votes[j].n + 1;
				votes[j] = v;
				break;
			}
		}
	}
	const struct vote *best = &votes[0];
	for (size_t j = 1; j < VOTES; j++)
		if (votes[j].n > best->n)
			best = &votes[j];
	if (!best->n)
		return false;
	t->py.types = (struct py_types){ .code = best->code, .str = best->str, .bytes = best->bytes };
	if (TRAIT(&t->py, str_model) != STR_MODEL_COMPACT)
		t->py.types.str = 0;
	return true;
}

/* --- the proof --- */

static void digest(uint64_t *d, const void *p, size_t len)
{
	const uint8_t *q = p;
	for (size_t i = 0; i < len; i++)
		*d = (*d ^ q[i]) * UINT64_C(0x100000001b3); /* FNV-1a */
}

/* Is the instruction inside the code?  A code object counts its own from 3.11 on, earlier ones have a bytes object. */
static int inside_code(const struct py *py, const struct py_frame *f)
{
	uint64_t size, at = (uint64_t)f->lasti;
	addr_t bytes;
	int rc;
	if (f->lasti < 0)
		return 0;
	if (HAS(py, PyCode, co_code)) {
		rc = READ(py, f->code, PyCode, co_code, &bytes);
		if (rc == 0)
			rc = READ(py, bytes, PyBytes, ob_size, &size);
	} else {
		rc = READ(py, f->code, PyVarObject, ob_size, &size);
		at /= 2; /* _Py_CODEUNIT */
	}
	return rc < 0 ? rc : at < size ? 0 : ERR_CORRUPT;
}

/* 0: names are there and are text, and the line table gives the instruction a line.  ERR_FAULT: they are not in the capture. */
static int check_code(struct attempt *t, const struct py_frame *f, uint64_t *d)
{
	CLEANUP(cleanup_arena) struct arena *a = arena_new();
	struct py_code code;
	struct position at = { -1, -1, -1, -1 };
	int rc = t->text < CHECK_TEXT ? inside_code(&t->py, f) : ERR_FAULT;
	if (rc == 0)
		rc = py_code_read(&t->py, f->code, a, &code);
	t->text += arena_used(a) + 64;
	if (rc == 0 && (!code.name.s || !code.file.s))
		rc = ERR_FAULT;
	if (rc == 0 && (!code.name.len || code.firstlineno < 0 || code.firstlineno > LINE_MAX))
		rc = ERR_CORRUPT;
	if (rc == 0)
		rc = py_code_position(&t->py, f->code, f->lasti, &at);
	if (rc < 0)
		return rc == ERR_FAULT ? rc : ERR_CORRUPT;
	if (at.line > LINE_MAX)
		return ERR_CORRUPT;
	digest(d, code.name.s, code.name.len);
	digest(d, code.file.s, code.file.len);
	digest(d, &at.line, sizeof at.line);
	return 0;
}

static int code_fits(struct attempt *t, const struct py_frame *f)
{
	struct checked *c, key = { .key = { f->code, f->lasti } };
	HASH_FIND(hh, t->checked, &key.key, sizeof key.key, c);
	if (!c) {
		c = xcalloc(1, sizeof *c);
		c->key.code = f->code;
		c->key.lasti = f->lasti;
		c->fits = check_code(t, f, &c->digest);
		HASH_ADD(hh, t->checked, key, sizeof c->key, c);
	}
	digest(&t->digest, &c->digest, sizeof c->digest);
	return c->fits;
}

static void forget_checked(struct attempt *t)
{
	struct checked *c, *next;
	HASH_ITER(hh, t->checked, c, next) {
		HASH_DEL(t->checked, c);
		free(c);
	}
}

/* Does the walk end here because of memory that is not in the capture: the frame, or its code? */
static bool ends_in_lost(const struct py *py, addr_t frame)
{
	addr_t code;
	if (py_is_lost(py, frame))
		return true;
	int rc = HAS(py, PyFrame, code) ? READ(py, frame, PyFrame, code, &code) : READ(py, frame, PyFrameObject, f_code, &code);
	return rc == 0 && py_is_lost(py, code & ~(addr_t)3);
}

/* All frames of it, to the end or to where memory is lost. */
static void prove_stack(struct attempt *t, struct state *c)
{
	struct walk w = py_frames(&t->py, c->frame);
	struct py_frame f;
	uint64_t before = t->digest;
	int rc = 0, fits = ERR_FAULT;
	digest(&t->digest, &c->thread, sizeof c->thread);
	while (t->walked < CHECK_FRAMES && (rc = py_next_frame(&w, &f)) == 1) {
		t->walked++;
		if (f.shim && f.owner >= TRAIT(&t->py, owner_shim))
			continue;
		if (f.no_code == ERR_FAULT && py_is_lost(&t->py, f.stands)) {
			digest(&t->digest, &f.addr, sizeof f.addr);
			c->cut = true;
			continue;
		}
		if (f.shim || f.no_code) { /* where nothing else is sure, what has no code is no frame */
			fits = ERR_CORRUPT;
			break;
		}
		digest(&t->digest, &f.addr, sizeof f.addr);
		fits = code_fits(t, &f);
		if (fits == ERR_CORRUPT)
			break;
		c->frames += fits == 0;
		c->cut |= fits < 0;
	}
	bool lost = rc == ERR_FAULT && ends_in_lost(&t->py, w.next);
	c->cut |= lost;
	bool right = fits != ERR_CORRUPT && (rc >= 0 || lost);
	c->proved = right && c->frames;
	if (!right)
		c->frames = 0, c->cut = false;
	if (!c->proved)
		t->digest = before;
	t->n_proved += c->proved;
}

static struct state *state_at(struct attempt *t, addr_t thread)
{
	struct state key = { .thread = thread };
	return thread && t->list.n ? bsearch(&key, t->list.p, t->list.n, sizeof key, by_thread) : NULL;
}

static int by_ident(const void *a, const void *b)
{
	const struct state *x = *(struct state *const *)a, *y = *(struct state *const *)b;
	if (x->ident != y->ident)
		return x->ident < y->ident ? -1 : 1;
	return x->interp < y->interp ? -1 : x->interp > y->interp;
}

/* One thread cannot run in two thread states of an interpreter: which of them is stale cannot be told here. */
static void drop_doubles(struct attempt *t)
{
	size_t n = 0;
	CLEANUP(cleanup_free) struct state **p = xcalloc(t->list.n + 1, sizeof(*p));
	for (size_t i = 0; i < t->list.n; i++)
		if (t->list.p[i].proved)
			p[n++] = &t->list.p[i];
	qsort(p, n, sizeof *p, by_ident);
	for (size_t i = 0, end; i < n; i = end) {
		for (end = i + 1; end < n && by_ident(&p[i], &p[end]) == 0; end++)
			;
		for (size_t k = i; end - i > 1 && k < end; k++) {
			p[k]->proved = false;
			t->n_proved--;
		}
	}
}

/* Thread states whose stack is cut off as a whole, linked with one that is proved: onwards from it, then back. */
static void add_linked(struct attempt *t)
{
	for (size_t i = 0; i < 2 * t->list.n; i++) {
		bool on = i < t->list.n;
		struct state *c = &t->list.p[on ? i : i - t->list.n];
		if (!c->proved)
			continue;
		while ((c = state_at(t, on ? c->next : c->prev)) && !c->proved && !c->frames && c->cut)
			c->proved = true;
	}
}

static void keep_proved(struct attempt *t)
{
	size_t n = 0;
	for (size_t i = 0; i < t->list.n; i++)
		if (t->list.p[i].proved)
			t->list.p[n++] = t->list.p[i];
	t->list.n = n;
	if (n)
		qsort(t->list.p, n, sizeof *t->list.p, by_age);
}

/* More stacks that contradict than such as do not: this is another layout. */
static bool holds(const struct attempt *t, unsigned long wrong)
{
	return t->n_proved && wrong <= t->n_proved;
}

static bool try_layout(struct attempt *t, const struct hits *h)
{
	if (!HAS(&t->py, PyThread, thread_id) || !HAS(&t->py, PyThread, interp))
		return false;
	find_states(t, h);
	if (!t->list.n || !find_types(t))
		return false;
	qsort(t->list.p, t->list.n, sizeof *t->list.p, by_thread);
	size_t n = 0;
	for (size_t i = 0; i < t->list.n; i++)
		if (!n || t->list.p[i].thread != t->list.p[n - 1].thread)
			t->list.p[n++] = t->list.p[i];
	t->list.n = n;
	unsigned long wrong = 0;
	for (size_t i = 0; i < n; i++) {
		struct state *c = &t->list.p[i];
		prove_stack(t, c);
		wrong += c->frame && !c->proved && !c->cut; /* neither the one nor the other: something contradicts */
	}
	forget_checked(t);
	drop_doubles(t);
	if (!holds(t, wrong))
		return false;
	add_linked(t);
	keep_proved(t);
	return true;
}

/* --- what the walks ask --- */

static size_t first_of(const struct py *py, addr_t interp)
{
	size_t lo = 0, hi = py->n_salvaged;
	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;
		if (py->salvaged_threads[mid].interp < interp)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

addr_t salvage_thread(const struct py *py, addr_t interp, unsigned long n)
{
	size_t i = first_of(py, interp);
	if (n >= py->n_salvaged - i)
		return 0;
	return py->salvaged_threads[i + n].interp == interp ? py->salvaged_threads[i + n].thread : 0;
}

addr_t salvage_interp_after(const struct py *py, addr_t interp)
{
	size_t i = interp == UINT64_MAX ? py->n_salvaged : first_of(py, interp + 1);
	return i < py->n_salvaged ? py->salvaged_threads[i].interp : 0;
}

static void finish(const struct attempt *t, const struct known_version *known, struct arena *a, struct py *ret)
{
	*ret = t->py;
	struct py_salvaged *list = arena_alloc(a, t->list.n * sizeof *list);
	for (size_t i = 0; i < t->list.n; i++)
		list[i] = (struct py_salvaged){ t->list.p[i].interp, t->list.p[i].thread };
	ret->salvaged_threads = list;
	ret->n_salvaged = t->list.n;
	ret->interp_head = list[0].interp;
	bool agrees = known->version >> 16 == t->py.layout.version >> 16;
	ret->version = agrees ? known->version : t->py.layout.version & 0xffff0000u;
	ret->version_exact = agrees && known->exact;
	if (ret->version_exact)
		version_format(ret->version, ret->version_text, sizeof ret->version_text);
	else
		snprintf(ret->version_text, sizeof ret->version_text, "%u.%u", ret->version >> 24, ret->version >> 16 & 255);
}

int py_salvage(const struct py *base, const struct salvage_try *tries, size_t n, const struct known_version *known, struct arena *a,
	       struct py *ret, size_t *which, char *why, size_t room)
{
	snprintf(why, room, "no thread state could be proved");
	if (!image_facts(base->img)->n_lost)
		return ERR_ABSENT;
	struct hits h = { 0 };
	struct attempt best = { 0 };
	int rc = ERR_ABSENT;
	find_hits(base->img, &h);
	for (size_t i = 0; i < n && h.list.n; i++) {
		struct attempt t = { .py = *base, .digest = UINT64_C(0xcbf29ce484222325) };
		if (known->version && known->version >> 16 != tries[i].layout.version >> 16)
			continue;
		t.py.layout = tries[i].layout;
		t.py.types = (struct py_types){ 0 };
		t.py.runtime = t.py.interp_head = 0;
		t.py.salvaged = true;
		if (!try_layout(&t, &h)) {
			vec_free(&t.list);
			continue;
		}
		if (rc == ERR_ABSENT) {
			best = t;
			*which = i;
			rc = 0;
			continue;
		}
		/* Tables of neighbouring releases that say the same of all that is shown are no contradiction. */
		if (t.digest != best.digest) {
			snprintf(why, room, "thread states of %s and of %s could both be there", best.py.layout.name, t.py.layout.name);
			rc = ERR_CORRUPT;
		}
		/* Of builds that cannot be told apart here, the ordinary one. */
		if (rc == 0 && strlen(tries[i].config) < strlen(tries[*which].config)) {
			struct attempt other = best;
			best = t;
			t = other;
			*which = i;
		}
		vec_free(&t.list);
		if (rc < 0)
			break;
	}
	if (rc == 0)
		finish(&best, known, a, ret);
	vec_free(&best.list);
	vec_free(&h.list);
	return rc;
}
