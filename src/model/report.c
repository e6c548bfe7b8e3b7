/* The report's life, and its problems.  Folding and grouping are in fold.c. */
#include "model/report.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <uthash.h>

#define NONE ((size_t)-1)

struct problem_said { UT_hash_handle hh; };

struct report *report_new(void)
{
	struct report *r = xcalloc(1, sizeof *r);
	r->arena = arena_new();
	r->input.kind = "core";
	r->input.stopped_ns = -1;
	r->process.pid = r->process.ppid = r->process.uid = -1;
	r->verdict.word = STR("UNKNOWN");
	r->verdict.tid = r->verdict.signal.sender_pid = -1;
	r->verdict.thread = r->verdict.thread_hidden = NONE;
	return r;
}

void report_free(struct report *r)
{
	if (!r)
		return;
	vec_free(&r->interps);
	vec_free(&r->threads);
	vec_free(&r->hidden);
	vec_free(&r->groups);
	vec_free(&r->modules);
	vec_free(&r->exceptions);
	vec_free(&r->verdict.notes);
	vec_free(&r->problems);
	HASH_CLEAR(hh, r->said);
	vec_free(&r->input.lost.files);
	arena_free(r->arena);
	free(r);
}

static const struct { const char *code, *text, *hint; enum severity severity; } problems[PROBLEM_COUNT] = {
#define PROBLEM(id, code_, severity_, text_, hint_) [P_##id] = { .code = (code_), .text = (text_), .hint = (hint_), .severity = (severity_) },
#include "problems.def"
#undef PROBLEM
};

/* What the arguments brought in may be anything: names out of the file, messages of the system. */
static struct str text_of(struct report *r, const char *s, size_t len)
{
	return str_from_bytes(r->arena, s, len);
}

/* True once for an id and a text.  There may be one for each of many threads. */
static bool is_news(struct report *r, enum problem id, struct str message)
{
	struct problem_said *said;
	const size_t len = sizeof id + message.len;
	char *key = arena_alloc(r->arena, len);
	memcpy(key, &id, sizeof id);
	if (message.len)
		memcpy(key + sizeof id, message.s, message.len);
	HASH_FIND(hh, r->said, key, len, said);
	if (said)
		return false;
	said = arena_alloc(r->arena, sizeof *said);
	HASH_ADD_KEYPTR(hh, r->said, key, len, said);
	return true;
}

void report_problem(struct report *r, enum problem id, ...)
{
	if (id <= P_NONE || id >= PROBLEM_COUNT)
		return;
	/* Text and hint are formatted as one, so that the hint's arguments are those after the text's; how long the text is
	 * by itself tells where they part. */
	CLEANUP(cleanup_free) char *format = xasprintf("%s%s", problems[id].text, problems[id].hint ? problems[id].hint : "");
	CLEANUP(cleanup_free) char *both = NULL;
	va_list ap, again;
	va_start(ap, id);
	va_copy(again, ap);
	int text_len = vsnprintf(NULL, 0, problems[id].text, ap);
	int len = vasprintf(&both, format, again);
	va_end(again);
	va_end(ap);
	if (text_len < 0 || len < text_len)
		return; /* longer than INT_MAX: no argument of ours is */
	struct str message = text_of(r, both, (size_t)text_len);
	if (!is_news(r, id, message))
		return;
	*vec_push(&r->problems) = (struct report_problem){
		.id = id,
		.code = problems[id].code,
		.severity = problems[id].severity,
		.message = message,
		.hint = len > text_len ? text_of(r, both + text_len, (size_t)(len - text_len)) : (struct str){ 0 },
	};
}

void report_details(struct report *r, struct str lines)
{
	if (r->problems.n && lines.len)
		r->problems.p[r->problems.n - 1].details = lines;
}
