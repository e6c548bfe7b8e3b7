#!/usr/bin/env python3
"""Crashes of every kind that a verdict tells apart, on every interpreter: their cores, and what is said of them.

crashes.py PYSNAP PYANALYZE [NAME...]     NAME: only interpreters whose name contains it
"""
import json
import os
import re
import sys

from pythons import find, layouts
from tap import Tap
from target import Target, run

PYANALYZE = os.path.abspath(sys.argv[2])
tap = Tap()


def crash(python, case, *options):
    """(report, text, core's path, target) of a program that has crashed; None after a check that says why."""
    target, name = Target(python, "crash.py", case), "%s: %s" % (python.name, case)
    core, why = target.core()
    if not core:
        said = target.text()
        if "pipe" in why:
            tap.skip(name, why)
        elif "_ctypes" in said or "libffi" in said:
            tap.skip(name, "no ctypes")
        else:
            tap.ok(False, "%s: a core" % name, why + "\n" + said)
        target.end()
        return None
    options = list(options) + (["--sysroot", python.root] if python.root else [])
    done = run([PYANALYZE, "--json", core] + options)
    text = run([PYANALYZE, core] + options).stdout.decode("utf-8", "replace")
    try:
        rep = json.loads(done.stdout)
    except ValueError:
        tap.ok(False, "%s: report" % name, done.stderr.decode("utf-8", "replace"))
        target.end()
        return None
    return rep, text, core, target


def line(text, key):
    """What a line of the verdict says."""
    found = re.search(r"^  %s +(.*)$" % key, text, re.M)
    return found.group(1) if found else None


def place(python, text):
    """The line of crash.py that has this in it."""
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "fixtures", "programs", "crash.py"), encoding="utf-8") as f:
        return [i for i, s in enumerate(f, 1) if text in s][0]


def exceptions(python):
    """case: (type, its text, the function that handles it, a part of the line that raised it)."""
    old, name = python.minor == "2.7", python.name
    cases = {
        "top": ("ValueError", "invalid literal for int() with base 10: 'zz'", "top", 'int("zz")'),
        "oserror": ("IOError", "[Errno 2] No such file or directory: '/nonexistent/e'", "handled", "open(") if old else
                   ("FileNotFoundError", "[Errno 2] No such file or directory: '/nonexistent/é'", "handled", "open("),
        "text": ("RuntimeError", "bé \x1b[31m 中", "handled", "raise RuntimeError(u"),
        "nothing": ("RuntimeError", "", "handled", "raise RuntimeError\n"),
        "syntax": ("SyntaxError", "invalid syntax (bad.py, line 1)", "handled", "compile("),
        "deep": ("ValueError", "('deep', 1.5, %s, None, [True, (1,)])" % ("'\\xff'" if old else "b'\\xff'"), "handled", 'raise ValueError("deep"'),
        "chosen": ("Rejected", "(42, 'order 7')", "handled", "raise Rejected(42"),
        "generator": None if old else ("KeyError", "'missing'", "generator", 'raise KeyError("missing")'),
        "group": ("ExceptionGroup", "several (2 sub-exceptions)", "handled", "raise ExceptionGroup("),
        "thread": ("ValueError", "invalid literal for int() with base 10: 'zz'", "top", 'int("zz")'),
        # 2.7 forgets when the function returns, later ones when the handler ends.
        "after": None,
    }
    if [int(n) for n in python.minor.split(".")] < [3, 11]:
        del cases["group"]
    for case, want in cases.items():
        got = crash(python, case)
        if not got:
            continue
        rep, text, _, target = got
        name = "%s: %s" % (python.name, case)
        found = [e for e in rep.get("exceptions", [{"type": "not known"}]) if e["state"] == "handled"]
        if want is None:
            tap.equal((found, line(text, "exception")), ([], "none was being handled"), "%s: nothing is handled" % name)
        elif tap.ok(len(found) == 1, "%s: one is handled" % name, rep.get("exceptions")):
            e = found[0]
            passed = [rep["frames"][i] for i in e["traceback"]]
            tap.equal((e.get("type"), e.get("value"), e["tid"]), want[:2] + (rep["verdict"]["tid"],), "%s: type and message" % name)
            tap.equal((passed[0]["function"], passed[-1]["line"]), (want[2], place(python, want[3])), "%s: where" % name)
            if case == "deep":
                tap.ok(e["frame_count"] == 402 and len(passed) < 100, "%s: the two ends of its traceback" % name, e)
            said = line(text, "exception") or ""
            tap.ok(said.startswith(want[0]) and "handled in " + want[2] in said and ":%d)" % passed[-1]["line"] in said and "\x1b" not in text,
                   "%s: a line of it" % name, text[:600])
        if case == "thread":
            first = rep["threads"][0]
            tap.equal((first.get("name"), first["main"], "crashed" in first["state"]), ("crasher", False, True), "%s: whose it is" % name)
        target.end()


def main():
    wanted, known = sys.argv[3:], layouts(PYANALYZE)
    found, absent = find()
    for python in found:
        if wanted and not any(w in python.name for w in wanted):
            continue
        if (python.minor, python.config) not in known:
            tap.skip("crashes of " + python.name, "no table of its version yet")
            continue
        for check in (exceptions,):
            check(python)
    for name, why in absent:
        if not wanted:
            tap.skip("crashes of " + name, why)
    tap.done()


main()
