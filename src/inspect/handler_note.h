/* What is told of signal handlers that are not the verdict. */
#ifndef INSPECT_HANDLER_NOTE_H
#define INSPECT_HANDLER_NOTE_H

#include "inspect/parts.h"
#include "inspect/signal_frame.h"

/* What a handler ran on, in words; s NULL: not known.  last: the signal that ended the process.  fault: it was one. */
struct str handler_words(struct target *t, struct report *r, const struct signal_frame *sf, int64_t tid, int last, bool *fault);

/* first: the outermost frame; sure: the thread's native frames lead there. */
struct nested { unsigned depth; bool sure, no_room; struct signal_frame first; };
/*
 * Had handlers, one within the other, filled the stack?  Where one could not be run then (no_room), the kernel ends the process by a
 * SIGSEGV of its own, without an address (force_sigsegv(), Linux kernel/signal.c); where one had used up what was left, it is a fault.
 */
bool handler_nested(struct target *t, const struct report_thread *th, const struct thread *native, struct nested *ret);
void handler_nested_note(struct target *t, struct report *r, const struct thread *native, const struct nested *n);
/* A frame on the stack of a thread that faulted and whose native frames end before it: the fault may have come in its handler. */
void handler_left_note(struct target *t, struct report *r, const struct report_thread *th, const struct thread *native);
/* Which threads other than the one that crashed (NULL: none did) stand in a handler of a fault: a note, and their in_handler. */
void handler_of_others(struct target *t, struct report *r, const struct report_thread *crashed);

#endif
