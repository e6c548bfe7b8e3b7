/* Opening mapped ELF files by /proc/PID/map_files, else by their path in the target's root; their build-ids. */
#include "snap/files.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

enum { SPARE = 12 };

static bool same(const struct file *f, const struct proc_map *m)
{
	return f->inode == m->inode && f->dev_major == m->dev_major && f->dev_minor == m->dev_minor;
}

static const struct file *find(const struct files *files, const struct proc_map *m)
{
	/* Mappings of a file lie side by side: the last one is nearly always it. */
	for (size_t i = files->n; i-- > 0;)
		if (same(&files->p[i], m))
			return &files->p[i];
	return NULL;
}

const struct file *files_of(const struct files *files, const struct proc_map *m)
{
	if (m->shared || !m->inode)
		return NULL;
	const struct file *f = find(files, m);
	return f && f->fd >= 0 ? f : NULL;
}

const struct file *files_known(const struct files *files, const struct proc_map *m)
{
	if (m->shared || !m->inode)
		return NULL;
	const struct file *f = find(files, m);
	return f && (f->fd >= 0 || f->only_memory) ? f : NULL;
}

bool files_only_memory(const struct files *files, const struct proc_map *m)
{
	if (m->shared || !m->inode)
		return false;
	const struct file *f = find(files, m);
	return f && f->only_memory;
}

/* Is the file what is mapped?  On overlayfs and btrfs stat and maps disagree about the device: then its start must be the same. */
static bool is_mapped(int fd, pid_t tid, const struct proc_map *m)
{
	struct stat st;
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return false;
	if (st.st_ino == m->inode && major(st.st_dev) == m->dev_major && minor(st.st_dev) == m->dev_minor)
		return true;
	enum { START = 4096 };
	CLEANUP(cleanup_free) uint8_t *disk = xmalloc(2 * START);
	uint8_t *memory = disk + START;
	return !m->offset && !(m->prot & 2) && m->end - m->start >= START &&
	       pread(fd, disk, START, 0) == START && proc_peek(tid, -1, m->start, memory, START) == START &&
	       memcmp(disk, memory, START) == 0;
}

static int open_mapped(pid_t tid, const struct proc_map *m)
{
	char path[64 + 4096];
	enum { FLAGS = O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC };
	snprintf(path, sizeof path, "/proc/%d/map_files/%llx-%llx", (int)tid, (unsigned long long)m->start, (unsigned long long)m->end);
	int fd = -1;
	struct stat st;
	/* Not everything that is mapped may be opened: opening a device can do things. */
	if (stat(path, &st) == 0 && S_ISREG(st.st_mode))
		fd = open(path, FLAGS);
	if (fd < 0 && m->path.len < 4096) {
		snprintf(path, sizeof path, "/proc/%d/root%.*s", (int)tid, (int)m->path.len, (const char *)m->path.p);
		if (stat(path, &st) == 0 && S_ISREG(st.st_mode))
			fd = open(path, FLAGS);
		if (fd >= 0 && !is_mapped(fd, tid, m)) {
			close(fd);
			fd = -1;
		}
	}
	return fd;
}

/* Bytes of the file from off on, as many as there are up to len: from its descriptor, else from the mapping of its start. */
static size_t file_bytes(const struct file *f, pid_t tid, const struct proc_map *m, void *buf, size_t len, uint64_t off)
{
	if (f->fd >= 0) {
		ssize_t n = off > INT64_MAX ? -1 : pread(f->fd, buf, len, (off_t)off);
		return n > 0 ? (size_t)n : 0;
	}
	if (m->offset || off >= m->end - m->start)
		return 0;
	if (len > m->end - m->start - off)
		len = (size_t)(m->end - m->start - off);
	return proc_peek(tid, -1, m->start + off, buf, len);
}

/* NT_GNU_BUILD_ID of an ELF file, from its program headers. */
static void read_build_id(struct file *f, pid_t tid, const struct proc_map *m)
{
	uint8_t head[64], ph[64 * 56];
	size_t n = file_bytes(f, tid, m, head, sizeof head, 0);
	if (n < 52)
		return;
	bool wide = head[EI_CLASS] == ELFCLASS64, big = head[EI_DATA] == ELFDATA2MSB;
	struct cursor c = cursor_of(head, n, big);
	uint64_t phoff, phsize, phnum;
	if (cursor_seek(&c, wide ? 32 : 28) || cursor_uint(&c, wide ? 8 : 4, &phoff) || cursor_seek(&c, wide ? 54 : 42) ||
	    cursor_uint(&c, 2, &phsize) || cursor_uint(&c, 2, &phnum) || phsize != (wide ? 56u : 32u) || phnum > 64 || phoff > INT64_MAX - sizeof ph)
		return;
	n = file_bytes(f, tid, m, ph, (size_t)(phnum * phsize), phoff);
	struct cursor p = cursor_of(ph, n, big);
	for (uint64_t i = 0; i < phnum; i++) {
		uint64_t type, off, size;
		if (cursor_seek(&p, i * phsize) || cursor_uint(&p, 4, &type) || cursor_seek(&p, i * phsize + (wide ? 8 : 4)) ||
		    cursor_uint(&p, wide ? 8 : 4, &off) || cursor_seek(&p, i * phsize + (wide ? 32 : 16)) ||
		    cursor_uint(&p, wide ? 8 : 4, &size))
			return;
		uint8_t notes[4096];
		if (type != PT_NOTE || size > sizeof notes || off > INT64_MAX - sizeof notes)
			continue;
		n = file_bytes(f, tid, m, notes, (size_t)size, off);
		struct cursor nc = cursor_of(notes, n, big);
		uint64_t namesz, descsz, kind;
		struct blob name, desc;
		while (cursor_uint(&nc, 4, &namesz) == 0 && cursor_uint(&nc, 4, &descsz) == 0 && cursor_uint(&nc, 4, &kind) == 0 &&
		       cursor_take(&nc, namesz, &name) == 0 && cursor_align(&nc, 4) == 0 && cursor_take(&nc, descsz, &desc) == 0) {
			if (kind == NT_GNU_BUILD_ID && name.len == 4 && memcmp(name.p, "GNU", 4) == 0 && desc.len && desc.len <= sizeof f->build_id) {
				memcpy(f->build_id, desc.p, desc.len);
				f->build_id_len = desc.len;
				return;
			}
			if (cursor_align(&nc, 4))
				break;
		}
	}
}

void files_open(pid_t tid, const struct proc_maps *maps, struct files *files)
{
	/* The stop itself needs some: a file less in the snapshot is better than none. */
	int spare[SPARE];
	for (size_t i = 0; i < SPARE; i++)
		spare[i] = open("/", O_PATH | O_CLOEXEC);
	for (size_t i = 0; i < maps->n; i++) {
		const struct proc_map *m = &maps->p[i];
		if (m->shared || !m->inode || !m->path.len || m->path.p[0] != '/' || find(files, m))
			continue;
		struct file *f = vec_push(files);
		errno = 0;
		*f = (struct file){ m->dev_major, m->dev_minor, m->inode, open_mapped(tid, m), false, false, 0, 0, { 0 }, 0 };
		f->too_many = f->fd < 0 && (errno == EMFILE || errno == ENFILE);
		char magic[SELFMAG];
		/* Of a deleted or replaced one map_files is the only way, which needs CAP_SYS_ADMIN (proc(5)). */
		if (f->fd < 0 && !f->too_many && !m->offset && (m->prot & 1) && proc_peek(tid, -1, m->start, magic, SELFMAG) == SELFMAG)
			f->only_memory = memcmp(magic, ELFMAG, SELFMAG) == 0;
		struct stat st;
		if (f->fd >= 0 && (fstat(f->fd, &st) < 0 || st.st_size < 0 || pread(f->fd, magic, SELFMAG, 0) != SELFMAG ||
				   memcmp(magic, ELFMAG, SELFMAG) != 0)) {
			close(f->fd);
			f->fd = -1;
		}
		if (f->only_memory)
			read_build_id(f, tid, m);
		if (f->fd < 0)
			continue;
		f->size = (uint64_t)st.st_size;
		f->mtime_ns = (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec;
		read_build_id(f, tid, m);
	}
	for (size_t i = 0; i < SPARE; i++)
		if (spare[i] >= 0)
			close(spare[i]);
}

void files_close(struct files *files)
{
	for (size_t i = 0; i < files->n; i++)
		if (files->p[i].fd >= 0)
			close(files->p[i].fd);
	vec_free(files);
}
