/*
 * The whole way from memory to report: the input of fuzz_runtime (four bytes offset of the runtime, then records of memory: four
 * bytes offset, two bytes length, bytes) is inspected under every built-in layout without a proof, and drawn in every form.
 * No control character may reach the text, and the JSON must parse.
 */
#include "fuzz_py.h"

#include <jansson.h>

#include "inspect/target.h"
#include "render/render.h"

enum { MEMORY = 1 << 20 };
#define IDENT 0x7f0000000700u

static void fail(const char *what, const char *where)
{
	fprintf(stderr, "%s: %s\n", where, what);
	abort();
}

static void draw(const struct report *r)
{
	struct render_options opt = { .frames = 100 };
	for (size_t i = 0; renderers[i]; i++) {
		char *text = NULL;
		size_t len = 0;
		FILE *out = open_memstream(&text, &len);
		if (!out || renderers[i]->render(r, &opt, out) < 0)
			fail("not drawn", renderers[i]->name);
		fclose(out);
		if (!str_valid(text, len))
			fail("not UTF-8", renderers[i]->name);
		for (size_t k = 0; k < len; k++)
			if ((unsigned char)text[k] < 0x20 && text[k] != '\n')
				fail("a control character", text + (k > 200 ? k - 200 : 0));
		if (strcmp(renderers[i]->name, "json") == 0) {
			json_t *parsed = json_loadb(text, len, JSON_ALLOW_NUL, NULL);
			if (!json_is_object(parsed))
				fail("does not parse", text);
			json_decref(parsed);
		}
		free(text);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct cursor c = cursor_of(data, size, false);
	uint32_t runtime, offset;
	uint16_t len;
	struct blob bytes;
	size_t n;
	const struct layout *layouts = every_layout(&n);

	if (cursor_u32(&c, &runtime) < 0)
		return 0;
	uint8_t *p = xcalloc(1, MEMORY);
	while (cursor_u32(&c, &offset) == 0 && cursor_u16(&c, &len) == 0 && cursor_take(&c, len, &bytes) == 0)
		if (offset < MEMORY && len <= MEMORY - offset)
			memcpy(p + offset, bytes.p, len);
	struct blob memory = { p, MEMORY };
	for (size_t i = 0; i < n; i++) {
		struct py py = { .layout = layouts[i], .runtime = FUZZ_BASE + (addr_t)runtime, .found_by = "hint" };
		struct image *img = py.img = image_new(py.layout.abi);
		struct segment seg = { .start = FUZZ_BASE, .size = MEMORY, .prot = 3, .read = fuzz_segment_read, .ctx = &memory };
		if (image_add_segment(img, &seg, LAY_OVER) < 0)
			abort();
		for (int k = 0; k < 2; k++)
			*image_add_thread(img) = (struct thread){ .tid = 100 + k, .regs.tls = IDENT + 0x1000 * (addr_t)k };
		image_settle(img);
		struct search none = { .no_files = true };
		struct target t = { .img = img, .py = &py, .arena = arena_new() };
		struct limits lim = { .frames = 2000, .threads = 1000 };
		struct report *r = report_new();
		if (modules_open(img, &none, &t.mods, NULL) < 0)
			abort();
		py.mods = t.mods;
		py_index_threads(&py, t.arena);
		(void)!READ(&py, py.runtime, PyRuntime, interp_head, &py.interp_head);
		if (inspect(&t, &lim, "input", r) > 0)
			abort();
		draw(r);
		report_free(r);
		modules_close(t.mods);
		arena_free(t.arena);
		image_close(img);
	}
	free(p);
	return 0;
}
