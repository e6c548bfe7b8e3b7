/* The inspections by name, one a file; and what they share. */
#ifndef INSPECT_PARTS_H
#define INSPECT_PARTS_H

#include <string.h>

#include "inspect/target.h"

extern const struct inspection inspection_facts;   /* input, process, python, modules; what is missing */
extern const struct inspection inspection_threads; /* interpreters, threads, Python stacks */
extern const struct inspection inspection_verdict; /* what stopped it and where */

/* Once it is known whether a thread crashed: the one that matters first. */
void threads_sort(struct report *r);

/* "4.2 GiB", "118 MiB", "57 KiB", "12 bytes"; in the report's arena, NUL-terminated. */
const char *size_text(struct arena *a, uint64_t bytes);

/* Fill r->input.lost of a truncated core; then it as text: "34 of 46 (thread stacks: 5 of 5; data of 9 files: libc.so.6, ...)". */
void lost_find(struct target *t, struct report *r);
const char *lost_text(const struct report *r);

/*
 * What is known of an address that a thread (NULL: not known) could not access: "null pointer", "12 bytes past the end of
 * libfoo.so", "stack overflow: ..."; s NULL where nothing is.
 */
struct str address_words(struct image *img, struct arena *a, addr_t addr, const struct thread *th);

/* The exceptions of a thread: the one being raised, the one being handled. */
void exceptions_add(struct target *t, struct report *r, const struct report_thread *th);

/* Fill r->verdict.group_id and, where it can be known, detail_id: of a crash of thread t at pc (formats/crash_id.md). */
void crash_ids(struct image *img, struct report *r, const struct report_thread *t, addr_t pc);

/* The first module above the C library, libffi and the interpreter, from the crash out to the first Python frame; s NULL if none. */
struct str crash_culprit(const struct report_thread *t);

#endif
