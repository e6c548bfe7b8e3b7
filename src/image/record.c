/* The pages and blocks that were read, as growing lists, each sorted when it has doubled: most reads are of the page before. */
#include "image/record.h"

#include <stdlib.h>

struct pages {
	struct VEC(addr_t) list;
	size_t sorted;            /* so many at the front are in order, each once */
	addr_t last;              /* added last */
};
struct record {
	struct image *img;        /* NULL: stopped */
	struct pages read, missed, blocks;
};

static int by_address(const void *a, const void *b)
{
	addr_t x = *(const addr_t *)a, y = *(const addr_t *)b;
	return x < y ? -1 : x > y;
}

static void tidy(struct pages *p)
{
	size_t n = 0;
	if (p->list.n > p->sorted)
		qsort(p->list.p, p->list.n, sizeof *p->list.p, by_address);
	for (size_t i = 0; i < p->list.n; i++)
		if (!n || p->list.p[i] != p->list.p[n - 1])
			p->list.p[n++] = p->list.p[i];
	p->list.n = p->sorted = n;
}

static void add(struct pages *p, addr_t page)
{
	if (p->list.n && page == p->last)
		return;
	*vec_push(&p->list) = page;
	p->last = page;
	if (p->list.n > 2 * p->sorted + 1024)
		tidy(p);
}

static void add_all(struct pages *p, addr_t addr, size_t len, addr_t size)
{
	const addr_t first = addr & ~(size - 1), last = (addr + (len - 1)) & ~(size - 1);
	for (addr_t at = first; at != last; at += size)
		add(p, at);
	add(p, last);
}

static void note_read(void *arg, addr_t addr, size_t len)
{
	struct record *r = arg;
	if (!len) {
		add(&r->missed, addr & ~(addr_t)(RECORD_PAGE - 1));
		return;
	}
	add_all(&r->read, addr, len, RECORD_PAGE);
	add_all(&r->blocks, addr, len, RECORD_BLOCK);
}

struct record *record_start(struct image *img)
{
	struct record *r = xcalloc(1, sizeof *r);
	r->img = img;
	image_watch(img, note_read, r);
	return r;
}

void record_stop(struct record *r)
{
	if (r->img)
		image_watch(r->img, NULL, NULL);
	r->img = NULL;
}

size_t record_pages(struct record *r, const addr_t **ret)
{
	tidy(&r->read);
	*ret = r->read.list.p;
	return r->read.list.n;
}

size_t record_blocks(struct record *r, const addr_t **ret)
{
	tidy(&r->blocks);
	*ret = r->blocks.list.p;
	return r->blocks.list.n;
}

size_t record_missed(struct record *r, const addr_t **ret)
{
	tidy(&r->missed);
	*ret = r->missed.list.p;
	return r->missed.list.n;
}

void record_free(struct record *r)
{
	if (!r)
		return;
	record_stop(r);
	vec_free(&r->read.list);
	vec_free(&r->missed.list);
	vec_free(&r->blocks.list);
	free(r);
}
