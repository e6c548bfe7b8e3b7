/* Stacks made small: repetitions within one (runs), and threads whose stacks are the same (groups). */
#include "model/report.h"

#include <stdlib.h>
#include <string.h>

enum { PERIOD_MAX = 24 }; /* a call from Python through C to Python is up to twenty frames */

/* How many frames from i on are the ones `period` later. */
static size_t matching(const struct report_frame *const *frames, size_t n, size_t i, size_t period)
{
	size_t k = i;
	while (k + period < n && frames[k] == frames[k + period])
		k++;
	return k - i;
}

/* Worth it where at least three lines are saved for the one that says so, and nothing less than three rounds. */
static bool worth_folding(size_t period, size_t rounds)
{
	return rounds >= 3 && (rounds - 1) * period >= 3;
}

struct run_list VEC(struct report_run);

static void push_run(struct report *r, struct run_list *runs, const struct report_frame *const *frames, size_t n, uint64_t repeat)
{
	if (n)
		*vec_push(runs) = (struct report_run){ arena_dup(r->arena, frames, n * sizeof *frames), n, repeat };
}

/*
 * Greedy from the oldest frame: of the periods that repeat here, the one that covers most, the shortest of equals.  Linear: what is
 * compared is either covered, and passed over, or shorter than two rounds of a short period.
 */
void report_fold(struct report *r, const struct report_frame *const *frames, size_t n, const struct report_run **ret, size_t *ret_n)
{
	*ret = NULL;
	*ret_n = 0;
	if (!n)
		return;
	struct run_list runs = { 0 };
	size_t plain = 0; /* where the frames that are not in a run yet begin */
	for (size_t i = 0; i < n;) {
		size_t best = 0, rounds = 0;
		for (size_t period = 1; period <= PERIOD_MAX; period++) {
			size_t here = matching(frames, n, i, period) / period + 1;
			if (worth_folding(period, here) && here * period > rounds * best) {
				best = period;
				rounds = here;
			}
		}
		if (!best) {
			i++;
			continue;
		}
		push_run(r, &runs, frames + plain, i - plain, 1);
		push_run(r, &runs, frames + i, best, rounds);
		i += best * rounds;
		plain = i;
	}
	push_run(r, &runs, frames + plain, n - plain, 1);
	*ret = arena_dup(r->arena, runs.p, runs.n * sizeof *runs.p);
	*ret_n = runs.n;
	vec_free(&runs);
}

void report_python_only(struct report *r)
{
	struct VEC(const struct report_frame *) python = { 0 };
	for (size_t i = 0; i < r->threads.n; i++) {
		struct report_thread *t = &r->threads.p[i];
		struct run_list runs = { 0 };
		t->n_frames = 0;
		for (size_t k = 0; k < t->n_runs; k++) {
			const struct report_run *run = &t->runs[k];
			python.n = 0;
			for (size_t f = 0; f < run->n; f++)
				if (run->frames[f]->python)
					*vec_push(&python) = run->frames[f];
			push_run(r, &runs, python.p, python.n, run->repeat);
			t->n_frames += python.n * run->repeat;
		}
		t->runs = arena_dup(r->arena, runs.p, runs.n * sizeof *runs.p);
		t->n_runs = runs.n;
		t->native_broken = t->unmatched = (struct str){ 0 };
		vec_free(&runs);
	}
	vec_free(&python);
	report_group(r);
}

static uint64_t mix(uint64_t h, uint64_t v)
{
	h = (h ^ v) * 0x9e3779b97f4a7c15u;
	return h ^ h >> 29;
}

static uint64_t hash_str(uint64_t h, struct str s)
{
	for (; s.len >= 8; s.s += 8, s.len -= 8) {
		uint64_t eight;
		memcpy(&eight, s.s, 8);
		h = mix(h, eight);
	}
	uint64_t rest = s.len;
	for (size_t i = 0; i < s.len; i++)
		rest = rest << 8 | (uint8_t)s.s[i];
	return mix(h, rest);
}

static bool frame_same(const struct report_frame *a, const struct report_frame *b)
{
	return a == b || (a->python == b->python && a->at.line == b->at.line && str_eq(a->function, b->function) && str_eq(a->file, b->file) &&
			  str_eq(a->module, b->module) && (a->function.s || a->pc == b->pc));
}

/* The frames that tell threads apart: plumbing does not. */
struct telling { const struct report_thread *t; size_t run, k; };

static const struct report_frame *next_telling(struct telling *w, uint64_t *repeat)
{
	while (w->run < w->t->n_runs) {
		const struct report_run *run = &w->t->runs[w->run];
		const struct report_frame *f = run->frames[w->k];
		*repeat = run->repeat;
		if (++w->k == run->n) {
			w->run++;
			w->k = 0;
		}
		if (!f->plumbing)
			return f;
	}
	return NULL;
}

static uint64_t stack_hash(const struct report_thread *t)
{
	uint64_t h = mix(mix(0, t->broken.s != NULL), t->has_python), repeat;
	struct telling w = { .t = t };
	for (const struct report_frame *f; (f = next_telling(&w, &repeat)) != NULL;) {
		h = hash_str(hash_str(mix(mix(h, repeat), (uint64_t)f->at.line << 1 | f->python), f->function), f->file);
		if (!f->function.s)
			h = mix(h, f->pc);
	}
	return h;
}

static bool stack_same(const struct report_thread *a, const struct report_thread *b)
{
	if (!a->broken.s != !b->broken.s || !a->n_runs != !b->n_runs || a->has_python != b->has_python)
		return false;
	struct telling x = { .t = a }, y = { .t = b };
	uint64_t x_repeat = 0, y_repeat = 0;
	for (;;) {
		const struct report_frame *f = next_telling(&x, &x_repeat), *g = next_telling(&y, &y_repeat);
		if (!f || !g)
			return f == g;
		if (x_repeat != y_repeat || !frame_same(f, g))
			return false;
	}
}

/* A thread that is in several interpreters is told with where it goes from one into another; the others with the list of theirs. */
static uint64_t interpreters_hash(uint64_t h, const struct report_thread *t)
{
	h = mix(h, t->n_interpreters > 1 ? (uint64_t)t->interpreter : t->interpreter >= 0);
	for (size_t i = 0; t->n_interpreters > 1 && i < t->n_interpreters; i++)
		h = mix(h, (uint64_t)t->interpreters[i]);
	return h;
}

static bool interpreters_same(const struct report_thread *a, const struct report_thread *b)
{
	size_t n = a->n_interpreters > 1 ? a->n_interpreters : 0;
	if ((n ? a->interpreter != b->interpreter : (a->interpreter < 0) != (b->interpreter < 0)) || n != (b->n_interpreters > 1 ? b->n_interpreters : 0))
		return false;
	for (size_t i = 0; i < n; i++)
		if (a->interpreters[i] != b->interpreters[i])
			return false;
	return a->again == b->again && (a->tid < 0) == (b->tid < 0);
}

static bool belongs(const struct report *r, const struct report_thread *a, const struct report_thread *b)
{
	return (r->interps.n < 2 || interpreters_same(a, b)) && stack_same(a, b);
}

void report_group(struct report *r)
{
	size_t n = r->threads.n, room = 16;
	while (room < n * 2)
		room *= 2;
	r->groups.n = 0;
	/* Open addressing over the groups; a slot holds a group's number + 1 and its first thread's hash. */
	struct slot { uint64_t hash; size_t group; };
	CLEANUP(cleanup_free) struct slot *slots = xcalloc(room, sizeof *slots);
	for (size_t i = 0; i < n; i++) {
		struct report_thread *t = &r->threads.p[i];
		uint64_t hash = r->interps.n < 2 ? stack_hash(t) : interpreters_hash(stack_hash(t), t);
		size_t at = hash & (room - 1);
		while (slots[at].group && (slots[at].hash != hash || !belongs(r, t, &r->threads.p[r->groups.p[slots[at].group - 1].threads[0]])))
			at = (at + 1) & (room - 1);
		if (!slots[at].group) {
			/* The list gets its real room below; until then it stands for its first thread. */
			size_t *first = arena_alloc(r->arena, sizeof *first);
			*first = i;
			*vec_push(&r->groups) = (struct report_group){ first, 0 };
			slots[at] = (struct slot){ hash, r->groups.n };
		}
		t->group = slots[at].group - 1;
		r->groups.p[t->group].n++;
	}
	size_t *lists = n ? arena_alloc(r->arena, n * sizeof *lists) : NULL;
	for (size_t g = 0, start = 0; g < r->groups.n; g++) {
		r->groups.p[g].threads = lists + start;
		start += r->groups.p[g].n;
		r->groups.p[g].n = 0;
	}
	for (size_t i = 0; i < n; i++) {
		struct report_group *g = &r->groups.p[r->threads.p[i].group];
		lists[(size_t)(g->threads - lists) + g->n++] = i;
	}
}
