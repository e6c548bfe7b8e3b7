/*
 * A C++ exception that ended the process, known by its header: one that nobody caught, or one that was being handled when std::terminate was
 * called, which the run time keeps in a variable of the thread.
 */
#include "inspect/cxx_exception.h"

#include <string.h>

#include "inspect/cxx_type.h"
#include "inspect/fatal.h"

enum { FRAMES = 32, STACK_MAX = 1 << 16, BASES = 8, LOOK_BASES = 64 };

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

/* Type and message of the exception at that header; s NULL: it is none. */
static struct str exception_words(struct target *t, struct report *r, addr_t header)
{
	uint64_t class;
	const addr_t type = exception_at(t, &header, &class);
	const struct str name = type ? type_name_at(t, r->arena, type) : (struct str){ 0 };
	if (!name.s)
		return name;
	const struct str what = what_of(t, r->arena, name, type, header + EXCEPTION_OBJECT);
	const struct str words = cxx_type_words(r->arena, name);
	return what.s ? str_printf(r->arena, STR_FMT ": " STR_FMT, STR_ARG(words), STR_ARG(what)) : words;
}

/* ---- what a thread handles */

/* Code that reads a variable of the thread, by the steps that compilers make of it (gcc 10 to 14, clang 14); where a part of it lies is taken along. */
struct access {
	addr_t index;   /* { module, offset }, which __tls_get_addr is given */
	addr_t slot;    /* the offset from the thread pointer lies there */
	bool thread_pointer;
	int64_t more;   /* is added */
};

static int64_t signed_at(const uint8_t *b)
{
	return (int32_t)((uint32_t)b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24);
}

/* x86-64.  False: it does something else. */
static bool follow_access(struct target *t, addr_t at, struct access *ret)
{
	enum { STEPS = 12, LONGEST = 9, RET = 0xc3 };
	/* What is ignored: endbr64, sub and add of rsp, push and pop of rax, rbx and rbp, mov rbp, rsp; prefixes that fill up. */
	static const struct { uint8_t n, code[LONGEST], more; enum what { NOTHING, INDEX, CALL, SLOT, POINTER, MORE } what; } steps[] = {
		{ 4, { 0xf3, 0x0f, 0x1e, 0xfa }, 0, NOTHING }, { 3, { 0x48, 0x83, 0xec }, 1, NOTHING }, { 3, { 0x48, 0x83, 0xc4 }, 1, NOTHING },
		{ 1, { 0x50 }, 0, NOTHING }, { 1, { 0x53 }, 0, NOTHING }, { 1, { 0x55 }, 0, NOTHING }, { 1, { 0x59 }, 0, NOTHING }, { 1, { 0x5b }, 0, NOTHING }, { 1, { 0x5d }, 0, NOTHING },
		{ 3, { 0x48, 0x89, 0xe5 }, 0, NOTHING }, { 1, { 0x66 }, 0, NOTHING },
		{ 3, { 0x48, 0x8d, 0x3d }, 4, INDEX },                             /* lea rdi, [rip + x] */
		{ 1, { 0xe8 }, 4, CALL }, { 2, { 0x48, 0xe8 }, 4, CALL }, { 3, { 0x48, 0xff, 0x15 }, 4, CALL }, { 2, { 0xff, 0x15 }, 4, CALL },
		{ 3, { 0x48, 0x8b, 0x05 }, 4, SLOT }, { 3, { 0x48, 0x03, 0x05 }, 4, SLOT }, /* mov, add rax, [rip + x] */
		{ 9, { 0x64, 0x48, 0x8b, 0x04, 0x25, 0, 0, 0, 0 }, 0, POINTER },   /* mov rax, fs:0 */
		{ 9, { 0x64, 0x48, 0x03, 0x04, 0x25, 0, 0, 0, 0 }, 0, POINTER },   /* add */
		{ 2, { 0x48, 0x05 }, 4, MORE }, { 3, { 0x48, 0x8d, 0x80 }, 4, MORE }, /* add rax, x; lea rax, [rax + x] */
	};
	struct access a = { 0 };
	bool called = false;
	for (unsigned i = 0; i < STEPS; i++) {
		uint8_t b[LONGEST + 4] = { 0 };
		size_t k = 0;
		const size_t n = image_read_some(t->img, at, b, sizeof b);
		if (n && b[0] == RET) {
			*ret = a;
			return called ? a.index && !a.slot && !a.thread_pointer : a.thread_pointer && !a.index;
		}
		while (k < sizeof steps / sizeof *steps && (n < (size_t)steps[k].n + steps[k].more || memcmp(b, steps[k].code, steps[k].n)))
			k++;
		if (k == sizeof steps / sizeof *steps)
			return false;
		at += (addr_t)steps[k].n + steps[k].more;
		const int64_t x = steps[k].more == 4 ? signed_at(b + steps[k].n) : 0;
		switch (steps[k].what) {
		case INDEX: a.index = at + (addr_t)x; break;
		case CALL: called = true; break;
		case SLOT: a.slot = at + (addr_t)x; break;
		case POINTER: a.thread_pointer = true; break;
		case MORE: a.more += x; break;
		case NOTHING: break;
		}
	}
	return false;
}

/*
 * The thread's own variables of a module: glibc's list of their blocks (sysdeps/x86_64/nptl/tls.h: tcbhead_t.dtv, a pair each, with how many there
 * are in the pair before the first) and musl's (src/internal/pthread_impl.h: struct pthread.dtv, a word each, the first says how many) hang
 * behind the thread pointer.
 */
static bool block_at(struct target *t, addr_t tls, uint64_t module, addr_t *ret)
{
	enum { MODULES = 1 << 16, WORD = 8, PAIR = 2 * WORD };
	addr_t dtv;
	uint64_t pairs, n;
	if (!module || module >= MODULES || image_read_ptr(t->img, tls + WORD, &dtv) < 0)
		return false;
	const bool glibc = image_read_uint(t->img, dtv - PAIR, WORD, &pairs) == 0 && module <= pairs && pairs < MODULES;
	if (!glibc && (image_read_uint(t->img, dtv, WORD, &n) < 0 || module > n || n >= MODULES))
		return false;
	return image_read_ptr(t->img, dtv + module * (glibc ? PAIR : WORD), ret) == 0 && *ret && *ret != (addr_t)-1;
}

/* { __cxa_exception *caughtExceptions; unsigned uncaughtExceptions }: Itanium C++ ABI, 2.2.2. */
static bool globals_read(struct target *t, addr_t at, addr_t *caught, uint64_t *flying)
{
	enum { FLYING_MAX = 1 << 16 };
	return image_read_ptr(t->img, at, caught) == 0 && image_read_uint(t->img, at + 8, 4, flying) == 0 && *flying < FLYING_MAX;
}

bool cxx_globals(struct target *t, addr_t code, addr_t tls, addr_t *caught, uint64_t *flying)
{
	enum { X86_64 = 62 };
	struct access a;
	addr_t block;
	uint64_t module, offset;
	if (!tls || image_abi(t->img)->machine != X86_64 || image_abi(t->img)->width != 8 || !follow_access(t, code, &a))
		return false;
	if (a.thread_pointer) {
		offset = 0;
		return (!a.slot || image_read_ptr(t->img, a.slot, &offset) == 0) && globals_read(t, tls + offset + (addr_t)a.more, caught, flying);
	}
	if (image_read_ptr(t->img, a.index, &module) < 0 || image_read_ptr(t->img, a.index + 8, &offset) < 0)
		return false;
	return block_at(t, tls, module, &block) && globals_read(t, block + offset + (addr_t)a.more, caught, flying);
}

/* Of a thread, by the code of the module that has std::terminate. */
static bool globals_of(struct target *t, addr_t pc, addr_t tls, addr_t *caught, uint64_t *flying)
{
	const struct module *m = t->mods ? modules_at(t->mods, pc) : NULL;
	addr_t code;
	return m && modules_symbol_of(t->mods, m, "__cxa_get_globals", &code) == 0 && cxx_globals(t, code, tls, caught, flying);
}

/*
 * The exception that was caught last and is still being handled.  The list leads to the start of its header: before struct
 * _Unwind_Exception lie 0x50 bytes of it (libstdc++), or 0x60 (libc++abi: it has two words before the type).
 */
static struct str handled_words(struct target *t, struct report *r, addr_t caught)
{
	static const unsigned before[] = { EXCEPTION_TYPE, EXCEPTION_TYPE + 0x10 };
	struct str words = { 0 };
	for (size_t i = 0; i < sizeof before / sizeof *before && !words.s && caught; i++)
		words = exception_words(t, r, caught + before[i]);
	return words;
}

/*
 * Has it not been freed?  What counts the references to it lies before its type (libstdc++'s __cxa_refcounted_exception; libc++abi's
 * __cxa_exception.referenceCount), where malloc keeps its own when it gets the memory back.
 */
static bool is_alive(struct target *t, addr_t header)
{
	enum { REFERENCES = 0x60, REFERENCES_LIBCXX = 0x58, REFERENCES_MAX = 1 << 16 };
	uint64_t class, n;
	if (!exception_at(t, &header, &class) || header < REFERENCES)
		return false;
	const bool gnu = class == exception_class[0];
	return image_read_uint(t->img, header - (gnu ? REFERENCES : REFERENCES_LIBCXX), gnu ? 4 : 8, &n) == 0 && n && n <= REFERENCES_MAX;
}

/* The innermost one that words of the stack lead to: it may be another that is being handled, and that was thrown before. */
static struct str on_stack(struct target *t, struct report *r, addr_t from, addr_t to)
{
	struct str words = { 0 };
	addr_t header;
	if (image_abi(t->img)->width != 8 || !from)
		return words;
	for (addr_t at = from & ~(addr_t)7; at < to && at - from < STACK_MAX && !words.s && image_read_ptr(t->img, at, &header) == 0; at += 8)
		if (is_alive(t, header))
			words = exception_words(t, r, header);
	return words;
}

/* ---- what is said */

/* What ended it, by the names on the stack. */
struct ending {
	struct str instead; /* no exception, but that */
	bool terminated, thrown, rethrown, through, unwinds;
	size_t at;   /* frame of std::terminate, or else of what throws */
	bool by_name; /* std::terminate's is among them */
	addr_t to;   /* how far the stack of what throws, or else of all that was looked at, reaches */
};

static bool terminates(struct str name)
{
	static const char *const names[] = { "_ZSt9terminatev", "std::terminate()", "_ZN9__gnu_cxx27__verbose_terminate_handlerEv",
		"_ZN10__cxxabiv111__terminateEPFvvE", "_ZSt11__terminatePFvvE" };
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		if (str_is(name, names[i]))
			return true;
	return false;
}

static struct ending ending_of(const struct native_view *s)
{
	struct ending e = { .at = s->n };
	for (size_t i = 0; i < s->n && i < FRAMES && !(s->f[i].bits & NATIVE_SIGNAL); i++) {
		const struct str name = str_function(native_view_function(s, i, NULL));
		/* What stands in a class's table for what it does not have; it terminates (libstdc++ libsupc++/pure.cc) or aborts (libc++abi). */
		if (str_is(name, "__cxa_pure_virtual") || str_is(name, "__cxa_deleted_virtual")) {
			e.instead = str_is(name, "__cxa_pure_virtual") ? STR("a pure virtual method was called") : STR("a deleted virtual method was called");
			break;
		}
		e.rethrown = str_is(name, "__cxa_rethrow");
		e.thrown = e.rethrown || str_is(name, "__cxa_throw") || str_starts(name, "_ZSt17rethrow_exception") || str_starts(name, "std::rethrow_exception");
		e.by_name |= terminates(name);
		e.terminated = e.thrown || e.by_name;
		if (e.terminated && e.at == s->n)
			e.at = i;
		/* What gcc's and clang's code calls where an exception may not leave a function: it catches it first. */
		e.through |= str_is(name, "__cxa_call_terminate") || str_is(name, "__clang_call_terminate");
		e.unwinds |= str_starts(name, "_Unwind_");
		e.to = !e.thrown ? s->f[i].sp : i + 1 < s->n ? s->f[i + 1].sp : 0;
		if (e.thrown)
			break;
	}
	return e;
}

struct str cxx_exception(struct target *t, struct report *r, const struct native_view *s)
{
	const struct ending e = ending_of(s);
	struct str words = e.instead;
	if (words.s || !e.terminated)
		return words;
	/* What throws catches what nobody else does, and then terminates. */
	const bool on_its_way = e.thrown && !e.by_name && !e.through;
	const struct thread *threads;
	addr_t caught;
	uint64_t flying;
	if (on_its_way && e.unwinds)
		return words;
	if (s->thread < image_threads(t->img, &threads) && globals_of(t, s->f[e.at].pc, threads[s->thread].regs.tls, &caught, &flying)) {
		if (on_its_way && flying)
			return words;
		words = handled_words(t, r, caught);
		if (words.s)
			return str_printf(r->arena, e.thrown || e.through ? "an uncaught C++ exception: " STR_FMT
					  : "C++'s std::terminate was called while " STR_FMT " was being handled", STR_ARG(words));
		/* None is on its way, so one on the stack would be left over; `throw;` where nothing is handled terminates too. */
		if ((!e.thrown || e.rethrown) && !caught && !flying)
			return STR("C++'s std::terminate was called");
	}
	words = on_stack(t, r, s->f[0].sp, e.to);
	if (words.s) {
		r->verdict.likely = true;
		report_problem(r, P_LIKELY, "the C++ exception was found on the stack of the function that ended the process");
		return str_printf(r->arena, "an uncaught C++ exception: " STR_FMT, STR_ARG(words));
	}
	return e.thrown && !e.rethrown ? STR("an uncaught C++ exception (its type is not known)") : STR("C++'s std::terminate was called");
}
