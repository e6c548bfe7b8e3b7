/* Modules that only carry out what others asked for, by their names: the C and C++ run times, gcc's and clang's sanitizers, ctypes' call machinery, the interpreter. */
#include "module/module.h"

enum run_time module_run_time(struct str base)
{
	static const struct { const char *prefix; enum run_time is; } known[] = {
		{ "libc.so", RUN_TIME_LIBC }, { "libc-2", RUN_TIME_LIBC }, { "libpthread", RUN_TIME_LIBC }, { "libm.so", RUN_TIME_LIBC }, { "libm-2", RUN_TIME_LIBC },
		{ "ld-linux", RUN_TIME_LIBC }, { "ld-musl", RUN_TIME_LIBC }, { "ld-2", RUN_TIME_LIBC },
		{ "libasan.", RUN_TIME_LANGUAGE }, { "libubsan.", RUN_TIME_LANGUAGE }, { "libtsan.", RUN_TIME_LANGUAGE }, { "liblsan.", RUN_TIME_LANGUAGE },
		{ "libhwasan.", RUN_TIME_LANGUAGE }, { "libclang_rt.", RUN_TIME_LANGUAGE },
		{ "libgcc_s", RUN_TIME_LANGUAGE }, { "libstdc++", RUN_TIME_LANGUAGE }, { "libc++", RUN_TIME_LANGUAGE }, { "libffi", RUN_TIME_LANGUAGE },
		{ "libpython", RUN_TIME_LANGUAGE }, { "python", RUN_TIME_LANGUAGE }, { "pypy", RUN_TIME_LANGUAGE }, { "_ctypes.", RUN_TIME_CTYPES },
		{ "[vdso]", RUN_TIME_LANGUAGE }, { "linux-vdso", RUN_TIME_LANGUAGE },
	};
	for (size_t i = 0; i < sizeof known / sizeof *known; i++)
		if (str_starts(base, known[i].prefix))
			return known[i].is;
	return RUN_TIME_NO;
}
