/* Runs the inspections over one target, in the order they are listed. What each finds goes into the report. */
#include "inspect/native.h"
#include "inspect/parts.h"

const struct inspection *const inspections[] = {
	&inspection_facts,
	&inspection_threads,
	&inspection_verdict, /* last: reads only what the others found */
	NULL,
};

/* What would prove the verdict may be what another limit leaves out. */
static void hint_likely(struct report *r)
{
	bool others = false;
	for (size_t i = 0; i < r->problems.n; i++)
		others |= r->problems.p[i].id != P_LIKELY;
	for (size_t i = 0; i < r->problems.n && others; i++)
		if (r->problems.p[i].id == P_LIKELY)
			r->problems.p[i].hint = STR("nothing lifts this by itself, but what lifts another of these limits may");
}

int inspect(struct target *t, const struct limits *lim, const char *path, struct report *r)
{
	r->input.path = path ? str_from_bytes(r->arena, path, strlen(path)) : (struct str){ 0 };
	int rc = 0;
	natives_fetch(t);
	for (size_t i = 0; inspections[i]; i++) {
		int one = inspections[i]->run(t, lim, r);
		if (one < 0 && rc == 0)
			rc = one;
	}
	hint_likely(r);
	report_group(r);
	return rc;
}
