/*
 * pyanalyze: cores and snapshots in, reports out.  Opens the inputs, runs the inspections, hands the report to renderers.
 * Touches no live process.
 */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cmd/cli.h"
#include "cmd/earlier.h"
#include "cmd/tables.h"
#include "cmd/wanted.h"
#include "config.h"
#include "image/codec.h"
#include "inspect/target.h"
#include "render/render.h"

enum { SHOW_VERDICT = 1, SHOW_THREADS = 2, SHOW_NATIVE = 4, SHOW_MODULES = 8, SHOW_DEFAULT = SHOW_VERDICT | SHOW_THREADS | SHOW_NATIVE };

struct texts VEC(const char *);

struct wish {
	struct texts outputs, threads, lib_path, debug_path, source_map;
	struct texts stems;       /* of the files in a folder, one an input so far */
	const struct renderer *format;
	struct search search;
	struct py_options py;
	struct render_options render;
	unsigned show;
	bool has_debug_path, no_sandbox, no_native; /* no_native: -native was asked for, so nothing is unwound */
	struct arena *arena;      /* texts of the options */
};

enum { FETCH_MS = 60000 };

static unsigned fetch_usual(void)
{
	const char *urls = getenv("DEBUGINFOD_URLS");
	return urls && *urls ? FETCH_MS : 0;
}

static const char *version_text(struct arena *a)
{
	struct sb b = { 0 };
	sb_printf(&b, "%s\n", PYSNAP_VERSION);
	tables_line(&b);
	sb_printf(&b, "\ndecompression of snapshots: %s, of cores:", HAVE_LIBDEFLATE ? "libdeflate" : "zlib");
	for (const struct codec *k = codecs; k->name; k++)
		if (k->open)
			sb_printf(&b, " %s", k->name);
	sb_printf(&b, "\nnames of C++ and Rust functions: %s\nnative stacks: libdw, confined by landlock%s where the kernel has %s",
		  HAVE_LIBIBERTY ? "demangled by libiberty" : "as they are (built without libiberty)", HAVE_SECCOMP ? " and libseccomp" : "",
		  HAVE_SECCOMP ? "them" : "it");
	sb_printf(&b, "\nfaulting instructions: %s", HAVE_ZYDIS ? "x86 (Zydis)" : "not decoded (built without Zydis)");
	return str_c(a, sb_take(&b, a));
}

static const char *tables_text(struct arena *a)
{
	struct sb b = { 0 };
	tables_matrix(&b);
	return str_c(a, sb_take(&b, a));
}

/* To write that text every table is parsed, which takes some milliseconds that an ordinary run has no use for. */
static bool asks_version(int argc, char **argv)
{
	for (int i = 1; i < argc; i++)
		if (!strncmp(argv[i], "--vers", 6) || (argv[i][0] == '-' && argv[i][1] != '-' && strchr(argv[i], 'V')))
			return true;
	return false;
}

/* "3", "3.12", "3.12.1" -> as PY_VERSION_HEX of the final release; 0 if it is none of these. */
static uint32_t version_hex(const char *s)
{
	unsigned part[3] = { 0 };
	int n = 0;
	while (n < 3 && isdigit((unsigned char)*s)) {
		char *end;
		unsigned long v = strtoul(s, &end, 10);
		if (v > 255)
			return 0;
		part[n++] = (unsigned)v;
		s = *end == '.' ? end + 1 : end;
	}
	return *s || n < 2 ? 0 : part[0] << 24 | part[1] << 16 | (n == 3 ? part[2] << 8 | 0xf0 : 0);
}

static int read_layout(struct wish *w, const struct cli *c, const char *path)
{
	struct err err = { 0 };
	struct bytes *b;
	int rc = bytes_open(path, &b, &err);
	if (rc < 0) {
		if (!err.hint[0])
			err_hint(&err, "without --layout the tables of this program are used");
		return cli_error(c, &err);
	}
	if (b->size > 1 << 20) {
		bytes_close(b);
		err_set(&err, ERR_UNSUPPORTED, "'%s' is too big for a layout table", path);
		return cli_error(c, &err);
	}
	char *text = arena_alloc(w->arena, (size_t)b->size + 1);
	rc = bytes_read(b, 0, text, (size_t)b->size);
	size_t size = (size_t)b->size;
	bytes_close(b);
	if (rc < 0) {
		err_set(&err, rc, "cannot read '%s'", path);
		return cli_error(c, &err);
	}
	w->py.layout_text = (struct str){ text, size };
	/* Whatever columns it has: a text that is none is refused before any input is looked at. */
	struct layout probe;
	struct err bad = { 0 };
	if (!str_valid(text, size) || ((rc = layout_parse(w->py.layout_text, "x86_64", &probe, &bad)) < 0 && rc != ERR_ABSENT)) {
		err_set(&err, ERR_UNSUPPORTED, "'%s' is not a layout table: %s", path, bad.msg[0] ? bad.msg : "not UTF-8");
		err_hint(&err, "formats/layouts has examples; CONTRIBUTING.md says how one is made");
		return cli_error(c, &err);
	}
	return 0;
}

static int find_format(struct wish *w, const struct cli *c, const char *name)
{
	w->format = renderer_find(name);
	if (w->format)
		return 0;
	struct VEC(const char *) names = { 0 };
	for (size_t i = 0; renderers[i]; i++)
		*vec_push(&names) = renderers[i]->name;
	const char *near = cli_nearest(name, names.p, names.n);
	struct sb all = { 0 };
	for (size_t i = 0; i < names.n; i++)
		sb_printf(&all, "%s--format=%s", i ? ", " : "", names.p[i]);
	struct str list = sb_take(&all, w->arena);
	char *hint = near ? xasprintf("--format=%s", near) : xstrdup(str_c(w->arena, list));
	int rc = cli_usage(c, hint, "unknown format %s", cli_quoted(name, SIZE_MAX));
	free(hint);
	vec_free(&names);
	return rc;
}

static void split(struct wish *w, const char *dirs, struct texts *ret)
{
	char *copy = arena_dup(w->arena, dirs, strlen(dirs) + 1);
	for (char *save = NULL, *d = strtok_r(copy, ":", &save); d; d = strtok_r(NULL, ":", &save))
		*vec_push(ret) = d;
}

/* --debuginfod */
static int fetch_when(struct wish *w, const struct cli *c, const char *value)
{
	if (!strcmp(value, "auto"))
		w->search.fetch_ms = fetch_usual();
	else if (!strcmp(value, "on") || !strcmp(value, "off"))
		w->search.fetch_ms = value[1] == 'n' ? FETCH_MS : 0;
	else
		return cli_usage(c, "--debuginfod=on", "--debuginfod takes auto, on or off, not %s", cli_quoted(value, SIZE_MAX));
	return 0;
}

/* "verdict,threads", "+native,-modules", "all". */
static int show(struct wish *w, const struct cli *c, const char *list)
{
	static const char *const names[] = { "verdict", "threads", "native", "modules", "all" };
	static const unsigned bits[] = { SHOW_VERDICT, SHOW_THREADS, SHOW_NATIVE, SHOW_MODULES, ~0u };
	const bool changes = *list == '+' || *list == '-';
	bool any = false;
	unsigned shown = changes ? w->show : 0;
	w->no_native &= changes;
	char *copy = arena_dup(w->arena, list, strlen(list) + 1);
	for (char *save = NULL, *word = strtok_r(copy, ",", &save); word; word = strtok_r(NULL, ",", &save)) {
		const char *name = word + (*word == '+' || *word == '-');
		size_t i = 0, n = sizeof names / sizeof *names;
		while (i < n && strcmp(names[i], name) != 0)
			i++;
		if (i == n) {
			const char *near = cli_nearest(name, names, n);
			CLEANUP(cleanup_free) char *hint = xasprintf("--show=%s", near ? near : "verdict,threads,native,modules");
			return cli_usage(c, hint, "--show knows no %s", cli_quoted(name, SIZE_MAX));
		}
		any = true;
		shown = *word == '-' ? shown & ~bits[i] : shown | bits[i];
		if (bits[i] & SHOW_NATIVE) {
			w->no_native = *word == '-';
			shown |= *word == '-' ? 0 : SHOW_THREADS; /* in whose stacks they stand */
		}
	}
	if (!any)
		return cli_usage(c, "--show=verdict,threads,native,modules", "--show names nothing");
	w->show = shown;
	w->render.native &= (shown & SHOW_NATIVE) != 0;
	return 0;
}

static bool begins_with(const char *path, const char *magic)
{
	char head[4];
	CLEANUP(cleanup_fd) int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
	return fd >= 0 && read(fd, head, sizeof head) == (ssize_t)sizeof head && memcmp(head, magic, sizeof head) == 0;
}

/* A place that an option names and that cannot be used is said, once: what it was to give is missing from the reports, and that has other causes too. */
static void warn_place(const struct cli *c, const char *option, const char *path, bool folder)
{
	struct err err = { 0 };
	struct stat st;
	CLEANUP(cleanup_fd) int fd = open(path, O_PATH | O_CLOEXEC);
	const char *why = NULL;
	if (fd < 0 || fstat(fd, &st) < 0)
		why = strerror(errno);
	else if (folder ? !S_ISDIR(st.st_mode) : !S_ISREG(st.st_mode))
		why = folder ? "not a folder" : "not a regular file";
	else if (faccessat(AT_FDCWD, path, folder ? X_OK : R_OK, AT_EACCESS) < 0)
		why = strerror(errno);
	else if (!folder && !begins_with(path, "\177ELF"))
		why = "not an ELF file";
	if (!why)
		return;
	err_set(&err, ERR_GONE, "%s '%s' cannot be used: %s", option, path, why);
	cli_warn(c, &err);
}

static void warn_places(const struct cli *c, const struct wish *w)
{
	if (w->search.exe)
		warn_place(c, "-e", w->search.exe, false);
	if (w->search.sysroot)
		warn_place(c, "--sysroot", w->search.sysroot, true);
	for (size_t i = 0; i < w->lib_path.n; i++)
		warn_place(c, "--lib-path", w->lib_path.p[i], true);
	for (size_t i = 0; i < w->debug_path.n; i++)
		if (w->debug_path.p[i][0] == '/') /* a relative one is beside each file */
			warn_place(c, "--debug-path", w->debug_path.p[i], true);
	for (size_t i = 1; i < w->source_map.n; i += 2)
		if (w->source_map.p[i][0] && access(w->source_map.p[i], F_OK) < 0)
			warn_place(c, "--source-map", w->source_map.p[i], true);
}

static bool address(const char *text, addr_t *ret)
{
	char *end;
	errno = 0;
	unsigned long long at = strtoull(text, &end, 16);
	if (errno || *end || end == text || !at || text[0] == '-' || text[0] == '+' || text[0] == ' ')
		return false;
	*ret = at;
	return true;
}

/* All options; CLI_EXIT's status or a usage error's in *status when it returns false. */
static bool options(struct cli *c, struct wish *w, int *status)
{
	const char *value;
	int opt;
	uint64_t n;
	while ((opt = cli_next(c, &value)) > 0) {
		*status = 0;
		switch (opt) {
		case PYANALYZE_exe: w->search.exe = value; break;
		case PYANALYZE_sysroot: w->search.sysroot = value; break;
		case PYANALYZE_lib_path: split(w, value, &w->lib_path); break;
		case PYANALYZE_debug_path:
			split(w, value, &w->debug_path);
			w->has_debug_path = true; /* "": nowhere */
			break;
		case PYANALYZE_debuginfod: *status = fetch_when(w, c, value); break;
		case PYANALYZE_source_map: {
			const char *eq = strchr(value, '=');
			if (!eq || !value[1]) {
				*status = cli_usage(c, "--source-map=/build/src=/home/me/src", "--source-map needs OLD=NEW");
				break;
			}
			char *copy = arena_dup(w->arena, value, strlen(value) + 1);
			copy[eq - value] = '\0';
			*vec_push(&w->source_map) = copy;
			*vec_push(&w->source_map) = copy + (eq - value) + 1;
			break;
		}
		case PYANALYZE_python_version:
			w->py.python_version = version_hex(value);
			if (!w->py.python_version)
				*status = cli_usage(c, "--python-version=3.12.1", "%s is not a version of Python", cli_quoted(value, SIZE_MAX));
			break;
		case PYANALYZE_runtime:
			if (!address(value, &w->py.only_runtime))
				*status = cli_usage(c, "--runtime=0x7f1234567000", "%s is no address", cli_quoted(value, SIZE_MAX));
			break;
		case PYANALYZE_layout: *status = read_layout(w, c, value); break;
		case PYANALYZE_show: *status = show(w, c, value); break;
		case PYANALYZE_native:
			w->render.native = true;
			w->show |= SHOW_NATIVE;
			w->no_native = false;
			break;
		case PYANALYZE_thread: *vec_push(&w->threads) = value; break;
		case PYANALYZE_order:
			w->render.newest_first = strcmp(value, "newest-first") == 0;
			if (!w->render.newest_first && strcmp(value, "oldest-first") != 0)
				*status = cli_usage(c, "--order=newest-first", "--order is oldest-first or newest-first, not %s", cli_quoted(value, SIZE_MAX));
			break;
		case PYANALYZE_frames:
			if (cli_number(c, "--frames", value, 0, UINT32_MAX, &n))
				w->render.frames = n;
			else
				*status = EXIT_USAGE;
			break;
		case PYANALYZE_no_sandbox: w->no_sandbox = true; break;
		case PYANALYZE_output:
			if (!cli_output(c, value))
				*status = EXIT_USAGE;
			*vec_push(&w->outputs) = value;
			break;
		case PYANALYZE_format: *status = find_format(w, c, value); break;
		case PYANALYZE_json: *status = find_format(w, c, "json"); break;
		}
		if (*status)
			return false;
	}
	*status = c->status;
	return opt == CLI_END;
}

/* What a file may be called: no '/', no control or unsafe characters, at most 80 bytes, never "." or "..". */
static void file_name(struct sb *b, struct str s)
{
	size_t start = b->len;
	for (size_t i = 0, used; i < s.len && b->len - start < 80; i += used) {
		uint32_t cp = str_decode(s.s + i, s.len - i, &used);
		if (cp == '/' || cp == '\\' || str_unsafe(cp))
			sb_char(b, '_');
		else
			sb_bytes(b, s.s + i, used);
	}
}

struct job {
	const struct cli *c;
	const struct wish *w;
	const struct report *r;
	const struct renderer *renderer;
	size_t thread; /* (size_t)-1: the whole report */
};

static int draw(const struct job *j, FILE *out, bool on_stdout)
{
	struct render_options opt = j->w->render;
	opt.color = on_stdout && cli_color(j->c, STDOUT_FILENO);
	opt.width = cli_width(on_stdout ? STDOUT_FILENO : -1);
	int rc = j->thread == (size_t)-1 ? j->renderer->render(j->r, &opt, out) : j->renderer->render_thread(j->r, j->thread, &opt, out);
	if (fflush(out) != 0 || ferror(out))
		return ERR_IO;
	return rc;
}

/*
 * A file is written under a name of this process's own, part, so that no half report stands under the final one.  Devices, pipes
 * and what links lead to are written as they are (part NULL): to replace /dev/null or /dev/stdout would harm everybody.  Reports hold arguments
 * and texts of exceptions, so they are for the user alone.
 */
static FILE *open_report(const char *path, const char *part)
{
	int fd;
	if (!part) {
		fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOCTTY, 0600);
	} else {
		enum { FLAGS = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC };
		fd = open(part, FLAGS, 0600);
		if (fd < 0 && errno == EEXIST && unlink(part) == 0) /* an ended process's */
			fd = open(part, FLAGS, 0600);
	}
	return fd < 0 ? NULL : fdopen(fd, "w");
}

static char *volatile unfinished; /* the file that is being written; NULL: none */
static const int ends[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT };
enum { ENDS = sizeof ends / sizeof *ends };

static void on_end(int signo)
{
	char *part = unfinished;
	if (part)
		unlink(part);
	signal(signo, SIG_DFL);
	raise(signo); /* comes when this returns */
}

/* While a file is written: what ends the process removes it.  Only then, since children would have the handler too. */
static void watch_ends(struct sigaction old[static ENDS], char *part)
{
	struct sigaction sa = { .sa_handler = on_end };
	unfinished = part;
	for (unsigned i = 0; i < ENDS; i++)
		/* What nohup and shells switched off stays off. */
		if (sigaction(ends[i], NULL, &old[i]) == 0 && old[i].sa_handler != SIG_IGN)
			sigaction(ends[i], &sa, NULL);
}

static void leave_ends(const struct sigaction old[static ENDS])
{
	unfinished = NULL;
	for (unsigned i = 0; i < ENDS; i++)
		sigaction(ends[i], &old[i], NULL);
}

static int draw_to(const struct job *j, const char *path)
{
	struct err err = { 0 };
	if (earlier_check(path, &err) < 0)
		return cli_error(j->c, &err);
	struct stat st;
	struct sigaction old[ENDS] = { 0 };
	const bool direct = lstat(path, &st) == 0 && !S_ISREG(st.st_mode);
	CLEANUP(cleanup_free) char *part = direct ? NULL : xasprintf("%s.%d.part", path, (int)getpid());
	watch_ends(old, part);
	FILE *out = open_report(path, part);
	if (!out) {
		const int e = errno;
		leave_ends(old);
		err_set(&err, cli_write_code(e), "cannot write '%s': %s", path, strerror(e));
		CLEANUP(cleanup_free) char *folder = cli_folder_missing(path, e);
		folder ? err_hint(&err, "mkdir -p '%s'", folder) : err_hint(&err, "another -o");
		return cli_error(j->c, &err);
	}
	int rc = draw(j, out, false);
	int saved = errno;
	if (fclose(out) != 0 && rc == 0) {
		rc = ERR_IO;
		saved = errno;
	}
	if (rc == 0 && part && rename(part, path) != 0) {
		rc = ERR_IO;
		saved = errno;
	}
	if (rc < 0 && part)
		unlink(part);
	leave_ends(old);
	if (rc < 0) {
		err_set(&err, cli_write_code(saved), "cannot write '%s': %s", path, strerror(saved));
		err_hint(&err, "-o on another disk");
		return cli_error(j->c, &err);
	}
	return 0;
}

/* The whole report, which is said where it is a file. */
static int draw_file(const struct job *j, const char *path)
{
	struct stat st;
	char size[STR_SIZE];
	int rc = draw_to(j, path);
	if (rc == 0 && stat(path, &st) == 0 && S_ISREG(st.st_mode))
		cli_say(j->c, "%s: %s of %s", path, str_size((uint64_t)st.st_size, size), j->renderer->name);
	return rc;
}

static bool is_folder(const char *path)
{
	struct stat st;
	size_t n = strlen(path);
	return (n && path[n - 1] == '/') || (stat(path, &st) == 0 && S_ISDIR(st.st_mode));
}

/* What this input's files in a folder are called: its name, and a number where an input before it was called so (a/core, b/core). */
static const char *stem_of(struct wish *w, const char *input)
{
	struct sb b = { 0 };
	file_name(&b, str_base(str_from_bytes(w->arena, input, strlen(input))));
	const char *base = str_c(w->arena, sb_take(&b, w->arena)), *ret = base;
	unsigned n = 1;
	for (size_t i = 0; i < w->stems.n; i++)
		if (strcmp(w->stems.p[i], ret) == 0) {
			ret = str_c(w->arena, str_printf(w->arena, "%s.%u", base, ++n));
			i = (size_t)-1; /* that one may be another's own name */
		}
	*vec_push(&w->stems) = ret;
	return ret;
}

/* DIR/: one file an input; a renderer that can draw one thread gives a file for each active thread, where none is for each that has a stack. */
static int draw_folder(struct job *j, const char *dir, const char *stem, bool several)
{
	struct err err = { 0 };
	if (mkdir(dir, 0777) != 0 && errno != EEXIST) {
		const int e = errno;
		err_set(&err, cli_write_code(e), "cannot make the folder '%s': %s", dir, strerror(e));
		if (e == ENOENT)
			err_hint(&err, "mkdir -p '%s'", dir);
		else
			err_hint(&err, cli_write_code(e) == ERR_PERM ? "-o DIR/ where you may write" : "another -o");
		return cli_error(j->c, &err);
	}
	if (!j->renderer->render_thread)
		return draw_file(j, str_c(j->r->arena, str_printf(j->r->arena, "%s/%s%s", dir, stem, j->renderer->suffix)));
	int rc = 0;
	size_t n = 0;
	bool python = false;
	for (size_t i = 0; i < j->r->threads.n; i++)
		python |= j->r->threads.p[i].active;
	for (size_t i = 0; i < j->r->threads.n && rc == 0; i++) {
		const struct report_thread *t = &j->r->threads.p[i];
		if (python ? !t->active : !t->n_runs)
			continue;
		struct sb b = { 0 };
		sb_printf(&b, "%s/", dir);
		if (several)
			sb_printf(&b, "%s-", stem);
		sb_printf(&b, "%lld-", (long long)t->tid);
		if (t->name.len)
			file_name(&b, t->name);
		else
			sb_printf(&b, "thread");
		if (t->tid < 0 || t->interpreter > 0) /* the number alone may not tell two thread states apart */
			sb_printf(&b, "-%llx-%lld", (unsigned long long)t->python_id, (long long)t->interpreter);
		sb_printf(&b, "%s", j->renderer->suffix);
		struct str path = sb_take(&b, j->r->arena);
		j->thread = i;
		rc = draw_to(j, str_c(j->r->arena, path));
		n++;
	}
	j->thread = (size_t)-1;
	if (rc == 0)
		cli_say(j->c, "%s: %zu file%s, one a thread with %s frames%s", dir, n, n == 1 ? "" : "s", python ? "Python" : "native",
			python ? "" : "; no thread has Python ones");
	return rc;
}

static int write_reports(const struct cli *c, struct wish *w, struct report *r, const char *input, bool several, bool appending)
{
	struct job j = { c, w, r, w->format ? w->format : renderer_find("text"), (size_t)-1 };
	const char *stem = stem_of(w, input);
	if (!w->outputs.n)
		*vec_push(&w->outputs) = "-";
	for (size_t i = 0; i < w->outputs.n; i++) {
		const char *to = w->outputs.p[i];
		int rc = 0;
		if (strcmp(to, "-") == 0) {
			if (several && strcmp(j.renderer->name, "text") == 0) {
				struct sb head = { 0 };
				sb_printf(&head, "%s== ", appending ? "\n" : "");
				sb_safe(&head, r->input.path);
				printf(STR_FMT " ==\n", STR_ARG(sb_view(&head)));
				sb_free(&head);
			}
			if (draw(&j, stdout, true) < 0) {
				if (errno == EPIPE)
					return EXIT_FAILED; /* the reader has seen enough */
				struct err err;
				err_set(&err, ERR_IO, "cannot write the report: %s", strerror(errno));
				err_hint(&err, "-o FILE");
				rc = cli_error(c, &err);
			}
		} else if (is_folder(to)) {
			rc = draw_folder(&j, to, stem, several);
		} else {
			struct job one = j;
			struct err unlike = { 0 };
			const struct renderer *by_name = renderer_for_file(to);
			if (by_name)
				one.renderer = by_name;
			else if (!w->format && earlier_check(to, &unlike) < 0)
				return cli_error(c, &unlike); /* that no format makes good */
			else if (!w->format)
				return cli_usage(c, "--format=text, or a name that ends in .txt, .json or .svg", "%s does not say which format", cli_quoted(to, SIZE_MAX));
			rc = draw_file(&one, to);
		}
		if (rc)
			return rc;
	}
	return 0;
}

static bool all_to_files(const struct wish *w)
{
	for (size_t i = 0; i < w->outputs.n; i++)
		if (strcmp(w->outputs.p[i], "-") == 0)
			return false;
	return w->outputs.n > 0;
}

static bool is_number(const char *s)
{
	return *s && strspn(s, "0123456789") == strlen(s);
}

/* One input.  *written: a report was written, whatever it had to admit. */
static int analyze(const struct cli *c, struct wish *w, const char *path, bool several, bool appending, bool *written)
{
	struct err err = { 0 };
	struct image *img;
	int rc = image_open(path, &img, &err);
	if (rc < 0) {
		char proc[64];
		if (rc == ERR_GONE && is_number(path) && snprintf(proc, sizeof proc, "/proc/%.20s", path) > 0 && access(proc, F_OK) == 0) {
			err_set(&err, ERR_IO, "%s is not a file; a process has that number", path);
			err_hint(&err, "pysnap %s -o snap.pz && pyanalyze snap.pz", path);
		}
		if (rc == ERR_GONE && str_ends(str_of(path), ".pz"))
			err_hint(&err, "pysnap PID -o %s", path);
		return cli_error(c, &err);
	}
	struct report *r = report_new();
	static const char *const features[] = {
		HAVE_LIBDEFLATE ? "libdeflate" : "zlib",
#if HAVE_ZSTD
		"zstd",
#endif
#if HAVE_LZMA
		"lzma",
#endif
#if HAVE_LZ4
		"lz4",
#endif
#if HAVE_LIBIBERTY
		"libiberty",
#endif
#if HAVE_SECCOMP
		"libseccomp",
#endif
#if HAVE_ZYDIS
		"zydis",
#endif
		NULL,
	};
	r->tool.version = STR(PYSNAP_VERSION);
	r->tool.features = features;
	struct target t = { .img = img, .arena = arena_new() };
	CLEANUP(cleanup_free) bool *found = NULL;
	struct limits lim = { .frames = 2000000, .threads = 200000 };
	int status = 0;
	rc = modules_open(img, &w->search, &t.mods, &err);
	if (rc < 0) {
		status = cli_error(c, &err);
		goto out;
	}
	/* The verdict needs them too, which JSON always has, and is the same whatever else is shown. */
	if (!w->no_native) { /* it works while Python is looked for */
		struct native_limits native = native_default;
		native.frames = lim.frames;
		native.threads = lim.threads;
		native.lines = w->render.native ? NATIVE_LINES_ALL : image_facts(img)->kind == IMAGE_CORE ? NATIVE_LINES_FIRST : NATIVE_LINES_NONE;
		native.no_sandbox = w->no_sandbox;
		t.native_limits = native;
		if (native_start(img, t.mods, &native, &t.native, &t.native_err) < 0)
			t.native = NULL;
	}
	w->py.version_seen = t.py_seen;
	w->py.asked_for = t.py_asked;
	t.py_named = w->py.only_runtime != 0;
	rc = py_open(img, t.mods, &w->py, t.arena, &t.py, &t.py_err);
	if (rc < 0)
		t.py = NULL;
	if (t.py)
		cli_note(c, "%s: Python %s by %s at 0x%llx, layout %s", path, t.py->version_text, t.py->found_by,
			 (unsigned long long)(t.py->runtime ? t.py->runtime : t.py->interp_head), t.py->layout.name);
	const struct module *list;
	size_t n_modules = modules_list(t.mods, &list), with_file = 0;
	for (size_t i = 0; i < n_modules; i++) {
		with_file += list[i].file != NULL;
		if (list[i].file)
			cli_note(c, "%s: uses %s", path, list[i].file);
		if (list[i].debug_file)
			cli_note(c, "%s: uses %s", path, list[i].debug_file);
	}
	cli_note(c, "%s: %zu mapped ELF files, %zu of them here with the same build-id", path, n_modules, with_file);
	rc = inspect(&t, &lim, path, r);
	if (rc < 0)
		cli_note(c, "%s: %s", path, err_word(rc));
	if (!(w->show & SHOW_NATIVE) && t.native)
		report_python_only(r);
	const struct native_records *rec;
	if (t.native && native_finish(t.native, &rec, NULL) == 0)
		cli_note(c, "%s: native stacks were unwound in a process confined by %s", path,
			 rec->sandbox == (SANDBOX_SECCOMP | SANDBOX_LANDLOCK) ? "seccomp and landlock"
			 : rec->sandbox & SANDBOX_SECCOMP ? "seccomp" : rec->sandbox & SANDBOX_LANDLOCK ? "landlock" : "limits alone");
	found = xcalloc(w->threads.n + 1, sizeof *found);
	if (w->threads.n && !wanted_keep(r, w->threads.p, w->threads.n, found)) {
		wanted_none(r, path, w->threads.p, w->threads.n, t.py ? NULL : &t.py_err, &err);
		status = cli_error(c, &err);
		goto out;
	}
	for (size_t k = 0; k < w->threads.n; k++) {
		if (found[k])
			continue;
		struct err none = { 0 };
		err_set(&none, ERR_ABSENT, "%s has no thread '%s'", path, w->threads.p[k]);
		cli_warn(c, &none);
	}
	status = write_reports(c, w, r, path, several, appending);
	*written = status == 0;
	if (status == 0 && all_to_files(w)) {
		struct sb line = { 0 };
		if (several) {
			sb_safe(&line, r->input.path);
			sb_printf(&line, ": ");
		}
		sb_str(&line, r->verdict.word);
		sb_printf(&line, "  ");
		sb_safe(&line, r->verdict.title);
		cli_say(c, STR_FMT, STR_ARG(sb_view(&line)));
		sb_free(&line);
	}
	if (status == 0 && !t.py) {
		/* The report is written and lists it as its first limit; the exit code tells a script, and this whoever does not see the report. */
		if (several) {
			err = t.py_err;
			snprintf(t.py_err.msg, sizeof t.py_err.msg, "%.200s: %.300s", path, err.msg);
		}
		cli_error(c, &t.py_err);
		status = t.py_err.code == ERR_UNSUPPORTED ? EXIT_FAILED : EXIT_NOPYTHON;
	}
out:
	report_free(r);
	native_close(t.native);
	modules_close(t.mods);
	arena_free(t.arena);
	image_close(img);
	return status;
}

/* Every file of a process is kept open for the process that unwinds; shells allow 1024, of the 524288 that may be had. */
static void allow_files(void)
{
	enum { FILES = 16384 };
	struct rlimit l;
	if (getrlimit(RLIMIT_NOFILE, &l) == 0 && l.rlim_cur < FILES && l.rlim_cur < l.rlim_max) {
		l.rlim_cur = l.rlim_max < FILES ? l.rlim_max : FILES;
		(void)!setrlimit(RLIMIT_NOFILE, &l);
	}
}

int main(int argc, char **argv)
{
	allow_files();
	struct wish w = { .arena = arena_new(), .render = { .frames = 100 }, .show = SHOW_DEFAULT, .search.fetch_ms = fetch_usual() };
	struct cli c = {
		.name = "pyanalyze", .program = CLI_PYANALYZE, .usage = "[OPTIONS] FILE...",
		.about = "Says what a Python process was doing when it crashed, hung or was looked at.\n"
			 "FILE is a snapshot written by pysnap or an ordinary ELF core, compressed or not; \"-\" is standard input.",
		.version = version_text(w.arena), .details = asks_version(argc, argv) ? tables_text(w.arena) : NULL,
	};
	cli_start(&c, argc, argv);
	int status = 0;
	bool any = false;
	if (!options(&c, &w, &status))
		goto out;
	if (!c.n_args) {
		status = cli_usage(&c, "pyanalyze core, or pyanalyze --help", "no core or snapshot was named");
		goto out;
	}
	warn_places(&c, &w);
	w.render.all_names = c.verbose;
	w.render.no_verdict = !(w.show & SHOW_VERDICT);
	w.render.no_threads = !(w.show & SHOW_THREADS);
	w.render.modules = w.show & SHOW_MODULES;
	*vec_push(&w.lib_path) = NULL;
	*vec_push(&w.debug_path) = NULL;
	*vec_push(&w.source_map) = NULL;
	w.search.debug_path = w.has_debug_path ? w.debug_path.p : NULL;
	w.search.lib_path = w.lib_path.p;
	w.search.source_map = w.source_map.p;
	w.render.compact = c.n_args > 1;
	for (size_t i = 0; i < w.outputs.n && c.n_args > 1; i++) {
		if (strcmp(w.outputs.p[i], "-") != 0 && !is_folder(w.outputs.p[i])) {
			const struct renderer *form = renderer_for_file(w.outputs.p[i]) ? renderer_for_file(w.outputs.p[i]) : w.format;
			CLEANUP(cleanup_free) char *hint = !form || form->single ? xstrdup("-o DIR/, which gets a file for each")
				: xasprintf("-o DIR/, which gets a file for each; or, for one after the other, --format=%s > %s", form->name, w.outputs.p[i]);
			status = cli_usage(&c, hint, "%zu inputs do not fit into the one file %s", c.n_args, cli_quoted(w.outputs.p[i], SIZE_MAX));
			goto out;
		}
	}
	const struct renderer *on_stdout = w.format && !all_to_files(&w) ? w.format : NULL;
	if (c.n_args > 1 && on_stdout && on_stdout->single) {
		status = cli_usage(&c, "-o DIR/, which gets a file for each", "%zu inputs do not fit into one %s on standard output", c.n_args, on_stdout->name);
		goto out;
	}
	for (size_t i = 0; i < c.n_args; i++) {
		bool written = false;
		int one = analyze(&c, &w, c.args[i], c.n_args > 1, any, &written);
		any |= written;
		if (one && !status)
			status = one;
		if (one == EXIT_USAGE)
			goto out;
	}
	if (c.n_args > 1 && any)
		status = EXIT_DONE;
out:
	vec_free(&w.outputs);
	vec_free(&w.threads);
	vec_free(&w.lib_path);
	vec_free(&w.debug_path);
	vec_free(&w.source_map);
	vec_free(&w.stems);
	arena_free(w.arena);
	cli_end(&c);
	return status;
}
