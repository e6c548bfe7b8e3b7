/*
 * What pysnap's own notes add to an ELF core (formats/pz.md), whether it lies in a .pz or was unpacked, and where what follows memory is.
 * They are hints and labels; nothing in them is believed for safety.
 */
#include "image/pz.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

/* ---- values of the information note; each is absent unless it is what it should be ---- */

static struct str json_text(struct image *img, const json_t *o, const char *key)
{
	const json_t *v = json_object_get(o, key);
	if (!json_is_string(v))
		return (struct str){ 0 };
	struct str s = { json_string_value(v), json_string_length(v) };
	return str_dup(image_arena(img), s);
}

static bool json_number(const json_t *o, const char *key, int64_t *ret)
{
	const json_t *v = json_object_get(o, key);
	if (json_is_integer(v)) {
		*ret = json_integer_value(v);
		return true;
	}
	const char *s = json_string_value(v);
	if (!s || !*s || strspn(s, "-0123456789") != json_string_length(v))
		return false;
	char *end;
	errno = 0;
	int64_t n = strtoll(s, &end, 10);
	if (*end || errno)
		return false;
	*ret = n;
	return true;
}

static bool address_of(const json_t *v, addr_t *ret)
{
	const char *s = json_string_value(v);
	size_t len = s ? json_string_length(v) : 0;
	if (len < 3 || len > 18 || s[0] != '0' || s[1] != 'x' || strspn(s + 2, "0123456789abcdefABCDEF") != len - 2)
		return false;
	*ret = strtoull(s + 2, NULL, 16);
	return true;
}

static const json_t *json_list(const json_t *o, const char *key)
{
	const json_t *v = json_object_get(o, key);
	return json_is_array(v) ? v : NULL;
}

/* ---- threads ---- */

struct by_tid {
	pid_t tid;
	struct thread *thread;
};

static int tid_order(const void *a, const void *b)
{
	const struct by_tid *x = a, *y = b;
	return x->tid < y->tid ? -1 : x->tid > y->tid;
}

static void thread_syscall(struct thread *t, const json_t *o)
{
	int64_t nr;
	if (t->regs.syscall.known || !json_is_object(o) || !json_number(o, "nr", &nr))
		return;
	const json_t *args = json_list(o, "args");
	t->regs.syscall.known = true;
	t->regs.syscall.nr = nr;
	for (size_t i = 0; i < sizeof t->regs.syscall.arg / sizeof *t->regs.syscall.arg; i++)
		if (!address_of(json_array_get(args, i), &t->regs.syscall.arg[i]))
			t->regs.syscall.arg[i] = 0;
}

static void thread_facts(struct image *img, struct thread *t, const json_t *o)
{
	struct str name = json_text(img, o, "name"), state = json_text(img, o, "state"), wchan = json_text(img, o, "wchan");
	if (name.s)
		t->name = name;
	if (state.len == 1)
		t->state = state.s[0];
	if (wchan.len && !str_is(wchan, "0")) /* "0": running, or not allowed to know (proc(5)) */
		t->wchan = wchan;
	thread_syscall(t, json_object_get(o, "syscall"));
}

static void info_threads(struct image *img, const json_t *list)
{
	const struct thread *threads;
	size_t n = image_threads(img, &threads);
	if (!n || !list)
		return;
	CLEANUP(cleanup_free) struct by_tid *index = xcalloc(n, sizeof *index);
	for (size_t i = 0; i < n; i++)
		index[i] = (struct by_tid){ threads[i].tid, (struct thread *)&threads[i] }; /* ours until the image is open */
	qsort(index, n, sizeof *index, tid_order);
	for (size_t i = 0; i < json_array_size(list); i++) {
		const json_t *o = json_array_get(list, i);
		int64_t tid;
		if (!json_is_object(o) || !json_number(o, "tid", &tid) || tid < 1 || tid > INT32_MAX)
			continue;
		struct by_tid key = { .tid = (pid_t)tid };
		const struct by_tid *found = bsearch(&key, index, n, sizeof *index, tid_order);
		if (found)
			thread_facts(img, found->thread, o);
	}
}

/* ---- files that were mapped ---- */

enum { BUILD_ID_MAX = 64, NOTED_MAX = 1 << 16 };

static struct blob build_id_of(struct image *img, const json_t *o)
{
	uint8_t id[BUILD_ID_MAX];
	const json_t *v = json_object_get(o, "build_id");
	int n = json_is_string(v) ? str_unhex(json_string_value(v), json_string_length(v), id, sizeof id) : -1;
	return n > 0 ? (struct blob){ arena_dup(image_arena(img), id, (size_t)n), (size_t)n } : (struct blob){ 0 };
}

static void symbols_place(struct image_facts *f, const json_t *o, uint64_t *taken, struct noted_file *file)
{
	int64_t at, size;
	uint64_t end;
	if (!json_is_object(o) || !json_number(o, "at", &at) || !json_number(o, "size", &size) || at < 0 || size <= 0 ||
	    !add_fits((uint64_t)at, (uint64_t)size, &end))
		return;
	const uint64_t tail = (f->described + PZ_PAGE - 1) & ~(uint64_t)(PZ_PAGE - 1);
	uint64_t whole;
	if (end <= PZ_SYMBOLS_MAX && add_fits(tail, end, &whole) && add_fits(whole, PZ_PAGE - 1, &whole) && whole > f->noted_end)
		f->noted_end = whole & ~(uint64_t)(PZ_PAGE - 1);
	file->symbols_cut = end > f->tail.size;
	f->truncated |= file->symbols_cut;
	if (file->symbols_cut || (uint64_t)size > PZ_SYMBOLS_MAX - *taken)
		return; /* each is searched for each name, and several may be said to be the same bytes */
	*taken += (uint64_t)size;
	file->symbols = (uint64_t)at;
	file->symbols_size = (uint64_t)size;
}

static int noted_order(const void *a, const void *b)
{
	const struct noted_file *x = a, *y = b;
	return x->start < y->start ? -1 : x->start > y->start;
}

static void info_modules(struct image *img, const json_t *list)
{
	struct image_facts *f = image_facts_mut(img);
	const size_t given = json_array_size(list), n = given < NOTED_MAX ? given : NOTED_MAX;
	if (!n)
		return;
	struct noted_file *all = arena_alloc(image_arena(img), n * sizeof *all);
	size_t k = 0;
	uint64_t symbols = 0;
	for (size_t i = 0; i < n; i++) {
		const json_t *o = json_array_get(list, i);
		struct noted_file file = { 0 };
		if (!json_is_object(o) || !address_of(json_object_get(o, "start"), &file.start) || !address_of(json_object_get(o, "end"), &file.end) ||
		    file.end <= file.start)
			continue;
		file.build_id = build_id_of(img, o);
		symbols_place(f, json_object_get(o, "symbols"), &symbols, &file);
		int64_t left_out;
		if (json_number(o, "symbols_left_out", &left_out) && left_out > 0)
			file.symbols_left_out = (uint64_t)left_out;
		all[k++] = file;
	}
	if (k)
		qsort(all, k, sizeof *all, noted_order);
	f->noted = all;
	f->n_noted = k;
}

/* ---- notes ---- */

int pz_too_new(const char *name, int64_t format, struct str tool, struct err *err)
{
	if (!tool.len || tool.len > 64)
		tool = STR("a later pysnap");
	err_set(err, ERR_UNSUPPORTED, "%s was written by " STR_FMT " (format %" PRId64 "); this one reads up to format %d",
	        name, STR_ARG(tool), format, PZ_FORMAT);
	if (str_starts(tool, "pysnap "))
		err_hint(err, "upgrade pyanalyze to " STR_FMT " or later", (int)tool.len - 7, tool.s + 7);
	else
		err_hint(err, "upgrade pyanalyze");
	return ERR_UNSUPPORTED;
}

static int info_read(const struct bytes *b, struct image *img, const json_t *o, struct err *err)
{
	struct image_facts *f = image_facts_mut(img);
	int64_t v;
	f->tool = json_text(img, o, "tool");
	if (json_number(o, "format", &v) && v > PZ_FORMAT)
		return pz_too_new(b->name, v, f->tool, err);
	if (json_number(o, "time_ns", &v))
		f->time_ns = v;
	if (json_number(o, "ns_pid", &v) && v > 0 && v <= INT32_MAX)
		f->ns_pid = v;
	const json_t *parent = json_object_get(o, "parent");
	if (json_is_object(parent) && json_number(parent, "pid", &v) && v > 0 && v <= INT32_MAX) {
		f->parent.pid = v;
		f->parent.comm = json_text(img, parent, "comm");
		f->parent.same_exec = json_is_true(json_object_get(parent, "same_exec"));
	}
	if (json_number(o, "start_ns", &v))
		f->start_ns = v;
	if (json_number(o, "stopped_ns", &v) && v >= 0)
		f->stopped_ns = v;
	if (f->pid < 0 && json_number(o, "pid", &v) && v > 0)
		f->pid = v;
	f->consistent = json_is_true(json_object_get(o, "consistent"));
	f->exe = json_text(img, o, "exe");
	f->cwd = json_text(img, o, "cwd");
	f->cmdline = json_text(img, o, "cmdline");
	addr_t hint;
	if (address_of(json_object_get(o, "hint_runtime"), &hint))
		f->hint_runtime = hint;
	info_threads(img, json_list(o, "threads"));
	info_modules(img, json_list(o, "modules"));
	return 0;
}

static int untouched_read(void *ctx, uint64_t offset, void *buf, size_t len)
{
	memset(buf, 0, len);
	return 0;
}

static uint64_t untouched_hole(void *ctx, uint64_t offset)
{
	return *(const uint64_t *)ctx - offset;
}

/* Memory that the process has and never wrote to: zeros, wherever nothing else is known. */
static void untouched(struct image *img, addr_t start, addr_t end)
{
	if (end <= start)
		return;
	uint64_t *size = arena_alloc(image_arena(img), sizeof *size);
	*size = end - start;
	struct segment seg = { .start = start, .size = *size, .prot = 3, .read = untouched_read, .hole = untouched_hole, .ctx = size };
	if (image_add_segment(img, &seg, LAY_BENEATH) < 0)
		return; /* wraps around: not ours */
}

static void lost_read(struct image *img, struct blob desc)
{
	struct cursor c = cursor_of(desc.p, desc.len, image_abi(img)->big_endian);
	uint64_t start, end;
	uint32_t number, why;
	while (cursor_u64(&c, &start) == 0 && cursor_u64(&c, &end) == 0 && cursor_u32(&c, &number) == 0 && cursor_u32(&c, &why) == 0)
		if (why == PZ_WHY_UNREADABLE || why == PZ_WHY_VANISHED)
			image_add_lost(img, start, end);
		else if (why == PZ_WHY_UNTOUCHED)
			untouched(img, start, end);
}

/* ---- what follows memory ---- */

struct tail { struct bytes *b; uint64_t at; };

static int tail_read(void *ctx, uint64_t at, void *buf, size_t len)
{
	const struct tail *t = ctx;
	return bytes_read(t->b, t->at + at, buf, len);
}

static void tail_find(struct bytes *b, struct image *img)
{
	struct image_facts *f = image_facts_mut(img);
	if (b->size <= PZ_PAGE || f->described > b->size - PZ_PAGE)
		return;
	struct tail *t = arena_alloc(image_arena(img), sizeof *t);
	*t = (struct tail){ b, (f->described + PZ_PAGE - 1) & ~(uint64_t)(PZ_PAGE - 1) };
	f->tail.read = tail_read;
	f->tail.ctx = t;
	f->tail.size = b->size - t->at;
}

int pz_notes_read(struct bytes *b, struct image *img, struct err *err)
{
	const struct note *notes;
	size_t n = image_notes(img, &notes);
	bool informed = false;
	for (size_t i = 0; i < n; i++) {
		struct blob owner = notes[i].owner, desc = notes[i].desc;
		if (owner.len != 6 || memcmp(owner.p, "PYSNAP", 6) != 0 || (notes[i].type != PZ_NOTE_INFO && notes[i].type != PZ_NOTE_LOST))
			continue;
		struct image_facts *f = image_facts_mut(img);
		f->kind = IMAGE_SNAPSHOT;
		if (!f->tail.size)
			tail_find(b, img);
		if (notes[i].type == PZ_NOTE_LOST)
			lost_read(img, desc);
		if (notes[i].type != PZ_NOTE_INFO || informed || desc.len > PZ_INFO_MAX)
			continue;
		json_t *o = json_loadb((const char *)desc.p, desc.len, 0, NULL);
		int rc = 0;
		if (json_is_object(o)) {
			informed = true;
			rc = info_read(b, img, o, err);
		}
		json_decref(o);
		if (rc < 0)
			return rc;
	}
	return 0;
}
