/* UTF-8 text: checking, escaping, building.  Knows nothing of where bytes come from or where text goes. */
#include "base/str.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

struct str str_of(const char *s)
{
	return (struct str){ s, s ? strlen(s) : 0 };
}

bool str_eq(struct str a, struct str b)
{
	return a.len == b.len && (a.len == 0 || memcmp(a.s, b.s, a.len) == 0);
}

bool str_is(struct str a, const char *s)
{
	return str_eq(a, str_of(s));
}

bool str_starts(struct str a, const char *prefix)
{
	size_t n = strlen(prefix);
	return a.len >= n && (n == 0 || memcmp(a.s, prefix, n) == 0);
}

bool str_ends(struct str a, const char *suffix)
{
	size_t n = strlen(suffix);
	return a.len >= n && (n == 0 || memcmp(a.s + a.len - n, suffix, n) == 0);
}

int str_cmp(struct str a, struct str b)
{
	size_t n = a.len < b.len ? a.len : b.len;
	int c = n ? memcmp(a.s, b.s, n) : 0;
	return c ? c : a.len < b.len ? -1 : a.len > b.len;
}

/*
 * What gcc (cgraphclones.cc: clone_function_name; symtab.cc: noninterposable_alias; lto/lto-partition.cc: privatize_symbol_name_1) and
 * clang (".llvm." of ThinLTO, ".cold.1", ".__uniq.") add after a dot; any may have a number behind another dot.  Names of other languages
 * have dots of their own (Go: "main.run").
 */
static const struct { const char *word; bool whole; } additions[] = {
	{ "cold", false }, { "part", false }, { "isra", false }, { "constprop", false }, { "clone", false }, { "lto_priv", true }, { "llvm", true }, { "__uniq", true },
	{ "localalias", true },
};

static size_t digits(const char *s, size_t len)
{
	size_t n = 0;
	while (n < len && s[n] >= '0' && s[n] <= '9')
		n++;
	return n;
}

/* The addition that begins with the dot at s; 0: none. */
static size_t addition(const char *s, size_t len, bool *whole)
{
	size_t n = digits(s + 1, len - 1) + 1;
	*whole = false;
	if (n > 1)
		return n == len || s[n] == '.' ? n : 0;
	for (size_t i = 0; i < sizeof additions / sizeof *additions; i++) {
		n = strlen(additions[i].word) + 1;
		if (len < n || memcmp(s + 1, additions[i].word, n - 1) != 0 || (len > n && s[n] != '.'))
			continue;
		*whole = additions[i].whole;
		const size_t number = len > n ? digits(s + n + 1, len - n - 1) : 0;
		return number && (n + 1 + number == len || s[n + 1 + number] == '.') ? n + 1 + number : n;
	}
	return 0;
}

struct str str_function(struct str name)
{
	static const char demangled[] = " [clone .";
	bool whole;
	for (size_t i = 1; i < name.len; i++)
		if (name.s[i] == '@' || (name.s[i] == '.' && addition(name.s + i, name.len - i, &whole)) ||
		    (name.s[i] == ' ' && name.len - i >= sizeof demangled - 1 && memcmp(name.s + i, demangled, sizeof demangled - 1) == 0))
			return (struct str){ name.s, i };
	return name;
}

bool str_is_renaming(struct str rest)
{
	bool whole = true;
	size_t n = 0;
	for (size_t i = 0; i < rest.len && whole; i += n)
		if (rest.s[i] != '.' || !(n = addition(rest.s + i, rest.len - i, &whole)))
			return false;
	return rest.len && whole;
}

struct str str_base(struct str path)
{
	const char *slash = path.len ? memrchr(path.s, '/', path.len) : NULL;
	if (!slash)
		return path;
	return (struct str){ slash + 1, path.len - (size_t)(slash + 1 - path.s) };
}

bool str_line(struct str *rest, struct str *line)
{
	while (rest->len && *rest->s == '\n')
		*rest = (struct str){ rest->s + 1, rest->len - 1 };
	if (!rest->len)
		return false;
	const char *end = memchr(rest->s, '\n', rest->len);
	*line = (struct str){ rest->s, end ? (size_t)(end - rest->s) : rest->len };
	*rest = (struct str){ line->s + line->len, rest->len - line->len };
	return true;
}

struct str str_dup(struct arena *a, struct str s)
{
	return (struct str){ s.s ? arena_dup(a, s.s, s.len) : NULL, s.len };
}

char *str_c(struct arena *a, struct str s)
{
	char *c = arena_alloc(a, s.len + 1);
	if (s.len)
		memcpy(c, s.s, s.len);
	return c;
}

static void sb_vprintf(struct sb *b, const char *fmt, va_list ap)
{
	char *s;
	int n = vasprintf(&s, fmt, ap);
	if (n < 0)
		abort();
	sb_bytes(b, s, (size_t)n);
	free(s);
}

struct str str_printf(struct arena *a, const char *fmt, ...)
{
	struct sb b = { 0 };
	va_list ap;
	va_start(ap, fmt);
	sb_vprintf(&b, fmt, ap);
	va_end(ap);
	return sb_take(&b, a);
}

/* Length of the well-formed sequence at p, or 0 (Unicode 15, table 3-7). */
static size_t sequence(const uint8_t *p, size_t len)
{
	uint8_t b = p[0];
	if (b < 0x80)
		return 1;
	size_t n = b >= 0xc2 && b <= 0xdf ? 2 : b >= 0xe0 && b <= 0xef ? 3 : b >= 0xf0 && b <= 0xf4 ? 4 : 0;
	if (!n || n > len)
		return 0;
	uint8_t low = b == 0xe0 ? 0xa0 : b == 0xf0 ? 0x90 : 0x80;
	uint8_t high = b == 0xed ? 0x9f : b == 0xf4 ? 0x8f : 0xbf;
	if (p[1] < low || p[1] > high)
		return 0;
	for (size_t i = 2; i < n; i++)
		if ((p[i] & 0xc0) != 0x80)
			return 0;
	return n;
}

bool str_valid(const void *p, size_t len)
{
	const uint8_t *b = p;
	for (size_t i = 0, n; i < len; i += n)
		if (!(n = sequence(b + i, len - i)))
			return false;
	return true;
}

struct str str_from_bytes(struct arena *a, const void *p, size_t len)
{
	const uint8_t *b = p;
	if (str_valid(p, len))
		return str_dup(a, (struct str){ p, len });
	struct sb out = { 0 };
	for (size_t i = 0; i < len;) {
		size_t n = sequence(b + i, len - i);
		if (n) {
			sb_bytes(&out, b + i, n);
			i += n;
		} else if (len - i >= 3 && b[i] == 0xed && b[i + 1] >= 0xa0 && b[i + 1] <= 0xbf && (b[i + 2] & 0xc0) == 0x80) {
			sb_printf(&out, "\\u%04x", 0xd000u | (b[i + 1] & 0x3fu) << 6 | (b[i + 2] & 0x3fu));
			i += 3;
		} else {
			sb_printf(&out, "\\x%02x", b[i++]);
		}
	}
	return sb_take(&out, a);
}

uint32_t str_decode(const char *s, size_t len, size_t *used)
{
	const uint8_t *p = (const uint8_t *)s;
	size_t n = sequence(p, len);
	*used = n ? n : 1;
	switch (n) {
	case 2: return (p[0] & 0x1fu) << 6 | (p[1] & 0x3fu);
	case 3: return (p[0] & 0xfu) << 12 | (p[1] & 0x3fu) << 6 | (p[2] & 0x3fu);
	case 4: return (p[0] & 7u) << 18 | (p[1] & 0x3fu) << 12 | (p[2] & 0x3fu) << 6 | (p[3] & 0x3fu);
	}
	return n ? p[0] : 0xfffd;
}

size_t str_encode(uint32_t cp, char out[4])
{
	if (cp < 0x80) {
		out[0] = (char)cp;
		return 1;
	}
	if (cp < 0x800) {
		out[0] = (char)(0xc0 | cp >> 6);
		out[1] = (char)(0x80 | (cp & 0x3f));
		return 2;
	}
	if (cp < 0x10000) {
		out[0] = (char)(0xe0 | cp >> 12);
		out[1] = (char)(0x80 | (cp >> 6 & 0x3f));
		out[2] = (char)(0x80 | (cp & 0x3f));
		return 3;
	}
	out[0] = (char)(0xf0 | (cp >> 18 & 7));
	out[1] = (char)(0x80 | (cp >> 12 & 0x3f));
	out[2] = (char)(0x80 | (cp >> 6 & 0x3f));
	out[3] = (char)(0x80 | (cp & 0x3f));
	return 4;
}

/* Ranges of code points that move the cursor, hide, or reorder text (UAX #9, #44; general categories Cc, Cf, Zl, Zp, Co). */
bool str_unsafe(uint32_t cp)
{
	static const struct { uint32_t from, to; } range[] = {
		{ 0, 0x1f }, { 0x7f, 0x9f }, { 0xad, 0xad }, { 0x61c, 0x61c }, { 0x180e, 0x180e }, { 0x200b, 0x200f },
		{ 0x2028, 0x202e }, { 0x2060, 0x206f }, { 0xd800, 0xf8ff }, { 0xfeff, 0xfeff }, { 0xfff9, 0xfffb },
		{ 0x1d173, 0x1d17a }, { 0xe0000, 0xe0fff }, { 0xf0000, 0xffffffff },
	};
	for (size_t i = 0; i < sizeof range / sizeof *range; i++)
		if (cp >= range[i].from && cp <= range[i].to)
			return true;
	return false;
}

/* Enough for alignment, independent of the locale: combining marks, and the wide blocks of UAX #11. */
static size_t columns(uint32_t cp)
{
	static const struct { uint32_t from, to; size_t n; } range[] = {
		{ 0x300, 0x36f, 0 }, { 0x1ab0, 0x1aff, 0 }, { 0x20d0, 0x20ff, 0 }, { 0xfe00, 0xfe0f, 0 }, { 0xfe20, 0xfe2f, 0 },
		{ 0x1100, 0x115f, 2 }, { 0x2e80, 0x303e, 2 }, { 0x3041, 0xa4cf, 2 }, { 0xac00, 0xd7a3, 2 }, { 0xf900, 0xfaff, 2 },
		{ 0xfe30, 0xfe6f, 2 }, { 0xff00, 0xff60, 2 }, { 0xffe0, 0xffe6, 2 }, { 0x1f300, 0x1f64f, 2 }, { 0x1f680, 0x1f6ff, 2 },
		{ 0x1f900, 0x1f9ff, 2 }, { 0x20000, 0x3fffd, 2 },
	};
	for (size_t i = 0; i < sizeof range / sizeof *range; i++)
		if (cp >= range[i].from && cp <= range[i].to)
			return range[i].n;
	return 1;
}

size_t str_columns(struct str s)
{
	size_t total = 0;
	for (size_t i = 0, n; i < s.len; i += n)
		total += columns(str_decode(s.s + i, s.len - i, &n));
	return total;
}

void sb_bytes(struct sb *b, const void *p, size_t len)
{
	if (!len)
		return;
	if (b->room - b->len < len) {
		size_t room = b->room ? b->room : 64;
		while (room - b->len < len)
			room *= 2;
		b->s = xrealloc(b->s, room);
		b->room = room;
	}
	memcpy(b->s + b->len, p, len);
	b->len += len;
}

void sb_char(struct sb *b, char c)
{
	sb_bytes(b, &c, 1);
}

void sb_str(struct sb *b, struct str s)
{
	sb_bytes(b, s.s, s.len);
}

void sb_printf(struct sb *b, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	sb_vprintf(b, fmt, ap);
	va_end(ap);
}

void sb_safe(struct sb *b, struct str s)
{
	for (size_t i = 0, n; i < s.len; i += n) {
		uint32_t cp = str_decode(s.s + i, s.len - i, &n);
		if (!str_unsafe(cp))
			sb_bytes(b, s.s + i, n);
		else if (cp == '\n' || cp == '\t' || cp == '\r')
			sb_printf(b, "\\%c", cp == '\n' ? 'n' : cp == '\t' ? 't' : 'r');
		else
			sb_printf(b, cp < 0x100 ? "\\x%02x" : cp < 0x10000 ? "\\u%04x" : "\\U%08x", (unsigned)cp);
	}
}

struct str str_quotable(struct arena *a, struct str s)
{
	struct sb b = { 0 };
	if (!s.len || !memchr(s.s, '"', s.len))
		return s;
	for (size_t i = 0; i < s.len; i++) {
		if (s.s[i] == '"')
			sb_char(&b, '\\');
		sb_char(&b, s.s[i]);
	}
	return sb_take(&b, a);
}

void sb_quoted(struct sb *b, struct str s)
{
	sb_char(b, '"');
	for (size_t from = 0, to; from < s.len; from = to) {
		const char *quote = memchr(s.s + from, '"', s.len - from);
		to = quote ? (size_t)(quote - s.s) + 1 : s.len;
		sb_safe(b, (struct str){ s.s + from, to - from - (quote != NULL) });
		sb_printf(b, "%s", quote ? "\\\"" : "");
	}
	sb_char(b, '"');
}

void sb_repeat(struct sb *b, char c, size_t n)
{
	while (n--)
		sb_char(b, c);
}

struct str sb_view(const struct sb *b)
{
	return (struct str){ b->s ? b->s : "", b->len };
}

struct str sb_take(struct sb *b, struct arena *a)
{
	struct str s = str_dup(a, sb_view(b));
	sb_free(b);
	return s;
}

void sb_free(struct sb *b)
{
	free(b->s);
	*b = (struct sb){ 0 };
}

void cleanup_sb(struct sb *b)
{
	sb_free(b);
}

const char *str_size(uint64_t bytes, char buf[STR_SIZE])
{
	static const char *const unit[] = { "B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB" };
	double v = (double)bytes;
	size_t u = 0;
	/* Never "1024 KiB", which 1023.9 would be. */
	while (v >= (u ? 1023.5 : 1024) && u + 1 < sizeof unit / sizeof *unit) {
		v /= 1024;
		u++;
	}
	snprintf(buf, STR_SIZE, u && v < 9.95 ? "%.1f %s" : "%.0f %s", v, unit[u]);
	return buf;
}

const char *str_duration(int64_t ns, char buf[STR_SIZE])
{
	int64_t s = ns / 1000000000 + (ns % 1000000000 >= 500000000);
	if (ns < 9950000)
		snprintf(buf, STR_SIZE, "%.1f ms", (double)ns / 1e6);
	else if (ns < 99500000)
		snprintf(buf, STR_SIZE, "%.0f ms", (double)ns / 1e6);
	else if (ns < 995000000)
		snprintf(buf, STR_SIZE, "%.2f s", (double)ns / 1e9);
	else if (ns < 59950000000)
		snprintf(buf, STR_SIZE, "%.1f s", (double)ns / 1e9);
	else if (s < 3600)
		snprintf(buf, STR_SIZE, "%" PRId64 " min %" PRId64 " s", s / 60, s % 60);
	else if (s < 48 * 3600)
		snprintf(buf, STR_SIZE, "%" PRId64 " h %" PRId64 " min", s / 3600, s / 60 % 60);
	else
		snprintf(buf, STR_SIZE, "%" PRId64 " days", s / 86400);
	return buf;
}

struct str str_hex(struct arena *a, struct blob b)
{
	char *s = arena_alloc(a, b.len * 2 + 1);
	for (size_t i = 0; i < b.len; i++) {
		s[2 * i] = "0123456789abcdef"[b.p[i] >> 4];
		s[2 * i + 1] = "0123456789abcdef"[b.p[i] & 15];
	}
	return (struct str){ s, b.len * 2 };
}

static int nibble(char c)
{
	return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

int str_unhex(const char *s, size_t len, uint8_t *ret, size_t room)
{
	if (len % 2 || len / 2 > room)
		return -1;
	for (size_t i = 0; i < len; i++)
		if (nibble(s[i]) < 0)
			return -1;
	for (size_t i = 0; i < len / 2; i++)
		ret[i] = (uint8_t)(nibble(s[2 * i]) << 4 | nibble(s[2 * i + 1]));
	return (int)(len / 2);
}
