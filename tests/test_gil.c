/* Whether a crash of the interpreter's code is said to have been without the GIL: stacks as text, locks and threads as they are known. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "build_py.h"
#include "every_layout.h"
#include "inspect/gil.h"
#include "suite.h"
#include "whole_report.h"

enum { FRAMES = 8, PC = 0x1000, TID = 7, HOLDER = 8 };

/* What is known of the thread, of the lock, and of Python. */
enum {
	STATE = 1, HOLDS = 2, NO_TID = 4, ENDS_EARLY = 8, HANDLED = 16,
	UNKNOWN = 0x100, FREE = 0x200, HELD = 0x400 /* by a thread that runs Python */, HELD_IDLE = 0x800, HELD_BY_IT = 0x1000, HELD_UNTOLD = 0x2000,
	THREADED = 0x10000, SALVAGED = 0x20000, OTHERS = 0x40000, STARTING = 0x80000, ENDING = 0x100000, NO_INTERP = 0x200000, NO_IDS = 0x400000, NO_PYTHON = 0x800000,
	ANOTHERS = 0x1000000, /* its state is another interpreter's, whose lock nobody has; the first one's is not known */
	TWO = 0x2000000,      /* there is another interpreter, of which it is not known */
};

/*
 * Innermost first: i:NAME of the interpreter, c:NAME of libc, x:NAME of another module, py, ~i:NAME: likely, +i:NAME: inlined; what crashed is the
 * first one, or that after "|".  said: 0 nothing, 1 that it did not hold it, 2 and that this is likely the cause, 3 that it has no state.
 */
static const struct { const char *stack; unsigned how; int said; } cases[] = {
	{ "i:PyDict_GetItem x:f py", STATE | FREE, 2 },
	{ "i:PyDict_GetItem x:f py", STATE | HELD, 2 },
	{ "i:PyDict_GetItem x:f", FREE, 3 },
	{ "i:PyDict_GetItem x:f", HELD, 3 },
	/* In the C library for it; inlined there. */
	{ "c:memcpy i:PyBytes_FromString x:f py", STATE | FREE, 2 },
	{ "+x:copy c:memcpy i:PyBytes_FromString x:f py", STATE | FREE, 2 },
	{ "c:abort x:f i:PyBytes_FromString py", STATE | FREE, 1 },
	/* The interpreter noticed it itself. */
	{ "c:raise c:abort i:Py_FatalError i:PyThreadState_Get i:PyErr_Restore x:f py", STATE | FREE, 2 },
	{ "c:abort i:fatal_error_exit i:_Py_FatalErrorFunc i:_PyThreadState_Get i:PyErr_Clear x:f", FREE, 3 },
	{ "c:abort i:Py_FatalError i:PyThreadState_Get x:f py", STATE | FREE, 1 },
	{ "c:abort x:Py_FatalError i:PyErr_Restore x:f py", STATE | FREE, 1 },
	/* It holds it, or that is not known. */
	{ "i:PyDict_GetItem x:f py", STATE | HOLDS | HELD, 0 },
	{ "i:PyDict_GetItem x:f py", STATE | HELD_BY_IT, 0 },
	{ "i:PyDict_GetItem x:f py", STATE | HELD_UNTOLD, 0 },
	{ "i:PyDict_GetItem x:f py", STATE | HELD_IDLE, 0 },
	{ "i:PyDict_GetItem x:f py", STATE | UNKNOWN, 0 },
	{ "i:PyDict_GetItem x:f", HELD_IDLE, 0 },
	{ "i:PyDict_GetItem x:f", HELD_UNTOLD, 0 },
	{ "i:PyDict_GetItem x:f", UNKNOWN, 0 },
	{ "i:PyDict_GetItem x:f", FREE | NO_TID, 0 },
	{ "i:PyDict_GetItem x:f", FREE | ENDS_EARLY, 0 },
	{ "i:PyDict_GetItem x:f", FREE | SALVAGED, 0 },
	{ "i:PyDict_GetItem x:f", FREE | OTHERS, 0 },
	{ "i:PyDict_GetItem x:f", FREE | NO_IDS, 0 },
	{ "i:PyDict_GetItem x:f", FREE | TWO, 0 },
	{ "i:PyDict_GetItem x:f py", STATE | FREE | SALVAGED, 2 },
	{ "i:PyDict_GetItem x:f py", STATE | FREE | NO_IDS, 2 },
	{ "i:PyDict_GetItem x:f py", STATE | FREE | TWO, 2 },
	{ "i:PyDict_GetItem x:f py", STATE | UNKNOWN | ANOTHERS, 2 },
	{ "i:PyDict_GetItem x:f py", STATE | FREE | THREADED, 0 },
	{ "i:PyDict_GetItem x:f py", STATE | FREE | STARTING, 0 },
	{ "i:PyDict_GetItem x:f py", STATE | FREE | ENDING, 0 },
	{ "i:PyDict_GetItem x:f py", STATE | FREE | NO_INTERP, 0 },
	{ "i:PyDict_GetItem x:f py", STATE | FREE | NO_PYTHON, 0 },
	/* What may run without it; another module's; one that is only likely there. */
	{ "i:take_gil i:PyEval_RestoreThread x:f py", STATE | FREE, 1 },
	{ "x:PyDict_GetItem py", STATE | FREE, 1 },
	{ "~i:PyDict_GetItem x:f py", STATE | FREE, 1 },
	{ "i:? x:f py", STATE | FREE, 1 },
	{ "py", STATE | FREE, 1 },
	{ "x:f", FREE, 0 },
	/* A handler ran on it: of C; of Python, which took the lock and gave it back. */
	{ "x:handler | i:PyDict_GetItem x:f py", STATE | FREE | HANDLED, 2 },
	{ "x:handler py | i:PyDict_GetItem x:f py", STATE | FREE | HANDLED, 1 },
};

static const struct layout *tables;
static size_t n_tables;

static struct report_frame frames[FRAMES];
static const struct report_frame *oldest_first[FRAMES];
static struct report_run run;
static char text[128];

static addr_t put_stack(const char *stack)
{
	char *save = NULL;
	size_t n = 0;
	addr_t crashed = PC;
	memset(frames, 0, sizeof frames);
	snprintf(text, sizeof text, "%s", stack);
	for (char *w = strtok_r(text, " ", &save); w; w = strtok_r(NULL, " ", &save)) {
		struct report_frame *f = &frames[n];
		if (*w == '|') {
			crashed = PC + n;
			continue;
		}
		f->likely = *w == '~';
		f->inlined = *w == '+';
		w += f->likely || f->inlined;
		f->pc = PC + n++;
		f->python = strcmp(w, "py") == 0;
		if (f->python)
			continue;
		f->module = *w == 'i' ? STR("/usr/lib/libpython3.so") : *w == 'c' ? STR("/lib/libc.so.6") : STR("/lib/other.so");
		f->function = w[2] == '?' ? (struct str){ 0 } : str_of(w + 2);
	}
	for (size_t i = 0; i < n; i++)
		oldest_first[i] = &frames[n - 1 - i];
	run = (struct report_run){ oldest_first, n, 1 };
	return crashed;
}

START_TEST(said)
{
	const unsigned how = cases[_i].how;
	const char *stack = cases[_i].stack;
	static const int64_t ids[] = { 0 }, others[] = { 5 };
	const bool another = how & ANOTHERS;
	struct report_thread th = { .tid = how & NO_TID ? -1 : TID, .has_python = how & STATE, .holds_gil = how & HOLDS, .handled = how & HANDLED, .runs = &run, .n_runs = 1,
		.interpreter = how & STATE ? another ? 5 : 0 : -1, .interpreters = another ? others : ids, .n_interpreters = how & STATE ? 1 : 0 };
	if (how & ENDS_EARLY)
		th.broken = STR("its frames are lost");
	const addr_t pc = put_stack(stack);
	struct report *r = report_new();
	r->python.free_threaded = how & THREADED;
	r->python.salvaged = how & SALVAGED;
	r->python.others = how & OTHERS ? 1 : 0;
	r->verdict.group_id = how & NO_IDS ? (struct str){ 0 } : STR("0123");
	const bool held = how & (HELD | HELD_IDLE | HELD_BY_IT | HELD_UNTOLD);
	if (!(how & NO_INTERP))
		*vec_push(&r->interps) = (struct report_interp){ .id = 0, .main = true, .gil_known = !(how & UNKNOWN), .gil_locked = held, .gil_holder_runs = how & (HELD | HELD_BY_IT),
			.gil_holder_tid = how & HELD_BY_IT ? TID : held && !(how & HELD_UNTOLD) ? HOLDER : -1 };
	if (another || how & TWO)
		*vec_push(&r->interps) = (struct report_interp){ .id = 5, .gil_known = another, .gil_holder_tid = -1 };
	struct build *b = build_new(&tables[0]);
	if (how & ENDING)
		build_field(b, b->interp, F_PyInterp_finalizing, b->interp);
	struct py *py = build_py(b);
	if (how & STARTING)
		py->phase = PHASE_STARTING;
	struct target t = { .img = py->img, .py = how & NO_PYTHON ? NULL : py };
	gil_notes(&t, r, &th, pc, STR("/usr/lib/libpython3.so"));
	const int want = cases[_i].said;
	ck_assert_msg(r->verdict.without_gil == (want == 1 || want == 2), "%s, 0x%x", stack, how);
	ck_assert_msg(r->verdict.notes.n == (want >= 2), "%s, 0x%x: %zu notes", stack, how, r->verdict.notes.n);
	if (want >= 2)
		ck_assert_msg(str_ends(r->verdict.notes.p[0].text, want == 2 ? "without holding the GIL" : "has no thread state, so it cannot hold the GIL"), STR_FMT, STR_ARG(r->verdict.notes.p[0].text));
	report_free(r);
	build_free(b);
}
END_TEST

/* A state that holds the lock and runs nothing may have been made for another thread than that which made it, and is its other one. */
START_TEST(holder_made)
{
	const struct layout *l = &tables[_i];
	for (int held = 0; held < 3; held++) { /* nothing; the state that runs Python; the one that the same thread made */
		struct build *b = build_new(l);
		addr_t code = build_code(b, &(struct build_code){ .name = "run", .file = "a.py", .firstlineno = 10, .units = 8 });
		addr_t made = build_thread(b, b->interp, BUILD_IDENT(b), 0), own = build_thread(b, b->interp, BUILD_IDENT(b), PID);
		if (layout_has(l, F_PyThread_native_thread_id))
			build_field(b, made, F_PyThread_native_thread_id, PID);
		build_frame(b, own, &(struct build_frame){ .code = code, .lasti = 2 });
		build_gil(b, b->interp, held == 0 ? 0 : held == 1 ? own : made);
		struct py *py = build_py(b);
		struct report *r = report_new();
		say(py->img, py, NULL, r);
		const struct report_interp *in = &r->interps.p[0];
		const bool told = held == 1 && in->gil_known;
		size_t holders = 0;
		for (size_t i = 0; i < r->threads.n; i++)
			holders += r->threads.p[i].holds_gil;
		MUST(in->gil_holder_tid == (told ? PID : -1) && in->gil_holder_runs == told && holders == told, "%s, %d: held by %lld, %zu", l->name, held,
		     (long long)in->gil_holder_tid, holders);
		report_free(r);
		build_free(b);
	}
}
END_TEST

int main(void)
{
	tables = every_layout(&n_tables);
	Suite *s = suite_create("gil");
	TCase *c = tcase_create("gil");
	tcase_add_loop_test(c, said, 0, COUNT(cases));
	tcase_add_loop_test(c, holder_made, 0, (int)n_tables);
	suite_add_tcase(s, c);
	return suite_run(s);
}
