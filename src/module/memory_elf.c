/*
 * The loads of a mapped module lie at their addresses, so in the ELF made here a load's offset is its address minus the lowest
 * one; there are no sections, and libdw finds the tables by PT_GNU_EH_FRAME.  The span is mapped, not allocated: only what is
 * copied costs memory.
 */
#include "module/memory_elf.h"

#include <string.h>
#include <sys/mman.h>

#include "module/native_touch.h"

enum { SPAN_MAX = 1 << 30, HDR_MAX = 16 << 20, CHUNK = 1 << 16 };

/* Where the fields are, by class: Elf32_Ehdr / Elf64_Ehdr and Elf32_Phdr / Elf64_Phdr. */
struct shape {
	uint8_t eh_size, phoff, shoff, phentsize, phnum, shnum, shstrndx;
	uint8_t ph_size, p_offset, p_vaddr, p_filesz;
};
static const struct shape shape32 = { 52, 28, 32, 42, 44, 48, 50, 32, 4, 8, 16 }, shape64 = { 64, 32, 40, 54, 56, 60, 62, 56, 8, 16, 32 };

static uint64_t get(const uint8_t *p, unsigned width, bool big)
{
	uint64_t v = 0;
	for (unsigned i = 0; i < width; i++)
		v |= (uint64_t)p[i] << 8 * (big ? width - 1 - i : i);
	return v;
}

static void put(uint8_t *p, unsigned width, bool big, uint64_t v)
{
	for (unsigned i = 0; i < width; i++)
		p[big ? width - 1 - i : i] = (uint8_t)(v >> 8 * i);
}

/* [from, to) of the span, page by page as far as it is there; for a record, touch_end reads what of it was used. */
static uint64_t copy(struct mod *m, uint8_t *base, uint64_t from, uint64_t to, uint64_t *budget)
{
	const uint64_t lo = m->pub.start;
	uint64_t got = 0;
	for (uint64_t at = from; at < to && *budget >= CHUNK;) {
		uint64_t n = to - at < CHUNK ? to - at : CHUNK;
		if (image_scan(m->mods->img, lo + at, base + at, (size_t)n) == n) {
			got += n;
			*budget -= n;
		} else {
			n = 4096 - (lo + at) % 4096;
			if (n > to - at)
				n = to - at;
			if (image_scan(m->mods->img, lo + at, base + at, (size_t)n) == n) {
				got += n;
				*budget -= n;
			}
		}
		at += n;
	}
	return got;
}

/* Where .eh_frame begins by .eh_frame_hdr (LSB 5.0, 10.6.2), as an offset in the span; the form that every linker writes. */
static bool eh_frame_start(struct mod *m, uint64_t hdr, uint64_t size, uint64_t *ret)
{
	enum { PCREL_SDATA4 = 0x1b };
	uint8_t b[8];
	if (size < sizeof b || image_read(m->mods->img, m->pub.start + hdr, b, sizeof b) < 0 || b[0] != 1 || b[1] != PCREL_SDATA4)
		return false;
	*ret = hdr + 4 + (uint64_t)(int64_t)(int32_t)(uint32_t)get(b + 4, 4, m->head->abi.big_endian);
	return true;
}

static bool tables(struct mod *m, uint8_t *base, uint64_t span, uint64_t hdr, uint64_t size, uint64_t *budget)
{
	uint64_t end, from, to = 0;
	if (!add_fits(hdr, size, &end) || end > span || size > HDR_MAX || !copy(m, base, hdr, end, budget))
		return false;
	if (!eh_frame_start(m, hdr, size, &from))
		from = hdr;
	for (size_t i = 0; i < m->head->n_load; i++) {
		const struct elf_part *l = &m->head->load[i];
		uint64_t start = m->pub.bias + l->vaddr - m->pub.start, stop;
		if (add_fits(start, l->filesz, &stop) && from >= start && from < stop)
			to = stop < span ? stop : span;
	}
	return to && copy(m, base, from, to, budget) > 0;
}

Elf *memory_elf(struct mod *m, uint64_t *budget)
{
	enum { HEADERS = 64 + 512 * 56 };
	uint8_t *base = NULL;
	const struct module *pub = &m->pub;
	if (!pub->headers_in_image || !pub->bias_known || !m->head || pub->end <= pub->start || pub->end - pub->start > SPAN_MAX)
		return NULL;
	const uint64_t span = pub->end - pub->start;
	const struct shape *s = m->head->abi.width == 8 ? &shape64 : &shape32;
	const unsigned w = m->head->abi.width;
	const bool big = m->head->abi.big_endian;
	uint8_t eh[64];
	if (image_read(m->mods->img, pub->start, eh, s->eh_size) < 0 || memcmp(eh, "\177ELF", 4) != 0)
		return NULL;
	const uint64_t phoff = get(eh + s->phoff, w, big), phnum = get(eh + s->phnum, 2, big), all = phnum * s->ph_size;
	uint64_t end;
	if (get(eh + s->phentsize, 2, big) != s->ph_size || phnum > ELF_MAX_PHDRS || !add_fits(phoff, all, &end) || end > span || end > HEADERS)
		return NULL;
	base = mmap(NULL, span, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (base == MAP_FAILED)
		return NULL;
	memcpy(base, eh, s->eh_size);
	bool good = false;
	if (image_read(m->mods->img, pub->start + phoff, base + phoff, (size_t)all) < 0)
		goto out;
	put(base + s->shoff, w, big, 0);
	put(base + s->shnum, 2, big, 0);
	put(base + s->shstrndx, 2, big, 0);
	for (uint64_t i = 0; i < phnum; i++) {
		uint8_t *p = base + phoff + i * s->ph_size;
		uint64_t at = pub->bias + get(p + s->p_vaddr, w, big) - pub->start;
		put(p + s->p_offset, w, big, at);
		if (get(p, 4, big) == PT_GNU_EH_FRAME)
			good = tables(m, base, span, at, get(p + s->p_filesz, w, big), budget);
	}
out:
	if (!good) {
		munmap(base, span);
		return NULL;
	}
	touch_watch(base, span, pub->start);
	return elf_memory((char *)base, span);
}

Elf *memory_elf_machine(const struct abi *abi)
{
	static uint8_t eh[64];
	const struct shape *s = abi->width == 8 ? &shape64 : &shape32;
	memset(eh, 0, sizeof eh);
	memcpy(eh, "\177ELF", 4);
	eh[EI_CLASS] = abi->width == 8 ? ELFCLASS64 : ELFCLASS32;
	eh[EI_DATA] = abi->big_endian ? ELFDATA2MSB : ELFDATA2LSB;
	eh[EI_VERSION] = EV_CURRENT;
	put(eh + 16, 2, abi->big_endian, ET_CORE);
	put(eh + 18, 2, abi->big_endian, abi->machine);
	put(eh + 20, 4, abi->big_endian, EV_CURRENT);
	put(eh + s->phentsize - 2, 2, abi->big_endian, s->eh_size); /* e_ehsize stands before e_phentsize */
	return elf_memory((char *)eh, s->eh_size);
}
