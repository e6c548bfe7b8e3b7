/*
 * Frame chains of every shape: frame objects linked by f_back (up to 3.10), interpreter frames linked by previous
 * (3.11 on), with shims between runs of the evaluation loop (3.12 on).
 */
#include "python/py.h"
#include "python/walk.h"
#include "python/prove.h"
#include "python/witness.h"

struct walk py_frames(const struct py *py, addr_t first)
{
	return walk_start(py, first, PY_MAX_FRAMES);
}

/* 3.14 keeps references with tags in the low bits where 3.13 has pointers (pycore_stackref.h). */
static addr_t untag(const struct py *py, addr_t bits)
{
	return TRAIT(py, stackref) == STACKREF_PLAIN ? bits : bits & ~(addr_t)3;
}

/* Is obj a code object?  0 yes, ERR_ABSENT something else, <0 it cannot be read. */
static int check_code(struct walk *w, addr_t obj)
{
	const struct py *py = w->py;
	addr_t type;

	if (obj == w->code)
		return 0;
	int rc = READ(py, obj, PyObject, ob_type, &type);
	if (rc < 0)
		return rc;
	if (py->types.code && type != py->types.code)
		return ERR_ABSENT;
	w->code = obj;
	return 0;
}

/* Each frame keeps its namespaces: does one of them show that this is a frame, whatever its code is? */
static bool has_namespace(const struct py *py, const struct py_frame *f)
{
	static const enum py_field fields[] = { F_PyFrame_globals, F_PyFrame_builtins, F_PyFrameObject_f_globals, F_PyFrameObject_f_builtins };
	const bool inner = HAS(py, PyFrame, previous);
	addr_t dict, type;

	for (size_t i = inner ? 0 : 2; py->types.dict && i < (inner ? 2 : 4); i++)
		if (layout_read(py->img, &py->layout, f->addr, fields[i], &dict) == 0 && READ(py, dict, PyObject, ob_type, &type) == 0 &&
		    type == py->types.dict)
			return true;
	return false;
}

/*
 * In what is left of a cut core: is it one of a chain of frames all the same, though its code is lost?  Frames of one chain nearly always
 * have the same builtins, whose address they keep; where no frame before told it, the next one has to have it too.
 */
static bool shares_builtins(struct walk *w, const struct py_frame *f, addr_t code, addr_t next)
{
	const struct py *py = w->py;
	const enum py_field field = HAS(py, PyFrame, previous) ? F_PyFrame_builtins : F_PyFrameObject_f_builtins;
	addr_t own, other = w->builtins;

	if (!py_is_lost(py, code) || layout_read(py->img, &py->layout, f->addr, field, &own) < 0 || !own || own % image_abi(py->img)->width)
		return false;
	return other ? own == other : next && layout_read(py->img, &py->layout, next, field, &other) == 0 && own == other;
}

/*
 * The frame's code, if it is a code object.  A damaged one takes its function's name from the report, not the frame and not
 * those that called it: then f says what stands there.  <0: this is no frame.
 */
static int take_code(struct walk *w, struct py_frame *f, addr_t code, addr_t next)
{
	const enum py_field builtins = HAS(w->py, PyFrame, previous) ? F_PyFrame_builtins : F_PyFrameObject_f_builtins;
	int rc = code ? check_code(w, code) : ERR_CORRUPT;

	if (rc == 0) {
		f->code = code;
		if (layout_read(w->py->img, &w->py->layout, f->addr, builtins, &w->builtins) < 0)
			w->builtins = 0;
		return 0;
	}
	if (!has_namespace(w->py, f) && !(rc == ERR_FAULT && shares_builtins(w, f, code, next)))
		return rc == ERR_ABSENT ? ERR_CORRUPT : rc;
	f->no_code = rc;
	f->stands = code;
	return 0;
}

/* Up to 3.10: PyFrameObject. */
static int next_frame_object(struct walk *w, struct py_frame *f, addr_t *next)
{
	const struct py *py = w->py;
	uint64_t lasti;
	addr_t code;

	int rc = READ(py, f->addr, PyFrameObject, f_back, next);
	if (rc == 0)
		rc = READ(py, f->addr, PyFrameObject, f_code, &code);
	if (rc == 0)
		rc = READ(py, f->addr, PyFrameObject, f_lasti, &lasti);
	if (rc == 0)
		rc = take_code(w, f, code, *next);
	if (rc < 0)
		return rc;
	if (f->code && (int64_t)lasti >= 0)
		f->lasti = (int64_t)lasti * TRAIT(py, lasti_unit);
	else if (f->code && (int64_t)lasti < -1)
		f->lasti = LASTI_NOWHERE;
	f->entry = true; /* each call of a Python function is a call of the evaluation loop */
	return 0;
}

/* Where the instructions that this frame runs begin. */
static int code_start(const struct py *py, const struct py_frame *f, addr_t *ret)
{
	uint64_t index, size;
	addr_t tlbc;

	/* Free-threaded 3.14: threads may run a copy of their own; entry 0 is the code object's (pycore_code.h). */
	if (HAS(py, PyFrame, tlbc_index) && HAS(py, PyCode, co_tlbc) && READ(py, f->addr, PyFrame, tlbc_index, &index) == 0 &&
	    (int32_t)index > 0 && READ(py, f->code, PyCode, co_tlbc, &tlbc) == 0 && tlbc) {
		addr_t entries;
		uint8_t width = image_abi(py->img)->width;
		int rc = READ(py, tlbc, PyCodeArray, size, &size);
		if (rc == 0)
			rc = READ(py, tlbc, PyCodeArray, entries, &entries);
		if (rc < 0)
			return rc;
		if (index >= size)
			return ERR_CORRUPT;
		return image_read_ptr(py->img, entries + index * width, ret);
	}
	return READ(py, f->code, PyCode, co_code_adaptive, ret);
}

/* What no version writes there is damage, and says nothing of the frame. */
static bool is_shim_owner(const struct py *py, uint64_t owner)
{
	return TRAIT(py, owner_shim) >= 0 && owner >= (uint64_t)TRAIT(py, owner_shim) && owner <= (uint64_t)TRAIT(py, owner_last);
}

/*
 * 3.12 on: while greenlet switches, it links a thread's frames past the shims, and keeps the link that was there in the frame object's own
 * room for a frame (greenlet's TGreenlet.cpp, expose_frames).  True: that one leads to a shim.
 */
static bool is_exposed(const struct py *py, addr_t frame, addr_t *shim)
{
	addr_t object, room, prev;
	uint64_t owner;

	if (TRAIT(py, owner_shim) == 255 || READ(py, frame, PyFrame, frame_obj, &object) < 0 || !object || READ(py, object, PyFrameObject, f_frame_data, &room) < 0 ||
	    room == frame || image_read_ptr(py->img, room, &prev) < 0 || !prev || READ(py, prev, PyFrame, owner, &owner) < 0 || !is_shim_owner(py, owner))
		return false;
	*shim = prev;
	return true;
}

/*
 * Is this where a thread's chain may end?  From 3.12 on the evaluation loop puts a shim beneath every run of it, in 3.11 it marks the
 * run's first frame (Python/ceval.c, _PyEval_EvalFrameDefault); frame objects end anywhere.
 */
static bool may_end(const struct py *py, const struct py_frame *f)
{
	if (HAS(py, PyFrame, is_entry))
		return f->entry;
	return f->shim || !HAS(py, PyFrame, previous) || TRAIT(py, owner_shim) == 255;
}

/*
 * 3.11 on: _PyInterpreterFrame.
 *
 * The position is a pointer into the code.  prev_instr (3.11, 3.12) is the instruction that runs, or the last cache entry of
 * it; instr_ptr (3.13 on) the one that runs, and in a frame that waits for a call it made, the call (return_offset tells
 * where it goes on).  CPython's own PyFrame_GetLasti and traceback take the same difference.
 */
static int next_interpreter_frame(struct walk *w, struct py_frame *f, addr_t *next)
{
	const struct py *py = w->py;
	uint64_t owner = 0, is_entry;
	addr_t code, at, start;

	int rc = READ(py, f->addr, PyFrame, previous, next);
	if (rc == 0)
		rc = READ(py, f->addr, PyFrame, code, &code);
	if (rc < 0)
		return rc;
	if (READ(py, f->addr, PyFrame, owner, &owner) == 0)
		f->owner = (uint8_t)owner;
	code = untag(py, code);
	/* 3.12's shim has the code of a trampoline, later ones None: the owner tells, so it is asked first. */
	if (is_shim_owner(py, owner) || (HAS(py, PyFrame, instr_ptr) && code && code == py->types.none)) {
		f->shim = true;
		return 0;
	}
	rc = take_code(w, f, code, *next);
	if (rc == 0 && f->code)
		rc = HAS(py, PyFrame, instr_ptr) ? READ(py, f->addr, PyFrame, instr_ptr, &at) : READ(py, f->addr, PyFrame, prev_instr, &at);
	if (rc == 0 && f->code)
		rc = code_start(py, f, &start);
	if (rc < 0)
		return rc;
	/* 3.11 and 3.12 start one instruction before the first. */
	if (f->code && at >= start && at - start <= INT32_MAX && !((at - start) & 1))
		f->lasti = (int64_t)(at - start);
	else if (f->code && (HAS(py, PyFrame, instr_ptr) || at + 2 != start))
		f->lasti = LASTI_NOWHERE;
	if (HAS(py, PyFrame, is_entry)) {
		f->entry = READ(py, f->addr, PyFrame, is_entry, &is_entry) == 0 && is_entry;
		return 0;
	}
	f->entry = *next && READ(py, *next, PyFrame, owner, &owner) == 0 && is_shim_owner(py, owner);
	if (!f->entry && is_exposed(py, f->addr, &at)) {
		f->entry = true;
		*next = *next ? *next : at;
	}
	f->entry |= !*next;
	return 0;
}

/*
 * No function runs in it: 3.13 on writes None there (pycore_frame.h, _PyFrame_PushTrampolineUnchecked).  Where None is not known, what
 * stands there is no function; where the layout does not tell of it, it may be either, and is taken for one.
 */
static bool lacks_function(const struct py *py, const struct py_frame *f)
{
	addr_t func, type;

	if (!HAS(py, PyFrame, func) || READ(py, f->addr, PyFrame, func, &func) < 0)
		return true;
	func = untag(py, func);
	if (!func || py->types.none || !py->types.function)
		return !func || func == py->types.none;
	return READ(py, func, PyObject, ob_type, &type) < 0 || type != py->types.function;
}

/*
 * Where a class is called whose __init__ is Python's, 3.13 on lays a frame of the interpreter's own between (Python/specialize.c:
 * _Py_InitCleanup), which tracebacks leave out too.  Its code has one text for its name, its qualified name and its file; a function
 * that is named as its file is has that too, where both are one constant: exec(compile(text, "template", "exec")) of def template().
 */
static bool is_own(struct walk *w, const struct py_frame *f)
{
	const struct py *py = w->py;
	addr_t name, other;

	/* In a cut core its code may be lost; None, in its function's place, is data of a file, which no function is. */
	if (f->no_code == ERR_FAULT && py_is_lost(py, f->stands) && !f->entry && !f->owner && TRAIT(py, owner_shim) != 255 && HAS(py, PyFrame, func) &&
	    READ(py, f->addr, PyFrame, func, &other) == 0 && image_mapping_at(py->img, untag(py, other)))
		return true;
	if (!f->code || f->entry || f->owner || f->code == w->plain || TRAIT(py, owner_shim) == 255 || READ(py, f->code, PyCode, co_name, &name) < 0)
		return false;
	if (READ(py, f->code, PyCode, co_qualname, &other) == 0 && other == name && READ(py, f->code, PyCode, co_filename, &other) == 0 && other == name &&
	    lacks_function(py, f))
		return true;
	w->plain = f->code;
	return false;
}

int py_next_frame(struct walk *w, struct py_frame *ret)
{
	for (;;) {
		int rc = walk_enter(w);
		if (rc <= 0)
			return rc;
		struct py_frame f = { .addr = w->next, .lasti = -1 };
		addr_t next;
		if (HAS(w->py, PyFrame, previous))
			rc = next_interpreter_frame(w, &f, &next);
		else
			rc = next_frame_object(w, &f, &next);
		if (rc == 0 && w->owner)
			rc = witness_place(w, &f);
		if (rc < 0)
			return walk_stop(w, rc);
		walk_leave(w, next);
		if (!next && !may_end(w->py, &f))
			w->failed = ERR_CORRUPT;
		else if (w->owner)
			witness_frame(w, &f, next);
		if (is_own(w, &f))
			continue;
		*ret = f;
		return 1;
	}
}
