/* Which version a Python may be before anything of it is read. */
#ifndef PYTHON_VERSION_H
#define PYTHON_VERSION_H

#include "python/prove.h"

/* From the paths of mapped files (major and minor) and from Py_Version (exact).  True: there is a sign of a Python; *ret is
 * changed only where its version is known. */
bool version_from_outside(struct image *img, struct modules *mods, struct known_version *ret);
/* From the version text in writable memory, unless *ret is exact already.  True: found. */
bool version_from_text(struct image *img, struct known_version *ret);

#endif
