/*
 * The whole .pz: written, opened as an image, taken apart by other tools; output that fails, files that are newer, cut
 * or damaged.  With file names as arguments: only what tools/pz_check says of them.
 */
#include "build_pz.h"
#include "suite.h"
#include "image/member.h"

#include <check.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <gelf.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zlib.h>

static const struct abi x86_64 = { EM_X86_64, 8, false };

/* ---- building ---- */

static void put(uint8_t *p, size_t width, uint64_t v, bool big)
{
	for (size_t i = 0; i < width; i++)
		p[big ? width - 1 - i : i] = (uint8_t)(v >> 8 * i);
}

static struct blob prstatus(const struct abi *abi, pid_t tid)
{
	struct abi_notes n;
	ck_assert_int_eq(abi_notes(abi, &n), 0);
	uint8_t *p = xcalloc(1, n.prstatus_size);
	put(p + n.pr_pid, 4, (uint64_t)tid, abi->big_endian);
	memset(p + n.pr_reg, 0xff, n.pr_reg_size); /* orig_rax -1: not in a system call */
	return (struct blob){ p, n.prstatus_size };
}

#define BLOB(s) { (const uint8_t *)(s), sizeof(s) - 1 }

static struct image *open_image(struct blob f, struct err *err)
{
	struct image *img;
	return image_open_bytes(bytes_from_memory(f.p, f.len, "snap.pz"), &img, err) < 0 ? NULL : img;
}

static void expect_memory(struct image *img, const struct pz_load *l, enum fill fill)
{
	CLEANUP(cleanup_free) uint8_t *got = xmalloc(l->filesz), *want = xmalloc(l->filesz); /* frees both */
	fill_at(fill, l->start, want, l->filesz);
	ck_assert_int_eq(image_read(img, l->start, got, l->filesz), 0);
	ck_assert_int_eq(memcmp(got, want, l->filesz), 0);
	uint8_t byte;
	if (l->memsz > l->filesz)
		ck_assert_int_eq(image_read(img, l->start + l->filesz, &byte, 1), ERR_FAULT);
}

/* ---- an image ---- */

static const char info[] = "{\"format\":1,\"tool\":\"pysnap 0.1.0\",\"time_ns\":\"1764480000123456789\",\"start_ns\":\"1764470000000000000\","
	"\"stopped_ns\":\"7654321\",\"consistent\":true,\"pid\":100,\"boot_id\":\"5\",\"ns_pid\":7,\"parent\":{\"pid\":99,\"comm\":\"master\",\"same_exec\":true},\"exe\":\"/usr/bin/python3.12\",\"cwd\":\"/srv/caf\u00e9\","
	"\"cmdline\":\"python3 app.py\",\"hint_runtime\":\"0x7f10c8a0\",\"later\":{\"deep\":[1,2,{}]},\"threads\":["
	"{\"tid\":101,\"name\":\"worker-1\",\"state\":\"S\",\"wchan\":\"futex_wait_queue\"},"
	"{\"tid\":100,\"name\":\"python3\",\"state\":\"R\",\"wchan\":\"0\",\"syscall\":{\"nr\":202,\"args\":[\"0x10\",\"0x80\"]}},"
	"{\"tid\":999,\"name\":\"nobody\"},{\"name\":\"no tid\"},7],\"modules\":["
	"{\"path\":\"/b\",\"start\":\"0x700000\",\"end\":\"0x710000\",\"build_id\":\"zz\"},5,{\"start\":\"0x1\"},{\"start\":\"0x9\",\"end\":\"0x9\"},"
	"{\"path\":\"/a\",\"start\":\"0x400000\",\"end\":\"0x402000\",\"build_id\":\"0a1B\"}]}";

static void put_lost(uint8_t p[24], addr_t start, addr_t end, int number, enum pz_why why)
{
	put(p, 8, start, false);
	put(p + 8, 8, end, false);
	put(p + 16, 4, (uint64_t)number, false);
	put(p + 20, 4, why, false);
}

START_TEST(opens_as_an_image)
{
	uint8_t lost[24 * 4 + 5] = { 0 };
	put_lost(lost, 0x900000, 0x901000, EFAULT, PZ_WHY_UNREADABLE);
	put_lost(lost + 24, 0x500000, 0x502000, 0, PZ_WHY_DONTDUMP);
	put_lost(lost + 48, 0x800000, 0x801000, EIO, PZ_WHY_VANISHED);
	put_lost(lost + 72, 0xa00000, 0xa01000, 0, (enum pz_why)77);
	struct blob first = prstatus(&x86_64, 100), second = prstatus(&x86_64, 101);
	struct pz_note notes[] = {
		{ "CORE", NT_PRSTATUS, first }, { "CORE", NT_PRSTATUS, second }, { "PYSNAP", 9, BLOB("later kinds are ignored") },
		{ "PYSNAP", PZ_NOTE_INFO, BLOB(info) }, { "PYSNAP", PZ_NOTE_LOST, { lost, sizeof lost } },
	};
	struct pz_load loads[] = {
		{ 0x400000, 8192, 8192, 5 }, { 0x500000, 0, 0x2000, 3 }, { 0x600000, 100, 4096, 1 }, { 0x700000, 300000, 400000, 3 },
	};
	struct build_pz spec = {
		.plan = { .abi = x86_64, .notes = notes, .n_notes = 5, .loads = loads, .n_loads = 4, .level = 1 }, .fill = FILL_TEXT,
	};
	struct blob f = build_pz(&spec);
	struct err err;
	struct image *img = open_image(f, &err);
	ck_assert_msg(img != NULL, "%s", err.msg);
	const struct image_facts *facts = image_facts(img);
	ck_assert_int_eq(facts->kind, IMAGE_SNAPSHOT);
	ck_assert_uint_eq(facts->file_size, f.len);
	ck_assert_uint_eq(facts->size, facts->expected);
	ck_assert(!facts->truncated);
	ck_assert(str_is(facts->tool, "pysnap 0.1.0"));
	ck_assert_int_eq(facts->time_ns, 1764480000123456789);
	ck_assert_int_eq(facts->start_ns, 1764470000000000000);
	ck_assert(facts->ns_pid == 7 && facts->parent.pid == 99 && str_is(facts->parent.comm, "master") && facts->parent.same_exec);
	ck_assert_int_eq(facts->stopped_ns, 7654321);
	ck_assert(facts->consistent);
	ck_assert_int_eq(facts->pid, 100);
	ck_assert(str_is(facts->exe, "/usr/bin/python3.12") && str_is(facts->cwd, "/srv/caf\u00e9") && str_is(facts->cmdline, "python3 app.py"));
	ck_assert_uint_eq(facts->hint_runtime, 0x7f10c8a0);
	ck_assert_uint_eq(facts->n_lost, 2);
	ck_assert_uint_eq(facts->lost[0].start, 0x800000);
	ck_assert_uint_eq(facts->lost[1].end, 0x901000);

	ck_assert_uint_eq(facts->n_noted, 2);
	const struct noted_file *noted = image_noted_at(img, 0x401fff);
	ck_assert(noted == &facts->noted[0] && noted->build_id.len == 2 && noted->build_id.p[0] == 0x0a && noted->build_id.p[1] == 0x1b);
	ck_assert_ptr_null(image_noted_at(img, 0x3fffff));
	ck_assert_ptr_null(image_noted_at(img, 0x402000));
	ck_assert_uint_eq(image_noted_at(img, 0x700000)->build_id.len, 0);

	const struct thread *t;
	ck_assert_uint_eq(image_threads(img, &t), 2);
	ck_assert(str_is(t[0].name, "python3") && t[0].state == 'R' && !t[0].wchan.s);
	ck_assert(str_is(t[1].name, "worker-1") && t[1].state == 'S' && str_is(t[1].wchan, "futex_wait_queue"));
	ck_assert(t[0].regs.syscall.known && t[0].regs.syscall.nr == -1); /* the registers know better than the note */

	for (size_t i = 0; i < 4; i++)
		expect_memory(img, &loads[i], FILL_TEXT);
	ck_assert_uint_eq(image_segment_at(img, 0x400000)->prot, 5);
	ck_assert_uint_eq(image_segment_at(img, 0x700000)->prot, 3);
	image_close(img);
	free((void *)f.p);
	free((void *)first.p);
	free((void *)second.p);
}
END_TEST

/* ---- an information note that is not as it should be ---- */

static const struct { const char *json, *error; } odd_info[] = {
	{ "", NULL }, { "no json", NULL }, { "[1]", NULL }, { "{\"format\":", NULL }, { "{\"tool\":\"a\\u0000b\"}", NULL }, { "\xff\xfe", NULL },
	{ "{}", NULL },
	{ "{\"format\":\"1\",\"ns_pid\":-4,\"parent\":{\"pid\":\"x\",\"comm\":\"a\",\"same_exec\":true},\"tool\":7,\"time_ns\":true,\"stopped_ns\":\"-5\",\"start_ns\":\"12a\",\"pid\":\"x\",\"consistent\":\"yes\","
	  "\"exe\":null,\"cwd\":[],\"cmdline\":{},\"hint_runtime\":12,\"threads\":{\"tid\":1},\"modules\":{\"start\":\"0x1\"}}", NULL },
	{ "{\"time_ns\":\"99999999999999999999\",\"hint_runtime\":\"0x\",\"threads\":[[],null,{\"tid\":-1},{\"tid\":4294967396,\"name\":\"not 100\"},"
	  "{\"tid\":100,\"name\":5,\"state\":\"RR\",\"wchan\":\"\",\"syscall\":[]}]}", NULL },
	{ "{\"hint_runtime\":\"0x12345678123456789\"}", NULL }, { "{\"hint_runtime\":\"12345\"}", NULL },
	{ "{\"format\":2}", "snap.pz was written by a later pysnap (format 2); this one reads up to format 1|upgrade pyanalyze" },
	{ "{\"tool\":\"pysnap 2.1\",\"format\":3}",
	  "snap.pz was written by pysnap 2.1 (format 3); this one reads up to format 1|upgrade pyanalyze to 2.1 or later" },
	{ "{\"format\":99999999999,\"tool\":\"0123456789012345678901234567890123456789012345678901234567890123456789\"}",
	  "snap.pz was written by a later pysnap (format 99999999999); this one reads up to format 1|upgrade pyanalyze" },
};

START_TEST(odd_information)
{
	struct blob status = prstatus(&x86_64, 100);
	struct pz_note notes[] = {
		{ "CORE", NT_PRSTATUS, status },
		{ "PYSNAP", PZ_NOTE_INFO, { (const uint8_t *)odd_info[_i].json, strlen(odd_info[_i].json) } },
	};
	struct pz_load load = { 0x400000, 5000, 8192, 1 };
	struct build_pz spec = { .plan = { .abi = x86_64, .notes = notes, .n_notes = 2, .loads = &load, .n_loads = 1, .level = 1 }, .fill = FILL_TEXT };
	struct blob f = build_pz(&spec);
	struct err err;
	struct image *img = open_image(f, &err);
	if (odd_info[_i].error) {
		char text[sizeof err.msg + sizeof err.hint + 1];
		ck_assert_ptr_null(img);
		ck_assert_int_eq(err.code, ERR_UNSUPPORTED);
		snprintf(text, sizeof text, "%s|%s", err.msg, err.hint);
		ck_assert_str_eq(text, odd_info[_i].error);
	} else {
		ck_assert_msg(img != NULL, "%s", err.msg);
		const struct image_facts *facts = image_facts(img);
		ck_assert(facts->kind == IMAGE_SNAPSHOT && !facts->tool.s && !facts->exe.s && !facts->cwd.s && !facts->cmdline.s);
		ck_assert(!facts->ns_pid && !facts->parent.pid && !facts->parent.comm.s && !facts->parent.same_exec);
		ck_assert(!facts->time_ns && !facts->start_ns && facts->stopped_ns == -1 && facts->pid == -1);
		ck_assert(!facts->consistent && !facts->hint_runtime && !facts->n_lost && !facts->n_noted);
		const struct thread *t;
		ck_assert_uint_eq(image_threads(img, &t), 1);
		ck_assert(!t->name.s && !t->state && !t->wchan.s);
		expect_memory(img, &load, FILL_TEXT);
		image_close(img);
	}
	free((void *)f.p);
	free((void *)status.p);
}
END_TEST

/* What follows memory: said by the note, in no segment, and only as far as it is there, in a .pz and when it was unpacked. */
static const struct { const char *place; uint64_t at, size; bool cut; } places[] = {
	{ "{\"at\":\"0\",\"size\":\"30000\"}", 0, 30000 }, { "{\"at\":\"29992\",\"size\":8}", 29992, 8 }, { "{\"at\":\"0\",\"size\":\"0\"}", 0, 0 },
	{ "{\"at\":\"1\",\"size\":\"32768\"}", 0, 0, true }, { "{\"at\":\"-8\",\"size\":\"8\"}", 0, 0 }, { "{\"at\":\"9223372036854775807\",\"size\":\"9223372036854775807\"}", 0, 0, true },
	{ "{\"size\":\"8\"}", 0, 0 }, { "7", 0, 0 }, { "[0,8]", 0, 0 },
};

START_TEST(tail)
{
	char json[512];
	snprintf(json, sizeof json, "{\"modules\":[{\"start\":\"0x400000\",\"end\":\"0x402000\",\"symbols\":%s}]}", places[_i].place);
	struct pz_note note = { "PYSNAP", PZ_NOTE_INFO, { (const uint8_t *)json, strlen(json) } };
	struct pz_load loads[] = { { 0x400000, 5000, 8192, 1 }, { 0x500000, 0, 8192, 1 } };
	uint8_t *bytes = xmalloc(30000), *got = xmalloc(30000);
	fill_at(FILL_TEXT, 7, bytes, 30000);
	struct build_pz spec = { .plan = { .notes = &note, .n_notes = 1, .loads = loads, .n_loads = 2, .level = 1 }, .fill = FILL_TEXT, .tail = { bytes, 30000 } };
	struct blob f = build_pz(&spec), all = gunzip(f, false);
	uint64_t core_size = 0;
	for (int unpacked = 0; unpacked < 3; unpacked++) { /* 2: without what follows the core in a .pz */
		struct image *img = open_image(unpacked == 2 ? (struct blob){ all.p, (size_t)core_size } : unpacked ? all : f, NULL);
		ck_assert_ptr_nonnull(img);
		const struct image_facts *facts = image_facts(img);
		if (!unpacked)
			core_size = facts->size;
		ck_assert(facts->kind == IMAGE_SNAPSHOT && core_size % PZ_PAGE == 0 && core_size <= all.len && facts->tail.size == 32768 + (unpacked == 1 ? all.len - core_size : 0));
		const struct segment *s;
		ck_assert_uint_eq(image_segments(img, &s), 1);
		const struct noted_file *noted = image_noted_at(img, 0x400000);
		ck_assert_ptr_nonnull(noted);
		const bool past = places[_i].cut && (unpacked != 1 || _i != 3); /* by a byte: an index has more */
		ck_assert_int_eq(noted->symbols_cut, past);
		ck_assert_int_eq(facts->truncated, past && unpacked);
		ck_assert_uint_eq(facts->expected, facts->truncated && _i == 3 ? facts->size + PZ_PAGE : facts->size); /* the other one is further than any */
		if (places[_i].cut && !past)
			goto next;
		ck_assert_uint_eq(noted->symbols, places[_i].at);
		ck_assert_uint_eq(noted->symbols_size, places[_i].size);
		if (noted->symbols_size) {
			ck_assert_int_eq(facts->tail.read(facts->tail.ctx, noted->symbols, got, noted->symbols_size), 0);
			ck_assert_int_eq(memcmp(got, bytes + noted->symbols, noted->symbols_size), 0);
		}
		expect_memory(img, &loads[0], FILL_TEXT);
	next:
		image_close(img);
	}
	free(bytes);
	free(got);
	free((void *)f.p);
	free((void *)all.p);
}
END_TEST

/* A snapshot that was cut within its memory: what should follow that belongs to it. */
START_TEST(cut_before_the_tail)
{
	static const char json[] = "{\"modules\":[{\"start\":\"0x400000\",\"end\":\"0x402000\",\"symbols\":{\"at\":\"8\",\"size\":\"29992\"}}]}";
	struct pz_note note = { "PYSNAP", PZ_NOTE_INFO, { (const uint8_t *)json, sizeof json - 1 } };
	struct pz_load load = { 0x400000, 400000, 409600, 1 };
	uint8_t *bytes = xmalloc(30000);
	fill_at(FILL_TEXT, 7, bytes, 30000);
	struct build_pz spec = { .plan = { .notes = &note, .n_notes = 1, .loads = &load, .n_loads = 1, .level = 1 }, .fill = FILL_TEXT, .tail = { bytes, 30000 } };
	struct blob f = build_pz(&spec);
	struct image *img = open_image(f, NULL), *cut = open_image((struct blob){ f.p, f.len / 2 }, NULL);
	ck_assert(img && cut && image_facts(cut)->truncated && image_facts(cut)->size < image_facts(cut)->described);
	ck_assert_uint_eq(image_facts(cut)->expected, image_facts(img)->size);
	ck_assert_uint_eq(image_facts(img)->expected, image_facts(img)->size);
	image_close(img);
	image_close(cut);
	free(bytes);
	free((void *)f.p);
}
END_TEST

/* One piece of the tail for all: of what they come to no more is taken than any snapshot has. */
START_TEST(tables_for_ever)
{
	enum { SIZE = 60000, MODULES = 6000, FIT = PZ_SYMBOLS_MAX / SIZE };
	struct sb json = { 0 };
	sb_printf(&json, "{\"modules\":[");
	for (unsigned i = 0; i < MODULES; i++)
		sb_printf(&json, "%s{\"start\":\"0x%x\",\"end\":\"0x%x\",\"symbols\":{\"at\":0,\"size\":%d}}", i ? "," : "", 0x400000 + i * 4096, 0x401000 + i * 4096, SIZE);
	sb_printf(&json, "]}");
	struct pz_note note = { "PYSNAP", PZ_NOTE_INFO, { (const uint8_t *)json.s, json.len } };
	struct pz_load load = { 0x400000, 5000, 8192, 1 };
	uint8_t *bytes = xcalloc(SIZE, 1);
	struct build_pz spec = { .plan = { .notes = &note, .n_notes = 1, .loads = &load, .n_loads = 1, .level = 1 }, .tail = { bytes, SIZE } };
	struct blob f = build_pz(&spec);
	struct image *img = open_image(f, NULL);
	ck_assert_ptr_nonnull(img);
	const struct image_facts *facts = image_facts(img);
	ck_assert_uint_eq(facts->n_noted, MODULES);
	for (unsigned i = 0; i < MODULES; i++)
		ck_assert_uint_eq(facts->noted[i].symbols_size, i < FIT ? SIZE : 0);
	image_close(img);
	free(bytes);
	free((void *)f.p);
	sb_free(&json);
}
END_TEST

START_TEST(information_too_long)
{
	size_t len = PZ_INFO_MAX + 1 - (size_t)_i; /* 0: one byte too long, 1: just fits */
	char *json = xmalloc(len);
	memset(json, ' ', len);
	memcpy(json, "{\"tool\":\"x\"}", 12);
	struct pz_note note = { "PYSNAP", PZ_NOTE_INFO, { (uint8_t *)json, len } };
	struct pz_load load = { 0x400000, 5000, 8192, 1 };
	struct build_pz spec = { .plan = { .notes = &note, .n_notes = 1, .loads = &load, .n_loads = 1, .level = 1 } };
	struct blob f = build_pz(&spec);
	struct image *img = open_image(f, NULL);
	ck_assert_ptr_nonnull(img);
	ck_assert_int_eq(image_facts(img)->tool.s != NULL, _i);
	image_close(img);
	free(json);
	free((void *)f.p);
}
END_TEST

/* A later format may have moved the notes: then the locator's word is all there is. */
START_TEST(later_locator)
{
	struct pz_load load = { 0x400000, 5000, 8192, 1 };
	struct build_pz spec = { .plan = { .loads = &load, .n_loads = 1, .level = 0 } };
	struct blob f = build_pz(&spec);
	uint8_t *p = (uint8_t *)f.p, *loc = p + f.len - BGZF_END - PZ_LOCATOR_MEMBER + BGZF_HEAD + 5;
	put(loc + 8, 4, 3, false);
	put(loc + PZ_LOCATOR, 4, crc32(0, loc, PZ_LOCATOR), false);
	struct err err;
	struct image *img = open_image(f, &err); /* members are still members, and a core is a core */
	ck_assert_ptr_nonnull(img);
	image_close(img);
	/* The first member's stored ELF magic, made something else. */
	p[BGZF_HEAD + 5] = 'X';
	uint8_t *core = p + BGZF_HEAD + 5;
	size_t size = (size_t)(p[16] | p[17] << 8) + 1, len = size - BGZF_HEAD - 5 - BGZF_TAIL;
	put(p + size - BGZF_TAIL, 4, crc32(0, core, (uInt)len), false);
	ck_assert_ptr_null(open_image(f, &err));
	ck_assert_str_eq(err.msg, "snap.pz was written by a later pysnap (format 3); this one reads up to format 1");
	free((void *)f.p);
}
END_TEST

/* ---- what the core looks like to libelf ---- */

struct shape { struct abi abi; size_t loads; };
static const struct shape shapes[] = {
	{ { EM_X86_64, 8, false }, 0 }, { { EM_X86_64, 8, false }, 3 }, { { EM_386, 4, false }, 3 }, { { EM_S390, 8, true }, 3 },
	{ { EM_PPC, 4, true }, 3 }, { { EM_X86_64, 8, false }, 65533 }, { { EM_X86_64, 8, false }, 65534 }, { { EM_X86_64, 8, false }, 70000 },
	{ { EM_PPC, 4, true }, 70000 },
};

START_TEST(elf_shape)
{
	const struct shape *s = &shapes[_i];
	struct pz_load *loads = xcalloc(s->loads, sizeof *loads);
	size_t with_bytes = 0;
	for (size_t i = 0; i < s->loads; i++) {
		uint64_t filesz = i % 50 == 1 ? 5000 : i % 50 == 0 || i + 1 == s->loads ? 16 : 0;
		loads[i] = (struct pz_load){ 0x10000 + i * 0x2000, filesz, 0x2000, (unsigned)i % 8 };
		with_bytes += filesz > 0;
	}
	struct pz_note notes[] = { { "CORE", 0x1234, BLOB("abc") }, { "LONGNAME", 7, { NULL, 0 } }, { "PYSNAP", 1, BLOB("{}") } };
	struct build_pz spec = {
		.plan = { .abi = s->abi, .notes = notes, .n_notes = 3, .loads = loads, .n_loads = s->loads, .level = 1 }, .fill = FILL_TEXT,
	};
	struct blob f = build_pz(&spec), all = gunzip(f, false);
	elf_version(EV_CURRENT);
	Elf *elf = elf_memory((char *)(uintptr_t)all.p, all.len);
	GElf_Ehdr eh;
	size_t phnum, at = 0, found = 0;
	ck_assert_ptr_nonnull(gelf_getehdr(elf, &eh));
	ck_assert_int_eq(eh.e_type, ET_CORE);
	ck_assert_int_eq(eh.e_machine, s->abi.machine);
	ck_assert_int_eq(eh.e_ident[EI_CLASS], s->abi.width == 8 ? ELFCLASS64 : ELFCLASS32);
	ck_assert_int_eq(eh.e_ident[EI_DATA], s->abi.big_endian ? ELFDATA2MSB : ELFDATA2LSB);
	ck_assert_int_eq(eh.e_phnum == PN_XNUM, s->loads + 1 >= PN_XNUM);
	ck_assert_int_eq(eh.e_shoff != 0, s->loads + 1 >= PN_XNUM);
	ck_assert_int_eq(elf_getphdrnum(elf, &phnum), 0);
	ck_assert_uint_eq(phnum, s->loads + 1);
	GElf_Phdr ph;
	ck_assert_ptr_nonnull(gelf_getphdr(elf, 0, &ph));
	ck_assert_int_eq(ph.p_type, PT_NOTE);
	Elf_Data *d = elf_getdata_rawchunk(elf, (int64_t)ph.p_offset, ph.p_filesz, ELF_T_NHDR);
	GElf_Nhdr nh;
	size_t name, desc;
	while (at < d->d_size && (at = gelf_getnote(d, at, &nh, &name, &desc)) > 0) {
		ck_assert_str_eq((char *)d->d_buf + name, notes[found].owner);
		ck_assert_uint_eq(nh.n_type, notes[found].type);
		ck_assert_uint_eq(nh.n_descsz, notes[found].desc.len);
		ck_assert_int_eq(memcmp((char *)d->d_buf + desc, notes[found].desc.len ? notes[found].desc.p : (const uint8_t *)"", nh.n_descsz), 0);
		found++;
	}
	ck_assert_uint_eq(found, 3);
	for (size_t i = 0; i < s->loads; i++) {
		uint8_t want[5000];
		uint32_t flags = (loads[i].prot & 1 ? PF_R : 0u) | (loads[i].prot & 2 ? PF_W : 0u) | (loads[i].prot & 4 ? PF_X : 0u);
		fill_at(FILL_TEXT, loads[i].start, want, loads[i].filesz);
		/* One check, not ten: libcheck writes a record for each that passes. */
		if (!gelf_getphdr(elf, (int)i + 1, &ph) || ph.p_type != PT_LOAD || ph.p_vaddr != loads[i].start || ph.p_filesz != loads[i].filesz ||
		    ph.p_memsz != loads[i].memsz || ph.p_flags != flags || ph.p_offset % PZ_PAGE || ph.p_offset + ph.p_filesz > all.len ||
		    memcmp(all.p + ph.p_offset, want, loads[i].filesz) != 0)
			ck_abort_msg("program header %zu: not as planned", i);
	}
	elf_end(elf);
	if (s->loads) { /* without threads and memory there is nothing to open */
		struct err err;
		struct image *img = open_image(f, &err);
		ck_assert_msg(img != NULL, "%s", err.msg);
		ck_assert_uint_eq(image_abi(img)->width, s->abi.width);
		ck_assert_uint_eq(image_facts(img)->n_segments, with_bytes);
		expect_memory(img, &loads[0], FILL_TEXT);
		expect_memory(img, &loads[s->loads - 1], FILL_TEXT);
		ck_assert(!image_facts(img)->truncated);
		image_close(img);
	}
	free(loads);
	free((void *)all.p);
	free((void *)f.p);
}
END_TEST

/* ---- cut and damaged ---- */

START_TEST(cut_file_says_what_is_lost)
{
	struct pz_load loads[] = { { 0x400000, 200000, 204800, 1 }, { 0x500000, 400000, 409600, 3 }, { 0x600000, 4096, 4096, 3 } };
	struct build_pz spec = { .plan = { .loads = loads, .n_loads = 3, .level = 1 }, .fill = FILL_TEXT };
	struct blob f = build_pz(&spec), part = gunzip((struct blob){ f.p, f.len / 2 }, true);
	struct err err;
	struct image *img = open_image((struct blob){ f.p, f.len / 2 }, &err);
	ck_assert_msg(img != NULL, "%s", err.msg);
	const struct image_facts *facts = image_facts(img);
	ck_assert(facts->truncated);
	ck_assert_uint_eq(facts->size, part.len);
	ck_assert_uint_eq(facts->file_size, f.len / 2);
	ck_assert_uint_eq(facts->n_segments, 3);
	ck_assert_uint_eq(facts->n_segments_lost, 2);
	uint64_t second = 4096 + 200704; /* its place in the core */
	ck_assert_uint_eq(facts->n_lost, 2);
	ck_assert_uint_eq(facts->lost[0].start, 0x500000 + part.len - second);
	ck_assert_uint_eq(facts->lost[0].end, 0x500000 + 400000);
	expect_memory(img, &loads[0], FILL_TEXT);
	struct pz_load there = { 0x500000, part.len - second, loads[1].memsz, 3 };
	expect_memory(img, &there, FILL_TEXT);
	image_close(img);
	free((void *)part.p);
	free((void *)f.p);
}
END_TEST

START_TEST(damaged_member_is_lost_alone)
{
	/* Random bytes are stored, so a known place in the file is a known place in memory. */
	struct pz_load loads[] = { { 0x400000, 16384, 16384, 1 }, { 0x500000, 16384 * 2, 16384 * 2, 3 }, { 0x600000, 16384, 16384, 3 } };
	struct build_pz spec = { .plan = { .loads = loads, .n_loads = 3, .level = 0 }, .fill = FILL_RANDOM };
	struct blob f = build_pz(&spec);
	uint8_t needle[16];
	fill_at(FILL_RANDOM, 0x500000 + 20000, needle, sizeof needle);
	uint8_t *at = memmem(f.p, f.len, needle, sizeof needle);
	ck_assert_ptr_nonnull(at);
	at[3] ^= 0x10;
	struct image *img = open_image(f, NULL);
	ck_assert_ptr_nonnull(img);
	ck_assert_uint_eq(image_facts(img)->n_lost, 0); /* not known before it is read */
	expect_memory(img, &loads[0], FILL_RANDOM);
	uint8_t byte, want;
	for (int again = 0; again < 2; again++) {
		ck_assert_int_eq(image_read(img, 0x500000 + 16384, &byte, 1), ERR_FAULT);
		ck_assert_int_eq(image_read(img, 0x500000 + 2 * 16384 - 1, &byte, 1), ERR_FAULT);
	}
	for (addr_t a = 0x500000; a < 0x500000 + 16384; a += 1000) {
		fill_at(FILL_RANDOM, a, &want, 1);
		ck_assert_int_eq(image_read(img, a, &byte, 1), 0);
		ck_assert_int_eq(byte, want);
	}
	expect_memory(img, &loads[2], FILL_RANDOM);
	const struct image_facts *facts = image_facts(img);
	ck_assert_uint_eq(facts->n_lost, 1);
	ck_assert_uint_eq(facts->lost[0].start, 0x500000 + 16384);
	ck_assert_uint_eq(facts->lost[0].end, 0x500000 + 2 * 16384);
	image_close(img);
	free((void *)f.p);
}
END_TEST

/* Found one after the other, the last first; whoever asked for the facts before sees them. */
START_TEST(damage_is_known_in_any_order)
{
	enum { MEMBERS = 20, SIZE = 16384 };
	struct pz_load loads[] = { { 0x400000, MEMBERS * SIZE, MEMBERS * SIZE, 1 } };
	struct build_pz spec = { .plan = { .loads = loads, .n_loads = 1, .level = 0 }, .fill = FILL_RANDOM };
	struct blob f = build_pz(&spec);
	for (addr_t a = 0x400000; a < 0x400000 + MEMBERS * SIZE; a += 2 * SIZE) {
		uint8_t needle[16];
		fill_at(FILL_RANDOM, a + 2000, needle, sizeof needle);
		uint8_t *at = memmem(f.p, f.len, needle, sizeof needle);
		ck_assert_ptr_nonnull(at);
		at[3] ^= 0x10;
	}
	struct image *img = open_image(f, NULL);
	ck_assert_ptr_nonnull(img);
	const struct image_facts *facts = image_facts(img);
	uint64_t failed = 0;
	uint8_t byte;
	for (int round = 0; round < 2; round++)
		for (int i = MEMBERS - 2; i >= 0; i -= 2) {
			ck_assert_int_eq(image_read(img, 0x400000 + (addr_t)i * SIZE + 5, &byte, 1), ERR_FAULT);
			ck_assert_uint_eq(image_lost_reads(img), ++failed);
		}
	ck_assert_uint_eq(facts->n_lost, MEMBERS / 2);
	for (size_t i = 0; i < facts->n_lost; i++) {
		ck_assert_uint_eq(facts->lost[i].start, 0x400000 + i * 2 * SIZE);
		ck_assert_uint_eq(facts->lost[i].end, 0x400000 + (i * 2 + 1) * SIZE);
	}
	image_close(img);
	free((void *)f.p);
}
END_TEST

/* Two damaged pages that a core's 65,000 segments lead to: a list of what is lost is not made as long as the file likes. */
START_TEST(damage_that_many_segments_share)
{
	enum { LOADS = 65000, PAGES_AT = 64 + 56 * LOADS, PAGE = 4096, MOST = 1 << 16 };
	struct sb f = { 0 };
	const size_t head = (PAGES_AT + PAGE - 1) / PAGE * PAGE;
	CLEANUP(cleanup_free) uint8_t *core = calloc(1, head + 2 * PAGE);
	Elf64_Ehdr ehdr = { .e_ident = { 0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT }, .e_type = ET_CORE, .e_machine = EM_X86_64, .e_version = EV_CURRENT,
		.e_phoff = 64, .e_ehsize = 64, .e_phentsize = 56, .e_phnum = LOADS };
	memcpy(core, &ehdr, sizeof ehdr);
	for (size_t i = 0; i < LOADS; i++) {
		Elf64_Phdr ph = { .p_type = PT_LOAD, .p_flags = PF_R, .p_offset = head, .p_vaddr = 0x10000000 + i * 0x10000, .p_filesz = 2 * PAGE, .p_memsz = 2 * PAGE };
		memcpy(core + 64 + 56 * i, &ph, sizeof ph);
	}
	for (size_t at = 0, n; at < head + 2 * PAGE; at += n) {
		uint8_t out[40000];
		n = at < head ? (head - at < 32768 ? head - at : 32768) : PAGE;
		const size_t size = member_stored(core + at, n, out);
		put_le(out + 4, 4, at); /* where it belongs */
		if (at >= head)
			out[size - 100] ^= 1;
		sb_bytes(&f, out, size);
	}
	sb_bytes(&f, "\x1f\x8b\x08\4\0\0\0\0\0\xff\6\0BC\2\0\x1b\0\3\0\0\0\0\0\0\0\0\0", BGZF_END);
	struct err err = { 0 };
	struct image *img = open_image((struct blob){ (const uint8_t *)f.s, f.len }, &err);
	ck_assert_msg(img != NULL, "%s", err.msg);
	uint8_t byte;
	uint64_t bytes = 0;
	ck_assert_int_eq(image_read(img, 0x10000000, &byte, 1), ERR_FAULT);
	const struct image_facts *facts = image_facts(img);
	ck_assert_uint_eq(facts->n_lost, LOADS);
	ck_assert_int_eq(image_read(img, 0x10000000 + PAGE, &byte, 1), ERR_FAULT);
	for (size_t i = 0; i < facts->n_lost; i++)
		bytes += facts->lost[i].end - facts->lost[i].start;
	ck_assert_uint_eq(bytes, (uint64_t)MOST * PAGE);
	ck_assert(image_is_lost(img, 0x10000000 + PAGE, 1) && !image_is_lost(img, 0x10000000 + 0x10000 * (uint64_t)(LOADS - 1) + PAGE, 1));
	ck_assert(image_is_lost(img, 0x10000000 + 0x10000 * (uint64_t)(LOADS - 1), 1));
	image_close(img);
	sb_free(&f);
}
END_TEST

/* ---- plans that cannot be written ---- */

static const struct pz_load too_many[] = { { 0x1000, 0xf0000000, 0xf0000000, 1 }, { 0xf0002000, 0x0fffd000, 0x0fffd000, 1 } };
static const struct pz_load unsorted[] = { { 0x5000, 1, 4096, 1 }, { 0x1000, 1, 4096, 1 } };
static const struct pz_load overlap[] = { { 0x1000, 1, 4097, 1 }, { 0x2000, 1, 4096, 1 } };
static const struct pz_load wraps[] = { { UINT64_MAX - 10, 1, 4096, 1 } };
static const struct pz_load high[] = { { 0x100000000, 1, 4096, 1 } };
static const struct pz_load empty[] = { { 0x1000, 0, 0, 1 } };
static const struct pz_load longer[] = { { 0x1000, 4097, 4096, 1 } };
static const struct pz_load last[] = { { UINT64_MAX - 4095, 10, 4096, 1 } };
static const struct pz_load both_last[] = { { UINT64_MAX - 4095, 10, 4096, 1 }, { 0x1000, 10, 4096, 1 } };
static const struct { const struct pz_load *loads; size_t n; struct abi abi; int level, rc; } plans[] = {
	{ last, 1, { EM_X86_64, 8, false }, 1, 0 },
	{ both_last, 2, { EM_X86_64, 8, false }, 1, ERR_CORRUPT },
	{ unsorted, 2, { EM_X86_64, 8, false }, 1, ERR_CORRUPT },
	{ overlap, 2, { EM_X86_64, 8, false }, 1, ERR_CORRUPT },
	{ wraps, 1, { EM_X86_64, 8, false }, 1, ERR_CORRUPT },
	{ high, 1, { EM_386, 4, false }, 1, ERR_CORRUPT },
	{ empty, 1, { EM_X86_64, 8, false }, 1, ERR_CORRUPT },
	{ longer, 1, { EM_X86_64, 8, false }, 1, ERR_CORRUPT },
	{ too_many, 2, { EM_386, 4, false }, 1, ERR_UNSUPPORTED },
	{ too_many, 2, { EM_X86_64, 8, false }, 1, 0 },
	{ last, 1, { EM_X86_64, 2, false }, 1, ERR_UNSUPPORTED },
	{ last, 1, { EM_X86_64, 8, false }, 10, ERR_UNSUPPORTED },
};

START_TEST(plans_that_cannot_be)
{
	struct pz_plan plan = { .abi = plans[_i].abi, .loads = plans[_i].loads, .n_loads = plans[_i].n, .level = plans[_i].level };
	struct pz_writer *w = NULL;
	struct err err;
	int fd = open("/dev/null", O_WRONLY);
	ck_assert_int_eq(pz_begin(fd, &plan, &w, &err), plans[_i].rc);
	if (plans[_i].rc < 0) {
		ck_assert_ptr_null(w);
		ck_assert_int_eq(err.code, plans[_i].rc);
	}
	pz_close(w);
	close(fd);
}
END_TEST

/* Too little or too much memory is our own mistake, and never a file that looks good. */
START_TEST(memory_that_does_not_add_up)
{
	struct pz_load load = { 0x400000, 100000, 102400, 1 };
	struct pz_plan plan = { .abi = x86_64, .loads = &load, .n_loads = 1, .level = 1 };
	struct pz_writer *w;
	struct err err;
	static const uint8_t data[100001];
	int fd = open("/dev/null", O_WRONLY);
	ck_assert_int_eq(pz_begin(fd, &plan, &w, &err), 0);
	size_t n = _i ? sizeof data : 99999;
	ck_assert_int_eq(pz_write(w, data, n), _i ? ERR_LIMIT : 0);
	ck_assert_int_eq(pz_finish(w, &err), _i ? ERR_LIMIT : ERR_CORRUPT);
	ck_assert_str_eq(err.msg, _i ? "more memory was given than the program headers say" : "1 bytes of memory less were given than the program headers say");
	pz_close(w);
	close(fd);
}
END_TEST

/* ---- output that fails ---- */

static int write_all(int fd, unsigned jobs, int *number, struct err *err)
{
	struct pz_load load = { 0x400000, 4000000, 4096000, 1 };
	struct build_pz spec = { .plan = { .abi = x86_64, .loads = &load, .n_loads = 1, .level = 1, .jobs = jobs }, .fill = FILL_RANDOM };
	struct pz_writer *w;
	int rc = pz_begin(fd, &spec.plan, &w, err);
	if (rc < 0)
		return rc;
	int first = build_pz_memory(&spec, w);
	errno = 0;
	rc = pz_finish(w, err);
	*number = errno;
	if (first < 0)
		ck_assert_int_eq(first, rc);
	pz_close(w);
	return rc;
}

START_TEST(disk_full)
{
	int fd = open("/dev/full", O_WRONLY), number;
	struct err err;
	ck_assert_int_eq(write_all(fd, (unsigned)_i, &number, &err), ERR_IO);
	ck_assert_int_eq(number, ENOSPC);
	ck_assert_str_eq(err.msg, "cannot write after 0 bytes: No space left on device");
	close(fd);
}
END_TEST

START_TEST(pipe_closed)
{
	signal(SIGPIPE, SIG_IGN);
	int fd[2], number;
	ck_assert_int_eq(pipe(fd), 0);
	close(fd[0]);
	struct err err;
	ck_assert_int_eq(write_all(fd[1], 0, &number, &err), ERR_IO);
	ck_assert_int_eq(number, EPIPE);
	ck_assert_str_eq(err.msg, "cannot write after 0 bytes: Broken pipe");
	close(fd[1]);
}
END_TEST

/* The limit lies within one write: that one is short, the next fails. */
START_TEST(file_size_limit)
{
	signal(SIGXFSZ, SIG_IGN);
	struct rlimit limit = { 1000001, 1000001 };
	FILE *f = tmpfile();
	ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
	int number;
	struct err err;
	ck_assert_int_eq(write_all(fileno(f), 2, &number, &err), ERR_IO);
	ck_assert_int_eq(number, EFBIG);
	ck_assert_str_eq(err.msg, "cannot write after 1000001 bytes: File too large");
	fclose(f);
}
END_TEST

struct drain { int fd; struct blob got; };
static void *drain_pipe(void *arg)
{
	struct drain *d = arg;
	uint8_t *p = xmalloc(8 << 20);
	size_t len = 0;
	ssize_t n;
	while ((n = read(d->fd, p + len, len % 3 ? 100 : 30000)) > 0)
		len += (size_t)n;
	d->got = (struct blob){ p, len };
	return NULL;
}

static void on_alarm(int sig) { (void)sig; }

/* A slow reader, a pipe that does not block, and signals that interrupt: the same bytes. */
START_TEST(pipe_output)
{
	struct sigaction sa = { .sa_handler = on_alarm }; /* no SA_RESTART */
	sigaction(SIGALRM, &sa, NULL);
	ualarm(500, 500);
	int fd[2], number;
	ck_assert_int_eq(pipe2(fd, _i ? O_NONBLOCK : 0), 0);
	fcntl(fd[0], F_SETFL, 0);
	struct drain d = { .fd = fd[0] };
	pthread_t t;
	sigset_t block;
	sigemptyset(&block);
	sigaddset(&block, SIGALRM);
	pthread_sigmask(SIG_BLOCK, &block, NULL);
	ck_assert_int_eq(pthread_create(&t, NULL, drain_pipe, &d), 0);
	pthread_sigmask(SIG_UNBLOCK, &block, NULL);
	struct err err;
	ck_assert_msg(write_all(fd[1], 2, &number, &err) == 0, "%s", err.msg);
	ualarm(0, 0);
	close(fd[1]);
	pthread_join(t, NULL);
	close(fd[0]);
	struct pz_load load = { 0x400000, 4000000, 4096000, 1 };
	struct build_pz spec = { .plan = { .loads = &load, .n_loads = 1, .level = 1, .jobs = 1 }, .fill = FILL_RANDOM };
	struct blob want = build_pz(&spec);
	ck_assert_uint_eq(d.got.len, want.len);
	ck_assert_int_eq(memcmp(d.got.p, want.p, want.len), 0);
	free((void *)d.got.p);
	free((void *)want.p);
}
END_TEST

/* ---- other people's tools ---- */

/* tools/pz_check FILE [CORE]; exit code 0 fine, 1 not. */
static int pz_check(const char *path, const char *more)
{
	const char *tool = getenv("PZ_CHECK");
	char *command = xasprintf("%s '%s' %s", tool ? tool : "tools/pz_check", path, more);
	int rc = system(command);
	free(command);
	return WIFEXITED(rc) ? WEXITSTATUS(rc) : -1;
}

START_TEST(stock_tools)
{
	struct blob status = prstatus(&x86_64, 100);
	struct pz_note notes[] = { { "CORE", NT_PRSTATUS, status }, { "PYSNAP", PZ_NOTE_INFO, BLOB(info) } };
	struct pz_load loads[] = { { 0x400000, 2000000, 2002944, 5 }, { 0x700000, 0, 4096, 0 }, { 0x800000, 300001, 303104, 3 } };
	struct build_pz spec = {
		.plan = { .abi = x86_64, .notes = notes, .n_notes = 2, .loads = loads, .n_loads = 3, .level = _i }, .fill = FILL_MIXED,
	};
	struct blob f = build_pz(&spec), all = gunzip(f, false);
	char *path = blob_to_file(f), *core = blob_to_file(all);
	ck_assert_int_eq(pz_check(path, core), 0);
	/* And does it notice? */
	ck_assert_int_eq(truncate(path, (off_t)f.len - 3), 0);
	ck_assert_int_eq(pz_check(path, "2> /dev/null"), 1);
	unlink(path);
	unlink(core);
	free(path);
	free(core);
	free((void *)all.p);
	free((void *)f.p);
	free((void *)status.p);
}
END_TEST

int main(int argc, char **argv)
{
	if (argc > 1) {
		int bad = 0;
		for (int i = 1; i < argc; i++)
			bad += pz_check(argv[i], "") != 0;
		return bad != 0;
	}
	Suite *s = suite_create("pz");
	TCase *t = tcase_create("file");
	tcase_set_timeout(t, 120);
	tcase_add_test(t, opens_as_an_image);
	tcase_add_loop_test(t, odd_information, 0, COUNT(odd_info));
	tcase_add_loop_test(t, tail, 0, COUNT(places));
	tcase_add_test(t, cut_before_the_tail);
	tcase_add_test(t, tables_for_ever);
	tcase_add_loop_test(t, information_too_long, 0, 2);
	tcase_add_test(t, later_locator);
	tcase_add_loop_test(t, elf_shape, 0, COUNT(shapes));
	tcase_add_test(t, cut_file_says_what_is_lost);
	tcase_add_test(t, damaged_member_is_lost_alone);
	tcase_add_test(t, damage_is_known_in_any_order);
	tcase_add_test(t, damage_that_many_segments_share);
	tcase_add_loop_test(t, plans_that_cannot_be, 0, COUNT(plans));
	tcase_add_loop_test(t, memory_that_does_not_add_up, 0, 2);
	tcase_add_loop_test(t, disk_full, 0, 3);
	tcase_add_test(t, pipe_closed);
	tcase_add_test(t, file_size_limit);
	tcase_add_loop_test(t, pipe_output, 0, 2);
	tcase_add_loop_test(t, stock_tools, 0, 2);
	suite_add_tcase(s, t);
	return suite_run(s);
}
