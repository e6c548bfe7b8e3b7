/* What a cut core lacks, in words: whose memory the lost segments were. */
#include "inspect/parts.h"

#include <elf.h>
#include <stdlib.h>

enum { NAMED = 3, FILES_MAX = 256 };

static int by_value(const void *a, const void *b)
{
	const addr_t *x = a, *y = b;
	return *x < *y ? -1 : *x > *y;
}

/* Is one of the sorted addresses in [start, end)? */
static bool any_in(const addr_t *at, size_t n, addr_t start, addr_t end)
{
	size_t lo = 0, hi = n;
	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;
		if (at[mid] < start)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo < n && at[lo] < end;
}

static struct str file_at(struct target *t, struct arena *a, addr_t at)
{
	const struct mapping *map = image_mapping_at(t->img, at);
	const struct module *m = modules_at(t->mods, at); /* .bss is no file's mapping */
	const struct blob path = map && map->path.len ? map->path : m ? m->path : (struct blob){ 0 };
	return path.len ? str_base(str_from_bytes(a, path.p, path.len)) : (struct str){ 0 };
}

static void add_file(struct report *r, struct str file)
{
	for (size_t i = 0; i < r->input.lost.files.n; i++)
		if (str_eq(r->input.lost.files.p[i], file))
			return;
	if (r->input.lost.files.n < FILES_MAX)
		*vec_push(&r->input.lost.files) = file;
}

/* Which lost range has the address; f->n_lost: none. */
static size_t lost_at(const struct image_facts *f, addr_t at)
{
	size_t lo = 0, hi = f->n_lost;
	while (lo < hi) {
		const size_t mid = lo + (hi - lo) / 2;
		if (f->lost[mid].end <= at)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo < f->n_lost && f->lost[lo].start <= at ? lo : f->n_lost;
}

/*
 * Of a thread whose newest part of the stack is there: which lost range is a part of it?  Either what is cut off goes on where that ends; or
 * it is the process's first stack, whose start `bottom` is in it, and a handler runs on another one.  f->n_lost: none is known.
 */
static size_t part_of(struct target *t, struct report *r, const struct thread *th, addr_t bottom)
{
	const struct image_facts *f = image_facts(t->img);
	const size_t first = th->tid == f->pid && bottom ? lost_at(f, bottom) : f->n_lost;
	const struct segment *seg = first == f->n_lost ? image_segment_at(t->img, th->regs.sp) : NULL;
	const size_t next = seg ? lost_at(f, seg->start + seg->size) : f->n_lost;
	return !seg ? first : next < f->n_lost && f->lost[next].start == seg->start + seg->size && !file_at(t, r->arena, f->lost[next].start).len ? next : f->n_lost;
}

/* Without these nothing can be said of threads, so they are named first. */
static bool matters(struct str file)
{
	return str_starts(file, "libpython") || str_starts(file, "python") || str_starts(file, "libc.so") || str_starts(file, "libc-");
}

void lost_find(struct target *t, struct report *r)
{
	const struct image_facts *f = image_facts(t->img);
	const struct thread *th;
	const size_t n = image_threads(t->img, &th);
	CLEANUP(cleanup_free) addr_t *sp = xcalloc(n + 1, sizeof *sp);
	CLEANUP(cleanup_free) bool *there = xcalloc(n + 1, sizeof *there);
	size_t n_sp = 0;
	addr_t bottom = 0; /* of the process's first stack */
	uint8_t byte;
	(void)!image_auxv(t->img, AT_RANDOM, &bottom);
	r->input.lost.segments = f->n_segments_lost;
	r->input.lost.of_segments = f->n_segments;
	for (size_t i = 0; i < n; i++) {
		if (!th[i].regs.sp)
			continue;
		sp[n_sp++] = th[i].regs.sp;
		there[i] = image_read(t->img, th[i].regs.sp, &byte, 1) >= 0;
		r->input.lost.stacks += !there[i];
	}
	/* The list of what is lost may grow with each read; from here on there are none. */
	CLEANUP(cleanup_free) bool *part = xcalloc(f->n_lost + 1, sizeof *part);
	for (size_t i = 0; i < n; i++) {
		const size_t k = there[i] ? part_of(t, r, &th[i], bottom) : f->n_lost;
		r->input.lost.in_part += k < f->n_lost;
		part[k] = true;
	}
	r->input.lost.of_stacks = n_sp;
	qsort(sp, n_sp, sizeof *sp, by_value);
	for (size_t i = 0; i < f->n_lost; i++) {
		const struct lost *l = &f->lost[i];
		if (part[i] || any_in(sp, n_sp, l->start, l->end)) {
			r->input.lost.with_stacks++;
			continue;
		}
		struct str file = file_at(t, r->arena, l->start);
		if (file.len) {
			add_file(r, file);
			r->input.lost.of_files++;
		} else {
			r->input.lost.other++;
		}
	}
}

/* What follows adds up to the number of segments; nothing is said of what nothing was lost of. */
const char *lost_text(const struct report *r)
{
	struct sb b = { 0 };
	const size_t n = r->input.lost.files.n, part = r->input.lost.in_part, stacks = r->input.lost.stacks + part, of = r->input.lost.of_stacks;
	const char *next = ": ";
	size_t named = 0;
	sb_printf(&b, "%zu of %zu", r->input.lost.segments, r->input.lost.of_segments);
	if (r->input.lost.segments && r->input.lost.with_stacks) {
		sb_printf(&b, "%s%zu with thread stacks (of %zu of %zu thread%s", next, r->input.lost.with_stacks, stacks, of, of == 1 ? "" : "s");
		if (part && part < stacks)
			sb_printf(&b, ", %zu", part);
		sb_printf(&b, part == stacks ? ", in part)" : part ? " in part)" : ")");
		next = ", ";
	}
	if (r->input.lost.segments && n) {
		sb_printf(&b, "%s%zu of %zu file%s (", next, r->input.lost.of_files, n, n == 1 ? "" : "s");
		for (int first = 1; first >= 0; first--) {
			for (size_t i = 0; i < n && named < NAMED; i++) {
				const struct str file = r->input.lost.files.p[i];
				if (matters(file) != (first == 1))
					continue;
				sb_printf(&b, named++ ? ", " : "");
				sb_str(&b, file);
			}
		}
		sb_printf(&b, named < n ? ", ...)" : ")");
		next = ", ";
	}
	if (r->input.lost.segments && r->input.lost.other)
		sb_printf(&b, "%s%zu of heap and other memory", next, r->input.lost.other);
	struct str all = sb_take(&b, r->arena);
	return str_c(r->arena, all);
}
