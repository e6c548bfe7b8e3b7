/* The ELF files that a process maps, opened before the stop, so that what happens to their names later does not matter. */
#ifndef SNAP_FILES_H
#define SNAP_FILES_H

#include "image/proc.h"

struct file {
	uint32_t dev_major, dev_minor;
	uint64_t inode;
	int fd;                 /* -1: not an ELF file, or cannot be opened */
	bool too_many;          /* ... because so many files are open */
	bool only_memory;       /* it is an ELF file: memory tells, and only memory has it */
	uint64_t size;          /* size and mtime_ns: 0 if only_memory */
	int64_t mtime_ns;
	uint8_t build_id[64];
	size_t build_id_len;
};
struct files VEC(struct file);

/* Adds the files of private mappings that are not in the list; tid: a thread that lives. */
void files_open(pid_t tid, const struct proc_maps *maps, struct files *files);
/* The ELF file of a mapping; NULL if there is none, or if it cannot be opened. */
const struct file *files_of(const struct files *files, const struct proc_map *map);
/* The same, also of what only memory has. */
const struct file *files_known(const struct files *files, const struct proc_map *map);
/* Can the file of the mapping not be opened, and is it an ELF file as memory tells? */
bool files_only_memory(const struct files *files, const struct proc_map *map);
void files_close(struct files *files);

#endif
