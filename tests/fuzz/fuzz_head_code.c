/* PyInterpreterState_Head(): one byte machine, four bytes of its address, then its code. */
#include <elf.h>
#include <stdlib.h>

#include "base/cursor.h"
#include "python/head_code.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct abi machines[] = { { EM_X86_64, 8, false }, { EM_386, 4, false }, { EM_AARCH64, 8, false }, { EM_ARM, 4, false } };
	struct cursor c = cursor_of(data, size, false);
	uint8_t which;
	uint32_t at;
	if (cursor_u8(&c, &which) < 0 || cursor_u32(&c, &at) < 0)
		return 0;
	const struct abi *abi = &machines[which % 4];
	struct head_code got = { .slot = 7 };
	int rc = head_code_read(abi, at, c.pos, cursor_left(&c), &got);
	if (rc != 0 && rc != ERR_ABSENT && rc != ERR_CORRUPT && (rc != ERR_UNSUPPORTED || which % 4 != 3))
		abort();
	if (rc != 0 ? got.slot != 7 : got.slot % abi->width || (abi->width == 4 && got.slot > UINT32_MAX))
		abort();
	return 0;
}
