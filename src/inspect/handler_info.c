/*
 * Linux writes siginfo into a signal's frame only if the handler asked for it (SA_SIGINFO); x86-64's and aarch64's keep its place all the
 * same: x64_setup_rt_frame() of arch/x86/kernel/signal_64.c, setup_rt_frame() of arch/arm64/kernel/signal.c.  What lies there then is
 * left over: on a handler's own stack (sigaltstack) from what its memory was before, or from an earlier signal.  So something that was
 * written for this one has to agree: the last trap and the instruction, the signals that are held off while the handler runs (its own, if
 * it has no SA_NODEFER: signal_delivered() of kernel/signal.c), or the signal that it raised again.
 */
#include "inspect/handler_info.h"

#include <signal.h>

#include "image/signal_abi.h"
#include "inspect/fault.h"
#include "inspect/sending.h"
#include "inspect/trap.h"

/* What the thread holds off, and did not when the signal came; on machines of 32 bits of signals up to 32. */
static uint64_t held_since(struct image *img, const struct signal_frame *sf, int64_t tid)
{
	enum { SIGHOLD = 16 /* struct elf_prstatus: after pr_sigpend, which is a word */ };
	const struct abi *abi = image_abi(img);
	const struct thread *th;
	const size_t n = image_threads(img, &th), width = abi->width;
	for (size_t i = 0; i < n; i++) {
		struct cursor c = cursor_of(th[i].prstatus.p, th[i].prstatus.len, abi->big_endian);
		uint64_t held = 0;
		if (th[i].tid != tid)
			continue;
		if (cursor_skip(&c, SIGHOLD + width) < 0 || cursor_uint(&c, width, &held) < 0)
			return 0;
		return held & ~sf->mask;
	}
	return 0;
}

static bool has(uint64_t set, int signo)
{
	return signo >= 1 && signo <= 64 && set >> (signo - 1) & 1;
}

int handler_held_off(struct image *img, const struct signal_frame *sf, int64_t tid)
{
	const uint64_t set = held_since(img, sf, tid);
	return set && !(set & (set - 1)) ? __builtin_ctzll(set) + 1 : 0;
}

/* Do the trap and the instruction agree with a fault that siginfo tells of?  What the kernel itself refuses sets no trap: force_sig(). */
static enum trap_fit fault_fits(struct target *t, struct report *r, const struct signal_frame *sf)
{
	const struct signal_context *c = signal_context_of(image_abi(t->img));
	const bool x86 = c && c->traps, memory = sf->signo == SIGSEGV || sf->signo == SIGBUS, kernel = sf->code == SI_KERNEL;
	if (!memory && sf->signo != SIGTRAP && !kernel && sf->addr != sf->regs.pc)
		return TRAP_OTHER;
	if (!sf->trapped || (!x86 && !memory))
		return TRAP_UNDECIDED;
	if (!trap_is(sf->trap, sf->signo))
		return kernel || sf->signo == SIGTRAP ? TRAP_UNDECIDED : TRAP_OTHER;
	return memory && kernel == (sf->trap == TRAP_PAGE) ? TRAP_UNDECIDED : trap_fits(t, r, sf);
}

enum info_trust handler_info(struct target *t, struct report *r, const struct signal_frame *sf, int64_t tid, int last)
{
	enum { MOST = 32 /* a handler that holds off nearly all says nothing by it */ };
	const uint64_t held = held_since(t->img, sf, tid);
	const struct image_facts *f = image_facts(t->img);
	const bool named = has(held, sf->signo) && __builtin_popcountll(held) < MOST;
	const bool again = sf->signo == last && (!f->siginfo.known || (f->siginfo.signo == last && f->siginfo.code <= 0));
	if (sf->asked)
		return INFO_PROVED;
	enum trap_fit fit = TRAP_UNDECIDED;
	if (signal_is_fault(sf->signo) && sf->code > 0)
		fit = !sending_in_call(t->img, &sf->regs) ? fault_fits(t, r, sf) : sf->code == SI_KERNEL ? TRAP_UNDECIDED : TRAP_OTHER;
	if (fit == TRAP_FITS)
		return INFO_PROVED;
	if (fit == TRAP_OTHER)
		return sf->whole && named ? INFO_LIKELY : INFO_LEFT;
	/* What the handler holds off, and is not it, came: unless it lets that in again to raise it. */
	if (held && !has(held, sf->signo) && !again)
		return INFO_LEFT;
	if (sf->whole && (named || again))
		return INFO_PROVED;
	return sf->whole || named || again ? INFO_LIKELY : INFO_LEFT;
}
