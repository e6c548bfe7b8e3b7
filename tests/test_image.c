/* src/image/image and bytes: who covers whom, reads within and across segments, the page cache, files that change. */
#include "image/image.h"
#include "suite.h"

#include <check.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const struct abi le64 = { 62, 8, false }, be64 = { 21, 8, true }, le32 = { 3, 4, false }, be32 = { 40, 4, true };

/* A segment whose byte at offset o is tag + o * step; reads that touch [bad, bad_end) fail, and reads are counted. */
struct source {
	uint8_t tag, step;
	uint64_t size, bad, bad_end;
	unsigned reads;
	uint64_t asked; /* bytes */
};

static int source_read(void *ctx, uint64_t offset, void *buf, size_t len)
{
	struct source *s = ctx;
	if (offset > s->size || len > s->size - offset || len == 0) /* ck_assert itself costs a system call each */
		ck_abort_msg("read of %zu at %llu of %llu", len, (unsigned long long)offset, (unsigned long long)s->size);
	s->reads++;
	s->asked += len;
	if (offset < s->bad_end && offset + len > s->bad)
		return ERR_IO;
	for (size_t i = 0; i < len; i++)
		((uint8_t *)buf)[i] = (uint8_t)(s->tag + (offset + i) * s->step);
	return 0;
}

static bool all_are(const uint8_t *p, size_t len, uint8_t v)
{
	for (size_t i = 0; i < len; i++)
		if (p[i] != v)
			return false;
	return true;
}

static struct source *add(struct image *img, addr_t start, uint64_t size, uint8_t tag, uint8_t step, enum lay where)
{
	struct source *s = arena_alloc(image_arena(img), sizeof *s);
	*s = (struct source){ .tag = tag, .step = step, .size = size };
	struct segment seg = { .start = start, .size = size, .prot = 3, .read = source_read, .ctx = s };
	if (image_add_segment(img, &seg, where) < 0)
		ck_abort_msg("segment at 0x%llx", (unsigned long long)start);
	return s;
}

/* --- who covers whom --- */

struct laid {
	unsigned start, size;
	char tag;
	enum lay where;
};
#define OVER LAY_OVER
#define UNDER LAY_BENEATH
/* Segments as added, and what each address from 0 on reads as; "." is a hole. */
static const struct { struct laid add[5]; const char *seen; size_t n; } covers[] = {
	{ { { 0, 4, 'a', OVER } }, "aaaa....", 1 },
	{ { { 2, 2, 'a', OVER }, { 4, 2, 'b', OVER } }, "..aabb..", 2 },
	{ { { 4, 2, 'a', OVER }, { 0, 2, 'b', OVER } }, "bb..aa..", 2 },
	{ { { 0, 6, 'a', OVER }, { 2, 2, 'b', OVER } }, "aabbaa..", 3 },
	{ { { 2, 2, 'b', OVER }, { 0, 6, 'a', OVER } }, "aaaaaa..", 1 },
	{ { { 0, 4, 'a', OVER }, { 2, 4, 'b', OVER } }, "aabbbb..", 2 },
	{ { { 2, 4, 'a', OVER }, { 0, 4, 'b', OVER } }, "bbbbaa..", 2 },
	{ { { 0, 4, 'a', OVER }, { 0, 4, 'b', OVER } }, "bbbb....", 1 },
	{ { { 2, 2, 'a', OVER }, { 0, 8, 'b', UNDER } }, "bbaabbbb", 3 },
	{ { { 0, 8, 'b', UNDER }, { 2, 2, 'a', OVER } }, "bbaabbbb", 3 },
	{ { { 0, 4, 'a', UNDER }, { 2, 4, 'b', UNDER } }, "aaaabb..", 2 }, /* the first one filled the hole */
	{ { { 0, 8, 'a', UNDER }, { 0, 8, 'b', UNDER }, { 3, 1, 'c', OVER } }, "aaacaaaa", 3 },
	{ { { 0, 8, 'a', OVER }, { 1, 6, 'b', OVER }, { 2, 4, 'c', OVER }, { 3, 2, 'd', OVER } }, "abcddcba", 7 },
	{ { { 3, 2, 'd', OVER }, { 2, 4, 'c', UNDER }, { 1, 6, 'b', UNDER }, { 0, 8, 'a', UNDER } }, "abcddcba", 7 },
	{ { { 1, 2, 'a', OVER }, { 5, 2, 'b', OVER }, { 0, 8, 'c', UNDER }, { 2, 4, 'd', OVER } }, "caddddbc", 5 },
	{ { { 3, 0, 'a', OVER } }, "........", 0 },
};

START_TEST(later_covers_and_beneath_fills)
{
	for (unsigned settle = 0; settle < 2; settle++) { /* it must not matter whether somebody looks in between */
		struct image *img = image_new(le64);
		for (size_t i = 0; i < COUNT(covers[_i].add) && covers[_i].add[i].tag; i++) {
			const struct laid *l = &covers[_i].add[i];
			add(img, l->start, l->size, (uint8_t)l->tag, 0, l->where);
			uint8_t dummy[8];
			if (settle)
				(void)image_read_some(img, 0, dummy, sizeof dummy);
		}
		char seen[9] = "........";
		for (unsigned a = 0; a < 8; a++)
			(void)!image_read(img, a, &seen[a], 1);
		ck_assert_str_eq(seen, covers[_i].seen);
		const struct segment *s;
		ck_assert_uint_eq(image_segments(img, &s), covers[_i].n);
		for (size_t i = 1; i < covers[_i].n; i++)
			ck_assert_uint_le(s[i - 1].start + s[i - 1].size, s[i].start);
		for (unsigned a = 0; a < 8; a++)
			ck_assert_int_eq(image_segment_at(img, a) != NULL, covers[_i].seen[a] != '.');
		image_close(img);
	}
}
END_TEST

/* Random segments, looked at now and then, against a plain array of bytes. */
START_TEST(a_plain_array_agrees)
{
	enum { SPACE = 100000, ROUNDS = 60 };
	uint64_t seed = 88172645463325252u + (uint64_t)_i;
	struct image *img = image_new(le64);
	uint8_t *want = xcalloc(SPACE, 1), *has = xcalloc(SPACE, 1), *buf = xmalloc(SPACE);
	const addr_t base = 0x7fff12345000;
	for (unsigned round = 0; round < ROUNDS; round++) {
		uint64_t r[6];
		for (size_t i = 0; i < 6; i++)
			r[i] = draw(&seed) >> 11;
		size_t start = r[0] % SPACE, size = 1 + r[1] % (r[2] % 3 ? 300 : 40000);
		size = size < SPACE - start ? size : SPACE - start;
		enum lay where = r[2] % 2 ? LAY_OVER : LAY_BENEATH;
		uint8_t tag = (uint8_t)r[3], step = (uint8_t)(r[3] >> 8);
		add(img, base + start, size, tag, step, where);
		for (size_t i = 0; i < size; i++)
			if (where == LAY_OVER || !has[start + i]) {
				want[start + i] = (uint8_t)(tag + i * step);
				has[start + i] = 1;
			}
		for (unsigned k = 0; k < 40; k++) {
			for (size_t i = 4; i < 6; i++)
				r[i] = draw(&seed) >> 11;
			size_t at = r[4] % SPACE, len = 1 + r[5] % (k % 4 ? 64 : SPACE);
			size_t there = 0;
			while (there < len && at + there < SPACE && has[at + there])
				there++;
			memset(buf, 0xee, len < SPACE ? len : SPACE);
			len = len < SPACE ? len : SPACE;
			int rc = image_read(img, base + at, buf, len);
			ck_assert_int_eq(rc, there >= len ? 0 : ERR_FAULT);
			if (rc == 0)
				ck_assert_mem_eq(buf, want + at, len);
			else
				ck_assert(all_are(buf, len, 0xee)); /* untouched */
			size_t n = image_read_some(img, base + at, buf, len);
			ck_assert_uint_eq(n, there < len ? there : len);
			ck_assert_mem_eq(buf, want + at, n);
			uint64_t skip = image_skip(img, base + at);
			ck_assert_int_eq(skip == 0, has[at]);
			ck_assert(all_are(has + at, skip < SPACE - at ? skip : SPACE - at, 0));
		}
	}
	free(want);
	free(has);
	free(buf);
	image_close(img);
}
END_TEST

START_TEST(many_segments_in_any_order)
{
	enum { N = 100000 };
	struct image *img = image_new(le64);
	for (unsigned i = 0; i < N; i++) { /* 7919 is prime to N: every place once, in a scattered order */
		unsigned k = (unsigned)((uint64_t)i * 7919 % N);
		add(img, 0x1000 * (addr_t)k, 0x1000, (uint8_t)(k % 251), 0, LAY_OVER);
	}
	const struct segment *s;
	ck_assert_uint_eq(image_segments(img, &s), N);
	for (unsigned k = 0; k < N; k += 37) {
		uint8_t v;
		ck_assert_int_eq(image_read(img, 0x1000 * (addr_t)k + 5, &v, 1), 0);
		ck_assert_uint_eq(v, k % 251);
	}
	uint8_t *all = xmalloc(N * (size_t)4096);
	ck_assert_int_eq(image_read(img, 0, all, N * (size_t)4096), 0); /* all of them touch */
	ck_assert_uint_eq(all[4096 * 250], 250);
	free(all);
	image_close(img);
}
END_TEST

/* --- reads --- */

START_TEST(edges_of_the_address_space)
{
	struct image *img = image_new(le64);
	add(img, UINT64_MAX - 16, 16, 'z', 0, LAY_OVER);
	struct segment wraps = { .start = UINT64_MAX - 3, .size = 5, .read = source_read };
	ck_assert_int_eq(image_add_segment(img, &wraps, LAY_OVER), ERR_CORRUPT);
	uint8_t buf[64];
	ck_assert_int_eq(image_read(img, UINT64_MAX - 16, buf, 16), 0);
	ck_assert_int_eq(image_read(img, UINT64_MAX - 16, buf, 17), ERR_FAULT);
	ck_assert_int_eq(image_read(img, UINT64_MAX - 4, buf, 64), ERR_FAULT);
	ck_assert_uint_eq(image_read_some(img, UINT64_MAX - 10, buf, 64), 10);
	ck_assert_int_eq(image_read_cstr(img, UINT64_MAX - 4, (char *)buf, 32), ERR_FAULT);
	ck_assert_int_eq(image_read(img, UINT64_MAX, buf, 1), ERR_FAULT);
	ck_assert_uint_gt(image_skip(img, UINT64_MAX), 0);
	ck_assert_uint_eq(image_skip(img, 0), UINT64_MAX - 16);
	ck_assert_int_eq(image_read(img, 5, buf, 0), 0);
	image_close(img);
	img = image_new(le32);
	struct segment past = { .start = 0xfffff000, .size = 0x1001, .read = source_read };
	ck_assert_int_eq(image_add_segment(img, &past, LAY_OVER), ERR_CORRUPT);
	add(img, 0xfffff000, 0x1000, 'q', 0, LAY_OVER);
	ck_assert_int_eq(image_read(img, 0xffffffff, buf, 1), 0);
	ck_assert_int_eq(image_read(img, 0xffffffff, buf, 2), ERR_FAULT);
	image_close(img);
}
END_TEST

START_TEST(numbers_have_the_images_order_and_width)
{
	static const struct { const struct abi *abi; size_t width; uint64_t v; } rows[] = {
		{ &le64, 1, 0x01 }, { &le64, 2, 0x0201 }, { &le64, 3, 0x030201 }, { &le64, 4, 0x04030201 }, { &le64, 8, 0x0807060504030201 },
		{ &be64, 1, 0x01 }, { &be64, 2, 0x0102 }, { &be64, 3, 0x010203 }, { &be64, 4, 0x01020304 }, { &be64, 8, 0x0102030405060708 },
		{ &le32, 4, 0x04030201 }, { &be32, 4, 0x01020304 }, { &be32, 8, 0x0102030405060708 },
	};
	for (size_t i = 0; i < COUNT(rows); i++) {
		struct image *img = image_new(*rows[i].abi);
		add(img, 0x1000, 16, 1, 1, LAY_OVER);
		uint64_t v = 0;
		ck_assert_int_eq(image_read_uint(img, 0x1000, rows[i].width, &v), 0);
		ck_assert_uint_eq(v, rows[i].v);
		if (rows[i].width == rows[i].abi->width) {
			v = 0;
			ck_assert_int_eq(image_read_ptr(img, 0x1000, &v), 0);
			ck_assert_uint_eq(v, rows[i].v);
		}
		v = 42;
		ck_assert_int_eq(image_read_uint(img, 0x100d, 4, &v), ERR_FAULT);
		ck_assert_int_eq(image_read_uint(img, 0x1000, 9, &v), ERR_CORRUPT);
		ck_assert_int_eq(image_read_uint(img, 0x1000, 0, &v), ERR_CORRUPT);
		ck_assert_uint_eq(v, 42);
		image_close(img);
	}
}
END_TEST

START_TEST(strings)
{
	static const char text[] = "first\0second, which crosses";
	struct image *img = image_new(le64);
	/* tag and step give no NULs where none are wanted, so memory is laid byte by byte */
	for (size_t i = 0; i < sizeof text - 1; i++)
		add(img, 0x4000 - 8 + i, 1, (uint8_t)text[i], 0, LAY_OVER);
	char buf[64];
	memset(buf, 'x', sizeof buf);
	ck_assert_int_eq(image_read_cstr(img, 0x4000 - 8, buf, 63), 5);
	ck_assert_str_eq(buf, "first");
	ck_assert_int_eq(image_read_cstr(img, 0x4000 - 8, buf, 5), 5); /* exactly max */
	ck_assert_int_eq(image_read_cstr(img, 0x4000 - 8, buf, 4), ERR_LIMIT);
	ck_assert_str_eq(buf, "firs");
	ck_assert_int_eq(image_read_cstr(img, 0x4000 - 8, buf, 0), ERR_LIMIT);
	ck_assert_str_eq(buf, "");
	ck_assert_int_eq(image_read_cstr(img, 0x4000 - 3, buf, 10), 0); /* the NUL itself */
	ck_assert_int_eq(image_read_cstr(img, 0x4000 - 2, buf, 63), ERR_FAULT); /* runs out of memory before a NUL */
	ck_assert_int_eq(image_read_cstr(img, 0x4000 - 2, buf, 10), ERR_LIMIT);
	ck_assert_str_eq(buf, "second, wh");
	ck_assert_int_eq(image_read_cstr(img, 0x9000, buf, 10), ERR_FAULT);
	image_close(img);
	img = image_new(le64);
	add(img, 0x1000, 50000, 'a', 0, LAY_OVER);
	add(img, 0x1000 + 50000, 1, 0, 0, LAY_OVER);
	char *longer = xmalloc(60001);
	ck_assert_int_eq(image_read_cstr(img, 0x1000, longer, 60000), 50000);
	ck_assert_uint_eq(strlen(longer), 50000);
	free(longer);
	image_close(img);
}
END_TEST

START_TEST(small_reads_come_from_the_cache)
{
	struct image *img = image_new(le64);
	struct source *s = add(img, 0x10000, 0x40000, 0, 1, LAY_OVER);
	uint64_t v;
	for (unsigned i = 0; i < 2000; i++)
		ck_assert_int_eq(image_read_uint(img, 0x10000 + i * 8, 8, &v), 0);
	ck_assert_uint_eq(s->reads, 1);
	/* Two islands in one block do not drive each other out. */
	struct source *a = add(img, 0x100000, 0x1000, 0, 1, LAY_OVER), *b = add(img, 0x102000, 0x1000, 0, 1, LAY_OVER);
	for (unsigned i = 0; i < 100; i++) {
		ck_assert_int_eq(image_read_uint(img, 0x100000 + i, 8, &v), 0);
		ck_assert_int_eq(image_read_uint(img, 0x102000 + i, 8, &v), 0);
	}
	ck_assert_uint_eq(a->reads, 1);
	ck_assert_uint_eq(b->reads, 1);
	/* A block in use stays while others pass through its set. */
	struct source *hot = add(img, 0x1000000, 0x4000, 0, 1, LAY_OVER);
	add(img, 0x2000000, 0x2000000, 0, 1, LAY_OVER);
	for (unsigned i = 0; i < 2000; i++) {
		ck_assert_int_eq(image_read_uint(img, 0x1000000 + i, 8, &v), 0);
		ck_assert_int_eq(image_read_uint(img, 0x2000000 + i * 0x4000, 8, &v), 0);
	}
	ck_assert_uint_eq(hot->reads, 1);
	/* What is laid over counts at once; what ran since is read anew. */
	add(img, 0x10000, 8, 9, 0, LAY_OVER);
	ck_assert_int_eq(image_read_uint(img, 0x10000, 8, &v), 0);
	ck_assert_uint_eq(v, 0x0909090909090909);
	b->tag = 0x55;
	b->step = 0;
	ck_assert_int_eq(image_read_uint(img, 0x102000, 1, &v), 0);
	image_forget(img);
	ck_assert_int_eq(image_read_uint(img, 0x102000, 1, &v), 0);
	ck_assert_uint_eq(v, 0x55);
	image_close(img);
}
END_TEST

START_TEST(damage_costs_only_its_own_pages)
{
	enum { SIZE = 3 << 20, BAD = 0x181000, BAD_END = 0x182000 };
	struct image *img = image_new(le64);
	struct source *s = add(img, 0x100000, SIZE, 0, 3, LAY_OVER);
	s->bad = BAD;
	s->bad_end = BAD_END;
	uint8_t *buf = xmalloc(SIZE);
	uint64_t v;
	ck_assert_int_eq(image_read_uint(img, 0x100000 + BAD - 8, 8, &v), 0);
	ck_assert_int_eq(image_read_uint(img, 0x100000 + BAD - 7, 8, &v), ERR_FAULT);
	ck_assert_int_eq(image_read_uint(img, 0x100000 + BAD_END - 1, 1, &v), ERR_FAULT);
	ck_assert_int_eq(image_read_uint(img, 0x100000 + BAD_END, 8, &v), 0);
	ck_assert_uint_eq(image_read_some(img, 0x100000, buf, SIZE), BAD);
	size_t right = 0;
	while (right < BAD && buf[right] == (uint8_t)(right * 3))
		right++;
	ck_assert_uint_eq(right, BAD);
	ck_assert_int_eq(image_read(img, 0x100000, buf, SIZE), ERR_FAULT);
	ck_assert_uint_eq(image_read_some(img, 0x100000 + BAD_END, buf, SIZE), SIZE - BAD_END);
	ck_assert_uint_lt(s->asked, 6 * SIZE); /* the big reads that fail are not tried again at each block */
	free(buf);
	image_close(img);
}
END_TEST

/* --- parts --- */

START_TEST(mappings_are_sorted_and_apart)
{
	static const struct { addr_t start, end; } given[] = {
		{ 0x5000, 0x6000 }, { 0x1000, 0x3000 }, { 0x2000, 0x4000 }, { 0x9000, 0x8000 }, { 0x3000, 0x5000 }, { 0x7000, 0x7000 },
	};
	struct image *img = image_new(le64);
	for (size_t i = 0; i < COUNT(given); i++) {
		struct mapping *m = image_add_mapping(img);
		m->start = given[i].start;
		m->end = given[i].end;
	}
	image_add_lost(img, 0x5000, 0x6000);
	image_add_lost(img, 0x1000, 0x2000);
	image_add_lost(img, 0x2000, 0x2800);
	image_add_lost(img, 0x4000, 0x4000);
	image_settle(img);
	const struct mapping *m;
	ck_assert_uint_eq(image_mappings(img, &m), 3);
	ck_assert_uint_eq(m[0].start, 0x1000);
	ck_assert_uint_eq(m[1].start, 0x3000);
	ck_assert_uint_eq(m[2].start, 0x5000);
	static const struct { addr_t at; int which; } found[] = {
		{ 0xfff, -1 }, { 0x1000, 0 }, { 0x2fff, 0 }, { 0x3000, 1 }, { 0x5fff, 2 }, { 0x6000, -1 }, { UINT64_MAX, -1 },
	};
	for (size_t i = 0; i < COUNT(found); i++)
		ck_assert_ptr_eq(image_mapping_at(img, found[i].at), found[i].which < 0 ? NULL : &m[found[i].which]);
	const struct image_facts *f = image_facts(img);
	ck_assert_uint_eq(f->n_lost, 2);
	ck_assert_uint_eq(f->lost[0].start, 0x1000);
	ck_assert_uint_eq(f->lost[0].end, 0x2800);
	ck_assert_uint_eq(f->lost[1].end, 0x6000);
	static const struct { addr_t start; uint64_t len; bool lost; } asked[] = {
		{ 0xfff, 1, false }, { 0xfff, 2, true }, { 0x1000, 1, true }, { 0x27ff, 1, true }, { 0x2800, 0x2800, false }, { 0x2800, 0x2801, true },
		{ 0x5fff, 1, true }, { 0x6000, 100, false }, { 0, UINT64_MAX, true }, { UINT64_MAX, 1, false },
	};
	for (size_t i = 0; i < COUNT(asked); i++)
		ck_assert_msg(image_is_lost(img, asked[i].start, asked[i].len) == asked[i].lost, "%zu", i);
	/* What reads find goes to its place, and becomes one with what it meets: [1000, 3000) [4000, 4800) [5000, 7000) [9000, 9800). */
	image_found_lost(img, (const struct lost[]){ { 0x2800, 0x3000 }, { 0x4000, 0x4800 }, { 0x5800, 0x7000 }, { 0x9000, 0x9800 } }, 4);
	image_found_lost(img, NULL, 0);
	image_found_lost(img, (const struct lost[]){ { 0, 0x800 } }, 1);
	static const struct lost then[] = { { 0, 0x800 }, { 0x1000, 0x3000 }, { 0x4000, 0x4800 }, { 0x5000, 0x7000 }, { 0x9000, 0x9800 } };
	ck_assert_uint_eq(f->n_lost, COUNT(then));
	ck_assert_int_eq(memcmp(f->lost, then, sizeof then), 0);
	ck_assert_int_eq(f->pid, -1);
	ck_assert_int_eq(f->stopped_ns, -1);
	image_close(img);
}
END_TEST

static char closed[8];

static void note_close(void *p)
{
	strcat(closed, p);
}

START_TEST(what_it_owns_is_closed_last_first)
{
	struct image *img = image_new(le64);
	static char a[] = "a", b[] = "b", c[] = "c";
	image_own(img, a, note_close);
	image_own(img, b, note_close);
	image_own(img, c, note_close);
	closed[0] = '\0';
	image_close(img);
	ck_assert_str_eq(closed, "cba");
	image_close(NULL);
	bytes_close(NULL);
}
END_TEST

START_TEST(auxiliary_vector)
{
	static const uint8_t v32be[] = { 0, 0, 0, 3, 0, 0, 0x80, 0x34, 0, 0, 0, 6, 0, 0, 0x10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9, 1, 1, 1, 1 };
	struct image *img = image_new(be32);
	uint64_t v = 42;
	ck_assert_int_eq(image_auxv(img, 3, &v), ERR_ABSENT);
	image_facts_mut(img)->auxv = (struct blob){ v32be, sizeof v32be };
	ck_assert_int_eq(image_auxv(img, 9, &v), ERR_ABSENT); /* after AT_NULL */
	ck_assert_uint_eq(v, 42);
	ck_assert_int_eq(image_auxv(img, 3, &v), 0);
	ck_assert_uint_eq(v, 0x8034);
	ck_assert_int_eq(image_auxv(img, 6, &v), 0);
	ck_assert_uint_eq(v, 4096);
	image_close(img);
}
END_TEST

/* --- files --- */

static char dir[] = "/tmp/test_image.XXXXXX";

static char *in_dir(const char *name)
{
	static char path[4096];
	snprintf(path, sizeof path, "%s/%s", dir, name);
	return path;
}

static void write_file(const char *name, const void *p, size_t len)
{
	int fd = open(in_dir(name), O_WRONLY | O_CREAT | O_TRUNC, 0600);
	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(write(fd, p, len), (ssize_t)len);
	close(fd);
}

static void make_dir(void)
{
	strcpy(dir, "/tmp/test_image.XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(dir));
}

static void remove_dir(void)
{
	static const char *const names[] = { "f", "fifo", "dir" };
	for (size_t i = 0; i < COUNT(names); i++)
		remove(in_dir(names[i]));
	rmdir(dir);
}

START_TEST(files_are_read_within_their_size)
{
	write_file("f", "0123456789", 10);
	struct bytes *b;
	char buf[16] = "";
	ck_assert_int_eq(bytes_open(in_dir("f"), &b, NULL), 0);
	ck_assert_uint_eq(b->size, 10);
	ck_assert_str_eq(b->name, in_dir("f"));
	ck_assert_int_eq(bytes_read(b, 2, buf, 3), 0);
	ck_assert_mem_eq(buf, "234", 4);
	ck_assert_int_eq(bytes_read(b, 10, buf, 0), 0);
	ck_assert_int_eq(bytes_read(b, 10, buf, 1), ERR_FAULT);
	ck_assert_int_eq(bytes_read(b, 11, buf, 0), ERR_FAULT);
	ck_assert_int_eq(bytes_read(b, UINT64_MAX, buf, 2), ERR_FAULT);
	ck_assert_int_eq(truncate(in_dir("f"), 4), 0); /* it shrinks while it is open: an error, no signal */
	ck_assert_int_eq(bytes_read(b, 2, buf, 2), 0);
	ck_assert_int_eq(bytes_read(b, 2, buf, 3), ERR_IO);
	bytes_close(b);
}
END_TEST

START_TEST(what_is_not_a_file_is_refused)
{
	ck_assert_int_eq(mkfifo(in_dir("fifo"), 0600), 0);
	ck_assert_int_eq(mkdir(in_dir("dir"), 0700), 0);
	static const struct { const char *name; int code; const char *says; } rows[] = {
		{ "fifo", ERR_UNSUPPORTED, "fifo is a pipe, not a file" }, /* would hang if it were opened plainly */
		{ "dir", ERR_UNSUPPORTED, "dir is a directory, not a file" },
		{ "absent", ERR_GONE, "absent: No such file or directory" },
		{ "../../dev/null", ERR_UNSUPPORTED, "is a device, not a file" },
	};
	for (size_t i = 0; i < COUNT(rows); i++) {
		struct err e;
		struct bytes *b = NULL;
		struct image *img = NULL;
		ck_assert_int_eq(bytes_open(in_dir(rows[i].name), &b, &e), rows[i].code);
		ck_assert_ptr_null(b);
		ck_assert_msg(strstr(e.msg, rows[i].says), "%s", e.msg);
		ck_assert_int_eq(image_open(in_dir(rows[i].name), &img, &e), rows[i].code);
		ck_assert_ptr_null(img);
		ck_assert_str_ne(e.hint, "");
	}
}
END_TEST

START_TEST(holes_of_a_file_are_known)
{
	int fd = open(in_dir("f"), O_RDWR | O_CREAT | O_TRUNC, 0600);
	ck_assert_int_eq(ftruncate(fd, 64 << 20), 0);
	ck_assert_int_eq(pwrite(fd, "x", 1, 32 << 20), 1);
	bool tells = lseek(fd, 0, SEEK_DATA) > 0; /* some file systems do not */
	struct bytes *b;
	ck_assert_int_eq(bytes_from_fd(fd, "f", &b, NULL), 0);
	ck_assert_uint_eq(b->hole(b, 32 << 20), 0);
	ck_assert_uint_eq(b->hole(b, 64 << 20), 0);
	if (tells) {
		uint64_t n = b->hole(b, 5);
		ck_assert_uint_gt(n, 30 << 20);
		ck_assert_uint_le(n, (32 << 20) - 5);
		ck_assert_uint_eq(b->hole(b, 1000), n - 995);
		ck_assert_uint_eq(b->hole(b, (64 << 20) - 10), 10);
	}
	bytes_close(b);
}
END_TEST

/* ux.md's words for what is no core. */
START_TEST(other_files_are_named)
{
	static const struct { const char *bytes; size_t len; const char *msg, *hint; } rows[] = {
		{ "Fatal Python error", 18, "t.txt is not a core or a snapshot (it starts with \"Fata\")", "the core file itself; \"file t.txt\" says what it is" },
		{ "", 0, "t.txt is empty", "write the core again" },
		{ "a\n", 2, "t.txt is not a core or a snapshot (it starts with \"a\\x0a\")", "the core file itself; \"file t.txt\" says what it is" },
		{ "\x1b[2J", 4, "t.txt is not a core or a snapshot (it starts with \"\\x1b[2J\")", "the core file itself; \"file t.txt\" says what it is" },
		{ "\177EL", 3, "t.txt is not a core or a snapshot (it starts with \"\\x7fEL\")", "the core file itself; \"file t.txt\" says what it is" },
		{ "\x28\xb5\x2f\xfd....", 8, "t.txt is compressed with zstd and not a snapshot", "zstd -dc t.txt | pyanalyze -" },
		{ "\xfd" "7zXZ\0..", 8, "t.txt is compressed with xz and not a snapshot", "xz -dc t.txt | pyanalyze -" },
	};
	struct err e;
	struct image *img = NULL;
	ck_assert_int_eq(image_open_bytes(bytes_from_memory(rows[_i].bytes, rows[_i].len, "t.txt"), &img, &e), rows[_i].len ? ERR_UNSUPPORTED : ERR_CORRUPT);
	ck_assert_str_eq(e.msg, rows[_i].msg);
	ck_assert_str_eq(e.hint, rows[_i].hint);
	ck_assert_ptr_null(img);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("image");
	TCase *t = tcase_create("image");
	tcase_set_timeout(t, 60);
	tcase_add_loop_test(t, later_covers_and_beneath_fills, 0, COUNT(covers));
	tcase_add_loop_test(t, a_plain_array_agrees, 0, 12);
	tcase_add_test(t, many_segments_in_any_order);
	tcase_add_test(t, edges_of_the_address_space);
	tcase_add_test(t, numbers_have_the_images_order_and_width);
	tcase_add_test(t, strings);
	tcase_add_test(t, small_reads_come_from_the_cache);
	tcase_add_test(t, damage_costs_only_its_own_pages);
	tcase_add_test(t, mappings_are_sorted_and_apart);
	tcase_add_test(t, what_it_owns_is_closed_last_first);
	tcase_add_test(t, auxiliary_vector);
	tcase_add_loop_test(t, other_files_are_named, 0, 7);
	suite_add_tcase(s, t);
	TCase *f = tcase_create("files");
	tcase_add_checked_fixture(f, make_dir, remove_dir);
	tcase_add_test(f, files_are_read_within_their_size);
	tcase_add_test(f, what_is_not_a_file_is_refused);
	tcase_add_test(f, holes_of_a_file_are_known);
	suite_add_tcase(s, f);
	return suite_run(s);
}
