/*
 * Regular files and memory as random-access bytes.  Files are read with pread, never mapped: a file that shrinks
 * under us gives an error, not SIGBUS.
 */
#include "image/bytes.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct file {
	struct bytes b;
	int fd;
	bool no_holes;              /* the file system does not tell */
	uint64_t known_from, known_to; /* the last answer: [from, to) is ... */
	bool known_hole;            /* ... a hole, or data */
	char name[];
};

static int file_read(struct bytes *b, uint64_t off, void *buf, size_t len)
{
	struct file *f = (struct file *)b;
	for (size_t got = 0; got < len;) {
		ssize_t n = pread(f->fd, (char *)buf + got, len - got, (off_t)(off + got));
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0) {
			if (n == 0)
				errno = ENODATA; /* it was longer when it was opened */
			return ERR_IO;
		}
		got += (size_t)n;
	}
	return 0;
}

/* Finds out whether off is in a hole and how far that goes; false if the file system does not tell. */
static bool file_probe(struct file *f, uint64_t off)
{
	off_t data = lseek(f->fd, (off_t)off, SEEK_DATA);
	if (data < 0 && errno != ENXIO)
		return false;
	uint64_t end = data < 0 ? f->b.size : (uint64_t)data;
	f->known_hole = end > off;
	if (!f->known_hole) {
		off_t hole = lseek(f->fd, (off_t)off, SEEK_HOLE);
		if (hole < 0 || (uint64_t)hole <= off)
			return false;
		end = (uint64_t)hole;
	}
	f->known_from = off;
	f->known_to = end < f->b.size ? end : f->b.size;
	return true;
}

static uint64_t file_hole(struct bytes *b, uint64_t off)
{
	struct file *f = (struct file *)b;
	if (f->no_holes || off >= b->size)
		return 0;
	if (off < f->known_from || off >= f->known_to) {
		f->no_holes = !file_probe(f, off);
		if (f->no_holes)
			return 0;
	}
	return f->known_hole ? f->known_to - off : 0;
}

static void file_close(struct bytes *b)
{
	struct file *f = (struct file *)b;
	close(f->fd);
	free(f);
}

static int not_regular(const char *name, mode_t mode, struct err *err)
{
	const char *what = S_ISDIR(mode) ? "a directory" : S_ISFIFO(mode) ? "a pipe" : S_ISSOCK(mode) ? "a socket" : "a device";
	err_set(err, ERR_UNSUPPORTED, "%s is %s, not a file", name, what);
	err_hint(err, "%s", S_ISDIR(mode) ? "name a file in it" : "write it to a file first");
	return ERR_UNSUPPORTED;
}

static int cannot(const char *verb, const char *name, struct err *err)
{
	int code = errno == ENOENT || errno == ENOTDIR ? ERR_GONE : errno == EACCES || errno == EPERM ? ERR_PERM : ERR_IO;
	return err_set(err, code, "cannot %s %s: %s", verb, name, strerror(errno));
}

int bytes_from_fd(int fd, const char *name, struct bytes **ret, struct err *err)
{
	struct stat st;
	int rc = 0;
	if (fstat(fd, &st) < 0)
		rc = cannot("read", name, err);
	else if (!S_ISREG(st.st_mode))
		rc = not_regular(name, st.st_mode, err);
	if (rc < 0) {
		close(fd);
		return rc;
	}
	size_t len = strlen(name) + 1;
	struct file *f = xcalloc(1, sizeof *f + len);
	memcpy(f->name, name, len);
	f->fd = fd;
	f->b = (struct bytes){ (uint64_t)st.st_size, file_read, file_hole, file_close, f->name,
			       (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec };
	*ret = &f->b;
	return 0;
}

int bytes_open(const char *path, struct bytes **ret, struct err *err)
{
	/* Looked at before it is opened, since opening a device or a pipe may do something; and again afterwards. */
	struct stat st;
	if (stat(path, &st) < 0)
		return cannot("open", path, err);
	if (!S_ISREG(st.st_mode))
		return not_regular(path, st.st_mode, err);
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd < 0)
		return cannot(errno == EACCES ? "read" : "open", path, err);
	return bytes_from_fd(fd, path, ret, err);
}

struct memory {
	struct bytes b;
	const uint8_t *p;
};

static int memory_read(struct bytes *b, uint64_t off, void *buf, size_t len)
{
	memcpy(buf, ((struct memory *)b)->p + off, len);
	return 0;
}

static void memory_close(struct bytes *b)
{
	free(b);
}

struct bytes *bytes_from_memory(const void *p, size_t len, const char *name)
{
	struct memory *m = xcalloc(1, sizeof *m);
	m->p = p;
	m->b = (struct bytes){ len, memory_read, NULL, memory_close, name };
	return &m->b;
}

void bytes_close(struct bytes *b)
{
	if (b)
		b->close(b);
}

int bytes_read(struct bytes *b, uint64_t off, void *buf, size_t len)
{
	if (off > b->size || len > b->size - off)
		return ERR_FAULT;
	return len ? b->read(b, off, buf, len) : 0;
}
