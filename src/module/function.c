/*
 * Where a function begins and ends where it has no name: .eh_frame_hdr (LSB 5.0, 10.6.2) has a table of where each begins, sorted, in
 * the form that every linker writes (signed 4-byte distances from it); the table entry's FDE says how long it is.
 */
#include "module/modules.h"

enum {
	PCREL_SDATA4 = 0x1b, UDATA4 = 0x03, DATAREL_SDATA4 = 0x3b, /* DW_EH_PE_* */
	HEADER = 12, ENTRY = 8,
};

static bool signed_at(const struct modules *mods, addr_t at, addr_t base, addr_t *ret)
{
	uint64_t v;
	if (image_read_uint(mods->img, at, 4, &v) < 0)
		return false;
	*ret = base + (uint64_t)(int64_t)(int32_t)(uint32_t)v;
	return true;
}

int modules_function(struct modules *mods, addr_t pc, addr_t *ret_start, addr_t *ret_end)
{
	const struct module *pub = modules_at(mods, pc);
	uint8_t form[4];
	uint64_t count, length;
	addr_t start, fde, begin, end;
	if (!pub || !pub->bias_known)
		return ERR_ABSENT;
	const struct mod *m = &mods->mod[pub - mods->pub];
	if (!m->head || !m->head->eh_frame.memsz)
		return ERR_ABSENT;
	if (m->head->eh_frame.memsz < HEADER)
		return ERR_CORRUPT;
	const addr_t hdr = pub->bias + m->head->eh_frame.vaddr;
	if (image_read(mods->img, hdr, form, sizeof form) < 0)
		return ERR_FAULT;
	if (form[0] != 1 || form[1] != PCREL_SDATA4 || form[2] != UDATA4 || form[3] != DATAREL_SDATA4)
		return ERR_UNSUPPORTED;
	if (image_read_uint(mods->img, hdr + 8, 4, &count) < 0)
		return ERR_FAULT;
	if (count > (m->head->eh_frame.memsz - HEADER) / ENTRY)
		return ERR_CORRUPT;
	uint64_t lo = 0, hi = count; /* the last one that begins at pc or before is in [lo, hi) */
	while (hi - lo > 1) {
		const uint64_t mid = lo + (hi - lo) / 2;
		if (!signed_at(mods, hdr + HEADER + mid * ENTRY, hdr, &start))
			return ERR_FAULT;
		if (start <= pc)
			lo = mid;
		else
			hi = mid;
	}
	if (!count)
		return ERR_ABSENT;
	/* An FDE: its length, its CIE's distance, where it begins and how long it is, the latter two in the CIE's form: mostly the table's. */
	const addr_t entry = hdr + HEADER + lo * ENTRY;
	if (!signed_at(mods, entry, hdr, &start) || !signed_at(mods, entry + 4, hdr, &fde) || !signed_at(mods, fde + 8, fde + 8, &begin) ||
	    image_read_uint(mods->img, fde + 12, 4, &length) < 0)
		return ERR_FAULT;
	if (begin != start || !add_fits(start, length, &end))
		return ERR_UNSUPPORTED;
	if (pc < start || pc >= end)
		return ERR_ABSENT;
	*ret_start = start;
	*ret_end = end;
	return 0;
}
