/* Reports built in memory. */
#include "build_report.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(a) (sizeof(a) / sizeof *(a))

static const int64_t SECOND = 1000000000;

const struct report_frame *build_frame(struct report *r, const char *file, int line, const char *function, int col, int end_col, const char *source)
{
	struct report_frame *f = arena_alloc(r->arena, sizeof *f);
	f->python = true;
	f->function = str_dup(r->arena, str_of(function));
	f->file = str_dup(r->arena, str_of(file));
	f->at = (struct report_position){ line, line, col, end_col };
	f->source = str_dup(r->arena, str_of(source));
	f->code = (uint64_t)(uintptr_t)f;
	return f;
}

static const struct report_frame *native(struct report *r, const char *function, const char *module, uint64_t pc)
{
	struct report_frame *f = arena_alloc(r->arena, sizeof *f);
	f->function = str_of(function);
	f->module = str_of(module);
	f->at = (struct report_position){ -1, -1, -1, -1 };
	f->pc = pc;
	f->offset = pc & 0xfffff;
	return f;
}

static const struct report_frame *machinery(struct report *r, const char *function, const char *module, uint64_t pc, enum plumbing plumbing)
{
	struct report_frame *f = (struct report_frame *)native(r, function, module, pc);
	f->plumbing = (uint8_t)plumbing;
	return f;
}

struct report_thread *build_thread(struct report *r, int64_t tid, const char *name)
{
	struct report_thread *t = vec_push(&r->threads);
	t->tid = tid;
	t->python_id = 0x7f8600000000u + (uint64_t)tid * 4096;
	t->name = str_dup(r->arena, str_of(name));
	t->has_python = true;
	t->interpreter = 0;
	return t;
}

void build_stack(struct report *r, const struct report_frame *const *frames, size_t n)
{
	struct report_thread *t = &r->threads.p[r->threads.n - 1];
	report_fold(r, frames, n, &t->runs, &t->n_runs);
	t->n_frames = n;
	t->active = n > 0;
}

static struct report *begin(const char *kind)
{
	static const char *const features[] = { "zlib", "libdw", NULL };
	struct report *r = report_new();
	r->tool.version = STR("0.1.0");
	r->tool.features = features;
	r->verdict.signal.sender_pid = r->verdict.signal.sender_uid = -1;
	r->input.kind = kind;
	r->input.complete = true;
	r->input.size = 254u << 20;
	r->process.pid = 19452;
	r->process.ppid = 19400;
	r->process.uid = 1000;
	r->process.exe = STR("/opt/py/bin/python3.13");
	r->process.cwd = STR("/srv/app");
	r->process.args = STR("app.py --jobs 5");
	r->process.comm = STR("python3.13");
	r->process.start_ns = 1796009738 * SECOND + 900000000;
	r->process.dump_ns = 1796009741 * SECOND + 250000000;
	r->python.found = true;
	r->python.version = STR("3.13.0");
	r->python.hex = 0x030d00f0;
	r->python.found_by = STR("symbol");
	r->python.layout = STR("3.13 x86_64 release");
	r->python.version_source = STR("process");
	*vec_push(&r->interps) = (struct report_interp){ .id = 0, .main = true, .gil_known = true, .gil_holder_tid = -1 };
	*vec_push(&r->modules) = (struct report_module){ .path = STR("/opt/py/bin/python3.13"), .build_id = STR("9a3be1f00d"), .file = STR("/opt/py/bin/python3.13"),
		.start = 0x555555554000, .end = 0x555555a00000, .symbols = "full" };
	*vec_push(&r->modules) = (struct report_module){ .path = STR("/usr/lib/x86_64-linux-gnu/libc.so.6"), .start = 0x7ffff7c00000, .end = 0x7ffff7e00000, .symbols = "none" };
	return r;
}

static struct report *snapshot(void)
{
	struct report *r = begin("snapshot");
	r->input.path = STR("snap.pz");
	r->input.consistent = true;
	r->input.stopped_ns = 31 * SECOND / 1000;
	r->input.file_size = 9u << 20;
	r->input.tool = STR("pysnap 0.1.0");
	r->verdict.kind = VERDICT_SNAPSHOT;
	r->verdict.word = STR("SNAPSHOT");
	r->verdict.title = STR("taken by pysnap; 2 threads wait, none was running Python code");
	return r;
}

static struct report *crash(void)
{
	struct report *r = begin("core");
	r->input.path = STR("core.19452");
	r->verdict.kind = VERDICT_CRASH;
	r->verdict.word = STR("CRASH");
	r->verdict.title = STR("SIGSEGV: at address 0x0 (null pointer)");
	r->verdict.tid = 19452;
	r->verdict.thread = 0;
	r->verdict.signal.known = true;
	r->verdict.signal.name = STR("SIGSEGV");
	r->verdict.signal.number = 11;
	r->verdict.signal.code = 1;
	r->verdict.signal.code_name = STR("SEGV_MAPERR");
	r->verdict.signal.has_addr = true;
	r->interps.p[0].gil_locked = true;
	r->interps.p[0].gil_holder_tid = 19452;

	struct report_thread *t = build_thread(r, 19452, "MainThread");
	t->main = t->crashed = t->holds_gil = true;
	const struct report_frame *stack[] = {
		build_frame(r, "/srv/app/app.py", 53, "<module>", 4, 10, "    main()"),
		build_frame(r, "/srv/app/orders/pricing.py", 52, "main", 4, 15, "    parse(rows)"),
		build_frame(r, "/srv/app/orders/pricing.py", 41, "parse", 28, 47, "        if row[\"qty\"] == 3: ctypes.string_at(0)"),
		build_frame(r, "/opt/py/lib/python3.13/ctypes/__init__.py", 538, "string_at", -1, -1, NULL),
		machinery(r, "_PyEval_EvalFrameDefault", "/opt/py/bin/python3.13", 0x555555601234, PLUMBING_SILENT),
		machinery(r, "_ctypes_callproc", "/opt/py/lib/python3.13/lib-dynload/_ctypes.so", 0x7ffff7a04321, PLUMBING_FOLDED),
		machinery(r, NULL, "/usr/lib/x86_64-linux-gnu/libffi.so.8", 0x7ffff7900123, PLUMBING_FOLDED),
		native(r, "string_at", "/opt/py/lib/python3.13/lib-dynload/_ctypes.so", 0x7ffff7a01234),
		native(r, NULL, "/usr/lib/x86_64-linux-gnu/libc.so.6", 0x7ffff7d5b2c7),
	};
	build_stack(r, stack, COUNT(stack));
	((struct report_frame *)(uintptr_t)stack[2])->qualname = STR("Pricing.parse");
	r->verdict.location = stack[3];
	r->verdict.called_by = stack[2];
	r->verdict.native = stack[8];
	r->verdict.access = "read";
	r->verdict.instruction = STR("vpcmpb k0, ymm16, [rdi], 0x00");
	r->verdict.operands = STR("rdi = 0x0");
	r->verdict.exceptions_known = true;
	r->verdict.group_id = STR("836f-9ad1-5466-7c74");
	r->verdict.detail_id = STR("0123-4567-89ab-cdef");

	const struct report_frame *worker[] = {
		build_frame(r, "/opt/py/lib/python3.13/threading.py", 1012, "_bootstrap", -1, -1, NULL),
		build_frame(r, "/opt/py/lib/python3.13/threading.py", 992, "run", 8, 50, "        self._target(*self._args, **self._kwargs)"),
		build_frame(r, "/srv/app/app.py", 9, "worker", 9, 13, "    with lock:"),
	};
	static const char *const names[] = { "worker-1", "worker-2", "worker-3", "worker-4", "worker-5" };
	for (size_t i = 0; i < COUNT(names); i++) {
		build_thread(r, 19467 + (int64_t)i, names[i])->waits_in = STR("futex");
		build_stack(r, worker, COUNT(worker));
	}
	const struct report_frame *sleeper[] = { worker[0], worker[1], build_frame(r, "/srv/app/app.py", 10, "worker", 8, 24, "        time.sleep(1000)") };
	build_thread(r, 19466, "worker-0")->waits_in = STR("clock_nanosleep");
	build_stack(r, sleeper, COUNT(sleeper));
	struct report_thread *grpc = build_thread(r, 19480, "grpc_global_tim");
	grpc->name_from_kernel = true;
	grpc->has_python = false;
	grpc->python_id = 0;
	grpc->interpreter = -1;
	grpc->waits_in = STR("epoll_wait");
	report_problem(r, P_SOURCE_MISSING, (size_t)2, "threading.py, ctypes/__init__.py", "--source-map OLD=NEW, or --sysroot DIR", "", "");
	return r;
}

static struct report *stopped(void)
{
	struct report *r = begin("core");
	r->input.path = STR("core.19452");
	r->verdict.kind = VERDICT_STOPPED;
	r->verdict.word = STR("STOPPED");
	r->verdict.title = STR("SIGABRT sent by process 4200");
	r->verdict.signal.known = true;
	r->verdict.signal.name = STR("SIGABRT");
	r->verdict.signal.number = 6;
	r->verdict.signal.sender_pid = 4200;
	r->verdict.signal.sender_uid = 0;
	r->verdict.tid = 19452;
	r->verdict.thread = 0;
	r->verdict.likely = true;
	r->process.args = STR("/opt/py/bin/python3.13 -m pytest -x tests");
	struct report_thread *t = build_thread(r, 19452, "MainThread");
	t->main = true;
	t->waits_in = STR("futex");
	const struct report_frame *stack[] = {
		build_frame(r, "/srv/app/tests/test_queue.py", 17, "test_drain", 4, 20, "    queue.get()[\"id\"]"),
		build_frame(r, "/opt/py/lib/python3.13/queue.py", 171, "get", 16, 37, "                self.not_empty.wait()"),
	};
	build_stack(r, stack, COUNT(stack));
	r->verdict.location = stack[0];
	/* A second thread in the very same place, and an interpreter of its own for a third. */
	build_thread(r, 19453, "Thread-1 (drain)")->on_cpu = true;
	build_stack(r, stack, COUNT(stack));
	*vec_push(&r->interps) = (struct report_interp){ .id = 1, .gil_holder_tid = -1 };
	struct report_thread *sub = build_thread(r, 19454, "Thread-2");
	sub->interpreter = 1;
	sub->waits_in = STR("read");
	build_stack(r, stack, 1);
	/* Another worker with the same stack, in an interpreter of its own. */
	*vec_push(&r->interps) = (struct report_interp){ .id = 2, .gil_holder_tid = -1 };
	sub = build_thread(r, 19455, "Thread-3");
	sub->interpreter = 2;
	sub->waits_in = STR("read");
	build_stack(r, stack, 1);
	report_problem(r, P_LIKELY, "the core has no NT_SIGINFO note");
	return r;
}

/* A process that ended itself, with exceptions under way and much to be said of it. */
static struct report *aborted(void)
{
	struct report *r = begin("core");
	r->verdict.kind = VERDICT_CRASH;
	r->verdict.word = STR("CRASH");
	r->verdict.title = STR("SIGSEGV: write to address 0x8 (8 bytes past a null pointer)");
	r->verdict.tid = 19452;
	r->verdict.thread = 0;
	r->verdict.signal.known = true;
	r->verdict.signal.name = STR("SIGSEGV");
	r->verdict.signal.number = 11;
	r->verdict.access = "write";
	r->verdict.ended_by.known = true;
	r->verdict.ended_by.name = STR("SIGABRT");
	r->verdict.ended_by.number = 6;
	r->verdict.ended_by.code = -6;
	r->verdict.ended_by.sender_pid = 19452;
	r->verdict.raised_by = STR("abort() <- _Py_FatalErrorFunc <- PyMem_Free <- _multiarray_umath\x1b[2J.so");
	r->verdict.collector.known = true;
	r->verdict.collector.generation = 2;
	r->verdict.collector.phase = "subtracting references";
	r->verdict.collector.object = 0x7f1cab8627b0;
	r->verdict.collector.field = "ob_type";
	r->verdict.collector.value = 0x4141414141414140;
	r->verdict.likely = r->verdict.ids_likely = true;
	r->verdict.group_id = STR("fedc-ba98-7654-3210");
	*vec_push(&r->verdict.notes) = (struct report_note){ "handler", STR("a handler ran, which called abort") };
	*vec_push(&r->verdict.notes) = (struct report_note){ "collector", STR("an ob_type \x1b]0;title\x07 is no type") };
	struct report_thread *t = build_thread(r, 19452, "MainThread");
	t->main = t->crashed = true;
	const struct report_frame *stack[] = {
		build_frame(r, "/srv/app/data/io.py", 88, "load", 4, 10, "    parse(head)"),
		native(r, "PyMem_Free", "/opt/py/bin/python3.13", 0x555555601234),
	};
	build_stack(r, stack, COUNT(stack));
	r->verdict.location = stack[0];
	r->verdict.native = stack[1];
	const struct report_frame *passed[] = { stack[0], build_frame(r, "/srv/app/data/io.py", 71, "header", -1, -1, NULL) };
	const struct report_frame **list = arena_dup(r->arena, passed, sizeof passed);
	*vec_push(&r->exceptions) = (struct report_exception){ .tid = 19452, .raised = true, .type = STR("MemoryError") };
	*vec_push(&r->exceptions) = (struct report_exception){ .tid = 19452, .type = STR("shop.\xd0\x9e\xd1\x88\xd0\xb8\xd0\xb1\xd0\xba\xd0\xb0"),
		.text = STR("bad header\n\x1b[31m\xe2\x80\xae"), .traceback = list, .n_traceback = 2, .passed = 2 };
	*vec_push(&r->exceptions) = (struct report_exception){ .tid = -1, .kept = true, .traceback = list + 1, .n_traceback = 1, .passed = 1 };
	return r;
}

static struct report *two_waiting(void)
{
	struct report *r = snapshot();
	r->python.debug = r->python.free_threaded = true;
	struct report_thread *t = build_thread(r, 19452, "MainThread");
	t->main = true;
	t->waits_in = STR("futex");
	const struct report_frame *one[] = { build_frame(r, "/srv/app/app.py", 7, "t1", 4, 16, "    with b: pass") };
	build_stack(r, one, 1);
	struct report_thread *u = build_thread(r, 19453, "t2");
	u->waits_in = STR("futex");
	const struct report_frame *two[] = { build_frame(r, "/srv/app/app.py", 11, "t2", 9, 10, "    with a: pass") };
	build_stack(r, two, 1);
	return r;
}

static const struct report_exception *handled(struct report *r, struct str type, struct str text, int line)
{
	const struct report_frame *passed[] = { build_frame(r, "/srv/app/app.py", 7, "again", -1, -1, NULL), build_frame(r, "/srv/app/data/io.py", line, "header", -1, -1, NULL) };
	const struct report_exception e = { .tid = 19452, .type = type, .text = text, .traceback = arena_dup(r->arena, passed, sizeof passed), .n_traceback = 2, .passed = 9 };
	return arena_dup(r->arena, &e, sizeof e);
}

/* Threads that go their way in except clauses: one alone, all of several alike, some of several, more kinds than are shown. */
static struct report *handling(void)
{
	struct report *r = two_waiting();
	r->threads.p[0].handling = handled(r, STR("shop.Rejected"), STR("order \x1b[31m7\n"), 70);
	r->threads.p[1].handling = handled(r, STR("KeyError"), (struct str){ 0 }, 71);
	const struct report_exception untyped = { .tid = -1 }, *bare = arena_dup(r->arena, &untyped, sizeof untyped);
	for (int kind = 0; kind < 3; kind++) {
		const struct report_frame *stack[] = { build_frame(r, "/srv/app/app.py", 20 + kind, "again", -1, -1, "        time.sleep(delay)") };
		for (int i = 0; i < 7; i++) {
			struct report_thread *t = build_thread(r, 19460 + 10 * kind + i, "retry");
			build_stack(r, stack, 1);
			t->handling = kind == 0 ? handled(r, STR("ValueError"), STR("bad header"), 72) : kind == 1 && i < 2 ? handled(r, STR("ValueError"), STR("bad header"), 72 + i) :
				kind == 1 && i < 5 ? bare : kind == 2 ? handled(r, STR("ValueError"), STR("bad header"), 72 + i) : NULL;
		}
	}
	return r;
}

struct report *build_deep(size_t n, bool plain)
{
	struct report *r = snapshot();
	r->verdict.title = STR("taken by pysnap; 1 thread was running Python code");
	struct report_thread *t = build_thread(r, 19452, "MainThread");
	t->main = t->on_cpu = t->holds_gil = true;
	CLEANUP(cleanup_free) const struct report_frame **stack = xcalloc(n + 2, sizeof *stack);
	const struct report_frame *even = build_frame(r, "/srv/app/deep.py", 4, "even", 11, 21, "    return odd(n - 1)");
	const struct report_frame *odd = build_frame(r, "/srv/app/deep.py", 7, "odd", 11, 22, "    return even(n - 1)");
	stack[0] = build_frame(r, "/srv/app/deep.py", 12, "<module>", -1, -1, "even(200000)");
	for (size_t i = 0; i < n; i++)
		stack[i + 1] = plain ? build_frame(r, "/srv/app/deep.py", (int)(i % 100000) + 1, "step", -1, -1, NULL) : i % 2 ? odd : even;
	stack[n + 1] = build_frame(r, "/srv/app/deep.py", 2, "leaf", -1, -1, "    time.sleep(1000)");
	build_stack(r, stack, n + 2);
	return r;
}

static struct report *deep(void)
{
	return build_deep(199998, false);
}

static struct report *long_stack(void)
{
	return build_deep(250, true);
}

struct report *build_threads(size_t n, size_t stacks)
{
	struct report *r = snapshot();
	r->verdict.title = STR("taken by pysnap; no thread was running Python code");
	CLEANUP(cleanup_free) const struct report_frame **leaf = xcalloc(stacks, sizeof *leaf);
	for (size_t i = 0; i < stacks; i++)
		leaf[i] = build_frame(r, "/srv/app/pool.py", 20 + (int)i, "task", -1, -1, "        item = queue.get()");
	const struct report_frame *base = build_frame(r, "/opt/py/lib/python3.13/threading.py", 992, "run", -1, -1, NULL);
	for (size_t i = 0; i < n; i++) {
		char name[32];
		snprintf(name, sizeof name, "pool-%zu", i);
		struct report_thread *t = build_thread(r, 20000 + (int64_t)i, name);
		t->waits_in = i % 3 ? STR("futex") : STR("poll");
		const struct report_frame *stack[] = { base, leaf[i % stacks] };
		build_stack(r, stack, COUNT(stack));
	}
	return r;
}

static struct report *many(void)
{
	return build_threads(1000, 4);
}

/* What people and attackers call things. */
static struct report *names(void)
{
	struct report *r = snapshot();
	r->process.cwd = STR("/srv/\xd0\xbf\xd1\x80\xd0\xb8\xd0\xbb\xd0\xbe\xd0\xb6\xd0\xb5\xd0\xbd\xd0\xb8\xd0\xb5");
	r->process.args = STR("app.py --title \"<b>&amp;</b>\" 'it''s'");
	struct report_thread *t = build_thread(r, 19452, "\x1b[31mred\x1b[0m\r\n\x07");
	t->main = true;
	t->waits_in = STR("futex");
	const struct report_frame *stack[] = {
		build_frame(r, "/srv/\xd0\xbf\xd1\x80\xd0\xb8\xd0\xbb\xd0\xbe\xd0\xb6\xd0\xb5\xd0\xbd\xd0\xb8\xd0\xb5/\xd0\xb3\xd0\xbb\xd0\xb0\xd0\xb2\xd0\xbd\xd1\x8b\xd0\xb9.py", 3,
			    "\xd0\xb7\xd0\xb0\xd0\xbf\xd1\x83\xd1\x81\xd0\xba", 4, 28, "    \xd1\x87\xd0\xb8\xd1\x82\xd0\xb0\xd1\x82\xd1\x8c(\"\xd1\x84\xd0\xb0\xd0\xb9\xd0\xbb\")  # x"),
		build_frame(r, "/srv/\xe6\x97\xa5\xe6\x9c\xac\xe8\xaa\x9e/\xe5\x87\xa6\xe7\x90\x86.py", 5, "\xe5\x87\xa6\xe7\x90\x86", 13, 22,
			    "    x = \xe5\x80\xa4; f(\xe5\x80\xa4[0]) + 1"),
		build_frame(r, "/srv/\xd7\xa9\xd7\x9c\xd7\x95\xd7\x9d.py", 1, "\xd7\xa9\xd7\x9c\xd7\x95\xd7\x9d", -1, -1, NULL),
		build_frame(r, "evil\xe2\x80\xaeyp.exe\xe2\x80\xac", 9, "a\xe2\x80\x8b""b\xc2\x9b""2J\x7f", 0, 3, "\tx = '\xe2\x81\xa6 \x1b]0;title\x07'"),
		build_frame(r, "/srv/\\x.py", 2, "<lambda>", 4, 10, "    f['('](\")\")[1]"),
		build_frame(r, "/srv/emoji.py", 8, "\xef\xbf\xbe\xef\xbf\xbf\xf0\x9f\x90\x8d", 4, 17, "s = '\xf0\x9f\x90\x8d\xf0\x9f\x90\x8d'[1]"),
		build_frame(r, "", 0, "", 3, 2, ""),
	};
	build_stack(r, stack, COUNT(stack));
	build_thread(r, 19453, "\xe6\x97\xa5\xe6\x9c\xac\xe8\xaa\x9e \xd7\xa9\xd7\x9c\xd7\x95\xd7\x9d ]]> \"quoted\" \\ </text> &#0;")->on_cpu = true;
	build_stack(r, stack, 2);
	build_thread(r, 19454, "")->stale = true;
	build_stack(r, NULL, 0);
	struct report_thread *nobody = build_thread(r, -1, NULL);
	nobody->stale = true;
	nobody->interpreter = -1;
	build_stack(r, stack, 1);
	report_problem(r, P_EXE_MISSING, "/srv/\x1b[2J\xe2\x80\xae\xff/python");
	return r;
}

static struct report *broken(void)
{
	struct report *r = two_waiting();
	r->input.consistent = false;
	r->threads.p[1].broken = STR("frame 0x7f3310 points to itself");
	struct report_thread *new = build_thread(r, -1, NULL);
	new->python_id = 0;
	new->starting = true;
	build_stack(r, NULL, 0);
	report_problem(r, P_NOT_CONSISTENT, "pysnap could not stop every thread");
	report_problem(r, P_FRAMES_BROKEN, 19453LL, "frame 0x7f3310 points to itself", 1ULL, "copy it again");
	report_problem(r, P_THREADS_BROKEN, 0LL, "loops", 12ULL, "nothing lifts this: it loops");
	report_problem(r, P_FRAMES_BROKEN, 19453LL, "frame 0x7f3310 points to itself", 1ULL, "copy it again");
	return r;
}

static struct report *no_python(void)
{
	struct report *r = begin("core");
	r->input.path = STR("core.77");
	memset(&r->python, 0, sizeof r->python);
	r->interps.n = 0;
	r->process.exe = STR("/usr/sbin/nginx");
	r->process.args = STR("nginx: worker process");
	r->process.comm = STR("nginx");
	for (int i = 0; i < 2; i++) {
		struct report_thread *t = build_thread(r, 77 + i, "nginx");
		t->has_python = false;
		t->python_id = 0;
		t->interpreter = -1;
		t->name_from_kernel = true;
		t->waits_in = i ? STR("futex") : STR("epoll_wait");
	}
	report_problem(r, P_NO_PYTHON, "core", (size_t)2, "no file that was mapped is CPython's", "-e PROGRAM");
	report_details(r, STR("symbols: no _PyRuntime\n\nsection .PyRuntime: in none of the files that are here (2)\n"));
	return r;
}

/* A Python that no layout knows: its version, and nothing of its threads' stacks. */
static struct report *unread(void)
{
	struct report *r = no_python();
	r->problems.n = 0;
	r->python.unread = true;
	r->python.version = STR("3.9.18");
	report_problem(r, P_NO_LAYOUT, "no layout fits this Python 3.9.18 (tried: 3.10 x86_64: sys.hexversion says 3.9.18)", "--layout FILE, or a newer pyanalyze");
	return r;
}

static struct report *truncated(void)
{
	struct report *r = crash();
	r->input.complete = false;
	r->input.expected = 4509715660u;
	r->input.size = 1181116006u;
	r->input.file_size = 88u << 20;
	r->input.compression = STR("zstd");
	report_problem(r, P_PACKED_DAMAGED, "damaged at 88 MiB (zstd: Corrupted block detected)", "the first 1.1 GiB of 4.2 GiB were used; segments lost: 212 of 340: 2 with thread stacks (of 2 of 7 threads), 1 of 1 file (libc.so.6), 209 of heap and other memory");
	r->symbols.modules = 12;
	r->symbols.named = 11;
	r->input.lost.segments = 212;
	r->input.lost.of_segments = 340;
	r->input.lost.stacks = 2;
	r->input.lost.of_stacks = 7;
	r->input.lost.with_stacks = 2;
	r->input.lost.of_files = 1;
	r->input.lost.other = 209;
	*vec_push(&r->input.lost.files) = STR("libc.so.6");
	report_problem(r, P_BUILD_ID_MISMATCH, "/opt/py/bin/python3.13", "e1f0", "9a3b",
		       "it was probably upgraded since: --sysroot DIR with the files of that time, -e PATH for the executable, or --debuginfod=on");
	return r;
}

/* Nothing but what report_new gives. */
static struct report *empty(void)
{
	return report_new();
}

#define BUILT(name) static struct report *built_##name(void) { struct report *r = name(); report_group(r); return r; }
BUILT(crash) BUILT(stopped) BUILT(aborted) BUILT(two_waiting) BUILT(deep) BUILT(long_stack) BUILT(many) BUILT(names) BUILT(broken) BUILT(no_python) BUILT(unread) BUILT(truncated)
BUILT(empty) BUILT(handling)
#undef BUILT

static const struct report_frame *found(struct report *r, const char *function, const char *module, uint64_t pc, const char *by, bool likely)
{
	struct report_frame *f = (struct report_frame *)native(r, function, module, pc);
	f->found_by = by;
	f->likely = likely;
	return f;
}

/* How native frames were found, a JIT's, a signal's; stacks that could not be matched. */
static struct report *built_marks(void)
{
	struct report *r = built_two_waiting();
	r->threads.n = r->groups.n = 0;
	struct report_frame *jit = (struct report_frame *)found(r, "JIT code", NULL, 0x7f52ea4f6017, "scan", true);
	struct report_frame *signal = (struct report_frame *)found(r, "__restore_rt", "/usr/lib/libc.so.6", 0x7ffff7d5b000, "cfi", false);
	struct report_frame *handler = (struct report_frame *)found(r, "handler", "/srv/app/fast.so", 0x7ffff7001020, "cfi", false);
	struct report_frame *cxx = (struct report_frame *)found(r, "net::Client::send", "/srv/app/net.so", 0x7ffff7101020, "cfi", false);
	struct report_frame *gone = (struct report_frame *)found(r, NULL, "/srv/app/gone.so", 0x7ffff7201020, "cfi", false);
	cxx->symbol = STR("_ZN3net6Client4sendERKSs");
	gone->build_id = STR("0011223344556677");
	*vec_push(&r->modules) = (struct report_module){ .path = STR("/srv/app/net.so"), .build_id = STR("aabbccdd"), .file = STR("/root/srv/app/net.so"),
		.debug_file = STR("/usr/lib/debug/.build-id/aa/bbccdd.debug"), .start = 0x7ffff7100000, .end = 0x7ffff7110000, .symbols = "full" };
	*vec_push(&r->modules) = (struct report_module){ .path = STR("/srv/app/gone.so"), .build_id = STR("0011223344556677"), .disk_path = STR("/srv/app/gone.so"),
		.disk_build_id = STR("8899"), .start = 0x7ffff7200000, .end = 0x7ffff7210000, .symbols = "mismatch" };
	*vec_push(&r->modules) = (struct report_module){ .path = STR("/srv/app/old\x1b[2J.so"), .disk_path = STR("/srv/app/old\x1b[2J.so"), .start = 0x7ffff7300000,
		.end = 0x7ffff7310000, .symbols = "none" };
	jit->jit = true;
	signal->signal = true;
	handler->into = 32;
	handler->file = STR("/src/fast.c");
	handler->at.line = 7;
	const struct report_frame *stack[] = {
		found(r, "_start", "/opt/py/bin/python3.14", 0x555555601234, "cfi", false),
		build_frame(r, "/srv/app/app.py", 53, "<module>", -1, -1, NULL),
		jit,
		build_frame(r, "/srv/app/app.py", 5, "hot", -1, -1, NULL),
		found(r, "run", "/srv/app/fast.so", 0x7ffff7001100, "frame pointer", true),
		found(r, "step", "/srv/app/fast.so", 0x7ffff7001200, "link register", true),
		found(r, NULL, "/srv/app/fast.so", 0x7ffff7001234, "signal frame", false),
		signal,
		handler,
		cxx,
		gone,
		found(r, "clock_gettime", "[vdso]", 0x7ffff7fc1234, "registers", false),
	};
	struct report_thread *t = build_thread(r, 100, "MainThread");
	t->main = true;
	build_stack(r, stack, COUNT(stack));
	const struct report_frame *apart[] = {
		stack[1], stack[3], stack[3], stack[3], stack[3], stack[3], stack[0], stack[11],
	};
	t = build_thread(r, 101, "apart");
	t->unmatched = STR("their numbers or places differ");
	t->native_broken = STR("0x10 is in no file that is mapped");
	t->broken = STR("frame 0x7f0010 is not in the capture");
	build_stack(r, apart, COUNT(apart));
	report_group(r);
	return r;
}

const struct built_report built_reports[] = {
	{ "crash", built_crash, true }, { "stopped", built_stopped, true }, { "aborted", built_aborted, true }, { "snapshot", built_two_waiting, true }, { "deep", built_deep, true },
	{ "long", built_long_stack, false }, { "many", built_many, false }, { "names", built_names, true }, { "broken", built_broken, true },
	{ "no_python", built_no_python, true }, { "unread", built_unread, true }, { "truncated", built_truncated, true }, { "empty", built_empty, true },
	{ "marks", built_marks, true }, { "handling", built_handling, true }, { NULL, NULL, false },
};
