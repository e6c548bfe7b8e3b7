/*
 * Handlers that are not the verdict: one within the other until the stack was full, one in which the process died of something else, one
 * that another thread stands in.
 */
#include "inspect/handler_note.h"

#include <inttypes.h>
#include <signal.h>

#include "inspect/fault.h"
#include "inspect/handler.h"
#include "inspect/sending.h"
#include "inspect/trap.h"

enum { NESTED_MAX = 1 << 16, STACKS_MAX = 4 /* one of its own (sigaltstack), and back */, KEPT = 4,
	ROOM = 1 << 15 /* of a signal frame with all that a processor can have to save */, MANY = 8 };

/* In words what a fault was; the verdict's own are left as they are. */
static struct str fault_words(struct target *t, struct report *r, const struct interrupted *in, int64_t tid)
{
	__auto_type saved = r->verdict;
	struct fault fault = { .signo = in->signo, .code = in->code, .has_addr = true, .addr = in->addr, .regs = &in->regs, .tid = tid, .has_error = in->has_error, .error = in->error };
	struct str words = in->code == SI_KERNEL ? signal_name(r->arena, in->signo) : fault_title(t, r, &fault);
	r->verdict.access = saved.access;
	r->verdict.instruction = saved.instruction;
	r->verdict.operands = saved.operands;
	return words;
}

struct str handler_words(struct target *t, struct report *r, const struct signal_frame *sf, int64_t tid, int last, bool *fault)
{
	struct signal_frame asked = *sf;
	struct interrupted in, own;
	enum origin origin = handler_origin_of(t, r, &asked, tid, last, &in);
	*fault = origin == ORIGIN_FAULT;
	if (origin == ORIGIN_FAULT) {
		struct str words = fault_words(t, r, &in, tid);
		return in.doubtful || in.unproved ? str_printf(r->arena, "likely " STR_FMT, STR_ARG(words)) : words;
	}
	if (asked.has_info) {
		struct str name = str_printf(r->arena, "%s" STR_FMT, in.unproved ? "likely " : "", STR_ARG(signal_name(r->arena, asked.signo)));
		return asked.code <= 0 && asked.pid > 0 && asked.pid != image_facts(t->img)->pid ? str_printf(r->arena, STR_FMT ", which pid %" PRId64 " had sent", STR_ARG(name), asked.pid) : name;
	}
	if (origin != ORIGIN_OWN && last != SIGABRT && handler_origin_of(t, r, &asked, tid, SIGABRT, &own) == ORIGIN_OWN)
		origin = ORIGIN_OWN, in = own;
	if (origin == ORIGIN_OWN)
		return str_printf(r->arena, STR_FMT ", which the process had sent to itself", STR_ARG(signal_name(r->arena, in.signo)));
	return (struct str){ 0 };
}

bool handler_nested(struct target *t, const struct report_thread *th, const struct thread *native, struct nested *ret)
{
	const struct image_facts *f = image_facts(t->img);
	const struct segment *seg = image_segment_at(t->img, native->regs.sp);
	struct signal_frame kept[KEPT], sf;
	struct nested n = { .no_room = f->siginfo.code == SI_KERNEL };
	struct thread at = *native;
	unsigned stacks = 0;
	if (!f->siginfo.known || (f->siginfo.signo != SIGSEGV && f->siginfo.signo != SIGBUS) || f->siginfo.code <= 0)
		return false;
	for (; n.depth < NESTED_MAX && stacks < STACKS_MAX && signal_frame_next(t->img, &at, 0, &sf) == 0; n.depth++) {
		kept[n.depth % KEPT] = sf;
		if (sf.regs.sp <= sf.at)
			stacks++;
		at.regs.sp = sf.regs.sp;
	}
	if (n.depth < MANY && (n.depth < 2 || !n.no_room || !seg || !(native->regs.sp - seg->start < ROOM || sending_in_call(t->img, &native->regs))))
		return false;
	/* What lies in memory that is still in use may be left over. */
	unsigned older = 0;
	int led = -1;
	for (; older < KEPT && older + 2 <= n.depth; older++)
		if ((led = handler_led(t, th, &kept[(n.depth - 1 - older) % KEPT])) >= 0)
			break;
	if (led < 0)
		return false;
	n.depth -= older;
	n.first = kept[(n.depth - 1) % KEPT];
	n.sure = led > 0;
	*ret = n;
	return true;
}

void handler_nested_note(struct target *t, struct report *r, const struct thread *native, const struct nested *n)
{
	bool fault;
	struct str words = handler_words(t, r, &n->first, native->tid, SIGSEGV, &fault);
	const char *likely = n->sure ? "" : "likely ";
	verdict_note(r, "handler", words.s ? str_printf(r->arena, "%s%u signal handlers had interrupted each other; the first ran on " STR_FMT, likely, n->depth, STR_ARG(words))
		: str_printf(r->arena, "%s%u signal handlers had interrupted each other", likely, n->depth));
}

void handler_left_note(struct target *t, struct report *r, const struct report_thread *th, const struct thread *native)
{
	const struct image_facts *f = image_facts(t->img);
	struct signal_frame sf;
	bool fault;
	if (!f->siginfo.known || f->siginfo.code <= 0 || signal_frame_next(t->img, native, 0, &sf) < 0 || handler_led(t, th, &sf) != 0)
		return;
	struct str words = handler_words(t, r, &sf, native->tid, f->siginfo.signo, &fault);
	const size_t skip = str_starts(words, "likely ") ? strlen("likely ") : 0;
	if (fault)
		verdict_note(r, "handler", str_printf(r->arena, "it likely came in the handler of another fault: %.*s", (int)(words.len - skip), words.s + skip));
}

/* The newest one that the thread's frames lead to. */
static struct str stands_in(struct target *t, struct report *r, const struct report_thread *th, const struct thread *native)
{
	enum { LOOKED_AT = 16 };
	const struct report_frame *f;
	struct signal_frame sf;
	addr_t from = 0;
	bool fault, returns = false;
	for (struct inward w = inward_all(th); !returns && (f = inward_next(&w));)
		returns = f->signal;
	for (unsigned n = 0; returns && n < LOOKED_AT && signal_frame_next(t->img, native, from, &sf) == 0; n++) {
		from = sf.at + 8;
		if (handler_led(t, th, &sf) <= 0)
			continue;
		struct str words = handler_words(t, r, &sf, native->tid, SIGSEGV, &fault);
		return fault ? words : (struct str){ 0 };
	}
	return (struct str){ 0 };
}

void handler_of_others(struct target *t, struct report *r, const struct report_thread *crashed)
{
	enum { TOLD = 3 };
	const struct thread *native;
	const size_t n = image_threads(t->img, &native);
	for (size_t i = 0, told = 0; i < r->threads.n && told < TOLD; i++) {
		struct report_thread *th = &r->threads.p[i];
		if ((crashed && th->image == crashed->image) || !th->image || th->image > n || th->again)
			continue;
		th->in_handler = stands_in(t, r, th, &native[th->image - 1]);
		if (!th->in_handler.s)
			continue;
		verdict_note(r, "handler", str_printf(r->arena, "thread %" PRId64 "%s stands in a handler of a fault: " STR_FMT, th->tid, th->main ? " (main)" : "", STR_ARG(th->in_handler)));
		told++;
	}
}
