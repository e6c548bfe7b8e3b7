/* What the input is, which process and which Python it holds, what is mapped, and what of it is missing. */
#include "inspect/parts.h"

#include <inttypes.h>
#include <string.h>

static const char *size_text(struct arena *a, uint64_t bytes)
{
	char buf[STR_SIZE];
	return str_c(a, str_of(str_size(bytes, buf)));
}

/*
 * Stacks are private memory, which bit 0 of coredump_filter keeps (core(5)).  A thread whose stack overflowed points into the pages
 * below it, which nobody has, or anywhere, where its frame was too large or the register was overwritten: so do the top of the main
 * thread's stack and what the thread pointers lead to count.
 */
static bool no_stacks(struct image *img)
{
	enum { PAGE = 4096, BELOW = 64, VDSO = 16 << 10 };
	uint64_t vdso = 0, top; /* every core has the vdso, and it lies above the stack */
	uint8_t byte;
	if (image_auxv(img, 25 /* AT_RANDOM */, &top) == 0 && image_read(img, top, &byte, 1) == 0)
		return false;
	if (image_auxv(img, 33 /* AT_SYSINFO_EHDR */, &vdso) < 0)
		vdso = 0;
	const struct thread *th;
	const size_t n = image_threads(img, &th);
	size_t asked = 0;
	for (size_t i = 0; i < n; i++) {
		if (th[i].regs.tls && !image_mapping_at(img, th[i].regs.tls) && image_read(img, th[i].regs.tls, &byte, 1) == 0)
			return false;
		for (uint64_t k = 0; th[i].regs.sp && k < BELOW; k++) {
			const addr_t at = th[i].regs.sp + k * PAGE;
			/* Beside stacks lie first pages of libraries, which are there without private memory too. */
			if ((!vdso || at - vdso >= VDSO) && (!k || !image_mapping_at(img, at)) && image_read(img, at, &byte, 1) == 0)
				return false;
		}
		asked += th[i].regs.sp != 0;
	}
	return asked > 0;
}

const char *whole_or(const struct target *t, const char *otherwise)
{
	const struct image_facts *f = image_facts(t->img);
	if (!f->truncated && !f->damage.s && otherwise)
		return otherwise;
	if (f->damage.s && f->kind == IMAGE_SNAPSHOT)
		return "copy it again from where it came, and compare checksums";
	if (f->kind == IMAGE_SNAPSHOT)
		return "copy it again and compare sizes, or take it again with pysnap";
	if (f->damage.s)
		return "copy it again and compare sizes";
	return "copy it again if it was larger; else raise ulimit -c, or ProcessSizeMax= and ExternalSizeMax= in coredump.conf, and let it crash again";
}

/* Any but the vdso, which is none? */
static bool knows_files(const struct modules *mods)
{
	const struct module *m;
	const size_t n = modules_list(mods, &m);
	for (size_t i = 0; i < n; i++)
		if (!m[i].vdso)
			return true;
	return false;
}

/* Of a file that is truncated. */
static const char *missing_text(const struct target *t, struct report *r)
{
	const struct image_facts *f = image_facts(t->img);
	size_t n = 0;

	for (size_t i = 0; i < f->n_noted; i++)
		n += f->noted[i].symbols_cut;
	if (f->size < f->described) {
		const char *missing = size_text(r->arena, f->expected - f->size), *of = size_text(r->arena, f->expected);
		/* Rounded alike they would look as if nothing was there. */
		const struct str what = strcmp(missing, of) ? str_printf(r->arena, "the last %s of %s are missing", missing, of)
			: str_printf(r->arena, "only the first %s of %s are there", size_text(r->arena, f->size), of);
		return str_c(r->arena, str_printf(r->arena, STR_FMT "; segments lost: %s", STR_ARG(what), lost_text(r)));
	}
	if (n)
		return str_c(r->arena, str_printf(r->arena, "memory is complete; behind it tables are missing that name the functions of %zu file%s", n, n == 1 ? "" : "s"));
	return "memory and all that is told of it are complete; of what follows the end is missing";
}

/* Bytes of the regions that are known to be lost. */
static const char *lost_size(const struct image_facts *f, struct report *r)
{
	uint64_t bytes = 0;
	for (size_t i = 0; i < f->n_lost; i++)
		bytes += f->lost[i].end - f->lost[i].start;
	return size_text(r->arena, bytes);
}

void input_damage(struct target *t, struct report *r)
{
	const struct image_facts *f = image_facts(t->img);
	const char *have = size_text(r->arena, f->size);
	struct str used;
	if (!f->damage.s || r->input.damage_said)
		return;
	r->input.damage_said = true;
	r->input.complete = false;
	if (f->truncated)
		used = str_printf(r->arena, "the first %s of %s were used; segments lost: %s", have, size_text(r->arena, f->expected), lost_text(r));
	else if (f->n_lost)
		used = str_printf(r->arena, "regions of memory that cannot be read: %zu (%s)", f->n_lost, lost_size(f, r));
	else
		used = str_printf(r->arena, "%s of content were used, no segment is cut", have);
	report_problem(r, P_PACKED_DAMAGED, str_c(r->arena, f->damage), str_c(r->arena, used));
}

static void input_facts(struct target *t, struct report *r)
{
	const struct image_facts *f = image_facts(t->img);
	r->input.kind = f->kind == IMAGE_SNAPSHOT ? "snapshot" : "core";
	r->input.size = f->size;
	r->input.expected = f->expected;
	r->input.file_size = f->file_size;
	if (f->compression)
		r->input.compression = str_of(f->compression);
	r->input.complete = !f->truncated && f->n_lost == 0 && !f->damage.s;
	r->input.consistent = f->consistent;
	r->input.stopped_ns = f->stopped_ns;
	r->input.tool = f->tool;
	if (f->truncated)
		lost_find(t, r);
	if (f->damage.s) {
		input_damage(t, r);
	} else if (f->truncated) {
		report_problem(r, P_TRUNCATED, missing_text(t, r), whole_or(t, NULL));
	} else if (f->n_lost) {
		report_problem(r, P_REGIONS_LOST, f->n_lost, lost_size(f, r));
	}
	if (f->kind == IMAGE_CORE && !f->truncated && no_stacks(t->img))
		report_problem(r, P_NO_STACKS);
	if (f->kind == IMAGE_SNAPSHOT && !f->consistent)
		report_problem(r, P_NOT_CONSISTENT, "pysnap could not stop every thread");
	if (f->kind == IMAGE_CORE && !f->has_file_note)
		report_problem(r, P_NO_FILE_NOTE, knows_files(t->mods) ? "programs and libraries are those in the dynamic linker's list" : "which programs and libraries is not known");
}

/* The path of the executable: what the snapshot noted, else the mapping that holds the program headers (AT_PHDR), else AT_EXECFN. */
static struct str executable(struct target *t)
{
	const struct image_facts *f = image_facts(t->img);
	uint64_t at = 0;
	if (f->exe.s)
		return f->exe;
	if (image_auxv(t->img, 3 /* AT_PHDR */, &at) == 0) {
		const struct mapping *m = image_mapping_at(t->img, at);
		if (m && m->path.len)
			return str_from_bytes(t->arena, m->path.p, m->path.len);
	}
	char buf[4097];
	int n = image_auxv(t->img, 31 /* AT_EXECFN */, &at) == 0 ? image_read_cstr(t->img, at, buf, sizeof buf - 1) : -1;
	return n > 0 ? str_from_bytes(t->arena, buf, (size_t)n) : (struct str){ 0 };
}

static void process_facts(struct target *t, struct report *r)
{
	const struct image_facts *f = image_facts(t->img);
	r->process.pid = f->pid;
	r->process.ppid = f->ppid;
	r->process.uid = f->uid;
	r->process.comm = f->comm;
	r->process.cwd = f->cwd;
	r->process.start_ns = f->start_ns;
	r->process.dump_ns = f->time_ns;
	r->process.exe = executable(t);
}

static uint64_t thread_states(const struct py *py)
{
	struct walk interps = py_interps(py);
	struct py_interp in;
	struct py_thread th;
	uint64_t n = 0;
	while (py_next_interp(&interps, &in) == 1)
		for (struct walk w = py_threads(py, &in); py_next_thread(&w, &th) == 1;)
			n++;
	return n;
}

static void python_facts(struct target *t, struct report *r)
{
	const struct py *py = t->py;
	if (!py) {
		const struct thread *threads;
		size_t n = image_threads(t->img, &threads);
		r->python.unread = t->py_err.code == ERR_UNSUPPORTED;
		if (r->python.unread && t->py_seen[0])
			r->python.version = str_from_bytes(r->arena, t->py_seen, strlen(t->py_seen));
		if (r->python.unread && t->py_asked[0])
			r->python.asked = str_of(str_c(r->arena, str_of(t->py_asked)));
		if (r->python.unread)
			report_problem(r, P_NO_LAYOUT, t->py_err.msg, t->py_err.hint[0] ? t->py_err.hint : "-v shows what was searched");
		else if (t->py_named)
			report_problem(r, P_NOT_AT, t->py_err.msg, t->py_err.why, t->py_err.hint);
		else
			report_problem(r, P_NO_PYTHON, r->input.kind, n, t->py_err.why[0] ? t->py_err.why : t->py_err.msg,
				       t->py_err.hint[0] ? t->py_err.hint : "-v shows what was searched");
		r->python.named = t->py_named;
		report_details(r, str_from_bytes(r->arena, t->py_err.detail, strlen(t->py_err.detail)));
		return;
	}
	r->python.found = true;
	r->python.version = str_dup(r->arena, str_of(py->version_text));
	r->python.hex = py->version;
	r->python.debug = py->debug_build;
	r->python.free_threaded = py->free_threaded;
	r->python.found_by = str_of(py->found_by);
	r->python.layout = str_of(py->layout.name);
	r->python.version_source = py->version_exact ? STR("process") : STR("layout");
	r->python.salvaged = py->salvaged;
	if (py->salvaged)
		report_problem(r, P_SALVAGED, py->n_salvaged, whole_or(t, NOT_THERE));
	if (py->phase != PHASE_RUNNING)
		report_problem(r, P_HALF_MADE, py->phase == PHASE_STARTING ? "is starting" : py->phase == PHASE_ENDING ? "is ending" : "is starting or ending",
			       py->phase == PHASE_STARTING ? " yet" : py->phase == PHASE_ENDING ? " any more" : "");
	if (py->version_by) {
		report_problem(r, P_VERSION_SET, py->version_denied, py->version_text, py->version_by);
	} else if (py->version_denied[0]) {
		const bool by_layout = strcmp(py->version_denied, py->version_text) == 0;
		report_problem(r, P_VERSION_FORCED, py->version_denied, by_layout ? py->layout.name : py->version_text, by_layout ? "--layout" : "--python-version");
		r->verdict.likely = r->verdict.ids_likely = true;
	}
	if (py->table_older)
		report_problem(r, P_TABLE_OLDER, py->version_text, py->layout.name);
	if (py->self_refused)
		report_problem(r, P_SELF_DIFFERS, "its own cannot be right, so they are not used");
	if (py->self_differ)
		report_problem(r, P_SELF_DIFFERS, str_c(r->arena, str_printf(r->arena, "%u of %u fields of %s; %s used", py->self_differ, py->self_taken, py->layout.name,
								  py->self_outvoted ? "so few are likelier damaged, and the table is" : "its own are")));
	if (py->self_doubtful)
		report_problem(r, P_SELF_DIFFERS, "what either says leads to names or lines that cannot be right, and may be wrong altogether");

	for (const struct py *other = py->other; other; other = other->other) {
		r->python.others = true;
		const unsigned long long at = other->runtime ? other->runtime : other->interp_head;
		report_problem(r, P_OTHER_PYTHON, other->version_text, at, (unsigned long long)thread_states(other), at);
	}

}

/* A snapshot has what it needs of files in it, unless it was to be without. */
bool module_absent(const struct target *t, const struct module *m)
{
	return !m->file && !m->vdso && (m->disk_path || image_facts(t->img)->kind == IMAGE_CORE || !m->headers_in_image);
}

/* Names, the first few as text. */
struct names {
	size_t n;
	struct sb text;
};

static void names_add(struct names *l, struct str name)
{
	if (l->n < 4) {
		sb_printf(&l->text, l->n ? ", " : "");
		sb_str(&l->text, name);
	}
	l->n++;
}

static const char *names_text(struct names *l, struct arena *a)
{
	if (l->n > 4)
		sb_printf(&l->text, ", ...");
	struct str all = sb_take(&l->text, a);
	return str_c(a, all);
}

static void module_facts(struct target *t, struct report *r)
{
	static const char *const word[] = { [SYMBOLS_NONE] = "none", [SYMBOLS_DYNSYM] = "dynsym", [SYMBOLS_FULL] = "full", [SYMBOLS_MISMATCH] = "mismatch",
		[SYMBOLS_MINI] = "mini" };
	const struct module *mods;
	size_t n = modules_list(t->mods, &mods);
	struct names missing = { 0 }, denied = { 0 }, unproven = { 0 }, unverified = { 0 };
	for (size_t i = 0; i < n; i++) {
		const struct module *m = &mods[i];
		struct report_module *out = vec_push(&r->modules);
		out->path = str_from_bytes(r->arena, m->path.p, m->path.len);
		if (m->build_id.len)
			out->build_id = str_hex(r->arena, m->build_id);
		if (m->disk_build_id.len)
			out->disk_build_id = str_hex(r->arena, m->disk_build_id);
		out->file = m->file ? str_from_bytes(r->arena, m->file, strlen(m->file)) : (struct str){ 0 };
		if (m->debug_file)
			out->debug_file = str_from_bytes(r->arena, m->debug_file, strlen(m->debug_file));
		if (m->disk_path)
			out->disk_path = str_from_bytes(r->arena, m->disk_path, strlen(m->disk_path));
		out->start = m->start;
		out->end = m->end;
		out->symbols = m->symbols < sizeof word / sizeof *word ? word[m->symbols] : "none";
		if (m->debug_refused)
			report_problem(r, P_DEBUG_MISMATCH, str_c(r->arena, str_from_bytes(r->arena, m->debug_refused, strlen(m->debug_refused))),
				       str_c(r->arena, str_base(out->path)), m->debug_refused_id.len ? str_c(r->arena, str_hex(r->arena, m->debug_refused_id)) : "none",
				       out->build_id.s ? str_c(r->arena, out->build_id) : "none");
		if (m->unverified)
			names_add(&unverified, out->file);
		if (m->disk_path)
			report_problem(r, P_BUILD_ID_MISMATCH, str_c(r->arena, out->disk_path),
				       m->disk_build_id.len ? str_c(r->arena, out->disk_build_id) : "none", m->build_id.len ? str_c(r->arena, out->build_id) : "none",
				       m->disk_named ? "the file that ran, or leave the option out that names this one"
				       : "it was probably upgraded since: --sysroot DIR with the files of that time, -e PATH for the executable, or --debuginfod=on");
		else if (!module_absent(t, m))
			;
		else if (m->unproven)
			names_add(&unproven, str_base(out->path));
		else if (m->denied)
			names_add(&denied, str_from_bytes(r->arena, m->denied, strlen(m->denied)));
		else if (m->exe)
			report_problem(r, P_EXE_MISSING, str_c(r->arena, out->path));
		else
			names_add(&missing, str_base(out->path));
	}
	const char *text = names_text(&missing, r->arena);
	if (missing.n)
		report_problem(r, P_MODULE_MISSING, missing.n, text);
	text = names_text(&denied, r->arena);
	if (denied.n)
		report_problem(r, P_MODULE_DENIED, denied.n, text);
	text = names_text(&unproven, r->arena);
	if (unproven.n)
		report_problem(r, P_MODULE_UNPROVEN, unproven.n, text);
	text = names_text(&unverified, r->arena);
	if (unverified.n)
		report_problem(r, P_MODULE_UNVERIFIED, unverified.n, text);
}

/* What was started: a snapshot says it, a core has it in memory. */
static void started_facts(struct target *t, struct report *r)
{
	struct walk w = { 0 };
	struct py_interp in;
	if (t->py) {
		w = py_interps(t->py);
		while (py_next_interp(&w, &in) > 0 && !in.main)
			;
	}
	if (w.n)
		r->python.executable = py_executable(t->py, &in, r->arena);
	r->process.args = image_facts(t->img)->cmdline.s ? image_facts(t->img)->cmdline : arguments_of(t, w.n ? &in : NULL, r->arena);
}

static int run(struct target *t, const struct limits *lim, struct report *r)
{
	input_facts(t, r);
	process_facts(t, r);
	module_facts(t, r);
	python_facts(t, r);
	started_facts(t, r);
	return t->py ? 0 : t->py_err.code;
}

const struct inspection inspection_facts = { "facts", "the input, the process, its Python, what is mapped", run };
