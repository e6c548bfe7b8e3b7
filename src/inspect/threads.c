/*
 * Interpreters, thread states and their Python stacks, joined with the threads of the image by the kernel's id.
 * Frames of the same code at the same instruction are one report_frame, so folding compares pointers.
 */
#include <stdio.h>
#include <stdlib.h>

#include <uthash.h>

#include "inspect/native.h"
#include "inspect/parts.h"

/* The kernel tells a start in clock ticks, and file times lag by one: what was written just before the start is not newer. */
#define SOURCE_SLACK_NS 1000000000

/* What is kept while the threads are collected; gone afterwards. */
struct code_entry {
	addr_t addr;
	int rc;
	bool no_source; /* it has a file whose text could not be had */
	bool changed;   /* ... whose text is newer than the process */
	struct py_code code;
	UT_hash_handle hh;
};
struct frame_entry {
	struct { addr_t code; int64_t lasti; } key;
	struct report_frame *frame;
	bool broken;    /* its code object, or its name, cannot be read */
	UT_hash_handle hh;
};
struct name_entry {
	uint64_t ident;
	struct str name;
	UT_hash_handle hh;
};
struct tid_entry {
	pid_t tid;
	size_t image, report; /* index + 1; 0: none */
	UT_hash_handle hh;
};

struct collect {
	struct target *t;
	struct report *r;
	const struct limits *lim;
	struct code_entry *codes;
	struct frame_entry *frames;
	struct name_entry *names;
	struct tid_entry *tids;
	struct native_list stack;
	struct VEC(struct native_python) python; /* of one thread, innermost first, shims too */
	struct natives *natives; /* NULL: native stacks were not asked for */
	size_t n_threads, n_stale;
	struct { uint64_t n; int64_t tid; struct str what; } broken; /* frames whose code cannot be read, the first one's thread and text */
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

/* co_filename is relative when the program was started so; it is only looked for where the working directory is known. */
static struct str source_path(struct collect *c, struct str file)
{
	const struct image_facts *f = image_facts(c->t->img);
	if (!file.len || file.s[0] == '<')
		return (struct str){ 0 };
	if (file.s[0] == '/')
		return file;
	if (!f->cwd.len)
		return (struct str){ 0 };
	return str_printf(c->t->arena, STR_FMT "/" STR_FMT, STR_ARG(f->cwd), STR_ARG(file));
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

static struct frame_entry *frame_of(struct collect *c, const struct py_frame *f)
{
	/* Those without code are told apart by what stands there, or by themselves. */
	struct frame_entry *e, key = { .key = { f->code ? f->code : f->stands ? f->stands : f->addr, f->no_code ? -2 : f->lasti } };
	HASH_FIND(hh, c->frames, &key.key, sizeof key.key, e);
	if (e)
		return e;
	e = arena_alloc(c->t->arena, sizeof *e);
	e->key = key.key;
	e->frame = arena_alloc(c->r->arena, sizeof *e->frame);
	HASH_ADD(hh, c->frames, key, sizeof e->key, e);

	struct report_frame *out = e->frame;
	out->python = true;
	out->code = key.key.code;
	out->at = (struct report_position){ -1, -1, -1, -1 };
	if (f->no_code) {
		out->function = no_code(c->r->arena, f);
		e->broken = true;
		return e;
	}
	struct code_entry *entry = code_of(c, f->code);
	const struct py_code *code = &entry->code;
	if (entry->rc < 0) {
		out->function = str_printf(c->r->arena, "<code 0x%llx: %s>", (unsigned long long)f->code, err_word(entry->rc));
		e->broken = true;
		return e;
	}
	out->function = code->name;
	if (!code->name.s) {
		out->function = str_printf(c->r->arena, "<code 0x%llx: its name is not in the capture>", (unsigned long long)f->code);
		e->broken = true;
	}
	out->qualname = code->qualname;
	out->file = code->file;
	struct position at;
	if (py_code_position(c->t->py, f->code, f->lasti, &at) == 0)
		out->at = (struct report_position){ at.line, at.end_line, at.col, at.end_col };
	struct str path = source_path(c, code->file);
	if (out->at.line > 0 && code->file.len && code->file.s[0] != '<' &&
	    (!path.s || opener_line(modules_opener(c->t->mods), c->r->arena, path, (unsigned)out->at.line, &out->source) < 0)) {
		out->source = (struct str){ 0 };
		entry->no_source = true;
	}
	int64_t written;
	if (out->source.s && c->newest && !entry->changed && opener_source_time(modules_opener(c->t->mods), path, &written) == 0)
		entry->changed = written > c->newest + SOURCE_SLACK_NS;
	return e;
}

static struct str why_broken(struct collect *c, int rc, addr_t at)
{
	unsigned long long a = at;
	switch (rc) {
	case ERR_FAULT: return str_printf(c->r->arena, "frame 0x%llx is not in the capture", a);
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

/* Native frames too, if any are known of the image's thread `image` (index + 1; 0: none). */
static void stack_of(struct collect *c, const struct py_thread *th, size_t image, struct report_thread *out)
{
	struct walk w = py_frames(c->t->py, th->frame);
	struct py_frame f;
	int rc = 0;
	c->python.n = 0;
	uint64_t shown = 0;
	while (shown < c->lim->frames && (rc = py_next_frame(&w, &f)) > 0) {
		struct frame_entry *e = f.shim ? NULL : frame_of(c, &f);
		*vec_push(&c->python) = (struct native_python){ e ? e->frame : NULL, f.addr, f.entry };
		shown += !f.shim;
		if (e && e->broken && !c->broken.n++) {
			c->broken.tid = out->tid;
			c->broken.what = e->frame->function;
		}
	}
	out->active = shown > 0;
	if (rc < 0) {
		out->broken = why_broken(c, rc, w.next);
		report_problem(c->r, P_FRAMES_BROKEN, (long long)out->tid, str_c(c->r->arena, out->broken), (unsigned long long)shown);
	} else if (rc > 0) {
		report_problem(c->r, P_FRAMES_LIMIT, (long long)out->tid, (unsigned long long)shown);
	}
	c->stack.n = 0;
	if (c->natives && image) {
		natives_stack(c->natives, image - 1, th->addr, c->python.p, c->python.n, rc != 0, out, &c->stack);
	} else {
		for (size_t i = 0; i < c->python.n; i++)
			if (c->python.p[i].frame)
				*vec_push(&c->stack) = c->python.p[i].frame;
	}
	put_stack(c, out);
}

static const char *waits_in(const struct abi *abi, const struct regs *regs)
{
	static const struct { uint16_t machine; int64_t nr; const char *name; } calls[] = {
#define SYSCALL(machine, nr, name) { machine, nr, name },
#include "syscalls.def"
#undef SYSCALL
	};
	for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
		if (calls[i].machine == abi->machine && calls[i].nr == regs->syscall.nr)
			return calls[i].name;
	return NULL;
}

/* What the image's own thread says, laid into the report's. */
static void native_facts(struct collect *c, const struct thread *t, struct report_thread *out)
{
	out->tid = t->tid;
	if (!out->name.s && t->name.s) {
		out->name = t->name;
		out->name_from_kernel = true;
	}
	if (t->regs.syscall.known) {
		const char *call = t->regs.syscall.nr >= 0 ? waits_in(image_abi(c->t->img), &t->regs) : NULL;
		out->on_cpu = t->regs.syscall.nr < 0;
		if (call)
			out->waits_in = str_of(call);
	}
	if (!out->waits_in.s && t->wchan.len)
		out->waits_in = t->wchan;
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

static void interp_threads(struct collect *c, const struct py_interp *in, bool have_main, uint64_t main_ident)
{
	const struct py *py = c->t->py;
	const struct thread *native;
	image_threads(c->t->img, &native);
	struct walk w = py_threads(py, in);
	struct py_thread th;
	struct VEC(struct py_thread) list = { 0 }; /* the list's order is newest first; the report's is oldest first */
	int rc = 0;
	while (c->n_threads + list.n < c->lim->threads && (rc = py_next_thread(&w, &th)) > 0)
		*vec_push(&list) = th;
	if (rc < 0)
		report_problem(c->r, P_THREADS_BROKEN, (long long)in->id, rc == ERR_CORRUPT ? "loops or cannot be right" : err_word(rc), (unsigned long long)list.n);
	else if (rc > 0)
		report_problem(c->r, P_THREADS_LIMIT, (unsigned long long)c->lim->threads);

	struct report_interp *ri = vec_push(&c->r->interps);
	*ri = (struct report_interp){ in->id, in->main, in->gil_known, in->gil_locked, -1 };
	py_find_starting(py, list.p, list.n);
	for (size_t i = list.n; i-- > 0;) {
		th = list.p[i];
		struct report_thread *out = vec_push(&c->r->threads);
		size_t index = c->r->threads.n - 1;
		out->tid = th.tid ? th.tid : -1;
		out->python_id = th.ident;
		out->interpreter = in->id;
		out->state = th.addr;
		out->has_python = true;
		out->stale = th.stale;
		out->holds_gil = th.holds_gil;
		out->starting = th.starting;
		out->main = in->main && have_main && th.ident == main_ident && !th.starting;
		c->n_stale += th.stale;
		if (th.holds_gil)
			c->r->interps.p[c->r->interps.n - 1].gil_holder_tid = out->tid;
		struct name_entry *name = NULL;
		if (!th.starting)
			HASH_FIND(hh, c->names, &th.ident, sizeof th.ident, name);
		if (name)
			out->name = name->name;
		struct tid_entry *e = th.tid ? tid_entry(c, th.tid) : NULL;
		/*
		 * A further interpreter's state names the thread that made it, whoever runs it.  From 3.10 on src/python finds
		 * the right one by the C frame; before, all that is known is that this state has frames.
		 */
		bool unsure = !in->main && th.frame && e && e->report && !HAS(py, PyThread, cframe) && !HAS(py, PyThread, current_frame);
		if (unsure) {
			out->again = true;
			out->tid = -1;
			out->name = (struct str){ 0 };
			report_problem(c->r, P_INTERP_THREAD, (long long)in->id);
			e = NULL;
		}
		if (e && e->image) {
			native_facts(c, &native[e->image - 1], out);
			out->image = e->image;
			out->again = e->report != 0;
			if (!e->report)
				e->report = index + 1;
		}
		stack_of(c, &th, e ? e->image : 0, out);
	}
	c->n_threads += list.n;
	vec_free(&list);
}

static void python_threads(struct collect *c)
{
	const struct py *py = c->t->py;
	uint64_t main_ident = 0;
	bool have_main = py_main_ident(py, &main_ident) == 0;
	struct walk w = py_interps(py);
	struct py_interp in;
	struct VEC(struct py_interp) list = { 0 };
	int rc, named = ERR_ABSENT;
	while ((rc = py_next_interp(&w, &in)) > 0)
		*vec_push(&list) = in;
	if (rc < 0)
		report_problem(c->r, P_INTERPS_BROKEN, rc == ERR_CORRUPT ? "loops or cannot be right" : err_word(rc), (unsigned long long)list.n);
	for (size_t i = list.n; i-- > 0;) { /* newest first -> the main interpreter first */
		int n = py_thread_names(py, &list.p[i], c->r->arena, add_name, c);
		if (n >= 0 || named < 0)
			named = n >= 0 ? n : n == ERR_ABSENT ? named : n;
	}
	if (named < 0 && named != ERR_ABSENT)
		report_problem(c->r, P_NAMES_MISSING, err_word(named));
	for (size_t i = list.n; i-- > 0;)
		interp_threads(c, &list.p[i], have_main, main_ident);
	vec_free(&list);
	if (c->n_stale)
		report_problem(c->r, P_STALE_THREADS, c->n_stale);
	if (c->broken.n)
		report_problem(c->r, P_CODE_BROKEN, (unsigned long long)c->broken.n, (long long)c->broken.tid, str_c(c->r->arena, c->broken.what));
}

/* Threads of the image that have no thread state. */
static void native_threads(struct collect *c)
{
	const struct thread *native;
	size_t n = image_threads(c->t->img, &native);
	if (!n)
		report_problem(c->r, P_NO_THREADS);
	for (size_t i = 0; i < n; i++) {
		struct tid_entry *e = tid_entry(c, native[i].tid);
		if (!e || e->report || e->image != i + 1)
			continue;
		if (c->n_threads >= c->lim->threads) {
			report_problem(c->r, P_THREADS_LIMIT, (unsigned long long)c->lim->threads);
			break;
		}
		struct report_thread *out = vec_push(&c->r->threads);
		out->interpreter = -1;
		out->main = native[i].tid == image_facts(c->t->img)->pid;
		native_facts(c, &native[i], out);
		out->image = i + 1;
		c->stack.n = 0;
		if (c->natives)
			natives_stack(c->natives, i, 0, NULL, 0, false, out, &c->stack);
		put_stack(c, out);
		e->report = c->r->threads.n;
		c->n_threads++;
	}
}

/* The thread that caused the dump, the main one, those with Python frames; a thread state whose thread is gone is to blame for nothing. */
static int rank(const struct report_thread *t)
{
	if (t->crashed)
		return t->holds_gil ? 0 : 1; /* it may have a thread state in each of several interpreters */
	if (!t->has_python)
		return t->main ? 6 : 7;
	return t->stale || t->starting ? 5 : t->main ? 2 : t->active ? 3 : 4;
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
void threads_sort(struct report *r)
{
	size_t n = r->threads.n;
	CLEANUP(cleanup_free) struct report_thread *sorted = xcalloc(n + 1, sizeof *sorted);
	CLEANUP(cleanup_free) struct ranked *order = xcalloc(n + 1, sizeof *order);

	for (size_t i = 0; i < n; i++) {
		const struct report_thread *t = &r->threads.p[i];
		order[i] = (struct ranked){ rank(t), t->has_python ? 0 : t->tid, i };
	}
	qsort(order, n, sizeof *order, ranked_order);
	for (size_t i = 0; i < n; i++)
		sorted[i] = r->threads.p[order[i].i];
	if (n)
		memcpy(r->threads.p, sorted, n * sizeof *sorted);
}

/* Files whose source changed, or is missing, each once: how many, and the first names as text. */
static size_t files_of(struct collect *c, bool changed, const char **names)
{
	struct seen { struct str file; UT_hash_handle hh; } *seen = NULL, *s;
	struct code_entry *e, *next;
	struct sb text = { 0 };
	size_t n = 0;
	HASH_ITER(hh, c->codes, e, next) {
		if (!(changed ? e->changed : e->no_source))
			continue;
		HASH_FIND(hh, seen, e->code.file.s, e->code.file.len, s);
		if (s)
			continue;
		s = arena_alloc(c->t->arena, sizeof *s);
		s->file = e->code.file;
		HASH_ADD_KEYPTR(hh, seen, s->file.s, s->file.len, s);
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
	size_t n = files_of(c, true, &names);
	if (n)
		report_problem(c->r, P_SOURCE_CHANGED, n, names);
	n = files_of(c, false, &names);
	if (n)
		report_problem(c->r, P_SOURCE_MISSING, n, names);
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
	natives_end(c.natives);
	if (n && f->kind == IMAGE_CORE)
		for (size_t i = 0; i < r->threads.n; i++)
			r->threads.p[i].crashed = r->threads.p[i].tid == native[0].tid; /* the verdict takes it back if nothing crashed, and sorts */
	source_problems(&c);

	HASH_CLEAR(hh, c.codes);
	HASH_CLEAR(hh, c.frames);
	HASH_CLEAR(hh, c.names);
	HASH_CLEAR(hh, c.tids);
	vec_free(&c.stack);
	vec_free(&c.python);
	return 0;
}

const struct inspection inspection_threads = { "threads", "interpreters, threads and their Python stacks", run };
