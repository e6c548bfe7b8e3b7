/* co_lnotab, 2.7 to 3.9. */
#include "line.h"

static int unsigned_lines(struct blob table, int first, int64_t lasti, struct position *ret)
{
	return linetable_lnotab(table, first, lasti, false, ret);
}

static int signed_lines(struct blob table, int first, int64_t lasti, struct position *ret)
{
	return linetable_lnotab(table, first, lasti, true, ret);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	line_input(unsigned_lines, data, size);
	line_input(signed_lines, data, size);
	return 0;
}
