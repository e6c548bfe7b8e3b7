/* Files that are used, each opened once as long as there is room for descriptors. */
#include "module/modules.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

enum { OPEN_MIN = 16, OPEN_MAX_FILES = 4096, OPEN_FACTOR = 3 };

static size_t most_open(void)
{
	struct rlimit l;
	size_t n = getrlimit(RLIMIT_NOFILE, &l) == 0 && l.rlim_cur < 1 << 20 ? (size_t)l.rlim_cur / OPEN_FACTOR : OPEN_MAX_FILES;
	return n < OPEN_MIN ? OPEN_MIN : n > OPEN_MAX_FILES ? OPEN_MAX_FILES : n;
}

static void keep(struct disk_file *f, int fd)
{
	struct modules *mods = f->mods;
	if (!mods->open) {
		mods->max_open = most_open();
		mods->open = xcalloc(mods->max_open, sizeof *mods->open);
	}
	struct disk_file **slot = &mods->open[mods->next_open++ % mods->max_open];
	if (*slot) {
		close((*slot)->fd - 1);
		(*slot)->fd = 0;
	} else {
		mods->n_open++;
	}
	*slot = f;
	f->fd = fd + 1;
}

struct disk_file *disk_file_take(struct modules *mods, const struct candidate *c, const struct elf_head *h, int fd)
{
	struct stat st;
	if (fstat(fd, &st) < 0) {
		close(fd);
		return NULL;
	}
	struct disk_file *f = arena_alloc(mods->arena, sizeof *f);
	*f = (struct disk_file){ .mods = mods, .from = *c, .dev = st.st_dev, .ino = st.st_ino, .size = st.st_size, .mtime = st.st_mtim };
	f->head = arena_dup(mods->arena, h, sizeof *h);
	keep(f, fd);
	return f;
}

struct disk_file *disk_file_inside(struct modules *mods, const struct noted_file *noted)
{
	struct disk_file *f = arena_alloc(mods->arena, sizeof *f);
	*f = (struct disk_file){ .mods = mods, .noted = noted, .size = (off_t)noted->symbols_size };
	struct elf_source src = disk_file_source(f);
	struct elf_head head;
	if (elf_debug_head_read(&src, &head) < 0)
		return NULL;
	f->head = arena_dup(mods->arena, &head, sizeof head);
	return f;
}

static bool same(const struct disk_file *f, const struct stat *st)
{
	return st->st_dev == f->dev && st->st_ino == f->ino && st->st_size == f->size && st->st_mtim.tv_sec == f->mtime.tv_sec &&
	       st->st_mtim.tv_nsec == f->mtime.tv_nsec;
}

static int open_it(struct disk_file *f)
{
	struct stat st;
	if (!f)
		return ERR_ABSENT;
	if (f->fd)
		return 0;
	if (f->noted || f->mods->sealed)
		return ERR_ABSENT;
	if (f->rc < 0)
		return f->rc;
	int fd = opener_again(f->mods->opener, &f->from);
	if (fd < 0)
		return f->rc = fd;
	if (fstat(fd, &st) < 0 || !same(f, &st)) {
		close(fd);
		return f->rc = ERR_IO;
	}
	keep(f, fd);
	return 0;
}

int fd_read(int fd, uint64_t off, void *buf, size_t len)
{
	while (len) {
		if (off > INT64_MAX)
			return ERR_FAULT;
		ssize_t got = pread(fd, buf, len, (off_t)off);
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return ERR_IO;
		if (got == 0)
			return ERR_FAULT;
		buf = (char *)buf + got;
		off += (uint64_t)got;
		len -= (size_t)got;
	}
	return 0;
}

int disk_file_read(struct disk_file *f, uint64_t off, void *buf, size_t len)
{
	if (f && f->noted) {
		const struct image_facts *facts = image_facts(f->mods->img);
		if (off > f->noted->symbols_size || len > f->noted->symbols_size - off)
			return ERR_FAULT;
		return facts->tail.read(facts->tail.ctx, f->noted->symbols + off, buf, len);
	}
	int rc = open_it(f);
	if (rc < 0)
		return rc;
	return fd_read(f->fd - 1, off, buf, len);
}

static int read_it(void *ctx, uint64_t off, void *buf, size_t len)
{
	return disk_file_read(ctx, off, buf, len);
}

struct elf_source disk_file_source(struct disk_file *f)
{
	return (struct elf_source){ read_it, f };
}

int disk_file_fd(struct disk_file *f)
{
	int rc = open_it(f);
	if (rc < 0)
		return rc;
	int fd = fcntl(f->fd - 1, F_DUPFD_CLOEXEC, 0);
	return fd < 0 ? ERR_IO : fd;
}

void disk_files_hold(struct modules *mods)
{
	for (size_t i = 0; i < mods->n; i++) {
		struct disk_file *const f[] = { mods->mod[i].file, mods->mod[i].debug, mods->mod[i].alt };
		for (size_t k = 0; k < sizeof f / sizeof *f; k++)
			if (f[k] && !f[k]->fd && (!mods->open || mods->n_open < mods->max_open))
				(void)!open_it(f[k]);
	}
}

void disk_files_close(struct modules *mods)
{
	for (size_t i = 0; i < mods->max_open; i++)
		if (mods->open[i])
			close(mods->open[i]->fd - 1);
	free(mods->open);
}
