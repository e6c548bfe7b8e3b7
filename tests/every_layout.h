/* All layouts that are built in, for what is to hold under each of them. */
#ifndef EVERY_LAYOUT_H
#define EVERY_LAYOUT_H

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "python/layout.h"

/* n of them, newest first; parsed once, since that takes longer than most of what is done with one. */
static inline const struct layout *every_layout(size_t *n)
{
	static struct layout *l;
	static size_t count;
	uint32_t version;
	const char *config;
	for (; layout_builtin_at(count, &version, &config) == 0; count++) {
		l = xrealloc(l, (count + 1) * sizeof *l);
		if (layout_builtin(version, config, &l[count], NULL) < 0)
			abort();
	}
	if (!count)
		abort();
	*n = count;
	return l;
}

static inline void each_layout(void (*f)(const struct layout *l))
{
	size_t n;
	const struct layout *l = every_layout(&n);
	for (size_t i = 0; i < n; i++)
		f(&l[i]);
}

/* "x86_64-d": the column of its table. */
static inline const char *config_of(const struct layout *l)
{
	return strchr(l->name, ' ') + 1;
}

#endif
