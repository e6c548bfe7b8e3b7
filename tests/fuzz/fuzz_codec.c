/*
 * Compressed streams of any format, as the input's first bytes say; unpacked up to a cap.  Pieces have the sizes that
 * sinks may rely on, and a stream that is whole has the same content in whatever steps it comes.
 */
#include "image/codec.h"

#include <stdlib.h>
#include <string.h>
#include <zlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { CAP = 8 << 20 };

struct input {
	const uint8_t *p;
	size_t len, most;
};

static long read_input(void *arg, void *buf, size_t len)
{
	struct input *in = arg;
	size_t n = in->len < len ? in->len : len;
	n = n < in->most ? n : in->most;
	memcpy(buf, in->p, n);
	in->p += n;
	in->len -= n;
	return (long)n;
}

struct output {
	uint64_t size;
	uint32_t crc;
	bool last;  /* a piece that was not full came */
};

static int put(void *arg, const void *p, size_t len)
{
	struct output *out = arg;
	if (out->last || !len || len > CODEC_PIECE)
		abort();
	out->last = len < CODEC_PIECE;
	out->size += len;
	out->crc = (uint32_t)crc32(out->crc, p, (uInt)len);
	return out->size > CAP ? ERR_LIMIT : 0;
}

static int unpack(const uint8_t *data, size_t size, size_t most, struct output *out, struct unpacked *how)
{
	struct input in = { data, size, most };
	*out = (struct output){ 0 };
	int rc = codec_unpack((struct feed){ read_input, &in }, NULL, (struct sink){ put, out }, how);
	if (rc == 0 && (how->out != out->size || how->in > size))
		abort();
	if (rc == 0 && how->loss && !how->why[0])
		abort();
	return rc;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct output a, b;
	struct unpacked how, slow;
	int rc = unpack(data, size, size ? size : 1, &a, &how);
	if (rc < 0 || size > 20000)
		return 0;
	if (unpack(data, size, 1, &b, &slow) < 0 || (how.loss == 0) != (slow.loss == 0))
		abort();
	if (!how.loss && (a.size != b.size || a.crc != b.crc))
		abort();
	return 0;
}
