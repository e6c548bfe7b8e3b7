/* Inside src/python only: a Python that is being opened, as runtime.c (attempts), find.c (where it may be) and failure.c share it. */
#ifndef PYTHON_OPENING_H
#define PYTHON_OPENING_H

#include "python/prove.h"
#include "python/search.h"

enum {
	TRIES_MAX = 64,
	PROOFS_MAX = 500,        /* full proofs of candidates that the search found */
	RUNTIME_SEARCHES = 8,    /* for the runtime of an interpreter that does not know it */
	REFUSED = 16,            /* interpreters that a layout is known not to fit */
	STEPS_MAX = 10000000,    /* of lists followed to check a candidate */
	TYPES_LOOKED = 1 << 25,  /* entries of dictionaries that types are looked for in, of all candidates and their interpreters */
	HITS_PER_THREAD = 1000,  /* a stack and a thread block hold a handful of copies */
	HITS_MAX = 1000000,
	CANDIDATES_MAX = 64,     /* definitions of one symbol, sections of one name */
};

/* A layout that may be the one. */
struct try {
	struct layout layout;    /* once ready: a table is parsed when it is needed, which mostly is one of them */
	uint32_t version;
	const char *config;
	bool ready, given;       /* given: --layout, any version will do */
	struct proof best;       /* how far its best candidate came */
	addr_t refused[REFUSED]; /* the last ones: each of a thousand threads leads to the same interpreter */
	unsigned n_refused;
};

/* The ways to a runtime, in the order of a message that tells what became of each. */
enum way { WAY_SYMBOL, WAY_SECTION, WAY_HEAD_CODE, WAY_COOKIE, WAY_SEARCH, WAY_SALVAGE, WAY_COUNT };

struct opening {
	struct image *img;
	struct modules *mods;
	struct arena *arena;
	struct py base;          /* what every attempt starts from */
	struct py *found;
	struct { struct py *py; const char *config, *found_by; } damaged; /* to be accepted where nothing better comes */
	struct try *tries;
	size_t n_tries;
	uint32_t only;           /* --python-version: no other minor version */
	struct known_version known, said; /* said: by a candidate, for the message only */
	bool sign;               /* something of CPython was seen */
	bool placed;             /* where its interpreters would be is known, and that is in the image */
	struct proof self;       /* how far the process's own offsets came */
	bool says_build, free_threaded; /* the candidate said whether it is free-threaded */
	char self_name[64];
	struct proof last;       /* how far the candidate at hand came under any layout */
	char tried[WAY_COUNT][160]; /* what became of each way */
	unsigned proofs, runtime_searches;
	unsigned long steps, n_hits, cookies;
	uint64_t types_left;
	struct VEC(addr_t) hits; /* words that are a thread's pointer, to be looked at later */
	bool cookie_first;
	uint64_t cookie;
	uint8_t width;
	const struct try *for_main; /* runtime_of_main's search */
	addr_t main_interp, runtime;
};

bool try_ready(struct try *t);
/* Every built-in table, whatever was asked for. */
void tries_of_all(struct opening *o);
/* "x86_64-d" has 'd'. */
bool config_has(const char *config, char flag);

/* Each true: o->found is set. */
bool attempt(struct opening *o, struct try *t, addr_t runtime, addr_t interp, const char *found_by);
bool attempt_self(struct opening *o, addr_t runtime, const char *found_by);
bool attempt_runtime(struct opening *o, addr_t runtime, const char *found_by);
bool attempt_interp(struct opening *o, addr_t interp, const char *found_by);
bool accept(struct opening *o, const struct py *py, const char *config, const char *found_by);
bool accept_damaged(struct opening *o);

/* find.c: in rising cost, until one is accepted. */
bool find_runtime(struct opening *o, const struct py_options *opt);
/* What a truncated core still holds.  ERR_ABSENT; ERR_CORRUPT: more than one layout fits, why says which. */
int find_salvage(struct opening *o, const struct py_options *opt, char *why, size_t room);
/* Other runtimes that are alive, in libraries of that name. */
void find_others(struct opening *o);

/* failure.c: why nothing was found or nothing fits; fills err. */
int failure_say(struct opening *o, const struct py_options *opt, struct err *err);

#endif
