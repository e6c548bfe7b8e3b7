/* The collector under every built-in layout: its lists whole, broken, endless; objects whose type is none. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "build_elf.h"
#include "build_py.h"
#include "every_layout.h"
#include "python/collector.h"
#include "suite.h"

static bool free_threaded(const struct layout *l)
{
	return layout_has(l, F_PyObject_ob_tid);
}

/* An object behind a PyGC_Head. */
static addr_t tracked(struct build *b, addr_t type)
{
	addr_t head = build_alloc(b, b->layout.size[S_PyGCHead] + 64);
	addr_t o = head + b->layout.size[S_PyGCHead];
	WRITE(b, o, PyObject, ob_type, type);
	return o;
}

static addr_t head_of(const struct build *b, addr_t object)
{
	return object - b->layout.size[S_PyGCHead];
}

/* A list of these; flags in the links, as from 3.8 on. */
static void link_all(struct build *b, addr_t head, const addr_t *objects, size_t n, bool looked_at)
{
	addr_t at = head;
	uint64_t flag = TRAIT(b, gc_collecting) > 0 ? (uint64_t)TRAIT(b, gc_collecting) : 0;
	for (size_t i = 0; i < n; i++) {
		WRITE(b, at, PyGCHead, next, head_of(b, objects[i]) | (i && flag ? 1 : 0));
		WRITE(b, head_of(b, objects[i]), PyGCHead, prev, at | (looked_at ? flag : 0));
		at = head_of(b, objects[i]);
	}
	WRITE(b, at, PyGCHead, next, head);
	WRITE(b, head, PyGCHead, prev, at);
}

/* The heads of an interpreter's generations, made where this version keeps them; 0 where it has none by its structs. */
static addr_t state_of(struct build *b)
{
	return layout_has(&b->layout, F_PyInterp_gc) ? build_field_at(b, b->interp, F_PyInterp_gc)
		: layout_has(&b->layout, F_PyRuntime_gc) ? build_field_at(b, b->runtime, F_PyRuntime_gc) : 0;
}

static void lists(const struct layout *l)
{
	struct build *b = build_new(l);
	struct py_collector c;
	addr_t state = state_of(b), type = build_type(b, "Node", O_OTHER, true);
	if (!state) {
		/* Up to 3.6 they are static variables, found by name: tests/live/crashes.py. */
		ck_assert_int_eq(py_collector_find(build_py(b), b->interp, &c), ERR_ABSENT);
		build_free(b);
		return;
	}
	addr_t first = build_alloc(b, 4 * l->size[S_PyGCGeneration]);
	WRITE_IF(b, state, PyGC, generation0, first);
	WRITE_IF(b, state, PyGC, collecting, 1);
	addr_t objects[] = { tracked(b, type), tracked(b, type), tracked(b, type) };
	link_all(b, first, NULL, 0, false);
	link_all(b, first + l->size[S_PyGCGeneration], objects, 3, true);
	struct py *py = build_py(b);
	ck_assert_int_eq(py_collector_find(py, b->interp, &c), 0);
	ck_assert_uint_eq(c.state, state);
	ck_assert(c.known && c.collecting);
	if (free_threaded(l)) {
		ck_assert_uint_eq(c.list[0], 0);
		build_free(b);
		return;
	}
	ck_assert_uint_eq(c.list[0], first);
	MUST(c.list[3] == build_field_at(b, state, F_PyGC_permanent), "%s: what is never looked at", l->name);
	struct collected o;
	struct collector_walk w = collector_list(py, c.list[0]);
	ck_assert_int_eq(collector_next(&w, &o), 0);
	ck_assert_int_eq(collector_next(&w, &o), 0);
	w = collector_list(py, c.list[1]);
	for (size_t i = 0; i < 3; i++) {
		MUST(collector_next(&w, &o) == 1 && o.object == objects[i], "%s: object %zu", l->name, i);
		ck_assert_int_eq(o.looked_at, TRAIT(b, gc_collecting) > 0);
	}
	ck_assert_int_eq(collector_next(&w, &o), 0);
	w = collector_list(py, 0);
	ck_assert_int_eq(collector_next(&w, &o), 0);

	/* It leads to nothing, to what is not aligned, into itself. */
	const struct { addr_t to; int rc; } wrong[] = { { 0x4242424242424240, ERR_FAULT }, { head_of(b, objects[0]) + 4, l->abi.width == 4 ? 1 : ERR_CORRUPT }, { head_of(b, objects[1]), ERR_CORRUPT } };
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		int rc;
		unsigned n = 0;
		WRITE(b, head_of(b, objects[1]), PyGCHead, next, wrong[i].to);
		py = build_py(b);
		w = collector_list(py, c.list[1]);
		while ((rc = collector_next(&w, &o)) > 0 && n < 100)
			n++;
		if (wrong[i].rc < 0)
			MUST(rc == wrong[i].rc, "%s: wrong link %zu: %d", l->name, i, rc);
		ck_assert_uint_lt(n, 100);
		ck_assert_int_eq(collector_next(&w, &o), 0);
	}
	build_lose(b, state, l->size[S_PyGC]);
	ck_assert_int_eq(py_collector_find(build_py(b), b->interp, &c), 0);
	ck_assert(!c.known);
	build_free(b);
}

static void types(const struct layout *l)
{
	struct build *b = build_new(l);
	addr_t type = build_type(b, "Node", O_OTHER, true), bad;
	addr_t good = tracked(b, type), wild = tracked(b, l->abi.width == 8 ? 0x4141414141414140 : 0x41414140), no_type = tracked(b, 0), odd = tracked(b, type + 1);
	addr_t other = tracked(b, good), lost_type = build_type(b, "Lost", O_OTHER, true), lost = tracked(b, lost_type);
	struct collector_types seen = { 0 };
	build_lose(b, lost_type, l->size[S_PyHeapType]);
	struct py *py = build_py(b);
	image_add_lost(py->img, lost_type, lost_type + l->size[S_PyHeapType]); /* as a core that is cut off says */
	for (unsigned again = 0; again < 2; again++) {
		ck_assert_int_eq(collector_bad_type(py, &seen, good, &bad), 0);
		MUST(collector_bad_type(py, &seen, wild, &bad) == 1 && bad == build_field_get(b, wild, F_PyObject_ob_type), "%s: a wild type", l->name);
		ck_assert_int_eq(collector_bad_type(py, &seen, no_type, &bad), 1);
		ck_assert_uint_eq(bad, 0);
		ck_assert_int_eq(collector_bad_type(py, &seen, odd, &bad), 1);
		ck_assert_int_eq(collector_bad_type(py, &seen, other, &bad), 1);
		/* A type that is only not captured is not to blame. */
		ck_assert_int_eq(collector_bad_type(py, &seen, lost, &bad), 0);
		ck_assert_int_eq(collector_bad_type(py, &seen, 0x7000, &bad), ERR_FAULT);
	}
	build_free(b);
}

static void (*const cases[])(const struct layout *l) = { lists, types };

START_TEST(collector)
{
	each_layout(cases[_i]);
}
END_TEST

/* PyGC_Collect as gcc makes it (Debian's 2.7), cut to what counts.  D is the distance that stands in its code. */
#define BYTES(s) s, sizeof(s) - 1
#define D "\x10\x00\x00\x00"
#define ONE "\x01\x00\x00\x00"
#define NONE "\x00\x00\x00\x00"
static const struct { const char *abi, *code; size_t n; bool found; uint64_t at; /* from the code's start */ } codes[] = {
	{ "x86_64", BYTES("\x41\x54\x83\x3d" D "\x00\xc7\x05\x06\x00\x00\x00" ONE "\xe8" D "\xc7\x05\xf7\xff\xff\xff" NONE "\xc3"), true, 9 + 0x10 },
	{ "i386", BYTES("\x56\x53\xe8" D "\x81\xc3\x00\x10\x00\x00\x83\xbb" D "\x00\xc7\x83" D ONE "\xc7\x83" D NONE "\xc3"), true, 7 + 0x1000 + 0x10 },
	{ "i386", BYTES("\x56\xe8" D "\x81\xc6\x00\x10\x00\x00\x83\xbe" D "\x00\xc7\x86" D ONE "\xc7\x86" D NONE "\xc3"), true, 6 + 0x1000 + 0x10 },
	/* never set back, set before it is asked for, another variable, another register, cut off */
	{ "x86_64", BYTES("\x41\x54\x83\x3d" D "\x00\xc7\x05\x06\x00\x00\x00" ONE "\xe8" D "\xc3\x90\x90\x90\x90\x90\x90\x90\x90\x90\x90"), false, 0 },
	{ "x86_64", BYTES("\xc7\x05" D ONE "\x83\x3d\x09\x00\x00\x00\x00\xc7\x05\xff\xff\xff\xff" NONE "\xc3"), false, 0 },
	{ "x86_64", BYTES("\x41\x54\x83\x3d" D "\x00\xc7\x05\x0a\x00\x00\x00" ONE "\xe8" D "\xc7\x05\xfb\xff\xff\xff" NONE "\xc3"), false, 0 },
	{ "i386", BYTES("\x56\x53\xe8" D "\x81\xc3\x00\x10\x00\x00\x83\xbb" D "\x00\xc7\x86" D ONE "\xc7\x86" D NONE "\xc3"), false, 0 },
	{ "x86_64", BYTES("\x41\x54\x83\x3d" D "\x00\xc7\x05\x06\x00\x00\x00" ONE), false, 0 },
	{ "aarch64", BYTES("\x41\x54\x83\x3d" D "\x00\xc7\x05\x06\x00\x00\x00" ONE "\xe8" D "\xc7\x05\xf7\xff\xff\xff" NONE "\xc3"), false, 0 },
};

START_TEST(at_work)
{
	enum { CODE = 0x401000 };
	__auto_type c = &codes[_i];
	struct build_elf *e = build_elf_new(c->abi);
	build_elf_thread(e, 100, CODE, 0x30000);
	build_elf_load(e, CODE, c->code, c->n, 5);
	struct image *img = build_elf_open(e);
	struct py py = { .img = img };
	py.layout.abi = *image_abi(img);
	addr_t at = 0;
	ck_assert_int_eq(collector_at_work(&py, CODE, &at), c->found ? 0 : ERR_ABSENT);
	ck_assert_uint_eq(at, c->found ? CODE + c->at : 0);
	image_close(img);
	build_elf_free(e);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("collector");
	TCase *tc = tcase_create("collector");
	tcase_set_timeout(tc, 60);
	tcase_add_loop_test(tc, at_work, 0, COUNT(codes));
	tcase_add_loop_test(tc, collector, 0, COUNT(cases));
	suite_add_tcase(s, tc);
	return suite_run(s);
}
