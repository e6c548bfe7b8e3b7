/* What is mapped: ELF files with their build-ids and load bias, symbols, and the pages a core left out. */
#ifndef MODULE_MODULE_H
#define MODULE_MODULE_H

#include "module/opener.h"

/* MINI: all functions, those that are not exported out of MiniDebugInfo (.gnu_debugdata). */
enum symbols { SYMBOLS_NONE, SYMBOLS_DYNSYM, SYMBOLS_FULL, SYMBOLS_MISMATCH, SYMBOLS_MINI };
struct module {
	struct blob path;         /* as in the file note, or from the link map */
	struct blob build_id;     /* from its notes in the image, else as a snapshot noted it; len 0 if not known */
	const char *file;         /* the file on disk that is used; NULL if none */
	const char *disk_path;    /* one with another build-id, so not used; NULL if none, or if a better one was found by itself */
	struct blob disk_build_id;/* of disk_path; len 0: it has none */
	bool disk_named;          /* disk_path is one that the user named (-e, --lib-path) */
	const char *unproven;     /* one at the path while memory has no build-id to compare: not used, -e or --lib-path would; else NULL */
	const char *denied;       /* one whose reading was not permitted, where none is used; else NULL */
	const char *debug_file;   /* its separate debug file that is used; NULL if none */
	const char *debug_refused;/* one that is there for it but has another build-id; NULL if none, or if a better one was found */
	struct blob debug_refused_id;
	addr_t start, end, bias;  /* end includes .bss; bias: what is added to a symbol's value */
	uint8_t symbols;          /* enum symbols */
	int mini_rc;              /* < 0: it has MiniDebugInfo, which cannot be read, ERR_UNSUPPORTED (built without liblzma) or ERR_LIMIT (too large) */
	bool headers_in_image;    /* its ELF header and program headers can be read */
	bool exe;                 /* the program itself */
	bool vdso;
	bool unverified;          /* file was named by the user and fits the mappings, but no build-id says that it is the one */
	bool lines;               /* a file that is used has DWARF */
	bool lines_packed;        /* which has to be decompressed first, all of it */
	bool bias_known;          /* false: neither headers nor a file; no address of it has a name */
};
struct modules;

/* What only carries out what others asked for, by the last part of its path: the C library, other run times and the interpreter, ctypes' machinery of calls. */
enum run_time { RUN_TIME_NO, RUN_TIME_LIBC, RUN_TIME_LANGUAGE, RUN_TIME_CTYPES };
enum run_time module_run_time(struct str base);

/*
 * Borrows img and the texts of where (NULL: no files) until modules_close, which comes before image_close.  Also lays file
 * pages that the image left out beneath it: only from a file with the same build-id, or one that the user named; they are
 * read when asked for.  Always succeeds but for memory; an image without modules has an empty list.
 */
int modules_open(struct image *img, const struct search *where, struct modules **ret, struct err *err) MUST_CHECK;
void modules_close(struct modules *mods); /* takes NULL */
size_t modules_list(const struct modules *mods, const struct module **ret); /* sorted by start */
const struct module *modules_at(const struct modules *mods, addr_t addr);
const struct module *modules_exe(const struct modules *mods);               /* NULL if not known */
struct opener *modules_opener(struct modules *mods);
/* Ask debuginfod for what is not here of it: the file itself and, if wanted, debug information.  Each is asked for once.  Is there something
 * new now?  Changes *m. */
bool modules_fetch(struct modules *mods, const struct module *m, bool debug);
/* May it be asked?  0; ERR_ABSENT: that was not allowed, ERR_UNSUPPORTED: debuginfod-find is not here, ERR_LIMIT: it takes too long. */
int modules_fetch_state(const struct modules *mods);
bool modules_can_fetch(void); /* is debuginfod-find here? */
/* How many files debuginfod was asked for, and how many it gave. */
void modules_fetched(const struct modules *mods, size_t *asked, size_t *given);

/* An exported or local symbol, from the image's own dynamic symbols (PT_DYNAMIC), else the file's .symtab / .dynsym. ERR_ABSENT.
 * ret_size and how may be NULL; how is set to "dynamic" or "symbol". Searches the executable and modules whose name looks like libpython first. */
int modules_symbol(struct modules *mods, const char *name, addr_t *ret, uint64_t *ret_size, const char **how) MUST_CHECK;
/* The same, further definitions too, since a name may have several: *from is 0 before the first and belongs to the walk. */
int modules_symbol_next(struct modules *mods, const char *name, size_t *from, addr_t *ret, uint64_t *ret_size, const char **how) MUST_CHECK;
/* That of one module of the list. */
int modules_symbol_of(struct modules *mods, const struct module *of, const char *name, addr_t *ret) MUST_CHECK;
/* A section of a module's file, by name (".PyRuntime"), where it is in memory; ERR_ABSENT.  _next: as of symbols. */
int modules_section(struct modules *mods, const char *name, addr_t *ret, uint64_t *ret_size) MUST_CHECK;
int modules_section_next(struct modules *mods, const char *name, size_t *from, addr_t *ret, uint64_t *ret_size) MUST_CHECK;
/* The name of the function at pc and the distance from its start; ERR_ABSENT.  The text lives until modules_close. */
int modules_name(struct modules *mods, addr_t pc, struct str *ret, uint64_t *ret_offset) MUST_CHECK;
/* The function at pc, which need not have a name, by the module's unwind tables: [start, end).  ERR_ABSENT: they have none there. */
int modules_function(struct modules *mods, addr_t pc, addr_t *ret_start, addr_t *ret_end) MUST_CHECK;

#endif
