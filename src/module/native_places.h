/* Inside src/module, in the child that unwinds: source lines and inlined functions of a pc. */
#ifndef MODULE_NATIVE_PLACES_H
#define MODULE_NATIVE_PLACES_H

#include <elfutils/libdwfl.h>

#include "module/module.h"
#include "module/native_records.h"

/* One record for pc, whose code is looked up at `at`; none where there is no DWARF for it. */
void native_places_put(struct sb *b, Dwfl *dwfl, addr_t pc, addr_t at);

/* The same, but of the line alone: much less has to be read for that. */
void native_line_put(struct sb *b, Dwfl *dwfl, addr_t pc, addr_t at);

/* Of the innermost of these frames, and of a few that are no language's run time. */
struct native_met { addr_t pc; bool call; };
void native_innermost_put(struct sb *b, Dwfl *dwfl, struct modules *mods, const struct native_met *met, size_t n);

#endif
