/*
 * What a running 3.13 or later says of its own layout: _Py_DebugOffsets, with which _PyRuntime begins
 * (Include/internal/pycore_debug_offsets.h; 3.13: pycore_runtime.h).
 *
 * Its first three words have not moved since 3.13.  All else moves with the minor version, so its shape is a struct of
 * the layout tables like any other and is used for that minor version only.  What it states is a claim of the image:
 * nothing is taken before every value has been found possible.
 */
#include "python/layout.h"

#include <string.h>

/* "xdebugpy" as bytes, so in either byte order. */
static const uint8_t cookie[8] = { 'x', 'd', 'e', 'b', 'u', 'g', 'p', 'y' };

int layout_self_version(struct image *img, addr_t runtime, uint32_t *version, bool *free_threaded)
{
	uint8_t found[8];
	uint64_t hex, threaded;
	addr_t last;
	if (runtime == 0 || !add_fits(runtime, 24, &last))
		return ERR_FAULT;
	int rc = image_read(img, runtime, found, sizeof found);
	if (rc < 0)
		return rc;
	if (memcmp(found, cookie, sizeof cookie) != 0)
		return ERR_CORRUPT;
	rc = image_read_uint(img, runtime + 8, 8, &hex);
	if (rc < 0)
		return rc;
	rc = image_read_uint(img, runtime + 16, 8, &threaded);
	if (rc < 0)
		return rc;
	/* 3.13 brought the struct; a release level is one of 0xa, 0xb, 0xc, 0xf (PY_RELEASE_LEVEL_*) */
	unsigned level = hex >> 4 & 0xf;
	if (hex >> 32 || hex >> 24 != 3 || hex < 0x030d0000 || level < 0xa || level == 0xd || level == 0xe || threaded > 1)
		return ERR_CORRUPT;
	*version = (uint32_t)hex;
	*free_threaded = threaded != 0;
	return 0;
}

/* Read what is stated into *l, which is the caller's to throw away. */
static int overlay(struct image *img, addr_t runtime, struct layout *l, unsigned *differ)
{
	const struct py_struct_info *self = &py_struct_info[S_PyDebugOffsets];
	uint32_t stated[PY_STRUCT_COUNT] = { 0 };
	uint64_t v;
	int taken = 0;
	for (unsigned i = 0; i < self->n_fields; i++) {
		enum py_field f = (enum py_field)(self->first + i);
		if (py_field_info[f].kind != K_SIZE || !layout_has(l, f))
			continue;
		int rc = layout_read(img, l, runtime, f, &v);
		if (rc < 0)
			return rc;
		if (v == 0 || v > LAYOUT_MAX_STRUCT)
			return ERR_CORRUPT;
		stated[py_field_info[f].size_target] = (uint32_t)v;
	}
	/* Nothing of the table may be left that ends outside of what the process says: that field is known to be wrong. */
	for (size_t f = 0; f < PY_FIELD_COUNT; f++) {
		uint32_t size = stated[py_field_info[f].of];
		if (!size || l->offset[f] < 0 || (uint32_t)l->offset[f] + layout_width(l, (enum py_field)f) <= size)
			continue;
		l->offset[f] = -1;
		l->from[f] = FROM_NONE;
		++*differ;
	}
	for (size_t s = 0; s < PY_STRUCT_COUNT; s++)
		if (stated[s])
			l->size[s] = stated[s];
	for (unsigned i = 0; i < self->n_fields; i++) {
		enum py_field f = (enum py_field)(self->first + i), target = py_field_info[f].off_target;
		if (py_field_info[f].kind != K_OFF || !layout_has(l, f))
			continue;
		int rc = layout_read(img, l, runtime, f, &v);
		if (rc < 0)
			return rc;
		/* A build without the field states 0 (gil_runtime_state_enabled, co_tlbc in builds with a GIL). */
		if (v == 0 && !layout_has(l, target))
			continue;
		uint32_t size = l->size[py_field_info[target].of];
		if (size == 0)
			size = LAYOUT_MAX_STRUCT;
		if (v > size || layout_width(l, target) > size - v)
			return ERR_CORRUPT;
		if (layout_has(l, target) && l->offset[target] != (int32_t)v)
			++*differ;
		l->offset[target] = (int32_t)v;
		l->from[target] = FROM_SELF;
		taken++;
	}
	return taken;
}

int layout_from_self(struct image *img, addr_t runtime, struct layout *l, unsigned *differ)
{
	uint32_t version;
	bool threaded;
	if (!l->size[S_PyDebugOffsets])
		return ERR_ABSENT;
	int rc = layout_self_version(img, runtime, &version, &threaded);
	if (rc < 0)
		return rc;
	if (version >> 16 != l->version >> 16 || threaded != layout_has(l, F_PyObject_ob_tid))
		return ERR_UNSUPPORTED;
	CLEANUP(cleanup_free) struct layout *trial = xmalloc(sizeof *trial);
	*trial = *l;
	unsigned disagree = 0;
	int taken = overlay(img, runtime, trial, &disagree);
	if (taken < 0)
		return taken;
	*l = *trial;
	if (differ)
		*differ = disagree;
	return taken;
}
