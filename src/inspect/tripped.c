/*
 * What the collector traversed when it crashed.  tp_traverse functions keep the object, and how far they came, in registers that
 * those whom they call keep too, or on the stack; so one of these words, and the field that it leads to, explain the address.  An
 * object that has such a field and comes earlier in the list would have stopped it before: of several the first counts.
 */
#include "inspect/tripped.h"

#include "inspect/fault.h"
#include "inspect/given.h"

/* Words of the registers and of the stack, the innermost first. */
struct at_hand { size_t n; addr_t word[1024]; };

enum {
	FRAMES = 6,             /* visit, tp_traverse (and what it calls of its own), the collector's loop */
	STACK_WORDS = 512,
	OBJECTS_MAX = 1 << 22,  /* looked at in lists */
	REFERENCES_MAX = 1 << 25, /* and of theirs */
	AT_HAND_MAX = 1 << 22,  /* references of what is at hand */
	REACHED = 2,
};

static bool holds(const struct at_hand *h, addr_t from, addr_t to)
{
	for (size_t i = 0; i < h->n; i++)
		if (h->word[i] >= from && h->word[i] <= to)
			return true;
	return false;
}

static void put(struct at_hand *h, addr_t word)
{
	if (h->n < sizeof h->word / sizeof *h->word && word && !holds(h, word, word))
		h->word[h->n++] = word;
}

static void gather(struct target *t, const struct report_thread *th, const struct regs *regs, struct at_hand *ret)
{
	const struct abi *abi = image_abi(t->img);
	const struct native_view s = native_view_of(t, th, regs->pc);
	addr_t word, end = regs->sp + (addr_t)STACK_WORDS * abi->width;
	ret->n = 0;
	for (unsigned i = 0; i < 64; i++)
		if (regs->known >> i & 1)
			put(ret, regs->value[i]);
	for (size_t i = 1; i < s.n && i < FRAMES; i++) {
		const struct native_regs *of = native_regs_of(s.rec, s.thread, s.number + i);
		for (unsigned k = 0; of && k < 32; k++)
			if (of->known >> k & 1)
				put(ret, of->value[k]);
	}
	if (s.n > FRAMES && s.f[FRAMES].sp > regs->sp && s.f[FRAMES].sp < end)
		end = s.f[FRAMES].sp;
	for (addr_t at = regs->sp & ~(addr_t)(abi->width - 1); at < end && image_read_ptr(t->img, at, &word) == 0; at += abi->width)
		put(ret, word);
}

/*
 * Does the collector know it?  What only looks like an object - an entry of a dictionary whose key is a type, and whose hash is no
 * count of references - stands in no list: what follows in one is an object, or the list's head, which is a variable or lies on the stack.
 */
static bool is_tracked(struct target *t, const struct py_collector *c, addr_t object, addr_t sp)
{
	enum { TRACKED = 1 /* _PyGC_BITS_TRACKED, Include/internal/pycore_gc.h of 3.13 */, COUNT_MAX = 1 << 30 };
	const struct py *py = t->py;
	struct object o;
	uint64_t bits;
	addr_t next;
	if (HAS(py, PyObject, ob_gc_bits))
		return READ(py, object, PyObject, ob_gc_bits, &bits) == 0 && bits & TRACKED;
	if (collector_after(py, object, &next) < 0 || READ(py, object, PyObject, ob_refcnt, &bits) < 0 || !(uint32_t)bits || (uint32_t)bits > COUNT_MAX)
		return false;
	for (unsigned i = 0; i < COLLECTOR_LISTS; i++)
		if (c->list[i] == next)
			return true;
	const struct segment *stack = image_segment_at(t->img, sp);
	return (stack && next - stack->start < stack->size) || (!c->list[0] && t->mods && modules_at(t->mods, next)) || object_at(py, next + py->layout.size[S_PyGCHead], &o) == 0;
}

/* Objects whose addresses are at hand. */
static bool by_hand(struct target *t, const struct py_collector *c, const struct at_hand *h, addr_t sp, addr_t at, bool near, struct arena *a, struct tripped *ret)
{
	const struct py *py = t->py;
	struct traversed what;
	uint64_t left = AT_HAND_MAX;
	unsigned n = 0;
	for (size_t i = 0; i < h->n; i++) {
		const addr_t objects[REACHED] = { h->word[i], h->word[i] + py->layout.size[S_PyGCHead] };
		for (unsigned k = 0; k < REACHED; k++) {
			if ((n && objects[k] == ret->object) || traverse_trip(py, objects[k], at, near, &left, a, &what) != 1 || !is_tracked(t, c, objects[k], sp))
				continue;
			if (!n++)
				*ret = (struct tripped){ objects[k], what, what.how != TRAVERSED_NEAR };
		}
	}
	if (n > 1)
		ret->sure = false;
	return n;
}

static bool by_lists(const struct py *py, const struct py_collector *c, const struct at_hand *h, addr_t at, struct arena *a, struct tripped *ret)
{
	unsigned long objects = 0;
	uint64_t left = REFERENCES_MAX;
	struct traversed what;
	struct collected o;
	bool any = false;
	for (unsigned i = 0; i < 3; i++) {
		struct collector_walk w = collector_list(py, c->list[i]);
		while (left && objects++ < OBJECTS_MAX && collector_next(&w, &o) > 0) {
			if (traverse_trip(py, o.object, at, false, &left, a, &what) != 1)
				continue;
			const bool sure = holds(h, o.object, o.object + py->layout.size[S_PyObject]) || holds(h, what.from, what.to);
			if (!any || (sure && !ret->sure))
				*ret = (struct tripped){ o.object, what, sure };
			any = true;
			if (sure)
				return true;
		}
	}
	return any;
}

int tripped_find(struct target *t, const struct report_thread *th, const struct regs *regs, const struct fault *f, const struct py_collector *c,
		 struct arena *a, struct tripped *ret)
{
	struct at_hand h;
	if (!t->py || !f->at_known)
		return 0;
	gather(t, th, regs, &h);
	if (by_hand(t, c, &h, regs->sp, f->at, false, a, ret))
		return 1;
	struct tripped guess;
	const bool guessed = by_hand(t, c, &h, regs->sp, f->at, true, a, &guess);
	if ((!guessed || guess.what.how == TRAVERSED_NEAR) && by_lists(t->py, c, &h, f->at, a, ret))
		return 1;
	if (guessed)
		*ret = guess;
	return guessed;
}
