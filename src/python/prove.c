/*
 * Is this layout the one of this process?  Each check follows pointers that only the right offsets make agree; nothing
 * here needs an ELF file, a symbol or text in .rodata.
 */
#include "python/prove.h"

#include <stdlib.h>
#include <string.h>

#include "python/object.h"
#include "python/version.h"

enum { LOOK_INTERPS = 64, LOOK_THREADS = 64, LOOK_SHIMS = 64 /* healthy ones have one, and 3.15 its base frame */ };

static int refuse(struct proof *p, int stage, const char *fmt, ...) PRINTF(3, 4);
static int refuse(struct proof *p, int stage, const char *fmt, ...)
{
	va_list ap;

	p->stage = stage;
	va_start(ap, fmt);
	vsnprintf(p->why, sizeof p->why, fmt, ap);
	va_end(ap);
	return ERR_CORRUPT;
}

void version_format(uint32_t version, char *ret, size_t room)
{
	unsigned level = version >> 4 & 15, serial = version & 15;
	const char *word = level == 0xa ? "a" : level == 0xb ? "b" : level == 0xc ? "rc" : "";

	if (*word)
		snprintf(ret, room, "%u.%u.%u%s%u", version >> 24, version >> 16 & 255, version >> 8 & 255, word, serial);
	else
		snprintf(ret, room, "%u.%u.%u", version >> 24, version >> 16 & 255, version >> 8 & 255);
}

uint32_t version_parse(const char *text)
{
	unsigned part[3] = { 0 };
	int n = 0;

	for (; n < 3; n++) {
		if (*text < '0' || *text > '9')
			break;
		while (*text >= '0' && *text <= '9' && part[n] < 1000)
			part[n] = part[n] * 10 + (unsigned)(*text++ - '0');
		if (*text != '.') {
			n++;
			break;
		}
		text++;
	}
	if (n < 2 || part[0] < 2 || part[0] > 3 || part[1] > 255 || part[2] > 255)
		return 0;
	uint32_t level = 0xf, serial = 0;
	if (*text == 'a' || *text == 'b' || *text == 'r') {
		level = *text == 'a' ? 0xa : *text == 'b' ? 0xb : 0xc;
		text += *text == 'r' && text[1] == 'c' ? 2 : 1;
		serial = (uint32_t)strtoul(text, NULL, 10) & 15;
	}
	return part[0] << 24 | part[1] << 16 | part[2] << 8 | level << 4 | serial;
}

bool py_is_lost(const struct py *py, addr_t addr)
{
	return image_is_lost(py->img, addr, 1);
}

uint8_t py_phase(const struct py *py, addr_t interp)
{
	addr_t at;
	bool known = false;

	/* Both are set early in Py_FinalizeEx and stay until the interpreter is gone (Python/pylifecycle.c). */
	if (py->runtime && READ(py, py->runtime, PyRuntime, finalizing, &at) == 0) {
		if (at)
			return PHASE_ENDING;
		known = true;
	}
	if (READ(py, interp, PyInterp, finalizing, &at) == 0) {
		if (at)
			return PHASE_ENDING;
		known = true;
	}
	return known ? PHASE_STARTING : PHASE_EITHER;
}

/* Threads of one interpreter: each points back to it, and its neighbours to each other. Their number through *n. */
static int prove_threads(const struct py *py, addr_t interp, unsigned *n, struct proof *ret)
{
	addr_t thread, before = 0;
	unsigned looked = 0;

	if (READ(py, interp, PyInterp, tstate_head, &thread) < 0)
		return refuse(ret, PROOF_INTERP, "no interpreter at 0x%llx", (unsigned long long)interp);
	for (; thread && looked < LOOK_THREADS; looked++) {
		addr_t back, prev, next;
		if (READ(py, thread, PyThread, interp, &back) < 0 || READ(py, thread, PyThread, next, &next) < 0) {
			ret->fault = py_is_lost(py, thread);
			return refuse(ret, looked ? PROOF_THREAD : PROOF_INTERP, "thread 0x%llx %s", (unsigned long long)thread,
				      ret->fault ? "is not in the capture" : "cannot be read");
		}
		if (back != interp)
			return refuse(ret, looked ? PROOF_THREAD : PROOF_INTERP, "thread 0x%llx points to another interpreter",
				      (unsigned long long)thread);
		/* A list that broke off later is a damaged process, not another layout. */
		if (HAS(py, PyThread, prev) && READ(py, thread, PyThread, prev, &prev) == 0 && prev != before) {
			if (looked < 2)
				return refuse(ret, PROOF_THREAD, "thread 0x%llx is not linked both ways", (unsigned long long)thread);
			break;
		}
		before = thread;
		thread = next;
		if (thread == before) {
			looked++;
			break;
		}
	}
	*n += looked;
	return 0;
}

static int prove_interps(const struct py *py, struct proof *ret)
{
	addr_t interp = py->interp_head;
	unsigned threads = 0;

	if (!interp)
		return refuse(ret, PROOF_NOTHING, "no interpreter");
	for (unsigned i = 0; interp && i < LOOK_INTERPS; i++) {
		addr_t next;
		int rc = prove_threads(py, interp, &threads, ret);
		if (rc < 0 && !threads)
			return rc;
		if (rc < 0 || READ(py, interp, PyInterp, next, &next) < 0 || next == interp)
			break;
		interp = next;
	}
	if (!threads) {
		addr_t runtime;
		if (READ(py, py->interp_head, PyInterp, runtime, &runtime) < 0 || runtime == py->runtime)
			ret->half = "thread";
		return refuse(ret, PROOF_INTERP, "interpreter 0x%llx has no thread", (unsigned long long)py->interp_head);
	}
	return 0;
}

static bool same_minor(uint32_t a, uint32_t b)
{
	return a >> 16 == b >> 16;
}

/* sys.hexversion of the interpreter; 0 if it cannot be had. */
static uint32_t sys_hexversion(const struct py *py, addr_t interp)
{
	addr_t sysdict, value;
	struct object o;
	int64_t version;

	if (READ(py, interp, PyInterp, sysdict, &sysdict) < 0 || dict_get(py, sysdict, "hexversion", &value) < 0 ||
	    object_at(py, value, &o) < 0 || object_int(&o, &version) < 0 || version <= 0 || version > UINT32_MAX)
		return 0;
	return (uint32_t)version;
}

/*
 * What a Python program can set (sys.hexversion) is the weakest witness: it counts where nothing else of this very Python says its version.
 * *sure: the process says that the version is the layout's; *lied: sys says another, and the user, or its files, know better.
 */
static int prove_version(struct py *py, addr_t interp, const struct known_version *known, bool any_minor, bool *sure, bool *lied,
			 struct proof *ret)
{
	const uint32_t sys = sys_hexversion(py, interp);
	uint32_t version = sys;
	bool exact = sys != 0;
	struct known_version own = { 0 };
	const bool is_own = !known->forced && version_from_own(py, &own);
	const bool agrees = sys && same_minor(sys, py->layout.version); /* before anything overrules it */

	/* sys is cleared late in Py_Finalize; and a user may know better. */
	if (is_own) {
		version = own.version;
		exact = true;
	} else if (known->version && (!version || (known->forced && (known->exact || !same_minor(version, known->version))))) {
		version = known->version;
		exact = known->exact;
	}
	if (!version)
		return refuse(ret, PROOF_VERSION, "sys has no hexversion");
	char text[32];
	if (exact)
		version_format(version, text, sizeof text);
	else
		snprintf(text, sizeof text, "%u.%u", version >> 24, version >> 16 & 255);
	if ((version >> 24 != 2 && version >> 24 != 3) || (version >> 16 & 255) > 99)
		return refuse(ret, PROOF_VERSION, "sys.hexversion 0x%x is no version", version);
	if (!any_minor && !same_minor(version, py->layout.version)) {
		ret->version = exact ? version : 0;
		return sys == version ? refuse(ret, PROOF_VERSION, "sys.hexversion says %s", text) :
		       is_own	      ? refuse(ret, PROOF_VERSION, "by %s this is %s", own.by, text) :
		       sys	      ? refuse(ret, PROOF_VERSION, "sys.hexversion says another, and this seems to be %s", text) :
					refuse(ret, PROOF_VERSION, "sys has no hexversion, and this seems to be %s", text);
	}
	*sure = py->version_sure = is_own ? sys && same_minor(version, py->layout.version) : agrees;
	*lied = known->forced && sys && !agrees;
	py->version_denied[0] = 0;
	py->version_by = NULL;
	if (*lied || (is_own && sys && sys != version)) {
		version_format(sys, py->version_denied, sizeof py->version_denied);
		py->version_by = is_own ? own.by : known->by;
	}
	py->version = version;
	py->version_exact = exact;
	snprintf(py->version_text, sizeof py->version_text, "%s", text);
	return 0;
}

/* Does any thread seem to run Python? */
static bool any_frame(const struct py *py)
{
	struct walk interps = py_interps(py);
	struct py_interp in;

	for (unsigned i = 0; i < LOOK_INTERPS && py_next_interp(&interps, &in) == 1; i++) {
		struct walk threads = py_threads(py, &in);
		struct py_thread t;
		for (unsigned k = 0; k < LOOK_THREADS && py_next_thread(&threads, &t) == 1; k++) {
			struct walk frames = py_frames(py, t.frame);
			struct py_frame f;
			int rc;
			while ((rc = py_next_frame(&frames, &f)) == 1 && f.shim && frames.n < LOOK_SHIMS)
				;
			if (rc)
				return true;
		}
	}
	return false;
}

/* The innermost frames of the first threads lead to code objects.  sure: but for that, the layout is proved. */
static int prove_frames(const struct py *py, bool sure, bool lied, bool any_minor, struct proof *ret)
{
	struct walk interps = py_interps(py);
	struct py_interp in;
	unsigned good = 0, bad = 0;
	addr_t bad_frame = 0;

	if (!py->types.code) { /* else any object would pass for a frame's code */
		ret->damaged = !any_minor && !any_frame(py);
		return refuse(ret, PROOF_FRAME, "no type code: importlib is not readable and no frame shows it");
	}

	for (unsigned i = 0; i < LOOK_INTERPS && py_next_interp(&interps, &in) == 1; i++) {
		struct walk threads = py_threads(py, &in);
		struct py_thread t;
		for (unsigned k = 0; k < LOOK_THREADS && py_next_thread(&threads, &t) == 1; k++) {
			struct walk frames = py_frames(py, t.frame);
			struct py_frame f;
			int rc = 1;
			for (unsigned j = 0; j < 8 && (rc = py_next_frame(&frames, &f)) == 1; j++)
				good += f.code && !f.shim;
			if (rc < 0 && !frames.n) {
				bad_frame = t.frame;
				bad++;
			}
		}
	}
	ret->damaged = bad && !good && sure;
	if (bad && !good)
		return refuse(ret, PROOF_FRAME, "frame 0x%llx has no code object", (unsigned long long)bad_frame);
	if (lied && !good) /* neighbouring versions differ in little else */
		return refuse(ret, PROOF_FRAME, "sys.hexversion says another version, and no frame speaks for this one");
	return 0;
}

/* A file's first line is 1; co_qualname ends with co_name, which has no dot (Python/compile.c, compiler_set_qualname); text has no control characters. */
static bool code_is_sane(const struct py *py, addr_t code, struct arena *a)
{
	enum { LINES_MAX = 10000000 };
	struct py_code c;
	const struct str *const text[] = { &c.name, &c.file, &c.qualname };

	if (py_code_read(py, code, a, &c) < 0 || !c.name.len || !c.file.len || str_eq(c.name, c.file) || memchr(c.name.s, '.', c.name.len) || c.firstlineno < 0 || c.firstlineno > LINES_MAX)
		return false;
	for (size_t i = 0; i < sizeof text / sizeof *text; i++)
		for (size_t k = 0; k < text[i]->len; k++)
			if ((unsigned char)text[i]->s[k] < ' ')
				return false;
	if (c.qualname.s && (c.qualname.len < c.name.len || memcmp(c.qualname.s + c.qualname.len - c.name.len, c.name.s, c.name.len) != 0))
		return false;
	return !str_is(c.name, "<module>") || c.firstlineno <= 1;
}

bool py_codes_are_sane(const struct py *py)
{
	enum { LOOK_CODES = 64, LOOK_FRAMES = 8 };
	CLEANUP(cleanup_arena) struct arena *a = arena_new();
	struct walk interps = py_interps(py);
	struct py_interp in;
	unsigned sane = 0, looked = 0;

	for (unsigned i = 0; i < LOOK_INTERPS && py_next_interp(&interps, &in) == 1; i++) {
		struct walk threads = py_threads(py, &in);
		struct py_thread t;
		for (unsigned k = 0; k < LOOK_THREADS && looked < LOOK_CODES && py_next_thread(&threads, &t) == 1; k++) {
			struct walk frames = py_frames(py, t.frame);
			struct py_frame f;
			struct position where;
			for (unsigned j = 0; j < LOOK_FRAMES && py_next_frame(&frames, &f) == 1; j++) {
				if (f.shim || !f.code)
					continue;
				looked++;
				sane += code_is_sane(py, f.code, a) && (f.lasti == -1 || py_code_position(py, f.code, f.lasti, &where) == 0);
			}
		}
	}
	return 2 * sane >= looked;
}

static int prove(struct py *py, const struct known_version *known, bool any_minor, uint64_t *left, struct proof *ret)
{
	bool sure = false, lied = false;

	*ret = (struct proof){ 0 };
	int rc = prove_interps(py, ret);
	if (rc < 0) {
		if (ret->half)
			ret->phase = py_phase(py, py->interp_head);
		return rc;
	}
	/*
	 * The newest interpreter may be half made or half gone (3.12: subinterpreters), and tells of fewer types the more it lacks: of those
	 * whose dictionaries agree the first that has importlib's functions, else one with the type of code, else whichever.
	 */
	addr_t interp = py->interp_head, kept = 0;
	bool kept_code = false;
	for (unsigned i = 0; i < LOOK_INTERPS && interp; i++) {
		struct proof here = { .stage = PROOF_TYPE };
		rc = types_find(py, interp, left, &here);
		if (rc == 0)
			rc = prove_version(py, interp, known, any_minor, &sure, &lied, &here);
		if (rc == 0 && py->types.function && py->types.code) {
			kept = 0;
			break;
		}
		if (rc == 0 && (!kept || (!kept_code && py->types.code))) {
			kept = interp;
			kept_code = py->types.code;
		} else if (rc < 0 && here.stage > ret->stage) {
			if (here.half)
				here.phase = py_phase(py, interp);
			*ret = here;
		}
		addr_t next;
		if (READ(py, interp, PyInterp, next, &next) < 0 || next == interp)
			break;
		interp = next;
	}
	if (kept) {
		struct proof here = { .stage = PROOF_TYPE };
		rc = types_find(py, kept, left, &here);
		if (rc == 0)
			rc = prove_version(py, kept, known, any_minor, &sure, &lied, &here);
	}
	if (rc < 0)
		return rc;
	*ret = (struct proof){ 0 }; /* what another interpreter lacks is no fault of the layout */
	rc = prove_frames(py, sure && !any_minor, lied, any_minor, ret);
	if (rc == 0)
		ret->stage = PROOF_DONE;
	return rc;
}

int py_prove(struct py *py, const struct known_version *known, bool any_minor, uint64_t *left, struct proof *ret)
{
	const uint64_t before = image_lost_reads(py->img);
	int rc = prove(py, known, any_minor, left, ret);

	ret->lost = rc < 0 && image_lost_reads(py->img) != before;
	return rc;
}
