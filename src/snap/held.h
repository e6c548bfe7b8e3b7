/* What a capture holds between the stop and the file: inside src/snap only. */
#ifndef SNAP_HELD_H
#define SNAP_HELD_H

#include "snap/capture.h"
#include "snap/files.h"
#include "snap/pages.h"

/* Why memory is not in the file: formats/pz.md 2.2. */
enum { WHY_UNREADABLE = 1, WHY_DONTDUMP = 2, WHY_DEVICE = 3, WHY_OPTION = 4 };
enum { WHOLE_FILE = 64 << 20 }; /* of larger ELF files, only read-only data up to as much, and what the process has used */
struct missing { addr_t start, end; uint32_t error, why; };

enum keep {
	KEEP_NOTHING,
	KEEP_OWN,     /* pages the process wrote */
	KEEP_MAPPED,  /* pages of shared memory that has no name left */
	KEEP_ALL,     /* the vdso; ELF files that cannot be opened, whose pages later nobody has */
};
struct region {
	const struct proc_map *map;
	enum keep keep;
	bool excluded;         /* asked to be left out, or a device: not from its file either */
	size_t first, n;       /* of kept */
};
/* Memory that was copied: [start, end) at data + at. */
struct kept { addr_t start, end; uint64_t at; };

struct capture {
	pid_t pid;
	struct capture_options opt;
	struct abi abi;
	struct frozen *frozen;    /* thawed; owns the register notes */
	struct proc_maps maps;    /* as they were during the stop */
	struct regions VEC(struct region) regions;
	struct kept_list VEC(struct kept) kept;
	struct missing_list VEC(struct missing) missing;
	struct files files;
	uint8_t *data;
	uint64_t data_size, data_used;
	uint64_t image_bytes;     /* of the core in the file, unpacked; 0 before it is written */
	int64_t stopped_ns, start_ns;
	uint64_t written, late_lost;
	struct capture_unnamed unnamed;
	struct sb auxv, exe, cwd, cmdline, boot_id;
	struct proc_stat stat;    /* of the first thread, before the stop */
	int64_t ns_pid;          /* its own number in its pid namespace; 0: not known */
	struct {
		pid_t pid;        /* 0: not known */
		char comm[64];
		int same_exec;    /* 1: one of the two was forked from the other, without exec since; 0: not so; -1: not known */
	} parent;
	uint64_t uid, gid;
	pid_t tid;                /* a thread that lives, for what is read after the stop */
};

#endif
