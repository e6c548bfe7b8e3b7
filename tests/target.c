/* Children for tests of freezing and capturing. */
#include "target.h"

#include <check.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

void sleep_ms(unsigned ms)
{
	struct timespec t = { ms / 1000, (long)(ms % 1000) * 1000000 };
	while (nanosleep(&t, &t) < 0)
		;
}

int64_t clock_ms(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

struct target target_start(void (*body)(struct shared *s))
{
	struct target t;
	t.s = mmap(NULL, sizeof *t.s, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ck_assert_ptr_ne(t.s, MAP_FAILED);
	t.pid = fork();
	ck_assert_int_ge(t.pid, 0);
	if (t.pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		body(t.s);
		_exit(0);
	}
	for (unsigned i = 0; !atomic_load(&t.s->ready); i++) {
		ck_assert_msg(i < 10000, "the child did not get ready");
		sleep_ms(1);
	}
	return t;
}

void target_end(struct target *t)
{
	kill(t->pid, SIGKILL);
	waitpid(t->pid, NULL, 0);
	munmap(t->s, sizeof *t->s);
}

static int proc_text(pid_t pid, pid_t tid, const char *name, char *buf, size_t size)
{
	char path[64];
	snprintf(path, sizeof path, "/proc/%d/task/%d/%s", (int)pid, (int)tid, name);
	FILE *f = fopen(path, "r");
	if (!f)
		return 0;
	size_t n = fread(buf, 1, size - 1, f);
	fclose(f);
	buf[n] = '\0';
	return n > 0;
}

char target_state(pid_t pid, pid_t tid)
{
	char buf[1024];
	if (!proc_text(pid, tid, "stat", buf, sizeof buf))
		return 0;
	const char *close = strrchr(buf, ')');
	return close && close[1] ? close[2] : 0;
}

pid_t target_tracer(pid_t pid, pid_t tid)
{
	char buf[4096];
	if (!proc_text(pid, tid, "status", buf, sizeof buf))
		return 0;
	const char *line = strstr(buf, "TracerPid:");
	return line ? atoi(line + 10) : 0;
}

int target_moves(const struct target *t)
{
	unsigned long before = atomic_load(&t->s->count);
	for (unsigned i = 0; i < 2000; i++) {
		if (atomic_load(&t->s->count) != before)
			return 1;
		sleep_ms(1);
	}
	return 0;
}

void target_wait_state(pid_t pid, pid_t tid, const char *letters)
{
	char state = 0;
	for (unsigned i = 0; i < 5000; i++) {
		state = target_state(pid, tid);
		if (state && strchr(letters, state))
			return;
		sleep_ms(1);
	}
	ck_abort_msg("thread %d is in state %c, not %s", (int)tid, state ? state : '-', letters);
}

void *target_idle(void *arg)
{
	for (;;)
		pause();
	return NULL;
}

void target_start_thread(void *(*body)(void *), void *arg)
{
	pthread_attr_t attr;
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 64 << 10);
	pthread_t t;
	if (pthread_create(&t, &attr, body, arg))
		_exit(9);
	pthread_detach(t);
}
