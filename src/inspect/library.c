/* Which Python frames are Python's own library: who is in trouble looks for a line of his program. */
#include "inspect/parts.h"

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/*
 * The library stands in PREFIX/lib/pythonX.Y/ (lib64 on some; "t" after it on free-threaded ones), packages that were installed in
 * site-packages or, on Debian, dist-packages inside of it (Lib/sysconfig.py, _INSTALL_SCHEMES); modules frozen into the
 * interpreter are "<frozen NAME>" (Python/frozen.c).
 */
bool python_library(struct str file)
{
	static const char name[] = "/python", site[] = "site-packages/", dist[] = "dist-packages/";

	if (str_starts(file, "<frozen "))
		return true;
	for (size_t i = 0; file.len > sizeof name && i < file.len - sizeof name; i++) {
		const char *s = file.s + i, *end = file.s + file.len;
		if (memcmp(s, name, sizeof name - 1) != 0)
			continue;
		const char *at = s + sizeof name - 1, *major = at;
		while (at < end && is_digit(*at))
			at++;
		if (at == major || at == end || *at++ != '.')
			continue;
		const char *minor = at;
		while (at < end && is_digit(*at))
			at++;
		if (at == minor)
			continue;
		while (at < end && (*at == 't' || *at == 'd' || *at == 'm' || *at == 'u'))
			at++;
		if (at == end || *at++ != '/')
			continue;
		const struct str rest = { at, (size_t)(end - at) };
		const struct str before = str_base((struct str){ file.s, i });
		if (str_starts(before, "lib"))
			return !str_starts(rest, site) && !str_starts(rest, dist);
	}
	return false;
}

const struct report_frame *outside_library(const struct report_thread *th, addr_t pc)
{
	struct inward w = inward_python_from(th, pc);
	const struct report_frame *f;

	while ((f = inward_next(&w)))
		if (f->python && f->file.len && !python_library(f->file))
			return f;
	return NULL;
}
