/*
 * One address space at one instant, whatever it came from: an ELF core, a .pz, or (for pysnap) a live process.
 * Everything is read through image_read; nothing is read or copied linearly.
 */
#ifndef IMAGE_IMAGE_H
#define IMAGE_IMAGE_H

#include <sys/types.h>
#include <time.h>

#include "image/abi.h"
#include "image/bytes.h"

struct image;

struct thread {
	pid_t tid;
	int signo;            /* pr_cursig: the signal it stopped with, 0 if none */
	char state;           /* R S D T ..., 0 if not known */
	struct str name;      /* the kernel's (comm), s == NULL if not known: cores have none for threads */
	struct str wchan;
	struct regs regs;
	struct blob prstatus, fpregset, xstate, siginfo; /* note descriptors as they came; len 0 if absent */
	struct blob more[ABI_MORE_NOTES];                /* those of abi_more_notes(), of owner LINUX */
};

/* A mapping of a file, from NT_FILE (or /proc/PID/maps for a live one, anonymous ones too). Sorted by start. */
struct mapping {
	addr_t start, end;
	uint64_t offset;      /* bytes into the file */
	unsigned prot;        /* 1 read 2 write 4 execute (PF_ is another order: see elf_core.c); of the segment at start */
	uint64_t inode;       /* 0 if not known */
	struct blob path;     /* as it came; empty for anonymous; may end in " (deleted)" */
};

enum image_kind { IMAGE_CORE, IMAGE_SNAPSHOT, IMAGE_LIVE };

/* What was mapped, also where none of its bytes were kept. */
struct mapped { addr_t start, end; unsigned prot; /* as struct mapping's */ };

struct lost { addr_t start, end; };        /* memory that the file should hold and does not */

/* A note as it came, for what the fields above do not have (formats/pz.md's own). */
struct note {
	struct blob owner;    /* without its NUL */
	uint32_t type;
	struct blob desc;
};

/* What a .pz's own notes say of a file that was mapped: from its first to its last address, and which one it was. */
struct noted_file {
	addr_t start, end;
	struct blob build_id;              /* len 0 if not known */
	uint64_t symbols, symbols_size;    /* an ELF file with its symbol tables alone, in the image's tail; size 0: there is none */
	bool symbols_cut;                  /* there was one, behind the end of the image */
	uint64_t symbols_left_out;         /* the tables are so large that they were left out; 0: not so */
};

/* What the file says besides memory and threads.  All text is valid UTF-8; absent is NULL / 0 / false. */
struct image_facts {
	enum image_kind kind;
	uint64_t size;                     /* of the core as an ELF file: apparent, as far as it is there */
	uint64_t expected;                 /* what size should be by its program headers, and of a truncated snapshot by its notes; > size: truncated */
	uint64_t described;                /* of that, what its program headers tell of: behind it may follow more */
	uint64_t noted_end;                /* where what its notes tell of ends; 0: they tell of nothing */
	uint64_t file_size;                /* bytes of the file as given (compressed for .pz) */
	const char *compression;           /* of a core that was given compressed: "zstd"; NULL: it was not */
	struct str damage;                 /* what the compressed file lacks: "cut off at 88 MiB, ..."; s NULL: nothing, as far as was read */
	int64_t written_ns;                /* when that file was last written, CLOCK_REALTIME; 0 if not known */
	bool truncated;
	const struct lost *lost;           /* segments, or the parts of them, that are cut off or could not be read; sorted; until the next read */
	size_t n_lost;
	size_t n_segments, n_segments_lost;/* loads with bytes in the file; those that lost some */
	const struct mapped *mapped;       /* of a file: sorted by start; may overlap */
	size_t n_mapped;
	struct { bool known; int signo, code, error; addr_t addr; bool has_addr; int64_t pid; int64_t uid; bool has_sender; } siginfo;
	bool has_prpsinfo;
	int64_t pid, ppid, uid;            /* -1 if not known */
	struct str comm, args;             /* pr_fname, pr_psargs */
	struct blob auxv;                  /* NT_AUXV as it came */
	bool has_file_note;
	/* from a .pz's own notes (formats/pz.md) */
	struct str tool;                   /* "pysnap 0.1.0" */
	int64_t time_ns;                   /* CLOCK_REALTIME of the stop; 0 if not known */
	int64_t start_ns;                  /* CLOCK_REALTIME of the process's start; 0 if not known */
	int64_t stopped_ns;                /* how long the target was stopped; -1 if not known */
	bool consistent;                   /* all threads were stopped while memory was copied */
	int64_t ns_pid;                    /* its own number in the pid namespace that it lives in; 0 if not known */
	struct { int64_t pid; struct str comm; bool same_exec; } parent; /* pid 0: not known; same_exec: no exec since one was forked from the other */
	struct str exe, cwd, cmdline;      /* readlink of /proc/PID/exe; cmdline with NULs as spaces */
	addr_t hint_runtime;               /* where pysnap found the runtime; verified, never trusted; 0 if none */
	const struct noted_file *noted;    /* sorted by start; may overlap */
	size_t n_noted;
	struct {                           /* what follows memory in the file; size 0: nothing */
		int (*read)(void *ctx, uint64_t at, void *buf, size_t len); /* inside size */
		void *ctx;
		uint64_t size;
	} tail;
};

/* A piece of the address space; read gets an offset into the segment and stays inside size. */
struct segment {
	addr_t start;
	uint64_t size;
	unsigned prot;
	int (*read)(void *ctx, uint64_t offset, void *buf, size_t len);
	void *ctx;
	uint64_t (*hole)(void *ctx, uint64_t offset); /* may be NULL; as bytes.hole */
	bool from_file;                    /* laid beneath from a file on disk, not from the image itself */
	uint64_t skip;                     /* kept by image.c: what was cut off its front, added to offset before read and hole */
};
enum lay { LAY_OVER, LAY_BENEATH };        /* LAY_OVER covers earlier ones; LAY_BENEATH fills holes only */

/*
 * probe looks at magic only.  load adds segments, threads, mappings and facts to an empty image and takes over b
 * on success; on failure b stays the caller's.
 */
struct image_format {
	const char *name;
	bool (*probe)(struct bytes *b);
	int (*load)(struct bytes *b, struct image *img, struct err *err);
};
extern const struct image_format *const image_formats[]; /* NULL-terminated */
extern const struct image_format image_format_elf_core, image_format_pz;

int image_open(const char *path, struct image **ret, struct err *err) MUST_CHECK;
int image_open_bytes(struct bytes *b, struct image **ret, struct err *err) MUST_CHECK; /* takes over b, also on failure */
int image_attach(pid_t pid, struct image **ret, struct err *err) MUST_CHECK;           /* live; stops nothing */
void image_close(struct image *img);                                                   /* takes NULL */

const struct abi *image_abi(const struct image *img);
const struct image_facts *image_facts(const struct image *img);
size_t image_threads(const struct image *img, const struct thread **ret);   /* the one that caused the dump first */
size_t image_mappings(const struct image *img, const struct mapping **ret); /* sorted by start, not overlapping */
size_t image_notes(const struct image *img, const struct note **ret);       /* of a file: in its order */
size_t image_segments(const struct image *img, const struct segment **ret); /* sorted, not overlapping: what can be read */
const struct mapping *image_mapping_at(const struct image *img, addr_t addr);
const struct segment *image_segment_at(const struct image *img, addr_t addr);
/* What is mapped at addr; ERR_ABSENT: nothing, or the file's program headers are cut off. */
int image_mapped_at(const struct image *img, addr_t addr, struct mapped *ret) MUST_CHECK;

/* All of it or ERR_FAULT (buf untouched where nothing was captured); reads may cross segments that touch. */
int image_read(struct image *img, addr_t addr, void *buf, size_t len) MUST_CHECK;
/* Is some of the len bytes from start on in what facts->lost lists?  Once it is settled. */
bool image_is_lost(const struct image *img, addr_t start, uint64_t len);
/* How many reads failed so far since the memory that they asked for is lost: what the image said it should hold. */
uint64_t image_lost_reads(const struct image *img);
/* As much as there is from addr on: returns the count, 0 if none. */
size_t image_read_some(struct image *img, addr_t addr, void *buf, size_t len);
/* As image_read_some, for a search through memory: what it finds is read again by those above, so a record leaves this out. */
size_t image_scan(struct image *img, addr_t addr, void *buf, size_t len);
int image_read_uint(struct image *img, addr_t addr, size_t width, uint64_t *ret) MUST_CHECK; /* the image's byte order */
int image_read_ptr(struct image *img, addr_t addr, addr_t *ret) MUST_CHECK;                  /* the image's width */
/* A NUL-terminated string of at most max bytes into buf (max + 1 big); returns its length or ERR_FAULT, ERR_LIMIT (no NUL). */
int image_read_cstr(struct image *img, addr_t addr, char *buf, size_t max) MUST_CHECK;
/* At addr: 0 if bytes are there; else how many bytes from addr on are known to be zero or absent, so that a search can skip. */
uint64_t image_skip(struct image *img, addr_t addr);
/* The noted file that lay at addr; NULL. */
const struct noted_file *image_noted_at(const struct image *img, addr_t addr);
/* Auxiliary vector entry by AT_ number; ERR_ABSENT. */
int image_auxv(const struct image *img, uint64_t type, uint64_t *ret) MUST_CHECK;

/* For formats, overlays and tests: build an image. */
struct image *image_new(struct abi abi);
void image_set_abi(struct image *img, struct abi abi);   /* for a format, before it adds anything */
struct arena *image_arena(struct image *img);            /* lives as long as the image */
void image_own_bytes(struct image *img, struct bytes *b);/* closed with the image */
void image_own(struct image *img, void *p, void (*close)(void *p)); /* called at close, in reverse order */
struct image_facts *image_facts_mut(struct image *img);
struct thread *image_add_thread(struct image *img);      /* zeroed; valid until the next one */
struct mapping *image_add_mapping(struct image *img);    /* zeroed; image_settle sorts */
int image_add_segment(struct image *img, const struct segment *seg, enum lay where) MUST_CHECK; /* ERR_CORRUPT: wraps around */
void image_add_lost(struct image *img, addr_t start, addr_t end);
void image_found_lost(struct image *img, const struct lost *found, size_t n); /* sorted: what a read found damaged; the list stays sorted */
struct note *image_add_note(struct image *img);          /* zeroed; blobs live as long as the image */
void image_forget(struct image *img);                    /* drop the page cache: a live process has run since */
/* Have got called for each stretch that is read from now on, and with len 0 for an address that has nothing; NULL: no more. */
void image_watch(struct image *img, void (*got)(void *arg, addr_t addr, size_t len), void *arg);
/* While it is paused nothing is told: of a look for what mostly is not there; what it finds is read again. */
void image_watch_pause(struct image *img, bool pause);
bool image_watch_paused(const struct image *img);        /* what is learnt now and kept must be read again once it counts */
void image_settle(struct image *img);                    /* after the last add: sorts, drops overlaps; called by image_open_bytes too */

#endif
