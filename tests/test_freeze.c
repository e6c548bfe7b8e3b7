/* src/snap/freeze: every thread stands still, no signal is lost, and the target runs on whatever happens. */
#include "snap/freeze.h"

#include <check.h>
#include <dirent.h>
#include <elf.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "suite.h"
#include "target.h"

static const struct freeze_options patient = { .max_pause_ms = 0, .deadline_ms = 10000 };

static void count_for_ever(struct shared *s)
{
	for (;;) {
		atomic_fetch_add(&s->count, 1);
		sleep_ms(1);
	}
}

static struct frozen *freeze_ok(pid_t pid)
{
	struct frozen *f;
	struct err err = { 0 };
	ck_assert_msg(freeze(pid, &patient, &f, &err) == 0, "%s; %s", err.msg, err.why);
	return f;
}

/* --- threads --- */

static unsigned n_threads;

static void *named(void *arg)
{
	char name[16];
	snprintf(name, sizeof name, "worker-%u", *(unsigned *)arg);
	pthread_setname_np(pthread_self(), name);
	atomic_fetch_add(&((struct shared *)((unsigned **)arg)[1])->got, 1);
	return target_idle(arg);
}

static void many(struct shared *s)
{
	struct { unsigned i; void *s; } *arg = calloc(n_threads, sizeof *arg);
	for (unsigned i = 0; i < n_threads; i++) {
		arg[i].i = i;
		arg[i].s = s;
		target_start_thread(named, &arg[i]);
	}
	while (atomic_load(&s->got) < n_threads)
		sleep_ms(1);
	atomic_store(&s->ready, 1);
	count_for_ever(s);
}

static void check_all_stopped(pid_t pid, const struct frozen *f)
{
	const struct thread *t;
	size_t n = frozen_threads(f, &t), seen = 0;
	char path[64];
	snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
	DIR *d = opendir(path);
	ck_assert_ptr_nonnull(d);
	for (struct dirent *e; (e = readdir(d));) {
		if (e->d_name[0] == '.')
			continue;
		pid_t tid = atoi(e->d_name);
		char state = target_state(pid, tid);
		if (state == 'Z' || !state)
			continue;
		ck_assert_msg(state == 't', "thread %d is in state %c", (int)tid, state);
		size_t i = 0;
		while (i < n && t[i].tid != tid)
			i++;
		ck_assert_msg(i < n, "thread %d is not in the list", (int)tid);
		seen++;
	}
	closedir(d);
	ck_assert_uint_eq(seen, n);
}

static const unsigned sizes[] = { 0, 1, 63, 1000 };

START_TEST(all_threads_stop_and_run_on)
{
	n_threads = sizes[_i];
	struct target c = target_start(many);
	for (unsigned round = 0; round < 3; round++) {
		struct frozen *f = freeze_ok(c.pid);
		check_all_stopped(c.pid, f);
		const struct thread *t;
		ck_assert_uint_eq(frozen_threads(f, &t), n_threads + 1);
		ck_assert_int_eq(t[0].tid, c.pid);
		ck_assert_int_eq(frozen_tid(f), c.pid);
		for (size_t i = 1; i <= n_threads; i++) {
			ck_assert(str_starts(t[i].name, "worker-"));
			ck_assert(t[i].state == 'S' || t[i].state == 'R'); /* on its way into pause */
			ck_assert_int_eq(t[i].signo, 0);
		}
		unsigned long before = atomic_load(&c.s->count);
		sleep_ms(20);
		ck_assert_uint_eq(atomic_load(&c.s->count), before);
		int64_t ns = thaw(f);
		ck_assert_int_ge(ns, 20000000);
		ck_assert_int_lt(ns, 5000000000);
		ck_assert_int_eq(thaw(f), ns);
		ck_assert(!frozen_died(f) && !frozen_over(f));
		ck_assert(target_moves(&c));
		ck_assert_int_eq(target_tracer(c.pid, c.pid), 0);
		frozen_free(f);
	}
	target_end(&c);
}
END_TEST

static void *short_lived(void *arg)
{
	struct shared *s = arg;
	for (int i = 0; i < 20; i++) {
		atomic_fetch_add(&s->count, 1);
		struct timespec t = { 0, 100000 };
		nanosleep(&t, NULL);
	}
	atomic_fetch_sub(&s->got, 1);
	return NULL;
}

static void *churner(void *arg)
{
	struct shared *s = arg;
	for (;;) {
		if (atomic_fetch_add(&s->got, 1) < 40)
			target_start_thread(short_lived, arg);
		else
			atomic_fetch_sub(&s->got, 1);
	}
	return NULL;
}

static void churn(struct shared *s)
{
	for (int i = 0; i < 2; i++)
		target_start_thread(churner, s);
	atomic_store(&s->ready, 1);
	target_idle(s);
}

START_TEST(threads_that_come_and_go)
{
	struct target c = target_start(churn);
	for (unsigned round = 0; round < 100; round++) {
		struct frozen *f = freeze_ok(c.pid);
		unsigned long before = atomic_load(&c.s->count);
		check_all_stopped(c.pid, f);
		sleep_ms(1);
		ck_assert_uint_eq(atomic_load(&c.s->count), before);
		frozen_free(f);
		ck_assert(target_moves(&c));
	}
	int status;
	ck_assert_int_eq(waitpid(c.pid, &status, WNOHANG), 0);
	target_end(&c);
}
END_TEST

static void *leave_main(void *arg)
{
	struct shared *s = arg;
	s->tid[0] = (pid_t)syscall(SYS_gettid);
	while (target_state(getpid(), getpid()) != 'Z')
		sleep_ms(1);
	atomic_store(&s->ready, 1);
	count_for_ever(s);
	return NULL;
}

static void zombie_leader(struct shared *s)
{
	target_start_thread(leave_main, s);
	syscall(SYS_exit, 0); /* the thread alone */
}

START_TEST(first_thread_has_ended)
{
	struct target c = target_start(zombie_leader);
	ck_assert_int_eq(target_state(c.pid, c.pid), 'Z');
	struct frozen *f = freeze_ok(c.pid);
	const struct thread *t;
	ck_assert_uint_eq(frozen_threads(f, &t), 1);
	ck_assert_int_eq(t[0].tid, c.s->tid[0]);
	ck_assert_int_eq(frozen_tid(f), c.s->tid[0]);
	frozen_free(f);
	ck_assert(target_moves(&c));
	target_end(&c);
}
END_TEST

/*
 * A thread that is on its way out for long, since it has much to free: it can be seized and never stops; and the end of the first
 * thread is told to nobody before that of the others.
 */
static void free_much(struct shared *s)
{
	enum { BYTES = 256 << 20 };
	int fd = unshare(CLONE_FILES) ? -1 : memfd_create("much", MFD_CLOEXEC);
	char *p = fd < 0 || ftruncate(fd, BYTES) ? MAP_FAILED : mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (p == MAP_FAILED)
		_exit(9);
	memset(p, 1, BYTES);
	munmap(p, BYTES);
	atomic_store(&s->ready, 1);
	while (!atomic_load(&s->go))
		;
	syscall(SYS_exit, 0);
}

static void *count_in_thread(void *arg)
{
	count_for_ever(arg);
	return NULL;
}

static void first_leaves(struct shared *s)
{
	target_start_thread(count_in_thread, s);
	free_much(s);
}

static void *leave_thread(void *arg)
{
	free_much(arg);
	return NULL;
}

static void other_leaves(struct shared *s)
{
	target_start_thread(leave_thread, s);
	count_for_ever(s);
}

static void (*const leavers[])(struct shared *s) = { first_leaves, other_leaves };

START_TEST(thread_that_ends_meanwhile)
{
	struct target c = target_start(leavers[_i]);
	atomic_store(&c.s->go, 1);
	for (unsigned i = 0; i < 20; i++) {
		struct frozen *f;
		struct err err = { 0 };
		const int64_t begun = clock_ms();
		const struct thread *t;
		ck_assert_msg(freeze(c.pid, &(struct freeze_options){ .deadline_ms = 3000 }, &f, &err) == 0, "%s; %s", err.msg, err.why);
		ck_assert_int_lt(clock_ms() - begun, 2500);
		ck_assert_uint_ge(frozen_threads(f, &t), 1);
		frozen_free(f);
		ck_assert(target_moves(&c));
		ck_assert_int_eq(target_tracer(c.pid, c.pid), 0);
		sleep_ms(5);
	}
	target_end(&c);
}
END_TEST

/* --- signals --- */

static struct shared *taken;

static void take(int signo, siginfo_t *info, void *context)
{
	atomic_fetch_add(&taken->got, 1);
	atomic_fetch_add(&taken->count, (unsigned long)info->si_value.sival_int);
}

static void signal_taker(struct shared *s)
{
	taken = s;
	struct sigaction sa = { .sa_sigaction = take, .sa_flags = SA_SIGINFO };
	sigaction(SIGRTMIN + 3, &sa, NULL);
	for (int i = 0; i < 3; i++)
		target_start_thread(target_idle, NULL);
	atomic_store(&s->ready, 1);
	target_idle(s);
}

START_TEST(no_signal_is_lost)
{
	enum { N = 3000 };
	struct target c = target_start(signal_taker);
	pid_t sender = fork();
	if (sender == 0) {
		for (int i = 1; i <= N; i++) {
			while (sigqueue(c.pid, SIGRTMIN + 3, (union sigval){ .sival_int = i }) < 0)
				sleep_ms(1);
			if (i % 50 == 0)
				sleep_ms(1);
		}
		_exit(0);
	}
	unsigned rounds = 0, caught = 0;
	while (waitpid(sender, NULL, WNOHANG) == 0 || rounds < 20) {
		struct frozen *f = freeze_ok(c.pid);
		const struct thread *t;
		size_t n = frozen_threads(f, &t);
		for (size_t i = 0; i < n; i++) {
			if (!t[i].signo)
				continue;
			caught++;
			ck_assert_int_eq(t[i].signo, SIGRTMIN + 3);
			siginfo_t info;
			ck_assert_uint_eq(t[i].siginfo.len, sizeof info);
			memcpy(&info, t[i].siginfo.p, sizeof info);
			ck_assert_int_eq(info.si_signo, SIGRTMIN + 3);
			ck_assert_int_eq(info.si_pid, sender);
		}
		frozen_free(f);
		rounds++;
	}
	for (unsigned i = 0; i < 5000 && atomic_load(&c.s->got) < N; i++)
		sleep_ms(1);
	ck_assert_uint_eq(atomic_load(&c.s->got), N);
	ck_assert_uint_eq(atomic_load(&c.s->count), (unsigned long)N * (N + 1) / 2); /* with their values */
	fprintf(stderr, "# %u rounds, %u signals were at their delivery\n", rounds, caught);
	target_end(&c);
}
END_TEST

/* More threads, so that to seize them takes long enough for signals to be met at their delivery. */
static void signal_taker_of_many(struct shared *s)
{
	for (int i = 0; i < 200; i++)
		target_start_thread(target_idle, NULL);
	signal_taker(s);
}

enum { AT_STOP, AT_SENT, AT_CAUGHT };

/* Who has frozen it is killed: what was taken at its delivery is delivered all the same. */
START_TEST(no_signal_is_lost_by_a_kill)
{
	enum { WANTED = 5, ROUNDS = 400 };
	struct target c = target_start(signal_taker_of_many);
	volatile uintptr_t *at = c.s->at;
	pid_t sender = fork();
	if (sender == 0) {
		while (!at[AT_STOP])
			if (sigqueue(c.pid, SIGRTMIN + 3, (union sigval){ .sival_int = 1 }) == 0)
				at[AT_SENT]++;
		_exit(0);
	}
	unsigned rounds = 0;
	for (; rounds < ROUNDS && at[AT_CAUGHT] < WANTED; rounds++) {
		atomic_store(&c.s->go, 0);
		pid_t dumper = fork();
		if (dumper == 0) {
			struct frozen *f;
			if (freeze(c.pid, &patient, &f, NULL))
				_exit(9);
			const struct thread *t;
			size_t n = frozen_threads(f, &t);
			for (size_t i = 0; i < n; i++)
				at[AT_CAUGHT] += t[i].signo != 0;
			atomic_store(&c.s->go, 1);
			for (;;)
				pause();
		}
		while (!atomic_load(&c.s->go))
			ck_assert_int_eq(waitpid(dumper, NULL, WNOHANG), 0);
		kill(dumper, SIGKILL);
		waitpid(dumper, NULL, 0);
	}
	at[AT_STOP] = 1;
	waitpid(sender, NULL, 0);
	for (unsigned i = 0; i < 5000 && atomic_load(&c.s->got) < at[AT_SENT]; i++)
		sleep_ms(1);
	fprintf(stderr, "# %u rounds, %u signals were at their delivery when who took them was killed\n", rounds, (unsigned)at[AT_CAUGHT]);
	ck_assert_uint_eq(atomic_load(&c.s->got), at[AT_SENT]);
	target_end(&c);
}
END_TEST

static void counting(struct shared *s)
{
	target_start_thread(target_idle, NULL);
	atomic_store(&s->ready, 1);
	count_for_ever(s);
}

START_TEST(stopped_stays_stopped)
{
	struct target c = target_start(counting);
	kill(c.pid, SIGSTOP);
	target_wait_state(c.pid, c.pid, "T");
	for (int i = 0; i < 5; i++) {
		struct frozen *f = freeze_ok(c.pid);
		check_all_stopped(c.pid, f);
		const struct thread *t;
		ck_assert_uint_eq(frozen_threads(f, &t), 2);
		ck_assert_int_eq(t[0].state, 'T');
		frozen_free(f);
		target_wait_state(c.pid, c.pid, "T");
	}
	unsigned long before = atomic_load(&c.s->count);
	sleep_ms(30);
	ck_assert_uint_eq(atomic_load(&c.s->count), before);
	kill(c.pid, SIGCONT);
	ck_assert(target_moves(&c));
	target_end(&c);
}
END_TEST

START_TEST(stop_and_continue_while_frozen)
{
	struct target c = target_start(counting);
	struct frozen *f = freeze_ok(c.pid);
	kill(c.pid, SIGSTOP);
	sleep_ms(5);
	frozen_free(f);
	target_wait_state(c.pid, c.pid, "T");
	f = freeze_ok(c.pid);
	kill(c.pid, SIGCONT);
	sleep_ms(5);
	frozen_free(f);
	ck_assert(target_moves(&c));
	target_end(&c);
}
END_TEST

/* --- what cannot be stopped, or not for long --- */

static void *vforker(void *arg)
{
	struct shared *s = arg;
	s->tid[0] = (pid_t)syscall(SYS_gettid);
	/* vfork itself: the parent waits in the kernel, and cannot be interrupted, until the child is gone. */
	pid_t child = vfork();
	if (child == 0) {
		struct timespec t = { 2, 0 };
		nanosleep(&t, NULL);
		_exit(0);
	}
	waitpid(child, NULL, 0);
	atomic_store(&s->got, 1);
	return target_idle(NULL);
}

static void vfork_parent(struct shared *s)
{
	target_start_thread(vforker, s);
	while (!s->tid[0] || target_state(getpid(), s->tid[0]) != 'D')
		sleep_ms(1);
	atomic_store(&s->ready, 1);
	count_for_ever(s);
}

START_TEST(vfork_parent_is_given_up)
{
	struct target c = target_start(vfork_parent);
	struct frozen *f;
	struct err err = { 0 };
	int64_t start = clock_ms();
	ck_assert_int_eq(freeze(c.pid, &(struct freeze_options){ .deadline_ms = 150 }, &f, &err), ERR_LIMIT);
	ck_assert_int_ge(clock_ms() - start, 100);
	ck_assert_int_lt(clock_ms() - start, 1500);
	char tid[16];
	snprintf(tid, sizeof tid, "%d", (int)c.s->tid[0]);
	ck_assert_ptr_nonnull(strstr(err.msg, tid));
	ck_assert_ptr_nonnull(strstr(err.why, "state D"));
	ck_assert(target_moves(&c));
	/* Nothing of us waits for the thread when it comes back. */
	ck_assert_int_eq(target_tracer(c.pid, c.s->tid[0]), 0);
	for (unsigned i = 0; i < 5000 && !atomic_load(&c.s->got); i++)
		sleep_ms(1);
	ck_assert_uint_eq(atomic_load(&c.s->got), 1);
	target_wait_state(c.pid, c.s->tid[0], "S");
	frozen_free(freeze_ok(c.pid));
	target_end(&c);
}
END_TEST

START_TEST(longest_pause)
{
	struct target c = target_start(counting);
	struct frozen *f;
	ck_assert_int_eq(freeze(c.pid, &(struct freeze_options){ .max_pause_ms = 60, .deadline_ms = 5000 }, &f, NULL), 0);
	unsigned long before = atomic_load(&c.s->count);
	sleep_ms(10);
	ck_assert(!frozen_over(f));
	ck_assert_uint_eq(atomic_load(&c.s->count), before);
	/* Nobody thaws: the copier hangs. */
	ck_assert(target_moves(&c));
	ck_assert(frozen_over(f));
	ck_assert_int_lt(thaw(f), 2000000000);
	frozen_free(f);
	target_end(&c);
}
END_TEST

START_TEST(killed_while_frozen)
{
	struct target c = target_start(counting);
	struct frozen *f = freeze_ok(c.pid);
	kill(c.pid, SIGKILL);
	sleep_ms(20);
	thaw(f);
	ck_assert(frozen_died(f));
	frozen_free(f);
	target_end(&c);
}
END_TEST

/* The one that stops is killed. */
START_TEST(dies_while_frozen)
{
	struct target c = target_start(counting);
	for (int stopped = 0; stopped < 2; stopped++) {
		if (stopped) {
			kill(c.pid, SIGSTOP);
			target_wait_state(c.pid, c.pid, "T");
		}
		pid_t freezer = fork();
		if (freezer == 0) {
			struct frozen *f;
			if (freeze(c.pid, &patient, &f, NULL))
				_exit(1);
			target_idle(NULL);
		}
		target_wait_state(c.pid, c.pid, "t");
		kill(freezer, SIGKILL);
		waitpid(freezer, NULL, 0);
		target_wait_state(c.pid, c.pid, stopped ? "T" : "SR");
		ck_assert_int_eq(target_tracer(c.pid, c.pid), 0);
	}
	kill(c.pid, SIGCONT);
	ck_assert(target_moves(&c));
	target_end(&c);
}
END_TEST

/* --- refusals --- */

START_TEST(already_traced)
{
	struct target c = target_start(counting);
	pid_t tracer = fork();
	if (tracer == 0) {
		prctl(PR_SET_NAME, "debugger");
		if (ptrace(PTRACE_SEIZE, c.pid, NULL, NULL))
			_exit(1);
		target_idle(NULL);
	}
	while (!target_tracer(c.pid, c.pid))
		sleep_ms(1);
	struct frozen *f;
	struct err err;
	char want[128];
	snprintf(want, sizeof want, "process %d is already being traced by debugger (pid %d)", (int)c.pid, (int)tracer);
	ck_assert_int_eq(freeze(c.pid, &patient, &f, &err), ERR_TRACED);
	ck_assert_str_eq(err.msg, want);
	ck_assert_str_eq(err.hint, "end that session first");
	ck_assert(target_moves(&c));
	kill(tracer, SIGKILL);
	waitpid(tracer, NULL, 0);
	target_end(&c);
}
END_TEST

START_TEST(only_one_thread_is_traced)
{
	/* Seen only when that thread is seized: the others must be let go. */
	n_threads = 3;
	struct target c = target_start(many);
	DIR *d;
	char path[64];
	snprintf(path, sizeof path, "/proc/%d/task", (int)c.pid);
	d = opendir(path);
	pid_t last = 0;
	for (struct dirent *e; (e = readdir(d));)
		if (e->d_name[0] != '.')
			last = atoi(e->d_name);
	closedir(d);
	ck_assert_int_ne(last, c.pid);
	pid_t tracer = fork();
	if (tracer == 0) {
		if (ptrace(PTRACE_SEIZE, last, NULL, NULL))
			_exit(1);
		target_idle(NULL);
	}
	while (!target_tracer(c.pid, last))
		sleep_ms(1);
	struct frozen *f;
	struct err err;
	ck_assert_int_eq(freeze(c.pid, &patient, &f, &err), ERR_TRACED);
	ck_assert(target_moves(&c));
	ck_assert_int_eq(target_tracer(c.pid, c.pid), 0);
	kill(tracer, SIGKILL);
	waitpid(tracer, NULL, 0);
	target_end(&c);
}
END_TEST

START_TEST(no_such_process)
{
	pid_t pid = fork();
	if (pid == 0)
		_exit(0);
	struct frozen *f;
	struct err err;
	char want[128];
	for (int reaped = 0; reaped < 2; reaped++) {
		if (reaped)
			waitpid(pid, NULL, 0);
		else
			target_wait_state(pid, pid, "Z");
		snprintf(want, sizeof want, reaped ? "no process %d" : "process %d has ended; its parent has not taken note of that yet (it is a zombie)",
			 (int)pid);
		ck_assert_int_eq(freeze(pid, &patient, &f, &err), ERR_GONE);
		ck_assert_str_eq(err.msg, want);
		ck_assert_str_eq(err.hint, reaped ? "pgrep -af python" : "for crashes, let the kernel write a core (ulimit -c unlimited)");
	}
	ck_assert_int_eq(freeze(0, &patient, &f, &err), ERR_GONE);
	ck_assert_int_eq(freeze(-1, &patient, &f, &err), ERR_GONE);
	ck_assert_int_eq(freeze(getpid(), &patient, &f, &err), ERR_UNSUPPORTED);
}
END_TEST

START_TEST(thread_number_instead_of_process)
{
	struct target c = target_start(vfork_parent);
	struct frozen *f;
	struct err err;
	char want[64], hint[64];
	snprintf(want, sizeof want, "%d is a thread of process %d", (int)c.s->tid[0], (int)c.pid);
	snprintf(hint, sizeof hint, "pysnap %d", (int)c.pid);
	ck_assert_int_eq(freeze(c.s->tid[0], &patient, &f, &err), ERR_GONE);
	ck_assert_str_eq(err.msg, want);
	ck_assert_str_eq(err.hint, hint);
	target_end(&c);
}
END_TEST

START_TEST(process_of_another_user)
{
	if (geteuid() != 0)
		return; /* needs a user to become */
	struct target c = target_start(counting);
	pid_t other = fork();
	if (other == 0) {
		struct frozen *f;
		struct err err = { 0 };
		if (setgid(65534) || setuid(65534))
			_exit(99);
		int code = freeze(c.pid, &patient, &f, &err);
		char want[128];
		snprintf(want, sizeof want, "cannot stop process %d: it belongs to user \"root\"", (int)c.pid);
		_exit(code != ERR_PERM ? 1 : strcmp(err.msg, want) ? 2 : strstr(err.hint, "sudo pysnap") ? 0 : 3);
	}
	int status;
	waitpid(other, &status, 0);
	ck_assert(WIFEXITED(status));
	ck_assert_int_eq(WEXITSTATUS(status), 0);
	ck_assert(target_moves(&c));
	target_end(&c);
}
END_TEST

/* --- registers --- */

#if defined(__x86_64__)
static void *known_registers(void *arg)
{
	struct shared *s = arg;
	s->tid[0] = (pid_t)syscall(SYS_gettid);
	uint64_t xmm[2] = { 0x1122334455667788, 0x99aabbccddeeff00 };
	__asm__ volatile("movups %1, %%xmm5\n\t"
			 "mov $0x0123456789abcdef, %%r12\n\t"
			 "mov $0xfedcba9876543210, %%r13\n\t"
			 "lea 1f(%%rip), %%rax\n\t"
			 "mov %%rax, %0\n\t"
			 "movl $1, %2\n"
			 "1: jmp 1b"
			 : "=m"(s->at[0]), "+m"(xmm), "=m"(s->ready)
			 :
			 : "rax", "r12", "r13", "xmm5", "memory");
	return NULL;
}

static void spin(struct shared *s)
{
	target_start_thread(known_registers, s);
	target_idle(NULL);
}

START_TEST(registers_and_notes)
{
	struct target c = target_start(spin);
	struct frozen *f = freeze_ok(c.pid);
	const struct thread *t;
	ck_assert_uint_eq(frozen_threads(f, &t), 2);
	ck_assert_int_eq(t[1].tid, c.s->tid[0]);
	ck_assert_uint_eq(t[1].regs.pc, c.s->at[0]);
	ck_assert_uint_eq(t[1].regs.value[12], 0x0123456789abcdef); /* DWARF numbers 12..15 are r12..r15 */
	ck_assert_uint_eq(t[1].regs.value[13], 0xfedcba9876543210);
	ck_assert_int_eq(t[1].state, 'R');
	/* Where libraries read them: struct elf_prstatus, elf_fpregset_t, the XSAVE area. */
	ck_assert_uint_eq(t[1].prstatus.len, 336);
	uint32_t pid;
	memcpy(&pid, t[1].prstatus.p + 32, 4);
	ck_assert_int_eq((pid_t)pid, t[1].tid);
	uint64_t r12;
	memcpy(&r12, t[1].prstatus.p + 112 + 3 * 8, 8);
	ck_assert_uint_eq(r12, 0x0123456789abcdef);
	ck_assert_uint_eq(t[1].fpregset.len, 512);
	ck_assert_uint_ge(t[1].xstate.len, 576);
	uint64_t xmm5[2];
	memcpy(xmm5, t[1].fpregset.p + 160 + 5 * 16, 16);
	ck_assert_uint_eq(xmm5[0], 0x1122334455667788);
	ck_assert_uint_eq(xmm5[1], 0x99aabbccddeeff00);
	ck_assert_int_eq(memcmp(t[1].xstate.p + 160 + 5 * 16, xmm5, 16), 0);
	ck_assert_uint_eq(t[1].siginfo.len, 0);
	ck_assert_int_eq(t[0].regs.syscall.nr, SYS_pause);
	frozen_free(f);
	target_end(&c);
}
END_TEST
#endif

int main(void)
{
	Suite *s = suite_create("freeze");
	TCase *t = tcase_create("freeze");
	tcase_set_timeout(t, 60);
	tcase_add_loop_test(t, all_threads_stop_and_run_on, 0, COUNT(sizes));
	tcase_add_test(t, threads_that_come_and_go);
	tcase_add_test(t, first_thread_has_ended);
	tcase_add_loop_test(t, thread_that_ends_meanwhile, 0, COUNT(leavers));
	tcase_add_test(t, no_signal_is_lost);
	tcase_add_test(t, no_signal_is_lost_by_a_kill);
	tcase_add_test(t, stopped_stays_stopped);
	tcase_add_test(t, stop_and_continue_while_frozen);
	tcase_add_test(t, vfork_parent_is_given_up);
	tcase_add_test(t, longest_pause);
	tcase_add_test(t, killed_while_frozen);
	tcase_add_test(t, dies_while_frozen);
	tcase_add_test(t, already_traced);
	tcase_add_test(t, only_one_thread_is_traced);
	tcase_add_test(t, no_such_process);
	tcase_add_test(t, thread_number_instead_of_process);
	tcase_add_test(t, process_of_another_user);
#if defined(__x86_64__)
	tcase_add_test(t, registers_and_notes);
#endif
	suite_add_tcase(s, t);
	return suite_run(s);
}
