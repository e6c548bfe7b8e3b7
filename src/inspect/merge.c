/* Which evaluation frame each run of Python frames is in. */
#include "inspect/merge.h"

#include <string.h>

/* Where a run belongs: its evaluation frame; or, in a gap, only what it is older than. */
struct host { size_t at; bool gap; };

/*
 * The places of runs: hosts[r].at is the native frame of run r, n_native where it is older than all that are known.  In a gap the
 * part of a frame may end anywhere before the next: what lies there is proved only to be between the two, and several runs may be.
 */
static int by_address(const struct merge_native *native, size_t n_native, bool whole, const struct merge_run *runs, size_t n_runs, struct host *hosts)
{
	size_t next = 0;
	for (size_t r = 0; r < n_runs; r++) {
		addr_t at = runs[r].at;
		size_t i = next;
		/* In the gap that the last one was before, or in; those of a gap are in order too. */
		if (r && i < n_native && native[i].gap && native[i - 1].sp && native[i - 1].sp <= at && at < native[i].sp) {
			if (at <= runs[r - 1].at)
				return ERR_CORRUPT;
			hosts[r] = (struct host){ i, true };
			continue;
		}
		/* By order, not by address alone: a signal's own stack lies anywhere. */
		while (i + 1 < n_native && !(native[i].sp && native[i].sp <= at && at < native[i + 1].sp))
			i++;
		if (i + 1 >= n_native) {
			/* Past the last known frame, whose end is not known either. */
			if (whole || !n_native || at < native[n_native - 1].sp)
				return ERR_CORRUPT;
			i = n_native;
		}
		const bool gap = i + 1 < n_native && native[i + 1].gap && !native[i].eval;
		hosts[r] = (struct host){ i + gap, gap };
		next = i < n_native ? i + 1 : n_native;
	}
	return 0;
}

static int by_count(const struct merge_native *native, size_t n_native, const struct merge_run *runs, size_t n_runs, struct host *hosts)
{
	size_t evals = 0, r = n_runs;
	for (size_t i = 0; i < n_native; i++)
		evals += native[i].eval;
	if (!evals)
		return ERR_ABSENT;
	/* One more: the innermost has not linked its frame yet, or no longer. */
	if (evals != n_runs && evals != n_runs + 1)
		return ERR_CORRUPT;
	for (size_t i = n_native; i-- > 0 && r > 0;)
		if (native[i].eval)
			hosts[--r] = (struct host){ i, false };
	return 0;
}

int merge_stacks(const struct merge_native *native, size_t n_native, bool whole, const struct merge_run *runs, size_t n_runs,
		 struct merge_item *ret, size_t *ret_n)
{
	size_t with_at = 0, n = 0, py = 0, at = 0;
	CLEANUP(cleanup_free) struct host *hosts = xcalloc(n_runs + 1, sizeof *hosts);
	for (size_t r = 0; r < n_runs; r++)
		with_at += runs[r].at != 0;
	bool stacked = n_native > 0;
	for (size_t i = 0; i < n_native; i++)
		stacked = stacked && native[i].sp;
	int rc = !n_runs ? 0 : with_at == n_runs && stacked ? by_address(native, n_native, whole, runs, n_runs, hosts)
			 : by_count(native, n_native, runs, n_runs, hosts);
	size_t r = 0;
	if (rc < 0)
		r = n_runs;
	for (; r < n_runs; r++) {
		for (; at < n_native && at < hosts[r].at; at++)
			ret[n++] = (struct merge_item){ .index = at };
		for (size_t k = 0; k < runs[r].n; k++)
			ret[n++] = (struct merge_item){ .python = true, .index = py++ };
		if (at < n_native && !hosts[r].gap)
			ret[n++] = (struct merge_item){ .role = MERGE_EVAL, .index = at++ };
	}
	for (; at < n_native; at++)
		ret[n++] = (struct merge_item){ .index = at };
	for (r = 0; rc < 0 && r < n_runs; r++)
		for (size_t k = 0; k < runs[r].n; k++)
			ret[n++] = (struct merge_item){ .python = true, .index = py++ };
	/* The innermost evaluation frame without a run, above all that have one. */
	for (size_t i = 0; rc == 0 && i < n && !ret[i].python && ret[i].role == MERGE_PLAIN; i++) {
		if (native[ret[i].index].eval) {
			ret[i].role = MERGE_ENTERING;
			break;
		}
	}
	*ret_n = n;
	return rc;
}
