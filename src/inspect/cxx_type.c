/*
 * Types of the Itanium C++ ABI (5.1.5), as far as exceptions have them: names, nested, local and of templates, builtin types,
 * pointers and qualifiers, and what stands for what was named before.  Not functions, arrays, members and expressions.  It is
 * done here, since the demangler runs only in the child that unwinds.
 */
#include "inspect/cxx_type.h"

#include <string.h>

enum { SEEN_MAX = 64, DEPTH_MAX = 24, TEXT_MAX = 1024 };

struct mangled {
	const char *s, *end;
	struct sb out;
	struct { size_t from, len; } seen[SEEN_MAX]; /* what S_, S0_, ... stand for: texts of out */
	size_t n_seen;
	unsigned depth;
	bool bad;
};

static void type(struct mangled *m);
static const char *nested(struct mangled *m);

static bool is(const struct mangled *m, char c)
{
	return !m->bad && m->s < m->end && *m->s == c;
}

static bool take(struct mangled *m, const char *what)
{
	const size_t n = strlen(what);
	if (m->bad || (size_t)(m->end - m->s) < n || memcmp(m->s, what, n) != 0)
		return false;
	m->s += n;
	return true;
}

static void put(struct mangled *m, const char *text)
{
	sb_printf(&m->out, "%s", text);
	m->bad |= m->out.len > TEXT_MAX;
}

static bool digit(const struct mangled *m)
{
	return !m->bad && m->s < m->end && *m->s >= '0' && *m->s <= '9';
}

static size_t number(struct mangled *m)
{
	size_t n = 0;
	for (; digit(m) && n < 1 << 20; m->s++)
		n = n * 10 + (size_t)(*m->s - '0');
	m->bad |= n >= 1 << 20;
	return n;
}

static void remember(struct mangled *m, size_t from)
{
	m->bad |= m->n_seen == SEEN_MAX;
	if (!m->bad) {
		m->seen[m->n_seen].from = from;
		m->seen[m->n_seen++].len = m->out.len - from;
	}
}

static void put_number(struct mangled *m, size_t n)
{
	sb_printf(&m->out, "%zu", n);
}

/* Types up to E. */
static void parameters(struct mangled *m)
{
	if (take(m, "v") || is(m, 'E'))
		return;
	for (bool first = true; !m->bad && !is(m, 'E') && m->s < m->end; first = false) {
		put(m, first ? "" : ", ");
		type(m);
	}
}

/* What has no name of its own: a lambda, a struct. */
static void unnamed(struct mangled *m)
{
	const bool lambda = take(m, "Ul");
	if (!lambda && !take(m, "Ut")) {
		m->bad = true;
		return;
	}
	put(m, lambda ? "{lambda(" : "{unnamed type#");
	if (lambda) {
		parameters(m);
		put(m, ")#");
		m->bad |= !take(m, "E");
	}
	put_number(m, digit(m) ? number(m) + 2 : 1);
	put(m, "}");
	m->bad |= !take(m, "_");
}

static void name(struct mangled *m)
{
	static const char anonymous[] = "_GLOBAL__N"; /* gcc and clang */
	if (is(m, 'U')) {
		unnamed(m);
		return;
	}
	size_t n = number(m);
	if (m->bad || !n || n > (size_t)(m->end - m->s)) {
		m->bad = true;
		return;
	}
	if (n >= sizeof anonymous - 1 && memcmp(m->s, anonymous, sizeof anonymous - 1) == 0)
		put(m, "(anonymous namespace)");
	else
		sb_bytes(&m->out, m->s, n);
	m->s += n;
	while (take(m, "B")) {
		n = number(m);
		m->bad |= !n || n > (size_t)(m->end - m->s);
		if (m->bad)
			return;
		put(m, "[abi:");
		sb_bytes(&m->out, m->s, n);
		put(m, "]");
		m->s += n;
	}
}

/* A value: of an integer, a bool, an enumeration. */
static void literal(struct mangled *m)
{
	if (take(m, "b0E") || take(m, "b1E")) {
		put(m, m->s[-2] == '1' ? "true" : "false");
		return;
	}
	const bool plain = is(m, 'i') || is(m, 'j') || is(m, 'l') || is(m, 'm');
	if (plain) {
		m->s++;
	} else {
		put(m, "(");
		type(m);
		put(m, ")");
	}
	if (take(m, "n"))
		put(m, "-");
	const char *from = m->s;
	while (digit(m))
		m->s++;
	m->bad |= m->s == from;
	if (!m->bad)
		sb_bytes(&m->out, from, (size_t)(m->s - from));
	m->bad |= !take(m, "E");
}

static void arguments(struct mangled *m, bool *first)
{
	if (++m->depth > DEPTH_MAX)
		m->bad = true;
	while (!m->bad && !take(m, "E")) {
		if (take(m, "J")) {
			arguments(m, first);
			continue;
		}
		put(m, *first ? "" : ", ");
		*first = false;
		if (take(m, "L"))
			literal(m);
		else
			type(m);
	}
	m->depth--;
}

static void template_of(struct mangled *m, size_t from)
{
	bool first = true;
	if (!take(m, "I"))
		return;
	put(m, "<");
	arguments(m, &first);
	put(m, ">");
	remember(m, from);
}

/* S_, S0_, and those that are of std. */
static void substitution(struct mangled *m)
{
	static const struct { const char *mangled, *words; } of_std[] = {
		{ "Sa", "std::allocator" }, { "Sb", "std::basic_string" }, { "Ss", "std::string" }, { "Si", "std::istream" },
		{ "So", "std::ostream" }, { "Sd", "std::iostream" },
	};
	size_t i = 0;
	for (size_t k = 0; k < sizeof of_std / sizeof *of_std; k++)
		if (take(m, of_std[k].mangled)) {
			put(m, of_std[k].words);
			return;
		}
	m->bad |= !take(m, "S");
	if (!take(m, "_")) {
		for (; !m->bad && m->s < m->end && i < SEEN_MAX && (digit(m) || (*m->s >= 'A' && *m->s <= 'Z')); m->s++)
			i = i * 36 + (size_t)(digit(m) ? *m->s - '0' : *m->s - 'A' + 10);
		i++;
		m->bad |= !take(m, "_");
	}
	m->bad |= i >= m->n_seen;
	if (m->bad)
		return;
	/* A copy, since out may move. */
	char text[TEXT_MAX];
	const size_t len = m->seen[i].len;
	m->bad |= len > sizeof text;
	if (m->bad)
		return;
	memcpy(text, m->out.s + m->seen[i].from, len);
	sb_bytes(&m->out, text, len);
	m->bad |= m->out.len > TEXT_MAX;
}

/* N and what lies in what, up to E; of a member function also what its object is to be. */
static const char *nested(struct mangled *m)
{
	const size_t from = m->out.len;
	bool first = true;
	m->bad |= !take(m, "N");
	const char *object = take(m, "K") ? " const" : "";
	for (; !m->bad && !take(m, "E"); first = false) {
		if (first && take(m, "St")) {
			put(m, "std");
		} else if (first && is(m, 'S')) {
			substitution(m);
		} else if (is(m, 'I')) {
			template_of(m, from);
		} else {
			put(m, first ? "" : "::");
			name(m);
			remember(m, from);
		}
	}
	return object;
}

/* Z, the function that it is local to, E, and its name there. */
static void local(struct mangled *m)
{
	const size_t from = m->out.len;
	const char *object = "";
	m->bad |= !take(m, "Z");
	if (is(m, 'N')) {
		object = nested(m);
		/* A function is no type: nothing stands for it. */
		m->n_seen -= m->n_seen > 0;
	} else {
		name(m);
	}
	if (!m->bad && !is(m, 'E')) {
		/* What a template of a function returns would stand there too. */
		m->bad |= is(m, 'I') || (m->out.len && m->out.s[m->out.len - 1] == '>');
		put(m, "(");
		parameters(m);
		put(m, ")");
		put(m, object);
	}
	m->bad |= !take(m, "E");
	put(m, "::");
	name(m);
	if (take(m, "_"))
		(void)number(m);
	remember(m, from);
}

static bool builtin(struct mangled *m)
{
	static const struct { const char *mangled, *words; } plain[] = {
		{ "v", "void" }, { "w", "wchar_t" }, { "b", "bool" }, { "c", "char" }, { "a", "signed char" }, { "h", "unsigned char" }, { "s", "short" },
		{ "t", "unsigned short" }, { "i", "int" }, { "j", "unsigned int" }, { "l", "long" }, { "m", "unsigned long" }, { "x", "long long" },
		{ "y", "unsigned long long" }, { "n", "__int128" }, { "o", "unsigned __int128" }, { "f", "float" }, { "d", "double" }, { "e", "long double" },
		{ "Dn", "decltype(nullptr)" }, { "Di", "char32_t" }, { "Ds", "char16_t" }, { "Du", "char8_t" },
	};
	for (size_t i = 0; i < sizeof plain / sizeof *plain; i++)
		if (take(m, plain[i].mangled)) {
			put(m, plain[i].words);
			return true;
		}
	return false;
}

static void type(struct mangled *m)
{
	static const struct { const char *mangled, *words; } around[] = { { "P", "*" }, { "R", "&" }, { "O", "&&" }, { "K", " const" }, { "V", " volatile" } };
	const size_t from = m->out.len;
	if (m->bad || ++m->depth > DEPTH_MAX) {
		m->bad = true;
		return;
	}
	const char *words = NULL;
	for (size_t i = 0; i < sizeof around / sizeof *around && !words; i++)
		words = take(m, around[i].mangled) ? around[i].words : NULL;
	if (words) {
		type(m);
		put(m, words);
		remember(m, from);
	} else if (is(m, 'N')) {
		m->bad |= *nested(m) != 0;
	} else if (is(m, 'Z')) {
		local(m);
	} else if (take(m, "St")) {
		put(m, "std::");
		name(m);
		remember(m, from);
		template_of(m, from);
	} else if (is(m, 'S')) {
		substitution(m);
		template_of(m, from);
	} else if (!builtin(m)) {
		name(m);
		remember(m, from);
		template_of(m, from);
	}
	m->depth--;
}

struct str cxx_type_words(struct arena *a, struct str mangled)
{
	static const struct { const char *mangled, *words; } known[] = {
		{ "PKc", "const char *" }, { "Pc", "char *" }, { "NSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE", "std::string" },
		{ "NSt3__112basic_stringIcNS_11char_traitsIcEENS_9allocatorIcEEEE", "std::string" },
	};
	for (size_t i = 0; i < sizeof known / sizeof *known; i++)
		if (str_is(mangled, known[i].mangled))
			return str_of(known[i].words);
	struct mangled m = { .s = mangled.s, .end = mangled.s + mangled.len };
	type(&m);
	struct str words = sb_take(&m.out, a);
	return m.bad || m.s != m.end || !words.len ? mangled : words;
}
