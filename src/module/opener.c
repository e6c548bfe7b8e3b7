/* Opening what the input names, safely; the texts of sources, their lines and encodings.  Who may use a file (build-id)
 * is the caller's to decide. */
#include "module/opener.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <uthash.h>

#include "module/fetch.h"

enum { MAX_LINKS = 40, DEBUG_FOLDERS = 16, FETCH_ALL = 3 /* times what one file may take */ };

enum encoding { ENC_UTF8, ENC_LATIN1, ENC_OTHER };

struct source {
	struct str path;
	int rc;                  /* 0, or why there is no text */
	struct blob text;
	int64_t time_ns;
	enum encoding encoding;
	bool indexed;
	struct VEC(uint32_t) line;      /* where each line starts */
	UT_hash_handle hh;
};

struct opener {
	struct search where;
	struct arena *arena;
	struct str folders[OPENER_FOLDERS]; /* what relative names of sources are under; len 0: not known */
	unsigned folders_used;
	uint64_t total;          /* bytes of sources kept */
	struct source *sources;  /* by path */
	bool ids_known, ids[DEBUG_FOLDERS][2]; /* is there a .build-id in it: here, in the sysroot? */
	unsigned fetch_ms;       /* spent with debuginfod-find */
	int fetch_rc;            /* < 0: it cannot be run */
	size_t fetch_asked, fetch_given;
};

struct opener *opener_new(const struct search *where)
{
	struct opener *o = xcalloc(1, sizeof *o);
	o->where = where ? *where : (struct search){ .no_files = true };
	o->arena = arena_new();
	return o;
}

void opener_free(struct opener *o)
{
	if (!o)
		return;
	struct source *s, *next;
	HASH_ITER(hh, o->sources, s, next) {
		free((void *)(uintptr_t)s->text.p);
		vec_free(&s->line);
	}
	HASH_CLEAR(hh, o->sources);
	arena_free(o->arena);
	free(o);
}

static int from_errno(void)
{
	switch (errno) {
	case ENOENT:
	case ENOTDIR:
		return ERR_GONE;
	case EACCES:
	case EPERM:
		return ERR_PERM;
	case ELOOP:
	case ENXIO:
	case EXDEV:
	case ENODEV:
	case ENAMETOOLONG:
		return ERR_UNSUPPORTED;
	default:
		return ERR_IO;
	}
}

/* Is this a file system whose files are made up as they are read?  Some of those block, and some act. */
static bool made_up(int fd)
{
	struct statfs fs;
	if (fstatfs(fd, &fs) < 0)
		return true;
	switch ((unsigned long)fs.f_type) {
	case PROC_SUPER_MAGIC:
	case SYSFS_MAGIC:
	case DEBUGFS_MAGIC:
	case TRACEFS_MAGIC:
	case CGROUP_SUPER_MAGIC:
	case CGROUP2_SUPER_MAGIC:
	case SECURITYFS_MAGIC:
	case PSTOREFS_MAGIC:
	case EFIVARFS_MAGIC:
	case BPF_FS_MAGIC:
	case BINDERFS_SUPER_MAGIC:
	case DEVPTS_SUPER_MAGIC:
	case AUTOFS_SUPER_MAGIC:
		return true;
	default:
		return false;
	}
}

/*
 * root/path with every symbolic link taken as in a chroot to root: what openat2's RESOLVE_IN_ROOT does, for kernels
 * and sandboxes without it (before 5.6, or ENOSYS from a filter).  The result names no link, and nothing above root.
 */
static int resolve_in_root(const char *root, const char *path, char *ret, size_t room)
{
	struct room { char rest[PATH_MAX], next[2 * PATH_MAX], link[PATH_MAX]; };
	CLEANUP(cleanup_free) struct room *in = xmalloc(sizeof *in);
	char *rest = in->rest;
	size_t root_len = strlen(root);
	if (root_len >= room || strlen(path) >= sizeof in->rest)
		return ERR_UNSUPPORTED;
	memcpy(ret, root, root_len + 1);
	strcpy(rest, path);
	size_t len = root_len;
	for (unsigned links = 0;;) {
		char *p = rest + strspn(rest, "/");
		size_t n = strcspn(p, "/");
		if (!n)
			return 0;
		if (n == 1 && p[0] == '.') {
			memmove(rest, p + n, strlen(p + n) + 1);
			continue;
		}
		if (n == 2 && p[0] == '.' && p[1] == '.') {
			while (len > root_len && ret[--len] != '/')
				;
			ret[len] = 0;
			memmove(rest, p + n, strlen(p + n) + 1);
			continue;
		}
		if (len + 1 + n >= room)
			return ERR_UNSUPPORTED;
		size_t before = len;
		ret[len++] = '/';
		memcpy(ret + len, p, n);
		len += n;
		ret[len] = 0;
		memmove(rest, p + n, strlen(p + n) + 1);
		ssize_t got = readlink(ret, in->link, sizeof in->link - 1);
		if (got < 0) {
			if (errno == EINVAL)
				continue;
			return from_errno();
		}
		in->link[got] = 0;
		if (++links > MAX_LINKS)
			return ERR_UNSUPPORTED;
		len = in->link[0] == '/' ? root_len : before;
		ret[len] = 0;
		int wrote = snprintf(in->next, sizeof in->next, "%s/%s", in->link, rest);
		if (wrote < 0 || (size_t)wrote >= sizeof in->rest)
			return ERR_UNSUPPORTED;
		memcpy(rest, in->next, (size_t)wrote + 1);
	}
}

static int open_at(int dir, const char *path, uint64_t flags, uint64_t resolve)
{
	struct open_how how = { .flags = flags | O_CLOEXEC, .resolve = resolve };
	return (int)syscall(SYS_openat2, dir, path, &how, sizeof how);
}

/* An O_PATH descriptor: finds the file and opens nothing.  root may be NULL. */
static int find(const char *root, const char *path)
{
	if (!root) {
		int fd = open(path, O_PATH | O_CLOEXEC);
		return fd < 0 ? from_errno() : fd;
	}
	CLEANUP(cleanup_fd) int dir = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0)
		return from_errno();
	int fd = open_at(dir, path, O_PATH, RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS);
	if (fd >= 0)
		return fd;
	if (errno != ENOSYS && errno != EPERM)
		return from_errno();
	char full[PATH_MAX];
	int rc = resolve_in_root(root, path, full, sizeof full);
	if (rc < 0)
		return rc;
	fd = open(full, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	return fd < 0 ? from_errno() : fd;
}

bool opener_is_source(struct str path)
{
	static const char *const suffix[] = { ".py", ".pyw", ".pyi", ".py2", ".py3", ".pyx", ".pxd", ".pxi" };
	for (size_t i = 0; i < sizeof suffix / sizeof *suffix; i++)
		if (path.len > strlen(suffix[i]) && str_ends(path, suffix[i]))
			return true;
	return false;
}

/*
 * Is the file itself called as a source, whatever the links to it are called?  Without /proc nobody can say what a link came to:
 * then the last part of path must not be one.
 */
static bool named_source(const char *self, const char *path, const struct stat *found)
{
	char name[PATH_MAX];
	ssize_t n = readlink(self, name, sizeof name);
	if (n >= 0)
		return opener_is_source((struct str){ name, (size_t)n });
	struct stat st;
	return errno == ENOENT && lstat(path, &st) == 0 && st.st_dev == found->st_dev && st.st_ino == found->st_ino && opener_is_source(str_of(path));
}

enum kind { KIND_ANY, KIND_SOURCE };

/* A regular file of at most max bytes for reading; st (may be NULL) is filled. */
static int open_regular(const char *root, const char *path, enum kind kind, uint64_t max, struct stat *st)
{
	struct stat found, opened;
	CLEANUP(cleanup_fd) int at = find(root, path);
	if (at < 0)
		return at;
	if (fstat(at, &found) < 0)
		return from_errno();
	if (!S_ISREG(found.st_mode) || made_up(at))
		return ERR_UNSUPPORTED;
	if ((uint64_t)found.st_size > max)
		return ERR_LIMIT;
	char self[64];
	snprintf(self, sizeof self, "/proc/self/fd/%d", at);
	if (kind == KIND_SOURCE && !named_source(self, path, &found))
		return ERR_UNSUPPORTED;
	int flags = O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY;
	int fd = open(self, flags);
	if (fd < 0 && errno == ENOENT && !root) /* no /proc here; the check below sees an exchange */
		fd = open(path, flags);
	if (fd < 0)
		return from_errno();
	if (fstat(fd, &opened) < 0 || opened.st_dev != found.st_dev || opened.st_ino != found.st_ino ||
	    !S_ISREG(opened.st_mode)) {
		close(fd);
		return ERR_UNSUPPORTED;
	}
	if (st)
		*st = opened;
	return fd;
}

static bool blob_ends(struct blob b, const char *end)
{
	size_t n = strlen(end);
	return b.len >= n && memcmp(b.p + b.len - n, end, n) == 0;
}

/* The path without " (deleted)", NUL-terminated; NULL if it is none that can be opened. */
static char *clean_path(struct arena *a, struct blob path)
{
	if (blob_ends(path, " (deleted)"))
		path.len -= strlen(" (deleted)");
	if (path.len < 2 || path.len >= PATH_MAX || path.p[0] != '/' || memchr(path.p, 0, path.len))
		return NULL;
	return str_c(a, (struct str){ (const char *)path.p, path.len });
}

/* ---- candidates: each function counts nth down over the places in their order, and opens the one that it is at */

static int give(struct opener *o, const char *root, const char *at, bool asked, struct candidate *ret)
{
	const char *shown = root ? str_c(o->arena, str_printf(o->arena, "%s%s", root, at)) : at;
	*ret = (struct candidate){ .path = shown, .root = root, .at = at, .asked = asked };
	return open_regular(root, at, KIND_ANY, OPENER_ELF_MAX, NULL);
}

static bool here(unsigned *nth)
{
	return (*nth)-- == 0;
}

static const char *join(struct opener *o, const char *folder, const char *sub, const char *name)
{
	return str_c(o->arena, str_printf(o->arena, "%s%s%s/%s", folder, *sub ? "/" : "", sub, name));
}

/* With its slash cut off; "" is the root. */
static const char *folder_of(struct opener *o, const char *path)
{
	const char *slash = strrchr(path, '/');
	return slash ? str_c(o->arena, (struct str){ path, (size_t)(slash - path) }) : ".";
}

/* "ab/cdef..." + end; NULL: no build-id that could name a file. */
static const char *id_name(struct opener *o, struct blob id, const char *end)
{
	if (id.len < 2 || id.len > 64)
		return NULL;
	struct str hex = str_hex(o->arena, id);
	return str_c(o->arena, str_printf(o->arena, "%.2s/%.*s%s", hex.s, (int)hex.len - 2, hex.s + 2, end));
}

static const char *const *debug_path(const struct opener *o)
{
	static const char *const usual[] = { ".debug", "/usr/lib/debug", NULL };
	return o->where.debug_path ? o->where.debug_path : usual;
}

/* Folders of build-ids are looked for once: most machines have none, and most processes a hundred files. */
static void find_id_folders(struct opener *o)
{
	const char *const *d = debug_path(o);
	o->ids_known = true;
	for (size_t i = 0; d[i] && i < DEBUG_FOLDERS; i++) {
		for (int in_root = 0; in_root < 2 && d[i][0] == '/'; in_root++) {
			const char *root = in_root ? o->where.sysroot : NULL;
			CLEANUP(cleanup_fd) int fd = in_root && !root ? -1 : find(root, join(o, d[i], "", ".build-id"));
			o->ids[i][in_root] = fd >= 0;
		}
	}
}

/* Under the sysroot first. */
static int by_id(struct opener *o, const char *name, unsigned *nth, struct candidate *ret)
{
	const char *const *d = debug_path(o);
	if (!o->ids_known)
		find_id_folders(o);
	for (int in_root = 1; name && in_root >= 0; in_root--)
		for (size_t i = 0; d[i] && i < DEBUG_FOLDERS; i++)
			if (o->ids[i][in_root] && here(nth)) {
				int fd = give(o, in_root ? o->where.sysroot : NULL, join(o, d[i], ".build-id", name), false, ret);
				ret->by_id = true;
				return fd;
			}
	return ERR_ABSENT;
}

int opener_elf(struct opener *o, const struct wanted *want, unsigned nth, struct candidate *ret)
{
	const struct search *w = &o->where;
	if (w->no_files)
		return ERR_ABSENT;
	const char *clean = clean_path(o->arena, want->path), *base = clean ? strrchr(clean, '/') + 1 : "";
	if (want->exe && w->exe && here(&nth))
		return give(o, NULL, w->exe, true, ret);
	if (clean && w->sysroot && here(&nth))
		return give(o, w->sysroot, clean, false, ret);
	for (size_t k = 0; *base && w->lib_path && w->lib_path[k]; k++)
		if (here(&nth))
			return give(o, NULL, join(o, w->lib_path[k], "", base), true, ret);
	if (clean && here(&nth))
		return give(o, NULL, clean, false, ret);
	return by_id(o, id_name(o, want->build_id, ""), &nth, ret);
}

/* link in folder and in the relative folders of the debug path there. */
static int beside(struct opener *o, const char *root, const char *folder, const char *link, const char *not, unsigned *nth, struct candidate *ret)
{
	const char *const *d = debug_path(o);
	const char *at = join(o, folder, "", link);
	if (!(not && strcmp(at, not) == 0) && here(nth))
		return give(o, root, at, false, ret);
	for (size_t i = 0; d[i] && i < DEBUG_FOLDERS; i++)
		if (d[i][0] != '/' && here(nth))
			return give(o, root, join(o, folder, d[i], link), false, ret);
	return ERR_ABSENT;
}

int opener_debug(struct opener *o, const struct wanted *want, const struct candidate *file, const char *link, unsigned nth, struct candidate *ret)
{
	const struct search *w = &o->where;
	const char *const *d = debug_path(o);
	if (w->no_files)
		return ERR_ABSENT;
	int rc = by_id(o, id_name(o, want->build_id, ".debug"), &nth, ret);
	if (rc != ERR_ABSENT || !link || !*link || strchr(link, '/') || !strcmp(link, ".") || !strcmp(link, ".."))
		return rc;
	const char *clean = clean_path(o->arena, want->path), *folder = clean ? folder_of(o, clean) : NULL;
	if (file)
		rc = beside(o, file->root, folder_of(o, file->at), link, file->at, &nth, ret);
	for (int in_root = 1; in_root >= 0 && folder && rc == ERR_ABSENT; in_root--) {
		const char *root = in_root ? w->sysroot : NULL;
		if (in_root && !root)
			continue;
		if (!file || file->asked)
			rc = beside(o, root, folder, link, NULL, &nth, ret);
		for (size_t i = 0; rc == ERR_ABSENT && d[i] && i < DEBUG_FOLDERS; i++)
			if (d[i][0] == '/' && here(&nth))
				return give(o, root, join(o, d[i], folder + (*folder == '/'), link), false, ret);
	}
	return rc;
}

int opener_alt(struct opener *o, struct blob build_id, const char *name, const struct candidate *debug, unsigned nth, struct candidate *ret)
{
	const char *const *d = debug_path(o);
	if (o->where.no_files)
		return ERR_ABSENT;
	int rc = by_id(o, id_name(o, build_id, ".debug"), &nth, ret);
	if (rc != ERR_ABSENT || !*name || strlen(name) >= PATH_MAX / 2)
		return rc;
	if (name[0] == '/') {
		for (int in_root = 1; in_root >= 0; in_root--)
			if ((!in_root || o->where.sysroot) && here(&nth))
				return give(o, in_root ? o->where.sysroot : NULL, name, false, ret);
	} else if (here(&nth)) {
		return give(o, debug->root, join(o, folder_of(o, debug->at), "", name), false, ret);
	}
	const char *base = strrchr(name, '/');
	for (size_t i = 0; d[i] && i < DEBUG_FOLDERS; i++)
		if (d[i][0] == '/' && here(&nth))
			return give(o, NULL, join(o, d[i], ".dwz", base ? base + 1 : name), false, ret);
	return ERR_ABSENT;
}

int opener_fetch_state(const struct opener *o)
{
	if (o->where.no_files || !o->where.fetch_ms)
		return ERR_ABSENT;
	return o->fetch_rc < 0 ? o->fetch_rc : o->fetch_ms / FETCH_ALL >= o->where.fetch_ms ? ERR_LIMIT : 0;
}

void opener_fetched(const struct opener *o, size_t *asked, size_t *given)
{
	*asked = o->fetch_asked;
	*given = o->fetch_given;
}

int opener_fetch(struct opener *o, enum fetch what, struct blob build_id, struct candidate *ret)
{
	char path[PATH_MAX];
	int state = opener_fetch_state(o);
	if (state < 0 || build_id.len < 2 || build_id.len > 64)
		return state < 0 ? state : ERR_ABSENT;
	struct str hex = str_hex(o->arena, build_id);
	unsigned took = 0;
	int rc = fetch_run(what == FETCH_EXECUTABLE ? "executable" : "debuginfo", str_c(o->arena, hex), o->where.fetch_ms, &took, path);
	o->fetch_ms += took;
	o->fetch_asked++;
	o->fetch_given += rc == 0;
	if (rc == ERR_UNSUPPORTED)
		o->fetch_rc = rc;
	if (rc < 0)
		return rc;
	return give(o, NULL, str_c(o->arena, str_dup(o->arena, str_of(path))), false, ret);
}

int opener_again(struct opener *o, const struct candidate *c)
{
	return o->where.no_files ? ERR_ABSENT : open_regular(c->root, c->at, KIND_ANY, OPENER_ELF_MAX, NULL);
}

/* Without the "./" that a relative name may begin with; "." itself is "". */
static struct str without_dot(struct str path)
{
	while (path.len && path.s[0] == '.' && (path.len == 1 || path.s[1] == '/')) {
		path = (struct str){ path.s + 1, path.len - 1 };
		while (path.len && path.s[0] == '/')
			path = (struct str){ path.s + 1, path.len - 1 };
	}
	return path;
}

/* OLD=NEW, where OLD is the whole path or a folder of it; "." and "" are the folder of relative names.  Is there one for it? */
static bool map_source(struct opener *o, struct str path, struct str *ret)
{
	const char *const *m = o->where.source_map;
	for (; m && m[0] && m[1]; m += 2) {
		struct str old = without_dot(str_of(m[0]));
		if (path.len < old.len || memcmp(path.s, old.s, old.len) != 0 || (!old.len && path.s[0] == '/'))
			continue;
		bool folder = old.len == 0 || old.s[old.len - 1] == '/';
		if (path.len > old.len && !folder && path.s[old.len] != '/')
			continue;
		struct str rest = { path.s + old.len, path.len - old.len };
		const char *slash = folder && *m[1] && m[1][strlen(m[1]) - 1] != '/' ? "/" : "";
		*ret = str_printf(o->arena, "%s%s" STR_FMT, m[1], slash, STR_ARG(rest));
		return true;
	}
	return false;
}

bool opener_wants_folders(const struct opener *o)
{
	return !o->where.no_files;
}

void opener_folders(struct opener *o, const struct str folders[OPENER_FOLDERS])
{
	for (size_t i = 0; i < OPENER_FOLDERS; i++)
		o->folders[i] = folders[i].len && folders[i].s[0] == '/' ? str_dup(o->arena, folders[i]) : (struct str){ 0 };
}

unsigned opener_folders_used(const struct opener *o)
{
	return o->folders_used;
}

static struct str beneath(struct opener *o, struct str folder, struct str name)
{
	return str_printf(o->arena, STR_FMT "%s" STR_FMT, STR_ARG(folder), str_ends(folder, "/") ? "" : "/", STR_ARG(name));
}

static int read_all(int fd, size_t size, struct blob *ret)
{
	uint8_t *p = xmalloc(size);
	size_t n = 0;
	while (n < size) {
		ssize_t got = pread(fd, p + n, size - n, (off_t)n);
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0) {
			free(p);
			return from_errno();
		}
		if (got == 0)
			break;
		n += (size_t)got;
	}
	*ret = (struct blob){ p, n };
	return 0;
}

static bool word_char(uint8_t c)
{
	return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' || c == '_' || c == '.';
}

static const uint8_t *line_end(const uint8_t *p, const uint8_t *end)
{
	while (p < end && *p != '\n' && *p != '\r')
		p++;
	return p;
}

static const uint8_t *line_next(const uint8_t *p, const uint8_t *end)
{
	p = line_end(p, end);
	if (p < end && *p == '\r' && p + 1 < end && p[1] == '\n')
		p++;
	return p < end ? p + 1 : end;
}

/* Python's names: tokenizer's get_normal_name takes utf-8*, latin-1*, iso-8859-1*, iso-latin-1* (3.12, Parser/tokenizer.c). */
static enum encoding encoding_of(const uint8_t *p, size_t len)
{
	char name[16] = "";
	for (size_t i = 0; i < len && i < sizeof name - 1; i++)
		name[i] = (char)(p[i] == '_' ? '-' : p[i] >= 'A' && p[i] <= 'Z' ? p[i] + 32 : p[i]);
	static const struct { const char *name; enum encoding is; } known[] = {
		{ "utf-8", ENC_UTF8 }, { "utf8", ENC_UTF8 }, { "ascii", ENC_UTF8 }, { "us-ascii", ENC_UTF8 },
		{ "latin-1", ENC_LATIN1 }, { "latin1", ENC_LATIN1 }, { "iso-8859-1", ENC_LATIN1 },
		{ "iso8859-1", ENC_LATIN1 }, { "iso-latin-1", ENC_LATIN1 }, { "l1", ENC_LATIN1 },
	};
	for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
		size_t n = strlen(known[i].name);
		if (len < sizeof name && strncmp(name, known[i].name, n) == 0 && (!name[n] || name[n] == '-'))
			return known[i].is;
	}
	return ENC_OTHER;
}

/* PEP 263: in the first line, or in the second if the first is empty or a comment: ^[ \t\f]*#.*?coding[:=][ \t]*([-\w.]+) */
static enum encoding find_encoding(struct blob text)
{
	const uint8_t *p = text.p, *end = text.p + text.len;
	if (text.len >= 3 && memcmp(p, "\xef\xbb\xbf", 3) == 0)
		return ENC_UTF8;
	for (int line = 0; line < 2 && p < end; line++, p = line_next(p, end)) {
		const uint8_t *stop = line_end(p, end), *c = p;
		while (c < stop && (*c == ' ' || *c == '\t' || *c == '\f'))
			c++;
		if (c < stop && *c != '#')
			break;
		for (; c + 7 <= stop; c++) {
			if (memcmp(c, "coding", 6) != 0 || (c[6] != ':' && c[6] != '='))
				continue;
			const uint8_t *name = c + 7;
			while (name < stop && (*name == ' ' || *name == '\t'))
				name++;
			size_t n = 0;
			while (name + n < stop && word_char(name[n]))
				n++;
			if (n)
				return encoding_of(name, n);
		}
	}
	return ENC_UTF8;
}

/* name: that of s, or beneath one of the process's folders; mapped: a source map has it. */
static int load_named(struct opener *o, struct source *s, struct str name, bool *ret_mapped)
{
	struct str path = name;
	const bool mapped = *ret_mapped = name.len && map_source(o, name, &path);
	if (!opener_is_source(s->path) || !opener_is_source(path))
		return ERR_UNSUPPORTED;
	if (path.s[0] != '/') { /* what the user names is beneath where the user is, what the input names is not */
		char here[PATH_MAX];
		if (!mapped || !getcwd(here, sizeof here))
			return ERR_ABSENT;
		path = beneath(o, str_of(here), path);
	}
	char *clean = clean_path(o->arena, (struct blob){ (const uint8_t *)path.s, path.len });
	if (!clean)
		return ERR_ABSENT;
	struct stat st;
	int fd = ERR_GONE;
	if (o->where.sysroot && !mapped)
		fd = open_regular(o->where.sysroot, clean, KIND_SOURCE, OPENER_SOURCE_MAX, &st);
	if (fd == ERR_GONE)
		fd = open_regular(NULL, clean, KIND_SOURCE, OPENER_SOURCE_MAX, &st);
	if (fd < 0)
		return fd == ERR_GONE ? ERR_ABSENT : fd;
	CLEANUP(cleanup_fd) int close_it = fd;
	if (o->total + (uint64_t)st.st_size > OPENER_SOURCES_MAX)
		return ERR_LIMIT;
	int rc = read_all(close_it, (size_t)st.st_size, &s->text);
	if (rc < 0)
		return rc;
	o->total += s->text.len;
	s->time_ns = (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec;
	s->encoding = find_encoding(s->text);
	return 0;
}

static int load_source(struct opener *o, struct source *s)
{
	if (o->where.no_files)
		return ERR_ABSENT;
	const struct str name = without_dot(s->path);
	bool mapped;
	int rc = load_named(o, s, name, &mapped);
	if (mapped || (name.len && name.s[0] == '/'))
		return rc;
	for (unsigned i = 0; i < OPENER_FOLDERS && rc == ERR_ABSENT; i++) {
		if (!o->folders[i].len)
			continue;
		rc = load_named(o, s, beneath(o, o->folders[i], name), &mapped);
		if (rc == 0 && !mapped)
			o->folders_used |= 1u << i;
	}
	return rc;
}

static struct source *source_at(struct opener *o, struct str path)
{
	struct source *s;
	HASH_FIND(hh, o->sources, path.s, path.len, s);
	if (s)
		return s;
	s = arena_alloc(o->arena, sizeof *s);
	s->path = str_dup(o->arena, path);
	HASH_ADD_KEYPTR(hh, o->sources, s->path.s, s->path.len, s);
	s->rc = path.len ? load_source(o, s) : ERR_ABSENT;
	return s;
}

int opener_source(struct opener *o, struct str path, struct blob *ret)
{
	struct source *s = source_at(o, path);
	if (s->rc == 0)
		*ret = s->text;
	return s->rc;
}

int opener_source_time(struct opener *o, struct str path, int64_t *ret)
{
	struct source *s = source_at(o, path);
	if (s->rc == 0)
		*ret = s->time_ns;
	return s->rc;
}

int opener_line(struct opener *o, struct arena *a, struct str path, unsigned line, struct str *ret)
{
	struct source *s = source_at(o, path);
	if (s->rc < 0)
		return s->rc;
	if (s->encoding == ENC_OTHER)
		return ERR_UNSUPPORTED;
	const uint8_t *text = s->text.p, *end = text + s->text.len;
	if (!s->indexed) {
		bool bom = s->text.len >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0;
		for (const uint8_t *p = text + (bom ? 3 : 0); p < end; p = line_next(p, end))
			*vec_push(&s->line) = (uint32_t)(p - text);
		s->indexed = true;
	}
	if (line < 1 || line > s->line.n)
		return ERR_ABSENT;
	const uint8_t *p = text + s->line.p[line - 1];
	size_t n = (size_t)(line_end(p, end) - p);
	if (s->encoding == ENC_UTF8) {
		*ret = str_from_bytes(a, p, n);
		return 0;
	}
	struct sb b = { 0 };
	for (size_t i = 0; i < n; i++) {
		char utf8[4];
		sb_bytes(&b, utf8, str_encode(p[i], utf8));
	}
	*ret = sb_take(&b, a);
	return 0;
}
