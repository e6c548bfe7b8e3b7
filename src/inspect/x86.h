/* What those share that decode x86 by Zydis. */
#ifndef INSPECT_X86_H
#define INSPECT_X86_H

#include <Zydis/Zydis.h>

#include "image/image.h"

enum { X86_LONGEST = 15 };

static inline ZydisMachineMode x86_mode(const struct abi *abi)
{
	return abi->width == 8 ? ZYDIS_MACHINE_MODE_LONG_64 : ZYDIS_MACHINE_MODE_LEGACY_32;
}

/* Zydis counts general registers as the processor does; struct regs has them by DWARF number.  -1: it is none. */
static inline int x86_dwarf(const struct abi *abi, ZydisRegister reg)
{
	static const uint8_t of64[16] = { 0, 2, 1, 3, 7, 6, 4, 5, 8, 9, 10, 11, 12, 13, 14, 15 };
	if (abi->width == 8)
		return reg >= ZYDIS_REGISTER_RAX && reg <= ZYDIS_REGISTER_R15 ? of64[reg - ZYDIS_REGISTER_RAX] : -1;
	return reg >= ZYDIS_REGISTER_EAX && reg <= ZYDIS_REGISTER_EDI ? (int)reg - (int)ZYDIS_REGISTER_EAX : -1;
}

static inline bool x86_decoder(const struct abi *abi, ZydisDecoder *ret)
{
	enum { I386 = 3, X86_64 = 62 };
	if (abi->machine == X86_64 && abi->width == 8)
		return ZYAN_SUCCESS(ZydisDecoderInit(ret, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64));
	return abi->machine == I386 && ZYAN_SUCCESS(ZydisDecoderInit(ret, ZYDIS_MACHINE_MODE_LEGACY_32, ZYDIS_STACK_WIDTH_32));
}

#endif
