/*
 * Runs a fuzz target without a fuzzer: over files, folders or stdin, and over mutations of them.
 *
 *	fuzz_X [--mutate N] [--seed S] [--seconds T] PATH...     "-" is stdin
 *
 * Each input is run as it is, then N mutations of it are; S (default 1) fixes them, T ends mutating early.  Prints TAP,
 * one line a path.  Where the target fails, the bytes that did it are written to crash-NAME-SEED and named on stderr.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
void __sanitizer_set_death_callback(void (*callback)(void)) __attribute__((weak));

enum { LARGEST = 16 << 20, LARGEST_MUTATED = 256 << 10, SECONDS_PER_INPUT = 20 };

struct input {
	char *name;
	uint8_t *p;
	size_t len;
};
static struct {
	struct input *p;
	size_t n, room;
} inputs;

/* What is running now, for the message when it dies. */
static const char *program;
static struct {
	const char *name;
	uint64_t seed; /* 0: as it is */
	const uint8_t *p;
	size_t len;
	bool told;
} now;

static void say(const char *s)
{
	(void)!write(STDERR_FILENO, s, strlen(s));
}

static void tell(void)
{
	if (now.told || !now.name)
		return;
	now.told = true;
	char path[256], line[1024];
	snprintf(path, sizeof path, "crash-%s-%llu", program, (unsigned long long)now.seed);
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	bool saved = fd >= 0 && write(fd, now.p, now.len) == (ssize_t)now.len;
	snprintf(line, sizeof line, "\n%s failed on %s, mutation seed %llu (0: as it is); %s %s\n", program, now.name,
		 (unsigned long long)now.seed, saved ? "the bytes are in" : "could not write", path);
	say(line);
	if (fd >= 0)
		close(fd);
}

static void on_signal(int signo)
{
	if (signo == SIGALRM)
		say("\ntoo slow\n");
	tell();
	signal(signo, SIG_DFL);
	raise(signo == SIGALRM ? SIGKILL : signo);
}

static void run(const char *name, uint64_t seed, const uint8_t *p, size_t len)
{
	/* A copy of exactly the size, so that a sanitizer sees a read past its end. */
	uint8_t *copy = malloc(len ? len : 1);
	if (!copy)
		exit(2);
	if (len)
		memcpy(copy, p, len);
	now.name = name;
	now.seed = seed;
	now.p = copy;
	now.len = len;
	alarm(SECONDS_PER_INPUT);
	LLVMFuzzerTestOneInput(copy, len);
	alarm(0);
	now.name = NULL;
	free(copy);
}

/* --- mutation --- */

static uint64_t state;

static uint64_t next(void) /* splitmix64 */
{
	uint64_t z = state += 0x9e3779b97f4a7c15u;
	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return z ^ z >> 31;
}

static size_t below(size_t n)
{
	return n ? (size_t)(next() % n) : 0;
}

/* Numbers at which lengths, counts and offsets go wrong. */
static uint64_t odd_number(size_t len)
{
	static const uint64_t odd[] = {
		0, 1, 2, 7, 8, 0x7f, 0x80, 0xff, 0x100, 0x7fff, 0x8000, 0xffff, 0x10000, 0x7fffffff, 0x80000000, 0xffffffff,
		0x100000000, INT64_MAX, UINT64_C(1) << 63, UINT64_MAX, UINT64_MAX - 1, UINT64_MAX - 15, UINT64_MAX / 8, UINT64_MAX / 24,
	};
	switch (below(3)) {
	case 0: return odd[below(sizeof odd / sizeof *odd)];
	case 1: return len + below(33) - 16; /* about the size of the input */
	default: return next() >> below(64);
	}
}

static size_t mutate_once(uint8_t *p, size_t len, size_t room)
{
	size_t at = below(len), n = len - at ? 1 + below(len - at < 64 ? len - at : 64) : 0;
	if (!len) {
		p[0] = (uint8_t)next();
		return 1;
	}
	switch (below(9)) {
	case 0: /* one bit */
		p[at] = (uint8_t)(p[at] ^ 1 << below(8));
		return len;
	case 1: /* one byte */
		p[at] = (uint8_t)next();
		return len;
	case 2: /* a little up or down */
		p[at] = (uint8_t)(p[at] + below(9) - 4);
		return len;
	case 3:
	case 4: { /* a number in either byte order, mostly where a field would be */
		size_t width = (size_t)1 << below(4);
		bool big = below(2);
		uint64_t v = odd_number(len);
		if (below(4))
			at -= at % width;
		for (size_t i = 0; i < width && at + i < len; i++)
			p[at + i] = (uint8_t)(v >> 8 * (big ? width - 1 - i : i));
		return len;
	}
	case 5: /* cut out */
		memmove(p + at, p + at + n, len - at - n);
		return len - n;
	case 6: /* double */
		if (len + n > room)
			return len;
		memmove(p + at + n, p + at, len - at);
		return len + n;
	case 7: { /* a piece of any input */
		const struct input *other = &inputs.p[below(inputs.n)];
		size_t from = below(other->len);
		n = other->len - from < n ? other->len - from : n;
		if (n)
			memcpy(p + at, other->p + from, n);
		return len;
	}
	default: /* the end is missing; seldom, since little is left to find then */
		return below(4) ? len : at;
	}
}

static void run_mutation(const struct input *in, uint64_t seed, uint8_t *buf)
{
	state = seed * 0x2545f4914f6cdd1du;
	size_t len = in->len < LARGEST_MUTATED ? in->len : LARGEST_MUTATED;
	if (len)
		memcpy(buf, in->p, len);
	for (size_t k = 1 + below(4); k; k--)
		len = mutate_once(buf, len, LARGEST_MUTATED);
	run(in->name, seed, buf, len);
}

/* --- inputs --- */

static void add_input(const char *name, int fd)
{
	struct input in = { strdup(name), NULL, 0 };
	size_t room = 0;
	for (;;) {
		if (in.len == room && room < LARGEST)
			in.p = realloc(in.p, room = room ? room * 2 : 4096);
		ssize_t n = in.len < room ? read(fd, in.p + in.len, room - in.len) : 0;
		if (n <= 0)
			break;
		in.len += (size_t)n;
	}
	if (inputs.n == inputs.room)
		inputs.p = realloc(inputs.p, (inputs.room = inputs.room ? inputs.room * 2 : 64) * sizeof *inputs.p);
	inputs.p[inputs.n++] = in;
}

static void add_file(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0) {
		fprintf(stderr, "%s: %s\n", path, strerror(errno));
		exit(2);
	}
	add_input(path, fd);
	close(fd);
}

static void add_path(const char *path)
{
	struct stat st;
	if (strcmp(path, "-") == 0) {
		add_input("stdin", STDIN_FILENO);
	} else if (stat(path, &st) == 0 && S_ISDIR(st.st_mode)) {
		struct dirent **names;
		int n = scandir(path, &names, NULL, alphasort);
		for (int i = 0; i < n; i++) {
			char file[4096];
			snprintf(file, sizeof file, "%s/%s", path, names[i]->d_name);
			if (names[i]->d_name[0] != '.')
				add_file(file);
			free(names[i]);
		}
		if (n >= 0)
			free(names);
	} else if (stat(path, &st) == 0) {
		add_file(path);
	} /* a folder that is not there has no saved inputs yet */
}

static double seconds(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

int main(int argc, char **argv)
{
	unsigned long long mutations = 0, seed = 1, limit = 0;
	int first = 1;
	for (; first + 1 < argc && strncmp(argv[first], "--", 2) == 0; first += 2) {
		unsigned long long v = strtoull(argv[first + 1], NULL, 0);
		if (strcmp(argv[first], "--mutate") == 0)
			mutations = v;
		else if (strcmp(argv[first], "--seed") == 0)
			seed = v ? v : 1;
		else if (strcmp(argv[first], "--seconds") == 0)
			limit = v;
		else
			first = argc;
	}
	if (first >= argc) {
		fprintf(stderr, "usage: %s [--mutate N] [--seed S] [--seconds T] PATH...\n", argv[0]);
		return 2;
	}
	program = strrchr(argv[0], '/') ? strrchr(argv[0], '/') + 1 : argv[0];
	if (__sanitizer_set_death_callback)
		__sanitizer_set_death_callback(tell);
	static const int signals[] = { SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL };
	for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
		if (signals[i] == SIGABRT || !__sanitizer_set_death_callback)
			signal(signals[i], on_signal);
	signal(SIGALRM, on_signal);

	uint8_t *buf = malloc(LARGEST_MUTATED);
	double start = seconds();
	printf("1..%d\n", argc - first);
	for (int i = first; i < argc; i++) {
		size_t from = inputs.n;
		add_path(argv[i]);
		if (inputs.n == from) /* nothing saved: start from nothing */
			inputs.p = realloc(inputs.p, (inputs.room = inputs.n + 64) * sizeof *inputs.p),
			inputs.p[inputs.n++] = (struct input){ strdup("nothing"), malloc(1), 0 };
		for (size_t k = from; k < inputs.n; k++)
			run(inputs.p[k].name, 0, inputs.p[k].p, inputs.p[k].len);
		unsigned long long done = 0;
		bool in_time = true;
		/* One mutation of each input in turn, so that an early end has been fair. */
		for (unsigned long long m = 0; m < mutations && in_time; m++)
			for (size_t k = from; k < inputs.n && in_time; k++, done++) {
				run_mutation(&inputs.p[k], seed + m, buf);
				in_time = !limit || seconds() - start < (double)limit;
			}
		printf("ok %d - %s: %zu inputs, %llu mutations from seed %llu\n", i - first + 1, argv[i], inputs.n - from, done, seed);
	}
	for (size_t i = 0; i < inputs.n; i++) {
		free(inputs.p[i].name);
		free(inputs.p[i].p);
	}
	free(inputs.p);
	free(buf);
	return 0;
}
