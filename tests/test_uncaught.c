/* The exception that a hook was called with, which no thread state has: by what sys has as the last one and the stack of the call. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "build_py.h"
#include "every_layout.h"
#include "inspect/uncaught.h"
#include "suite.h"

enum { STACK = 512 };

static int find(struct build *b, addr_t thread, addr_t sp, struct py_exception *ret, bool *sure)
{
	struct py *py = build_py(b);
	struct target t = { .img = py->img, .py = py, .arena = b->arena };
	const struct report_thread th = { .state = thread };
	const struct regs regs = { .sp = sp };
	return uncaught_find(&t, &th, &regs, ret, sure);
}

/* How it is called; what does not look so. */
static void hook(const struct layout *l)
{
	const bool old = !layout_has(l, F_PyException_traceback);
	struct build *b = build_new(l);
	const unsigned width = l->abi.width;
	addr_t type = build_type(b, "Rejected", O_EXCEPTION, true), e = build_exception(b, type, build_tuple(b, NULL, 0));
	addr_t traceback = build_object(b, build_type(b, "traceback", O_OTHER, false), 64), thread = build_thread(b, b->interp, BUILD_IDENT(b), 42);
	addr_t stack = build_alloc(b, STACK * width), at = stack + 40 * width;
	struct py_exception got = { 0 };
	bool sure = true;
	if (!old)
		WRITE(b, e, PyException, traceback, traceback);
	build_ptr(b, at, type);
	build_ptr(b, at + width, e);
	build_ptr(b, at + 2 * width, traceback);
	MUST(find(b, thread, stack, &got, &sure) == 0, "%s: nothing is the last one", l->name);
	build_dict_str(b, b->sysdict, "last_value", e);
	if (old)
		build_dict_str(b, b->sysdict, "last_traceback", traceback);
	MUST(find(b, thread, stack, &got, &sure) == 1 && got.value == e && got.type == type && got.traceback == traceback && !sure, "%s: not found", l->name);
	/* The stack that is in use begins past it. */
	MUST(find(b, thread, at + width, &got, &sure) == 0, "%s: below the stack", l->name);
	build_ptr(b, at + 2 * width, e);
	MUST(find(b, thread, stack, &got, &sure) == 0, "%s: another traceback", l->name);
	build_ptr(b, at + 2 * width, traceback);
	build_ptr(b, at, e);
	MUST(find(b, thread, stack, &got, &sure) == 0, "%s: another type", l->name);
	build_free(b);

	/* last_exc, 3.12 and later, is what counts; what is no exception is none. */
	b = build_new(l);
	thread = build_thread(b, b->interp, BUILD_IDENT(b), 42);
	build_dict_str(b, b->sysdict, "last_exc", build_int(b, 7));
	MUST(find(b, thread, 0x1000, &got, &sure) == 0, "%s: a number", l->name);
	build_free(b);
}

/* The arguments of the hooks for what cannot be raised and for threads; what does not look so. */
static void arguments(const struct layout *l)
{
	if (!layout_has(l, F_PyException_traceback))
		return;
	struct build *b = build_new(l);
	const unsigned width = l->abi.width;
	const addr_t type = build_type(b, "Rejected", O_EXCEPTION, true), e = build_exception(b, type, build_tuple(b, NULL, 0)), other = build_int(b, 7);
	const addr_t traceback = build_object(b, build_type(b, "traceback", O_OTHER, false), 64), thread = build_thread(b, b->interp, BUILD_IDENT(b), 42);
	const addr_t stack = build_alloc(b, STACK * width), at = stack + 40 * width, kind = build_type(b, "UnraisableHookArgs", O_TUPLE, false);
	const addr_t items[] = { type, e, traceback, other, other }, args = build_tuple(b, items, 5), first = build_field_at(b, args, F_PyTuple_ob_item);
	struct py_exception got = { 0 };
	bool sure = true;
	WRITE(b, e, PyException, traceback, traceback);
	WRITE_IF(b, args, PyObject, ob_refcnt, 1);
	build_ptr(b, at, args);
	MUST(find(b, thread, stack, &got, &sure) == 0, "%s: a plain tuple", l->name);
	WRITE(b, args, PyObject, ob_type, kind);
	MUST(find(b, thread, stack, &got, &sure) == 1 && got.value == e && got.type == type && got.traceback == traceback && !sure, "%s: not found", l->name);
	MUST(find(b, thread, at + width, &got, &sure) == 0, "%s: below the stack", l->name);
	WRITE(b, args, PyTuple, ob_size, 4);
	MUST(find(b, thread, stack, &got, &sure) == 1, "%s: a thread's", l->name);
	WRITE(b, args, PyTuple, ob_size, 3);
	MUST(find(b, thread, stack, &got, &sure) == 0, "%s: three", l->name);
	WRITE(b, args, PyTuple, ob_size, 5);
	build_ptr(b, first + 2 * width, other);
	MUST(find(b, thread, stack, &got, &sure) == 0, "%s: another traceback", l->name);
	build_ptr(b, first + 2 * width, traceback);
	build_ptr(b, first, other);
	MUST(find(b, thread, stack, &got, &sure) == 0, "%s: another type", l->name);
	build_ptr(b, first, type);
	if (layout_has(l, F_PyObject_ob_refcnt)) {
		WRITE(b, args, PyObject, ob_refcnt, 0);
		MUST(find(b, thread, stack, &got, &sure) == 0, "%s: freed", l->name);
	}
	build_free(b);
}

START_TEST(arguments_of_hook)
{
	each_layout(arguments);
}
END_TEST

START_TEST(handed_to_hook)
{
	each_layout(hook);
}
END_TEST

static const struct { const char *function; bool python, prints; } frames[] = {
	{ "_PyErr_PrintEx", false, true }, { "PyErr_Display.cold", false, true }, { "write_unraisable_exc_file.lto_priv.0", false, true },
	{ "PyErr_Fetch", false, false }, { "PyErr_Display", true, false }, { "", false, false },
};

START_TEST(printing)
{
	const struct report_frame inner = { .pc = 0x1000, .function = STR("abort") };
	const struct report_frame outer = { .pc = 0x2000, .python = frames[_i].python, .function = str_of(frames[_i].function) };
	const struct report_frame *stack[] = { &outer, &inner };
	struct report_run run = { .n = 2 };
	run.frames = stack;
	const struct report_thread th = { .runs = &run, .n_runs = 1 };
	ck_assert_int_eq(uncaught_printed(&th, 0x1000), frames[_i].prints);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("uncaught");
	TCase *c = tcase_create("uncaught");
	tcase_set_timeout(c, 60);
	tcase_add_test(c, handed_to_hook);
	tcase_add_test(c, arguments_of_hook);
	tcase_add_loop_test(c, printing, 0, COUNT(frames));
	suite_add_tcase(s, c);
	return suite_run(s);
}
