/* Which thread is Python's main one, where its word for it is not known: said only where something else than a list's end tells. */
#include <check.h>
#include <stdlib.h>

#include "build_py.h"
#include "every_layout.h"
#include "suite.h"

enum { FIRST = 4711, N = 3 };
enum how {
	WHOLE,          /* the process's first thread has the list's last state */
	CUT,            /* the list ends early, at another thread's */
	CUT_THREADING,  /* threading has its main thread */
	ELSEWHERE,      /* Python was initialised in another thread than the process's first, which has no state */
	BOTH,           /* ... which came to Python later */
	WORD,           /* the runtime's own */
	CASES
};

/* Of the thread that is said to be the main one: its number less FIRST; -1: none is. */
static int main_of(const struct layout *l, enum how how)
{
	struct build *b = build_new(l);
	const bool elsewhere = how == ELSEWHERE || how == BOTH;
	const addr_t stacks = build_alloc(b, 0x1000 * (N + 1));
	addr_t t[N];
	uint64_t ident[N];

	for (int i = 0; i < N; i++) { /* their control blocks, with glibc's number of the thread where the thread pointer is behind them */
		ident[i] = stacks + 0x1000 * (addr_t)i;
		build_uint(b, ident[i] + 26u * l->abi.width, 4, (uint64_t)(FIRST + i));
	}
	for (int i = 0; i < N; i++)
		t[i] = build_thread(b, b->interp, ident[elsewhere ? (i + 1) % N : i], FIRST + (elsewhere ? (i + 1) % N : i));
	if (!abi_tls_is_self(&l->abi))
		for (size_t i = 0; i < b->lwps.n; i++)
			b->lwps.p[i].regs.tls = 0;
	if (elsewhere) { /* the core has the first thread first */
		struct thread first = b->lwps.p[N - 1];
		b->lwps.p[N - 1] = b->lwps.p[0];
		b->lwps.p[0] = first;
	}
	if (how == ELSEWHERE)
		WRITE(b, b->interp, PyInterp, tstate_head, t[N - 2]);
	if (how == CUT_THREADING)
		build_thread_name(b, b->interp, ident[1], "worker");
	if (how == CUT_THREADING)
		build_thread_name(b, b->interp, ident[0], "MainThread");
	if (how == CUT || how == CUT_THREADING)
		WRITE(b, t[1], PyThread, next, 0);
	if (how == WORD)
		WRITE(b, b->runtime, PyRuntime, main_thread, ident[2]);
	struct py *py = build_py(b);
	if (how != WORD)
		py->runtime = 0;
	uint64_t got;
	int ret = py_main_ident(py, &got) < 0 ? -1 : 99;
	for (int i = 0; i < N && ret == 99; i++)
		ret = got == ident[i] ? i : ret;
	build_free(b);
	return ret;
}

START_TEST(known_or_not_said)
{
	static const int want[CASES] = { [CUT] = -1, [ELSEWHERE] = -1, [BOTH] = -1, [WORD] = 2 };
	size_t n;
	const struct layout *l = every_layout(&n);

	for (size_t i = 0; i < n; i++) {
		for (int how = 0; how < CASES; how++) {
			if (how == WORD && !layout_has(&l[i], F_PyRuntime_main_thread))
				continue;
			int got = main_of(&l[i], (enum how)how);
			if (got != want[how])
				ck_abort_msg("%s: case %d: %d", l[i].name, how, got);
		}
	}
}
END_TEST

int main(void)
{
	Suite *s = suite_create("main_thread");
	TCase *tc = tcase_create("main_thread");
	tcase_set_timeout(tc, 120);
	tcase_add_test(tc, known_or_not_said);
	suite_add_tcase(s, tc);
	return suite_run(s);
}
