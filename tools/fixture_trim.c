/*
 * A snapshot -> a fixture: only the pages that a full report reads, and every note, so that the report is the same.
 * What was left out is noted as such.  Used by tools/make_fixture.
 *
 *	fixture_trim [-n | -a] IN.pz OUT.pz [OLD=NEW]...       OLD, NEW: text of the same length, put in place of it in memory; -n: native stacks too.
 *	Of pages only what is read is kept, so that a whole program's report has room.
 *	-a: all of memory, but not the tail, for a report to compare with
 *
 * Left out of the information note: what tells of the recording machine and no report shows.
 */
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "image/pz.h"
#include "image/record.h"
#include "inspect/footprint.h"

static int fail(const char *what, const struct err *err)
{
	fprintf(stderr, "fixture_trim: %s%s%s\n", what, err && err->msg[0] ? ": " : "", err ? err->msg : "");
	return 1;
}

enum { MARGIN = 4096, UNREAD = 0xdb /* what nothing is to take for data */ };

struct loads { struct VEC(struct pz_load) list; struct VEC(struct lost) out; };

/* What is kept of one segment: runs of pages, each a load that what is left out behind it belongs to. */
static void loads_of(const struct segment *s, const struct footprint *fp, size_t *next, struct loads *l)
{
	addr_t end = s->start + s->size, at = s->start;
	while (at < end) {
		while (*next < fp->n_pages && fp->pages[*next] + RECORD_PAGE <= at)
			++*next;
		addr_t to = at;
		while (to < end && *next < fp->n_pages && fp->pages[*next] <= to) {
			to = fp->pages[*next] + RECORD_PAGE;
			++*next;
		}
		to = to < end ? to : end;
		addr_t until = *next < fp->n_pages && fp->pages[*next] < end ? fp->pages[*next] : end;
		*vec_push(&l->list) = (struct pz_load){ .start = at, .filesz = to - at, .memsz = until - at, .prot = s->prot };
		if (to < until)
			*vec_push(&l->out) = (struct lost){ to, until };
		at = until;
	}
}

/* Mappings without a byte in the snapshot: their protection is told by loads alone. */
static void empty_loads(const struct image *img, struct loads *l)
{
	const struct mapping *m;
	const struct segment *s;
	size_t n = image_mappings(img, &m), n_segs = image_segments(img, &s), k = 0;
	for (size_t i = 0; i < n; i++) {
		while (k < n_segs && s[k].start + s[k].size <= m[i].start)
			k++;
		addr_t end = k < n_segs && s[k].start < m[i].end ? s[k].start : m[i].end;
		if (m[i].start < end)
			*vec_push(&l->list) = (struct pz_load){ .start = m[i].start, .memsz = end - m[i].start, .prot = m[i].prot };
	}
}

static int by_start(const void *a, const void *b)
{
	const struct pz_load *x = a, *y = b;
	return x->start < y->start ? -1 : x->start > y->start;
}

static void put(struct sb *b, const struct abi *abi, size_t width, uint64_t v)
{
	for (size_t i = 0; i < width; i++)
		sb_char(b, (char)(uint8_t)(v >> 8 * (abi->big_endian ? width - 1 - i : i)));
}

static struct blob info_of(struct blob desc)
{
	json_t *o = json_loadb((const char *)desc.p, desc.len, 0, NULL), *m;
	size_t i;
	if (!json_is_object(o))
		return desc;
	json_object_del(o, "boot_id");
	json_array_foreach(json_object_get(o, "modules"), i, m) {
		json_object_del(m, "inode");
		json_object_del(m, "dev");
		json_object_del(m, "mtime_ns");
		json_object_del(m, "symbols"); /* there is no tail */
	}
	char *text = json_dumps(o, JSON_COMPACT);
	json_decref(o);
	return text ? (struct blob){ (uint8_t *)text, strlen(text) } : desc;
}

struct notes VEC(struct pz_note);

static void notes_of(const struct image *img, const struct loads *l, struct arena *a, struct notes *notes)
{
	const struct note *in;
	size_t n = image_notes(img, &in);
	struct sb lost = { 0 };
	for (size_t i = 0; i < n; i++) {
		char *owner = str_c(a, str_from_bytes(a, in[i].owner.p, in[i].owner.len));
		struct blob desc = in[i].desc;
		if (!strcmp(owner, "PYSNAP") && in[i].type == PZ_NOTE_INFO)
			desc = info_of(desc);
		if (!strcmp(owner, "PYSNAP") && in[i].type == PZ_NOTE_LOST)
			sb_bytes(&lost, desc.p, desc.len);
		else
			*vec_push(notes) = (struct pz_note){ owner, in[i].type, desc };
	}
	for (size_t i = 0; i < l->out.n; i++) {
		put(&lost, image_abi(img), 8, l->out.p[i].start);
		put(&lost, image_abi(img), 8, l->out.p[i].end);
		put(&lost, image_abi(img), 4, 0);
		put(&lost, image_abi(img), 4, PZ_WHY_OPTION);
	}
	struct str all = sb_take(&lost, a);
	*vec_push(notes) = (struct pz_note){ "PYSNAP", PZ_NOTE_LOST, { (const uint8_t *)all.s, all.len } };
}

static void replace(uint8_t *p, size_t len, char *const *pairs)
{
	for (; *pairs; pairs++) {
		const char *eq = strchr(*pairs, '=');
		size_t n = (size_t)(eq - *pairs);
		for (uint8_t *q = p; (q = memmem(q, (size_t)(p + len - q), *pairs, n)); q += n)
			memcpy(q, eq + 1, n);
	}
}

static int by_address(const void *a, const void *b)
{
	addr_t x = *(const addr_t *)a, y = *(const addr_t *)b;
	return x < y ? -1 : x > y;
}

/* fp: of its pages only what was read is kept, and what is next to that; NULL: all. */
static int write_load(struct pz_writer *w, struct image *img, const struct pz_load *load, const struct footprint *fp, char *const *pairs)
{
	if (!load->filesz)
		return 0;
	/* With what lies before and behind, so that text across an end of it is seen. */
	size_t size = (size_t)load->filesz;
	CLEANUP(cleanup_free) uint8_t *buf = xcalloc(1, size + 2 * MARGIN);
	int rc = image_read(img, load->start, buf + MARGIN, size);
	if (rc < 0)
		return rc;
	if (image_read(img, load->start - MARGIN, buf, MARGIN) < 0)
		memset(buf, 0, MARGIN);
	size_t after = image_read_some(img, load->start + size, buf + MARGIN + size, MARGIN);
	replace(buf, MARGIN + size + after, pairs);
	for (size_t i = 0; fp && i < size; i += RECORD_BLOCK) {
		const addr_t at = load->start + i;
		if (!bsearch(&at, fp->blocks, fp->n_blocks, sizeof at, by_address))
			memset(buf + MARGIN + i, UNREAD, size - i < RECORD_BLOCK ? size - i : RECORD_BLOCK);
	}
	return pz_write(w, buf + MARGIN, size);
}

/* What is not kept is not to be read either. */
static void drop_tail(struct image *img)
{
	struct image_facts *f = image_facts_mut(img);
	struct noted_file *noted = arena_dup(image_arena(img), f->noted, f->n_noted * sizeof *noted);
	for (size_t i = 0; i < f->n_noted; i++)
		noted[i].symbols = noted[i].symbols_size = 0;
	f->noted = noted;
	f->tail.size = 0;
}

int main(int argc, char **argv)
{
	struct err err = { 0 };
	struct image *img;
	struct arena *a = arena_new();
	struct search where = { .no_files = true };
	struct footprint fp = { 0 };
	struct loads l = { 0 };
	struct notes notes = { 0 };
	const bool native = argc > 1 && !strcmp(argv[1], "-n"), all = argc > 1 && !strcmp(argv[1], "-a");
	argc -= native || all;
	argv += native || all;
	if (argc < 3)
		return fail("usage: fixture_trim [-n | -a] IN.pz OUT.pz [OLD=NEW]...", NULL);
	for (int i = 3; i < argc; i++) {
		const char *eq = strchr(argv[i], '=');
		if (!eq || eq == argv[i] || strlen(eq + 1) != (size_t)(eq - argv[i]))
			return fail("OLD and NEW must be of the same length", NULL);
	}
	if (image_open(argv[1], &img, &err) < 0)
		return fail("cannot open the snapshot", &err);
	drop_tail(img);
	if (!all && footprint_find(img, &where, NULL, native ? FOOTPRINT_NATIVE_EXACT : FOOTPRINT_PYTHON, a, &fp, &err) < 0)
		return fail("no report can be made of it", &err);
	const struct segment *segs;
	size_t n = image_segments(img, &segs), next = 0;
	for (size_t i = 0; i < n; i++)
		if (all)
			*vec_push(&l.list) = (struct pz_load){ .start = segs[i].start, .filesz = segs[i].size, .memsz = segs[i].size, .prot = segs[i].prot };
		else
			loads_of(&segs[i], &fp, &next, &l);
	empty_loads(img, &l);
	if (l.list.n)
		qsort(l.list.p, l.list.n, sizeof *l.list.p, by_start);
	notes_of(img, &l, a, &notes);
	struct pz_plan plan = { .abi = *image_abi(img), .notes = notes.p, .n_notes = notes.n, .loads = l.list.p, .n_loads = l.list.n, .level = all ? 1 : 9 };
	struct pz_writer *w = NULL;
	int fd = open(argv[2], O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	if (fd < 0)
		return fail(strerror(errno), NULL);
	int rc = pz_begin(fd, &plan, &w, &err);
	for (size_t i = 0; rc == 0 && i < l.list.n; i++)
		rc = write_load(w, img, &l.list.p[i], all ? NULL : &fp, argv + 3);
	if (rc == 0)
		rc = pz_finish(w, &err);
	pz_close(w);
	if (close(fd) != 0 || rc < 0)
		return fail("cannot write the fixture", &err);
	printf("%zu pages\n", fp.n_pages);
	vec_free(&l.list);
	vec_free(&l.out);
	vec_free(&notes);
	image_close(img);
	arena_free(a);
	return 0;
}
