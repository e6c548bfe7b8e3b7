/*
 * Which frames of a crash matter: whose collection it was, whether the collector itself crashed, what was evaluated.
 * Stacks as text, innermost first.
 */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "inspect/collector.h"
#include "inspect/fault.h"
#include "suite.h"

enum { FRAMES = 16, PC = 0x1000 };

/* "i:visit_decref x:wr py" : the interpreter's, another module's, Python's. */
struct stack { struct report_frame f[FRAMES]; const struct report_frame *p[FRAMES]; struct report_run run; char text[256]; };

static struct report_thread thread_of(struct stack *s, const char *text)
{
	char *save = NULL;
	size_t n = 0;
	const struct report_frame *in[FRAMES];
	memset(s, 0, sizeof *s);
	strncpy(s->text, text, sizeof s->text - 1);
	for (char *w = strtok_r(s->text, " ", &save); w; w = strtok_r(NULL, " ", &save), n++) {
		struct report_frame *f = &s->f[n];
		f->pc = PC + n;
		f->python = strcmp(w, "py") == 0;
		if (!f->python) {
			f->module = w[0] == 'i' ? STR("/usr/lib/libpython3.so") : STR("/lib/other.so");
			f->function = w[2] == '?' ? (struct str){ 0 } : str_of(w + 2);
		}
		in[n] = f;
	}
	for (size_t i = 0; i < n; i++)
		s->p[i] = in[n - 1 - i]; /* a report's are the oldest first */
	s->run.n = n;
	s->run.frames = s->p;
	return (struct report_thread){ .tid = 1, .has_python = true, .holds_gil = true, .runs = &s->run, .n_runs = 1 };
}

static const struct { const char *stack; bool names, evaluated, own; const char *phase; } places[] = {
	{ "i:visit_decref i:subtract_refs i:gc_collect_main py", true, false, true, "subtracting references" },
	{ "i:visit_decref.lto_priv.0 x:traverse i:subtract_refs py", true, false, true, "subtracting references" },
	{ "i:gc_collect_main.constprop.0 py", true, false, true, NULL },
	{ "x:traverse i:subtract_refs py", true, false, false, "subtracting references" },
	{ "x:memmove i:? i:delete_garbage py", true, false, false, "clearing garbage" },
	/* A finalizer runs Python inside of the collector's run. */
	{ "x:wr i:? py i:slot_tp_finalize i:finalize_garbage i:gc_collect_main py", true, true, false, "calling finalizers" },
	{ "i:strlen py i:finalize_garbage py", true, true, false, "calling finalizers" },
	{ "py i:finalize_garbage py", true, true, false, "calling finalizers" },
	/* No names. */
	{ "i:? i:? py", false, false, true, NULL },
	{ "x:wr i:? py", false, false, false, NULL },
	{ "x:wr", false, false, false, NULL },
	{ "py", false, false, false, NULL },
	/* Another module's function of that name. */
	{ "x:collect i:? py", false, false, false, NULL },
};

START_TEST(place)
{
	struct stack s;
	struct report_thread th = thread_of(&s, places[_i].stack);
	struct collector_place p = collector_on(&th, places[_i].stack[0] == 'p' ? 0 : PC, STR("/usr/lib/libpython3.so"));
	ck_assert_msg(p.names == places[_i].names, "%s: names", places[_i].stack);
	ck_assert_msg(p.evaluated == places[_i].evaluated, "%s: evaluated", places[_i].stack);
	ck_assert_msg(p.own == places[_i].own, "%s: own", places[_i].stack);
	ck_assert_msg(places[_i].phase ? p.phase && strcmp(p.phase, places[_i].phase) == 0 : !p.phase, "%s: %s", places[_i].stack, p.phase ? p.phase : "no phase");
}
END_TEST

static const struct { const char *crashed, *other; enum collector_who who; } whose[] = {
	{ "i:visit_decref py", NULL, COLLECTS_THIS },
	{ "i:visit_decref py", "i:sleep py", COLLECTS_THIS },
	{ "x:wr py i:finalize_garbage py", "i:sleep py", COLLECTS_THIS },
	{ "x:wr py", NULL, COLLECTS_THIS },
	{ "x:wr py", "i:sleep py", COLLECTS_SOME },
	{ "x:wr py", "i:sleep py i:finalize_garbage i:gc_collect_main py", COLLECTS_OTHER },
};

START_TEST(who)
{
	struct stack s, o;
	struct report r = { 0 };
	const struct str interp = STR("/usr/lib/libpython3.so");
	*vec_push(&r.threads) = thread_of(&s, whose[_i].crashed);
	if (whose[_i].other)
		*vec_push(&r.threads) = thread_of(&o, whose[_i].other);
	struct collector_place here = collector_on(&r.threads.p[0], PC, interp);
	ck_assert_int_eq(collector_who(&r, &r.threads.p[0], &here, interp), whose[_i].who);
	vec_free(&r.threads);
}
END_TEST

/* The innermost Python frame of a crash at frame `at`: that which it evaluates, if it is the evaluation loop; none of a handler's. */
static const struct { const char *stack; size_t at, python; } evaluates[] = {
	{ "x:wr py i:eval py i:eval", 0, 1 },
	{ "py i:eval py i:eval", 1, 0 },
	{ "i:eval py i:eval", 0, 1 },
	{ "x:raise x:restore py py i:eval py", 4, 2 },
	{ "x:raise x:restore i:eval py", 2, 3 },
};

START_TEST(evaluated)
{
	struct stack s;
	struct report_thread th = thread_of(&s, evaluates[_i].stack);
	const struct report_frame *f;
	struct inward w = inward_python_from(&th, PC + evaluates[_i].at);
	while ((f = inward_next(&w)) && !f->python)
		;
	ck_assert_msg(f == &s.f[evaluates[_i].python], "%s: frame %td", evaluates[_i].stack, f ? f - s.f : -1);
	w = inward_from(&th, PC + evaluates[_i].at);
	ck_assert_ptr_eq(inward_next(&w), &s.f[evaluates[_i].at]);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("collecting");
	TCase *c = tcase_create("stacks");
	tcase_add_loop_test(c, place, 0, COUNT(places));
	tcase_add_loop_test(c, who, 0, COUNT(whose));
	tcase_add_loop_test(c, evaluated, 0, COUNT(evaluates));
	suite_add_tcase(s, c);
	return suite_run(s);
}
