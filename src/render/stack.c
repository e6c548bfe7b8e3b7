/* Which frames of a stack are shown.  A repeated piece is shown whole or not at all, so that "the frames above" is always true. */
#include "render/stack.h"

static bool folds(const struct stack_walk *w, const struct report_frame *f)
{
	return w->fold && f->plumbing && f != w->crashed && f != w->caller;
}

/* Frames of a run from k on that are one item; *silent: or none. */
static size_t item_frames(const struct stack_walk *w, const struct report_run *run, size_t k, bool *silent)
{
	size_t n = 0;
	*silent = folds(w, run->frames[k]);
	if (!*silent)
		return 1;
	for (; k + n < run->n && folds(w, run->frames[k + n]); n++)
		*silent = *silent && run->frames[k + n]->plumbing == PLUMBING_SILENT;
	return n;
}

static uint64_t items_of(const struct stack_walk *w, const struct report_run *run)
{
	uint64_t n = 0;
	bool silent;
	for (size_t k = 0; k < run->n; n += !silent)
		k += item_frames(w, run, k, &silent);
	return n;
}

struct stack_walk stack_walk(const struct report *r, const struct report_thread *t, uint64_t limit, bool fold)
{
	struct stack_walk w = { .thread = t, .fold = fold };
	if (r->verdict.kind == VERDICT_CRASH && r->verdict.thread < r->threads.n && t == &r->threads.p[r->verdict.thread]) {
		w.crashed = r->verdict.native ? r->verdict.native : r->verdict.location;
		w.caller = r->verdict.caller;
	}
	uint64_t total = 0;
	for (size_t i = 0; i < t->n_runs; i++)
		total += items_of(&w, &t->runs[i]);
	w.head = w.tail = total;
	if (!limit || total <= limit)
		return w;
	w.head = limit / 2;
	w.tail = total - (limit - limit / 2);
	uint64_t head = w.head, tail = w.tail, start = 0;
	for (size_t i = 0; i < t->n_runs; i++) {
		uint64_t end = start + items_of(&w, &t->runs[i]);
		if (t->runs[i].repeat > 1 && start < w.head && w.head < end)
			head = start;
		if (t->runs[i].repeat > 1 && start < w.tail && w.tail < end)
			tail = end;
		start = end;
	}
	w.head = head;
	w.tail = tail;
	return w;
}

/* Past what stands next, how many frames that was; *silent: no item. */
static size_t pass(struct stack_walk *w, bool *silent)
{
	const struct report_run *run = &w->thread->runs[w->run];
	size_t n = item_frames(w, run, w->k, silent);
	w->shown = (w->k ? w->shown : 0) + (*silent ? 0 : n);
	w->items = (w->k ? w->items : 0) + !*silent;
	w->at += !*silent;
	w->k += n;
	if (w->k == run->n) {
		w->repeat_due = run->repeat > 1 && w->shown > 0;
		w->run++;
		w->k = 0;
	}
	return n;
}

bool stack_next(struct stack_walk *w, struct stack_item *ret)
{
	const struct report_thread *t = w->thread;
	bool silent;
	for (;;) {
		if (w->repeat_due) {
			const struct report_run *run = &t->runs[w->run - 1];
			w->repeat_due = false;
			*ret = (struct stack_item){ .kind = STACK_REPEAT, .repeat = run->repeat - 1, .n = w->shown, .items = w->items };
			return true;
		}
		if (w->at == w->head && w->head < w->tail) {
			uint64_t left_out = 0;
			while (w->at < w->tail) {
				const uint64_t repeat = t->runs[w->run].repeat, n = pass(w, &silent);
				left_out += silent ? 0 : repeat * n;
			}
			w->repeat_due = false;
			*ret = (struct stack_item){ .kind = STACK_GAP, .n = left_out };
			return true;
		}
		if (w->run >= t->n_runs)
			return false;
		const struct report_run *run = &t->runs[w->run];
		const size_t k = w->k, n = pass(w, &silent);
		if (silent)
			continue;
		const bool plumbing = folds(w, run->frames[k]);
		*ret = (struct stack_item){
			.kind = plumbing ? STACK_PLUMBING : STACK_FRAME, .frame = run->frames[k], .frames = &run->frames[k], .repeat = run->repeat, .n = n,
		};
		return true;
	}
}

void stack_newest_first(struct stack_walk *w, struct stack_items *ret)
{
	for (struct stack_item item; stack_next(w, &item);)
		*vec_push(ret) = item;
	for (size_t i = 0, j = ret->n; i + 1 < j; i++) {
		struct stack_item swap = ret->p[i];
		ret->p[i] = ret->p[--j];
		ret->p[j] = swap;
	}
	/* What says how often now stands before its piece. */
	for (size_t i = 0; i < ret->n; i++) {
		struct stack_item repeat = ret->p[i];
		if (repeat.kind != STACK_REPEAT || repeat.items >= ret->n - i)
			continue;
		for (size_t k = 0; k < repeat.items; k++, i++)
			ret->p[i] = ret->p[i + 1];
		ret->p[i] = repeat;
	}
}
