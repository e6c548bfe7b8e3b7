/* Aligned words of a given set, wherever writable memory holds them: one pass in large reads. */
#ifndef PYTHON_SEARCH_H
#define PYTHON_SEARCH_H

#include "image/image.h"

/* Data and bss of ELF files first: what a search wants is mostly there, and they are small. */
enum search_where { SEARCH_ELF, SEARCH_REST };

/* A set of words to look for. */
struct search_set;
struct search_set *search_set_new(const uint64_t *words, size_t n); /* duplicates and zeros are dropped */
void search_set_free(struct search_set *s);                         /* takes NULL */

/*
 * Calls got for each word of the set at a multiple of the pointer's width.  got returns 0 to go on, else the search
 * ends with that value.  0 at the end, ERR_LIMIT after max hits.
 */
int search_words(struct image *img, const struct search_set *set, enum search_where where, unsigned long max,
		 int (*got)(void *arg, addr_t at, uint64_t word), void *arg) MUST_CHECK;

/*
 * The version in the text that Py_GetVersion() leaves in a buffer of its own, "3.9.18 (main, ...) \n[GCC 12.2.0]" (Python/getversion.c,
 * "%.80s (%.80s) %.80s"; free-threaded builds and those that a distributor made have words of their own before the first bracket), in
 * the data and bss of ELF files that lie in [from, to): "3.9.18", "3.14.0rc2".  ERR_ABSENT.
 */
int search_version_text(struct image *img, addr_t from, addr_t to, char *ret, size_t room) MUST_CHECK;

#endif
