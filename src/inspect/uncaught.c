/*
 * While an exception that nothing caught is printed, no thread state has it any more: PyErr_PrintEx has taken it, and put it into sys
 * (last_exc from 3.12 on, last_value: Python/pythonrun.c); PyErr_WriteUnraisable has taken it too, and left it nowhere (Python/errors.c).
 * The functions that print keep it, in registers or on the stack.
 */
#include "inspect/uncaught.h"

#include "inspect/given.h"

enum { WORDS_MAX = 1 << 12, BELOW = 256 /* words where what it calls saves its registers */, FOUND_MAX = 8, STACK_MAX = 1 << 14, REFERENCES_MAX = 1 << 16 };

/* Those that hand it on to a hook, or print it, and what they call for that. */
static bool prints(struct str function)
{
	static const char *const names[] = { "PyErr_PrintEx", "_PyErr_PrintEx", "PyErr_Print", "_PyErr_Print", "PyErr_Display", "_PyErr_Display", "PyErr_DisplayException",
		"_PyErr_DisplayException", "sys_excepthook", "PyErr_WriteUnraisable", "_PyErr_WriteUnraisableMsg", "PyErr_FormatUnraisable", "_PyErr_WriteUnraisableDefaultHook",
		"write_unraisable_exc", "write_unraisable_exc_file", "format_unraisable", "format_unraisable_v" };
	function = str_function(function);
	for (size_t i = 0; function.len && i < sizeof names / sizeof *names; i++)
		if (str_is(function, names[i]))
			return true;
	return false;
}

bool uncaught_printed(const struct report_thread *th, addr_t pc)
{
	const struct report_frame *f;
	for (struct inward w = inward_from(th, pc); (f = inward_next(&w));)
		if (!f->python && prints(f->function))
			return true;
	return false;
}

struct found { size_t n; addr_t value[FOUND_MAX]; };

/* One that was freed may look like it still, and so may an entry of a dictionary of types: it has a hash there, or a pointer. */
static bool is_counted(const struct py *py, addr_t word)
{
	uint64_t refs;
	return READ(py, word, PyObject, ob_refcnt, &refs) < 0 || ((uint32_t)refs && (uint32_t)refs <= REFERENCES_MAX);
}

static void consider(const struct py *py, addr_t word, struct found *ret)
{
	struct object o;
	for (size_t i = 0; i < ret->n; i++)
		if (ret->value[i] == word)
			return;
	if (!is_counted(py, word))
		return;
	if (ret->n < FOUND_MAX && object_at(py, word, &o) == 0 && o.kind == O_EXCEPTION)
		ret->value[ret->n++] = word;
}

/* Exceptions that the innermost group of functions which print one has at hand. */
static void at_hand(struct target *t, const struct report_thread *th, addr_t pc, struct found *ret)
{
	const struct native_view s = native_view_of(t, th, pc);
	const unsigned width = image_abi(t->img)->width;
	size_t first = 0, last;
	addr_t word;
	while (first < s.n && !prints(native_view_function(&s, first, NULL)))
		first++;
	if (first == s.n)
		return;
	for (last = first; last + 1 < s.n && prints(native_view_function(&s, last + 1, NULL)); last++)
		;
	for (size_t i = first; i <= last; i++) {
		const struct native_regs *regs = native_regs_of(s.rec, s.thread, s.number + i);
		for (unsigned k = 0; regs && k < 32; k++)
			if (regs->known >> k & 1)
				consider(t->py, regs->value[k], ret);
	}
	if (last + 1 >= s.n || !s.f[first].sp || s.f[last + 1].sp < s.f[first].sp)
		return;
	addr_t at = s.f[first].sp - (addr_t)BELOW * width;
	if (at < s.f[0].sp || at > s.f[first].sp)
		at = s.f[0].sp;
	for (size_t n = 0; at < s.f[last + 1].sp && n < WORDS_MAX && image_read_ptr(t->img, at, &word) == 0; at += width, n++)
		consider(t->py, word, ret);
}

/* What sys has as the last one; 0: none. */
static addr_t last_of(const struct py *py, const struct report_thread *th, addr_t *traceback)
{
	addr_t interp, sys, value;
	*traceback = 0;
	if (READ(py, th->state, PyThread, interp, &interp) < 0 || READ(py, interp, PyInterp, sysdict, &sys) < 0)
		return 0;
	if (dict_get(py, sys, "last_exc", &value) == 0)
		return value;
	if (dict_get(py, sys, "last_value", &value) < 0)
		return 0;
	if (dict_get(py, sys, "last_traceback", traceback) < 0)
		*traceback = 0;
	return value;
}

/*
 * The hook is called with type, value and traceback, which lie in a row on the stack of who calls it (_PyErr_PrintEx, a function that
 * is not exported): that of what sys has as the last one.
 */
static bool handed_to_hook(struct target *t, const struct regs *regs, addr_t last, addr_t traceback)
{
	const unsigned width = image_abi(t->img)->width;
	struct object o;
	struct py_exception e;
	addr_t before = 0, word = 0, next;
	if (!last || object_at(t->py, last, &o) < 0 || o.kind != O_EXCEPTION || py_exception_of(t->py, last, &e) < 0)
		return false;
	traceback = e.traceback ? e.traceback : traceback;
	addr_t at = regs->sp & ~(addr_t)(width - 1);
	for (size_t n = 0; traceback && n < STACK_MAX && image_read_ptr(t->img, at, &next) == 0; n++, at += width, before = word, word = next)
		if (word == last && before == o.type && next == traceback)
			return true;
	return false;
}

/*
 * What sys.unraisablehook and threading.excepthook are called with from 3.8 on (Python/errors.c: UnraisableHookArgs, Modules/_threadmodule.c:
 * _ExceptHookArgs): a tuple of a type of its own, of type, value, traceback and one or two more, which nothing but that call has.
 */
static bool hook_arguments(const struct py *py, addr_t at, struct py_exception *ret)
{
	enum { THREADS = 4, UNRAISABLE = 5, TAKEN = 3 };
	struct object o, value;
	struct py_exception e;
	addr_t items, item[TAKEN];
	uint64_t n;
	if (at % py->layout.abi.width || READ(py, at, PyTuple, ob_size, &n) < 0 || (n != THREADS && n != UNRAISABLE) || !is_counted(py, at) || object_at(py, at, &o) < 0 ||
	    o.kind != O_TUPLE || !py->types.tuple || o.type == py->types.tuple || READ(py, at, PyTuple, ob_item, &items) < 0)
		return false;
	for (unsigned i = 0; i < TAKEN; i++)
		if (image_read_ptr(py->img, items + i * py->layout.abi.width, &item[i]) < 0)
			return false;
	if (object_at(py, item[1], &value) < 0 || value.kind != O_EXCEPTION || value.type != item[0] || py_exception_of(py, item[1], &e) < 0 || (e.traceback && e.traceback != item[2]))
		return false;
	*ret = e;
	return true;
}

/* The innermost ones on the stack, where no function there has a name. */
static bool called_with(struct target *t, const struct regs *regs, struct py_exception *ret)
{
	const unsigned width = image_abi(t->img)->width;
	addr_t word, at = regs->sp & ~(addr_t)(width - 1);
	for (size_t n = 0; n < STACK_MAX && image_read_ptr(t->img, at, &word) == 0; n++, at += width)
		if (hook_arguments(t->py, word, ret))
			return true;
	return false;
}

/*
 * May it be that such a hook runs?  What calls it is exported (Python/errors.c), so it has a name where any function of the interpreter's has one.
 * Else a call that is over may have left on the stack what somebody kept.  That of threads runs while the exception is being handled.
 */
static bool may_run_hook(struct target *t, const struct report_thread *th, addr_t pc)
{
	const struct native_view s = native_view_of(t, th, pc);
	const struct module *own = t->mods ? modules_at(t->mods, t->py->runtime ? t->py->runtime : t->py->types.type) : NULL;
	bool named = false;
	for (size_t i = 0; i < s.n && !named; i++)
		named = own && modules_at(t->mods, s.f[i].pc) == own && native_view_function(&s, i, NULL).len;
	return !named || uncaught_printed(th, pc);
}

int uncaught_find(struct target *t, const struct report_thread *th, const struct regs *regs, struct py_exception *ret, bool *sure)
{
	const struct py *py = t->py;
	struct found found = { 0 };
	addr_t traceback;
	const addr_t last = last_of(py, th, &traceback);
	at_hand(t, th, regs->pc, &found);
	if (!found.n && handed_to_hook(t, regs, last, traceback) && py_exception_of(py, last, ret) == 0) {
		ret->traceback = ret->traceback ? ret->traceback : traceback;
		*sure = false;
		return 1;
	}
	for (size_t i = 0; last && i < found.n; i++)
		if (found.value[i] == last && py_exception_of(py, last, ret) == 0) {
			ret->traceback = ret->traceback ? ret->traceback : traceback;
			*sure = true;
			return 1;
		}
	*sure = false;
	if (!found.n && may_run_hook(t, th, regs->pc) && called_with(t, regs, ret))
		return 1;
	/* Else the only one that was raised; where none was, the only one. */
	struct py_exception e, one = { 0 };
	size_t raised = 0, n = 0;
	for (size_t i = 0; i < found.n; i++) {
		if (py_exception_of(py, found.value[i], &e) < 0)
			continue;
		one = e.traceback || !n ? e : one;
		raised += e.traceback != 0;
		n++;
	}
	if (raised != 1 && (raised || n != 1 || found.n != 1))
		return 0;
	*ret = one;
	return 1;
}
