/* The .pz file: BGZF members whose payload is an ELF core, an index, a locator; formats/pz.md has the bytes. */
#ifndef IMAGE_PZ_H
#define IMAGE_PZ_H

#include "image/image.h"

enum { PZ_FORMAT = 1 };   /* the format written here, and the newest that is read */
/* Sizes in bytes of the container's parts. */
enum {
	BGZF_HEAD = 18, BGZF_TAIL = 8, BGZF_MAX = 65536 /* of a member, and of its payload */, BGZF_END = 28,
	PZ_PAGE = 4096, PZ_INDEX_ENTRY = 4, PZ_LOCATOR = 48, PZ_LOCATOR_MEMBER = BGZF_HEAD + 5 + PZ_LOCATOR + BGZF_TAIL,
};

/* One load of the core to be written: filesz bytes will come through pz_write; memsz - filesz are absent. */
struct pz_load {
	addr_t start;
	uint64_t filesz, memsz;
	unsigned prot;        /* as struct mapping */
};
struct pz_note {
	const char *owner;    /* "CORE", "LINUX", "PYSNAP" */
	uint32_t type;
	struct blob desc;
};
/* Everything that comes before memory; borrowed until pz_begin returns. loads sorted by start, not overlapping. */
struct pz_plan {
	struct abi abi;
	const struct pz_note *notes;
	size_t n_notes;
	const struct pz_load *loads;
	size_t n_loads;
	int level;            /* zlib 0..9; 1 is isa-l's where that is built in */
	unsigned jobs;        /* worker threads that compress; 0: one per CPU, at most 4 */
	const volatile int *interrupted; /* may be NULL; != 0: a write that a signal interrupts is given up, with ERR_LIMIT */
	uint64_t tail;        /* bytes that come through pz_write behind those of the loads, and are no memory */
};
/*
 * Type numbers of owner "PYSNAP".  Not 1 and 2: binutils 2.40 takes notes of owners that it does not know for PRSTATUS
 * and FPREGSET by their type alone (bfd/elf.c, elf_parse_notes), and gdb with it.
 */
enum {
	PZ_NOTE_INFO = 0x505a0001,  /* JSON, one object: formats/pz.md */
	PZ_NOTE_LOST = 0x505a0002,  /* u64 start, u64 end, u32 errno, u32 why; repeated */
};
enum { PZ_INFO_MAX = 4 << 20 };   /* bytes of PZ_NOTE_INFO; longer ones are not read */
enum { PZ_SYMBOLS_MAX = 256 << 20 }; /* bytes of all tables of functions in the tail; further ones are not read */
enum pz_why { PZ_WHY_UNREADABLE = 1, PZ_WHY_DONTDUMP = 2, PZ_WHY_DEVICE = 3, PZ_WHY_OPTION = 4, PZ_WHY_VANISHED = 5, PZ_WHY_UNTOUCHED = 6 };

/* Notes and tail of the ELF core that b holds, once its loads, notes and threads are in img, which keeps b.  ERR_UNSUPPORTED: a later format. */
int pz_notes_read(struct bytes *b, struct image *img, struct err *err) MUST_CHECK;
int pz_too_new(const char *name, int64_t format, struct str tool, struct err *err); /* ERR_UNSUPPORTED */

struct pz_writer;
/*
 * Forward-only on fd (a pipe will do): headers and notes go out first, then pz_write in load order, each load's filesz
 * bytes right after those of the one before (padding between loads is added here).  The first failure sticks:
 * later calls return it again, and pz_finish has its text.  SIGPIPE is the caller's to ignore.
 */
int pz_begin(int fd, const struct pz_plan *plan, struct pz_writer **ret, struct err *err) MUST_CHECK;
int pz_write(struct pz_writer *w, const void *buf, size_t len) MUST_CHECK; /* the next bytes of the loads, in address order */
int pz_zero(struct pz_writer *w, uint64_t len) MUST_CHECK;                 /* the same for zeros */
int pz_finish(struct pz_writer *w, struct err *err) MUST_CHECK;            /* index, locator, end block; ERR_IO with errno's text and errno set */
uint64_t pz_unpacked(const struct pz_writer *w);                           /* bytes of the core so far */
uint64_t pz_written(const struct pz_writer *w);                            /* bytes on fd so far */
void pz_close(struct pz_writer *w);                                        /* takes NULL; does not close fd */

/*
 * The payload of BGZF members as random-access bytes (the ELF core).  size is what complete members hold, so less than the
 * core's own headers say if the file was cut.  A member that is damaged reads as ERR_CORRUPT, the others as ever.
 */
int bgzf_open(struct bytes *packed, struct bytes **ret, struct err *err) MUST_CHECK; /* takes over packed on success */
struct bytes *bgzf_detach(struct bytes *b);   /* gives packed back; b can only be closed from then on */
bool bgzf_probe(struct bytes *packed);        /* does the first member's header look right? */
bool bgzf_truncated(const struct bytes *b);   /* no end block, or the last member is cut */
bool bgzf_indexed(const struct bytes *b);     /* found by its index, not by walking */
uint32_t bgzf_format(const struct bytes *b);  /* of the locator; 0 if there is none */
size_t bgzf_damaged(const struct bytes *b);   /* members found damaged so far */
/* Have found called, during a read, with the payload range of each member that turns out to be damaged. */
void bgzf_watch(struct bytes *b, void (*found)(void *arg, uint64_t start, uint64_t end), void *arg);

#endif
