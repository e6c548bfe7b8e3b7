/*
 * Inputs for fuzz_dict: seed_dict FOLDER writes one for each kind of object and built-in layout, FOLDER/VERSION-KIND.
 * Those that are kept as regressions lie in fixtures/damaged/dict.
 */
#include <stdio.h>
#include <stdlib.h>

#include "build_py.h"
#include "every_layout.h"

static void write_seed(struct build *b, const char *folder, const char *kind, addr_t at)
{
	char path[4096];
	build_settle(b);
	snprintf(path, sizeof path, "%s/%u.%u-%s", folder, b->layout.version >> 24, b->layout.version >> 16 & 255, kind);
	FILE *f = fopen(path, "wb");
	uint32_t offset = (uint32_t)(at - BUILD_HEAP);
	uint8_t head[4] = { (uint8_t)offset, (uint8_t)(offset >> 8), (uint8_t)(offset >> 16), (uint8_t)(offset >> 24) };
	if (!f || fwrite(head, 1, 4, f) != 4 || fwrite(b->heap.p, 1, b->heap.n, f) != b->heap.n || fclose(f) != 0) {
		perror(path);
		exit(1);
	}
}

int main(int argc, char **argv)
{
	static const char *const names[] = { "_target", "_name" };
	if (argc != 2) {
		fprintf(stderr, "usage: seed_dict FOLDER\n");
		return 64;
	}
	size_t n;
	const struct layout *l = every_layout(&n);
	for (size_t i = 0; i < n; i++) {
		struct build *b = build_bare(&l[i]);
		addr_t values[] = { b->types.none, build_str(b, "worker") }, dict = build_dict(b, BUILD_DICT);
		addr_t general = build_dict(b, BUILD_GENERAL), split = build_dict(b, BUILD_SPLIT), tuple = build_tuple(b, values, 2);
		build_dict_str(b, dict, "name", tuple);
		build_dict_str(b, dict, "gone", 0);
		build_dict_set(b, general, build_int(b, INT64_C(1) << 40), build_list(b, values, 2));
		build_dict_str(b, split, "name", values[1]);
		addr_t code = build_code(b, &(struct build_code){ .name = "f", .file = "b.py", .firstlineno = 7 });
		addr_t instance = build_instance(b, "Thread", names, values, 2, true);
		write_seed(b, argv[1], "dict", dict);
		write_seed(b, argv[1], "general", general);
		write_seed(b, argv[1], "split", split);
		write_seed(b, argv[1], "code", code);
		write_seed(b, argv[1], "instance", instance);
		build_free(b);
	}
	return 0;
}
