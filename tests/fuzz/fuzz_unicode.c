/* A str: the bytes are memory, the object at its start. */
#include "fuzz_py.h"

static void look(const struct py *py, struct arena *a, void *arg)
{
	(void)arg;
	struct object o = { .py = py, .addr = FUZZ_BASE, .type = FUZZ_BASE, .kind = O_STR };
	static const size_t limits[] = { 0, 1, 100, SIZE_MAX };
	for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
		struct str s = { 0 };
		uint64_t total = 7;
		int rc = object_text(&o, a, limits[i], &s, &total);
		if (rc < 0 && (s.s || total != 7))
			abort();
		/* An escaped surrogate takes six bytes, anything else at most four. */
		if (rc == 0 && (!s.s || !str_valid(s.s, s.len) || s.len / 6 > total || (limits[i] < 1000 && s.len > 6 * limits[i])))
			abort();
	}
	if (object_text_is(&o, "modules") > 1 || object_text_is(&o, "") > 1)
		abort();
	o.kind = O_BYTES;
	struct blob b;
	uint64_t total;
	if (object_bytes(&o, a, 1000, &b, &total) == 0 && (b.len > 1000 || b.len > total))
		abort();
	o.kind = O_INT;
	int64_t value;
	if (object_int(&o, &value) > 0)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	fuzz_each_layout((struct blob){ data, size }, look, NULL);
	return 0;
}
