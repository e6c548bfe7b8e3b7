/*
 * 2.7's exceptions that only a `finally` holds: Python/ceval.c of 2.7 pushes traceback, value and type onto the frame's value stack
 * for it and sets sys.exc_info() for `except` and `with` alone ("Don't do this for 'finally'").
 *
 * How deep the stack is while a frame runs is kept nowhere; the block that was left for the `finally` tells, whose entry stays in the
 * frame's table until one that is set up inside of it takes its place, and then that one's level is what lies above the three.
 */
#include "python/exception.h"

#include <stdlib.h>

enum {
	END_FINALLY = 88, HAVE_ARGUMENT = 90, SETUP_EXCEPT = 121, SETUP_FINALLY = 122, SETUP_WITH = 143, /* Lib/opcode.py of 2.7 */
	BLOCKS_MAX = 20, /* CO_MAXBLOCKS */
	NESTED_MAX = 64, CODE_MAX = 1 << 20, SCANNED_MAX = 1 << 24, HELD = 3,
};

/* A try block, or the code of a `finally`: from its first instruction to its END_FINALLY. */
struct body { int64_t handler, end; bool is_finally; };

/* The bodies that the instruction is in, innermost first: how many. */
static int bodies_at(struct blob code, int64_t lasti, struct body *ret)
{
	struct body open[NESTED_MAX];
	size_t n = 0, found = 0;
	for (size_t at = 0, next; at < code.len; at = next) {
		const uint8_t op = code.p[at];
		next = at + (op >= HAVE_ARGUMENT ? 3 : 1);
		if (next > code.len)
			return ERR_CORRUPT;
		if (op == SETUP_EXCEPT || op == SETUP_FINALLY || op == SETUP_WITH) {
			if (n == NESTED_MAX)
				return ERR_LIMIT;
			open[n++] = (struct body){ .handler = (int64_t)(next + (code.p[at + 1] | (size_t)code.p[at + 2] << 8)), .is_finally = op == SETUP_FINALLY };
		} else if (op == END_FINALLY) {
			if (!n)
				return ERR_CORRUPT;
			struct body b = open[--n];
			b.end = (int64_t)at;
			if (b.is_finally && lasti >= b.handler && lasti <= b.end)
				ret[found++] = b; /* of NESTED_MAX at most: they are nested in each other */
		}
	}
	return (int)found;
}

static int number(const struct py *py, addr_t obj, enum py_field field, int64_t *ret)
{
	uint64_t v;
	int rc = layout_read(py->img, &py->layout, obj, field, &v);
	if (rc == 0)
		*ret = (int64_t)v;
	return rc;
}

/* The level of the value stack at which the body began; -1: its block's entry has been written over by that of another. */
static int level_of(const struct py *py, addr_t frame, const struct body *b, int64_t *ret)
{
	const uint64_t size = py->layout.size[S_PyTryBlock];
	int64_t live = 0, handler = 0, level = 0, i = 0;
	addr_t blocks;
	int rc = number(py, frame, F_PyFrameObject_f_iblock, &live);
	if (rc == 0)
		rc = READ(py, frame, PyFrameObject, f_blockstack, &blocks);
	if (rc < 0)
		return rc;
	if (live < 0 || live > BLOCKS_MAX)
		return ERR_CORRUPT;
	for (; i < BLOCKS_MAX; i++) {
		if ((rc = number(py, blocks + (uint64_t)i * size, F_PyTryBlock_b_handler, &handler)) < 0)
			return rc;
		if (i >= live || (handler > b->handler && handler <= b->end))
			break;
	}
	if (i == BLOCKS_MAX)
		return ERR_CORRUPT;
	if ((rc = number(py, blocks + (uint64_t)i * size, F_PyTryBlock_b_level, &level)) < 0)
		return rc;
	*ret = handler == b->handler ? level : handler > b->handler && handler <= b->end ? level - HELD : -1;
	return 0;
}

/* The three words at that level, if they are an exception that passed the frame. */
static int held_at(const struct py *py, addr_t frame, int64_t level, struct py_exception *ret)
{
	const uint8_t width = image_abi(py->img)->width;
	struct py_exception e;
	int64_t limit = 0;
	addr_t stack, code, at;
	struct object o;
	int rc = READ(py, frame, PyFrameObject, f_valuestack, &stack);
	if (rc == 0)
		rc = READ(py, frame, PyFrameObject, f_code, &code);
	if (rc == 0)
		rc = number(py, code, F_PyCode_co_stacksize, &limit);
	if (rc < 0)
		return rc;
	if (level < 0 || level > limit - HELD)
		return ERR_ABSENT;
	addr_t *const slot[HELD] = { &e.traceback, &e.value, &e.type };
	for (int i = 0; i < HELD; i++)
		if ((rc = image_read_ptr(py->img, stack + (addr_t)(level + i) * width, slot[i])) < 0)
			return rc;
	if (e.traceback == py->types.none || !e.traceback || READ(py, e.traceback, PyTraceback, tb_frame, &at) < 0 || at != frame ||
	    object_at(py, e.type, &o) < 0 || o.kind != O_TYPE)
		return ERR_ABSENT;
	if (e.value == py->types.none)
		e.value = 0;
	*ret = e;
	return 0;
}

static int held_by(const struct py *py, const struct py_frame *f, uint64_t *scanned, struct py_exception *ret)
{
	struct body body[NESTED_MAX];
	uint64_t size;
	addr_t bytes, at;
	if (f->shim || !f->code || f->lasti < 0)
		return ERR_ABSENT;
	int rc = READ(py, f->code, PyCode, co_code, &bytes);
	if (rc == 0)
		rc = READ(py, bytes, PyBytes, ob_size, &size);
	if (rc == 0)
		rc = READ(py, bytes, PyBytes, ob_sval, &at);
	if (rc < 0)
		return rc;
	if (size > CODE_MAX || size > SCANNED_MAX - *scanned)
		return ERR_LIMIT;
	*scanned += size;
	CLEANUP(cleanup_free) uint8_t *code = xmalloc((size_t)size + 1);
	if ((rc = image_read(py->img, at, code, (size_t)size)) < 0)
		return rc;
	const int n = bodies_at((struct blob){ code, (size_t)size }, f->lasti, body);
	for (int i = 0; i < n; i++) {
		int64_t level;
		if ((rc = level_of(py, f->addr, &body[i], &level)) < 0)
			return rc;
		if ((rc = held_at(py, f->addr, level, ret)) != ERR_ABSENT)
			return rc;
	}
	return n < 0 ? n : ERR_ABSENT;
}

int py_exception_in_finally(const struct py *py, addr_t thread, struct py_exception *ret)
{
	struct py_frame f;
	uint64_t scanned = 0;
	addr_t first;
	int rc;
	if (TRAIT(py, handled_kept) <= 0)
		return ERR_ABSENT;
	if ((rc = READ(py, thread, PyThread, frame, &first)) < 0)
		return rc;
	rc = ERR_ABSENT;
	for (struct walk w = py_frames(py, first); rc == ERR_ABSENT;) {
		int got = py_next_frame(&w, &f);
		if (got <= 0)
			return got < 0 ? got : ERR_ABSENT;
		rc = held_by(py, &f, &scanned, ret);
	}
	return rc;
}
