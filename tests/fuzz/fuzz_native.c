/*
 * Unwinding, in its child as it is used: a module with unwind tables, a stack and registers, all from the input.  libdw may end in the
 * child as it likes; what comes of it is bounded, whole records, and is there in time.
 *
 *	u8 machine (0 x86-64, 1 i386, 2 aarch64, 3 arm: tables are x86-64's, so these test the fallbacks), u8 page of a second mapping,
 *	u16 length of the table, 4 x u64 pc, sp, fp, lr, then the table (from .eh_frame_hdr on), then the stack
 */
#include <stdlib.h>
#include <time.h>

#include "build_cfi.h"
#include "module/native.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define CHECK(x) do { if (!(x)) abort(); } while (0)
enum { CODE = 0x400000, STACK = 0x7ff00000, STACK_SIZE = 0x2000, FRAMES = 5000, SECONDS = 3 };

static uint8_t module[CFI_SIZE], stack[STACK_SIZE];

static const struct { struct abi abi; int pc, sp, fp, lr; } machines[] = {
	{ { 62, 8, false }, 16, 7, 6, -1 }, { { 3, 4, false }, 8, 4, 5, -1 }, { { 183, 8, false }, 32, 31, 29, 30 }, { { 40, 4, false }, 15, 13, 11, 14 },
};

static int read_mem(void *ctx, uint64_t offset, void *buf, size_t len)
{
	memcpy(buf, (uint8_t *)ctx + offset, len);
	return 0;
}

static void set(struct regs *r, int reg, uint64_t v)
{
	if (reg < 0)
		return;
	r->value[reg] = v;
	r->known |= (uint64_t)1 << reg;
}

static struct image *build(struct cursor *c)
{
	uint8_t kind, page;
	uint16_t table;
	uint64_t reg[4];
	struct blob bytes;
	if (cursor_u8(c, &kind) < 0 || cursor_u8(c, &page) < 0 || cursor_u16(c, &table) < 0)
		return NULL;
	for (size_t i = 0; i < 4; i++)
		if (cursor_u64(c, &reg[i]) < 0)
			return NULL;
	size_t n = cursor_left(c) < table ? cursor_left(c) : table;
	if (cursor_take(c, n, &bytes) < 0)
		return NULL;
	cfi_module(module, NULL, 0);
	for (unsigned at = 0x20; at < 0x1000; at += 0x20)
		memcpy(module + CFI_CODE + at - 5, "\xe8\0\0\0", 5);
	memcpy(module + CFI_HDR, bytes.p, n < CFI_FRAME_MAX ? n : CFI_FRAME_MAX);
	memset(stack, 0, sizeof stack);
	n = cursor_left(c) < sizeof stack ? cursor_left(c) : sizeof stack;
	if (cursor_take(c, n, &bytes) == 0)
		memcpy(stack, bytes.p, n);

	kind &= 3;
	struct image *img = image_new(machines[kind].abi);
	struct segment seg = { .start = CODE, .size = CFI_SIZE, .prot = 1 | 4, .read = read_mem, .ctx = module };
	CHECK(image_add_segment(img, &seg, LAY_OVER) == 0);
	seg = (struct segment){ .start = STACK, .size = STACK_SIZE, .prot = 3, .read = read_mem, .ctx = stack };
	CHECK(image_add_segment(img, &seg, LAY_OVER) == 0);
	*image_add_mapping(img) = (struct mapping){ .start = CODE, .end = CODE + CFI_SIZE, .prot = 5, .path = { (const uint8_t *)"/a.so", 5 } };
	*image_add_mapping(img) = (struct mapping){ .start = CODE + page * 0x1000u, .end = CODE + page * 0x1000u + 0x2000, .prot = 5, .path = { (const uint8_t *)"/b.so", 5 } };
	struct thread *t = image_add_thread(img);
	t->tid = 100;
	t->regs.pc = reg[0];
	t->regs.sp = reg[1];
	set(&t->regs, machines[kind].pc, reg[0]);
	set(&t->regs, machines[kind].sp, reg[1]);
	set(&t->regs, machines[kind].fp, reg[2]);
	set(&t->regs, machines[kind].lr, reg[3]);
	image_settle(img);
	return img;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct cursor c = cursor_of(data, size, false);
	struct image *img = build(&c);
	if (!img)
		return 0;
	struct search none = { .no_files = true };
	struct native_limits lim = native_default;
	struct modules *mods;
	struct native *n;
	const struct native_records *r;
	struct err err = { 0 };
	struct timespec from, to;
	lim.frames = FRAMES;
	lim.seconds = SECONDS;
	lim.memory = 64 << 20;
	clock_gettime(CLOCK_MONOTONIC, &from);
	CHECK(modules_open(img, &none, &mods, &err) == 0);
	CHECK(native_start(img, mods, &lim, &n, &err) == 0);
	int rc = native_finish(n, &r, &err);
	clock_gettime(CLOCK_MONOTONIC, &to);
	CHECK(rc == 0 || ((rc == ERR_GONE || rc == ERR_LIMIT) && err.msg[0]));
	CHECK(to.tv_sec - from.tv_sec <= SECONDS + 2);
	CHECK(r->n_threads == 1 && r->stacks[0].n <= FRAMES && r->stacks[0].end < NATIVE_ENDS);
	CHECK(rc < 0 || (r->has[0] && (r->stacks[0].n >= 1 || r->stacks[0].end == NATIVE_NO_REGS)));
	for (size_t i = 0; i < r->stacks[0].n; i++) {
		const struct native_frame *f = &r->frames.p[r->stacks[0].first + i];
		CHECK(!(f->bits & NATIVE_TOP) == (i != 0)); /* only the first is the thread's own */
	}
	native_close(n);
	modules_close(mods);
	image_close(img);
	return 0;
}
