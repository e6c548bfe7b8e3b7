/* How numbers, times, threads and places are said, the same in every form; all append, nothing is escaped for a format but control characters. */
#ifndef RENDER_WORDS_H
#define RENDER_WORDS_H

#include "model/report.h"

void words_number(struct sb *b, uint64_t n);                     /* "1,234" */
void words_count(struct sb *b, uint64_t n, const char *noun);    /* "1 thread", "1,234 threads" */
void words_size(struct sb *b, uint64_t bytes);                   /* "254 MiB", "1.5 GiB" */
void words_time(struct sb *b, int64_t ns);                       /* "2026-11-30 03:35:41 UTC" */
void words_duration(struct sb *b, int64_t ns);                   /* "31 ms", "0.31 s", "2.3 s", "5 min 12 s" */
void words_thread(struct sb *b, const struct report_thread *t);  /* 19467 "worker-1" */
void words_thread_name(struct sb *b, const struct report_thread *t); /* worker-1, as it is in that; t->name.s is not NULL */
void words_state(struct sb *b, const struct report_thread *t);   /* "CRASHED, holds the GIL"; nothing when nothing is known */
void words_function(struct sb *b, const struct report_frame *f); /* its name, else module+0x1234, its address, "?" */
/* "5 frames in python3.13 and libffi.so.8": of native frames that are folded. */
void words_plumbing(struct sb *b, const struct report_frame *const *frames, size_t n);
void words_place(struct sb *b, const struct report *r, const struct report_frame *f); /* "orders/pricing.py:41", "libc.so.6" */
/* Why a thread without frames shows none. */
/* Is more of its stack unknown than what lies beneath its Python frames?  Then another with the same frames may have a different stack. */
bool words_cut(const struct report_thread *t);
const char *words_no_stack(const struct report *r, const struct report_thread *t);
void words_version(struct sb *b, const struct report *r);        /* "Python 3.13.0 (GIL build)" */
void words_command(struct sb *b, const struct report *r, size_t columns); /* "python3.13 app.py", cut to about so many columns */
void words_facts_file(struct sb *b, const struct report *r);     /* "dumped ... UTC, 2.3 s after start   core 254 MiB, complete", and what symbols lack */
void words_facts_threads(struct sb *b, const struct report *r);  /* "7 threads, 3 different stacks   1 interpreter" */

/* Appends s safely up to so many terminal columns, "..." for the rest. */
void words_clip(struct sb *b, struct str s, size_t columns);

#endif
