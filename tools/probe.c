/*
 * A translation unit whose debug info tells CPython's layout, for a version that has headers here and no debug info:
 *
 *	cc -g -fno-eliminate-unused-debug-types -shared -fPIC -I INCLUDE -I INCLUDE/internal [-DPy_DEBUG | -DPy_GIL_DISABLED=1] \
 *	   tools/probe.c -o probe.so
 *	layoutgen 3.16 -s 'x86_64: CPython 3.16.0, headers' x86_64:recorded:probe.so
 *
 * INCLUDE is the folder of that build's Python.h and pyconfig.h.  It must be linked: names in an object file are not
 * relocated.  Structs that CPython defines in .c files have no line then: PyModuleObject up to 3.10,
 * PyDictKeysObject and its entries up to 3.10.  A table from a build's own debug info is better where there is one.
 */
#define Py_BUILD_CORE 1
#include <Python.h>

#if __has_include(<frameobject.h>)
#include <frameobject.h>
#endif
#if __has_include(<internal/pycore_interp.h>)
#include <internal/pycore_interp.h>
#endif
#if __has_include(<internal/pycore_runtime.h>)
#include <internal/pycore_runtime.h>
#endif
#if __has_include(<internal/pycore_pystate.h>)
#include <internal/pycore_pystate.h>
#endif
#if __has_include(<internal/pycore_frame.h>)
#include <internal/pycore_frame.h>
#endif
#if __has_include(<internal/pycore_interpframe_structs.h>)
#include <internal/pycore_interpframe_structs.h>
#endif
#if __has_include(<internal/pycore_code.h>)
#include <internal/pycore_code.h>
#endif
#if __has_include(<internal/pycore_dict.h>)
#include <internal/pycore_dict.h>
#endif
#if __has_include(<internal/pycore_gil.h>)
#include <internal/pycore_gil.h>
#endif
#if __has_include(<internal/pycore_long.h>)
#include <internal/pycore_long.h>
#endif
#if __has_include(<longintrepr.h>)
#include <longintrepr.h>
#endif
#if __has_include(<internal/pycore_moduleobject.h>)
#include <internal/pycore_moduleobject.h>
#endif
#if __has_include(<internal/pycore_debug_offsets.h>)
#include <internal/pycore_debug_offsets.h>
#endif
#if __has_include(<internal/pycore_genobject.h>)
#include <internal/pycore_genobject.h>
#endif
#if __has_include(<internal/pycore_unicodeobject.h>)
#include <internal/pycore_unicodeobject.h>
#endif

/* With nothing defined there would be nothing to link. */
int probe(void);
int probe(void)
{
	return 0;
}
