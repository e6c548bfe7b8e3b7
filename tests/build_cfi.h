/*
 * A module in memory whose code has unwind tables, x86-64: for test_native and fuzz_native.
 *
 *	0x0000  headers: one load of all, PT_GNU_EH_FRAME
 *	0x1000  code
 *	0x2000  .eh_frame_hdr, without its table; 0x2010 .eh_frame
 */
#ifndef BUILD_CFI_H
#define BUILD_CFI_H

#include <stdint.h>
#include <string.h>

enum { CFI_SIZE = 0x4000, CFI_CODE = 0x1000, CFI_HDR = 0x2000, CFI_FRAME = 0x2010, CFI_FRAME_MAX = 0x1000 };

static inline void cfi_put(uint8_t *p, unsigned width, uint64_t v)
{
	for (unsigned i = 0; i < width; i++)
		p[i] = (uint8_t)(v >> 8 * i);
}

/* Into a file at frame + at: a CIE, and an FDE for 0x1000 bytes of code whose frame is 16 bytes (return address and one word).  Returns the length. */
static inline size_t cfi_table(uint8_t *frame)
{
	/* length, id 0, version 1, "zR", alignments 1 and -8, return address 16, augmentation: pcrel | sdata4;
	 * def_cfa rsp + 8, return address at cfa - 8 */
	static const uint8_t cie[] = { 20, 0, 0, 0, 0, 0, 0, 0, 1, 'z', 'R', 0, 1, 0x78, 16, 1, 0x1b, 0x0c, 7, 8, 0x90, 1, 0, 0 };
	memcpy(frame, cie, sizeof cie);
	uint8_t *fde = frame + sizeof cie;
	cfi_put(fde, 4, 20);
	cfi_put(fde + 4, 4, sizeof cie + 4);               /* back to the CIE */
	cfi_put(fde + 8, 4, (uint32_t)(CFI_CODE - (CFI_FRAME + (int)sizeof cie + 8)));
	cfi_put(fde + 12, 4, 0x1000);
	memcpy(fde + 16, "\0\x0e\x10\0\0\0\0\0", 8);       /* no augmentation; def_cfa_offset 16 */
	cfi_put(fde + 24, 4, 0);                           /* the end */
	return sizeof cie + 28;
}

/* All of the module, with any table (NULL: the one above). */
static inline void cfi_module(uint8_t m[CFI_SIZE], const uint8_t *table, size_t n)
{
	memset(m, 0, CFI_SIZE);
	memcpy(m, "\177ELF\2\1\1", 7);
	cfi_put(m + 16, 2, 3);                              /* ET_DYN */
	cfi_put(m + 18, 2, 62);
	cfi_put(m + 20, 4, 1);
	cfi_put(m + 32, 8, 64);                             /* program headers */
	cfi_put(m + 52, 2, 64);
	cfi_put(m + 54, 2, 56);
	cfi_put(m + 56, 2, 2);
	uint8_t *ph = m + 64;
	cfi_put(ph, 4, 1);                                  /* PT_LOAD, R X */
	cfi_put(ph + 4, 4, 5);
	cfi_put(ph + 32, 8, CFI_SIZE);
	cfi_put(ph + 40, 8, CFI_SIZE);
	cfi_put(ph + 48, 8, 0x1000);
	ph += 56;
	cfi_put(ph, 4, 0x6474e550);                         /* PT_GNU_EH_FRAME */
	cfi_put(ph + 4, 4, 4);
	cfi_put(ph + 8, 8, CFI_HDR);
	cfi_put(ph + 16, 8, CFI_HDR);
	cfi_put(ph + 24, 8, CFI_HDR);
	cfi_put(ph + 32, 8, 16);
	cfi_put(ph + 40, 8, 16);
	memset(m + CFI_CODE, 0x90, 0x1000);
	memcpy(m + CFI_HDR, "\1\x1b\xff\xff", 4);           /* no count, no table */
	cfi_put(m + CFI_HDR + 4, 4, CFI_FRAME - CFI_HDR - 4);
	if (table)
		memcpy(m + CFI_FRAME, table, n < CFI_FRAME_MAX ? n : CFI_FRAME_MAX);
	else
		cfi_table(m + CFI_FRAME);
}

#endif
