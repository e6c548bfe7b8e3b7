/* What the text of a report is written with: its colours, its buffer, and its stacks. */
#ifndef RENDER_TEXT_H
#define RENDER_TEXT_H

#include "render/render.h"

/* The colours of Python 3.13's tracebacks, from the first eight. */
#define RED "\033[31m"
#define BOLD_RED "\033[1;31m"
#define MAGENTA "\033[35m"
#define YELLOW "\033[33m"
#define BOLD_YELLOW "\033[1;33m"
#define BOLD_GREEN "\033[1;32m"
#define BOLD "\033[1m"
#define RESET "\033[0m"

struct text {
	const struct report *r;
	const struct render_options *opt;
	FILE *out;
	struct sb b; /* written out and emptied piece by piece */
};

void text_color(struct text *t, const char *code); /* nothing where colours are not wanted */
void text_flush(struct text *t);
struct str text_stripped(struct str s);            /* a source line without the white space around it */
/* All frames of a thread that are shown, with their source lines, and what is not known of them. */
void text_stack(struct text *t, const struct report_thread *th);

#endif
