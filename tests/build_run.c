/* The runtime through a layout: types, interpreters, threads and frames of every shape, and the image of it all. */
#include "build_py.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

/* Types. */

static void make_types(struct build *b)
{
	struct py_types *t = &b->types;
	/* str before all others: heap types have their names in it. */
	t->type = build_object(b, 0, b->layout.size[S_PyType]);
	WRITE(b, t->type, PyObject, ob_type, t->type);
	WRITE(b, t->type, PyType, tp_flags, UINT64_C(1) << TRAIT(b, flag_type_subclass));
	WRITE(b, t->type, PyType, tp_name, build_cstr(b, "type"));
	t->object = build_type(b, "object", O_OTHER, false);
	WRITE(b, t->type, PyType, tp_base, t->object);
	t->str = build_type(b, layout_has(&b->layout, F_PyUnicode_kind) ? "str" : "unicode", O_STR, false);
	t->bytes = build_type(b, "bytes", O_BYTES, false);
	t->int_ = b->long_type = build_type(b, "int", O_INT, false);
	if (TRAIT(b, flag_int_subclass) >= 0) {
		b->long_type = build_type(b, "long", O_OTHER, false);
		WRITE(b, b->long_type, PyType, tp_flags, UINT64_C(1) << TRAIT(b, flag_long_subclass));
	}
	t->bool_ = build_type(b, "bool", O_INT, false);
	t->dict = build_type(b, "dict", O_DICT, false);
	t->tuple = build_type(b, "tuple", O_TUPLE, false);
	t->list = build_type(b, "list", O_LIST, false);
	t->set = build_type(b, "set", O_OTHER, false);
	t->float_ = build_type(b, "float", O_OTHER, false);
	t->function = build_type(b, "function", O_OTHER, false);
	t->code = build_type(b, "code", O_OTHER, false);
	t->module = build_type(b, "module", O_OTHER, false);
	WRITE(b, t->module, PyType, tp_dictoffset, build_field_at(b, 0, F_PyModule_md_dict));
	if (layout_has(&b->layout, F_PyInstance_in_class))
		t->instance = build_type(b, "instance", O_OTHER, false);
	t->none_type = build_type(b, "NoneType", O_OTHER, false);
	t->none = build_object(b, t->none_type, b->layout.size[S_PyObject]);
	b->frame_type = build_type(b, "frame", O_OTHER, false);
	b->gen_type = build_type(b, "generator", O_OTHER, false);
	b->true_ = build_int(b, 1);
	WRITE(b, b->true_, PyObject, ob_type, t->bool_);
	b->false_ = build_int(b, 0);
	WRITE(b, b->false_, PyObject, ob_type, t->bool_);
}

struct build *build_bare(const struct layout *l)
{
	struct build *b = xcalloc(1, sizeof *b);
	b->layout = *l;
	b->heap.base = BUILD_HEAP;
	b->rodata.base = BUILD_RODATA;
	b->arena = arena_new();
	make_types(b);
	return b;
}

void build_free(struct build *b)
{
	for (size_t i = 0; i < b->images.n; i++)
		image_close(b->images.p[i]);
	build_forget_dicts(b);
	vec_free(&b->images);
	vec_free(&b->lost);
	vec_free(&b->lwps);
	arena_free(b->arena);
	free(b->heap.p);
	free(b->rodata.p);
	free(b);
}

/* The runtime and its interpreters. */

/* 3.13 and later say where their fields are (_Py_DebugOffsets): exactly what the layout says. */
static void put_debug_offsets(struct build *b)
{
	if (!layout_has(&b->layout, F_PyDebugOffsets_cookie))
		return;
	build_put(b, build_field_at(b, b->runtime, F_PyDebugOffsets_cookie), "xdebugpy", 8);
	WRITE(b, b->runtime, PyDebugOffsets, version, (b->layout.version & ~0xffu) | 0xf0);
	WRITE(b, b->runtime, PyDebugOffsets, free_threaded, layout_has(&b->layout, F_PyObject_ob_tid));
	for (unsigned f = 0; f < PY_FIELD_COUNT; f++) {
		const struct py_field_info *info = &py_field_info[f];
		if (!layout_has(&b->layout, (enum py_field)f))
			continue;
		if (info->kind == K_OFF && layout_has(&b->layout, info->off_target))
			build_field(b, b->runtime, (enum py_field)f, (uint64_t)b->layout.offset[info->off_target]);
		else if (info->kind == K_SIZE)
			build_field(b, b->runtime, (enum py_field)f, b->layout.size[info->size_target]);
	}
}

static addr_t make_builtins(struct build *b)
{
	const struct py_types *t = &b->types;
	bool wide = TRAIT(b, str_model) == STR_MODEL_WIDE; /* 2.7: str is bytes */
	const struct { const char *name; addr_t value; } names[] = {
		{ "type", t->type }, { "object", t->object }, { wide ? "unicode" : "str", t->str }, { "bytes", t->bytes }, { "int", t->int_ },
		{ wide ? "str" : "float", wide ? t->bytes : t->float_ },
		{ "bool", t->bool_ }, { "dict", t->dict }, { "tuple", t->tuple }, { "list", t->list }, { "set", t->set },
		{ "float", t->float_ }, { "None", t->none }, { "True", b->true_ }, { "False", b->false_ },
	};
	addr_t d = build_dict(b, BUILD_DICT);
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		build_dict_str(b, d, names[i].name, names[i].value);
	return d;
}

addr_t build_builtin(struct build *b, const char *name)
{
	addr_t o = build_object(b, build_type(b, "builtin_function_or_method", O_OTHER, false), b->layout.size[S_PyCFunction]);
	addr_t def = build_alloc(b, b->layout.size[S_PyMethodDef]);

	WRITE(b, def, PyMethodDef, ml_name, build_cstr(b, name));
	WRITE(b, o, PyCFunction, m_ml, def);
	return o;
}

addr_t build_interp(struct build *b, int64_t id)
{
	bool embedded = id == 0 && b->runtime && layout_has(&b->layout, F_PyRuntime_main_interp);
	addr_t in = embedded ? build_field_at(b, b->runtime, F_PyRuntime_main_interp) : build_alloc(b, b->layout.size[S_PyInterp]);
	char version[64];
	unsigned v = b->layout.version;
	snprintf(version, sizeof version, "%u.%u.%u (main) [GCC]", v >> 24, v >> 16 & 255, v >> 8 & 255);

	addr_t sysdict = build_dict(b, BUILD_DICT), modules = build_dict(b, BUILD_DICT), builtins = make_builtins(b);
	addr_t lib = build_dict(b, BUILD_DICT), importlib;
	build_dict_str(b, lib, "_find_and_load", build_function(b, "_find_and_load", build_code(b, &(struct build_code){
		.name = "_find_and_load", .file = "<frozen importlib._bootstrap>", .firstlineno = 1000 })));
	importlib = build_module(b, "_frozen_importlib", lib);
	build_dict_str(b, sysdict, "hexversion", build_int(b, (v & ~0xffu) | 0xf0));
	build_dict_str(b, sysdict, "version", build_str(b, version));
	if (strstr(b->layout.name, "-d"))
		build_dict_str(b, sysdict, "gettotalrefcount", build_builtin(b, "gettotalrefcount"));
	build_dict_str(b, sysdict, "modules", modules);
	build_dict_str(b, sysdict, "executable", build_str(b, "/usr/bin/python3"));
	addr_t argv[] = { build_str(b, "prog.py"), build_str(b, "-x") };
	build_dict_str(b, sysdict, "argv", build_list(b, argv, 2));
	build_dict_str(b, modules, "sys", build_module(b, "sys", sysdict));
	build_dict_str(b, modules, "builtins", build_module(b, "builtins", builtins));
	if (layout_has(&b->layout, F_PyInterp_importlib)) {
		build_dict_str(b, modules, "_frozen_importlib", importlib);
	} else { /* 2.7 */
		addr_t types = build_dict(b, BUILD_DICT);
		build_dict_str(b, types, "FunctionType", b->types.function);
		build_dict_str(b, types, "CodeType", b->types.code);
		build_dict_str(b, types, "ModuleType", b->types.module);
		build_dict_str(b, types, "InstanceType", b->types.instance);
		build_dict_str(b, modules, "types", build_module(b, "types", types));
	}

	WRITE(b, in, PyInterp, next, b->interp_head);
	WRITE_IF(b, in, PyInterp, id, id);
	WRITE_IF(b, in, PyInterp, runtime, b->runtime);
	WRITE_IF(b, in, PyInterp, modules, modules);
	WRITE(b, in, PyInterp, sysdict, sysdict);
	WRITE(b, in, PyInterp, builtins, builtins);
	WRITE_IF(b, in, PyInterp, importlib, importlib);
	if (layout_has(&b->layout, F_PyInterp_gil))
		WRITE(b, in, PyInterp, gil, build_field_at(b, in, F_PyInterp_own_gil));
	b->interp_head = in;
	if (b->runtime) {
		WRITE(b, b->runtime, PyRuntime, interp_head, in);
		if (id == 0) {
			WRITE_IF(b, b->runtime, PyRuntime, interp_main, in);
			WRITE_IF(b, b->runtime, PyRuntime, auto_interp, in);
		}
	}
	if (id == 0) {
		b->interp = in;
		b->sysdict = sysdict;
		b->modules = modules;
		b->builtins = builtins;
	}
	return in;
}

struct build *build_new(const struct layout *l)
{
	struct build *b = build_bare(l);
	if (b->layout.size[S_PyRuntime]) {
		b->runtime = build_alloc(b, b->layout.size[S_PyRuntime]);
		put_debug_offsets(b);
	} else {
		b->tstate_current = build_alloc(b, b->layout.abi.width);
	}
	build_interp(b, 0);
	return b;
}

/* Threads. */

/* Where the innermost frame's address is kept. */
static addr_t current_frame_at(struct build *b, addr_t thread)
{
	if (layout_has(&b->layout, F_PyThread_current_frame))
		return build_field_at(b, thread, F_PyThread_current_frame);
	if (layout_has(&b->layout, F_PyCFrame_current_frame))
		return build_field_at(b, build_field_get(b, thread, F_PyThread_cframe), F_PyCFrame_current_frame);
	return build_field_at(b, thread, F_PyThread_frame);
}

static addr_t push_shim(struct build *b, addr_t thread);

addr_t build_thread(struct build *b, addr_t interp, uint64_t ident, pid_t tid)
{
	addr_t next = build_field_get(b, interp, F_PyInterp_tstate_head);
	bool embedded = !next && layout_has(&b->layout, F_PyInterp_initial_thread) && interp == b->interp;
	addr_t t = embedded ? build_field_at(b, interp, F_PyInterp_initial_thread) : build_alloc(b, b->layout.size[S_PyThread] + 64);
	static uint64_t id;

	WRITE(b, t, PyThread, interp, interp);
	WRITE(b, t, PyThread, next, next);
	if (next)
		WRITE_IF(b, next, PyThread, prev, t);
	else
		WRITE_IF(b, interp, PyInterp, threads_main, t);
	WRITE(b, interp, PyInterp, tstate_head, t);
	WRITE(b, t, PyThread, thread_id, ident);
	pid_t native = tid ? tid : 99999999;
	for (size_t i = 0; i < b->lwps.n && !tid; i++) /* a further state of a thread */
		if (ident && b->lwps.p[i].regs.tls == ident)
			native = b->lwps.p[i].tid;
	WRITE_IF(b, t, PyThread, native_thread_id, native);
	WRITE_IF(b, t, PyThread, id, ++id);
	if (layout_has(&b->layout, F_PyThread_cframe))
		WRITE(b, t, PyThread, cframe, layout_has(&b->layout, F_PyThread_root_cframe) ?
		      build_field_at(b, t, F_PyThread_root_cframe) : build_alloc(b, b->layout.size[S_PyCFrame] + 16));
	if (layout_has(&b->layout, F_PyThread_exc_info) && layout_has(&b->layout, F_PyThread_exc_state))
		WRITE(b, t, PyThread, exc_info, build_field_at(b, t, F_PyThread_exc_state));
	if (layout_has(&b->layout, F_PyThread_base_frame))
		WRITE(b, t, PyThread, base_frame, push_shim(b, t));
	if (b->runtime && interp == b->interp && !next)
		WRITE_IF(b, b->runtime, PyRuntime, main_thread, ident);
	if (tid) {
		struct thread *lwp = vec_push(&b->lwps);
		lwp->tid = tid;
		lwp->regs.tls = ident;
		lwp->regs.syscall.nr = -1;
	}
	return t;
}

void build_lwp(struct build *b, pid_t tid, addr_t sp, addr_t tls)
{
	for (size_t i = 0; i < b->lwps.n; i++)
		if (b->lwps.p[i].tid == tid) {
			b->lwps.p[i].regs.sp = sp;
			b->lwps.p[i].regs.tls = tls;
			return;
		}
	ck_abort_msg("build: no thread %d", (int)tid);
}

void build_gil(struct build *b, addr_t interp, addr_t thread)
{
	if (layout_has(&b->layout, F_PyInterp_gil)) {
		addr_t gil = build_field_get(b, interp, F_PyInterp_gil);
		WRITE(b, gil, PyGil, locked, thread != 0);
		WRITE_IF(b, gil, PyGil, enabled, 1);
		if (thread)
			WRITE(b, gil, PyGil, last_holder, thread);
	} else if (b->tstate_current) {
		build_ptr(b, b->tstate_current, thread);
	} else if (b->runtime) {
		WRITE_IF(b, b->runtime, PyRuntime, gil_tstate_current, thread);
		WRITE_IF(b, b->runtime, PyRuntime, gil_locked, thread != 0);
		if (thread)
			WRITE_IF(b, b->runtime, PyRuntime, gil_last_holder, thread);
	}
	for (addr_t t = build_field_get(b, interp, F_PyInterp_tstate_head); t; t = build_field_get(b, t, F_PyThread_next))
		WRITE_IF(b, t, PyThread, holds_gil, t == thread);
}

/* threading is imported when the first name is given. */
void build_thread_name(struct build *b, addr_t interp, uint64_t ident, const char *name)
{
	static const char *const names[] = { "_target", "_name", "_ident" };
	addr_t modules = interp == b->interp ? b->modules : 0;
	MUST(modules, "build: only the main interpreter's threads have names");
	if (!b->threading_active) {
		addr_t dict = build_dict(b, BUILD_DICT);
		b->threading_active = build_dict(b, BUILD_DICT);
		b->threading = dict;
		build_dict_str(b, dict, "_active", b->threading_active);
		build_dict_str(b, modules, "threading", build_module(b, "threading", dict));
	}
	/* 2.7's get_ident() is signed (Modules/threadmodule.c: PyInt_FromLong) */
	bool is_signed = b->layout.abi.width == 4 && layout_has(&b->layout, F_PyInt_ob_ival);
	addr_t key = build_int(b, is_signed ? (int32_t)ident : (int64_t)ident);
	addr_t values[] = { b->types.none, build_str(b, name), key };
	const bool main = strcmp(name, "MainThread") == 0;
	addr_t thread = build_instance(b, main ? "_MainThread" : "Thread", names, values, 3, true);
	build_dict_set(b, b->threading_active, key, thread);
	if (main && layout_has(&b->layout, F_PyInt_ob_ival)) /* 2.7 keeps the class, and no name for the thread */
		build_dict_str(b, b->threading, "_MainThread", build_field_get(b, thread, F_PyObject_ob_type));
	else if (main)
		build_dict_str(b, b->threading, "_main_thread", thread);
}

/* Frames. */

/* Locals, then the stack from there on; returns the address behind the last value. */
static addr_t put_values(struct build *b, addr_t at, const struct build_frame *f, size_t n_locals)
{
	unsigned width = b->layout.abi.width;
	for (size_t i = 0; i < n_locals; i++, at += width)
		build_ptr(b, at, build_ref(b, f->locals ? f->locals[i] : 0));
	for (size_t i = 0; i < f->n_stack; i++, at += width)
		build_ptr(b, at, build_ref(b, f->stack[i]));
	return at;
}

static addr_t push_frame_object(struct build *b, addr_t thread, const struct build_frame *f)
{
	size_t n_locals = build_field_get(b, f->code, F_PyCode_co_nlocals), room = n_locals + f->n_stack + 8;
	addr_t o = build_object(b, b->frame_type, b->layout.size[S_PyFrameObject] + room * b->layout.abi.width);
	addr_t at = current_frame_at(b, thread), locals = build_field_at(b, o, F_PyFrameObject_f_localsplus);
	WRITE(b, o, PyFrameObject, f_back, build_get(b, at, b->layout.abi.width));
	WRITE(b, o, PyFrameObject, f_code, f->code);
	WRITE_IF(b, o, PyFrameObject, f_builtins, b->builtins);
	WRITE(b, o, PyFrameObject, f_lasti, f->lasti < 0 ? -1 : f->lasti / TRAIT(b, lasti_unit));
	addr_t end = put_values(b, locals, f, n_locals);
	WRITE(b, o, PyFrameObject, f_valuestack, locals + n_locals * b->layout.abi.width);
	WRITE_IF(b, o, PyFrameObject, f_stacktop, f->executing ? 0 : end);
	WRITE_IF(b, o, PyFrameObject, f_stackdepth, f->executing ? -1 : (int64_t)f->n_stack);
	if (f->generator) {
		addr_t gen = build_object(b, b->gen_type, b->layout.size[S_PyGen]);
		WRITE(b, gen, PyGen, gi_frame, o);
		WRITE_IF(b, o, PyFrameObject, f_gen, gen);
	}
	build_ptr(b, at, o);
	return o;
}

/* Push a frame of size bytes at frame (0: to be allocated) whose code field holds code. */
static addr_t push_frame(struct build *b, addr_t thread, addr_t frame, size_t values, addr_t code, unsigned owner)
{
	addr_t at = current_frame_at(b, thread);
	if (!frame)
		frame = build_alloc(b, b->layout.size[S_PyFrame] + values * b->layout.abi.width);
	WRITE(b, frame, PyFrame, previous, build_get(b, at, b->layout.abi.width));
	WRITE(b, frame, PyFrame, code, build_ref(b, code));
	WRITE_IF(b, frame, PyFrame, owner, owner);
	build_ptr(b, at, frame);
	return frame;
}

/* 3.12's shim has a code object of its own, later ones None. */
static addr_t push_shim(struct build *b, addr_t thread)
{
	if (TRAIT(b, owner_shim) == 255)
		return 0;
	if (!b->shim_code)
		b->shim_code = layout_has(&b->layout, F_PyFrame_instr_ptr) ? b->types.none :
			       build_code(b, &(struct build_code){ .name = "<shim>", .file = "<shim>" });
	return push_frame(b, thread, 0, 8, b->shim_code, (unsigned)TRAIT(b, owner_shim));
}

addr_t build_frame(struct build *b, addr_t thread, const struct build_frame *f)
{
	if (f->shim)
		return push_shim(b, thread);
	if (!layout_has(&b->layout, F_PyFrame_previous))
		return push_frame_object(b, thread, f);
	unsigned width = b->layout.abi.width;
	const bool first = !build_get(b, current_frame_at(b, thread), width);
	if (first && !b->bare_chains)
		push_shim(b, thread);
	size_t n_locals = build_field_get(b, f->code, F_PyCode_co_nlocalsplus), values = n_locals + f->n_stack + 8;
	addr_t inside = 0;
	if (f->generator) {
		addr_t gen = build_object(b, b->gen_type, build_field_at(b, 0, F_PyGen_gi_iframe) + b->layout.size[S_PyFrame] +
					  values * width);
		inside = build_field_at(b, gen, F_PyGen_gi_iframe);
	}
	addr_t o = push_frame(b, thread, inside, values, f->code, f->generator ? (unsigned)TRAIT(b, owner_generator) : 0);
	addr_t start = build_field_at(b, f->code, F_PyCode_co_code_adaptive);
	/* 3.11 and 3.12 start on the unit before the first. */
	WRITE_IF(b, o, PyFrame, instr_ptr, f->lasti < 0 ? start : start + (addr_t)f->lasti);
	WRITE_IF(b, o, PyFrame, prev_instr, f->lasti < 0 ? start - 2 : start + (addr_t)f->lasti);
	WRITE_IF(b, o, PyFrame, builtins, b->builtins);
	WRITE_IF(b, o, PyFrame, is_entry, f->entry || first);
	addr_t end = put_values(b, build_field_at(b, o, F_PyFrame_localsplus), f, n_locals);
	WRITE_IF(b, o, PyFrame, stacktop, f->executing ? -1 : (int64_t)(n_locals + f->n_stack));
	WRITE_IF(b, o, PyFrame, stackpointer, f->executing ? 0 : end);
	return o;
}

addr_t build_frame_back(struct build *b, addr_t frame)
{
	return build_field_at(b, frame, layout_has(&b->layout, F_PyFrame_previous) ? F_PyFrame_previous : F_PyFrameObject_f_back);
}

/* The image. */

static int read_copy(void *ctx, uint64_t offset, void *buf, size_t len)
{
	memcpy(buf, (const uint8_t *)ctx + offset, len);
	return 0;
}

static void add_region(struct build *b, struct image *img, const struct build_region *r)
{
	uint8_t *copy = arena_dup(image_arena(img), r->p, r->n);
	addr_t at = r->base, end = r->base + r->n;
	while (at < end) {
		/* Up to the nearest loss; a loss that covers `at` is stepped over. */
		addr_t stop = end, skip = 0;
		for (size_t i = 0; i < b->lost.n; i++) {
			const struct lost *l = &b->lost.p[i];
			if (l->start <= at && at < l->end)
				skip = l->end > skip ? l->end : skip;
			else if (l->start > at && l->start < stop)
				stop = l->start;
		}
		if (skip) {
			at = skip;
			continue;
		}
		const struct segment seg = { .start = at, .size = stop - at, .prot = r == &b->heap ? 3 : 1, .read = read_copy,
					     .ctx = copy + (at - r->base) };
		MUST(image_add_segment(img, &seg, LAY_OVER) == 0, "build: a segment is refused");
		at = stop;
	}
}

struct image *build_image(struct build *b)
{
	build_settle(b);
	struct image *img = image_new(b->layout.abi);
	*vec_push(&b->images) = img;
	add_region(b, img, &b->heap);
	if (!b->no_rodata)
		add_region(b, img, &b->rodata);
	for (size_t i = 0; i < b->lwps.n; i++)
		*image_add_thread(img) = b->lwps.p[i];
	if (b->lwps.n)
		image_facts_mut(img)->pid = b->lwps.p[0].tid;
	image_settle(img);
	return img;
}

addr_t build_hint(const struct build *b)
{
	return b->runtime ? b->runtime : b->interp_head;
}

struct py *build_py(struct build *b)
{
	uint32_t version = (b->layout.version & ~0xffu) | 0xf0;
	b->py = (struct py){ .img = build_image(b), .layout = b->layout, .runtime = b->runtime, .interp_head = b->interp_head,
			     .tstate_current = b->tstate_current, .version = version, .version_exact = true, .found_by = "symbol", .types = b->types };
	snprintf(b->py.version_text, sizeof b->py.version_text, "%u.%u.%u", version >> 24, version >> 16 & 255, version >> 8 & 255);
	py_index_threads(&b->py, b->arena);
	py_index_idents(&b->py, b->arena);
	return &b->py;
}

addr_t build_work(struct build *b)
{
	return build_code(b, &(struct build_code){ .name = "work", .file = "/a/b.py", .firstlineno = 10, .units = 8, .nlocals = 1, .stacksize = 4 });
}

struct build *build_two_threads(const struct layout *l, addr_t threads[2])
{
	struct build *b = build_new(l);
	addr_t code = build_work(b);
	for (int i = 0; i < 2; i++) {
		threads[i] = build_thread(b, b->interp, BUILD_IDENT(b) + 0x1000 * (uint64_t)i, 100 + i);
		build_frame(b, threads[i], &(struct build_frame){ .code = code, .lasti = 4 });
	}
	return b;
}

struct py *build_open(struct build *b, struct image *img, const struct py_options *opt)
{
	struct py *py = NULL;
	struct err err = { 0 };
	MUST(py_open(img, NULL, opt, b->arena, &py, &err) == 0, "%s: %s", b->layout.name, err.msg);
	return py;
}
