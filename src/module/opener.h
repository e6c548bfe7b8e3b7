/*
 * The only place that opens files which the input names.  Rules: a regular file, O_NONBLOCK | O_CLOEXEC, capped in
 * size, sources only with a Python or Cython suffix; nothing is executed.  One process today; callers see only this.
 */
#ifndef MODULE_OPENER_H
#define MODULE_OPENER_H

#include "image/image.h"

struct search {
	const char *exe;                 /* -e */
	const char *sysroot;             /* --sysroot; when set, paths are tried beneath it first */
	const char *const *lib_path;     /* --lib-path, NULL-terminated; may be NULL */
	const char *const *source_map;   /* OLD, NEW, OLD, NEW, ..., NULL; may be NULL */
	bool no_files;                   /* open nothing: for tests and for images from elsewhere */
};
struct opener;
struct opener *opener_new(const struct search *where);   /* borrows where */
void opener_free(struct opener *o);                      /* takes NULL */
/* An ELF file by the path of the target's mapping; *ret_path (arena of the opener) says which was opened. Returns a fd, ERR_ABSENT, ERR_IO. The caller checks the build-id. */
int opener_elf(struct opener *o, struct blob path, unsigned nth, const char **ret_path) MUST_CHECK; /* nth candidate: 0, 1, ... until ERR_ABSENT */
/* A source file's whole text (at most 16 MiB), kept until opener_free; ERR_ABSENT, ERR_UNSUPPORTED (suffix), ERR_IO. */
int opener_source(struct opener *o, struct str path, struct blob *ret) MUST_CHECK;
/* Line `line` (from 1) of a source, as UTF-8 by its coding cookie (utf-8, latin-1; others: ERR_UNSUPPORTED). */
int opener_line(struct opener *o, struct arena *a, struct str path, unsigned line, struct str *ret) MUST_CHECK;

#endif
