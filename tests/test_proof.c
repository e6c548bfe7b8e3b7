/*
 * Proving a layout: which processes fit a table, which are refused and in what words, and what is told where there is only part of
 * an interpreter or of its memory.
 */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "build_py.h"
#include "every_layout.h"
#include "python/prove.h"
#include "suite.h"

#define IDENT BUILD_IDENT(b)

/* Under the table of a version, a process that says it is another minor version is refused, and the message names it. */
static void other_minor(const struct layout *l)
{
	addr_t threads[2];
	struct layout other = *l;
	struct err err = { 0 };
	struct py *py = NULL;

	if (layout_has(l, F_PyDebugOffsets_cookie))
		other.offset[F_PyDebugOffsets_cookie] = -1; /* the builder then writes none */
	other.version = (l->version & 0xff00ffffu) | 0x00500000 | 0x0700; /* 3.80.7, 2.80.7 */
	struct build *b = build_two_threads(&other, threads);
	int rc = py_open(build_image(b), NULL, &(struct py_options){ .hint_runtime = build_hint(b) }, b->arena, &py, &err);
	ck_assert_int_eq(rc, ERR_UNSUPPORTED);
	ck_assert_ptr_null(py);
	char want[64];
	snprintf(want, sizeof want, "no layout fits this Python %u.80.%u (tried: ", other.version >> 24, other.version >> 8 & 255);
	ck_assert_msg(!strncmp(err.msg, want, strlen(want)), "%s", err.msg);
	snprintf(want, sizeof want, ": sys.hexversion says %u.80.%u", other.version >> 24, other.version >> 8 & 255);
	ck_assert_msg(strstr(err.msg, want) != NULL, "%s", err.msg); /* in front of it the table, or one that fails alike */
	ck_assert_str_ne(err.hint, "");
	build_free(b);
}

START_TEST(another_minor_version_is_refused)
{
	each_layout(other_minor);
}
END_TEST

/* --layout FILE: what it says is used for whatever version the process is; a text that is no layout is refused as such. */
static void given(const struct layout *l)
{
	addr_t threads[2];
	struct layout other = *l;
	struct err err = { 0 };
	struct py *py = NULL;
	char *text = NULL;
	size_t len = 0;
	FILE *f = open_memstream(&text, &len);

	layout_print(l, config_of(l), f);
	fclose(f);
	other.version = (l->version & 0xff00ffffu) | 0x00500000;
	struct build *b = build_two_threads(&other, threads);
	py = build_open(b, build_image(b), &(struct py_options){ .layout_text = { text, len } });
	ck_assert(py->version >> 16 == other.version >> 16 && py->interp_head == b->interp && py->self_taken == 0);
	py = NULL;
	int rc = py_open(build_image(b), NULL, &(struct py_options){ .layout_text = STR("layout 3.12\nnonsense\n") }, b->arena, &py, &err);
	ck_assert_msg(rc < 0 && !py && err.msg[0], "%d", rc);
	free(text);
	build_free(b);
}

START_TEST(a_layout_given_by_hand)
{
	each_layout(given);
}
END_TEST

/* 3.13 and later without a table: the newest table and the process's own offsets, and that is said. */
START_TEST(newer_than_any_table)
{
	size_t n;
	struct layout l = *every_layout(&n);
	addr_t threads[2];

	if (!layout_has(&l, F_PyDebugOffsets_cookie))
		return;
	l.version = (l.version & 0xff00ffffu) | 0x001e0000; /* 3.30 */
	struct build *b = build_two_threads(&l, threads);
	struct py *py = build_open(b, build_image(b), NULL);
	ck_assert(py->table_older);
	ck_assert_str_eq(py->version_text, "3.30.0");
	build_free(b);
}
END_TEST

/* One thing wrong at a time: each check of the proof says its own words. */
enum wrong { WRONG_TYPE, WRONG_INTERP, WRONG_PREV, WRONG_VERSION, WRONG_CODE, WRONG_COUNT };

/* The thread's only frame; without its namespaces it could be anything. */
static void lose_code(struct build *b, addr_t thread, bool namespaces)
{
	const struct layout *l = &b->layout;
	addr_t frame = layout_has(l, F_PyThread_current_frame) ? build_field_get(b, thread, F_PyThread_current_frame) :
		       layout_has(l, F_PyCFrame_current_frame) ?
		       build_field_get(b, build_field_get(b, thread, F_PyThread_cframe), F_PyCFrame_current_frame) :
		       build_field_get(b, thread, F_PyThread_frame);
	bool inner = layout_has(l, F_PyFrame_code);
	build_field(b, frame, inner ? F_PyFrame_code : F_PyFrameObject_f_code, 0);
	if (!namespaces)
		build_field(b, frame, inner ? F_PyFrame_builtins : F_PyFrameObject_f_builtins, 0);
}

static void wrongs(const struct layout *l)
{
	static const char *const words[WRONG_COUNT] = { "type(type) is not type", "points to another interpreter", "is not linked both ways",
		"sys has no hexversion", "has no code object" };

	for (int i = 0; i < WRONG_COUNT; i++) {
		if (i == WRONG_PREV && !layout_has(l, F_PyThread_prev)) /* 2.7 */
			continue;
		addr_t threads[2], dict;
		struct build *b = build_two_threads(l, threads);
		struct err err = { 0 };
		struct py *py = NULL;
		build_settle(b);
		switch (i) {
		case WRONG_TYPE:
			WRITE(b, b->types.type, PyObject, ob_type, b->types.str);
			break;
		case WRONG_INTERP:
			WRITE(b, threads[1], PyThread, interp, b->interp + 16);
			break;
		case WRONG_PREV:
			WRITE(b, threads[0], PyThread, prev, threads[0]);
			break;
		case WRONG_VERSION:
			dict = build_dict(b, BUILD_DICT);
			WRITE(b, b->interp, PyInterp, sysdict, dict);
			break;
		default:
			/* Where sys still tells the version, that is a damaged process: frames_that_lead_nowhere. */
			for (int k = 0; k < 2; k++)
				lose_code(b, threads[k], false);
			if (layout_has(l, F_PyDebugOffsets_cookie)) {
				dict = build_dict(b, BUILD_DICT);
				WRITE(b, b->interp, PyInterp, sysdict, dict);
			}
		}
		struct image *img = build_image(b);
		struct mapping *m = image_add_mapping(img); /* a sign of Python */
		*m = (struct mapping){ .start = 0x1000, .end = 0x2000, .path = { (const uint8_t *)"/lib/libpython3.so", 18 } };
		image_settle(img);
		/* A version that is given by hand holds against whatever sys says, so not there. */
		struct py_options opt = { .hint_runtime = build_hint(b), .python_version = i == WRONG_VERSION || i == WRONG_TYPE ? 0 : l->version };
		int rc = py_open(img, NULL, &opt, b->arena, &py, &err);
		/* The cookie and debug offsets tell the version without sys, as late in Py_Finalize. */
		bool cookie = layout_has(l, F_PyDebugOffsets_cookie);
		if ((i == WRONG_VERSION && cookie) || (i == WRONG_CODE && !cookie)) {
			ck_assert_int_eq(rc, 0);
		} else {
			ck_assert_msg(rc == ERR_UNSUPPORTED, "%s: %s: %d: %s; %s", l->name, words[i], rc, err.msg, err.why);
			ck_assert_msg(strstr(err.msg, words[i]) != NULL, "%s: %s", words[i], err.msg);
			/* A table is in force for it: it may as well be memory that is wrong. */
			if (i == WRONG_TYPE && cookie)
				ck_assert_msg(str_starts(str_of(err.hint), "the file again from where it came, "), "%s: %s", l->name, err.hint);
			if (opt.python_version)
				ck_assert_str_eq(err.hint, "without --python-version");
		}
		build_free(b);
	}
}

/* Types and version prove a layout; a process all of whose frames are damaged is still one. */
static void frames_lost(const struct layout *l)
{
	for (int namespaces = 0; namespaces < 2; namespaces++) {
		addr_t threads[2];
		struct build *b = build_two_threads(l, threads);
		for (int k = 0; k < 2; k++)
			lose_code(b, threads[k], namespaces);
		struct py *py = build_open(b, build_image(b), NULL);
		ck_assert_str_eq(py->layout.name, l->name);
		struct walk w = py_interps(py), tw;
		struct py_interp in;
		struct py_thread th;
		ck_assert_int_eq(py_next_interp(&w, &in), 1);
		tw = py_threads(py, &in);
		for (int k = 0; k < 2; k++) {
			struct py_frame f = { 0 };
			ck_assert_int_eq(py_next_thread(&tw, &th), 1);
			struct walk fw = py_frames(py, th.frame);
			ck_assert_int_eq(py_next_frame(&fw, &f), namespaces ? 1 : ERR_CORRUPT);
			if (namespaces)
				ck_assert(!f.shim && !f.code && !f.stands && f.no_code == ERR_CORRUPT && f.lasti == -1);
		}
		build_free(b);
	}
}

START_TEST(frames_that_lead_nowhere)
{
	each_layout(frames_lost);
}
END_TEST

START_TEST(a_failed_proof_says_why)
{
	each_layout(wrongs);
}
END_TEST

static void map_heap(struct build *b, struct image *img, const char *path)
{
	*image_add_mapping(img) = (struct mapping){ .start = b->heap.base, .end = (b->heap.base + b->heap.n + 4095) & ~(addr_t)4095,
						    .path = { (const uint8_t *)path, strlen(path) } };
	image_settle(img);
}

/* Before Py_Initialize and after Py_Finalize: a Python that a table is for, and nothing alive in it. */
static void not_alive(const struct layout *l)
{
	if (!l->size[S_PyRuntime]) /* before 3.7 there is nothing that could be empty */
		return;
	struct build *b = build_new(l);
	struct py *py;
	struct err err = { 0 };
	char path[64];

	snprintf(path, sizeof path, "/usr/lib/libpython%u.%u.so.1.0", l->version >> 24, l->version >> 16 & 255);
	WRITE(b, b->runtime, PyRuntime, interp_head, 0);
	struct image *img = build_image(b);
	map_heap(b, img, path);
	ck_assert_msg(py_open(img, NULL, &(struct py_options){ .hint_runtime = build_hint(b) }, b->arena, &py, &err) == ERR_NOPYTHON, "%s: %s",
		      l->name, err.msg);
	snprintf(path, sizeof path, "Python %u.%u", l->version >> 24, l->version >> 16 & 255);
	ck_assert_msg(!strncmp(err.why, path, strlen(path)) && strstr(err.why, "is mapped"), "%s", err.why);
	build_free(b);
}

START_TEST(not_initialized_or_finalized)
{
	each_layout(not_alive);
}
END_TEST

/* In Py_Initialize and late in Py_Finalize: what there is of an interpreter agrees with its table, and that is said. */
enum half { HALF_THREAD, HALF_SYS, HALF_IMPORTLIB, HALF_COUNT };
static void half_made(const struct layout *l)
{
	static const char *const what[HALF_COUNT] = { "its interpreter has no thread", "its interpreter has no sys module", "" };
	const bool tells = layout_has(l, F_PyRuntime_finalizing) || layout_has(l, F_PyInterp_finalizing);
	char path[64];

	snprintf(path, sizeof path, "/usr/lib/libpython%u.%u.so.1.0", l->version >> 24, l->version >> 16 & 255);
	for (int i = 0; i < 2 * HALF_COUNT; i++) {
		const bool ending = i >= HALF_COUNT;
		struct build *b = build_new(l);
		struct py *py = NULL;
		struct err err = { 0 };
		addr_t t = build_thread(b, b->interp, IDENT, 100);
		build_settle(b);
		if (i % HALF_COUNT == HALF_THREAD)
			WRITE(b, b->interp, PyInterp, tstate_head, 0);
		if (i % HALF_COUNT == HALF_SYS)
			WRITE(b, b->interp, PyInterp, sysdict, 0);
		WRITE_IF(b, b->interp, PyInterp, importlib, 0);
		if (layout_has(l, F_PyInterp_modules))
			WRITE(b, b->interp, PyInterp, modules, build_dict(b, BUILD_DICT));
		if (ending && b->runtime)
			WRITE_IF(b, b->runtime, PyRuntime, finalizing, t);
		if (ending)
			WRITE_IF(b, b->interp, PyInterp, finalizing, t);
		struct image *img = build_image(b);
		map_heap(b, img, path);
		int rc = py_open(img, NULL, &(struct py_options){ .hint_runtime = build_hint(b) }, b->arena, &py, &err);
		if (i % HALF_COUNT == HALF_IMPORTLIB) {
			ck_assert_msg(rc == 0, "%s: %d: %s", l->name, i, err.msg);
			ck_assert_str_eq(py->layout.name, l->name);
			ck_assert_int_eq(py->phase, !layout_has(l, F_PyInterp_importlib) ? PHASE_RUNNING : !tells ? PHASE_EITHER :
					 ending ? PHASE_ENDING : PHASE_STARTING);
		} else {
			ck_assert_msg(rc == ERR_NOPYTHON, "%s: %d: %d %s", l->name, i, rc, err.msg);
			ck_assert_msg(strstr(err.why, what[i % HALF_COUNT]) != NULL, "%s: %s", l->name, err.why);
			ck_assert_msg(strstr(err.why, !tells ? "is starting or ending: " : ending ? "is ending: " : "is starting: ") != NULL, "%s: %s",
				      l->name, err.why);
		}
		build_free(b);
	}
}

/* The newest interpreter is being made: it has sys and builtins, or sys alone, and nothing runs in it. The other one tells of the types. */
static void half_made_beside(const struct layout *l)
{
	for (int bare = 0; bare < 2; bare++) {
		struct build *b = build_new(l);
		struct py *py = NULL;
		struct err err = { 0 };
		addr_t t = build_thread(b, b->interp, IDENT, 100);
		addr_t code = build_code(b, &(struct build_code){ .name = "f", .file = "/a/b.py", .firstlineno = 10, .units = 8, .nlocals = 1, .stacksize = 6 });
		build_frame(b, t, &(struct build_frame){ .code = code, .lasti = 4 });
		addr_t made = build_interp(b, 1);
		build_thread(b, made, IDENT, 101);
		build_settle(b);
		WRITE_IF(b, made, PyInterp, importlib, 0);
		if (layout_has(l, F_PyInterp_modules))
			WRITE(b, made, PyInterp, modules, build_dict(b, BUILD_DICT));
		if (bare)
			WRITE(b, made, PyInterp, builtins, 0);
		int rc = py_open(build_image(b), NULL, &(struct py_options){ .hint_runtime = build_hint(b) }, b->arena, &py, &err);
		ck_assert_msg(rc == 0, "%s: %s: %s", l->name, err.msg, err.why);
		ck_assert_str_eq(py->layout.name, l->name);
		ck_assert_msg(py->interp_head == made, "%s: it is not the newest", l->name);
		ck_assert_msg(py->types.code == b->types.code && py->types.str == b->types.str, "%s: 0x%llx, 0x%llx", l->name,
			      (unsigned long long)py->types.code, (unsigned long long)py->types.str);
		build_free(b);
	}
}

/* The newest interpreter is being made, and the frames of the other one lead nowhere: that is what is wrong, not that the former lacks sys. */
static void half_made_beside_wrong(const struct layout *l)
{
	if (!layout_has(l, F_PyDebugOffsets_cookie)) /* else sys has to tell the version, and then that is a damaged process */
		return;
	addr_t threads[2];
	struct build *b = build_two_threads(l, threads);
	struct py *py = NULL;
	struct err err = { 0 };
	addr_t made = build_interp(b, 1);
	build_thread(b, made, IDENT, 101);
	build_settle(b);
	WRITE(b, made, PyInterp, sysdict, 0);
	WRITE(b, b->interp, PyInterp, sysdict, build_dict(b, BUILD_DICT));
	for (int k = 0; k < 2; k++)
		lose_code(b, threads[k], false);
	struct image *img = build_image(b);
	map_heap(b, img, "/usr/lib/libpython3.so.1.0");
	int rc = py_open(img, NULL, &(struct py_options){ .hint_runtime = build_hint(b), .python_version = l->version }, b->arena, &py, &err);
	MUST(rc == ERR_UNSUPPORTED && strstr(err.msg, "has no code object"), "%s: %d: %s; %s", l->name, rc, err.msg, err.why);
	build_free(b);
}

/* Types are looked for in no more of dictionaries than is left of all candidates: interpreters that share a large one take no longer than that. */
static void bounded(const struct layout *l)
{
	addr_t threads[2];
	struct build *b = build_two_threads(l, threads);
	struct proof p = { 0 };
	const uint64_t many = 1 << 20;
	uint64_t left = many;
	build_settle(b);
	struct py *py = build_py(b);
	MUST(types_find(py, b->interp, &left, &p) == 0 && py->types.str == b->types.str && py->types.code == b->types.code, "%s", l->name);
	const uint64_t looked = many - left;
	MUST(looked > 10 && looked < many, "%s: %llu", l->name, (unsigned long long)looked);
	left = 2 * looked;
	for (int i = 0; i < 3; i++) {
		const int rc = types_find(py, b->interp, &left, &p);
		MUST(rc == 0 && left == (i ? 0 : looked), "%s: %d: %d, %llu left", l->name, i, rc, (unsigned long long)left);
		MUST((py->types.str != 0) == (i < 2), "%s: %d", l->name, i);
	}
	build_free(b);
}

START_TEST(looked_at)
{
	each_layout(bounded);
}
END_TEST

START_TEST(starting_and_ending)
{
	each_layout(half_made);
	each_layout(half_made_beside);
	each_layout(half_made_beside_wrong);
}
END_TEST

/* A truncated core: threads and interpreters agree, and what sys' type points to is cut off. */
static void cut_off(const struct layout *l)
{
	addr_t threads[2];
	struct build *b = build_two_threads(l, threads);
	struct py *py;
	struct err err = { 0 };
	char path[64];

	snprintf(path, sizeof path, "/usr/lib/libpython%u.%u.so.1.0", l->version >> 24, l->version >> 16 & 255);
	build_lose(b, b->types.type, l->size[S_PyType]);
	struct image *img = build_image(b);
	map_heap(b, img, path);
	ck_assert_msg(py_open(img, NULL, &(struct py_options){ .hint_runtime = build_hint(b) }, b->arena, &py, &err) == ERR_NOPYTHON, "%s: %s",
		      l->name, err.msg);
	ck_assert_msg(strstr(err.why, "is not in the capture") != NULL, "%s: %s", l->name, err.why);
	build_free(b);
}

/* What the proof asks for first is in what the file lost: whatever that is, it is told as that, and not as a layout that does not fit. */
static void cut_anywhere(const struct layout *l)
{
	const enum py_field first[] = { F_PyInterp_tstate_head, F_PyInterp_sysdict, F_PyThread_interp, F_PyObject_ob_type };
	for (size_t i = 0; i < sizeof first / sizeof *first; i++) {
		struct build *b = build_new(l);
		addr_t t = build_thread(b, b->interp, IDENT, 100);
		struct py *py;
		struct err err = { 0 };
		char path[64];
		snprintf(path, sizeof path, "/usr/lib/libpython%u.%u.so.1.0", l->version >> 24, l->version >> 16 & 255);
		build_settle(b);
		const addr_t at = build_field_at(b, i == 2 ? t : i == 3 ? b->sysdict : b->interp, first[i]);
		build_lose(b, at, l->abi.width);
		struct image *img = build_image(b);
		map_heap(b, img, path);
		image_add_lost(img, at, at + l->abi.width);
		image_facts_mut(img)->truncated = true;
		int rc = py_open(img, NULL, &(struct py_options){ .hint_runtime = build_hint(b) }, b->arena, &py, &err);
		ck_assert_msg(rc == ERR_NOPYTHON, "%s: %zu: %d %s", l->name, i, rc, err.msg);
		ck_assert_msg(strstr(err.why, "cut off") || strstr(err.why, "not in the capture"), "%s: %zu: %s", l->name, i, err.why);
		ck_assert_msg(strstr(err.hint, "not cut off"), "%s: %zu: %s", l->name, i, err.hint);
		build_free(b);
	}
}

START_TEST(what_proves_it_is_cut_off)
{
	each_layout(cut_off);
	each_layout(cut_anywhere);
}
END_TEST

/* Late in Py_Finalize sys is empty; Py_GetVersion's buffer still has the version. */
static void sys_gone(const struct layout *l)
{
	addr_t threads[2], text;
	struct build *b = build_two_threads(l, threads);
	struct py *py = NULL;
	struct err err = { 0 };
	char path[64], version[64];

	snprintf(path, sizeof path, "/usr/lib/libpython%u.%u.so.1.0", l->version >> 24, l->version >> 16 & 255);
	snprintf(version, sizeof version, "%u.%u.%u (main, Jan  1 2026, 00:00:00) [GCC 12.2.0]", l->version >> 24, l->version >> 16 & 255,
		 l->version >> 8 & 255);
	build_settle(b);
	WRITE(b, b->interp, PyInterp, sysdict, build_dict(b, BUILD_DICT));
	text = build_alloc(b, 128);
	build_put(b, text, version, strlen(version));
	struct image *img = build_image(b);
	map_heap(b, img, path);
	ck_assert_msg(py_open(img, NULL, NULL, b->arena, &py, &err) == 0, "%s: %s", l->name, err.msg);
	ck_assert(py->version_exact);
	*strchr(version, ' ') = 0;
	ck_assert_str_eq(py->version_text, version);
	build_free(b);
}

START_TEST(version_without_sys)
{
	each_layout(sys_gone);
}
END_TEST

START_TEST(versions_as_text)
{
	static const struct { uint32_t version; const char *text; } rows[] = {
		{ 0x030c01f0, "3.12.1" }, { 0x030e00c2, "3.14.0rc2" }, { 0x030d00b4, "3.13.0b4" }, { 0x030f00a1, "3.15.0a1" }, { 0x020712f0, "2.7.18" },
	};
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		char text[32];
		version_format(rows[i].version, text, sizeof text);
		ck_assert_str_eq(text, rows[i].text);
		ck_assert_uint_eq(version_parse(rows[i].text), rows[i].version);
	}
	static const char *const bad[] = { "", "3", "4.1.2", "x", "3.", "3.999.1" };
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		ck_assert_msg(version_parse(bad[i]) == 0, "%s", bad[i]);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("proof");
	TCase *tc = tcase_create("proof");
	tcase_set_timeout(tc, 120);
	tcase_add_test(tc, another_minor_version_is_refused);
	tcase_add_test(tc, a_layout_given_by_hand);
	tcase_add_test(tc, newer_than_any_table);
	tcase_add_test(tc, a_failed_proof_says_why);
	tcase_add_test(tc, frames_that_lead_nowhere);
	tcase_add_test(tc, starting_and_ending);
	tcase_add_test(tc, looked_at);
	tcase_add_test(tc, not_initialized_or_finalized);
	tcase_add_test(tc, what_proves_it_is_cut_off);
	tcase_add_test(tc, version_without_sys);
	tcase_add_test(tc, versions_as_text);
	suite_add_tcase(s, tc);
	return suite_run(s);
}
