/*
 * Can a handler have passed on a signal, and nothing shows it?  What it was called for is on the thread's stack: a fault, or a signal
 * from outside.  So only the native frames up to where the thread began, or a search of that whole stack, say that there was none.
 */
#include "inspect/handler.h"

#include "image/signal_abi.h"
#include "inspect/abort.h"
#include "inspect/fault.h"
#include "inspect/sending.h"
#include "module/native_records.h"

enum { STACK_MAX = 1 << 20 /* as signal_frame_next() looks */, HANDLERS = 16 };

/* Was all that signal_frame_next() looks through at hand? */
static bool is_there(struct image *img, addr_t sp)
{
	const struct segment *seg = image_segment_at(img, sp);
	struct mapped m;
	if (!signal_context_of(image_abi(img)) || !seg)
		return false;
	const uint64_t there = seg->size - (sp - seg->start);
	uint64_t left = there;
	if (image_mapped_at(img, sp, &m) == 0)
		left = m.end - sp;
	else if (image_facts(img)->truncated)
		return false;
	const uint64_t wanted = left < STACK_MAX ? left : STACK_MAX;
	return there >= wanted && !image_is_lost(img, sp, wanted);
}

/*
 * Has it seen all handlers?  Not those below one that runs on a stack of its own (sigaltstack); and in a cut file the code may be lost by which
 * their frames are told from other memory.
 */
static bool has_seen_all(struct image *img, const struct thread *th)
{
	const struct segment *seg = image_segment_at(img, th->regs.sp);
	return !image_facts(img)->truncated && seg && !address_on_another_stack(img, seg, &th->regs, th->tid);
}

const char *handler_unseen(struct target *t, struct report *r, const struct report_thread *th, const struct thread *native)
{
	const struct image_facts *f = image_facts(t->img);
	const struct native_frame *frames;
	const struct native_stack *s = handler_frames(t, th, &frames);
	const bool whole = s && s->end == NATIVE_WHOLE;
	struct signal_frame sf;
	struct interrupted in;
	addr_t from = 0;
	unsigned seen = 0, signals = 0;
	for (size_t i = 0; s && i < s->n; i++)
		signals += (frames[i].bits & NATIVE_SIGNAL) != 0;
	for (unsigned n = 0; n < HANDLERS && signal_frame_next(t->img, native, from, &sf) == 0; n++) {
		from = sf.at + 8;
		const int led = handler_led(t, th, &sf);
		seen += led > 0;
		if (led == 0 && handler_origin_of(t, r, &sf, native->tid, f->siginfo.signo, &in) != ORIGIN_OWN && in.signo == f->siginfo.signo)
			return "what may be its frame is on the stack";
	}
	if (signals && !seen)
		return "what its handler was called for is not in the file";
	if (!whole && !is_there(t->img, native->regs.sp))
		return "its stack is not in the file";
	if (!whole && !has_seen_all(t->img, native))
		return "native frames do not lead to where its thread began";
	/* One that returned before what it had raised came: handler_returned(). */
	if (f->truncated && sending_to(t->img, &native->regs, f->pid, native->tid, f->siginfo.signo) == SENDS_NO && !(whole && abort_chain(r, th, native->regs.pc).s))
		return "where it returned from is not in the file";
	return NULL;
}
