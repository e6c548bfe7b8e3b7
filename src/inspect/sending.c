/* The system call that a thread stands at, by image/signal_abi.h. */
#include "inspect/sending.h"

#include <string.h>

#include "image/signal_abi.h"

enum there { NO, YES, ABSENT /* code, but not at hand */ };

static enum there code_at(struct image *img, addr_t at, const struct signal_call *s)
{
	uint8_t b[sizeof s->code];
	if (image_read(img, at, b, s->size) == 0)
		return memcmp(b, s->code, s->size) == 0 ? YES : NO;
	const struct mapping *m = image_mapping_at(img, at);
	return m && m->prot & 4 ? ABSENT : NO;
}

/* The call that was made just before pc, or may have been, where the code is not at hand; NULL: none. */
static const struct signal_call *call_before(struct image *img, addr_t pc)
{
	const struct signal_call *s, *maybe = NULL;
	for (size_t i = 0; (s = signal_call_at(image_abi(img), i)); i++) {
		const enum there there = code_at(img, pc - s->size, s);
		if (there == YES)
			return s;
		if (there == ABSENT && !maybe)
			maybe = s;
	}
	return maybe;
}

bool sending_in_call(struct image *img, const struct regs *regs)
{
	const struct signal_call *s;
	for (size_t i = 0; (s = signal_call_at(image_abi(img), i)); i++) {
		const bool known = s->back >= 0 && regs->known >> s->back & 1;
		const enum there before = code_at(img, regs->pc - s->size, s), at = code_at(img, regs->pc, s);
		if (before == YES || at == YES || (before == ABSENT && known && regs->value[s->back] == regs->pc) ||
		    (at == ABSENT && known && regs->value[s->back] == regs->pc + s->size))
			return true;
	}
	return false;
}

bool sending_lets_none_in(struct image *img, const struct regs *regs)
{
	const struct signal_call *s = signal_call_at(image_abi(img), 0);
	if (!s || !regs->syscall.known)
		return false;
	for (size_t i = 0; i < sizeof s->lets_in / sizeof *s->lets_in && s->lets_in[i]; i++)
		if (regs->syscall.nr == s->lets_in[i])
			return false;
	return true;
}

/* The number of the call that was just made; -1: not known.  x86 has the result in its place, but most callers are `mov eax, NUMBER; syscall`. */
static int64_t call_made(struct image *img, const struct regs *regs, const struct signal_call *s)
{
	uint8_t b[5];
	if (s->number >= 0)
		return (int64_t)(regs->value[s->number] & UINT32_MAX);
	if (image_read(img, regs->pc - s->size - sizeof b, b, sizeof b) < 0 || b[0] != 0xb8)
		return -1;
	return (int64_t)(b[1] | (uint32_t)b[2] << 8 | (uint32_t)b[3] << 16 | (uint32_t)b[4] << 24);
}

int64_t sending_refused(struct image *img, const struct regs *regs)
{
	const struct signal_call *s = call_before(img, regs->pc);
	const int reg = !s ? -1 : s->number >= 0 ? s->number : s->result;
	return reg >= 0 && regs->known >> reg & 1 && regs->value[reg] <= INT32_MAX ? (int64_t)regs->value[reg] : -1;
}

enum sends sending_to(struct image *img, const struct regs *regs, int64_t pid, int64_t tid, int signo)
{
	if (!signal_call_at(image_abi(img), 0) || pid < 0)
		return SENDS_UNKNOWN;
	const struct signal_call *s = call_before(img, regs->pc);
	if (!s || regs->value[s->result])
		return SENDS_NO;
	const int64_t nr = call_made(img, regs, s);
	int32_t arg[4];
	for (size_t i = 0; i < 4; i++)
		arg[i] = (int32_t)(uint32_t)regs->value[s->arg[i]];
	const bool first = s->arg[0] != s->result; /* it is still there */
	const bool any = nr < 0;
	/* kill: 0 and below are groups of processes */
	if ((any || nr == s->kill || nr == s->queue) && arg[1] == signo && (!first || arg[0] == pid || (arg[0] <= 0 && !any)))
		return SENDS_YES;
	if ((any || nr == s->tkill) && arg[1] == signo && (!first || arg[0] == tid))
		return SENDS_YES;
	if ((any || nr == s->tgkill || nr == s->tqueue) && arg[2] == signo && arg[1] == tid && (!first || arg[0] == pid))
		return SENDS_YES;
	return nr == s->pidfd && arg[1] == signo ? SENDS_YES : SENDS_NO;
}
