/* src/cmd/cli: the option table is what is parsed and what --help shows; messages, colour, exit codes. */
#include "cmd/cli.h"
#include "suite.h"

#include <check.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static struct cli cli_for(enum cli_program program)
{
	return (struct cli){ .name = program == CLI_PYSNAP ? "pysnap" : "pyanalyze", .program = program, .usage = "[OPTIONS] WHAT",
			     .about = "About.", .version = "1.2.3" };
}

/* Parses a line of words ('|' between) in a child; gives what it printed and its exit code. */
static int parse_line(enum cli_program program, const char *line, char *out, size_t room)
{
	int p[2];
	ck_assert_int_eq(pipe(p), 0);
	fflush(NULL);
	pid_t pid = fork();
	if (pid == 0) {
		dup2(p[1], STDOUT_FILENO);
		dup2(p[1], STDERR_FILENO);
		close(p[0]);
		char *words = strdup(line), *argv[32] = { (char *)"prog" };
		int argc = 1;
		for (char *w = *words ? words : NULL, *bar; w; w = bar) {
			bar = strchr(w, '|');
			if (bar)
				*bar++ = '\0';
			argv[argc++] = w;
		}
		struct cli c = cli_for(program);
		cli_start(&c, argc, argv);
		const char *value;
		for (int id; (id = cli_next(&c, &value)) != CLI_END;) {
			if (id == CLI_EXIT) {
				fflush(NULL);
				_exit(c.status);
			}
			const char *name = id == PYSNAP_output || id == PYANALYZE_output ? "output" : id == PYANALYZE_exe ? "exe" :
					   id == PYSNAP_force ? "force" : id == PYANALYZE_thread ? "thread" : id == PYANALYZE_json ? "json" :
					   id == PYSNAP_compress ? "compress" : id == PYANALYZE_frames ? "frames" : "?";
			printf("%s=%s;", name, value ? value : "");
		}
		for (size_t i = 0; i < c.n_args; i++)
			printf("[%s]", c.args[i]);
		printf("%s%s", c.quiet ? " q" : "", c.verbose ? " v" : "");
		cli_end(&c);
		fflush(NULL);
		_exit(0);
	}
	close(p[1]);
	size_t n = 0;
	for (ssize_t got; n < room - 1 && (got = read(p[0], out + n, room - 1 - n)) > 0;)
		n += (size_t)got;
	out[n] = '\0';
	close(p[0]);
	int status;
	waitpid(pid, &status, 0);
	ck_assert(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static const struct {
	enum cli_program program;
	const char *line;
	int status;
	const char *out;
} lines[] = {
	{ CLI_PYSNAP, "", 0, "" },
	{ CLI_PYSNAP, "42|-o|x.pz|-f", 0, "output=x.pz;force=;[42]" },
	{ CLI_PYSNAP, "-fox.pz|42", 0, "force=;output=x.pz;[42]" },
	{ CLI_PYSNAP, "--output=x=y.pz|42", 0, "output=x=y.pz;[42]" },
	{ CLI_PYSNAP, "--output|-|42", 0, "output=-;[42]" },
	{ CLI_PYSNAP, "-o-|42", 0, "output=-;[42]" },
	{ CLI_PYSNAP, "-qvZ9|42", 0, "compress=9;[42] v" },
	{ CLI_PYSNAP, "-vqZ9|42", 0, "compress=9;[42] q" },
	{ CLI_PYSNAP, "--|-f|--output", 0, "[-f][--output]" },
	{ CLI_PYSNAP, "-", 0, "[-]" },
	{ CLI_PYANALYZE, "a|-e|py|b|--json|-t1|--thread=2|c", 0, "exe=py;json=;thread=1;thread=2;[a][b][c]" },
	{ CLI_PYANALYZE, "--frames=0|core", 0, "frames=0;[core]" },
	{ CLI_PYANALYZE, "--color=never|core", 0, "[core]" },
	/* Names are whole, and each program has its own. */
	{ CLI_PYSNAP, "--outp=x", 2, "pysnap: unknown option \"--outp\"\n  try: --output, or pysnap --help\n" },
	{ CLI_PYSNAP, "--forc", 2, "pysnap: unknown option \"--forc\"\n  try: --force, or pysnap --help\n" },
	{ CLI_PYSNAP, "--json", 2, "pysnap: unknown option \"--json\"\n  try: pysnap --help\n" },
	{ CLI_PYANALYZE, "--jsno", 2, "pyanalyze: unknown option \"--jsno\"\n  try: --json, or pyanalyze --help\n" },
	{ CLI_PYANALYZE, "--l", 2, "pyanalyze: unknown option \"--l\"\n  try: pyanalyze --help\n" },
	{ CLI_PYANALYZE, "--native-all", 2, "pyanalyze: unknown option \"--native-all\"\n  try: --native, or pyanalyze --help\n" },
	{ CLI_PYANALYZE, "-x", 2, "pyanalyze: unknown option \"-x\"\n  try: pyanalyze --help\n" },
	{ CLI_PYANALYZE, "-qx", 2, "pyanalyze: unknown option \"-x\"\n  try: pyanalyze --help\n" },
	{ CLI_PYANALYZE, "--\033[31m=1", 2, "pyanalyze: unknown option \"--\\x1b[31m\"\n  try: pyanalyze --help\n" },
	{ CLI_PYANALYZE, "-e", 2, "pyanalyze: -e needs a value\n  try: -e PATH\n" },
	{ CLI_PYANALYZE, "--exe", 2, "pyanalyze: --exe needs a value\n  try: --exe=PATH\n" },
	{ CLI_PYANALYZE, "--json=yes", 2, "pyanalyze: --json takes no value\n  try: pyanalyze --help\n" },
	{ CLI_PYANALYZE, "--color=blue", 2,
	  "pyanalyze: --color=blue is not known\n  try: --color=always, --color=never or --color=auto\n" },
	{ CLI_PYANALYZE, "-V", 0, "pyanalyze 1.2.3\n" },
	{ CLI_PYSNAP, "--version|--nonsense", 0, "pysnap 1.2.3\n" },
};

START_TEST(lines_of_options)
{
	char out[4096];
	int status = parse_line(lines[_i].program, lines[_i].line, out, sizeof out);
	ck_assert_str_eq(out, lines[_i].out);
	ck_assert_int_eq(status, lines[_i].status);
}
END_TEST

START_TEST(options_anywhere_whatever_posix_says)
{
	char out[4096];
	setenv("POSIXLY_CORRECT", "1", 1);
	ck_assert_int_eq(parse_line(CLI_PYSNAP, "42|-f", out, sizeof out), 0);
	ck_assert_str_eq(out, "force=;[42]");
}
END_TEST

/* Each option that help shows is taken, and no line is wider than 100. */
START_TEST(help_and_parser_agree)
{
	enum cli_program program = _i ? CLI_PYANALYZE : CLI_PYSNAP;
	char help[8192], out[4096], line[128];
	ck_assert_int_eq(parse_line(program, "--help", help, sizeof help), 0);
	unsigned seen = 0;
	for (char *s = help, *end; *s; s = end + 1) {
		end = strchr(s, '\n');
		ck_assert_ptr_nonnull(end);
		*end = '\0';
		ck_assert_msg(strlen(s) <= 100, "%s", s);
		char *name = strstr(s, "--");
		if (!name || name - s > 8 || strncmp(s, "  ", 2) != 0)
			continue;
		size_t len = strcspn(name, " =");
		bool arg = name[len] == '=' || (name[len] == ' ' && name[len + 1] != ' ' && name[len + 1]);
		if (!strncmp(name, "--help", len) || !strncmp(name, "--version", len))
			continue;
		snprintf(line, sizeof line, "%.*s%s", (int)len, name, !arg ? "" : !strncmp(name, "--color", len) ? "=always" : "=1");
		ck_assert_msg(parse_line(program, line, out, sizeof out) == 0, "%s: %s", line, out);
		seen++;
	}
	ck_assert_uint_ge(seen, 8);
}
END_TEST

START_TEST(near_names)
{
	static const char *const names[] = { "output", "force", "frames", "json", "color" };
	static const struct { const char *given, *near; } t[] = {
		{ "outptu", "output" }, { "out", "output" }, { "frame", "frames" }, { "fr", "frames" }, { "jsn", "json" }, { "colour", "color" },
		{ "native", NULL }, { "x", NULL }, { "", NULL }, { "zzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz", NULL },
	};
	for (size_t i = 0; i < COUNT(t); i++) {
		const char *near = cli_nearest(t[i].given, names, COUNT(names));
		ck_assert_msg(near == t[i].near || (near && t[i].near && !strcmp(near, t[i].near)), "%s: %s", t[i].given, near ? near : "-");
	}
}
END_TEST

/* --- colour --- */

static const struct {
	int when;
	const char *env[4]; /* NAME=VALUE */
	bool color;         /* on what is not a terminal */
} colors[] = {
	{ COLOR_AUTO, { NULL }, false },
	{ COLOR_ALWAYS, { "NO_COLOR=1" }, true },
	{ COLOR_NEVER, { "CLICOLOR_FORCE=1" }, false },
	{ COLOR_AUTO, { "CLICOLOR_FORCE=1" }, true },
	{ COLOR_AUTO, { "FORCE_COLOR=1", "TERM=dumb" }, true },
	{ COLOR_AUTO, { "FORCE_COLOR=1", "CLICOLOR=0" }, true },
	{ COLOR_AUTO, { "FORCE_COLOR=0" }, false },
	{ COLOR_AUTO, { "CLICOLOR_FORCE=1", "NO_COLOR=1" }, false },
	{ COLOR_AUTO, { "CLICOLOR_FORCE=1", "NO_COLOR=" }, true }, /* empty counts as not set */
};

START_TEST(when_to_colour)
{
	static const char *const all[] = { "NO_COLOR", "CLICOLOR_FORCE", "FORCE_COLOR", "CLICOLOR", "TERM" };
	for (size_t i = 0; i < COUNT(all); i++)
		unsetenv(all[i]);
	for (size_t i = 0; colors[_i].env[i]; i++)
		putenv((char *)(uintptr_t)colors[_i].env[i]);
	struct cli c = cli_for(CLI_PYSNAP);
	memcpy(&c.color, &colors[_i].when, sizeof colors[_i].when);
	int null = open("/dev/null", O_WRONLY);
	ck_assert_int_eq(cli_color(&c, null), colors[_i].color);
	close(null);
}
END_TEST

START_TEST(width_of_what_is_no_terminal)
{
	int null = open("/dev/null", O_WRONLY);
	unsetenv("COLUMNS");
	ck_assert_uint_eq(cli_width(null), 0);
	setenv("COLUMNS", "132", 1);
	ck_assert_uint_eq(cli_width(null), 132);
	setenv("COLUMNS", "3", 1);
	ck_assert_uint_eq(cli_width(null), 0);
	setenv("COLUMNS", "wide", 1);
	ck_assert_uint_eq(cli_width(null), 0);
	close(null);
}
END_TEST

/* --- numbers, sizes, codes --- */

static const struct { const char *text; bool good; uint64_t value; } numbers[] = {
	{ "0", true, 0 }, { "9", true, 9 }, { "10", false, 0 }, { "-1", false, 0 }, { "", false, 0 }, { " 1", false, 0 }, { "1x", false, 0 },
	{ "99999999999999999999999", false, 0 }, { "+1", false, 0 }, { "0x1", false, 0 },
};

START_TEST(numbers_of_options)
{
	struct cli c = cli_for(CLI_PYSNAP);
	uint64_t v = 77;
	int saved = dup(STDERR_FILENO);
	ck_assert_ptr_nonnull(freopen("/dev/null", "w", stderr));
	ck_assert_int_eq(cli_number(&c, "--compress", numbers[_i].text, 0, 9, &v), numbers[_i].good);
	dup2(saved, STDERR_FILENO);
	ck_assert_uint_eq(v, numbers[_i].good ? numbers[_i].value : 77);
}
END_TEST

START_TEST(exit_codes)
{
	static const struct { int code, snap, analyze; } t[] = {
		{ 0, 0, 0 }, { 3, 0, 0 }, { ERR_IO, 1, 1 }, { ERR_GONE, 3, 1 }, { ERR_PERM, 4, 4 }, { ERR_NOPYTHON, 5, 5 }, { ERR_CORRUPT, 1, 6 },
		{ ERR_EXISTS, 1, 1 }, { ERR_MEMORY, 1, 1 }, { ERR_TRACED, 1, 1 }, { ERR_LIMIT, 1, 1 }, { ERR_UNSUPPORTED, 1, 1 },
	};
	struct cli snap = cli_for(CLI_PYSNAP), analyze = cli_for(CLI_PYANALYZE);
	for (size_t i = 0; i < COUNT(t); i++) {
		ck_assert_int_eq(cli_exit_code(&snap, t[i].code), t[i].snap);
		ck_assert_int_eq(cli_exit_code(&analyze, t[i].code), t[i].analyze);
	}
}
END_TEST

START_TEST(messages_cannot_reach_into_the_terminal)
{
	struct err err = { 0 };
	err_set(&err, ERR_PERM, "cannot open \033]0;title\007\nx\xff");
	err_why(&err, "because \xe2\x80\xae of bidi");
	err_hint(&err, "tab\tand \xc2\x9b CSI");
	int p[2], saved = dup(STDERR_FILENO);
	ck_assert_int_eq(pipe(p), 0);
	dup2(p[1], STDERR_FILENO);
	struct cli c = cli_for(CLI_PYANALYZE);
	c.color = COLOR_NEVER;
	int status = cli_error(&c, &err);
	dup2(saved, STDERR_FILENO);
	close(p[1]);
	char out[1024];
	ssize_t n = read(p[0], out, sizeof out - 1);
	ck_assert_int_gt(n, 0);
	out[n] = '\0';
	ck_assert_int_eq(status, EXIT_PERM);
	ck_assert_str_eq(out, "pyanalyze: cannot open \\x1b]0;title\\x07\\nx\\xff\n  why: because \\u202e of bidi\n  try: tab\\tand \\x9b CSI\n");
}
END_TEST

int main(void)
{
	Suite *s = suite_create("cli");
	TCase *t = tcase_create("cli");
	tcase_add_loop_test(t, lines_of_options, 0, COUNT(lines));
	tcase_add_test(t, options_anywhere_whatever_posix_says);
	tcase_add_loop_test(t, help_and_parser_agree, 0, 2);
	tcase_add_test(t, near_names);
	tcase_add_loop_test(t, when_to_colour, 0, COUNT(colors));
	tcase_add_test(t, width_of_what_is_no_terminal);
	tcase_add_loop_test(t, numbers_of_options, 0, COUNT(numbers));
	tcase_add_test(t, exit_codes);
	tcase_add_test(t, messages_cannot_reach_into_the_terminal);
	suite_add_tcase(s, t);
	return suite_run(s);
}
