/*
 * What stopped the process and where: a signal from outside is not a crash.  Facts: sigaction(2); which si_code has a sender
 * or an address: Linux include/uapi/asm-generic/siginfo.h.
 */
#include <inttypes.h>
#include <signal.h>

#include "inspect/abort.h"
#include "inspect/collector.h"
#include "inspect/fault.h"
#include "inspect/instruction.h"
#include "inspect/life.h"
#include "inspect/signal_frame.h"

enum { HANDLERS = 16 /* signal frames looked at on one stack */ };

/* A core without NT_SIGINFO: only the signal's number is known, so who sent it is a guess. */
static void from_number(struct report *r, int signo)
{
	struct str name = signal_name(r->arena, signo);
	r->verdict.likely = true;
	if (signo == 0 || signo == 19 || signo == 5) {
		r->verdict.kind = VERDICT_STOPPED;
		r->verdict.title = str_printf(r->arena, "the core was taken from a running process (by gcore or a debugger)");
		return;
	}
	r->verdict.kind = signal_is_fault(signo) || signo == 6 ? VERDICT_CRASH : VERDICT_STOPPED;
	r->verdict.title = str_printf(r->arena, STR_FMT ": the core does not say who sent it", STR_ARG(name));
	report_problem(r, P_LIKELY, "the core has no NT_SIGINFO note");
}

/* Who sent it, where the kernel says so. */
static struct str sent_by(struct report *r, const struct image_facts *f)
{
	struct str name = signal_name(r->arena, f->siginfo.signo);
	if (!f->siginfo.pid)
		return str_printf(r->arena, STR_FMT " sent from outside (by the kernel, or from another pid namespace)", STR_ARG(name));
	return str_printf(r->arena, STR_FMT " sent by pid %" PRId64 " (uid %" PRId64 ")", STR_ARG(name), f->siginfo.pid, f->siginfo.uid);
}

/* The kind, and the title of all but a crash. */
static void from_siginfo(struct report *r, const struct image_facts *f)
{
	int signo = f->siginfo.signo, code = f->siginfo.code;
	struct str name = signal_name(r->arena, signo);
	r->verdict.kind = VERDICT_STOPPED;
	if (signo == 19 || signo == 0) {
		r->verdict.title = str_printf(r->arena, "the core was taken from a running process (by gcore or a debugger)");
	} else if (f->siginfo.has_sender && code <= 0) {
		r->verdict.title = sent_by(r, f);
		if (f->pid < 0) {
			r->verdict.kind = signo == 6 ? VERDICT_CRASH : VERDICT_STOPPED;
			r->verdict.likely = true;
			report_problem(r, P_LIKELY, "the core does not say its own process number, so whether it sent the signal itself is not known");
		} else if (f->siginfo.pid == f->pid) {
			r->verdict.kind = VERDICT_CRASH;
		}
	} else if (signal_is_fault(signo)) {
		r->verdict.kind = VERDICT_CRASH;
	} else {
		r->verdict.title = str_printf(r->arena, STR_FMT "%s", STR_ARG(name), code == 0x80 ? " sent by the kernel (a terminal key or a limit)" : "");
	}
}

static void signal_facts(struct report *r, const struct image_facts *f, int signo)
{
	r->verdict.signal.sender_pid = r->verdict.signal.sender_uid = -1;
	if (!f->siginfo.known && !signo)
		return;
	r->verdict.signal.known = true;
	r->verdict.signal.number = f->siginfo.known ? f->siginfo.signo : signo;
	r->verdict.signal.name = signal_name(r->arena, r->verdict.signal.number);
	if (!f->siginfo.known)
		return;
	const char *code_name = signal_code_name(f->siginfo.signo, f->siginfo.code);
	r->verdict.signal.code = f->siginfo.code;
	if (code_name)
		r->verdict.signal.code_name = str_of(code_name);
	/* With SI_KERNEL si_addr is not the address that was used. */
	r->verdict.signal.has_addr = f->siginfo.has_addr && f->siginfo.code != 0x80;
	r->verdict.signal.addr = f->siginfo.addr;
	if (f->siginfo.has_sender) {
		r->verdict.signal.sender_pid = f->siginfo.pid;
		r->verdict.signal.sender_uid = f->siginfo.uid;
	}
}

/* What can be said without an analysis of what waits for what: who runs, who holds the GIL. */
static struct str snapshot_title(struct report *r, const struct image_facts *f)
{
	size_t n = 0, running = 0, stopped = 0; /* thread states without a thread are none */
	const struct report_thread *holder = NULL;
	for (size_t i = 0; i < r->threads.n; i++) {
		const struct report_thread *t = &r->threads.p[i];
		if (t->holds_gil)
			holder = t;
		if (t->again)
			continue;
		n += !t->stale && !t->starting;
		running += t->on_cpu && !t->stopped;
		stopped += t->stopped;
	}
	struct sb b = { 0 };
	sb_printf(&b, "taken by " STR_FMT ": ", STR_ARG(f->tool.s ? f->tool : STR("pysnap")));
	if (stopped && stopped == n)
		sb_printf(&b, "the process had been stopped by a signal (state T)");
	else if (running)
		sb_printf(&b, "%zu of %zu threads ran", running, n);
	else
		sb_printf(&b, n == 1 ? "its thread waited" : "all %zu threads waited", n);
	if (holder && holder->name.s)
		sb_printf(&b, "; \"" STR_FMT "\" held the GIL", STR_ARG(holder->name));
	else if (holder && holder->tid >= 0)
		sb_printf(&b, "; thread %" PRId64 " held the GIL", holder->tid);
	else if (holder)
		sb_printf(&b, "; thread 0x%" PRIx64 " held the GIL", holder->python_id);
	else if (r->interps.n == 1 && r->interps.p[0].gil_known && !r->interps.p[0].gil_locked)
		sb_printf(&b, "; the GIL was free");
	if (holder && holder->stale)
		sb_printf(&b, ", but that thread has ended");
	return sb_take(&b, r->arena);
}

/* The innermost frame of one kind, from where the thread crashed; NULL if there is none. */
static const struct report_frame *innermost(const struct report_thread *th, addr_t pc, bool python)
{
	const struct report_frame *f;
	struct inward w = inward_from(th, pc);
	while ((f = inward_next(&w)) && f->python != python)
		;
	return f;
}

void verdict_note(struct report *r, const char *key, struct str text)
{
	*vec_push(&r->verdict.notes) = (struct report_note){ key, text };
}

/*
 * A handler that ran on the crashed thread, and what it interrupted: the oldest fault, else the signal that ended the process when
 * the process had sent it to itself.  False: none.
 */
static bool handled_signal(struct target *t, struct report *r, const struct report_thread *th, const struct thread *native, struct signal_frame *ret)
{
	const struct image_facts *f = image_facts(t->img);
	const struct native_records *rec = NULL;
	struct signal_frame sf;
	bool found = false;
	addr_t from = 0;
	if (t->native && native_finish(t->native, &rec, NULL) < 0 && !rec)
		rec = NULL;
	const struct native_stack *s = rec && th->image && th->image <= rec->n_threads && rec->has[th->image - 1] ? &rec->stacks[th->image - 1] : NULL;
	for (unsigned n = 0; n < HANDLERS && signal_frame_next(t->img, native, from, &sf) == 0; n++) {
		from = sf.at + 8;
		/* Do the frames lead to it?  Where they end before, nobody can say. */
		bool led = !s || !s->n;
		for (size_t i = 1; s && i < s->n && !led; i++)
			led = rec->frames.p[s->first + i].pc == sf.regs.pc && !(rec->frames.p[s->first + i].bits & NATIVE_CALL);
		if (!led && s->end == NATIVE_WHOLE)
			continue;
		const bool sure = led && s && s->n;
		const int signo = sf.has_info ? sf.signo : f->siginfo.known && signal_is_fault(f->siginfo.signo) ? f->siginfo.signo
			: sf.trapped && sf.trap == TRAP_PAGE ? SIGSEGV : f->siginfo.known ? f->siginfo.signo : 0;
		struct instruction in = { 0 };
		if (!sf.has_info && sf.trapped && sf.trap == TRAP_DIVIDE && signal_is_fault(signo) &&
		    (signo != SIGFPE || (instruction_at(t->img, &sf.regs, false, 0, r->arena, &in) == 0 && !in.divides)))
			continue; /* no trap, so no fault */
		if (!sf.has_info) {
			sf.signo = signo;
			sf.code = sf.trapped && sf.trap == TRAP_PROTECTION ? SI_KERNEL : sf.trapped && sf.trap == TRAP_PAGE ? (int)(sf.error & 1) + 1
				: signal_is_fault(signo) ? 1 : SI_TKILL;
			if (sf.trapped && sf.trap != TRAP_PAGE)
				sf.addr = sf.regs.pc;
		}
		const bool own = sf.signo == SIGABRT && sf.code <= 0 && (!sf.has_info || sf.pid == f->pid);
		if (!sf.signo || !((signal_is_fault(sf.signo) && sf.code > 0) || own)) {
			if (sf.signo && sf.has_info)
				verdict_note(r, "handler", sf.code <= 0 && sf.pid != f->pid
					? str_printf(r->arena, "it came in a handler of " STR_FMT ", which pid %" PRId64 " had sent", STR_ARG(signal_name(r->arena, sf.signo)), sf.pid)
					: str_printf(r->arena, "it came in a handler of " STR_FMT, STR_ARG(signal_name(r->arena, sf.signo))));
			continue;
		}
		found = true;
		*ret = sf;
		r->verdict.likely |= !sure;
		if (!sure)
			report_problem(r, P_LIKELY, "a signal handler had run, and what it had interrupted was looked for on the stack, since native frames do not lead there");
	}
	return found;
}

/* The process went on after the crash, in a handler, and then ended in another way. */
static void ended_later(struct report *r, const struct image_facts *f, const struct signal_frame *sf, const struct report_thread *th)
{
	r->verdict.ended_by.known = r->verdict.signal.known;
	r->verdict.ended_by.name = r->verdict.signal.name;
	r->verdict.ended_by.number = r->verdict.signal.number;
	r->verdict.ended_by.code = r->verdict.signal.code;
	r->verdict.ended_by.sender_pid = r->verdict.signal.sender_pid;
	const char *code_name = signal_code_name(sf->signo, sf->code);
	r->verdict.signal.known = true;
	r->verdict.signal.number = sf->signo;
	r->verdict.signal.name = signal_name(r->arena, sf->signo);
	r->verdict.signal.code = sf->code;
	r->verdict.signal.code_name = code_name ? str_of(code_name) : (struct str){ 0 };
	r->verdict.signal.has_addr = signal_is_fault(sf->signo) && sf->code != SI_KERNEL;
	r->verdict.signal.addr = sf->addr;
	r->verdict.signal.sender_pid = sf->signo == SIGABRT ? f->pid : -1;
	r->verdict.signal.sender_uid = -1;
	/* The handler: the function right above what it interrupted. */
	struct str name = { 0 };
	const struct report_frame *fr;
	struct inward w = inward_from(th, 0);
	while ((fr = inward_next(&w)) && fr->pc != sf->regs.pc)
		if (!fr->python && fr->function.len && !str_is(fr->function, "__restore_rt") && fr->function.s[0] != '<')
			name = fr->function;
	if (!fr || abort_raises(name)) /* handlers often end with a jump to one, not a call */
		name = (struct str){ 0 };
	struct str then = f->siginfo.known && f->siginfo.has_sender && f->siginfo.pid != f->pid ? sent_by(r, f)
		: str_printf(r->arena, STR_FMT, STR_ARG(r->verdict.ended_by.name));
	verdict_note(r, "handler", name.s ? str_printf(r->arena, STR_FMT " ran then; the process ended by " STR_FMT, STR_ARG(name), STR_ARG(then))
		: str_printf(r->arena, "a signal handler ran then; the process ended by " STR_FMT, STR_ARG(then)));
}

/* What is said of the thread that crashed. */
static void crashed(struct target *t, struct report *r, const struct thread *native)
{
	const struct image_facts *f = image_facts(t->img);
	const struct report_thread *th = &r->threads.p[0];
	struct signal_frame sf;
	struct fault fault = { .signo = f->siginfo.signo, .code = f->siginfo.code, .has_addr = f->siginfo.has_addr, .addr = f->siginfo.addr, .regs = &native->regs };
	addr_t pc = native->regs.pc;
	const bool handler = handled_signal(t, r, th, native, &sf);
	if (handler) {
		ended_later(r, f, &sf, th);
		pc = sf.regs.pc;
		fault = (struct fault){ .signo = sf.signo, .code = sf.code, .has_addr = true, .addr = sf.addr, .regs = &sf.regs,
			.has_error = sf.trapped && sf.trap == TRAP_PAGE, .error = sf.error };
	}
	const struct str name = signal_name(r->arena, handler || f->siginfo.known ? fault.signo : r->verdict.signal.number);
	if ((handler || f->siginfo.known) && signal_is_fault(fault.signo) && fault.code > 0)
		r->verdict.title = fault_title(t, r, &fault);
	else if (!r->verdict.title.s || handler || r->verdict.signal.sender_pid == f->pid)
		r->verdict.title = r->verdict.signal.number == SIGABRT ? abort_title(t, r, th, pc) : str_printf(r->arena, STR_FMT ": the process sent it to itself", STR_ARG(name));
	if (!(signal_is_fault(fault.signo) && fault.code > 0))
		r->verdict.raised_by = abort_chain(r, th, pc);
	r->verdict.location = innermost(th, pc, true);
	r->verdict.native = innermost(th, pc, false);
	if (!r->verdict.location)
		r->verdict.location = r->verdict.native;
	if (r->verdict.native == r->verdict.location)
		r->verdict.native = NULL;
	r->verdict.culprit = crash_culprit(th, pc);
	crash_ids(t->img, r, th, pc);
	exceptions_add(t, r, th);
	collector_notes(t, r, th, fault.regs, &fault);
	life_notes(t, r, th);
}

static int run(struct target *t, const struct limits *lim, struct report *r)
{
	static const char *const word[] = { [VERDICT_UNKNOWN] = "UNKNOWN", [VERDICT_CRASH] = "CRASH", [VERDICT_STOPPED] = "STOPPED", [VERDICT_SNAPSHOT] = "SNAPSHOT" };
	const struct image_facts *f = image_facts(t->img);
	const struct thread *native;
	size_t n = image_threads(t->img, &native);
	int signo = n ? native[0].signo : 0;
	signal_facts(r, f, signo);
	if (f->kind == IMAGE_SNAPSHOT) {
		r->verdict.kind = VERDICT_SNAPSHOT;
		r->verdict.title = snapshot_title(r, f);
		r->verdict.signal.known = false;
	} else if (f->siginfo.known) {
		from_siginfo(r, f);
	} else if (n) {
		from_number(r, signo);
	} else {
		r->verdict.title = STR("the file does not say why the process ended");
	}
	r->verdict.word = str_of(word[r->verdict.kind]);
	for (size_t i = 0; i < r->threads.n; i++)
		r->threads.p[i].crashed &= r->verdict.kind == VERDICT_CRASH; /* else no thread is to blame: the main one is shown first */
	threads_sort(r);
	r->verdict.thread = r->threads.n ? 0 : (size_t)-1;
	r->verdict.tid = r->threads.n ? r->threads.p[0].tid : -1;
	if (r->threads.n && n && r->verdict.kind == VERDICT_CRASH) {
		crashed(t, r, native);
	} else if (r->threads.n) {
		r->verdict.location = innermost(&r->threads.p[0], 0, true);
		if (!r->verdict.location)
			r->verdict.location = innermost(&r->threads.p[0], 0, false);
	}
	if (!r->verdict.title.s)
		r->verdict.title = signal_name(r->arena, r->verdict.signal.number);
	return 0;
}

const struct inspection inspection_verdict = { "verdict", "what stopped the process and where", run };
