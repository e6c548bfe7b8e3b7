/* Reading and parsing /proc/PID; the kernel's text is bounded and checked like any other input. */
#include "image/proc.h"

#include <dirent.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

static int error_of(int e)
{
	switch (e) {
	case ENOENT:
	case ESRCH: return ERR_GONE;
	case EACCES:
	case EPERM: return ERR_PERM;
	}
	return ERR_IO;
}

int proc_open(pid_t pid, pid_t tid)
{
	char path[64];
	snprintf(path, sizeof path, "/proc/%d/task/%d", (int)pid, (int)tid);
	int fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	return fd >= 0 ? fd : error_of(errno);
}

int proc_open_tasks(pid_t pid)
{
	char path[64];
	snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return fd >= 0 ? fd : error_of(errno);
}

int proc_open_file(int dir, const char *name)
{
	int fd = openat(dir, name, O_RDONLY | O_CLOEXEC);
	return fd >= 0 ? fd : error_of(errno);
}

int proc_read(int dir, const char *name, size_t max, struct sb *b)
{
	CLEANUP(cleanup_fd) int fd = proc_open_file(dir, name);
	if (fd < 0)
		return fd;
	size_t start = b->len;
	char buf[4096];
	for (;;) {
		ssize_t n = read(fd, buf, sizeof buf);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return error_of(errno);
		if (n == 0)
			return 0;
		if ((size_t)n > max - (b->len - start))
			return ERR_LIMIT;
		sb_bytes(b, buf, (size_t)n);
	}
}

int proc_readlink(int dir, const char *name, struct sb *b)
{
	char buf[4096 + 16];
	ssize_t n = readlinkat(dir, name, buf, sizeof buf);
	if (n < 0)
		return error_of(errno);
	sb_bytes(b, buf, (size_t)n);
	return 0;
}

void proc_cmdline(int dir, size_t max, struct sb *b)
{
	const size_t start = b->len;
	int code = proc_read(dir, "cmdline", max, b);
	if (code && code != ERR_LIMIT)
		b->len = start;
	while (b->len > start && !b->s[b->len - 1])
		b->len--;
	for (size_t i = start; i < b->len; i++)
		if (!b->s[i])
			b->s[i] = ' ';
}

static bool hex_field(struct blob *line, uint64_t *ret, char end)
{
	uint64_t v = 0;
	size_t i = 0;
	for (; i < line->len && i < 17 && line->p[i] != (uint8_t)end; i++) {
		uint8_t c = line->p[i];
		unsigned d = c >= '0' && c <= '9' ? c - '0' + 0u : c >= 'a' && c <= 'f' ? c - 'a' + 10u : 16u;
		if (d > 15)
			return false;
		v = v << 4 | d;
	}
	if (!i || i > 16 || i == line->len)
		return false;
	line->p += i + 1;
	line->len -= i + 1;
	*ret = v;
	return true;
}

/* seq_path() writes a newline in a name as \012 and nothing else so; undone in place. */
static struct blob unescape(char *s, size_t len)
{
	size_t n = 0;
	for (size_t i = 0; i < len; i++) {
		if (len - i >= 4 && memcmp(s + i, "\\012", 4) == 0) {
			s[n++] = '\n';
			i += 3;
		} else {
			s[n++] = s[i];
		}
	}
	return (struct blob){ (const uint8_t *)s, n };
}

static bool parse_line(char *s, size_t len, struct proc_map *m)
{
	struct blob line = { (const uint8_t *)s, len };
	uint64_t major, minor;
	if (!hex_field(&line, &m->start, '-') || !hex_field(&line, &m->end, ' ') || m->start >= m->end || line.len < 5)
		return false;
	m->prot = (line.p[0] == 'r' ? 1u : 0) | (line.p[1] == 'w' ? 2u : 0) | (line.p[2] == 'x' ? 4u : 0);
	m->shared = line.p[3] == 's';
	line.p += 5;
	line.len -= 5;
	if (!hex_field(&line, &m->offset, ' ') || !hex_field(&line, &major, ':') || !hex_field(&line, &minor, ' '))
		return false;
	m->dev_major = (uint32_t)major;
	m->dev_minor = (uint32_t)minor;
	m->inode = 0;
	while (line.len && *line.p >= '0' && *line.p <= '9') {
		m->inode = m->inode * 10 + (uint64_t)(*line.p - '0');
		line.p++;
		line.len--;
	}
	while (line.len && *line.p == ' ') {
		line.p++;
		line.len--;
	}
	m->path = unescape(s + (line.p - (const uint8_t *)s), line.len);
	return true;
}

int proc_maps_read(int dir, struct proc_maps *m)
{
	m->n = m->len = 0;
	CLEANUP(cleanup_fd) int fd = openat(dir, "maps", O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return error_of(errno);
	for (;;) {
		if (m->text_room - m->len < 65536) {
			m->text_room = m->text_room * 2 + (256u << 10);
			m->text = xrealloc(m->text, m->text_room);
		}
		ssize_t n = read(fd, m->text + m->len, m->text_room - m->len);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return error_of(errno);
		if (n == 0)
			break;
		m->len += (size_t)n;
	}
	for (size_t at = 0; at < m->len;) {
		char *s = m->text + at, *nl = memchr(s, '\n', m->len - at);
		size_t len = nl ? (size_t)(nl - s) : m->len - at;
		at += len + 1;
		if (m->n == m->room)
			m->p = vec_grow_(m->p, m->n, &m->room, sizeof *m->p);
		struct proc_map *map = &m->p[m->n];
		if (!parse_line(s, len, map))
			return ERR_CORRUPT;
		/* A list read while the process maps and unmaps may repeat itself. */
		if (m->n && map->start < m->p[m->n - 1].end)
			continue;
		m->n++;
	}
	return m->n ? 0 : ERR_GONE; /* a process without memory has ended (or is the kernel's) */
}

void proc_maps_free(struct proc_maps *m)
{
	free(m->text);
	free(m->p);
	*m = (struct proc_maps){ 0 };
}

const struct proc_map *proc_maps_at(const struct proc_maps *m, addr_t addr)
{
	size_t lo = 0, hi = m->n;
	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;
		if (m->p[mid].end <= addr)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo < m->n && m->p[lo].start <= addr ? &m->p[lo] : NULL;
}

int proc_status_uint(struct str status, const char *key, unsigned base, uint64_t *ret)
{
	struct cursor c = cursor_of(status.s, status.len, false);
	struct blob line;
	size_t n = strlen(key);
	while (cursor_line(&c, &line) == 0) {
		if (line.len <= n || memcmp(line.p, key, n) != 0 || line.p[n] != ':')
			continue;
		char num[32] = "";
		size_t at = n + 1;
		while (at < line.len && (line.p[at] == '\t' || line.p[at] == ' '))
			at++;
		for (size_t i = 0; at < line.len && i < sizeof num - 1 && line.p[at] > ' '; i++)
			num[i] = (char)line.p[at++];
		char *end;
		unsigned long long v = strtoull(num, &end, (int)base);
		if (end == num)
			return ERR_ABSENT;
		*ret = v;
		return 0;
	}
	return ERR_ABSENT;
}

int proc_status_last(struct str status, const char *key, uint64_t *ret)
{
	struct cursor c = cursor_of(status.s, status.len, false);
	struct blob line;
	const size_t n = strlen(key);
	while (cursor_line(&c, &line) == 0) {
		if (line.len <= n || memcmp(line.p, key, n) != 0 || line.p[n] != ':')
			continue;
		uint64_t v = 0;
		bool any = false, in = false;
		for (size_t i = n + 1; i < line.len; i++) {
			const bool digit = line.p[i] >= '0' && line.p[i] <= '9';
			if (digit && !in)
				v = 0;
			if (digit && !(mul_fits(v, 10, &v) && add_fits(v, (uint64_t)(line.p[i] - '0'), &v)))
				return ERR_CORRUPT;
			any |= digit;
			in = digit;
		}
		if (!any)
			return ERR_ABSENT;
		*ret = v;
		return 0;
	}
	return ERR_ABSENT;
}

int proc_stat(int dir, struct proc_stat *ret)
{
	CLEANUP(cleanup_sb) struct sb b = { 0 };
	int err = proc_read(dir, "stat", 4096, &b);
	if (err)
		return err;
	sb_char(&b, '\0');
	/* The name may hold anything, ") R 1" too: it ends at the last parenthesis. */
	char *open = strchr(b.s, '('), *close = strrchr(b.s, ')');
	if (!open || !close || close < open || close[1] != ' ')
		return ERR_CORRUPT;
	struct proc_stat s = { 0 };
	size_t len = (size_t)(close - open - 1);
	if (len >= sizeof s.comm)
		len = sizeof s.comm - 1;
	memcpy(s.comm, open + 1, len);
	int ppid, pgrp, session, nice;
	unsigned flags;
	unsigned long long ut, st, start;
	int n = sscanf(close + 2, "%c %d %d %d %*d %*d %u %*u %*u %*u %*u %llu %llu %*d %*d %*d %d %*d %*d %llu", &s.state, &ppid,
		       &pgrp, &session, &flags, &ut, &st, &nice, &start);
	if (n != 9)
		return ERR_CORRUPT;
	s.ppid = ppid;
	s.pgrp = pgrp;
	s.session = session;
	s.flags = flags;
	s.utime = ut;
	s.stime = st;
	s.nice = nice;
	s.start = start;
	*ret = s;
	return 0;
}

int proc_abi(int dir, struct abi *ret)
{
	CLEANUP(cleanup_fd) int fd = openat(dir, "exe", O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return error_of(errno);
	uint8_t h[20];
	if (pread(fd, h, sizeof h, 0) != (ssize_t)sizeof h || memcmp(h, ELFMAG, SELFMAG) != 0)
		return ERR_UNSUPPORTED;
	if ((h[EI_CLASS] != ELFCLASS32 && h[EI_CLASS] != ELFCLASS64) || (h[EI_DATA] != ELFDATA2LSB && h[EI_DATA] != ELFDATA2MSB))
		return ERR_UNSUPPORTED;
	struct abi abi = { .width = h[EI_CLASS] == ELFCLASS64 ? 8 : 4, .big_endian = h[EI_DATA] == ELFDATA2MSB };
	abi.machine = (uint16_t)(abi.big_endian ? h[18] << 8 | h[19] : h[19] << 8 | h[18]);
	*ret = abi;
	return 0;
}

int proc_tids(int task_fd, struct tids *ret)
{
	ret->n = 0;
	if (lseek(task_fd, 0, SEEK_SET) < 0)
		return error_of(errno);
	union {
		char bytes[4096];
		struct dirent64 align;
	} buf;
	for (;;) {
		long n = syscall(SYS_getdents64, task_fd, &buf, sizeof buf);
		if (n < 0)
			return error_of(errno);
		if (n == 0)
			break;
		for (long at = 0; at < n;) {
			const struct dirent64 *d = (const struct dirent64 *)(const void *)(buf.bytes + at);
			at += d->d_reclen;
			if (d->d_name[0] < '1' || d->d_name[0] > '9')
				continue;
			long tid = strtol(d->d_name, NULL, 10);
			*vec_push(ret) = (pid_t)tid;
		}
	}
	return ret->n ? 0 : ERR_GONE;
}

static int live_tid_once(pid_t pid, pid_t *ret)
{
	CLEANUP(cleanup_fd) int fd = proc_open_tasks(pid);
	if (fd < 0)
		return fd;
	struct tids tids = { 0 };
	int err = proc_tids(fd, &tids), unknown = 0;
	for (size_t i = 0; !err && i < tids.n; i++) {
		CLEANUP(cleanup_fd) int dir = proc_open(pid, tids.p[i]);
		struct proc_stat st;
		int code = dir < 0 ? dir : proc_stat(dir, &st);
		if (!code && st.state != 'Z' && st.state != 'X' && !(st.flags & PROC_EXITING)) {
			*ret = tids.p[i];
			vec_free(&tids);
			return 0;
		}
		if (code && code != ERR_GONE) { /* too many files are open, say: it may live */
			unknown = code;
			break;
		}
	}
	int saved = errno;
	vec_free(&tids);
	errno = saved;
	return err ? err : unknown ? unknown : ERR_GONE;
}

int proc_live_tid(pid_t pid, pid_t *ret)
{
	enum { TRIES = 3 };
	int code = ERR_GONE;
	/* Between the list and the look an execve may have given the first thread's number to the only one that lives. */
	for (unsigned i = 0; i < TRIES && code == ERR_GONE; i++)
		code = live_tid_once(pid, ret);
	return code;
}

size_t proc_peek(pid_t tid, int mem_fd, addr_t addr, void *buf, size_t len)
{
	size_t done = 0;
	while (done < len) {
		struct iovec to = { (char *)buf + done, len - done };
		struct iovec from = { (void *)(uintptr_t)(addr + done), len - done };
		ssize_t n = process_vm_readv(tid, &to, 1, &from, 1, 0);
		if (n <= 0 && mem_fd >= 0 && addr + done <= INT64_MAX) {
			/* One page, so that the faster way is taken again behind it. */
			size_t page = 4096 - (size_t)((addr + done) & 4095);
			n = pread(mem_fd, to.iov_base, len - done < page ? len - done : page, (off_t)(addr + done));
		}
		if (n <= 0)
			break;
		done += (size_t)n;
	}
	return done;
}
