/*
 * Why a process ended itself: by CPython's fatal error (fatal.c), by a C++ exception, known by its header, that nobody caught, by a
 * panic of Rust's, or by glibc, whose message a variable holds.
 */
#include "inspect/abort.h"

#include <signal.h>
#include <string.h>

#include "inspect/cxx_type.h"
#include "inspect/fatal.h"

enum { CALLERS = 8, CHAIN = 6, STACK_MAX = 1 << 16, BASES = 8, LOOK_BASES = 64 };

/*
 * What glibc printed before it called abort: a failed assertion, a malloc check, a buffer overflow.  `__abort_msg` points to
 * { unsigned size; char msg[]; } (glibc 2.36 sysdeps/posix/libc_fatal.c, include/stdlib.h: struct abort_msg_s).
 */
/*
 * It stays there for good, so it may be of a message that the process survived: a handler that left by siglongjmp().  1: what is on the
 * stack prints one; 0: that is not known; -1: what called abort is no part of the C library.
 */
static int prints_message(const struct report_thread *th, addr_t pc)
{
	/* What they begin with: there are variants (`__libc_message_impl`). */
	static const char *const names[] = { "__assert", "__GI___assert", "__libc_assert_fail", "__malloc_assert", "__libc_message", "__libc_fatal", "malloc_printerr", "__fortify_fail",
		"__GI___fortify_fail", "__chk_fail", "__GI___chk_fail", "__stack_chk_fail", "__GI___stack_chk_fail" };
	struct inward w = inward_from(th, pc);
	const struct report_frame *f, *raiser = NULL;
	enum { NOBODY, NAMELESS /* may be what prints */, ANOTHER } asked = NOBODY; /* what in the library called abort */
	for (unsigned i = 0; i < CALLERS + CHAIN && (f = inward_next(&w)) && !f->python; i++) {
		if (abort_raises(f->function) && !asked)
			raiser = f;
		for (size_t k = 0; k < sizeof names / sizeof *names; k++)
			if (str_starts(f->function, names[k]))
				return 1;
		if (!raiser || f == raiser)
			continue;
		if (f->likely || !f->module.s || !raiser->module.s)
			return 0;
		if (!str_eq(f->module, raiser->module))
			return asked == NOBODY ? -1 : asked == NAMELESS;
		asked = f->function.len || asked == ANOTHER ? ANOTHER : NAMELESS;
	}
	return 0;
}

static struct str libc_message(struct target *t, struct arena *a)
{
	addr_t at;
	uint64_t ptr;
	if (modules_symbol(t->mods, "__abort_msg", &at, NULL, NULL) < 0 || image_read_ptr(t->img, at, &ptr) < 0 || !ptr)
		return (struct str){ 0 };
	return fatal_text_at(t, a, ptr + 4);
}

/* ---- C++ */

/*
 * The header of an exception ends with struct _Unwind_Exception, which begins with a class of eight characters; the object
 * follows.  Itanium C++ ABI, 2.2; libstdc++ libsupc++/unwind-cxx.h (LP64): exceptionType is 0x50 before it.
 */
enum { EXCEPTION_TYPE = 0x50, EXCEPTION_OBJECT = 0x20 };
static const uint64_t exception_class[] = { 0x474e5543432b2b00 /* GNUCC++ */, 0x434c4e47432b2b00 /* CLNGC++, libc++abi */ };
/* GNUCC++ of std::rethrow_exception: its header has the address of the exception itself where others have the type (__cxa_dependent_exception). */
static const uint64_t dependent_class = 0x474e5543432b2b01;

static struct str type_name_at(struct target *t, struct arena *a, addr_t type)
{
	addr_t name;
	struct str s;
	if (image_read_ptr(t->img, type + 8, &name) < 0)
		return (struct str){ 0 };
	s = fatal_text_at(t, a, name);
	if (s.len && s.s[0] == '*') /* of internal linkage */
		s = (struct str){ s.s + 1, s.len - 1 };
	for (size_t i = 0; i < s.len; i++)
		if (!((s.s[i] | 32) >= 'a' && (s.s[i] | 32) <= 'z') && !(s.s[i] >= '0' && s.s[i] <= '9') && !strchr("_$.", s.s[i]))
			return (struct str){ 0 };
	return s;
}

static struct str what_in(struct target *t, struct arena *a, addr_t type, addr_t object, unsigned depth, unsigned *looked);

/*
 * Of several bases, or one that is virtual (__vmi_class_type_info): flags, their number, and of each its type and where it lies in the
 * object, or, of a virtual one, where the table of the object's functions says it (Itanium C++ ABI, 2.9.5).
 */
static struct str what_of_bases(struct target *t, struct arena *a, addr_t type, addr_t object, unsigned depth, unsigned *looked)
{
	enum { FLAGS_MAX = 0x1f, VIRTUAL = 1, PUBLIC = 2, SHIFT = 8 };
	uint64_t flags, n, where;
	addr_t base, table;
	struct str s = { 0 };
	if (image_read_uint(t->img, type + 16, 4, &flags) < 0 || flags > FLAGS_MAX || image_read_uint(t->img, type + 20, 4, &n) < 0 || !n || n > BASES)
		return s;
	for (addr_t at = type + 24; n-- && !s.s; at += 16) {
		if (image_read_ptr(t->img, at, &base) < 0 || image_read_uint(t->img, at + 8, 8, &where) < 0)
			break;
		uint64_t by = (uint64_t)((int64_t)where >> SHIFT);
		if (where & VIRTUAL && (image_read_ptr(t->img, object, &table) < 0 || image_read_uint(t->img, table + by, 8, &by) < 0))
			continue;
		if (where & PUBLIC)
			s = what_in(t, a, base, object + by, depth + 1, looked);
	}
	return s;
}

static struct str what_in(struct target *t, struct arena *a, addr_t type, addr_t object, unsigned depth, unsigned *looked)
{
	for (unsigned i = depth; i < BASES && type && ++*looked <= LOOK_BASES; i++) {
		struct str name = type_name_at(t, a, type);
		addr_t text, base;
		if (!name.s)
			break;
		if (str_is(name, "St11logic_error") || str_is(name, "St13runtime_error"))
			return image_read_ptr(t->img, object + 8, &text) == 0 ? fatal_text_at(t, a, text) : (struct str){ 0 };
		if (image_read_ptr(t->img, type + 16, &base) < 0)
			break;
		if (!type_name_at(t, a, base).s) /* no __si_class_type_info */
			return what_of_bases(t, a, type, object, i, looked);
		type = base;
	}
	return (struct str){ 0 };
}

/*
 * The text of what was thrown: itself, or the one that std::logic_error and std::runtime_error keep for what(), a pointer behind that of
 * the functions (libstdc++'s __cow_string, libc++'s __libcpp_refstring).
 */
static struct str what_of(struct target *t, struct arena *a, struct str name, addr_t type, addr_t object)
{
	unsigned looked = 0;
	addr_t text;
	if (str_is(name, "PKc") || str_is(name, "Pc") || str_is(name, "NSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE"))
		return image_read_ptr(t->img, object, &text) == 0 ? fatal_text_at(t, a, text) : (struct str){ 0 };
	return what_in(t, a, type, object, 0, &looked);
}

/* The type of the exception whose header stands at *header, or 0; of one that std::rethrow_exception threw again, *header becomes its own. */
static addr_t exception_at(struct target *t, addr_t *header, uint64_t *class)
{
	addr_t at = *header, type, object;
	if (at & 15 || at < EXCEPTION_TYPE || image_read_uint(t->img, at, 8, class) < 0)
		return 0;
	if (*class == dependent_class) {
		if (image_read_ptr(t->img, at - EXCEPTION_TYPE, &object) < 0 || object < EXCEPTION_OBJECT + EXCEPTION_TYPE)
			return 0;
		at = object - EXCEPTION_OBJECT;
		if (at & 15 || image_read_uint(t->img, at, 8, class) < 0)
			return 0;
	}
	if ((*class != exception_class[0] && *class != exception_class[1]) || image_read_ptr(t->img, at - EXCEPTION_TYPE, &type) < 0)
		return 0;
	*header = at;
	return type;
}

/* s NULL: it was no exception of C++'s that nobody caught. */
static struct str cxx_exception(struct target *t, struct report *r, const struct native_view *s)
{
	bool terminated = false, thrown = false, rethrown = false;
	addr_t from = s->n ? s->f[0].sp : 0, to = 0;
	for (size_t i = 0; i < s->n && i < 4 * CALLERS; i++) {
		const struct str name = str_function(native_view_function(s, i, NULL));
		rethrown = str_is(name, "__cxa_rethrow");
		thrown = rethrown || str_is(name, "__cxa_throw") || str_starts(name, "_ZSt17rethrow_exception") || str_starts(name, "std::rethrow_exception");
		terminated |= thrown || str_is(name, "_ZSt9terminatev") || str_is(name, "std::terminate()") || str_is(name, "_ZN9__gnu_cxx27__verbose_terminate_handlerEv");
		if (thrown) {
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
			if (!(type = exception_at(t, &header, &class)))
				continue;
			struct str name = type_name_at(t, r->arena, type);
			if (!name.s)
				continue;
			if (!thrown) {
				r->verdict.likely = true;
				report_problem(r, P_LIKELY, "the C++ exception was found on the stack of the function that ended the process");
			}
			struct str what = what_of(t, r->arena, name, type, header + EXCEPTION_OBJECT);
			struct str words = cxx_type_words(r->arena, name);
			return what.s ? str_printf(r->arena, "an uncaught C++ exception: " STR_FMT ": " STR_FMT, STR_ARG(words), STR_ARG(what))
				: str_printf(r->arena, "an uncaught C++ exception: " STR_FMT, STR_ARG(words));
		}
	}
	/* `throw;` where nothing is handled terminates too. */
	return thrown && !rethrown ? STR("an uncaught C++ exception (its type is not known)") : STR("C++'s std::terminate was called");
}

/* ---- Rust */

/*
 * What a panic runs before it ends the process, and what its abort is made of (library/std/src/panicking.rs, library/core/src/panicking.rs,
 * library/std/src/sys; the first names are of 1.40 on, __rustc:: of 1.86 on): not shown, as what CPython's fatal errors are made of is not.
 */
static bool rust_machinery(struct str name, bool *panics)
{
	static const struct { const char *name; bool all, panics; } names[] = {
		{ "std::panicking::", false, true }, { "rust_begin_unwind", true, true }, { "__rustc::rust_begin_unwind", true, true }, { "rust_panic", true, true },
		{ "__rust_start_panic", true, true }, { "core::panicking::panic_fmt", true, true }, { "core::panicking::panic", true, true },
		{ "core::panicking::panic_nounwind", true, true }, { "core::panicking::panic_nounwind_fmt", true, true }, { "__rustc::", false, false },
		{ "std::sys::", false, false }, { "std::sys_common::", false, false }, { "std::process::abort", true, false }, { "std::alloc::rust_oom", false, false },
		{ "__rust_abort", true, false },
	};
	for (size_t i = 0; name.len && i < sizeof names / sizeof *names; i++)
		if (names[i].all ? str_is(name, names[i].name) : str_starts(name, names[i].name)) {
			*panics |= names[i].panics;
			return true;
		}
	return false;
}

bool abort_panicked(const struct report_thread *th, addr_t pc)
{
	struct inward w = inward_from(th, pc);
	const struct report_frame *f;
	bool panics = false;
	while ((f = inward_next(&w)) && !f->python && !f->likely && abort_raises(f->function))
		;
	for (; f && !f->python && !f->likely && rust_machinery(str_function(f->function), &panics); f = inward_next(&w))
		;
	return panics;
}

/* ---- what is said */

struct str abort_title(struct target *t, struct report *r, const struct report_thread *th, addr_t pc)
{
	const struct native_view s = native_view_of(t, th, pc);
	struct str text = fatal_error(t, r, &s);
	if (!text.s)
		text = cxx_exception(t, r, &s);
	if (text.s)
		return str_printf(r->arena, "SIGABRT: " STR_FMT, STR_ARG(text));
	if (abort_panicked(th, pc))
		return STR("SIGABRT: a Rust panic");
	const int prints = prints_message(th, pc);
	text = prints < 0 ? (struct str){ 0 } : libc_message(t, r->arena);
	if (text.s && !prints) {
		r->verdict.likely = true;
		report_problem(r, P_LIKELY, "the C library's last message was found in its variable; that it was printed by what is on the stack is not known");
	}
	return text.s ? str_printf(r->arena, "SIGABRT: aborted by the C library: " STR_FMT, STR_ARG(text))
		: STR("SIGABRT: the process aborted itself (abort, a failed assertion or a fatal error)");
}

/* The functions that are called to end a process, or to send it a signal: the outermost one is what the chain begins with. */
bool abort_raises(struct str name)
{
	static const char *const names[] = { "abort", "__GI_abort", "raise", "gsignal", "__GI_raise", "kill", "__GI_kill", "tgkill", "pthread_kill", "__pthread_kill",
		"__pthread_kill_implementation", "__pthread_kill_internal", "__GI___pthread_kill" };
	name = str_function(name);
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
			raiser = str_function(f->function);
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
		if (fatal_function(f->function)) {
			fatal = true;
			after = look;
			b.len = len;
			sb_printf(&b, " <- ");
			sb_str(&b, str_function(f->function));
		}
	bool panics = false;
	for (look = after; (f = inward_next(&look)) && !f->python && rust_machinery(str_function(f->function), &panics);)
		after = look;
	size_t n = 1u + fatal;
	bool caller = fatal; /* of the fatal error: shown, whatever it is */
	for (look = after; (f = inward_next(&look)) && !f->python;)
		;
	const bool all = !f; /* no Python below: then how the process began is all there is */
	for (w = after; (f = inward_next(&w)) && !f->python; caller = false) {
		if (f->signal) {
			sb_printf(&b, " <- (a signal came)");
			unnamed = (struct str){ 0 };
			continue;
		}
		struct str base = f->module.s ? str_base(f->module) : (struct str){ 0 };
		const bool other = base.s && module_is_other(base);
		if (!f->function.len ? !other || (unnamed.s && str_eq(unnamed, base)) : f->plumbing && !all && (!caller || str_starts(f->function, "ffi_")))
			continue;
		if (n++ == CHAIN) {
			sb_printf(&b, " <- ...");
			break;
		}
		sb_printf(&b, " <- ");
		sb_str(&b, f->function.len ? str_function(f->function) : base);
		if (f->function.len && other)
			sb_printf(&b, " (" STR_FMT ")", STR_ARG(base));
		unnamed = f->function.len ? (struct str){ 0 } : base;
	}
	return sb_take(&b, r->arena);
}
