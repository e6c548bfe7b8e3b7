/*
 * A CPython in memory, written through a layout: the inverse of READ.  Every test of a reader runs under every built-in
 * layout with it, and what it builds is an ordinary struct image.
 *
 *	struct build *b = build_new(&layout);          the types, _PyRuntime, the main interpreter, sys, builtins, importlib
 *	addr_t code = build_code(b, &(struct build_code){ .name = "work", .file = "a.py", .firstlineno = 10, .units = 8 });
 *	addr_t t = build_thread(b, b->interp, 0x7f0000000700, 4242);
 *	build_frame(b, t, &(struct build_frame){ .code = code, .lasti = 6 });      pushed: it is the innermost now
 *	build_thread_name(b, b->interp, 0x7f0000000700, "worker");
 *	struct py *py = build_py(b);                   opened as py_open would leave it; image_threads has LWP 4242
 *	...
 *	build_free(b);
 *
 * build_image gives only the image, for tests that go through py_open.  Dictionaries can be added to until then; what
 * is built later is in the next image.  To damage something: build_settle (writes the dictionaries out), then WRITE or
 * build_uint at the place, build_lose for memory that was not captured, then build_py.
 *
 * Addresses are the target's: plain numbers.  Memory starts zeroed.  A failed expectation of the builder itself (a
 * field that the layout has not) ends the test through ck_abort.
 */
#ifndef BUILD_PY_H
#define BUILD_PY_H

#include "python/object.h"

/* ck_assert writes a file each time it is passed: where a test looks at many things, this costs only when it fails. */
#define MUST(cond, ...) do { if (!(cond)) ck_abort_msg(__VA_ARGS__); } while (0)

/* Static memory (.rodata: tp_name and the like) and everything else are two segments. */
#define BUILD_RODATA 0x08048000u
#define BUILD_HEAP   0x20000000u

/* A pthread_t as it may be on the machine. */
#define BUILD_IDENT(b) ((b)->layout.abi.width == 8 ? UINT64_C(0x7f0000000700) : UINT64_C(0xb7000700))

struct build_region { addr_t base; uint8_t *p; size_t n, room; };
struct build_dict_state;
struct build {
	struct layout layout;
	struct build_region heap, rodata;
	bool bare_chains;         /* the first frame of a thread stands on no shim, so that its place on the C stack is not known */
	bool no_rodata;                 /* leave it out of the image, as an ordinary core does */
	struct py_types types;
	addr_t runtime;                 /* 0 before 3.7 */
	addr_t tstate_current;          /* the variable _PyThreadState_Current; 0 from 3.7 on */
	addr_t interp;                  /* the main interpreter */
	addr_t interp_head;             /* the newest */
	addr_t sysdict, modules, builtins;     /* of the main interpreter */
	addr_t true_, false_;
	addr_t long_type;               /* types.int_, but for 2.7 */
	addr_t frame_type, gen_type, shim_code;
	addr_t threading, threading_active;    /* dictionaries; 0: not imported */
	struct py py;                   /* what build_py returns */
	struct VEC(struct build_dict_state *) dicts;
	struct VEC(struct lost) lost;
	struct VEC(struct thread) lwps;        /* threads of the image */
	struct VEC(struct image *) images;
	struct arena *arena;
};

struct build *build_new(const struct layout *l);        /* copies l */
struct build *build_bare(const struct layout *l);       /* the types only: no runtime, no interpreter */
void build_free(struct build *b);
addr_t build_hint(const struct build *b);               /* what pysnap would leave: the runtime, before 3.7 the interpreter */
struct image *build_image(struct build *b);             /* owned by b, a copy of what is there now */
struct py *build_py(struct build *b);                   /* build_image, and b->py over it */
void build_settle(struct build *b);
void build_forget_dicts(struct build *b);               /* for build_free */

/* Memory. */
addr_t build_alloc(struct build *b, size_t size);       /* zeroed, aligned to 16 */
addr_t build_cstr(struct build *b, const char *s);      /* in rodata */
void build_put(struct build *b, addr_t at, const void *p, size_t len);
void build_uint(struct build *b, addr_t at, size_t width, uint64_t value);
void build_ptr(struct build *b, addr_t at, addr_t value);
uint64_t build_get(struct build *b, addr_t at, size_t width);
void build_lose(struct build *b, addr_t at, size_t len);/* not in the images that are made from now on */

/* Write a field; build_field ends the test where the layout has no such field, build_field_if then does nothing. */
void build_field(struct build *b, addr_t obj, enum py_field f, uint64_t value);
void build_field_if(struct build *b, addr_t obj, enum py_field f, uint64_t value);
addr_t build_field_at(const struct build *b, addr_t obj, enum py_field f);      /* where it is */
uint64_t build_field_get(struct build *b, addr_t obj, enum py_field f);
#define WRITE(b, obj, S, f, value) build_field((b), (obj), F_##S##_##f, (uint64_t)(value))
#define WRITE_IF(b, obj, S, f, value) build_field_if((b), (obj), F_##S##_##f, (uint64_t)(value))
/* A reference as frames hold it: with a tag where this version has tags, so that a reader must take it off. */
addr_t build_ref(const struct build *b, addr_t obj);

/* Objects.  build_object has room for a few words before it (GC head, managed dictionary) and size bytes from it on. */
addr_t build_object(struct build *b, addr_t type, size_t size);
addr_t build_type(struct build *b, const char *name, unsigned kind /* enum object_kind: what it derives from */, bool heap);
addr_t build_int(struct build *b, int64_t value);       /* 2.7: int where that can hold it, else long */
addr_t build_long(struct build *b, int64_t value);      /* in digits in every version */
addr_t build_bytes(struct build *b, const void *p, size_t len);
addr_t build_str(struct build *b, const char *utf8);    /* compact, the narrowest kind; 2.7: bytes */
enum build_text { BUILD_COMPACT, BUILD_POINTER /* data elsewhere: a subclass's */, BUILD_WSTR /* not ready, up to 3.11 */ };
bool build_can_text(const struct build *b, enum build_text how);
addr_t build_text(struct build *b, const uint32_t *cp, size_t n, unsigned unit /* 1, 2, 4 */, enum build_text how);
addr_t build_tuple(struct build *b, const addr_t *items, size_t n);
addr_t build_list(struct build *b, const addr_t *items, size_t n);
addr_t build_float(struct build *b, double value);
enum build_dict { BUILD_DICT /* as Python would: str keys only while they are */, BUILD_GENERAL, BUILD_SPLIT };
addr_t build_dict(struct build *b, enum build_dict how);
void build_dict_set(struct build *b, addr_t dict, addr_t key, addr_t value);   /* appends; value 0: a deleted entry */
void build_dict_str(struct build *b, addr_t dict, const char *key, addr_t value);
addr_t build_module(struct build *b, const char *name, addr_t dict);
addr_t build_function(struct build *b, const char *name, addr_t code);
addr_t build_builtin(struct build *b, const char *name); /* a function of C: its PyMethodDef has that name */
addr_t build_exception(struct build *b, addr_t type, addr_t args);
/* An instance with attributes; values: kept outside of a dictionary where this version does that, else a split one. */
addr_t build_instance(struct build *b, const char *type_name, const char *const *names, const addr_t *values, size_t n,
		      bool as_values);

/* Code.  Without a table of its own, instruction i (2 bytes each) stands on line firstlineno + i, columns 4 to 4 + i % 10. */
struct build_code {
	const char *name, *qualname /* NULL: as name */, *file;
	int firstlineno, units;             /* units 0: 8 */
	struct blob table;                  /* p NULL: as above */
	int nlocals /* nlocalsplus from 3.11 on */, stacksize, flags;
	struct blob code, exceptiontable;   /* bytes of instructions; p NULL: zeros, units of them */
};
addr_t build_code(struct build *b, const struct build_code *c);

/* Interpreters and threads are put at the head of their lists, as CPython does. */
addr_t build_interp(struct build *b, int64_t id);       /* a subinterpreter with sys, builtins and modules of its own */
addr_t build_thread(struct build *b, addr_t interp, uint64_t ident, pid_t tid); /* tid 0: no LWP in the image has it */
void build_gil(struct build *b, addr_t interp, addr_t thread);                  /* held by thread; 0: nobody */
void build_thread_name(struct build *b, addr_t interp, uint64_t ident, const char *name); /* threading._active */

/* Where pthread_t is not the thread pointer: the LWPs' stack pointers, and no thread pointer or one that says nothing. */
void build_lwp(struct build *b, pid_t tid, addr_t sp, addr_t tls);

struct build_frame {
	addr_t code;
	int64_t lasti;                      /* bytes; -1: not started */
	bool shim;                          /* from 3.12 on; nothing is pushed in versions that have none */
	bool entry;                         /* 3.11 */
	bool generator;                     /* lies in, or belongs to, a generator */
	bool executing;                     /* the depth of the value stack is not stored */
	const addr_t *locals, *stack;       /* code's nlocals values; n_stack values, bottom first */
	size_t n_stack;
};
addr_t build_frame(struct build *b, addr_t thread, const struct build_frame *f); /* 0 where nothing was pushed */
addr_t build_frame_back(struct build *b, addr_t frame);                          /* the address of its link outwards */

/* Whole processes: build_new with a frame of build_work's code, a function of /a/b.py, in each of threads 100 and 101. */
addr_t build_work(struct build *b);
struct build *build_two_threads(const struct layout *l, addr_t threads[2]);
/* py_open, which has to find it. */
struct py *build_open(struct build *b, struct image *img, const struct py_options *opt);

#endif
