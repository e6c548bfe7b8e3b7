/*
 * Native and Python frames of one thread into one stack.  Pure: two arrays in, one out.
 *
 * Python frames run in evaluation frames of C, a run of them in each: one frame a run up to 3.10, from 3.11 on as many as call
 * each other without C between them.  Where something that belongs to a run lies on the C stack (3.12's shim, the _PyCFrame of
 * 3.10 and 3.11), the evaluation frame is the one whose part of the stack holds it; no name is needed.  What lies between a frame
 * and one that was only guessed is put between the two, in neither.  Else evaluation frames known by name are counted from the
 * oldest.
 */
#ifndef INSPECT_MERGE_H
#define INSPECT_MERGE_H

#include "image/abi.h"

struct merge_native {
	addr_t sp;     /* the lowest address of its part of the stack, which ends where the caller's begins; 0: not known */
	bool eval;     /* it is known by its name to evaluate */
	bool gap;      /* it was guessed: between it and the one before, which it called, there may be others */
};
struct merge_run {
	addr_t at;     /* what lies in the part of its evaluation frame; 0: not known */
	size_t n;      /* Python frames, innermost first; may be 0: the last one was just left */
};
enum merge_role { MERGE_PLAIN, MERGE_EVAL /* evaluates the Python frames above it */, MERGE_ENTERING /* its Python frame is not linked yet */ };
struct merge_item {
	bool python;
	uint8_t role;  /* of native ones */
	size_t index;  /* into the native frames, or the Python frames of all runs, counted through */
};

/*
 * Everything is innermost first; ret has room for all frames of both.  whole: the native stack is known to the thread's start.
 * 0; or, with all native frames and then all Python frames in ret, none dropped: ERR_ABSENT, there is nothing to match them
 * by; ERR_CORRUPT, what there is contradicts itself.
 */
int merge_stacks(const struct merge_native *native, size_t n_native, bool whole, const struct merge_run *runs, size_t n_runs,
		 struct merge_item *ret, size_t *ret_n) MUST_CHECK;

#endif
