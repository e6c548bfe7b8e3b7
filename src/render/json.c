/*
 * The report as pysnap.report/1 (formats/report.schema.json).  Written piece by piece - one small tree for each thread, frame or
 * module - so that memory does not grow with the report.  What is not known is absent; ids and addresses are hexadecimal text.
 */
#include "render/forms.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct json {
	const struct report *r;
	FILE *out;
	bool compact, begun;      /* begun: a key stands in the outermost object */
	/* Frames by pointer -> id, open addressing; ids count from 0 in the order threads show them. */
	struct { const struct report_frame *frame; size_t id; } *ids;
	size_t room;
	struct VEC(const struct report_frame *) frames;
};

/* Values; each function drops what is not known. */

static json_t *text_value(struct str s)
{
	json_t *v = json_stringn(s.s ? s.s : "", s.len);
	if (v)
		return v;
	struct arena *a = arena_new(); /* not UTF-8 after all */
	struct str fixed = str_from_bytes(a, s.s, s.len);
	v = json_stringn(fixed.s, fixed.len);
	arena_free(a);
	return v;
}

static void put(json_t *o, const char *key, json_t *v)
{
	if (!v || json_object_set_new(o, key, v) < 0)
		abort(); /* out of memory, as in base/mem */
}

static void put_text(json_t *o, const char *key, struct str s)
{
	if (s.s)
		put(o, key, text_value(s));
}

static void put_word(json_t *o, const char *key, const char *s)
{
	if (s)
		put_text(o, key, str_of(s));
}

static void put_count(json_t *o, const char *key, uint64_t n)
{
	put(o, key, json_integer(n > INT64_MAX ? INT64_MAX : (json_int_t)n));
}

static void put_number(json_t *o, const char *key, int64_t n)
{
	if (n >= 0)
		put(o, key, json_integer(n));
}

static void put_bool(json_t *o, const char *key, bool b)
{
	put(o, key, json_boolean(b));
}

static void put_hex(json_t *o, const char *key, uint64_t n)
{
	put(o, key, json_sprintf("0x%llx", (unsigned long long)n));
}

static void put_time(json_t *o, const char *key, int64_t ns)
{
	time_t t = (time_t)(ns / 1000000000);
	struct tm tm;
	char text[64];
	if (ns > 0 && gmtime_r(&t, &tm) && strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &tm))
		put(o, key, json_sprintf("%s.%06dZ", text, (int)(ns % 1000000000 / 1000)));
}

/* Adds o under key, unless it says nothing. */
static void put_object(json_t *o, const char *key, json_t *v)
{
	if (json_object_size(v))
		put(o, key, v);
	else
		json_decref(v);
}

static void push(json_t *array, json_t *v)
{
	if (!v || json_array_append_new(array, v) < 0)
		abort();
}

/* Output */

/* Outside strings JSON is ASCII, so a code point that must not reach a terminal may be replaced where it stands. */
static void write_json(struct json *j, const json_t *v)
{
	CLEANUP(cleanup_free) char *s = json_dumps(v, JSON_COMPACT | JSON_ENCODE_ANY);
	if (!s)
		abort();
	size_t len = strlen(s), done = 0;
	for (size_t i = 0, n; i < len; i += n) {
		uint32_t cp = str_decode(s + i, len - i, &n);
		if (!str_unsafe(cp))
			continue;
		fwrite(s + done, 1, i - done, j->out);
		done = i + n;
		if (cp < 0x10000)
			fprintf(j->out, "\\u%04x", (unsigned)cp);
		else
			fprintf(j->out, "\\u%04x\\u%04x", (unsigned)(0xd800 + ((cp - 0x10000) >> 10)), (unsigned)(0xdc00 + ((cp - 0x10000) & 0x3ff)));
	}
	fwrite(s + done, 1, len - done, j->out);
}

static void key(struct json *j, const char *name)
{
	fprintf(j->out, j->compact ? "%s\"%s\":" : "%s\n \"%s\": ", j->begun ? "," : "", name);
	j->begun = true;
}

/* One key of the outermost object; an object without keys is left out. */
static void member(struct json *j, const char *name, json_t *v)
{
	if (!v)
		abort();
	if (!json_is_object(v) || json_object_size(v)) {
		key(j, name);
		write_json(j, v);
	}
	json_decref(v);
}

/* One key whose value is an array, an element a line. */
static void array(struct json *j, const char *name, size_t n, json_t *(*element)(struct json *j, size_t i))
{
	key(j, name);
	fputc('[', j->out);
	for (size_t i = 0; i < n; i++) {
		fputs(i ? "," : "", j->out);
		fputs(j->compact ? "" : "\n  ", j->out);
		json_t *v = element(j, i);
		write_json(j, v);
		json_decref(v);
	}
	fputs(n && !j->compact ? "\n ]" : "]", j->out);
}

/* Frames */

static size_t frame_slot(const struct json *j, const struct report_frame *f)
{
	size_t at = (size_t)(((uintptr_t)f >> 4) * 0x9e3779b97f4a7c15u >> 20) & (j->room - 1);
	while (j->ids[at].frame && j->ids[at].frame != f)
		at = (at + 1) & (j->room - 1);
	return at;
}

static void frames_grow(struct json *j)
{
	size_t old_room = j->room;
	__auto_type old = j->ids;
	j->room = old_room ? old_room * 2 : 256;
	j->ids = xcalloc(j->room, sizeof *j->ids);
	for (size_t i = 0; i < old_room; i++)
		if (old[i].frame)
			j->ids[frame_slot(j, old[i].frame)] = old[i];
	free(old);
}

static void frame_add(struct json *j, const struct report_frame *f)
{
	if (j->frames.n * 2 >= j->room)
		frames_grow(j);
	size_t at = frame_slot(j, f);
	if (j->ids[at].frame)
		return;
	j->ids[at].frame = f;
	j->ids[at].id = j->frames.n;
	*vec_push(&j->frames) = f;
}

static json_t *frame_object(const struct report_frame *f)
{
	json_t *o = json_object();
	put_word(o, "lang", f->python ? "python" : "c");
	put_text(o, "function", f->function);
	put_text(o, "qualname", f->qualname);
	put_text(o, "file", f->file);
	if (f->at.line > 0)
		put_number(o, "line", f->at.line);
	if (f->at.end_line > 0)
		put_number(o, "end_line", f->at.end_line);
	put_number(o, "col", f->at.col);
	put_number(o, "end_col", f->at.end_col);
	put_text(o, "symbol", f->symbol);
	put_text(o, "module", f->module);
	if (!f->python && f->pc) {
		put_hex(o, "pc", f->pc);
		if (f->module.s)
			put_hex(o, "module_offset", f->offset);
		if (f->function.s && !f->inlined)
			put_count(o, "function_offset", f->into);
		if (f->inlined)
			put_bool(o, "inlined", true);
		if (f->plumbing)
			put_bool(o, "plumbing", true);
		if (f->jit)
			put_bool(o, "jit", true);
		if (f->signal)
			put_bool(o, "signal_frame", true);
		put_word(o, "unwound_by", f->found_by);
		put_word(o, "guessed_by", f->likely ? f->found_by : NULL);
	}
	if (f->source.s && f->at.line > 0) {
		json_t *line = json_object(), *lines = json_array();
		put_number(line, "line", f->at.line);
		put_text(line, "text", f->source);
		push(lines, line);
		put(o, "source", lines);
	}
	return o;
}

static json_t *frame_element(struct json *j, size_t i)
{
	json_t *o = json_object(), *rest = frame_object(j->frames.p[i]);
	put_count(o, "id", i);
	json_object_update(o, rest);
	json_decref(rest);
	if (j->frames.p[i]->python && j->r->interps.n > 1)
		put_number(o, "interpreter", j->frames.p[i]->interpreter);
	return o;
}

/* Sections */

static json_t *tool(const struct report *r)
{
	json_t *o = json_object();
	put_word(o, "name", "pyanalyze");
	put_text(o, "version", r->tool.version);
	if (r->tool.features) {
		json_t *features = json_array();
		for (size_t i = 0; r->tool.features[i]; i++)
			push(features, text_value(str_of(r->tool.features[i])));
		put(o, "features", features);
	}
	return o;
}

static json_t *input(const struct report *r)
{
	json_t *o = json_object();
	put_text(o, "path", r->input.path);
	put_word(o, "kind", r->input.kind);
	put_count(o, "size", r->input.size);
	if (r->input.expected)
		put_count(o, "expected_size", r->input.expected);
	if (r->input.file_size)
		put_count(o, "file_size", r->input.file_size);
	put_text(o, "compression", r->input.compression);
	put_bool(o, "complete", r->input.complete);
	if (strcmp(r->input.kind, "snapshot") == 0)
		put_bool(o, "consistent", r->input.consistent);
	if (r->input.lost.of_segments) {
		json_t *lost = json_object(), *files = json_array();
		put_count(lost, "segments", r->input.lost.segments);
		put_count(lost, "of_segments", r->input.lost.of_segments);
		put_count(lost, "thread_stacks", r->input.lost.stacks);
		put_count(lost, "thread_stacks_in_part", r->input.lost.in_part);
		put_count(lost, "of_thread_stacks", r->input.lost.of_stacks);
		put_count(lost, "stack_segments", r->input.lost.with_stacks);
		put_count(lost, "file_segments", r->input.lost.of_files);
		put_count(lost, "other_segments", r->input.lost.other);
		for (size_t i = 0; i < r->input.lost.files.n; i++)
			push(files, text_value(r->input.lost.files.p[i]));
		put(lost, "data_of", files);
		put(o, "lost", lost);
	}
	put_number(o, "stopped_ns", r->input.stopped_ns);
	put_text(o, "tool", r->input.tool);
	return o;
}

static json_t *symbols(const struct report *r)
{
	json_t *o = json_object();
	put_count(o, "modules", r->symbols.modules);
	put_count(o, "named", r->symbols.named);
	return o;
}

static json_t *process(const struct report *r)
{
	json_t *o = json_object();
	put_number(o, "pid", r->process.pid);
	put_number(o, "ppid", r->process.ppid);
	put_number(o, "uid", r->process.uid);
	put_text(o, "exe", r->process.exe);
	put_text(o, "args", r->process.args);
	put_text(o, "comm", r->process.comm);
	put_text(o, "cwd", r->process.cwd);
	put_time(o, "start_time", r->process.start_ns);
	put_time(o, "dump_time", r->process.dump_ns);
	return o;
}

static json_t *python(const struct report *r)
{
	json_t *o = json_object();
	if (!r->python.found && !r->python.unread)
		return o;
	put_word(o, "implementation", "cpython");
	put_text(o, "version", r->python.version);
	if (r->python.unread) {
		put_bool(o, "unread", true);
		return o;
	}
	if (r->python.hex)
		put_hex(o, "hex", r->python.hex);
	json_t *build = json_array();
	push(build, text_value(str_of(r->python.free_threaded ? "free-threaded" : "gil")));
	if (r->python.debug)
		push(build, text_value(str_of("debug")));
	put(o, "build", build);
	put_text(o, "executable", r->python.executable);
	put_text(o, "found_by", r->python.found_by);
	put_text(o, "layout", r->python.layout);
	put_text(o, "version_source", r->python.version_source);
	return o;
}

static const char *kind_word(enum verdict_kind kind)
{
	switch (kind) {
	case VERDICT_CRASH: return "crash";
	case VERDICT_STOPPED: return "stopped";
	case VERDICT_SNAPSHOT: return "snapshot";
	case VERDICT_UNKNOWN: break;
	}
	return "unknown";
}

static json_t *verdict(const struct report *r)
{
	json_t *o = json_object(), *signal = json_object();
	put_word(o, "kind", kind_word(r->verdict.kind));
	put_word(o, "confidence", r->verdict.likely ? "likely" : "certain");
	put_text(o, "title", r->verdict.title);
	put_number(o, "tid", r->verdict.tid);
	if (r->verdict.thread < r->threads.n)
		put_count(o, "thread", r->verdict.thread);
	if (r->verdict.signal.known) {
		put_text(signal, "name", r->verdict.signal.name);
		put(signal, "number", json_integer(r->verdict.signal.number));
		if (!r->verdict.signal.code_unknown)
			put(signal, "code", json_integer(r->verdict.signal.code));
		put_text(signal, "code_name", r->verdict.signal.code_name);
		if (r->verdict.signal.has_addr)
			put_hex(signal, "address", r->verdict.signal.addr);
		put_word(signal, "access", r->verdict.access);
		put_number(signal, "sender_pid", r->verdict.signal.sender_pid);
		put_number(signal, "sender_uid", r->verdict.signal.sender_uid);
	}
	put_object(o, "signal", signal);
	if (r->verdict.ended_by.known) {
		json_t *ended = json_object();
		put_text(ended, "name", r->verdict.ended_by.name);
		put(ended, "number", json_integer(r->verdict.ended_by.number));
		put(ended, "code", json_integer(r->verdict.ended_by.code));
		put_number(ended, "sender_pid", r->verdict.ended_by.sender_pid);
		put(o, "ended_by", ended);
	}
	if (r->verdict.instruction.s) {
		json_t *instruction = json_object();
		put_text(instruction, "text", r->verdict.instruction);
		put_text(instruction, "operands", r->verdict.operands);
		put(o, "instruction", instruction);
	}
	put_text(o, "raised_by", r->verdict.raised_by);
	if (r->verdict.collector.known) {
		json_t *collector = json_object();
		put_number(collector, "generation", r->verdict.collector.generation);
		put_word(collector, "phase", r->verdict.collector.phase);
		if (r->verdict.collector.field) {
			put_hex(collector, "object", r->verdict.collector.object);
			put_text(collector, "type", r->verdict.collector.type);
			put_word(collector, "field", r->verdict.collector.field);
			put_hex(collector, "value", r->verdict.collector.value);
			put_word(collector, "confidence", r->verdict.collector.certain ? "certain" : "likely");
		}
		put(o, "collector", collector);
	}
	if (r->verdict.notes.n) {
		json_t *explain = json_array();
		for (size_t i = 0; i < r->verdict.notes.n; i++) {
			const struct report_note *n = &r->verdict.notes.p[i];
			struct sb b = { 0 };
			if (str_ends(str_of(n->key), "id")) /* the others say themselves what they are of */
				sb_printf(&b, "%s: ", n->key);
			sb_str(&b, n->text);
			push(explain, text_value(sb_view(&b)));
			sb_free(&b);
		}
		put(o, "explain", explain);
	}
	put_text(o, "culprit_module", r->verdict.culprit);
	if (r->verdict.culprit.s && r->verdict.culprit_likely)
		put_bool(o, "culprit_likely", true);
	put_text(o, "group_id", r->verdict.group_id);
	put_text(o, "detail_id", r->verdict.detail_id);
	if (r->verdict.group_id.s && r->verdict.ids_likely)
		put_bool(o, "ids_likely", true);
	if (r->verdict.location)
		put(o, "location", frame_object(r->verdict.location));
	if (r->verdict.called_by)
		put(o, "called_by", frame_object(r->verdict.called_by));
	if (r->verdict.native)
		put(o, "native_location", frame_object(r->verdict.native));
	if (r->verdict.caller)
		put(o, "called_from", frame_object(r->verdict.caller));
	if (r->verdict.caller && r->verdict.called != CALLED_EITHER)
		put_bool(o, "called_directly", r->verdict.called == CALLED_IT);
	if (r->verdict.callee)
		put(o, "called", frame_object(r->verdict.callee));
	return o;
}

static json_t *exception(struct json *j, const struct report_exception *e)
{
	json_t *o = json_object(), *traceback = json_array();
	put_number(o, "tid", e->tid);
	put_word(o, "state", e->uncaught ? "uncaught" : e->raised ? "raised" : "handled");
	if (e->uncaught)
		put_word(o, "confidence", e->likely ? "likely" : "certain");
	put_text(o, "type", e->type);
	put_text(o, "value", e->text);
	for (size_t k = 0; k < e->n_traceback; k++)
		push(traceback, json_integer((json_int_t)j->ids[frame_slot(j, e->traceback[k])].id));
	put(o, "traceback", traceback);
	put_count(o, "frame_count", e->passed);
	return o;
}

static json_t *exception_element(struct json *j, size_t i)
{
	return exception(j, &j->r->exceptions.p[i]);
}

static json_t *thread_element(struct json *j, size_t i)
{
	const struct report_thread *t = &j->r->threads.p[i];
	json_t *o = json_object(), *state = json_array(), *stack = json_array(), *folded = json_array();
	put_number(o, "tid", t->tid);
	if (t->python_id)
		put_hex(o, "python_id", t->python_id);
	put_text(o, "name", t->name);
	if (t->name.s)
		put_word(o, "name_source", t->name_inherited ? "inherited" : t->name_from_kernel ? "kernel" : t->name_left ? "found" : "python");
	put_bool(o, "main", t->main);
	put_number(o, "interpreter", t->interpreter);
	if (t->n_interpreters > 1) {
		json_t *all = json_array();
		for (size_t k = 0; k < t->n_interpreters; k++)
			if (t->interpreters[k] >= 0)
				push(all, json_integer((json_int_t)t->interpreters[k]));
		if (json_array_size(all) > 1)
			put(o, "interpreters", all);
		else
			json_decref(all);
	}
	const struct { bool is; const char *word; } words[] = {
		{ t->crashed, "crashed" }, { t->holds_gil, "gil" }, { t->on_cpu, "running" }, { !t->on_cpu && t->waits_in.s, "waiting" },
		{ t->stale, "stale" }, { t->starting, "starting" }, { t->stopped, "stopped" }, { !t->has_python && !j->r->python.unread && !j->r->python.named, "native" },
	};
	for (size_t k = 0; k < sizeof words / sizeof *words; k++)
		if (words[k].is)
			push(state, text_value(str_of(words[k].word)));
	put(o, "state", state);
	put_text(o, "waits_in", t->waits_in);
	put_text(o, "in_handler", t->in_handler);
	put_count(o, "group", t->group);
	for (size_t run = 0; run < t->n_runs; run++) {
		const struct report_run *piece = &t->runs[run];
		if (piece->repeat > 1) {
			json_t *f = json_object();
			put_count(f, "at", json_array_size(stack));
			put_count(f, "frames", piece->n);
			put_count(f, "repeat", piece->repeat);
			push(folded, f);
		}
		for (size_t k = 0; k < piece->n; k++)
			push(stack, json_integer((json_int_t)j->ids[frame_slot(j, piece->frames[k])].id));
	}
	put(o, "stack", stack);
	put_count(o, "frame_count", t->n_frames);
	if (json_array_size(folded))
		put(o, "folded", folded);
	else
		json_decref(folded);
	put_text(o, "broken", t->broken);
	put_text(o, "native_broken", t->native_broken);
	put_text(o, "unmatched", t->unmatched);
	if (t->handling)
		put(o, "handling", exception(j, t->handling));
	return o;
}

static json_t *group_element(struct json *j, size_t i)
{
	const struct report_group *g = &j->r->groups.p[i];
	json_t *o = json_object(), *threads = json_array(), *tids = json_array();
	put_count(o, "id", i);
	for (size_t k = 0; k < g->n; k++) {
		push(threads, json_integer((json_int_t)g->threads[k]));
		if (j->r->threads.p[g->threads[k]].tid >= 0)
			push(tids, json_integer(j->r->threads.p[g->threads[k]].tid));
	}
	put(o, "threads", threads);
	put(o, "tids", tids);
	return o;
}

static json_t *interp_element(struct json *j, size_t i)
{
	const struct report_interp *in = &j->r->interps.p[i];
	json_t *o = json_object();
	put_number(o, "id", in->id);
	put_bool(o, "main", in->main);
	if (in->gil_known) {
		json_t *gil = json_object();
		put_bool(gil, "locked", in->gil_locked);
		put_number(gil, "holder_tid", in->gil_holder_tid);
		put(o, "gil", gil);
	}
	return o;
}

static json_t *module_element(struct json *j, size_t i)
{
	const struct report_module *m = &j->r->modules.p[i];
	json_t *o = json_object();
	put_text(o, "path", m->path);
	put_text(o, "build_id", m->build_id);
	put_text(o, "file", m->file);
	put_text(o, "debug_file", m->debug_file);
	put_text(o, "disk_build_id", m->disk_build_id);
	put_hex(o, "start", m->start);
	put_hex(o, "end", m->end);
	put_word(o, "symbols", m->symbols);
	return o;
}

static json_t *problem_element(struct json *j, size_t i)
{
	static const char *const severity[] = { [SEVERITY_INFO] = "info", [SEVERITY_WARNING] = "warning", [SEVERITY_ERROR] = "error" };
	const struct report_problem *p = &j->r->problems.p[i];
	json_t *o = json_object();
	put_word(o, "code", p->code);
	put_word(o, "severity", severity[p->severity]);
	put_text(o, "message", p->message);
	put_text(o, "hint", p->hint);
	if (p->details.s) {
		json_t *details = json_array();
		struct str line;
		for (struct str rest = p->details; str_line(&rest, &line);)
			push(details, text_value(line));
		put(o, "details", details);
	}
	return o;
}

int render_json(const struct report *r, const struct render_options *opt, FILE *out)
{
	struct json j = { .r = r, .out = out, .compact = opt->compact };
	for (size_t t = 0; t < r->threads.n; t++)
		for (size_t run = 0; run < r->threads.p[t].n_runs; run++)
			for (size_t k = 0; k < r->threads.p[t].runs[run].n; k++)
				frame_add(&j, r->threads.p[t].runs[run].frames[k]);
	for (size_t i = 0; i < r->threads.n; i++)
		for (size_t k = 0; r->threads.p[i].handling && k < r->threads.p[i].handling->n_traceback; k++)
			frame_add(&j, r->threads.p[i].handling->traceback[k]);
	for (size_t i = 0; i < r->exceptions.n; i++)
		for (size_t k = 0; k < r->exceptions.p[i].n_traceback; k++)
			frame_add(&j, r->exceptions.p[i].traceback[k]);
	fputc('{', out);
	member(&j, "schema", text_value(str_of("pysnap.report/1")));
	member(&j, "tool", tool(r));
	member(&j, "input", input(r));
	member(&j, "process", process(r));
	member(&j, "python", python(r));
	member(&j, "verdict", verdict(r));
	array(&j, "threads", r->threads.n, thread_element);
	array(&j, "frames", j.frames.n, frame_element);
	if (r->exceptions.n || r->verdict.exceptions_known)
		array(&j, "exceptions", r->exceptions.n, exception_element);
	array(&j, "groups", r->groups.n, group_element);
	array(&j, "interpreters", r->interps.n, interp_element);
	if (r->symbols.modules)
		member(&j, "symbols", symbols(r));
	array(&j, "modules", r->modules.n, module_element);
	array(&j, "problems", r->problems.n, problem_element);
	fputs(j.compact ? "}\n" : "\n}\n", out);
	free(j.ids);
	vec_free(&j.frames);
	return ferror(out) ? ERR_IO : 0;
}
