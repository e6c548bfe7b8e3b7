/*
 * Names and addresses.  Looked up by name: through the hash table of the image's own dynamic symbols, as the dynamic
 * linker does (a few reads a module), then through the file's .symtab.  Looked up by address: in a table of functions,
 * built for a module when first asked.  Every count and address in these tables is the input's word: a table lies inside
 * its module, chains and counts are capped.
 */
#include "module/modules.h"

#include <elf.h>
#include <stdlib.h>
#include <string.h>

enum {
	MAX_DYNAMIC = 512,       /* entries of PT_DYNAMIC looked at */
	MAX_CHAIN = 1 << 12,     /* symbols in one hash bucket */
	MAX_STEPS = 1 << 18,     /* symbols compared in one look-up, all modules together */
	MAX_SYMBOLS = 1 << 20,   /* of a module */
	MAX_NAMED = 8 << 20,     /* of all modules, for modules_name */
	MAX_NAME = 1024,
	CHUNK_SYMBOLS = 1024,    /* read at once: at most 24 KiB */
	CHUNK_NAMES = 64 << 10,
	MAX_SPELLINGS = 64,      /* places of one name in a string table; a linker makes one */
	MAX_SIZELESS = 4096,     /* of a function without a size, where those between it and its neighbour may be nameless */
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

static struct dynamic *dynamic_of(struct mod *m)
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

/* A definition that has an address, and which is it? */
static bool defined(const struct mod *m, const struct elf_symbol *s, addr_t *ret)
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
	if (!defined(m, &s, ret))
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

/* ---- the file's own tables */

/* A file's symbol table (.symtab, else .dynsym; those of debug files are empty shells) and the strings that belong to it. */
static int table_of(const struct elf_source *src, const struct elf_head *h, struct elf_section *table, struct elf_section *names)
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
	return table_of(&src, f->head, table, names);
}

/* The best one there is, and the file it is in. */
static int symbol_table(struct mod *m, struct elf_section *table, struct elf_section *names, struct disk_file **in)
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

/*
 * Call each on every symbol of the table until it returns non-zero, which is returned.  read is of the file or, for
 * dynamic symbols, of the image.
 */
static int each_symbol(const struct elf_source *src, const struct abi *abi, uint64_t at, uint64_t count,
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
		if (s->name != want->spelling[i].offset || !defined(want->m, s, &at))
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
		rc = each_symbol(&src, &want.in->head->abi, table.offset, count, match_name, &want);
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

/* ---- names by address */

static int add_row(void *arg, const struct elf_symbol *s)
{
	struct mod *m = arg;
	unsigned type = s->info & 0xf;
	addr_t at;
	struct name_table *t = &m->names;
	if ((type != STT_FUNC && type != STT_GNU_IFUNC) || !s->name || s->name >= t->from[t->adding].names_size || !defined(m, s, &at))
		return 0;
	*vec_push(&t->row) = (struct name_row){ at - m->pub.bias, s->size < UINT32_MAX ? (uint32_t)s->size : UINT32_MAX, s->name, s->section, t->adding };
	return m->names.row.n >= MAX_SYMBOLS ? 1 : 0;
}

static int by_value(const void *a, const void *b)
{
	const struct name_row *x = a, *y = b;
	if (x->value != y->value)
		return x->value < y->value ? -1 : 1;
	return x->size < y->size ? -1 : x->size > y->size;
}

static int read_image(void *ctx, uint64_t off, void *buf, size_t len)
{
	return image_read(ctx, off, buf, len);
}

/* How many dynamic symbols there are: only the hash tables know. */
static uint64_t count_dynamic(struct mod *m)
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

/* How many of count symbols may be read, so that all modules together stay bounded. */
static uint64_t take_named(struct mod *m, uint64_t count)
{
	if (count > MAX_SYMBOLS)
		count = MAX_SYMBOLS;
	if (count > MAX_NAMED - m->mods->named)
		count = MAX_NAMED - m->mods->named;
	m->mods->named += count;
	return count;
}

/*
 * Functions without a size (assembly) reach to their neighbour, but not out of their section: _init is followed by the
 * stubs of the PLT, which have no symbols.  Where no section table tells the end (in the image), the neighbour must be of
 * the same section; else only the first byte is sure.  complete: the table is a .symtab, which has every function.
 */
static void size_sizeless(struct name_table *t, bool complete)
{
	struct elf_section sections[2][ELF_SECTIONS];
	int n_sections[2] = { 0 };
	if (t->in)
		n_sections[NAMES_TABLE] = elf_sections(&t->from[NAMES_TABLE].src, t->in->head, 0, sections[NAMES_TABLE], ELF_SECTIONS);
	if (t->mini.n)
		n_sections[NAMES_MINI] = elf_sections(&t->from[NAMES_MINI].src, &t->mini.head, 0, sections[NAMES_MINI], ELF_SECTIONS);
	struct name_row *row = t->row.p;
	const uint64_t most = complete ? UINT32_MAX : MAX_SIZELESS;
	for (size_t i = t->row.n, next = i; i-- > 0;) {
		/* next: the first one further up; before it the largest of those at the same address, since sizes are sorted. */
		if (i + 1 < t->row.n && row[i + 1].value != row[i].value)
			next = i + 1;
		if (row[i].size)
			continue;
		if (row[next - 1].size) {
			row[i].size = row[next - 1].size;
			continue;
		}
		const struct elf_section *s = sections[row[i].from];
		const int k = row[i].section;
		uint64_t room = 1;
		if (k < n_sections[row[i].from] && row[i].value >= s[k].addr && row[i].value - s[k].addr < s[k].size)
			room = s[k].size - (row[i].value - s[k].addr);
		else if (next < t->row.n && row[next].section == k && row[next].from == row[i].from)
			room = most;
		if (next < t->row.n && row[next].value - row[i].value < room)
			room = row[next].value - row[i].value;
		row[i].size = (uint32_t)(room < most ? room : most);
	}
}

static void add_table(struct mod *m, uint8_t from, const struct elf_source *src, const struct abi *abi, const struct elf_section *table,
		      const struct elf_section *names)
{
	struct name_table *t = &m->names;
	uint64_t end;
	t->adding = from;
	t->from[from] = (struct name_source){ *src, names->offset, names->size };
	if (!add_fits(table->offset, table->size, &end) || !add_fits(names->offset, names->size, &end))
		return;
	(void)!each_symbol(src, abi, table->offset, take_named(m, table->size / table->entsize), add_row, m);
}

static void add_dynamic(struct mod *m)
{
	struct name_table *t = &m->names;
	struct elf_source src = { read_image, m->mods->img };
	const struct abi *abi = image_abi(m->mods->img);
	uint64_t count = count_dynamic(m), fit = (m->pub.end - m->dyn.symtab) / elf_symbol_size(abi);
	t->adding = NAMES_TABLE;
	t->from[NAMES_TABLE] = (struct name_source){ src, m->dyn.strtab, m->dyn.strsz };
	(void)!each_symbol(&src, abi, m->dyn.symtab, take_named(m, count < fit ? count : fit), add_row, m);
}

static void add_mini(struct mod *m)
{
	struct name_table *t = &m->names;
	struct elf_section table, names;
	struct elf_source packed = disk_file_source(m->mini_in);
	m->mini_rc = mini_read(&packed, m->mini_at, m->mini_size, MINI_ALL_MAX - m->mods->mini, &t->mini);
	if (m->mini_rc < 0)
		return;
	struct elf_source src = mini_source(&t->mini);
	if (!mod_same_machine(m, &t->mini.head) || table_of(&src, &t->mini.head, &table, &names) < 0) {
		m->mini_rc = ERR_CORRUPT;
		mini_free(&t->mini);
		return;
	}
	m->mods->mini += t->mini.n;
	add_table(m, NAMES_MINI, &src, &t->mini.head.abi, &table, &names);
}

static void build_names(struct mod *m)
{
	struct name_table *t = &m->names;
	struct elf_section table, names;
	bool complete = false; /* is every function in it? */
	t->state = FAILED;
	if (!m->pub.bias_known)
		return;
	if (symbol_table(m, &table, &names, &t->in) == 0) {
		struct elf_source src = disk_file_source(t->in);
		add_table(m, NAMES_TABLE, &src, &t->in->head->abi, &table, &names);
		complete = table.type == SHT_SYMTAB;
	} else {
		t->in = NULL;
		if (dynamic_of(m))
			add_dynamic(m);
	}
	if (!complete && m->mini_in)
		add_mini(m);
	if (!t->row.n)
		return;
	qsort(t->row.p, t->row.n, sizeof *t->row.p, by_value);
	t->row.p = xrealloc(t->row.p, t->row.n * sizeof *t->row.p);
	t->row.room = t->row.n;
	size_sizeless(t, complete);
	t->state = READY;
}

static int row_name(struct mod *m, const struct name_row *row, struct str *ret)
{
	char buf[MAX_NAME + 1];
	const struct name_source *from = &m->names.from[row->from];
	uint64_t room = from->names_size - row->name, at;
	size_t want = room < MAX_NAME ? (size_t)room : MAX_NAME, got = 0;
	if (!add_fits(from->names, row->name, &at))
		return ERR_CORRUPT;
	/* In steps, since the end of the table may not be there although the name is. */
	while (got < want) {
		size_t n = want - got < 64 ? want - got : 64;
		int rc = from->src.read(from->src.ctx, at + got, buf + got, n);
		if (rc < 0)
			return rc;
		char *nul = memchr(buf + got, 0, n);
		if (nul) {
			/* .symtab has versions at the ends of exported names: __libc_start_main@GLIBC_2.2.5. */
			char *version = memchr(buf, '@', (size_t)(nul - buf));
			*ret = str_from_bytes(m->mods->arena, buf, (size_t)((version && version > buf ? version : nul) - buf));
			return ret->len ? 0 : ERR_ABSENT;
		}
		got += n;
	}
	return ERR_LIMIT;
}

static size_t underscores(struct str name)
{
	size_t n = 0;
	while (n < name.len && name.s[n] == '_')
		n++;
	return n;
}

int modules_name(struct modules *mods, addr_t pc, struct str *ret, uint64_t *ret_offset)
{
	const struct module *pub = modules_at(mods, pc);
	if (!pub)
		return ERR_ABSENT;
	struct mod *m = &mods->mod[pub - mods->pub];
	if (m->names.state == NOT_TRIED)
		build_names(m);
	if (m->names.state != READY)
		return ERR_ABSENT;
	const uint64_t v = pc - m->pub.bias;
	const struct name_row *row = m->names.row.p;
	size_t lo = 0, hi = m->names.row.n;
	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;
		if (row[mid].value <= v)
			lo = mid + 1;
		else
			hi = mid;
	}
	/*
	 * The nearest below that is big enough.  Of several names for one function the plainest: malloc rather than
	 * __libc_malloc.
	 */
	struct str best = { 0 };
	uint64_t off = 0;
	size_t below = lo;
	for (size_t i = lo; i-- > 0 && below - i <= 16;) {
		if (best.s && row[i].value != v - off)
			break;
		if (v - row[i].value >= row[i].size)
			continue;
		struct str name;
		if (row_name(m, &row[i], &name) < 0 || (best.s && underscores(name) >= underscores(best)))
			continue;
		best = name;
		off = v - row[i].value;
	}
	if (!best.s)
		return ERR_ABSENT;
	*ret = best;
	*ret_offset = off;
	return 0;
}

void symbol_free(struct mod *m)
{
	vec_free(&m->names.row);
	m->mods->mini -= m->names.mini.n;
	mini_free(&m->names.mini);
	m->names = (struct name_table){ 0 };
}
