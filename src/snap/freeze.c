/*
 * Stopping a process: every thread is seized and interrupted, and the list of threads is read again until a pass finds none
 * new.  All ptrace calls are made by a thread of their own.  When that thread ends - after thaw, on any failure, when max_pause_ms
 * is over although the copier hangs in a page fault, or because this process was killed - the kernel detaches what
 * is left, also threads that never stopped, and they run on (ptrace(2): no PTRACE_O_EXITKILL).
 *
 * An execve waits for the other threads, which it killed (fs/exec.c: de_thread), and those are not gone before their tracer has taken
 * notice, stopped or not.  PTRACE_SEIZE waits for the execve to end (signal->cred_guard_mutex, Linux 2.6.30 on: kernel/ptrace.c
 * ptrace_attach, fs/exec.c prepare_bprm_creds): there the caller's thread takes notice, or neither would ever get on.
 *
 * Seized threads never see a SIGSTOP, so a target that was running is never left in state T, and one that was
 * stopped stays so.  A thread found at a signal's delivery gets its signal back when it is let go, also when this process is killed.
 */
#include "snap/freeze.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "snap/haste.h"
#include "snap/refusal.h"
#include "snap/registers.h"

enum {
	STUCK_NS = 100000000,
	SEIZE_NS = 10000000,     /* a PTRACE_SEIZE that takes so long may wait for an execve */
	KILLED_EVERY = 16,       /* times that no thread has stopped */
	SEIZE_TRIES = 3,
};

enum state { KNOWN, SEIZED, STOPPED, LEAVING /* will not stop any more, and has not ended yet */, ENDED };

struct slot {
	pid_t tid;
	uint8_t state;
	int signo;               /* to be given back: it was taken at its delivery */
	struct proc_stat stat;   /* from before the stop */
	char wchan[64];
	uint8_t *notes;
	struct registers regs;
};

struct frozen {
	pid_t pid;
	struct abi abi;
	unsigned max_pause_ms, deadline_ms;
	int task_fd;             /* /proc/PID/task */
	int leader_dir;          /* /proc/PID/task/PID as it was found: shows nothing of a later process of that number */
	uint64_t start;

	struct slots VEC(struct slot) slots;
	uint32_t *index;         /* open addressing by tid: place in slots + 1 */
	size_t index_size;
	struct tids tids;        /* the last list of threads */
	uint32_t *waiting;       /* slots that are not stopped yet */
	size_t waiting_room;
	uint8_t *notes;          /* allocated and touched before the stop */
	size_t notes_size, notes_used;
	struct chunks VEC(void *) more;

	pthread_t tracer;
	pthread_mutex_t slots_lock;
	bool seizing;            /* the tracer is in PTRACE_SEIZE: slots are whose the lock is; else they are the tracer's */
	sem_t ready;
	int release_fd;
	int code;
	struct err err;
	_Atomic int64_t first_ns, last_ns;
	_Atomic bool over;
	int64_t time_ns;
	bool died, joined;
	struct arena *arena;
	struct thread *threads;
	size_t n_threads;
	pid_t live_tid;
};

static int64_t now_ns(clockid_t clock)
{
	struct timespec t;
	clock_gettime(clock, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* -- slots -- */

static size_t index_place(const struct frozen *f, pid_t tid)
{
	size_t mask = f->index_size - 1, at = (uint32_t)tid * 2654435769u & mask;
	while (f->index[at] && f->slots.p[f->index[at] - 1].tid != tid)
		at = (at + 1) & mask;
	return at;
}

static struct slot *slot_find(const struct frozen *f, pid_t tid)
{
	uint32_t at = f->index_size ? f->index[index_place(f, tid)] : 0;
	return at ? &f->slots.p[at - 1] : NULL;
}

static struct slot *slot_add(struct frozen *f, pid_t tid)
{
	if (f->slots.n * 2 >= f->index_size) {
		size_t size = f->index_size ? f->index_size * 2 : 256;
		free(f->index);
		f->index = xcalloc(size, sizeof *f->index);
		f->index_size = size;
		for (size_t i = 0; i < f->slots.n; i++)
			f->index[index_place(f, f->slots.p[i].tid)] = (uint32_t)i + 1;
	}
	size_t at = index_place(f, tid);
	struct slot *s = vec_push(&f->slots);
	s->tid = tid;
	f->index[at] = (uint32_t)f->slots.n;
	return s;
}

/* Name, state and what it waits in: read while the thread still runs, for a stopped thread waits in ptrace_stop. */
static void slot_describe(struct frozen *f, struct slot *s)
{
	CLEANUP(cleanup_fd) int dir = proc_open(f->pid, s->tid);
	if (dir < 0)
		return;
	if (proc_stat(dir, &s->stat))
		s->stat = (struct proc_stat){ 0 };
	CLEANUP(cleanup_sb) struct sb b = { 0 };
	if (proc_read(dir, "wchan", 256, &b) == 0 && b.len && b.len < sizeof s->wchan && b.s[0] != '0')
		memcpy(s->wchan, b.s, b.len);
}

/* -- the tracer thread -- */

static bool ended(struct frozen *f, pid_t tid)
{
	CLEANUP(cleanup_fd) int dir = proc_open(f->pid, tid);
	struct proc_stat st;
	int code = dir < 0 ? dir : proc_stat(dir, &st);
	return code == ERR_GONE || (!code && (st.state == 'Z' || st.state == 'X'));
}

static void seizing(struct frozen *f, bool now)
{
	pthread_mutex_lock(&f->slots_lock);
	f->seizing = now;
	pthread_mutex_unlock(&f->slots_lock);
}

/* Seize threads that are not yet; returns how many, or ERR_*. */
static int seize_new(struct frozen *f)
{
	int n = 0;
	int code = proc_tids(f->task_fd, &f->tids);
	if (code)
		return code == ERR_GONE ? refusal_ended(f->pid, &f->err) : refusal_read(f->pid, code, "the threads", &f->err);
	for (size_t i = 0; i < f->tids.n; i++) {
		pid_t tid = f->tids.p[i];
		struct slot *s = slot_find(f, tid);
		if (!s) {
			s = slot_add(f, tid);
			slot_describe(f, s);
		}
		if (s->state != KNOWN)
			continue;
		int got = 0;
		/* EPERM says too that it has ended.  If it has not, that was another: who executes a program takes over the first thread's number. */
		for (unsigned tries = 0; tries < SEIZE_TRIES; tries++) {
			/* TRACEEXEC: without it, the number of a thread that calls execve vanishes silently. */
			seizing(f, true);
			got = ptrace(PTRACE_SEIZE, tid, NULL, (void *)(uintptr_t)PTRACE_O_TRACEEXEC) == 0 ? 0 : errno;
			seizing(f, false);
			if (!got || got == ESRCH || ended(f, tid))
				break;
		}
		if (!got) {
			s->state = SEIZED;
			n++;
			continue;
		}
		if (got == ESRCH || ended(f, tid)) {
			s->state = ENDED;
			continue;
		}
		if (got == EPERM || got == EACCES)
			return refusal_perm(f->pid, tid, &f->err);
		err_set(&f->err, ERR_IO, "cannot stop process %d: %s", (int)f->pid, strerror(got));
		return err_hint(&f->err, "the same again");
	}
	return n;
}

static int interrupt_seized(struct frozen *f)
{
	size_t n = 0;
	for (size_t i = 0; i < f->slots.n; i++) {
		struct slot *s = &f->slots.p[i];
		if (s->state != SEIZED)
			continue;
		n++;
		/* ESRCH: it is ending, and its wait status says so. */
		(void)ptrace(PTRACE_INTERRUPT, s->tid, NULL, NULL);
	}
	if (n > f->waiting_room) {
		f->waiting_room = n + n / 2;
		f->waiting = xrealloc(f->waiting, f->waiting_room * sizeof *f->waiting);
	}
	n = 0;
	for (size_t i = 0; i < f->slots.n; i++)
		if (f->slots.p[i].state == SEIZED)
			f->waiting[n++] = (uint32_t)i;
	return (int)n;
}

/* Those that are on their way out (PF_EXITING) run no code of the program any more, however long freeing what was theirs takes. */
static size_t without_leaving(struct frozen *f, size_t n)
{
	size_t left = 0;
	for (size_t i = 0; i < n; i++) {
		struct slot *s = &f->slots.p[f->waiting[i]];
		CLEANUP(cleanup_fd) int dir = proc_open(f->pid, s->tid);
		struct proc_stat st;
		if (dir >= 0 && proc_stat(dir, &st) == 0 && (st.flags & PROC_EXITING))
			s->state = LEAVING;
		else
			f->waiting[left++] = f->waiting[i];
	}
	return left;
}

static char state_of(const struct frozen *f, const struct slot *s)
{
	CLEANUP(cleanup_fd) int dir = proc_open(f->pid, s->tid);
	struct proc_stat st;
	return dir < 0 || proc_stat(dir, &st) ? '?' : st.state;
}

/* Do all that still run wait inside the kernel, where nothing reaches them, and for no thread that was killed and is ending? */
static bool all_in_kernel(const struct frozen *f, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (state_of(f, &f->slots.p[f->waiting[i]]) != 'D')
			return false;
	for (size_t i = 0; i < f->slots.n && n; i++) {
		const struct slot *s = &f->slots.p[i];
		if (s->state == LEAVING || (s->state == STOPPED && !strchr("tT", state_of(f, s))))
			return false;
	}
	return n > 0;
}

static int too_slow(struct frozen *f, const struct slot *s)
{
	struct proc_stat st = { .comm = "", .state = '?' };
	char wchan[64] = "";
	CLEANUP(cleanup_fd) int dir = proc_open(f->pid, s->tid);
	CLEANUP(cleanup_sb) struct sb b = { 0 };
	if (dir >= 0 && proc_stat(dir, &st) == 0 && proc_read(dir, "wchan", 256, &b) == 0 && b.len > 1)
		snprintf(wchan, sizeof wchan, ", in %.*s", (int)b.len, b.s);
	err_set(&f->err, ERR_LIMIT, "cannot stop process %d: thread %d (%s) did not stop within %u ms; it runs again", (int)f->pid,
		(int)s->tid, st.comm, (unsigned)(frozen_elapsed_ns(f) / 1000000));
	if (st.state == 'D')
		err_why(&f->err, "the thread waits inside the kernel and cannot be interrupted (state D%s)", wchan);
	err_hint(&f->err, "the same again in a moment");
	return ERR_LIMIT;
}

/*
 * 1: it has stopped or ended, 0: not yet, or ERR_GONE: the process became another program.  A stop's status is left where it is (WNOWAIT):
 * what is taken at a signal's delivery is the signal, which would be lost if this process was killed (kernel/exit.c, wait_task_stopped,
 * clears the exit_code that kernel/signal.c, ptrace_stop, returns).
 */
static int take_one(struct frozen *f, struct slot *s)
{
	siginfo_t info = { 0 };
	if (waitid(P_PID, (id_t)s->tid, &info, WSTOPPED | WEXITED | WNOHANG | WNOWAIT | __WALL | __WNOTHREAD) < 0) {
		s->state = ENDED; /* taken away by an execve of another thread */
		return 1;
	}
	if (!info.si_pid)
		return 0;
	if (info.si_code != CLD_TRAPPED && info.si_code != CLD_STOPPED) {
		(void)waitid(P_PID, (id_t)s->tid, &info, WEXITED | WNOHANG | __WALL | __WNOTHREAD);
		s->state = ENDED;
		return 1;
	}
	s->state = STOPPED;
	int event = info.si_status >> 8;
	if (event == PTRACE_EVENT_EXEC)
		return refusal_replaced(f->pid, &f->err);
	/* PTRACE_EVENT_STOP: our interruption, or a group stop, which goes on by itself after the detach. */
	if (event == 0)
		s->signo = info.si_status;
	return 1;
}

/* All that have stopped meanwhile; returns how many are left. */
static int take_all(struct frozen *f, size_t n)
{
	size_t left = 0;
	for (size_t i = 0; i < n; i++) {
		int got = take_one(f, &f->slots.p[f->waiting[i]]);
		if (got < 0)
			return got;
		if (got == 0)
			f->waiting[left++] = f->waiting[i];
	}
	return (int)left;
}

/* Takes notice of a thread's end, but not of its stop, which the kernel reports of a traced thread whatever is asked for. */
static bool reap(pid_t tid)
{
	siginfo_t how = { .si_pid = 0 };
	const int asked = WEXITED | WNOHANG | __WALL;

	if (waitid(P_PID, (id_t)tid, &how, asked | WNOWAIT) || !how.si_pid || how.si_code == CLD_TRAPPED || how.si_code == CLD_STOPPED)
		return false;
	return waitid(P_PID, (id_t)tid, &how, asked) == 0;
}

/* Threads that were killed, by an execve or SIGKILL, after they were seized or had stopped; returns how many. */
static size_t reap_killed(struct frozen *f)
{
	size_t n = 0;
	for (size_t i = 0; i < f->slots.n; i++) {
		struct slot *s = &f->slots.p[i];
		if ((s->state != SEIZED && s->state != STOPPED && s->state != LEAVING) || !reap(s->tid))
			continue;
		s->state = ENDED;
		n++;
	}
	return n;
}

/*
 * Wait for one thread after the other.  Asking for all of them again and again took a processor from those that were to
 * stop: 8,000 threads needed a second instead of a tenth.
 */
static int wait_stopped(struct frozen *f, size_t n, int64_t deadline)
{
	sigset_t child;
	sigemptyset(&child);
	sigaddset(&child, SIGCHLD);
	int64_t last = now_ns(CLOCK_MONOTONIC); /* when one was seen to have stopped */
	unsigned idle = 0;
	while (n) {
		struct slot *s = &f->slots.p[f->waiting[n - 1]];
		int got = take_one(f, s);
		if (got < 0)
			return got;
		/* The first thread's end is told to nobody before that of the others (wait(2) waits for the whole process). */
		if (got == 0 && idle && s->tid == f->pid && ended(f, s->tid)) {
			s->state = ENDED;
			got = 1;
		}
		if (got > 0) {
			n--;
			idle = 0;
			continue;
		}
		int64_t now = now_ns(CLOCK_MONOTONIC);
		if (!idle++)
			last = now;
		if (now > deadline || now - last > STUCK_NS) {
			int left = take_all(f, n);
			if (left < 0)
				return left;
			left = (int)without_leaving(f, (size_t)left);
			/* A parent in vfork, or a thread that waits for a dead server: the others are not kept waiting with it. */
			if ((size_t)left == n && (now > deadline || now - last > (int64_t)f->deadline_ms * 1000000 || all_in_kernel(f, n)))
				return too_slow(f, &f->slots.p[f->waiting[0]]);
			if ((size_t)left < n)
				idle = 0;
			n = (size_t)left;
		}
		if (idle % KILLED_EVERY == 0 && idle && reap_killed(f))
			idle = 0;
		if (idle)
			sigtimedwait(&child, NULL, &(struct timespec){ .tv_nsec = idle < 20 ? 200000 : 2000000 });
	}
	return 0;
}

/* Room for one thread's notes; what was not foreseen before the stop is allocated a chunk at a time. */
static uint8_t *notes_room(struct frozen *f)
{
	size_t room = registers_room();
	if (f->notes_used + room > f->notes_size) {
		f->notes_size = 64 * room;
		f->notes = xmalloc(f->notes_size);
		f->notes_used = 0;
		*vec_push(&f->more) = f->notes;
	}
	uint8_t *p = f->notes + f->notes_used;
	f->notes_used += room;
	return p;
}

static int stop_all(struct frozen *f)
{
	int n = seize_new(f);
	if (n < 0)
		return n;
	atomic_store(&f->first_ns, now_ns(CLOCK_MONOTONIC));
	f->time_ns = now_ns(CLOCK_REALTIME);
	/* Thousands of threads on a busy machine take their time, but they get on. */
	int64_t limit = (int64_t)f->deadline_ms * 10;
	if (f->max_pause_ms && f->max_pause_ms < limit)
		limit = f->max_pause_ms;
	int64_t deadline = f->first_ns + limit * 1000000;
	while (n > 0) {
		int code = wait_stopped(f, (size_t)interrupt_seized(f), deadline);
		if (code)
			return code;
		n = seize_new(f);
		if (n < 0)
			return n;
		if (n > 0 && now_ns(CLOCK_MONOTONIC) > deadline) {
			err_set(&f->err, ERR_LIMIT, "cannot stop process %d: it starts threads faster than they can be stopped; it runs again",
				(int)f->pid);
			err_hint(&f->err, "the same again in a moment");
			return ERR_LIMIT;
		}
	}
	/* The folder shows the process that was asked for, whatever has its number now. */
	struct proc_stat st;
	int code = proc_stat(f->leader_dir, &st);
	if (code && code != ERR_GONE)
		return refusal_read(f->pid, code, "the state", &f->err);
	if (code || st.start != f->start)
		return refusal_ended(f->pid, &f->err);
	/* What was the first thread has ended, but its number has not: execve gave it to another. */
	const struct slot *first = slot_find(f, f->pid);
	if (first && (first->state == ENDED || first->state == LEAVING) && !strchr("ZX", st.state) && !(st.flags & PROC_EXITING))
		return refusal_replaced(f->pid, &f->err);
	for (size_t i = 0; i < f->slots.n; i++) {
		struct slot *s = &f->slots.p[i];
		if (s->state != STOPPED)
			continue;
		s->notes = notes_room(f);
		code = registers_read(&f->abi, s->tid, s->signo, &s->stat, s->notes, registers_room(), &s->regs);
		if (code) /* only SIGKILL takes a thread out of its stop */
			return code == ERR_GONE ? refusal_ended(f->pid, &f->err) : refusal_read(f->pid, code, "the registers", &f->err);
		if (!f->live_tid || s->tid == f->pid)
			f->live_tid = s->tid;
	}
	return f->live_tid ? 0 : refusal_ended(f->pid, &f->err);
}

static void let_go(struct frozen *f)
{
	for (size_t i = 0; i < f->slots.n; i++) {
		struct slot *s = &f->slots.p[i];
		if (s->state != STOPPED)
			continue;
		if (ptrace(PTRACE_DETACH, s->tid, NULL, (void *)(intptr_t)s->signo) < 0 && errno == ESRCH)
			f->died = true;
		s->state = ENDED;
	}
	atomic_store(&f->last_ns, now_ns(CLOCK_MONOTONIC));
}

static void *tracer_main(void *arg)
{
	struct frozen *f = arg;
	struct haste before;
	haste_begin(&before); /* to the end of this thread */
	f->code = stop_all(f);
	if (f->code) {
		let_go(f);
		sem_post(&f->ready);
		return NULL;
	}
	sem_post(&f->ready);
	struct pollfd p = { .fd = f->release_fd, .events = POLLIN };
	for (;;) {
		int wait = -1;
		if (f->max_pause_ms) {
			int64_t left = (int64_t)f->max_pause_ms - frozen_elapsed_ns(f) / 1000000;
			wait = left > INT_MAX ? INT_MAX : left > 0 ? (int)left : 0; /* 25 days: it is asked again then */
		}
		int got = poll(&p, 1, wait);
		if (got > 0)
			break;
		if (got == 0 && wait >= 0 && frozen_elapsed_ns(f) >= (int64_t)f->max_pause_ms * 1000000) {
			atomic_store(&f->over, true);
			break;
		}
	}
	let_go(f);
	return NULL;
}

/* -- the caller's side -- */

/* While the tracer waits in PTRACE_SEIZE. */
static void reap_for_tracer(struct frozen *f)
{
	pthread_mutex_lock(&f->slots_lock);
	if (f->seizing)
		reap_killed(f);
	pthread_mutex_unlock(&f->slots_lock);
}

static void wait_ready(struct frozen *f)
{
	int got;
	do {
		int64_t until = now_ns(CLOCK_REALTIME) + SEIZE_NS;
		got = sem_timedwait(&f->ready, &(struct timespec){ .tv_sec = until / 1000000000, .tv_nsec = until % 1000000000 });
		if (got < 0 && errno == ETIMEDOUT)
			reap_for_tracer(f);
	} while (got < 0);
}

int freeze_check(pid_t pid, struct err *err)
{
	pid_t tid;
	int code = pid > 0 ? proc_live_tid(pid, &tid) : ERR_GONE;
	if (code)
		return refusal_read(pid, code, "the threads", err);
	CLEANUP(cleanup_fd) int dir = proc_open(pid, tid);
	CLEANUP(cleanup_sb) struct sb status = { 0 };
	code = dir < 0 ? dir : proc_read(dir, "status", 65536, &status);
	if (code)
		return refusal_read(pid, code, "the status", err);
	uint64_t v;
	if (proc_status_uint(sb_view(&status), "Tgid", 10, &v) == 0 && (pid_t)v != pid) {
		err_set(err, ERR_GONE, "%d is a thread of process %d", (int)pid, (int)v);
		err_hint(err, "pysnap %d", (int)v);
		return ERR_GONE;
	}
	pid_t tracer = refusal_tracer(pid, tid);
	if (tracer)
		return refusal_traced(pid, tracer, err);
	if (pid == getpid()) {
		err_set(err, ERR_UNSUPPORTED, "process %d is pysnap itself", (int)pid);
		err_hint(err, "pgrep -af python");
		return ERR_UNSUPPORTED;
	}
	/* mem is opened with the rights that PTRACE_SEIZE asks for (PTRACE_MODE_ATTACH), yama's rules included. */
	CLEANUP(cleanup_fd) int mem = openat(dir, "mem", O_RDONLY | O_CLOEXEC);
	if (mem < 0 && (errno == EACCES || errno == EPERM))
		return refusal_perm(pid, tid, err);
	struct abi abi;
	code = proc_abi(dir, &abi);
	if (code == ERR_PERM)
		return refusal_perm(pid, tid, err);
	struct proc_stat st;
	if (code == ERR_GONE && proc_stat(dir, &st) == 0 && (st.flags & PROC_KERNEL)) {
		err_set(err, ERR_NOPYTHON, "process %d (%s) does not run CPython: it is a thread of the kernel", (int)pid, st.comm);
		err_hint(err, "pgrep -af python");
		return ERR_NOPYTHON;
	}
	if (code)
		return refusal_read(pid, code, "the program", err);
	return registers_check(&abi, pid, err);
}

static void frozen_destroy(struct frozen *f)
{
	if (f->task_fd >= 0)
		close(f->task_fd);
	if (f->leader_dir >= 0)
		close(f->leader_dir);
	if (f->release_fd >= 0)
		close(f->release_fd);
	sem_destroy(&f->ready);
	pthread_mutex_destroy(&f->slots_lock);
	vec_free(&f->slots);
	vec_free(&f->tids);
	free(f->index);
	free(f->waiting);
	for (size_t i = 0; i < f->more.n; i++)
		free(f->more.p[i]);
	vec_free(&f->more);
	arena_free(f->arena);
	free(f);
}

/* What the stop will need is read and allocated here; threads that come later cost a little of the stop. */
static int prepare(struct frozen *f, struct err *err)
{
	struct proc_stat st;
	pid_t tid;
	int code = f->task_fd = proc_open_tasks(f->pid);
	if (code >= 0)
		code = f->leader_dir = proc_open(f->pid, f->pid);
	if (code >= 0)
		code = proc_stat(f->leader_dir, &st);
	if (!code)
		code = proc_live_tid(f->pid, &tid);
	if (code)
		return refusal_read(f->pid, code, "the threads", err);
	f->release_fd = eventfd(0, EFD_CLOEXEC);
	if (f->release_fd < 0)
		return refusal_read(f->pid, ERR_IO, "the end", err);
	f->start = st.start;
	CLEANUP(cleanup_fd) int dir = proc_open(f->pid, tid);
	code = dir < 0 ? dir : proc_abi(dir, &f->abi);
	if (code)
		return refusal_read(f->pid, code, "the program", err);
	code = proc_tids(f->task_fd, &f->tids);
	if (code)
		return refusal_read(f->pid, code, "the threads", err);
	for (size_t i = 0; i < f->tids.n; i++)
		slot_describe(f, slot_add(f, f->tids.p[i]));
	f->waiting_room = f->slots.n + f->slots.n / 2 + 64;
	f->waiting = xmalloc(f->waiting_room * sizeof *f->waiting);
	f->notes_size = (f->slots.n + f->slots.n / 8 + 8) * registers_room();
	f->notes = xmalloc(f->notes_size);
	memset(f->notes, 0, f->notes_size);
	*vec_push(&f->more) = f->notes;
	return 0;
}

static int start_tracer(struct frozen *f, struct err *err)
{
	pthread_attr_t attr;
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 256 << 10);
	sigset_t all, before;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	int e = pthread_create(&f->tracer, &attr, tracer_main, f);
	pthread_attr_destroy(&attr);
	if (!e) {
		/* SIGCHLD stays blocked here until all are stopped, so that the tracer's sigtimedwait gets it. */
		sigset_t waiting = before;
		sigaddset(&waiting, SIGCHLD);
		pthread_sigmask(SIG_SETMASK, &waiting, NULL);
		wait_ready(f);
	}
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (!e)
		return 0;
	err_set(err, ERR_IO, "cannot start a thread: %s; the process was not stopped", strerror(e));
	return err_hint(err, "the same again when this user has fewer processes (ulimit -u)");
}

int freeze(pid_t pid, const struct freeze_options *opt, struct frozen **ret, struct err *err)
{
	int code = freeze_check(pid, err);
	if (code)
		return code;
	struct frozen *f = xcalloc(1, sizeof *f);
	f->pid = pid;
	f->max_pause_ms = opt->max_pause_ms;
	f->deadline_ms = opt->deadline_ms ? opt->deadline_ms : 10000;
	f->arena = arena_new();
	f->task_fd = f->leader_dir = f->release_fd = -1;
	sem_init(&f->ready, 0, 0);
	pthread_mutex_init(&f->slots_lock, NULL);
	code = prepare(f, err);
	if (!code)
		code = start_tracer(f, err);
	if (code) {
		frozen_destroy(f);
		return code;
	}
	if (f->code) {
		pthread_join(f->tracer, NULL); /* with it go the last ties to the target */
		code = f->code;
		if (err)
			*err = f->err;
		frozen_destroy(f);
		return code;
	}
	*ret = f;
	return 0;
}

static void add_thread(struct frozen *f, const struct slot *s)
{
	struct thread *t = &f->threads[f->n_threads++];
	t->tid = s->tid;
	t->signo = s->signo;
	t->state = s->stat.state;
	t->name = str_from_bytes(f->arena, s->stat.comm, strlen(s->stat.comm));
	if (s->wchan[0])
		t->wchan = str_from_bytes(f->arena, s->wchan, strlen(s->wchan));
	t->prstatus = s->regs.prstatus;
	t->fpregset = s->regs.fpregset;
	t->xstate = s->regs.xstate;
	t->siginfo = s->regs.siginfo;
	if (abi_regs(&f->abi, s->regs.gregs, &t->regs))
		t->regs.syscall.nr = -1;
	uint32_t more[ABI_MORE_NOTES];
	abi_more_notes(&f->abi, more);
	for (size_t i = 0; i < ABI_MORE_NOTES; i++) {
		t->more[i] = s->regs.more[i];
		if (t->more[i].len && abi_regs_note(&f->abi, more[i], t->more[i], &t->regs) < 0)
			t->more[i] = (struct blob){ 0 };
	}
}

size_t frozen_threads(const struct frozen *cf, const struct thread **ret)
{
	struct frozen *f = (struct frozen *)(uintptr_t)cf; /* the list is made when first asked for */
	if (!f->threads) {
		f->threads = arena_alloc(f->arena, f->slots.n * sizeof *f->threads);
		const struct slot *leader = slot_find(f, f->pid);
		if (leader && leader->notes)
			add_thread(f, leader);
		for (size_t i = 0; i < f->slots.n; i++)
			if (f->slots.p[i].notes && f->slots.p[i].tid != f->pid)
				add_thread(f, &f->slots.p[i]);
	}
	*ret = f->threads;
	return f->n_threads;
}

const struct abi *frozen_abi(const struct frozen *f)
{
	return &f->abi;
}

pid_t frozen_tid(const struct frozen *f)
{
	return f->live_tid;
}

bool frozen_over(const struct frozen *f)
{
	/* Also where the tracer, which lets go, has not had a processor since. */
	return atomic_load(&f->over) || (f->max_pause_ms && frozen_elapsed_ns(f) >= (int64_t)f->max_pause_ms * 1000000);
}

int64_t frozen_elapsed_ns(const struct frozen *f)
{
	int64_t last = atomic_load(&f->last_ns);
	return (last ? last : now_ns(CLOCK_MONOTONIC)) - atomic_load(&f->first_ns);
}

int64_t frozen_time_ns(const struct frozen *f)
{
	return f->time_ns;
}

int64_t thaw(struct frozen *f)
{
	if (!f->joined) {
		uint64_t one = 1;
		while (write(f->release_fd, &one, sizeof one) < 0 && errno == EINTR)
			;
		pthread_join(f->tracer, NULL);
		f->joined = true;
	}
	return frozen_elapsed_ns(f);
}

bool frozen_died(const struct frozen *f)
{
	return f->died;
}

void frozen_free(struct frozen *f)
{
	if (!f)
		return;
	thaw(f);
	frozen_destroy(f);
}
