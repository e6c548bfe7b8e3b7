#!/usr/bin/env python3
"""tools/gen_fields.py: what it refuses, with file and line, and that the same input gives the same bytes.

usage: gen_fields.py SOURCE_ROOT
"""
import os
import subprocess
import sys
import tempfile

ROOT = sys.argv[1]
GEN = os.path.join(ROOT, "tools", "gen_fields.py")
FIELDS = "struct A T\n  one ptr one\n  two off:A.one x.y\n  three size:A z\n  four at $size(B)\n"
TRAITS = "trait t X=0 Y=1\n  X 2.7..3.9 : here\n  Y 3.10.. if has A.one : there\ntrait u\n  -3 3.13.1..3.13.4 if size A 2 : s\n"

# (fields, traits, the message)
BAD = [
    ("struct A\n", TRAITS, "fields:1: expected: struct NAME TYPE[|TYPE...]"),
    ("struct A T\nstruct A U\n", TRAITS, "fields:2: struct A is there already"),
    ("one ptr one\n", TRAITS, "fields:1: expected: FIELD KIND PATH[|PATH...]"),
    ("struct A T\n  one ptr\n", TRAITS, "fields:2: expected: FIELD KIND PATH[|PATH...]"),
    ("struct A T\n  one ptr one\n# c\n  one ptr two\n", TRAITS, "fields:4: field A.one is there already"),
    ("struct A T\n  one pointer one\n", TRAITS, "fields:2: unknown kind pointer"),
    ("struct A T\n  one ptr one..two\n", TRAITS, "fields:2: malformed path one..two"),
    ("struct A T\n  one ptr $sizes\n", TRAITS, "fields:2: malformed path $sizes"),
    ("struct A T\n  one off:A.two x\n", TRAITS, "fields:2: unknown target A.two"),
    ("struct A T\n  one off:A x\n", TRAITS, "fields:2: unknown target A"),
    ("struct A T\n  one size:B x\n", TRAITS, "fields:2: unknown target B"),
    (FIELDS, "trait t X=one\n", "traits:1: malformed value X=one"),
    (FIELDS, "trait t\ntrait t\n", "traits:2: expected: trait NEWNAME [WORD=NUMBER ...]"),
    (FIELDS, "  1 2.7.. : s\n", "traits:1: expected: VALUE FROM..[TO] [if COND] : SOURCE"),
    (FIELDS, "trait t\n  1 2.7..\n", "traits:2: expected: VALUE FROM..[TO] [if COND] : SOURCE"),
    (FIELDS, "trait t X=0\n  Y 2.7.. : s\n", "traits:2: unknown value Y"),
    (FIELDS, "trait t X=0\n  0 2.7.. : s\n", "traits:2: unknown value 0"),
    (FIELDS, "trait t\n  1 2.7 : s\n", "traits:2: malformed range 2.7"),
    (FIELDS, "trait t\n  1 3..4 : s\n", "traits:2: malformed version 3"),
    (FIELDS, "trait t\n  1 3.9..3.8 : s\n", "traits:2: empty range 3.9..3.8"),
    (FIELDS, "trait t\n  1 3.9.. if has A.on : s\n", "traits:2: unknown field A.on"),
    (FIELDS, "trait t\n  1 3.9.. if size B 2 : s\n", "traits:2: malformed condition if size B 2"),
    (FIELDS, "trait t\n  1 3.9.. when x : s\n", "traits:2: malformed condition when x"),
    (FIELDS, "trait t\n", "traits:1: trait t has no rows"),
]


def run(folder, fields, traits):
    for name, text in (("fields", fields), ("traits", traits)):
        with open(os.path.join(folder, name), "w", encoding="ascii") as f:
            f.write(text)
    done = subprocess.run([sys.executable, GEN, "fields", "traits", "out.h", "out.c"], cwd=folder, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, universal_newlines=True)
    if done.returncode:
        return None, done.stderr.strip()
    return "".join(open(os.path.join(folder, out), encoding="ascii").read() for out in ("out.h", "out.c")), ""


def main():
    n = failed = 0

    def ok(good, name, detail=""):
        nonlocal n, failed
        n += 1
        failed += not good
        print("%s %d - %s" % ("ok" if good else "not ok", n, name))
        if not good:
            print("#   " + detail)
    with tempfile.TemporaryDirectory() as folder:
        for fields, traits, message in BAD:
            text, got = run(folder, fields, traits)
            ok(text is None and got == message, "refused: " + message, "got: " + got)
        text, got = run(folder, FIELDS, TRAITS)
        ok(text is not None, "a good pair is taken", got)
        ok(text == run(folder, FIELDS, TRAITS)[0], "the same input gives the same bytes")
        for want in ("F_A_two,", "S_A,", "T_u,", "T_X = 0, T_Y = 1", '{ "two", S_A, K_OFF, F_A_one, 0, "x.y" }',
                     '{ "three", S_A, K_SIZE, 0, S_A, "z" }', "{ T_t, TRAIT_ALWAYS, 0, 0x02070000, 0x0309ffff, 0, 0 }",
                     "{ T_t, TRAIT_IF_HAS, 1, 0x030a0000, 0xffffffff, F_A_one, 0 }",
                     "{ T_u, TRAIT_IF_SIZE, -3, 0x030d0100, 0x030d04ff, S_A, 2 }"):
            ok(want in (text or ""), "written: " + want)
    print("1..%d" % n)
    sys.exit(1 if failed else 0)


main()
