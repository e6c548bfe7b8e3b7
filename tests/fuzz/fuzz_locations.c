/* co_linetable, 3.11 and later. */
#include "line.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	line_input(linetable_locations, data, size);
	return 0;
}
