/*
 * A process to be opened and walked: four bytes offset of a hint, then records of memory (four bytes offset, two bytes
 * length, bytes) over a mebibyte of zeros at the address where tests/build_py.h builds.  It is opened as pyanalyze does,
 * then walked under every built-in layout without a proof, and as what is left of a truncated core.  tests/fuzz/seed_runtime.c writes inputs.
 */
#include "fuzz_py.h"

#include "python/prove.h"
#include "python/salvage.h"

enum { MEMORY = 1 << 20, FRAMES = 5000, THREADS = 2000 };
#define IDENT 0x7f0000000700u /* of the threads that the image has */

static void got_name(void *arg, uint64_t ident, struct str name)
{
	(void)arg;
	(void)ident;
	if (!str_valid(name.s, name.len))
		abort();
}

static void walk_thread(const struct py *py, struct arena *a, addr_t first)
{
	struct walk frames = py_frames(py, first);
	struct py_frame f;
	struct py_code code;
	struct position at;
	addr_t stack[8];
	bool sure;
	unsigned n = 0;
	int rc;

	while ((rc = py_next_frame(&frames, &f)) == 1 && n++ < FRAMES) {
		if (!f.shim && !f.code && !f.no_code)
			abort();
		if (n > 100)
			continue;
		rc = py_frame_stack(py, &f, stack, 8, &sure);
		if (rc > 8)
			abort();
		if (f.code && py_code_read(py, f.code, a, &code) == 0 && py_code_position(py, f.code, f.lasti, &at) > 0)
			abort();
	}
	if (rc < 0 && py_next_frame(&frames, &f) != 0)
		abort();
}

static void walk_all(const struct py *py, struct arena *a)
{
	struct walk interps = py_interps(py), threads;
	struct py_interp in;
	struct py_thread t;
	uint64_t ident;
	unsigned n = 0;

	if (py_main_ident(py, &ident) > 0)
		abort();
	for (unsigned i = 0; i < 100 && py_next_interp(&interps, &in) == 1; i++) {
		uint64_t lost;
		if (py_thread_names(py, &in, &(uint64_t){ PY_NAMES_LOOKED }, a, &lost, got_name, NULL) > PY_MAX_THREADS)
			abort();
		py_arguments(py, &in, "argv", a);
		py_executable(py, &in, a);
		threads = py_threads(py, &in);
		while (n++ < THREADS && py_next_thread(&threads, &t) == 1)
			walk_thread(py, a, t.frame);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct cursor c = cursor_of(data, size, false);
	uint32_t hint, offset;
	uint16_t len;
	struct blob bytes;

	if (cursor_u32(&c, &hint) < 0)
		return 0;
	uint8_t *p = xcalloc(1, MEMORY);
	while (cursor_u32(&c, &offset) == 0 && cursor_u16(&c, &len) == 0 && cursor_take(&c, len, &bytes) == 0)
		if (offset < MEMORY && len <= MEMORY - offset)
			memcpy(p + offset, bytes.p, len);
	struct blob memory = { p, MEMORY };
	size_t n;
	const struct layout *l = every_layout(&n);
	for (size_t i = 0; i < n; i++) {
		struct py unproven = { .layout = l[i], .runtime = FUZZ_BASE + (addr_t)hint }, *py;
		struct err err = { 0 };
		struct image *img = unproven.img = image_new(unproven.layout.abi);
		struct segment seg = { .start = FUZZ_BASE, .size = MEMORY, .prot = 3, .read = fuzz_segment_read, .ctx = &memory };
		if (image_add_segment(img, &seg, LAY_OVER) < 0)
			abort();
		for (int k = 0; k < 2; k++)
			*image_add_thread(img) = (struct thread){ .tid = 100 + k, .regs.tls = IDENT + 0x1000 * (addr_t)k };
		image_add_lost(img, FUZZ_BASE + MEMORY, FUZZ_BASE + 2 * MEMORY); /* so that what is left is looked through, too */
		image_settle(img);
		struct arena *a = arena_new();
		if (!i) {
			int rc = py_open(img, NULL, &(struct py_options){ .hint_runtime = unproven.runtime }, a, &py, &err);
			if (rc > 0 || (rc < 0 && !err.msg[0]))
				abort();
			if (rc == 0)
				walk_all(py, a);
		}
		py_index_threads(&unproven, a);
		(void)!READ(&unproven, unproven.runtime, PyRuntime, interp_head, &unproven.interp_head);
		walk_all(&unproven, a);
		struct salvage_try try = { unproven.layout, config_of(&l[i]) };
		struct known_version known = { 0 };
		struct py left;
		size_t which;
		char why[160];
		if (i % 8 == size % 8 && py_salvage(&unproven, &try, 1, &known, a, &left, &which, why, sizeof why) == 0) {
			walk_all(&left, a);
			if (py_names_left(&left, a, got_name, NULL) > PY_MAX_THREADS)
				abort();
		}
		arena_free(a);
		image_close(img);
	}
	free(p);
	return 0;
}
