/* Stop every thread of a process, read its registers, and let it go on every way out. */
#ifndef SNAP_FREEZE_H
#define SNAP_FREEZE_H

#include "image/image.h"

struct freeze_options {
	unsigned max_pause_ms;   /* let go and fail after that long; 0: no limit */
	unsigned deadline_ms;    /* give up when no further thread stops for so long, or in all ten times as long; 0: 10 s */
};
struct frozen;               /* all threads are ptrace-stopped while this exists */

/* May the process be stopped?  Stops nothing.  As freeze, and ERR_UNSUPPORTED (a machine or width that is not read here). */
int freeze_check(pid_t pid, struct err *err) MUST_CHECK;
/* ERR_PERM, ERR_GONE, ERR_TRACED, ERR_LIMIT (not all threads could be stopped in time), ERR_UNSUPPORTED; the target runs on
 * after a failure, and if this process dies at any moment. */
int freeze(pid_t pid, const struct freeze_options *opt, struct frozen **ret, struct err *err) MUST_CHECK;
/* The register notes of all threads, the chosen thread (the leader) first; valid until frozen_free. */
size_t frozen_threads(const struct frozen *f, const struct thread **ret);
const struct abi *frozen_abi(const struct frozen *f);
pid_t frozen_tid(const struct frozen *f);           /* a thread that is stopped: the leader may have ended */
bool frozen_over(const struct frozen *f);           /* max_pause_ms has passed: the target was let go, or is now */
int64_t frozen_elapsed_ns(const struct frozen *f);  /* since the first thread was stopped */
int64_t frozen_time_ns(const struct frozen *f);     /* CLOCK_REALTIME when the first thread was stopped */
int64_t thaw(struct frozen *f);                     /* lets all go; returns how long the target was stopped, ns; idempotent */
bool frozen_died(const struct frozen *f);           /* after thaw: it was killed while it was stopped */
void frozen_free(struct frozen *f);                 /* thaws first; takes NULL */

#endif
