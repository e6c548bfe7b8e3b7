/*
 * Writes an ELF core into memory, for tests: any machine of registers.def, both widths and byte orders.
 *
 *	struct build_elf *b = build_elf_new("x86_64");
 *	build_elf_thread(b, 100, 0x401000, 0x7ff0);            // the first is the one that caused the dump
 *	build_elf_reg(b, "orig_rax", 202);                     // of the last thread
 *	build_elf_tls(b, 0x7000);
 *	build_elf_prpsinfo(b, 100, 1, 1000, "python", "python x.py");
 *	build_elf_signal(b, SIGSEGV, 1, 0xdead);
 *	build_elf_file(b, 0x400000, 0x402000, 0, "/usr/bin/python");
 *	uint8_t *m = build_elf_memory(b, 0x10000, 4096, 3);    // zeroed; fill it until build_elf_finish
 *	build_elf_put(b, m + 8, 8, 0x10100);                   // in the machine's byte order
 *	build_elf_absent(b, 0x401000, 4096, 5);                // a load with p_filesz 0
 *	struct image *img = build_elf_open(b);                 // aborts the test if it does not open
 *	...
 *	image_close(img);
 *	build_elf_free(b);                                     // after the image: it reads from the builder's bytes
 *
 * The order of notes is the kernel's: PRSTATUS, PRPSINFO, SIGINFO, AUXV, FILE, the thread's other notes, then the next
 * thread.  Program headers: the notes, then loads in the order they were added.  With 0xffff headers or more their
 * number goes to section header 0 at the end of the file, as the kernel puts it.
 */
#ifndef TESTS_BUILD_ELF_H
#define TESTS_BUILD_ELF_H

#include "image/image.h"

struct build_elf;

struct build_elf *build_elf_new(const char *abi); /* an abi_name; aborts if unknown */
void build_elf_free(struct build_elf *b);         /* takes NULL */
const struct abi *build_elf_abi(const struct build_elf *b);

/* Store the low width bytes of v at p in the machine's byte order. */
void build_elf_put(const struct build_elf *b, void *p, size_t width, uint64_t v);

void build_elf_thread(struct build_elf *b, pid_t tid, addr_t pc, addr_t sp);
void build_elf_reg(struct build_elf *b, const char *name, uint64_t v);  /* by registers.def; aborts if unknown */
void build_elf_tls(struct build_elf *b, addr_t tls);                    /* register or note, as the machine has it */
void build_elf_cursig(struct build_elf *b, int signo);
void build_elf_sighold(struct build_elf *b, uint64_t mask);
/* A note of the last thread; before the first thread: of the process, ahead of everything. */
void build_elf_note(struct build_elf *b, const char *owner, uint32_t type, const void *desc, size_t len);

void build_elf_prpsinfo(struct build_elf *b, pid_t pid, pid_t ppid, unsigned uid, const char *comm, const char *args);
void build_elf_signal(struct build_elf *b, int signo, int code, addr_t addr);              /* SIGINFO with si_addr */
void build_elf_signal_from(struct build_elf *b, int signo, int code, pid_t pid, unsigned uid);
void build_elf_auxv(struct build_elf *b, uint64_t type, uint64_t value);                   /* AT_NULL is added */
void build_elf_file(struct build_elf *b, addr_t start, addr_t end, uint64_t offset, const char *path); /* offset: a multiple of 4096 */

void build_elf_load(struct build_elf *b, addr_t addr, const void *bytes, size_t len, unsigned prot); /* copies; prot: 1 read 2 write 4 execute */
uint8_t *build_elf_memory(struct build_elf *b, addr_t addr, size_t size, unsigned prot);
void build_elf_absent(struct build_elf *b, addr_t addr, uint64_t memsz, unsigned prot);

/* For odd files; before anything is added. */
void build_elf_note_align(struct build_elf *b, size_t align);           /* 4 (default) or 8 */
void build_elf_phentsize(struct build_elf *b, size_t size);             /* larger than usual */
void build_elf_split_notes(struct build_elf *b);                        /* a PT_NOTE for each thread */
void build_elf_data_align(struct build_elf *b, size_t align);           /* of loads in the file; default 16 */

/* The file; belongs to the builder.  May be called once. */
struct blob build_elf_finish(struct build_elf *b);
/* Where in the finished file the program headers and the first load's bytes begin. */
size_t build_elf_phoff(const struct build_elf *b);
size_t build_elf_data(const struct build_elf *b);
struct image *build_elf_open(struct build_elf *b);
const struct thread *build_elf_first(struct image *img); /* its first thread; aborts if there is none */

#endif
