/* The report as text: verdict, facts, the thread that matters, the other threads with equal stacks once, limits. */
#include "render/text.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "render/forms.h"
#include "render/words.h"

void text_color(struct text *t, const char *code)
{
	if (t->opt->color)
		sb_bytes(&t->b, code, strlen(code));
}

void text_flush(struct text *t)
{
	fwrite(t->b.s ? t->b.s : "", 1, t->b.len, t->out);
	t->b.len = 0;
}

struct str text_stripped(struct str s)
{
	while (s.len && (*s.s == ' ' || *s.s == '\t' || *s.s == '\f'))
		s = (struct str){ s.s + 1, s.len - 1 };
	while (s.len && strchr(" \t\r\n\f", s.s[s.len - 1]))
		s.len--;
	return s;
}

static size_t width(const struct text *t)
{
	return t->opt->width ? t->opt->width : 200;
}

enum { EXCEPTION_COLUMNS = 160, HANDLING = 3, WHOLE = 1 << 24 };

/* Sections */

static const char *word_color(enum verdict_kind kind)
{
	switch (kind) {
	case VERDICT_CRASH: return BOLD_RED;
	case VERDICT_STOPPED: return BOLD_YELLOW;
	case VERDICT_SNAPSHOT: return BOLD_GREEN;
	case VERDICT_UNKNOWN: break;
	}
	return BOLD;
}

static void key(struct text *t, const char *name)
{
	sb_printf(&t->b, "  %-9s  ", name);
}

static const struct report_thread *thread_that_matters(const struct report *r)
{
	return r->verdict.thread < r->threads.n ? &r->threads.p[r->verdict.thread] : NULL;
}

/* "string_at, ctypes/__init__.py:519"; a native frame without a name is a place already. */
static void function_and_place(struct text *t, const struct report_frame *f)
{
	words_function(&t->b, f);
	if (!f->python && f->function.len && !f->file.s && !f->module.s) { /* code of no file */
		sb_printf(&t->b, " at 0x%" PRIx64, f->pc);
	} else if (f->python || f->function.len || f->file.s) {
		sb_printf(&t->b, ", ");
		words_place(&t->b, t->r, f);
		if (!f->python && f->file.s && f->module.s) {
			sb_printf(&t->b, ", ");
			sb_safe(&t->b, str_base(f->module));
		}
	}
}

/* Where the crash was: the innermost native frame, or whose call went to it, where no code is, or what was called and went on there. */
static void native_place(struct text *t, const struct report_frame *f)
{
	const struct report_frame *caller = t->r->verdict.caller, *callee = t->r->verdict.callee;
	static const char *const words[] = { [CALLED_IT] = "its call went to", [CALLED_ANOTHER] = "what it called went on to", [CALLED_EITHER] = "its call, or what it called, went to" };
	function_and_place(t, callee ? callee : caller ? caller : f);
	if (callee) {
		sb_printf(&t->b, "   (called by ");
		function_and_place(t, caller);
		sb_printf(&t->b, "; from there it went on to 0x%" PRIx64 ")", f->pc);
	} else if (caller) {
		sb_printf(&t->b, "   (%s 0x%" PRIx64 ")", words[t->r->verdict.called], f->pc);
	}
}

/* "ValueError: bad header   (being handled in load; raised at data/io.py:71)" */
static void exception(struct text *t, const struct report_exception *e)
{
	if (e->type.s)
		sb_safe(&t->b, e->type);
	else
		sb_printf(&t->b, "of a type that cannot be read");
	if (e->text.len) {
		sb_printf(&t->b, ": ");
		words_clip(&t->b, e->text, EXCEPTION_COLUMNS);
	}
	sb_printf(&t->b, e->uncaught && e->likely ? "   (likely what nothing caught and was being printed, or a hook for it ran" :
		e->uncaught ? "   (nothing caught it; it was being printed, or a hook for it ran" : e->raised ? "   (being raised" : e->kept ? "   (last handled" : "   (being handled");
	if (e->n_traceback) {
		const struct report_frame *last = e->traceback[e->n_traceback - 1];
		if (!e->raised && !e->uncaught) {
			sb_printf(&t->b, " in ");
			words_function(&t->b, e->traceback[0]);
		}
		sb_printf(&t->b, "; raised at ");
		words_place(&t->b, t->r, last);
	}
	sb_printf(&t->b, ")\n");
}

static void exceptions(struct text *t)
{
	const struct report *r = t->r;
	if (!r->exceptions.n && r->verdict.exceptions_known) {
		key(t, "exception");
		sb_printf(&t->b, "none was being handled\n");
	}
	for (size_t i = 0; i < r->exceptions.n; i++) {
		key(t, "exception");
		exception(t, &r->exceptions.p[i]);
	}
}

/* Function, file and line; and the line itself where it is here. */
static void python_place(struct text *t, const struct report_frame *f)
{
	struct str line = text_stripped(f->source);
	function_and_place(t, f);
	if (line.len) {
		sb_printf(&t->b, "   ");
		words_clip(&t->b, line, 80);
	}
}

static void notes(struct text *t, bool detail_id)
{
	for (size_t i = 0; i < t->r->verdict.notes.n; i++) {
		const struct report_note *n = &t->r->verdict.notes.p[i];
		if ((strcmp(n->key, NOTE_DETAIL_ID) == 0) != detail_id)
			continue;
		key(t, n->key);
		sb_safe(&t->b, n->text);
		sb_char(&t->b, '\n');
	}
}

static void verdict(struct text *t)
{
	const struct report *r = t->r;
	text_color(t, word_color(r->verdict.kind));
	sb_safe(&t->b, r->verdict.word);
	text_color(t, RESET);
	if (r->verdict.title.len) {
		sb_printf(&t->b, "  ");
		text_color(t, BOLD);
		sb_safe(&t->b, r->verdict.title);
		text_color(t, RESET);
	}
	sb_char(&t->b, '\n');
	if (r->verdict.raised_by.len) {
		key(t, "raised by");
		sb_safe(&t->b, r->verdict.raised_by);
		sb_char(&t->b, '\n');
	} else if (r->verdict.native) {
		key(t, "in");
		native_place(t, r->verdict.native);
		sb_char(&t->b, '\n');
	}
	const struct report_frame *f = r->verdict.location;
	if (f && (f->python || !r->verdict.raised_by.len)) {
		/* A signal from outside, or a snapshot, comes from no place in the program. */
		key(t, !f->python ? "in" : r->verdict.kind == VERDICT_CRASH ? "from" : "at");
		if (f->python)
			python_place(t, f);
		else
			native_place(t, f);
		sb_char(&t->b, '\n');
		if (r->verdict.called_by) {
			key(t, "called by");
			python_place(t, r->verdict.called_by);
			sb_char(&t->b, '\n');
		}
	}
	const struct report_thread *th = thread_that_matters(r);
	if (!th && r->verdict.thread_hidden < r->hidden.n)
		th = &r->hidden.p[r->verdict.thread_hidden];
	if (th) {
		key(t, "thread");
		words_thread(&t->b, th);
		if (th->holds_gil)
			sb_printf(&t->b, ", holding the GIL");
		else if (r->verdict.without_gil)
			sb_printf(&t->b, ", not holding the GIL");
		else if (r->verdict.kind != VERDICT_CRASH && th->on_cpu && !th->stopped && r->threads.n + r->hidden.n > 1)
			sb_printf(&t->b, ", running");
		if (f && !f->python && r->python.found && !th->active && !th->has_python)
			sb_printf(&t->b, ", %s", words_no_stack(r, th));
		sb_char(&t->b, '\n');
	}
	if (r->verdict.culprit.len) {
		key(t, "module");
		sb_safe(&t->b, r->verdict.culprit);
		sb_printf(&t->b, "   (likely at fault: %sthe innermost that is %s)\n", r->verdict.culprit_likely ? "likely " : "",
			  r->python.found || r->python.unread ? "neither libc nor the interpreter" : "not libc");
	}
	exceptions(t);
	notes(t, false);
	if (r->verdict.group_id.s) {
		key(t, "id");
		sb_str(&t->b, r->verdict.group_id);
		sb_printf(&t->b, "   (same signal%s = same id%s%s)\n", th && th->active ? ", place and Python functions" : " and place", r->verdict.ids_likely ? ", and as likely" : "",
			  th && th->active ? "" : "; the thread ran no Python");
		if (r->verdict.detail_id.s) {
			key(t, "detail id");
			sb_str(&t->b, r->verdict.detail_id);
			sb_printf(&t->b, "   (same native functions too)\n");
		}
		notes(t, true);
	}
	if (r->verdict.likely) {
		key(t, "certainty");
		sb_printf(&t->b, "likely, not proven: the limits at the end say why\n");
	}
	sb_char(&t->b, '\n');
}

/* A line of facts, three spaces apart; where it is too long, the last of them go to the next line.  The first is so long, whatever is in it. */
static void facts_line(struct text *t, struct sb *facts, size_t first)
{
	struct str rest = sb_view(facts);
	while (str_columns(rest) > width(t)) {
		size_t cut = 0;
		for (size_t i = first ? first : 1; i + 3 < rest.len; i++)
			if (memcmp(rest.s + i, "   ", 3) == 0 && (i == first || str_columns((struct str){ rest.s, i }) <= width(t)))
				cut = i;
		first = 0;
		if (!cut)
			break;
		sb_str(&t->b, (struct str){ rest.s, cut });
		sb_printf(&t->b, "\n  ");
		rest = (struct str){ rest.s + cut + 3, rest.len - cut - 3 };
	}
	sb_str(&t->b, rest);
	sb_char(&t->b, '\n');
	sb_free(facts);
}

static void facts(struct text *t)
{
	struct sb line = { 0 };
	words_command(&line, t->r, t->opt->all_names ? WHOLE : width(t) > 75 ? width(t) - 45 : 30);
	const size_t command = line.len;
	if (t->r->process.pid >= 0)
		sb_printf(&line, "   pid %" PRId64, t->r->process.pid);
	sb_printf(&line, "   ");
	words_version(&line, t->r);
	facts_line(t, &line, command);
	words_facts_file(&line, t->r);
	facts_line(t, &line, 0);
	words_facts_threads(&line, t->r);
	facts_line(t, &line, 0);
}

enum { LISTED = 3, STATES = 4, LISTED_INTERPRETERS = 8 };

/* "a, b, c", or "first ... last" of many. */
static void thread_list(struct text *t, const size_t *threads, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (i)
			sb_printf(&t->b, n > LISTED ? " ... " : ", ");
		if (i && n > LISTED)
			i = n - 1;
		words_thread(&t->b, &t->r->threads.p[threads[i]]);
	}
}

/* What the threads of a group do: one answer of all, or the commonest few with how many each. */
static void states(struct text *t, const size_t *threads, size_t n)
{
	struct { struct sb text; size_t n; } seen[STATES] = { 0 };
	size_t kinds = 0, others = 0;
	for (size_t i = 0; i < n; i++) {
		struct sb one = { 0 };
		words_state(&one, &t->r->threads.p[threads[i]]);
		size_t k = 0;
		while (k < kinds && !str_eq(sb_view(&seen[k].text), sb_view(&one)))
			k++;
		if (k < kinds) {
			seen[k].n++;
		} else if (kinds < STATES) {
			seen[kinds].text = one;
			seen[kinds++].n = 1;
			continue;
		} else {
			others++;
		}
		sb_free(&one);
	}
	bool first = true;
	for (size_t k = 0; k < kinds; k++) {
		if (seen[k].text.len) {
			sb_printf(&t->b, first ? ": " : "; ");
			if (seen[k].n < n)
				sb_printf(&t->b, "%zu ", seen[k].n);
			sb_str(&t->b, sb_view(&seen[k].text));
			first = false;
		}
		sb_free(&seen[k].text);
	}
	if (others)
		sb_printf(&t->b, "; %zu otherwise", others);
}

static int id_order(const void *a, const void *b)
{
	const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
	return x < y ? -1 : x > y;
}

/* Those of threads that are in one each. */
static void interpreters(struct text *t, const size_t *threads, size_t n)
{
	CLEANUP(cleanup_free) int64_t *ids = xcalloc(n, sizeof *ids);
	for (size_t i = 0; i < n; i++)
		ids[i] = t->r->threads.p[threads[i]].interpreter;
	qsort(ids, n, sizeof *ids, id_order);
	size_t distinct = 0;
	for (size_t i = 0; i < n; i++)
		if (!distinct || ids[distinct - 1] != ids[i])
			ids[distinct++] = ids[i];
	sb_printf(&t->b, ", in %zu interpreters (", distinct);
	for (size_t i = 0; i < distinct && i < LISTED_INTERPRETERS; i++)
		sb_printf(&t->b, i ? ", %" PRId64 : "%" PRId64, ids[i]);
	sb_printf(&t->b, distinct > LISTED_INTERPRETERS ? ", ...)" : ")");
}

/* Of threads with one stack. */
static void interpreter(struct text *t, const size_t *threads, size_t n)
{
	const struct report_thread *th = &t->r->threads.p[threads[0]];
	bool differ = false;
	for (size_t i = 1; i < n && th->n_interpreters <= 1; i++)
		differ |= t->r->threads.p[threads[i]].interpreter != th->interpreter;
	if (differ) {
		interpreters(t, threads, n);
	} else if (th->n_interpreters > 1) {
		for (size_t i = 0; i < th->n_interpreters && i < LISTED_INTERPRETERS; i++)
			sb_printf(&t->b, !i ? ", interpreters %" PRId64 : i + 1 < th->n_interpreters ? ", %" PRId64 : " and %" PRId64, th->interpreters[i]);
		if (th->n_interpreters > LISTED_INTERPRETERS)
			sb_printf(&t->b, ", ...");
	} else if (t->r->interps.n > 1 && th->interpreter >= 0) {
		sb_printf(&t->b, ", interpreter %" PRId64 "%s", th->interpreter,
			  !th->again ? "" : th->tid >= 0 ? " in the same thread" : "; which thread runs it is not known");
	}
}

static void heading_end(struct text *t, const size_t *threads, size_t n)
{
	const struct report_thread *th = &t->r->threads.p[threads[0]];
	interpreter(t, threads, n);
	if (th->n_runs)
		sb_printf(&t->b, " (most recent call %s)\n", t->opt->newest_first ? "first" : "last");
	else
		sb_printf(&t->b, " (%s)\n", words_no_stack(t->r, th));
}

static bool same_exception(const struct report_exception *a, const struct report_exception *b)
{
	const struct report_frame *x = a->n_traceback ? a->traceback[a->n_traceback - 1] : NULL, *y = b->n_traceback ? b->traceback[b->n_traceback - 1] : NULL;
	return str_eq(a->type, b->type) && str_eq(a->text, b->text) && (x && y ? x->at.line == y->at.line && str_eq(x->file, y->file) : x == y);
}

/* What threads that go their way are handling; of many different ones the first. */
static void handling(struct text *t, const size_t *threads, size_t n)
{
	struct { const struct report_thread *first; size_t n; } kind[HANDLING];
	size_t kinds = 0, more = 0;
	for (size_t i = 0; i < n; i++) {
		const struct report_thread *th = &t->r->threads.p[threads[i]];
		size_t k = 0;
		while (th->handling && k < kinds && !same_exception(kind[k].first->handling, th->handling))
			k++;
		if (!th->handling)
			continue;
		if (k < kinds) {
			kind[k].n++;
		} else if (kinds < HANDLING) {
			kind[kinds].first = th;
			kind[kinds++].n = 1;
		} else {
			more++;
		}
	}
	for (size_t k = 0; k < kinds; k++) {
		sb_printf(&t->b, "  exception");
		if (n > 1 && kind[k].n == n) {
			sb_printf(&t->b, " of each");
		} else if (kind[k].n > 1) {
			sb_printf(&t->b, " of %zu of them", kind[k].n);
		} else if (n > 1) {
			sb_printf(&t->b, " of ");
			words_thread(&t->b, kind[k].first);
		}
		sb_printf(&t->b, ": ");
		exception(t, kind[k].first->handling);
	}
	if (more)
		sb_printf(&t->b, "  ... and %zu more of them handle%s one\n", more, more == 1 ? "s" : "");
}

static void main_thread(struct text *t, const struct report_thread *th)
{
	sb_char(&t->b, '\n');
	text_color(t, BOLD);
	sb_printf(&t->b, "Thread ");
	words_thread(&t->b, th);
	text_color(t, RESET);
	struct sb state = { 0 };
	words_state(&state, th);
	if (state.len) {
		sb_printf(&t->b, ": ");
		text_color(t, th->crashed ? BOLD_RED : "");
		sb_str(&t->b, sb_view(&state));
		text_color(t, th->crashed ? RESET : "");
	}
	sb_free(&state);
	heading_end(t, &t->r->verdict.thread, 1);
	handling(t, &t->r->verdict.thread, 1);
	text_stack(t, th);
}

/* Those that the heading leaves out. */
static void all_names(struct text *t, const size_t *threads, size_t n)
{
	if (!t->opt->all_names || n <= LISTED)
		return;
	struct sb line = { 0 };
	for (size_t i = 0; i < n; i++) {
		struct sb one = { 0 };
		words_thread(&one, &t->r->threads.p[threads[i]]);
		if (line.len && str_columns(sb_view(&line)) + str_columns(sb_view(&one)) + 6 > width(t)) {
			sb_printf(&t->b, "    " STR_FMT ",\n", STR_ARG(sb_view(&line)));
			line.len = 0;
		}
		sb_printf(&line, line.len ? ", " : "");
		sb_str(&line, sb_view(&one));
		sb_free(&one);
	}
	sb_printf(&t->b, "    " STR_FMT "\n", STR_ARG(sb_view(&line)));
	sb_free(&line);
	if (t->b.len > 1 << 16)
		text_flush(t);
}

static void group(struct text *t, const size_t *threads, size_t n, bool same_as_above)
{
	const struct report_thread *th = &t->r->threads.p[threads[0]];
	sb_char(&t->b, '\n');
	text_color(t, BOLD);
	if (n > 1 || same_as_above) {
		words_count(&t->b, n, same_as_above ? "more thread" : "thread");
		sb_printf(&t->b, ": ");
	} else {
		sb_printf(&t->b, "Thread ");
	}
	thread_list(t, threads, n);
	text_color(t, RESET);
	states(t, threads, n);
	if (same_as_above) {
		interpreter(t, threads, n);
		sb_printf(&t->b, " (%s)\n", !th->n_runs ? words_no_stack(t->r, th) : words_cut(th) ? "the same known frames as above" : "the same stack as above");
		all_names(t, threads, n);
		handling(t, threads, n);
		return;
	}
	heading_end(t, threads, n);
	all_names(t, threads, n);
	handling(t, threads, n);
	text_stack(t, th);
}

static void threads(struct text *t)
{
	const struct report *r = t->r;
	const struct report_thread *first = thread_that_matters(r);
	if (first)
		main_thread(t, first);
	for (size_t pass = 0; pass < 2; pass++) { /* those of the first thread's stack come right below it */
		for (size_t g = 0; g < r->groups.n; g++) {
			bool same = first && g == first->group;
			if (same != (pass == 0))
				continue;
			struct VEC(size_t) rest = { 0 };
			for (size_t i = 0; i < r->groups.p[g].n; i++)
				if (&r->threads.p[r->groups.p[g].threads[i]] != first)
					*vec_push(&rest) = r->groups.p[g].threads[i];
			if (rest.n)
				group(t, rest.p, rest.n, same);
			vec_free(&rest);
			text_flush(t);
		}
	}
}

/* What stands at a column: over as many lines as it needs on the terminal, else where it is long; all but the first begin at `indent`. */
static void wrapped(struct text *t, struct str s, size_t column, size_t indent)
{
	enum { LONGEST = 160 }; /* what is shorter stays a line, which a search finds */
	const size_t room = t->opt->width ? t->opt->width : LONGEST;
	CLEANUP(cleanup_sb) struct sb safe = { 0 };
	sb_safe(&safe, s);
	struct str rest = sb_view(&safe);
	for (bool first = true; rest.len || first; first = false) {
		const char *space = rest.len ? memchr(rest.s, ' ', rest.len) : NULL;
		const struct str word = { rest.s, space ? (size_t)(space - rest.s) : rest.len };
		const size_t columns = str_columns(word);
		if (!first && column + 1 + columns > room && column > indent) {
			sb_printf(&t->b, "\n%*s", (int)indent, "");
			column = indent;
		} else if (!first) {
			sb_char(&t->b, ' ');
			column++;
		}
		sb_str(&t->b, word);
		column += columns;
		rest = (struct str){ word.s + word.len + (space != NULL), rest.len - word.len - (space != NULL) };
	}
	sb_char(&t->b, '\n');
}

/* Where one kind of loss struck many threads, one line stands for all of them. */
static void limits(struct text *t)
{
	enum { ALIKE = 3 };
	const struct report *r = t->r;
	size_t of[PROBLEM_COUNT] = { 0 };
	bool told[PROBLEM_COUNT] = { 0 };
	if (!r->problems.n)
		return;
	for (size_t i = 0; i < r->problems.n; i++)
		of[r->problems.p[i].id]++;
	sb_char(&t->b, '\n');
	text_color(t, BOLD);
	sb_printf(&t->b, "Limits of this report (%zu)", r->problems.n);
	text_color(t, RESET);
	sb_char(&t->b, '\n');
	for (int severity = SEVERITY_ERROR; severity >= SEVERITY_INFO; severity--) {
		for (size_t i = 0; i < r->problems.n; i++) {
			const struct report_problem *p = &r->problems.p[i];
			const bool folded = of[p->id] > ALIKE && !t->opt->all_names;
			if ((int)p->severity != severity || (folded && told[p->id]))
				continue;
			told[p->id] = true;
			sb_printf(&t->b, "  ");
			text_color(t, severity == SEVERITY_ERROR ? BOLD_RED : severity == SEVERITY_WARNING ? YELLOW : "");
			CLEANUP(cleanup_sb) struct sb coded = { 0 };
			sb_str(&coded, p->message);
			if (t->opt->all_names && p->code)
				sb_printf(&coded, " [%s]", p->code);
			wrapped(t, sb_view(&coded), 2, 4);
			text_color(t, severity == SEVERITY_INFO ? "" : RESET);
			struct str line;
			for (struct str rest = p->details; t->opt->all_names && str_line(&rest, &line);) {
				sb_printf(&t->b, "    tried ");
				wrapped(t, line, 10, 10);
			}
			if (folded)
				sb_printf(&t->b, "    and %zu more like this (-v and --json list them)\n", of[p->id] - 1);
			size_t next = i + 1; /* what several in a row need is said once */
			while (next < r->problems.n && r->problems.p[next].severity != p->severity)
				next++;
			const bool again = !folded && next < r->problems.n && r->problems.p[next].id == p->id && str_eq(r->problems.p[next].hint, p->hint);
			if (p->hint.s && !again) {
				const bool none = str_starts(p->hint, "nothing");
				sb_printf(&t->b, none ? "    " : "    try: ");
				wrapped(t, p->hint, none ? 4 : 9, 9);
			}
		}
	}
}

static void modules(struct text *t)
{
	const struct report *r = t->r;
	sb_char(&t->b, '\n');
	text_color(t, BOLD);
	sb_printf(&t->b, "Modules (%zu)", r->modules.n);
	text_color(t, RESET);
	sb_char(&t->b, '\n');
	for (size_t i = 0; i < r->modules.n; i++) {
		const struct report_module *m = &r->modules.p[i];
		sb_printf(&t->b, "  0x%012" PRIx64 "-0x%012" PRIx64 "  symbols: %-8s  build-id: ", m->start, m->end, m->symbols);
		sb_safe(&t->b, m->build_id.s ? m->build_id : STR("not known"));
		sb_printf(&t->b, "  ");
		sb_safe(&t->b, m->path);
		sb_char(&t->b, '\n');
		if (m->file.s && !str_eq(m->file, m->path)) {
			sb_printf(&t->b, "      file        ");
			sb_safe(&t->b, m->file);
			sb_char(&t->b, '\n');
		}
		if (m->debug_file.s) {
			sb_printf(&t->b, "      debug file  ");
			sb_safe(&t->b, m->debug_file);
			sb_char(&t->b, '\n');
		}
		if (m->disk_path.s) {
			sb_printf(&t->b, "      not used    ");
			sb_safe(&t->b, m->disk_path);
			sb_printf(&t->b, ", build-id ");
			sb_safe(&t->b, m->disk_build_id.s ? m->disk_build_id : STR("none"));
			sb_char(&t->b, '\n');
		}
	}
}

int render_text(const struct report *r, const struct render_options *opt, FILE *out)
{
	struct text t = { .r = r, .opt = opt, .out = out };
	if (!opt->no_verdict)
		verdict(&t);
	facts(&t);
	if (!opt->no_threads)
		threads(&t);
	if (opt->modules)
		modules(&t);
	limits(&t);
	text_flush(&t);
	sb_free(&t.b);
	return ferror(out) ? ERR_IO : 0;
}
