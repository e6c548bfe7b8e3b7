/* The folder that a process was started in, of a core: the kernel notes none. */
#include "inspect/parts.h"

/*
 * PWD of the environment that execve gave: its strings lie between argv's and AT_EXECFN's, the last of them nearest to that
 * (fs/exec.c copies the file name first, then envp, then argv, each downwards).
 */
struct str started_in(struct target *t)
{
	enum { AT_EXECFN = 31, PIECE = 4096, ENVIRONMENT = 64 * PIECE };
	static const char pwd[] = "PWD=/";
	uint64_t end;
	size_t have = 0;
	if (image_auxv(t->img, AT_EXECFN, &end) < 0 || end < ENVIRONMENT)
		return (struct str){ 0 };
	char *text = arena_alloc(t->arena, ENVIRONMENT), *stop = text + ENVIRONMENT;
	while (have < ENVIRONMENT && image_read(t->img, end - have - PIECE, stop - have - PIECE, PIECE) == 0)
		have += PIECE;
	for (const char *p = stop - sizeof pwd; p > stop - have; p--) {
		if (p[-1] || memcmp(p, pwd, sizeof pwd - 1) != 0)
			continue;
		p += sizeof pwd - 2; /* at the slash */
		return str_from_bytes(t->arena, p, strnlen(p, (size_t)(stop - p)));
	}
	return (struct str){ 0 };
}
