/* Which version a Python may be before anything of it is read. */
#ifndef PYTHON_VERSION_H
#define PYTHON_VERSION_H

#include "python/prove.h"

/* From the paths of mapped files (major and minor) and from Py_Version (exact).  True: there is a sign of a Python; *ret is
 * changed only where its version is known. */
bool version_from_outside(struct image *img, struct modules *mods, struct known_version *ret);
/* From the version text in writable memory, unless *ret is exact already.  True: found. */
bool version_from_text(struct image *img, struct known_version *ret);
/*
 * From what no Python program writes, of this very Python: its debug offsets, Py_Version, the text of Py_GetVersion() (a buffer of C).
 * Its runtime is known, or its types are.  True: *ret is exact, and by says which it was.
 */
bool version_from_own(const struct py *py, struct known_version *ret);
/* Is its file named as that of a debug build ("libpython3.13d.so.1.0", "python3.11-dbg")? */
bool version_names_debug(const struct py *py);

#endif
