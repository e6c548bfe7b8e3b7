/* The tables that name a file's functions, as they travel in a snapshot.  Inside src/snap only. */
#ifndef SNAP_SYMBOLS_H
#define SNAP_SYMBOLS_H

#include "image/pz.h"
#include "snap/files.h"

enum {
	SYMBOLS_FILE_MAX = 8 << 20,  /* of one file; larger tables are left out */
	SYMBOLS_ALL_MAX = 64 << 20,
	SYMBOLS_PARTS = 3,
};
/* One file's: an ELF file that has sections alone, all of the file's, those that are not taken without content. */
struct symbols {
	const struct file *file;
	struct sb head;              /* ELF header and section headers */
	struct { uint64_t offset, size; } part[SYMBOLS_PARTS]; /* of the file; behind the head, each at a multiple of 8 */
	size_t n_parts;
	uint64_t at, size;           /* in the tail of the .pz; size 0: left out */
	uint64_t left_out;           /* so large were they */
};
struct symbols_list {
	struct VEC(struct symbols) file;
	uint64_t size;               /* of all */
	const struct proc_map *largest; /* of those that were left out; NULL: none */
	size_t n_left_out;
	uint64_t left_out;           /* size of all those */
};

/* Of the files whose code is mapped, as far as they have any and are as they were when they were opened. */
void symbols_find(const struct files *files, const struct proc_maps *maps, struct symbols_list *ret);
const struct symbols *symbols_of(const struct symbols_list *l, const struct file *file); /* NULL: none */
int symbols_write(const struct symbols *s, struct pz_writer *w) MUST_CHECK;             /* as pz_write */
void symbols_free(struct symbols_list *l);

#endif
