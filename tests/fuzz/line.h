/* What the targets of the three line tables share: their input (four bytes first line, four bytes instruction, then the table) and what no answer may be. */
#ifndef FUZZ_LINE_H
#define FUZZ_LINE_H

#include <stdlib.h>

#include "python/linetable.h"
#include "python/py.h"

typedef int line_lookup(struct blob table, int first, int64_t lasti, struct position *ret);

static void line_look(line_lookup *lookup, struct blob table, int first, int64_t lasti)
{
	struct position got = { -7, -7, -7, -7 };
	int rc = lookup(table, first, lasti, &got);
	if (rc != 0 && rc != ERR_ABSENT && rc != ERR_CORRUPT)
		abort();
	bool untouched = got.line == -7 && got.end_line == -7 && got.col == -7 && got.end_col == -7;
	if (rc != 0 ? !untouched : got.line < 0 || got.end_line < -1 || got.col < -1 || got.end_col < -1)
		abort();
	if (rc == 0 && got.end_line >= 0 && got.end_line < got.line)
		abort();
}

static void line_input(line_lookup *lookup, const uint8_t *data, size_t size)
{
	struct cursor c = cursor_of(data, size, false);
	uint32_t first, lasti;
	if (cursor_u32(&c, &first) < 0 || cursor_u32(&c, &lasti) < 0)
		return;
	struct blob table = { c.pos, cursor_left(&c) };
	line_look(lookup, table, (int32_t)first, (int32_t)lasti);
	line_look(lookup, table, (int32_t)first, (int64_t)lasti << 31);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#endif
