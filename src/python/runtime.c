/*
 * Opening a Python in an image: where its runtime may be (in rising cost), which version it may be, which layouts are
 * tried.  That a layout fits is for prove.c to say; nothing is believed before.
 */
#include "python/py.h"

#include <stdlib.h>
#include <string.h>

#include "python/head_code.h"
#include "python/object.h"
#include "python/prove.h"
#include "python/salvage.h"
#include "python/search.h"
#include "python/version.h"

enum {
	TRIES_MAX = 64,
	PROOFS_MAX = 500,        /* full proofs of candidates that the search found */
	RUNTIME_SEARCHES = 8,    /* for the runtime of an interpreter that does not know it */
	REFUSED = 16,            /* interpreters that a layout is known not to fit */
	STEPS_MAX = 10000000,    /* of lists followed to check a candidate */
	HITS_PER_THREAD = 1000,  /* a stack and a thread block hold a handful of copies */
	HITS_MAX = 1000000,
};

static const char cookie_text[9] = "xdebugpy"; /* _Py_Debug_Cookie, pycore_debug_offsets.h */

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

struct opening {
	struct image *img;
	struct modules *mods;
	struct arena *arena;
	struct py base;          /* what every attempt starts from */
	struct py *found;
	struct { struct py *py; const char *config, *found_by; } damaged; /* to be accepted where nothing better comes */
	struct try *tries;
	size_t n_tries;
	struct known_version known;
	bool sign;               /* something of CPython was seen */
	struct proof self;       /* how far the process's own offsets came */
	bool says_build, free_threaded; /* the process said whether it is free-threaded */
	char self_name[64];
	unsigned proofs, runtime_searches;
	unsigned long steps;
	uint64_t cookie;
	uint8_t width;
	struct search_set *set;
	const struct try *for_main; /* runtime_of_main's search */
	addr_t main_interp, runtime;
};

static struct try *add_try(struct opening *o, uint32_t version, const char *config)
{
	if (o->n_tries == TRIES_MAX)
		return NULL;
	struct try *t = &o->tries[o->n_tries++];
	t->version = version;
	t->config = config;
	return t;
}

static bool try_ready(struct try *t)
{
	if (!t->ready)
		t->ready = layout_builtin(t->version, t->config, &t->layout, NULL) == 0;
	return t->ready;
}

/* "x86_64" and what may follow it: debug builds, free-threaded builds. */
static bool config_of(const char *config, const char *machine)
{
	size_t n = strlen(machine);

	return !strncmp(config, machine, n) && (!config[n] || config[n] == '-');
}

static bool config_has(const char *config, char flag)
{
	const char *dash = strchr(config, '-');

	for (; dash; dash = strchr(dash + 1, '-'))
		if (dash[1] == flag)
			return true;
	return false;
}

/* The tables of the version that seems to run first, then the others, newest first. */
static void add_builtin_tries(struct opening *o, const struct py_options *opt)
{
	const char *machine = abi_name(image_abi(o->img)), *config;
	uint32_t version, want = opt->python_version ? opt->python_version : o->known.version;

	for (int pass = 0; pass < 2; pass++) {
		for (size_t i = 0; layout_builtin_at(i, &version, &config) == 0; i++) {
			bool same = want && version >> 16 == want >> 16;
			if (config_of(config, machine) && same == (pass == 0) && !(pass && opt->python_version))
				(void)add_try(o, version, config);
		}
	}
}

static int add_given_tries(struct opening *o, struct str text, struct err *err)
{
	static const char *const suffix[] = { "", "-d", "-t", "-d-t" };
	int rc = 0;

	for (size_t i = 0; i < sizeof suffix / sizeof *suffix; i++) {
		struct layout l;
		char *config = str_c(o->arena, str_printf(o->arena, "%s%s", abi_name(image_abi(o->img)), suffix[i]));
		int parsed = layout_parse(text, config, &l, i ? NULL : err);
		if (parsed == 0) {
			struct try *t = add_try(o, l.version, config);
			t->layout = l;
			t->ready = t->given = true;
		} else if (!i || parsed != ERR_ABSENT) {
			rc = parsed;
		}
	}
	return o->n_tries ? 0 : rc < 0 ? rc : ERR_UNSUPPORTED;
}

/* --- what a candidate has to pass --- */

static void remember(struct opening *o, struct proof *best, const struct proof *p)
{
	/* Threads that point to their interpreter, linked as CPython links them: no chance, but another build of it. */
	if (p->stage >= PROOF_TYPE)
		o->sign = true;
	if (p->stage > best->stage || !best->why[0])
		*best = *p;
}

/* sys may be gone already (Py_Finalize clears it last) while the text that sys.version was made from is there. */
static void complete_version(struct py *py)
{
	char text[32];
	uint32_t version;

	if (py->version_exact || search_version_text(py->img, text, sizeof text) < 0)
		return;
	version = version_parse(text);
	if (version >> 16 != py->version >> 16)
		return;
	py->version = version;
	py->version_exact = true;
	snprintf(py->version_text, sizeof py->version_text, "%s", text);
}

/* sys has gettotalrefcount() in builds --with-pydebug, of every version.  Their structs need not differ in what a proof follows. */
static bool is_debug_build(const struct py *py, bool *known)
{
	addr_t sysdict, value;

	*known = READ(py, py->interp_head, PyInterp, sysdict, &sysdict) == 0 && dict_get(py, sysdict, "hexversion", &value) == 0;
	return *known && dict_get(py, sysdict, "gettotalrefcount", &value) == 0;
}

/* Is there a column for what the process is, debug build or release, and this is the other? */
static bool other_build(const struct py *py, const char *config)
{
	char twin[24];
	bool known, debug = is_debug_build(py, &known), column = config_has(config, 'd');
	struct layout l;

	if (!known || debug == column)
		return false;
	const char *rest = strchr(config, '-');
	size_t n = rest ? (size_t)(rest - config) : strlen(config);
	snprintf(twin, sizeof twin, "%.*s%s%s", (int)n, config, debug ? "-d" : "", config_has(config, 't') ? "-t" : "");
	return layout_builtin(py->version, twin, &l, NULL) == 0;
}

/* 2.7's unicode has units of 2 or 4 bytes by build, which nothing of its layout shows. */
static void complete_wide_unit(struct py *py)
{
	addr_t sysdict, value;
	struct object o;
	int64_t most;

	if (TRAIT(py, str_model) == STR_MODEL_WIDE && READ(py, py->interp_head, PyInterp, sysdict, &sysdict) == 0 &&
	    dict_get(py, sysdict, "maxunicode", &value) == 0 && object_at(py, value, &o) == 0 && object_int(&o, &most) == 0)
		py->layout.trait[T_wide_unit] = most == 0xffff ? 2 : 4;
}

static bool accept(struct opening *o, const struct py *py, const char *config, const char *found_by)
{
	addr_t symbol, importlib;
	uint64_t size;

	o->found = arena_dup(o->arena, py, sizeof *py);
	complete_version(o->found);
	complete_wide_unit(o->found);
	if (o->mods && !HAS(o->found, PyRuntime, interp_head) &&
	    modules_symbol(o->mods, "_PyThreadState_Current", &symbol, &size, NULL) == 0)
		o->found->tstate_current = symbol;
	o->found->found_by = found_by;
	o->found->free_threaded = config_has(config, 't');
	bool known;
	bool debug = is_debug_build(py, &known);
	o->found->debug_build = known ? debug : config_has(config, 'd');
	if (!py->types.function && READ(py, py->interp_head, PyInterp, importlib, &importlib) == 0 && !importlib)
		o->found->phase = py_phase(py, py->interp_head);
	return true;
}

static void keep_damaged(struct opening *o, const struct py *py, const char *config, const char *found_by)
{
	if (o->damaged.py)
		return;
	o->damaged.py = arena_dup(o->arena, py, sizeof *py);
	o->damaged.config = arena_dup(o->arena, config, strlen(config) + 1);
	o->damaged.found_by = found_by;
}

static bool accept_damaged(struct opening *o)
{
	return o->damaged.py && accept(o, o->damaged.py, o->damaged.config, o->damaged.found_by);
}

/*
 * A table may hold for some of a minor version's releases only (3.13.0 and 3.13.1): is this the one in force?  Then its
 * traits become those of the very release.
 */
static bool in_force(struct py *py, const char *config)
{
	struct layout l;

	if (!py->version_exact || layout_builtin(py->version, config, &l, NULL) < 0)
		return true;
	if (l.version != py->layout.version)
		return false;
	py->layout = l;
	return true;
}

static bool attempt(struct opening *o, struct try *t, addr_t runtime, addr_t interp, const char *found_by)
{
	struct py py = o->base;
	struct proof p = { 0 };

	if (!try_ready(t) || (!t->given && o->says_build && config_has(t->config, 't') != o->free_threaded))
		return false;
	py.layout = t->layout;
	py.runtime = runtime;
	py.interp_head = interp;
	if (runtime && (READ(&py, runtime, PyRuntime, interp_head, &py.interp_head) < 0 || !py.interp_head)) {
		snprintf(p.why, sizeof p.why, "_PyRuntime at 0x%llx has no interpreter", (unsigned long long)runtime);
		remember(o, &t->best, &p);
		return false;
	}
	int rc = py_prove(&py, &o->known, t->given, &p);
	if ((rc == 0 || p.damaged) && !t->given && other_build(&py, t->config)) {
		p.stage = PROOF_VERSION;
		snprintf(p.why, sizeof p.why, config_has(t->config, 'd') ? "this is no debug build" : "this is a debug build");
		p.damaged = false;
		rc = ERR_CORRUPT;
	}
	if ((rc == 0 || p.damaged) && !t->given && !in_force(&py, t->config)) {
		p.stage = PROOF_VERSION;
		p.version = py.version;
		snprintf(p.why, sizeof p.why, "sys.hexversion says %s", py.version_text);
		p.damaged = false;
		rc = ERR_CORRUPT;
	}
	if (rc < 0) {
		if (p.damaged)
			keep_damaged(o, &py, t->config, found_by);
		/* A near miss tells the version that the message names. */
		if (p.version && !o->known.exact) {
			o->known.version = p.version;
			o->known.exact = true;
			version_format(p.version, o->known.text, sizeof o->known.text);
		}
		remember(o, &t->best, &p);
		return false;
	}
	return accept(o, &py, t->config, found_by);
}

/* The table for a version that describes itself, else the newest one there is: its own offsets cover what they cover. */
static bool table_for_self(struct layout *ret, uint32_t version, const char *config, bool *older)
{
	uint32_t at;
	const char *name;

	*older = false;
	if (layout_builtin(version, config, ret, NULL) == 0)
		return true;
	/* A version that has tables, though none of its debug builds, is not newer than all tables. */
	char plain[24];
	snprintf(plain, sizeof plain, "%.*s%s", (int)strcspn(config, "-"), config, config_has(config, 't') ? "-t" : "");
	if (config_has(config, 'd') && layout_builtin(version, plain, ret, NULL) == 0)
		return false;
	for (size_t i = 0; layout_builtin_at(i, &at, &name) == 0; i++) {
		if (strcmp(name, config) != 0 || at > version || layout_builtin(at, config, ret, NULL) < 0)
			continue;
		*older = true;
		ret->version = version; /* what traits say of "and later" */
		layout_set_traits(ret);
		return true;
	}
	return false;
}

/*
 * 3.13 on: _PyRuntime begins with _Py_DebugOffsets.  The process's own offsets overrule the table; where they cannot be
 * (damaged, or of a shape that no table knows), the table alone is tried.
 */
static bool attempt_self(struct opening *o, addr_t runtime, const char *found_by)
{
	static const char *const suffix[] = { "", "-d" };
	uint32_t version;
	bool free_threaded;

	if (o->n_tries && o->tries[0].given) /* --layout overrules */
		return false;
	if (layout_self_version(o->img, runtime, &version, &free_threaded) < 0)
		return false;
	o->sign = o->says_build = true;
	o->free_threaded = free_threaded;
	if (!o->known.exact) {
		o->known.version = version;
		o->known.exact = true;
		version_format(version, o->known.text, sizeof o->known.text);
	}
	for (size_t i = 0; i < 4; i++) {
		char config[24];
		struct py py = o->base;
		struct proof p = { 0 };
		bool own = i < 2;
		snprintf(config, sizeof config, "%s%s%s", abi_name(image_abi(o->img)), suffix[i % 2], free_threaded ? "-t" : "");
		if (!table_for_self(&py.layout, version, config, &py.table_older))
			continue;
		if (own) {
			int taken = layout_from_self(o->img, runtime, &py.layout, &py.self_differ);
			if (taken < 0)
				continue;
			py.self_taken = (unsigned)taken;
		}
		py.runtime = runtime;
		if (READ(&py, runtime, PyRuntime, interp_head, &py.interp_head) < 0 || !py.interp_head)
			snprintf(p.why, sizeof p.why, "_PyRuntime at 0x%llx has no interpreter", (unsigned long long)runtime);
		else if (py_prove(&py, &o->known, py.table_older, &p) == 0 && !other_build(&py, config))
			return accept(o, &py, config, found_by);
		else if (p.damaged && !other_build(&py, config))
			keep_damaged(o, &py, config, found_by);
		if (!o->self_name[0] || p.stage > o->self.stage)
			snprintf(o->self_name, sizeof o->self_name, "%s%s", py.layout.name, own ? " and its own offsets" : "");
		remember(o, &o->self, &p);
	}
	return false;
}

static bool attempt_runtime(struct opening *o, addr_t runtime, const char *found_by)
{
	if (!runtime || runtime % o->width)
		return false;
	if (attempt_self(o, runtime, found_by))
		return true;
	for (size_t i = 0; i < o->n_tries; i++) {
		struct try *t = &o->tries[i];
		if (try_ready(t) && layout_has(&t->layout, F_PyRuntime_interp_head) && attempt(o, t, runtime, 0, found_by))
			return true;
	}
	return false;
}

/* --- 2.7 to 3.6, which have no runtime: variables, most of them local to pystate.c --- */

static bool attempt_interp(struct opening *o, addr_t interp, const char *found_by)
{
	if (!interp || interp % o->width)
		return false;
	for (size_t i = 0; i < o->n_tries; i++)
		if (try_ready(&o->tries[i]) && !layout_has(&o->tries[i].layout, F_PyRuntime_interp_head) &&
		    attempt(o, &o->tries[i], 0, interp, found_by))
			return true;
	return accept_damaged(o);
}

/* What PyInterpreterState_Head() returns: the runtime's list where there is a runtime, else interp_head. */
static bool attempt_head_code(struct opening *o)
{
	uint8_t code[HEAD_CODE_MAX];
	struct head_code head;
	addr_t at, base;
	uint64_t size;

	if (modules_symbol(o->mods, "PyInterpreterState_Head", &at, &size, NULL) < 0)
		return false;
	o->sign = true;
	size_t n = image_read_some(o->img, at, code, sizeof code);
	if (head_code_read(image_abi(o->img), at, code, n, &head) < 0 || image_read_ptr(o->img, head.slot, &base) < 0)
		return false;
	if (head.indirect) /* base: _PyRuntime */
		return attempt_runtime(o, base, "code");
	if (attempt_interp(o, base, "code"))
		return true;
	for (size_t i = 0; i < o->n_tries; i++) {
		struct try *t = &o->tries[i];
		if (try_ready(t) && layout_has(&t->layout, F_PyRuntime_interp_head) &&
		    attempt_runtime(o, head.slot - (addr_t)t->layout.offset[F_PyRuntime_interp_head], "code"))
			return true;
	}
	return false;
}

/* The interpreter of the thread state that holds the lock, if one does. */
static bool attempt_current_thread(struct opening *o)
{
	addr_t at, thread, interp;
	uint64_t size;
	const char *how = "symbol";

	if (modules_symbol(o->mods, "_PyThreadState_Current", &at, &size, &how) < 0)
		return false;
	o->sign = true;
	if (image_read_ptr(o->img, at, &thread) < 0 || !thread)
		return false;
	for (size_t i = 0; i < o->n_tries; i++) {
		struct try *t = &o->tries[i];
		if (try_ready(t) && !layout_has(&t->layout, F_PyRuntime_interp_head) &&
		    layout_read(o->img, &t->layout, thread, F_PyThread_interp, &interp) == 0 && interp && interp % o->width == 0 &&
		    attempt(o, t, 0, interp, how))
			return true;
	}
	return false;
}

static bool attempt_variables(struct opening *o)
{
	const char *how = "symbol";
	addr_t at, head;
	uint64_t size;

	if (!o->mods)
		return false;
	if (modules_symbol(o->mods, "interp_head", &at, &size, &how) == 0 && image_read_ptr(o->img, at, &head) == 0 &&
	    attempt_interp(o, head, how))
		return true;
	if (attempt_head_code(o))
		return true;
	return attempt_current_thread(o);
}

/* --- the search for thread pointers --- */

/* Does the list from head reach interp? */
static bool interps_reach(struct opening *o, const struct layout *l, addr_t head, addr_t interp)
{
	for (unsigned n = 0; head && n < 1000 && o->steps < STEPS_MAX; n++, o->steps++) {
		if (head == interp)
			return true;
		if (layout_read(o->img, l, head, F_PyInterp_next, &head) < 0)
			return false;
	}
	return false;
}

static int runtime_word(void *arg, addr_t at, uint64_t word)
{
	struct opening *o = arg;
	const struct layout *l = &o->for_main->layout;
	addr_t runtime = at - (addr_t)l->offset[F_PyRuntime_interp_main], head;

	(void)word;
	if (runtime % o->width || layout_read(o->img, l, runtime, F_PyRuntime_interp_head, &head) < 0 ||
	    !interps_reach(o, l, head, o->main_interp))
		return 0;
	o->runtime = runtime;
	return 1;
}

/*
 * The runtime that an interpreter belongs to.  Interpreters know it from 3.9 on; for 3.8 the word interpreters.main is
 * looked for in the data of ELF files (a few hundred KiB).  0 where it is not there: then the GIL's state is not known.
 */
static addr_t runtime_of(struct opening *o, const struct try *t, addr_t interp)
{
	const struct layout *l = &t->layout;
	addr_t runtime, head;

	if (layout_has(l, F_PyInterp_runtime)) {
		if (layout_read(o->img, l, interp, F_PyInterp_runtime, &runtime) < 0 || runtime % o->width ||
		    layout_read(o->img, l, runtime, F_PyRuntime_interp_head, &head) < 0 || !interps_reach(o, l, head, interp))
			return 0;
		return runtime;
	}
	if (!layout_has(l, F_PyRuntime_interp_main) || !layout_has(l, F_PyRuntime_interp_head) ||
	    o->runtime_searches++ >= RUNTIME_SEARCHES)
		return 0;
	addr_t main = interp, next;
	for (unsigned n = 0; n < 1000 && layout_read(o->img, l, main, F_PyInterp_next, &next) == 0 && next && next != main; n++)
		main = next;
	struct search_set *set = search_set_new(&main, 1);
	o->for_main = t;
	o->main_interp = main;
	int rc = search_words(o->img, set, SEARCH_ELF, HITS_MAX, runtime_word, o);
	search_set_free(set);
	return rc == 1 ? o->runtime : 0;
}

static bool was_refused(const struct try *t, addr_t interp)
{
	for (unsigned i = 0; i < REFUSED && i < t->n_refused; i++)
		if (t->refused[i] == interp)
			return true;
	return false;
}

/* Is the word at `at` the thread_id of a thread state?  Then its interpreter's list reaches it. */
static bool is_thread_state(struct opening *o, const struct try *t, addr_t at, addr_t *ret_interp)
{
	const struct layout *l = &t->layout;
	addr_t thread = at - (addr_t)l->offset[F_PyThread_thread_id], interp, next, back;

	if (thread % o->width || thread > at || layout_read(o->img, l, thread, F_PyThread_interp, &interp) < 0 || !interp ||
	    interp % o->width || was_refused(t, interp) || layout_read(o->img, l, interp, F_PyInterp_tstate_head, &next) < 0)
		return false;
	for (unsigned n = 0; n < PY_MAX_THREADS && next && next % o->width == 0 && o->steps < STEPS_MAX; n++, o->steps++) {
		if (layout_read(o->img, l, next, F_PyThread_interp, &back) < 0 || back != interp)
			return false;
		if (next == thread) {
			*ret_interp = interp;
			return true;
		}
		addr_t after;
		if (layout_read(o->img, l, next, F_PyThread_next, &after) < 0 || after == next)
			return false;
		next = after;
	}
	return false;
}

static int found_word(void *arg, addr_t at, uint64_t word)
{
	struct opening *o = arg;

	if (word == o->cookie)
		return attempt_runtime(o, at, "cookie");
	for (size_t i = 0; i < o->n_tries; i++) {
		struct try *t = &o->tries[i];
		addr_t interp;
		if (!try_ready(t) || !layout_has(&t->layout, F_PyThread_thread_id) || !is_thread_state(o, t, at, &interp))
			continue;
		if (++o->proofs > PROOFS_MAX)
			return ERR_LIMIT;
		addr_t runtime = runtime_of(o, t, interp);
		if (runtime && attempt_self(o, runtime, "search"))
			return 1;
		if (attempt(o, t, runtime, runtime ? 0 : interp, "search"))
			return 1;
		t->refused[t->n_refused++ % REFUSED] = interp;
	}
	return o->steps >= STEPS_MAX ? ERR_LIMIT : 0;
}

static bool search_memory(struct opening *o)
{
	const struct thread *threads;
	size_t n = image_threads(o->img, &threads);
	CLEANUP(cleanup_free) uint64_t *words = xcalloc(n + 1, sizeof *words);
	uint8_t text[8];

	for (size_t i = 0; i < n; i++)
		words[i] = threads[i].regs.tls;
	memcpy(text, cookie_text, 8);
	for (size_t i = 0; i < 8; i++)
		o->cookie |= (uint64_t)text[i] << 8 * (image_abi(o->img)->big_endian ? 7 - i : i);
	words[n] = o->width == 8 ? o->cookie : 0;
	struct search_set *set = search_set_new(words, n + 1);
	unsigned long max = n < HITS_MAX / HITS_PER_THREAD ? (n + 1) * HITS_PER_THREAD : HITS_MAX;
	int rc = search_words(o->img, set, SEARCH_ELF, max, found_word, o);
	if (rc >= 0 && !o->found)
		rc = search_words(o->img, set, SEARCH_REST, max, found_word, o);
	search_set_free(set);
	return o->found || accept_damaged(o);
}

/* Before giving up: the version for the message. */
static void version_for_message(struct opening *o)
{
	if (version_from_text(o->img, &o->known))
		o->sign = true;
}

/* A version that there is a table for, and under it no candidate has an interpreter at all, be it release or debug build. */
static bool no_interpreter(const struct opening *o)
{
	unsigned known[2] = { 0 }, some[2] = { 0 };

	for (size_t i = 0; i < o->n_tries; i++) {
		bool debug = config_has(o->tries[i].config, 'd');
		if (o->tries[i].version >> 16 != o->known.version >> 16)
			continue;
		if (o->tries[i].best.stage >= PROOF_THREAD)
			return false;
		known[debug]++;
		some[debug] += o->tries[i].best.stage > PROOF_NOTHING;
	}
	return ((known[0] && !some[0]) || (known[1] && !some[1])) && o->self.stage == PROOF_NOTHING;
}

/* The candidate of the version that this is, when all that speaks against it is that memory is missing; NULL. */
static const struct proof *not_captured(const struct opening *o)
{
	if (o->self.fault)
		return &o->self;
	for (size_t i = 0; i < o->n_tries; i++)
		if (o->tries[i].version >> 16 == o->known.version >> 16 && o->tries[i].best.fault)
			return &o->tries[i].best;
	return NULL;
}

/* What a truncated core still holds; why: why that is nothing. ERR_ABSENT, ERR_CORRUPT. */
static int salvage(struct opening *o, const struct py_options *opt, char *why, size_t room)
{
	struct known_version known;
	size_t n = 0, which;

	*why = 0;
	if (!image_facts(o->img)->n_lost)
		return ERR_ABSENT;
	version_for_message(o);
	known = opt->layout_text.s ? (struct known_version){ 0 } : o->known;
	if (opt->python_version && opt->python_version >> 16 != known.version >> 16)
		known = (struct known_version){ .version = opt->python_version };
	CLEANUP(cleanup_free) struct salvage_try *tries = xcalloc(o->n_tries + 1, sizeof *tries);
	for (size_t i = 0; i < o->n_tries; i++)
		if (try_ready(&o->tries[i]))
			tries[n++] = (struct salvage_try){ o->tries[i].layout, o->tries[i].config };
	struct py py;
	int rc = py_salvage(&o->base, tries, n, &known, o->arena, &py, &which, why, room);
	if (rc == 0)
		(void)accept(o, &py, tries[which].config, "salvage");
	return rc;
}

/* The nearest candidate of the version that this is, when all that speaks against it is that it is not all there; NULL. */
static const struct proof *half_made(const struct opening *o)
{
	const struct proof *best = &o->self;

	for (size_t i = 0; i < o->n_tries; i++)
		if (o->tries[i].version >> 16 == o->known.version >> 16 && o->tries[i].best.stage > best->stage)
			best = &o->tries[i].best;
	return best->half ? best : NULL;
}

static int give_up(struct opening *o, char *version_seen, struct err *err)
{
	const struct thread *threads;
	size_t n = image_threads(o->img, &threads);

	version_for_message(o);
	if (version_seen)
		snprintf(version_seen, 32, "%s", o->known.text);
	if (!o->sign) {
		err_set(err, ERR_NOPYTHON, "found no CPython");
		return err_why(err, "no libpython, no symbol _PyRuntime, no section .PyRuntime, no cookie of 3.13 or later, and no thread state "
			       "with the thread pointer of one of the %zu threads", n);
	}
	if (no_interpreter(o) && image_facts(o->img)->truncated) {
		err_set(err, ERR_NOPYTHON, "found no Python interpreter");
		return err_why(err, "Python %s is mapped, but its runtime is cut off, and no thread state could be proved in what is left", o->known.text);
	}
	if (no_interpreter(o)) {
		err_set(err, ERR_NOPYTHON, "found no Python interpreter");
		return err_why(err, "Python %s is mapped, but has no interpreter: this was before Py_Initialize or after Py_Finalize, "
			       "or Python's data was left out", o->known.text);
	}
	const struct proof *cut = not_captured(o);
	if (cut) {
		err_set(err, ERR_NOPYTHON, "found no Python interpreter that can be read");
		return err_why(err, "Python %s is there, but %s", o->known.text, cut->why);
	}
	const struct proof *half = half_made(o);
	if (half) {
		static const char *const is[] = { [PHASE_STARTING] = "is starting", [PHASE_ENDING] = "is ending", [PHASE_EITHER] = "is starting or ending" };
		static const char *const when[] = { [PHASE_STARTING] = " yet", [PHASE_ENDING] = " any more", [PHASE_EITHER] = "" };
		err_set(err, ERR_NOPYTHON, "found no Python interpreter that can be read");
		return err_why(err, "Python %s %s: its interpreter has no %s%s", o->known.text, is[half->phase], half->half, when[half->phase]);
	}
	/* The nearest misses first: they tell most, and the list may be cut. */
	CLEANUP(cleanup_sb) struct sb tried = { 0 };
	for (int stage = PROOF_DONE; stage >= PROOF_NOTHING; stage--) {
		if (o->self_name[0] && o->self.stage == stage)
			sb_printf(&tried, "%s: %s; ", o->self_name, o->self.why);
		for (size_t i = 0; i < o->n_tries; i++) {
			const struct proof *p = &o->tries[i].best;
			if (p->stage != stage || !try_ready(&o->tries[i]))
				continue;
			if (tried.len > 380) {
				sb_printf(&tried, "...; ");
				stage = PROOF_NOTHING;
				break;
			}
			sb_printf(&tried, "%s: %s; ", o->tries[i].layout.name, p->why[0] ? p->why : "no runtime found");
		}
	}
	if (tried.len > 2)
		tried.len -= 2;
	else
		sb_printf(&tried, "no table for %s", abi_name(image_abi(o->img)));
	err_set(err, ERR_UNSUPPORTED, "no layout fits this Python%s%s (tried: %.*s)", o->known.text[0] ? " " : "", o->known.text,
		(int)tried.len, tried.s);
	return err_hint(err, "--layout FILE, or a newer pyanalyze");
}

static bool find_runtime(struct opening *o, const struct py_options *opt)
{
	addr_t at;
	uint64_t size;
	const char *how = "symbol";

	if (opt->hint_runtime && (attempt_runtime(o, opt->hint_runtime, "hint") || attempt_interp(o, opt->hint_runtime, "hint")))
		return true;
	addr_t hint = image_facts(o->img)->hint_runtime;
	if (hint && hint != opt->hint_runtime && (attempt_runtime(o, hint, "hint") || attempt_interp(o, hint, "hint")))
		return true;
	if (o->mods && modules_symbol(o->mods, "_PyRuntime", &at, &size, &how) == 0) {
		o->sign = true;
		if (attempt_runtime(o, at, how))
			return true;
	}
	if (o->mods && modules_section(o->mods, ".PyRuntime", &at, &size) == 0) {
		o->sign = true;
		if (attempt_runtime(o, at, "section"))
			return true;
	}
	return attempt_variables(o) || search_memory(o);
}

int py_open(struct image *img, struct modules *mods, const struct py_options *opt, struct arena *a, struct py **ret, struct err *err)
{
	static const struct py_options none;
	struct opening o = { .img = img, .mods = mods, .arena = a };

	if (!opt)
		opt = &none;
	o.base.img = img;
	o.base.mods = mods;
	o.width = image_abi(img)->width;
	if (o.width != 4 && o.width != 8)
		return err_set(err, ERR_UNSUPPORTED, "pointers of %u bytes", o.width);
	CLEANUP(cleanup_free) struct try *tries = xcalloc(TRIES_MAX, sizeof *tries);
	o.tries = tries;
	py_index_threads(&o.base, a);
	o.sign = version_from_outside(img, mods, &o.known);
	if (opt->layout_text.s) {
		int rc = add_given_tries(&o, opt->layout_text, err);
		if (rc < 0)
			return rc;
	} else {
		add_builtin_tries(&o, opt);
	}
	if (!find_runtime(&o, opt)) {
		char why[160];
		int rc = salvage(&o, opt, why, sizeof why);
		if (rc == ERR_CORRUPT) {
			err_set(err, ERR_NOPYTHON, "found no Python whose layout is sure");
			return err_why(err, "its runtime is cut off, and %s, so none is shown; --python-version chooses", why);
		}
		if (rc < 0)
			return give_up(&o, opt->version_seen, err);
	}
	*ret = o.found;
	return 0;
}
