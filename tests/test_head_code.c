/* What the instructions of PyInterpreterState_Head() return, in the bytes of builds that are about. */
#include <check.h>
#include <elf.h>
#include <stdlib.h>
#include <string.h>

#include "python/head_code.h"
#include "suite.h"

static const struct abi x86_64 = { EM_X86_64, 8, false }, i386 = { EM_386, 4, false }, aarch64 = { EM_AARCH64, 8, false };

static const struct {
	const char *what;
	const struct abi *abi;
	addr_t at;
	const char *bytes;
	size_t len;
	int rc;
	addr_t slot;
	bool indirect;
	uint64_t offset;
} cases[] = {
#define CODE(text) text, sizeof(text) - 1
	{ "2.7.18 shared", &x86_64, 0x116e00, CODE("\x48\x8b\x05\xc9\x08\x0e\x00\xc3"), 0, 0x1f76d0, false, 0 },
	{ "3.6.15 shared", &x86_64, 0x174b90, CODE("\x48\x8b\x05\x49\xa3\x18\x00\xc3"), 0, 0x2feee0, false, 0 },
	{ "3.8.18 shared", &x86_64, 0x1b21e0, CODE("\x48\x8b\x05\x91\x8a\x16\x00\x48\x8b\x40\x20\xc3"), 0, 0x31ac78, true, 0x20 },
	{ "3.13.5", &x86_64, 0x710d00, CODE("\xf3\x0f\x1e\xfa\x48\x8b\x05\x6d\xe9\x32\x00\xc3"), 0, 0xa3f678, false, 0 },
	{ "2.7.18 not optimised", &x86_64, 0x199a8b, CODE("\x55\x48\x89\xe5\x48\x8b\x05\xd2\xb5\x27\x00\x5d\xc3"), 0, 0x415068, false, 0 },
	{ "the address first", &x86_64, 0x1000, CODE("\x48\x8d\x05\xf9\x0f\x00\x00\x48\x8b\x80\x00\x02\x00\x00\xc3"), 0, 0x2200, false, 0 },
	{ "through another register", &x86_64, 0x1000, CODE("\x48\x8b\x15\xf9\x0f\x00\x00\x48\x8b\x42\x18\xc3"), 0, 0x2000, true, 0x18 },
	{ "below", &x86_64, 0x5000, CODE("\x48\x8b\x05\xf9\xef\xff\xff\xc3"), 0, 0x4000, false, 0 },
	{ "2.7.18 i386", &i386, 0x89eea, CODE("\xe8\x35\x1e\x0d\x00\x05\x11\x71\x2a\x00\x8b\x80\xe8\x02\x06\x00\xc3"), 0, 0x3912e8, false, 0 },
	{ "thunk of ecx", &i386, 0x1000, CODE("\xe8\x00\x00\x00\x00\x81\xc1\xfb\x0f\x00\x00\x8b\x81\x10\x00\x00\x00\x8b\x40\x20\xc3"), 0, 0x2010, true, 0x20 },
	{ "3.11.2 i386", &i386, 0x82e7390, CODE("\xa1\x3c\x1a\x6a\x08\xc3"), 0, 0x86a1a3c, false, 0 },
	{ "i386 above 2 GiB", &i386, 0xb7000000, CODE("\xa1\x3c\x1a\x6a\xb7\xc3"), 0, 0xb76a1a3c, false, 0 },
	{ "i386 around the top", &i386, 0xfffff000, CODE("\xe8\x00\x00\x00\x00\x05\xfb\x1f\x00\x00\x8b\x00\xc3"), 0, 0x1000, false, 0 },
	{ "3.11.2 aarch64", &aarch64, 0x68cf00, CODE("\x40\x1d\x00\xd0\x00\x10\x40\xf9\xc0\x03\x5f\xd6"), 0, 0xa36020, false, 0 },
	{ "3.13.5 aarch64", &aarch64, 0x6efee0, CODE("\x5f\x24\x03\xd5\xc0\x19\x00\x90\x00\x88\x44\xf9\xc0\x03\x5f\xd6"), 0, 0xa27910, false, 0 },
	{ "aarch64, GOT", &aarch64, 0x1000, CODE("\x00\x00\x00\xb0\x00\x08\x40\xf9\x00\x14\x40\xf9\xc0\x03\x5f\xd6"), 0, 0x2010, true, 0x28 },
	{ "aarch64, add", &aarch64, 0x1000, CODE("\x00\x00\x00\xb0\x00\x40\x00\x91\x00\x04\x40\xf9\xc0\x03\x5f\xd6"), 0, 0x2018, false, 0 },
	{ "aarch64, below", &aarch64, 0x5000, CODE("\xe0\xff\xff\xf0\x00\x00\x40\xf9\xc0\x03\x5f\xd6"), 0, 0x4000, false, 0 },

	{ "nothing", &x86_64, 0x1000, CODE(""), ERR_CORRUPT, 0, false, 0 },
	{ "cut", &x86_64, 0x1000, CODE("\x48\x8b\x05\xc9\x08"), ERR_CORRUPT, 0, false, 0 },
	{ "no return", &x86_64, 0x1000, CODE("\x48\x8b\x05\xf9\x0f\x00\x00\x90\x90"), ERR_CORRUPT, 0, false, 0 },
	{ "returns at once", &x86_64, 0x1000, CODE("\xc3"), ERR_ABSENT, 0, false, 0 },
	{ "returns an argument's field", &x86_64, 0x1000, CODE("\x48\x8b\x07\xc3\x90\x90\x90\x90"), ERR_ABSENT, 0, false, 0 },
	{ "returns an address", &x86_64, 0x1000, CODE("\x48\x8d\x05\xf9\x0f\x00\x00\xc3"), ERR_ABSENT, 0, false, 0 },
	{ "three loads", &x86_64, 0x1000, CODE("\x48\x8b\x05\xf9\x0f\x00\x00\x48\x8b\x40\x20\x48\x8b\x40\x20\xc3"), ERR_ABSENT, 0, false, 0 },
	{ "a jump", &x86_64, 0x1000, CODE("\xe9\x00\x00\x00\x00\xc3\x90\x90"), ERR_ABSENT, 0, false, 0 },
	{ "not aligned", &x86_64, 0x1000, CODE("\x48\x8b\x05\xfa\x0f\x00\x00\xc3"), ERR_ABSENT, 0, false, 0 },
	{ "far behind the pointer", &x86_64, 0x1000, CODE("\x48\x8b\x05\xf9\x0f\x00\x00\x48\x8b\x80\x00\x00\x00\x40\xc3"), ERR_ABSENT, 0, false, 0 },
	{ "an index register", &x86_64, 0x1000, CODE("\x48\x8b\x04\x25\x00\x00\x00\x00\xc3"), ERR_ABSENT, 0, false, 0 },
	{ "another call than a thunk", &i386, 0x1000, CODE("\xe8\x00\x00\x00\x00\x8b\x00\xc3\x90\x90\x90\x90\x90"), ERR_ABSENT, 0, false, 0 },
	{ "aarch64, half an instruction", &aarch64, 0x1000, CODE("\x40\x1d\x00\xd0\x00\x10"), ERR_CORRUPT, 0, false, 0 },
	{ "aarch64, 32-bit load", &aarch64, 0x1000, CODE("\x00\x00\x00\xb0\x00\x08\x40\xb9\xc0\x03\x5f\xd6"), ERR_ABSENT, 0, false, 0 },
};

START_TEST(what_it_returns)
{
	struct head_code got = { .slot = 7 };
	/* In memory of its own, so that a byte too many is seen. */
	uint8_t *copy = malloc(cases[_i].len + 1);
	memcpy(copy, cases[_i].bytes, cases[_i].len);
	int rc = head_code_read(cases[_i].abi, cases[_i].at, copy, cases[_i].len, &got);
	ck_assert_msg(rc == cases[_i].rc, "%s: %d", cases[_i].what, rc);
	if (rc < 0) {
		ck_assert_uint_eq(got.slot, 7);
	} else {
		ck_assert_msg(got.slot == cases[_i].slot && got.indirect == cases[_i].indirect && got.offset == cases[_i].offset,
			      "%s: 0x%llx %d 0x%llx", cases[_i].what, (unsigned long long)got.slot, got.indirect, (unsigned long long)got.offset);
		/* Cut anywhere, it says so. */
		size_t end = cases[_i].len;
		for (size_t len = 0; len < end; len++)
			ck_assert_msg(head_code_read(cases[_i].abi, cases[_i].at, copy, len, &got) < 0, "%s cut to %zu", cases[_i].what, len);
	}
	free(copy);
}
END_TEST

START_TEST(other_machines)
{
	struct abi arm = { EM_ARM, 4, false };
	struct head_code got = { .slot = 7 };
	ck_assert_int_eq(head_code_read(&arm, 0x1000, (const uint8_t *)"\0\0\0\0", 4, &got), ERR_UNSUPPORTED);
	ck_assert_uint_eq(got.slot, 7);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("head_code");
	TCase *t = tcase_create("head_code");
	tcase_add_loop_test(t, what_it_returns, 0, COUNT(cases));
	tcase_add_test(t, other_machines);
	suite_add_tcase(s, t);
	return suite_run(s);
}
