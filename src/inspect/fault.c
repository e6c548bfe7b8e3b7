/*
 * A fault in words: the signal, what the instruction wanted of which address, and what is there.  Facts: sigaction(2); which
 * si_code has an address: Linux include/uapi/asm-generic/siginfo.h.
 */
#include <signal.h>

#include "inspect/arrival.h"
#include "inspect/fault.h"
#include "inspect/instruction.h"
#include "inspect/sending.h"

struct code { int signo, code; const char *name, *words; };

static const struct code codes[] = {
	{ SIGSEGV, 1, "SEGV_MAPERR", "nothing is mapped there" },
	{ SIGSEGV, 2, "SEGV_ACCERR", "the mapping does not allow it" },
	{ SIGSEGV, 3, "SEGV_BNDERR", "outside of its bounds" },
	{ SIGSEGV, 4, "SEGV_PKUERR", "refused by a protection key" },
	{ SIGBUS, 1, "BUS_ADRALN", "not aligned" },
	{ SIGBUS, 2, "BUS_ADRERR", "past the end of the mapped file, or its file system is full or failed" }, /* do_sigbus() of Linux: one code for all that keeps a page away */
	{ SIGBUS, 3, "BUS_OBJERR", "hardware error" },
	{ SIGBUS, 4, "BUS_MCEERR_AR", "memory failure" },
	{ SIGILL, 1, "ILL_ILLOPC", "illegal instruction" },
	{ SIGILL, 2, "ILL_ILLOPN", "illegal operand" },
	{ SIGILL, 3, "ILL_ILLADR", "illegal addressing mode" },
	{ SIGILL, 4, "ILL_ILLTRP", "illegal trap" },
	{ SIGILL, 5, "ILL_PRVOPC", "privileged instruction" },
	{ SIGFPE, 1, "FPE_INTDIV", "integer division by zero or overflow" },
	{ SIGFPE, 2, "FPE_INTOVF", "integer overflow" },
	{ SIGFPE, 3, "FPE_FLTDIV", "floating-point division by zero" },
	{ SIGFPE, 4, "FPE_FLTOVF", "floating-point overflow" },
	{ SIGFPE, 5, "FPE_FLTUND", "floating-point underflow" },
	{ SIGFPE, 6, "FPE_FLTRES", "inexact floating-point result" },
	{ SIGFPE, 7, "FPE_FLTINV", "invalid floating-point operation" },
	{ SIGFPE, 14, "FPE_FLTUNK", "a floating-point exception" },
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
struct str signal_name(struct arena *a, int signo)
{
	static const char *const name[] = { "0", "HUP", "INT", "QUIT", "ILL", "TRAP", "ABRT", "BUS", "FPE", "KILL", "USR1", "SEGV", "USR2", "PIPE", "ALRM",
		"TERM", "STKFLT", "CHLD", "CONT", "STOP", "TSTP", "TTIN", "TTOU", "URG", "XCPU", "XFSZ", "VTALRM", "PROF", "WINCH", "IO", "PWR", "SYS" };
	if (signo > 0 && (size_t)signo < sizeof name / sizeof *name)
		return str_printf(a, "SIG%s", name[signo]);
	return str_printf(a, "SIG%d", signo); /* real-time ones, by which name gdb knows them too */
}

bool signal_is_fault(int signo)
{
	return signo == 11 || signo == 7 || signo == 4 || signo == 8 || signo == 5 || signo == 31;
}

bool signal_gives_address(int signo, int code, addr_t addr)
{
	/* x86 tells an alignment check so: exc_alignment_check() of Linux arch/x86/kernel/traps.c */
	return code != SI_KERNEL && !(signo == SIGBUS && code == 1 && !addr);
}

const char *signal_code_name(int signo, int code)
{
	const struct code *c = code_of(signo, code);
	return c ? c->name : NULL;
}

static bool is_code(struct image *img, addr_t addr)
{
	const struct segment *seg = image_segment_at(img, addr);
	const struct mapping *m = image_mapping_at(img, addr);
	return (seg && seg->prot & 4) || (m && m->prot & 4);
}

bool fault_in_data(const struct image *img, addr_t pc)
{
	struct mapped m;
	return image_mapped_at(img, pc, &m) == 0 && !(m.prot & 4);
}

static const char *const access_word[] = { [ACCESS_READ] = "read", [ACCESS_WRITE] = "write", [ACCESS_BOTH] = "read-write", [ACCESS_EXEC] = "exec" };
static const char *const access_title[] = {
	[ACCESS_UNKNOWN] = "access to", [ACCESS_READ] = "read of", [ACCESS_WRITE] = "write to", [ACCESS_BOTH] = "read and write of",
	[ACCESS_EXEC] = "execution of",
};

static enum access access_by_error(uint64_t error)
{
	enum { WRITE = 2, FETCH = 16 }; /* Linux arch/x86/include/asm/trap_pf.h */
	return error & FETCH ? ACCESS_EXEC : error & WRITE ? ACCESS_WRITE : ACCESS_READ;
}

/* No address is given: what the instruction shows of one. */
static struct str title_without_address(struct image *img, struct report *r, const struct instruction *in, enum access access, struct str name, bool alignment)
{
	unsigned long long at = in->address, to = in->target;
	if (in->has_address && in->multiple)
		return str_printf(r->arena, STR_FMT ": %s address 0x%llx, which the instruction wants to be a multiple of %u", STR_ARG(name), access_title[access], at, in->multiple);
	if (in->has_address)
		return str_printf(r->arena, STR_FMT ": %s address 0x%llx (no memory can have such an address)", STR_ARG(name), access_title[access], at);
	if (in->transfer && in->target && address_is_wild(image_abi(img), in->target)) {
		r->verdict.access = access_word[ACCESS_EXEC];
		return str_printf(r->arena, STR_FMT ": %s to 0x%llx (no memory can have such an address)", STR_ARG(name), in->transfer, to);
	}
	if (alignment)
		return str_printf(r->arena, STR_FMT ": an access that is not aligned; no address is given", STR_ARG(name));
	if (in->privileged)
		return str_printf(r->arena, STR_FMT ": privileged instruction %s, which only the kernel may execute", STR_ARG(name), in->mnemonic);
	if (in->mnemonic && in->checked)
		return str_printf(r->arena, STR_FMT ": the processor refused the instruction %s, or what it loads; no address is given", STR_ARG(name), in->mnemonic);
	if (in->mnemonic && in->no_memory && !in->transfer)
		return str_printf(r->arena, STR_FMT ": the processor refused the instruction %s, which accesses no memory", STR_ARG(name), in->mnemonic);
	if (in->mnemonic)
		return str_printf(r->arena, STR_FMT ": the processor refused an access; no address is given (often an address that is not canonical)", STR_ARG(name));
	return str_printf(r->arena, STR_FMT ": the processor refused an instruction; no address is given (often an address that is not canonical, else a privileged instruction)",
			  STR_ARG(name));
}

/*
 * What trapped, where pc is after it: int3 (force_sig(SIGTRAP) of Linux arch/x86/kernel/traps.c, which gives no code and no address), and
 * a system call that seccomp refused.  false: what pc leads to is what would have come next.
 */
static bool step_back(struct image *img, int signo, int code, struct regs *regs)
{
	enum { I386 = 3, X86_64 = 62 };
	const struct abi *abi = image_abi(img);
	uint8_t b[2];
	if (abi->machine != X86_64 && abi->machine != I386)
		return true;
	if (signo == SIGTRAP && code == SI_KERNEL) {
		if (image_read(img, regs->pc - 1, b, 1) < 0 || b[0] != 0xcc)
			return false;
		regs->pc--;
	} else if (signo == SIGSYS) {
		/* syscall, sysenter, int 0x80 */
		if (image_read(img, regs->pc - 2, b, 2) < 0 || !((b[0] == 0x0f && (b[1] == 0x05 || b[1] == 0x34)) || (b[0] == 0xcd && b[1] == 0x80)))
			return false;
		regs->pc -= 2;
	}
	return true;
}

/* A fault of the instruction itself, not of memory. */
static struct str title_of_code(struct image *img, struct report *r, struct fault *f, const struct instruction *in, const char *words, bool none)
{
	const struct str name = signal_name(r->arena, f->signo);
	struct regs before = f->regs ? *f->regs : (struct regs){ 0 };
	addr_t at = f->addr;
	if (f->signo == SIGFPE && f->code == 1 && in->divisor_known)
		words = in->divisor ? "overflow of an integer division" : "integer division by zero";
	if (none && f->signo == SIGTRAP && f->regs && step_back(img, f->signo, f->code, &before) && before.pc != f->regs->pc) {
		words = "breakpoint instruction";
		at = before.pc;
		f->at_known = true;
		f->at = at;
	} else if (none) {
		return str_printf(r->arena, STR_FMT ": %s; no address is given", STR_ARG(name), words ? words : "sent by the kernel");
	}
	return str_printf(r->arena, STR_FMT ": %s at 0x%llx", STR_ARG(name), words ? words : "fault", (unsigned long long)at);
}

static struct str title_of_call(struct image *img, struct report *r, const struct fault *f, const struct code *c, struct str name)
{
	const int64_t nr = f->regs && c ? sending_refused(img, f->regs) : -1;
	const char *call = nr >= 0 ? syscall_name(image_abi(img), nr) : NULL;
	if (nr < 0)
		return str_printf(r->arena, STR_FMT ": %s", STR_ARG(name), c ? c->words : "bad system call");
	return str_printf(r->arena, STR_FMT ": %s: number %lld%s%s%s", STR_ARG(name), c->words, (long long)nr, call ? " (" : "", call ? call : "", call ? ")" : "");
}

struct str fault_title(struct target *t, struct report *r, struct fault *f)
{
	const struct code *c = code_of(f->signo, f->code);
	const struct str name = signal_name(r->arena, f->signo);
	unsigned long long addr = f->addr;
	bool none = !signal_gives_address(f->signo, f->code, f->addr);
	int code = f->code;
	struct instruction in = { 0 };
	enum access access = ACCESS_UNKNOWN;
	f->fetched = f->regs && f->has_addr && !none && f->regs->pc == f->addr && !is_code(t->img, f->addr);
	struct regs at = f->regs ? *f->regs : (struct regs){ 0 };
	const bool shown = f->regs && !f->fetched && step_back(t->img, f->signo, f->code, &at);
	if (shown && instruction_at(t->img, &at, f->has_addr && !none, f->addr, r->arena, &in) == 0) {
		r->verdict.instruction = in.text;
		r->verdict.operands = in.operands;
	}
	f->overflow = f->no_room;
	if (f->no_room)
		return str_printf(r->arena, STR_FMT ": stack overflow: no room was left for the frame of a signal handler", STR_ARG(name));
	f->at_known = in.has_address || (f->has_addr && !none);
	f->at = in.has_address ? in.address : f->addr;
	if (f->signo == SIGILL || f->signo == SIGFPE || f->signo == SIGTRAP)
		return title_of_code(t->img, r, f, &in, c ? c->words : NULL, none);
	if (f->signo == SIGSYS)
		return title_of_call(t->img, r, f, c, name);
	/* force_sigsegv() of Linux kernel/signal.c: the stack for its handler could not be written to. */
	if (none && f->signo == SIGSEGV && in.unmapped) {
		verdict_note(r, "handler", STR("a handler of it could not be run, since there was no room for it on the stack"));
		none = false;
		addr = in.address;
		code = 1;
		c = code_of(f->signo, code);
	}
	const bool fetched = f->fetched;
	uint8_t byte;
	/* A page of code that its file has no more. */
	const bool gone = f->regs && f->signo == SIGBUS && !none && f->regs->pc == addr && image_read(t->img, addr, &byte, 1) < 0;
	access = fetched || gone ? ACCESS_EXEC : f->has_error ? access_by_error(f->error) : in.access;
	r->verdict.access = access_word[access];
	if (none)
		return title_without_address(t->img, r, &in, access, name, f->signo == SIGBUS && f->code == 1);
	struct str words = address_words(t->img, r->arena, addr, f->signo == SIGSEGV && code == 1, f->regs, f->tid);
	f->overflow = address_is_overflow(words);
	const bool nowhere = fetched && f->signo != SIGBUS; /* of which the kernel knows that a mapping is there */
	if (nowhere && addr && addr < FAULT_NULL_PAGE)
		words = str_printf(r->arena, "%s an address " STR_FMT, arrival_words(arrival_at(t, f->regs).how), STR_ARG(words));
	else if (nowhere)
		words = str_printf(r->arena, "%s %s", arrival_words(arrival_at(t, f->regs).how), !addr ? "a null pointer"
			: image_segment_at(t->img, addr) || (f->signo == SIGSEGV && code == 2) ? "memory that is no code" : "unmapped memory");
	else if ((!words.s || (f->signo == SIGSEGV && code == 2 && addr >= FAULT_NULL_PAGE && !f->overflow)) && c && c->words)
		words = str_of(c->words); /* SEGV_ACCERR: it is in a mapping, so not past the end of one that the core has */
	return words.s ? str_printf(r->arena, STR_FMT ": %s address 0x%llx (" STR_FMT ")", STR_ARG(name), access_title[access], addr, STR_ARG(words))
		: str_printf(r->arena, STR_FMT ": %s address 0x%llx", STR_ARG(name), access_title[access], addr);
}
