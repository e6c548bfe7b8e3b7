/* Views of objects: what they are by type flags and identity, ints, text, sequences, dictionaries, attributes. */
#ifndef PYTHON_OBJECT_H
#define PYTHON_OBJECT_H

#include "python/py.h"

enum object_kind { O_OTHER, O_STR, O_BYTES, O_INT, O_TUPLE, O_LIST, O_DICT, O_TYPE, O_EXCEPTION };
/* A view: owns nothing, holds no memory of the image. */
struct object {
	const struct py *py;
	addr_t addr, type;
	uint64_t flags;           /* the type's tp_flags */
	uint8_t kind;             /* enum object_kind, by tp_flags' fast-subclass bits */
};
/* ERR_FAULT: not captured; ERR_CORRUPT: what stands there has no type whose own type leads to `type`. */
int object_at(const struct py *py, addr_t addr, struct object *ret) MUST_CHECK;
/* int (2.7: or long) -> 64 bits; ERR_LIMIT when it does not fit. */
int object_int(const struct object *o, int64_t *ret) MUST_CHECK;
/* str -> UTF-8, at most max code points; lone surrogates as \udNNN text.  *total (may be NULL): length in code points. */
int object_text(const struct object *o, struct arena *a, size_t max, struct str *ret, uint64_t *total) MUST_CHECK;
/* Does the str hold exactly these ASCII characters?  1, 0, or ERR_*: reads no more than it must. */
int object_text_is(const struct object *o, const char *ascii) MUST_CHECK;
/* The same of bytes. */
int object_bytes_is(const struct object *o, const char *ascii) MUST_CHECK;
/* The code point (2.7: unit) of a str, or the byte of a bytes, at i; ERR_ABSENT past the end. */
int object_unit(const struct object *o, uint64_t i, uint32_t *ret) MUST_CHECK;
int object_bytes(const struct object *o, struct arena *a, size_t max, struct blob *ret, uint64_t *total) MUST_CHECK;
/* tuple, list. */
int object_length(const struct object *o, uint64_t *ret) MUST_CHECK;
/* ERR_ABSENT past the end; *ret may be 0 in a sequence that was being built. */
int object_item(const struct object *o, uint64_t i, addr_t *ret) MUST_CHECK;

/* dict: a bounded walk over the entries that are alive, in order of insertion (split ones: in order of the keys). */
struct dict_walk { const struct py *py; addr_t keys, values, entries; uint64_t i, n; uint8_t shape; };
enum { DICT_MAX_ENTRIES = 1 << 26 };  /* a walk ends with ERR_LIMIT there */
int dict_begin(const struct py *py, addr_t dict, struct dict_walk *ret) MUST_CHECK;
/* The same over an instance's values (a PyDictValues, or an array before 3.11) with the names of a type's shared keys. */
int dict_begin_values(const struct py *py, addr_t keys, addr_t values, struct dict_walk *ret) MUST_CHECK;
int dict_next(struct dict_walk *w, addr_t *key, addr_t *value) MUST_CHECK; /* 1, 0 at the end, <0 */
int dict_get(const struct py *py, addr_t dict, const char *key, addr_t *ret) MUST_CHECK; /* by str (or 2.7 bytes) key; ERR_ABSENT */
/*
 * Several names in one pass: ret[i] is the value of keys[i], 0 where there is none. How many were found; <0 where the dictionary
 * broke off, and ret then holds what came before.  *entries: how many may be looked at, of several dictionaries together; they are counted off.
 */
int dict_get_all(const struct py *py, addr_t dict, const char *const *keys, size_t n, uint64_t *entries, addr_t *ret) MUST_CHECK;
int dict_find(struct dict_walk *w, const char *key, addr_t *ret) MUST_CHECK;             /* the same from where a walk stands */
/* The same; of many dictionaries together no more than *left entries are looked at, which are counted off.  ERR_LIMIT. */
int dict_find_within(struct dict_walk *w, const char *key, uint64_t *left, addr_t *ret) MUST_CHECK;
int dict_get_within(const struct py *py, addr_t dict, const char *key, uint64_t *left, addr_t *ret) MUST_CHECK;
/* The walk ends n entries further on at the latest; those count too that dict_next passes over. */
void dict_most(struct dict_walk *w, uint64_t n);

/* Where 3.11 and later keep the attributes of an instance of an ordinary class; 0: not there.  ERR_ABSENT: it is none. */
struct object_managed { addr_t dict, values /* outside of a dictionary */; };
int object_managed(const struct object *o, struct object_managed *ret) MUST_CHECK;
int object_managed_values(const struct object *o, addr_t values, struct dict_walk *ret) MUST_CHECK;

/* A walk over the attributes that the next one looks through, mostly in the order in which they were set first. */
int object_attrs(const struct object *o, struct dict_walk *ret) MUST_CHECK;
/* An instance attribute kept in the instance (dict, split or inline values; 2.7's old-style ones too); not from the class. ERR_ABSENT. */
int object_attr(const struct object *o, const char *name, addr_t *ret) MUST_CHECK;
int object_attr_within(const struct object *o, const char *name, uint64_t *left, addr_t *ret) MUST_CHECK; /* as dict_find_within */
/* The name of a type if it can be read: ht_name of heap types, tp_name of static ones where .rodata is there. */
int type_name(const struct py *py, addr_t type, struct arena *a, struct str *ret) MUST_CHECK;

#endif
