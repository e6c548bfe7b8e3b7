/*
 * Where CPython's fields are in one build: parsed from a .layout text, from DWARF or from the process's own
 * _Py_DebugOffsets.  Fields and their kinds come from formats/cpython.fields, traits from formats/cpython.traits;
 * both become enums in fields.gen.h, so a misspelt field does not compile.
 */
#ifndef PYTHON_LAYOUT_H
#define PYTHON_LAYOUT_H

#include <stdio.h>

#include "image/image.h"
#include "fields.gen.h" /* enum py_struct S_*, enum py_field F_STRUCT_FIELD, enum py_trait T_*; PY_STRUCT_COUNT ... */

enum py_kind { K_PTR, K_WORD, K_U8, K_U16, K_U32, K_U64, K_I32, K_I64, K_AT, K_BITS, K_OFF };
enum layout_from { FROM_NONE, FROM_TABLE, FROM_FILE, FROM_DWARF, FROM_SELF };

/* What formats/cpython.fields says of a field and a struct; generated. */
struct py_field_info { const char *name; enum py_struct of; uint8_t kind; enum py_field off_target; };
extern const struct py_field_info py_field_info[PY_FIELD_COUNT];
extern const char *const py_struct_name[PY_STRUCT_COUNT];
extern const char *const py_trait_name[PY_TRAIT_COUNT];

struct layout {
	uint32_t version;                    /* as PY_VERSION_HEX: what the table is for (its first version) */
	char name[32];                       /* "3.12 x86_64": table and column, for messages */
	struct abi abi;
	uint32_t size[PY_STRUCT_COUNT];      /* bytes; 0: no such struct here */
	int32_t offset[PY_FIELD_COUNT];      /* bytes from the struct's start; -1: no such field here */
	uint8_t bit[PY_FIELD_COUNT], bits[PY_FIELD_COUNT]; /* of kind bits */
	uint8_t from[PY_FIELD_COUNT];        /* enum layout_from */
	int32_t trait[PY_TRAIT_COUNT];
};

/* Text of a .layout file -> one column of it. */
int layout_parse(struct str text, const char *config, struct layout *ret, struct err *err) MUST_CHECK;
/* The table that is in force for version (the newest not newer), column config ("x86_64", "x86_64-d", ...). ERR_ABSENT. */
int layout_builtin(uint32_t version, const char *config, struct layout *ret, struct err *err) MUST_CHECK;
/* All (version, config) pairs built in, newest first: i = 0, 1, ... until ERR_ABSENT. */
int layout_builtin_at(size_t i, uint32_t *version, const char **config) MUST_CHECK;
/* Overlay from a 3.13+ process's own _Py_DebugOffsets at the runtime's start; every value is checked against the struct
 * sizes it states and against l->size.  Returns how many fields were taken; *differ (may be NULL) how many disagreed with the table. */
int layout_from_self(struct image *img, addr_t runtime, struct layout *l, unsigned *differ) MUST_CHECK;
/* A layout_parse-able text of one column. */
void layout_print(const struct layout *l, const char *config, FILE *out);
/* Set l->trait[] for l->version from formats/cpython.traits (done by parse and builtin). */
void layout_set_traits(struct layout *l);

bool layout_has(const struct layout *l, enum py_field f);
/* The field of the struct at obj. K_AT gives the address itself.  ERR_ABSENT: no such field; ERR_FAULT: not captured or obj is 0. */
int layout_read(struct image *img, const struct layout *l, addr_t obj, enum py_field f, uint64_t *ret) MUST_CHECK;

#define HAS(py, S, f) layout_has(&(py)->layout, F_##S##_##f)
#define READ(py, addr, S, f, ret) layout_read((py)->img, &(py)->layout, (addr), F_##S##_##f, (ret))
#define TRAIT(py, t) ((py)->layout.trait[T_##t])

#endif
