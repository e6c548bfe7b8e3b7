/*
 * A handler that let the signal be raised again and returned: signal(n, SIG_DFL) and raise(n), which comes when the handler's return
 * unblocks it.  The frame that the kernel had made for it lies beyond the stack's end then, or on a stack of its own, and has the very
 * registers that the thread died with.
 */
#include "inspect/handler.h"

#include "image/signal_abi.h"

enum { BELOW = 1 << 16 /* of the stack pointer: a signal frame with all that a processor can have to save */, SEARCHED_MAX = 1 << 28, /* bytes that are there */
	PIECE = 1 << 20, OVERLAP = 1 << 12 };

static bool same_registers(const struct abi *abi, const struct regs *a, const struct regs *b)
{
	const struct signal_context *c = signal_context_of(abi);
	for (unsigned i = 0; c && i < c->general; i++)
		if (!((a->known & b->known) >> i & 1) || a->value[i] != b->value[i])
			return false;
	return a->pc == b->pc && a->sp == b->sp;
}

/* In [from, to), which one segment holds. */
static bool left_in(struct image *img, const struct thread *th, addr_t from, addr_t to, struct signal_frame *ret)
{
	struct signal_frame sf;
	for (addr_t at = from; signal_frame_in(img, at, to, &sf) == 0; at = sf.at + 8)
		if (same_registers(image_abi(img), &sf.regs, &th->regs)) {
			sf.regs.tls = th->regs.tls;
			*ret = sf;
			return true;
		}
	return false;
}

bool handler_returned(struct image *img, const struct thread *th, struct signal_frame *ret)
{
	const struct segment *seg = image_segment_at(img, th->regs.sp - 8), *all;
	size_t n = image_segments(img, &all);
	uint64_t searched = 0;
	if (seg) {
		const addr_t sp = th->regs.sp;
		const addr_t from = sp - seg->start < BELOW ? seg->start : sp - BELOW;
		if (left_in(img, th, (from + 7) & ~(addr_t)7, sp, ret))
			return true;
	}
	for (size_t i = 0; i < n && searched < SEARCHED_MAX; i++) {
		if (!(all[i].prot & 2) || all[i].from_file)
			continue;
		const addr_t end = all[i].start + all[i].size;
		for (addr_t at = (all[i].start + 7) & ~(addr_t)7; at < end && searched < SEARCHED_MAX;) {
			const uint64_t skip = image_skip(img, at) & ~(uint64_t)7, size = end - at < PIECE ? end - at : PIECE;
			if (skip) {
				at += skip < end - at ? skip : end - at;
				continue;
			}
			if (left_in(img, th, at - all[i].start < OVERLAP ? at : at - OVERLAP, at + size, ret))
				return true;
			searched += size;
			at += size;
		}
	}
	return false;
}
