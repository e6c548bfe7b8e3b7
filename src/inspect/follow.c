/* Values on the way to a call, through Zydis where it is there. */
#include "inspect/follow.h"

#include "config.h"

#if HAVE_ZYDIS
#include <string.h>

#include "inspect/x86.h"

/* Registers by DWARF number. */
enum { RAX, RDX, RCX, RBX, RSI, RDI, RBP, RSP, N_REGS = 16, FUNCTION_MAX = 1 << 16, TARGETS_MAX = 1 << 12, SLOTS = 32 };

static const uint8_t argument_reg[FOLLOW_ARGUMENTS] = { RDI, RSI, RDX, RCX, 8, 9 }; /* System V psABI x86-64 1.0, 3.2.3 */

/* Those that a function gives back as it got them. */
static bool is_kept(int reg)
{
	return reg == RBX || reg == RBP || (reg >= 12 && reg <= 15);
}

struct step {
	const struct abi *abi;
	ZydisDecoder decoder;
	ZydisDecodedInstruction in;
	ZydisDecodedOperand op[ZYDIS_MAX_OPERAND_COUNT];
};

static int decode(struct image *img, struct step *s, addr_t pc)
{
	uint8_t bytes[X86_LONGEST];
	size_t n = image_read_some(img, pc, bytes, sizeof bytes);
	return !n ? ERR_FAULT : ZYAN_SUCCESS(ZydisDecoderDecodeFull(&s->decoder, bytes, n, &s->in, s->op)) ? 0 : ERR_CORRUPT;
}

static int reg_of(const struct step *s, ZydisRegister reg)
{
	return reg == ZYDIS_REGISTER_NONE ? -1 : x86_dwarf(s->abi, ZydisRegisterGetLargestEnclosing(x86_mode(s->abi), reg));
}

/* Which register an operand writes; -1: none. */
static int written(const struct step *s, size_t i)
{
	const ZydisDecodedOperand *op = &s->op[i];
	return op->type == ZYDIS_OPERAND_TYPE_REGISTER && op->actions & ZYDIS_OPERAND_ACTION_MASK_WRITE ? reg_of(s, op->reg.value) : -1;
}

static bool is_jump(const struct step *s)
{
	return s->in.meta.category == ZYDIS_CATEGORY_COND_BR || s->in.meta.category == ZYDIS_CATEGORY_UNCOND_BR;
}

static bool ends(const struct step *s)
{
	return s->in.meta.category == ZYDIS_CATEGORY_UNCOND_BR || s->in.meta.category == ZYDIS_CATEGORY_RET || s->in.mnemonic == ZYDIS_MNEMONIC_UD2 ||
	       s->in.mnemonic == ZYDIS_MNEMONIC_HLT;
}

/* What is between functions. */
static bool fills(const struct step *s)
{
	return s->in.mnemonic == ZYDIS_MNEMONIC_NOP || s->in.mnemonic == ZYDIS_MNEMONIC_INT3 || s->in.mnemonic == ZYDIS_MNEMONIC_ENDBR64;
}

/* ---- the whole function: where its jumps go, what it writes how often */

struct survey {
	struct VEC(addr_t) targets;
	unsigned writes[N_REGS];     /* those of pop are not counted: they give back what was before */
	struct { int base; int64_t disp; unsigned n; } slot[SLOTS]; /* memory that is written by the stack or frame pointer */
	size_t n_slots;
	bool slots_lost;
};

static void note_slot(struct survey *v, int base, int64_t disp)
{
	for (size_t i = 0; i < v->n_slots; i++)
		if (v->slot[i].base == base && v->slot[i].disp == disp) {
			v->slot[i].n++;
			return;
		}
	if (v->n_slots == SLOTS)
		v->slots_lost = true;
	else
		v->slot[v->n_slots++] = (__typeof__(v->slot[0])){ base, disp, 1 };
}

static bool slot_once(const struct survey *v, int base, int64_t disp)
{
	for (size_t i = 0; i < v->n_slots; i++)
		if (v->slot[i].base == base && v->slot[i].disp == disp)
			return v->slot[i].n == 1;
	return false;
}

static void note_writes(struct survey *v, const struct step *s)
{
	for (size_t i = 0; i < s->in.operand_count; i++) {
		const ZydisDecodedOperand *op = &s->op[i];
		const int reg = written(s, i);
		if (reg >= 0 && !(s->in.mnemonic == ZYDIS_MNEMONIC_POP && reg != RSP) && s->in.mnemonic != ZYDIS_MNEMONIC_LEAVE)
			v->writes[reg]++;
		if (op->type == ZYDIS_OPERAND_TYPE_MEMORY && op->mem.type == ZYDIS_MEMOP_TYPE_MEM && op->actions & ZYDIS_OPERAND_ACTION_MASK_WRITE &&
		    op->visibility != ZYDIS_OPERAND_VISIBILITY_HIDDEN && op->mem.index == ZYDIS_REGISTER_NONE) {
			const int base = reg_of(s, op->mem.base);
			if (base == RSP || base == RBP)
				note_slot(v, base, op->mem.disp.value);
		}
	}
}

static int survey(struct image *img, addr_t start, addr_t after, bool returns, struct step *s, struct survey *v)
{
	addr_t last = after;
	bool called = false;
	for (addr_t pc = start; pc - start < FUNCTION_MAX; pc += s->in.length) {
		int rc = decode(img, s, pc);
		if (rc < 0)
			return pc < after ? rc : 0;
		if (pc >= last && (!returns || fills(s)))
			return 0;
		note_writes(v, s);
		const addr_t next = pc + s->in.length;
		if (next == after)
			called = s->in.meta.category == ZYDIS_CATEGORY_CALL;
		if (is_jump(s) && s->op[0].type == ZYDIS_OPERAND_TYPE_IMMEDIATE && s->op[0].imm.is_relative) {
			const addr_t to = next + (uint64_t)s->op[0].imm.value.s;
			if (v->targets.n >= TARGETS_MAX)
				return ERR_LIMIT;
			*vec_push(&v->targets) = to;
			if (to > last && to - start < FUNCTION_MAX)
				last = to;
		}
		if (next >= after && !called)
			return ERR_CORRUPT;
		if (next > last && ends(s))
			return 0;
	}
	return 0;
}

static bool is_target(const struct survey *v, addr_t from, addr_t to)
{
	for (size_t i = 0; i < v->targets.n; i++)
		if (v->targets.p[i] >= from && v->targets.p[i] <= to)
			return true;
	return false;
}

/* ---- values on the way */

struct way {
	struct followed reg[N_REGS];
	int64_t sp;                  /* since the function's first instruction, or since the ways met that lead here */
	bool sp_known, from_entry;
};

static const struct followed unknown = { .how = FOLLOW_UNKNOWN };

static void forget(struct way *w)
{
	for (size_t i = 0; i < N_REGS; i++)
		w->reg[i] = is_kept((int)i) ? (struct followed){ FOLLOW_REGISTER, false, (int)i, 0 } : unknown;
	w->sp = 0;
	w->sp_known = true;
	w->from_entry = false;
}

/* reg is another now: so is what was known by it. */
static void lose(struct way *w, int reg)
{
	for (size_t i = 0; i < N_REGS; i++)
		if ((w->reg[i].how == FOLLOW_REGISTER || w->reg[i].how == FOLLOW_FRAME) && w->reg[i].reg == reg)
			w->reg[i] = unknown;
	w->reg[reg] = unknown;
}

/* Where a memory operand lies, without what it holds. */
static struct followed place(const struct step *s, const struct way *w, const ZydisDecodedOperand *op, addr_t next)
{
	if ((op->mem.type != ZYDIS_MEMOP_TYPE_MEM && op->mem.type != ZYDIS_MEMOP_TYPE_AGEN) || op->mem.index != ZYDIS_REGISTER_NONE ||
	    op->mem.segment == ZYDIS_REGISTER_FS || op->mem.segment == ZYDIS_REGISTER_GS)
		return unknown;
	const uint64_t disp = (uint64_t)op->mem.disp.value;
	if (op->mem.base == ZYDIS_REGISTER_RIP)
		return (struct followed){ FOLLOW_CONST, false, 0, next + disp };
	const int base = reg_of(s, op->mem.base);
	if (base == RSP)
		return w->sp_known ? (struct followed){ w->from_entry ? FOLLOW_ENTRY : FOLLOW_SP, false, 0, (uint64_t)w->sp + disp } : unknown;
	if (base < 0 || w->reg[base].load)
		return unknown;
	struct followed at = w->reg[base];
	switch (at.how) {
	case FOLLOW_REGISTER: return (struct followed){ FOLLOW_FRAME, false, at.reg, disp };
	case FOLLOW_CONST: case FOLLOW_SP: case FOLLOW_ENTRY: case FOLLOW_FRAME:
		at.value += disp;
		return at;
	default: return unknown;
	}
}

static struct followed moved(const struct step *s, const struct way *w, addr_t next)
{
	const ZydisDecodedOperand *from = &s->op[1];
	if (s->in.mnemonic == ZYDIS_MNEMONIC_LEA)
		return from->type == ZYDIS_OPERAND_TYPE_MEMORY && s->op[0].size == 64 ? place(s, w, from, next) : unknown;
	if (s->in.mnemonic == ZYDIS_MNEMONIC_XOR && from->type == ZYDIS_OPERAND_TYPE_REGISTER && from->reg.value == s->op[0].reg.value && s->op[0].size >= 32)
		return (struct followed){ FOLLOW_CONST, false, 0, 0 };
	if (s->in.mnemonic != ZYDIS_MNEMONIC_MOV)
		return unknown;
	if (from->type == ZYDIS_OPERAND_TYPE_IMMEDIATE && s->op[0].size >= 32)
		return (struct followed){ FOLLOW_CONST, false, 0, s->op[0].size == 32 ? from->imm.value.u & UINT32_MAX : from->imm.value.u };
	if (s->op[0].size != 64)
		return unknown;
	if (from->type == ZYDIS_OPERAND_TYPE_REGISTER) {
		const int reg = reg_of(s, from->reg.value);
		if (reg == RSP)
			return w->sp_known ? (struct followed){ w->from_entry ? FOLLOW_ENTRY : FOLLOW_SP, false, 0, (uint64_t)w->sp } : unknown;
		return reg < 0 ? unknown : w->reg[reg];
	}
	struct followed at = from->type == ZYDIS_OPERAND_TYPE_MEMORY ? place(s, w, from, next) : unknown;
	if (at.how == FOLLOW_UNKNOWN)
		return unknown;
	at.load = true;
	return at;
}

/* The stack pointer after an instruction. */
static void move_stack(const struct step *s, struct way *w)
{
	const ZydisDecodedOperand *by = &s->op[1];
	switch (s->in.mnemonic) {
	case ZYDIS_MNEMONIC_PUSH: w->sp -= 8; return;
	case ZYDIS_MNEMONIC_POP: w->sp += 8; return;
	case ZYDIS_MNEMONIC_CALL: case ZYDIS_MNEMONIC_RET: return;
	case ZYDIS_MNEMONIC_SUB: case ZYDIS_MNEMONIC_ADD:
		if (s->op[0].type == ZYDIS_OPERAND_TYPE_REGISTER && by->type == ZYDIS_OPERAND_TYPE_IMMEDIATE && reg_of(s, s->op[0].reg.value) == RSP) {
			w->sp += (s->in.mnemonic == ZYDIS_MNEMONIC_ADD ? 1 : -1) * (int64_t)by->imm.value.s;
			return;
		}
		break;
	default: break;
	}
	for (size_t i = 0; i < s->in.operand_count; i++)
		if (written(s, i) == RSP)
			w->sp_known = false;
}

static void step(const struct step *s, struct way *w, addr_t next)
{
	const bool gives = s->in.operand_count_visible > 1 && s->op[0].type == ZYDIS_OPERAND_TYPE_REGISTER && written(s, 0) >= 0;
	const struct followed value = gives ? moved(s, w, next) : unknown;
	move_stack(s, w);
	if (s->in.meta.category == ZYDIS_CATEGORY_CALL) {
		for (int i = 0; i < N_REGS; i++)
			if (!is_kept(i) && i != RSP)
				lose(w, i);
		return;
	}
	for (size_t i = 0; i < s->in.operand_count; i++) {
		const int reg = written(s, i);
		if (reg < 0 || reg == RSP)
			continue;
		lose(w, reg);
		if (gives && i == 0 && !((value.how == FOLLOW_REGISTER || value.how == FOLLOW_FRAME) && value.reg == reg))
			w->reg[reg] = value;
		else if (is_kept(reg)) /* what it holds when the call is made, if nothing writes it before */
			w->reg[reg] = (struct followed){ FOLLOW_REGISTER, false, reg, 0 };
	}
}

/* In the first block: does the instruction put an argument where it stays? */
static void keep(const struct step *s, const struct way *w, const struct survey *v, struct follow *ret)
{
	const ZydisDecodedOperand *to = &s->op[0], *from = &s->op[1];
	if (s->in.mnemonic != ZYDIS_MNEMONIC_MOV || from->type != ZYDIS_OPERAND_TYPE_REGISTER || from->size != 64)
		return;
	const int reg = reg_of(s, from->reg.value);
	if (reg < 0 || reg == RSP || w->reg[reg].how != FOLLOW_GIVEN || w->reg[reg].load)
		return;
	struct followed *kept = &ret->kept[w->reg[reg].reg];
	if (to->type == ZYDIS_OPERAND_TYPE_REGISTER) {
		const int into = reg_of(s, to->reg.value);
		if (into >= 0 && is_kept(into) && v->writes[into] == 1)
			*kept = (struct followed){ FOLLOW_REGISTER, false, into, 0 };
	} else if (to->type == ZYDIS_OPERAND_TYPE_MEMORY && kept->how == FOLLOW_UNKNOWN && !v->slots_lost) {
		const int base = reg_of(s, to->mem.base);
		struct followed at = place(s, w, to, 0);
		if ((base == RSP || base == RBP) && at.how == FOLLOW_ENTRY && slot_once(v, base, to->mem.disp.value)) {
			at.load = true;
			*kept = at;
		}
	}
}

int follow_call(struct image *img, addr_t start, bool entered, addr_t after, bool returns, struct follow *ret)
{
	struct step s = { .abi = image_abi(img) };
	struct survey v = { 0 };
	struct follow got = { 0 };
	struct way w;
	if (s.abi->width != 8 || !x86_decoder(s.abi, &s.decoder))
		return ERR_ABSENT;
	if (after <= start || after - start > FUNCTION_MAX)
		return ERR_LIMIT;
	int rc = survey(img, start, after, returns, &s, &v);
	forget(&w);
	w.from_entry = entered;
	bool first = entered; /* no way but one leads here yet */
	for (int i = 0; i < FOLLOW_ARGUMENTS && entered; i++)
		w.reg[argument_reg[i]] = (struct followed){ FOLLOW_GIVEN, false, i, 0 };
	for (addr_t pc = start; rc == 0 && pc < after; pc += s.in.length) {
		if (is_target(&v, pc, pc)) {
			forget(&w);
			first = false;
		}
		rc = decode(img, &s, pc);
		if (rc < 0)
			break;
		const addr_t next = pc + s.in.length;
		if (next == after) {
			const ZydisDecodedOperand *to = &s.op[0];
			if (to->type == ZYDIS_OPERAND_TYPE_IMMEDIATE && to->imm.is_relative)
				got.callee = next + (uint64_t)to->imm.value.s;
			break;
		}
		if (next > after)
			rc = ERR_CORRUPT;
		if (first)
			keep(&s, &w, &v, &got);
		step(&s, &w, next);
		first = first && !is_jump(&s);
		if (ends(&s))
			forget(&w);
	}
	if (rc == 0) {
		for (int i = 0; i < FOLLOW_ARGUMENTS; i++) {
			struct followed f = w.reg[argument_reg[i]];
			if (f.how == FOLLOW_SP)
				f = w.sp_known ? (struct followed){ FOLLOW_SP, f.load, 0, f.value - (uint64_t)w.sp } : unknown;
			got.passed[i] = f;
		}
		*ret = got;
	}
	vec_free(&v.targets);
	return rc;
}
#else
int follow_call(struct image *img, addr_t start, bool entered, addr_t after, bool returns, struct follow *ret)
{
	return ERR_ABSENT;
}
#endif
