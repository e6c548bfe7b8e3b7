/*
 * Traits of any version and any set of fields: four bytes of version, one of struct sizes, then text that follows the
 * head of a .layout.  A trait is -1 or a value of one of its rows, or what the text says.
 */
#include <stdlib.h>
#include <string.h>

#include "python/layout.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool is_value(size_t t, int32_t value)
{
	if (value == -1)
		return true;
	for (size_t i = 0; i < PY_TRAIT_ROWS; i++)
		if (py_trait_rows[i].trait == t && py_trait_rows[i].value == value)
			return true;
	return false;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct layout l;
	uint64_t version;
	struct cursor c = cursor_of(data, size, false);
	uint8_t bits;
	if (cursor_uint(&c, 4, &version) < 0 || cursor_u8(&c, &bits) < 0)
		return 0;
	if (layout_init(&l, (uint32_t)version, "x86_64-t") < 0)
		abort();
	if (bits & 1)
		l.offset[F_PyObject_ob_tid] = 0;
	l.size[S_PyDigit] = bits >> 1 & 7;
	layout_set_traits(&l);
	for (size_t t = 0; t < PY_TRAIT_COUNT; t++)
		if (!is_value(t, l.trait[t]))
			abort();
	struct sb text = { 0 };
	struct err err;
	sb_printf(&text, "layout %u.%u\nconfig x86_64-t\nhad derived\n", (unsigned)(version >> 24), (unsigned)(version >> 16 & 0xff));
	sb_bytes(&text, c.pos, cursor_left(&c));
	if (layout_parse(sb_view(&text), "x86_64-t", &l, &err) == 0) {
		for (size_t t = 0; t < PY_TRAIT_COUNT; t++)
			if (l.trait[t] < -1000000 || l.trait[t] > 1000000)
				abort();
	}
	sb_free(&text);
	return 0;
}
