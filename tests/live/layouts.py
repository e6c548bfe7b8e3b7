#!/usr/bin/env python3
"""Every interpreter of this machine reads its own memory through the built-in table of its version.

usage: layouts.py SOURCE_ROOT

A table is "proven" (its `had` line) when all that prove_layout.py can ask agrees on a live interpreter of that build.
"""
import os
import subprocess
import sys

from pythons import find, foreign
from tap import Tap

HERE = os.path.dirname(os.path.abspath(__file__))

# What nothing in the interpreter tells, and why.  All else is asked.
UNTOLD = {
    "PyFrame.return_offset": "where the caller goes on, which is in no object",
    "PyGCHead.refs": "the collector's own count, of the time while it runs",
    "PyGil.cond": "pthread's, opaque", "PyGil.mutex": "pthread's, opaque",
    "PyObject.ob_flags": "of the interpreter's own objects",
    "PyStackChunk.top": "of chunks that are full",
    "PyThread.status": "bits that are told one by one, where they are",
    "PyUnicode.state": "bits that are told one by one",
}
UNTOLD_FREE_THREADED = {
    "PyGC.generation0": "no list", "PyGC.permanent": "no list", "PyGCHead.next": "no list", "PyGCHead.prev": "no list",
    "PyGil.enabled": "the lock is off",
    "PyObject.ob_gc_bits": "the collector's", "PyObject.ob_ref_local": "merged at any time", "PyObject.ob_ref_shared": "merged at any time", "PyObject.ob_tid": "merged at any time",
}


def table_for(tables, version):
    """The newest table of the same minor version that is not newer."""
    best = None
    for name in os.listdir(tables):
        numbers = [int(n) for n in name[: -len(".layout")].split(".")]
        if numbers[:2] == version[:2] and numbers <= version and (best is None or numbers > best[0]):
            best = numbers, os.path.join(tables, name)
    return best and best[1]


def main():
    tap = Tap()
    tables = os.path.join(sys.argv[1], "formats", "layouts")
    with open(os.path.join(HERE, "prove_layout.py"), encoding="utf-8") as f:
        program = f.read()
    interpreters, absent = [a + b for a, b in zip(find(), foreign())]
    for name, why in absent:
        tap.skip("layout of " + name, why)
    for python in interpreters:
        name = "layout of " + python.name
        table = table_for(tables, [int(n) for n in python.version.split(".")])
        if not table:
            tap.skip(name, "no table of its version yet")
            continue
        with open(table, encoding="ascii") as f:
            text = f.read()
        source = "TABLE = r'''%s'''\nexec(compile(%r, 'prove_layout.py', 'exec'), globals())\n" % (text, program)
        try:
            done = subprocess.run(python.argv + ["-"], input=source.encode(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60)
        except subprocess.TimeoutExpired:
            tap.ok(False, name, "took more than a minute")
            continue
        lines = done.stdout.decode("utf-8", "replace").splitlines()
        if len(lines) == 1 and lines[0].startswith("no column "):
            tap.skip(name, "its table has " + lines[0])
            continue
        agree = {line.split()[0] for line in lines if line.endswith(" ok")}
        unasked = {line.split()[0] for line in lines if line.endswith(" unasked")} - set(UNTOLD) - set(UNTOLD_FREE_THREADED if python.config.endswith("-t") else ())
        wrong = [line for line in lines if not line.endswith((" ok", " unasked"))]
        tap.ok(done.returncode == 0 and not wrong and len(agree) > 100 and not unasked, "%s: %d fields" % (name, len(agree)),
               "\n".join(wrong) or "exit status %d, %d fields agree, not asked for: %s" % (done.returncode, len(agree), ", ".join(sorted(unasked))))
    tap.done()


if __name__ == "__main__":
    main()
