/* zstd: frames one after the other, skippable ones too (the library passes over them), with or without their sizes. */
#include "image/codec_steps.h"

#include <stdlib.h>
#include <zstd.h>
#include <zstd_errors.h>

struct zstd {
	ZSTD_DStream *z;
	size_t want; /* input up to the end of the next block: a call that fails gives nothing, so it gets no more than that */
};

void *zstd_open(void)
{
	struct zstd *s = xcalloc(1, sizeof *s);
	s->z = ZSTD_createDStream();
	if (s->z && !ZSTD_isError(ZSTD_DCtx_setParameter(s->z, ZSTD_d_windowLogMax, CODEC_ZSTD_WINDOW_LOG)))
		return s;
	zstd_close(s);
	return NULL;
}

int zstd_step(void *state, struct codec_io *io)
{
	struct zstd *s = state;
	ZSTD_inBuffer in = { io->in, s->want && s->want < io->in_len ? s->want : io->in_len, 0 };
	ZSTD_outBuffer out = { io->out, io->out_len, 0 };
	if (!s->want && in.size > 4)
		in.size = 4; /* of a frame's header */
	size_t rc = ZSTD_decompressStream(s->z, &out, &in);
	io->in += in.pos;
	io->in_len -= in.pos;
	io->out += out.pos;
	io->out_len -= out.pos;
	if (!ZSTD_isError(rc)) {
		s->want = rc;
		return rc == 0 ? CODEC_END : CODEC_MORE;
	}
	io->why = ZSTD_getErrorName(rc);
	ZSTD_ErrorCode code = ZSTD_getErrorCode(rc);
	return code == ZSTD_error_frameParameter_windowTooLarge || code == ZSTD_error_memory_allocation ? ERR_MEMORY : ERR_CORRUPT;
}

void zstd_close(void *state)
{
	struct zstd *s = state;
	ZSTD_freeDStream(s->z);
	free(s);
}
