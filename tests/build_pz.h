/* Small .pz files in memory, by the writer itself, and their content by an independent way (zlib's gunzip). */
#ifndef BUILD_PZ_H
#define BUILD_PZ_H

#include "image/pz.h"

enum fill { FILL_ZERO, FILL_LINES /* compresses 200 times */, FILL_TEXT /* 2 times */, FILL_RANDOM, FILL_MIXED };

/* What memory holds at addr: a function of the address alone. */
void fill_at(enum fill fill, uint64_t addr, uint8_t *buf, size_t len);

struct build_pz {
	struct pz_plan plan;   /* abi.width 0: x86_64 */
	enum fill fill;
	size_t piece;          /* bytes given to pz_write at once; 0: 100,000 */
	struct blob tail;      /* behind memory; plan.tail is set from it */
	size_t zeros;          /* so many loads at the end are given to pz_zero */
};
/* The whole file, malloc'ed; the test fails if it cannot be written. */
struct blob build_pz(const struct build_pz *b);
/* Write the plan's memory to w; the first failure. */
int build_pz_memory(const struct build_pz *b, struct pz_writer *w) MUST_CHECK;

/* All members' content, malloc'ed; p == NULL if gunzip would fail.  Stops at a cut member where cut is set. */
struct blob gunzip(struct blob file, bool cut);
/* A file of that content for commands, path malloc'ed. */
char *blob_to_file(struct blob b);

#endif
