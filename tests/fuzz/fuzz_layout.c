/*
 * The text of a .layout file; or, where it begins with "xdebugpy", the debug offsets of a process, laid over every
 * built-in table.  What is accepted must be whole: read back from print, and no field outside of its struct.
 */
#include <stdlib.h>
#include <string.h>

#include "every_layout.h"
#include "python/layout.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { BASE = 0x10000 };

static int segment_read(void *ctx, uint64_t offset, void *buf, size_t len)
{
	const struct blob *b = ctx;
	if (offset > b->len || len > b->len - offset)
		return ERR_FAULT;
	memcpy(buf, b->p + offset, len);
	return 0;
}

static void check_bounds(const struct layout *l)
{
	for (size_t f = 0; f < PY_FIELD_COUNT; f++) {
		uint32_t size = l->size[py_field_info[f].of];
		if (l->offset[f] < -1 || (l->offset[f] >= 0 && size > LAYOUT_MAX_STRUCT))
			abort();
		if (l->offset[f] >= 0 && size && (uint32_t)l->offset[f] + layout_width(l, (enum py_field)f) > size)
			abort();
	}
}

static void fuzz_text(struct str text, const char *config)
{
	struct layout l, back;
	struct err err;
	if (layout_parse(text, config, &l, &err) < 0)
		return;
	check_bounds(&l);
	char *printed = NULL;
	size_t len = 0;
	FILE *f = open_memstream(&printed, &len);
	layout_print(&l, config, f);
	fclose(f);
	if (layout_parse((struct str){ printed, len }, config, &back, &err) < 0)
		abort();
	if (memcmp(l.offset, back.offset, sizeof l.offset) != 0 || memcmp(l.size, back.size, sizeof l.size) != 0 ||
	    memcmp(l.trait, back.trait, sizeof l.trait) != 0 || l.version != back.version || l.had != back.had)
		abort();
	free(printed);
}

static void fuzz_self(struct blob memory)
{
	size_t n;
	const struct layout *all = every_layout(&n);
	for (size_t i = 0; i < n; i++) {
		struct layout l = all[i];
		struct image *img = image_new(l.abi);
		struct segment seg = { .start = BASE, .size = memory.len, .prot = 1, .read = segment_read, .ctx = &memory };
		if (image_add_segment(img, &seg, LAY_OVER) < 0)
			abort();
		image_settle(img);
		unsigned differ;
		if (layout_from_self(img, BASE, &l, &differ) >= 0)
			check_bounds(&l);
		image_close(img);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size >= 8 && memcmp(data, "xdebugpy", 8) == 0) {
		fuzz_self((struct blob){ data, size });
		return 0;
	}
	struct str text = { (const char *)data, size };
	fuzz_text(text, "x86_64");
	fuzz_text(text, "i386");
	fuzz_text(text, "s390x-d");
	return 0;
}
