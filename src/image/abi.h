/* Machine, width, byte order and registers, all from formats/registers.def; nothing here depends on the host. */
#ifndef IMAGE_ABI_H
#define IMAGE_ABI_H

#include "base/cursor.h"

typedef uint64_t addr_t; /* an address in the target; never cast to a pointer */

struct abi {
	uint16_t machine; /* ELF e_machine */
	uint8_t width;    /* of a pointer: 4 or 8 */
	bool big_endian;
};

/* Registers of one thread, by DWARF number; bit i of known says that value[i] is set. */
struct regs {
	addr_t pc, sp, tls;         /* tls: the thread pointer (fs_base, TPIDR_EL0, gs base of i386); 0 if not known */
	uint64_t value[64], known;
	struct {
		int64_t nr;         /* -1: not in a system call */
		uint64_t arg[6];
		bool known;
	} syscall;
};

bool abi_known(const struct abi *abi);                 /* is there a row in registers.def? */
const char *abi_name(const struct abi *abi);           /* "x86_64", "aarch64", ..., or "machine N" words for an unknown one */
/* NT_PRSTATUS's pr_reg (bytes of the target's elf_gregset_t) -> regs. ERR_UNSUPPORTED, ERR_CORRUPT. */
int abi_regs(const struct abi *abi, struct blob gregs, struct regs *ret) MUST_CHECK;
/* What other notes of the thread add to regs: NT_386_TLS, NT_ARM_TLS, NT_ARM_SYSTEM_CALL, ...; ERR_ABSENT if type adds nothing. */
int abi_regs_note(const struct abi *abi, uint32_t type, struct blob desc, struct regs *regs) MUST_CHECK;
/* The types of the notes that abi_regs_note knows for this machine, 0 for none. */
enum { ABI_MORE_NOTES = 2 };
void abi_more_notes(const struct abi *abi, uint32_t ret[ABI_MORE_NOTES]);
/*
 * Is pthread_self() the thread pointer?  Where the ABI puts thread-local storage below it (TLS_TCB_AT_TP) it is; where above
 * (TLS_DTV_AT_TP), struct pthread ends at it, whose size no image tells.
 */
bool abi_tls_is_self(const struct abi *abi);
/* The inverse of abi_name and where a register is in pr_reg, by its name in registers.def; for builders of cores. */
bool abi_by_name(const char *name, struct abi *ret);
bool abi_register(const struct abi *abi, const char *name, size_t *ret_offset, size_t *ret_width);
/* DWARF numbers of the stack pointer, the frame pointer, the link register; -1: not known, or the machine has none. */
int abi_sp(const struct abi *abi);
int abi_fp(const struct abi *abi);
int abi_lr(const struct abi *abi);
/* Where the parts of NT_PRSTATUS and NT_PRPSINFO are in this ABI (offsets in the note's descriptor), and sizes. */
struct abi_notes {
	size_t prstatus_size, pr_cursig, pr_pid, pr_reg, pr_reg_size;
	size_t prpsinfo_size, pr_state /* the letter, pr_sname */, pr_uid, pr_gid, pr_ps_pid, pr_ppid, pr_fname, pr_psargs;
	uint8_t uid_width;
};
int abi_notes(const struct abi *abi, struct abi_notes *ret) MUST_CHECK;

#endif
