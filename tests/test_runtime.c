/*
 * Finding a Python, its interpreters, threads and what they are called: under every built-in layout, with the ways to it there
 * are, and with what must not be taken for it.
 */
#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "build_py.h"
#include "every_layout.h"
#include "python/prove.h"
#include "suite.h"

#define IDENT BUILD_IDENT(b)

static void search(const struct layout *l)
{
	addr_t threads[2];
	struct build *b = build_two_threads(l, threads);
	struct py *py = build_open(b, build_image(b), NULL);

	/* No symbol and no file: the cookie where there is one, else the threads' pointers. */
	ck_assert_str_eq(py->found_by, layout_has(l, F_PyDebugOffsets_cookie) ? "cookie" : "search");
	ck_assert_str_eq(py->layout.name, l->name);
	ck_assert(py->interp_head == b->interp);
	ck_assert_msg(py->runtime == b->runtime, "%s: runtime 0x%llx", l->name, (unsigned long long)py->runtime); /* 3.8: by a second search */
	ck_assert(py->version_exact && py->version >> 16 == l->version >> 16 && !py->table_older);
	ck_assert(py->types.type == b->types.type && py->types.code == b->types.code && py->types.function == b->types.function);
	ck_assert(py->types.str == b->types.str && py->types.dict == b->types.dict && py->types.none == b->types.none);
	ck_assert_int_eq(py->self_differ, 0);
	ck_assert((py->self_taken > 20) == layout_has(l, F_PyDebugOffsets_cookie));
	build_free(b);
}

START_TEST(found_without_symbols)
{
	each_layout(search);
}
END_TEST

static void hinted(const struct layout *l)
{
	addr_t threads[2];
	struct build *b = build_two_threads(l, threads);
	struct py *py = build_open(b, build_image(b), &(struct py_options){ .hint_runtime = build_hint(b) });

	ck_assert_str_eq(py->found_by, "hint");
	ck_assert(py->runtime == b->runtime);
	/* A wrong hint costs nothing. */
	py = build_open(b, build_image(b), &(struct py_options){ .hint_runtime = b->sysdict });
	ck_assert_str_ne(py->found_by, "hint");
	/* Beside it, where interpreters.main is taken for the head of the list. */
	if (layout_has(l, F_PyRuntime_interp_main) && l->offset[F_PyRuntime_interp_main] == l->offset[F_PyRuntime_interp_head] + l->abi.width) {
		struct py *none;
		struct err err = { 0 };
		int rc = py_open(build_image(b), NULL, &(struct py_options){ .only_runtime = b->runtime + l->abi.width }, b->arena, &none, &err);
		ck_assert_msg(rc == ERR_NOPYTHON, "%s: %d: %s", l->name, rc, err.why);
	}
	/* What is found by a version given by hand. */
	py = build_open(b, build_image(b), &(struct py_options){ .python_version = l->version });
	ck_assert_str_eq(py->layout.name, l->name);
	build_free(b);
}

START_TEST(hints_are_verified)
{
	each_layout(hinted);
}
END_TEST

/* 3.8's interpreters do not know their runtime: its interpreters.main is looked for in the data of ELF files. */
static void runtime_in_data(const struct layout *l)
{
	addr_t threads[2];
	struct build *b = build_two_threads(l, threads);
	build_gil(b, b->interp, threads[0]);
	struct image *img = build_image(b);
	const struct segment *segs;
	size_t n = image_segments(img, &segs);
	addr_t start = 0, end = 0;
	for (size_t i = 0; i < n; i++)
		if (segs[i].start == BUILD_HEAP) {
			start = segs[i].start;
			end = segs[i].start + segs[i].size;
		}
	struct mapping *m = image_add_mapping(img);
	m->start = start;
	m->end = end;
	m->path = (struct blob){ (const uint8_t *)"/usr/lib/libx.so", 16 };
	image_settle(img);
	struct py *py = build_open(b, img, NULL);
	ck_assert(py->runtime == b->runtime);
	struct walk w = py_interps(py);
	struct py_interp in;
	ck_assert_int_eq(py_next_interp(&w, &in), 1);
	if (b->runtime) /* before 3.7 a symbol tells who has the lock */
		ck_assert(in.gil_known && in.gil_locked && in.gil_holder == threads[0]);
	else
		ck_assert(!in.gil_known);
	build_free(b);
}

START_TEST(runtime_is_found_in_the_data_of_a_file)
{
	each_layout(runtime_in_data);
}
END_TEST

START_TEST(nothing_of_python)
{
	struct abi abi = { 62, 8, false };
	struct image *img = image_new(abi);
	struct arena *a = arena_new();
	uint64_t *words = arena_alloc(a, 4096);
	struct thread *t = image_add_thread(img);
	struct py *py = NULL;
	struct err err = { 0 };

	/* Its thread pointer is there, as in every program, and leads nowhere. */
	t->tid = 7;
	t->regs.tls = 0x7f0000000700;
	for (int i = 0; i < 512; i++)
		words[i] = i % 3 ? 0x10000 + 8 * (uint64_t)i : 0x7f0000000700;
	struct bytes *mem = bytes_from_memory(words, 4096, "memory");
	image_own_bytes(img, mem);
	struct segment seg = { .start = 0x10000, .size = 4096, .prot = 3 };
	(void)seg;
	image_settle(img);
	ck_assert_int_eq(py_open(img, NULL, NULL, a, &py, &err), ERR_NOPYTHON);
	ck_assert_ptr_null(py);
	ck_assert_str_ne(err.why, "");
	image_close(img);
	arena_free(a);
}
END_TEST

static void lists(const struct layout *l)
{
	struct build *b = build_new(l);
	addr_t sub = build_interp(b, 1), code = build_work(b);
	addr_t one = build_thread(b, b->interp, IDENT, 100);
	addr_t two = build_thread(b, b->interp, IDENT + 0x1000, 0);
	addr_t other = build_thread(b, sub, IDENT, 100);
	build_frame(b, one, &(struct build_frame){ .code = code, .lasti = 4 });
	build_gil(b, b->interp, one);
	struct py *py = build_py(b);
	struct walk w = py_interps(py), t;
	struct py_interp in;
	struct py_thread th;

	/* The newest first; the main one is known as such. */
	ck_assert_int_eq(py_next_interp(&w, &in), 1);
	ck_assert(in.addr == sub && in.id == (layout_has(l, F_PyInterp_id) ? 1 : -1) && !in.main);
	t = py_threads(py, &in);
	ck_assert_int_eq(py_next_thread(&t, &th), 1);
	ck_assert_msg(th.addr == other && th.interp == sub && th.tid == 100, "%s: tid %d", l->name, th.tid);
	addr_t none = layout_has(l, F_PyThread_base_frame) ? build_field_get(b, other, F_PyThread_base_frame) : 0;
	ck_assert_msg(th.frame == none && !th.holds_gil, "%s: frame 0x%llx", l->name, (unsigned long long)th.frame);
	ck_assert_int_eq(py_next_thread(&t, &th), 0);
	ck_assert_int_eq(py_next_interp(&w, &in), 1);
	ck_assert(in.addr == b->interp && in.id == (layout_has(l, F_PyInterp_id) ? 0 : -1) && in.main);
	ck_assert(in.gil_known && in.gil_locked && in.gil_holder == one);
	t = py_threads(py, &in);
	ck_assert_int_eq(py_next_thread(&t, &th), 1);
	/* Where neither the thread pointer nor a number tells, that no thread is found says nothing. */
	bool told = abi_tls_is_self(&l->abi) || layout_has(l, F_PyThread_native_thread_id);
	ck_assert(th.addr == two && th.ident == IDENT + 0x1000 && th.tid == 0 && th.stale == told && !th.holds_gil);
	ck_assert_int_eq(py_next_thread(&t, &th), 1);
	ck_assert(th.addr == one && th.ident == IDENT && th.tid == 100 && !th.stale && th.holds_gil && th.frame);
	ck_assert_int_eq(py_next_thread(&t, &th), 0);
	ck_assert_int_eq(py_next_thread(&t, &th), 0);
	ck_assert_int_eq(py_next_interp(&w, &in), 0);

	build_gil(b, b->interp, 0);
	py = build_py(b);
	w = py_interps(py);
	while (py_next_interp(&w, &in) == 1)
		if (in.main)
			ck_assert(in.gil_known && !in.gil_locked && !in.gil_holder);
	build_free(b);
}

/*
 * Where pthread_t is not the thread pointer, it lies at the top of the thread's own stack, the main thread's in memory of the dynamic
 * loader, which may be the next above; a thread that Python knows nothing of is nobody's.
 */
static void by_stacks(const struct layout *l)
{
	if (abi_tls_is_self(&l->abi))
		return;
	for (int tls = 0; tls < 2; tls++) {
		enum { STACK = 0x10000 };
		struct build *b = build_new(l);
		addr_t stacks = build_alloc(b, 5 * STACK), code = build_work(b), t[3];
		uint64_t ident[3] = { stacks + 4 * STACK + 0x800, stacks + 2 * STACK - 0x900, stacks + 4 * STACK - 0x900 };
		for (int i = 0; i < 3; i++) {
			addr_t sp = i ? ident[i] - 0x700 : stacks + 0x100;
			t[i] = build_thread(b, b->interp, ident[i], 100 + i);
			if (layout_has(l, F_PyThread_cframe))
				WRITE(b, t[i], PyThread, cframe, sp + 0x100);
			build_frame(b, t[i], &(struct build_frame){ .code = code, .lasti = 4 });
			build_lwp(b, 100 + i, sp, tls ? ident[i] + 0x740 : 0);
		}
		*vec_push(&b->lwps) = (struct thread){ .tid = 103, .regs = { .sp = stacks + 2 * STACK + 0x100, .tls = tls ? stacks + 3 * STACK : 0 } };
		struct py *py = build_open(b, build_image(b), &(struct py_options){ .hint_runtime = build_hint(b) });
		struct walk w = py_interps(py), tw;
		struct py_interp in;
		struct py_thread th;
		ck_assert_int_eq(py_next_interp(&w, &in), 1);
		tw = py_threads(py, &in);
		for (int i = 2; i >= 0; i--) {
			ck_assert_int_eq(py_next_thread(&tw, &th), 1);
			ck_assert_msg(th.addr == t[i] && th.tid == 100 + i && !th.stale && th.ident == ident[i], "%s: thread %d: %d", l->name, i, th.tid);
		}
		build_free(b);
	}
}

START_TEST(whose_stack)
{
	each_layout(by_stacks);
}
END_TEST

START_TEST(interpreters_and_threads)
{
	each_layout(lists);
}
END_TEST

/* A state that its thread has not taken yet has its maker's ids, or none: it is not that thread a second time. */
static void not_begun(const struct layout *l)
{
	struct build *b = build_new(l);
	addr_t code = build_work(b), sub = build_interp(b, 1);
	addr_t main = build_thread(b, b->interp, IDENT, 100);
	addr_t maker = build_thread(b, b->interp, IDENT + 0x1000, 101);
	addr_t mute = build_thread(b, b->interp, IDENT + 0x2000, 102); /* runs, but no Python just now */
	addr_t copied = build_thread(b, b->interp, IDENT + 0x1000, 0);
	addr_t unbound = build_thread(b, b->interp, 0, 0);
	addr_t busy = build_thread(b, b->interp, IDENT, 0); /* the same thread with a second state that it uses */
	addr_t subs = build_thread(b, sub, IDENT + 0x1000, 0);
	WRITE_IF(b, unbound, PyThread, native_thread_id, 0);
	build_frame(b, main, &(struct build_frame){ .code = code, .lasti = 4 });
	build_frame(b, maker, &(struct build_frame){ .code = code, .lasti = 4 });
	build_frame(b, busy, &(struct build_frame){ .code = code, .lasti = 4 });
	struct py *py = build_py(b);
	/* From 3.12 on, where interpreters may have a lock of their own, nothing is copied: who has ids was bound to that thread. */
	const bool copies = !layout_has(l, F_PyInterp_gil);
	const struct { addr_t interp, thread; pid_t tid; bool starting; } want[] = { { sub, subs, 101, false }, { b->interp, busy, 100, false },
		{ b->interp, unbound, 0, true }, { b->interp, copied, copies ? 0 : 101, copies }, { b->interp, mute, 102, false },
		{ b->interp, maker, 101, false }, { b->interp, main, 100, false } };
	size_t seen = 0;
	struct walk w = py_interps(py);
	struct py_interp in;
	while (py_next_interp(&w, &in) == 1) {
		struct py_thread list[8];
		size_t n = 0;
		for (struct walk tw = py_threads(py, &in); n < 8 && py_next_thread(&tw, &list[n]) == 1;)
			n++;
		py_find_starting(py, list, n);
		for (size_t i = 0; i < n; i++, seen++) {
			const struct py_thread *t = &list[i];
			ck_assert(in.addr == want[seen].interp && t->addr == want[seen].thread);
			ck_assert_msg(t->starting == want[seen].starting && t->tid == want[seen].tid && !t->stale && !t->ident == t->starting,
				      "%s: %zu: starting %d, tid %d", l->name, seen, t->starting, t->tid);
		}
	}
	ck_assert_uint_eq(seen, sizeof want / sizeof *want);
	build_free(b);
}

START_TEST(threads_that_have_not_begun)
{
	each_layout(not_begun);
}
END_TEST

/*
 * A subinterpreter's thread state has the ids of the thread that created it (3.8 - 3.12); where there is a C frame, the
 * stack that it lies on tells who runs it.
 */
static void borrowed(const struct layout *l)
{
	if (!layout_has(l, F_PyThread_cframe))
		return;
	struct build *b = build_new(l);
	addr_t sub = build_interp(b, 1), stack = build_alloc(b, 4096), other = build_alloc(b, 4096);
	build_thread(b, b->interp, IDENT, 100);
	build_thread(b, b->interp, IDENT + 0x1000, 101);
	addr_t t = build_thread(b, sub, IDENT, 0);
	b->lwps.p[0].regs.sp = other;
	b->lwps.p[1].regs.sp = stack;
	struct py_interp in = { .addr = sub };
	struct py_thread th;
	struct walk w;
	struct py *py;

	WRITE(b, t, PyThread, cframe, stack + 512);
	py = build_py(b);
	w = py_threads(py, &in);
	ck_assert_int_eq(py_next_thread(&w, &th), 1);
	/* A thread pointer that is no pthread_t does not tell the ident of who runs it. */
	bool self = abi_tls_is_self(&l->abi);
	ck_assert_msg(th.tid == 101 && !th.stale && (!self || th.ident == IDENT + 0x1000), "%s: %d", l->name, th.tid);
	/* On no stack: the ids count. */
	WRITE(b, t, PyThread, cframe, BUILD_RODATA + 8);
	py = build_py(b);
	w = py_threads(py, &in);
	ck_assert_int_eq(py_next_thread(&w, &th), 1);
	ck_assert_msg(th.tid == 100 && th.ident == IDENT, "%s: %d", l->name, th.tid);
	build_free(b);
}

START_TEST(who_runs_a_subinterpreter)
{
	each_layout(borrowed);
}
END_TEST

/* A thread list that loops, that leads nowhere, and that leads into another interpreter's. */
static void broken_lists(const struct layout *l)
{
	struct build *b = build_new(l);
	addr_t t[5], sub = build_interp(b, 1), foreign = build_thread(b, sub, IDENT, 0);
	for (int i = 0; i < 5; i++)
		t[i] = build_thread(b, b->interp, IDENT + 0x1000 * (uint64_t)i, 100 + i);
	const struct { addr_t next; int rc; int min, max; } rows[] = {
		{ t[0], ERR_CORRUPT, 5, 20 }, { t[4], ERR_CORRUPT, 5, 20 }, { t[2], ERR_CORRUPT, 5, 20 },
		{ 0x123456780, ERR_FAULT, 5, 5 }, { foreign, ERR_CORRUPT, 5, 5 }, { t[0] + 8, ERR_CORRUPT, 5, 5 },
	};
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		WRITE(b, t[0], PyThread, next, rows[i].next);
		struct py *py = build_py(b);
		struct py_interp in = { .addr = b->interp };
		struct walk w = py_threads(py, &in);
		struct py_thread th;
		int n = 0, rc;
		while ((rc = py_next_thread(&w, &th)) == 1)
			n++;
		ck_assert_msg(rc == rows[i].rc && n >= rows[i].min && n <= rows[i].max, "%s: row %zu: %d after %d", l->name, i, rc, n);
		ck_assert_int_eq(py_next_thread(&w, &th), 0);
	}
	/* The interpreter itself cannot be read: the first step says so. */
	struct py *py = build_py(b);
	struct py_interp in = { .addr = 0x123456780 };
	struct walk w = py_threads(py, &in);
	struct py_thread th;
	ck_assert_int_eq(py_next_thread(&w, &th), ERR_FAULT);
	ck_assert_int_eq(py_next_thread(&w, &th), 0);
	/* Interpreters that loop. */
	WRITE(b, b->interp, PyInterp, next, sub);
	py = build_py(b);
	w = py_interps(py);
	int n = 0, rc;
	while ((rc = py_next_interp(&w, &in)) == 1)
		n++;
	ck_assert_msg(rc == ERR_CORRUPT && n >= 2 && n <= 8, "%s: %d after %d", l->name, rc, n);
	build_free(b);
}

START_TEST(broken_lists_end)
{
	each_layout(broken_lists);
}
END_TEST

struct names { int n; uint64_t ident[4]; char name[4][64]; };
static void got_name(void *arg, uint64_t ident, struct str name)
{
	struct names *got = arg;
	if (got->n < 4) {
		got->ident[got->n] = ident;
		snprintf(got->name[got->n], sizeof got->name[0], STR_FMT, STR_ARG(name));
	}
	got->n++;
}

static void names(const struct layout *l)
{
	addr_t threads[2];
	struct build *b = build_two_threads(l, threads);
	struct py *py = build_py(b);
	struct py_interp in = { .addr = b->interp };
	struct names got = { 0 };
	uint64_t lost = 7;

	/* threading was never imported. */
	ck_assert_int_eq(py_thread_names(py, &in, &(uint64_t){ PY_NAMES_LOOKED }, b->arena, &lost, got_name, &got), ERR_ABSENT);
	ck_assert_int_eq(got.n, 0);
	build_thread_name(b, b->interp, IDENT, "MainThread");
	build_thread_name(b, b->interp, IDENT + 0x1000, "na\xc3\xafve-\xe7\xb7\x9a\xe7\xa8\x8b \xf0\x9f\x90\x8d");
	py = build_py(b);
	int rc = py_thread_names(py, &in, &(uint64_t){ PY_NAMES_LOOKED }, b->arena, &lost, got_name, &got);
	ck_assert_uint_eq(lost, 0);
	ck_assert_msg(rc == 2 && got.n == 2, "%s: %d", l->name, rc);
	ck_assert(got.ident[0] == IDENT && got.ident[1] == IDENT + 0x1000);
	ck_assert_str_eq(got.name[0], "MainThread");
	ck_assert_str_eq(got.name[1], "na\xc3\xafve-\xe7\xb7\x9a\xe7\xa8\x8b \xf0\x9f\x90\x8d");
	/* What is looked at for that is counted off, and no more of it: here the entry of threading, _active's two, and a name of each. */
	uint64_t left = PY_NAMES_LOOKED;
	ck_assert_int_eq(py_thread_names(py, &in, &left, b->arena, &lost, got_name, &(struct names){ 0 }), 2);
	const uint64_t looked = PY_NAMES_LOOKED - left;
	MUST(looked >= 5, "%s: %llu looked at", l->name, (unsigned long long)looked);
	left = looked - 1;
	rc = py_thread_names(py, &in, &left, b->arena, &lost, got_name, &(struct names){ 0 });
	MUST(rc == 1 && lost == 1 && left == 0, "%s: %d, %llu lost, %llu left", l->name, rc, (unsigned long long)lost, (unsigned long long)left);
	left = 0;
	MUST(py_thread_names(py, &in, &left, b->arena, &lost, got_name, &(struct names){ 0 }) == ERR_LIMIT && left == 0, "%s", l->name);
	struct str argv = py_arguments(py, &in, "argv", b->arena), executable = py_executable(py, &in, b->arena);
	ck_assert(!py_arguments(py, &in, "orig_argv", b->arena).s);
	ck_assert_msg(str_is(argv, "prog.py -x"), STR_FMT, STR_ARG(argv));
	ck_assert_msg(str_is(executable, "/usr/bin/python3"), STR_FMT, STR_ARG(executable));
	uint64_t ident;
	if (layout_has(l, F_PyRuntime_main_thread)) {
		WRITE(b, b->runtime, PyRuntime, main_thread, IDENT);
		ck_assert_int_eq(py_main_ident(build_py(b), &ident), 0);
		ck_assert_uint_eq(ident, IDENT);
	} else if (!b->runtime) { /* threading's */
		ck_assert_int_eq(py_main_ident(build_py(b), &ident), 0);
		ck_assert_uint_eq(ident, IDENT);
	}
	/* An entry without a name, one whose key is no int, and one that is only counted. */
	build_dict_set(b, b->threading_active, build_int(b, 7), b->types.none);
	build_dict_set(b, b->threading_active, build_str(b, "key"), b->types.none);
	got = (struct names){ 0 };
	rc = py_thread_names(build_py(b), &in, &(uint64_t){ PY_NAMES_LOOKED }, b->arena, &lost, got_name, &got);
	ck_assert_msg(rc == 2 && got.n == 2 && lost == 2, "%s: %d, %llu lost", l->name, rc, (unsigned long long)lost);
	uint64_t used = build_field_get(b, b->threading_active, F_PyDict_ma_used);
	build_field(b, b->threading_active, F_PyDict_ma_used, used + 1);
	if (layout_has(l, F_PyDict_ma_table)) { /* 2.7's table has room for more */
		rc = py_thread_names(build_py(b), &in, &(uint64_t){ PY_NAMES_LOOKED }, b->arena, &lost, got_name, &got);
		ck_assert_msg(rc == 2 && lost == 3, "%s: %d, %llu lost", l->name, rc, (unsigned long long)lost);
	} else {
		addr_t keys = build_field_get(b, b->threading_active, F_PyDict_ma_keys);
		build_field(b, keys, F_PyDictKeys_dk_nentries, build_field_get(b, keys, F_PyDictKeys_dk_nentries) + 1);
		rc = py_thread_names(build_py(b), &in, &(uint64_t){ PY_NAMES_LOOKED }, b->arena, &lost, got_name, &got);
		ck_assert_msg(rc == 2 && lost == 3, "%s: %d, %llu lost", l->name, rc, (unsigned long long)lost);
	}
	build_free(b);
}

START_TEST(what_the_program_calls_itself)
{
	each_layout(names);
}
END_TEST

/* 1,000 threads: found by search and walked, well within what a look through all threads for each would take. */
static void many(const struct layout *l)
{
	struct build *b = build_new(l);
	addr_t code = build_work(b);
	for (unsigned i = 0; i < 1000; i++) {
		addr_t t = build_thread(b, b->interp, IDENT + 0x1000 * (uint64_t)i, (pid_t)(100 + i));
		build_frame(b, t, &(struct build_frame){ .code = code, .lasti = 4 });
	}
	struct image *img = build_image(b);
	clock_t start = clock();
	struct py *py = build_open(b, img, NULL);
	struct py_interp in = { .addr = b->interp };
	struct walk w = py_threads(py, &in);
	struct py_thread th;
	int n = 0, rc, stale = 0;
	while ((rc = py_next_thread(&w, &th)) == 1) {
		n++;
		stale += th.stale || th.tid < 100;
	}
	ck_assert_int_eq(rc, 0);
	ck_assert_int_eq(n, 1000);
	ck_assert_int_eq(stale, 0);
	ck_assert_double_lt((double)(clock() - start) / CLOCKS_PER_SEC, 2.0); /* 5 ms; sanitizers and valgrind take their time */
	build_free(b);
}

/* The same of a version that no layout is for: each thread leads to the one interpreter, which is refused once. */
static void many_refused(const struct layout *l)
{
	struct layout other = *l;
	if (layout_has(l, F_PyDebugOffsets_cookie))
		other.offset[F_PyDebugOffsets_cookie] = -1;
	other.version = (l->version & 0xff00ffffu) | 0x00500000;
	struct build *b = build_new(&other);
	struct py *py;
	struct err err = { 0 };
	addr_t code = build_work(b);
	for (unsigned i = 0; i < 3000; i++) {
		addr_t t = build_thread(b, b->interp, IDENT + 0x1000 * (uint64_t)i, (pid_t)(100 + i));
		build_frame(b, t, &(struct build_frame){ .code = code, .lasti = 4 });
	}
	struct image *img = build_image(b);
	clock_t start = clock();
	ck_assert_int_eq(py_open(img, NULL, NULL, b->arena, &py, &err), ERR_UNSUPPORTED);
	ck_assert_double_lt((double)(clock() - start) / CLOCKS_PER_SEC, 1.0); /* 10 ms; seconds where each is tried anew */
	build_free(b);
}

START_TEST(a_thousand_threads)
{
	each_layout(many);
	each_layout(many_refused);
}
END_TEST

/* Everything there is to walk; what matters is that it ends. */
static unsigned long walk_everything(struct py *py, struct arena *a)
{
	struct walk interps = py_interps(py), threads, frames;
	struct py_interp in;
	struct py_thread t;
	struct py_frame f;
	struct names got;
	unsigned long n = 0;
	uint64_t ident;

	(void)!py_main_ident(py, &ident);
	while (py_next_interp(&interps, &in) == 1) {
		got.n = 0;
		uint64_t lost;
		(void)!py_thread_names(py, &in, &(uint64_t){ PY_NAMES_LOOKED }, a, &lost, got_name, &got);
		py_arguments(py, &in, "argv", a);
		py_executable(py, &in, a);
		threads = py_threads(py, &in);
		while (py_next_thread(&threads, &t) == 1) {
			frames = py_frames(py, t.frame);
			while (py_next_frame(&frames, &f) == 1) {
				addr_t stack[16];
				bool sure;
				struct py_code code;
				struct position at;
				n++;
				(void)!py_frame_stack(py, &f, stack, 16, &sure);
				(void)!py_code_read(py, f.code, a, &code);
				(void)!py_code_position(py, f.code, f.lasti, &at);
			}
		}
	}
	return n;
}

/* Words of the runtime replaced: by zero, by all ones, by addresses of other things, with a bit turned over. */
static void damage(const struct layout *l)
{
	uint64_t state = 0x9e3779b97f4a7c15u;
	addr_t threads[2];
	unsigned opened = 0;
	/* Other builds and machines differ in where things are and in the widths of words: a few rounds show that. */
	const unsigned rounds = strcmp(config_of(l), "x86_64") == 0 ? 60 : 3, w = l->abi.width;

	for (unsigned round = 0; round < rounds; round++) {
		struct build *b = build_two_threads(l, threads);
		struct py *py;
		struct err err;
		build_thread_name(b, b->interp, IDENT, "one");
		build_settle(b);
		/* Half of the words in what the walks read, where the heap is mostly zeros. */
		const addr_t hot[] = { b->interp, threads[0], threads[1], build_field_get(b, b->interp, F_PyInterp_sysdict), b->builtins,
				       b->types.type, b->types.code, b->types.dict };
		for (uint64_t k = 1 + draw(&state) % 12; k > 0; k--) {
			addr_t at = draw(&state) % 2 ? b->heap.base + draw(&state) % (b->heap.n - 8) / w * w :
						       hot[draw(&state) % (sizeof hot / sizeof *hot)] + draw(&state) % 512 / w * w;
			uint64_t old = build_get(b, at, w), value = 0;
			switch (draw(&state) % 5) {
			case 0: value = 0; break;
			case 1: value = UINT64_MAX; break;
			case 2: value = b->heap.base + draw(&state) % b->heap.n / w * w; break;
			case 3: value = old ^ (UINT64_C(1) << draw(&state) % (8 * w)); break;
			default: value = hot[draw(&state) % (sizeof hot / sizeof *hot)]; break;
			}
			build_uint(b, at, w, value);
		}
		if (draw(&state) % 4 == 0)
			build_lose(b, b->heap.base + draw(&state) % b->heap.n / 4096 * 4096, 4096);
		if (py_open(build_image(b), NULL, &(struct py_options){ .hint_runtime = build_hint(b) }, b->arena, &py, &err) == 0) {
			opened++;
			walk_everything(py, b->arena);
		}
		/* And without asking for a proof. */
		walk_everything(build_py(b), b->arena);
		build_free(b);
	}
	ck_assert_msg(opened > rounds / 4 && (rounds < 50 || opened < rounds), "%s: %u", l->name, opened);
}

START_TEST(damage_is_survived)
{
	each_layout(damage);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("runtime");
	TCase *tc = tcase_create("runtime");
	tcase_set_timeout(tc, 120);
	tcase_add_test(tc, found_without_symbols);
	tcase_add_test(tc, hints_are_verified);
	tcase_add_test(tc, runtime_is_found_in_the_data_of_a_file);
	tcase_add_test(tc, threads_that_have_not_begun);
	tcase_add_test(tc, nothing_of_python);
	tcase_add_test(tc, interpreters_and_threads);
	tcase_add_test(tc, whose_stack);
	tcase_add_test(tc, who_runs_a_subinterpreter);
	tcase_add_test(tc, broken_lists_end);
	tcase_add_test(tc, what_the_program_calls_itself);
	tcase_add_test(tc, a_thousand_threads);
	tcase_add_test(tc, damage_is_survived);
	suite_add_tcase(s, tc);
	return suite_run(s);
}
