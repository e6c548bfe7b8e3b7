/*
 * A running process as an image: /proc/PID/maps and process_vm_readv.  It is not stopped, so what is read may change
 * from one read to the next; pysnap uses it to find the runtime before the stop.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "image/image.h"
#include "image/proc.h"

struct live {
	pid_t tid;      /* a thread that lives: the first one may have ended */
	int mem_fd;     /* -1 if it cannot be opened */
};
struct live_segment {
	const struct live *live;
	addr_t start;
};

static int live_read(void *ctx, uint64_t offset, void *buf, size_t len)
{
	const struct live_segment *s = ctx;
	if (len > 65536)
		return proc_peek(s->live->tid, s->live->mem_fd, s->start + offset, buf, len) == len ? 0 : ERR_FAULT;
	/* The caller's buffer stays untouched where not all of it is there. */
	char few[1024];
	CLEANUP(cleanup_free) char *many = len > sizeof few ? xmalloc(len) : NULL;
	char *part = many ? many : few;
	if (proc_peek(s->live->tid, s->live->mem_fd, s->start + offset, part, len) != len)
		return ERR_FAULT;
	memcpy(buf, part, len);
	return 0;
}

static void live_close(void *p)
{
	struct live *l = p;
	if (l->mem_fd >= 0)
		close(l->mem_fd);
	free(l);
}

static int fail(int code, pid_t pid, const char *what, struct err *err)
{
	if (code == ERR_GONE) {
		err_set(err, code, "no process %d", (int)pid);
		err_hint(err, "pgrep -af python");
		return code;
	}
	int e = errno;
	err_set(err, code, "cannot read %s of process %d: %s", what, (int)pid, code == ERR_IO || code == ERR_PERM ? strerror(e) : err_word(code));
	return err_hint(err, code == ERR_IO && e == EMFILE ? "ulimit -n 1024" : code == ERR_PERM ? "sudo" : "the same again");
}

/* Reading device memory may do things; the kernel's own pages cannot be read this way. */
static bool readable(const struct proc_map *m)
{
	static const char *const skip[] = { "[vvar", "[vsyscall", "/dev/" };
	if (!(m->prot & 1))
		return false;
	for (size_t i = 0; i < sizeof skip / sizeof skip[0]; i++) {
		size_t n = strlen(skip[i]);
		if (m->path.len >= n && memcmp(m->path.p, skip[i], n) == 0)
			return m->path.len >= 8 && (memcmp(m->path.p, "/dev/shm", 8) == 0 || memcmp(m->path.p, "/dev/zer", 8) == 0);
	}
	return true;
}

static struct str text_of(struct arena *a, const struct sb *b)
{
	return str_from_bytes(a, b->s ? b->s : "", b->len);
}

static void add_facts(struct image *img, pid_t pid, int dir)
{
	struct arena *a = image_arena(img);
	struct image_facts *f = image_facts_mut(img);
	f->kind = IMAGE_LIVE;
	f->pid = pid;
	f->ppid = f->uid = f->stopped_ns = -1;
	struct sb b = { 0 };
	uint64_t v;
	if (proc_read(dir, "status", 65536, &b) == 0) {
		if (proc_status_uint(sb_view(&b), "PPid", 10, &v) == 0)
			f->ppid = (int64_t)v;
		if (proc_status_uint(sb_view(&b), "Uid", 10, &v) == 0)
			f->uid = (int64_t)v;
	}
	b.len = 0;
	if (proc_readlink(dir, "exe", &b) == 0)
		f->exe = text_of(a, &b);
	b.len = 0;
	if (proc_readlink(dir, "cwd", &b) == 0)
		f->cwd = text_of(a, &b);
	b.len = 0;
	proc_cmdline(dir, 1 << 20, &b);
	if (b.len)
		f->cmdline = text_of(a, &b);
	b.len = 0;
	if (proc_read(dir, "auxv", 65536, &b) == 0)
		f->auxv = (struct blob){ b.len ? arena_dup(a, b.s, b.len) : NULL, b.len };
	sb_free(&b);
	struct proc_stat st;
	if (proc_stat(dir, &st) == 0)
		f->comm = str_from_bytes(a, st.comm, strlen(st.comm));
}

static int add_threads(struct image *img, pid_t pid)
{
	CLEANUP(cleanup_fd) int task = proc_open_tasks(pid);
	if (task < 0)
		return task;
	struct tids tids = { 0 };
	int err = proc_tids(task, &tids);
	for (size_t i = 0; !err && i < tids.n; i++) {
		CLEANUP(cleanup_fd) int dir = proc_open(pid, tids.p[i]);
		struct proc_stat st;
		int code = dir < 0 ? dir : proc_stat(dir, &st);
		if (code && code != ERR_GONE)
			err = code;
		if (code || st.state == 'Z' || st.state == 'X')
			continue; /* ended meanwhile */
		struct thread *t = image_add_thread(img);
		t->tid = tids.p[i];
		t->state = st.state;
		t->name = str_from_bytes(image_arena(img), st.comm, strlen(st.comm));
		t->regs.syscall.nr = -1;
	}
	vec_free(&tids);
	return err;
}

int image_attach(pid_t pid, struct image **ret, struct err *err)
{
	pid_t tid;
	int code = proc_live_tid(pid, &tid);
	if (code)
		return fail(code, pid, "the threads", err);
	CLEANUP(cleanup_fd) int dir = proc_open(pid, tid);
	if (dir < 0)
		return fail(dir, pid, "the folder", err);
	struct abi abi;
	code = proc_abi(dir, &abi);
	struct proc_stat st;
	if (code == ERR_GONE && proc_stat(dir, &st) == 0 && (st.flags & PROC_KERNEL)) {
		err_set(err, ERR_UNSUPPORTED, "process %d belongs to the kernel and has no memory of its own", (int)pid);
		return err_hint(err, "pgrep -af python");
	}
	if (code)
		return fail(code, pid, "the program", err);
	struct proc_maps maps = { 0 };
	code = proc_maps_read(dir, &maps);
	if (code) {
		proc_maps_free(&maps);
		return fail(code, pid, "the mappings", err);
	}
	struct image *img = image_new(abi);
	struct arena *a = image_arena(img);
	struct live *live = xcalloc(1, sizeof *live);
	live->tid = tid;
	live->mem_fd = proc_open_file(dir, "mem");
	image_own(img, live, live_close);
	for (size_t i = 0; !code && i < maps.n; i++) {
		const struct proc_map *m = &maps.p[i];
		struct mapping *mapping = image_add_mapping(img);
		*mapping = (struct mapping){ m->start, m->end, m->offset, m->prot, m->inode, { NULL, m->path.len } };
		if (m->path.len)
			mapping->path.p = arena_dup(a, m->path.p, m->path.len);
		if (!readable(m))
			continue;
		struct live_segment *s = arena_alloc(a, sizeof *s);
		*s = (struct live_segment){ live, m->start };
		code = image_add_segment(img, &(struct segment){ .start = m->start, .size = m->end - m->start, .prot = m->prot,
								 .read = live_read, .ctx = s }, LAY_OVER);
	}
	proc_maps_free(&maps);
	add_facts(img, pid, dir);
	if (!code)
		code = add_threads(img, pid);
	if (code) {
		image_close(img);
		return fail(code, pid, "the mappings", err);
	}
	image_settle(img);
	*ret = img;
	return 0;
}
