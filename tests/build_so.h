/*
 * Writes an ELF shared object or program into memory, for tests: both widths and byte orders; and maps it into a core as
 * the kernel and the dynamic linker would.
 *
 * File and memory, from `base` on:
 *	0x0000  headers, build-id note           R     the only page of a default core that is not written to
 *	0x1000  .gnu.hash .hash .dynsym .dynstr  R
 *	0x2000  .text: every byte 0xc3           R X
 *	0x3000  .data: .dynamic, .PyRuntime at 0x4800, rest 0xdd; at 0x4000 in memory; .bss at 0x5000..0x6000   R W
 *	0x4000  .symtab .strtab .shstrtab, section headers: not mapped
 */
#ifndef TESTS_BUILD_SO_H
#define TESTS_BUILD_SO_H

#include "build_elf.h"

struct so_symbol {
	const char *name;
	uint32_t value, size;   /* value: from base */
	bool function, exported;
};
/* Of sections of their own: without one in the table, and .PyRuntime.  All others: the same section, without one. */
#define SO_NAME_INIT "_init"
#define SO_NAME_STUB "stub"
struct build_so {
	struct abi abi;
	addr_t base;            /* 0: a shared object, else ET_EXEC */
	const char *build_id;   /* its text is the id; NULL: none */
	const struct so_symbol *symbols;
	size_t n_symbols;
	bool no_gnu_hash, no_sysv_hash, stripped;
	const char *debuglink;  /* NULL: none */
	uint32_t debugcrc;
	struct blob debugdata;  /* of a stripped one: its .gnu_debugdata, up to 0x1000 bytes; len 0: none */
};
enum { SO_FILE = 0x6000, SO_SPAN = 0x6000, SO_GNU_HASH = 0x1000, SO_HASH = 0x1400, SO_DYNSYM = 0x1800, SO_DYNSTR = 0x1c00,
	SO_TEXT = 0x2000, SO_DATA = 0x4000, SO_DATA_FILE = 0x3000, SO_DYNAMIC = 0x4000, SO_RUNTIME = 0x4800 };

struct build_elf *build_so_core(const char *abi); /* of one thread whose stack is there */
uint8_t *build_so(const struct build_so *what);  /* SO_FILE bytes; free it */

enum {
	SO_HEADERS = 1,     /* the first page is in the core */
	SO_READ_ONLY = 2,   /* and the other pages of read-only loads */
	SO_WRITABLE = 4,    /* .data and .bss are, with byte 0xee at the end of each page: written to */
	SO_RELOCATED = 8,   /* addresses in .dynamic have the bias added, as glibc does */
	SO_FILE_NOTE = 16,
	SO_USUAL = SO_HEADERS | SO_WRITABLE | SO_RELOCATED | SO_FILE_NOTE,
};
/* Adds loads (and file note lines) for the file at bias. */
void build_so_map(struct build_elf *core, const struct build_so *what, const uint8_t *file, addr_t bias, const char *path, unsigned how);

#endif
