/*
 * Which thread runs a thread state whose ids name one that others name too, under every built-in layout of machines whose thread
 * pointer is the pthread_t.
 */
#include <check.h>
#include <stdlib.h>

#include "build_py.h"
#include "every_layout.h"
#include "suite.h"

enum { STACK = 0x4000, MOST = 8 };

/* Threads 100 and 101, whose stacks end at their control blocks; what is built later lies above. */
struct scene {
	struct build *b;
	addr_t code, sp[2], ident[2];
};

static struct scene scene_new(const struct layout *l)
{
	struct scene s = { .b = build_new(l) };
	const addr_t stacks = build_alloc(s.b, 2 * STACK);

	for (size_t i = 0; i < 2; i++) {
		s.sp[i] = stacks + i * STACK + 0x1000;
		s.ident[i] = stacks + (i + 1) * STACK - 0x100;
	}
	s.code = build_code(s.b, &(struct build_code){ .name = "work", .file = "/a/b.py", .firstlineno = 10, .units = 8, .nlocals = 1, .stacksize = 4 });
	return s;
}

static void scene_lwps(struct scene *s)
{
	for (size_t i = 0; i < 2; i++) {
		bool there = false;
		for (size_t k = 0; k < s->b->lwps.n; k++)
			there |= s->b->lwps.p[k].tid == 100 + (pid_t)i;
		if (!there)
			*vec_push(&s->b->lwps) = (struct thread){ .tid = 100 + (pid_t)i };
		build_lwp(s->b, 100 + (pid_t)i, s->sp[i], s->ident[i]);
	}
}

static void native(struct build *b, addr_t t, pid_t tid)
{
	if (layout_has(&b->layout, F_PyThread_native_thread_id))
		build_field(b, t, F_PyThread_native_thread_id, (uint64_t)tid);
}

/* As the evaluation loop keeps its frame. */
static void keeps(struct scene *s, size_t thread, addr_t frame, addr_t at)
{
	build_uint(s->b, s->sp[thread] + at, s->b->layout.abi.width, frame);
}

/* All states, the newest first. */
static size_t settle(struct build *b, struct py_thread *list)
{
	struct py *py = build_py(b);
	struct py_thread *all[MOST];
	struct py_interp in;
	size_t n = 0;

	for (struct walk w = py_interps(py); py_next_interp(&w, &in) == 1;)
		for (struct walk tw = py_threads(py, &in); n < MOST && py_next_thread(&tw, &list[n]) == 1; n++)
			all[n] = &list[n];
	py_find_runners(py, all, n);
	return n;
}

/* Of machines whose pthread_t is the thread pointer. */
static void each_such_layout(void (*f)(const struct layout *l))
{
	size_t n, done = 0;
	const struct layout *l = every_layout(&n);
	for (size_t i = 0; i < n; i++) {
		if (abi_tls_is_self(&l[i].abi)) {
			f(&l[i]);
			done++;
		}
	}
	ck_assert_uint_gt(done, 0);
}

/* A host's first thread makes the states in which others run. */
static void handed_over(const struct layout *l)
{
	struct scene s = scene_new(l);
	struct py_thread t[MOST];
	build_thread(s.b, s.b->interp, s.ident[0], 100);
	addr_t made = build_thread(s.b, s.b->interp, s.ident[0], 0), outer, inner;
	native(s.b, made, 100);
	outer = build_frame(s.b, made, &(struct build_frame){ .code = s.code, .lasti = 2 });
	inner = build_frame(s.b, made, &(struct build_frame){ .code = s.code, .lasti = 4 });
	scene_lwps(&s);
	keeps(&s, 1, outer, 0x800);
	keeps(&s, 1, inner, 0x200);
	ck_assert_uint_eq(settle(s.b, t), 2);
	ck_assert_msg(t[0].addr == made && t[0].tid == 101 && t[0].ident == s.ident[1] && t[0].sure && t[0].at == s.sp[1] + 0x200, "%s: %d", l->name, t[0].tid);
	ck_assert(t[1].tid == 100 && t[1].ident == s.ident[0] && !t[1].stale && !t[1].unsure);
	build_free(s.b);
}

START_TEST(states_that_were_handed_over)
{
	each_such_layout(handed_over);
}
END_TEST

/* Beneath the innermost run of frames lies a shim, on the stack of who evaluates it. */
static void shim_places(const struct layout *l)
{
	if (!layout_has(l, F_PyThread_current_frame))
		return;
	struct scene s = scene_new(l);
	struct py_thread t[MOST];
	build_thread(s.b, s.b->interp, s.ident[0], 100);
	addr_t made = build_thread(s.b, s.b->interp, s.ident[0], 0), frame, shim = s.sp[1] + 0x300;
	native(s.b, made, 100);
	frame = build_frame(s.b, made, &(struct build_frame){ .code = s.code, .lasti = 2 });
	const unsigned width = l->abi.width;
	const addr_t was = build_get(s.b, build_frame_back(s.b, frame), width);
	for (addr_t i = 0; i < l->size[S_PyFrame]; i++)
		build_uint(s.b, shim + i, 1, build_get(s.b, was + i, 1));
	build_uint(s.b, build_frame_back(s.b, frame), width, shim);
	scene_lwps(&s);
	ck_assert_uint_eq(settle(s.b, t), 2);
	ck_assert_msg(t[0].addr == made && t[0].tid == 101 && t[0].ident == s.ident[1] && !t[0].stale, "%s: %d", l->name, t[0].tid);
	build_free(s.b);
}

START_TEST(shims_lie_on_the_stack)
{
	each_such_layout(shim_places);
}
END_TEST

/* A thread that ended without its state: the next one has its pthread_t. */
static void used_again(const struct layout *l)
{
	struct scene s = scene_new(l);
	struct py_thread t[MOST];
	addr_t dead = build_thread(s.b, s.b->interp, s.ident[0], 0);
	native(s.b, dead, 77777);
	build_frame(s.b, dead, &(struct build_frame){ .code = s.code, .lasti = 2 });
	addr_t now = build_thread(s.b, s.b->interp, s.ident[0], 100), frame;
	frame = build_frame(s.b, now, &(struct build_frame){ .code = s.code, .lasti = 4 });
	scene_lwps(&s);
	keeps(&s, 0, frame, 0x400);
	ck_assert_uint_eq(settle(s.b, t), 2);
	ck_assert_msg(t[0].addr == now && t[0].tid == 100 && !t[0].stale && t[0].ident == s.ident[0], "%s: %d", l->name, t[0].tid);
	ck_assert_msg(t[1].addr == dead && t[1].stale && !t[1].tid && !t[1].ident, "%s: %d", l->name, t[1].tid);
	build_free(s.b);
}

START_TEST(ids_that_are_used_again)
{
	each_such_layout(used_again);
}
END_TEST

/* The id of another thread that is alive, and its own number. */
static void wrong_id(const struct layout *l)
{
	if (!layout_has(l, F_PyThread_native_thread_id))
		return;
	struct scene s = scene_new(l);
	struct py_thread t[MOST];
	build_frame(s.b, build_thread(s.b, s.b->interp, s.ident[0], 100), &(struct build_frame){ .code = s.code, .lasti = 2 });
	addr_t wrong = build_thread(s.b, s.b->interp, s.ident[0], 0);
	native(s.b, wrong, 101);
	build_frame(s.b, wrong, &(struct build_frame){ .code = s.code, .lasti = 2 });
	scene_lwps(&s);
	ck_assert_uint_eq(settle(s.b, t), 2);
	ck_assert_msg(t[0].addr == wrong && t[0].tid == 101 && t[0].ident == s.ident[1], "%s: %d", l->name, t[0].tid);
	ck_assert(t[1].tid == 100 && !t[1].stale);
	build_free(s.b);
}

START_TEST(a_number_against_an_id)
{
	each_such_layout(wrong_id);
}
END_TEST

/* What of a state's evaluation lies on the stack of the thread that runs it: a C frame, a shim, or only the frame's address. */
static void evaluates(struct scene *s, size_t thread, addr_t t, addr_t frame)
{
	const struct layout *l = &s->b->layout;
	const unsigned width = l->abi.width;
	const addr_t at = s->sp[thread] + 0x300;

	if (layout_has(l, F_PyThread_cframe)) {
		const addr_t was = build_field_get(s->b, t, F_PyThread_cframe);
		WRITE_IF(s->b, at, PyCFrame, current_frame, layout_has(l, F_PyCFrame_current_frame) ? frame : 0);
		WRITE_IF(s->b, at, PyCFrame, previous, was);
		WRITE(s->b, t, PyThread, cframe, at);
	} else if (layout_has(l, F_PyThread_current_frame)) {
		const addr_t was = build_get(s->b, build_frame_back(s->b, frame), width);
		for (addr_t i = 0; i < l->size[S_PyFrame]; i++)
			build_uint(s->b, at + i, 1, build_get(s->b, was + i, 1));
		build_uint(s->b, build_frame_back(s->b, frame), width, at);
	}
	keeps(s, thread, frame, 0x200);
}

/* Two run in each other's states: each id is claimed once, and wrong.  Where nothing lies on a stack, ids are taken at their word. */
static void crosswise(const struct layout *l)
{
	for (int told = 0; told < 2; told++) {
		struct scene s = scene_new(l);
		struct py_thread t[MOST];
		addr_t made[2];
		for (size_t i = 0; i < 2; i++) {
			made[i] = build_thread(s.b, s.b->interp, s.ident[i], 100 + (pid_t)i);
			const addr_t frame = build_frame(s.b, made[i], &(struct build_frame){ .code = s.code, .lasti = 2 });
			if (told)
				evaluates(&s, 1 - i, made[i], frame);
		}
		scene_lwps(&s);
		ck_assert_uint_eq(settle(s.b, t), 2);
		for (size_t i = 0; i < 2; i++) {
			const size_t runs = told ? 1 - i : i;
			ck_assert_msg(t[1 - i].addr == made[i] && t[1 - i].tid == 100 + (pid_t)runs && t[1 - i].ident == s.ident[runs] && !t[1 - i].stale, "%s: %d: %d",
				      l->name, told, t[1 - i].tid);
		}
		build_free(s.b);
	}
}

START_TEST(states_of_each_other)
{
	each_such_layout(crosswise);
}
END_TEST

/* Whoever made a state has ended, and another thread runs in it: one that runs in no other state. */
static void of_one_that_ended(const struct layout *l)
{
	for (int other = 0; other < 2; other++) {
		struct scene s = scene_new(l);
		struct py_thread t[MOST];
		const addr_t stacks = s.sp[0];
		addr_t dead = build_thread(s.b, s.b->interp, stacks + 0x100000, 0);
		evaluates(&s, 0, dead, build_frame(s.b, dead, &(struct build_frame){ .code = s.code, .lasti = 2 }));
		if (other) /* has a frame of its own, and what lies above its stack pointer may be left from the one that ended */
			build_frame(s.b, build_thread(s.b, s.b->interp, s.ident[0], 100), &(struct build_frame){ .code = s.code, .lasti = 4 });
		scene_lwps(&s);
		ck_assert_uint_eq(settle(s.b, t), other ? 2u : 1u);
		const struct py_thread *const gone = &t[other];
		if (!other)
			ck_assert_msg(gone->addr == dead && gone->tid == 100 && gone->ident == s.ident[0] && !gone->stale, "%s: %d", l->name, gone->tid);
		else if (layout_has(l, F_PyThread_current_frame))
			ck_assert_msg(gone->addr == dead && gone->stale && !gone->tid, "%s: %d", l->name, gone->tid);
		build_free(s.b);
	}
}

/* The stacks of two threads have its frames alike: that tells of neither. */
static void of_either(const struct layout *l)
{
	if (layout_has(l, F_PyThread_current_frame) || layout_has(l, F_PyThread_cframe)) /* where a place on the stack tells, no frame is looked for */
		return;
	for (int both = 0; both < 2; both++) {
		struct scene s = scene_new(l);
		struct py_thread t[MOST];
		addr_t dead = build_thread(s.b, s.b->interp, s.sp[0] + 0x100000, 0);
		const addr_t frame = build_frame(s.b, dead, &(struct build_frame){ .code = s.code, .lasti = 2 });
		keeps(&s, 1, frame, 0x200);
		if (both)
			keeps(&s, 0, frame, 0x400);
		scene_lwps(&s);
		ck_assert_uint_eq(settle(s.b, t), 1);
		ck_assert_msg(t[0].tid == (both ? 0 : 101) && t[0].stale == both, "%s: %d: %d", l->name, both, t[0].tid);
		build_free(s.b);
	}
}

START_TEST(states_of_the_dead)
{
	each_such_layout(of_one_that_ended);
	each_such_layout(of_either);
}
END_TEST

/* Two claim one thread, whose stack has neither: then nothing tells, and that is said. */
static void nothing_tells(const struct layout *l)
{
	if (layout_has(l, F_PyThread_native_thread_id))
		return;
	struct scene s = scene_new(l);
	struct py_thread t[MOST];
	for (int i = 0; i < 2; i++)
		build_frame(s.b, build_thread(s.b, s.b->interp, s.ident[0], i ? 0 : 100), &(struct build_frame){ .code = s.code, .lasti = 2 });
	scene_lwps(&s);
	ck_assert_uint_eq(settle(s.b, t), 2);
	for (int i = 0; i < 2; i++)
		ck_assert_msg(t[i].unsure && !t[i].sure && !t[i].stale && t[i].tid == 100, "%s: %d: %d", l->name, i, t[i].unsure);
	build_free(s.b);
}

START_TEST(where_nothing_tells)
{
	each_such_layout(nothing_tells);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("runner");
	TCase *tc = tcase_create("runner");
	tcase_set_timeout(tc, 120);
	tcase_add_test(tc, states_that_were_handed_over);
	tcase_add_test(tc, shims_lie_on_the_stack);
	tcase_add_test(tc, ids_that_are_used_again);
	tcase_add_test(tc, a_number_against_an_id);
	tcase_add_test(tc, states_of_each_other);
	tcase_add_test(tc, states_of_the_dead);
	tcase_add_test(tc, where_nothing_tells);
	suite_add_tcase(s, tc);
	return suite_run(s);
}
