/*
 * Every wait of ours for a processor is paid by the stopped target: on two busy processors 44 MiB took 35 ms to copy, of
 * which 10 were copying.  Niceness does not help there, since it counts only inside a session (autogroup).  So the lowest
 * real-time priority, if this is allowed (root) and there is another processor for everybody else.
 */
#include "snap/haste.h"

#include <sched.h>
#include <stdbool.h>
#include <sys/resource.h>
#include <unistd.h>

/* A limit of real-time computing (RLIMIT_RTTIME) may be shorter than a copy, and ends who passes it. */
static bool rr_limited(void)
{
	struct rlimit lim;
	return getrlimit(RLIMIT_RTTIME, &lim) == 0 && lim.rlim_cur != RLIM_INFINITY;
}

void haste_begin(struct haste *before)
{
	struct sched_param p = { 0 };
	before->policy = sched_getscheduler(0);
	before->priority = sched_getparam(0, &p) == 0 ? p.sched_priority : 0;
	before->nice = getpriority(PRIO_PROCESS, 0);
	p.sched_priority = sched_get_priority_min(SCHED_RR);
	if (before->policy != SCHED_OTHER || sysconf(_SC_NPROCESSORS_ONLN) < 2 || rr_limited() ||
	    sched_setscheduler(0, SCHED_RR | SCHED_RESET_ON_FORK, &p) < 0)
		setpriority(PRIO_PROCESS, 0, -20); /* of this thread alone */
}

void haste_end(const struct haste *before)
{
	struct sched_param p = { .sched_priority = before->priority };
	if (before->policy >= 0)
		sched_setscheduler(0, before->policy & ~SCHED_RESET_ON_FORK, &p);
	setpriority(PRIO_PROCESS, 0, before->nice);
}
