/*
 * The notes alone: the first byte picks the machine and the alignment, the rest is one PT_NOTE of a core with one
 * load.  So a mutation always reaches the parsers of notes.
 */
#include <stdlib.h>
#include <string.h>

#include "image/image.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define CHECK(x) do { if (!(x)) abort(); } while (0)

static void put(uint8_t *p, size_t width, uint64_t v, bool big)
{
	for (size_t i = 0; i < width; i++)
		p[big ? width - 1 - i : i] = (uint8_t)(v >> 8 * i);
}

/* ELF header, two program headers; returns their size. */
static size_t headers(const struct abi *abi, size_t align, size_t notes, uint8_t *p)
{
	bool big = abi->big_endian;
	size_t w = abi->width, eh = w == 8 ? 64 : 52, ph = w == 8 ? 56 : 32, all = eh + 2 * ph + (align - (eh + 2 * ph) % align) % align;
	memset(p, 0, all);
	memcpy(p, "\177ELF", 4);
	p[4] = w == 8 ? 2 : 1;
	p[5] = big ? 2 : 1;
	put(p + 16, 2, 4, big);
	put(p + 18, 2, abi->machine, big);
	put(p + (w == 8 ? 32 : 28), w, eh, big);
	put(p + (w == 8 ? 54 : 42), 2, ph, big);
	put(p + (w == 8 ? 56 : 44), 2, 2, big);
	for (size_t i = 0; i < 2; i++) { /* the notes, and a load of the same bytes */
		uint8_t *h = p + eh + i * ph;
		put(h, 4, i ? 1 : 4, big);
		put(h + (w == 8 ? 8 : 4), w, all, big);
		put(h + (w == 8 ? 16 : 8), w, i ? 0x10000 : 0, big);
		put(h + (w == 8 ? 32 : 16), w, notes, big);
		put(h + (w == 8 ? 40 : 20), w, notes, big);
		put(h + (w == 8 ? 48 : 28), w, align, big);
	}
	return all;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char *const machines[] = { "x86_64", "i386", "aarch64", "aarch64_be", "arm", "armeb", "ppc64", "ppc64le", "s390x" };
	struct abi abi;
	if (!size)
		return 0;
	CHECK(abi_by_name(machines[(data[0] & 0x7f) % (sizeof machines / sizeof *machines)], &abi));
	uint8_t *core = xmalloc(256 + size);
	size_t at = headers(&abi, data[0] & 0x80 ? 8 : 4, size - 1, core);
	memcpy(core + at, data + 1, size - 1);
	struct image *img;
	if (image_open_bytes(bytes_from_memory(core, at + size - 1, "input"), &img, NULL) == 0) {
		const struct thread *t;
		size_t n = image_threads(img, &t);
		CHECK(n <= size / 12);
		for (size_t i = 0; i < n; i++)
			CHECK(t[i].prstatus.len <= size && t[i].regs.syscall.nr >= -1);
		const struct image_facts *f = image_facts(img);
		CHECK(!f->truncated && str_valid(f->comm.s ? f->comm.s : "", f->comm.len) && f->comm.len <= 4 * 16);
		CHECK(str_valid(f->args.s ? f->args.s : "", f->args.len) && f->args.len <= 4 * 80);
		const struct mapping *m;
		n = image_mappings(img, &m);
		for (size_t i = 0; i < n; i++)
			CHECK(m[i].start < m[i].end && m[i].path.len < size);
		image_close(img);
	}
	free(core);
	return 0;
}
