/* The ELF files that a process maps, opened before the stop, so that what happens to their names later does not matter. */
#ifndef SNAP_FILES_H
#define SNAP_FILES_H

#include "image/proc.h"

struct file {
	uint32_t dev_major, dev_minor;
	uint64_t inode;
	int fd;                 /* -1: not an ELF file, or cannot be opened */
	bool too_many;          /* ... because so many files are open */
	uint64_t size;
	int64_t mtime_ns;
	uint8_t build_id[64];
	size_t build_id_len;
};
struct files VEC(struct file);

/* Adds the files of private mappings that are not in the list; tid: a thread that lives. */
void files_open(pid_t tid, const struct proc_maps *maps, struct files *files);
/* The ELF file of a mapping; NULL if there is none. */
const struct file *files_of(const struct files *files, const struct proc_map *map);
void files_close(struct files *files);

#endif
