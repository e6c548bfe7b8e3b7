/* lz4's frame format: frames one after the other, skippable ones too.  Its context can start anew after a frame's end by itself. */
#include "image/codec_steps.h"

#include <lz4frame.h>
#include <stdlib.h>

struct lz4 {
	LZ4F_dctx *z;
	size_t want; /* input up to the end of the next block: a call that fails gives nothing, so it gets no more than that */
};

void *lz4_open(void)
{
	struct lz4 *s = xcalloc(1, sizeof *s);
	if (!LZ4F_isError(LZ4F_createDecompressionContext(&s->z, LZ4F_VERSION)))
		return s;
	free(s);
	return NULL;
}

int lz4_step(void *state, struct codec_io *io)
{
	struct lz4 *s = state;
	if (!s->want)
		s->want = 7; /* the shortest header of a frame */
	size_t in = s->want < io->in_len ? s->want : io->in_len, out = io->out_len;
	size_t rc = LZ4F_decompress(s->z, io->out, &out, io->in, &in, NULL);
	if (LZ4F_isError(rc)) {
		io->why = LZ4F_getErrorName(rc);
		return ERR_CORRUPT;
	}
	io->in += in;
	io->in_len -= in;
	io->out += out;
	io->out_len -= out;
	s->want = rc;
	return rc == 0 ? CODEC_END : CODEC_MORE;
}

void lz4_close(void *state)
{
	struct lz4 *s = state;
	LZ4F_freeDecompressionContext(s->z);
	free(s);
}
