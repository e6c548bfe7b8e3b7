/* Runs the inspections over one target, in the order they are listed. What each finds goes into the report. */
#include <stdlib.h>

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
		if (r->problems.p[i].id == P_LIKELY && str_starts(r->problems.p[i].hint, "nothing lifts this"))
			r->problems.p[i].hint = STR("nothing lifts this by itself, but what lifts another of these limits may");
}

/* An option that needs what is not here is said with it; where it was given, only what it needs is left to say. */
static void hint_fetch(const struct target *t, struct report *r)
{
	static const char option[] = "--debuginfod=on";
	const char *urls = getenv("DEBUGINFOD_URLS");
	const bool program = modules_can_fetch(), servers = urls && *urls, on = modules_fetch_state(t->mods) != ERR_ABSENT;
	const struct str needs = str_printf(r->arena, "%s%s%s", servers ? program ? "another server in DEBUGINFOD_URLS" : "" : "DEBUGINFOD_URLS",
					    program || servers ? "" : ", and ", program ? "" : "debuginfod-find: " FETCH_PROGRAM);
	for (size_t i = 0; i < r->problems.n && !(program && servers && !on); i++) {
		struct report_problem *p = &r->problems.p[i];
		const char *at = p->hint.len ? memmem(p->hint.s, p->hint.len, option, sizeof option - 1) : NULL;
		if (!at)
			continue;
		const size_t before = (size_t)(at - p->hint.s), end = before + sizeof option - 1;
		p->hint = str_printf(r->arena, STR_FMT "%s" STR_FMT "%s" STR_FMT, STR_ARG(((struct str){ p->hint.s, before })), on ? "" : "--debuginfod=on (it needs ",
				     STR_ARG(needs), on ? "" : ")", STR_ARG(((struct str){ p->hint.s + end, p->hint.len - end })));
	}
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
	hint_fetch(t, r);
	report_group(r);
	return rc;
}
