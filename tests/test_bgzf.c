/* The container: members, index, walking; cuts, flips and lies.  What is inside is test_pz.c's. */
#include "build_pz.h"
#include "suite.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

enum { NO_INDEX = PZ_LOCATOR_MEMBER + BGZF_END }; /* bytes to cut off the end for a file that must be walked */

/* ---- members by hand ---- */

static uint64_t le(const uint8_t *p, size_t width)
{
	uint64_t v = 0;
	for (size_t i = width; i-- > 0;)
		v = v << 8 | p[i];
	return v;
}

static void put_le(struct sb *b, size_t width, uint64_t v)
{
	for (size_t i = 0; i < width; i++)
		sb_char(b, (char)(v >> 8 * i));
}

/* One stored member; at most 60,000 bytes. */
static void put_member(struct sb *b, const void *p, size_t len, uint32_t mtime)
{
	sb_bytes(b, "\x1f\x8b\x08\x04", 4);
	put_le(b, 4, mtime);
	sb_bytes(b, "\0\xff\6\0BC\2\0", 8);
	put_le(b, 2, len + BGZF_HEAD + 5 + BGZF_TAIL - 1);
	sb_char(b, 1);
	put_le(b, 2, len);
	put_le(b, 2, ~len & 0xffff);
	sb_bytes(b, p, len);
	put_le(b, 4, crc32(0, p, (uInt)len));
	put_le(b, 4, len);
}

static void put_end(struct sb *b)
{
	sb_bytes(b, "\x1f\x8b\x08\4\0\0\0\0\0\xff\6\0BC\2\0\x1b\0\3\0\0\0\0\0\0\0\0\0", BGZF_END);
}

struct member { size_t at, size, payload_at, payload; };

/* Headers read anew here, so that the reader is not its own witness. */
static size_t members_of(struct blob f, struct member *ret, size_t room)
{
	size_t n = 0;
	for (size_t at = 0, payload = 0; f.len - at >= BGZF_HEAD;) {
		ck_assert_uint_eq(le(f.p + at, 4), 0x04088b1f);
		ck_assert_uint_eq(le(f.p + at + 10, 2), 6);
		ck_assert_uint_eq(le(f.p + at + 12, 4), 0x00024342);
		size_t size = (size_t)le(f.p + at + 16, 2) + 1;
		if (size > f.len - at)
			break;
		size_t len = (size_t)le(f.p + at + size - 4, 4);
		ck_assert_uint_le(len, BGZF_MAX);
		ck_assert_uint_lt(n, room);
		if (len)
			ck_assert_uint_eq(le(f.p + at + 4, 4), payload);
		ret[n++] = (struct member){ at, size, payload, len };
		at += size;
		payload += len;
	}
	return n;
}

static struct bytes *open_blob(struct blob f)
{
	struct bytes *b, *packed = bytes_from_memory(f.p, f.len, "x.pz");
	struct err err;
	if (bgzf_open(packed, &b, &err) < 0) {
		bytes_close(packed);
		return NULL;
	}
	return b;
}

static void expect_content(struct bytes *b, struct blob want)
{
	uint8_t *buf = xmalloc(want.len + 1);
	ck_assert_uint_eq(b->size, want.len);
	ck_assert_int_eq(bytes_read(b, 0, buf, want.len), 0);
	ck_assert_int_eq(memcmp(buf, want.p, want.len), 0);
	/* In leaps, so that the cache turns over, and across members. */
	for (size_t i = 0, at = 0; i < 200 && want.len; i++, at = (at * 1103515245 + 12345) % want.len) {
		size_t n = 1 + at % 70000;
		if (n > want.len - at)
			n = want.len - at;
		memset(buf, 0xaa, n);
		ck_assert_int_eq(bytes_read(b, at, buf, n), 0);
		ck_assert_int_eq(memcmp(buf, want.p + at, n), 0);
	}
	ck_assert_int_eq(bytes_read(b, want.len, buf, 1), ERR_FAULT);
	free(buf);
}

/* ---- round trips ---- */

static const uint64_t sizes[] = { 0, 1, 4095, 4096, 61440, 65535, 65536, 65537, 3 * 65536 + 4096, 700000 };

static void round_trip(const struct build_pz *spec)
{
	struct blob f = build_pz(spec), all = gunzip(f, false);
	ck_assert_ptr_nonnull(all.p);
	struct member m[400];
	size_t n = members_of(f, m, 400);
	ck_assert_uint_eq(m[n - 1].size, BGZF_END);
	ck_assert_uint_eq(m[n - 1].at + BGZF_END, f.len);
	ck_assert_uint_eq(m[n - 2].size, PZ_LOCATOR_MEMBER);
	const uint8_t *loc = all.p + all.len - PZ_LOCATOR;
	ck_assert_int_eq(memcmp(loc, "pysnapIX", 8), 0);
	struct blob core = { all.p, (size_t)le(loc + 24, 8) };
	size_t count = (size_t)le(loc + 32, 8);
	ck_assert_uint_eq(m[count].at, le(loc + 16, 8));
	for (size_t i = 0; i < count; i++) {
		ck_assert_uint_eq(le(core.p + core.len + 4 * i, 2), m[i].size - 1);
		ck_assert_uint_eq(le(core.p + core.len + 4 * i + 2, 2), m[i].payload - 1);
		ck_assert_uint_eq(m[i].payload_at % PZ_PAGE, 0);
	}
	struct bytes *b = open_blob(f);
	ck_assert(bgzf_indexed(b) && !bgzf_truncated(b));
	ck_assert_uint_eq(bgzf_format(b), PZ_FORMAT);
	expect_content(b, core);
	ck_assert_uint_eq(bgzf_damaged(b), 0);
	bytes_close(b);

	b = open_blob((struct blob){ f.p, f.len - NO_INDEX });
	ck_assert(!bgzf_indexed(b) && bgzf_truncated(b));
	expect_content(b, (struct blob){ all.p, all.len - PZ_LOCATOR });
	ck_assert_uint_eq(bgzf_damaged(b), 0);
	bytes_close(b);
	free((void *)all.p);
	free((void *)f.p);
}

START_TEST(round_trips)
{
	static const int levels[] = { 0, 1, 6, 9 };
	for (size_t k = 0; k < sizeof levels / sizeof *levels; k++) {
		/* Two loads, so that an odd size meets the padding. */
		struct pz_load load[2] = {
			{ 0x10000, sizes[_i], sizes[_i] + 4096, 1 }, { 0x7f0000000000, sizes[_i], sizes[_i] + 4096, 3 },
		};
		for (enum fill fill = FILL_ZERO; fill <= FILL_MIXED; fill++) {
			struct build_pz spec = {
				.plan = { .loads = load, .n_loads = 2, .level = levels[k], .jobs = (unsigned)k % 4 }, .fill = fill,
				.piece = k == 1 ? 4096 : 0, .zeros = fill == FILL_ZERO ? k % 3 : 0,
			};
			round_trip(&spec);
		}
	}
}
END_TEST

START_TEST(same_bytes_whatever_the_workers)
{
	struct pz_load load = { 0x400000, 3000000, 3000000, 1 };
	struct build_pz spec = { .plan = { .loads = &load, .n_loads = 1, .level = 1, .jobs = 1 }, .fill = FILL_MIXED };
	struct blob one = build_pz(&spec);
	spec.plan.jobs = 5;
	spec.piece = 777;
	struct blob five = build_pz(&spec);
	ck_assert_uint_eq(one.len, five.len);
	ck_assert_int_eq(memcmp(one.p, five.p, one.len), 0);
	free((void *)one.p);
	free((void *)five.p);
}
END_TEST

START_TEST(zeros_are_cheap)
{
	struct pz_load load = { 0x400000, 1 << 30, 1 << 30, 1 };
	struct build_pz spec = { .plan = { .loads = &load, .n_loads = 1, .level = _i }, .zeros = 1 };
	struct blob f = build_pz(&spec);
	ck_assert_uint_lt(f.len, 16400 * 110);
	struct bytes *b = open_blob(f);
	ck_assert_uint_eq(b->size, 4096 + (1 << 30));
	uint8_t buf[16], zero[16] = { 0 };
	ck_assert_int_eq(bytes_read(b, b->size - 16, buf, 16), 0);
	ck_assert_int_eq(memcmp(buf, zero, 16), 0);
	bytes_close(b);
	free((void *)f.p);
}
END_TEST

/* ---- damage ---- */

/* Some 1,200 bytes: head, eight members of memory, index, locator, end. */
static struct blob small(void)
{
	static const struct pz_load load = { 0x400000, 2 * 65536 - 4096, 2 * 65536, 1 };
	struct build_pz spec = { .plan = { .loads = &load, .n_loads = 1, .level = 9, .jobs = 1 }, .fill = FILL_LINES };
	struct blob f = build_pz(&spec);
	ck_assert_uint_lt(f.len, 1500);
	return f;
}

START_TEST(cut_anywhere)
{
	struct blob f = small(), all = gunzip(f, false);
	struct member m[20];
	size_t n = members_of(f, m, 20);
	ck_assert_uint_eq(n, 12);
	uint8_t *buf = xmalloc(all.len);
	for (size_t len = 0; len < f.len; len++) {
		/* A copy of that length: reading behind it shows under ASan. */
		uint8_t *copy = xmalloc(len);
		memcpy(copy, f.p, len);
		struct blob part = gunzip((struct blob){ copy, len }, true);
		struct bytes *b = open_blob((struct blob){ copy, len });
		ck_assert_int_eq(b != NULL, len >= m[0].size);
		if (b) {
			ck_assert(bgzf_truncated(b) && !bgzf_indexed(b));
			ck_assert_uint_eq(b->size, part.len);
			ck_assert_int_eq(bytes_read(b, 0, buf, part.len), 0);
			ck_assert_int_eq(memcmp(buf, all.p, part.len), 0);
			ck_assert_int_eq(bytes_read(b, part.len, buf, 1), ERR_FAULT);
			bytes_close(b);
		}
		free((void *)part.p);
		free(copy);
	}
	free(buf);
	free((void *)all.p);
	free((void *)f.p);
}
END_TEST

/* Reads page by page: what is read must be right; returns how many pages were not there. */
static size_t pages_lost(struct bytes *b, struct blob want)
{
	size_t lost = 0;
	uint8_t buf[PZ_PAGE];
	for (size_t at = 0; at < want.len; at += sizeof buf) {
		size_t n = want.len - at < sizeof buf ? want.len - at : sizeof buf;
		int rc = at + n <= b->size ? bytes_read(b, at, buf, n) : ERR_FAULT;
		if (rc == 0 && memcmp(buf, want.p + at, n) != 0)
			ck_abort_msg("wrong bytes at %zu", at); /* not ck_assert: libcheck writes a record for each that passes */
		lost += rc != 0;
	}
	return lost;
}

static struct { size_t calls; uint64_t start, end; } damage;
static void on_damage(void *arg, uint64_t start, uint64_t end)
{
	(void)arg;
	damage.calls++;
	damage.start = start;
	damage.end = end;
}

static const struct member *member_at(const struct member *m, size_t n, size_t at)
{
	for (size_t i = 0; i < n; i++)
		if (at - m[i].at < m[i].size)
			return &m[i];
	return NULL;
}

/* Each bit of the file: never a wrong byte, and no more lost than the member hit. */
START_TEST(flip_any_bit)
{
	struct blob f = small(), all = gunzip(f, false);
	struct member m[20];
	size_t n = members_of(f, m, 20), lost_total = 0;
	struct blob core = { all.p, m[n - 3].payload_at };
	uint8_t *copy = xmalloc(f.len);
	for (size_t bit = 0; bit < f.len * 8; bit++) {
		memcpy(copy, f.p, f.len);
		copy[bit / 8] ^= (uint8_t)(1 << bit % 8);
		const struct member *hit = member_at(m, n, bit / 8);
		struct bytes *b = open_blob((struct blob){ copy, f.len });
		if (!b) {
			ck_assert_uint_lt(bit / 8, BGZF_HEAD); /* the magic itself */
			continue;
		}
		memset(&damage, 0, sizeof damage);
		bgzf_watch(b, on_damage, NULL);
		size_t lost = pages_lost(b, core);
		if (hit >= &m[n - 3]) { /* index, locator, end */
			ck_assert_uint_eq(lost, 0);
		} else if (lost) {
			ck_assert(bgzf_indexed(b));
			ck_assert_uint_eq(bgzf_damaged(b), 1);
			ck_assert_uint_eq(lost, (hit->payload + PZ_PAGE - 1) / PZ_PAGE);
			ck_assert_uint_eq(damage.calls, 1);
			ck_assert_uint_eq(damage.start, hit->payload_at);
			ck_assert_uint_eq(damage.end, hit->payload_at + hit->payload);
			lost_total++;
		} /* else MTIME, XFL, OS, spare bits, or another match of the same bytes */
		bytes_close(b);
	}
	ck_assert_uint_gt(lost_total, core.len / 1000);
	free(copy);
	free((void *)all.p);
	free((void *)f.p);
}
END_TEST

/* The same without an index: ISIZE of a member must not shift the others. */
START_TEST(flip_any_bit_without_index)
{
	struct blob f = small(), all = gunzip(f, false);
	struct member m[20];
	size_t n = members_of(f, m, 20), len = f.len - NO_INDEX;
	struct blob core = { all.p, m[n - 3].payload_at };
	uint8_t *copy = xmalloc(len);
	for (size_t bit = 0; bit < len * 8; bit++) {
		memcpy(copy, f.p, len);
		copy[bit / 8] ^= (uint8_t)(1 << bit % 8);
		struct bytes *b = open_blob((struct blob){ copy, len });
		if (!b)
			continue;
		const struct member *hit = member_at(m, n, bit / 8);
		size_t lost = pages_lost(b, core), in = bit / 8 - hit->at, pages = (hit->payload + PZ_PAGE - 1) / PZ_PAGE;
		if (hit < &m[n - 3] && in >= BGZF_HEAD && in < hit->size) /* not in its header: just this one */
			ck_assert_msg(lost <= pages, "bit %zu of byte %zu: %zu pages lost", bit % 8, bit / 8, lost);
		if (hit < &m[n - 3] && in >= hit->size - 8)
			ck_assert_uint_eq(lost, pages);
		bytes_close(b);
	}
	free(copy);
	free((void *)all.p);
	free((void *)f.p);
}
END_TEST

/* ---- members exchanged ---- */

/* a and b trade places: every CRC-32 stays right. */
static const struct { size_t a, b; } trades[] = {
	{ 1, 2 }, { 1, 4 }, { 2, 5 }, { 3, 6 }, { 0, 1 }, { 0, 3 }, { 4, 5 }, { 2, 3 }, { 1, 6 }, { 3, 4 },
};

START_TEST(exchanged)
{
	enum { N = 8 };
	static const size_t len[N] = { 4096, 12288, 12288, 4096, 12288, 8192, 20480, 4096 };
	struct sb f = { 0 }, want = { 0 }, index = { 0 }, loc = { 0 };
	size_t at[N + 1];
	for (size_t i = 0; i < N; i++) {
		uint8_t buf[20480];
		fill_at(FILL_RANDOM, i << 20, buf, len[i]);
		at[i] = f.len;
		put_member(&f, buf, len[i], (uint32_t)want.len);
		sb_bytes(&want, buf, len[i]);
		put_le(&index, 4, (f.len - at[i] - 1) | (len[i] - 1) << 16);
	}
	at[N] = f.len;
	put_member(&f, index.s, index.len, (uint32_t)want.len);
	sb_bytes(&loc, "pysnapIX", 8);
	put_le(&loc, 4, PZ_FORMAT);
	put_le(&loc, 4, crc32(0, (const Bytef *)index.s, (uInt)index.len));
	put_le(&loc, 8, at[N]);
	put_le(&loc, 8, want.len);
	put_le(&loc, 8, N);
	put_le(&loc, 8, 0);
	put_member(&f, loc.s, loc.len, (uint32_t)(want.len + index.len));
	put_end(&f);

	size_t a = trades[_i / 3].a, b = trades[_i / 3].b;
	struct sb x = { 0 };
	sb_bytes(&x, f.s, at[a]);
	sb_bytes(&x, f.s + at[b], at[b + 1] - at[b]);
	sb_bytes(&x, f.s + at[a + 1], at[b] - at[a + 1]);
	sb_bytes(&x, f.s + at[a], at[a + 1] - at[a]);
	sb_bytes(&x, f.s + at[b + 1], f.len - at[b + 1]);
	/* 0: with the index, 1: cut before the locator, 2: cut before the index */
	size_t size = _i % 3 == 0 ? x.len : _i % 3 == 1 ? x.len - NO_INDEX : at[N];
	struct bytes *z = open_blob((struct blob){ (uint8_t *)x.s, size });
	ck_assert_ptr_nonnull(z);
	ck_assert_int_eq(bgzf_indexed(z), _i % 3 == 0);
	size_t lost = pages_lost(z, (struct blob){ (uint8_t *)want.s, want.len });
	ck_assert_msg(lost == (len[a] + len[b]) / PZ_PAGE, "%zu and %zu: %zu pages lost, want %zu", a, b, lost, (len[a] + len[b]) / PZ_PAGE);
	ck_assert_uint_eq(bgzf_damaged(z), 2);
	bytes_close(z);
	sb_free(&x);
	sb_free(&f);
	sb_free(&want);
	sb_free(&index);
	sb_free(&loc);
}
END_TEST

/* ---- an index that lies ---- */

struct lie {
	const char *what;
	enum { AS_IS, EXCHANGED, PAYLOAD_EXCHANGED, SHIFTED } entries; /* the sums stay right */
	uint32_t first;            /* the first entry, if not 0 */
	int64_t count, index_at, core, format; /* added to the truth */
	bool wrong_crc;
	bool indexed;              /* what the reader should say at the end */
};

static const struct lie lies[] = {
	{ "nothing", .indexed = true },
	{ "sizes exchanged", .entries = EXCHANGED, .indexed = true },
	{ "payload exchanged", .entries = PAYLOAD_EXCHANGED, .indexed = true },
	{ "payload of first and third exchanged: the second is whole, but elsewhere", .entries = SHIFTED, .indexed = true },
	{ "a member too small", .first = 3 },
	{ "sums too large", .first = 0xffffffff },
	{ "a count past the file", .count = INT64_MAX - 10 },
	{ "a count of a million", .count = 1000000 },
	{ "one too many", .count = 1 },
	{ "one too few", .count = -1 },
	{ "the index behind itself", .index_at = 100000 },
	{ "the index beside itself", .index_at = 1 },
	{ "the index before all", .index_at = -100 },
	{ "a larger core", .core = 1 << 20 },
	{ "a smaller core", .core = -4096 },
	{ "a wrong sum", .wrong_crc = true },
	{ "a later format", .format = 1 },
};

START_TEST(lying_index)
{
	const struct lie *lie = &lies[_i];
	enum { N = 4 };
	static const size_t len[N] = { 10000, 20000, 11000, 5000 };
	struct sb f = { 0 }, want = { 0 }, index = { 0 };
	uint32_t entry[N + 1];
	for (size_t i = 0; i < N; i++) {
		uint8_t buf[20000];
		fill_at(FILL_RANDOM, i * 65536, buf, len[i]);
		size_t at = f.len;
		put_member(&f, buf, len[i], (uint32_t)want.len);
		sb_bytes(&want, buf, len[i]);
		entry[i] = (uint32_t)(f.len - at - 1) | (uint32_t)(len[i] - 1) << 16;
	}
	size_t index_at = f.len;
	entry[N] = entry[0];
	uint32_t a = entry[0], b0 = entry[1];
	if (lie->entries == EXCHANGED) {
		entry[0] = b0;
		entry[1] = a;
	} else if (lie->entries == PAYLOAD_EXCHANGED) {
		entry[0] = (a & 0xffff) | (b0 & 0xffff0000);
		entry[1] = (b0 & 0xffff) | (a & 0xffff0000);
	} else if (lie->entries == SHIFTED) {
		entry[0] = (a & 0xffff) | (entry[2] & 0xffff0000);
		entry[2] = (entry[2] & 0xffff) | (a & 0xffff0000);
	}
	if (lie->first)
		entry[0] = lie->first;
	for (size_t i = 0; i < N + (lie->count == 1); i++)
		put_le(&index, 4, entry[i]);
	put_member(&f, index.s, index.len, (uint32_t)want.len);
	struct sb loc = { 0 };
	sb_bytes(&loc, "pysnapIX", 8);
	put_le(&loc, 4, (uint64_t)(PZ_FORMAT + lie->format));
	put_le(&loc, 4, crc32(0, (const Bytef *)index.s, (uInt)index.len) + lie->wrong_crc);
	put_le(&loc, 8, index_at + (uint64_t)lie->index_at);
	put_le(&loc, 8, want.len + (uint64_t)lie->core);
	put_le(&loc, 8, (uint64_t)N + (uint64_t)lie->count);
	put_le(&loc, 8, 0x1122334455667788); /* not looked at */
	put_member(&f, loc.s, loc.len, (uint32_t)(want.len + index.len));
	put_end(&f);

	struct bytes *b = open_blob((struct blob){ (uint8_t *)f.s, f.len });
	ck_assert_ptr_nonnull(b);
	ck_assert_msg(bgzf_indexed(b) == lie->indexed, "%s", lie->what);
	ck_assert_uint_eq(bgzf_format(b), (uint64_t)(PZ_FORMAT + lie->format));
	ck_assert(!bgzf_truncated(b));
	ck_assert_uint_ge(b->size, want.len);
	char middle[100];
	ck_assert_int_eq(bytes_read(b, 20000, middle, sizeof middle), 0);
	ck_assert_msg(memcmp(middle, want.s + 20000, sizeof middle) == 0, "%s", lie->what);
	ck_assert_msg(pages_lost(b, (struct blob){ (uint8_t *)want.s, want.len }) == 0, "%s", lie->what);
	ck_assert_uint_eq(bgzf_damaged(b), 0);
	bytes_close(b);
	sb_free(&f);
	sb_free(&want);
	sb_free(&index);
	sb_free(&loc);
}
END_TEST

/* Files of other writers have no places in MTIME, and members of any size. */
START_TEST(foreign_members)
{
	struct sb f = { 0 }, want = { 0 };
	for (size_t i = 1; i < 200; i++) {
		uint8_t buf[2000];
		fill_at(FILL_TEXT, i * 4096, buf, i * 7);
		put_member(&f, buf, i * 7, 0);
		sb_bytes(&want, buf, i * 7);
	}
	put_end(&f);
	sb_bytes(&f, "rest", 4); /* not ours */
	struct bytes *b = open_blob((struct blob){ (uint8_t *)f.s, f.len });
	ck_assert(!bgzf_indexed(b) && !bgzf_truncated(b) && bgzf_format(b) == 0);
	expect_content(b, (struct blob){ (uint8_t *)want.s, want.len });
	bytes_close(b);
	sb_free(&f);
	sb_free(&want);
}
END_TEST

/* A member that claims more, or less, than it unpacks to; longer streams; junk behind the stream. */
START_TEST(sizes_that_lie)
{
	uint8_t data[5000];
	fill_at(FILL_RANDOM, 0, data, sizeof data);
	static const int32_t wrong[] = { 1, -1, 65536, -5000, 0x7fff0000 };
	struct sb f = { 0 };
	put_member(&f, data, sizeof data, 0);
	size_t second = f.len;
	put_member(&f, data, sizeof data, sizeof data);
	size_t third = f.len;
	put_member(&f, data, sizeof data, 2 * sizeof data);
	put_end(&f);
	uint32_t isize = (uint32_t)sizeof data + (uint32_t)wrong[_i];
	for (size_t i = 0; i < 4; i++)
		f.s[third - 4 + i] = (char)(isize >> 8 * i);
	struct bytes *b = open_blob((struct blob){ (uint8_t *)f.s, f.len });
	uint8_t buf[5000];
	ck_assert_uint_eq(b->size, 15000);
	ck_assert_int_eq(bytes_read(b, 0, buf, 5000), 0);
	ck_assert_int_eq(bytes_read(b, 5000, buf, 1), ERR_CORRUPT);
	ck_assert_int_eq(bytes_read(b, 4999, buf, 2), ERR_CORRUPT);
	ck_assert_int_eq(bytes_read(b, 10000, buf, 5000), 0);
	ck_assert_int_eq(memcmp(buf, data, 5000), 0);
	bytes_close(b);
	(void)second;
	sb_free(&f);
}
END_TEST

/* ---- input and output that fail ---- */

struct failing { struct bytes b; struct blob f; int64_t reads; };
static int failing_read(struct bytes *b, uint64_t off, void *buf, size_t len)
{
	struct failing *x = (struct failing *)b;
	if (x->reads-- <= 0)
		return ERR_IO;
	memcpy(buf, x->f.p + off, len);
	return 0;
}
static void failing_close(struct bytes *b) { (void)b; }

START_TEST(unreadable_file)
{
	struct blob f = small(), all = gunzip(f, false);
	for (int64_t reads = 0; reads < 30; reads++)
		for (size_t cut = 0; cut <= NO_INDEX; cut += NO_INDEX) {
			struct failing x = { { f.len - cut, failing_read, NULL, failing_close, "x" }, f, reads };
			struct bytes *b;
			struct err err;
			int rc = bgzf_open(&x.b, &b, &err);
			if (rc < 0) {
				ck_assert_int_eq(rc, reads ? ERR_IO : ERR_UNSUPPORTED);
				continue;
			}
			uint8_t buf[10];
			x.reads = 0;
			ck_assert_int_eq(bytes_read(b, 70000, buf, 10), ERR_IO);
			ck_assert_uint_eq(bgzf_damaged(b), 0);
			x.reads = 1; /* and it may come back */
			ck_assert_int_eq(bytes_read(b, 70000, buf, 10), 0);
			ck_assert_int_eq(memcmp(buf, all.p + 70000, 10), 0);
			bytes_close(b);
		}
	free((void *)all.p);
	free((void *)f.p);
}
END_TEST

START_TEST(not_bgzf)
{
	static const struct { const char *p; size_t len; } no[] = {
		{ "", 0 }, { "\x1f\x8b", 2 }, { "\x1f\x8b\x08\x04\0\0\0\0\0\xff\6\0BC\2\0\x1b", 17 },
		{ "\x1f\x8b\x08\0\0\0\0\0\0\3\3\0\0\0\0\0\0\0\0\0", 20 }, { "\177ELF\2\1\1\0\0\0\0\0\0\0\0\0\4\0\76\0", 20 },
		{ "\x1f\x8b\x08\x04\0\0\0\0\0\xff\6\0BC\2\0\x05\0\3\0\0\0\0\0\0\0\0\0", 28 },
	};
	struct bytes *packed = bytes_from_memory(no[_i].p, no[_i].len, "x"), *b;
	struct err err;
	ck_assert(!bgzf_probe(packed));
	ck_assert_int_eq(bgzf_open(packed, &b, &err), ERR_UNSUPPORTED);
	ck_assert_str_eq(err.msg, "x does not start with a BGZF member");
	bytes_close(packed);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("bgzf");
	TCase *t = tcase_create("container");
	tcase_set_timeout(t, 120);
	tcase_add_loop_test(t, round_trips, 0, COUNT(sizes));
	tcase_add_test(t, same_bytes_whatever_the_workers);
	tcase_add_loop_test(t, zeros_are_cheap, 0, 2);
	tcase_add_test(t, cut_anywhere);
	tcase_add_test(t, flip_any_bit);
	tcase_add_test(t, flip_any_bit_without_index);
	tcase_add_loop_test(t, exchanged, 0, 3 * (int)COUNT(trades));
	tcase_add_loop_test(t, lying_index, 0, COUNT(lies));
	tcase_add_test(t, foreign_members);
	tcase_add_loop_test(t, sizes_that_lie, 0, 5);
	tcase_add_test(t, unreadable_file);
	tcase_add_loop_test(t, not_bgzf, 0, 6);
	suite_add_tcase(s, t);
	return suite_run(s);
}
