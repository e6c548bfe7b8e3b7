/* What a report says of a forked process, over images built in memory under tables of every kind: by whom, and by what it is known. */
#include <check.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "build_py.h"
#include "every_layout.h"
#include "inspect/life.h"
#include "inspect/parts.h"
#include "suite.h"
#include "whole_report.h"

enum { PARENT = 99, OTHER = 555, SOME = 8 /* of all tables one in so many */, AT_RANDOM = 25 };

static const struct layout *tables;
static int n_tables;

#define LAUNCH "main /srv/app.py", "_launch /usr/lib/python3/multiprocessing/popen_fork.py", "_bootstrap /usr/lib/python3/multiprocessing/process.py", "run /srv/app.py"
#define LAUNCH_27 "main /srv/app.py", "__init__ /usr/lib/python2.7/multiprocessing/forking.py", "_bootstrap /usr/lib/python2.7/multiprocessing/process.py"
#define SPAWN "<module> <string>", "spawn_main /l/multiprocessing/spawn.py", "_main /l/multiprocessing/spawn.py", "_bootstrap /l/multiprocessing/process.py"
#define SERVED "<module> <string>", "main /l/multiprocessing/forkserver.py", "_serve_one /l/multiprocessing/forkserver.py", "_main /l/multiprocessing/spawn.py", "_bootstrap /l/multiprocessing/process.py"
#define WORKER "in a child that multiprocessing forked (\"worker-7\") from pid 99"

/* Whose stack the frames are: the main thread's; that of another thread; that of a state without a thread. */
enum whose { MAIN, SECOND, NOBODY };

static const struct fork {
	const char *stack[6];
	enum whose whose;
	int process;               /* multiprocessing's parent number; 0: there is none, -1: it has none */
	const char *name;          /* its name; NULL: it has none */
	int number;                /* threading's main thread's; 0: none */
	bool snapshot;
	int ppid, ns_pid;
	bool same_exec; const char *comm; /* the parent's, of a snapshot */
	bool apart;                /* its main thread lives on another stack than the process began on */
	bool other_main;           /* threading's main thread has another ident */
	bool left;                 /* a second thread state, whose thread is not there */
	const char *want;
} forks[] = {
	/* multiprocessing's: by its stack, and by who its parent is. */
	{ .stack = { LAUNCH }, .process = PARENT, .name = "worker-7", .number = PID, .ppid = PARENT, .want = WORKER },
	{ .stack = { LAUNCH }, .process = PARENT, .name = "worker-7", .ppid = PARENT, .want = WORKER },
	{ .stack = { LAUNCH_27 }, .process = PARENT, .name = "worker-7", .ppid = PARENT, .want = WORKER },
	{ .stack = { LAUNCH }, .process = PARENT, .number = PID, .ppid = PARENT, .want = "in a child that multiprocessing forked from pid 99" },
	{ .stack = { LAUNCH }, .process = PARENT, .name = "a\x1b[31m", .number = PID, .ppid = PARENT, .want = "in a child that multiprocessing forked (\"a\x1b[31m\") from pid 99" },
	/* In a pid namespace: what Python keeps are the numbers there, which are not those of the snapshot's parent, also where they are equal. */
	{ .stack = { LAUNCH }, .process = PARENT, .name = "worker-7", .number = 7, .snapshot = true, .ns_pid = 7, .ppid = PARENT, .want = NULL },
	{ .stack = { LAUNCH }, .process = 3, .name = "worker-7", .number = 7, .snapshot = true, .ns_pid = 7, .ppid = PARENT, .same_exec = true, .comm = "python",
	  .want = "in a child that pid 99 (\"python\") forked" },
	/* Not it: its parent is another one (a child of that child), or its thread's number is another's. */
	{ .stack = { LAUNCH }, .process = PARENT, .name = "worker-7", .number = PID, .ppid = OTHER, .want = NULL },
	{ .stack = { LAUNCH }, .process = PARENT, .name = "worker-7", .number = OTHER, .ppid = OTHER, .want = "in a child that pid 555 forked" },
	{ .stack = { LAUNCH }, .process = PARENT, .name = "worker-7", .number = OTHER, .ppid = PARENT, .want = "in a child that pid 555 forked, or that a child of it did" },
	{ .stack = { LAUNCH }, .process = -1, .name = "worker-7", .number = PID, .ppid = PARENT, .want = NULL },
	{ .stack = { LAUNCH }, .number = PID, .ppid = PARENT, .want = NULL },
	/* Spawned, or the fork server's: they were executed. */
	{ .stack = { SPAWN }, .process = PARENT, .name = "worker-7", .number = PID, .ppid = PARENT, .want = NULL },
	{ .stack = { SERVED }, .process = PARENT, .name = "worker-7", .number = PID, .ppid = PARENT, .want = NULL },
	/* Other code by these names; in another order; on another thread; of a thread that only the parent has. */
	{ .stack = { "_launch /srv/app.py", "_bootstrap /usr/lib/python3/multiprocessing/process.py" }, .process = PARENT, .number = PID, .ppid = PARENT, .want = NULL },
	{ .stack = { "_launch /x/popen_fork.py", "_bootstrap /srv/app.py" }, .process = PARENT, .number = PID, .ppid = PARENT, .want = NULL },
	{ .stack = { "_bootstrap /x/process.py", "_launch /x/popen_fork.py" }, .process = PARENT, .number = PID, .ppid = PARENT, .want = NULL },
	{ .stack = { "_launch /x/popen_fork.py", "between /srv/app.py", "_bootstrap /x/process.py" }, .process = PARENT, .number = PID, .ppid = PARENT, .want = NULL },
	{ .stack = { "__init__ /x/popen_fork.py", "_bootstrap /x/process.py" }, .process = PARENT, .number = PID, .ppid = PARENT, .want = NULL },
	{ .stack = { "_bootstrap /x/process.py" }, .process = PARENT, .number = PID, .ppid = PARENT, .want = NULL },
	{ .stack = { LAUNCH }, .whose = SECOND, .process = PARENT, .number = PID, .ppid = PARENT, .want = NULL },
	/* By the number that threading kept. */
	{ .stack = { "go /a.py" }, .number = PID, .ppid = PARENT, .want = NULL },
	{ .stack = { "go /a.py" }, .number = PARENT, .ppid = PARENT, .want = "in a child that pid 99 forked" },
	{ .stack = { "go /a.py" }, .number = OTHER, .ppid = PARENT, .want = "in a child that pid 555 forked, or that a child of it did" },
	{ .stack = { "go /a.py" }, .ppid = PARENT, .want = NULL },
	/* A snapshot tells which of them is its own in its namespace; an older one does not, and then only the parent's is believed. */
	{ .stack = { "go /a.py" }, .number = 7, .snapshot = true, .ns_pid = 7, .ppid = PARENT, .want = NULL },
	{ .stack = { "go /a.py" }, .number = 3, .snapshot = true, .ns_pid = 7, .ppid = PARENT, .want = "in a child that pid 3 (in its pid namespace) forked, or that a child of it did" },
	{ .stack = { "go /a.py" }, .number = PARENT, .snapshot = true, .ns_pid = 7, .ppid = PARENT, .want = "in a child that pid 99 (in its pid namespace) forked, or that a child of it did" },
	{ .stack = { "go /a.py" }, .number = 7, .snapshot = true, .ppid = PARENT, .want = NULL },
	{ .stack = { "go /a.py" }, .number = PARENT, .snapshot = true, .ppid = PARENT, .want = "in a child that pid 99 forked" },
	/* The parent as the snapshot has it: the same program, still the same image of it. */
	{ .stack = { "go /a.py" }, .number = PID, .snapshot = true, .ns_pid = PID, .ppid = PARENT, .same_exec = true, .comm = "gunicorn", .want = "in a child that pid 99 (\"gunicorn\") forked" },
	{ .stack = { "go /a.py" }, .snapshot = true, .ppid = PARENT, .same_exec = true, .want = "in a child that pid 99 forked" },
	{ .stack = { "go /a.py" }, .number = PID, .snapshot = true, .ns_pid = PID, .ppid = PARENT, .comm = "bash", .want = NULL },
	{ .stack = { LAUNCH }, .process = PARENT, .name = "worker-7", .number = PID, .snapshot = true, .ns_pid = PID, .ppid = PARENT, .same_exec = true, .comm = "python", .want = WORKER },
	/* From another thread than the main one: its stack is that thread's; the number counts if threading made it the main one. */
	{ .stack = { "go /a.py" }, .number = PID, .ppid = PARENT, .apart = true, .want = "in a child that a thread other than the main one forked" },
	{ .stack = { "go /a.py" }, .number = OTHER, .ppid = PARENT, .apart = true, .other_main = true, .want = "in a child that a thread other than the main one forked" },
	{ .stack = { "go /a.py" }, .number = OTHER, .ppid = PARENT, .apart = true, .want = "in a child that a thread other than the main one forked (thread 555)" },
	{ .stack = { "go /a.py" }, .number = OTHER, .snapshot = true, .ns_pid = 7, .ppid = PARENT, .apart = true,
	  .want = "in a child that a thread other than the main one forked (thread 555 in its pid namespace)" },
	/* By C code: what is left of the parent's threads. */
	{ .stack = { "go /a.py" }, .ppid = PARENT, .left = true, .want = "likely in a child that C code forked without telling Python: of 1 of its threads only the state is there" },
	{ .stack = { "go /a.py" }, .whose = SECOND, .ppid = PARENT, .left = true, .want = NULL },
	{ .stack = { LAUNCH }, .whose = NOBODY, .process = PARENT, .number = PID, .ppid = PARENT, .left = true,
	  .want = "likely in a child that C code forked without telling Python: of 1 of its threads only the state is there" },
};

static void put_frames(struct build *b, addr_t thread, const struct fork *c)
{
	for (size_t i = 0; i < 6 && c->stack[i]; i++) {
		char name[64];
		const char *space = strchr(c->stack[i], ' ');
		snprintf(name, sizeof name, "%.*s", (int)(space - c->stack[i]), c->stack[i]);
		const addr_t code = build_code(b, &(struct build_code){ .name = name, .file = space + 1, .firstlineno = 10, .units = 8 });
		build_frame(b, thread, &(struct build_frame){ .code = code, .lasti = 2, .entry = true });
	}
}

/* What threading and multiprocessing know. */
static void put_modules(struct build *b, const struct fork *c, uint64_t ident)
{
	static const char *const main_has[] = { "_ident", "_native_id" }, *const process_has[] = { "_parent_pid", "_name" };
	build_thread_name(b, b->interp, ident, "first"); /* which imports threading */
	const addr_t main[] = { build_int(b, (int64_t)(ident + (c->other_main ? 0x5000 : 0))), build_int(b, c->number) };
	build_dict_str(b, b->threading, "_main_thread", build_instance(b, "_MainThread", main_has, main, c->number ? 2 : 1, false));
	if (!c->process)
		return;
	const addr_t process[] = { c->process < 0 ? b->types.none : build_int(b, c->process), c->name ? build_str(b, c->name) : b->types.none };
	const addr_t dict = build_dict(b, BUILD_DICT);
	build_dict_str(b, dict, "_current_process", build_instance(b, "Process", process_has, process, 2, false));
	build_dict_str(b, b->modules, "multiprocessing.process", build_module(b, "multiprocessing.process", dict));
}

static struct blob auxv_of(struct build *b, addr_t random)
{
	const size_t width = b->layout.abi.width;
	uint8_t *p = arena_alloc(b->arena, 4 * width);
	const uint64_t words[] = { AT_RANDOM, random, 0, 0 };
	for (size_t i = 0; i < 4; i++)
		for (size_t k = 0; k < width; k++)
			p[i * width + k] = (uint8_t)(words[i] >> 8 * (b->layout.abi.big_endian ? width - 1 - k : k));
	return (struct blob){ p, 4 * width };
}

/* Is a thread's ident its thread pointer, so that it is known of a state that its thread is not there? */
static bool told_apart(const struct layout *l, const struct fork *c)
{
	return abi_tls_is_self(&l->abi) || !(c->left || (c->apart && c->number == OTHER && !c->other_main));
}

static void look_at(const struct layout *l, const struct fork *c, size_t row)
{
	struct build *b = build_new(l);
	/* Its stack is the heap, where the ident lies too, as glibc's thread pointer does on a thread's. */
	const addr_t room = build_alloc(b, 0x800), ident = room + 0x700;
	const addr_t main = build_thread(b, b->interp, ident, PID);
	addr_t other = 0;
	if (c->whose == SECOND) {
		other = build_thread(b, b->interp, ident + 0x40, PID + 1);
		b->lwps.p[b->lwps.n - 1].regs.sp = build_alloc(b, 0x10); /* its stack begins there, where its frames come to be */
	}
	if (c->left)
		other = build_thread(b, b->interp, ident + 0x80, 0);
	if (c->whose == MAIN)
		put_frames(b, main, c);
	else
		put_frames(b, other, c);
	put_modules(b, c, ident);
	if (b->runtime)
		WRITE_IF(b, b->runtime, PyRuntime, initialized, 1);
	b->lwps.p[0].regs.sp = room + 0x100;
	const addr_t random = c->apart ? build_cstr(b, "sixteen random bytes") : room;
	struct py *py = build_py(b);
	struct image_facts *f = image_facts_mut(py->img);
	f->kind = c->snapshot ? IMAGE_SNAPSHOT : IMAGE_CORE;
	f->auxv = auxv_of(b, random);
	f->ppid = c->ppid;
	f->ns_pid = c->ns_pid;
	f->parent.pid = c->same_exec ? PARENT : 0;
	f->parent.same_exec = c->same_exec;
	f->parent.comm = c->comm ? str_of(c->comm) : (struct str){ 0 };
	struct report *r = report_new();
	say(py->img, py, NULL, r);
	struct str said = { 0 };
	for (size_t i = 0; i < r->verdict.notes.n; i++)
		if (!strcmp(r->verdict.notes.p[i].key, "state")) {
			MUST(!said.s, "%s: row %zu: said twice", l->name, row);
			said = r->verdict.notes.p[i].text;
		}
	MUST(c->want ? str_is(said, c->want) : !said.s, "%s: row %zu: \"" STR_FMT "\", not \"%s\"", l->name, row, STR_ARG(said), c->want ? c->want : "");
	report_free(r);
	build_free(b);
}

START_TEST(child)
{
	const struct layout *l = &tables[_i * SOME];
	for (size_t i = 0; i < sizeof forks / sizeof *forks; i++)
		if (told_apart(l, &forks[i]))
			look_at(l, &forks[i], i);
}
END_TEST

/*
 * fork() did not make the process: nothing of the above counts.  But where Python knows its only thread by the parent's number, vfork or
 * clone did.
 */
static const struct other { int number, of_state, ppid; bool snapshot; int ns_pid; bool second; const char *want; } others[] = {
	{ .number = PARENT, .of_state = PARENT, .ppid = PARENT, .want = "likely in a child that pid 99 made by vfork or clone" },
	{ .number = PARENT, .of_state = PID, .ppid = PARENT, .want = "likely in a child that pid 99 made by vfork or clone" },
	{ .of_state = PARENT, .ppid = PARENT, .want = "likely in a child that pid 99 made by vfork or clone" },
	/* Another thread than the main one made it: the parent's number is that thread's. */
	{ .number = 98, .of_state = PARENT, .ppid = PARENT, .want = "likely in a child that thread 99 made by vfork or clone" },
	/* The parent has ended; it was executed; it has threads; the numbers are of another namespace, or may be. */
	{ .number = PARENT, .of_state = PARENT, .ppid = 1 },
	{ .number = PARENT, .of_state = PARENT },
	{ .number = PID, .of_state = PID, .ppid = PARENT },
	{ .number = PARENT, .of_state = PARENT, .ppid = PARENT, .second = true },
	{ .number = PARENT, .of_state = PARENT, .ppid = PARENT, .snapshot = true, .ns_pid = 7 },
	{ .number = PARENT, .of_state = PARENT, .ppid = PARENT, .snapshot = true },
	{ .number = PARENT, .of_state = PARENT, .ppid = PARENT, .snapshot = true, .ns_pid = PID, .want = "likely in a child that pid 99 made by vfork or clone" },
};

START_TEST(not_forked)
{
	const struct layout *l = &tables[_i * SOME];
	for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
		__auto_type c = &others[i];
		struct build *b = build_new(l);
		const addr_t ident = build_alloc(b, 0x100), state = build_thread(b, b->interp, ident, PID);
		WRITE_IF(b, state, PyThread, native_thread_id, c->of_state);
		put_modules(b, &(struct fork){ .number = c->number }, ident);
		if (c->second)
			build_thread(b, b->interp, ident + 0x40, PID + 1);
		if (b->runtime)
			WRITE_IF(b, b->runtime, PyRuntime, initialized, 1);
		struct py *py = build_py(b);
		struct image_facts *f = image_facts_mut(py->img);
		f->kind = c->snapshot ? IMAGE_SNAPSHOT : IMAGE_CORE;
		f->ppid = c->ppid;
		f->ns_pid = c->ns_pid;
		struct target t = { .img = py->img, .py = py, .arena = arena_new() };
		struct report *r = report_new();
		const struct report_thread th = { .state = state, .tid = PID };
		life_forked(&t, r, &th, 0);
		const bool known = c->number == c->ppid || layout_has(l, F_PyThread_native_thread_id);
		const char *said = r->verdict.notes.n ? str_c(r->arena, r->verdict.notes.p[0].text) : "";
		ck_assert_uint_le(r->verdict.notes.n, 1);
		MUST(!strcmp(said, c->want && known ? c->want : ""), "%s: row %zu: \"%s\"", l->name, i, said);
		report_free(r);
		arena_free(t.arena);
		build_free(b);
	}
}
END_TEST

int main(void)
{
	size_t n;
	tables = every_layout(&n);
	n_tables = (int)n;
	Suite *s = suite_create("life");
	TCase *c = tcase_create("forked");
	tcase_add_loop_test(c, child, 0, (n_tables + SOME - 1) / SOME);
	tcase_add_loop_test(c, not_forked, 0, (n_tables + SOME - 1) / SOME);
	tcase_set_timeout(c, 60);
	suite_add_tcase(s, c);
	return suite_run(s);
}
