/* Bytes as memory at a fixed address, read as objects under every built-in layout: what the targets of src/python share. */
#ifndef FUZZ_PY_H
#define FUZZ_PY_H

#include <stdlib.h>
#include <string.h>

#include "every_layout.h"
#include "python/object.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { FUZZ_BASE = 0x20000000 }; /* as BUILD_HEAP, so that what tests/build_py.h builds is an input */

static int fuzz_segment_read(void *ctx, uint64_t offset, void *buf, size_t len)
{
	const struct blob *b = ctx;
	if (offset > b->len || len > b->len - offset)
		return ERR_FAULT;
	memcpy(buf, b->p + offset, len);
	return 0;
}

static inline void fuzz_each_layout(struct blob memory, void (*look)(const struct py *py, struct arena *a, void *arg), void *arg)
{
	size_t n;
	const struct layout *l = every_layout(&n);
	for (size_t i = 0; i < n; i++) {
		struct py py = { .layout = l[i], .img = image_new(l[i].abi) };
		struct segment seg = { .start = FUZZ_BASE, .size = memory.len, .prot = 3, .read = fuzz_segment_read, .ctx = &memory };
		if (memory.len && image_add_segment(py.img, &seg, LAY_OVER) < 0)
			abort();
		image_settle(py.img);
		struct arena *a = arena_new();
		look(&py, a, arg);
		arena_free(a);
		image_close(py.img);
	}
}

#endif
