/* ELF headers and tables, taken apart through one read callback: from a file, or from a module in an image. */
#ifndef MODULE_ELF_HEAD_H
#define MODULE_ELF_HEAD_H

#include "image/abi.h"

/* All len bytes at off, or ERR_*.  off is an offset in the file, also when the file is a module in memory. */
struct elf_source {
	int (*read)(void *ctx, uint64_t off, void *buf, size_t len);
	void *ctx;
};

enum { ELF_MAX_LOADS = 32, ELF_MAX_PHDRS = 512, ELF_MAX_NOTES = 4, ELF_BUILD_ID_MAX = 64 };

struct elf_part { uint64_t offset, vaddr, filesz, memsz; unsigned flags; /* PF_ */ };

struct elf_head {
	struct abi abi;
	uint16_t type;
	uint64_t entry, phoff, shoff;
	unsigned phnum, shentsize, shnum, shstrndx;
	struct elf_part load[ELF_MAX_LOADS];  /* sorted by vaddr, not empty, end + page never overflows */
	size_t n_load;
	struct elf_part dynamic, phdr, eh_frame; /* the last: PT_GNU_EH_FRAME; memsz 0: none */
	struct elf_part note[ELF_MAX_NOTES];
	size_t n_note;
};

/* ERR_UNSUPPORTED: not ELF, or not ET_EXEC / ET_DYN; ERR_CORRUPT; or what read gave. */
int elf_head_read(const struct elf_source *src, struct elf_head *ret) MUST_CHECK;
/* Of a separate debug file: program headers are left out, since strip leaves there what the whole file has and dwz none; notes are its sections'. */
int elf_debug_head_read(const struct elf_source *src, struct elf_head *ret) MUST_CHECK;
/* The program headers alone, where the ELF header is out of reach; abi, phnum and ehdr-less fields are the caller's. */
int elf_phdrs_read(const struct elf_source *src, uint64_t phoff, unsigned phnum, struct elf_head *head) MUST_CHECK;
/* Lowest and highest address (end) of the loads, before bias. */
void elf_span(const struct elf_head *h, uint64_t *lo, uint64_t *hi);
/* NT_GNU_BUILD_ID of the notes; ERR_ABSENT: there is none, or what read gave: not known.  Returns its length. */
int elf_build_id(const struct elf_source *src, const struct elf_head *h, uint8_t ret[ELF_BUILD_ID_MAX]) MUST_CHECK;

struct elf_section { uint32_t name, type, link; uint64_t flags, addr, offset, size, entsize; };
/* Sections of a file from `first` on, as many as one read gives; 0 past the last one. */
enum { ELF_SECTIONS = 40 };
int elf_sections(const struct elf_source *src, const struct elf_head *h, unsigned first, struct elf_section *ret, unsigned max) MUST_CHECK;
/* One of them; ERR_ABSENT. */
int elf_section_at(const struct elf_source *src, const struct elf_head *h, unsigned i, struct elf_section *ret) MUST_CHECK;

struct elf_symbol { uint32_t name; uint8_t info; uint16_t section; uint64_t value, size; };
size_t elf_symbol_size(const struct abi *abi);
int elf_symbol_parse(struct cursor *c, const struct abi *abi, struct elf_symbol *ret) MUST_CHECK;

#endif
