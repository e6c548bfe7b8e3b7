/* Inside src/module: debuginfod-find, run for one file. */
#ifndef MODULE_FETCH_H
#define MODULE_FETCH_H

#include <limits.h>
#include <stdbool.h>

#include "base/err.h"

/*
 * debuginfod-find WHAT HEX, found in PATH and run without a shell, ended after ms; *took: how many it was.  path: where it says that the
 * file is, an absolute one.  0; ERR_GONE: it has none, ERR_LIMIT: too slow, ERR_UNSUPPORTED: there is no such program, ERR_IO.
 */
int fetch_run(const char *what, const char *hex, unsigned ms, unsigned *took, char path[PATH_MAX]) MUST_CHECK;

bool fetch_there(void); /* is there such a program in PATH? */

#endif
