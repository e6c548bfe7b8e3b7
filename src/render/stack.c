/* Which frames of a stack are shown.  A repeated piece is shown whole or not at all, so that "the frames above" is always true. */
#include "render/stack.h"

struct stack_walk stack_walk(const struct report_thread *t, uint64_t limit)
{
	struct stack_walk w = { .thread = t };
	uint64_t total = 0;
	for (size_t i = 0; i < t->n_runs; i++)
		total += t->runs[i].n;
	w.head = w.tail = total;
	if (!limit || total <= limit)
		return w;
	w.head = limit / 2;
	w.tail = total - (limit - limit / 2);
	uint64_t head = w.head, tail = w.tail, start = 0;
	for (size_t i = 0; i < t->n_runs; i++) {
		uint64_t end = start + t->runs[i].n;
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

static void pass(struct stack_walk *w)
{
	w->at++;
	if (++w->k == w->thread->runs[w->run].n) {
		w->run++;
		w->k = 0;
	}
}

bool stack_next(struct stack_walk *w, struct stack_item *ret)
{
	const struct report_thread *t = w->thread;
	if (w->repeat_due) {
		const struct report_run *run = &t->runs[w->run - 1];
		w->repeat_due = false;
		*ret = (struct stack_item){ .kind = STACK_REPEAT, .repeat = run->repeat - 1, .n = run->n };
		return true;
	}
	if (w->at == w->head && w->head < w->tail) {
		uint64_t left_out = 0;
		while (w->at < w->tail) {
			left_out += t->runs[w->run].repeat;
			pass(w);
		}
		*ret = (struct stack_item){ .kind = STACK_GAP, .n = left_out };
		return true;
	}
	if (w->run >= t->n_runs)
		return false;
	const struct report_run *run = &t->runs[w->run];
	*ret = (struct stack_item){ .kind = STACK_FRAME, .frame = run->frames[w->k], .repeat = run->repeat };
	w->repeat_due = run->repeat > 1 && w->k + 1 == run->n;
	pass(w);
	return true;
}
