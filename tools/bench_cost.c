/*
 * Runs a command with its output thrown away and prints what it cost: CPU nanoseconds, wall nanoseconds, peak bytes, exit status.
 * A small program of its own, since the peak memory of a child counts that of its parent at the fork.
 *   bench_cost COMMAND [ARGUMENT...]
 */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static int64_t now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static int64_t nanoseconds(struct timeval t)
{
	return (int64_t)t.tv_sec * 1000000000 + t.tv_usec * 1000;
}

int main(int argc, char **argv)
{
	if (argc < 2)
		return 2;
	int64_t start = now();
	pid_t pid = fork();
	if (pid < 0)
		return 1;
	if (pid == 0) {
		int null = open("/dev/null", O_RDWR);
		if (null < 0 || dup2(null, 0) < 0 || dup2(null, 1) < 0 || dup2(null, 2) < 0)
			_exit(127);
		execvp(argv[1], argv + 1);
		_exit(127);
	}
	int status;
	struct rusage usage;
	if (wait4(pid, &status, 0, &usage) != pid)
		return 1;
	printf("%" PRId64 " %" PRId64 " %ld %d\n", nanoseconds(usage.ru_utime) + nanoseconds(usage.ru_stime), now() - start,
	       usage.ru_maxrss * 1024, WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
	return 0;
}
