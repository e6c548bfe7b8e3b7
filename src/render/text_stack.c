/* A stack in the text of a report: a line a frame, the source below it with its carets, and what is not known. */
#include "render/text.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "render/carets.h"
#include "render/stack.h"
#include "render/words.h"

/* Source lines and carets */

enum { SOURCE_COLUMNS = 200 };

static size_t safe_columns(struct str s)
{
	struct sb b = { 0 };
	sb_safe(&b, s);
	size_t n = str_columns(sb_view(&b));
	sb_free(&b);
	return n;
}

static bool boundary(struct str s, size_t at)
{
	return at == s.len || ((unsigned char)s.s[at] & 0xc0) != 0x80;
}

static void source(struct text *t, const struct report_frame *f)
{
	struct str line = text_stripped(f->source);
	if (!line.len)
		return;
	size_t indent = (size_t)(line.s - f->source.s);
	/* Marked is [from, to) of the stripped line; columns may be wrong or of another version of the file. */
	size_t from = f->at.col >= 0 ? (size_t)f->at.col : 0, to = f->at.end_col >= 0 ? (size_t)f->at.end_col : 0;
	from = from > indent ? from - indent : 0;
	to = to > indent ? to - indent : 0;
	bool marked = f->at.col >= 0 && f->at.end_line == f->at.line && to <= line.len && from < to && boundary(line, from) && boundary(line, to) &&
		      carets_useful(line, from, to);
	sb_repeat(&t->b, ' ', 8);
	if (!marked || safe_columns((struct str){ line.s, to }) > SOURCE_COLUMNS - 3) {
		words_clip(&t->b, line, SOURCE_COLUMNS);
		sb_char(&t->b, '\n');
		return;
	}
	struct str before = { line.s, from }, mark = { line.s + from, to - from }, after = { line.s + to, line.len - to };
	struct carets c = carets_find(mark);
	const struct { struct str text; char under; } part[3] = {
		{ { mark.s, c.from }, '~' }, { { mark.s + c.from, c.to - c.from }, '^' }, { { mark.s + c.to, mark.len - c.to }, '~' },
	};
	sb_safe(&t->b, before);
	for (size_t i = 0; i < 3; i++) {
		if (part[i].text.len) {
			text_color(t, part[i].under == '~' ? RED : BOLD_RED);
			sb_safe(&t->b, part[i].text);
			text_color(t, RESET);
		}
	}
	words_clip(&t->b, after, SOURCE_COLUMNS - safe_columns((struct str){ line.s, to }));
	sb_char(&t->b, '\n');
	sb_repeat(&t->b, ' ', 8 + safe_columns(before));
	for (size_t i = 0; i < 3; i++) {
		if (part[i].text.len) {
			text_color(t, part[i].under == '~' ? RED : BOLD_RED);
			sb_repeat(&t->b, part[i].under, safe_columns(part[i].text));
			text_color(t, RESET);
		}
	}
	sb_char(&t->b, '\n');
}

/* Frames */

static void python_frame(struct text *t, const struct report_frame *f)
{
	sb_printf(&t->b, "  Py  File ");
	text_color(t, MAGENTA);
	sb_quoted(&t->b, f->file.s ? f->file : STR("?"));
	text_color(t, RESET);
	sb_printf(&t->b, ", line ");
	text_color(t, MAGENTA);
	if (f->at.line > 0)
		sb_printf(&t->b, "%d", f->at.line);
	else
		sb_char(&t->b, '?');
	text_color(t, RESET);
	sb_printf(&t->b, ", in ");
	text_color(t, MAGENTA);
	words_function(&t->b, f);
	text_color(t, RESET);
	sb_char(&t->b, '\n');
	source(t, f);
}

/* The instruction that faulted stands below the frame that it is in. */
static void instruction(struct text *t)
{
	const struct report *r = t->r;
	sb_printf(&t->b, "        => ");
	text_color(t, RED);
	sb_safe(&t->b, r->verdict.instruction);
	text_color(t, RESET);
	if (r->verdict.operands.len) {
		sb_printf(&t->b, "   ");
		sb_safe(&t->b, r->verdict.operands);
	}
	sb_char(&t->b, '\n');
}

static void native_frame(struct text *t, const struct report_frame *f, bool faulted)
{
	sb_printf(&t->b, "  C   ");
	words_function(&t->b, f);
	if (f->into && f->function.len && t->opt->native)
		sb_printf(&t->b, "+%" PRIu64, f->into);
	if (f->file.s) {
		sb_printf(&t->b, "  ");
		words_place(&t->b, t->r, f);
	}
	if (f->module.s && f->function.len) {
		sb_printf(&t->b, "  ");
		sb_safe(&t->b, str_base(f->module));
	}
	if (f->build_id.s) {
		sb_printf(&t->b, "  (build-id ");
		sb_safe(&t->b, f->build_id);
		sb_char(&t->b, ')');
	}
	if (f->inlined)
		sb_printf(&t->b, "  (inlined)");
	if (f->jit)
		sb_printf(&t->b, " at 0x%" PRIx64, f->pc);
	if (f->signal)
		sb_printf(&t->b, "  (a signal came in the frame %s)", t->opt->newest_first ? "below" : "above");
	if (f->likely && f->found_by)
		sb_printf(&t->b, "  (likely: found by %s)", f->found_by);
	sb_char(&t->b, '\n');
	if (faulted)
		instruction(t);
}

static void plumbing(struct text *t, const struct stack_item *item)
{
	sb_printf(&t->b, "  C   ... ");
	words_plumbing(&t->b, item->frames, item->n);
	sb_printf(&t->b, " (-n shows %s)\n", item->n == 1 ? "it" : "them");
}

static void unknown(struct text *t, const char *what, struct str why)
{
	if (!why.s)
		return;
	text_color(t, YELLOW);
	sb_printf(&t->b, "  ... %s: ", what);
	sb_safe(&t->b, why);
	text_color(t, RESET);
	sb_char(&t->b, '\n');
}

static void stack_item(struct text *t, const struct stack_item *item, const struct report_frame *faulted)
{
	switch (item->kind) {
	case STACK_FRAME:
		if (item->frame->python)
			python_frame(t, item->frame);
		else
			native_frame(t, item->frame, item->frame == faulted);
		break;
	case STACK_PLUMBING: plumbing(t, item); break;
	case STACK_REPEAT:
		sb_printf(&t->b, "  ... the ");
		if (item->n > 1)
			sb_printf(&t->b, "%" PRIu64 " frames", item->n);
		else
			sb_printf(&t->b, "frame");
		sb_printf(&t->b, " above ");
		words_number(&t->b, item->repeat);
		sb_printf(&t->b, " times more\n");
		break;
	case STACK_GAP:
		sb_printf(&t->b, "  ... ");
		words_count(&t->b, item->n, "frame");
		sb_printf(&t->b, " left out (--frames=0 shows all)\n");
		break;
	}
	if (t->b.len > 1 << 16)
		text_flush(t);
}

/* A thread that goes from one interpreter into another. */
static void crossing(struct text *t, const struct report_thread *th, const struct stack_item *item, int64_t *in)
{
	if (item->kind != STACK_FRAME || !item->frame->python || th->n_interpreters < 2 || item->frame->interpreter == *in)
		return;
	*in = item->frame->interpreter;
	sb_printf(&t->b, "  --- in interpreter %" PRId64 ":\n", *in);
}

void text_stack(struct text *t, const struct report_thread *th)
{
	const struct report *r = t->r;
	const bool matters = r->verdict.instruction.len && r->verdict.thread < r->threads.n && th == &r->threads.p[r->verdict.thread];
	const struct report_frame *faulted = !matters ? NULL : r->verdict.native ? r->verdict.native : r->verdict.location;
	struct stack_walk w = stack_walk(r, th, t->opt->frames, !t->opt->native);
	int64_t in = -1;
	if (t->opt->newest_first) {
		struct stack_items items = { 0 };
		unknown(t, "native frames, then Python ones, which could not be matched with them", th->unmatched);
		stack_newest_first(&w, &items);
		for (size_t i = 0; i < items.n; i++) {
			crossing(t, th, &items.p[i], &in);
			stack_item(t, &items.p[i], faulted);
		}
		vec_free(&items);
		unknown(t, "older native frames are unknown", th->native_broken);
		unknown(t, "older frames are unknown", th->broken);
		return;
	}
	unknown(t, "older frames are unknown", th->broken);
	unknown(t, "older native frames are unknown", th->native_broken);
	unknown(t, "Python frames, then native ones, which could not be matched with them", th->unmatched);
	for (struct stack_item item; stack_next(&w, &item);) {
		crossing(t, th, &item, &in);
		stack_item(t, &item, faulted);
	}
}
