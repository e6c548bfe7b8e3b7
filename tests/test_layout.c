/* python/layout and layout_sources: texts, reads of every kind, traits, and what 3.13 and later say of themselves. */
#include <check.h>
#include <elf.h>
#include <stdlib.h>
#include <string.h>

#include "python/layout.h"
#include "suite.h"

/* -- an image over one piece of memory -- */

enum { BASE = 0x10000, ROOM = 4096 };

struct memory {
	uint8_t p[ROOM];
	size_t size;
};

static int memory_read(void *ctx, uint64_t offset, void *buf, size_t len)
{
	struct memory *m = ctx;
	if (offset > m->size || len > m->size - offset)
		return ERR_FAULT;
	memcpy(buf, m->p + offset, len);
	return 0;
}

static struct image *memory_image(struct memory *m, struct abi abi)
{
	struct image *img = image_new(abi);
	struct segment seg = { .start = BASE, .size = m->size, .prot = 3, .read = memory_read, .ctx = m };
	ck_assert_int_eq(image_add_segment(img, &seg, LAY_OVER), 0);
	image_settle(img);
	return img;
}

static void put(struct memory *m, size_t at, unsigned width, uint64_t v, bool big_endian)
{
	ck_assert_uint_le(at + width, ROOM);
	for (unsigned i = 0; i < width; i++)
		m->p[at + (big_endian ? width - 1 - i : i)] = (uint8_t)(v >> 8 * i);
}

/* -- built-in tables -- */

static const struct layout *builtin(uint32_t version, const char *config)
{
	static struct layout l;
	struct err err = { 0 };
	ck_assert_msg(layout_builtin(version, config, &l, &err) == 0, "%#x %s: %s", version, config, err.msg);
	return &l;
}

START_TEST(every_table_parses)
{
	uint32_t version, before = UINT32_MAX;
	const char *config;
	size_t i = 0;
	for (; layout_builtin_at(i, &version, &config) == 0; i++) {
		ck_assert_msg(version <= before, "%#x comes after %#x: newest first", version, before);
		before = version;
		const struct layout *l = builtin(version, config);
		ck_assert_uint_eq(l->version, version);
		ck_assert_str_eq(strchr(l->name, ' ') + 1, config);
		size_t has = 0;
		for (size_t f = 0; f < PY_FIELD_COUNT; f++) {
			has += l->offset[f] >= 0;
			ck_assert_int_eq(l->from[f], l->offset[f] >= 0 ? FROM_TABLE : FROM_NONE);
		}
		ck_assert_msg(has > 110, "%s: only %zu fields", l->name, has);
		/* what no walk can do without */
		static const enum py_field needed[] = {
			F_PyInterp_next, F_PyInterp_tstate_head, F_PyInterp_modules, F_PyInterp_sysdict,
			F_PyInterp_builtins, F_PyThread_next, F_PyThread_interp, F_PyThread_thread_id, F_PyCode_co_name,
			F_PyCode_co_filename, F_PyCode_co_firstlineno, F_PyObject_ob_type, F_PyType_tp_flags, F_PyTuple_ob_item,
		};
		for (size_t k = 0; k < sizeof needed / sizeof *needed; k++)
			ck_assert_msg(layout_has(l, needed[k]), "%s has no %s.%s", l->name,
				      py_struct_info[py_field_info[needed[k]].of].name, py_field_info[needed[k]].name);
		/* one way to the runtime (none before 3.7), to text, to a dictionary's entries, to the frames, and one only */
		ck_assert_int_eq(layout_has(l, F_PyRuntime_interp_head), l->version >= 0x03070000);
		ck_assert_int_eq((layout_has(l, F_PyUnicode_kind) && layout_has(l, F_PyUnicode_data_ascii)) + layout_has(l, F_PyUnicode_wide), 1);
		ck_assert_int_eq(layout_has(l, F_PyDict_ma_keys) + layout_has(l, F_PyDict_ma_table), 1);
		ck_assert_int_eq(layout_has(l, F_PyThread_frame) +
				 (layout_has(l, F_PyThread_cframe) && layout_has(l, F_PyCFrame_current_frame)) +
				 layout_has(l, F_PyThread_current_frame), 1);
		ck_assert_int_eq(layout_has(l, F_PyFrame_instr_ptr) + layout_has(l, F_PyFrame_prev_instr) +
				 layout_has(l, F_PyFrameObject_f_lasti), 1);
	}
	ck_assert_uint_ge(i, 6);
}
END_TEST

/* from[] is about where a value came from and differs by nature. */
static void assert_same(const struct layout *a, const struct layout *b)
{
	ck_assert_uint_eq(a->version, b->version);
	ck_assert_str_eq(a->name, b->name);
	ck_assert_int_eq(a->abi.machine, b->abi.machine);
	ck_assert_int_eq(a->abi.width, b->abi.width);
	ck_assert_int_eq(a->abi.big_endian, b->abi.big_endian);
	ck_assert_int_eq(a->had, b->had);
	ck_assert_mem_eq(a->size, b->size, sizeof a->size);
	ck_assert_mem_eq(a->bit, b->bit, sizeof a->bit);
	ck_assert_mem_eq(a->bits, b->bits, sizeof a->bits);
	for (size_t f = 0; f < PY_FIELD_COUNT; f++)
		ck_assert_msg(a->offset[f] == b->offset[f], "%s.%s: %d and %d", py_struct_info[py_field_info[f].of].name,
			      py_field_info[f].name, a->offset[f], b->offset[f]);
	for (size_t t = 0; t < PY_TRAIT_COUNT; t++)
		ck_assert_msg(a->trait[t] == b->trait[t], "trait %s: %d and %d", py_trait_name[t], a->trait[t], b->trait[t]);
}

static void assert_round(const struct layout *l, const char *config)
{
	char *text = NULL;
	size_t len = 0;
	FILE *f = open_memstream(&text, &len);
	layout_print(l, config, f);
	ck_assert_int_eq(fclose(f), 0);
	struct layout back;
	struct err err = { 0 };
	ck_assert_msg(layout_parse((struct str){ text, len }, config, &back, &err) == 0, "%s: %s", l->name, err.msg);
	assert_same(l, &back);
	free(text);
}

START_TEST(print_is_read_back)
{
	uint32_t version;
	const char *config;
	for (size_t i = 0; layout_builtin_at(i, &version, &config) == 0; i++) {
		struct layout l = *builtin(version, config);
		assert_round(&l, config);
		l.trait[T_lasti_unit] = 3;
		l.trait[T_awaited_slot] = -7;
		l.had = HAD_DERIVED;
		l.offset[F_PyUnicode_kind] = 21;
		l.bit[F_PyUnicode_kind] = 4;
		l.bits[F_PyUnicode_kind] = 3;
		l.offset[F_PyInterp_gil] = -1;
		assert_round(&l, config);
	}
}
END_TEST

START_TEST(table_in_force)
{
	static const struct { uint32_t version; const char *config; uint32_t table; } cases[] = {
		{ 0x030700f0, "x86_64", 0x03070000 },
		{ 0x030703f0, "i386-d", 0x03070000 },
		{ 0x030704f0, "x86_64", 0x03070400 },
		{ 0x030710f0, "aarch64", 0x03070400 },
		{ 0x030800f0, "x86_64", 0x03080000 },
		{ 0x030812f0, "x86_64", 0x03080000 },
		{ 0x030c01f0, "x86_64", 0x030c0000 },
		{ 0x030d00a1, "x86_64", 0x030d0000 }, /* before 3.13.0 is 3.13 all the same */
		{ 0x030d04f0, "x86_64", 0x030d0000 },
		{ 0x030d05f0, "x86_64", 0x030d0500 },
		{ 0x030d11f0, "x86_64", 0x030d0500 },
		{ 0x030d12f0, "x86_64", 0x030d1200 },
		{ 0x030e0af0, "x86_64", 0x030e0000 },
		{ 0x030912f0, "x86_64", 0x03090000 },
		{ 0x030500f0, "x86_64", 0 },          /* no table of 3.5: 3.6's is not taken for it */
		{ 0x02061200, "x86_64", 0 },
		{ 0x031000f0, "x86_64", 0 },
		{ 0x030c01f0, "x86_64-t", 0 },
		{ 0x030c01f0, "vax", 0 },
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct layout l = { .version = 1 };
		struct err err = { 0 };
		int rc = layout_builtin(cases[i].version, cases[i].config, &l, &err);
		if (cases[i].table) {
			ck_assert_msg(rc == 0, "case %zu: %s", i, err.msg);
			ck_assert_uint_eq(l.version, cases[i].table);
		} else {
			ck_assert_msg(rc == ERR_ABSENT && l.version == 1, "case %zu: %d", i, rc);
			ck_assert_ptr_nonnull(strstr(err.msg, "no table for Python"));
		}
	}
	uint32_t version;
	const char *config;
	ck_assert_int_eq(layout_builtin_at(100000, &version, &config), ERR_ABSENT);
}
END_TEST

/* -- bad texts -- */

#define HEAD "layout 3.12\nconfig x86_64 i386\nhad recorded derived\n"
static const struct { const char *text, *msg; } bad[] = {
	{ "", "line 1: expected: layout VERSION" },
	{ "# nothing\n\n", "line 2: expected: layout VERSION" },
	{ "layout\n", "line 1: expected: layout VERSION" },
	{ "layout 3\n", "line 1: expected: layout VERSION" },
	{ "layout 3.12.1.1\n", "line 1: expected: layout VERSION" },
	{ "layout 3.256\n", "line 1: expected: layout VERSION" },
	{ "layout 3.12 3.13\n", "line 1: expected: layout VERSION" },
	{ "layout 3.12\nPyObject size 16\n", "line 2: expected: config NAME..." },
	{ "layout 3.12\nconfig x86_64 x86_64\n", "line 2: config x86_64 is there already" },
	{ "layout 3.12\nconfig a b c d e f g h i j k l m n o p q\n", "line 2: more than 16 configs" },
	{ "layout 3.12\nconfig a b c d e f g h i j k l m n o p q r s t\n", "line 2: more than 18 words" },
	{ "layout 3.12\nconfig x86_64\nsource x\n", "line 3: expected: had WORD..." },
	{ "layout 3.12\nconfig x86_64\nhad proven derived\n", "line 3: 2 cells for 1 configs" },
	{ "layout 3.12\nconfig x86_64\nhad guessed\n", "line 3: unknown word guessed; known: proven, recorded, derived" },
	{ "layout 3.12\nconfig aarch64\nhad proven\n", "no column x86_64" },
	{ HEAD "PyObjekt size 16 8\n", "line 4: unknown struct PyObjekt" },
	{ HEAD "ob_type ptr 8 4\n", "line 4: unknown statement ob_type" },
	{ HEAD "const long_shift 30 15\n", "line 4: unknown statement const" },
	{ HEAD "PyObject size 16\n", "line 4: 1 cells for 2 configs" },
	{ HEAD "PyObject size 16 8 4\n", "line 4: 3 cells for 2 configs" },
	{ HEAD "PyObject size 0 8\n", "line 4: 0 is no size of a struct" },
	{ HEAD "PyObject size 16777217 8\n", "line 4: 16777217 is no size of a struct" },
	{ HEAD "PyObject size -16 8\n", "line 4: -16 is no size of a struct" },
	{ HEAD "PyObject size 16x 8\n", "line 4: 16x is no size of a struct" },
	{ HEAD "PyObject size 16 8\n  ob_type ptr 8 4\nPyObject size 16 8\n", "line 6: struct PyObject is there already" },
	{ HEAD "PyObject size 16 8\n\n# here\n  ob_typ ptr 8 4\n", "line 7: unknown field ob_typ of PyObject" },
	{ HEAD "PyObject size 16 8\n  ob_type ptr 8 4\n  ob_type ptr 8 4\n", "line 6: field ob_type of PyObject is there already" },
	{ HEAD "PyObject size 16 8\n  ob_type\n", "line 5: field ob_type of PyObject is not of kind (none)" },
	{ HEAD "PyObject size 16 8\n  ob_type word 8 4\n", "line 5: field ob_type of PyObject is not of kind word" },
	{ HEAD "PyObject size 16 8\n  ob_type ptr 8\n", "line 5: 1 cells for 2 configs" },
	{ HEAD "PyObject size 16 8\n  ob_type ptr 9 4\n", "line 5: field ob_type at 9 is outside of PyObject, which has 16 bytes" },
	{ HEAD "PyObject size - 8\n  ob_type ptr 0 4\n", "line 5: field ob_type at 0 is outside of PyObject, which has 0 bytes" },
	{ HEAD "PyObject size 16 8\n  ob_type ptr 99999999999999999999 4\n", "line 5: malformed cell 99999999999999999999" },
	{ HEAD "PyObject size 16 8\n  ob_type ptr +8 4\n", "line 5: malformed cell +8" },
	{ HEAD "PyObject size 16 8\n  ob_type ptr 8:0+1 4\n", "line 5: malformed cell 8:0+1" },
	{ HEAD "PyUnicode size 64 32\n  kind bits 32 16:2+3\n", "line 5: malformed cell 32" },
	{ HEAD "PyUnicode size 64 32\n  kind bits 32:2 16:2+3\n", "line 5: malformed cell 32:2" },
	{ HEAD "PyUnicode size 64 32\n  kind bits 32:2+0 16:2+3\n", "line 5: malformed cell 32:2+0" },
	{ HEAD "PyUnicode size 64 32\n  kind bits 32:2+33 16:2+3\n", "line 5: malformed cell 32:2+33" },
	{ HEAD "PyUnicode size 64 32\n  kind bits 32:32+1 16:2+3\n", "line 5: malformed cell 32:32+1" },
	{ HEAD "PyUnicode size 64 32\n  kind bits 63:7+2 16:2+3\n", "line 5: field kind at 63 is outside of PyUnicode, which has 64 bytes" },
	{ HEAD "PyDebugOffsets size 584 -\n  ob_type off:PyObject.ob_typ 8 -\n",
	  "line 5: field ob_type of PyDebugOffsets is not of kind off:PyObject.ob_typ" },
	{ HEAD "PyDebugOffsets size 584 -\n  object_size size:PyType 8 -\n",
	  "line 5: field object_size of PyDebugOffsets is not of kind size:PyType" },
	{ HEAD "trait\n", "line 4: unknown trait (none)" },
	{ HEAD "trait lasti_units 1 1\n", "line 4: unknown trait lasti_units" },
	{ HEAD "trait lasti_unit 1\n", "line 4: 1 cells for 2 configs" },
	{ HEAD "trait lasti_unit 1 1\ntrait lasti_unit 1 1\n", "line 5: trait lasti_unit is there already" },
	{ HEAD "trait lasti_unit one 1\n", "line 4: malformed cell one" },
	{ HEAD "trait lasti_unit - 1\n", "line 4: malformed cell -" },
	{ HEAD "trait lasti_unit --1 1\n", "line 4: malformed cell --1" },
	{ HEAD "\x1b[31mPy\xff size 1 1\n", "line 4: unknown struct ?[31mPy?" },
	{ HEAD "a_very_long_word_that_no_message_should_carry_whole_into_a_terminal size 1 1\n",
	  "line 4: unknown struct a_very_long_word_that_no_message_should_carr..." },
};

START_TEST(bad_text)
{
	struct layout l = { .version = 1 };
	struct err err = { 0 };
	int rc = layout_parse(str_of(bad[_i].text), "x86_64", &l, &err);
	ck_assert_msg(rc == ERR_CORRUPT || (rc == ERR_ABSENT && strncmp(err.msg, "no column", 9) == 0), "%d: %s", rc, err.msg);
	ck_assert_str_eq(err.msg, bad[_i].msg);
	ck_assert_int_eq(err.code, rc);
	ck_assert_uint_eq(l.version, 1);
}
END_TEST

START_TEST(odd_text)
{
	/* What is allowed: no final newline, CR, tabs, many words in a source, comments anywhere, other columns unread. */
	static const char text[] = "# first\n\nlayout 3.13.4 # c\r\nconfig\tx86_64 x86_64-t\nhad proven recorded\n"
		"source a b c d e f g h i j k l m n o p q r s t u v w x y z\n"
		"PyVarObject size 24 40\n ob_size sword 16 32 # here\nPyObject size 16 32\n ob_tid word - 0\n ob_type ptr 8 24\n"
		"trait gen_done 9 10\nPyDigit size 2 4";
	struct layout l;
	struct err err = { 0 };
	ck_assert_msg(layout_parse(str_of(text), "x86_64", &l, &err) == 0, "%s", err.msg);
	ck_assert_uint_eq(l.version, 0x030d0400);
	ck_assert_str_eq(l.name, "3.13.4 x86_64");
	ck_assert_int_eq(l.had, HAD_PROVEN);
	ck_assert_int_eq(l.offset[F_PyVarObject_ob_size], 16);
	ck_assert_int_eq(l.from[F_PyVarObject_ob_size], FROM_FILE);
	ck_assert(!layout_has(&l, F_PyObject_ob_tid));
	ck_assert_int_eq(l.trait[T_gen_done], 9);
	ck_assert_int_eq(l.trait[T_digit_bits], 15);
	ck_assert_int_eq(l.trait[T_managed_dict_word], -3);
	assert_round(&l, "x86_64");
	ck_assert_int_eq(layout_parse(str_of(text), "x86_64-t", &l, NULL), 0);
	ck_assert_int_eq(l.offset[F_PyObject_ob_type], 24);
	ck_assert_int_eq(l.offset[F_PyObject_ob_tid], 0);
	ck_assert_int_eq(l.trait[T_gen_done], 10);
	ck_assert_int_eq(l.trait[T_digit_bits], 30);
	ck_assert_int_eq(l.trait[T_managed_dict_word], -1);
	ck_assert_int_eq(layout_parse(str_of(text), "x86_64-d", &l, &err), ERR_ABSENT);
	ck_assert_int_eq(layout_parse((struct str){ NULL, 0 }, "x86_64", &l, &err), ERR_CORRUPT);
	char *huge = xcalloc(1, (1 << 20) + 1);
	ck_assert_int_eq(layout_parse((struct str){ huge, (1 << 20) + 1 }, "x86_64", &l, &err), ERR_CORRUPT);
	ck_assert_str_eq(err.msg, "line 1: a text of more than 1 MiB");
	free(huge);
}
END_TEST

/* -- reads -- */

static const struct { const char *config; struct abi abi; } machine[] = {
	{ "x86_64", { EM_X86_64, 8, false } },
	{ "s390x", { EM_S390, 8, true } },
	{ "i386", { EM_386, 4, false } },
	{ "mips", { EM_MIPS, 4, true } },
};

/* One field of each kind at byte 40 of its struct, and what all bits set but the lowest read as. */
static const struct { enum py_field f; unsigned width32, width64; bool is_signed; } kinds[] = {
	{ F_PyThread_next, 4, 8, false },               /* ptr */
	{ F_PyThread_thread_id, 4, 8, false },          /* word */
	{ F_PyVarObject_ob_size, 4, 8, true },          /* sword */
	{ F_PyFrame_owner, 1, 1, false },               /* u8 */
	{ F_PyFrame_return_offset, 2, 2, false },       /* u16 */
	{ F_PyThread_status, 4, 4, false },             /* u32 */
	{ F_PyThread_id, 8, 8, false },                 /* u64 */
	{ F_PyGen_gi_frame_state, 1, 1, true },         /* i8 */
	{ F_PyFrame_stacktop, 4, 4, true },             /* i32 */
	{ F_PyInterp_id, 8, 8, true },                  /* i64 */
	{ F_PyDebugOffsets_interp_head, 8, 8, false },  /* off */
	{ F_PyDebugOffsets_runtime_size, 8, 8, false }, /* size */
};

START_TEST(read_of_every_kind)
{
	struct abi abi = machine[_i].abi;
	struct layout l;
	ck_assert_int_eq(layout_init(&l, 0x030d0000, machine[_i].config), 0);
	ck_assert_mem_eq(&l.abi.machine, &abi.machine, sizeof abi.machine);
	static struct memory m;
	m = (struct memory){ .size = 64 };
	for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
		unsigned width = abi.width == 8 ? kinds[k].width64 : kinds[k].width32;
		uint64_t v, ones = width == 8 ? UINT64_MAX : ((uint64_t)1 << 8 * width) - 1;
		ck_assert_uint_eq(layout_width(&l, kinds[k].f), width);
		struct image *img = memory_image(&m, abi);
		ck_assert_int_eq(layout_read(img, &l, BASE, kinds[k].f, &v), ERR_ABSENT);
		l.offset[kinds[k].f] = 40;
		memset(m.p, 0x5a, sizeof m.p);
		put(&m, 40, width, ones - 1, abi.big_endian);
		image_close(img);
		img = memory_image(&m, abi);
		ck_assert_int_eq(layout_read(img, &l, BASE, kinds[k].f, &v), 0);
		ck_assert_msg(v == (kinds[k].is_signed ? UINT64_MAX - 1 : ones - 1), "%s: %#lx",
			      py_field_info[kinds[k].f].name, (unsigned long)v);
		image_close(img);
		put(&m, 40, width, ones / 2 - 16, abi.big_endian);
		img = memory_image(&m, abi);
		ck_assert_int_eq(layout_read(img, &l, BASE, kinds[k].f, &v), 0);
		ck_assert_uint_eq(v, ones / 2 - 16);
		/* not captured, no object, past the end of memory and of addresses: nothing is stored */
		v = 77;
		ck_assert_int_eq(layout_read(img, &l, 0, kinds[k].f, &v), ERR_FAULT);
		ck_assert_int_eq(layout_read(img, &l, BASE + ROOM, kinds[k].f, &v), ERR_FAULT);
		ck_assert_int_eq(layout_read(img, &l, BASE + 64 - 40 - width + 1, kinds[k].f, &v), ERR_FAULT);
		ck_assert_int_eq(layout_read(img, &l, UINT64_MAX - 8, kinds[k].f, &v), ERR_FAULT);
		ck_assert_uint_eq(v, 77);
		image_close(img);
	}
}
END_TEST

START_TEST(read_of_embedded_data)
{
	static struct memory m = { .size = 64 };
	struct layout l;
	uint64_t v = 0;
	ck_assert_int_eq(layout_init(&l, 0x030d0000, "x86_64"), 0);
	l.offset[F_PyFrame_localsplus] = 72;
	struct image *img = memory_image(&m, l.abi);
	/* an address needs no memory there: who follows it finds out */
	ck_assert_int_eq(layout_read(img, &l, BASE, F_PyFrame_localsplus, &v), 0);
	ck_assert_uint_eq(v, BASE + 72);
	ck_assert_int_eq(layout_read(img, &l, 0, F_PyFrame_localsplus, &v), ERR_FAULT);
	image_close(img);
}
END_TEST

/* byte, first bit, count, the memory from byte 32 on, what little- and big-endian machines see there */
static const struct { uint8_t bit, bits; uint8_t bytes[4]; uint32_t little, big; } bit_cases[] = {
	{ 0, 2, { 0xe4 }, 0, 3 },
	{ 2, 3, { 0xe4 }, 1, 4 },
	{ 5, 1, { 0x20 }, 1, 0 },
	{ 5, 1, { 0x04 }, 0, 1 },
	{ 7, 1, { 0x80 }, 1, 0 },
	{ 6, 4, { 0x40, 0x01 }, 5, 0 },
	{ 6, 4, { 0x01, 0x40 }, 0, 5 },
	{ 0, 32, { 1, 2, 3, 4 }, 0x04030201, 0x01020304 },
	{ 4, 28, { 0x10, 2, 3, 4 }, 0x00403021 & 0x0fffffff, 0x00020304 },
};

START_TEST(read_of_bits)
{
	for (size_t k = 0; k < sizeof machine / sizeof *machine; k++) {
		struct layout l;
		ck_assert_int_eq(layout_init(&l, 0x030d0000, machine[k].config), 0);
		static struct memory m;
		m = (struct memory){ .size = 36 };
		memcpy(m.p + 32, bit_cases[_i].bytes, 4);
		l.offset[F_PyUnicode_kind] = 32;
		l.bit[F_PyUnicode_kind] = bit_cases[_i].bit;
		l.bits[F_PyUnicode_kind] = bit_cases[_i].bits;
		struct image *img = memory_image(&m, l.abi);
		uint64_t v;
		ck_assert_int_eq(layout_read(img, &l, BASE, F_PyUnicode_kind, &v), 0);
		ck_assert_msg(v == (l.abi.big_endian ? bit_cases[_i].big : bit_cases[_i].little), "%s: %#lx",
			      machine[k].config, (unsigned long)v);
		image_close(img);
	}
}
END_TEST

START_TEST(configs)
{
	struct layout l = { .version = 7 };
	ck_assert_int_eq(layout_init(&l, 0x030d0000, "x86_64-d-t"), 0);
	ck_assert_str_eq(l.name, "3.13 x86_64-d-t");
	static const char *const none[] = { "", "x86", "x86_64-", "x86_64-x", "x86_64-t-d", "X86_64", "-d" };
	for (size_t i = 0; i < sizeof none / sizeof *none; i++)
		ck_assert_int_eq(layout_init(&l, 0, none[i]), ERR_ABSENT);
}
END_TEST

/* -- traits -- */

static const struct { enum py_trait t; uint32_t version; int32_t want; } traits[] = {
	{ T_lasti_unit, 0x030900f0, 1 }, { T_lasti_unit, 0x030a00f0, 2 }, { T_lasti_unit, 0x030aff00, 2 }, { T_lasti_unit, 0x030b00a1, 1 },
	{ T_lnotab_signed, 0x020712f0, 0 }, { T_lnotab_signed, 0x030600f0, 1 }, { T_lnotab_signed, 0x030912f0, 1 },
	{ T_lnotab_signed, 0x030a00f0, -1 },
	{ T_line_table, 0x030800f0, LINE_TABLE_LNOTAB }, { T_line_table, 0x030a0df0, LINE_TABLE_V310 },
	{ T_line_table, 0x030b00f0, LINE_TABLE_LOCATIONS }, { T_line_table, 0x030f00f0, LINE_TABLE_LOCATIONS },
	{ T_stackref, 0x030d05f0, STACKREF_PLAIN }, { T_stackref, 0x030e0af0, STACKREF_TAGS }, { T_stackref, 0x030f02f0, STACKREF_TAGS3 },
	{ T_stack_depth, 0x030812f0, STACK_DEPTH_POINTER }, { T_stack_depth, 0x030a0df0, STACK_DEPTH_DEPTH },
	{ T_stack_depth, 0x030c01f0, STACK_DEPTH_TOP }, { T_stack_depth, 0x030e00f0, STACK_DEPTH_SAVED },
	{ T_with_slots, 0x030d00f0, WITH_SLOTS_BOUND }, { T_with_slots, 0x030e00f0, WITH_SLOTS_PAIR },
	{ T_owner_shim, 0x030b07f0, 255 }, { T_owner_shim, 0x030c00f0, 3 }, { T_owner_shim, 0x030a00f0, 255 },
	{ T_int_sign, 0x030b07f0, INT_SIGN_OB_SIZE }, { T_int_sign, 0x030c00a1, INT_SIGN_LV_TAG },
	{ T_digit_bits, 0x030c00f0, 30 },
	{ T_dict_shape, 0x020712f0, DICT_SHAPE_MASK }, { T_dict_shape, 0x030600f0, DICT_SHAPE_SIZE }, { T_dict_shape, 0x030b00f0, DICT_SHAPE_LOG2 },
	{ T_attributes, 0x030a00f0, ATTRIBUTES_DICTOFFSET }, { T_attributes, 0x030b00f0, ATTRIBUTES_WORDS },
	{ T_attributes, 0x030c00f0, ATTRIBUTES_TAGGED }, { T_attributes, 0x030d00f0, ATTRIBUTES_INLINE },
	{ T_managed_values_word, 0x030b00f0, -4 }, { T_managed_values_word, 0x030c00f0, -1 },
	{ T_flag_managed_dict, 0x030a00f0, -1 }, { T_flag_managed_dict, 0x030b00f0, 4 }, { T_flag_inline_values, 0x030d00f0, 2 },
	{ T_flag_type_subclass, 0x020712f0, 31 },
	{ T_gen_suspended, 0x030c00f0, -1 }, { T_gen_suspended, 0x030d00f0, -2 }, { T_gen_suspended, 0x030f00f0, 1 },
	{ T_awaited_slot, 0x030e00f0, -1 }, { T_awaited_slot, 0x030f00f0, -2 },
};

START_TEST(trait_values)
{
	struct layout l;
	ck_assert_int_eq(layout_init(&l, traits[_i].version, "x86_64"), 0);
	ck_assert_msg(l.trait[traits[_i].t] == traits[_i].want, "%s of %#x: %d, not %d", py_trait_name[traits[_i].t],
		      traits[_i].version, l.trait[traits[_i].t], traits[_i].want);
}
END_TEST

/* A table serves its whole minor version, but traits are those of the version asked for. */
START_TEST(traits_of_the_version_asked_for)
{
	struct layout l = *builtin(0x030c01f0, "x86_64");
	ck_assert_int_eq(l.trait[T_stack_depth], STACK_DEPTH_TOP);
	l.version = 0x030e0000;
	layout_set_traits(&l);
	ck_assert_int_eq(l.trait[T_stack_depth], STACK_DEPTH_SAVED);
}
END_TEST

/* -- what a process says of itself -- */

/* The debug offsets of a process that is laid out as l says, at the start of m. */
static unsigned say(struct memory *m, const struct layout *l, uint32_t version, uint64_t threaded)
{
	const struct py_struct_info *self = &py_struct_info[S_PyDebugOffsets];
	unsigned n = 0;
	memset(m->p, 0, sizeof m->p);
	m->size = l->size[S_PyDebugOffsets];
	memcpy(m->p, "xdebugpy", 8);
	put(m, 8, 8, version, l->abi.big_endian);
	put(m, 16, 8, threaded, l->abi.big_endian);
	for (unsigned i = 0; i < self->n_fields; i++) {
		const struct py_field_info *info = &py_field_info[self->first + i];
		int32_t at = l->offset[self->first + i];
		if (at < 0)
			continue;
		if (info->kind == K_SIZE)
			put(m, (size_t)at, 8, l->size[info->size_target], l->abi.big_endian);
		if (info->kind == K_OFF && l->offset[info->off_target] >= 0) {
			put(m, (size_t)at, 8, (uint64_t)l->offset[info->off_target], l->abi.big_endian);
			n++;
		}
	}
	return n;
}

static const uint32_t self_versions[] = { 0x030d00f0, 0x030e0af0 };

static int overlay(struct memory *m, struct layout *l, unsigned *differ)
{
	struct image *img = memory_image(m, l->abi);
	int rc = layout_from_self(img, BASE, l, differ);
	image_close(img);
	return rc;
}

START_TEST(self_agrees)
{
	static struct memory m;
	const struct layout table = *builtin(self_versions[_i], "x86_64");
	struct layout l = table;
	unsigned n = say(&m, &table, self_versions[_i], 0), differ = 99;
	ck_assert_uint_ge(n, 50);
	ck_assert_int_eq(overlay(&m, &l, &differ), (int)n);
	ck_assert_uint_eq(differ, 0);
	assert_same(&table, &l);
	ck_assert_int_eq(l.from[F_PyThread_current_frame], FROM_SELF);
	ck_assert_int_eq(l.from[F_PyThread_exc_info], FROM_TABLE);
	ck_assert_int_eq(overlay(&m, &l, NULL), (int)n);
	uint32_t version;
	bool threaded = true;
	struct image *img = memory_image(&m, l.abi);
	ck_assert_int_eq(layout_self_version(img, BASE, &version, &threaded), 0);
	ck_assert_uint_eq(version, self_versions[_i]);
	ck_assert(!threaded);
	ck_assert_int_eq(layout_self_version(img, 0, &version, &threaded), ERR_FAULT);
	ck_assert_int_eq(layout_self_version(img, UINT64_MAX - 4, &version, &threaded), ERR_FAULT);
	image_close(img);
}
END_TEST

/* A build of our own that moved things: its word counts, and the rest of the table stays. */
START_TEST(self_differs)
{
	static struct memory m;
	const struct layout table = *builtin(self_versions[_i], "x86_64");
	struct layout moved = table, l = table;
	moved.size[S_PyInterp] += 4096;
	moved.offset[F_PyInterp_sysdict] += 256;
	moved.offset[F_PyInterp_modules] += 256;
	moved.size[S_PyFrameObject] = 8; /* not stated: nothing follows */
	say(&m, &moved, self_versions[_i], 0);
	unsigned differ = 0;
	ck_assert_int_gt(overlay(&m, &l, &differ), 0);
	ck_assert_uint_eq(differ, 2);
	ck_assert_int_eq(l.offset[F_PyInterp_sysdict], moved.offset[F_PyInterp_sysdict]);
	ck_assert_int_eq(l.from[F_PyInterp_sysdict], FROM_SELF);
	ck_assert_uint_eq(l.size[S_PyInterp], moved.size[S_PyInterp]);
	ck_assert_uint_eq(l.size[S_PyFrameObject], table.size[S_PyFrameObject]);
	ck_assert_int_eq(l.offset[F_PyInterp_dict], table.offset[F_PyInterp_dict]);
	/* a struct that is smaller than the table thinks: what would lie past its end is dropped */
	l = table;
	moved = table;
	moved.size[S_PyThread] = (uint32_t)table.offset[F_PyThread_exc_state];
	for (size_t f = 0; f < PY_FIELD_COUNT; f++)
		if (py_field_info[f].of == S_PyThread)
			ck_assert_int_lt(table.offset[f], (int)table.size[S_PyThread]);
	say(&m, &moved, self_versions[_i], 0);
	moved.size[S_PyThread] = (uint32_t)table.offset[F_PyThread_id];
	put(&m, (size_t)table.offset[F_PyDebugOffsets_thread_size], 8, moved.size[S_PyThread], false);
	/* datastack_chunk is stated and lies behind: the two words contradict each other */
	ck_assert_int_eq(overlay(&m, &l, &differ), ERR_CORRUPT);
	assert_same(&table, &l);
	put(&m, (size_t)table.offset[F_PyDebugOffsets_thread_size], 8, (uint64_t)table.offset[F_PyThread_datastack_top], false);
	ck_assert_int_gt(overlay(&m, &l, &differ), 0);
	ck_assert(!layout_has(&l, F_PyThread_datastack_top) && layout_has(&l, F_PyThread_datastack_chunk));
	ck_assert_uint_ge(differ, 1);
}
END_TEST

START_TEST(self_is_refused)
{
	static struct memory m;
	const struct layout table = *builtin(self_versions[_i], "x86_64");
	struct layout l = table;
	const struct { enum py_field f; uint64_t value; int rc; } cases[] = {
		{ F_PyDebugOffsets_cookie, 0, ERR_CORRUPT },
		{ F_PyDebugOffsets_version, self_versions[_i] + 0x10000, ERR_UNSUPPORTED },
		{ F_PyDebugOffsets_version, 0x030c01f0, ERR_CORRUPT },  /* 3.12 has no such struct */
		{ F_PyDebugOffsets_version, 0x040d00f0, ERR_CORRUPT },
		{ F_PyDebugOffsets_version, (uint64_t)1 << 32 | self_versions[_i], ERR_CORRUPT },
		{ F_PyDebugOffsets_version, self_versions[_i] & ~(uint32_t)0xff, ERR_CORRUPT },
		{ F_PyDebugOffsets_free_threaded, 1, ERR_UNSUPPORTED },
		{ F_PyDebugOffsets_free_threaded, 2, ERR_CORRUPT },
		{ F_PyDebugOffsets_thread_size, 0, ERR_CORRUPT },
		{ F_PyDebugOffsets_thread_size, LAYOUT_MAX_STRUCT + 1, ERR_CORRUPT },
		{ F_PyDebugOffsets_thread_size, UINT64_MAX, ERR_CORRUPT },
		{ F_PyDebugOffsets_current_frame, table.size[S_PyThread], ERR_CORRUPT },
		{ F_PyDebugOffsets_current_frame, table.size[S_PyThread] - 7, ERR_CORRUPT },
		{ F_PyDebugOffsets_current_frame, table.size[S_PyThread] - 8, 1 },
		{ F_PyDebugOffsets_current_frame, UINT64_MAX, ERR_CORRUPT },
		{ F_PyDebugOffsets_current_frame, UINT64_MAX - 7, ERR_CORRUPT },
		{ F_PyDebugOffsets_frame_localsplus, table.size[S_PyFrame], 1 },
		{ F_PyDebugOffsets_frame_localsplus, table.size[S_PyFrame] + 1, ERR_CORRUPT },
		{ F_PyDebugOffsets_gil_enabled, 0, 1 },
		{ F_PyDebugOffsets_gil_enabled, table.size[S_PyGil] - 3, ERR_CORRUPT },
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		say(&m, &table, self_versions[_i], 0);
		put(&m, (size_t)table.offset[cases[i].f], 8, cases[i].value, false);
		l = table;
		unsigned differ = 99;
		int rc = overlay(&m, &l, &differ);
		ck_assert_msg(cases[i].rc == 1 ? rc > 0 : rc == cases[i].rc, "case %zu: %d, not %d", i, rc, cases[i].rc);
		if (rc < 0) {
			assert_same(&table, &l);
			ck_assert_int_eq(l.from[F_PyThread_current_frame], FROM_TABLE);
			ck_assert_uint_eq(differ, 99);
		}
	}
	/* not all of it captured */
	say(&m, &table, self_versions[_i], 0);
	for (size_t size = 8; size + 8 < table.size[S_PyDebugOffsets] - 160; size += 8) {
		m.size = size;
		l = table;
		ck_assert_int_eq(overlay(&m, &l, NULL), ERR_FAULT);
		assert_same(&table, &l);
	}
	/* 3.12 does not know the struct */
	say(&m, &table, self_versions[_i], 0);
	l = *builtin(0x030c0000, "x86_64");
	ck_assert_int_eq(overlay(&m, &l, NULL), ERR_ABSENT);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("layout");
	TCase *t = tcase_create("layout");
	tcase_add_test(t, every_table_parses);
	tcase_add_test(t, print_is_read_back);
	tcase_add_test(t, table_in_force);
	tcase_add_loop_test(t, bad_text, 0, COUNT(bad));
	tcase_add_test(t, odd_text);
	tcase_add_loop_test(t, read_of_every_kind, 0, COUNT(machine));
	tcase_add_test(t, read_of_embedded_data);
	tcase_add_loop_test(t, read_of_bits, 0, COUNT(bit_cases));
	tcase_add_test(t, configs);
	tcase_add_loop_test(t, trait_values, 0, COUNT(traits));
	tcase_add_test(t, traits_of_the_version_asked_for);
	tcase_add_loop_test(t, self_agrees, 0, 2);
	tcase_add_loop_test(t, self_differs, 0, 2);
	tcase_add_loop_test(t, self_is_refused, 0, 2);
	suite_add_tcase(s, t);
	return suite_run(s);
}
