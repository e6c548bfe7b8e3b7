/* Names of C++ and Rust functions as they are written, where libiberty was there when this was built. */
#ifndef MODULE_DEMANGLE_H
#define MODULE_DEMANGLE_H

#include "base/str.h"

enum { DEMANGLED_MAX = 2048 };

/*
 * symbol without its parameters, NUL-terminated; false: it is not mangled, not well, or would not fit.  libiberty reads what the input
 * made: only a process that may die of it calls this.
 */
bool demangle(struct str symbol, char *ret, size_t room);

#endif
