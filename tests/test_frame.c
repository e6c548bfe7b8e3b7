/* Frame chains and value stacks, under every built-in layout: whole ones, endless ones, and ones with holes. */
#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "build_py.h"
#include "every_layout.h"
#include "suite.h"

#define IDENT BUILD_IDENT(b)

static addr_t work(struct build *b, const char *name)
{
	return build_code(b, &(struct build_code){ .name = name, .file = "/a/b.py", .firstlineno = 10, .units = 8, .nlocals = 1, .stacksize = 6 });
}

/* What a walk from the first thread's frame gives. */
struct seen { struct py_frame f[64]; int n, rc; struct walk w; };
static struct seen walk_all(struct py *py)
{
	struct walk interps = py_interps(py);
	struct py_interp in;
	ck_assert_int_eq(py_next_interp(&interps, &in), 1);
	struct walk threads = py_threads(py, &in);
	struct py_thread t;
	ck_assert_int_eq(py_next_thread(&threads, &t), 1);
	struct seen s = { .w = py_frames(py, t.frame) };
	struct py_frame f;
	addr_t base = 0;
	if (HAS(py, PyThread, base_frame)) /* 3.15: every thread has one, which all its chains end at */
		ck_assert_int_eq(READ(py, t.addr, PyThread, base_frame, &base), 0);
	while ((s.rc = py_next_frame(&s.w, &f)) == 1) {
		addr_t back = 1;
		if (f.shim && READ(py, f.addr, PyFrame, previous, &back) == 0 && !back) /* what the chain stands on, base or not */
			continue;
		ck_assert(!base || f.addr != base);
		if (s.n < 64)
			s.f[s.n] = f;
		s.n++;
	}
	ck_assert_int_eq(py_next_frame(&s.w, &f), 0);
	return s;
}

static void chain(const struct layout *l)
{
	struct build *b = build_new(l);
	addr_t t = build_thread(b, b->interp, IDENT, 100), outer = work(b, "outer"), inner = work(b, "inner");
	bool shims = l->trait[T_owner_shim] != 255;

	build_frame(b, t, &(struct build_frame){ .code = outer, .lasti = 6, .entry = true });
	build_frame(b, t, &(struct build_frame){ .code = inner, .lasti = 0 });
	build_frame(b, t, &(struct build_frame){ .shim = true });
	build_frame(b, t, &(struct build_frame){ .code = inner, .lasti = 14, .entry = true });
	build_frame(b, t, &(struct build_frame){ .code = inner, .lasti = -1, .generator = true });
	struct seen s = walk_all(build_py(b));
	ck_assert_int_eq(s.rc, 0);
	struct { addr_t code; int64_t lasti; bool shim; } want[5] = { { inner, -1, false }, { inner, 14, false }, { 0, 0, true },
		{ inner, 0, false }, { outer, 6, false } };
	int k = 0;
	for (int i = 0; i < 5; i++) {
		if (want[i].shim && !shims)
			continue;
		ck_assert_msg(k < s.n, "%s: %d frames", l->name, s.n);
		ck_assert_msg(s.f[k].shim == want[i].shim, "%s: frame %d", l->name, k);
		if (!want[i].shim) {
			ck_assert_msg(s.f[k].code == want[i].code, "%s: frame %d has another code", l->name, k);
			/* Where a pointer is kept, "not started" is one before the code or its first instruction. */
			if (want[i].lasti >= 0 || !layout_has(l, F_PyFrame_instr_ptr))
				ck_assert_msg(s.f[k].lasti == want[i].lasti, "%s: frame %d: lasti %lld", l->name, k,
					      (long long)s.f[k].lasti);
			/* Frame objects are all entries; others where C called Python: 3.12 on shows that by the shim beneath. */
			bool entry = !layout_has(l, F_PyFrame_previous) || i == 1 || i == 4;
			ck_assert_msg(s.f[k].entry == entry, "%s: frame %d: entry %d", l->name, k, s.f[k].entry);
		}
		k++;
	}
	ck_assert_int_eq(k, s.n);
	build_free(b);
}

START_TEST(frames_of_every_shape)
{
	each_layout(chain);
}
END_TEST

static addr_t push_plain(struct build *b, addr_t t, addr_t code)
{
	return build_frame(b, t, &(struct build_frame){ .code = code, .lasti = 4 });
}

/* From 3.11 on it shows whether a chain may end where it ends. */
static void cut(const struct layout *l)
{
	struct build *b = build_new(l);
	addr_t t = build_thread(b, b->interp, IDENT, 100), code = work(b, "f");
	push_plain(b, t, code);
	addr_t middle = push_plain(b, t, code);
	push_plain(b, t, code);
	struct seen s = walk_all(build_py(b));
	ck_assert_msg(s.rc == 0 && s.n == 3, "%s: %d", l->name, s.rc);
	build_ptr(b, build_frame_back(b, middle), 0);
	s = walk_all(build_py(b));
	ck_assert_msg(s.rc == (layout_has(l, F_PyFrame_previous) ? ERR_CORRUPT : 0), "%s: %d", l->name, s.rc);
	ck_assert(s.n == 2 && s.w.next == 0);
	build_free(b);
}

START_TEST(chains_end_where_a_run_began)
{
	each_layout(cut);
}
END_TEST

/* Of the first thread, what its state bears witness of: how many frames, and what is said against them. */
static struct seen walk_thread(struct py *py)
{
	struct walk interps = py_interps(py);
	struct py_interp in;
	ck_assert_int_eq(py_next_interp(&interps, &in), 1);
	struct walk threads = py_threads(py, &in);
	struct py_thread t;
	ck_assert_int_eq(py_next_thread(&threads, &t), 1);
	struct seen s = { .w = py_thread_frames(py, &t) };
	struct py_frame f;
	while ((s.rc = py_next_frame(&s.w, &f)) == 1)
		s.n += !f.shim;
	return s;
}

/* What no version writes as a frame's owner: the frame is one all the same. */
static void owner(const struct layout *l)
{
	if (!layout_has(l, F_PyFrame_owner))
		return;
	for (unsigned owner = 0; owner < 256; owner += owner < 8 ? 1 : 31) {
		struct build *b = build_new(l);
		addr_t t = build_thread(b, b->interp, IDENT, 100), code = work(b, "f");
		push_plain(b, t, code);
		addr_t middle = push_plain(b, t, code);
		push_plain(b, t, code);
		WRITE(b, middle, PyFrame, owner, owner);
		struct seen s = walk_all(build_py(b));
		/* 3.14 has two kinds of shims, 3.12, 3.13 and 3.15 one, 3.11 none. */
		const int minor = l->version >> 16 & 255;
		const bool shim = (minor >= 12 && owner == 3) || (minor == 14 && owner == 4);
		ck_assert_msg(s.rc == 0 && s.n == 3 && s.f[1].shim == shim && (shim || s.f[1].code == code), "%s: owner %u: %d, %d", l->name, owner, s.rc, s.n);
		ck_assert(s.f[0].entry == (shim && minor >= 12));
		build_free(b);
	}
}

START_TEST(damaged_owners_hide_no_frame)
{
	each_layout(owner);
}
END_TEST

/* 3.10 to 3.12: the thread's C frame, and that one's link to the frame. */
static void no_cframe(const struct layout *l)
{
	if (!layout_has(l, F_PyThread_cframe))
		return;
	struct build *b = build_new(l);
	addr_t t = build_thread(b, b->interp, IDENT, 100);
	struct seen s = walk_thread(build_py(b));
	ck_assert_msg(s.rc == 0 && s.n == 0, "%s: %d", l->name, s.rc); /* a thread that runs no Python */
	addr_t root = build_field_get(b, t, F_PyThread_cframe), code = work(b, "f");
	WRITE(b, t, PyThread, cframe, 0);
	s = walk_thread(build_py(b));
	ck_assert_msg(s.rc == ERR_CORRUPT && s.n == 0 && s.w.why && strstr(s.w.why, "C frame is null"), "%s: %d", l->name, s.rc);
	if (!layout_has(l, F_PyCFrame_current_frame))
		goto out;
	/* Two calls of the evaluation loop: each has a C frame, which runs a chain of its own. */
	addr_t outer = build_alloc(b, 64), inner = build_alloc(b, 64), back;
	WRITE(b, outer, PyCFrame, previous, root);
	WRITE(b, inner, PyCFrame, previous, outer);
	WRITE(b, t, PyThread, cframe, outer);
	push_plain(b, t, code);
	addr_t caller = push_plain(b, t, code);
	WRITE(b, inner, PyCFrame, current_frame, caller);
	WRITE(b, t, PyThread, cframe, inner);
	addr_t shim = build_frame(b, t, &(struct build_frame){ .shim = true });
	addr_t called = build_frame(b, t, &(struct build_frame){ .code = code, .lasti = 4, .entry = true });
	push_plain(b, t, code);
	s = walk_thread(build_py(b));
	ck_assert_msg(s.rc == 0 && s.n == 4 && !s.w.why, "%s: %d, %d", l->name, s.rc, s.n);
	back = build_frame_back(b, shim ? shim : called);
	build_ptr(b, back, 0);
	s = walk_thread(build_py(b));
	ck_assert_msg(s.rc == ERR_CORRUPT && s.n == 2 && s.w.why && strstr(s.w.why, "whose caller ran Python"), "%s: %d, %d", l->name, s.rc, s.n);
	build_ptr(b, back, caller);
	WRITE(b, inner, PyCFrame, current_frame, 0);
	s = walk_thread(build_py(b));
	ck_assert_msg(s.rc == ERR_CORRUPT && s.n == 0 && s.w.why && strstr(s.w.why, "an older one has"), "%s: %d, %d", l->name, s.rc, s.n);
	/* Zeros where the stack was overwritten are not those of a thread that runs nothing. */
	WRITE(b, inner, PyCFrame, previous, 0);
	s = walk_thread(build_py(b));
	ck_assert_msg(s.rc == ERR_CORRUPT && s.n == 0 && s.w.why && strstr(s.w.why, "leads to none"), "%s: %d, %d", l->name, s.rc, s.n);
	WRITE(b, inner, PyCFrame, previous, outer);
	/* What was not captured says nothing. */
	WRITE(b, inner, PyCFrame, current_frame, caller);
	build_lose(b, inner, 64);
	s = walk_thread(build_py(b));
	ck_assert_int_eq(s.rc, ERR_FAULT);
out:
	build_free(b);
}

START_TEST(c_frames_bear_witness)
{
	each_layout(no_cframe);
}
END_TEST

/*
 * The newest call of the evaluation loop while it is entered, which a thread may be stopped in: its C frame, next to the stack pointer,
 * says what happens to lie there.  What called it is shown, and nothing is said.
 */
static void entering(const struct layout *l)
{
	if (!layout_has(l, F_PyThread_cframe) || !layout_has(l, F_PyCFrame_current_frame))
		return;
	enum { NEAR = 128, FAR = 4096 };
	struct build *b = build_new(l);
	const addr_t native = build_alloc(b, 2 * FAR), inner = native + FAR + NEAR, outer = inner + 2 * NEAR;
	addr_t t = build_thread(b, b->interp, IDENT, 100), root = build_field_get(b, t, F_PyThread_cframe), code = work(b, "f");
	WRITE(b, outer, PyCFrame, previous, root);
	WRITE(b, inner, PyCFrame, previous, outer);
	WRITE(b, t, PyThread, cframe, outer);
	addr_t oldest = push_plain(b, t, code);
	addr_t caller = push_plain(b, t, code), junk = build_alloc(b, 256), chunk = build_alloc(b, 64);
	WRITE(b, t, PyThread, cframe, inner);
	WRITE(b, inner, PyCFrame, current_frame, caller);
	addr_t shim = build_frame(b, t, &(struct build_frame){ .shim = true });
	addr_t called = build_frame(b, t, &(struct build_frame){ .code = code, .lasti = 4, .entry = true });
	WRITE(b, chunk, PyStackChunk, size, called + 4096 - chunk);
	WRITE(b, t, PyThread, datastack_chunk, chunk);
	/* Linked; nothing there; no frame; itself, on the stack; a frame whose links are older, or not yet written; one that returned. */
	const struct { addr_t frame, back; int n; } cases[] = {
		{ called, caller, 3 }, { 0, caller, 2 }, { junk, caller, 2 }, { inner, caller, 2 }, { called, 0, 2 }, { called, junk, 2 }, { called, oldest, 2 },
		{ called, caller, 2 },
	};
	const size_t n_cases = sizeof cases / sizeof *cases;
	for (size_t i = 0; i < n_cases; i++) {
		const bool told = i && i + 1 < n_cases; /* also where the C frame is far from the stack pointer */
		WRITE(b, t, PyThread, datastack_top, called + (i + 1 < n_cases ? 1024 : 0));
		WRITE(b, inner, PyCFrame, current_frame, cases[i].frame);
		build_ptr(b, build_frame_back(b, shim ? shim : called), cases[i].back);
		for (int near = 0; near < 2; near++) {
			build_lwp(b, 100, near ? native + FAR : native, IDENT);
			struct seen s = walk_thread(build_py(b));
			if (near)
				ck_assert_msg(s.rc == 0 && s.n == cases[i].n && !s.w.why, "%s: case %zu: %d, %d frames", l->name, i, s.rc, s.n);
			else
				ck_assert_msg((s.rc == 0) == !told, "%s: case %zu: %d, %d frames", l->name, i, s.rc, s.n);
		}
	}
	build_free(b);
}

START_TEST(calls_that_are_being_entered)
{
	each_layout(entering);
}
END_TEST

/*
 * What healthy threads have.  On the data stack lie frames that no chain leads to: of functions that returned, whose locals' __del__
 * runs, and of such that are called while their keywords are compared.
 */
static void unlinked(const struct layout *l)
{
	if (!layout_has(l, F_PyThread_datastack_chunk) || !layout_has(l, F_PyStackChunk_data))
		return;
	struct build *b = build_new(l);
	addr_t t = build_thread(b, b->interp, IDENT, 100), code = work(b, "f"), chunk = build_alloc(b, 4096);
	const addr_t bottom = build_field_at(b, chunk, F_PyStackChunk_data) + l->abi.width;
	WRITE(b, chunk, PyStackChunk, size, 4096);
	WRITE(b, t, PyThread, datastack_chunk, chunk);
	WRITE(b, t, PyThread, datastack_top, bottom + 512);
	struct seen s = walk_thread(build_py(b));
	ck_assert_msg(s.rc == 0 && s.n == 0, "%s: %d", l->name, s.rc); /* the one at the bottom is all that it ran */
	push_plain(b, t, code);
	addr_t top = build_field_get(b, t, F_PyThread_datastack_top);
	s = walk_thread(build_py(b));
	ck_assert_msg(s.rc == 0 && s.n == 1 && top == bottom + 512, "%s: %d, %d", l->name, s.rc, s.n);
	build_free(b);
}

/* A frame of the interpreter's own, between a class and its __init__: tracebacks leave it out. */
static void own(const struct layout *l)
{
	if (TRAIT(&(struct py){ .layout = *l }, owner_shim) == 255)
		return;
	struct build *b = build_new(l);
	addr_t t = build_thread(b, b->interp, IDENT, 100), code = work(b, "f"), between = work(b, "__init__");
	WRITE(b, between, PyCode, co_qualname, build_field_get(b, between, F_PyCode_co_name));
	/* What it runs: nothing, None, and a function, whose code has the same texts where it is named as its file is. */
	const struct { bool file; addr_t func; bool shown; } cases[] = {
		{ false, 0, true }, { true, 0, false }, { true, b->types.none, false }, { true, build_function(b, "__init__", between), true },
	};
	for (size_t i = 0, n = 0; i < sizeof cases / sizeof *cases; i++) {
		push_plain(b, t, code);
		addr_t at = push_plain(b, t, between);
		WRITE(b, at, PyFrame, func, cases[i].func);
		push_plain(b, t, code);
		if (cases[i].file)
			WRITE(b, between, PyCode, co_filename, build_field_get(b, between, F_PyCode_co_name));
		/* That of the first is left out once its file has the same text. */
		n = cases[i].file && i == 1 ? n + 1 : n + 2 + cases[i].shown;
		struct seen s = walk_thread(build_py(b));
		ck_assert_msg(s.rc == 0 && s.n == (int)n, "%s: %zu: %d, %d", l->name, i, s.rc, s.n);
	}
	build_free(b);
}

/* Functions that call each other within one call of the evaluation loop: each frame right behind its caller's, or first in a new chunk. */
static void behind(const struct layout *l)
{
	if (!layout_has(l, F_PyThread_datastack_top) || !layout_has(l, F_PyStackChunk_data) || !layout_has(l, F_PyFrame_owner))
		return;
	enum { N = 4, SIZE = 8192 };
	/* Which frame the newest leads to: all right; one or two left out; in a new chunk; from a generator, which may be anywhere; it
	   returned, and is still the current one. */
	const struct { int to, n; bool fresh, generator, above; } cases[] = {
		{ 2, 4, false, false, false }, { 1, 1, false, false, false }, { 0, 1, false, false, false }, { 2, 4, true, false, false },
		{ 1, 3, false, true, false }, { 2, 4, false, false, true },
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct build *b = build_new(l);
		addr_t t = build_thread(b, b->interp, IDENT, 100), code = work(b, "f"), chunk[2] = { build_alloc(b, SIZE), build_alloc(b, SIZE) }, f[N];
		const unsigned width = l->abi.width;
		const size_t size = (size_t)l->offset[F_PyFrame_localsplus] +
				    width * (size_t)(build_field_get(b, code, F_PyCode_co_nlocalsplus) + build_field_get(b, code, F_PyCode_co_stacksize));
		addr_t at = build_field_at(b, chunk[0], F_PyStackChunk_data) + width, last = 0;
		for (int k = 0; k < N; k++, at += size) {
			last = push_plain(b, t, code);
			if (k == N - 1 && cases[i].fresh)
				at = build_field_at(b, chunk[1], F_PyStackChunk_data);
			f[k] = at;
			for (size_t n = 0; n < size; n++)
				build_uint(b, at + n, 1, build_get(b, last + n, 1));
			if (k)
				build_ptr(b, build_frame_back(b, at), f[k - 1]);
		}
		build_ptr(b, build_frame_back(b, f[N - 1]), f[cases[i].to]);
		if (cases[i].generator)
			WRITE(b, f[N - 1], PyFrame, owner, 1);
		build_ptr(b, layout_has(l, F_PyThread_current_frame) ? build_field_at(b, t, F_PyThread_current_frame)
			  : build_field_at(b, build_field_get(b, t, F_PyThread_cframe), F_PyCFrame_current_frame), f[N - 1]);
		for (int k = 0; k < 2; k++)
			WRITE(b, chunk[k], PyStackChunk, size, SIZE);
		WRITE(b, chunk[1], PyStackChunk, previous, chunk[0]);
		WRITE(b, t, PyThread, datastack_chunk, chunk[cases[i].fresh]);
		WRITE(b, t, PyThread, datastack_top, cases[i].above ? f[N - 1] : at);
		struct seen s = walk_thread(build_py(b));
		const bool right = cases[i].n > 2;
		ck_assert_msg((s.rc == 0) == right && s.n == cases[i].n && (s.w.why != NULL) == !right, "%s: case %zu: %d, %d frames, %s", l->name, i, s.rc, s.n,
			      s.w.why ? s.w.why : "");
		build_free(b);
	}
}

/* While greenlet switches, frames lead past the shims; where a frame's own object has kept the link to one, nothing is missing. */
static void exposed(const struct layout *l)
{
	if (!layout_has(l, F_PyFrame_frame_obj) || TRAIT(&(struct py){ .layout = *l }, owner_shim) == 255)
		return;
	for (int kept = 0; kept < 2; kept++) {
		struct build *b = build_new(l);
		addr_t t = build_thread(b, b->interp, IDENT, 100), code = work(b, "f");
		addr_t outer = push_plain(b, t, code), object = build_alloc(b, 512);
		push_plain(b, t, code);
		const addr_t link = build_frame_back(b, outer), shim = build_get(b, link, l->abi.width);
		WRITE(b, outer, PyFrame, frame_obj, object);
		build_ptr(b, build_field_at(b, object, F_PyFrameObject_f_frame_data), kept ? shim : 0);
		build_ptr(b, link, 0);
		struct seen s = walk_thread(build_py(b));
		ck_assert_msg((s.rc == 0) == kept && s.n == 2, "%s: %d: %d, %d", l->name, kept, s.rc, s.n);
		build_free(b);
	}
}

/* Chunks that lead in a circle are no evidence, and are left soon. */
static void circle(const struct layout *l)
{
	if (!layout_has(l, F_PyThread_datastack_chunk) || !layout_has(l, F_PyStackChunk_data) || !layout_has(l, F_PyFrame_owner))
		return;
	enum { N = 7 };
	struct build *b = build_new(l);
	addr_t t = build_thread(b, b->interp, IDENT, 100), code = work(b, "f"), chunk[N];
	for (int k = 0; k < 3; k++)
		push_plain(b, t, code);
	for (int k = 0; k < N; k++) {
		chunk[k] = build_alloc(b, 64);
		WRITE(b, chunk[k], PyStackChunk, size, 64);
		WRITE(b, chunk[k], PyStackChunk, previous, k ? chunk[k - 1] : 0);
	}
	WRITE(b, chunk[0], PyStackChunk, previous, chunk[N - 2]);
	WRITE(b, t, PyThread, datastack_chunk, chunk[N - 1]);
	struct seen s = walk_thread(build_py(b));
	ck_assert_msg(s.rc == 0 && s.n == 3 && !s.w.chunk && s.w.n_chunks > N && s.w.n_chunks < 4 * N, "%s: %d, %d", l->name, s.rc, s.n);
	build_free(b);
}

START_TEST(frames_on_their_stack)
{
	each_layout(own);
	each_layout(behind);
	each_layout(circle);
	each_layout(exposed);
}
END_TEST

/* 3.15: a greenlet's frames do not stand on the thread's own first one, and it may have none. */
static void greenlet(const struct layout *l)
{
	if (!layout_has(l, F_PyThread_base_frame))
		return;
	struct build *b = build_new(l);
	addr_t t = build_thread(b, b->interp, IDENT, 100);
	WRITE(b, t, PyThread, current_frame, 0);
	struct seen s = walk_thread(build_py(b));
	ck_assert_msg(s.rc == 0 && s.n == 0, "%s: %d", l->name, s.rc);
	/* A link that leads out of the address space is followed, and said to be broken, like any other. */
	WRITE(b, t, PyThread, current_frame, l->abi.width == 8 ? UINT64_MAX - 15 : UINT32_MAX - 15);
	s = walk_thread(build_py(b));
	ck_assert_msg(s.rc == ERR_FAULT, "%s: %d", l->name, s.rc);
	build_free(b);
}

START_TEST(healthy_threads)
{
	each_layout(unlinked);
	each_layout(greenlet);
}
END_TEST

static void endless(const struct layout *l)
{
	/* A frame that points to itself; loops of 2 and 7; behind a start of 3 frames that is not part of the loop. */
	static const int loops[] = { 1, 2, 7 };
	for (size_t i = 0; i < sizeof loops / sizeof *loops; i++) {
		struct build *b = build_new(l);
		addr_t t = build_thread(b, b->interp, IDENT, 100), code = work(b, "f");
		addr_t first = push_plain(b, t, code), last = first;
		for (int k = 1; k < loops[i]; k++)
			last = push_plain(b, t, code);
		for (int k = 0; k < 3; k++)
			push_plain(b, t, code);
		build_ptr(b, build_frame_back(b, first), last);
		struct seen s = walk_all(build_py(b));
		ck_assert_msg(s.rc == ERR_CORRUPT, "%s: loop of %d: %d", l->name, loops[i], s.rc);
		ck_assert_msg(s.n >= 3 + loops[i] && s.n <= 4 * (3 + loops[i]), "%s: loop of %d: %d frames", l->name, loops[i], s.n);
		build_free(b);
	}
}

START_TEST(loops_end_and_are_said)
{
	each_layout(endless);
}
END_TEST

static void damaged(const struct layout *l)
{
	struct build *b = build_new(l);
	addr_t t = build_thread(b, b->interp, IDENT, 100), code = work(b, "f");
	addr_t outer = push_plain(b, t, code), middle = push_plain(b, t, code);
	push_plain(b, t, code);
	enum py_field code_field = layout_has(l, F_PyFrame_code) ? F_PyFrame_code : F_PyFrameObject_f_code;
	enum py_field builtins_field = layout_has(l, F_PyFrame_code) ? F_PyFrame_builtins : F_PyFrameObject_f_builtins;

	/* The link leads to where nothing was captured. */
	build_ptr(b, build_frame_back(b, middle), 0x12345678);
	struct seen s = walk_all(build_py(b));
	ck_assert_int_eq(s.rc, ERR_FAULT);
	ck_assert_int_eq(s.n, 2);
	ck_assert(s.w.next == 0x12345678);

	/* The link leads to zeros. */
	build_ptr(b, build_frame_back(b, middle), build_alloc(b, 4096));
	s = walk_all(build_py(b));
	ck_assert_msg(s.rc == ERR_CORRUPT, "%s: %d", l->name, s.rc);
	ck_assert_int_eq(s.n, 2);

	/*
	 * The code is an int (or a code object whose type was overwritten): the frame is one, as its namespaces show, and is given out
	 * without code; it is no shim, and those that called it follow.
	 */
	build_ptr(b, build_frame_back(b, middle), outer);
	addr_t number = build_int(b, 5);
	build_field(b, middle, code_field, number);
	s = walk_all(build_py(b));
	ck_assert_msg(s.rc == 0, "%s: %d", l->name, s.rc);
	ck_assert_int_eq(s.n, 3);
	ck_assert(!s.f[1].shim && s.f[1].code == 0 && s.f[1].no_code == ERR_ABSENT && s.f[1].stands == number && s.f[1].lasti == -1);
	ck_assert(s.f[2].code == code && s.f[2].no_code == 0);

	/* Nothing, and what was not captured, in its place. */
	build_field(b, middle, code_field, 0);
	s = walk_all(build_py(b));
	ck_assert(s.rc == 0 && s.n == 3 && s.f[1].no_code == ERR_CORRUPT && s.f[1].stands == 0 && !s.f[1].shim);
	build_field(b, middle, code_field, 0x12345678);
	s = walk_all(build_py(b));
	ck_assert(s.rc == 0 && s.n == 3 && s.f[1].no_code == ERR_FAULT && s.f[1].stands == 0x12345678 && !s.f[1].shim);

	/* None, where the version has it: a shim, whoever owns it. */
	build_field(b, middle, code_field, b->types.none);
	s = walk_all(build_py(b));
	ck_assert_int_eq(s.rc, 0);
	ck_assert_int_eq(s.n, 3);
	ck_assert(s.f[1].shim == layout_has(l, F_PyFrame_instr_ptr) && s.f[1].no_code == (s.f[1].shim ? 0 : ERR_ABSENT));
	build_field(b, middle, code_field, code);

	/* Without a namespace it could be anything. */
	build_field(b, outer, builtins_field, number);
	build_field(b, outer, code_field, number);
	s = walk_all(build_py(b));
	ck_assert_int_eq(s.rc, ERR_CORRUPT);
	ck_assert_int_eq(s.n, 2);

	/* What leads from the thread to its frame was not captured: that is said too. */
	if (layout_has(l, F_PyThread_cframe) && layout_has(l, F_PyCFrame_current_frame)) {
		addr_t cframe = build_field_get(b, t, F_PyThread_cframe);
		WRITE(b, t, PyThread, cframe, 0x12345678);
		s = walk_all(build_py(b));
		ck_assert_msg(s.rc == ERR_FAULT && s.n == 0, "%s: %d", l->name, s.rc);
		WRITE(b, t, PyThread, cframe, cframe);
	}

	/* The code cannot be read. */
	build_field(b, outer, code_field, 0x12345678);
	s = walk_all(build_py(b));
	ck_assert_int_eq(s.rc, ERR_FAULT);
	ck_assert_int_eq(s.n, 2);
	build_free(b);
}

START_TEST(holes_and_nonsense_end_a_walk)
{
	each_layout(damaged);
}
END_TEST

/* 200,000 frames: all of them, in time that a walk with a list of those seen would not keep. */
START_TEST(deep_stacks_are_linear)
{
	size_t n;
	const int deep = 200000;

	struct build *b = build_new(every_layout(&n));
	addr_t t = build_thread(b, b->interp, IDENT, 100), code = work(b, "f");
	for (int i = 0; i < deep; i++)
		push_plain(b, t, code);
	struct py *py = build_py(b);
	clock_t start = clock();
	struct seen s = walk_all(py);
	ck_assert_int_eq(s.rc, 0);
	ck_assert_int_eq(s.n, deep);
	ck_assert_double_lt((double)(clock() - start) / CLOCKS_PER_SEC, 5.0); /* 0.1 s; sanitizers and valgrind take their time */
	build_free(b);
}
END_TEST

static void stored_depth(const struct layout *l)
{
	struct build *b = build_new(l);
	addr_t t = build_thread(b, b->interp, IDENT, 100);
	addr_t one = build_int(b, 1), two = build_str(b, "two"), stack[3] = { one, 0, two };
	build_frame(b, t, &(struct build_frame){ .code = work(b, "f"), .lasti = 4, .locals = &one, .stack = stack, .n_stack = 3 });
	build_frame(b, t, &(struct build_frame){ .code = work(b, "g"), .lasti = 4, .locals = &one });
	struct py *py = build_py(b);
	struct seen s = walk_all(py);
	addr_t got[8] = { 0 };
	bool sure = false;
	ck_assert_int_eq(s.n, 2);
	ck_assert_int_eq(py_frame_stack(py, &s.f[0], got, 8, &sure), 0);
	ck_assert(sure);
	sure = false;
	int n = py_frame_stack(py, &s.f[1], got, 8, &sure);
	ck_assert_msg(n == 3, "%s: %d", l->name, n);
	ck_assert(sure && got[0] == one && got[1] == 0 && got[2] == two);
	/* No more than there is room for, from the bottom. */
	got[2] = 77;
	ck_assert_int_eq(py_frame_stack(py, &s.f[1], got, 2, &sure), 2);
	ck_assert(got[0] == one && got[2] == 77);
	build_free(b);
}

START_TEST(value_stack_of_a_frame_that_waits)
{
	each_layout(stored_depth);
}
END_TEST

static void running_depth(const struct layout *l)
{
	struct build *b = build_new(l);
	addr_t t = build_thread(b, b->interp, IDENT, 100), stack[2] = { build_int(b, 1), build_str(b, "two") };
	/*
	 * Units 2 to 4 are covered with depth 2, unit 6 with depth 1 and the lasti flag (Objects/exception_handling_notes.txt;
	 * 0x80 marks an entry's start).
	 */
	static const uint8_t table[] = { 0x82, 3, 7, 2 << 1, 0x86, 1, 7, 1 << 1 | 1 };
	addr_t code = build_code(b, &(struct build_code){ .name = "f", .file = "f.py", .firstlineno = 1, .units = 8, .nlocals = 1, .stacksize = 4,
							  .exceptiontable = { table, sizeof table } });
	static const struct { int64_t lasti; int depth; } rows[] = { { 2, 0 }, { 4, 2 }, { 8, 2 }, { 10, 0 }, { 12, 1 }, { 14, 0 } };
	addr_t got[8];
	bool sure = true;

	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		addr_t frame = build_frame(b, t, &(struct build_frame){ .code = code, .lasti = rows[i].lasti, .stack = stack, .n_stack = 2, .executing = true });
		int want = rows[i].depth;
		if (layout_has(l, F_PyFrameObject_f_blockstack)) { /* the innermost of two blocks counts */
			addr_t blocks = build_field_at(b, frame, F_PyFrameObject_f_blockstack);
			WRITE(b, frame, PyFrameObject, f_iblock, want ? 2 : 0);
			WRITE(b, blocks, PyTryBlock, b_level, 0);
			WRITE(b, blocks + l->size[S_PyTryBlock], PyTryBlock, b_level, want);
		}
		struct py *py = build_py(b);
		struct seen s = walk_all(py);
		int n = py_frame_stack(py, &s.f[0], got, 8, &sure);
		ck_assert_msg(n == want && !sure, "%s: lasti %lld: %d", l->name, (long long)rows[i].lasti, n);
		ck_assert(n < 1 || got[0] == stack[0]);
		ck_assert(n < 2 || got[1] == stack[1]);
	}
	build_free(b);
}

START_TEST(value_stack_of_a_frame_that_runs)
{
	each_layout(running_depth);
}
END_TEST

static void nonsense_depth(const struct layout *l)
{
	struct build *b = build_new(l);
	addr_t t = build_thread(b, b->interp, IDENT, 100), got[8];
	addr_t frame = build_frame(b, t, &(struct build_frame){ .code = work(b, "f"), .lasti = 4, .executing = true });
	bool sure;

	/* Deeper than the code's co_stacksize, whatever says so. */
	if (layout_has(l, F_PyFrame_stacktop))
		WRITE(b, frame, PyFrame, stacktop, 100);
	else if (layout_has(l, F_PyFrame_stackpointer))
		WRITE(b, frame, PyFrame, stackpointer, frame + 0x10000 * 8);
	else
		WRITE(b, frame, PyFrameObject, f_iblock, 21);
	struct py *py = build_py(b);
	struct seen s = walk_all(py);
	int n = py_frame_stack(py, &s.f[0], got, 8, &sure);
	ck_assert_msg(n == ERR_CORRUPT, "%s: %d", l->name, n);
	build_free(b);
}

START_TEST(value_stack_that_cannot_be)
{
	each_layout(nonsense_depth);
}
END_TEST

/* 3.14: 3 in the low bits is an int of the interpreter's own and no object; 1 alone is NULL. */
static void tagged(const struct layout *l)
{
	if (l->trait[T_stackref] == STACKREF_PLAIN)
		return;
	struct build *b = build_new(l);
	addr_t t = build_thread(b, b->interp, IDENT, 100), stack[3] = { build_int(b, 1), build_int(b, 2), build_int(b, 3) }, got[8];
	addr_t frame = build_frame(b, t, &(struct build_frame){ .code = work(b, "f"), .lasti = 4, .stack = stack, .n_stack = 3 });
	addr_t base = build_field_at(b, frame, F_PyFrame_localsplus) + l->abi.width; /* one local */
	build_ptr(b, base, stack[0] | 1);
	build_ptr(b, base + l->abi.width, 42 << 2 | 3);
	build_ptr(b, base + 2 * (addr_t)l->abi.width, 1);
	struct py *py = build_py(b);
	struct seen s = walk_all(py);
	bool sure;
	ck_assert_int_eq(py_frame_stack(py, &s.f[0], got, 8, &sure), 3);
	ck_assert(got[0] == stack[0] && got[1] == 0 && got[2] == 0);
	build_free(b);
}

START_TEST(tagged_values)
{
	each_layout(tagged);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("frame");
	TCase *tc = tcase_create("frame");
	tcase_set_timeout(tc, 120);
	tcase_add_test(tc, frames_of_every_shape);
	tcase_add_test(tc, chains_end_where_a_run_began);
	tcase_add_test(tc, damaged_owners_hide_no_frame);
	tcase_add_test(tc, c_frames_bear_witness);
	tcase_add_test(tc, calls_that_are_being_entered);
	tcase_add_test(tc, healthy_threads);
	tcase_add_test(tc, frames_on_their_stack);
	tcase_add_test(tc, loops_end_and_are_said);
	tcase_add_test(tc, holes_and_nonsense_end_a_walk);
	tcase_add_test(tc, deep_stacks_are_linear);
	tcase_add_test(tc, value_stack_of_a_frame_that_waits);
	tcase_add_test(tc, value_stack_of_a_frame_that_runs);
	tcase_add_test(tc, value_stack_that_cannot_be);
	tcase_add_test(tc, tagged_values);
	suite_add_tcase(s, tc);
	return suite_run(s);
}
