/* A whole core as it came: opening it and every question an image answers must hold together. */
#include <stdlib.h>
#include <string.h>

#include "image/image.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define CHECK(x) do { if (!(x)) abort(); } while (0)

static void check_text(struct str s)
{
	CHECK(str_valid(s.s ? s.s : "", s.len));
}

static bool inside(struct blob b)
{
	uint8_t sum = 0;
	for (size_t i = 0; i < b.len; i++) /* every byte can be read, or the sanitizer says so */
		sum ^= b.p[i];
	return sum == 0 || b.len;
}

static void check_segments(struct image *img)
{
	const struct segment *s;
	size_t n = image_segments(img, &s);
	uint8_t buf[300];
	for (size_t i = 0; i < n; i++) {
		addr_t end;
		CHECK(s[i].size > 0 && add_fits(s[i].start, s[i].size, &end));
		CHECK(i == 0 || s[i - 1].start + s[i - 1].size <= s[i].start);
		CHECK(image_segment_at(img, s[i].start) == &s[i]);
		CHECK(image_segment_at(img, end - 1) == &s[i]);
		CHECK(image_read(img, s[i].start, buf, 1) == 0);
		CHECK(image_read(img, end - 1, buf, 1) == 0);
		size_t want = s[i].size < sizeof buf ? (size_t)s[i].size : sizeof buf;
		CHECK(image_read_some(img, s[i].start, buf, sizeof buf) >= want);
		if (i + 1 == n || s[i + 1].start > end) {
			CHECK(image_skip(img, end) == (i + 1 < n ? s[i + 1].start - end : image_skip(img, end)));
			CHECK(image_read(img, end, buf, 1) == ERR_FAULT);
			CHECK(image_read(img, end - 1, buf, 2) == ERR_FAULT);
		}
		(void)!image_read_cstr(img, s[i].start, (char *)buf, sizeof buf - 1);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct image *img = NULL;
	struct err err = { 0 };
	int rc = image_open_bytes(bytes_from_memory(data, size, "input"), &img, &err);
	if (rc < 0) {
		CHECK(!img && err.code == rc && err.msg[0]);
		check_text(str_of(err.msg));
		return 0;
	}
	const struct image_facts *f = image_facts(img);
	check_text(f->comm);
	check_text(f->args);
	CHECK(f->truncated == (f->expected > f->size));
	CHECK(f->n_segments_lost <= f->n_segments && inside(f->auxv));
	for (size_t i = 0; i < f->n_lost; i++)
		CHECK(f->lost[i].start < f->lost[i].end && (i == 0 || f->lost[i - 1].end <= f->lost[i].start));
	check_segments(img);
	const struct thread *t;
	size_t n = image_threads(img, &t);
	for (size_t i = 0; i < n; i++)
		CHECK(inside(t[i].prstatus) && inside(t[i].fpregset) && inside(t[i].xstate) && inside(t[i].siginfo));
	const struct mapping *m;
	n = image_mappings(img, &m);
	for (size_t i = 0; i < n; i++) {
		CHECK(m[i].start < m[i].end && (i == 0 || m[i - 1].end <= m[i].start) && inside(m[i].path));
		CHECK(image_mapping_at(img, m[i].start) == &m[i] && image_mapping_at(img, m[i].end - 1) == &m[i]);
	}
	const struct note *notes;
	n = image_notes(img, &notes);
	for (size_t i = 0; i < n; i++)
		CHECK(inside(notes[i].owner) && inside(notes[i].desc));
	uint64_t v;
	(void)!image_auxv(img, 3, &v);
	CHECK(abi_name(image_abi(img))[0]);
	image_close(img);
	return 0;
}
