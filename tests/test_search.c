/* src/python/search: the words that are found are those that a plain loop finds, in every width and byte order, wherever they lie. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "python/search.h"
#include "suite.h"

enum { SIZE = 64 << 10 };

static int read_memory(void *ctx, uint64_t offset, void *buf, size_t len)
{
	memcpy(buf, (const uint8_t *)ctx + offset, len);
	return 0;
}

struct seen { unsigned n; addr_t at[4096]; uint64_t word[4096]; };

static int note(void *arg, addr_t at, uint64_t word)
{
	struct seen *s = arg;
	ck_assert_uint_lt(s->n, 4096);
	s->at[s->n] = at;
	s->word[s->n++] = word;
	return 0;
}

static uint64_t word_at(const uint8_t *p, unsigned width, bool big)
{
	uint64_t v = 0;
	for (unsigned i = 0; i < width; i++)
		v |= (uint64_t)p[i] << 8 * (big ? width - 1 - i : i);
	return v;
}

static const struct abi abis[] = { { 62, 8, false }, { 3, 4, false }, { 22, 8, true }, { 20, 4, true } };

START_TEST(same_as_a_plain_loop)
{
	const struct abi abi = abis[_i];
	const uint64_t mask = abi.width == 8 ? UINT64_MAX : UINT32_MAX;
	uint64_t state = 0x9e3779b97f4a7c15u + (uint64_t)_i;
	static uint8_t memory[SIZE];
	static struct seen got;

	for (int round = 0; round < 60; round++) {
		/* Thread pointers a page or more apart, one that lies otherwise, a text far above; at times a lot, at times none alike. */
		uint64_t words[64];
		size_t n = draw(&state) % 40;
		for (size_t i = 0; i < n; i++)
			words[i] = (round % 4 == 3 ? draw(&state) : 0x7f1200000700u + 0x801000u * i) & mask;
		words[n++] = 0x7f12deadb740u & mask;
		words[n++] = 0x7970677562656478u & mask;
		words[n++] = 0;
		words[n++] = words[0];
		for (size_t i = 0; i < SIZE; i += 8) {
			uint64_t r = draw(&state), v = r % 5 == 0 ? 0 : r % 5 == 1 ? words[r / 8 % n] : r % 5 == 2 ? words[r / 8 % n] ^ (1ull << r / 512 % 64) :
				r % 5 == 3 ? words[r / 8 % n] + 0x1000 * (r % 7) : r;
			if (r / 64 % 8) /* mostly something else */
				v = 0x7f1200000000u + draw(&state) % 0x4000000;
			memcpy(memory + i, &v, 8);
			if (abi.big_endian)
				for (size_t k = 0; k < abi.width; k++)
					memory[i + k] = (uint8_t)(v >> 8 * (abi.width - 1u - k));
		}
		struct image *img = image_new(abi);
		/* Pieces that start anywhere, of any length. */
		size_t start = draw(&state) % 100 * 8, len = SIZE - start - draw(&state) % 300;
		struct segment seg = { .start = 0x10000, .size = len, .prot = 3, .read = read_memory, .ctx = memory + start };
		ck_assert_int_eq(image_add_segment(img, &seg, LAY_OVER), 0);
		image_settle(img);
		struct search_set *set = search_set_new(words, n);
		got.n = 0;
		ck_assert_int_eq(search_words(img, set, SEARCH_ELF, 4096, note, &got), 0); /* no mappings are known: all may be an ELF file's */
		unsigned want = 0;
		for (size_t i = 0; i + abi.width <= len; i += abi.width) {
			uint64_t w = word_at(memory + start + i, abi.width, abi.big_endian);
			bool in = false;
			for (size_t k = 0; k < n; k++)
				in |= w && w == words[k];
			if (!in)
				continue;
			ck_assert_msg(want < got.n && got.at[want] == 0x10000 + i && got.word[want] == w, "round %d: 0x%zx not found", round, i);
			want++;
		}
		ck_assert_uint_eq(got.n, want);
		if (want > 3) /* a cap is one */
			ck_assert_int_eq(search_words(img, set, SEARCH_ELF, 3, note, &(struct seen){ 0 }), ERR_LIMIT);
		search_set_free(set);
		image_close(img);
	}
}
END_TEST

/* Data and bss of files come first, whether the bss is listed (snapshots, processes) or not (cores); heaps and stacks come after. */
START_TEST(files_come_first)
{
	static uint64_t memory[512];
	for (size_t i = 0; i < 512; i++)
		memory[i] = 0x7f1200000700u;
	for (int listed = 0; listed < 2; listed++) {
		struct image *img = image_new(abis[0]);
		static const struct { addr_t start; bool file; } piece[] = { { 0x20000, true }, { 0x21000, true }, { 0x30000, false }, { 0x40000, false } };
		for (size_t i = 0; i < 4; i++) {
			struct segment seg = { .start = piece[i].start, .size = 4096, .prot = 3, .read = read_memory, .ctx = memory };
			ck_assert_int_eq(image_add_segment(img, &seg, LAY_OVER), 0);
		}
		*image_add_mapping(img) = (struct mapping){ .start = 0x1f000, .end = 0x21000, .path = { (const uint8_t *)"/lib/libx.so", 12 } };
		if (listed) {
			*image_add_mapping(img) = (struct mapping){ .start = 0x21000, .end = 0x22000 };
			*image_add_mapping(img) = (struct mapping){ .start = 0x30000, .end = 0x31000, .path = { (const uint8_t *)"[heap]", 6 } };
			*image_add_mapping(img) = (struct mapping){ .start = 0x40000, .end = 0x41000 };
		}
		image_settle(img);
		struct search_set *set = search_set_new(memory, 1);
		for (int where = SEARCH_ELF; where <= SEARCH_REST; where++) {
			static struct seen got;
			got.n = 0;
			ck_assert_int_eq(search_words(img, set, (enum search_where)where, 4096, note, &got), 0);
			ck_assert_uint_eq(got.n, 1024);
			for (size_t i = 0; i < 4; i++) {
				bool in = false;
				for (unsigned k = 0; k < got.n; k++)
					in |= got.at[k] == piece[i].start;
				ck_assert_msg(in == (piece[i].file == (where == SEARCH_ELF)), "listed %d, where %d, piece %zu", listed, where, i);
			}
		}
		search_set_free(set);
		image_close(img);
	}
}
END_TEST

int main(void)
{
	Suite *s = suite_create("search");
	TCase *tc = tcase_create("search");
	tcase_set_timeout(tc, 120);
	tcase_add_loop_test(tc, same_as_a_plain_loop, 0, COUNT(abis));
	tcase_add_test(tc, files_come_first);
	suite_add_tcase(s, tc);
	return suite_run(s);
}
