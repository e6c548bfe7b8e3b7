/* The inspections by name, one a file; and what they share. */
#ifndef INSPECT_PARTS_H
#define INSPECT_PARTS_H

#include <string.h>

#include "inspect/target.h"

extern const struct inspection inspection_facts;   /* input, process, python, modules; what is missing */
extern const struct inspection inspection_threads; /* interpreters, threads, Python stacks */
extern const struct inspection inspection_verdict; /* what stopped it and where */

/* The folder the process was started in as its environment had it; len 0: not known.  In the target's arena. */
/* Tell the opener of sources; say afterwards, where it made a difference, that another folder may be the right one. */
void folders_open(struct target *t);
void folders_doubt(struct target *t, struct report *r);

/* The command line, joined by spaces: the best that is proved.  in: the main interpreter; NULL: none is known.  s NULL: not known. */
struct str arguments_of(struct target *t, const struct py_interp *in, struct arena *a);

/*
 * Once it is known whether a thread crashed: the one that matters first.  one_meant: it crashed, or the signal was sent to it alone; else
 * the one that held the GIL, or ran.
 */
void threads_sort(struct report *r, bool one_meant);
/* Mark the kernel's names that are another thread's Python name. */
void threads_inherited_names(struct report *r);

/* NULL: it is none that is known. */
const char *syscall_name(const struct abi *abi, int64_t nr);
/* The one that a thread waits in, by its number (-1: runs, or not known) and where it waits in the kernel; s NULL: not known. */
struct str syscall_waits(const struct abi *abi, int64_t nr, struct str wchan);

/* How to have the whole file where it is cut or damaged; otherwise (may be NULL) where it is whole. */
bool module_absent(const struct target *t, const struct module *m); /* not here, or not used: the report lists it as that */
const char *whole_or(const struct target *t, const char *otherwise);
#define FETCH_PROGRAM "apt install debuginfod, or dnf install elfutils-debuginfod-client"
#define NOT_THERE "nothing lifts this: the memory is not in the file, or it was overwritten before"

/* Say once what a damaged file lacks; that of a .pz shows when it is read. */
void input_damage(struct target *t, struct report *r);

/* Fill r->input.lost of a truncated core; then it as text: "34 of 46: with the stacks of 5 of 5 threads 5, data of
 * files 29 (libc.so.6, ...)". */
void lost_find(struct target *t, struct report *r);
const char *lost_text(const struct report *r);

/* The exceptions of a thread that crashed with these registers: the one being raised, the one being handled; else one that is being printed. */
void exceptions_add(struct target *t, struct report *r, const struct report_thread *th, const struct regs *regs);
/* What every thread that has not crashed is handling. */
void exceptions_handling(struct target *t, struct report *r);

/* What of a crash its ids tell apart: nothing known; an instruction; one that is where no code is, near 0 or elsewhere; the process itself. */
enum crash_kind { CRASH_UNTOLD, CRASH_FAULT, CRASH_NULL, CRASH_WILD, CRASH_SENT, CRASH_OVERFLOW };
/* Fill r->verdict.group_id and, where it can be known, detail_id: of a crash of thread t at pc (formats/crash_id.md); else a note says why not. */
void crash_ids(struct image *img, struct report *r, const struct report_thread *t, addr_t pc, enum crash_kind kind);

/* The first module above the C library, libffi and the interpreter, from the crash at pc out to the first Python frame; s NULL if none.
 * no_code: what is at pc is a file's data, which is not to blame for being called.  *likely: a frame on the way to it was found by a
 * search of the stack, and is not `sure`. */
struct str crash_culprit(const struct report_thread *t, addr_t pc, bool no_code, const struct report_frame *sure, bool *likely);

/* Is a module of this base name none of those that only carry out what others asked for (the C library, the interpreter, ...)? */
bool module_is_other(struct str base);

/* The frames of a thread, innermost first; what repeats is given once. */
struct inward {
	const struct report_thread *t;
	size_t run, k, scanned;
};
struct inward inward_all(const struct report_thread *t);
/* From the native frame that stands at pc (which may be 0: a call of a null pointer) on; from the innermost where none does. */
struct inward inward_from(const struct report_thread *t, addr_t pc);
/* The same, from the one that a signal interrupted there; inward_from does so if the thread is `handled`. */
struct inward inward_interrupted(const struct report_thread *t, addr_t pc);
/* For Python frames: where the evaluation loop itself stands at pc, what it evaluates lies inside of it, and comes first. */
struct inward inward_python_from(const struct report_thread *t, addr_t pc);
const struct report_frame *inward_next(struct inward *w); /* NULL: the end */

/* Is it, as a code object names it, a source file of Python's own library, and not of a package that was installed? */
bool python_library(struct str file);
/* The innermost Python frame from where the thread crashed (pc as inward_python_from's) that is not of Python's library; NULL if none. */
const struct report_frame *outside_library(const struct report_thread *th, addr_t pc);

/* "SIGABRT sent by pid 99 (uid 0)", of a signal that has a sender. */
struct str verdict_sender(struct report *r, const struct image_facts *f);

/* The verdict is likely only, and so is what ids are made of: signal, place, thread or functions of the crash. */
void verdict_unsure(struct report *r, const char *why);

/* A line that explains the verdict. */
void verdict_note(struct report *r, const char *key, struct str text);

#endif
