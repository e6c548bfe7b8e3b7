/* What the program says of itself: the names of its threads, its arguments, its executable. */
#include "python/py.h"

#include "python/object.h"
#include "python/prove.h"

enum { NAME_MAX_CHARS = 1024, ARG_MAX_CHARS = 1024, ARGS_MAX = 256, ARGV_MAX_BYTES = 8192 };

static int object_str(const struct py *py, addr_t addr, struct arena *a, size_t max, struct str *ret)
{
	struct object o;
	int rc = object_at(py, addr, &o);

	if (rc < 0)
		return rc;
	/* 2.7 has both: names of threads and arguments are bytes there. */
	if (o.kind == O_BYTES) {
		struct blob b;
		rc = object_bytes(&o, a, max, &b, NULL);
		if (rc == 0)
			*ret = str_from_bytes(a, b.p, b.len);
		return rc;
	}
	return o.kind == O_STR ? object_text(&o, a, max, ret, NULL) : ERR_CORRUPT;
}

int py_thread_names(const struct py *py, const struct py_interp *in, struct arena *a,
		    void (*got)(void *arg, uint64_t ident, struct str name), void *arg)
{
	addr_t dict, active;

	int rc = py_module_dict(py, in->addr, "threading", &dict);
	if (rc == 0)
		rc = dict_get(py, dict, "_active", &active);
	if (rc < 0)
		return rc;
	struct dict_walk w;
	rc = dict_begin(py, active, &w);
	if (rc < 0)
		return rc;
	addr_t key, value;
	int n = 0;
	while (n < PY_MAX_THREADS && (rc = dict_next(&w, &key, &value)) == 1) {
		struct object k, thread;
		addr_t name;
		int64_t ident;
		struct str text;
		/* Lib/threading.py: `_name`; 2.7: `__name`, mangled. */
		if (object_at(py, key, &k) < 0 || object_int(&k, &ident) < 0 || object_at(py, value, &thread) < 0 ||
		    (object_attr(&thread, "_name", &name) < 0 && object_attr(&thread, "_Thread__name", &name) < 0) ||
		    object_str(py, name, a, NAME_MAX_CHARS, &text) < 0)
			continue;
		got(arg, (uint64_t)ident, text);
		n++;
	}
	return n;
}

static struct str joined_args(const struct py *py, addr_t sysdict, const char *name, struct arena *a)
{
	addr_t list;
	struct object o;
	uint64_t n;

	if (dict_get(py, sysdict, name, &list) < 0 || object_at(py, list, &o) < 0 || object_length(&o, &n) < 0 || !n)
		return (struct str){ 0 };
	CLEANUP(cleanup_sb) struct sb b = { 0 };
	for (uint64_t i = 0; i < n; i++) {
		addr_t item;
		struct str text = { 0 };
		if (i == ARGS_MAX || b.len > ARGV_MAX_BYTES) {
			sb_str(&b, STR(" ..."));
			break;
		}
		if (i)
			sb_char(&b, ' ');
		if (object_item(&o, i, &item) < 0 || object_str(py, item, a, ARG_MAX_CHARS, &text) < 0)
			text = STR("?");
		sb_str(&b, text);
	}
	return str_dup(a, sb_view(&b));
}

void py_argv(const struct py *py, const struct py_interp *in, struct arena *a, struct str *argv, struct str *executable)
{
	addr_t sysdict, value;

	*argv = *executable = (struct str){ 0 };
	if (READ(py, in->addr, PyInterp, sysdict, &sysdict) < 0)
		return;
	*argv = joined_args(py, sysdict, "argv", a);
	if (!argv->s) /* an embedding program need not set sys.argv; 3.10 on has orig_argv */
		*argv = joined_args(py, sysdict, "orig_argv", a);
	struct str text;
	if (dict_get(py, sysdict, "executable", &value) == 0 && object_str(py, value, a, ARGV_MAX_BYTES, &text) == 0 && text.len)
		*executable = text;
}
