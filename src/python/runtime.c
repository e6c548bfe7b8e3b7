/*
 * Opening a Python in an image: which version it may be, which layouts are tried on what find.c finds.  That a layout fits is
 * for prove.c to say; nothing is believed before.
 */
#include "python/py.h"

#include <stdlib.h>
#include <string.h>

#include "python/object.h"
#include "python/opening.h"
#include "python/version.h"

static struct try *add_try(struct opening *o, uint32_t version, const char *config)
{
	if (o->n_tries == TRIES_MAX)
		return NULL;
	struct try *t = &o->tries[o->n_tries++];
	t->version = version;
	t->config = config;
	return t;
}

bool try_ready(struct try *t)
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

bool config_has(const char *config, char flag)
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

void tries_of_all(struct opening *o)
{
	static const struct py_options none;

	memset(o->tries, 0, TRIES_MAX * sizeof *o->tries);
	o->n_tries = 0;
	o->only = 0;
	o->known = (struct known_version){ 0 };
	add_builtin_tries(o, &none);
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
	if (p->stage > o->last.stage || !o->last.why[0])
		o->last = *p;
}

/* sys may be gone already (Py_Finalize clears it last) while the text that sys.version was made from is there. */
static void complete_version(struct py *py)
{
	char text[32];
	uint32_t version;

	if (py->version_exact || search_version_text(py->img, 0, UINT64_MAX, text, sizeof text) < 0)
		return;
	version = version_parse(text);
	if (version >> 16 != py->version >> 16)
		return;
	py->version = version;
	py->version_exact = true;
	snprintf(py->version_text, sizeof py->version_text, "%s", text);
}

/*
 * Is it the function of C that sys has of that name?  A program can put anything there, but no PyCFunction: that has a PyMethodDef, and there
 * its name.  What cannot be read speaks neither for it nor against it.
 */
static bool is_of_c(const struct py *py, addr_t function, const char *name)
{
	const struct module *own = py->mods ? modules_at(py->mods, py->types.type) : NULL;
	char text[24];
	addr_t type, def, at;

	if (READ(py, function, PyObject, ob_type, &type) < 0 || image_read_ptr(py->img, type, &at) < 0)
		return true;
	if (type == py->types.function || type == py->types.none_type || type == py->types.int_ || type == py->types.str || type == py->types.type ||
	    (own && (type < own->start || type >= own->end)))
		return false;
	if (READ(py, function, PyCFunction, m_ml, &def) < 0 || READ(py, def, PyMethodDef, ml_name, &at) < 0)
		return true;
	if (own && (def < own->start || def >= own->end))
		return false;
	const size_t n = image_read_some(py->img, at, text, strlen(name) + 1);
	return !n || *text < ' ' || *text > '~' /* no name at all: not what was there */ || !memcmp(text, name, n);
}

/*
 * sys has gettotalrefcount() in builds --with-pydebug, of every version.  Their structs need not differ in what a proof follows.
 * Where a program has taken it away, the name of its file tells.
 */
static bool is_debug_build(const struct py *py, bool *known)
{
	addr_t sysdict, value;

	*known = READ(py, py->interp_head, PyInterp, sysdict, &sysdict) == 0;
	if (*known && dict_get(py, sysdict, "gettotalrefcount", &value) == 0)
		return is_of_c(py, value, "gettotalrefcount");
	*known = *known && (dict_get(py, sysdict, "hexversion", &value) == 0 || dict_get(py, sysdict, "version", &value) == 0);
	return *known && version_names_debug(py);
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

bool accept(struct opening *o, const struct py *py, const char *config, const char *found_by)
{
	addr_t symbol, importlib;

	o->found = arena_dup(o->arena, py, sizeof *py);
	complete_version(o->found);
	complete_wide_unit(o->found);
	py_index_idents(o->found, o->arena);
	if (o->mods && !HAS(o->found, PyRuntime, interp_head)) {
		/* Of two Pythons in a process each has its own; `type` is in the data of the one that is at hand. */
		const struct module *own = modules_at(o->mods, py->types.type);
		if (own ? modules_symbol_of(o->mods, own, "_PyThreadState_Current", &symbol) == 0
			: modules_symbol(o->mods, "_PyThreadState_Current", &symbol, NULL, NULL) == 0)
			o->found->tstate_current = symbol;
	}
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

bool accept_damaged(struct opening *o)
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

/*
 * An address that was given may lie beside the runtime: interpreters.main follows interpreters.head and mostly says the same
 * (Include/internal/pycore_runtime.h).  At the right one it is an interpreter of the list.
 */
static bool main_is_listed(const struct py *py)
{
	struct walk w = py_interps(py);
	struct py_interp in;
	addr_t main;
	int rc;

	if (!py->runtime || READ(py, py->runtime, PyRuntime, interp_main, &main) < 0)
		return true;
	while ((rc = py_next_interp(&w, &in)) == 1)
		if (in.addr == main)
			return true;
	return rc < 0;
}

bool attempt(struct opening *o, struct try *t, addr_t runtime, addr_t interp, const char *found_by)
{
	struct py py = o->base;
	struct proof p = { 0 };

	if (!try_ready(t) || (!t->given && o->says_build && config_has(t->config, 't') != o->free_threaded))
		return false;
	py.layout = t->layout;
	py.runtime = runtime;
	py.interp_head = interp;
	const uint64_t lost = image_lost_reads(o->img);
	if (runtime && (READ(&py, runtime, PyRuntime, interp_head, &py.interp_head) < 0 || !py.interp_head)) {
		p.lost = image_lost_reads(o->img) != lost;
		snprintf(p.why, sizeof p.why, p.lost ? "_PyRuntime at 0x%llx is cut off" : "_PyRuntime at 0x%llx has no interpreter", (unsigned long long)runtime);
		remember(o, &t->best, &p);
		return false;
	}
	int rc = py_prove(&py, &o->known, t->given, &o->types_left, &p);
	if ((rc == 0 || p.damaged) && strcmp(found_by, "hint") == 0 && !main_is_listed(&py)) {
		p.stage = PROOF_INTERP;
		snprintf(p.why, sizeof p.why, "the main interpreter that _PyRuntime at 0x%llx names is not in its list", (unsigned long long)runtime);
		p.damaged = false;
		rc = ERR_CORRUPT;
	}
	if ((rc == 0 || p.damaged) && !t->given && other_build(&py, t->config)) {
		p.stage = PROOF_VERSION;
		snprintf(p.why, sizeof p.why, config_has(t->config, 'd') ? "this is no debug build" : "this is a debug build");
		p.damaged = false;
		rc = ERR_CORRUPT;
	}
	if ((rc == 0 || p.damaged) && !t->given && !in_force(&py, t->config)) {
		p.stage = PROOF_VERSION;
		p.version = py.version;
		snprintf(p.why, sizeof p.why, py.version_by ? "this is Python %s" : "sys.hexversion says %s", py.version_text);
		p.damaged = false;
		rc = ERR_CORRUPT;
	}
	if (rc < 0) {
		if (p.damaged)
			keep_damaged(o, &py, t->config, found_by);
		/* A near miss tells the version that the message names. */
		if (p.version) {
			o->said = (struct known_version){ .version = p.version, .exact = true };
			version_format(p.version, o->said.text, sizeof o->said.text);
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

static void self_config(struct image *img, char *ret, size_t room, bool debug, bool free_threaded)
{
	snprintf(ret, room, "%s%s%s", abi_name(image_abi(img)), debug ? "-d" : "", free_threaded ? "-t" : "");
}

/* Is there a table that its own offsets agree with? */
static bool self_agrees(struct image *img, addr_t runtime, uint32_t version, bool free_threaded)
{
	for (unsigned debug = 0; debug < 2; debug++) {
		char config[24];
		struct layout l;
		bool older;
		unsigned differ;
		self_config(img, config, sizeof config, debug, free_threaded);
		if (table_for_self(&l, version, config, &older) && (older || (layout_from_self(img, runtime, &l, &differ) >= 0 && !differ)))
			return true;
	}
	return false;
}

/*
 * 3.13 on: _PyRuntime begins with _Py_DebugOffsets.  The process's own offsets overrule the table; where they cannot be
 * (damaged, or of a shape that no table knows), the table alone is tried.
 */
bool attempt_self(struct opening *o, addr_t runtime, const char *found_by)
{
	uint32_t version;
	bool free_threaded;

	if (o->n_tries && o->tries[0].given) /* --layout overrules */
		return false;
	if (layout_self_version(o->img, runtime, &version, &free_threaded) < 0)
		return false;
	o->sign = o->says_build = true;
	o->free_threaded = free_threaded;
	/* Of this candidate: another Python of the process may be of another version. */
	struct known_version self = { .version = version, .exact = true, .forced = o->known.forced };
	version_format(version, self.text, sizeof self.text);
	o->said = self;
	if (o->only && o->only >> 16 != version >> 16) {
		snprintf(o->last.why, sizeof o->last.why, "this is Python %s", self.text);
		return false;
	}
	/*
	 * Where they differ from the table of this very version in a few words, one that was damaged is likelier than a build of another make:
	 * then the table goes first.  Of what is proved, that by which frames have names and lines that can be right.
	 */
	enum { FEW = 4, BY_FEW = 0, BY_OWN = 2, BY_TABLE = 4, WAYS = 6 };
	struct py doubtful = { 0 };
	char doubtful_config[24] = "";
	for (size_t i = self_agrees(o->img, runtime, version, free_threaded) ? BY_OWN : BY_FEW; i < WAYS; i++) {
		char config[24];
		struct py py = o->base;
		struct proof p = { 0 };
		const bool own = i >= BY_OWN && i < BY_TABLE;
		self_config(o->img, config, sizeof config, i % 2, free_threaded);
		if (!table_for_self(&py.layout, version, config, &py.table_older))
			continue;
		if (i < BY_TABLE) {
			struct layout l = py.layout;
			int taken = layout_from_self(o->img, runtime, &l, &py.self_differ);
			if (taken < 0 || (!own && (py.table_older || py.self_differ > FEW)))
				continue;
			py.self_taken = (unsigned)taken;
			py.self_outvoted = !own;
			if (own)
				py.layout = l;
		}
		py.self_refused = i >= BY_TABLE;
		py.runtime = runtime;
		if (READ(&py, runtime, PyRuntime, interp_head, &py.interp_head) < 0 || !py.interp_head) {
			snprintf(p.why, sizeof p.why, "_PyRuntime at 0x%llx has no interpreter", (unsigned long long)runtime);
		} else if (py_prove(&py, &self, py.table_older, &o->types_left, &p) == 0 && !other_build(&py, config)) {
			if ((own && !py.self_differ && !py.table_older) || py_codes_are_sane(&py))
				return accept(o, &py, config, found_by);
			if (!doubtful_config[0]) {
				doubtful = py;
				snprintf(doubtful_config, sizeof doubtful_config, "%s", config);
			}
		} else if (p.damaged && !other_build(&py, config)) {
			keep_damaged(o, &py, config, found_by);
		}
		if (!o->self_name[0] || p.stage > o->self.stage)
			snprintf(o->self_name, sizeof o->self_name, "%s%s", py.layout.name, own ? " and its own offsets" : "");
		remember(o, &o->self, &p);
	}
	doubtful.self_doubtful = true;
	return doubtful_config[0] && accept(o, &doubtful, doubtful_config, found_by);
}

bool attempt_runtime(struct opening *o, addr_t runtime, const char *found_by)
{
	o->last = (struct proof){ 0 };
	o->says_build = false;
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

/* 2.7 to 3.6, which have no runtime. */
bool attempt_interp(struct opening *o, addr_t interp, const char *found_by)
{
	o->last = (struct proof){ 0 };
	o->says_build = false;
	if (!interp || interp % o->width)
		return false;
	for (size_t i = 0; i < o->n_tries; i++)
		if (try_ready(&o->tries[i]) && !layout_has(&o->tries[i].layout, F_PyRuntime_interp_head) &&
		    attempt(o, &o->tries[i], 0, interp, found_by))
			return true;
	return accept_damaged(o);
}

/* Was there a candidate that only its own word on its version speaks against?  All of them can be tried again then. */
static bool said_another(struct opening *o)
{
	bool any = false;

	for (size_t i = 0; i < o->n_tries; i++) {
		any |= o->tries[i].best.stage >= PROOF_VERSION;
		o->tries[i].n_refused = 0;
	}
	o->proofs = o->runtime_searches = 0;
	o->steps = o->n_hits = o->cookies = 0;
	return any;
}

/* Where no layout fits, an option that says which one to take is what to do without. */
static int hint_options(const struct py_options *opt, struct err *err)
{
	if (opt->layout_text.s)
		return err_hint(err, opt->python_version ? "without --layout and --python-version" : "without --layout");
	return opt->python_version ? err_hint(err, "without --python-version") : err->code;
}

/* A user's word went before the image's, and with this layout sys cannot be read: what else of the image speaks against it? */
static void deny_version(struct py *py, struct known_version *outside)
{
	(void)version_from_text(py->img, outside);
	py->version_by = NULL;
	if (py->version_sure || py->version_denied[0] || !outside->version || outside->version >> 16 == py->layout.version >> 16)
		return;
	if (outside->text[0])
		snprintf(py->version_denied, sizeof py->version_denied, "%s", outside->text);
	else
		snprintf(py->version_denied, sizeof py->version_denied, "%u.%u", outside->version >> 24, outside->version >> 16 & 255);
}

/* There is none at the address that was named: where there are some.  Whatever was looked at there is said only where it is like one. */
static int none_there(const struct opening *o, const struct py_options *opt, struct err *err)
{
	enum { NAMED = 4 };
	struct py_options all = *opt;
	struct py *py = NULL;
	CLEANUP(cleanup_sb) struct sb b = { 0 };
	const struct proof *best = &o->self;
	size_t n = 0;

	for (size_t i = 0; i < o->n_tries; i++)
		if (o->tries[i].best.stage > best->stage)
			best = &o->tries[i].best;
	all.only_runtime = 0;
	all.version_seen = all.asked_for = NULL;
	if (py_open(o->img, o->mods, &all, o->arena, &py, NULL) < 0)
		py = NULL;
	const bool salvaged = py && py->salvaged; /* there is no runtime whose address could be named */
	for (; py && !salvaged && n < NAMED; py = py->other, n++)
		sb_printf(&b, "%s0x%llx (Python %s)", n ? ", " : "", (unsigned long long)(py->runtime ? py->runtime : py->interp_head), py->version_text);
	err_set(err, ERR_NOPYTHON, "no Python%s is at 0x%llx", best->stage > PROOF_NOTHING ? " that can be read" : "", (unsigned long long)opt->only_runtime);
	if (salvaged)
		err_why(err, "without it thread states of Python %s are found", py->version_text);
	else if (n)
		err_why(err, "those found: %.*s%s", (int)b.len, b.s, py ? " and more" : "");
	else
		err_why(err, "none is found elsewhere either");
	if (best->why[0])
		err_detail(err, "0x%llx: %s", (unsigned long long)opt->only_runtime, best->why);
	return err_hint(err, "without --runtime");
}

int py_open(struct image *img, struct modules *mods, const struct py_options *opt, struct arena *a, struct py **ret, struct err *err)
{
	static const struct py_options none;
	struct opening o = { .img = img, .mods = mods, .arena = a, .types_left = TYPES_LOOKED };

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
	struct known_version outside = o.known;
	if (opt->layout_text.s) {
		int rc = add_given_tries(&o, opt->layout_text, err);
		if (rc < 0)
			return hint_options(opt, err);
	} else {
		o.only = opt->python_version;
		add_builtin_tries(&o, opt);
	}
	if (opt->python_version) { /* of several Pythons the one that says so itself */
		o.known = (struct known_version){ .version = opt->python_version, .exact = opt->python_version & 0xffff };
		if (o.known.exact)
			version_format(opt->python_version, o.known.text, sizeof o.known.text);
		else
			snprintf(o.known.text, sizeof o.known.text, "%u.%u", opt->python_version >> 24, opt->python_version >> 16 & 255);
	}
	if (opt->only_runtime && !opt->python_version && !opt->layout_text.s) /* whichever it is of several */
		tries_of_all(&o);
	bool found = find_runtime(&o, opt);
	if (!found && opt->only_runtime)
		return none_there(&o, opt, err);
	if (!found && opt->python_version && said_another(&o)) { /* else whatever it says */
		o.known.forced = true;
		found = find_runtime(&o, opt);
	}
	/* Whatever sys says: its files' names, where nothing better is to be had. */
	if (!found && !opt->python_version && !opt->layout_text.s && !opt->only_runtime && outside.version && said_another(&o)) {
		o.known = outside;
		o.known.forced = true;
		o.known.by = outside.exact ? "Py_Version" : "its files' names";
		found = find_runtime(&o, opt);
		if (!found)
			o.known = outside;
	}
	if (!found) {
		char why[160];
		int rc = find_salvage(&o, opt, why, sizeof why);
		if (rc == ERR_CORRUPT) {
			err_set(err, ERR_NOPYTHON, "found no Python whose layout is sure");
			err_why(err, "its runtime is cut off, and %s, so none is shown", why);
			return err_hint(err, "--python-version X.Y chooses");
		}
		if (rc < 0) {
			if (opt->python_version && outside.version) /* what it is, not what was asked for */
				o.known = outside;
			else if (opt->python_version)
				o.known.text[0] = 0;
			rc = failure_say(&o, opt, err);
			return rc == ERR_UNSUPPORTED ? hint_options(opt, err) : rc;
		}
	}
	if (opt->python_version || opt->layout_text.s)
		deny_version(o.found, &outside);
	find_others(&o);
	*ret = o.found;
	return 0;
}
