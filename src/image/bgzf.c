/*
 * BGZF members as random-access bytes: finds them by the index of a .pz or by walking their headers, and unpacks the few
 * that are asked for (formats/pz.md).  What the bytes mean is left to others.  No byte of a member is given out before
 * its CRC-32 is right and, in a file of ours, before it has said itself that it stands at this place; nothing that the
 * file says is believed beyond its own bounds.
 */
#include "config.h"

#include "image/pz.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#if HAVE_LIBDEFLATE
#include <libdeflate.h>
#else
#include <zlib.h>
#endif

enum {
	CACHED = 16,           /* members kept unpacked: 256 KiB as pysnap writes them, at most 1 MiB; the image keeps what was read */
	MARK_EVERY = 64,
	MEMBER_MIN = BGZF_HEAD + 1 + BGZF_TAIL,
};
#define NO_MEMBER SIZE_MAX

struct place {
	uint64_t packed, payload;     /* in the file, in what it holds */
};

/* Where members are: their sizes, and every MARK_EVERY-th place, so that 140,000 members (2 GiB) take 600 KiB. */
struct table {
	struct VEC(uint32_t) entry;   /* BSIZE | (ISIZE - 1) << 16 */
	struct VEC(struct place) mark;
	struct place end;             /* behind the last one */
};

struct bgzf {
	struct bytes b;
	struct bytes *packed;
	struct table table;
	bool indexed, truncated;
	bool placed;                  /* each member says its payload's place: this is no file of another writer */
	bool rewalked;                /* the index was doubted once; enough */
	uint32_t format;
	uint8_t *bad;                 /* one bit a member, NULL until the first */
	size_t n_bad;
	void (*found)(void *arg, uint64_t start, uint64_t end);
	void *found_arg;
	struct { size_t member; uint64_t used; uint8_t *p; } cache[CACHED];
	uint64_t clock;
	uint8_t *in;                  /* a packed member */
#if HAVE_LIBDEFLATE
	struct libdeflate_decompressor *inflater;
#else
	z_stream inflater;
	bool inflater_on;
#endif
};

static uint64_t le(const uint8_t *p, size_t width)
{
	uint64_t v = 0;
	for (size_t i = 0; i < width; i++)
		v |= (uint64_t)p[i] << 8 * i;
	return v;
}

/* ---- one member ---- */

/* Size of the member that starts with these BGZF_HEAD bytes, 0 if none does.  MTIME, XFL and OS are not looked at. */
static size_t head_size(const uint8_t *p)
{
	static const uint8_t begin[4] = { 0x1f, 0x8b, 8, 4 }, extra[6] = { 6, 0, 'B', 'C', 2, 0 };
	if (memcmp(p, begin, sizeof begin) != 0 || memcmp(p + 10, extra, sizeof extra) != 0)
		return 0;
	size_t size = (size_t)le(p + 16, 2) + 1;
	return size < MEMBER_MIN ? 0 : size;
}

static uint32_t crc_of(const uint8_t *p, size_t len)
{
#if HAVE_LIBDEFLATE
	return libdeflate_crc32(0, p, len);
#else
	return (uint32_t)crc32(0, p, (uInt)len);
#endif
}

static bool inflate_raw(struct bgzf *z, const uint8_t *in, size_t in_len, uint8_t *out, size_t out_len)
{
#if HAVE_LIBDEFLATE
	if (!z->inflater)
		z->inflater = libdeflate_alloc_decompressor();
	size_t used;
	return z->inflater &&
	       libdeflate_deflate_decompress_ex(z->inflater, in, in_len, out, out_len, &used, NULL) == LIBDEFLATE_SUCCESS &&
	       used == in_len;
#else
	if (!z->inflater_on)
		z->inflater_on = inflateInit2(&z->inflater, -15) == Z_OK;
	if (!z->inflater_on || inflateReset(&z->inflater) != Z_OK)
		return false;
	z->inflater.next_in = (Bytef *)(uintptr_t)in; /* not written to */
	z->inflater.avail_in = (uInt)in_len;
	z->inflater.next_out = out;
	z->inflater.avail_out = (uInt)out_len;
	return inflate(&z->inflater, Z_FINISH) == Z_STREAM_END && !z->inflater.avail_in && !z->inflater.avail_out;
#endif
}

enum verdict {
	MEMBER_GOOD,
	MEMBER_DAMAGED,
	MEMBER_ELSEWHERE, /* its header or size is not what was expected */
};

/* Read and unpack the member at `at`, expected to have these sizes, into out (BGZF_MAX bytes).  <0: ERR_IO, else a verdict. */
static int member_read(struct bgzf *z, uint64_t at, size_t size, size_t payload, uint8_t *out)
{
	if (size < MEMBER_MIN || size > BGZF_MAX || payload > BGZF_MAX)
		return MEMBER_ELSEWHERE;
	int rc = bytes_read(z->packed, at, z->in, size);
	if (rc == ERR_FAULT)
		return MEMBER_ELSEWHERE;
	if (rc < 0)
		return rc;
	const uint8_t *tail = z->in + size - BGZF_TAIL;
	if (head_size(z->in) != size || le(tail + 4, 4) != payload)
		return MEMBER_ELSEWHERE;
	if (!inflate_raw(z, z->in + BGZF_HEAD, size - BGZF_HEAD - BGZF_TAIL, out, payload) || crc_of(out, payload) != le(tail, 4))
		return MEMBER_DAMAGED;
	return MEMBER_GOOD;
}

/* ---- the table ---- */

static void table_free(struct table *t)
{
	vec_free(&t->entry);
	vec_free(&t->mark);
}

static void table_add(struct table *t, size_t size, size_t payload)
{
	if (t->entry.n % MARK_EVERY == 0)
		*vec_push(&t->mark) = t->end;
	*vec_push(&t->entry) = (uint32_t)(size - 1) | (uint32_t)(payload - 1) << 16;
	t->end.packed += size;
	t->end.payload += payload;
}

static size_t entry_size(uint32_t e)
{
	return (e & 0xffff) + 1;
}

static size_t entry_payload(uint32_t e)
{
	return (e >> 16) + 1;
}

/* The member that holds payload byte off, and its place; NO_MEMBER past the end. */
static size_t table_find(const struct table *t, uint64_t off, struct place *ret)
{
	if (off >= t->end.payload)
		return NO_MEMBER;
	size_t low = 0, high = t->mark.n;
	while (high - low > 1) {
		size_t mid = low + (high - low) / 2;
		if (t->mark.p[mid].payload <= off)
			low = mid;
		else
			high = mid;
	}
	struct place at = t->mark.p[low];
	for (size_t i = low * MARK_EVERY;; i++) {
		uint32_t e = t->entry.p[i];
		if (off - at.payload < entry_payload(e)) {
			*ret = at;
			return i;
		}
		at.packed += entry_size(e);
		at.payload += entry_payload(e);
	}
}

/* ---- without an index ---- */

/*
 * MTIME of each member that we wrote is the low half of its payload's place.  So a damaged ISIZE cannot shift what
 * follows: where the next member's place is not the sum of the sizes before it, the member in question is unpacked.
 * If that proves it right the sum counts (in files of others every MTIME is 0, and every member is unpacked here), unless
 * the member itself says that it belongs elsewhere: two may have been exchanged, and what is between them stands right.
 * Else the next member's word does, and the member is found damaged when it is read.
 */
static int walk_settle(struct bgzf *z, uint8_t *scratch, const struct place *at, size_t size, uint64_t payload,
                       uint32_t own, uint32_t next, size_t *ret)
{
	uint32_t gap = next - (uint32_t)at->payload;
	bool gap_fits = gap >= 1 && gap <= BGZF_MAX;
	if (payload >= 1 && payload <= BGZF_MAX) {
		if ((uint32_t)(at->payload + payload) == next) {
			*ret = (size_t)payload;
			return 1;
		}
		int rc = member_read(z, at->packed, size, (size_t)payload, scratch);
		if (rc < 0)
			return rc;
		bool foreign = own == next; /* ours never say the same */
		if (rc == MEMBER_GOOD && (own == (uint32_t)at->payload || foreign || !gap_fits)) {
			*ret = (size_t)payload;
			return 1;
		}
	}
	if (!gap_fits)
		return 0;
	*ret = gap;
	return 1;
}

/* Headers from the front up to `limit`, the end block, a cut, or a header that cannot be right.  *ended: it was the end block. */
static int walk(struct bgzf *z, uint64_t limit, struct table *t, bool *ended)
{
	CLEANUP(cleanup_free) uint8_t *scratch = xmalloc(BGZF_MAX);
	uint8_t edge[BGZF_TAIL + BGZF_HEAD]; /* the tail of one member, the head of the next */
	*ended = false;
	if (limit < BGZF_HEAD)
		return 0;
	int rc = bytes_read(z->packed, 0, edge + BGZF_TAIL, BGZF_HEAD);
	if (rc < 0)
		return rc;
	size_t size = head_size(edge + BGZF_TAIL);
	uint32_t own = (uint32_t)le(edge + BGZF_TAIL + 4, 4);
	while (size && limit - t->end.packed >= size) {
		uint64_t end = t->end.packed + size;
		bool more = limit - end >= BGZF_HEAD;
		rc = bytes_read(z->packed, end - BGZF_TAIL, edge, BGZF_TAIL + (more ? BGZF_HEAD : 0));
		if (rc < 0)
			return rc;
		uint64_t payload = le(edge + 4, 4);
		if (!payload && size == BGZF_END) {
			*ended = true;
			return 0;
		}
		size_t next_size = more ? head_size(edge + BGZF_TAIL) : 0;
		uint32_t next = (uint32_t)le(edge + BGZF_TAIL + 4, 4);
		size_t settled = (size_t)payload;
		if (next_size == BGZF_END && limit - end == BGZF_END)
			rc = payload >= 1 && payload <= BGZF_MAX; /* the end block has no place */
		else if (next_size)
			rc = walk_settle(z, scratch, &t->end, size, payload, own, next, &settled);
		else
			rc = payload >= 1 && payload <= BGZF_MAX;
		if (rc <= 0)
			return rc;
		if (own && own == (uint32_t)t->end.payload)
			z->placed = true;
		table_add(t, size, settled);
		size = next_size;
		own = next;
	}
	return 0;
}

/* ---- with an index ---- */

struct locator {
	uint32_t format, crc;
	uint64_t index_at, core, count;
	uint64_t at;             /* of itself */
};

static bool locator_read(struct bgzf *z, struct locator *ret)
{
	static const uint8_t stored[5] = { 1, PZ_LOCATOR, 0, (uint8_t)~PZ_LOCATOR, 0xff };
	uint8_t m[PZ_LOCATOR_MEMBER];
	uint64_t size = z->packed->size;
	if (size < sizeof m + BGZF_END)
		return false;
	uint64_t at = size - BGZF_END - sizeof m;
	if (bytes_read(z->packed, at, m, sizeof m) < 0)
		return false;
	const uint8_t *p = m + BGZF_HEAD + sizeof stored;
	if (head_size(m) != sizeof m || memcmp(m + BGZF_HEAD, stored, sizeof stored) != 0 || memcmp(p, "pysnapIX", 8) != 0 ||
	    le(p + PZ_LOCATOR, 4) != crc_of(p, PZ_LOCATOR) || le(p + PZ_LOCATOR + 4, 4) != PZ_LOCATOR)
		return false;
	*ret = (struct locator){
		.format = (uint32_t)le(p + 8, 4), .crc = (uint32_t)le(p + 12, 4),
		.index_at = le(p + 16, 8), .core = le(p + 24, 8), .count = le(p + 32, 8), .at = at,
	};
	return true;
}

/* Unpack the index into buf (exactly len bytes); 1, 0 if it is not good, or ERR_IO. */
static int index_unpack(struct bgzf *z, const struct locator *loc, uint8_t *buf, size_t len)
{
	CLEANUP(cleanup_free) uint8_t *part = xmalloc(BGZF_MAX);
	uint64_t at = loc->index_at;
	size_t got = 0;
	while (at < loc->at) {
		uint8_t head[BGZF_HEAD], tail[BGZF_TAIL];
		if (loc->at - at < MEMBER_MIN)
			return 0;
		int rc = bytes_read(z->packed, at, head, sizeof head);
		if (rc < 0)
			return rc;
		size_t size = head_size(head);
		if (!size || size > loc->at - at)
			return 0;
		rc = bytes_read(z->packed, at + size - BGZF_TAIL, tail, sizeof tail);
		if (rc < 0)
			return rc;
		uint64_t payload = le(tail + 4, 4);
		if (!payload || payload > BGZF_MAX || payload > len - got)
			return 0;
		rc = member_read(z, at, size, (size_t)payload, part);
		if (rc < 0)
			return rc;
		if (rc != MEMBER_GOOD)
			return 0;
		memcpy(buf + got, part, (size_t)payload);
		got += (size_t)payload;
		at += size;
	}
	return got == len && crc_of(buf, len) == loc->crc;
}

/* 1 and the table, 0 if the index is not to be believed, or ERR_IO. */
static int index_read(struct bgzf *z, const struct locator *loc, struct table *t)
{
	/* A member is at least MEMBER_MIN bytes long, so the file's size bounds what is allocated here. */
	if (loc->index_at > loc->at || loc->count > loc->index_at / MEMBER_MIN)
		return 0;
	/* An entry of the file has the bits of ours: it is unpacked where it stays, and put into our byte order there. */
	size_t n = (size_t)loc->count, len = n * PZ_INDEX_ENTRY;
	t->entry.p = xmalloc(len);
	t->entry.n = t->entry.room = n;
	int rc = index_unpack(z, loc, (uint8_t *)t->entry.p, len);
	if (rc <= 0)
		return rc;
	for (size_t i = 0; i < n; i++) {
		uint32_t e = (uint32_t)le((const uint8_t *)&t->entry.p[i], PZ_INDEX_ENTRY);
		size_t size = entry_size(e);
		if (size < MEMBER_MIN || size > loc->index_at - t->end.packed)
			return 0;
		t->entry.p[i] = e;
		if (i % MARK_EVERY == 0)
			*vec_push(&t->mark) = t->end;
		t->end.packed += size;
		t->end.payload += entry_payload(e);
	}
	return t->end.packed == loc->index_at && t->end.payload == loc->core;
}

/* A member is not where the index says: walk once, and believe that if it comes out at the same place. */
static bool index_doubt(struct bgzf *z)
{
	if (!z->indexed || z->rewalked)
		return false;
	z->rewalked = true;
	struct table t = { 0 };
	bool ended;
	int rc = walk(z, z->table.end.packed, &t, &ended);
	if (rc < 0 || t.end.packed != z->table.end.packed || t.end.payload != z->table.end.payload) {
		table_free(&t);
		return false;
	}
	table_free(&z->table);
	z->table = t;
	for (size_t i = 0; i < CACHED; i++)
		z->cache[i].member = NO_MEMBER;
	free(z->bad);
	z->bad = NULL;
	z->n_bad = 0;
	return true;
}

/* ---- reading ---- */

static bool is_bad(const struct bgzf *z, size_t member)
{
	return z->bad && z->bad[member / 8] >> member % 8 & 1;
}

static void set_bad(struct bgzf *z, size_t member, uint64_t start)
{
	if (!z->bad)
		z->bad = xcalloc(z->table.entry.n / 8 + 1, 1);
	if (is_bad(z, member))
		return;
	z->bad[member / 8] |= (uint8_t)(1 << member % 8);
	z->n_bad++;
	if (z->found)
		z->found(z->found_arg, start, start + entry_payload(z->table.entry.p[member]));
}

/* The unpacked member, valid until the next call; ERR_CORRUPT, ERR_IO. *doubted: the table changed, look again. */
static int unpack(struct bgzf *z, size_t member, const struct place *at, const uint8_t **ret, bool *doubted)
{
	size_t oldest = 0;
	for (size_t i = 0; i < CACHED; i++) {
		if (z->cache[i].member == member) {
			z->cache[i].used = ++z->clock;
			*ret = z->cache[i].p;
			return 0;
		}
		if (z->cache[i].used < z->cache[oldest].used)
			oldest = i;
	}
	if (is_bad(z, member))
		return ERR_CORRUPT;
	if (!z->cache[oldest].p)
		z->cache[oldest].p = xmalloc(BGZF_MAX);
	z->cache[oldest].member = NO_MEMBER;
	uint32_t e = z->table.entry.p[member];
	int rc = member_read(z, at->packed, entry_size(e), entry_payload(e), z->cache[oldest].p);
	if (rc < 0)
		return rc;
	/* A member that was exchanged with another one has a right CRC-32 as well. */
	bool misplaced = z->placed && rc == MEMBER_GOOD && (uint32_t)le(z->in + 4, 4) != (uint32_t)at->payload;
	if ((rc == MEMBER_ELSEWHERE || misplaced) && index_doubt(z)) {
		*doubted = true;
		return 0;
	}
	if (rc != MEMBER_GOOD || misplaced) {
		set_bad(z, member, at->payload);
		return ERR_CORRUPT;
	}
	z->cache[oldest].member = member;
	z->cache[oldest].used = ++z->clock;
	*ret = z->cache[oldest].p;
	return 0;
}

static int bgzf_read(struct bytes *b, uint64_t off, void *buf, size_t len)
{
	struct bgzf *z = (struct bgzf *)b;
	uint8_t *to = buf;
	if (!z->packed)
		return ERR_IO;
	while (len) {
		struct place at;
		size_t member = table_find(&z->table, off, &at);
		if (member == NO_MEMBER)
			return ERR_CORRUPT;
		const uint8_t *p = NULL;
		bool doubted = false;
		int rc = unpack(z, member, &at, &p, &doubted);
		if (rc < 0)
			return rc;
		if (doubted)
			continue;
		size_t skip = (size_t)(off - at.payload), n = entry_payload(z->table.entry.p[member]) - skip;
		if (n > len)
			n = len;
		memcpy(to, p + skip, n);
		to += n;
		off += n;
		len -= n;
	}
	return 0;
}

static void bgzf_free(struct bgzf *z)
{
	table_free(&z->table);
	for (size_t i = 0; i < CACHED; i++)
		free(z->cache[i].p);
	free(z->bad);
	free(z->in);
#if HAVE_LIBDEFLATE
	if (z->inflater)
		libdeflate_free_decompressor(z->inflater);
#else
	if (z->inflater_on)
		inflateEnd(&z->inflater);
#endif
	free(z);
}

static void bgzf_close(struct bytes *b)
{
	struct bgzf *z = (struct bgzf *)b;
	bytes_close(z->packed);
	bgzf_free(z);
}

struct bytes *bgzf_detach(struct bytes *b)
{
	struct bgzf *z = (struct bgzf *)b;
	struct bytes *packed = z->packed;
	z->packed = NULL;
	return packed;
}

bool bgzf_probe(struct bytes *packed)
{
	uint8_t head[BGZF_HEAD];
	return packed->size >= sizeof head && bytes_read(packed, 0, head, sizeof head) == 0 && head_size(head);
}

/* 0 or ERR_IO. */
static int find_members(struct bgzf *z)
{
	struct locator loc = { 0 };
	bool located = locator_read(z, &loc);
	z->placed = located;
	if (located) {
		z->format = loc.format;
		if (loc.format > PZ_FORMAT)
			located = false; /* its index may be another; members are members */
	}
	if (located) {
		int rc = index_read(z, &loc, &z->table);
		if (rc < 0)
			return rc;
		if (rc > 0) {
			z->indexed = true;
			return 0;
		}
		table_free(&z->table);
		z->table = (struct table){ 0 };
	}
	bool ended;
	int rc = walk(z, z->packed->size, &z->table, &ended);
	if (rc < 0)
		return rc;
	z->truncated = !ended;
	return 0;
}

int bgzf_open(struct bytes *packed, struct bytes **ret, struct err *err)
{
	if (!bgzf_probe(packed))
		return err_set(err, ERR_UNSUPPORTED, "%s does not start with a BGZF member", packed->name);
	struct bgzf *z = xcalloc(1, sizeof *z);
	z->packed = packed;
	z->in = xmalloc(BGZF_MAX);
	for (size_t i = 0; i < CACHED; i++)
		z->cache[i].member = NO_MEMBER;
	int rc = find_members(z);
	if (rc < 0)
		err_set(err, rc, "%s cannot be read: %s", packed->name, err_word(rc));
	else if (!z->table.end.payload)
		rc = err_set(err, ERR_CORRUPT, "%s is cut inside its first member: %" PRIu64 " bytes are there", packed->name, packed->size);
	if (rc < 0) {
		err_hint(err, "copy it again and compare sizes, or take it again with pysnap");
		bgzf_free(z);
		return rc;
	}
	z->b = (struct bytes){ .size = z->table.end.payload, .read = bgzf_read, .close = bgzf_close, .name = packed->name };
	*ret = &z->b;
	return 0;
}

static const struct bgzf *const_bgzf(const struct bytes *b)
{
	return (const struct bgzf *)b;
}

bool bgzf_truncated(const struct bytes *b)
{
	return const_bgzf(b)->truncated;
}

bool bgzf_indexed(const struct bytes *b)
{
	return const_bgzf(b)->indexed;
}

uint32_t bgzf_format(const struct bytes *b)
{
	return const_bgzf(b)->format;
}

size_t bgzf_damaged(const struct bytes *b)
{
	return const_bgzf(b)->n_bad;
}

void bgzf_watch(struct bytes *b, void (*found)(void *arg, uint64_t start, uint64_t end), void *arg)
{
	struct bgzf *z = (struct bgzf *)b;
	z->found = found;
	z->found_arg = arg;
}
