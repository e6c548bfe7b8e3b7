/*
 * PyInterpreterState_Head() is exported by every CPython, stripped or not, and does one thing: it returns the head of
 * the list of interpreters.  Debuggers of 2.7 to 3.6 call it in the process, since `interp_head` is a local symbol; its
 * few instructions say as much.  They are not matched as patterns but followed, with what each register holds, so that
 * prologues, landing pads, PIC thunks and GOT entries need no case of their own.  What is not known ends it: whoever
 * uses the result proves it.
 *
 *	48 8b 05 disp32; c3                     x86-64: 2.7, 3.6; 3.11 on where _PyRuntime is in the same file
 *	48 8b 05 disp32; 48 8b 40 20; c3        x86-64: 3.7 on, shared libraries (the GOT entry of _PyRuntime)
 *	a1 imm32; c3                            i386, at a fixed address
 *	e8 rel32; 05 imm32; 8b 80 disp32; c3    i386, position-independent: the call fetches the address behind it
 *	adrp x0; ldr x0, [x0, #n]; ret          aarch64
 */
#include "python/head_code.h"

#include <elf.h>
#include <string.h>

enum { PADDING = 16 }; /* no instruction is longer */

/* What a register holds: a constant, what lies at one (plus add), or what lies at that. */
enum depth { UNKNOWN, CONSTANT, LOADED, LOADED_TWICE };
struct value { uint8_t depth; addr_t slot; uint64_t offset, add; };

static struct value constant(addr_t v)
{
	return (struct value){ .depth = CONSTANT, .slot = v };
}

static struct value plus(struct value v, uint64_t n)
{
	if (v.depth == CONSTANT)
		v.slot += n;
	else
		v.add += n;
	return v;
}

static struct value load(struct value v, uint64_t disp)
{
	v = plus(v, disp);
	switch (v.depth) {
	case CONSTANT: return (struct value){ .depth = LOADED, .slot = v.slot };
	case LOADED:   return (struct value){ .depth = LOADED_TWICE, .slot = v.slot, .offset = v.add };
	default:       return (struct value){ UNKNOWN, 0, 0, 0 };
	}
}

static int returns(struct value v, const struct abi *abi, struct head_code *ret)
{
	if ((v.depth != LOADED && v.depth != LOADED_TWICE) || v.add)
		return ERR_ABSENT;
	uint64_t mask = abi->width == 4 ? UINT32_MAX : UINT64_MAX;
	*ret = (struct head_code){ v.slot & mask, v.depth == LOADED_TWICE, v.offset & mask };
	if (ret->slot % abi->width || (ret->indirect && ret->offset > 1 << 20))
		return ERR_ABSENT;
	return 0;
}

static bool begins(const uint8_t *p, size_t left, const char *bytes, size_t n)
{
	return left >= n && memcmp(p, bytes, n) == 0;
}
#define BEGINS(p, left, text) begins((p), (left), text, sizeof(text) - 1)

static uint64_t signed32(const uint8_t *p)
{
	uint32_t v = (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
	return (uint64_t)(int64_t)(int32_t)v;
}

/* Instructions of both x86 that do not touch what is returned; their length, 0: something else. */
static size_t x86_skip(const uint8_t *p, size_t left)
{
	static const struct { const char *bytes; size_t n; } skipped[] = {
		{ "\xf3\x0f\x1e\xfa", 4 }, { "\xf3\x0f\x1e\xfb", 4 },                  /* endbr64, endbr32 */
		{ "\x55", 1 }, { "\x5d", 1 }, { "\xc9", 1 }, { "\x90", 1 }, { "\x53", 1 }, { "\x5b", 1 },
		{ "\x48\x89\xe5", 3 }, { "\x89\xe5", 2 },                              /* mov sp to bp */
		{ "\x48\x83\xec\x08", 4 }, { "\x48\x83\xc4\x08", 4 },                  /* sub, add sp */
	};
	for (size_t i = 0; i < sizeof skipped / sizeof *skipped; i++)
		if (begins(p, left, skipped[i].bytes, skipped[i].n))
			return skipped[i].n;
	return 0;
}

/* The operand of an instruction with a base register and a displacement (mod 0 to 2, no SIB): bytes taken, 0 if it is another. */
static size_t x86_operand(const uint8_t *modrm, size_t left, uint64_t *disp, unsigned *base)
{
	if (!left || (*modrm & 7) == 4)
		return 0;
	*base = *modrm & 7;
	switch (*modrm >> 6) {
	case 0:
		*disp = 0;
		return *base == 5 ? 0 : 1;
	case 1:
		if (left < 2)
			return 0;
		*disp = (uint64_t)(int64_t)(int8_t)modrm[1];
		return 2;
	case 2:
		if (left < 5)
			return 0;
		*disp = signed32(modrm + 1);
		return 5;
	default:
		return 0;
	}
}

static int x86_64_code(const struct abi *abi, addr_t at, const uint8_t *p, size_t len, struct head_code *ret)
{
	struct value reg[8] = { { UNKNOWN, 0, 0, 0 } };
	for (size_t i = 0; i < len;) {
		const uint8_t *q = p + i;
		size_t left = len - i + PADDING, n = x86_skip(q, left);
		if (n) {
			i += n;
			continue;
		}
		if (q[0] == 0xc3 || BEGINS(q, left, "\xf3\xc3"))
			return returns(reg[0], abi, ret);
		if (q[0] != 0x48 || (q[1] != 0x8b && q[1] != 0x8d)) /* mov r64, lea r64 */
			return ERR_ABSENT;
		unsigned to = q[2] >> 3 & 7, base;
		struct value from;
		uint64_t disp;
		if ((q[2] & 0xc7) == 5) { /* relative to the next instruction */
			n = 7;
			disp = signed32(q + 3);
			from = constant(at + i + n);
		} else {
			n = x86_operand(q + 2, left - 2, &disp, &base);
			if (!n)
				return ERR_ABSENT;
			n += 2;
			from = reg[base];
		}
		reg[to] = q[1] == 0x8b ? load(from, disp) : plus(from, disp);
		i += n;
	}
	return ERR_CORRUPT;
}

static int i386_code(const struct abi *abi, addr_t at, const uint8_t *p, size_t len, struct head_code *ret)
{
	struct value reg[8] = { { UNKNOWN, 0, 0, 0 } };
	addr_t behind_call = 0;
	for (size_t i = 0; i < len;) {
		const uint8_t *q = p + i;
		size_t left = len - i + PADDING, n = x86_skip(q, left);
		unsigned base;
		uint64_t disp;
		if (n) {
			i += n;
			continue;
		}
		if (q[0] == 0xc3 || BEGINS(q, left, "\xf3\xc3"))
			return returns(reg[0], abi, ret);
		if (q[0] == 0xe8) { /* __x86.get_pc_thunk: which register it sets, the addition behind it shows */
			behind_call = at + i + 5;
			n = 5;
		} else if (q[0] == 0x05 && behind_call) { /* add eax */
			reg[0] = constant(behind_call + signed32(q + 1));
			behind_call = 0;
			n = 5;
		} else if (q[0] == 0x81 && (q[1] & 0xf8) == 0xc0 && behind_call) {
			reg[q[1] & 7] = constant(behind_call + signed32(q + 2));
			behind_call = 0;
			n = 6;
		} else if (q[0] == 0xa1) {
			reg[0] = load(constant(0), signed32(q + 1) & UINT32_MAX);
			n = 5;
		} else if ((q[0] & 0xf8) == 0xb8) {
			reg[q[0] & 7] = constant(signed32(q + 1) & UINT32_MAX);
			n = 5;
		} else if ((q[0] == 0x8b || q[0] == 0x8d) && (q[1] & 0xc7) == 5) {
			struct value from = constant(signed32(q + 2) & UINT32_MAX);
			reg[q[1] >> 3 & 7] = q[0] == 0x8b ? load(from, 0) : from;
			n = 6;
		} else if ((q[0] == 0x8b || q[0] == 0x8d) && (n = x86_operand(q + 1, left - 1, &disp, &base))) {
			reg[q[1] >> 3 & 7] = q[0] == 0x8b ? load(reg[base], disp) : plus(reg[base], disp);
			n += 1;
		} else {
			return ERR_ABSENT;
		}
		i += n;
	}
	return ERR_CORRUPT;
}

static int aarch64_code(const struct abi *abi, addr_t at, const uint8_t *p, size_t len, struct head_code *ret)
{
	static const uint32_t skipped[] = {
		0xd503201f, 0xd503245f, 0xd503233f, 0xd50323bf, /* nop, bti c, paciasp, autiasp */
		0xa9bf7bfd, 0x910003fd, 0xa8c17bfd,             /* stp x29, x30; mov x29, sp; ldp x29, x30 */
	};
	struct value reg[32] = { { UNKNOWN, 0, 0, 0 } };
	for (size_t i = 0; i + 4 <= len; i += 4) {
		uint32_t in = (uint32_t)p[i] | (uint32_t)p[i + 1] << 8 | (uint32_t)p[i + 2] << 16 | (uint32_t)p[i + 3] << 24;
		unsigned to = in & 31, from = in >> 5 & 31;
		bool skip = false;
		for (size_t k = 0; k < sizeof skipped / sizeof *skipped; k++)
			skip = skip || in == skipped[k];
		if (skip)
			continue;
		if (in == 0xd65f03c0)
			return returns(reg[0], abi, ret);
		if ((in & 0x9f000000) == 0x90000000) { /* adrp */
			uint64_t pages = (uint64_t)(in >> 5 & 0x7ffff) << 2 | (in >> 29 & 3);
			if (pages >> 20 & 1)
				pages |= ~UINT64_C(0x1fffff);
			reg[to] = constant(((at + i) & ~UINT64_C(0xfff)) + (pages << 12));
		} else if ((in & 0xff800000) == 0x91000000) { /* add immediate */
			reg[to] = plus(reg[from], (uint64_t)(in >> 10 & 0xfff) << (in >> 22 & 1 ? 12 : 0));
		} else if ((in & 0xffc00000) == 0xf9400000) { /* ldr, unsigned offset */
			reg[to] = load(reg[from], (uint64_t)(in >> 10 & 0xfff) * 8);
		} else {
			return ERR_ABSENT;
		}
	}
	return ERR_CORRUPT;
}

int head_code_read(const struct abi *abi, addr_t at, const uint8_t *p, size_t len, struct head_code *ret)
{
	/* Behind it lie zeros, so that an instruction at the end can be looked at whole; one that reaches into them was cut. */
	uint8_t code[HEAD_CODE_MAX + PADDING] = { 0 };
	if (len > HEAD_CODE_MAX)
		len = HEAD_CODE_MAX;
	if (len)
		memcpy(code, p, len);
	p = code;
	struct head_code got;
	int rc = ERR_UNSUPPORTED;
	if (abi->machine == EM_X86_64)
		rc = x86_64_code(abi, at, p, len, &got);
	else if (abi->machine == EM_386)
		rc = i386_code(abi, at, p, len, &got);
	else if (abi->machine == EM_AARCH64)
		rc = aarch64_code(abi, at, p, len, &got);
	if (rc == 0)
		*ret = got;
	return rc;
}
