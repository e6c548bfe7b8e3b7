/* The child that unwinds, as its parent sees it: started, listened to, ended in time. */
#include "module/native.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "module/modules.h"
#include "module/native_touch.h"
#include "module/native_unwind.h"

const struct native_limits native_default = { .frames = 2000000, .threads = 200000, .memory = 1 << 30, .seconds = 20, .lines = NATIVE_LINES_NONE };

enum { STREAM_MAX = 256 << 20, SAID_MAX = 200, SAID_ROOM = 1 << 20 };

struct native {
	struct image *img;
	struct modules *mods;
	struct native_limits lim;
	struct arena *arena;
	pid_t pid;             /* 0: waited for */
	int out, said;         /* its records; its standard error (a memory file) */
	struct timespec start;
	struct native_records records;
	bool finished;
	int rc;
	struct err err;
};

/* What a process has of its own (the kernel's count for RLIMIT_DATA), so that the limit is on what the child adds. */
static uint64_t data_now(void)
{
	unsigned long pages[6] = { 0 };
	FILE *f = fopen("/proc/self/statm", "re");
	if (!f)
		return 0;
	int n = fscanf(f, "%lu %lu %lu %lu %lu %lu", &pages[0], &pages[1], &pages[2], &pages[3], &pages[4], &pages[5]);
	fclose(f);
	return n == 6 ? (uint64_t)pages[5] * (uint64_t)sysconf(_SC_PAGESIZE) : 0;
}

static void limit(unsigned what, uint64_t n)
{
	struct rlimit old;
	if (getrlimit(what, &old) == 0) {
		uint64_t hard = what == RLIMIT_CPU ? n + 1 : n; /* at the hard one it is SIGKILL, which tells nothing */
		old.rlim_max = old.rlim_max == RLIM_INFINITY || hard < old.rlim_max ? hard : old.rlim_max;
		old.rlim_cur = n < old.rlim_max ? n : old.rlim_max;
		(void)!setrlimit(what, &old);
	}
}

/*
 * No handler of the parent's runs here, also on what came before they were gone, and all that comes is what happens.  What a caller
 * switched off (nohup) stays off, but for the limit's own.
 */
static void reset_signals(void)
{
	struct sigaction old;
	for (int s = 1; s < NSIG; s++)
		if (sigaction(s, NULL, &old) == 0 && (old.sa_flags & SA_SIGINFO || old.sa_handler != SIG_IGN))
			signal(s, SIG_DFL);
	signal(SIGXCPU, SIG_DFL);
	signal(SIGPIPE, SIG_IGN);
	signal(SIGINT, SIG_IGN); /* the parent ends both */
	sigset_t none;
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
}

/*
 * All that this program opens is closed on exec: what is not was open when it was started, and is somebody else's.  Looked up before
 * the child is made, which opens nothing.
 */
struct inherited VEC(int);

static void find_inherited(struct inherited *ret)
{
	DIR *dir = opendir("/proc/self/fd");
	if (!dir)
		return;
	for (const struct dirent *e; (e = readdir(dir)) != NULL;) {
		int fd = atoi(e->d_name), flags = fd > 2 ? fcntl(fd, F_GETFD) : -1;
		if (flags >= 0 && !(flags & FD_CLOEXEC))
			*vec_push(ret) = fd;
	}
	closedir(dir);
}

static _Noreturn void child(struct native *n, int fd, pid_t parent, const struct inherited *inherited)
{
	uint64_t data = data_now(), most;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(1);
	reset_signals();
	limit(RLIMIT_CORE, 0);
	limit(RLIMIT_FSIZE, SAID_ROOM); /* what it prints; the pipe is no file */
	limit(RLIMIT_CPU, n->lim.seconds + 1);
	if (data && add_fits(data, n->lim.memory, &most))
		limit(RLIMIT_DATA, most);
	for (int std = 0; n->said >= 0 && std < 3; std++)
		dup2(n->said, std); /* libdw's assertions, and whatever it prints; nothing of the caller's */
	for (size_t i = 0; i < inherited->n; i++)
		close(inherited->p[i]);
	n->mods->sealed = true;
	struct sb b = { 0 };
	native_put_sandbox(&b, n->lim.no_sandbox ? 0 : sandbox_enter());
	if (write(fd, b.s, b.len) != (ssize_t)b.len)
		_exit(1);
	sb_free(&b);
	int rc = native_unwind(n->img, n->mods, &n->lim, fd);
	_exit(rc < 0 ? 1 : 0);
}

int native_start(struct image *img, struct modules *mods, const struct native_limits *lim, struct native **ret, struct err *err)
{
	int fd[2];
	if (pipe2(fd, O_CLOEXEC) < 0)
		return err_set(err, ERR_IO, "no pipe for unwinding: %s", strerror(errno));
	struct native *n = xcalloc(1, sizeof *n);
	n->img = img;
	n->mods = mods;
	n->lim = *lim;
	n->arena = arena_new();
	n->said = memfd_create("unwinding says", MFD_CLOEXEC);
	n->out = fd[0];
	clock_gettime(CLOCK_MONOTONIC, &n->start);
	disk_files_hold(mods);
	struct inherited inherited = { 0 };
	find_inherited(&inherited);
	fflush(NULL); /* or both would write it */
	sigset_t all, before; /* what comes to the child before it has its own waits until then */
	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, &before);
	pid_t parent = getpid(), pid = fork();
	if (pid == 0) {
		close(fd[0]);
		child(n, fd[1], parent, &inherited);
	}
	int saved = errno;
	sigprocmask(SIG_SETMASK, &before, NULL);
	vec_free(&inherited);
	close(fd[1]);
	if (pid < 0) {
		native_close(n);
		return err_set(err, ERR_IO, "no process for unwinding: %s", strerror(saved));
	}
	n->pid = pid;
	*ret = n;
	return 0;
}

int native_pid(const struct native *n)
{
	return n->pid;
}

/* Milliseconds until its time is over. */
static int left(const struct native *n)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	int64_t ms = (int64_t)n->lim.seconds * 1000 - (now.tv_sec - n->start.tv_sec) * 1000 - (now.tv_nsec - n->start.tv_nsec) / 1000000;
	return ms < 0 ? 0 : (int)(ms > 1000000 ? 1000000 : ms);
}

/* 0: it closed its end; ERR_LIMIT: too late, or too much. */
static int listen_to(struct native *n, struct sb *b, bool *late)
{
	CLEANUP(cleanup_free) char *buf = xmalloc(1 << 16);
	for (;;) {
		struct pollfd p = { .fd = n->out, .events = POLLIN };
		int ready = poll(&p, 1, left(n));
		if (ready < 0 && errno == EINTR)
			continue;
		*late = ready == 0;
		if (ready <= 0)
			return ready < 0 ? ERR_IO : ERR_LIMIT;
		ssize_t got = read(n->out, buf, 1 << 16);
		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			return got < 0 ? ERR_IO : 0;
		if (b->len + (size_t)got > STREAM_MAX)
			return ERR_LIMIT;
		sb_bytes(b, buf, (size_t)got);
	}
}

/* It is killed too where it closed its end: who ends does that when his status stands already, and who stays is not waited for. */
static int reap(struct native *n)
{
	int status = 0;
	kill(n->pid, SIGKILL);
	while (waitpid(n->pid, &status, 0) < 0 && errno == EINTR)
		;
	n->pid = 0;
	return status;
}

/* The first line it wrote to standard error (an assertion of libdw's says where), or "". */
static const char *last_words(struct native *n)
{
	char buf[SAID_MAX];
	ssize_t got = n->said >= 0 ? pread(n->said, buf, sizeof buf, 0) : -1;
	if (got <= 0)
		return "";
	const char *line = memchr(buf, '\n', (size_t)got);
	struct str s = str_from_bytes(n->arena, buf, line ? (size_t)(line - buf) : (size_t)got);
	struct sb safe = { 0 };
	sb_printf(&safe, ": ");
	sb_safe(&safe, s);
	struct str all = sb_take(&safe, n->arena);
	return str_c(n->arena, all);
}

static int finish(struct native *n)
{
	struct sb b = { 0 };
	bool late = false;
	int rc = listen_to(n, &b, &late), status = reap(n);
	int parsed = native_records_parse((struct blob){ (const uint8_t *)b.s, b.len }, n->records.n_threads, n->arena, &n->records);
	sb_free(&b);
	if (parsed < 0)
		return err_set(&n->err, ERR_CORRUPT, "what it said makes no sense");
	if (n->records.done)
		return 0;
	if (rc == ERR_LIMIT && late)
		return err_set(&n->err, ERR_LIMIT, "it took longer than %u s", n->lim.seconds);
	if (rc == ERR_LIMIT)
		return err_set(&n->err, ERR_LIMIT, "it said more than %d MiB", STREAM_MAX >> 20);
	if (rc < 0)
		return err_set(&n->err, ERR_IO, "it could not be listened to");
	if (WIFSIGNALED(status) && WTERMSIG(status) == SIGXCPU)
		return err_set(&n->err, ERR_LIMIT, "it took longer than %u s", n->lim.seconds);
	if (WIFSIGNALED(status))
		return err_set(&n->err, ERR_GONE, "it died of signal %d%s", WTERMSIG(status), last_words(n));
	return err_set(&n->err, ERR_GONE, "it ended early%s", last_words(n));
}

int native_finish(struct native *n, const struct native_records **ret, struct err *err)
{
	if (!n->finished) {
		const struct thread *threads;
		n->records.n_threads = image_threads(n->img, &threads);
		n->rc = finish(n);
		n->finished = true;
	}
	*ret = &n->records;
	if (n->rc < 0 && err)
		*err = n->err;
	return n->rc;
}

int native_read_all(struct image *img, struct modules *mods, const struct native_limits *lim, bool exact)
{
	CLEANUP(cleanup_fd) int fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return ERR_IO;
	touch_begin(exact);
	int rc = native_unwind(img, mods, lim, fd);
	touch_end(img);
	return rc;
}

void native_close(struct native *n)
{
	if (!n)
		return;
	if (n->pid > 0)
		reap(n);
	if (n->out >= 0)
		close(n->out);
	if (n->said >= 0)
		close(n->said);
	native_records_free(&n->records);
	arena_free(n->arena);
	free(n);
}
