/*
 * Writing a .pz, forward only: the core's headers and notes, memory, index, locator, end block (formats/pz.md).
 * Workers compress chunks side by side (member.c); the caller's thread fills them, and writes what is done in order.  What to
 * keep and where the file stands is the caller's.
 */
#include "image/member.h"
#include "image/pz.h"

#include <elf.h>
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum {
	/*
	 * Payload of a full member, and where members of memory are cut: at addresses that are a multiple of it, as a reader's
	 * cache is.  A quarter of what BGZF allows costs 2 % in size, and a report unpacks half of what it does with twice as much.
	 */
	CHUNK = 16384,
	ZEROS = 65536,          /* payload of a member of nothing but zeros, of which there may be very many: 104 bytes of file */
	OUT_ROOM = 256 << 10,
	WORKER_NICE = 5,        /* the target runs on while we compress */
};

/* A chunk of payload on its way: filled, compressed into a member, written. */
struct slot {
	uint8_t *in, *out;
	size_t in_len, out_len;
	uint32_t entry;         /* of the index: BSIZE | (ISIZE - 1) << 16 */
	bool zero, done;        /* zero: stands for ZEROS zeros, in and out unused */
	bool stored;            /* not compressed: the index, which hardly gets smaller and is unpacked whenever a file is opened */
};

struct pz_writer {
	int fd;
	int level;
	const volatile int *interrupted;
	int failed, failed_errno;
	char why[200];

	/* The payload: how far it is, and how much of which load is to come. */
	uint64_t at, left;
	addr_t addr;            /* of the next byte of this load */
	struct pz_load *loads;
	size_t n_loads, load;

	/* head <= next <= tail: written up to head, given to workers up to next, filled up to tail; slot of seq is seq % n. */
	struct slot *slots;
	size_t n_slots;
	uint64_t head, next, tail;
	pthread_mutex_t lock;
	pthread_cond_t work, done;
	bool quit;
	pthread_t worker[64];
	unsigned n_workers;
	struct packer codec;     /* of the caller's thread: for zeros, and for all if there are no workers */
	struct slot zero;

	struct VEC(uint32_t) index;
	bool indexing;          /* the members being written belong to the core */
	uint64_t packed, place; /* bytes of members so far, whether on fd or still in out; of their payload */
	uint64_t written;
	uint8_t *out;
	size_t out_len;
};

/* ---- chunks ---- */

static void slot_pack(struct slot *s, struct packer *c)
{
	memset(s->in + s->in_len, 0, MEMBER_READ_PAST);
	s->out_len = member_pack(s->stored ? NULL : c, s->in, s->in_len, s->out);
	s->entry = (uint32_t)(s->out_len - 1) | (uint32_t)(s->in_len - 1) << 16;
}

static void slot_alloc(struct slot *s, size_t room)
{
	s->in = xmalloc(room + MEMBER_READ_PAST);
	s->out = xmalloc(member_room(room));
}

static void slot_free(struct slot *s)
{
	free(s->in);
	free(s->out);
}

/* ---- workers ---- */

static void *worker_run(void *arg)
{
	struct pz_writer *w = arg;
	errno = 0;
	int old = getpriority(PRIO_PROCESS, 0); /* 0: this thread alone, on Linux (sched(7)) */
	if (errno == 0)
		(void)setpriority(PRIO_PROCESS, 0, old + WORKER_NICE);
	struct packer c;
	packer_start(&c, w->level);
	pthread_mutex_lock(&w->lock);
	for (;;) {
		while (!w->quit && w->next == w->tail)
			pthread_cond_wait(&w->work, &w->lock);
		if (w->quit)
			break;
		struct slot *s = &w->slots[w->next++ % w->n_slots];
		if (s->done)
			continue;
		pthread_mutex_unlock(&w->lock);
		slot_pack(s, &c);
		pthread_mutex_lock(&w->lock);
		s->done = true;
		pthread_cond_signal(&w->done);
	}
	pthread_mutex_unlock(&w->lock);
	packer_end(&c);
	return NULL;
}

static unsigned jobs_default(void)
{
	cpu_set_t set;
	int n = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
	return n < 1 ? 1 : n > 4 ? 4 : (unsigned)n;
}

static void workers_start(struct pz_writer *w, unsigned jobs)
{
	sigset_t all, old;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old); /* signals are for the caller's threads */
	while (w->n_workers < jobs && pthread_create(&w->worker[w->n_workers], NULL, worker_run, w) == 0)
		w->n_workers++;
	pthread_sigmask(SIG_SETMASK, &old, NULL);
}

/* ---- output ---- */

static int fail(struct pz_writer *w, int code, int number, const char *why)
{
	if (!w->failed) {
		w->failed = code;
		w->failed_errno = number;
		snprintf(w->why, sizeof w->why, "%s", why);
	}
	return w->failed;
}

static int out_flush(struct pz_writer *w)
{
	for (size_t i = 0; i < w->out_len;) {
		ssize_t n = write(w->fd, w->out + i, w->out_len - i);
		if (n > 0) {
			i += (size_t)n;
			w->written += (size_t)n;
		} else if (n < 0 && errno == EINTR) {
			if (w->interrupted && *w->interrupted)
				return fail(w, ERR_LIMIT, 0, "interrupted");
		} else if (n < 0 && errno == EAGAIN) {
			struct pollfd p = { .fd = w->fd, .events = POLLOUT };
			if (poll(&p, 1, -1) < 0 && errno == EINTR && w->interrupted && *w->interrupted)
				return fail(w, ERR_LIMIT, 0, "interrupted");
		} else {
			return fail(w, ERR_IO, n < 0 ? errno : ENOSPC, "");
		}
	}
	w->out_len = 0;
	return 0;
}

static int out_put(struct pz_writer *w, const uint8_t *p, size_t len)
{
	if (OUT_ROOM - w->out_len < len) {
		int rc = out_flush(w);
		if (rc < 0)
			return rc;
	}
	memcpy(w->out + w->out_len, p, len);
	w->out_len += len;
	w->packed += len;
	return 0;
}

/* The member of a slot, which gets its payload's place as MTIME (bgzf.c: walk_settle says what that is good for). */
static int out_member(struct pz_writer *w, const struct slot *s)
{
	int rc = out_put(w, s->out, s->out_len);
	if (rc < 0)
		return rc;
	put_le(w->out + w->out_len - s->out_len + 4, 4, w->place);
	w->place += s->in_len;
	if (w->indexing)
		*vec_push(&w->index) = s->entry;
	return 0;
}

/* Wait for the oldest slot, write it and free it. */
static int slot_retire(struct pz_writer *w)
{
	struct slot *s = &w->slots[w->head % w->n_slots];
	if (w->n_workers) {
		pthread_mutex_lock(&w->lock);
		while (!s->done)
			pthread_cond_wait(&w->done, &w->lock);
		/* Zeros are done from the start: let no worker look at the slot again. */
		if (w->next == w->head)
			w->next++;
		pthread_mutex_unlock(&w->lock);
	} else if (!s->done) {
		slot_pack(s, &w->codec);
	}
	w->head++;
	int rc = out_member(w, s->zero ? &w->zero : s);
	s->in_len = 0;
	s->zero = s->done = false;
	return rc;
}

/* The slot that is being filled; NULL after a failure. */
static struct slot *slot_current(struct pz_writer *w)
{
	if (w->tail - w->head == w->n_slots && slot_retire(w) < 0)
		return NULL;
	struct slot *s = &w->slots[w->tail % w->n_slots];
	s->stored = !w->indexing;
	return s;
}

static void slot_submit(struct pz_writer *w)
{
	pthread_mutex_lock(&w->lock);
	w->tail++;
	pthread_cond_signal(&w->work);
	pthread_mutex_unlock(&w->lock);
}

/* End the member here. */
static void chunk_end(struct pz_writer *w)
{
	if (w->tail - w->head < w->n_slots && w->slots[w->tail % w->n_slots].in_len)
		slot_submit(w);
}

static int chunks_drain(struct pz_writer *w)
{
	chunk_end(w);
	while (w->head < w->tail) {
		int rc = slot_retire(w);
		if (rc < 0)
			return rc;
	}
	return 0;
}

/* Payload; p == NULL: zeros. */
static int payload_put(struct pz_writer *w, const uint8_t *p, uint64_t len)
{
	while (len) {
		struct slot *s = slot_current(w);
		if (!s)
			return w->failed;
		uint64_t n = CHUNK - s->in_len;
		if (!p && !s->in_len && len >= ZEROS)
			n = ZEROS;
		if (n > len)
			n = len;
		if (n == ZEROS)
			s->zero = s->done = true;
		else if (!p)
			memset(s->in + s->in_len, 0, (size_t)n);
		else
			memcpy(s->in + s->in_len, p, (size_t)n);
		s->in_len += (size_t)n;
		w->at += n;
		len -= n;
		if (p)
			p += n;
		if (s->in_len >= CHUNK)
			slot_submit(w);
	}
	return 0;
}

static uint64_t page_up(uint64_t v)
{
	return (v + PZ_PAGE - 1) & ~(uint64_t)(PZ_PAGE - 1);
}

/* ---- headers ---- */

/* A header is built in the target's width and byte order. */
struct header {
	uint8_t b[64];
	size_t len;
	const struct abi *abi;
};

static void header_uint(struct header *h, size_t width, uint64_t v)
{
	for (size_t i = 0; i < width; i++)
		h->b[h->len++] = (uint8_t)(v >> 8 * (h->abi->big_endian ? width - 1 - i : i));
}

static int header_put(struct pz_writer *w, const struct header *h)
{
	return payload_put(w, h->b, h->len);
}

/* Where everything is in the core. */
struct plan_sizes {
	size_t ehdr, phdr, shdr;
	uint64_t n_phdrs;
	bool extended;          /* the number of program headers is in section header 0 */
	uint64_t shoff, notes_at, notes, memory_at;
};

static int note_size(const struct pz_note *n, uint64_t *ret)
{
	if (n->desc.len > UINT32_MAX - 3)
		return ERR_LIMIT;
	*ret = 12 + ((strlen(n->owner) + 1 + 3) & ~(size_t)3) + ((n->desc.len + 3) & ~(size_t)3);
	return 0;
}

static int plan_check(const struct pz_plan *plan, struct plan_sizes *ret, struct err *err)
{
	const struct abi *abi = &plan->abi;
	if (abi->width != 4 && abi->width != 8)
		return err_set(err, ERR_UNSUPPORTED, "pointers of %u bytes, 4 or 8 can be written", abi->width);
	if (plan->level < 0 || plan->level > 9)
		return err_set(err, ERR_UNSUPPORTED, "compression level %d, 0 to 9 are known", plan->level);
	bool wide = abi->width == 8;
	struct plan_sizes z = {
		.ehdr = wide ? sizeof(Elf64_Ehdr) : sizeof(Elf32_Ehdr),
		.phdr = wide ? sizeof(Elf64_Phdr) : sizeof(Elf32_Phdr),
		.shdr = wide ? sizeof(Elf64_Shdr) : sizeof(Elf32_Shdr),
		.n_phdrs = (uint64_t)plan->n_loads + 1,
	};
	if (z.n_phdrs > UINT32_MAX)
		return err_set(err, ERR_LIMIT, "%zu loads, a core holds less than 2^32", plan->n_loads);
	z.extended = z.n_phdrs >= PN_XNUM;
	uint64_t at = z.ehdr + z.n_phdrs * z.phdr;
	if (z.extended) {
		z.shoff = at;
		at += z.shdr;
	}
	z.notes_at = at;
	for (size_t i = 0; i < plan->n_notes; i++) {
		uint64_t size;
		if (note_size(&plan->notes[i], &size) < 0)
			return err_set(err, ERR_LIMIT, "note %s %u: %zu bytes, a note holds less than 4 GiB",
			               plan->notes[i].owner, plan->notes[i].type, plan->notes[i].desc.len);
		z.notes += size;
	}
	at = page_up(at + z.notes);
	z.memory_at = at;
	uint64_t before = 0, limit = wide ? UINT64_MAX : UINT32_MAX; /* before: last byte of the load before */
	for (size_t i = 0; i < plan->n_loads; i++) {
		const struct pz_load *l = &plan->loads[i];
		uint64_t last;
		if (l->filesz > l->memsz || !l->memsz || !add_fits(l->start, l->memsz - 1, &last) || last > limit ||
		    (i && l->start <= before))
			return err_set(err, ERR_CORRUPT, "load %zu at 0x%" PRIx64 ": 0x%" PRIx64 " of 0x%" PRIx64
			               " bytes do not fit behind 0x%" PRIx64, i, l->start, l->filesz, l->memsz, before);
		before = last;
		uint64_t next;
		if (!add_fits(at, l->filesz, &next) || next > (wide ? INT64_MAX : UINT32_MAX) - 2 * (uint64_t)PZ_PAGE)
			return err_set(err, ERR_UNSUPPORTED, "a core of more than %s for %u-bit targets", wide ? "2^63 bytes" : "4 GiB",
			               abi->width * 8);
		at = page_up(next);
	}
	uint64_t end;
	if (!add_fits(at, plan->tail, &end) || end > INT64_MAX - 2 * (uint64_t)PZ_PAGE)
		return err_set(err, ERR_UNSUPPORTED, "more than 2^63 bytes");
	*ret = z;
	return 0;
}

static int put_ehdr(struct pz_writer *w, const struct abi *abi, const struct plan_sizes *z)
{
	struct header h = { .abi = abi };
	size_t word = abi->width;
	memcpy(h.b, ELFMAG, SELFMAG);
	h.b[EI_CLASS] = word == 8 ? ELFCLASS64 : ELFCLASS32;
	h.b[EI_DATA] = abi->big_endian ? ELFDATA2MSB : ELFDATA2LSB;
	h.b[EI_VERSION] = EV_CURRENT;
	h.len = EI_NIDENT;
	header_uint(&h, 2, ET_CORE);
	header_uint(&h, 2, abi->machine);
	header_uint(&h, 4, EV_CURRENT);
	header_uint(&h, word, 0);              /* e_entry */
	header_uint(&h, word, z->ehdr);        /* e_phoff */
	header_uint(&h, word, z->shoff);
	header_uint(&h, 4, 0);                 /* e_flags */
	header_uint(&h, 2, z->ehdr);
	header_uint(&h, 2, z->phdr);
	header_uint(&h, 2, z->extended ? PN_XNUM : z->n_phdrs);
	header_uint(&h, 2, z->extended ? z->shdr : 0);
	header_uint(&h, 2, z->extended ? 1 : 0);
	header_uint(&h, 2, 0);                 /* e_shstrndx */
	return header_put(w, &h);
}

struct phdr {
	uint32_t type, flags;
	uint64_t offset, vaddr, filesz, memsz, align;
};

static int put_phdr(struct pz_writer *w, const struct abi *abi, const struct phdr *p)
{
	struct header h = { .abi = abi };
	size_t word = abi->width;
	header_uint(&h, 4, p->type);
	if (word == 8)
		header_uint(&h, 4, p->flags);
	header_uint(&h, word, p->offset);
	header_uint(&h, word, p->vaddr);
	header_uint(&h, word, 0);              /* p_paddr */
	header_uint(&h, word, p->filesz);
	header_uint(&h, word, p->memsz);
	if (word == 4)
		header_uint(&h, 4, p->flags);
	header_uint(&h, word, p->align);
	return header_put(w, &h);
}

/* As fs/binfmt_elf.c (fill_extnum_info, 6.1): sh_size e_shnum, sh_link e_shstrndx, sh_info the number of program headers. */
static int put_shdr(struct pz_writer *w, const struct abi *abi, const struct plan_sizes *z)
{
	struct header h = { .abi = abi };
	size_t word = abi->width;
	header_uint(&h, 4, 0);                 /* sh_name */
	header_uint(&h, 4, SHT_NULL);
	header_uint(&h, word, 0);              /* sh_flags */
	header_uint(&h, word, 0);              /* sh_addr */
	header_uint(&h, word, 0);              /* sh_offset */
	header_uint(&h, word, 1);              /* sh_size */
	header_uint(&h, 4, 0);                 /* sh_link */
	header_uint(&h, 4, z->n_phdrs);        /* sh_info */
	header_uint(&h, word, 0);              /* sh_addralign */
	header_uint(&h, word, 0);              /* sh_entsize */
	return header_put(w, &h);
}

static int put_note(struct pz_writer *w, const struct abi *abi, const struct pz_note *n)
{
	struct header h = { .abi = abi };
	size_t name = strlen(n->owner) + 1;
	header_uint(&h, 4, name);
	header_uint(&h, 4, n->desc.len);
	header_uint(&h, 4, n->type);
	int rc = header_put(w, &h);
	if (rc == 0)
		rc = payload_put(w, (const uint8_t *)n->owner, name);
	if (rc == 0)
		rc = payload_put(w, NULL, -name & 3);
	if (rc == 0 && n->desc.len)
		rc = payload_put(w, n->desc.p, n->desc.len);
	return rc < 0 ? rc : payload_put(w, NULL, -n->desc.len & 3);
}

static uint32_t flags_of(unsigned prot)
{
	return (prot & 1 ? PF_R : 0) | (prot & 2 ? PF_W : 0) | (prot & 4 ? PF_X : 0u);
}

static int put_headers(struct pz_writer *w, const struct pz_plan *plan, const struct plan_sizes *z)
{
	const struct abi *abi = &plan->abi;
	int rc = put_ehdr(w, abi, z);
	struct phdr note = { .type = PT_NOTE, .offset = z->notes_at, .filesz = z->notes, .align = 4 };
	if (rc == 0)
		rc = put_phdr(w, abi, &note);
	uint64_t at = z->memory_at;
	for (size_t i = 0; i < plan->n_loads && rc == 0; i++) {
		const struct pz_load *l = &plan->loads[i];
		struct phdr load = {
			.type = PT_LOAD, .flags = flags_of(l->prot), .offset = at, .vaddr = l->start,
			.filesz = l->filesz, .memsz = l->memsz, .align = PZ_PAGE,
		};
		rc = put_phdr(w, abi, &load);
		at = page_up(at + l->filesz);
	}
	if (rc == 0 && z->extended)
		rc = put_shdr(w, abi, z);
	for (size_t i = 0; i < plan->n_notes && rc == 0; i++)
		rc = put_note(w, abi, &plan->notes[i]);
	if (rc == 0)
		rc = payload_put(w, NULL, z->memory_at - w->at);
	chunk_end(w);
	return rc;
}

/* ---- the writer ---- */

static void error_text(const struct pz_writer *w, struct err *err)
{
	if (w->failed == ERR_IO) {
		err_set(err, ERR_IO, "cannot write after %" PRIu64 " bytes: %s", w->written, strerror(w->failed_errno));
		errno = w->failed_errno;
	} else {
		err_set(err, w->failed, "%s", w->why);
	}
}

int pz_begin(int fd, const struct pz_plan *plan, struct pz_writer **ret, struct err *err)
{
	struct plan_sizes z = { 0 };
	int rc = plan_check(plan, &z, err);
	if (rc < 0)
		return rc;
	unsigned jobs = plan->jobs ? plan->jobs : jobs_default();
	struct pz_writer *w = xcalloc(1, sizeof *w);
	if (jobs > sizeof w->worker / sizeof *w->worker)
		jobs = sizeof w->worker / sizeof *w->worker;
	w->fd = fd;
	w->level = plan->level;
	w->interrupted = plan->interrupted;
	w->indexing = true;
	w->out = xmalloc(OUT_ROOM);
	w->n_loads = plan->n_loads + (plan->tail > 0);
	w->loads = xcalloc(w->n_loads, sizeof *w->loads);
	for (size_t i = 0; i < plan->n_loads; i++)
		w->loads[i] = plan->loads[i];
	if (plan->tail)
		w->loads[plan->n_loads] = (struct pz_load){ .filesz = plan->tail, .memsz = plan->tail };
	/* Enough that workers have something to do while the caller waits for the disk. */
	w->n_slots = jobs * 4 + 2;
	w->slots = xcalloc(w->n_slots, sizeof *w->slots);
	for (size_t i = 0; i < w->n_slots; i++)
		slot_alloc(&w->slots[i], CHUNK);
	pthread_mutex_init(&w->lock, NULL);
	pthread_cond_init(&w->work, NULL);
	pthread_cond_init(&w->done, NULL);

	/* One member of zeros serves for all, compressed as well as can be whatever the level. */
	slot_alloc(&w->zero, ZEROS);
	memset(w->zero.in, 0, ZEROS);
	w->zero.in_len = ZEROS;
	packer_start(&w->codec, 9);
	slot_pack(&w->zero, &w->codec);
	packer_end(&w->codec);
	packer_start(&w->codec, w->level);
	workers_start(w, jobs);
	rc = put_headers(w, plan, &z);
	if (rc < 0) {
		error_text(w, err);
		pz_close(w);
		return rc;
	}
	*ret = w;
	return 0;
}

/* The next len bytes of the loads, cut at their ends. */
static int loads_put(struct pz_writer *w, const uint8_t *p, uint64_t len)
{
	while (len && !w->failed) {
		while (!w->left) {
			if (w->load == w->n_loads)
				return fail(w, ERR_LIMIT, 0, "more memory was given than the program headers say");
			w->addr = w->loads[w->load].start;
			w->left = w->loads[w->load++].filesz;
			if (w->left && payload_put(w, NULL, page_up(w->at) - w->at) < 0)
				return w->failed;
		}
		uint64_t n = len < w->left ? len : w->left, room = CHUNK - w->addr % CHUNK;
		if (!p && room == CHUNK)
			room = ZEROS;
		if (n > room)
			n = room;
		if (payload_put(w, p, n) < 0)
			return w->failed;
		w->left -= n;
		w->addr += n;
		if (w->left && w->addr % CHUNK == 0)
			chunk_end(w);
		len -= n;
		if (p)
			p += n;
	}
	return w->failed;
}

int pz_write(struct pz_writer *w, const void *buf, size_t len)
{
	return loads_put(w, buf, len);
}

int pz_zero(struct pz_writer *w, uint64_t len)
{
	return loads_put(w, NULL, len);
}

static int index_put(struct pz_writer *w, uint32_t *crc)
{
	w->indexing = false;
	uint8_t buf[512 * PZ_INDEX_ENTRY];
	uLong sum = crc32(0, NULL, 0);
	for (size_t i = 0; i < w->index.n;) {
		size_t n = 0;
		for (; n < sizeof buf && i < w->index.n; i++, n += PZ_INDEX_ENTRY)
			put_le(buf + n, PZ_INDEX_ENTRY, w->index.p[i]);
		sum = crc32(sum, buf, (uInt)n);
		int rc = payload_put(w, buf, n);
		if (rc < 0)
			return rc;
	}
	*crc = (uint32_t)sum;
	return chunks_drain(w);
}

static int finish(struct pz_writer *w)
{
	uint64_t missing = w->left;
	for (size_t i = w->load; i < w->n_loads; i++)
		missing += w->loads[i].filesz;
	if (!w->failed && missing) {
		char why[sizeof w->why];
		snprintf(why, sizeof why, "%" PRIu64 " bytes of memory less were given than the program headers say", missing);
		fail(w, ERR_CORRUPT, 0, why);
	}
	/* Whole pages, so that no p_offset of a load without bytes lies behind the end. */
	if (w->failed || payload_put(w, NULL, page_up(w->at) - w->at) < 0 || chunks_drain(w) < 0)
		return w->failed;
	uint64_t index_at = w->packed, core = w->at;
	uint32_t crc;
	if (index_put(w, &crc) < 0)
		return w->failed;

	uint8_t locator[PZ_LOCATOR] = "pysnapIX", member[PZ_LOCATOR_MEMBER];
	put_le(locator + 8, 4, PZ_FORMAT);
	put_le(locator + 12, 4, crc);
	put_le(locator + 16, 8, index_at);
	put_le(locator + 24, 8, core);
	put_le(locator + 32, 8, w->index.n);
	(void)member_stored(locator, sizeof locator, member);
	put_le(member + 4, 4, w->place);
	static const uint8_t end[BGZF_END] = {
		0x1f, 0x8b, 8, 4, 0, 0, 0, 0, 0, 0xff, 6, 0, 'B', 'C', 2, 0, 0x1b, 0, 3, 0,
	};
	if (out_put(w, member, sizeof member) < 0 || out_put(w, end, sizeof end) < 0)
		return w->failed;
	return out_flush(w);
}

int pz_finish(struct pz_writer *w, struct err *err)
{
	int rc = finish(w);
	if (rc < 0)
		error_text(w, err);
	return rc;
}

uint64_t pz_unpacked(const struct pz_writer *w)
{
	return w->at;
}

uint64_t pz_written(const struct pz_writer *w)
{
	return w->written;
}

void pz_close(struct pz_writer *w)
{
	if (!w)
		return;
	pthread_mutex_lock(&w->lock);
	w->quit = true;
	pthread_cond_broadcast(&w->work);
	pthread_mutex_unlock(&w->lock);
	for (unsigned i = 0; i < w->n_workers; i++)
		pthread_join(w->worker[i], NULL);
	pthread_cond_destroy(&w->work);
	pthread_cond_destroy(&w->done);
	pthread_mutex_destroy(&w->lock);
	for (size_t i = 0; i < w->n_slots; i++)
		slot_free(&w->slots[i]);
	free(w->slots);
	slot_free(&w->zero);
	packer_end(&w->codec);
	vec_free(&w->index);
	free(w->loads);
	free(w->out);
	free(w);
}
