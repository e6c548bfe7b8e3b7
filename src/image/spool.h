/* Input that cannot be read at any place (compressed, or a pipe), unpacked once into a file without a name. */
#ifndef IMAGE_SPOOL_H
#define IMAGE_SPOOL_H

#include "image/bytes.h"
#include "image/codec.h"

extern const char spool_stdin[]; /* the name of standard input */
/* Add what unpacks the input of that name for a program that cannot: "xz -dc core.xz | pyanalyze -". */
void spool_hint(struct err *err, const struct codec *codec, const char *name);

/*
 * The file is in TMPDIR (/var/tmp if that is not set), has no name there, is as long as the content and takes as much
 * room as what in it is not zero.  name is for messages, size the input's (0: not known), for an estimate of the room
 * that is needed.  *how says what was unpacked and what was lost; damage and a cut are no failure.
 * ERR_UNSUPPORTED: how->codec is not compiled in; ERR_LIMIT: no room; ERR_PERM, ERR_IO.
 */
int spool(struct feed feed, const char *name, uint64_t size, bool (*wanted)(const void *head, size_t len), struct bytes **ret,
	  struct unpacked *how, struct err *err) MUST_CHECK;

#endif
