/*
 * Native frames as the report has them: names, modules, lines, which of them are the interpreter's plumbing; and what tells
 * the merge where Python's frames belong.
 */
#include "inspect/native.h"

#include <stdlib.h>
#include <string.h>

#include <uthash.h>

#include "inspect/merge.h"
#include "inspect/parts.h"
#include "python/prove.h"

/* The report frames of one pc, the innermost inlined one first. */
struct pc_entry {
	struct { addr_t pc; uint64_t bits; } key;
	struct report_frame *const *frames;
	size_t n;
	bool eval, interpreter, ffi, libc;
	UT_hash_handle hh;
};

enum { MODULES_NAMED = 4, FETCH_ROUNDS = 16 };
struct module_names { struct str name[MODULES_NAMED]; size_t n; /* of what did not fit any more some may be the same */ };

struct natives {
	struct target *t;
	struct report *r;
	struct arena *arena;
	const struct native_records *records;
	struct pc_entry *pcs;
	enum { UNSEEN, SEEN, NAMELESS } *seen; /* of each module: on no stack, on one, with a frame without a name */
	bool eval_default;         /* there is a _PyEval_EvalFrameDefault, so PyEval_EvalFrameEx only calls it */
	const struct module *interpreter;
	size_t n_threads, n_broken, n_no_tables, n_unproven, n_unmatched;
	long long broken_tid, unmatched_tid;
	struct str broken_why, unmatched_why;
	bool unmatched_names;  /* since the interpreter's functions have none */
	struct module_names no_tables, unproven, no_names, no_lines, no_mini, left_out; /* the modules that lack them */
	int mini_rc;           /* why, of the first of no_mini */
	struct VEC(struct merge_native) native;
	struct VEC(struct merge_run) runs;
	struct VEC(const struct report_frame *) python;
	struct VEC(struct merge_item) items;
	struct VEC(struct pc_entry *) entries;
};

/* CPython's call machinery, start of the process and of threads, and libffi: names that tell a reader of Python nothing. */
static const char *const plumbing[] = {
	"_PyEval_*", "PyEval_*", "_PyFunction_*", "PyObject_Call*", "_PyObject_Call*", "PyObject_Vectorcall*", "_PyObject_Vectorcall*", "_PyObject_FastCall*",
	"_PyObject_MakeTpCall", "PyVectorcall_*", "_PyVectorcall_*", "*_vectorcall", "*_vectorcall_*", "vectorcall_*", "cfunction_*", "slot_tp_*", "type_call", "object_vacall",
	"_PyMethodDef_*", "_PyCFunction_*", "PyCFunction_Call*", "call_function", "do_call*", "function_call", "function_code_fastcall", "method_call*",
	"fast_function", "partial_call*", "partial_vectorcall*", "wrapperdescr_*", "wrapper_call", "instancemethod_call", "gen_send_ex*", "gen_iternext", "gen_send", "PyGen_*", "_PyGen_*",
	"trampoline_*", "py_trampoline*", "ffi_call*", "ffi_closure*", "_call_function_pointer", "_ctypes_callproc", "PyCFuncPtr_call", "closure_fcn",
	"_CallPythonObject", "pymain_*", "Py_RunMain", "Py_BytesMain", "Py_Main", "_Py_UnixMain", "main", "_start", "__libc_start*", "thread_run", "t_bootstrap",
	"pythread_wrapper", "start_thread", "clone", "clone3", "__clone*", NULL
};

static bool like(const char *pattern, struct str s)
{
	size_t n = strlen(pattern);
	bool front = pattern[0] == '*', back = pattern[n - 1] == '*';
	const char *text = pattern + front;
	size_t len = n - front - back;
	if (front && back)
		return memmem(s.s, s.len, text, len) != NULL;
	if (front)
		return s.len >= len && memcmp(s.s + s.len - len, text, len) == 0;
	return s.len >= len && memcmp(s.s, text, len) == 0 && (back || s.len == len);
}

static bool is_plumbing(struct str name)
{
	name = str_function(name);
	for (size_t i = 0; name.len && plumbing[i]; i++)
		if (like(plumbing[i], name))
			return true;
	return false;
}

void natives_fetch(struct target *t)
{
	const struct module *list;
	const struct native_records *rec;
	struct err err;
	size_t n = modules_list(t->mods, &list);
	if (!t->native || modules_fetch_state(t->mods) < 0)
		return;
	CLEANUP(cleanup_free) bool *asked = xcalloc(n + 1, sizeof *asked);
	for (unsigned round = 0; round < FETCH_ROUNDS && native_finish(t->native, &rec, &err) == 0; round++) {
		bool new = false;
		for (size_t i = 0; i < rec->frames.n; i++) {
			const struct native_frame *f = &rec->frames.p[i];
			const struct module *m = modules_at(t->mods, f->pc - (f->bits & NATIVE_CALL));
			if (!m || asked[m - list])
				continue;
			/* Debug information may be big: it is asked for where there is a use for it. */
			const bool nameless = m->symbols != SYMBOLS_FULL && !native_name_at(rec, f->pc, f->bits & NATIVE_CALL);
			const bool debug = t->native_limits.lines == NATIVE_LINES_ALL ? !m->lines : nameless;
			if (m->file && !debug)
				continue;
			asked[m - list] = debug;
			new |= modules_fetch(t->mods, m, debug);
		}
		if (!new)
			return;
		native_close(t->native);
		t->native = NULL;
		if (native_start(t->img, t->mods, &t->native_limits, &t->native, &t->native_err) < 0) {
			t->native = NULL;
			return;
		}
	}
}

struct natives *natives_new(struct target *t, struct report *r)
{
	if (t->native_err.code)
		report_problem(r, P_NATIVE_FAILED, t->native_err.msg);
	if (!t->native)
		return NULL;
	struct natives *n = xcalloc(1, sizeof *n);
	struct err err = { 0 };
	n->t = t;
	n->r = r;
	n->arena = t->arena;
	if (native_finish(t->native, &n->records, &err) < 0)
		report_problem(r, P_NATIVE_FAILED, err.msg);
	const struct module *list;
	n->seen = arena_alloc(t->arena, (modules_list(t->mods, &list) + 1) * sizeof *n->seen);
	/* Its data: the runtime, before 3.7 its types.  A second libpython of the process is not meant. */
	addr_t at;
	if (t->py)
		n->interpreter = modules_at(t->mods, t->py->runtime ? t->py->runtime : t->py->types.type);
	n->eval_default = n->interpreter ? modules_symbol_of(t->mods, n->interpreter, "_PyEval_EvalFrameDefault", &at) == 0
					 : modules_symbol(t->mods, "_PyEval_EvalFrameDefault", &at, NULL, NULL) == 0;
	if (!n->interpreter && n->eval_default)
		n->interpreter = modules_at(t->mods, at);
	return n;
}

static bool module_is(const struct module *m, const char *start)
{
	if (!m)
		return false;
	const uint8_t *slash = m->path.len ? memrchr(m->path.p, '/', m->path.len) : NULL;
	const uint8_t *base = slash ? slash + 1 : m->path.p;
	size_t len = (size_t)(m->path.p + m->path.len - base), want = strlen(start);
	return m->path.len && len >= want && memcmp(base, start, want) == 0;
}

static void add_module(struct module_names *l, struct str name)
{
	for (size_t i = 0; i < l->n && i < MODULES_NAMED; i++)
		if (str_eq(l->name[i], name))
			return;
	if (l->n < MODULES_NAMED)
		l->name[l->n] = name;
	l->n++;
}

static const char *module_names(struct natives *n, const struct module_names *l)
{
	struct sb b = { 0 };
	for (size_t i = 0; i < l->n && i < MODULES_NAMED; i++) {
		sb_printf(&b, i ? ", " : "");
		sb_str(&b, l->name[i]);
	}
	sb_printf(&b, l->n > MODULES_NAMED ? ", ..." : "");
	struct str text = sb_take(&b, n->r->arena);
	return str_c(n->r->arena, text);
}

static struct str base_of(struct natives *n, const struct module *m)
{
	return str_base(str_from_bytes(n->r->arena, m->path.p, m->path.len));
}

/* Code that is no module's: a JIT's, where the memory is no file's; libffi keeps its closures in a file without a name. */
static void no_module(struct target *t, struct report *r, addr_t at, struct report_frame *out)
{
	const struct mapping *map = image_mapping_at(t->img, at);
	const struct segment *seg = image_segment_at(t->img, at);
	if (map && map->path.len) {
		out->module = str_from_bytes(r->arena, map->path.p, map->path.len);
		out->offset = at - map->start + map->offset;
		if (memmem(map->path.p, map->path.len, "memfd:libffi", 12))
			out->function = STR("libffi closure");
	} else if (seg && seg->prot & 4 && !out->signal) {
		out->function = STR("JIT code");
		out->jit = true;
	} else if (out->signal) {
		out->function = STR("signal return code"); /* a page of its own, where the system has no vdso */
	}
}

static void put_module(struct target *t, struct report *r, const struct module *m, struct report_frame *out)
{
	if (!m) {
		no_module(t, r, out->pc, out);
		return;
	}
	out->module = m->vdso ? STR("[vdso]") : str_from_bytes(r->arena, m->path.p, m->path.len);
	out->offset = m->bias_known ? out->pc - m->bias : out->pc - m->start;
	if (!out->function.len && !m->file && m->build_id.len && !m->vdso)
		out->build_id = str_hex(r->arena, m->build_id);
}

const struct report_frame *native_frame_at(struct target *t, struct report *r, addr_t pc)
{
	struct report_frame *out = arena_alloc(r->arena, sizeof *out);
	struct str name;
	uint64_t into;
	*out = (struct report_frame){ .pc = pc, .at = { -1, -1, -1, -1 }, .found_by = "signal frame", .likely = true };
	if (modules_name(t->mods, pc, &name, &into) == 0) {
		out->function = str_dup(r->arena, name);
		out->into = into;
	}
	put_module(t, r, modules_at(t->mods, pc), out);
	return out;
}

static void found_by(uint8_t bits, struct report_frame *out)
{
	out->signal = bits & NATIVE_SIGNAL;
	out->likely = bits & (NATIVE_SCAN | NATIVE_GUESS | NATIVE_LINK);
	out->found_by = bits & NATIVE_TOP ? "registers" : bits & NATIVE_SCAN ? "scan" : bits & NATIVE_LINK ? "link register" : bits & NATIVE_GUESS ? "frame pointer"
			: bits & (NATIVE_CALL | NATIVE_SIGNAL) ? "cfi" : "signal frame";
}

/* 0, or why its MiniDebugInfo gave no names. */
static int mini_of(const struct natives *n, const struct module *m)
{
	for (size_t i = 0; i < n->records->minis.n && !m->mini_rc; i++)
		if (n->records->minis.p[i].start == m->start)
			return n->records->minis.p[i].rc;
	return m->mini_rc;
}

static void see(struct natives *n, const struct module *m, bool named)
{
	const struct module *list;
	(void)modules_list(n->t->mods, &list);
	if (!named)
		n->seen[m - list] = NAMELESS;
	else if (n->seen[m - list] == UNSEEN)
		n->seen[m - list] = SEEN;
}

static struct pc_entry *entry_of(struct natives *n, const struct native_frame *f)
{
	struct pc_entry *e, key = { .key = { f->pc, f->bits } };
	HASH_FIND(hh, n->pcs, &key.key, sizeof key.key, e);
	if (e)
		return e;
	e = arena_alloc(n->arena, sizeof *e);
	e->key = key.key;
	const addr_t at = f->pc - (f->bits & NATIVE_CALL);
	const struct module *m = modules_at(n->t->mods, at);
	struct str name = { 0 }, shown = { 0 };
	uint64_t into = 0;
	const struct native_place *places;
	size_t n_places = native_places_at(n->records, f->pc, &places);
	const struct native_name *named = native_name_at(n->records, f->pc, f->bits & NATIVE_CALL);
	if (named) {
		name = named->symbol;
		shown = named->shown;
		into = named->into;
	} else if (!n->records->done && modules_name(n->t->mods, at, &name, &into) < 0) {
		name = (struct str){ 0 };
	}
	if (m && !m->vdso)
		see(n, m, name.len || m->symbols == SYMBOLS_FULL);
	if (m && !m->vdso && !name.len && m->symbols != SYMBOLS_FULL) {
		const int rc = mini_of(n, m);
		if (rc < 0 || !module_absent(n->t, m))
			add_module(rc < 0 ? &n->no_mini : &n->no_names, base_of(n, m));
		n->mini_rc = n->mini_rc < 0 ? n->mini_rc : rc;
		char size[STR_SIZE];
		const struct noted_file *noted = image_noted_at(n->t->img, m->start);
		if (noted && noted->symbols_left_out)
			add_module(&n->left_out, str_printf(n->arena, STR_FMT " (%s)", STR_ARG(base_of(n, m)), str_size(noted->symbols_left_out, size)));
	}
	if (m && !m->vdso && n->t->native_limits.lines == NATIVE_LINES_ALL && n->records->done && !m->lines && !module_absent(n->t, m))
		add_module(&n->no_lines, base_of(n, m));
	e->n = n_places ? n_places : 1;
	struct report_frame **list = arena_alloc(n->arena, e->n * sizeof *list);
	for (size_t i = 0; i < e->n; i++) {
		struct report_frame *out = list[i] = arena_alloc(n->r->arena, sizeof *out);
		const bool outer = i + 1 == e->n;
		out->pc = f->pc;
		out->at = (struct report_position){ n_places ? places[i].line : -1, -1, -1, -1 };
		out->function = outer && shown.s ? str_dup(n->r->arena, shown) : outer && name.s ? str_dup(n->r->arena, name) : n_places ? str_dup(n->r->arena, places[i].function) : (struct str){ 0 };
		out->file = n_places ? str_dup(n->r->arena, places[i].file) : (struct str){ 0 };
		out->inlined = !outer;
		found_by(f->bits, out);
		out->into = outer && name.s ? f->pc - (at - into) : 0;
		put_module(n->t, n->r, m, out);
		if (outer && shown.s)
			out->symbol = str_dup(n->r->arena, name);
		out->plumbing = is_plumbing(out->symbol.s ? out->symbol : out->function) ? PLUMBING_SILENT : PLUMBING_NONE;
	}
	e->frames = list;
	e->interpreter = m && m == n->interpreter;
	e->ffi = module_is(m, "libffi.") || module_is(m, "_ctypes.");
	e->libc = module_is(m, "libc.so") || module_is(m, "libc-") || module_is(m, "libpthread") || module_is(m, "ld-") || (m && m->exe);
	if (e->ffi && !name.len && module_is(m, "libffi."))
		for (size_t i = 0; i < e->n; i++)
			list[i]->plumbing = PLUMBING_FOLDED;
	e->eval = name.len && (!n->interpreter || e->interpreter) &&
		  (str_starts(name, "_PyEval_EvalFrameDefault") || (!n->eval_default && str_starts(name, "PyEval_EvalFrameEx")));
	HASH_ADD(hh, n->pcs, key, sizeof e->key, e);
	return e;
}

/* ---- what tells where runs are */

/* 3.12 on: a run ends with its shim.  3.15's last one lies in the thread state and is no call's (_PyThreadStateImpl.base_frame). */
static void runs_by_shim(struct natives *n, addr_t state, const struct native_python *py, size_t n_py)
{
	struct merge_run run = { 0 };
	addr_t base = 0;
	if (state && HAS(n->t->py, PyThread, base_frame))
		(void)!READ(n->t->py, state, PyThread, base_frame, &base);
	for (size_t i = 0; i < n_py; i++) {
		if (py[i].frame) {
			run.n++;
			continue;
		}
		if (py[i].addr == base && !run.n)
			continue;
		run.at = py[i].addr;
		*vec_push(&n->runs) = run;
		run = (struct merge_run){ 0 };
	}
	if (run.n)
		*vec_push(&n->runs) = run;
}

/* Up to 3.11: a run ends with its entry frame. */
static void runs_by_entry(struct natives *n, const struct native_python *py, size_t n_py)
{
	struct merge_run run = { 0 };
	for (size_t i = 0; i < n_py; i++) {
		run.n += py[i].frame != NULL;
		if (!py[i].entry && i + 1 < n_py)
			continue;
		*vec_push(&n->runs) = run;
		run = (struct merge_run){ 0 };
	}
}

/*
 * 3.10 and 3.11: each call of the evaluation loop keeps a _PyCFrame of its own, the newest in tstate->cframe, the oldest, of no
 * call, in the thread state (Python/ceval.c, Python/pystate.c).  3.11's says which frame it runs, so each finds its run; 3.10's
 * do not, and have to be as many as the frames.
 */
static void anchor_cframes(struct natives *n, size_t from, addr_t state, const struct native_python *py, size_t n_py)
{
	const struct py *p = n->t->py;
	addr_t at, root = 0, frame;
	if (READ(p, state, PyThread, cframe, &at) < 0)
		return;
	const bool told = HAS(p, PyCFrame, current_frame);
	(void)!READ(p, state, PyThread, root_cframe, &root);
	struct merge_run *const runs = n->runs.p + from; /* of this state */
	const size_t n_runs = n->runs.n - from;
	if (!n_runs)
		return;
	if (!told) {
		struct VEC(addr_t) list = { 0 };
		for (; at && at != root && list.n <= n_runs + 1; at = frame) {
			*vec_push(&list) = at;
			if (READ(p, at, PyCFrame, previous, &frame) < 0)
				break;
		}
		if (list.n == n_runs || list.n == n_runs + 1) {
			size_t extra = list.n - n_runs;
			for (size_t r = 0; r < n_runs; r++)
				runs[r].at = list.p[r + extra];
		}
		vec_free(&list);
		return;
	}
	/* Both are in the same order; one cframe at most belongs to no frame that was walked: the oldest, or one just left. */
	size_t k = 0, r = 0, end = runs[0].n;
	for (unsigned missed = 0; at && at != root && missed <= 2;) {
		if (READ(p, at, PyCFrame, current_frame, &frame) < 0)
			return;
		size_t here = k;
		while (here < n_py && py[here].addr != frame)
			here++;
		if (here == n_py) {
			missed++;
		} else {
			k = here + 1;
			while (r < n_runs && here >= end)
				end += ++r < n_runs ? runs[r].n : 0;
			if (r == n_runs)
				return;
			if (!runs[r].at)
				runs[r].at = at;
		}
		if (READ(p, at, PyCFrame, previous, &at) < 0)
			return;
	}
}

static void runs_of(struct natives *n, addr_t state, const struct native_python *py, size_t n_py)
{
	const size_t from = n->runs.n;
	if (!n_py)
		return;
	enum { NO_SHIMS = 255 }; /* formats/cpython.traits */
	if (TRAIT(n->t->py, owner_shim) >= 0 && TRAIT(n->t->py, owner_shim) < NO_SHIMS) {
		runs_by_shim(n, state, py, n_py);
	} else {
		runs_by_entry(n, py, n_py);
		if (HAS(n->t->py, PyThread, cframe) && state)
			anchor_cframes(n, from, state, py, n_py);
	}
}

/* ---- one thread */

/* Is there a file at the path that nothing proves to be the one that ran? */
static bool is_unproven(const struct natives *n, struct blob path)
{
	const struct module *mods;
	const size_t count = path.len ? modules_list(n->t->mods, &mods) : 0;
	for (size_t i = 0; i < count; i++)
		if (mods[i].unproven && mods[i].path.len == path.len && memcmp(mods[i].path.p, path.p, path.len) == 0)
			return true;
	return false;
}

static void say_end(struct natives *n, const struct native_stack *s, struct report_thread *th)
{
	struct arena *a = n->r->arena;
	const struct module *m = s->at ? modules_at(n->t->mods, s->at - 1) : NULL;
	const struct mapping *map = s->at ? image_mapping_at(n->t->img, s->at - 1) : NULL;
	const struct blob path = m ? m->path : map ? map->path : (struct blob){ 0 };
	struct str base = path.len ? str_base(str_from_bytes(a, path.p, path.len)) : (struct str){ 0 };
	/* A file whose headers are lost, so that nothing proves which one on disk it is, is as good as none. */
	switch (s->end == NATIVE_NO_MODULE && base.len ? NATIVE_NO_TABLES : s->end) {
	case NATIVE_WHOLE: return;
	case NATIVE_CUT: th->native_broken = STR("unwinding ended before"); return; /* NATIVE_FAILED tells */
	case NATIVE_NO_TABLES:
		th->native_broken = str_printf(a, "no unwind tables of " STR_FMT, STR_ARG(base));
		if (is_unproven(n, path)) {
			n->n_unproven++;
			add_module(&n->unproven, base);
			return;
		}
		n->n_no_tables++;
		add_module(&n->no_tables, base.s ? base : STR("?"));
		return;
	case NATIVE_NO_MODULE: th->native_broken = str_printf(a, "0x%llx is in no file that is mapped", (unsigned long long)s->at); break;
	case NATIVE_LIMIT: th->native_broken = str_printf(a, "more than %zu frames", s->n); break;
	case NATIVE_NO_REGS: th->native_broken = STR("the registers are not known, or this machine's stacks cannot be unwound"); break;
	default: th->native_broken = s->why.s ? str_dup(a, s->why) : STR("no way on"); break;
	}
	if (!n->n_broken++) {
		n->broken_tid = (long long)th->tid;
		n->broken_why = th->native_broken;
	}
}

/* Is it machinery where it stands?  above: younger Python frames; below: older ones. */
static enum plumbing plumbing_of(const struct pc_entry *e, const struct report_frame *f, uint8_t role, bool above, bool below)
{
	if (role == MERGE_EVAL)
		return PLUMBING_SILENT;
	if (above && !below && (e->interpreter || e->libc))
		return PLUMBING_SILENT; /* how the thread or the process began */
	if (f->plumbing)
		return e->ffi ? PLUMBING_FOLDED : f->plumbing;
	return above && (e->interpreter || e->ffi) ? PLUMBING_FOLDED : PLUMBING_NONE;
}

/* The frame as it stands here: most stand always so. */
static const struct report_frame *variant(struct natives *n, struct pc_entry *e, size_t i, enum plumbing plumbing_here)
{
	struct report_frame *const f = e->frames[i];
	if (f->plumbing == plumbing_here)
		return f;
	struct pc_entry *other, key = { .key = { e->key.pc, e->key.bits | 1u << 16 | plumbing_here << 17 | i << 20 } };
	HASH_FIND(hh, n->pcs, &key.key, sizeof key.key, other);
	if (!other) {
		other = arena_alloc(n->arena, sizeof *other);
		other->key = key.key;
		struct report_frame *copy = arena_dup(n->r->arena, f, sizeof *f);
		copy->plumbing = (uint8_t)plumbing_here;
		other->frames = arena_dup(n->arena, &copy, sizeof copy);
		other->n = 1;
		HASH_ADD(hh, n->pcs, key, sizeof other->key, other);
	}
	return other->frames[0];
}

/* The interpreter's own JIT: called by an evaluation frame, in whose stead it evaluates. */
static void jit_evaluates(struct natives *n, size_t n_items)
{
	bool within = false;
	for (size_t i = n_items; i-- > 0;) {
		struct merge_item *it = &n->items.p[i];
		if (it->python)
			continue;
		if (!n->entries.p[it->index]->frames[0]->jit)
			within = it->role == MERGE_EVAL;
		else if (within)
			it->role = MERGE_EVAL;
	}
}

/* A program that switches stacks and frames below Python: a thread's native stack then holds others' evaluations too. */
static bool switches_stacks(const struct natives *n)
{
	const struct module *mods;
	const size_t count = modules_list(n->t->mods, &mods);

	for (size_t i = 0; i < count; i++)
		if (module_is(&mods[i], "_greenlet.") || module_is(&mods[i], "greenlet."))
			return true;
	return false;
}

/*
 * A thread that evaluates Python and called something from there, whose thread state has no frame, or none is known.  What the evaluation
 * loop calls before it links its frame, or after, lasts no time and calls little.  Up to 3.9 a state may be another interpreter's, and names
 * another thread.  A second Python has states of its own.  Where Python ends, the states of threads that wait for the lock for ever are
 * gone before them (Python/pystate.c, _PyThreadState_DeleteExcept).
 */
static void say_lost(struct natives *n, const struct native_stack *s, struct report_thread *th)
{
	enum { LEAF = 3 };
	const struct py *py = n->t->py;
	size_t first = th->has_python ? 0 : 1;

	if (!py || py->other || py->phase != PHASE_RUNNING || py_phase(py, py->interp_head) == PHASE_ENDING)
		return;
	while (first < n->native.n && !n->native.p[first].gap && !n->native.p[first].eval)
		first++;
	/* What was guessed, and what follows, may be left from before. */
	if (first >= n->native.n || n->native.p[first].gap)
		return;
	if (th->has_python ? first < LEAF || s->end != NATIVE_WHOLE || n->r->interps.n != 1 || switches_stacks(n) : py->salvaged)
		return;
	th->broken = th->has_python ? STR("its thread state has no frame, though its native stack evaluates Python: it is likely lost")
				    : STR("its native stack evaluates Python, but no thread state is known to be its own");
	report_problem(n->r, P_FRAMES_BROKEN, (long long)th->tid, str_c(n->r->arena, th->broken), 0ULL, whole_or(n->t, NOT_THERE));
}

void natives_stack(struct natives *n, size_t index, const struct native_part *parts, size_t n_parts, const struct native_python *py, size_t n_py,
		   bool broken, struct report_thread *th, struct native_list *out)
{
	const struct native_records *rec = n->records;
	const bool has = index < rec->n_threads && rec->has[index];
	const struct native_stack *s = has ? &rec->stacks[index] : NULL;
	n->native.n = n->python.n = n->entries.n = 0;
	for (size_t i = 0; i < n_py; i++)
		if (py[i].frame)
			*vec_push(&n->python) = py[i].frame;
	if (has) {
		n->n_threads++;
		say_end(n, s, th);
	}
	for (size_t i = 0; s && i < s->n; i++) {
		const struct native_frame *f = &rec->frames.p[s->first + i];
		struct pc_entry *e = entry_of(n, f);
		*vec_push(&n->entries) = e;
		*vec_push(&n->native) = (struct merge_native){ f->sp, e->eval, f->bits & (NATIVE_GUESS | NATIVE_SCAN | NATIVE_LINK) };
	}
	if (!n->native.n) {
		for (size_t i = 0; i < n->python.n; i++)
			*vec_push(out) = n->python.p[i];
		return;
	}
	n->runs.n = 0;
	for (size_t i = 0; i < n_parts; i++)
		runs_of(n, parts[i].state, py + parts[i].first, parts[i].n);
	size_t n_items = 0, room = n->native.n + n->python.n;
	while (n->items.n < room)
		vec_push(&n->items);
	int rc = merge_stacks(n->native.p, n->native.n, s->end == NATIVE_WHOLE, n->runs.p, n->runs.n, n->items.p, &n_items);
	if (rc < 0) {
		th->unmatched = rc == ERR_ABSENT ? STR("no evaluation frame is known by name or by place")
			: broken ? STR("the Python stack is not whole") : STR("their numbers or places differ");
		if (!n->n_unmatched++) {
			n->unmatched_tid = (long long)th->tid;
			n->unmatched_why = th->unmatched;
			n->unmatched_names = rc == ERR_ABSENT;
		}
	}
	if (!n_parts || (!broken && !n->runs.n))
		say_lost(n, s, th);
	jit_evaluates(n, n_items);
	/* Machinery is what carries Python frames; where none is known it is all there is to see. */
	size_t left = n->python.n;
	for (size_t i = 0; i < n_items; i++) {
		const struct merge_item *it = &n->items.p[i];
		if (it->python) {
			*vec_push(out) = n->python.p[it->index];
			left--;
			continue;
		}
		struct pc_entry *e = n->entries.p[it->index];
		const bool above = rc == 0 && left < n->python.n, below = left > 0;
		for (size_t k = 0; k < e->n; k++)
			*vec_push(out) = variant(n, e, k, n->python.n ? plumbing_of(e, e->frames[k], it->role, above, below) : PLUMBING_NONE);
	}
}

/* A name alone is in packages of several machines; a whole path is not known where /lib is a link into /usr. */
#define DEBUG_PACKAGES "their debug packages (Debian: libc6-dbg for libc's; else \"dpkg -S '*/FOLDER/NAME'\" says which PACKAGE, then PACKAGE-dbgsym of the debug archive; " \
	"\"rpm -qf FILE\", then dnf: PACKAGE-debuginfo)"
#define FETCH_SERVER "DEBUGINFOD_URLS=https://... with a server of the distribution"

static void fetch_failed(struct natives *n, int fetch, bool servers)
{
	if (fetch == ERR_LIMIT)
		report_problem(n->r, P_FETCH_FAILED, "took too long, so not all was fetched that is not here", "the same again, since what came is kept; or --debuginfod=off");
	else if (servers)
		report_problem(n->r, P_FETCH_FAILED, "is not in PATH, so nothing was fetched", FETCH_PROGRAM);
	else
		report_problem(n->r, P_FETCH_FAILED, "is not in PATH, so nothing was fetched; DEBUGINFOD_URLS is not set either", FETCH_PROGRAM ", and " FETCH_SERVER);
}

void natives_end(struct natives *n)
{
	if (!n)
		return;
	const struct module *list;
	for (size_t i = modules_list(n->t->mods, &list); i-- > 0;) {
		n->r->symbols.modules += n->seen[i] != UNSEEN;
		n->r->symbols.named += n->seen[i] == SEEN;
	}
	if (n->n_no_tables) {
		report_problem(n->r, P_NATIVE_NO_TABLES, n->n_no_tables, n->n_threads, module_names(n, &n->no_tables),
			       whole_or(n->t, image_facts(n->t->img)->kind == IMAGE_SNAPSHOT ? "for later snapshots, pysnap without --bundle=none"
					: "for later cores, 0x37 in /proc/PID/coredump_filter"));
	}
	if (n->n_unproven)
		report_problem(n->r, P_NATIVE_UNPROVEN, n->n_unproven, n->n_threads, module_names(n, &n->unproven),
			       image_facts(n->t->img)->kind == IMAGE_CORE ? "core" : "snapshot");
	const int fetch = modules_fetch_state(n->t->mods);
	const char *try = fetch == ERR_ABSENT ? DEBUG_PACKAGES ", --debug-path DIR, or --debuginfod=on" : DEBUG_PACKAGES ", or --debug-path DIR";
	if (n->no_lines.n)
		report_problem(n->r, P_NO_DEBUG_INFO, module_names(n, &n->no_lines), "source lines are not shown", try);
	else if (n->no_names.n)
		report_problem(n->r, P_NO_DEBUG_INFO, module_names(n, &n->no_names), "functions without a name are shown as addresses", try);
	if (n->left_out.n)
		report_problem(n->r, P_NAMES_LEFT_OUT, module_names(n, &n->left_out));
	if (n->no_mini.n)
		report_problem(n->r, P_MINI_UNREAD, module_names(n, &n->no_mini),
			       n->mini_rc == ERR_UNSUPPORTED ? "this pyanalyze is built without liblzma" : n->mini_rc == ERR_LIMIT ? "it is larger than is taken"
			       : "it is damaged", n->mini_rc == ERR_UNSUPPORTED ? "a pyanalyze built with liblzma" : try);
	const char *urls = getenv("DEBUGINFOD_URLS");
	if (fetch == ERR_UNSUPPORTED || fetch == ERR_LIMIT)
		fetch_failed(n, fetch, urls && *urls);
	size_t asked, given;
	modules_fetched(n->t->mods, &asked, &given);
	if (!fetch && asked && !given && urls && *urls)
		report_problem(n->r, P_FETCH_NOTHING, asked, "the servers of DEBUGINFOD_URLS cannot be reached or lack them",
			       "another server in DEBUGINFOD_URLS; DEBUGINFOD_VERBOSE=1 debuginfod-find debuginfo BUILDID says why");
	else if (!fetch && asked && !given)
		report_problem(n->r, P_FETCH_NOTHING, asked, "DEBUGINFOD_URLS is not set", FETCH_SERVER);
	if (n->n_broken)
		report_problem(n->r, P_NATIVE_BROKEN, n->n_broken, n->n_threads, n->broken_tid, str_c(n->r->arena, n->broken_why),
			       whole_or(n->t, "nothing lifts this: what leads on is not in the file, was overwritten, or is code that no unwind table describes"));
	if (n->n_unmatched)
		report_problem(n->r, P_NATIVE_UNMATCHED, n->n_unmatched, n->unmatched_tid, str_c(n->r->arena, n->unmatched_why),
			       n->unmatched_names ? "the interpreter's file and symbols: -e PATH, --sysroot DIR, --debug-path DIR, or --debuginfod=on"
			       : whole_or(n->t, "nothing lifts this: one of the two stacks is not whole, or was caught while it changed"));
	HASH_CLEAR(hh, n->pcs);
	vec_free(&n->native);
	vec_free(&n->runs);
	vec_free(&n->python);
	vec_free(&n->items);
	vec_free(&n->entries);
	free(n);
}
