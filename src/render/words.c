/* How numbers, times, threads and places are said. */
#include "render/words.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

void words_number(struct sb *b, uint64_t n)
{
	char digits[24];
	int len = snprintf(digits, sizeof digits, "%" PRIu64, n);
	for (int i = 0; i < len; i++) {
		if (i && (len - i) % 3 == 0)
			sb_char(b, ',');
		sb_char(b, digits[i]);
	}
}

void words_count(struct sb *b, uint64_t n, const char *noun)
{
	words_number(b, n);
	sb_printf(b, " %s%s", noun, n == 1 ? "" : "s");
}

void words_size(struct sb *b, uint64_t bytes)
{
	char buf[STR_SIZE];
	sb_printf(b, "%s", str_size(bytes, buf));
}

void words_time(struct sb *b, int64_t ns)
{
	time_t t = (time_t)(ns / 1000000000);
	struct tm tm;
	char text[64];
	if (gmtime_r(&t, &tm) && strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S UTC", &tm))
		sb_printf(b, "%s", text);
	else
		sb_printf(b, "%" PRId64 " s after 1970", ns / 1000000000);
}

void words_duration(struct sb *b, int64_t ns)
{
	char buf[STR_SIZE];
	sb_printf(b, "%s", str_duration(ns, buf));
}

void words_clip(struct sb *b, struct str s, size_t columns)
{
	/* What is measured is the text as sb_safe writes it; `room` is where the dots would go.  Marks that take no column have an end, too. */
	enum { BYTES = 16 /* a column: a character of its own, and three or four marks */ };
	const size_t start = b->len;
	size_t used = 0, room = b->len, with_dots = columns > 3 ? columns - 3 : 0;
	for (size_t i = 0, n; i < s.len; i += n) {
		size_t before = b->len;
		str_decode(s.s + i, s.len - i, &n);
		sb_safe(b, (struct str){ s.s + i, n });
		used += str_columns((struct str){ b->s + before, b->len - before });
		const bool many = b->len - start > columns * BYTES;
		if (used <= with_dots && !many)
			room = b->len;
		if (used > columns || many) {
			b->len = room;
			sb_printf(b, "...");
			return;
		}
	}
}

enum { NAME_COLUMNS = 60 };

void words_thread_name(struct sb *b, const struct report_thread *t)
{
	struct arena *a = arena_new();
	words_clip(b, str_quotable(a, t->name), NAME_COLUMNS);
	arena_free(a);
}

void words_thread(struct sb *b, const struct report_thread *t)
{
	if (t->tid >= 0)
		sb_printf(b, "%" PRId64, t->tid);
	else if (t->python_id)
		sb_printf(b, "0x%" PRIx64, t->python_id);
	else
		sb_char(b, '?');
	if (t->name.s) {
		sb_printf(b, t->name_inherited ? " (kernel name \"" : " \"");
		words_thread_name(b, t);
		sb_printf(b, t->name_inherited ? "\", another thread's)" : "\"");
	}
	/* A program that never imported threading has no name for it. */
	if (t->main && !(t->name.s && !t->name_from_kernel && str_is(t->name, "MainThread")))
		sb_printf(b, " (main)");
}

void words_state(struct sb *b, const struct report_thread *t)
{
	size_t start = b->len;
#define NEXT_ (b->len > start ? ", " : "")
	if (t->crashed)
		sb_printf(b, "%sCRASHED", NEXT_);
	if (t->holds_gil)
		sb_printf(b, "%sholds the GIL", NEXT_);
	if (t->in_handler.s) {
		const char *colon = memchr(t->in_handler.s, ':', t->in_handler.len);
		sb_printf(b, "%sin a handler of ", NEXT_);
		sb_safe(b, (struct str){ t->in_handler.s, colon ? (size_t)(colon - t->in_handler.s) : t->in_handler.len });
	}
	if (t->stale)
		sb_printf(b, "%shas no thread any more", NEXT_);
	else if (t->starting)
		sb_printf(b, "%snot begun", NEXT_);
	else if (t->stopped)
		sb_printf(b, "%sstopped by a signal", NEXT_);
	else if (t->on_cpu && !t->crashed)
		sb_printf(b, "%srunning", NEXT_);
	else if (t->waits_in.s && !t->crashed) {
		sb_printf(b, "%sin ", NEXT_);
		sb_safe(b, t->waits_in);
	}
#undef NEXT_
}

void words_function(struct sb *b, const struct report_frame *f)
{
	if (f->function.len)
		sb_safe(b, f->function);
	else if (f->module.len && !f->python) {
		sb_safe(b, str_base(f->module));
		sb_printf(b, "+0x%" PRIx64, f->offset);
	} else if (f->pc || !f->python) /* a call of a null pointer went to 0 */
		sb_printf(b, "0x%" PRIx64, f->pc);
	else
		sb_char(b, '?');
}

void words_plumbing(struct sb *b, const struct report_frame *const *frames, size_t n)
{
	enum { NAMED = 2, TOLD_APART = 16 };
	struct str name[TOLD_APART] = { 0 };
	size_t known = 0;
	for (size_t i = n; i-- > 0;) { /* what is nearest to the next frame shown first */
		struct str base = str_base(frames[i]->module);
		size_t k = 0;
		while (k < known && !str_eq(name[k], base))
			k++;
		if (base.len && k == known && known < TOLD_APART)
			name[known++] = base;
	}
	const size_t named = known < NAMED ? known : NAMED, others = known - named;
	words_count(b, n, "frame");
	for (size_t k = 0; k < named; k++) {
		sb_printf(b, k == 0 ? " in " : others ? ", " : " and ");
		sb_safe(b, name[k]);
	}
	if (known == TOLD_APART)
		sb_printf(b, " and many others");
	else if (others)
		sb_printf(b, " and %zu other%s", others, others == 1 ? "" : "s");
}

/* As short as it may be and still tell: under the process's folder, from there; else the last folder and the name. */
static struct str short_path(const struct report *r, struct str path)
{
	struct str cwd = r->process.cwd;
	if (cwd.len > 1 && path.len > cwd.len + 1 && memcmp(path.s, cwd.s, cwd.len) == 0 && path.s[cwd.len] == '/')
		return (struct str){ path.s + cwd.len + 1, path.len - cwd.len - 1 };
	struct str base = str_base(path);
	if (base.len + 1 >= path.len)
		return path;
	struct str parent = str_base((struct str){ path.s, path.len - base.len - 1 });
	return (struct str){ parent.s, (size_t)(path.s + path.len - parent.s) };
}

void words_place(struct sb *b, const struct report *r, const struct report_frame *f)
{
	if (f->file.s) {
		sb_safe(b, short_path(r, f->file));
		if (f->at.line > 0)
			sb_printf(b, ":%d", f->at.line);
	} else if (f->module.s) {
		sb_safe(b, str_base(f->module));
	} else {
		sb_char(b, '?');
	}
}

bool words_cut(const struct report_thread *t)
{
	return t->broken.s || (t->native_broken.s && !t->active);
}

const char *words_no_stack(const struct report *r, const struct report_thread *t)
{
	bool lost = t->broken.s || r->python.named || (!t->has_python && (r->python.unread || r->python.salvaged || (!r->python.found && !r->input.complete)));
	return lost ? "its Python stack is not known" : t->has_python ? "has no frame" : r->python.others ? "runs none of this Python" : "runs no Python";
}

void words_version(struct sb *b, const struct report *r)
{
	if (!r->python.found && !r->python.unread) {
		sb_printf(b, r->python.named ? "no Python where --runtime says" : "no Python found");
		return;
	}
	sb_printf(b, "Python ");
	if (r->python.version.s)
		sb_safe(b, r->python.version);
	else
		sb_char(b, '?');
	if (r->python.unread)
		sb_printf(b, r->python.asked.len ? " (not " STR_FMT ")" : " (no layout fits)", STR_ARG(r->python.asked));
	else
		sb_printf(b, " (%s%s)", r->python.free_threaded ? "free-threaded" : "GIL build", r->python.debug ? ", debug" : "");
}

void words_command(struct sb *b, const struct report *r, size_t columns)
{
	/* A program that embeds Python has a sys.executable that it is not. */
	const bool own = r->process.exe.len && !str_starts(str_base(r->process.exe), "python");
	struct str args = r->process.args, exe = r->python.executable.s && !own ? r->python.executable : r->process.exe;
	const char *space = args.len ? memchr(args.s, ' ', args.len) : NULL;
	struct str first = { args.s, space ? (size_t)(space - args.s) : args.len };
	if (exe.len && args.len >= exe.len && memcmp(args.s, exe.s, exe.len) == 0 && (args.len == exe.len || args.s[exe.len] == ' '))
		first.len = exe.len; /* there may be spaces in it */
	struct sb whole = { 0 };
	/* A command line names the program itself ("nginx: worker" too); sys.argv begins with the script. */
	struct str program = str_base(exe), named = str_base(first);
	bool names_it = program.len && named.len >= program.len && memcmp(named.s, program.s, program.len) == 0;
	if (names_it || str_starts(named, "python"))
		args = (struct str){ named.s, args.len - (size_t)(named.s - args.s) }; /* its folder is in the other forms */
	else if (program.len)
		sb_str(&whole, program);
	if (args.len) {
		if (whole.len)
			sb_char(&whole, ' ');
		sb_str(&whole, args);
	}
	if (!whole.len)
		sb_str(&whole, r->process.comm.s ? r->process.comm : STR("unknown program"));
	words_clip(b, sb_view(&whole), columns);
	sb_free(&whole);
}

void words_facts_file(struct sb *b, const struct report *r)
{
	bool snapshot = strcmp(r->input.kind, "snapshot") == 0;
	if (r->process.dump_ns > 0) {
		sb_printf(b, snapshot ? "snapshot " : "dumped ");
		words_time(b, r->process.dump_ns);
		if (r->process.start_ns > 0 && r->process.start_ns <= r->process.dump_ns) {
			sb_printf(b, ", ");
			words_duration(b, r->process.dump_ns - r->process.start_ns);
			sb_printf(b, " after start");
		}
		sb_printf(b, "   ");
	}
	if (snapshot) {
		sb_printf(b, r->input.consistent ? "consistent" : "NOT consistent");
		if (r->input.stopped_ns >= 0) {
			sb_printf(b, " (process stopped for ");
			words_duration(b, r->input.stopped_ns);
			sb_char(b, ')');
		}
		sb_printf(b, "   ");
	} else {
		sb_printf(b, "core ");
	}
	words_size(b, r->input.size);
	if ((snapshot || r->input.compression.s) && r->input.file_size && r->input.file_size != r->input.size) {
		sb_printf(b, " (");
		sb_str(b, r->input.compression.s ? r->input.compression : STR("packed"));
		sb_printf(b, r->input.compression.s ? ", " : " ");
		words_size(b, r->input.file_size);
		sb_char(b, ')');
	}
	if (r->input.complete) {
		sb_printf(b, ", complete");
	} else if (r->input.expected > r->input.size) {
		char have[STR_SIZE], of[STR_SIZE];
		const bool alike = !strcmp(str_size(r->input.size, have), str_size(r->input.expected, of));
		sb_printf(b, ", TRUNCATED (%s %s)", alike ? "by" : "of", alike ? str_size(r->input.expected - r->input.size, have) : of);
	} else {
		sb_printf(b, ", incomplete");
	}
	if (r->symbols.named < r->symbols.modules) {
		sb_printf(b, "   symbols for ");
		words_number(b, r->symbols.named);
		sb_printf(b, " of ");
		words_count(b, r->symbols.modules, "module");
	}
}

enum { GILS = 3 };

static void gil(struct sb *b, const struct report *r, const struct report_interp *in)
{
	if (!in->gil_locked) {
		sb_printf(b, "free");
		return;
	}
	sb_printf(b, "held");
	bool known = false;
	for (size_t i = 0; in->gil_holder_tid >= 0 && i < r->threads.n + r->hidden.n; i++) {
		const struct report_thread *t = i < r->threads.n ? &r->threads.p[i] : &r->hidden.p[i - r->threads.n];
		if (t->tid == in->gil_holder_tid) {
			sb_printf(b, " by ");
			words_thread(b, t);
			known = true;
			break;
		}
	}
	/* A thread state without a thread may hold it. */
	for (size_t i = 0; !known && i < r->threads.n + r->hidden.n; i++) {
		const struct report_thread *t = i < r->threads.n ? &r->threads.p[i] : &r->hidden.p[i - r->threads.n];
		if (t->holds_gil && t->tid < 0 && t->interpreter == in->id) {
			sb_printf(b, " by ");
			words_thread(b, t);
			known = true;
		}
	}
	if (!known)
		sb_printf(b, ", by whom is not known");
}

void words_facts_threads(struct sb *b, const struct report *r)
{
	size_t starting = 0, again = 0, further = 0, stale = 0, stacks = 0;
	for (size_t i = 0; i < r->threads.n; i++) {
		const struct report_thread *t = &r->threads.p[i];
		starting += t->starting;
		again += t->again;
		stale += t->stale;
		further += t->n_states > 1 && !t->stale ? t->n_states - 1 : 0;
	}
	size_t shown = r->threads.n - starting - again - stale, all = shown;
	for (size_t i = 0; i < r->hidden.n; i++)
		all += !r->hidden.p[i].starting && !r->hidden.p[i].again && !r->hidden.p[i].stale;
	if (r->hidden.n) {
		words_number(b, shown);
		sb_printf(b, " of ");
	}
	words_count(b, all, "thread");
	if (r->hidden.n)
		sb_printf(b, " shown");
	if (again || further) {
		sb_printf(b, " with ");
		words_count(b, r->threads.n - starting - stale + further, "thread state");
	}
	if (stale) {
		sb_printf(b, " and ");
		words_count(b, stale, "thread state");
		sb_printf(b, " without one");
	}
	if (starting) {
		sb_printf(b, ", ");
		words_number(b, starting);
		sb_printf(b, " not begun");
	}
	bool more = false;
	for (size_t i = 0; i < r->groups.n; i++) {
		const struct report_group *g = &r->groups.p[i];
		const struct report_thread *first = &r->threads.p[g->threads[0]];
		stacks += first->n_runs > 0;
		more |= first->n_runs && g->n > 1 && words_cut(first);
	}
	if (r->threads.n > 1 && stacks) {
		sb_printf(b, more ? ", at least " : ", ");
		words_number(b, stacks);
		sb_printf(b, stacks == 1 ? " stack" : " different stacks");
	}
	if (r->interps.n) {
		sb_printf(b, "   ");
		words_count(b, r->interps.n, "interpreter");
	}
	if (!r->interps.n || !r->interps.p[0].gil_known || r->python.free_threaded)
		return;
	const struct report_interp *first = &r->interps.p[0];
	sb_printf(b, "   GIL: ");
	gil(b, r, first);
	/* With one of its own: by another holder, or held while the first is free. */
	size_t others = 0;
	for (size_t i = 1; i < r->interps.n; i++) {
		const struct report_interp *in = &r->interps.p[i];
		if (!in->gil_known || !in->gil_locked || (first->gil_locked && in->gil_holder_tid == first->gil_holder_tid) || others++ >= GILS)
			continue;
		sb_printf(b, "; of interpreter %" PRId64 ": ", in->id);
		gil(b, r, in);
	}
	if (others > GILS)
		sb_printf(b, "; of %zu more: held", others - GILS);
}
