#!/usr/bin/env python3
"""Refuse an include against the grain.

    check_layers.py ROOT        exit 0: fine; 1: complaints, one a line, FILE:LINE: what

Data flows one way, and so do includes: a file in src/X/ includes only its own layer and those in LAYERS[X].  Two more
rules keep what can go wrong in one place: libdw is for src/module alone, and only src/cmd writes to standard output or
standard error (base/mem.c may say that memory is out before it ends the program).
With --self-test, checks that each rule is enforced, in a folder of its own.
"""
import os
import re
import sys
import tempfile

LAYERS = {
    "base": (),
    "image": ("base",),
    "snap": ("base", "image"),
    "module": ("base", "image"),
    "python": ("base", "image", "module"),
    "model": ("base",),
    "inspect": ("base", "image", "module", "python", "model"),
    "render": ("base", "model"),
    "cmd": ("base", "image", "snap", "module", "python", "model", "inspect", "render"),
}
INCLUDE = re.compile(r'\s*#\s*include\s*(?:"([^"]+)"|<([^>]+)>)')
LIBDW = re.compile(r"(elfutils/)?(libdw|libdwfl|libdwelf|dwarf)\.h$|elfutils/(known-dwarf)\.h$")
PRINT = re.compile(r"\b(printf|puts|putchar|vprintf|perror|psignal|err|errx|warn|warnx|verr|vwarn)\s*\("
                   r"|\b(stdout|stderr)\b|\bSTD(OUT|ERR)_FILENO\b|\b(dprintf|write)\s*\(\s*[12]\s*,")
# Written to by the program itself as it dies.
MAY_PRINT = {"base/mem.c"}
# Made at build time from data in formats/ (fields.gen.h), or lists of rows there (registers.def).
GENERATED = re.compile(r"^[a-z_]+\.(gen\.h|def)$|^config\.h$")


def strip(text):
    """The text without comments and the contents of strings, line for line; include lines stay whole."""
    def blank(match):
        s = match.group(0)
        if s.startswith("/"):
            return " " + "\n" * s.count("\n")
        return s[0] + s[0]
    out = []
    for line in re.sub(r'/\*.*?\*/|//[^\n]*', blank, protect(text), flags=re.S).split("\n"):
        out.append(line if INCLUDE.match(line) else re.sub(r'"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])*\'', blank, line))
    return "\n".join(out)


def protect(text):
    """Comment openers inside of strings are no comments."""
    return re.sub(r'"(?:\\.|[^"\\\n])*"', lambda m: m.group(0).replace("/*", "/ *").replace("//", "/ /"), text)


def check_file(root, layer, path, complain):
    rel = os.path.relpath(path, os.path.join(root, "src"))
    with open(path, encoding="utf-8") as f:
        lines = strip(f.read()).split("\n")
    for number, line in enumerate(lines, 1):
        where = "src/%s:%d" % (rel, number)
        match = INCLUDE.match(line)
        if match:
            name = match.group(1) or match.group(2)
            if LIBDW.search(name) and layer != "module":
                complain("%s: <%s>: libdw is for src/module" % (where, name))
            if match.group(1):
                check_include(root, layer, where, name, complain)
        elif layer != "cmd" and rel not in MAY_PRINT:
            match = PRINT.search(line)
            if match:
                complain("%s: '%s': only src/cmd prints" % (where, match.group(0).strip()))


def check_include(root, layer, where, name, complain):
    first = name.split("/")[0]
    if ".." in name.split("/"):
        complain('%s: "%s": from src/, without ..' % (where, name))
    elif "/" not in name:
        if not GENERATED.match(name) and os.path.exists(os.path.join(root, "src", layer, name)):
            complain('%s: "%s": write "%s/%s"' % (where, name, layer, name))
        elif not GENERATED.match(name):
            complain('%s: "%s" is in no layer' % (where, name))
    elif first not in LAYERS:
        complain('%s: "%s" is in no layer' % (where, name))
    elif first != layer and first not in LAYERS[layer]:
        allowed = ", ".join((layer,) + LAYERS[layer])
        complain('%s: "%s": src/%s includes only %s' % (where, name, layer, allowed))


def check(root):
    complaints = []
    src = os.path.join(root, "src")
    for layer in sorted(os.listdir(src)):
        folder = os.path.join(src, layer)
        if layer not in LAYERS:
            complaints.append("src/%s: no such layer" % layer)
            continue
        for base, _, names in sorted(os.walk(folder)):
            for name in sorted(names):
                if name.endswith((".c", ".h")):
                    check_file(root, layer, os.path.join(base, name), complaints.append)
    return complaints


SELF_TEST = [
    # layer, text of a file in it, what must be said ("" for nothing)
    ("base", '#include "image/image.h"', "includes only base"),
    ("image", '#include "base/err.h"\n#include "image/image.h"', ""),
    ("image", '#include "module/module.h"', "includes only image, base"),
    ("image", '#  include "python/py.h"', "includes only image"),
    ("model", '#include "image/image.h"', "includes only model"),
    ("render", '#include "python/py.h"', "includes only render"),
    ("python", '#include "model/report.h"', "includes only python"),
    ("snap", '#include "python/py.h"', "includes only snap"),
    ("inspect", '#include "snap/freeze.h"', "includes only inspect"),
    ("inspect", '#include "python/py.h"\n#include <elf.h>\n#include "fields.gen.h"', ""),
    ("cmd", '#include "snap/freeze.h"\n#include "render/render.h"', ""),
    ("image", '#include "../module/module.h"', "without .."),
    ("image", '#include "file.h"', "is in no layer"),
    ("image", '/* #include "module/module.h" */', ""),
    ("python", "#include <elfutils/libdw.h>", "libdw is for"),
    ("python", "#include <dwarf.h>", "libdw is for"),
    ("module", "#include <elfutils/libdwfl.h>", ""),
    ("image", 'void f(void) { printf("x"); }', "only src/cmd prints"),
    ("image", 'void f(void) { fprintf(stderr, "x"); }', "only src/cmd prints"),
    ("image", "void f(void) { write(1, 0, 0); }", "only src/cmd prints"),
    ("image", "void f(void) { perror(0); }", "only src/cmd prints"),
    ("image", 'void f(void) { snprintf(b, 9, "stderr // printf("); g(stderr_of); } /* printf(stdout) */', ""),
    ("image", 'const char *s = "/*";\nvoid f(void) { puts(s); }\n/* */', "only src/cmd prints"),
    ("render", "void f(FILE *out) { fprintf(out, 0); my_printf(0); sb_printf(0); }", ""),
    ("cmd", 'void f(void) { fprintf(stderr, "x"); }', ""),
]


def self_test():
    failed = 0
    for number, (layer, text, want) in enumerate(SELF_TEST, 1):
        with tempfile.TemporaryDirectory() as root:
            os.makedirs(os.path.join(root, "src", layer))
            with open(os.path.join(root, "src", layer, "x.c"), "w", encoding="utf-8") as f:
                f.write(text + "\n")
            got = check(root)
        good = want in got[0] if want and len(got) == 1 else not got and not want
        failed += not good
        print("%s %d - %s: %s" % ("ok" if good else "not ok", number, layer, text.split("\n")[0]))
        if not good:
            print("# got %r" % got)
    return failed, len(SELF_TEST)


def main():
    if len(sys.argv) == 3 and sys.argv[1] == "--self-test":
        failed, n = self_test()
        got = check(sys.argv[2])
        print("%s %d - every include in src/ goes with the grain" % ("not ok" if got else "ok", n + 1))
        for line in got:
            print("# " + line)
        print("1..%d" % (n + 1))
        return 1 if failed or got else 0
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    got = check(sys.argv[1])
    for line in got:
        print(line)
    return 1 if got else 0


if __name__ == "__main__":
    sys.exit(main())
