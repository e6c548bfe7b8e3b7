/* What both programs share at the terminal: options from options.def, errors, warnings, colour, exit codes. */
#ifndef CMD_CLI_H
#define CMD_CLI_H

#include "base/str.h"

enum cli_program { CLI_PYSNAP = 1, CLI_PYANALYZE = 2, CLI_BOTH = 3 };

/* PYSNAP_output, PYANALYZE_exe, BOTH_quiet, ...: one for each row of options.def. */
enum cli_option {
	CLI_EXIT = -1,   /* all is said (help, version or a usage error): main returns cli.status */
	CLI_END = 0,     /* no more options: the operands are args[0 .. n_args) */
	CLI_BASE_ = 999,
#define HEADING(program, text)
#define OPTION(program, id, short_name, long_name, arg, help) program##_##id,
#include "cmd/options.def"
#undef OPTION
#undef HEADING
	CLI_TOP_
};

/* Exit codes of both programs. */
enum {
	EXIT_DONE = 0,
	EXIT_FAILED = 1,    /* could not do it */
	EXIT_USAGE = 2,
	EXIT_GONE = 3,      /* no such process, or it ended */
	EXIT_PERM = 4,
	EXIT_NOPYTHON = 5,
	EXIT_DAMAGED = 6,   /* the input is damaged beyond use */
	EXIT_SIGNAL = 128,  /* + the signal's number: interrupted */
};

struct cli {
	const char *name;        /* "pysnap": stands before every message */
	enum cli_program program;
	const char *usage;       /* "[OPTIONS] PID" */
	const char *about;       /* a sentence or two for --help */
	const char *details;     /* what --version prints after that with -v; NULL: nothing */
	const char *version;     /* what --version prints after the name: "0.1.0\nbuilt with ..." */
	/* from here on kept by cli_start and cli_next; BOTH_* options never reach the caller */
	bool quiet, verbose;
	enum { COLOR_AUTO, COLOR_ALWAYS, COLOR_NEVER } color;
	int status;
	const char **args;
	size_t n_args;
	int argc;
	char **argv;
};

/* Sets the fields above from main's arguments; also makes writing into a closed pipe an error instead of a signal, and has
 * files stand at numbers 0 to 2 where there is none. */
void cli_start(struct cli *c, int argc, char **argv);
/* The next option in the order given, with its argument in *value; CLI_END or CLI_EXIT at the end. Options may stand
 * anywhere, "--" ends them, long names are never abbreviated. */
int cli_next(struct cli *c, const char **value);
void cli_end(struct cli *c);                       /* frees args; done already after CLI_EXIT, harmless again */

/* "prog: what" / "  why: ..." / "  try: ..." on standard error, control characters escaped; each returns the exit code. */
int cli_error(const struct cli *c, const struct err *err);
int cli_usage(const struct cli *c, const char *try_this, const char *fmt, ...) PRINTF(3, 4); /* EXIT_USAGE; try_this may be NULL */
void cli_warn(const struct cli *c, const struct err *err);            /* "prog: warning: what"; not with -q */
void cli_note(const struct cli *c, const char *fmt, ...) PRINTF(2, 3);/* one line, only with -v */
void cli_note_err(const struct cli *c, const struct err *err);        /* the cause and the details of what is no error yet, only with -v */
void cli_say(const struct cli *c, const char *fmt, ...) PRINTF(2, 3); /* one line without a prefix, not with -q */
int cli_exit_code(const struct cli *c, int code);                     /* ERR_* -> exit code */
const char *cli_quoted(const char *value, size_t most);              /* so many bytes of it in quotes, those in it as \"; until the next call */
int cli_write_code(int e);                                            /* errno of a file that cannot be written -> ERR_PERM or ERR_IO */
char *cli_folder_of(const char *name);                               /* the folder of a file of that name; allocated */
char *cli_folder_missing(const char *name, int e);                   /* if it could not be made (errno e) because that is not there: it; allocated, or NULL */

/* A whole number in lo..hi as an option's value; false after a usage message was printed (return EXIT_USAGE). */
bool cli_number(const struct cli *c, const char *option, const char *value, uint64_t lo, uint64_t hi, uint64_t *ret);

/* Can it be meant as -o's file?  False as above: another option, before which the name was forgotten. */
bool cli_output(const struct cli *c, const char *value);

/* Seconds with up to three decimals ("10", "0.5") as milliseconds, at most UINT_MAX; false as above. */
bool cli_seconds(const struct cli *c, const char *option, const char *value, unsigned *ms);

/* --color=WHEN > NO_COLOR > CLICOLOR_FORCE, FORCE_COLOR > TERM=dumb > CLICOLOR=0 > is fd a terminal? */
bool cli_color(const struct cli *c, int fd);
unsigned cli_width(int fd);                        /* of the terminal, else COLUMNS, else 0 */

/* The name among n nearest to `name`, or NULL if none is near enough to be meant. */
const char *cli_nearest(const char *name, const char *const *names, size_t n);

#endif
