/*
 * Looking for words and for the version's text in writable memory.  Owns the order in which memory is visited and the
 * bounds of the search; what a found word means is the caller's affair.
 */
#include "python/search.h"

#include <stdlib.h>
#include <string.h>

enum { CHUNK = 256 * 1024 };

/*
 * Words fall into a few families that have most bits in common: the cookie, the main thread's pointer, those of other threads, which
 * lie at the same place of a page each.  So a look at the bits in common rejects nearly all of memory.
 */
enum { FAMILIES = 3 };
struct family { uint64_t bits, common; };

struct search_set {
	struct family family[FAMILIES]; /* all are meant: those not needed repeat the first */
	unsigned shift;
	size_t mask;
	uint64_t *slots;    /* open addressing, 0: empty */
	bool empty;
};

static size_t set_slot(const struct search_set *s, uint64_t word)
{
	return (size_t)((word * 0x9e3779b97f4a7c15u) >> s->shift);
}

static bool set_has(const struct search_set *s, uint64_t word)
{
	for (size_t i = set_slot(s, word); s->slots[i]; i = (i + 1) & s->mask)
		if (s->slots[i] == word)
			return true;
	return false;
}

enum { PAGE_BITS = 4095 };

/* By the place in a page, then by value. */
static int word_order(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	if ((x & PAGE_BITS) != (y & PAGE_BITS))
		return (x & PAGE_BITS) < (y & PAGE_BITS) ? -1 : 1;
	return x < y ? -1 : x > y;
}

/* The two largest groups of words with the same place in a page are families, the rest is another. */
static void make_families(struct search_set *s, const uint64_t *sorted, size_t n)
{
	struct { size_t at, n; } best[FAMILIES - 1] = { { 0, 0 } };
	for (size_t i = 0, end; i < n; i = end) {
		for (end = i + 1; end < n && ((sorted[end] ^ sorted[i]) & PAGE_BITS) == 0; end++)
			;
		size_t k = end - i > best[0].n ? 0 : 1;
		if (k == 0)
			best[1] = best[0];
		if (end - i > best[k].n || k == 0) {
			best[k].at = i;
			best[k].n = end - i;
		}
	}
	bool used[FAMILIES] = { false };
	for (size_t i = 0; i < n; i++) {
		size_t k = 0;
		while (k < FAMILIES - 1 && !(i >= best[k].at && i < best[k].at + best[k].n))
			k++;
		struct family *f = &s->family[k];
		if (!used[k])
			*f = (struct family){ sorted[i], UINT64_MAX };
		used[k] = true;
		f->common &= ~(f->bits ^ sorted[i]);
	}
	for (size_t k = 0; k < FAMILIES; k++)
		if (!used[k])
			s->family[k] = s->family[0];
}

struct search_set *search_set_new(const uint64_t *words, size_t n)
{
	struct search_set *s = xcalloc(1, sizeof *s);
	unsigned bits = 4;

	while (((size_t)1 << bits) < 2 * n + 2)
		bits++;
	s->shift = 64 - bits;
	s->mask = ((size_t)1 << bits) - 1;
	s->slots = xcalloc(s->mask + 1, sizeof *s->slots);
	CLEANUP(cleanup_free) uint64_t *sorted = xcalloc(n ? n : 1, sizeof *sorted);
	size_t m = 0;
	for (size_t i = 0; i < n; i++)
		if (words[i])
			sorted[m++] = words[i];
	qsort(sorted, m, sizeof *sorted, word_order);
	s->empty = m == 0;
	if (!m)
		return s;
	for (size_t i = 0; i < m; i++) {
		size_t at = set_slot(s, sorted[i]);
		while (s->slots[at] && s->slots[at] != sorted[i])
			at = (at + 1) & s->mask;
		s->slots[at] = sorted[i];
	}
	make_families(s, sorted, m);
	return s;
}

void search_set_free(struct search_set *s)
{
	if (!s)
		return;
	free(s->slots);
	free(s);
}

static bool elf_data(const struct image *img, const struct segment *seg)
{
	const struct mapping *list;
	size_t n = image_mappings(img, &list);

	if (!n) /* a core without NT_FILE: nothing tells, and all may be */
		return true;
	/* The last mapping that starts at or before the segment's end covers it, or ends where it (a bss) starts. */
	size_t lo = 0, hi = n;
	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;
		if (list[mid].start < seg->start + seg->size)
			lo = mid + 1;
		else
			hi = mid;
	}
	/* A process and a snapshot list the bss as a mapping of its own, without a path. */
	if (lo > 1 && !list[lo - 1].path.len && list[lo - 2].end == list[lo - 1].start && list[lo - 1].start <= seg->start)
		lo--;
	else if (lo > 0 && list[lo - 1].end < seg->start)
		return false;
	return lo > 0 && list[lo - 1].path.len > 0 && list[lo - 1].path.p[0] == '/';
}

/* Calls got for consecutive pieces of every writable segment of the kind in [from, to); pieces start at multiples of 8. */
static int each_piece(struct image *img, enum search_where where, addr_t from, addr_t to, size_t overlap,
		      int (*got)(void *arg, addr_t at, const uint8_t *p, size_t len), void *arg)
{
	const struct segment *segs;
	size_t n = image_segments(img, &segs);
	CLEANUP(cleanup_free) uint8_t *buf = xmalloc(CHUNK);
	/* A segment list may change beneath us when pages are laid beneath: it does not during a search. */
	for (size_t i = 0; i < n; i++) {
		if (!(segs[i].prot & 2) || (where == SEARCH_ELF) != elf_data(img, &segs[i]))
			continue;
		const addr_t start = segs[i].start < from ? from : segs[i].start;
		addr_t at = (start + 7) & ~(addr_t)7, end = segs[i].start + segs[i].size;
		if (end > to)
			end = to;
		while (at >= start && at < end) {
			uint64_t skip = image_skip(img, at);
			if (skip) {
				if (skip >= end - at)
					break;
				at += skip < 8 ? 8 : skip & ~(uint64_t)7;
				continue;
			}
			size_t want = end - at < CHUNK ? (size_t)(end - at) : CHUNK;
			size_t len = image_scan(img, at, buf, want);
			if (!len) {
				at += 4096 - at % 4096; /* a page that cannot be read */
				continue;
			}
			int rc = got(arg, at, buf, len);
			if (rc)
				return rc;
			if (len == end - at)
				break;
			if (len == want && end - at > CHUNK && overlap)
				len -= overlap;
			at += len >= 8 ? len & ~(size_t)7 : 8;
		}
	}
	return 0;
}

/* Four halves of words at once, on every machine that has registers for it. */
typedef uint32_t halves __attribute__((vector_size(16)));
enum { AT_ONCE = 64 };

struct words {
	struct image *img;
	const struct search_set *set;
	unsigned long left;
	int (*got)(void *arg, addr_t at, uint64_t word);
	void *arg;
	uint8_t width;
	bool big_endian;
	halves bits[FAMILIES], common[FAMILIES]; /* as two words of memory look, of which the lower halves count */
};

static int word_hit(struct words *w, addr_t at, uint64_t word)
{
	if (!set_has(w->set, word))
		return 0;
	if (!w->left--)
		return ERR_LIMIT;
	return w->got(w->arg, at, word);
}

static uint64_t word_at(const struct words *w, const uint8_t *p)
{
	uint64_t word = 0;
	for (size_t k = 0; k < w->width; k++)
		word |= (uint64_t)p[k] << 8 * (w->big_endian ? w->width - 1u - k : k);
	return word;
}

static bool any_fits(const struct words *w, const uint8_t *p)
{
	halves any = { 0, 0, 0, 0 };
	for (size_t i = 0; i < AT_ONCE; i += sizeof(halves)) {
		halves v;
		memcpy(&v, p + i, sizeof v);
		for (size_t k = 0; k < FAMILIES; k++)
			any |= (halves)(((v ^ w->bits[k]) & w->common[k]) == 0);
	}
	return any[0] | any[1] | any[2] | any[3];
}

static int words_piece(void *arg, addr_t at, const uint8_t *p, size_t len)
{
	struct words *w = arg;

	for (size_t i = 0; i + w->width <= len;) {
		if (w->width == 8 && len - i >= AT_ONCE && !any_fits(w, p + i)) {
			i += AT_ONCE;
			continue;
		}
		for (size_t end = len - i >= AT_ONCE ? i + AT_ONCE : len; i + w->width <= end; i += w->width) {
			uint64_t word = word_at(w, p + i);
			bool fits = false;
			for (size_t k = 0; k < FAMILIES; k++)
				fits |= ((word ^ w->set->family[k].bits) & w->set->family[k].common) == 0;
			int rc = fits ? word_hit(w, at + i, word) : 0;
			if (rc)
				return rc;
		}
	}
	return 0;
}

int search_words(struct image *img, const struct search_set *set, enum search_where where, unsigned long max,
		 int (*got)(void *arg, addr_t at, uint64_t word), void *arg)
{
	const struct abi *abi = image_abi(img);

	if (set->empty || (abi->width != 4 && abi->width != 8))
		return 0;
	struct words w = { .img = img, .set = set, .left = max, .got = got, .arg = arg, .width = abi->width, .big_endian = abi->big_endian };
	for (size_t k = 0; k < FAMILIES; k++) {
		/* The upper halves are to fit nothing that is common in memory; then the word itself is looked at. */
		static const uint32_t decoy = 0xa5c3965au;
		uint8_t bits[16], common[16];
		for (size_t i = 0; i < 16; i++) {
			unsigned at = 8 * (unsigned)(abi->big_endian ? 7 - i % 8 : i % 8);
			bits[i] = (uint8_t)(at < 32 ? set->family[k].bits >> at : decoy >> (at - 32));
			common[i] = (uint8_t)(at < 32 ? set->family[k].common >> at : 0xff);
		}
		memcpy(&w.bits[k], bits, sizeof bits);
		memcpy(&w.common[k], common, sizeof common);
	}
	return each_piece(img, where, 0, UINT64_MAX, 0, words_piece, &w);
}

enum { VERSION_MAX = 255 };

struct version_text {
	struct image *img;
	char *ret;
	size_t room;
};

static bool is_digit(uint8_t c)
{
	return c >= '0' && c <= '9';
}

/*
 * The length of "3.9.18" or "3.14.0rc2" at p, 0 if there is none.  What follows: " (main, ...)", " free-threading build (...)" (3.13: "experimental"
 * before it), " | packaged by conda-forge | (...)", " |Anaconda, Inc.| (...)".
 */
static size_t version_len(const uint8_t *p, size_t len)
{
	size_t i = 0;

	if (len < 8 || (p[0] != '2' && p[0] != '3') || p[1] != '.')
		return 0;
	for (i = 2; i < len && i < 4 && is_digit(p[i]); i++)
		;
	if (i == 2 || i + 1 >= len || p[i] != '.' || !is_digit(p[i + 1]))
		return 0;
	for (i++; i < len && i < 8 && is_digit(p[i]); i++)
		;
	while (i < len && i < 16 && (is_digit(p[i]) || p[i] == 'a' || p[i] == 'b' || p[i] == 'r' || p[i] == 'c' || p[i] == '+'))
		i++;
	return i + 1 < len && p[i] == ' ' && p[i + 1] && strchr("(|fe", p[i + 1]) ? i : 0;
}

static int version_piece(void *arg, addr_t at, const uint8_t *p, size_t len)
{
	struct version_text *v = arg;
	uint8_t again[VERSION_MAX];

	/* What Py_GetVersion() wrote ends in the compiler's name in brackets. */
	for (const uint8_t *q = p; (q = memchr(q, '[', (size_t)(p + len - q))); q++) {
		size_t left = (size_t)(p + len - q);
		if (!(left > 5 && !memcmp(q, "[GCC ", 5)) && !(left > 7 && !memcmp(q, "[Clang ", 7)))
			continue;
		size_t before = (size_t)(q - p) < VERSION_MAX - 80 ? (size_t)(q - p) : VERSION_MAX - 80;
		for (size_t back = 1; back <= before; back++) {
			const uint8_t *s = q - back;
			if (*s < 9 || *s > 126)
				break;
			if ((s > p && (is_digit(s[-1]) || s[-1] == '.')) || !is_digit(*s))
				continue;
			size_t n = version_len(s, back);
			/* Read once more, so that a record of what was needed has it. */
			if (n && n < v->room && image_read(v->img, at + (addr_t)(s - p), again, back) == 0) {
				memcpy(v->ret, s, n);
				v->ret[n] = 0;
				return 1;
			}
		}
	}
	return 0;
}

int search_version_text(struct image *img, addr_t from, addr_t to, char *ret, size_t room)
{
	struct version_text v = { img, ret, room };
	int rc = each_piece(img, SEARCH_ELF, from, to, VERSION_MAX, version_piece, &v);

	return rc == 1 ? 0 : rc < 0 ? rc : ERR_ABSENT;
}
