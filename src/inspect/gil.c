/*
 * Did the interpreter's code crash in a thread that did not hold the GIL?  Much of it may run without: the lock's own functions, what
 * starts, ends and swaps thread states, raw memory, what the program does between Py_BEGIN_ALLOW_THREADS and its end.  So only what works on
 * objects or evaluates counts, by its name, and only the innermost function: below it another may have given the lock up.
 */
#include "inspect/gil.h"

#include "python/prove.h"

enum { LIBC = 16 };

/* That need it (CPython Doc/c-api/init.rst, Include/): up to their prefix, or all. */
static const char *const needing[] = { "PyObject_", "_PyObject_", "PyList_", "_PyList_", "PyDict_", "_PyDict_", "PyTuple_", "_PyTuple_", "PySet_", "_PySet_",
	"PyUnicode_", "_PyUnicode_", "PyBytes_", "_PyBytes_", "PyByteArray_", "PyLong_", "_PyLong_", "PyFloat_", "_PyFloat_", "PyErr_", "_PyErr_", "PyImport_", "PyModule_",
	"_PyModule_", "PyType_", "_PyType_", "PyNumber_", "PySequence_", "PyMapping_", "PyIter_", "PyFunction_", "_PyFunction_", "PyCFunction_", "_PyCFunction_", "PyMethod_",
	"PyEval_Call", "PyEval_EvalCode", "PyEval_EvalFrame", "_PyEval_EvalFrame", "_PyEval_EvalCode", "_PyEval_Vector", "PyVectorcall_", "PyGen_", "_PyGen_", "PyGC_", "_Py_Dealloc",
	"PyFrame_New", "_PyFrame_New", "_PyThreadState_PushFrame", "PyWeakref_", "_PyWeakref_", "PyArg_", "_PyArg_", "Py_BuildValue", "Py_VaBuildValue" };
/* Of these, what may be called by whoever: PyErr_SetInterrupt() of signal handlers. */
static const char *const free_of_it[] = { "PyErr_SetInterrupt" };

static bool begins(struct str name, const char *const *list, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (str_starts(name, list[i]))
			return true;
	return false;
}

bool gil_needed_by(struct str name)
{
	name = str_function(name);
	return (begins(name, needing, sizeof needing / sizeof *needing) || str_ends(name, "_dealloc")) && !begins(name, free_of_it, sizeof free_of_it / sizeof *free_of_it);
}

/* The C library's, which does what it was asked: it says nothing of who holds what. */
static bool is_libc(struct str module)
{
	return module_run_time(str_base(module)) == RUN_TIME_LIBC;
}

/* What asks for the thread state of who holds the lock, and ends the process where nobody does (Python/pystate.c, PyThreadState_Get). */
static bool is_check(const struct report_frame *f, struct str interpreter)
{
	static const char *const names[] = { "PyThreadState_Get", "_PyThreadState_Get", "Py_FatalError", "_Py_FatalError", "fatal_error" };
	return str_eq(f->module, interpreter) && begins(str_function(f->function), names, sizeof names / sizeof *names);
}

/* The function of the interpreter that a crash at pc was in, itself or in the C library or that check for it; NULL: in none, or that is not known. */
static const struct report_frame *crashed_in(const struct report *r, const struct report_thread *th, addr_t pc, struct str interpreter)
{
	const struct report_frame *f = r->verdict.callee ? r->verdict.callee : r->verdict.caller;
	struct inward w = inward_from(th, pc);
	if (!f)
		for (unsigned i = 0; i < LIBC && (f = inward_next(&w)) && !f->python && (f->inlined || is_libc(f->module) || is_check(f, interpreter)); i++)
			;
	return f && !f->python && !f->likely && f->module.len && str_eq(f->module, interpreter) ? f : NULL;
}

/* Is it known that a thread, which has no lock by what its own states say, has none? */
static bool is_known(const struct report *r, const struct report_thread *th)
{
	if (r->python.free_threaded || th->holds_gil || !r->interps.n || (!th->has_python && (th->tid < 0 || r->python.salvaged || r->python.others || th->broken.s)))
		return false;
	for (size_t i = 0; i < r->interps.n; i++) {
		const struct report_interp *in = &r->interps.p[i];
		bool its = !th->has_python;
		for (size_t k = 0; k < th->n_interpreters; k++)
			its |= th->interpreters[k] == in->id;
		its |= th->interpreter == in->id;
		/* A state that runs nothing does not tell which thread runs it. */
		if (its && (!in->gil_known || (in->gil_locked && (in->gil_holder_tid < 0 || in->gil_holder_tid == th->tid || !in->gil_holder_runs))))
			return false;
	}
	return true;
}

void gil_notes(struct target *t, struct report *r, const struct report_thread *th, addr_t pc, struct str interpreter)
{
	const struct py *py = t->py;
	/* Before it is made, and when it is no more, nobody holds it. */
	if (!py || py->phase != PHASE_RUNNING || py_phase(py, py->interp_head) == PHASE_ENDING || !is_known(r, th))
		return;
	r->verdict.without_gil = th->has_python;
	/* Python functions that a handler ran took the lock and gave it back. */
	struct inward all = inward_all(th), from = inward_from(th, pc);
	const struct report_frame *f, *first = inward_next(&from);
	while (th->handled && (f = inward_next(&all)) && f != first)
		if (f->python)
			return;
	const struct report_frame *in = interpreter.len ? crashed_in(r, th, pc, interpreter) : NULL;
	if (!in || !gil_needed_by(in->function))
		return;
	if (th->has_python)
		verdict_note(r, "GIL", str_printf(r->arena, "likely the cause: the thread ran " STR_FMT ", the interpreter's, without holding the GIL", STR_ARG(str_function(in->function))));
	else if (r->verdict.group_id.s) /* all that is known of threads is whole */
		verdict_note(r, "GIL", str_printf(r->arena, "likely the cause: the thread ran " STR_FMT ", the interpreter's, but has no thread state, so it cannot hold the GIL",
						  STR_ARG(str_function(in->function))));
}
