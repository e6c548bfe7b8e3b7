/*
 * What it costs to find the Python in a file, once it is open and its modules are listed.
 *   bench_find FILE [ROUNDS]     prints how it was found (or "-") and the median of ROUNDS times, in nanoseconds
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "python/py.h"

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
	size_t rounds = argc > 2 ? strtoul(argv[2], NULL, 10) : 11;
	int64_t *took = xcalloc(rounds + 1, sizeof *took);
	char how[32] = "-";
	for (size_t i = 0; i < rounds; i++) {
		/* All anew, so that no cache of the round before helps. */
		struct image *img;
		struct modules *mods;
		struct search where = { 0 };
		struct err err;
		if (image_open(argv[1], &img, &err) < 0 || modules_open(img, &where, &mods, &err) < 0) {
			fprintf(stderr, "bench_find: %s\n", err.msg);
			return 1;
		}
		struct arena *a = arena_new();
		struct py *py;
		int64_t start = now();
		int rc = py_open(img, mods, NULL, a, &py, &err);
		took[i] = now() - start;
		if (rc == 0)
			snprintf(how, sizeof how, "%s", py->found_by);
		arena_free(a);
		modules_close(mods);
		image_close(img);
	}
	qsort(took, rounds, sizeof *took, by_value);
	printf("%s %" PRId64 "\n", how, took[rounds / 2]);
	free(took);
	return 0;
}
