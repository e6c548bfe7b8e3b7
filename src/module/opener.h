/*
 * The only place that opens files which the input names.  Rules: a regular file of a real file system, O_NONBLOCK |
 * O_CLOEXEC | O_NOCTTY and never opened before it is known to be one (opening a device can act), capped in size,
 * sources only with a Python or Cython suffix, in the path and in the name of the file that links lead to (l.py may point to
 * any file of the reader's).  Nothing is executed but debuginfod-find, where that is allowed.  Nothing of the image is
 * taken apart here: build-ids become paths as hexadecimal digits only, and who may use a file is the caller's to decide.
 */
#ifndef MODULE_OPENER_H
#define MODULE_OPENER_H

#include "image/image.h"

struct search {
	const char *exe;                 /* -e */
	const char *sysroot;             /* --sysroot; when set, paths are tried beneath it first */
	const char *const *lib_path;     /* --lib-path: folders, NULL-terminated; may be NULL */
	const char *const *debug_path;   /* --debug-path: folders, NULL-terminated, a relative one is beside the file; NULL: .debug, /usr/lib/debug */
	const char *const *source_map;   /* OLD, NEW, OLD, NEW, ..., NULL; may be NULL */
	unsigned fetch_ms;               /* debuginfod-find may be run, so long for a file; 0: it may not */
	bool no_files;                   /* open nothing: for tests and for images from elsewhere */
};
struct opener;
struct opener *opener_new(const struct search *where);   /* borrows what where points to; NULL: no_files */
void opener_free(struct opener *o);                      /* takes NULL */

enum { OPENER_ELF_MAX = 1 << 30, OPENER_SOURCE_MAX = 16 << 20, OPENER_SOURCES_MAX = 256 << 20 };

/* A candidate for an ELF file of the target. */
struct candidate {
	const char *path;                /* as opened; these texts live as long as the opener */
	const char *root, *at;           /* the opener's own: at, beneath root if that is not NULL */
	bool asked;                      /* the user named it (-e, --lib-path), not the input */
	bool by_id;                      /* it lies where a build-id leads, whatever else its name may be */
};
struct wanted {
	struct blob path;                /* of the target; " (deleted)" at its end does not count */
	struct blob build_id;            /* len 0: not known */
	bool exe;                        /* the program itself, for which -e is meant */
};
/*
 * The nth candidate (0, 1, ...) for a file of the target.  A fd, or ERR_ABSENT: there is no nth candidate, or what an open
 * gave (ERR_GONE no such file, ERR_PERM, ERR_UNSUPPORTED not a regular file, ERR_LIMIT too big, ERR_IO): try the next one.
 * The caller checks the build-id.
 */
int opener_elf(struct opener *o, const struct wanted *want, unsigned nth, struct candidate *ret) MUST_CHECK;
/*
 * The same for the separate debug file of one: DIR/.build-id/ab/cdef.debug for each folder of the debug path, then, if link
 * (.gnu_debuglink) is not NULL, that name beside the file, in the relative folders there, and in the debug path.  file: what is used
 * for the file itself, NULL if nothing is.
 */
int opener_debug(struct opener *o, const struct wanted *want, const struct candidate *file, const char *link, unsigned nth, struct candidate *ret) MUST_CHECK;
/* And for what several debug files share (dwz; .gnu_debugaltlink): its build-id, and its name as it stands in `debug`. */
int opener_alt(struct opener *o, struct blob build_id, const char *name, const struct candidate *debug, unsigned nth, struct candidate *ret) MUST_CHECK;
enum fetch { FETCH_EXECUTABLE, FETCH_DEBUGINFO };
/* What debuginfod-find has under that build-id.  A fd; ERR_ABSENT: not allowed or no build-id, ERR_GONE: no server has it, ERR_LIMIT: too slow,
 * ERR_UNSUPPORTED: the program is not here; or what the open gave. */
int opener_fetch(struct opener *o, enum fetch what, struct blob build_id, struct candidate *ret) MUST_CHECK;
/* 0, or what it will say of any build-id. */
int opener_fetch_state(const struct opener *o);
/* How often it was asked, and how often it gave a file. */
void opener_fetched(const struct opener *o, size_t *asked, size_t *given);
/* A candidate once more; the caller checks that it is the same file. */
int opener_again(struct opener *o, const struct candidate *c) MUST_CHECK;
/* The process's folders, which sources with a relative name are beneath where no source map says otherwise: the first that has it; one that is
 * not absolute is none. */
enum { OPENER_FOLDERS = 2 };
bool opener_wants_folders(const struct opener *o);       /* no: no files are looked for */
void opener_folders(struct opener *o, const struct str folders[OPENER_FOLDERS]);
unsigned opener_folders_used(const struct opener *o);    /* 1 << i: a source has been found beneath folders[i] */
bool opener_is_source(struct str path);                  /* has it a suffix that sources must have? */
/* A source file's whole text, kept until opener_free.  A relative path is one of the source map or beneath opener_folders; a relative
 * place that a source map gives is beneath the program's own folder.  ERR_ABSENT, ERR_UNSUPPORTED (suffix, kind), ERR_LIMIT, ERR_PERM, ERR_IO. */
int opener_source(struct opener *o, struct str path, struct blob *ret) MUST_CHECK;
/* Line `line` (from 1) of a source without its end, as UTF-8 by its coding cookie (utf-8, latin-1, ascii; others:
 * ERR_UNSUPPORTED); lines end where Python's do (\n, \r\n, \r).  ERR_ABSENT: no such line. */
int opener_line(struct opener *o, struct arena *a, struct str path, unsigned line, struct str *ret) MUST_CHECK;
/* When the source was last changed, ns since 1970: a file newer than the process may not be what it ran. */
int opener_source_time(struct opener *o, struct str path, int64_t *ret) MUST_CHECK;

#endif
