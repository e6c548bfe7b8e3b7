/* The name of a C++ type as its type_info has it ("N4shop5ErrorE"), in words. */
#ifndef INSPECT_CXX_TYPE_H
#define INSPECT_CXX_TYPE_H

#include "base/str.h"

/* "St13runtime_error" -> "std::runtime_error"; as it is where it has what is not known here. */
struct str cxx_type_words(struct arena *a, struct str mangled);

#endif
