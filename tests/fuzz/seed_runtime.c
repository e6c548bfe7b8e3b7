/*
 * Inputs for fuzz_runtime: seed_runtime FOLDER writes a whole process of two threads for each minor version that there is
 * a layout for, and one each with a frame that points to itself, a thread list that loops, and texts and offsets that lie.  Those that are kept as
 * regressions lie in fixtures/damaged/runtime.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "build_py.h"
#include "every_layout.h"

enum { LINE = 16, RUN_MAX = 60000 };
#define IDENT 0x7f0000000700u

static void put(FILE *f, uint32_t value, int width)
{
	for (int i = 0; i < width; i++)
		fputc((int)(value >> 8 * i & 255), f);
}

static bool zero(const uint8_t *p, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (p[i])
			return false;
	return true;
}

static void write_seed(struct build *b, const char *folder, const char *kind)
{
	char path[4096];
	build_settle(b);
	snprintf(path, sizeof path, "%s/%u.%u-%s", folder, b->layout.version >> 24, b->layout.version >> 16 & 255, kind);
	FILE *f = fopen(path, "wb");
	if (!f) {
		perror(path);
		exit(1);
	}
	put(f, (uint32_t)(b->runtime - BUILD_HEAP), 4);
	for (size_t i = 0; i + LINE <= b->heap.n; i += LINE) {
		size_t n = 0;
		while (i + n + LINE <= b->heap.n && n < RUN_MAX && !zero(b->heap.p + i + n, LINE))
			n += LINE;
		if (!n)
			continue;
		put(f, (uint32_t)i, 4);
		put(f, (uint32_t)n, 2);
		fwrite(b->heap.p + i, 1, n, f);
		i += n - LINE;
	}
	if (fclose(f) != 0) {
		perror(path);
		exit(1);
	}
}

int main(int argc, char **argv)
{
	uint32_t before = 0;
	if (argc != 2) {
		fprintf(stderr, "usage: seed_runtime FOLDER\n");
		return 64;
	}
	size_t n;
	const struct layout *l = every_layout(&n);
	for (size_t i = 0; i < n; i++) {
		if (l[i].version >> 16 == before >> 16)
			continue;
		before = l[i].version;
		struct build *b = build_new(&l[i]);
		addr_t threads[2], first = 0, value = build_int(b, 7);
		addr_t code = build_code(b, &(struct build_code){ .name = "work", .file = "b.py", .firstlineno = 7, .nlocals = 1, .stacksize = 4 });
		for (int k = 0; k < 2; k++) {
			threads[k] = build_thread(b, b->interp, IDENT + 0x1000 * (uint64_t)k, 100 + k);
			build_frame(b, threads[k], &(struct build_frame){ .shim = true });
			first = build_frame(b, threads[k], &(struct build_frame){ .code = code, .lasti = 4, .stack = &value, .n_stack = 1 });
			build_frame(b, threads[k], &(struct build_frame){ .code = code, .lasti = 6, .executing = true });
		}
		build_thread_name(b, b->interp, IDENT, "one");
		build_gil(b, b->interp, threads[1]);
		write_seed(b, argv[1], "two-threads");
		build_ptr(b, build_frame_back(b, first), first);
		write_seed(b, argv[1], "frame-points-to-itself");
		WRITE(b, threads[0], PyThread, next, threads[1]);
		write_seed(b, argv[1], "threads-loop");
		WRITE(b, threads[0], PyThread, next, 0);
		/* The cookie's text in strings, texts that lie about the version, and offsets of its own that cannot be. */
		static const char text[][32] = { "xdebugpyxdebugpy", "xdebugpy\xf0\0\x0d\3", "3.99.1 (main) [GCC 12.2.0]", "2.8.0 (\xff\xfe) [Clang 1]" };
		for (size_t k = 0; k < sizeof text / sizeof *text; k++)
			build_put(b, build_alloc(b, 64), text[k], sizeof text[k]);
		if (layout_has(&l[i], F_PyDebugOffsets_cookie)) {
			build_uint(b, build_field_at(b, b->runtime, F_PyDebugOffsets_thread_interp), 8, UINT64_MAX);
			build_uint(b, build_field_at(b, b->runtime, F_PyDebugOffsets_frame_previous), 8, 0x7ffffff8);
		}
		write_seed(b, argv[1], "lies");
		build_free(b);
	}
	return 0;
}
