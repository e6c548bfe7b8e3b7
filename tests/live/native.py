#!/usr/bin/env python3
"""Native stacks over every interpreter found: the same frames as gdb's, by pc, in the same order, and the same names where both have
one; Python's frames where their evaluation stands; a snapshot without any file at hand tells the same as its core.

usage: native.py PYSNAP PYANALYZE [NAME...]
"""
import os
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile

from pythons import each_interpreter
from reports import names_python, report, unfolded
from tap import Tap
from target import Target, run

PYSNAP, PYANALYZE = [os.path.abspath(p) for p in sys.argv[1:3]]
tap = Tap()

# Every frame of every thread that is on the stack: gdb shows inlined functions and tail calls as frames of their own.
GDB = """
import gdb
gdb.execute("set backtrace past-main on")
gdb.execute("set backtrace past-entry on")
for thread in gdb.selected_inferior().threads():
    thread.switch()
    frame = gdb.newest_frame()
    line = []
    while frame is not None:
        if frame.type() not in (gdb.INLINE_FRAME, gdb.TAILCALL_FRAME):
            name = frame.name() or "?"
            line.append("%x:%s" % (frame.pc(), name.replace(" ", "_")))
        try:
            frame = frame.older()
        except gdb.error:
            break
    print("STACK", thread.ptid[1], " ".join(line))
"""


def physical(frames):
    return [f for f in frames if f["lang"] == "c" and not f.get("inlined")]


def gdb_stacks(exe, core, root):
    script = os.path.join(os.path.dirname(core), "stacks.py")
    with open(script, "w") as f:
        f.write(GDB)
    argv = ["gdb", "-nx", "-batch"] + (["-iex", "set sysroot " + root, "-iex", "set debug-file-directory %s/usr/lib/debug" % root] if root else []) + ["-ex", "source " + script, exe, core]
    text = run(argv, timeout=300).stdout.decode("utf-8", "replace")
    out = {}
    for line in text.split("\n"):
        m = re.match(r"STACK (\d+) (.*)$", line)
        if m:
            out[int(m.group(1))] = [(int(p, 16), n) for p, n in (w.split(":", 1) for w in m.group(2).split())]
    return out


def plain(name):
    """A symbol's name without what compilers and versions add."""
    return re.sub(r"(@.*|\.(constprop|part|isra|cold|lto_priv|llvm)\b.*)$", "", name)


TABLES = {}


def same_function(module, one, other):
    """Two names of one address, by the symbol table of the file that was used."""
    path = module.get("debug_file") or module.get("file") or ""
    if path not in TABLES:
        table = TABLES[path] = {}
        text = run(["readelf", "-sW", path]).stdout.decode("utf-8", "replace") if path else ""
        for m in re.finditer(r"^\s*\d+: ([0-9a-f]+)\s+\S+\s+(?:FUNC|IFUNC|NOTYPE)\s.*\s(\S+)$", text, re.M):
            table.setdefault(m.group(2).split("@")[0], set()).add(int(m.group(1), 16))
    return bool(TABLES[path].get(one, set()) & TABLES[path].get(other, set()))


def as_gdb(name, rep, gdb, debug_info, least=50):
    checked = names = 0
    full = {m["path"]: m for m in rep["modules"] if m.get("symbols") == "full"}
    for thread in rep["threads"]:
        ours = physical(unfolded(rep, thread))[::-1]
        theirs = gdb.get(thread["tid"])
        if theirs is None:
            tap.ok(False, "%s: gdb knows thread %d" % (name, thread["tid"]))
            continue
        got, want = [int(f["pc"], 16) for f in ours], [pc for pc, _ in theirs]
        tap.equal([hex(p) for p in got], [hex(p) for p in want], "%s: frames of %r" % (name, thread.get("name")))
        checked += len(got)
        for f, (pc, other) in zip(ours, theirs):
            if int(f["pc"], 16) == pc and "function" in f and other != "?" and f.get("module") in full:
                names += 1
                mine, its = plain(f.get("symbol") or f["function"]), plain(other)
                if mine != its and not same_function(full[f["module"]], mine, its):
                    tap.ok(False, "%s: name at %x" % (name, pc), "%s, gdb says %s" % (f["function"], other))
    tap.ok(checked >= least, "%s: %d frames compared" % (name, checked))
    if debug_info: # of libc alone, where the interpreter is stripped
        tap.ok(names >= (least // 2 if names_python(rep) else 1), "%s: %d names compared" % (name, names))


def has_lines(rep):
    return any(f.get("line") for f in rep["frames"] if f["lang"] == "c")


def fault_as_gdb(python):
    """A process that ran into memory that is not there, deep in C."""
    name, sysroot = python.name + ": gdb: segv", ["--sysroot", python.root] if python.root else []
    target = Target(python, "crash.py", "fault")
    try:
        core, why = target.core()
        if not core:
            tap.skip(name, "no ctypes" if "ctypes" in target.text() or "ffi" in target.text() else why)
            return
        rep, done = report(core, "-n", *sysroot)
        if tap.ok(rep is not None and done.returncode == 0, name + ": report", done.stderr.decode("utf-8", "replace")):
            exe = next(m for m in rep["modules"] if m["path"] == rep["process"]["exe"])
            if tap.ok("file" in exe, name + ": the executable is here", exe):
                as_gdb(name, rep, gdb_stacks(exe["file"], core, python.root), has_lines(rep), 10)
    finally:
        target.end()


def snapshot_as_gdb(python, exe, snap, rep):
    """A snapshot is a core in gzip: gdb opens what comes out."""
    core = snap + ".core"
    with open(core, "wb") as f:
        subprocess.run(["zcat", "-q"], stdin=open(snap, "rb"), stdout=f)
    as_gdb(python.name + ": gdb: snapshot", rep, gdb_stacks(exe, core, python.root), has_lines(rep))
    os.unlink(core)


def merged(name, rep, only_python):
    """Nothing is lost, nothing is unmatched, and each run of Python frames stands right above its evaluation."""
    evals = runs = 0
    for thread in rep["threads"]:
        frames = unfolded(rep, thread)
        tap.ok("unmatched" not in thread and "native_broken" not in thread, "%s: %r is merged" % (name, thread.get("name")),
               (thread.get("unmatched"), thread.get("native_broken")))
        python = [(f["function"], f.get("line")) for f in frames if f["lang"] == "python"]
        tap.equal(python, only_python.get(thread["tid"], []), "%s: Python frames of %r" % (name, thread.get("name")))
        hosts = [i for i, f in enumerate(frames[:-1]) if f["lang"] == "c" and frames[i + 1]["lang"] == "python"]
        runs += len(hosts)
        for i in hosts:
            while frames[i].get("inlined"):
                i -= 1
            host = frames[i]
            evals += host.get("function", "").startswith(("_PyEval_EvalFrameDefault", "PyEval_EvalFrameEx"))
        named = [f for f in physical(frames) if plain(f.get("function", "")) == "_PyEval_EvalFrameDefault"]
        if named and python:
            # A thread caught between two frames has one more.
            tap.ok(len(hosts) <= len(named) <= len(hosts) + 1, "%s: an evaluation for each run of %r" % (name, thread.get("name")),
                   (len(named), len(hosts)))
    tap.ok(runs >= 10 and evals in (0, runs), "%s: %d runs in frames that evaluate" % (name, runs), evals)


def python_only(path, prefix=(), options=()):
    rep, _ = report(path, "--show=-native", *options, prefix=prefix)
    return {t["tid"]: [(f["function"], f.get("line")) for f in unfolded(rep, t)] for t in rep["threads"]}


def thread_fields(layout):
    """Offsets in PyThread by the layout's name, "3.8 x86_64"."""
    table, config = layout.split()[:2]
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "formats", "layouts", table + ".layout")
    fields, column, inside = {}, 0, False
    with open(path) as f:
        for line in f:
            words = line.split()
            if words[:1] == ["config"]:
                column = words.index(config) - 1
            if line[:1] != " ":
                inside = words[:1] == ["PyThread"]
            elif inside and words[2 + column].isdigit():
                fields[words[0]] = int(words[2 + column])
    return fields


def lost_frames(python, snap, rep):
    """A thread state whose frame is zeroed, where nothing of Python's tells: the native stack does."""
    name = python.name + ": a frame that is lost"
    at = thread_fields(rep["python"]["layout"]) if rep["python"]["layout"].split()[1:] == ["x86_64"] else {}
    thread = [t for t in rep["threads"] if t["name"] == "sleeps-in-lock"]
    if "frame" not in at or "cframe" in at or not thread:
        tap.skip(name, "3.10 and later tell by themselves; 64 bits; a program with threads")
        return
    data = bytearray(run(["zcat", snap]).stdout)
    start, count = struct.unpack_from("<Q", data, 32)[0], struct.unpack_from("<H", data, 56)[0]
    loads = [(p[3], p[3] + p[5]) for p in (struct.unpack_from("<IIQQQQQQ", data, start + 56 * i) for i in range(count)) if p[0] == 1]
    thread, where, zeroed = thread[0], -1, 0
    word = struct.pack("<Q", int(thread["python_id"], 16))
    while True:
        where = data.find(word, where + 1)
        if where < 0:
            break
        state = where - at["thread_id"]
        if state < 0 or where % 8:
            continue
        if all(any(a <= p < b for a, b in loads) for p in (struct.unpack_from("<Q", data, state + at[f])[0] for f in ("frame", "interp"))):
            struct.pack_into("<Q", data, state + at["frame"], 0)
            zeroed += 1
    with tempfile.NamedTemporaryFile(suffix=".core") as f:
        f.write(data)
        f.flush()
        got, done = report(f.name)
        if not tap.ok(got is not None and zeroed > 0, name + ": report", "%d zeroed; %s" % (zeroed, done.stderr.decode())):
            return
        said = [p["message"] for p in got["problems"] if p["code"] == "PZ401"]
        tap.equal(said, ["thread %d: its thread state has no frame, though its native stack evaluates Python: it is likely lost; older frames are unknown, 0 known" % thread["tid"]], name)


def one(python):
    name = python.name
    sysroot = ["--sysroot", python.root] if python.root else []
    target = Target(python, "threads27.py" if python.minor == "2.7" else "threads.py", "TRUTH")
    try:
        if not tap.ok(target.wait_ready(), "%s: the program parks" % name, target.text()):
            return
        exe = os.path.realpath("/proc/%d/exe" % target.pid)
        snap = os.path.join(target.top, "snap.pz")
        if not tap.ok(run([PYSNAP, str(target.pid), "-o", snap]).returncode == 0, "%s: pysnap takes it" % name):
            return
        core, why = target.core(signal.SIGABRT)
        if core:
            rep, done = report(core, "-n", *sysroot)
            if tap.ok(rep is not None and done.returncode == 0, "%s: core: report" % name, done.stderr.decode("utf-8", "replace")):
                merged("%s: core" % name, rep, python_only(core, options=sysroot))
                if shutil.which("gdb"):
                    as_gdb("%s: gdb" % name, rep, gdb_stacks(exe, core, python.root), has_lines(rep))
                else:
                    tap.skip("%s: gdb" % name, "not installed")
        else:
            tap.skip("%s: core" % name, why)
        rep, done = report(snap, "-n", *sysroot)
        if not tap.ok(rep is not None and done.returncode == 0, "%s: snapshot: report" % name, done.stderr.decode("utf-8", "replace")):
            return
        merged("%s: snapshot" % name, rep, python_only(snap, options=sysroot))
        if shutil.which("gdb"):
            snapshot_as_gdb(python, exe, snap, rep)
            fault_as_gdb(python)
        lost_frames(python, snap, rep)
        with_files = {t["tid"]: [f["pc"] for f in physical(unfolded(rep, t))] for t in rep["threads"]}
        if os.geteuid() != 0:
            tap.skip("%s: snapshot without files" % name, "only root can hide them")
            return
        hide = ["unshare", "-m", "sh", "-c", "for d in /usr/lib/python3 \"$HOME/.pyenv\" \"$HOME/.cache\"; do test -d $d && mount -t tmpfs none $d; done; exec \"$@\"", "sh"]
        with tempfile.NamedTemporaryFile(suffix=".pz") as kept: # not in what is hidden
            with open(snap, "rb") as f:
                shutil.copyfileobj(f, kept)
            kept.flush()
            rep, done = report(kept.name, "-n", prefix=hide)
        if b"mount:" in done.stderr or b"unshare:" in done.stderr:
            tap.skip("%s: snapshot without files" % name, "no right to mount")
        elif tap.ok(rep is not None and done.returncode == 0, "%s: snapshot without files: report" % name, done.stderr.decode("utf-8", "replace")):
            without = {t["tid"]: [f["pc"] for f in physical(unfolded(rep, t))] for t in rep["threads"]}
            tap.equal(without, with_files, "%s: snapshot without files: the same frames" % name)
    finally:
        target.end()


each_interpreter(tap, PYANALYZE, "native stacks", one)
