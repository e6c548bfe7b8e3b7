/* Status codes in words, and filling a struct err.  Printing is left to src/cmd. */
#include "base/err.h"

#include <stdio.h>

int err_set(struct err *err, int code, const char *fmt, ...)
{
	if (!err)
		return code;
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(err->msg, sizeof err->msg, fmt, ap);
	va_end(ap);
	err->code = code;
	err->why[0] = '\0';
	err->hint[0] = '\0';
	err->detail[0] = '\0';
	return code;
}

int err_why(struct err *err, const char *fmt, ...)
{
	if (!err)
		return 0;
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(err->why, sizeof err->why, fmt, ap);
	va_end(ap);
	return err->code;
}

int err_hint(struct err *err, const char *fmt, ...)
{
	if (!err)
		return 0;
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(err->hint, sizeof err->hint, fmt, ap);
	va_end(ap);
	return err->code;
}

int err_detail(struct err *err, const char *fmt, ...)
{
	if (!err)
		return 0;
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(err->detail, sizeof err->detail, fmt, ap);
	va_end(ap);
	return err->code;
}

const char *err_word(int code)
{
	switch (code) {
	case ERR_FAULT: return "not captured";
	case ERR_CORRUPT: return "cannot be right";
	case ERR_ABSENT: return "not in this build";
	case ERR_LIMIT: return "limit reached";
	case ERR_UNSUPPORTED: return "not supported";
	case ERR_IO: return "input/output failed";
	case ERR_PERM: return "not permitted";
	case ERR_GONE: return "no such process";
	case ERR_NOPYTHON: return "no Python found";
	case ERR_EXISTS: return "exists";
	case ERR_MEMORY: return "too little memory";
	case ERR_TRACED: return "already traced";
	}
	return code >= 0 ? "done" : "unknown";
}
