/* A process to be stopped by a test: a forked child that does something and counts, seen through shared memory. */
#ifndef TESTS_TARGET_H
#define TESTS_TARGET_H

#include <stdatomic.h>
#include <stdint.h>
#include <sys/types.h>

/* Shared by the test and its child. */
struct shared {
	atomic_ulong count;      /* goes up while the child runs */
	atomic_ulong got;        /* what the child took: signals, results */
	atomic_uint ready;       /* the child is where the test wants it */
	atomic_uint go;          /* the test says so */
	uintptr_t at[8];         /* addresses in the child */
	pid_t tid[8];
};

struct target {
	pid_t pid;
	struct shared *s;
};

/* Runs body in a child until target_end; returns once ready is set. */
struct target target_start(void (*body)(struct shared *s));
void target_end(struct target *t);                 /* kills and reaps it */
char target_state(pid_t pid, pid_t tid);           /* the letter of /proc/PID/task/TID/stat; 0 if there is none */
pid_t target_tracer(pid_t pid, pid_t tid);         /* TracerPid */
int target_moves(const struct target *t);          /* does count go up? */
void target_wait_state(pid_t pid, pid_t tid, const char *letters); /* for at most 5 s; fails the test */
void target_start_thread(void *(*body)(void *), void *arg); /* in the child; with a small stack, detached */
void *target_idle(void *arg);                       /* a thread's body: for ever */
void sleep_ms(unsigned ms);
int64_t clock_ms(void);

#endif
