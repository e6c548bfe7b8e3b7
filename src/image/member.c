/* Members of a .pz as they are written: a payload becomes a gzip member, compressed or stored (formats/pz.md, section 1). */
#include "config.h"

#include "image/member.h"

#include <stdlib.h>
#include <string.h>
#if HAVE_ISAL
#include <isa-l/crc.h>
#include <isa-l/igzip_lib.h>
#endif

#include "image/pz.h"

static uint32_t crc_of(const uint8_t *p, size_t len)
{
#if HAVE_ISAL
	return crc32_gzip_refl(0, p, len);
#else
	return (uint32_t)crc32(0, p, (uInt)len);
#endif
}

void packer_start(struct packer *c, int level)
{
	*c = (struct packer){ .level = level };
#if HAVE_ISAL
	if (level == 1) {
		c->isal = xcalloc(1, sizeof *c->isal);
		c->isal_buf = xcalloc(1, ISAL_DEF_LVL1_DEFAULT);
		return;
	}
#endif
	/* memLevel 9: the symbol buffer holds a whole chunk. */
	if (level > 0)
		c->z_on = deflateInit2(&c->z, level, Z_DEFLATED, -15, 9, Z_DEFAULT_STRATEGY) == Z_OK;
}

void packer_end(struct packer *c)
{
	if (c->z_on)
		deflateEnd(&c->z);
#if HAVE_ISAL
	free(c->isal);
	free(c->isal_buf);
#endif
}

/* Returns the size of the raw stream in out, 0 if it does not fit or this codec does not compress. */
static size_t packer_deflate(struct packer *c, const uint8_t *in, size_t len, uint8_t *out, size_t room)
{
#if HAVE_ISAL
	if (c->isal) {
		isal_deflate_stateless_init(c->isal);
		/* Its table of hashes is not reset: what a chunk becomes would depend on the one before (isa-l 2.30). */
		memset(c->isal_buf, 0, ISAL_DEF_LVL1_REQ);
		c->isal->level = 1;
		c->isal->level_buf = c->isal_buf;
		c->isal->level_buf_size = ISAL_DEF_LVL1_DEFAULT;
		c->isal->gzip_flag = IGZIP_DEFLATE;
		c->isal->flush = NO_FLUSH;
		c->isal->end_of_stream = 1;
		c->isal->next_in = (uint8_t *)(uintptr_t)in; /* not written to */
		c->isal->avail_in = (uint32_t)len;
		c->isal->next_out = out;
		c->isal->avail_out = (uint32_t)room;
		if (isal_deflate_stateless(c->isal) != COMP_OK || c->isal->avail_in)
			return 0;
		return room - c->isal->avail_out;
	}
#endif
	if (!c->z_on || deflateReset(&c->z) != Z_OK)
		return 0;
	c->z.next_in = (Bytef *)(uintptr_t)in;
	c->z.avail_in = (uInt)len;
	c->z.next_out = out;
	c->z.avail_out = (uInt)room;
	if (deflate(&c->z, Z_FINISH) != Z_STREAM_END)
		return 0;
	return room - c->z.avail_out;
}

static void member_head(uint8_t *out, size_t size)
{
	static const uint8_t head[BGZF_HEAD - 2] = { 0x1f, 0x8b, 8, 4, 0, 0, 0, 0, 0, 0xff, 6, 0, 'B', 'C', 2, 0 };
	memcpy(out, head, sizeof head);
	put_le(out + sizeof head, 2, size - 1);
}

static size_t member_tail(uint8_t *out, size_t deflated, const uint8_t *in, size_t len)
{
	size_t size = BGZF_HEAD + deflated + BGZF_TAIL;
	member_head(out, size);
	put_le(out + BGZF_HEAD + deflated, 4, crc_of(in, len));
	put_le(out + BGZF_HEAD + deflated + 4, 4, len);
	return size;
}

size_t member_stored(const uint8_t *in, size_t len, uint8_t *out)
{
	uint8_t *p = out + BGZF_HEAD;
	p[0] = 1; /* last block, stored */
	put_le(p + 1, 2, len);
	put_le(p + 3, 2, ~len);
	memcpy(p + 5, in, len);
	return member_tail(out, 5 + len, in, len);
}

size_t member_room(size_t payload)
{
	return payload + BGZF_HEAD + 5 + BGZF_TAIL;
}

size_t member_pack(struct packer *c, const uint8_t *in, size_t len, uint8_t *out)
{
	/* Larger than stored is of no use, so that is the room it gets. */
	size_t n = c ? packer_deflate(c, in, len, out + BGZF_HEAD, len + 5) : 0;
	return n ? member_tail(out, n, in, len) : member_stored(in, len, out);
}
