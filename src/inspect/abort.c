/*
 * Why a process ended itself, from what the functions that did it were given: CPython's message by the constants that their
 * callers load, C++'s exception by its header, glibc's message by the variable that holds it.
 */
#include "inspect/abort.h"

#include <signal.h>

#include "inspect/fault.h"
#include "inspect/instruction.h"

enum { MESSAGE_MAX = 1024, CALLERS = 8, CHAIN = 6, STACK_MAX = 1 << 16, BASES = 8, DEAD_STACK = 1 << 16, KEPT_MAX = 1 << 12 };

/* A text of the target of at most MESSAGE_MAX bytes, without what ends its line; s NULL: none is there. */
static struct str text_at(struct target *t, struct arena *a, addr_t at)
{
	char text[MESSAGE_MAX + 1];
	int n = at ? image_read_cstr(t->img, at, text, MESSAGE_MAX) : ERR_ABSENT;
	if (n == ERR_LIMIT)
		n = MESSAGE_MAX;
	while (n > 0 && (text[n - 1] == '\n' || text[n - 1] == ' '))
		n--;
	return n > 0 ? str_from_bytes(a, text, (size_t)n) : (struct str){ 0 };
}

/*
 * What glibc printed before it called abort: a failed assertion, a malloc check, a buffer overflow.  `__abort_msg` points to
 * { unsigned size; char msg[]; } (glibc 2.36 sysdeps/posix/libc_fatal.c, include/stdlib.h: struct abort_msg_s).
 */
static struct str libc_message(struct target *t, struct arena *a)
{
	addr_t at;
	uint64_t ptr;
	if (modules_symbol(t->mods, "__abort_msg", &at, NULL, NULL) < 0 || image_read_ptr(t->img, at, &ptr) < 0 || !ptr)
		return (struct str){ 0 };
	return text_at(t, a, ptr + 4);
}

/* ---- the native stack, by its records */

struct stack { const struct native_records *rec; const struct native_frame *f; size_t n; };

static struct stack stack_of(struct target *t, const struct report_thread *th, addr_t pc)
{
	const struct native_records *rec = NULL;
	struct err err;
	if (!t->native || !th->image || (native_finish(t->native, &rec, &err) < 0 && !rec) || th->image > rec->n_threads || !rec->has[th->image - 1])
		return (struct stack){ 0 };
	const struct native_stack *s = &rec->stacks[th->image - 1];
	struct stack all = { rec, rec->frames.p + s->first, s->n };
	for (size_t i = 0; i < all.n; i++)
		if (all.f[i].pc == pc)
			return (struct stack){ rec, all.f + i, all.n - i };
	return all;
}

/* The function that frame i is in, as the symbol table has it, and where it begins. */
static struct str function_of(const struct stack *s, size_t i, addr_t *start)
{
	const bool call = s->f[i].bits & NATIVE_CALL;
	const struct native_name *n = native_name_at(s->rec, s->f[i].pc, call);
	if (!n)
		return (struct str){ 0 };
	if (start)
		*start = s->f[i].pc - call - n->into;
	return n->symbol;
}

/* ---- CPython */

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
		if (str_is(name, fatals[k].name))
			return &fatals[k];
	return NULL;
}

/* A constant argument of the call in frame i's caller; where callers hand on their own, of theirs. */
static struct str argument(struct target *t, const struct stack *s, size_t i, unsigned n, struct arena *a)
{
	for (unsigned k = 0; k < CALLERS && ++i < s->n; k++) {
		struct call_arguments args;
		addr_t start = 0;
		if (!function_of(s, i, &start).s || instruction_arguments(t->img, start, s->f[i].pc, &args) < 0)
			break;
		if (args.set[n])
			return text_at(t, a, args.value[n]);
		if (!args.passed[n])
			break;
	}
	return (struct str){ 0 };
}

/*
 * Up to 3.9 it is printed by fprintf to stderr, which has no buffer: glibc makes the text in one on the stack (vfprintf-internal.c:
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

/*
 * Where the text is no constant it may still lie in the frames of the functions that took it, as one pointer among others: if
 * just one of them leads to a sentence, that is likely it.
 */
static struct str kept(struct target *t, struct arena *a, const struct stack *s, size_t fatal)
{
	struct str one = { 0 };
	if (fatal + 1 >= s->n || !fatal)
		return one;
	addr_t from = s->f[fatal - 1].sp & ~(addr_t)7, to = s->f[fatal + 1].sp;
	for (addr_t at = from; at < to && at - from < KEPT_MAX; at += image_abi(t->img)->width) {
		addr_t word;
		if (image_read_ptr(t->img, at, &word) < 0)
			break;
		if (word >= from - STACK_MAX && word < to)
			continue;
		struct str text = text_at(t, a, word);
		if (!text.s || !is_sentence(text) || str_starts(text, "Fatal Python error") || (one.s && str_eq(one, text)))
			continue;
		if (one.s)
			return (struct str){ 0 };
		one = text;
	}
	return one;
}

/* s NULL: it was no fatal error of CPython's. */
static struct str fatal_error(struct target *t, struct report *r, const struct stack *s)
{
	const struct fatal *fatal = NULL;
	size_t at = 0;
	for (size_t i = 0; i < s->n && i < 2 * CALLERS; i++) {
		const struct fatal *this = fatal_of(function_of(s, i, NULL));
		if (this) {
			fatal = this;
			at = i;
		}
	}
	if (!fatal)
		return (struct str){ 0 };
	struct str function = fatal->function ? argument(t, s, at, 0, r->arena) : (struct str){ 0 };
	struct str text = argument(t, s, at, fatal->text, r->arena);
	if (!text.s && (text = printed(t, r->arena, s->f[0].sp)).s)
		function = (struct str){ 0 }; /* it is in the text */
	if (!text.s && (text = kept(t, r->arena, s, at)).s) {
		r->verdict.likely = true;
		report_problem(r, P_LIKELY, "the text of the fatal error is the only one that its functions' frames lead to");
	}
	if (!text.s && !function.s)
		return STR("Fatal Python error (its text is not known)");
	struct sb b = { 0 };
	sb_printf(&b, "Fatal Python error: ");
	if (function.s) {
		sb_str(&b, function);
		sb_printf(&b, ": ");
	}
	if (text.s)
		sb_str(&b, text);
	else
		sb_printf(&b, "(its text is not known)");
	if (text.s && fatal->format && memchr(text.s, '%', text.len))
		sb_printf(&b, " (the values in it are not known)");
	return sb_take(&b, r->arena);
}

/* ---- C++ */

/*
 * The header of an exception ends with struct _Unwind_Exception, which begins with a class of eight characters; the object
 * follows.  Itanium C++ ABI, 2.2; libstdc++ libsupc++/unwind-cxx.h (LP64): exceptionType is 0x50 before it.
 */
enum { EXCEPTION_TYPE = 0x50, EXCEPTION_OBJECT = 0x20 };
static const uint64_t exception_class[] = { 0x474e5543432b2b00 /* GNUCC++ */, 0x434c4e47432b2b00 /* CLNGC++, libc++abi */ };

/* "St13runtime_error" -> "std::runtime_error", "N4shop5ErrorE" -> "shop::Error"; others as they are. */
static struct str type_words(struct arena *a, struct str mangled)
{
	static const struct { const char *mangled, *words; } plain[] = {
		{ "i", "int" }, { "j", "unsigned int" }, { "l", "long" }, { "m", "unsigned long" }, { "x", "long long" }, { "y", "unsigned long long" },
		{ "b", "bool" }, { "c", "char" }, { "d", "double" }, { "f", "float" }, { "PKc", "const char *" }, { "Pc", "char *" },
		{ "NSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE", "std::string" }, { "Ss", "std::string" },
	};
	for (size_t i = 0; i < sizeof plain / sizeof *plain; i++)
		if (str_is(mangled, plain[i].mangled))
			return str_of(plain[i].words);
	struct sb b = { 0 };
	const char *s = mangled.s, *end = mangled.s + mangled.len;
	const bool nested = s < end && *s == 'N';
	s += nested;
	if (end - s > 2 && s[0] == 'S' && s[1] == 't') {
		sb_printf(&b, "std::");
		s += 2;
	}
	bool good = true, first = true;
	while (good && s < end && *s >= '1' && *s <= '9') {
		size_t n = 0;
		while (s < end && *s >= '0' && *s <= '9' && n < 4096)
			n = n * 10 + (size_t)(*s++ - '0');
		good = n && n <= (size_t)(end - s) && (first || nested);
		if (!good)
			break;
		sb_printf(&b, first ? "" : "::");
		sb_bytes(&b, s, n);
		first = false;
		s += n;
	}
	good = good && !first && (nested ? end - s == 1 && *s == 'E' : s == end);
	struct str words = sb_take(&b, a);
	return good ? words : mangled;
}

static struct str type_name_at(struct target *t, struct arena *a, addr_t type)
{
	addr_t name;
	struct str s;
	if (image_read_ptr(t->img, type + 8, &name) < 0)
		return (struct str){ 0 };
	s = text_at(t, a, name);
	if (s.len && s.s[0] == '*') /* of internal linkage */
		s = (struct str){ s.s + 1, s.len - 1 };
	for (size_t i = 0; i < s.len; i++)
		if (!((s.s[i] | 32) >= 'a' && (s.s[i] | 32) <= 'z') && !(s.s[i] >= '0' && s.s[i] <= '9') && s.s[i] != '_')
			return (struct str){ 0 };
	return s;
}

/* what() of the classes that keep a text: std::logic_error, std::runtime_error and what derives from them by one base each. */
static struct str what_of(struct target *t, struct arena *a, addr_t type, addr_t object)
{
	for (unsigned i = 0; i < BASES && type; i++) {
		struct str name = type_name_at(t, a, type);
		addr_t text;
		if (!name.s)
			break;
		if (str_is(name, "St11logic_error") || str_is(name, "St13runtime_error"))
			return image_read_ptr(t->img, object + 8, &text) == 0 ? text_at(t, a, text) : (struct str){ 0 };
		if (image_read_ptr(t->img, type + 16, &type) < 0) /* __si_class_type_info */
			break;
	}
	return (struct str){ 0 };
}

/* s NULL: it was no exception of C++'s that nobody caught. */
static struct str cxx_exception(struct target *t, struct report *r, const struct stack *s)
{
	bool terminated = false, thrown = false;
	addr_t from = s->n ? s->f[0].sp : 0, to = 0;
	for (size_t i = 0; i < s->n && i < 4 * CALLERS; i++) {
		struct str name = function_of(s, i, NULL);
		terminated |= str_is(name, "_ZSt9terminatev") || str_is(name, "std::terminate()") || str_is(name, "__cxa_throw") || str_is(name, "__cxa_rethrow") ||
			      str_is(name, "_ZN9__gnu_cxx27__verbose_terminate_handlerEv");
		if (str_is(name, "__cxa_throw") || str_is(name, "__cxa_rethrow")) {
			thrown = true;
			to = i + 1 < s->n ? s->f[i + 1].sp : 0;
			break;
		}
		to = s->f[i].sp;
	}
	if (!terminated)
		return (struct str){ 0 };
	if (image_abi(t->img)->width == 8 && from) {
		for (addr_t at = from & ~(addr_t)7; at < to && at - from < STACK_MAX; at += 8) {
			addr_t header, type;
			uint64_t class;
			if (image_read_ptr(t->img, at, &header) < 0)
				break;
			if (header & 15 || image_read_uint(t->img, header, 8, &class) < 0 || (class != exception_class[0] && class != exception_class[1]) ||
			    image_read_ptr(t->img, header - EXCEPTION_TYPE, &type) < 0)
				continue;
			struct str name = type_name_at(t, r->arena, type);
			if (!name.s)
				continue;
			if (!thrown) {
				r->verdict.likely = true;
				report_problem(r, P_LIKELY, "the C++ exception was found on the stack of the function that ended the process");
			}
			struct str what = class == exception_class[0] ? what_of(t, r->arena, type, header + EXCEPTION_OBJECT) : (struct str){ 0 };
			struct str words = type_words(r->arena, name);
			return what.s ? str_printf(r->arena, "an uncaught C++ exception: " STR_FMT ": " STR_FMT, STR_ARG(words), STR_ARG(what))
				: str_printf(r->arena, "an uncaught C++ exception: " STR_FMT, STR_ARG(words));
		}
	}
	return thrown ? STR("an uncaught C++ exception (its type is not known)") : STR("C++'s std::terminate was called");
}

/* ---- what is said */

struct str abort_title(struct target *t, struct report *r, const struct report_thread *th, addr_t pc)
{
	const struct stack s = stack_of(t, th, pc);
	struct str text = fatal_error(t, r, &s);
	if (!text.s)
		text = cxx_exception(t, r, &s);
	if (text.s)
		return str_printf(r->arena, "SIGABRT: " STR_FMT, STR_ARG(text));
	text = libc_message(t, r->arena);
	return text.s ? str_printf(r->arena, "SIGABRT: aborted by the C library: " STR_FMT, STR_ARG(text))
		: STR("SIGABRT: the process aborted itself (abort, a failed assertion or a fatal error)");
}

/* The functions that are called to end a process, or to send it a signal: the outermost one is what the chain begins with. */
bool abort_raises(struct str name)
{
	static const char *const names[] = { "abort", "__GI_abort", "raise", "gsignal", "__GI_raise", "kill", "__GI_kill", "tgkill", "pthread_kill", "__pthread_kill",
		"__pthread_kill_implementation", "__pthread_kill_internal", "__GI___pthread_kill", "pthread_kill@@GLIBC_2.34" };
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		if (str_is(name, names[i]))
			return true;
	return false;
}

struct str abort_chain(const struct report *r, const struct report_thread *th, addr_t pc)
{
	struct sb b = { 0 };
	struct str raiser = { 0 }, unnamed = { 0 };
	struct inward w = inward_from(th, pc), after = w;
	const struct report_frame *f;
	for (unsigned i = 0; i < CALLERS && (f = inward_next(&w)) && !f->python; i++)
		if (abort_raises(f->function)) {
			raiser = f->function;
			after = w;
		}
	if (!raiser.s)
		return raiser;
	if (str_starts(raiser, "__GI_"))
		raiser = (struct str){ raiser.s + 5, raiser.len - 5 };
	sb_str(&b, raiser);
	sb_printf(&b, "()");
	const size_t len = b.len;
	/* What CPython's fatal errors are made of is not shown. */
	bool fatal = false;
	struct inward look = after;
	while ((f = inward_next(&look)) && !f->python)
		if (fatal_of(f->function)) {
			fatal = true;
			after = look;
			b.len = len;
			sb_printf(&b, " <- ");
			sb_str(&b, f->function);
		}
	size_t n = 1u + fatal;
	bool caller = fatal; /* of the fatal error: shown, whatever it is */
	for (look = after; (f = inward_next(&look)) && !f->python;)
		;
	const bool all = !f; /* no Python below: then how the process began is all there is */
	for (w = after; (f = inward_next(&w)) && !f->python; caller = false) {
		struct str base = f->module.s ? str_base(f->module) : (struct str){ 0 };
		const bool other = base.s && module_is_other(base);
		if (!f->function.len ? !other || (unnamed.s && str_eq(unnamed, base)) : f->plumbing && !all && (!caller || str_starts(f->function, "ffi_")))
			continue;
		if (n++ == CHAIN) {
			sb_printf(&b, " <- ...");
			break;
		}
		sb_printf(&b, " <- ");
		sb_str(&b, f->function.len ? f->function : base);
		if (f->function.len && other)
			sb_printf(&b, " (" STR_FMT ")", STR_ARG(base));
		unnamed = f->function.len ? (struct str){ 0 } : base;
	}
	return sb_take(&b, r->arena);
}
