/*
 * CPython's runtime in an image: interpreters, thread states, frames, code.  Reads only; allocates only from the arena
 * passed in.  Every walk is bounded and notices cycles.
 */
#ifndef PYTHON_PY_H
#define PYTHON_PY_H

#include "module/module.h"
#include "python/layout.h"

/* Types known by identity, from dictionaries in the heap; 0: not known. */
struct py_types {
	addr_t type, object, str, bytes, int_, dict, tuple, list, function, code, module, float_, bool_, none_type, set, none;
	addr_t instance;          /* of classes that derive from nothing; 2.7 */
};

/* Where in its life Python is, when importlib is not there. */
enum py_phase { PHASE_RUNNING, PHASE_STARTING, PHASE_ENDING, PHASE_EITHER /* of the two; up to 3.6 nothing tells */ };

/* One runtime that is alive in the process.  Borrows img and mods. */
struct py {
	struct image *img;
	struct modules *mods;
	struct layout layout;
	addr_t runtime;           /* _PyRuntime; 0 where the versions before 3.7 or the search found none */
	addr_t interp_head;       /* the first interpreter state */
	addr_t tstate_current;    /* _PyThreadState_Current, a variable: the thread state that holds the lock, up to 3.6; 0: not known */
	uint32_t version;         /* full PY_VERSION_HEX as the process says (debug offsets, Py_Version, version text, else sys.hexversion) */
	bool version_exact;       /* false: taken from the layout */
	char version_text[32];    /* "3.12.1", "3.14.0rc2" */
	bool version_sure;        /* the process says that it is of the layout's minor version */
	char version_denied[32];  /* what the image says (sys.hexversion, else Py_Version, the version text or its files' names) where a version
				     or a layout that was given overruled it, or what version_by says; else empty */
	const char *version_by;   /* what of the process overruled sys.hexversion; NULL: nothing did, or the user */
	const char *found_by;     /* "hint", "symbol", "section", "dynamic" (symbols in the image), "cookie", "head_code" (instructions of
				     PyInterpreterState_Head), "search" (thread pointers), "salvage" */
	bool free_threaded, debug_build;
	unsigned self_taken, self_differ; /* fields from _Py_DebugOffsets, and those that disagree with the table */
	bool self_refused;        /* it has debug offsets that cannot be right: the table alone is used */
	bool self_outvoted;       /* self_differ is so few that a damaged word is likelier than another build: the table alone is used */
	bool self_doubtful;       /* by what is used few frames have names and lines that can be right */
	bool table_older;         /* the newest table is older than this version; its own debug offsets are used */
	struct py_types types;
	uint8_t phase;            /* enum py_phase */
	bool salvaged;            /* of a truncated core: thread states found one by one, the lists they were in are cut off */
	const struct py_salvaged *salvaged_threads; /* by interpreter, newest first */
	size_t n_salvaged;
	const struct py_tid *by_tls, *by_sp, *by_tid; /* the image's threads, sorted by thread pointer (where known), by sp, by tid */
	size_t n_by_tls, n_by_tid; /* n_by_tid: of by_sp too */
	const uint64_t *idents;   /* of all thread states, sorted, where only the place of a pthread_t tells whose it is */
	size_t n_idents;
	struct py *other;         /* another one that is alive in the same process; NULL */
};
struct py_salvaged { addr_t interp, thread; };
struct py_tid { addr_t at, tls; pid_t tid; };

/* Overrules: python_version 0 and layout_text NULL when not given. */
struct py_options {
	uint32_t python_version;  /* the low 16 bits 0: whatever release of that minor version */
	struct str layout_text;   /* --layout FILE's content */
	addr_t hint_runtime;      /* try this first; verified like any other */
	addr_t only_runtime;      /* this one (before 3.7 its first interpreter) or none; 0 */
	char *asked_for;          /* 64 bytes or NULL: of one that no layout fits, as what an option would have it, in words; empty: as none */
	char *version_seen;       /* 32 bytes or NULL: the version ("3.9.18", "3.13") of a Python that no layout fits */
};
/*
 * Find the runtime, choose and prove a layout.  ERR_NOPYTHON: nothing of CPython found, or none at only_runtime (err->why says why, err->detail what was tried);
 * ERR_UNSUPPORTED: a Python is there but no layout fits (err->msg lists each layout tried and the check that failed).
 */
int py_open(struct image *img, struct modules *mods, const struct py_options *opt, struct arena *a, struct py **ret, struct err *err) MUST_CHECK;

/* The image's threads by thread pointer, stack and id: what thread states are matched with.  py_open has done it. */
void py_index_threads(struct py *py, struct arena *a);
/* Once the layout is sure: finds whose threads are where their pointer does not say so (py_next_thread). */
void py_index_idents(struct py *py, struct arena *a);

/* A bounded walk over a linked list; limit counts entries, mark is Brent's tortoise for cycles. */
struct walk {
	const struct py *py;
	addr_t next, mark;
	unsigned long n, limit, lap;
	addr_t owner;             /* threads: their interpreter; frames: their thread state, where it is to bear witness */
	addr_t gil_holder;        /* threads: the interpreter's */
	bool main;                /* threads: of the main interpreter */
	addr_t code;              /* frames: the last one that proved to be a code object */
	addr_t builtins;          /* frames: those of the last one that has code; 0: not known */
	addr_t plain;             /* frames: the last code object that proved not to be the interpreter's own */
	addr_t cframe;            /* frames: that of the call of the evaluation loop which runs them; 0: not known, or there is none */
	addr_t chunk, chunk_mark; /* frames: of the thread's data stack, that has the last ones that were looked for; 0: none is known */
	unsigned n_chunks;        /* frames: newer ones */
	addr_t above;             /* frames: the last one, where its caller's has to lie right below it; 0: it need not */
	addr_t oldest;            /* frames: the last one that lies on the thread's data stack */
	const char *why;          /* frames: what speaks against the chain, where that is not the frame at next; NULL */
	int failed;               /* what the next step will say */
	bool ended;
};
struct py_interp { addr_t addr; int64_t id; bool main; addr_t gil_holder /* thread state; 0: nobody */; bool gil_known; bool gil_locked;
	const char *gil_doubt; /* what speaks against what it says of its lock, or why that says nothing though it should; NULL */ };
struct py_thread {
	addr_t addr, interp;
	addr_t frame;             /* the innermost; 0: none; what leads to it was not captured: that address, and the walk says ERR_FAULT */
	uint64_t ident;           /* pthread_t, as threading.get_ident() says in the thread that runs it */
	uint64_t id;              /* unique in its interpreter */
	pid_t tid;                /* the kernel's; 0 if no thread of the image matches */
	bool stale;               /* has an id, but no thread of the image matches: it was lost over fork or ended */
	bool starting;            /* py_find_starting: made, but no thread has taken it yet; then tid and ident are 0 */
	bool holds_gil;
	addr_t at;                /* py_find_runners: where on its thread's stack its frames are spoken of; 0: not known, or not looked for */
	bool sure, unsure;        /* py_find_runners: its thread's stack has its frames; nothing tells which of the threads runs it, and tid need not */
};
enum { LASTI_NOWHERE = -2 };
struct py_frame {
	addr_t addr, code;        /* code 0: a shim, or no_code says why */
	int no_code;              /* of a frame that is no shim: ERR_ABSENT another object stands in its code's place, ERR_FAULT that is not
				     captured, ERR_CORRUPT nothing does; 0 */
	addr_t stands;            /* what stands there */
	int64_t lasti;            /* byte offset of the instruction in co_code; -1: not started; LASTI_NOWHERE: what stands there is none of co_code */
	uint8_t owner;            /* as the owner field, 0 where there is none */
	bool shim;                /* no Python code of its own: not shown */
	bool entry;               /* the first frame of a run of the evaluation loop (C called Python here) */
};
enum { PY_MAX_INTERPS = 100000, PY_MAX_THREADS = 1000000, PY_MAX_FRAMES = 10000000 };
struct walk py_interps(const struct py *py);
struct walk py_threads(const struct py *py, const struct py_interp *in);
struct walk py_frames(const struct py *py, addr_t first); /* of a thread: a chain that ends where none does is ERR_CORRUPT, at 0 */
struct walk py_thread_frames(const struct py *py, const struct py_thread *t); /* the same, held against what else the thread state knows of frames */
/*
 * 1 got one, 0 the end, <0 broken here: ERR_FAULT, ERR_CORRUPT (cycle or nonsense), ERR_LIMIT; then the walk is over.
 * w.n counts those that were given out, w.next is the one that is broken, or where a cycle was noticed.
 */
int py_next_interp(struct walk *w, struct py_interp *ret) MUST_CHECK;
int py_next_thread(struct walk *w, struct py_thread *ret) MUST_CHECK;
int py_next_frame(struct walk *w, struct py_frame *ret) MUST_CHECK;

/*
 * Thread states that the list of an interpreter, all of whose walk is listed[0..n), should lead to and does not, where one of them
 * runs Python: got is called for each.  How many.  *misfit: the links back do not fit those forth.
 */
size_t py_unlisted(const struct py *py, const struct py_interp *in, const struct py_thread *listed, size_t n, bool *misfit,
		   void (*got)(void *arg, const struct py_thread *t), void *arg);

/*
 * Which of an interpreter's thread states, all of them in the order of the walk, belong to threads that are still being started: those
 * have run nothing, and no id of their own.
 */
void py_find_starting(const struct py *py, struct py_thread *threads, size_t n);

/*
 * Which threads run those of all thread states whose ids name a thread that others name too; after py_find_starting.  Those whose thread
 * is gone and has its id used again become stale, without an ident.
 */
void py_find_runners(const struct py *py, struct py_thread *const *threads, size_t n);

struct py_code { addr_t addr; struct str name, qualname /* s NULL before 3.11 */, file; int firstlineno; };
struct position { int line, end_line, col, end_col; }; /* lines from 1; columns from 0 in UTF-8 bytes; -1: not known */
/* Names are whole up to 64 KiB; text goes to the arena.  Callers keep a cache by address. */
int py_code_read(const struct py *py, addr_t code, struct arena *a, struct py_code *ret) MUST_CHECK;
/* ERR_ABSENT: that instruction has no line; ERR_CORRUPT: also, where it is none of the code. */
int py_code_position(const struct py *py, addr_t code, int64_t lasti, struct position *ret) MUST_CHECK;

/*
 * threading._active of sys.modules['threading']: ident -> name.  Calls got for each; returns how many or ERR_ABSENT (threading not imported).
 * *lost counts those that are there and cannot be read; UINT64_MAX where not even how many is known.
 * *left: so many entries of dictionaries may be looked at, of all interpreters together; they are counted off.
 */
enum { PY_NAMES_LOOKED = 1 << 26 };
int py_thread_names(const struct py *py, const struct py_interp *in, uint64_t *left, struct arena *a, uint64_t *lost,
		    void (*got)(void *arg, uint64_t ident, struct str name), void *arg) MUST_CHECK;
/* The same where the runtime is cut off (salvaged): out of the globals of a frame of threading, for thread states that were found. */
int py_names_left(const struct py *py, struct arena *a, void (*got)(void *arg, uint64_t ident, struct str name), void *arg) MUST_CHECK;
/* An int that Python calls a thread by, as thread_id holds it: 2.7's get_ident() is signed (Modules/threadmodule.c). */
uint64_t py_ident(const struct py *py, int64_t n);
/* The ident of the main thread, as the runtime records it, else the process's first thread or threading tell; ERR_ABSENT: nothing tells. */
int py_main_ident(const struct py *py, uint64_t *ret) MUST_CHECK;
/* sys.argv or sys.orig_argv (3.10 on) joined by spaces; s == NULL where not found. */
struct str py_arguments(const struct py *py, const struct py_interp *in, const char *name, struct arena *a);
struct str py_executable(const struct py *py, const struct py_interp *in, struct arena *a); /* sys.executable; s == NULL where not found */

/*
 * The live part of a frame's value stack, bottom first, as object addresses (tags removed; 0 for NULL slots).
 * *sure is false where the depth is a lower bound from the code (the frame was executing).  Returns the count or ERR_*.
 */
int py_frame_stack(const struct py *py, const struct py_frame *f, addr_t *ret, size_t max, bool *sure) MUST_CHECK;

#endif
