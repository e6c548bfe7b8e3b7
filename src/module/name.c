/*
 * Names by address: in a table of functions, built for a module when first asked, of the best of the symbol tables that there
 * are.  What these say is the input's word: they lie inside their file or module, and are read up to a limit.
 */
#include "module/symbol.h"

#include <elf.h>
#include <stdlib.h>
#include <string.h>

enum {
	MAX_NAMED = 8 << 20,     /* symbols of all modules together */
	MAX_SIZELESS = 4096,     /* of a function without a size, where those between it and its neighbour may be nameless */
};

static int add_row(void *arg, const struct elf_symbol *s)
{
	struct mod *m = arg;
	unsigned type = s->info & 0xf;
	addr_t at;
	struct name_table *t = &m->names;
	if ((type != STT_FUNC && type != STT_GNU_IFUNC) || !s->name || s->name >= t->from[t->adding].names_size || !symbol_defined(m, s, &at))
		return 0;
	*vec_push(&t->row) = (struct name_row){ at - m->pub.bias, s->size < UINT32_MAX ? (uint32_t)s->size : UINT32_MAX, s->name, s->section, t->adding };
	return m->names.row.n >= MAX_SYMBOLS ? 1 : 0;
}

static int by_value(const void *a, const void *b)
{
	const struct name_row *x = a, *y = b;
	if (x->value != y->value)
		return x->value < y->value ? -1 : 1;
	return x->size < y->size ? -1 : x->size > y->size;
}

static int read_image(void *ctx, uint64_t off, void *buf, size_t len)
{
	return image_read(ctx, off, buf, len);
}

/* How many of count symbols may be read, so that all modules together stay bounded. */
static uint64_t take_named(struct mod *m, uint64_t count)
{
	if (count > MAX_SYMBOLS)
		count = MAX_SYMBOLS;
	if (count > MAX_NAMED - m->mods->named)
		count = MAX_NAMED - m->mods->named;
	m->mods->named += count;
	return count;
}

/*
 * Functions without a size (assembly) reach to their neighbour, but not out of their section: _init is followed by the
 * stubs of the PLT, which have no symbols.  Where no section table tells the end (in the image), the neighbour must be of
 * the same section; else only the first byte is sure.  complete: the table is a .symtab, which has every function.
 */
static void size_sizeless(struct name_table *t, bool complete)
{
	struct elf_section sections[2][ELF_SECTIONS];
	int n_sections[2] = { 0 };
	if (t->in)
		n_sections[NAMES_TABLE] = elf_sections(&t->from[NAMES_TABLE].src, t->in->head, 0, sections[NAMES_TABLE], ELF_SECTIONS);
	if (t->mini.n)
		n_sections[NAMES_MINI] = elf_sections(&t->from[NAMES_MINI].src, &t->mini.head, 0, sections[NAMES_MINI], ELF_SECTIONS);
	struct name_row *row = t->row.p;
	const uint64_t most = complete ? UINT32_MAX : MAX_SIZELESS;
	for (size_t i = t->row.n, next = i; i-- > 0;) {
		/* next: the first one further up; before it the largest of those at the same address, since sizes are sorted. */
		if (i + 1 < t->row.n && row[i + 1].value != row[i].value)
			next = i + 1;
		if (row[i].size)
			continue;
		if (row[next - 1].size) {
			row[i].size = row[next - 1].size;
			continue;
		}
		const struct elf_section *s = sections[row[i].from];
		const int k = row[i].section;
		uint64_t room = 1;
		if (k < n_sections[row[i].from] && row[i].value >= s[k].addr && row[i].value - s[k].addr < s[k].size)
			room = s[k].size - (row[i].value - s[k].addr);
		else if (next < t->row.n && row[next].section == k && row[next].from == row[i].from)
			room = most;
		if (next < t->row.n && row[next].value - row[i].value < room)
			room = row[next].value - row[i].value;
		row[i].size = (uint32_t)(room < most ? room : most);
	}
}

static void add_table(struct mod *m, uint8_t from, const struct elf_source *src, const struct abi *abi, const struct elf_section *table,
		      const struct elf_section *names)
{
	struct name_table *t = &m->names;
	uint64_t end;
	t->adding = from;
	t->from[from] = (struct name_source){ *src, names->offset, names->size };
	if (!add_fits(table->offset, table->size, &end) || !add_fits(names->offset, names->size, &end))
		return;
	(void)!symbol_each(src, abi, table->offset, take_named(m, table->size / table->entsize), add_row, m);
}

static void add_dynamic(struct mod *m)
{
	struct name_table *t = &m->names;
	struct elf_source src = { read_image, m->mods->img };
	const struct abi *abi = image_abi(m->mods->img);
	uint64_t count = dynamic_count(m), fit = (m->pub.end - m->dyn.symtab) / elf_symbol_size(abi);
	t->adding = NAMES_TABLE;
	t->from[NAMES_TABLE] = (struct name_source){ src, m->dyn.strtab, m->dyn.strsz };
	(void)!symbol_each(&src, abi, m->dyn.symtab, take_named(m, count < fit ? count : fit), add_row, m);
}

static void add_mini(struct mod *m)
{
	struct name_table *t = &m->names;
	struct elf_section table, names;
	struct elf_source packed = disk_file_source(m->mini_in);
	m->mini_rc = mini_read(&packed, m->mini_at, m->mini_size, MINI_ALL_MAX - m->mods->mini, &t->mini);
	if (m->mini_rc < 0)
		return;
	struct elf_source src = mini_source(&t->mini);
	if (!mod_same_machine(m, &t->mini.head) || symbol_table_of(&src, &t->mini.head, &table, &names) < 0) {
		m->mini_rc = ERR_CORRUPT;
		mini_free(&t->mini);
		return;
	}
	m->mods->mini += t->mini.n;
	add_table(m, NAMES_MINI, &src, &t->mini.head.abi, &table, &names);
}

static void build_names(struct mod *m)
{
	struct name_table *t = &m->names;
	struct elf_section table, names;
	bool complete = false; /* is every function in it? */
	t->state = FAILED;
	if (!m->pub.bias_known)
		return;
	if (symbol_table(m, &table, &names, &t->in) == 0) {
		struct elf_source src = disk_file_source(t->in);
		add_table(m, NAMES_TABLE, &src, &t->in->head->abi, &table, &names);
		complete = table.type == SHT_SYMTAB;
	} else {
		t->in = NULL;
		if (dynamic_of(m))
			add_dynamic(m);
	}
	if (!complete && m->mini_in)
		add_mini(m);
	if (!t->row.n)
		return;
	qsort(t->row.p, t->row.n, sizeof *t->row.p, by_value);
	t->row.p = xrealloc(t->row.p, t->row.n * sizeof *t->row.p);
	t->row.room = t->row.n;
	size_sizeless(t, complete);
	t->state = READY;
}

static int row_name(struct mod *m, const struct name_row *row, struct str *ret)
{
	char buf[MAX_NAME + 1];
	const struct name_source *from = &m->names.from[row->from];
	uint64_t room = from->names_size - row->name, at;
	size_t want = room < MAX_NAME ? (size_t)room : MAX_NAME, got = 0;
	if (!add_fits(from->names, row->name, &at))
		return ERR_CORRUPT;
	/* In steps, since the end of the table may not be there although the name is. */
	while (got < want) {
		size_t n = want - got < 64 ? want - got : 64;
		int rc = from->src.read(from->src.ctx, at + got, buf + got, n);
		if (rc < 0)
			return rc;
		char *nul = memchr(buf + got, 0, n);
		if (nul) {
			/* .symtab has versions at the ends of exported names: __libc_start_main@GLIBC_2.2.5. */
			char *version = memchr(buf, '@', (size_t)(nul - buf));
			*ret = str_from_bytes(m->mods->arena, buf, (size_t)((version && version > buf ? version : nul) - buf));
			return ret->len ? 0 : ERR_ABSENT;
		}
		got += n;
	}
	return ERR_LIMIT;
}

static size_t underscores(struct str name)
{
	size_t n = 0;
	while (n < name.len && name.s[n] == '_')
		n++;
	return n;
}

int modules_name(struct modules *mods, addr_t pc, struct str *ret, uint64_t *ret_offset)
{
	const struct module *pub = modules_at(mods, pc);
	if (!pub)
		return ERR_ABSENT;
	struct mod *m = &mods->mod[pub - mods->pub];
	if (m->names.state == NOT_TRIED)
		build_names(m);
	if (m->names.state != READY)
		return ERR_ABSENT;
	const uint64_t v = pc - m->pub.bias;
	const struct name_row *row = m->names.row.p;
	size_t lo = 0, hi = m->names.row.n;
	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;
		if (row[mid].value <= v)
			lo = mid + 1;
		else
			hi = mid;
	}
	/*
	 * The nearest below that is big enough.  Of several names for one function the plainest: malloc rather than
	 * __libc_malloc.
	 */
	struct str best = { 0 };
	uint64_t off = 0;
	size_t below = lo;
	for (size_t i = lo; i-- > 0 && below - i <= 16;) {
		if (best.s && row[i].value != v - off)
			break;
		if (v - row[i].value >= row[i].size)
			continue;
		struct str name;
		if (row_name(m, &row[i], &name) < 0 || (best.s && underscores(name) >= underscores(best)))
			continue;
		best = name;
		off = v - row[i].value;
	}
	if (!best.s)
		return ERR_ABSENT;
	*ret = best;
	*ret_offset = off;
	return 0;
}

void names_free(struct mod *m)
{
	vec_free(&m->names.row);
	m->mods->mini -= m->names.mini.n;
	mini_free(&m->names.mini);
	m->names = (struct name_table){ 0 };
}
