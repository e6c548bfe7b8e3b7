/* Options, messages, colour and exit codes of both programs; nothing outside src/cmd prints. */
#include "cmd/cli.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

struct row {
	int program; /* enum cli_program */
	int id;      /* 0: a heading, its text in help */
	char short_name;
	const char *long_name, *arg, *help;
};

enum { PYSNAP = CLI_PYSNAP, PYANALYZE = CLI_PYANALYZE, BOTH = CLI_BOTH };

static const struct row rows[] = {
#define HEADING(program, text) { program, 0, 0, NULL, NULL, text },
#define OPTION(program, id, short_name, long_name, arg, help) { program, program##_##id, short_name, long_name, arg, help },
#include "cmd/options.def"
#undef OPTION
#undef HEADING
};
enum { N_ROWS = sizeof rows / sizeof rows[0] };

static bool row_applies(const struct cli *c, const struct row *r)
{
	return (r->program & (int)c->program) != 0;
}

/* -- messages -- */

static void print_safe(FILE *out, const char *text)
{
	CLEANUP(cleanup_arena) struct arena *a = arena_new();
	CLEANUP(cleanup_sb) struct sb b = { 0 };
	sb_safe(&b, str_from_bytes(a, text, strlen(text)));
	fwrite(b.s ? b.s : "", 1, b.len, out);
}

static void print_line(const struct cli *c, const char *head, const char *colour, const char *text)
{
	bool color = cli_color(c, STDERR_FILENO);
	fprintf(stderr, "%s%s%s", color ? colour : "", head, color && *colour ? "\033[0m" : "");
	print_safe(stderr, text);
	fputc('\n', stderr);
}

/* A line each, for who asks. */
static void print_details(const struct cli *c, const struct err *err)
{
	struct str line;
	for (struct str rest = str_of(err->detail); c->verbose && str_line(&rest, &line);) {
		CLEANUP(cleanup_free) char *one = xasprintf(STR_FMT, STR_ARG(line));
		print_line(c, "  tried: ", "\033[2m", one);
	}
}

static void print_err(const struct cli *c, const char *kind, const char *colour, const struct err *err)
{
	CLEANUP(cleanup_free) char *head = xasprintf("%s: %s", c->name, kind);
	fflush(stdout);
	print_line(c, head, colour, err->msg[0] ? err->msg : err_word(err->code));
	if (err->why[0])
		print_line(c, "  why: ", "\033[2m", err->why);
	print_details(c, err);
	if (err->hint[0])
		print_line(c, str_starts(str_of(err->hint), "nothing") ? "  " : "  try: ", "\033[2m", err->hint);
}

int cli_exit_code(const struct cli *c, int code)
{
	bool snap = c->program == CLI_PYSNAP;
	switch (code) {
	case ERR_PERM: return EXIT_PERM;
	case ERR_GONE: return snap ? EXIT_GONE : EXIT_FAILED; /* for pyanalyze it is a file that does not exist */
	case ERR_NOPYTHON: return EXIT_NOPYTHON;
	case ERR_CORRUPT: return snap ? EXIT_FAILED : EXIT_DAMAGED;
	}
	return code >= 0 ? EXIT_DONE : EXIT_FAILED;
}

const char *cli_quoted(const char *value, size_t most)
{
	static char buf[512];
	size_t n = 0;
	buf[n++] = '"';
	for (size_t i = 0; value[i] && i < most && n < sizeof buf - 4; i++) {
		if (value[i] == '"')
			buf[n++] = '\\';
		buf[n++] = value[i];
	}
	buf[n++] = '"';
	buf[n] = 0;
	return buf;
}

int cli_write_code(int e)
{
	return e == EACCES || e == EPERM || e == EROFS ? ERR_PERM : ERR_IO;
}

char *cli_folder_of(const char *name)
{
	const char *slash = strrchr(name, '/');
	return slash ? slash == name ? xstrdup("/") : strndup(name, (size_t)(slash - name)) : xstrdup(".");
}

char *cli_folder_missing(const char *name, int e)
{
	CLEANUP(cleanup_free) char *folder = cli_folder_of(name);
	return e == ENOENT && access(folder, F_OK) < 0 && errno == ENOENT ? xstrdup(folder) : NULL;
}

int cli_error(const struct cli *c, const struct err *err)
{
	print_err(c, "", "\033[1;31m", err);
	return cli_exit_code(c, err->code);
}

void cli_warn(const struct cli *c, const struct err *err)
{
	if (!c->quiet)
		print_err(c, "warning: ", "\033[1;33m", err);
}

int cli_usage(const struct cli *c, const char *try_this, const char *fmt, ...)
{
	struct err err = { .code = ERR_UNSUPPORTED };
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(err.msg, sizeof err.msg, fmt, ap);
	va_end(ap);
	if (try_this)
		err_hint(&err, "%s", try_this);
	else
		err_hint(&err, "%s --help", c->name);
	print_err(c, "", "\033[1;31m", &err);
	return EXIT_USAGE;
}

static void say(const struct cli *c, const char *head, const char *fmt, va_list ap)
{
	char *text;
	if (vasprintf(&text, fmt, ap) < 0)
		return;
	fflush(stdout);
	print_line(c, head, "", text);
	free(text);
}

void cli_note(const struct cli *c, const char *fmt, ...)
{
	if (!c->verbose)
		return;
	CLEANUP(cleanup_free) char *head = xasprintf("%s: ", c->name);
	va_list ap;
	va_start(ap, fmt);
	say(c, head, fmt, ap);
	va_end(ap);
}

void cli_note_err(const struct cli *c, const struct err *err)
{
	cli_note(c, "%s", err->why[0] ? err->why : err->msg);
	print_details(c, err);
}

void cli_say(const struct cli *c, const char *fmt, ...)
{
	if (c->quiet)
		return;
	va_list ap;
	va_start(ap, fmt);
	say(c, "", fmt, ap);
	va_end(ap);
}

/* -- help -- */

static void print_help(const struct cli *c)
{
	printf("Usage: %s %s\n%s\n", c->name, c->usage, c->about);
	enum { COLUMN = 28 };
	for (size_t i = 0; i < N_ROWS; i++) {
		const struct row *r = &rows[i];
		if (!row_applies(c, r))
			continue;
		if (!r->id) {
			printf("\n%s\n", r->help);
			continue;
		}
		char left[64];
		int n = snprintf(left, sizeof left, "  %c%c%c --%s", r->short_name ? '-' : ' ',
				 r->short_name ? r->short_name : ' ', r->short_name ? ',' : ' ', r->long_name);
		if (r->arg)
			n += snprintf(left + n, sizeof left - (size_t)n, r->short_name ? " %s" : "=%s", r->arg);
		fputs(left, stdout);
		if (n >= COLUMN) {
			putchar('\n');
			n = 0;
		}
		const char *line = r->help;
		while (line) {
			const char *next = strchr(line, '\n');
			int len = next ? (int)(next - line) : (int)strlen(line);
			printf("%*s%.*s\n", COLUMN - n, "", len, line);
			n = 0;
			line = next ? next + 1 : NULL;
		}
	}
}

/* -- options -- */

static size_t distance(const char *a, const char *b)
{
	/* Optimal string alignment; names longer than the table holds are never near. */
	enum { MAX = 48 };
	size_t la = strlen(a), lb = strlen(b);
	if (la >= MAX || lb >= MAX)
		return MAX;
	uint8_t d[MAX][MAX];
	for (size_t i = 0; i <= la; i++)
		d[i][0] = (uint8_t)i;
	for (size_t j = 0; j <= lb; j++)
		d[0][j] = (uint8_t)j;
	for (size_t i = 1; i <= la; i++) {
		for (size_t j = 1; j <= lb; j++) {
			int best = d[i - 1][j - 1] + (a[i - 1] != b[j - 1]);
			if (d[i - 1][j] + 1 < best)
				best = d[i - 1][j] + 1;
			if (d[i][j - 1] + 1 < best)
				best = d[i][j - 1] + 1;
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] && d[i - 2][j - 2] + 1 < best)
				best = d[i - 2][j - 2] + 1;
			d[i][j] = (uint8_t)best;
		}
	}
	return d[la][lb];
}

const char *cli_nearest(const char *name, const char *const *names, size_t n)
{
	size_t best = strlen(name) / 3 + 1;
	const char *ret = NULL;
	for (size_t i = 0; i < n; i++) {
		size_t d = distance(name, names[i]);
		/* "--out" is meant as the start of "--output", however much is missing. */
		if (strlen(name) >= 2 && strncmp(names[i], name, strlen(name)) == 0)
			d = 1;
		if (d < best || (d == best && !ret)) {
			best = d;
			ret = names[i];
		}
	}
	return ret;
}

static int unknown_option(struct cli *c, const char *given)
{
	const char *names[N_ROWS];
	size_t n = 0;
	for (size_t i = 0; i < N_ROWS; i++)
		if (rows[i].id && row_applies(c, &rows[i]))
			names[n++] = rows[i].long_name;
	size_t len = strcspn(given, "=");
	CLEANUP(cleanup_free) char *bare = strndup(given, len);
	const char *near = bare && strncmp(bare, "--", 2) == 0 ? cli_nearest(bare + 2, names, n) : NULL;
	CLEANUP(cleanup_free) char *hint = near ? xasprintf("--%s, or %s --help", near, c->name) : NULL;
	c->status = cli_usage(c, hint, "unknown option %s", cli_quoted(given, len));
	return CLI_EXIT;
}

static const struct row *row_of(int id)
{
	for (size_t i = 0; i < N_ROWS; i++)
		if (rows[i].id && rows[i].id == id)
			return &rows[i];
	return NULL;
}

/*
 * Where standard input, output or error is closed, the next file that is opened would get its number, and messages would go into
 * that file.  What stands there instead fails as a closed one does, but for standard error, where nobody could be told.
 */
static void standard_files(void)
{
	static const int mode[] = { O_WRONLY, O_RDONLY, O_WRONLY };
	for (int fd = 0; fd <= STDERR_FILENO; fd++) {
		if (fcntl(fd, F_GETFD) >= 0 || errno != EBADF)
			continue;
		int got = open("/dev/null", mode[fd]);
		if (got < 0)
			got = open("/", O_RDONLY | O_DIRECTORY);
		if (got < 0 || got != fd) /* the lowest number that is free, so fd */
			_exit(EXIT_FAILED);
	}
}

void cli_start(struct cli *c, int argc, char **argv)
{
	standard_files();
	c->argc = argc;
	c->argv = argv;
	c->args = xcalloc((size_t)argc + 1, sizeof *c->args);
	c->n_args = 0;
	c->quiet = c->verbose = false;
	c->color = COLOR_AUTO;
	c->status = EXIT_DONE;
	opterr = 0;
	optind = 0; /* glibc: start anew */
	/* Both are told by write, too, and then the rest can be put in order. */
	signal(SIGPIPE, SIG_IGN);
	signal(SIGXFSZ, SIG_IGN);
	signal(SIGCHLD, SIG_DFL); /* where a caller ignores it, how a child ended is lost, and its number is another's at once */
}

void cli_end(struct cli *c)
{
	free(c->args);
	c->args = NULL;
	c->n_args = 0;
}

/* What --help and --version print counts only once it is out. */
static int said(struct cli *c)
{
	if (fflush(stdout) != 0 || ferror(stdout)) {
		struct err err = { 0 };
		const int e = errno;
		err_set(&err, ERR_IO, "cannot write to standard output: %s", strerror(e));
		err_hint(&err, "%s --help | less", c->name);
		c->status = e == EPIPE ? EXIT_FAILED : cli_error(c, &err); /* the reader has seen enough */
	}
	return CLI_EXIT;
}

/* --version ends the program at once: what comes behind it is looked at for this alone. */
static bool verbose_follows(const struct cli *c)
{
	for (int i = optind; i < c->argc && strcmp(c->argv[i], "--") != 0; i++)
		if (!strcmp(c->argv[i], "-v") || !strcmp(c->argv[i], "--verbose"))
			return true;
	return false;
}

/* Options of both programs are kept here; returns 0 to go on, or CLI_EXIT. */
static int common_option(struct cli *c, int id, const char *value)
{
	switch (id) {
	case BOTH_quiet:
		c->quiet = true;
		c->verbose = false;
		return 0;
	case BOTH_verbose:
		c->verbose = true;
		c->quiet = false;
		return 0;
	case BOTH_color:
		if (!strcmp(value, "always")) {
			c->color = COLOR_ALWAYS;
		} else if (!strcmp(value, "never")) {
			c->color = COLOR_NEVER;
		} else if (!strcmp(value, "auto")) {
			c->color = COLOR_AUTO;
		} else {
			c->status = cli_usage(c, "--color=always, --color=never or --color=auto", "--color=%s is not known", value);
			return CLI_EXIT;
		}
		return 0;
	case BOTH_help:
		print_help(c);
		return said(c);
	case BOTH_version:
		printf("%s %s\n", c->name, c->version);
		if (c->details && (c->verbose || verbose_follows(c)))
			printf("%s", c->details);
		return said(c);
	}
	return 0;
}

static int next(struct cli *c, const char **value)
{
	struct option longs[N_ROWS + 1] = { 0 };
	char shorts[2 * N_ROWS + 3] = "-:"; /* operands come in order as 1; a missing argument is ':' */
	size_t nl = 0, ns = 2;
	for (size_t i = 0; i < N_ROWS; i++) {
		const struct row *r = &rows[i];
		if (!r->id || !row_applies(c, r))
			continue;
		longs[nl++] = (struct option){ r->long_name, r->arg ? required_argument : no_argument, NULL, r->id };
		if (r->short_name) {
			shorts[ns++] = r->short_name;
			if (r->arg)
				shorts[ns++] = ':';
		}
	}
	for (;;) {
		int before = optind ? optind : 1, at = -1;
		int id = getopt_long(c->argc, c->argv, shorts, longs, &at);
		if (id == -1) {
			while (optind < c->argc) /* after "--" */
				c->args[c->n_args++] = c->argv[optind++];
			return CLI_END;
		}
		if (id == 1) {
			c->args[c->n_args++] = optarg;
			continue;
		}
		const char *given = before < c->argc ? c->argv[before] : "";
		bool is_long = strncmp(given, "--", 2) == 0;
		if (is_long && at >= 0) {
			/* getopt_long takes any unambiguous start of a name; only whole names count here. */
			size_t len = strcspn(given + 2, "=");
			if (strlen(longs[at].name) != len || strncmp(longs[at].name, given + 2, len) != 0)
				return unknown_option(c, given);
		}
		if (id == ':' || id == '?') {
			char letter[3] = { '-', (char)optopt, 0 };
			const char *name = is_long ? given : letter;
			int width = (int)strcspn(name, "=");
			const struct row *r = NULL;
			for (size_t i = 0; i < N_ROWS; i++) {
				if (!rows[i].id || !row_applies(c, &rows[i]))
					continue;
				if (is_long ? (int)strlen(rows[i].long_name) == width - 2 &&
						      !strncmp(rows[i].long_name, name + 2, (size_t)width - 2)
					    : rows[i].short_name == (char)optopt)
					r = &rows[i];
			}
			if (!r)
				return unknown_option(c, name);
			if (!r->arg) {
				c->status = cli_usage(c, NULL, "%.*s takes no value", width, name);
			} else {
				CLEANUP(cleanup_free) char *hint = xasprintf(is_long ? "%.*s=%s" : "%.*s %s", width, name, r->arg);
				c->status = cli_usage(c, hint, "%.*s needs a value", width, name);
			}
			return CLI_EXIT;
		}
		const struct row *r = row_of(id);
		if (!r) { /* getopt_long returned a short option's letter */
			for (size_t i = 0; i < N_ROWS; i++)
				if (rows[i].id && row_applies(c, &rows[i]) && rows[i].short_name == (char)id)
					r = &rows[i];
			if (!r)
				return unknown_option(c, given);
		}
		if (r->program == CLI_BOTH) {
			if (common_option(c, r->id, optarg))
				return CLI_EXIT;
			continue;
		}
		*value = optarg;
		return r->id;
	}
}

int cli_next(struct cli *c, const char **value)
{
	int id = next(c, value);
	if (id == CLI_EXIT)
		cli_end(c);
	return id;
}

bool cli_number(const struct cli *c, const char *option, const char *value, uint64_t lo, uint64_t hi, uint64_t *ret)
{
	char *end;
	errno = 0;
	unsigned long long n = strtoull(value, &end, 10);
	if (*value < '0' || *value > '9' || *end || errno || n < lo || n > hi) {
		CLEANUP(cleanup_free) char *hint = NULL;
		if (hi == UINT64_MAX)
			hint = xasprintf("a whole number from %llu on", (unsigned long long)lo);
		else
			hint = xasprintf("a whole number from %llu to %llu", (unsigned long long)lo, (unsigned long long)hi);
		cli_usage(c, hint, "%s: %s will not do", option, cli_quoted(value, SIZE_MAX));
		return false;
	}
	*ret = n;
	return true;
}

bool cli_output(const struct cli *c, const char *value)
{
	if (value[0] != '-' || !value[1])
		return true;
	CLEANUP(cleanup_free) char *hint = xasprintf("-o FILE, or -o ./%s if that is its name", value);
	cli_usage(c, hint, "-o: %s is more likely an option than a file's name", cli_quoted(value, SIZE_MAX));
	return false;
}

bool cli_seconds(const struct cli *c, const char *option, const char *value, unsigned *ms)
{
	size_t whole = strspn(value, "0123456789"), part = 0;
	if (whole && value[whole] == '.')
		part = strspn(value + whole + 1, "0123456789");
	size_t used = whole + (part ? part + 1 : 0);
	uint64_t n = 0;
	for (size_t i = 0; i < whole && n <= UINT_MAX; i++)
		n = n * 10 + (uint64_t)(value[i] - '0');
	for (size_t i = 0; i < 3 && n <= UINT_MAX; i++)
		n = n * 10 + (i < part ? (uint64_t)(value[whole + 1 + i] - '0') : 0);
	if (!whole || part > 3 || value[used] || n > UINT_MAX) {
		CLEANUP(cleanup_free) char *hint = xasprintf("seconds from 0 to %u, with up to three decimals, as in 0.5", UINT_MAX / 1000);
		cli_usage(c, hint, "%s: %s will not do", option, cli_quoted(value, SIZE_MAX));
		return false;
	}
	*ms = (unsigned)n;
	return true;
}

/* -- terminal -- */

static bool env_set(const char *name)
{
	const char *v = getenv(name);
	return v && *v;
}

static bool env_is(const char *name, const char *value)
{
	const char *v = getenv(name);
	return v && strcmp(v, value) == 0;
}

bool cli_color(const struct cli *c, int fd)
{
	if (c->color != COLOR_AUTO)
		return c->color == COLOR_ALWAYS;
	if (env_set("NO_COLOR"))
		return false;
	if ((env_set("CLICOLOR_FORCE") && !env_is("CLICOLOR_FORCE", "0")) || (env_set("FORCE_COLOR") && !env_is("FORCE_COLOR", "0")))
		return true;
	if (env_is("TERM", "dumb") || env_is("CLICOLOR", "0"))
		return false;
	return isatty(fd);
}

unsigned cli_width(int fd)
{
	struct winsize w;
	if (isatty(fd) && ioctl(fd, TIOCGWINSZ, &w) == 0 && w.ws_col >= 20)
		return w.ws_col;
	const char *columns = getenv("COLUMNS");
	unsigned long n = columns ? strtoul(columns, NULL, 10) : 0;
	return n >= 20 && n <= 10000 ? (unsigned)n : 0;
}

