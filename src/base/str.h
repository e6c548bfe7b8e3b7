/* Text: valid UTF-8 that is borrowed or owned by an arena, raw bytes, and a builder. */
#ifndef BASE_STR_H
#define BASE_STR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/mem.h"

/* Valid UTF-8 (or empty), not NUL-terminated, never freed by itself.  s == NULL means "not known". */
struct str {
	const char *s;
	size_t len;
};

/* Bytes as they came (notes, build-ids, paths); made into text only when shown. */
struct blob {
	const uint8_t *p;
	size_t len;
};

#define STR(lit) ((struct str){ "" lit, sizeof(lit) - 1 })
#define STR_FMT "%.*s"
#define STR_ARG(x) (int)(x).len, (x).s ? (x).s : ""

struct str str_of(const char *s);                 /* borrows; s is already valid UTF-8 */
bool str_eq(struct str a, struct str b);
bool str_is(struct str a, const char *s);
bool str_starts(struct str a, const char *prefix);
bool str_ends(struct str a, const char *suffix);
int str_cmp(struct str a, struct str b);          /* as memcmp, the shorter first */
/* A name of the symbol table without what the compiler and the linker add: ".cold", ".part.0", ".constprop.1.isra.0", "@@GLIBC_2.34". */
struct str str_function(struct str name);
/* Is what follows a name such an addition, and names the whole function or object (".lto_priv.0"), no part or variant of it? */
bool str_is_renaming(struct str rest);
/* The next line of rest, which gets what follows it; false at the end.  Empty lines are passed over. */
bool str_line(struct str *rest, struct str *line);
struct str str_base(struct str path);             /* what follows the last '/' */
struct str str_dup(struct arena *a, struct str s);
struct str str_printf(struct arena *a, const char *fmt, ...) PRINTF(2, 3);
char *str_c(struct arena *a, struct str s);       /* NUL-terminated copy */

/* Bytes of unknown origin -> valid UTF-8; what is not UTF-8 becomes \xNN, surrogates \udNNN. */
struct str str_from_bytes(struct arena *a, const void *p, size_t len);
bool str_valid(const void *p, size_t len);        /* is it UTF-8? */
/* Decode one code point at s (len > 0, valid UTF-8); sets *used. */
uint32_t str_decode(const char *s, size_t len, size_t *used);
/* Encode cp (surrogates too, so that a caller must escape them first); returns 1..4. */
size_t str_encode(uint32_t cp, char out[4]);
/* Must this code point be escaped before a terminal, page or log shows it?  C0, C1, DEL, bidi controls,
 * line and paragraph separators, zero-width and private or unassigned planes above 0x10ffff. */
bool str_unsafe(uint32_t cp);
size_t str_columns(struct str s);                 /* terminal columns: wide characters count 2, combining 0 */

/* A builder; all functions append.  Start from { 0 }; sb_free or sb_take ends it. */
struct sb {
	char *s;
	size_t len, room;
};
void sb_bytes(struct sb *b, const void *p, size_t len);
void sb_char(struct sb *b, char c);
void sb_str(struct sb *b, struct str s);
void sb_printf(struct sb *b, const char *fmt, ...) PRINTF(2, 3);
struct str str_quotable(struct arena *a, struct str s); /* as it stands between quotes: those in it as \" */
void sb_quoted(struct sb *b, struct str s);       /* that, safe and in quotes */
void sb_safe(struct sb *b, struct str s);         /* unsafe code points as \n \t \xNN \uNNNN \UNNNNNNNN */
void sb_repeat(struct sb *b, char c, size_t n);
struct str sb_view(const struct sb *b);           /* valid until the next append */
struct str sb_take(struct sb *b, struct arena *a);/* copy into the arena and free the builder */
void sb_free(struct sb *b);
void cleanup_sb(struct sb *b);

/* The one way in which sizes are said: "812 B", "5.9 MiB", "36 MiB", rounded to what is nearest.  Into buf, which is returned. */
enum { STR_SIZE = 32 };
const char *str_size(uint64_t bytes, char buf[STR_SIZE]);
/* "7.5 ms", "31 ms", "0.31 s", "2.3 s", "5 min 12 s", "3 h 2 min", "4 days": to the nearest, of hours and days without what is less than a minute or a day; ns >= 0. */
const char *str_duration(int64_t ns, char buf[STR_SIZE]);

/* Lower-case hex of bytes; and back: -1 if s is not an even number of hex digits or does not fit. */
struct str str_hex(struct arena *a, struct blob b);
int str_unhex(const char *s, size_t len, uint8_t *ret, size_t room);

#endif
