/* A report replaces an earlier one, which can be made again, and no other file. */
#include "cmd/earlier.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "image/codec.h"

enum { HEAD = 1 << 16 }; /* so much is looked at; a verdict is some lines */

static struct str next_line(struct str *rest)
{
	const char *end = rest->len ? memchr(rest->s, '\n', rest->len) : NULL;
	struct str line = { rest->s, end ? (size_t)(end - rest->s) : rest->len };
	const size_t used = line.len + (end != NULL);
	*rest = (struct str){ rest->s + used, rest->len - used };
	return line;
}

static bool is_verdict(struct str line)
{
	static const char *const words[] = { "CRASH", "STOPPED", "SNAPSHOT", "UNKNOWN" };
	for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
		const size_t n = strlen(words[i]);
		if (str_starts(line, words[i]) && (line.len == n || str_starts((struct str){ line.s + n, line.len - n }, "  ")))
			return true;
	}
	return false;
}

/* The lines below one, which are indented. */
static struct str next_heading(struct str *rest)
{
	struct str line;
	do
		line = next_line(rest);
	while (str_starts(line, "  "));
	return line;
}

/* "core 254 MiB", "dumped 2026-11-30 ...", "snapshot consistent". */
static bool is_file(struct str line)
{
	static const struct { const char *word, *next; } begin[] = { { "core ", "0123456789" }, { "dumped ", "0123456789" }, { "snapshot ", "0123456789cN" } };
	for (size_t i = 0; i < sizeof begin / sizeof *begin; i++) {
		const size_t n = strlen(begin[i].word);
		if (line.len > n && str_starts(line, begin[i].word) && line.s[n] && strchr(begin[i].next, line.s[n]))
			return true;
	}
	return false;
}

/* render/text: the verdict, where it is shown; then lines of the command, of the file and of the threads. */
static bool is_text(struct str rest)
{
	struct str line = next_line(&rest);
	if (is_verdict(line)) {
		if (next_heading(&rest).len)
			return false;
		line = next_line(&rest);
	}
	if (!line.len)
		return false;
	if (!is_file(next_heading(&rest)))
		return false;
	line = next_heading(&rest);
	size_t digits = 0;
	while (digits < line.len && line.s[digits] && strchr("0123456789,", line.s[digits]))
		digits++;
	const struct str what = { line.s + digits, line.len - digits };
	return digits && (str_starts(what, " thread") || str_starts(what, " of "));
}

static bool is_json(struct str rest)
{
	static const char *const begin[] = { "{", "\"schema\"", ":", "\"pysnap.report/" };
	for (size_t i = 0; i < sizeof begin / sizeof *begin; i++) {
		while (rest.len && *rest.s && strchr(" \t\r\n", *rest.s))
			rest = (struct str){ rest.s + 1, rest.len - 1 };
		if (!str_starts(rest, begin[i]))
			return false;
		rest = (struct str){ rest.s + strlen(begin[i]), rest.len - strlen(begin[i]) };
	}
	return true;
}

static bool is_svg(struct str rest)
{
	static const char *const lines[] = { "<?xml version=\"1.0\" encoding=\"UTF-8\"?>", "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"1200\" height=\"", "<title>",
		"<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>", "<g font-family=\"'DejaVu Sans Mono', Menlo, Consolas, monospace\" font-size=\"12\"" };
	for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
		if (!str_starts(next_line(&rest), lines[i]))
			return false;
	return true;
}

bool earlier_is_report(struct str head)
{
	return is_json(head) || is_svg(head) || is_text(head);
}

int earlier_check(const char *path, struct err *err)
{
	struct stat st;
	if (stat(path, &st) < 0 || !S_ISREG(st.st_mode) || !st.st_size)
		return 0; /* what keeps it from being written is said then */
	CLEANUP(cleanup_fd) int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
	CLEANUP(cleanup_free) char *head = xcalloc(1, HEAD);
	const ssize_t n = fd < 0 ? -1 : read(fd, head, HEAD);
	if (n < 0)
		err_set(err, ERR_EXISTS, "'%s' exists, and whether it is a report cannot be told: %s", path, strerror(errno));
	else if (n >= 4 && (memcmp(head, "\177ELF", 4) == 0 || codec_find(head, (size_t)n)))
		err_set(err, ERR_EXISTS, "'%s' is a core, a snapshot or compressed, which no report replaces", path);
	else if (n && !earlier_is_report((struct str){ head, (size_t)n }))
		err_set(err, ERR_EXISTS, "'%s' exists and is no report, and only reports are replaced", path);
	else
		return 0;
	return err_hint(err, "another -o"), ERR_EXISTS;
}
