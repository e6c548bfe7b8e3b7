/* What each suite of libcheck ends with. */
#ifndef SUITE_H
#define SUITE_H

#include <check.h>
#include <stdlib.h>

#define COUNT(a) (sizeof(a) / sizeof *(a))

/* Runs all of it and gives main's exit status. */
static inline int suite_run(Suite *s)
{
	SRunner *r = srunner_create(s);
	srunner_run_all(r, CK_SILENT);
	int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}

#endif
