/*
 * Unpacking .gnu_debugdata.  Who made the file says how much comes out of it, so what is taken is bounded; nothing of a section that
 * is damaged is used.
 */
#include "module/mini.h"

#include <stdlib.h>
#include <string.h>

#include "image/codec.h"

static const struct codec *xz(void)
{
	static const uint8_t magic[6] = { 0xfd, '7', 'z', 'X', 'Z', 0 };
	return codec_find(magic, sizeof magic);
}

int mini_check(uint64_t packed)
{
	const struct codec *c = xz();
	return packed > MINI_PACKED_MAX ? ERR_LIMIT : !c || !c->open ? ERR_UNSUPPORTED : 0;
}

struct packed { const struct elf_source *src; uint64_t at, end; int rc; };

static long feed(void *arg, void *buf, size_t len)
{
	struct packed *p = arg;
	if (len > p->end - p->at)
		len = (size_t)(p->end - p->at);
	if (!len)
		return 0;
	p->rc = p->src->read(p->src->ctx, p->at, buf, len);
	if (p->rc < 0)
		return ERR_IO;
	p->at += len;
	return (long)len;
}

struct unpacking { struct mini *m; size_t room; uint64_t most; };

static int put(void *arg, const void *p, size_t len)
{
	struct unpacking *u = arg;
	if (len > u->most - u->m->n)
		return ERR_LIMIT;
	if (len > u->room - u->m->n) {
		u->room = u->room * 2 > u->m->n + len ? u->room * 2 : u->m->n + len;
		u->m->p = xrealloc(u->m->p, u->room);
	}
	memcpy(u->m->p + u->m->n, p, len);
	u->m->n += len;
	return 0;
}

static int read_it(void *ctx, uint64_t off, void *buf, size_t len)
{
	const struct mini *m = ctx;
	if (off > m->n || len > m->n - off)
		return ERR_FAULT;
	memcpy(buf, m->p + off, len);
	return 0;
}

struct elf_source mini_source(struct mini *m)
{
	return (struct elf_source){ read_it, m };
}

int mini_read(const struct elf_source *src, uint64_t offset, uint64_t size, uint64_t room, struct mini *ret)
{
	uint8_t magic[6];
	struct packed in = { .src = src, .at = offset };
	struct mini m = { 0 };
	struct unpacking out = { .m = &m, .most = room < MINI_MAX ? room : MINI_MAX };
	struct unpacked how;
	int rc = mini_check(size);
	if (rc < 0)
		return rc;
	if (size < sizeof magic || !add_fits(offset, size, &in.end))
		return ERR_CORRUPT;
	rc = src->read(src->ctx, offset, magic, sizeof magic);
	if (rc < 0)
		return rc;
	if (codec_find(magic, sizeof magic) != xz())
		return ERR_CORRUPT;
	rc = codec_unpack((struct feed){ feed, &in }, NULL, (struct sink){ put, &out }, &how);
	if (rc == 0)
		rc = in.rc < 0 ? in.rc : how.loss;
	struct elf_source unpacked = mini_source(&m);
	if (rc == 0)
		rc = elf_debug_head_read(&unpacked, &m.head);
	if (rc < 0) {
		free(m.p);
		return rc == ERR_UNSUPPORTED ? ERR_CORRUPT : rc;
	}
	*ret = m;
	return 0;
}

void mini_free(struct mini *m)
{
	free(m->p);
	*m = (struct mini){ 0 };
}
