/*
 * render: every built report against its goldens, whole.  FIXTURES says where golden/ lies; GOLDEN_UPDATE=1 writes them anew (look at the
 * difference before committing it).  What goldens cannot tell - bounds, escapes whatever comes, failing output - has tests of its own.
 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <jansson.h>

#include "build_report.h"
#include "render/render.h"
#include "render/stack.h"
#include "render/words.h"
#include "suite.h"

static const struct render_options plain = { .width = 100, .frames = 100 };

/* Renders into memory; thread (size_t)-1: the whole report. */
static char *rendered(const struct report *r, const char *form, size_t thread, const struct render_options *opt, size_t *ret_len)
{
	const struct renderer *renderer = renderer_find(form);
	ck_assert_ptr_nonnull(renderer);
	char *s = NULL;
	size_t len = 0;
	FILE *f = open_memstream(&s, &len);
	ck_assert_int_eq(thread == (size_t)-1 ? renderer->render(r, opt, f) : renderer->render_thread(r, thread, opt, f), 0);
	fclose(f);
	ck_assert_ptr_nonnull(s);
	if (ret_len)
		*ret_len = len;
	return s;
}

static void compare(const char *name, const char *suffix, const char *got, size_t len)
{
	const char *dir = getenv("FIXTURES");
	char *path = xasprintf("%s/golden/%s%s", dir ? dir : "fixtures", name, suffix);
	if (getenv("GOLDEN_UPDATE")) {
		FILE *f = fopen(path, "w");
		ck_assert_msg(f && fwrite(got, 1, len, f) == len && fclose(f) == 0, "%s", path);
		free(path);
		return;
	}
	FILE *f = fopen(path, "r");
	ck_assert_msg(f != NULL, "%s is not there", path);
	char *want = xmalloc(len + 2);
	size_t n = fread(want, 1, len + 1, f);
	fclose(f);
	size_t line = 1;
	for (size_t i = 0; i < n && i < len && want[i] == got[i]; i++)
		line += got[i] == '\n';
	ck_assert_msg(n == len && memcmp(want, got, len) == 0, "%s differs in line %zu", path, line);
	free(want);
	free(path);
}

static void golden(const struct report *r, const char *name, const char *form, const char *suffix, size_t thread, const struct render_options *opt)
{
	size_t len;
	char *s = rendered(r, form, thread, opt, &len);
	compare(name, suffix, s, len);
	free(s);
}

START_TEST(goldens)
{
	const struct built_report *b = &built_reports[_i];
	struct report *r = b->build();
	golden(r, b->name, "text", ".txt", (size_t)-1, &plain);
	golden(r, b->name, "svg", ".svg", (size_t)-1, &plain);
	if (b->in_json)
		golden(r, b->name, "json", ".json", (size_t)-1, &plain);
	report_free(r);
}
END_TEST

START_TEST(modules_text)
{
	const struct render_options opt = { .frames = 100, .modules = true, .native = true };
	for (size_t i = 0; built_reports[i].name; i++) {
		if (strcmp(built_reports[i].name, "marks") != 0)
			continue;
		struct report *r = built_reports[i].build();
		golden(r, "modules", "text", ".txt", (size_t)-1, &opt);
		report_free(r);
	}
}
END_TEST

START_TEST(goldens_colored)
{
	struct render_options colored = plain;
	colored.color = true;
	struct report *r = built_reports[0].build();
	golden(r, built_reports[0].name, "text", ".ansi", (size_t)-1, &colored);
	golden(r, built_reports[0].name, "svg", ".thread.svg", 0, &plain);
	report_free(r);
}
END_TEST

/* The other way round, and nothing folded. */
START_TEST(goldens_newest)
{
	static const char *const names[] = { "crash", "deep", "long", "marks" };
	struct render_options opt = plain;
	opt.newest_first = true;
	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		const struct built_report *b = built_reports;
		while (strcmp(b->name, names[i]))
			b++;
		struct report *r = b->build();
		opt.native = i == 3;
		golden(r, b->name, "text", ".newest.txt", (size_t)-1, &opt);
		report_free(r);
	}
}
END_TEST

/* Whatever the report: no form lets a character through that moves a cursor, hides or turns text. */
START_TEST(nothing_unsafe)
{
	struct report *r = built_reports[_i].build();
	for (size_t k = 0; renderers[k]; k++) {
		for (size_t t = 0; t <= r->threads.n && t < 5; t++) {
			if (t && !renderers[k]->render_thread)
				continue;
			size_t len;
			char *s = rendered(r, renderers[k]->name, t ? t - 1 : (size_t)-1, &plain, &len);
			ck_assert(str_valid(s, len));
			for (size_t i = 0, n; i < len; i += n) {
				uint32_t cp = str_decode(s + i, len - i, &n);
				ck_assert_msg(cp == '\n' || !str_unsafe(cp), "%s of %s has U+%04X", renderers[k]->name, built_reports[_i].name, (unsigned)cp);
			}
			free(s);
		}
	}
	report_free(r);
}
END_TEST

/* JSON: what readers rely on, of the whole report; and one line a report when asked. */
START_TEST(json_holds)
{
	struct report *r = built_reports[_i].build();
	struct render_options compact = plain;
	compact.compact = true;
	size_t len;
	char *s = rendered(r, "json", (size_t)-1, &compact, &len);
	ck_assert_ptr_eq(strchr(s, '\n'), s + len - 1);
	char *spread = rendered(r, "json", (size_t)-1, &plain, NULL);
	json_error_t e;
	json_t *one = json_loads(s, JSON_REJECT_DUPLICATES, &e), *other = json_loads(spread, JSON_REJECT_DUPLICATES, &e);
	ck_assert_msg(one && other, "%s", e.text);
	ck_assert_int_eq(json_equal(one, other), 1);
	json_t *frames = json_object_get(one, "frames"), *threads = json_object_get(one, "threads"), *v;
	ck_assert_uint_eq(json_array_size(threads), r->threads.n);
	ck_assert_uint_eq(json_array_size(json_object_get(one, "groups")), r->groups.n);
	size_t i;
	json_array_foreach(frames, i, v)
		ck_assert_int_eq(json_integer_value(json_object_get(v, "id")), (json_int_t)i);
	json_array_foreach(threads, i, v) {
		json_t *stack = json_object_get(v, "stack"), *id, *piece;
		size_t k;
		json_int_t total = (json_int_t)json_array_size(stack);
		json_array_foreach(stack, k, id)
			ck_assert(json_is_integer(id) && json_integer_value(id) >= 0 && (size_t)json_integer_value(id) < json_array_size(frames));
		json_array_foreach(json_object_get(v, "folded"), k, piece)
			total += json_integer_value(json_object_get(piece, "frames")) * (json_integer_value(json_object_get(piece, "repeat")) - 1);
		ck_assert_int_eq(total, json_integer_value(json_object_get(v, "frame_count")));
	}
	json_decref(one);
	json_decref(other);
	free(s);
	free(spread);
	report_free(r);
}
END_TEST

/* At most so many frames, first and last half, and the rest counted: of the 252 of "long", of the 4 + 199,996 of "deep". */
static const struct { const char *report; uint64_t frames; const char *gap; size_t shown; } limits[] = {
	{ "long", 0, NULL, 252 },
	{ "long", 252, NULL, 252 },
	{ "long", 251, "  ... 1 frame left out (--frames=0 shows all)\n", 251 },
	{ "long", 100, "  ... 152 frames left out (--frames=0 shows all)\n", 100 },
	{ "long", 1, "  ... 251 frames left out (--frames=0 shows all)\n", 1 },
	{ "deep", 100, NULL, 4 },
	{ "deep", 4, NULL, 4 },
	{ "deep", 3, "  ... 199,998 frames left out (--frames=0 shows all)\n", 2 }, /* a piece that repeats is whole or not there */
	{ "deep", 1, "  ... 199,999 frames left out (--frames=0 shows all)\n", 1 },
};

START_TEST(frames_limit)
{
	const struct built_report *b = built_reports;
	while (strcmp(b->name, limits[_i].report))
		b++;
	struct report *r = b->build();
	struct render_options opt = { .frames = limits[_i].frames };
	char *s = rendered(r, "text", (size_t)-1, &opt, NULL);
	size_t shown = 0;
	for (char *p = s; (p = strstr(p, "  Py  File")); p++)
		shown++;
	ck_assert_uint_eq(shown, limits[_i].shown);
	if (limits[_i].gap)
		ck_assert_ptr_nonnull(strstr(s, limits[_i].gap));
	else
		ck_assert_ptr_null(strstr(s, "left out"));
	free(s);
	report_free(r);
}
END_TEST

/* What is shown of a stack of letters: "+n" n rounds more of what stands before it, ".n." n frames left out. */
static const struct { const char *stack; uint64_t limit; const char *shown; } walks[] = {
	{ "", 0, "" },
	{ "", 5, "" },
	{ "abcdef", 0, "abcdef" },
	{ "abcdef", 6, "abcdef" },
	{ "abcdef", 5, "ab.1.def" },
	{ "abcdef", 2, "a.4.f" },
	{ "abcdef", 1, ".5.f" },
	{ "aaaaa", 0, "a+4" },
	{ "aaaaa", 1, "a+4" },
	{ "xabababyz", 5, "xab+2yz" },
	{ "xabababyz", 4, "x.6.yz" },     /* the first half ends within the piece, which goes */
	{ "xabababyz", 3, "x.6.yz" },
	{ "xyababab", 3, "x.1.ab+2" },
	{ "xyabababz", 3, "x.7.z" },      /* the last half begins within it */
	{ "abababxyz", 2, ".8.z" },
	{ "xaaaaabbbbby", 3, "x.5.b+4y" },
	{ "xaaaaabbbbby", 2, "x.10.y" },
};

/* The same, newest first; frames above still are those that are repeated. */
static const struct { const char *stack; uint64_t limit; const char *shown; } newest[] = {
	{ "", 0, "" },
	{ "abc", 0, "cba" },
	{ "xaaaaay", 0, "ya+4x" },
	{ "xababababy", 0, "yba+3x" },
	{ "aaaaabbbbb", 0, "b+4a+4" },
	{ "abababcdcdcdcdcd", 0, "dc+4ba+2" },
	{ "xabababyz", 4, "zy.6.x" },
	{ "xaaaaabbbbby", 3, "yb+4.5.x" },
	{ "aaaaaxyz", 3, "zy.1.a+4" },
};

/* p and q are plumbing, s and t silent plumbing; [n]: n of them on a line; +times/frames.  crashed: where the thread crashed, and whose call led there. */
static const struct { const char *stack; uint64_t limit; const char *shown, *crashed; } folds[] = {
	{ "apqb", 0, "a[2]b" },
	{ "astb", 0, "ab" },
	{ "asptb", 0, "a[3]b" },               /* silent only where all are */
	{ "stsab", 0, "ab" },
	{ "abst", 0, "ab" },
	{ "st", 0, "" },
	{ "pqst", 0, "[4]" },
	{ "astastastast", 0, "a+3/1" },        /* what is silent is not counted among the frames above */
	{ "apsapsapsaps", 0, "a[2]+3/3" },
	{ "sssss", 0, "" },
	{ "sssssab", 0, "ab" },
	{ "abcpqdef", 6, "abc.2.def" },
	{ "abcpqdef", 7, "abc[2]def" },
	{ "sabcdef", 4, "ab.2.ef" },           /* silent frames take no room */
	{ "sabcdef", 1, ".5.f" },              /* nor are they among those that are left out */
	{ "absctscdef", 4, "ab.3.ef" },
	{ "abcdefs", 4, "ab.2.ef" },
	{ "astp", 0, "a[3]", "b" },
	{ "apst", 0, "a[2]t", "t" },
	{ "astb", 0, "atb", "t" },
	{ "apqst", 0, "a[1]q", "q" },
	{ "apsqtb", 0, "a[2]qtb", "tq" },
	{ "abcdest", 4, "ab.2.et", "t" },
};

START_TEST(fold)
{
	struct report *r = report_new();
	struct report_frame letter[26] = { 0 };
	const struct report_frame *frames[64];
	size_t n = strlen(folds[_i].stack);
	letter['p' - 'a'].plumbing = letter['q' - 'a'].plumbing = PLUMBING_FOLDED;
	letter['s' - 'a'].plumbing = letter['t' - 'a'].plumbing = PLUMBING_SILENT;
	for (size_t i = 0; i < n; i++)
		frames[i] = &letter[folds[_i].stack[i] - 'a'];
	build_thread(r, 1, NULL);
	build_stack(r, frames, n);
	const char *crashed = folds[_i].crashed;
	if (crashed) {
		r->verdict.kind = VERDICT_CRASH;
		r->verdict.thread = 0;
		r->verdict.native = &letter[crashed[0] - 'a'];
		r->verdict.caller = crashed[1] ? &letter[crashed[1] - 'a'] : NULL;
	}
	struct sb b = { 0 };
	struct stack_walk w = stack_walk(r, r->threads.p, folds[_i].limit, true);
	for (struct stack_item item; stack_next(&w, &item);) {
		switch (item.kind) {
		case STACK_FRAME: sb_char(&b, (char)('a' + (item.frame - letter))); break;
		case STACK_PLUMBING: sb_printf(&b, "[%d]", (int)item.n); break;
		case STACK_GAP: sb_printf(&b, ".%d.", (int)item.n); break;
		case STACK_REPEAT: sb_printf(&b, "+%d/%d", (int)item.repeat, (int)item.n); break;
		}
	}
	sb_char(&b, '\0');
	ck_assert_msg(strcmp(b.s, folds[_i].shown) == 0, "%s: %s, not %s", folds[_i].stack, b.s, folds[_i].shown);
	sb_free(&b);
	report_free(r);
}
END_TEST

START_TEST(walk_newest)
{
	struct report *r = report_new();
	struct report_frame letter[26] = { 0 };
	const struct report_frame *frames[64];
	size_t n = strlen(newest[_i].stack);
	for (size_t i = 0; i < n; i++)
		frames[i] = &letter[newest[_i].stack[i] - 'a'];
	build_thread(r, 1, NULL);
	build_stack(r, frames, n);
	struct sb b = { 0 };
	struct stack_items items = { 0 };
	struct stack_walk w = stack_walk(r, r->threads.p, newest[_i].limit, false);
	stack_newest_first(&w, &items);
	for (size_t i = 0; i < items.n; i++) {
		const struct stack_item *item = &items.p[i];
		if (item->kind == STACK_FRAME)
			sb_char(&b, (char)('a' + (item->frame - letter)));
		else
			sb_printf(&b, item->kind == STACK_GAP ? ".%d." : "+%d", (int)(item->kind == STACK_GAP ? item->n : item->repeat));
	}
	sb_char(&b, '\0');
	ck_assert_str_eq(b.s, newest[_i].shown);
	vec_free(&items);
	sb_free(&b);
	report_free(r);
}
END_TEST

START_TEST(walk)
{
	struct report *r = report_new();
	struct report_frame letter[26] = { 0 };
	const struct report_frame *frames[64];
	size_t n = strlen(walks[_i].stack);
	for (size_t i = 0; i < n; i++)
		frames[i] = &letter[walks[_i].stack[i] - 'a'];
	build_thread(r, 1, NULL);
	build_stack(r, frames, n);
	struct sb b = { 0 };
	struct stack_walk w = stack_walk(r, r->threads.p, walks[_i].limit, false);
	for (struct stack_item item; stack_next(&w, &item);) {
		if (item.kind == STACK_FRAME)
			sb_char(&b, (char)('a' + (item.frame - letter)));
		else
			sb_printf(&b, item.kind == STACK_GAP ? ".%d." : "+%d", (int)(item.kind == STACK_GAP ? item.n : item.repeat));
	}
	sb_char(&b, '\0');
	ck_assert_str_eq(b.s, walks[_i].shown);
	sb_free(&b);
	report_free(r);
}
END_TEST

/* Carets as Python 3.13 draws them: source, columns, and the two lines that must come out (the second NULL: no carets). */
static const struct { const char *source; int col, end_col; const char *line, *marks; } carets[] = {
	{ "    x = f(1), 2", 8, 12, "x = f(1), 2", "    ~^^^" },
	{ "    f(1)", 4, 8, "f(1)", NULL },                         /* the whole line */
	{ "    x = f(1)", 8, 12, "x = f(1)", NULL },                /* all it assigns, */
	{ "    a.b, c = f(1)", 13, 17, "a.b, c = f(1)", NULL },
	{ "    return f(1)", 11, 15, "return f(1)", NULL },         /* or returns */
	{ "    a[0] = f(1)", 11, 15, "a[0] = f(1)", "       ~^^^" },
	{ "    return a.f(1)", 11, 17, "return a.f(1)", "       ~~~^^^" },
	{ "    return a.b.c(1)(2)", 11, 22, "return a.b.c(1)(2)", "       ~~~~~~~~^^^" },
	{ "y = d['k)']", 4, 11, "y = d['k)']", "    ~^^^^^^" },
	{ "y = f(')') + 1", 4, 14, "y = f(')') + 1", "    ~~~~~~~^~~" },
	{ "y = a + b * c", 4, 13, "y = a + b * c", "    ~~^~~~~~~" },
	{ "y = a * b + c", 4, 13, "y = a * b + c", "    ~~~~~~^~~" },
	{ "y = a - b - c", 4, 13, "y = a - b - c", "    ~~~~~~^~~" },
	{ "y = a ** b ** c", 4, 15, "y = a ** b ** c", "    ~~^^~~~~~~~" },
	{ "y = -a ** b", 4, 11, "y = -a ** b", "    ^^^^^^^" },
	{ "y = -a // b", 4, 11, "y = -a // b", "    ~~~^^~~" },
	{ "y = 1e-5 + .5", 4, 13, "y = 1e-5 + .5", "    ~~~~~^~~~" },
	{ "y = 0x1e-5", 4, 10, "y = 0x1e-5", "    ~~~~^~" },
	{ "y = a < b(1)", 4, 12, "y = a < b(1)", "    ^^^^^^^^" },
	{ "y = not f(1)", 4, 12, "y = not f(1)", "    ^^^^^^^^" },
	{ "y = a, f(1)", 4, 11, "y = a, f(1)", "    ^^^^^^^" },
	{ "y = '''(''' % a", 4, 15, "y = '''(''' % a", "    ~~~~~~~~^~~" },
	{ "y = f'{a}'['", 4, 12, "y = f'{a}'['", "    ^^^^^^^^" }, /* cut off */
	{ "y = f(", 4, 6, "y = f(", "    ^^" },
	{ "y = )", 4, 5, "y = )", "    ^" },
	{ "\ty = a", 5, 6, "y = a", "    ^" },
	{ "y = a", 4, 99, "y = a", NULL },                          /* of another version of the file */
	{ "y = a", 4, 4, "y = a", NULL },
	{ "y = a", -1, 5, "y = a", NULL },
	{ "y, \xe6\x97\xa5\xe6\x9c\xac(0)", 3, 12, "y, \xe6\x97\xa5\xe6\x9c\xac(0)", "   ~~~~^^^" }, /* wide */
	{ "y = '\xe6\x97\xa5', g", 11, 12, "y = '\xe6\x97\xa5', g", "          ^" },
	{ "y = \xe6\x97\xa5", 5, 7, "y = \xe6\x97\xa5", NULL },     /* in the middle of a character */
	{ "a = '\x1b'; g()", 9, 12, "a = '\\x1b'; g()", "            ~^^" },
};

START_TEST(caret)
{
	struct report *r = report_new();
	const struct report_frame *stack[] = { build_frame(r, "/a.py", 1, "f", carets[_i].col, carets[_i].end_col, carets[_i].source) };
	build_thread(r, 1, NULL);
	build_stack(r, stack, 1);
	report_group(r);
	char *s = rendered(r, "text", (size_t)-1, &plain, NULL);
	char *want = carets[_i].marks ? xasprintf(", in f\n        %s\n        %s\n", carets[_i].line, carets[_i].marks) :
					xasprintf(", in f\n        %s\n", carets[_i].line);
	char *at = strstr(s, ", in f\n");
	ck_assert_ptr_nonnull(at);
	ck_assert_str_eq(at, want);
	free(want);
	free(s);
	report_free(r);
}
END_TEST

START_TEST(failing_output)
{
	struct report *r = built_reports[0].build();
	for (size_t k = 0; renderers[k]; k++) {
		FILE *f = fopen("/dev/full", "w");
		ck_assert_ptr_nonnull(f);
		setvbuf(f, NULL, _IONBF, 0);
		ck_assert_int_eq(renderers[k]->render(r, &plain, f), ERR_IO);
		fclose(f);
	}
	report_free(r);
}
END_TEST

START_TEST(table)
{
	ck_assert_str_eq(renderer_find("json")->name, "json");
	ck_assert_ptr_null(renderer_find("html!"));
	ck_assert_ptr_null(renderer_find(""));
	ck_assert_str_eq(renderer_for_file("a/b.json")->name, "json");
	ck_assert_str_eq(renderer_for_file("x.svg")->name, "svg");
	ck_assert_str_eq(renderer_for_file("x.y.txt")->name, "text");
	ck_assert_ptr_null(renderer_for_file("a.txt/b"));
	ck_assert_ptr_null(renderer_for_file("a/.json"));
	ck_assert_ptr_null(renderer_for_file("json"));
	ck_assert_ptr_null(renderer_for_file(""));
	struct report *r = built_reports[0].build();
	ck_assert_int_eq(renderer_find("svg")->render_thread(r, r->threads.n, &plain, stdout), ERR_ABSENT);
	report_free(r);
}
END_TEST

/* A place in code of no file has its address, also that of a null pointer that was called. */
START_TEST(no_file)
{
	static const struct { struct str function; uint64_t pc; const char *in; } rows[] = {
		{ STR("JIT code"), 0x7f52ea4f6017, "\n  in         JIT code at 0x7f52ea4f6017\n" }, { { 0 }, 0, "\n  in         0x0\n" },
	};
	for (size_t i = 0; i < 2; i++) {
		struct report *r = report_new();
		struct report_frame f = { .function = rows[i].function, .pc = rows[i].pc, .at = { -1, -1, -1, -1 } };
		const struct report_frame *stack[] = { &f };
		build_thread(r, 1, NULL);
		build_stack(r, stack, 1);
		report_group(r);
		r->verdict.kind = VERDICT_CRASH;
		r->verdict.thread = 0;
		r->verdict.native = &f;
		size_t len;
		char *text = rendered(r, "text", (size_t)-1, &plain, &len);
		ck_assert_msg(strstr(text, rows[i].in) != NULL, "%s", text);
		free(text);
		report_free(r);
	}
}
END_TEST

/* Big reports stay small on paper and quick: folded, grouped, and no form grows with what is hidden. */
START_TEST(scales)
{
	struct timespec a, z;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &a);
	for (int i = 0; i < 3; i++) {
		struct report *r = i == 0 ? build_deep(200000, false) : i == 1 ? build_deep(200000, true) : build_threads(1000, 10);
		report_group(r);
		size_t len;
		free(rendered(r, "text", (size_t)-1, &plain, &len));
		ck_assert_uint_lt(len, 20000);
		free(rendered(r, "svg", (size_t)-1, &plain, &len));
		ck_assert_uint_lt(len, 60000);
		free(rendered(r, "json", (size_t)-1, &plain, &len));
		ck_assert_uint_lt(len, i == 0 ? 10000u : i == 1 ? 40000000u : 400000u);
		report_free(r);
	}
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &z);
	ck_assert_int_lt(z.tv_sec - a.tv_sec, 20);
}
END_TEST

/* As many threads, each at an address of its own that nothing tells the name of. */
START_TEST(scales_without_names)
{
	enum { MANY = 100000 };
	struct timespec a, z;
	struct report *r = report_new();
	for (int i = 0; i < MANY; i++) {
		build_thread(r, 1000 + i, NULL);
		struct report_frame *f = arena_alloc(r->arena, sizeof *f);
		*f = (struct report_frame){ .pc = 0x7f0000000000 + 16 * (uint64_t)i, .at = { -1, -1, -1, -1 } };
		const struct report_frame *stack[] = { f };
		build_stack(r, stack, 1);
	}
	report_group(r);
	size_t len;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &a);
	free(rendered(r, "svg", (size_t)-1, &plain, &len));
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &z);
	ck_assert_int_lt(z.tv_sec - a.tv_sec, 10);
	report_free(r);
}
END_TEST

/* Of many threads with one stack, and of many limits of one kind, all only where they are asked for. */
START_TEST(all_of_many)
{
	enum { MANY = 9 };
	struct render_options opt = plain;
	for (int all = 0; all < 2; all++) {
		struct report *r = build_threads(MANY, 1);
		r->verdict.thread = (size_t)-1;
		for (long long i = 0; i < MANY; i++)
			report_problem(r, P_FRAMES_BROKEN, 20000 + i, "frame 0x10 is not in the capture", 0ULL, "copy it again");
		report_group(r);
		opt.all_names = all;
		char *s = rendered(r, "text", (size_t)-1, &opt, NULL);
		for (int i = 0; i < MANY; i++) {
			char name[32], limit[64];
			snprintf(name, sizeof name, "\"pool-%d\"", i);
			snprintf(limit, sizeof limit, "thread %d: frame 0x10", 20000 + i);
			ck_assert_msg((strstr(s, name) != NULL) == (all || i == 0 || i == MANY - 1), "%d: %s", i, s);
			ck_assert_msg((strstr(s, limit) != NULL) == (all || i == 0), "%d: %s", i, s);
		}
		ck_assert_int_eq(strstr(s, "and 8 more like this") != NULL, !all);
		ck_assert_int_eq(strstr(s, "\n  thread 20008: frame 0x10 is not in the capture; older frames are unknown, 0 known [PZ401]\n") != NULL, all);
		ck_assert_ptr_nonnull(strstr(s, "try: copy it again"));
		free(s);
		report_free(r);
	}
}
END_TEST

/* The command line is cut where it stands in the line of facts, and whole where that is asked for, whatever is in it. */
START_TEST(command_line)
{
	enum { ARGUMENTS = 4000 };
	struct timespec a, z;
	struct sb args = { 0 };
	sb_printf(&args, "/opt/py/bin/python3.13 -u   app.py");
	for (int i = 0; i < ARGUMENTS; i++)
		sb_printf(&args, "   %d", i);
	CLEANUP(cleanup_free) char *text = strndup(args.s, args.len), *whole = xasprintf("%s\n  pid 19452   Python", strstr(text, "python3.13"));
	for (int all = 0; all < 2; all++) {
		struct render_options opt = plain;
		struct report *r = build_threads(1, 1);
		r->process.args = sb_view(&args);
		opt.all_names = all;
		clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &a);
		char *s = rendered(r, "text", (size_t)-1, &opt, NULL);
		clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &z);
		ck_assert_int_lt(z.tv_sec - a.tv_sec, 3);
		ck_assert_msg((strstr(s, whole) != NULL) == all, "%s", s);
		ck_assert_msg((strstr(s, "python3.13 -u   app.py   0   1   2   3") && strstr(s, "...   pid 19452   Python 3.13.0")) == !all, "%s", s);
		free(s);
		report_free(r);
	}
	sb_free(&args);
}
END_TEST

/* Limits are as wide as the terminal; where there is none, only long ones are more than a line.  What is tried begins where they go on. */
START_TEST(width_of_limits)
{
	static const unsigned widths[] = { 40, 80, 0 };
	for (size_t i = 0; i < COUNT(widths); i++) {
		struct render_options opt = { .width = widths[i] };
		struct report *r = build_threads(1, 1);
		report_problem(r, P_EXE_MISSING, "/usr/bin/python3.13");
		report_problem(r, P_NO_FILE_NOTE, "which programs and libraries is not known");
		char *s = rendered(r, "text", (size_t)-1, &opt, NULL), *save = NULL, *from = strstr(s, "\nLimits of this report (2)\n");
		ck_assert_ptr_nonnull(from);
		size_t lines = 0, longest = 0;
		for (char *line = strtok_r(from, "\n", &save); line; line = strtok_r(NULL, "\n", &save), lines++) {
			const size_t indent = strspn(line, " "), n = strlen(line);
			ck_assert_msg(indent == 0 || indent == 2 || indent == 4 || indent == 9, "%s", line);
			longest = n > longest ? n : longest;
		}
		ck_assert_msg(widths[i] ? longest <= widths[i] && longest + 20 > widths[i] && lines > 5 : longest <= 160 && lines == 5, "%u: %zu lines of %zu", widths[i], lines, longest);
		free(s);
		report_free(r);
	}
}
END_TEST

/* Of threads with the same frames, whose stacks are not known whole, it is not said that these are the same. */
START_TEST(same_as_far_as_known)
{
	enum { WHOLE, BROKEN, NATIVE_BROKEN, NATIVE_ONLY, CASES };
	for (int how = 0; how < CASES; how++) {
		struct report *r = build_threads(3, 2);
		for (size_t i = 0; i < 3; i++) {
			struct report_thread *t = &r->threads.p[i];
			t->broken = how == BROKEN ? STR("frame 0x10 is not in the capture") : (struct str){ 0 };
			t->native_broken = how >= NATIVE_BROKEN ? STR("the stack at 0x10 is not in the file") : (struct str){ 0 };
			t->active = how != NATIVE_ONLY;
		}
		r->verdict.thread = 0;
		report_group(r);
		char *s = rendered(r, "text", (size_t)-1, &plain, NULL);
		const bool cut = how == BROKEN || how == NATIVE_ONLY;
		ck_assert_msg((strstr(s, " (the same known frames as above)\n") != NULL) == cut && (strstr(s, " (the same stack as above)\n") != NULL) == !cut &&
			      (strstr(s, ", at least 2 different stacks") != NULL) == cut, "%d: %s", how, s);
		free(s);
		report_free(r);
	}
}
END_TEST

/* What was tried is for those who ask; JSON has it, a line an element. */
START_TEST(details)
{
	static const char tried[] = "    tried symbols: no _PyRuntime\n    tried section .PyRuntime: in none of the files that are here (2)\n    try: ";
	struct render_options opt = plain;
	for (int all = 0; all < 2; all++) {
		const struct built_report *b = built_reports;
		while (strcmp(b->name, "no_python") != 0)
			b++;
		struct report *r = b->build();
		opt.all_names = all;
		char *s = rendered(r, "text", (size_t)-1, &opt, NULL);
		ck_assert_msg((strstr(s, tried) != NULL) == all && (strstr(s, "_PyRuntime") != NULL) == all, "%s", s);
		free(s);
		report_free(r);
	}
}
END_TEST

/* The module at fault: why it and no other, as far as there is an interpreter. */
START_TEST(culprit)
{
	static const struct { bool python, likely; const char *want; } words[] = {
		{ true, false, "  module     /x/ext.so   (likely at fault: the innermost that is neither libc nor the interpreter)\n" },
		{ true, true, "  module     /x/ext.so   (likely at fault: likely the innermost that is neither libc nor the interpreter)\n" },
		{ false, false, "  module     /x/ext.so   (likely at fault: the innermost that is not libc)\n" },
	};
	for (size_t i = 0; i < COUNT(words); i++) {
		const struct built_report *b = built_reports;
		while (strcmp(b->name, "crash") != 0)
			b++;
		struct report *r = b->build();
		r->verdict.culprit = STR("/x/ext.so");
		r->verdict.culprit_likely = words[i].likely;
		r->python.found = words[i].python;
		char *s = rendered(r, "text", (size_t)-1, &plain, NULL);
		ck_assert_msg(strstr(s, words[i].want) != NULL, "%s", s);
		free(s);
		report_free(r);
	}
}
END_TEST

/* A quote in a name does not end it. */
START_TEST(quotes)
{
	const struct built_report *b = built_reports;
	while (strcmp(b->name, "crash") != 0)
		b++;
	struct report *r = b->build();
	struct report_thread *t = &r->threads.p[r->verdict.thread];
	t->name = STR("q\"u\no\"");
	struct sb name = { 0 }, quoted = { 0 };
	words_thread(&name, t);
	sb_quoted(&quoted, t->name);
	ck_assert(str_is(sb_view(&quoted), "\"q\\\"u\\no\\\"\""));
	CLEANUP(cleanup_free) char *all = xasprintf(STR_FMT, STR_ARG(sb_view(&name)));
	ck_assert_msg(strstr(all, " \"q\\\"u\\no\\\"\"") != NULL, "%s", all);
	sb_free(&name);
	sb_free(&quoted);
	sb_quoted(&quoted, (struct str){ 0 });
	ck_assert(str_is(sb_view(&quoted), "\"\""));
	sb_free(&quoted);
	report_free(r);
}
END_TEST

/* Columns, whatever takes none. */
START_TEST(clip)
{
	static const struct { const char *text; size_t columns, marks; const char *want; } cuts[] = {
		{ "abcdef", 6, 0, "abcdef" }, { "abcdefg", 6, 0, "abc..." }, { "abc", 2, 0, "..." },
		{ "e", 6, 3, "e\xcc\x81\xcc\x81\xcc\x81" },
	};
	struct sb b = { 0 }, text = { 0 };
	sb_printf(&text, "%s", cuts[_i].text);
	for (size_t i = 0; i < cuts[_i].marks; i++)
		sb_printf(&text, "\xcc\x81");
	words_clip(&b, sb_view(&text), cuts[_i].columns);
	ck_assert(str_is(sb_view(&b), cuts[_i].want));
	sb_free(&b);
	sb_free(&text);
}
END_TEST

START_TEST(clip_marks)
{
	struct sb b = { 0 }, text = { 0 };
	sb_printf(&text, "name");
	for (unsigned i = 0; i < 1 << 20; i++)
		sb_printf(&text, "\xcc\x81");
	words_clip(&b, sb_view(&text), 60);
	ck_assert_uint_le(b.len, 60 * 16 + 3);
	ck_assert(str_starts(sb_view(&b), "name") && memcmp(b.s + b.len - 3, "...", 3) == 0 && (b.len - 3 - 4) % 2 == 0);
	sb_free(&b);
	sb_free(&text);
}
END_TEST

int main(void)
{
	int n = 0;
	while (built_reports[n].name)
		n++;
	Suite *s = suite_create("render");
	TCase *c = tcase_create("render");
	tcase_add_loop_test(c, goldens, 0, n);
	tcase_add_test(c, goldens_colored);
	tcase_add_test(c, modules_text);
	tcase_add_loop_test(c, nothing_unsafe, 0, n);
	tcase_add_loop_test(c, json_holds, 0, n);
	tcase_add_test(c, goldens_newest);
	tcase_add_loop_test(c, walk_newest, 0, COUNT(newest));
	tcase_add_loop_test(c, frames_limit, 0, COUNT(limits));
	tcase_add_loop_test(c, walk, 0, COUNT(walks));
	tcase_add_loop_test(c, fold, 0, COUNT(folds));
	tcase_add_loop_test(c, caret, 0, COUNT(carets));
	tcase_add_test(c, all_of_many);
	tcase_add_test(c, command_line);
	tcase_add_test(c, details);
	tcase_add_test(c, culprit);
	tcase_add_test(c, quotes);
	tcase_add_test(c, width_of_limits);
	tcase_add_test(c, same_as_far_as_known);
	tcase_add_test(c, failing_output);
	tcase_add_test(c, table);
	tcase_add_loop_test(c, clip, 0, 4);
	tcase_add_test(c, clip_marks);
	tcase_add_test(c, scales_without_names);
	tcase_add_test(c, no_file);
	tcase_add_test(c, scales);
	tcase_set_timeout(c, 120);
	suite_add_tcase(s, c);
	return suite_run(s);
}
