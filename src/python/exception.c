/* Exceptions of a thread, in the three forms that CPython has kept them. */
#include "python/exception.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "python/prove.h"
#include "python/walk.h"

enum {
	HANDLED_MAX = 100000,  /* entries of exc_info: generators that run each other */
	BASES_MAX = 64,        /* how deep a class may derive */
	BUILTINS_MAX = 4096,
	TRACEBACK_MAX = 10000000,
	NAME_MAX = 4096,
};

static bool nothing(const struct py *py, addr_t value)
{
	return !value || value == py->types.none;
}

static int complete(const struct py *py, struct py_exception *e)
{
	if (nothing(py, e->type)) { /* 3.11 on: the value alone is kept */
		int rc = READ(py, e->value, PyObject, ob_type, &e->type);
		if (rc < 0)
			return rc;
	}
	if (nothing(py, e->value))
		e->value = 0;
	if (nothing(py, e->traceback))
		e->traceback = 0;
	struct object o;
	if (!e->traceback && e->value && object_at(py, e->value, &o) == 0 && o.kind == O_EXCEPTION && HAS(py, PyException, traceback)) {
		(void)!READ(py, e->value, PyException, traceback, &e->traceback);
		if (nothing(py, e->traceback))
			e->traceback = 0;
	}
	return 0;
}

int py_exception_of(const struct py *py, addr_t value, struct py_exception *ret)
{
	struct py_exception e = { .value = value };
	int rc = complete(py, &e);
	if (rc == 0)
		*ret = e;
	return rc;
}

/* Up to 3.6 the thread state has it itself. */
static int handled_in_thread(const struct py *py, addr_t thread, struct py_exception *ret)
{
	struct py_exception e = { 0 };
	int rc = READ(py, thread, PyThread, exc_type, &e.type);
	if (rc == 0)
		rc = READ(py, thread, PyThread, exc_value, &e.value);
	if (rc == 0)
		rc = READ(py, thread, PyThread, exc_traceback, &e.traceback);
	if (rc < 0)
		return rc;
	if (nothing(py, e.type))
		return ERR_ABSENT;
	rc = complete(py, &e);
	if (rc == 0)
		*ret = e;
	return rc;
}

int py_exception_handled_within(const struct py *py, addr_t thread, uint64_t *left, struct py_exception *ret)
{
	if (!HAS(py, PyThread, exc_info))
		return handled_in_thread(py, thread, ret);
	/* _PyErr_GetTopmostException: the first entry that has something; each generator that runs has one. */
	addr_t item;
	int rc = READ(py, thread, PyThread, exc_info, &item);
	if (rc < 0)
		return rc;
	struct walk w = walk_start(py, item, *left < HANDLED_MAX ? *left : HANDLED_MAX);
	for (; (rc = walk_enter(&w)) > 0; --*left) {
		struct py_exception e = { 0 };
		item = w.next;
		rc = READ(py, item, PyErrItem, exc_value, &e.value);
		if (rc == 0 && HAS(py, PyErrItem, exc_type))
			rc = READ(py, item, PyErrItem, exc_type, &e.type);
		if (rc == 0 && HAS(py, PyErrItem, exc_traceback))
			rc = READ(py, item, PyErrItem, exc_traceback, &e.traceback);
		if (rc < 0)
			return rc;
		if (!nothing(py, HAS(py, PyErrItem, exc_type) ? e.type : e.value)) {
			rc = complete(py, &e);
			if (rc == 0)
				*ret = e;
			return rc;
		}
		rc = READ(py, item, PyErrItem, previous_item, &item);
		if (rc < 0)
			return rc;
		walk_leave(&w, item);
	}
	return rc < 0 ? rc : ERR_ABSENT;
}

int py_exception_handled(const struct py *py, addr_t thread, struct py_exception *ret)
{
	uint64_t left = HANDLED_MAX;
	return py_exception_handled_within(py, thread, &left, ret);
}

int py_exception_raised(const struct py *py, addr_t thread, struct py_exception *ret)
{
	struct py_exception e = { 0 };
	int rc;
	if (HAS(py, PyThread, current_exception)) {
		rc = READ(py, thread, PyThread, current_exception, &e.value);
		if (rc == 0 && nothing(py, e.value))
			rc = ERR_ABSENT;
	} else {
		rc = READ(py, thread, PyThread, curexc_type, &e.type);
		if (rc == 0)
			rc = READ(py, thread, PyThread, curexc_value, &e.value);
		if (rc == 0)
			rc = READ(py, thread, PyThread, curexc_traceback, &e.traceback);
		if (rc == 0 && nothing(py, e.type))
			rc = ERR_ABSENT;
	}
	if (rc == 0)
		rc = complete(py, &e);
	if (rc == 0)
		*ret = e;
	return rc;
}

/* ---- names */

/* The name under which builtins has it: what a core has where it lacks read-only data. */
static int builtin_name(const struct py *py, addr_t type, struct arena *a, struct str *ret)
{
	addr_t builtins, key, value;
	struct dict_walk w;
	int rc = READ(py, py->interp_head, PyInterp, builtins, &builtins);
	if (rc == 0)
		rc = dict_begin(py, builtins, &w);
	if (rc < 0)
		return rc;
	dict_most(&w, BUILTINS_MAX);
	while ((rc = dict_next(&w, &key, &value)) > 0) {
		struct object o;
		if (value != type || object_at(py, key, &o) < 0)
			continue;
		struct blob old; /* 2.7 */
		if (o.kind == O_STR)
			return object_text(&o, a, NAME_MAX, ret, NULL);
		if (o.kind != O_BYTES || object_bytes(&o, a, NAME_MAX, &old, NULL) < 0)
			continue;
		*ret = str_from_bytes(a, old.p, old.len);
		return 0;
	}
	return rc < 0 ? rc : ERR_ABSENT;
}

static int plain_name(const struct py *py, addr_t type, struct arena *a, struct str *ret)
{
	static const char old[] = "exceptions."; /* 2.7: Objects/exceptions.c, EXC_MODULE_NAME */
	int rc = type_name(py, type, a, ret);
	if (rc == 0 && str_starts(*ret, old))
		*ret = (struct str){ ret->s + sizeof old - 1, ret->len - (sizeof old - 1) };
	if (rc == 0 && ret->len)
		return 0;
	int by_identity = builtin_name(py, type, a, ret);
	return by_identity == 0 ? 0 : rc < 0 ? rc : ERR_CORRUPT;
}

/* The module that a class written in Python says it is of; s NULL where a traceback does not name it. */
static struct str module_of(const struct py *py, addr_t type, struct arena *a)
{
	uint64_t flags;
	addr_t dict, at;
	struct object o;
	struct str s = { 0 };
	struct blob old;
	if (READ(py, type, PyType, tp_flags, &flags) < 0 || !(flags >> TRAIT(py, flag_heap_type) & 1) || READ(py, type, PyType, tp_dict, &dict) < 0 ||
	    dict_get(py, dict, "__module__", &at) < 0 || object_at(py, at, &o) < 0)
		return s;
	if (o.kind == O_STR)
		(void)!object_text(&o, a, NAME_MAX, &s, NULL);
	else if (o.kind == O_BYTES && object_bytes(&o, a, NAME_MAX, &old, NULL) == 0)
		s = str_from_bytes(a, old.p, old.len);
	if (str_is(s, "__main__") || str_is(s, "builtins") || str_is(s, "exceptions"))
		return (struct str){ 0 };
	return s;
}

int py_exception_type(const struct py *py, const struct py_exception *e, struct arena *a, struct str *ret)
{
	struct str name;
	int rc = plain_name(py, e->type, a, &name);
	if (rc < 0)
		return rc;
	struct str module = module_of(py, e->type, a);
	*ret = module.len ? str_printf(a, STR_FMT "." STR_FMT, STR_ARG(module), STR_ARG(name)) : name;
	return 0;
}

/* Which of the classes that have a text of their own it takes it from. */
enum says { SAYS_ARGS, SAYS_REPR, SAYS_ERRNO, SAYS_MESSAGE, SAYS_GROUP, SAYS_ENCODE, SAYS_DECODE, SAYS_TRANSLATE };

static bool says_itself(const struct py *py, addr_t type, struct arena *a, enum says *ret)
{
	/*
	 * fields: where it has fields of its own (ImportError from 3.3 on, the others from 3.10), it has a __str__ of its own too, which says
	 * what BaseException's would (Objects/exceptions.c: ComplexExtendsException, ImportError_str).
	 */
	static const struct { const char *name; enum says says; bool fields; } own[] = {
		{ "KeyError", SAYS_REPR, false }, { "OSError", SAYS_ERRNO, false }, { "EnvironmentError", SAYS_ERRNO, false }, { "SyntaxError", SAYS_MESSAGE, false },
		{ "BaseExceptionGroup", SAYS_GROUP, false }, { "UnicodeEncodeError", SAYS_ENCODE, false }, { "UnicodeDecodeError", SAYS_DECODE, false },
		{ "UnicodeTranslateError", SAYS_TRANSLATE, false }, { "BaseException", SAYS_ARGS, false },
		{ "AttributeError", SAYS_ARGS, true }, { "NameError", SAYS_ARGS, true }, { "ImportError", SAYS_ARGS, true },
	};
	struct str name;
	uint64_t flags, size;
	/* Built-in ones are static types. */
	if (READ(py, type, PyType, tp_flags, &flags) < 0 || flags >> TRAIT(py, flag_heap_type) & 1 || plain_name(py, type, a, &name) < 0)
		return false;
	for (size_t i = 0; i < sizeof own / sizeof *own; i++) {
		if (!str_is(name, own[i].name) ||
		    (own[i].fields && (READ(py, type, PyType, tp_basicsize, &size) < 0 || size <= py->layout.size[S_PyException])))
			continue;
		*ret = own[i].says;
		return true;
	}
	return false;
}

/* The first in the order of its bases; where that is not to be had, of those that lie in each other. */
static enum says says_of(const struct py *py, addr_t type, struct arena *a)
{
	addr_t mro;
	struct object order;
	enum says says;
	const bool ordered = READ(py, type, PyType, tp_mro, &mro) == 0 && object_at(py, mro, &order) == 0 && order.kind == O_TUPLE;
	for (unsigned n = 0; n < BASES_MAX && type; n++) {
		if (ordered && object_item(&order, n, &type) < 0)
			break;
		if (says_itself(py, type, a, &says))
			return says;
		if (!ordered && READ(py, type, PyType, tp_base, &type) < 0)
			break;
	}
	return SAYS_ARGS;
}

/* ---- values */

static char quote_of(const char *s, size_t len)
{
	return len && memchr(s, '\'', len) && !memchr(s, '"', len) ? '"' : '\'';
}

static void put_escaped(struct sb *b, struct str s, size_t max)
{
	const char quote = quote_of(s.s, s.len);
	sb_char(b, quote);
	for (size_t i = 0, used; i < s.len; i += used) {
		uint32_t cp = str_decode(s.s + i, s.len - i, &used);
		if (b->len >= max)
			break;
		if (cp == '\n' || cp == '\r' || cp == '\t')
			sb_printf(b, "\\%c", cp == '\n' ? 'n' : cp == '\r' ? 'r' : 't');
		else if (cp == '\\' || cp == (unsigned char)quote)
			sb_printf(b, "\\%c", (char)cp);
		else
			sb_safe(b, (struct str){ s.s + i, used });
	}
	sb_char(b, quote);
}

static void put_bytes(struct sb *b, struct blob bytes, size_t max, bool prefix)
{
	const char quote = quote_of((const char *)bytes.p, bytes.len);
	sb_printf(b, prefix ? "b%c" : "%c", quote);
	for (size_t i = 0; i < bytes.len && b->len < max; i++) {
		uint8_t c = bytes.p[i];
		if (c == '\n' || c == '\r' || c == '\t')
			sb_printf(b, "\\%c", c == '\n' ? 'n' : c == '\r' ? 'r' : 't');
		else if (c == '\\' || c == quote)
			sb_printf(b, "\\%c", c);
		else if (c < ' ' || c >= 0x7f)
			sb_printf(b, "\\x%02x", c);
		else
			sb_char(b, (char)c);
	}
	sb_char(b, quote);
}

static void put_double(struct sb *b, uint64_t bits)
{
	double v, back;
	char text[40];
	static_assert(sizeof v == sizeof bits, "the interpreter's doubles are read as this machine's");
	memcpy(&v, &bits, sizeof v);
	for (int digits = 15; digits <= 17; digits++) {
		snprintf(text, sizeof text, "%.*g", digits, v);
		if (sscanf(text, "%lf", &back) == 1 && memcmp(&back, &v, sizeof v) == 0)
			break;
	}
	sb_printf(b, "%s%s", text, strpbrk(text, ".en") ? "" : ".0");
}

enum { DEPTH = 3, ITEMS = 16 };

static void brief(const struct py *py, addr_t addr, size_t max, struct sb *b, struct arena *a, unsigned depth);

static void put_items(const struct py *py, const struct object *o, const char *ends, size_t max, struct sb *b, struct arena *a, unsigned depth)
{
	uint64_t n;
	addr_t item;
	sb_char(b, ends[0]);
	if (object_length(o, &n) < 0)
		sb_printf(b, "?");
	else
		for (uint64_t i = 0; i < n; i++) {
			if (i)
				sb_printf(b, ", ");
			if (i == ITEMS || depth >= DEPTH || b->len >= max || object_item(o, i, &item) < 0) {
				sb_printf(b, "...");
				break;
			}
			brief(py, item, max, b, a, depth + 1);
			if (n == 1 && ends[0] == '(')
				sb_char(b, ',');
		}
	sb_char(b, ends[1]);
}

static int put_exception(const struct py *py, const struct object *o, size_t max, struct sb *b, struct arena *a, unsigned depth)
{
	struct object args;
	struct str name;
	addr_t at;
	int rc = READ(py, o->addr, PyException, args, &at);
	if (rc == 0)
		rc = object_at(py, at, &args);
	if (rc == 0)
		rc = args.kind == O_TUPLE ? plain_name(py, o->type, a, &name) : ERR_CORRUPT;
	if (rc < 0)
		return rc;
	sb_str(b, name);
	put_items(py, &args, "()", max, b, a, depth);
	if (b->s[b->len - 2] == ',') { /* ValueError('x'), not ValueError('x',) */
		b->s[b->len - 2] = ')';
		b->len--;
	}
	return 0;
}

static void brief(const struct py *py, addr_t addr, size_t max, struct sb *b, struct arena *a, unsigned depth)
{
	struct object o;
	struct str text;
	struct blob bytes;
	int64_t number;
	uint64_t bits;
	if (!addr || object_at(py, addr, &o) < 0) {
		sb_printf(b, "<0x%llx>", (unsigned long long)addr);
		return;
	}
	const bool old = TRAIT(py, str_model) == STR_MODEL_WIDE;
	if (addr == py->types.none) {
		sb_printf(b, "None");
		return;
	}
	switch (o.kind) {
	case O_STR:
		if (object_text(&o, a, max, &text, NULL) < 0)
			break;
		if (old)
			sb_char(b, 'u');
		put_escaped(b, text, max);
		return;
	case O_BYTES:
		if (object_bytes(&o, a, max, &bytes, NULL) < 0)
			break;
		put_bytes(b, bytes, max, !old);
		return;
	case O_INT:
		if (object_int(&o, &number) < 0)
			break;
		if (o.type == py->types.bool_)
			sb_printf(b, number ? "True" : "False");
		else
			sb_printf(b, "%lld", (long long)number);
		return;
	case O_TUPLE: put_items(py, &o, "()", max, b, a, depth); return;
	case O_LIST: put_items(py, &o, "[]", max, b, a, depth); return;
	case O_EXCEPTION:
		if (depth >= DEPTH || put_exception(py, &o, max, b, a, depth) < 0)
			break;
		return;
	default:
		if (o.type != py->types.float_ || READ(py, addr, PyFloat, ob_fval, &bits) < 0)
			break;
		put_double(b, bits);
		return;
	}
	if (plain_name(py, o.type, a, &text) < 0)
		text = STR("?");
	sb_printf(b, "<");
	sb_safe(b, text);
	sb_printf(b, " at 0x%llx>", (unsigned long long)o.addr);
}

void object_brief(const struct py *py, addr_t addr, size_t max, struct sb *b)
{
	struct arena *a = arena_new();
	brief(py, addr, b->len + max, b, a, 0);
	arena_free(a);
}

/* A str, of 2.7 either kind. */
static bool text_at(const struct py *py, addr_t addr, size_t max, struct arena *a, struct str *ret)
{
	struct object o;
	struct blob bytes;
	if (object_at(py, addr, &o) < 0)
		return false;
	if (o.kind == O_STR)
		return object_text(&o, a, max, ret, NULL) == 0;
	if (TRAIT(py, str_model) != STR_MODEL_WIDE || o.kind != O_BYTES || object_bytes(&o, a, max, &bytes, NULL) < 0)
		return false;
	*ret = str_from_bytes(a, bytes.p, bytes.len);
	return true;
}

static bool number_at(const struct py *py, addr_t addr, int64_t *ret)
{
	struct object o;
	return object_at(py, addr, &o) == 0 && object_int(&o, ret) == 0;
}

/* str() of an argument: texts stand for themselves. */
static void put_str(const struct py *py, addr_t addr, size_t max, struct sb *b, struct arena *a)
{
	struct str text;
	if (text_at(py, addr, max, a, &text))
		sb_str(b, text);
	else
		object_brief(py, addr, max, b);
}

/* Where a SyntaxError is: the file's base name and the line, as far as they are a text and a number. */
static void put_place(const struct py *py, addr_t at, size_t max, struct sb *b, struct arena *a)
{
	struct object place;
	struct str file;
	addr_t first, second;
	int64_t line = 0;
	if (object_at(py, at, &place) < 0 || place.kind != O_TUPLE || object_item(&place, 0, &first) < 0 || object_item(&place, 1, &second) < 0)
		return;
	const bool has_file = text_at(py, first, max, a, &file), has_line = number_at(py, second, &line);
	if (!has_file && !has_line)
		return;
	sb_printf(b, " (");
	if (has_file)
		sb_str(b, str_base(file));
	if (has_line)
		sb_printf(b, "%sline %lld", has_file ? ", " : "", (long long)line);
	sb_char(b, ')');
}

/* What of a text or of bytes cannot be coded: from the arguments as the constructor has them.  False: they are others. */
static bool put_coding(const struct py *py, const struct object *args, enum says says, size_t max, struct sb *b, struct arena *a)
{
	addr_t encoding = 0, object, at, reason;
	struct str name, why;
	struct object o;
	int64_t start, end;
	uint32_t unit;
	uint64_t n, i = says != SAYS_TRANSLATE;
	if (object_length(args, &n) < 0 || n != i + 4 || (i && object_item(args, 0, &encoding) < 0) || object_item(args, i, &object) < 0 ||
	    object_item(args, i + 1, &at) < 0 || !number_at(py, at, &start) || object_item(args, i + 2, &at) < 0 || !number_at(py, at, &end) ||
	    object_item(args, i + 3, &reason) < 0 || !text_at(py, reason, max, a, &why) || (i && !text_at(py, encoding, max, a, &name)) || start < 0 || end <= start)
		return false;
	const char *what = says == SAYS_DECODE ? "byte" : "character";
	const bool one = end - start == 1 && object_at(py, object, &o) == 0 && o.kind == (says == SAYS_DECODE ? O_BYTES : O_STR) && object_unit(&o, (uint64_t)start, &unit) == 0;
	if (i) {
		sb_char(b, '\'');
		sb_str(b, name);
		sb_printf(b, "' codec ");
	}
	sb_printf(b, "can't %s %s%s", says == SAYS_DECODE ? "decode" : says == SAYS_ENCODE ? "encode" : "translate", what, one ? " " : "s");
	if (one && says == SAYS_DECODE)
		sb_printf(b, "0x%02x", unit);
	else if (one)
		sb_printf(b, unit <= 0xff ? "%s\\x%02x'" : unit <= 0xffff ? "%s\\u%04x'" : "%s\\U%08x'", TRAIT(py, str_model) == STR_MODEL_WIDE ? "u'" : "'", unit);
	sb_printf(b, one ? " in position %lld: " : " in position %lld-%lld: ", (long long)start, (long long)end - 1);
	sb_str(b, why);
	return true;
}

/* OSError keeps file names apart from its arguments. */
static void put_filenames(const struct py *py, addr_t value, size_t max, struct sb *b)
{
	addr_t name;
	if (!value || READ(py, value, PyOSError, filename, &name) < 0 || nothing(py, name))
		return;
	sb_printf(b, ": ");
	object_brief(py, name, max, b);
	if (READ(py, value, PyOSError, filename2, &name) < 0 || nothing(py, name))
		return;
	sb_printf(b, " -> ");
	object_brief(py, name, max, b);
}

/*
 * Objects/exceptions.c: BaseException_str, KeyError_str, OSError_str (of two to five arguments: oserror_parse_args), SyntaxError_str, BaseExceptionGroup_str,
 * UnicodeEncodeError_str and its kin.  value: 0 if it is not made yet.
 */
static void put_text(const struct py *py, addr_t type, addr_t value, const struct object *args, size_t max, struct sb *b, struct arena *a)
{
	uint64_t n, m;
	addr_t first = 0, second = 0;
	struct object more;
	if (object_length(args, &n) < 0 || !n || object_item(args, 0, &first) < 0)
		return;
	if (n > 1 && object_item(args, 1, &second) < 0)
		second = 0;
	const enum says says = says_of(py, type, a);
	switch (says) {
	case SAYS_REPR:
		if (n != 1)
			break;
		object_brief(py, first, max, b);
		return;
	case SAYS_ERRNO:
		if (n < 2 || n > 5)
			break;
		sb_printf(b, "[Errno ");
		object_brief(py, first, max, b);
		sb_printf(b, "] ");
		put_str(py, second, max, b, a);
		put_filenames(py, value, max, b);
		return;
	case SAYS_MESSAGE:
		put_str(py, first, max, b, a);
		if (n == 2)
			put_place(py, second, max, b, a);
		return;
	case SAYS_GROUP:
		put_str(py, first, max, b, a);
		if (second && object_at(py, second, &more) == 0 && object_length(&more, &m) == 0)
			sb_printf(b, " (%llu sub-exception%s)", (unsigned long long)m, m == 1 ? "" : "s");
		return;
	case SAYS_ENCODE: case SAYS_DECODE: case SAYS_TRANSLATE:
		if (put_coding(py, args, says, max, b, a))
			return;
		break;
	case SAYS_ARGS: break;
	}
	if (n == 1)
		put_str(py, first, max, b, a);
	else
		object_brief(py, args->addr, max, b);
}

int py_exception_text(const struct py *py, const struct py_exception *e, size_t max, struct arena *a, struct str *ret)
{
	CLEANUP(cleanup_sb) struct sb b = { 0 };
	struct object o;
	addr_t args;
	int rc = 0;
	if (e->value && (rc = object_at(py, e->value, &o)) == 0) {
		if (o.kind == O_EXCEPTION) {
			rc = READ(py, e->value, PyException, args, &args);
			if (rc == 0 && args)
				rc = object_at(py, args, &o);
			if (rc == 0 && args)
				put_text(py, e->type, e->value, &o, max, &b, a);
		} else if (o.kind == O_TUPLE) { /* not made yet: the arguments */
			put_text(py, e->type, 0, &o, max, &b, a);
		} else {
			put_str(py, e->value, max, &b, a);
		}
	}
	if (rc < 0)
		return rc;
	if (b.len > max) {
		size_t at = max;
		while (at && ((unsigned char)b.s[at] & 0xc0) == 0x80)
			at--;
		b.len = at;
		sb_printf(&b, "...");
	}
	*ret = b.len ? str_dup(a, sb_view(&b)) : STR("");
	return 0;
}

/* ---- where it has been */

struct walk py_traceback(const struct py *py, addr_t traceback)
{
	return walk_start(py, traceback, TRACEBACK_MAX);
}

int py_next_passed(struct walk *w, struct py_passed *ret)
{
	const struct py *py = w->py;
	int rc = walk_enter(w);
	if (rc <= 0)
		return rc;
	struct py_passed p = { .lasti = -1, .line = -1 };
	uint64_t lasti, line;
	addr_t next, frame;
	rc = READ(py, w->next, PyTraceback, tb_next, &next);
	if (rc == 0)
		rc = READ(py, w->next, PyTraceback, tb_frame, &p.frame);
	if (rc == 0)
		rc = READ(py, w->next, PyTraceback, tb_lasti, &lasti);
	if (rc == 0)
		rc = READ(py, w->next, PyTraceback, tb_lineno, &line);
	if (rc < 0)
		return walk_stop(w, rc);
	p.lasti = (int64_t)lasti;
	p.line = (int64_t)line > 0 ? (int)(int64_t)line : -1;
	/* From 3.11 on a frame object only points to its frame. */
	frame = p.frame;
	if (HAS(py, PyFrameObject, f_frame) && READ(py, p.frame, PyFrameObject, f_frame, &frame) < 0)
		frame = 0;
	struct walk one = py_frames(py, frame);
	struct py_frame f;
	if (frame && py_next_frame(&one, &f) > 0 && !f.shim)
		p.code = f.code;
	walk_leave(w, nothing(py, next) ? 0 : next);
	*ret = p;
	return 1;
}
