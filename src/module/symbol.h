/* The tables of symbols that the image and the module's files have: what looking up by name and by address share. */
#ifndef MODULE_SYMBOL_H
#define MODULE_SYMBOL_H

#include "module/modules.h"

enum {
	MAX_SYMBOLS = 1 << 20,   /* of a module */
	MAX_NAME = 1024,
};

/* Of the image's own; NULL: there are none, or they cannot be read. */
struct dynamic *dynamic_of(struct mod *m);
/* How many dynamic symbols there are; 0: not known. */
uint64_t dynamic_count(struct mod *m);
/* A definition that has an address, and which is it? */
bool symbol_defined(const struct mod *m, const struct elf_symbol *s, addr_t *ret);
/* A file's symbol table (.symtab, else .dynsym; those of debug files are empty shells) and the strings that belong to it. */
int symbol_table_of(const struct elf_source *src, const struct elf_head *h, struct elf_section *table, struct elf_section *names) MUST_CHECK;
/* The best one there is, and the file it is in. */
int symbol_table(struct mod *m, struct elf_section *table, struct elf_section *names, struct disk_file **in) MUST_CHECK;
/*
 * Call each on every symbol of the table until it returns non-zero, which is returned.  src is of the file or, for
 * dynamic symbols, of the image.
 */
int symbol_each(const struct elf_source *src, const struct abi *abi, uint64_t at, uint64_t count,
		int (*each)(void *arg, const struct elf_symbol *s), void *arg);

#endif
