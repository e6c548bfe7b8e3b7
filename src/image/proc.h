/* A process as /proc shows it: mappings, status, small files.  Linux only; nothing here stops or changes a process. */
#ifndef IMAGE_PROC_H
#define IMAGE_PROC_H

#include <sys/types.h>

#include "image/abi.h"

/* One line of /proc/PID/maps. */
struct proc_map {
	addr_t start, end;
	uint64_t offset, inode;
	uint32_t dev_major, dev_minor;
	unsigned prot;          /* 1 read 2 write 4 execute */
	bool shared;
	struct blob path;       /* in text of the list; "[heap]", "/lib/x.so (deleted)", empty */
};
/* A list that can be read again and again; memory grows only when the process has more mappings than ever before. */
struct proc_maps {
	char *text;
	size_t len, text_room;
	struct proc_map *p;
	size_t n, room;
};

/* The folder of one thread, /proc/PID/task/TID: it shows the whole process, and does so when the first thread has ended.
 * Returns a descriptor (O_PATH), or ERR_GONE, ERR_IO. */
int proc_open(pid_t pid, pid_t tid) MUST_CHECK;
int proc_open_tasks(pid_t pid) MUST_CHECK; /* /proc/PID/task for proc_tids; ERR_GONE, ERR_IO */
int proc_open_file(int dir, const char *name) MUST_CHECK; /* "mem", "pagemap" of a proc folder, for reading; ERR_GONE, ERR_PERM, ERR_IO */
/* Read `name` of a proc folder, appended to *b; ERR_GONE, ERR_PERM, ERR_IO, ERR_LIMIT (larger than max). */
int proc_read(int dir, const char *name, size_t max, struct sb *b) MUST_CHECK;
int proc_readlink(int dir, const char *name, struct sb *b) MUST_CHECK;
/* The command line, a space between its words, appended to *b, which is left as it was where there is none; cut at about max bytes. */
void proc_cmdline(int dir, size_t max, struct sb *b);
int proc_maps_read(int dir, struct proc_maps *m) MUST_CHECK;   /* ERR_GONE, ERR_PERM, ERR_IO, ERR_CORRUPT */
void proc_maps_free(struct proc_maps *m);
const struct proc_map *proc_maps_at(const struct proc_maps *m, addr_t addr);

/* A value of a status file's text ("TracerPid:\t12"), as a number in `base`; ERR_ABSENT. */
int proc_status_uint(struct str status, const char *key, unsigned base, uint64_t *ret) MUST_CHECK;
/* The last one of several ("NSpid:\t120\t3"), decimal. */
int proc_status_last(struct str status, const char *key, uint64_t *ret) MUST_CHECK;

struct proc_stat {
	char comm[64];
	char state;
	pid_t ppid, pgrp, session;
	uint64_t utime, stime, start; /* clock ticks; start: since boot */
	int nice;
	unsigned flags;
};
/* Of flags: a thread that is ending (PF_EXITING), one of the kernel (PF_KTHREAD). */
enum { PROC_EXITING = 0x00000004, PROC_KERNEL = 0x00200000 };
int proc_stat(int dir, struct proc_stat *ret) MUST_CHECK;      /* ERR_GONE, ERR_IO, ERR_CORRUPT */

/* Machine, width and byte order of the program the process runs; ERR_GONE (or a kernel thread), ERR_PERM, ERR_UNSUPPORTED. */
int proc_abi(int dir, struct abi *ret) MUST_CHECK;

/* The threads now, ascending; grows *tids (n entries used, room allocated). ERR_GONE, ERR_IO. */
struct tids VEC(pid_t);
int proc_tids(int task_fd, struct tids *ret) MUST_CHECK;

/* A thread of the process that has not ended and is not about to (its memory goes first): pid itself, unless only other threads are left; ERR_GONE (known to be so), ERR_PERM, ERR_IO. */
int proc_live_tid(pid_t pid, pid_t *ret) MUST_CHECK;

/* Memory of a process, by a thread that lives: process_vm_readv, and /proc/PID/mem where that is refused (seccomp in
 * containers) or the page has no read permission.  mem_fd may be -1.  Returns the bytes read from addr on; 0 with errno. */
size_t proc_peek(pid_t tid, int mem_fd, addr_t addr, void *buf, size_t len);

#endif
