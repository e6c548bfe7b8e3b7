/*
 * Stop, copy, let go.  What can be done before the stop is: what the copy will need is counted, compared with free memory,
 * allocated and touched; files are opened.  While the process is stopped: registers, the list of mappings,
 * the page tables, and the copy into memory that is there already.
 */
#include "snap/held.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <time.h>
#include <unistd.h>

#include "snap/copy.h"
#include "snap/haste.h"
#include "snap/memory.h"
#include "snap/refusal.h"

enum {
	FREEZE_TRIES = 3,
	PAGE = 4096,
};

/* -- what to keep of a mapping -- */

/* Lines of smaps that say how the kernel may treat a mapping, in the order of maps. */
struct flagged { addr_t start, end; bool dontdump, device; };
struct flags VEC(struct flagged);

static bool has_word(struct blob line, const char *word)
{
	return memmem(line.p, line.len, word, strlen(word)) != NULL;
}

static bool path_starts(const struct proc_map *m, const char *prefix)
{
	size_t n = strlen(prefix);
	return m->path.len >= n && memcmp(m->path.p, prefix, n) == 0;
}

static bool path_ends(const struct proc_map *m, const char *suffix)
{
	size_t n = strlen(suffix);
	return m->path.len >= n && memcmp(m->path.p + m->path.len - n, suffix, n) == 0;
}

/* smaps walks all page tables, so it is read before the stop; a mapping made between then and the stop counts as ordinary. */
static int flags_read(int dir, struct flags *ret)
{
	CLEANUP(cleanup_sb) struct sb text = { 0 };
	int code = proc_read(dir, "smaps", (size_t)1 << 30, &text);
	if (code)
		return code;
	struct cursor c = cursor_of(text.s, text.len, false);
	struct blob line;
	addr_t start = 0, end = 0;
	while (cursor_line(&c, &line) == 0) {
		char head[40] = "";
		memcpy(head, line.p, line.len < sizeof head - 1 ? line.len : sizeof head - 1);
		unsigned long long a, b;
		if (sscanf(head, "%llx-%llx ", &a, &b) == 2) {
			start = a;
			end = b;
		} else if (strncmp(head, "VmFlags:", 8) == 0 && end) {
			struct flagged f = { start, end, has_word(line, " dd"), has_word(line, " io") || has_word(line, " pf") };
			if (f.dontdump || f.device)
				*vec_push(ret) = f;
		}
	}
	return 0;
}

static struct region region_of(const struct proc_map *m, bool flagged)
{
	struct region r = { .map = m, .keep = KEEP_OWN };
	if (path_starts(m, "[vvar") || path_starts(m, "[vsyscall") || path_starts(m, "[uprobes")) {
		r.keep = KEEP_NOTHING; /* the kernel's; cannot be read from outside */
		r.excluded = true;
		return r;
	}
	if (path_starts(m, "[vdso")) {
		r.keep = KEEP_ALL;
		return r;
	}
	if (path_starts(m, "/dev/") && !path_starts(m, "/dev/shm/") && !path_starts(m, "/dev/zero") && m->shared) {
		r.keep = KEEP_NOTHING;
		r.excluded = true;
		return r;
	}
	if (flagged) {
		r.keep = KEEP_NOTHING;
		r.excluded = true;
	}
	/* As the kernel's cores: shared memory without a name (its inode has no link), not files shared with others. */
	if (m->shared && !r.excluded)
		r.keep = path_ends(m, " (deleted)") ? KEEP_MAPPED : KEEP_NOTHING;
	return r;
}

/* -- memory for the copy -- */

static int too_little(const struct capture *c, uint64_t need, uint64_t have, struct err *err)
{
	char a[STR_SIZE], b[STR_SIZE];
	str_size(need, a);
	str_size(have, b);
	err_set(err, ERR_MEMORY, "copying process %d needs about %s of memory, %s are free; the process was not stopped", (int)c->pid, a, b);
	err_hint(err, "free some memory, or gcore %d, which writes to the disk while the process is stopped", (int)c->pid);
	return ERR_MEMORY;
}

static int interrupted(const struct capture *c, struct err *err)
{
	if (!c->opt.interrupted || !*c->opt.interrupted)
		return 0;
	return err_set(err, ERR_LIMIT, "interrupted; process %d runs on", (int)c->pid);
}

/* Touch every page of the buffer now: first use of a page costs more than copying into it. */
static int populate(struct capture *c, uint64_t size, struct err *err)
{
	enum { STEP = 64 << 20 };
	madvise(c->data, c->data_size, MADV_HUGEPAGE);
	for (uint64_t at = 0; at < size; at += STEP) {
		size_t n = size - at < STEP ? (size_t)(size - at) : STEP;
		if (interrupted(c, err))
			return ERR_LIMIT;
#ifdef MADV_POPULATE_WRITE
		if (madvise(c->data + at, n, MADV_POPULATE_WRITE) == 0)
			continue;
		if (errno == ENOMEM)
			return too_little(c, size, memory_free(), err);
#endif
		for (size_t i = 0; i < n; i += PAGE)
			((volatile uint8_t *)c->data)[at + i] = 0;
	}
	return 0;
}

static int reserve(struct capture *c, uint64_t total, struct err *err)
{
	/* Headroom for what the process adds until it stands still; address space for more than that costs nothing. */
	uint64_t want = total + total / 16 + (4 << 20), spare = total + (64 << 20);
	uint64_t have = memory_free(), margin = want / 32 + (16 << 20);
	if (want + margin > have)
		return too_little(c, want, have, err);
	c->data_size = want + spare;
	c->data = mmap(NULL, c->data_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (c->data == MAP_FAILED) {
		c->data_size = want;
		c->data = mmap(NULL, c->data_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	}
	if (c->data == MAP_FAILED) {
		c->data = NULL;
		return too_little(c, want, have, err);
	}
	return populate(c, want, err);
}

/* -- the plan: regions and the ranges in them that exist -- */

/* The pages of a region.  Without PAGEMAP_SCAN a terabyte takes a second, so it goes step by step. */
static int find(const struct capture *c, int pagemap, const struct region *r, struct ranges *ret, struct err *err)
{
	const uint64_t step = (uint64_t)64 << 30;
	ret->n = 0;
	if (r->keep == KEEP_ALL)
		*vec_push(ret) = (struct range){ r->map->start, r->map->end };
	if (r->keep == KEEP_ALL || r->keep == KEEP_NOTHING)
		return 0;
	for (addr_t at = r->map->start, end; at < r->map->end; at = end) {
		end = r->map->end - at > step ? at + step : r->map->end;
		int code = pages_find(pagemap, at, end, r->keep == KEEP_OWN ? PAGES_OWN : PAGES_MAPPED, ret);
		if (code)
			return code;
		if (interrupted(c, err) || (c->frozen && frozen_over(c->frozen)))
			return ERR_LIMIT;
	}
	return 0;
}

static int plan(struct capture *c, int pagemap, const struct flags *flags, struct ranges *scratch, uint64_t *total, struct err *err)
{
	c->regions.n = c->kept.n = 0;
	uint64_t at = 0;
	size_t flag = 0, only_memory = 0;
	for (size_t i = 0; i < c->files.n && c->opt.bundle != BUNDLE_NONE; i++)
		only_memory += c->files.p[i].only_memory;
	for (size_t i = 0; i < c->maps.n; i++) {
		const struct proc_map *m = &c->maps.p[i];
		struct region *r = vec_push(&c->regions);
		while (flag < flags->n && flags->p[flag].end <= m->start)
			flag++;
		*r = region_of(m, flag < flags->n && flags->p[flag].start < m->end);
		if (only_memory && r->keep == KEEP_OWN && (m->prot & 1) && m->end - m->start <= WHOLE_FILE && files_only_memory(&c->files, m))
			r->keep = KEEP_ALL;
		r->first = c->kept.n;
		int code = find(c, pagemap, r, scratch, err);
		if (code)
			return code;
		for (size_t k = 0; k < scratch->n; k++) {
			*vec_push(&c->kept) = (struct kept){ scratch->p[k].start, scratch->p[k].end, at };
			at += scratch->p[k].end - scratch->p[k].start;
		}
		r->n = c->kept.n - r->first;
	}
	*total = at;
	return 0;
}

static int gave_up(const struct capture *c, uint64_t total, struct err *err)
{
	char size[STR_SIZE];
	str_size(total, size);
	err_set(err, ERR_LIMIT, "gave up after %g s: process %d (%s) was still being copied; it runs again", c->opt.freeze.max_pause_ms / 1000.0,
		(int)c->pid, size);
	/* What was copied by then says little of what was left: several times as long. */
	err_hint(err, "--max-pause=%g, or 0, which has no limit", (c->opt.freeze.max_pause_ms < 1000 ? 1000 : c->opt.freeze.max_pause_ms * 5.0) / 1000);
	return ERR_LIMIT;
}

static bool same_bytes(const struct sb *a, const struct sb *b)
{
	return a->len == b->len && (!a->len || memcmp(a->s, b->s, a->len) == 0);
}

/* The process stands still from freeze to thaw. */
static int stop_and_copy(struct capture *c, struct copy *copy, const struct flags *flags, struct ranges *scratch, struct err *err)
{
	struct haste before;
	haste_begin(&before);
	int code = freeze(c->pid, &c->opt.freeze, &c->frozen, err);
	/* Threads wait inside the kernel for moments: for a disk, for a child in vfork. */
	for (unsigned i = 0; i < FREEZE_TRIES && code == ERR_LIMIT && !interrupted(c, err); i++) {
		nanosleep(&(struct timespec){ .tv_nsec = 200000000 }, NULL);
		code = freeze(c->pid, &c->opt.freeze, &c->frozen, err);
	}
	if (code) {
		haste_end(&before);
		return code;
	}
	c->tid = frozen_tid(c->frozen);
	CLEANUP(cleanup_fd) int dir = proc_open(c->pid, c->tid);
	CLEANUP(cleanup_fd) int pagemap = dir < 0 ? dir : proc_open_file(dir, "pagemap");
	CLEANUP(cleanup_fd) int mem = pagemap < 0 ? pagemap : proc_open_file(dir, "mem");
	CLEANUP(cleanup_sb) struct sb exe = { 0 }, auxv = { 0 };
	uint64_t total = 0;
	code = mem < 0 ? mem : proc_readlink(dir, "exe", &exe);
	if (!code && c->auxv.len)
		code = proc_read(dir, "auxv", 65536, &auxv);
	if (!code)
		code = proc_maps_read(dir, &c->maps);
	/* By execve, of the same program too: the auxiliary vector has the random places of the stack and of the vdso. */
	bool replaced = !code && !(same_bytes(&exe, &c->exe) && same_bytes(&auxv, &c->auxv));
	if (!code)
		code = plan(c, pagemap, flags, scratch, &total, err);
	int e = errno;
	bool grew = !code && total > c->data_size;
	if (!code && !grew && !replaced) {
		code = copy_run(copy, c->tid, mem, total);
		if (code == ERR_LIMIT && interrupted(c, err))
			code = ERR_LIMIT;
	}
	c->stopped_ns = thaw(c->frozen);
	haste_end(&before);
	c->data_used = total;
	if (frozen_died(c->frozen) || code == ERR_GONE)
		return refusal_ended(c->pid, err);
	if (frozen_over(c->frozen))
		return gave_up(c, total, err);
	if (replaced)
		return refusal_replaced(c->pid, err);
	if (grew) {
		char was[STR_SIZE], now[STR_SIZE];
		str_size(c->data_size / 2, was);
		str_size(total, now);
		err_set(err, ERR_MEMORY, "process %d grew from about %s to %s before it was stopped; it runs again", (int)c->pid, was, now);
		err_hint(err, "the same again");
		return ERR_MEMORY;
	}
	if (code == ERR_LIMIT)
		return code;
	errno = e;
	return code ? refusal_read(c->pid, code, "the memory", err) : 0;
}

/* -- before the stop -- */

static int64_t clock_ns(clockid_t clock)
{
	struct timespec t;
	clock_gettime(clock, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* Are addresses random here, so that two programs that were executed do not have the same? */
static bool addresses_random(int dir)
{
	CLEANUP(cleanup_sb) struct sb switched = { 0 }, flags = { 0 };
	if (proc_read(AT_FDCWD, "/proc/sys/kernel/randomize_va_space", 64, &switched) || !switched.len || switched.s[0] == '0' ||
	    proc_read(dir, "personality", 64, &flags) || !flags.len)
		return false;
	sb_char(&flags, '\0');
	return !(strtoul(flags.s, NULL, 16) & ADDR_NO_RANDOMIZE);
}

/*
 * Who the parent is, and whether what it executed is what this process was executed as: the auxiliary vector, which exec makes and
 * fork copies, holds the random places of the stack and of the vdso.
 */
static void describe_parent(struct capture *c, int dir)
{
	struct proc_stat parent, now;
	CLEANUP(cleanup_sb) struct sb auxv = { 0 };
	CLEANUP(cleanup_fd) int theirs = c->stat.ppid > 0 ? proc_open(c->stat.ppid, c->stat.ppid) : -1;
	c->parent.same_exec = -1;
	if (theirs < 0 || proc_stat(theirs, &parent))
		return;
	const bool known = !proc_read(theirs, "auxv", 65536, &auxv) && auxv.len && c->auxv.len && addresses_random(dir) && addresses_random(theirs);
	if (proc_stat(dir, &now) || now.ppid != c->stat.ppid) /* it has ended: its number may be another's */
		return;
	c->parent.pid = c->stat.ppid;
	snprintf(c->parent.comm, sizeof c->parent.comm, "%s", parent.comm);
	if (known)
		c->parent.same_exec = same_bytes(&auxv, &c->auxv);
}

static int describe(struct capture *c, int dir, struct err *err)
{
	CLEANUP(cleanup_sb) struct sb status = { 0 };
	uint64_t ns;
	int code = proc_stat(dir, &c->stat);
	if (!code)
		code = proc_read(dir, "status", 65536, &status);
	if (!code)
		code = proc_readlink(dir, "exe", &c->exe);
	if (!code)
		code = proc_abi(dir, &c->abi);
	if (code)
		return refusal_read(c->pid, code, "the state", err);
	if (proc_status_uint(sb_view(&status), "Uid", 10, &c->uid))
		c->uid = 0;
	if (proc_status_uint(sb_view(&status), "Gid", 10, &c->gid))
		c->gid = 0;
	/* What is not there is left out of the file. */
	c->ns_pid = proc_status_last(sb_view(&status), "NSpid", &ns) == 0 && ns <= INT32_MAX ? (int64_t)ns : 0;
	if (proc_read(dir, "auxv", 65536, &c->auxv))
		c->auxv.len = 0;
	if (proc_readlink(dir, "cwd", &c->cwd))
		c->cwd.len = 0;
	proc_cmdline(dir, 1 << 20, &c->cmdline);
	if (proc_read(AT_FDCWD, "/proc/sys/kernel/random/boot_id", 64, &c->boot_id) == 0 && c->boot_id.len)
		c->boot_id.len--;
	describe_parent(c, dir);
	int64_t boot = clock_ns(CLOCK_REALTIME) - clock_ns(CLOCK_BOOTTIME);
	long hz = sysconf(_SC_CLK_TCK);
	c->start_ns = hz > 0 && c->stat.start < INT64_MAX / 1000000000 ? boot + (int64_t)c->stat.start * (1000000000 / hz) : 0;
	return 0;
}

static void note_excluded(struct capture *c, const struct flags *flags)
{
	for (size_t i = 0; i < flags->n; i++)
		*vec_push(&c->missing) = (struct missing){ flags->p[i].start, flags->p[i].end, 0,
							   flags->p[i].dontdump ? WHY_DONTDUMP : WHY_DEVICE };
}

int capture(pid_t pid, const struct capture_options *opt, struct capture **ret, struct err *err)
{
	int code = freeze_check(pid, err);
	if (code)
		return code;
	struct capture *c = xcalloc(1, sizeof *c);
	c->pid = pid;
	c->opt = *opt;
	struct flags flags = { 0 };
	struct ranges scratch = { 0 };
	CLEANUP(cleanup_fd) int dir = -1;
	CLEANUP(cleanup_fd) int pagemap = -1;
	uint64_t total = 0;
	code = proc_live_tid(pid, &c->tid);
	if (!code) {
		dir = proc_open(pid, c->tid);
		code = dir < 0 ? dir : proc_maps_read(dir, &c->maps);
	}
	if (!code)
		code = flags_read(dir, &flags);
	if (code) {
		code = refusal_read(pid, code, "the mappings", err);
		goto out;
	}
	code = describe(c, dir, err);
	if (code)
		goto out;
	files_open(c->tid, &c->maps, &c->files);
	pagemap = proc_open_file(dir, "pagemap");
	code = pagemap < 0 ? refusal_read(pid, pagemap, "the page map", err)
			   : plan(c, pagemap, &flags, &scratch, &total, err);
	if (code == ERR_GONE)
		code = refusal_ended(pid, err);
	if (!code)
		code = reserve(c, total, err);
	if (!code)
		code = interrupted(c, err);
	struct copy *copy = code ? NULL : copy_new(c, total);
	if (!code)
		code = stop_and_copy(c, copy, &flags, &scratch, err);
	copy_free(copy);
	if (!code) {
		note_excluded(c, &flags);
		files_open(c->tid, &c->maps, &c->files); /* what was mapped meanwhile */
	}
out:
	vec_free(&flags);
	vec_free(&scratch);
	if (code)
		capture_free(c);
	else
		*ret = c;
	return code;
}

int64_t capture_stopped_ns(const struct capture *c)
{
	return c->stopped_ns;
}

uint64_t capture_bytes(const struct capture *c)
{
	return c->image_bytes ? c->image_bytes : c->data_used;
}

size_t capture_unopened(const struct capture *c)
{
	size_t n = 0;
	for (size_t i = 0; i < c->files.n; i++)
		n += c->files.p[i].too_many;
	return n;
}

struct capture_unnamed capture_unnamed(const struct capture *c)
{
	return c->unnamed;
}

size_t capture_lost(const struct capture *c, uint64_t *bytes)
{
	size_t n = 0;
	*bytes = c->late_lost;
	for (size_t i = 0; i < c->missing.n; i++) {
		if (c->missing.p[i].why != WHY_UNREADABLE)
			continue;
		*bytes += c->missing.p[i].end - c->missing.p[i].start;
		/* Pages side by side are one region. */
		n += !i || c->missing.p[i - 1].end != c->missing.p[i].start;
	}
	return n + (c->late_lost > 0);
}

void capture_free(struct capture *c)
{
	if (!c)
		return;
	frozen_free(c->frozen);
	proc_maps_free(&c->maps);
	vec_free(&c->regions);
	vec_free(&c->kept);
	vec_free(&c->missing);
	files_close(&c->files);
	if (c->data)
		munmap(c->data, c->data_size);
	sb_free(&c->auxv);
	sb_free(&c->exe);
	sb_free(&c->cwd);
	sb_free(&c->cmdline);
	sb_free(&c->boot_id);
	free(c);
}
