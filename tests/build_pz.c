/* Small .pz files in memory; see build_pz.h. */
#include "build_pz.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <zlib.h>

static uint64_t mix(uint64_t v)
{
	v += 0x9e3779b97f4a7c15;
	v = (v ^ v >> 30) * 0xbf58476d1ce4e5b9;
	v = (v ^ v >> 27) * 0x94d049bb133111eb;
	return v ^ v >> 31;
}

static uint8_t fill_byte(enum fill fill, uint64_t addr)
{
	switch (fill) {
	case FILL_ZERO: return 0;
	case FILL_LINES: return (uint8_t)((addr >> 14) + addr % 32);
	case FILL_TEXT: return (uint8_t)('a' + (mix(addr >> 2) >> (addr & 3) * 4) % 16);
	case FILL_RANDOM: return (uint8_t)(mix(addr >> 3) >> (addr & 7) * 8);
	case FILL_MIXED: return fill_byte((enum fill)((addr >> 12) % 4), addr);
	}
	return 0;
}

void fill_at(enum fill fill, uint64_t addr, uint8_t *buf, size_t len)
{
	for (size_t i = 0; i < len; i++)
		buf[i] = fill_byte(fill, addr + i);
}

int build_pz_memory(const struct build_pz *b, struct pz_writer *w)
{
	size_t piece = b->piece ? b->piece : 100000;
	CLEANUP(cleanup_free) uint8_t *buf = xmalloc(piece);
	for (size_t i = 0; i < b->plan.n_loads; i++) {
		const struct pz_load *l = &b->plan.loads[i];
		if (i >= b->plan.n_loads - b->zeros) {
			int rc = pz_zero(w, l->filesz);
			if (rc < 0)
				return rc;
			continue;
		}
		for (uint64_t at = 0; at < l->filesz;) {
			size_t n = l->filesz - at < piece ? (size_t)(l->filesz - at) : piece;
			fill_at(b->fill, l->start + at, buf, n);
			int rc = pz_write(w, buf, n);
			if (rc < 0)
				return rc;
			at += n;
		}
	}
	return b->tail.len ? pz_write(w, b->tail.p, b->tail.len) : 0;
}

struct blob build_pz(const struct build_pz *b)
{
	struct build_pz copy = *b;
	if (!copy.plan.abi.width)
		copy.plan.abi = (struct abi){ 62, 8, false };
	copy.plan.tail = b->tail.len;
	int fd = memfd_create("pz", 0);
	ck_assert_int_ge(fd, 0);
	struct pz_writer *w;
	struct err err;
	ck_assert_msg(pz_begin(fd, &copy.plan, &w, &err) == 0, "%s", err.msg);
	int rc = build_pz_memory(&copy, w);
	int end = pz_finish(w, &err);
	ck_assert_msg(rc == 0 && end == 0, "%s", err.msg);
	size_t len = (size_t)pz_written(w);
	pz_close(w);
	ck_assert_int_eq(lseek(fd, 0, SEEK_END), (off_t)len);
	uint8_t *p = xmalloc(len);
	ck_assert_int_eq(pread(fd, p, len, 0), (ssize_t)len);
	close(fd);
	return (struct blob){ p, len };
}

struct blob gunzip(struct blob file, bool cut)
{
	size_t room = 1 << 20, len = 0, whole = 0;
	uint8_t *out = xmalloc(room);
	z_stream z = { .next_in = (Bytef *)(uintptr_t)file.p, .avail_in = (uInt)file.len };
	ck_assert_int_eq(inflateInit2(&z, 31), Z_OK);
	int rc = Z_OK;
	while (z.avail_in) {
		if (room - len < BGZF_MAX)
			out = xrealloc(out, room *= 2);
		z.next_out = out + len;
		z.avail_out = (uInt)(room - len);
		rc = inflate(&z, Z_NO_FLUSH);
		len = (size_t)(z.next_out - out);
		if (rc != Z_STREAM_END)
			break; /* a member fits, so it is cut or damaged */
		whole = len;
		inflateReset(&z);
	}
	inflateEnd(&z);
	if (rc != Z_STREAM_END && !cut) {
		free(out);
		return (struct blob){ 0 };
	}
	return (struct blob){ out, whole };
}

char *blob_to_file(struct blob b)
{
	const char *dir = getenv("TMPDIR");
	char *path = xasprintf("%s/pysnap-test-XXXXXX", dir && *dir ? dir : "/tmp");
	int fd = mkstemp(path);
	ck_assert_int_ge(fd, 0);
	for (size_t i = 0; i < b.len;) {
		ssize_t n = write(fd, b.p + i, b.len - i);
		ck_assert_int_gt(n, 0);
		i += (size_t)n;
	}
	close(fd);
	return path;
}
