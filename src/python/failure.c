/* Why no Python was found, or no layout fits the one that is there: what was tried, what became of it, what would help. */
#include <string.h>

#include "python/opening.h"
#include "python/version.h"

/* A version that there is a table for, or none that is known, and under it no candidate has an interpreter at all, be it release or debug build. */
static bool no_interpreter(const struct opening *o)
{
	unsigned known[2] = { 0 }, some[2] = { 0 }, none = 0, garbage = 0;

	for (size_t i = 0; i < o->n_tries; i++) {
		bool debug = config_has(o->tries[i].config, 'd');
		/* Of a version that is not known most have to say so: under others' tables it is some other word of the runtime. */
		if (!o->known.version && o->tries[i].best.stage < PROOF_THREAD) {
			none += o->tries[i].best.stage == PROOF_NOTHING && o->tries[i].best.why[0]; /* it was tried */
			garbage += o->tries[i].best.stage != PROOF_NOTHING;
			continue;
		}
		if (o->known.version && o->tries[i].version >> 16 != o->known.version >> 16)
			continue;
		if (o->tries[i].best.stage >= PROOF_THREAD)
			return false;
		known[debug]++;
		some[debug] += o->tries[i].best.stage > PROOF_NOTHING;
	}
	if (!o->known.version)
		return o->placed && (none > garbage || !garbage) && o->self.stage == PROOF_NOTHING;
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

/* The nearest candidate of the version that this is, or seems to be, if its proof asked for memory that the file lost; NULL. */
static const struct proof *cut_off(const struct opening *o)
{
	const struct proof *best = o->self.lost ? &o->self : NULL;

	for (size_t i = 0; i < o->n_tries; i++) {
		const struct proof *p = &o->tries[i].best;
		if (p->lost && (!o->known.version || o->tries[i].version >> 16 == o->known.version >> 16) && (!best || p->stage > best->stage))
			best = p;
	}
	return best;
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

/* Each way and what became of it, a line each. */
static void ways(const struct opening *o, struct sb *ret)
{
	static const char *const name[WAY_COUNT] = { [WAY_SYMBOL] = "symbols", [WAY_SECTION] = "section .PyRuntime",
		[WAY_HEAD_CODE] = "instructions", [WAY_COOKIE] = "cookie of 3.13 and later", [WAY_SEARCH] = "thread pointers",
		[WAY_SALVAGE] = "what is left of a cut file" };

	for (size_t i = 0; i < WAY_COUNT; i++)
		if (o->tried[i][0])
			sb_printf(ret, "%s%s: %s", ret->len ? "\n" : "", name[i], o->tried[i]);
}

static int hint_whole(const struct opening *o, struct err *err)
{
	return err_hint(err, image_facts(o->img)->kind == IMAGE_SNAPSHOT ? "copy it again and compare sizes, or take it again with pysnap"
			: "a core that is not cut off: ulimit -c unlimited, and let it crash again");
}

/* All files are here, with symbols at least for others to link with, of which a Python has many; the program's own is one of them. */
static bool all_looked_at(const struct opening *o)
{
	const struct module *list, *exe = o->mods ? modules_exe(o->mods) : NULL;
	const size_t n = exe ? modules_list(o->mods, &list) : 0;

	for (size_t i = 0; i < n; i++)
		if (!list[i].vdso && (!list[i].file || list[i].symbols == SYMBOLS_NONE || list[i].symbols == SYMBOLS_MISMATCH))
			return false;
	return exe && exe->file;
}

/* The cause as it is, and what was tried for who asks. */
static int not_found(const struct opening *o, struct err *err, const char *msg, const char *why)
{
	CLEANUP(cleanup_sb) struct sb tried = { 0 };

	ways(o, &tried);
	err_set(err, ERR_NOPYTHON, "%s", msg);
	err_why(err, "%s", why);
	err_detail(err, "%.*s", (int)tried.len, tried.s ? tried.s : "");
	if (image_facts(o->img)->truncated)
		return hint_whole(o, err);
	if (image_facts(o->img)->kind == IMAGE_LIVE)
		return err_hint(err, "pgrep -af python");
	if (!o->sign && all_looked_at(o))
		return err_hint(err, "nothing lifts this, if it is no Python program, which is likely: its files are here, and have nothing of Python; "
				"else -e PROGRAM with all symbols, or --layout FILE for a Python of another make");
	return err_hint(err, "-e PROGRAM or --sysroot DIR, with the files that ran and their symbols; --layout FILE for a Python of another make");
}

/* "3.12 x86_64, 3.12 x86_64-d and 3 more: why" for the first of those that failed alike, nothing for the others. */
static void failed_alike(struct opening *o, size_t first, struct sb *ret)
{
	enum { NAMED = 2 };
	const struct proof *p = &o->tries[first].best;
	unsigned n = 0;

	for (size_t i = 0; i < o->n_tries; i++) {
		const struct proof *other = &o->tries[i].best;
		if (other->stage != p->stage || strcmp(other->why, p->why) != 0 || !try_ready(&o->tries[i]))
			continue;
		if (i < first)
			return;
		if (n++ < NAMED)
			sb_printf(ret, "%s%s", n > 1 ? ", " : "", o->tries[i].layout.name);
	}
	if (n > NAMED)
		sb_printf(ret, " and %u more", n - NAMED);
	sb_printf(ret, ": %s; ", p->why[0] ? p->why : "no runtime found");
}

/* A table is in force for the version that it says it is: then memory may be wrong as well as the table. */
static bool has_table(const struct opening *o)
{
	bool any = false;

	if (o->only || o->known.forced || !o->known.exact)
		return false;
	for (size_t i = 0; i < o->n_tries; i++) {
		if (o->tries[i].given)
			return false;
		any |= o->tries[i].version >> 16 == o->known.version >> 16 && o->tries[i].version <= o->known.version;
	}
	return any;
}

/* As what an option would have a Python that says something else of itself; a layout of the user's may have any name. */
static void say_asked(const struct opening *o, const struct py_options *opt, char *ret, size_t room)
{
	const uint32_t v = opt->python_version;

	if (opt->layout_text.s)
		snprintf(ret, room, "with the layout that --layout names");
	else if (v && (!o->known.text[0] || o->known.version >> 16 != v >> 16))
		snprintf(ret, room, "as the Python %u.%u that --python-version asks for", v >> 24, v >> 16 & 255);
	else
		ret[0] = 0;
}

int failure_say(struct opening *o, const struct py_options *opt, struct err *err)
{
	char asked[64];
	char text[160];

	/* The version for the message. */
	if (!o->known.exact && o->said.exact)
		o->known = o->said;
	if (version_from_text(o->img, &o->known))
		o->sign = true;
	if (opt->version_seen)
		snprintf(opt->version_seen, 32, "%s", o->known.text);
	say_asked(o, opt, asked, sizeof asked);
	if (opt->asked_for)
		snprintf(opt->asked_for, sizeof asked, "%s", asked);
	if (!o->sign)
		return not_found(o, err, "found no CPython", "no file that was mapped, and nothing in memory, is recognized as CPython's");
	if (no_interpreter(o)) {
		const char *version = o->known.text, *space = *version ? " " : "";
		if (image_facts(o->img)->truncated && (!o->placed || cut_off(o)))
			snprintf(text, sizeof text, "Python%s%s is mapped, but the memory that leads to its threads is cut off",
				 space, version);
		else if (o->placed)
			snprintf(text, sizeof text, "Python%s%s is mapped, but has no interpreter: this was before Py_Initialize or after Py_Finalize, "
				 "or Python's data was left out", space, version);
		else
			snprintf(text, sizeof text, "Python%s%s is mapped, but where it keeps its interpreters was not found", space, version);
		const int rc = not_found(o, err, "found no Python interpreter", text);
		if (o->placed && !image_facts(o->img)->truncated && image_facts(o->img)->kind != IMAGE_LIVE)
			return err_hint(err, "nothing lifts this, if Python was not begun or had ended; else -e PROGRAM or --sysroot DIR, with the files that ran and their symbols");
		return rc;
	}
	const struct proof *cut = not_captured(o);
	if (cut) {
		err_set(err, ERR_NOPYTHON, "found no Python interpreter that can be read");
		err_why(err, "Python %s is there, but %s", o->known.text, cut->why);
		return image_facts(o->img)->truncated ? hint_whole(o, err) : err->code;
	}
	cut = image_facts(o->img)->truncated ? cut_off(o) : NULL;
	if (cut) {
		err_set(err, ERR_NOPYTHON, "found no Python interpreter that can be read");
		err_why(err, "Python%s%s is there, but the file is cut off, and what is left does not prove it: %s", o->known.text[0] ? " " : "", o->known.text, cut->why);
		return hint_whole(o, err);
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
			if (tried.len > 200) {
				sb_printf(&tried, "...; ");
				stage = PROOF_NOTHING;
				break;
			}
			failed_alike(o, i, &tried);
		}
	}
	if (tried.len > 2)
		tried.len -= 2;
	else
		sb_printf(&tried, "no table for %s", abi_name(image_abi(o->img)));
	err_set(err, ERR_UNSUPPORTED, "no layout fits this Python%s%s%s%s (tried: %.*s)", o->known.text[0] ? " " : "", o->known.text,
		asked[0] && !opt->layout_text.s ? " " : "", opt->layout_text.s ? "" : asked, (int)tried.len, tried.s);
	if (has_table(o))
		return err_hint(err, "the file again from where it came, since its memory may be damaged; of a build of another make --layout FILE, or a newer pyanalyze");
	return err_hint(err, "--layout FILE, or a newer pyanalyze");
}

