/*
 * An ELF file, both as a module in memory, where it lies as in the file, and as the file on disk that the user named
 * for it: symbols by name, names by address, sections, through the tables of both.
 */
#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "module/module.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { BASE = 0x10000000 };

static int segment_read(void *ctx, uint64_t offset, void *buf, size_t len)
{
	const struct blob *b = ctx;
	if (offset > b->len || len > b->len - offset)
		return ERR_FAULT;
	memcpy(buf, b->p + offset, len);
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct blob memory = { data, size };
	struct modules *mods;
	if (size < 64 || size > 1 << 20)
		return 0;
	const bool big = data[EI_DATA] == ELFDATA2MSB, wide = data[EI_CLASS] == ELFCLASS64;
	struct abi abi = { .machine = (uint16_t)(big ? data[18] << 8 | data[19] : data[19] << 8 | data[18]), .width = wide ? 8 : 4, .big_endian = big };
	struct image *img = image_new(abi);
	struct segment seg = { .start = BASE, .size = size, .prot = 5, .read = segment_read, .ctx = &memory };
	if (image_add_segment(img, &seg, LAY_OVER) < 0)
		abort();
	struct mapping *map = image_add_mapping(img);
	map->start = BASE;
	map->end = BASE + (size + 4095) / 4096 * 4096;
	map->prot = 5;
	map->path = (struct blob){ (const uint8_t *)"/m", 2 };
	uint8_t auxv[32] = { 0 };
	auxv[big ? abi.width - 1 : 0] = AT_ENTRY;
	auxv[big ? abi.width + abi.width - 4 : abi.width + 3] = BASE >> 24;
	image_facts_mut(img)->auxv = (struct blob){ auxv, 4u * abi.width };
	image_facts_mut(img)->kind = IMAGE_CORE;
	image_settle(img);

	char path[64];
	int fd = memfd_create("fuzz", MFD_CLOEXEC);
	if (fd < 0 || write(fd, data, size) != (ssize_t)size)
		abort();
	snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	struct search where = { .exe = path };
	if (modules_open(img, &where, &mods, NULL) < 0)
		abort();
	static const char *const names[] = { "_PyRuntime", "PyEval_Go", "hidden", "a", "" };
	addr_t at;
	uint64_t len;
	struct str name;
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		if (modules_symbol(mods, names[i], &at, &len, NULL) == 0 && !modules_at(mods, at))
			abort();
	(void)!modules_section(mods, ".PyRuntime", &at, &len);
	for (addr_t pc = BASE; pc < BASE + size && pc < BASE + 0x8000; pc += 0x40)
		if (modules_name(mods, pc, &name, &len) == 0 && !str_valid(name.s, name.len))
			abort();
	modules_close(mods);
	image_close(img);
	close(fd);
	return 0;
}
