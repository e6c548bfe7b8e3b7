/* A report -> text, JSON, SVG.  Renderers know only the model. */
#ifndef RENDER_RENDER_H
#define RENDER_RENDER_H

#include <stdio.h>

#include "model/report.h"

struct render_options {
	bool color;
	unsigned width;           /* columns of the terminal; 0: as wide as a line stays readable */
	uint64_t frames;          /* at most so many a thread, first and last half kept; 0: all.  JSON always has all, folded */
	bool compact;             /* JSON: a report a line (several inputs) */
	bool native;              /* every native frame; else the interpreter's plumbing is folded, and no part of graphs */
	bool newest_first;        /* text: stacks the other way round */
	bool all_names;           /* text: every thread of those with one stack, every limit and its code, the whole command line; else of many the first and the last */
	bool no_verdict, no_threads, modules; /* text: without these parts, with that one */
};
struct renderer {
	const char *name, *suffix;         /* "json", ".json" */
	int (*render)(const struct report *r, const struct render_options *opt, FILE *out); /* 0 or ERR_IO */
	/* Of one thread by index, for "--format X -o DIR/"; NULL: the renderer draws only whole reports. */
	int (*render_thread)(const struct report *r, size_t thread, const struct render_options *opt, FILE *out);
	bool single;                       /* two of them one after the other are not of its format */
};
extern const struct renderer *const renderers[]; /* NULL-terminated */
const struct renderer *renderer_find(const char *name);
const struct renderer *renderer_for_file(const char *path); /* by suffix; NULL if none fits */

#endif
