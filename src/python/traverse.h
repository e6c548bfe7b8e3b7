/* What the collector reads of an object that it traverses, and which of it leads to an address that cannot be read. */
#ifndef PYTHON_TRAVERSE_H
#define PYTHON_TRAVERSE_H

#include "python/object.h"

enum traversed_how {
	TRAVERSED_ITEM,   /* where a reference to an object should be, it leads to none */
	TRAVERSED_ARRAY,  /* where the address of its items, keys or values should be, nothing is */
	TRAVERSED_COUNT,  /* so many there cannot be */
	TRAVERSED_NEAR,   /* a word of it leads to what lies there or a little below, and nothing does: what it means is not known */
};
struct traversed {
	enum traversed_how how;
	struct str field;         /* "ob_item[3]", "ma_keys", "value of 'k'", "attribute name", "__dict__", "word at +0x18" */
	addr_t value;             /* what stands there */
	addr_t from, to;          /* where the field, and its neighbours, are */
};
/*
 * Which field of obj had `at`, which could not be read, looked at: 1; 0: none that is seen.  Looks at no more than *left references,
 * and counts them off.  near: also words of which it is not known that they are references, and TRAVERSED_NEAR.
 */
int traverse_trip(const struct py *py, addr_t obj, addr_t at, bool near, uint64_t *left, struct arena *a, struct traversed *ret);

#endif
