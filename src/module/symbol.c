/*
 * Symbols by name: through the hash table of the image's own dynamic symbols, as the dynamic linker does (a few reads a
 * module), then through the file's .symtab.  Every count and address in these tables is the input's word: a table lies
 * inside its module, chains and counts are capped.
 */
#include "module/symbol.h"

#include <elf.h>
#include <stdlib.h>
#include <string.h>

enum {
	MAX_DYNAMIC = 512,       /* entries of PT_DYNAMIC looked at */
	MAX_CHAIN = 1 << 12,     /* symbols in one hash bucket */
	MAX_STEPS = 1 << 18,     /* symbols compared in one look-up, all modules together */
	CHUNK_SYMBOLS = 1024,    /* read at once: at most 24 KiB */
	CHUNK_NAMES = 64 << 10,
	MAX_SPELLINGS = 64,      /* places of one name in a string table; a linker makes one */
};

/* Inside the module, with room for size bytes? */
static bool inside(const struct mod *m, addr_t at, uint64_t size)
{
	return at >= m->pub.start && at < m->pub.end && size <= m->pub.end - at;
}

/*
 * A table's address.  glibc adds the bias to d_ptr in memory; musl, the vdso and read-only dynamic sections (mips,
 * riscv before glibc 2.35) do not: whichever lies in the module is meant.
 */
static addr_t table_at(const struct mod *m, uint64_t value)
{
	if (inside(m, value, 1))
		return value;
	value += m->pub.bias;
	return inside(m, value, 1) ? value : 0;
}

static int read_u32(struct mod *m, addr_t at, uint32_t *ret)
{
	uint64_t v = 0;
	int rc = image_read_uint(m->mods->img, at, 4, &v);
	if (rc == 0)
		*ret = (uint32_t)v;
	return rc;
}

static void read_gnu_hash(struct mod *m)
{
	struct dynamic *d = &m->dyn;
	const uint8_t w = image_abi(m->mods->img)->width;
	if (!d->gnu_hash || read_u32(m, d->gnu_hash, &d->n_buckets) < 0 || read_u32(m, d->gnu_hash + 4, &d->first) < 0 ||
	    read_u32(m, d->gnu_hash + 8, &d->bloom_words) < 0 || read_u32(m, d->gnu_hash + 12, &d->bloom_shift) < 0)
		goto none;
	d->bloom = d->gnu_hash + 16;
	d->buckets = d->bloom + (uint64_t)d->bloom_words * w;
	d->chains = d->buckets + (uint64_t)d->n_buckets * 4;
	if (d->n_buckets && d->bloom_words && (d->bloom_words & (d->bloom_words - 1)) == 0 &&
	    inside(m, d->bloom, (uint64_t)d->bloom_words * w) && inside(m, d->buckets, (uint64_t)d->n_buckets * 4))
		return;
none:
	d->gnu_hash = 0;
}

static void read_hash(struct mod *m)
{
	struct dynamic *d = &m->dyn;
	const struct abi *abi = image_abi(m->mods->img);
	uint64_t n = 0, chains = 0;
	d->hash_width = abi->machine == EM_ALPHA || (abi->machine == EM_S390 && abi->width == 8) ? 8 : 4;
	const uint8_t w = d->hash_width;
	if (!d->hash || image_read_uint(m->mods->img, d->hash, w, &n) < 0 ||
	    image_read_uint(m->mods->img, d->hash + w, w, &chains) < 0 || !n || n > UINT32_MAX || chains > UINT32_MAX ||
	    !inside(m, d->hash, (2 + n + chains) * w)) {
		d->hash = 0;
		return;
	}
	d->hash_buckets = (uint32_t)n;
	d->hash_chains = (uint32_t)chains;
}

struct dynamic *dynamic_of(struct mod *m)
{
	struct dynamic *d = &m->dyn;
	const bool untold = image_watch_paused(m->mods->img);
	if (d->state != NOT_TRIED && (untold || !d->untold))
		return d->state == READY ? d : NULL;
	*d = (struct dynamic){ .state = FAILED, .untold = untold };
	const struct abi *abi = image_abi(m->mods->img);
	if (!m->head || !m->pub.bias_known || !m->head->dynamic.memsz)
		return NULL;
	addr_t at = m->pub.bias + m->head->dynamic.vaddr;
	uint64_t strsz = 0, syment = 0;
	for (unsigned i = 0; i < MAX_DYNAMIC && (i + 1) * 2ull * abi->width <= m->head->dynamic.memsz; i++) {
		addr_t tag = 0, value = 0;
		if (!inside(m, at, 2ull * abi->width) || image_read_ptr(m->mods->img, at, &tag) < 0 ||
		    image_read_ptr(m->mods->img, at + abi->width, &value) < 0 || tag == DT_NULL)
			break;
		at += 2ull * abi->width;
		if (tag == DT_SYMTAB)
			d->symtab = table_at(m, value);
		else if (tag == DT_STRTAB)
			d->strtab = table_at(m, value);
		else if (tag == DT_STRSZ)
			strsz = value;
		else if (tag == DT_SYMENT)
			syment = value;
		else if (tag == DT_GNU_HASH)
			d->gnu_hash = table_at(m, value);
		else if (tag == DT_HASH)
			d->hash = table_at(m, value);
	}
	if (!d->symtab || !d->strtab || (syment && syment != elf_symbol_size(abi)))
		return NULL;
	d->strsz = inside(m, d->strtab, strsz) ? strsz : m->pub.end - d->strtab;
	read_gnu_hash(m);
	read_hash(m);
	d->state = READY;
	return d;
}

/* Nothing is read for the answer, since every page of a snapshot costs an unpacking: linkers put the tables into the first load. */
bool dynamic_in_image(struct mod *m)
{
	const struct elf_head *h = m->head;
	if (!h || !m->pub.bias_known || !h->dynamic.memsz || !image_segment_at(m->mods->img, m->pub.bias + h->dynamic.vaddr))
		return false;
	const addr_t first = m->pub.bias + h->load[0].vaddr, last = first + h->load[0].memsz - 1;
	const struct segment *s = image_segment_at(m->mods->img, first);
	for (unsigned i = 0; s && i < 64 && s->start + s->size <= last; i++)
		s = image_segment_at(m->mods->img, s->start + s->size);
	return s && s->start + s->size > last;
}

bool symbol_defined(const struct mod *m, const struct elf_symbol *s, addr_t *ret)
{
	unsigned type = s->info & 0xf;
	if (s->section == SHN_UNDEF || s->section == SHN_ABS || s->section == SHN_COMMON)
		return false;
	if (type != STT_NOTYPE && type != STT_OBJECT && type != STT_FUNC && type != STT_GNU_IFUNC)
		return false;
	addr_t at = m->pub.bias + s->value;
	if (image_abi(m->mods->img)->machine == EM_ARM && type == STT_FUNC)
		at &= ~(addr_t)1; /* Thumb */
	if (at < m->pub.start || at >= m->pub.end)
		return false;
	*ret = at;
	return true;
}

static int dynamic_symbol(struct mod *m, uint64_t index, struct elf_symbol *ret)
{
	uint8_t buf[24];
	const struct abi *abi = image_abi(m->mods->img);
	size_t size = elf_symbol_size(abi);
	uint64_t at;
	if (!mul_fits(index, size, &at) || at > m->pub.end - m->dyn.symtab)
		return ERR_CORRUPT;
	int rc = image_read(m->mods->img, m->dyn.symtab + at, buf, size);
	if (rc < 0)
		return rc;
	struct cursor c = cursor_of(buf, size, abi->big_endian);
	return elf_symbol_parse(&c, abi, ret);
}

/* Is symbol `index` the one?  1 yes, 0 no. */
static int dynamic_is(struct mod *m, uint64_t index, const char *name, size_t len, addr_t *ret, uint64_t *ret_size)
{
	char buf[MAX_NAME];
	struct elf_symbol s;
	if (dynamic_symbol(m, index, &s) < 0 || s.name >= m->dyn.strsz || m->dyn.strsz - s.name <= len)
		return 0;
	if (image_read(m->mods->img, m->dyn.strtab + s.name, buf, len + 1) < 0 || memcmp(buf, name, len + 1) != 0)
		return 0;
	if (!symbol_defined(m, &s, ret))
		return 0;
	*ret_size = s.size;
	return 1;
}

static uint32_t gnu_hash_of(const char *name)
{
	uint32_t h = 5381;
	for (; *name; name++)
		h = h * 33 + (uint8_t)*name;
	return h;
}

static uint32_t sysv_hash_of(const char *name)
{
	uint32_t h = 0;
	for (; *name; name++) {
		h = (h << 4) + (uint8_t)*name;
		uint32_t g = h & 0xf0000000;
		h ^= g >> 24;
		h &= ~g;
	}
	return h;
}

static int by_gnu_hash(struct mod *m, const char *name, uint32_t h, size_t len, addr_t *ret, uint64_t *ret_size)
{
	struct dynamic *d = &m->dyn;
	struct image *img = m->mods->img;
	const uint8_t w = image_abi(img)->width;
	const unsigned bits = w * 8u;
	uint64_t word = 0;
	uint32_t index = 0, link = 0;
	int rc = image_read_uint(img, d->bloom + (uint64_t)((h / bits) & (d->bloom_words - 1)) * w, w, &word);
	if (rc < 0)
		return rc;
	if (!((word >> (h % bits)) & (word >> ((d->bloom_shift < 32 ? h >> d->bloom_shift : 0) % bits)) & 1))
		return ERR_ABSENT;
	rc = read_u32(m, d->buckets + (uint64_t)(h % d->n_buckets) * 4, &index);
	if (rc < 0)
		return rc;
	if (index < d->first)
		return ERR_ABSENT;
	for (unsigned i = 0; i < MAX_CHAIN && m->mods->steps < MAX_STEPS; i++, index++, m->mods->steps++) {
		addr_t at = d->chains + (uint64_t)(index - d->first) * 4;
		if (!inside(m, at, 4))
			return ERR_CORRUPT;
		rc = read_u32(m, at, &link);
		if (rc < 0)
			return rc;
		if ((link | 1) == (h | 1) && dynamic_is(m, index, name, len, ret, ret_size))
			return 0;
		if (link & 1)
			return ERR_ABSENT;
	}
	return ERR_LIMIT;
}

static int by_sysv_hash(struct mod *m, const char *name, size_t len, addr_t *ret, uint64_t *ret_size)
{
	struct dynamic *d = &m->dyn;
	const uint8_t w = d->hash_width;
	uint64_t index = 0;
	int rc = image_read_uint(m->mods->img, d->hash + (2 + (uint64_t)(sysv_hash_of(name) % d->hash_buckets)) * w, w, &index);
	if (rc < 0)
		return rc;
	for (unsigned i = 0; i < MAX_CHAIN && m->mods->steps < MAX_STEPS && index && index < d->hash_chains; i++, m->mods->steps++) {
		if (dynamic_is(m, index, name, len, ret, ret_size))
			return 0;
		rc = image_read_uint(m->mods->img, d->hash + (2 + (uint64_t)d->hash_buckets + index) * w, w, &index);
		if (rc < 0)
			return rc;
	}
	return ERR_ABSENT;
}

static int by_dynamic(struct mod *m, const char *name, uint32_t h, size_t len, addr_t *ret, uint64_t *ret_size)
{
	struct dynamic *d = dynamic_of(m);
	if (!d)
		return ERR_ABSENT;
	int rc = ERR_ABSENT;
	if (d->gnu_hash)
		rc = by_gnu_hash(m, name, h, len, ret, ret_size);
	if (rc < 0 && d->hash)
		rc = by_sysv_hash(m, name, len, ret, ret_size);
	return rc;
}

/* Only the hash tables know. */
uint64_t dynamic_count(struct mod *m)
{
	struct dynamic *d = &m->dyn;
	if (d->hash)
		return d->hash_chains;
	if (!d->gnu_hash)
		return 0;
	uint32_t last = 0, buf[256];
	const bool big = image_abi(m->mods->img)->big_endian;
	for (uint32_t i = 0; i < d->n_buckets && i < MAX_SYMBOLS;) {
		uint32_t n = d->n_buckets - i < 256 ? d->n_buckets - i : 256;
		if (image_read(m->mods->img, d->buckets + (uint64_t)i * 4, buf, (size_t)n * 4) < 0)
			return 0;
		struct cursor c = cursor_of(buf, (size_t)n * 4, big);
		for (uint32_t k = 0, v; k < n && cursor_u32(&c, &v) == 0; k++)
			last = v > last ? v : last;
		i += n;
	}
	if (last < d->first)
		return d->first;
	for (unsigned i = 0; i < MAX_CHAIN; i++, last++) {
		uint32_t link = 0;
		addr_t at = d->chains + (uint64_t)(last - d->first) * 4;
		if (!inside(m, at, 4) || read_u32(m, at, &link) < 0)
			return 0;
		if (link & 1)
			return (uint64_t)last + 1;
	}
	return 0;
}

/* ---- the file's own tables */

int symbol_table_of(const struct elf_source *src, const struct elf_head *h, struct elf_section *table, struct elf_section *names)
{
	struct elf_section s[ELF_SECTIONS];
	table->type = SHT_NULL;
	for (int first = 0, n; table->type != SHT_SYMTAB && (n = elf_sections(src, h, (unsigned)first, s, ELF_SECTIONS)) > 0; first += n)
		for (int i = 0; i < n && table->type != SHT_SYMTAB; i++)
			if ((s[i].type == SHT_SYMTAB || s[i].type == SHT_DYNSYM) && s[i].size && s[i].entsize == elf_symbol_size(&h->abi))
				*table = s[i];
	if (table->type == SHT_NULL)
		return ERR_ABSENT;
	return elf_section_at(src, h, table->link, names);
}

static int table_in(struct disk_file *f, struct elf_section *table, struct elf_section *names)
{
	table->type = SHT_NULL;
	if (!f)
		return ERR_ABSENT;
	struct elf_source src = disk_file_source(f);
	return symbol_table_of(&src, f->head, table, names);
}

int symbol_table(struct mod *m, struct elf_section *table, struct elf_section *names, struct disk_file **in)
{
	int rc = table_in(*in = m->file, table, names);
	struct disk_file *const others[] = { m->debug, m->inside };
	for (size_t i = 0; i < 2 && (rc < 0 || table->type != SHT_SYMTAB); i++) {
		struct elf_section other, its_names;
		if (table_in(others[i], &other, &its_names) < 0 || other.type != SHT_SYMTAB)
			continue;
		*table = other;
		*names = its_names;
		*in = others[i];
		rc = 0;
	}
	return rc;
}

int symbol_each(const struct elf_source *src, const struct abi *abi, uint64_t at, uint64_t count,
		       int (*each)(void *arg, const struct elf_symbol *s), void *arg)
{
	const size_t size = elf_symbol_size(abi);
	CLEANUP(cleanup_free) uint8_t *buf = xmalloc(CHUNK_SYMBOLS * size);
	for (uint64_t done = 0; done < count;) {
		size_t n = count - done < CHUNK_SYMBOLS ? (size_t)(count - done) : CHUNK_SYMBOLS;
		int rc = src->read(src->ctx, at + done * size, buf, n * size);
		if (rc < 0)
			return rc;
		struct cursor c = cursor_of(buf, n * size, abi->big_endian);
		for (size_t i = 0; i < n; i++) {
			struct elf_symbol s;
			rc = elf_symbol_parse(&c, abi, &s);
			if (rc < 0)
				return rc;
			rc = each(arg, &s);
			if (rc)
				return rc;
		}
		done += n;
	}
	return 0;
}

struct by_name {
	struct mod *m;
	struct disk_file *in;
	struct spelling { uint32_t offset; /* in the string table */ bool renamed; } spelling[MAX_SPELLINGS];
	size_t n_spelling;
	bool found, several;   /* renamed ones: the first, another besides */
	addr_t at;
	uint64_t size;
};

/*
 * Where the name ends a string of the table: the linker lets "foo" be the end of "barfoo".  So the table is read once,
 * and then the symbols, instead of a string for each symbol.  Also where the compiler renamed what is static, since objects of several
 * files have come together ("collecting.lto_priv.0" of Debian's 2.7).
 */
static int find_spellings(struct by_name *want, const struct elf_section *names, const char *name, size_t len)
{
	CLEANUP(cleanup_free) uint8_t *buf = xmalloc(CHUNK_NAMES);
	const uint64_t size = names->size < UINT32_MAX ? names->size : UINT32_MAX;
	for (uint64_t at = 0; at + len < size;) {
		size_t n = size - at < CHUNK_NAMES ? (size_t)(size - at) : CHUNK_NAMES;
		int rc = disk_file_read(want->in, names->offset + at, buf, n);
		if (rc < 0)
			return rc;
		const bool last = at + n == size;
		const size_t looked = last ? n : n - 2 * MAX_NAME; /* what begins behind it is looked at with what follows */
		for (const uint8_t *p = buf, *end = buf + n; (p = memmem(p, (size_t)(end - p), name, len)) && p < buf + looked && p + len < end; p++) {
			const char *rest = (const char *)p + len;
			const size_t left = (size_t)(end - p) - len, more = strnlen(rest, left < MAX_NAME ? left : MAX_NAME);
			const bool renamed = more && more < left && more < MAX_NAME && str_is_renaming((struct str){ rest, more });
			if (more && !renamed)
				continue;
			if (want->n_spelling == MAX_SPELLINGS)
				return 0;
			want->spelling[want->n_spelling++] = (struct spelling){ (uint32_t)(at + (uint64_t)(p - buf)), renamed };
		}
		at += looked;
	}
	return 0;
}

static int match_name(void *arg, const struct elf_symbol *s)
{
	struct by_name *want = arg;
	addr_t at;
	for (size_t i = 0; i < want->n_spelling; i++) {
		if (s->name != want->spelling[i].offset || !symbol_defined(want->m, s, &at))
			continue;
		const bool first = !want->spelling[i].renamed || !want->found;
		want->several |= !first && at != want->at;
		if (first) {
			want->at = at;
			want->size = s->size;
		}
		want->found = true;
		if (!want->spelling[i].renamed)
			return 1;
	}
	return 0;
}

static int by_table(struct mod *m, const char *name, size_t len, addr_t *ret, uint64_t *ret_size)
{
	struct by_name want = { .m = m };
	struct elf_section table, names;
	uint64_t end;
	/* The file's .dynsym has nothing that the image's own table has not, unless that cannot be read. */
	if (!m->pub.bias_known || (m->pub.symbols != SYMBOLS_FULL && dynamic_of(m)) || symbol_table(m, &table, &names, &want.in) < 0)
		return ERR_ABSENT;
	struct elf_source src = disk_file_source(want.in);
	uint64_t count = table.size / table.entsize;
	if (!add_fits(table.offset, table.size, &end) || !add_fits(names.offset, names.size, &end))
		return ERR_CORRUPT;
	if (count > MAX_SYMBOLS)
		count = MAX_SYMBOLS;
	int rc = find_spellings(&want, &names, name, len);
	if (rc == 0 && want.n_spelling)
		rc = symbol_each(&src, &want.in->head->abi, table.offset, count, match_name, &want);
	if (rc < 0 || (rc == 0 && (!want.found || want.several)))
		return rc ? rc : ERR_ABSENT;
	*ret = want.at;
	*ret_size = want.size;
	return 0;
}

int modules_symbol_next(struct modules *mods, const char *name, size_t *from, addr_t *ret, uint64_t *ret_size, const char **how)
{
	const size_t len = strlen(name), first = 2 * mods->n_first, end = 2 * mods->n;
	const uint32_t h = gnu_hash_of(name);
	addr_t at = 0;
	uint64_t size = 0;
	if (!len || len >= MAX_NAME)
		return ERR_ABSENT;
	mods->steps = 0;
	/* The two likely ones in both ways before all others: places 0 to first in two halves, then the rest in two. */
	while (*from < end) {
		const size_t place = (*from)++, part = place < first ? place : place - first;
		const size_t half = place < first ? mods->n_first : mods->n - mods->n_first;
		const bool file = part >= half;
		struct mod *m = &mods->mod[mods->order[(place < first ? 0 : mods->n_first) + (file ? part - half : part)]];
		int rc = file ? by_table(m, name, len, &at, &size) : by_dynamic(m, name, h, len, &at, &size);
		if (rc < 0)
			continue;
		*ret = at;
		if (ret_size)
			*ret_size = size;
		if (how)
			*how = file ? "symbol" : "dynamic";
		return 0;
	}
	return ERR_ABSENT;
}

int modules_symbol(struct modules *mods, const char *name, addr_t *ret, uint64_t *ret_size, const char **how)
{
	size_t from = 0;
	return modules_symbol_next(mods, name, &from, ret, ret_size, how);
}

int modules_symbol_of(struct modules *mods, const struct module *of, const char *name, addr_t *ret)
{
	const size_t len = strlen(name);
	struct mod *m = &mods->mod[of - mods->pub];
	uint64_t size = 0;
	if (!len || len >= MAX_NAME)
		return ERR_ABSENT;
	mods->steps = 0;
	int rc = by_dynamic(m, name, gnu_hash_of(name), len, ret, &size);
	return rc < 0 ? by_table(m, name, len, ret, &size) : rc;
}

static int section_in(struct mod *m, const char *name, addr_t *ret, uint64_t *ret_size)
{
	struct elf_section names, s[ELF_SECTIONS];
	char buf[MAX_NAME];
	const size_t len = strlen(name);
	if (!m->file || !m->pub.bias_known || len >= sizeof buf)
		return ERR_ABSENT;
	struct elf_source src = disk_file_source(m->file);
	if (elf_section_at(&src, m->file->head, m->file->head->shstrndx, &names) < 0)
		return ERR_ABSENT;
	for (int first = 0, n; (n = elf_sections(&src, m->file->head, (unsigned)first, s, ELF_SECTIONS)) > 0; first += n) {
		for (int i = 0; i < n; i++) {
			uint64_t at;
			if (!(s[i].flags & SHF_ALLOC) || s[i].name >= names.size || names.size - s[i].name <= len ||
			    !add_fits(names.offset, s[i].name, &at) || disk_file_read(m->file, at, buf, len + 1) < 0 ||
			    memcmp(buf, name, len + 1) != 0)
				continue;
			if (!inside(m, m->pub.bias + s[i].addr, s[i].size))
				return ERR_CORRUPT;
			*ret = m->pub.bias + s[i].addr;
			*ret_size = s[i].size;
			return 0;
		}
	}
	return ERR_ABSENT;
}

int modules_section_next(struct modules *mods, const char *name, size_t *from, addr_t *ret, uint64_t *ret_size)
{
	while (*from < mods->n)
		if (section_in(&mods->mod[mods->order[(*from)++]], name, ret, ret_size) == 0)
			return 0;
	return ERR_ABSENT;
}

int modules_section(struct modules *mods, const char *name, addr_t *ret, uint64_t *ret_size)
{
	size_t from = 0;
	return modules_section_next(mods, name, &from, ret, ret_size);
}
