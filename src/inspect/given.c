/* Arguments out of a stack: constants by the code that loads them, others by the registers that unwinding gives back. */
#include "inspect/given.h"

#include "inspect/follow.h"
#include "inspect/instruction.h"
#include "module/native_guess.h"

enum { CALLERS = 8 };

struct native_view native_view_of(struct target *t, const struct report_thread *th, addr_t pc)
{
	const struct native_records *rec = NULL;
	struct err err;
	if (!t->native || !th->image || (native_finish(t->native, &rec, &err) < 0 && !rec) || th->image > rec->n_threads || !rec->has[th->image - 1])
		return (struct native_view){ 0 };
	const struct native_stack *s = &rec->stacks[th->image - 1];
	struct native_view all = { rec, s->n ? rec->frames.p + s->first : NULL, s->n, th->image - 1, 0, 0 };
	for (size_t i = th->handled; i < all.n; i++)
		if (all.f[i].pc == pc && !(th->handled && all.f[i].bits & NATIVE_CALL))
			return (struct native_view){ rec, all.f + i, all.n - i, all.thread, i, 0 };
	return all;
}

struct str native_view_function(const struct native_view *s, size_t i, addr_t *start)
{
	const bool call = s->f[i].bits & NATIVE_CALL;
	const struct native_name *n = native_name_at(s->rec, s->f[i].pc, call);
	if (!n)
		return (struct str){ 0 };
	if (start)
		*start = s->f[i].pc - call - n->into;
	return n->symbol;
}

/* Does the frame's caller, or what is the first instruction of whatever may be called through a pointer (endbr64), say that it begins there? */
static bool is_entry(struct target *t, const struct native_view *s, size_t i, addr_t start)
{
	static const uint8_t endbr64[] = { 0xf3, 0x0f, 0x1e, 0xfa };
	const struct guess g = { t->img, t->mods, image_abi(t->img) };
	uint8_t code[sizeof endbr64];
	addr_t to;
	if (i + 1 < s->n && s->f[i + 1].bits & NATIVE_CALL && guess_call_target(&g, s->f[i + 1].pc, &to) && to == start)
		return true;
	return image_read(t->img, start, code, sizeof code) == 0 && memcmp(code, endbr64, sizeof code) == 0;
}

bool native_view_start(struct target *t, const struct native_view *s, size_t i, addr_t *start, bool *entered)
{
	const struct str name = native_view_function(s, i, start);
	addr_t end;
	if (name.s) {
		/* A piece of a function that the compiler has put elsewhere is not entered at its start. */
		*entered = !(name.len > 5 && memmem(name.s, name.len, ".cold", 5));
		return true;
	}
	if (!t->mods || modules_function(t->mods, s->f[i].pc - (s->f[i].bits & NATIVE_CALL ? 1 : 0), start, &end) < 0)
		return false;
	*entered = is_entry(t, s, i, *start);
	return true;
}

/* What frame i's code says. */
static int follow(struct target *t, const struct native_view *s, size_t i, struct follow *ret, addr_t *start)
{
	bool entered;
	if (i >= s->n || !(s->f[i].bits & NATIVE_CALL) || !native_view_start(t, s, i, start, &entered))
		return ERR_ABSENT;
	return follow_call(t->img, *start, entered, s->f[i].pc, i > s->ending, ret);
}

static int value_of(struct target *t, const struct native_view *s, size_t i, const struct followed *f, uint64_t *ret)
{
	const struct native_regs *regs;
	uint64_t v = 0;
	switch (f->how) {
	case FOLLOW_CONST: v = f->value; break;
	case FOLLOW_REGISTER: case FOLLOW_FRAME:
		regs = native_regs_of(s->rec, s->thread, s->number + i);
		if (!regs || f->reg < 0 || f->reg > 31 || !(regs->known >> f->reg & 1))
			return ERR_ABSENT;
		v = regs->value[f->reg] + f->value;
		break;
	case FOLLOW_SP: v = s->f[i].sp + f->value; break;
	case FOLLOW_ENTRY: /* below what the frame's caller had in use lies where it returns to */
		if (i + 1 >= s->n || !s->f[i + 1].sp)
			return ERR_ABSENT;
		v = s->f[i + 1].sp - image_abi(t->img)->width + f->value;
		break;
	default: return ERR_ABSENT;
	}
	if ((f->how == FOLLOW_SP && !s->f[i].sp) || (f->load && image_read_ptr(t->img, v, &v) < 0))
		return ERR_ABSENT;
	*ret = v;
	return 0;
}

/* Does frame i's caller call what frame i is in, as far as can be seen?  What has another name is another function. */
static bool calls(struct target *t, const struct native_view *s, size_t i, addr_t callee)
{
	addr_t start, end;
	struct str name;
	uint64_t into;
	bool entered;
	if (!callee || !native_view_start(t, s, i, &start, &entered) || callee == start)
		return true;
	if (native_view_function(s, i, NULL).s)
		return modules_name(t->mods, callee, &name, &into) < 0; /* a way there: a procedure linkage table */
	return modules_function(t->mods, callee, &start, &end) < 0 || start != callee; /* the same: of its entries the tables have only the whole */
}

/* Where frame i's function, or whom it handed it on to, keeps its argument. */
static int kept(struct target *t, const struct native_view *s, size_t i, unsigned n, uint64_t *ret)
{
	struct follow f;
	addr_t start;
	for (unsigned k = 0; k < CALLERS && follow(t, s, i, &f, &start) == 0; k++, i--) {
		if (value_of(t, s, i, &f.kept[n], ret) == 0)
			return 0;
		unsigned as = 0;
		while (as < FOLLOW_ARGUMENTS && !(f.passed[as].how == FOLLOW_GIVEN && f.passed[as].reg == (int)n))
			as++;
		bool entered;
		if (as == FOLLOW_ARGUMENTS || !i || !native_view_start(t, s, i - 1, &start, &entered) || f.callee != start)
			break;
		n = as;
	}
	return ERR_ABSENT;
}

/* A constant argument of the call in frame i's caller; where callers hand on their own, of theirs. */
static int constant(struct target *t, const struct native_view *s, size_t i, unsigned n, uint64_t *ret)
{
	struct call_arguments args;
	for (unsigned k = 0; n < 2 && k < CALLERS && ++i < s->n; k++) {
		addr_t start = 0;
		bool entered;
		if (!native_view_start(t, s, i, &start, &entered) || instruction_arguments(t->img, start, s->f[i].pc, &args) < 0)
			break;
		if (args.set[n]) {
			*ret = args.value[n];
			return 0;
		}
		if (!args.passed[n] || !entered)
			break;
	}
	return ERR_ABSENT;
}

int given_argument(struct target *t, const struct native_view *s, size_t i, unsigned n, uint64_t *ret)
{
	struct follow f;
	addr_t start;
	if (constant(t, s, i, n, ret) == 0)
		return 0;
	for (unsigned k = 0; k < CALLERS && n < FOLLOW_ARGUMENTS; k++) {
		if (kept(t, s, i, n, ret) == 0)
			return 0;
		if (follow(t, s, i + 1, &f, &start) < 0 || !calls(t, s, i, f.callee))
			break;
		i++;
		if (value_of(t, s, i, &f.passed[n], ret) == 0)
			return 0;
		if (f.passed[n].how != FOLLOW_GIVEN || f.passed[n].load)
			break;
		n = (unsigned)f.passed[n].reg;
	}
	return ERR_ABSENT;
}

int given_more(struct target *t, const struct native_view *s, size_t i, unsigned fixed, unsigned n, uint64_t *ret)
{
	n += fixed;
	if (n < FOLLOW_ARGUMENTS)
		return kept(t, s, i, n, ret);
	/* The others lie in the caller's part of the stack, in order. */
	struct follow f;
	addr_t start;
	if (i + 1 >= s->n || !s->f[i + 1].sp || follow(t, s, i, &f, &start) < 0)
		return ERR_ABSENT;
	return image_read_ptr(t->img, s->f[i + 1].sp + (uint64_t)(n - FOLLOW_ARGUMENTS) * 8, ret) == 0 ? 0 : ERR_ABSENT;
}
