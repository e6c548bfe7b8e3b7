/* Instructions of x86, through Zydis where it is there. */
#include "inspect/instruction.h"

#include "config.h"

bool address_is_wild(const struct abi *abi, addr_t addr)
{
	enum { X86_64 = 62, BITS = 47 /* of a half of the address space, with four levels of tables */ };
	return abi->machine == X86_64 && addr >> BITS && addr >> BITS != UINT64_MAX >> BITS;
}

#if HAVE_ZYDIS
#include <stdio.h>
#include <string.h>

#include "inspect/x86.h"

enum { SHOWN = 4, FUNCTION_MAX = 1 << 16, BEYOND = 1 << 13 };

struct decoded {
	const struct abi *abi;
	const struct regs *regs;
	ZydisDecodedInstruction in;
	ZydisDecodedOperand op[ZYDIS_MAX_OPERAND_COUNT];
};

static bool value_of(const struct decoded *d, ZydisRegister reg, uint64_t *ret)
{
	if (reg == ZYDIS_REGISTER_NONE) {
		*ret = 0;
		return true;
	}
	if (reg == ZYDIS_REGISTER_RIP || reg == ZYDIS_REGISTER_EIP) {
		*ret = d->regs->pc + d->in.length;
		return true;
	}
	int n = x86_dwarf(d->abi, ZydisRegisterGetLargestEnclosing(x86_mode(d->abi), reg));
	if (n < 0 || !(d->regs->known >> n & 1))
		return false;
	*ret = d->regs->value[n];
	if (d->abi->width == 8 && d->in.address_width == 32)
		*ret &= UINT32_MAX;
	return true;
}

/* Where a memory operand lies. */
static bool address_of(const struct decoded *d, const ZydisDecodedOperand *op, addr_t *ret)
{
	uint64_t base, index, segment = 0;
	if (op->mem.type != ZYDIS_MEMOP_TYPE_MEM || !value_of(d, op->mem.base, &base) || !value_of(d, op->mem.index, &index))
		return false;
	const ZydisRegister own = d->abi->width == 8 ? ZYDIS_REGISTER_FS : ZYDIS_REGISTER_GS;
	if (op->mem.segment == own)
		segment = d->regs->tls;
	else if (op->mem.segment == ZYDIS_REGISTER_FS || op->mem.segment == ZYDIS_REGISTER_GS)
		return false;
	if (op->mem.segment == own && !segment)
		return false;
	uint64_t at = segment + base + index * op->mem.scale + (uint64_t)op->mem.disp.value;
	const ZydisRegister sp = d->abi->width == 8 ? ZYDIS_REGISTER_RSP : ZYDIS_REGISTER_ESP;
	if (op->visibility == ZYDIS_OPERAND_VISIBILITY_HIDDEN && op->mem.base == sp && op->actions & ZYDIS_OPERAND_ACTION_MASK_WRITE)
		at -= op->size / 8; /* push and call write below it */
	*ret = d->abi->width == 8 ? at : at & UINT32_MAX;
	return true;
}

static enum access access_of(const ZydisDecodedOperand *op)
{
	bool read = op->actions & ZYDIS_OPERAND_ACTION_MASK_READ, write = op->actions & ZYDIS_OPERAND_ACTION_MASK_WRITE;
	return read && write ? ACCESS_BOTH : write ? ACCESS_WRITE : read ? ACCESS_READ : ACCESS_UNKNOWN;
}

static void put_registers(const struct decoded *d, struct arena *a, struct instruction *ret)
{
	CLEANUP(cleanup_sb) struct sb b = { 0 };
	ZydisRegister seen[SHOWN];
	size_t n = 0;
	for (size_t i = 0; i < d->in.operand_count; i++) {
		const ZydisDecodedOperand *op = &d->op[i];
		ZydisRegister regs[2] = { ZYDIS_REGISTER_NONE, ZYDIS_REGISTER_NONE };
		if (op->type == ZYDIS_OPERAND_TYPE_MEMORY) { /* of those that are not written too: push, ret, movs */
			regs[0] = op->mem.base;
			regs[1] = op->mem.index;
		} else if (op->type == ZYDIS_OPERAND_TYPE_REGISTER && op->actions & ZYDIS_OPERAND_ACTION_MASK_READ && i < d->in.operand_count_visible) {
			regs[0] = op->reg.value;
		}
		for (size_t k = 0; k < 2; k++) {
			ZydisRegister whole = ZydisRegisterGetLargestEnclosing(x86_mode(d->abi), regs[k]);
			int dwarf = x86_dwarf(d->abi, whole);
			size_t s = 0;
			while (s < n && seen[s] != whole)
				s++;
			if (dwarf < 0 || s < n || n == SHOWN || !(d->regs->known >> dwarf & 1))
				continue;
			seen[n++] = whole;
			sb_printf(&b, "%s%s = 0x%llx", b.len ? ", " : "", ZydisRegisterGetString(whole), (unsigned long long)d->regs->value[dwarf]);
		}
	}
	ret->operands = str_dup(a, sb_view(&b));
}

/* A transfer to what cannot be an address faults where it is, not where it goes. */
static bool find_target(struct image *img, const struct decoded *d, struct instruction *ret)
{
	uint64_t at;
	if (d->in.meta.branch_type == ZYDIS_BRANCH_TYPE_FAR)
		return false; /* what it reads is a selector too, and that may be what was refused */
	switch (d->in.meta.category) {
	case ZYDIS_CATEGORY_RET: ret->transfer = "return"; break;
	case ZYDIS_CATEGORY_CALL: ret->transfer = "call"; break;
	case ZYDIS_CATEGORY_UNCOND_BR: ret->transfer = "jump"; break;
	default: return false;
	}
	for (size_t i = 0; i < d->in.operand_count; i++) {
		const ZydisDecodedOperand *op = &d->op[i];
		if (op->type == ZYDIS_OPERAND_TYPE_MEMORY && access_of(op) == ACCESS_READ && op->size == d->abi->width * 8u && address_of(d, op, &at) &&
		    image_read_ptr(img, at, &ret->target) == 0)
			return true;
		if (op->type == ZYDIS_OPERAND_TYPE_REGISTER && i < d->in.operand_count_visible && value_of(d, op->reg.value, &ret->target))
			return true;
	}
	return false;
}

/*
 * What the address has to be a multiple of; 0: of nothing.  Intel SDM 1, 13.7 to 13.11 (XSAVE and its kin, 64) and 10.5.1 (FXSAVE, 16);
 * 2, 2.4: of other instructions legacy SSE's operands of 16 bytes, but for those that say otherwise, and with VEX or EVEX the ones
 * that are named for it.  That a stack, a table or a selector is read says nothing of the kind.
 */
static unsigned alignment_of(const struct decoded *d, const ZydisDecodedOperand *op)
{
	const unsigned size = op->size / 8;
	switch (d->in.mnemonic) {
	case ZYDIS_MNEMONIC_FXSAVE: case ZYDIS_MNEMONIC_FXSAVE64: case ZYDIS_MNEMONIC_FXRSTOR: case ZYDIS_MNEMONIC_FXRSTOR64: case ZYDIS_MNEMONIC_CMPXCHG16B:
		return 16;
	case ZYDIS_MNEMONIC_XSAVE: case ZYDIS_MNEMONIC_XSAVE64: case ZYDIS_MNEMONIC_XSAVEC: case ZYDIS_MNEMONIC_XSAVEC64: case ZYDIS_MNEMONIC_XSAVEOPT:
	case ZYDIS_MNEMONIC_XSAVEOPT64: case ZYDIS_MNEMONIC_XSAVES: case ZYDIS_MNEMONIC_XSAVES64: case ZYDIS_MNEMONIC_XRSTOR: case ZYDIS_MNEMONIC_XRSTOR64:
	case ZYDIS_MNEMONIC_XRSTORS: case ZYDIS_MNEMONIC_XRSTORS64:
		return 64;
	case ZYDIS_MNEMONIC_MOVUPS: case ZYDIS_MNEMONIC_MOVUPD: case ZYDIS_MNEMONIC_MOVDQU: case ZYDIS_MNEMONIC_LDDQU: case ZYDIS_MNEMONIC_PCMPESTRI:
	case ZYDIS_MNEMONIC_PCMPESTRM: case ZYDIS_MNEMONIC_PCMPISTRI: case ZYDIS_MNEMONIC_PCMPISTRM:
		return 0;
	case ZYDIS_MNEMONIC_VMOVAPS: case ZYDIS_MNEMONIC_VMOVAPD: case ZYDIS_MNEMONIC_VMOVDQA: case ZYDIS_MNEMONIC_VMOVDQA32: case ZYDIS_MNEMONIC_VMOVDQA64:
	case ZYDIS_MNEMONIC_VMOVNTDQ: case ZYDIS_MNEMONIC_VMOVNTDQA: case ZYDIS_MNEMONIC_VMOVNTPS: case ZYDIS_MNEMONIC_VMOVNTPD:
		break;
	default:
		if (d->in.encoding != ZYDIS_INSTRUCTION_ENCODING_LEGACY)
			return 0;
	}
	bool vector = false;
	for (size_t i = 0; i < d->in.operand_count; i++) {
		const ZydisRegisterClass c = d->op[i].type == ZYDIS_OPERAND_TYPE_REGISTER ? ZydisRegisterGetClass(d->op[i].reg.value) : ZYDIS_REGCLASS_INVALID;
		vector |= c == ZYDIS_REGCLASS_XMM || c == ZYDIS_REGCLASS_YMM || c == ZYDIS_REGCLASS_ZMM;
	}
	return vector && size >= 16 && !(size & (size - 1)) ? size : 0;
}

/* The operand that faulted. */
static void find_operand(const struct decoded *d, bool known, addr_t fault, struct instruction *ret)
{
	const ZydisDecodedOperand *one = NULL;
	size_t n = 0;
	for (size_t i = 0; i < d->in.operand_count; i++) {
		const ZydisDecodedOperand *op = &d->op[i];
		addr_t at;
		if (op->type != ZYDIS_OPERAND_TYPE_MEMORY || op->mem.type == ZYDIS_MEMOP_TYPE_AGEN || access_of(op) == ACCESS_UNKNOWN)
			continue;
		const unsigned size = op->size / 8, multiple = known ? 0 : alignment_of(d, op);
		bool has = address_of(d, op, &at);
		if (has && known && (fault < at || fault - at >= (size ? size : 1)))
			continue;
		bool misaligned = has && multiple && at % multiple;
		if (has && !known && !address_is_wild(d->abi, at) && !misaligned)
			continue;
		n++;
		one = op;
		if (!has)
			continue;
		ret->access = access_of(op);
		ret->has_address = true;
		ret->address = at;
		ret->size = size;
		ret->multiple = misaligned && !address_is_wild(d->abi, at) ? multiple : 0;
		return;
	}
	if (n == 1) /* by vector registers, which are not looked at */
		ret->access = access_of(one);
}

/* Where no address was given, and each could be one: an operand where nothing is mapped. */
static void find_unmapped(struct image *img, const struct decoded *d, struct instruction *ret)
{
	for (size_t i = 0; i < d->in.operand_count; i++) {
		const ZydisDecodedOperand *op = &d->op[i];
		addr_t at;
		if (op->type != ZYDIS_OPERAND_TYPE_MEMORY || op->mem.type == ZYDIS_MEMOP_TYPE_AGEN || access_of(op) == ACCESS_UNKNOWN || !address_of(d, op, &at) ||
		    image_segment_at(img, at) || image_mapping_at(img, at))
			continue;
		ret->access = access_of(op);
		ret->has_address = ret->unmapped = true;
		ret->address = at;
		ret->size = op->size / 8;
		return;
	}
}

/* Intel SDM 2: what asks for privilege level 0, and what IOPL, CR4.PCE, CR4.TSD or CR4.UMIP allow. */
static bool is_privileged(const ZydisDecodedInstruction *in)
{
	switch (in->mnemonic) {
	case ZYDIS_MNEMONIC_CLI: case ZYDIS_MNEMONIC_STI: case ZYDIS_MNEMONIC_RDPMC: case ZYDIS_MNEMONIC_LGDT: case ZYDIS_MNEMONIC_LIDT: case ZYDIS_MNEMONIC_LLDT:
	case ZYDIS_MNEMONIC_LTR: case ZYDIS_MNEMONIC_INVLPG: case ZYDIS_MNEMONIC_LMSW:
		return true;
	default:
		return in->attributes & ZYDIS_ATTRIB_IS_PRIVILEGED || in->meta.category == ZYDIS_CATEGORY_IO || in->meta.category == ZYDIS_CATEGORY_IOSTRINGOP;
	}
}

/* Does what it loads have to be of a certain kind: a selector of a segment, bits of a control register? */
static bool loads_checked(const struct decoded *d)
{
	switch (d->in.mnemonic) {
	case ZYDIS_MNEMONIC_LDMXCSR: case ZYDIS_MNEMONIC_VLDMXCSR: case ZYDIS_MNEMONIC_FXRSTOR: case ZYDIS_MNEMONIC_FXRSTOR64: case ZYDIS_MNEMONIC_XRSTOR:
	case ZYDIS_MNEMONIC_XRSTOR64: case ZYDIS_MNEMONIC_IRET: case ZYDIS_MNEMONIC_IRETD: case ZYDIS_MNEMONIC_IRETQ: case ZYDIS_MNEMONIC_LSS: case ZYDIS_MNEMONIC_LFS:
	case ZYDIS_MNEMONIC_LGS: case ZYDIS_MNEMONIC_LDS: case ZYDIS_MNEMONIC_LES:
		return true;
	default: break;
	}
	for (size_t i = 0; i < d->in.operand_count; i++)
		if (d->op[i].type == ZYDIS_OPERAND_TYPE_REGISTER && d->op[i].actions & ZYDIS_OPERAND_ACTION_MASK_WRITE && i < d->in.operand_count_visible &&
		    ZydisRegisterGetClass(d->op[i].reg.value) == ZYDIS_REGCLASS_SEGMENT)
			return true;
	return d->in.meta.branch_type == ZYDIS_BRANCH_TYPE_FAR;
}

static bool touches_memory(const struct decoded *d)
{
	for (size_t i = 0; i < d->in.operand_count; i++)
		if (d->op[i].type == ZYDIS_OPERAND_TYPE_MEMORY && d->op[i].mem.type != ZYDIS_MEMOP_TYPE_AGEN)
			return true;
	return false;
}

static bool has_floats(const struct decoded *d)
{
	for (size_t i = 0; i < d->in.operand_count; i++) {
		const ZydisRegisterClass c = d->op[i].type == ZYDIS_OPERAND_TYPE_REGISTER ? ZydisRegisterGetClass(d->op[i].reg.value) : ZYDIS_REGCLASS_INVALID;
		if (c == ZYDIS_REGCLASS_X87 || c == ZYDIS_REGCLASS_XMM || c == ZYDIS_REGCLASS_YMM || c == ZYDIS_REGCLASS_ZMM)
			return true;
	}
	return d->in.meta.category == ZYDIS_CATEGORY_X87_ALU;
}

static bool may_access_elsewhere(const struct decoded *d)
{
	enum { LARGE = 128 /* bytes: xsave and the like, whose size is not constant */ };
	addr_t at;
	for (size_t i = 0; i < d->in.operand_count; i++) {
		const ZydisDecodedOperand *op = &d->op[i];
		if (op->type == ZYDIS_OPERAND_TYPE_MEMORY && op->mem.type != ZYDIS_MEMOP_TYPE_AGEN && (!op->size || op->size / 8 > LARGE || !address_of(d, op, &at)))
			return true;
	}
	return d->in.attributes & (ZYDIS_ATTRIB_HAS_REP | ZYDIS_ATTRIB_HAS_REPE | ZYDIS_ATTRIB_HAS_REPNE);
}

static uint64_t low_bits(uint64_t v, unsigned bits)
{
	return bits < 64 ? v & ((UINT64_C(1) << bits) - 1) : v;
}

/* The first operand of div and idiv. */
static void find_divisor(struct image *img, const struct decoded *d, struct instruction *ret)
{
	const ZydisDecodedOperand *op = &d->op[0];
	const struct abi *abi = d->abi;
	uint8_t b[8];
	addr_t at;
	if (op->type == ZYDIS_OPERAND_TYPE_REGISTER) {
		int n = x86_dwarf(abi, ZydisRegisterGetLargestEnclosing(x86_mode(abi), op->reg.value));
		if (n < 0 || !(d->regs->known >> n & 1))
			return;
		const bool high = op->reg.value >= ZYDIS_REGISTER_AH && op->reg.value <= ZYDIS_REGISTER_BH;
		ret->divisor = low_bits(d->regs->value[n] >> (high ? 8 : 0), op->size);
		ret->divisor_known = true;
	} else if (op->type == ZYDIS_OPERAND_TYPE_MEMORY && op->size <= 64 && address_of(d, op, &at) && image_read(img, at, b, op->size / 8) == 0) {
		struct cursor c = cursor_of(b, op->size / 8, abi->big_endian);
		ret->divisor_known = cursor_uint(&c, op->size / 8, &ret->divisor) == 0;
	}
}

/* Has the quotient of the two registers that are divided, high and low, room in one?  All of so many bits. */
static bool quotient_fits(uint64_t high, uint64_t low, uint64_t divisor, unsigned bits, bool sign)
{
	const uint64_t top = UINT64_C(1) << (bits - 1);
	bool negative = false;
	if (!sign)
		return high < divisor;
	if (high & top) {
		negative = !negative;
		low = low_bits(~low + 1, bits);
		high = low_bits(~high + !low, bits);
	}
	if (divisor & top) {
		negative = !negative;
		divisor = low_bits(~divisor + 1, bits);
	}
	/* What is divided must be less than divisor * 2^(bits - 1), or one divisor more: there is a negative number more. */
	uint64_t limit = low_bits(divisor << (bits - 1), bits), limit_high = divisor >> 1;
	if (negative) {
		limit = low_bits(limit + divisor, bits);
		limit_high += limit < divisor;
	}
	return high < limit_high || (high == limit_high && low < limit);
}

static void find_quotient(const struct decoded *d, struct instruction *ret)
{
	const bool known = d->regs->known & 1 && d->regs->known >> x86_dwarf(d->abi, d->abi->width == 8 ? ZYDIS_REGISTER_RDX : ZYDIS_REGISTER_EDX) & 1;
	const unsigned bits = d->op[0].size;
	const uint64_t low = d->regs->value[0]; /* rax */
	const uint64_t high = d->regs->value[x86_dwarf(d->abi, d->abi->width == 8 ? ZYDIS_REGISTER_RDX : ZYDIS_REGISTER_EDX)];
	if (known && ret->divisor_known && ret->divisor && bits >= 8 && bits <= 64)
		ret->quotient_fits = quotient_fits(low_bits(bits == 8 ? low >> 8 : high, bits), low_bits(low, bits), ret->divisor, bits, d->in.mnemonic == ZYDIS_MNEMONIC_IDIV);
}

int instruction_at(struct image *img, const struct regs *regs, bool known, addr_t fault, struct arena *a, struct instruction *ret)
{
	struct decoded d = { .abi = image_abi(img), .regs = regs };
	uint8_t bytes[X86_LONGEST];
	ZydisDecoder decoder;
	ZydisFormatter formatter;
	char text[256];
	if (!x86_decoder(d.abi, &decoder))
		return ERR_ABSENT;
	size_t n = image_read_some(img, regs->pc, bytes, sizeof bytes);
	if (!n)
		return ERR_FAULT;
	if (!ZYAN_SUCCESS(ZydisDecoderDecodeFull(&decoder, bytes, n, &d.in, d.op)))
		return n < sizeof bytes ? ERR_FAULT : ERR_CORRUPT;
	if (!ZYAN_SUCCESS(ZydisFormatterInit(&formatter, ZYDIS_FORMATTER_STYLE_INTEL)) ||
	    !ZYAN_SUCCESS(ZydisFormatterSetProperty(&formatter, ZYDIS_FORMATTER_PROP_HEX_UPPERCASE, ZYAN_FALSE)) ||
	    !ZYAN_SUCCESS(ZydisFormatterSetProperty(&formatter, ZYDIS_FORMATTER_PROP_ADDR_PADDING_ABSOLUTE, ZYDIS_PADDING_DISABLED)) ||
	    !ZYAN_SUCCESS(ZydisFormatterFormatInstruction(&formatter, &d.in, d.op, d.in.operand_count_visible, text, sizeof text, regs->pc, NULL)))
		return ERR_CORRUPT;
	struct instruction in = { .text = str_from_bytes(a, text, strlen(text)) };
	in.divides = d.in.mnemonic == ZYDIS_MNEMONIC_DIV || d.in.mnemonic == ZYDIS_MNEMONIC_IDIV;
	if (in.divides && d.in.operand_count)
		find_divisor(img, &d, &in), find_quotient(&d, &in);
	put_registers(&d, a, &in);
	in.privileged = is_privileged(&d.in);
	in.checked = loads_checked(&d);
	in.no_memory = !touches_memory(&d);
	in.elsewhere = may_access_elsewhere(&d);
	in.undefined = d.in.mnemonic == ZYDIS_MNEMONIC_UD0 || d.in.mnemonic == ZYDIS_MNEMONIC_UD1 || d.in.mnemonic == ZYDIS_MNEMONIC_UD2;
	in.floats = has_floats(&d);
	in.mnemonic = ZydisMnemonicGetString(d.in.mnemonic);
	/* The processor refuses it before it looks at any operand. */
	if (known || !in.privileged)
		find_operand(&d, known, fault, &in);
	if (!known && !in.has_address && !in.privileged)
		(void)find_target(img, &d, &in);
	if (!known && !in.has_address && !in.privileged && !address_is_wild(d.abi, in.target))
		find_unmapped(img, &d, &in);
	*ret = in;
	return 0;
}

/* Where instructions begin is not known, so every one that ends there is looked at. */
enum led instruction_led(struct image *img, const struct regs *regs, addr_t after)
{
	enum { CALL_LONGEST = 8, CALL_SHORTEST = 2 };
	struct regs then = *regs;
	struct decoded d = { .abi = image_abi(img), .regs = &then };
	ZydisDecoder decoder;
	enum led led = LED_UNKNOWN;
	bool unknown = false;
	if (!x86_decoder(d.abi, &decoder))
		return LED_UNKNOWN;
	const int sp = x86_dwarf(d.abi, d.abi->width == 8 ? ZYDIS_REGISTER_RSP : ZYDIS_REGISTER_ESP);
	then.value[sp] += d.abi->width; /* the return address was pushed since */
	for (unsigned len = CALL_SHORTEST; len <= CALL_LONGEST; len++) {
		uint8_t bytes[CALL_LONGEST];
		struct instruction in = { 0 };
		then.pc = after - len;
		if (image_read(img, then.pc, bytes, len) < 0 || !ZYAN_SUCCESS(ZydisDecoderDecodeFull(&decoder, bytes, len, &d.in, d.op)) || d.in.length != len ||
		    d.in.meta.category != ZYDIS_CATEGORY_CALL)
			continue;
		bool direct = d.in.operand_count && d.op[0].type == ZYDIS_OPERAND_TYPE_IMMEDIATE;
		addr_t to;
		if (direct)
			to = after + (uint64_t)d.op[0].imm.value.s;
		else if (find_target(img, &d, &in))
			to = in.target;
		else {
			unknown = true;
			continue;
		}
		if ((d.abi->width == 8 ? to : to & UINT32_MAX) == regs->pc)
			return LED_THERE;
		led = LED_ELSEWHERE;
	}
	return unknown ? LED_UNKNOWN : led;
}

/* ---- arguments of a call */

/* What is known of one argument's register on the way, and where that was last written. */
struct argument { bool set, passed; uint64_t value; addr_t at; };

static int argument_of(const struct abi *abi, ZydisRegister reg)
{
	ZydisRegister whole = ZydisRegisterGetLargestEnclosing(x86_mode(abi), reg);
	return whole == ZYDIS_REGISTER_RDI ? 0 : whole == ZYDIS_REGISTER_RSI ? 1 : -1;
}

/* lea reg, [rip+x] and mov reg, x give it a constant; all else that writes it makes it unknown. */
static void follow(const struct decoded *d, addr_t pc, struct argument arg[2])
{
	for (size_t i = 0; i < d->in.operand_count; i++) {
		const ZydisDecodedOperand *op = &d->op[i];
		int n = op->type == ZYDIS_OPERAND_TYPE_REGISTER && op->actions & ZYDIS_OPERAND_ACTION_MASK_WRITE ? argument_of(d->abi, op->reg.value) : -1;
		if (n < 0)
			continue;
		const ZydisDecodedOperand *from = d->in.operand_count_visible > 1 && i == 0 ? &d->op[1] : NULL;
		arg[n] = (struct argument){ .at = pc };
		if (from && d->in.mnemonic == ZYDIS_MNEMONIC_LEA && from->mem.base == ZYDIS_REGISTER_RIP && from->mem.index == ZYDIS_REGISTER_NONE) {
			arg[n].set = true;
			arg[n].value = pc + d->in.length + (uint64_t)from->mem.disp.value;
		} else if (from && d->in.mnemonic == ZYDIS_MNEMONIC_MOV && from->type == ZYDIS_OPERAND_TYPE_IMMEDIATE) {
			arg[n].set = true;
			arg[n].value = op->size == 32 ? from->imm.value.u & UINT32_MAX : from->imm.value.u;
		}
	}
}

int instruction_arguments(struct image *img, addr_t start, addr_t after, struct call_arguments *ret)
{
	struct decoded d = { .abi = image_abi(img) };
	struct argument arg[2] = { { .passed = true }, { .passed = true } };
	struct VEC(addr_t) targets = { 0 };
	size_t n_before = 0;
	ZydisDecoder decoder;
	int rc = ERR_CORRUPT;
	if (d.abi->width != 8 || !x86_decoder(d.abi, &decoder))
		return ERR_ABSENT;
	if (after <= start || after - start > FUNCTION_MAX)
		return ERR_LIMIT;
	for (addr_t pc = start; pc < after + BEYOND; pc += d.in.length) {
		uint8_t bytes[X86_LONGEST];
		size_t n = image_read_some(img, pc, bytes, X86_LONGEST);
		if (!n || !ZYAN_SUCCESS(ZydisDecoderDecodeFull(&decoder, bytes, n, &d.in, d.op))) {
			if (pc < after)
				rc = n ? ERR_CORRUPT : ERR_FAULT;
			break;
		}
		if (d.in.operand_count && d.op[0].type == ZYDIS_OPERAND_TYPE_IMMEDIATE && d.op[0].imm.is_relative)
			*vec_push(&targets) = pc + d.in.length + (uint64_t)d.op[0].imm.value.s;
		if (pc + d.in.length == after)
			rc = d.in.meta.category == ZYDIS_CATEGORY_CALL ? 0 : ERR_CORRUPT;
		n_before = pc < after ? targets.n : n_before;
		if (pc + d.in.length >= after) /* from there on only ways back are looked for */
			continue;
		follow(&d, pc, arg);
		const ZydisInstructionCategory c = d.in.meta.category;
		if (c == ZYDIS_CATEGORY_CALL || c == ZYDIS_CATEGORY_RET || c == ZYDIS_CATEGORY_UNCOND_BR)
			/* What follows is come to from elsewhere, or the callee has used them. */
			for (size_t i = 0; i < 2; i++)
				arg[i] = (struct argument){ .at = pc + d.in.length, .passed = c != ZYDIS_CATEGORY_CALL && arg[i].passed };
	}
	if (rc == 0) {
		struct call_arguments got = { 0 };
		for (size_t i = 0; i < 2; i++) {
			/* Is there another way to the call, past where it was written? */
			bool bypassed = false;
			for (size_t k = 0; k < targets.n; k++)
				bypassed |= targets.p[k] > (arg[i].set ? arg[i].at : start) && targets.p[k] < after && (arg[i].set || k >= n_before);
			got.set[i] = arg[i].set && !bypassed;
			got.passed[i] = arg[i].passed && !bypassed;
			got.value[i] = arg[i].value;
		}
		*ret = got;
	}
	vec_free(&targets);
	return rc;
}
#else
int instruction_at(struct image *img, const struct regs *regs, bool known, addr_t fault, struct arena *a, struct instruction *ret)
{
	return ERR_ABSENT;
}

enum led instruction_led(struct image *img, const struct regs *regs, addr_t after)
{
	return LED_UNKNOWN;
}

int instruction_arguments(struct image *img, addr_t start, addr_t after, struct call_arguments *ret)
{
	return ERR_ABSENT;
}
#endif
