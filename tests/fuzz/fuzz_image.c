/*
 * A program for the address space: 8 bytes a step, which adds a segment over or beneath, or reads, and a plain array of
 * bytes says what must come out.
 */
#include <stdlib.h>
#include <string.h>

#include "image/image.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define CHECK(x) do { if (!(x)) abort(); } while (0)
enum { SPACE = 1 << 16, STEPS = 200 };
static const addr_t base = 0x7ffffff0a000;

struct source {
	uint8_t tag;
	size_t size, bad; /* a read that touches offset bad fails; bad == size: none does */
};

static uint8_t content(uint8_t tag, size_t offset)
{
	return (uint8_t)(tag + offset * 5);
}

static int source_read(void *ctx, uint64_t offset, void *buf, size_t len)
{
	const struct source *s = ctx;
	CHECK(len && offset <= s->size && len <= s->size - offset);
	if (s->bad >= offset && s->bad < offset + len)
		return ERR_IO;
	for (size_t i = 0; i < len; i++)
		((uint8_t *)buf)[i] = content(s->tag, (size_t)offset + i);
	return 0;
}

struct model {
	uint8_t byte[SPACE], state[SPACE]; /* state: 0 hole, 1 there, 2 there and its page cannot be read */
};

static void add(struct image *img, struct model *m, size_t start, size_t len, uint8_t tag, enum lay where, bool bad)
{
	struct source *s = arena_alloc(image_arena(img), sizeof *s);
	*s = (struct source){ tag, len, bad ? len / 2 : len };
	struct segment seg = { .start = base + start, .size = len, .read = source_read, .ctx = s };
	CHECK(image_add_segment(img, &seg, where) == 0);
	for (size_t i = 0; i < len; i++)
		if (where == LAY_OVER || !m->state[start + i]) {
			m->byte[start + i] = content(tag, i);
			m->state[start + i] = bad && i == len / 2 ? 2 : 1;
		}
}

static void read_back(struct image *img, const struct model *m, size_t start, size_t len, uint8_t *buf)
{
	size_t there = 0, good = 0;
	while (there < len && start + there < SPACE && m->state[start + there])
		there++;
	while (good < there && m->state[start + good] == 1)
		good++;
	int rc = image_read(img, base + start, buf, len);
	CHECK(rc == 0 || rc == ERR_FAULT);
	CHECK(rc != 0 || (good == len && memcmp(buf, m->byte + start, len) == 0));
	/* Damage may take its whole page along, no more. */
	size_t sure = good == there ? good : good > 4096 ? good - 4096 : 0;
	CHECK(rc == 0 || there < len || good < len);
	size_t n = image_read_some(img, base + start, buf, len);
	CHECK(n >= sure && n <= good && memcmp(buf, m->byte + start, n) == 0);
	if (start < SPACE) {
		uint64_t skip = image_skip(img, base + start);
		CHECK((skip == 0) == (m->state[start] != 0));
		CHECK((image_segment_at(img, base + start) != NULL) == (m->state[start] != 0));
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct model *m = xcalloc(1, sizeof *m);
	struct image *img = image_new((struct abi){ 62, 8, false });
	uint8_t *buf = xmalloc(SPACE);
	struct cursor c = cursor_of(data, size, false);
	uint8_t op, tag;
	uint16_t start, len, pad;
	for (unsigned step = 0; step < STEPS && cursor_u8(&c, &op) == 0 && cursor_u8(&c, &tag) == 0 && cursor_u16(&c, &start) == 0 &&
	     cursor_u16(&c, &len) == 0 && cursor_u16(&c, &pad) == 0; step++) {
		size_t n = (op & 0x80 ? len : len % 512) + 1u;
		n = start + n <= SPACE ? n : (size_t)SPACE - start;
		switch (op & 7) {
		case 0:
		case 1: add(img, m, start, n, tag, LAY_OVER, op & 0x40); break;
		case 2: add(img, m, start, n, tag, LAY_BENEATH, op & 0x40); break;
		default: read_back(img, m, start, n, buf); break;
		}
	}
	image_settle(img);
	read_back(img, m, 0, SPACE, buf);
	image_close(img);
	free(buf);
	free(m);
	return 0;
}
