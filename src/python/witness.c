/*
 * What a thread state knows of its frames besides the chain of them: by that a chain that lost its beginning or its end is told
 * from one that is whole.
 *
 * C frames, 3.10 to 3.12: each call of the evaluation loop keeps one, which is linked to the caller's; the oldest is in the thread
 * state and runs nothing.  From 3.11 on it says which frame that call runs, and a call's first frame is linked to the one that the
 * caller's C frame says (Python/ceval.c 3.11, 3.12: _PyEval_EvalFrameDefault).
 *
 * A thread may have been stopped at any instruction.  A call of the evaluation loop is in tstate->cframe before it says which frame it
 * runs, and the frame before it is linked: as long as the C frame lies next to the thread's stack pointer, nothing it says is evidence.
 *
 * No evidence are, as healthy threads have them: frames on the data stack that no chain leads to (one that returned is unlinked before
 * its locals are cleared, whose __del__ may run for ever; one that is called is there before it is linked, and comparing keywords runs
 * Python), and on 3.15 a chain that does not end at tstate->base_frame (greenlet starts chains of its own).
 */
#include "python/witness.h"

#include "python/walk.h"

enum {
	CFRAMES = 64, CHUNKS = 1000000,
	NEWEST = 64,      /* words of stack: what the evaluation loop keeps below its C frame; up to 43 are seen */
};

/* The C frame in the thread state; 0: this version has none there. */
static addr_t root_of(const struct py *py, addr_t thread)
{
	addr_t root;

	return READ(py, thread, PyThread, root_cframe, &root) == 0 ? root : 0;
}

/* Does a frame stand there?  Only then is it evidence that a C frame names it. */
static bool is_frame(const struct py *py, addr_t frame)
{
	struct walk w = py_frames(py, frame);
	struct py_frame f;

	return py_next_frame(&w, &f) > 0 && !f.no_code;
}

/* Of a thread state without a frame: why it cannot be right; NULL: nothing speaks against it. */
static const char *no_frame(const struct py *py, addr_t thread)
{
	const addr_t root = root_of(py, thread);
	addr_t at, frame;

	if (READ(py, thread, PyThread, cframe, &at) == 0) {
		if (!at)
			return "its C frame is null, which it never is in a thread that has begun";
		for (unsigned n = 0; n < CFRAMES && root && at && at != root; n++) {
			if (READ(py, at, PyCFrame, current_frame, &frame) < 0)
				break;
			if (is_frame(py, frame))
				return "its C frame has no frame, though an older one has";
			if (READ(py, at, PyCFrame, previous, &at) < 0)
				break;
		}
	}
	return NULL;
}

/* Does a call of the evaluation loop run these frames, from the first of which a frame or nothing (*oldest) leads on? */
static bool runs(const struct py *py, addr_t frame, bool *oldest)
{
	struct walk w = py_frames(py, frame);
	struct py_frame f;

	while (py_next_frame(&w, &f) > 0 && !f.no_code) {
		if (HAS(py, PyFrame, is_entry) ? !f.entry : !f.shim)
			continue;
		*oldest = !w.next;
		return *oldest || is_frame(py, w.next);
	}
	return false;
}

/* Does the chain from frame lead on to its end, by way of `by` (0: of whichever)?  What its frames run does not count: damage may be there. */
static bool leads(const struct py *py, addr_t frame, addr_t by)
{
	struct walk w = py_frames(py, frame);
	struct py_frame f;
	bool met = !by;

	while (py_next_frame(&w, &f) > 0)
		met = met || f.addr == by;
	return met && !w.failed && !w.why;
}

/*
 * Did the newest call of the evaluation loop stop while it was being entered or left?  Then *caller is the frame that it was called
 * from, which is all that is sure.
 */
static bool is_entering(const struct py *py, const struct py_thread *t, addr_t *caller)
{
	addr_t at, previous, frame;
	bool oldest = false;

	if (!HAS(py, PyCFrame, current_frame) || (runs(py, t->frame, &oldest) && !oldest) || READ(py, t->addr, PyThread, cframe, &at) < 0 || !at || at == root_of(py, t->addr))
		return false;
	const struct py_tid *on = thread_by_stack(py, at);
	if (!on || on->tid != t->tid || at - on->at >= NEWEST * (addr_t)image_abi(py->img)->width)
		return false;
	if (READ(py, at, PyCFrame, previous, &previous) < 0 || !previous || READ(py, previous, PyCFrame, current_frame, &frame) < 0 ||
	    (frame ? !is_frame(py, frame) : oldest) || leads(py, t->frame, frame))
		return false;
	*caller = frame;
	return true;
}

struct walk py_thread_frames(const struct py *py, const struct py_thread *t)
{
	addr_t caller;
	const bool entering = is_entering(py, t, &caller);
	struct walk w = py_frames(py, entering ? caller : t->frame);

	w.owner = t->addr;
	w.calls = entering;
	if (!t->frame && !t->starting && !entering)
		w.why = no_frame(py, t->addr);
	if (w.why)
		w.failed = ERR_CORRUPT;
	return w;
}

/* Where a chain ends after so many calls, their callers' C frame has none either. */
static const char *by_cframe(const struct py *py, addr_t thread, unsigned long calls)
{
	const addr_t root = root_of(py, thread);
	addr_t at, frame;

	if (!HAS(py, PyCFrame, current_frame) || READ(py, thread, PyThread, cframe, &at) < 0)
		return NULL;
	for (; calls && at && at != root; calls--)
		if (READ(py, at, PyCFrame, previous, &at) < 0)
			return NULL;
	if (calls || !at || READ(py, at, PyCFrame, current_frame, &frame) < 0 || !is_frame(py, frame))
		return NULL;
	return "the chain of frames ends at a call of the evaluation loop whose caller ran Python";
}

/* The first word that frames of functions take where there are none; ERR_ABSENT: no data stack. */
static int empty_top(const struct py *py, addr_t chunk, addr_t *previous, addr_t *ret)
{
	addr_t data;

	if (!chunk || !HAS(py, PyStackChunk, data))
		return ERR_ABSENT;
	int rc = READ(py, chunk, PyStackChunk, previous, previous);
	if (rc == 0)
		rc = READ(py, chunk, PyStackChunk, data, &data);
	return rc == 0 && !add_fits(data, image_abi(py->img)->width, ret) ? ERR_CORRUPT : rc;
}

/* Is the frame the oldest of the data stack?  Then nothing is missing; that it is not says nothing. */
static bool is_oldest(const struct py *py, addr_t thread, addr_t frame)
{
	addr_t chunk, previous = 0, empty, end;
	uint64_t size;

	if (!frame || READ(py, thread, PyThread, datastack_chunk, &chunk) < 0)
		return false;
	for (unsigned n = 0; n < CHUNKS && chunk; n++, chunk = previous) {
		if (empty_top(py, chunk, &previous, &empty) < 0 || READ(py, chunk, PyStackChunk, size, &size) < 0 || !add_fits(chunk, size, &end))
			return false;
		if (frame > chunk && frame < end)
			return !previous && frame == empty;
	}
	return false;
}

void witness_frame(struct walk *w, const struct py_frame *f, addr_t next)
{
	w->calls += HAS(w->py, PyFrame, is_entry) ? f->entry : f->shim;
	if (!f->shim && HAS(w->py, PyFrame, owner) && !f->owner)
		w->oldest = f->addr;
	if (next || is_oldest(w->py, w->owner, w->oldest))
		return;
	w->why = by_cframe(w->py, w->owner, w->calls);
	if (w->why)
		w->failed = ERR_CORRUPT;
}
