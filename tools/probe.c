/*
 * A translation unit whose debug info tells CPython's layout, for a build that has headers here and no debug info; also
 * for another machine than the headers are of, with the sizes in pyconfig.h made the compiler's (tools/layouts does that):
 *
 *	cc -g -fno-eliminate-unused-debug-types -nostdlib -shared -fPIC -I INCLUDE -I INCLUDE/internal \
 *	   [-DPy_DEBUG=1 | -DPy_GIL_DISABLED=1] tools/probe.c -o probe.so
 *	layoutgen 3.16 -s 'x86_64: CPython 3.16.0, headers' x86_64:derived:probe.so
 *
 * INCLUDE is the folder of that build's Python.h and pyconfig.h.  It must be linked: names in an object file are not
 * relocated.  Structs that CPython keeps in .c files are at the end, for 3.6 and later; 2.7 keeps more of them there.  That
 * this gives what debug info gives is tested wherever both are here: tools/layouts --check.
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

/* 3.7's names of these. */
#if PY_VERSION_HEX >= 0x03070000 && PY_VERSION_HEX < 0x03080000
#include <internal/pystate.h>
#endif

/* Structs of .c files, as each member's order and type is there. */
#if PY_VERSION_HEX >= 0x03060000 && PY_VERSION_HEX < 0x030b0000
/* Objects/dict-common.h 3.6 to 3.10; from 3.11 on pycore_dict.h has them */
typedef struct {
	Py_hash_t me_hash;
	PyObject *me_key, *me_value;
} PyDictKeyEntry;
struct _dictkeysobject {
	Py_ssize_t dk_refcnt, dk_size;
	void *dk_lookup;
	Py_ssize_t dk_usable, dk_nentries;
	char dk_indices[];
};
#endif
#if PY_VERSION_HEX >= 0x03060000 && PY_VERSION_HEX < 0x03070000
/* Modules/gcmodule.c 3.6 */
struct gc_generation {
	PyGC_Head head;
	int threshold, count;
};
#endif
#if PY_VERSION_HEX >= 0x03060000 && PY_VERSION_HEX < 0x030a0000
/* Objects/moduleobject.c 3.6 to 3.9; from 3.10 on pycore_moduleobject.h has it */
typedef struct {
	PyObject_HEAD
	PyObject *md_dict;
	struct PyModuleDef *md_def;
	void *md_state;
	PyObject *md_weaklist, *md_name;
} PyModuleObject;
#endif

/* With nothing defined there would be nothing to link. */
int probe(void);
int probe(void)
{
	return 0;
}
