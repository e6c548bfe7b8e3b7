/*
 * How a thread came to where no code is.  What lies below the stack pointer is no proof of a return: a register that was pushed
 * earlier may lie there.  A call is proved by its own instruction: nothing has run since, so its operand still is what it was.
 * Where that is another place, the function called there came here: by a jump (a call in its last statement) or a return.
 */
#include "inspect/arrival.h"

#include "inspect/instruction.h"
#include "module/native_guess.h"

enum { EM_386 = 3, EM_X86_64 = 62, EM_AARCH64 = 183 };

const char *arrival_words(enum arrival_how how)
{
	static const char *const words[] = { [ARRIVED_ANYHOW] = "a call of, or jump or return to", [ARRIVED_CALL] = "a call of", [ARRIVED_CALL_OR_JUMP] = "a call of or jump to",
		[ARRIVED_JUMP] = "a jump to", [ARRIVED_RETURN] = "a return to", [ARRIVED_JUMP_OR_RETURN] = "a jump or return to" };
	return words[how];
}

/* What x86's entry of a procedure linkage table jumps to: endbr64, bnd, jmp [rip + disp] (i386: jmp [disp]). */
static bool linkage(struct image *img, addr_t at, addr_t *ret)
{
	const struct abi *abi = image_abi(img);
	uint8_t b[11];
	size_t i = 0;
	if (image_read(img, at, b, sizeof b) < 0)
		return false;
	if (b[0] == 0xf3 && b[1] == 0x0f && b[2] == 0x1e && (b[3] == 0xfa || b[3] == 0xfb))
		i = 4;
	i += b[i] == 0xf2;
	if (i + 6 > sizeof b || b[i] != 0xff || b[i + 1] != 0x25)
		return false;
	const uint32_t disp = (uint32_t)b[i + 2] | (uint32_t)b[i + 3] << 8 | (uint32_t)b[i + 4] << 16 | (uint32_t)b[i + 5] << 24;
	const addr_t slot = abi->width == 8 ? at + i + 6 + (addr_t)(int64_t)(int32_t)disp : disp;
	return image_read_ptr(img, slot, ret) == 0;
}

/* The start of a function that the call names, through a linkage table; 0: not known.  here: the table leads to pc itself. */
static addr_t callee(struct target *t, const struct guess *g, addr_t word, addr_t pc, bool *here)
{
	addr_t to, through;
	struct str name;
	uint64_t into;
	*here = false;
	if (!guess_call_target(g, word, &to))
		return 0;
	to = guess_plain(g, to);
	if ((g->abi->machine == EM_X86_64 || g->abi->machine == EM_386) && linkage(t->img, to, &through)) {
		if (through == pc)
			*here = true;
		to = through;
	}
	if (!guess_code(g, to))
		return 0;
	/* What looks like a call of a constant may be the end of another instruction: then no function begins there. */
	return t->mods && modules_name(t->mods, to, &name, &into) == 0 && into ? 0 : to;
}

static struct arrival after_call(struct target *t, const struct guess *g, const struct regs *regs, addr_t word, enum led led, bool below)
{
	struct arrival a = { .how = ARRIVED_CALL, .after = guess_plain(g, word) };
	bool here = false;
	if (led == LED_THERE)
		return a;
	const addr_t function = callee(t, g, word, regs->pc, &here);
	if (here)
		return a;
	if (led == LED_UNKNOWN) {
		a.how = below && regs->pc ? ARRIVED_ANYHOW : ARRIVED_CALL_OR_JUMP;
		return a;
	}
	a.another = true;
	a.callee = function;
	a.how = below ? ARRIVED_JUMP_OR_RETURN : ARRIVED_JUMP;
	return a;
}

/* blr xN: what it went to is still there. */
static enum led led_aarch64(struct image *img, const struct regs *regs, addr_t after)
{
	uint64_t i;
	if (image_abi(img)->big_endian || image_read_uint(img, after - 4, 4, &i) < 0 || (i & 0xfffffc1f) != 0xd63f0000 || !(regs->known >> (i >> 5 & 31) & 1))
		return LED_UNKNOWN;
	return regs->value[i >> 5 & 31] == regs->pc ? LED_THERE : LED_ELSEWHERE;
}

struct arrival arrival_at(struct target *t, const struct regs *regs)
{
	struct image *img = t->img;
	const struct abi *abi = image_abi(img);
	const struct guess g = { img, t->mods, abi };
	const int lr = abi_lr(abi);
	struct arrival a = { .how = ARRIVED_JUMP };
	addr_t word, to;
	if (abi->machine != EM_X86_64 && abi->machine != EM_386) {
		a.how = ARRIVED_JUMP_OR_RETURN;
		if (lr < 0 || !(regs->known >> lr & 1) || guess_after_call(&g, regs->value[lr]) != AFTER_CALL)
			return a;
		word = regs->value[lr];
		enum led led = guess_call_target(&g, word, &to) ? (guess_plain(&g, to) == regs->pc ? LED_THERE : LED_ELSEWHERE)
			: abi->machine == EM_AARCH64 ? led_aarch64(img, regs, guess_plain(&g, word)) : LED_UNKNOWN;
		return after_call(t, &g, regs, word, led, led == LED_ELSEWHERE);
	}
	if (!regs->sp) {
		a.how = ARRIVED_JUMP_OR_RETURN;
		return a;
	}
	const bool below = image_read_ptr(img, regs->sp - abi->width, &to) == 0 && to == regs->pc;
	const bool top = image_read_ptr(img, regs->sp, &word) == 0;
	const struct mapping *m = top ? image_mapping_at(img, word) : NULL;
	const struct segment *seg = top ? image_segment_at(img, word) : NULL;
	const bool code = (m && m->prot & 4) || (seg && seg->prot & 4);
	const enum after after = code ? guess_after_call(&g, word) : AFTER_NO_CALL;
	switch (after) {
	case AFTER_CALL: return after_call(t, &g, regs, word, instruction_led(img, regs, word), below);
	case AFTER_UNKNOWN:
		a.after = word;
		a.how = below && regs->pc ? ARRIVED_ANYHOW : ARRIVED_CALL_OR_JUMP;
		return a;
	case AFTER_NO_CALL: a.how = below ? ARRIVED_RETURN : ARRIVED_JUMP;
	}
	return a;
}
