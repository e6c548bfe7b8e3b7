/* Why a process ended itself: the text of a fatal error, of a failed assertion, the C++ exception that nobody caught, a panic of Rust's, a sanitizer. */
#ifndef INSPECT_ABORT_H
#define INSPECT_ABORT_H

#include "inspect/parts.h"

/* Line 1's text of a SIGABRT that the process sent to itself; pc: where the thread was then. */
#define ABORT_ITSELF "SIGABRT: the process aborted itself (abort, a failed assertion or a fatal error)" /* no more is known */
#define ABORT_SENT "SIGABRT: the process sent it to itself" /* not by abort() */
struct str abort_title(struct target *t, struct report *r, const struct report_thread *th, addr_t pc);
/* "abort() <- _Py_FatalErrorFunc <- PyMem_Free <- foo.so": the way there, innermost first; s NULL if no function of it is known. */
struct str abort_chain(const struct report *r, const struct report_thread *th, addr_t pc);
/* Was it a panic of Rust's that ended it? */
bool abort_panicked(const struct report_thread *th, addr_t pc);
/* Which sanitizer ended it, "AddressSanitizer"; NULL: none did. */
const char *abort_sanitizer(const struct report_thread *th, addr_t pc);
/* Is this the name of a function that ends the process or sends it a signal? */
bool abort_raises(struct str name);

#endif
