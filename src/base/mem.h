/* Memory: checked allocation that ends the program, an arena, a growing array, scope clean-up. */
#ifndef BASE_MEM_H
#define BASE_MEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Never return NULL: out of memory ends the program.  Nothing may be allocated on a file's say-so. */
void *xmalloc(size_t size);
void *xcalloc(size_t n, size_t size);
void *xrealloc(void *p, size_t size);
char *xstrdup(const char *s);
char *xasprintf(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* An arena gives memory that is freed all at once; blocks are zeroed and aligned to 16. */
struct arena;
struct arena *arena_new(void);
void arena_free(struct arena *a); /* takes NULL */
void *arena_alloc(struct arena *a, size_t size);
void *arena_dup(struct arena *a, const void *p, size_t size);
size_t arena_used(const struct arena *a); /* bytes handed out */

/*
 * A growing array of T: struct VEC(T) v = { 0 }; *vec_push(&v) = x; v.p[i]; v.n; vec_free(&v).
 * vec_push returns a zeroed new element, valid until the next push.
 */
#define VEC(T) { T *p; size_t n, room; }
#define vec_push(v) \
	((v)->p = vec_grow_((v)->p, (v)->n, &(v)->room, sizeof *(v)->p), &(v)->p[(v)->n++])
#define vec_free(v) (free((v)->p), (v)->p = NULL, (v)->n = (v)->room = 0)
void *vec_grow_(void *p, size_t n, size_t *room, size_t size);

/* CLEANUP(free_) char *s = ...; runs the function on the way out of the block. */
#define CLEANUP(f) __attribute__((cleanup(f)))
void cleanup_free(void *pp);   /* free(*pp) */
void cleanup_fd(int *fd);      /* close(*fd) if it is >= 0 */
void cleanup_file(void *fpp);  /* fclose(*fpp) if not NULL */
void cleanup_arena(struct arena **a);

/* Checked arithmetic: true and *ret set, or false when the sum or product does not fit. */
bool add_fits(uint64_t a, uint64_t b, uint64_t *ret) __attribute__((warn_unused_result));
bool mul_fits(uint64_t a, uint64_t b, uint64_t *ret) __attribute__((warn_unused_result));

#endif
