#!/usr/bin/env python3
"""Live tests over every interpreter found: a program parks in known states, pysnap takes it, it is aborted for a core,
pyanalyze reads both, and what they say is compared with what the program says of itself.

live.py PYSNAP PYANALYZE [NAME...]     NAME: only interpreters whose name contains it

The truth is dumped by the first run after the snapshot let it go; the core comes from a second, equal run that was
never asked, since asking creates frame objects that hide the lazy ones.
"""
import json
import os
import re
import shutil
import signal
import subprocess
import sys

from pythons import CACHE, find, layouts
from reports import report, unfolded
from tap import Tap
from target import PROGRAMS, Target, run

PYSNAP, PYANALYZE = [os.path.abspath(p) for p in sys.argv[1:3]]
tap = Tap()


def report_of(path, *options, **more):
    return report(path, "--show=-native", *options, **more)  # native.py compares those


def stacks(rep):
    """thread name -> [(function, qualname, file, line, columns)], oldest first, folded pieces unfolded."""
    out = {}
    for t in rep["threads"]:
        whole = []
        for f in unfolded(rep, t):
            position = [f.get("line"), f.get("end_line"), f.get("col"), f.get("end_col")] if "end_line" in f else None
            whole.append((f["function"], f.get("qualname"), f["file"], f.get("line"), position))
        out.setdefault(t.get("name"), []).append(whole)
    return out


def true_stacks(truth):
    out = {}
    for t in truth["threads"]:
        out[t["name"]] = [[(f["function"], f.get("qualname"), f["file"], f["line"], f.get("position")) for f in t["stack"]]]
    return out


def same_stacks(rep, truth, name):
    got, want = stacks(rep), true_stacks(truth)
    named = {k: v for k, v in got.items() if v != [[]]}
    tap.equal(sorted(map(repr, named)), sorted(map(repr, want)), "%s: thread names" % name)
    for thread in sorted(want):
        tap.equal(named.get(thread), want[thread], "%s: stack of %r" % (name, thread))


def relocate(truth, old, new):
    """The truth of a run in one folder as an equal run in another would tell it."""
    return json.loads(json.dumps(truth).replace(json.dumps(old)[1:-1], json.dumps(new)[1:-1]))


def one_thread(rep, **want):
    for t in rep["threads"]:
        if all(t.get(k) == v for k, v in want.items()):
            return t
    return None


def stock_tools(name, snap, folder):
    """zcat of a snapshot is a core that the usual tools open."""
    core = os.path.join(folder, "plain.core")
    with open(core, "wb") as out:
        done = subprocess.run(["zcat", snap], stdout=out, stderr=subprocess.PIPE)
    tap.equal((done.returncode, done.stderr), (0, b""), "%s: zcat" % name)
    for argv, sign in ((["readelf", "-hn", core], b"CORE (Core file)"), (["eu-readelf", "-n", core], b"PRSTATUS"),
                       (["eu-stack", "--core=" + core], b"TID"), (["gdb", "-nx", "-batch", "-ex", "info threads", "-c", core], b"LWP")):
        if not shutil.which(argv[0]):
            tap.skip("%s: %s" % (name, argv[0]), "not installed")
            continue
        done = run(argv)
        tap.ok(sign in done.stdout, "%s: %s opens it" % (name, argv[0]), done.stdout + done.stderr)
    os.unlink(core)


def check_svg(name, rep, path, folder):
    out = os.path.join(folder, "flames") + "/"
    done = run([PYANALYZE, "--format", "svg", "-o", out, path])
    active = [t for t in rep["threads"] if t["stack"]]
    files = sorted(os.listdir(out)) if os.path.isdir(out) else []
    tap.equal((done.returncode, len(files)), (0, len(active)), "%s: one SVG per active thread" % name)
    tap.equal([f for f in files if not re.match(r"^\d+-.*\.svg$", f)], [], "%s: SVG names are TID-NAME.svg" % name)
    if shutil.which("xmllint"):
        done = run(["xmllint", "--noout"] + [out + f for f in files])
        tap.ok(done.returncode == 0, "%s: SVGs are well-formed" % name, done.stderr.decode("utf-8", "replace"))


def crash_line(script):
    """Where the program reads what is not there."""
    with open(os.path.join(PROGRAMS, script), encoding="utf-8") as f:
        return [i for i, line in enumerate(f, 1) if "ctypes.string_at(0x1234)" in line][0]


def supported(python):
    name = python.name
    program = "threads27.py" if python.minor == "2.7" else "threads.py"
    first = Target(python, program, "TRUTH")
    truth = None
    try:
        if not tap.ok(first.wait_ready(), "%s: the program parks" % name, first.text()):
            return
        snap = os.path.join(first.top, "snap.pz")
        done = run([PYSNAP, str(first.pid), "-o", snap])
        said = done.stderr.decode("utf-8", "replace")
        tap.ok(done.returncode == 0 and "was stopped for" in said, "%s: pysnap takes it" % name, said)
        tap.equal(first.state()[1], 0, "%s: nobody traces it afterwards" % name)
        tap.ok(first.state()[0] in "SR", "%s: it runs on" % name, first.state())
        truth = first.ask_truth()
        if not tap.ok(truth is not None, "%s: it still answers" % name, first.text()):
            return
        rep, done = report_of(snap)
        said = done.stderr.decode("utf-8", "replace")
        if not tap.ok(rep is not None and done.returncode == 0, "%s: snapshot: report" % name, said):
            return
        tap.equal(rep["python"].get("version"), truth["version"], "%s: snapshot: version" % name)
        build = rep["python"].get("build") or []
        tap.equal(("debug" in build, "free-threaded" in build), ("-d" in python.config, "-t" in python.config), "%s: snapshot: build" % name)
        same_stacks(rep, truth, "%s: snapshot" % name)
        tap.equal(sorted(t["tid"] for t in rep["threads"]), sorted(int(t) for t in os.listdir("/proc/%d/task" % first.pid)),
                  "%s: snapshot: kernel thread ids" % name)
        for t in truth["threads"]:
            if t["tid"]:
                seen = one_thread(rep, tid=t["tid"])
                tap.equal((seen or {}).get("name"), t["name"], "%s: snapshot: tid of %r" % (name, t["name"]))
        tap.equal([t["name"] for t in rep["threads"] if t["main"]], ["MainThread"], "%s: snapshot: main thread" % name)
        holders = [t["name"] for t in rep["threads"] if "gil" in t["state"]]
        tap.ok(holders in (["computes"], []), "%s: snapshot: GIL holder" % name, holders)
        tap.equal(rep["verdict"]["kind"], "snapshot", "%s: snapshot: verdict" % name)
        tap.equal([p for p in rep["problems"] if p["severity"] != "info"], [], "%s: snapshot: nothing is missing" % name)
        text = run([PYANALYZE, snap])
        tap.ok(b"\x1b" not in text.stdout and "\u202e".encode() not in text.stdout, "%s: snapshot: no control characters" % name, text.stdout)
        check_svg("%s: snapshot" % name, rep, snap, first.top)
        stock_tools("%s: snapshot" % name, snap, first.top)
        os.kill(first.pid, signal.SIGTERM)
        tap.equal(first.process.wait(30), -signal.SIGTERM, "%s: signals still reach it" % name)
        folder = first.script
    finally:
        first.end()

    second = Target(python, program, "TRUTH")
    try:
        if not tap.ok(second.wait_ready(), "%s: the program parks again" % name, second.text()):
            return
        tids = sorted(int(t) for t in os.listdir("/proc/%d/task" % second.pid))
        core, why = second.core(signal.SIGABRT)
        if not core:
            tap.skip("%s: core" % name, why)
            return
        rep, done = report_of(core)
        if not tap.ok(rep is not None and done.returncode == 0, "%s: core: report" % name, done.stderr.decode("utf-8", "replace")):
            return
        moved = relocate(truth, os.path.dirname(folder), os.path.dirname(second.script))
        same_stacks(rep, moved, "%s: core" % name)
        tap.equal(sorted(t["tid"] for t in rep["threads"]), tids, "%s: core: kernel thread ids" % name)
        tap.equal(rep["python"].get("version"), truth["version"], "%s: core: version" % name)
        tap.equal((rep["verdict"]["kind"], rep["verdict"]["title"]), ("stopped", "SIGABRT sent by pid %d (uid %d)" % (os.getpid(), os.getuid())), "%s: core: verdict" % name)
        if os.geteuid() == 0 and not python.root and ".pyenv" in python.argv[0]:
            # No ELF file of the interpreter can be reached: everything comes from the core.
            rep, done = report_of(core, prefix=["unshare", "-m", "sh", "-c", "mount -t tmpfs none \"$HOME/.pyenv\" && exec \"$@\"", "sh"])
            if b"mount:" in done.stderr or b"unshare:" in done.stderr:
                tap.skip("%s: core without files" % name, "no right to mount")
            elif tap.ok(rep is not None and done.returncode == 0, "%s: core without files: report" % name, done.stderr.decode("utf-8", "replace")):
                same_stacks(rep, moved, "%s: core without files" % name)
        else:
            tap.skip("%s: core without files" % name, "its files are in another root already" if python.root else "only pyenv's files can be hidden, by root")
    finally:
        second.end()

    third = Target(python, program, "TRUTH", "crash")
    try:
        core, why = third.core()
        if not core:
            tap.skip("%s: crash" % name, why)
            return
        rep, done = report_of(core)
        if not tap.ok(rep is not None and done.returncode == 0, "%s: crash: report" % name, done.stderr.decode("utf-8", "replace")):
            return
        v = rep["verdict"]
        # i386's strlen reads 16 bytes at a time, from where they are aligned (glibc sysdeps/i386/i686/multiarch/strlen-sse2.S)
        address = "0x1230" if python.config.startswith("i386") else "0x1234"
        tap.equal((v["kind"], v["signal"]["name"], v["signal"].get("address")), ("crash", "SIGSEGV", address), "%s: crash: verdict" % name)
        tap.equal(v["location"]["function"], "string_at", "%s: crash: innermost function" % name)
        by = v.get("called_by", {})
        tap.equal((by.get("function"), by.get("line")), ("main", crash_line(program)), "%s: crash: the program's line that called the library" % name)
        crashed = [t for t in rep["threads"] if "crashed" in t["state"]]
        tap.equal([t["name"] for t in crashed], ["MainThread"], "%s: crash: thread" % name)
        frames = [rep["frames"][i] for i in crashed[0]["stack"]] if crashed else []
        tap.equal([(f["function"], f["line"]) for f in frames[-2:-1]], [("main", crash_line(program))], "%s: crash: line" % name)
    finally:
        third.end()


def unsupported(python):
    """No layout: said in one line, with the version, and never a wrong stack; the snapshot can still be taken."""
    name = python.name
    target = Target(python, "park.py")
    try:
        if not tap.ok(target.wait_ready(), "%s: the program parks" % name, target.text()):
            return
        snap = os.path.join(target.top, "snap.pz")
        done = run([PYSNAP, str(target.pid), "-o", snap])
        tap.ok(done.returncode == 0, "%s: pysnap takes it" % name, done.stderr.decode("utf-8", "replace"))
        core, why = target.core(signal.SIGABRT)
        for what, path in (("snapshot", snap), ("core", core)):
            if not path:
                tap.skip("%s: %s: no layout fits" % (name, what), why)
                continue
            rep, done = report_of(path)
            said = done.stderr.decode("utf-8", "replace")
            tap.ok("no layout fits" in said and python.minor in said and "  try: " in said, "%s: %s: no layout fits" % (name, what), said)
            tap.equal(done.returncode, 1, "%s: %s: exit code" % (name, what))
            tap.ok(rep is not None and not any(t["stack"] for t in rep["threads"]) and rep["threads"], "%s: %s: no wrong stack" % (name, what), rep)
    finally:
        target.end()


def main():
    wanted = sys.argv[3:]
    known = layouts(PYANALYZE)
    found, absent = find()
    for python in found:
        if wanted and not any(w in python.name for w in wanted):
            continue
        tap.part(python, supported if (python.minor, python.config) in known else unsupported)
    for minor, config in sorted(known, key=lambda k: (int(k[0].split(".")[1]), k[1])):
        if not wanted and not any((p.minor, p.config) == (minor, config) for p in found):
            tap.skip("CPython %s %s" % (minor, config), "no such interpreter here; tools/pythons can fetch some into %s" % CACHE.replace(os.path.expanduser("~"), "~"))
    for name, why in absent:
        if not wanted:
            tap.skip(name, why)
    tap.done()


main()
