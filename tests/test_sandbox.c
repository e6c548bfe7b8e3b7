/* What a process cannot do any more, and what it still can, once it is confined. */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "config.h"
#include "module/sandbox.h"
#include "suite.h"

static int open_before;

/* Each says whether it was possible. */
static bool opens(void) { return open("/etc/passwd", O_RDONLY) >= 0; }
static bool makes(void) { return open("/tmp/test_sandbox.made", O_WRONLY | O_CREAT, 0600) >= 0; }
static bool removes(void) { return unlink("/tmp/test_sandbox.kept") == 0; }
static bool runs(void) { return execl("/bin/true", "true", (char *)NULL) == 0; }
static bool forks(void) { pid_t p = fork(); if (p == 0) _exit(0); return p > 0; }
static bool connects(void) { return socket(AF_INET, SOCK_STREAM, 0) >= 0; }
static bool local(void) { return socket(AF_UNIX, SOCK_STREAM, 0) >= 0; }
static bool signals(void) { return kill(getppid(), 0) == 0; }
/* Whoever F_SETOWN names gets what F_SETSIG says, once the descriptor is ready. */
static bool signals_by_owner(void)
{
	return fcntl(open_before, F_SETOWN, getppid()) == 0 || fcntl(open_before, F_SETSIG, SIGKILL) == 0 || fcntl(open_before, F_SETFL, O_ASYNC) == 0;
}
static bool locks(void) { return fcntl(open_before, F_SETLK, &(struct flock){ .l_type = F_WRLCK }) == 0; }
static bool duplicates(void) { return fcntl(open_before, F_DUPFD_CLOEXEC, 0) >= 0 && fcntl(open_before, F_GETFD) >= 0; }
static bool executes(void) { return mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED; }
static bool makes_executable(void)
{
	void *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	return p != MAP_FAILED && mprotect(p, 4096, PROT_READ | PROT_EXEC) == 0;
}
static bool reads(void) { char b; return pread(open_before, &b, 1, 0) == 1 && b == 'r'; }
static bool maps(void) { return mmap(NULL, 1, PROT_READ, MAP_PRIVATE, open_before, 0) != MAP_FAILED; }
static bool allocates(void) { char *p = malloc(64 << 20); if (p) memset(p, 1, 64 << 20); return p != NULL; }
static bool aborts(void) { abort(); }

static const struct { const char *what; bool (*try)(void); bool can, with_landlock, with_seccomp; int signal; } acts[] = {
	{ "open a file", opens, false, true, true },
	{ "make a file", makes, false, true, true },
	{ "remove a file", removes, false, true, true },
	{ "run a program", runs, false, true, true },
	{ "fork", forks, false, false, true },
	{ "a socket", connects, false, false, true },
	{ "a local socket", local, false, false, true },
	{ "a signal to another", signals, false, false, true },
	{ "a signal through a descriptor's owner", signals_by_owner, false, false, true },
	{ "a lock on what is open", locks, false, false, true },
	{ "executable memory", executes, false, false, true },
	{ "memory made executable", makes_executable, false, false, true },
	{ "read what is open", reads, true },
	{ "map what is open", maps, true },
	{ "duplicate what is open", duplicates, true },
	{ "allocate", allocates, true },
	{ "abort, as assertions do", aborts, true, .signal = SIGABRT },
};

enum { CAN = 0, CANNOT = 1, HOLDS = 2 };

START_TEST(confined)
{
	int kept = open("/tmp/test_sandbox.kept", O_WRONLY | O_CREAT, 0600), status;
	close(kept);
	open_before = memfd_create("open", 0);
	ck_assert_int_eq(write(open_before, "r", 1), 1);
	pid_t pid = fork();
	if (pid == 0) {
		uint8_t holds = sandbox_enter();
		bool can = acts[_i].try();
		_exit((can ? CAN : CANNOT) | holds << 1);
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	if (acts[_i].signal) {
		ck_assert_msg(WIFSIGNALED(status) && WTERMSIG(status) == acts[_i].signal, "%s: %x", acts[_i].what, (unsigned)status);
		return;
	}
	ck_assert_msg(WIFEXITED(status), "%s: %x", acts[_i].what, (unsigned)status);
	const unsigned holds = (unsigned)WEXITSTATUS(status) >> 1;
	const bool can = !(WEXITSTATUS(status) & CANNOT), kept_from = (holds & SANDBOX_SECCOMP && acts[_i].with_seccomp) || (holds & SANDBOX_LANDLOCK && acts[_i].with_landlock);
	if (acts[_i].can)
		ck_assert_msg(can, "%s", acts[_i].what);
	else if (kept_from)
		ck_assert_msg(!can, "%s (%x)", acts[_i].what, holds);
	ck_assert_int_eq((holds & SANDBOX_SECCOMP) != 0, HAVE_SECCOMP); /* every kernel of the last ten years */
	unlink("/tmp/test_sandbox.kept");
	unlink("/tmp/test_sandbox.made");
}
END_TEST

int main(void)
{
	Suite *s = suite_create("sandbox");
	TCase *tc = tcase_create("sandbox");
	tcase_add_loop_test(tc, confined, 0, COUNT(acts));
	suite_add_tcase(s, tc);
	return suite_run(s);
}
