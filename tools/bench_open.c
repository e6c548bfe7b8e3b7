/*
 * What it costs to open an image and to read a word of it cold.
 *   bench_open FILE [READS]     prints nanoseconds: opening, and the median and worst of READS reads at places spread over it
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "image/image.h"

static int64_t now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static int by_value(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
	return x < y ? -1 : x > y;
}

int main(int argc, char **argv)
{
	if (argc < 2)
		return 2;
	size_t want = argc > 2 ? strtoul(argv[2], NULL, 10) : 200;
	struct image *img;
	struct err err;
	int64_t start = now();
	if (image_open(argv[1], &img, &err) < 0) {
		fprintf(stderr, "bench_open: %s\n", err.msg);
		return 1;
	}
	int64_t opened = now() - start;
	const struct segment *seg;
	size_t n = image_segments(img, &seg);
	uint64_t total = 0, seed = 88172645463325252u;
	for (size_t i = 0; i < n; i++)
		total += seg[i].size;
	int64_t *took = xcalloc(want ? want : 1, sizeof *took);
	size_t got = 0, tried = 0;
	while (got < want && total) {
		seed ^= seed << 13; /* xorshift64 */
		seed ^= seed >> 7;
		seed ^= seed << 17;
		uint64_t at = seed % total, value;
		if (tried++ > want * 1000)
			break;
		size_t i = 0;
		while (at >= seg[i].size)
			at -= seg[i++].size;
		if (image_skip(img, seg[i].start + (at & ~(uint64_t)7)))
			continue; /* untouched memory costs nothing */
		int64_t t = now();
		if (image_read_uint(img, seg[i].start + (at & ~(uint64_t)7), 8, &value) == 0)
			took[got++] = now() - t;
	}
	qsort(took, got, sizeof *took, by_value);
	printf("%" PRId64 " %" PRId64 " %" PRId64 "\n", opened, got ? took[got / 2] : 0, got ? took[got - 1] : 0);
	free(took);
	image_close(img);
	return 0;
}
