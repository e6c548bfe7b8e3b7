/*
 * The bare operation behind a snapshot: copy all present private pages of a process with process_vm_readv into memory that was
 * touched before, and print bytes and nanoseconds of the copying alone.  Stops nothing.
 *   bench_readv PID
 */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

struct range { uint64_t start, len; };

static struct range *ranges;
static size_t n_ranges;

static void add(uint64_t start, uint64_t len)
{
	if (n_ranges && ranges[n_ranges - 1].start + ranges[n_ranges - 1].len == start) {
		ranges[n_ranges - 1].len += len;
		return;
	}
	ranges = realloc(ranges, (n_ranges + 1) * sizeof *ranges);
	if (!ranges)
		exit(1);
	ranges[n_ranges++] = (struct range){ start, len };
}

/* proc(5): bit 63 of a pagemap entry is "present", bit 61 "file page or shared". */
static void present(int pagemap, uint64_t start, uint64_t end)
{
	enum { N = 4096 };
	static uint64_t entry[N];
	while (start < end) {
		uint64_t pages = (end - start) / 4096 < N ? (end - start) / 4096 : N;
		if (pread(pagemap, entry, (size_t)pages * 8, (off_t)(start / 4096 * 8)) != (ssize_t)pages * 8)
			return;
		for (uint64_t i = 0; i < pages; i++)
			if (entry[i] >> 63 && !(entry[i] >> 61 & 1))
				add(start + i * 4096, 4096);
		start += pages * 4096;
	}
}

int main(int argc, char **argv)
{
	if (argc != 2)
		return 2;
	pid_t pid = atoi(argv[1]);
	char path[64], line[8192];
	snprintf(path, sizeof path, "/proc/%d/pagemap", pid);
	int pagemap = open(path, O_RDONLY);
	snprintf(path, sizeof path, "/proc/%d/maps", pid);
	FILE *maps = fopen(path, "r");
	if (pagemap < 0 || !maps)
		return 1;
	while (fgets(line, sizeof line, maps)) {
		uint64_t start, end;
		char prot[8];
		if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %7s", &start, &end, prot) == 3 && prot[0] == 'r' && prot[3] == 'p' && !strstr(line, "[v"))
			present(pagemap, start, end);
	}
	uint64_t total = 0;
	for (size_t i = 0; i < n_ranges; i++)
		total += ranges[i].len;
	uint8_t *to = mmap(NULL, total ? total : 1, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (to == MAP_FAILED)
		return 1;
	struct timespec a, b;
	clock_gettime(CLOCK_MONOTONIC, &a);
	uint64_t done = 0;
	for (size_t i = 0; i < n_ranges; i++) {
		for (uint64_t at = 0; at < ranges[i].len;) {
			uint64_t len = ranges[i].len - at < 256 << 10 ? ranges[i].len - at : 256 << 10;
			/* process_vm_readv(2) takes the other process's address as a pointer. */
			struct iovec local = { to + done, len }, remote = { (void *)(uintptr_t)(ranges[i].start + at), len };
			ssize_t n = process_vm_readv(pid, &local, 1, &remote, 1, 0);
			if (n <= 0)
				break;
			at += (uint64_t)n;
			done += (uint64_t)n;
		}
	}
	clock_gettime(CLOCK_MONOTONIC, &b);
	printf("%" PRIu64 " %" PRId64 "\n", done, (int64_t)(b.tv_sec - a.tv_sec) * 1000000000 + (b.tv_nsec - a.tv_nsec));
	return 0;
}
