/* co_linetable of 3.10. */
#include "line.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	line_input(linetable_310, data, size);
	return 0;
}
