/*
 * Types by identity.  A static type's tp_name lies in .rodata, which an ordinary core leaves out, so types are known
 * through dictionaries in the heap: builtins names most; the functions of importlib, which every 3.x loads at start
 * (also with -S -E; seen on 3.6 - 3.15), show what a function and a code object are.
 */
#include "python/object.h"
#include "python/prove.h"

int py_module_dict_within(const struct py *py, addr_t interp, const char *name, uint64_t *left, addr_t *ret)
{
	addr_t modules = 0, module;

	/* 3.12 moved interp->modules to interp->imports.modules; sys.modules is the same dictionary. */
	int rc = HAS(py, PyInterp, modules) ? READ(py, interp, PyInterp, modules, &modules) : ERR_ABSENT;
	if (rc < 0 || !modules) {
		addr_t sysdict;
		rc = READ(py, interp, PyInterp, sysdict, &sysdict);
		if (rc < 0)
			return rc;
		rc = dict_get_within(py, sysdict, "modules", left, &modules);
		if (rc < 0)
			return rc;
	}
	rc = dict_get_within(py, modules, name, left, &module);
	if (rc < 0)
		return rc;
	return READ(py, module, PyModule, md_dict, ret);
}

int py_module_dict(const struct py *py, addr_t interp, const char *name, addr_t *ret)
{
	uint64_t left = UINT64_MAX;
	return py_module_dict_within(py, interp, name, &left, ret);
}

static int importlib_dict(const struct py *py, addr_t interp, uint64_t *left, addr_t *ret)
{
	addr_t module;

	if (HAS(py, PyInterp, importlib) && READ(py, interp, PyInterp, importlib, &module) == 0 && module &&
	    READ(py, module, PyModule, md_dict, ret) == 0)
		return 0;
	return py_module_dict_within(py, interp, "_frozen_importlib", left, ret);
}

static int type_of(const struct py *py, addr_t obj, addr_t *ret)
{
	return READ(py, obj, PyObject, ob_type, ret);
}

static bool is_type(const struct py *py, addr_t obj)
{
	addr_t t;

	return obj && type_of(py, obj, &t) == 0 && t == py->types.type;
}

/* The type of what most frames' code pointers lead to: where no dictionary can be read any more (a late crash). */
static addr_t commonest_code_type(const struct py *py, addr_t interp)
{
	enum { SEEN = 8, LOOK = 4096 };
	struct { addr_t type; unsigned n; } seen[SEEN] = { 0 };
	struct py_interp in = { .addr = interp };
	struct walk threads = py_threads(py, &in);
	struct py_thread t;
	unsigned looked = 0;

	while (looked < LOOK && py_next_thread(&threads, &t) == 1) {
		struct walk frames = py_frames(py, t.frame);
		struct py_frame f;
		while (looked++ < LOOK && py_next_frame(&frames, &f) == 1) {
			addr_t type;
			if (f.shim || !f.code || type_of(py, f.code, &type) < 0)
				continue;
			for (unsigned i = 0; i < SEEN; i++) {
				if (seen[i].type && seen[i].type != type)
					continue;
				seen[i].type = type;
				seen[i].n++;
				break;
			}
		}
	}
	unsigned best = 0;
	for (unsigned i = 1; i < SEEN; i++)
		if (seen[i].n > seen[best].n)
			best = i;
	/* Up to 3.10 code objects have one size, which a wrong layout does not know. */
	uint64_t size;
	if (!is_type(py, seen[best].type) || (!HAS(py, PyCode, co_code_adaptive) &&
	    (READ(py, seen[best].type, PyType, tp_basicsize, &size) < 0 || size != py->layout.size[S_PyCode])))
		return 0;
	return seen[best].type;
}

/* What types are called in a dictionary that names them, and where they go; at: NOT_KEPT has a meaning of its own. */
enum { NOT_KEPT = -1 };
#define NAMES_MAX 16
struct named_type { const char *name; int at; };

static const struct named_type builtin_types[] = {
	/* 2.7: what is bytes later is str there, and str unicode. */
	{ "object", offsetof(struct py_types, object) }, { "str", offsetof(struct py_types, str) },
	{ "bytes", offsetof(struct py_types, bytes) },   { "int", offsetof(struct py_types, int_) },
	{ "dict", offsetof(struct py_types, dict) },     { "tuple", offsetof(struct py_types, tuple) },
	{ "list", offsetof(struct py_types, list) },     { "float", offsetof(struct py_types, float_) },
	{ "bool", offsetof(struct py_types, bool_) },    { "set", offsetof(struct py_types, set) },
	{ "type", NOT_KEPT }, { "None", NOT_KEPT },
	{ "unicode", NOT_KEPT }, /* only in 2.7: a name that is not there makes the search read every key */
};
enum { BUILTIN_TYPES = sizeof builtin_types / sizeof *builtin_types, AT_TYPE = BUILTIN_TYPES - 3, AT_NONE, AT_UNICODE };
_Static_assert(BUILTIN_TYPES <= NAMES_MAX, "room for every name");

/* Every one of these names in one pass over the dictionary, since each pass reads all its keys. What was found, by index. */
static void named_types_find(struct py *py, addr_t dict, const struct named_type *names, size_t n, uint64_t *left, addr_t found[NAMES_MAX])
{
	const char *keys[NAMES_MAX] = { 0 };

	for (size_t i = 0; i < n; i++) {
		keys[i] = names[i].name;
		found[i] = 0;
	}
	int rc = dict_get_all(py, dict, keys, n, left, found); /* a part is better than nothing */
	(void)rc;
	for (size_t i = 0; i < n; i++)
		if (names[i].at != NOT_KEPT && is_type(py, found[i]))
			*(addr_t *)((char *)&py->types + names[i].at) = found[i];
}

/* 2.7 has no importlib, but a module that names its types; it is there unless Python was started with -S -E. */
static void old_types_find(struct py *py, addr_t interp, uint64_t *left)
{
	static const struct named_type names[] = {
		{ "FunctionType", offsetof(struct py_types, function) }, { "CodeType", offsetof(struct py_types, code) },
		{ "ModuleType", offsetof(struct py_types, module) },     { "InstanceType", offsetof(struct py_types, instance) },
	};
	addr_t dict, found[NAMES_MAX];

	if (py_module_dict_within(py, interp, "types", left, &dict) == 0)
		named_types_find(py, dict, names, sizeof names / sizeof *names, left, found);
}

int types_find(struct py *py, addr_t interp, uint64_t *left, struct proof *ret)
{
	struct py_types *types = &py->types;
	addr_t sysdict, builtins, found;

	*types = (struct py_types){ 0 };
	int rc = READ(py, interp, PyInterp, sysdict, &sysdict);
	if (rc < 0 || !sysdict) {
		ret->half = rc < 0 ? NULL : "sys module";
		snprintf(ret->why, sizeof ret->why, "interpreter 0x%llx has no sys", (unsigned long long)interp);
		return ERR_CORRUPT;
	}
	addr_t dict, type, meta;
	rc = type_of(py, sysdict, &dict);
	if (rc == 0)
		rc = type_of(py, dict, &type);
	if (rc == 0)
		rc = type_of(py, type, &meta);
	if (rc < 0 || type != meta) {
		/* Where sys lies in memory that the process had, the type is cut off; elsewhere this is no pointer to sys. */
		ret->fault = rc == ERR_FAULT && (image_segment_at(py->img, sysdict) || py_is_lost(py, sysdict));
		snprintf(ret->why, sizeof ret->why, ret->fault ? "the type of sys' dictionary is not in the capture" : "type(type) is not type");
		return ERR_CORRUPT;
	}
	types->type = type;
	types->dict = dict;
	/* builtins is cleared late in Py_Finalize: its absence proves nothing, another type named type does. */
	if (READ(py, interp, PyInterp, builtins, &builtins) == 0 && builtins) {
		addr_t names[NAMES_MAX];
		bool wide = TRAIT(py, str_model) == STR_MODEL_WIDE;
		named_types_find(py, builtins, builtin_types, wide ? BUILTIN_TYPES : AT_UNICODE, left, names);
		if (names[AT_TYPE] && names[AT_TYPE] != type) {
			snprintf(ret->why, sizeof ret->why, "builtins.type is not type(dict)'s type");
			return ERR_CORRUPT;
		}
		if (names[AT_NONE] && type_of(py, names[AT_NONE], &types->none_type) == 0)
			types->none = names[AT_NONE];
		if (wide) {
			types->bytes = types->str;
			types->str = is_type(py, names[AT_UNICODE]) ? names[AT_UNICODE] : 0;
		}
		if (types->dict != dict) {
			snprintf(ret->why, sizeof ret->why, "sys' dictionary is no dict");
			return ERR_CORRUPT;
		}
	}
	addr_t module, lib, function, code;
	if (HAS(py, PyInterp, importlib) && READ(py, interp, PyInterp, importlib, &module) == 0 && module &&
	    type_of(py, module, &found) == 0 && is_type(py, found))
		types->module = found;
	if (importlib_dict(py, interp, left, &lib) == 0 && dict_get_within(py, lib, "_find_and_load", left, &function) == 0 &&
	    type_of(py, function, &found) == 0 && is_type(py, found)) {
		types->function = found;
		if (READ(py, function, PyFunction, func_code, &code) == 0 && type_of(py, code, &found) == 0 && is_type(py, found))
			types->code = found;
	}
	if (HAS(py, PyInstance, in_class))
		old_types_find(py, interp, left);
	if (!types->code)
		types->code = commonest_code_type(py, interp);
	return 0;
}
