/* The exceptions of the thread that crashed, and what the others are handling; where they have been. */
#include "inspect/parts.h"
#include "inspect/uncaught.h"
#include "python/exception.h"

enum { TEXT_MAX = 2000, PASSED = 64 /* shown of a traceback: half of them from each end */, ENDS = 2,
	READ_MAX = 10000000 /* entries of tracebacks: of one thread, or of all that are not shown whole */ };

static const struct report_frame *passed_frame(struct target *t, struct report *r, const struct py_passed *p)
{
	struct report_frame *f = arena_alloc(r->arena, sizeof *f);
	struct py_code code;
	struct position at;
	f->python = true;
	f->code = p->code;
	f->at = (struct report_position){ p->line, -1, -1, -1 };
	if (!p->code || py_code_read(t->py, p->code, r->arena, &code) < 0) {
		f->function = str_printf(r->arena, "<frame 0x%llx without a code object>", (unsigned long long)p->frame);
		return f;
	}
	f->function = code.name.s ? code.name : STR("?");
	f->qualname = code.qualname;
	f->file = code.file;
	if (p->lasti >= 0 && py_code_position(t->py, p->code, p->lasti, &at) == 0 && (p->line < 0 || at.line == p->line))
		f->at = (struct report_position){ at.line, at.end_line, at.col, at.end_col };
	return f;
}

/* shown: of its entries, half of them from each end.  *left: how many may be read; where it has more, none is shown. */
static void add_traceback(struct target *t, struct report *r, addr_t traceback, size_t shown, uint64_t *left, struct report_exception *out)
{
	struct py_passed first[PASSED / 2], last[PASSED / 2], p;
	uint64_t n = 0;
	const size_t half = shown / 2;
	for (struct walk w = py_traceback(t->py, traceback); *left && py_next_passed(&w, &p) > 0; n++, --*left) {
		if (n < half)
			first[n] = p;
		else
			last[n % half] = p;
	}
	if (!n || !*left)
		return;
	const size_t heads = n < half ? (size_t)n : half, tails = n - heads < half ? (size_t)(n - heads) : half;
	const struct report_frame **list = arena_alloc(r->arena, (heads + tails) * sizeof *list);
	for (size_t i = 0; i < heads; i++)
		list[i] = passed_frame(t, r, &first[i]);
	for (size_t i = 0; i < tails; i++)
		list[heads + i] = passed_frame(t, r, &last[(n - tails + i) % half]);
	out->traceback = list;
	out->n_traceback = heads + tails;
	out->passed = n;
}

static void fill(struct target *t, struct report *r, const struct report_thread *th, const struct py_exception *e, size_t shown, uint64_t *left, struct report_exception *out)
{
	out->tid = th->tid;
	if (py_exception_type(t->py, e, r->arena, &out->type) < 0)
		out->type = (struct str){ 0 };
	if (py_exception_text(t->py, e, TEXT_MAX, r->arena, &out->text) < 0)
		out->text = (struct str){ 0 };
	if (e->traceback)
		add_traceback(t, r, e->traceback, shown, left, out);
}

/* false: it may be None, which stands there where nothing is handled, and which is not in the file. */
static bool add(struct target *t, struct report *r, const struct report_thread *th, const struct py_exception *e, bool raised, bool kept)
{
	struct report_exception out = { .raised = raised, .kept = kept };
	uint64_t left = READ_MAX;
	fill(t, r, th, e, PASSED, &left, &out);
	if (!raised && !t->py->types.none && (!out.type.s || str_is(out.type, "NoneType")))
		return false;
	*vec_push(&r->exceptions) = out;
	return true;
}

/* 2.7 keeps one until the function returns that handled it: of a thread that goes its way that says nothing. */
void exceptions_handling(struct target *t, struct report *r)
{
	struct py_exception e;
	uint64_t entries = READ_MAX, passed = READ_MAX;
	if (!t->py || TRAIT(t->py, handled_kept) > 0)
		return;
	for (size_t i = 0; i < r->threads.n; i++) {
		struct report_thread *th = &r->threads.p[i];
		if (!th->state || th->stale || th->starting || th->crashed || py_exception_handled_within(t->py, th->state, &entries, &e) < 0)
			continue;
		struct report_exception *out = arena_alloc(r->arena, sizeof *out);
		fill(t, r, th, &e, ENDS, &passed, out);
		if (out->type.s && !str_is(out->type, "NoneType")) /* else it may be None, which is not in the file */
			th->handling = out;
	}
}

void exceptions_add(struct target *t, struct report *r, const struct report_thread *th, const struct regs *regs)
{
	struct py_exception e;
	if (!t->py || !th->state)
		return;
	int raised = py_exception_raised(t->py, th->state, &e);
	if (raised == 0)
		add(t, r, th, &e, true, false);
	int held = py_exception_in_finally(t->py, th->state, &e);
	if (held == 0 && !add(t, r, th, &e, false, false))
		held = ERR_FAULT;
	int handled = py_exception_handled(t->py, th->state, &e);
	if (handled == 0 && !add(t, r, th, &e, false, TRAIT(t->py, handled_kept) > 0))
		handled = ERR_FAULT;
	r->verdict.exceptions_known = (raised == 0 || raised == ERR_ABSENT) && (held == 0 || held == ERR_ABSENT) && (handled == 0 || handled == ERR_ABSENT);
	if (r->exceptions.n)
		return;
	bool sure;
	if (uncaught_find(t, th, regs, &e, &sure) && add(t, r, th, &e, false, false)) {
		r->exceptions.p[0].uncaught = true;
		r->exceptions.p[0].likely = !sure;
	} else if (r->verdict.exceptions_known && uncaught_printed(th, regs->pc)) {
		r->verdict.exceptions_known = false;
		verdict_note(r, "exception", STR("one that nothing caught was being printed, or a hook for it ran"));
	}
}
