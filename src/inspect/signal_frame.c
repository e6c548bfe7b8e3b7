/*
 * Signal frames by a word that no other data has.  Layouts: struct rt_sigframe and sigcontext of Linux 6.1,
 * arch/x86/include/uapi/asm/sigcontext.h (sigcontext_64), arch/arm64/include/uapi/asm/sigcontext.h; ucontext of
 * include/uapi/asm-generic/ucontext.h.
 */
#include "inspect/signal_frame.h"

#include <string.h>

enum { STACK_MAX = 1 << 20 /* of a handler's frames: a fault's lie near its end */, CHUNK = 1 << 14, FRAME_MAX = 1024,
	GUARD = 1 << 20 /* below a stack that is full its pointer may stand: stack_guard_gap of the kernel (mm/mmap.c) */ };

/* A register of struct regs and where it is in the ucontext. */
struct saved { uint8_t dwarf; uint16_t offset; };

static const struct saved x86_64_regs[] = {
	{ 8, 40 }, { 9, 48 }, { 10, 56 }, { 11, 64 }, { 12, 72 }, { 13, 80 }, { 14, 88 }, { 15, 96 }, { 5, 104 }, { 4, 112 }, { 6, 120 }, { 3, 128 },
	{ 1, 136 }, { 0, 144 }, { 2, 152 }, { 7, 160 }, { 16, 168 }, { 49, 176 },
};
static const struct saved aarch64_regs[] = {
	{ 0, 184 }, { 1, 192 }, { 2, 200 }, { 3, 208 }, { 4, 216 }, { 5, 224 }, { 6, 232 }, { 7, 240 }, { 8, 248 }, { 9, 256 }, { 10, 264 }, { 11, 272 },
	{ 12, 280 }, { 13, 288 }, { 14, 296 }, { 15, 304 }, { 16, 312 }, { 17, 320 }, { 18, 328 }, { 19, 336 }, { 20, 344 }, { 21, 352 }, { 22, 360 },
	{ 23, 368 }, { 24, 376 }, { 25, 384 }, { 26, 392 }, { 27, 400 }, { 28, 408 }, { 29, 416 }, { 30, 424 }, { 31, 432 },
};

static const struct shape {
	uint16_t machine;
	uint64_t word;            /* that tells one */
	uint16_t word_at;         /* from the ucontext */
	int16_t info_at;
	uint16_t sp, pc, size;
	uint16_t trap, error, fault;  /* 0: not kept */
	const struct saved *regs;
	size_t n_regs;
} shapes[] = {
	/* cs 0x33, gs and fs 0, ss 0x2b: a user's segments. */
	{ .machine = 62, .word = 0x002b000000000033, .word_at = 184, .info_at = 304, .sp = 160, .pc = 168, .size = 304, .trap = 200, .error = 192,
	  .fault = 216, .regs = x86_64_regs, .n_regs = sizeof x86_64_regs / sizeof *x86_64_regs },
	/* The first record after the registers: FPSIMD_MAGIC, and its size. */
	{ .machine = 183, .word = 0x0000021046508001, .word_at = 464, .info_at = -128, .sp = 432, .pc = 440, .size = 480, .fault = 176,
	  .regs = aarch64_regs, .n_regs = sizeof aarch64_regs / sizeof *aarch64_regs },
};

static uint64_t word_at(const struct abi *abi, const uint8_t *p, size_t width)
{
	struct cursor c = cursor_of(p, width, abi->big_endian);
	uint64_t v = 0;
	(void)!cursor_uint(&c, width, &v);
	return v;
}

/* struct siginfo, if one was written and not left over from something else: the numbers fit each other, the padding is zero. */
static void take_info(struct image *img, addr_t at, struct signal_frame *f)
{
	const struct abi *abi = image_abi(img);
	uint8_t b[32];
	if (image_read(img, at, b, sizeof b) < 0)
		return;
	int signo = (int)(uint32_t)word_at(abi, b, 4), error = (int)(uint32_t)word_at(abi, b + 4, 4), code = (int)(uint32_t)word_at(abi, b + 8, 4);
	uint64_t addr = word_at(abi, b + 16, 8), pid = word_at(abi, b + 16, 4);
	const bool fault = (signo == 11 || signo == 7 || signo == 4 || signo == 8 || signo == 5) && code > 0 && code <= 0x80;
	enum { PID_MAX = 1 << 22 };
	if (signo < 1 || signo > 64 || error || code > 0x80 || code < -64 || word_at(abi, b + 12, 4) || (code <= 0 && pid > PID_MAX))
		return;
	if (fault && f->trapped && f->trap == TRAP_PAGE && signo != 5 && addr != f->addr)
		return;
	if (!fault && code > 0 && code != 0x80)
		return;
	f->has_info = true;
	f->signo = signo;
	f->code = code;
	if (fault) {
		f->addr = addr;
	} else if (code <= 0) {
		f->pid = (int64_t)pid;
		f->uid = (int64_t)word_at(abi, b + 20, 4);
	}
}

/* Can a stack pointer stand there: in memory, or, where the stack has overflowed, below it? */
static bool is_stack(struct image *img, addr_t sp)
{
	const struct segment *seg;
	size_t n = image_segments(img, &seg), lo = 0, hi = n;
	if (image_segment_at(img, sp))
		return true;
	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;
		if (seg[mid].start <= sp)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo < n && seg[lo].start - sp <= GUARD && seg[lo].prot & 2;
}

/* A context at `at`?  The kernel wrote it, so what must be zero is, and what was interrupted stood somewhere. */
static bool take_context(struct image *img, const struct shape *s, addr_t at, struct signal_frame *ret)
{
	const struct abi *abi = image_abi(img);
	struct signal_frame f = { .at = at };
	uint8_t b[FRAME_MAX];
	if (image_read(img, at, b, s->size) < 0 || word_at(abi, b + s->word_at, 8) != s->word)
		return false;
	if (word_at(abi, b, 8) > 0xff /* uc_flags */ || word_at(abi, b + 8, 8) /* uc_link */)
		return false;
	for (size_t i = 0; i < s->n_regs; i++) {
		f.regs.value[s->regs[i].dwarf] = word_at(abi, b + s->regs[i].offset, 8);
		f.regs.known |= UINT64_C(1) << s->regs[i].dwarf;
	}
	f.regs.sp = word_at(abi, b + s->sp, 8);
	f.regs.pc = word_at(abi, b + s->pc, 8);
	f.regs.syscall.nr = -1;
	if (!is_stack(img, f.regs.sp))
		return false;
	if (s->trap) {
		f.trap = (unsigned)word_at(abi, b + s->trap, 8);
		f.error = word_at(abi, b + s->error, 8);
		if (word_at(abi, b + s->trap, 8) > 32)
			return false;
		f.trapped = true;
	}
	if (s->fault)
		f.addr = word_at(abi, b + s->fault, 8);
	take_info(img, at + (addr_t)(int64_t)s->info_at, &f);
	*ret = f;
	return true;
}

static const struct shape *shape_of(const struct abi *abi)
{
	for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
		if (shapes[i].machine == abi->machine && abi->width == 8 && !abi->big_endian)
			return &shapes[i];
	return NULL;
}

int signal_frame_in(struct image *img, addr_t from, addr_t to, struct signal_frame *ret)
{
	const struct abi *abi = image_abi(img);
	const struct shape *s = shape_of(abi);
	uint8_t buf[CHUNK];
	for (addr_t done = from; s && done < to;) {
		size_t n = image_scan(img, done, buf, to - done < CHUNK ? (size_t)(to - done) : CHUNK) & ~(size_t)7;
		if (!n) {
			const uint64_t skip = (image_skip(img, done) + 7) & ~(uint64_t)7;
			if (!skip || skip >= to - done)
				break;
			done += skip;
			continue;
		}
		for (size_t i = 0; i < n; i += 8) {
			addr_t at = done + i;
			if (word_at(abi, buf + i, 8) == s->word && at >= s->word_at + from && take_context(img, s, at - s->word_at, ret))
				return 0;
		}
		done += n;
	}
	return ERR_ABSENT;
}

int signal_frame_next(struct image *img, const struct thread *th, addr_t from, struct signal_frame *ret)
{
	if (!th->regs.sp)
		return ERR_ABSENT;
	addr_t sp = (from ? from : th->regs.sp) & ~(addr_t)7;
	const struct segment *seg = image_segment_at(img, sp);
	if (!seg)
		return ERR_ABSENT;
	uint64_t left = seg->size - (sp - seg->start);
	int rc = signal_frame_in(img, sp, sp + (left < STACK_MAX ? left : STACK_MAX), ret);
	if (rc == 0)
		ret->regs.tls = th->regs.tls;
	return rc;
}
