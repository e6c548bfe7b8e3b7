/* Running debuginfod-find: the one program that this one executes, with words of its own making only. */
#include "module/fetch.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/str.h"

extern char **environ;

static unsigned ms_since(const struct timespec *start)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	int64_t ms = (now.tv_sec - start->tv_sec) * 1000 + (now.tv_nsec - start->tv_nsec) / 1000000;
	return ms < 0 ? 0 : ms > 1000000 ? 1000000 : (unsigned)ms;
}

/* Whatever it says until it ends its output or its time; ERR_LIMIT: the time. */
static int listen_to(int fd, const struct timespec *start, unsigned ms, char *buf, size_t room, size_t *len)
{
	for (;;) {
		unsigned used = ms_since(start);
		struct pollfd p = { .fd = fd, .events = POLLIN };
		int ready = used < ms ? poll(&p, 1, (int)(ms - used)) : 0;
		if (ready < 0 && errno == EINTR)
			continue;
		if (ready <= 0)
			return ready < 0 ? ERR_IO : ERR_LIMIT;
		char more[256];
		ssize_t got = read(fd, more, sizeof more);
		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			return got < 0 ? ERR_IO : 0;
		size_t n = room - *len < (size_t)got ? room - *len : (size_t)got;
		memcpy(buf + *len, more, n);
		*len += n;
	}
}

/* In a group of its own, so that what it starts ends with it; signals as they are by default. */
static int start_it(const char *what, const char *hex, int out, pid_t *ret)
{
	char *argv[] = { (char[]){ "debuginfod-find" }, (char *)(uintptr_t)what, (char *)(uintptr_t)hex, NULL };
	posix_spawn_file_actions_t files;
	posix_spawnattr_t attr;
	sigset_t all, none;
	sigfillset(&all);
	sigemptyset(&none);
	if (posix_spawn_file_actions_init(&files) != 0)
		return ERR_IO;
	if (posix_spawnattr_init(&attr) != 0) {
		posix_spawn_file_actions_destroy(&files);
		return ERR_IO;
	}
	posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
	posix_spawn_file_actions_adddup2(&files, out, 1);
	posix_spawn_file_actions_addopen(&files, 2, "/dev/null", O_WRONLY, 0);
	posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK);
	posix_spawnattr_setsigdefault(&attr, &all);
	posix_spawnattr_setsigmask(&attr, &none);
	int error = posix_spawnp(ret, argv[0], &files, &attr, argv, environ);
	posix_spawnattr_destroy(&attr);
	posix_spawn_file_actions_destroy(&files);
	return error == 0 ? 0 : error == ENOENT || error == EACCES || error == ENOTDIR ? ERR_UNSUPPORTED : ERR_IO;
}

int fetch_run(const char *what, const char *hex, unsigned ms, unsigned *took, char path[PATH_MAX])
{
	int fd[2], status = 0;
	char buf[PATH_MAX];
	size_t len = 0;
	pid_t pid;
	struct timespec start;
	clock_gettime(CLOCK_MONOTONIC, &start);
	*took = 0;
	if (pipe2(fd, O_CLOEXEC) < 0)
		return ERR_IO;
	int rc = start_it(what, hex, fd[1], &pid);
	close(fd[1]);
	if (rc == 0) {
		rc = listen_to(fd[0], &start, ms, buf, sizeof buf, &len);
		if (rc < 0)
			kill(-pid, SIGKILL);
		/* One that closed its output and goes on is not waited for either; what it may have left behind ends with it. */
		for (siginfo_t info = { 0 }; waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT | WNOHANG) == 0 && !info.si_pid;) {
			if (rc == 0 && ms_since(&start) >= ms)
				rc = ERR_LIMIT;
			if (rc < 0)
				kill(-pid, SIGKILL);
			nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
		}
		kill(-pid, SIGKILL);
		while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
			;
	}
	close(fd[0]);
	*took = ms_since(&start);
	if (rc < 0)
		return rc;
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
		return WIFEXITED(status) && WEXITSTATUS(status) == 127 ? ERR_UNSUPPORTED : ERR_GONE;
	const char *line = memchr(buf, '\n', len);
	len = line ? (size_t)(line - buf) : len;
	if (len < 2 || len >= sizeof buf || buf[0] != '/' || memchr(buf, 0, len))
		return ERR_GONE;
	memcpy(path, buf, len);
	path[len] = 0;
	return 0;
}

bool fetch_there(void)
{
	const char *path = getenv("PATH");
	for (const char *p = path ? path : "/bin:/usr/bin"; p; p = strchr(p, ':') ? strchr(p, ':') + 1 : NULL) {
		const int len = (int)strcspn(p, ":");
		CLEANUP(cleanup_free) char *file = xasprintf("%.*s%sdebuginfod-find", len, p, len ? "/" : "");
		if (access(file, X_OK) == 0)
			return true;
	}
	return false;
}
