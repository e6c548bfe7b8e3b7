#!/usr/bin/env python3
"""A host whose threads hand thread states around: each thread is shown with what runs in it, whoever made the state.

hosted.py PYSNAP PYANALYZE [NAME...]     NAME: only interpreters whose name contains it

fixtures/programs/hosted.c is compiled against each interpreter's library: a shared one, else the archive.
"""
import json
import os
import re
import shutil
import signal
import sys
import time
import traceback

from pythons import find, layouts
from tap import Tap
from target import PROGRAMS, Target, folder_in, run

PYSNAP, PYANALYZE = [os.path.abspath(p) for p in sys.argv[1:3]]
CC = os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc")
ASK = "import sysconfig as s; print('\\n'.join(str(s.get_config_var(k)) for k in ('LIBDIR', 'LDLIBRARY', 'LIBPL', 'LIBRARY', 'MULTIARCH')))"
LONE = ["pool_0", "pool_1", "pool_2", "owner", "guest", "left", "right", "heir"]
tap = Tap()


def library_of(python):
    """(path in the interpreter's root, is it shared); (None, why)."""
    libdir, shared, libpl, archive, multiarch = run(python.argv + ["-c", ASK]).stdout.decode().split("\n")[:5]
    for path in (os.path.join(libdir, shared), os.path.join(libdir, multiarch, shared), os.path.join(libpl, archive)):
        if os.path.isfile(python.root + path):
            return path, re.search(r"\.so(\.|$)", path) is not None
    return None, "neither %s nor %s is there" % (shared, archive)


class Hosted(Target):
    """The program in place of an interpreter; a Target but for how it starts."""

    def __init__(self, python, program, top, home):
        self.python, self.top, self.folder = python, top, top
        inside = program[len(python.root):]
        env = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "ASAN", "UBSAN", "LD_"))}
        if home:
            env["PYTHONHOME"] = home
        self.start([inside], env, python.root)


def compiled(python, top):
    """(path, "") or (None, why)."""
    library, shared = library_of(python)
    if not library:
        return None, shared
    out = os.path.join(top, "hosted")
    real = os.path.realpath(python.root + library) if not python.root else python.root + library
    flags = [real, "-Wl,-rpath," + os.path.dirname(library), "-Wl,--unresolved-symbols=ignore-in-shared-libs"] if shared else ["-rdynamic", real, "-ldl", "-lutil", "-lm"]
    done = run([CC, "-w", "-O1", "-pthread", "-o", out, os.path.join(PROGRAMS, "hosted.c")] + flags)
    return (out, "") if done.returncode == 0 else (None, "it does not link: " + done.stderr.decode("utf-8", "replace").strip().split("\n")[0])


def check(name, path, roles, native):
    done = run([PYANALYZE, "--json"] + ([] if native else ["--show=-native"]) + [path])
    try:
        rep = json.loads(done.stdout)
    except ValueError:
        tap.ok(False, "%s: report" % name, done.stderr.decode("utf-8", "replace"))
        return
    at = {}
    for t in rep["threads"]:
        if "tid" in t:
            frames = [rep["frames"][i] for i in t["stack"]]
            at.setdefault(t["tid"], []).append([f["function"] for f in frames if f["lang"] == "python"])
    got = {role: at.get(tid) for role, tid in roles.items()}
    want = {role: [["<module>", role]] for role in LONE}
    want.update(first=[[]], spare=[[]], nested=[["<module>", "outer", "<module>", "inner"]])
    tap.equal(got, want, "%s: who runs what" % name)
    tap.equal(sorted(at), sorted(roles.values()), "%s: no thread is made up" % name)
    tap.equal([t.get("tid") for t in rep["threads"] if t["main"]], [roles["first"]], "%s: the main thread" % name)
    tap.equal([t for t in rep["threads"] if "stale" in t["state"] and t["stack"] or t.get("broken")], [], "%s: none is lost or left over" % name)
    doubts = ("PZ401", "PZ402", "PZ407", "PZ413", "PZ415", "PZ421", "PZ422")
    tap.equal([p for p in rep["problems"] if p["code"] in doubts], [], "%s: nothing of it is in doubt" % name)


def host(python):
    top = folder_in(python.root)
    target = None
    try:
        program, why = compiled(python, top)
        if not program:
            tap.skip("%s: embedded" % python.name, why)
            return
        home = run(python.argv + ["-c", "import sys; print(sys.prefix)"]).stdout.decode().strip()
        target = Hosted(python, program, top, home)
        if not target.wait_ready():
            text = target.text()
            if re.search(r"version `GLIBC_[0-9.]+' not found", text):
                tap.skip("%s: embedded" % python.name, "its system is older than the one that compiles")
            elif "called without holding the GIL" in text and python.config.endswith("-d"):
                tap.skip("%s: embedded" % python.name, "this debug build ends a process whose threads take over a state")
            else:
                tap.ok(False, "%s: it starts" % python.name, text)
            return
        roles = {role: int(tid) for role, tid in re.findall(r"^(\w+) (\d+)$", target.text(), re.M)}
        if not tap.equal(sorted(roles), sorted(LONE + ["first", "spare", "nested"]), "%s: all threads" % python.name):
            return
        time.sleep(0.3)
        snap = os.path.join(top, "snap.pz")
        done = run([PYSNAP, "-q", "-f", str(target.pid), "-o", snap])
        if tap.equal(done.returncode, 0, "%s: pysnap takes it" % python.name):
            check("%s: snapshot" % python.name, snap, roles, True)
            check("%s: snapshot, by Python's alone" % python.name, snap, roles, False)
        core, why = target.core(signal.SIGABRT)
        if core:
            check("%s: core" % python.name, core, roles, True)
        else:
            tap.skip("%s: core" % python.name, why)
    except Exception:
        tap.ok(False, "%s: ends" % python.name, traceback.format_exc())
    finally:
        if target:
            target.end()
        shutil.rmtree(top, ignore_errors=True)


def main():
    wanted, known = sys.argv[3:], layouts(PYANALYZE)
    found, absent = find()
    for name, why in absent:
        tap.skip(name, why)
    if not CC:
        tap.skip("hosts", "no C compiler")
        tap.done()
        return
    for python in found:
        if wanted and not any(w in python.name for w in wanted):
            continue
        if (python.minor, python.config) not in known:
            tap.skip("%s: embedded" % python.name, "no layout table")
        elif not python.config.startswith(os.uname().machine):
            tap.skip("%s: embedded" % python.name, "another machine's")
        else:
            host(python)
    tap.done()


main()
