/*
 * ELF cores of Linux: program headers and notes -> segments, threads, mappings, facts.  32 and 64 bit, both byte
 * orders, read by hand, since the bytes may be a snapshot's payload and must not all be in memory.
 *
 * What p_memsz has beyond p_filesz is not there: the kernel leaves out pages that way (fs/binfmt_elf.c, elf_core_dump).
 * Where loads overlap, the later one in the table counts.
 */
#include "image/pz.h"

#include <stdlib.h>
#include <string.h>

enum {
	ET_REL = 1, ET_CORE = 4,
	PT_LOAD = 1, PT_NOTE = 4,
	PN_XNUM = 0xffff,
	NT_PRSTATUS = 1, NT_FPREGSET = 2, NT_PRPSINFO = 3, NT_AUXV = 6,
	NT_X86_XSTATE = 0x202, NT_FILE = 0x46494c45, NT_SIGINFO = 0x53494749,
	HEADERS_AT_ONCE = 1024,
	/*
	 * Of either: a thousand of them may come out of a few bytes of a compressed file, and the lists made of them take more than
	 * they do.  A process has 65,530 mappings (vm.max_map_count), where that was raised perhaps a million; 100,000 threads have
	 * 600,000 notes.
	 */
	HEADERS_MAX = 1 << 22, NOTES_MAX = 1 << 20,
};
static const uint64_t notes_max = 256 << 20; /* 10,000 threads have some 50 MB */

struct phdr {
	uint64_t type, flags, offset, vaddr, filesz, memsz, align;
};

struct load {
	struct bytes *b;
	uint64_t offset;
};

struct core {
	struct bytes *b;
	struct image *img;
	struct err *err;
	struct abi abi;
	struct abi_notes places;
	bool known;              /* places are */
	uint64_t phoff, shoff, phnum;
	size_t phentsize, shentsize;
	struct VEC(struct mapped) mapped; /* all loads, those without bytes too */
	struct VEC(struct phdr) notes;
	size_t thread;           /* notes that follow belong to thread - 1; 0: none yet */
};

static struct cursor cursor_in(const struct core *c, const void *p, size_t len)
{
	return cursor_of(p, len, c->abi.big_endian);
}

/* --- headers --- */

static bool probe(struct bytes *b)
{
	uint8_t magic[4];
	return b->size >= sizeof magic && bytes_read(b, 0, magic, sizeof magic) == 0 && memcmp(magic, "\177ELF", 4) == 0;
}

static int corrupt(struct core *c, const char *what, uint64_t found, uint64_t wanted)
{
	err_set(c->err, ERR_CORRUPT, "%s: %s is %llu, not %llu", c->b->name, what, (unsigned long long)found, (unsigned long long)wanted);
	err_hint(c->err, "copy it again; \"readelf -h\" shows what it holds");
	return ERR_CORRUPT;
}

static int cut_off(struct core *c, const char *where)
{
	err_set(c->err, ERR_CORRUPT, "%s is cut off in its %s: %llu bytes are there", c->b->name, where, (unsigned long long)c->b->size);
	err_why(c->err, "often ulimit -c or ProcessSizeMax= in coredump.conf, or a full disk");
	err_hint(c->err, "raise the limit, or copy it again and compare sizes");
	return ERR_CORRUPT;
}

static int too_many(struct core *c)
{
	err_set(c->err, ERR_UNSUPPORTED, "%s has %llu program headers, up to %d are read", c->b->name, (unsigned long long)c->phnum, HEADERS_MAX);
	err_hint(c->err, "\"readelf -l\" shows what it holds");
	return ERR_UNSUPPORTED;
}

static int nothing_in_it(struct core *c)
{
	err_set(c->err, ERR_CORRUPT, "%s is a core without threads and memory", c->b->name);
	err_hint(c->err, "write it again; \"readelf -l\" shows what it holds");
	return ERR_CORRUPT;
}

static int not_a_core(struct core *c, uint64_t type)
{
	if (type == ET_REL)
		err_set(c->err, ERR_UNSUPPORTED, "%s is an ELF object file, not a core", c->b->name);
	else
		err_set(c->err, ERR_UNSUPPORTED, "%s is an ELF program, not a core", c->b->name);
	err_hint(c->err, "pyanalyze -e %s CORE", c->b->name);
	return ERR_UNSUPPORTED;
}

/* With 0xffff or more program headers their number is in section header 0 (Linux 2.6.34, elf_core_dump). */
static void extended_number(struct core *c)
{
	uint8_t sh[64];
	size_t size = c->abi.width == 8 ? 64 : 40, at = c->abi.width == 8 ? 44 : 28; /* sh_info */
	if (c->shoff && c->shentsize >= size && bytes_read(c->b, c->shoff, sh, size) == 0) {
		struct cursor s = cursor_in(c, sh, size);
		uint64_t n;
		if (cursor_skip(&s, at) == 0 && cursor_uint(&s, 4, &n) == 0 && n >= PN_XNUM) {
			c->phnum = n;
			return;
		}
	}
	/* The kernel puts that section header last, so a truncated core has lost it; but what the first header (the notes) points
	 * to follows the last one. */
	uint8_t first[56];
	size_t place = c->abi.width == 8 ? 8 : 4; /* p_offset */
	uint64_t offset;
	if (bytes_read(c->b, c->phoff, first, c->abi.width == 8 ? 56 : 32) < 0)
		return;
	struct cursor s = cursor_in(c, first, sizeof first);
	if (cursor_skip(&s, place) == 0 && cursor_uint(&s, c->abi.width, &offset) == 0 && offset > c->phoff &&
	    (offset - c->phoff) / c->phentsize > PN_XNUM && (offset - c->phoff) / c->phentsize <= UINT32_MAX)
		c->phnum = (offset - c->phoff) / c->phentsize;
}

static int read_header(struct core *c)
{
	uint8_t eh[64] = { 0 };
	if (c->b->size < 16)
		return cut_off(c, "ELF header");
	if (bytes_read(c->b, 0, eh, c->b->size < 64 ? (size_t)c->b->size : 64) < 0)
		return err_set(c->err, ERR_IO, "cannot read %s", c->b->name);
	if (eh[4] != 1 && eh[4] != 2)
		return corrupt(c, "the ELF class", eh[4], 2);
	if (eh[5] != 1 && eh[5] != 2)
		return corrupt(c, "the byte order", eh[5], 1);
	c->abi.width = eh[4] == 2 ? 8 : 4;
	c->abi.big_endian = eh[5] == 2;
	size_t w = c->abi.width, size = w == 8 ? 64 : 52;
	struct cursor s = cursor_in(c, eh, size);
	uint64_t type, machine, phentsize, phnum, shentsize;
	int rc = cursor_skip(&s, 16);
	rc = rc < 0 ? rc : cursor_uint(&s, 2, &type);
	rc = rc < 0 ? rc : cursor_uint(&s, 2, &machine);
	rc = rc < 0 ? rc : cursor_skip(&s, 4 + w); /* e_version, e_entry */
	rc = rc < 0 ? rc : cursor_uint(&s, w, &c->phoff);
	rc = rc < 0 ? rc : cursor_uint(&s, w, &c->shoff);
	rc = rc < 0 ? rc : cursor_skip(&s, 4 + 2); /* e_flags, e_ehsize */
	rc = rc < 0 ? rc : cursor_uint(&s, 2, &phentsize);
	rc = rc < 0 ? rc : cursor_uint(&s, 2, &phnum);
	rc = rc < 0 ? rc : cursor_uint(&s, 2, &shentsize);
	if (rc < 0)
		return cut_off(c, "ELF header");
	if (c->b->size >= 18 && type != ET_CORE)
		return not_a_core(c, type);
	if (c->b->size < size)
		return cut_off(c, "ELF header");
	if (phentsize < (w == 8 ? 56u : 32u)) /* larger ones are allowed: e_phentsize is there for that */
		return corrupt(c, "the size of a program header", phentsize, w == 8 ? 56 : 32);
	c->abi.machine = (uint16_t)machine;
	c->phentsize = (size_t)phentsize;
	c->shentsize = (size_t)shentsize;
	c->phnum = phnum;
	if (phnum == PN_XNUM)
		extended_number(c);
	return 0;
}

static int parse_phdr(const struct core *c, const uint8_t *p, struct phdr *ret)
{
	struct cursor s = cursor_in(c, p, c->phentsize);
	size_t w = c->abi.width;
	struct phdr h = { 0 };
	int rc = cursor_uint(&s, 4, &h.type);
	if (w == 8)
		rc = rc < 0 ? rc : cursor_uint(&s, 4, &h.flags);
	rc = rc < 0 ? rc : cursor_uint(&s, w, &h.offset);
	rc = rc < 0 ? rc : cursor_uint(&s, w, &h.vaddr);
	rc = rc < 0 ? rc : cursor_skip(&s, w); /* p_paddr */
	rc = rc < 0 ? rc : cursor_uint(&s, w, &h.filesz);
	rc = rc < 0 ? rc : cursor_uint(&s, w, &h.memsz);
	if (w == 4)
		rc = rc < 0 ? rc : cursor_uint(&s, 4, &h.flags);
	rc = rc < 0 ? rc : cursor_uint(&s, w, &h.align);
	if (rc == 0)
		*ret = h;
	return rc;
}

/* --- memory --- */

static int load_read(void *ctx, uint64_t offset, void *buf, size_t len)
{
	struct load *l = ctx;
	return bytes_read(l->b, l->offset + offset, buf, len); /* fits: add_load has checked */
}

static uint64_t load_hole(void *ctx, uint64_t offset)
{
	struct load *l = ctx;
	return l->b->hole ? l->b->hole(l->b, l->offset + offset) : 0;
}

/* n shortened so that base + n does not pass limit. */
static uint64_t fit(uint64_t base, uint64_t n, uint64_t limit)
{
	return base >= limit ? 0 : n < limit - base ? n : limit - base;
}

static int add_load(struct core *c, const struct phdr *h)
{
	uint64_t top = c->abi.width == 4 ? (uint64_t)1 << 32 : UINT64_MAX;
	/* PF_X 1, PF_W 2, PF_R 4 -> read 1, write 2, execute 4 */
	unsigned prot = (h->flags & 4 ? 1u : 0) | (h->flags & 2 ? 2u : 0) | (h->flags & 1 ? 4u : 0);
	struct image_facts *f = image_facts_mut(c->img);
	uint64_t memsz = fit(h->vaddr, h->memsz > h->filesz ? h->memsz : h->filesz, top);
	if (memsz)
		*vec_push(&c->mapped) = (struct mapped){ h->vaddr, h->vaddr + memsz, prot };
	uint64_t size = fit(h->vaddr, h->filesz, top);
	if (!size)
		return 0;
	uint64_t there = fit(h->offset, size, c->b->size);
	f->n_segments++;
	if (there < size) {
		f->n_segments_lost++;
		image_add_lost(c->img, h->vaddr + there, h->vaddr + size);
	}
	struct load *l = arena_alloc(image_arena(c->img), sizeof *l);
	*l = (struct load){ c->b, h->offset };
	struct segment s = { .start = h->vaddr, .size = there, .prot = prot, .read = load_read, .ctx = l, .hole = load_hole };
	return image_add_segment(c->img, &s, LAY_OVER);
}

/* The file's end by this piece of it; a sum that does not fit counts as far away. */
static void expect(struct core *c, uint64_t offset, uint64_t size)
{
	struct image_facts *f = image_facts_mut(c->img);
	uint64_t end;
	if (!add_fits(offset, size, &end))
		end = UINT64_MAX;
	f->expected = end > f->expected ? end : f->expected;
	f->described = end > f->described ? end : f->described;
}

static int read_phdrs(struct core *c)
{
	struct image_facts *f = image_facts_mut(c->img);
	uint64_t there = fit(c->phoff, c->phnum * c->phentsize, c->b->size) / c->phentsize; /* 32 + 16 bits */
	if (there > HEADERS_MAX)
		return too_many(c);
	size_t at_once = there < HEADERS_AT_ONCE ? (size_t)there : HEADERS_AT_ONCE;
	CLEANUP(cleanup_free) uint8_t *table = xmalloc(at_once * c->phentsize);
	expect(c, c->phoff, c->phnum * c->phentsize);
	for (uint64_t i = 0; i < there;) {
		size_t n = there - i < at_once ? (size_t)(there - i) : at_once;
		if (bytes_read(c->b, c->phoff + i * c->phentsize, table, n * c->phentsize) < 0)
			return err_set(c->err, ERR_IO, "cannot read the program headers of %s", c->b->name);
		for (size_t k = 0; k < n; k++) {
			struct phdr h;
			int rc = parse_phdr(c, table + k * c->phentsize, &h);
			if (rc == 0 && h.type == PT_LOAD)
				rc = add_load(c, &h);
			if (rc < 0)
				return err_set(c->err, rc, "%s: program header %llu cannot be right", c->b->name, (unsigned long long)(i + k));
			if (h.type == PT_NOTE)
				*vec_push(&c->notes) = h;
			if (h.filesz && (h.type == PT_LOAD || h.type == PT_NOTE))
				expect(c, h.offset, h.filesz);
		}
		i += n;
	}
	f->truncated = f->expected > f->size;
	return 0;
}

/* --- notes --- */

static int take_at(const struct core *c, struct blob desc, size_t at, size_t width, uint64_t *ret)
{
	struct cursor s = cursor_in(c, desc.p, desc.len);
	int rc = cursor_skip(&s, at);
	return rc < 0 ? rc : cursor_uint(&s, width, ret);
}

static void note_prstatus(struct core *c, struct blob desc)
{
	struct thread *t = image_add_thread(c->img);
	c->thread++;
	t->prstatus = desc;
	t->regs.syscall.nr = -1;
	uint64_t v;
	if (!c->known)
		return;
	if (take_at(c, desc, c->places.pr_pid, 4, &v) == 0)
		t->tid = (pid_t)(int32_t)v;
	if (take_at(c, desc, c->places.pr_cursig, 2, &v) == 0)
		t->signo = (int)(int16_t)v;
	if (desc.len > c->places.pr_reg) {
		struct blob regs = { desc.p + c->places.pr_reg, desc.len - c->places.pr_reg };
		regs.len = regs.len < c->places.pr_reg_size ? regs.len : c->places.pr_reg_size;
		if (abi_regs(&c->abi, regs, &t->regs) < 0)
			t->regs = (struct regs){ .syscall.nr = -1 };
	}
}

/*
 * The text in a field of size bytes, up to its NUL.  The kernel cuts at a byte, not at a character, so in a field
 * that is full (the last byte is always NUL: strscpy) a started sequence at the end goes.
 */
static struct str field_text(struct core *c, struct blob desc, size_t at, size_t size)
{
	if (at > desc.len || size > desc.len - at)
		return (struct str){ 0 };
	const uint8_t *p = desc.p + at;
	size_t len = strnlen((const char *)p, size);
	for (size_t k = 1; len + 1 >= size && k <= 3 && k <= len; k++)
		if ((p[len - k] & 0xc0) != 0x80) {
			uint8_t lead = p[len - k];
			size_t need = lead < 0xc2 || lead > 0xf4 ? 1 : lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
			if (k < need)
				len -= k;
			break;
		}
	while (len && p[len - 1] == ' ')
		len--;
	return str_from_bytes(image_arena(c->img), p, len);
}

static void note_prpsinfo(struct core *c, struct blob desc)
{
	struct image_facts *f = image_facts_mut(c->img);
	uint64_t v;
	if (!c->known || f->has_prpsinfo || desc.len < c->places.prpsinfo_size)
		return;
	f->has_prpsinfo = true;
	if (take_at(c, desc, c->places.pr_ps_pid, 4, &v) == 0)
		f->pid = (int32_t)v;
	if (take_at(c, desc, c->places.pr_ppid, 4, &v) == 0)
		f->ppid = (int32_t)v;
	if (take_at(c, desc, c->places.pr_uid, c->places.uid_width, &v) == 0)
		f->uid = (int64_t)v;
	f->comm = field_text(c, desc, c->places.pr_fname, 16);
	f->args = field_text(c, desc, c->places.pr_psargs, 80);
}

/* siginfo_t (Linux 6.1 include/uapi/asm-generic/siginfo.h): 3 ints, then a union aligned as a pointer. */
static void note_siginfo(struct core *c, struct blob desc)
{
	enum { ILL = 4, TRAP = 5, BUS = 7, FPE = 8, SEGV = 11, SI_KERNEL = 0x80, SI_USER = 0, SI_QUEUE = -1, SI_MESGQ = -3, SI_TKILL = -6 };
	struct image_facts *f = image_facts_mut(c->img);
	size_t at = c->abi.width == 8 ? 16 : 12;
	uint64_t signo, error, code, pid, uid, addr;
	if (f->siginfo.known || take_at(c, desc, 0, 4, &signo) < 0 || take_at(c, desc, 4, 4, &error) < 0 || take_at(c, desc, 8, 4, &code) < 0)
		return;
	f->siginfo.known = true;
	f->siginfo.signo = (int32_t)signo;
	f->siginfo.error = (int32_t)error;
	int n = (int32_t)signo, why = (int32_t)code;
	f->siginfo.code = why;
	/* With SI_KERNEL (a general protection fault, int3) there is no address, though the field reads as 0. */
	if ((n == ILL || n == TRAP || n == BUS || n == FPE || n == SEGV) && why > 0 && why != SI_KERNEL &&
	    take_at(c, desc, at, c->abi.width, &addr) == 0) {
		f->siginfo.addr = addr;
		f->siginfo.has_addr = true;
	}
	if ((why == SI_USER || why == SI_QUEUE || why == SI_TKILL || why == SI_MESGQ) && take_at(c, desc, at, 4, &pid) == 0 &&
	    take_at(c, desc, at + 4, 4, &uid) == 0) {
		f->siginfo.pid = (int32_t)pid;
		f->siginfo.uid = (int64_t)uid;
		f->siginfo.has_sender = true;
	}
}

/* fs/binfmt_elf.c, fill_files_note: count, page size; count times start, end, offset in pages; then the paths. */
static void note_file(struct core *c, struct blob desc)
{
	struct cursor s = cursor_in(c, desc.p, desc.len), paths;
	size_t w = c->abi.width;
	uint64_t count, page, table;
	if (cursor_uint(&s, w, &count) < 0 || cursor_uint(&s, w, &page) < 0)
		return;
	struct image_facts *f = image_facts_mut(c->img);
	f->has_file_note = true;
	paths = s;
	if (!mul_fits(count, 3 * w, &table) || cursor_skip(&paths, table) < 0) /* a count that cannot be: take what fits */
		paths = s, count = 0;
	for (uint64_t i = 0; i < count; i++) {
		struct mapping m = { 0 };
		uint64_t offset;
		if (cursor_uint(&s, w, &m.start) < 0 || cursor_uint(&s, w, &m.end) < 0 || cursor_uint(&s, w, &offset) < 0 ||
		    cursor_cstr(&paths, &m.path) < 0)
			return;
		if (m.start < m.end && mul_fits(offset, page, &m.offset))
			*image_add_mapping(c->img) = m;
	}
}

static bool owner_is(struct blob owner, const char *name)
{
	return owner.len == strlen(name) && memcmp(owner.p, name, owner.len) == 0;
}

static void take_note(struct core *c, const struct note *n)
{
	*image_add_note(c->img) = *n;
	bool core = owner_is(n->owner, "CORE"), linux_ = owner_is(n->owner, "LINUX");
	if (!core && !linux_)
		return;
	struct image_facts *f = image_facts_mut(c->img);
	/* Threads are in a growing array, so this one is looked up anew for each note. */
	const struct thread *threads;
	struct thread *t = c->thread ? (image_threads(c->img, &threads), (struct thread *)&threads[c->thread - 1]) : NULL;
	if (core && n->type == NT_PRSTATUS)
		note_prstatus(c, n->desc);
	else if (core && n->type == NT_PRPSINFO)
		note_prpsinfo(c, n->desc);
	else if (core && n->type == NT_AUXV && !f->auxv.len)
		f->auxv = n->desc;
	else if (core && n->type == NT_FILE && !f->has_file_note)
		note_file(c, n->desc);
	else if (core && n->type == NT_SIGINFO)
		note_siginfo(c, n->desc);
	if (!t)
		return;
	struct blob *keep = core && n->type == NT_FPREGSET ? &t->fpregset : n->type == NT_X86_XSTATE ? &t->xstate :
			    core && n->type == NT_SIGINFO ? &t->siginfo : NULL;
	if (keep && !keep->len)
		*keep = n->desc;
	uint32_t more[ABI_MORE_NOTES];
	abi_more_notes(&c->abi, more);
	for (size_t i = 0; linux_ && i < ABI_MORE_NOTES; i++)
		if (more[i] && n->type == more[i] && !t->more[i].len)
			t->more[i] = n->desc;
	if (linux_ && abi_regs_note(&c->abi, n->type, n->desc, &t->regs) < 0)
		return; /* most notes add nothing to the registers that are kept */
}

/* One PT_NOTE.  Aligned to 4, also in 64-bit cores (binfmt_elf.c, writenote); to 8 only where p_align says so (gABI). */
static void parse_notes(struct core *c, struct blob all, size_t align)
{
	struct cursor s = cursor_in(c, all.p, all.len);
	const struct note *before;
	while (cursor_left(&s) >= 12 && image_notes(c->img, &before) < NOTES_MAX) {
		uint64_t namesz, descsz, type;
		struct note n = { 0 };
		if (cursor_uint(&s, 4, &namesz) < 0 || cursor_uint(&s, 4, &descsz) < 0 || cursor_uint(&s, 4, &type) < 0)
			return;
		if (namesz == 0 && descsz == 0 && type == 0) /* padding, or a hole where notes were */
			return;
		if (cursor_take(&s, namesz, &n.owner) < 0 || cursor_align(&s, align) < 0 || cursor_take(&s, descsz, &n.desc) < 0)
			return;
		if (cursor_align(&s, align) < 0 && cursor_left(&s) > 0 && cursor_skip(&s, cursor_left(&s)) < 0)
			return;
		if (n.owner.len && n.owner.p[n.owner.len - 1] == 0)
			n.owner.len--;
		n.type = (uint32_t)type;
		take_note(c, &n);
	}
}

static void free_notes(void *p)
{
	free(p);
}

/* [offset, offset + size), or its front if something in it is damaged (a member of a .pz); how much. */
static size_t read_front(struct bytes *b, uint64_t offset, uint8_t *p, size_t size)
{
	enum { PIECE = 4096 };
	if (bytes_read(b, offset, p, size) == 0)
		return size;
	size_t got = 0;
	while (got < size) {
		size_t n = size - got < PIECE ? size - got : PIECE;
		if (bytes_read(b, offset + got, p + got, n) < 0)
			break;
		got += n;
	}
	return got;
}

static void read_notes(struct core *c)
{
	uint64_t budget = notes_max;
	for (size_t i = 0; i < c->notes.n; i++) {
		const struct phdr *h = &c->notes.p[i];
		uint64_t size = fit(h->offset, h->filesz, c->b->size);
		size = size < budget ? size : budget;
		if (!size)
			continue;
		budget -= size;
		uint8_t *p = xmalloc((size_t)size);
		image_own(c->img, p, free_notes);
		parse_notes(c, (struct blob){ p, read_front(c->b, h->offset, p, (size_t)size) }, h->align == 8 ? 8 : 4);
	}
}

static int mapped_order(const void *a, const void *b)
{
	const struct mapped *x = a, *y = b;
	return x->start < y->start ? -1 : x->start > y->start;
}

/* Each mapping's protection is that of the load at its start. */
static void protections(struct core *c)
{
	const struct mapping *m;
	size_t n = image_mappings(c->img, &m), k = 0;
	if (c->mapped.n)
		qsort(c->mapped.p, c->mapped.n, sizeof *c->mapped.p, mapped_order);
	image_settle(c->img);
	n = image_mappings(c->img, &m);
	for (size_t i = 0; i < n; i++) {
		while (k + 1 < c->mapped.n && c->mapped.p[k + 1].start <= m[i].start)
			k++;
		if (k < c->mapped.n && m[i].start >= c->mapped.p[k].start && m[i].start < c->mapped.p[k].end)
			((struct mapping *)m)[i].prot = c->mapped.p[k].prot;
	}
	if (!c->mapped.n)
		return;
	struct mapped *kept = arena_alloc(image_arena(c->img), c->mapped.n * sizeof *kept);
	memcpy(kept, c->mapped.p, c->mapped.n * sizeof *kept);
	image_facts_mut(c->img)->mapped = kept;
	image_facts_mut(c->img)->n_mapped = c->mapped.n;
}

static int load(struct bytes *b, struct image *img, struct err *err)
{
	struct core c = { .b = b, .img = img, .err = err };
	struct image_facts *f = image_facts_mut(img);
	int rc = read_header(&c);
	if (rc < 0)
		return rc;
	image_set_abi(img, c.abi);
	c.known = abi_notes(&c.abi, &c.places) == 0;
	f->kind = IMAGE_CORE;
	f->size = f->file_size = f->expected = b->size;
	f->written_ns = b->mtime_ns;
	rc = read_phdrs(&c);
	if (rc == 0) {
		read_notes(&c);
		protections(&c);
		const struct segment *segs;
		if (!c.thread && !image_segments(img, &segs))
			rc = f->truncated ? cut_off(&c, "headers") : nothing_in_it(&c);
	}
	if (rc == 0)
		rc = pz_notes_read(b, img, err);
	vec_free(&c.mapped);
	vec_free(&c.notes);
	if (rc == 0)
		image_own_bytes(img, b);
	return rc;
}

const struct image_format image_format_elf_core = { "ELF core", probe, load };
