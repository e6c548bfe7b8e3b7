/* A faulting address in words: null, a stack's guard page, just past a mapping, code that is not there. */
#include <inttypes.h>

#include "inspect/fault.h"

enum {
	NULL_PAGE = 4096,
	GUARD = 1 << 20,        /* stack_guard_gap of the kernel, 256 pages (mm/mmap.c); a pthread's guard page is smaller */
	FRAME = 1 << 16,        /* how far from the stack pointer a function may touch its frame first */
	PAST = 4096,
	AT_RANDOM = 25,         /* 16 bytes at the top of main's stack (Linux fs/binfmt_elf.c, create_elf_tables) */
};

/* The segment that begins above addr, and the one that ends at or below it. */
static void neighbours(struct image *img, addr_t addr, const struct segment **below, const struct segment **above)
{
	const struct segment *seg;
	size_t n = image_segments(img, &seg), lo = 0, hi = n;
	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;
		if (seg[mid].start <= addr)
			lo = mid + 1;
		else
			hi = mid;
	}
	*above = lo < n ? &seg[lo] : NULL;
	*below = lo ? &seg[lo - 1] : NULL;
}

static struct str mapping_words(struct image *img, struct arena *a, const struct segment *s)
{
	const struct mapping *m = image_mapping_at(img, s->start);
	if (m && m->path.len)
		return str_base(str_from_bytes(a, m->path.p, m->path.len));
	return str_printf(a, "the memory at 0x%llx", (unsigned long long)s->start);
}

/*
 * A handler may run on an alternate stack, a coroutine on one of its own: there the kernel's and the C library's data of the thread are
 * not.  glibc and musl keep what the thread pointer leads to at the top of the thread's stack, also where the program supplied it.
 */
bool address_on_another_stack(struct image *img, const struct segment *seg, const struct regs *regs, int64_t tid)
{
	uint64_t top = regs->tls;
	if (tid == image_facts(img)->pid && image_auxv(img, AT_RANDOM, &top) < 0)
		return false;
	return top && (top < seg->start || top - seg->start >= seg->size);
}

#define OVERFLOW "stack overflow"

bool address_is_overflow(struct str words)
{
	return str_starts(words, OVERFLOW);
}

static struct str guard_words(struct image *img, struct arena *a, const struct segment *seg, const struct regs *regs, int64_t tid)
{
	if (tid <= 0 || address_on_another_stack(img, seg, regs, tid))
		return STR(OVERFLOW ": in the guard page of a stack");
	return tid == image_facts(img)->pid ? STR(OVERFLOW ": in the guard page of the main thread's stack")
		: str_printf(a, OVERFLOW ": in the guard page of thread %" PRId64 "'s stack", tid);
}

/*
 * glibc since 2.42 makes a thread's guard of the stack's own mapping (MADV_GUARD_INSTALL, Linux 6.13), which stays one that can be
 * written, and may be one with the next thread's; the kernel says of the guard that nothing is mapped there.
 */
static bool in_own_guard(const struct segment *seg, addr_t addr, addr_t sp, bool unmapped)
{
	return unmapped && sp && (seg->prot & 3) == 3 && (sp > addr ? sp - addr : addr - sp) <= FRAME;
}

/* The same of a stack of which the file has lost all: which memory it was is known. */
static bool beneath_lost_stack(struct image *img, addr_t addr, addr_t sp, const struct segment *above, struct segment *ret)
{
	const struct image_facts *f = image_facts(img);
	for (size_t i = 0; sp && i < f->n_lost && (sp > addr ? sp - addr : addr - sp) <= FRAME; i++) {
		const struct lost *l = &f->lost[i];
		if (l->start <= addr)
			continue;
		*ret = (struct segment){ .start = l->start, .size = l->end - l->start };
		return l->start - addr <= GUARD && (!above || above->start > l->start) && (sp < l->start || (sp < l->end && sp - l->start <= FRAME));
	}
	return false;
}

/* Where neither a mapping nor a stack tells: the kernel's half (Linux Documentation/arch/x86/x86_64/mm.rst), or a stack pointer that is astray. */
static struct str nowhere_words(struct image *img, addr_t addr, bool unmapped, addr_t sp)
{
	enum { X86_64 = 62 };
	struct mapped m;
	if (image_abi(img)->machine == X86_64 && addr >> 63)
		return STR("in the kernel's half of memory");
	if (unmapped && sp && !image_facts(img)->n_lost && (sp > addr ? sp - addr : addr - sp) <= FRAME && image_mapped_at(img, sp, &m) < 0)
		return STR("where the stack pointer is, but no stack");
	return (struct str){ 0 };
}

struct str address_words(struct image *img, struct arena *a, addr_t addr, bool unmapped, const struct regs *regs, int64_t tid)
{
	const struct segment *below, *above;
	const unsigned long long before = image_abi(img)->width == 8 ? -addr : -addr & UINT32_MAX;
	addr_t sp = regs ? regs->sp : 0;
	if (addr == 0)
		return STR("null pointer");
	if (addr < NULL_PAGE)
		return str_printf(a, "%llu byte%s past a null pointer", (unsigned long long)addr, addr == 1 ? "" : "s");
	if (unmapped && before < NULL_PAGE)
		return str_printf(a, "%llu byte%s before a null pointer", before, before == 1 ? "" : "s");
	neighbours(img, addr, &below, &above);
	if (below && addr - below->start < below->size)
		return in_own_guard(below, addr, sp, unmapped) ? guard_words(img, a, below, regs, tid) : (struct str){ 0 };
	/* The stack pointer stands at the low end of its stack, and the address just beneath that. */
	if (sp && above && above->start - addr <= GUARD && (sp > addr ? sp - addr : addr - sp) <= FRAME &&
	    (sp < above->start || (sp - above->start < above->size && sp - above->start <= FRAME)) && above->prot & 2)
		return guard_words(img, a, above, regs, tid);
	struct segment lost;
	if (beneath_lost_stack(img, addr, sp, above, &lost))
		return guard_words(img, a, &lost, regs, tid);
	if (below && addr - (below->start + below->size) < PAST) {
		uint64_t past = addr - (below->start + below->size);
		struct str what = mapping_words(img, a, below);
		return past ? str_printf(a, "%llu byte%s past the end of " STR_FMT, (unsigned long long)past, past == 1 ? "" : "s", STR_ARG(what))
			: str_printf(a, "at the very end of " STR_FMT, STR_ARG(what));
	}
	return nowhere_words(img, addr, unmapped, sp);
}
