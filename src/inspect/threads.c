/*
 * Interpreters, thread states and their Python stacks, joined with the threads of the image by the kernel's id.
 * Frames of the same code at the same instruction are one report_frame, so folding compares pointers.
 */
#include <stdio.h>
#include <stdlib.h>

#include <uthash.h>

#include "inspect/native.h"
#include "inspect/parts.h"
#include "python/prove.h"

/* The kernel tells a start in clock ticks, and file times lag by one: what was written just before the start is not newer. */
#define SOURCE_SLACK_NS 1000000000

/* What is kept while the threads are collected; gone afterwards. */
struct code_entry {
	addr_t addr;
	int rc;
	bool no_source; /* it has a file whose text could not be had */
	bool denied;    /* whose reading was not permitted */
	bool changed;   /* ... whose text is newer than the process */
	struct py_code code;
	UT_hash_handle hh;
};
struct frame_entry {
	struct { addr_t code; int64_t lasti, interpreter; } key;
	struct report_frame *frame;
	bool broken;    /* its code object, its name or that of its file, cannot be read */
	const char *lacks; /* which, where its name does not tell; NULL */
	const char *nowhere; /* why its line is not known; NULL: it is, or there is none */
	UT_hash_handle hh;
};
struct name_entry {
	uint64_t ident;
	struct str name;
	UT_hash_handle hh;
};
/* The oldest frame of a thread state: no other one has it too. */
struct oldest_entry {
	addr_t frame, state;
	int64_t tid;
	UT_hash_handle hh;
};
struct tid_entry {
	pid_t tid;
	size_t image, report; /* index + 1; 0: none */
	size_t first, last;   /* of its states, index + 1; 0: none */
	bool runs, unplaced;  /* one of them has frames; and its place on the stack is not known */
	UT_hash_handle hh;
};
/* A thread state, and the next one of the same thread. */
struct state {
	struct py_thread th;
	size_t interp;        /* index in the report */
	size_t next;          /* index + 1; 0: none */
	bool chained;         /* it stands in another one's report_thread */
	bool placed, runs;    /* placed: runs and place are known */
	addr_t place;         /* of its innermost evaluation on the C stack; 0: not known, or it has no frames */
};

struct collect {
	struct target *t;
	struct report *r;
	const struct limits *lim;
	struct code_entry *codes;
	struct frame_entry *frames;
	struct name_entry *names;
	struct tid_entry *tids;
	struct oldest_entry *oldest;
	struct native_list stack;
	struct VEC(struct state) states;  /* interpreter by interpreter, the oldest first */
	struct VEC(struct native_python) python; /* of one thread, innermost first, shims too */
	struct VEC(struct native_part) parts;    /* of them */
	struct natives *natives; /* NULL: native stacks were not asked for */
	size_t n_threads, n_stale, n_names_left;
	bool main_known;        /* Python says which thread is the main one */
	uint64_t main_ident;    /* that one's */
	bool names_left;        /* Python's names are what a cut file still holds of them */
	struct { uint64_t n; int64_t tid; struct str what; } broken, nowhere; /* frames whose code, or position in it, cannot be read: the first one's thread and text */
	uint64_t names_unread;  /* in threading's list; UINT64_MAX: how many is not known */
	uint64_t walked;        /* frames, shims too */
	bool in_threading;      /* code of threading.py runs */
	bool folders;           /* a file has a relative name */
	int64_t newest;         /* sources written later than this may not be what ran; 0: not known */
};

static struct code_entry *code_of(struct collect *c, addr_t addr)
{
	struct code_entry *e;
	HASH_FIND(hh, c->codes, &addr, sizeof addr, e);
	if (!e) {
		e = arena_alloc(c->t->arena, sizeof *e);
		e->addr = addr;
		e->rc = py_code_read(c->t->py, addr, c->r->arena, &e->code);
		HASH_ADD(hh, c->codes, addr, sizeof e->addr, e);
	}
	return e;
}

/* Why there is no code object, in the place of a function's name. */
static struct str no_code(struct arena *a, const struct py_frame *f)
{
	if (!f->stands)
		return str_printf(a, "<frame 0x%llx without a code object>", (unsigned long long)f->addr);
	if (f->no_code == ERR_ABSENT)
		return str_printf(a, "<0x%llx is not a code object>", (unsigned long long)f->stands);
	return str_printf(a, "<code 0x%llx: %s>", (unsigned long long)f->stands, err_word(f->no_code));
}

static struct frame_entry *frame_of(struct collect *c, const struct py_frame *f, int64_t interpreter)
{
	/* Those without code are told apart by what stands there, or by themselves. */
	struct frame_entry *e, key = { .key = { f->code ? f->code : f->stands ? f->stands : f->addr, f->no_code ? -3 : f->lasti, interpreter } };
	HASH_FIND(hh, c->frames, &key.key, sizeof key.key, e);
	if (e)
		return e;
	e = arena_alloc(c->t->arena, sizeof *e);
	e->key = key.key;
	e->frame = arena_alloc(c->r->arena, sizeof *e->frame);
	HASH_ADD(hh, c->frames, key, sizeof e->key, e);

	struct report_frame *out = e->frame;
	out->python = true;
	out->interpreter = interpreter;
	out->code = key.key.code;
	out->at = (struct report_position){ -1, -1, -1, -1 };
	if (f->no_code) {
		out->function = no_code(c->r->arena, f);
		out->unread = e->broken = true;
		return e;
	}
	struct code_entry *entry = code_of(c, f->code);
	const struct py_code *code = &entry->code;
	if (entry->rc < 0) {
		out->function = str_printf(c->r->arena, "<code 0x%llx: %s>", (unsigned long long)f->code, err_word(entry->rc));
		out->unread = e->broken = true;
		return e;
	}
	out->function = code->name;
	if (!code->name.s) {
		out->function = str_printf(c->r->arena, "<code 0x%llx: its name is not in the capture>", (unsigned long long)f->code);
		e->broken = true;
	}
	out->qualname = code->qualname;
	out->file = code->file;
	if (!code->file.s && !e->broken) {
		e->broken = true;
		e->lacks = "its file's name cannot be read";
	}
	out->unread = e->broken || !code->file.s;
	struct position at;
	int rc = py_code_position(c->t->py, f->code, f->lasti, &at);
	if (rc < 0 && rc != ERR_ABSENT)
		e->nowhere = f->lasti == LASTI_NOWHERE ? "its instruction lies outside of its code" : rc == ERR_CORRUPT ? "its table of lines does not have its instruction" : "its table of lines is not captured";
	c->in_threading |= str_is(str_base(code->file), "threading.py");
	if (rc == 0)
		out->at = (struct report_position){ at.line, at.end_line, at.col, at.end_col };
	if (code->file.len && code->file.s[0] != '/' && code->file.s[0] != '<' && !c->folders) { /* only they need the process's environment to be read */
		folders_open(c->t);
		c->folders = true;
	}
	if (out->at.line > 0 && code->file.len && code->file.s[0] != '<' &&
	    (rc = opener_line(modules_opener(c->t->mods), c->r->arena, code->file, (unsigned)out->at.line, &out->source)) < 0) {
		out->source = (struct str){ 0 };
		entry->no_source = true;
		entry->denied = rc == ERR_PERM;
	}
	int64_t written;
	if (out->source.s && c->newest && !entry->changed && opener_source_time(modules_opener(c->t->mods), code->file, &written) == 0)
		entry->changed = written > c->newest + SOURCE_SLACK_NS;
	return e;
}

static struct str why_broken(struct collect *c, int rc, addr_t at, const char *why)
{
	unsigned long long a = at;
	uint8_t byte;
	if (why)
		return str_of(why);
	if (rc == ERR_CORRUPT && !at)
		return str_of("the chain of frames ends in the middle of a run of the evaluation loop");
	switch (rc) {
	case ERR_FAULT:
		return str_printf(c->r->arena, "frame 0x%llx %sis not in the capture", a, image_read(c->t->img, at, &byte, 1) == 0 ? "leads to memory that " : "");
	case ERR_CORRUPT: return str_printf(c->r->arena, "frame 0x%llx cannot be right: the chain loops there or does not lead to a frame", a);
	}
	return str_printf(c->r->arena, "frame 0x%llx: %s", a, err_word(rc));
}

/* The collected stack, innermost first, as the report has it: oldest first, repetitions folded. */
static void put_stack(struct collect *c, struct report_thread *out)
{
	for (size_t i = 0, j = c->stack.n; i + 1 < j; i++) {
		const struct report_frame *swap = c->stack.p[i];
		c->stack.p[i] = c->stack.p[--j];
		c->stack.p[j] = swap;
	}
	report_fold(c->r, c->stack.p, c->stack.n, &out->runs, &out->n_runs);
	out->n_frames = c->stack.n;
}

/* Chains that meet end alike; frames belong to one thread state alone. */
static const struct oldest_entry *other_of(struct collect *c, addr_t frame, addr_t state, int64_t tid)
{
	struct oldest_entry *e;
	HASH_FIND(hh, c->oldest, &frame, sizeof frame, e);
	if (e)
		return e->state == state ? NULL : e;
	e = arena_alloc(c->t->arena, sizeof *e);
	*e = (struct oldest_entry){ .frame = frame, .state = state, .tid = tid };
	HASH_ADD(hh, c->oldest, frame, sizeof e->frame, e);
	return NULL;
}

/*
 * Frames that are read of all threads together, and of each at least: healthy threads have less, but nothing keeps thousands of damaged ones from
 * leading to one long chain.
 */
enum { FRAMES_OF_ALL = 10000000, FRAMES_LEAST = 1000 };

/* The Python frames of one thread state, onto c->python. What the walk ended with. */
static int frames_of(struct collect *c, const struct state *st, uint64_t *shown, struct report_thread *out)
{
	struct native_part part = { .state = st->th.addr, .first = c->python.n };
	const uint64_t shown_before = *shown, left = c->walked < FRAMES_OF_ALL ? FRAMES_OF_ALL - c->walked : 0;
	const uint64_t most = left >= c->lim->frames ? c->lim->frames : left > FRAMES_LEAST ? left : c->lim->frames < FRAMES_LEAST ? c->lim->frames : FRAMES_LEAST;
	struct walk w = left ? py_thread_frames(c->t->py, &st->th) : py_frames(c->t->py, st->th.frame);
	struct py_frame f;
	int rc = 0;
	while ((rc = py_next_frame(&w, &f)) > 0 && (f.shim || *shown < most) && c->python.n - part.first <= 2 * most) { /* each may have a shim */
		struct frame_entry *e = f.shim ? NULL : frame_of(c, &f, c->r->interps.p[st->interp].id);
		*vec_push(&c->python) = (struct native_python){ e ? e->frame : NULL, f.addr, f.entry };
		*shown += !f.shim;
		if (e && e->broken && !c->broken.n++) {
			c->broken.tid = out->tid;
			c->broken.what = e->lacks ? str_printf(c->r->arena, STR_FMT ": %s", STR_ARG(e->frame->function), e->lacks) : e->frame->function;
		}
		if (e && e->nowhere && !c->nowhere.n++) {
			c->nowhere.tid = out->tid;
			c->nowhere.what = str_printf(c->r->arena, STR_FMT ": %s", STR_ARG(e->frame->function), e->nowhere);
		}
	}
	part.n = c->python.n - part.first;
	c->walked += part.n;
	*vec_push(&c->parts) = part;
	const struct oldest_entry *other = rc == 0 && part.n ? other_of(c, c->python.p[c->python.n - 1].addr, st->th.addr, out->tid) : NULL;
	if (other && st->th.stale) {
		c->python.n = part.first;
		*shown = shown_before;
		c->parts.p[c->parts.n - 1].n = 0;
		out->broken = str_printf(c->r->arena, "its stack was used again, by thread %lld", (long long)other->tid);
		rc = ERR_CORRUPT;
	} else if (other) {
		out->broken = str_printf(c->r->arena, "its frames lead to those of thread %lld: one of the two is led astray", (long long)other->tid);
		report_problem(c->r, P_FRAMES_SHARED, (long long)out->tid, (long long)other->tid, whole_or(c->t, NOT_THERE));
		rc = ERR_CORRUPT;
	} else if (rc < 0) {
		out->broken = why_broken(c, rc, w.next, w.why);
		report_problem(c->r, P_FRAMES_BROKEN, (long long)out->tid, str_c(c->r->arena, out->broken), (unsigned long long)*shown, whole_or(c->t, NOT_THERE));
	} else if (rc > 0) {
		report_problem(c->r, P_FRAMES_LIMIT, (long long)out->tid, (unsigned long long)*shown);
	}
	return rc;
}

/* Of states[0..n), innermost first.  Native frames too, if any are known of the image's thread `image` (index + 1; 0: none). */
static void stack_of(struct collect *c, const struct state *const *states, size_t n, size_t image, struct report_thread *out)
{
	bool broken = false;
	uint64_t shown = 0;
	c->python.n = c->parts.n = 0;
	for (size_t i = 0; i < n; i++)
		broken |= frames_of(c, states[i], &shown, out) != 0;
	out->active = shown > 0;
	c->stack.n = 0;
	if (c->natives && image) {
		natives_stack(c->natives, image - 1, c->parts.p, c->parts.n, c->python.p, c->python.n, broken, out, &c->stack);
	} else {
		for (size_t i = 0; i < c->python.n; i++)
			if (c->python.p[i].frame)
				*vec_push(&c->stack) = c->python.p[i].frame;
	}
	put_stack(c, out);
}

/* What the image's own thread says, laid into the report's. */
static void native_facts(struct collect *c, const struct thread *t, struct report_thread *out)
{
	out->tid = t->tid;
	if (!out->name.s && t->name.s) {
		out->name = t->name;
		out->name_from_kernel = true;
	}
	out->on_cpu = t->regs.syscall.known && t->regs.syscall.nr < 0;
	out->waits_in = syscall_waits(image_abi(c->t->img), t->regs.syscall.known ? t->regs.syscall.nr : -1, t->wchan);
	out->stopped = t->state == 'T'; /* proc(5): by a signal, before pysnap came */
}

static void add_name(void *arg, uint64_t ident, struct str name)
{
	struct collect *c = arg;
	struct name_entry *e;
	HASH_FIND(hh, c->names, &ident, sizeof ident, e);
	if (e)
		return;
	e = arena_alloc(c->t->arena, sizeof *e);
	e->ident = ident;
	e->name = name;
	HASH_ADD(hh, c->names, ident, sizeof e->ident, e);
}

static struct tid_entry *tid_entry(struct collect *c, pid_t tid)
{
	struct tid_entry *e;
	HASH_FIND(hh, c->tids, &tid, sizeof tid, e);
	return e;
}

struct thread_vec VEC(struct py_thread);
static void add_thread(void *arg, const struct py_thread *t)
{
	struct thread_vec *list = arg;
	*vec_push(list) = *t;
}

/* An interpreter and its thread states, the oldest first as the report has them. */
static void take_interp(struct collect *c, const struct py_interp *in, size_t nth)
{
	const struct py *py = c->t->py;
	struct walk w = py_threads(py, in);
	struct py_thread th;
	struct thread_vec list = { 0 }, more = { 0 };
	bool misfit = false;
	int rc;
	while ((rc = py_next_thread(&w, &th)) > 0 && c->states.n + list.n < c->lim->threads)
		*vec_push(&list) = th;
	int64_t id = HAS(py, PyInterp, id) ? in->id : (int64_t)nth;
	if (rc < 0)
		report_problem(c->r, P_THREADS_BROKEN, (long long)id, rc == ERR_CORRUPT ? "loops or cannot be right" : err_word(rc), (unsigned long long)list.n,
			       whole_or(c->t, NOT_THERE));
	else if (rc > 0)
		report_problem(c->r, P_THREADS_LIMIT, (unsigned long long)c->lim->threads);
	if (rc <= 0)
		(void)py_unlisted(py, in, list.p, list.n, &misfit, add_thread, &more);
	if (more.n || (misfit && rc == 0))
		report_problem(c->r, P_THREADS_UNLISTED, (long long)id, misfit ? "its links back do not fit" : "it ends early", more.n);
	for (size_t i = 0; i < more.n && c->states.n + list.n < c->lim->threads; i++)
		*vec_push(&list) = more.p[i];
	vec_free(&more);
	*vec_push(&c->r->interps) = (struct report_interp){ id, in->main, in->gil_known, in->gil_locked, -1, false };
	py_find_starting(py, list.p, list.n);
	for (size_t i = list.n; i-- > 0;)
		*vec_push(&c->states) = (struct state){ .th = list.p[i], .interp = nth };
	vec_free(&list);
}

enum { PLACE_FRAMES = 100000 }; /* of one state looked at; a run of the evaluation loop that has more is not placed */

/*
 * Where on the C stack its innermost evaluation lies: 3.10 to 3.12 keep a C frame there, from 3.12 on what ends a run of frames
 * does.  Only asked of a thread that has several states.
 */
static void place_state(const struct py *py, struct state *st, unsigned long *left)
{
	addr_t at, root = 0, base = 0;
	if (st->placed)
		return;
	st->placed = true;
	const bool by_cframe = READ(py, st->th.addr, PyThread, cframe, &at) == 0;
	(void)!READ(py, st->th.addr, PyThread, base_frame, &base);
	struct walk w = py_frames(py, st->th.frame);
	struct py_frame f;
	int rc = 1;
	for (unsigned n = 0; n < PLACE_FRAMES && *left && !(st->runs && (st->place || by_cframe)) && (rc = py_next_frame(&w, &f)) > 0; n++, --*left) {
		st->runs |= !f.shim;
		if (f.shim && !st->place && f.addr != base)
			st->place = f.addr;
	}
	st->runs |= rc < 0 || (!*left && st->th.frame);
	if (!st->runs)
		st->place = 0;
	else if (by_cframe)
		st->place = READ(py, st->th.addr, PyThread, root_cframe, &root) == 0 && at == root ? 0 : at;
	if (st->runs && !st->place)
		st->place = st->th.at;
}

/*
 * A further interpreter's state names the thread that made it, whoever runs it.  From 3.10 on src/python finds the right one by
 * the C frame; before, all that is known is that this state has frames.
 */
static bool runner_unsure(const struct collect *c, const struct state *st, const struct tid_entry *e)
{
	const struct py *py = c->t->py;
	return !st->th.sure && !c->r->interps.p[st->interp].main && st->th.frame && e && e->first && !HAS(py, PyThread, cframe) && !HAS(py, PyThread, current_frame);
}

/*
 * States of one thread become one stack: those that run Python by their places on it.  A state whose place is not known while
 * another one runs stands by itself.
 */
static void chain_states(struct collect *c)
{
	const struct py *py = c->t->py;
	CLEANUP(cleanup_free) struct py_thread **all = xcalloc(c->states.n + 1, sizeof *all);
	unsigned long left = FRAMES_OF_ALL;
	size_t unsure = 0;
	pid_t unsure_tid = 0;
	for (size_t i = 0; i < c->states.n; i++)
		all[i] = &c->states.p[i].th;
	py_find_runners(py, all, c->states.n);
	for (size_t i = 0; i < c->states.n; i++) {
		struct state *st = &c->states.p[i];
		struct tid_entry *e = st->th.tid ? tid_entry(c, st->th.tid) : NULL;
		if (!e || !e->image || runner_unsure(c, st, e))
			continue;
		if (!e->first) {
			e->first = e->last = i + 1;
			continue;
		}
		if (e->first == e->last) {
			struct state *one = &c->states.p[e->first - 1];
			place_state(py, one, &left);
			e->runs = one->runs;
			e->unplaced = one->runs && !one->place;
		}
		place_state(py, st, &left);
		if (st->runs && (st->th.unsure || (e->runs && (e->unplaced || !st->place)))) {
			if (st->th.unsure && !unsure++)
				unsure_tid = st->th.tid;
			continue;
		}
		e->runs |= st->runs;
		e->unplaced |= st->runs && !st->place;
		c->states.p[e->last - 1].next = i + 1;
		e->last = i + 1;
		st->chained = true;
	}
	if (unsure)
		report_problem(c->r, P_RUNNER_UNSURE, unsure, (long long)unsure_tid, whole_or(c->t, "nothing lifts this: the process's memory does not tell"));
}

/*
 * The lock is a thread state's.  One that runs nothing only says which thread made it: where that has another of the same interpreter, this one may
 * have been made for another thread, which took it (PyThreadState_New, PyEval_AcquireThread), so that nothing tells who holds the lock.
 */
static void place_holders(struct collect *c)
{
	unsigned long left = FRAMES_OF_ALL;
	CLEANUP(cleanup_free) struct state **holder = xcalloc(c->r->interps.n + 1, sizeof *holder);
	CLEANUP(cleanup_free) bool *doubtful = xcalloc(c->r->interps.n + 1, sizeof *doubtful);
	for (size_t i = 0; i < c->states.n; i++)
		if (c->states.p[i].th.holds_gil) {
			holder[c->states.p[i].interp] = &c->states.p[i];
			place_state(c->t->py, &c->states.p[i], &left);
		}
	for (size_t i = 0; i < c->states.n; i++) {
		const struct state *st = &c->states.p[i], *h = holder[st->interp];
		doubtful[st->interp] |= h && h != st && !h->runs && st->th.tid && st->th.tid == h->th.tid;
	}
	for (size_t i = 0; i < c->r->interps.n; i++)
		if (doubtful[i])
			holder[i]->th.holds_gil = false;
}

struct placed { bool runs; addr_t at; size_t order; const struct state *st; };

/* Innermost first: stacks grow to lower addresses; those that run nothing are outside. */
static int placed_order(const void *a, const void *b)
{
	const struct placed *x = a, *y = b;
	if (x->runs != y->runs)
		return x->runs ? -1 : 1;
	if (x->at != y->at)
		return x->at < y->at ? -1 : 1;
	return x->order > y->order ? -1 : x->order < y->order;
}

static void take_thread(struct collect *c, size_t first, bool have_main, uint64_t main_ident)
{
	const struct state *st = &c->states.p[first];
	struct VEC(struct placed) chain = { 0 };
	for (size_t k = first + 1; k; k = c->states.p[k - 1].next) {
		const struct state *s = &c->states.p[k - 1];
		*vec_push(&chain) = (struct placed){ s->runs, s->place, chain.n, s };
	}
	qsort(chain.p, chain.n, sizeof *chain.p, placed_order);

	struct report_thread *out = vec_push(&c->r->threads);
	size_t index = c->r->threads.n - 1;
	struct tid_entry *e = st->th.tid ? tid_entry(c, st->th.tid) : NULL;
	out->tid = st->th.tid ? st->th.tid : -1;
	out->python_id = st->th.ident;
	out->state = chain.p[0].st->th.addr;
	out->has_python = true;
	out->stale = st->th.stale;
	out->starting = st->th.starting;
	c->n_stale += st->th.stale;
	int64_t *ids = arena_alloc(c->r->arena, chain.n * sizeof *ids);
	const struct state **inner = arena_alloc(c->t->arena, chain.n * sizeof *inner);
	for (size_t i = 0; i < chain.n; i++) {
		const struct report_interp *in = &c->r->interps.p[chain.p[i].st->interp];
		inner[i] = chain.p[i].st;
		ids[chain.n - 1 - i] = in->id;
		out->holds_gil |= inner[i]->th.holds_gil;
		out->main |= in->main && have_main && inner[i]->th.ident == main_ident && !inner[i]->th.starting;
	}
	out->interpreter = chain.p[0].runs ? ids[chain.n - 1] : ids[0];
	const size_t n_states = chain.n;
	out->interpreters = ids;
	for (size_t i = 0; i < n_states; i++) /* of states of one interpreter that follow each other, one */
		if (!i || ids[i] != ids[out->n_interpreters - 1])
			ids[out->n_interpreters++] = ids[i];
	out->n_states = n_states;
	vec_free(&chain);
	struct name_entry *name = NULL;
	if (!st->th.starting)
		HASH_FIND(hh, c->names, &st->th.ident, sizeof st->th.ident, name);
	if (name)
		out->name = name->name;
	out->name_left = name && c->names_left;
	c->n_names_left += out->name_left;
	if (e && e->image && e->first != first + 1) { /* a further state of a thread that is there already */
		out->again = true;
		if (runner_unsure(c, st, e)) {
			out->tid = -1;
			out->python_id = 0; /* the maker's */
			out->name = (struct str){ 0 };
			report_problem(c->r, P_INTERP_THREAD, (long long)out->interpreter);
			e = NULL;
		}
	}
	if (e && e->image) {
		const struct thread *native;
		image_threads(c->t->img, &native);
		native_facts(c, &native[e->image - 1], out);
		out->image = e->image;
		if (!e->report)
			e->report = index + 1;
	}
	stack_of(c, inner, n_states, e ? e->image : 0, out);
}

struct holder { addr_t state; int64_t tid; /* -1: it holds none, or has no thread */ bool runs; };

static int holder_order(const void *a, const void *b)
{
	const struct holder *x = a, *y = b;
	return x->state < y->state ? -1 : x->state > y->state;
}

/*
 * Where what the lock says cannot be right, it is taken for unknown.  From 3.14 on a thread sets holds_gil after it has the lock and clears
 * it before it drops it (Python/ceval_gil.c).  A lock is said to lack only where a thread runs Python.  *next: the interpreter's first state.
 */
static void gil_doubts(struct collect *c, const struct py_interp *in, size_t nth, size_t *next)
{
	const struct py *py = c->t->py;
	const char *doubt = in->gil_doubt;
	bool runs = doubt && in->gil_known;
	for (; *next < c->states.n && c->states.p[*next].interp == nth; ++*next) {
		const struct state *st = &c->states.p[*next];
		uint64_t holds;
		runs |= st->th.frame != 0 && st->th.tid;
		if (in->gil_known && !in->gil_locked && READ(py, st->th.addr, PyThread, holds_gil, &holds) == 0 && holds == 1 && !py->free_threaded) {
			doubt = "the lock is free, though a thread state says that it holds it";
			runs = true;
		}
	}
	if (!doubt || !runs || py->salvaged || py->phase != PHASE_RUNNING || py_phase(py, in->addr) == PHASE_ENDING)
		return;
	c->r->interps.p[nth].gil_known = c->r->interps.p[nth].gil_locked = false;
	report_problem(c->r, P_GIL_DOUBT, (long long)c->r->interps.p[nth].id, doubt, whole_or(c->t, NOT_THERE));
}

/* Who holds the lock of each interpreter; several may share one.  list: the newest first, as the report has them last. */
static void gil_holders(struct collect *c, const struct py_interp *list, size_t n)
{
	struct VEC(struct holder) all = { 0 };
	for (size_t i = 0; i < c->states.n; i++)
		*vec_push(&all) = (struct holder){ c->states.p[i].th.addr, c->states.p[i].th.holds_gil && c->states.p[i].th.tid ? c->states.p[i].th.tid : -1, c->states.p[i].runs };
	if (all.n)
		qsort(all.p, all.n, sizeof *all.p, holder_order);
	addr_t said = 0;
	for (size_t i = n; i-- > 0;) {
		struct holder key = { .state = list[i].gil_holder };
		const struct holder *h = all.n ? bsearch(&key, all.p, all.n, sizeof *all.p, holder_order) : NULL;
		if (h && h->tid > 0) {
			c->r->interps.p[n - 1 - i].gil_holder_tid = h->tid;
			c->r->interps.p[n - 1 - i].gil_holder_runs = h->runs;
		}
		/* Those that share a lock come one after the other. */
		if (!list[i].gil_locked || !list[i].gil_holder || list[i].gil_holder == said || h)
			continue;
		said = list[i].gil_holder;
		report_problem(c->r, P_GIL_HOLDER, (long long)c->r->interps.p[n - 1 - i].id, (unsigned long long)said, whole_or(c->t, NOT_THERE));
	}
	vec_free(&all);
}

static void python_threads(struct collect *c)
{
	const struct py *py = c->t->py;
	uint64_t main_ident = 0;
	bool have_main = py_main_ident(py, &main_ident) == 0;
	c->main_known = have_main;
	c->main_ident = main_ident;
	struct walk w = py_interps(py);
	struct py_interp in;
	struct VEC(struct py_interp) list = { 0 };
	int rc, named = ERR_ABSENT;
	while ((rc = py_next_interp(&w, &in)) > 0)
		*vec_push(&list) = in;
	if (rc < 0)
		report_problem(c->r, P_INTERPS_BROKEN, rc == ERR_CORRUPT ? "loops or cannot be right" : err_word(rc), (unsigned long long)list.n,
			       whole_or(c->t, NOT_THERE));
	uint64_t names_left = PY_NAMES_LOOKED;
	for (size_t i = list.n; i-- > 0;) { /* newest first -> the main interpreter first */
		uint64_t lost = 0;
		int n = py_thread_names(py, &list.p[i], &names_left, c->r->arena, &lost, add_name, c);
		c->names_unread = lost > UINT64_MAX - c->names_unread ? UINT64_MAX : c->names_unread + lost;
		if (n >= 0 || named < 0)
			named = n >= 0 ? n : n == ERR_ABSENT ? named : n;
	}
	c->names_left = py->salvaged;
	if (py->salvaged && (rc = py_names_left(py, c->r->arena, add_name, c)) > 0)
		named = rc;
	for (size_t i = list.n; i-- > 0;)
		take_interp(c, &list.p[i], list.n - 1 - i);
	chain_states(c);
	place_holders(c);
	for (int stale = 0; stale < 2; stale++) /* what those show that have no thread any more is the others', if both have it */
		for (size_t i = 0; i < c->states.n; i++)
			if (!c->states.p[i].chained && c->states.p[i].th.stale == stale)
				take_thread(c, i, have_main, main_ident);
	gil_holders(c, list.p, list.n);
	for (size_t i = list.n, next = 0; i-- > 0;)
		gil_doubts(c, &list.p[i], list.n - 1 - i, &next);
	c->n_threads = c->states.n;
	vec_free(&list);
	if (named == ERR_ABSENT && c->in_threading)
		report_problem(c->r, P_NAMES_MISSING, "threading is not found in sys.modules, though it runs", whole_or(c->t, NOT_THERE));
	else if (named < 0 && named != ERR_ABSENT)
		report_problem(c->r, P_NAMES_MISSING, err_word(named), whole_or(c->t, NOT_THERE));
	if (c->names_unread)
		report_problem(c->r, P_NAMES_UNREAD, c->names_unread == UINT64_MAX ? "some" : str_c(c->r->arena, str_printf(c->r->arena, "%llu", (unsigned long long)c->names_unread)),
			       whole_or(c->t, NOT_THERE));
	if (c->n_stale)
		report_problem(c->r, P_STALE_THREADS, c->n_stale);
	if (c->n_names_left)
		report_problem(c->r, P_NAMES_LEFT, c->n_names_left, whole_or(c->t, NOT_THERE));
	if (c->broken.n)
		report_problem(c->r, P_CODE_BROKEN, (unsigned long long)c->broken.n, (long long)c->broken.tid, str_c(c->r->arena, c->broken.what),
			       whole_or(c->t, NOT_THERE));
	if (c->nowhere.n)
		report_problem(c->r, P_LINES_UNREAD, (unsigned long long)c->nowhere.n, (long long)c->nowhere.tid, str_c(c->r->arena, c->nowhere.what),
			       whole_or(c->t, NOT_THERE));
}

/* The main thread's state is there from Py_Initialize until Python ends; where it is not, the list of them was cut. */
static bool lacks_main(const struct collect *c)
{
	const struct py *py = c->t->py;
	return c->main_known && py->runtime && !py->salvaged && !py->other && py->phase == PHASE_RUNNING && c->states.n && c->states.n < c->lim->threads &&
	       py_phase(py, py->interp_head) != PHASE_ENDING;
}

/* Threads of the image that have no thread state. */
static void native_threads(struct collect *c)
{
	const struct thread *native;
	size_t n = image_threads(c->t->img, &native);
	if (!n)
		report_problem(c->r, P_NO_THREADS);
	const bool tls_is_ident = abi_tls_is_self(image_abi(c->t->img));
	bool main_shown = false;
	for (size_t i = 0; i < c->r->threads.n; i++)
		main_shown |= c->r->threads.p[i].main;
	for (size_t i = 0; i < n; i++) {
		struct tid_entry *e = tid_entry(c, native[i].tid);
		if (!e || e->report || e->image != i + 1)
			continue;
		if (i && c->n_threads >= c->lim->threads) { /* the first is the one that the signal came to */
			report_problem(c->r, P_THREADS_LIMIT, (unsigned long long)c->lim->threads);
			break;
		}
		struct report_thread *out = vec_push(&c->r->threads);
		out->interpreter = -1;
		/* Python may have been initialised in another thread than the process's first. */
		out->main = c->main_known && !main_shown ? tls_is_ident && native[i].regs.tls == c->main_ident
							 : !c->main_known && native[i].tid == image_facts(c->t->img)->pid;
		native_facts(c, &native[i], out);
		out->image = i + 1;
		c->stack.n = 0;
		if (c->natives)
			natives_stack(c->natives, i, NULL, 0, NULL, 0, false, out, &c->stack);
		if (out->main && !out->broken.s && lacks_main(c)) {
			out->broken = STR("no thread state of it was found, though it is Python's main thread");
			report_problem(c->r, P_FRAMES_BROKEN, (long long)out->tid, str_c(c->r->arena, out->broken), 0ULL, whole_or(c->t, NOT_THERE));
		}
		put_stack(c, out);
		e->report = c->r->threads.n;
		c->n_threads++;
	}
}

/* Of what kinds the names of files are: what helps differs. */
enum { NAME_ABSOLUTE = 1, NAME_RELATIVE = 2, NAME_UNREAD = 4 /* has no suffix of a source */ };

enum what_of { NEWER, MISSING, DENIED };

/* Files whose source is that, each once: how many, the first names as text, and their kinds. */
static size_t files_of(struct collect *c, enum what_of what, const char **names, unsigned *kinds)
{
	*kinds = 0;
	struct seen { struct str file; UT_hash_handle hh; } *seen = NULL, *s;
	struct code_entry *e, *next;
	struct sb text = { 0 };
	size_t n = 0;
	HASH_ITER(hh, c->codes, e, next) {
		if (!(what == NEWER ? e->changed : e->no_source && e->denied == (what == DENIED)))
			continue;
		HASH_FIND(hh, seen, e->code.file.s, e->code.file.len, s);
		if (s)
			continue;
		s = arena_alloc(c->t->arena, sizeof *s);
		s->file = e->code.file;
		HASH_ADD_KEYPTR(hh, seen, s->file.s, s->file.len, s);
		*kinds |= !opener_is_source(s->file) ? NAME_UNREAD : s->file.s[0] == '/' ? NAME_ABSOLUTE : NAME_RELATIVE;
		if (n < 3) {
			sb_printf(&text, n ? ", " : "");
			sb_str(&text, s->file);
		}
		n++;
	}
	HASH_CLEAR(hh, seen);
	if (n > 3)
		sb_printf(&text, ", ...");
	struct str all = sb_take(&text, c->r->arena);
	*names = str_c(c->r->arena, all);
	return n;
}

static void source_problems(struct collect *c)
{
	const char *names;
	unsigned kinds;
	size_t n = files_of(c, NEWER, &names, &kinds);
	if (n)
		report_problem(c->r, P_SOURCE_CHANGED, image_facts(c->t->img)->start_ns ? "the process" : "the core", n, names, kinds & NAME_RELATIVE ? "; .=NEW for relative names" : "");
	n = files_of(c, MISSING, &names, &kinds);
	if (n)
		report_problem(c->r, P_SOURCE_MISSING, n, names,
			       kinds & NAME_ABSOLUTE ? "--source-map OLD=NEW, or --sysroot DIR" : "",
			       kinds & NAME_RELATIVE ? kinds & NAME_ABSOLUTE ? "; --source-map .=DIR for relative names" : "--source-map .=DIR, with the folder that has them" : "",
			       !(kinds & NAME_UNREAD) ? "" : kinds == NAME_UNREAD ? "nothing: only names that end in .py and the like are read"
				       : "; nothing for names that do not end in .py or the like");
	n = files_of(c, DENIED, &names, &kinds);
	if (n)
		report_problem(c->r, P_SOURCE_DENIED, n, names);
	folders_doubt(c->t, c->r);
}

static int run(struct target *t, const struct limits *lim, struct report *r)
{
	const struct image_facts *f = image_facts(t->img);
	struct collect c = { .t = t, .r = r, .lim = lim, .newest = f->start_ns ? f->start_ns : f->written_ns };
	const struct thread *native;
	size_t n = image_threads(t->img, &native);
	for (size_t i = 0; i < n; i++) {
		if (tid_entry(&c, native[i].tid))
			continue;
		struct tid_entry *e = arena_alloc(t->arena, sizeof *e);
		e->tid = native[i].tid;
		e->image = i + 1;
		HASH_ADD(hh, c.tids, tid, sizeof e->tid, e);
	}
	c.natives = natives_new(t, r);
	if (t->py)
		python_threads(&c);
	native_threads(&c);
	threads_inherited_names(r);
	natives_end(c.natives);
	if (n && f->kind == IMAGE_CORE)
		for (size_t i = 0; i < r->threads.n; i++)
			r->threads.p[i].crashed = r->threads.p[i].signalled = r->threads.p[i].tid == native[0].tid; /* the verdict takes it back where that is not so, and sorts */
	source_problems(&c);

	HASH_CLEAR(hh, c.codes);
	HASH_CLEAR(hh, c.frames);
	HASH_CLEAR(hh, c.names);
	HASH_CLEAR(hh, c.tids);
	HASH_CLEAR(hh, c.oldest);
	vec_free(&c.stack);
	vec_free(&c.states);
	vec_free(&c.python);
	vec_free(&c.parts);
	return 0;
}

const struct inspection inspection_threads = { "threads", "interpreters, threads and their Python stacks", run };
