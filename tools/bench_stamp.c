/*
 * Loaded into a target by ctypes: a thread stamps CLOCK_MONOTONIC every 200 us into a file-backed page, so that what stops
 * the process shows as a gap, measured inside it.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

struct stamps { volatile int64_t largest_gap_ns, stamps, reset; };

int stamp_start(const char *path);

static void *stamp(void *arg)
{
	struct stamps *s = arg;
	int64_t last = 0;
	for (;;) {
		struct timespec t;
		clock_gettime(CLOCK_MONOTONIC, &t);
		int64_t now = (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
		if (s->reset) {
			s->reset = 0;
			s->largest_gap_ns = 0;
		} else if (last && now - last > s->largest_gap_ns) {
			s->largest_gap_ns = now - last;
		}
		s->stamps++;
		last = now;
		struct timespec pause = { 0, 200000 };
		nanosleep(&pause, NULL);
	}
	return NULL;
}

/* path: a file that the benchmark maps too. 0 or an errno. */
int stamp_start(const char *path)
{
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (fd < 0 || ftruncate(fd, 4096) != 0)
		return errno;
	struct stamps *s = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (s == MAP_FAILED)
		return errno;
	pthread_t t;
	return pthread_create(&t, NULL, stamp, s);
}
