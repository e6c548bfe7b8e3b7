/* objects_read SNAPSHOT: what fixtures/programs/objects.py put in its lists, read back; the same lines as it prints. */
#include <stdio.h>
#include <stdlib.h>

#include "python/object.h"
#include "python/prove.h"

static struct object view(const struct py *py, addr_t at)
{
	struct object o;
	int rc = object_at(py, at, &o);
	if (rc < 0) {
		printf("object 0x%llx: %s\n", (unsigned long long)at, err_word(rc));
		exit(1);
	}
	return o;
}

static struct object global(const struct py *py, addr_t dict, const char *name)
{
	addr_t at;
	int rc = dict_get(py, dict, name, &at);
	if (rc < 0) {
		printf("%s: %s\n", name, err_word(rc));
		exit(1);
	}
	return view(py, at);
}

static void read_attribute(const struct object *o, struct arena *a, unsigned long long i)
{
	struct str type = { 0 }, text = { 0 };
	addr_t at;
	int rc = type_name(o->py, o->type, a, &type);
	if (rc == 0)
		rc = object_attr(o, "want", &at);
	if (rc == 0) {
		struct object want = view(o->py, at);
		struct blob old; /* 2.7 */
		rc = want.kind == O_BYTES ? object_bytes(&want, a, 100, &old, NULL) : object_text(&want, a, 100, &text, NULL);
		if (rc == 0 && want.kind == O_BYTES)
			text = str_from_bytes(a, old.p, old.len);
	}
	printf("ATTR %llu " STR_FMT " " STR_FMT "%s\n", i, STR_ARG(type), STR_ARG(text), rc < 0 ? err_word(rc) : "");
	if (object_attr(o, "gone", &at) != ERR_ABSENT)
		printf("ATTR %llu gone is there\n", i);
}

static void read_value(const struct object *o, struct arena *a, unsigned long long i)
{
	struct str text;
	struct blob bytes;
	int64_t value;
	int rc = ERR_ABSENT;
	if (o->kind == O_STR && (rc = object_text(o, a, SIZE_MAX, &text, NULL)) == 0)
		printf("VALUE %llu " STR_FMT "\n", i, STR_ARG(str_hex(a, (struct blob){ (const uint8_t *)text.s, text.len })));
	else if (o->kind == O_BYTES && (rc = object_bytes(o, a, SIZE_MAX, &bytes, NULL)) == 0)
		printf("VALUE %llu bytes " STR_FMT "\n", i, STR_ARG(str_hex(a, bytes)));
	else if (o->kind == O_INT && (rc = object_int(o, &value)) == 0)
		printf("VALUE %llu int %lld\n", i, (long long)value);
	if (rc < 0)
		printf("VALUE %llu %s\n", i, err_word(rc));
}

static void read_dict(const struct object *o, struct arena *a, unsigned long long i)
{
	(void)a;
	struct dict_walk w;
	addr_t key, value;
	unsigned long long n = 0;
	int rc = dict_begin(o->py, o->addr, &w);
	while (rc >= 0 && (rc = dict_next(&w, &key, &value)) == 1) {
		view(o->py, key);
		view(o->py, value);
		n++;
	}
	printf("DICT %llu %llu%s\n", i, n, rc < 0 ? err_word(rc) : "");
}

static void each(const struct py *py, addr_t dict, const char *name, struct arena *a,
		 void (*got)(const struct object *o, struct arena *a, unsigned long long i))
{
	struct object list = global(py, dict, name);
	uint64_t n;
	addr_t at;
	if (object_length(&list, &n) < 0)
		n = 0;
	for (uint64_t i = 0; i < n; i++) {
		if (object_item(&list, i, &at) < 0)
			break;
		struct object o = view(py, at);
		got(&o, a, i);
	}
}

int main(int argc, char **argv)
{
	struct image *img;
	struct modules *mods;
	struct py *py;
	struct err err;
	const struct search where = { .no_files = true };
	const struct py_options opt = { 0 };
	struct arena *a = arena_new();
	if (argc != 2)
		return 64;
	if (image_open(argv[1], &img, &err) < 0 || modules_open(img, &where, &mods, &err) < 0 ||
	    py_open(img, mods, &opt, a, &py, &err) < 0) {
		printf("%s; %s\n", err.msg, err.why);
		return 1;
	}
	struct walk interps = py_interps(py);
	struct py_interp in;
	addr_t dict;
	if (py_next_interp(&interps, &in) != 1 || py_module_dict(py, in.addr, "__main__", &dict) < 0)
		return 1;
	each(py, dict, "attributes", a, read_attribute);
	each(py, dict, "values", a, read_value);
	each(py, dict, "dictionaries", a, read_dict);
	modules_close(mods);
	image_close(img);
	arena_free(a);
	return 0;
}
