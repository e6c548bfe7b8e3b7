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

/*
 * One that was interrupted and goes on has the number of restart_syscall, where its time-out would have to be counted anew (who sets a
 * restart_block: kernel/futex, kernel/time/hrtimer.c and posix-timers.c, fs/select.c's poll).  By the functions that wait there, of Linux 2.6 on.
 */
struct str syscall_waits(const struct abi *abi, int64_t nr, struct str wchan)
{
	static const char *const resumed[][2] = { { "futex", "futex" }, { "nanosleep", "nanosleep" }, { "poll", "poll" } };
	const char *name = nr >= 0 ? syscall_name(abi, nr) : NULL;
	if (!name)
		return wchan.len ? wchan : (struct str){ 0 };
	if (!strcmp(name, "restart_syscall"))
		for (size_t i = 0; i < sizeof resumed / sizeof *resumed; i++)
			if (wchan.len && memmem(wchan.s, wchan.len, resumed[i][0], strlen(resumed[i][0])))
				return str_of(resumed[i][1]);
	return str_of(name);
}
