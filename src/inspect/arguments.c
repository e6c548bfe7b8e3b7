/* The command line that the process was started with, of a core: the kernel's note of it (NT_PRPSINFO) ends after 79 bytes. */
#include "inspect/parts.h"

#include <string.h>

#include "python/py.h"

enum {
	NOTED = 79,                 /* bytes of pr_psargs without its NUL (fs/binfmt_elf.c, fill_psinfo) */
	BELOW = 4096,               /* from AT_RANDOM's bytes down to the auxiliary vector and its end */
	WORDS = 1 << 16,            /* of the environment's and the arguments' pointers */
	PIECE = 4096, TEXT = 1 << 16,
	STRINGS = 8 << 20,          /* above AT_RANDOM, where the file's name does not say where they end */
	AT_RANDOM = 25, AT_EXECFN = 31
};

/*
 * execve leaves at the top of the stack, from low to high (fs/binfmt_elf.c, create_elf_tables): the number of arguments, their addresses,
 * 0, those of the environment, 0, the auxiliary vector, the bytes of AT_RANDOM, the arguments' strings, the environment's, the name of AT_EXECFN.
 */
struct block {
	addr_t vector, low, high; /* the vector; where strings may lie */
	size_t width;
};

static bool find_vector(struct target *t, struct block *b)
{
	const struct blob auxv = image_facts(t->img)->auxv;
	uint64_t random;
	*b = (struct block){ .width = image_abi(t->img)->width };
	size_t size = 0; /* without its end, behind which the kernel may have noted more */
	while (auxv.len - size >= 2 * b->width) {
		static const uint8_t end[8];
		if (memcmp(auxv.p + size, end, b->width) == 0)
			break;
		size += 2 * b->width;
	}
	if (!size || size > BELOW / 2 || image_auxv(t->img, AT_RANDOM, &random) < 0 || random < WORDS + BELOW)
		return false;
	uint8_t below[BELOW];
	const addr_t from = (random & ~(addr_t)(b->width - 1)) - BELOW;
	if (image_read(t->img, from, below, sizeof below) < 0)
		return false;
	for (size_t at = BELOW - size + b->width; at >= b->width && !b->vector; at -= b->width)
		if (memcmp(below + at - b->width, auxv.p, size) == 0)
			b->vector = from + at - b->width;
	b->low = random;
	if (image_auxv(t->img, AT_EXECFN, &b->high) < 0 || b->high <= b->low || b->high - b->low > STRINGS)
		b->high = b->low + STRINGS;
	return b->vector != 0;
}

/*
 * The first and the last string's addresses.  What unsetenv took out of the environment's list leaves a second 0 at its end, and
 * getopt_long puts arguments in another order, so neither list is taken for whole or sorted: the number is what has as many addresses of strings
 * behind it, and then a 0.
 */
static bool find_strings(struct target *t, const struct block *b, addr_t *first, addr_t *last)
{
	CLEANUP(cleanup_free) uint64_t *word = xcalloc(WORDS, sizeof *word); /* the lowest last */
	size_t run = 0; /* addresses that the last words are */
	for (size_t n = 0; n < WORDS; n++) {
		if (b->vector < (n + 1) * b->width || image_read_uint(t->img, b->vector - (n + 1) * b->width, b->width, &word[n]) < 0)
			return false;
		if (word[n] > b->low && word[n] < b->high) {
			run++;
			continue;
		}
		if (word[n] && word[n] == run && run < n && !word[n - run - 1]) {
			*first = *last = word[n - 1];
			for (size_t i = 1; i <= run; i++) {
				*first = word[n - i] < *first ? word[n - i] : *first;
				*last = word[n - i] > *last ? word[n - i] : *last;
			}
			return true;
		}
		run = 0;
	}
	return false;
}

/* As /proc/PID/cmdline is shown: NULs as spaces. */
static struct str on_stack(struct target *t, struct arena *a)
{
	struct block b;
	addr_t first, last;
	if (!find_vector(t, &b) || !find_strings(t, &b, &first, &last))
		return (struct str){ 0 };
	CLEANUP(cleanup_sb) struct sb text = { 0 };
	bool whole = false;
	uint8_t piece[PIECE];
	while (!whole && text.len < TEXT) {
		const addr_t at = first + text.len;
		size_t n = image_read_some(t->img, at, piece, sizeof piece - at % sizeof piece);
		if (!n)
			return (struct str){ 0 };
		const size_t skip = last > at ? last - at < n ? (size_t)(last - at) : n : 0;
		const uint8_t *end = memchr(piece + skip, 0, n - skip);
		whole = end != NULL;
		sb_bytes(&text, piece, whole ? (size_t)(end - piece) : n);
	}
	while (text.len && !text.s[text.len - 1])
		text.len--;
	for (size_t i = 0; i < text.len; i++)
		if (!text.s[i])
			text.s[i] = ' ';
	struct str ret = str_from_bytes(a, text.s, text.len);
	return whole ? ret : str_printf(a, STR_FMT " ...", STR_ARG(ret));
}

/* Does the note agree?  It is cut, at a character; gcore notes the program's name alone. */
static bool agrees(struct str noted, struct str whole)
{
	if (!whole.len || noted.len > whole.len || memcmp(noted.s, whole.s, noted.len) != 0)
		return false;
	return noted.len == whole.len || !noted.len || noted.len + 3 >= NOTED || whole.s[noted.len] == ' ';
}

struct str arguments_of(struct target *t, const struct py_interp *in, struct arena *a)
{
	const struct str noted = image_facts(t->img)->args;
	struct str got = on_stack(t, a);
	if (agrees(noted, got))
		return got;
	got = in ? py_arguments(t->py, in, "orig_argv", a) : (struct str){ 0 };
	if (agrees(noted, got))
		return got;
	if (noted.len)
		return noted.len >= NOTED ? str_printf(a, STR_FMT "...", STR_ARG(noted)) : noted;
	/* Without the interpreter and its options. */
	got = in ? py_arguments(t->py, in, "argv", a) : (struct str){ 0 };
	return got.s ? got : noted;
}
