/* src/image/elf_core: cores of every machine, odd but right ones, truncated at every byte, and hostile ones. */
#include "build_elf.h"
#include "suite.h"

#include <check.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const char *const machines[] = { "x86_64", "i386", "aarch64", "aarch64_be", "arm", "armeb", "ppc64le", "ppc64", "s390x" };

static bool blob_is(struct blob b, const char *s)
{
	return b.len == strlen(s) && (b.len == 0 || memcmp(b.p, s, b.len) == 0);
}

/* A core with something of everything; odd (may be NULL) makes it unusual. */
static struct build_elf *build_odd(const char *machine, void (*odd)(struct build_elf *b))
{
	struct build_elf *b = build_elf_new(machine);
	if (odd)
		odd(b);
	build_elf_thread(b, 1001, 0x401234, 0x7ffe1000);
	build_elf_cursig(b, SIGSEGV);
	build_elf_tls(b, 0x55550000);
	build_elf_note(b, "CORE", 2, "FPREGS-A", 8);
	build_elf_note(b, "LINUX", 0x202, "XSTATE-A", 8);
	build_elf_thread(b, 1002, 0x402000, 0x7ffe2000);
	build_elf_note(b, "CORE", 2, "FP-B", 4);
	build_elf_thread(b, 1003, 0x403000, 0x7ffe3000);
	build_elf_tls(b, 0x66660000);
	build_elf_note(b, "PYSNAP", 1, "{}", 2);
	build_elf_prpsinfo(b, 1001, 77, 1000, "python3", "python3 app.py --fast ");
	build_elf_signal(b, SIGSEGV, 1, 0xdead0);
	build_elf_auxv(b, 3, 0x400040);
	build_elf_auxv(b, 9, 0x401000);
	build_elf_file(b, 0x402000, 0x404000, 0x2000, "/usr/bin/python3");
	build_elf_file(b, 0x400000, 0x402000, 0, "/usr/bin/python3");
	build_elf_file(b, 0x500000, 0x501000, 0x10000, "/tmp/gr\xc3\xbc\xc3\x9f.so (deleted)");
	build_elf_load(b, 0x400000, "\177ELF-headers", 13, 1);
	build_elf_absent(b, 0x402000, 0x2000, 5);
	build_elf_load(b, 0x600000, "data", 4, 3);
	build_elf_load(b, 0x7ffe0000, "stack", 5, 3);
	return b;
}

static struct build_elf *build(const char *machine)
{
	return build_odd(machine, NULL);
}

static void check_build(struct image *img, const char *machine)
{
	const struct image_facts *f = image_facts(img);
	ck_assert_str_eq(abi_name(image_abi(img)), machine);
	ck_assert_int_eq(f->kind, IMAGE_CORE);
	ck_assert_uint_eq(f->size, f->file_size);
	ck_assert_uint_le(f->expected, f->size);
	ck_assert(!f->truncated && f->n_lost == 0 && f->n_segments == 3 && f->n_segments_lost == 0);
	ck_assert(f->has_prpsinfo && f->has_file_note);
	ck_assert_int_eq(f->pid, 1001);
	ck_assert_int_eq(f->ppid, 77);
	ck_assert_int_eq(f->uid, 1000);
	ck_assert_int_eq(f->stopped_ns, -1);
	ck_assert(str_is(f->comm, "python3"));
	ck_assert(str_is(f->args, "python3 app.py --fast"));
	ck_assert(f->siginfo.known && f->siginfo.signo == SIGSEGV && f->siginfo.code == 1 && !f->siginfo.has_sender);
	ck_assert(f->siginfo.has_addr && f->siginfo.addr == 0xdead0);
	uint64_t v;
	ck_assert_int_eq(image_auxv(img, 9, &v), 0);
	ck_assert_uint_eq(v, 0x401000);

	const struct thread *t;
	ck_assert_uint_eq(image_threads(img, &t), 3);
	static const struct { pid_t tid; int signo; addr_t pc, sp, tls; const char *fp, *x; } want[] = {
		{ 1001, SIGSEGV, 0x401234, 0x7ffe1000, 0x55550000, "FPREGS-A", "XSTATE-A" },
		{ 1002, 0, 0x402000, 0x7ffe2000, 0, "FP-B", "" },
		{ 1003, 0, 0x403000, 0x7ffe3000, 0x66660000, "", "" },
	};
	for (size_t i = 0; i < COUNT(want); i++) {
		ck_assert_int_eq(t[i].tid, want[i].tid);
		ck_assert_int_eq(t[i].signo, want[i].signo);
		ck_assert_uint_eq(t[i].regs.pc, want[i].pc);
		ck_assert_uint_eq(t[i].regs.sp, want[i].sp);
		ck_assert_uint_eq(t[i].regs.tls, want[i].tls);
		ck_assert(blob_is(t[i].fpregset, want[i].fp));
		ck_assert(blob_is(t[i].xstate, want[i].x));
		ck_assert_int_eq(t[i].siginfo.len != 0, i == 0);
		ck_assert_uint_gt(t[i].prstatus.len, 100);
		ck_assert_ptr_null(t[i].name.s);
	}

	const struct mapping *m;
	ck_assert_uint_eq(image_mappings(img, &m), 3);
	ck_assert_uint_eq(m[0].start, 0x400000);
	ck_assert_uint_eq(m[1].start, 0x402000);
	ck_assert_uint_eq(m[1].end, 0x404000);
	ck_assert_uint_eq(m[1].offset, 0x2000);
	ck_assert_uint_eq(m[1].prot, 5); /* of a load without bytes */
	ck_assert_uint_eq(m[0].prot, 1);
	ck_assert_uint_eq(m[2].prot, 0); /* no load there */
	ck_assert(blob_is(m[1].path, "/usr/bin/python3"));
	ck_assert(blob_is(m[2].path, "/tmp/gr\xc3\xbc\xc3\x9f.so (deleted)"));

	const struct segment *s;
	ck_assert_uint_eq(image_segments(img, &s), 3);
	ck_assert(s[0].prot == 1 && s[1].prot == 3 && !s[0].from_file);
	char buf[16];
	ck_assert_int_eq(image_read(img, 0x600000, buf, 4), 0);
	ck_assert_mem_eq(buf, "data", 4);
	ck_assert_int_eq(image_read(img, 0x600000, buf, 5), ERR_FAULT);
	ck_assert_int_eq(image_read(img, 0x402000, buf, 1), ERR_FAULT); /* left out, not zero */
	ck_assert_int_eq(image_read(img, 0x7ffe0000, buf, 5), 0);
	ck_assert_mem_eq(buf, "stack", 5);

	const struct note *n;
	size_t notes = image_notes(img, &n), ours = 0;
	for (size_t i = 0; i < notes; i++)
		ours += blob_is(n[i].owner, "PYSNAP") && n[i].type == 1 && blob_is(n[i].desc, "{}");
	ck_assert_uint_eq(ours, 1);
}

START_TEST(every_machine)
{
	struct build_elf *b = build(machines[_i]);
	struct image *img = build_elf_open(b);
	check_build(img, machines[_i]);
	image_close(img);
	build_elf_free(b);
}
END_TEST

static void wide_headers(struct build_elf *b)
{
	build_elf_phentsize(b, 80);
}
static void notes_to_8(struct build_elf *b)
{
	build_elf_note_align(b, 8);
}
static void pages(struct build_elf *b)
{
	build_elf_data_align(b, 4096);
}
static void (*const odds[])(struct build_elf *b) = { wide_headers, notes_to_8, build_elf_split_notes, pages };

START_TEST(odd_but_right)
{
	const char *machine = machines[(size_t)_i / COUNT(odds)];
	struct build_elf *b = build_odd(machine, odds[(size_t)_i % COUNT(odds)]);
	struct image *img = build_elf_open(b);
	check_build(img, machine);
	image_close(img);
	build_elf_free(b);
}
END_TEST

/* --- more than 65,535 segments --- */

START_TEST(seventy_thousand_loads)
{
	enum { N = 70000 };
	const char *machine = _i ? "ppc64" : "x86_64";
	struct build_elf *b = build_elf_new(machine);
	build_elf_thread(b, 1, 0, 0);
	for (unsigned i = 0; i < N; i++)
		build_elf_put(b, build_elf_memory(b, 0x10000 + 0x2000 * (addr_t)i, 8, 3), 8, i);
	struct blob file = build_elf_finish(b);
	/* Whole; then without section header 0, which the kernel puts last, so that every truncated core lacks it. */
	for (size_t cut = 0; cut <= 64; cut += 64) {
		struct image *img;
		struct err err;
		clock_t start = clock();
		ck_assert_int_eq(image_open_bytes(bytes_from_memory(file.p, file.len - cut, "many"), &img, &err), 0);
		ck_assert_int_lt((clock() - start) / (CLOCKS_PER_SEC / 100), 200);
		const struct segment *s;
		uint64_t v;
		ck_assert_uint_eq(image_segments(img, &s), N);
		ck_assert_int_eq(image_read_uint(img, 0x10000 + 0x2000 * (addr_t)(N - 1), 8, &v), 0);
		ck_assert_uint_eq(v, N - 1);
		ck_assert_int_eq(image_read_uint(img, 0x10000 + 0x2000 * (addr_t)65535, 8, &v), 0);
		ck_assert_uint_eq(v, 65535);
		ck_assert_uint_eq(image_facts(img)->n_segments, N);
		image_close(img);
	}
	build_elf_free(b);
}
END_TEST

/* --- truncated --- */

START_TEST(cut_at_every_byte)
{
	struct build_elf *b = build(machines[_i]);
	struct blob file = build_elf_finish(b);
	size_t data = build_elf_data(b), opened = 0;
	for (size_t len = 0; len < file.len; len++) {
		struct image *img = NULL;
		struct err err = { 0 };
		int rc = image_open_bytes(bytes_from_memory(file.p, len, "cut"), &img, &err);
		if (rc < 0) {
			if (img || len >= data || !err.msg[0] || (len >= 16 && rc != ERR_CORRUPT))
				ck_abort_msg("cut at %zu: %d %s", len, rc, err.msg);
			continue;
		}
		opened++;
		const struct image_facts *f = image_facts(img);
		const struct segment *s;
		const struct thread *t;
		size_t n = image_segments(img, &s), threads = image_threads(img, &t);
		uint64_t there = 0, lost = 0;
		for (size_t i = 0; i < n; i++)
			there += s[i].size;
		for (size_t i = 0; i < f->n_lost; i++)
			lost += f->lost[i].end - f->lost[i].start;
		if (!f->truncated || f->size != len || f->expected != file.len)
			ck_abort_msg("cut at %zu: size %llu, expected %llu", len, (unsigned long long)f->size, (unsigned long long)f->expected);
		if (len >= data && (threads != 3 || there + lost != 13 + 4 + 5 || lost == 0))
			ck_abort_msg("cut at %zu: %zu threads, %llu there, %llu lost", len, threads, (unsigned long long)there,
				     (unsigned long long)lost);
		image_close(img);
	}
	ck_assert_uint_ge(opened, file.len - data);
	build_elf_free(b);
}
END_TEST

START_TEST(what_is_lost_is_listed)
{
	struct build_elf *b = build_elf_new("x86_64");
	build_elf_thread(b, 1, 0, 0);
	memset(build_elf_memory(b, 0x10000, 4096, 3), 'a', 4096);
	memset(build_elf_memory(b, 0x20000, 4096, 3), 'b', 4096);
	memset(build_elf_memory(b, 0x21000, 4096, 3), 'c', 4096);
	memset(build_elf_memory(b, 0x30000, 4096, 3), 'd', 4096);
	struct blob file = build_elf_finish(b);
	struct image *img;
	ck_assert_int_eq(image_open_bytes(bytes_from_memory(file.p, build_elf_data(b) + 4096 + 100, "cut"), &img, NULL), 0);
	const struct image_facts *f = image_facts(img);
	ck_assert(f->truncated);
	ck_assert_uint_eq(f->expected, file.len);
	ck_assert_uint_eq(f->n_segments, 4);
	ck_assert_uint_eq(f->n_segments_lost, 3);
	ck_assert_uint_eq(f->n_lost, 3); /* those that touch stay apart: they are counted */
	ck_assert_uint_eq(f->lost[0].start, 0x20000 + 100);
	ck_assert_uint_eq(f->lost[0].end, 0x21000);
	ck_assert_uint_eq(f->lost[1].end, 0x22000);
	ck_assert_uint_eq(f->lost[2].start, 0x30000);
	ck_assert_uint_eq(f->lost[2].end, 0x31000);
	char buf[200];
	ck_assert_int_eq(image_read(img, 0x10000 + 4000, buf, 96), 0);
	ck_assert_uint_eq(image_read_some(img, 0x20000, buf, sizeof buf), 100);
	ck_assert_int_eq(buf[99], 'b');
	ck_assert_int_eq(image_read(img, 0x30000, buf, 1), ERR_FAULT);
	image_close(img);
	build_elf_free(b);
}
END_TEST

/* --- notes --- */

static const struct { int signo, code; bool sender; bool has_addr, has_sender; } signals[] = {
	{ SIGSEGV, 1, false, true, false },
	{ SIGSEGV, 2, false, true, false },
	{ SIGSEGV, 0x80, false, false, false }, /* SI_KERNEL: no address */
	{ SIGBUS, 2, false, true, false },
	{ SIGFPE, 1, false, true, false },
	{ SIGILL, 2, false, true, false },
	{ SIGTRAP, 1, false, true, false },
	{ SIGSEGV, 0, true, false, true },      /* kill -SEGV */
	{ SIGABRT, -6, true, false, true },     /* raise, tgkill */
	{ SIGABRT, 0, true, false, true },
	{ 34, -1, true, false, true },    /* sigqueue */
	{ SIGALRM, -2, true, false, false },    /* SI_TIMER has a timer there */
	{ SIGCHLD, 1, false, false, false },
};

START_TEST(signals_are_decoded)
{
	for (size_t k = 0; k < COUNT(machines); k++) {
		struct build_elf *b = build_elf_new(machines[k]);
		build_elf_thread(b, 5, 0, 0);
		if (signals[_i].sender)
			build_elf_signal_from(b, signals[_i].signo, signals[_i].code, 4242, 1000);
		else
			build_elf_signal(b, signals[_i].signo, signals[_i].code, 0x89abcdef);
		struct image *img = build_elf_open(b);
		const struct image_facts *f = image_facts(img);
		ck_assert(f->siginfo.known);
		ck_assert_int_eq(f->siginfo.signo, signals[_i].signo);
		ck_assert_int_eq(f->siginfo.code, signals[_i].code);
		ck_assert_int_eq(f->siginfo.has_addr, signals[_i].has_addr);
		ck_assert_int_eq(f->siginfo.has_sender, signals[_i].has_sender);
		if (signals[_i].has_addr)
			ck_assert_uint_eq(f->siginfo.addr, 0x89abcdef);
		ck_assert_int_eq(f->siginfo.pid, signals[_i].has_sender ? 4242 : -1);
		ck_assert_int_eq(f->siginfo.uid, signals[_i].has_sender ? 1000 : -1);
		image_close(img);
		build_elf_free(b);
	}
}
END_TEST

/* comm has room for 15 bytes and args for 79; the kernel cuts where the room ends, perhaps within a character. */
#define X70 "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
static const struct { const char *comm, *shown, *args, *args_shown; } names[] = {
	{ "python", "python", "python x.py", "python x.py" },
	{ "", "", "", "" },
	{ "123456789012345", "123456789012345", "a b  ", "a b" },
	{ "gr\xc3\xbc\xc3\x9f", "gr\xc3\xbc\xc3\x9f", "\xe6\x97\xa5", "\xe6\x97\xa5" },
	{ "12345678901234\xc3\xbc", "12345678901234", X70 "12345678\xe6\x97\xa5", X70 "12345678" },
	{ "1234567890123\xc3\xbc", "1234567890123\xc3\xbc", X70 "1234567\xe6\x97\xa5", X70 "1234567" },
	{ "123456789012\xf0\x9f\x90\x8d", "123456789012", X70 "123456\xe6\x97\xa5", X70 "123456\xe6\x97\xa5" },
	{ "bad\xff", "bad\\xff", "cut\xc3", "cut\\xc3" },              /* not full: that is how it was */
	{ "1234567890123\xff\xff", "1234567890123\\xff\\xff", "a\nb", "a\nb" },
};

START_TEST(names_are_text)
{
	for (size_t k = 0; k < COUNT(machines); k++) {
		struct build_elf *b = build_elf_new(machines[k]);
		build_elf_thread(b, 5, 0, 0);
		build_elf_prpsinfo(b, 5, 1, 0, names[_i].comm, names[_i].args);
		struct image *img = build_elf_open(b);
		const struct image_facts *f = image_facts(img);
		ck_assert_msg(str_is(f->comm, names[_i].shown), STR_FMT, STR_ARG(f->comm));
		ck_assert_msg(str_is(f->args, names[_i].args_shown), STR_FMT, STR_ARG(f->args));
		image_close(img);
		build_elf_free(b);
	}
}
END_TEST

/* One more note, built by hand, at the end of a thread that is fine: what comes of it, and nothing else is lost. */
static const struct { uint32_t type; const char *desc; size_t len; size_t threads, maps; bool file_note; } bad_notes[] = {
	{ 1, "", 0, 2, 0, false },                                     /* a PRSTATUS without anything: a thread without registers */
	{ 1, "short", 5, 2, 0, false },
	{ 3, "short", 5, 1, 0, false },
	{ 0x53494749, "\x0b\0\0\0\0\0", 6, 1, 0, false },
	{ 0x46494c45, "\1\0\0\0\0\0\0", 7, 1, 0, false },
	{ 0x46494c45, "\1\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0", 16, 1, 0, true },         /* one entry, and no entry */
	{ 0x46494c45, "\xff\xff\xff\xff\xff\xff\xff\xff\1\0\0\0\0\0\0\0", 16, 1, 0, true },
	{ 0x46494c45, "\xab\xaa\xaa\xaa\xaa\xaa\xaa\x0a\1\0\0\0\0\0\0\0", 16, 1, 0, true }, /* times 24 is 8 in 64 bits */
	{ 0x46494c45, "\1\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0" "\0\0\1\0\0\0\0\0" "\0\0\2\0\0\0\0\0" "\0\0\0\0\0\0\0\0" "/no/end", 47, 1, 0, true },
	{ 0x46494c45, "\1\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0" "\0\0\1\0\0\0\0\0" "\0\0\2\0\0\0\0\0" "\0\0\0\0\0\0\0\0" "/x\0", 43, 1, 1, true },
	{ 0x46494c45, "\1\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0" "\0\0\2\0\0\0\0\0" "\0\0\1\0\0\0\0\0" "\0\0\0\0\0\0\0\0" "/x\0", 43, 1, 0, true },
	{ 0x46494c45, "\1\0\0\0\0\0\0\0\0\0\1\0\0\0\0\0" "\0\0\1\0\0\0\0\0" "\0\0\2\0\0\0\0\0" "\0\0\0\0\0\0\xff\xff" "/x\0", 43, 1, 0, true },
};

START_TEST(notes_that_cannot_be_right)
{
	struct build_elf *b = build_elf_new("x86_64");
	build_elf_thread(b, 5, 0x1234, 0);
	build_elf_note(b, "CORE", bad_notes[_i].type, bad_notes[_i].desc, bad_notes[_i].len);
	build_elf_load(b, 0x10000, "data", 4, 3);
	struct image *img = build_elf_open(b);
	const struct thread *t;
	const struct mapping *m;
	ck_assert_uint_eq(image_threads(img, &t), bad_notes[_i].threads);
	ck_assert_uint_eq(t[0].regs.pc, 0x1234);
	if (bad_notes[_i].threads == 2)
		ck_assert(t[1].regs.pc == 0 && t[1].regs.known == 0 && t[1].regs.syscall.nr == -1 && !t[1].regs.syscall.known);
	ck_assert_uint_eq(image_mappings(img, &m), bad_notes[_i].maps);
	ck_assert_int_eq(image_facts(img)->has_file_note, bad_notes[_i].file_note);
	ck_assert(!image_facts(img)->has_prpsinfo && !image_facts(img)->siginfo.known);
	image_close(img);
	build_elf_free(b);
}
END_TEST

START_TEST(only_the_first_of_each_counts)
{
	struct build_elf *b = build("x86_64");
	build_elf_note(b, "CORE", 6, "AUXV-AUXV-AUXV--", 16);
	build_elf_note(b, "OTHER", 2, "not an FPREGSET of ours", 10);
	build_elf_note(b, "COREX", 1, "not a thread", 12);
	struct image *img = build_elf_open(b);
	check_build(img, "x86_64");
	image_close(img);
	build_elf_free(b);
}
END_TEST

START_TEST(a_machine_without_a_row_still_gives_its_memory)
{
	struct build_elf *b = build("x86_64");
	struct blob file = build_elf_finish(b);
	CLEANUP(cleanup_free) uint8_t *copy = xmalloc(file.len);
	memcpy(copy, file.p, file.len);
	copy[18] = 243; /* EM_RISCV */
	struct image *img;
	ck_assert_int_eq(image_open_bytes(bytes_from_memory(copy, file.len, "riscv"), &img, NULL), 0);
	ck_assert(!abi_known(image_abi(img)));
	const struct thread *t;
	const struct mapping *m;
	char buf[4];
	ck_assert_uint_eq(image_threads(img, &t), 3);
	ck_assert(t[0].tid == 0 && t[0].regs.pc == 0 && t[0].prstatus.len == 336);
	ck_assert_uint_eq(image_mappings(img, &m), 3);
	ck_assert_int_eq(image_read(img, 0x600000, buf, 4), 0);
	image_close(img);
	build_elf_free(b);
}
END_TEST

/* --- hostile headers --- */

struct patch {
	size_t at, width; /* at: in the ELF header, or with PH(i) in program header i (0: notes, 1: first load) */
	uint64_t v;
};
#define PH(i) (64 + 56 * (i))
enum { P_OFFSET = 8, P_VADDR = 16, P_FILESZ = 32, P_MEMSZ = 40, P_ALIGN = 48 };
enum { LOADS = 3 }; /* of 0x1000 bytes at 0x10000, 0x20000, 0x30000, filled with a, b, c */
static const struct { struct patch patch[3]; int rc; const char *says; const char *seen; bool truncated; } hostile[] = {
	{ { { 0 } }, 0, NULL, "a.b.c.", false },
	/* overlapping: the later one counts */
	{ { { PH(2) + P_VADDR, 8, 0x10800 } }, 0, NULL, "ab..c.", false },
	{ { { PH(1) + P_VADDR, 8, 0x20000 } }, 0, NULL, "..b.c.", false },
	/* wraps around */
	{ { { PH(1) + P_VADDR, 8, UINT64_MAX - 0xfff } }, 0, NULL, "..b.c.", false },
	{ { { PH(1) + P_VADDR, 8, UINT64_MAX } }, 0, NULL, "..b.c.", false },
	{ { { PH(1) + P_OFFSET, 8, UINT64_MAX - 0x10 } }, 0, NULL, "..b.c.", true },
	{ { { PH(1) + P_OFFSET, 8, UINT64_MAX }, { PH(1) + P_FILESZ, 8, UINT64_MAX } }, 0, NULL, "..b.c.", true },
	{ { { PH(1) + P_FILESZ, 8, UINT64_MAX } }, 0, NULL, "abb.c.", true }, /* what there is of it: the file to its end */
	{ { { PH(1) + P_MEMSZ, 8, UINT64_MAX } }, 0, NULL, "a.b.c.", false },
	{ { { PH(1) + P_MEMSZ, 8, 0 } }, 0, NULL, "a.b.c.", false },
	{ { { PH(1) + P_FILESZ, 8, 0 } }, 0, NULL, "..b.c.", false },
	/* notes that are not there */
	{ { { PH(0) + P_OFFSET, 8, 0x7fffffffffffffff } }, 0, NULL, "a.b.c.", true },
	{ { { PH(0) + P_FILESZ, 8, UINT64_MAX } }, 0, NULL, "a.b.c.", true },
	{ { { PH(0) + P_FILESZ, 8, 3 } }, 0, NULL, "a.b.c.", false },
	{ { { PH(0) + P_ALIGN, 8, 3 } }, 0, NULL, "a.b.c.", false },
	/* the table of program headers */
	{ { { 54, 2, 55 } }, ERR_CORRUPT, "h.core: the size of a program header is 55, not 56", NULL, false },
	{ { { 54, 2, 0 } }, ERR_CORRUPT, "h.core: the size of a program header is 0, not 56", NULL, false },
	{ { { 54, 2, 0xffff } }, ERR_CORRUPT, "h.core is cut off in its headers: ", NULL, false },
	{ { { 56, 2, 0 } }, ERR_CORRUPT, "h.core is a core without threads and memory", NULL, false },
	{ { { 56, 2, 2 } }, 0, NULL, "a.....", false },
	{ { { 56, 2, 0xfffe } }, 0, NULL, NULL, true },
	{ { { 56, 2, 0xffff } }, 0, NULL, NULL, true },  /* PN_XNUM without a section header */
	{ { { 56, 2, 0xffff }, { 40, 8, UINT64_MAX - 3 }, { 58, 2, 64 } }, 0, NULL, NULL, true },
	{ { { 32, 8, UINT64_MAX } }, ERR_CORRUPT, "h.core is cut off in its headers: ", NULL, false },
	{ { { 32, 8, 0 } }, ERR_CORRUPT, "h.core is a core without threads and memory", NULL, false },
	{ { { 4, 1, 3 } }, ERR_CORRUPT, "h.core: the ELF class is 3, not 2", NULL, false },
	{ { { 5, 1, 0 } }, ERR_CORRUPT, "h.core: the byte order is 0, not 1", NULL, false },
	/* ELF, but no core: ux.md */
	{ { { 16, 2, 2 } }, ERR_UNSUPPORTED, "h.core is an ELF program, not a core", NULL, false },
	{ { { 16, 2, 3 } }, ERR_UNSUPPORTED, "h.core is an ELF program, not a core", NULL, false },
	{ { { 16, 2, 1 } }, ERR_UNSUPPORTED, "h.core is an ELF object file, not a core", NULL, false },
};

START_TEST(hostile_headers)
{
	struct build_elf *b = build_elf_new("x86_64");
	build_elf_thread(b, 1, 0, 0);
	for (unsigned i = 0; i < LOADS; i++)
		memset(build_elf_memory(b, 0x10000 + 0x10000 * i, 0x1000, 3), (int)('a' + i), 0x1000);
	struct blob file = build_elf_finish(b);
	CLEANUP(cleanup_free) uint8_t *copy = xmalloc(file.len);
	memcpy(copy, file.p, file.len);
	for (size_t i = 0; i < COUNT(hostile[_i].patch); i++)
		for (size_t k = 0; k < hostile[_i].patch[i].width; k++)
			copy[hostile[_i].patch[i].at + k] = (uint8_t)(hostile[_i].patch[i].v >> 8 * k);
	struct image *img = NULL;
	struct err err = { 0 };
	int rc = image_open_bytes(bytes_from_memory(copy, file.len, "h.core"), &img, &err);
	ck_assert_msg(rc == hostile[_i].rc, "%d %s", rc, err.msg);
	if (rc < 0) {
		ck_assert_msg(strncmp(err.msg, hostile[_i].says, strlen(hostile[_i].says)) == 0, "%s", err.msg);
		ck_assert_str_ne(err.hint, "");
		ck_assert_ptr_null(img);
	} else {
		ck_assert_int_eq(image_facts(img)->truncated, hostile[_i].truncated);
		char seen[7] = "......"; /* at each load's start and 0x1000 later */
		for (size_t i = 0; i < 6; i++)
			(void)!image_read(img, 0x10000 * (1 + i / 2) + 0x1000 * (i % 2), &seen[i], 1);
		if (hostile[_i].seen)
			ck_assert_str_eq(seen, hostile[_i].seen);
		image_close(img);
	}
	build_elf_free(b);
}
END_TEST

/* --- damage within --- */

struct damaged {
	struct bytes b;
	const uint8_t *p;
	uint64_t bad, bad_end;
};

static int damaged_read(struct bytes *b, uint64_t off, void *buf, size_t len)
{
	const struct damaged *d = (const struct damaged *)b;
	if (off < d->bad_end && off + len > d->bad)
		return ERR_CORRUPT;
	memcpy(buf, d->p + off, len);
	return 0;
}

static void damaged_close(struct bytes *b)
{
	(void)b;
}

/* A disk that fails beneath what is read first. */
START_TEST(unreadable)
{
	static const struct { uint64_t bad, end; int rc; const char *says; } at[] = {
		{ 0, 4, ERR_IO, "cannot read d.core" }, { 20, 24, ERR_IO, "cannot read d.core" }, { 64, 65, ERR_IO, "cannot read the program headers of d.core" },
	};
	struct build_elf *b = build("x86_64");
	struct blob file = build_elf_finish(b);
	struct damaged d = { { .size = file.len, .read = damaged_read, .close = damaged_close, .name = "d.core" }, file.p, at[_i].bad, at[_i].end };
	struct image *img = NULL;
	struct err err = { 0 };
	ck_assert_int_eq(image_open_bytes(&d.b, &img, &err), at[_i].rc);
	ck_assert_str_eq(err.msg, at[_i].says);
	ck_assert_str_eq(err.hint, "copy it to another disk; \"dmesg\" says when one fails");
	build_elf_free(b);
}
END_TEST

/* A file of an ELF header, one program header, and the same piece again and again: what a few bytes of a snapshot can unpack to. */
struct again {
	struct bytes b;
	uint8_t head[64 + 56], piece[56];
	size_t len;
};

static int again_read(struct bytes *b, uint64_t off, void *buf, size_t len)
{
	const struct again *a = (const struct again *)b;
	uint8_t *to = buf;
	for (; len && off < sizeof a->head; off++, len--)
		*to++ = a->head[off];
	for (; len; off++, len--)
		*to++ = a->piece[(off - sizeof a->head) % a->len];
	return 0;
}

static void again_close(struct bytes *b)
{
}

/* As many program headers, or as many notes of threads, one by one of no use. */
static struct again again_new(bool notes, uint64_t n)
{
	struct again a = { .len = notes ? 20 : 56 };
	struct build_elf *e = build("x86_64");
	struct blob file = build_elf_finish(e);
	memcpy(a.head, file.p, sizeof a.head);
	build_elf_put(e, a.head + 32, 8, 64);
	build_elf_put(e, a.head + 56, 2, notes ? 1 : 0xffff);
	build_elf_put(e, a.head + PH(0) + P_OFFSET, 8, notes ? sizeof a.head : PH(n + 1));
	build_elf_put(e, a.head + PH(0) + P_FILESZ, 8, notes ? n * a.len : 20);
	memcpy(a.piece, notes ? "\5\0\0\0\0\0\0\0\1\0\0\0CORE\0\0\0\0" : "\1\0\0\0\4\0\0\0", notes ? 20 : 8);
	if (!notes)
		build_elf_put(e, a.piece + P_FILESZ, 8, 4096);
	a.b = (struct bytes){ .size = sizeof a.head + n * a.len, .read = again_read, .close = again_close, .name = "again.core" };
	build_elf_free(e);
	return a;
}

START_TEST(more_than_a_process_can_have)
{
	struct image *img;
	struct err err = { 0 };
	const struct thread *t;
	struct again loads = again_new(false, 5000000), notes = again_new(true, 3000000);
	ck_assert_int_eq(image_open_bytes(&loads.b, &img, &err), ERR_UNSUPPORTED);
	ck_assert_str_eq(err.msg, "again.core has 5000001 program headers, up to 4194304 are read");
	ck_assert_int_eq(image_open_bytes(&notes.b, &img, &err), 0);
	ck_assert_uint_eq(image_threads(img, &t), 1 << 20);
	image_close(img);
}
END_TEST

START_TEST(notes_before_the_damage_are_read)
{
	enum { THREADS = 100 };
	struct build_elf *b = build_elf_new("x86_64");
	for (int i = 0; i < THREADS; i++)
		build_elf_thread(b, 1000 + i, 0, 0);
	build_elf_load(b, 0x10000, "data", 4, 3);
	struct blob file = build_elf_finish(b);
	struct damaged d = { { file.len, damaged_read, NULL, damaged_close, "damaged" }, file.p, 20000, 20001 };
	struct image *img;
	ck_assert_int_eq(image_open_bytes(&d.b, &img, NULL), 0);
	const struct thread *t;
	size_t n = image_threads(img, &t);
	ck_assert_uint_ge(n, 20000 / (336 + 20) - 4096 / (336 + 20) - 1);
	ck_assert_uint_lt(n, 20000 / (336 + 20) + 1);
	ck_assert_int_eq(t[n - 1].tid, 1000 + (int)n - 1);
	char buf[4];
	ck_assert_int_eq(image_read(img, 0x10000, buf, 4), 0);
	image_close(img);
	build_elf_free(b);
}
END_TEST

/* --- large --- */

START_TEST(a_sparse_core_costs_what_it_holds)
{
	enum { GIB = 69 };
	struct build_elf *b = build_elf_new("x86_64");
	build_elf_thread(b, 1, 0, 0);
	build_elf_data_align(b, 4096);
	build_elf_load(b, 0x100000000, "front", 5, 3);
	struct blob file = build_elf_finish(b);
	CLEANUP(cleanup_free) uint8_t *copy = xmalloc(file.len);
	memcpy(copy, file.p, file.len);
	uint64_t size = (uint64_t)GIB << 30;
	build_elf_put(b, copy + PH(1) + P_FILESZ, 8, size);
	build_elf_put(b, copy + PH(1) + P_MEMSZ, 8, size);
	char path[] = "/tmp/test_elf_core.XXXXXX";
	int fd = mkstemp(path);
	ck_assert_int_ge(fd, 0);
	unlink(path);
	uint64_t data = build_elf_data(b);
	ck_assert_int_eq(write(fd, copy, file.len), (ssize_t)file.len);
	if (ftruncate(fd, (off_t)(data + size)) < 0 || pwrite(fd, "end", 3, (off_t)(data + size - 3)) != 3) {
		close(fd); /* this file system has no sparse files of that size */
		build_elf_free(b);
		return;
	}
	struct bytes *bytes;
	struct image *img;
	clock_t start = clock();
	ck_assert_int_eq(bytes_from_fd(fd, "sparse", &bytes, NULL), 0);
	ck_assert_int_eq(image_open_bytes(bytes, &img, NULL), 0);
	char buf[8] = "";
	ck_assert_int_eq(image_read(img, 0x100000000 + size - 3, buf, 3), 0);
	ck_assert_str_eq(buf, "end");
	ck_assert_int_eq(image_read(img, 0x100000000, buf, 5), 0);
	ck_assert_str_eq(buf, "front");
	uint64_t seen = 0, steps = 0; /* a search through all of it steps over the holes */
	for (addr_t at = 0x100000000; at < 0x100000000 + size && steps < 1000; steps++) {
		uint64_t skip = image_skip(img, at);
		seen += skip ? 0 : 4096;
		at += skip ? skip : 4096;
	}
	ck_assert_uint_lt(steps, 1000);
	ck_assert_uint_lt(seen, 1 << 20);
	ck_assert_int_lt((clock() - start) / (CLOCKS_PER_SEC / 1000), 100);
	ck_assert(!image_facts(img)->truncated);
	image_close(img);
	build_elf_free(b);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("elf_core");
	TCase *t = tcase_create("elf_core");
	tcase_set_timeout(t, 60);
	tcase_add_loop_test(t, every_machine, 0, COUNT(machines));
	tcase_add_loop_test(t, odd_but_right, 0, COUNT(machines) * COUNT(odds));
	tcase_add_loop_test(t, seventy_thousand_loads, 0, 2);
	tcase_add_loop_test(t, cut_at_every_byte, 0, COUNT(machines));
	tcase_add_test(t, what_is_lost_is_listed);
	tcase_add_loop_test(t, signals_are_decoded, 0, COUNT(signals));
	tcase_add_loop_test(t, names_are_text, 0, COUNT(names));
	tcase_add_loop_test(t, notes_that_cannot_be_right, 0, COUNT(bad_notes));
	tcase_add_test(t, only_the_first_of_each_counts);
	tcase_add_test(t, a_machine_without_a_row_still_gives_its_memory);
	tcase_add_loop_test(t, unreadable, 0, 3);
	tcase_add_loop_test(t, hostile_headers, 0, COUNT(hostile));
	tcase_add_test(t, more_than_a_process_can_have);
	tcase_add_test(t, notes_before_the_damage_are_read);
	tcase_add_test(t, a_sparse_core_costs_what_it_holds);
	suite_add_tcase(s, t);
	return suite_run(s);
}
