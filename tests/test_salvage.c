/*
 * What is found in a core whose runtime, types and main interpreter are cut off: under every built-in layout the true
 * stacks, and none where anything contradicts.
 */
#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "build_py.h"
#include "every_layout.h"
#include "python/salvage.h"
#include "suite.h"

#define IDENT BUILD_IDENT(s.b)
enum { THREADS = 4, DEEP = 5 };

/* The main thread (3.11 on: inside its interpreter) and three more, each DEEP frames, the innermost at instruction 2 * its number. */
struct some {
	struct build *b;
	addr_t thread[THREADS], code[DEEP], frame[THREADS][DEEP], cut;
};

static struct some some_threads(const struct layout *l)
{
	struct some s = { .b = build_new(l) };
	s.cut = s.b->heap.base + s.b->heap.n; /* what was built so far */
	for (int i = 0; i < DEEP; i++) {
		char name[16];
		snprintf(name, sizeof name, "level_%d", i);
		s.code[i] = build_code(s.b, &(struct build_code){ .name = name, .file = "/a/b.py", .firstlineno = 100 * i + 1, .units = 8, .stacksize = 4 });
	}
	for (int i = 0; i < THREADS; i++) {
		s.thread[i] = build_thread(s.b, s.b->interp, IDENT + 0x1000 * (uint64_t)i, 100 + i);
		build_frame(s.b, s.thread[i], &(struct build_frame){ .shim = true });
		for (int k = 0; k < DEEP; k++)
			s.frame[i][k] = build_frame(s.b, s.thread[i], &(struct build_frame){ .code = s.code[k], .lasti = k == DEEP - 1 ? 2 * i : 4, .entry = k == 0 });
	}
	build_settle(s.b);
	return s;
}

/* libpython's data is cut off. */
static void cut_off(struct some *s)
{
	build_lose(s->b, s->b->heap.base, s->cut - s->b->heap.base);
}

static struct image *image_of(struct some *s, const char *path)
{
	struct image *img = build_image(s->b);
	struct image_facts *f = image_facts_mut(img);
	for (size_t i = 0; i < s->b->lost.n; i++)
		image_add_lost(img, s->b->lost.p[i].start, s->b->lost.p[i].end);
	f->truncated = true;
	if (path)
		*image_add_mapping(img) = (struct mapping){ .start = s->b->heap.base, .end = (s->cut + 4095) & ~(addr_t)4095,
							    .path = { (const uint8_t *)path, strlen(path) } };
	image_settle(img);
	return img;
}

static const char *path_of(const struct layout *l)
{
	static char path[64];
	snprintf(path, sizeof path, "/usr/lib/libpython%u.%u.so.1.0", l->version >> 24, l->version >> 16 & 255);
	return path;
}

/* Thread i is shown with so many frames, innermost first and true. */
static void check_stack(const struct py *py, const struct some *s, const struct py_thread *t, int frames)
{
	int i = 0;
	while (i < THREADS && s->thread[i] != t->addr)
		i++;
	MUST(i < THREADS, "%s: 0x%llx is no thread state", py->layout.name, (unsigned long long)t->addr);
	ck_assert_int_eq(t->tid, 100 + i);
	struct walk w = py_frames(py, t->frame);
	struct py_frame f;
	int rc = 0, k = DEEP, shown = 0;
	while ((rc = py_next_frame(&w, &f)) == 1) {
		if (f.shim)
			continue;
		struct py_code code;
		struct position at;
		char name[16];
		k--;
		shown++;
		MUST(k >= 0 && f.addr == s->frame[i][k] && f.code == s->code[k], "%s: thread %d, frame %d", py->layout.name, i, k);
		snprintf(name, sizeof name, "level_%d", k);
		ck_assert_int_eq(py_code_read(py, f.code, py->img ? s->b->arena : NULL, &code), 0);
		MUST(str_is(code.name, name) && str_is(code.file, "/a/b.py"), "%s: thread %d, frame %d: names", py->layout.name, i, k);
		ck_assert_int_eq(py_code_position(py, f.code, f.lasti, &at), 0);
		MUST(at.line == 100 * k + 1 + (k == DEEP - 1 ? i : 2), "%s: thread %d, frame %d: line %d", py->layout.name, i, k, at.line);
	}
	MUST(shown == frames, "%s: thread %d has %d frames", py->layout.name, i, shown);
	ck_assert_int_eq(rc, frames == DEEP ? 0 : ERR_FAULT);
}

/* Opens, and checks that exactly the threads of the mask are shown; whole: with all frames. */
static struct py *expect(struct some *s, struct image *img, unsigned mask, bool whole)
{
	struct py *py = NULL;
	struct err err = { 0 };
	int rc = py_open(img, NULL, NULL, s->b->arena, &py, &err);
	MUST(rc == 0, "%s: %s: %s", s->b->layout.name, err.msg, err.why);
	MUST(py->salvaged && !strcmp(py->found_by, "salvage") && !py->runtime, "%s: found by %s", s->b->layout.name, py->found_by);
	struct py *none = NULL; /* named by an address it is not: there is none to say */
	rc = py_open(img, NULL, &(struct py_options){ .only_runtime = 0x1000 }, s->b->arena, &none, &err);
	MUST(rc == ERR_NOPYTHON && !none && str_starts(str_of(err.why), "without it thread states of Python "), "%s: %d: %s", s->b->layout.name, rc, err.why);
	struct walk w = py_interps(py);
	struct py_interp in;
	unsigned seen = 0, n = 0;
	while (py_next_interp(&w, &in) == 1) {
		ck_assert(in.addr == s->b->interp && !in.gil_known);
		struct walk tw = py_threads(py, &in);
		struct py_thread t;
		int last = THREADS;
		while (py_next_thread(&tw, &t) == 1) {
			int i = 0;
			while (i < THREADS && s->thread[i] != t.addr)
				i++;
			/* The newest first, as lists have them; up to 3.6 nothing in a thread state tells its age. */
			MUST(i < THREADS && (i < last || !HAS(py, PyThread, id)), "%s: thread %d after %d", s->b->layout.name, i, last);
			last = i;
			seen |= 1u << i;
			if (whole)
				check_stack(py, s, &t, DEEP);
		}
		n++;
	}
	ck_assert_uint_eq(n, 1);
	MUST(seen == mask, "%s: threads 0x%x, not 0x%x", s->b->layout.name, seen, mask);
	return py;
}

/* Does the main thread's state lie in what is cut off? */
static unsigned survivors(const struct some *s)
{
	return s->thread[0] < s->cut ? 0xe : 0xf;
}

static void nothing(struct some *s, struct image *img)
{
	struct py *py = NULL;
	struct err err = { 0 };
	int rc = py_open(img, NULL, NULL, s->b->arena, &py, &err);
	MUST(rc < 0 && !py, "%s: found by %s", s->b->layout.name, py ? py->found_by : "");
	ck_assert_str_ne(err.msg, "");
}

static void runtime_cut(const struct layout *l)
{
	struct some s = some_threads(l);
	cut_off(&s);
	struct py *py = expect(&s, image_of(&s, path_of(l)), survivors(&s), true);
	ck_assert_uint_eq(py->version >> 16, l->version >> 16);
	ck_assert(!py->version_exact && py->layout.version >> 16 == l->version >> 16);
	/* Also when nothing tells the version: by what fits, if that is one. */
	struct err err = { 0 };
	py = NULL;
	if (py_open(image_of(&s, NULL), NULL, NULL, s.b->arena, &py, &err) == 0)
		expect(&s, image_of(&s, NULL), survivors(&s), true);
	else
		MUST(strstr(err.why, "could both be there"), "%s: %s: %s", l->name, err.msg, err.why);
	build_free(s.b);
}

START_TEST(the_runtime_is_cut_off)
{
	each_layout(runtime_cut);
}
END_TEST

/* A path that lies: no table of another minor version is believed. */
static void other_version(const struct layout *l)
{
	struct some s = some_threads(l);
	cut_off(&s);
	nothing(&s, image_of(&s, "/usr/lib/libpython3.99.so.1.0"));
	build_free(s.b);
}

START_TEST(another_version_is_not_tried)
{
	each_layout(other_version);
}
END_TEST

/* Memory that nobody cut: an unfamiliar Python is not forced under a table. */
static void whole(const struct layout *l)
{
	struct some s = some_threads(l);
	struct salvage_try try = { *l, config_of(l) };
	struct known_version known = { 0 };
	struct py base = { .img = build_image(s.b) }, py;
	size_t which;
	char why[160];
	py_index_threads(&base, s.b->arena);
	ck_assert_int_eq(py_salvage(&base, &try, 1, &known, s.b->arena, &py, &which, why, sizeof why), ERR_ABSENT);
	cut_off(&s);
	base.img = image_of(&s, NULL);
	ck_assert_int_eq(py_salvage(&base, &try, 1, &known, s.b->arena, &py, &which, why, sizeof why), 0);
	ck_assert(which == 0 && py.types.code == s.b->types.code && py.n_salvaged >= THREADS - 1);
	/* Two tables under both of which all fits, but with other names. */
	if (layout_has(l, F_PyCode_co_qualname)) {
		struct salvage_try two[2] = { try, try };
		int32_t *o = two[1].layout.offset;
		o[F_PyCode_co_name] = o[F_PyCode_co_filename];
		ck_assert_int_eq(py_salvage(&base, two, 1, &known, s.b->arena, &py, &which, why, sizeof why), 0);
		ck_assert_int_eq(py_salvage(&base, two, 2, &known, s.b->arena, &py, &which, why, sizeof why), ERR_CORRUPT);
		ck_assert(strstr(why, "could both be there") != NULL);
		/* And under both of which the same comes out. */
		two[1] = try;
		ck_assert_int_eq(py_salvage(&base, two, 2, &known, s.b->arena, &py, &which, why, sizeof why), 0);
		ck_assert_uint_eq(which, 0);
		two[0].config = "some-machine-d"; /* builds that cannot be told apart: the ordinary one is named */
		ck_assert_int_eq(py_salvage(&base, two, 2, &known, s.b->arena, &py, &which, why, sizeof why), 0);
		ck_assert_uint_eq(which, 1);
	}
	build_free(s.b);
}

START_TEST(only_where_memory_was_cut_and_one_table_fits)
{
	each_layout(whole);
}
END_TEST

/* One thing that contradicts takes away that thread, and only that. */
static void contradictions(const struct layout *l)
{
	for (int what = 0; what < 7; what++) {
		struct some s = some_threads(l);
		struct build *b = s.b;
		addr_t top = s.frame[2][DEEP - 1], middle = s.frame[2][2];
		bool frames = layout_has(l, F_PyFrame_previous), linked = layout_has(l, F_PyThread_prev);
		unsigned gone = 1u << 2;
		switch (what) {
		case 0: /* its innermost frame is none */
			if (frames)
				WRITE(b, top, PyFrame, code, build_ref(b, build_int(b, 5)));
			else
				WRITE(b, top, PyFrameObject, f_code, build_int(b, 5));
			break;
		case 1: /* nor is one in the middle */
			if (frames)
				WRITE(b, middle, PyFrame, previous, b->heap.base + b->heap.n + 0x100000);
			else
				WRITE(b, middle, PyFrameObject, f_back, b->heap.base + b->heap.n + 0x100000);
			break;
		case 2: /* the chain loops */
			build_ptr(b, build_frame_back(b, middle), top);
			break;
		case 3: /* neighbours do not link back: what it says of itself is not known to be alive */
			if (!linked)
				break;
			WRITE(b, s.thread[2], PyThread, next, s.code[0]);
			gone = 1u << 2;
			break;
		case 4: /* another interpreter than its neighbours' */
			WRITE(b, s.thread[2], PyThread, interp, s.thread[1]);
			gone = linked ? 0xe : 0xc; /* its neighbours are not believed either */
			break;
		case 5: /* the instruction is outside of the code */
			if (layout_has(l, F_PyFrame_instr_ptr))
				WRITE(b, top, PyFrame, instr_ptr, build_field_get(b, top, F_PyFrame_instr_ptr) + 0x1000);
			else if (layout_has(l, F_PyFrame_prev_instr))
				WRITE(b, top, PyFrame, prev_instr, build_field_get(b, top, F_PyFrame_prev_instr) + 0x1000);
			else
				WRITE(b, top, PyFrameObject, f_lasti, 0x1000);
			break;
		case 6: /* the name of a function is no text */
			WRITE(b, s.code[2], PyCode, co_name, s.code[2]);
			gone = 0xf;
			break;
		}
		cut_off(&s);
		struct image *img = image_of(&s, path_of(l));
		if (what == 3 && !linked) {
			build_free(b);
			continue;
		}
		if (!(survivors(&s) & ~gone)) {
			nothing(&s, img);
		} else {
			struct py *py = NULL;
			struct err err = { 0 };
			/* Its neighbours' links to it may be what is wrong as well: only they may be missing too. */
			ck_assert_int_eq(py_open(img, NULL, NULL, b->arena, &py, &err), 0);
			for (size_t i = 0; i < py->n_salvaged; i++)
				MUST(py->salvaged_threads[i].thread != s.thread[2], "%s: case %d", l->name, what);
			if (what != 3)
				expect(&s, img, survivors(&s) & ~gone, true);
		}
		build_free(b);
	}
}

START_TEST(what_contradicts_is_not_shown)
{
	each_layout(contradictions);
}
END_TEST

/* A frame, or the code of one, that is cut off: younger ones are shown, and the walk says why it ends. */
static void older_cut(const struct layout *l)
{
	struct some s = some_threads(l);
	build_lose(s.b, s.frame[1][1], 64);
	build_lose(s.b, s.frame[3][DEEP - 1], 64);
	cut_off(&s);
	/* Where no link leads to it (2.7's list is linked one way), the newest is not believed without a frame. */
	unsigned newest = layout_has(l, F_PyThread_prev) ? 0 : 1u << 3;
	struct py *py = expect(&s, image_of(&s, path_of(l)), survivors(&s) & ~newest, false);
	struct walk w = py_interps(py);
	struct py_interp in;
	ck_assert_int_eq(py_next_interp(&w, &in), 1);
	struct walk tw = py_threads(py, &in);
	struct py_thread t;
	while (py_next_thread(&tw, &t) == 1)
		check_stack(py, &s, &t, t.addr == s.thread[1] ? DEEP - 2 : t.addr == s.thread[3] ? 0 : DEEP);
	build_free(s.b);
}

START_TEST(older_frames_are_cut_off)
{
	each_layout(older_cut);
}
END_TEST

/*
 * Code objects that are cut off: their frames stay, as those of no code, where they have the builtins of the chain.  One that stands for
 * None in the place of its function, which is data of a file, is the interpreter's own.
 */
static void code_cut(const struct layout *l)
{
	enum { INNERMOST = DEEP - 1, MIDDLE = 2, OTHER = 2 };
	enum { AS_IT_IS, ODD, OWN, WAYS };
	for (int way = 0; way < WAYS; way++) {
		struct some s = some_threads(l);
		const bool own = way == OWN && l->trait[T_owner_shim] != 255, odd = way == ODD;
		build_lose(s.b, s.code[INNERMOST], l->size[S_PyObject]);
		build_lose(s.b, s.code[MIDDLE], l->size[S_PyObject]);
		if (odd && layout_has(l, F_PyFrame_previous))
			WRITE(s.b, s.frame[OTHER][MIDDLE], PyFrame, builtins, s.b->builtins + 64);
		else if (odd)
			WRITE(s.b, s.frame[OTHER][MIDDLE], PyFrameObject, f_builtins, s.b->builtins + 64);
		for (int i = 0; i < THREADS && own; i++)
			WRITE(s.b, s.frame[i][MIDDLE], PyFrame, func, s.b->types.none);
		cut_off(&s);
		struct py *py = expect(&s, image_of(&s, path_of(l)), survivors(&s), false);
		struct walk w = py_interps(py);
		struct py_interp in;
		ck_assert_int_eq(py_next_interp(&w, &in), 1);
		struct walk tw = py_threads(py, &in);
		struct py_thread t;
		while (py_next_thread(&tw, &t) == 1) {
			int i = 0, k = DEEP, rc;
			while (s.thread[i] != t.addr)
				i++;
			struct walk fw = py_frames(py, t.frame);
			struct py_frame f;
			while ((rc = py_next_frame(&fw, &f)) == 1) {
				if (f.shim)
					continue;
				k -= own && k == MIDDLE + 1 ? 2 : 1;
				MUST(k >= 0 && f.addr == s.frame[i][k], "%s: thread %d, frame %d", l->name, i, k);
				const bool lost = k == INNERMOST || k == MIDDLE;
				MUST(lost ? f.no_code == ERR_FAULT && f.stands == s.code[k] && !f.code : f.code == s.code[k] && !f.no_code,
				     "%s: thread %d, frame %d: code", l->name, i, k);
			}
			const bool ends = odd && i == OTHER;
			MUST(k == (ends ? MIDDLE + 1 : 0) && rc == (ends ? ERR_FAULT : 0), "%s: thread %d ends after frame %d: %d", l->name, i, k, rc);
		}
		build_free(s.b);
	}
}

START_TEST(code_is_cut_off)
{
	each_layout(code_cut);
}
END_TEST

/* Two thread states for one thread in one interpreter: one is a leftover, and which cannot be told. */
static void doubled(const struct layout *l)
{
	struct some s = some_threads(l);
	WRITE(s.b, s.thread[3], PyThread, thread_id, IDENT + 0x1000);
	cut_off(&s);
	expect(&s, image_of(&s, path_of(l)), survivors(&s) & 0x5, true);
	build_free(s.b);
}

START_TEST(one_thread_in_two_states)
{
	each_layout(doubled);
}
END_TEST

/* Types that were not cut off are read as ever. */
static void types_left(const struct layout *l)
{
	struct some s = some_threads(l);
	build_lose(s.b, s.b->interp, l->size[S_PyInterp]);
	if (s.b->runtime)
		build_lose(s.b, s.b->runtime, l->size[S_PyRuntime]);
	expect(&s, image_of(&s, path_of(l)), survivors(&s), true);
	build_free(s.b);
}

START_TEST(types_are_left)
{
	each_layout(types_left);
}
END_TEST

/* Words replaced and pages lost at random: ends, and every thread that is shown was one. */
static void damage(const struct layout *l)
{
	uint64_t state = 88172645463325252u;
	unsigned opened = 0;
	/* Other builds and machines differ in where things are and in the widths of words: a few rounds show that. */
	const bool most = strcmp(config_of(l), "x86_64") == 0;
	const unsigned width = l->abi.width;
	for (int round = 0; round < (most ? 40 : 4); round++) {
		struct some s = some_threads(l);
		size_t n = draw(&state) % 20;
		for (size_t i = 0; i < n; i++) {
			addr_t at = s.cut + draw(&state) % (s.b->heap.base + s.b->heap.n - s.cut - 8) / width * width;
			uint64_t value = draw(&state) % 3 == 0 ? draw(&state) : s.b->heap.base + draw(&state) % s.b->heap.n / width * width;
			build_uint(s.b, at, width, value);
		}
		if (round % 3 == 0)
			build_lose(s.b, s.cut + draw(&state) % (s.b->heap.base + s.b->heap.n - s.cut), 256);
		cut_off(&s);
		struct py *py = NULL;
		struct err err = { 0 };
		if (py_open(image_of(&s, path_of(l)), NULL, NULL, s.b->arena, &py, &err) == 0) {
			opened++;
			struct walk w = py_interps(py);
			struct py_interp in;
			while (py_next_interp(&w, &in) == 1) {
				struct walk tw = py_threads(py, &in);
				struct py_thread t;
				while (py_next_thread(&tw, &t) == 1) {
					bool known = false;
					for (int i = 0; i < THREADS; i++)
						known |= t.addr == s.thread[i];
					MUST(known, "%s: round %d: 0x%llx", l->name, round, (unsigned long long)t.addr);
				}
			}
		}
		build_free(s.b);
	}
	MUST(!most || opened > 5, "%s: %u", l->name, opened);
}

START_TEST(damage_is_survived)
{
	each_layout(damage);
}
END_TEST

struct got { uint64_t first; unsigned n; bool right; };

static void got_name(void *arg, uint64_t ident, struct str name)
{
	struct got *g = arg;
	char want[32];
	snprintf(want, sizeof want, "na\xc3\xafve-%d", (int)((ident - g->first) / 0x1000));
	g->n++;
	g->right = g->right && str_is(name, want);
}

/* threading's names, out of the globals of one of its frames: neither sys.modules nor the types dict and int are there. */
static void names_of(const struct layout *l)
{
	for (int lost = 0; lost < 2; lost++) {
		struct some s = some_threads(l);
		struct build *b = s.b;
		addr_t code = build_code(b, &(struct build_code){ .name = "run", .file = "/usr/lib/threading.py", .firstlineno = 900, .units = 8, .stacksize = 4 });
		addr_t frame = build_frame(b, s.thread[1], &(struct build_frame){ .code = code, .lasti = 4 });
		for (int i = 0; i < THREADS; i++) {
			char name[32];
			snprintf(name, sizeof name, "na\xc3\xafve-%d", i);
			build_thread_name(b, b->interp, IDENT + 0x1000 * (uint64_t)i, name);
		}
		build_thread_name(b, b->interp, IDENT + 0x90000, "of nobody");
		if (layout_has(l, F_PyFrame_globals))
			build_field(b, frame, F_PyFrame_globals, b->threading);
		else
			build_field(b, frame, F_PyFrameObject_f_globals, b->threading);
		build_settle(b);
		cut_off(&s);
		if (lost) /* and their dictionary */
			build_lose(b, b->threading_active, 64);
		struct py *py = NULL;
		struct err err = { 0 };
		int rc = py_open(image_of(&s, path_of(l)), NULL, NULL, b->arena, &py, &err);
		MUST(rc == 0 && py->salvaged, "%s: %s: %s", l->name, err.msg, err.why);
		struct got got = { .first = IDENT, .right = true };
		rc = py_names_left(py, b->arena, got_name, &got);
		if (lost)
			MUST(rc < 0 && !got.n, "%s: %d", l->name, rc);
		else
			MUST(rc == (int)got.n && got.n == py->n_salvaged && got.n >= 3 && got.right, "%s: %d names, %zu threads", l->name, rc, py->n_salvaged);
		build_free(b);
	}
}

START_TEST(names_that_are_left)
{
	each_layout(names_of);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("salvage");
	TCase *t = tcase_create("salvage");
	tcase_set_timeout(t, 60);
	tcase_add_test(t, the_runtime_is_cut_off);
	tcase_add_test(t, names_that_are_left);
	tcase_add_test(t, another_version_is_not_tried);
	tcase_add_test(t, only_where_memory_was_cut_and_one_table_fits);
	tcase_add_test(t, what_contradicts_is_not_shown);
	tcase_add_test(t, older_frames_are_cut_off);
	tcase_add_test(t, code_is_cut_off);
	tcase_add_test(t, one_thread_in_two_states);
	tcase_add_test(t, types_are_left);
	tcase_add_test(t, damage_is_survived);
	suite_add_tcase(s, t);
	return suite_run(s);
}
