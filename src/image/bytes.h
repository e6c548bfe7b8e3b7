/* Random access over a file, memory, or what another layer unpacks; nothing is read before it is asked for. */
#ifndef IMAGE_BYTES_H
#define IMAGE_BYTES_H

#include "base/cursor.h"

/*
 * size: bytes there really are.  read: exactly [off, off+len) inside size, 0 or ERR_IO / ERR_CORRUPT.
 * hole (may be NULL): at off, how many bytes up to *end are known to be zero without reading (SEEK_DATA); 0 if data.
 */
struct bytes {
	uint64_t size;
	int (*read)(struct bytes *b, uint64_t off, void *buf, size_t len);
	uint64_t (*hole)(struct bytes *b, uint64_t off);
	void (*close)(struct bytes *b);
	const char *name; /* for messages; borrowed by whoever made it */
	int64_t mtime_ns; /* when the file was last written, CLOCK_REALTIME; 0: no file */
};

/* A regular file, opened without blocking; ERR_IO, ERR_PERM, ERR_GONE (no such file), ERR_UNSUPPORTED (not a regular file). */
int bytes_open(const char *path, struct bytes **ret, struct err *err) MUST_CHECK;
int bytes_from_fd(int fd, const char *name, struct bytes **ret, struct err *err) MUST_CHECK; /* takes over fd */
struct bytes *bytes_from_memory(const void *p, size_t len, const char *name); /* borrows p */
void bytes_close(struct bytes *b); /* takes NULL */
int bytes_read(struct bytes *b, uint64_t off, void *buf, size_t len) MUST_CHECK; /* checks the bounds: ERR_FAULT past the end */

#endif
