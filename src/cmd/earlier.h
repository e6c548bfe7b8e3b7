/* What is there already under the name that a report is to have. */
#ifndef CMD_EARLIER_H
#define CMD_EARLIER_H

#include "base/err.h"
#include "base/str.h"

/* May a report take its place?  Nothing, an empty file and an earlier report may be replaced, and what is no file at all is written into; else ERR_EXISTS. */
int earlier_check(const char *path, struct err *err) MUST_CHECK;

/* Does a file that begins so look like a report in any of the forms?  For tests. */
bool earlier_is_report(struct str head);

#endif
