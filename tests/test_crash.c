/* What a verdict says of a crash: instructions, and titles made of them, over images built in memory. */
#include <check.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "build_elf.h"
#include "config.h"
#include "inspect/arrival.h"
#include "inspect/fault.h"
#include "inspect/follow.h"
#include "inspect/generation.h"
#include "inspect/instruction.h"
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

#define BYTES(s) s, sizeof(s) - 1
#define WILD 0x4141414141414140u

/* fault -1: the processor gave no address.  access -1: it is no instruction, or not all of one is there. */
static const struct {
	const char *abi, *bytes; size_t n; uint64_t rdi, rsi, rbx; int64_t fault; int access; const char *text, *operands; uint64_t at, target;
} instructions[] = {
	{ "x86_64", BYTES("\x48\x8b\x07"), 0, 0, 0, 0, ACCESS_READ, "mov rax, [rdi]", "rdi = 0x0", 0, 0 },
	{ "x86_64", BYTES("\xc7\x04\x25\x1c\x00\x00\x00\x01\x00\x00\x00"), 0, 0, 0, 0x1c, ACCESS_WRITE, "mov dword ptr [0x1c], 0x01", "", 0x1c, 0 },
	{ "x86_64", BYTES("\x48\x89\x07"), 0x10, 0, 0, 0x10, ACCESS_WRITE, "mov [rdi], rax", "rdi = 0x10, rax = 0x0", 0x10, 0 },
	{ "x86_64", BYTES("\x62\xf3\x7d\x20\x3f\x07\x00"), 0x1ff8, 0, 0, 0x2000, ACCESS_READ, "vpcmpb k0, ymm16, [rdi], 0x00", "rdi = 0x1ff8", 0x1ff8, 0 },
	{ "x86_64", BYTES("\x80\x04\x3e\x01"), 0x20, 0x4, 0, 0x24, ACCESS_BOTH, "add byte ptr [rsi+rdi*1], 0x01", "rsi = 0x4, rdi = 0x20", 0x24, 0 },
	{ "x86_64", BYTES("\xa4"), 0x60, DATA, 0, 0x60, ACCESS_WRITE, "movsb", "rdi = 0x60, rsi = 0x50000", 0x60, 0 },
	{ "x86_64", BYTES("\xa4"), DATA, 0x60, 0, 0x60, ACCESS_READ, "movsb", "rdi = 0x50000, rsi = 0x60", 0x60, 0 },
	/* Another address than the one that faulted: nothing is said of it. */
	{ "x86_64", BYTES("\x48\x8b\x07"), 0x10, 0, 0, 0x9999, ACCESS_UNKNOWN, "mov rax, [rdi]", "rdi = 0x10", 0, 0 },
	/* lea computes, it does not read. */
	{ "x86_64", BYTES("\x48\x8d\x07"), 0x10, 0, 0, 0x10, ACCESS_UNKNOWN, "lea rax, [rdi]", "rdi = 0x10", 0, 0 },
	{ "x86_64", BYTES("\x48\x8b\x83\xa8\x00\x00\x00"), 0, 0, WILD, -1, ACCESS_READ, "mov rax, [rbx+0xa8]", "rbx = 0x4141414141414140", WILD + 0xa8, 0 },
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
	int rc = instruction_at(m.img, &build_elf_first(m.img)->regs, c->fault >= 0, (addr_t)c->fault, a, &in);
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
	{ BYTES("\x48\x8b\x07"), WILD, SIGSEGV, SI_KERNEL, 0, false, 0, "SIGSEGV: read of address 0x4141414141414140 (no memory can have such an address)",
	  REFUSED },
	{ BYTES("\xc3"), 0, SIGSEGV, SI_KERNEL, 0, false, 0, "SIGSEGV: return to 0x4444444444444444 (no memory can have such an address)",
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
	struct fault f = { .signo = c->signo, .code = c->code, .has_addr = true, .addr = c->addr, .regs = &build_elf_first(m.img)->regs, .has_error = c->has_error, .error = c->error };
	struct str got = fault_title(&t, r, &f);
	ck_assert_str_eq(str_c(t.arena, got), HAVE_ZYDIS ? c->zydis : c->without);
	arena_free(t.arena);
	report_free(r);
	end(&m);
}
END_TEST

/*
 * pc is after what trapped: int3, of which the kernel gives neither code nor address, and a system call that was refused.  That is the
 * instruction, and where none of them stands before pc none is shown.
 */
static const struct { const char *bytes; size_t at; int signo, code; const char *title, *instruction; uint64_t rax; } afters[] = {
	{ "\xcc\x90\x90", 1, SIGTRAP, SI_KERNEL, "SIGTRAP: breakpoint instruction at 0x401000", "int3" },
	{ "\x90\x90\x90", 1, SIGTRAP, SI_KERNEL, "SIGTRAP: sent by the kernel; no address is given", NULL },
	{ "\x0f\x05\xc3", 2, SIGSYS, 1, "SIGSYS: a seccomp filter refused a system call: number 0 (read)", "syscall" },
	{ "\x0f\x05\xc3", 2, SIGSYS, 1, "SIGSYS: a seccomp filter refused a system call: number 257", "syscall", 257 },
	{ "\x0f\x05\xc3", 2, SIGSYS, 1, "SIGSYS: a seccomp filter refused a system call", "syscall", (uint64_t)-38 },
	{ "\x0f\x05\xc3", 2, SIGSYS, 9, "SIGSYS: bad system call", "syscall", 257 },
	{ "\xcd\x80\xc3", 2, SIGSYS, 1, "SIGSYS: a seccomp filter refused a system call", "int 0x80" },
	{ "\x90\x90\xc3", 2, SIGSYS, 1, "SIGSYS: a seccomp filter refused a system call", NULL },
};

START_TEST(after)
{
	struct build_elf *b = build_elf_new("x86_64");
	build_elf_thread(b, 100, CODE + afters[_i].at, SP);
	build_elf_load(b, CODE, afters[_i].bytes, 3, 5);
	build_elf_reg(b, "rax", afters[_i].rax);
	struct image *img = build_elf_open(b);
	struct target t = { .img = img, .arena = arena_new() };
	struct report *r = report_new();
	struct fault f = { .signo = afters[_i].signo, .code = afters[_i].code, .has_addr = true, .addr = CODE, .regs = &build_elf_first(img)->regs };
	ck_assert_str_eq(str_c(t.arena, fault_title(&t, r, &f)), afters[_i].title);
	const char *shown = r->verdict.instruction.s ? str_c(t.arena, r->verdict.instruction) : "none";
	ck_assert_str_eq(shown, HAVE_ZYDIS && afters[_i].instruction ? afters[_i].instruction : "none");
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
		{ 0x10, 0x10, INDIRECT, 0, 0, ARRIVED_CALL, false, 0, "a call of an address 16 bytes past a null pointer" },
		{ 1, 1, CODE, 0, 0, ARRIVED_JUMP, false, 0, "a jump to an address 1 byte past a null pointer" },
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
	struct fault f = { .signo = SIGSEGV, .code = 1, .has_addr = true, .addr = ways[_i].pc, .regs = &build_elf_first(img)->regs };
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

int main(void)
{
	Suite *s = suite_create("crash");
	TCase *c = tcase_create("crash");
	tcase_add_loop_test(c, instruction, 0, COUNT(instructions));
	tcase_add_loop_test(c, arguments, 0, COUNT(calls));
	tcase_add_loop_test(c, generation, 0, COUNT(generations));
	tcase_add_loop_test(c, follow, 0, COUNT(follows));
	tcase_add_loop_test(c, title, 0, COUNT(titles));
	tcase_add_loop_test(c, after, 0, COUNT(afters));
	tcase_add_loop_test(c, no_code, 0, 17);
	suite_add_tcase(s, c);
	return suite_run(s);
}
