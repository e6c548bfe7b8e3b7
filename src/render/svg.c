/*
 * A flame graph as one static SVG, no script: the process at the bottom, callees above their callers, width = number of threads,
 * and on top of each stack what its threads do.  Or one thread over the whole width.
 */
#include "render/forms.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "render/stack.h"
#include "render/words.h"

enum { WIDTH = 1200, MARGIN = 10, ROW = 19, BOX = 18, TITLE_ROW = 24, TEXT_ROW = 18, LEGEND = 34, WARM = 12 };
static const double CHAR_WIDTH = 7.25; /* of the 12 px monospace font, generously */

enum node_kind { NODE_ROOT, NODE_FRAME, NODE_GAP, NODE_NOTE, NODE_RUNNING, NODE_WAITING, NODE_CRASHED };

struct node {
	enum node_kind kind;
	const struct report_frame *frame; /* NODE_FRAME */
	uint64_t n;                       /* NODE_FRAME: stands for so many; NODE_GAP: frames left out */
	struct str label;                 /* the others; in the graph's arena */
	uint64_t hash;
	size_t parent, depth;
	uint64_t threads, start, used;    /* width, place from the left, and how much of it children have; all in threads */
	size_t first, last;               /* its first and last thread */
};

struct graph {
	const struct report *r;
	const struct render_options *opt;
	struct arena *arena;
	struct VEC(struct node) nodes;    /* callers before callees */
	size_t *slots, room;              /* nodes by parent and content: index + 1, open addressing */
	size_t rows;
	bool single, crash;               /* of one thread; the title tells of a crash */
	struct str color_of[WARM];         /* the file that has this one of the warm colours */
	FILE *out;
};

/* Building */

static uint64_t mix(uint64_t h, uint64_t v)
{
	h = (h ^ v) * 0x9e3779b97f4a7c15u;
	return h ^ h >> 29;
}

static uint64_t hash_str(uint64_t h, struct str s)
{
	for (size_t i = 0; i < s.len; i++)
		h = (h ^ (uint8_t)s.s[i]) * 0x100000001b3u;
	return mix(h, s.len);
}

static bool node_same(const struct node *a, const struct node *b)
{
	if (a->hash != b->hash || a->parent != b->parent || a->kind != b->kind || a->n != b->n || !str_eq(a->label, b->label))
		return false;
	const struct report_frame *f = a->frame, *g = b->frame;
	return f == g || (f && g && f->python == g->python && f->at.line == g->at.line && str_eq(f->function, g->function) &&
			  str_eq(f->file, g->file) && str_eq(f->module, g->module) &&
			  (f->function.s || f->pc == g->pc));
}

static void slots_grow(struct graph *g)
{
	free(g->slots);
	g->room = g->room ? g->room * 2 : 1024;
	g->slots = xcalloc(g->room, sizeof *g->slots);
	for (size_t i = 0; i < g->nodes.n; i++) {
		size_t at = g->nodes.p[i].hash & (g->room - 1);
		while (g->slots[at])
			at = (at + 1) & (g->room - 1);
		g->slots[at] = i + 1;
	}
}

/* The child of want.parent that is like want, made if there is none yet; one thread more goes through it. */
static size_t child(struct graph *g, struct node want, size_t thread)
{
	uint64_t h = hash_str(mix(mix(want.parent, want.kind), want.n), want.label);
	if (want.frame)
		h = mix(hash_str(hash_str(mix(h, (uint64_t)want.frame->at.line), want.frame->function), want.frame->file), want.frame->function.s ? 0 : want.frame->pc);
	want.hash = h;
	if (g->nodes.n * 2 >= g->room)
		slots_grow(g);
	size_t at = h & (g->room - 1);
	while (g->slots[at] && !node_same(&g->nodes.p[g->slots[at] - 1], &want))
		at = (at + 1) & (g->room - 1);
	if (!g->slots[at]) {
		want.first = thread;
		want.label = str_dup(g->arena, want.label);
		want.depth = g->nodes.n ? g->nodes.p[want.parent].depth + 1 : 0;
		*vec_push(&g->nodes) = want;
		g->slots[at] = g->nodes.n;
		if (want.depth + 1 > g->rows)
			g->rows = want.depth + 1;
	}
	size_t i = g->slots[at] - 1;
	g->nodes.p[i].threads++;
	g->nodes.p[i].last = thread;
	return i;
}

static size_t note(struct graph *g, size_t parent, enum node_kind kind, const struct sb *label, size_t thread)
{
	return child(g, (struct node){ .kind = kind, .label = sb_view(label), .parent = parent }, thread);
}

/* What the thread does, on top of its stack. */
static void state(struct graph *g, size_t parent, size_t thread)
{
	const struct report_thread *t = &g->r->threads.p[thread];
	CLEANUP(cleanup_sb) struct sb b = { 0 };
	if (t->crashed) {
		sb_printf(&b, "CRASHED");
		if (g->r->verdict.signal.name.s) {
			sb_printf(&b, ": ");
			sb_safe(&b, g->r->verdict.signal.name);
		}
		note(g, parent, NODE_CRASHED, &b, thread);
		return;
	}
	words_state(&b, t);
	if (b.len)
		note(g, parent, t->on_cpu ? NODE_RUNNING : t->waits_in.s ? NODE_WAITING : NODE_NOTE, &b, thread);
}

static void add_thread(struct graph *g, size_t thread)
{
	const struct report_thread *t = &g->r->threads.p[thread];
	size_t at = child(g, (struct node){ .kind = NODE_ROOT }, thread);
	if (t->broken.s || !t->n_runs) {
		CLEANUP(cleanup_sb) struct sb b = { 0 };
		if (t->broken.s) {
			sb_printf(&b, "... older frames are unknown: ");
			sb_safe(&b, t->broken);
		} else {
			sb_printf(&b, "%s", words_no_stack(g->r, t));
		}
		at = note(g, at, NODE_NOTE, &b, thread);
	}
	struct stack_walk w = stack_walk(g->r, t, g->opt->frames, !g->opt->native);
	for (struct stack_item item; stack_next(&w, &item);) {
		if (item.kind == STACK_FRAME)
			at = child(g, (struct node){ .kind = NODE_FRAME, .frame = item.frame, .n = item.repeat, .parent = at }, thread);
		else if (item.kind == STACK_GAP)
			at = child(g, (struct node){ .kind = NODE_GAP, .n = item.n, .parent = at }, thread);
	}
	state(g, at, thread);
}

/* From left to right in the order of the threads; a caller's place is known before its callees'. */
static void place(struct graph *g)
{
	for (size_t i = 1; i < g->nodes.n; i++) {
		struct node *node = &g->nodes.p[i], *parent = &g->nodes.p[node->parent];
		node->start = parent->start + parent->used;
		parent->used += node->threads;
	}
}

/* Drawing */

/* Safe text into XML: what XML 1.0 cannot hold at all (U+FFFE, U+FFFF; the control characters are gone already) as an escape. */
static void write_xml(FILE *out, struct str s)
{
	for (size_t i = 0, n; i < s.len; i += n) {
		uint32_t cp = str_decode(s.s + i, s.len - i, &n);
		switch (cp) {
		case '&': fputs("&amp;", out); break;
		case '<': fputs("&lt;", out); break;
		case '>': fputs("&gt;", out); break;
		case '"': fputs("&quot;", out); break;
		case '\'': fputs("&#39;", out); break;
		case 0xfffe:
		case 0xffff: fprintf(out, "\\u%04x", (unsigned)cp); break;
		default: fwrite(s.s + i, 1, n, out);
		}
	}
}

static size_t columns_in(double width)
{
	return width < CHAR_WIDTH ? 0 : (size_t)(width / CHAR_WIDTH);
}

/* A line of text, cut to the width; s is safe already. */
static void write_text(FILE *out, double x, double y, double width, const char *attributes, struct str s)
{
	CLEANUP(cleanup_sb) struct sb b = { 0 };
	words_clip(&b, s, columns_in(width));
	fprintf(out, "<text x=\"%.1f\" y=\"%.1f\"%s>", x, y, attributes);
	write_xml(out, sb_view(&b));
	fputs("</text>", out);
}

/* Warm and light enough for black text, neighbours unlike. */
static const char warm[][8] = { "#ffd166", "#f79d65", "#f7d4a8", "#e9c46a", "#f2b5a0", "#ffe08a", "#f4a261", "#d9b98a", "#ffb347", "#f5c6aa", "#eeaa7b", "#f0e0a0" };
_Static_assert(sizeof warm / sizeof *warm == WARM, "a file for each colour");

/* All frames of a file are of one colour, and each file of another as long as there are enough; mostly the same in every graph. */
static const char *file_color(struct graph *g, struct str file)
{
	size_t first = hash_str(0, file) % WARM;
	for (size_t i = 0; i < WARM; i++) {
		struct str *owner = &g->color_of[(first + i) % WARM];
		if (!owner->s)
			*owner = file.s ? file : STR("");
		if (str_eq(*owner, file))
			return warm[(first + i) % WARM];
	}
	return warm[first];
}

static const char *fill(struct graph *g, const struct node *node)
{
	switch (node->kind) {
	case NODE_ROOT: return "#d9d9d9";
	case NODE_FRAME:
		if (!node->frame->python)
			return "#b8c4ce";
		return file_color(g, node->frame->file);
	case NODE_GAP:
	case NODE_NOTE: return "#eeeeee";
	case NODE_RUNNING: return "#98d19a";
	case NODE_WAITING: return "#8cbbe8";
	case NODE_CRASHED: return "#c62828";
	}
	return "#eeeeee";
}

static void count(struct sb *b, const struct node *node)
{
	if (node->threads > 1) {
		sb_printf(b, " (");
		words_number(b, node->threads);
		sb_char(b, ')');
	}
}

static void times(struct sb *b, const struct node *node)
{
	if (node->n > 1) {
		sb_printf(b, " \xc3\x97");
		words_number(b, node->n);
	}
}

static void gap(struct sb *b, const struct node *node)
{
	sb_printf(b, "... ");
	words_count(b, node->n, "frame");
	sb_printf(b, " left out");
}

/* What stands in a box of so many columns: the most telling first, since the rest may be cut. */
static void label(const struct graph *g, const struct node *node, size_t columns, struct sb *b)
{
	size_t before;
	switch (node->kind) {
	case NODE_ROOT:
		words_command(b, g->r, 80);
		count(b, node);
		break;
	case NODE_FRAME:
		words_function(b, node->frame);
		times(b, node);
		count(b, node);
		sb_printf(b, "  ");
		before = b->len;
		words_place(b, g->r, node->frame);
		if (str_columns(sb_view(b)) > columns && node->frame->file.s) { /* the name tells more than half the path */
			struct report_frame shorter = *node->frame;
			shorter.file = str_base(shorter.file);
			b->len = before;
			words_place(b, g->r, &shorter);
		}
		if (str_columns(sb_view(b)) > columns && node->frame->at.line > 0) { /* and the line more than half the name */
			b->len = before - 1;
			sb_printf(b, ":%d", node->frame->at.line);
			break;
		}
		if (node->frame->source.len && columns > str_columns(sb_view(b)) + 10) { /* not to cut the place for it */
			struct str s = node->frame->source;
			while (s.len && (*s.s == ' ' || *s.s == '\t'))
				s = (struct str){ s.s + 1, s.len - 1 };
			sb_printf(b, "   ");
			words_clip(b, s, 120);
		}
		break;
	case NODE_GAP:
		gap(b, node);
		count(b, node);
		break;
	default:
		sb_str(b, node->label);
		count(b, node);
	}
}

/* What hovering shows: all there is. */
static void hover(const struct graph *g, const struct node *node, struct sb *b)
{
	const struct report_frame *f = node->frame;
	if (node->kind == NODE_FRAME) {
		if (f->qualname.s)
			sb_safe(b, f->qualname);
		else
			words_function(b, f);
		times(b, node);
		if (f->file.s) {
			sb_char(b, '\n');
			sb_safe(b, f->file);
			if (f->at.line > 0)
				sb_printf(b, ":%d", f->at.line);
		}
		if (f->module.s) {
			sb_char(b, '\n');
			sb_safe(b, f->module);
		}
		if (f->source.s) {
			sb_char(b, '\n');
			words_clip(b, f->source, 240);
		}
	} else {
		label(g, node, SIZE_MAX, b);
	}
	sb_char(b, '\n');
	words_count(b, node->threads, "thread");
	sb_printf(b, ": ");
	words_thread(b, &g->r->threads.p[node->first]);
	if (node->threads > 1) {
		sb_printf(b, node->threads > 2 ? " ... " : ", ");
		words_thread(b, &g->r->threads.p[node->last]);
	}
}

static void draw_node(struct graph *g, const struct node *node, double bottom)
{
	double unit = (double)(WIDTH - 2 * MARGIN) / (double)g->nodes.p[0].threads;
	double x = MARGIN + (double)node->start * unit, w = (double)node->threads * unit, y = bottom - (double)(node->depth + 1) * ROW;
	if (w < 0.2)
		return; /* nobody can see it */
	CLEANUP(cleanup_sb) struct sb b = { 0 };
	hover(g, node, &b);
	/* An inner svg clips, so that no font however wide gets out of the box. */
	fprintf(g->out, "<svg x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%d\"><title>", x, y, w > 2 ? w - 1 : w, BOX);
	write_xml(g->out, sb_view(&b));
	fprintf(g->out, "</title><rect width=\"100%%\" height=\"100%%\" fill=\"%s\"/>", fill(g, node));
	size_t columns = columns_in(w - 8);
	if (columns >= 3) {
		b.len = 0;
		label(g, node, columns, &b);
		write_text(g->out, 4, 13, w - 8, node->kind == NODE_CRASHED ? " fill=\"#fff\" font-weight=\"bold\"" : "", sb_view(&b));
	}
	fputs("</svg>\n", g->out);
}

static void draw_legend(const struct graph *g, double y)
{
	enum { SHOWN = 3 }; /* of the warm ones */
	static const struct { const char *fill, *text; } keys[] = {
		{ NULL, "Python (by file)" }, { "#b8c4ce", "native" }, { "#8cbbe8", "waiting" }, { "#98d19a", "running" }, { "#c62828", "crashed" },
		{ "#eeeeee", "remark" },
	};
	double x = MARGIN;
	for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
		size_t n = 0;
		for (size_t k = 0; k < WARM && n < SHOWN; k++) { /* those that frames have here */
			if (keys[i].fill ? k : !g->color_of[k].s)
				continue;
			x += n++ ? 12 : 0;
			fprintf(g->out, "<rect x=\"%.1f\" y=\"%.1f\" width=\"11\" height=\"11\" fill=\"%s\"/>", x, y, keys[i].fill ? keys[i].fill : warm[k]);
		}
		if (!n)
			continue;
		write_text(g->out, x + 16, y + 10, 200, "", str_of(keys[i].text));
		x += 16 + (double)strlen(keys[i].text) * CHAR_WIDTH + 20;
	}
	const char *how = g->single ? "newest frame on top" : "width = number of threads, newest frame on top";
	write_text(g->out, x, y + 10, 700, "", str_of(how));
	fputc('\n', g->out);
}

static void draw(struct graph *g, struct str title)
{
	const struct report *r = g->r;
	struct sb lines[4] = { 0 };
	size_t n = 0;
	words_command(&lines[n], r, 90);
	if (r->process.pid >= 0)
		sb_printf(&lines[n], "   pid %" PRId64, r->process.pid);
	sb_printf(&lines[n], "   ");
	words_version(&lines[n++], r);
	words_facts_file(&lines[n++], r);
	words_facts_threads(&lines[n++], r);
	if (r->problems.n) {
		const struct report_problem *worst = r->problems.p;
		for (size_t i = 1; i < r->problems.n; i++)
			if (r->problems.p[i].severity > worst->severity)
				worst = &r->problems.p[i];
		words_count(&lines[n], r->problems.n, "limit");
		sb_printf(&lines[n], " of this report%s: ", r->problems.n > 1 ? ", as" : "");
		sb_safe(&lines[n++], worst->message);
	}
	double bottom = MARGIN + TITLE_ROW + (double)n * TEXT_ROW + 8 + (double)g->rows * ROW, height = bottom + LEGEND;
	fprintf(g->out, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
		"<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%.0f\" viewBox=\"0 0 %d %.0f\">\n<title>", WIDTH, height, WIDTH, height);
	write_xml(g->out, title);
	fputs("</title>\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n"
	      "<g font-family=\"'DejaVu Sans Mono', Menlo, Consolas, monospace\" font-size=\"12\" fill=\"#222\" xml:space=\"preserve\">\n", g->out);
	const char *title_style = g->crash ? " font-size=\"16\" font-weight=\"bold\" fill=\"#c62828\"" : " font-size=\"16\" font-weight=\"bold\"";
	write_text(g->out, MARGIN, MARGIN + 16, (WIDTH - 2 * MARGIN) * 0.75, title_style, title);
	fputc('\n', g->out);
	for (size_t i = 0; i < n; i++) {
		write_text(g->out, MARGIN, MARGIN + TITLE_ROW + (double)i * TEXT_ROW + 13, WIDTH - 2 * MARGIN, " fill=\"#555\"", sb_view(&lines[i]));
		fputc('\n', g->out);
		sb_free(&lines[i]);
	}
	for (size_t i = 0; i < g->nodes.n; i++)
		draw_node(g, &g->nodes.p[i], bottom);
	draw_legend(g, bottom + 12);
	fputs("</g>\n</svg>\n", g->out);
}

static int finish(struct graph *g, struct sb *title)
{
	place(g);
	draw(g, sb_view(title));
	sb_free(title);
	vec_free(&g->nodes);
	free(g->slots);
	arena_free(g->arena);
	return ferror(g->out) ? ERR_IO : 0;
}

int render_svg(const struct report *r, const struct render_options *opt, FILE *out)
{
	struct graph g = { .r = r, .opt = opt, .arena = arena_new(), .out = out, .crash = r->verdict.kind == VERDICT_CRASH };
	for (size_t i = 0; i < r->threads.n; i++)
		add_thread(&g, i);
	struct sb title = { 0 };
	sb_safe(&title, r->verdict.word);
	if (r->verdict.title.len) {
		sb_printf(&title, "  ");
		sb_safe(&title, r->verdict.title);
	}
	return finish(&g, &title);
}

int render_svg_thread(const struct report *r, size_t thread, const struct render_options *opt, FILE *out)
{
	if (thread >= r->threads.n)
		return ERR_ABSENT;
	struct graph g = { .r = r, .opt = opt, .arena = arena_new(), .out = out, .single = true, .crash = r->threads.p[thread].crashed };
	add_thread(&g, thread);
	struct sb title = { 0 };
	sb_printf(&title, "Thread ");
	words_thread(&title, &r->threads.p[thread]);
	struct sb what = { 0 };
	words_state(&what, &r->threads.p[thread]);
	if (what.len)
		sb_printf(&title, ": %.*s", (int)what.len, what.s);
	sb_free(&what);
	return finish(&g, &title);
}
