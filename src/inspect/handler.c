/* Which signal frames of a stack are part of it, and what they say; x86 keeps what the processor said of its last trap. */
#include "inspect/handler.h"

#include <inttypes.h>
#include <signal.h>
#include <string.h>

#include "image/signal_abi.h"
#include "inspect/abort.h"
#include "inspect/fault.h"
#include "inspect/handler_info.h"
#include "inspect/handler_note.h"
#include "inspect/native.h"
#include "inspect/sending.h"
#include "inspect/signal_frame.h"
#include "inspect/trap.h"

enum { HANDLERS = 16 /* signal frames looked at on one stack */ };

const struct native_stack *handler_frames(struct target *t, const struct report_thread *th, const struct native_frame **frames)
{
	const struct native_records *rec = NULL;
	if (!t->native || !th->image || (native_finish(t->native, &rec, NULL) < 0 && !rec) || th->image > rec->n_threads || !rec->has[th->image - 1])
		return NULL;
	const struct native_stack *s = &rec->stacks[th->image - 1];
	*frames = s->n ? &rec->frames.p[s->first] : NULL;
	return s;
}

int handler_led(struct target *t, const struct report_thread *th, const struct signal_frame *sf)
{
	const struct native_frame *f;
	const struct native_stack *s = handler_frames(t, th, &f);
	for (size_t i = 1; s && i < s->n; i++)
		if (f[i].pc == sf->regs.pc && !(f[i].bits & NATIVE_CALL))
			return 1;
	return s && s->end == NATIVE_WHOLE ? -1 : 0;
}

enum origin handler_origin(struct target *t, struct report *r, const struct signal_frame *sf, int64_t tid, int last, struct interrupted *in)
{
	const struct signal_context *context = signal_context_of(image_abi(t->img));
	const bool arm = !context || !context->traps, called = sending_in_call(t->img, &sf->regs);
	/* Linux would have kept a syndrome.  Where an emulator keeps none, it has an address: one where nothing is mapped has faulted. */
	const bool told = sf->trapped || (sf->no_trap && image_facts(t->img)->siginfo.known);
	const struct segment *seg = image_segment_at(t->img, sf->addr);
	const bool unmapped = arm && !told && sf->addr && !seg && !image_mapping_at(t->img, sf->addr);
	/* It may be of a trap that the process recovered from long ago. */
	const enum trap_fit fit = called ? TRAP_OTHER : sf->trapped || unmapped ? trap_fits(t, r, sf) : TRAP_UNDECIDED;
	/* What a handler raises need not be the signal that it was called for.  Trap 0 is also none at all. */
	const int by_trap = sf->trapped ? trap_signal(t->img, sf) : unmapped ? SIGSEGV : 0;
	const bool of_trap = by_trap && (fit == TRAP_FITS || (fit == TRAP_UNDECIDED && !signal_is_fault(last) && (sf->trap != TRAP_DIVIDE || unmapped)));
	in->signo = of_trap && !(signal_is_fault(last) && (arm || (trap_is(sf->trap, last) && by_trap != SIGBUS))) ? by_trap : last;
	in->code = 1;
	in->addr = sf->regs.pc;
	const bool memory = in->signo == SIGSEGV || in->signo == SIGBUS, trapped = sf->trapped && (memory || !arm);
	in->doubtful = in->signo != SIGSYS && (fit == TRAP_UNDECIDED || (arm && !memory));
	if (arm && memory && !sf->trapped && !called && !unmapped) {
		if (!told && !(seg && seg->prot & 2)) {
			in->code = 0;
			in->addr = 0;
			return ORIGIN_UNTOLD;
		}
	/* A machine that keeps no trap: the signal says that there was one. */
	} else if (signal_is_fault(in->signo) && (in->signo == SIGSYS || !called) && (!trapped || (trap_is(sf->trap, in->signo) && (fit != TRAP_OTHER || in->signo == SIGSYS)))) {
		if (trapped)
			in->code = trap_code(t->img, sf, in->signo);
		if (!trapped || sf->trap == TRAP_PAGE)
			in->addr = sf->addr;
		else if (sf->trap == TRAP_ALIGNMENT)
			in->addr = 0;
		return ORIGIN_FAULT;
	}
	in->doubtful = false;
	in->code = SI_TKILL;
	in->addr = 0;
	if (sending_to(t->img, &sf->regs, image_facts(t->img)->pid, tid, in->signo) != SENDS_NO)
		return ORIGIN_OWN;
	/* Or one that is a crash, too, if the process sends it to itself. */
	static const int crashes[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL };
	for (size_t i = 0; i < sizeof crashes / sizeof *crashes; i++)
		if (sending_to(t->img, &sf->regs, image_facts(t->img)->pid, tid, crashes[i]) == SENDS_YES) {
			in->signo = crashes[i];
			return ORIGIN_OWN;
		}
	return ORIGIN_OUTSIDE;
}

/*
 * glibc up to 2.33 (sysdeps/unix/sysv/linux/raise.c) and musl hold signals off while they send one, so that it comes in the
 * call after the one that sent it.
 */
bool handler_in_raise(const struct report_thread *th, addr_t pc)
{
	enum { CALLERS = 3 /* the system call, what makes it, what it is made for */ };
	static const char *const names[] = { "raise", "gsignal", "__GI_raise" };
	const struct report_frame *f;
	struct inward w = inward_interrupted(th, pc);
	for (unsigned n = 0; n < CALLERS && (f = inward_next(&w)) && !f->python && !f->signal; n++)
		for (size_t i = 0; i < sizeof names / sizeof *names; i++)
			if (str_is(str_function(f->function), names[i]))
				return true;
	return false;
}

/* The frame that was interrupted at pc; NULL: it is not among those of the thread. */
static const struct report_frame *interrupted_frame(const struct report_thread *th, addr_t pc)
{
	struct inward w = inward_interrupted(th, pc);
	const struct report_frame *f = inward_next(&w);
	return f && !f->python && f->pc == pc ? f : NULL;
}

/* Does a function above what was interrupted end the process by itself, and not raise the signal again?  Then that came from elsewhere. */
static bool ended_by_itself(const struct report_thread *th, addr_t pc)
{
	const struct report_frame *f, *end = interrupted_frame(th, pc);
	for (struct inward w = inward_all(th); (f = inward_next(&w)) && f != end;)
		if (!f->python && (str_is(str_function(f->function), "abort") || str_is(str_function(f->function), "__GI_abort")))
			return true;
	return false;
}

static void drop_info(struct signal_frame *sf)
{
	sf->has_info = false;
	sf->addr = sf->trap_addr;
}

/*
 * A frame's siginfo may be what was left there by something else, where the handler did not ask for one.  The processor's last
 * trap is believed before it if the instruction that was interrupted is one that faults at that address.
 */
static enum trap_fit doubt_info(struct target *t, struct report *r, struct signal_frame *sf)
{
	if (!sf->has_info || !sf->trapped || sf->trap != TRAP_PAGE || (signal_is_fault(sf->signo) && sf->code > 0) || sending_in_call(t->img, &sf->regs))
		return TRAP_OTHER;
	const enum trap_fit fit = trap_fits(t, r, sf);
	if (fit == TRAP_FITS)
		drop_info(sf);
	return fit;
}

/* sure: the native frames lead there, and it is that signal's.  by_mask: the signal, if known by that alone. */
static void note_other(struct report *r, const struct signal_frame *sf, int64_t own, bool sure, int by_mask)
{
	const char *how = sure ? "it came" : "it likely came";
	struct str name = sf->has_info ? signal_name(r->arena, sf->signo) : (struct str){ 0 };
	struct str text = !name.s && by_mask ? str_printf(r->arena, "%s in a signal handler, likely of " STR_FMT, how, STR_ARG(signal_name(r->arena, by_mask)))
		: !name.s ? str_printf(r->arena, "%s in a signal handler", how)
		: sf->has_info && sf->code <= 0 && sf->pid > 0 && sf->pid != own ? str_printf(r->arena, "%s in a handler of " STR_FMT ", which pid %" PRId64 " had sent", how, STR_ARG(name), sf->pid)
		: str_printf(r->arena, "%s in a handler of " STR_FMT, how, STR_ARG(name));
	for (size_t i = 0; i < r->verdict.notes.n; i++)
		if (str_eq(r->verdict.notes.p[i].text, text))
			return;
	verdict_note(r, "handler", text);
}

enum origin handler_origin_of(struct target *t, struct report *r, struct signal_frame *sf, int64_t tid, int last, struct interrupted *in)
{
	const enum info_trust trust = sf->has_info ? handler_info(t, r, sf, tid, last) : INFO_LEFT;
	if (sf->has_info && trust == INFO_LEFT)
		drop_info(sf);
	const enum trap_fit fit = doubt_info(t, r, sf);
	*in = (struct interrupted){ .signo = sf->signo, .code = sf->code, .addr = sf->addr, .regs = sf->regs, .sender_pid = -1, .sender_uid = -1 };
	if (!sf->has_info) {
		const enum origin origin = handler_origin(t, r, sf, tid, last, in);
		const int held = handler_held_off(t->img, sf, tid);
		in->by_mask = origin == ORIGIN_OUTSIDE && held && held != in->signo;
		in->signo = in->by_mask ? held : in->signo;
		return origin;
	}
	in->unproved = trust == INFO_LIKELY;
	if (signal_is_fault(sf->signo) && sf->code > 0)
		return ORIGIN_FAULT;
	in->doubtful = fit == TRAP_UNDECIDED;
	return sf->code <= 0 && sf->pid == image_facts(t->img)->pid ? ORIGIN_OWN : ORIGIN_OUTSIDE;
}

static void fill(struct interrupted *in, const struct signal_frame *sf, enum origin origin)
{
	in->outside = origin == ORIGIN_OUTSIDE;
	in->untold = origin == ORIGIN_UNTOLD;
	in->sender_known = sf->has_info;
	if (in->outside && sf->has_info && sf->code <= 0) {
		in->sender_pid = sf->pid;
		in->sender_uid = sf->uid;
	}
	in->has_error = origin == ORIGIN_FAULT && sf->trapped && sf->trap == TRAP_PAGE && in->code != SI_KERNEL;
	in->error = sf->error;
}

/* Did the process send the signal itself, and not by what its thread stands at?  Then a handler may have raised it again, and returned. */
static bool raised_and_returned(struct target *t, struct report *r, const struct thread *native, struct interrupted *ret)
{
	const struct image_facts *f = image_facts(t->img);
	struct signal_frame sf;
	if (!f->siginfo.known || f->siginfo.code > 0 || f->siginfo.pid != f->pid || f->pid < 0 ||
	    sending_to(t->img, &native->regs, f->pid, native->tid, f->siginfo.signo) != SENDS_NO || !handler_returned(t->img, native, &sf))
		return false;
	struct interrupted in;
	enum origin origin = handler_origin_of(t, r, &sf, native->tid, f->siginfo.signo, &in);
	if (origin == ORIGIN_OWN || in.signo != f->siginfo.signo)
		return false;
	fill(&in, &sf, origin);
	*ret = in;
	return true;
}

/* Does another thread stand where it has just sent the signal?  0: not known, -1: there is no other thread that could. */
static int64_t sent_by_another(struct target *t, int64_t tid, int signo)
{
	const struct thread *th;
	const size_t n = image_threads(t->img, &th);
	addr_t at;
	uint64_t single;
	/* glibc 2.32 on (sys/single_threaded.h): there has been another one, which may have ended. */
	if (n < 2)
		return t->mods && modules_symbol(t->mods, "__libc_single_threaded", &at, NULL, NULL) == 0 && image_read_uint(t->img, at, 1, &single) == 0 && !single ? 0 : -1;
	for (size_t i = 0; i < n; i++)
		if (th[i].tid != tid && sending_to(t->img, &th[i].regs, image_facts(t->img)->pid, tid, signo) == SENDS_YES)
			return th[i].tid;
	return 0;
}

/* Do the frames of a thread lead to a handler of a fault? */
static bool stands_in_handler(struct target *t, struct report *r, const struct report_thread *th, const struct thread *native)
{
	struct signal_frame sf;
	struct interrupted in;
	addr_t from = 0;
	for (unsigned n = 0; n < HANDLERS && signal_frame_next(t->img, native, from, &sf) == 0; n++) {
		from = sf.at + 8;
		if (handler_led(t, th, &sf) > 0 && handler_origin_of(t, r, &sf, native->tid, image_facts(t->img)->siginfo.signo, &in) == ORIGIN_FAULT)
			return true;
	}
	return false;
}

size_t handler_elsewhere(struct target *t, struct report *r, int64_t sender, bool *sends)
{
	const struct image_facts *f = image_facts(t->img);
	const struct thread *native;
	const size_t n = image_threads(t->img, &native);
	*sends = true;
	for (size_t i = 1; i < n && sender > 0; i++)
		if (native[i].tid == sender)
			return i;
	if (n < 2 || !f->siginfo.known || f->siginfo.code > 0 || f->pid < 0 || f->siginfo.pid != f->pid ||
	    sending_to(t->img, &native[0].regs, f->pid, native[0].tid, f->siginfo.signo) != SENDS_NO)
		return 0;
	for (size_t i = 1; i < n; i++)
		if (sending_to(t->img, &native[i].regs, f->pid, native[0].tid, f->siginfo.signo) == SENDS_YES)
			return i;
	for (size_t i = 0; i < r->threads.n; i++) {
		const struct report_thread *th = &r->threads.p[i];
		if (th->image > 1 && th->image <= n && stands_in_handler(t, r, th, &native[th->image - 1])) {
			*sends = false;
			return th->image - 1;
		}
	}
	return 0;
}

/* What was interrupted, where the native frames end within the handler: it is older than they, and younger than Python's. */
static void put_frame(struct target *t, struct report *r, struct report_thread *th, addr_t pc)
{
	struct inward w = inward_all(th), after = w;
	const struct report_frame *f;
	bool native = false;
	while ((f = inward_next(&w)) && !f->python) {
		if (f->pc == pc)
			return;
		native = true;
		after = w;
	}
	if (!native)
		return;
	/* The frames before after.k of run after.run are older. */
	struct report_run *runs = arena_alloc(r->arena, (th->n_runs + 2) * sizeof *runs);
	const struct report_frame **one = arena_alloc(r->arena, sizeof *one);
	size_t n = 0;
	*one = native_frame_at(t, r, pc);
	for (size_t i = 0; i < th->n_runs; i++) {
		struct report_run run = th->runs[i];
		const size_t cut = i == after.run && run.repeat == 1 ? after.k : 0;
		if (cut)
			runs[n++] = (struct report_run){ run.frames, cut, 1 };
		if (i == after.run)
			runs[n++] = (struct report_run){ one, 1, 1 };
		if (cut < run.n)
			runs[n++] = (struct report_run){ run.frames + cut, run.n - cut, run.repeat };
	}
	th->runs = runs;
	th->n_runs = n;
	th->n_frames++;
}

bool handler_find(struct target *t, struct report *r, struct report_thread *th, const struct thread *native, struct interrupted *ret)
{
	const struct image_facts *f = image_facts(t->img);
	const int last = f->siginfo.known ? f->siginfo.signo : native->signo;
	struct signal_frame sf;
	struct nested nested;
	bool found = false, sure = true;
	addr_t from = 0;
	if (handler_nested(t, th, native, &nested))
		return false;
	for (unsigned n = 0; n < HANDLERS && signal_frame_next(t->img, native, from, &sf) == 0; n++) {
		from = sf.at + 8;
		const int led = handler_led(t, th, &sf);
		/* What only lies there may be left over, and is not believed against a fault that the kernel tells of. */
		if (led < 0 || (led == 0 && f->siginfo.known && f->siginfo.code > 0))
			continue;
		struct interrupted in;
		enum origin origin = handler_origin_of(t, r, &sf, native->tid, last, &in);
		if (origin == ORIGIN_OUTSIDE && !sf.has_info && led > 0 && !(f->siginfo.known && f->siginfo.code > 0) && sending_in_call(t->img, &sf.regs) &&
		    handler_in_raise(th, sf.regs.pc) && !ended_by_itself(th, sf.regs.pc))
			origin = ORIGIN_OWN;
		const int64_t other = origin == ORIGIN_OUTSIDE && !sf.has_info ? sent_by_another(t, native->tid, in.signo) : -1;
		if (other > 0)
			origin = ORIGIN_OWN;
		/* A handler of something else, which was at work when the crash came. */
		if (origin != ORIGIN_FAULT && ((in.signo != last && (origin != ORIGIN_OWN || !(in.signo == SIGABRT || signal_is_fault(in.signo)))) || (origin == ORIGIN_OUTSIDE && (found || led <= 0 || (f->siginfo.known && f->siginfo.code > 0) ||
		    ended_by_itself(th, sf.regs.pc))))) {
			if (sf.has_info || led > 0)
				note_other(r, &sf, f->pid, led > 0 && !in.doubtful && !in.unproved, in.by_mask ? in.signo : 0);
			if (led > 0 && (in.unproved || in.by_mask) && !(f->siginfo.known && f->siginfo.code > 0) && !ended_by_itself(th, sf.regs.pc))
				verdict_unsure(r, in.by_mask
					? "a signal handler ran, and which signal it was for is told only by what it held off: it may have passed on the one that ended the process"
					: "a signal handler ran that need not have asked for siginfo, and what lies there may be left over: it may have passed on the signal that ended the process");
			continue;
		}
		fill(&in, &sf, origin);
		in.maybe_own = in.outside && other == 0;
		in.other_tid = other;
		*ret = in;
		found = th->handled = true;
		sure = led > 0;
	}
	if (!found)
		found = raised_and_returned(t, r, native, ret);
	if (found && !sure) {
		put_frame(t, r, th, ret->regs.pc);
		verdict_unsure(r, "a signal handler had run, and what it had interrupted was looked for on the stack, since native frames do not lead there; "
			"what a handler left by siglongjmp looks the same");
	}
	if (found && ret->doubtful)
		verdict_unsure(r, ret->outside
			? "the thread had once trapped, and whether it did so where it was interrupted, or was sent the signal that its handler was told of, the instruction there does not tell"
			: "the signal handler did not ask, and whether the last trap of the thread was of the instruction that was interrupted cannot be decided: the signal may have been sent");
	if (found && ret->unproved)
		verdict_unsure(r, "the signal handler need not have asked for siginfo, and what lies there may be left over from something else");
	if (found && ret->untold)
		verdict_unsure(r, "the signal handler did not ask, and the file does not keep, whether it was a fault or had been sent");
	if (found && ret->outside && !ret->sender_known)
		verdict_unsure(r, ret->maybe_own
			? "the signal handler did not ask who had sent the signal; what it had interrupted neither faulted nor was sending it, but another thread may have"
			: "the signal handler did not ask who had sent the signal; what it had interrupted neither faulted nor was sending it");
	return found;
}

/*
 * The handler, in words: the function right above what it interrupted; one without a name is not known by those that it calls, but by its
 * file, where that is not the one that raises.  None is known by likely frames.
 */
static struct str handler_in_words(struct report *r, const struct report_thread *th, addr_t pc)
{
	struct str name = { 0 };
	const struct report_frame *f, *handler = NULL, *end = interrupted_frame(th, pc);
	struct inward w = inward_all(th);
	bool likely = false;
	while ((f = inward_next(&w)) && f != end) {
		likely |= !f->python && f->likely;
		if (f->python || f->signal)
			continue;
		handler = f;
		name = f->function.len && f->function.s[0] != '<' ? str_function(f->function) : (struct str){ 0 };
	}
	if (!f || likely || !handler)
		return STR("a signal handler");
	/* Handlers often end with a jump to what raises, not a call. */
	if (abort_raises(name))
		return STR("a signal handler, which left no frame,");
	if (name.s)
		return name;
	const struct str file = str_base(handler->module);
	return file.len && (module_is_other(file) || str_starts(file, "libpython") || str_starts(file, "python"))
		? str_printf(r->arena, "a signal handler in " STR_FMT, STR_ARG(file)) : STR("a signal handler");
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
	r->verdict.signal.code_unknown = in->untold || (in->outside && !in->sender_known);
	r->verdict.signal.code_name = code_name && !r->verdict.signal.code_unknown ? str_of(code_name) : (struct str){ 0 };
	r->verdict.signal.has_addr = fault && signal_gives_address(in->signo, in->code, in->addr);
	r->verdict.signal.addr = in->addr;
	r->verdict.signal.sender_pid = in->outside ? in->sender_pid : fault || in->untold ? -1 : f->pid;
	r->verdict.signal.sender_uid = in->sender_uid;
	struct str then = f->siginfo.known && f->siginfo.has_sender && f->siginfo.pid != f->pid ? verdict_sender(r, f) : r->verdict.ended_by.name;
	verdict_note(r, "handler", str_printf(r->arena, STR_FMT " ran then; the process ended by " STR_FMT, STR_ARG(handler_in_words(r, th, in->regs.pc)), STR_ARG(then)));
}

struct str handler_sender(struct report *r, const struct interrupted *in)
{
	struct str name = signal_name(r->arena, in->signo);
	if (in->sender_pid > 0)
		return str_printf(r->arena, STR_FMT " sent by pid %" PRId64 " (uid %" PRId64 ")", STR_ARG(name), in->sender_pid, in->sender_uid);
	if (in->maybe_own)
		return str_printf(r->arena, STR_FMT " from another thread of the process or from outside (the sender is not in the core)", STR_ARG(name));
	return str_printf(r->arena, STR_FMT " from outside (%s)", STR_ARG(name), !in->sender_known ? "the sender is not in the core"
		: in->code == SI_KERNEL ? "from the kernel" : "by the kernel, or from another pid namespace");
}
