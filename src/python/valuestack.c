/*
 * The live part of a frame's value stack.  While the evaluation loop runs a frame it keeps the depth in a register, so
 * for those frames the code gives a lower bound: what an exception raised here would leave on the stack.  That is what
 * a `with` needs: its __exit__ lies below that bound for as long as its body runs.
 */
#include "python/py.h"

#include <stdlib.h>

#include "python/walk.h"

enum { BLOCKS_MAX = 20 /* CO_MAXBLOCKS, Include/code.h 3.8, 3.10 */, TABLE_MAX = 1 << 20, STACK_MAX = 1 << 20 };

static int read_i32(const struct py *py, addr_t obj, enum py_field field, int64_t *ret)
{
	uint64_t value;
	int rc = layout_read(py->img, &py->layout, obj, field, &value);

	if (rc < 0)
		return rc;
	*ret = (int64_t)value;
	return 0;
}

/* Up to 3.10: the level of the innermost block, counted from f_valuestack (Python/ceval.c: STACK_LEVEL()). */
static int block_level(const struct py *py, addr_t frame, int64_t *ret)
{
	int64_t n, level;
	addr_t blocks;

	int rc = read_i32(py, frame, F_PyFrameObject_f_iblock, &n);
	if (rc < 0)
		return rc;
	if (n < 0 || n > BLOCKS_MAX)
		return ERR_CORRUPT;
	if (!n) {
		*ret = 0;
		return 0;
	}
	rc = READ(py, frame, PyFrameObject, f_blockstack, &blocks);
	if (rc == 0)
		rc = read_i32(py, blocks + (uint64_t)(n - 1) * py->layout.size[S_PyTryBlock], F_PyTryBlock_b_level, &level);
	if (rc == 0)
		*ret = level;
	return rc;
}

/* One number of the exception table: six bits a byte, the highest first; 0x40 says that more follow. */
static int table_number(struct cursor *c, uint64_t *ret)
{
	uint8_t byte;
	uint64_t value = 0;

	for (int i = 0; i < 6; i++) {
		int rc = cursor_u8(c, &byte);
		if (rc < 0)
			return rc;
		value = value << 6 | (byte & 0x3f);
		if (!(byte & 0x40)) {
			*ret = value;
			return 0;
		}
	}
	return ERR_CORRUPT;
}

/*
 * Objects/exception_handling_notes.txt (3.11 on): entries of start, length, target, depth << 1 | lasti, sorted by start
 * and not overlapping; units are code units of two bytes.  0 where no entry covers the instruction.
 */
static int table_depth(struct cursor c, uint64_t unit, int64_t *ret)
{
	while (cursor_left(&c)) {
		uint64_t start, length, target, depth;
		int rc = table_number(&c, &start);
		if (rc == 0)
			rc = table_number(&c, &length);
		if (rc == 0)
			rc = table_number(&c, &target);
		if (rc == 0)
			rc = table_number(&c, &depth);
		if (rc < 0)
			return rc;
		if (unit >= start && unit - start < length) {
			*ret = (int64_t)(depth >> 1);
			return 0;
		}
	}
	*ret = 0;
	return 0;
}

static int exception_depth(const struct py *py, const struct py_frame *f, int64_t *ret)
{
	addr_t table, at;
	uint64_t size;

	*ret = 0;
	if (f->lasti < 0 || !HAS(py, PyCode, co_exceptiontable))
		return 0;
	int rc = READ(py, f->code, PyCode, co_exceptiontable, &table);
	if (rc == 0)
		rc = READ(py, table, PyBytes, ob_size, &size);
	if (rc == 0)
		rc = READ(py, table, PyBytes, ob_sval, &at);
	if (rc < 0)
		return rc;
	if (size > TABLE_MAX)
		return ERR_LIMIT;
	CLEANUP(cleanup_free) uint8_t *bytes = xmalloc((size_t)size + 1);
	rc = image_read(py->img, at, bytes, (size_t)size);
	if (rc < 0)
		return rc;
	return table_depth(cursor_of(bytes, (size_t)size, false), (uint64_t)f->lasti / 2, ret);
}

struct extent {
	addr_t base;
	int64_t depth; /* values on the stack, -1: running, see below */
};

static int extent_of(const struct py *py, const struct py_frame *f, struct extent *ret)
{
	uint8_t width = image_abi(py->img)->width;
	addr_t base = 0, top = 0;
	int64_t n = 0, locals = 0;
	int rc;

	switch (TRAIT(py, stack_depth)) {
	case STACK_DEPTH_POINTER:
		rc = READ(py, f->addr, PyFrameObject, f_valuestack, &base);
		if (rc == 0)
			rc = READ(py, f->addr, PyFrameObject, f_stacktop, &top);
		if (rc < 0)
			return rc;
		if (top && (top < base || (top - base) % width))
			return ERR_CORRUPT;
		*ret = (struct extent){ base, top ? (int64_t)((top - base) / width) : -1 };
		return 0;
	case STACK_DEPTH_DEPTH:
		rc = READ(py, f->addr, PyFrameObject, f_valuestack, &base);
		if (rc == 0)
			rc = read_i32(py, f->addr, F_PyFrameObject_f_stackdepth, &n);
		if (rc == 0)
			*ret = (struct extent){ base, n < 0 ? -1 : n };
		return rc;
	default:
		break;
	}
	rc = READ(py, f->addr, PyFrame, localsplus, &base);
	if (rc == 0)
		rc = read_i32(py, f->code, F_PyCode_co_nlocalsplus, &locals);
	if (rc < 0)
		return rc;
	if (locals < 0 || locals > STACK_MAX)
		return ERR_CORRUPT;
	base += (uint64_t)locals * width;
	if (TRAIT(py, stack_depth) == STACK_DEPTH_TOP) {
		rc = read_i32(py, f->addr, F_PyFrame_stacktop, &n);
		if (rc < 0)
			return rc;
		if (n >= 0 && n < locals)
			return ERR_CORRUPT;
		*ret = (struct extent){ base, n < 0 ? -1 : n - locals };
		return 0;
	}
	rc = READ(py, f->addr, PyFrame, stackpointer, &top);
	if (rc < 0)
		return rc;
	if (top && (top < base || (top - base) % width))
		return ERR_CORRUPT;
	*ret = (struct extent){ base, top ? (int64_t)((top - base) / width) : -1 };
	return 0;
}

/* What a slot holds: in 3.14 a tagged reference (1: NULL, 3 in the low bits: an int, no object; 3.15: 2 a raw pointer). */
static addr_t slot_object(const struct py *py, uint64_t bits)
{
	if (TRAIT(py, stackref) == STACKREF_PLAIN)
		return bits;
	if ((bits & 3) == 3 || (TRAIT(py, stackref) == STACKREF_TAGS3 && (bits & 3) == 2))
		return 0;
	return bits & ~(uint64_t)3;
}

int py_frame_stack(const struct py *py, const struct py_frame *f, addr_t *ret, size_t max, bool *sure)
{
	struct extent e = { 0 };
	int64_t limit = 0;

	if (f->shim || !f->code)
		return ERR_ABSENT;
	int rc = extent_of(py, f, &e);
	if (rc == 0)
		rc = read_i32(py, f->code, F_PyCode_co_stacksize, &limit);
	if (rc < 0)
		return rc;
	bool known = e.depth >= 0;
	if (!known)
		rc = HAS(py, PyFrameObject, f_blockstack) ? block_level(py, f->addr, &e.depth) : exception_depth(py, f, &e.depth);
	if (rc < 0)
		return rc;
	if (e.depth < 0 || e.depth > limit || limit > STACK_MAX)
		return ERR_CORRUPT;
	size_t n = (size_t)e.depth < max ? (size_t)e.depth : max;
	uint8_t width = image_abi(py->img)->width;
	for (size_t i = 0; i < n; i++) {
		uint64_t bits;
		rc = image_read_uint(py->img, e.base + i * width, width, &bits);
		if (rc < 0)
			return rc;
		ret[i] = slot_object(py, bits);
	}
	*sure = known;
	return (int)n;
}
