/* PAGEMAP_SCAN (Linux 6.7), and /proc/PID/pagemap itself before that. */
#include "snap/pages.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* include/uapi/linux/fs.h; spelt out here because headers of older systems do not have it. */
struct scan_region {
	uint64_t start, end, categories;
};
struct scan_arg {
	uint64_t size, flags, start, end, walk_end, vec, vec_len, max_pages;
	uint64_t category_inverted, category_mask, category_anyof_mask, return_mask;
};
#define SCAN_IOCTL _IOWR('f', 16, struct scan_arg)
enum {
	IS_FILE = 1 << 2, IS_PRESENT = 1 << 3, IS_SWAPPED = 1 << 4, IS_ZERO = 1 << 5,
	IS_GUARD = 1 << 8, /* 6.15: MADV_GUARD_INSTALL; such a page counts as swapped, and reading it fails */
};

bool pages_without_scan;

static void add(struct ranges *r, size_t first, addr_t start, addr_t end)
{
	if (r->n > first && r->p[r->n - 1].end == start)
		r->p[r->n - 1].end = end;
	else
		*vec_push(r) = (struct range){ start, end };
}

static int find_by_scan(int fd, addr_t start, addr_t end, enum pages which, struct ranges *ret)
{
	static bool no_guard;
	struct scan_region got[128];
	size_t first = ret->n;
	while (start < end) {
		struct scan_arg a = { .size = sizeof a, .start = start, .end = end, .vec = (uint64_t)(uintptr_t)got, .vec_len = sizeof got / sizeof got[0] };
		a.category_anyof_mask = IS_PRESENT | IS_SWAPPED;
		if (which == PAGES_OWN)
			a.category_inverted = IS_FILE | IS_ZERO;
		if (!no_guard)
			a.category_inverted |= IS_GUARD;
		a.category_mask = a.category_inverted;
		int n = ioctl(fd, SCAN_IOCTL, &a);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EINVAL && !no_guard) {
			no_guard = true;
			continue;
		}
		if (n < 0)
			return errno == ESRCH ? ERR_GONE : ERR_UNSUPPORTED;
		for (int i = 0; i < n; i++)
			add(ret, first, got[i].start, got[i].end);
		if (a.walk_end <= start || a.walk_end > end)
			break;
		start = a.walk_end;
	}
	return 0;
}

static int find_by_entry(int fd, addr_t start, addr_t end, enum pages which, struct ranges *ret)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), entry[512];
	size_t first = ret->n;
	while (start < end) {
		uint64_t want = (end - start) / page;
		if (want > sizeof entry / sizeof entry[0])
			want = sizeof entry / sizeof entry[0];
		ssize_t n = pread(fd, entry, want * sizeof entry[0], (off_t)(start / page * sizeof entry[0]));
		if (n < 0 && errno == EINTR)
			continue;
		if (n < (ssize_t)sizeof entry[0])
			return n < 0 && errno != ESRCH ? ERR_IO : ERR_GONE;
		for (size_t i = 0; i < (size_t)n / sizeof entry[0]; i++, start += page) {
			bool there = entry[i] >> 62, file = entry[i] >> 61 & 1, guard = entry[i] >> 58 & 1;
			if (there && !guard && !(file && which == PAGES_OWN))
				add(ret, first, start, start + page);
		}
	}
	return 0;
}

int pages_find(int fd, addr_t start, addr_t end, enum pages which, struct ranges *ret)
{
	static bool no_scan;
	size_t before = ret->n;
	if (!no_scan && !pages_without_scan) {
		int code = find_by_scan(fd, start, end, which, ret);
		if (code != ERR_UNSUPPORTED)
			return code;
		no_scan = true;
		ret->n = before;
	}
	return find_by_entry(fd, start, end, which, ret);
}
