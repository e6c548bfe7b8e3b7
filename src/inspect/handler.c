/* Which signal frames of a stack are part of it, and what they say; x86 keeps what the processor said of its last trap. */
#include "inspect/handler.h"

#include <inttypes.h>
#include <signal.h>

#include "inspect/abort.h"
#include "inspect/fault.h"
#include "inspect/instruction.h"
#include "inspect/signal_frame.h"

enum { HANDLERS = 16 /* signal frames looked at on one stack */ };

/* Do the frames of the thread lead to it?  1; 0: they end before, or there are none; -1: they are whole and do not. */
static int frames_lead(struct target *t, const struct report_thread *th, const struct signal_frame *sf)
{
	const struct native_records *rec = NULL;
	if (!t->native || !th->image || (native_finish(t->native, &rec, NULL) < 0 && !rec) || th->image > rec->n_threads || !rec->has[th->image - 1])
		return 0;
	const struct native_stack *s = &rec->stacks[th->image - 1];
	for (size_t i = 1; i < s->n; i++) {
		const struct native_frame *f = &rec->frames.p[s->first + i];
		if (f->pc == sf->regs.pc && !(f->bits & NATIVE_CALL))
			return 1;
	}
	return s->end == NATIVE_WHOLE ? -1 : 0;
}

/*
 * Without siginfo only the processor's last trap is known, and the signal that ended the process: what re-raises a signal, as
 * faulthandler does, raises the same.  False: it was not for a fault.
 */
static bool by_trap(struct target *t, struct report *r, const struct signal_frame *sf, int last, struct interrupted *in)
{
	struct instruction at;
	in->signo = signal_is_fault(last) ? last : sf->trapped && sf->trap == TRAP_PAGE ? SIGSEGV : last;
	if (!signal_is_fault(in->signo)) {
		in->code = SI_TKILL;
		return in->signo == SIGABRT;
	}
	if (!sf->trapped) { /* a machine that keeps no trap: the signal says that there was one */
		in->code = 1;
		return true;
	}
	switch (sf->trap) {
	case TRAP_PAGE:
		in->code = (int)(sf->error & 1) + 1;
		return in->signo == SIGSEGV || in->signo == SIGBUS;
	case TRAP_PROTECTION:
		in->code = SI_KERNEL;
		return in->signo == SIGSEGV || in->signo == SIGBUS;
	case TRAP_DIVIDE: /* or no trap at all */
		in->code = FPE_INTDIV;
		in->addr = sf->regs.pc;
		return in->signo == SIGFPE && (instruction_at(t->img, &sf->regs, false, 0, r->arena, &at) < 0 || at.divides);
	}
	in->code = 1;
	in->addr = sf->regs.pc;
	return in->signo != SIGSEGV;
}

/*
 * A frame's siginfo may be what was left there by something else, where the handler did not ask for one.  The processor's last
 * trap is believed before it if the instruction that was interrupted is one that faults at that address.
 */
static void doubt_info(struct target *t, struct report *r, struct signal_frame *sf)
{
	struct instruction in;
	if (!sf->has_info || !sf->trapped || sf->trap != TRAP_PAGE || (signal_is_fault(sf->signo) && sf->code > 0))
		return;
	int rc = instruction_at(t->img, &sf->regs, true, sf->addr, r->arena, &in);
	if (rc < 0 || in.has_address)
		sf->has_info = false;
}

static void note_other(struct report *r, const struct signal_frame *sf, int64_t own)
{
	if (!sf->has_info) {
		verdict_note(r, "handler", STR("it came in a signal handler"));
		return;
	}
	struct str name = signal_name(r->arena, sf->signo);
	verdict_note(r, "handler", sf->code <= 0 && sf->pid > 0 && sf->pid != own
		? str_printf(r->arena, "it came in a handler of " STR_FMT ", which pid %" PRId64 " had sent", STR_ARG(name), sf->pid)
		: str_printf(r->arena, "it came in a handler of " STR_FMT, STR_ARG(name)));
}

bool handler_find(struct target *t, struct report *r, const struct report_thread *th, const struct thread *native, struct interrupted *ret)
{
	const struct image_facts *f = image_facts(t->img);
	const int last = f->siginfo.known ? f->siginfo.signo : native->signo;
	struct signal_frame sf;
	bool found = false, sure = true;
	addr_t from = 0;
	for (unsigned n = 0; n < HANDLERS && signal_frame_next(t->img, native, from, &sf) == 0; n++) {
		from = sf.at + 8;
		const int led = frames_lead(t, th, &sf);
		/* What only lies there may be left over, and is not believed against a fault that the kernel tells of. */
		if (led < 0 || (led == 0 && f->siginfo.known && f->siginfo.code > 0))
			continue;
		doubt_info(t, r, &sf);
		struct interrupted in = { .signo = sf.signo, .code = sf.code, .addr = sf.addr, .regs = sf.regs };
		const bool fault = sf.has_info ? signal_is_fault(sf.signo) && sf.code > 0 : by_trap(t, r, &sf, last, &in) && signal_is_fault(in.signo);
		const bool own = !fault && in.signo == SIGABRT && (!sf.has_info || (sf.code <= 0 && sf.pid == f->pid));
		if (!fault && !own) {
			if (sf.has_info || led > 0)
				note_other(r, &sf, f->pid);
			continue;
		}
		in.has_error = fault && sf.trapped && sf.trap == TRAP_PAGE && in.code != SI_KERNEL;
		in.error = sf.error;
		*ret = in;
		found = true;
		sure = led > 0;
	}
	if (found && !sure) {
		r->verdict.likely = true;
		report_problem(r, P_LIKELY, "a signal handler had run, and what it had interrupted was looked for on the stack, since native frames do not lead there");
	}
	return found;
}

/* The handler: the function right above what it interrupted. */
static struct str name_of(const struct report_thread *th, addr_t pc)
{
	struct str name = { 0 };
	const struct report_frame *f;
	struct inward w = inward_from(th, 0);
	while ((f = inward_next(&w)) && (f->python || f->pc != pc))
		if (f->function.len && !str_is(f->function, "__restore_rt") && f->function.s[0] != '<')
			name = f->function;
	/* Handlers often end with a jump to what raises, not a call. */
	return f && !abort_raises(name) ? name : (struct str){ 0 };
}

void handler_said(struct report *r, const struct image_facts *f, const struct interrupted *in, const struct report_thread *th)
{
	r->verdict.ended_by.known = r->verdict.signal.known;
	r->verdict.ended_by.name = r->verdict.signal.name;
	r->verdict.ended_by.number = r->verdict.signal.number;
	r->verdict.ended_by.code = r->verdict.signal.code;
	r->verdict.ended_by.sender_pid = r->verdict.signal.sender_pid;
	const bool fault = signal_is_fault(in->signo) && in->code > 0;
	const char *code_name = signal_code_name(in->signo, in->code);
	r->verdict.signal.known = true;
	r->verdict.signal.number = in->signo;
	r->verdict.signal.name = signal_name(r->arena, in->signo);
	r->verdict.signal.code = in->code;
	r->verdict.signal.code_name = code_name ? str_of(code_name) : (struct str){ 0 };
	r->verdict.signal.has_addr = fault && in->code != SI_KERNEL;
	r->verdict.signal.addr = in->addr;
	r->verdict.signal.sender_pid = fault ? -1 : f->pid;
	r->verdict.signal.sender_uid = -1;
	struct str name = name_of(th, in->regs.pc);
	struct str then = f->siginfo.known && f->siginfo.has_sender && f->siginfo.pid != f->pid ? verdict_sender(r, f) : r->verdict.ended_by.name;
	verdict_note(r, "handler", name.s ? str_printf(r->arena, STR_FMT " ran then; the process ended by " STR_FMT, STR_ARG(name), STR_ARG(then))
		: str_printf(r->arena, "a signal handler ran then; the process ended by " STR_FMT, STR_ARG(then)));
}
