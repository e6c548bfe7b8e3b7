/* Arguments out of a stack: constants by the code that loads them, others by the registers that unwinding gives back. */
#include "inspect/given.h"

#include "inspect/follow.h"
#include "inspect/instruction.h"

enum { CALLERS = 8 };

struct native_view native_view_of(struct target *t, const struct report_thread *th, addr_t pc)
{
	const struct native_records *rec = NULL;
	struct err err;
	if (!t->native || !th->image || (native_finish(t->native, &rec, &err) < 0 && !rec) || th->image > rec->n_threads || !rec->has[th->image - 1])
		return (struct native_view){ 0 };
	const struct native_stack *s = &rec->stacks[th->image - 1];
	struct native_view all = { rec, rec->frames.p + s->first, s->n, th->image - 1, 0, 0 };
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

/* What frame i's code says; a piece of a function that the compiler has put elsewhere is not entered at its start. */
static int follow(struct target *t, const struct native_view *s, size_t i, struct follow *ret, addr_t *start)
{
	struct str name;
	if (i >= s->n || !(s->f[i].bits & NATIVE_CALL) || !(name = native_view_function(s, i, start)).s)
		return ERR_ABSENT;
	const bool piece = name.len > 5 && memmem(name.s, name.len, ".cold", 5);
	return follow_call(t->img, *start, !piece, s->f[i].pc, i > s->ending, ret);
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
static bool calls(const struct target *t, const struct native_view *s, size_t i, addr_t callee)
{
	addr_t start;
	struct str name;
	uint64_t into;
	if (!callee || !native_view_function(s, i, &start).s || callee == start)
		return true;
	return modules_name(t->mods, callee, &name, &into) < 0; /* a way there: a procedure linkage table */
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
		if (as == FOLLOW_ARGUMENTS || !i || !native_view_function(s, i - 1, &start).s || f.callee != start)
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
		if (!native_view_function(s, i, &start).s || instruction_arguments(t->img, start, s->f[i].pc, &args) < 0)
			break;
		if (args.set[n]) {
			*ret = args.value[n];
			return 0;
		}
		if (!args.passed[n])
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
