/*
 * Native stacks.  libdw works in a child process, which has the image and the modules' files as open descriptors, opens nothing, is kept
 * from everything else as far as the kernel can (sandbox.h), and answers in bounded records through a pipe: whatever a damaged or hostile file makes of it, the caller goes on with what came, and can say why
 * it is not all.
 */
#ifndef MODULE_NATIVE_H
#define MODULE_NATIVE_H

#include "module/module.h"
#include "module/native_records.h"
#include "module/sandbox.h"

struct native_limits {
	uint64_t frames;   /* a thread */
	uint64_t threads;
	uint64_t memory;   /* bytes the child may have of its own */
	unsigned seconds;  /* until the last record is there */
	/* Source lines: none; those of the innermost frames of the first thread, of a crash its own; those of all frames, and inlined functions too. */
	enum native_lines { NATIVE_LINES_NONE, NATIVE_LINES_FIRST, NATIVE_LINES_ALL } lines;
	bool no_sandbox;   /* the child gives nothing up */
};
extern const struct native_limits native_default;

struct native;
/* Starts the child; borrows img and mods until native_close.  The caller must be single-threaded.  ERR_IO: no process could be had. */
int native_start(struct image *img, struct modules *mods, const struct native_limits *lim, struct native **ret, struct err *err) MUST_CHECK;
/* Waits for it, at most until its time is over, and then for good.  Always gives what came; err->msg says what went wrong:
 * ERR_GONE it died, ERR_LIMIT too slow or too big, ERR_CORRUPT nonsense came. */
int native_finish(struct native *n, const struct native_records **ret, struct err *err) MUST_CHECK;
/* For a record of the image: unwinds in this process, which must do nothing else, so that what that reads is in the record;
 * exact: of unwind tables just the bytes, not the pages. */
int native_read_all(struct image *img, struct modules *mods, const struct native_limits *lim, bool exact) MUST_CHECK;
void native_close(struct native *n); /* takes NULL; ends the child */
int native_pid(const struct native *n); /* for tests */

#endif
