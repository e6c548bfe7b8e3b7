/*
 * An end on which a signal handler ran: what the handler interrupted is the crash, not what came later; and where that was a
 * signal from outside there was no crash.
 */
#ifndef INSPECT_HANDLER_H
#define INSPECT_HANDLER_H

#include "inspect/parts.h"
#include "inspect/signal_frame.h"

struct native_stack;
struct native_frame;

struct interrupted {
	int signo, code;
	addr_t addr;              /* of a fault */
	struct regs regs;
	bool has_error;           /* x86: it was a page fault, and error is what the processor said of it */
	uint64_t error;
	bool outside;             /* neither a fault nor its own signal: another process had sent the signal that the handler then raised again */
	bool sender_known;        /* outside: the handler had asked for siginfo */
	bool maybe_own;           /* outside, but another thread of the process may have sent it */
	bool doubtful;            /* the thread's last trap may be of something else (trap.h): then the signal was sent */
	bool untold;              /* whether it was a fault or had been sent */
	bool unproved;            /* told by siginfo that may be left over (handler_info.h) */
	bool by_mask;             /* signo: what the handler holds off, and not what ended the process */
	int64_t other_tid;        /* > 0: the thread of the process that had sent it, where that is another one */
	int64_t sender_pid, sender_uid; /* -1: not known */
};
/*
 * The oldest fault that a handler on th's stack interrupted, or the signal by which the process first tried to end itself, or
 * that came from outside and which the handler only passed on.
 * False: none; a handler of another signal is noted all the same.  Where th's frames do not lead to it, the interrupted one is put among them.
 */
bool handler_find(struct target *t, struct report *r, struct report_thread *th, const struct thread *native, struct interrupted *ret);
enum origin { ORIGIN_FAULT, ORIGIN_OWN, ORIGIN_OUTSIDE, ORIGIN_UNTOLD /* a fault, or sent: nothing tells */ };
/*
 * What a signal came from whose handler had no siginfo: only the processor's last trap is known, what was interrupted, and the
 * signal that ended the process: what re-raises a signal, as faulthandler does, raises the same.  tid: of the thread.
 */
enum origin handler_origin(struct target *t, struct report *r, const struct signal_frame *sf, int64_t tid, int last, struct interrupted *in);
/* The same where it may have siginfo, which is dropped if it is contradicted, or need not be this signal's. */
enum origin handler_origin_of(struct target *t, struct report *r, struct signal_frame *sf, int64_t tid, int last, struct interrupted *in);
/* The native frames of the thread; NULL: none are known. */
const struct native_stack *handler_frames(struct target *t, const struct report_thread *th, const struct native_frame **frames);
/* Do the native frames of the thread lead to it?  1; 0: they end before, or there are none; -1: they are whole and do not. */
int handler_led(struct target *t, const struct report_thread *th, const struct signal_frame *sf);
/*
 * The thread, as the image counts them, that ended the process by a signal which another one got: it stands where it has just sent
 * it (sends; sender > 0: that thread is known), or in a handler of a fault.  0: none.
 */
size_t handler_elsewhere(struct target *t, struct report *r, int64_t sender, bool *sends);
/*
 * The process sent the signal to itself, and no handler was found: why one may yet have passed on what came before.  NULL: none did, by all
 * of its frames, or all of its stack.
 */
const char *handler_unseen(struct target *t, struct report *r, const struct report_thread *th, const struct thread *native);
/* A frame that was left behind by a handler which returned to just where th stands, and by all its registers. */
bool handler_returned(struct image *img, const struct thread *th, struct signal_frame *ret);
/* Is what was interrupted at pc, by th's frames, a part of raise()? */
bool handler_in_raise(const struct report_thread *th, addr_t pc);
/* Line 1's text of a signal from outside. */
struct str handler_sender(struct report *r, const struct interrupted *in);
/* Make the signal of the verdict that one, and say what ended the process later. */
void handler_said(struct report *r, const struct image_facts *f, const struct interrupted *in, const struct report_thread *th);

#endif
