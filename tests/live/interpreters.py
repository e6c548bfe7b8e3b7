#!/usr/bin/env python3
"""Subinterpreters: all of them, each with its thread state, and one thread that has two is still one thread.

interpreters.py PYSNAP PYANALYZE [NAME...]
"""
import json
import os
import signal
import sys

from pythons import find, layouts
from tap import Tap
from target import Target, run

PYSNAP, PYANALYZE = [os.path.abspath(p) for p in sys.argv[1:3]]
tap = Tap()


def check(name, path, tids, *options):
    done = run([PYANALYZE, "--json", *options, path])
    try:
        rep = json.loads(done.stdout)
    except ValueError:
        tap.ok(False, "%s: report" % name, done.stderr)
        return
    tap.equal(sorted(i["id"] for i in rep["interpreters"])[:1] + [len(rep["interpreters"])], [0, 4], "%s: four interpreters" % name)
    tap.equal([i["main"] for i in rep["interpreters"]].count(True), 1, "%s: one is the main one" % name)
    tap.equal(sorted({t["tid"] for t in rep["threads"] if "tid" in t}), tids, "%s: no thread is made up" % name)
    tap.equal(sum(p["code"] == "PZ413" for p in rep["problems"]), 0, "%s: who runs which is known" % name)
    for k in (1, 2, 3):
        at = [t for t in rep["threads"] if any(rep["frames"][i].get("function") == "tenant_%d" % k for i in t["stack"])]
        if not tap.equal(len(at), 1, "%s: tenant_%d stands in one thread" % (name, k)):
            continue
        tap.ok(at[0]["interpreter"] != 0, "%s: tenant_%d runs in a further interpreter" % (name, k), at[0])
        tap.equal(at[0].get("name"), "tenant-%d" % k, "%s: tenant_%d's thread" % (name, k))
        # One thread, one stack: from the main interpreter into the other, and each frame knows its own.
        frames = [rep["frames"][i] for i in at[0]["stack"]]
        chain = [(f["function"].strip("_"), f["interpreter"]) for f in frames if f["lang"] == "python"]
        other = at[0]["interpreter"]
        tap.equal((chain[0], chain[-2:]), (("bootstrap", 0), [("<module>", other), ("tenant_%d" % k, other)]), "%s: tenant_%d's chain" % (name, k))
        tap.equal([i for n, (_, i) in enumerate(chain) if not n or chain[n - 1][1] != i], [0, other], "%s: tenant_%d's order" % (name, k))
        tap.equal(at[0].get("interpreters"), [0, other], "%s: tenant_%d's interpreters" % (name, k))
    tap.equal([p["message"] for p in rep["problems"] if p["code"] == "PZ411"], [], "%s: native and Python frames match" % name)
    text = run([PYANALYZE, *options, path]).stdout.decode()
    tap.ok("\n4 threads with 7 thread states" in text, "%s: four threads" % name, "\n".join(text.splitlines()[:8]))
    tap.ok(text.count("  --- in interpreter 0:\n") == 3, "%s: the text shows where it goes over" % name, text)


def handed_over(python, path):
    """One lock for all is free for a moment when one thread hands it to the next: an instant to leave out, not to test."""
    done = run([PYANALYZE, "--json", path])
    gils = [i.get("gil") for i in json.loads(done.stdout)["interpreters"]] if done.stdout else []
    return [int(n) for n in python.minor.split(".")] < [3, 12] and gils and not any(g and g["locked"] for g in gils)


def locks(name, python, path):
    """Who computes holds a lock: its own interpreter's from 3.12 on, before that the only one."""
    done = run([PYANALYZE, "--json", path])
    rep = json.loads(done.stdout) if done.stdout else None
    if not tap.ok(rep is not None and done.returncode == 0, "%s: report" % name, done.stderr.decode("utf-8", "replace")):
        return
    at = {}
    for t in rep["threads"]:
        for i in t["stack"]:
            if rep["frames"][i].get("function", "").startswith("tenant_"):
                at[t["interpreter"]] = t
    gils = {i["id"]: i.get("gil") for i in rep["interpreters"]}
    if "-t" in python.config:
        tap.equal([g for g in gils.values() if g and g["locked"]], [], "%s: nobody holds a lock that there is not" % name)
        return
    text = run([PYANALYZE, path]).stdout.decode()
    if [int(n) for n in python.minor.split(".")] >= [3, 12]:
        tap.equal({i: gils[i] for i in at}, {i: {"locked": True, "holder_tid": t["tid"]} for i, t in at.items()}, "%s: each its own" % name)
        tap.equal(["gil" in t["state"] for t in at.values()], [True] * 3, "%s: each thread says so" % name)
        tap.ok(text.count("; of interpreter ") == 3, "%s: the text, too" % name, text[:900])
    else:
        holders = {g.get("holder_tid") for g in gils.values()}
        tap.ok(len(holders) == 1 and all(g["locked"] for g in gils.values()), "%s: one for all" % name, gils)
        named = [t.get("tid") for t in at.values() if "gil" in t["state"]]
        if [int(n) for n in python.minor.split(".")] >= [3, 10]:
            tap.equal(named, sorted(holders - {None}), "%s: the thread says so" % name)


def busy(python):
    if python.minor in ("3.9", "3.10", "3.11"):
        tap.skip("%s: busy" % python.name, "a request for the lock does not reach a thread of another interpreter there")
        return
    for last in (False, False, True):
        target = Target(python, "interpreters.py", "busy")
        try:
            ready, snap = target.wait_ready(), os.path.join(target.top, "snap.pz")
            taken = run([PYSNAP, "-q", "-f", str(target.pid), "-o", snap]).returncode if ready else None
            core, why = target.core(signal.SIGABRT) if ready else (None, "")
            if not last and taken == 0 and (handed_over(python, snap) or (core and handed_over(python, core))):
                continue
            if not tap.ok(ready, "%s: the program computes" % python.name, target.text()):
                return
            tap.equal(taken, 0, "%s: busy: pysnap takes it" % python.name)
            locks("%s: busy: snapshot" % python.name, python, snap)
            if core:
                locks("%s: busy: core" % python.name, python, core)
            else:
                tap.skip("%s: busy: core" % python.name, why)
            return
        finally:
            target.end()


def parked(python):
    target = Target(python, "interpreters.py")
    try:
        if not tap.ok(target.wait_ready(), "%s: the program parks" % python.name, target.text()):
            return
        tids = sorted(int(t) for t in os.listdir("/proc/%d/task" % target.pid))
        snap = os.path.join(target.top, "snap.pz")
        tap.equal(run([PYSNAP, "-q", str(target.pid), "-o", snap]).returncode, 0, "%s: pysnap takes it" % python.name)
        check("%s: snapshot" % python.name, snap, tids)
        core, why = target.core(signal.SIGABRT)
        if core:
            check("%s: core" % python.name, core, tids, *(["--sysroot", python.root] if python.root else []))
            if python.root and [int(n) for n in python.minor.split(".")] < [3, 10]:
                # Without names nor code, which a core leaves out, nothing tells the evaluation loop; that both are shown is said.
                said = [p["message"] for p in json.loads(run([PYANALYZE, "--json", core]).stdout)["problems"] if p["code"] == "PZ411"]
                tap.ok(len(said) == 1 and "no evaluation frame is known by name" in said[0], "%s: core, its files are not here: said" % python.name, said)
        else:
            tap.skip("%s: core" % python.name, why)
    finally:
        target.end()


def main():
    known = layouts(PYANALYZE)
    for python in find()[0]:
        if (python.minor, python.config) not in known or (sys.argv[3:] and not any(w in python.name for w in sys.argv[3:])):
            continue
        if run(python.argv + ["-c", "import _interpreters"]).returncode and run(python.argv + ["-c", "import _xxsubinterpreters"]).returncode:
            tap.skip(python.name, "it has no module for interpreters")
            continue
        tap.part(python, parked)
        tap.part(python, busy)
    tap.done()


main()
