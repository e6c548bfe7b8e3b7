/*
 * Memory of a stopped process into memory that was touched before.  One processor copies 4 to 5 GB/s, of which half is the
 * kernel's work to find and hold each page; two do this side by side (the kernel takes the target's mmap_lock only for
 * reading), so that 2 GB take little more than half as long.
 */
#include "snap/copy.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/uio.h>
#include <unistd.h>

enum {
	CALL_BYTES = 256 << 10,   /* a call: larger ones fall out of the cache, smaller ones cost calls */
	CALL_RANGES = 128,
	SHARE = 4 << 20,          /* what a thread takes at a time: a millisecond's work, for that long all wait for the last one */
	WORTH = 48 << 20,         /* a thread more for each so many bytes: waking one costs up to a millisecond on a busy machine */
	HELPERS = 7,              /* memory gives no more beyond that */
	GIVE_UP_PAGES = 16,       /* so many unreadable pages in a row, and the rest of the range is not tried */
	PAGE = 4096,
};

struct hand {
	struct copy *copy;
	pthread_t thread;
	struct missing_list missing;
};

struct copy {
	struct capture *c;
	pid_t tid;
	int mem;
	uint64_t total;
	_Atomic uint64_t next;    /* where in c->data the next share begins */
	_Atomic bool no_vm;       /* process_vm_readv is not allowed here (a container's seccomp filter) */
	_Atomic int code;         /* the first failure; the others stop at it */
	pthread_mutex_t lock;
	pthread_cond_t change;
	enum phase { WAIT, GO, END } state;
	size_t busy;              /* helpers that took up the work and are not done */
	size_t n;
	struct hand hand[1 + HELPERS];   /* the first is the caller's own */
};

/* A place in the list of ranges: `part` bytes into the i-th. */
struct place { size_t i; addr_t part; };

static struct place place_of(const struct capture *c, uint64_t at)
{
	size_t low = 0, high = c->kept.n;
	while (low + 1 < high) {
		size_t mid = low + (high - low) / 2;
		if (c->kept.p[mid].at <= at)
			low = mid;
		else
			high = mid;
	}
	return (struct place){ low, at - c->kept.p[low].at };
}

static void advance(const struct capture *c, struct place *p, uint64_t bytes)
{
	while (bytes) {
		const struct kept *k = &c->kept.p[p->i];
		uint64_t left = k->end - k->start - p->part;
		if (bytes < left) {
			p->part += bytes;
			return;
		}
		bytes -= left;
		p->i++;
		p->part = 0;
	}
}

/* Ranges lie one behind another in our memory, so one call fills one piece of it from up to CALL_RANGES ranges. */
static ssize_t copy_some(struct copy *copy, struct place p, uint64_t most)
{
	const struct capture *c = copy->c;
	const struct kept *k = &c->kept.p[p.i];
	uint8_t *to = c->data + k->at + p.part;
	addr_t first = k->start + p.part;
	struct iovec from[CALL_RANGES];
	size_t n = 0, bytes = 0;
	if (most > CALL_BYTES)
		most = CALL_BYTES;
	for (; p.i < c->kept.n && n < CALL_RANGES && bytes < most; p.i++, p.part = 0) {
		uint64_t left = c->kept.p[p.i].end - c->kept.p[p.i].start - p.part;
		size_t take = left < most - bytes ? (size_t)left : (size_t)(most - bytes);
		/* process_vm_readv(2) takes the other process's address as a pointer. */
		from[n++] = (struct iovec){ (void *)(uintptr_t)(c->kept.p[p.i].start + p.part), take };
		bytes += take;
	}
	if (!copy->no_vm) {
		ssize_t got = process_vm_readv(copy->tid, &(struct iovec){ to, bytes }, 1, from, n, 0);
		if (got >= 0 || (errno != EPERM && errno != ENOSYS))
			return got;
		copy->no_vm = true;
	}
	return pread(copy->mem, to, from[0].iov_len, (off_t)first);
}

static int copy_share(struct copy *copy, struct hand *hand, uint64_t at, uint64_t end)
{
	const struct capture *c = copy->c;
	struct place p = place_of(c, at);
	unsigned bad = 0;
	while (at < end) {
		ssize_t got = copy_some(copy, p, end - at);
		uint64_t len = got > 0 ? (uint64_t)got : PAGE;
		if (got < 0 && errno == ESRCH)
			return ERR_GONE;
		if (got > 0) {
			bad = 0;
		} else {
			/* This page cannot be had so; /proc/PID/mem reads what has no read permission, too. */
			const struct kept *k = &c->kept.p[p.i];
			addr_t addr = k->start + p.part;
			ssize_t n = pread(copy->mem, c->data + k->at + p.part, PAGE, (off_t)addr);
			if (n < PAGE) {
				if (++bad >= GIVE_UP_PAGES)
					len = k->end - addr < end - at ? k->end - addr : end - at;
				*vec_push(&hand->missing) = (struct missing){ addr, addr + len, n < 0 ? (uint32_t)errno : 0, WHY_UNREADABLE };
			}
		}
		advance(c, &p, len);
		at += len;
		if ((c->opt.interrupted && *c->opt.interrupted) || frozen_over(c->frozen))
			return ERR_LIMIT;
		if (atomic_load_explicit(&copy->code, memory_order_relaxed))
			return 0;
	}
	return 0;
}

static void hand_work(struct copy *copy, struct hand *hand)
{
	for (;;) {
		uint64_t at = atomic_fetch_add(&copy->next, SHARE);
		if (at >= copy->total)
			return;
		int code = copy_share(copy, hand, at, copy->total - at < SHARE ? copy->total : at + SHARE), none = 0;
		if (code) {
			atomic_compare_exchange_strong(&copy->code, &none, code);
			return;
		}
	}
}

static void *hand_run(void *arg)
{
	struct hand *hand = arg;
	struct copy *copy = hand->copy;
	setpriority(PRIO_PROCESS, 0, -20); /* of this thread alone (setpriority(2)); refused without the right to */
	pthread_mutex_lock(&copy->lock);
	while (copy->state == WAIT)
		pthread_cond_wait(&copy->change, &copy->lock);
	if (copy->state == GO) {
		copy->busy++;
		pthread_mutex_unlock(&copy->lock);
		hand_work(copy, hand);
		pthread_mutex_lock(&copy->lock);
		copy->busy--;
		pthread_cond_broadcast(&copy->change);
	}
	pthread_mutex_unlock(&copy->lock);
	return NULL;
}

static size_t processors(void)
{
	cpu_set_t set;
	return sched_getaffinity(0, sizeof set, &set) == 0 ? (size_t)CPU_COUNT(&set) : 1;
}

struct copy *copy_new(struct capture *c, uint64_t bytes)
{
	struct copy *copy = xcalloc(1, sizeof *copy);
	copy->c = c;
	copy->n = 1;
	pthread_mutex_init(&copy->lock, NULL);
	pthread_cond_init(&copy->change, NULL);
	size_t want = processors();
	if (want > 1 + HELPERS)
		want = 1 + HELPERS;
	if (want > 1 + bytes / WORTH)
		want = (size_t)(1 + bytes / WORTH);
	sigset_t all, old;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old); /* signals are for the caller's threads */
	while (copy->n < want) {
		struct hand *hand = &copy->hand[copy->n];
		hand->copy = copy;
		if (pthread_create(&hand->thread, NULL, hand_run, hand) != 0)
			break;
		copy->n++;
	}
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return copy;
}

static void state_set(struct copy *copy, enum phase state)
{
	pthread_mutex_lock(&copy->lock);
	copy->state = state;
	pthread_cond_broadcast(&copy->change);
	pthread_mutex_unlock(&copy->lock);
}

int copy_run(struct copy *copy, pid_t tid, int mem, uint64_t total)
{
	copy->tid = tid;
	copy->mem = mem;
	copy->total = total;
	state_set(copy, GO);
	hand_work(copy, &copy->hand[0]);
	/* All shares are taken.  A helper that did not wake up in time is not waited for: it will find END. */
	pthread_mutex_lock(&copy->lock);
	copy->state = END;
	while (copy->busy)
		pthread_cond_wait(&copy->change, &copy->lock);
	pthread_mutex_unlock(&copy->lock);
	for (size_t i = 0; i < copy->n; i++) {
		for (size_t k = 0; k < copy->hand[i].missing.n; k++)
			*vec_push(&copy->c->missing) = copy->hand[i].missing.p[k];
		copy->hand[i].missing.n = 0;
	}
	return copy->code;
}

void copy_free(struct copy *copy)
{
	if (!copy)
		return;
	state_set(copy, END);
	for (size_t i = 1; i < copy->n; i++)
		pthread_join(copy->hand[i].thread, NULL);
	for (size_t i = 0; i < copy->n; i++)
		vec_free(&copy->hand[i].missing);
	pthread_mutex_destroy(&copy->lock);
	pthread_cond_destroy(&copy->change);
	free(copy);
}
