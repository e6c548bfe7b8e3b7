/*
 * The file that a snapshot becomes.  It gets its name only when it is whole and on the disk; until then it is FILE.part,
 * which every end but kill -9 removes.  Whoever writes a FILE.part holds a lock (flock) on it: one that is locked is never
 * touched, by nobody and nothing; one that is not was left by a pysnap that was killed, and the next takes its place.
 */
#include "cmd/output.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

enum { TRIES = 100 };

static int cannot_write(const char *name, struct err *err)
{
	int e = errno;
	err_set(err, cli_write_code(e), "cannot write %s: %s", name, strerror(e));
	CLEANUP(cleanup_free) char *folder = cli_folder_missing(name, e);
	if (folder)
		err_hint(err, "mkdir -p %s, or -o FILE somewhere else", folder);
	else if (e == EMFILE)
		err_hint(err, "ulimit -n 1024");
	else if (e == ENAMETOOLONG)
		err_hint(err, "-o FILE with a shorter name");
	else
		err_hint(err, "-o FILE somewhere else");
	return err->code;
}

static int refuse(struct err *err, const char *hint, const char *fmt, ...) PRINTF(3, 4);
static int refuse(struct err *err, const char *hint, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	char msg[sizeof err->msg];
	vsnprintf(msg, sizeof msg, fmt, ap);
	va_end(ap);
	err_set(err, ERR_EXISTS, "%s", msg);
	err_hint(err, "%s", hint);
	return ERR_EXISTS;
}

static int exists(const char *name, struct err *err)
{
	return refuse(err, "-f to replace it, or another -o", "%s exists", name);
}

/* A link is neither replaced, which would surprise, nor followed, which in a folder like /tmp is for others to exploit. */
static int refuse_link(const struct output *o, struct err *err)
{
	char to[1024];
	ssize_t n = readlink(o->name, to, sizeof to - 1);
	to[n < 0 ? 0 : n] = 0;
	CLEANUP(cleanup_free) char *folder = cli_folder_of(o->name);
	bool beside = to[0] != '/' && strcmp(folder, ".") != 0;
	refuse(err, "", "%s is a symbolic link to %s", o->name, to);
	return err_hint(err, "-o %s%s%s%s", beside ? folder : "", beside ? "/" : "", to, o->force ? " -f" : "");
}

static bool same_file(const struct stat *a, const struct stat *b)
{
	return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

static bool name_means(const char *name, int fd)
{
	struct stat there, ours;
	return lstat(name, &there) == 0 && fstat(fd, &ours) == 0 && same_file(&there, &ours);
}

/* 0: it is gone, try again. */
static int take_over(const struct output *o, const struct cli *c, struct err *err)
{
	struct stat st;
	if (lstat(o->part, &st) < 0)
		return errno == ENOENT ? 0 : cannot_write(o->part, err);
	if (!S_ISREG(st.st_mode))
		return refuse(err, "another -o", "%s exists and is no partial snapshot", o->part);
	CLEANUP(cleanup_fd) int fd = open(o->part, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT ? 0 : cannot_write(o->part, err);
	if (flock(fd, LOCK_EX | LOCK_NB) < 0) {
		if (errno == EWOULDBLOCK)
			return refuse(err, "another -o, or again when it is done", "another pysnap is writing %s", o->part);
		/* No locks on this file system: it cannot be told whether somebody writes it. */
		if (!o->force)
			return refuse(err, "-f to replace it, or another -o", "%s exists: another pysnap is writing it, or was killed", o->part);
	} else if (!o->force && st.st_size) {
		static const uint8_t begin[4] = { 0x1f, 0x8b, 8, 4 };
		uint8_t head[sizeof begin];
		if (pread(fd, head, sizeof head, 0) != (ssize_t)sizeof head || memcmp(head, begin, sizeof head) != 0)
			return refuse(err, "-f to replace it, or another -o", "%s exists and is no partial snapshot", o->part);
	}
	if (!name_means(o->part, fd))
		return 0;
	if (unlink(o->part) < 0 && errno != ENOENT)
		return cannot_write(o->part, err);
	cli_note(c, "%s was left by a pysnap that did not come to its end, and is replaced", o->part);
	return 0;
}

static int open_part(struct output *o, const struct cli *c, struct err *err)
{
	o->part = xasprintf("%s.part", o->name);
	int code = 0;
	for (unsigned i = 0; i < TRIES && !code; i++) {
		int fd = open(o->part, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
		if (fd >= 0) {
			/* Before it is locked, another one may take it for a dead one's. */
			bool locked = flock(fd, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK;
			if (locked && name_means(o->part, fd)) {
				o->fd = fd;
				return 0;
			}
			close(fd);
			continue;
		}
		code = errno == EEXIST ? take_over(o, c, err) : cannot_write(o->name, err);
	}
	if (!code)
		code = refuse(err, "another -o", "others write %s at the same time", o->part);
	free(o->part);
	o->part = NULL;
	return code;
}

static int open_direct(struct output *o, const struct cli *c, const struct stat *st, struct err *err)
{
	o->kind = OUTPUT_DIRECT;
	if (S_ISBLK(st->st_mode) || S_ISSOCK(st->st_mode))
		return refuse(err, "-o FILE, or -o - into a program that writes there", "%s is a %s", o->name,
			      S_ISBLK(st->st_mode) ? "disk" : "socket");
	enum { FLAGS = O_WRONLY | O_CLOEXEC | O_NOCTTY };
	o->fd = open(o->name, FLAGS | O_NONBLOCK);
	if (o->fd < 0 && errno == ENXIO && S_ISFIFO(st->st_mode)) {
		cli_say(c, "%s: waiting for its reader; the process was not stopped yet", o->name);
		o->fd = open(o->name, FLAGS);
	}
	if (o->fd < 0)
		return cannot_write(o->name, err);
	int flags = fcntl(o->fd, F_GETFL);
	if (flags >= 0)
		(void)fcntl(o->fd, F_SETFL, flags & ~O_NONBLOCK);
	return 0;
}

static int open_stdout(struct output *o, struct err *err)
{
	free(o->name);
	o->name = xstrdup("standard output");
	o->kind = OUTPUT_STDOUT;
	int flags = fcntl(STDOUT_FILENO, F_GETFL);
	if (flags < 0 || (flags & O_ACCMODE) == O_RDONLY) { /* cli_start puts such a one where none is */
		err_set(err, ERR_IO, "standard output is closed");
		err_hint(err, "-o FILE");
		return ERR_IO;
	}
	o->fd = STDOUT_FILENO;
	return 0;
}

static bool taken(const char *name)
{
	CLEANUP(cleanup_free) char *part = xasprintf("%s.part", name);
	struct stat st;
	return lstat(name, &st) == 0 || lstat(part, &st) == 0;
}

/* Of several in one second: NAME-2.pz, NAME-3.pz; force means none of these. */
static void next_own(struct output *o)
{
	const size_t len = strlen(o->name) - strlen(".pz");
	for (unsigned i = 2; i < TRIES; i++) {
		char *next = xasprintf("%.*s-%u.pz", (int)len, o->name, i);
		if (!taken(next)) {
			free(o->name);
			o->name = next;
			return;
		}
		free(next);
	}
}

static int open_named(struct output *o, const struct cli *c, const char *own, bool is_own, struct err *err)
{
	struct stat st, link, out;
	bool there = stat(o->name, &st) == 0;
	size_t len = strlen(o->name);
	if ((there && S_ISDIR(st.st_mode)) || (len && o->name[len - 1] == '/')) {
		char *in = xasprintf("%s%s%s", o->name, o->name[len - 1] == '/' ? "" : "/", own);
		free(o->name);
		o->name = in;
		is_own = true;
		there = stat(o->name, &st) == 0;
	}
	if (is_own && taken(o->name)) {
		next_own(o);
		there = stat(o->name, &st) == 0;
	}
	bool linked = lstat(o->name, &link) == 0 && S_ISLNK(link.st_mode);
	/* /dev/stdout and its like: opened anew, a file would be written from its start. */
	if (linked && there && fstat(STDOUT_FILENO, &out) == 0 && same_file(&st, &out))
		return open_stdout(o, err);
	if (there && !S_ISREG(st.st_mode))
		return open_direct(o, c, &st, err);
	if (linked)
		return refuse_link(o, err);
	if (there && !o->force)
		return exists(o->name, err);
	return open_part(o, c, err);
}

int output_open(struct output *o, const struct cli *c, const char *asked, const char *own, struct err *err)
{
	o->fd = -1;
	o->kind = OUTPUT_FILE;
	o->name = xstrdup(asked ? asked : own);
	int code = asked && !strcmp(asked, "-") ? open_stdout(o, err) : open_named(o, c, own, !asked, err);
	if (!code && isatty(o->fd)) {
		err_set(err, ERR_UNSUPPORTED, "refusing to write a snapshot to the terminal");
		err_hint(err, "-o FILE");
		return ERR_UNSUPPORTED;
	}
	return code;
}

int output_commit(struct output *o, struct err *err)
{
	if (o->kind == OUTPUT_STDOUT)
		return 0;
	if (o->kind == OUTPUT_DIRECT) {
		int fd = o->fd;
		o->fd = -1;
		return close(fd) < 0 ? cannot_write(o->name, err) : 0;
	}
	if (fsync(o->fd) < 0 && errno != EINVAL)
		return cannot_write(o->name, err);
	if (!name_means(o->part, o->fd)) {
		err_set(err, ERR_IO, "%s was removed or replaced while it was written; no snapshot was written", o->part);
		err_hint(err, "the same again");
		return ERR_IO;
	}
	int code = 0;
	if (!o->force) {
		code = renameat2(AT_FDCWD, o->part, AT_FDCWD, o->name, RENAME_NOREPLACE);
		if (code < 0 && (errno == EINVAL || errno == ENOSYS)) { /* file systems that do not know the flag */
			code = link(o->part, o->name);
			if (code == 0)
				unlink(o->part);
		}
		if (code < 0 && errno == EEXIST)
			return exists(o->name, err);
	} else {
		code = rename(o->part, o->name);
	}
	if (code < 0)
		return cannot_write(o->name, err);
	free(o->part);
	o->part = NULL;
	CLEANUP(cleanup_free) char *folder = cli_folder_of(o->name);
	CLEANUP(cleanup_fd) int dir = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir >= 0)
		fsync(dir);
	return 0;
}

int output_failed(const struct output *o, int e, uint64_t written, struct err *err)
{
	char size[STR_SIZE];
	str_size(written, size);
	bool file = o->kind == OUTPUT_FILE;
	CLEANUP(cleanup_free) char *folder = cli_folder_of(o->name);
	const char *end = file ? "the process was resumed, the partial file removed" : "the process was resumed";
	struct rlimit lim;
	switch (e) {
	case ENOSPC:
	case EDQUOT:
		err_set(err, ERR_IO, "no space left on %s after %s; %s", file ? folder : o->name, size, end);
		err_hint(err, file ? "-o on another disk" : "-o FILE on another disk");
		break;
	case EPIPE:
		err_set(err, ERR_IO, "the reader of %s closed it after %s; %s", o->name, size, end);
		err_hint(err, "-o FILE, or a reader that reads to the end");
		break;
	case EFBIG:
		err_set(err, ERR_IO, "%s may not become larger than %s; %s", o->name, size, end);
		if (getrlimit(RLIMIT_FSIZE, &lim) == 0 && lim.rlim_cur != RLIM_INFINITY)
			err_hint(err, "ulimit -f unlimited, or --bundle=none for a smaller file");
		else
			err_hint(err, "-o on another file system, or --bundle=none for a smaller file");
		break;
	default:
		err_set(err, ERR_IO, "cannot write %s after %s: %s; %s", o->name, size, strerror(e), end);
		err_hint(err, "-o FILE somewhere else");
	}
	return err->code;
}

void output_close(struct output *o)
{
	if (o->part && o->fd >= 0 && name_means(o->part, o->fd))
		unlink(o->part);
	if (o->fd > STDERR_FILENO)
		close(o->fd);
	o->fd = -1;
	free(o->part);
	free(o->name);
	o->part = o->name = NULL;
}
