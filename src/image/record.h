/* Which pages of an image are read, and which were asked for and are not there: what a smaller copy of it has to keep. */
#ifndef IMAGE_RECORD_H
#define IMAGE_RECORD_H

#include "image/image.h"

enum { RECORD_PAGE = 4096, RECORD_BLOCK = 64 };
struct record;
/* From now until record_stop, which comes before image_close.  One at a time; reads are slower meanwhile, nothing is cached. */
struct record *record_start(struct image *img);
void record_stop(struct record *r);
/* Addresses of pages, sorted, each once; valid until the next call or record_free. */
size_t record_pages(struct record *r, const addr_t **ret);
size_t record_blocks(struct record *r, const addr_t **ret); /* of a page only what was read */
size_t record_missed(struct record *r, const addr_t **ret);
void record_free(struct record *r); /* stops first; takes NULL */

#endif
