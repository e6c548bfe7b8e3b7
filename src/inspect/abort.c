/* Why a process ended itself: by CPython's fatal error (fatal.c), by C++ (cxx_exception.c), by a panic of Rust's, by a sanitizer, or by glibc, whose message a variable holds. */
#include "inspect/abort.h"

#include <signal.h>
#include <string.h>

#include "inspect/cxx_exception.h"
#include "inspect/fatal.h"

enum { CALLERS = 8, CHAIN = 6 };

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
	/* What runs a program's own code, to catch its panics, may have that inlined. */
	static const char *const runs[] = { "std::panicking::try", "std::panicking::catch_unwind", "std::panicking::r#try" };
	for (size_t i = 0; i < sizeof runs / sizeof *runs; i++)
		if (str_starts(name, runs[i]))
			return false;
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

/* ---- sanitizers */

/* Of gcc's and clang's, what their functions' names begin with (compiler-rt/lib): code that was made with them calls such ones, and interceptors. */
static const struct { const char *begins, *name; } sanitizers[] = {
	{ "__asan", "AddressSanitizer" }, { "__hwasan", "HWAddressSanitizer" }, { "__ubsan", "UndefinedBehaviorSanitizer" }, { "__tsan", "ThreadSanitizer" },
	{ "__msan", "MemorySanitizer" }, { "__lsan", "LeakSanitizer" },
};

/* What one runs before it ends the process: of its namespaces.  NULL: it is none of that; "": common to all of them. */
static const char *sanitizer_machinery(struct str name)
{
	if (str_starts(name, "__sanitizer::"))
		return "";
	for (size_t i = 0; i < sizeof sanitizers / sizeof *sanitizers; i++) {
		const size_t len = strlen(sanitizers[i].begins);
		if (str_starts(name, sanitizers[i].begins) && str_starts((struct str){ name.s + len, name.len - len }, "::"))
			return sanitizers[i].name;
	}
	return NULL;
}

/* Which sanitizer called abort(), because of abort_on_error (sanitizer_common: Die, Abort); NULL: none did. */
const char *abort_sanitizer(const struct report_thread *th, addr_t pc)
{
	struct inward w = inward_from(th, pc);
	const struct report_frame *f;
	while ((f = inward_next(&w)) && !f->python && !f->likely && abort_raises(f->function))
		;
	if (!f || f->python || f->likely || !str_is(str_function(f->function), "__sanitizer::Abort"))
		return NULL;
	const char *name = "";
	for (; f && !f->python && !f->likely && !*name && (name = sanitizer_machinery(str_function(f->function))); f = inward_next(&w))
		;
	for (size_t i = 0; f && !f->python && !f->likely && !name && i < sizeof sanitizers / sizeof *sanitizers; i++)
		if (str_starts(f->function, sanitizers[i].begins))
			return sanitizers[i].name;
	return name && *name ? name : "a sanitizer";
}

/* ---- what is said */

/* Does the thread stand in what sends a signal, which abort() did not call? */
static bool sent_otherwise(const struct report_thread *th, addr_t pc)
{
	struct inward w = inward_from(th, pc);
	const struct report_frame *f;
	bool sends = false;
	while ((f = inward_next(&w)) && !f->python && (f->inlined || abort_raises(f->function))) {
		const struct str name = str_function(f->function);
		if (f->likely || str_is(name, "abort") || str_is(name, "__GI_abort"))
			return false;
		sends |= !f->inlined;
	}
	/* The next one is known, and is none that may be abort() without its name. */
	return sends && f && (f->python || (f->function.len && f->function.s[0] != '<'));
}

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
	const char *sanitizer = abort_sanitizer(th, pc);
	if (sanitizer)
		return str_printf(r->arena, "SIGABRT: %s ended the process", sanitizer);
	const int prints = prints_message(th, pc);
	text = prints < 0 ? (struct str){ 0 } : libc_message(t, r->arena);
	if (text.s && !prints) {
		r->verdict.likely = true;
		report_problem(r, P_LIKELY, "the C library's last message was found in its variable; that it was printed by what is on the stack is not known");
	}
	return text.s ? str_printf(r->arena, "SIGABRT: aborted by the C library: " STR_FMT, STR_ARG(text))
		: sent_otherwise(th, pc) ? STR(ABORT_SENT) : STR(ABORT_ITSELF);
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
	if (str_is(raiser, "gsignal")) /* glibc's other name of it, at the same address */
		raiser = STR("raise");
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
	for (look = after; (f = inward_next(&look)) && !f->python && (rust_machinery(str_function(f->function), &panics) || sanitizer_machinery(str_function(f->function)));)
		after = look;
	size_t n = 1u + fatal;
	bool caller = fatal; /* of the fatal error: shown, whatever it is */
	for (look = after; (f = inward_next(&look)) && !f->python;)
		;
	const bool all = !f; /* no Python below: then how the process began is all there is */
	bool searched = false; /* from where the stack was overwritten on, what may be left of calls that are over is said to be that */
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
		const bool guessed = f->found_by && !strcmp(f->found_by, "scan");
		sb_printf(&b, guessed && !searched ? " <- (likely) " : " <- ");
		searched |= guessed;
		sb_str(&b, f->function.len ? str_function(f->function) : base);
		if (f->function.len && other)
			sb_printf(&b, " (" STR_FMT ")", STR_ARG(base));
		unnamed = f->function.len ? (struct str){ 0 } : base;
	}
	return sb_take(&b, r->arena);
}
