/* Which pages of a process exist, from the kernel's page tables. */
#ifndef SNAP_PAGES_H
#define SNAP_PAGES_H

#include "image/image.h"

struct range { addr_t start, end; };
struct ranges VEC(struct range);

enum pages {
	PAGES_OWN,    /* private memory that was written: neither a file's page nor the kernel's page of zeros */
	PAGES_MAPPED, /* all that the page tables hold, files' pages too: for shared memory */
};
/* Append the ranges of [start, end) that exist, sorted and joined; pagemap_fd: /proc/PID/pagemap. ERR_IO, ERR_GONE. */
int pages_find(int pagemap_fd, addr_t start, addr_t end, enum pages which, struct ranges *ret) MUST_CHECK;

/* For tests: read pagemap entry by entry, as kernels before 6.7 need it. */
extern bool pages_without_scan;

#endif
