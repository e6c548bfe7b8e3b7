/* src/snap/capture: what is kept of a process, read back from the .pz that was written. */
#include "snap/capture.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "snap/pages.h"
#include "suite.h"
#include "target.h"

#ifndef MADV_GUARD_INSTALL
#define MADV_GUARD_INSTALL 102
#endif

enum { PAGE = 4096 };

static void wait_for_ever(struct shared *s)
{
	atomic_store(&s->ready, 1);
	for (;;) {
		atomic_fetch_add(&s->count, 1);
		sleep_ms(1);
	}
}

static char *map(size_t size, int flags)
{
	char *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_ANONYMOUS | flags, -1, 0);
	if (p == MAP_FAILED)
		_exit(9);
	return p;
}

/* A snapshot of the target as an image; sets *size to the file's. */
static struct image *snap(const struct target *t, enum bundle bundle, uint64_t *size, size_t *lost)
{
	struct capture_options opt = { .freeze = { .max_pause_ms = 20000, .deadline_ms = 5000 }, .bundle = bundle, .level = 1 };
	struct capture *c;
	struct err err = { 0 };
	ck_assert_msg(capture(t->pid, &opt, &c, &err) == 0, "%s; %s", err.msg, err.why);
	int fd = (int)syscall(SYS_memfd_create, "snap.pz", 0);
	ck_assert_int_ge(fd, 0);
	ck_assert_msg(capture_write(c, fd, &err) == 0, "%s", err.msg);
	struct stat st;
	ck_assert_int_eq(fstat(fd, &st), 0);
	ck_assert_uint_eq((uint64_t)st.st_size, capture_written(c));
	if (size)
		*size = (uint64_t)st.st_size;
	uint64_t bytes;
	size_t n = capture_lost(c, &bytes);
	if (lost)
		*lost = n;
	else
		ck_assert_uint_eq(n, 0);
	capture_free(c);
	struct bytes *b;
	struct image *img;
	ck_assert_int_eq(bytes_from_fd(fd, "snap.pz", &b, &err), 0);
	ck_assert_msg(image_open_bytes(b, &img, &err) == 0, "%s", err.msg);
	return img;
}

static void expect_byte(struct image *img, uintptr_t addr, uint8_t want)
{
	uint8_t got = (uint8_t)~want;
	ck_assert_msg(image_read(img, addr, &got, 1) == 0, "%#lx is not there", (unsigned long)addr);
	ck_assert_uint_eq(got, want);
}

static void expect_absent(struct image *img, uintptr_t addr)
{
	uint8_t got;
	ck_assert_msg(image_read(img, addr, &got, 1) == ERR_FAULT, "%#lx is there", (unsigned long)addr);
}

/* --- sparse memory --- */

static void sparse(struct shared *s)
{
	char *p = map((size_t)64 << 30, MAP_PRIVATE | MAP_NORESERVE);
	s->at[0] = (uintptr_t)p;
	madvise(p, (size_t)64 << 30, MADV_NOHUGEPAGE);
	for (size_t i = 0; i < 64; i++)
		p[(i << 30) + (i << 12)] = (char)(i + 1);
	wait_for_ever(s);
}

START_TEST(sparse_memory_is_small_and_fast)
{
	struct target t = target_start(sparse);
	uint64_t size;
	int64_t start = clock_ms();
	struct image *img = snap(&t, BUNDLE_NONE, &size, NULL);
	ck_assert_int_lt(clock_ms() - start, 5000);
	ck_assert_uint_lt(size, 1 << 20);
	for (size_t i = 0; i < 64; i++) {
		uintptr_t at = t.s->at[0] + (i << 30) + (i << 12);
		expect_byte(img, at, (uint8_t)(i + 1));
		expect_byte(img, at + PAGE, 0); /* next to what was touched: zeros, as in the process */
		expect_byte(img, t.s->at[0] + (i << 30) + (512 << 20), 0);
	}
	image_close(img);
	target_end(&t);
}
END_TEST

/* --- kinds of memory --- */

enum { DONTDUMP, NONE_WRITTEN, NONE_EMPTY, SHARED_ANON, MEMFD, GUARDED, PLAIN, CUT_FILE };

static const char mark[] = "not to be found";

static void kinds(struct shared *s)
{
	char *p = map(2 * PAGE, MAP_PRIVATE);
	/* In no other place: neither here as text nor in a register. */
	for (size_t i = 0; i < sizeof mark; i++)
		((volatile char *)p)[i] = (char)(mark[i] ^ 0x55);
	madvise(p, 2 * PAGE, MADV_DONTDUMP);
	s->at[DONTDUMP] = (uintptr_t)p;

	p = map(2 * PAGE, MAP_PRIVATE);
	p[0] = 'n';
	mprotect(p, 2 * PAGE, PROT_NONE);
	s->at[NONE_WRITTEN] = (uintptr_t)p;
	p = map(2 * PAGE, MAP_PRIVATE);
	mprotect(p, 2 * PAGE, PROT_NONE);
	s->at[NONE_EMPTY] = (uintptr_t)p;

	p = map(16 * PAGE, MAP_SHARED);
	p[0] = 's';
	s->at[SHARED_ANON] = (uintptr_t)p;

	int fd = (int)syscall(SYS_memfd_create, "shared", 0);
	if (fd < 0 || ftruncate(fd, 8 * PAGE))
		_exit(9);
	p = mmap(NULL, 8 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	p[PAGE] = 'm';
	s->at[MEMFD] = (uintptr_t)p;

	fd = (int)syscall(SYS_memfd_create, "cut", 0);
	if (fd < 0 || ftruncate(fd, 8 * PAGE))
		_exit(9);
	p = mmap(NULL, 8 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	memset(p, 'c', 8 * PAGE);
	if (ftruncate(fd, PAGE))
		_exit(9);
	s->at[CUT_FILE] = (uintptr_t)p;

	p = map(8 * PAGE, MAP_PRIVATE);
	memset(p, 'g', 8 * PAGE);
	s->at[GUARDED] = madvise(p + PAGE, 2 * PAGE, MADV_GUARD_INSTALL) == 0 ? (uintptr_t)p : 0;

	p = map(8 * PAGE, MAP_PRIVATE);
	p[3 * PAGE] = 'p';
	s->at[PLAIN] = (uintptr_t)p;
	wait_for_ever(s);
}

/* The marker, changed as the target wrote it, anywhere in the file? */
static bool anywhere(struct image *img, const char *text, size_t len)
{
	const struct segment *seg;
	size_t n = image_segments(img, &seg);
	uint8_t *buf = malloc(1 << 20);
	bool found = false;
	for (size_t i = 0; i < n && !found; i++)
		for (addr_t at = seg[i].start, end = seg[i].start + seg[i].size; at < end && !found; at += (1 << 20) - 64) {
			size_t want = end - at < 1 << 20 ? (size_t)(end - at) : 1 << 20;
			size_t got = image_read_some(img, at, buf, want);
			found = memmem(buf, got, text, len) != NULL;
		}
	free(buf);
	return found;
}

START_TEST(kinds_of_memory)
{
	pages_without_scan = _i;
	struct target t = target_start(kinds);
	struct image *img = snap(&t, BUNDLE_NONE, NULL, NULL);
	const uintptr_t *at = t.s->at;
	char marked[sizeof mark];
	for (size_t i = 0; i < sizeof mark; i++)
		marked[i] = (char)(mark[i] ^ 0x55);
	expect_absent(img, at[DONTDUMP]);
	ck_assert(!anywhere(img, marked, sizeof mark));
	expect_byte(img, at[NONE_WRITTEN], 'n');
	expect_absent(img, at[NONE_EMPTY]);
	expect_byte(img, at[SHARED_ANON], 's');
	expect_byte(img, at[MEMFD] + PAGE, 'm');
	expect_byte(img, at[CUT_FILE], 'c');
	expect_absent(img, at[CUT_FILE] + 2 * PAGE);
	expect_byte(img, at[PLAIN] + 3 * PAGE, 'p');
	expect_byte(img, at[PLAIN], 0);
	expect_byte(img, at[PLAIN] + 7 * PAGE + PAGE - 1, 0);
	if (at[GUARDED]) {
		expect_byte(img, at[GUARDED], 'g');
		expect_byte(img, at[GUARDED] + 3 * PAGE, 'g');
	} else {
		fprintf(stderr, "# this kernel has no MADV_GUARD_INSTALL\n");
	}
	/* The right of a mapping goes along. */
	ck_assert_uint_eq(image_segment_at(img, at[PLAIN])->prot, 3);
	image_close(img);
	target_end(&t);
}
END_TEST

/* --- memory that cannot be read --- */

static void secret(struct shared *s)
{
	int fd = (int)syscall(447 /* memfd_secret */, 0);
	if (fd >= 0 && ftruncate(fd, 64 * PAGE) == 0) {
		char *p = mmap(NULL, 64 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		if (p != MAP_FAILED) {
			memset(p, 'x', 64 * PAGE);
			/* The kernel has it left out of cores; without that it is tried, and refused. */
			madvise(p, 64 * PAGE, MADV_DODUMP);
			s->at[0] = (uintptr_t)p;
		}
	}
	wait_for_ever(s);
}

START_TEST(unreadable_memory_is_left_out)
{
	struct target t = target_start(secret);
	size_t lost;
	struct image *img = snap(&t, BUNDLE_NONE, NULL, &lost);
	if (t.s->at[0]) {
		expect_absent(img, t.s->at[0]);
		expect_absent(img, t.s->at[0] + 63 * PAGE);
		ck_assert_uint_eq(lost, 1);
		ck_assert_uint_gt(image_facts(img)->n_lost, 0);
	} else {
		fprintf(stderr, "# this kernel has no memfd_secret\n");
	}
	ck_assert(target_moves(&t));
	image_close(img);
	target_end(&t);
}
END_TEST

/* --- memory that several processors copy --- */

enum { MANY_PAGES = 40 << 10, GAP = 97 };   /* 160 MiB, every GAP-th page of it not there */

/* Pages that say their number, with holes, so that a share of the copy begins and ends inside ranges of any length. */
static void numbered(struct shared *s)
{
	char *p = map((size_t)MANY_PAGES * PAGE, MAP_PRIVATE);
	s->at[0] = (uintptr_t)p;
	madvise(p, (size_t)MANY_PAGES * PAGE, MADV_NOHUGEPAGE);
	for (uint32_t i = 0; i < MANY_PAGES; i++)
		if (i % GAP)
			memcpy(p + (size_t)i * PAGE + i % (PAGE - 4), &i, 4);
	int fd = (int)syscall(447 /* memfd_secret */, 0);
	if (fd >= 0 && ftruncate(fd, 64 * PAGE) == 0) {
		/* Over the middle, beginning and ending inside what one thread takes. */
		char *hidden = mmap(p + (size_t)(MANY_PAGES / 2) * PAGE, 64 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0);
		if (hidden == MAP_FAILED)
			_exit(9);
		memset(hidden, 'x', 64 * PAGE);
		madvise(hidden, 64 * PAGE, MADV_DODUMP);
		s->at[1] = (uintptr_t)hidden;
	}
	wait_for_ever(s);
}

START_TEST(copied_by_several_processors)
{
	struct target t = target_start(numbered);
	size_t lost;
	struct image *img = snap(&t, BUNDLE_NONE, NULL, &lost);
	for (uint32_t i = 0; i < MANY_PAGES; i++) {
		uintptr_t page = t.s->at[0] + (size_t)i * PAGE;
		if (t.s->at[1] && page >= t.s->at[1] && page < t.s->at[1] + 64 * PAGE) {
			expect_absent(img, page);
			continue;
		}
		uint32_t got = ~i;
		int code = image_read(img, page + i % (PAGE - 4), &got, 4);
		ck_assert_msg(code == 0 && got == (i % GAP ? i : 0), "page %u: %d, %u", i, code, got);
	}
	ck_assert_uint_eq(lost, t.s->at[1] != 0);
	ck_assert(target_moves(&t));
	image_close(img);
	target_end(&t);
}
END_TEST

/* --- files --- */

static uintptr_t text_of_libc(void)
{
	return (uintptr_t)&qsort;
}

static char data_file[64];

static void maps_files(struct shared *s)
{
	int fd = open(data_file, O_RDWR);
	char *p = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
	if (p == MAP_FAILED)
		_exit(9);
	p[2 * PAGE] = 'w';
	s->at[0] = (uintptr_t)p;
	s->at[1] = (uintptr_t)p[0]; /* touched, but not written */
	wait_for_ever(s);
}

START_TEST(pages_of_files)
{
	strcpy(data_file, "/tmp/capture\nXXXXXX");
	int fd = mkstemp(data_file);
	ck_assert_int_ge(fd, 0);
	for (int i = 0; i < 4; i++) {
		char page[PAGE];
		memset(page, 'a' + i, sizeof page);
		ck_assert_int_eq(write(fd, page, sizeof page), PAGE);
	}
	close(fd);
	struct target t = target_start(maps_files);
	struct image *img = snap(&t, _i ? BUNDLE_ELF : BUNDLE_NONE, NULL, NULL);
	expect_absent(img, t.s->at[0]);
	expect_byte(img, t.s->at[0] + 2 * PAGE, 'w');
	expect_byte(img, t.s->at[0] + 2 * PAGE + 1, 'c');
	expect_absent(img, t.s->at[0] + 3 * PAGE);
	const struct mapping *m = image_mapping_at(img, t.s->at[0]);
	ck_assert_ptr_nonnull(m);
	ck_assert_uint_eq(m->path.len, strlen(data_file)); /* the newline too */
	ck_assert_int_eq(memcmp(m->path.p, data_file, m->path.len), 0);
	/* libc is at the same place here and in the child. */
	uint8_t got[64];
	if (_i) {
		ck_assert_int_eq(image_read(img, text_of_libc(), got, sizeof got), 0);
		ck_assert_int_eq(memcmp(got, (const void *)text_of_libc(), sizeof got), 0);
		m = image_mapping_at(img, text_of_libc());
		ck_assert_ptr_nonnull(m);
	} else {
		expect_absent(img, text_of_libc());
	}
	/* Which files they were is noted always. */
	m = image_mapping_at(img, text_of_libc());
	ck_assert_ptr_nonnull(m);
	const struct noted_file *noted = image_noted_at(img, m->start);
	ck_assert(noted && noted->build_id.len);
	/* The tables of functions go along with the code: this program has some, and this file's functions are in them. */
	m = image_mapping_at(img, (uintptr_t)maps_files);
	ck_assert_ptr_nonnull(m);
	noted = NULL;
	for (size_t i = 0; i < image_facts(img)->n_noted && !noted; i++)
		if ((uintptr_t)maps_files >= image_facts(img)->noted[i].start && (uintptr_t)maps_files < image_facts(img)->noted[i].end)
			noted = &image_facts(img)->noted[i];
	ck_assert_ptr_nonnull(noted);
	ck_assert_int_eq(noted->symbols_size > 0, _i);
	if (_i) {
		char *table = xmalloc(noted->symbols_size);
		ck_assert_int_eq(image_facts(img)->tail.read(image_facts(img)->tail.ctx, noted->symbols, table, noted->symbols_size), 0);
		ck_assert(memcmp(table, "\177ELF", 4) == 0 && memmem(table, noted->symbols_size, "maps_files", sizeof "maps_files"));
		free(table);
	}
	image_close(img);
	target_end(&t);
	unlink(data_file);
}
END_TEST

static void maps_large_file(struct shared *s)
{
	int fd = open(data_file, O_RDONLY);
	char *p = mmap(NULL, (size_t)200 << 20, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
	if (p == MAP_FAILED)
		_exit(9);
	madvise(p, (size_t)200 << 20, MADV_RANDOM);
	s->at[0] = (uintptr_t)p;
	s->at[1] = (uintptr_t)p[100 << 20]; /* used */
	wait_for_ever(s);
}

START_TEST(of_large_files_what_was_used)
{
	strcpy(data_file, "/tmp/captureXXXXXX");
	int fd = mkstemp(data_file), self = open("/proc/self/exe", O_RDONLY);
	ck_assert_int_ge(fd, 0);
	char head[PAGE];
	ck_assert_int_eq(read(self, head, PAGE), PAGE);
	ck_assert_int_eq(pwrite(fd, head, PAGE, 0), PAGE);
	ck_assert_int_eq(pwrite(fd, "used", 4, 100 << 20), 4);
	ck_assert_int_eq(ftruncate(fd, 200 << 20), 0);
	close(self);
	close(fd);
	struct target t = target_start(maps_large_file);
	uint64_t size;
	struct image *img = snap(&t, BUNDLE_ELF, &size, NULL);
	ck_assert_uint_lt(size, 16 << 20);
	expect_byte(img, t.s->at[0] + 1, 'E');
	expect_byte(img, t.s->at[0] + (100 << 20), 'u');
	expect_absent(img, t.s->at[0] + (50 << 20));
	expect_absent(img, t.s->at[0] + (200 << 20) - 1);
	image_close(img);
	target_end(&t);
	unlink(data_file);
}
END_TEST

/* --- one instant --- */

static void two_places(struct shared *s)
{
	enum { FAR = 64 << 20 };
	char *p = map(FAR + PAGE, MAP_PRIVATE);
	memset(p, 1, FAR);
	volatile uint64_t *a = (void *)p, *b = (void *)(p + FAR);
	s->at[0] = (uintptr_t)a;
	s->at[1] = (uintptr_t)b;
	*a = *b = 0;
	atomic_store(&s->ready, 1);
	for (;;) {
		++*a;
		__asm__ volatile("" ::: "memory");
		++*b;
	}
}

START_TEST(all_memory_is_of_one_instant)
{
	struct target t = target_start(two_places);
	for (int i = 0; i < 5; i++) {
		struct image *img = snap(&t, BUNDLE_NONE, NULL, NULL);
		uint64_t a, b;
		ck_assert_int_eq(image_read_uint(img, t.s->at[0], 8, &a), 0);
		ck_assert_int_eq(image_read_uint(img, t.s->at[1], 8, &b), 0);
		ck_assert_msg(a == b || a == b + 1, "%lu and %lu", (unsigned long)a, (unsigned long)b);
		ck_assert_uint_gt(a, 0);
		ck_assert(image_facts(img)->consistent);
		image_close(img);
	}
	target_end(&t);
}
END_TEST

/* --- facts and threads --- */

START_TEST(facts_of_the_process)
{
	struct target t = target_start(wait_for_ever);
	struct image *img = snap(&t, BUNDLE_ELF, NULL, NULL);
	const struct image_facts *f = image_facts(img);
	ck_assert_int_eq(f->kind, IMAGE_SNAPSHOT);
	ck_assert_int_eq(f->pid, t.pid);
	ck_assert_int_eq(f->ppid, getpid());
	ck_assert_int_eq(f->uid, getuid());
	char comm[16];
	ck_assert_int_eq(prctl(PR_GET_NAME, comm), 0);
	ck_assert(str_is(f->comm, comm));
	ck_assert_int_eq(f->ns_pid, t.pid); /* a namespace is not of its own */
	ck_assert_int_eq(f->parent.pid, getpid());
	ck_assert(str_is(f->parent.comm, comm));
	char random = '0';
	int fd = open("/proc/sys/kernel/randomize_va_space", O_RDONLY | O_CLOEXEC);
	if (fd >= 0 && read(fd, &random, 1) == 1 && random != '0' && !(personality(0xffffffff) & ADDR_NO_RANDOMIZE))
		ck_assert(f->parent.same_exec); /* the target is a fork of this */
	close(fd);
	char exe[4096] = "";
	ck_assert_int_gt(readlink("/proc/self/exe", exe, sizeof exe - 1), 0);
	ck_assert(str_is(f->exe, exe));
	char cwd[4096];
	ck_assert_ptr_nonnull(getcwd(cwd, sizeof cwd));
	ck_assert(str_is(f->cwd, cwd));
	ck_assert(str_starts(f->tool, "pysnap "));
	ck_assert_uint_gt(f->auxv.len, 0);
	ck_assert(f->has_file_note);
	ck_assert(!f->truncated);
	ck_assert_int_ge(f->stopped_ns, 1000);
	ck_assert_int_lt(f->stopped_ns, 10000000000);
	struct timespec now;
	clock_gettime(CLOCK_REALTIME, &now);
	ck_assert_int_lt(llabs(f->time_ns / 1000000000 - now.tv_sec), 60);
	ck_assert_int_lt(llabs(f->start_ns / 1000000000 - now.tv_sec), 60);
	const struct thread *th;
	ck_assert_uint_eq(image_threads(img, &th), 1);
	ck_assert_int_eq(th[0].tid, t.pid);
	ck_assert(str_is(th[0].name, comm));
	/* Its stack is there, and so is what it points to. */
	uint64_t word;
	ck_assert_int_eq(image_read_uint(img, th[0].regs.sp, 8, &word), 0);
	ck_assert_int_eq(image_read_uint(img, th[0].regs.pc, 1, &word), 0);
	image_close(img);
	target_end(&t);
}
END_TEST

/* Becomes the same program again and again. */
static void execs_itself(struct shared *s)
{
	atomic_store(&s->ready, 1);
	for (;;)
		execl("/bin/sh", "sh", "-c", "exec sh -c \"$0\" \"$0\"", "exec sh -c \"$0\" \"$0\"", (char *)NULL);
}

START_TEST(replaced_by_the_same_program)
{
	struct target t = target_start(execs_itself);
	struct capture_options opt = { .bundle = BUNDLE_NONE, .level = 1 };
	unsigned replaced = 0;
	for (unsigned i = 0; i < 30; i++) {
		struct capture *c;
		struct err err = { 0 };
		int code = capture(t.pid, &opt, &c, &err);
		if (code) {
			ck_assert_msg(code == ERR_GONE && strstr(err.msg, "became another program"), "%s", err.msg);
			replaced++;
			continue;
		}
		int fd = (int)syscall(SYS_memfd_create, "snap.pz", 0);
		struct bytes *b;
		struct image *img;
		uint64_t at;
		uint8_t byte;
		ck_assert_int_eq(capture_write(c, fd, &err), 0);
		capture_free(c);
		ck_assert_int_eq(bytes_from_fd(fd, "snap.pz", &b, &err), 0);
		ck_assert_int_eq(image_open_bytes(b, &img, &err), 0);
		/* What is told of it is told of the program whose memory this is. */
		ck_assert_int_eq(image_auxv(img, AT_RANDOM, &at), 0);
		ck_assert_int_eq(image_read(img, at, &byte, 1), 0);
		image_close(img);
	}
	printf("# it was another program in %u of 30\n", replaced);
	target_end(&t);
}
END_TEST

/* --- containers --- */

/* What older container filters do: process_vm_readv is refused, /proc/PID/mem is not. */
static void refuse_vm_readv(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_readv, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog prog = { sizeof code / sizeof *code, code };
	ck_assert_int_eq(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
	ck_assert_int_eq(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog), 0);
	ck_assert_int_eq(process_vm_readv(getpid(), NULL, 0, NULL, 0, 0), -1);
}

START_TEST(without_process_vm_readv)
{
	struct target t = target_start(kinds);
	refuse_vm_readv();
	struct image *img = snap(&t, BUNDLE_ELF, NULL, NULL);
	expect_byte(img, t.s->at[NONE_WRITTEN], 'n');
	expect_byte(img, t.s->at[MEMFD] + PAGE, 'm');
	expect_byte(img, t.s->at[PLAIN] + 3 * PAGE, 'p');
	uint8_t got[64];
	ck_assert_int_eq(image_read(img, text_of_libc(), got, sizeof got), 0);
	image_close(img);
	/* And live. */
	ck_assert_int_eq(image_attach(t.pid, &img, NULL), 0);
	expect_byte(img, t.s->at[PLAIN] + 3 * PAGE, 'p');
	image_close(img);
	target_end(&t);
}
END_TEST

/* --- a live process as an image --- */

START_TEST(attach_stops_nothing)
{
	struct target t = target_start(kinds);
	struct image *img;
	struct err err = { 0 };
	ck_assert_msg(image_attach(t.pid, &img, &err) == 0, "%s", err.msg);
	const struct image_facts *f = image_facts(img);
	ck_assert_int_eq(f->kind, IMAGE_LIVE);
	ck_assert_int_eq(f->pid, t.pid);
	ck_assert_int_eq(f->ppid, getpid());
	const struct thread *th;
	ck_assert_uint_eq(image_threads(img, &th), 1);
	ck_assert_int_eq(th[0].tid, t.pid);
	expect_byte(img, t.s->at[PLAIN] + 3 * PAGE, 'p');
	expect_byte(img, t.s->at[DONTDUMP], (uint8_t)(mark[0] ^ 0x55)); /* it is there, only not kept */
	expect_absent(img, t.s->at[NONE_EMPTY]);
	expect_absent(img, 0);
	uint8_t across[2 * PAGE];
	ck_assert_int_eq(image_read(img, t.s->at[PLAIN] + PAGE, across, sizeof across), 0);
	ck_assert(target_moves(&t));
	ck_assert_int_eq(target_tracer(t.pid, t.pid), 0);
	image_close(img);
	target_end(&t);
	ck_assert_int_eq(image_attach(t.pid, &img, &err), ERR_GONE);
}
END_TEST

/* --- ways to fail --- */

static void large(struct shared *s)
{
	size_t size = (size_t)96 << 20;
	char *p = map(size, MAP_PRIVATE);
	memset(p, 'l', size);
	s->at[0] = (uintptr_t)p;
	wait_for_ever(s);
}

/* SIGXCPU ends who computes for longer than that at a real-time priority. */
START_TEST(little_real_time)
{
	struct target t = target_start(large);
	ck_assert_int_eq(setrlimit(RLIMIT_RTTIME, &(struct rlimit){ 1, RLIM_INFINITY }), 0);
	for (unsigned i = 0; i < 3; i++)
		image_close(snap(&t, BUNDLE_NONE, NULL, NULL));
	target_end(&t);
}
END_TEST

START_TEST(too_little_memory)
{
#ifdef __SANITIZE_ADDRESS__
	return; /* which needs much address space itself */
#endif
	struct target t = target_start(large);
	pid_t pid = fork();
	if (pid == 0) {
		struct rlimit lim = { 80 << 20, 80 << 20 };
		setrlimit(RLIMIT_AS, &lim);
		struct capture_options opt = { .bundle = BUNDLE_NONE };
		struct capture *c;
		struct err err = { 0 };
		int code = capture(t.pid, &opt, &c, &err);
		_exit(code != ERR_MEMORY ? 1 : !strstr(err.msg, "the process was not stopped") || !strstr(err.msg, "106 MiB") ? 2 : 0);
	}
	int status;
	waitpid(pid, &status, 0);
	ck_assert(WIFEXITED(status));
	ck_assert_int_eq(WEXITSTATUS(status), 0);
	ck_assert(target_moves(&t));
	target_end(&t);
}
END_TEST

static volatile int stop;

static void *stop_soon(void *arg)
{
	sleep_ms(*(unsigned *)arg);
	stop = SIGINT;
	return NULL;
}

START_TEST(interrupted_at_any_time)
{
	struct target t = target_start(large);
	unsigned ended = 0;
	for (unsigned ms = 0; ms < 150; ms += 15) {
		stop = 0;
		pthread_t killer;
		ck_assert_int_eq(pthread_create(&killer, NULL, stop_soon, &ms), 0);
		struct capture_options opt = { .bundle = BUNDLE_NONE, .level = 1, .interrupted = &stop };
		struct capture *c;
		int code = capture(t.pid, &opt, &c, NULL);
		if (code == 0) {
			int fd = (int)syscall(SYS_memfd_create, "snap.pz", 0);
			code = capture_write(c, fd, NULL);
			close(fd);
			capture_free(c);
		}
		ck_assert(code == 0 || code == ERR_LIMIT);
		ended += code == ERR_LIMIT;
		pthread_join(killer, NULL);
		ck_assert(target_moves(&t));
		ck_assert_int_eq(target_tracer(t.pid, t.pid), 0);
	}
	ck_assert_uint_gt(ended, 0);
	target_end(&t);
}
END_TEST

START_TEST(killed_at_any_time)
{
	unsigned gone = 0;
	for (unsigned ms = 0; ms < 120; ms += 10) {
		struct target t = target_start(large);
		pid_t killer = fork();
		if (killer == 0) {
			sleep_ms(40 + ms);
			kill(t.pid, SIGKILL);
			_exit(0);
		}
		struct capture_options opt = { .bundle = BUNDLE_ELF };
		struct capture *c;
		struct err err = { 0 };
		int code = capture(t.pid, &opt, &c, &err);
		ck_assert_msg(code == 0 || code == ERR_GONE, "%d %s", code, err.msg);
		if (code == 0)
			capture_free(c);
		else
			gone++;
		waitpid(killer, NULL, 0);
		target_end(&t);
	}
	fprintf(stderr, "# %u of 12 ended while they were read\n", gone);
}
END_TEST

START_TEST(longest_pause_of_a_copy)
{
	struct target t = target_start(large);
	struct capture_options opt = { .freeze = { .max_pause_ms = 1 }, .bundle = BUNDLE_NONE };
	struct capture *c;
	struct err err = { 0 };
	ck_assert_int_eq(capture(t.pid, &opt, &c, &err), ERR_LIMIT);
	ck_assert_ptr_nonnull(strstr(err.msg, "it runs again"));
	ck_assert(target_moves(&t));
	target_end(&t);
}
END_TEST

START_TEST(disk_full)
{
	struct target t = target_start(kinds);
	struct capture_options opt = { .bundle = BUNDLE_ELF, .level = 1 };
	struct capture *c;
	struct err err = { 0 };
	ck_assert_int_eq(capture(t.pid, &opt, &c, &err), 0);
	int fd = open("/dev/full", O_WRONLY);
	ck_assert_int_eq(capture_write(c, fd, &err), ERR_IO);
	ck_assert_int_eq(errno, ENOSPC);
	close(fd);
	capture_free(c);
	target_end(&t);
}
END_TEST

int main(void)
{
	signal(SIGPIPE, SIG_IGN);
	Suite *s = suite_create("capture");
	TCase *t = tcase_create("capture");
	tcase_set_timeout(t, 60);
	tcase_add_test(t, sparse_memory_is_small_and_fast);
#ifdef __SANITIZE_ADDRESS__
	enum { SCANS = 1 }; /* its terabytes of shadow take the older way for ever */
#else
	enum { SCANS = 2 };
#endif
	tcase_add_loop_test(t, kinds_of_memory, 0, SCANS);
	tcase_add_test(t, unreadable_memory_is_left_out);
	tcase_add_test(t, copied_by_several_processors);
	tcase_add_loop_test(t, pages_of_files, 0, 2);
	tcase_add_test(t, of_large_files_what_was_used);
	tcase_add_test(t, all_memory_is_of_one_instant);
	tcase_add_test(t, facts_of_the_process);
	tcase_add_test(t, replaced_by_the_same_program);
	tcase_add_test(t, without_process_vm_readv);
	tcase_add_test(t, attach_stops_nothing);
	tcase_add_test(t, little_real_time);
	tcase_add_test(t, too_little_memory);
	tcase_add_test(t, interrupted_at_any_time);
	tcase_add_test(t, killed_at_any_time);
	tcase_add_test(t, longest_pause_of_a_copy);
	tcase_add_test(t, disk_full);
	suite_add_tcase(s, t);
	return suite_run(s);
}
