/* src/python/find, failure: each way to a runtime by itself, under every built-in layout; and what is said where none leads to one. */
#include <check.h>
#include <elf.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "build_py.h"
#include "build_so.h"
#include "every_layout.h"
#include "suite.h"

#define IDENT BUILD_IDENT(b)
#define BIAS  0x1fff0000u /* of the file, below the heap that build_py.h makes, which becomes its .bss */

enum which { BY_DYNAMIC, BY_SYMBOL, BY_SECTION, BY_HEAD_CODE, BY_CURRENT, BY_NOTHING, BY_DEAD, BY_DEAD_CODE, BY_BLANK, BY_COUNT };

struct setup {
	struct build *b;
	struct image *img;
	struct modules *mods;
	uint8_t *file;
	char path[64];
	const char *version_text; /* what Py_GetVersion() left in its buffer; NULL */
};

static int read_memory(void *ctx, uint64_t offset, void *buf, size_t len)
{
	memcpy(buf, (const uint8_t *)ctx + offset, len);
	return 0;
}

static void add_page(struct image *img, addr_t at, uint8_t *p, size_t size, unsigned prot)
{
	struct segment seg = { .start = at, .size = size, .prot = prot, .read = read_memory, .ctx = p };
	ck_assert_int_eq(image_add_segment(img, &seg, LAY_OVER), 0);
}

static void put(uint8_t *p, size_t width, uint64_t v)
{
	for (size_t i = 0; i < width; i++)
		p[i] = (uint8_t)(v >> 8 * i);
}

static void map(struct image *img, const char *path, addr_t start, addr_t end, uint64_t offset)
{
	*image_add_mapping(img) = (struct mapping){ .start = start, .end = end, .offset = offset, .path = { (const uint8_t *)path, strlen(path) } };
}

/* A process of two threads in which one way is open: neither cookie nor thread pointers. */
static void set_up(struct setup *s, const struct layout *l, enum which way, bool tls)
{
	struct build *b = s->b = build_new(l);
	addr_t code = build_code(b, &(struct build_code){ .name = "work", .file = "/a/b.py", .firstlineno = 10, .units = 8, .nlocals = 1, .stacksize = 4 });
	addr_t thread = 0;
	for (unsigned i = 0; i < 2; i++) {
		thread = build_thread(b, b->interp, IDENT + 0x1000 * (uint64_t)i, (pid_t)(100 + i));
		build_frame(b, thread, &(struct build_frame){ .code = code, .lasti = 4 });
	}
	build_gil(b, b->interp, thread);
	for (size_t i = 0; i < b->lwps.n && !tls; i++)
		b->lwps.p[i].regs.tls = 0;
	if (layout_has(l, F_PyDebugOffsets_cookie))
		build_uint(b, b->runtime, 8, 0);
	if (s->version_text)
		build_put(b, build_alloc(b, 128), s->version_text, strlen(s->version_text) + 1);
	addr_t head = build_alloc(b, 16); /* the variable interp_head */
	build_ptr(b, head, b->interp);
	addr_t slot = b->runtime ? build_field_at(b, b->runtime, F_PyRuntime_interp_head) : head;
	/* What other versions' tables would take for the head of the list, or its runtime for this one. */
	for (unsigned i = 1; way == BY_DEAD_CODE && i < 16; i++) {
		build_ptr(b, slot - (addr_t)i * l->abi.width, 0x18);
		build_ptr(b, slot + (addr_t)i * l->abi.width, 0x18);
	}
	for (addr_t at = b->runtime; way == BY_BLANK && at && at < slot + 0x800; at += l->abi.width)
		build_ptr(b, at, 0);
	if ((way == BY_DEAD || way == BY_DEAD_CODE) && b->runtime)
		WRITE(b, b->runtime, PyRuntime, interp_head, 0);
	build_settle(b);

	const addr_t at[BY_COUNT] = { [BY_DYNAMIC] = b->runtime ? b->runtime : head, [BY_SYMBOL] = b->runtime ? b->runtime : head,
				      [BY_HEAD_CODE] = BIAS + SO_TEXT, [BY_CURRENT] = b->tstate_current, [BY_DEAD] = b->runtime, [BY_DEAD_CODE] = BIAS + SO_TEXT,
				      [BY_BLANK] = b->runtime };
	const char *const name[BY_COUNT] = { [BY_DYNAMIC] = b->runtime ? "_PyRuntime" : "interp_head",
		[BY_SYMBOL] = b->runtime ? "_PyRuntime" : "interp_head", [BY_SECTION] = "other", [BY_HEAD_CODE] = "PyInterpreterState_Head",
		[BY_CURRENT] = "_PyThreadState_Current", [BY_NOTHING] = "other", [BY_DEAD] = "_PyRuntime",
		[BY_DEAD_CODE] = "PyInterpreterState_Head", [BY_BLANK] = "_PyRuntime" };
	struct so_symbol symbol = { name[way], (uint32_t)(at[way] ? at[way] - BIAS : SO_DATA), 8, way == BY_HEAD_CODE || way == BY_DEAD_CODE, way != BY_SYMBOL };
	struct build_so so = { .abi = l->abi, .build_id = "0123456789", .symbols = &symbol, .n_symbols = 1, .stripped = way != BY_SYMBOL && way != BY_SECTION };
	s->file = build_so(&so);
	/* The data's part in memory reaches to the heap's end; mov slot, %rax; ret; and where the section is. */
	const unsigned w = l->abi.width;
	put(s->file + (w == 8 ? 64 + 3 * 56 + 40 : 52 + 3 * 32 + 20), w, b->heap.base + b->heap.n - BIAS - SO_DATA);
	uint8_t *text = s->file + SO_TEXT;
	if (w == 8) {
		memcpy(text, "\x48\x8b\x05", 3);
		put(text + 3, 4, slot - (BIAS + SO_TEXT + 7));
		text[7] = 0xc3;
	} else {
		text[0] = 0xa1;
		put(text + 1, 4, slot);
		text[5] = 0xc3;
	}
	if (way == BY_SECTION)
		put(s->file + 0x5000 + (w == 8 ? 3 * 64 + 16 : 3 * 40 + 12), w, b->runtime - BIAS);
	snprintf(s->path, sizeof s->path, "/tmp/pysnap-find-XXXXXX");
	int fd = mkstemp(s->path);
	ck_assert(fd >= 0 && write(fd, s->file, SO_FILE) == SO_FILE);
	close(fd);

	struct image *img = s->img = build_image(b);
	bool with_file = way == BY_SYMBOL || way == BY_SECTION;
	add_page(img, BIAS, s->file, 0x1000, 1);
	if (!with_file) {
		add_page(img, BIAS + 0x1000, s->file + 0x1000, 0x1000, 1);
		add_page(img, BIAS + SO_TEXT, text, 0x1000, 5);
	}
	add_page(img, BIAS + SO_DATA, s->file + SO_DATA_FILE, 0x1000, 3);
	map(img, s->path, BIAS, BIAS + 0x2000, 0);
	map(img, s->path, BIAS + SO_TEXT, BIAS + 0x3000, SO_TEXT);
	map(img, s->path, BIAS + SO_DATA, BIAS + 0x5000, SO_DATA_FILE);
	if (s->version_text) /* a bss is where a file's mapping ends */
		map(img, s->path, BIAS + 0x5000, b->heap.base, 0x5000);
	image_settle(img);
	struct err err;
	struct search where = { .no_files = !with_file };
	ck_assert_int_eq(modules_open(img, &where, &s->mods, &err), 0);
}

static void tear_down(struct setup *s)
{
	modules_close(s->mods);
	unlink(s->path);
	build_free(s->b);
	free(s->file);
}

static void alone(const struct layout *l)
{
	static const char *const word[BY_COUNT] = { [BY_DYNAMIC] = "dynamic", [BY_SYMBOL] = "symbol", [BY_SECTION] = "section",
						    [BY_HEAD_CODE] = "head_code", [BY_CURRENT] = "dynamic" };

	for (enum which way = 0; way < BY_NOTHING; way++) {
		if ((way == BY_SECTION && !layout_has(l, F_PyRuntime_interp_head)) || (way == BY_CURRENT && layout_has(l, F_PyRuntime_interp_head)) ||
		    (way == BY_HEAD_CODE && l->abi.machine != EM_X86_64 && l->abi.machine != EM_386))
			continue;
		struct setup s = { 0 };
		struct py *py = NULL;
		struct err err = { 0 };
		set_up(&s, l, way, false);
		int rc = py_open(s.img, s.mods, NULL, s.b->arena, &py, &err);
		ck_assert_msg(rc == 0, "%s: %s: %s; %s", l->name, word[way], err.msg, err.why);
		ck_assert_msg(!strcmp(py->found_by, word[way]), "%s: %s: by %s", l->name, word[way], py->found_by);
		ck_assert(py->interp_head == s.b->interp && py->runtime == s.b->runtime);
		ck_assert_str_eq(py->layout.name, l->name);
		ck_assert(!py->other);
		tear_down(&s);
	}
}

START_TEST(each_way_by_itself)
{
	each_layout(alone);
}
END_TEST

/* Where somebody says which: that one, though another is found first, or none at all. */
static void named(const struct layout *l)
{
	struct setup s = { 0 };
	set_up(&s, l, BY_DYNAMIC, false);
	for (int wrong = 0; wrong < 2; wrong++) {
		const addr_t at = build_hint(s.b) + (wrong ? 4096u : 0u);
		struct py *py = NULL;
		struct err err = { 0 };
		image_facts_mut(s.img)->hint_runtime = build_hint(s.b) + (wrong ? 0u : 4096u);
		int rc = py_open(s.img, s.mods, &(struct py_options){ .only_runtime = at }, s.b->arena, &py, &err);
		ck_assert_msg(rc == (wrong ? ERR_NOPYTHON : 0), "%s: %d %s", l->name, rc, err.msg);
		if (!wrong) {
			ck_assert(py->interp_head == s.b->interp && py->runtime == s.b->runtime);
			ck_assert_str_eq(py->layout.name, l->name);
			continue;
		}
		char want[120], other[120];
		snprintf(want, sizeof want, "no Python is at 0x%llx", (unsigned long long)at);
		snprintf(other, sizeof other, "no Python that can be read is at 0x%llx", (unsigned long long)at);
		ck_assert_msg(!strcmp(err.msg, want) || !strcmp(err.msg, other), "%s: %s", l->name, err.msg);
		snprintf(want, sizeof want, "those found: 0x%llx (Python ", (unsigned long long)(s.b->runtime ? s.b->runtime : s.b->interp));
		ck_assert_msg(!strncmp(err.why, want, strlen(want)) && strchr(err.why, ')')[1] == 0, "%s: %s", l->name, err.why);
		ck_assert_str_eq(err.hint, "without --runtime");
	}
	tear_down(&s);
}

START_TEST(one_by_its_address)
{
	each_layout(named);
}
END_TEST

/* What is said: every way, what became of it, and what would help. */
static void nowhere(const struct layout *l)
{
	struct setup s = { 0 };
	struct py *py = NULL;
	struct err err = { 0 };

	set_up(&s, l, BY_NOTHING, false);
	ck_assert_int_eq(py_open(s.img, s.mods, NULL, s.b->arena, &py, &err), ERR_NOPYTHON);
	ck_assert_str_eq(err.msg, "found no CPython");
	static const struct { uint16_t machine; const char *why; } whys[] = {
		{ EM_386, ": no NT_386_TLS notes" }, { EM_AARCH64, ": no NT_ARM_TLS notes, and no struct pthread at a stack's end" },
		{ EM_ARM, ": no NT_ARM_TLS notes, which kernels do not write of 32-bit ARM, and no struct pthread at a stack's end" }, { EM_NONE, "" },
	};
	size_t why = 0;
	while (whys[why].machine && whys[why].machine != l->abi.machine)
		why++;
	char want[600];
	snprintf(want, sizeof want, "symbols: none of _PyRuntime, interp_head and _PyThreadState_Current in the files that are mapped (1; here: 0)\n"
			 "section .PyRuntime: in none of the files that are here (0)\ninstructions: no PyInterpreterState_Head\n"
			 "cookie of 3.13 and later: nowhere in writable memory\nthread pointers: those of the threads (2) are not known%s", whys[why].why);
	ck_assert_str_eq(err.detail, want);
	ck_assert_str_eq(err.why, "no file that was mapped, and nothing in memory, is recognized as CPython's");
	ck_assert_str_eq(err.hint, "-e PROGRAM or --sysroot DIR, with the files that ran and their symbols; --layout FILE for a Python of another make");
	tear_down(&s);
}

/* A runtime that is there and empty: the candidate and why it is none. */
static void dead(const struct layout *l)
{
	struct setup s = { 0 };
	struct py *py = NULL;
	struct err err = { 0 };
	char want[200];

	if (!layout_has(l, F_PyRuntime_interp_head))
		return;
	set_up(&s, l, BY_DEAD, false);
	char path[64];
	snprintf(path, sizeof path, "/usr/lib/libpython%u.%u.so.1.0", l->version >> 24, l->version >> 16 & 255);
	map(s.img, path, 0x1000, 0x2000, 0);
	image_settle(s.img);
	int rc = py_open(s.img, s.mods, NULL, s.b->arena, &py, &err);
	ck_assert_msg(rc == ERR_NOPYTHON, "%s: %d %s", l->name, rc, err.msg);
	snprintf(want, sizeof want, "Python %u.%u is mapped, but has no interpreter: ", l->version >> 24, l->version >> 16 & 255);
	ck_assert_msg(!strncmp(err.why, want, strlen(want)), "%s: %s", l->name, err.why);
	snprintf(want, sizeof want, "symbols: _PyRuntime at 0x%llx: ", (unsigned long long)s.b->runtime);
	ck_assert_msg(!strncmp(err.detail, want, strlen(want)) && !strstr(err.detail + strlen(want), "_PyRuntime at ") && !strchr(err.why, '('), "%s: %s; %s", l->name, err.why, err.detail);
	ck_assert_str_eq(err.hint, "nothing lifts this, if Python was not begun or had ended; else -e PROGRAM or --sysroot DIR, with the files that ran and their symbols");
	/* A file that was cut elsewhere: the runtime is whole, and says the same. */
	struct err cut = { 0 };
	image_facts_mut(s.img)->truncated = true;
	ck_assert_int_eq(py_open(s.img, s.mods, NULL, s.b->arena, &py, &cut), ERR_NOPYTHON);
	ck_assert_str_eq(cut.why, err.why);
	ck_assert_str_eq(cut.hint, "a core that is not cut off: ulimit -c unlimited, and let it crash again");
	tear_down(&s);
	/* Without a word on the version too. */
	set_up(&s, l, BY_BLANK, false);
	rc = py_open(s.img, s.mods, NULL, s.b->arena, &py, &err);
	ck_assert_msg(rc == ERR_NOPYTHON && !strncmp(err.why, "Python is mapped, but has no interpreter: ", 42), "%s: %d %s; %s", l->name, rc, err.msg, err.why);
	tear_down(&s);
	/* By the function's instructions, which lead to the list and not to the runtime: each table has its own there. */
	if (l->abi.machine == EM_X86_64 || l->abi.machine == EM_386) {
		set_up(&s, l, BY_DEAD_CODE, false);
		map(s.img, path, 0x1000, 0x2000, 0);
		image_settle(s.img);
		rc = py_open(s.img, s.mods, NULL, s.b->arena, &py, &err);
		snprintf(want, sizeof want, "Python %u.%u is mapped, but has no interpreter: ", l->version >> 24, l->version >> 16 & 255);
		ck_assert_msg(rc == ERR_NOPYTHON && !strncmp(err.why, want, strlen(want)), "%s: %d %s; %s", l->name, rc, err.msg, err.why);
		tear_down(&s);
	}
	/* The threads' pointers lead on where symbols lead to nothing, and the name says which it was. */
	set_up(&s, l, BY_NOTHING, true);
	ck_assert_int_eq(py_open(s.img, s.mods, NULL, s.b->arena, &py, &err), 0);
	ck_assert_str_eq(py->found_by, "search");
	tear_down(&s);
}

/* A Python that is mapped, and nothing that leads to it: that it has no interpreter is not known then. */
static void not_placed(const struct layout *l)
{
	struct setup s = { 0 };
	struct py *py = NULL;
	struct err err = { 0 };
	char want[200], path[64];

	set_up(&s, l, BY_NOTHING, false);
	snprintf(path, sizeof path, "/usr/lib/libpython%u.%u.so.1.0", l->version >> 24, l->version >> 16 & 255);
	map(s.img, path, 0x1000, 0x2000, 0);
	image_settle(s.img);
	ck_assert_int_eq(py_open(s.img, s.mods, NULL, s.b->arena, &py, &err), ERR_NOPYTHON);
	snprintf(want, sizeof want, "Python %u.%u is mapped, but where it keeps its interpreters was not found", l->version >> 24, l->version >> 16 & 255);
	ck_assert_str_eq(err.why, want);
	tear_down(&s);
}

/*
 * Where struct pthread lies before the thread pointer, it is found by the thread's number in it: glibc's, musl's, and at a stack's end
 * where there is no thread pointer.  Without the number, or without what has to stand next to it, there is none.
 */
static void by_pthread(const struct layout *l)
{
	enum { GLIBC, MUSL, AT_END, OTHER_NUMBER, NO_LIST, WAYS, PLACE = 0x700, SIZE = 0x3000 };
	const unsigned w = l->abi.width;
	if (abi_tls_is_self(&l->abi))
		return;
	for (int way = 0; way < WAYS; way++) {
		struct setup s = { 0 };
		struct py *py = NULL;
		struct err err = { 0 };
		set_up(&s, l, BY_NOTHING, false);
		struct build *b = s.b;
		uint8_t *pages = xcalloc(1, SIZE);
		const struct thread *threads;
		image_threads(s.img, &threads);
		for (unsigned i = 0; i < 2; i++) {
			const addr_t self = IDENT + 0x1000 * (uint64_t)i;
			uint8_t *p = pages + PLACE + 0x1000 * i;
			const unsigned at = way == MUSL ? 4 * w : 26 * w;
			put(p + at, 4, way == OTHER_NUMBER ? 7 : 100 + i);
			if (way == MUSL)
				put(p, w, self);
			else if (way != NO_LIST)
				put(p + 24 * w, w, self + 0x2000), put(p + 25 * w, w, self + 0x3000);
			if (way == AT_END)
				((struct thread *)threads)[i].regs.sp = self - 0x100;
			else
				((struct thread *)threads)[i].regs.tls = self + 0x740;
		}
		add_page(s.img, IDENT - PLACE, pages, SIZE, 3);
		image_settle(s.img);
		int rc = py_open(s.img, s.mods, NULL, b->arena, &py, &err);
		ck_assert_msg(rc == (way < OTHER_NUMBER ? 0 : ERR_NOPYTHON), "%s: %d: %d %s", l->name, way, rc, err.why);
		if (rc == 0)
			ck_assert_str_eq(py->found_by, "search");
		tear_down(&s);
		free(pages);
	}
}

START_TEST(by_struct_pthread)
{
	each_layout(by_pthread);
}
END_TEST

START_TEST(what_was_tried_is_said)
{
	each_layout(nowhere);
	each_layout(not_placed);
	each_layout(dead);
}
END_TEST

/* The cookie's text in strings, at any alignment, is passed over, with what it is said to be; the real one is found behind them. */
static void in_strings(const struct layout *l)
{
	for (int real = 0; real < 2; real++) {
		struct build *b = build_bare(l);
		struct arena *a = arena_new();
		struct py *py = NULL;
		struct err err = { 0 };
		for (unsigned i = 0; i < 300; i++) {
			addr_t at = build_alloc(b, 512);
			build_put(b, at, "xdebugpyxdebugpy", 16);
			if (i % 3 == 1) /* a version that could be, and nothing else */
				build_put(b, at + 8, "\xf0\x00\x0d\x03\x00\x00\x00\x00", 8);
			if (i % 3 == 2)
				build_put(b, at + 8, "\xff\xff\xff\xff\xff\xff\xff\xff\xff", 9);
		}
		struct build *whole = NULL;
		if (real) {
			build_free(b);
			b = whole = build_new(l);
			for (unsigned i = 0; i < 300; i++)
				build_put(b, build_alloc(b, 64), "xdebugpy is the text", 20);
			addr_t t = build_thread(b, b->interp, IDENT, 100);
			build_frame(b, t, &(struct build_frame){ .code = build_code(b, &(struct build_code){ .name = "work", .file = "b.py", .firstlineno = 1 }), .lasti = 2 });
		}
		int rc = py_open(build_image(b), NULL, NULL, a, &py, &err);
		if (real)
			ck_assert_msg(rc == 0 && !strcmp(py->layout.name, l->name), "%s: %s; %s", l->name, err.msg, err.why);
		else
			ck_assert_msg(rc < 0 && err.msg[0], "%s: %d", l->name, rc);
		arena_free(a);
		build_free(b);
	}
}

START_TEST(cookies_in_strings)
{
	each_layout(in_strings);
}
END_TEST

/* Every one of its own offsets, one at a time, says what cannot be: the process is read by the table, and that is said; or it did not matter. */
static void absurd(const struct layout *l)
{
	static const uint64_t values[] = { 1, 0x7ffffff8, UINT64_MAX };
	const struct py_struct_info *self = &py_struct_info[S_PyDebugOffsets];
	unsigned refused = 0, differed = 0;

	if (!layout_has(l, F_PyDebugOffsets_cookie))
		return;
	struct build *b = build_new(l);
	addr_t thread = build_thread(b, b->interp, IDENT, 100);
	addr_t code = build_code(b, &(struct build_code){ .name = "work", .file = "/a/b.py", .firstlineno = 10, .units = 8, .stacksize = 4 });
	build_frame(b, thread, &(struct build_frame){ .code = code, .lasti = 4 });
	build_settle(b);
	for (unsigned i = 0; i < self->n_fields; i++) {
		enum py_field f = (enum py_field)(self->first + i);
		if (!layout_has(l, f) || f == F_PyDebugOffsets_cookie || f == F_PyDebugOffsets_version || f == F_PyDebugOffsets_free_threaded)
			continue;
		for (size_t k = 0; k < sizeof values / sizeof *values; k++) {
			uint64_t was = build_field_get(b, b->runtime, f);
			struct py *py = NULL;
			struct err err = { 0 };
			addr_t at = build_field_at(b, b->runtime, f);
			build_uint(b, at, 8, values[k]);
			int rc = py_open(build_image(b), NULL, NULL, b->arena, &py, &err);
			MUST(rc == 0, "%s: %s is 0x%llx: %s; %s", l->name, py_field_info[f].name, (unsigned long long)values[k], err.msg, err.why);
			MUST(py->interp_head == b->interp && (py->self_differ || !strcmp(py->layout.name, l->name)), "%s: %s", l->name, py_field_info[f].name);
			struct walk interps = py_interps(py), threads, frames;
			struct py_interp in;
			struct py_thread t;
			struct py_frame frame;
			struct py_code c;
			MUST(py_next_interp(&interps, &in) == 1, "%s: %s", l->name, py_field_info[f].name);
			threads = py_threads(py, &in);
			MUST(py_next_thread(&threads, &t) == 1 && t.addr == thread, "%s: %s", l->name, py_field_info[f].name);
			frames = py_frames(py, t.frame);
			while ((rc = py_next_frame(&frames, &frame)) == 1 && frame.shim)
				;
			/* What no proof needs may be read wrong, but then the difference is said. */
			bool right = rc == 1 && frame.code == code && py_code_read(py, code, b->arena, &c) == 0 && str_is(c.name, "work");
			MUST(right || py->self_differ || py->self_refused, "%s: %s is 0x%llx", l->name, py_field_info[f].name, (unsigned long long)values[k]);
			refused += py->self_refused;
			differed += py->self_differ > 0;
			build_uint(b, at, 8, was);
			MUST(build_field_get(b, b->runtime, f) == was, "%s", py_field_info[f].name);
		}
	}
	ck_assert_msg(refused > 20 && refused + differed > 100, "%s: %u refused, %u differed", l->name, refused, differed);
	build_free(b);
}

/* One word of them is damaged and still possible: the table of that very version is likelier.  Without one, what frames lead to tells. */
static void near(const struct layout *l)
{
	const struct py_struct_info *self = &py_struct_info[S_PyDebugOffsets];

	if (!layout_has(l, F_PyDebugOffsets_cookie))
		return;
	uint32_t newest;
	const char *some;
	ck_assert_int_eq(layout_builtin_at(0, &newest, &some), 0);
	for (unsigned newer = 0; newer < (newest >> 16 == l->version >> 16 ? 2u : 1u); newer++) {
		struct layout as = *l;
		if (newer)
			as.version = (l->version & 0xff00ffffu) | 0x001e0000; /* 3.30 */
		struct build *b = build_new(&as);
		addr_t thread = build_thread(b, b->interp, IDENT, 100);
		addr_t code = build_code(b, &(struct build_code){ .name = "<module>", .file = "/a/b.py", .firstlineno = 1, .units = 8, .stacksize = 4 });
		build_frame(b, thread, &(struct build_frame){ .code = code, .lasti = 4 });
		code = build_code(b, &(struct build_code){ .name = "work", .qualname = "K.work", .file = "/a/b.py", .firstlineno = 10, .units = 8, .stacksize = 4 });
		for (int i = 0; i < 2; i++)
			build_frame(b, thread, &(struct build_frame){ .code = code, .lasti = 4 });
		build_settle(b);
		const enum py_field names[] = { F_PyCode_co_name, F_PyCode_co_filename, F_PyCode_co_linetable };
		for (unsigned i = 0; i < self->n_fields; i++) {
			enum py_field f = (enum py_field)(self->first + i);
			const bool named = py_field_info[f].kind == K_OFF && (py_field_info[f].off_target == names[0] ||
				py_field_info[f].off_target == names[1] || py_field_info[f].off_target == names[2]);
			if (!layout_has(l, f) || py_field_info[f].kind != K_OFF || !layout_has(l, py_field_info[f].off_target) || (newer && !named))
				continue;
			const addr_t at = build_field_at(b, b->runtime, f);
			const uint64_t was = build_field_get(b, b->runtime, f);
			struct py *py = NULL;
			struct err err = { 0 };
			build_uint(b, at, 8, was + l->abi.width);
			int rc = py_open(build_image(b), NULL, NULL, b->arena, &py, &err);
			MUST(rc == 0, "%s: %s: %s; %s", l->name, py_field_info[f].name, err.msg, err.why);
			if (newer) {
				MUST(py->table_older && (py->self_doubtful || py->self_refused), "%s: %s", l->name, py_field_info[f].name);
			} else {
				MUST(!strcmp(py->layout.name, l->name) && !memcmp(py->layout.offset, l->offset, sizeof l->offset), "%s: %s", l->name, py_field_info[f].name);
				MUST((py->self_outvoted && py->self_differ == 1) || py->self_refused, "%s: %s", l->name, py_field_info[f].name);
				MUST(!py->self_doubtful, "%s: %s", l->name, py_field_info[f].name);
			}
			build_uint(b, at, 8, was);
		}
		struct py *py = NULL;
		int rc = py_open(build_image(b), NULL, NULL, b->arena, &py, NULL);
		MUST(rc == 0 && !py->self_doubtful && !py->self_outvoted && !py->self_refused, "%s", l->name);
		build_free(b);
	}
}

START_TEST(absurd_debug_offsets)
{
	each_layout(absurd);
	each_layout(near);
}
END_TEST

/* What speaks of a version without being asked - a path, Py_Version, a text that looks like sys.version's - lies; sys says what is true. */
static void lies(const struct layout *l)
{
	static const char *const text[] = { "3.99.1 (main, Jan  1 2026) [GCC 12.2.0]", "3.5.999999999999 (x) [GCC 1]", "2.8.0 (\xff\xfe) [Clang 1]",
					    "3.1.1.1.1.1.1 (main) [GCC ]", "3.(", "9999999.1.1 (a) [GCC 2]", "3.12.1rc99999999999999999999 (a) [GCC 2]" };
	struct setup s = { 0 };
	struct py *py = NULL;
	struct err err = { 0 };

	for (int gone = 0; gone < 2; gone++) { /* sys is emptied late in Py_Finalize */
		set_up(&s, l, BY_NOTHING, true);
		if (layout_has(l, F_PyDebugOffsets_cookie)) {
			tear_down(&s);
			break; /* it says its version itself, whatever is around */
		}
		struct build *b = s.b;
		for (size_t i = 0; i < sizeof text / sizeof *text; i++)
			build_put(b, build_alloc(b, 128), text[i], strlen(text[i]) + 1);
		if (gone)
			WRITE(b, b->interp, PyInterp, sysdict, build_dict(b, BUILD_DICT));
		struct image *img = build_image(b);
		map(img, "/usr/lib/libpython3.5.so.1.0", b->heap.base, (b->heap.base + b->heap.n + 4095) & ~(addr_t)4095, 0);
		image_settle(img);
		int rc = py_open(img, NULL, NULL, b->arena, &py, &err);
		if (gone) {
			ck_assert_msg(rc < 0 && err.msg[0], "%s: %d", l->name, rc);
			/* Who knows better can say so. */
			rc = py_open(img, NULL, &(struct py_options){ .python_version = l->version & 0xffff0000u }, b->arena, &py, &err);
		}
		/* Without sys nothing tells a debug build, nor 3.7.3 from 3.7.4. */
		ck_assert_msg(rc == 0 && (gone ? py->layout.version >> 16 == l->version >> 16 : !strcmp(py->layout.name, l->name)), "%s: gone %d: %s; %s", l->name, gone,
			      err.msg, err.why);
		ck_assert_int_eq(py->version >> 16, l->version >> 16);
		ck_assert(py->version_exact == !gone);
		ck_assert_str_eq(py->version_denied, gone ? "3.99.1" : ""); /* all that is left to speak against it */
		tear_down(&s);
	}
}

/* sys.hexversion itself lies: refused, unless --python-version says otherwise. */
static void overruled(const struct layout *l)
{
	struct layout other = *l;
	struct py *py = NULL;
	struct err err = { 0 };
	char want[32];

	if (layout_has(l, F_PyDebugOffsets_cookie))
		other.offset[F_PyDebugOffsets_cookie] = -1;
	other.version = (l->version & 0xff00ffffu) | 0x00500000;
	struct build *b = build_new(&other);
	addr_t t = build_thread(b, b->interp, IDENT, 100);
	build_frame(b, t, &(struct build_frame){ .code = build_code(b, &(struct build_code){ .name = "work", .file = "b.py", .firstlineno = 1 }), .lasti = 2 });
	struct py_options opt = { .hint_runtime = build_hint(b) };
	ck_assert_int_eq(py_open(build_image(b), NULL, &opt, b->arena, &py, &err), ERR_UNSUPPORTED);
	opt.python_version = (l->version & ~0xffu) | 0xf0;
	int rc = py_open(build_image(b), NULL, &opt, b->arena, &py, &err);
	ck_assert_msg(rc == 0 && !strcmp(py->layout.name, l->name), "%s: %s; %s", l->name, err.msg, err.why);
	snprintf(want, sizeof want, "%u.%u.%u", l->version >> 24, l->version >> 16 & 255, l->version >> 8 & 255);
	ck_assert_str_eq(py->version_text, want);
	snprintf(want, sizeof want, "%u.80.%u", other.version >> 24, other.version >> 8 & 255);
	ck_assert_str_eq(py->version_denied, want);
	build_free(b);
	/* Its word against a user's: then a frame has to speak for the table. */
	b = build_new(&other);
	build_thread(b, b->interp, IDENT, 100);
	opt.hint_runtime = build_hint(b);
	rc = py_open(build_image(b), NULL, &opt, b->arena, &py, &err);
	ck_assert_msg(rc == ERR_UNSUPPORTED || rc == ERR_NOPYTHON, "%s: %d %s", l->name, rc, err.msg);
	build_free(b);
}

/* It chooses; it does not force a table upon what it does not fit: neighbours, whose thread states lie alike, show no stack or the true one. */
static void not_forced(const struct layout *l)
{
	struct build *b = build_new(l);
	addr_t t = build_thread(b, b->interp, IDENT, 100);
	build_frame(b, t, &(struct build_frame){ .code = build_code(b, &(struct build_code){ .name = "work", .file = "b.py", .firstlineno = 1 }), .lasti = 2 });
	for (uint32_t minor = 6; minor < 17; minor++) {
		if (minor == (l->version >> 16 & 255) || l->version >> 24 == 2)
			continue;
		struct py_options opt = { .hint_runtime = build_hint(b), .python_version = 0x03000000u | minor << 16 };
		struct py *py = NULL;
		struct err err = { 0 };
		if (py_open(build_image(b), NULL, &opt, b->arena, &py, &err) < 0)
			continue;
		struct walk interps = py_interps(py), threads, frames;
		struct py_interp in;
		struct py_thread th;
		struct py_frame f;
		struct py_code code = { 0 };
		int rc;
		ck_assert(py_next_interp(&interps, &in) == 1);
		threads = py_threads(py, &in);
		ck_assert(py_next_thread(&threads, &th) == 1);
		frames = py_frames(py, th.frame);
		while ((rc = py_next_frame(&frames, &f)) == 1 && f.shim)
			;
		MUST(rc == 1 && py_code_read(py, f.code, b->arena, &code) == 0 && str_is(code.name, "work"), "%s as 3.%u: %d", l->name, minor, rc);
	}
	build_free(b);
}

static void check_set(const struct layout *l, int rc, const struct py *py, const struct err *err, const char *by, bool exact)
{
	char want[32];

	ck_assert_msg(rc == 0 && !strcmp(py->layout.name, l->name), "%s: %s: %s; %s", l->name, by, err->msg, err->why);
	snprintf(want, sizeof want, exact ? "%u.%u.%u" : "%u.%u", l->version >> 24, l->version >> 16 & 255, l->version >> 8 & 255);
	ck_assert_str_eq(py->version_text, want);
	snprintf(want, sizeof want, "%u.80.%u", l->version >> 24, l->version >> 8 & 255);
	ck_assert_str_eq(py->version_denied, want);
	ck_assert_str_eq(py->version_by, by);
}

/* A program sets sys.hexversion; what it cannot write goes before it: debug offsets, the text of Py_GetVersion(), else the files' names. */
static void sys_is_set(const struct layout *l)
{
	struct layout other = *l;
	struct py *py = NULL;
	struct err err = { 0 };
	char text[96], path[64];

	other.version = (l->version & 0xff00ffffu) | 0x00500000;
	if (layout_has(l, F_PyDebugOffsets_cookie)) {
		struct build *b = build_new(&other);
		addr_t t = build_thread(b, b->interp, IDENT, 100);
		build_frame(b, t, &(struct build_frame){ .code = build_code(b, &(struct build_code){ .name = "work", .file = "b.py", .firstlineno = 1 }), .lasti = 2 });
		WRITE(b, b->runtime, PyDebugOffsets, version, (l->version & ~0xffu) | 0xf0);
		int rc = py_open(build_image(b), NULL, NULL, b->arena, &py, &err);
		check_set(l, rc, py, &err, "its debug offsets", true);
		build_free(b);
		other.offset[F_PyDebugOffsets_cookie] = -1;
	}
	static const char *const by[] = { "", "| packaged by conda-forge | ", "|Anaconda, Inc.| ", "experimental free-threading build " };
	snprintf(text, sizeof text, "%u.%u.%u %s(main, Jan  1 2024) \n[GCC 12.2.0]", l->version >> 24, l->version >> 16 & 255, l->version >> 8 & 255, by[l->version >> 16 & 3]);
	struct setup s = { .version_text = text };
	set_up(&s, &other, BY_DYNAMIC, false);
	int rc = py_open(s.img, s.mods, NULL, s.b->arena, &py, &err);
	check_set(l, rc, py, &err, "the text of Py_GetVersion()", true);
	tear_down(&s);

	if (strchr(config_of(l), '-')) /* nothing but the table's order chooses among those of one version, and that is not what is asked */
		return;
	snprintf(path, sizeof path, "/usr/lib/libpython%u.%u.so.1.0", l->version >> 24, l->version >> 16 & 255);
	s.version_text = NULL;
	set_up(&s, &other, BY_DYNAMIC, true);
	struct image *img = build_image(s.b);
	map(img, path, 0x1000, 0x2000, 0);
	image_settle(img);
	image_facts_mut(img)->hint_runtime = build_hint(s.b);
	rc = py_open(img, NULL, NULL, s.b->arena, &py, &err);
	ck_assert_msg(rc == 0 && py->layout.version >> 16 == l->version >> 16, "%s: %s; %s", l->name, err.msg, err.why);
	ck_assert_str_eq(py->version_by, "its files' names");
	tear_down(&s);
}

/* It sets sys.gettotalrefcount: to a function of its own, to another one of C.  That makes no debug build. */
static void refcount_is_set(const struct layout *l)
{
	if (strstr(config_of(l), "-d"))
		return;
	for (int i = 0; i < 4; i++) {
		struct build *b = build_new(l);
		struct py *py = NULL;
		struct err err = { 0 };
		addr_t t = build_thread(b, b->interp, IDENT, 100);
		addr_t code = build_code(b, &(struct build_code){ .name = "gettotalrefcount", .file = "b.py", .firstlineno = 1 });
		build_frame(b, t, &(struct build_frame){ .code = code, .lasti = 2 });
		build_dict_str(b, b->sysdict, "gettotalrefcount", i == 0 ? build_function(b, "gettotalrefcount", code) :
			       i == 1 ? build_builtin(b, "getrefcount") : i == 2 ? b->types.none : build_int(b, 1));
		struct py_options opt = { .hint_runtime = build_hint(b) };
		int rc = py_open(build_image(b), NULL, &opt, b->arena, &py, &err);
		ck_assert_msg(rc == 0 && !strcmp(py->layout.name, l->name) && !py->debug_build, "%s: %d: %s; %s", l->name, i, err.msg, err.why);
		build_free(b);
	}
}

START_TEST(what_a_program_sets_in_sys)
{
	each_layout(sys_is_set);
	each_layout(refcount_is_set);
}
END_TEST

START_TEST(lying_versions)
{
	each_layout(lies);
	each_layout(overruled);
	each_layout(not_forced);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("find");
	TCase *tc = tcase_create("find");
	tcase_set_timeout(tc, 120);
	tcase_add_test(tc, each_way_by_itself);
	tcase_add_test(tc, one_by_its_address);
	tcase_add_test(tc, what_was_tried_is_said);
	tcase_add_test(tc, by_struct_pthread);
	tcase_add_test(tc, cookies_in_strings);
	tcase_add_test(tc, absurd_debug_offsets);
	tcase_add_test(tc, lying_versions);
	tcase_add_test(tc, what_a_program_sets_in_sys);
	suite_add_tcase(s, tc);
	return suite_run(s);
}
