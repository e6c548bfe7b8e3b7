/*
 * Any object, with types and all it leads to: four bytes offset of the object, then memory as tests/build_py.h makes it
 * (tests/fuzz/seed_dict.c writes such inputs).
 */
#include "fuzz_py.h"

enum { DEPTH = 3, ITEMS = 50 };

static void visit(const struct py *py, struct arena *a, addr_t at, unsigned depth)
{
	struct object o;
	struct str s;
	struct blob bytes;
	struct dict_walk w;
	struct py_code code;
	struct position position;
	int64_t value;
	uint64_t n = 0;
	addr_t item, key;
	if (object_at(py, at, &o) < 0)
		return;
	int rc = object_text(&o, a, 100, &s, NULL);
	rc = rc < 0 ? object_bytes(&o, a, 100, &bytes, NULL) : rc;
	rc = rc < 0 ? object_int(&o, &value) : rc;
	if (rc == 0 && depth == DEPTH)
		return;
	if (type_name(py, o.type, a, &s) == 0 && !str_valid(s.s, s.len))
		abort();
	if (object_attr(&o, "_name", &item) == 0 && depth < DEPTH)
		visit(py, a, item, depth + 1);
	if (py_code_read(py, at, a, &code) == 0 && py_code_position(py, at, 2, &position) == 0 && position.line < 0)
		abort();
	if (object_length(&o, &n) == 0)
		for (uint64_t i = 0; i < n && i < ITEMS && depth < DEPTH; i++)
			if (object_item(&o, i, &item) == 0)
				visit(py, a, item, depth + 1);
	if (dict_begin(py, at, &w) == 0) {
		for (unsigned i = 0; i < ITEMS && depth < DEPTH && (rc = dict_next(&w, &key, &item)) == 1; i++) {
			if (!key || !item)
				abort();
			visit(py, a, key, DEPTH);
			visit(py, a, item, depth + 1);
		}
		if (dict_get(py, at, "name", &item) > 0)
			abort();
	}
}

static void look(const struct py *py, struct arena *a, void *arg)
{
	visit(py, a, FUZZ_BASE + *(const uint32_t *)arg, 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct cursor c = cursor_of(data, size, false);
	uint32_t offset;
	if (cursor_u32(&c, &offset) < 0)
		return 0;
	fuzz_each_layout((struct blob){ c.pos, cursor_left(&c) }, look, &offset);
	return 0;
}
