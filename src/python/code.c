/* Code objects: their names, and the position of an instruction through the line table that this version has. */
#include <string.h>

#include "python/linetable.h"
#include "python/object.h"

enum {
	NAME_MAX_CHARS = 64 * 1024,
	TABLE_ON_STACK = 4096,
};
#define TABLE_MAX (UINT64_C(1) << 28) /* CPython has no cap; this much is 100 million instructions */

/* A name; memory that was not captured leaves it unknown, anything but a str is an error. */
static int read_name(const struct py *py, addr_t code, enum py_field f, struct arena *a, struct str *ret)
{
	struct object o;
	addr_t at;
	int rc = layout_read(py->img, &py->layout, code, f, &at);
	if (rc == 0)
		rc = object_at(py, at, &o);
	if (rc < 0)
		return rc;
	if (o.kind == O_STR)
		return object_text(&o, a, NAME_MAX_CHARS, ret, NULL);
	if (o.kind != O_BYTES || TRAIT(py, str_model) == STR_MODEL_COMPACT)
		return ERR_CORRUPT;
	struct blob old; /* 2.7 */
	rc = object_bytes(&o, a, NAME_MAX_CHARS, &old, NULL);
	if (rc == 0)
		*ret = str_from_bytes(a, old.p, old.len);
	return rc;
}

int py_code_read(const struct py *py, addr_t code, struct arena *a, struct py_code *ret)
{
	struct py_code c = { .addr = code };
	uint64_t type, line;
	int rc = READ(py, code, PyObject, ob_type, &type);
	if (rc < 0)
		return rc;
	if (py->types.code && type != py->types.code)
		return ERR_CORRUPT;
	rc = READ(py, code, PyCode, co_firstlineno, &line);
	if (rc < 0)
		return rc;
	c.firstlineno = (int)(int64_t)line;
	int name = read_name(py, code, F_PyCode_co_name, a, &c.name);
	int file = read_name(py, code, F_PyCode_co_filename, a, &c.file);
	int qualname = HAS(py, PyCode, co_qualname) ? read_name(py, code, F_PyCode_co_qualname, a, &c.qualname) : 0;
	if (name == ERR_CORRUPT || file == ERR_CORRUPT || qualname == ERR_CORRUPT)
		return ERR_CORRUPT;
	if (name < 0 && file < 0)
		return name;
	/* Truncated cores have lost the names that 3.12 and later keep in the runtime itself (_Py_ID); the last part of the long one is the same. */
	for (size_t i = c.qualname.len; name < 0 && i > 0 && !c.name.s; i--)
		if (i == 1 || c.qualname.s[i - 1] == '.')
			c.name = i == 1 && c.qualname.s[0] != '.' ? c.qualname : (struct str){ c.qualname.s + i, c.qualname.len - i };
	*ret = c;
	return 0;
}

enum { LAST_LINE = 256 }; /* bytes of code that one line may well have */

/* A co_lnotab does not say where the last line ends: what lies far behind its last step is held against the length of the code. */
static bool is_behind(const struct py *py, addr_t code, struct blob table, int64_t lasti)
{
	uint64_t size, last = 0;
	addr_t bytes;
	struct object o;

	for (size_t i = 0; i + 1 < table.len; i += 2)
		last += table.p[i];
	return lasti >= 0 && (uint64_t)lasti > last + LAST_LINE && READ(py, code, PyCode, co_code, &bytes) == 0 && object_at(py, bytes, &o) == 0 && o.kind == O_BYTES &&
	       READ(py, bytes, PyBytes, ob_size, &size) == 0 && (uint64_t)lasti >= size;
}

static int position(const struct py *py, addr_t code, struct blob table, int first, int64_t lasti, struct position *ret)
{
	switch (TRAIT(py, line_table)) {
	case LINE_TABLE_LNOTAB:
		if (is_behind(py, code, table, lasti))
			return ERR_CORRUPT;
		return linetable_lnotab(table, first, lasti, TRAIT(py, lnotab_signed) == 1, ret);
	case LINE_TABLE_V310:
		return linetable_310(table, first, lasti, ret);
	case LINE_TABLE_LOCATIONS:
		return linetable_locations(table, first, lasti, ret);
	default:
		return ERR_UNSUPPORTED;
	}
}

int py_code_position(const struct py *py, addr_t code, int64_t lasti, struct position *ret)
{
	struct object o;
	addr_t table, at;
	uint64_t line, size;
	uint8_t few[TABLE_ON_STACK];
	int rc = HAS(py, PyCode, co_linetable) ? READ(py, code, PyCode, co_linetable, &table) :
						 READ(py, code, PyCode, co_lnotab, &table);
	if (rc == 0)
		rc = READ(py, code, PyCode, co_firstlineno, &line);
	if (rc == 0)
		rc = object_at(py, table, &o);
	if (rc < 0)
		return rc;
	int first = (int)(int64_t)line;
	if (o.kind != O_BYTES || lasti < -1)
		return ERR_CORRUPT;
	if ((rc = READ(py, table, PyBytes, ob_size, &size)) < 0 || (rc = READ(py, table, PyBytes, ob_sval, &at)) < 0)
		return rc;
	if (size > TABLE_MAX) /* a negative size too */
		return ERR_CORRUPT;
	if (size <= sizeof few) {
		rc = image_read(py->img, at, few, (size_t)size);
		return rc < 0 ? rc : position(py, code, (struct blob){ few, (size_t)size }, first, lasti, ret);
	}
	CLEANUP(cleanup_arena) struct arena *a = arena_new();
	struct blob all;
	rc = object_bytes(&o, a, (size_t)size, &all, NULL);
	return rc < 0 ? rc : position(py, code, all, first, lasti, ret);
}
