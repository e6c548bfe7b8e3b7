/*
 * A report out of bytes -> every form.  Whatever names, positions, links and numbers are in it: text and SVG let no control character
 * through, JSON parses and stays within the report, and nothing is read or written out of place.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/cursor.h"
#include "model/report.h"
#include "render/render.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint64_t number(struct cursor *c, size_t width)
{
	uint64_t n = 0;
	return cursor_uint(c, width, &n) < 0 ? 0 : n;
}

static struct str text(struct report *r, struct cursor *c)
{
	struct blob b;
	uint64_t len = number(c, 1);
	if (len == 255 || cursor_take(c, len, &b) < 0)
		return (struct str){ 0 };
	return str_from_bytes(r->arena, b.p, b.len);
}

static const struct report_frame *frame(struct report *r, struct cursor *c)
{
	struct report_frame *f = arena_alloc(r->arena, sizeof *f);
	f->python = number(c, 1) & 1;
	f->function = text(r, c);
	f->file = text(r, c);
	f->source = text(r, c);
	f->module = text(r, c);
	f->at = (struct report_position){ (int)number(c, 2) - 2, (int)number(c, 2) - 2, (int)number(c, 1) - 2, (int)number(c, 1) - 2 };
	f->pc = number(c, 8);
	return f;
}

static void thread(struct report *r, struct cursor *c, const struct report_frame *const *frames, size_t n_frames)
{
	struct report_thread *t = vec_push(&r->threads);
	t->tid = (int64_t)number(c, 4) - 1;
	t->python_id = number(c, 8);
	t->name = text(r, c);
	uint64_t flags = number(c, 1);
	t->main = flags & 1;
	t->crashed = flags & 2;
	t->holds_gil = flags & 4;
	t->stale = flags & 8;
	t->has_python = flags & 16;
	t->on_cpu = flags & 32;
	t->waits_in = text(r, c);
	t->broken = text(r, c);
	t->interpreter = (int64_t)number(c, 1) - 1;
	const struct report_frame *stack[1024];
	size_t n = 0;
	/* Pieces "so many frames from here, so many times", so that folding has something to do. */
	for (uint64_t pieces = number(c, 1) % 8; pieces && n_frames; pieces--) {
		size_t first = (size_t)number(c, 1), len = (size_t)number(c, 1) % 12, rounds = (size_t)number(c, 1);
		for (size_t i = 0; i < rounds; i++)
			for (size_t k = 0; k < len && n < sizeof stack / sizeof *stack; k++)
				stack[n++] = frames[(first + k) % n_frames];
	}
	report_fold(r, stack, n, &t->runs, &t->n_runs);
	t->n_frames = n;
	t->active = n > 0;
}

static void check(const struct renderer *form, const char *s, size_t len)
{
	if (!str_valid(s, len))
		abort();
	for (size_t i = 0, n; i < len; i += n) {
		uint32_t cp = str_decode(s + i, len - i, &n);
		if (cp != '\n' && str_unsafe(cp))
			abort();
	}
	if (strcmp(form->name, "json"))
		return;
	json_t *v = json_loadb(s, len, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, NULL);
	if (!v)
		abort();
	json_decref(v);
}

static void render(const struct report *r, const struct render_options *opt)
{
	for (size_t i = 0; renderers[i]; i++) {
		for (size_t t = 0; t < 2; t++) {
			if (t && (!renderers[i]->render_thread || !r->threads.n))
				continue;
			char *s = NULL;
			size_t len = 0;
			FILE *f = open_memstream(&s, &len);
			if (!f)
				abort();
			int rc = t ? renderers[i]->render_thread(r, r->threads.n - 1, opt, f) : renderers[i]->render(r, opt, f);
			fclose(f);
			if (rc < 0)
				abort();
			check(renderers[i], s, len);
			free(s);
		}
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size > 1 << 16)
		return 0;
	struct cursor c = cursor_of(data, size, false);
	struct report *r = report_new();
	struct render_options opt = { .width = (unsigned)number(&c, 1), .frames = number(&c, 1), .compact = number(&c, 1) & 1 };
	uint64_t flags = number(&c, 1);
	r->input.kind = flags & 1 ? "snapshot" : "core";
	r->input.complete = flags & 2;
	r->input.consistent = flags & 4;
	r->python.found = flags & 8;
	r->verdict.likely = flags & 16;
	r->verdict.signal.known = flags & 32;
	r->input.size = number(&c, 8);
	r->input.expected = number(&c, 8);
	r->input.stopped_ns = (int64_t)number(&c, 8);
	r->process.pid = (int64_t)number(&c, 8);
	r->process.start_ns = (int64_t)number(&c, 8);
	r->process.dump_ns = (int64_t)number(&c, 8);
	r->process.args = text(r, &c);
	r->process.exe = text(r, &c);
	r->process.cwd = text(r, &c);
	r->python.version = text(r, &c);
	r->verdict.kind = (enum verdict_kind)(number(&c, 1) % 4);
	r->verdict.title = text(r, &c);
	r->verdict.signal.name = text(r, &c);
	r->verdict.thread = (size_t)number(&c, 1);
	const struct report_frame *frames[64];
	size_t n_frames = (size_t)number(&c, 1) % 64;
	for (size_t i = 0; i < n_frames; i++)
		frames[i] = frame(r, &c);
	if (n_frames)
		r->verdict.location = frames[0];
	*vec_push(&r->interps) = (struct report_interp){ .id = (int64_t)number(&c, 8), .gil_known = flags & 64, .gil_locked = true, .gil_holder_tid = (int64_t)number(&c, 4) };
	for (uint64_t n = number(&c, 1) % 24; n && cursor_left(&c); n--)
		thread(r, &c, frames, n_frames);
	report_problem(r, P_FRAMES_BROKEN, 1LL, str_c(r->arena, text(r, &c)), 2ULL, "copy it again");
	report_group(r);
	render(r, &opt);
	report_free(r);
	return 0;
}
