/* Where pysnap writes to, and what is said when it cannot. */
#ifndef CMD_OUTPUT_H
#define CMD_OUTPUT_H

#include "cmd/cli.h"

struct output {
	char *name;              /* as it is said; allocated */
	char *part;              /* FILE.part while there is one of ours; allocated */
	int fd;                  /* -1: not open */
	enum { OUTPUT_FILE, OUTPUT_STDOUT, OUTPUT_DIRECT } kind; /* DIRECT: into a device or pipe that is there */
	bool force;
};

/*
 * asked: -o (NULL: `own` here; a folder: `own` in it; "-").  Nothing that is there is touched but by force, links never.
 * ERR_EXISTS, ERR_IO, ERR_PERM, ERR_UNSUPPORTED.  May wait for a pipe's reader, and says so.
 */
int output_open(struct output *o, const struct cli *c, const char *asked, const char *own, struct err *err) MUST_CHECK;
/* Everything on the disk, then the name, then the name on the disk; after this it is done. */
int output_commit(struct output *o, struct err *err) MUST_CHECK;
/* Fill err for a write that failed with errno e behind so many bytes; output_close has to follow. */
int output_failed(const struct output *o, int e, uint64_t written, struct err *err);
void output_close(struct output *o); /* without output_commit before: the partial file is removed */

#endif
