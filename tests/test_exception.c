/* Exceptions of a thread under every built-in layout: where they are kept, what they say, where they have been, what is claimed of them; then damaged. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "build_py.h"
#include "every_layout.h"
#include "inspect/parts.h"
#include "python/exception.h"
#include "suite.h"

static addr_t error_type(struct build *b, const char *name, bool heap, addr_t base)
{
	addr_t t = build_type(b, name, O_EXCEPTION, heap);
	if (base)
		WRITE(b, t, PyType, tp_base, base);
	return t;
}

static addr_t make(struct build *b, addr_t type, const addr_t *args, size_t n)
{
	addr_t o = build_object(b, type, b->layout.size[S_PyOSError] + 16);
	WRITE(b, o, PyException, args, build_tuple(b, args, n));
	return o;
}

/* One traceback entry before another. */
static addr_t passed(struct build *b, addr_t next, addr_t frame, int lasti, int line)
{
	addr_t t = build_object(b, b->types.object, b->layout.size[S_PyTraceback]);
	WRITE(b, t, PyTraceback, tb_next, next);
	WRITE(b, t, PyTraceback, tb_frame, frame);
	WRITE(b, t, PyTraceback, tb_lasti, lasti);
	WRITE(b, t, PyTraceback, tb_lineno, line);
	return t;
}

/* The exc_info entry that a generator would put before those of the thread. */
static addr_t item(struct build *b, addr_t thread)
{
	addr_t i = build_alloc(b, b->layout.size[S_PyErrItem] + 16);
	WRITE(b, i, PyErrItem, previous_item, build_field_get(b, thread, F_PyThread_exc_info));
	WRITE(b, thread, PyThread, exc_info, i);
	return i;
}

static void handle(struct build *b, addr_t at, addr_t type, addr_t value, addr_t traceback)
{
	if (layout_has(&b->layout, F_PyThread_exc_info)) {
		WRITE_IF(b, at, PyErrItem, exc_type, type);
		WRITE(b, at, PyErrItem, exc_value, value);
		WRITE_IF(b, at, PyErrItem, exc_traceback, traceback);
	} else {
		WRITE(b, at, PyThread, exc_type, type);
		WRITE(b, at, PyThread, exc_value, value);
		WRITE(b, at, PyThread, exc_traceback, traceback);
	}
	if (value && value != b->types.none)
		WRITE_IF(b, value, PyException, traceback, traceback);
}

static addr_t handling_place(struct build *b, addr_t thread)
{
	return layout_has(&b->layout, F_PyThread_exc_info) ? build_field_get(b, thread, F_PyThread_exc_info) : thread;
}

static void where_it_is_kept(const struct layout *l)
{
	struct build *b = build_new(l);
	addr_t thread = build_thread(b, b->interp, BUILD_IDENT(b), 100), type = error_type(b, "ValueError", false, 0);
	addr_t text = build_str(b, "bad header"), value = make(b, type, &text, 1);
	struct py_exception e;
	struct py *py = build_py(b);
	/* Nothing: NULL in a new thread, None after the first handler. */
	ck_assert_int_eq(py_exception_handled(py, thread, &e), ERR_ABSENT);
	ck_assert_int_eq(py_exception_raised(py, thread, &e), ERR_ABSENT);
	handle(b, handling_place(b, thread), b->types.none, b->types.none, b->types.none);
	ck_assert_int_eq(py_exception_handled(build_py(b), thread, &e), ERR_ABSENT);

	addr_t tb = passed(b, b->types.none, 0, 0, 7);
	handle(b, handling_place(b, thread), type, value, tb);
	py = build_py(b);
	MUST(py_exception_handled(py, thread, &e) == 0, "%s: it is handled", l->name);
	ck_assert_uint_eq(e.type, type);
	ck_assert_uint_eq(e.value, value);
	MUST(e.traceback == tb, "%s: traceback 0x%llx", l->name, (unsigned long long)e.traceback);
	if (layout_has(l, F_PyThread_exc_info)) {
		/* A generator that handles none runs within it; one that handles another is what counts. */
		addr_t other = make(b, type, NULL, 0), inner = item(b, thread);
		handle(b, inner, b->types.none, b->types.none, 0);
		ck_assert_int_eq(py_exception_handled(build_py(b), thread, &e), 0);
		ck_assert_uint_eq(e.value, value);
		handle(b, item(b, thread), type, other, 0);
		ck_assert_int_eq(py_exception_handled(build_py(b), thread, &e), 0);
		ck_assert_uint_eq(e.value, other);
		/* A loop of entries that have nothing ends. */
		addr_t loop = item(b, thread);
		WRITE(b, loop, PyErrItem, previous_item, loop);
		ck_assert_int_eq(py_exception_handled(build_py(b), thread, &e), ERR_CORRUPT);
		WRITE(b, loop, PyErrItem, previous_item, 0x7000);
		ck_assert_int_eq(py_exception_handled(build_py(b), thread, &e), ERR_FAULT);
	}
	if (layout_has(l, F_PyThread_current_exception)) {
		WRITE(b, thread, PyThread, current_exception, value);
	} else {
		WRITE(b, thread, PyThread, curexc_type, type);
		WRITE(b, thread, PyThread, curexc_value, text); /* not made yet */
	}
	py = build_py(b);
	struct str s;
	ck_assert_int_eq(py_exception_raised(py, thread, &e), 0);
	ck_assert_uint_eq(e.type, type);
	ck_assert_int_eq(py_exception_text(py, &e, 100, b->arena, &s), 0);
	ck_assert(str_is(s, "bad header"));
	build_lose(b, thread, 8192);
	ck_assert_int_eq(py_exception_raised(build_py(b), thread, &e), ERR_FAULT);
	build_free(b);
}

/* What is kept is None where nothing is handled: of what cannot be read, and may be that, nothing is claimed. */
static void what_may_be_none(const struct layout *l)
{
	for (int known = 0; known < 2; known++) {
		struct build *b = build_new(l);
		const addr_t thread = build_thread(b, b->interp, BUILD_IDENT(b), 100), lost = build_alloc(b, 0x3000) + 0x1000;
		handle(b, handling_place(b, thread), lost, lost, 0);
		build_lose(b, lost, 0x400);
		struct py *py = build_py(b);
		if (!known)
			py->types.none = 0;
		struct target t = { .img = py->img, .py = py, .arena = arena_new() };
		struct report *r = report_new();
		const struct report_thread th = { .state = thread, .tid = 100 };
		exceptions_add(&t, r, &th, &(struct regs){ 0 });
		const bool typed = !layout_has(l, F_PyErrItem_exc_value) || layout_has(l, F_PyErrItem_exc_type);
		MUST(r->exceptions.n == (known && typed), "%s: %zu exceptions", l->name, r->exceptions.n);
		MUST(r->verdict.exceptions_known == (known && typed), "%s: that is known", l->name);
		report_free(r);
		arena_free(t.arena);
		build_free(b);
	}
}

static void expect(struct py *py, struct build *b, addr_t type, addr_t value, size_t max, const char *type_want, const char *want)
{
	struct py_exception e = { type, value, 0 };
	struct str s;
	MUST(py_exception_type(py, &e, b->arena, &s) == 0, "%s: a type for \"%s\"", py->layout.name, want);
	MUST(str_is(s, type_want), "%s: type \"" STR_FMT "\", not \"%s\"", py->layout.name, STR_ARG(s), type_want);
	MUST(py_exception_text(py, &e, max, b->arena, &s) == 0, "%s: a text \"%s\"", py->layout.name, want);
	MUST(str_is(s, want), "%s: \"" STR_FMT "\", not \"%s\"", py->layout.name, STR_ARG(s), want);
}

static void what_it_says(const struct layout *l)
{
	struct build *b = build_new(l);
	const bool old = TRAIT(b, str_model) == STR_MODEL_WIDE;
	addr_t plain = error_type(b, old ? "exceptions.ValueError" : "ValueError", false, 0), key = error_type(b, "KeyError", false, 0);
	addr_t os = error_type(b, "OSError", false, 0), missing = error_type(b, "FileNotFoundError", false, os);
	addr_t syntax = error_type(b, "SyntaxError", false, 0), group = error_type(b, "BaseExceptionGroup", false, 0);
	addr_t mine = error_type(b, "Rejected", true, key), dict = build_dict(b, BUILD_DICT), lying = error_type(b, "KeyError", true, plain);
	build_dict_str(b, dict, "__module__", build_str(b, "shop"));
	WRITE(b, mine, PyType, tp_dict, dict);
	addr_t none = b->types.none, text = build_str(b, "a 'b'\n"), one = build_int(b, 1), quoted = build_str(b, "a'b");
	addr_t place[] = { build_str(b, "x.py"), build_int(b, 3) }, parts[] = { one, text };
	addr_t args2[] = { build_int(b, 2), build_str(b, "No such file") }, args_syntax[] = { build_str(b, "invalid"), build_tuple(b, place, 2) };
	addr_t args_group[] = { build_str(b, "several"), build_list(b, parts, 2) };
	addr_t bytes = build_bytes(b, "\xff\n'", 3), inner = make(b, plain, &one, 1);
	addr_t many[] = { build_float(b, 1.5), build_float(b, 100), bytes, none, b->true_, build_list(b, parts, 1), inner, build_int(b, -7) };
	addr_t os2 = make(b, os, args2, 2), os3 = make(b, missing, args2, 2);
	WRITE(b, os3, PyOSError, filename, quoted);
	addr_t self = build_list(b, &one, 1);
	build_ptr(b, build_field_get(b, self, F_PyList_ob_item), self);
	addr_t v_text = make(b, plain, &text, 1), v_none = make(b, plain, NULL, 0), v_key = make(b, key, &quoted, 1), v_syntax = make(b, syntax, args_syntax, 2);
	addr_t v_group = make(b, group, args_group, 2), v_mine = make(b, mine, &text, 1), v_many = make(b, plain, many, 8), v_lying = make(b, lying, &one, 1);
	addr_t v_self = make(b, plain, &self, 1), v_bare = build_object(b, plain, l->size[S_PyException]), v_bad = make(b, plain, &text, 1);
	addr_t not_one = build_object(b, plain, l->size[S_PyException]);
	WRITE(b, v_bad, PyException, args, 0x7000);
	WRITE(b, not_one, PyException, args, one);
	addr_t unmade = build_tuple(b, parts, 2);
	addr_t builtins_name = error_type(b, "Hidden", false, 0);
	build_dict_str(b, b->builtins, "ShownError", builtins_name);
	struct py *py = build_py(b);
	expect(py, b, plain, v_text, 100, "ValueError", "a 'b'\n");
	expect(py, b, plain, v_none, 100, "ValueError", "");
	expect(py, b, plain, v_bare, 100, "ValueError", "");
	expect(py, b, plain, 0, 100, "ValueError", "");
	expect(py, b, key, v_key, 100, "KeyError", "\"a'b\"");
	expect(py, b, mine, v_mine, 100, "shop.Rejected", "\"a 'b'\\n\"");
	expect(py, b, lying, v_lying, 100, "KeyError", "1");
	expect(py, b, os, os2, 100, "OSError", "[Errno 2] No such file");
	expect(py, b, missing, os3, 100, "FileNotFoundError", "[Errno 2] No such file: \"a'b\"");
	expect(py, b, syntax, v_syntax, 100, "SyntaxError", "invalid (x.py, line 3)");
	expect(py, b, group, v_group, 100, "BaseExceptionGroup", "several (2 sub-exceptions)");
	expect(py, b, plain, v_many, 200, "ValueError", old ? "(1.5, 100.0, \"\\xff\\n'\", None, True, [1], ValueError(1), -7)"
		: "(1.5, 100.0, b\"\\xff\\n'\", None, True, [1], ValueError(1), -7)");
	expect(py, b, plain, v_many, 7, "ValueError", "(1.5, 1...");
	expect(py, b, plain, v_self, 100, "ValueError", "[[[[...]]]]");
	expect(py, b, plain, unmade, 100, "ValueError", "(1, \"a 'b'\\n\")"); /* only its arguments are there yet */
	struct py_exception e = { plain, v_bad, 0 };
	struct str s;
	ck_assert_int_eq(py_exception_text(py, &e, 100, b->arena, &s), ERR_FAULT);
	e.value = not_one;
	ck_assert_int_eq(py_exception_text(py, &e, 100, b->arena, &s), 0); /* args that are no tuple have no length: nothing is made of them */
	/* Without read-only data a static type is known by what builtins calls it. */
	b->no_rodata = true;
	py = build_py(b);
	expect(py, b, builtins_name, v_none, 100, "ShownError", "");
	build_free(b);
}

/* A class whose bases have these in their order, itself first; the first base is what tp_base says unless it is another. */
static addr_t derived(struct build *b, const char *name, addr_t first, addr_t second, addr_t tp_base)
{
	addr_t t = error_type(b, name, true, tp_base), order[] = { t, first, second };
	WRITE(b, t, PyType, tp_mro, build_tuple(b, order, 3));
	return t;
}

/* Whose __str__ it is: the first in the order of the bases, whatever tp_base says, and no class of the program's that is called so. */
static void whose_text_beside(const struct layout *l, const char *other)
{
	struct build *b = build_new(l);
	addr_t key = error_type(b, "KeyError", false, 0), attribute = error_type(b, other, false, 0), base = error_type(b, "BaseException", false, 0);
	addr_t mine = error_type(b, "KeyError", true, base), of_mine = error_type(b, "Odd", true, mine), text = build_str(b, "x");
	addr_t before = derived(b, "Before", key, attribute, attribute), after = derived(b, "After", attribute, key, attribute);
	WRITE(b, attribute, PyType, tp_basicsize, l->size[S_PyException]);
	addr_t v_before = make(b, before, &text, 1), v_after = make(b, after, &text, 1), v_odd = make(b, of_mine, &text, 1);
	struct py *py = build_py(b);
	expect(py, b, before, v_before, 100, "Before", "'x'");
	expect(py, b, after, v_after, 100, "After", "'x'");
	expect(py, b, of_mine, v_odd, 100, "Odd", "x");
	/* It has a name, say, and a __str__. */
	WRITE(b, attribute, PyType, tp_basicsize, l->size[S_PyException] + 2 * l->abi.width);
	py = build_py(b);
	expect(py, b, before, v_before, 100, "Before", "'x'");
	expect(py, b, after, v_after, 100, "After", "x");
	build_free(b);
}

static void whose_text(const struct layout *l)
{
	static const char *const others[] = { "AttributeError", "NameError", "ImportError" };
	for (size_t i = 0; i < sizeof others / sizeof *others; i++)
		whose_text_beside(l, others[i]);
}

/* What stands behind a SyntaxError's message, and what cannot be coded. */
static void odd_texts(const struct layout *l)
{
	struct build *b = build_new(l);
	const bool old = TRAIT(b, str_model) == STR_MODEL_WIDE;
	addr_t syntax = error_type(b, "SyntaxError", false, 0), os = error_type(b, "OSError", false, 0), none = b->types.none, one = build_int(b, 1);
	addr_t encode = error_type(b, "UnicodeEncodeError", false, 0), decode = error_type(b, "UnicodeDecodeError", false, 0);
	addr_t translate = error_type(b, "UnicodeTranslateError", false, 0), why = build_str(b, "why"), name = build_str(b, "utf-8");
	static const uint32_t letters[] = { 'a', 0xe9, 0x20ac, 0x1f600 };
	addr_t wide = build_text(b, letters, 4, 4, BUILD_COMPACT), bytes = build_bytes(b, "ab\xff", 3), end = build_int(b, 3), start = build_int(b, 2);
	const struct { addr_t file, line; const char *want; } places[] = {
		{ build_str(b, "/srv/app/x.py"), end, "bad (x.py, line 3)" }, { none, end, "bad (line 3)" }, { build_str(b, "a/x.py"), none, "bad (x.py)" }, { none, none, "bad" },
	};
	const struct { addr_t type, args[6]; size_t n; const char *want; } odd[] = {
		{ decode, { name, bytes, start, end, why }, 5, "'utf-8' codec can't decode byte 0xff in position 2: why" },
		{ decode, { name, bytes, one, end, why }, 5, "'utf-8' codec can't decode bytes in position 1-2: why" },
		{ encode, { name, wide, start, end, why }, 5, old ? "'utf-8' codec can't encode character u'\\u20ac' in position 2: why" : "'utf-8' codec can't encode character '\\u20ac' in position 2: why" },
		{ encode, { name, wide, one, start, why }, 5, old ? "'utf-8' codec can't encode character u'\\xe9' in position 1: why" : "'utf-8' codec can't encode character '\\xe9' in position 1: why" },
		{ translate, { wide, end, build_int(b, 4), why }, 4, old ? "can't translate character u'\\U0001f600' in position 3: why" : "can't translate character '\\U0001f600' in position 3: why" },
		{ translate, { wide, one, end, why }, 4, "can't translate characters in position 1-2: why" },
		{ decode, { name, bytes, end, build_int(b, 4), why }, 5, "'utf-8' codec can't decode bytes in position 3-3: why" }, /* past its end */
		{ decode, { name, one }, 2, "('utf-8', 1)" }, /* made by hand */
		{ os, { one, one, one, one, one, one }, 6, "(1, 1, 1, 1, 1, 1)" },
	};
	addr_t v[4], v_odd[9];
	for (size_t i = 0; i < 4; i++) {
		addr_t place[] = { places[i].file, places[i].line }, args[] = { build_str(b, "bad"), build_tuple(b, place, 2) };
		v[i] = make(b, syntax, args, 2);
	}
	for (size_t i = 0; i < 9; i++)
		v_odd[i] = make(b, odd[i].type, odd[i].args, odd[i].n);
	struct py *py = build_py(b);
	for (size_t i = 0; i < 4; i++)
		expect(py, b, syntax, v[i], 100, "SyntaxError", places[i].want);
	for (size_t i = 0; i < 9; i++) {
		struct py_exception e = { odd[i].type, v_odd[i], 0 };
		struct str s;
		MUST(py_exception_text(py, &e, 200, b->arena, &s) == 0 && str_is(s, odd[i].want), "%s: \"" STR_FMT "\", not \"%s\"", l->name, STR_ARG(s), odd[i].want);
	}
	build_free(b);
}

static void where_it_has_been(const struct layout *l)
{
	struct build *b = build_new(l);
	addr_t thread = build_thread(b, b->interp, BUILD_IDENT(b), 100);
	addr_t code = build_code(b, &(struct build_code){ .name = "load", .file = "io.py", .firstlineno = 70, .units = 8 });
	addr_t frame = build_frame(b, thread, &(struct build_frame){ .code = code, .lasti = 2 });
	if (layout_has(l, F_PyFrameObject_f_frame)) {
		addr_t object = build_object(b, b->frame_type, l->size[S_PyFrameObject]);
		WRITE(b, object, PyFrameObject, f_frame, frame);
		frame = object;
	}
	addr_t second = passed(b, 0, 0x7000, 4, -1), first = passed(b, second, frame, 2, 71);
	addr_t loop = passed(b, 0, frame, 2, 71);
	WRITE(b, loop, PyTraceback, tb_next, loop);
	struct py *py = build_py(b);
	struct walk w = py_traceback(py, first);
	struct py_passed p;
	ck_assert_int_eq(py_next_passed(&w, &p), 1);
	MUST(p.code == code, "%s: the code of a frame that was passed", l->name);
	ck_assert_int_eq(p.line, 71);
	ck_assert_int_eq(p.lasti, 2);
	ck_assert_int_eq(py_next_passed(&w, &p), 1);
	ck_assert_uint_eq(p.code, 0); /* its frame is not there */
	ck_assert_int_eq(p.line, -1);
	ck_assert_int_eq(py_next_passed(&w, &p), 0);
	unsigned n = 0;
	int rc;
	for (w = py_traceback(py, loop); (rc = py_next_passed(&w, &p)) > 0 && n < 100;)
		n++;
	ck_assert_int_eq(rc, ERR_CORRUPT);
	w = py_traceback(py, 0x7000);
	ck_assert_int_eq(py_next_passed(&w, &p), ERR_FAULT);
	build_free(b);
}

/* 2.7: SETUP_FINALLY to 4; there SETUP_EXCEPT to 10, whose END_FINALLY is at 11, and its own at 13. */
static const uint8_t finally_code[] = { 122, 1, 0, 9, 9, 121, 2, 0, 9, 9, 9, 88, 9, 88, 9 };

static void what_a_finally_holds(const struct layout *l)
{
	static const struct { int lasti, live, handler, level; bool older; int rc; } ways[] = {
		{ 4, 0, 4, 1, false, 0 },            /* just begun */
		{ 12, 0, 10, 4, false, 0 },          /* the try inside of it is over: it took the entry */
		{ 9, 1, 10, 4, false, 0 },           /* or is under way */
		{ 13, 0, 4, 1, true, 0 },            /* and has called another function */
		{ 3, 0, 4, 1, false, ERR_ABSENT },   /* not begun; over */
		{ 14, 0, 4, 1, false, ERR_ABSENT },
		{ 4, 0, 4, 0, false, ERR_ABSENT },   /* another one was begun without an exception: the words are left over */
		{ 4, 0, 99, 1, false, ERR_ABSENT },
		{ 4, 0, 4, 100, false, ERR_ABSENT }, /* levels and counts that cannot be */
		{ 4, 0, 10, 0, false, ERR_ABSENT },
		{ 4, 99, 4, 1, false, ERR_CORRUPT },
		{ -1, 0, 4, 1, false, ERR_ABSENT },
	};
	for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
		__auto_type c = &ways[i];
		struct build *b = build_new(l);
		addr_t thread = build_thread(b, b->interp, BUILD_IDENT(b), 100), type = error_type(b, "ValueError", false, 0), zero[4] = { 0 };
		addr_t code = build_code(b, &(struct build_code){ .name = "f", .file = "f.py", .firstlineno = 1, .stacksize = 5, .code = { finally_code, sizeof finally_code } });
		addr_t frame = build_frame(b, thread, &(struct build_frame){ .code = code, .lasti = c->lasti, .entry = true, .stack = zero, .n_stack = 4, .executing = true });
		struct py_exception e = { 0 };
		const bool kept = TRAIT(b, handled_kept) > 0;
		addr_t text = build_str(b, "not made yet"), tb = passed(b, b->types.none, frame, 0, 7);
		if (kept) {
			const addr_t stack = build_field_get(b, frame, F_PyFrameObject_f_valuestack), word[4] = { b->types.none, tb, text, type };
			for (size_t k = 0; k < 4; k++)
				build_ptr(b, stack + k * l->abi.width, word[k]);
			WRITE(b, frame, PyFrameObject, f_iblock, c->live);
			addr_t block = build_field_at(b, frame, F_PyFrameObject_f_blockstack);
			WRITE(b, block, PyTryBlock, b_handler, c->handler);
			WRITE(b, block, PyTryBlock, b_level, c->level);
		}
		if (c->older)
			build_frame(b, thread, &(struct build_frame){ .code = build_code(b, &(struct build_code){ .name = "g", .file = "f.py", .firstlineno = 1 }), .lasti = 2 });
		int rc = py_exception_in_finally(build_py(b), thread, &e);
		MUST(rc == (kept ? c->rc : ERR_ABSENT), "%s: %zu: %d", l->name, i, rc);
		if (rc == 0) {
			ck_assert_uint_eq(e.type, type);
			ck_assert_uint_eq(e.value, text);
			ck_assert_uint_eq(e.traceback, tb);
		}
		build_free(b);
	}
}

/* Code that is no compiler's: too deep, an end without a beginning, an argument that is cut off. */
static void odd_finallies(const struct layout *l)
{
	uint8_t deep[65 * 3];
	for (size_t i = 0; i < sizeof deep; i++)
		deep[i] = i % 3 ? 0 : 122;
	const struct { struct blob code; int rc; } odd[] = {
		{ { deep, sizeof deep }, ERR_LIMIT }, { { (const uint8_t *)"\x58", 1 }, ERR_CORRUPT }, { { (const uint8_t *)"\x09\x7a\x01", 3 }, ERR_CORRUPT },
	};
	for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
		struct build *b = build_new(l);
		if (TRAIT(b, handled_kept) > 0) {
			addr_t thread = build_thread(b, b->interp, BUILD_IDENT(b), 100);
			addr_t code = build_code(b, &(struct build_code){ .name = "f", .file = "f.py", .firstlineno = 1, .stacksize = 5, .code = odd[i].code });
			build_frame(b, thread, &(struct build_frame){ .code = code, .lasti = 0, .entry = true, .executing = true });
			struct py_exception e;
			ck_assert_int_eq(py_exception_in_finally(build_py(b), thread, &e), odd[i].rc);
		}
		build_free(b);
	}
}

static void (*const cases[])(const struct layout *l) = { where_it_is_kept, what_may_be_none, what_it_says, whose_text, odd_texts, where_it_has_been, what_a_finally_holds, odd_finallies };

START_TEST(exceptions)
{
	each_layout(cases[_i]);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("exception");
	TCase *tc = tcase_create("exception");
	tcase_set_timeout(tc, 60);
	tcase_add_loop_test(tc, exceptions, 0, COUNT(cases));
	suite_add_tcase(s, tc);
	return suite_run(s);
}
