/*
 * Which CPythons there are tables for: version by machine for each kind of build, in the words of the tables' own `had`
 * lines.  A row is a table, named by the first release it is for.
 */
#include "cmd/tables.h"

#include <string.h>

#include "python/layout.h"

enum { MACHINES_MAX = 16, CONFIG_MAX = 24 };

static const struct { const char *suffix, *name; } builds[] = {
	{ "", "release" }, { "-d", "debug" }, { "-t", "free-threaded" }, { "-d-t", "both" },
};

struct machine { char name[CONFIG_MAX]; };

/* In the order of the newest table; more than there is room for are not shown. */
static size_t machines(struct machine *ret)
{
	uint32_t version;
	const char *config;
	size_t n = 0;

	for (size_t i = 0; layout_builtin_at(i, &version, &config) == 0; i++) {
		char name[CONFIG_MAX];
		snprintf(name, sizeof name, "%.*s", (int)strcspn(config, "-"), config);
		size_t k = 0;
		while (k < n && strcmp(ret[k].name, name) != 0)
			k++;
		if (k == n && n < MACHINES_MAX)
			memcpy(ret[n++].name, name, sizeof name);
	}
	return n;
}

/* The i-th table, newest first. */
static bool table_at(size_t i, uint32_t *ret)
{
	uint32_t version, last = 0;
	const char *config;

	for (size_t k = 0; layout_builtin_at(k, &version, &config) == 0; k++) {
		if (version == last)
			continue;
		last = version;
		if (i-- == 0) {
			*ret = version;
			return true;
		}
	}
	return false;
}

/* Has this very table the column? */
static bool cell(uint32_t version, const char *machine, const char *suffix, enum layout_had *ret)
{
	char config[2 * CONFIG_MAX];
	struct layout l;

	snprintf(config, sizeof config, "%.*s%s", CONFIG_MAX - 1, machine, suffix);
	if (layout_builtin(version, config, &l, NULL) < 0 || l.version != version)
		return false;
	*ret = l.had;
	return true;
}

void tables_line(struct sb *out)
{
	struct machine machine[MACHINES_MAX];
	size_t n = machines(machine), tables = 0;
	uint32_t version, minor = 0;

	while (table_at(tables, &version))
		tables++;
	sb_str(out, STR("CPython layouts:"));
	while (tables-- > 0 && table_at(tables, &version)) {
		if (version >> 16 != minor)
			sb_printf(out, " %u.%u", version >> 24, version >> 16 & 0xff);
		minor = version >> 16;
	}
	sb_str(out, STR(", on"));
	for (size_t k = 0; k < n; k++)
		sb_printf(out, " %s", machine[k].name);
}

void tables_matrix(struct sb *out)
{
	static const char *const had[] = { [HAD_DERIVED] = "derived", [HAD_RECORDED] = "recorded", [HAD_PROVEN] = "proven" };
	struct machine machine[MACHINES_MAX];
	size_t n = machines(machine);
	uint32_t version;
	enum layout_had word;
	bool occurs[sizeof had / sizeof *had] = { 0 };

	for (size_t b = 0; b < sizeof builds / sizeof *builds; b++) {
		bool begun = false;
		for (size_t i = 0; table_at(i, &version); i++) {
			bool any = false;
			for (size_t k = 0; k < n; k++)
				any = any || cell(version, machine[k].name, builds[b].suffix, &word);
			if (!any)
				continue;
			if (!begun) {
				sb_printf(out, "\n%-14s", builds[b].name);
				for (size_t k = 0; k < n; k++)
					sb_printf(out, " %-*s", k + 1 < n ? 9 : 0, machine[k].name);
				begun = true;
			}
			char name[16];
			snprintf(name, sizeof name, "%u.%u.%u", version >> 24, version >> 16 & 0xff, version >> 8 & 0xff);
			sb_printf(out, "\n  %-12s", name);
			for (size_t k = 0; k < n; k++) {
				const bool there = cell(version, machine[k].name, builds[b].suffix, &word);
				if (there)
					occurs[word] = true;
				sb_printf(out, " %-*s", k + 1 < n ? 9 : 0, there ? had[word] : "-");
			}
		}
		if (begun)
			sb_char(out, '\n');
	}
	sb_str(out, STR("\nA row holds from that release until the next one; each is proved on the image before use.\n"));
	if (occurs[HAD_PROVEN])
		sb_str(out, STR("proven: a live interpreter of that build read its own memory through the table\n"));
	if (occurs[HAD_RECORDED])
		sb_str(out, STR("recorded: a snapshot of one is read in every test\n"));
	if (occurs[HAD_DERIVED])
		sb_str(out, STR("derived: from debug information or headers; no interpreter was held against it\n"));
}
