/* A whole core: the list of its modules, what they say of themselves, and names for what its threads run.  No file is opened. */
#include <stdlib.h>

#include "module/module.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct image *img;
	struct modules *mods;
	struct err err;
	if (image_open_bytes(bytes_from_memory(data, size, "input"), &img, &err) < 0)
		return 0;
	if (modules_open(img, NULL, &mods, &err) < 0)
		abort();
	const struct module *m;
	const struct thread *t;
	size_t n = modules_list(mods, &m);
	for (size_t i = 0; i < n; i++) {
		if (m[i].end <= m[i].start || (i && m[i].start < m[i - 1].start) || m[i].file || (m[i].path.len && !m[i].path.p))
			abort();
		uint64_t off;
		struct str name;
		if (modules_name(mods, m[i].start + (m[i].end - m[i].start) / 2, &name, &off) == 0 && !str_valid(name.s, name.len))
			abort();
	}
	addr_t at;
	uint64_t len;
	(void)!modules_symbol(mods, "_PyRuntime", &at, &len, NULL);
	(void)!modules_section(mods, ".PyRuntime", &at, &len);
	n = image_threads(img, &t);
	for (size_t i = 0; i < n && i < 64; i++) {
		struct str name;
		(void)!modules_name(mods, t[i].regs.pc, &name, &len);
	}
	modules_close(mods);
	image_close(img);
	return 0;
}
