/*
 * The address space: segments in order, the page cache, every read; and the parts of an image that formats fill in.
 *
 * Segments are kept sorted and apart.  What is added out of order or over others waits in the same array until the
 * next look-up, when one sweep settles who covers whom, so n segments cost n log n whatever their order.
 */
#include "image/image.h"

#include <endian.h>
#include <stdlib.h>
#include <string.h>

enum {
	BLOCK_BITS = 14,
	BLOCK = 1 << BLOCK_BITS,
	SET_BITS = 6, /* 64 sets of 2: 2 MiB when all are in use */
	NEIGHBOURS = 8, /* touching segments that one block is put together from, each way */
	PAGE = 4096,
	BIG = 1 << 20, /* at most read at once past the cache */
};

/* Holds [lo, hi) of one block; lo == hi: nothing. Two ways, so that two islands of one block do not drive each other out. */
struct block {
	addr_t lo, hi;
	uint8_t *data; /* BLOCK bytes; at data[0] is what is at the block's first address */
};
struct set {
	struct block way[2];
	unsigned victim;
};

struct owned {
	void *p;
	void (*close)(void *p);
};

struct image {
	struct abi abi;
	struct image_facts facts;
	struct arena *arena;
	struct VEC(struct owned) owned;
	struct VEC(struct thread) threads;
	struct VEC(struct mapping) mappings;
	struct VEC(struct lost) lost;
	struct VEC(struct note) notes;
	struct VEC(struct segment) segments;
	struct VEC(int64_t) prio;   /* of the segment of the same number: who is higher covers */
	int64_t n_over, n_beneath;
	bool unsettled;
	size_t hit;                 /* the segment that was found last */
	struct set sets[1 << SET_BITS];
	uint64_t lost_reads;
	void (*watch)(void *arg, addr_t addr, size_t len); /* while it is set nothing is cached: reads are told as they were asked */
	void (*paused)(void *arg, addr_t addr, size_t len); /* watch, to be set again */
	void *watch_arg;
};

/* --- making and closing --- */

struct image *image_new(struct abi abi)
{
	struct image *img = xcalloc(1, sizeof *img);
	img->abi = abi;
	img->arena = arena_new();
	img->facts.stopped_ns = -1;
	img->facts.pid = img->facts.ppid = img->facts.uid = -1;
	img->facts.siginfo.pid = img->facts.siginfo.uid = -1;
	return img;
}

void image_set_abi(struct image *img, struct abi abi)
{
	img->abi = abi;
}

void image_close(struct image *img)
{
	if (!img)
		return;
	while (img->owned.n) {
		struct owned o = img->owned.p[--img->owned.n];
		o.close(o.p);
	}
	for (size_t i = 0; i < 1 << SET_BITS; i++)
		for (size_t w = 0; w < 2; w++)
			free(img->sets[i].way[w].data);
	vec_free(&img->owned);
	vec_free(&img->threads);
	vec_free(&img->mappings);
	vec_free(&img->lost);
	vec_free(&img->notes);
	vec_free(&img->segments);
	vec_free(&img->prio);
	arena_free(img->arena);
	free(img);
}

struct arena *image_arena(struct image *img)
{
	return img->arena;
}

void image_own(struct image *img, void *p, void (*close)(void *p))
{
	*vec_push(&img->owned) = (struct owned){ p, close };
}

static void close_bytes(void *p)
{
	bytes_close(p);
}

void image_own_bytes(struct image *img, struct bytes *b)
{
	image_own(img, b, close_bytes);
}

/* --- parts --- */

const struct abi *image_abi(const struct image *img)
{
	return &img->abi;
}

struct image_facts *image_facts_mut(struct image *img)
{
	return &img->facts;
}

struct thread *image_add_thread(struct image *img)
{
	return vec_push(&img->threads);
}

struct mapping *image_add_mapping(struct image *img)
{
	return vec_push(&img->mappings);
}

struct note *image_add_note(struct image *img)
{
	return vec_push(&img->notes);
}

/* Whoever holds the facts sees the list as it is now: it grows within reads. */
static void lost_changed(struct image *img)
{
	img->facts.lost = img->lost.p;
	img->facts.n_lost = img->lost.n;
}

void image_add_lost(struct image *img, addr_t start, addr_t end)
{
	if (start < end)
		*vec_push(&img->lost) = (struct lost){ start, end };
	lost_changed(img);
}

/* Segments that a cut file lacks are counted, so those that lie side by side stay apart; pages that could not be read do not. */
static void lost_join(const struct image *img, struct lost *l, size_t *n, struct lost next)
{
	if (*n && (next.start < l[*n - 1].end || (next.start == l[*n - 1].end && !img->facts.truncated)))
		l[*n - 1].end = next.end > l[*n - 1].end ? next.end : l[*n - 1].end;
	else
		l[(*n)++] = next;
}

void image_found_lost(struct image *img, const struct lost *found, size_t n_found)
{
	const size_t n_before = img->lost.n;
	CLEANUP(cleanup_free) struct lost *before = xcalloc(n_before + 1, sizeof *before);
	size_t i = 0, k = 0, n = 0;
	if (n_before)
		memcpy(before, img->lost.p, n_before * sizeof *before);
	for (size_t room = n_found; room--;)
		vec_push(&img->lost);
	while (i < n_before || k < n_found)
		lost_join(img, img->lost.p, &n, k == n_found || (i < n_before && before[i].start <= found[k].start) ? before[i++] : found[k++]);
	img->lost.n = n;
	lost_changed(img);
}

size_t image_threads(const struct image *img, const struct thread **ret)
{
	*ret = img->threads.p;
	return img->threads.n;
}

size_t image_mappings(const struct image *img, const struct mapping **ret)
{
	*ret = img->mappings.p;
	return img->mappings.n;
}

size_t image_notes(const struct image *img, const struct note **ret)
{
	*ret = img->notes.p;
	return img->notes.n;
}

const struct image_facts *image_facts(const struct image *img)
{
	return &img->facts;
}

const struct mapping *image_mapping_at(const struct image *img, addr_t addr)
{
	size_t from = 0, to = img->mappings.n;
	while (from < to) {
		size_t mid = from + (to - from) / 2;
		if (img->mappings.p[mid].end <= addr)
			from = mid + 1;
		else
			to = mid;
	}
	return from < img->mappings.n && img->mappings.p[from].start <= addr ? &img->mappings.p[from] : NULL;
}

int image_auxv(const struct image *img, uint64_t type, uint64_t *ret)
{
	struct cursor c = cursor_of(img->facts.auxv.p, img->facts.auxv.len, img->abi.big_endian);
	uint64_t t, v;
	while (cursor_uint(&c, img->abi.width, &t) == 0 && cursor_uint(&c, img->abi.width, &v) == 0) {
		if (t == type) {
			*ret = v;
			return 0;
		}
		if (t == 0) /* AT_NULL */
			break;
	}
	return ERR_ABSENT;
}

/* --- segments --- */

int image_add_segment(struct image *img, const struct segment *seg, enum lay where)
{
	uint64_t end;
	if (!add_fits(seg->start, seg->size, &end) || (img->abi.width == 4 && end > (uint64_t)1 << 32))
		return ERR_CORRUPT;
	if (!seg->size)
		return 0;
	if (img->segments.n) {
		const struct segment *last = &img->segments.p[img->segments.n - 1];
		if (seg->start < last->start + last->size)
			img->unsettled = true;
	}
	struct segment *s = vec_push(&img->segments);
	*s = *seg;
	s->skip = 0;
	*vec_push(&img->prio) = where == LAY_OVER ? ++img->n_over : -++img->n_beneath;
	image_forget(img);
	return 0;
}

struct piece {
	struct segment seg;
	int64_t prio;
};

static int by_start(const void *a, const void *b)
{
	const struct piece *x = a, *y = b;
	return x->seg.start < y->seg.start ? -1 : x->seg.start > y->seg.start ? 1 : x->prio > y->prio ? -1 : x->prio < y->prio;
}

/* A heap of pieces by priority, the highest on top. */
struct heap {
	const struct piece **p;
	size_t n;
};

static void heap_push(struct heap *h, const struct piece *x)
{
	size_t i = h->n++;
	for (; i && h->p[(i - 1) / 2]->prio < x->prio; i = (i - 1) / 2)
		h->p[i] = h->p[(i - 1) / 2];
	h->p[i] = x;
}

static void heap_pop(struct heap *h)
{
	const struct piece *x = h->p[--h->n];
	size_t i = 0;
	for (size_t kid; (kid = 2 * i + 1) < h->n; i = kid) {
		if (kid + 1 < h->n && h->p[kid + 1]->prio > h->p[kid]->prio)
			kid++;
		if (h->p[kid]->prio <= x->prio)
			break;
		h->p[i] = h->p[kid];
	}
	h->p[i] = x;
}

static addr_t end_of(const struct segment *s)
{
	return s->start + s->size; /* fits: image_add_segment has checked */
}

static void emit(struct image *img, const struct piece *x, addr_t from, addr_t to)
{
	if (img->segments.n && img->prio.p[img->prio.n - 1] == x->prio && end_of(&img->segments.p[img->segments.n - 1]) == from) {
		img->segments.p[img->segments.n - 1].size += to - from;
		return;
	}
	struct segment *s = vec_push(&img->segments);
	*s = x->seg;
	s->skip += from - x->seg.start;
	s->start = from;
	s->size = to - from;
	*vec_push(&img->prio) = x->prio;
}

/* Sweep over all pieces by address; at each place the one of the highest priority is what can be read. */
static void settle_segments(struct image *img)
{
	if (!img->unsettled)
		return;
	size_t n = img->segments.n;
	struct piece *all = xcalloc(n, sizeof *all);
	for (size_t i = 0; i < n; i++)
		all[i] = (struct piece){ img->segments.p[i], img->prio.p[i] };
	qsort(all, n, sizeof *all, by_start);
	struct heap heap = { xcalloc(n, sizeof(*heap.p)), 0 };
	img->segments.n = img->prio.n = 0;
	size_t next = 0;
	addr_t at = 0;
	while (next < n || heap.n) {
		if (heap.n && end_of(&heap.p[0]->seg) <= at) {
			heap_pop(&heap);
			continue;
		}
		if (!heap.n && all[next].seg.start > at)
			at = all[next].seg.start;
		if (next < n && all[next].seg.start <= at) {
			heap_push(&heap, &all[next++]);
			continue;
		}
		addr_t stop = end_of(&heap.p[0]->seg);
		if (next < n && all[next].seg.start < stop)
			stop = all[next].seg.start;
		emit(img, heap.p[0], at, stop);
		at = stop;
	}
	free(heap.p);
	free(all);
	img->unsettled = false;
	img->hit = 0;
}

size_t image_segments(const struct image *img, const struct segment **ret)
{
	settle_segments((struct image *)img); /* how it is kept is not part of its value */
	*ret = img->segments.p;
	return img->segments.n;
}

/* The number of the first segment that ends after addr; segments.n if none. */
static size_t segment_from(struct image *img, addr_t addr)
{
	settle_segments(img);
	size_t from = 0, to = img->segments.n;
	const struct segment *s = img->segments.p;
	if (img->hit < to && s[img->hit].start <= addr) {
		if (addr < end_of(&s[img->hit]))
			return img->hit;
		from = img->hit + 1;
	}
	while (from < to) {
		size_t mid = from + (to - from) / 2;
		if (end_of(&s[mid]) <= addr)
			from = mid + 1;
		else
			to = mid;
	}
	if (from < img->segments.n)
		img->hit = from;
	return from;
}

const struct segment *image_segment_at(const struct image *img, addr_t addr)
{
	size_t i = segment_from((struct image *)img, addr);
	return i < img->segments.n && img->segments.p[i].start <= addr ? &img->segments.p[i] : NULL;
}

int image_mapped_at(const struct image *img, addr_t addr, struct mapped *ret)
{
	const struct mapped *m = img->facts.mapped;
	size_t lo = 0, hi = img->facts.n_mapped;
	while (lo < hi) {
		const size_t mid = lo + (hi - lo) / 2;
		if (m[mid].start <= addr)
			lo = mid + 1;
		else
			hi = mid;
	}
	const struct segment *seg = lo && addr < m[lo - 1].end ? NULL : image_segment_at(img, addr);
	if (lo && addr < m[lo - 1].end)
		*ret = m[lo - 1];
	else if (seg)
		*ret = (struct mapped){ seg->start, seg->start + seg->size, seg->prot };
	else
		return ERR_ABSENT;
	return 0;
}

static int mapping_order(const void *a, const void *b)
{
	const struct mapping *x = a, *y = b;
	return x->start < y->start ? -1 : x->start > y->start;
}

static int lost_order(const void *a, const void *b)
{
	const struct lost *x = a, *y = b;
	return x->start < y->start ? -1 : x->start > y->start;
}

const struct noted_file *image_noted_at(const struct image *img, addr_t addr)
{
	const struct noted_file *list = img->facts.noted;
	size_t lo = 0, hi = img->facts.n_noted;
	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;
		if (list[mid].start <= addr)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo && addr < list[lo - 1].end ? &list[lo - 1] : NULL;
}

void image_settle(struct image *img)
{
	settle_segments(img);
	size_t n = 0;
	struct mapping *m = img->mappings.p;
	if (img->mappings.n)
		qsort(m, img->mappings.n, sizeof *m, mapping_order);
	for (size_t i = 0; i < img->mappings.n; i++)
		if (m[i].start < m[i].end && (n == 0 || m[i].start >= m[n - 1].end))
			m[n++] = m[i];
	img->mappings.n = n;
	n = 0;
	struct lost *l = img->lost.p;
	if (img->lost.n)
		qsort(l, img->lost.n, sizeof *l, lost_order);
	for (size_t i = 0; i < img->lost.n; i++)
		lost_join(img, l, &n, l[i]);
	img->lost.n = n;
	lost_changed(img);
}

/* --- reading --- */

void image_forget(struct image *img)
{
	for (size_t i = 0; i < 1 << SET_BITS; i++)
		for (size_t w = 0; w < 2; w++)
			img->sets[i].way[w].lo = img->sets[i].way[w].hi = 0;
}

static struct set *set_of(struct image *img, addr_t addr)
{
	return &img->sets[(addr >> BLOCK_BITS) * 0x9e3779b97f4a7c15u >> (64 - SET_BITS)];
}

/* The cached block that has addr, or NULL. */
static inline struct block *cached(struct image *img, addr_t addr)
{
	struct set *set = set_of(img, addr);
	for (unsigned w = 0; w < 2; w++)
		if (addr >= set->way[w].lo && addr < set->way[w].hi) {
			set->victim = 1 - w;
			return &set->way[w];
		}
	return NULL;
}

static inline const uint8_t *block_at(const struct block *b, addr_t addr)
{
	return b->data + (addr & (BLOCK - 1));
}

static int segment_read(const struct segment *s, addr_t addr, void *buf, size_t len)
{
	return s->read(s->ctx, s->skip + (addr - s->start), buf, len);
}

static void told(struct image *img, addr_t addr, size_t len)
{
	if (img->watch)
		img->watch(img->watch_arg, addr, len);
}

void image_watch(struct image *img, void (*got)(void *arg, addr_t addr, size_t len), void *arg)
{
	image_forget(img);
	img->watch = got;
	img->watch_arg = arg;
}

bool image_watch_paused(const struct image *img)
{
	return img->paused != NULL;
}

void image_watch_pause(struct image *img, bool pause)
{
	void (*watch)(void *arg, addr_t addr, size_t len) = pause ? img->watch : img->paused;

	img->paused = pause ? watch : NULL;
	img->watch = pause ? NULL : watch;
	if (watch)
		image_forget(img);
}

/* Puts what segment i and those that touch it have of addr's block into the cache; NULL if segment i cannot be read whole there. */
static struct block *fill(struct image *img, size_t i, addr_t addr)
{
	const struct segment *s = img->segments.p;
	addr_t first = addr & ~(addr_t)(BLOCK - 1), last = first + (BLOCK - 1);
	struct set *set = set_of(img, addr);
	struct block *b = &set->way[set->victim];
	b->lo = b->hi = 0;
	if (!b->data)
		b->data = xmalloc(BLOCK);
	addr_t lo = s[i].start > first ? s[i].start : first;
	addr_t hi = end_of(&s[i]) - 1 < last ? end_of(&s[i]) : last + 1;
	if (segment_read(&s[i], lo, b->data + (lo - first), hi - lo) < 0)
		return NULL;
	for (size_t k = i + 1; k < img->segments.n && k <= i + NEIGHBOURS && s[k].start == hi && hi <= last; k++) {
		addr_t to = end_of(&s[k]) - 1 < last ? end_of(&s[k]) : last + 1;
		if (segment_read(&s[k], hi, b->data + (hi - first), to - hi) < 0)
			break;
		hi = to;
	}
	for (size_t k = i; k-- > 0 && k + NEIGHBOURS >= i && end_of(&s[k]) == lo && lo > first;) {
		addr_t from = s[k].start > first ? s[k].start : first;
		if (segment_read(&s[k], from, b->data + (from - first), lo - from) < 0)
			break;
		lo = from;
	}
	b->lo = lo;
	b->hi = hi;
	set->victim = b == &set->way[0];
	return b;
}

/* Up to len bytes from addr on, at least one if there is one; 0 if there is none. */
static size_t read_piece(struct image *img, addr_t addr, void *buf, size_t len)
{
	struct block *b = cached(img, addr);
	if (!b) {
		size_t i = segment_from(img, addr);
		if (i == img->segments.n || img->segments.p[i].start > addr) {
			told(img, addr, 0);
			return 0;
		}
		const struct segment *s = &img->segments.p[i];
		uint64_t there = end_of(s) - addr;
		size_t n = len < there ? len : (size_t)there;
		b = img->watch ? NULL : fill(img, i, addr);
		if (!b) { /* part of the block cannot be read: page by page what can */
			size_t to_page = PAGE - (addr & (PAGE - 1));
			n = n < to_page ? n : to_page;
			n = segment_read(s, addr, buf, n) == 0 ? n : 0;
			told(img, addr, n);
			return n;
		}
	}
	size_t n = len < b->hi - addr ? len : (size_t)(b->hi - addr);
	memcpy(buf, block_at(b, addr), n);
	return n;
}

/* As read_piece, past the cache for what is longer than a block: 0 if it cannot be read whole. */
static size_t read_big(struct image *img, addr_t addr, void *buf, size_t len)
{
	size_t i = segment_from(img, addr);
	if (i == img->segments.n || img->segments.p[i].start > addr)
		return 0;
	uint64_t there = end_of(&img->segments.p[i]) - addr;
	size_t n = len < there ? len : (size_t)there;
	n = n < BIG ? n : BIG;
	if (n <= BLOCK || segment_read(&img->segments.p[i], addr, buf, n) < 0)
		return 0;
	told(img, addr, n);
	return n;
}

size_t image_read_some(struct image *img, addr_t addr, void *buf, size_t len)
{
	size_t got = 0, small_until = 0;
	if (len > UINT64_MAX - addr)
		len = (size_t)(UINT64_MAX - addr);
	while (got < len) {
		uint8_t *to = (uint8_t *)buf + got;
		size_t n = 0;
		if (len - got > BLOCK && got >= small_until && !cached(img, addr + got)) {
			n = read_big(img, addr + got, to, len - got);
			if (n == 0) /* damaged somewhere: what is whole in it, without trying the big read at every step */
				small_until = got + BIG;
		}
		if (n == 0)
			n = read_piece(img, addr + got, to, len - got);
		if (n == 0)
			break;
		got += n;
	}
	return got;
}

size_t image_scan(struct image *img, addr_t addr, void *buf, size_t len)
{
	void (*watch)(void *arg, addr_t addr, size_t len) = img->watch;

	img->watch = NULL;
	size_t n = image_read_some(img, addr, buf, len);
	img->watch = watch;
	if (watch)
		image_forget(img);
	return n;
}

/* Do segments that touch cover all of it? */
static bool covered(struct image *img, addr_t addr, size_t len)
{
	uint64_t end;
	if (!add_fits(addr, len, &end))
		return false;
	size_t i = segment_from(img, addr);
	if (i == img->segments.n || img->segments.p[i].start > addr) {
		told(img, addr, 0);
		return false;
	}
	for (addr_t at = end_of(&img->segments.p[i]); at < end; at = end_of(&img->segments.p[i]))
		if (++i == img->segments.n || img->segments.p[i].start != at) {
			told(img, at, 0);
			return false;
		}
	return true;
}

bool image_is_lost(const struct image *img, addr_t start, uint64_t len)
{
	size_t lo = 0, hi = img->lost.n;
	while (lo < hi) { /* the first that ends behind start */
		size_t mid = lo + (hi - lo) / 2;
		if (img->lost.p[mid].end <= start)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo < img->lost.n && (img->lost.p[lo].start <= start || img->lost.p[lo].start - start < len);
}

uint64_t image_lost_reads(const struct image *img)
{
	return img->lost_reads;
}

int image_read(struct image *img, addr_t addr, void *buf, size_t len)
{
	struct block *b = cached(img, addr);
	if (b && len <= b->hi - addr) {
		memcpy(buf, block_at(b, addr), len);
		return 0;
	}
	if (len == 0)
		return 0;
	if (covered(img, addr, len) && image_read_some(img, addr, buf, len) == len)
		return 0;
	img->lost_reads += image_is_lost(img, addr, len);
	return ERR_FAULT;
}

/* The number at p in the image's byte order. */
static inline uint64_t number(const struct image *img, const uint8_t *p, size_t width)
{
	uint64_t v = 0;
	if (width == 8) { /* most reads are of pointers */
		memcpy(&v, p, 8);
		return img->abi.big_endian ? be64toh(v) : le64toh(v);
	}
	for (size_t i = 0; i < width; i++)
		v |= (uint64_t)p[i] << 8 * (img->abi.big_endian ? width - 1 - i : i);
	return v;
}

int image_read_uint(struct image *img, addr_t addr, size_t width, uint64_t *ret)
{
	uint8_t buf[8];
	if (width < 1 || width > 8)
		return ERR_CORRUPT;
	const struct block *b = cached(img, addr);
	if (b && width <= b->hi - addr) {
		*ret = number(img, block_at(b, addr), width);
		return 0;
	}
	int rc = image_read(img, addr, buf, width);
	if (rc == 0)
		*ret = number(img, buf, width);
	return rc;
}

int image_read_ptr(struct image *img, addr_t addr, addr_t *ret)
{
	return image_read_uint(img, addr, img->abi.width, ret);
}

int image_read_cstr(struct image *img, addr_t addr, char *buf, size_t max)
{
	if (max > INT32_MAX - 1)
		max = INT32_MAX - 1;
	for (size_t got = 0; got <= max;) {
		size_t want = max + 1 - got < 128 ? max + 1 - got : 128;
		if (addr + got < addr)
			return ERR_FAULT;
		size_t n = read_piece(img, addr + got, buf + got, want);
		if (n == 0)
			return ERR_FAULT;
		const char *nul = memchr(buf + got, 0, n);
		if (nul)
			return (int)(nul - buf);
		got += n;
	}
	buf[max] = '\0';
	return ERR_LIMIT;
}

uint64_t image_skip(struct image *img, addr_t addr)
{
	size_t i = segment_from(img, addr);
	if (i == img->segments.n) {
		uint64_t left = (img->abi.width == 4 && addr <= UINT32_MAX ? UINT32_MAX : UINT64_MAX) - addr;
		return left ? left : 1;
	}
	const struct segment *s = &img->segments.p[i];
	if (addr < s->start)
		return s->start - addr;
	if (!s->hole)
		return 0;
	uint64_t n = s->hole(s->ctx, s->skip + (addr - s->start)), there = end_of(s) - addr;
	return n < there ? n : there;
}
