/* What threads, frames and damage become in a report, under every built-in layout. */
#include <check.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "build_py.h"
#include "every_layout.h"
#include "inspect/parts.h"
#include "suite.h"
#include "whole_report.h"

static const struct layout *tables;
static int n_tables;

static const struct report_thread *thread_named(const struct report *r, const char *name)
{
	for (size_t i = 0; i < r->threads.n; i++)
		if (str_is(r->threads.p[i].name, name))
			return &r->threads.p[i];
	return NULL;
}

static size_t problems(const struct report *r, enum problem id)
{
	size_t n = 0;
	for (size_t i = 0; i < r->problems.n; i++)
		n += r->problems.p[i].id == id;
	return n;
}

/* Two threads: one with frames that repeat, one without; and an LWP that Python does not know. */
START_TEST(threads)
{
	struct build *b = build_new(&tables[_i]);
	addr_t run = build_code(b, &(struct build_code){ .name = "run", .file = "a.py", .firstlineno = 10, .units = 8 });
	addr_t spin = build_code(b, &(struct build_code){ .name = "spin", .file = "a.py", .firstlineno = 20, .units = 8 });
	addr_t main = build_thread(b, b->interp, BUILD_IDENT(b), PID), other = build_thread(b, b->interp, BUILD_IDENT(b) + 0x1000, PID + 1);
	build_frame(b, main, &(struct build_frame){ .code = run, .lasti = 2 });
	for (int i = 0; i < 50; i++)
		build_frame(b, main, &(struct build_frame){ .code = spin, .lasti = 2 });
	(void)other;
	build_thread_name(b, b->interp, BUILD_IDENT(b), "MainThread");
	build_thread_name(b, b->interp, BUILD_IDENT(b) + 0x1000, "w\xc3\xb6rker");
	struct py *py = build_py(b);
	struct report *r = report_new();
	say(py->img, py, NULL, r);
	const struct report_thread *m = thread_named(r, "MainThread"), *o = thread_named(r, "w\xc3\xb6rker");
	ck_assert_ptr_nonnull(m);
	ck_assert_ptr_nonnull(o);
	ck_assert_int_eq(m->tid, PID);
	ck_assert_int_eq(o->tid, PID + 1);
	ck_assert_uint_eq(m->n_frames, 51);
	ck_assert_int_eq(m->active, true);
	ck_assert_int_eq(o->active, false);
	ck_assert_int_eq(o->has_python, true);
	ck_assert_uint_eq(m->n_runs, 2);
	ck_assert(str_is(m->runs[0].frames[0]->function, "run"));
	ck_assert(str_is(m->runs[1].frames[0]->function, "spin"));
	ck_assert_uint_eq(m->runs[1].repeat, 50);
	ck_assert_uint_eq(r->interps.n, 1);
	ck_assert_uint_eq(problems(r, P_FRAMES_BROKEN) + problems(r, P_THREADS_BROKEN) + problems(r, P_INTERPS_BROKEN), 0);
	ck_assert_int_eq(r->python.found, true);
	report_free(r);
	build_free(b);
}
END_TEST

/* A limit is said where something was left out, and only there; what it leaves out is not said to be broken. */
START_TEST(limits)
{
	static const struct { struct limits lim; size_t threads, frames, said_threads, said_frames; } ways[] = {
		{ { .frames = 5, .threads = 4 }, 4, 5, 0, 0 }, { { .frames = 4, .threads = 3 }, 3, 4, 1, 2 }, { { .frames = 4, .threads = 2 }, 2, 4, 1, 1 }, { { .frames = 5, .threads = 1 }, 1, 5, 1, 0 },
	};
	const struct limits usual = lim;
	for (size_t way = 0; way < sizeof ways / sizeof *ways; way++) {
		struct build *b = build_new(&tables[_i]);
		addr_t other = build_interp(b, 1), code = build_code(b, &(struct build_code){ .name = "work", .file = "a.py", .firstlineno = 10, .units = 8 });
		for (int i = 0; i < 4; i++) {
			addr_t t = build_thread(b, i < 2 ? b->interp : other, BUILD_IDENT(b) + 0x1000 * (addr_t)i, PID + i);
			for (int k = 0; k < (i ? 5 : 2); k++)
				build_frame(b, t, &(struct build_frame){ .code = code, .lasti = 2 * k });
		}
		lim = ways[way].lim;
		struct py *py = build_py(b);
		struct report *r = report_new();
		say(py->img, py, NULL, r);
		lim = usual;
		size_t shown = 0, deepest = 0;
		for (size_t i = 0; i < r->threads.n; i++) {
			shown += r->threads.p[i].has_python;
			deepest = r->threads.p[i].n_frames > deepest ? r->threads.p[i].n_frames : deepest;
		}
		ck_assert_msg(shown == ways[way].threads && deepest == ways[way].frames, "%s, %zu: %zu threads, %zu frames", tables[_i].name, way, shown, deepest);
		ck_assert_msg(problems(r, P_THREADS_LIMIT) == ways[way].said_threads, "%s: %zu", tables[_i].name, way);
		ck_assert_msg(problems(r, P_FRAMES_LIMIT) == ways[way].said_frames, "%s: %zu, %zu", tables[_i].name, way, problems(r, P_FRAMES_LIMIT));
		ck_assert_uint_eq(problems(r, P_THREADS_UNLISTED) + problems(r, P_FRAMES_BROKEN), 0);
		report_free(r);
		build_free(b);
	}
}
END_TEST

/* Whatever becomes of the native stacks, Python's are whole. */
START_TEST(natives)
{
	for (enum natives how = NATIVE_NONE; how < NATIVE_WAYS; how++) {
		struct build *b = build_new(&tables[_i]);
		addr_t main = build_thread(b, b->interp, BUILD_IDENT(b), PID);
		const char *const names[] = { "outer", "middle", "inner" };
		for (int i = 0; i < 3; i++) {
			addr_t code = build_code(b, &(struct build_code){ .name = names[i], .file = "a.py", .firstlineno = 10, .units = 8 });
			build_frame(b, main, &(struct build_frame){ .code = code, .lasti = 2 });
		}
		struct py *py = build_py(b);
		struct report *r = report_new();
		say_with(how, py->img, py, NULL, r);
		ck_assert_uint_eq(r->threads.n, 1);
		size_t n = 0;
		for (size_t i = 0; i < r->threads.p[0].n_runs; i++) {
			const struct report_run *run = &r->threads.p[0].runs[i];
			for (size_t k = 0; k < run->n; k++)
				if (run->frames[k]->python)
					ck_assert_msg(n < 3 && str_is(run->frames[k]->function, names[n++]), "%s: %d", tables[_i].name, how);
		}
		ck_assert_uint_eq(n, 3);
		ck_assert_int_eq(r->threads.p[0].active, true);
		if (how != NATIVE_KILLED) /* it may have been faster */
			ck_assert_uint_eq(problems(r, P_NATIVE_FAILED), how == NATIVE_REFUSED);
		report_free(r);
		build_free(b);
	}
}
END_TEST

/* What of frames cannot be read is shown in their place, and said once. */
START_TEST(broken_code)
{
	struct build *b = build_new(&tables[_i]);
	addr_t main = build_thread(b, b->interp, BUILD_IDENT(b), PID);
	const char *const names[] = { "outer", "typeless", "nameless", "inner" };
	addr_t code[4];
	for (int i = 0; i < 4; i++) {
		code[i] = build_code(b, &(struct build_code){ .name = names[i], .qualname = names[i], .file = "a.py", .firstlineno = 10, .units = 8 });
		build_frame(b, main, &(struct build_frame){ .code = code[i], .lasti = 2 });
	}
	build_settle(b);
	WRITE(b, code[1], PyObject, ob_type, 0x4141414141414140 >> (64 - 8 * tables[_i].abi.width));
	WRITE(b, code[2], PyCode, co_name, 0x123456780);
	WRITE_IF(b, code[2], PyCode, co_qualname, 0x123456780);
	struct py *py = build_py(b);
	struct report *r = report_new();
	say(py->img, py, NULL, r);
	ck_assert_uint_eq(r->threads.n, 1);
	ck_assert_uint_eq(r->threads.p[0].n_frames, 4);
	ck_assert_ptr_null(r->threads.p[0].broken.s);
	char text[2][64];
	snprintf(text[0], sizeof text[0], "<0x%llx is not a code object>", (unsigned long long)code[1]);
	snprintf(text[1], sizeof text[1], "<code 0x%llx: its name is not in the capture>", (unsigned long long)code[2]);
	const char *const want[] = { "outer", text[0], text[1], "inner" };
	for (size_t i = 0, k = 0; i < r->threads.p[0].n_runs; i++)
		for (size_t j = 0; j < r->threads.p[0].runs[i].n; j++, k++) {
			struct str name = r->threads.p[0].runs[i].frames[j]->function;
			ck_assert_msg(str_is(name, want[k]), "%s: " STR_FMT ", not %s", tables[_i].name, STR_ARG(name), want[k]);
		}
	ck_assert_uint_eq(problems(r, P_CODE_BROKEN), 1);
	for (size_t i = 0; i < r->problems.n; i++)
		if (r->problems.p[i].id == P_CODE_BROKEN) {
			CLEANUP(cleanup_free) char *message = xasprintf(STR_FMT, STR_ARG(r->problems.p[i].message));
			ck_assert_ptr_nonnull(strstr(message, "cannot be read: 2 ("));
		}
	report_free(r);
	build_free(b);
}
END_TEST

/* A frame that is there and leads to nothing is not one that is not there. */
START_TEST(broken_frame)
{
	const struct layout *l = &tables[_i];
	if (!layout_has(l, F_PyFrameObject_f_back) || layout_has(l, F_PyFrame_previous))
		return;
	for (int there = 0; there < 2; there++) {
		struct build *b = build_new(l);
		const addr_t main = build_thread(b, b->interp, BUILD_IDENT(b), PID);
		const addr_t code = build_code(b, &(struct build_code){ .name = "go", .file = "a.py", .firstlineno = 10, .units = 8 });
		addr_t frame[2];
		for (int i = 0; i < 2; i++)
			frame[i] = build_frame(b, main, &(struct build_frame){ .code = code, .lasti = 2 });
		if (there) {
			build_field(b, frame[0], F_PyFrameObject_f_code, 0x41414140);
			build_field(b, frame[0], F_PyFrameObject_f_builtins, 0x41414140);
		} else {
			build_field(b, frame[1], F_PyFrameObject_f_back, 0x41414140);
		}
		struct py *py = build_py(b);
		struct report *r = report_new();
		say(py->img, py, NULL, r);
		CLEANUP(cleanup_free) char *want = xasprintf("frame 0x%llx %sis not in the capture", there ? (unsigned long long)frame[0] : 0x41414140, there ? "leads to memory that " : "");
		ck_assert_msg(str_is(r->threads.p[0].broken, want), "%s: " STR_FMT ", not %s", l->name, STR_ARG(r->threads.p[0].broken), want);
		ck_assert_uint_eq(r->threads.p[0].n_frames, 1);
		report_free(r);
		build_free(b);
	}
}
END_TEST

static const char *message_of(const struct report *r, enum problem id)
{
	for (size_t i = 0; i < r->problems.n; i++)
		if (r->problems.p[i].id == id)
			return str_c(r->arena, r->problems.p[i].message);
	return "";
}

/* What is lost without a frame or a thread being lost: a line, a name, who holds the lock. */
START_TEST(small_losses)
{
	const struct layout *l = &tables[_i];
	struct build *b = build_new(l);
	addr_t main = build_thread(b, b->interp, BUILD_IDENT(b), PID), other = build_thread(b, b->interp, BUILD_IDENT(b) + 0x1000, PID + 1);
	addr_t code = build_code(b, &(struct build_code){ .name = "run", .file = "a.py", .firstlineno = 10, .units = 8 });
	build_frame(b, main, &(struct build_frame){ .code = code, .lasti = 2 });
	addr_t frame = build_frame(b, main, &(struct build_frame){ .code = code, .lasti = 2 });
	build_frame(b, main, &(struct build_frame){ .code = code, .lasti = 2 });
	build_thread_name(b, b->interp, BUILD_IDENT(b), "MainThread");
	build_gil(b, b->interp, other);
	for (int damaged = 0; damaged < 2; damaged++) {
		if (damaged) {
			enum py_field at = layout_has(l, F_PyFrame_instr_ptr) ? F_PyFrame_instr_ptr : layout_has(l, F_PyFrame_prev_instr) ? F_PyFrame_prev_instr : F_PyFrameObject_f_lasti;
			build_field(b, frame, at, at == F_PyFrameObject_f_lasti ? 0x7ffffff0 : 0x1234);
			build_dict_set(b, b->threading_active, build_int(b, 7), b->types.none);
			build_gil(b, b->interp, other + 8);
		}
		struct py *py = build_py(b);
		struct report *r = report_new();
		say(py->img, py, NULL, r);
		const struct report_thread *t = thread_named(r, "MainThread");
		ck_assert_ptr_nonnull(t);
		ck_assert_uint_eq(t->n_frames, 3);
		size_t lines = 0;
		for (size_t i = 0; i < t->n_runs; i++)
			for (size_t k = 0; k < t->runs[i].n; k++)
				lines += t->runs[i].frames[k]->at.line > 0 ? t->runs[i].repeat : 0;
		ck_assert_msg(lines == 3 - (size_t)damaged, "%s: %zu lines", l->name, lines);
		ck_assert_msg((strstr(message_of(r, P_LINES_UNREAD), "not known: 1 (thread 4711, run: its ") != NULL) == damaged, "%s: %s", l->name, message_of(r, P_LINES_UNREAD));
		ck_assert_msg((strstr(message_of(r, P_NAMES_UNREAD), "cannot be read: 1;") != NULL) == damaged, "%s: %s", l->name, message_of(r, P_NAMES_UNREAD));
		ck_assert_int_eq(r->interps.p[0].gil_locked, true);
		ck_assert_int_eq(r->interps.p[0].gil_holder_tid, damaged ? -1 : PID + 1);
		ck_assert_msg((strstr(message_of(r, P_GIL_HOLDER), "is no thread state") != NULL) == damaged, "%s: %s", l->name, message_of(r, P_GIL_HOLDER));
		report_free(r);
	}
	build_free(b);
}
END_TEST

/* Words of the lock that cannot be right: then it is unknown, and that is said.  So are a file without a name and a main thread that is none. */
START_TEST(contradictions)
{
	enum { RIGHT, FREE, NO_LOCK, NO_FILE, NO_MAIN, CUT, CASES };
	const struct layout *l = &tables[_i];
	for (int i = 0; i < CASES; i++) {
		struct build *b = build_new(l);
		addr_t main = build_thread(b, b->interp, BUILD_IDENT(b), PID);
		addr_t code = build_code(b, &(struct build_code){ .name = "run", .file = "a.py", .firstlineno = 10, .units = 8 });
		build_frame(b, main, &(struct build_frame){ .code = code, .lasti = 2 });
		build_gil(b, b->interp, main);
		build_thread_name(b, b->interp, BUILD_IDENT(b), "MainThread");
		const char *const name[] = { "_ident" };
		const addr_t value[] = { build_int(b, (int64_t)BUILD_IDENT(b)) };
		build_dict_str(b, b->threading, "_main_thread", build_instance(b, "_MainThread", name, value, 1, false));
		build_settle(b);
		const bool own = layout_has(l, F_PyInterp_gil), word = layout_has(l, F_PyThread_holds_gil) || (!own && layout_has(l, F_PyRuntime_gil_locked));
		const bool threaded = layout_has(l, F_PyObject_ob_tid);
		if ((i == FREE && (!word || threaded)) || (i == NO_LOCK && !own) || (i == NO_MAIN && !layout_has(l, F_PyRuntime_main_thread))) {
			build_free(b);
			continue;
		}
		if (i == CUT) /* of the list only a newer thread is left, and nothing of the main one's state */
			build_thread(b, b->interp, BUILD_IDENT(b) + 0x1000, PID + 1);
		if (i == CUT) {
			const addr_t other = build_field_get(b, b->interp, F_PyInterp_tstate_head);
			WRITE(b, other, PyThread, next, 0);
			WRITE(b, main, PyThread, interp, 0);
		}
		if (i == FREE && own)
			WRITE(b, build_field_get(b, b->interp, F_PyInterp_gil), PyGil, locked, 0);
		else if (i == FREE)
			WRITE(b, b->runtime, PyRuntime, gil_locked, 0);
		else if (i == NO_LOCK)
			WRITE(b, b->interp, PyInterp, gil, 0);
		else if (i == NO_FILE)
			WRITE(b, code, PyCode, co_filename, 0);
		else if (i == NO_MAIN)
			WRITE(b, b->runtime, PyRuntime, main_thread, 0x4242);
		struct py *py = build_py(b);
		struct report *r = report_new();
		say(py->img, py, NULL, r);
		const char *doubt = message_of(r, P_GIL_DOUBT);
		ck_assert_msg(i == CUT || r->threads.p[0].main, "%s: %d", l->name, i);
		ck_assert_msg((strstr(message_of(r, P_FRAMES_BROKEN), "thread 4711: no thread state of it was found") != NULL) ==
			      (i == CUT && layout_has(l, F_PyRuntime_interp_head) && abi_tls_is_self(&l->abi)), "%s: %d: %s", l->name, i, message_of(r, P_FRAMES_BROKEN));
		ck_assert_msg((doubt[0] != 0) == (i == FREE || i == NO_LOCK), "%s: %d: %s", l->name, i, doubt);
		if (i == FREE)
			ck_assert_msg(strstr(doubt, "the lock is free, though a thread state ") != NULL, "%s: %s", l->name, doubt);
		if (i == NO_LOCK)
			ck_assert_msg(strstr(doubt, "its pointer to the lock is null") != NULL, "%s: %s", l->name, doubt);
		ck_assert(!(doubt[0] && r->interps.p[0].gil_known));
		ck_assert_msg((strstr(message_of(r, P_CODE_BROKEN), "run: its file's name cannot be read") != NULL) == (i == NO_FILE), "%s: %d: %s", l->name, i,
			      message_of(r, P_CODE_BROKEN));
		report_free(r);
		build_free(b);
	}
}
END_TEST

/* A version or a layout that a user forced against the image's word, and another Python that is alive: said, each with what lifts it. */
START_TEST(not_the_only_word)
{
	static const char *const forced[] = { "3.12.1", "3.9.18" }; /* against 3.9.18: by its version; by a layout, which leaves the version alone */
	struct build *b = build_new(&tables[_i]);
	build_thread(b, b->interp, BUILD_IDENT(b), PID);
	for (size_t i = 0; i < 3; i++) {
		struct py *py = build_py(b), other;
		snprintf(py->version_denied, sizeof py->version_denied, "%s", i < 2 ? "3.9.18" : "");
		snprintf(py->version_text, sizeof py->version_text, "%s", i < 2 ? forced[i] : "3.8.18");
		other = *py;
		py->other = i < 2 ? NULL : &other;
		struct report *r = report_new();
		say(py->img, py, NULL, r);
		char want[256];
		if (i < 2) {
			snprintf(want, sizeof want, "the image says it is Python 3.9.18; %s was forced by --%s: stacks and values may be wrong", i ? tables[_i].name : "3.12.1",
				 i ? "layout" : "python-version");
			ck_assert_str_eq(message_of(r, P_VERSION_FORCED), want);
			ck_assert_int_eq(r->verdict.likely, true);
			ck_assert_str_eq(message_of(r, P_OTHER_PYTHON), "");
		} else {
			const unsigned long long at = py->runtime ? py->runtime : py->interp_head;
			snprintf(want, sizeof want, "a second Python (3.8.18, at 0x%llx) is alive in this process; its thread states (1) are not shown", at);
			ck_assert_str_eq(message_of(r, P_OTHER_PYTHON), want);
			ck_assert_str_eq(message_of(r, P_VERSION_FORCED), "");
			ck_assert_int_eq(r->python.others, true);
			snprintf(want, sizeof want, "--runtime=0x%llx shows that one instead", at);
			for (size_t k = 0; k < r->problems.n; k++)
				ck_assert(r->problems.p[k].id != P_OTHER_PYTHON || str_is(r->problems.p[k].hint, want));
		}
		report_free(r);
	}
	build_free(b);
}
END_TEST

/* A new thread has its maker's name in the kernel; what Python calls somebody else it is not called. */
START_TEST(inherited_name)
{
	struct build *b = build_new(&tables[_i]);
	build_thread(b, b->interp, BUILD_IDENT(b), PID);
	build_thread_name(b, b->interp, BUILD_IDENT(b), "a worker with a long name");
	static const char *const kernel[] = { "a worker with a", "a worker with", "other" };
	for (int i = 0; i < 3; i++) {
		struct thread *lwp = vec_push(&b->lwps);
		lwp->tid = PID + 1 + i;
		lwp->name = str_of(kernel[i]);
		lwp->regs.syscall.nr = -1;
	}
	struct py *py = build_py(b);
	struct report *r = report_new();
	say(py->img, py, NULL, r);
	ck_assert_uint_eq(r->threads.n, 4);
	for (size_t i = 0; i < 4; i++)
		ck_assert_msg(r->threads.p[i].name_inherited == (r->threads.p[i].tid == PID + 1), "%s: %d", tables[_i].name, (int)r->threads.p[i].tid);
	report_free(r);
	build_free(b);
}
END_TEST

/* Which threads stand where depends on Python, not on where the image has them; only the one that crashed is put first. */
/* Up to 3.9 nothing tells which thread runs a further interpreter: its state names the one that made it. */
static bool names_maker_only(const struct layout *l)
{
	return !layout_has(l, F_PyThread_cframe) && !layout_has(l, F_PyThread_current_frame);
}

START_TEST(unsure_interpreter)
{
	struct build *b = build_new(&tables[_i]);
	b->bare_chains = true;
	addr_t code = build_code(b, &(struct build_code){ .name = "run", .file = "a.py", .firstlineno = 10, .units = 8 });
	addr_t sub = build_interp(b, 1);
	build_frame(b, build_thread(b, b->interp, BUILD_IDENT(b), PID), &(struct build_frame){ .code = code, .lasti = 2 });
	build_frame(b, build_thread(b, sub, BUILD_IDENT(b), 0), &(struct build_frame){ .code = code, .lasti = 2 });
	build_thread_name(b, b->interp, BUILD_IDENT(b), "MainThread");
	struct py *py = build_py(b);
	struct report *r = report_new();
	say(py->img, py, NULL, r);
	bool old = names_maker_only(&tables[_i]);
	ck_assert_uint_eq(r->threads.n, 2);
	ck_assert_uint_eq(problems(r, P_INTERP_THREAD), old ? 1 : 0);
	ck_assert_int_eq(r->threads.p[0].tid, PID);
	ck_assert_int_eq(r->threads.p[1].tid, old ? -1 : PID);
	ck_assert_int_eq(r->threads.p[1].python_id != 0, !old);
	ck_assert_int_eq(r->threads.p[1].name.s != NULL, !old);
	ck_assert(r->threads.p[1].again && r->threads.p[1].active);
	report_free(r);
	build_free(b);
}
END_TEST

/* A frame belongs to one thread: where the chains of two meet, that is said, once. */
START_TEST(frames_of_two)
{
	struct build *b = build_new(&tables[_i]);
	addr_t code = build_code(b, &(struct build_code){ .name = "run", .file = "a.py", .firstlineno = 10, .units = 8 }), f[2];
	for (int i = 0; i < 2; i++)
		f[i] = build_frame(b, build_thread(b, b->interp, BUILD_IDENT(b) + 0x1000 * (uint64_t)i, PID + i),
				   &(struct build_frame){ .code = code, .lasti = 2, .entry = true });
	if (!layout_has(&tables[_i], F_PyThread_base_frame)) /* which tells by itself that a chain is not its own */
		build_uint(b, build_frame_back(b, f[1]), tables[_i].abi.width, f[0]);
	struct py *py = build_py(b);
	struct report *r = report_new();
	say(py->img, py, NULL, r);
	ck_assert_uint_eq(r->threads.n, 2);
	ck_assert_uint_eq(problems(r, P_FRAMES_SHARED), layout_has(&tables[_i], F_PyThread_base_frame) ? 0 : 1);
	report_free(r);
	build_free(b);
}
END_TEST

/* A thread that went from one interpreter into another is one stack: the place of each on the C stack tells which is inside. */
START_TEST(chain)
{
	const struct layout *l = &tables[_i];
	if (names_maker_only(l))
		return;
	for (int way = 0; way < 2; way++) { /* from the main interpreter into the other, and the other way round */
		struct build *b = build_new(l);
		addr_t sub = build_interp(b, 7), third = build_interp(b, 9), in[2] = { way ? b->interp : sub, way ? sub : b->interp }; /* inner, outer */
		addr_t code[2];
		for (int k = 0; k < 2; k++) {
			code[k] = build_code(b, &(struct build_code){ .name = k ? "outer" : "inner", .file = "a.py", .firstlineno = 10, .units = 8 });
			addr_t t = build_thread(b, in[k], 0x70000700, k ? PID : 0);
			if (layout_has(l, F_PyThread_native_thread_id))
				build_field(b, t, F_PyThread_native_thread_id, PID);
			if (layout_has(l, F_PyThread_cframe) && layout_has(l, F_PyThread_root_cframe)) {
				addr_t cframe = build_alloc(b, 64); /* of an evaluation, while the builder's is the thread's own */
				if (layout_has(l, F_PyCFrame_current_frame))
					build_field(b, build_field_get(b, t, F_PyThread_cframe), F_PyCFrame_current_frame, 0);
				build_field(b, t, F_PyThread_cframe, cframe);
			}
			build_frame(b, t, &(struct build_frame){ .shim = true });
			build_frame(b, t, &(struct build_frame){ .code = code[k], .lasti = 2, .entry = true });
			build_frame(b, t, &(struct build_frame){ .code = code[k], .lasti = 4 });
		}
		build_thread(b, third, 0x70000700, 0); /* one that runs nothing is outside */
		build_thread_name(b, b->interp, 0x70000700, "both");
		struct py *py = build_py(b);
		struct report *r = report_new();
		say(py->img, py, NULL, r);
		MUST(r->threads.n == 1, "%s: %zu threads", l->name, r->threads.n);
		const struct report_thread *t = &r->threads.p[0];
		int64_t inner = way ? 0 : 7, outer = way ? 7 : 0;
		MUST(t->n_interpreters == 3 && t->interpreters[2] == inner && t->interpreters[1] == outer && t->interpreters[0] == 9 &&
		     t->interpreter == inner && !t->again && str_is(t->name, "both"), "%s: way %d: %zu interpreters", l->name, way, t->n_interpreters);
		static const char *const names[] = { "outer", "outer", "inner", "inner" };
		size_t n = 0;
		for (size_t i = 0; i < t->n_runs; i++)
			for (size_t k = 0; k < t->runs[i].n; k++, n++)
				MUST(n < 4 && str_is(t->runs[i].frames[k]->function, names[n]) && t->runs[i].frames[k]->interpreter == (n < 2 ? outer : inner),
				     "%s: way %d: frame %zu", l->name, way, n);
		ck_assert_uint_eq(n, 4);
		report_free(r);
		build_free(b);
	}
}
END_TEST

START_TEST(order)
{
	if (names_maker_only(&tables[_i]))
		return; /* one of the states has no thread that could be ordered: unsure_interpreter */
	enum { WAYS = 6, MOST = 12 };
	static const struct { bool snapshot; int signo; size_t swap; } ways[WAYS] = { { true, 0, 0 }, { false, 0, 0 }, { false, SIGSEGV, 0 },
		{ false, 0, 3 }, { false, SIGSEGV, 3 }, { false, SIGTERM, 4 } };
	struct { pid_t tid; int64_t interp; } seen[WAYS][MOST];
	size_t n[WAYS];
	for (int i = 0; i < WAYS; i++) {
		struct build *b = build_new(&tables[_i]);
		b->bare_chains = true;
		addr_t code = build_code(b, &(struct build_code){ .name = "run", .file = "a.py", .firstlineno = 10, .units = 8 });
		addr_t sub = build_interp(b, 1), in[] = { b->interp, b->interp, sub, sub, sub };
		/* The main thread, and the last one, have states in the subinterpreter too. */
		static const int lwp[] = { 0, 1, 0, 2, 3 };
		for (int k = 0; k < 5; k++)
			build_frame(b, build_thread(b, in[k], BUILD_IDENT(b) + 0x1000 * (uint64_t)lwp[k], k == 2 ? 0 : PID + lwp[k]),
				    &(struct build_frame){ .code = code, .lasti = 2 });
		for (int k = 7; k >= 6; k--) { /* that run no Python */
			struct thread lone = b->lwps.p[0];
			lone.tid = PID + k;
			lone.regs.tls = BUILD_IDENT(b) + 0x1000 + 0x1000 * (uint64_t)k;
			*vec_push(&b->lwps) = lone;
		}
		pid_t pid = b->lwps.p[0].tid;
		struct thread first = b->lwps.p[0];
		b->lwps.p[0] = b->lwps.p[ways[i].swap];
		b->lwps.p[ways[i].swap] = first;
		b->lwps.p[0].signo = ways[i].signo;
		struct py *py = build_py(b);
		image_facts_mut(py->img)->pid = pid;
		image_facts_mut(py->img)->kind = ways[i].snapshot ? IMAGE_SNAPSHOT : IMAGE_CORE;
		struct report *r = report_new();
		say(py->img, py, NULL, r);
		n[i] = r->threads.n;
		ck_assert_uint_eq(n[i], 7);
		for (size_t k = 0; k < n[i]; k++) {
			seen[i][k].tid = (pid_t)r->threads.p[k].tid;
			seen[i][k].interp = r->threads.p[k].interpreter;
			ck_assert_int_eq(r->threads.p[k].crashed, ways[i].signo == SIGSEGV && r->threads.p[k].tid == b->lwps.p[0].tid);
		}
		ck_assert_uint_eq(r->verdict.thread, 0);
		report_free(r);
		build_free(b);
	}
	static const pid_t plain[] = { 0, 1, 0, 2, 3, 6, 7 }, main_crashed[] = { 0, 0, 1, 2, 3, 6, 7 }, last_crashed[] = { 3, 0, 1, 0, 2, 6, 7 },
		lone_stopped[] = { 7, 0, 1, 0, 2, 3, 6 };
	const pid_t *const want[WAYS] = { plain, plain, main_crashed, plain, last_crashed, lone_stopped };
	for (int i = 0; i < WAYS; i++)
		for (size_t k = 0; k < 7; k++)
			ck_assert_msg(seen[i][k].tid == PID + want[i][k], "%s: way %d: %zu is %d, not %d", tables[_i].name, i, k, (int)seen[i][k].tid,
				      PID + (int)want[i][k]);
	for (int i = 1; i < WAYS; i++)
		for (size_t k = 0; k < 7 && want[i] == plain; k++)
			ck_assert_int_eq(seen[i][k].interp, seen[0][k].interp);
}
END_TEST

/*
 * Where nothing crashed: who held the GIL and evaluated Python, else who ran and had frames, else who the signal came to, else the main
 * thread.  Threads 0 (the main one) to 3 have frames, 4 is in none, 5 runs no Python; the signal came to `came`.
 */
START_TEST(matters)
{
	enum { SNAP = -1, THREADS = 5, ALL = 6, NOBODY = -1 };
	static const struct { int signo, code, came, holder; unsigned ran; bool stopped; int want; } cases[] = {
		{ SNAP, 0, 0, NOBODY, 0, false, 0 },
		{ SNAP, 0, 0, 2, 0, false, 2 },            /* holds it, in a call that waits */
		{ SNAP, 0, 0, 2, 1u << 3, false, 2 },
		{ SNAP, 0, 0, 4, 0, false, 0 },            /* holds it, and evaluates nothing */
		{ SNAP, 0, 0, 4, 1u << 3, false, 3 },
		{ SNAP, 0, 0, NOBODY, 1u << 3, false, 3 },
		{ SNAP, 0, 0, NOBODY, 1u << 2 | 1u << 3, false, 2 },
		{ SNAP, 0, 0, NOBODY, 1u << 0 | 1u << 1, false, 0 },
		{ SNAP, 0, 0, NOBODY, 1u << 4 | 1u << 5, false, 0 },
		{ SNAP, 0, 0, NOBODY, 1u << 3, true, 0 },  /* all had been stopped: none ran */
		{ 0, 0, 0, 1, 0, false, 1 },               /* a debugger's */
		{ SIGTERM, 0 /* SI_USER */, 0, 1, 0, false, 1 },
		{ SIGTERM, 0, 0, NOBODY, 1u << 2, false, 2 },
		{ SIGTERM, 0, 3, NOBODY, 0, false, 3 },
		{ SIGTERM, SI_TKILL, 3, 1, 1u << 2, false, 3 }, /* that one was meant */
		{ SIGSEGV, 1, 3, 1, 1u << 2, false, 3 },
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		if (cases[i].holder != NOBODY && layout_has(&tables[_i], F_PyObject_ob_tid))
			continue; /* free-threaded: there is no such lock */
		struct build *b = build_new(&tables[_i]);
		addr_t code = build_code(b, &(struct build_code){ .name = "run", .file = "a.py", .firstlineno = 10, .units = 8 });
		addr_t holder = 0;
		for (int k = 0; k < THREADS; k++) {
			addr_t th = build_thread(b, b->interp, BUILD_IDENT(b) + 0x1000 * (uint64_t)k, PID + k);
			if (k != 4)
				build_frame(b, th, &(struct build_frame){ .code = code, .lasti = 2 });
			if (k == cases[i].holder)
				holder = th;
		}
		build_gil(b, b->interp, holder);
		struct thread lone = b->lwps.p[0];
		lone.tid = PID + 5;
		lone.regs.tls = BUILD_IDENT(b) + 0x1000 * 9;
		*vec_push(&b->lwps) = lone;
		for (int k = 0; k < ALL; k++) {
			b->lwps.p[k].regs.syscall.known = true;
			b->lwps.p[k].regs.syscall.nr = cases[i].ran >> k & 1 ? -1 : 202;
			b->lwps.p[k].state = cases[i].stopped ? 'T' : 'S';
		}
		struct thread first = b->lwps.p[0];
		b->lwps.p[0] = b->lwps.p[cases[i].came];
		b->lwps.p[cases[i].came] = first;
		b->lwps.p[0].signo = cases[i].signo > 0 ? cases[i].signo : 0;
		struct py *py = build_py(b);
		struct image_facts *f = image_facts_mut(py->img);
		f->pid = PID;
		f->kind = cases[i].signo == SNAP ? IMAGE_SNAPSHOT : IMAGE_CORE;
		if (cases[i].signo > 0) {
			f->siginfo.known = true;
			f->siginfo.signo = cases[i].signo;
			f->siginfo.code = cases[i].code;
			f->siginfo.has_sender = cases[i].code <= 0;
			f->siginfo.pid = 99;
		}
		struct report *r = report_new();
		say(py->img, py, NULL, r);
		ck_assert_msg(r->verdict.tid == PID + cases[i].want && r->threads.p[0].tid == r->verdict.tid, "%s: case %zu: %d", tables[_i].name, i, (int)r->verdict.tid - PID);
		ck_assert(r->verdict.location && r->verdict.location->python);
		for (size_t k = 2; k < r->threads.n; k++) /* the others stay in their order */
			ck_assert_int_lt(r->threads.p[k - 1].tid, r->threads.p[k].tid);
		report_free(r);
		build_free(b);
	}
}
END_TEST

/* Of those that ran the main one matters, also where another's state was made before its own. */
START_TEST(main_matters)
{
	if (!layout_has(&tables[_i], F_PyRuntime_main_thread))
		return;
	for (int main = 1; main < 3; main++) {
		struct build *b = build_new(&tables[_i]);
		addr_t code = build_code(b, &(struct build_code){ .name = "run", .file = "a.py", .firstlineno = 10, .units = 8 });
		for (int k = 0; k < 3; k++)
			build_frame(b, build_thread(b, b->interp, BUILD_IDENT(b) + 0x1000 * (uint64_t)k, PID + k), &(struct build_frame){ .code = code, .lasti = 2 });
		WRITE(b, b->runtime, PyRuntime, main_thread, BUILD_IDENT(b) + 0x1000 * (uint64_t)main);
		for (int k = 0; k < 3; k++) {
			b->lwps.p[k].regs.syscall.known = true;
			b->lwps.p[k].regs.syscall.nr = k ? -1 : 202;
			b->lwps.p[k].state = 'S';
		}
		struct py *py = build_py(b);
		image_facts_mut(py->img)->kind = IMAGE_SNAPSHOT;
		image_facts_mut(py->img)->pid = PID;
		struct report *r = report_new();
		say(py->img, py, NULL, r);
		ck_assert_msg(r->verdict.tid == PID + main && r->threads.p[0].main, "%s: %d: %d", tables[_i].name, main, (int)r->verdict.tid - PID);
		report_free(r);
		build_free(b);
	}
}
END_TEST

/* A call that goes on after it was interrupted is the one that it was, where the kernel says what it waits in. */
START_TEST(calls_that_go_on)
{
	static const struct { const char *arch; int64_t nr; const char *wchan, *want; } rows[] = {
		{ "x86_64", 202, "futex_do_wait", "futex" }, { "x86_64", 202, "", "futex" }, { "x86_64", -1, "", "" }, { "x86_64", -1, "do_wait", "do_wait" },
		{ "x86_64", 219, "futex_do_wait", "futex" }, { "x86_64", 219, "futex_wait_queue_me", "futex" }, { "x86_64", 219, "hrtimer_nanosleep", "nanosleep" },
		{ "x86_64", 219, "poll_schedule_timeout.constprop.0", "poll" }, { "x86_64", 219, "do_sys_poll", "poll" },
		{ "x86_64", 219, "", "restart_syscall" }, { "x86_64", 219, "do_wait", "restart_syscall" }, { "x86_64", 999999, "pipe_read", "pipe_read" },
		{ "i386", 0, "futex_wait_queue", "futex" }, { "aarch64", 128, "futex_wait_queue", "futex" }, { "arm", 0, "do_nanosleep", "nanosleep" },
	};
	for (size_t i = 0; i < COUNT(rows); i++) {
		struct abi abi;
		ck_assert(abi_by_name(rows[i].arch, &abi));
		const struct str got = syscall_waits(&abi, rows[i].nr, *rows[i].wchan ? str_of(rows[i].wchan) : (struct str){ 0 });
		ck_assert_msg(str_is(got, rows[i].want), "row %zu: " STR_FMT, i, STR_ARG(got));
	}
}
END_TEST

/* What a snapshot's title says of its threads: how many ran, or that all waited. */
START_TEST(snapshot_titles)
{
	static const struct { int n, ran; const char *want; int holder; } cases[] = {
		{ 1, 0, ": its thread waited" }, { 1, 1, ": its thread ran" }, { 2, 0, ": both threads waited" }, { 2, 1, ": 1 of 2 threads ran" },
		{ 3, 0, ": all 3 threads waited" }, { 3, 3, ": 3 of 3 threads ran" },
		{ 1, 1, ": its thread ran; it held the GIL", 1 }, { 2, 1, ": 1 of 2 threads ran; the main thread held the GIL", 1 },
		{ 2, 1, ": 1 of 2 threads ran (4711); \"kernel's\" held the GIL", 2 },
	};
	for (size_t i = 0; i < COUNT(cases); i++) {
		struct build *b = build_new(&tables[_i]);
		addr_t code = build_code(b, &(struct build_code){ .name = "run", .file = "a.py", .firstlineno = 10, .units = 8 });
		for (int k = 0; k < cases[i].n; k++) {
			addr_t state = build_thread(b, b->interp, BUILD_IDENT(b) + 0x1000 * (uint64_t)k, PID + k);
			build_frame(b, state, &(struct build_frame){ .code = code, .lasti = 2 });
			if (k + 1 == cases[i].holder)
				build_gil(b, b->interp, state);
		}
		for (int k = 0; k < cases[i].n; k++) {
			b->lwps.p[k].name = STR("kernel's");
			b->lwps.p[k].regs.syscall.known = true;
			b->lwps.p[k].regs.syscall.nr = k < cases[i].ran ? -1 : 202;
			b->lwps.p[k].state = 'S';
		}
		struct py *py = build_py(b);
		image_facts_mut(py->img)->kind = IMAGE_SNAPSHOT;
		image_facts_mut(py->img)->pid = PID;
		struct report *r = report_new();
		say(py->img, py, NULL, r);
		CLEANUP(cleanup_free) char *title = xasprintf(STR_FMT, STR_ARG(r->verdict.title));
		ck_assert_msg(strstr(title, cases[i].want) != NULL, "%s: \"%s\", not \"%s\"", tables[_i].name, title, cases[i].want);
		report_free(r);
		build_free(b);
	}
}
END_TEST

/* A main thread that has ended, and holds the GIL for ever. */
START_TEST(ended_main)
{
	/* Where only the place of a pthread_t tells, that no thread is found does not say that it ended. */
	if (!abi_tls_is_self(&tables[_i].abi) && !layout_has(&tables[_i], F_PyThread_native_thread_id))
		return;
	struct build *b = build_new(&tables[_i]);
	addr_t code = build_code(b, &(struct build_code){ .name = "run", .file = "a.py", .firstlineno = 10, .units = 8 });
	addr_t main = build_thread(b, b->interp, BUILD_IDENT(b), 0);
	build_frame(b, main, &(struct build_frame){ .code = code, .lasti = 2 });
	build_frame(b, build_thread(b, b->interp, BUILD_IDENT(b) + 0x1000, PID + 1), &(struct build_frame){ .code = code, .lasti = 2 });
	build_thread_name(b, b->interp, BUILD_IDENT(b), "MainThread");
	build_thread_name(b, b->interp, BUILD_IDENT(b) + 0x1000, "worker");
	build_gil(b, b->interp, main);
	struct py *py = build_py(b);
	image_facts_mut(py->img)->kind = IMAGE_SNAPSHOT;
	image_facts_mut(py->img)->pid = PID; /* the process's number stays that of its first thread */
	struct report *r = report_new();
	say(py->img, py, NULL, r);
	ck_assert_uint_eq(r->threads.n, 2);
	ck_assert(str_is(r->threads.p[0].name, "worker") && r->verdict.tid == PID + 1);
	ck_assert(r->threads.p[1].stale && r->threads.p[1].main);
	CLEANUP(cleanup_free) char *title = xasprintf(STR_FMT, STR_ARG(r->verdict.title));
	ck_assert_ptr_nonnull(strstr(title, "\"MainThread\" held the GIL, but that thread has ended"));
	report_free(r);
	build_free(b);
}
END_TEST

/* The thread list leads back into itself: what was seen stays, and it is said once. */
START_TEST(thread_loop)
{
	struct build *b = build_new(&tables[_i]);
	addr_t a = build_thread(b, b->interp, BUILD_IDENT(b), PID), c = build_thread(b, b->interp, BUILD_IDENT(b) + 0x1000, PID + 1);
	WRITE(b, a, PyThread, next, c);
	struct py *py = build_py(b);
	struct report *r = report_new();
	say(py->img, py, NULL, r);
	ck_assert_uint_eq(problems(r, P_THREADS_BROKEN), 1);
	ck_assert_uint_ge(r->threads.n, 2);
	ck_assert_uint_lt(r->threads.n, 100);
	report_free(r);
	build_free(b);
}
END_TEST

/* Python initialised in another thread than the process's first: the runtime's main thread is the main one, and no other. */
START_TEST(main_of_python)
{
	struct build *b = build_new(&tables[_i]);
	addr_t code = build_code(b, &(struct build_code){ .name = "run", .file = "a.py", .firstlineno = 10, .units = 8 });
	build_frame(b, build_thread(b, b->interp, BUILD_IDENT(b), PID + 1), &(struct build_frame){ .code = code, .lasti = 2 });
	build_thread_name(b, b->interp, BUILD_IDENT(b), "MainThread");
	struct thread first = b->lwps.p[0];
	first.tid = PID;
	first.regs.tls = BUILD_IDENT(b) + 0x5000;
	*vec_push(&b->lwps) = first;
	struct py *py = build_py(b);
	image_facts_mut(py->img)->pid = PID;
	uint64_t ident;
	const bool known = py_main_ident(py, &ident) == 0;
	struct report *r = report_new();
	say(py->img, py, NULL, r);
	ck_assert_uint_eq(r->threads.n, 2);
	for (size_t i = 0; i < 2; i++)
		ck_assert_msg(!known || r->threads.p[i].main == (r->threads.p[i].has_python), "%s: %d", tables[_i].name, (int)r->threads.p[i].tid);
	report_free(r);
	build_free(b);
}
END_TEST

/* A link of the list is 0 too early: what else leads to the rest finds it, and it is said; a whole list has nothing of it. */
START_TEST(thread_list_cut)
{
	const int ways = layout_has(&tables[_i], F_PyInt_ob_ival) ? 2 : 3; /* 2.7 has no word for its main thread */
	for (int cut = 0; cut < ways; cut++) { /* 2: nobody has the lock, and where the runtime is is not known: threading says who the main thread is */
		struct build *b = build_new(&tables[_i]);
		addr_t code = build_code(b, &(struct build_code){ .name = "run", .file = "a.py", .firstlineno = 10, .units = 8 }), t[3];
		for (int k = 0; k < 3; k++) {
			t[k] = build_thread(b, b->interp, BUILD_IDENT(b) + 0x1000 * (uint64_t)k, PID + k);
			build_frame(b, t[k], &(struct build_frame){ .code = code, .lasti = 2 });
		}
		if (cut < 2)
			build_gil(b, b->interp, t[1]);
		else
			build_thread_name(b, b->interp, BUILD_IDENT(b), "MainThread");
		if (cut)
			WRITE(b, t[2], PyThread, next, 0);
		if (cut == 2)
			WRITE_IF(b, b->interp, PyInterp, threads_main, 0);
		struct py *py = build_py(b);
		if (cut == 2)
			py->runtime = 0;
		else if (!b->runtime)
			py->tstate_current = b->tstate_current;
		struct report *r = report_new();
		say(py->img, py, NULL, r);
		size_t with_frames = 0;
		for (size_t i = 0; i < r->threads.n; i++)
			with_frames += r->threads.p[i].active;
		ck_assert_msg(problems(r, P_THREADS_UNLISTED) == (cut ? 1u : 0u) && with_frames == 3 && r->threads.n == 3, "%s: cut %d: %zu threads, %zu problems",
			      tables[_i].name, cut, with_frames, problems(r, P_THREADS_UNLISTED));
		report_free(r);
		build_free(b);
	}
}
END_TEST

int main(void)
{
	size_t n;
	tables = every_layout(&n);
	n_tables = (int)n;
	Suite *s = suite_create("threads");
	TCase *c = tcase_create("threads");
	tcase_add_loop_test(c, threads, 0, n_tables);
	tcase_add_loop_test(c, broken_code, 0, n_tables);
	tcase_add_loop_test(c, broken_frame, 0, n_tables);
	tcase_add_loop_test(c, small_losses, 0, n_tables);
	tcase_add_loop_test(c, contradictions, 0, n_tables);
	tcase_add_loop_test(c, inherited_name, 0, n_tables);
	tcase_add_loop_test(c, not_the_only_word, 0, n_tables);
	tcase_add_loop_test(c, natives, 0, n_tables);
	tcase_add_loop_test(c, limits, 0, n_tables);
	tcase_add_loop_test(c, order, 0, n_tables);
	tcase_add_loop_test(c, matters, 0, n_tables);
	tcase_add_loop_test(c, main_matters, 0, n_tables);
	tcase_add_test(c, calls_that_go_on);
	tcase_add_loop_test(c, snapshot_titles, 0, n_tables);
	tcase_add_loop_test(c, ended_main, 0, n_tables);
	tcase_add_loop_test(c, unsure_interpreter, 0, n_tables);
	tcase_add_loop_test(c, chain, 0, n_tables);
	tcase_add_loop_test(c, frames_of_two, 0, n_tables);
	tcase_add_loop_test(c, thread_loop, 0, n_tables);
	tcase_add_loop_test(c, thread_list_cut, 0, n_tables);
	tcase_add_loop_test(c, main_of_python, 0, n_tables);
	tcase_set_timeout(c, 60);
	suite_add_tcase(s, c);
	return suite_run(s);
}
