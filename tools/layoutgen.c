/*
 * layoutgen: DWARF of a CPython (or of tools/probe.c, linked) -> one formats/layouts/V.layout.
 *
 * usage: layoutgen VERSION [-s SOURCE]... CONFIG:WORD:FILE...
 *
 * Each CONFIG:WORD:FILE is one column, read from FILE's own debug info.  Everything is checked: a struct that has two
 * shapes in one file, a member whose width is not that of its kind, a file of another machine all end the run, so
 * that no table is quietly wrong.  The same files give the same text.  Exit status: 0, 1, or 77 for a file without
 * debug info.
 */
#include <dwarf.h>
#include <elfutils/libdw.h>
#include <fcntl.h>
#include <gelf.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "python/layout.h"

enum { NO_DEBUG_INFO = 77 }; /* exit status: nothing is wrong, this file just cannot serve */
enum { MAX_COLUMNS = 16, MAX_SOURCES = 32, MAX_PATH = 200, MAX_DEPTH = 16 };

static _Noreturn void fail(const char *fmt, ...) PRINTF(1, 2);
static _Noreturn void fail(const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	fputs("layoutgen: ", stderr);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
	exit(1);
}

/* -- types by name -- */

struct named {
	const char *name;
	bool found;
	Dwarf_Die die;
	Dwarf_Word size;
};

struct types VEC(struct named);

static int named_cmp(const void *a, const void *b)
{
	return strcmp(((const struct named *)a)->name, ((const struct named *)b)->name);
}

static struct named *types_find(struct types *t, const char *name)
{
	struct named key = { .name = name };
	return bsearch(&key, t->p, t->n, sizeof *t->p, named_cmp);
}

/* "a|b|c" -> each in turn; returns NULL at the end. */
static const char *spelling(const char *all, size_t i, char *buf, size_t size)
{
	for (; i > 0; i--) {
		all = strchr(all, '|');
		if (!all)
			return NULL;
		all++;
	}
	size_t len = strcspn(all, "|");
	if (len >= size)
		fail("%.*s: too long", (int)len, all);
	memcpy(buf, all, len);
	buf[len] = 0;
	return buf;
}

static bool size_of(const char *path, char *type, size_t size)
{
	if (strncmp(path, "$size(", 6) != 0)
		return false;
	snprintf(type, size, "%.*s", (int)strcspn(path + 6, ")"), path + 6);
	return true;
}

static void types_want(struct types *t, const char *name)
{
	for (size_t i = 0; i < t->n; i++)
		if (strcmp(t->p[i].name, name) == 0)
			return;
	vec_push(t)->name = xstrdup(name);
}

static void types_collect(struct types *t)
{
	char buf[MAX_PATH], type[MAX_PATH];
	for (size_t s = 0; s < PY_STRUCT_COUNT; s++)
		for (size_t i = 0; spelling(py_struct_info[s].types, i, buf, sizeof buf); i++)
			types_want(t, buf);
	for (size_t f = 0; f < PY_FIELD_COUNT; f++)
		for (size_t i = 0; spelling(py_field_info[f].paths, i, buf, sizeof buf); i++)
			if (size_of(buf, type, sizeof type))
				types_want(t, type);
	qsort(t->p, t->n, sizeof *t->p, named_cmp);
}

/* A whole type (no declaration) and its size. */
static bool whole(Dwarf_Die *die, Dwarf_Die *ret, Dwarf_Word *size)
{
	if (dwarf_peel_type(die, ret) != 0)
		return false;
	Dwarf_Attribute attr;
	bool declaration = false;
	if (dwarf_attr(ret, DW_AT_declaration, &attr) && dwarf_formflag(&attr, &declaration) == 0 && declaration)
		return false;
	return dwarf_aggregate_size(ret, size) == 0;
}

static void types_scan(struct types *t, Dwarf *dw, const char *file)
{
	Dwarf_CU *cu = NULL;
	Dwarf_Die cu_die;
	uint8_t unit;
	while (dwarf_get_units(dw, cu, &cu, NULL, &unit, &cu_die, NULL) == 0) {
		Dwarf_Die die;
		if (unit != DW_UT_compile || dwarf_child(&cu_die, &die) != 0)
			continue;
		do {
			int tag = dwarf_tag(&die);
			const char *name;
			if ((tag != DW_TAG_structure_type && tag != DW_TAG_typedef) || !(name = dwarf_diename(&die)))
				continue;
			struct named *n = types_find(t, name);
			Dwarf_Die real;
			Dwarf_Word size;
			if (!n || !whole(&die, &real, &size))
				continue;
			if (n->found && n->size != size)
				fail("%s: two types are called %s, of %lu and %lu bytes", file, name,
				     (unsigned long)n->size, (unsigned long)size);
			if (!n->found)
				*n = (struct named){ n->name, true, real, size };
		} while (dwarf_siblingof(&die, &die) == 0);
	}
}

/* -- members -- */

struct place {
	Dwarf_Word byte;
	bool bits;              /* a bit-field: from bit on, count bits, as .layout counts them */
	unsigned bit, count;
	Dwarf_Word size;        /* bytes of the member's type; 0 if it has none (flexible arrays) */
};

static bool constant(Dwarf_Die *die, unsigned name, Dwarf_Word *ret)
{
	Dwarf_Attribute attr;
	return dwarf_attr(die, name, &attr) && dwarf_formudata(&attr, ret) == 0;
}

/* The member called name of die, at *base; unnamed structs and unions are looked through. */
static bool member(Dwarf_Die *die, const char *name, size_t len, bool big_endian, unsigned depth, struct place *ret,
		   Dwarf_Die *ret_type)
{
	Dwarf_Die m;
	if (depth > MAX_DEPTH || dwarf_child(die, &m) != 0)
		return false;
	do {
		if (dwarf_tag(&m) != DW_TAG_member)
			continue;
		Dwarf_Attribute attr;
		Dwarf_Die type, real;
		if (!dwarf_formref_die(dwarf_attr(&m, DW_AT_type, &attr), &type) || dwarf_peel_type(&type, &real) != 0)
			continue;
		Dwarf_Word at = 0, bit = 0, count = 0;
		constant(&m, DW_AT_data_member_location, &at);
		const char *called = dwarf_diename(&m);
		if (!called) {
			struct place inner;
			if (!member(&real, name, len, big_endian, depth + 1, &inner, ret_type))
				continue;
			inner.byte += at;
			*ret = inner;
			return true;
		}
		if (strlen(called) != len || memcmp(called, name, len) != 0)
			continue;
		*ret = (struct place){ .byte = at };
		*ret_type = real;
		if (dwarf_aggregate_size(&real, &ret->size) != 0)
			ret->size = 0;
		if (constant(&m, DW_AT_bit_size, &count)) {
			if (constant(&m, DW_AT_data_bit_offset, &bit)) {
				/* counted from the struct's start */
			} else if (constant(&m, DW_AT_bit_offset, &bit)) {
				/* DWARF 3: from the most significant bit of the storage unit */
				Dwarf_Word unit = ret->size;
				constant(&m, DW_AT_byte_size, &unit);
				bit = at * 8 + (big_endian ? bit : unit * 8 - bit - count);
			}
			ret->bits = true;
			ret->byte = bit / 8;
			ret->bit = (unsigned)(bit % 8);
			ret->count = (unsigned)count;
		}
		return true;
	} while (dwarf_siblingof(&m, &m) == 0);
	return false;
}

static bool path_place(struct types *t, struct named *of, const char *path, bool big_endian, struct place *ret)
{
	char type[MAX_PATH];
	if (strcmp(path, "$size") == 0) {
		*ret = (struct place){ .byte = of->size };
		return true;
	}
	if (size_of(path, type, sizeof type)) {
		struct named *n = types_find(t, type);
		if (!n || !n->found)
			return false;
		*ret = (struct place){ .byte = n->size };
		return true;
	}
	Dwarf_Die die = of->die;
	Dwarf_Word base = 0;
	for (;;) {
		size_t len = strcspn(path, ".");
		Dwarf_Die next;
		if (!member(&die, path, len, big_endian, 0, ret, &next))
			return false;
		ret->byte += base;
		if (!path[len])
			return true;
		base = ret->byte;
		path += len + 1;
		die = next;
	}
}

/* -- a column -- */

struct column {
	const char *config;
	struct layout layout;
	const char *path[PY_FIELD_COUNT];   /* the spelling that was found, for the reader of the table */
};

static struct named *struct_type(struct types *t, size_t s)
{
	char buf[MAX_PATH];
	for (size_t i = 0; spelling(py_struct_info[s].types, i, buf, sizeof buf); i++) {
		struct named *n = types_find(t, buf);
		if (n && n->found)
			return n;
	}
	return NULL;
}

static void fill_field(struct types *t, struct named *of, enum py_field f, struct column *c, const char *file)
{
	const struct py_field_info *info = &py_field_info[f];
	struct layout *l = &c->layout;
	char path[MAX_PATH];
	for (size_t i = 0; spelling(info->paths, i, path, sizeof path); i++) {
		struct place p;
		if (!path_place(t, of, path, l->abi.big_endian, &p))
			continue;
		const char *s = py_struct_info[info->of].name;
		if (p.bits != (info->kind == K_BITS)) {
			/* what is a bit-field in one build is a byte or an int in another: those are bits as well */
			if (p.bits || !p.size || p.size > 4)
				fail("%s: %s.%s is %sa bit-field", file, s, info->name, p.bits ? "" : "not ");
			p.count = 8 * (unsigned)p.size;
		}
		if (info->kind == K_BITS) {
			l->bit[f] = (uint8_t)p.bit;
			l->bits[f] = (uint8_t)p.count;
		}
		unsigned width = layout_width(l, f);
		if (info->kind != K_AT && info->kind != K_BITS && p.size != width)
			fail("%s: %s.%s (%s) has %lu bytes, its kind has %u", file, s, info->name, path,
			     (unsigned long)p.size, width);
		if (p.byte + width > l->size[info->of])
			fail("%s: %s.%s is outside of its struct", file, s, info->name);
		l->offset[f] = (int32_t)p.byte;
		c->path[f] = xstrdup(path);
		return;
	}
}

static void read_column(struct column *c, uint32_t version, const char *word, const char *file)
{
	struct layout *l = &c->layout;
	if (layout_init(l, version, c->config) < 0)
		fail("%s: names no machine", c->config);
	static const char *const words[] = { "derived", "recorded", "proven" };
	while (l->had < 3 && strcmp(word, words[l->had]) != 0)
		l->had++;
	if (l->had == 3)
		fail("%s: is none of proven, recorded, derived", word);
	int fd = open(file, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		fail("%s: cannot be opened", file);
	elf_version(EV_CURRENT);
	Elf *elf = elf_begin(fd, ELF_C_READ_MMAP, NULL);
	GElf_Ehdr head;
	if (!elf || !gelf_getehdr(elf, &head))
		fail("%s: is no ELF file", file);
	if (head.e_machine != l->abi.machine || (head.e_ident[EI_CLASS] == ELFCLASS64) != (l->abi.width == 8) ||
	    (head.e_ident[EI_DATA] == ELFDATA2MSB) != l->abi.big_endian)
		fail("%s: is of another machine than %s", file, c->config);
	if (head.e_type == ET_REL)
		fail("%s: link it first (-shared): names in an object file are not relocated", file);
	Dwarf *dw = dwarf_begin_elf(elf, DWARF_C_READ, NULL);
	if (!dw) {
		fprintf(stderr, "layoutgen: %s: has no debug info\n", file);
		exit(NO_DEBUG_INFO);
	}
	struct types types = { 0 };
	types_collect(&types);
	types_scan(&types, dw, file);
	for (size_t s = 0; s < PY_STRUCT_COUNT; s++) {
		struct named *of = struct_type(&types, s);
		if (!of)
			continue;
		if (of->size == 0 || of->size > LAYOUT_MAX_STRUCT)
			fail("%s: %s has %lu bytes", file, py_struct_info[s].name, (unsigned long)of->size);
		l->size[s] = (uint32_t)of->size;
		for (unsigned i = 0; i < py_struct_info[s].n_fields; i++)
			fill_field(&types, of, (enum py_field)(py_struct_info[s].first + i), c, file);
	}
	if (!l->size[S_PyObject] || !layout_has(l, F_PyObject_ob_type))
		fail("%s: is no CPython: it has no PyObject", file);
	for (size_t i = 0; i < types.n; i++)
		free((char *)types.p[i].name);
	vec_free(&types);
	dwarf_end(dw);
	elf_end(elf);
	close(fd);
}

/* -- the table -- */

static void kind_text(enum py_field f, char *buf, size_t size)
{
	static const char *const word[] = { "ptr", "word", "sword", "u8", "u16", "u32", "u64", "i8", "i32", "i64", "at", "bits" };
	const struct py_field_info *info = &py_field_info[f];
	if (info->kind == K_OFF)
		snprintf(buf, size, "off:%s.%s", py_struct_info[py_field_info[info->off_target].of].name,
			 py_field_info[info->off_target].name);
	else if (info->kind == K_SIZE)
		snprintf(buf, size, "size:%s", py_struct_info[info->size_target].name);
	else
		snprintf(buf, size, "%s", word[info->kind]);
}

static void print_struct(struct column *cols, size_t n, size_t s)
{
	const struct py_struct_info *info = &py_struct_info[s];
	int name_width = 20, kind_width = 5;
	char kind[96];
	for (unsigned i = 0; i < info->n_fields; i++) {
		kind_text((enum py_field)(info->first + i), kind, sizeof kind);
		if ((int)strlen(kind) > kind_width)
			kind_width = (int)strlen(kind);
	}
	printf("\n%-*s %-*s", name_width, info->name, kind_width, "size");
	for (size_t c = 0; c < n; c++) {
		if (cols[c].layout.size[s])
			printf(" %10u", cols[c].layout.size[s]);
		else
			printf(" %10s", "-");
	}
	putchar('\n');
	for (unsigned i = 0; i < info->n_fields; i++) {
		enum py_field f = (enum py_field)(info->first + i);
		kind_text(f, kind, sizeof kind);
		printf("  %-*s %-*s", name_width - 2, py_field_info[f].name, kind_width, kind);
		const char *path = NULL;
		for (size_t c = 0; c < n; c++) {
			const struct layout *l = &cols[c].layout;
			char cell[48] = "-";
			if (l->offset[f] >= 0 && py_field_info[f].kind == K_BITS)
				snprintf(cell, sizeof cell, "%d:%u+%u", l->offset[f], l->bit[f], l->bits[f]);
			else if (l->offset[f] >= 0)
				snprintf(cell, sizeof cell, "%d", l->offset[f]);
			printf(" %10s", cell);
			if (!path)
				path = cols[c].path[f];
		}
		if (path)
			printf("   # %s", path);
		putchar('\n');
	}
}

int main(int argc, char **argv)
{
	static struct column cols[MAX_COLUMNS];
	const char *sources[MAX_SOURCES], *words[MAX_COLUMNS];
	size_t n = 0, n_sources = 0;
	unsigned major, minor, micro = 0;
	char rest;
	if (argc < 3 || (sscanf(argv[1], "%3u.%3u%c", &major, &minor, &rest) != 2 &&
			 sscanf(argv[1], "%3u.%3u.%3u%c", &major, &minor, &micro, &rest) != 3) ||
	    major > 255 || minor > 255 || micro > 255)
		fail("usage: layoutgen VERSION [-s SOURCE]... CONFIG:WORD:FILE...");
	uint32_t version = major << 24 | minor << 16 | micro << 8;
	for (int i = 2; i < argc; i++) {
		if (strcmp(argv[i], "-s") == 0 && i + 1 < argc && n_sources < MAX_SOURCES) {
			sources[n_sources++] = argv[++i];
			continue;
		}
		char *word = strchr(argv[i], ':'), *file = word ? strchr(word + 1, ':') : NULL;
		if (!file || n == MAX_COLUMNS)
			fail("%s: expected CONFIG:WORD:FILE", argv[i]);
		*word++ = *file++ = 0;
		cols[n].config = argv[i];
		words[n] = word;
		read_column(&cols[n], version, word, file);
		n++;
	}
	if (n == 0)
		fail("no columns");
	printf("# Generated by tools/layoutgen from DWARF; the grammar is told in src/python/layout.c.\n");
	printf("layout %s\n%-26s", argv[1], "config");
	for (size_t c = 0; c < n; c++)
		printf(" %10s", cols[c].config);
	printf("\n%-26s", "had");
	for (size_t c = 0; c < n; c++)
		printf(" %10s", words[c]);
	putchar('\n');
	for (size_t i = 0; i < n_sources; i++)
		printf("source %s\n", sources[i]);
	for (size_t s = 0; s < PY_STRUCT_COUNT; s++)
		print_struct(cols, n, s);
	return fflush(stdout) == 0 && !ferror(stdout) ? 0 : 1;
}
