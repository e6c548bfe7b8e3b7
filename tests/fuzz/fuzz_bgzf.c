/*
 * The container.  Input that starts as gzip is taken as the file; any other is a recipe for one with right checksums, so
 * that what lies behind them is reached: a byte n, n bytes of member sizes, 40 bytes of the locator, the index, the rest
 * is payload.  What reads as a whole must be what gunzip gives.
 */
#include "image/pz.h"

#include <stdlib.h>
#include <string.h>
#include <zlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void put_le(struct sb *b, size_t width, uint64_t v)
{
	for (size_t i = 0; i < width; i++)
		sb_char(b, (char)(v >> 8 * i));
}

static void put_member(struct sb *b, struct blob d, uint32_t mtime)
{
	sb_bytes(b, "\x1f\x8b\x08\x04", 4);
	put_le(b, 4, mtime);
	sb_bytes(b, "\0\xff\6\0BC\2\0", 8);
	put_le(b, 2, d.len + BGZF_HEAD + 5 + BGZF_TAIL - 1);
	sb_char(b, 1);
	put_le(b, 2, d.len);
	put_le(b, 2, ~d.len & 0xffff);
	sb_bytes(b, d.p, d.len);
	put_le(b, 4, crc32(0, d.p, (uInt)d.len));
	put_le(b, 4, d.len);
}

static struct blob take(struct cursor *c, size_t n)
{
	struct blob b = { 0 };
	if (cursor_take(c, n < cursor_left(c) ? n : cursor_left(c), &b) < 0)
		abort();
	return b;
}

/* The locator's numbers are taken as differences from the truth, so that few bits make a small lie. */
static void cook(const uint8_t *data, size_t size, struct sb *f)
{
	struct cursor c = cursor_of(data, size, false);
	uint8_t n = 0;
	if (cursor_u8(&c, &n) < 0)
		return;
	struct blob sizes = take(&c, n), loc = take(&c, 36), index = take(&c, 4 * (size_t)(n < 64 ? n : 64));
	uint64_t at = 0;
	for (size_t i = 0; i < sizes.len; i++) {
		struct blob d = take(&c, (size_t)sizes.p[i] % 64 + 1);
		if (!d.len)
			break;
		put_member(f, d, sizes.p[i] & 0x40 ? 0 : (uint32_t)at);
		at += d.len;
	}
	uint64_t index_at = f->len, add[5] = { 0 };
	struct cursor l = cursor_of(loc.p, loc.len, false);
	if (cursor_uint(&l, 4, &add[0]) == 0)
		for (size_t i = 1; i < 5 && cursor_u64(&l, &add[i]) == 0;)
			i++;
	if (index.len)
		put_member(f, index, (uint32_t)at);
	struct sb s = { 0 };
	sb_bytes(&s, "pysnapIX", 8);
	put_le(&s, 4, PZ_FORMAT + add[0]);
	put_le(&s, 4, crc32(0, index.p, (uInt)index.len) + (add[4] & 1));
	put_le(&s, 8, index_at + add[1]);
	put_le(&s, 8, at + add[2]);
	put_le(&s, 8, index.len / 4 + add[3]);
	put_le(&s, 8, 0);
	put_member(f, (struct blob){ (uint8_t *)s.s, s.len }, 0);
	sb_bytes(f, "\x1f\x8b\x08\4\0\0\0\0\0\xff\6\0BC\2\0\x1b\0\3\0\0\0\0\0\0\0\0\0", BGZF_END);
	sb_free(&s);
}

/* [0, len) of all members' content, as zlib sees it. */
static void expect_same(struct blob f, const uint8_t *want, size_t len)
{
	z_stream z = { .next_in = (Bytef *)(uintptr_t)f.p, .avail_in = (uInt)f.len };
	uint8_t *out = xmalloc(len);
	if (inflateInit2(&z, 31) != Z_OK)
		abort();
	z.next_out = out;
	z.avail_out = (uInt)len;
	while (z.avail_out) {
		int rc = inflate(&z, Z_NO_FLUSH);
		if (rc != Z_OK && rc != Z_STREAM_END)
			abort();
		if (rc == Z_STREAM_END && inflateReset(&z) != Z_OK)
			abort();
	}
	inflateEnd(&z);
	if (memcmp(out, want, len) != 0)
		abort();
	free(out);
}

static void read_all(struct blob f)
{
	struct bytes *packed = bytes_from_memory(f.p, f.len, "x"), *b;
	struct err err;
	if (bgzf_open(packed, &b, &err) < 0) {
		bytes_close(packed);
		return;
	}
	if (b->size > (uint64_t)f.len * BGZF_MAX)
		abort();
	size_t len = b->size < 4 << 20 ? (size_t)b->size : 4 << 20;
	uint8_t *buf = xmalloc(len + 1);
	/* From the back first: order must not matter. */
	for (size_t at = len; at > 0; at -= at < 3001 ? at : 3001)
		if (bytes_read(b, at - 1, buf, 1) == 0 && bytes_read(b, b->size, buf, 1) != ERR_FAULT)
			abort();
	int rc = bytes_read(b, 0, buf, len);
	if (rc == 0 && len)
		expect_same(f, buf, len);
	if (rc < 0 && !bgzf_damaged(b))
		abort();
	(void)bgzf_truncated(b);
	free(buf);
	bytes_close(b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size && data[0] == 0x1f) {
		read_all((struct blob){ data, size });
		return 0;
	}
	struct sb f = { 0 };
	cook(data, size, &f);
	read_all((struct blob){ (uint8_t *)f.s, f.len });
	sb_free(&f);
	return 0;
}
