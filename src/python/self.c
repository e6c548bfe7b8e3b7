/*
 * struct pthread, where the ABI puts it before the thread pointer (TLS_DTV_AT_TP): it ends there, but how long it is depends on the C
 * library's version.  What lies in it at the same place in all of them is the kernel's number of the thread: glibc 2.31 to 2.41
 * nptl/descr.h, 24 pointers of padding, a list_t, tid; musl 1.2 src/internal/pthread_impl.h, self, prev, next, sysinfo, tid.  Where the
 * thread pointer is not known either, libpthread's threads have theirs at the end of their stacks (nptl/allocatestack.c).
 */
#include "python/self.h"

#include <stdlib.h>
#include <string.h>

enum {
	BEFORE_POINTER = 0x1000, /* longer than struct pthread of any of them */
	BEFORE_END = 0x10000,    /* and what thread-local storage may follow it */
	EACH = 4,                /* that look like one, of a thread */
	PAGE = 4096, THREADS_MAX = 1 << 16,
};

static uint64_t word_at(const struct abi *abi, const uint8_t *p, size_t width)
{
	struct cursor c = cursor_of(p, width, abi->big_endian);
	uint64_t v = 0;
	(void)!cursor_uint(&c, width, &v);
	return v;
}

/* Is the number at `at` in a struct pthread?  Of glibc's, the list is linked; of musl's, the first word is its own address. */
static addr_t self_of(struct image *img, addr_t at)
{
	const unsigned w = image_abi(img)->width;
	const addr_t glibc = at - 26 * w, musl = at - 4 * w;
	addr_t next, prev, own;
	if (glibc % (2 * w) == 0 && image_read_ptr(img, at - 2 * w, &next) == 0 && image_read_ptr(img, at - w, &prev) == 0 && next && prev &&
	    next % w == 0 && prev % w == 0)
		return glibc;
	return musl % (2 * w) == 0 && image_read_ptr(img, musl, &own) == 0 && own == musl ? musl : 0;
}

/* In [from, to), the last ones first. */
static size_t selves_in(struct image *img, pid_t tid, addr_t from, addr_t to, uint64_t *ret)
{
	uint8_t page[PAGE];
	size_t n = 0;
	for (addr_t end = to; end > from && n < EACH;) {
		addr_t at = (end - 1) & ~(addr_t)(PAGE - 1);
		at = at < from ? from : at;
		const size_t len = image_scan(img, at, page, (size_t)(end - at)) & ~(size_t)3;
		for (size_t i = len; i >= 4 && n < EACH; i -= 4) {
			const addr_t self = word_at(image_abi(img), page + i - 4, 4) == (uint32_t)tid ? self_of(img, at + i - 4) : 0;
			if (self)
				ret[n++] = self;
		}
		end = at;
	}
	return n;
}

static size_t selves(struct image *img, const struct thread *t, uint64_t *ret)
{
	if (t->tid <= 0)
		return 0;
	if (t->regs.tls)
		return t->regs.tls % 4 || t->regs.tls < BEFORE_POINTER ? 0 : selves_in(img, t->tid, t->regs.tls - BEFORE_POINTER, t->regs.tls, ret);
	const struct segment *stack = t->regs.sp ? image_segment_at(img, t->regs.sp) : NULL;
	if (!stack)
		return 0;
	const addr_t end = (stack->start + stack->size) & ~(addr_t)7, sp = (t->regs.sp + 7) & ~(addr_t)7;
	return sp < end ? selves_in(img, t->tid, end - sp > BEFORE_END ? end - BEFORE_END : sp, end, ret) : 0;
}

size_t self_words(struct image *img, uint64_t **ret, size_t *ret_known)
{
	const struct thread *threads;
	const size_t n = image_threads(img, &threads);
	const bool self = abi_tls_is_self(image_abi(img));
	uint64_t *words = xcalloc(n + 1, (1 + EACH) * sizeof *words);
	size_t n_words = 0, known = 0;
	for (size_t i = 0; i < n; i++) {
		const size_t before = n_words;
		if (threads[i].regs.tls)
			words[n_words++] = threads[i].regs.tls;
		if (!self && i < THREADS_MAX)
			n_words += selves(img, &threads[i], words + n_words);
		known += n_words > before;
	}
	*ret = words;
	*ret_known = known;
	return n_words;
}

const char *self_why_not(const struct abi *abi)
{
	enum { NT_386_TLS = 0x200, NT_ARM_TLS = 0x401, ARM = 40 };
	uint32_t notes[ABI_MORE_NOTES];
	abi_more_notes(abi, notes);
	if (abi->machine == ARM)
		return ": no NT_ARM_TLS notes, which kernels do not write of 32-bit ARM, and no struct pthread at a stack's end";
	return notes[0] == NT_ARM_TLS ? ": no NT_ARM_TLS notes, and no struct pthread at a stack's end" : notes[0] == NT_386_TLS ? ": no NT_386_TLS notes" : "";
}
