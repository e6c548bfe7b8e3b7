/* How much memory may still be allocated here. */
#ifndef SNAP_MEMORY_H
#define SNAP_MEMORY_H

#include <stdint.h>

/* Bytes: free memory, what this process's control groups leave (versions 1 and 2), its limit of address space; UINT64_MAX: not known. */
uint64_t memory_free(void);

#endif
