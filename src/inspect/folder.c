/*
 * The folders that relative names of sources may be beneath: where the process was in the end, which a snapshot notes, and where it was
 * started.  Those that imported a module, or started a script, since or before the last chdir() are not told apart.
 */
#include "inspect/parts.h"

/*
 * PWD of the environment that execve gave: its strings lie between argv's and AT_EXECFN's, the last of them nearest to that
 * (fs/exec.c copies the file name first, then envp, then argv, each downwards).
 */
static struct str started_in(struct target *t)
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

enum { IN_THE_END, AT_START };

static void folders_of(struct target *t, struct str ret[OPENER_FOLDERS])
{
	const struct str cwd = image_facts(t->img)->cwd, start = started_in(t);
	ret[IN_THE_END] = cwd;
	ret[AT_START] = str_eq(cwd, start) ? (struct str){ 0 } : start;
}

void folders_open(struct target *t)
{
	struct str folders[OPENER_FOLDERS];
	if (!opener_wants_folders(modules_opener(t->mods)))
		return;
	folders_of(t, folders);
	opener_folders(modules_opener(t->mods), folders);
}

void folders_doubt(struct target *t, struct report *r)
{
	const unsigned used = opener_folders_used(modules_opener(t->mods));
	struct str folders[OPENER_FOLDERS];
	if (!used)
		return;
	folders_of(t, folders);
	for (size_t i = 0; i < OPENER_FOLDERS; i++)
		folders[i] = str_from_bytes(r->arena, folders[i].s, folders[i].len);
	const struct str end = folders[IN_THE_END], start = folders[AT_START];
	if (!start.len)
		return;
	struct str what;
	if (!end.len)
		what = str_printf(r->arena, "beneath '" STR_FMT "', where the process was started by its environment (PWD)", STR_ARG(start));
	else if (used == 1u << IN_THE_END)
		what = str_printf(r->arena, "beneath '" STR_FMT "', where the process was in the end; by its environment (PWD) it was started in '" STR_FMT "'", STR_ARG(end), STR_ARG(start));
	else if (used == 1u << AT_START)
		what = str_printf(r->arena, "beneath '" STR_FMT "', where the process was started by its environment (PWD), as '" STR_FMT "', where it was in the end, has none",
				  STR_ARG(start), STR_ARG(end));
	else
		what = str_printf(r->arena, "beneath '" STR_FMT "', where the process was in the end, else '" STR_FMT "', where it was started by its environment (PWD)", STR_ARG(end), STR_ARG(start));
	report_problem(r, P_SOURCE_FOLDER, str_c(r->arena, what));
}
