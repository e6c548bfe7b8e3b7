/* The stream between the child that unwinds and its parent: written by the one, taken apart by the other. */
#include "module/native_records.h"

#include <stdlib.h>
#include <string.h>

enum type { THREAD = 1, FRAMES, END, PLACE, DONE, NAME, SANDBOX, REGS, MINI };
enum { HEAD = 5, FRAME = 17, FRAMES_MAX = 4096 };

static void put(struct sb *b, unsigned width, uint64_t v)
{
	for (unsigned i = 0; i < width; i++)
		sb_char(b, (char)(v >> 8 * i));
}

static void head(struct sb *b, size_t len, enum type type)
{
	put(b, 4, len);
	put(b, 1, type);
}

/* Where the length of a record goes that is not known yet. */
static size_t begin(struct sb *b, enum type type)
{
	head(b, 0, type);
	return b->len;
}

static void end(struct sb *b, size_t from)
{
	uint64_t len = b->len - from;
	for (unsigned i = 0; i < 4; i++)
		b->s[from - HEAD + i] = (char)(len >> 8 * i);
}

void native_put_thread(struct sb *b, uint32_t thread)
{
	head(b, 4, THREAD);
	put(b, 4, thread);
}

void native_put_frames(struct sb *b, const struct native_frame *frames, size_t n)
{
	for (size_t i = 0; i < n;) {
		size_t some = n - i < FRAMES_MAX ? n - i : FRAMES_MAX;
		head(b, some * FRAME, FRAMES);
		for (size_t k = 0; k < some; k++, i++) {
			put(b, 8, frames[i].pc);
			put(b, 8, frames[i].sp);
			put(b, 1, frames[i].bits);
		}
	}
}

void native_put_regs(struct sb *b, const struct native_regs *regs)
{
	size_t from = begin(b, REGS);
	put(b, 4, regs->frame);
	put(b, 4, regs->known);
	for (unsigned i = 0; i < 32; i++)
		if (regs->known >> i & 1)
			put(b, 8, regs->value[i]);
	end(b, from);
}

static void put_text(struct sb *b, const char *s, size_t len)
{
	sb_bytes(b, s, len < NATIVE_TEXT_MAX ? len : NATIVE_TEXT_MAX);
}

void native_put_end(struct sb *b, enum native_end how, addr_t at, const char *why)
{
	size_t from = begin(b, END);
	put(b, 1, how);
	put(b, 8, at);
	if (why)
		put_text(b, why, strlen(why));
	end(b, from);
}

void native_put_place(struct sb *b, addr_t pc, const struct native_place *functions, size_t n)
{
	size_t from = begin(b, PLACE);
	put(b, 8, pc);
	for (size_t i = 0; i < n && i < NATIVE_PLACE_FUNCTIONS; i++) {
		put(b, 4, functions[i].line > 0 ? (uint32_t)functions[i].line : 0);
		put_text(b, functions[i].function.s ? functions[i].function.s : "", functions[i].function.len);
		put(b, 1, 0);
		put_text(b, functions[i].file.s ? functions[i].file.s : "", functions[i].file.len);
		put(b, 1, 0);
	}
	end(b, from);
}

void native_put_name(struct sb *b, const struct native_name *name)
{
	size_t from = begin(b, NAME);
	put(b, 8, name->pc);
	put(b, 1, name->call);
	put(b, 8, name->into);
	put_text(b, name->symbol.s ? name->symbol.s : "", name->symbol.len);
	put(b, 1, 0);
	put_text(b, name->shown.s ? name->shown.s : "", name->shown.len);
	put(b, 1, 0);
	end(b, from);
}

void native_put_mini(struct sb *b, addr_t start, int rc)
{
	size_t from = begin(b, MINI);
	put(b, 8, start);
	put(b, 1, (uint8_t)-rc);
	end(b, from);
}

void native_put_sandbox(struct sb *b, uint8_t bits)
{
	head(b, 1, SANDBOX);
	put(b, 1, bits);
}

void native_put_done(struct sb *b)
{
	head(b, 0, DONE);
}

/* Reading */

struct parse {
	struct native_records *r;
	struct arena *a;
	struct native_stack *now; /* NULL: no thread has begun */
};

static int thread(struct parse *p, struct cursor *c)
{
	uint32_t i;
	if (cursor_u32(c, &i) < 0 || i >= p->r->n_threads || p->r->has[i])
		return ERR_CORRUPT;
	p->r->has[i] = true;
	p->now = &p->r->stacks[i];
	*p->now = (struct native_stack){ .first = p->r->frames.n, .end = NATIVE_CUT };
	return 0;
}

static int frames(struct parse *p, struct cursor *c)
{
	if (!p->now || cursor_left(c) % FRAME)
		return ERR_CORRUPT;
	struct native_frame f;
	while (cursor_left(c)) {
		if (cursor_u64(c, &f.pc) < 0 || cursor_u64(c, &f.sp) < 0 || cursor_u8(c, &f.bits) < 0)
			return ERR_CORRUPT;
		f.bits &= NATIVE_BITS;
		*vec_push(&p->r->frames) = f;
		p->now->n++;
	}
	return 0;
}

static int thread_end(struct parse *p, struct cursor *c)
{
	uint8_t how;
	uint64_t at;
	struct blob why;
	size_t max = NATIVE_TEXT_MAX;
	if (!p->now || cursor_u8(c, &how) < 0 || how >= NATIVE_ENDS || cursor_u64(c, &at) < 0 || cursor_left(c) > max ||
	    cursor_take(c, cursor_left(c), &why) < 0)
		return ERR_CORRUPT;
	p->now->end = how;
	p->now->at = at;
	if (why.len)
		p->now->why = str_from_bytes(p->a, why.p, why.len);
	p->now = NULL;
	return 0;
}

static int place(struct parse *p, struct cursor *c)
{
	uint64_t pc;
	if (cursor_u64(c, &pc) < 0)
		return ERR_CORRUPT;
	for (size_t n = 0; cursor_left(c); n++) {
		uint32_t line;
		struct blob function, file;
		if (n >= NATIVE_PLACE_FUNCTIONS || p->r->places.n >= NATIVE_PLACES_MAX || cursor_u32(c, &line) < 0 || cursor_cstr(c, &function) < 0 || cursor_cstr(c, &file) < 0 ||
		    function.len > NATIVE_TEXT_MAX || file.len > NATIVE_TEXT_MAX)
			return ERR_CORRUPT;
		struct native_place *out = vec_push(&p->r->places);
		out->pc = pc;
		out->line = line && line <= INT32_MAX ? (int)line : -1;
		if (function.len)
			out->function = str_from_bytes(p->a, function.p, function.len);
		if (file.len)
			out->file = str_from_bytes(p->a, file.p, file.len);
	}
	return 0;
}

static int name(struct parse *p, struct cursor *c)
{
	struct native_name n = { 0 };
	uint8_t call;
	struct blob symbol, shown;
	if (p->r->names.n >= NATIVE_NAMES_MAX || cursor_u64(c, &n.pc) < 0 || cursor_u8(c, &call) < 0 || call > 1 || cursor_u64(c, &n.into) < 0 || cursor_cstr(c, &symbol) < 0 ||
	    cursor_cstr(c, &shown) < 0 || !symbol.len || symbol.len > NATIVE_TEXT_MAX || shown.len > NATIVE_TEXT_MAX)
		return ERR_CORRUPT;
	n.call = call;
	n.symbol = str_from_bytes(p->a, symbol.p, symbol.len);
	if (shown.len)
		n.shown = str_from_bytes(p->a, shown.p, shown.len);
	*vec_push(&p->r->names) = n;
	return 0;
}

static int regs(struct parse *p, struct cursor *c)
{
	uint32_t number;
	struct native_regs r = { .thread = p->now ? (size_t)(p->now - p->r->stacks) : 0 };
	if (!p->now || p->r->regs.n >= NATIVE_REGS_FRAMES || cursor_u32(c, &number) < 0 || cursor_u32(c, &r.known) < 0)
		return ERR_CORRUPT;
	r.frame = number;
	for (unsigned i = 0; i < 32; i++)
		if (r.known >> i & 1 && cursor_u64(c, &r.value[i]) < 0)
			return ERR_CORRUPT;
	*vec_push(&p->r->regs) = r;
	return 0;
}

static int mini(struct parse *p, struct cursor *c)
{
	uint8_t less;
	struct native_mini m;
	if (p->r->minis.n >= NATIVE_MINIS_MAX || cursor_u64(c, &m.start) < 0 || cursor_u8(c, &less) < 0 || !less)
		return ERR_CORRUPT;
	m.rc = -(int)less;
	*vec_push(&p->r->minis) = m;
	return 0;
}

static int record(struct parse *p, uint8_t type, struct cursor *c)
{
	switch (type) {
	case THREAD: return thread(p, c);
	case FRAMES: return frames(p, c);
	case END: return thread_end(p, c);
	case PLACE: return place(p, c);
	case NAME: return name(p, c);
	case REGS: return regs(p, c);
	case MINI: return mini(p, c);
	case SANDBOX: return cursor_u8(c, &p->r->sandbox);
	case DONE:
		p->r->done = true;
		return 0;
	}
	return ERR_CORRUPT;
}

/* The sort is not stable, and of one pc the order tells who is inlined into whom. */
struct order { struct native_place place; size_t at; };

static int by_pc(const void *a, const void *b)
{
	const struct order *x = a, *y = b;
	if (x->place.pc != y->place.pc)
		return x->place.pc < y->place.pc ? -1 : 1;
	return x->at < y->at ? -1 : x->at > y->at;
}

static void sort_places(struct native_records *r)
{
	CLEANUP(cleanup_free) struct order *list = xcalloc(r->places.n, sizeof *list);
	for (size_t i = 0; i < r->places.n; i++)
		list[i] = (struct order){ r->places.p[i], i };
	if (r->places.n)
		qsort(list, r->places.n, sizeof *list, by_pc);
	for (size_t i = 0; i < r->places.n; i++)
		r->places.p[i] = list[i].place;
}

static int compare_names(const struct native_name *x, addr_t pc, bool call)
{
	return x->pc != pc ? x->pc < pc ? -1 : 1 : x->call < call ? -1 : x->call > call;
}

static int by_call(const void *a, const void *b)
{
	const struct native_name *y = b;
	return compare_names(a, y->pc, y->call);
}

int native_records_parse(struct blob stream, size_t n_threads, struct arena *a, struct native_records *ret)
{
	struct cursor c = cursor_of(stream.p, stream.len, false), one;
	*ret = (struct native_records){ .n_threads = n_threads };
	ret->stacks = arena_alloc(a, (n_threads + 1) * sizeof *ret->stacks);
	ret->has = arena_alloc(a, (n_threads + 1) * sizeof *ret->has);
	struct parse p = { .r = ret, .a = a };
	int rc = 0;
	while (rc == 0 && !ret->done) {
		uint32_t len;
		uint8_t type;
		if (cursor_u32(&c, &len) < 0 || cursor_u8(&c, &type) < 0 || cursor_sub(&c, len, &one) < 0)
			break; /* cut: what came is good */
		rc = record(&p, type, &one);
		if (rc == 0 && cursor_left(&one))
			rc = ERR_CORRUPT;
	}
	if (rc == 0 && ret->done && cursor_left(&c))
		rc = ERR_CORRUPT;
	if (rc < 0)
		ret->done = false;
	sort_places(ret);
	if (ret->names.n)
		qsort(ret->names.p, ret->names.n, sizeof *ret->names.p, by_call);
	return rc;
}

void native_records_free(struct native_records *r)
{
	vec_free(&r->frames);
	vec_free(&r->regs);
	vec_free(&r->places);
	vec_free(&r->names);
	vec_free(&r->minis);
}

size_t native_places_at(const struct native_records *r, addr_t pc, const struct native_place **ret)
{
	size_t lo = 0, hi = r->places.n, n = 0;
	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;
		if (r->places.p[mid].pc < pc)
			lo = mid + 1;
		else
			hi = mid;
	}
	while (lo + n < r->places.n && r->places.p[lo + n].pc == pc)
		n++;
	*ret = n ? &r->places.p[lo] : NULL;
	return n;
}

const struct native_regs *native_regs_of(const struct native_records *r, size_t thread, size_t frame)
{
	for (size_t i = 0; i < r->regs.n; i++)
		if (r->regs.p[i].thread == thread && r->regs.p[i].frame == frame)
			return &r->regs.p[i];
	return NULL;
}

const struct native_name *native_name_at(const struct native_records *r, addr_t pc, bool call)
{
	size_t lo = 0, hi = r->names.n;
	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;
		int order = compare_names(&r->names.p[mid], pc, call);
		if (!order)
			return &r->names.p[mid];
		if (order < 0)
			lo = mid + 1;
		else
			hi = mid;
	}
	return NULL;
}
