#!/usr/bin/env python3
"""Objects of every way to be stored, read out of a snapshot of every interpreter found, with no file of it at hand.

usage: objects.py PYSNAP PYANALYZE OBJECTS_READ
"""
import os
import sys

from pythons import find, layouts
from tap import Tap
from target import Target, run

PYSNAP, PYANALYZE, READ = [os.path.abspath(p) for p in sys.argv[1:4]]


def main():
    tap = Tap()
    known = layouts(PYANALYZE)
    interpreters, absent = find()
    for name, why in absent:
        tap.skip("objects of " + name, why)
    for python in interpreters:
        name = "objects of " + python.name
        if (python.minor, python.config) not in known:
            tap.skip(name, "no table of its version yet")
            continue
        target = Target(python, "objects.py")
        try:
            snap = os.path.join(target.top, "snap.pz")
            if not tap.ok(target.wait_ready(), "%s: the program parks" % name, target.text()):
                continue
            taken = run([PYSNAP, str(target.pid), "-o", snap])
            if not tap.ok(taken.returncode == 0, "%s: pysnap takes it" % name, taken.stderr):
                continue
            got = run([READ, snap]).stdout.decode("utf-8", "replace").split("\n")
            want = target.text().split("\n")
            want = want[: want.index("READY")] + [""]
            wrong = ["got:  %s\nwant: %s" % (g[:200], w[:200]) for g, w in zip(got, want) if g != w]
            tap.ok(got == want and len(want) > 40, "%s: %d lines" % (name, len(want) - 1), "\n".join(wrong) or "%d lines" % len(got))
        finally:
            target.end()
    tap.done()


if __name__ == "__main__":
    main()
