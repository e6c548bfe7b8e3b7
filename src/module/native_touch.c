/*
 * Memory that may not be read: a handler of SIGSEGV takes down what was wanted and lets the one instruction have it, by the processor's
 * trap after it (x86-64); elsewhere, or if that is not asked for, the page stays readable and counts as read whole.
 */
#include "module/native_touch.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

enum { PAGE = 4096, BLOCK = 32 /* the most that an instruction reads at once */, COPIES_MAX = 1024, OPEN_MAX = 8, TRAP_FLAG = 0x100 };

static struct {
	bool on, exact;
	struct sigaction old, old_trap;
	struct copy { uint8_t *base; size_t span; addr_t at; uint8_t *touched; /* by block */ } copy[COPIES_MAX];
	size_t n;
	uint8_t *open[OPEN_MAX]; /* pages, for the instruction that is under way */
	size_t n_open;
} touch;

static void wanted(int signo, siginfo_t *info, void *context)
{
	uint8_t *at = info->si_addr;
	for (size_t i = 0; i < touch.n; i++) {
		struct copy *c = &touch.copy[i];
		if (at < c->base || at >= c->base + c->span)
			continue;
		const size_t offset = (size_t)(at - c->base);
		uint8_t *page = c->base + offset / PAGE * PAGE;
		if (mprotect(page, PAGE, PROT_READ) != 0)
			break;
#if defined(__x86_64__)
		if (touch.exact && touch.n_open < OPEN_MAX) {
			memset(c->touched + offset / BLOCK, 1, 2); /* it may reach into the next */
			touch.open[touch.n_open++] = page;
			((ucontext_t *)context)->uc_mcontext.gregs[REG_EFL] |= TRAP_FLAG;
			return;
		}
#endif
		memset(c->touched + offset / PAGE * (PAGE / BLOCK), 1, PAGE / BLOCK);
		return;
	}
	(void)context;
	sigaction(signo, &touch.old, NULL); /* a fault of another kind: it comes again */
}

#if defined(__x86_64__)
static void done(int signo, siginfo_t *info, void *context)
{
	(void)signo, (void)info;
	for (size_t i = 0; i < touch.n_open; i++)
		mprotect(touch.open[i], PAGE, PROT_NONE);
	touch.n_open = 0;
	((ucontext_t *)context)->uc_mcontext.gregs[REG_EFL] &= ~(greg_t)TRAP_FLAG;
}
#endif

void touch_begin(bool exact)
{
	touch.exact = exact;
	struct sigaction act = { .sa_sigaction = wanted, .sa_flags = SA_SIGINFO };
	touch.on = sigaction(SIGSEGV, &act, &touch.old) == 0;
#if defined(__x86_64__)
	act.sa_sigaction = done;
	touch.on = touch.on && sigaction(SIGTRAP, &act, &touch.old_trap) == 0;
#endif
}

void touch_watch(void *base, size_t span, addr_t at)
{
	if (!touch.on || touch.n == COPIES_MAX || at % PAGE)
		return;
	const size_t blocks = span / BLOCK + 2;
	struct copy c = { base, span, at, xcalloc(blocks, 1) };
	touch.copy[touch.n++] = c;
	if (mprotect(base, span, PROT_NONE) != 0)
		memset(c.touched, 1, blocks); /* all of it is kept then */
}

void touch_end(struct image *img)
{
	uint8_t b[BLOCK];
	for (size_t i = 0; i < touch.n; i++) {
		struct copy *c = &touch.copy[i];
		mprotect(c->base, c->span, PROT_READ | PROT_WRITE);
		for (size_t k = 0; k < c->span / BLOCK; k++)
			if (c->touched[k])
				(void)!image_read(img, c->at + k * BLOCK, b, BLOCK);
		free(c->touched);
	}
	touch.n = 0;
	if (touch.on) {
		sigaction(SIGSEGV, &touch.old, NULL);
#if defined(__x86_64__)
		sigaction(SIGTRAP, &touch.old_trap, NULL);
#endif
	}
	touch.on = false;
}
