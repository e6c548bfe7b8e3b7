#!/usr/bin/env python3
"""Cores that lack something on purpose: by coredump_filter, by madvise, by their writer; and huge ones that hold little.

inputs.py PYSNAP PYANALYZE
"""
import json
import mmap
import os
import resource
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time

from pythons import find, layouts
from reports import codes, report
from tap import Tap
from target import run

PYSNAP, PYANALYZE = [os.path.abspath(p) for p in sys.argv[1:3]]
tap = Tap()
TOO_LONG, TOO_BIG = 10, 100 << 20 # seconds on a busy machine, bytes

R01 = """
import ctypes, sys, threading, time
def until_main_waits():
    while sys._current_frames()[threading.main_thread().ident].f_code.co_name not in ("join", "_wait_for_tstate_lock"): time.sleep(0.01)
    time.sleep(0.2)
def parse(doc, depth):
    if depth: return parse(doc, depth - 1)
    until_main_waits()
    ctypes.string_at(0x1234)
def idle(n):
    while True: time.sleep(60)
for i in range(3): threading.Thread(target=idle, args=(i,), name="pool-%d" % i, daemon=True).start()
time.sleep(0.2)
t = threading.Thread(target=parse, args=({}, 4), name="crasher"); t.start(); t.join()
"""
HIDDEN = """
import ctypes, mmap, os, sys, time
area = mmap.mmap(-1, 1 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
for i in range(64): area[i] = (i * 7 + 13) % 251 # nowhere else in one piece
at = ctypes.addressof(ctypes.c_char.from_buffer(area))
assert ctypes.CDLL(None).madvise(ctypes.c_void_p(at), ctypes.c_size_t(1 << 20), 16) == 0
def serving():
    print("READY", flush=True)
    time.sleep(1000)
serving()
"""
LOCKED = """
import threading, time, os
lock = threading.Lock(); lock.acquire()
threading.stack_size(8 << 20)
def worker():
    with lock: pass
for i in range(500): threading.Thread(target=worker, daemon=True).start()
time.sleep(1)
os.abort()
"""
SPARSE = """
import mmap, os
a = mmap.mmap(-1, 64 << 30, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000)
for k in range(64): a[k << 30] = 1
z = mmap.mmap(-1, 256 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
for k in range(0, 256 << 20, 4096): z[k] = 0
def crunch(): os.abort()
crunch()
"""


class Program:
    def __init__(self, python, text, dump_filter=None):
        self.folder = tempfile.mkdtemp(prefix="pysnap-inputs-")
        script = os.path.join(self.folder, "program.py")
        with open(script, "w") as f:
            f.write(text)

        def before():
            resource.setrlimit(resource.RLIMIT_CORE, (resource.RLIM_INFINITY,) * 2)
            if dump_filter is not None:
                with open("/proc/self/coredump_filter", "w") as f:
                    f.write(hex(dump_filter))
        self.process = subprocess.Popen(python.argv + [script], cwd=self.folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                        stderr=subprocess.DEVNULL, preexec_fn=before)

    def core(self):
        self.process.wait(120)
        names = [n for n in os.listdir(self.folder) if n.startswith("core")]
        return os.path.join(self.folder, names[0]) if names else None

    def end(self):
        self.process.kill()
        self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


def python_part(rep):
    """{name: [(function, line)]} of threads with Python frames."""
    out = {}
    for t in rep["threads"]:
        frames = [rep["frames"][i] for i in t["stack"]]
        frames = [(f["function"], f.get("line")) for f in frames if f["lang"] == "python"]
        if frames:
            out[t.get("name")] = frames
    return out


def native_ends(rep):
    return [t["native_broken"] for t in rep["threads"] if "native_broken" in t]


def filters(python):
    whole = None
    for bits in (0x33, 0, 1, 0x10, 0x37, 0x3f, 0x7f):
        program, name = Program(python, R01, bits), "coredump_filter 0x%x" % bits
        try:
            core = program.core()
            if not core:
                tap.skip(name, "no core was written")
                continue
            rep, done = report(core)
            if not tap.ok(rep is not None and done.returncode in (0, 5), "%s: a report" % name, done.stderr.decode("utf-8", "replace")):
                continue
            tap.ok(rep["verdict"]["kind"] == "crash" and rep["verdict"]["signal"]["address"] == "0x1234" and len(rep["threads"]) == 5,
                   "%s: the crash, and five threads" % name, rep["verdict"])
            if whole is None:
                whole = python_part(rep)
                tap.ok(len(whole) == 5 and len(whole["crasher"]) >= 5, "%s: Python's stacks" % name, whole)
            if bits & 1:
                tap.equal(python_part(rep), whole, "%s: the same Python stacks" % name)
                tap.ok("PZ107" not in codes(rep), "%s: memory is there" % name)
            else:
                tap.ok("PZ107" in codes(rep) and "PZ301" in codes(rep) and done.returncode == 5, "%s: it says that there is no memory" % name, rep["problems"])
                top = [rep["frames"][t["stack"][-1]] for t in rep["threads"]]
                tap.ok(all(f["unwound_by"] == "registers" and "libc" in f["module"] and int(f["module_offset"], 16) for f in top),
                       "%s: but where each thread was" % name, top)
                tap.ok("libc.so.6" in run([PYANALYZE, core]).stdout.decode(), "%s: in the text too" % name)
            if bits == 1: # no ELF headers: the files have to be named
                tap.ok(len(native_ends(rep)) == 5, "%s: native stacks need the files" % name, native_ends(rep))
                said = [p["message"] for p in rep["problems"] if p["code"] == "PZ416"]
                tap.ok(len(said) == 1 and "libc.so.6" in said[0] and "the core has no build-id" in said[0] and "PZ409" not in codes(rep),
                       "%s: it says that they are here, but not proven" % name, rep["problems"])
                folders = sorted({os.path.dirname(m["path"]) for m in rep["modules"] if m["path"].startswith("/")})
                exe = [m["path"] for m in rep["modules"] if "/bin/" in m["path"]]
                given, _ = report(core, "-e", exe[0], "--lib-path", ":".join(folders))
                tap.equal(native_ends(given), [], "%s: native stacks with -e and --lib-path" % name)
                tap.ok("PZ207" in codes(given), "%s: which says that no build-id proves them" % name)
                tap.equal(python_part(given), whole, "%s: and the same Python stacks" % name)
            elif bits & 1:
                tap.equal(native_ends(rep), [], "%s: native stacks" % name)
        finally:
            program.end()


def hidden(python):
    """What the process keeps out of cores is in no snapshot either, and its absence disturbs nothing."""
    program = Program(python, HIDDEN)
    marker = bytes((i * 7 + 13) % 251 for i in range(64))
    try:
        if not tap.ok(program.process.stdout.readline() == b"READY\n", "MADV_DONTDUMP: the program starts"):
            return
        snap = os.path.join(program.folder, "snap.pz")
        tap.equal(run([PYSNAP, "-q", str(program.process.pid), "-o", snap]).returncode, 0, "MADV_DONTDUMP: pysnap takes it")
        data = run(["gzip", "-dc", snap]).stdout
        tap.ok(len(data) > 1000000 and marker not in data, "MADV_DONTDUMP: the snapshot does not hold it")
        program.process.send_signal(signal.SIGABRT)
        core = program.core()
        if not core:
            tap.skip("MADV_DONTDUMP: the core", "no core was written")
            return
        with open(core, "rb") as f, mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ) as m:
            tap.ok(m.find(marker) < 0, "MADV_DONTDUMP: the kernel's core does not hold it either")
        for name, path in (("snapshot", snap), ("core", core)):
            rep, done = report(path)
            tap.ok(rep and [p[-1][0] for p in python_part(rep).values()] == ["serving"] and rep["input"]["complete"] and
                   not native_ends(rep), "MADV_DONTDUMP: %s: a whole report" % name, done.stderr)
    finally:
        program.end()


def no_file_note(python):
    """As old crash handlers and qemu write cores: modules are found by the dynamic linker's own list."""
    program = Program(python, R01)
    try:
        core = program.core()
        if not core:
            tap.skip("no NT_FILE", "no core was written")
            return
        want, _ = report(core)
        with open(core, "r+b") as f:
            head = f.read(64)
            phoff, phentsize, phnum = struct.unpack_from("<Q", head, 32)[0], *struct.unpack_from("<HH", head, 54)
            for i in range(phnum):
                f.seek(phoff + i * phentsize)
                kind, _, offset, _, _, size = struct.unpack_from("<IIQQQQ", f.read(56))
                if kind != 4: # PT_NOTE
                    continue
                f.seek(offset)
                notes, at = f.read(size), 0
                while at + 12 <= len(notes):
                    namesz, descsz, kind = struct.unpack_from("<III", notes, at)
                    if kind == 0x46494c45: # NT_FILE
                        f.seek(offset + at + 8)
                        f.write(struct.pack("<I", 0x7fffffff))
                    at += 12 + (namesz + 3) // 4 * 4 + (descsz + 3) // 4 * 4
        rep, done = report(core)
        if not tap.ok(rep is not None and done.returncode == 0, "no NT_FILE: a report", done.stderr):
            return
        tap.ok("PZ103" in codes(rep) and "PZ103" not in codes(want), "no NT_FILE: it says so", codes(rep))
        said = [p["message"] for p in rep["problems"] if p["code"] == "PZ103"]
        tap.ok(said and "those in the dynamic linker's list" in said[0], "no NT_FILE: and what is known all the same", said)
        tap.equal([m["path"] for m in rep["modules"] if "vdso" in m["path"]], ["[vdso]"], "no NT_FILE: the vdso is there once, and no file")
        tap.equal(python_part(rep), python_part(want), "no NT_FILE: the same Python stacks")
        tap.equal([[rep["frames"][i].get("pc") for i in t["stack"]] for t in rep["threads"]], [[want["frames"][i].get("pc") for i in t["stack"]] for t in want["threads"]],
                  "no NT_FILE: the same native ones")
    finally:
        program.end()


def command_line(pythons):
    """A core's is what the snapshot said before, whatever of it Python leaves out of sys.argv and the kernel cuts off."""
    rest = ["-c", "import time; print('READY', flush=True); time.sleep(1000)", "an argument", "\N{CJK UNIFIED IDEOGRAPH-76EE}", "x" * 3000, "--last", "1"]
    for python in pythons:
        for options in (["-u"], ["-B", "-W", "ignore"]):
            with tempfile.TemporaryDirectory(prefix="pysnap-inputs-") as folder:
                name, snap = "%s %s" % (python.name, " ".join(options)), os.path.join(folder, "x.pz")
                process = subprocess.Popen(python.argv + options + rest, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                           preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CORE, (resource.RLIM_INFINITY,) * 2))
                process.stdout.readline()
                run([PYSNAP, "-q", str(process.pid), "-o", snap])
                process.send_signal(signal.SIGABRT)
                process.wait(60)
                process.stdout.close()
                cores = [n for n in os.listdir(folder) if n.startswith("core")]
                if not cores:
                    tap.skip(name, "no core was written")
                    continue
                core = os.path.join(folder, cores[0])
                got, _ = report(core)
                want, _ = report(snap)
                tap.equal(got["process"]["args"], want["process"]["args"], "%s: the command line of a core is that of a snapshot" % name)
                tap.ok(got["process"]["args"].endswith(" %s %s" % (" ".join(options), " ".join(rest))), "%s: all of it" % name, got["process"]["args"])
                tap.ok(" ".join(rest) in run([PYANALYZE, "-v", core]).stdout.decode(), "%s: in the text with -v" % name)


def huge(python, name, text, apparent, check):
    statvfs = os.statvfs(tempfile.gettempdir())
    if statvfs.f_bavail * statvfs.f_frsize < 2 << 30:
        tap.skip(name, "less than 2 GiB are free")
        return
    program = Program(python, text)
    try:
        core = program.core()
        if not core or os.path.getsize(core) < apparent:
            tap.skip(name, "no core was written, or not all of it")
            return
        start = time.monotonic()
        child = subprocess.Popen([PYANALYZE, "--json", core], stdout=subprocess.PIPE)
        out = child.stdout.read()
        _, status, usage = os.wait4(child.pid, 0)
        seconds = time.monotonic() - start
        tap.ok(status == 0 and seconds < TOO_LONG and usage.ru_maxrss * 1024 < TOO_BIG, "%s: in time, in little memory" % name, (status, seconds, usage.ru_maxrss))
        check(name, json.loads(out))
    finally:
        program.end()


def locked(name, rep):
    sizes = sorted(len(g["threads"]) for g in rep["groups"])
    tap.equal(sizes, [1, 500], "%s: 500 workers are one group" % name)
    tap.ok(all("waiting" in t["state"] and t["waits_in"] == "futex" for t in rep["threads"][1:]), "%s: which waits" % name)
    tap.equal(native_ends(rep), [], "%s: native stacks too" % name)


def sparse(name, rep):
    tap.equal([f["function"] for f in rep["frames"] if f["lang"] == "python"], ["<module>", "crunch"], "%s: Python's stack" % name)


def main():
    known = layouts(PYANALYZE)
    pythons = [p for p in find()[0] if (p.minor, p.config) in known and not p.root and p.config == "x86_64" and [int(n) for n in p.minor.split(".")] >= [3, 8]]
    if not pythons:
        tap.skip("inputs", "no interpreter here that there is a layout for")
        tap.done()
    with open("/proc/sys/kernel/core_pattern") as f:
        if f.read().startswith("|"):
            tap.skip("inputs", "kernel.core_pattern is a pipe")
            tap.done()
    python = ([p for p in pythons if p.minor == "3.12"] or pythons)[0]
    command_line([p for i, p in enumerate(pythons) if p.minor not in [q.minor for q in pythons[:i]]])
    filters(python)
    hidden(python)
    no_file_note(python)
    huge(python, "500 threads, 4 GB", LOCKED, 4 * 10 ** 9, locked)
    huge(python, "69 GB", SPARSE, 64 << 30, sparse)
    tap.done()


main()
