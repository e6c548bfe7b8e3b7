/*
 * A layout: parsed from text, printed as text, read through.
 *
 * The text, one statement a line, # starts a comment:
 *
 *	file   = "layout" VERSION  "config" NAME+  "had" WORD+  ( "source" TEXT )*  ( struct | trait )*
 *	struct = NAME "size" ( SIZE | "-" )+  ( FIELD KIND cell+ )*
 *	cell   = OFFSET | BYTE ":" BIT "+" COUNT (kind bits) | "-" (this build has no such field)
 *	trait  = "trait" NAME NUMBER+
 *
 * A column a config, so every statement has as many cells as there are configs.  WORD: proven, recorded, derived.
 * NAME, FIELD and KIND are those of formats/cpython.fields.  BIT counts from the least significant bit of the byte at
 * BYTE where the machine is little-endian, else from the most significant one (as DW_AT_data_bit_offset does).
 */
#include "python/layout.h"

#include <elf.h>
#include <string.h>

enum { MAX_CONFIGS = 16, MAX_WORDS = MAX_CONFIGS + 2, MAX_TEXT = 1 << 20 };

/* A config is a machine, alone or of a debug (-d), free-threaded (-t) build, or both. */
#define CONFIGS(m) { m, m "-d", m "-t", m "-d-t" }
static const struct machine { const char *config[4]; struct abi abi; } machines[] = {
	{ CONFIGS("x86_64"), { EM_X86_64, 8, false } },
	{ CONFIGS("aarch64"), { EM_AARCH64, 8, false } },
	{ CONFIGS("riscv64"), { EM_RISCV, 8, false } },
	{ CONFIGS("ppc64le"), { EM_PPC64, 8, false } },
	{ CONFIGS("ppc64"), { EM_PPC64, 8, true } },
	{ CONFIGS("s390x"), { EM_S390, 8, true } },
	{ CONFIGS("i386"), { EM_386, 4, false } },
	{ CONFIGS("arm"), { EM_ARM, 4, false } },
	{ CONFIGS("mips"), { EM_MIPS, 4, true } },
};
enum { N_CONFIGS = 4 * sizeof machines / sizeof *machines };

static const char *const had_word[] = { [HAD_DERIVED] = "derived", [HAD_RECORDED] = "recorded", [HAD_PROVEN] = "proven" };

static const char *const kind_word[] = {
	[K_PTR] = "ptr", [K_WORD] = "word", [K_SWORD] = "sword", [K_U8] = "u8", [K_U16] = "u16", [K_U32] = "u32",
	[K_U64] = "u64", [K_I8] = "i8", [K_I32] = "i32", [K_I64] = "i64", [K_AT] = "at", [K_BITS] = "bits",
	[K_OFF] = "off", [K_SIZE] = "size",
};

/* A word of the text: not terminated. */
struct word { const char *s; size_t len; };

static bool word_is(struct word w, const char *s)
{
	return w.len == strlen(s) && memcmp(w.s, s, w.len) == 0;
}

unsigned layout_width(const struct layout *l, enum py_field f)
{
	switch (py_field_info[f].kind) {
	case K_U8: case K_I8: return 1;
	case K_U16: return 2;
	case K_U32: case K_I32: return 4;
	case K_U64: case K_I64: case K_OFF: case K_SIZE: return 8;
	case K_PTR: case K_WORD: case K_SWORD: return l->abi.width;
	case K_BITS: return ((unsigned)l->bit[f] + l->bits[f] + 7) / 8;
	default: return 0;
	}
}

bool layout_has(const struct layout *l, enum py_field f)
{
	return l->offset[f] >= 0;
}

static uint64_t sign_extend(uint64_t v, unsigned width)
{
	if (width == 0 || width >= 8)
		return v;
	uint64_t sign = (uint64_t)1 << (8 * width - 1);
	return (v ^ sign) - sign;
}

int layout_read(struct image *img, const struct layout *l, addr_t obj, enum py_field f, uint64_t *ret)
{
	if (l->offset[f] < 0)
		return ERR_ABSENT;
	addr_t at;
	if (obj == 0 || !add_fits(obj, (uint64_t)l->offset[f], &at))
		return ERR_FAULT;
	unsigned kind = py_field_info[f].kind, width = layout_width(l, f);
	if (kind == K_AT) {
		*ret = at;
		return 0;
	}
	uint64_t v;
	int rc = image_read_uint(img, at, width, &v);
	if (rc < 0)
		return rc;
	if (kind == K_BITS) {
		unsigned shift = l->abi.big_endian ? 8 * width - l->bit[f] - l->bits[f] : l->bit[f];
		v = v >> shift & (((uint64_t)1 << l->bits[f]) - 1);
	} else if (kind == K_I8 || kind == K_I32 || kind == K_I64 || kind == K_SWORD) {
		v = sign_extend(v, width);
	}
	*ret = v;
	return 0;
}

static bool trait_fits(const struct layout *l, const struct py_trait_row *row, uint32_t version)
{
	if (version < row->from || version > row->to)
		return false;
	switch (row->cond) {
	case TRAIT_IF_HAS: return l->offset[row->target] >= 0;
	case TRAIT_IF_LACKS: return l->offset[row->target] < 0;
	case TRAIT_IF_SIZE: return l->size[row->target] == row->n;
	default: return true;
	}
}

static void set_traits(struct layout *l, uint32_t version)
{
	for (size_t i = 0; i < PY_TRAIT_COUNT; i++)
		l->trait[i] = -1;
	for (size_t i = 0; i < PY_TRAIT_ROWS; i++)
		if (trait_fits(l, &py_trait_rows[i], version))
			l->trait[py_trait_rows[i].trait] = py_trait_rows[i].value;
}

void layout_set_traits(struct layout *l)
{
	set_traits(l, l->version);
}

static void version_text(uint32_t version, char *buf, size_t size)
{
	unsigned micro = version >> 8 & 0xff;
	if (micro)
		snprintf(buf, size, "%u.%u.%u", version >> 24, version >> 16 & 0xff, micro);
	else
		snprintf(buf, size, "%u.%u", version >> 24, version >> 16 & 0xff);
}

int layout_init(struct layout *l, uint32_t version, const char *config)
{
	for (size_t i = 0; i < N_CONFIGS; i++) {
		if (strcmp(config, machines[i / 4].config[i % 4]) != 0)
			continue;
		*l = (struct layout){ .version = version, .abi = machines[i / 4].abi };
		for (size_t f = 0; f < PY_FIELD_COUNT; f++)
			l->offset[f] = -1;
		char text[16];
		version_text(version, text, sizeof text);
		snprintf(l->name, sizeof l->name, "%s %s", text, config);
		layout_set_traits(l);
		return 0;
	}
	return ERR_ABSENT;
}

/* -- parsing -- */

struct parser {
	const char *pos, *end;
	unsigned line;                  /* of the statement in word[], from 1 */
	struct word word[MAX_WORDS];
	size_t n;
	uint32_t version;
	struct word config[MAX_CONFIGS];
	size_t n_configs, column;
	uint8_t had[MAX_CONFIGS];
	struct err *err;
};

static bool is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\r';
}

/* A word as a message may show it: short, and nothing that a terminal would act upon. */
struct shown { char s[48]; };
static struct shown show(struct word w)
{
	struct shown ret = { "" };
	size_t n = w.len < sizeof ret.s - 4 ? w.len : sizeof ret.s - 4;
	for (size_t i = 0; i < n; i++)
		ret.s[i] = w.s[i] > ' ' && w.s[i] < 0x7f ? w.s[i] : '?';
	if (n < w.len)
		memcpy(ret.s + n, "...", 4);
	return ret;
}

static int bad(struct parser *p, const char *fmt, ...) PRINTF(2, 3);
static int bad(struct parser *p, const char *fmt, ...)
{
	char text[256];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	return err_set(p->err, ERR_CORRUPT, "line %u: %s", p->line ? p->line : 1, text);
}

/* The next statement into p->word: 1, 0 at the end, or ERR_CORRUPT. */
static int next_statement(struct parser *p)
{
	while (p->pos < p->end) {
		const char *nl = memchr(p->pos, '\n', (size_t)(p->end - p->pos));
		const char *stop = nl ? nl : p->end, *next = nl ? nl + 1 : p->end;
		const char *hash = memchr(p->pos, '#', (size_t)(stop - p->pos));
		const char *at = p->pos;
		if (hash)
			stop = hash;
		p->line++;
		p->pos = next;
		p->n = 0;
		bool source = false;
		while (at < stop) {
			if (is_blank(*at)) {
				at++;
				continue;
			}
			const char *begin = at;
			while (at < stop && !is_blank(*at))
				at++;
			struct word w = { begin, (size_t)(at - begin) };
			source = source || (p->n == 0 && word_is(w, "source"));
			if (p->n < MAX_WORDS)
				p->word[p->n++] = w;
			else if (!source)
				return bad(p, "more than %d words", (int)MAX_WORDS);
		}
		if (p->n)
			return 1;
	}
	return 0;
}

/* Digits of w from *at on -> *ret; false if there are none or the number is over max. */
static bool take_number(struct word w, size_t *at, uint32_t max, uint32_t *ret)
{
	uint64_t v = 0;
	size_t i = *at;
	for (; i < w.len && w.s[i] >= '0' && w.s[i] <= '9'; i++) {
		v = v * 10 + (uint64_t)(w.s[i] - '0');
		if (v > max)
			return false;
	}
	if (i == *at)
		return false;
	*at = i;
	*ret = (uint32_t)v;
	return true;
}

static bool whole_number(struct word w, uint32_t max, uint32_t *ret)
{
	size_t at = 0;
	return take_number(w, &at, max, ret) && at == w.len;
}

static bool take_char(struct word w, size_t *at, char c)
{
	if (*at >= w.len || w.s[*at] != c)
		return false;
	++*at;
	return true;
}

/* "3.11" or "3.13.1" as PY_VERSION_HEX of the first thing so called. */
static bool parse_version(struct word w, uint32_t *ret)
{
	size_t at = 0;
	uint32_t major, minor, micro = 0;
	if (!take_number(w, &at, 255, &major) || !take_char(w, &at, '.') || !take_number(w, &at, 255, &minor))
		return false;
	if (at < w.len && (!take_char(w, &at, '.') || !take_number(w, &at, 255, &micro)))
		return false;
	if (at != w.len)
		return false;
	*ret = major << 24 | minor << 16 | micro << 8;
	return true;
}

/* The three statements that a file begins with. */
static int parse_head(struct parser *p)
{
	int rc = next_statement(p);
	if (rc <= 0 || p->n != 2 || !word_is(p->word[0], "layout") || !parse_version(p->word[1], &p->version))
		return rc < 0 ? rc : bad(p, "expected: layout VERSION");
	rc = next_statement(p);
	if (rc <= 0 || p->n < 2 || !word_is(p->word[0], "config"))
		return rc < 0 ? rc : bad(p, "expected: config NAME...");
	p->n_configs = p->n - 1;
	if (p->n_configs > MAX_CONFIGS)
		return bad(p, "more than %d configs", (int)MAX_CONFIGS);
	for (size_t i = 0; i < p->n_configs; i++) {
		p->config[i] = p->word[i + 1];
		for (size_t j = 0; j < i; j++)
			if (p->config[i].len == p->config[j].len &&
			    memcmp(p->config[i].s, p->config[j].s, p->config[i].len) == 0)
				return bad(p, "config %s is there already", show(p->config[i]).s);
	}
	rc = next_statement(p);
	if (rc <= 0 || p->n < 2 || !word_is(p->word[0], "had"))
		return rc < 0 ? rc : bad(p, "expected: had WORD...");
	if (p->n - 1 != p->n_configs)
		return bad(p, "%zu cells for %zu configs", p->n - 1, p->n_configs);
	for (size_t i = 0; i < p->n_configs; i++) {
		uint8_t had = 0;
		while (had <= HAD_PROVEN && !word_is(p->word[i + 1], had_word[had]))
			had++;
		if (had > HAD_PROVEN)
			return bad(p, "unknown word %s; known: proven, recorded, derived", show(p->word[i + 1]).s);
		p->had[i] = had;
	}
	return 0;
}

/* What the parser remembers besides the layout: which statements it has seen. */
struct seen {
	bool structs[PY_STRUCT_COUNT], fields[PY_FIELD_COUNT], traits[PY_TRAIT_COUNT];
	int32_t trait[PY_TRAIT_COUNT];
};

static int parse_struct(struct parser *p, struct layout *l, struct seen *seen, size_t *current)
{
	size_t s = 0;
	while (s < PY_STRUCT_COUNT && !word_is(p->word[0], py_struct_info[s].name))
		s++;
	if (s == PY_STRUCT_COUNT)
		return bad(p, "unknown struct %s", show(p->word[0]).s);
	if (seen->structs[s])
		return bad(p, "struct %s is there already", py_struct_info[s].name);
	seen->structs[s] = true;
	*current = s;
	if (p->n - 2 != p->n_configs)
		return bad(p, "%zu cells for %zu configs", p->n - 2, p->n_configs);
	struct word cell = p->word[2 + p->column];
	if (word_is(cell, "-"))
		return 0;
	if (!whole_number(cell, LAYOUT_MAX_STRUCT, &l->size[s]) || l->size[s] == 0)
		return bad(p, "%s is no size of a struct", show(cell).s);
	return 0;
}

static bool kind_fits(enum py_field f, struct word w)
{
	const struct py_field_info *info = &py_field_info[f];
	char text[128];
	const char *want = kind_word[info->kind];
	if (info->kind == K_OFF) {
		snprintf(text, sizeof text, "off:%s.%s", py_struct_info[py_field_info[info->off_target].of].name,
			 py_field_info[info->off_target].name);
		want = text;
	} else if (info->kind == K_SIZE) {
		snprintf(text, sizeof text, "size:%s", py_struct_info[info->size_target].name);
		want = text;
	}
	return word_is(w, want);
}

static int parse_field(struct parser *p, struct layout *l, struct seen *seen, size_t current, size_t *hint)
{
	if (current == PY_STRUCT_COUNT)
		return bad(p, "unknown statement %s", show(p->word[0]).s);
	const struct py_struct_info *s = &py_struct_info[current];
	/* Tables are in the order of cpython.fields, so the next one is usually it. */
	size_t i = *hint < s->n_fields && word_is(p->word[0], py_field_info[s->first + *hint].name) ? *hint : 0;
	while (i < s->n_fields && !word_is(p->word[0], py_field_info[s->first + i].name))
		i++;
	if (i == s->n_fields)
		return bad(p, "unknown field %s of %s", show(p->word[0]).s, s->name);
	*hint = i + 1;
	enum py_field f = (enum py_field)(s->first + i);
	if (seen->fields[f])
		return bad(p, "field %s of %s is there already", py_field_info[f].name, s->name);
	seen->fields[f] = true;
	if (p->n < 2 || !kind_fits(f, p->word[1]))
		return bad(p, "field %s of %s is not of kind %s", py_field_info[f].name, s->name,
			   p->n < 2 ? "(none)" : show(p->word[1]).s);
	if (p->n - 2 != p->n_configs)
		return bad(p, "%zu cells for %zu configs", p->n - 2, p->n_configs);
	struct word cell = p->word[2 + p->column];
	if (word_is(cell, "-"))
		return 0;
	size_t at = 0;
	uint32_t offset, bit = 0, bits = 0;
	bool ok = take_number(cell, &at, LAYOUT_MAX_STRUCT, &offset);
	if (ok && py_field_info[f].kind == K_BITS)
		ok = take_char(cell, &at, ':') && take_number(cell, &at, 31, &bit) && take_char(cell, &at, '+') &&
		     take_number(cell, &at, 32, &bits) && bits > 0;
	if (!ok || at != cell.len)
		return bad(p, "malformed cell %s", show(cell).s);
	l->bit[f] = (uint8_t)bit;
	l->bits[f] = (uint8_t)bits;
	if (offset + layout_width(l, f) > l->size[current])
		return bad(p, "field %s at %u is outside of %s, which has %u bytes", py_field_info[f].name, offset,
			   s->name, l->size[current]);
	l->offset[f] = (int32_t)offset;
	l->from[f] = FROM_FILE;
	return 0;
}

static int parse_trait(struct parser *p, struct seen *seen)
{
	size_t t = 0;
	while (t < PY_TRAIT_COUNT && (p->n < 2 || !word_is(p->word[1], py_trait_name[t])))
		t++;
	if (t == PY_TRAIT_COUNT)
		return bad(p, "unknown trait %s", p->n < 2 ? "(none)" : show(p->word[1]).s);
	if (seen->traits[t])
		return bad(p, "trait %s is there already", py_trait_name[t]);
	seen->traits[t] = true;
	if (p->n - 2 != p->n_configs)
		return bad(p, "%zu cells for %zu configs", p->n - 2, p->n_configs);
	struct word cell = p->word[2 + p->column];
	bool minus = cell.s[0] == '-';
	uint32_t v;
	if (!whole_number((struct word){ cell.s + minus, cell.len - minus }, 1000000, &v))
		return bad(p, "malformed cell %s", show(cell).s);
	seen->trait[t] = minus ? -(int32_t)v : (int32_t)v;
	return 0;
}

static int parse(struct str text, const char *config, uint32_t version, uint8_t from, struct layout *ret, struct err *err)
{
	if (!text.s)
		text = STR("");
	if (text.len > MAX_TEXT)
		return err_set(err, ERR_CORRUPT, "line 1: a text of more than 1 MiB");
	struct parser p = { .pos = text.s, .end = text.s + text.len, .err = err };
	int rc = parse_head(&p);
	if (rc < 0)
		return rc;
	while (p.column < p.n_configs && !word_is(p.config[p.column], config))
		p.column++;
	if (p.column == p.n_configs)
		return err_set(err, ERR_ABSENT, "no column %s", config);
	CLEANUP(cleanup_free) struct layout *l = xcalloc(1, sizeof *l);
	CLEANUP(cleanup_free) struct seen *seen = xcalloc(1, sizeof *seen);
	if (layout_init(l, p.version, config) < 0)
		return err_set(err, ERR_CORRUPT, "line 2: config %s names no machine",
			       show(p.config[p.column]).s);
	l->had = p.had[p.column];
	size_t current = PY_STRUCT_COUNT, hint = 0;
	while ((rc = next_statement(&p)) > 0) {
		if (word_is(p.word[0], "source")) {
			rc = 0;
		} else if (word_is(p.word[0], "trait")) {
			rc = parse_trait(&p, seen);
		} else if (p.n >= 2 && word_is(p.word[1], "size")) {
			rc = parse_struct(&p, l, seen, &current);
			hint = 0;
		} else {
			rc = parse_field(&p, l, seen, current, &hint);
		}
		if (rc < 0)
			break;
	}
	if (rc < 0)
		return rc;
	set_traits(l, version ? version : p.version);
	for (size_t t = 0; t < PY_TRAIT_COUNT; t++)
		if (seen->traits[t])
			l->trait[t] = seen->trait[t];
	for (size_t f = 0; f < PY_FIELD_COUNT; f++)
		if (l->offset[f] >= 0)
			l->from[f] = from;
	*ret = *l;
	return 0;
}

int layout_parse(struct str text, const char *config, struct layout *ret, struct err *err)
{
	return parse(text, config, 0, FROM_FILE, ret, err);
}

/* -- built in -- */

/* formats/layouts/V.layout as tools/embed.py left them; oldest first, as formats/meson.build lists them. */
struct embedded {
	const char *name;
	const unsigned char *p;
	size_t len;
};
extern const struct embedded layouts_embedded[];

static struct str embedded_text(const struct embedded *e)
{
	return (struct str){ (const char *)e->p, e->len };
}

/*
 * What the analysis asks again for each candidate of a runtime is read once: the heads of all tables, and the
 * columns (about 5 KB each).  Both are made of the embedded texts alone.  Not for several threads; only the analysis
 * reads tables, in one.
 */
enum { COLUMNS = 256 }; /* more than there are; what is beyond is read again */

struct head {
	const struct embedded *from;
	struct parser p;
};

static const struct head *embedded_heads(size_t *n)
{
	static struct head *head;
	static size_t n_heads;
	if (!head) {
		size_t all = 0;
		while (layouts_embedded[all].name)
			all++;
		head = xcalloc(all + 1, sizeof *head);
		for (const struct embedded *e = layouts_embedded; e->name; e++) {
			struct str text = embedded_text(e);
			struct head *h = &head[n_heads];
			*h = (struct head){ e, { .pos = text.s, .end = text.s + text.len } };
			n_heads += parse_head(&h->p) == 0;
		}
	}
	*n = n_heads;
	return head;
}

/* The column of that table as it is in force for version. */
static int embedded_column(const struct embedded *e, const char *config, uint32_t version, struct layout *ret, struct err *err)
{
	static struct column {
		const struct embedded *from;
		uint32_t version;
		char config[24];
		struct layout l;
	} *kept[COLUMNS];
	static size_t n_kept;

	for (size_t i = 0; i < n_kept; i++)
		if (kept[i]->from == e && kept[i]->version == version && !strcmp(kept[i]->config, config)) {
			*ret = kept[i]->l;
			return 0;
		}
	int rc = parse(embedded_text(e), config, version, FROM_TABLE, ret, err);
	size_t len = strlen(config);
	if (rc == 0 && n_kept < COLUMNS && len < sizeof kept[0]->config) {
		struct column *c = kept[n_kept++] = xcalloc(1, sizeof *c);
		*c = (struct column){ .from = e, .version = version, .l = *ret };
		memcpy(c->config, config, len);
	}
	return rc;
}

int layout_builtin(uint32_t version, const char *config, struct layout *ret, struct err *err)
{
	size_t n;
	const struct head *h = embedded_heads(&n), *best = NULL;

	for (; n; n--, h++) {
		const struct parser *p = &h->p;
		if (p->version > version || p->version >> 16 != version >> 16)
			continue;
		bool has = false;
		for (size_t i = 0; i < p->n_configs; i++)
			has = has || word_is(p->config[i], config);
		if (has && (!best || p->version > best->p.version))
			best = h;
	}
	if (!best)
		return err_set(err, ERR_ABSENT, "no table for Python %u.%u on %s", version >> 24, version >> 16 & 0xff, config);
	struct err inner = { 0 };
	int rc = embedded_column(best->from, config, version, ret, &inner);
	return rc < 0 ? err_set(err, rc, "%s: %s", best->from->name, inner.msg) : 0;
}

int layout_builtin_at(size_t i, uint32_t *version, const char **config)
{
	size_t n;
	const struct head *heads = embedded_heads(&n);

	while (n-- > 0) {
		const struct parser *p = &heads[n].p;
		if (i >= p->n_configs) {
			i -= p->n_configs;
			continue;
		}
		for (size_t c = 0; c < N_CONFIGS; c++)
			if (word_is(p->config[i], machines[c / 4].config[c % 4])) {
				*version = p->version;
				*config = machines[c / 4].config[c % 4];
				return 0;
			}
		return ERR_ABSENT;
	}
	return ERR_ABSENT;
}

/* -- printing -- */

static void print_kind(enum py_field f, FILE *out)
{
	const struct py_field_info *info = &py_field_info[f];
	if (info->kind == K_OFF)
		fprintf(out, " off:%s.%s", py_struct_info[py_field_info[info->off_target].of].name,
			py_field_info[info->off_target].name);
	else if (info->kind == K_SIZE)
		fprintf(out, " size:%s", py_struct_info[info->size_target].name);
	else
		fprintf(out, " %s", kind_word[info->kind]);
}

void layout_print(const struct layout *l, const char *config, FILE *out)
{
	char text[16];
	version_text(l->version, text, sizeof text);
	fprintf(out, "layout %s\nconfig %s\nhad %s\n", text, config, had_word[l->had]);
	for (size_t s = 0; s < PY_STRUCT_COUNT; s++) {
		const struct py_struct_info *info = &py_struct_info[s];
		if (l->size[s])
			fprintf(out, "\n%s size %u\n", info->name, l->size[s]);
		else
			fprintf(out, "\n%s size -\n", info->name);
		for (size_t i = 0; i < info->n_fields; i++) {
			enum py_field f = (enum py_field)(info->first + i);
			fprintf(out, "  %s", py_field_info[f].name);
			print_kind(f, out);
			if (l->offset[f] < 0)
				fprintf(out, " -\n");
			else if (py_field_info[f].kind == K_BITS)
				fprintf(out, " %d:%u+%u\n", l->offset[f], l->bit[f], l->bits[f]);
			else
				fprintf(out, " %d\n", l->offset[f]);
		}
	}
	CLEANUP(cleanup_free) struct layout *plain = xmalloc(sizeof *plain);
	*plain = *l;
	layout_set_traits(plain);
	for (size_t t = 0; t < PY_TRAIT_COUNT; t++)
		if (l->trait[t] != plain->trait[t])
			fprintf(out, "\ntrait %s %d\n", py_trait_name[t], l->trait[t]);
}
