/*
 * What a thread state knows of its frames besides the chain of them: by that a chain that lost its beginning or its end is told
 * from one that is whole.
 *
 * C frames, 3.10 to 3.12: each call of the evaluation loop keeps one, which is linked to the caller's; the oldest is in the thread
 * state and runs nothing.  From 3.11 on it says which frame that call runs, and a call's first frame is linked to the one that the
 * caller's C frame says (Python/ceval.c 3.11, 3.12: _PyEval_EvalFrameDefault).
 *
 * A thread may have been stopped at any instruction.  A call of the evaluation loop is in tstate->cframe before it says which frame it
 * runs, and the frame before it is linked: as long as the C frame lies next to the thread's stack pointer, what it says counts only where
 * it agrees with the caller's C frame and the data stack; what an earlier call left there looks like a frame too.
 *
 * The data stack, 3.11 on: a function that another one calls within one call of the evaluation loop has its frame right behind the
 * caller's, whose code says how long that is, or at the start of a new chunk (Python/pystate.c, _PyThreadState_PushFrame, push_chunk);
 * generators have theirs in themselves.
 *
 * No evidence are, as healthy threads have them: frames on the data stack that no chain leads to (one that returned is unlinked before
 * its locals are cleared, whose __del__ may run for ever; one that is called is there before it is linked, and comparing keywords runs
 * Python: each time by a new call of the evaluation loop, before which there may be a gap for that), and on 3.15 a chain that does not end
 * at tstate->base_frame (greenlet starts chains of its own).
 *
 * So what is damaged unseen: up to 3.10 an f_back, and from 3.13 on the link between two calls of the evaluation loop, that leads to an
 * older frame of the same thread.  There only the native stack tells, whose calls of the loop then are more than the chain's.
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
			if (!at) /* the oldest is the thread state's own (3.11, 3.12 Python/ceval.c: every call links to the one before) */
				return "its C frame leads to none, as where the stack that it is on was overwritten";
		}
	}
	return NULL;
}

/* Does a call of the evaluation loop run these frames, of which *first is the one it began with, and *after (0: nothing) the next one? */
static bool runs(const struct py *py, addr_t frame, addr_t *first, addr_t *after)
{
	struct walk w = py_frames(py, frame);
	struct py_frame f;

	*first = 0;
	while (py_next_frame(&w, &f) > 0 && !f.no_code) {
		*first = f.shim ? *first : f.addr;
		if (HAS(py, PyFrame, is_entry) ? !f.entry : !f.shim)
			continue;
		*after = w.next;
		return !w.next || is_frame(py, w.next);
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
 * Does it lie where the thread's data stack has no frame any more?  A function that returns takes its frame from there before its caller is
 * the current one (3.11), but never that which the call of the evaluation loop began with.
 */
static bool is_above(const struct py *py, addr_t thread, addr_t frame)
{
	addr_t chunk, top, end;
	uint64_t size;

	return HAS(py, PyStackChunk, size) && READ(py, thread, PyThread, datastack_chunk, &chunk) == 0 && READ(py, thread, PyThread, datastack_top, &top) == 0 &&
	       chunk && READ(py, chunk, PyStackChunk, size, &size) == 0 && add_fits(chunk, size, &end) && top > chunk && top <= end && frame >= top && frame < end;
}

/*
 * Did the newest call of the evaluation loop stop while it was being entered or left?  Then *caller is the frame that it was called
 * from, which is all that is sure.
 */
static bool is_entering(const struct py *py, const struct py_thread *t, addr_t *caller)
{
	addr_t at, previous, frame, first, after = 0;

	if (!HAS(py, PyCFrame, current_frame) || READ(py, t->addr, PyThread, cframe, &at) < 0 || !at || at == root_of(py, t->addr))
		return false;
	const struct py_tid *on = thread_by_stack(py, at);
	if (!on || on->tid != t->tid || at - on->at >= NEWEST * (addr_t)image_abi(py->img)->width)
		return false;
	if (READ(py, at, PyCFrame, previous, &previous) < 0 || !previous || READ(py, previous, PyCFrame, current_frame, &frame) < 0 || (frame && !is_frame(py, frame)))
		return false;
	const bool run = runs(py, t->frame, &first, &after);
	if (run ? after == frame && !is_above(py, t->addr, first) : leads(py, t->frame, frame))
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
	if (!HAS(py, PyCFrame, current_frame) || READ(py, t->addr, PyThread, cframe, &w.cframe) < 0 ||
	    (entering && READ(py, w.cframe, PyCFrame, previous, &w.cframe) < 0))
		w.cframe = 0;
	if (!t->frame && !t->starting && !entering)
		w.why = no_frame(py, t->addr);
	if (w.why)
		w.failed = ERR_CORRUPT;
	return w;
}

/* The call of the evaluation loop that w->cframe is of began with a frame that next follows: its caller's C frame has that one too. */
static const char *by_cframe(struct walk *w, addr_t next)
{
	const struct py *py = w->py;
	const addr_t at = w->cframe;
	addr_t frame;

	if (!at || at == root_of(py, w->owner) || READ(py, at, PyCFrame, previous, &w->cframe) < 0)
		w->cframe = 0;
	if (!w->cframe || READ(py, w->cframe, PyCFrame, current_frame, &frame) < 0 || frame == next || !is_frame(py, frame))
		return NULL;
	return next ? "the chain of frames leads on from a call of the evaluation loop to another frame than its caller's"
		    : "the chain of frames ends at a call of the evaluation loop whose caller ran Python";
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

/*
 * Has this chunk of the thread's data stack the frame?  *first: where the first one of it is; *previous: the chunk before it.  The walk and
 * the chunks both lead from the newest to the oldest: chunks that are behind are not looked at again.
 */
static bool find_chunk(struct walk *w, addr_t frame, addr_t *first, addr_t *previous)
{
	const struct py *py = w->py;
	addr_t end;
	uint64_t size;

	if (!w->chunk && (w->n_chunks || READ(py, w->owner, PyThread, datastack_chunk, &w->chunk) < 0))
		return false;
	for (; w->chunk && w->n_chunks < CHUNKS; w->n_chunks++, w->chunk = *previous) {
		/* Only the oldest leaves its first word empty. */
		if (empty_top(py, w->chunk, previous, first) < 0 || READ(py, w->chunk, PyStackChunk, size, &size) < 0 || !add_fits(w->chunk, size, &end))
			break;
		*first -= *previous ? image_abi(py->img)->width : 0u;
		if (frame > w->chunk && frame < end)
			return true;
		if (!(w->n_chunks & (w->n_chunks + 1)))
			w->chunk_mark = w->chunk;
		if (*previous == w->chunk_mark) /* they lead in a circle */
			break;
	}
	w->chunk = 0;
	w->n_chunks++;
	return false;
}

/* Is the frame the oldest of the data stack?  Then nothing is missing; that it is not says nothing. */
static bool is_oldest(struct walk *w, addr_t frame)
{
	addr_t first, previous;

	return frame && find_chunk(w, frame, &first, &previous) && !previous && frame == first;
}

/* Where what a frame of this code takes ends, as it stands on the data stack; 0: not known. */
static addr_t end_of(const struct py *py, const struct py_frame *f)
{
	uint64_t locals, stack;
	addr_t end;

	if (READ(py, f->code, PyCode, co_nlocalsplus, &locals) < 0 || READ(py, f->code, PyCode, co_stacksize, &stack) < 0 || locals > INT32_MAX || stack > INT32_MAX ||
	    !add_fits(f->addr, (uint64_t)py->layout.offset[F_PyFrame_localsplus], &end) || !add_fits(end, (locals + stack) * image_abi(py->img)->width, &end))
		return 0;
	return end;
}

int witness_place(struct walk *w, const struct py_frame *f)
{
	const struct py *py = w->py;
	const addr_t above = w->above;
	const bool placed = HAS(py, PyFrame, owner) && HAS(py, PyFrame, localsplus) && !f->shim && !f->owner && f->code;
	addr_t first, previous, end;

	w->above = placed && !f->entry ? f->addr : 0;
	if (!above || !placed || !(end = end_of(py, f)) || end == above)
		return 0;
	if (!find_chunk(w, above, &first, &previous) || above == first)
		return 0;
	w->why = "a frame's caller is not the one below it on the stack of frames";
	return ERR_CORRUPT;
}

void witness_frame(struct walk *w, const struct py_frame *f, addr_t next)
{
	const bool call = HAS(w->py, PyFrame, is_entry) ? f->entry : f->shim;

	if (!f->shim && HAS(w->py, PyFrame, owner) && !f->owner)
		w->oldest = f->addr;
	if (call && (next || !is_oldest(w, w->oldest)))
		w->why = by_cframe(w, next);
	if (w->why)
		w->failed = ERR_CORRUPT;
}
