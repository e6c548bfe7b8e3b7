/* Names of system calls that threads wait in. */
#include "inspect/parts.h"

const char *syscall_name(const struct abi *abi, int64_t nr)
{
	static const struct { uint16_t machine; int64_t nr; const char *name; } calls[] = {
#define SYSCALL(machine, nr, name) { machine, nr, name },
#include "syscalls.def"
#undef SYSCALL
	};
	for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
		if (calls[i].machine == abi->machine && calls[i].nr == nr)
			return calls[i].name;
	return NULL;
}
