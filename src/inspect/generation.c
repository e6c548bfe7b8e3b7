/*
 * glibc's __fork_generation (sysdeps/nptl/fork.h, 2.36: fork_system_setup; up to 2.33 sysdeps/nptl/fork.c, by a pointer): pthread_once
 * wants to know whether what ran its function was another process, so every fork() adds 4 (__PTHREAD_ONCE_FORK_GEN_INCR,
 * sysdeps/nptl/internaltypes.h) in the child; exec begins with 0 again.  It has no name that is exported, but fork has, and its
 * code adds to nothing else.
 */
#include "inspect/generation.h"

#include <string.h>

enum { EM_X86_64 = 62, EM_AARCH64 = 183, CODE_MAX = 1 << 12, INCREMENT = 4, BACK = 8, FORKS_MAX = 1 << 20, PLACES = 8 };

static uint32_t word_at(const uint8_t *p)
{
	return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static addr_t relative(addr_t next, uint32_t disp)
{
	return next + (uint64_t)(int64_t)(int32_t)disp;
}

/* What the code at `at` adds 4 to; 0: it does no such thing. */
static addr_t added_x86_64(struct image *img, const uint8_t *c, size_t i, size_t n, addr_t start)
{
	static const uint8_t by_pointer[] = { 0x48, 0x85, 0xc0, 0x74, 0x04, 0x48, 0x83, 0x00, INCREMENT }; /* test rax, rax; je; add [rax], 4 */
	addr_t at;
	/* add qword [rip + disp], 4 */
	if (n - i >= 8 && c[i] == 0x48 && c[i + 1] == 0x83 && c[i + 2] == 0x05 && c[i + 7] == INCREMENT)
		return relative(start + i + 8, word_at(c + i + 3));
	/* mov rax, [rip + disp], and the above */
	if (n - i >= 7 + sizeof by_pointer && c[i] == 0x48 && c[i + 1] == 0x8b && c[i + 2] == 0x05 && memcmp(c + i + 7, by_pointer, sizeof by_pointer) == 0 &&
	    image_read_ptr(img, relative(start + i + 7, word_at(c + i + 3)), &at) == 0)
		return at;
	return 0;
}

static addr_t added_aarch64(const uint8_t *c, size_t i, addr_t start)
{
	const uint32_t add = word_at(c + i), value = add & 31;
	if (i % 4 || (add & 0xfffffc00) != (0x91000000 | INCREMENT << 10) || (add >> 5 & 31) != value) /* add xV, xV, #4 */
		return 0;
	uint32_t base = 32;
	uint64_t offset = 0;
	for (size_t k = 1; k <= BACK && k * 4 <= i; k++) {
		const uint32_t w = word_at(c + i - k * 4);
		if (base == 32 && (w & 0xffc00000) == 0xf9400000 && (w & 31) == value) { /* ldr xV, [xB, #offset] */
			base = w >> 5 & 31;
			offset = (w >> 10 & 0xfff) * 8;
		} else if (base < 32 && (w & 0x9f000000) == 0x90000000 && (w & 31) == base) { /* adrp xB, page */
			const uint64_t pages = (uint64_t)(w >> 5 & 0x7ffff) << 2 | (w >> 29 & 3);
			return ((start + i - k * 4) & ~(addr_t)0xfff) + ((pages ^ 1 << 20) - (1 << 20)) * 0x1000 + offset;
		}
	}
	return 0;
}

addr_t fork_generation_place(struct image *img, addr_t start, size_t size)
{
	const struct abi *abi = image_abi(img);
	uint8_t code[CODE_MAX];
	addr_t place = 0;
	if (abi->width != 8 || abi->big_endian)
		return 0;
	const size_t n = image_read_some(img, start, code, size < sizeof code ? size : sizeof code);
	for (size_t i = 0; i + 4 <= n; i++) {
		const addr_t at = abi->machine == EM_X86_64 ? added_x86_64(img, code, i, n, start) : abi->machine == EM_AARCH64 ? added_aarch64(code, i, start) : 0;
		if (at && place && at != place)
			return 0;
		place = at ? at : place;
	}
	return place;
}

int fork_generation(struct target *t)
{
	size_t from = 0;
	addr_t at;
	uint64_t size, count;
	if (!t->mods)
		return ERR_ABSENT;
	for (unsigned i = 0; i < PLACES && modules_symbol_next(t->mods, "fork", &from, &at, &size, NULL) == 0; i++) {
		const struct module *m = modules_at(t->mods, at);
		const addr_t place = size ? fork_generation_place(t->img, at, (size_t)size) : 0;
		if (!m || !place || place % 8 || !modules_at(t->mods, place) || image_read_uint(t->img, place, 8, &count) < 0)
			continue;
		if (count % INCREMENT == 0 && count / INCREMENT < FORKS_MAX)
			return (int)(count / INCREMENT);
	}
	return ERR_ABSENT;
}
