/*
 * src/snap/freeze meets execve, which ends all other threads of a process and takes the number of the first one.  ptrace and sigtimedwait
 * are those below, so that the two meet where they would have to wait for each other.
 */
#include "snap/freeze.h"

#include <check.h>
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "suite.h"
#include "target.h"

static const struct freeze_options patient = { .max_pause_ms = 0, .deadline_ms = 10000 };

static void execs(struct shared *s)
{
	for (int i = 0; i < 3; i++)
		target_start_thread(target_idle, NULL);
	atomic_store(&s->ready, 1);
	while (!atomic_load(&s->go))
		;
	execl("/bin/sleep", "sleep", "100", (char *)NULL);
	_exit(9);
}

/* It became another program, whether it was caught in that or not, and runs without a tracer. */
static void runs_sleep(struct target *c)
{
	target_wait_state(c->pid, c->pid, "SR");
	ck_assert_int_eq(waitpid(c->pid, NULL, WNOHANG), 0);
	for (unsigned i = 0; i < 1000 && target_tracer(c->pid, c->pid); i++)
		sleep_ms(1);
	ck_assert_int_eq(target_tracer(c->pid, c->pid), 0);
	target_end(c);
}

START_TEST(becomes_another_program)
{
	unsigned gone = 0;
	for (unsigned round = 0; round < 40; round++) {
		struct target c = target_start(execs);
		struct frozen *f;
		struct err err = { 0 };
		atomic_store(&c.s->go, 1);
		for (volatile unsigned i = 0; i < round * 3000; i++)
			;
		int code = freeze(c.pid, &patient, &f, &err);
		ck_assert_msg(code == 0 || code == ERR_GONE, "%d: %s", code, err.msg);
		if (code == 0)
			frozen_free(f);
		else
			gone++;
		runs_sleep(&c);
	}
	fprintf(stderr, "# %u of 40 were caught in execve\n", gone);
}
END_TEST

/* One of many threads: it takes over the number of the first one, which may be being seized. */
static void *exec_soon(void *arg)
{
	struct shared *s = arg;
	unsigned wait;
	while (!(wait = atomic_load(&s->go)))
		;
	for (volatile unsigned i = 0; i < wait; i++)
		;
	execl("/bin/sleep", "sleep", "100", (char *)NULL);
	_exit(9);
}

static void execs_among_many(struct shared *s)
{
	for (int i = 0; i < 300; i++) {
		if (i == 150)
			target_start_thread(exec_soon, s);
		target_start_thread(target_idle, NULL);
	}
	atomic_store(&s->ready, 1);
	target_idle(NULL);
}

START_TEST(many_threads_become_another_program)
{
	unsigned gone = 0;
	for (unsigned round = 0; round < 40; round++) {
		struct target c = target_start(execs_among_many);
		struct frozen *f;
		struct err err = { 0 };
		atomic_store(&c.s->go, 1 + round / 2 * 400000);
		for (volatile unsigned i = 0; round % 2 && i < round * 20000; i++)
			;
		int code = freeze(c.pid, &patient, &f, &err);
		ck_assert_msg(code == 0 || (code == ERR_GONE && strstr(err.msg, "another program")), "%d: %s; %s", code, err.msg, err.why);
		if (code == 0)
			frozen_free(f);
		else
			gone++;
		runs_sleep(&c);
	}
	fprintf(stderr, "# %u of 40 were caught in execve among many threads\n", gone);
}
END_TEST

/* The third thread takes long to end, since it has many files of its own to close. */
static void *closes_for_long(void *arg)
{
	struct shared *s = arg;
	struct rlimit files;
	if (unshare(CLONE_FILES) || getrlimit(RLIMIT_NOFILE, &files))
		_exit(9);
	files.rlim_cur = files.rlim_max < 200000 ? files.rlim_max : 200000;
	if (setrlimit(RLIMIT_NOFILE, &files))
		_exit(9);
	while (dup(2) >= 0)
		;
	atomic_store(&s->ready, 1);
	return target_idle(NULL);
}

static void execs_and_ends_slowly(struct shared *s)
{
	for (int i = 0; i < 2; i++)
		target_start_thread(target_idle, NULL);
	target_start_thread(closes_for_long, s);
	while (!atomic_load(&s->go))
		;
	execl("/bin/sleep", "sleep", "100", (char *)NULL);
	_exit(9);
}

/* Between freeze and the kernel: the target calls execve, and stands in it, before freeze goes on. */
enum when { AT_FOURTH_SEIZE = 1, AT_LAST_STOP };
static struct target *between;
static enum when when;
static pid_t seized[4];
static unsigned n_seized, n_stood, n_gone;
static int64_t longest_ms;

static void go_into_execve(void)
{
	atomic_store(&between->s->go, 1);
	/* Or it is past it and stands traced: freeze has taken notice of the killed ones meanwhile. */
	target_wait_state(between->pid, between->pid, "Dt");
	n_gone++;
}

static long ask(long what, pid_t tid, void *addr, void *data)
{
	const int64_t begin = clock_ms();
	const long got = syscall(SYS_ptrace, what, (long)tid, addr, data);
	const int e = errno;
	longest_ms = clock_ms() - begin > longest_ms ? clock_ms() - begin : longest_ms;
	errno = e;
	return got;
}

long ptrace(enum __ptrace_request what, ...)
{
	va_list args;
	va_start(args, what);
	const pid_t tid = va_arg(args, pid_t);
	void *addr = va_arg(args, void *), *data = va_arg(args, void *);
	va_end(args);
	if (!between || (what != PTRACE_SEIZE && what != PTRACE_INTERRUPT))
		return ask(what, tid, addr, data);
	if (what == PTRACE_SEIZE && n_seized < 4) {
		seized[n_seized++] = tid;
		if (when == AT_FOURTH_SEIZE && n_seized == 4)
			go_into_execve();
	}
	if (what == PTRACE_INTERRUPT && when == AT_LAST_STOP && tid == between->pid)
		return 0; /* later, from sigtimedwait */
	return ask(what, tid, addr, data);
}

static bool stand(const pid_t *tid, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (target_state(between->pid, tid[i]) != 't')
			return false;
	return true;
}

/* Freeze waits: for the thread that calls execve, once the others stood already when it waited before. */
int sigtimedwait(const sigset_t *set, siginfo_t *info, const struct timespec *timeout)
{
	if (between && when == AT_LAST_STOP && !n_gone && seized[0] == between->pid && stand(seized + 1, 3) && n_stood++) {
		go_into_execve();
		(void)ask(PTRACE_INTERRUPT, between->pid, NULL, NULL);
	}
	return (int)syscall(SYS_rt_sigtimedwait, set, info, &(struct { long s, ns; }){ (long)timeout->tv_sec, timeout->tv_nsec }, _NSIG / 8);
}

/*
 * The execve waits for threads that it killed, until freeze takes notice of their end; freeze waits in PTRACE_SEIZE for the execve, or
 * for the thread that calls it to stop when the others have.
 */
START_TEST(stands_in_execve)
{
	unsigned waited = 0;
	for (unsigned round = 0; round < 10; round++) {
		struct target c = target_start(execs_and_ends_slowly);
		struct frozen *f;
		struct err err = { 0 };
		between = &c;
		when = (enum when)_i;
		n_seized = n_stood = n_gone = 0;
		longest_ms = 0;
		int code = freeze(c.pid, &patient, &f, &err);
		between = NULL;
		ck_assert_int_eq(n_gone, 1);
		ck_assert_msg(code == ERR_GONE, "%d: %s", code, err.msg);
		waited += longest_ms > 2;
		runs_sleep(&c);
	}
	if (_i == AT_FOURTH_SEIZE)
		fprintf(stderr, "# %u of 10 had PTRACE_SEIZE wait for an execve\n", waited);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("execve");
	TCase *t = tcase_create("execve");
	tcase_set_timeout(t, 60);
	tcase_add_test(t, becomes_another_program);
	tcase_add_test(t, many_threads_become_another_program);
	tcase_add_loop_test(t, stands_in_execve, AT_FOURTH_SEIZE, AT_LAST_STOP + 1);
	suite_add_tcase(s, t);
	return suite_run(s);
}
