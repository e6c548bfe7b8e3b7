/* The calling thread first, for as long as a process stands still. */
#ifndef SNAP_HASTE_H
#define SNAP_HASTE_H

struct haste { int policy, priority, nice; };

void haste_begin(struct haste *before);
void haste_end(const struct haste *before);

#endif
