/* The two ids of a crash, as formats/crash_id.md defines them, and the module that it comes from. */
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "inspect/parts.h"

enum { FUNCTIONS = 64, NATIVE = 16, SCANNED = 100000 };

static struct str id_text(struct arena *a, const struct sb *b)
{
	unsigned long long h = XXH3_64bits(b->s, b->len);
	return str_printf(a, "%04llx-%04llx-%04llx-%04llx", h >> 48, h >> 32 & 0xffff, h >> 16 & 0xffff, h & 0xffff);
}

static void module_line(struct sb *b, struct image *img, addr_t pc, struct arena *a)
{
	const struct mapping *m = image_mapping_at(img, pc);
	if (!m || !m->path.len) {
		sb_printf(b, "?\n");
		return;
	}
	struct str name = str_base(str_from_bytes(a, m->path.p, m->path.len));
	const char *dot = memchr(name.s, '.', name.len);
	if (dot)
		name.len = (size_t)(dot - name.s);
	while (name.len && name.s[name.len - 1] >= '0' && name.s[name.len - 1] <= '9')
		name.len--;
	sb_str(b, name);
	sb_char(b, '\n');
}

/* The frames of a thread, innermost first; what repeats is given once. */
struct inward {
	const struct report_thread *t;
	size_t run, k, scanned;
};

static const struct report_frame *inward_next(struct inward *w)
{
	while (w->run && !w->k) {
		w->run--;
		w->k = w->t->runs[w->run].n;
	}
	if (!w->k || w->scanned++ >= SCANNED)
		return NULL;
	return w->t->runs[w->run].frames[--w->k];
}

static struct inward inward(const struct report_thread *t)
{
	return (struct inward){ t, t->n_runs, 0, 0 };
}

/* Modules that only carry out what others asked for: the C and C++ run times, ctypes' call machinery, the interpreter. */
static bool carries_out(struct str base)
{
	static const char *const prefix[] = { "libc.so", "libc-2", "libpthread", "libm.so", "libm-2", "ld-linux", "ld-musl", "ld-2", "libgcc_s", "libstdc++",
		"libc++", "libffi", "libpython", "python", "pypy", "_ctypes.", "[vdso]", "linux-vdso" };
	for (size_t i = 0; i < sizeof prefix / sizeof *prefix; i++)
		if (str_starts(base, prefix[i]))
			return true;
	return false;
}

struct str crash_culprit(const struct report_thread *t)
{
	const struct report_frame *f;
	for (struct inward w = inward(t); (f = inward_next(&w)) && !f->python;)
		if (f->module.len && !carries_out(str_base(f->module)))
			return f->module;
	return (struct str){ 0 };
}

void crash_ids(struct image *img, struct report *r, const struct report_thread *t, addr_t pc)
{
	CLEANUP(cleanup_sb) struct sb b = { 0 };
	sb_printf(&b, "pysnap-crash-1\n" STR_FMT "\n", STR_ARG(r->verdict.signal.name));
	module_line(&b, img, pc, r->arena);
	const struct report_frame *f, *seen[FUNCTIONS];
	size_t n = 0;
	for (struct inward w = inward(t); n < FUNCTIONS && (f = inward_next(&w));) {
		size_t i = 0;
		if (!f->python)
			continue;
		while (i < n && !(str_eq(seen[i]->function, f->function) && str_eq(str_base(seen[i]->file), str_base(f->file))))
			i++;
		if (i < n)
			continue;
		seen[n++] = f;
		sb_str(&b, f->function);
		sb_char(&b, ' ');
		sb_str(&b, str_base(f->file));
		sb_char(&b, '\n');
	}
	r->verdict.group_id = id_text(r->arena, &b);

	struct str names[NATIVE];
	n = 0;
	for (struct inward w = inward(t); n < NATIVE && (f = inward_next(&w)) && !f->python;) {
		size_t i = 0;
		struct str name = f->symbol.s ? f->symbol : f->function;
		if (!name.len)
			return;
		while (i < n && !str_eq(names[i], name))
			i++;
		if (i < n)
			continue;
		names[n++] = name;
		sb_str(&b, name);
		sb_char(&b, '\n');
	}
	if (n)
		r->verdict.detail_id = id_text(r->arena, &b);
}
