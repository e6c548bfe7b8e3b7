/*
 * pysnap PID: options, the output file, what is said.  The file gets its name only when it is whole and on the disk; until
 * then it is FILE.part, which every end but kill -9 removes.
 */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "cmd/cli.h"
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
	bool force, to_stdout, direct; /* direct: into a device or pipe that is there */
	char *name, *part;       /* what it will be called, and is called until then */
	int fd;
	struct capture_options capture;
};

static volatile int interrupted; /* by this signal */

static void on_signal(int signo)
{
	interrupted = signo;
}

static void catch_signals(void)
{
	static const int all[] = { SIGINT, SIGTERM, SIGHUP };
	for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
		struct sigaction old, sa = { .sa_handler = on_signal };
		/* What nohup and shells switched off stays off. */
		if (sigaction(all[i], NULL, &old) == 0 && old.sa_handler != SIG_IGN)
			sigaction(all[i], &sa, NULL);
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
			j->output = value;
			break;
		case PYSNAP_force:
			j->force = true;
			break;
		case PYSNAP_compress:
			if (!cli_number(c, "--compress", value, 0, 9, &n))
				return EXIT_USAGE;
			j->capture.level = (int)n;
			break;
		case PYSNAP_max_pause:
			if (!cli_number(c, "--max-pause", value, 0, UINT_MAX / 1000, &n))
				return EXIT_USAGE;
			j->capture.freeze.max_pause_ms = (unsigned)n * 1000;
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
		return cli_usage(c, "pgrep -af python shows process numbers", "\"%s\" is not a process number", c->args[0]);
	j->pid = (pid_t)pid;
	return -1;
}

/* -- the output -- */

static int output_exists(const struct job *j, const char *name, struct err *err)
{
	err_set(err, ERR_EXISTS, "%s exists", name);
	if (name == j->part)
		err_hint(err, "another pysnap is writing it, or was killed: -f to replace it, or another -o");
	else
		err_hint(err, "-f to replace it, or another -o");
	return ERR_EXISTS;
}

static int output_failed(const char *name, struct err *err)
{
	err_set(err, errno == EACCES || errno == EPERM || errno == EROFS ? ERR_PERM : ERR_IO, "cannot write %s: %s", name, strerror(errno));
	err_hint(err, "-o FILE somewhere else");
	return err->code;
}

static char *default_name(pid_t pid)
{
	char stamp[32];
	time_t now = time(NULL);
	struct tm tm;
	gmtime_r(&now, &tm);
	strftime(stamp, sizeof stamp, "%Y%m%dT%H%M%SZ", &tm);
	return xasprintf("snap-%d-%s.pz", (int)pid, stamp);
}

static int output_open(struct job *j, struct err *err)
{
	if (j->output && !strcmp(j->output, "-")) {
		j->to_stdout = true;
		j->fd = STDOUT_FILENO;
		j->name = xstrdup("standard output");
	} else {
		j->name = j->output ? xstrdup(j->output) : default_name(j->pid);
		struct stat st;
		bool there = stat(j->name, &st) == 0;
		if (there && S_ISDIR(st.st_mode)) {
			err_set(err, ERR_IO, "%s is a folder", j->name);
			CLEANUP(cleanup_free) char *in = default_name(j->pid);
			err_hint(err, "-o %s%s%s", j->name, j->name[strlen(j->name) - 1] == '/' ? "" : "/", in);
			return ERR_IO;
		}
		j->direct = there && !S_ISREG(st.st_mode);
		if (there && !j->direct && !j->force)
			return output_exists(j, j->name, err);
	}
	if (j->direct) {
		j->fd = open(j->name, O_WRONLY | O_CLOEXEC | O_NOCTTY);
		if (j->fd < 0)
			return output_failed(j->name, err);
	}
	if ((j->to_stdout || j->direct) && isatty(j->fd)) {
		err_set(err, ERR_UNSUPPORTED, "refusing to write a snapshot to the terminal");
		err_hint(err, "-o FILE");
		return ERR_UNSUPPORTED;
	}
	if (j->to_stdout || j->direct)
		return 0;
	char *part = xasprintf("%s.part", j->name);
	j->fd = open(part, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (j->fd < 0 && errno == EEXIST && j->force && unlink(part) == 0)
		j->fd = open(part, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	int e = errno;
	if (j->fd < 0 && e == EEXIST) {
		j->part = part;
		output_exists(j, j->part, err);
		j->part = NULL;
		free(part);
		return ERR_EXISTS;
	}
	if (j->fd < 0) {
		free(part);
		errno = e;
		return output_failed(j->name, err);
	}
	j->part = part;
	return 0;
}

static char *folder_of(const char *name)
{
	const char *slash = strrchr(name, '/');
	return slash ? slash == name ? xstrdup("/") : strndup(name, (size_t)(slash - name)) : xstrdup(".");
}

/* Everything on the disk, then the name, then the name on the disk. */
static int output_commit(struct job *j, struct err *err)
{
	if (j->to_stdout)
		return 0;
	if (j->direct)
		return close(j->fd) < 0 ? output_failed(j->name, err) : 0;
	if (fsync(j->fd) < 0 && errno != EINVAL)
		return output_failed(j->name, err);
	int code = 0;
	if (!j->force) {
		code = renameat2(AT_FDCWD, j->part, AT_FDCWD, j->name, RENAME_NOREPLACE);
		if (code < 0 && (errno == EINVAL || errno == ENOSYS)) { /* file systems that do not know the flag */
			code = link(j->part, j->name);
			if (code == 0)
				unlink(j->part);
		}
		if (code < 0 && errno == EEXIST)
			return output_exists(j, j->name, err);
	} else {
		code = rename(j->part, j->name);
	}
	if (code < 0)
		return output_failed(j->name, err);
	free(j->part);
	j->part = NULL;
	CLEANUP(cleanup_free) char *folder = folder_of(j->name);
	CLEANUP(cleanup_fd) int dir = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir >= 0)
		fsync(dir);
	return 0;
}

/* -- which process -- */

static bool looks_like_python(pid_t pid, char *what, size_t room)
{
	CLEANUP(cleanup_fd) int dir = proc_open(pid, pid);
	struct proc_stat st;
	CLEANUP(cleanup_sb) struct sb cmd = { 0 };
	if (dir < 0 || proc_stat(dir, &st) || strncmp(st.comm, "python", 6) != 0)
		return false;
	if (proc_read(dir, "cmdline", 4096, &cmd) == 0 && cmd.len) {
		for (size_t i = 0; i < cmd.len; i++)
			if (!cmd.s[i])
				cmd.s[i] = ' ';
		while (cmd.len && cmd.s[cmd.len - 1] == ' ')
			cmd.len--;
		snprintf(what, room, "%.*s", cmd.len < 60 ? (int)cmd.len : 60, cmd.s);
	} else {
		snprintf(what, room, "%s", st.comm);
	}
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
			err_hint(err, "pysnap %ld (its child \"%s\")", child, what);
			return;
		}
	}
}

static int no_python(pid_t pid, struct err *err)
{
	pid_t tid;
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

/*
 * Is it CPython, and where is its runtime?  A Python that no layout fits is one all the same: it is snapshotted, and the
 * report will say what is not known.
 */
static int python_of(const struct cli *c, pid_t pid, addr_t *hint, struct err *err)
{
	struct image *img;
	int code = image_attach(pid, &img, err);
	if (code)
		return code;
	struct search where = { .no_files = true };
	struct modules *mods = NULL;
	CLEANUP(cleanup_arena) struct arena *a = arena_new();
	struct py *py = NULL;
	code = modules_open(img, &where, &mods, err);
	if (!code)
		code = py_open(img, mods, &(struct py_options){ 0 }, a, &py, err);
	if (!code) {
		*hint = py->runtime;
		cli_note(c, "Python %s (found by: %s), runtime at 0x%llx", py->version_text, py->found_by, (unsigned long long)*hint);
	} else if (code != ERR_UNSUPPORTED && mods) {
		cli_note(c, "%s", err->msg);
		/* Python is there but not found to be alive: it may be starting up, or was changing while it was read. */
		addr_t at;
		static const char *const names[] = { "_PyRuntime", "PyInterpreterState_Head", "Py_Initialize" };
		for (size_t i = 0; code && i < sizeof names / sizeof names[0]; i++)
			if (modules_symbol(mods, names[i], &at, NULL, NULL) == 0)
				code = 0;
	} else if (code == ERR_UNSUPPORTED) {
		cli_note(c, "%s", err->msg);
		code = 0;
	}
	modules_close(mods);
	image_close(img);
	return code ? no_python(pid, err) : 0;
}

/* -- what is said -- */

static void say_done(const struct job *j, const struct capture *c)
{
	char out[32], in[32], time[32], bytes[32];
	double ms = (double)capture_stopped_ns(c) / 1e6;
	if (ms >= 1000)
		snprintf(time, sizeof time, "%.2f s", ms / 1000);
	else
		snprintf(time, sizeof time, ms >= 10 ? "%.0f ms" : "%.1f ms", ms);
	uint64_t lost;
	size_t regions = capture_lost(c, &lost);
	if (regions) {
		struct err warning = { 0 };
		err_set(&warning, ERR_FAULT, "%zu region%s could not be read (%s); the snapshot is complete otherwise", regions,
			regions == 1 ? "" : "s", cli_size(lost, bytes));
		cli_warn(&j->cli, &warning);
	}
	cli_say(&j->cli, "%s: %s from %s of memory, process %d was stopped for %s", j->name, cli_size(capture_written(c), out),
		cli_size(capture_bytes(c), in), (int)j->pid, time);
}

static int write_failed(const struct job *j, const struct capture *c, int e, struct err *err)
{
	if (e != ENOSPC && e != EDQUOT)
		return err->code;
	char size[32];
	CLEANUP(cleanup_free) char *folder = folder_of(j->name);
	err_set(err, ERR_IO, "no space left on %s after %s; the process was resumed, the partial file removed", folder,
		cli_size(capture_written(c), size));
	err_hint(err, "-o on another disk");
	return ERR_IO;
}

static int snapshot(struct job *j, struct err *err)
{
	int code = freeze_check(j->pid, err);
	if (!code)
		code = python_of(&j->cli, j->pid, &j->capture.hint_runtime, err);
	if (!code)
		code = output_open(j, err);
	if (code)
		return code;
	struct capture *c;
	code = capture(j->pid, &j->capture, &c, err);
	if (code)
		return code;
	code = capture_write(c, j->fd, err);
	if (code && !interrupted)
		code = write_failed(j, c, errno, err);
	if (!code && !interrupted)
		code = output_commit(j, err);
	if (!code && !interrupted)
		say_done(j, c);
	capture_free(c);
	return code;
}

int main(int argc, char **argv)
{
	struct job j = {
		.cli = { .name = "pysnap", .program = CLI_PYSNAP, .usage = "[OPTIONS] PID", .version = PYSNAP_VERSION "\n" BUILT_WITH,
			 .about = "Write a snapshot of a running CPython process for pyanalyze; the process is stopped for some milliseconds and runs on." },
		.fd = -1,
		.capture = { .freeze = { .max_pause_ms = 10000, .deadline_ms = 1000 }, .bundle = BUNDLE_ELF, .level = 1, .interrupted = &interrupted },
	};
	cli_start(&j.cli, argc, argv);
	int status = parse(&j);
	if (status >= 0) {
		cli_end(&j.cli);
		return status;
	}
	catch_signals();
	struct err err = { 0 };
	int code = snapshot(&j, &err);
	if (j.part)
		unlink(j.part);
	if (interrupted && (code || j.part)) { /* later it was done all the same */
		err_set(&err, ERR_LIMIT, "interrupted; no snapshot was written and process %d runs on", (int)j.pid);
		cli_error(&j.cli, &err);
		status = EXIT_SIGNAL + interrupted;
	} else {
		status = code ? cli_error(&j.cli, &err) : EXIT_DONE;
	}
	if (j.fd > STDERR_FILENO && !j.direct)
		close(j.fd);
	free(j.part);
	free(j.name);
	cli_end(&j.cli);
	return status;
}
