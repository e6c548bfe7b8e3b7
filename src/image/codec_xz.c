/* xz by liblzma, which reads streams one after the other, and the padding between them, as one. */
#include "image/codec_steps.h"

#include <lzma.h>
#include <stdlib.h>

void *xz_open(void)
{
	static const lzma_stream fresh = LZMA_STREAM_INIT;
	lzma_stream *z = xmalloc(sizeof *z);
	*z = fresh;
	if (lzma_stream_decoder(z, codec_memory_max, LZMA_CONCATENATED) == LZMA_OK)
		return z;
	free(z);
	return NULL;
}

static const char *word(lzma_ret rc, bool begun)
{
	switch (rc) {
	case LZMA_FORMAT_ERROR: return begun ? "something else follows" : "not xz";
	case LZMA_OPTIONS_ERROR: return "a filter or option that liblzma does not know";
	case LZMA_DATA_ERROR: return "compressed data is corrupt";
	case LZMA_MEMLIMIT_ERROR: return "needs more than 256 MiB of memory";
	case LZMA_MEM_ERROR: return "out of memory";
	default: return "cannot go on";
	}
}

int xz_step(void *state, struct codec_io *io)
{
	lzma_stream *z = state;
	z->next_in = io->in;
	z->avail_in = io->in_len;
	z->next_out = io->out;
	z->avail_out = io->out_len;
	lzma_ret rc = lzma_code(z, io->last ? LZMA_FINISH : LZMA_RUN);
	io->in = z->next_in;
	io->in_len = z->avail_in;
	io->out = z->next_out;
	io->out_len = z->avail_out;
	if (rc == LZMA_STREAM_END)
		return CODEC_END;
	if (rc == LZMA_OK || rc == LZMA_BUF_ERROR)
		return CODEC_MORE;
	io->why = word(rc, z->total_out > 0);
	return rc == LZMA_MEMLIMIT_ERROR || rc == LZMA_MEM_ERROR ? ERR_MEMORY : ERR_CORRUPT;
}

void xz_close(void *state)
{
	lzma_end(state);
	free(state);
}
