/* Checked allocation, the arena, the growing array.  What is allocated, and how much, is the caller's to bound. */
#include "base/mem.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void *checked(void *p, size_t size)
{
	if (!p && size) {
		fprintf(stderr, "out of memory: %zu bytes\n", size);
		_exit(1);
	}
	return p;
}

void *xmalloc(size_t size)
{
	return checked(malloc(size ? size : 1), size);
}

void *xcalloc(size_t n, size_t size)
{
	return checked(calloc(n ? n : 1, size ? size : 1), size);
}

void *xrealloc(void *p, size_t size)
{
	return checked(realloc(p, size ? size : 1), size);
}

char *xstrdup(const char *s)
{
	return checked(strdup(s), strlen(s) + 1);
}

char *xasprintf(const char *fmt, ...)
{
	char *s = NULL;
	va_list ap;
	va_start(ap, fmt);
	int n = vasprintf(&s, fmt, ap);
	va_end(ap);
	return checked(n < 0 ? NULL : s, 1);
}

struct chunk {
	struct chunk *next;
	size_t room, used;
	_Alignas(16) unsigned char data[];
};

struct arena {
	struct chunk *head;
	size_t used;
};

enum { CHUNK = 64 * 1024 };

struct arena *arena_new(void)
{
	return xcalloc(1, sizeof(struct arena));
}

void arena_free(struct arena *a)
{
	if (!a)
		return;
	for (struct chunk *c = a->head, *next; c; c = next) {
		next = c->next;
		free(c);
	}
	free(a);
}

void *arena_alloc(struct arena *a, size_t size)
{
	if (size > SIZE_MAX / 2)
		checked(NULL, size);
	size = (size + 15) & ~(size_t)15;
	struct chunk *c = a->head;
	if (!c || c->room - c->used < size) {
		size_t room = size > CHUNK / 4 ? size : CHUNK;
		struct chunk *fresh = xmalloc(sizeof *fresh + room);
		fresh->room = room;
		fresh->used = 0;
		if (c && room == size && size > CHUNK / 4) { /* a big one goes behind, the open chunk stays first */
			fresh->next = c->next;
			c->next = fresh;
		} else {
			fresh->next = c;
			a->head = fresh;
		}
		c = fresh;
	}
	void *p = c->data + c->used;
	c->used += size;
	a->used += size;
	return memset(p, 0, size);
}

void *arena_dup(struct arena *a, const void *p, size_t size)
{
	void *copy = arena_alloc(a, size);
	if (size)
		memcpy(copy, p, size);
	return copy;
}

size_t arena_used(const struct arena *a)
{
	return a->used;
}

void *vec_grow_(void *p, size_t n, size_t *room, size_t size)
{
	if (n == *room) {
		size_t more = *room ? *room * 2 : 8;
		if (more > SIZE_MAX / 2 / size)
			checked(NULL, SIZE_MAX);
		p = xrealloc(p, more * size);
		*room = more;
	}
	memset((char *)p + n * size, 0, size);
	return p;
}

void cleanup_free(void *pp)
{
	free(*(void **)pp);
}

void cleanup_fd(int *fd)
{
	if (*fd >= 0)
		close(*fd);
}

void cleanup_file(void *fpp)
{
	FILE *f = *(FILE **)fpp;
	if (f)
		fclose(f);
}

void cleanup_arena(struct arena **a)
{
	arena_free(*a);
}

bool add_fits(uint64_t a, uint64_t b, uint64_t *ret)
{
	return !__builtin_add_overflow(a, b, ret);
}

bool mul_fits(uint64_t a, uint64_t b, uint64_t *ret)
{
	return !__builtin_mul_overflow(a, b, ret);
}
