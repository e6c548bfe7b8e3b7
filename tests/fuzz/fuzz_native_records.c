/* What the child that unwinds says: any bytes, for a few threads; and what the writers write is read back the same. */
#include <stdlib.h>
#include <string.h>

#include "module/native_records.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define CHECK(x) do { if (!(x)) abort(); } while (0)
enum { THREADS = 3 };

static void look(const struct native_records *r)
{
	size_t total = 0;
	for (size_t i = 0; i < THREADS; i++) {
		const struct native_stack *s = &r->stacks[i];
		CHECK(r->has[i] || !s->n);
		CHECK(s->n <= r->frames.n && s->first <= r->frames.n - s->n && s->end < NATIVE_ENDS);
		CHECK(str_valid(s->why.s ? s->why.s : "", s->why.len));
		total += s->n;
	}
	CHECK(total == r->frames.n);
	for (size_t i = 0; i < r->places.n; i++) {
		const struct native_place *p = &r->places.p[i], *first;
		CHECK(!i || p[-1].pc <= p->pc);
		CHECK(p->line == -1 || p->line > 0);
		CHECK(native_places_at(r, p->pc, &first) >= 1 && first <= p);
	}
	for (size_t i = 0; i < r->names.n; i++) {
		const struct native_name *n = &r->names.p[i], *found = native_name_at(r, n->pc, n->call);
		CHECK(n->symbol.len && str_valid(n->symbol.s, n->symbol.len) && str_valid(n->shown.s ? n->shown.s : "", n->shown.len));
		CHECK(found && found->pc == n->pc && found->call == n->call);
	}
}

/* The same as records again: reading them gives the same. */
static void again(const struct native_records *r, struct arena *a)
{
	struct sb b = { 0 };
	for (uint32_t i = 0; i < THREADS; i++) {
		if (!r->has[i])
			continue;
		native_put_thread(&b, i);
		if (r->stacks[i].n)
			native_put_frames(&b, r->frames.p + r->stacks[i].first, r->stacks[i].n);
		for (size_t k = 0; k < r->regs.n; k++)
			if (r->regs.p[k].thread == i)
				native_put_regs(&b, &r->regs.p[k]);
		native_put_end(&b, r->stacks[i].end, r->stacks[i].at, NULL);
	}
	native_put_sandbox(&b, r->sandbox);
	for (size_t i = 0; i < r->names.n; i++)
		native_put_name(&b, &r->names.p[i]);
	for (size_t i = 0; i < r->minis.n; i++)
		native_put_mini(&b, r->minis.p[i].start, r->minis.p[i].rc);
	native_put_done(&b);
	struct native_records got;
	CHECK(native_records_parse((struct blob){ (const uint8_t *)b.s, b.len }, THREADS, a, &got) == 0 && got.done && got.frames.n == r->frames.n);
	CHECK(got.names.n <= r->names.n && got.sandbox == r->sandbox);
	CHECK(got.regs.n == r->regs.n && got.minis.n == r->minis.n);
	for (size_t i = 0; i < r->minis.n; i++)
		CHECK(got.minis.p[i].start == r->minis.p[i].start && got.minis.p[i].rc == r->minis.p[i].rc && r->minis.p[i].rc < 0);
	for (size_t i = 0; i < r->regs.n; i++) {
		const struct native_regs *x = native_regs_of(r, r->regs.p[i].thread, r->regs.p[i].frame), *y = native_regs_of(&got, x->thread, x->frame);
		CHECK(y && x->known == y->known && memcmp(x->value, y->value, sizeof x->value) == 0);
	}
	for (size_t i = 0; i < THREADS; i++) {
		CHECK(got.has[i] == r->has[i] && got.stacks[i].n == r->stacks[i].n && got.stacks[i].end == r->stacks[i].end);
		for (size_t k = 0; k < got.stacks[i].n; k++) {
			const struct native_frame *x = &got.frames.p[got.stacks[i].first + k], *y = &r->frames.p[r->stacks[i].first + k];
			CHECK(x->pc == y->pc && x->sp == y->sp && x->bits == y->bits);
		}
	}
	native_records_free(&got);
	sb_free(&b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct arena *a = arena_new();
	struct native_records r;
	int rc = native_records_parse((struct blob){ data, size }, THREADS, a, &r);
	CHECK(rc == 0 || rc == ERR_CORRUPT);
	CHECK(rc == 0 || !r.done);
	look(&r);
	again(&r, a);
	native_records_free(&r);
	arena_free(a);
	return 0;
}
