/*
 * PTRACE_GETREGSET of a stopped thread -> descriptors of NT_PRSTATUS, NT_FPREGSET, NT_X86_XSTATE, NT_SIGINFO and those with the
 * thread pointer and the system call number where the machine keeps them apart (NT_386_TLS, NT_ARM_TLS).  The kernel's
 * register sets are what it would write into a core; only struct elf_prstatus around them is laid out here, by
 * the width of the target.
 */
#include "snap/registers.h"

#include <elf.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

enum { PRSTATUS_ROOM = 1024, FP_ROOM = 1024, SIGINFO_SIZE = 128, MORE_ROOM = 64 };

#if defined(__x86_64__)
enum { NATIVE = EM_X86_64 };
#elif defined(__aarch64__)
enum { NATIVE = EM_AARCH64 };
#elif defined(__riscv)
enum { NATIVE = EM_RISCV };
#elif defined(__powerpc64__)
enum { NATIVE = EM_PPC64 };
#elif defined(__s390x__)
enum { NATIVE = EM_S390 };
#else
enum { NATIVE = EM_NONE };
#endif

/* The largest XSAVE area this processor can have; the kernel gives what the thread may use of it. */
static size_t xstate_room(void)
{
	size_t size = 0;
#if defined(__x86_64__)
	unsigned a, b, c, d;
	if (__get_cpuid_count(0xd, 0, &a, &b, &c, &d))
		size = b > c ? b : c;
	if (size < 576)
		size = 576;
#endif
	return size;
}

size_t registers_room(void)
{
	static size_t room;
	if (!room)
		room = (PRSTATUS_ROOM + FP_ROOM + SIGINFO_SIZE + ABI_MORE_NOTES * MORE_ROOM + xstate_room() + 63) & ~(size_t)63;
	return room;
}

int registers_check(const struct abi *abi, pid_t pid, struct err *err)
{
	bool native = abi->machine == NATIVE && abi->width == sizeof(long);
#if defined(__x86_64__)
	native = native || (abi->machine == EM_386 && abi->width == 4);
#endif
	if (native && NATIVE != EM_NONE)
		return 0;
	err_set(err, ERR_UNSUPPORTED, "process %d runs a %u-bit program of machine %s; this pysnap cannot read its registers", (int)pid,
		abi->width * 8u, abi_name(abi));
	err_hint(err, "gcore %d, and pyanalyze on that core", (int)pid);
	return ERR_UNSUPPORTED;
}

static ssize_t regset(pid_t tid, int type, void *buf, size_t room)
{
	struct iovec iov = { buf, room };
	if (ptrace(PTRACE_GETREGSET, tid, type, &iov) < 0)
		return -1;
	return (ssize_t)iov.iov_len;
}

static void put(uint8_t *p, size_t width, uint64_t v)
{
	/* Only machines that can run here are read, so the target's byte order is the host's. */
	uint8_t b[8];
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
	for (size_t i = 0; i < 8; i++)
		b[i] = (uint8_t)(v >> 8 * i);
	memcpy(p, b, width);
#else
	for (size_t i = 0; i < 8; i++)
		b[7 - i] = (uint8_t)(v >> 8 * i);
	memcpy(p, b + 8 - width, width);
#endif
}

int registers_read(const struct abi *abi, pid_t tid, int stopped_by, const struct proc_stat *st, uint8_t *buf, size_t room,
		   struct registers *ret)
{
	struct registers r = { 0 };
	/*
	 * struct elf_prstatus (include/uapi/linux/elfcore.h, linux/elfcore.h): siginfo { signo, code, errno }, i16 cursig, word
	 * sigpend, word sighold, pid, ppid, pgrp, sid, four pairs of words (times), registers, i32 fpvalid.
	 */
	size_t w = abi->width, sigpend = 16, pid = sigpend + 2 * w, times = pid + 16, regs = times + 8 * w;
	memset(buf, 0, PRSTATUS_ROOM);
	ssize_t n = regset(tid, NT_PRSTATUS, buf + regs, PRSTATUS_ROOM - regs - 16);
	if (n <= 0)
		return n < 0 && errno != ESRCH ? ERR_IO : ERR_GONE;
	size_t fpvalid = regs + (size_t)n;
	put(buf, 4, (uint64_t)stopped_by);
	put(buf + 12, 2, (uint64_t)stopped_by);
	uint64_t mask = 0;
	if (ptrace(PTRACE_GETSIGMASK, tid, (void *)sizeof mask, &mask) == 0)
		put(buf + sigpend + w, w, mask);
	put(buf + pid, 4, (uint64_t)tid);
	put(buf + pid + 4, 4, (uint64_t)st->ppid);
	put(buf + pid + 8, 4, (uint64_t)st->pgrp);
	put(buf + pid + 12, 4, (uint64_t)st->session);
	uint64_t hz = (uint64_t)sysconf(_SC_CLK_TCK);
	if (hz) {
		put(buf + times, w, st->utime / hz);
		put(buf + times + w, w, st->utime % hz * (1000000 / hz));
		put(buf + times + 2 * w, w, st->stime / hz);
		put(buf + times + 3 * w, w, st->stime % hz * (1000000 / hz));
	}
	r.prstatus = (struct blob){ buf, (fpvalid + 4 + w - 1) & ~(w - 1) };
	r.gregs = (struct blob){ buf + regs, (size_t)n };
	size_t at = PRSTATUS_ROOM;
	n = regset(tid, NT_PRFPREG, buf + at, FP_ROOM);
	if (n > 0) {
		r.fpregset = (struct blob){ buf + at, (size_t)n };
		put(buf + fpvalid, 4, 1);
	}
	at += FP_ROOM;
	/* A 64-bit tracer gets a 64-bit siginfo, which is not what a 32-bit target's note holds. */
	if (stopped_by && w == sizeof(long)) {
		siginfo_t info;
		_Static_assert(sizeof info == SIGINFO_SIZE, "the kernel's siginfo is 128 bytes");
		if (ptrace(PTRACE_GETSIGINFO, tid, NULL, &info) == 0) {
			memcpy(buf + at, &info, sizeof info);
			r.siginfo = (struct blob){ buf + at, sizeof info };
		}
	}
	at += SIGINFO_SIZE;
	uint32_t more[ABI_MORE_NOTES];
	abi_more_notes(abi, more);
	for (size_t i = 0; i < ABI_MORE_NOTES; i++, at += MORE_ROOM) {
		n = more[i] ? regset(tid, (int)more[i], buf + at, MORE_ROOM) : 0;
		if (n > 0)
			r.more[i] = (struct blob){ buf + at, (size_t)n };
	}
	if (abi->machine == EM_X86_64 || abi->machine == EM_386) {
		n = regset(tid, NT_X86_XSTATE, buf + at, room - at);
		if (n > 0)
			r.xstate = (struct blob){ buf + at, (size_t)n };
	}
	*ret = r;
	return 0;
}
