/*
 * Where a runtime may be, in rising cost: symbols, the section, the instructions of PyInterpreterState_Head, the cookie, thread
 * pointers.  Each candidate is proved; of several in a process (a library that was loaded and never initialized) the next is
 * looked at.  What became of each way is noted for failure.c.
 */
#include <stdlib.h>
#include <string.h>

#include "python/head_code.h"
#include "python/opening.h"
#include "python/salvage.h"
#include "python/self.h"
#include "python/version.h"

static const char cookie_text[9] = "xdebugpy"; /* _Py_Debug_Cookie, pycore_debug_offsets.h */

static void note(struct opening *o, enum way way, const char *fmt, ...) PRINTF(3, 4);
static void note(struct opening *o, enum way way, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(o->tried[way], sizeof o->tried[way], fmt, ap);
	va_end(ap);
}

static void note_candidate(struct opening *o, enum way way, const char *what, addr_t at)
{
	const char *why = o->last.why[0] ? o->last.why : "no layout is for it";
	char itself[40];
	int n = snprintf(itself, sizeof itself, "_PyRuntime at 0x%llx ", (unsigned long long)at);

	if (strncmp(why, itself, (size_t)n) == 0) /* as it says of itself */
		note(o, way, "%s at 0x%llx: it %s", what, (unsigned long long)at, why + n);
	else
		note(o, way, "%s at 0x%llx: %s", what, (unsigned long long)at, why);
}

/* Is the place there from which its interpreters are reached? */
static bool is_there(const struct opening *o, addr_t at)
{
	addr_t word;

	return image_read_ptr(o->img, at, &word) == 0;
}

/* --- symbols, and the section --- */

static bool attempt_symbols(struct opening *o)
{
	addr_t at;
	const char *how;
	size_t from = 0;

	for (unsigned n = 0; n < CANDIDATES_MAX && modules_symbol_next(o->mods, "_PyRuntime", &from, &at, NULL, &how) == 0; n++) {
		o->sign = true;
		o->placed |= is_there(o, at);
		if (attempt_runtime(o, at, how))
			return true;
		note_candidate(o, WAY_SYMBOL, "_PyRuntime", at);
	}
	return false;
}

static bool attempt_sections(struct opening *o)
{
	addr_t at;
	uint64_t size;
	size_t from = 0;

	for (unsigned n = 0; n < CANDIDATES_MAX && modules_section_next(o->mods, ".PyRuntime", &from, &at, &size) == 0; n++) {
		o->sign = true;
		o->placed |= is_there(o, at);
		if (attempt_runtime(o, at, "section"))
			return true;
		note_candidate(o, WAY_SECTION, ".PyRuntime", at);
	}
	return false;
}

/* --- 2.7 to 3.6, which have no runtime: variables, most of them local to pystate.c --- */

static bool attempt_head(struct opening *o)
{
	addr_t at, head;
	const char *how;
	size_t from = 0;

	for (unsigned n = 0; n < CANDIDATES_MAX && modules_symbol_next(o->mods, "interp_head", &from, &at, NULL, &how) == 0; n++) {
		o->placed |= is_there(o, at);
		if (image_read_ptr(o->img, at, &head) == 0 && attempt_interp(o, head, how))
			return true;
		note_candidate(o, WAY_SYMBOL, "interp_head", at);
	}
	return false;
}

/* What PyInterpreterState_Head() returns: the runtime's list where there is a runtime, else interp_head. */
static bool attempt_code_at(struct opening *o, addr_t at)
{
	uint8_t code[HEAD_CODE_MAX];
	struct head_code head;
	addr_t base;
	unsigned long long said = at;
	size_t n = image_read_some(o->img, at, code, sizeof code);

	if (!n) {
		note(o, WAY_HEAD_CODE, "PyInterpreterState_Head at 0x%llx: its instructions are neither in the file nor here", said);
		return false;
	}
	int rc = head_code_read(image_abi(o->img), at, code, n, &head);
	if (rc < 0) {
		note(o, WAY_HEAD_CODE, "PyInterpreterState_Head at 0x%llx: %s", said,
		     rc == ERR_UNSUPPORTED ? "of a machine whose instructions are not read" : "instructions that are not known");
		return false;
	}
	if (image_read_ptr(o->img, head.slot, &base) < 0) {
		note(o, WAY_HEAD_CODE, "PyInterpreterState_Head at 0x%llx: what it returns (0x%llx) is not in the file", said, (unsigned long long)head.slot);
		return false;
	}
	o->placed |= !head.indirect || is_there(o, base);
	if (head.indirect) { /* base: _PyRuntime */
		if (attempt_runtime(o, base, "head_code"))
			return true;
		note_candidate(o, WAY_HEAD_CODE, "PyInterpreterState_Head leads to _PyRuntime", base);
		return false;
	}
	if (attempt_interp(o, base, "head_code"))
		return true;
	note_candidate(o, WAY_HEAD_CODE, "PyInterpreterState_Head leads to an interpreter", base);
	/* Where the runtime begins each version's table says otherwise: under another's there is none. */
	for (size_t i = 0; i < o->n_tries; i++) {
		struct try *t = &o->tries[i];
		if (!try_ready(t) || !layout_has(&t->layout, F_PyRuntime_interp_head))
			continue;
		const addr_t runtime = head.slot - (addr_t)t->layout.offset[F_PyRuntime_interp_head];
		o->last = (struct proof){ 0 };
		o->says_build = false;
		if (runtime % o->width == 0 && (attempt_self(o, runtime, "head_code") || attempt(o, t, runtime, 0, "head_code")))
			return true;
	}
	return false;
}

static bool attempt_head_code(struct opening *o)
{
	addr_t at;
	size_t from = 0;

	for (unsigned n = 0; n < CANDIDATES_MAX && modules_symbol_next(o->mods, "PyInterpreterState_Head", &from, &at, NULL, NULL) == 0; n++) {
		o->sign = true;
		if (attempt_code_at(o, at))
			return true;
	}
	return false;
}

/* The interpreter of the thread state that holds the lock, if one does. */
static bool attempt_current_thread(struct opening *o)
{
	addr_t at, thread, interp;
	const char *how;
	size_t from = 0;

	for (unsigned n = 0; n < CANDIDATES_MAX && modules_symbol_next(o->mods, "_PyThreadState_Current", &from, &at, NULL, &how) == 0; n++) {
		o->sign = true;
		if (image_read_ptr(o->img, at, &thread) < 0 || !thread)
			continue;
		for (size_t i = 0; i < o->n_tries; i++) {
			struct try *t = &o->tries[i];
			o->last = (struct proof){ 0 };
			if (try_ready(t) && !layout_has(&t->layout, F_PyRuntime_interp_head) &&
			    layout_read(o->img, &t->layout, thread, F_PyThread_interp, &interp) == 0 && interp && interp % o->width == 0 &&
			    attempt(o, t, 0, interp, how))
				return true;
		}
		note_candidate(o, WAY_SYMBOL, "_PyThreadState_Current", at);
	}
	return false;
}

static bool attempt_names(struct opening *o)
{
	const struct module *list;
	size_t n = o->mods ? modules_list(o->mods, &list) : 0, here = 0;

	for (size_t i = 0; i < n; i++)
		here += list[i].file != NULL;
	if (!n) {
		for (int way = WAY_SYMBOL; way <= WAY_HEAD_CODE; way++)
			note(o, (enum way)way, "no mapped files are known");
		return false;
	}
	note(o, WAY_SYMBOL, "none of _PyRuntime, interp_head and _PyThreadState_Current in the files that are mapped (%zu; here: %zu)", n, here);
	note(o, WAY_SECTION, "in none of the files that are here (%zu)", here);
	note(o, WAY_HEAD_CODE, "no PyInterpreterState_Head");
	return attempt_symbols(o) || attempt_sections(o) || attempt_head(o) || attempt_head_code(o) || attempt_current_thread(o);
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

/* A word that is a thread's pointer. */
static int found_pointer(struct opening *o, addr_t at)
{
	o->n_hits++;
	for (size_t i = 0; i < o->n_tries; i++) {
		struct try *t = &o->tries[i];
		addr_t interp;
		if (!try_ready(t) || !layout_has(&t->layout, F_PyThread_thread_id) || !is_thread_state(o, t, at, &interp))
			continue;
		if (++o->proofs > PROOFS_MAX)
			return ERR_LIMIT;
		addr_t runtime = runtime_of(o, t, interp);
		o->last = (struct proof){ 0 };
		o->says_build = false;
		if (runtime && attempt_self(o, runtime, "search"))
			return 1;
		if (attempt(o, t, runtime, runtime ? 0 : interp, "search"))
			return 1;
		note_candidate(o, WAY_SEARCH, "an interpreter", interp);
		t->refused[t->n_refused++ % REFUSED] = interp;
	}
	return o->steps >= STEPS_MAX ? ERR_LIMIT : 0;
}

static int found_word(void *arg, addr_t at, uint64_t word)
{
	struct opening *o = arg;

	if (word == o->cookie) {
		uint32_t version;
		bool free_threaded;
		o->cookies++;
		if (layout_self_version(o->img, at, &version, &free_threaded) < 0)
			return 0; /* the same text in a string */
		if (attempt_runtime(o, at, "cookie"))
			return 1;
		note_candidate(o, WAY_COOKIE, "_PyRuntime", at);
		return 0;
	}
	if (!o->cookie_first)
		return found_pointer(o, at);
	*vec_push(&o->hits) = at;
	return 0;
}

/* In the data of ELF files, where it lies, the cookie comes before any thread pointer: it is cheap to look at. */
static int search_part(struct opening *o, const struct search_set *set, enum search_where where, unsigned long max)
{
	o->hits.n = 0;
	o->cookie_first = where == SEARCH_ELF;
	int rc = search_words(o->img, set, where, max, found_word, o);
	for (size_t i = 0; (rc == 0 || rc == ERR_LIMIT) && !o->found && i < o->hits.n; i++)
		rc = found_pointer(o, o->hits.p[i]);
	return rc;
}

static bool search_memory(struct opening *o)
{
	const struct thread *threads;
	size_t n = image_threads(o->img, &threads), known;
	CLEANUP(cleanup_free) uint64_t *words = NULL;
	size_t n_words = self_words(o->img, &words, &known);

	/* Of 32-bit processes the first half of it: layout_self_version looks at all of it. */
	o->cookie = 0;
	for (size_t i = 0; i < o->width; i++)
		o->cookie |= (uint64_t)(uint8_t)cookie_text[i] << 8 * (image_abi(o->img)->big_endian ? o->width - 1u - i : i);
	words[n_words] = o->cookie;
	struct search_set *set = search_set_new(words, n_words + 1);
	unsigned long max = n < HITS_MAX / HITS_PER_THREAD ? (n + 1) * HITS_PER_THREAD : HITS_MAX;
	int rc = search_part(o, set, SEARCH_ELF, max);
	if (rc >= 0 && !o->found)
		rc = search_part(o, set, SEARCH_REST, max);
	vec_free(&o->hits);
	search_set_free(set);
	if (o->found || accept_damaged(o))
		return true;
	if (!o->tried[WAY_COOKIE][0] && o->cookies)
		note(o, WAY_COOKIE, "%lu time%s in writable memory, always as a piece of text", o->cookies, o->cookies == 1 ? "" : "s");
	else if (!o->tried[WAY_COOKIE][0])
		note(o, WAY_COOKIE, "nowhere in writable memory");
	if (!known)
		note(o, WAY_SEARCH, n ? "those of the threads (%zu) are not known%s" : "no threads are known", n, self_why_not(image_abi(o->img)));
	else if (!o->tried[WAY_SEARCH][0])
		note(o, WAY_SEARCH, "words that are one of the threads' (%zu): %lu; none is a thread state's", known, o->n_hits);
	return false;
}

bool find_runtime(struct opening *o, const struct py_options *opt)
{
	if (opt->only_runtime)
		return attempt_runtime(o, opt->only_runtime, "hint") || attempt_interp(o, opt->only_runtime, "hint");
	if (opt->hint_runtime && (attempt_runtime(o, opt->hint_runtime, "hint") || attempt_interp(o, opt->hint_runtime, "hint")))
		return true;
	addr_t hint = image_facts(o->img)->hint_runtime;
	if (hint && hint != opt->hint_runtime && (attempt_runtime(o, hint, "hint") || attempt_interp(o, hint, "hint")))
		return true;
	return attempt_names(o) || search_memory(o);
}

int find_salvage(struct opening *o, const struct py_options *opt, char *why, size_t room)
{
	struct known_version known;
	size_t n = 0, which;

	*why = 0;
	if (!image_facts(o->img)->n_lost)
		return ERR_ABSENT;
	if (!o->known.exact && !o->known.forced && o->said.exact)
		o->known = o->said;
	if (!o->known.forced && version_from_text(o->img, &o->known))
		o->sign = true;
	known = opt->layout_text.s ? (struct known_version){ 0 } : o->known;
	CLEANUP(cleanup_free) struct salvage_try *tries = xcalloc(o->n_tries + 1, sizeof *tries);
	for (size_t i = 0; i < o->n_tries; i++)
		if (try_ready(&o->tries[i]))
			tries[n++] = (struct salvage_try){ o->tries[i].layout, o->tries[i].config };
	struct py py;
	int rc = py_salvage(&o->base, tries, n, &known, o->arena, &py, &which, why, room);
	if (rc == 0)
		(void)accept(o, &py, tries[which].config, "salvage");
	else
		note(o, WAY_SALVAGE, "%s", why);
	return rc;
}

/* --- more than one --- */

enum { INTERPRETER_SIZE = 1536 << 10 }; /* the smallest build of any version is larger */

/* Other files would have to be read for it, and of a snapshot that costs. */
static bool may_be_python(const struct module *m)
{
	struct str base = str_base((struct str){ (const char *)m->path.p, m->path.len });

	return m->exe || str_starts(base, "libpython") || m->end - m->start >= INTERPRETER_SIZE;
}

void find_others(struct opening *o)
{
	struct py *found = o->found, **next = &found->other;
	const struct module *list, *own = o->mods ? modules_at(o->mods, found->runtime ? found->runtime : found->types.type) : NULL;
	size_t n = o->mods && own ? modules_list(o->mods, &list) : 0;
	addr_t at;

	bool first = true;
	for (size_t i = 0; i < n; i++) {
		if (&list[i] == own || !may_be_python(&list[i]))
			continue;
		image_watch_pause(o->img, true);
		const bool runtime = modules_symbol_of(o->mods, &list[i], "_PyRuntime", &at) == 0;
		const bool there = runtime || modules_symbol_of(o->mods, &list[i], "PyInterpreterState_Head", &at) == 0;
		image_watch_pause(o->img, false);
		if (!there)
			continue;
		if (first)
			tries_of_all(o);
		first = false;
		o->found = NULL;
		o->damaged.py = NULL;
		const bool is = runtime ? attempt_runtime(o, at, "dynamic") : attempt_code_at(o, at);
		if (!is || o->found->interp_head == found->interp_head)
			continue;
		*next = o->found;
		next = &o->found->other;
	}
	o->found = found;
}
