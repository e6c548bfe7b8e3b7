/* Line tables of every version: from an instruction's offset to lines and columns. */
#include "python/linetable.h"

#include <limits.h>

#include "python/py.h"

/* A code object's lines lie in [0, INT_MAX]: 0 is what 3.11+ gives a module's first instruction (RESUME). */
static bool line_ok(int64_t line)
{
	return line >= 0 && line <= INT_MAX;
}

static struct position position_of(int64_t line)
{
	return (struct position){ .line = (int)line, .end_line = -1, .col = -1, .end_col = -1 };
}

/*
 * PyCode_Addr2Line (Objects/codeobject.c, 2.7 - 3.9): pairs of bytes (address step, line step), the line step signed
 * since 3.6.  An instruction before the first step, or a frame that has not started, is on the first line.
 */
int linetable_lnotab(struct blob table, int firstlineno, int64_t lasti, bool signed_lines, struct position *ret)
{
	int64_t line = firstlineno;
	uint64_t addr = 0;
	for (size_t i = 0; lasti >= 0 && i + 1 < table.len; i += 2) {
		addr += table.p[i];
		if (addr > (uint64_t)lasti)
			break;
		line += signed_lines ? (int8_t)table.p[i + 1] : table.p[i + 1];
	}
	if (!line_ok(line))
		return ERR_CORRUPT;
	*ret = position_of(line);
	return 0;
}

/*
 * 3.10 (Objects/lnotab_notes.txt): pairs (bytes of code, line step); the range is [start, end).  The step -128 says
 * that the range has no line and leaves the running line alone.
 */
int linetable_310(struct blob table, int firstlineno, int64_t lasti, struct position *ret)
{
	int64_t line = firstlineno;
	uint64_t end = 0;
	if (lasti < 0) {
		if (!line_ok(line))
			return ERR_CORRUPT;
		*ret = position_of(line);
		return 0;
	}
	for (size_t i = 0; i + 1 < table.len; i += 2) {
		int8_t step = (int8_t)table.p[i + 1];
		end += table.p[i];
		if (step != -128)
			line += step;
		if (end <= (uint64_t)lasti)
			continue;
		if (step == -128)
			return ERR_ABSENT;
		if (!line_ok(line))
			return ERR_CORRUPT;
		*ret = position_of(line);
		return 0;
	}
	/* It ends before the instruction; code whose table somebody took away (co_linetable=b"") has no lines. */
	return table.len ? ERR_CORRUPT : ERR_ABSENT;
}

/* Six bits a byte, least first; bit 6 says that another follows.  Bit 7 marks the start of an entry, never this. */
static int read_varint(struct cursor *c, uint32_t *ret)
{
	uint64_t value = 0;
	for (unsigned shift = 0; shift < 36; shift += 6) {
		uint8_t byte;
		int rc = cursor_u8(c, &byte);
		if (rc < 0)
			return rc;
		if (byte & 0x80)
			return ERR_CORRUPT;
		value |= (uint64_t)(byte & 0x3f) << shift;
		if (!(byte & 0x40)) {
			if (value > UINT32_MAX)
				return ERR_CORRUPT;
			*ret = (uint32_t)value;
			return 0;
		}
	}
	return ERR_CORRUPT;
}

/* The sign is the lowest bit. */
static int read_svarint(struct cursor *c, int64_t *ret)
{
	uint32_t value;
	int rc = read_varint(c, &value);
	if (rc < 0)
		return rc;
	*ret = value & 1 ? -(int64_t)(value >> 1) : (int64_t)(value >> 1);
	return 0;
}

/* A column in the table is one more than the column; 0: not known. */
static int read_column(struct cursor *c, int *ret)
{
	uint32_t value;
	int rc = read_varint(c, &value);
	if (rc < 0)
		return rc;
	if (value > (uint32_t)INT_MAX)
		return ERR_CORRUPT;
	*ret = (int)value - 1;
	return 0;
}

/* Kinds of entries (Include/internal/pycore_code.h, enum _PyCodeLocationInfoKind): below ONE_LINE0 is the short form. */
enum { ONE_LINE0 = 10, ONE_LINE2 = 12, NO_COLUMNS = 13, LONG = 14, NONE = 15 };

/* What follows an entry's first byte; *line is the running line. *ret is complete but for `none`. */
static int read_entry(struct cursor *c, unsigned kind, int64_t *line, struct position *ret)
{
	uint8_t first, second;
	int64_t step = 0;
	uint32_t lines = 0;
	int rc;
	*ret = position_of(-1);
	if (kind == NONE)
		return 0;
	if (kind == LONG || kind == NO_COLUMNS) {
		rc = read_svarint(c, &step);
		if (rc < 0)
			return rc;
	} else if (kind >= ONE_LINE0) {
		step = (int64_t)kind - ONE_LINE0;
	}
	if (kind == LONG) {
		if ((rc = read_varint(c, &lines)) < 0 || (rc = read_column(c, &ret->col)) < 0 ||
		    (rc = read_column(c, &ret->end_col)) < 0)
			return rc;
	} else if (kind >= ONE_LINE0 && kind <= ONE_LINE2) {
		if ((rc = cursor_u8(c, &first)) < 0 || (rc = cursor_u8(c, &second)) < 0)
			return rc;
		ret->col = first;
		ret->end_col = second;
	} else if (kind < ONE_LINE0) {
		rc = cursor_u8(c, &first);
		if (rc < 0)
			return rc;
		if (first & 0x80)
			return ERR_CORRUPT;
		ret->col = (int)(kind << 3 | first >> 4);
		ret->end_col = ret->col + (first & 15);
	}
	/* In range before use, so that a million steps cannot overflow. */
	*line += step;
	if (!line_ok(*line) || !line_ok(*line + lines))
		return ERR_CORRUPT;
	ret->line = (int)*line;
	ret->end_line = (int)(*line + lines);
	return 0;
}

/* Objects/locations.md (3.11+): columns are offsets in the line's UTF-8. */
int linetable_locations(struct blob table, int firstlineno, int64_t lasti, struct position *ret)
{
	int64_t line = firstlineno;
	uint64_t end = 0;
	if (lasti < 0) {
		if (!line_ok(line))
			return ERR_CORRUPT;
		*ret = position_of(line);
		return 0;
	}
	struct cursor c = cursor_of(table.p, table.len, false);
	uint8_t head;
	while (cursor_u8(&c, &head) == 0) {
		struct position here;
		if (!(head & 0x80))
			return ERR_CORRUPT;
		unsigned kind = head >> 3 & 15;
		int rc = read_entry(&c, kind, &line, &here);
		if (rc < 0)
			return rc;
		end += 2 * ((uint64_t)(head & 7) + 1); /* code units are 2 bytes */
		if (end <= (uint64_t)lasti)
			continue;
		if (kind == NONE)
			return ERR_ABSENT;
		*ret = here;
		return 0;
	}
	/* It ends before the instruction; code whose table somebody took away (co_linetable=b"") has no lines. */
	return table.len ? ERR_CORRUPT : ERR_ABSENT;
}
