/*
 * The file that compressed input and pipes are unpacked into.  It has no name (O_TMPFILE), so nothing is left of it
 * whatever happens; what is zero is not written, so a core takes as much room as it has memory in use.
 *
 * A bomb is stopped by the room that there is: it is looked at before it is all used up, since a full /var/tmp would
 * harm others.  Zeros need no room and end at the largest size.
 */
#include "image/spool.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

enum {
	PAGE = 4096,
	HOLE_MIN = 4 * PAGE,        /* shorter runs of zeros are written: a hole costs a system call and an extent */
};
static const uint64_t size_max = (uint64_t)16 << 40, /* ext4's largest file */
		      room_step = 8 << 20,           /* written between two looks at the room that is left */
		      room_kept = 32 << 20;          /* left to others */

struct file {
	int fd;
	const char *dir;
	uint64_t at;             /* the content's size so far */
	uint64_t written;        /* of it */
	uint64_t look;           /* when so much is written the room is looked at */
	int problem;             /* errno of what failed; ENOSPC: no room, or there soon would be none */
};

const char spool_stdin[] = "standard input";

/* What names the input on a command line. */
static const char *spool_operand(const char *name)
{
	return strcmp(name, spool_stdin) == 0 ? "-" : name;
}

void spool_hint(struct err *err, const struct codec *codec, const char *name)
{
	if (strcmp(name, spool_stdin) == 0)
		err_hint(err, "... | %s | pyanalyze -", codec->command);
	else
		err_hint(err, "%s %s | pyanalyze -", codec->command, name);
}

static const char *spool_dir(void)
{
	const char *dir = getenv("TMPDIR");
	return dir && *dir ? dir : "/var/tmp";
}

static int nameless(const char *dir)
{
	int fd = open(dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	if (fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL))
		return fd;
	/* File systems without O_TMPFILE: NFS, some FUSE ones. */
	CLEANUP(cleanup_free) char *path = xasprintf("%s/pyanalyze-XXXXXX", dir);
	fd = mkostemp(path, O_CLOEXEC);
	if (fd >= 0)
		unlink(path);
	return fd;
}

static uint64_t room(const struct file *f)
{
	struct statvfs st;
	uint64_t n;
	if (fstatvfs(f->fd, &st) != 0 || !mul_fits(st.f_bavail, st.f_frsize, &n))
		return UINT64_MAX;
	return n;
}

static int write_run(struct file *f, const uint8_t *p, size_t len, uint64_t at)
{
	if (f->written + len > f->look) {
		if (room(f) < room_kept + room_step) {
			f->problem = ENOSPC;
			return ERR_LIMIT;
		}
		f->look = f->written + len + room_step;
	}
	for (size_t done = 0; done < len;) {
		ssize_t n = pwrite(f->fd, p + done, len - done, (off_t)(at + done));
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0) {
			f->problem = n < 0 ? errno : ENOSPC;
			return f->problem == ENOSPC || f->problem == EDQUOT ? ERR_LIMIT : ERR_IO;
		}
		done += (size_t)n;
	}
	f->written += len;
	return 0;
}

static bool is_zero(const uint8_t *p, size_t len)
{
	return !*p && memcmp(p, p + 1, len - 1) == 0;
}

/* Pieces begin at multiples of PAGE; see struct sink. */
static int file_put(void *arg, const void *buf, size_t len)
{
	struct file *f = arg;
	const uint8_t *p = buf;
	if (len > size_max - f->at) {
		f->problem = EFBIG;
		return ERR_IO;
	}
	size_t from = 0, zeros = 0; /* [from, i - zeros) is to be written, zeros follow it */
	for (size_t i = 0, n; i < len; i += n) {
		n = len - i < PAGE ? len - i : PAGE;
		if (is_zero(p + i, n)) {
			zeros += n;
			continue;
		}
		if (zeros >= HOLE_MIN || i == zeros) {
			if (i - zeros > from) {
				int rc = write_run(f, p + from, i - zeros - from, f->at + from);
				if (rc < 0)
					return rc;
			}
			from = i;
		}
		zeros = 0;
	}
	int rc = len - zeros > from ? write_run(f, p + from, len - zeros - from, f->at + from) : 0;
	f->at += len;
	return rc;
}

/* As much of `whole` as it would be, at the rate so far; 0 if it cannot be told. */
static uint64_t estimate(const struct file *f, const struct unpacked *how, uint64_t size)
{
	if (!how->in || size <= how->in)
		return 0;
	double n = (double)f->written / (double)how->in * (double)size;
	return n < 1e18 ? (uint64_t)n : 0;
}

static int no_room(const struct file *f, const struct unpacked *how, const char *name, uint64_t size, struct err *err)
{
	char need_text[STR_SIZE], have_text[STR_SIZE];
	/* Of a file that was hardly begun the rate says nothing; what it is packed into is less than it becomes. */
	uint64_t need = estimate(f, how, size), least = f->written > size ? f->written : size;
	/* A quota's room is not told by the file system's. */
	uint64_t left = f->problem == EDQUOT ? 0 : room(f), have = f->written + (left == UINT64_MAX ? 0 : left);
	bool about = need > least;
	if (!about)
		need = least;
	need = need < UINT64_MAX - room_kept - room_step ? need + room_kept + room_step : UINT64_MAX; /* what is left to others */
	if (need <= have) {
		need = have;
		about = false;
	}
	err_set(err, ERR_LIMIT, "needs %s %s in %s to unpack %s, %s are free", about ? "about" : "more than", str_size(need, need_text),
		f->dir, name, str_size(have, have_text));
	err_hint(err, "TMPDIR=DIR pyanalyze %s, with a DIR on a disk that has room", spool_operand(name));
	return ERR_LIMIT;
}

static int failed(const struct file *f, int rc, const struct unpacked *how, const char *name, uint64_t size, struct err *err)
{
	if (rc == ERR_UNSUPPORTED) {
		err_set(err, rc, "%s is compressed with %s, which this build cannot unpack", name, how->codec->name);
		spool_hint(err, how->codec, name);
		return rc;
	}
	if (f->problem == ENOSPC || f->problem == EDQUOT)
		return no_room(f, how, name, size, err);
	err_set(err, rc, "cannot unpack %s into %s: %s", name, f->dir, strerror(f->problem));
	err_hint(err, "TMPDIR=DIR pyanalyze %s", spool_operand(name));
	return rc;
}

/* For reading alone from now on: the process that unwinds has it too, and is not to change what others read.  Without /proc it stays. */
static int for_reading(int fd)
{
	char self[64];
	snprintf(self, sizeof self, "/proc/self/fd/%d", fd);
	int again = open(self, O_RDONLY | O_CLOEXEC);
	if (again < 0)
		return fd;
	close(fd);
	return again;
}

int spool(struct feed feed, const char *name, uint64_t size, bool (*wanted)(const void *head, size_t len), struct bytes **ret,
	  struct unpacked *how, struct err *err)
{
	struct file f = { .dir = spool_dir() };
	*how = (struct unpacked){ 0 };
	f.fd = nameless(f.dir);
	if (f.fd < 0) {
		f.problem = errno;
		return failed(&f, errno == EACCES ? ERR_PERM : ERR_IO, how, name, size, err);
	}
	int rc = codec_unpack(feed, wanted, (struct sink){ file_put, &f }, how);
	if (rc == 0 && ftruncate(f.fd, (off_t)f.at) < 0) {
		f.problem = errno;
		rc = ERR_IO;
	}
	if (rc < 0) {
		rc = failed(&f, rc, how, name, size, err);
		close(f.fd);
		return rc;
	}
	return bytes_from_fd(for_reading(f.fd), name, ret, err);
}
