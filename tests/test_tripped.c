/* Which object's traversal led to where the collector crashed: by what is in registers and on the stack, else by its lists, under every layout. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "build_py.h"
#include "every_layout.h"
#include "inspect/fault.h"
#include "inspect/tripped.h"
#include "suite.h"

#define WILD UINT64_C(0x66600000)
enum { NOWHERE = 0x1000 /* no stack is there */, STACK = 1024 /* words */ };

struct scene { struct build *b; struct py_collector c; addr_t word[4], sp, list[2]; };

static bool free_threaded(const struct layout *l)
{
	return layout_has(l, F_PyObject_ob_gc_bits);
}

static addr_t head_of(const struct build *b, addr_t object)
{
	return object - b->layout.size[S_PyGCHead];
}

/* The collector's second list has these; of free-threaded builds they have a bit that says so. */
static void track(struct scene *s, size_t n)
{
	struct build *b = s->b;
	for (size_t i = 0; i < n; i++)
		WRITE_IF(b, s->list[i], PyObject, ob_gc_bits, 1);
	if (free_threaded(&b->layout))
		return;
	for (int i = 0; i < 3; i++) {
		s->c.list[i] = build_alloc(b, b->layout.size[S_PyGCHead]);
		WRITE(b, s->c.list[i], PyGCHead, next, s->c.list[i]);
	}
	addr_t at = s->c.list[1];
	for (size_t i = 0; i < n; at = head_of(b, s->list[i++]))
		WRITE(b, at, PyGCHead, next, head_of(b, s->list[i]));
	WRITE(b, at, PyGCHead, next, s->c.list[1]);
}

/* Two lists, whose second items are no objects. */
static struct scene scene_new(const struct layout *l, size_t n_tracked)
{
	struct scene s = { .b = build_new(l), .sp = NOWHERE };
	const addr_t one = build_int(s.b, 1), items[] = { one, one, one };
	for (size_t i = 0; i < 2; i++) {
		s.list[i] = build_list(s.b, items, 3);
		WRITE(s.b, s.list[i], PyList, allocated, 3);
		WRITE_IF(s.b, s.list[i], PyObject, ob_refcnt, 1);
		build_ptr(s.b, build_field_get(s.b, s.list[i], F_PyList_ob_item) + l->abi.width, WILD);
	}
	track(&s, n_tracked);
	return s;
}

/* want: the index of the list; -1: none is found. */
static void expect(struct scene *s, const char *what, int want, bool sure)
{
	struct py *py = build_py(s->b);
	struct target t = { .img = py->img, .py = py, .arena = s->b->arena };
	const struct report_thread th = { .tid = 1 };
	const struct fault f = { .at_known = true, .at = WILD + (addr_t)s->b->layout.offset[F_PyObject_ob_type] };
	struct regs regs = { .pc = 0x2000, .sp = s->sp };
	struct tripped got = { 0 };
	for (unsigned i = 0; i < 4; i++) {
		regs.value[i] = s->word[i];
		regs.known |= (uint64_t)(s->word[i] != 0) << i;
	}
	const int rc = tripped_find(&t, &th, &regs, &f, &s->c, s->b->arena, &got);
	MUST(rc == (want >= 0), "%s: %s: %d", s->b->layout.name, what, rc);
	if (rc)
		MUST(got.object == s->list[want] && got.sure == sure && got.what.how == TRAVERSED_ITEM && str_is(got.what.field, "ob_item[1]") && got.what.value == WILD,
		     "%s: %s: 0x%llx, %s, " STR_FMT, s->b->layout.name, what, (unsigned long long)got.object, got.sure ? "sure" : "likely", STR_ARG(got.what.field));
}

static void at_hand(const struct layout *l)
{
	struct scene s = scene_new(l, 2);
	s.word[1] = s.list[1];
	expect(&s, "in a register", 1, true);
	s.word[1] = head_of(s.b, s.list[1]);
	expect(&s, "what stands before it", 1, true);
	s.word[2] = s.list[1];
	expect(&s, "both", 1, true);
	s.word[3] = s.list[0];
	expect(&s, "two objects", 1, false);
	build_free(s.b);

	/* On the stack, as far as functions of the collector's may have it. */
	s = scene_new(l, 2);
	memset(&s.c, 0, sizeof s.c); /* so that no list tells */
	s.sp = build_alloc(s.b, STACK * l->abi.width);
	const addr_t near = s.sp + 100 * l->abi.width, far = s.sp + 600 * l->abi.width;
	build_ptr(s.b, far, s.list[0]);
	expect(&s, "far up the stack", -1, false);
	build_ptr(s.b, near, s.list[1]);
	expect(&s, "on the stack", 1, true);
	build_free(s.b);
}

/* What only looks like an object. */
static void lookalikes(const struct layout *l)
{
	struct scene s = scene_new(l, 0);
	s.word[0] = s.list[0];
	if (!free_threaded(l))
		WRITE(s.b, head_of(s.b, s.list[0]), PyGCHead, next, build_alloc(s.b, 256));
	expect(&s, "what follows is no object", -1, false);
	build_free(s.b);
	if (free_threaded(l))
		return;
	s = scene_new(l, 2);
	s.word[0] = s.list[1];
	memset(&s.c, 0, sizeof s.c);
	WRITE(s.b, head_of(s.b, s.list[1]), PyGCHead, next, head_of(s.b, s.list[0]));
	expect(&s, "an object follows", 1, true);
	WRITE(s.b, s.list[1], PyObject, ob_refcnt, 0x9e3779b9);
	expect(&s, "a hash where the count is", -1, false);
	WRITE(s.b, s.list[1], PyObject, ob_refcnt, 0);
	expect(&s, "nothing refers to it", -1, false);
	build_free(s.b);
}

/* Nothing leads to it but the lists: the first of them would have stopped it, unless what leads to its field says that it is another. */
static void by_lists(const struct layout *l)
{
	struct scene s = scene_new(l, 2);
	if (!free_threaded(l)) {
		expect(&s, "nothing at hand", 0, false);
		s.word[0] = build_field_get(s.b, s.list[1], F_PyList_ob_item) + 2 * l->abi.width;
		expect(&s, "where the next item is", 1, true);
	} else {
		expect(&s, "there are no lists", -1, false);
	}
	build_free(s.b);
}

static void (*const cases[])(const struct layout *l) = { at_hand, lookalikes, by_lists };

START_TEST(tripped)
{
	each_layout(cases[_i]);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("tripped");
	TCase *tc = tcase_create("tripped");
	tcase_set_timeout(tc, 60);
	tcase_add_loop_test(tc, tripped, 0, COUNT(cases));
	suite_add_tcase(s, tc);
	return suite_run(s);
}
