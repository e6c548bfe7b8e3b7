/*
 * What stopped the process and where: a signal from outside is not a crash.  Facts: sigaction(2); which si_code has a sender
 * or an address: Linux include/uapi/asm-generic/siginfo.h.
 */
#include <inttypes.h>
#include <signal.h>

#include "inspect/parts.h"

struct code { int signo, code; const char *name, *words; };

static const struct code codes[] = {
	{ SIGSEGV, 1, "SEGV_MAPERR", "nothing is mapped there" },
	{ SIGSEGV, 2, "SEGV_ACCERR", "the mapping does not allow it" },
	{ SIGSEGV, 3, "SEGV_BNDERR", "outside of its bounds" },
	{ SIGSEGV, 4, "SEGV_PKUERR", "refused by a protection key" },
	{ SIGBUS, 1, "BUS_ADRALN", "not aligned" },
	{ SIGBUS, 2, "BUS_ADRERR", "past the end of the mapped file" },
	{ SIGBUS, 3, "BUS_OBJERR", "hardware error" },
	{ SIGBUS, 4, "BUS_MCEERR_AR", "memory failure" },
	{ SIGILL, 1, "ILL_ILLOPC", "illegal instruction" },
	{ SIGILL, 2, "ILL_ILLOPN", "illegal operand" },
	{ SIGILL, 3, "ILL_ILLADR", "illegal addressing mode" },
	{ SIGILL, 4, "ILL_ILLTRP", "illegal trap" },
	{ SIGILL, 5, "ILL_PRVOPC", "privileged instruction" },
	{ SIGFPE, 1, "FPE_INTDIV", "integer division by zero" },
	{ SIGFPE, 2, "FPE_INTOVF", "integer overflow" },
	{ SIGFPE, 3, "FPE_FLTDIV", "floating-point division by zero" },
	{ SIGFPE, 4, "FPE_FLTOVF", "floating-point overflow" },
	{ SIGFPE, 7, "FPE_FLTINV", "invalid floating-point operation" },
	{ SIGTRAP, 1, "TRAP_BRKPT", "breakpoint instruction" },
	{ SIGTRAP, 2, "TRAP_TRACE", "single step" },
	{ SIGSYS, 1, "SYS_SECCOMP", "a seccomp filter refused a system call" },
	{ 0, 0, "SI_USER", NULL },
	{ 0, 0x80, "SI_KERNEL", NULL },
	{ 0, -1, "SI_QUEUE", NULL },
	{ 0, -2, "SI_TIMER", NULL },
	{ 0, -6, "SI_TKILL", NULL },
};

static const struct code *code_of(int signo, int code)
{
	for (size_t i = 0; i < sizeof codes / sizeof *codes; i++)
		if ((codes[i].signo == signo || codes[i].signo == 0) && codes[i].code == code)
			return &codes[i];
	return NULL;
}

/* Linux numbers of the target; the same on every machine that registers.def has. */
static struct str signal_name(struct arena *a, int signo)
{
	static const char *const name[] = { "0", "HUP", "INT", "QUIT", "ILL", "TRAP", "ABRT", "BUS", "FPE", "KILL", "USR1", "SEGV", "USR2", "PIPE", "ALRM",
		"TERM", "STKFLT", "CHLD", "CONT", "STOP", "TSTP", "TTIN", "TTOU", "URG", "XCPU", "XFSZ", "VTALRM", "PROF", "WINCH", "IO", "PWR", "SYS" };
	if (signo > 0 && (size_t)signo < sizeof name / sizeof *name)
		return str_printf(a, "SIG%s", name[signo]);
	return str_printf(a, "signal %d", signo);
}

static bool is_fault(int signo)
{
	return signo == 11 || signo == 7 || signo == 4 || signo == 8 || signo == 5 || signo == 31;
}

static struct str fault_title(struct target *t, struct report *r, const struct image_facts *f, struct str name)
{
	const struct thread *th;
	size_t n = image_threads(t->img, &th);
	const struct code *c = code_of(f->siginfo.signo, f->siginfo.code);
	unsigned long long addr = f->siginfo.addr;
	if (f->siginfo.code == 0x80)
		return str_printf(r->arena, STR_FMT ": the processor refused an access; no address is given (often an address that is not canonical)", STR_ARG(name));
	if (f->siginfo.signo == 4 || f->siginfo.signo == 8 || f->siginfo.signo == 5)
		return str_printf(r->arena, STR_FMT ": %s at 0x%llx", STR_ARG(name), c && c->words ? c->words : "fault", addr);
	if (f->siginfo.signo == 31)
		return str_printf(r->arena, STR_FMT ": %s", STR_ARG(name), c && c->words ? c->words : "bad system call");
	struct str words = address_words(t->img, r->arena, addr, n ? th : NULL);
	if (!words.s && c && c->words)
		words = str_of(c->words);
	return words.s ? str_printf(r->arena, STR_FMT ": access to address 0x%llx (" STR_FMT ")", STR_ARG(name), addr, STR_ARG(words))
		: str_printf(r->arena, STR_FMT ": access to address 0x%llx", STR_ARG(name), addr);
}

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
	r->verdict.kind = is_fault(signo) || signo == 6 ? VERDICT_CRASH : VERDICT_STOPPED;
	r->verdict.title = str_printf(r->arena, STR_FMT ": the core does not say who sent it", STR_ARG(name));
	report_problem(r, P_LIKELY, "the core has no NT_SIGINFO note");
}

/*
 * What glibc printed before it called abort: a failed assertion, a malloc check, a buffer overflow.  `__abort_msg` points to
 * { unsigned size; char msg[]; } (glibc 2.36 sysdeps/posix/libc_fatal.c, include/stdlib.h: struct abort_msg_s).
 */
static struct str abort_message(struct target *t, struct arena *a)
{
	addr_t at;
	uint64_t ptr;
	char text[1025];
	if (modules_symbol(t->mods, "__abort_msg", &at, NULL, NULL) < 0 || image_read_ptr(t->img, at, &ptr) < 0 || !ptr)
		return (struct str){ 0 };
	int n = image_read_cstr(t->img, ptr + 4, text, sizeof text - 1);
	if (n == ERR_LIMIT)
		n = sizeof text - 1;
	while (n > 0 && (text[n - 1] == '\n' || text[n - 1] == ' '))
		n--;
	return n > 0 ? str_from_bytes(a, text, (size_t)n) : (struct str){ 0 };
}

static void from_siginfo(struct target *t, struct report *r, const struct image_facts *f)
{
	int signo = f->siginfo.signo, code = f->siginfo.code;
	struct str name = signal_name(r->arena, signo);
	bool outside = f->siginfo.has_sender && f->siginfo.pid != f->pid;
	if (signo == 19 || signo == 0) {
		r->verdict.kind = VERDICT_STOPPED;
		r->verdict.title = str_printf(r->arena, "the core was taken from a running process (by gcore or a debugger)");
	} else if (f->siginfo.has_sender && (code <= 0)) {
		if (f->pid < 0) {
			r->verdict.kind = signo == 6 ? VERDICT_CRASH : VERDICT_STOPPED;
			r->verdict.likely = true;
			r->verdict.title = str_printf(r->arena, STR_FMT " sent by pid %" PRId64, STR_ARG(name), f->siginfo.pid);
			report_problem(r, P_LIKELY, "the core does not say its own process number, so whether it sent the signal itself is not known");
		} else if (outside) {
			r->verdict.kind = VERDICT_STOPPED;
			r->verdict.title = f->siginfo.pid ? str_printf(r->arena, STR_FMT " sent by pid %" PRId64, STR_ARG(name), f->siginfo.pid)
				: str_printf(r->arena, STR_FMT " sent from outside (by the kernel, or from another pid namespace)", STR_ARG(name));
		} else {
			r->verdict.kind = VERDICT_CRASH;
			struct str said = signo == 6 ? abort_message(t, r->arena) : (struct str){ 0 };
			r->verdict.title = said.s ? str_printf(r->arena, STR_FMT ": aborted by the C library: " STR_FMT, STR_ARG(name), STR_ARG(said))
				: signo == 6 ? str_printf(r->arena, STR_FMT ": the process aborted itself (abort, a failed assertion or a fatal error)", STR_ARG(name))
				: str_printf(r->arena, STR_FMT ": the process sent it to itself", STR_ARG(name));
		}
	} else if (is_fault(signo)) {
		r->verdict.kind = VERDICT_CRASH;
		r->verdict.title = fault_title(t, r, f, name);
	} else {
		r->verdict.kind = VERDICT_STOPPED;
		r->verdict.title = str_printf(r->arena, STR_FMT "%s", STR_ARG(name), code == 0x80 ? " sent by the kernel (a terminal key or a limit)" : "");
	}
}

static void signal_facts(struct report *r, const struct image_facts *f, int signo)
{
	const struct code *c = f->siginfo.known ? code_of(f->siginfo.signo, f->siginfo.code) : NULL;
	r->verdict.signal.sender_pid = r->verdict.signal.sender_uid = -1;
	if (!f->siginfo.known && !signo)
		return;
	r->verdict.signal.known = true;
	r->verdict.signal.number = f->siginfo.known ? f->siginfo.signo : signo;
	r->verdict.signal.name = signal_name(r->arena, r->verdict.signal.number);
	if (!f->siginfo.known)
		return;
	r->verdict.signal.code = f->siginfo.code;
	if (c)
		r->verdict.signal.code_name = str_of(c->name);
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

/* The innermost frame of one kind; NULL if there is none. */
static const struct report_frame *innermost(const struct report_thread *th, bool python)
{
	for (size_t i = th->n_runs; i-- > 0;)
		for (size_t k = th->runs[i].n; k-- > 0;)
			if (th->runs[i].frames[k]->python == python)
				return th->runs[i].frames[k];
	return NULL;
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
		from_siginfo(t, r, f);
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
	r->verdict.tid = -1;
	if (r->threads.n) {
		const struct report_thread *th = &r->threads.p[0];
		r->verdict.tid = th->tid;
		r->verdict.location = innermost(th, true);
		if (r->verdict.kind == VERDICT_CRASH)
			r->verdict.native = innermost(th, false);
		if (!r->verdict.location)
			r->verdict.location = innermost(th, false);
		if (r->verdict.native == r->verdict.location)
			r->verdict.native = NULL;
		if (r->verdict.kind == VERDICT_CRASH)
			r->verdict.culprit = crash_culprit(th);
		if (r->verdict.kind == VERDICT_CRASH && n)
			crash_ids(t->img, r, th, native[0].regs.pc);
		if (r->verdict.kind == VERDICT_CRASH)
			exceptions_add(t, r, th);
	}
	return 0;
}

const struct inspection inspection_verdict = { "verdict", "what stopped the process and where", run };
