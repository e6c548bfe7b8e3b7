/*
 * Inside src/module: an ELF file that libelf takes, made from a module's pages in the image.  For unwinding only: it has the
 * headers and the unwind tables (.eh_frame_hdr and .eh_frame), the rest reads as zeros.
 */
#ifndef MODULE_MEMORY_ELF_H
#define MODULE_MEMORY_ELF_H

#include <libelf.h>

#include "module/modules.h"

/* NULL: the module's headers are not in the image, or nothing of its tables is.  Lives until the process ends.
 * budget: bytes that may still be copied. */
Elf *memory_elf(struct mod *m, uint64_t *budget);
/* An ELF file of nothing, of this machine. */
Elf *memory_elf_machine(const struct abi *abi);

#endif
