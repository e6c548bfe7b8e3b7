/*
 * A capture as a .pz: the core's notes, our own, and memory in address order.  Pages of ELF files that the process
 * never wrote are read from the files now, by descriptors that were opened before the stop; so are the tables that name
 * their functions.
 */
#include "config.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "snap/held.h"
#include "snap/symbols.h"

enum {
	PAGE = 4096,
	INLINE_GAP = 1 << 20,  /* shorter stretches of untouched memory are written as zeros, so that reads run through */
	MARGIN = 64 << 10,     /* of longer ones, so much next to what was touched */
};

/* -- memory as pieces in address order -- */

enum piece_kind { PIECE_ABSENT, PIECE_UNTOUCHED /* absent too: reads as zeros, and a note says so */, PIECE_DATA, PIECE_ZERO, PIECE_FILE };
struct piece {
	addr_t start, end;
	enum piece_kind kind;
	uint64_t at;              /* PIECE_DATA: in data; PIECE_FILE: in the file */
	const struct file *file;
};
struct pieces VEC(struct piece);

static void piece(struct pieces *v, enum piece_kind kind, addr_t start, addr_t end, uint64_t at, const struct file *file)
{
	if (start < end)
		*vec_push(v) = (struct piece){ start, end, kind, at, file };
}

static int by_start(const void *a, const void *b)
{
	const struct missing *x = a, *y = b;
	return x->start < y->start ? -1 : x->start > y->start;
}

/* Pages of a file, from the file. */
static void file_pages(struct pieces *v, const struct region *r, const struct file *file, addr_t start, addr_t end)
{
	const struct proc_map *m = r->map;
	uint64_t size = (file->size + PAGE - 1) & ~(uint64_t)(PAGE - 1);
	uint64_t there = size > m->offset ? size - m->offset : 0; /* bytes of the mapping inside the file */
	addr_t last = there < m->end - m->start ? m->start + there : m->end;
	addr_t cut = last < start ? start : last < end ? last : end;
	piece(v, PIECE_FILE, start, cut, m->offset + (start - m->start), file);
	piece(v, PIECE_ABSENT, cut, end, 0, NULL);
}

/* Memory that the process did not write: of a file, zeros, or not known.  used (NULL: all) are pages that it has read. */
static void gap(struct pieces *v, const struct region *r, const struct file *file, const struct ranges *used, addr_t start, addr_t end)
{
	const struct proc_map *m = r->map;
	if (file && used) {
		addr_t at = start;
		for (size_t i = 0; i < used->n && at < end; i++) {
			addr_t from = used->p[i].start > at ? used->p[i].start : at, to = used->p[i].end < end ? used->p[i].end : end;
			if (from >= to)
				continue;
			piece(v, PIECE_ABSENT, at, from, 0, NULL);
			file_pages(v, r, file, from, to);
			at = to;
		}
		piece(v, PIECE_ABSENT, at, end, 0, NULL);
		return;
	}
	if (file) {
		file_pages(v, r, file, start, end);
		return;
	}
	bool zeros = r->keep == KEEP_OWN && !m->inode && (m->prot & 1);
	if (!zeros) {
		piece(v, PIECE_ABSENT, start, end, 0, NULL);
	} else if (end - start < INLINE_GAP) {
		piece(v, PIECE_ZERO, start, end, 0, NULL);
	} else {
		addr_t head = start == m->start ? start : start + MARGIN, tail = end == m->end ? end : end - MARGIN;
		piece(v, PIECE_ZERO, start, head, 0, NULL);
		piece(v, PIECE_UNTOUCHED, head, tail, 0, NULL);
		piece(v, PIECE_ZERO, tail, end, 0, NULL);
	}
}

/* A range that was copied, without the pages that could not be read. */
static void copied(struct pieces *v, const struct kept *k, const struct missing_list *missing, size_t *next)
{
	addr_t at = k->start;
	for (; *next < missing->n && missing->p[*next].start < k->end; ++*next) {
		const struct missing *m = &missing->p[*next];
		if (m->why != WHY_UNREADABLE || m->end <= at)
			continue;
		piece(v, PIECE_DATA, at, m->start, k->at + (at - k->start), NULL);
		piece(v, PIECE_ABSENT, m->start, m->end, 0, NULL);
		at = m->end;
	}
	piece(v, PIECE_DATA, at, k->end, k->at + (at - k->start), NULL);
}

/*
 * Everything of an ELF file that is mapped is kept, so that stacks can be unwound and named elsewhere.  Of files that would make
 * the snapshot many times larger than the process (hundreds of megabytes of GPU code), text goes along as far as it was used.
 */
static bool only_used(const struct region *r, const struct file *file, int pagemap, struct ranges *used)
{
	const struct proc_map *m = r->map;
	if (file->size <= WHOLE_FILE || (!(m->prot & 4) && m->end - m->start <= WHOLE_FILE))
		return false;
	used->n = 0;
	if (!m->offset)
		*vec_push(used) = (struct range){ m->start, m->start + PAGE }; /* the ELF header */
	if (pagemap < 0 || pages_find(pagemap, m->start + (m->offset ? 0 : PAGE), m->end, PAGES_MAPPED, used))
		used->n = !m->offset; /* it has ended meanwhile */
	return true;
}

static void make_pieces(struct capture *c, struct pieces *v)
{
	CLEANUP(cleanup_fd) int dir = proc_open(c->pid, c->tid);
	CLEANUP(cleanup_fd) int pagemap = dir < 0 ? -1 : openat(dir, "pagemap", O_RDONLY | O_CLOEXEC);
	struct ranges used = { 0 };
	if (c->missing.n)
		qsort(c->missing.p, c->missing.n, sizeof *c->missing.p, by_start);
	size_t next = 0;
	for (size_t i = 0; i < c->regions.n; i++) {
		const struct region *r = &c->regions.p[i];
		const struct proc_map *m = r->map;
		if (m->start >= (addr_t)1 << 63)
			continue; /* vsyscall: the kernel's half */
		if (r->excluded) {
			piece(v, PIECE_ABSENT, m->start, m->end, 0, NULL);
			continue;
		}
		const struct file *file = c->opt.bundle == BUNDLE_ELF ? files_of(&c->files, m) : NULL;
		const struct ranges *part = file && only_used(r, file, pagemap, &used) ? &used : NULL;
		addr_t at = m->start;
		for (size_t k = r->first; k < r->first + r->n; k++) {
			const struct kept *kept = &c->kept.p[k];
			if (kept->start > at)
				gap(v, r, file, part, at, kept->start);
			copied(v, kept, &c->missing, &next);
			at = kept->end;
		}
		if (at < m->end)
			gap(v, r, file, part, at, m->end);
	}
	vec_free(&used);
}

struct loads VEC(struct pz_load);

/* Loads: bytes, then what is absent; a load never crosses a mapping. */
static void make_loads(const struct capture *c, const struct pieces *v, struct loads *loads)
{
	size_t region = 0;
	addr_t region_end = 0;
	for (size_t i = 0; i < v->n; i++) {
		const struct piece *p = &v->p[i];
		struct pz_load *last = loads->n ? &loads->p[loads->n - 1] : NULL;
		bool fresh = !last || p->start >= region_end || (p->kind > PIECE_UNTOUCHED && last->filesz < last->memsz);
		if (p->start >= region_end) {
			while (c->regions.p[region].map->end <= p->start)
				region++;
			region_end = c->regions.p[region].map->end;
		}
		if (fresh) {
			last = vec_push(loads);
			last->start = p->start;
			last->prot = c->regions.p[region].map->prot;
		}
		last->memsz += p->end - p->start;
		if (p->kind > PIECE_UNTOUCHED)
			last->filesz += p->end - p->start;
	}
}

/* -- notes -- */

/* A number in the target's width and byte order. */
static void put(const struct capture *c, struct sb *b, size_t width, uint64_t v)
{
	for (size_t i = 0; i < width; i++) {
		size_t shift = 8 * (c->abi.big_endian ? width - 1 - i : i);
		sb_char(b, (char)(uint8_t)(v >> shift));
	}
}

static void pad(struct sb *b, size_t to)
{
	while (b->len < to)
		sb_char(b, '\0');
}

static void put_text(struct sb *b, const char *s, size_t len, size_t room)
{
	size_t end = b->len + room;
	sb_bytes(b, s, len < room - 1 ? len : room - 1);
	pad(b, end);
}

/* struct elf_prpsinfo: uid and gid have 16 bits in the i386 ABI. */
static void make_prpsinfo(const struct capture *c, struct sb *b)
{
	static const char letters[] = "RSDTZW";
	size_t w = c->abi.width, id = c->abi.machine == EM_386 || c->abi.machine == EM_ARM ? 2 : 4;
	const char *letter = strchr(letters, c->stat.state);
	put(c, b, 1, letter ? (uint64_t)(letter - letters) : 0);
	put(c, b, 1, (uint64_t)(uint8_t)c->stat.state);
	put(c, b, 1, c->stat.state == 'Z');
	put(c, b, 1, (uint64_t)(uint8_t)c->stat.nice);
	pad(b, w);
	put(c, b, w, c->stat.flags);
	put(c, b, id, c->uid);
	put(c, b, id, c->gid);
	put(c, b, 4, (uint64_t)c->pid);
	put(c, b, 4, (uint64_t)c->stat.ppid);
	put(c, b, 4, (uint64_t)c->stat.pgrp);
	put(c, b, 4, (uint64_t)c->stat.session);
	put_text(b, c->stat.comm, strlen(c->stat.comm), 16);
	put_text(b, c->cmdline.s, c->cmdline.len, 80);
}

/* NT_FILE: count, page size, { start, end, offset in pages }, then the names (fs/binfmt_elf.c: fill_files_note). */
static void make_file_note(const struct capture *c, struct sb *b)
{
	size_t w = c->abi.width, n = 0;
	for (size_t i = 0; i < c->maps.n; i++)
		n += c->maps.p[i].path.len && c->maps.p[i].path.p[0] == '/';
	put(c, b, w, n);
	put(c, b, w, PAGE);
	for (size_t i = 0; i < c->maps.n; i++) {
		const struct proc_map *m = &c->maps.p[i];
		if (!m->path.len || m->path.p[0] != '/')
			continue;
		put(c, b, w, m->start);
		put(c, b, w, m->end);
		put(c, b, w, m->offset / PAGE);
	}
	for (size_t i = 0; i < c->maps.n; i++) {
		const struct proc_map *m = &c->maps.p[i];
		if (!m->path.len || m->path.p[0] != '/')
			continue;
		sb_bytes(b, m->path.p, m->path.len);
		sb_char(b, '\0');
	}
}

static void make_lost_note(const struct capture *c, const struct pieces *v, struct sb *b)
{
	for (size_t i = 0; i < v->n; i++) {
		if (v->p[i].kind != PIECE_UNTOUCHED)
			continue;
		put(c, b, 8, v->p[i].start);
		put(c, b, 8, v->p[i].end);
		put(c, b, 4, 0);
		put(c, b, 4, PZ_WHY_UNTOUCHED);
	}
	for (size_t i = 0; i < c->missing.n; i++) {
		const struct missing *m = &c->missing.p[i];
		put(c, b, 8, m->start);
		put(c, b, 8, m->end);
		put(c, b, 4, m->error);
		put(c, b, 4, m->why);
	}
}

static void set_text(json_t *o, const char *key, struct arena *a, const void *p, size_t len)
{
	struct str s = str_from_bytes(a, p, len);
	if (s.len)
		json_object_set_new(o, key, json_stringn(s.s, s.len));
}

static void set_decimal(json_t *o, const char *key, uint64_t v)
{
	json_object_set_new(o, key, json_sprintf("%llu", (unsigned long long)v));
}

static void set_address(json_t *o, const char *key, addr_t v)
{
	json_object_set_new(o, key, json_sprintf("0x%llx", (unsigned long long)v));
}

static json_t *json_threads(const struct capture *c, struct arena *a)
{
	json_t *list = json_array();
	const struct thread *t;
	size_t n = frozen_threads(c->frozen, &t);
	for (size_t i = 0; i < n; i++) {
		json_t *o = json_object();
		json_object_set_new(o, "tid", json_integer(t[i].tid));
		set_text(o, "name", a, t[i].name.s ? t[i].name.s : "", t[i].name.len);
		if (t[i].state)
			set_text(o, "state", a, &t[i].state, 1);
		set_text(o, "wchan", a, t[i].wchan.s ? t[i].wchan.s : "", t[i].wchan.len);
		json_array_append_new(list, o);
	}
	return list;
}

static json_t *json_modules(const struct capture *c, const struct symbols_list *symbols, struct arena *a)
{
	json_t *list = json_array();
	for (size_t i = 0; i < c->maps.n; i++) {
		const struct proc_map *m = &c->maps.p[i];
		const struct file *f = files_known(&c->files, m);
		if (!f || (i && files_known(&c->files, &c->maps.p[i - 1]) == f))
			continue;
		addr_t end = m->end;
		for (size_t k = i + 1; k < c->maps.n && files_known(&c->files, &c->maps.p[k]) == f; k++)
			end = c->maps.p[k].end;
		json_t *o = json_object();
		set_text(o, "path", a, m->path.p, m->path.len);
		set_address(o, "start", m->start);
		set_address(o, "end", end);
		if (!f->only_memory) {
			set_decimal(o, "size", f->size);
			set_decimal(o, "mtime_ns", (uint64_t)f->mtime_ns);
		}
		set_decimal(o, "inode", f->inode);
		set_decimal(o, "dev", makedev(f->dev_major, f->dev_minor));
		struct str id = str_hex(a, (struct blob){ f->build_id, f->build_id_len });
		set_text(o, "build_id", a, id.s ? id.s : "", id.len);
		const struct symbols *s = symbols_of(symbols, f);
		if (s && s->left_out)
			set_decimal(o, "symbols_left_out", s->left_out);
		if (s && s->size) {
			json_t *place = json_object();
			set_decimal(place, "at", s->at);
			set_decimal(place, "size", s->size);
			json_object_set_new(o, "symbols", place);
		}
		json_array_append_new(list, o);
	}
	return list;
}

static void make_info(const struct capture *c, const struct symbols_list *symbols, struct arena *a, struct sb *b)
{
	json_t *o = json_object();
	json_object_set_new(o, "format", json_integer(PZ_FORMAT));
	json_object_set_new(o, "tool", json_string("pysnap " PYSNAP_VERSION));
	set_decimal(o, "time_ns", (uint64_t)frozen_time_ns(c->frozen));
	if (c->start_ns > 0)
		set_decimal(o, "start_ns", (uint64_t)c->start_ns);
	set_decimal(o, "stopped_ns", (uint64_t)c->stopped_ns);
	json_object_set_new(o, "consistent", json_true());
	json_object_set_new(o, "pid", json_integer(c->pid));
	if (c->ns_pid > 0)
		json_object_set_new(o, "ns_pid", json_integer(c->ns_pid));
	set_text(o, "boot_id", a, c->boot_id.s, c->boot_id.len);
	if (c->parent.pid > 0) {
		json_t *parent = json_object();
		json_object_set_new(parent, "pid", json_integer(c->parent.pid));
		set_text(parent, "comm", a, c->parent.comm, strlen(c->parent.comm));
		if (c->parent.same_exec >= 0)
			json_object_set_new(parent, "same_exec", json_boolean(c->parent.same_exec));
		json_object_set_new(o, "parent", parent);
	}
	set_text(o, "exe", a, c->exe.s, c->exe.len);
	set_text(o, "cwd", a, c->cwd.s, c->cwd.len);
	set_text(o, "cmdline", a, c->cmdline.s, c->cmdline.len);
	if (c->opt.hint_runtime)
		set_address(o, "hint_runtime", c->opt.hint_runtime);
	json_object_set_new(o, "threads", json_threads(c, a));
	json_object_set_new(o, "modules", json_modules(c, symbols, a));
	char *text = json_dumps(o, JSON_COMPACT);
	if (text)
		sb_bytes(b, text, strlen(text));
	free(text);
	json_decref(o);
}

struct notes VEC(struct pz_note);

static void note(struct notes *v, const char *owner, uint32_t type, struct blob desc)
{
	if (desc.len)
		*vec_push(v) = (struct pz_note){ owner, type, desc };
}

static struct blob blob_of(const struct sb *b)
{
	return (struct blob){ (const uint8_t *)b->s, b->len };
}

/* In the kernel's order: the first thread's PRSTATUS, notes of the process, the first thread's others, further threads. */
static void make_notes(const struct capture *c, struct notes *v, const struct sb *psinfo, const struct sb *file, const struct sb *info,
		       const struct sb *lost)
{
	const struct thread *t;
	size_t n = frozen_threads(c->frozen, &t);
	uint32_t more[ABI_MORE_NOTES];
	abi_more_notes(&c->abi, more);
	for (size_t i = 0; i < n; i++) {
		note(v, "CORE", NT_PRSTATUS, t[i].prstatus);
		if (i == 0) {
			note(v, "CORE", NT_PRPSINFO, blob_of(psinfo));
			note(v, "CORE", NT_SIGINFO, t[i].siginfo);
			note(v, "CORE", NT_AUXV, blob_of(&c->auxv));
			note(v, "CORE", NT_FILE, blob_of(file));
		}
		note(v, "CORE", NT_FPREGSET, t[i].fpregset);
		note(v, "LINUX", NT_X86_XSTATE, t[i].xstate);
		for (size_t k = 0; k < ABI_MORE_NOTES; k++)
			note(v, "LINUX", more[k], t[i].more[k]);
		if (i)
			note(v, "CORE", NT_SIGINFO, t[i].siginfo);
	}
	note(v, "PYSNAP", PZ_NOTE_INFO, blob_of(info));
	note(v, "PYSNAP", PZ_NOTE_LOST, blob_of(lost));
}

/* -- writing -- */

static int write_file_piece(struct capture *c, struct pz_writer *w, const struct piece *p)
{
	static uint8_t buf[256 << 10];
	for (addr_t a = p->start; a < p->end;) {
		size_t n = p->end - a < sizeof buf ? (size_t)(p->end - a) : sizeof buf;
		uint64_t off = p->at + (a - p->start);
		ssize_t got = pread(p->file->fd, buf, n, (off_t)off);
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			got = 0;
		if ((size_t)got < n) {
			/* The end of the file's last page is zeros in memory as well.  What else is short was cut off meanwhile. */
			uint64_t end = off + (uint64_t)got;
			memset(buf + got, 0, n - (size_t)got);
			if (end < p->file->size && proc_peek(c->tid, -1, a, buf, n) < n)
				c->late_lost += n - (size_t)got;
		}
		int code = pz_write(w, buf, n);
		if (code)
			return code;
		a += n;
	}
	return 0;
}

/* After a write that came to code: 0, and it goes on. */
static int wrote(struct capture *c, struct pz_writer *w, int code, struct err *err)
{
	c->written = pz_written(w);
	if (code == ERR_LIMIT || (c->opt.interrupted && *c->opt.interrupted))
		return err_set(err, ERR_LIMIT, "interrupted; process %d runs on", (int)c->pid);
	return code ? pz_finish(w, err) : 0; /* says what went wrong */
}

static int write_pieces(struct capture *c, struct pz_writer *w, const struct pieces *v, struct err *err)
{
	for (size_t i = 0; i < v->n; i++) {
		const struct piece *p = &v->p[i];
		int code = 0;
		enum { STEP = 1 << 20 };
		switch (p->kind) {
		case PIECE_ABSENT:
		case PIECE_UNTOUCHED:
			break;
		case PIECE_ZERO:
			code = pz_zero(w, p->end - p->start);
			break;
		case PIECE_FILE:
			code = write_file_piece(c, w, p);
			break;
		case PIECE_DATA:
			for (uint64_t at = 0, size = p->end - p->start; !code && at < size; at += STEP) {
				code = pz_write(w, c->data + p->at + at, size - at < STEP ? (size_t)(size - at) : STEP);
				if (!code && c->opt.interrupted && *c->opt.interrupted)
					code = ERR_LIMIT;
			}
			break;
		}
		code = wrote(c, w, code, err);
		if (code)
			return code;
	}
	return 0;
}

static int write_symbols(struct capture *c, struct pz_writer *w, const struct symbols_list *l, struct err *err)
{
	for (size_t i = 0; i < l->file.n; i++) {
		if (!l->file.p[i].size)
			continue;
		int code = wrote(c, w, symbols_write(&l->file.p[i], w), err);
		if (code)
			return code;
	}
	return 0;
}

int capture_write(struct capture *c, int fd, struct err *err)
{
	CLEANUP(cleanup_arena) struct arena *a = arena_new();
	struct pieces pieces = { 0 };
	struct loads loads = { 0 };
	struct notes notes = { 0 };
	struct symbols_list symbols = { 0 };
	CLEANUP(cleanup_sb) struct sb psinfo = { 0 }, file = { 0 }, info = { 0 }, lost = { 0 };
	make_pieces(c, &pieces);
	make_loads(c, &pieces, &loads);
	make_prpsinfo(c, &psinfo);
	make_file_note(c, &file);
	if (c->opt.bundle == BUNDLE_ELF)
		symbols_find(&c->files, &c->maps, &symbols);
	c->unnamed = (struct capture_unnamed){ symbols.n_left_out, symbols.left_out,
		symbols.largest ? (struct str){ (const char *)symbols.largest->path.p, symbols.largest->path.len } : (struct str){ 0 } };
	make_info(c, &symbols, a, &info);
	make_lost_note(c, &pieces, &lost);
	make_notes(c, &notes, &psinfo, &file, &info, &lost);
	struct pz_plan plan = { .abi = c->abi, .notes = notes.p, .n_notes = notes.n, .loads = loads.p, .n_loads = loads.n, .tail = symbols.size,
				.level = c->opt.level, .interrupted = c->opt.interrupted };
	struct pz_writer *w = NULL;
	int code = pz_begin(fd, &plan, &w, err);
	if (!code)
		code = write_pieces(c, w, &pieces, err);
	if (!code)
		code = write_symbols(c, w, &symbols, err);
	if (!code)
		code = pz_finish(w, err);
	if (w) {
		c->written = pz_written(w);
		c->image_bytes = pz_unpacked(w);
	}
	int saved = errno; /* for the caller: ENOSPC has words of its own */
	pz_close(w);
	vec_free(&pieces);
	vec_free(&loads);
	vec_free(&notes);
	symbols_free(&symbols);
	errno = saved;
	return code;
}

uint64_t capture_written(const struct capture *c)
{
	return c->written;
}
