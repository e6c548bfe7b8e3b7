/* What a thread calls itself: pthread_self(), which thread states keep as thread_id. */
#ifndef PYTHON_SELF_H
#define PYTHON_SELF_H

#include "image/image.h"

/*
 * The words that may be pthread_self() of a thread of the image: thread pointers, and where struct pthread lies elsewhere (abi_tls_is_self)
 * what looks like one.  malloced, with room for one word more; *ret_known: of how many threads there is one.
 */
size_t self_words(struct image *img, uint64_t **ret, size_t *ret_known);
/* Why there is none, as the end of a sentence. */
const char *self_why_not(const struct abi *abi);

#endif
