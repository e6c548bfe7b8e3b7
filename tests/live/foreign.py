#!/usr/bin/env python3
"""Interpreters of other machines, run by qemu's user emulation: a core of the guest is read here, and what is said of its Python
stacks is compared with what the program says of itself.

foreign.py PYANALYZE [NAME...]     NAME: only interpreters whose name contains it

qemu 7.2 writes the registers of every thread and no thread pointers, no NT_FILE, no NT_SIGINFO, and no text. 3.13 and later are
found without any of it by their cookie, older ones by struct pthread at the ends of stacks, and by the program's symbols where that
is named with -e. What such a core lacks is covered by images built in memory (tests/test_runtime.c, test_elf_core.c).
"""
import glob
import json
import os
import re
import shutil
import signal
import sys

from pythons import foreign
from reports import unfolded
from tap import Tap
from target import Target, run

PYANALYZE = os.path.abspath(sys.argv[1])
tap = Tap()


def stacks(rep):
    """thread name -> [(function, file, line)], oldest first, folded pieces unfolded; threads without Python frames are left out."""
    out = {}
    for t in rep["threads"]:
        whole = [(f["function"], f["file"], f.get("line")) for f in unfolded(rep, t)]
        if whole:
            out.setdefault(t.get("name"), []).append(whole)
    return out


def guest_core(target, send=signal.SIGABRT):
    """The core that qemu writes of the guest; beside it lies qemu's own, which nobody wants."""
    if send:
        os.kill(target.pid, send)
    target.process.wait(120)
    found = glob.glob(os.path.join(glob.escape(target.folder), "qemu_*.core"))
    return found[0] if found else None


def check(python):
    name = python.name
    program = "threads27.py" if python.minor == "2.7" else "threads.py"
    first = Target(python, program, "TRUTH")
    try:
        if not tap.ok(first.wait_ready(), "%s: the program parks" % name, first.text()):
            return
        truth = first.ask_truth()
        if not tap.ok(truth is not None, "%s: it tells of itself" % name, first.text()):
            return
        folder = os.path.dirname(first.script)
    finally:
        first.end()
    second = Target(python, program, "TRUTH")
    try:
        if not tap.ok(second.wait_ready(), "%s: the program parks again" % name, second.text()):
            return
        core = guest_core(second)
        if not core:
            tap.skip("%s: core" % name, "this qemu writes none")
            return
        moved = json.loads(json.dumps(truth).replace(json.dumps(folder)[1:-1], json.dumps(os.path.dirname(second.script))[1:-1]))
        old = [int(n) for n in python.minor.split(".")] < [3, 13]
        done = run([PYANALYZE, "--json", "--show=-native"] + (["-e", python.argv[-1]] if old else []) + [core])
        if not tap.ok(done.returncode == 0, "%s: report" % name, done.stderr.decode("utf-8", "replace")):
            return
        rep = json.loads(done.stdout)
        if old: # without its file, it is found by its threads, and all of it is shown
            alone = run([PYANALYZE, "--json", "--show=-native", core])
            if tap.ok(alone.returncode == 0, "%s: without its file: report" % name, alone.stderr.decode("utf-8", "replace")):
                without = json.loads(alone.stdout)
                tap.equal((without["python"].get("found_by"), stacks(without)), ("search", stacks(rep)), "%s: without its file: found, and the same stacks" % name)
        tap.equal((rep["python"].get("version"), rep["python"].get("layout", "").split(" ")[-1]), (truth["version"], python.config), "%s: version and table" % name)
        got = stacks(rep)
        want = {t["name"]: [[(f["function"], f["file"], f["line"]) for f in t["stack"]]] for t in moved["threads"]}
        tap.equal(sorted(map(repr, got)), sorted(map(repr, want)), "%s: thread names" % name)
        for thread in sorted(want):
            tap.equal(got.get(thread), want[thread], "%s: stack of %r" % (name, thread))
        tids = [t.get("tid") for t in rep["threads"] if t["stack"]]
        tap.ok(None not in tids and len(set(tids)) == len(tids), "%s: every thread has a kernel thread of its own" % name, tids)
        tap.equal([t.get("name") for t in rep["threads"] if t["main"]], ["MainThread"], "%s: the main thread" % name)
        doubts = ("PZ401", "PZ402", "PZ407", "PZ412", "PZ415", "PZ418", "PZ421", "PZ422")
        tap.equal([p for p in rep["problems"] if p["code"] in doubts] + [t["broken"] for t in rep["threads"] if "broken" in t], [], "%s: nothing is called lost" % name)
        tap.equal([t["name"] for t in rep["threads"] if t.get("state", []) and "stale" in t["state"]], [], "%s: none is said to have ended" % name)
    finally:
        second.end()


NOT_SAID = r": the core does not say who sent it"
UNTOLD = r"SIGSEGV: (a fault, or sent by another process: which is not in the core|access to address 0x[0-9a-f]+ \(nothing is mapped there\))"
# case of crash.py: the title, the innermost Python function; without NT_SIGINFO only a call of nothing is known to be a fault
CRASHES = (
    ("fault", "SIGSEGV" + NOT_SAID, "string_at"), ("abort", "SIGABRT" + NOT_SAID, "under"), ("same-sent", "SIGSEGV" + NOT_SAID, "same"),
    ("same-null", r"SIGSEGV: execution of address 0x0 \(a (call of|call of or jump to|jump to|jump or return to) a null pointer\)", "same"),
    ("faulthandler", UNTOLD, "string_at"), ("handler", UNTOLD + "|SIGABRT" + NOT_SAID, "string_at"), # qemu's frames on ARM keep nothing of a fault
)


def crashes(python):
    """Nothing is said for certain of a guest's crash, and nothing wrong: the place in Python's code, and ids that are a certain crash's in no case."""
    ids = {}
    for case, title, function in CRASHES:
        if case == "faulthandler" and python.minor == "2.7":
            continue
        name, target = "%s: %s" % (python.name, case), Target(python, "crash.py", case)
        try:
            core = guest_core(target, None)
            if not core:
                tap.skip(name, "no ctypes" if "_ctypes" in target.text() or "libffi" in target.text() else "this qemu writes none")
                continue
            done = run([PYANALYZE, "--json", "-e", python.argv[-1], core])
            if not tap.ok(done.returncode == 0, "%s: report" % name, done.stderr.decode("utf-8", "replace")):
                continue
            rep = json.loads(done.stdout)
            verdict = rep["verdict"]
            tap.ok(verdict["kind"] == "crash" and re.fullmatch(title, verdict["title"]), "%s: title" % name, verdict["title"])
            tap.equal((verdict["confidence"], (verdict.get("location") or {}).get("function")), ("likely", function), "%s: where, and how sure" % name)
            tap.equal(verdict.get("ids_likely", False), "group_id" in verdict, "%s: its ids are not a certain one's" % name)
            tap.ok("called_from" not in verdict or case == "same-null", "%s: no call is said to have led to where no code is" % name, verdict.get("called_from"))
            tap.ok(not [s for s in verdict.get("explain", []) if " ran then" in s and not s.startswith("a signal handler")], "%s: no handler is named by frames that are likely" % name,
                   verdict.get("explain"))
            ids[case] = verdict.get("group_id")
        finally:
            target.end()
    known = [i for i in ("same-sent", "same-null") if ids.get(i)]
    tap.equal(len({ids[i] for i in known}), len(known), "%s: a call of nothing and a signal that was sent have different ids" % python.name)


def main():
    found, absent = foreign()
    for python in found:
        if not sys.argv[2:] or any(w in python.name for w in sys.argv[2:]):
            tap.part(python, check)
            tap.part(python, crashes)
    for name, why in absent:
        tap.skip(name, why)
    if not found:
        tap.skip("interpreters of other machines", "none here; tools/pythons --all fetches some" if shutil.which("qemu-aarch64-static") else "no qemu-aarch64-static")
    tap.done()


main()
