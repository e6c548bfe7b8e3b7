/* Reports built in memory: one for each thing that rendering must get right.  Their goldens lie in fixtures/golden. */
#ifndef BUILD_REPORT_H
#define BUILD_REPORT_H

#include "model/report.h"

struct built_report {
	const char *name;
	struct report *(*build)(void);
	bool in_json;              /* has a JSON golden too (the one of 1,000 threads would be large) */
};
extern const struct built_report built_reports[]; /* up to name == NULL */

/* A Python frame; col, end_col -1 if not known.  source NULL: none. */
const struct report_frame *build_frame(struct report *r, const char *file, int line, const char *function, int col, int end_col, const char *source);
struct report_thread *build_thread(struct report *r, int64_t tid, const char *name);
/* Folds the frames into the last thread. */
void build_stack(struct report *r, const struct report_frame *const *frames, size_t n);
/* Two frames by turns, n in all, for how folding and rendering scale; plain: n distinct frames instead. */
struct report *build_deep(size_t n, bool plain);
struct report *build_threads(size_t n, size_t stacks);

#endif
