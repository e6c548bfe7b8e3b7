/*
 * What stopped the process and where: a signal from outside is not a crash.  Facts: sigaction(2); which si_code has a sender
 * or an address: Linux include/uapi/asm-generic/siginfo.h.
 */
#include <inttypes.h>
#include <signal.h>

#include "inspect/abort.h"
#include "inspect/arrival.h"
#include "inspect/collector.h"
#include "inspect/fault.h"
#include "inspect/gil.h"
#include "inspect/handler.h"
#include "inspect/handler_note.h"
#include "inspect/life.h"
#include "inspect/native.h"
#include "inspect/sending.h"

/* A core without NT_SIGINFO: only the signal's number is known, so who sent it is a guess. */
static void from_number(struct report *r, int signo)
{
	struct str name = signal_name(r->arena, signo);
	verdict_unsure(r, signo ? "the core has no NT_SIGINFO note" : "the core names no signal");
	if (signo == 0 || signo == 19 || signo == 5) {
		r->verdict.kind = VERDICT_STOPPED;
		r->verdict.title = str_printf(r->arena, "the core was taken from a running process (by gcore or a debugger)");
		return;
	}
	r->verdict.kind = signal_is_fault(signo) || signo == 6 ? VERDICT_CRASH : VERDICT_STOPPED;
	r->verdict.title = str_printf(r->arena, STR_FMT ": the core does not say who sent it", STR_ARG(name));
}

struct str verdict_sender(struct report *r, const struct image_facts *f)
{
	struct str name = signal_name(r->arena, f->siginfo.signo);
	if (!f->siginfo.pid)
		return str_printf(r->arena, STR_FMT " sent from outside (by the kernel, or from another pid namespace)", STR_ARG(name));
	return str_printf(r->arena, STR_FMT " sent by pid %" PRId64 " (uid %" PRId64 ")", STR_ARG(name), f->siginfo.pid, f->siginfo.uid);
}

/* The kind, and the title of all but a crash. */
static void from_siginfo(struct report *r, const struct image_facts *f)
{
	enum { TIMER = -2 /* SI_TIMER */ };
	int signo = f->siginfo.signo, code = f->siginfo.code;
	struct str name = signal_name(r->arena, signo);
	r->verdict.kind = VERDICT_STOPPED;
	if (signo == 19 || signo == 0) {
		r->verdict.title = str_printf(r->arena, "the core was taken from a running process (by gcore or a debugger)");
	} else if (code == TIMER) {
		r->verdict.kind = signal_is_fault(signo) ? VERDICT_CRASH : VERDICT_STOPPED;
		r->verdict.title = str_printf(r->arena, STR_FMT ": a timer of the process ran out (timer_create)", STR_ARG(name));
	} else if (f->siginfo.has_sender && code <= 0) {
		r->verdict.title = verdict_sender(r, f);
		if (f->pid < 0) {
			r->verdict.kind = signo == 6 ? VERDICT_CRASH : VERDICT_STOPPED;
			verdict_unsure(r, "the core does not say its own process number, so whether it sent the signal itself is not known");
		} else if (f->siginfo.pid == f->pid) {
			r->verdict.kind = VERDICT_CRASH;
		}
	} else if (signal_is_fault(signo)) {
		r->verdict.kind = VERDICT_CRASH;
	} else {
		r->verdict.title = str_printf(r->arena, STR_FMT "%s", STR_ARG(name), code != SI_KERNEL ? ""
			: signo == SIGXCPU ? " sent by the kernel (a limit of CPU time, RLIMIT_CPU or RLIMIT_RTTIME)" : " sent by the kernel (a terminal key or a limit)");
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
	r->verdict.signal.code_unknown = !f->siginfo.known;
	if (!f->siginfo.known)
		return;
	const char *code_name = signal_code_name(f->siginfo.signo, f->siginfo.code);
	r->verdict.signal.code = f->siginfo.code;
	if (code_name)
		r->verdict.signal.code_name = str_of(code_name);
	r->verdict.signal.has_addr = f->siginfo.has_addr && signal_gives_address(f->siginfo.signo, f->siginfo.code, f->siginfo.addr);
	r->verdict.signal.addr = f->siginfo.addr;
	if (f->siginfo.has_sender) {
		r->verdict.signal.sender_pid = f->siginfo.pid;
		r->verdict.signal.sender_uid = f->siginfo.uid;
	}
}

static bool ran_itself(const struct report_thread *t)
{
	return t->on_cpu && !t->stopped && !t->again;
}

/* Which they were, where the thread that stands first, and below, is none of them. */
static void ran(struct sb *b, const struct report *r, size_t running, size_t n)
{
	enum { NAMED = 3 };
	size_t named = 0;
	sb_printf(b, n == 1 ? "its thread ran" : "%zu of %zu threads ran", running, n);
	for (size_t i = 0; i < r->threads.n && running <= NAMED && n > 1 && !ran_itself(&r->threads.p[0]); i++) {
		const struct report_thread *t = &r->threads.p[i];
		if (!ran_itself(t))
			continue;
		sb_printf(b, named++ ? ", " : " (");
		if (t->name.s && !t->name_from_kernel)
			sb_printf(b, "\"" STR_FMT "\"", STR_ARG(str_quotable(r->arena, t->name)));
		else
			sb_printf(b, "%" PRId64, t->tid);
	}
	sb_printf(b, named ? ")" : "");
}

/* What can be said without an analysis of what waits for what: who runs, who holds the GIL.  The threads stand in their order. */
static struct str snapshot_title(struct report *r, const struct image_facts *f)
{
	size_t n = 0, running = 0, stopped = 0; /* thread states without a thread are none */
	const struct report_thread *holder = NULL;
	for (size_t i = 0; i < r->threads.n; i++) {
		const struct report_thread *t = &r->threads.p[i];
		if (t->holds_gil && !holder)
			holder = t;
		if (t->again)
			continue;
		n += !t->stale && !t->starting;
		running += ran_itself(t);
		stopped += t->stopped;
	}
	struct sb b = { 0 };
	sb_printf(&b, "taken by " STR_FMT ": ", STR_ARG(f->tool.s ? f->tool : STR("pysnap")));
	if (stopped && stopped == n)
		sb_printf(&b, "the process had been stopped by a signal (state T)");
	else if (running)
		ran(&b, r, running, n);
	else
		sb_printf(&b, n == 1 ? "its thread waited" : n == 2 ? "both threads waited" : "all %zu threads waited", n);
	if (holder && n == 1 && !holder->stale)
		sb_printf(&b, "; it held the GIL");
	else if (holder && holder->main && holder->name_from_kernel)
		sb_printf(&b, "; the main thread held the GIL");
	else if (holder && holder->name.s)
		sb_printf(&b, "; \"" STR_FMT "\" held the GIL", STR_ARG(str_quotable(r->arena, holder->name)));
	else if (holder && holder->tid >= 0)
		sb_printf(&b, "; thread %" PRId64 " held the GIL", holder->tid);
	else if (holder)
		sb_printf(&b, "; thread 0x%" PRIx64 " held the GIL", holder->python_id);
	else if (r->interps.n == 1 && r->interps.p[0].gil_known && !r->interps.p[0].gil_locked && !r->python.free_threaded)
		sb_printf(&b, "; the GIL was free");
	else if (r->interps.n == 1 && r->interps.p[0].gil_known && r->interps.p[0].gil_locked && !r->python.free_threaded)
		sb_printf(&b, "; who held the GIL is not known");
	if (holder && holder->stale)
		sb_printf(&b, ", but that thread has ended");
	return sb_take(&b, r->arena);
}

/* The innermost frame of one kind, from where the thread crashed; NULL if there is none. */
static const struct report_frame *innermost(const struct report_thread *th, addr_t pc, bool python)
{
	const struct report_frame *f;
	struct inward w = python ? inward_python_from(th, pc) : inward_from(th, pc);
	while ((f = inward_next(&w)) && f->python != python)
		;
	return f;
}

/* Where the verdict's place is in Python's library: the line of the program that led there. */
static void called_by(struct report *r, const struct report_thread *th, addr_t pc)
{
	const struct report_frame *at = r->verdict.location;
	if (at && at->python && python_library(at->file))
		r->verdict.called_by = outside_library(th, pc);
}

void verdict_unsure(struct report *r, const char *why)
{
	r->verdict.likely = r->verdict.ids_likely = true;
	report_problem(r, P_LIKELY, why);
}

void verdict_note(struct report *r, const char *key, struct str text)
{
	*vec_push(&r->verdict.notes) = (struct report_note){ key, text };
}

/* The path of the module that Python's data is in, as frames have it; s NULL if it is not known. */
static struct str interpreter_path(struct target *t, struct report *r)
{
	const struct module *m = t->py && t->mods ? modules_at(t->mods, t->py->runtime ? t->py->runtime : t->py->types.type) : NULL;
	return m && m->path.len ? str_from_bytes(r->arena, m->path.p, m->path.len) : (struct str){ 0 };
}

/* A crash where no code is: the frame whose call, or that of a function it called, went there; and that function. */
static void came_from(struct target *t, struct report *r, const struct report_thread *th, const struct regs *regs)
{
	struct inward w = inward_from(th, regs->pc);
	const struct report_frame *first = inward_next(&w), *f = first ? inward_next(&w) : NULL;
	if (!f || first->python || f->python || first->pc != regs->pc || ((first->function.len || first->module.len) && !fault_in_data(t->img, regs->pc)))
		return;
	const struct arrival a = arrival_at(t, regs);
	if (!a.after || f->pc != a.after)
		return;
	r->verdict.caller = f;
	r->verdict.called = a.another ? CALLED_ANOTHER : a.how == ARRIVED_CALL ? CALLED_IT : CALLED_EITHER;
	if (!a.callee)
		return;
	struct report_frame *callee = arena_alloc(r->arena, sizeof *callee);
	*callee = *native_frame_at(t, r, a.callee);
	callee->found_by = NULL;
	callee->likely = false;
	r->verdict.callee = callee;
}

/*
 * Did a thread of the process send the signal, and not the one that it came to?  That one stands in a function that is known and sends
 * none.  A signal that was held off comes later than it was sent, where it no longer is.  Where the function has no name its system call
 * has a number.
 */
static bool sent_from_elsewhere(struct target *t, const struct report *r, const struct thread *native)
{
	static const char *const lets_in[] = { "sigprocmask", "__sigprocmask", "pthread_sigmask", "__pthread_sigmask", "__GI___pthread_sigmask", "sigsuspend", "__sigsuspend",
		"siglongjmp", "setcontext", "__setcontext", "__restore_rt" };
	const struct image_facts *f = image_facts(t->img);
	const struct thread *all;
	const struct report_frame *at = r->verdict.native;
	if (!f->siginfo.known || f->siginfo.code > 0 || f->pid < 0 || f->siginfo.pid != f->pid || image_threads(t->img, &all) < 2 || r->verdict.raised_by.s ||
	    !at || !at->module.s || sending_to(t->img, &native->regs, f->pid, native->tid, f->siginfo.signo) != SENDS_NO)
		return false;
	if (!at->function.len || at->function.s[0] == '<')
		return sending_lets_none_in(t->img, &native->regs);
	for (size_t i = 0; i < sizeof lets_in / sizeof *lets_in; i++)
		if (str_is(str_function(at->function), lets_in[i]))
			return false;
	return true;
}

/* The process sent the signal to itself: may that have been a handler that is not seen, of a fault or a signal from outside?  Then the title says so. */
static bool maybe_passed_on(struct target *t, struct report *r, const struct report_thread *th, const struct thread *native)
{
	const struct image_facts *f = image_facts(t->img);
	if (!f->siginfo.known || !f->siginfo.has_sender || f->siginfo.code > 0 || f->pid < 0 || f->siginfo.pid != f->pid ||
	    (f->siginfo.signo == SIGABRT && !str_is(r->verdict.title, ABORT_ITSELF) && !str_is(r->verdict.title, ABORT_SENT)))
		return false;
	const char *why = handler_unseen(t, r, th, native);
	if (!why)
		return false;
	r->verdict.title = str_printf(r->arena, STR_FMT ": the process sent it to itself; a handler may have passed on what came before: %s", STR_ARG(r->verdict.signal.name), why);
	verdict_unsure(r, "the process sent the signal to itself; whether it did so by a handler of a fault, or of a signal from outside, only the thread's whole stack and native frames show");
	if (!t->native && !t->native_err.code)
		r->problems.p[r->problems.n - 1].hint = STR("without --show=-native: C frames may tell");
	return true;
}

/* What is said of the thread that crashed. */
static void crashed(struct target *t, struct report *r, const struct thread *native, const struct interrupted *in)
{
	const struct image_facts *f = image_facts(t->img);
	const struct report_thread *th = &r->threads.p[0];
	struct fault fault = { .signo = f->siginfo.signo, .code = f->siginfo.code, .has_addr = f->siginfo.has_addr, .addr = f->siginfo.addr, .regs = &native->regs, .tid = native->tid };
	addr_t pc = native->regs.pc;
	if (in) {
		handler_said(r, f, in, th);
		pc = in->regs.pc;
		fault = (struct fault){ .signo = in->signo, .code = in->code, .has_addr = true, .addr = in->addr, .regs = &in->regs, .tid = native->tid, .has_error = in->has_error, .error = in->error };
	}
	struct nested nested;
	if (!in && handler_nested(t, th, native, &nested)) {
		fault.no_room = nested.no_room;
		handler_nested_note(t, r, native, &nested);
	} else if (!in) {
		handler_left_note(t, r, th, native);
	}
	const struct str name = signal_name(r->arena, in || f->siginfo.known ? fault.signo : r->verdict.signal.number);
	enum crash_kind kind = (in && in->untold) || (!in && !f->siginfo.known) ? CRASH_UNTOLD : CRASH_SENT;
	if (in && in->untold) {
		r->verdict.title = str_printf(r->arena, STR_FMT ": a fault, or sent by another process: which is not in the core", STR_ARG(name));
	/* A signal that was sent comes to no thread that stands there: it could not go on. */
	} else if (!in && !f->siginfo.known && r->verdict.signal.number == SIGSEGV && pc < FAULT_NULL_PAGE && native->regs.sp && native->regs.known) {
		fault = (struct fault){ .signo = SIGSEGV, .code = 1, .has_addr = true, .addr = pc, .regs = &native->regs };
		r->verdict.title = fault_title(t, r, &fault);
		kind = CRASH_NULL;
	} else if ((in || f->siginfo.known) && signal_is_fault(fault.signo) && fault.code > 0) {
		r->verdict.title = fault_title(t, r, &fault);
		kind = fault.overflow ? CRASH_OVERFLOW : !fault.fetched ? CRASH_FAULT : fault.addr < FAULT_NULL_PAGE ? CRASH_NULL : CRASH_WILD;
	} else if (!r->verdict.title.s || in || r->verdict.signal.sender_pid == f->pid) {
		r->verdict.title = r->verdict.signal.number == SIGABRT ? abort_title(t, r, th, pc) : str_printf(r->arena, STR_FMT ": the process sent it to itself", STR_ARG(name));
	}
	const bool passed = !in && maybe_passed_on(t, r, th, native);
	if (!(signal_is_fault(fault.signo) && fault.code > 0) && !(in && in->untold))
		r->verdict.raised_by = abort_chain(r, th, pc);
	r->verdict.location = innermost(th, pc, true);
	r->verdict.native = innermost(th, pc, false);
	called_by(r, th, pc);
	if (!in && !passed && sent_from_elsewhere(t, r, native)) {
		r->verdict.title = str_printf(r->arena, STR_FMT ": the process sent it to itself, likely by another thread than this one", STR_ARG(name));
		verdict_unsure(r, "the thread that the signal came to does not stand where it sends one");
	}
	if (!r->verdict.location)
		r->verdict.location = r->verdict.native;
	if (r->verdict.native == r->verdict.location)
		r->verdict.native = NULL;
	if (kind == CRASH_NULL || kind == CRASH_WILD) /* code may be in a file that is not known */
		came_from(t, r, th, fault.regs);
	const struct report_frame *callee = r->verdict.callee;
	r->verdict.culprit = callee && callee->module.len && module_is_other(str_base(callee->module)) ? callee->module
		: crash_culprit(th, pc, fault.fetched, r->verdict.caller, &r->verdict.culprit_likely);
	if (t->py) /* without Python's frames one crash in libc is like another */
		crash_ids(t->img, r, th, pc, kind);
	handler_of_others(t, r, th);
	exceptions_add(t, r, th, fault.regs);
	const struct str interpreter = interpreter_path(t, r);
	gil_notes(t, r, th, pc, interpreter);
	collector_notes(t, r, th, fault.regs, &fault, interpreter);
	life_notes(t, r, th);
}

/* Where the signal came to another thread than that which ended the process: that one; NULL: not known, or they are the same. */
static struct report_thread *from_another(struct target *t, struct report *r, const struct thread *native, int64_t sender)
{
	bool sends;
	const size_t i = handler_elsewhere(t, r, sender, &sends);
	struct report_thread *found = NULL;
	for (size_t k = 0; k < r->threads.n && i; k++)
		if (r->threads.p[k].image == i + 1 && !found)
			found = &r->threads.p[k];
	if (!found)
		return NULL;
	for (size_t k = 0; k < r->threads.n; k++)
		r->threads.p[k].crashed = r->threads.p[k].tid == found->tid;
	verdict_note(r, "signal", str_printf(r->arena, "it came to thread %" PRId64, (int64_t)native[0].tid));
	if (!sends)
		verdict_unsure(r, "another thread than the one that got the signal was in a handler of a fault");
	return found;
}

static int run(struct target *t, const struct limits *lim, struct report *r)
{
	static const char *const word[] = { [VERDICT_UNKNOWN] = "UNKNOWN", [VERDICT_CRASH] = "CRASH", [VERDICT_STOPPED] = "STOPPED", [VERDICT_SNAPSHOT] = "SNAPSHOT" };
	const struct image_facts *f = image_facts(t->img);
	const struct thread *native;
	size_t n = image_threads(t->img, &native);
	int signo = n ? native[0].signo : 0;
	input_damage(t, r); /* what reading all threads has found */
	signal_facts(r, f, signo);
	if (f->kind == IMAGE_SNAPSHOT) {
		r->verdict.kind = VERDICT_SNAPSHOT;
		r->verdict.signal.known = false;
	} else if (f->siginfo.known) {
		from_siginfo(r, f);
	} else if (n && (signo || !f->truncated)) {
		from_number(r, signo);
	} else {
		r->verdict.title = STR("the file does not say why the process ended");
	}
	struct interrupted in;
	struct report_thread *at = NULL;
	for (size_t i = 0; i < r->threads.n && n && r->verdict.kind == VERDICT_CRASH; i++)
		if (r->threads.p[i].crashed && !at)
			at = &r->threads.p[i];
	bool handler = at && handler_find(t, r, at, native, &in);
	struct report_thread *other = at && (!handler || in.other_tid > 0) ? from_another(t, r, native, handler ? in.other_tid : 0) : NULL;
	if (other) {
		at = other;
		native += at->image - 1;
		handler = at->handled = handler_find(t, r, at, native, &in) && !in.outside;
	}
	if (handler && in.outside) {
		handler_said(r, f, &in, at);
		r->verdict.kind = VERDICT_STOPPED;
		r->verdict.title = handler_sender(r, &in);
	}
	r->verdict.word = str_of(word[r->verdict.kind]);
	/* A debugger writes its core without a signal: nothing came to the thread that it names first. */
	const bool came = r->verdict.signal.known && r->verdict.signal.number != 0 && r->verdict.signal.number != SIGSTOP && r->verdict.signal.number != SIGTRAP;
	for (size_t i = 0; i < r->threads.n; i++) {
		r->threads.p[i].crashed &= r->verdict.kind == VERDICT_CRASH;
		r->threads.p[i].signalled &= r->verdict.kind == VERDICT_CRASH || (r->verdict.kind == VERDICT_STOPPED && came);
	}
	/* Of a signal to the whole process the kernel chooses the thread, mostly the main one; tgkill(2) names one. */
	const bool named = came && (handler ? in.code : f->siginfo.code) == SI_TKILL && (handler || f->siginfo.known);
	threads_sort(r, r->verdict.kind == VERDICT_CRASH || named);
	if (f->kind == IMAGE_SNAPSHOT)
		r->verdict.title = snapshot_title(r, f);
	exceptions_handling(t, r);
	r->verdict.thread = r->threads.n ? 0 : (size_t)-1;
	r->verdict.tid = r->threads.n ? r->threads.p[0].tid : -1;
	if (r->threads.n && n && r->verdict.kind == VERDICT_CRASH) {
		crashed(t, r, native, handler ? &in : NULL);
	} else if (r->threads.n) {
		r->verdict.location = innermost(&r->threads.p[0], 0, true);
		called_by(r, &r->threads.p[0], 0);
		if (!r->verdict.location)
			r->verdict.location = innermost(&r->threads.p[0], 0, false);
		handler_of_others(t, r, NULL); /* one that hangs in the handler of its crash until somebody ends it */
		life_notes(t, r, &r->threads.p[0]);
	}
	if (!r->verdict.title.s)
		r->verdict.title = signal_name(r->arena, r->verdict.signal.number);
	return 0;
}

const struct inspection inspection_verdict = { "verdict", "what stopped the process and where", run };
