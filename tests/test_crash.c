/* What a verdict says of a crash: instructions, signal frames, and titles made of both, over images built in memory. */
#include <check.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "build_elf.h"
#include "config.h"
#include "inspect/abort.h"
#include "inspect/arrival.h"
#include "inspect/fault.h"
#include "inspect/follow.h"
#include "inspect/generation.h"
#include "inspect/handler.h"
#include "inspect/instruction.h"
#include "inspect/sending.h"
#include "inspect/signal_frame.h"
#include "inspect/trap.h"
#include "suite.h"

enum { CODE = 0x401000, STACK = 0x30000, SP = 0x31000, DATA = 0x50000 };

struct machine { struct build_elf *b; struct image *img; };

/* One thread at CODE with these bytes there, rdi, rsi and rbx as given. */
static struct machine machine(const char *abi, const char *bytes, size_t n, uint64_t rdi, uint64_t rsi, uint64_t rbx)
{
	struct machine m = { .b = build_elf_new(abi) };
	const bool wide = strcmp(abi, "x86_64") == 0;
	build_elf_thread(m.b, 100, CODE, SP);
	if (wide || strcmp(abi, "i386") == 0) {
		build_elf_reg(m.b, wide ? "rdi" : "edi", rdi);
		build_elf_reg(m.b, wide ? "rsi" : "esi", rsi);
		build_elf_reg(m.b, wide ? "rbx" : "ebx", rbx);
	}
	uint8_t *stack = build_elf_memory(m.b, STACK, 0x2000, 3);
	build_elf_put(m.b, stack + (SP - STACK), 8, 0x4444444444444444);
	build_elf_load(m.b, CODE, bytes, n, 5);
	memset(build_elf_memory(m.b, DATA, 0x1000, 3), 0, 0x1000);
	m.img = build_elf_open(m.b);
	return m;
}

static void end(struct machine *m)
{
	image_close(m->img);
	build_elf_free(m->b);
}

static const struct thread *only(struct image *img)
{
	const struct thread *t;
	ck_assert_uint_ge(image_threads(img, &t), 1);
	return t;
}

#define BYTES(s) s, sizeof(s) - 1
#define WILD 0x4141414141414140u

/* fault -1: the processor gave no address.  access -1: it is no instruction, or not all of one is there. */
static const struct {
	const char *abi, *bytes; size_t n; uint64_t rdi, rsi, rbx; int64_t fault; int access; const char *text, *operands; uint64_t at, target;
} instructions[] = {
	{ "x86_64", BYTES("\x48\x8b\x07"), 0, 0, 0, 0, ACCESS_READ, "mov rax, [rdi]", "rdi = 0x0", 0, 0 },
	{ "x86_64", BYTES("\x48\x89\x07"), 0x10, 0, 0, 0x10, ACCESS_WRITE, "mov [rdi], rax", "rdi = 0x10, rax = 0x0", 0x10, 0 },
	{ "x86_64", BYTES("\x62\xf3\x7d\x20\x3f\x07\x00"), 0x1ff8, 0, 0, 0x2000, ACCESS_READ, "vpcmpb k0, ymm16, [rdi], 0x00", "rdi = 0x1ff8", 0x1ff8, 0 },
	{ "x86_64", BYTES("\x80\x04\x3e\x01"), 0x20, 0x4, 0, 0x24, ACCESS_BOTH, "add byte ptr [rsi+rdi*1], 0x01", "rsi = 0x4, rdi = 0x20", 0x24, 0 },
	{ "x86_64", BYTES("\xa4"), 0x60, DATA, 0, 0x60, ACCESS_WRITE, "movsb", "rdi = 0x60, rsi = 0x50000", 0x60, 0 },
	{ "x86_64", BYTES("\xa4"), DATA, 0x60, 0, 0x60, ACCESS_READ, "movsb", "rdi = 0x50000, rsi = 0x60", 0x60, 0 },
	/* Another address than the one that faulted: nothing is said of it. */
	{ "x86_64", BYTES("\x48\x8b\x07"), 0x10, 0, 0, 0x9999, ACCESS_UNKNOWN, "mov rax, [rdi]", "rdi = 0x10", 0, 0 },
	/* lea computes, it does not read. */
	{ "x86_64", BYTES("\x48\x8d\x07"), 0x10, 0, 0, 0x10, ACCESS_UNKNOWN, "lea rax, [rdi]", "rdi = 0x10", 0, 0 },
	{ "x86_64", BYTES("\x48\x8b\x83\xa8\x00\x00\x00"), 0, 0, WILD, -1, ACCESS_READ, "mov rax, [rbx+0xA8]", "rbx = 0x4141414141414140", WILD + 0xa8, 0 },
	{ "x86_64", BYTES("\x0f\x29\x47\x01"), DATA, 0, 0, -1, ACCESS_WRITE, "movaps [rdi+0x01], xmm0", "rdi = 0x50000", DATA + 1, 0 },
	{ "x86_64", BYTES("\xc3"), 0, 0, 0, -1, ACCESS_UNKNOWN, "ret", "rsp = 0x31000", 0, 0x4444444444444444 },
	{ "x86_64", BYTES("\xff\xe7"), WILD, 0, 0, -1, ACCESS_UNKNOWN, "jmp rdi", "rdi = 0x4141414141414140", 0, WILD },
	{ "x86_64", BYTES("\x53"), 0, 0, 1, SP - 8, ACCESS_WRITE, "push rbx", "rbx = 0x1, rsp = 0x31000", SP - 8, 0 },
	{ "x86_64", BYTES("\x48\x8b"), 0, 0, 0, 0, -1, NULL, NULL, 0, 0 },
	{ "x86_64", BYTES("\x06\x06\x06\x06\x06\x06\x06\x06\x06\x06\x06\x06\x06\x06\x06"), 0, 0, 0, 0, -1, NULL, NULL, 0, 0 },
	{ "i386", BYTES("\x8b\x07"), 0x8, 0, 0, 0x8, ACCESS_READ, "mov eax, [edi]", "edi = 0x8", 0x8, 0 },
	{ "i386", BYTES("\x89\x07"), 0xfffffff0, 0, 0, 0xfffffff0, ACCESS_WRITE, "mov [edi], eax", "edi = 0xfffffff0, eax = 0x0", 0xfffffff0, 0 },
	{ "aarch64", BYTES("\x00\x00\x40\xf9"), 0, 0, 0, 0, -1, NULL, NULL, 0, 0 },
};

START_TEST(instruction)
{
	__auto_type c = &instructions[_i];
	struct machine m = machine(c->abi, c->bytes, c->n, c->rdi, c->rsi, c->rbx);
	struct arena *a = arena_new();
	struct instruction in;
	int rc = instruction_at(m.img, &only(m.img)->regs, c->fault >= 0, (addr_t)c->fault, a, &in);
	if (!HAVE_ZYDIS || strcmp(c->abi, "aarch64") == 0) {
		ck_assert_int_eq(rc, ERR_ABSENT);
	} else if (c->access < 0) {
		ck_assert_int_lt(rc, 0);
	} else {
		ck_assert_int_eq(rc, 0);
		ck_assert_str_eq(str_c(a, in.text), c->text);
		ck_assert_str_eq(str_c(a, in.operands), c->operands);
		ck_assert_int_eq(in.access, c->access);
		ck_assert_uint_eq(in.has_address ? in.address : 0, c->at);
		ck_assert_uint_eq(in.target, c->target);
	}
	arena_free(a);
	end(&m);
}
END_TEST

/* after: bytes from the start to where the call returns to.  set, passed: bits of the first two arguments. */
static const struct { const char *bytes; size_t n, after; int set, passed; uint64_t value[2]; } calls[] = {
	/* lea rsi, [rip+0x100]; lea rdi, [rip+0x200]; call */
	{ BYTES("\x48\x8d\x35\x00\x01\x00\x00\x48\x8d\x3d\x00\x02\x00\x00\xe8\x00\x00\x00\x00"), 19, 3, 0, { CODE + 14 + 0x200, CODE + 7 + 0x100 } },
	/* mov edi, 0x8a1234; call: an executable that is not moved */
	{ BYTES("\xbf\x34\x12\x8a\x00\xe8\x00\x00\x00\x00"), 10, 1, 2, { 0x8a1234, 0 } },
	/* call: both are the caller's own */
	{ BYTES("\xe8\x00\x00\x00\x00"), 5, 0, 3, { 0 } },
	/* mov rdi, rax; call */
	{ BYTES("\x48\x89\xc7\xe8\x00\x00\x00\x00"), 8, 0, 2, { 0 } },
	/* je +5; mov edi, 1; call: there is a way past it */
	{ BYTES("\x74\x05\xbf\x01\x00\x00\x00\xe8\x00\x00\x00\x00"), 12, 0, 2, { 0 } },
	/* je -> mov; nop; mov edi, 1; call: a way to it */
	{ BYTES("\x74\x01\x90\xbf\x01\x00\x00\x00\xe8\x00\x00\x00\x00"), 13, 1, 2, { 1, 0 } },
	/* mov edi, 1; jmp; call: what is before the jump does not come here */
	{ BYTES("\xbf\x01\x00\x00\x00\xeb\x00\xe8\x00\x00\x00\x00"), 12, 0, 2, { 0 } },
	/* mov edi, 1; call; call: the first one has used it */
	{ BYTES("\xbf\x01\x00\x00\x00\xe8\x00\x00\x00\x00\xe8\x00\x00\x00\x00"), 15, 0, 0, { 0 } },
	/* mov edi, 1; call; ... jmp back to the call, from behind it */
	{ BYTES("\xbf\x01\x00\x00\x00\xe8\x00\x00\x00\x00\x31\xff\xeb\xf7"), 10, 0, 0, { 0 } },
	/* no call before it; in the middle of an instruction; no instructions */
	{ BYTES("\xbf\x01\x00\x00\x00\x90"), 6, -1, 0, { 0 } },
	{ BYTES("\xbf\x01\x00\x00\x00\xe8\x00\x00\x00\x00"), 8, -1, 0, { 0 } },
	{ BYTES("\x06\x06\x06"), 3, -1, 0, { 0 } },
	{ BYTES("\x90"), 100000, -1, 0, { 0 } },
	{ BYTES("\x90"), 0, -1, 0, { 0 } },
};

START_TEST(arguments)
{
	__auto_type c = &calls[_i];
	struct machine m = machine("x86_64", c->bytes, c->n, 0, 0, 0);
	struct call_arguments got = { 0 };
	int rc = instruction_arguments(m.img, CODE, CODE + c->after, &got);
	if (!HAVE_ZYDIS) {
		ck_assert_int_eq(rc, ERR_ABSENT);
	} else if (c->set < 0) {
		ck_assert_int_lt(rc, 0);
	} else {
		ck_assert_int_eq(rc, 0);
		for (int i = 0; i < 2; i++) {
			ck_assert_int_eq(got.set[i], c->set >> i & 1);
			ck_assert_int_eq(got.passed[i], c->passed >> i & 1);
			if (got.set[i])
				ck_assert_uint_eq(got.value[i], c->value[i]);
		}
	}
	end(&m);
}
END_TEST

/* ---- what a function gave and keeps */

/* A value as follow_call says it: how, load, reg, value. */
#define GIVEN(n) { FOLLOW_GIVEN, false, n, 0 }
#define REGISTER(n) { FOLLOW_REGISTER, false, n, 0 }
#define UNKNOWN { FOLLOW_UNKNOWN, false, 0, 0 }
static const struct {
	const char *bytes; size_t n, after; bool entered, returns; int rc; struct followed passed[2], kept[2]; addr_t callee;
} follows[] = {
	/* push rbx; mov rbx, rdi; call (another); mov rsi, rbx; xor edi, edi; call */
	{ BYTES("\x53\x48\x89\xfb\xe8\x00\x10\x00\x00\x48\x89\xde\x31\xff\xe8\x00\x20\x00\x00"), 19, true, false, 0, { { FOLLOW_CONST, false, 0, 0 }, GIVEN(0) }, { REGISTER(3), UNKNOWN }, CODE + 19 + 0x2000 },
	/* The same piece, jumped to: what rbx holds then is what the frame says. */
	{ BYTES("\x48\x89\xde\x31\xff\xe8\x00\x20\x00\x00"), 10, false, false, 0, { { FOLLOW_CONST, false, 0, 0 }, REGISTER(3) }, { UNKNOWN, UNKNOWN }, CODE + 10 + 0x2000 },
	/* mov rbx, rdi; xor ebx, ebx; call: it is not kept */
	{ BYTES("\x48\x89\xfb\x31\xdb\xe8\x00\x00\x00\x00"), 10, true, false, 0, { GIVEN(0), GIVEN(1) }, { UNKNOWN, UNKNOWN }, CODE + 10 },
	/* mov rbx, rdi; call; xor ebx, ebx; jmp to the call: it may not be kept */
	{ BYTES("\x48\x89\xfb\xe8\x00\x00\x00\x00\x31\xdb\xeb\xf7"), 8, true, true, 0, { UNKNOWN, UNKNOWN }, { UNKNOWN, UNKNOWN }, CODE + 8 },
	/* The same where the call does not return: what follows is another function's. */
	{ BYTES("\x48\x89\xfb\xe8\x00\x00\x00\x00\x31\xdb\xeb\xf7"), 8, true, false, 0, { GIVEN(0), GIVEN(1) }, { REGISTER(3), UNKNOWN }, CODE + 8 },
	/* je; mov rbx, rdi; call: not on every way there */
	{ BYTES("\x74\x03\x48\x89\xfb\xe8\x00\x00\x00\x00"), 10, true, false, 0, { UNKNOWN, UNKNOWN }, { UNKNOWN, UNKNOWN }, CODE + 10 },
	/* sub rsp, 0x28; mov [rsp+0x10], rsi; lea rdi, [rsp+0x18]; call */
	{ BYTES("\x48\x83\xec\x28\x48\x89\x74\x24\x10\x48\x8d\x7c\x24\x18\xe8\x00\x00\x00\x00"), 19, true, false, 0,
	  { { FOLLOW_ENTRY, false, 0, (uint64_t)-16 }, GIVEN(1) }, { UNKNOWN, { FOLLOW_ENTRY, true, 0, (uint64_t)-24 } }, CODE + 19 },
	/* The same slot is written again. */
	{ BYTES("\x48\x89\x74\x24\xf0\x48\x89\x44\x24\xf0\xe8\x00\x00\x00\x00"), 15, true, false, 0, { GIVEN(0), GIVEN(1) }, { UNKNOWN, UNKNOWN }, CODE + 15 },
	/* push rbp; mov rbp, rsp; mov [rbp-8], rdi; mov rax, [rbp-8]; mov rsi, rax; call: not optimised */
	{ BYTES("\x55\x48\x89\xe5\x48\x89\x7d\xf8\x48\x8b\x45\xf8\x48\x89\xc6\xe8\x00\x00\x00\x00"), 20, true, false, 0,
	  { GIVEN(0), { FOLLOW_ENTRY, true, 0, (uint64_t)-16 } }, { { FOLLOW_ENTRY, true, 0, (uint64_t)-16 }, UNKNOWN }, CODE + 20 },
	/* jmp over; lea rdi, [rsp+8]; push rax; call: from where ways meet */
	{ BYTES("\xeb\x00\x48\x8d\x7c\x24\x08\x50\xe8\x00\x00\x00\x00"), 13, true, false, 0, { { FOLLOW_SP, false, 0, 16 }, UNKNOWN }, { UNKNOWN, UNKNOWN }, CODE + 13 },
	/* mov rdi, [rbx+0x10]; lea rsi, [rbx+1]; call; and with rbx written in between */
	{ BYTES("\x48\x8b\x7b\x10\x48\x8d\x73\x01\xe8\x00\x00\x00\x00"), 13, false, false, 0, { { FOLLOW_FRAME, true, 3, 16 }, { FOLLOW_FRAME, false, 3, 1 } }, { UNKNOWN, UNKNOWN }, CODE + 13 },
	{ BYTES("\x48\x8b\x7b\x10\x48\x8d\x73\x01\x31\xdb\xe8\x00\x00\x00\x00"), 15, false, false, 0, { UNKNOWN, UNKNOWN }, { UNKNOWN, UNKNOWN }, CODE + 15 },
	/* mov edi, ebx: half of it; and esp is aligned first: then nothing is known by it */
	{ BYTES("\x89\xdf\xe8\x00\x00\x00\x00"), 7, false, false, 0, { UNKNOWN, UNKNOWN }, { UNKNOWN, UNKNOWN }, CODE + 7 },
	{ BYTES("\x48\x83\xe4\xf0\x48\x8d\x3c\x24\xe8\x00\x00\x00\x00"), 13, true, false, 0, { UNKNOWN, GIVEN(1) }, { UNKNOWN, UNKNOWN }, CODE + 13 },
	/* call rax; no call; in the middle of an instruction; no instructions; nothing */
	{ BYTES("\xff\xd0"), 2, true, false, 0, { GIVEN(0), GIVEN(1) }, { UNKNOWN, UNKNOWN }, 0 },
	{ BYTES("\x90\x90"), 2, true, false, ERR_CORRUPT, { UNKNOWN }, { UNKNOWN }, 0 },
	{ BYTES("\xe8\x00\x00\x00\x00"), 3, true, false, ERR_CORRUPT, { UNKNOWN }, { UNKNOWN }, 0 },
	{ BYTES("\x06\x06\x06"), 3, true, false, ERR_CORRUPT, { UNKNOWN }, { UNKNOWN }, 0 },
	{ BYTES("\x90"), 0, true, false, ERR_LIMIT, { UNKNOWN }, { UNKNOWN }, 0 },
	{ BYTES("\x90"), 100000, true, false, ERR_LIMIT, { UNKNOWN }, { UNKNOWN }, 0 },
};

static void same_value(const struct followed *got, const struct followed *want)
{
	ck_assert_int_eq(got->how, want->how);
	if (want->how == FOLLOW_UNKNOWN)
		return;
	ck_assert_int_eq(got->load, want->load);
	ck_assert_int_eq(got->reg, want->reg);
	ck_assert_uint_eq(got->value, want->value);
}

START_TEST(follow)
{
	__auto_type c = &follows[_i];
	struct machine m = machine("x86_64", c->bytes, c->n, 0, 0, 0);
	struct follow got = { 0 };
	int rc = follow_call(m.img, CODE, c->entered, CODE + c->after, c->returns, &got);
	ck_assert_int_eq(rc, HAVE_ZYDIS ? c->rc : ERR_ABSENT);
	for (int i = 0; i < 2 && rc == 0; i++) {
		same_value(&got.passed[i], &c->passed[i]);
		same_value(&got.kept[i], &c->kept[i]);
	}
	if (rc == 0)
		ck_assert_uint_eq(got.callee, c->callee);
	end(&m);
	if (_i)
		return;
	m = machine("i386", BYTES("\xe8\x00\x00\x00\x00"), 0, 0, 0);
	ck_assert_int_eq(follow_call(m.img, CODE, true, CODE + 5, false, &got), ERR_ABSENT);
	end(&m);
}
END_TEST

/* ---- the count of forks */

static const struct { const char *abi, *bytes; size_t n; addr_t place; } generations[] = {
	/* add qword [rip+0x1000], 4, twice the same; and another one */
	{ "x86_64", BYTES("\x48\x83\x05\x00\x10\x00\x00\x04\x90\x48\x83\x05\xf7\x0f\x00\x00\x04"), CODE + 0x1008 },
	{ "x86_64", BYTES("\x48\x83\x05\x00\x10\x00\x00\x04\x90\x48\x83\x05\xf6\x0f\x00\x00\x04"), 0 },
	{ "x86_64", BYTES("\x48\x83\x05\x00\x10\x00\x00\x08"), 0 },
	/* mov rax, [rip+0x10]; test rax, rax; je; add qword [rax], 4; and what is there */
	{ "x86_64", BYTES("\x48\x8b\x05\x10\x00\x00\x00\x48\x85\xc0\x74\x04\x48\x83\x00\x04\xc3\0\0\0\0\0\0\x34\x12\x05\0\0\0\0\0"), 0x51234 },
	{ "x86_64", BYTES("\x48\x83\x05\x00\x10\x00\x00"), 0 },
	/* adrp x1, +3 pages; nop; ldr x0, [x1, #0x7e0]; add x0, x0, #4; with other registers; backwards */
	{ "aarch64", BYTES("\x01\x00\x00\xf0\x1f\x20\x03\xd5\x20\xf0\x43\xf9\x00\x10\x00\x91"), (CODE & ~0xfff) + 0x3000 + 0x7e0 },
	{ "aarch64", BYTES("\x02\x00\x00\xf0\x1f\x20\x03\xd5\x20\xf0\x43\xf9\x00\x10\x00\x91"), 0 },
	{ "aarch64", BYTES("\xe1\xff\xff\xf0\x1f\x20\x03\xd5\x20\xf0\x43\xf9\x00\x10\x00\x91"), (CODE & ~0xfff) - 0x1000 + 0x7e0 },
	{ "i386", BYTES("\x48\x83\x05\x00\x10\x00\x00\x04"), 0 },
};

START_TEST(generation)
{
	__auto_type c = &generations[_i];
	struct machine m = machine(c->abi, c->bytes, c->n, 0, 0, 0);
	ck_assert_uint_eq(fork_generation_place(m.img, CODE, c->n), c->place);
	end(&m);
}
END_TEST

/* ---- titles */

#define REFUSED "SIGSEGV: the processor refused an instruction; no address is given (often an address that is not canonical, else a privileged instruction)"

static const struct {
	const char *bytes; size_t n; uint64_t rdi; int signo, code; addr_t addr; bool has_error; uint64_t error; const char *zydis, *without;
} titles[] = {
	{ BYTES("\x48\x8b\x07"), 0, SIGSEGV, 1, 0, false, 0, "SIGSEGV: read of address 0x0 (null pointer)", "SIGSEGV: access to address 0x0 (null pointer)" },
	{ BYTES("\x48\x89\x07"), 8, SIGSEGV, 1, 8, false, 0, "SIGSEGV: write to address 0x8 (8 bytes past a null pointer)", "SIGSEGV: access to address 0x8 (8 bytes past a null pointer)" },
	{ BYTES("\x48\x89\x07"), 1, SIGSEGV, 1, 1, false, 0, "SIGSEGV: write to address 0x1 (1 byte past a null pointer)", "SIGSEGV: access to address 0x1 (1 byte past a null pointer)" },
	/* It is mapped, so it is past the end of nothing. */
	{ BYTES("\x48\x89\x07"), DATA + 0x1005, SIGSEGV, 1, DATA + 0x1005, false, 0, "SIGSEGV: write to address 0x51005 (5 bytes past the end of the memory at 0x50000)",
	  "SIGSEGV: access to address 0x51005 (5 bytes past the end of the memory at 0x50000)" },
	{ BYTES("\x48\x89\x07"), DATA + 0x1005, SIGSEGV, 2, DATA + 0x1005, false, 0, "SIGSEGV: write to address 0x51005 (the mapping does not allow it)",
	  "SIGSEGV: access to address 0x51005 (the mapping does not allow it)" },
	/* A signal frame has the page fault's own code, and that decides. */
	{ BYTES("\x90"), 0, SIGSEGV, 1, 8, true, 6, "SIGSEGV: write to address 0x8 (8 bytes past a null pointer)", "SIGSEGV: write to address 0x8 (8 bytes past a null pointer)" },
	{ BYTES("\x90"), 0, SIGSEGV, 1, 8, true, 4, "SIGSEGV: read of address 0x8 (8 bytes past a null pointer)", "SIGSEGV: read of address 0x8 (8 bytes past a null pointer)" },
	{ BYTES("\x48\x8b\x07"), WILD, SIGSEGV, SI_KERNEL, 0, false, 0, "SIGSEGV: read of address 0x4141414141414140 (no address can be like that)",
	  REFUSED },
	{ BYTES("\xc3"), 0, SIGSEGV, SI_KERNEL, 0, false, 0, "SIGSEGV: return to 0x4444444444444444 (no address can be like that)",
	  REFUSED },
	{ BYTES("\xf4"), 0, SIGSEGV, SI_KERNEL, 0, false, 0, "SIGSEGV: privileged instruction hlt, which only the kernel may execute",
	  REFUSED },
	{ BYTES("\xec"), 0, SIGSEGV, SI_KERNEL, 0, false, 0, "SIGSEGV: privileged instruction in, which only the kernel may execute", REFUSED },
	{ BYTES("\xfa"), 0, SIGSEGV, SI_KERNEL, 0, false, 0, "SIGSEGV: privileged instruction cli, which only the kernel may execute", REFUSED },
	{ BYTES("\x8e\xd8"), 0, SIGSEGV, SI_KERNEL, 0, false, 0, "SIGSEGV: the processor refused the instruction mov, or what it loads; no address is given", REFUSED },
	/* int 0x50; ldmxcsr [rdi]; iretq; ret far; jmp far [rdi] */
	{ BYTES("\xcd\x50"), 0, SIGSEGV, SI_KERNEL, 0, false, 0, "SIGSEGV: the processor refused the instruction int, which accesses no memory", REFUSED },
	{ BYTES("\x0f\xae\x17"), DATA, SIGSEGV, SI_KERNEL, 0, false, 0, "SIGSEGV: the processor refused the instruction ldmxcsr, or what it loads; no address is given", REFUSED },
	{ BYTES("\x48\xcf"), 0, SIGSEGV, SI_KERNEL, 0, false, 0, "SIGSEGV: the processor refused the instruction iretq, or what it loads; no address is given", REFUSED },
	{ BYTES("\x48\xcb"), 0, SIGSEGV, SI_KERNEL, 0, false, 0, "SIGSEGV: the processor refused the instruction ret, or what it loads; no address is given", REFUSED },
	{ BYTES("\xff\x2f"), DATA, SIGSEGV, SI_KERNEL, 0, false, 0, "SIGSEGV: the processor refused the instruction jmp, or what it loads; no address is given", REFUSED },
	/* lgdt [0x10]; outsb; rdpmc: they are refused before any address is looked at */
	{ BYTES("\x0f\x01\x14\x25\x10\x00\x00\x00"), 0, SIGSEGV, SI_KERNEL, 0, false, 0, "SIGSEGV: privileged instruction lgdt, which only the kernel may execute", REFUSED },
	{ BYTES("\x6e"), 0, SIGSEGV, SI_KERNEL, 0, false, 0, "SIGSEGV: privileged instruction outsb, which only the kernel may execute", REFUSED },
	{ BYTES("\x0f\x33"), 0, SIGSEGV, SI_KERNEL, 0, false, 0, "SIGSEGV: privileged instruction rdpmc, which only the kernel may execute", REFUSED },
	/* fxsave, xrstor, movups, vmovups, vmovaps ymm0, and cmpxchg16b of [rdi] */
	{ BYTES("\x0f\xae\x07"), DATA + 8, SIGSEGV, SI_KERNEL, 0, false, 0, "SIGSEGV: write to address 0x50008, which the instruction wants to be a multiple of 16", REFUSED },
	{ BYTES("\x0f\xae\x07"), DATA + 16, SIGSEGV, SI_KERNEL, 0, false, 0,
	  "SIGSEGV: the processor refused an access; no address is given (often an address that is not canonical)", REFUSED },
	{ BYTES("\x0f\xae\x2f"), DATA + 16, SIGSEGV, SI_KERNEL, 0, false, 0, "SIGSEGV: read of address 0x50010, which the instruction wants to be a multiple of 64", REFUSED },
	{ BYTES("\x0f\x11\x07"), DATA + 8, SIGSEGV, SI_KERNEL, 0, false, 0,
	  "SIGSEGV: the processor refused an access; no address is given (often an address that is not canonical)", REFUSED },
	{ BYTES("\xc5\xfc\x11\x07"), DATA + 8, SIGSEGV, SI_KERNEL, 0, false, 0,
	  "SIGSEGV: the processor refused an access; no address is given (often an address that is not canonical)", REFUSED },
	{ BYTES("\xc5\xfc\x29\x07"), DATA + 16, SIGSEGV, SI_KERNEL, 0, false, 0, "SIGSEGV: write to address 0x50010, which the instruction wants to be a multiple of 32", REFUSED },
	{ BYTES("\x48\x0f\xc7\x0f"), DATA + 8, SIGSEGV, SI_KERNEL, 0, false, 0,
	  "SIGSEGV: read and write of address 0x50008, which the instruction wants to be a multiple of 16", REFUSED },
	{ BYTES("\x48\x8b\x07"), DATA, SIGSEGV, SI_KERNEL, 0, false, 0,
	  "SIGSEGV: the processor refused an access; no address is given (often an address that is not canonical)", REFUSED },
	/* A page fault whose signal could not be delivered. */
	{ BYTES("\x48\x89\x07"), 0x9999000, SIGSEGV, SI_KERNEL, 0, false, 0, "SIGSEGV: write to address 0x9999000 (nothing is mapped there)", REFUSED },
	{ BYTES("\x0f\x29\x47\x01"), DATA, SIGSEGV, SI_KERNEL, 0, false, 0, "SIGSEGV: write to address 0x50001, which the instruction wants to be a multiple of 16",
	  REFUSED },
	/* div edi; idiv edi; idiv qword [rdi]; div bh */
	{ BYTES("\xf7\xf7"), 0, SIGFPE, 1, CODE, false, 0, "SIGFPE: integer division by zero at 0x401000", "SIGFPE: integer division by zero or overflow at 0x401000" },
	{ BYTES("\xf7\xf7"), 0xffffffff00000000, SIGFPE, 1, CODE, false, 0, "SIGFPE: integer division by zero at 0x401000", "SIGFPE: integer division by zero or overflow at 0x401000" },
	{ BYTES("\xf7\xff"), 0xffffffff, SIGFPE, 1, CODE, false, 0, "SIGFPE: overflow of an integer division at 0x401000", "SIGFPE: integer division by zero or overflow at 0x401000" },
	{ BYTES("\x48\xf7\x3f"), DATA, SIGFPE, 1, CODE, false, 0, "SIGFPE: integer division by zero at 0x401000", "SIGFPE: integer division by zero or overflow at 0x401000" },
	{ BYTES("\x48\xf7\x3f"), 0x8, SIGFPE, 1, CODE, false, 0, "SIGFPE: integer division by zero or overflow at 0x401000", "SIGFPE: integer division by zero or overflow at 0x401000" },
	{ BYTES("\xf6\xf7"), 0, SIGFPE, 1, CODE, false, 0, "SIGFPE: integer division by zero at 0x401000", "SIGFPE: integer division by zero or overflow at 0x401000" },
	{ BYTES("\x90"), 0, SIGFPE, 1, CODE, false, 0, "SIGFPE: integer division by zero or overflow at 0x401000", "SIGFPE: integer division by zero or overflow at 0x401000" },
	/* No address is given. */
	{ BYTES("\x8b\x47\x01"), DATA, SIGBUS, 1, 0, false, 0, "SIGBUS: an access that is not aligned; no address is given", "SIGBUS: an access that is not aligned; no address is given" },
	{ BYTES("\x8b\x47\x01"), DATA, SIGBUS, 1, DATA + 1, false, 0, "SIGBUS: read of address 0x50001 (not aligned)", "SIGBUS: access to address 0x50001 (not aligned)" },
	{ BYTES("\x90"), 0, SIGTRAP, SI_KERNEL, 0, false, 0, "SIGTRAP: sent by the kernel; no address is given", "SIGTRAP: sent by the kernel; no address is given" },
	{ BYTES("\x90"), 0, SIGTRAP, 1, CODE, false, 0, "SIGTRAP: breakpoint instruction at 0x401000", "SIGTRAP: breakpoint instruction at 0x401000" },
	{ BYTES("\x0f\x0b"), 0, SIGILL, 2, CODE, false, 0, "SIGILL: illegal operand at 0x401000", "SIGILL: illegal operand at 0x401000" },
};

START_TEST(title)
{
	__auto_type c = &titles[_i];
	struct machine m = machine("x86_64", c->bytes, c->n, c->rdi, 0, 0);
	struct target t = { .img = m.img, .arena = arena_new() };
	struct report *r = report_new();
	struct fault f = { .signo = c->signo, .code = c->code, .has_addr = true, .addr = c->addr, .regs = &only(m.img)->regs, .has_error = c->has_error, .error = c->error };
	struct str got = fault_title(&t, r, &f);
	ck_assert_str_eq(str_c(t.arena, got), HAVE_ZYDIS ? c->zydis : c->without);
	arena_free(t.arena);
	report_free(r);
	end(&m);
}
END_TEST

/* int3: pc is after it, and the kernel gives neither code nor address. */
START_TEST(breakpoint)
{
	struct build_elf *b = build_elf_new("x86_64");
	build_elf_thread(b, 100, CODE + 1, SP);
	build_elf_load(b, CODE, "\xcc\x90", 2, 5);
	struct image *img = build_elf_open(b);
	struct target t = { .img = img, .arena = arena_new() };
	struct report *r = report_new();
	struct fault f = { .signo = SIGTRAP, .code = SI_KERNEL, .has_addr = true, .regs = &only(img)->regs };
	ck_assert_str_eq(str_c(t.arena, fault_title(&t, r, &f)), "SIGTRAP: breakpoint instruction at 0x401000");
	ck_assert(!signal_gives_address(SIGTRAP, SI_KERNEL, 0) && !signal_gives_address(SIGBUS, 1, 0));
	ck_assert(signal_gives_address(SIGBUS, 1, 9) && signal_gives_address(SIGSEGV, 1, 0));
	arena_free(t.arena);
	report_free(r);
	image_close(img);
	build_elf_free(b);
}
END_TEST

/* How it came to where no code is, by what the stack shows. */
START_TEST(no_code)
{
	/* Behind the calls: of rax, of a function, of an entry of a linkage table, of [rsp+8]. */
	enum { INDIRECT = CODE + 7, DIRECT = CODE + 12, LINKED = CODE + 17, STACKED = CODE + 21, LINKAGE = CODE + 0x40, SLOT = DATA + 0x100 };
	static const struct { addr_t pc, rax, above, below, slot; enum arrival_how how; bool another; addr_t callee; const char *words; } ways[] = {
		{ 0x77777, 0, 0, 0x77777, 0, ARRIVED_RETURN, false, 0, "a return to unmapped memory" },
		/* What lies below need not have been returned to; rax tells. */
		{ 0x77777, 0x77777, INDIRECT, 0x77777, 0, ARRIVED_CALL, false, 0, "a call of unmapped memory" },
		{ 0x77777, 0x77777, INDIRECT, 0, 0, ARRIVED_CALL, false, 0, "a call of unmapped memory" },
		{ 0x77777, 1, INDIRECT, 0x77777, 0, ARRIVED_JUMP_OR_RETURN, true, 0, "a jump or return to unmapped memory" },
		{ 0x77777, 1, INDIRECT, 0, 0, ARRIVED_JUMP, true, 0, "a jump to unmapped memory" },
		{ 0x77777, 0, CODE, 0, 0, ARRIVED_JUMP, false, 0, "a jump to unmapped memory" },
		{ 0x77777, 0, 0, 0, 0, ARRIVED_JUMP, false, 0, "a jump to unmapped memory" },
		{ 0, 0, INDIRECT, 0, 0, ARRIVED_CALL, false, 0, "a call of a null pointer" },
		{ 0, 1, INDIRECT, 0, 0, ARRIVED_JUMP_OR_RETURN, true, 0, "a jump or return to a null pointer" },
		{ 0, 0, DIRECT, 0, 0, ARRIVED_JUMP_OR_RETURN, true, CODE, "a jump or return to a null pointer" },
		{ 0, 0, DIRECT, 9, 0, ARRIVED_JUMP, true, CODE, "a jump to a null pointer" },
		{ 0, 0, 0, 0, 0, ARRIVED_RETURN, false, 0, "a return to a null pointer" },
		{ 0, 1, LINKED, 9, 0, ARRIVED_CALL, false, 0, "a call of a null pointer" },
		{ 0, 1, LINKED, 9, CODE + 5, ARRIVED_JUMP, true, CODE + 5, "a jump to a null pointer" },
		/* rsp was 8 more then. */
		{ 0x77777, 1, STACKED, 0x77777, 0x77777, ARRIVED_CALL, false, 0, "a call of unmapped memory" },
	};
	struct build_elf *b = build_elf_new("x86_64");
	build_elf_thread(b, 100, ways[_i].pc, SP);
	uint8_t *stack = build_elf_memory(b, STACK, 0x2000, 3);
	build_elf_put(b, stack + (SP - STACK), 8, ways[_i].above);
	build_elf_put(b, stack + (SP - STACK) - 8, 8, ways[_i].below);
	build_elf_put(b, stack + (SP - STACK) + 16, 8, ways[_i].slot);
	build_elf_reg(b, "rax", ways[_i].rax);
	uint8_t *code = build_elf_memory(b, CODE, 0x1000, 5);
	memset(code, 0x90, 0x80);
	memcpy(code + 5, "\xff\xd0\xe8\xf4\xff\xff\xff\xe8\x2f\x00\x00\x00\xff\x54\x24\x08", 16);
	memcpy(code + (LINKAGE - CODE), "\xf3\x0f\x1e\xfa\xf2\xff\x25", 7); /* endbr64; bnd jmp [rip + disp] */
	build_elf_put(b, code + (LINKAGE - CODE) + 7, 4, (uint32_t)(SLOT - (LINKAGE + 11)));
	build_elf_put(b, build_elf_memory(b, DATA, 0x1000, 3) + (SLOT - DATA), 8, ways[_i].slot);
	build_elf_file(b, CODE, CODE + 0x1000, 0, "/usr/lib/libx.so");
	struct image *img = build_elf_open(b);
	struct target t = { .img = img, .arena = arena_new() };
	struct report *r = report_new();
	struct fault f = { .signo = SIGSEGV, .code = 1, .has_addr = true, .addr = ways[_i].pc, .regs = &only(img)->regs };
	const struct arrival a = arrival_at(&t, f.regs);
	CLEANUP(cleanup_free) char *want = xasprintf("SIGSEGV: execution of address 0x%llx (%s)", (unsigned long long)ways[_i].pc, ways[_i].words);
	if (HAVE_ZYDIS) {
		ck_assert_str_eq(str_c(t.arena, fault_title(&t, r, &f)), want);
		ck_assert_int_eq(a.how, ways[_i].how);
		ck_assert(a.another == ways[_i].another && a.callee == ways[_i].callee);
		ck_assert_str_eq(r->verdict.access, "exec");
	} else {
		ck_assert(a.how == ways[_i].how || a.how == ARRIVED_ANYHOW || a.how == ARRIVED_CALL_OR_JUMP);
	}
	arena_free(t.arena);
	report_free(r);
	image_close(img);
	build_elf_free(b);
}
END_TEST

/* ---- signal frames */

/*
 * Machines and kinds of frames, from the start of struct sigcontext: where things are, words that tell one, and one of them spoilt.
 * old: a frame without siginfo.
 */
static const struct kind {
	const char *name, *abi;
	unsigned width, sp, pc, trap, error, fault, reg, dwarf; /* reg: of one register that is looked at */
	int info;                                               /* 0: none */
	struct { int at; unsigned width; uint64_t v; } word[8];
	int back;                                               /* where the return address is, which leads to RETURN; 0: not looked at */
	const char *code; size_t n_code;
} kinds[] = {
	{ "x86-64", "x86_64", 8, 120, 128, 160, 152, 176, 64, 5, 264, { { 144, 8, 0x002b000000000033 }, { -40, 8, 7 } }, 0, NULL, 0 },
	{ "aarch64", "aarch64", 8, 256, 264, 0, 0, 0, 48, 5, -304, { { 288, 8, 0x0000021046508001 } }, 0, NULL, 0 },
	{ "i386", "i386", 4, 28, 56, 48, 52, 84, 16, 7, -148, { { 60, 4, 0x23 }, { 72, 4, 0x2b }, { 8, 4, 0x2b }, { 12, 4, 0x2b }, { -20, 4, 5 }, { -8, 4, 2 } }, -164, BYTES("\xb8\xad\0\0\0\xcd\x80") },
	{ "i386, old", "i386", 4, 28, 56, 48, 52, 84, 16, 7, 0, { { 60, 4, 0x23 }, { 72, 4, 0x2b }, { 8, 4, 0x2b }, { 12, 4, 0x2b } }, -8, BYTES("\x58\xb8\x77\0\0\0\xcd\x80") },
	{ "i386 of a 32-bit kernel", "i386", 4, 28, 56, 48, 52, 84, 16, 7, -148, { { 60, 4, 0x73 }, { 72, 4, 0x7b }, { 8, 4, 0x7b }, { 12, 4, 0x7b } }, -164, BYTES("\xb8\xad\0\0\0\xcd\x80") },
	{ "arm", "arm", 4, 64, 72, 0, 0, 80, 32, 5, -148, { { 212, 4, 0x56465001 }, { 216, 4, 0x120 }, { 76, 4, 0x60000030 } }, 0, NULL, 0 },
	{ "arm, old", "arm", 4, 64, 72, 0, 0, 80, 32, 5, 0, { { 212, 4, 0x56465001 }, { 216, 4, 0x120 }, { 76, 4, 0x10 }, { -20, 4, 0x5ac3c35a } }, 0, NULL, 0 },
	{ "arm with iwMMXt", "arm", 4, 64, 72, 0, 0, 80, 32, 5, 0, { { 372, 4, 0x56465001 }, { 376, 4, 0x120 }, { 76, 4, 0x10 }, { -20, 4, 0x5ac3c35a } }, 0, NULL, 0 },
	{ "arm, big-endian", "armeb", 4, 64, 72, 0, 0, 80, 32, 5, -148, { { 212, 4, 0x56465001 }, { 216, 4, 0x120 }, { 76, 4, 0x210 } }, 0, NULL, 0 },
};
enum { RETURN = CODE + 0x100 };

static void put_context(struct build_elf *b, uint8_t *at, const struct kind *k, addr_t pc, addr_t sp)
{
	build_elf_put(b, at + k->sp, k->width, sp);
	build_elf_put(b, at + k->pc, k->width, pc);
	build_elf_put(b, at + k->fault, k->width, 0x1234);
	build_elf_put(b, at + k->reg, k->width, 0x777);
	for (size_t i = 0; i < 8 && k->word[i].width; i++)
		build_elf_put(b, at + k->word[i].at, k->word[i].width, k->word[i].v);
	if (k->back)
		build_elf_put(b, at + k->back, k->width, RETURN);
	if (k->trap) {
		build_elf_put(b, at + k->error, k->width, 6);     /* a write */
		build_elf_put(b, at + k->trap, k->width, TRAP_PAGE);
	}
}

static void put_info(struct build_elf *b, uint8_t *at, const struct kind *k, int signo, int code, uint64_t addr_or_pid, unsigned uid)
{
	at += k->info;
	build_elf_put(b, at, 4, (uint32_t)signo);
	build_elf_put(b, at + 8, 4, (uint32_t)code);
	at += k->width == 8 ? 16 : 12;
	build_elf_put(b, at, code > 0 ? k->width : 4, addr_or_pid);
	if (code <= 0)
		build_elf_put(b, at + 4, 4, uid);
}

enum { CONTEXT = 0x200 /* from sp */, INFO = 264 };

static struct build_elf *with_code(const struct kind *k)
{
	struct build_elf *b = build_elf_new(k->abi);
	build_elf_thread(b, 100, CODE, SP);
	uint8_t *code = build_elf_memory(b, CODE, 0x1000, 5);
	if (k->n_code)
		memcpy(code + (RETURN - CODE), k->code, k->n_code);
	return b;
}

START_TEST(frame)
{
	const struct kind *k = &kinds[_i];
	struct build_elf *b = with_code(k);
	uint8_t *stack = build_elf_memory(b, STACK, 0x4000, 3), *sp = stack + (SP - STACK);
	put_context(b, sp - 0x400, k, 0x666, SP + 0x800); /* below what is in use */
	put_context(b, sp + CONTEXT, k, CODE + 8, SP + 0x800);
	put_context(b, sp + 0x1000, k, CODE + 16, SP + 0x1800);
	if (k->info) {
		put_info(b, sp + CONTEXT, k, SIGSEGV, 1, 0x1234, 0);
		put_info(b, sp + 0x1000, k, SIGUSR1, -6, 100, 1000);
	}
	struct image *img = build_elf_open(b);
	struct signal_frame f;
	ck_assert_msg(signal_frame_next(img, only(img), 0, &f) == 0, "%s", k->name);
	ck_assert_uint_eq(f.at, SP + CONTEXT);
	ck_assert_uint_eq(f.regs.pc, CODE + 8);
	ck_assert_uint_eq(f.regs.sp, SP + 0x800);
	ck_assert_int_eq(f.has_info, k->info != 0);
	ck_assert_uint_eq(f.addr, 0x1234);
	ck_assert_int_eq(f.trapped, k->trap != 0);
	ck_assert_uint_eq(f.regs.value[k->dwarf], 0x777);
	if (k->info)
		ck_assert_int_eq(f.signo, SIGSEGV);
	if (k->trap) {
		ck_assert_uint_eq(f.error, 6);
		ck_assert_uint_eq(f.trap, TRAP_PAGE);
	}
	ck_assert_int_eq(signal_frame_next(img, only(img), f.at + 8, &f), 0);
	ck_assert_uint_eq(f.at, SP + 0x1000);
	if (k->info) {
		ck_assert_int_eq(f.signo, SIGUSR1);
		ck_assert_int_eq(f.pid, 100);
		ck_assert_int_eq(f.uid, 1000);
	}
	ck_assert_int_eq(signal_frame_next(img, only(img), f.at + 8, &f), ERR_ABSENT);
	image_close(img);
	build_elf_free(b);
}
END_TEST

/* Each word that tells a frame from other data, and the code that is returned to, is looked at. */
START_TEST(spoilt)
{
	const struct kind *k = &kinds[_i];
	for (size_t i = 0; i < 9; i++) {
		struct build_elf *b = with_code(k);
		uint8_t *at = build_elf_memory(b, STACK, 0x4000, 3) + (SP - STACK) + CONTEXT;
		put_context(b, at, k, CODE + 8, SP + 0x800);
		if (i < 8 && k->word[i].width)
			build_elf_put(b, at + k->word[i].at, k->word[i].width, 0x7004);
		else if (i == 8 && k->back)
			build_elf_put(b, at + k->back, k->width, RETURN - 1);
		else if (i == 8)
			build_elf_put(b, at + k->sp, k->width, 0x900004);
		struct image *img = build_elf_open(b);
		struct signal_frame f;
		ck_assert_msg(signal_frame_next(img, only(img), 0, &f) == (i < 8 && !k->word[i].width ? 0 : ERR_ABSENT), "%s: word %zu", k->name, i);
		image_close(img);
		build_elf_free(b);
	}
}
END_TEST

/* Where the code that is returned to is not in the image, the words have to do. */
START_TEST(no_return_code)
{
	const struct kind *k = &kinds[3];
	struct build_elf *b = with_code(k);
	uint8_t *at = build_elf_memory(b, STACK, 0x4000, 3) + (SP - STACK) + CONTEXT;
	put_context(b, at, k, CODE + 8, SP + 0x800);
	build_elf_put(b, at + k->back, 4, 0xf7f00540);
	struct image *img = build_elf_open(b);
	struct signal_frame f;
	ck_assert_int_eq(signal_frame_next(img, only(img), 0, &f), 0);
	ck_assert(!f.has_info);
	image_close(img);
	build_elf_free(b);
}
END_TEST

/* A stack that is full: its pointer stands below it, up to a guard's size; not below what cannot be a stack, nor further. */
START_TEST(overflown)
{
	static const struct { addr_t sp; int rc; } at[] = { { STACK - 8, 0 }, { STACK - 0x10000, 0 }, { DATA - 8, ERR_ABSENT }, { 0x90000, ERR_ABSENT } };
	struct build_elf *b = build_elf_new("x86_64");
	build_elf_thread(b, 100, CODE, SP);
	put_context(b, build_elf_memory(b, STACK, 0x4000, 3) + (SP - STACK) + CONTEXT, &kinds[0], CODE + 8, at[_i].sp);
	memset(build_elf_memory(b, DATA, 0x1000, 1), 0, 0x1000);
	struct image *img = build_elf_open(b);
	struct signal_frame f;
	ck_assert_int_eq(signal_frame_next(img, only(img), 0, &f), at[_i].rc);
	image_close(img);
	build_elf_free(b);
}
END_TEST

/* Frames without siginfo of pid 100's thread 101; pc is 8 bytes into the code. */
#define TGKILL "\x90\xb8\xea\x00\x00\x00\x0f\x05\x90\x90\x90\x90"
#define READING "\x90\xb8\x00\x00\x00\x00\x0f\x05\x90\x90\x90\x90"
#define KILL "\x90\xb8\x3e\x00\x00\x00\x0f\x05\x90\x90\x90\x90"
#define OTHER "\x89\xc8\x90\x90\x90\x90\x0f\x05\x90\x90\x90\x90"
#define NOPS "\x90\x90\x90\x90\x90\x90\x90\x90\x90\x90\x90\x90"
#define READS "\x90\x90\x90\x90\x90\x90\x90\x90\x8b\x07\x90\x90"
#define I386_READS "\x90\x90\x90\x90\x90\x90\x90\x90\x8b\x03\x90\x90"
#define DIVIDE "\x90\x90\x90\x90\x90\x90\x90\x90\xf7\xf7\x90\x90"
#define AGAIN "\x90\x90\x90\x90\x90\x90\x90\x90\x0f\x05\x90\x90"
#define SVC "\x1f\x20\x03\xd5\x01\x00\x00\xd4\x1f\x20\x03\xd5"
#define ARM_SVC "\x00\x00\xa0\xe1\x00\x00\x00\xef\x00\x00\xa0\xe1"
#define THUMB_SVC "\xc0\x46\xc0\x46\xc0\x46\x00\xdf\xc0\x46\xc0\x46"
#define INT80 "\x90\xb8\x0e\x01\x00\x00\xcd\x80\x90\x90\x90\x90"
#define INT80_READING "\x90\xb8\x03\x00\x00\x00\xcd\x80\x90\x90\x90\x90"
#define VSYSCALL "\x51\x52\x55\x89\xcd\x05\xcd\x80\x5d\x5a\x59\xc3"
#define A64_READS "\x1f\x20\x03\xd5\x1f\x20\x03\xd5\x01\x00\x40\xf9"
#define A64_NOPS "\x1f\x20\x03\xd5\x1f\x20\x03\xd5\x1f\x20\x03\xd5"
static const struct { const char *code; int last; unsigned trap; uint64_t arg[3], result; enum origin origin; int signo, si_code; uint64_t nr; const char *abi; } origins[] = {
	{ TGKILL, SIGABRT, 0, { 100, 101, SIGABRT }, 0, ORIGIN_OWN, SIGABRT, SI_TKILL, 0 },
	{ OTHER, SIGSEGV, 0, { 100, 101, SIGSEGV }, 0, ORIGIN_OWN, SIGSEGV, SI_TKILL, 0 },
	{ KILL, SIGABRT, 0, { 100, SIGABRT, 0 }, 0, ORIGIN_OWN, SIGABRT, SI_TKILL, 0 },
	{ KILL, SIGABRT, 0, { 0, SIGABRT, 0 }, 0, ORIGIN_OWN, SIGABRT, SI_TKILL, 0 },
	/* Another call, signal, thread, process; it failed. */
	{ READING, SIGABRT, 0, { 100, 101, SIGABRT }, 0, ORIGIN_OUTSIDE, SIGABRT, SI_TKILL, 0 },
	{ TGKILL, SIGABRT, 0, { 100, 101, SIGUSR1 }, 0, ORIGIN_OUTSIDE, SIGABRT, SI_TKILL, 0 },
	{ TGKILL, SIGABRT, 0, { 100, 102, SIGABRT }, 0, ORIGIN_OUTSIDE, SIGABRT, SI_TKILL, 0 },
	{ KILL, SIGABRT, 0, { 55, SIGABRT, 0 }, 0, ORIGIN_OUTSIDE, SIGABRT, SI_TKILL, 0 },
	{ READING, SIGABRT, 0, { 3, 0x1234, 4096 }, (uint64_t)-4, ORIGIN_OUTSIDE, SIGABRT, SI_TKILL, 0 },
	{ NOPS, SIGABRT, 0, { 100, 101, SIGABRT }, 0, ORIGIN_OUTSIDE, SIGABRT, SI_TKILL, 0 },
	/* What the processor did not trap for. */
	{ NOPS, SIGSEGV, 0, { 0 }, 0, ORIGIN_OUTSIDE, SIGSEGV, SI_TKILL, 0 },
	{ NOPS, SIGBUS, 0, { 0 }, 0, ORIGIN_OUTSIDE, SIGBUS, SI_TKILL, 0 },
	{ NOPS, SIGILL, 0, { 0 }, 0, ORIGIN_OUTSIDE, SIGILL, SI_TKILL, 0 },
	{ NOPS, SIGFPE, 0, { 0 }, 0, ORIGIN_OUTSIDE, SIGFPE, SI_TKILL, 0 },
	{ READING, SIGFPE, 0, { 0 }, 0, ORIGIN_OUTSIDE, SIGFPE, SI_TKILL, 0 },
	/* An old trap, and a system call. */
	{ READING, SIGSEGV, TRAP_PAGE, { 0 }, 1, ORIGIN_OUTSIDE, SIGSEGV, SI_TKILL, 0 },
	{ AGAIN, SIGSEGV, TRAP_PAGE, { 0 }, 1, ORIGIN_OUTSIDE, SIGSEGV, SI_TKILL, 0 },
	{ READS, SIGSEGV, TRAP_PAGE, { 0x1234 }, 0, ORIGIN_FAULT, SIGSEGV, 1, 0 },
	{ READS, SIGABRT, TRAP_PAGE, { 0x1234 }, 0, ORIGIN_FAULT, SIGSEGV, 1, 0 },
	{ NOPS, SIGSEGV, TRAP_PROTECTION, { 0 }, 0, ORIGIN_FAULT, SIGSEGV, SI_KERNEL, 0 },
	{ READS, SIGBUS, TRAP_PAGE, { 0x1234 }, 0, ORIGIN_FAULT, SIGBUS, 2, 0, NULL },
	{ NOPS, SIGBUS, TRAP_ALIGNMENT, { 0 }, 0, ORIGIN_FAULT, SIGBUS, 1, 0 },
	{ NOPS, SIGILL, TRAP_ILLEGAL, { 0 }, 0, ORIGIN_FAULT, SIGILL, 1, 0 },
	{ DIVIDE, SIGFPE, TRAP_DIVIDE, { 0 }, 0, ORIGIN_FAULT, SIGFPE, 1, 0 },
	/* aarch64: the first argument is gone, the number is not. */
	{ SVC, SIGABRT, 0, { 0, 101, SIGABRT }, 0, ORIGIN_OWN, SIGABRT, SI_TKILL, 131 },
	{ SVC, SIGABRT, 0, { 0, 101, SIGABRT }, 0, ORIGIN_OUTSIDE, SIGABRT, SI_TKILL, 63 },
	{ SVC, SIGSEGV, 0, { 0, 5, 6 }, 0, ORIGIN_OUTSIDE, SIGSEGV, SI_TKILL, 63 },
	{ A64_NOPS, SIGSEGV, 0, { 0, 5, 6 }, 0, ORIGIN_FAULT, SIGSEGV, 1, 63 },
	/* arm, and Thumb: tgkill is 268. */
	{ ARM_SVC, SIGABRT, 0, { 0, 101, SIGABRT }, 0, ORIGIN_OWN, SIGABRT, SI_TKILL, 268, "arm" },
	{ THUMB_SVC, SIGABRT, 0, { 0, 101, SIGABRT }, 0, ORIGIN_OWN, SIGABRT, SI_TKILL, 268, "arm" },
	{ THUMB_SVC, SIGABRT, 0, { 0, 101, SIGABRT }, 0, ORIGIN_OUTSIDE, SIGABRT, SI_TKILL, 3, "arm" },
	{ A64_NOPS, SIGSEGV, 0, { 0, 101, SIGABRT }, 0, ORIGIN_FAULT, SIGSEGV, 1, 268, "arm" },
	/* i386: by the number that the caller of int $0x80 gave, and through __kernel_vsyscall, where only the arguments tell. */
	{ INT80, SIGABRT, 0, { 100, 101, SIGABRT }, 0, ORIGIN_OWN, SIGABRT, SI_TKILL, 0, "i386" },
	{ INT80_READING, SIGABRT, 0, { 100, 101, SIGABRT }, 0, ORIGIN_OUTSIDE, SIGABRT, SI_TKILL, 0, "i386" },
	{ VSYSCALL, SIGABRT, 0, { 100, 101, SIGABRT }, 0, ORIGIN_OWN, SIGABRT, SI_TKILL, 0, "i386" },
	{ VSYSCALL, SIGABRT, 0, { 3, 0x1234, 4096 }, (uint32_t)-4, ORIGIN_OUTSIDE, SIGABRT, SI_TKILL, 0, "i386" },
	{ I386_READS, SIGSEGV, TRAP_PAGE, { 0x1234 }, 0, ORIGIN_FAULT, SIGSEGV, 1, 0, "i386" },
	{ DIVIDE, SIGFPE, TRAP_DIVIDE, { 0 }, 0, ORIGIN_FAULT, SIGFPE, 1, 0, "i386" },
};
static const struct { const char *abi; uint8_t arg[3], result; int8_t nr; bool traps; } callers[] = {
	{ "x86_64", { 5, 4, 1 }, 0, -1, true }, { "aarch64", { 0, 1, 2 }, 8, 8, false }, { "arm", { 0, 1, 2 }, 7, 7, false }, { "i386", { 3, 1, 2 }, 0, -1, true },
};

START_TEST(origin)
{
	__auto_type c = &origins[_i];
	const char *abi = c->abi ? c->abi : c->nr ? "aarch64" : "x86_64";
	__auto_type k = &callers[0];
	while (strcmp(k->abi, abi))
		k++;
	struct build_elf *b = build_elf_new(abi);
	build_elf_thread(b, 101, CODE, SP);
	build_elf_prpsinfo(b, 100, 1, 0, "python", "python x.py");
	build_elf_load(b, CODE, c->code, 12, 5);
	memset(build_elf_memory(b, STACK, 0x2000, 3), 0, 0x2000);
	struct image *img = build_elf_open(b);
	struct target t = { .img = img, .arena = arena_new() };
	struct report *r = report_new();
	struct signal_frame f = { .regs = { .pc = CODE + 8, .sp = SP, .known = UINT64_MAX }, .trapped = k->traps, .trap = c->trap, .error = 4, .addr = 0x1234 };
	for (int i = 0; i < 3; i++)
		f.regs.value[k->arg[i]] = c->arg[i];
	f.regs.value[k->result] = k->nr >= 0 ? c->nr : c->result;
	struct interrupted in = { 0 };
	ck_assert_int_eq(handler_origin(&t, r, &f, 101, c->last, &in), c->origin);
	ck_assert_int_eq(in.signo, c->signo);
	ck_assert_int_eq(in.code, c->si_code);
	if (c->trap == TRAP_PAGE && c->origin == ORIGIN_FAULT)
		ck_assert_uint_eq(in.addr, 0x1234);
	arena_free(t.arena);
	report_free(r);
	image_close(img);
	build_elf_free(b);
}
END_TEST

/* The last trap, of an access to 0x1234, is that of the instruction (pc is at its start), or of another long ago.  set: rdi, x0. */
#define GATHER "\xc4\xe2\x69\x90\x04\x07" /* vpgatherdd xmm0, [rdi+xmm0], xmm2 */
static const struct { const char *abi, *code; size_t n; unsigned trap, error; uint64_t set; enum trap_fit fit; } fits[] = {
	{ "x86_64", BYTES("\x8b\x07\x90\x90"), TRAP_PAGE, 4, 0x1234, TRAP_FITS },
	{ "x86_64", BYTES("\x8b\x07\x90\x90"), TRAP_PAGE, 4, 0x1230, TRAP_OTHER },
	{ "x86_64", BYTES("\x8b\x07\x90\x90"), TRAP_PAGE, 4, 0x1232, TRAP_FITS },        /* its last bytes lie there */
	{ "x86_64", BYTES("\x01\xc3\x90\x90"), TRAP_PAGE, 4, 0x1234, TRAP_OTHER },        /* add ebx, eax */
	{ "x86_64", BYTES("\x8b\x07\x90\x90"), TRAP_PAGE, 20, 0x1234, TRAP_OTHER },       /* pc is not there */
	{ "x86_64", BYTES(GATHER), TRAP_PAGE, 4, 0x1234, TRAP_UNDECIDED },
	{ "x86_64", BYTES("\xf3\xaa\x90\x90"), TRAP_PAGE, 6, 0x1200, TRAP_UNDECIDED },    /* rep stosb */
	{ "x86_64", "", 0, TRAP_PAGE, 4, 0x1234, TRAP_UNDECIDED },                         /* not captured */
	{ "x86_64", BYTES("\x01\xc3\x90\x90"), TRAP_DIVIDE, 0, 0, TRAP_OTHER },
	{ "x86_64", BYTES("\xf7\xf7\x90\x90"), TRAP_DIVIDE, 0, 0, TRAP_FITS },
	{ "x86_64", BYTES("\x0f\x0b\x90\x90"), TRAP_ILLEGAL, 0, 0, TRAP_FITS },
	{ "x86_64", BYTES("\x01\xc3\x90\x90"), TRAP_ILLEGAL, 0, 0, TRAP_UNDECIDED },
	{ "x86_64", BYTES("\x8b\x07\x90\x90"), TRAP_PROTECTION, 0, WILD, TRAP_FITS },
	{ "x86_64", BYTES("\xf4\x90\x90\x90"), TRAP_PROTECTION, 0, 0, TRAP_FITS },        /* hlt */
	{ "x86_64", BYTES("\x01\xc3\x90\x90"), TRAP_PROTECTION, 0, 0, TRAP_UNDECIDED },
	{ "i386", BYTES("\x8b\x07\x90\x90"), TRAP_PAGE, 4, 0x1234, TRAP_FITS },
	{ "i386", BYTES("\x8b\x07\x90\x90"), TRAP_PAGE, 4, 0x99, TRAP_OTHER },
	{ "aarch64", BYTES("\x01\x00\x40\xf9"), TRAP_PAGE, 0, 0x1200, TRAP_FITS },        /* ldr x1, [x0] */
	{ "aarch64", BYTES("\x01\x00\x40\xf9"), TRAP_PAGE, 0, 0xdead0000, TRAP_OTHER },
	{ "aarch64", BYTES("\x01\x68\x60\xf8"), TRAP_PAGE, 0, 0x91a, TRAP_FITS },         /* ldr x1, [x0, x0] */
	{ "aarch64", BYTES("\x01\x68\x60\xf8"), TRAP_PAGE, 0, 0x91a00, TRAP_OTHER },
	{ "aarch64", BYTES("\x1f\x20\x03\xd5"), TRAP_PAGE, 0, 0x1234, TRAP_OTHER },       /* nop */
	{ "aarch64", BYTES("\x20\x74\x0b\xd5"), TRAP_PAGE, 2, 0x1234, TRAP_UNDECIDED },   /* dc zva, x0 */
	{ "arm", BYTES("\x00\x10\x90\xe5"), TRAP_PAGE, 0, 0x1230, TRAP_FITS },
	{ "arm", BYTES("\x00\x10\x90\xe5"), TRAP_PAGE, 0, 0xdead0000, TRAP_UNDECIDED },
};

START_TEST(last_trap)
{
	__auto_type c = &fits[_i];
	struct build_elf *b = build_elf_new(c->abi);
	build_elf_thread(b, 101, CODE, SP);
	if (c->n)
		build_elf_load(b, CODE, c->code, c->n, 5);
	memset(build_elf_memory(b, STACK, 0x2000, 3), 0, 0x2000);
	struct image *img = build_elf_open(b);
	struct target t = { .img = img, .arena = arena_new() };
	struct report *r = report_new();
	struct signal_frame f = { .regs = { .pc = CODE, .sp = SP, .known = UINT64_MAX }, .trapped = true, .trap = c->trap, .error = c->error, .addr = 0x1234 };
	const bool x86 = strcmp(c->abi, "x86_64") == 0 || strcmp(c->abi, "i386") == 0;
	f.regs.value[strcmp(c->abi, "x86_64") == 0 ? 5 : x86 ? 7 : 0] = c->set;
	const bool decoder = HAVE_ZYDIS || !x86 || c->trap == TRAP_DIVIDE || c->error & 16;
	ck_assert_int_eq(trap_fits(&t, r, &f), decoder ? c->fit : TRAP_UNDECIDED);
	/* A signal from outside; no claim is made where it is not known. */
	struct interrupted in = { 0 };
	const int last = c->trap == TRAP_DIVIDE ? SIGFPE : c->trap == TRAP_ILLEGAL ? SIGILL : SIGSEGV;
	const enum origin from = handler_origin(&t, r, &f, 101, last, &in);
	ck_assert_int_eq(from == ORIGIN_FAULT, !decoder || c->fit != TRAP_OTHER);
	ck_assert_int_eq(in.doubtful, !decoder || c->fit == TRAP_UNDECIDED);
	arena_free(t.arena);
	report_free(r);
	image_close(img);
	build_elf_free(b);
}
END_TEST

/* aarch64's records: what the syndrome of the last fault of memory says.  trap 0: it says nothing of one. */
START_TEST(syndrome)
{
	static const struct { uint32_t before, magic, size; uint64_t esr; int trap; unsigned error; bool no_trap; } says[] = {
		{ 0, 0x45535201, 16, 0x92000047, TRAP_PAGE, 2, false },      /* a write, nothing is mapped */
		{ 0, 0x45535201, 16, 0x9200000f, TRAP_PAGE, 1, false },      /* a read that is not allowed */
		{ 0, 0x45535201, 16, 0x82000006, TRAP_PAGE, 16, false },     /* an instruction */
		{ 0, 0x45535201, 16, 0x92000061, TRAP_ALIGNMENT, 2, false },
		{ 0, 0x45535201, 16, 0x8a000000, TRAP_ALIGNMENT, 0, false }, /* of pc */
		{ 0, 0x45535201, 16, 0x56000000, 0, 0, false },              /* svc */
		{ 0x53564501, 0x45535201, 16, 0x92000047, TRAP_PAGE, 2, false },
		{ 0x53564501, 0, 0, 0, 0, 0, true },
		{ 0, 0, 0, 0, 0, 0, true },
		{ 0, 0x45535201, 4, 0x92000047, 0, 0, false },               /* sizes that cannot be */
		{ 0, 0x12345678, 8000, 0, 0, 0, false },
	};
	__auto_type c = &says[_i];
	const struct kind *k = &kinds[0];
	while (strcmp(k->abi, "aarch64"))
		k++;
	struct build_elf *b = with_code(k);
	uint8_t *at = build_elf_memory(b, STACK, 0x4000, 3) + (SP - STACK) + CONTEXT, *record = at + 288 + 528;
	put_context(b, at, k, CODE + 8, SP + 0x1800);
	if (c->before) {
		build_elf_put(b, record, 4, c->before);
		build_elf_put(b, record + 4, 4, 32);
		record += 32;
	}
	build_elf_put(b, record, 4, c->magic);
	build_elf_put(b, record + 4, 4, c->size);
	build_elf_put(b, record + 8, 8, c->esr);
	struct image *img = build_elf_open(b);
	struct signal_frame f;
	ck_assert_int_eq(signal_frame_next(img, only(img), 0, &f), 0);
	ck_assert_int_eq(f.trapped, c->trap != 0);
	ck_assert_int_eq(f.trap, c->trap);
	ck_assert_uint_eq(f.error, c->error);
	ck_assert_int_eq(f.no_trap, c->no_trap);
	image_close(img);
	build_elf_free(b);
}
END_TEST

/* aarch64, at what is no system call: was it a fault?  no_trap: Linux would have kept one, if that wrote the core (siginfo). */
START_TEST(arm_origin)
{
	static const struct { int last; addr_t addr; bool no_trap, siginfo; unsigned trap; enum origin origin; int signo, code; } ways[] = {
		{ SIGSEGV, 0x1234, true, false, 0, ORIGIN_FAULT, SIGSEGV, 1 },
		{ SIGSEGV, 0, true, false, 0, ORIGIN_UNTOLD, SIGSEGV, 0 },
		{ SIGSEGV, CODE, true, false, 0, ORIGIN_UNTOLD, SIGSEGV, 0 },        /* which cannot be written to */
		{ SIGSEGV, STACK + 8, true, false, 0, ORIGIN_OUTSIDE, SIGSEGV, SI_TKILL },
		{ SIGSEGV, 0, false, true, 0, ORIGIN_UNTOLD, SIGSEGV, 0 },
		{ SIGSEGV, 0, true, true, 0, ORIGIN_OUTSIDE, SIGSEGV, SI_TKILL },
		{ SIGSEGV, 0x1234, true, true, 0, ORIGIN_OUTSIDE, SIGSEGV, SI_TKILL },
		{ SIGABRT, 0x1234, true, false, 0, ORIGIN_FAULT, SIGSEGV, 1 },
		{ SIGABRT, 0, true, false, 0, ORIGIN_OUTSIDE, SIGABRT, SI_TKILL },
		{ SIGABRT, 0x1234, false, true, TRAP_PAGE, ORIGIN_FAULT, SIGSEGV, 1 },
		{ SIGBUS, 0x1234, false, true, TRAP_PAGE, ORIGIN_FAULT, SIGBUS, 2 },
		{ SIGILL, 0x1234, false, true, TRAP_PAGE, ORIGIN_FAULT, SIGILL, 1 },
	};
	__auto_type c = &ways[_i];
	struct build_elf *b = build_elf_new("aarch64");
	build_elf_thread(b, 101, CODE, SP);
	build_elf_prpsinfo(b, 100, 1, 0, "python", "python x.py");
	build_elf_load(b, CODE, A64_READS, 12, 5);
	memset(build_elf_memory(b, STACK, 0x2000, 3), 0, 0x2000);
	if (c->siginfo)
		build_elf_signal_from(b, c->last, -6, 100, 0);
	struct image *img = build_elf_open(b);
	struct target t = { .img = img, .arena = arena_new() };
	struct report *r = report_new();
	struct signal_frame f = { .regs = { .pc = CODE + 8, .sp = SP, .known = UINT64_MAX }, .trapped = c->trap != 0, .trap = c->trap, .no_trap = c->no_trap, .addr = c->addr };
	f.regs.value[0] = 0x1234;
	struct interrupted in = { 0 };
	ck_assert_int_eq(handler_origin(&t, r, &f, 101, c->last, &in), c->origin);
	ck_assert_int_eq(in.signo, c->signo);
	ck_assert_int_eq(in.code, c->code);
	arena_free(t.arena);
	report_free(r);
	image_close(img);
	build_elf_free(b);
}
END_TEST

/* Code that is not at hand, and where no code is: x86 keeps in rcx where a system call returns to, and what it was given is still there. */
START_TEST(sending)
{
	static const struct { uint64_t rcx, rax, arg[3]; bool call; enum sends sends; bool nowhere; } ways[] = {
		{ 8, 0, { 100, 101, 6 }, false, SENDS_NO, true },
		{ 8, 0, { 100, 101, 6 }, true, SENDS_YES }, { 8, 0, { 100, 6, 0 }, true, SENDS_YES }, { 10, 0, { 100, 101, 6 }, true, SENDS_YES },
		{ 8, 0, { 100, 102, 6 }, true, SENDS_NO }, { 8, (uint64_t)-4, { 100, 101, 6 }, true, SENDS_NO }, { 7, 0, { 5, 0, 6 }, false, SENDS_NO },
	};
	struct build_elf *b = build_elf_new("x86_64");
	build_elf_thread(b, 101, CODE, SP);
	if (!ways[_i].nowhere) {
		build_elf_file(b, CODE, CODE + 0x1000, 0, "/usr/lib/libx.so");
		build_elf_absent(b, CODE, 0x1000, 5);
	}
	struct image *img = build_elf_open(b);
	struct regs regs = { .pc = CODE + 8, .sp = SP, .known = 0x1ffff };
	regs.value[2] = CODE + ways[_i].rcx;
	regs.value[0] = ways[_i].rax;
	for (int i = 0; i < 3; i++)
		regs.value[(const int[]){ 5, 4, 1 }[i]] = ways[_i].arg[i];
	ck_assert_int_eq(sending_in_call(img, &regs), ways[_i].call);
	ck_assert_int_eq(sending_to(img, &regs, 100, 101, 6), ways[_i].sends);
	ck_assert_int_eq(sending_to(img, &regs, -1, 101, 6), SENDS_UNKNOWN);
	image_close(img);
	build_elf_free(b);
}
END_TEST

/* A frame that a handler left behind: below the stack pointer, on a stack of its own; one register is another; none is there. */
START_TEST(returned)
{
	enum { LARGE = 1 << 21, HOLE = 0x10000000, HOLE_SIZE = 1 << 30, FAR = 0x60000000 /* behind more than is searched */ };
	static const struct { addr_t at; int reg; bool found; unsigned kind; } ways[] = {
		{ SP - 0x900, -1, true, 0 }, { DATA + 0x200, -1, true, 0 }, { DATA + (1 << 20) - 0x80, -1, true, 0 }, { FAR + 0x200, -1, true, 0 }, { SP - 0x900, 72, false, 0 }, { SP - 0x900, 128, false, 0 }, { 0, -1, false, 0 },
		{ SP - 0x900, -1, true, 3 }, { SP - 0x900, 20, false, 3 }, { SP - 0x900, -1, true, 5 }, { SP - 0x900, 68, false, 5 },
	};
	const struct kind *k = &kinds[ways[_i].kind];
	struct build_elf *b = build_elf_new(k->abi);
	build_elf_thread(b, 100, CODE + 8, SP);
	build_elf_reg(b, ways[_i].kind == 0 ? "rdi" : ways[_i].kind == 3 ? "edi" : "r5", 0x777);
	uint8_t *stack = build_elf_memory(b, STACK, 0x2000, 3), *data = build_elf_memory(b, DATA, LARGE, 3), *far = build_elf_memory(b, FAR, 0x1000, 3);
	build_elf_absent(b, HOLE, HOLE_SIZE, 3);
	memset(data, 0x55, LARGE);
	uint8_t *at = ways[_i].at >= FAR ? far + (ways[_i].at - FAR) : ways[_i].at >= DATA ? data + (ways[_i].at - DATA) : stack + (ways[_i].at - STACK);
	if (ways[_i].at >= DATA)
		memset(at - 0x40, 0, 0x180);
	if (ways[_i].at)
		put_context(b, at, k, CODE + 8, SP);
	if (ways[_i].reg >= 0)
		build_elf_put(b, at + ways[_i].reg, k->width, CODE + 9);
	struct image *img = build_elf_open(b);
	struct signal_frame f;
	ck_assert_int_eq(handler_returned(img, only(img), &f), ways[_i].found);
	if (ways[_i].found)
		ck_assert_uint_eq(f.at, ways[_i].at);
	image_close(img);
	build_elf_free(b);
}
END_TEST

/* Oldest first, innermost last; the crash is at 0x10.  A function of Python is no handler of the kernel's. */
START_TEST(handler_name)
{
	static const struct { const char *above[2]; bool python[2]; const char *note; } cases[] = {
		{ { "on_fault", "abort" }, { 0 }, "on_fault ran then; the process ended by SIGABRT" },
		{ { "go", "abort" }, { true }, "a signal handler ran then; the process ended by SIGABRT" },
		{ { "go", "on_fault" }, { true }, "on_fault ran then; the process ended by SIGABRT" },
		{ { "", "PyObject_Call" }, { 0 }, "a signal handler ran then; the process ended by SIGABRT" },
		{ { "__kernel_sigreturn", "on_fault" }, { 0 }, "on_fault ran then; the process ended by SIGABRT" },
		{ { "on_fault.part.0", "pthread_kill@@GLIBC_2.34" }, { 0 }, "on_fault ran then; the process ended by SIGABRT" },
		{ { "abort.cold", "" }, { 0 }, "a signal handler ran then; the process ended by SIGABRT" },
		{ { "on_fault", "likely" }, { 0 }, "a signal handler ran then; the process ended by SIGABRT" },
	};
	struct report *r = report_new();
	struct report_frame frames[3] = { { .function = STR("work"), .pc = 0x10 } };
	const struct report_frame *list[3] = { &frames[0], &frames[1], &frames[2] };
	for (size_t i = 0; i < 2; i++) {
		frames[i + 1].function = str_of(cases[_i].above[i]);
		frames[i + 1].python = cases[_i].python[i];
		frames[i + 1].likely = !strcmp(cases[_i].above[i], "likely");
		frames[i + 1].signal = strstr(cases[_i].above[i], "sigreturn");
		frames[i + 1].pc = frames[i + 1].python ? 0 : 0x20 + i;
	}
	struct report_thread th = { .tid = 100 };
	report_fold(r, list, 3, &th.runs, &th.n_runs);
	struct image_facts facts = { .pid = 100 };
	struct interrupted in = { .signo = SIGSEGV, .code = 1, .regs = { .pc = 0x10 }, .sender_pid = -1, .sender_uid = -1 };
	r->verdict.signal.name = STR("SIGABRT");
	handler_said(r, &facts, &in, &th);
	ck_assert_uint_eq(r->verdict.notes.n, 1);
	CLEANUP(cleanup_free) char *note = xasprintf(STR_FMT, STR_ARG(r->verdict.notes.p[0].text));
	ck_assert_str_eq(note, cases[_i].note);
	ck_assert(!r->verdict.signal.code_unknown && r->verdict.signal.code_name.len);
	in.outside = true;
	handler_said(r, &facts, &in, &th);
	ck_assert(r->verdict.signal.code_unknown && !r->verdict.signal.code_name.len && r->verdict.signal.sender_pid == -1);
	CLEANUP(cleanup_free) char *unasked = xasprintf(STR_FMT, STR_ARG(handler_sender(r, &in)));
	ck_assert_str_eq(unasked, "SIGSEGV from outside (the sender is not in the core)");
	in.maybe_own = true;
	CLEANUP(cleanup_free) char *either = xasprintf(STR_FMT, STR_ARG(handler_sender(r, &in)));
	ck_assert_str_eq(either, "SIGSEGV from another thread of the process or from outside (the sender is not in the core)");
	in.maybe_own = false;
	in.sender_known = true;
	in.sender_pid = 5;
	in.sender_uid = 7;
	CLEANUP(cleanup_free) char *sent = xasprintf(STR_FMT, STR_ARG(handler_sender(r, &in)));
	ck_assert_str_eq(sent, "SIGSEGV sent by pid 5 (uid 7)");
	report_free(r);
}
END_TEST

/* Oldest first; what was interrupted is at 0x10, and 0x20 is the handler. */
START_TEST(in_raise)
{
	static const struct { const char *f[4]; bool python[4], is; } cases[] = {
		{ { "main", "abort", "raise", "on_abort" }, { 0 }, true },
		{ { "raise", "__restore_sigs", "__kernel_vsyscall", "on_abort" }, { 0 }, true },
		{ { "main", "work", "read", "raise" }, { 0 }, false },
		{ { "main", "abort", "raise@@GLIBC_2.2.5", "on_abort" }, { 0 }, true },
		{ { "main", "abort", "raise.part.0", "on_abort" }, { 0 }, true },
		{ { "main", "raise", "read", "on_abort" }, { false, true }, false },
	};
	struct report *r = report_new();
	struct report_frame frames[4] = { { 0 } };
	const struct report_frame *list[4] = { &frames[0], &frames[1], &frames[2], &frames[3] };
	for (size_t i = 0; i < 4; i++) {
		frames[i].function = str_of(cases[_i].f[i]);
		frames[i].python = cases[_i].python[i];
		frames[i].pc = i == 2 ? 0x10 : 0x20 + i;
	}
	struct report_thread th = { .tid = 100 };
	report_fold(r, list, 4, &th.runs, &th.n_runs);
	ck_assert_int_eq(handler_in_raise(&th, 0x10), cases[_i].is);
	report_free(r);
}
END_TEST

/* Innermost first, up to a Python frame; the crash is at 0x20, the first one. */
START_TEST(ended_itself)
{
	static const struct { const char *f[6], *chain; } cases[] = {
		{ { "__pthread_kill_implementation", "raise", "abort", "work", "run" }, "abort() <- work <- run" },
		{ { "__pthread_kill_implementation.constprop.0", "raise@@GLIBC_2.2.5", "__GI_abort.cold", "work.isra.0" }, "abort() <- work" },
		{ { "raise", "abort", "_Py_FatalErrorFunc.cold", "PyMem_Free.localalias" }, "abort() <- _Py_FatalErrorFunc <- PyMem_Free" },
		{ { "read", "work" }, NULL },
	};
	struct report *r = report_new();
	struct report_frame frames[7] = { { .function = STR("go"), .python = true } };
	const struct report_frame *list[7] = { &frames[0] };
	size_t n = 1;
	for (size_t k = 6; k-- > 0;)
		if (cases[_i].f[k]) {
			frames[n] = (struct report_frame){ .function = str_of(cases[_i].f[k]), .pc = 0x20 + k, .module = STR("/usr/lib/libpython3.so") };
			list[n] = &frames[n];
			n++;
		}
	struct report_thread th = { .tid = 100 };
	report_fold(r, list, n, &th.runs, &th.n_runs);
	const struct str chain = abort_chain(r, &th, 0x20);
	ck_assert_msg(cases[_i].chain ? str_is(chain, cases[_i].chain) : !chain.s, STR_FMT, STR_ARG(chain));
	report_free(r);
}
END_TEST

/* i386 makes all system calls in one place: the handler's own, and the one that the signal came in. */
START_TEST(same_place)
{
	struct report *r = report_new();
	struct report_frame frames[] = { { .function = STR("sleep"), .pc = 0x30 }, { .function = STR("vsyscall"), .pc = 0x10 },
					 { .function = STR("sigreturn"), .pc = 0x20, .signal = true }, { .function = STR("raise"), .pc = 0x40 }, { .function = STR("vsyscall"), .pc = 0x10 } };
	const struct report_frame *list[5];
	for (size_t i = 0; i < 5; i++)
		list[i] = &frames[i];
	struct report_thread th = { .tid = 100 };
	report_fold(r, list, 5, &th.runs, &th.n_runs);
	struct inward w = inward_from(&th, 0x10);
	ck_assert_ptr_eq(inward_next(&w), &frames[4]);
	w = inward_interrupted(&th, 0x10);
	ck_assert_ptr_eq(inward_next(&w), &frames[1]);
	ck_assert(!handler_in_raise(&th, 0x10));
	th.handled = true;
	w = inward_from(&th, 0x10);
	ck_assert_ptr_eq(inward_next(&w), &frames[1]);
	w = inward_from(&th, 0x40);
	ck_assert_ptr_eq(inward_next(&w), &frames[3]);
	w = inward_from(&th, 0x77);
	ck_assert_ptr_eq(inward_next(&w), &frames[4]);
	report_free(r);
}
END_TEST

/* One thing is wrong: it is no signal frame (0), or one whose siginfo is left over from something else (1). */
static const struct { int offset; uint64_t value; size_t width; int is_one; } wrong[] = {
	{ -40, 0x12345, 8, 0 },              /* uc_flags */
	{ -32, 0x31000, 8, 0 },              /* uc_link */
	{ 120, 0x7f0000000000, 8, 0 },       /* sp: no stack there */
	{ 144, 0x002b000000000023, 8, 0 },   /* cs */
	{ 160, 99, 8, 0 },                   /* no such trap */
	{ INFO, 0, 4, 1 }, { INFO, 65, 4, 1 }, /* si_signo */
	{ INFO + 4, 3, 4, 1 },               /* si_errno */
	{ INFO + 12, 1, 4, 1 },              /* padding */
	{ INFO + 16, 0x9999, 8, 1 },         /* si_addr is not that of the page fault */
};

START_TEST(no_frame)
{
	struct build_elf *b = build_elf_new("x86_64");
	build_elf_thread(b, 100, CODE, SP);
	uint8_t *stack = build_elf_memory(b, STACK, 0x4000, 3), *at = stack + (SP - STACK) + CONTEXT;
	put_context(b, at, &kinds[0], CODE + 8, SP + 0x800);
	put_info(b, at, &kinds[0], SIGSEGV, 1, 0x1234, 0);
	build_elf_put(b, at + wrong[_i].offset, wrong[_i].width, wrong[_i].value);
	struct image *img = build_elf_open(b);
	struct signal_frame f;
	ck_assert_int_eq(signal_frame_next(img, only(img), 0, &f), wrong[_i].is_one ? 0 : ERR_ABSENT);
	if (wrong[_i].is_one)
		ck_assert(!f.has_info);
	image_close(img);
	build_elf_free(b);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("crash");
	TCase *c = tcase_create("crash");
	tcase_add_loop_test(c, instruction, 0, COUNT(instructions));
	tcase_add_loop_test(c, arguments, 0, COUNT(calls));
	tcase_add_loop_test(c, generation, 0, COUNT(generations));
	tcase_add_loop_test(c, follow, 0, COUNT(follows));
	tcase_add_loop_test(c, title, 0, COUNT(titles));
	tcase_add_test(c, breakpoint);
	tcase_add_loop_test(c, no_code, 0, 15);
	tcase_add_loop_test(c, frame, 0, COUNT(kinds));
	tcase_add_loop_test(c, spoilt, 0, COUNT(kinds));
	tcase_add_test(c, no_return_code);
	tcase_add_loop_test(c, overflown, 0, 4);
	tcase_add_loop_test(c, origin, 0, COUNT(origins));
	tcase_add_loop_test(c, last_trap, 0, COUNT(fits));
	tcase_add_test(c, same_place);
	tcase_add_loop_test(c, syndrome, 0, 11);
	tcase_add_loop_test(c, arm_origin, 0, 12);
	tcase_add_loop_test(c, sending, 0, 7);
	tcase_add_loop_test(c, returned, 0, 11);
	tcase_add_loop_test(c, handler_name, 0, 8);
	tcase_add_loop_test(c, in_raise, 0, 6);
	tcase_add_loop_test(c, ended_itself, 0, 4);
	tcase_add_loop_test(c, no_frame, 0, COUNT(wrong));
	suite_add_tcase(s, c);
	return suite_run(s);
}
