/* Compressed streams: found by their first bytes, unpacked piece by piece, with memory that does not grow with them. */
#ifndef IMAGE_CODEC_H
#define IMAGE_CODEC_H

#include "base/str.h"

enum { CODEC_PIECE = 256 << 10 };     /* what a sink is given at once; also how much input is read at once */

/* One call's input and output: what is used is taken off the front of each. */
struct codec_io {
	const uint8_t *in;
	size_t in_len;
	uint8_t *out;
	size_t out_len;
	bool last;            /* nothing follows in */
	const char *why;      /* set on failure: the library's word */
};

enum { CODEC_MORE = 0, CODEC_END = 1 };

/*
 * step: CODEC_END when a frame or member is finished; the next call starts the one that follows it.  CODEC_MORE: it
 * wants more input or more room.  ERR_CORRUPT; ERR_MEMORY: it wants more memory than is given to any file.
 */
struct codec {
	const char *name;     /* "gzip" */
	const char *command;  /* that unpacks it to its standard output */
	uint8_t magic[6];
	size_t magic_len;
	void *(*open)(void);  /* NULL: not compiled in; returns NULL if it cannot */
	int (*step)(void *state, struct codec_io *io);
	void (*close)(void *state);
};

extern const struct codec codecs[];   /* up to one without a name */
const struct codec *codec_find(const void *head, size_t len); /* by content; NULL: none of these */

/* Where bytes come from: up to len of them (any number > 0), 0 at the end, or ERR_IO. */
struct feed {
	long (*read)(void *arg, void *buf, size_t len);
	void *arg;
};

/* Where they go: every piece but the last has CODEC_PIECE bytes; what it returns but 0 ends it all. */
struct sink {
	int (*put)(void *arg, const void *p, size_t len);
	void *arg;
};

struct unpacked {
	const struct codec *codec; /* NULL: the bytes went through as they are */
	uint64_t in, out;          /* bytes read and used, and put */
	int loss;                  /* 0: whole; ERR_CORRUPT, ERR_MEMORY or ERR_IO: all that came before went out */
	bool cut;                  /* with ERR_CORRUPT: the input ends too early */
	bool unwanted;             /* the content is not what was asked for: the rest was not unpacked */
	char why[128];             /* of the loss: the library's or the system's word */
};

/*
 * Reads feed to its end and unpacks it unless it is wanted as it is.  wanted (may be NULL: nothing is, and any content
 * will do) looks at the first bytes, of the feed and of its content.  Damage is no failure, see ret->loss.
 * Returns 0, what put returned, or ERR_UNSUPPORTED (codec not compiled in, ret->codec says which).
 */
int codec_unpack(struct feed feed, bool (*wanted)(const void *head, size_t len), struct sink sink, struct unpacked *ret) MUST_CHECK;

#endif
