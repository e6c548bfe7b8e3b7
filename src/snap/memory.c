/* What may still be allocated: more than that, and the kernel ends processes, in a container perhaps the one that is looked at. */
#include "snap/memory.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/mem.h"
#include "image/proc.h"

static uint64_t meminfo(const char *key)
{
	CLEANUP(cleanup_sb) struct sb b = { 0 };
	uint64_t kib, ret;
	if (proc_read(AT_FDCWD, "/proc/meminfo", 65536, &b) || proc_status_uint(sb_view(&b), key, 10, &kib) || !mul_fits(kib, 1024, &ret))
		return UINT64_MAX;
	return ret;
}

static uint64_t number_in(const char *path)
{
	CLEANUP(cleanup_sb) struct sb b = { 0 };
	if (proc_read(AT_FDCWD, path, 64, &b))
		return UINT64_MAX;
	sb_char(&b, '\0');
	return b.s[0] >= '0' && b.s[0] <= '9' ? strtoull(b.s, NULL, 10) : UINT64_MAX;
}

/* key begins with the end of the line before. */
static uint64_t stat_number(const struct sb *stat, const char *key)
{
	const char *at = strstr(stat->s, key);
	return at ? strtoull(at + strlen(key), NULL, 10) : 0;
}

/*
 * The files of a control group that tell of its memory, in both versions (Documentation/admin-guide/cgroup-v2.rst and
 * cgroup-v1/memory.rst).  The second's statistics are of the group alone without "total_", its usage is of those beneath too.
 */
static const struct hierarchy {
	const char *at, *max, *now, *inactive_file, *active_file;
} hierarchies[] = {
	{ "/sys/fs/cgroup", "memory.max", "memory.current", "\ninactive_file ", "\nactive_file " },
	{ "/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "\ntotal_inactive_file ", "\ntotal_active_file " },
};

/* What a control group leaves.  Pages of files that it is charged for make room when they are in the way. */
static uint64_t group_free(const struct hierarchy *h, const char *group)
{
	CLEANUP(cleanup_free) char *max = xasprintf("%s%s/%s", h->at, group, h->max);
	CLEANUP(cleanup_free) char *now = xasprintf("%s%s/%s", h->at, group, h->now);
	CLEANUP(cleanup_free) char *what = xasprintf("%s%s/memory.stat", h->at, group);
	CLEANUP(cleanup_sb) struct sb stat = { 0 };
	uint64_t limit = number_in(max), used = number_in(now);
	if (limit == UINT64_MAX || used == UINT64_MAX)
		return UINT64_MAX;
	if (proc_read(AT_FDCWD, what, 65536, &stat))
		stat.len = 0;
	sb_char(&stat, '\0');
	uint64_t files = stat_number(&stat, h->inactive_file) + stat_number(&stat, h->active_file);
	used = used > files ? used - files : 0;
	return limit > used ? limit - used : 0;
}

/* A group and those around it; where it is one of a container, whose own is what is mounted, only the last of these is there. */
static uint64_t groups_free(const struct hierarchy *h, char *group)
{
	uint64_t ret = UINT64_MAX;
	for (char *end = group + strlen(group); end; end = strrchr(group, '/')) {
		*end = '\0';
		uint64_t left = group_free(h, group);
		ret = left < ret ? left : ret;
	}
	return ret;
}

/* Is that controller one of "cpu,memory"? */
static bool controls(const char *list, size_t len, const char *controller)
{
	const size_t n = strlen(controller);
	for (size_t i = 0; i + n <= len; i++)
		if (memcmp(list + i, controller, n) == 0 && (!i || list[i - 1] == ',') && (i + n == len || list[i + n] == ','))
			return true;
	return false;
}

/* "0::/a/b" is version 2's group, "4:cpuset,memory:/a/b" the first's (cgroups(7)); memory is in one of them. */
static uint64_t all_groups_free(void)
{
	CLEANUP(cleanup_sb) struct sb b = { 0 };
	uint64_t ret = UINT64_MAX;
	char *save = NULL;
	if (proc_read(AT_FDCWD, "/proc/self/cgroup", 65536, &b))
		return ret;
	sb_char(&b, '\0');
	for (char *line = strtok_r(b.s, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
		char *list = strchr(line, ':'), *group = list ? strchr(list + 1, ':') : NULL;
		if (!group)
			continue;
		const bool two = group == list + 1;
		if (!two && !controls(list + 1, (size_t)(group - list - 1), "memory"))
			continue;
		uint64_t left = groups_free(&hierarchies[!two], group + 1);
		ret = left < ret ? left : ret;
	}
	return ret;
}

uint64_t memory_free(void)
{
	uint64_t ret = meminfo("MemAvailable"), groups = all_groups_free();
	if (groups < ret)
		ret = groups;
	CLEANUP(cleanup_sb) struct sb b = { 0 };
	struct rlimit as;
	if (getrlimit(RLIMIT_AS, &as) == 0 && as.rlim_cur != RLIM_INFINITY && proc_read(AT_FDCWD, "/proc/self/statm", 256, &b) == 0) {
		sb_char(&b, '\0');
		const long page = sysconf(_SC_PAGESIZE);
		const uint64_t pages = strtoull(b.s, NULL, 10);
		uint64_t used;
		if (page <= 0 || !mul_fits(pages, (uint64_t)page, &used))
			return ret;
		const uint64_t left = as.rlim_cur > used ? as.rlim_cur - used : 0;
		if (left < ret)
			ret = left;
	}
	return ret;
}
