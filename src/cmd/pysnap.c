/* pysnap PID: options, signals, what is said. */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "cmd/output.h"
#include "image/proc.h"
#include "python/py.h"
#include "snap/capture.h"
#include "snap/refusal.h"

#if HAVE_ISAL
#define BUILT_WITH "compresses with isa-l at level 1, with zlib at others"
#else
#define BUILT_WITH "compresses with zlib"
#endif

struct job {
	struct cli cli;
	pid_t pid;
	const char *output;      /* NULL: a name of its own */
	struct output out;
	bool committed;          /* whole, and under its name */
	uint64_t written;
	struct capture_options capture;
};

static volatile int interrupted; /* by this signal */

/* A signal that comes right before a write that will block would not be noticed: so another one comes every second. */
static void on_signal(int signo)
{
	if (signo != SIGALRM)
		interrupted = signo;
	if (interrupted)
		alarm(1);
}

static void catch_signals(void)
{
	struct sigaction clock = { .sa_handler = on_signal };
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, SIGALRM);
	alarm(0); /* one that was set before execve is not ours */
	sigaction(SIGALRM, &clock, NULL);
	sigprocmask(SIG_UNBLOCK, &set, NULL);
	static const int all[] = { SIGINT, SIGTERM, SIGHUP };
	for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
		struct sigaction old, sa = { .sa_handler = on_signal };
		/* What nohup and shells switched off stays off. */
		if (sigaction(all[i], NULL, &old) == 0 && old.sa_handler != SIG_IGN)
			sigaction(all[i], &sa, NULL);
	}
}

/* A descriptor for each ELF file of the process, and the usual 1,024 may be too few. */
static void allow_files(void)
{
	struct rlimit lim;
	if (getrlimit(RLIMIT_NOFILE, &lim) == 0 && lim.rlim_cur < lim.rlim_max) {
		lim.rlim_cur = lim.rlim_max;
		(void)setrlimit(RLIMIT_NOFILE, &lim);
	}
}

/* -- options -- */

static int parse(struct job *j)
{
	struct cli *c = &j->cli;
	uint64_t n;
	const char *value;
	for (int opt; (opt = cli_next(c, &value)) != CLI_END;) {
		switch (opt) {
		case CLI_EXIT:
			return c->status;
		case PYSNAP_output:
			if (!*value)
				return cli_usage(c, "-o FILE", "-o: \"\" is not a file name");
			if (!cli_output(c, value))
				return EXIT_USAGE;
			j->output = value;
			break;
		case PYSNAP_force:
			j->out.force = true;
			break;
		case PYSNAP_compress:
			if (!cli_number(c, "--compress", value, 0, 9, &n))
				return EXIT_USAGE;
			j->capture.level = (int)n;
			break;
		case PYSNAP_max_pause:
			if (!cli_seconds(c, "--max-pause", value, &j->capture.freeze.max_pause_ms))
				return EXIT_USAGE;
			break;
		case PYSNAP_bundle:
			if (!strcmp(value, "elf"))
				j->capture.bundle = BUNDLE_ELF;
			else if (!strcmp(value, "none"))
				j->capture.bundle = BUNDLE_NONE;
			else
				return cli_usage(c, "--bundle=elf or --bundle=none", "--bundle=%s is not known", value);
			break;
		}
	}
	if (c->n_args != 1)
		return cli_usage(c, c->n_args ? NULL : "pgrep -af python shows process numbers",
				 c->n_args ? "one process number at a time" : "which process?");
	char *end;
	errno = 0;
	long pid = strtol(c->args[0], &end, 10);
	if (*end || end == c->args[0] || errno || pid <= 0 || pid > INT_MAX)
		return cli_usage(c, "pgrep -af python shows process numbers", "%s is not a process number", cli_quoted(c->args[0], SIZE_MAX));
	j->pid = (pid_t)pid;
	return -1;
}

/* -- the output -- */

static char *default_name(pid_t pid)
{
	char stamp[32];
	time_t now = time(NULL);
	struct tm tm;
	gmtime_r(&now, &tm);
	strftime(stamp, sizeof stamp, "%Y%m%dT%H%M%SZ", &tm);
	return xasprintf("snap-%d-%s.pz", (int)pid, stamp);
}

/* -- which process -- */

static bool looks_like_python(pid_t pid, char *what, size_t room)
{
	CLEANUP(cleanup_fd) int dir = proc_open(pid, pid);
	struct proc_stat st;
	CLEANUP(cleanup_sb) struct sb cmd = { 0 };
	if (dir < 0 || proc_stat(dir, &st) || strncmp(st.comm, "python", 6) != 0)
		return false;
	proc_cmdline(dir, 4096, &cmd);
	if (cmd.len)
		snprintf(what, room, "%.*s", cmd.len < 60 ? (int)cmd.len : 60, cmd.s);
	else
		snprintf(what, room, "%s", st.comm);
	return true;
}

/* A child that looks like Python: the usual mistake is to name the launcher. */
static void hint_child(pid_t pid, struct err *err)
{
	CLEANUP(cleanup_fd) int dir = proc_open(pid, pid);
	CLEANUP(cleanup_sb) struct sb b = { 0 };
	err_hint(err, "pgrep -af python");
	if (dir < 0 || proc_read(dir, "children", 65536, &b))
		return;
	sb_char(&b, '\0');
	for (char *s = b.s, *end; *s; s = end) {
		long child = strtol(s, &end, 10);
		char what[80];
		if (end == s)
			return;
		if (looks_like_python((pid_t)child, what, sizeof what)) {
			err_hint(err, "pysnap %ld (its child %s)", child, cli_quoted(what, SIZE_MAX));
			return;
		}
	}
}

/* Can so few more files be opened that a search for Python could not look into all that it wanted to?  Then errno says why. */
static bool files_scarce(void)
{
	enum { NEEDED = 8 };
	int fd[NEEDED], n = 0, e;
	while (n < NEEDED && (fd[n] = open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0)
		n++;
	e = errno;
	bool scarce = n < NEEDED && (e == EMFILE || e == ENFILE);
	while (n > 0)
		close(fd[--n]);
	errno = e;
	return scarce;
}

static int no_python(pid_t pid, struct err *err)
{
	pid_t tid;
	if (files_scarce())
		return refusal_read(pid, ERR_IO, "the files", err);
	if (proc_live_tid(pid, &tid) == ERR_GONE)
		return refusal_ended(pid, err);
	CLEANUP(cleanup_fd) int dir = proc_open(pid, pid);
	struct proc_stat st = { .comm = "?" };
	if (dir < 0 || proc_stat(dir, &st))
		st.comm[0] = '?';
	err_set(err, ERR_NOPYTHON, "process %d (%s) does not run CPython: no libpython or _PyRuntime in it", (int)pid, st.comm);
	hint_child(pid, err);
	return ERR_NOPYTHON;
}

/* The runtime, with what is in memory only, or with the files that are mapped.  *read: the process could be read at all. */
static int runtime_of(const struct cli *c, pid_t pid, bool files, addr_t *hint, char *version_seen, bool *read, struct err *err)
{
	struct image *img;
	int code = image_attach(pid, &img, err);
	*read = !code;
	if (code)
		return code;
	CLEANUP(cleanup_free) char *root = xasprintf("/proc/%d/root", (int)pid), *exe = xasprintf("/proc/%d/exe", (int)pid);
	struct search where = { .no_files = !files, .sysroot = root, .exe = exe };
	struct modules *mods = NULL;
	CLEANUP(cleanup_arena) struct arena *a = arena_new();
	struct py *py = NULL;
	code = modules_open(img, &where, &mods, err);
	if (!code)
		code = py_open(img, mods, &(struct py_options){ .version_seen = version_seen }, a, &py, err);
	if (!code) {
		*hint = py->runtime;
		cli_note(c, "Python %s (found by: %s), runtime at 0x%llx", py->version_text, py->found_by, (unsigned long long)*hint);
	} else {
		cli_note_err(c, err);
		/* Python is there but not found to be alive: it may be starting up, or was changing while it was read. */
		addr_t at;
		static const char *const names[] = { "_PyRuntime", "PyInterpreterState_Head", "Py_Initialize" };
		for (size_t i = 0; mods && !version_seen[0] && i < sizeof names / sizeof names[0]; i++)
			if (modules_symbol(mods, names[i], &at, NULL, NULL) == 0)
				snprintf(version_seen, 32, "?");
	}
	modules_close(mods);
	image_close(img);
	return code;
}

/*
 * Is it CPython, and where is its runtime?  A Python that no layout fits is one all the same: it is snapshotted, and the
 * report will say what is not known.  So is one whose runtime only thread pointers lead to, which cannot be read yet: a program that
 * has Python linked into it exports nothing.
 */
static int python_of(const struct cli *c, pid_t pid, addr_t *hint, struct err *err)
{
	char seen[32] = "";
	bool read;
	int code = runtime_of(c, pid, false, hint, seen, &read, err);
	if (read && code == ERR_NOPYTHON)
		code = runtime_of(c, pid, true, hint, seen, &read, err);
	if (!read)
		return code;
	return !code || code == ERR_UNSUPPORTED || seen[0] ? 0 : no_python(pid, err);
}

/* -- what is said -- */

static void say_done(const struct job *j, const struct capture *c)
{
	char out[STR_SIZE], in[STR_SIZE], bytes[STR_SIZE], time[STR_SIZE];
	uint64_t lost;
	size_t regions = capture_lost(c, &lost);
	if (regions) {
		struct err warning = { 0 };
		err_set(&warning, ERR_FAULT, "%zu region%s could not be read (%s); the snapshot is complete otherwise", regions,
			regions == 1 ? "" : "s", str_size(lost, bytes));
		cli_warn(&j->cli, &warning);
	}
	size_t unopened = capture_unopened(c);
	if (unopened) {
		struct err warning = { 0 };
		err_set(&warning, ERR_LIMIT, "too many files are open: the snapshot is without the %s of %zu of the process's",
			j->capture.bundle == BUNDLE_NONE ? "build-id" : "code", unopened);
		err_hint(&warning, "ulimit -n 1024, and the same again");
		cli_warn(&j->cli, &warning);
	}
	const struct capture_unnamed unnamed = capture_unnamed(c);
	if (unnamed.n) {
		struct err warning = { 0 };
		struct str name = str_base(unnamed.largest);
		char more[48] = "";
		if (unnamed.n > 1)
			snprintf(more, sizeof more, " and %zu more", unnamed.n - 1);
		err_set(&warning, ERR_LIMIT, "the snapshot is without the tables that name the functions of " STR_FMT "%s, for their size (%s)", STR_ARG(name), more,
			str_size(unnamed.size, bytes));
		err_hint(&warning, "pyanalyze where the same files are, or with --sysroot, -e or --lib-path");
		cli_warn(&j->cli, &warning);
	}
	cli_say(&j->cli, "%s: %s (unpacked %s), process %d was stopped for %s", j->out.name, str_size(capture_written(c), out),
		str_size(capture_bytes(c), in), (int)j->pid, str_duration(capture_stopped_ns(c), time));
}

static int snapshot(struct job *j, struct err *err)
{
	int code = freeze_check(j->pid, err);
	if (!code)
		code = python_of(&j->cli, j->pid, &j->capture.hint_runtime, err);
	if (code)
		return code;
	CLEANUP(cleanup_free) char *own = default_name(j->pid);
	code = output_open(&j->out, &j->cli, j->output, own, err);
	if (code)
		return code;
	struct capture *c;
	code = capture(j->pid, &j->capture, &c, err);
	if (code)
		return code;
	code = capture_write(c, j->out.fd, err);
	int e = errno;
	j->written = capture_written(c);
	if (code == ERR_IO)
		code = output_failed(&j->out, e, j->written, err);
	else if (code && !err->hint[0])
		err_hint(err, "gcore %d", (int)j->pid);
	/* What went into a pipe is whole by now, whoever interrupts. */
	if (!code && (!interrupted || j->out.kind != OUTPUT_FILE)) {
		code = output_commit(&j->out, err);
		j->committed = !code;
	}
	if (j->committed)
		say_done(j, c);
	capture_free(c);
	return code;
}

/* What became of the file, and of the process, as they are now. */
static void say_interrupted(const struct job *j, struct err *err)
{
	pid_t tid;
	struct proc_stat st = { 0 };
	CLEANUP(cleanup_fd) int dir = -1;
	int code = proc_live_tid(j->pid, &tid);
	if (!code) {
		dir = proc_open(j->pid, tid);
		if (dir >= 0 && proc_stat(dir, &st))
			st.state = 0;
	}
	const char *process = code == ERR_GONE ? "has ended" : st.state == 'T' ? "is stopped, as it was before" : "runs on";
	if (j->written && j->out.kind != OUTPUT_FILE)
		err_set(err, ERR_LIMIT, "interrupted; what went to %s is not a whole snapshot and process %d %s", j->out.name, (int)j->pid, process);
	else
		err_set(err, ERR_LIMIT, "interrupted; no snapshot was written and process %d %s", (int)j->pid, process);
	err_hint(err, code == ERR_GONE ? "pgrep -af python" : "the same again");
}

int main(int argc, char **argv)
{
	struct job j = {
		.cli = { .name = "pysnap", .program = CLI_PYSNAP, .usage = "[OPTIONS] PID", .version = PYSNAP_VERSION "\n" BUILT_WITH,
			 .about = "Write a snapshot of a running CPython process for pyanalyze. The process is stopped while its memory is copied,\nsome milliseconds and about 0.15 s for each GiB of it, and runs on." },
		.out.fd = -1,
		.capture = { .freeze = { .max_pause_ms = 10000, .deadline_ms = 1000 }, .bundle = BUNDLE_ELF, .level = 1, .interrupted = &interrupted },
	};
	cli_start(&j.cli, argc, argv);
	int status = parse(&j);
	if (status >= 0) {
		cli_end(&j.cli);
		return status;
	}
	catch_signals();
	allow_files();
	struct err err = { 0 };
	int code = snapshot(&j, &err);
	int signo = j.committed ? 0 : interrupted;
	if (signo)
		say_interrupted(&j, &err);
	output_close(&j.out); /* before anything is said about it */
	status = code || signo ? cli_error(&j.cli, &err) : EXIT_DONE;
	if (signo)
		status = EXIT_SIGNAL + signo;
	cli_end(&j.cli);
	return status;
}
