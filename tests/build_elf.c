/* The inverse of src/image/elf_core.c: see build_elf.h. */
#include "build_elf.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct thread_notes {
	uint8_t *prstatus;
	struct sb notes;
};
struct built_load {
	addr_t addr;
	uint64_t filesz, memsz, offset;
	unsigned prot;
	uint8_t *bytes;
};
struct built_file {
	addr_t start, end;
	uint64_t offset;
	char *path;
};

struct build_elf {
	struct abi abi;
	struct abi_notes places;
	size_t note_align, phentsize, data_align;
	bool split, finished;
	struct VEC(struct thread_notes) threads;
	struct VEC(struct built_load) loads;
	struct VEC(struct built_file) files;
	struct sb first;                /* notes before the first thread */
	struct sb prpsinfo, siginfo, auxv, file; /* whole notes, or descriptors being built */
	struct sb out;
	size_t data;
};

static _Noreturn void die(const char *what, const char *which)
{
	fprintf(stderr, "build_elf: %s %s\n", what, which);
	abort();
}

struct build_elf *build_elf_new(const char *abi)
{
	struct build_elf *b = xcalloc(1, sizeof *b);
	if (!abi_by_name(abi, &b->abi) || abi_notes(&b->abi, &b->places) < 0)
		die("unknown machine", abi);
	b->note_align = 4;
	b->data_align = 16;
	b->phentsize = b->abi.width == 8 ? 56 : 32;
	return b;
}

void build_elf_free(struct build_elf *b)
{
	if (!b)
		return;
	for (size_t i = 0; i < b->threads.n; i++) {
		free(b->threads.p[i].prstatus);
		sb_free(&b->threads.p[i].notes);
	}
	for (size_t i = 0; i < b->loads.n; i++)
		free(b->loads.p[i].bytes);
	for (size_t i = 0; i < b->files.n; i++)
		free(b->files.p[i].path);
	vec_free(&b->threads);
	vec_free(&b->loads);
	vec_free(&b->files);
	sb_free(&b->first);
	sb_free(&b->prpsinfo);
	sb_free(&b->siginfo);
	sb_free(&b->auxv);
	sb_free(&b->file);
	sb_free(&b->out);
	free(b);
}

const struct abi *build_elf_abi(const struct build_elf *b)
{
	return &b->abi;
}

void build_elf_put(const struct build_elf *b, void *p, size_t width, uint64_t v)
{
	for (size_t i = 0; i < width; i++)
		((uint8_t *)p)[b->abi.big_endian ? width - 1 - i : i] = (uint8_t)(v >> 8 * i);
}

static void append(const struct build_elf *b, struct sb *out, size_t width, uint64_t v)
{
	uint8_t buf[8] = { 0 };
	build_elf_put(b, buf, width, v);
	sb_bytes(out, buf, width);
}

static void pad(struct sb *out, size_t align)
{
	while (out->len % align)
		sb_char(out, 0);
}

static void put_note(const struct build_elf *b, struct sb *out, const char *owner, uint32_t type, const void *desc, size_t len)
{
	append(b, out, 4, strlen(owner) + 1);
	append(b, out, 4, len);
	append(b, out, 4, type);
	sb_bytes(out, owner, strlen(owner) + 1);
	pad(out, b->note_align);
	sb_bytes(out, desc, len);
	pad(out, b->note_align);
}

static struct thread_notes *last_thread(struct build_elf *b)
{
	if (!b->threads.n)
		die("no thread yet for", "a register");
	return &b->threads.p[b->threads.n - 1];
}

void build_elf_reg(struct build_elf *b, const char *name, uint64_t v)
{
	size_t offset, width;
	if (!abi_register(&b->abi, name, &offset, &width))
		die("unknown register", name);
	build_elf_put(b, last_thread(b)->prstatus + b->places.pr_reg + offset, width, v);
}

/* Sets the first of these registers that the machine has. */
static void one_of(struct build_elf *b, const char *const *names, uint64_t v)
{
	size_t offset, width;
	for (; *names; names++)
		if (abi_register(&b->abi, *names, &offset, &width)) {
			build_elf_reg(b, *names, v);
			return;
		}
}

void build_elf_thread(struct build_elf *b, pid_t tid, addr_t pc, addr_t sp)
{
	struct thread_notes *t = vec_push(&b->threads);
	t->prstatus = xcalloc(1, b->places.prstatus_size);
	build_elf_put(b, t->prstatus + b->places.pr_pid, 4, (uint32_t)tid);
	one_of(b, (const char *const[]){ "rip", "eip", "nip", "pswa", "pc", NULL }, pc);
	/* ppc64 has r1 and no "sp"; s390x r15 and neither */
	one_of(b, (const char *const[]){ "rsp", "esp", "sp", b->abi.machine == 21 ? "r1" : "r15", NULL }, sp);
	one_of(b, (const char *const[]){ "orig_rax", "orig_eax", "orig_r0", NULL }, UINT64_MAX);
}

void build_elf_tls(struct build_elf *b, addr_t tls)
{
	uint8_t desc[16] = { 0 };
	switch (b->abi.machine) {
	case 3: /* i386: gs = entry 6, as glibc has it */
		build_elf_reg(b, "gs", 6 << 3 | 3);
		build_elf_put(b, desc, 4, 6);
		build_elf_put(b, desc + 4, 4, tls);
		build_elf_note(b, "LINUX", 0x200, desc, 16);
		break;
	case 183:
	case 40:
		build_elf_put(b, desc, b->abi.width, tls);
		build_elf_note(b, "LINUX", 0x401, desc, b->abi.width);
		break;
	case 22:
		build_elf_reg(b, "a0", tls >> 32);
		build_elf_reg(b, "a1", tls & 0xffffffff);
		break;
	case 21:
		build_elf_reg(b, "r13", tls);
		break;
	case 62:
		build_elf_reg(b, "fs_base", tls);
		break;
	default:
		die("no thread pointer on", abi_name(&b->abi));
	}
}

void build_elf_cursig(struct build_elf *b, int signo)
{
	build_elf_put(b, last_thread(b)->prstatus + b->places.pr_cursig, 2, (uint64_t)signo);
}

void build_elf_sighold(struct build_elf *b, uint64_t mask)
{
	build_elf_put(b, last_thread(b)->prstatus + 16 + b->abi.width, b->abi.width, mask);
}

void build_elf_note(struct build_elf *b, const char *owner, uint32_t type, const void *desc, size_t len)
{
	put_note(b, b->threads.n ? &last_thread(b)->notes : &b->first, owner, type, desc, len);
}

void build_elf_prpsinfo(struct build_elf *b, pid_t pid, pid_t ppid, unsigned uid, const char *comm, const char *args)
{
	uint8_t desc[256] = { 0 };
	build_elf_put(b, desc + b->places.pr_state, 1, 'R');
	build_elf_put(b, desc + b->places.pr_uid, b->places.uid_width, uid);
	build_elf_put(b, desc + b->places.pr_ps_pid, 4, (uint32_t)pid);
	build_elf_put(b, desc + b->places.pr_ppid, 4, (uint32_t)ppid);
	/* like the kernel: cut at the byte, the last one is NUL */
	memcpy(desc + b->places.pr_fname, comm, strnlen(comm, 15));
	memcpy(desc + b->places.pr_psargs, args, strnlen(args, 79));
	sb_bytes(&b->prpsinfo, desc, b->places.prpsinfo_size);
}

static void siginfo(struct build_elf *b, int signo, int code, uint64_t first, size_t width, uint64_t second)
{
	uint8_t desc[128] = { 0 };
	size_t at = b->abi.width == 8 ? 16 : 12;
	build_elf_put(b, desc, 4, (uint32_t)signo);
	build_elf_put(b, desc + 8, 4, (uint32_t)code);
	build_elf_put(b, desc + at, width, first);
	if (width == 4)
		build_elf_put(b, desc + at + 4, 4, second);
	sb_bytes(&b->siginfo, desc, sizeof desc);
}

void build_elf_signal(struct build_elf *b, int signo, int code, addr_t addr)
{
	siginfo(b, signo, code, addr, b->abi.width, 0);
}

void build_elf_signal_from(struct build_elf *b, int signo, int code, pid_t pid, unsigned uid)
{
	siginfo(b, signo, code, (uint32_t)pid, 4, uid);
}

void build_elf_auxv(struct build_elf *b, uint64_t type, uint64_t value)
{
	append(b, &b->auxv, b->abi.width, type);
	append(b, &b->auxv, b->abi.width, value);
}

void build_elf_file(struct build_elf *b, addr_t start, addr_t end, uint64_t offset, const char *path)
{
	*vec_push(&b->files) = (struct built_file){ start, end, offset, xstrdup(path) };
}

uint8_t *build_elf_memory(struct build_elf *b, addr_t addr, size_t size, unsigned prot)
{
	struct built_load *l = vec_push(&b->loads);
	*l = (struct built_load){ addr, size, size, 0, prot, xcalloc(1, size) };
	return l->bytes;
}

void build_elf_load(struct build_elf *b, addr_t addr, const void *bytes, size_t len, unsigned prot)
{
	uint8_t *p = build_elf_memory(b, addr, len, prot);
	if (len)
		memcpy(p, bytes, len);
}

void build_elf_absent(struct build_elf *b, addr_t addr, uint64_t memsz, unsigned prot)
{
	*vec_push(&b->loads) = (struct built_load){ addr, 0, memsz, 0, prot, NULL };
}

void build_elf_note_align(struct build_elf *b, size_t align)
{
	b->note_align = align;
}

void build_elf_phentsize(struct build_elf *b, size_t size)
{
	b->phentsize = size;
}

void build_elf_split_notes(struct build_elf *b)
{
	b->split = true;
}

void build_elf_data_align(struct build_elf *b, size_t align)
{
	b->data_align = align;
}

static void file_note(struct build_elf *b)
{
	size_t w = b->abi.width;
	if (!b->files.n)
		return;
	append(b, &b->file, w, b->files.n);
	append(b, &b->file, w, 4096);
	for (size_t i = 0; i < b->files.n; i++) {
		append(b, &b->file, w, b->files.p[i].start);
		append(b, &b->file, w, b->files.p[i].end);
		append(b, &b->file, w, b->files.p[i].offset / 4096);
	}
	for (size_t i = 0; i < b->files.n; i++)
		sb_bytes(&b->file, b->files.p[i].path, strlen(b->files.p[i].path) + 1);
}

static void process_notes(struct build_elf *b, struct sb *out)
{
	file_note(b);
	if (b->auxv.len) {
		append(b, &b->auxv, b->abi.width, 0);
		append(b, &b->auxv, b->abi.width, 0);
	}
	if (b->prpsinfo.len)
		put_note(b, out, "CORE", 3, b->prpsinfo.s, b->prpsinfo.len);
	if (b->siginfo.len)
		put_note(b, out, "CORE", 0x53494749, b->siginfo.s, b->siginfo.len);
	if (b->auxv.len)
		put_note(b, out, "CORE", 6, b->auxv.s, b->auxv.len);
	if (b->file.len)
		put_note(b, out, "CORE", 0x46494c45, b->file.s, b->file.len);
}

static void put_phdr(const struct build_elf *b, struct sb *out, uint64_t type, const struct built_load *l, uint64_t align)
{
	size_t w = b->abi.width, before = out->len;
	unsigned flags = (l->prot & 1 ? 4u : 0) | (l->prot & 2 ? 2u : 0) | (l->prot & 4 ? 1u : 0);
	append(b, out, 4, type);
	if (w == 8)
		append(b, out, 4, flags);
	append(b, out, w, l->offset);
	append(b, out, w, l->addr);
	append(b, out, w, 0);
	append(b, out, w, l->filesz);
	append(b, out, w, l->memsz);
	if (w == 4)
		append(b, out, 4, flags);
	append(b, out, w, align);
	while (out->len - before < b->phentsize)
		sb_char(out, 0);
}

static size_t up(size_t n, size_t align)
{
	return (n + align - 1) / align * align;
}

struct blob build_elf_finish(struct build_elf *b)
{
	if (b->finished)
		die("finished", "twice");
	b->finished = true;
	size_t w = b->abi.width, n_notes = b->split && b->threads.n ? b->threads.n : 1;
	struct sb *notes = xcalloc(n_notes, sizeof *notes), *out = &b->out;
	sb_bytes(&notes[0], b->first.s, b->first.len);
	for (size_t i = 0; i < b->threads.n; i++) {
		struct sb *to = &notes[b->split ? i : 0];
		put_note(b, to, "CORE", 1, b->threads.p[i].prstatus, b->places.prstatus_size);
		if (i == 0)
			process_notes(b, to);
		sb_bytes(to, b->threads.p[i].notes.s, b->threads.p[i].notes.len);
	}
	if (!b->threads.n)
		process_notes(b, &notes[0]);

	size_t ehsize = w == 8 ? 64 : 52, n = n_notes + b->loads.n, at = ehsize + n * b->phentsize;
	struct built_load *where = xcalloc(n_notes, sizeof *where);
	for (size_t i = 0; i < n_notes; i++) {
		at = i || b->note_align > 4 ? up(at, b->note_align) : at; /* the kernel has no gap before the first */
		where[i] = (struct built_load){ .offset = at, .filesz = notes[i].len, .prot = 1 };
		at += notes[i].len;
	}
	b->data = at = up(at, b->data_align);
	for (size_t i = 0; i < b->loads.n; i++) {
		b->loads.p[i].offset = at;
		at = b->loads.p[i].filesz ? up(at + b->loads.p[i].filesz, b->data_align) : at;
	}
	bool many = n >= 0xffff;
	sb_bytes(out, "\177ELF", 4);
	append(b, out, 1, w == 8 ? 2 : 1);
	append(b, out, 1, b->abi.big_endian ? 2 : 1);
	append(b, out, 1, 1);
	sb_repeat(out, 0, 9);
	append(b, out, 2, 4); /* ET_CORE */
	append(b, out, 2, b->abi.machine);
	append(b, out, 4, 1);
	append(b, out, w, 0);
	append(b, out, w, ehsize);
	append(b, out, w, many ? at : 0);
	append(b, out, 4, 0);
	append(b, out, 2, ehsize);
	append(b, out, 2, b->phentsize);
	append(b, out, 2, many ? 0xffff : n);
	append(b, out, 2, many ? (w == 8 ? 64 : 40) : 0);
	append(b, out, 2, many ? 1 : 0);
	append(b, out, 2, 0);
	for (size_t i = 0; i < n_notes; i++)
		put_phdr(b, out, 4, &where[i], b->note_align);
	for (size_t i = 0; i < b->loads.n; i++)
		put_phdr(b, out, 1, &b->loads.p[i], 4096);
	for (size_t i = 0; i < n_notes; i++) {
		sb_repeat(out, 0, where[i].offset - out->len);
		sb_bytes(out, notes[i].s, notes[i].len);
		sb_free(&notes[i]);
	}
	for (size_t i = 0; i < b->loads.n; i++)
		if (b->loads.p[i].filesz) {
			sb_repeat(out, 0, b->loads.p[i].offset - out->len);
			sb_bytes(out, b->loads.p[i].bytes, b->loads.p[i].filesz);
		}
	if (many) {
		sb_repeat(out, 0, at - out->len);
		sb_repeat(out, 0, w == 8 ? 44 : 28);
		append(b, out, 4, n); /* sh_info */
		sb_repeat(out, 0, w == 8 ? 16 : 8);
	}
	free(notes);
	free(where);
	return (struct blob){ (const uint8_t *)out->s, out->len };
}

size_t build_elf_phoff(const struct build_elf *b)
{
	return b->abi.width == 8 ? 64 : 52;
}

size_t build_elf_data(const struct build_elf *b)
{
	return b->data;
}

struct image *build_elf_open(struct build_elf *b)
{
	struct blob file = build_elf_finish(b);
	struct image *img;
	struct err err;
	if (image_open_bytes(bytes_from_memory(file.p, file.len, "built.core"), &img, &err) < 0)
		die("does not open:", err.msg);
	return img;
}

const struct thread *build_elf_first(struct image *img)
{
	const struct thread *t;
	if (image_threads(img, &t) < 1)
		abort();
	return t;
}
