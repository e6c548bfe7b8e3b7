/* Is what lies where siginfo would be that of the signal that came?  It need not have been written for it. */
#ifndef INSPECT_HANDLER_INFO_H
#define INSPECT_HANDLER_INFO_H

#include "inspect/parts.h"
#include "inspect/signal_frame.h"

enum info_trust { INFO_LEFT /* over from something else, or it might as well be */, INFO_LIKELY, INFO_PROVED };
/* sf->has_info.  last: the signal that ended the process, tid: the thread. */
enum info_trust handler_info(struct target *t, struct report *r, const struct signal_frame *sf, int64_t tid, int last);

/* The one signal that thread tid holds off, and did not before its handler ran; 0: none, or there are several. */
int handler_held_off(struct image *img, const struct signal_frame *sf, int64_t tid);

#endif
