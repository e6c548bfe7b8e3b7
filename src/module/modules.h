/* Inside src/module only: one module and all of them, as module.c, backing.c and symbol.c share them. */
#ifndef MODULE_MODULES_H
#define MODULE_MODULES_H

#include <sys/stat.h>

#include "module/elf_head.h"
#include "module/module.h"

enum state { NOT_TRIED, READY, FAILED };

/* A mapped piece of the file. */
struct piece { addr_t start, end; uint64_t offset; unsigned prot; };

/* Dynamic symbols as they are in the image: addresses of the tables, all inside the module. */
struct dynamic {
	enum state state;
	addr_t symtab, strtab, gnu_hash, hash;  /* 0: none */
	uint64_t strsz;
	uint32_t n_buckets, first, bloom_words, bloom_shift; /* of gnu_hash */
	addr_t bloom, buckets, chains;
	uint32_t hash_buckets, hash_chains;     /* of hash */
	uint8_t hash_width;                     /* 4, but for s390x and alpha */
};

/* Functions by address, for modules_name. */
struct name_table {
	enum state state;
	struct VEC(struct name_row) row;
	bool in_image;                          /* names are at names + row.name in the image, else in the file */
	uint64_t names, names_size;
};
struct name_row { uint64_t value; uint32_t size, name; }; /* value: bias not added */

struct mod {
	struct modules *mods;
	struct module pub;
	struct VEC(struct piece) piece;
	struct elf_head *head;       /* of the image, else of the file; NULL if neither */
	struct elf_head *file_head;  /* of the file that is used */
	unsigned nth;                /* the file is opener_elf's nth candidate */
	dev_t dev;
	ino_t ino;
	off_t size;
	struct timespec mtime;
	int fd, fd_rc;               /* -1, or open; fd_rc < 0: cannot be opened again */
	struct dynamic dyn;
	struct name_table names;
};

enum { OPEN_FILES = 32 };

struct modules {
	struct image *img;
	struct opener *opener;
	struct arena *arena;
	struct mod *mod;             /* sorted by start */
	struct module *pub;          /* the same, for callers */
	size_t n;
	size_t *order;               /* executable, libpython-like, then the rest: indexes of mod */
	size_t n_first;              /* how many of order are of the first two kinds */
	struct mod *open[OPEN_FILES];/* whose fd is open; the oldest is closed for the next */
	size_t next_open;
	uint64_t page;
	unsigned steps;              /* of the look-up by name that is under way */
	uint64_t named;              /* symbols read for modules_name */
	bool private_kept;           /* of backing_private_kept */
};

/* The module's file: all of it or ERR_*.  Opened when first asked for, and checked to be the one whose build-id agreed. */
int mod_file_read(struct mod *m, uint64_t off, void *buf, size_t len) MUST_CHECK;
struct elf_source mod_file(struct mod *m);
/* A descriptor of it of the caller's own, or ERR_*. */
int mod_file_fd(struct mod *m) MUST_CHECK;
/* backing.c: lay what the image lacks. */
void backing_lay(struct mod *m);
bool backing_private_kept(const struct modules *mods);
/* symbol.c: are the dynamic symbols in the image as it is now? */
bool dynamic_in_image(struct mod *m);
void symbol_free(struct mod *m);

#endif
