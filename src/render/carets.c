/*
 * Carets as traceback._extract_caret_anchors_from_line_segment of 3.13 places them: under the brackets of a call or subscript, under the
 * operator of a binary operation, else under everything.  It asks the AST; here one pass over the text's tokens finds the outermost
 * operation, and whatever is not plain - comparisons, keywords, commas - counts as "everything".
 */
#include "render/carets.h"

#include <string.h>

static bool in_word(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || (unsigned char)c >= 0x80;
}

static bool digit(char c)
{
	return c >= '0' && c <= '9';
}

/* Past the string literal whose quote is at s[i]. */
static size_t skip_string(struct str s, size_t i)
{
	char q = s.s[i];
	size_t quotes = i + 2 < s.len && s.s[i + 1] == q && s.s[i + 2] == q ? 3 : 1;
	for (i += quotes; i < s.len; i++) {
		if (s.s[i] == '\\')
			i++;
		else if (s.s[i] == q && (quotes == 1 || (i + 2 < s.len && s.s[i + 1] == q && s.s[i + 2] == q)))
			return i + quotes;
	}
	return s.len + 1; /* not closed here */
}

/* Past the bracket that closes the one at s[i]. */
static size_t skip_brackets(struct str s, size_t i)
{
	size_t depth = 0;
	while (i < s.len) {
		char c = s.s[i];
		if (c == '"' || c == '\'') {
			i = skip_string(s, i);
			continue;
		}
		i++;
		if (c == '(' || c == '[' || c == '{')
			depth++;
		else if ((c == ')' || c == ']' || c == '}') && --depth == 0)
			return i;
	}
	return s.len + 1;
}

/* A name, keyword or number; a number takes the sign of its exponent along. */
static size_t skip_word(struct str s, size_t i)
{
	bool number = digit(s.s[i]) || s.s[i] == '.';
	bool hex = number && i + 1 < s.len && s.s[i] == '0' && (s.s[i + 1] | 32) == 'x';
	while (i < s.len && (in_word(s.s[i]) || (number && s.s[i] == '.'))) {
		bool exponent = number && !hex && (s.s[i] | 32) == 'e' && i + 1 < s.len && (s.s[i + 1] == '-' || s.s[i + 1] == '+');
		i += exponent ? 2 : 1;
	}
	return i;
}

static bool keyword(struct str w)
{
	static const char *const words[] = { "and", "or", "not", "in", "is", "if", "else", "lambda", "await", "yield", "for", "async" };
	for (size_t i = 0; i < sizeof words / sizeof *words; i++)
		if (str_is(w, words[i]))
			return true;
	return false;
}

/* The binary operator at s[i]: its length and how tightly it binds; 0 if it is none. */
static size_t operator_at(struct str s, size_t i, int *ret_binds)
{
	char c = s.s[i], next = i + 1 < s.len ? s.s[i + 1] : '\0';
	size_t n = 1;
	switch (c) {
	case '|': *ret_binds = 1; break;
	case '^': *ret_binds = 2; break;
	case '&': *ret_binds = 3; break;
	case '<':
	case '>':
		if (next != c)
			return 0;
		*ret_binds = 4;
		n = 2;
		break;
	case '+':
	case '-': *ret_binds = 5; break;
	case '*':
		*ret_binds = next == '*' ? 8 : 6;
		n = next == '*' ? 2 : 1;
		break;
	case '/': n = next == '/' ? 2 : 1; *ret_binds = 6; break;
	case '%':
	case '@': *ret_binds = 6; break;
	default: return 0;
	}
	return i + n < s.len && s.s[i + n] == '=' ? 0 : n;
}

struct carets carets_find(struct str s)
{
	const struct carets all = { 0, s.len };
	struct carets best = all;
	int loosest = 9;            /* of the binary operators so far */
	size_t group = 0;           /* where the last brackets after an operand open; 0: none */
	bool operand = false, sign = false, ends_in_group = false;
	for (size_t i = 0, next; i < s.len; i = next) {
		char c = s.s[i];
		int binds;
		next = i + 1;
		if (c == ' ' || c == '\t')
			continue;
		if (c == '(' || c == '[' || c == '{') {
			next = skip_brackets(s, i);
			ends_in_group = operand && c != '{';
			group = ends_in_group ? i : group;
			operand = true;
		} else if (c == '"' || c == '\'') {
			next = skip_string(s, i);
			operand = true;
			ends_in_group = false;
		} else if (c == '.' && operand) {
			operand = false; /* an attribute's name follows */
		} else if (in_word(c) || c == '.') {
			next = skip_word(s, i);
			if (keyword((struct str){ s.s + i, next - i }))
				return all;
			operand = true;
			ends_in_group = false;
		} else if (operand) {
			size_t n = operator_at(s, i, &binds);
			if (!n)
				return all;
			/* Of the loosest the last one is the outermost; of powers, which go from right to left, the first. */
			if (binds < loosest || (binds == loosest && binds != 8)) {
				loosest = binds;
				best = (struct carets){ i, i + n };
			}
			next = i + n;
			operand = ends_in_group = false;
		} else if (c == '+' || c == '-' || c == '~') {
			sign = sign || loosest == 9; /* of the whole, unless an operator looser than it follows */
		} else {
			return all;
		}
		if (next > s.len)
			return all;
	}
	if (!operand)
		return all;
	if (loosest < 9)
		return sign && loosest == 8 ? all : best;
	return ends_in_group && !sign ? (struct carets){ group, s.len } : all;
}

/* A call: ends in ")" that belongs to the brackets carets_find saw. */
static bool is_call(struct str s)
{
	struct carets c = carets_find(s);
	return c.from > 0 && c.to == s.len && s.s[c.from] == '(';
}

bool carets_useful(struct str line, size_t from, size_t to)
{
	struct str piece = { line.s + from, to - from };
	if (to < line.len)
		return true;
	if (from == 0)
		return false;
	if (!is_call(piece))
		return true;
	struct str before = { line.s, from };
	if (str_is(before, "return "))
		return memchr(piece.s, '.', carets_find(piece).from) != NULL;
	if (!str_ends(before, " = "))
		return true;
	for (size_t i = 0; i + 3 < before.len; i++) /* a plain target */
		if (!in_word(before.s[i]) && !strchr(".,", before.s[i]) && !(before.s[i] == ' ' && i && before.s[i - 1] == ','))
			return true;
	return false;
}
