/* A crash while garbage was being collected: the generation and the phase, and the object that cannot be right. */
#include "inspect/collector.h"

#include <inttypes.h>

#include "inspect/fault.h"
#include "inspect/tripped.h"
#include "python/collector.h"

/* Functions of the collector, innermost first where one calls another, and what they do. */
static const struct { const char *name, *phase; } functions[] = {
	{ "update_refs", "copying reference counts" },
	{ "visit_decref", "subtracting references" }, { "subtract_refs", "subtracting references" },
	{ "visit_reachable", "looking for what is reachable" }, { "move_unreachable", "looking for what is reachable" },
	{ "untrack_tuples", "looking for tuples that need no collecting" }, { "untrack_dicts", "looking for dicts that need no collecting" },
	{ "move_legacy_finalizers", "looking for finalizers" }, { "move_legacy_finalizer_reachable", "looking for finalizers" },
	{ "visit_move", "looking for finalizers" }, { "clear_unreachable_mask", "looking for finalizers" },
	{ "handle_weakrefs", "clearing weak references" }, { "handle_resurrected_objects", "looking for what finalizers revived" },
	{ "finalize_garbage", "calling finalizers" }, { "delete_garbage", "clearing garbage" },
	{ "deduce_unreachable", NULL }, { "deduce_unreachable_heap", NULL }, { "gc_collect_main", NULL }, { "gc_collect_region", NULL }, { "gc_collect_full", NULL },
	{ "gc_collect_young", NULL }, { "gc_collect_increment", NULL }, { "collect_with_callback", NULL }, { "gc_collect_generations", NULL }, { "collect", NULL },
	{ "collect_generations", NULL }, { "_PyGC_Collect", NULL }, { "PyGC_Collect", NULL }, { "_PyGC_CollectNoFail", NULL }, { "_Py_RunGC", NULL },
	{ "gc_collect_internal", NULL },
};

struct found {
	int generation;           /* -1: not known */
	addr_t object, type;      /* type stands in its ob_type and is none */
	addr_t before, link;      /* or: after this object the list leads to link, where none is */
	bool broken, sure;        /* sure: registers or the address lead to it */
	bool exact;               /* what could not be read is a field of that type */
};

/* Words this small are no addresses: the kernel maps nothing there (vm.mmap_min_addr). */
enum { NULL_PAGE = 0x10000 };

/* Of the collector, and its phase; NULL where the function belongs to several. */
static bool is_collector(struct str function, const char **phase)
{
	function = str_function(function);
	for (size_t i = 0; function.len && i < sizeof functions / sizeof *functions; i++)
		if (str_is(function, functions[i].name)) {
			*phase = functions[i].phase;
			return true;
		}
	return false;
}

struct collector_place collector_on(const struct report_thread *th, addr_t pc, struct str interpreter)
{
	const struct report_frame *f;
	struct collector_place p = { .own = true };
	bool python = false, first = true;
	const char *phase;
	for (struct inward w = inward_from(th, pc); (f = inward_next(&w)); first = false) {
		if (f->python) {
			python = true;
			p.own &= !first;
			if (p.names)
				break;
			continue;
		}
		const bool interp = interpreter.len && str_eq(f->module, interpreter);
		/* Where names are lacking, it is known to be the collector's own doing only up to Python. */
		if (!p.names && !python)
			p.own &= interp;
		if (!interp && interpreter.len)
			continue; /* another module's "collect" */
		if (!is_collector(f->function, &phase))
			continue;
		p.evaluated |= !p.names && python;
		p.names = true;
		if (!p.phase)
			p.phase = phase;
	}
	p.own &= !first && !p.evaluated;
	return p;
}

enum collector_who collector_who(const struct report *r, const struct report_thread *th, const struct collector_place *here, struct str interpreter)
{
	size_t others = 0;
	if (here->names)
		return COLLECTS_THIS;
	for (size_t i = 0; i < r->threads.n; i++) {
		const struct report_thread *o = &r->threads.p[i];
		if (o == th || !o->has_python || o->stale || o->starting)
			continue;
		others++;
		if (collector_on(o, 0, interpreter).names)
			return COLLECTS_OTHER;
	}
	return others ? COLLECTS_SOME : COLLECTS_THIS;
}

static bool in_registers(const struct regs *regs, addr_t value)
{
	for (unsigned i = 0; i < 64; i++)
		if (regs->known >> i & 1 && regs->value[i] == value)
			return true;
	return false;
}

/* Was the field of a type at `type` read when it crashed?  Its own header, an object's as another's, tells nothing of what stands where. */
static bool read_of_type(const struct py *py, const struct fault *f, addr_t type)
{
	enum { AARCH64 = 183, TAG = 56 /* bits below a tag: the kernel takes it off (Documentation/arch/arm64/tagged-pointers.rst) */ };
	addr_t into = f->at - type;
	if (py->layout.abi.machine == AARCH64)
		into &= (UINT64_C(1) << TAG) - 1;
	return f->at_known && into >= (addr_t)py->layout.offset[F_PyType_tp_name] && into < py->layout.size[S_PyHeapType];
}

/* Was it something else that could not be read? */
static bool read_elsewhere(const struct py *py, const struct fault *f, const struct regs *regs, const struct collected *o, addr_t type)
{
	if (!f->at_known || f->at == regs->pc || f->at - o->head < py->layout.size[S_PyGCHead] + py->layout.size[S_PyObject])
		return false;
	return type < NULL_PAGE || f->at - type >= py->layout.size[S_PyObject];
}

/* An object in the registers whose ob_type leads to the address that could not be read. */
static void by_registers(const struct py *py, const struct regs *regs, const struct fault *f, struct collector_types *types, struct found *out)
{
	const struct segment *stack = image_segment_at(py->img, regs->sp); /* no object lies there, but the address may */
	for (unsigned i = 0; i < 64 && !out->object; i++) {
		const addr_t at[] = { regs->value[i], regs->value[i] + py->layout.size[S_PyGCHead] };
		addr_t type;
		for (unsigned k = 0; k < 2 && regs->known >> i & 1; k++)
			if (!(stack && at[k] >= stack->start && at[k] - stack->start < stack->size) && collector_bad_type(py, types, at[k], &type) == 1 &&
			    type >= NULL_PAGE && read_of_type(py, f, type)) {
				out->object = at[k];
				out->type = type;
				out->sure = out->exact = true;
				break;
			}
	}
}

/* The lists, the youngest first: the one that is being collected, and the first object in any that cannot be right. */
static void by_lists(const struct py *py, const struct py_collector *c, const struct regs *regs, const struct fault *f, struct collector_types *types, struct found *out)
{
	for (unsigned i = 0; i < COLLECTOR_LISTS; i++) {
		struct collector_walk w = collector_list(py, c->list[i]);
		struct collected o = { 0 };
		addr_t last = 0, type;
		int rc;
		while ((rc = collector_next(&w, &o)) > 0) {
			if (o.looked_at && i < 3 && out->generation < 0)
				out->generation = (int)i;
			int bad = out->object ? 0 : collector_bad_type(py, types, o.object, &type);
			if (bad == 1) {
				out->object = o.object;
				out->type = type;
				out->exact = read_of_type(py, f, type);
				out->sure = out->exact || (!read_elsewhere(py, f, regs, &o, type) && (in_registers(regs, o.object) || in_registers(regs, o.head) ||
					    (type >= NULL_PAGE && in_registers(regs, type))));
			}
			last = o.object;
			if (out->object && out->generation >= 0)
				break;
		}
		if ((rc == ERR_FAULT || rc == ERR_CORRUPT) && !out->object && !out->broken && !image_mapping_at(py->img, w.at)) {
			out->broken = true;
			out->before = last;
			out->link = w.at;
			out->sure = w.at >= NULL_PAGE && ((f->at_known && f->at - w.at < 64) || in_registers(regs, w.at));
		}
	}
}

/* The bytes of a word as text, where that is what they look like: all of them, or at least four and nothing behind. */
static void put_ascii(struct sb *b, const struct abi *abi, addr_t value)
{
	enum { SHORTEST = 4 };
	char text[8];
	unsigned len = 0;
	for (unsigned i = 0; i < abi->width; i++) {
		unsigned byte = abi->big_endian ? abi->width - 1u - i : i;
		text[i] = (char)(value >> byte * 8 & 0xff);
		if (text[i] >= ' ' && text[i] <= '~' && len == i)
			len++;
		else if (text[i])
			return;
	}
	if (len >= SHORTEST)
		sb_printf(b, " ('%.*s')", (int)len, text);
}

static void put_value(struct target *t, struct report *r, addr_t object, const char *field, addr_t value, struct sb *b)
{
	r->verdict.collector.object = object;
	r->verdict.collector.field = field;
	r->verdict.collector.value = value;
	sb_printf(b, "0x%" PRIx64, value);
	put_ascii(b, image_abi(t->img), value);
}

static void put_type(struct target *t, struct report *r, const struct found *found, struct sb *b)
{
	sb_printf(b, "0x%" PRIx64 " cannot be right: its ob_type = ", found->object);
	put_value(t, r, found->object, "ob_type", found->type, b);
	sb_printf(b, " is no type");
}

static void put_link(struct target *t, struct report *r, const struct found *found, struct sb *b)
{
	sb_printf(b, found->before ? "0x%" PRIx64 " cannot be right: its _gc_next = " : "the head of a list cannot be right: its _gc_next = %.0" PRIx64, found->before);
	put_value(t, r, found->before, "_gc_next", found->link, b);
	sb_printf(b, " leads to no object");
}

/* Those of CPython's own have their names in .rodata, which few cores have. */
static bool type_of(struct target *t, addr_t object, struct arena *a, struct str *ret)
{
	const struct py_types *types = &t->py->types;
	const struct { addr_t type; struct str name; } known[] = { { types->list, STR("list") }, { types->tuple, STR("tuple") }, { types->dict, STR("dict") }, { types->set, STR("set") },
		{ types->function, STR("function") }, { types->module, STR("module") }, { types->type, STR("type") } };
	struct object o;
	if (object_at(t->py, object, &o) < 0)
		return false;
	for (size_t i = 0; i < sizeof known / sizeof *known; i++)
		if (known[i].type == o.type)
			*ret = known[i].name;
	return ret->s || (type_name(t->py, o.type, a, ret) == 0 && ret->len);
}

static void put_field(struct target *t, struct report *r, const struct tripped *tripped, struct sb *b)
{
	static const char *const words[] = { [TRAVERSED_ITEM] = " is no object", [TRAVERSED_ARRAY] = " leads nowhere", [TRAVERSED_COUNT] = " is more than there is",
		[TRAVERSED_NEAR] = " leads nowhere" };
	if (type_of(t, tripped->object, r->arena, &r->verdict.collector.type)) {
		sb_str(b, r->verdict.collector.type);
		sb_char(b, ' ');
	}
	sb_printf(b, tripped->what.how == TRAVERSED_NEAR ? "0x%" PRIx64 ": its " : "0x%" PRIx64 " cannot be right: its ", tripped->object);
	sb_str(b, tripped->what.field);
	sb_printf(b, " = ");
	put_value(t, r, tripped->object, str_c(r->arena, tripped->what.field), tripped->what.value, b);
	sb_printf(b, "%s", words[tripped->what.how]);
}

void collector_notes(struct target *t, struct report *r, const struct report_thread *th, const struct regs *regs, const struct fault *f, struct str interpreter)
{
	const struct py *py = t->py;
	struct found found = { .generation = -1 };
	struct py_collector c;
	struct collector_types types = { 0 };
	addr_t interp;
	const struct collector_place here = collector_on(th, regs->pc, interpreter);
	if (!py || READ(py, th->state, PyThread, interp, &interp) < 0 || py_collector_find(py, interp, &c) < 0)
		c = (struct py_collector){ 0 };
	/* It is another thread's where this one has no lock. */
	if (!here.names && !(c.known && c.collecting && th->has_python && (th->holds_gil || py->free_threaded)))
		return;
	const enum collector_who who = collector_who(r, th, &here, interpreter);
	if (who == COLLECTS_OTHER)
		return; /* its finalizer waits for something: no part of this crash */
	if (py) {
		by_lists(py, &c, regs, f, &types, &found);
		if (!found.object && !found.broken)
			by_registers(py, regs, f, &types, &found);
	}
	struct tripped tripped = { 0 };
	bool field = here.own && tripped_find(t, th, regs, f, &c, r->arena, &tripped) && (here.names || tripped.sure);
	if (!here.own || (!here.names && !found.sure))
		found = (struct found){ .generation = found.generation };
	field &= !found.exact && (tripped.sure || !found.sure);
	r->verdict.collector.known = true;
	r->verdict.collector.generation = found.generation;
	r->verdict.collector.phase = here.phase;
	struct sb b = { 0 };
	sb_printf(&b, who == COLLECTS_SOME ? "some thread was collecting garbage" : "garbage was being collected");
	if (found.generation >= 0)
		sb_printf(&b, ", generation %d", found.generation);
	if (here.phase)
		sb_printf(&b, ", %s", here.phase);
	if (here.evaluated)
		sb_printf(&b, "; it had called Python code (a finalizer or a callback)");
	verdict_note(r, "collector", sb_take(&b, r->arena));
	if (field)
		put_field(t, r, &tripped, &b);
	else if (found.object)
		put_type(t, r, &found, &b);
	else if (found.broken)
		put_link(t, r, &found, &b);
	else
		return;
	found.sure = field ? tripped.sure : found.sure;
	sb_printf(&b, found.sure ? "; this is what it tripped over" : "; likely what it tripped over");
	r->verdict.collector.certain = found.sure;
	verdict_note(r, "object", sb_take(&b, r->arena));
}
