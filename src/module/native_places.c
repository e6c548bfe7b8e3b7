/* What DWARF says of a pc: its line, and the functions that were inlined there. */
#include "module/native_places.h"

#include <stdlib.h>
#include <string.h>

#include <dwarf.h>
#include <elfutils/libdw.h>

#include "module/demangle.h"

enum { LINES = 4 /* of the innermost frames */ };

static struct str text_of(const char *s)
{
	return (struct str){ s, s ? strlen(s) : 0 };
}

/* Numbers that older headers lack: dwarfstd.org's list of languages after DWARF 5. */
static bool has_namespaces(Dwarf_Die *cu)
{
	enum { CPLUSPLUS_17 = 0x2b, CPLUSPLUS_20 = 0x2c, CPLUSPLUS_23 = 0x3a };
	switch (dwarf_srclang(cu)) {
	case DW_LANG_C_plus_plus: case DW_LANG_C_plus_plus_03: case DW_LANG_C_plus_plus_11: case DW_LANG_C_plus_plus_14: case CPLUSPLUS_17: case CPLUSPLUS_20: case CPLUSPLUS_23: case DW_LANG_Rust:
		return true;
	default:
		return false;
	}
}

/* The namespaces and classes that it is declared in, by walking down to it. */
static void put_scopes(struct sb *b, Dwarf_Die *die)
{
	Dwarf_Die declared = *die, *up = NULL;
	Dwarf_Attribute a;
	for (int i = 0; i < 2; i++)
		if (!dwarf_formref_die(dwarf_attr(&declared, i ? DW_AT_specification : DW_AT_abstract_origin, &a), &declared))
			dwarf_errno(); /* there is none: it stays */
	int n = dwarf_getscopes_die(&declared, &up);
	for (int i = n - 1; i > 0; i--) {
		int tag = dwarf_tag(&up[i]);
		const char *name = tag == DW_TAG_namespace || tag == DW_TAG_class_type || tag == DW_TAG_structure_type ? dwarf_diename(&up[i]) : NULL;
		if (name)
			sb_printf(b, "%s::", name);
		else if (tag == DW_TAG_namespace)
			sb_printf(b, "(anonymous namespace)::");
	}
	free(up);
}

/* With its namespaces and classes; buf keeps the text. */
static struct str name_of(Dwarf_Die *cu, Dwarf_Die *die, char *buf, size_t room)
{
	Dwarf_Attribute a;
	const char *linkage = dwarf_formstring(dwarf_attr_integrate(die, DW_AT_linkage_name, &a)), *name = dwarf_diename(die);
	if (linkage && demangle(text_of(linkage), buf, room))
		return text_of(buf);
	if (!name || !has_namespaces(cu))
		return text_of(name);
	CLEANUP(cleanup_sb) struct sb b = { 0 };
	put_scopes(&b, die);
	sb_printf(&b, "%s", name);
	size_t n = b.len < room - 1 ? b.len : room - 1;
	memcpy(buf, b.s, n);
	buf[n] = 0;
	return text_of(buf);
}

static void place_of_line(Dwfl_Line *line, struct native_place *ret)
{
	int n;
	const char *file = line ? dwfl_lineinfo(line, NULL, &n, NULL, NULL, NULL) : NULL;
	ret->line = file ? n : -1;
	ret->file = text_of(file);
}

/* Where an inlined function was called. */
static void place_of_call(Dwarf_Die *cu, Dwarf_Die *inlined, struct native_place *ret)
{
	Dwarf_Attribute a;
	Dwarf_Word v;
	Dwarf_Files *files;
	ret->line = dwarf_formudata(dwarf_attr(inlined, DW_AT_call_line, &a), &v) == 0 && v <= INT32_MAX ? (int)v : -1;
	ret->file = (struct str){ 0 };
	if (dwarf_formudata(dwarf_attr(inlined, DW_AT_call_file, &a), &v) == 0 && dwarf_getsrcfiles(cu, &files, NULL) == 0)
		ret->file = text_of(dwarf_filesrc(files, (size_t)v, NULL, NULL));
}

void native_places_put(struct sb *b, Dwfl *dwfl, addr_t pc, addr_t at)
{
	struct native_place list[NATIVE_PLACE_FUNCTIONS] = { 0 };
	static char names[NATIVE_PLACE_FUNCTIONS][DEMANGLED_MAX];
	size_t n = 0;
	Dwarf_Addr bias = 0;
	Dwarf_Die *scopes = NULL, *outer = NULL;
	Dwfl_Module *mod = dwfl_addrmodule(dwfl, at);
	Dwfl_Line *line = mod ? dwfl_module_getsrc(mod, at) : NULL;
	Dwarf_Die *cu = mod ? dwfl_module_addrdie(mod, at, &bias) : NULL;
	if (!cu && !line)
		return;
	place_of_line(line, &list[0]);
	int depth = cu ? dwarf_getscopes(cu, at - bias, &scopes) : 0;
	/* Those lead from the innermost inlined function to its abstract one; its own parents are asked for again. */
	if (depth > 0)
		depth = dwarf_getscopes_die(&scopes[0], &outer);
	for (int i = 0; i < depth && n + 1 < NATIVE_PLACE_FUNCTIONS; i++) {
		int tag = dwarf_tag(&outer[i]);
		if (tag != DW_TAG_inlined_subroutine && tag != DW_TAG_subprogram && tag != DW_TAG_entry_point)
			continue;
		list[n].pc = pc;
		list[n].function = name_of(cu, &outer[i], names[n], sizeof names[n]);
		n++;
		if (tag != DW_TAG_inlined_subroutine)
			break;
		place_of_call(cu, &outer[i], &list[n]);
	}
	native_put_place(b, pc, list, n ? n : 1);
	free(scopes);
	free(outer);
}

void native_line_put(struct sb *b, Dwfl *dwfl, addr_t pc, addr_t at)
{
	Dwfl_Module *mod = dwfl_addrmodule(dwfl, at);
	struct native_place place = { .pc = pc };
	place_of_line(mod ? dwfl_module_getsrc(mod, at) : NULL, &place);
	if (place.file.s)
		native_put_place(b, pc, &place, 1);
}

/*
 * To read lines costs as much as to unwind, so they are those of the innermost frame, and of a few in what is no part of a language's
 * run time: there somebody looks for the fault.  Nor is a whole file's debug information decompressed for them.
 */
static bool wants_line(const struct module *m, bool first, bool *other)
{
	const uint8_t *slash = m->path.len ? memrchr(m->path.p, '/', m->path.len) : NULL;
	const struct str base = { slash ? (const char *)slash + 1 : (const char *)m->path.p, slash ? (size_t)(m->path.p + m->path.len - slash - 1) : m->path.len };
	const enum run_time is = module_run_time(base);
	/* ctypes is one too, but for what was called in it. */
	const bool runtime = is != RUN_TIME_NO && !(is == RUN_TIME_CTYPES && !*other);
	*other |= is != RUN_TIME_LIBC;
	return (!runtime || first) && m->lines && !m->lines_packed && !m->vdso;
}

void native_innermost_put(struct sb *b, Dwfl *dwfl, struct modules *mods, const struct native_met *met, size_t n)
{
	unsigned put = 0;
	bool other = false;
	for (size_t i = 0; i < n && put < LINES; i++) {
		const addr_t pc = met[i].pc, at = pc - met[i].call;
		const struct module *m = modules_at(mods, at);
		size_t same = 0;
		while (same < i && met[same].pc != pc)
			same++;
		if (same < i || !m || !wants_line(m, !i, &other))
			continue;
		native_line_put(b, dwfl, pc, at);
		put++;
	}
}
