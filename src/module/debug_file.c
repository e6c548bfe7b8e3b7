/*
 * Separate debug files: where the symbols and DWARF of stripped files lie.  One is used only if it has the build-id of the
 * module; for a module without one, if the file that names it knows its checksum.
 */
#include "module/modules.h"

#include <elf.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

enum { NAMES_MAX = 1 << 16, LINK_MAX = 4096, PLACES_MAX = 64 };

/* A section's bytes, up to max; ERR_*. */
static int content(const struct elf_source *src, const struct elf_section *s, uint8_t *buf, size_t max, struct blob *ret)
{
	size_t n = s->size < max ? (size_t)s->size : max;
	int rc = s->type == SHT_NOBITS ? ERR_ABSENT : src->read(src->ctx, s->offset, buf, n);
	if (rc == 0)
		*ret = (struct blob){ buf, n };
	return rc;
}

/* The text at the start of b, which ends in it; NULL. */
static const char *text_of(struct arena *a, struct blob b)
{
	const uint8_t *nul = b.len ? memchr(b.p, 0, b.len) : NULL;
	return nul && nul != b.p ? arena_dup(a, b.p, (size_t)(nul - b.p) + 1) : NULL;
}

struct found {
	bool symtab, dwarf, packed;
	bool has_link, has_alt;      /* there is such a section: further ones, which no linker makes, are passed over */
	uint64_t mini, mini_size;    /* .gnu_debugdata; size 0: none */
	const char *link, *alt;
	uint32_t crc;
	struct blob alt_id;
};

static void look_at(struct arena *a, const struct elf_source *src, const struct elf_head *h, const struct elf_section *s, const char *name, struct found *ret)
{
	uint8_t buf[LINK_MAX];
	struct blob b;
	if (s->type == SHT_SYMTAB && s->size && s->entsize == elf_symbol_size(&h->abi))
		ret->symtab = true;
	if ((!strcmp(name, ".debug_info") || !strcmp(name, ".zdebug_info")) && s->type != SHT_NOBITS) {
		ret->dwarf = true;
		ret->packed = name[1] == 'z' || s->flags & SHF_COMPRESSED;
	}
	if (!strcmp(name, ".gnu_debugdata") && s->type != SHT_NOBITS) {
		ret->mini = s->offset;
		ret->mini_size = s->size;
	}
	const bool link = !ret->has_link && !strcmp(name, ".gnu_debuglink"), alt = !ret->has_alt && !strcmp(name, ".gnu_debugaltlink");
	ret->has_link |= link;
	ret->has_alt |= alt;
	if (link && content(src, s, buf, sizeof buf, &b) == 0 && (ret->link = text_of(a, b))) {
		struct cursor c = cursor_of(b.p, b.len, h->abi.big_endian);
		if (cursor_skip(&c, strlen(ret->link) + 1) < 0 || cursor_align(&c, 4) < 0 || cursor_u32(&c, &ret->crc) < 0)
			ret->link = NULL;
	}
	if (alt && content(src, s, buf, sizeof buf, &b) == 0 && (ret->alt = text_of(a, b))) {
		size_t at = strlen(ret->alt) + 1, n = b.len - at;
		if (n > ELF_BUILD_ID_MAX || !n)
			ret->alt = NULL;
		else
			ret->alt_id = (struct blob){ arena_dup(a, b.p + at, n), n };
	}
}

static void look(struct arena *a, const struct elf_source *src, const struct elf_head *h, struct found *ret)
{
	struct elf_section names, s[ELF_SECTIONS];
	CLEANUP(cleanup_free) uint8_t *text = NULL;
	struct blob table = { 0 };
	*ret = (struct found){ 0 };
	if (elf_section_at(src, h, h->shstrndx, &names) == 0 && names.size) {
		size_t room = names.size < NAMES_MAX ? (size_t)names.size : NAMES_MAX;
		text = xmalloc(room);
		if (content(src, &names, text, room, &table) < 0)
			table = (struct blob){ 0 };
	}
	for (int first = 0, n; (n = elf_sections(src, h, (unsigned)first, s, ELF_SECTIONS)) > 0; first += n) {
		for (int i = 0; i < n; i++) {
			bool named = s[i].name < table.len && memchr(table.p + s[i].name, 0, table.len - s[i].name);
			look_at(a, src, h, &s[i], named ? (const char *)table.p + s[i].name : "", ret);
		}
	}
}

static int crc_of(struct disk_file *f, uint32_t *ret)
{
	CLEANUP(cleanup_free) uint8_t *buf = xmalloc(1 << 18);
	uLong crc = crc32(0, NULL, 0);
	for (uint64_t at = 0; at < (uint64_t)f->size;) {
		size_t n = (uint64_t)f->size - at < 1 << 18 ? (size_t)((uint64_t)f->size - at) : 1 << 18;
		int rc = disk_file_read(f, at, buf, n);
		if (rc < 0)
			return rc;
		crc = crc32(crc, buf, (uInt)n);
		at += n;
	}
	*ret = (uint32_t)crc;
	return 0;
}

/* The open file, if it is the module's: by the build-id, and by the checksum where a name led to it.  fd is taken or closed. */
static struct disk_file *take(struct mod *m, const struct candidate *c, int fd, struct blob id, const uint32_t *crc, bool debug)
{
	struct modules *mods = m->mods;
	struct disk_file probe = { .mods = mods, .fd = fd + 1 };
	struct elf_source src = disk_file_source(&probe);
	struct elf_head head;
	struct stat st;
	uint8_t own[ELF_BUILD_ID_MAX];
	if (fstat(fd, &st) < 0 || elf_debug_head_read(&src, &head) < 0 || !mod_same_machine(m, &head))
		goto no;
	probe.size = st.st_size;
	int n = elf_build_id(&src, &head, own);
	if (id.len) {
		if (n != (int)id.len || memcmp(own, id.p, id.len) != 0) {
			if (debug && !m->pub.debug_refused) {
				m->pub.debug_refused = c->path;
				m->pub.debug_refused_id = n > 0 ? (struct blob){ arena_dup(mods->arena, own, (size_t)n), (size_t)n } : (struct blob){ 0 };
			}
			goto no;
		}
	} else if (!crc || n > 0) {
		goto no;
	}
	uint32_t sum;
	if (crc && (crc_of(&probe, &sum) < 0 || sum != *crc))
		goto no;
	return disk_file_take(mods, c, &head, fd);
no:
	close(fd);
	return NULL;
}

static void find_alt(struct mod *m, struct disk_file *in, const struct found *found)
{
	struct candidate c;
	m->alt_name = found->alt;
	for (unsigned nth = 0; found->alt && nth < PLACES_MAX && !m->alt; nth++) {
		int fd = opener_alt(m->mods->opener, found->alt_id, found->alt, &in->from, nth, &c);
		if (fd == ERR_ABSENT)
			break;
		if (fd >= 0)
			m->alt = take(m, &c, fd, found->alt_id, NULL, false);
	}
}

static void use_mini(struct mod *m, struct disk_file *in, const struct found *found)
{
	if (!found->mini_size || m->mini_in)
		return;
	m->mini_rc = mini_check(found->mini_size);
	if (m->mini_rc < 0)
		return;
	m->mini_in = in;
	m->mini_at = found->mini;
	m->mini_size = found->mini_size;
}

/* What the snapshot brought along, where there is nothing better here. */
static void use_inside(struct mod *m)
{
	const struct noted_file *noted = image_noted_at(m->mods->img, m->noted_at);
	const struct blob *id = &m->pub.build_id;
	struct found in;
	if (!noted || !noted->symbols_size || noted->build_id.len != id->len || (id->len && memcmp(noted->build_id.p, id->p, id->len) != 0))
		return;
	struct disk_file *f = disk_file_inside(m->mods, noted);
	if (!f || !mod_same_machine(m, f->head))
		return;
	struct elf_source src = disk_file_source(f);
	look(m->mods->arena, &src, f->head, &in);
	m->inside = f;
	m->symtab |= in.symtab;
	use_mini(m, f, &in);
}

static void use_debug(struct mod *m)
{
	struct found in;
	struct elf_source src = disk_file_source(m->debug);
	look(m->mods->arena, &src, m->debug->head, &in);
	m->pub.debug_file = m->debug->from.path;
	m->pub.debug_refused = NULL;
	m->symtab |= in.symtab;
	m->pub.lines |= in.dwarf;
	m->pub.lines_packed = in.packed;
	find_alt(m, m->debug, &in);
}

/* By which debug information is known: the image's word, else that of the file that is taken for it. */
static struct blob debug_id(struct mod *m)
{
	uint8_t own[ELF_BUILD_ID_MAX];
	if (m->pub.build_id.len || !m->file)
		return m->pub.build_id;
	struct elf_source src = disk_file_source(m->file);
	int n = elf_build_id(&src, m->file->head, own);
	return n > 0 ? (struct blob){ arena_dup(m->mods->arena, own, (size_t)n), (size_t)n } : (struct blob){ 0 };
}

void debug_find(struct mod *m)
{
	struct module *pub = &m->pub;
	struct found in = { 0 };
	if (pub->vdso)
		return;
	if (m->file) {
		struct elf_source src = disk_file_source(m->file);
		look(m->mods->arena, &src, m->file->head, &in);
		m->symtab = in.symtab;
		pub->lines = in.dwarf;
		pub->lines_packed = in.packed;
		use_mini(m, m->file, &in);
		if (in.dwarf) {
			find_alt(m, m->file, &in);
			return;
		}
	}
	const struct wanted want = { .path = pub->path, .build_id = debug_id(m), .exe = pub->exe };
	struct candidate c;
	const struct candidate *file = m->file ? &m->file->from : NULL;
	for (unsigned nth = 0; nth < PLACES_MAX && !m->debug; nth++) {
		int fd = opener_debug(m->mods->opener, &want, file, in.link, nth, &c);
		if (fd == ERR_ABSENT)
			break;
		if (fd < 0)
			continue;
		m->debug = take(m, &c, fd, want.build_id, c.by_id ? NULL : &in.crc, true);
	}
	if (m->debug)
		use_debug(m);
	if (!m->symtab && !m->mini_in)
		use_inside(m);
}

void debug_fetch(struct mod *m)
{
	struct candidate c;
	if (m->debug || m->pub.lines || m->pub.vdso)
		return;
	const struct blob id = debug_id(m);
	int fd = opener_fetch(m->mods->opener, FETCH_DEBUGINFO, id, &c);
	if (fd >= 0)
		m->debug = take(m, &c, fd, id, NULL, true);
	if (m->debug)
		use_debug(m);
}
