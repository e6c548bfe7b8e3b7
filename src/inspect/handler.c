/* Which signal frames of a stack are part of it, and what they say; x86 keeps what the processor said of its last trap. */
#include "inspect/handler.h"

#include <inttypes.h>
#include <signal.h>
#include <string.h>

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

enum { X86_64 = 62, AARCH64 = 183 };

/* A machine's system call instruction, and the numbers of those that send a signal: kill, tkill, tgkill, rt_sigqueueinfo, rt_tgsigqueueinfo,
 * pidfd_send_signal.  Linux arch/x86/entry/syscalls/syscall_64.tbl, include/uapi/asm-generic/unistd.h. */
static const struct sending {
	uint16_t machine;
	uint8_t size, code[4];
	uint16_t kill, tkill, tgkill, queue, tqueue, pidfd;
	uint8_t arg[4], result; /* DWARF numbers */
} sendings[] = {
	{ X86_64, 2, { 0x0f, 0x05 }, 62, 200, 234, 129, 297, 424, { 5, 4, 1, 10 }, 0 },
	{ AARCH64, 4, { 0x01, 0x00, 0x00, 0xd4 }, 129, 130, 131, 138, 240, 424, { 0, 1, 2, 3 }, 0 },
};

static const struct sending *sending_of(struct image *img)
{
	for (size_t i = 0; i < sizeof sendings / sizeof *sendings; i++)
		if (sendings[i].machine == image_abi(img)->machine)
			return &sendings[i];
	return NULL;
}

static bool has_code(struct image *img, addr_t at, const struct sending *s)
{
	uint8_t b[4];
	return image_read(img, at, b, s->size) == 0 && memcmp(b, s->code, s->size) == 0;
}

/* Was it in a system call?  Where the handler had come before one that is begun again, pc stands at it, else just after. */
static bool in_call(struct image *img, const struct regs *regs)
{
	const struct sending *s = sending_of(img);
	return s && (has_code(img, regs->pc - s->size, s) || has_code(img, regs->pc, s));
}

/* The number of the call that was just made; -1: not known.  x86 has the result in its place, but most callers are `mov eax, NUMBER; syscall`. */
static int64_t call_made(struct image *img, const struct regs *regs, const struct sending *s)
{
	uint8_t b[5];
	if (s->machine == AARCH64)
		return (int64_t)(regs->value[8] & UINT32_MAX);
	if (image_read(img, regs->pc - s->size - sizeof b, b, sizeof b) < 0 || b[0] != 0xb8)
		return -1;
	return (int64_t)(b[1] | (uint32_t)b[2] << 8 | (uint32_t)b[3] << 16 | (uint32_t)b[4] << 24);
}

/* Does it stand just after having sent itself the signal?  A signal that a thread sends itself comes before the call returns. */
static bool sent_itself(struct image *img, const struct regs *regs, int64_t pid, int64_t tid, int signo)
{
	const struct sending *s = sending_of(img);
	if (!s || pid < 0)
		return true; /* it cannot be told */
	if (!has_code(img, regs->pc - s->size, s) || regs->value[s->result])
		return false;
	const int64_t nr = call_made(img, regs, s);
	int32_t arg[4];
	for (size_t i = 0; i < 4; i++)
		arg[i] = (int32_t)(uint32_t)regs->value[s->arg[i]];
	const bool first = s->arg[0] != s->result; /* it is still there */
	const bool any = nr < 0;
	/* kill: 0 and below are groups of processes */
	if ((any || nr == s->kill || nr == s->queue) && arg[1] == signo && (!first || arg[0] == pid || (arg[0] <= 0 && !any)))
		return true;
	if ((any || nr == s->tkill) && arg[1] == signo && (!first || arg[0] == tid))
		return true;
	if ((any || nr == s->tgkill || nr == s->tqueue) && arg[2] == signo && arg[1] == tid && (!first || arg[0] == pid))
		return true;
	return nr == s->pidfd && arg[1] == signo;
}

/* One that divides, where there is no decoder: F6 or F7, /6 or /7. */
static bool divides(struct target *t, struct report *r, const struct regs *regs)
{
	struct instruction at;
	uint8_t b[4];
	int rc = instruction_at(t->img, regs, false, 0, r->arena, &at);
	if (rc == 0)
		return at.divides;
	if (rc == ERR_CORRUPT || image_abi(t->img)->machine != X86_64)
		return false;
	if (image_read(t->img, regs->pc, b, sizeof b) < 0)
		return true; /* not known */
	size_t i = b[0] == 0x66;
	i += (b[i] & 0xf0) == 0x40;
	return (b[i] & 0xfe) == 0xf6 && (b[i + 1] & 0x30) == 0x30;
}

/* Is this x86 trap told by that signal?  Linux arch/x86/kernel/traps.c. */
static bool trap_is(unsigned trap, int signo)
{
	switch (signo) {
	case SIGSEGV: return trap == TRAP_PAGE || trap == TRAP_PROTECTION || trap == 4 || trap == 5 || (trap >= 9 && trap <= 12);
	case SIGBUS: return trap == TRAP_PAGE || trap == TRAP_PROTECTION || trap == 11 || trap == 12 || trap == TRAP_ALIGNMENT;
	case SIGILL: return trap == TRAP_ILLEGAL;
	case SIGFPE: return trap == TRAP_DIVIDE || trap == 16 || trap == 19;
	case SIGTRAP: return trap == 1 || trap == 3;
	}
	return signo == SIGSYS;
}

enum origin handler_origin(struct target *t, struct report *r, const struct signal_frame *sf, int64_t tid, int last, struct interrupted *in)
{
	const bool called = in_call(t->img, &sf->regs);
	in->signo = signal_is_fault(last) ? last : sf->trapped && sf->trap == TRAP_PAGE && !called ? SIGSEGV : last;
	in->code = 1;
	in->addr = sf->regs.pc;
	/* A machine that keeps no trap: the signal says that there was one. */
	if (signal_is_fault(in->signo) && (in->signo == SIGSYS || !called) && (!sf->trapped || trap_is(sf->trap, in->signo))) {
		if (!sf->trapped)
			in->addr = sf->addr;
		if (!sf->trapped || in->signo == SIGILL || in->signo == SIGTRAP || in->signo == SIGSYS)
			return ORIGIN_FAULT;
		if (sf->trap == TRAP_PAGE) {
			in->code = (int)(sf->error & 1) + 1;
			in->addr = sf->addr;
			return ORIGIN_FAULT;
		}
		if (sf->trap == TRAP_ALIGNMENT)
			in->addr = 0;
		else if (in->signo != SIGFPE)
			in->code = SI_KERNEL;
		if (sf->trap != TRAP_DIVIDE || divides(t, r, &sf->regs)) /* or no trap at all */
			return ORIGIN_FAULT;
	}
	in->code = SI_TKILL;
	in->addr = 0;
	return sent_itself(t->img, &sf->regs, image_facts(t->img)->pid, tid, in->signo) ? ORIGIN_OWN : ORIGIN_OUTSIDE;
}

/* Does a function above what was interrupted end the process by itself, and not raise the signal again?  Then that came from elsewhere. */
static bool ended_by_itself(const struct report_thread *th, addr_t pc)
{
	const struct report_frame *f;
	for (struct inward w = inward_all(th); (f = inward_next(&w)) && (f->python || f->pc != pc);)
		if (!f->python && (str_is(f->function, "abort") || str_is(f->function, "__GI_abort")))
			return true;
	return false;
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
		struct interrupted in = { .signo = sf.signo, .code = sf.code, .addr = sf.addr, .regs = sf.regs, .sender_pid = -1, .sender_uid = -1 };
		enum origin origin = sf.has_info ? signal_is_fault(sf.signo) && sf.code > 0 ? ORIGIN_FAULT
			: sf.code <= 0 && sf.pid == f->pid ? ORIGIN_OWN : ORIGIN_OUTSIDE : handler_origin(t, r, &sf, native->tid, last, &in);
		/* A handler of something else, which was at work when the crash came. */
		if (origin != ORIGIN_FAULT && ((in.signo != last && (origin != ORIGIN_OWN || in.signo != SIGABRT)) || (origin == ORIGIN_OUTSIDE && (found || led <= 0 || (f->siginfo.known && f->siginfo.code > 0) ||
		    ended_by_itself(th, sf.regs.pc))))) {
			if (sf.has_info || led > 0)
				note_other(r, &sf, f->pid);
			continue;
		}
		in.outside = origin == ORIGIN_OUTSIDE;
		in.sender_known = sf.has_info;
		if (in.outside && sf.has_info && sf.code <= 0) {
			in.sender_pid = sf.pid;
			in.sender_uid = sf.uid;
		}
		in.has_error = origin == ORIGIN_FAULT && sf.trapped && sf.trap == TRAP_PAGE && in.code != SI_KERNEL;
		in.error = sf.error;
		*ret = in;
		found = true;
		sure = led > 0;
	}
	if (found && !sure) {
		r->verdict.likely = true;
		report_problem(r, P_LIKELY, "a signal handler had run, and what it had interrupted was looked for on the stack, since native frames do not lead there");
	}
	if (found && ret->outside && !ret->sender_known) {
		r->verdict.likely = true;
		report_problem(r, P_LIKELY, "the signal handler did not ask who had sent the signal; what it had interrupted neither faulted nor was sending it");
	}
	return found;
}

/* The handler: the function right above what it interrupted. */
static struct str name_of(const struct report_thread *th, addr_t pc)
{
	struct str name = { 0 };
	const struct report_frame *f;
	struct inward w = inward_all(th);
	while ((f = inward_next(&w)) && (f->python || f->pc != pc))
		if (!f->python && f->function.len && !str_is(f->function, "__restore_rt") && f->function.s[0] != '<')
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
	r->verdict.signal.code_unknown = in->outside && !in->sender_known;
	r->verdict.signal.code_name = code_name && !r->verdict.signal.code_unknown ? str_of(code_name) : (struct str){ 0 };
	r->verdict.signal.has_addr = fault && signal_gives_address(in->signo, in->code, in->addr);
	r->verdict.signal.addr = in->addr;
	r->verdict.signal.sender_pid = in->outside ? in->sender_pid : fault ? -1 : f->pid;
	r->verdict.signal.sender_uid = in->sender_uid;
	struct str name = name_of(th, in->regs.pc);
	struct str then = f->siginfo.known && f->siginfo.has_sender && f->siginfo.pid != f->pid ? verdict_sender(r, f) : r->verdict.ended_by.name;
	verdict_note(r, "handler", name.s ? str_printf(r->arena, STR_FMT " ran then; the process ended by " STR_FMT, STR_ARG(name), STR_ARG(then))
		: str_printf(r->arena, "a signal handler ran then; the process ended by " STR_FMT, STR_ARG(then)));
}

struct str handler_sender(struct report *r, const struct interrupted *in)
{
	struct str name = signal_name(r->arena, in->signo);
	if (in->sender_pid > 0)
		return str_printf(r->arena, STR_FMT " sent by pid %" PRId64 " (uid %" PRId64 ")", STR_ARG(name), in->sender_pid, in->sender_uid);
	return str_printf(r->arena, STR_FMT " from outside (%s)", STR_ARG(name), !in->sender_known ? "the sender is not in the core"
		: in->code == SI_KERNEL ? "from the kernel" : "by the kernel, or from another pid namespace");
}
