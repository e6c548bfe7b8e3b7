/*
 * .symtab with its strings, else .gnu_debugdata, of mapped files: names of static functions, which are in no memory.  They are read
 * after the stop, by the descriptors that files.c opened before it, so also of files that were deleted.
 */
#include "snap/symbols.h"

#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SECTIONS_MAX = 4096, NAMES_MAX = 64 << 10, ALIGN = 8 };

/* Where fields are in Elf32_Ehdr, Elf64_Ehdr and the section headers. */
struct shape { uint8_t ehdr, phoff, shoff, phnum, shentsize, shdr, word, sh_type, sh_offset, sh_size, sh_link, sh_entsize, symbol; };
static const struct shape shape32 = { 52, 28, 32, 44, 46, 40, 4, 4, 16, 20, 24, 36, 16 }, shape64 = { 64, 32, 40, 56, 58, 64, 8, 4, 24, 32, 40, 56, 24 };

struct table { const struct shape *shape; bool big; uint8_t *head; size_t n; unsigned names; };

static uint64_t get(const struct table *t, size_t at, size_t width)
{
	uint64_t v = 0;
	for (size_t i = 0; i < width; i++)
		v |= (uint64_t)t->head[at + i] << 8 * (t->big ? width - 1 - i : i);
	return v;
}

static void put(const struct table *t, size_t at, size_t width, uint64_t v)
{
	for (size_t i = 0; i < width; i++)
		t->head[at + (t->big ? width - 1 - i : i)] = (uint8_t)(v >> 8 * i);
}

static size_t header(const struct table *t, size_t i)
{
	return t->shape->ehdr + i * t->shape->shdr;
}

static uint64_t field(const struct table *t, size_t i, uint8_t at, size_t width)
{
	return get(t, header(t, i) + at, width);
}

static bool read_all(int fd, uint64_t off, void *buf, size_t len)
{
	while (len) {
		ssize_t n = off > INT64_MAX ? -1 : pread(fd, buf, len, (off_t)off);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return false;
		buf = (char *)buf + n;
		off += (uint64_t)n;
		len -= (size_t)n;
	}
	return true;
}

/* The ELF header with all section headers behind it, in t->head. */
static bool read_table(const struct file *f, struct table *t)
{
	uint8_t eh[64];
	if (!read_all(f->fd, 0, eh, 52))
		return false;
	t->shape = eh[EI_CLASS] == ELFCLASS64 ? &shape64 : &shape32;
	t->big = eh[EI_DATA] == ELFDATA2MSB;
	if (!read_all(f->fd, 0, eh, t->shape->ehdr))
		return false;
	t->head = eh;
	const uint64_t at = get(t, t->shape->shoff, t->shape->word);
	const size_t size = (size_t)get(t, t->shape->shentsize, 2);
	t->n = (size_t)get(t, t->shape->shentsize + 2u, 2);
	t->names = (unsigned)get(t, t->shape->shentsize + 4u, 2);
	t->head = NULL;
	if (!at || size != t->shape->shdr || !t->n || t->n > SECTIONS_MAX)
		return false;
	t->head = xmalloc(header(t, t->n));
	memcpy(t->head, eh, t->shape->ehdr);
	return read_all(f->fd, at, t->head + t->shape->ehdr, t->n * size);
}

static bool in_file(const struct file *f, const struct table *t, size_t i)
{
	uint64_t end;
	return i < t->n && field(t, i, t->shape->sh_type, 4) != SHT_NOBITS && field(t, i, t->shape->sh_size, t->shape->word) &&
	       add_fits(field(t, i, t->shape->sh_offset, t->shape->word), field(t, i, t->shape->sh_size, t->shape->word), &end) && end <= f->size;
}

/* The section of that name; 0: none. */
static size_t named(const struct file *f, const struct table *t, const char *name)
{
	const size_t len = strlen(name) + 1;
	if (!in_file(f, t, t->names))
		return 0;
	const uint64_t size = field(t, t->names, t->shape->sh_size, t->shape->word);
	if (size > NAMES_MAX)
		return 0;
	CLEANUP(cleanup_free) uint8_t *text = xmalloc((size_t)size);
	if (!read_all(f->fd, field(t, t->names, t->shape->sh_offset, t->shape->word), text, (size_t)size))
		return 0;
	for (size_t i = 1; i < t->n; i++) {
		const uint64_t at = field(t, i, 0, 4);
		if (at < size && size - at >= len && memcmp(text + at, name, len) == 0)
			return i;
	}
	return 0;
}

static size_t symtab(const struct file *f, const struct table *t)
{
	for (size_t i = 1; i < t->n; i++)
		if (field(t, i, t->shape->sh_type, 4) == SHT_SYMTAB && field(t, i, t->shape->sh_entsize, t->shape->word) == t->shape->symbol && in_file(f, t, i))
			return i;
	return 0;
}

static uint64_t aligned(uint64_t v)
{
	return (v + ALIGN - 1) & ~(uint64_t)(ALIGN - 1);
}

/* Which sections are taken: 0 if none, or if they are more than there may be, which *large says. */
static size_t choose(const struct file *f, const struct table *t, size_t take[SYMBOLS_PARTS], uint64_t *large)
{
	size_t n = 0;
	uint64_t size = header(t, t->n);
	take[n] = symtab(f, t);
	if (take[n]) {
		take[n + 1] = (size_t)field(t, take[n], t->shape->sh_link, 4);
		n += 2;
	} else {
		take[n++] = named(f, t, ".gnu_debugdata");
	}
	for (size_t i = 0; i < n; i++) {
		if (!take[i] || !in_file(f, t, take[i]) || !add_fits(size, field(t, take[i], t->shape->sh_size, t->shape->word), &size))
			return 0;
	}
	if (size > SYMBOLS_FILE_MAX) {
		*large = size;
		return 0;
	}
	if (in_file(f, t, t->names) && field(t, t->names, t->shape->sh_size, t->shape->word) <= NAMES_MAX)
		take[n++] = t->names;
	return n;
}

static bool unchanged(const struct file *f)
{
	struct stat st;
	return fstat(f->fd, &st) == 0 && (uint64_t)st.st_size == f->size && (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec == f->mtime_ns;
}

static bool find(const struct file *f, struct symbols *ret)
{
	struct table t = { 0 };
	size_t take[SYMBOLS_PARTS], n = 0;
	*ret = (struct symbols){ .file = f };
	if (unchanged(f) && read_table(f, &t))
		n = choose(f, &t, take, &ret->left_out);
	if (!n) {
		free(t.head);
		return ret->left_out != 0;
	}
	const struct shape *s = t.shape;
	const uint64_t end = aligned(header(&t, t.n));
	ret->size = end;
	put(&t, s->phoff, s->word, 0);
	put(&t, s->phnum, 2, 0);
	put(&t, s->shoff, s->word, s->ehdr);
	for (size_t i = 1; i < t.n; i++) {
		size_t k = 0;
		while (k < n && take[k] != i)
			k++;
		if (k < n)
			continue;
		if (field(&t, i, s->sh_type, 4) != SHT_NULL)
			put(&t, header(&t, i) + s->sh_type, 4, SHT_NOBITS);
		put(&t, header(&t, i) + s->sh_offset, s->word, end);
	}
	for (size_t k = 0; k < n; k++) {
		const uint64_t at = field(&t, take[k], s->sh_offset, s->word), size = field(&t, take[k], s->sh_size, s->word);
		ret->part[ret->n_parts].offset = at;
		ret->part[ret->n_parts++].size = size;
		put(&t, header(&t, take[k]) + s->sh_offset, s->word, ret->size);
		ret->size = aligned(ret->size + size);
	}
	sb_bytes(&ret->head, t.head, header(&t, t.n));
	while (ret->head.len < end)
		sb_char(&ret->head, 0);
	free(t.head);
	return true;
}

const struct symbols *symbols_of(const struct symbols_list *l, const struct file *file)
{
	for (size_t i = 0; i < l->file.n; i++)
		if (l->file.p[i].file == file)
			return &l->file.p[i];
	return NULL;
}

void symbols_find(const struct files *files, const struct proc_maps *maps, struct symbols_list *ret)
{
	const struct file *last = NULL;
	uint64_t largest = 0;
	for (size_t i = 0; i < maps->n; i++) {
		const struct file *f = maps->p[i].prot & 4 ? files_of(files, &maps->p[i]) : NULL;
		struct symbols s;
		if (!f || f == last || symbols_of(ret, f) || !find(f, &s))
			continue;
		last = f;
		if (s.size > SYMBOLS_ALL_MAX - ret->size) {
			sb_free(&s.head);
			s = (struct symbols){ .file = f, .left_out = s.size };
		}
		if (s.left_out) {
			if (!ret->largest || s.left_out > largest) {
				largest = s.left_out;
				ret->largest = &maps->p[i];
			}
			ret->n_left_out++;
			ret->left_out += s.left_out;
		}
		s.at = ret->size;
		ret->size += s.size;
		*vec_push(&ret->file) = s;
	}
}

int symbols_write(const struct symbols *s, struct pz_writer *w)
{
	static uint8_t buf[256 << 10];
	int code = pz_write(w, s->head.s, s->head.len);
	for (size_t i = 0; i < s->n_parts && !code; i++) {
		const uint64_t size = s->part[i].size;
		for (uint64_t at = 0; at < size && !code;) {
			size_t n = size - at < sizeof buf ? (size_t)(size - at) : sizeof buf;
			if (!read_all(s->file->fd, s->part[i].offset + at, buf, n))
				memset(buf, 0, n); /* it was cut meanwhile: names that are empty */
			code = pz_write(w, buf, n);
			at += n;
		}
		if (!code)
			code = pz_zero(w, aligned(size) - size);
	}
	return code;
}

void symbols_free(struct symbols_list *l)
{
	for (size_t i = 0; i < l->file.n; i++)
		sb_free(&l->file.p[i].head);
	vec_free(&l->file);
}
