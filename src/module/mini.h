/* MiniDebugInfo: .gnu_debugdata, an ELF file packed with xz that has the .symtab of what a distribution stripped.  Inside src/module. */
#ifndef MODULE_MINI_H
#define MODULE_MINI_H

#include "module/elf_head.h"

enum { MINI_PACKED_MAX = 8 << 20, MINI_MAX = 32 << 20, MINI_ALL_MAX = 256 << 20 };

struct mini {
	uint8_t *p;
	size_t n;
	struct elf_head head;
};

/* Can sections of that many bytes be read at all?  0; ERR_UNSUPPORTED: built without liblzma; ERR_LIMIT: too large. */
int mini_check(uint64_t packed) MUST_CHECK;
/* The section at [offset, offset + size) of src, unpacked into at most `room` bytes.  As mini_check, ERR_CORRUPT, ERR_MEMORY, or what
 * reading gave. */
int mini_read(const struct elf_source *src, uint64_t offset, uint64_t size, uint64_t room, struct mini *ret) MUST_CHECK;
struct elf_source mini_source(struct mini *m);
void mini_free(struct mini *m);

#endif
