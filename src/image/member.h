/* One member of a .pz.  Inside src/image only. */
#ifndef IMAGE_MEMBER_H
#define IMAGE_MEMBER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <zlib.h>

enum { MEMBER_READ_PAST = 64 }; /* zeros behind a payload: isa-l looks at words there, and lets them decide between equals */

/* One raw deflate stream at a time; each thread has its own. */
struct packer {
	int level;
	z_stream z;
	bool z_on;
	struct isal_zstream *isal; /* NULL without isa-l, and above level 1 */
	uint8_t *isal_buf;
};
void packer_start(struct packer *c, int level);
void packer_end(struct packer *c);

size_t member_room(size_t payload);   /* bytes that a member of such a payload can have */
/* Returns the member's size; c NULL: not compressed. */
size_t member_pack(struct packer *c, const uint8_t *in, size_t len, uint8_t *out);
size_t member_stored(const uint8_t *in, size_t len, uint8_t *out);

static inline void put_le(uint8_t *p, size_t width, uint64_t v)
{
	for (size_t i = 0; i < width; i++)
		p[i] = (uint8_t)(v >> 8 * i);
}

#endif
