/* See build_so.h. */
#include "build_so.h"

#include <elf.h>
#include <stdlib.h>
#include <string.h>

struct out {
	uint8_t *file;
	const struct abi *abi;
	size_t at;
};

static void put(struct out *o, size_t width, uint64_t v)
{
	for (size_t i = 0; i < width; i++)
		o->file[o->at + (o->abi->big_endian ? width - 1 - i : i)] = (uint8_t)(v >> 8 * i);
	o->at += width;
}

static void word(struct out *o, uint64_t v)
{
	put(o, o->abi->width, v);
}

static void phdr(struct out *o, uint32_t type, uint32_t flags, uint64_t off, uint64_t vaddr, uint64_t filesz, uint64_t memsz)
{
	put(o, 4, type);
	if (o->abi->width == 8)
		put(o, 4, flags);
	word(o, off);
	word(o, vaddr);
	word(o, vaddr);
	word(o, filesz);
	word(o, memsz);
	if (o->abi->width == 4)
		put(o, 4, flags);
	word(o, 0x1000);
}

static void section(struct out *o, uint32_t name, uint32_t type, uint64_t flags, uint64_t addr, uint64_t off, uint64_t size, uint32_t link, uint64_t entsize)
{
	put(o, 4, name);
	put(o, 4, type);
	word(o, flags);
	word(o, addr);
	word(o, off);
	word(o, size);
	put(o, 4, link);
	put(o, 4, 0);
	word(o, 8);
	word(o, entsize);
}

static void symbol(struct out *o, uint32_t name, const struct so_symbol *s, addr_t base)
{
	uint8_t info = s ? (uint8_t)(STB_GLOBAL << 4 | (s->function ? STT_FUNC : STT_OBJECT)) : 0;
	uint64_t value = s ? base + s->value : 0, size = s ? s->size : 0;
	put(o, 4, name);
	if (o->abi->width == 4) {
		put(o, 4, value);
		put(o, 4, size);
	}
	put(o, 1, info);
	put(o, 1, 0);
	put(o, 2, !s ? 0 : !strcmp(s->name, SO_NAME_INIT) ? 2 : !strcmp(s->name, SO_NAME_STUB) ? 3 : 1);
	if (o->abi->width == 8) {
		put(o, 8, value);
		put(o, 8, size);
	}
}

static uint32_t gnu_hash(const char *s)
{
	uint32_t h = 5381;
	while (*s)
		h = (h << 5) + h + (uint8_t)*s++;
	return h;
}

static uint32_t sysv_hash(const char *s)
{
	uint32_t h = 0, g;
	while (*s) {
		h = (h << 4) + (uint8_t)*s++;
		if ((g = h & 0xf0000000) != 0)
			h ^= g >> 24;
		h &= ~g;
	}
	return h;
}

enum { BUCKETS = 3 };

/* Exported symbols in the order of their bucket, as the GNU table wants them. */
static size_t exported(const struct build_so *what, const struct so_symbol **ret)
{
	size_t n = 0;
	for (uint32_t b = 0; b < BUCKETS; b++)
		for (size_t i = 0; i < what->n_symbols; i++)
			if (what->symbols[i].exported && gnu_hash(what->symbols[i].name) % BUCKETS == b)
				ret[n++] = &what->symbols[i];
	return n;
}

static void dynamic_tables(struct out *o, const struct build_so *what, size_t *n_dyn, uint32_t *strsz)
{
	const struct so_symbol *dyn[64];
	size_t n = exported(what, dyn);
	const unsigned w = what->abi.width, bits = w * 8;
	o->at = SO_DYNSYM;
	symbol(o, 0, NULL, 0);
	uint32_t name = 1;
	for (size_t i = 0; i < n; i++) {
		symbol(o, name, dyn[i], what->base);
		strcpy((char *)o->file + SO_DYNSTR + name, dyn[i]->name);
		name += (uint32_t)strlen(dyn[i]->name) + 1;
	}
	*strsz = name;
	*n_dyn = n + 1;
	if (!what->no_gnu_hash) {
		uint64_t bloom[2] = { 0, 0 };
		uint32_t first[BUCKETS] = { 0 };
		for (size_t i = 0; i < n; i++) {
			uint32_t h = gnu_hash(dyn[i]->name);
			bloom[h / bits & 1] |= 1ull << h % bits | 1ull << (h >> 6) % bits;
			if (!first[h % BUCKETS])
				first[h % BUCKETS] = (uint32_t)i + 1;
		}
		o->at = SO_GNU_HASH;
		put(o, 4, BUCKETS);
		put(o, 4, 1);
		put(o, 4, 2);
		put(o, 4, 6);
		word(o, bloom[0]);
		word(o, bloom[1]);
		for (size_t i = 0; i < BUCKETS; i++)
			put(o, 4, first[i]);
		for (size_t i = 0; i < n; i++) {
			uint32_t h = gnu_hash(dyn[i]->name);
			bool last = i + 1 == n || gnu_hash(dyn[i + 1]->name) % BUCKETS != h % BUCKETS;
			put(o, 4, (h & ~1u) | last);
		}
	}
	if (!what->no_sysv_hash) {
		const size_t hw = what->abi.machine == EM_S390 && w == 8 ? 8 : 4;
		uint32_t bucket[BUCKETS] = { 0 }, chain[65] = { 0 };
		for (size_t i = 0; i < n; i++) {
			uint32_t *b = &bucket[sysv_hash(dyn[i]->name) % BUCKETS];
			chain[i + 1] = *b;
			*b = (uint32_t)i + 1;
		}
		o->at = SO_HASH;
		put(o, hw, BUCKETS);
		put(o, hw, n + 1);
		for (size_t i = 0; i < BUCKETS; i++)
			put(o, hw, bucket[i]);
		for (size_t i = 0; i <= n; i++)
			put(o, hw, chain[i]);
	}
}

/* with_bias: what the linker adds to addresses in memory. */
static void dynamic_section(struct out *o, const struct build_so *what, uint32_t strsz, addr_t with_bias)
{
	const uint64_t tables[][2] = {
		{ DT_STRTAB, what->base + SO_DYNSTR + with_bias }, { DT_SYMTAB, what->base + SO_DYNSYM + with_bias },
		{ DT_STRSZ, strsz }, { DT_SYMENT, what->abi.width == 8 ? 24 : 16 },
	};
	for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
		word(o, tables[i][0]);
		word(o, tables[i][1]);
	}
	if (!what->no_gnu_hash) {
		word(o, DT_GNU_HASH);
		word(o, what->base + SO_GNU_HASH + with_bias);
	}
	if (!what->no_sysv_hash) {
		word(o, DT_HASH);
		word(o, what->base + SO_HASH + with_bias);
	}
	word(o, DT_DEBUG);
	word(o, 0);
	word(o, DT_NULL);
	word(o, 0);
}

uint8_t *build_so(const struct build_so *what)
{
	struct out out = { xcalloc(1, SO_FILE), &what->abi, 0 }, *o = &out;
	const unsigned w = what->abi.width, phentsize = w == 8 ? 56 : 32, shentsize = w == 8 ? 64 : 40;
	size_t id = what->build_id ? strlen(what->build_id) : 0, n_dyn;
	uint32_t strsz;
	memcpy(o->file, ELFMAG, 4);
	o->file[EI_CLASS] = w == 8 ? ELFCLASS64 : ELFCLASS32;
	o->file[EI_DATA] = what->abi.big_endian ? ELFDATA2MSB : ELFDATA2LSB;
	o->file[EI_VERSION] = 1;
	o->at = 16;
	put(o, 2, what->base ? ET_EXEC : ET_DYN);
	put(o, 2, what->abi.machine);
	put(o, 4, 1);
	word(o, what->base + SO_TEXT);
	word(o, w == 8 ? 64 : 52);
	word(o, 0x5000);
	put(o, 4, 0);
	put(o, 2, w == 8 ? 64 : 52);
	put(o, 2, phentsize);
	put(o, 2, 6);
	put(o, 2, shentsize);
	put(o, 2, (what->stripped ? 5u : 7u) + (id != 0) + (what->debuglink != NULL) + (what->debugdata.len != 0));
	put(o, 2, 4);
	const addr_t b = what->base;
	phdr(o, PT_PHDR, PF_R, w == 8 ? 64 : 52, b + (w == 8 ? 64 : 52), 6 * phentsize, 6 * phentsize);
	phdr(o, PT_LOAD, PF_R, 0, b, 0x2000, 0x2000);
	phdr(o, PT_LOAD, PF_R | PF_X, SO_TEXT, b + SO_TEXT, 0x1000, 0x1000);
	phdr(o, PT_LOAD, PF_R | PF_W, SO_DATA_FILE, b + SO_DATA, 0x1000, 0x2000);
	phdr(o, PT_DYNAMIC, PF_R | PF_W, SO_DATA_FILE + (SO_DYNAMIC - SO_DATA), b + SO_DYNAMIC, 0x200, 0x200);
	phdr(o, PT_NOTE, PF_R, 0x300, b + 0x300, id ? 16 + (id + 3) / 4 * 4 : 0, id ? 16 + (id + 3) / 4 * 4 : 0);
	if (id) {
		o->at = 0x300;
		put(o, 4, 4);
		put(o, 4, id);
		put(o, 4, NT_GNU_BUILD_ID);
		memcpy(o->file + o->at, "GNU", 4);
		memcpy(o->file + o->at + 4, what->build_id, id);
	}
	dynamic_tables(o, what, &n_dyn, &strsz);
	memset(o->file + SO_TEXT, 0xc3, 0x1000);
	memset(o->file + SO_DATA_FILE, 0xdd, 0x1000);
	memset(o->file + SO_DATA_FILE, 0, 0x200);
	o->at = SO_DATA_FILE;
	dynamic_section(o, what, strsz, 0);

	static const char names[] = "\0.dynsym\0.dynstr\0.PyRuntime\0.shstrtab\0.symtab\0.strtab\0.note.gnu.build-id\0.gnu_debuglink\0.gnu_debugdata";
	memcpy(o->file + 0x5800, names, sizeof names);
	o->at = 0x4000;
	symbol(o, 0, NULL, 0);
	uint32_t name = 1;
	for (size_t i = 0; i < what->n_symbols; i++) {
		symbol(o, name, &what->symbols[i], b);
		strcpy((char *)o->file + 0x4800 + name, what->symbols[i].name);
		name += (uint32_t)strlen(what->symbols[i].name) + 1;
	}
	const size_t syment = w == 8 ? 24 : 16;
	o->at = 0x5000;
	section(o, 0, 0, 0, 0, 0, 0, 0, 0);
	section(o, 1, SHT_DYNSYM, SHF_ALLOC, b + SO_DYNSYM, SO_DYNSYM, n_dyn * syment, 2, syment);
	section(o, 9, SHT_STRTAB, SHF_ALLOC, b + SO_DYNSTR, SO_DYNSTR, strsz, 0, 0);
	section(o, 17, SHT_PROGBITS, SHF_ALLOC | SHF_WRITE, b + SO_RUNTIME, SO_DATA_FILE + SO_RUNTIME - SO_DATA, 0x100, 0, 0);
	section(o, 28, SHT_STRTAB, 0, 0, 0x5800, sizeof names, 0, 0);
	if (!what->stripped) {
		section(o, 38, SHT_SYMTAB, 0, 0, 0x4000, (what->n_symbols + 1) * syment, 6, syment);
		section(o, 46, SHT_STRTAB, 0, 0, 0x4800, name, 0, 0);
	}
	if (id)
		section(o, 54, SHT_NOTE, SHF_ALLOC, b + 0x300, 0x300, 16 + (id + 3) / 4 * 4, 0, 0);
	if (what->debugdata.len) {
		section(o, 88, SHT_PROGBITS, 0, 0, 0x4000, what->debugdata.len, 0, 0);
		memcpy(o->file + 0x4000, what->debugdata.p, what->debugdata.len);
	}
	if (what->debuglink) {
		size_t len = strlen(what->debuglink) + 1, padded = (len + 3) / 4 * 4;
		section(o, 73, SHT_PROGBITS, 0, 0, 0x5900, padded + 4, 0, 0);
		memcpy(o->file + 0x5900, what->debuglink, len);
		o->at = 0x5900 + padded;
		put(o, 4, what->debugcrc);
	}
	return o->file;
}

void build_so_map(struct build_elf *core, const struct build_so *what, const uint8_t *file, addr_t bias, const char *path, unsigned how)
{
	const addr_t at = bias + what->base;
	if (how & SO_HEADERS)
		build_elf_load(core, at, file, 0x1000, 1);
	else
		build_elf_absent(core, at, 0x1000, 1);
	if (how & SO_READ_ONLY) {
		build_elf_load(core, at + 0x1000, file + 0x1000, 0x1000, 1);
		build_elf_load(core, at + SO_TEXT, file + SO_TEXT, 0x1000, 5);
	} else {
		build_elf_absent(core, at + 0x1000, 0x1000, 1);
		build_elf_absent(core, at + SO_TEXT, 0x1000, 5);
	}
	if (how & SO_WRITABLE) {
		uint8_t *data = build_elf_memory(core, at + SO_DATA, 0x2000, 3);
		memcpy(data, file + SO_DATA_FILE, 0x1000);
		if (how & SO_RELOCATED) {
			uint32_t strsz = 0;
			for (size_t i = 0; i < 4; i++)
				strsz |= (uint32_t)data[5 * what->abi.width + (what->abi.big_endian ? what->abi.width - 1 - i : i)] << 8 * i;
			struct out o = { data, &what->abi, 0 };
			dynamic_section(&o, what, strsz, bias);
		}
		data[0xfff] = data[0x1fff] = 0xee;
	} else {
		build_elf_absent(core, at + SO_DATA, 0x1000, 3);
	}
	if (how & SO_FILE_NOTE) {
		build_elf_file(core, at, at + 0x2000, 0, path);
		build_elf_file(core, at + SO_TEXT, at + 0x3000, SO_TEXT, path);
		build_elf_file(core, at + SO_DATA, at + 0x5000, SO_DATA_FILE, path);
	}
}

struct build_elf *build_so_core(const char *abi)
{
	struct build_elf *b = build_elf_new(abi);
	build_elf_thread(b, 100, 0x10000, 0x70000100);
	build_elf_memory(b, 0x70000000, 0x1000, 3);
	return b;
}
