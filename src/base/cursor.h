/* Bounded parsing of bytes that came from a file: the only way file bytes are taken apart. */
#ifndef BASE_CURSOR_H
#define BASE_CURSOR_H

#include "base/err.h"
#include "base/str.h"

struct cursor {
	const uint8_t *pos, *end, *start;
	bool big_endian;
};

struct cursor cursor_of(const void *p, size_t len, bool big_endian);
size_t cursor_left(const struct cursor *c);
size_t cursor_at(const struct cursor *c); /* bytes from the start */

/* Each returns 0, or ERR_CORRUPT with nothing consumed and *ret untouched when the bytes are not there. */
int cursor_uint(struct cursor *c, size_t width, uint64_t *ret) MUST_CHECK; /* width 1..8 */
int cursor_u8(struct cursor *c, uint8_t *ret) MUST_CHECK;
int cursor_u16(struct cursor *c, uint16_t *ret) MUST_CHECK;
int cursor_u32(struct cursor *c, uint32_t *ret) MUST_CHECK;
int cursor_u64(struct cursor *c, uint64_t *ret) MUST_CHECK;
int cursor_uleb(struct cursor *c, uint64_t *ret) MUST_CHECK;
int cursor_sleb(struct cursor *c, int64_t *ret) MUST_CHECK;
int cursor_skip(struct cursor *c, uint64_t n) MUST_CHECK;
int cursor_seek(struct cursor *c, uint64_t at) MUST_CHECK;                 /* from the start */
int cursor_align(struct cursor *c, size_t to) MUST_CHECK;                  /* to a multiple of `to` from the start */
int cursor_take(struct cursor *c, uint64_t n, struct blob *ret) MUST_CHECK;/* borrowed from the input */
int cursor_sub(struct cursor *c, uint64_t n, struct cursor *ret) MUST_CHECK;
int cursor_cstr(struct cursor *c, struct blob *ret) MUST_CHECK;            /* up to NUL, which is consumed and not returned */
int cursor_line(struct cursor *c, struct blob *ret) MUST_CHECK;            /* up to \n or the end; ERR_CORRUPT only at the end */

#endif
