/*
 * How fast .pz files are written, opened and read; numbers for people, nothing is asserted.
 *   bench_pz write CORE OUT.pz [LEVEL [JOBS]]    the memory and notes of an ELF core as a .pz
 *   bench_pz read FILE.pz                        opening by index and by walking, cold reads, everything
 */
#include "image/pz.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static int fail(const struct err *err)
{
	fprintf(stderr, "bench_pz: %s\n", err->msg);
	return 1;
}

static int write_core(const char *core, const char *out, int level, unsigned jobs)
{
	struct image *img;
	struct err err;
	if (image_open(core, &img, &err) < 0)
		return fail(&err);
	const struct segment *s;
	const struct note *from;
	size_t n = image_segments(img, &s), n_notes = image_notes(img, &from);
	struct pz_load *loads = xcalloc(n, sizeof *loads);
	for (size_t i = 0; i < n; i++)
		loads[i] = (struct pz_load){ s[i].start, s[i].size, s[i].size, s[i].prot };
	struct pz_note *notes = xcalloc(n_notes, sizeof *notes);
	for (size_t i = 0; i < n_notes; i++)
		notes[i] = (struct pz_note){ from[i].owner.len == 5 && from[i].owner.p[0] == 'L' ? "LINUX" : "CORE", from[i].type, from[i].desc };
	struct pz_plan plan = { *image_abi(img), notes, n_notes, loads, n, level, jobs };
	int fd = open(out, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	struct pz_writer *w;
	size_t room = 1 << 20;
	uint8_t *buf = xmalloc(room);
	uint64_t total = 0, zeros = 0;
	double start = now(), reading = 0;
	int rc = pz_begin(fd, &plan, &w, &err);
	if (rc < 0)
		return fail(&err);
	for (size_t i = 0; i < n && rc == 0; i++)
		for (uint64_t at = 0; at < s[i].size && rc == 0;) {
			size_t len = s[i].size - at < room ? (size_t)(s[i].size - at) : room;
			uint64_t skip = image_skip(img, s[i].start + at);
			double t = now();
			if (skip && skip < len)
				len = (size_t)skip;
			else if (!skip)
				rc = image_read(img, s[i].start + at, buf, len);
			reading += now() - t;
			if (rc == 0)
				rc = skip ? pz_zero(w, len) : pz_write(w, buf, len);
			at += len;
			total += len;
			zeros += skip ? len : 0;
		}
	if (pz_finish(w, &err) < 0)
		return fail(&err);
	double took = now() - start;
	printf("%s: %.1f MB of memory (%.1f MB holes) in %.0f ms, %.0f of it reading: %.0f MB/s; %.1f MB, ratio %.2f\n", core, (double)total / 1e6,
	       (double)zeros / 1e6, took, reading, (double)total / took / 1e3, (double)pz_written(w) / 1e6, (double)total / (double)pz_written(w));
	pz_close(w);
	close(fd);
	image_close(img);
	free(loads);
	free(notes);
	free(buf);
	return rc < 0;
}

/* A view that ends before the index. */
struct cut { struct bytes b; struct bytes *whole; };
static int cut_read(struct bytes *b, uint64_t off, void *buf, size_t len)
{
	return bytes_read(((struct cut *)b)->whole, off, buf, len);
}
static void cut_close(struct bytes *b) { (void)b; }

static int read_pz(const char *path)
{
	struct err err;
	struct bytes *file, *b;
	double best = 1e9, t;
	for (int i = 0; i < 20; i++) {
		if (bytes_open(path, &file, &err) < 0)
			return fail(&err);
		t = now();
		if (bgzf_open(file, &b, &err) < 0)
			return fail(&err);
		best = now() - t < best ? now() - t : best;
		if (i < 19)
			bytes_close(b);
	}
	printf("open: %.2f ms, %s, %.1f MB\n", best, bgzf_indexed(b) ? "by index" : "by walking", (double)b->size / 1e6);
	/* Cold: each read meets a member that is not unpacked. */
	enum { READS = 500 };
	double sum = 0, worst = 0;
	for (int i = 0; i < READS; i++) {
		uint8_t v[8];
		uint64_t at = b->size / READS * (uint64_t)((i * 197) % READS);
		t = now();
		if (bytes_read(b, at, v, sizeof v) < 0)
			return 1;
		t = now() - t;
		sum += t;
		worst = t > worst ? t : worst;
	}
	printf("cold read of 8 bytes: %.0f us on average, %.0f us at most\n", sum / READS * 1e3, worst * 1e3);
	uint8_t *buf = xmalloc(1 << 20);
	t = now();
	for (uint64_t at = 0; at < b->size; at += 1 << 20)
		if (bytes_read(b, at, buf, b->size - at < 1 << 20 ? (size_t)(b->size - at) : 1 << 20) < 0)
			return 1;
	t = now() - t;
	printf("everything: %.0f ms, %.0f MB/s\n", t, (double)b->size / t / 1e3);
	bytes_close(b);
	free(buf);
	if (bytes_open(path, &file, &err) < 0)
		return fail(&err);
	struct cut cut = { { file->size - 107, cut_read, NULL, cut_close, path }, file };
	t = now();
	if (bgzf_open(&cut.b, &b, &err) < 0)
		return fail(&err);
	printf("open by walking: %.2f ms\n", now() - t);
	bytes_close(b);
	bytes_close(file);
	return 0;
}

int main(int argc, char **argv)
{
	if (argc >= 4 && !strcmp(argv[1], "write"))
		return write_core(argv[2], argv[3], argc > 4 ? atoi(argv[4]) : 1, argc > 5 ? (unsigned)atoi(argv[5]) : 0);
	if (argc == 3 && !strcmp(argv[1], "read"))
		return read_pz(argv[2]);
	fprintf(stderr, "usage: bench_pz write CORE OUT.pz [LEVEL [JOBS]]\n       bench_pz read FILE.pz\n");
	return 2;
}
