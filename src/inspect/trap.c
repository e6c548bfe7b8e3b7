/*
 * A thread's last trap, as a signal frame has it: Linux writes thread.trap_nr, error_code and cr2 (arm: address, arm64: fault_address)
 * into every frame, but sets them only when it sends a signal for a trap.  A process that once recovered from one, by siglongjmp(), shows
 * it in the frames of all signals that come later.  So the instruction is asked.
 */
#include "inspect/trap.h"

#include <signal.h>

#include "image/signal_abi.h"
#include "inspect/instruction.h"

enum { FETCH = 16 /* in a page fault's error; Linux arch/x86/include/asm/trap_pf.h */, LONGEST = 15, TRAP_DEBUG = 1, TRAP_BREAKPOINT = 3, TRAP_X87 = 16, TRAP_SIMD = 19 };

/* Linux arch/x86/kernel/traps.c. */
bool trap_is(unsigned trap, int signo)
{
	switch (signo) {
	case SIGSEGV: return trap == TRAP_PAGE || trap == TRAP_PROTECTION || trap == 4 || trap == 5 || (trap >= 9 && trap <= 12);
	case SIGBUS: return trap == TRAP_PAGE || trap == TRAP_PROTECTION || trap == 11 || trap == 12 || trap == TRAP_ALIGNMENT;
	case SIGILL: return trap == TRAP_ILLEGAL;
	case SIGFPE: return trap == TRAP_DIVIDE || trap == TRAP_X87 || trap == TRAP_SIMD;
	case SIGTRAP: return trap == TRAP_DEBUG || trap == TRAP_BREAKPOINT;
	}
	return signo == SIGSYS;
}

/* Of a page fault: is there a mapping, and does it allow what was wanted? */
static bool is_mapped(const struct image *img, const struct signal_frame *sf, bool *allowed)
{
	enum { READ = 1, WRITE = 2, EXECUTE = 4, WRITES = 2 };
	struct mapped m;
	const unsigned wanted = sf->error & FETCH ? EXECUTE : sf->error & WRITES ? WRITE : READ;
	if (image_mapped_at(img, sf->addr, &m) < 0)
		return false;
	*allowed = m.prot & wanted;
	return true;
}

int trap_signal(const struct image *img, const struct signal_frame *sf)
{
	enum { REFUSED = 1 };
	const struct mapping *m;
	bool allowed;
	switch (sf->trap) {
	case TRAP_DIVIDE: case TRAP_X87: case TRAP_SIMD: return SIGFPE;
	case TRAP_DEBUG: case TRAP_BREAKPOINT: return SIGTRAP;
	case TRAP_ILLEGAL: return SIGILL;
	case 4: case 5: case 9: case 10: case TRAP_PROTECTION: return SIGSEGV;
	case 11: case 12: case TRAP_ALIGNMENT: return SIGBUS;
	case TRAP_PAGE: /* what is mapped, and allows it, is a file that has no such page, or cannot give it */
		m = image_mapping_at(img, sf->addr);
		return m && m->path.len && !(sf->error & REFUSED) && is_mapped(img, sf, &allowed) && allowed ? SIGBUS : SIGSEGV;
	}
	return 0;
}

/* Which floating-point exception was not masked: fpu__exception_code() of Linux arch/x86/kernel/fpu/core.c. */
static int float_code(struct image *img, const struct signal_frame *sf)
{
	enum { MASKED = 7 /* mxcsr: from a flag to its mask */, UNKNOWN = 14 /* FPE_FLTUNK */ };
	const struct signal_context *c = signal_context_of(image_abi(img));
	static const struct { unsigned flags; int code; } by_flag[] = { { 1, FPE_FLTINV }, { 4, FPE_FLTDIV }, { 8, FPE_FLTOVF }, { 0x12, FPE_FLTUND }, { 0x20, FPE_FLTRES } };
	uint64_t control, status;
	addr_t state;
	if (!c || !c->floats || image_read_ptr(img, sf->at + c->floats, &state) < 0 || !state)
		return UNKNOWN;
	if (sf->trap == TRAP_SIMD) {
		uint64_t magic = 0;
		if ((c->magic && (image_read_uint(img, state + c->magic, 2, &magic) < 0 || magic)) || image_read_uint(img, state + c->mxcsr, 4, &status) < 0)
			return UNKNOWN;
		control = status >> MASKED;
	} else if (image_read_uint(img, state, 2, &control) < 0 || image_read_uint(img, state + c->status, 2, &status) < 0) {
		return UNKNOWN;
	}
	for (size_t i = 0; i < sizeof by_flag / sizeof *by_flag; i++)
		if (status & ~control & by_flag[i].flags)
			return by_flag[i].code;
	return UNKNOWN;
}

int trap_code(struct image *img, const struct signal_frame *sf, int signo)
{
	enum { REFUSED = 1, PROTECTION_KEY = 32, ADDRESS = 2 /* BUS_ADRERR */ };
	const struct signal_context *c = signal_context_of(image_abi(img));
	bool allowed;
	if (signo == SIGSYS)
		return 1;
	switch (sf->trap) {
	case TRAP_PAGE:
		if (signo == SIGBUS)
			return ADDRESS;
		if (c && c->traps && sf->error & PROTECTION_KEY)
			return 4;
		return sf->error & REFUSED || (is_mapped(img, sf, &allowed) && !allowed) ? 2 : 1;
	case TRAP_ALIGNMENT: case TRAP_DIVIDE: return 1;
	case TRAP_ILLEGAL: return 2; /* ILL_ILLOPN: exc_invalid_op() */
	case TRAP_DEBUG: return 2; /* TRAP_TRACE */
	case TRAP_X87: case TRAP_SIMD: return float_code(img, sf);
	}
	return SI_KERNEL;
}

/* Where there is no decoder: F6 or F7, /6 or /7. */
static enum trap_fit divides(struct image *img, const struct regs *regs)
{
	uint8_t b[4];
	if (image_read(img, regs->pc, b, sizeof b) < 0)
		return TRAP_UNDECIDED;
	size_t i = b[0] == 0x66;
	i += image_abi(img)->width == 8 && (b[i] & 0xf0) == 0x40;
	return (b[i] & 0xfe) == 0xf6 && (b[i + 1] & 0x30) == 0x30 ? TRAP_FITS : TRAP_OTHER;
}

static enum trap_fit fetch_fits(const struct signal_frame *sf)
{
	return sf->addr >= sf->regs.pc && sf->addr - sf->regs.pc < LONGEST ? TRAP_FITS : TRAP_OTHER;
}

/* The processor's own tables need not say that it was a fetch: i386 without PAE. */
static enum trap_fit page_fits(struct target *t, struct report *r, const struct signal_frame *sf)
{
	struct instruction in;
	const struct mapping *m = image_mapping_at(t->img, sf->addr);
	const struct segment *seg = image_segment_at(t->img, sf->addr);
	if (sf->error & FETCH || !((m && m->prot & 4) || (seg && seg->prot & 4)))
		if (fetch_fits(sf) == TRAP_FITS || sf->error & FETCH)
			return fetch_fits(sf);
	if (instruction_at(t->img, &sf->regs, true, sf->addr, r->arena, &in) < 0)
		return TRAP_UNDECIDED;
	return in.has_address ? TRAP_FITS : in.elsewhere ? TRAP_UNDECIDED : TRAP_OTHER;
}

static enum trap_fit x86_fits(struct target *t, struct report *r, const struct signal_frame *sf)
{
	enum { INT3 = 0xcc };
	struct instruction in;
	uint8_t b;
	if (sf->trap == TRAP_PAGE)
		return page_fits(t, r, sf);
	if (sf->trap == TRAP_BREAKPOINT) /* pc is after it */
		return image_read(t->img, sf->regs.pc - 1, &b, 1) == 0 && b == INT3 ? TRAP_FITS : TRAP_UNDECIDED;
	int rc = instruction_at(t->img, &sf->regs, false, 0, r->arena, &in);
	switch (sf->trap) {
	case TRAP_DIVIDE: /* or no trap at all */
		return rc == ERR_CORRUPT ? TRAP_OTHER : rc < 0 ? divides(t->img, &sf->regs) : in.divides && !in.quotient_fits ? TRAP_FITS : TRAP_OTHER;
	case TRAP_ILLEGAL: /* or one that this processor does not have */
		return rc == ERR_CORRUPT || (rc == 0 && in.undefined) ? TRAP_FITS : TRAP_UNDECIDED;
	case TRAP_PROTECTION:
		return rc == 0 && ((in.has_address && !in.unmapped) || in.privileged || (in.transfer && address_is_wild(image_abi(t->img), in.target))) ? TRAP_FITS : TRAP_UNDECIDED;
	case TRAP_X87:
	case TRAP_SIMD:
		return rc == 0 && in.floats ? TRAP_FITS : TRAP_UNDECIDED;
	}
	return TRAP_UNDECIDED;
}

/*
 * aarch64: loads and stores are known by four bits, and have their base register in one place (Arm ARM DDI 0487, C4.1: op0 x1x0; SVE: 0010).
 * None but those with another register reaches further from it than 64 KB.
 */
static enum trap_fit arm64_fits(struct image *img, const struct signal_frame *sf)
{
	enum { NEAR = 1 << 16, SP_NUMBER = 31 };
	const addr_t user = (UINT64_C(1) << 56) - 1; /* the top byte is the program's own */
	uint64_t word;
	if (sf->trapped && sf->error & FETCH)
		return sf->addr == sf->regs.pc ? TRAP_FITS : TRAP_OTHER;
	if (image_read_uint(img, sf->regs.pc, 4, &word) < 0)
		return TRAP_UNDECIDED;
	const unsigned group = (unsigned)word >> 25 & 15, rn = (unsigned)word >> 5 & 31, rm = (unsigned)word >> 16 & 31;
	if ((word & 0xfff80000) == 0xd5080000) /* sys: dc zva, ic, dc */
		return TRAP_UNDECIDED;
	if ((group & 5) != 4)
		return group == 2 ? TRAP_UNDECIDED : TRAP_OTHER;
	if ((word & 0x3b000000) == 0x18000000) /* at a distance from pc */
		return (sf->addr > sf->regs.pc ? sf->addr - sf->regs.pc : sf->regs.pc - sf->addr) <= 1 << 20 ? TRAP_FITS : TRAP_OTHER;
	if ((word & 0x3b200c00) == 0x19000400) /* cpy, set: of any length */
		return TRAP_UNDECIDED;
	if (rn != SP_NUMBER && !(sf->regs.known >> rn & 1))
		return TRAP_UNDECIDED;
	addr_t base = (rn == SP_NUMBER ? sf->regs.sp : sf->regs.value[rn]) & user;
	if ((word & 0x3b200c00) == 0x38200800) {
		if (rm == SP_NUMBER || !(sf->regs.known >> rm & 1))
			return TRAP_UNDECIDED;
		uint64_t index = sf->regs.value[rm];
		const unsigned extend = (unsigned)word >> 13 & 7, shift = word >> 12 & 1 ? (unsigned)(word >> 30 & 3) + ((word & 0x04800000) == 0x04800000 ? 4 : 0) : 0;
		index = extend == 2 ? (uint32_t)index : extend == 6 ? (uint64_t)(int64_t)(int32_t)(uint32_t)index : index;
		base = (base + (index << shift)) & user;
	}
	const addr_t at = sf->addr & user;
	return (at > base ? at - base : base - at) <= NEAR ? TRAP_FITS : TRAP_OTHER;
}

/* arm: no instruction of which it is known; a register that the address is near to says that it may be. */
static enum trap_fit near_a_register(const struct signal_frame *sf, unsigned n)
{
	enum { NEAR = 1 << 12 };
	for (unsigned i = 0; i < n; i++)
		if (sf->regs.known >> i & 1 && (sf->addr > sf->regs.value[i] ? sf->addr - sf->regs.value[i] : sf->regs.value[i] - sf->addr) < NEAR)
			return TRAP_FITS;
	return sf->addr == sf->regs.pc || (sf->addr > sf->regs.sp ? sf->addr - sf->regs.sp : sf->regs.sp - sf->addr) < NEAR ? TRAP_FITS : TRAP_UNDECIDED;
}

enum trap_fit trap_fits(struct target *t, struct report *r, const struct signal_frame *sf)
{
	const struct signal_context *context = signal_context_of(image_abi(t->img));
	if (context && context->traps)
		return x86_fits(t, r, sf);
	if (sf->trapped && sf->trap != TRAP_PAGE)
		return TRAP_UNDECIDED;
	return image_abi(t->img)->width == 8 ? arm64_fits(t->img, sf) : near_a_register(sf, context ? context->general : 0);
}
