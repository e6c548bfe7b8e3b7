/*
 * The list of ELF files in memory, and which file on disk is theirs.  Names come from the file note, else from the
 * dynamic linker's list; what they are (headers, build-id, bias) from the image itself.  A file on disk is used only if
 * its build-id is the one in memory, or, where memory has none, if the user named it and it fits the mappings.
 */
#include "module/modules.h"

#include <elf.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "module/fetch.h"

enum { MAX_MODULES = 16384, MAX_LINK_MAP = 4096, MAX_CANDIDATES = 64 };

struct in_image { struct image *img; addr_t base; };

static int read_in_image(void *ctx, uint64_t off, void *buf, size_t len)
{
	struct in_image *in = ctx;
	uint64_t at;
	if (!add_fits(in->base, off, &at))
		return ERR_FAULT;
	return image_read(in->img, at, buf, len);
}

static int read_fd(void *ctx, uint64_t off, void *buf, size_t len)
{
	return fd_read(*(int *)ctx, off, buf, len);
}

static uint64_t round_up(const struct modules *mods, uint64_t v)
{
	return (v + mods->page - 1) & ~(mods->page - 1);
}

static uint64_t round_down(const struct modules *mods, uint64_t v)
{
	return v & ~(mods->page - 1);
}

bool mod_same_machine(const struct mod *m, const struct elf_head *h)
{
	const struct abi *abi = image_abi(m->mods->img);
	return h->abi.machine == abi->machine && h->abi.width == abi->width && h->abi.big_endian == abi->big_endian;
}

/* The load that file offset `offset` (a page's) belongs to, when it is mapped at addr under this bias. */
static bool piece_fits(const struct modules *mods, const struct elf_head *h, addr_t bias, const struct piece *p)
{
	for (size_t i = 0; i < h->n_load; i++) {
		const struct elf_part *l = &h->load[i];
		uint64_t lo = round_down(mods, l->offset), hi = round_up(mods, l->offset + l->filesz);
		if (p->offset >= lo && p->offset < hi && p->end - p->start <= hi - p->offset &&
		    p->start - p->offset == bias + l->vaddr - l->offset)
			return true;
	}
	return false;
}

/* Do all pieces lie where the program headers put them?  The linker leaves holes between loads mapped without rights. */
static bool pieces_fit(const struct mod *m, const struct elf_head *h, addr_t bias)
{
	for (size_t i = 0; i < m->piece.n; i++)
		if (m->piece.p[i].prot && !piece_fits(m->mods, h, bias, &m->piece.p[i]))
			return false;
	return true;
}

/* What is added to a vaddr so that the file's first page is at `at`. */
static bool bias_of(const struct modules *mods, const struct elf_head *h, addr_t at, addr_t *ret)
{
	for (size_t i = 0; i < h->n_load; i++) {
		if (round_down(mods, h->load[i].offset) == 0) {
			*ret = at - (h->load[i].vaddr - h->load[i].offset);
			return true;
		}
	}
	return false;
}

static bool set_span(struct mod *m, const struct elf_head *h, addr_t bias)
{
	uint64_t lo, hi;
	elf_span(h, &lo, &hi);
	addr_t start = bias + round_down(m->mods, lo), end = bias + round_up(m->mods, hi);
	if (end <= start)
		return false;
	m->pub.start = start;
	m->pub.end = end;
	m->pub.bias = bias;
	m->pub.bias_known = true;
	return true;
}

static void take_headers(struct mod *m, const struct elf_head *h, addr_t base)
{
	struct in_image in = { m->mods->img, base };
	struct elf_source src = { read_in_image, &in };
	uint8_t id[ELF_BUILD_ID_MAX];
	m->head = arena_dup(m->mods->arena, h, sizeof *h);
	m->pub.headers_in_image = true;
	int n = elf_build_id(&src, h, id);
	if (n > 0)
		m->pub.build_id = (struct blob){ arena_dup(m->mods->arena, id, (size_t)n), (size_t)n };
	m->no_build_id = n == ERR_ABSENT;
}

/* What the snapshot noted of it; memory is believed where it has the same to tell. */
static void take_noted(struct mod *m)
{
	const struct noted_file *noted = m->pub.vdso ? NULL : image_noted_at(m->mods->img, m->pub.start);
	m->noted_at = m->pub.start;
	if (noted && !m->pub.build_id.len && !m->no_build_id)
		m->pub.build_id = noted->build_id;
}

static struct piece piece_of(const struct mapping *map)
{
	return (struct piece){ map->start, map->end, map->offset, map->prot };
}

static bool same_path(const struct mapping *a, const struct mapping *b)
{
	return a->path.len == b->path.len && memcmp(a->path.p, b->path.p, a->path.len) == 0;
}

static bool is_file(const struct mapping *map)
{
	return map->path.len > 1 && map->path.p[0] == '/' && map->end > map->start;
}

/*
 * The module that begins with map[i]; returns how many mappings of its path were looked at (at least 1).  Without
 * readable headers, what is mapped executable is taken for a module: data files never are.
 */
static size_t module_at_mapping(struct modules *mods, const struct mapping *map, size_t n, struct mod *m, bool *found)
{
	struct in_image in = { mods->img, map[0].start };
	struct elf_source src = { read_in_image, &in };
	struct elf_head head;
	int rc = map[0].offset == 0 ? elf_head_read(&src, &head) : ERR_FAULT;
	addr_t bias = 0;
	*m = (struct mod){ .mods = mods, .pub.path = map[0].path };
	*found = false;
	if (rc == 0 && (!mod_same_machine(m, &head) || !bias_of(mods, &head, map[0].start, &bias) || !set_span(m, &head, bias)))
		rc = ERR_UNSUPPORTED;
	bool whole = rc == 0, executable = false;
	size_t used = 0;
	for (size_t i = 0; i < n; i++) {
		if (!map[i].path.len)
			continue; /* .bss, or what the linker put into a hole */
		if (!same_path(&map[i], &map[0]) || (whole && map[i].start >= m->pub.end))
			break;
		if (!whole && i && (map[i].offset == 0 || map[i].offset < map[i - 1].offset))
			break; /* another copy of the file */
		*vec_push(&m->piece) = piece_of(&map[i]);
		executable |= (map[i].prot & 4) != 0;
		used = i + 1;
	}
	if (whole) {
		*found = pieces_fit(m, &head, bias);
		if (*found)
			take_headers(m, &head, map[0].start);
	} else if (rc == ERR_FAULT || rc == ERR_IO) {
		m->pub.start = map[0].start;
		m->pub.end = map[used - 1].end;
		*found = executable;
	}
	if (!*found)
		vec_free(&m->piece);
	return used;
}

struct found { struct VEC(struct mod) mod; };

static void from_mappings(struct modules *mods, struct found *f)
{
	const struct mapping *map;
	size_t n = image_mappings(mods->img, &map);
	for (size_t i = 0; i < n && f->mod.n < MAX_MODULES;) {
		if (!is_file(&map[i])) {
			i++;
			continue;
		}
		struct mod m;
		bool found;
		i += module_at_mapping(mods, map + i, n - i, &m, &found);
		if (found)
			*vec_push(&f->mod) = m;
	}
}

/* A module whose ELF header is at base: the vdso, or one that only the link map tells of. */
static bool from_base(struct modules *mods, addr_t base, struct mod *ret)
{
	struct in_image in = { mods->img, base };
	struct elf_source src = { read_in_image, &in };
	struct elf_head head;
	addr_t bias = 0;
	*ret = (struct mod){ .mods = mods };
	if (elf_head_read(&src, &head) < 0 || !mod_same_machine(ret, &head) || !bias_of(mods, &head, base, &bias) ||
	    !set_span(ret, &head, bias))
		return false;
	take_headers(ret, &head, base);
	return true;
}

static void add_vdso(struct modules *mods, struct found *f)
{
	uint64_t base = 0;
	struct mod m;
	if (image_auxv(mods->img, AT_SYSINFO_EHDR, &base) < 0 || !base || !from_base(mods, base, &m))
		return;
	m.pub.path = (struct blob){ (const uint8_t *)"[vdso]", 6 };
	m.pub.vdso = true;
	for (size_t i = 0; i < f->mod.n; i++) {
		struct mod *same = &f->mod.p[i];
		if (same->pub.start == m.pub.start && !same->piece.n) { /* out of the dynamic linker's list: linux-vdso.so.1 */
			*same = m;
			return;
		}
	}
	*vec_push(&f->mod) = m;
}

static bool overlaps(const struct found *f, const struct mod *m)
{
	for (size_t i = 0; i < f->mod.n; i++)
		if (m->pub.start < f->mod.p[i].pub.end && f->mod.p[i].pub.start < m->pub.end)
			return true;
	return false;
}

static void add_new(struct found *f, const struct mod *m)
{
	if (f->mod.n < MAX_MODULES && !overlaps(f, m))
		*vec_push(&f->mod) = *m;
}

/*
 * A page of a file's text that was mapped once more is no module: libffi 3.4 does so for its closures
 * (ffi_tramp_get_libffi in src/tramp.c).
 */
static void drop_fragments(struct found *f)
{
	size_t kept = 0;
	unsigned budget = 1 << 20; /* comparisons: for lists that were made up */
	for (size_t i = 0; i < f->mod.n; i++) {
		struct mod *m = &f->mod.p[i];
		bool fragment = false;
		for (size_t k = 0; !m->pub.bias_known && m->piece.p[0].offset && k < f->mod.n && !fragment && budget; k++, budget--) {
			const struct module *whole = &f->mod.p[k].pub;
			fragment = whole->bias_known && whole->path.len == m->pub.path.len &&
				   memcmp(whole->path.p, m->pub.path.p, whole->path.len) == 0;
		}
		if (fragment)
			vec_free(&m->piece);
		else
			f->mod.p[kept++] = *m;
	}
	f->mod.n = kept;
}

static struct blob text_at(struct modules *mods, addr_t at)
{
	char buf[4096];
	int n = at ? image_read_cstr(mods->img, at, buf, sizeof buf - 1) : ERR_FAULT;
	return n > 0 ? (struct blob){ arena_dup(mods->arena, buf, (size_t)n), (size_t)n } : (struct blob){ 0 };
}

static struct blob program_path(struct modules *mods)
{
	struct str exe = image_facts(mods->img)->exe;
	uint64_t name = 0;
	if (exe.len)
		return (struct blob){ (const uint8_t *)exe.s, exe.len };
	return image_auxv(mods->img, AT_EXECFN, &name) == 0 ? text_at(mods, name) : (struct blob){ 0 };
}

/* All that is known of it is where its program headers were: the first page of the file, but for odd linkers. */
static void add_program_without_headers(struct modules *mods, struct found *f, addr_t phdr)
{
	struct mod m = { .mods = mods, .by_auxv = true };
	const addr_t start = round_down(mods, phdr);
	if (start > UINT64_MAX - mods->page)
		return;
	*vec_push(&m.piece) = (struct piece){ start, start + mods->page, 0, 1 };
	m.pub.start = start;
	m.pub.end = start + mods->page;
	m.pub.path = program_path(mods);
	if (f->mod.n < MAX_MODULES && !overlaps(f, &m))
		*vec_push(&f->mod) = m;
	else
		vec_free(&m.piece);
}

/* The program, by what the kernel told it about itself; *dynamic: where its dynamic section is, 0 if it has none. */
static void add_program(struct modules *mods, struct found *f, addr_t *dynamic)
{
	uint64_t phdr = 0, phnum = 0;
	*dynamic = 0;
	if (image_auxv(mods->img, AT_PHDR, &phdr) < 0 || image_auxv(mods->img, AT_PHNUM, &phnum) < 0 || phnum > ELF_MAX_PHDRS)
		return;
	struct in_image in = { mods->img, phdr };
	struct elf_source src = { read_in_image, &in };
	struct elf_head head = { .abi = *image_abi(mods->img), .type = ET_DYN };
	uint8_t byte;
	if (image_read(mods->img, phdr, &byte, 1) < 0)
		add_program_without_headers(mods, f, phdr);
	if (elf_phdrs_read(&src, 0, (unsigned)phnum, &head) < 0)
		return;
	addr_t bias = 0;
	if (head.phdr.memsz)
		bias = phdr - head.phdr.vaddr;
	if (head.dynamic.memsz)
		*dynamic = bias + head.dynamic.vaddr;
	struct mod m;
	uint64_t lo, hi;
	elf_span(&head, &lo, &hi);
	if (!from_base(mods, bias + round_down(mods, lo), &m))
		return;
	m.pub.path = program_path(mods);
	add_new(f, &m);
}

/* The dynamic linker's list: DT_DEBUG -> r_debug { version, map } -> link_map { addr, name, ld, next, prev }. */
static void from_link_map(struct modules *mods, struct found *f)
{
	struct image *img = mods->img;
	const uint8_t w = image_abi(img)->width;
	addr_t dynamic = 0, debug = 0, map = 0;
	add_program(mods, f, &dynamic);
	for (unsigned i = 0; dynamic && i < 512; i++) {
		addr_t tag = 0, value = 0;
		if (image_read_ptr(img, dynamic + 2ull * w * i, &tag) < 0 || image_read_ptr(img, dynamic + 2ull * w * i + w, &value) < 0 ||
		    tag == DT_NULL)
			break;
		if (tag == DT_DEBUG)
			debug = value;
	}
	if (!debug || image_read_ptr(img, debug + w, &map) < 0)
		return;
	for (unsigned i = 0; map && i < MAX_LINK_MAP; i++) {
		addr_t bias = 0, name = 0, ld = 0, next = 0;
		struct mod m;
		if (image_read_ptr(img, map, &bias) < 0 || image_read_ptr(img, map + w, &name) < 0 ||
		    image_read_ptr(img, map + 2ull * w, &ld) < 0 || image_read_ptr(img, map + 3ull * w, &next) < 0)
			return;
		/* A library's first load is at vaddr 0 but for prelinked ones; then its headers cannot be found from here. */
		if (bias && from_base(mods, bias, &m) && m.pub.bias == bias && ld >= m.pub.start && ld < m.pub.end) {
			m.pub.path = text_at(mods, name);
			add_new(f, &m);
		}
		map = next;
	}
}

/* ---- files on disk */

/* Is the program what the kernel told it of itself? */
static bool auxv_agrees(const struct mod *m, const struct elf_head *h, addr_t bias)
{
	const uint64_t mask = h->abi.width == 8 ? UINT64_MAX : UINT32_MAX;
	uint64_t entry, phnum;
	return !m->pub.exe || ((image_auxv(m->mods->img, AT_ENTRY, &entry) < 0 || entry == ((bias + h->entry) & mask)) &&
			       (image_auxv(m->mods->img, AT_PHNUM, &phnum) < 0 || phnum == h->phnum));
}

/* The bias of a module whose headers are not in the image, by a file that may be its own. */
static bool place_by_file(struct mod *m, const struct elf_head *h)
{
	addr_t bias;
	const struct piece *first = m->piece.n ? &m->piece.p[0] : NULL;
	if (!first)
		return false;
	for (size_t i = 0; i < h->n_load; i++) {
		bias = first->start - first->offset - (h->load[i].vaddr - h->load[i].offset);
		if (piece_fits(m->mods, h, bias, first) && pieces_fit(m, h, bias) && auxv_agrees(m, h, bias))
			return set_span(m, h, bias);
	}
	return false;
}

/*
 * Is the file's dynamic section the one in memory, but for what the linker writes there?  Sizes and addresses in it
 * differ from build to build.  Where memory has lost it, or the file has none, there is nothing to compare.
 */
static bool dynamic_agrees(struct mod *m, const struct elf_source *file, const struct elf_head *h)
{
	struct image *img = m->mods->img;
	const uint8_t w = image_abi(img)->width;
	if (!h->dynamic.memsz || h->dynamic.filesz > 2ull * w * 512)
		return true;
	for (uint64_t at = 0; at + 2ull * w <= h->dynamic.filesz; at += 2ull * w) {
		uint8_t buf[16];
		uint64_t tag = 0, value = 0, mem_tag = 0, mem_value = 0;
		addr_t mem = m->pub.bias + h->dynamic.vaddr + at;
		if (file->read(file->ctx, h->dynamic.offset + at, buf, 2u * w) < 0)
			return false;
		struct cursor c = cursor_of(buf, 2u * w, h->abi.big_endian);
		if (cursor_uint(&c, w, &tag) < 0 || cursor_uint(&c, w, &value) < 0)
			return false;
		if (image_read_ptr(img, mem, &mem_tag) < 0 || image_read_ptr(img, mem + w, &mem_value) < 0)
			return true;
		if (tag != mem_tag)
			return false;
		bool written = tag == DT_DEBUG || tag == DT_MIPS_RLD_MAP || tag == DT_MIPS_RLD_MAP_REL;
		if (!written && mem_value != value && mem_value != ((value + m->pub.bias) & (w == 8 ? UINT64_MAX : UINT32_MAX)))
			return false;
		if (tag == DT_NULL)
			break;
	}
	return true;
}

/* Takes fd. */
static void take_file(struct mod *m, const struct elf_head *h, const struct candidate *c, int fd)
{
	m->file = disk_file_take(m->mods, c, h, fd);
	if (!m->file)
		return;
	m->pub.file = c->path;
	if (!m->head)
		m->head = m->file->head;
	m->pub.unverified = !m->pub.build_id.len;
}

/* A file that may be its own: fd is taken or closed. */
static void try_file(struct mod *m, const struct candidate *c, int fd)
{
	struct elf_head head;
	struct elf_source src = { read_fd, &fd };
	uint8_t id[ELF_BUILD_ID_MAX];
	const struct blob *want = &m->pub.build_id;
	if (elf_head_read(&src, &head) < 0 || !mod_same_machine(m, &head))
		goto no;
	int n = elf_build_id(&src, &head, id);
	if (want->len) {
		if (n == (int)want->len && memcmp(id, want->p, want->len) == 0) {
			/* Without its headers in memory nothing but the file tells where its addresses are. */
			if (!m->head && !place_by_file(m, &head))
				goto no;
			take_file(m, &head, c, fd);
			return;
		}
		if (!m->pub.disk_path) {
			m->pub.disk_named = c->asked;
			m->pub.disk_path = c->path;
			if (n > 0)
				m->pub.disk_build_id = (struct blob){ arena_dup(m->mods->arena, id, (size_t)n), (size_t)n };
		}
	} else if (c->asked) {
		struct module before = m->pub;
		bool fits = m->head ? pieces_fit(m, &head, m->pub.bias) : place_by_file(m, &head);
		if (fits && dynamic_agrees(m, &src, &head)) {
			take_file(m, &head, c, fd);
			return;
		}
		m->pub = before;
	} else if (!m->pub.unproven) {
		m->pub.unproven = c->path;
	}
no:
	close(fd);
}

static void fetch_exe(struct mod *m)
{
	struct candidate c;
	if (m->pub.file || m->asked_exe || !m->pub.build_id.len || m->pub.vdso)
		return;
	m->asked_exe = true;
	int fd = opener_fetch(m->mods->opener, FETCH_EXECUTABLE, m->pub.build_id, &c);
	if (fd >= 0)
		try_file(m, &c, fd);
}

static bool looks_like_python(struct blob path);

static void find_file(struct mod *m)
{
	const struct wanted want = { .path = m->pub.path, .build_id = m->pub.build_id, .exe = m->pub.exe };
	for (unsigned nth = 0; nth < MAX_CANDIDATES && !m->pub.file && !m->pub.vdso; nth++) {
		struct candidate c;
		int fd = opener_elf(m->mods->opener, &want, nth, &c);
		if (fd == ERR_ABSENT)
			break;
		if (fd >= 0)
			try_file(m, &c, fd);
		else if (fd == ERR_PERM && !m->pub.denied)
			m->pub.denied = c.path;
	}
	/* The interpreter's are needed before any stack is known. */
	if (m->pub.exe || looks_like_python(m->pub.path))
		fetch_exe(m);
	if (m->pub.file)
		m->pub.unproven = m->pub.denied = NULL;
	if (m->pub.file && !m->pub.disk_named) { /* else the user named another one: that is still to be said */
		m->pub.disk_path = NULL;
		m->pub.disk_build_id = (struct blob){ 0 };
	}
}

/* What names there are. */
static void rate_symbols(struct mod *m)
{
	m->pub.mini_rc = m->symtab ? 0 : m->mini_rc;
	if (m->symtab)
		m->pub.symbols = SYMBOLS_FULL;
	else if (m->mini_in)
		m->pub.symbols = SYMBOLS_MINI;
	else if (m->pub.file)
		m->pub.symbols = m->file->head->dynamic.memsz ? SYMBOLS_DYNSYM : SYMBOLS_NONE;
	else if (dynamic_in_image(m))
		m->pub.symbols = SYMBOLS_DYNSYM;
	else if (m->pub.disk_path)
		m->pub.symbols = SYMBOLS_MISMATCH;
}

bool modules_can_fetch(void)
{
	return fetch_there();
}

int modules_fetch_state(const struct modules *mods)
{
	return opener_fetch_state(mods->opener);
}

void modules_fetched(const struct modules *mods, size_t *asked, size_t *given)
{
	opener_fetched(mods->opener, asked, given);
}

bool modules_fetch(struct modules *mods, const struct module *pub, bool want_debug)
{
	struct mod *m = &mods->mod[pub - mods->pub];
	const struct disk_file *file = m->file, *debug = m->debug;
	if (mods->sealed || m->pub.vdso)
		return false;
	fetch_exe(m);
	if (m->file && !file) {
		debug_find(m);
		backing_lay(m);
		image_settle(mods->img);
		rate_symbols(m);
	}
	if (want_debug && !m->asked_debug) {
		m->asked_debug = true;
		debug_fetch(m);
	}
	if (m->file == file && m->debug == debug)
		return false;
	rate_symbols(m);
	names_free(m);
	mods->pub[pub - mods->pub] = m->pub;
	return true;
}

/* ---- the list */

static int by_start(const void *a, const void *b)
{
	const struct mod *x = a, *y = b;
	return x->pub.start < y->pub.start ? -1 : x->pub.start > y->pub.start;
}

static void sort(struct modules *mods)
{
	if (mods->n)
		qsort(mods->mod, mods->n, sizeof *mods->mod, by_start);
}

static void publish(struct modules *mods)
{
	for (size_t i = 0; i < mods->n; i++)
		mods->pub[i] = mods->mod[i].pub;
}

static bool looks_like_python(struct blob path)
{
	struct str base = str_base((struct str){ (const char *)path.p, path.len });
	return str_starts(base, "libpython");
}

static void mark_exe(struct modules *mods)
{
	uint64_t at = 0;
	struct str exe = image_facts(mods->img)->exe;
	if ((image_auxv(mods->img, AT_ENTRY, &at) < 0 || !modules_at(mods, at)) && image_auxv(mods->img, AT_PHDR, &at) < 0)
		at = 0;
	for (size_t i = 0; i < mods->n; i++) {
		struct module *m = &mods->mod[i].pub;
		bool named = exe.len && m->path.len == exe.len && memcmp(m->path.p, exe.s, exe.len) == 0;
		if (at ? at >= m->start && at < m->end : named) {
			m->exe = true;
			return;
		}
	}
}

static void make_order(struct modules *mods)
{
	size_t n = 0;
	mods->order = arena_alloc(mods->arena, (mods->n + 1) * sizeof *mods->order);
	for (int rank = 0; rank < 3; rank++) {
		for (size_t i = 0; i < mods->n; i++) {
			const struct module *m = &mods->mod[i].pub;
			if ((m->exe ? 0 : looks_like_python(m->path) ? 1 : 2) == rank)
				mods->order[n++] = i;
		}
		if (rank == 1)
			mods->n_first = n;
	}
}

int modules_open(struct image *img, const struct search *where, struct modules **ret, struct err *err)
{
	struct modules *mods = xcalloc(1, sizeof *mods);
	struct found f = { 0 };
	uint64_t page = 0;
	(void)err;
	mods->img = img;
	mods->arena = arena_new();
	mods->opener = opener_new(where);
	mods->page = 4096;
	if (image_auxv(img, AT_PAGESZ, &page) == 0 && page >= 4096 && page <= 65536 && (page & (page - 1)) == 0)
		mods->page = page;
	from_mappings(mods, &f);
	drop_fragments(&f);
	if (!f.mod.n)
		from_link_map(mods, &f);
	add_vdso(mods, &f);
	mods->mod = f.mod.p;
	mods->n = f.mod.n;
	mods->pub = arena_alloc(mods->arena, (mods->n + 1) * sizeof *mods->pub);
	sort(mods);
	publish(mods);
	mark_exe(mods);
	for (size_t i = 0; i < mods->n; i++) {
		take_noted(&mods->mod[i]);
		find_file(&mods->mod[i]);
	}
	sort(mods); /* a file may have moved the start of a module without headers */
	for (size_t i = 0; i < mods->n; i++) {
		debug_find(&mods->mod[i]);
		rate_symbols(&mods->mod[i]);
	}
	publish(mods);
	make_order(mods);
	mods->private_kept = backing_private_kept(mods);
	for (size_t i = 0; i < mods->n; i++)
		backing_lay(&mods->mod[i]);
	image_settle(img);
	*ret = mods;
	return 0;
}

void modules_close(struct modules *mods)
{
	if (!mods)
		return;
	disk_files_close(mods);
	for (size_t i = 0; i < mods->n; i++) {
		vec_free(&mods->mod[i].piece);
		names_free(&mods->mod[i]);
	}
	free(mods->mod);
	opener_free(mods->opener);
	arena_free(mods->arena);
	free(mods);
}

size_t modules_list(const struct modules *mods, const struct module **ret)
{
	*ret = mods->pub;
	return mods->n;
}

const struct module *modules_at(const struct modules *mods, addr_t addr)
{
	size_t lo = 0, hi = mods->n;
	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;
		if (mods->pub[mid].start <= addr)
			lo = mid + 1;
		else
			hi = mid;
	}
	/* Spans may overlap when an image lies; a module that holds addr is then a few places back at most. */
	for (size_t i = lo; i-- > 0 && lo - i <= 8;)
		if (addr < mods->pub[i].end)
			return &mods->pub[i];
	return NULL;
}

const struct module *modules_exe(const struct modules *mods)
{
	for (size_t i = 0; i < mods->n; i++)
		if (mods->pub[i].exe)
			return &mods->pub[i];
	return NULL;
}

struct opener *modules_opener(struct modules *mods)
{
	return mods->opener;
}
