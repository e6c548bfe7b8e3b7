/* What to keep of a process, copied while it is stopped and written after it was let go. */
#ifndef SNAP_CAPTURE_H
#define SNAP_CAPTURE_H

#include "image/pz.h"
#include "snap/freeze.h"

enum bundle { BUNDLE_ELF, BUNDLE_NONE };
struct capture_options {
	struct freeze_options freeze;
	enum bundle bundle;
	int level;             /* 0..9 */
	addr_t hint_runtime;   /* goes into the file as a hint; 0: none */
	const volatile int *interrupted; /* not NULL and != 0: let go and fail with ERR_LIMIT at the next step */
};
struct capture;            /* all that will be written, in our memory */

/* Stop, copy, let go.  ERR_MEMORY before the stop if the copy cannot fit; as freeze otherwise. */
int capture(pid_t pid, const struct capture_options *opt, struct capture **ret, struct err *err) MUST_CHECK;
int capture_write(struct capture *c, int fd, struct err *err) MUST_CHECK;
int64_t capture_stopped_ns(const struct capture *c);
uint64_t capture_bytes(const struct capture *c);         /* of the core in the file, before compression; before it is written, of the memory that was copied */
uint64_t capture_written(const struct capture *c);
size_t capture_unopened(const struct capture *c);        /* files left out because too many are open */
/* Files whose functions have no names in the snapshot, since the tables are large; valid until capture_free. */
struct capture_unnamed { size_t n; uint64_t size /* of the tables of all */; struct str largest; /* its path */ };
struct capture_unnamed capture_unnamed(const struct capture *c);
size_t capture_lost(const struct capture *c, uint64_t *bytes); /* regions that could not be read */
void capture_free(struct capture *c);                    /* takes NULL */

#endif
