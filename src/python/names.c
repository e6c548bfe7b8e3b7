/* What the program says of itself: the names of its threads, its arguments, its executable. */
#include "python/py.h"

#include <stdlib.h>

#include "python/object.h"
#include "python/prove.h"

enum { NAME_MAX_CHARS = 1024, ARG_MAX_CHARS = 1024, ARGS_MAX = 256, ARGV_MAX_BYTES = 8192, GLOBALS_FRAMES = 10000, GLOBALS_MAX = 10000, NAMES_LEFT = 10000,
	MISSES = 1000, ATTRIBUTES = 1000 };

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

/*
 * Thread.__init__ sets _target and then _name (Lib/threading.py, 3.6 on).  The texts of attribute names that frozen modules use too lie
 * in the interpreter's own data (3.11, 3.12), which a cut core has lost: what follows _target under a name that is lost.
 */
static int name_behind_target(const struct object *thread, addr_t *ret)
{
	const struct py *py = thread->py;
	struct dict_walk w;
	addr_t key;
	bool target = false;
	int rc = object_attrs(thread, &w);

	if (rc >= 0)
		dict_most(&w, ATTRIBUTES);
	while (rc >= 0 && (rc = dict_next(&w, &key, ret)) == 1) {
		struct object k;
		if (target)
			return py_is_lost(py, key) ? 0 : ERR_ABSENT;
		target = object_at(py, key, &k) == 0 && k.kind == O_STR && object_text_is(&k, "_target") == 1;
	}
	return rc < 0 ? rc : ERR_ABSENT;
}

/* Of a threading.Thread.  Lib/threading.py: `_name`; 2.7: `__name`, mangled.  *left: entries that may be looked at. */
static int thread_name(const struct py *py, addr_t thread, uint64_t *left, struct arena *a, struct str *ret)
{
	struct object o;
	addr_t name;
	int rc = object_at(py, thread, &o);

	if (rc < 0)
		return rc;
	rc = object_attr_within(&o, "_name", left, &name);
	if (rc < 0)
		rc = object_attr_within(&o, "_Thread__name", left, &name);
	if (rc < 0 && py->salvaged)
		rc = name_behind_target(&o, &name);
	return rc < 0 ? rc : object_str(py, name, a, NAME_MAX_CHARS, ret);
}

int py_thread_names(const struct py *py, const struct py_interp *in, uint64_t *left, struct arena *a, uint64_t *lost,
		    void (*got)(void *arg, uint64_t ident, struct str name), void *arg)
{
	addr_t dict, active;

	int rc = py_module_dict_within(py, in->addr, "threading", left, &dict);
	if (rc == 0)
		rc = dict_get_within(py, dict, "_active", left, &active);
	if (rc < 0)
		return rc;
	struct dict_walk w;
	rc = dict_begin(py, active, &w);
	if (rc < 0)
		return rc;
	addr_t key, value;
	uint64_t used;
	int n = 0;
	const uint64_t all = w.n;
	dict_most(&w, *left);
	*left -= w.n;
	*lost = 0;
	while (n < PY_MAX_THREADS && (rc = dict_next(&w, &key, &value)) == 1) {
		struct object k;
		int64_t ident;
		struct str text;
		if (object_at(py, key, &k) < 0 || object_int(&k, &ident) < 0 || thread_name(py, value, left, a, &text) < 0) {
			++*lost;
			continue;
		}
		got(arg, py_ident(py, ident), text);
		n++;
	}
	if (rc < 0 || w.n < all)
		*lost = UINT64_MAX;
	else if (READ(py, active, PyDict, ma_used, &used) == 0 && used <= w.n && used > (uint64_t)n + *lost)
		*lost = used - (uint64_t)n; /* entries that lost their key or value */
	return n;
}

/* The globals of the first frame whose code is of threading.py. */
static int threading_globals(const struct py *py, struct arena *a, addr_t *ret)
{
	unsigned looked = 0;

	for (size_t i = 0; i < py->n_salvaged && looked < GLOBALS_FRAMES; i++) {
		struct walk w = { .py = py, .next = py->salvaged_threads[i].thread, .limit = 1, .lap = 1, .owner = py->salvaged_threads[i].interp };
		struct py_thread th;
		struct py_frame f;
		if (py_next_thread(&w, &th) != 1)
			continue;
		for (w = py_frames(py, th.frame); looked < GLOBALS_FRAMES && py_next_frame(&w, &f) == 1; looked++) {
			struct py_code code;
			int rc = f.code ? py_code_read(py, f.code, a, &code) : ERR_ABSENT;
			if (rc < 0 || !str_is(str_base(code.file), "threading.py"))
				continue;
			rc = HAS(py, PyFrame, globals) ? READ(py, f.addr, PyFrame, globals, ret) : READ(py, f.addr, PyFrameObject, f_globals, ret);
			if (rc == 0 && *ret)
				return 0;
		}
	}
	return ERR_ABSENT;
}

static int ident_order(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

/* What the thread states that were found are called by, sorted: how many. */
static size_t salvaged_idents(const struct py *py, uint64_t *ret)
{
	size_t n = 0;

	for (size_t i = 0; i < py->n_salvaged; i++)
		if (READ(py, py->salvaged_threads[i].thread, PyThread, thread_id, &ret[n]) == 0)
			n++;
	qsort(ret, n, sizeof *ret, ident_order);
	return n;
}

/* Names of a dictionary of ident to Thread, as threading._active, for those that are there; how many.  *left: entries that may be looked at. */
static int names_in(struct py *py, addr_t dict, const uint64_t *idents, size_t n_idents, uint64_t *left, struct arena *a,
		    void (*got)(void *arg, uint64_t ident, struct str name), void *arg)
{
	struct dict_walk w;
	addr_t key, value;
	int n = 0, misses = 0;

	if (dict_begin(py, dict, &w) < 0)
		return 0;
	dict_most(&w, *left);
	*left -= w.n;
	while (n < NAMES_LEFT && misses < MISSES && dict_next(&w, &key, &value) == 1) {
		struct object k;
		struct str text;
		uint64_t ident = 0;
		int64_t v = 0;
		int rc;
		/* The keys are of one type, and what they say is held against the thread states. */
		struct py with = *py;
		if (!with.types.int_)
			(void)!READ(py, key, PyObject, ob_type, &with.types.int_);
		if (TRAIT(py, str_model) == STR_MODEL_WIDE)
			rc = READ(py, key, PyInt, ob_ival, &ident);
		else if ((rc = object_at(&with, key, &k)) == 0 && (rc = object_int(&k, &v)) == 0)
			ident = (uint64_t)v;
		ident = py_ident(py, (int64_t)ident);
		if (rc < 0 || !bsearch(&ident, idents, n_idents, sizeof ident, ident_order) || thread_name(py, value, left, a, &text) < 0) {
			misses++;
			continue;
		}
		py->types.int_ = with.types.int_;
		got(arg, ident, text);
		n++;
	}
	return n;
}

int py_names_left(const struct py *of, struct arena *a, void (*got)(void *arg, uint64_t ident, struct str name), void *arg)
{
	struct py py = *of; /* with what is learnt of its types */
	addr_t globals, key, value, type;
	struct dict_walk w;
	CLEANUP(cleanup_free) uint64_t *idents = xcalloc(py.n_salvaged + 1, sizeof *idents);
	const size_t n_idents = salvaged_idents(&py, idents);
	int n = 0;

	int rc = threading_globals(&py, a, &globals);
	if (rc == 0 && !py.types.dict)
		rc = READ(&py, globals, PyObject, ob_type, &py.types.dict);
	if (rc == 0)
		rc = dict_begin(&py, globals, &w);
	if (rc < 0)
		return rc;
	uint64_t left = PY_NAMES_LOOKED;
	dict_most(&w, GLOBALS_MAX);
	/* Not by its name: from 3.12 on the text "_active" lies in the interpreter's own data (pycore_global_strings.h). */
	while (!n && dict_next(&w, &key, &value) == 1)
		if (READ(&py, value, PyObject, ob_type, &type) == 0 && type == py.types.dict)
			n = names_in(&py, value, idents, n_idents, &left, a, got, arg);
	return n ? n : ERR_ABSENT;
}

static int sys_object(const struct py *py, const struct py_interp *in, const char *name, addr_t *ret)
{
	addr_t dict;
	int rc = READ(py, in->addr, PyInterp, sysdict, &dict);
	return rc < 0 ? rc : dict_get(py, dict, name, ret);
}

struct str py_arguments(const struct py *py, const struct py_interp *in, const char *name, struct arena *a)
{
	addr_t list;
	struct object o;
	uint64_t n;

	if (sys_object(py, in, name, &list) < 0 || object_at(py, list, &o) < 0 || object_length(&o, &n) < 0 || !n)
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

struct str py_executable(const struct py *py, const struct py_interp *in, struct arena *a)
{
	addr_t value;
	struct str text;
	return sys_object(py, in, "executable", &value) == 0 && object_str(py, value, a, ARGV_MAX_BYTES, &text) == 0 && text.len ? text : (struct str){ 0 };
}
