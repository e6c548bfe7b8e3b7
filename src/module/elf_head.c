/* Taking ELF apart.  Field order and sizes are those of the ELF specification; nothing here is the host's. */
#include "module/elf_head.h"

#include <elf.h>
#include <stdlib.h>
#include <string.h>

/* An address-sized field. */
static int word(struct cursor *c, const struct abi *abi, uint64_t *ret)
{
	return cursor_uint(c, abi->width, ret);
}

static int parse_phdr(struct cursor *c, const struct abi *abi, uint32_t *type, struct elf_part *p)
{
	uint32_t flags = 0;
	uint64_t paddr, align;
	if (cursor_u32(c, type) < 0 || (abi->width == 8 && cursor_u32(c, &flags) < 0) ||
	    word(c, abi, &p->offset) < 0 || word(c, abi, &p->vaddr) < 0 || word(c, abi, &paddr) < 0 ||
	    word(c, abi, &p->filesz) < 0 || word(c, abi, &p->memsz) < 0 ||
	    (abi->width == 4 && cursor_u32(c, &flags) < 0) || word(c, abi, &align) < 0)
		return ERR_CORRUPT;
	p->flags = flags;
	return 0;
}

static int by_vaddr(const void *a, const void *b)
{
	const struct elf_part *x = a, *y = b;
	return x->vaddr < y->vaddr ? -1 : x->vaddr > y->vaddr;
}

/* Far enough below the top that rounding up to a page cannot overflow. */
static bool part_fits(const struct elf_part *p)
{
	uint64_t end;
	return add_fits(p->vaddr, p->memsz, &end) && end < UINT64_MAX - (1 << 20) && p->filesz <= p->memsz &&
	       add_fits(p->offset, p->filesz, &end) && end < UINT64_MAX - (1 << 20);
}

int elf_phdrs_read(const struct elf_source *src, uint64_t phoff, unsigned phnum, struct elf_head *h)
{
	const size_t size = h->abi.width == 8 ? 56 : 32;
	uint64_t at = phoff;
	if (phnum > ELF_MAX_PHDRS)
		return ERR_CORRUPT;
	for (unsigned done = 0; done < phnum;) {
		uint8_t buf[32 * 56];
		unsigned n = phnum - done < 32 ? phnum - done : 32;
		int rc = src->read(src->ctx, at, buf, n * size);
		if (rc < 0)
			return rc;
		struct cursor c = cursor_of(buf, n * size, h->abi.big_endian);
		for (unsigned i = 0; i < n; i++) {
			struct elf_part p = { 0 };
			uint32_t type;
			rc = parse_phdr(&c, &h->abi, &type, &p);
			if (rc < 0)
				return rc;
			if (type == PT_LOAD && p.memsz) {
				if (!part_fits(&p) || h->n_load == ELF_MAX_LOADS)
					return ERR_CORRUPT;
				h->load[h->n_load++] = p;
			} else if (type == PT_DYNAMIC && part_fits(&p)) {
				h->dynamic = p;
			} else if (type == PT_PHDR && part_fits(&p)) {
				h->phdr = p;
			} else if (type == PT_GNU_EH_FRAME && part_fits(&p)) {
				h->eh_frame = p;
			} else if (type == PT_NOTE && part_fits(&p) && h->n_note < ELF_MAX_NOTES) {
				h->note[h->n_note++] = p;
			}
		}
		done += n;
		if (!add_fits(at, n * size, &at))
			return ERR_CORRUPT;
	}
	if (!h->n_load)
		return ERR_CORRUPT;
	qsort(h->load, h->n_load, sizeof *h->load, by_vaddr);
	for (size_t i = 1; i < h->n_load; i++)
		if (h->load[i].vaddr - h->load[i - 1].vaddr < h->load[i - 1].memsz)
			return ERR_CORRUPT;
	return 0;
}

/* The ELF header alone. */
static int read_header(const struct elf_source *src, struct elf_head *ret)
{
	uint8_t buf[64];
	int rc = src->read(src->ctx, 0, buf, 52); /* sizeof Elf32_Ehdr */
	if (rc < 0)
		return rc;
	if (memcmp(buf, ELFMAG, SELFMAG) != 0 || buf[EI_VERSION] != EV_CURRENT ||
	    (buf[EI_CLASS] != ELFCLASS32 && buf[EI_CLASS] != ELFCLASS64) ||
	    (buf[EI_DATA] != ELFDATA2LSB && buf[EI_DATA] != ELFDATA2MSB))
		return ERR_UNSUPPORTED;
	struct elf_head h = { .abi = { .width = buf[EI_CLASS] == ELFCLASS64 ? 8 : 4, .big_endian = buf[EI_DATA] == ELFDATA2MSB } };
	size_t len = h.abi.width == 8 ? 64 : 52;
	if (len == 64) {
		rc = src->read(src->ctx, 0, buf, len);
		if (rc < 0)
			return rc;
	}
	struct cursor c = cursor_of(buf, len, h.abi.big_endian);
	uint32_t version, flags;
	uint16_t ehsize, phentsize, phnum, shentsize, shnum, shstrndx;
	if (cursor_skip(&c, EI_NIDENT) < 0 || cursor_u16(&c, &h.type) < 0 || cursor_u16(&c, &h.abi.machine) < 0 ||
	    cursor_u32(&c, &version) < 0 || word(&c, &h.abi, &h.entry) < 0 || word(&c, &h.abi, &h.phoff) < 0 ||
	    word(&c, &h.abi, &h.shoff) < 0 || cursor_u32(&c, &flags) < 0 || cursor_u16(&c, &ehsize) < 0 ||
	    cursor_u16(&c, &phentsize) < 0 || cursor_u16(&c, &phnum) < 0 || cursor_u16(&c, &shentsize) < 0 ||
	    cursor_u16(&c, &shnum) < 0 || cursor_u16(&c, &shstrndx) < 0)
		return ERR_CORRUPT;
	h.phnum = phentsize == (h.abi.width == 8 ? 56 : 32) ? phnum : 0;
	h.shentsize = shentsize;
	h.shnum = shnum;
	h.shstrndx = shstrndx;
	*ret = h;
	return 0;
}

int elf_head_read(const struct elf_source *src, struct elf_head *ret)
{
	struct elf_head h;
	int rc = read_header(src, &h);
	if (rc < 0)
		return rc;
	if (h.type != ET_EXEC && h.type != ET_DYN)
		return ERR_UNSUPPORTED;
	if (!h.phnum)
		return ERR_CORRUPT;
	rc = elf_phdrs_read(src, h.phoff, h.phnum, &h);
	if (rc < 0)
		return rc;
	*ret = h;
	return 0;
}

int elf_debug_head_read(const struct elf_source *src, struct elf_head *ret)
{
	struct elf_head h;
	struct elf_section s[ELF_SECTIONS];
	int rc = read_header(src, &h);
	if (rc < 0)
		return rc;
	for (int first = 0, n; (n = elf_sections(src, &h, (unsigned)first, s, ELF_SECTIONS)) > 0; first += n)
		for (int i = 0; i < n; i++)
			if (s[i].type == SHT_NOTE && h.n_note < ELF_MAX_NOTES)
				h.note[h.n_note++] = (struct elf_part){ .offset = s[i].offset, .filesz = s[i].size, .memsz = s[i].size };
	*ret = h;
	return 0;
}

void elf_span(const struct elf_head *h, uint64_t *lo, uint64_t *hi)
{
	const struct elf_part *last = &h->load[h->n_load - 1];
	*lo = h->load[0].vaddr;
	*hi = last->vaddr + last->memsz;
}

int elf_build_id(const struct elf_source *src, const struct elf_head *h, uint8_t ret[ELF_BUILD_ID_MAX])
{
	int worst = ERR_ABSENT;
	for (size_t i = 0; i < h->n_note; i++) {
		uint8_t buf[4096]; /* a build-id stands in the first few hundred bytes */
		size_t len = h->note[i].filesz < sizeof buf ? (size_t)h->note[i].filesz : sizeof buf;
		int rc = src->read(src->ctx, h->note[i].offset, buf, len);
		if (rc < 0) {
			worst = rc;
			continue;
		}
		struct cursor c = cursor_of(buf, len, h->abi.big_endian);
		while (cursor_left(&c) >= 12) {
			uint32_t namesz, descsz, type;
			struct blob name, desc;
			if (cursor_u32(&c, &namesz) < 0 || cursor_u32(&c, &descsz) < 0 || cursor_u32(&c, &type) < 0 ||
			    cursor_take(&c, namesz, &name) < 0 || cursor_align(&c, 4) < 0 || cursor_take(&c, descsz, &desc) < 0)
				break;
			if (type == NT_GNU_BUILD_ID && namesz == 4 && memcmp(name.p, "GNU", 4) == 0 && descsz &&
			    descsz <= ELF_BUILD_ID_MAX) {
				memcpy(ret, desc.p, descsz);
				return (int)descsz;
			}
			/* .note.gnu.property is aligned to 8 in 64-bit files, in a PT_NOTE of its own; its name needs no padding. */
			if (cursor_align(&c, 4) < 0)
				break;
		}
	}
	return worst;
}

static int parse_section(struct cursor *c, const struct abi *abi, struct elf_section *ret)
{
	uint32_t info;
	uint64_t align;
	if (cursor_u32(c, &ret->name) < 0 || cursor_u32(c, &ret->type) < 0 || word(c, abi, &ret->flags) < 0 ||
	    word(c, abi, &ret->addr) < 0 || word(c, abi, &ret->offset) < 0 || word(c, abi, &ret->size) < 0 ||
	    cursor_u32(c, &ret->link) < 0 || cursor_u32(c, &info) < 0 || word(c, abi, &align) < 0 || word(c, abi, &ret->entsize) < 0)
		return ERR_CORRUPT;
	return 0;
}

int elf_sections(const struct elf_source *src, const struct elf_head *h, unsigned first, struct elf_section *ret, unsigned max)
{
	const size_t size = h->abi.width == 8 ? 64 : 40;
	uint8_t buf[ELF_SECTIONS * 64];
	uint64_t at;
	if (!h->shoff || h->shentsize != size || first >= h->shnum)
		return 0;
	unsigned n = h->shnum - first < max ? h->shnum - first : max;
	if (n > ELF_SECTIONS)
		n = ELF_SECTIONS;
	if (!add_fits(h->shoff, (uint64_t)first * size, &at))
		return ERR_CORRUPT;
	int rc = src->read(src->ctx, at, buf, n * size);
	if (rc < 0)
		return rc;
	struct cursor c = cursor_of(buf, n * size, h->abi.big_endian);
	for (unsigned i = 0; i < n; i++) {
		rc = parse_section(&c, &h->abi, &ret[i]);
		if (rc < 0)
			return rc;
	}
	return (int)n;
}

int elf_section_at(const struct elf_source *src, const struct elf_head *h, unsigned i, struct elf_section *ret)
{
	struct elf_section s;
	int n = elf_sections(src, h, i, &s, 1);
	if (n == 1)
		*ret = s;
	return n < 0 ? n : n == 0 ? ERR_ABSENT : 0;
}

size_t elf_symbol_size(const struct abi *abi)
{
	return abi->width == 8 ? 24 : 16;
}

int elf_symbol_parse(struct cursor *c, const struct abi *abi, struct elf_symbol *ret)
{
	uint8_t other;
	struct elf_symbol s;
	if (abi->width == 8) {
		if (cursor_u32(c, &s.name) < 0 || cursor_u8(c, &s.info) < 0 || cursor_u8(c, &other) < 0 ||
		    cursor_u16(c, &s.section) < 0 || cursor_u64(c, &s.value) < 0 || cursor_u64(c, &s.size) < 0)
			return ERR_CORRUPT;
	} else {
		uint32_t value, size;
		if (cursor_u32(c, &s.name) < 0 || cursor_u32(c, &value) < 0 || cursor_u32(c, &size) < 0 ||
		    cursor_u8(c, &s.info) < 0 || cursor_u8(c, &other) < 0 || cursor_u16(c, &s.section) < 0)
			return ERR_CORRUPT;
		s.value = value;
		s.size = size;
	}
	*ret = s;
	return 0;
}
