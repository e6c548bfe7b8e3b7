/* gzip by zlib: members one after the other, also zeros behind the last (tapes, preallocated files; gzip(1) passes over them). */
#include "image/codec_steps.h"

#include <stdlib.h>
#include <zlib.h>

struct gzip {
	z_stream z;
	bool between; /* members */
};

void *gzip_open(void)
{
	struct gzip *g = xcalloc(1, sizeof *g);
	if (inflateInit2(&g->z, 16 + 15) == Z_OK) /* 16: with gzip's header and trailer, whose CRC is checked */
		return g;
	free(g);
	return NULL;
}

int gzip_step(void *state, struct codec_io *io)
{
	struct gzip *g = state;
	if (g->between) {
		while (io->in_len && *io->in == 0)
			io->in++, io->in_len--;
		if (!io->in_len)
			return CODEC_END;
		g->between = false;
		if (inflateReset(&g->z) != Z_OK)
			return io->why = "cannot start again", ERR_CORRUPT;
	}
	g->z.next_in = (Bytef *)(uintptr_t)io->in; /* not written to */
	g->z.avail_in = (uInt)io->in_len;
	g->z.next_out = io->out;
	g->z.avail_out = (uInt)io->out_len;
	int rc = inflate(&g->z, Z_NO_FLUSH);
	io->in = g->z.next_in;
	io->in_len = g->z.avail_in;
	io->out = g->z.next_out;
	io->out_len = g->z.avail_out;
	if (rc == Z_STREAM_END) {
		g->between = true;
		return CODEC_END;
	}
	if (rc == Z_OK || rc == Z_BUF_ERROR)
		return CODEC_MORE;
	io->why = rc == Z_NEED_DICT ? "needs a dictionary" : g->z.msg ? g->z.msg : zError(rc);
	return rc == Z_MEM_ERROR ? ERR_MEMORY : ERR_CORRUPT;
}

void gzip_close(void *state)
{
	struct gzip *g = state;
	inflateEnd(&g->z);
	free(g);
}
