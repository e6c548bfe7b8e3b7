/* Machines as rows of formats/registers.def, and what is computed from a row.  Knows no file format but the notes' ABI. */
#include "image/abi.h"

#include <stdio.h>

enum { NONE = -1 };
enum role {
	PC = 1, SP = 2, TLS = 4, TLS_HIGH = 8, NR = 16, TRAP = 32, ARG0 = 64 /* to ARG0 << 5 */, FP = 4096, LR = 8192,
};
#define ARG(n) (ARG0 << (n))
enum nr_rule { NR_SIGNED, NR_ORIG, NR_TRAP, NR_NOTE };

struct reg {
	const char *name; /* NULL ends the list */
	int8_t dwarf;
	uint8_t width;
	uint16_t offset, role;
};

struct machine {
	const char *little, *big;
	uint16_t machine;
	uint8_t width, uid_width;
	size_t gregs;
	const struct reg *reg;
	enum nr_rule rule;
	uint32_t tls_note, nr_note;
	bool self;
};

static const struct machine machines[] = {
#define MACHINE(little, big, machine, width, gregs, uid_width) { little, big, machine, width, uid_width, gregs, (const struct reg[]){
#define REG(name, dwarf, offset, width, role) { #name, dwarf, width, offset, role },
#define SELF true
#define BELOW false
#define END(rule, tls_note, nr_note, self) { 0 } }, rule, tls_note, nr_note, self },
#include "registers.def"
#undef MACHINE
#undef REG
#undef END
#undef SELF
#undef BELOW
};

static const char *name_of(const struct machine *m, const struct abi *abi)
{
	return m->machine != abi->machine || m->width != abi->width ? NULL : abi->big_endian ? m->big : m->little;
}

static const struct machine *machine_of(const struct abi *abi)
{
	for (size_t i = 0; i < sizeof machines / sizeof *machines; i++)
		if (name_of(&machines[i], abi))
			return &machines[i];
	return NULL;
}

bool abi_known(const struct abi *abi)
{
	return machine_of(abi) != NULL;
}

const char *abi_name(const struct abi *abi)
{
	static _Thread_local char unknown[48];
	const struct machine *m = machine_of(abi);
	if (m)
		return name_of(m, abi);
	snprintf(unknown, sizeof unknown, "machine %u (%u-bit, %s-endian)", abi->machine, abi->width * 8u,
		 abi->big_endian ? "big" : "little");
	return unknown;
}

bool abi_by_name(const char *name, struct abi *ret)
{
	for (size_t i = 0; i < sizeof machines / sizeof *machines; i++)
		for (int big = 0; big <= 1; big++) {
			struct abi abi = { machines[i].machine, machines[i].width, big };
			const char *s = name_of(&machines[i], &abi);
			if (s && str_is(str_of(s), name)) {
				*ret = abi;
				return true;
			}
		}
	return false;
}

static int64_t sign_extend(uint64_t v, size_t width)
{
	return width == 8 ? (int64_t)v : width == 4 ? (int32_t)v : (int16_t)v;
}

static void system_call(const struct machine *m, uint64_t nr, uint64_t trap, struct regs *r)
{
	switch (m->rule) {
	case NR_SIGNED: {
		int64_t n = sign_extend(nr, m->width);
		r->syscall.nr = n < 0 ? -1 : n;
		r->syscall.known = true;
		break;
	}
	case NR_ORIG:
		r->syscall.known = sign_extend(trap, m->width) != -1;
		r->syscall.nr = r->syscall.known ? (int64_t)nr : -1;
		break;
	case NR_TRAP:
		r->syscall.known = true;
		r->syscall.nr = trap == 0xc00 || trap == 0x3000 ? (int64_t)nr : -1;
		break;
	case NR_NOTE:
		r->syscall.nr = -1;
		break;
	}
}

int abi_regs(const struct abi *abi, struct blob gregs, struct regs *ret)
{
	const struct machine *m = machine_of(abi);
	if (!m)
		return ERR_UNSUPPORTED;
	if (gregs.len < m->gregs)
		return ERR_CORRUPT;
	struct regs r = { 0 };
	uint64_t nr = 0, trap = 0;
	for (const struct reg *row = m->reg; row->name; row++) {
		struct cursor c = cursor_of(gregs.p, gregs.len, abi->big_endian);
		uint64_t v;
		if (cursor_skip(&c, row->offset) < 0 || cursor_uint(&c, row->width, &v) < 0)
			return ERR_CORRUPT;
		if (row->dwarf >= 0) {
			r.value[row->dwarf] = v;
			r.known |= (uint64_t)1 << row->dwarf;
		}
		if (row->role & PC)
			r.pc = v;
		if (row->role & SP)
			r.sp = v;
		if (row->role & TLS)
			r.tls |= v;
		if (row->role & TLS_HIGH)
			r.tls |= v << 32;
		if (row->role & NR)
			nr = v;
		if (row->role & TRAP)
			trap = v;
		for (unsigned i = 0; i < 6; i++)
			if (row->role & ARG(i))
				r.syscall.arg[i] = v;
	}
	system_call(m, nr, trap, &r);
	*ret = r;
	return 0;
}

enum { NOTE_386_TLS = 0x200, NOTE_S390_SYSTEM_CALL = 0x307, I386_GS = 45 };

/* struct user_desc[] (Linux 6.1 arch/x86/include/uapi/asm/ldt.h): entry_number, base_addr, limit, flags. */
static int tls_386(struct cursor *c, struct regs *regs)
{
	uint64_t entry, base;
	while (cursor_uint(c, 4, &entry) == 0 && cursor_uint(c, 4, &base) == 0) {
		if (entry == (regs->value[I386_GS] & 0xffff) >> 3) {
			regs->tls = base;
			return 0;
		}
		if (cursor_skip(c, 8) < 0)
			break;
	}
	return ERR_ABSENT;
}

int abi_regs_note(const struct abi *abi, uint32_t type, struct blob desc, struct regs *regs)
{
	const struct machine *m = machine_of(abi);
	if (!m || type == 0)
		return ERR_ABSENT;
	struct cursor c = cursor_of(desc.p, desc.len, abi->big_endian);
	uint64_t v;
	if (type == m->tls_note) {
		if (type == NOTE_386_TLS)
			return tls_386(&c, regs);
		return cursor_uint(&c, m->width, &regs->tls);
	}
	if (type != m->nr_note)
		return ERR_ABSENT;
	int rc = cursor_uint(&c, 4, &v);
	if (rc < 0)
		return rc;
	if (type == NOTE_S390_SYSTEM_CALL)
		regs->syscall.nr = v & 0xffff ? (int64_t)(v & 0xffff) : -1;
	else
		regs->syscall.nr = (int32_t)v < 0 ? -1 : (int64_t)v;
	regs->syscall.known = true;
	return 0;
}

void abi_more_notes(const struct abi *abi, uint32_t ret[ABI_MORE_NOTES])
{
	const struct machine *m = machine_of(abi);
	ret[0] = m ? m->tls_note : 0;
	ret[1] = m ? m->nr_note : 0;
}

bool abi_tls_is_self(const struct abi *abi)
{
	const struct machine *m = machine_of(abi);
	return m && m->self;
}

/* elf_prstatus and elf_prpsinfo (Linux 6.1 include/linux/elfcore.h, elfcore-compat.h), laid out by the C ABI's rules. */
int abi_notes(const struct abi *abi, struct abi_notes *ret)
{
	const struct machine *m = machine_of(abi);
	if (!m)
		return ERR_UNSUPPORTED;
	size_t w = m->width;
	struct abi_notes n = { .uid_width = m->uid_width };
	/* elf_siginfo: 3 ints; short pr_cursig; long pr_sigpend, pr_sighold; int pid, ppid, pgrp, sid; 4 timevals of 2 longs */
	n.pr_cursig = 12;
	n.pr_pid = 16 + 2 * w;
	n.pr_reg = n.pr_pid + 16 + 8 * w;
	n.pr_reg_size = m->gregs;
	n.prstatus_size = (n.pr_reg + m->gregs + 4 + w - 1) / w * w; /* int pr_fpvalid, padded to a long */
	/* char pr_state, pr_sname, pr_zomb, pr_nice; long pr_flag; uid, gid; int pid, ppid, pgrp, sid; fname[16], psargs[80] */
	n.pr_state = 1; /* pr_sname, the letter */
	n.pr_uid = 2 * w;
	n.pr_gid = n.pr_uid + m->uid_width;
	n.pr_ps_pid = n.pr_gid + m->uid_width;
	n.pr_ppid = n.pr_ps_pid + 4;
	n.pr_fname = n.pr_ps_pid + 16;
	n.pr_psargs = n.pr_fname + 16;
	n.prpsinfo_size = n.pr_psargs + 80;
	*ret = n;
	return 0;
}

static int dwarf_of(const struct abi *abi, enum role role)
{
	const struct machine *m = machine_of(abi);
	for (const struct reg *row = m ? m->reg : NULL; row && row->name; row++)
		if (row->role & role)
			return row->dwarf;
	return -1;
}

int abi_sp(const struct abi *abi)
{
	return dwarf_of(abi, SP);
}

int abi_fp(const struct abi *abi)
{
	return dwarf_of(abi, FP);
}

int abi_lr(const struct abi *abi)
{
	return dwarf_of(abi, LR);
}

bool abi_register(const struct abi *abi, const char *name, size_t *ret_offset, size_t *ret_width)
{
	const struct machine *m = machine_of(abi);
	for (const struct reg *row = m ? m->reg : NULL; row && row->name; row++)
		if (str_is(str_of(row->name), name)) {
			*ret_offset = row->offset;
			*ret_width = row->width;
			return true;
		}
	return false;
}
