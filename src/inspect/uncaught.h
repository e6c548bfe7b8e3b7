/* An exception that nothing caught, while it is printed. */
#ifndef INSPECT_UNCAUGHT_H
#define INSPECT_UNCAUGHT_H

#include "inspect/parts.h"
#include "python/exception.h"

/* Does the thread, from where it stood at pc, print one, or run the hook for it? */
bool uncaught_printed(const struct report_thread *th, addr_t pc);
/* Which, where its registers were regs: 1; 0: it cannot be told, or there is none.  sure: the interpreter has it as the last one, and so have the functions that print it. */
int uncaught_find(struct target *t, const struct report_thread *th, const struct regs *regs, struct py_exception *ret, bool *sure);

#endif
