/*
 * A whole .pz as an image.  Input that starts as gzip is taken as the file; any other is wrapped: what starts as ELF is
 * the core in it, the rest is the information note of a core with one thread.
 */
#include "image/pz.h"

#include <stdlib.h>
#include <string.h>
#include <zlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void put(struct sb *b, size_t width, uint64_t v)
{
	for (size_t i = 0; i < width; i++)
		sb_char(b, (char)(v >> 8 * i));
}

static void wrap(struct sb *f, const uint8_t *p, size_t len)
{
	for (size_t at = 0, n; at < len; at += n) {
		n = len - at < 40000 ? len - at : 40000;
		sb_bytes(f, "\x1f\x8b\x08\x04", 4);
		put(f, 4, at);
		sb_bytes(f, "\0\xff\6\0BC\2\0", 8);
		put(f, 2, n + BGZF_HEAD + 5 + BGZF_TAIL - 1);
		sb_char(f, 1);
		put(f, 2, n);
		put(f, 2, ~n & 0xffff);
		sb_bytes(f, p + at, n);
		put(f, 4, crc32(0, p + at, (uInt)n));
		put(f, 4, n);
	}
}

static void put_note(struct sb *b, const char *owner, uint32_t type, const void *desc, size_t len)
{
	put(b, 4, strlen(owner) + 1);
	put(b, 4, len);
	put(b, 4, type);
	sb_bytes(b, owner, strlen(owner) + 1);
	put(b, -b->len & 3, 0);
	sb_bytes(b, desc, len);
	put(b, -b->len & 3, 0);
}

/* A little x86-64 core: threads 1 and 2, the note, no memory. */
static void put_core(struct sb *core, struct blob info)
{
	static const uint8_t status[336] = { [32] = 1 }, second[336] = { [32] = 2 };
	struct sb notes = { 0 };
	put_note(&notes, "CORE", 1, status, sizeof status);
	put_note(&notes, "CORE", 1, second, sizeof second);
	put_note(&notes, "PYSNAP", PZ_NOTE_LOST, info.p, info.len);
	put_note(&notes, "PYSNAP", PZ_NOTE_INFO, info.p, info.len);
	sb_bytes(core, "\177ELF\2\1\1\0\0\0\0\0\0\0\0\0\4\0\x3e\0\1\0\0\0", 24);
	put(core, 8, 0);
	put(core, 8, 64);
	put(core, 8, 0);
	put(core, 4, 0);
	put(core, 2, 64);
	put(core, 2, 56);
	put(core, 2, 1);
	put(core, 6, 0);
	put(core, 8, 4);
	put(core, 8, 120);
	put(core, 8, 0);
	put(core, 8, 0);
	put(core, 8, notes.len);
	put(core, 8, 0);
	put(core, 8, 4);
	sb_bytes(core, notes.s, notes.len);
	sb_free(&notes);
}

static void check_text(struct str s)
{
	if (s.s && !str_valid(s.s, s.len))
		abort();
}

static void open_and_look(const uint8_t *p, size_t len)
{
	struct image *img;
	struct err err;
	if (image_open_bytes(bytes_from_memory(p, len, "x"), &img, &err) < 0) {
		if (!str_valid(err.msg, strlen(err.msg)))
			abort();
		return;
	}
	const struct image_facts *f = image_facts(img);
	check_text(f->tool);
	check_text(f->exe);
	check_text(f->cwd);
	check_text(f->cmdline);
	const struct thread *t;
	for (size_t i = 0, n = image_threads(img, &t); i < n; i++) {
		check_text(t[i].name);
		check_text(t[i].wchan);
	}
	const struct segment *s;
	for (size_t i = 0, n = image_segments(img, &s); i < n && i < 100; i++) {
		uint8_t buf[100];
		(void)image_read_some(img, s[i].start, buf, sizeof buf);
		if (s[i].size > sizeof buf)
			(void)image_read_some(img, s[i].start + s[i].size - sizeof buf, buf, sizeof buf);
		if (image_segments(img, &s) != n)
			abort();
	}
	f = image_facts(img);
	for (size_t i = 0; i < f->n_lost; i++)
		if (f->lost[i].start >= f->lost[i].end)
			abort();
	image_close(img);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size && data[0] == 0x1f) {
		open_and_look(data, size);
		return 0;
	}
	struct sb f = { 0 }, core = { 0 };
	if (size > 4 && memcmp(data, "\177ELF", 4) == 0)
		sb_bytes(&core, data, size);
	else
		put_core(&core, (struct blob){ data, size });
	wrap(&f, (const uint8_t *)core.s, core.len);
	open_and_look((const uint8_t *)f.s, f.len);
	sb_free(&core);
	sb_free(&f);
	return 0;
}
