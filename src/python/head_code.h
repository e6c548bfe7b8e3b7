/* Where the list of interpreters is, as the instructions of PyInterpreterState_Head() show it. */
#ifndef PYTHON_HEAD_CODE_H
#define PYTHON_HEAD_CODE_H

#include "image/image.h"

/* What the function returns: *slot, or *(*slot + offset) where it goes through a pointer (a GOT entry). */
struct head_code { addr_t slot; bool indirect; uint64_t offset; };

enum { HEAD_CODE_MAX = 64 }; /* no build needs more bytes than this */

/*
 * p: the bytes at `at`, up to HEAD_CODE_MAX of them.  ERR_UNSUPPORTED: a machine that this does not know; ERR_ABSENT: an
 * instruction that it does not know, or a function that returns something else; ERR_CORRUPT: cut before the return.
 */
int head_code_read(const struct abi *abi, addr_t at, const uint8_t *p, size_t len, struct head_code *ret) MUST_CHECK;

#endif
