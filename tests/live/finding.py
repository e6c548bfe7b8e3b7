#!/usr/bin/env python3
"""Pythons that are linked, loaded and stripped in odd ways: each is found, by the way that is left, in cores and snapshots.

finding.py PYSNAP PYANALYZE [NAME...]     NAME: only interpreters whose name contains it

fixtures/programs/webfront.c embeds them.  What the cheaper ways need is taken away: symbols by strip, sections by a header that names
none, exports by linking the archive.
"""
import os
import re
import resource
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time

from pythons import find, layouts
from reports import report
from tap import Tap
from target import PROGRAMS, Target, run

PYSNAP, PYANALYZE = [os.path.abspath(p) for p in sys.argv[1:3]]
CC = os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc")
tap = Tap()


def key(python):
    return [int(n) for n in python.minor.split(".")]


class Host:
    """The program, in a folder of its own."""

    def __init__(self, argv, home=None):
        self.top = tempfile.mkdtemp(prefix="pysnap-find-")
        env = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "ASAN", "UBSAN", "LD_"))}
        if home:
            env["PYTHONHOME"] = home
        self.out = open(os.path.join(self.top, "out"), "w+b")
        self.process = subprocess.Popen(argv, cwd=self.top, env=env, stdin=subprocess.DEVNULL, stdout=self.out, stderr=subprocess.STDOUT,
                                        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CORE, (resource.RLIM_INFINITY,) * 2))
        self.pid = self.process.pid

    def text(self):
        with open(self.out.name, "rb") as f:
            return f.read().decode("utf-8", "replace")

    def ready(self):
        for _ in range(400):
            if "READY" in self.text():
                time.sleep(0.3)
                return True
            if self.process.poll() is not None:
                return False
            time.sleep(0.05)
        return False

    def snapshot(self):
        path = os.path.join(self.top, "snap.pz")
        done = run([PYSNAP, "-q", "-f", str(self.pid), "-o", path])
        return (path, "") if done.returncode == 0 else (None, done.stderr.decode())

    def core(self):
        with open("/proc/sys/kernel/core_pattern") as f:
            if f.read().startswith("|"):
                return None, "kernel.core_pattern is a pipe"
        os.kill(self.pid, signal.SIGABRT)
        self.process.wait(60)
        names = [n for n in os.listdir(self.top) if "core" in n]
        return (os.path.join(self.top, names[0]), "") if names else (None, "no core was written")

    def end(self):
        self.process.kill()
        self.process.wait()
        self.out.close()
        shutil.rmtree(self.top, ignore_errors=True)


def functions(rep, thread):
    frames = [rep["frames"][i] for i in thread["stack"]]
    return [f["function"] for f in frames if f["lang"] == "python"]


def serves(name, rep, done, first, count):
    """Threads req-N of apps first to first + count - 1, one an interpreter, and a main thread that runs no Python."""
    if not tap.ok(rep is not None and done.returncode == 0, "%s: report" % name, done.stderr.decode("utf-8", "replace")):
        return False
    interps = rep["interpreters"]
    tap.equal([i["main"] for i in interps], [True] + [False] * (count - 1), "%s: interpreters" % name)
    seen = {}
    for t in rep["threads"]:
        here = [f for f in functions(rep, t) if f.startswith("app_")]
        if here:
            seen[here[0]] = (t.get("name"), t.get("interpreter"), functions(rep, t)[0].strip("_"))
    want = {"app_%d" % n: ("req-%d" % n, interps[n - first]["id"], "bootstrap") for n in range(first, first + count)}
    tap.equal(seen, want, "%s: threads of each" % name)
    main = [t for t in rep["threads"] if t["main"]]
    tap.equal([(functions(rep, t), t.get("waits_in")) for t in main], [([], "pause")], "%s: the main thread runs no Python" % name)
    return True


def serves_which(rep):
    """The number of the only app that it shows."""
    seen = {f for t in rep["threads"] for f in functions(rep, t) if f.startswith("app_")} if rep else ()
    return int(seen.pop()[4:]) if len(seen) == 1 else None


def check(name, argv, home, found_by, first=0, count=1, core_only=False, options=(), problems=()):
    """Snapshot and core; found_by: of the core."""
    host = Host(argv, home)
    try:
        if not tap.ok(host.ready(), "%s: it starts" % name, host.text()):
            return
        if not core_only:
            snap, why = host.snapshot()
            if tap.ok(snap is not None, "%s: pysnap takes it" % name, why):
                rep, done = report(snap, *options)
                if serves("%s: snapshot" % name, rep, done, first, count):
                    tap.equal([p["code"] for p in rep["problems"] if p["code"] in ("PZ307", "PZ305")], list(problems), "%s: snapshot: problems" % name)
        core, why = host.core()
        if not core:
            tap.skip("%s: core" % name, why)
            return
        rep, done = report(core, *options)
        if serves("%s: core" % name, rep, done, first, count):
            tap.equal(rep["python"]["found_by"], found_by, "%s: core: how it is found" % name)
            tap.equal([p["code"] for p in rep["problems"] if p["code"] in ("PZ307", "PZ305")], list(problems), "%s: core: problems" % name)
            return rep
    finally:
        host.end()
    return None


class Made:
    """What is compiled and copied for one interpreter."""

    def __init__(self, python, folder):
        ask = "import sysconfig as s; print('\\n'.join(str(s.get_config_var(k)) for k in ('LIBDIR', 'LDLIBRARY', 'LIBPL', 'LIBRARY', 'prefix')))"
        got = run(python.argv + ["-c", ask]).stdout.decode().split("\n")
        self.libdir, self.shared, self.libpl, self.archive, self.home = got[:5]
        self.shared = os.path.realpath(os.path.join(self.libdir, self.shared))
        self.archive = os.path.join(self.libpl, self.archive)
        self.folder, self.python = folder, python
        self.is_shared = self.shared.endswith(".so") or ".so." in self.shared

    def cc(self, name, *flags):
        out = os.path.join(self.folder, name)
        done = run([CC, "-w", "-o", out, os.path.join(PROGRAMS, "webfront.c")] + list(flags))
        return (out, "") if done.returncode == 0 else (None, done.stderr.decode("utf-8", "replace"))

    def linked(self):
        return self.cc("webfront", "-DLINKED", self.shared, "-Wl,-rpath," + os.path.dirname(self.shared), "-ldl")

    def static(self, name, *flags):
        return self.cc(name, "-DLINKED", *flags, self.archive, "-lpthread", "-ldl", "-lutil", "-lm")

    def library(self, name):
        """A copy of the shared library, stripped, as lib/NAME of an installation that is otherwise this one."""
        lib = os.path.join(self.folder, "copy", "lib")
        if not os.path.isdir(lib):
            os.makedirs(lib)
            inside = "python" + self.python.minor
            os.symlink(os.path.join(self.home, "lib", inside), os.path.join(lib, inside))
        path = os.path.join(lib, name)
        shutil.copy(self.shared, path)
        os.chmod(path, 0o755)
        return strip(path)


def strip(path):
    run(["strip", "-s", path], check=True)
    return path


def without_sections(path):
    """No section headers: neither a symbol table nor .PyRuntime can be found in the file."""
    with open(path, "r+b") as f:
        data = bytearray(f.read(64))
        struct.pack_into("<Q", data, 40, 0)
        struct.pack_into("<HHH", data, 58, 0, 0, 0)
        f.seek(0)
        f.write(data)
    return path


def static(python, made):
    """The archive linked into a program: it exports nothing unless asked."""
    name = python.name
    if not os.path.exists(made.archive):
        tap.skip("%s: linked statically" % name, "no %s" % os.path.basename(made.archive))
        return
    version = key(python)
    only_head = "-Wl,--export-dynamic-symbol=PyInterpreterState_Head"
    hidden = "cookie" if version >= [3, 13] else "search"
    rows = [
        # name, flags, what is taken away, how it is found
        ("symbols", ["-no-pie"], (), "symbol"),
        ("stripped", ["-pie"], (strip,), "section" if version >= [3, 10] else "search"),
        ("no sections", ["-no-pie"], (strip, without_sections), hidden),
        ("no sections, PIE", ["-pie"], (strip, without_sections), hidden),
        ("exports", ["-rdynamic", "-pie"], (strip, without_sections), "dynamic"),
        ("one export", [only_head, "-pie"], (strip, without_sections), "head_code"),
    ]
    for what, flags, taken, found_by in rows:
        program, why = made.static("app." + what.replace(" ", "."), *flags)
        if not program:
            tap.skip("%s: static, %s" % (name, what), why.strip().split("\n")[-1])
            continue
        for take in taken:
            take(program)
        check("%s: static, %s" % (name, what), [program, "subs", "1"], made.home, found_by, count=2)
        if what == "symbols":
            check("%s: static, mapped twice" % name, [program, "map", program], made.home, found_by)
        os.unlink(program)


def shared(python, made):
    name = python.name
    program, why = made.linked()
    loader, why2 = made.cc("loader", "-ldl")
    if not tap.ok(program and loader, "%s: webfront compiles" % name, why + why2):
        return
    usual = "dynamic" if key(python) >= [3, 7] else "symbol"
    check("%s: embedded, three interpreters" % name, [program, "subs", "2"], made.home, usual, count=3)
    check("%s: the library mapped twice" % name, [program, "map", made.shared, "map", made.shared], made.home, usual)
    # Up to 3.6 the list of interpreters is a local variable, which strip takes away.
    other_name = made.library("app.bin")
    check("%s: as app.bin, stripped" % name, [loader, "start", other_name, "subs", "2"], None, "dynamic" if usual == "dynamic" else "head_code", count=3)
    without_sections(other_name)
    check("%s: as app.bin, no sections" % name, [loader, "start", other_name], None, "dynamic" if usual == "dynamic" else "head_code")


def two(first, second, made_first, made_second):
    """Two runtimes in one process: one of them only loaded, or both alive."""
    loader, why = made_first.cc("loader2", "-ldl")
    if not loader:
        tap.skip("two runtimes", why)
        return
    a, b = made_first.shared, made_second.shared
    names = "%s and %s" % (first.name, second.name)
    usual = {made_first: "dynamic" if key(first) >= [3, 7] else "symbol", made_second: "dynamic" if key(second) >= [3, 7] else "symbol"}
    check("%s: the second is only loaded, first" % names, [loader, "load", b, "start", a], None, usual[made_first])
    check("%s: the second is only loaded, last" % names, [loader, "start", a, "load", b], None, usual[made_first])
    host = Host([loader, "start", a, "start", b])
    try:
        if not tap.ok(host.ready(), "%s: both start" % names, host.text()):
            return
        snap, why = host.snapshot()
        core, why2 = host.core()
        for what, path in (("snapshot", snap), ("core", core)):
            if not path:
                tap.skip("%s: both alive: %s" % (names, what), why + why2)
                continue
            for python, n in ((first, 0), (second, 1)):
                rep, done = report(path, "--python-version=" + python.minor)
                if not serves("%s: both alive: %s: %s chosen" % (names, what, python.minor), rep, done, n, 1):
                    continue
                tap.equal(rep["python"]["version"], python.version, "%s: both alive: %s: version" % (names, what))
                other = second if python is first else first
                said = [p for p in rep["problems"] if p["code"] == "PZ307"]
                tap.ok(len(said) == 1 and "(%s, " % other.version in said[0]["message"] and "--runtime=0x" in said[0]["hint"],
                       "%s: both alive: %s: the other is told of" % (names, what), said)
                if said:
                    rep, done = report(path, said[0]["hint"].split()[0])
                    if serves("%s: both alive: %s: %s by its address" % (names, what, other.minor), rep, done, 1 - n, 1):
                        tap.equal(rep["python"]["version"], other.version, "%s: both alive: %s: by its address: version" % (names, what))
                    at = int(re.search("0x[0-9a-f]+", said[0]["hint"]).group(), 16)
                    for wrong in at + 1, 0x1234:
                        rep, done = report(path, "--runtime=0x%x" % wrong)
                        message = [p["message"] for p in rep["problems"] if p["code"] == "PZ310"]
                        tap.ok(done.returncode == 5 and message and message[0].startswith("no Python is at 0x%x; those found: 0x" % wrong) and "0x%x (Python " % at in message[0],
                               "%s: both alive: %s: none at 0x%x: which there are" % (names, what, wrong), message)
                        tap.ok(not any("no interpreter" in s for s in rep["verdict"].get("explain", [])) and not any("native" in t["state"] for t in rep["threads"]),
                               "%s: both alive: %s: none at 0x%x: nothing is made up" % (names, what, wrong), rep["verdict"])
            rep, done = report(path)
            tap.equal((done.returncode, [p["code"] for p in rep["problems"] if p["code"] == "PZ307"]), (0, ["PZ307"]), "%s: both alive: %s" % (names, what))
    finally:
        host.end()
    # Twice the same version, and under a name that does not tell: only its address can choose it.
    host = Host([loader, "start", a, "start", made_first.library("engine.bin")])
    try:
        ready = host.ready()
        if key(first) < [3, 8]: # its second copy takes the first one's thread state for its own: a fatal error, in 3.7 a crash
            tap.equal((ready, host.process.poll()), (False, -signal.SIGSEGV if key(first) == [3, 7] else -signal.SIGABRT), "%s twice: ends the process" % first.name)
            return
        if not tap.ok(ready, "%s twice: both start" % first.name, host.text()):
            return
        snap, why = host.snapshot()
        if not snap:
            tap.skip("%s twice" % first.name, why)
            return
        rep, done = report(snap)
        said = [p for p in rep["problems"] if p["code"] == "PZ307"]
        if tap.ok(len(said) == 1 and "(%s, " % first.version in said[0]["message"], "%s twice: the other is told of" % first.name, said):
            shown = [serves_which(rep)]
            rep, done = report(snap, said[0]["hint"].split()[0])
            shown.append(serves_which(rep))
            tap.equal(sorted(shown), [0, 1], "%s twice: each can be shown" % first.name)
    finally:
        host.end()


def newer(known):
    """A process that says it is of the next minor version: its own debug offsets are used, and that is said."""
    newest = max((int(m.split(".")[1]) for m, _ in known))
    found = [p for p in find()[0] if p.minor == "3.%d" % newest and p.config == os.uname().machine]
    if newest < 13 or not found:
        tap.skip("newer than any table", "no Python 3.%d here" % newest)
        return
    target = Target(found[0], "threads.py", "TRUTH")
    try:
        if not tap.ok(target.wait_ready(), "newer: the program parks", target.text()):
            return
        snap, core = os.path.join(target.top, "snap.pz"), os.path.join(target.top, "newer")
        tap.equal(run([PYSNAP, "-q", str(target.pid), "-o", snap]).returncode, 0, "newer: pysnap takes it")
        want, _ = report(snap)
        version = int(want["python"]["hex"], 16)
        with open(core, "wb") as out:
            out.write(run(["zcat", snap]).stdout.replace(struct.pack("<I", version), struct.pack("<I", version + 0x10000)))
        rep, done = report(core)
        if not tap.ok(rep is not None and done.returncode == 0, "newer: report", done.stderr.decode()):
            return
        text = "3.%d.%d" % (newest + 1, version >> 8 & 255)
        tap.ok(rep["python"]["version"].startswith(text), "newer: version", rep["python"])
        said = [p["message"] for p in rep["problems"] if p["code"] == "PZ303"]
        tap.ok(len(said) == 1 and ("Python " + text) in said[0] and "its own debug offsets are used" in said[0], "newer: it is said", rep["problems"])
        tap.equal({t.get("name"): functions(rep, t) for t in rep["threads"]}, {t.get("name"): functions(want, t) for t in want["threads"]}, "newer: stacks")
        tap.equal(len([t for t in rep["threads"] if functions(rep, t)]), 13, "newer: all of them")
    finally:
        target.end()


def none():
    """No Python: what was tried, what became of it, and what would help."""
    host = Host(["sh", "-c", "echo READY; exec sleep 1000"])
    try:
        host.ready()
        done = run([PYSNAP, str(host.pid), "-o", os.path.join(host.top, "x.pz")])
        tap.ok(done.returncode == 5 and b"does not run CPython" in done.stderr, "no Python: pysnap", done.stderr)
        core, why = host.core()
        if not core:
            tap.skip("no Python: core", why)
            return
        rep, done = report(core)
        said = [p for p in rep["problems"] if p["code"] == "PZ301"] if rep else []
        if tap.ok(done.returncode == 5 and len(said) == 1, "no Python: exit code", done.stderr):
            for part in ("symbols: none of _PyRuntime, interp_head and _PyThreadState_Current in the files that are mapped (", "section .PyRuntime: in none of the files that are here (",
                         "instructions: no PyInterpreterState_Head", "cookie of 3.13 and later: nowhere in writable memory",
                         "thread pointers: words that are one of the threads' (1): ", "; none is a thread state's"):
                tap.ok(any(part in line for line in said[0]["details"]) and part not in said[0]["message"], "no Python: it says: %s" % part, said)
            tap.ok("is recognized as CPython's" in said[0]["message"] and b"pyanalyze: found no CPython\n  why: " in done.stderr, "no Python: in one sentence, and on standard error", (said, done.stderr))
            tap.ok("if it is no Python program, which is likely" in said[0]["hint"] and "-e PROGRAM" in said[0]["hint"], "no Python: what would help", said)
    finally:
        host.end()


def main():
    wanted, known = sys.argv[3:], layouts(PYANALYZE)
    if not CC or not shutil.which("strip"):
        tap.skip("embedded Pythons", "no C compiler or no strip")
        newer(known)
        tap.done()
        return
    usable = [p for p in find()[0] if not p.root and p.config == os.uname().machine and (p.minor, p.config) in known and
              (not wanted or any(w in p.name for w in wanted))]
    with tempfile.TemporaryDirectory(prefix="pysnap-find-") as folder:
        seen = []
        for python in usable:
            place = os.path.join(folder, python.name)
            os.mkdir(place)
            made = Made(python, place)
            if made.is_shared and os.path.exists(made.shared):
                shared(python, made)
                seen.append((python, made))
            else:
                tap.skip("%s: embedded" % python.name, "it has no shared library")
            if key(python) >= [3, 8]: # up to 3.7 modules are linked with libpython, and bring a second one with them
                static(python, made)
        # webfront finds an installation by where its library is.
        seen = [(p, m) for p, m in seen if os.path.dirname(m.shared) == os.path.join(m.home, "lib")]
        for (first, m1), (second, m2) in zip(seen, seen[1:]):
            two(first, second, m1, m2)
        if len(seen) > 2:
            two(seen[-1][0], seen[0][0], seen[-1][1], seen[0][1])
    newer(known)
    none()
    tap.done()


main()
