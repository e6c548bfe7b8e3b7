/* Why a process may not be stopped: the kernel says EPERM for a dozen reasons, a person needs the one. */
#include "snap/refusal.h"

#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { CAP_SYS_PTRACE_BIT = 19 };

int refusal_gone(pid_t pid, struct err *err)
{
	struct proc_stat st;
	CLEANUP(cleanup_fd) int dir = pid > 0 ? proc_open(pid, pid) : -1;
	if (dir >= 0 && proc_stat(dir, &st) == 0 && st.state == 'Z') {
		err_set(err, ERR_GONE, "process %d has ended; its parent has not taken note of that yet (it is a zombie)", (int)pid);
		err_hint(err, "for crashes, let the kernel write a core (ulimit -c unlimited)");
		return ERR_GONE;
	}
	if (pid > 0 && dir == ERR_GONE && (kill(pid, 0) == 0 || errno == EPERM)) {
		if (access("/proc/self", F_OK) < 0) {
			err_set(err, ERR_UNSUPPORTED, "cannot read process %d: /proc is not mounted", (int)pid);
			err_hint(err, "mount -t proc proc /proc");
			return ERR_UNSUPPORTED;
		}
		err_set(err, ERR_PERM, "process %d belongs to another user, and /proc does not show it (hidepid)", (int)pid);
		err_hint(err, "sudo pysnap %d", (int)pid);
		return ERR_PERM;
	}
	err_set(err, ERR_GONE, "no process %d", (int)pid);
	err_hint(err, "pgrep -af python");
	return ERR_GONE;
}

/* Memory that went away while its process is there and not ending: that executes another program (execve puts the new memory in its place). */
static bool is_alive(pid_t pid)
{
	struct proc_stat st;
	CLEANUP(cleanup_fd) int dir = proc_open(pid, pid);
	return dir >= 0 && proc_stat(dir, &st) == 0 && !strchr("ZXx", st.state) && !(st.flags & PROC_EXITING);
}

/* Where another thread than the first calls execve, that one ends, and then its number is the other's (fs/exec.c, de_thread). */
static bool lives_on(pid_t pid)
{
	enum { ROUNDS = 40, PAUSE_NS = 5000000 };
	for (int i = 0; i < ROUNDS; i++) {
		if (is_alive(pid))
			return true;
		struct tids tids = { 0 };
		CLEANUP(cleanup_fd) int tasks = proc_open_tasks(pid);
		const bool others = tasks >= 0 && proc_tids(tasks, &tids) == 0 && (tids.n > 1 || (tids.n == 1 && tids.p[0] != pid));
		vec_free(&tids);
		if (!others)
			return is_alive(pid);
		nanosleep(&(struct timespec){ .tv_nsec = PAUSE_NS }, NULL);
	}
	return false;
}

int refusal_read(pid_t pid, int code, const char *what, struct err *err)
{
	int e = errno;
	if (code == ERR_GONE)
		return lives_on(pid) ? refusal_replaced(pid, err) : refusal_gone(pid, err);
	err_set(err, code, "cannot read %s of process %d: %s", what, (int)pid, code == ERR_IO || code == ERR_PERM ? strerror(e) : err_word(code));
	if (code == ERR_IO && (e == EMFILE || e == ENFILE))
		err_hint(err, "ulimit -n 1024");
	else if (code == ERR_PERM)
		err_hint(err, "sudo pysnap %d", (int)pid);
	else
		err_hint(err, "the same again");
	return code;
}

int refusal_ended(pid_t pid, struct err *err)
{
	if (lives_on(pid))
		return refusal_replaced(pid, err);
	err_set(err, ERR_GONE, "process %d ended while it was being read; no snapshot was written", (int)pid);
	err_hint(err, "for crashes, let the kernel write a core (ulimit -c unlimited)");
	return ERR_GONE;
}

int refusal_replaced(pid_t pid, struct err *err)
{
	err_set(err, ERR_GONE, "process %d became another program (execve) while it was being read; no snapshot was written", (int)pid);
	err_hint(err, "the same again");
	return ERR_GONE;
}

int refusal_traced(pid_t pid, pid_t tracer, struct err *err)
{
	struct proc_stat st = { .comm = "" };
	CLEANUP(cleanup_fd) int dir = proc_open(tracer, tracer);
	if (dir >= 0 && proc_stat(dir, &st) == 0)
		err_set(err, ERR_TRACED, "process %d is already being traced by %s (pid %d)", (int)pid, st.comm, (int)tracer);
	else
		err_set(err, ERR_TRACED, "process %d is already being traced (by pid %d)", (int)pid, (int)tracer);
	err_hint(err, "end that session first");
	return ERR_TRACED;
}

static int status_of(pid_t pid, pid_t tid, struct sb *b)
{
	CLEANUP(cleanup_fd) int dir = proc_open(pid, tid);
	return dir < 0 ? dir : proc_read(dir, "status", 65536, b);
}

pid_t refusal_tracer(pid_t pid, pid_t tid)
{
	CLEANUP(cleanup_sb) struct sb b = { 0 };
	uint64_t tracer;
	if (status_of(pid, tid, &b) || proc_status_uint(sb_view(&b), "TracerPid", 10, &tracer))
		return 0;
	return (pid_t)tracer;
}

static bool may_ptrace(void)
{
	CLEANUP(cleanup_sb) struct sb b = { 0 };
	uint64_t caps;
	return status_of(getpid(), getpid(), &b) == 0 && proc_status_uint(sb_view(&b), "CapEff", 16, &caps) == 0 &&
	       (caps >> CAP_SYS_PTRACE_BIT & 1);
}

static int yama_scope(void)
{
	CLEANUP(cleanup_fd) int fd = open("/proc/sys/kernel/yama/ptrace_scope", O_RDONLY | O_CLOEXEC);
	char c = '0';
	if (fd < 0 || read(fd, &c, 1) != 1)
		return 0;
	return c - '0';
}

/* Inside a container, as far as one can tell: docker and podman leave a file, Kubernetes a variable. */
static bool in_container(void)
{
	return access("/.dockerenv", F_OK) == 0 || access("/run/.containerenv", F_OK) == 0 || getenv("KUBERNETES_SERVICE_HOST");
}

static void user_name(uid_t uid, char *buf, size_t size)
{
	struct passwd *pw = getpwuid(uid);
	if (pw)
		snprintf(buf, size, "\"%s\"", pw->pw_name);
	else
		snprintf(buf, size, "%u", (unsigned)uid);
}

int refusal_perm(pid_t pid, pid_t tid, struct err *err)
{
	pid_t tracer = refusal_tracer(pid, tid);
	if (tracer)
		return refusal_traced(pid, tracer, err);
	CLEANUP(cleanup_sb) struct sb b = { 0 };
	int code = status_of(pid, tid, &b);
	if (code)
		return refusal_read(pid, code, "the status", err);
	struct str status = sb_view(&b);
	uint64_t uid = 0, kthread = 0;
	bool cap = may_ptrace();
	if (proc_status_uint(status, "Uid", 10, &uid) == 0 && (uid_t)uid != geteuid() && !cap && geteuid() != 0) {
		char name[64], bare[64];
		user_name((uid_t)uid, name, sizeof name);
		err_set(err, ERR_PERM, "cannot stop process %d: it belongs to user %s", (int)pid, name);
		struct passwd *pw = getpwuid((uid_t)uid);
		snprintf(bare, sizeof bare, pw ? "%s" : "#%s", pw ? pw->pw_name : name);
		if (uid)
			err_hint(err, "sudo -u %s pysnap %d, or sudo pysnap %d", bare, (int)pid, (int)pid);
		else
			err_hint(err, "sudo pysnap %d", (int)pid);
		return ERR_PERM;
	}
	err_set(err, ERR_PERM, "cannot stop process %d: %s", (int)pid, strerror(EPERM));
	if (proc_status_uint(status, "Kthread", 10, &kthread) == 0 && kthread) {
		err_why(err, "it is a thread of the kernel");
		err_hint(err, "pgrep -af python");
	} else if (yama_scope() == 3) {
		err_why(err, "kernel.yama.ptrace_scope is 3: nobody may trace until the next boot");
		err_hint(err, "sysctl kernel.yama.ptrace_scope=1 in the boot configuration, and boot");
	} else if (cap) {
		err_why(err, "it is in another user namespace, or a security module or seccomp filter forbids it");
		err_hint(err, "run pysnap on the host, or where the process runs");
	} else if (geteuid() == 0 || in_container()) {
		err_why(err, "this container lacks CAP_SYS_PTRACE");
		err_hint(err, "docker run --cap-add SYS_PTRACE ..., or run pysnap on the host");
	} else if (yama_scope() > 0) {
		err_why(err, yama_scope() == 1 ? "kernel.yama.ptrace_scope is 1: only a parent may trace"
					       : "kernel.yama.ptrace_scope is 2: only an administrator may trace");
		err_hint(err, "sudo pysnap %d -o snap.pz", (int)pid);
	} else {
		err_why(err, "it has more rights than you (set-uid, capabilities) or asked not to be read (PR_SET_DUMPABLE)");
		err_hint(err, "sudo pysnap %d -o snap.pz", (int)pid);
	}
	return ERR_PERM;
}
