/* Inside src/module only: one module and all of them, as module.c, backing.c, symbol.c and name.c share them. */
#ifndef MODULE_MODULES_H
#define MODULE_MODULES_H

#include <sys/stat.h>

#include "module/elf_head.h"
#include "module/mini.h"
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
	bool untold;                            /* read while the image's watch was paused */
};

/* A file on disk that is used: opened when first asked for, and again after it was closed, if it is still the same. */
struct disk_file {
	struct modules *mods;
	struct candidate from;
	struct elf_head *head;
	dev_t dev;
	ino_t ino;
	off_t size;
	struct timespec mtime;
	int fd, rc;                  /* fd + 1, 0: not open; rc < 0: cannot be opened again */
	const struct noted_file *noted; /* not on disk, but what the snapshot itself has of it; else NULL */
};

/* Functions by address, for modules_name. */
struct name_source { struct elf_source src; uint64_t names, names_size; }; /* names are at names + row.name in src */
enum { NAMES_TABLE, NAMES_MINI };
struct name_table {
	enum state state;
	struct VEC(struct name_row) row;
	uint8_t adding;                         /* the source that rows are being added from */
	struct disk_file *in;                   /* the one with the table; NULL: it is in the image */
	struct name_source from[2];             /* the table; and MiniDebugInfo, which has what dynamic symbols lack */
	struct mini mini;
};
struct name_row { uint64_t value; uint32_t size, name; uint16_t section; uint8_t from; }; /* value: bias not added */

struct mod {
	struct modules *mods;
	struct module pub;
	struct VEC(struct piece) piece;
	bool by_auxv;                /* its piece is the page of AT_PHDR, and more may be mapped */
	struct elf_head *head;       /* of the image, else of the file; NULL if neither */
	struct disk_file *file;      /* NULL: none is used */
	struct disk_file *debug;     /* its separate debug file */
	struct disk_file *alt;       /* what that one, or the file, shares with others (dwz) */
	const char *alt_name;        /* as that one is called there */
	addr_t noted_at;             /* where it began in the list of mappings: what a snapshot notes is found by that */
	bool no_build_id;            /* the image has its notes, and none is a build-id */
	struct disk_file *inside;    /* its symbol tables that travelled in the snapshot */
	bool symtab;                 /* does the file or its debug file have .symtab, or what is inside? */
	struct disk_file *mini_in;   /* which has .gnu_debugdata; NULL: none, or none that can be read */
	uint64_t mini_at, mini_size; /* where in it */
	int mini_rc;                 /* < 0: why it cannot be read */
	bool asked_exe, asked_debug; /* of debuginfod */
	struct dynamic dyn;
	struct name_table names;
};

struct modules {
	struct image *img;
	struct opener *opener;
	struct arena *arena;
	struct mod *mod;             /* sorted by start */
	struct module *pub;          /* the same, for callers */
	size_t n;
	size_t *order;               /* executable, libpython-like, then the rest: indexes of mod */
	size_t n_first;              /* how many of order are of the first two kinds */
	struct disk_file **open;     /* those with a fd; the oldest is closed for the next */
	size_t n_open, max_open, next_open;
	bool sealed;                 /* nothing is opened any more */
	uint64_t page;
	unsigned steps;              /* of the look-up by name that is under way */
	uint64_t named;              /* symbols read for modules_name */
	uint64_t mini;               /* bytes of MiniDebugInfo kept */
	bool private_kept;           /* of backing_private_kept */
};

/* disk_file.c.  What was found; fd becomes its own.  NULL: it is gone.  Lives as long as mods. */
struct disk_file *disk_file_take(struct modules *mods, const struct candidate *c, const struct elf_head *h, int fd);
/* The same for what the snapshot has of it. */
struct disk_file *disk_file_inside(struct modules *mods, const struct noted_file *noted);
/* All of [off, off + len) of a file, ERR_FAULT behind its end, ERR_IO. */
int fd_read(int fd, uint64_t off, void *buf, size_t len) MUST_CHECK;
/* All of it or ERR_*; f NULL: ERR_ABSENT. */
int disk_file_read(struct disk_file *f, uint64_t off, void *buf, size_t len) MUST_CHECK;
struct elf_source disk_file_source(struct disk_file *f);
/* A descriptor of the caller's own, or ERR_*. */
int disk_file_fd(struct disk_file *f) MUST_CHECK;
/* Open all there are, as many as there may be; and from then on none, in a process that is to open nothing. */
void disk_files_hold(struct modules *mods);
void disk_files_close(struct modules *mods);

/* module.c: take files for it, or once more with debuginfod's. */
bool mod_same_machine(const struct mod *m, const struct elf_head *h);
/* debug_file.c: what the sections of the file tell, and its separate debug files. */
void debug_look(struct mod *m);
void debug_find(struct mod *m);
void debug_fetch(struct mod *m);
/* backing.c: lay what the image lacks. */
void backing_lay(struct mod *m);
bool backing_private_kept(const struct modules *mods);
/* symbol.c: are the dynamic symbols in the image as it is now? */
bool dynamic_in_image(struct mod *m);
/* name.c */
void names_free(struct mod *m);

#endif
