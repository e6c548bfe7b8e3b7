/* The threads that -t asks for. */
#ifndef CMD_WANTED_H
#define CMD_WANTED_H

#include "model/report.h"

/* Keeps those of the report that are asked for, by number, by name or, the main one, as "main"; the others go to r->hidden.
 * found[k]: there is one for wanted[k].  Is any left? */
bool wanted_keep(struct report *r, const char *const *wanted, size_t n, bool *found);
/* Why none was left: what was asked for, and which there are.  no_python: why there are no Python names; NULL if there are. */
int wanted_none(const struct report *r, const char *path, const char *const *wanted, size_t n, const struct err *no_python, struct err *err);

#endif
