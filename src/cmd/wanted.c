/* The threads that -t asks for: which are kept of a report, and what is said where there is none. */
#include "cmd/wanted.h"

#include <stdlib.h>
#include <string.h>

#include "cmd/cli.h"
#include "render/words.h"

enum { NAMED = 3, LISTED = 180 }; /* of what was asked for so many; of what there is so many bytes */

static bool is_wanted(const struct report_thread *t, const char *wanted)
{
	char *end;
	long long tid = strtoll(wanted, &end, 10);
	if (!*end && end != wanted && tid == t->tid)
		return true;
	/* "MainThread" is threading's name for it, which a program without threading does not have. */
	if (t->main && (strcmp(wanted, "main") == 0 || strcmp(wanted, "MainThread") == 0))
		return true;
	if (!t->name.s)
		return false;
	CLEANUP(cleanup_sb) struct sb shown = { 0 }; /* what cannot be shown is escaped, and the end of a long one left out */
	words_thread_name(&shown, t);
	struct arena *a = arena_new();
	const bool as_shown = *wanted && (str_is(sb_view(&shown), wanted) || str_eq(sb_view(&shown), str_quotable(a, str_of(wanted))));
	arena_free(a);
	return as_shown || str_is(t->name, wanted);
}

bool wanted_keep(struct report *r, const char *const *wanted, size_t n_wanted, bool *found)
{
	const size_t matters = r->verdict.thread;
	size_t n = 0;
	r->verdict.thread = (size_t)-1;
	for (size_t i = 0; i < r->threads.n; i++) {
		struct report_thread *t = &r->threads.p[i];
		bool keep = false;
		for (size_t k = 0; k < n_wanted; k++) {
			bool is = is_wanted(t, wanted[k]);
			found[k] |= is;
			keep |= is;
		}
		if (!keep) {
			if (i == matters)
				r->verdict.thread_hidden = r->hidden.n;
			*vec_push(&r->hidden) = *t;
			continue;
		}
		if (i == matters)
			r->verdict.thread = n;
		r->threads.p[n++] = *t;
	}
	r->threads.n = n;
	r->groups.n = 0;
	report_group(r);
	return n > 0;
}

int wanted_none(const struct report *r, const char *path, const char *const *wanted, size_t n, const struct err *no_python, struct err *err)
{
	CLEANUP(cleanup_sb) struct sb asked = { 0 };
	CLEANUP(cleanup_sb) struct sb list = { 0 };
	for (size_t i = 0; i < n && i < NAMED; i++)
		sb_printf(&asked, "%s%s", !i ? "" : i + 1 == n ? " or " : ", ", cli_quoted(wanted[i], 60));
	if (n > NAMED)
		sb_printf(&asked, " or %zu more", n - NAMED);
	err_set(err, ERR_ABSENT, "%s has no thread " STR_FMT, path, STR_ARG(sb_view(&asked)));
	if (no_python && no_python->code) {
		err_why(err, "the names that Python has are not known: %s", no_python->msg);
		err_hint(err, "%s", no_python->hint[0] ? no_python->hint : "-t with a thread's number");
		return err->code = no_python->code;
	}
	size_t shown = 0, last = 0;
	while (shown < r->hidden.n) {
		last = list.len;
		sb_printf(&list, shown ? ", " : "");
		words_thread(&list, &r->hidden.p[shown]);
		if (list.len > LISTED)
			break;
		shown++;
	}
	if (shown < r->hidden.n) {
		list.len = last;
		sb_printf(&list, " or one of %zu more", r->hidden.n - shown);
	}
	if (r->hidden.n)
		return err_hint(err, "-t with the number or name of " STR_FMT, STR_ARG(sb_view(&list)));
	return err_hint(err, "pyanalyze %s", path);
}
