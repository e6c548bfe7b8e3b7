/*
 * From a name to an image: what the bytes are decides, never what the file is called.  What can be read at any place (a
 * core, a snapshot, bgzip's output) is read where it lies; other compressed files and pipes are unpacked first (spool.c).
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "image/image.h"
#include "image/spool.h"

const struct image_format *const image_formats[] = { &image_format_pz, &image_format_elf_core, NULL };

static const struct image_format *format_of(struct bytes *b)
{
	for (size_t i = 0; image_formats[i]; i++)
		if (image_formats[i]->probe(b))
			return image_formats[i];
	return NULL;
}

static bool is_image(const void *head, size_t len)
{
	struct bytes *b = bytes_from_memory(head, len, "");
	bool is = format_of(b) != NULL;
	bytes_close(b);
	return is;
}

static int not_ours(struct bytes *b, struct err *err)
{
	uint8_t head[6];
	size_t len = b->size < sizeof head ? (size_t)b->size : sizeof head;
	if (bytes_read(b, 0, head, len) < 0)
		return err_set(err, ERR_IO, "cannot read %s", b->name);
	if (len == 0) {
		err_set(err, ERR_CORRUPT, "%s is empty", b->name); /* cut like one that is too short for its heads */
		err_why(err, "the disk may have been full, or ulimit -c too small");
		err_hint(err, "write the core again");
		return ERR_CORRUPT;
	}
	const struct codec *codec = codec_find(head, len);
	if (codec) {
		err_set(err, ERR_UNSUPPORTED, "%s is compressed with %s and not a snapshot", b->name, codec->name);
		spool_hint(err, codec, b->name);
		return ERR_UNSUPPORTED;
	}
	struct sb text = { 0 };
	for (size_t i = 0; i < len && i < 4; i++) {
		if (head[i] >= 0x20 && head[i] < 0x7f && head[i] != '"' && head[i] != '\\')
			sb_char(&text, (char)head[i]);
		else
			sb_printf(&text, "\\x%02x", head[i]);
	}
	struct str starts = sb_view(&text);
	err_set(err, ERR_UNSUPPORTED, "%s is not a core or a snapshot (it starts with \"" STR_FMT "\")", b->name, STR_ARG(starts));
	err_hint(err, "the core file itself; \"file %s\" says what it is", b->name);
	sb_free(&text);
	return ERR_UNSUPPORTED;
}

/* Every error names what may help; one that has nothing of its own is of a file that did not come over whole, or a disk that fails. */
static void any_hint(int rc, struct err *err)
{
	if (!err || err->hint[0])
		return;
	if (rc == ERR_IO)
		err_hint(err, "copy it to another disk; \"dmesg\" says when one fails");
	else
		err_hint(err, "copy it again; \"readelf -l\" shows what it holds");
}

int image_open_bytes(struct bytes *b, struct image **ret, struct err *err)
{
	const struct image_format *format = format_of(b);
	struct image *img = NULL;
	int rc;
	if (format) {
		img = image_new((struct abi){ 0 });
		struct image_facts *f = image_facts_mut(img);
		f->size = f->expected = f->file_size = b->size;
		rc = format->load(b, img, err);
		if (f->truncated && f->noted_end > f->expected) /* where the end is there, a note that leads past it is wrong */
			f->expected = f->noted_end;
	} else {
		rc = not_ours(b, err);
	}
	if (rc < 0) {
		any_hint(rc, err);
		image_close(img);
		bytes_close(b);
		return rc;
	}
	image_settle(img);
	*ret = img;
	return 0;
}

/* --- through a spool --- */

struct bytes_feed {
	struct bytes *b;
	uint64_t at;
};

static long bytes_feed_read(void *arg, void *buf, size_t len)
{
	struct bytes_feed *f = arg;
	uint64_t left = f->b->size - f->at;
	if (len > left)
		len = (size_t)left;
	errno = EIO;
	if (bytes_read(f->b, f->at, buf, len) < 0)
		return ERR_IO;
	f->at += len;
	return (long)len;
}

static long fd_feed_read(void *arg, void *buf, size_t len)
{
	ssize_t n;
	do
		n = read(*(int *)arg, buf, len);
	while (n < 0 && errno == EINTR);
	return n < 0 ? ERR_IO : (long)n;
}

/* "damaged at 88 MiB (zstd: Data corruption detected)" */
static void loss_words(const struct unpacked *how, struct sb *to)
{
	const char *codec = how->codec ? how->codec->name : "";
	char at[STR_SIZE];
	if (how->in >= 10240)
		str_size(how->in, at);
	else
		snprintf(at, sizeof at, "%llu bytes", (unsigned long long)how->in);
	if (how->cut)
		sb_printf(to, "cut off at %s, inside its %s stream", at, codec);
	else if (how->loss == ERR_IO)
		sb_printf(to, "not readable at %s (%s)", at, how->why);
	else
		sb_printf(to, "damaged at %s (%s: %s)", at, codec, how->why);
}

/* Why there is no image, where the content is as good as none. */
static int explain(int rc, const char *name, const struct unpacked *how, struct err *err)
{
	CLEANUP(cleanup_sb) struct sb words = { 0 };
	if (how->loss == ERR_MEMORY && !how->out) {
		err_set(err, ERR_MEMORY, "%s cannot be unpacked: %s: %s", name, how->codec->name, how->why);
		spool_hint(err, how->codec, name);
		return ERR_MEMORY;
	}
	if (how->loss) {
		loss_words(how, &words);
		err_set(err, how->loss == ERR_IO ? ERR_IO : ERR_CORRUPT, "%s is " STR_FMT "; %llu bytes of its content are too little", name,
			STR_ARG(sb_view(&words)), (unsigned long long)how->out);
		err_hint(err, "copy it again and compare sizes");
		return how->loss == ERR_IO ? ERR_IO : ERR_CORRUPT;
	}
	bool stdin_ = strcmp(name, spool_stdin) == 0;
	const bool none = rc == ERR_UNSUPPORTED || !how->out;
	if (none && stdin_)
		err_hint(err, "pyanalyze - < core");
	if (none && how->codec) {
		err_why(err, "this is what its %s stream holds", how->codec->name);
		if (!stdin_)
			err_hint(err, "the core file itself; \"%s %s | file -\" says what it is", how->codec->command, name);
	}
	return rc;
}

static int open_spooled(struct feed feed, const char *name, uint64_t size, int64_t mtime_ns, struct image **ret, struct err *err)
{
	struct bytes *b;
	struct unpacked how;
	struct image *img;
	int rc = spool(feed, name, size, is_image, &b, &how, err);
	if (rc < 0)
		return rc;
	b->mtime_ns = mtime_ns;
	rc = image_open_bytes(b, &img, err);
	if (rc < 0)
		return explain(rc, name, &how, err);
	struct image_facts *f = image_facts_mut(img);
	f->file_size = size ? size : how.in;
	if (how.codec)
		f->compression = how.codec->name;
	if (how.loss) {
		struct sb words = { 0 };
		loss_words(&how, &words);
		f->damage = sb_take(&words, image_arena(img));
	}
	*ret = img;
	return 0;
}

static int open_bytes(struct bytes *b, struct image **ret, struct err *err)
{
	uint8_t head[6];
	size_t len = b->size < sizeof head ? (size_t)b->size : sizeof head;
	if (format_of(b) || bytes_read(b, 0, head, len) < 0 || !codec_find(head, len))
		return image_open_bytes(b, ret, err);
	struct bytes_feed feed = { b, 0 };
	int rc = open_spooled((struct feed){ bytes_feed_read, &feed }, b->name, b->size, b->mtime_ns, ret, err);
	bytes_close(b);
	return rc;
}

static int open_stdin(struct image **ret, struct err *err)
{
	struct stat st;
	if (fstat(STDIN_FILENO, &st) < 0)
		return err_set(err, ERR_IO, "cannot read %s: %s", spool_stdin, strerror(errno)), err_hint(err, "pyanalyze - < core");
	if (isatty(STDIN_FILENO)) {
		err_set(err, ERR_UNSUPPORTED, "refusing to read a core from the terminal");
		return err_hint(err, "pyanalyze - < core");
	}
	if (S_ISREG(st.st_mode) && lseek(STDIN_FILENO, 0, SEEK_CUR) == 0) {
		struct bytes *b;
		int fd = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0);
		if (fd < 0)
			return err_set(err, ERR_IO, "cannot read %s: %s", spool_stdin, strerror(errno)), err_hint(err, "pyanalyze - < core");
		int rc = bytes_from_fd(fd, spool_stdin, &b, err);
		return rc < 0 ? rc : open_bytes(b, ret, err);
	}
	int fd = STDIN_FILENO;
	return open_spooled((struct feed){ fd_feed_read, &fd }, spool_stdin, 0, 0, ret, err);
}

/* Where cores are, of a file that is not: systemd's keeper of them, where it is the one here. */
static int hint_gone(struct err *err)
{
	char pattern[256] = "";
	CLEANUP(cleanup_fd) int fd = open("/proc/sys/kernel/core_pattern", O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, pattern, sizeof pattern - 1);
	pattern[n < 0 ? 0 : n] = 0;
	if (*pattern == '|' && strstr(pattern, "systemd-coredump"))
		return err_hint(err, "coredumpctl list; ls /var/lib/systemd/coredump");
	return err_hint(err, "another name; \"cat /proc/sys/kernel/core_pattern\" says where cores are written");
}

/* The shell's <(...): it is gone when the command is, so it is of no use to name it again. */
static bool of_a_shell(const char *path)
{
	return str_starts(str_of(path), "/dev/fd/") || str_starts(str_of(path), "/proc/self/fd/");
}

int image_open(const char *path, struct image **ret, struct err *err)
{
	if (strcmp(path, "-") == 0)
		return open_stdin(ret, err);
	struct bytes *b;
	int rc = bytes_open(path, &b, err);
	if (rc == ERR_GONE)
		return hint_gone(err), rc;
	if (rc == ERR_PERM)
		return err_hint(err, "sudo, or coredumpctl dump PID -o core"), rc;
	struct stat st;
	if (rc == ERR_UNSUPPORTED && stat(path, &st) == 0 && S_ISFIFO(st.st_mode))
		return of_a_shell(path) ? err_hint(err, "COMMAND | pyanalyze -, in place of pyanalyze <(COMMAND)") : err_hint(err, "pyanalyze - < %s", path), rc;
	if (rc < 0)
		any_hint(rc, err);
	return rc < 0 ? rc : open_bytes(b, ret, err);
}
