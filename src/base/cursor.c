/* Bounded parsing.  Owns nothing: every blob points into the bytes it was started on. */
#include "base/cursor.h"

#include <endian.h>
#include <string.h>

struct cursor cursor_of(const void *p, size_t len, bool big_endian)
{
	static const uint8_t nothing[1]; /* arithmetic on NULL, even + 0, is undefined */
	const uint8_t *b = p ? p : nothing;
	return (struct cursor){ b, p ? b + len : b, b, big_endian };
}

size_t cursor_left(const struct cursor *c)
{
	return (size_t)(c->end - c->pos);
}

size_t cursor_at(const struct cursor *c)
{
	return (size_t)(c->pos - c->start);
}

int cursor_uint(struct cursor *c, size_t width, uint64_t *ret)
{
	if (width < 1 || width > 8 || cursor_left(c) < width)
		return ERR_CORRUPT;
	uint64_t v = 0;
	uint32_t w;
	switch (width) { /* those that nearly all are, by one load */
	case 1:
		v = *c->pos;
		break;
	case 4:
		memcpy(&w, c->pos, sizeof w);
		v = c->big_endian ? be32toh(w) : le32toh(w);
		break;
	case 8:
		memcpy(&v, c->pos, sizeof v);
		v = c->big_endian ? be64toh(v) : le64toh(v);
		break;
	default:
		for (size_t i = 0; i < width; i++)
			v |= (uint64_t)c->pos[i] << 8 * (c->big_endian ? width - 1 - i : i);
	}
	c->pos += width;
	*ret = v;
	return 0;
}

#define FIXED(name, type)                                   \
	int cursor_##name(struct cursor *c, type *ret)      \
	{                                                   \
		uint64_t v;                                 \
		int rc = cursor_uint(c, sizeof *ret, &v);   \
		if (rc == 0)                                \
			*ret = (type)v;                     \
		return rc;                                  \
	}
FIXED(u8, uint8_t)
FIXED(u16, uint16_t)
FIXED(u32, uint32_t)
FIXED(u64, uint64_t)

static int leb(struct cursor *c, bool is_signed, uint64_t *ret)
{
	uint64_t v = 0;
	unsigned shift = 0;
	for (const uint8_t *p = c->pos; p < c->end; p++) {
		uint8_t b = *p;
		if (shift < 64)
			v |= (uint64_t)(b & 0x7f) << shift;
		shift += 7;
		if (shift > 70)
			return ERR_CORRUPT;
		if (b & 0x80)
			continue;
		if (is_signed && shift < 64 && (b & 0x40))
			v |= ~(uint64_t)0 << shift;
		c->pos = p + 1;
		*ret = v;
		return 0;
	}
	return ERR_CORRUPT;
}

int cursor_uleb(struct cursor *c, uint64_t *ret)
{
	return leb(c, false, ret);
}

int cursor_sleb(struct cursor *c, int64_t *ret)
{
	uint64_t v;
	int rc = leb(c, true, &v);
	if (rc == 0)
		*ret = (int64_t)v;
	return rc;
}

int cursor_skip(struct cursor *c, uint64_t n)
{
	if (n > cursor_left(c))
		return ERR_CORRUPT;
	c->pos += n;
	return 0;
}

int cursor_seek(struct cursor *c, uint64_t at)
{
	if (at > (uint64_t)(c->end - c->start))
		return ERR_CORRUPT;
	c->pos = c->start + at;
	return 0;
}

int cursor_align(struct cursor *c, size_t to)
{
	size_t over = to ? cursor_at(c) % to : 0;
	return over ? cursor_skip(c, to - over) : 0;
}

int cursor_take(struct cursor *c, uint64_t n, struct blob *ret)
{
	if (n > cursor_left(c))
		return ERR_CORRUPT;
	*ret = (struct blob){ c->pos, (size_t)n };
	c->pos += n;
	return 0;
}

int cursor_sub(struct cursor *c, uint64_t n, struct cursor *ret)
{
	struct blob b;
	int rc = cursor_take(c, n, &b);
	if (rc == 0)
		*ret = cursor_of(b.p, b.len, c->big_endian);
	return rc;
}

int cursor_cstr(struct cursor *c, struct blob *ret)
{
	const uint8_t *nul = cursor_left(c) ? memchr(c->pos, 0, cursor_left(c)) : NULL;
	if (!nul)
		return ERR_CORRUPT;
	*ret = (struct blob){ c->pos, (size_t)(nul - c->pos) };
	c->pos = nul + 1;
	return 0;
}

int cursor_line(struct cursor *c, struct blob *ret)
{
	size_t left = cursor_left(c);
	if (!left)
		return ERR_CORRUPT;
	const uint8_t *nl = memchr(c->pos, '\n', left);
	*ret = (struct blob){ c->pos, nl ? (size_t)(nl - c->pos) : left };
	c->pos = nl ? nl + 1 : c->end;
	return 0;
}
