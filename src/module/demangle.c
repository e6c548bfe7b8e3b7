/* libiberty behind two bounds: a name's length, and what may come of it (substitutions double it each time). */
#include "module/demangle.h"

#include "config.h"

#if HAVE_LIBIBERTY
#include <setjmp.h>
#include <string.h>

#include <libiberty/demangle.h>

enum { SYMBOL_MAX = 1024, DROPPED_MAX = 1 << 20 };

struct sink {
	char *p;
	size_t len, room, dropped;
	jmp_buf full;
};

/*
 * What does not fit is dropped, and where that does not end it is left for good: the callers keep their state on the stack
 * (cplus_demangle_v3_callback, rust_demangle_callback), but for the letters of an identifier.
 */
static void add(const char *s, size_t n, void *arg)
{
	struct sink *k = arg;
	if (k->dropped || n >= k->room - k->len) {
		k->dropped += n + 1;
		if (k->dropped > DROPPED_MAX)
			longjmp(k->full, 1);
		return;
	}
	if (n)
		memcpy(k->p + k->len, s, n);
	k->len += n;
}

static bool by(int (*with)(const char *, int, demangle_callbackref, void *), const char *symbol, char *ret, size_t room)
{
	struct sink k = { .p = ret, .room = room };
	if (setjmp(k.full) || !with(symbol, DMGL_ANSI, add, &k) || !k.len || k.dropped || memchr(ret, 0, k.len))
		return false;
	ret[k.len] = 0;
	return true;
}

bool demangle(struct str symbol, char *ret, size_t room)
{
	char name[SYMBOL_MAX];
	const bool rust = str_starts(symbol, "_R"), cxx = str_starts(symbol, "_Z");
	if ((!rust && !cxx) || symbol.len >= sizeof name || room < 2 || memchr(symbol.s, 0, symbol.len))
		return false;
	memcpy(name, symbol.s, symbol.len);
	name[symbol.len] = 0;
	/* Rust's older names are C++'s with a hash at the end. */
	return by(rust_demangle_callback, name, ret, room) || (cxx && by(cplus_demangle_v3_callback, name, ret, room));
}
#else
bool demangle(struct str symbol, char *ret, size_t room)
{
	(void)symbol, (void)ret, (void)room;
	return false;
}
#endif
