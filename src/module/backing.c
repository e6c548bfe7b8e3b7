/*
 * Pages that the image left out, laid beneath it from the module's file.  Nothing is read here: a page is read when
 * somebody asks for it.
 *
 * What a load of the file says is true of memory only while nobody wrote there.  Read-only loads: always.  Writable ones
 * (also where RELRO has made them read-only since): a kernel's core has the whole mapping if any page of it was written
 * (vma->anon_vma in vma_dump_size, fs/coredump.c, 6.1), so one that is left out is still the file's - unless the filter
 * keeps private memory out altogether, or the core was cut off there.  The stacks tell the first: they are private too.
 * A snapshot may leave out more than that, so its writable loads are never filled.
 */
#include "module/modules.h"

#include <elf.h>
#include <stdlib.h>

struct backing { struct mod *m; uint64_t offset; };

static int backing_read(void *ctx, uint64_t offset, void *buf, size_t len)
{
	struct backing *b = ctx;
	uint64_t at;
	if (!add_fits(b->offset, offset, &at))
		return ERR_FAULT;
	return disk_file_read(b->m->file, at, buf, len) < 0 ? ERR_FAULT : 0;
}

bool backing_private_kept(const struct modules *mods)
{
	const struct thread *t;
	size_t n = image_threads(mods->img, &t);
	if (image_facts(mods->img)->kind != IMAGE_CORE)
		return false;
	for (size_t i = 0; i < n && i < 16; i++) {
		uint8_t byte;
		if (t[i].regs.sp && image_read(mods->img, t[i].regs.sp, &byte, 1) == 0)
			return true;
	}
	return false;
}

static void lay(struct mod *m, addr_t start, addr_t end, uint64_t offset, unsigned prot)
{
	if (offset >= (uint64_t)m->file->size)
		return;
	if (end - start > (uint64_t)m->file->size - offset)
		end = start + ((uint64_t)m->file->size - offset);
	struct backing *b = arena_alloc(m->mods->arena, sizeof *b);
	*b = (struct backing){ m, offset };
	struct segment seg = { .start = start, .size = end - start, .prot = prot, .read = backing_read, .ctx = b, .from_file = true };
	if (image_add_segment(m->mods->img, &seg, LAY_BENEATH) < 0)
		return; /* then it stays unknown */
}

/* PF_ of a program header as struct mapping has it. */
static unsigned prot_of(unsigned flags)
{
	return (flags & PF_R ? 1u : 0) | (flags & PF_W ? 2u : 0) | (flags & PF_X ? 4u : 0);
}

void backing_lay(struct mod *m)
{
	const struct image_facts *facts = image_facts(m->mods->img);
	if (!m->file || !m->pub.bias_known || facts->kind == IMAGE_LIVE)
		return;
	for (size_t i = 0; i < m->file->head->n_load; i++) {
		const struct elf_part *l = &m->file->head->load[i];
		addr_t start = m->pub.bias + l->vaddr, end = start + l->filesz;
		bool writable = l->flags & PF_W;
		if (!l->filesz || end < start || (writable && (m->pub.unverified || !m->mods->private_kept)))
			continue;
		const bool whole = !m->piece.n || m->by_auxv;
		if (whole && !writable)
			lay(m, start, end, l->offset, prot_of(l->flags));
		for (size_t k = 0; !whole && k < m->piece.n; k++) {
			const struct piece *p = &m->piece.p[k];
			addr_t lo = p->start > start ? p->start : start, hi = p->end < end ? p->end : end;
			if (lo >= hi || p->start - p->offset != start - l->offset || (writable && image_is_lost(m->mods->img, lo, hi - lo)))
				continue;
			lay(m, lo, hi, l->offset + (lo - start), p->prot ? p->prot : prot_of(l->flags));
		}
	}
}
