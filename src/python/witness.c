/*
 * What a thread state knows of its frames besides the chain of them: by that a chain that lost its beginning or its end is told
 * from one that is whole.
 *
 * C frames, 3.10 to 3.12: each call of the evaluation loop keeps one, which is linked to the caller's; the oldest is in the thread
 * state and runs nothing.  From 3.11 on it says which frame that call runs, and a call's first frame is linked to the one that the
 * caller's C frame says (Python/ceval.c 3.11, 3.12: _PyEval_EvalFrameDefault).
 *
 * The data stack, 3.11 on: frames of functions lie on it one after the other, the oldest from the second word of the first chunk on
 * (Python/pystate.c: push_chunk, _PyThreadState_PopFrame).
 */
#include "python/witness.h"

#include "python/walk.h"

enum { CFRAMES = 64, CHUNKS = 1000000 };

/* The C frame in the thread state; 0: this version has none there. */
static addr_t root_of(const struct py *py, addr_t thread)
{
	addr_t root;

	return READ(py, thread, PyThread, root_cframe, &root) == 0 ? root : 0;
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

/* Of a thread state without a frame: why it cannot be right; NULL: nothing speaks against it. */
static const char *no_frame(const struct py *py, addr_t thread)
{
	const addr_t root = root_of(py, thread);
	addr_t at, frame, previous, top, empty;

	if (READ(py, thread, PyThread, cframe, &at) == 0) {
		if (!at)
			return "its C frame is null, which it never is in a thread that has begun";
		for (unsigned n = 0; n < CFRAMES && root && at && at != root; n++) {
			if (READ(py, at, PyCFrame, current_frame, &frame) < 0)
				break;
			if (frame)
				return "its C frame has no frame, though an older one has";
			if (READ(py, at, PyCFrame, previous, &at) < 0)
				break;
		}
	}
	if (READ(py, thread, PyThread, base_frame, &at) == 0 && at)
		return "its frame pointer is null, though all frames of a thread stand on one";
	if (READ(py, thread, PyThread, datastack_chunk, &at) == 0 && READ(py, thread, PyThread, datastack_top, &top) == 0 &&
	    empty_top(py, at, &previous, &empty) == 0 && (previous || top != empty))
		return "its frame pointer is null, though frames lie on its data stack";
	return NULL;
}

struct walk py_thread_frames(const struct py *py, const struct py_thread *t)
{
	struct walk w = py_frames(py, t->frame);

	w.owner = t->addr;
	if (!t->frame && !t->starting)
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
	if (calls || !at || READ(py, at, PyCFrame, current_frame, &frame) < 0 || !frame)
		return NULL;
	return "the chain of frames ends at a call of the evaluation loop whose caller ran Python";
}

/*
 * Is the frame the oldest of the data stack?  1 yes, ERR_CORRUPT no, ERR_ABSENT: it lies on another one, of which nothing is known
 * (greenlets have their own).
 */
static int is_oldest(const struct py *py, addr_t thread, addr_t frame)
{
	addr_t chunk, previous = 0, empty, end;
	uint64_t size;

	if (!frame || READ(py, thread, PyThread, datastack_chunk, &chunk) < 0)
		return ERR_ABSENT;
	for (unsigned n = 0; n < CHUNKS && chunk; n++, chunk = previous) {
		if (empty_top(py, chunk, &previous, &empty) < 0 || READ(py, chunk, PyStackChunk, size, &size) < 0 || !add_fits(chunk, size, &end))
			return ERR_ABSENT;
		if (frame > chunk && frame < end)
			return previous || frame != empty ? ERR_CORRUPT : 1;
	}
	return ERR_ABSENT;
}

void witness_frame(struct walk *w, const struct py_frame *f, addr_t next)
{
	const struct py *py = w->py;

	w->calls += HAS(py, PyFrame, is_entry) ? f->entry : f->shim;
	if (!f->shim && HAS(py, PyFrame, owner) && !f->owner)
		w->oldest = f->addr;
	if (next)
		return;
	int rc = is_oldest(py, w->owner, w->oldest);
	w->why = rc == ERR_CORRUPT ? "the chain of frames ends before the oldest one on its data stack" :
		 rc == ERR_ABSENT ? by_cframe(py, w->owner, w->calls) : NULL;
	if (w->why)
		w->failed = ERR_CORRUPT;
}
