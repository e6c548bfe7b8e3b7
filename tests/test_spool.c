/* src/image/codec, spool and open: every compressed format made by its own library, whole, joined, cut, damaged and hostile. */
#include "build_elf.h"
#include "image/spool.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "config.h"
#include "suite.h"
#if HAVE_ZSTD
#include <zstd.h>
#endif
#if HAVE_LZMA
#include <lzma.h>
#endif
#if HAVE_LZ4
#include <lz4frame.h>
#endif

/* --- compressors: each appends one frame or member to `to` --- */

static void pack_gzip(struct sb *to, const void *p, size_t len)
{
	size_t room = len + len / 100 + 1000;
	CLEANUP(cleanup_free) uint8_t *buf = xmalloc(room);
	z_stream z = { .next_in = (Bytef *)(uintptr_t)p, .avail_in = (uInt)len, .next_out = buf, .avail_out = (uInt)room };
	ck_assert_int_eq(deflateInit2(&z, 1, Z_DEFLATED, 16 + 15, 8, Z_DEFAULT_STRATEGY), Z_OK);
	ck_assert_int_eq(deflate(&z, Z_FINISH), Z_STREAM_END);
	sb_bytes(to, buf, z.total_out);
	deflateEnd(&z);
}

#if HAVE_ZSTD
/* As from a pipe: the frame does not say how long its content is. */
static void pack_zstd(struct sb *to, const void *p, size_t len)
{
	size_t room = ZSTD_compressBound(len);
	CLEANUP(cleanup_free) uint8_t *buf = xmalloc(room);
	ZSTD_CCtx *z = ZSTD_createCCtx();
	ZSTD_CCtx_setParameter(z, ZSTD_c_checksumFlag, 1);
	ZSTD_inBuffer in = { p, len, 0 };
	ZSTD_outBuffer out = { buf, room, 0 };
	ck_assert(!ZSTD_isError(ZSTD_compressStream2(z, &out, &in, ZSTD_e_continue)));
	ck_assert_uint_eq(in.pos, len);
	ck_assert_uint_eq(ZSTD_compressStream2(z, &out, &in, ZSTD_e_end), 0);
	ck_assert_uint_eq(ZSTD_getFrameContentSize(buf, out.pos), ZSTD_CONTENTSIZE_UNKNOWN);
	sb_bytes(to, buf, out.pos);
	ZSTD_freeCCtx(z);
}

static void pack_zstd_sized(struct sb *to, const void *p, size_t len)
{
	size_t room = ZSTD_compressBound(len);
	CLEANUP(cleanup_free) uint8_t *buf = xmalloc(room);
	size_t n = ZSTD_compress(buf, room, p, len, 3);
	ck_assert(!ZSTD_isError(n));
	sb_bytes(to, buf, n);
}
#endif

#if HAVE_LZMA
static void pack_xz(struct sb *to, const void *p, size_t len)
{
	size_t room = lzma_stream_buffer_bound(len), n = 0;
	CLEANUP(cleanup_free) uint8_t *buf = xmalloc(room);
	ck_assert_int_eq(lzma_easy_buffer_encode(0, LZMA_CHECK_CRC64, NULL, p, len, buf, &n, room), LZMA_OK);
	sb_bytes(to, buf, n);
}
#endif

#if HAVE_LZ4
static void pack_lz4_as(struct sb *to, const void *p, size_t len, LZ4F_blockSizeID_t block)
{
	LZ4F_preferences_t how = { .frameInfo = { .blockSizeID = block, .contentChecksumFlag = LZ4F_contentChecksumEnabled } };
	size_t room = LZ4F_compressFrameBound(len, &how);
	CLEANUP(cleanup_free) uint8_t *buf = xmalloc(room);
	size_t n = LZ4F_compressFrame(buf, room, p, len, &how);
	ck_assert(!LZ4F_isError(n));
	sb_bytes(to, buf, n);
}

static void pack_lz4(struct sb *to, const void *p, size_t len)
{
	pack_lz4_as(to, p, len, LZ4F_max64KB);
}

static void pack_lz4_big(struct sb *to, const void *p, size_t len)
{
	pack_lz4_as(to, p, len, LZ4F_max4MB);
}
#endif

static const struct {
	const char *name;
	void (*pack)(struct sb *to, const void *p, size_t len);
	bool sums;   /* checksums; they are what comes last */
	bool blocks; /* that come out whole or not at all; else a cut costs next to nothing */
	bool big;    /* a block is more than all that is packed here */
} packers[] = {
	{ "gzip", pack_gzip, true, false },
#if HAVE_ZSTD
	{ "zstd", pack_zstd, true, true },
	{ "zstd", pack_zstd_sized, false, true },
#endif
#if HAVE_LZMA
	{ "xz", pack_xz, true, false },
#endif
#if HAVE_LZ4
	{ "lz4", pack_lz4, true, true },
	{ "lz4", pack_lz4_big, true, true, true },
#endif
};

/* --- content --- */

enum { CONTENT = (3 << 20) + 777, ZEROS_FROM = 1 << 20, ZEROS_TO = 2 << 20 };
static uint8_t content[CONTENT]; /* noise, words, 1 MiB of zeros in the middle, lone zero pages, zeros at the end */

static void make_content(void)
{
	uint32_t x = 2463534242u;
	for (size_t i = 0; i < CONTENT; i++) {
		x ^= x << 13, x ^= x >> 17, x ^= x << 5;
		bool zero = (i >= ZEROS_FROM && i < ZEROS_TO) || i / 4096 % 7 == 3 || i >= CONTENT - 5000;
		content[i] = zero ? 0 : i / 65536 % 3 ? (uint8_t)("PyObject"[i % 8] + (int)(x >> 30)) : (uint8_t)x;
	}
	memcpy(content, "\177ELF", 4);
}

/* --- a feed of memory: at most `most` bytes at once, failing at `fail` --- */

struct memory_feed {
	const char *p;
	size_t len, at, most, fail;
};

static long memory_read(void *arg, void *buf, size_t len)
{
	struct memory_feed *m = arg;
	size_t n = m->len - m->at;
	n = n < len ? n : len;
	n = m->most && n > m->most ? m->most : n;
	if (m->fail && m->at + n > m->fail) {
		n = m->fail - m->at;
		if (!n)
			return errno = EIO, ERR_IO;
	}
	memcpy(buf, m->p + m->at, n);
	m->at += n;
	return (long)n;
}

static struct bytes *unpack_feed(struct memory_feed m, struct unpacked *how)
{
	struct bytes *b = NULL;
	struct err err = { 0 };
	int rc = spool((struct feed){ memory_read, &m }, "t", m.len, NULL, &b, how, &err);
	ck_assert_msg(rc == 0, "%s", err.msg);
	return b;
}

static struct bytes *unpack(const struct sb *packed, struct unpacked *how)
{
	return unpack_feed((struct memory_feed){ packed->s, packed->len }, how);
}

static bool starts_content(struct bytes *b, size_t *differs)
{
	static uint8_t buf[CONTENT];
	ck_assert_uint_le(b->size, CONTENT);
	ck_assert_int_eq(bytes_read(b, 0, buf, (size_t)b->size), 0);
	for (size_t i = 0; i < b->size; i++)
		if (buf[i] != content[i])
			return *differs = i, false;
	return true;
}

static void expect_content(struct bytes *b, size_t size)
{
	size_t differs = 0;
	ck_assert_uint_eq(b->size, size);
	ck_assert_msg(starts_content(b, &differs), "differs at %zu", differs);
	bytes_close(b);
}

START_TEST(what_was_packed_comes_out)
{
	CLEANUP(cleanup_sb) struct sb packed = { 0 };
	packers[_i].pack(&packed, content, CONTENT);
	struct unpacked how;
	struct bytes *b = unpack(&packed, &how);
	ck_assert_str_eq(how.codec->name, packers[_i].name);
	ck_assert_int_eq(how.loss, 0);
	ck_assert(!how.cut);
	ck_assert_uint_eq(how.in, packed.len);
	ck_assert_uint_eq(how.out, CONTENT);
	/* Holes where zeros are long, and only there. */
	if (b->hole(b, ZEROS_FROM)) {
		ck_assert_uint_eq(b->hole(b, ZEROS_FROM), ZEROS_TO - ZEROS_FROM);
		ck_assert_uint_eq(b->hole(b, 3 * 4096), 0);
	}
	ck_assert_uint_eq(b->hole(b, ZEROS_TO), 0);
	expect_content(b, CONTENT);
	/* In the smallest steps. */
	b = unpack_feed((struct memory_feed){ packed.s, packed.len, .most = 1 }, &how);
	ck_assert_int_eq(how.loss, 0);
	expect_content(b, CONTENT);
}
END_TEST

START_TEST(frames_follow_each_other)
{
	static const size_t at[] = { 0, 1, 4096, 100000, ZEROS_TO + 5, CONTENT };
	CLEANUP(cleanup_sb) struct sb packed = { 0 };
	for (size_t i = 0; i + 1 < COUNT(at); i++)
		packers[_i].pack(&packed, content + at[i], at[i + 1] - at[i]);
	struct unpacked how;
	expect_content(unpack(&packed, &how), CONTENT);
	ck_assert_int_eq(how.loss, 0);
	/* Padding where the format has it: gzip's zeros of any number, xz's of multiples of four. */
	bool pads = strcmp(packers[_i].name, "gzip") == 0 || strcmp(packers[_i].name, "xz") == 0;
	sb_repeat(&packed, 0, 300000);
	expect_content(unpack(&packed, &how), CONTENT);
	ck_assert_int_eq(how.loss, pads ? 0 : ERR_CORRUPT);
	/* Anything else is told, and costs nothing of what was before. */
	sb_bytes(&packed, "and then some", 13);
	expect_content(unpack(&packed, &how), CONTENT);
	ck_assert_int_eq(how.loss, ERR_CORRUPT);
	ck_assert(!how.cut);
	if (strcmp(packers[_i].name, "xz") != 0) /* liblzma does not tell this from damage */
		ck_assert_str_eq(how.why, "something else follows");
}
END_TEST

START_TEST(a_frame_of_nothing)
{
	CLEANUP(cleanup_sb) struct sb packed = { 0 };
	packers[_i].pack(&packed, "", 0);
	struct unpacked how;
	struct bytes *b = unpack(&packed, &how);
	ck_assert_int_eq(how.loss, 0);
	ck_assert_uint_eq(b->size, 0);
	bytes_close(b);
}
END_TEST

START_TEST(cut_anywhere_the_rest_is_there)
{
	CLEANUP(cleanup_sb) struct sb packed = { 0 };
	packers[_i].pack(&packed, content, CONTENT);
	for (size_t cut = 6; cut < packed.len; cut += cut < 40 || cut > packed.len - 12 ? 1 : packed.len / 23) {
		struct unpacked how;
		struct bytes *b = unpack_feed((struct memory_feed){ packed.s, cut }, &how);
		ck_assert_msg(how.loss == ERR_CORRUPT && how.cut, "cut at %zu of %zu: %d", cut, packed.len, how.loss);
		ck_assert_uint_eq(how.in, cut);
		if (cut > packed.len - 4 && packers[_i].sums)
			ck_assert_uint_eq(b->size, CONTENT);
		else if (!packers[_i].blocks && cut > packed.len / 2)
			ck_assert_uint_gt(b->size, CONTENT / 4);
		expect_content(b, (size_t)b->size);
	}
}
END_TEST

/* The input cannot be read on: what came before counts, and the reason is the system's. */
START_TEST(a_feed_that_fails)
{
	CLEANUP(cleanup_sb) struct sb packed = { 0 };
	packers[_i].pack(&packed, content, CONTENT);
	struct unpacked how;
	struct bytes *b = unpack_feed((struct memory_feed){ packed.s, packed.len, .fail = packed.len / 2 }, &how);
	ck_assert_int_eq(how.loss, ERR_IO);
	ck_assert(!how.cut);
	ck_assert_str_eq(how.why, strerror(EIO));
	ck_assert_uint_eq(how.in, packed.len / 2);
	expect_content(b, (size_t)b->size);
}
END_TEST

/* Every format has checksums: content that is wrong is told, and wrong content is all that is allowed to differ. */
START_TEST(a_flipped_bit_is_noticed)
{
	CLEANUP(cleanup_sb) struct sb packed = { 0 };
	packers[_i].pack(&packed, content, CONTENT);
	unsigned told = 0;
	for (size_t at = 6; at < packed.len; at += at < 20 ? 1 : packed.len / 23 + 1) {
		packed.s[at] ^= (char)(1 << at % 8);
		struct unpacked how;
		struct bytes *b = unpack(&packed, &how);
		packed.s[at] ^= (char)(1 << at % 8);
		size_t differs;
		if (b->size > CONTENT) {
			ck_assert_int_ne(how.loss, 0);
		} else if (packers[_i].sums && how.loss == 0) {
			ck_assert_msg(starts_content(b, &differs), "bit at %zu: content differs at %zu and nothing says so", at, differs);
			ck_assert_uint_eq(b->size, CONTENT);
		}
		told += how.loss != 0;
		bytes_close(b);
	}
	ck_assert_uint_ge(told, packers[_i].sums ? 20 : 5);
}
END_TEST

/* Of formats that give a block whole or not at all, all blocks before the bad one. */
START_TEST(damage_costs_nothing_of_what_is_before_it)
{
	CLEANUP(cleanup_sb) struct sb packed = { 0 };
	packers[_i].pack(&packed, content, CONTENT);
	for (size_t i = 140000; i < packed.len; i++)
		packed.s[i] ^= (char)0xff;
	struct unpacked how;
	struct bytes *b = unpack(&packed, &how);
	ck_assert_int_eq(how.loss, ERR_CORRUPT);
	if (packers[_i].big) {
		bytes_close(b);
		return;
	}
	static uint8_t buf[65536];
	ck_assert_uint_ge(b->size, sizeof buf);
	ck_assert_int_eq(bytes_read(b, 0, buf, sizeof buf), 0);
	ck_assert_mem_eq(buf, content, sizeof buf);
	bytes_close(b);
}
END_TEST

/* --- bombs and limits --- */

/* Bytes on disk of the one file without a name that is open and has this size. */
static uint64_t blocks_of(uint64_t size)
{
	uint64_t found = UINT64_MAX;
	for (int fd = 3; fd < 64; fd++) {
		struct stat st;
		if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_nlink == 0 && (uint64_t)st.st_size == size) {
			ck_assert(found == UINT64_MAX);
			found = (uint64_t)st.st_blocks * 512;
		}
	}
	return found;
}

START_TEST(zeros_cost_nothing)
{
	enum { BOMB = 64 << 20 };
	CLEANUP(cleanup_free) uint8_t *zeros = xcalloc(BOMB, 1);
	CLEANUP(cleanup_sb) struct sb packed = { 0 };
	packers[_i].pack(&packed, zeros, BOMB);
	packers[_i].pack(&packed, "x", 1);
	struct unpacked how;
	struct bytes *b = unpack(&packed, &how);
	ck_assert_int_eq(how.loss, 0);
	ck_assert_uint_eq(b->size, BOMB + 1);
	ck_assert_uint_le(blocks_of(BOMB + 1), 64 << 10);
	uint8_t last;
	ck_assert_int_eq(bytes_read(b, BOMB, &last, 1), 0);
	ck_assert_int_eq(last, 'x');
	bytes_close(b);
}
END_TEST

/* A file may not get longer than this process may write. */
START_TEST(a_file_that_cannot_be_written_on)
{
	CLEANUP(cleanup_sb) struct sb packed = { 0 };
	packers[_i].pack(&packed, content, CONTENT);
	signal(SIGXFSZ, SIG_IGN);
	setrlimit(RLIMIT_FSIZE, &(struct rlimit){ 1 << 19, 1 << 19 });
	struct memory_feed m = { packed.s, packed.len };
	struct bytes *b = NULL;
	struct unpacked how;
	struct err err = { 0 };
	ck_assert_int_eq(spool((struct feed){ memory_read, &m }, "core.x", m.len, NULL, &b, &how, &err), ERR_IO);
	ck_assert_ptr_null(b);
	ck_assert_ptr_nonnull(strstr(err.msg, "cannot unpack core.x into /var/tmp: File too large"));
	ck_assert_str_eq(err.hint, "TMPDIR=DIR pyanalyze core.x");
	ck_assert(blocks_of(CONTENT) == UINT64_MAX);
}
END_TEST

START_TEST(no_folder_to_unpack_into)
{
	static const struct { const char *dir; int code; const char *why; } rows[] = {
		{ "/nowhere/at/all", ERR_IO, "No such file or directory" },
		{ "/proc", ERR_IO, "" },
	};
	CLEANUP(cleanup_sb) struct sb packed = { 0 };
	pack_gzip(&packed, content, CONTENT);
	for (size_t i = 0; i < COUNT(rows); i++) {
		struct memory_feed m = { packed.s, packed.len };
		struct bytes *b = NULL;
		struct unpacked how;
		struct err err = { 0 };
		setenv("TMPDIR", rows[i].dir, 1);
		ck_assert_int_eq(spool((struct feed){ memory_read, &m }, "core.gz", m.len, NULL, &b, &how, &err), rows[i].code);
		CLEANUP(cleanup_free) char *want = xasprintf("cannot unpack core.gz into %s: %s", rows[i].dir, rows[i].why);
		ck_assert_msg(strncmp(err.msg, want, strlen(want)) == 0, "%s", err.msg);
	}
}
END_TEST

/* What asks for more memory than any sensible compressor makes a reader need. */
START_TEST(memory_has_a_limit)
{
	CLEANUP(cleanup_sb) struct sb packed = { 0 };
	struct unpacked how;
	if (_i == 0) {
#if HAVE_ZSTD
		sb_bytes(&packed, "\x28\xb5\x2f\xfd\0\x90\x09\0\0x", 10); /* window descriptor: 2^28; a last raw block of 1 byte */
#else
		return;
#endif
	} else {
#if HAVE_LZMA
		pack_xz(&packed, content, CONTENT);
		/* Block header: size, flags, LZMA2's id and its properties' size, dictionary (37: 768 MiB), ..., CRC32. */
		uint8_t *h = (uint8_t *)packed.s + 12;
		size_t size = (size_t)(*h + 1) * 4;
		uint8_t *filter = memchr(h + 2, 0x21, size - 2);
		ck_assert_ptr_nonnull(filter);
		filter[2] = 37;
		uint32_t crc = (uint32_t)crc32(0, h, (uInt)(size - 4));
		for (size_t i = 0; i < 4; i++)
			h[size - 4 + i] = (uint8_t)(crc >> 8 * i);
#else
		return;
#endif
	}
	bytes_close(unpack(&packed, &how));
	ck_assert_int_eq(how.loss, ERR_MEMORY);
	ck_assert_uint_eq(how.out, 0);
}
END_TEST

/* --- what is wanted --- */

static bool elf(const void *head, size_t len)
{
	return len >= 4 && memcmp(head, "\177ELF", 4) == 0;
}

START_TEST(only_what_is_wanted_is_unpacked)
{
	CLEANUP(cleanup_sb) struct sb packed = { 0 };
	packers[_i].pack(&packed, content + 64, CONTENT - 64);
	struct memory_feed m = { packed.s, packed.len };
	struct bytes *b;
	struct unpacked how;
	ck_assert_int_eq(spool((struct feed){ memory_read, &m }, "t", m.len, elf, &b, &how, NULL), 0);
	ck_assert(how.unwanted);
	ck_assert_uint_eq(b->size, CODEC_PIECE);
	bytes_close(b);
}
END_TEST

START_TEST(what_is_not_compressed_goes_through)
{
	for (size_t most = 1000; most < 10000000; most *= 1000) {
		struct memory_feed m = { (const char *)content, CONTENT, .most = most };
		struct bytes *b;
		struct unpacked how;
		ck_assert_int_eq(spool((struct feed){ memory_read, &m }, "t", 0, elf, &b, &how, NULL), 0);
		ck_assert_ptr_null(how.codec);
		ck_assert_uint_eq(how.in, CONTENT);
		ck_assert(!how.unwanted && !how.loss);
		expect_content(b, CONTENT);
	}
	struct memory_feed m = { (const char *)content + 8, CONTENT - 8 };
	struct bytes *b;
	struct unpacked how;
	ck_assert_int_eq(spool((struct feed){ memory_read, &m }, "t", 0, elf, &b, &how, NULL), 0);
	ck_assert(how.unwanted);
	ck_assert_uint_le(b->size, CODEC_PIECE);
	bytes_close(b);
}
END_TEST

/* --- as an image --- */

static char dir[64];

static void make_dir(void)
{
	unsetenv("TMPDIR");
	strcpy(dir, "/tmp/test_spool.XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(dir));
}

static void remove_dir(void)
{
	CLEANUP(cleanup_free) char *f = xasprintf("%s/core", dir);
	unlink(f);
	rmdir(dir);
}

static const char *put_file(const struct sb *b, char path[96])
{
	snprintf(path, 96, "%s/core", dir);
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(write(fd, b->s, b->len), (ssize_t)b->len);
	close(fd);
	return path;
}

static struct build_elf *build_core(void)
{
	struct build_elf *b = build_elf_new("x86_64");
	build_elf_thread(b, 100, 0x401000, 0x7ff0);
	build_elf_load(b, 0x10000, content, 1 << 20, 3);
	build_elf_load(b, 0x10000000, content + (1 << 20), CONTENT - (1 << 20), 3);
	return b;
}

static void expect_core(struct image *img, const char *compression, uint64_t file_size)
{
	const struct image_facts *f = image_facts(img);
	if (compression)
		ck_assert_str_eq(f->compression, compression);
	else
		ck_assert_ptr_null(f->compression);
	ck_assert_ptr_null(f->damage.s);
	ck_assert_uint_eq(f->file_size, file_size);
	ck_assert_uint_gt(f->size, CONTENT);
	ck_assert(!f->truncated);
	const struct thread *t;
	ck_assert_uint_eq(image_threads(img, &t), 1);
	static uint8_t buf[CONTENT];
	ck_assert_int_eq(image_read(img, 0x10000, buf, 1 << 20), 0);
	ck_assert_int_eq(image_read(img, 0x10000000, buf + (1 << 20), CONTENT - (1 << 20)), 0);
	ck_assert_mem_eq(buf, content, CONTENT);
	image_close(img);
}

START_TEST(a_compressed_core_is_a_core)
{
	CLEANUP(cleanup_sb) struct sb packed = { 0 };
	struct build_elf *e = build_core();
	struct blob core = build_elf_finish(e);
	packers[_i].pack(&packed, core.p, core.len);
	char path[96];
	struct image *img;
	struct err err;
	ck_assert_msg(image_open(put_file(&packed, path), &img, &err) == 0, "%s", err.msg);
	ck_assert_int_gt(image_facts(img)->written_ns, 0);
	expect_core(img, packers[_i].name, packed.len);
	build_elf_free(e);
}
END_TEST

/* Cut and damaged ones give what is there; one that holds too little says why. */
START_TEST(a_cut_core_tells_where)
{
	CLEANUP(cleanup_sb) struct sb packed = { 0 };
	struct build_elf *e = build_core();
	struct blob core = build_elf_finish(e);
	packers[_i].pack(&packed, core.p, core.len);
	build_elf_free(e);
	char path[96];
	struct image *img;
	struct err err;
	size_t whole = packed.len;
	packed.len = whole - whole / 8;
	int rc = image_open(put_file(&packed, path), &img, &err);
	if (strcmp(packers[_i].name, "lz4") != 0 || rc == 0) { /* lz4's block of 4 MiB is all or nothing */
		ck_assert_msg(rc == 0, "%s", err.msg);
		char size[STR_SIZE];
		CLEANUP(cleanup_free) char *words = xasprintf("cut off at %s, inside its %s stream", str_size(packed.len, size), packers[_i].name);
		const struct image_facts *f = image_facts(img);
		ck_assert_msg(str_is(f->damage, words), STR_FMT, STR_ARG(f->damage));
		ck_assert(f->truncated && f->size < f->expected && f->n_segments_lost >= 1);
		uint8_t buf[4096];
		ck_assert_int_eq(image_read(img, 0x10000, buf, 4096), 0);
		ck_assert_mem_eq(buf, content, 4096);
		image_close(img);
	} else {
		ck_assert_int_eq(rc, ERR_CORRUPT);
	}
	packed.len = 20;
	ck_assert_int_eq(image_open(put_file(&packed, path), &img, &err), ERR_CORRUPT);
	CLEANUP(cleanup_free) char *want = xasprintf("%s is cut off at 20 bytes, inside its %s stream", path, packers[_i].name);
	ck_assert_msg(strncmp(err.msg, want, strlen(want)) == 0, "%s", err.msg);
	ck_assert_str_eq(err.hint, "copy it again and compare sizes");
}
END_TEST

/*
 * A process that is started or made later can have what is open for reading: no program that is run gets it, and the one that
 * unwinds may change nothing in it.
 */
static void expect_read_only(uint64_t open_before)
{
	size_t n = 0;
	for (int fd = 0; fd < 64; fd++) {
		int flags = fcntl(fd, F_GETFD);
		if (flags < 0 || open_before >> fd & 1)
			continue;
		n++;
		ck_assert_int_eq(flags & FD_CLOEXEC, FD_CLOEXEC);
		ck_assert_int_eq(fcntl(fd, F_GETFL) & O_ACCMODE, O_RDONLY);
	}
	ck_assert_uint_gt(n, 0);
}

/* Standard input: a pipe that a child writes, or a file from its start or not. */
START_TEST(standard_input)
{
	CLEANUP(cleanup_sb) struct sb input = { 0 };
	struct build_elf *e = build_core();
	struct blob core = build_elf_finish(e);
	bool plain = _i / 3 == COUNT(packers);
	size_t junk = _i % 3 == 2 ? 1000 : 0; /* somebody has read that already */
	sb_repeat(&input, '#', junk);
	if (plain)
		sb_bytes(&input, core.p, core.len);
	else
		packers[_i / 3].pack(&input, core.p, core.len);
	build_elf_free(e);
	int fds[2];
	char path[96];
	if (_i % 3 == 0) {
		ck_assert_int_eq(pipe(fds), 0);
		if (fork() == 0) {
			close(fds[0]);
			for (size_t at = 0; at < input.len;) {
				ssize_t n = write(fds[1], input.s + at, input.len - at);
				if (n <= 0)
					_exit(1);
				at += (size_t)n;
			}
			_exit(0);
		}
		close(fds[1]);
	} else {
		fds[0] = open(put_file(&input, path), O_RDONLY);
		ck_assert_int_eq(lseek(fds[0], (off_t)junk, SEEK_SET), (off_t)junk);
	}
	dup2(fds[0], STDIN_FILENO);
	close(fds[0]);
	uint64_t open_before = 0;
	for (int fd = 0; fd < 64; fd++)
		open_before |= (uint64_t)(fcntl(fd, F_GETFD) >= 0) << fd;
	struct image *img;
	struct err err;
	ck_assert_msg(image_open("-", &img, &err) == 0, "%s", err.msg);
	expect_read_only(open_before);
	expect_core(img, plain ? NULL : packers[_i / 3].name, input.len - junk);
}
END_TEST

START_TEST(what_holds_no_core_is_told)
{
	static const struct { const char *bytes; size_t len; bool pack; int code; const char *msg, *why, *hint; } rows[] = {
		{ "Fatal error", 11, true, ERR_UNSUPPORTED, "%s is not a core or a snapshot (it starts with \"Fata\")", "this is what its gzip stream holds",
		  "the core file itself; \"gzip -dc %s | file -\" says what it is" },
		{ "", 0, true, ERR_CORRUPT, "%s is empty", "this is what its gzip stream holds", "the core file itself; \"gzip -dc %s | file -\" says what it is" },
		{ "BZh91AY&SY", 10, true, ERR_UNSUPPORTED, "%s is compressed with bzip2 and not a snapshot", "this is what its gzip stream holds",
		  "the core file itself; \"gzip -dc %s | file -\" says what it is" },
		{ "BZh91AY&SY", 10, false, ERR_UNSUPPORTED, "%s is compressed with bzip2, which this build cannot unpack", "", "bzip2 -dc %s | pyanalyze -" },
		{ "\x02\x21\x4c\x18....", 8, false, ERR_UNSUPPORTED, "%s is compressed with lz4 (legacy), which this build cannot unpack", "", "lz4 -dc %s | pyanalyze -" },
		{ "\x1f\x8b\x09.........", 12, false, ERR_CORRUPT,
		  "%s is damaged at 4 bytes (gzip: unknown compression method); 0 bytes of its content are too little", "", "copy it again and compare sizes" },
	};
	CLEANUP(cleanup_sb) struct sb b = { 0 };
	if (rows[_i].pack)
		pack_gzip(&b, rows[_i].bytes, rows[_i].len);
	else
		sb_bytes(&b, rows[_i].bytes, rows[_i].len);
	char path[96];
	struct image *img = NULL;
	struct err err = { 0 };
	ck_assert_int_eq(image_open(put_file(&b, path), &img, &err), rows[_i].code);
	const char *got[] = { err.msg, err.why, err.hint }, *want[] = { rows[_i].msg, rows[_i].why, rows[_i].hint };
	for (size_t i = 0; i < 3; i++) {
		const char *in = strstr(want[i], "%s");
		CLEANUP(cleanup_free) char *text = in ? xasprintf("%.*s%s%s", (int)(in - want[i]), want[i], path, in + 2) : xstrdup(want[i]);
		ck_assert_str_eq(got[i], text);
	}
	ck_assert_ptr_null(img);
}
END_TEST

START_TEST(the_terminal_is_refused)
{
	int fd = open("/dev/ptmx", O_RDWR | O_NOCTTY);
	if (fd < 0)
		return;
	dup2(fd, STDIN_FILENO);
	struct image *img;
	struct err err = { 0 };
	ck_assert_int_eq(image_open("-", &img, &err), ERR_UNSUPPORTED);
	ck_assert_str_eq(err.msg, "refusing to read a core from the terminal");
	close(STDIN_FILENO);
	ck_assert_int_eq(image_open("-", &img, &err), ERR_IO);
	ck_assert_str_eq(err.msg, "cannot read standard input: Bad file descriptor");
}
END_TEST

int main(void)
{
	make_content();
	int n = COUNT(packers);
	Suite *s = suite_create("spool");
	TCase *t = tcase_create("streams");
	tcase_set_timeout(t, 60);
	tcase_add_checked_fixture(t, make_dir, remove_dir);
	tcase_add_loop_test(t, what_was_packed_comes_out, 0, n);
	tcase_add_loop_test(t, frames_follow_each_other, 0, n);
	tcase_add_loop_test(t, a_frame_of_nothing, 0, n);
	tcase_add_loop_test(t, cut_anywhere_the_rest_is_there, 0, n);
	tcase_add_loop_test(t, a_feed_that_fails, 0, n);
	tcase_add_loop_test(t, a_flipped_bit_is_noticed, 0, n);
	tcase_add_loop_test(t, damage_costs_nothing_of_what_is_before_it, 0, n);
	tcase_add_loop_test(t, zeros_cost_nothing, 0, n);
	tcase_add_loop_test(t, a_file_that_cannot_be_written_on, 0, n);
	tcase_add_test(t, no_folder_to_unpack_into);
	tcase_add_loop_test(t, memory_has_a_limit, 0, 2);
	tcase_add_loop_test(t, only_what_is_wanted_is_unpacked, 0, n);
	tcase_add_test(t, what_is_not_compressed_goes_through);
	suite_add_tcase(s, t);
	TCase *i = tcase_create("images");
	tcase_set_timeout(i, 60);
	tcase_add_checked_fixture(i, make_dir, remove_dir);
	tcase_add_loop_test(i, a_compressed_core_is_a_core, 0, n);
	tcase_add_loop_test(i, a_cut_core_tells_where, 0, n);
	tcase_add_loop_test(i, standard_input, 0, 3 * (n + 1));
	tcase_add_loop_test(i, what_holds_no_core_is_told, 0, 6);
	tcase_add_test(i, the_terminal_is_refused);
	suite_add_tcase(s, i);
	return suite_run(s);
}
