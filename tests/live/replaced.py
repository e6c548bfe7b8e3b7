#!/usr/bin/env python3
"""Files that are not those that ran: a program replaced while it runs, another libc at the same path, another libpython by name,
a libpython that is deleted or replaced.

replaced.py PYSNAP PYANALYZE [NAME...]     NAME: only interpreters whose name contains it

Each candidate is held against the build-id in the image; one that differs is not used, both ids are named, and Python's stacks are as
the program tells them.
"""
import filecmp
import os
import re
import shutil
import signal
import sys
import tempfile

from pythons import find, layouts
from reports import report
from tap import Tap
from target import Target, run

PYSNAP, PYANALYZE = [os.path.abspath(p) for p in sys.argv[1:3]]
tap = Tap()


def stacks(rep):
    """name -> Python's functions, files and lines."""
    out = {}
    for t in rep["threads"]:
        frames = [rep["frames"][i] for i in t["stack"]]
        out[t.get("name")] = [(f["function"], f["file"], f["line"]) for f in frames if f["lang"] == "python"]
    return out


def refused(rep, what):
    """The messages that say that a file was not used, about what; each names two build-ids."""
    return [p["message"] for p in rep["problems"] if p["code"] == "PZ202" and what in p["message"] and
            len(set(re.findall(r"\b[0-9a-f]{40}\b", p["message"]))) == 2]


def elsewhere(python):
    """(a): a core of another root, where this machine has another libc at the same path."""
    name = "%s: analysed elsewhere" % python.name
    target = Target(python, "threads.py", "TRUTH")
    try:
        if not tap.ok(target.wait_ready(), "%s: the program parks" % name, target.text()):
            return
        core, why = target.core(signal.SIGABRT)
        if not core:
            tap.skip(name, why)
            return
        inside, done = report(core, "--sysroot", python.root)
        outside, done2 = report(core)
        if not tap.ok(inside is not None and outside is not None and (done.returncode, done2.returncode) == (0, 0), "%s: reports" % name, done.stderr + done2.stderr):
            return
        tap.equal(refused(inside, "libc.so.6"), [], "%s: with its own root nothing is refused" % name)
        libc = [m for m in outside["modules"] if os.path.basename(m["path"]) == "libc.so.6"]
        here = libc and os.path.exists(libc[0]["path"])
        if here and filecmp.cmp(libc[0]["path"], python.root + libc[0]["path"], shallow=False):
            tap.skip("%s: this machine's libc is refused" % name, "it is the same")
        elif here:
            tap.ok(len(refused(outside, "libc.so.6")) == 1, "%s: this machine's libc is refused, with both ids" % name, outside["problems"])
            tap.equal((libc[0]["symbols"], libc[0].get("file")), ("mismatch", None), "%s: and not used" % name)
        else:
            tap.skip("%s: libc" % name, "this machine has none there")
        tap.equal(stacks(outside), stacks(inside), "%s: the same stacks" % name)
        tap.equal(len([s for s in stacks(outside).values() if s]), 13, "%s: all of them" % name)
    finally:
        target.end()


def replaced(python):
    """(b): the program is moved over by another one while it runs."""
    name = "%s: replaced" % python.name
    program = python.argv[-1]
    inside, other = "/tmp/pyapp.%d" % os.getpid(), "/bin/true"
    real = python.root + program
    if not os.path.isfile(real):
        tap.skip(name, "no file %s" % program)
        return
    shutil.copy(os.path.realpath(real) if not python.root else real, python.root + inside)
    shutil.copy(other, python.root + inside + ".new")
    moved = type("Moved", (), dict(vars(python), argv=python.argv[:-1] + [inside], minor=python.minor))()
    target = Target(moved, "threads.py", "TRUTH")
    try:
        if not tap.ok(target.wait_ready(), "%s: the program parks" % name, target.text()):
            return
        os.rename(python.root + inside + ".new", python.root + inside)
        tap.ok(os.readlink("/proc/%d/exe" % target.pid).endswith(" (deleted)"), "%s: it runs a file that is gone" % name)
        snap = os.path.join(target.top, "snap.pz")
        done = run([PYSNAP, "-q", str(target.pid), "-o", snap])
        tap.equal(done.returncode, 0, "%s: pysnap takes it" % name)
        core, why = target.core(signal.SIGABRT)
        rep, done = report(snap)
        if not tap.ok(rep is not None and done.returncode == 0, "%s: snapshot: report" % name, done.stderr):
            return
        want = stacks(rep)
        tap.equal(len([s for s in want.values() if s]), 13, "%s: snapshot: all stacks" % name)
        # What only the old file has, its unwind tables among them: native stacks go through it to their starts.
        frames = [f for f in rep["frames"] if f["lang"] == "c" and "pyapp" in f.get("module", "")]
        tap.ok(len(frames) > 3 and any(f.get("function") for f in frames), "%s: snapshot: the old file's code and names are in it" % name, frames[:4])
        tap.equal([p["message"] for p in rep["problems"] if p["code"] in ("PZ409", "PZ410", "PZ411")], [], "%s: snapshot: native stacks are whole" % name)
        if not core:
            tap.skip("%s: core" % name, why)
            return
        rep, done = report(core, *(["--sysroot", python.root] if python.root else []))
        if tap.ok(rep is not None and done.returncode == 0, "%s: core: report" % name, done.stderr):
            tap.ok(len(refused(rep, "pyapp")) == 1, "%s: core: the new file is refused, with both ids" % name, rep["problems"])
            tap.equal(stacks(rep), want, "%s: core: the same stacks" % name)
    finally:
        target.end()
        for path in (inside, inside + ".new"):
            if os.path.exists(python.root + path):
                os.unlink(python.root + path)


def library(python):
    """(d): its libpython is deleted, or another file is at its place, while it runs: a snapshot has the old one's code and names.

    Where pysnap may not follow /proc/PID/map_files, as without root, it takes them from memory.
    """
    ask = "import sysconfig as s; print(s.get_config_var('LIBDIR') + '/' + s.get_config_var('INSTSONAME'))"
    mine = run(python.argv + ["-c", ask]).stdout.decode().strip()
    if ".so" not in mine or not os.path.isfile(mine):
        tap.skip("%s: library" % python.name, "no shared library")
        return
    unable = ["setpriv", "--bounding-set=-sys_admin,-checkpoint_restore"]
    with tempfile.TemporaryDirectory(prefix="pysnap-live-") as folder:
        copy = os.path.join(folder, os.path.basename(mine))
        shutil.copy(mine, copy)
        moved = type("Moved", (), dict(vars(python), argv=["env", "LD_LIBRARY_PATH=" + folder] + python.argv, minor=python.minor))()
        target = Target(moved, "threads.py", "TRUTH")
        of_it = [] # of each native frame, whether it is the library's

        def natives(what, before, then=lambda: None):
            name, snap = "%s: library %s" % (python.name, what), os.path.join(target.top, "library.pz")
            done = run(before + [PYSNAP, "-q", str(target.pid), "-o", snap])
            if not tap.equal((done.returncode, done.stderr), (0, b""), "%s: pysnap takes it" % name):
                return None
            then()
            rep, done = report(snap)
            if not tap.ok(rep is not None and done.returncode == 0, "%s: report" % name, done.stderr):
                return None
            os.unlink(snap)
            tap.equal([p["message"] for p in rep["problems"] if p["code"] in ("PZ409", "PZ410", "PZ411")], [], "%s: native stacks are whole" % name)
            frames = [[rep["frames"][i] for i in t["stack"]] for t in sorted(rep["threads"], key=lambda t: t["tid"])]
            of_it[:] = [[os.path.basename(mine) in f.get("module", "") for f in stack if f["lang"] == "c"] for stack in frames]
            return [[f.get("function") for f in stack if f["lang"] == "c"] for stack in frames]
        try:
            if not tap.ok(target.wait_ready(), "%s: library: the program parks" % python.name, target.text()):
                return
            want = natives("at its place", [], lambda: os.unlink(copy))
            if not want:
                return
            named = [n for stack in want for n in stack if n]
            # Who may not open the deleted file has no .symtab of it, but its dynamic table, which is in memory.
            exported = {line.split()[-1].split("@")[0] for line in run(["nm", "-D", "--defined-only", mine]).stdout.decode().splitlines()}
            dynamic = [[n if not inside or n in exported else None for n, inside in zip(stack, places)] for stack, places in zip(want, of_it)]
            tap.ok(len(named) > 20 and not [n for n in named if n in ("_init", "_fini")], "%s: library: names" % python.name, want)
            tap.equal(natives("deleted", []), want, "%s: library deleted: the same frames" % python.name)

            if shutil.which("setpriv"):
                tap.equal(natives("deleted, not root", unable), dynamic, "%s: library deleted, not root: the same frames, names of what is exported" % python.name)
            else:
                tap.skip("%s: library deleted, not root" % python.name, "no setpriv")
            shutil.copy("/bin/true", copy)
            tap.equal(natives("replaced", unable), dynamic, "%s: library replaced, not root: the same frames, names of what is exported" % python.name)
        finally:
            target.end()


def named(python, other):
    """(c): --lib-path with a libpython of that name that is another one."""
    name = "%s: --lib-path with %s's" % (python.name, other.name)
    ask = "import sysconfig as s; print(s.get_config_var('LIBDIR') + '/' + s.get_config_var('INSTSONAME'))"
    mine, theirs = [run(p.argv + ["-c", ask]).stdout.decode().strip() for p in (python, other)]
    if not (os.path.isfile(mine) and os.path.isfile(theirs) and ".so" in mine and ".so" in theirs):
        tap.skip(name, "no shared libraries")
        return
    target = Target(python, "threads.py", "TRUTH")
    with tempfile.TemporaryDirectory(prefix="pysnap-live-") as folder:
        try:
            if not tap.ok(target.wait_ready(), "%s: the program parks" % name, target.text()):
                return
            core, why = target.core(signal.SIGABRT)
            if not core:
                tap.skip(name, why)
                return
            rep, _ = report(core)
            want = stacks(rep)
            tap.equal(len([s for s in want.values() if s]), 13, "%s: all stacks" % name)
            shutil.copy(theirs, os.path.join(folder, os.path.basename(mine)))
            # With the right one out of reach, and with it at its place.
            for what, options in (("alone", ["--sysroot", folder, "--lib-path", folder]), ("beside the right one", ["--lib-path", folder])):
                rep, done = report(core, *options)
                if not tap.ok(rep is not None and done.returncode == 0, "%s: %s: report" % (name, what), done.stderr):
                    continue
                lib = [m for m in rep["modules"] if os.path.basename(m["path"]) == os.path.basename(mine)]
                tap.ok(lib and not lib[0].get("file", "").startswith(folder), "%s: %s: not used" % (name, what), lib)
                if not lib[0].get("file"):
                    tap.ok(len(refused(rep, os.path.join(folder, os.path.basename(mine)))) == 1, "%s: %s: said, with both ids" % (name, what), rep["problems"])
                tap.equal(stacks(rep), want, "%s: %s: the same stacks" % (name, what))
        finally:
            target.end()


def main():
    wanted, known = sys.argv[3:], layouts(PYANALYZE)
    machine = os.uname().machine
    usable = [p for p in find()[0] if (p.minor, p.config) in known and p.minor != "2.7" and p.config.startswith(machine) and
              (not wanted or any(w in p.name for w in wanted))]
    for python in usable:
        if python.root:
            elsewhere(python)
        if not python.root and ".pyenv" in python.argv[0]:
            continue
        if "built" not in python.name:
            replaced(python)
    shared = [p for p in usable if not p.root and ".pyenv" in p.argv[0]]
    for python, other in zip(shared, shared[1:] + shared[:1]):
        if python is not other:
            named(python, other)
    for python in shared:
        library(python)
    tap.done()


main()
