/* Machines as rows: the system call instruction, and the calls that send signals. */
#include "inspect/sending.h"

#include <string.h>

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

/* Is it the instruction?  otherwise: the answer where there is code, but not at hand. */
static bool has_code(struct image *img, addr_t at, const struct sending *s, bool otherwise)
{
	uint8_t b[4];
	if (image_read(img, at, b, s->size) == 0)
		return memcmp(b, s->code, s->size) == 0;
	const struct mapping *m = image_mapping_at(img, at);
	return otherwise && m && m->prot & 4;
}

bool sending_in_call(struct image *img, const struct regs *regs)
{
	enum { RCX = 2 /* is where `syscall` returns to: Intel SDM 2B, SYSCALL */ };
	const struct sending *s = sending_of(img);
	if (!s)
		return false;
	const bool x86 = s->machine == X86_64 && regs->known >> RCX & 1;
	return has_code(img, regs->pc - s->size, s, x86 && regs->value[RCX] == regs->pc) || has_code(img, regs->pc, s, x86 && regs->value[RCX] == regs->pc + s->size);
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

enum sends sending_to(struct image *img, const struct regs *regs, int64_t pid, int64_t tid, int signo)
{
	const struct sending *s = sending_of(img);
	if (!s || pid < 0)
		return SENDS_UNKNOWN;
	if (!has_code(img, regs->pc - s->size, s, true) || regs->value[s->result])
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
