/* What the adapters give to the table in codec.c; each is one of its rows' open, step, close. */
#ifndef IMAGE_CODEC_STEPS_H
#define IMAGE_CODEC_STEPS_H

#include "image/codec.h"

/* No file gets more memory than this to be unpacked with: what zstd --ultra and xz -9 need and more. */
enum { CODEC_ZSTD_WINDOW_LOG = 27 };
static const uint64_t codec_memory_max = 256 << 20;

void *gzip_open(void);
int gzip_step(void *state, struct codec_io *io);
void gzip_close(void *state);
void *zstd_open(void);
int zstd_step(void *state, struct codec_io *io);
void zstd_close(void *state);
void *xz_open(void);
int xz_step(void *state, struct codec_io *io);
void xz_close(void *state);
void *lz4_open(void);
int lz4_step(void *state, struct codec_io *io);
void lz4_close(void *state);

#endif
