#!/usr/bin/env python3
"""Stacks that are hard to show, over every interpreter: very deep ones, a JIT's, the vdso's, a signal handler's, C and Python by turns.

stacks.py PYSNAP PYANALYZE [NAME...]     NAME: only interpreters whose name contains it
"""
import json
import os
import re
import shutil
import sys
import time

from pythons import find, layouts
from reports import unfolded
from tap import Tap
from target import Target, run

PYANALYZE = os.path.abspath(sys.argv[2])
tap = Tap()
GDB = """
import gdb
frame, n = gdb.newest_frame(), 0
while frame is not None:
    n += frame.type() not in (gdb.INLINE_FRAME, gdb.TAILCALL_FRAME)
    frame = frame.older()
print("COUNT %d" % n)
"""
TOO_LONG = 20 # seconds; how fast it is tools/bench measures, on a machine with nothing else to do


def numbers(python):
    return [int(n) for n in python.minor.split(".")]


class Case:
    """One program's core and what is said of it."""

    def __init__(self, python, *args, **env):
        self.name = "%s: %s" % (python.name, args[0])
        self.python = python
        target = self.target = Target(python, "stacks.py", *args, env=env)
        self.core, why = target.core()
        self.options = ["--sysroot", python.root] if python.root else []
        self.rep = None
        if not self.core:
            said = target.text()
            if "pipe" in why or "ctypes" in said:
                tap.skip(self.name, why if "pipe" in why else "no ctypes")
            else:
                tap.ok(False, "%s: a core" % self.name, why + said[-600:])
            return
        start = time.monotonic()
        done = run([PYANALYZE, "--json", self.core] + self.options)
        self.seconds = time.monotonic() - start
        try:
            self.rep = json.loads(done.stdout)
        except ValueError:
            tap.ok(False, "%s: a report" % self.name, done.stderr.decode("utf-8", "replace"))

    def __enter__(self):
        return self

    def __exit__(self, *why):
        self.target.end()

    def text(self, *options):
        return run([PYANALYZE, self.core, *self.options, *options]).stdout.decode("utf-8", "replace")

    def thread(self):
        return self.rep["threads"][self.rep["verdict"]["thread"]]

    def frames(self):
        """Oldest first, none folded, inlined ones left out."""
        return [f for f in unfolded(self.rep, self.thread()) if not f.get("inlined")]

    def whole(self):
        t = self.thread()
        tap.ok("unmatched" not in t and "native_broken" not in t and "broken" not in t, "%s: merged, and nothing is missing" % self.name,
               (t.get("unmatched"), t.get("native_broken"), t.get("broken")))


def kinds(frames):
    """Python's functions, and runs of C between them as "C"."""
    out = []
    for f in frames:
        word = f["function"] if f["lang"] == "python" else "C"
        if word != "C" or out[-1:] != ["C"]:
            out.append(word)
    return out


def overflows(case, function):
    verdict = case.rep["verdict"]
    tap.ok("stack overflow: in the guard page of the main thread's stack" in verdict["title"], "%s: a stack overflow, in words" % case.name, verdict["title"])
    tap.ok("PZ107" not in [p["code"] for p in case.rep["problems"]], "%s: a stack pointer below the stack is no core without memory" % case.name)
    tap.equal((verdict["location"]["function"], verdict["signal"]["name"]), (function, "SIGSEGV"), "%s: and where" % case.name)
    tap.ok(case.seconds < TOO_LONG, "%s: in time" % case.name, case.seconds)


def filters(python, gdb):
    with Case(python, "filters") as case:
        if not case.rep:
            return
        if case.rep["verdict"]["kind"] != "crash":
            tap.skip(case.name, "it has stack enough")
            return
        overflows(case, "pull")
        case.whole()
        frames = case.frames()
        native = [f for f in frames if f["lang"] == "c"]
        tap.ok(len(native) > 50000, "%s: %d native frames" % (case.name, len(native)))
        tap.ok(len(case.thread()["stack"]) < 100 and len(case.thread()["folded"]) >= 1, "%s: folded" % case.name, len(case.thread()["stack"]))
        python_part = [f["function"] for f in frames if f["lang"] == "python"]
        tap.equal(python_part, ["<module>", "main", "filters", "pull"], "%s: Python's line of next()" % case.name)
        text = case.text()
        said = re.search(r"pull\n(?: +return next\(it\)\n)?(?:  C   .*\n)*  \.\.\. the frame above ([\d,]+) times more\n", text)
        tap.ok(said and int(said.group(1).replace(",", "")) == case.thread()["folded"][0]["repeat"] - 1, "%s: below all of them, with the count" % case.name, text[-900:])
        if gdb and shutil.which("gdb"):
            with open(os.path.join(case.target.top, "count.py"), "w") as f:
                f.write(GDB)
            exe = os.path.realpath(python.argv[0])
            out = run(["gdb", "-nx", "-batch", "-ex", "set backtrace past-entry on", "-ex", "set backtrace past-main on", "-ex", "source " + f.name, exe, case.core],
                      timeout=300)
            tap.equal([b"COUNT %d" % len(native)], re.findall(rb"^COUNT \d+", out.stdout, re.M), "%s: as many as gdb finds" % case.name)


def deep(python):
    calls = 2001 if numbers(python) < [3, 11] else 200001
    with Case(python, "abort", str(calls - 1)) as case:
        if not case.rep:
            return
        case.whole()
        frames = case.frames()
        tap.equal(sum(f["function"] == "spin" for f in frames if f["lang"] == "python"), calls, "%s: Python's calls" % case.name)
        native = [f for f in frames if f["lang"] == "c"]
        tap.ok(len(native) < 60 if calls > 3000 else len(native) > 2000, "%s: over %d native frames" % (case.name, len(native)))
        tap.ok("the frame above %s times more" % "{:,}".format(calls - 2) in case.text() or "frames above" in case.text(), "%s: folded" % case.name, case.text()[-600:])


def endless(python):
    with Case(python, "overflow") as case:
        if not case.rep:
            return
        overflows(case, "endless")
        case.whole()
        python_part = sum(f["lang"] == "python" for f in case.frames())
        tap.ok(python_part > 5000, "%s: %d Python frames" % (case.name, python_part))


def by_turns(python):
    """Where in the recursion the stack ends is chance, which a longer environment stands for: it is no other crash."""
    ids, ends = set(), set()
    for spare in 0, 400, 1300, 3000:
        with Case(python, "by_turns", SPARE="x" * spare) as case:
            if not case.rep:
                return
            verdict = case.rep["verdict"]
            tap.ok("stack overflow: in the guard page of the main thread's stack" in verdict["title"], "%s: a stack overflow, in words" % case.name, verdict["title"])
            ids.add((verdict.get("group_id"), verdict.get("detail_id")))
            ends.add(tuple(f.get("function") for f in case.frames()[-12:]))
    tap.ok(len(ids) == 1 and None not in [group for group, _ in ids], "%s: one id of %d ends" % (case.name, len(ends)), ids)


def jit(python):
    with Case(python, "jit", PYTHON_JIT="1") as case:
        if not case.rep:
            return
        case.whole()
        frames = case.frames()
        compiled = [f for f in frames if f.get("jit")]
        if not compiled:
            tap.skip(case.name, "this build compiles nothing")
            return
        tap.ok(all(f["function"] == "JIT code" and "module" not in f for f in compiled), "%s: JIT code is named" % case.name, compiled)
        tap.equal([w for w in kinds(frames) if w != "C"], ["<module>", "main", "jit", "key", "hot"], "%s: Python's frames" % case.name)
        order = [f["function"] for f in frames if f["lang"] == "python" or f.get("jit")]
        tap.ok(order[-len(compiled):] == ["JIT code"] * len(compiled) and order[-len(compiled) - 1] == "hot", "%s: which run in it" % case.name, order)
        tap.equal(kinds(frames), ["C", "<module>", "main", "jit", "C", "key", "hot", "C"], "%s: the frames beyond it stand where they belong" % case.name)
        text = case.text("-n")
        tap.ok(re.search(r"^  C   JIT code at 0x%x" % int(compiled[0]["pc"], 16), text, re.M), "%s: with its address" % case.name, text[-1500:])
        tap.ok("JIT code" not in case.text(), "%s: which is plumbing" % case.name)


def vdso(python):
    with Case(python, "vdso") as case:
        if not case.rep:
            return
        case.whole()
        last = case.frames()[-1]
        if last.get("module") != "[vdso]":
            tap.skip(case.name, "clock_gettime is no function of the vdso here")
            return
        tap.ok(re.match(r"(__vdso_)?clock_gettime$", last.get("function", "")), "%s: the function has its name" % case.name, last)
        tap.equal(kinds(case.frames())[-2:], ["vdso", "C"], "%s: under the Python frame that called it" % case.name)


def by_signal(python):
    with Case(python, "signal") as case:
        if not case.rep:
            return
        case.whole()
        frames = case.frames()
        at = [i for i, f in enumerate(frames) if f.get("signal_frame")]
        if not tap.ok(len(at) == 1, "%s: one signal frame" % case.name, at):
            return
        below = kinds(frames[:at[0]])
        tap.equal([w for w in below if w != "C"][-2:] + below[-1:], ["by_signal", "interrupted", "C"], "%s: what it interrupted" % case.name)
        above = kinds(frames[at[0]:])
        tap.ok(above[:2] == ["C", "handler"] and above[-1] == "C", "%s: the handler's own frames" % case.name, above)
        tap.ok("(a signal came in the frame above)" in case.text(), "%s: the text says so" % case.name)


def callback(python):
    with Case(python, "callback") as case:
        if not case.rep:
            return
        case.whole()
        got = kinds(case.frames())
        want = ["C", "<module>", "main", "callback", "C", "outer", "C", "called", "C", "generator"]
        # From 3.11 on a generator that a for loop asks may run in the loop's own evaluation frame.
        shorter = want[:-2] + ["generator"]
        if numbers(python) < [3, 11]: # one evaluation frame a Python frame
            want = ["C", "<module>", "C", "main", "C", "callback", "C", "outer", "C", "called", "C", "generator"]
            shorter = want
        got = got[:got.index("generator") + 1] if "generator" in got else got
        tap.ok(got in (want, shorter), "%s: C and Python by turns" % case.name, "%r\n%r" % (got, want))
        folded = case.text()
        tap.ok(folded.count("_PyEval_EvalFrameDefault") == 0 and "frames in" in folded, "%s: machinery is folded" % case.name, folded[-1500:])


def main():
    known, seen = layouts(PYANALYZE), set()
    found, absent = find()
    for python in found:
        wanted = sys.argv[3:]
        if (wanted and not any(w in python.name for w in wanted)) or (python.minor, python.config) not in known or python.config.split("-")[0] not in ("x86_64", "i386"):
            continue
        first = (python.minor, python.config) not in seen
        seen.add((python.minor, python.config))
        for check in (vdso, by_signal, callback):
            tap.part(python, check)
        if not first:
            continue # the rest is the same whoever built it
        tap.part(python, filters, python.minor == "3.12" and not python.root)
        tap.part(python, deep)
        if numbers(python) < [3, 11]:
            tap.part(python, endless)
        if numbers(python) < [3, 12]:
            tap.part(python, by_turns)
    for python in found: # which of a version's builds compiles is not known beforehand
        if numbers(python) >= [3, 13] and (python.minor, python.config) in known and python.config == "x86_64":
            if not sys.argv[3:] or any(w in python.name for w in sys.argv[3:]):
                tap.part(python, jit)
    for name, why in absent:
        tap.skip(name, why)
    tap.done()


main()
