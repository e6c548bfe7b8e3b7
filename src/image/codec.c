/* The table of compressed formats, and the loop that drives any of them. */
#include "image/codec.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "config.h"
#include "image/codec_steps.h"

/* zstd's skippable frames may come first: pzstd writes one (0x184D2A50, RFC 8878 3.1.2). lz4 has the same and none does. */
const struct codec *codec_find(const void *head, size_t len)
{
	static const uint8_t skippable[4] = { 0x50, 0x2a, 0x4d, 0x18 };
	for (const struct codec *c = codecs; c->name; c++)
		if (len >= c->magic_len && (memcmp(head, c->magic, c->magic_len) == 0 ||
					    (strcmp(c->name, "zstd") == 0 && memcmp(head, skippable, 4) == 0)))
			return c;
	return NULL;
}

struct run {
	struct feed feed;
	struct sink sink;
	struct unpacked *how;
	uint8_t *in, *out;
	size_t from, to;      /* of in: read and not used */
	size_t filled;        /* of out */
	bool ended;           /* feed is at its end */
};

/* More input where there is room.  A feed that fails is one that ends, with the loss noted. */
static void fill(struct run *r)
{
	if (r->from == r->to)
		r->from = r->to = 0;
	while (!r->ended && r->to < CODEC_PIECE) {
		long n = r->feed.read(r->feed.arg, r->in + r->to, CODEC_PIECE - r->to);
		if (n < 0) {
			r->how->loss = ERR_IO;
			snprintf(r->how->why, sizeof r->how->why, "%s", strerror(errno));
		}
		r->ended = n <= 0;
		r->to += n > 0 ? (size_t)n : 0;
	}
}

static int flush(struct run *r)
{
	size_t n = r->filled;
	if (!n)
		return 0;
	r->filled = 0;
	int rc = r->sink.put(r->sink.arg, r->out, n);
	if (rc == 0)
		r->how->out += n;
	return rc;
}

/* As it is; only its first piece if that is not wanted. */
static int copy(struct run *r)
{
	while (r->to) {
		int rc = r->sink.put(r->sink.arg, r->in, r->to);
		if (rc < 0)
			return rc;
		r->how->in += r->to;
		r->how->out += r->to;
		r->from = r->to;
		if (r->how->unwanted)
			break;
		fill(r);
	}
	return 0;
}

static void lose(struct unpacked *how, int loss, const char *why)
{
	if (how->loss) /* the input could not be read further: that comes first */
		return;
	how->loss = loss;
	snprintf(how->why, sizeof how->why, "%s", why);
}

static int unpack(struct run *r, void *state, bool (*wanted)(const void *head, size_t len))
{
	struct unpacked *how = r->how;
	bool inside = true; /* of a frame; an input has at least one */
	for (;;) {
		if (r->from == r->to && !r->ended)
			fill(r);
		bool dry = r->from == r->to;
		if (dry && r->ended && !inside)
			break;
		struct codec_io io = { r->in + r->from, r->to - r->from, r->out + r->filled, CODEC_PIECE - r->filled, r->ended, NULL };
		int rc = how->codec->step(state, &io);
		size_t used = r->to - r->from - io.in_len, made = CODEC_PIECE - r->filled - io.out_len;
		r->from += used;
		r->filled += made;
		how->in += used;
		if (rc < 0) {
			lose(how, rc, inside ? io.why : "something else follows");
			break;
		}
		inside = rc != CODEC_END;
		if (!used && !made && (inside || !dry)) {
			how->cut = dry && !how->loss;
			lose(how, ERR_CORRUPT, dry ? "the stream does not end" : "no progress");
			break;
		}
		if (r->filled < CODEC_PIECE)
			continue;
		if (wanted && !how->out && !wanted(r->out, r->filled)) {
			how->unwanted = true;
			break;
		}
		rc = flush(r);
		if (rc < 0)
			return rc;
	}
	return flush(r);
}

int codec_unpack(struct feed feed, bool (*wanted)(const void *head, size_t len), struct sink sink, struct unpacked *ret)
{
	CLEANUP(cleanup_free) uint8_t *in = xmalloc(CODEC_PIECE);
	CLEANUP(cleanup_free) uint8_t *out = xmalloc(CODEC_PIECE);
	struct run r = { .feed = feed, .sink = sink, .how = ret, .in = in, .out = out };
	*ret = (struct unpacked){ 0 };
	fill(&r);
	bool plain = wanted && wanted(in, r.to);
	if (!plain)
		ret->codec = codec_find(in, r.to);
	if (!ret->codec) {
		ret->unwanted = wanted && !plain;
		return copy(&r);
	}
	void *state = ret->codec->open ? ret->codec->open() : NULL;
	if (!state)
		return ERR_UNSUPPORTED;
	int rc = unpack(&r, state, wanted);
	ret->codec->close(state);
	return rc;
}

/* --- the table --- */

#if !HAVE_ZSTD
#define ZSTD_STEPS NULL, NULL, NULL
#else
#define ZSTD_STEPS zstd_open, zstd_step, zstd_close
#endif
#if !HAVE_LZMA
#define XZ_STEPS NULL, NULL, NULL
#else
#define XZ_STEPS xz_open, xz_step, xz_close
#endif
#if !HAVE_LZ4
#define LZ4_STEPS NULL, NULL, NULL
#else
#define LZ4_STEPS lz4_open, lz4_step, lz4_close
#endif

const struct codec codecs[] = {
	{ "gzip", "gzip -dc", { 0x1f, 0x8b }, 2, gzip_open, gzip_step, gzip_close },
	{ "zstd", "zstd -dc", { 0x28, 0xb5, 0x2f, 0xfd }, 4, ZSTD_STEPS },
	{ "xz", "xz -dc", { 0xfd, '7', 'z', 'X', 'Z', 0 }, 6, XZ_STEPS },
	{ "lz4", "lz4 -dc", { 0x04, 0x22, 0x4d, 0x18 }, 4, LZ4_STEPS },
	/* Not read, but told by name: lz4's format of before 2014, and bzip2. */
	{ "lz4 (legacy)", "lz4 -dc", { 0x02, 0x21, 0x4c, 0x18 }, 4, NULL, NULL, NULL },
	{ "bzip2", "bzip2 -dc", { 'B', 'Z', 'h' }, 3, NULL, NULL, NULL },
	{ 0 },
};
