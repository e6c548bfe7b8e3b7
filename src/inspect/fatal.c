/*
 * The text of CPython's fatal errors: an argument of the function that ends the process.  Where what it was is not to be had, it is looked
 * for in what is left of printing it, and among the words of the frames.
 */
#include "inspect/fatal.h"

#include <inttypes.h>

enum { MESSAGE_MAX = 1024, FRAMES = 16, FOREIGN = 6, STACK_MAX = 1 << 16, DEAD_STACK = 1 << 16, KEPT_MAX = 1 << 12, CODE_MAX = 1 << 12 };

struct str fatal_text_at(struct target *t, struct arena *a, addr_t at)
{
	char text[MESSAGE_MAX + 1];
	int n = at ? image_read_cstr(t->img, at, text, MESSAGE_MAX) : ERR_ABSENT;
	if (n == ERR_LIMIT)
		n = MESSAGE_MAX;
	while (n > 0 && (text[n - 1] == '\n' || text[n - 1] == ' '))
		n--;
	return n > 0 ? str_from_bytes(a, text, (size_t)n) : (struct str){ 0 };
}

/* How each of its functions that end the process takes its text: which argument, and whether the one before is a function's name. */
static const struct fatal { const char *name; uint8_t text; bool function, format; } fatals[] = {
	{ "Py_FatalError", 0, false, false },          /* up to 3.9, and for extensions; Python/pylifecycle.c */
	{ "_Py_FatalErrorFunc", 1, true, false },      /* 3.9 on */
	{ "_Py_FatalErrorFormat", 1, true, true },
	{ "_Py_FatalRefcountErrorFunc", 1, true, false },
};

static const struct fatal *fatal_of(struct str name)
{
	for (size_t k = 0; k < sizeof fatals / sizeof *fatals; k++)
		if (str_is(str_function(name), fatals[k].name))
			return &fatals[k];
	return NULL;
}

bool fatal_function(struct str name)
{
	return fatal_of(name);
}

/* x86-64: may these bytes be an instruction that puts an address into a register: lea r, [rip + disp], or mov r32, imm? */
static bool address_in(const uint8_t *p, addr_t at, addr_t *ret)
{
	const uint32_t low = (uint32_t)p[2] | (uint32_t)p[3] << 8 | (uint32_t)p[4] << 16 | (uint32_t)p[5] << 24;
	if ((p[-1] & 0xfb) == 0x48 && p[0] == 0x8d && (p[1] & 0xc7) == 0x05)
		*ret = at + 6 + (uint64_t)(int64_t)(int32_t)low;
	else if ((p[1] & 0xf8) == 0xb8)
		*ret = low;
	else
		return false;
	return true;
}

/*
 * From 3.13 on _Py_FatalErrorFormat is not exported, so where symbols are stripped it has no name.  Nothing but it, what it calls to
 * end the process (fatal_error, Python/pylifecycle.c) and faulthandler's handler (faulthandler_fatal_error, Modules/faulthandler.c), which
 * only the kernel calls, refers to the words that its text begins with.
 */
static const struct fatal *fatal_by_code(struct target *t, const struct native_view *s, size_t i)
{
	enum { X86_64 = 62, INSTRUCTION = 6 };
	static const char begins[] = "Fatal Python error: ";
	static const struct fatal format = { "_Py_FatalErrorFormat", 1, true, true };
	addr_t start, end, to;
	char text[sizeof begins];
	if (i + 1 < s->n && s->f[i + 1].bits & NATIVE_SIGNAL)
		return NULL;
	if (!t->py || !t->mods || image_abi(t->img)->machine != X86_64 || native_view_function(s, i, NULL).s ||
	    modules_at(t->mods, s->f[i].pc) != modules_at(t->mods, t->py->runtime ? t->py->runtime : t->py->types.type) ||
	    modules_function(t->mods, s->f[i].pc - (s->f[i].bits & NATIVE_CALL ? 1 : 0), &start, &end) < 0 || end - start > CODE_MAX)
		return NULL;
	uint8_t code[CODE_MAX];
	const size_t n = image_read_some(t->img, start, code, (size_t)(end - start));
	for (size_t k = 1; k + INSTRUCTION <= n; k++)
		if (address_in(code + k, start + k, &to) && modules_at(t->mods, to) == modules_at(t->mods, start) &&
		    image_read(t->img, to, text, sizeof text) == 0 && memcmp(text, begins, sizeof begins) == 0)
			return &format;
	return NULL;
}

static struct str argument(struct target *t, const struct native_view *s, size_t i, unsigned n, struct arena *a)
{
	uint64_t at;
	struct str text = given_argument(t, s, i, n, &at) == 0 ? fatal_text_at(t, a, at) : (struct str){ 0 };
	/* Whatever went wrong on the way there, no text of CPython's has this. */
	return text.s && memmem(text.s, text.len, "\xef\xbf\xbd", 3) ? (struct str){ 0 } : text;
}

/* ---- a format and its values */

/* One conversion, from behind '%' to what follows it; false: none that is known. */
static bool put_value(struct target *t, struct arena *a, struct sb *b, const char **at, const char *end, uint64_t value)
{
	const char *s = *at;
	bool wide = false;
	while (s < end && (*s == 'l' || *s == 'z' || *s == 't' || *s == 'j')) {
		wide = true;
		s++;
	}
	if (s == end)
		return false;
	struct str text;
	switch (*s) {
	case 's':
		text = fatal_text_at(t, a, value);
		if (!text.s && value)
			return false;
		sb_str(b, value ? text : STR("(null)"));
		break;
	case 'c':
		if ((value & 0xff) < ' ' || (value & 0xff) > '~')
			sb_printf(b, "\\x%02x", (unsigned)(value & 0xff));
		else
			sb_char(b, (char)value);
		break;
	case 'd': case 'i': sb_printf(b, "%" PRId64, wide ? (int64_t)value : (int64_t)(int32_t)value); break;
	case 'u': sb_printf(b, "%" PRIu64, wide ? value : value & UINT32_MAX); break;
	case 'x': sb_printf(b, "%" PRIx64, wide ? value : value & UINT32_MAX); break;
	case 'p': sb_printf(b, "0x%" PRIx64, value); break;
	default: return false;
	}
	*at = s + 1;
	return true;
}

/* s NULL: a value of it is not known. */
static struct str formatted(struct target *t, struct arena *a, const struct native_view *s, size_t i, struct str format)
{
	CLEANUP(cleanup_sb) struct sb b = { 0 };
	unsigned n = 0;
	uint64_t value;
	for (const char *at = format.s, *end = format.s + format.len; at < end && b.len < MESSAGE_MAX;) {
		if (*at != '%') {
			sb_char(&b, *at++);
		} else if (at + 1 < end && at[1] == '%') {
			sb_char(&b, '%');
			at += 2;
		} else {
			at++;
			if (given_more(t, s, i, 2, n++, &value) < 0 || !put_value(t, a, &b, &at, end, value))
				return (struct str){ 0 };
		}
	}
	return str_from_bytes(a, b.s, b.len);
}

/* ---- what is left */

/*
 * Up to 3.6 it is printed by fprintf to stderr, which has no buffer: glibc makes the text in one on the stack (vfprintf-internal.c:
 * buffered_vfprintf), below what is in use now.
 */
static struct str printed(struct target *t, struct arena *a, addr_t sp)
{
	static const char begins[] = "Fatal Python error: ";
	CLEANUP(cleanup_free) char *buf = xmalloc(DEAD_STACK);
	if (sp < DEAD_STACK)
		return (struct str){ 0 };
	addr_t at = sp - DEAD_STACK;
	const struct segment *seg = image_segment_at(t->img, sp - 1);
	if (seg && seg->start > at)
		at = seg->start;
	size_t n = image_read_some(t->img, at, buf, (size_t)(sp - at));
	const char *found = n ? memmem(buf, n, begins, sizeof begins - 1) : NULL;
	if (!found)
		return (struct str){ 0 };
	const char *from = found + sizeof begins - 1, *end = memchr(from, '\n', (size_t)(buf + n - from));
	if (!end || end == from || end - from > MESSAGE_MAX)
		return (struct str){ 0 };
	for (const char *c = from; c < end; c++)
		if (!*c)
			return (struct str){ 0 };
	return str_from_bytes(a, from, (size_t)(end - from));
}

/* A text of a sentence's kind: one line that can be read. */
static bool is_sentence(struct str s)
{
	size_t words = 0;
	for (size_t i = 0, used; i < s.len; i += used) {
		uint32_t cp = str_decode(s.s + i, s.len - i, &used);
		if (str_unsafe(cp) || cp == 0xfffd || (used == 1 && s.s[i] == '\\'))
			return false;
		words += cp == ' ';
	}
	return words > 0 && s.len >= 8;
}

/* The one sentence that words lead to. */
struct sentence { struct str one; bool several; };

static void consider(struct target *t, struct arena *a, struct sentence *found, addr_t word)
{
	struct str text = fatal_text_at(t, a, word);
	if (!text.s || !is_sentence(text) || str_starts(text, "Fatal Python error") || (found->one.s && str_eq(found->one, text)))
		return;
	found->several |= found->one.s != NULL;
	found->one = text;
}

/*
 * Where the text is no constant it may still lie in the frames of the functions that took it, as one pointer among others, or in a
 * register that they keep: if just one of them leads to a sentence, that is likely it.
 */
static struct str kept(struct target *t, struct arena *a, const struct native_view *s, size_t first, size_t last)
{
	struct sentence found = { 0 };
	if (last >= s->n)
		return found.one;
	const addr_t from = s->f[first].sp & ~(addr_t)7, to = s->f[last].sp;
	for (addr_t at = from; at < to && at - from < KEPT_MAX; at += image_abi(t->img)->width) {
		addr_t word;
		if (image_read_ptr(t->img, at, &word) < 0)
			break;
		if (word < from - STACK_MAX || word >= to)
			consider(t, a, &found, word);
	}
	for (size_t i = first; i <= last; i++) {
		const struct native_regs *regs = native_regs_of(s->rec, s->thread, s->number + i);
		for (unsigned k = 0; regs && k < 32; k++)
			if (regs->known >> k & 1 && (regs->value[k] < from - STACK_MAX || regs->value[k] >= to))
				consider(t, a, &found, regs->value[k]);
	}
	return found.several ? (struct str){ 0 } : found.one;
}

/* The last of the frames of other modules' code between frame i and the interpreter's, i if there is none. */
static size_t foreign(struct target *t, const struct native_view *s, size_t i)
{
	const struct module *own = t->mods ? modules_at(t->mods, s->f[i].pc) : NULL;
	size_t last = i;
	while (own && last + 1 < s->n && last - i < FOREIGN && modules_at(t->mods, s->f[last + 1].pc) != own)
		last++;
	return last;
}

struct str fatal_error(struct target *t, struct report *r, const struct native_view *s)
{
	const struct fatal *fatal = NULL;
	size_t at = 0;
	for (size_t i = 0; i < s->n && i < FRAMES; i++) {
		const struct fatal *this = fatal_of(native_view_function(s, i, NULL));
		this = this ? this : fatal_by_code(t, s, i);
		if (this) {
			fatal = this;
			at = i;
		}
	}
	if (!fatal)
		return (struct str){ 0 };
	struct native_view ended = *s;
	ended.ending = at + 1;
	s = &ended;
	struct str function = fatal->function ? argument(t, s, at, 0, r->arena) : (struct str){ 0 };
	struct str text = argument(t, s, at, fatal->text, r->arena), format = text;
	if (text.s && fatal->format && memchr(text.s, '%', text.len))
		text = formatted(t, r->arena, s, at, text);
	if (!text.s && !format.s && (text = printed(t, r->arena, s->f[0].sp)).s)
		function = (struct str){ 0 }; /* it is in the text */
	if (!text.s && !format.s && at && ((text = kept(t, r->arena, s, at - 1, at + 1)).s || (text = kept(t, r->arena, s, at + 1, foreign(t, s, at) + 1)).s)) {
		r->verdict.likely = true;
		report_problem(r, P_LIKELY, "the text of the fatal error is the only one that its functions' frames lead to");
	}
	if (!text.s && !format.s && !function.s)
		return STR("Fatal Python error (its text is not known)");
	struct sb b = { 0 };
	sb_printf(&b, "Fatal Python error: ");
	if (function.s) {
		sb_str(&b, function);
		sb_printf(&b, ": ");
	}
	if (text.s)
		sb_str(&b, text);
	else if (format.s)
		sb_str(&b, format);
	sb_printf(&b, text.s ? "" : format.s ? " (the values in it are not known)" : "(its text is not known)");
	return sb_take(&b, r->arena);
}
