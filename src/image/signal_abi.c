/*
 * Machines as rows.  Linux 6.1: struct sigcontext of arch/x86/include/uapi/asm/sigcontext.h (sigcontext_32, sigcontext_64),
 * arch/arm64/include/uapi/asm/sigcontext.h and arch/arm/include/uapi/asm/sigcontext.h; ucontext of
 * include/uapi/asm-generic/ucontext.h and arch/arm/include/asm/ucontext.h; the frames around them of arch/x86/include/asm/sigframe.h,
 * arch/x86/kernel/signal.c, arch/arm64/kernel/signal.c, arch/arm/kernel/signal.c and arch/arm64/kernel/signal32.c.
 */
#include "image/signal_abi.h"

enum { I386 = 3, ARM = 40, X86_64 = 62, AARCH64 = 183 };

static const struct kept_reg x86_64_regs[] = {
	{ 8, 0 }, { 9, 8 }, { 10, 16 }, { 11, 24 }, { 12, 32 }, { 13, 40 }, { 14, 48 }, { 15, 56 }, { 5, 64 }, { 4, 72 }, { 6, 80 }, { 3, 88 },
	{ 1, 96 }, { 0, 104 }, { 2, 112 }, { 7, 120 }, { 16, 128 }, { 49, 136 },
};
/* gs, fs, es, ds; edi, esi, ebp, esp, ebx, edx, ecx, eax; trapno, err; eip, cs, eflags, esp again, ss. */
static const struct kept_reg i386_regs[] = {
	{ 45, 0 }, { 44, 4 }, { 40, 8 }, { 43, 12 }, { 7, 16 }, { 6, 20 }, { 5, 24 }, { 4, 28 }, { 3, 32 }, { 2, 36 }, { 1, 40 }, { 0, 44 }, { 8, 56 },
	{ 41, 60 }, { 9, 64 }, { 42, 72 },
};
static const struct kept_reg aarch64_regs[] = {
	{ 0, 8 }, { 1, 16 }, { 2, 24 }, { 3, 32 }, { 4, 40 }, { 5, 48 }, { 6, 56 }, { 7, 64 }, { 8, 72 }, { 9, 80 }, { 10, 88 }, { 11, 96 },
	{ 12, 104 }, { 13, 112 }, { 14, 120 }, { 15, 128 }, { 16, 136 }, { 17, 144 }, { 18, 152 }, { 19, 160 }, { 20, 168 }, { 21, 176 }, { 22, 184 },
	{ 23, 192 }, { 24, 200 }, { 25, 208 }, { 26, 216 }, { 27, 224 }, { 28, 232 }, { 29, 240 }, { 30, 248 }, { 31, 256 }, { 32, 264 },
};
static const struct kept_reg arm_regs[] = {
	{ 0, 12 }, { 1, 16 }, { 2, 20 }, { 3, 24 }, { 4, 28 }, { 5, 32 }, { 6, 36 }, { 7, 40 }, { 8, 44 }, { 9, 48 }, { 10, 52 }, { 11, 56 }, { 12, 60 },
	{ 13, 64 }, { 14, 68 }, { 15, 72 },
};

#define REGS(list) .regs = list, .n_regs = sizeof(list) / sizeof *(list)
static const struct { uint16_t machine; struct signal_context context; } contexts[] = {
	{ X86_64, { REGS(x86_64_regs), .general = 16, .sp = 120, .pc = 128, .size = 256, .traps = true, .trap = 160, .error = 152, .fault = 176, .floats = 184, .status = 2, .mxcsr = 24 } },
	{ I386, { REGS(i386_regs), .general = 8, .sp = 28, .pc = 56, .size = 88, .traps = true, .trap = 48, .error = 52, .fault = 84, .floats = 76, .status = 4, .mxcsr = 136, .magic = 110 } },
	{ AARCH64, { REGS(aarch64_regs), .general = 31, .sp = 256, .pc = 264, .size = 288, .fault = 0, .records = 288 } },
	/* trap_no and error_code are 0 where the kernel is a 64-bit one. */
	{ ARM, { REGS(arm_regs), .general = 15, .sp = 64, .pc = 72, .size = 84, .fault = 80 } },
};

#define ALL UINT64_MAX
#define LOW UINT32_MAX
#define NO_LINK { -20, 4, 0xffffff00, 0 } /* uc_flags */, { -16, 4, LOW, 0 } /* uc_link */
/* A user's segments: cs, ss, es, ds.  A frame without siginfo holds the signal's number before the context, but that is the handler's to change. */
#define I386_SEGMENTS(code, data) { 60, 4, LOW, code }, { 72, 4, LOW, data }, { 8, 4, LOW, data }, { 12, 4, LOW, data }
#define I386_KINDS(code, data) \
	{ I386, -148, 88, -164, 7, { 0xb8, 173, 0, 0, 0, 0xcd, 0x80 }, { I386_SEGMENTS(code, data), NO_LINK, { -8, 4, 0x7ffffffc, 0 } /* ss_flags */ } }, \
	{ I386, 0, 80, -8, 8, { 0x58, 0xb8, 119, 0, 0, 0, 0xcd, 0x80 }, { I386_SEGMENTS(code, data) } }
/* VFP_MAGIC and its size, behind the ucontext; there may be a block for iwMMXt before (160 bytes).  cpsr: user mode.  uc_flags tells of siginfo. */
#define VFP(at) { at, 4, LOW, 0x56465001 }, { (at) + 4, 4, LOW, 0x120 }, { 76, 4, 0x1f, 0x10 }
#define ARM_KINDS(at) \
	{ ARM, -148, 84, 0, 0, { 0 }, { VFP(at), NO_LINK } }, \
	{ ARM, 0, 84, 0, 0, { 0 }, { VFP(at), { -20, 4, LOW, 0x5ac3c35a } } }
static const struct signal_kind kinds[] = {
	/* cs 0x33, gs and fs 0, ss 0x2b. */
	{ X86_64, 264, 256, 0, 0, { 0 }, { { 144, 8, ALL, 0x002b000000000033 }, { -40, 8, ~UINT64_C(0xff), 0 }, { -32, 8, ALL, 0 } } },
	/* The first record after the registers: FPSIMD_MAGIC, and its size. */
	{ AARCH64, -304, -136, 0, 0, { 0 }, { { 288, 4, LOW, 0x46508001 }, { 292, 4, LOW, 0x210 }, { -176, 8, ~UINT64_C(0xff), 0 }, { -168, 8, ALL, 0 } } },
	/* A process of a 64-bit kernel, and of a 32-bit one (arch/x86/include/asm/segment.h: __USER32_CS, __USER_CS, __USER_DS). */
	I386_KINDS(0x23, 0x2b), I386_KINDS(0x73, 0x7b),
	ARM_KINDS(212), ARM_KINDS(372),
};

static const struct signal_return returns[] = {
	/* mov $15, %rax; syscall.  sp: the ucontext. */
	{ X86_64, 9, { 0x48, 0xc7, 0xc0, 15, 0, 0, 0, 0x0f, 0x05 }, 40 },
	/* arch/x86/entry/vdso/vdso32/sigreturn.S.  mov $173, %eax; int $0x80: the handler's three arguments, siginfo 128, ucontext's head 20. */
	{ I386, 7, { 0xb8, 173, 0, 0, 0, 0xcd, 0x80 }, 160 },
	/* pop %eax; mov $119, %eax; int $0x80: the handler's argument. */
	{ I386, 8, { 0x58, 0xb8, 119, 0, 0, 0, 0xcd, 0x80 }, 4 },
	/* mov x8, #139; svc #0.  siginfo 128, ucontext's head 176. */
	{ AARCH64, 8, { 0x68, 0x11, 0x80, 0xd2, 0x01, 0, 0, 0xd4 }, 304 },
	/* mov r7, #173; svc 0: siginfo 128, ucontext's head 20.  mov r7, #119; svc 0: without siginfo. */
	{ ARM, 8, { 173, 0x70, 0xa0, 0xe3, 0, 0, 0, 0xef }, 148 },
	{ ARM, 8, { 119, 0x70, 0xa0, 0xe3, 0, 0, 0, 0xef }, 20 },
	/* The same with the kernel's own svc (arch/arm/kernel/sigreturn_codes.S), and in Thumb. */
	{ ARM, 8, { 173, 0x70, 0xa0, 0xe3, 173, 0, 0x90, 0xef }, 148 },
	{ ARM, 8, { 119, 0x70, 0xa0, 0xe3, 119, 0, 0x90, 0xef }, 20 },
	{ ARM, 4, { 173, 0x27, 0, 0xdf }, 148 },
	{ ARM, 4, { 119, 0x27, 0, 0xdf }, 20 },
	{ ARM, 6, { 0x4f, 0xf0, 173, 7, 0, 0xdf }, 148 },
	{ ARM, 6, { 0x4f, 0xf0, 119, 7, 0, 0xdf }, 20 },
};

/*
 * arch/x86/entry/syscalls/syscall_64.tbl and syscall_32.tbl, include/uapi/asm-generic/unistd.h, arch/arm/tools/syscall.tbl.
 * i386: __kernel_vsyscall, whichever instruction it takes, goes on behind an int $0x80 (arch/x86/entry/vdso/vdso32/system_call.S).
 */
static const struct signal_call calls[] = {
	{ X86_64, 2, { 0x0f, 0x05 }, 62, 200, 234, 129, 297, 424, { 5, 4, 1, 10 }, 0, 2, -1, { 15, 14, 130 } }, /* rcx: Intel SDM 2B, SYSCALL */
	{ I386, 2, { 0xcd, 0x80 }, 37, 238, 270, 178, 335, 424, { 3, 1, 2, 6 }, 0, -1, -1, { 173, 175, 179, 119, 126, 72 } },
	{ AARCH64, 4, { 0x01, 0x00, 0x00, 0xd4 }, 129, 130, 131, 138, 240, 424, { 0, 1, 2, 3 }, 0, -1, 8, { 139, 135, 133 } },
	{ ARM, 4, { 0x00, 0x00, 0x00, 0xef }, 37, 238, 268, 178, 363, 424, { 0, 1, 2, 3 }, 0, -1, 7, { 173, 175, 179, 119, 126, 72 } },
	{ ARM, 2, { 0x00, 0xdf }, 37, 238, 268, 178, 363, 424, { 0, 1, 2, 3 }, 0, -1, 7, { 173, 175, 179, 119, 126, 72 } },
};

#define ROW(list) \
	for (size_t k = 0; k < sizeof(list) / sizeof *(list); k++) \
		if ((list)[k].machine == abi->machine && i-- == 0) \
			return &(list)[k]; \
	return NULL

const struct signal_kind *signal_kind_at(const struct abi *abi, size_t i)
{
	ROW(kinds);
}

const struct signal_return *signal_return_at(const struct abi *abi, size_t i)
{
	ROW(returns);
}

const struct signal_call *signal_call_at(const struct abi *abi, size_t i)
{
	ROW(calls);
}

const struct signal_context *signal_context_of(const struct abi *abi)
{
	/* x32: x86-64's machine with pointers of 4 bytes, and a frame of its own. */
	if (!abi_known(abi))
		return NULL;
	for (size_t i = 0; i < sizeof contexts / sizeof *contexts; i++)
		if (contexts[i].machine == abi->machine)
			return &contexts[i].context;
	return NULL;
}
