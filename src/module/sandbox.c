/*
 * Two locks, either of which the kernel may lack.  Landlock with no rule: nothing of any file system, no TCP, no signals to others.
 * A filter of system calls: what reading open files and memory needs.  What is not in the list says ENOSYS, as an old kernel would,
 * so libc and libdw fall back (libdw asks for openat2 since 0.190).
 */
#include "module/sandbox.h"

#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "config.h"

/* struct landlock_ruleset_attr and its bits, of linux/landlock.h up to ABI 6 (6.12), which older headers have less of. */
struct ruleset { uint64_t fs, net, scoped; };

static int landlock(void)
{
#if defined SYS_landlock_create_ruleset && defined SYS_landlock_restrict_self
	enum { VERSION = 1 };
	static const unsigned char fs_bits[] = { 0, 13, 14, 15, 15, 16 };
	long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, VERSION);
	if (abi < 1)
		return -1;
	struct ruleset all = { .fs = (1ull << fs_bits[abi > 5 ? 5 : abi]) - 1, .net = 3, .scoped = 3 };
	size_t size = abi < 4 ? offsetof(struct ruleset, net) : abi < 6 ? offsetof(struct ruleset, scoped) : sizeof all;
	int fd = (int)syscall(SYS_landlock_create_ruleset, &all, size, 0);
	if (fd < 0)
		return -1;
	long rc = syscall(SYS_landlock_restrict_self, fd, 0);
	close(fd);
	return rc == 0 ? 0 : -1;
#else
	return -1;
#endif
}

#if HAVE_SECCOMP
#include <errno.h>
#include <fcntl.h>
#include <seccomp.h>
#include <sys/mman.h>

static int filter(void)
{
	static const int calls[] = {
		SCMP_SYS(read), SCMP_SYS(readv), SCMP_SYS(pread64), SCMP_SYS(write), SCMP_SYS(writev), SCMP_SYS(close), SCMP_SYS(lseek), SCMP_SYS(_llseek),
		SCMP_SYS(fstat), SCMP_SYS(fstat64), SCMP_SYS(newfstatat), SCMP_SYS(statx), SCMP_SYS(dup),
		SCMP_SYS(munmap), SCMP_SYS(mremap), SCMP_SYS(madvise), SCMP_SYS(brk), SCMP_SYS(futex), SCMP_SYS(getrandom), SCMP_SYS(sysinfo),
		SCMP_SYS(clock_gettime), SCMP_SYS(clock_gettime64), SCMP_SYS(gettimeofday), SCMP_SYS(getpid), SCMP_SYS(gettid), SCMP_SYS(sched_yield),
		SCMP_SYS(rt_sigreturn), SCMP_SYS(sigreturn), SCMP_SYS(rt_sigprocmask), SCMP_SYS(rt_sigaction), SCMP_SYS(sigaltstack),
		SCMP_SYS(exit), SCMP_SYS(exit_group),
	};
	/* No more of fcntl: F_SETOWN and F_SETSIG send any signal to anybody, F_SETLK and F_SETLEASE keep others waiting. */
	static const int descriptors[] = { F_DUPFD, F_DUPFD_CLOEXEC, F_GETFD, F_SETFD, F_GETFL };
	static const int maps[] = { SCMP_SYS(mmap), SCMP_SYS(mmap2), SCMP_SYS(mprotect) };
	scmp_filter_ctx ctx = seccomp_init(SCMP_ACT_ERRNO(ENOSYS));
	if (!ctx)
		return -1;
	int rc = 0;
	for (size_t i = 0; i < sizeof calls / sizeof *calls && rc == 0; i++)
		rc = seccomp_rule_add(ctx, SCMP_ACT_ALLOW, calls[i], 0);
	for (size_t i = 0; i < sizeof maps / sizeof *maps && rc == 0; i++)
		rc = seccomp_rule_add(ctx, SCMP_ACT_ALLOW, maps[i], 1, SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0));
	for (size_t i = 0; i < sizeof descriptors / sizeof *descriptors && rc == 0; i++) {
		const struct scmp_arg_cmp it = SCMP_A1(SCMP_CMP_MASKED_EQ, UINT32_MAX, (scmp_datum_t)descriptors[i]);
		rc = seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(fcntl), 1, it);
		if (rc == 0)
			rc = seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(fcntl64), 1, it);
	}
	/* abort() is how assertions end. */
	if (rc == 0)
		rc = seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(tgkill), 1, SCMP_A0(SCMP_CMP_EQ, (scmp_datum_t)getpid()));
	if (rc == 0)
		rc = seccomp_load(ctx);
	seccomp_release(ctx);
	return rc;
}
#else
static int filter(void)
{
	return -1;
}
#endif

uint8_t sandbox_enter(void)
{
	uint8_t holds = 0;
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
		return 0;
	if (landlock() == 0)
		holds |= SANDBOX_LANDLOCK;
	if (filter() == 0)
		holds |= SANDBOX_SECCOMP;
	return holds;
}
