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

enum py_kind { K_PTR, K_WORD, K_SWORD, K_U8, K_U16, K_U32, K_U64, K_I8, K_I32, K_I64, K_AT, K_BITS, K_OFF, K_SIZE };
enum layout_from { FROM_NONE, FROM_TABLE, FROM_FILE, FROM_DWARF, FROM_SELF };
/* How a column was had: a live interpreter of that build agreed; read from its DWARF; concluded from another one. */
enum layout_had { HAD_DERIVED, HAD_RECORDED, HAD_PROVEN };

/* What formats/cpython.fields says of structs and fields, cpython.traits of traits; generated. */
struct py_struct_info { const char *name, *types; enum py_field first; unsigned n_fields; };
struct py_field_info { const char *name; enum py_struct of; uint8_t kind; enum py_field off_target; enum py_struct size_target; const char *paths; };
extern const struct py_struct_info py_struct_info[PY_STRUCT_COUNT];
extern const struct py_field_info py_field_info[PY_FIELD_COUNT];
enum py_trait_cond { TRAIT_ALWAYS, TRAIT_IF_HAS, TRAIT_IF_LACKS, TRAIT_IF_SIZE };
/* Where the versions [from, to] and the condition (target: a field or struct) fit, the trait has this value; the last row counts. */
struct py_trait_row { enum py_trait trait; uint8_t cond; int32_t value; uint32_t from, to; unsigned target; uint32_t n; };
extern const char *const py_trait_name[PY_TRAIT_COUNT];
extern const struct py_trait_row py_trait_rows[PY_TRAIT_ROWS];

enum { LAYOUT_MAX_STRUCT = 16 << 20 };       /* no struct of CPython is larger: 3.12's PyRuntime has 460 kB */

struct layout {
	uint32_t version;                    /* as PY_VERSION_HEX: what the table is for (its first version) */
	char name[32];                       /* "3.12 x86_64": table and column, for messages */
	struct abi abi;
	uint8_t had;                         /* enum layout_had */
	uint32_t size[PY_STRUCT_COUNT];      /* bytes; 0: no such struct here */
	int32_t offset[PY_FIELD_COUNT];      /* bytes from the struct's start; -1: no such field here */
	uint8_t bit[PY_FIELD_COUNT], bits[PY_FIELD_COUNT]; /* of kind bits */
	uint8_t from[PY_FIELD_COUNT];        /* enum layout_from */
	int32_t trait[PY_TRAIT_COUNT];       /* -1: means nothing in this version */
};

/*
 * Text of a .layout file (the grammar is told in layout.c) -> one column of it; every field FROM_FILE.
 * ERR_ABSENT: no such column; ERR_CORRUPT: anything the grammar does not know, the message begins "line N: ".
 */
int layout_parse(struct str text, const char *config, struct layout *ret, struct err *err) MUST_CHECK;
/*
 * The table that is in force for version: the newest one that is not newer, of the same minor version, since offsets of
 * another minor are a guess that its caller must ask for.  config: "x86_64", "x86_64-d", ...  Traits are those of
 * version itself.  ERR_ABSENT.
 */
int layout_builtin(uint32_t version, const char *config, struct layout *ret, struct err *err) MUST_CHECK;
/* All (version, config) pairs built in, newest first: i = 0, 1, ... until ERR_ABSENT. */
int layout_builtin_at(size_t i, uint32_t *version, const char **config) MUST_CHECK;
/*
 * Overlay from a 3.13+ process's own _Py_DebugOffsets at the runtime's start; every value is checked against the struct
 * sizes it states.  Its shape is that of l's own minor version.  Returns how many fields were taken; *differ (may be
 * NULL) how many disagreed with the table.  l is untouched on failure: ERR_ABSENT: l knows no such struct; ERR_CORRUPT:
 * no cookie, or values that cannot be; ERR_UNSUPPORTED: of another minor version or threading than l; ERR_FAULT.
 */
int layout_from_self(struct image *img, addr_t runtime, struct layout *l, unsigned *differ) MUST_CHECK;
/* What _Py_DebugOffsets says in the words that no version has moved (cookie, version, free_threaded). Errors as above. */
int layout_self_version(struct image *img, addr_t runtime, uint32_t *version, bool *free_threaded) MUST_CHECK;
/* A text of one column that layout_parse reads back to the same. */
void layout_print(const struct layout *l, const char *config, FILE *out);
/* Set l->trait[] for l->version from formats/cpython.traits (done by parse and builtin). */
void layout_set_traits(struct layout *l);
/* No fields at all, for this version and config; ERR_ABSENT: config names no machine. */
int layout_init(struct layout *l, uint32_t version, const char *config) MUST_CHECK;
/* Bytes that a field takes (0 for K_AT), for l's machine. */
unsigned layout_width(const struct layout *l, enum py_field f);

bool layout_has(const struct layout *l, enum py_field f);
/* The field of the struct at obj. K_AT gives the address itself.  ERR_ABSENT: no such field; ERR_FAULT: not captured or obj is 0. */
int layout_read(struct image *img, const struct layout *l, addr_t obj, enum py_field f, uint64_t *ret) MUST_CHECK;

#define HAS(py, S, f) layout_has(&(py)->layout, F_##S##_##f)
#define READ(py, addr, S, f, ret) layout_read((py)->img, &(py)->layout, (addr), F_##S##_##f, (ret))
#define TRAIT(py, t) ((py)->layout.trait[T_##t])

#endif
