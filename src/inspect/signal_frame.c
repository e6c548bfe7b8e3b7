/* Signal frames by words that no other data has (image/signal_abi.h), and what they say. */
#include "inspect/signal_frame.h"

#include <string.h>

#include "image/signal_abi.h"

enum { STACK_MAX = 1 << 20 /* of a handler's frames: a fault's lie near its end */, CHUNK = 1 << 12, CONTEXT_MAX = 512, KINDS_MAX = 8,
	NO_CODE = 1 << 16 /* nothing is mapped below: mmap_min_addr */,
	FROM_KERNEL = 0x80 /* SI_KERNEL */, CHILD = 17 /* SIGCHLD */, GUARD = 1 << 20 /* below a stack that is full its pointer may stand: stack_guard_gap of the kernel (mm/mmap.c) */ };

static uint64_t word_at(const struct abi *abi, const uint8_t *p, size_t width)
{
	struct cursor c = cursor_of(p, width, abi->big_endian);
	uint64_t v = 0;
	(void)!cursor_uint(&c, width, &v);
	return v;
}

/* Linux include/uapi/asm-generic/siginfo.h: the codes that the kernel has for what an instruction did. */
static bool is_fault_code(int signo, int code)
{
	static const struct { int signo, last; } codes[] = { { 11, 10 }, { 7, 5 }, { 4, 11 }, { 8, 15 }, { 5, 6 } };
	for (size_t i = 0; i < sizeof codes / sizeof *codes; i++)
		if (codes[i].signo == signo)
			return code == FROM_KERNEL || (code > 0 && code <= codes[i].last);
	return false;
}

/* SI_USER to SI_DETHREAD, SI_ASYNCNL; those of them that have a sender's number, and a value. */
static bool is_sent_code(int code)
{
	return (code <= 0 && code >= -7) || code == -60;
}

static bool has_sender(int code)
{
	return code == 0 || code == -1 || code == -3 || code == -4 || code == -6;
}

/* So many bytes of the union have something to tell; the kernel clears the others, as far as a siginfo goes (since 4.20; before it left them). */
static size_t info_used(const struct abi *abi, int signo, int code)
{
	enum { MORE = 32 /* bounds, a protection key, times: up to sizeof(struct kernel_siginfo) */ };
	if (code <= 0)
		return code == 0 || code == -6 ? 8 : 8 + abi->width;
	return (signo == 11 && (code == 3 || code == 4)) || (signo == 7 && code > 3) || (signo == 5 && code == 6) || signo == CHILD ? MORE : abi->width;
}

/* struct siginfo, if what is there could be one: the numbers fit each other, the padding is zero. */
static void take_info(struct image *img, addr_t at, struct signal_frame *f)
{
	enum { SIZE = 128, READ = 32 };
	const struct abi *abi = image_abi(img);
	uint8_t b[SIZE] = { 0 };
	if (image_read(img, at, b, READ) < 0)
		return;
	int signo = (int)(uint32_t)word_at(abi, b, 4), error = (int)(uint32_t)word_at(abi, b + 4, 4), code = (int)(uint32_t)word_at(abi, b + 8, 4);
	const uint8_t *more = b + (abi->width == 8 ? 16 : 12); /* a union that is aligned as a pointer */
	uint64_t addr = word_at(abi, more, abi->width), pid = word_at(abi, more, 4);
	const bool fault = is_fault_code(signo, code), child = signo == CHILD && code > 0 && code <= 6;
	enum { PID_MAX = 1 << 22 };
	if (signo < 1 || signo > 64 || error || (abi->width == 8 && word_at(abi, b + 12, 4)) || (code <= 0 && has_sender(code) && pid > PID_MAX))
		return;
	if (fault && f->trapped && f->trap == TRAP_PAGE && signo != 5 && addr != f->addr)
		return;
	if (!fault && !child && code != FROM_KERNEL && !is_sent_code(code))
		return;
	f->has_info = true;
	f->whole = image_read(img, at + READ, b + READ, SIZE - READ) == 0;
	for (size_t i = (size_t)(more - b) + info_used(abi, signo, code); i < SIZE; i++)
		f->whole &= !b[i];
	f->signo = signo;
	f->code = code;
	if (fault) {
		f->addr = addr;
	} else if (has_sender(code)) {
		f->pid = (int64_t)pid;
		f->uid = (int64_t)word_at(abi, more + 4, 4);
	}
}

/*
 * aarch64's records after the registers, { u32 magic, u32 size, ... }, ended by zeros.  The syndrome is there when the thread's last
 * fault of memory has one (Linux 6.1 arch/arm64/kernel/signal.c: setup_sigframe; the fields: Arm ARM DDI 0487, ESR_EL1).
 */
static void take_syndrome(struct image *img, addr_t at, struct signal_frame *f)
{
	enum { ESR = 0x45535201, RESERVED = 4096, INSTRUCTION = 0x20, PC_ALIGNMENT = 0x22, DATA = 0x24, SP_ALIGNMENT = 0x26, WRITE = 1 << 6, ALIGNMENT = 0x21, PERMISSION = 0x0c };
	uint64_t magic, size, esr;
	for (uint32_t done = 0; done < RESERVED; done += (uint32_t)size) {
		if (image_read_uint(img, at + done, 4, &magic) < 0 || image_read_uint(img, at + done + 4, 4, &size) < 0)
			return;
		if (!magic && !size) {
			f->no_trap = true;
			return;
		}
		if (size < 8 || size % 16 || size > RESERVED)
			return;
		if (magic != ESR)
			continue;
		if (image_read_uint(img, at + done + 8, 8, &esr) < 0)
			return;
		const unsigned class = esr >> 26 & 0x3f, status = esr & 0x3f;
		if (class == PC_ALIGNMENT || class == SP_ALIGNMENT || (class == DATA && status == ALIGNMENT))
			f->trap = TRAP_ALIGNMENT;
		else if (class == DATA || class == INSTRUCTION)
			f->trap = TRAP_PAGE;
		else
			return;
		f->trapped = true;
		f->error = ((status & 0x3c) == PERMISSION ? 1 : 0) | (class == INSTRUCTION ? 16 : esr & WRITE ? 2 : 0);
		return;
	}
}

/* The stack of a stack pointer, which, where it has overflowed, stands below it; NULL: none. */
static const struct segment *stack_of(struct image *img, addr_t sp)
{
	const struct segment *seg, *in = image_segment_at(img, sp);
	size_t n = image_segments(img, &seg), lo = 0, hi = n;
	while (!in && lo < hi) {
		size_t mid = lo + (hi - lo) / 2;
		if (seg[mid].start <= sp)
			lo = mid + 1;
		else
			hi = mid;
	}
	return in ? in : lo < n && seg[lo].start - sp <= GUARD && seg[lo].prot & 2 ? &seg[lo] : NULL;
}

static bool mark_fits(struct image *img, addr_t context, const struct signal_mark *m)
{
	uint64_t v;
	return image_read_uint(img, context + (addr_t)(int64_t)m->at, m->width, &v) == 0 && (v & m->mask) == m->value;
}

/* Has the machine another kind of frame, for handlers that do not ask for siginfo? */
static bool has_plain_kind(const struct abi *abi)
{
	const struct signal_kind *k;
	for (size_t i = 0; i < KINDS_MAX && (k = signal_kind_at(abi, i)); i++)
		if (!k->info)
			return true;
	return false;
}

/* Does the handler return to what it has to?  Where that code is not at hand it may. */
static bool returns_there(struct image *img, addr_t context, const struct signal_kind *k)
{
	uint8_t code[sizeof k->back_code];
	addr_t to;
	if (!k->back_size)
		return true;
	if (image_read_ptr(img, context + (addr_t)(int64_t)k->back, &to) < 0 || to < NO_CODE)
		return false;
	return image_read(img, to, code, k->back_size) < 0 || memcmp(code, k->back_code, k->back_size) == 0;
}

/*
 * Did the stack pointer lead nowhere (a frame that was larger than what was left, a register that was overwritten), and code of the process
 * fault by it?  A handler with a stack of its own sees that.
 */
static bool fell_off(struct image *img, const struct signal_frame *f)
{
	enum { NEAR = 1 << 16 /* as far as a function may touch its frame first */ };
	struct mapped m;
	return f->trapped && f->trap == TRAP_PAGE && f->regs.sp && (f->addr > f->regs.sp ? f->addr - f->regs.sp : f->regs.sp - f->addr) <= NEAR &&
	       image_mapped_at(img, f->addr, &m) < 0 && image_mapped_at(img, f->regs.pc, &m) == 0 && m.prot & 4;
}

/* A context at `at`?  The kernel wrote it, so what must be zero is, and what was interrupted stood somewhere. */
static bool take_context(struct image *img, const struct signal_context *s, const struct signal_kind *k, addr_t at, struct signal_frame *ret)
{
	const struct abi *abi = image_abi(img);
	const size_t width = abi->width;
	struct signal_frame f = { .at = at };
	uint8_t b[CONTEXT_MAX];
	for (size_t i = 0; i < sizeof k->mark / sizeof *k->mark && k->mark[i].width; i++)
		if (!mark_fits(img, at, &k->mark[i]))
			return false;
	if (!returns_there(img, at, k) || s->size > sizeof b || image_read(img, at, b, s->size) < 0)
		return false;
	for (size_t i = 0; i < s->n_regs; i++) {
		f.regs.value[s->regs[i].dwarf] = word_at(abi, b + s->regs[i].at, width);
		f.regs.known |= UINT64_C(1) << s->regs[i].dwarf;
	}
	f.regs.sp = word_at(abi, b + s->sp, width);
	f.regs.pc = word_at(abi, b + s->pc, width);
	f.regs.syscall.nr = -1;
	if (s->traps) {
		f.trap = (unsigned)word_at(abi, b + s->trap, width);
		f.error = word_at(abi, b + s->error, width);
		if (word_at(abi, b + s->trap, width) > 32)
			return false;
		f.trapped = true;
	}
	f.addr = f.trap_addr = word_at(abi, b + s->fault, width);
	if (s->records)
		take_syndrome(img, at + s->records, &f);
	if (!stack_of(img, f.regs.sp) && !fell_off(img, &f))
		return false;
	if (image_read_ptr(img, at + (addr_t)(int64_t)k->mask, &f.mask) < 0)
		f.mask = UINT64_MAX;
	if (k->info)
		take_info(img, at + (addr_t)(int64_t)k->info, &f);
	f.asked = f.has_info && has_plain_kind(abi);
	*ret = f;
	return true;
}

/* Words of memory as they lie there: what begins the kinds' marks. */
struct first { uint8_t width; uint64_t raw; };

static uint64_t raw_at(const uint8_t *p, size_t width)
{
	uint64_t wide = 0;
	uint32_t half = 0;
	if (width == 8)
		memcpy(&wide, p, sizeof wide);
	else
		memcpy(&half, p, sizeof half);
	return width == 8 ? wide : half;
}

static struct first first_of(const struct abi *abi, const struct signal_mark *m)
{
	uint8_t b[8];
	for (size_t i = 0; i < m->width; i++)
		b[i] = (uint8_t)(m->value >> 8 * (abi->big_endian ? m->width - 1u - i : i));
	return (struct first){ m->width, raw_at(b, m->width) };
}

int signal_frame_in(struct image *img, addr_t from, addr_t to, struct signal_frame *ret)
{
	const struct abi *abi = image_abi(img);
	const struct signal_context *s = signal_context_of(abi);
	const struct signal_kind *kind[KINDS_MAX];
	struct first first[KINDS_MAX];
	size_t n_kinds = 0;
	while (s && n_kinds < KINDS_MAX && (kind[n_kinds] = signal_kind_at(abi, n_kinds))) {
		first[n_kinds] = first_of(abi, &kind[n_kinds]->mark[0]);
		n_kinds++;
	}
	const size_t step = abi->width;
	uint8_t buf[CHUNK];
	for (addr_t done = from; n_kinds && done < to;) {
		size_t n = image_scan(img, done, buf, to - done < CHUNK ? (size_t)(to - done) : CHUNK) & ~(size_t)7;
		if (!n) {
			const uint64_t skip = (image_skip(img, done) + 7) & ~(uint64_t)7;
			if (!skip || skip >= to - done)
				break;
			done += skip;
			continue;
		}
		for (size_t i = 0; i < n; i += step) {
			const uint64_t wide = raw_at(buf + i, step), half = raw_at(buf + i, 4);
			for (size_t k = 0; k < n_kinds; k++) {
				const addr_t word = done + i, at = word - (addr_t)(int64_t)kind[k]->mark[0].at;
				if ((first[k].width == 8 ? wide : half) == first[k].raw && at >= from && at <= word && take_context(img, s, kind[k], at, ret))
					return 0;
			}
		}
		done += n;
	}
	return ERR_ABSENT;
}

int signal_frame_next(struct image *img, const struct thread *th, addr_t from, struct signal_frame *ret)
{
	if (!th->regs.sp)
		return ERR_ABSENT;
	addr_t sp = (from ? from : th->regs.sp) & ~(addr_t)7;
	const struct segment *seg = stack_of(img, sp);
	if (!seg)
		return ERR_ABSENT;
	if (sp < seg->start)
		sp = seg->start;
	uint64_t left = seg->size - (sp - seg->start);
	int rc = signal_frame_in(img, sp, sp + (left < STACK_MAX ? left : STACK_MAX), ret);
	if (rc == 0)
		ret->regs.tls = th->regs.tls;
	return rc;
}
