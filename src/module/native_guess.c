/* How a call looks from its return address on each machine; where a frame pointer or a signal handler leads (image/signal_abi.h). */
#include "module/native_guess.h"

#include <elf.h>
#include <string.h>

#include "image/signal_abi.h"

enum { FRAME_MAX = 1 << 20 /* of a frame pointer above the stack pointer */ };

bool guess_code(const struct guess *g, addr_t at)
{
	const struct segment *s = image_segment_at(g->img, at);
	return s ? s->prot & 4 : g->mods && modules_at(g->mods, at);
}

addr_t guess_plain(const struct guess *g, addr_t word)
{
	if (g->abi->machine == EM_ARM)
		return word & ~(addr_t)1;
	/* Pointer authentication signs above the 48 bits of an address (Arm ARM DDI 0487, D8.10); user space begins at 0. */
	if (g->abi->machine == EM_AARCH64)
		return word & (((addr_t)1 << 48) - 1);
	return word;
}

/* Instructions are little-endian, also on machines whose data is not (BE8, aarch64_be). */
static uint32_t little(const uint8_t *p, unsigned n)
{
	uint32_t v = 0;
	for (unsigned i = 0; i < n; i++)
		v |= (uint32_t)p[i] << 8 * i;
	return v;
}

/* call rel32 into code; call r/m with every form of address (Intel SDM 2A, CALL; 2.1.5, table 2-2). */
static enum after after_x86(const struct guess *g, addr_t pc)
{
	uint8_t b[7];
	if (pc < sizeof b || image_read(g->img, pc - sizeof b, b, sizeof b) < 0)
		return AFTER_UNKNOWN;
	if (b[2] == 0xe8) {
		addr_t to = pc + (addr_t)(int64_t)(int32_t)little(b + 3, 4);
		if (guess_code(g, g->abi->width == 4 ? (uint32_t)to : to))
			return AFTER_CALL;
	}
	for (unsigned len = 2; len <= 7; len++) {
		uint8_t mod = b[7 - len + 1];
		if (b[7 - len] != 0xff || (mod >> 3 & 7) != 2)
			continue;
		unsigned sib = (mod & 7) == 4 && mod >> 6 != 3, disp = mod >> 6 == 1 ? 1 : mod >> 6 == 2 || (mod >> 6 == 0 && (mod & 7) == 5) ? 4 : 0;
		if (2 + sib + disp == len)
			return AFTER_CALL;
	}
	return AFTER_NO_CALL;
}

/* BL; BLR; BLRAA and its kin (Arm ARM DDI 0487, C4.1). */
static enum after after_aarch64(const struct guess *g, addr_t pc)
{
	uint8_t b[4];
	if (pc < sizeof b || image_read(g->img, pc - sizeof b, b, sizeof b) < 0)
		return AFTER_UNKNOWN;
	uint32_t i = little(b, 4);
	return pc % 4 == 0 && ((i & 0xfc000000) == 0x94000000 || (i & 0xfffffc1f) == 0xd63f0000 || (i & 0xfefff800) == 0xd63f0800) ? AFTER_CALL
		: AFTER_NO_CALL;
}

/* BL, BLX in Thumb and ARM; what older ARM code does instead: mov lr, pc and any jump (Arm ARM DDI 0406, A8.8.25, A8.8.26). */
static enum after after_arm(const struct guess *g, addr_t word)
{
	addr_t pc = word & ~(addr_t)1;
	uint8_t b[8];
	if (pc < sizeof b || image_read(g->img, pc - sizeof b, b, sizeof b) < 0)
		return AFTER_UNKNOWN;
	if (word & 1) {
		uint32_t first = little(b + 4, 2), second = little(b + 6, 2);
		return ((first & 0xf800) == 0xf000 && (second & 0xc000) == 0xc000) || (second & 0xff87) == 0x4780 ? AFTER_CALL : AFTER_NO_CALL;
	}
	uint32_t i = little(b + 4, 4);
	bool call = ((i & 0x0f000000) == 0x0b000000 && i >> 28 != 0xf) || (i & 0xfe000000) == 0xfa000000 || (i & 0x0ffffff0) == 0x012fff30 ||
		    little(b, 4) == 0xe1a0e00f;
	return pc % 4 == 0 && call ? AFTER_CALL : AFTER_NO_CALL;
}

enum after guess_after_call(const struct guess *g, addr_t word)
{
	addr_t pc = guess_plain(g, word);
	if (!pc || !guess_code(g, pc - 1))
		return AFTER_NO_CALL;
	switch (g->abi->machine) {
	case EM_X86_64:
	case EM_386: return after_x86(g, pc);
	case EM_AARCH64: return after_aarch64(g, pc);
	case EM_ARM: return after_arm(g, word);
	}
	return AFTER_UNKNOWN;
}

static int64_t sign_extended(uint32_t v, unsigned bits)
{
	return (int64_t)((uint64_t)v << (64 - bits)) >> (64 - bits);
}

bool guess_call_target(const struct guess *g, addr_t word, addr_t *ret)
{
	const addr_t pc = guess_plain(g, word);
	uint8_t b[5];
	int64_t by;
	addr_t from = pc;
	if (guess_after_call(g, word) != AFTER_CALL || image_read(g->img, pc - sizeof b, b, sizeof b) < 0)
		return false;
	const uint32_t i = little(b + 1, 4);
	switch (g->abi->machine) {
	case EM_X86_64:
	case EM_386:
		if (b[0] != 0xe8)
			return false;
		by = (int32_t)i;
		break;
	case EM_AARCH64:
		if ((i & 0xfc000000) != 0x94000000)
			return false;
		by = sign_extended(i << 2, 28);
		from = pc - 4;
		break;
	case EM_ARM:
		if (word & 1) { /* BL, BLX, T1 and T2: imm10, imm11, and two bits that are kept as xor with the sign */
			const uint32_t first = i & 0xffff, second = i >> 16, sign = first >> 10 & 1;
			if ((first & 0xf800) != 0xf000 || (second & 0xc000) != 0xc000)
				return false;
			const uint32_t i1 = (second >> 13 & 1) == sign, i2 = (second >> 11 & 1) == sign;
			by = sign_extended(sign << 24 | i1 << 23 | i2 << 22 | (first & 0x3ff) << 12 | (second & 0x7ff) << 1, 25);
			from = second & 0x1000 ? pc : pc & ~(addr_t)3;
		} else {
			if ((i & 0x0e000000) != 0x0a000000)
				return false;
			by = sign_extended((i & 0xffffff) << 2 | (i >> 28 == 0xf ? i >> 23 & 2 : 0), 26);
			from = pc + 4; /* pc is two instructions ahead there */
		}
		break;
	default: return false;
	}
	*ret = (from + (addr_t)by) & (g->abi->width == 4 ? UINT32_MAX : UINT64_MAX);
	return true;
}

/* [endbr64,] [bnd] jmp *disp(%rip); on i386 jmp *address (gcc's position-independent one goes by %ebx, which is not known here). */
bool guess_stub_target(const struct guess *g, addr_t at, addr_t *ret)
{
	uint8_t b[11];
	const size_t n = image_read_some(g->img, at, b, sizeof b);
	size_t i = n >= 4 && memcmp(b, "\xf3\x0f\x1e", 3) == 0 ? 4 : 0;
	if (g->abi->machine != EM_X86_64 && g->abi->machine != EM_386)
		return false;
	i += i < n && b[i] == 0xf2;
	if (i + 6 > n || b[i] != 0xff || b[i + 1] != 0x25)
		return false;
	const uint32_t word = little(b + i + 2, 4);
	return image_read_ptr(g->img, g->abi->width == 4 ? word : at + i + 6 + (addr_t)(int64_t)(int32_t)word, ret) == 0;
}

bool guess_has_frame(const struct guess *g, addr_t start, addr_t pc)
{
	/* endbr64 or endbr32, push bp, mov bp, sp in both encodings. */
	static const uint8_t endbr[] = { 0xf3, 0x0f, 0x1e };
	uint8_t b[8] = { 0 };
	const unsigned wide = g->abi->width == 8;
	size_t n = image_read_some(g->img, start, b, sizeof b), i = n >= 4 && memcmp(b, endbr, sizeof endbr) == 0 ? 4 : 0;
	if (!n)
		return true; /* not known: as libdw takes it */
	if (i < n && b[i++] != 0x55)
		return false;
	if (wide && (i >= n || b[i++] != 0x48))
		return false;
	return i + 2 <= n && ((b[i] == 0x89 && b[i + 1] == 0xe5) || (b[i] == 0x8b && b[i + 1] == 0xec)) && pc >= start + i + 2;
}

/* Where a frame keeps its return address and the caller's frame pointer, as offsets from its own, and where it ends. */
struct kept { uint16_t machine; int8_t lr, fp, end; };

bool guess_by_pointer(const struct guess *g, addr_t sp, addr_t fp, struct guess_frame *ret)
{
	/* x86: what `push bp; mov bp, sp` makes.  ARM: clang's {fp, lr}; gcc's fp points at lr, above the older fp.  AArch64: AAPCS64 2023Q3, 6.4.6. */
	static const struct kept kept[] = { { EM_ARM, 4, 0, 8 }, { EM_ARM, 0, -4, 4 }, { EM_AARCH64, 8, 0, 16 },
					     { EM_X86_64, 8, 0, 16 }, { EM_386, 4, 0, 8 } };
	const unsigned width = g->abi->width;
	if (!sp || fp % width || fp < sp || fp - sp > FRAME_MAX)
		return false;
	for (size_t i = 0; i < sizeof kept / sizeof *kept; i++) {
		uint64_t lr, older;
		if (kept[i].machine != g->abi->machine || image_read_uint(g->img, fp + (addr_t)(int64_t)kept[i].lr, width, &lr) < 0 ||
		    image_read_uint(g->img, fp + (addr_t)(int64_t)kept[i].fp, width, &older) < 0)
			continue;
		if (guess_after_call(g, lr) != AFTER_CALL && !guess_is_sigreturn(g, guess_plain(g, lr)))
			continue;
		*ret = (struct guess_frame){ lr, fp + (addr_t)kept[i].end, older };
		return true;
	}
	return false;
}

static const struct signal_return *sigreturn_at(const struct guess *g, addr_t pc)
{
	const struct signal_return *s;
	uint8_t code[sizeof s->code];
	for (size_t i = 0; (s = signal_return_at(g->abi, i)); i++)
		if (guess_code(g, pc) && image_read(g->img, pc, code, s->size) == 0 && memcmp(code, s->code, s->size) == 0)
			return s;
	return NULL;
}

bool guess_is_sigreturn(const struct guess *g, addr_t pc)
{
	return sigreturn_at(g, pc) != NULL;
}

bool guess_interrupted(const struct guess *g, addr_t pc, addr_t sp, struct regs *ret)
{
	const struct signal_return *s = sigreturn_at(g, pc);
	const struct signal_context *c = signal_context_of(g->abi);
	struct regs r = { 0 };
	if (!s || !c || !sp)
		return false;
	for (size_t i = 0; i < c->n_regs; i++) {
		const int reg = c->regs[i].dwarf;
		if (image_read_uint(g->img, sp + s->context + c->regs[i].at, g->abi->width, &r.value[reg]) < 0)
			return false;
		r.known |= (uint64_t)1 << reg;
	}
	if (image_read_uint(g->img, sp + s->context + c->pc, g->abi->width, &r.pc) < 0)
		return false;
	r.sp = r.value[abi_sp(g->abi)];
	if (!r.pc && !r.sp)
		return false;
	*ret = r;
	return true;
}
