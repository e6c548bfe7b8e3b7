#!/usr/bin/env python3
"""What a snapshot takes along of the files that are mapped: all that names functions, nothing (--bundle=none), not what is too large; and MiniDebugInfo.

usage: bundled.py PYSNAP PYANALYZE
"""
import lzma
import os
import re
import shutil
import subprocess
import time

from reports import codes, names_python
from scene import LIB, PYSNAP, PYANALYZE, Place, essence, frames_of, functions, here, how_well, module, play, report, tap
from target import run

PARKS = """
#include <unistd.h>
volatile int keep;
__attribute__((noinline)) static int hidden_wait(int n) { if (!n) pause(); return n ? hidden_wait(n - 1) + keep : keep; }
__attribute__((noinline)) int start_parking(int n) { return hidden_wait(n) + keep; }
"""
PARKED = ["start_parking"] + ["hidden_wait"] * 3


class Parked:
    """A process that waits in a static function of the library."""

    def __init__(self, s, lib):
        self.lib = os.path.join(s.app, LIB)
        s.use(lib)
        code = "import ctypes, sys; l = ctypes.CDLL(sys.argv[1]); print('ready', flush=True); l.start_parking(2)"
        self.process = subprocess.Popen(s.python.argv + ["-c", code, self.lib], stdout=subprocess.PIPE, cwd=s.top)
        self.process.stdout.readline()
        for _ in range(1000):
            with open("/proc/%d/stat" % self.process.pid) as f:
                if f.read().rsplit(")", 1)[1].split()[0] == "S":
                    break
            time.sleep(0.005)

    def snap(self, to, *options):
        done = run([PYSNAP, "-f", "-o", to, *options, str(self.process.pid)])
        tap.ok(done.returncode == 0, "a snapshot is taken", done.stderr)
        return to

    def end(self):
        self.process.kill()
        self.process.wait()


def build_parks(s, name, *options):
    source, out = os.path.join(s.top, "parks.c"), os.path.join(s.top, name)
    with open(source, "w") as f:
        f.write(PARKS)
    subprocess.run(["gcc", "-O1", "-fno-optimize-sibling-calls", "-shared", "-fPIC", "-Wl,--build-id=sha1", "-o", out, *options, source], check=True)
    return out


def add_mini(s, lib, name, packed=None):
    """The library stripped, with what Fedora's packages keep of its symbols: the functions that are not exported, packed with xz."""
    def symbols(kinds, *options):
        lines = run(["nm", "--format=posix", "--defined-only", *options, lib]).stdout.decode().split("\n")
        return {l.split()[0] for l in lines if l and l.split()[1] in kinds}
    work, out = os.path.join(s.top, "mini"), os.path.join(s.top, name)
    keep = sorted(symbols("TtD") - symbols("TtDWBVi", "-D"))
    with open(work + ".keep", "w") as f:
        f.write("\n".join(keep) + "\n")
    subprocess.run(["objcopy", "--only-keep-debug", lib, work + ".debug"], check=True)
    subprocess.run(["objcopy", "-S", "--remove-section=.comment", "--keep-symbols=" + work + ".keep", work + ".debug", work], check=True)
    subprocess.run(["xz", "-kf", work], check=True)
    if packed is not None:
        with open(work + ".xz", "r+b") as f:
            data = packed(f.read())
            f.seek(0)
            f.truncate()
            f.write(data)
    subprocess.run(["objcopy", "--strip-unneeded", "--add-section=.gnu_debugdata=" + work + ".xz", lib, out], check=True)
    return out


def damage(data):
    data = bytearray(data)
    data[len(data) // 2] ^= 0xff
    return bytes(data)


def mini(s, lib):
    """MiniDebugInfo."""
    if here("xz", "nm"):
        tap.skip("MiniDebugInfo", "no xz or nm here")
        return
    rep = None
    for name, change in (("whole", None), ("damaged", damage), ("no xz", lambda d: b"x" * len(d)), ("a bomb", lambda d: lzma.compress(b"\0" * (1 << 27)))):
        p = Parked(s, add_mini(s, lib, "with_mini.so", change))
        try:
            snap = p.snap(os.path.join(s.top, "mini.pz"))
        finally:
            p.end()
        before = time.time()
        rep, done = report(snap, "-n", "--debug-path=")
        took, said = time.time() - before, [pr["message"] for pr in rep["problems"] if pr["code"] == "PZ212"]
        if "lzma" not in rep["tool"].get("features", []):
            tap.ok(len(said) == 1 and LIB in said[0] and "liblzma" in said[0] and module(rep)["symbols"] == "dynsym", "MiniDebugInfo, built without liblzma: said", said)
            return
        if change:
            tap.ok(functions(rep)[0] == "start_parking" and set(functions(rep)[1:]) == {None} and len(said) == 1 and LIB in said[0] and took < 10,
                   "MiniDebugInfo, %s: said, and no name is taken from it" % name, (functions(rep), said, took))
            continue
        tap.equal(functions(rep), PARKED, "MiniDebugInfo: names of static functions")
        tap.ok(module(rep)["symbols"] == "mini" and not said, "MiniDebugInfo: the modules' state says so", module(rep))
        s.use(None)
        rep, _ = report(snap, "-n", "--debug-path=")
        tap.equal((functions(rep), module(rep)["symbols"]), (PARKED, "mini"), "MiniDebugInfo travels in the snapshot")
        s.use(add_mini(s, lib, "other_mini.so"))


def travels(s, lib, other):
    """Names of static functions of a file that is gone: the snapshot has them."""
    p = Parked(s, lib)
    try:
        os.unlink(p.lib)
        snap, bare = p.snap(os.path.join(s.top, "gone.pz")), p.snap(os.path.join(s.top, "bare.pz"), "--bundle=none")
        s.use(other)
        replaced = p.snap(os.path.join(s.top, "replaced.pz"))
    finally:
        p.end()
    for name, file in (("deleted", snap), ("deleted and replaced", replaced)):
        rep, _ = report(file, "-n", "--debug-path=")
        mod = next(m for m in rep["modules"] if LIB in m["path"])
        tap.equal([f.get("function") for f in frames_of(rep) if LIB in f.get("module", "")], PARKED, "a library that was %s: names of static functions" % name)
        tap.ok(mod["symbols"] == "full" and "file" not in mod, "a library that was %s: all symbols, of no file" % name, mod)
    rep, _ = report(bare, "-n", "--debug-path=")
    names = [f.get("function") for f in frames_of(rep) if LIB in f.get("module", "")]
    tap.ok(not set(names) & set(PARKED), "--bundle=none keeps none of them", names)
    s.use(None)
    plain = subprocess.run(["sh", "-c", "gzip -dc < %s > %s" % (snap, os.path.join(s.top, "gone.core"))])
    core = os.path.join(s.top, "gone.core")
    for tool, argv in (("readelf", ["readelf", "-ln", core]), ("eu-readelf", ["eu-readelf", "-ln", core]), ("eu-stack", ["eu-stack", "--core=" + core])):
        if shutil.which(tool):
            done = run(argv)
            tap.ok(plain.returncode == 0 and done.returncode in (0, 1) and b"truncated" not in done.stderr and done.stdout, "its content is a core for %s" % tool, done.stderr[:300])
    unpacked = report(core, "-n", "--debug-path=")[0]
    for rep in (unpacked, report(snap, "-n", "--debug-path=")[0]):
        for key in ("path", "size", "expected_size", "file_size"): # the unpacked one has the index at its end
            rep["input"].pop(key, None)
    tap.equal(unpacked, rep, "unpacked, it gives the same report")
    # Cut anywhere behind memory: the report is there, but for those names.
    data = open(snap, "rb").read()
    for less in (10, 200, 5000, 60000) if names_python(rep) else (10, 200): # a stripped interpreter's tables are that short
        cut = os.path.join(s.top, "cut.pz")
        with open(cut, "wb") as f:
            f.write(data[:-less])
        rep, done = report(cut, "-n", "--debug-path=")
        names = [f.get("function") for f in frames_of(rep) if LIB in f.get("module", "")]
        said = [p["message"] for p in rep["problems"] if p["code"] == "PZ101"]
        lost = re.match(r"the file is truncated: memory is complete; behind it tables are missing that name the functions of [1-9]\d* files?$", said[0] if said else "")
        whole = said == ["the file is truncated: memory and all that is told of it are complete; of what follows the end is missing"]
        tap.ok(done.returncode == 0 and len(said) == 1 and (whole or lost) and (less > 10 or whole), "cut by %d bytes: what is missing" % less, said)
        tap.ok(names == PARKED or (lost and names == ["start_parking"] + [None] * (len(PARKED) - 1)), "cut by %d bytes: its frames" % less, names)


def large(s):
    """Tables that are too large to travel: both programs say so, and the same file gives the names again."""
    source = os.path.join(s.top, "many.s")
    with open(source, "w") as f:
        f.write(".text\n" + "".join("a_function_that_is_nowhere_exported_%d:\n" % i for i in range(150000)) + '.section .note.GNU-stack,"",@progbits\n')
    lib = build_parks(s, "large.so", source)
    p = Parked(s, lib)
    try:
        out = os.path.join(s.top, "large.pz")
        done = run([PYSNAP, "-f", "-o", out, str(p.process.pid)])
    finally:
        p.end()
    said = re.findall(r"pysnap: warning: the snapshot is without the tables that name the functions of %s, for their size \((\d+|\d+\.\d) MiB\)\n  try: " % re.escape(LIB), done.stderr.decode())
    tap.ok(done.returncode == 0 and len(said) == 1, "large tables: pysnap says that they are left out", done.stderr.decode())
    rep, _ = report(out, "-n", "--debug-path=")
    tap.ok(functions(rep) == PARKED and "PZ213" not in codes(rep), "large tables: the file is here", functions(rep))
    s.use(None)
    rep, _ = report(out, "-n", "--debug-path=")
    told = [re.sub(r" \(.*?\)", "", p["message"]) for p in rep["problems"] if p["code"] == "PZ213"]
    tap.equal((functions(rep), told), (PARKED[:1] + [None] * (len(PARKED) - 1), ["the snapshot is without the tables that name the functions of %s: pysnap leaves out large ones" % LIB]),
              "large tables: without the file, pyanalyze says why functions have no names")


def bundle_none(s, lib, other):
    """Nothing of the files is kept, but which they were: the right ones are used, no others."""
    p = Parked(s, lib)
    try:
        snap, whole = p.snap(os.path.join(s.top, "none.pz"), "--bundle=none"), p.snap(os.path.join(s.top, "elf.pz"))
    finally:
        p.end()
    build_id = re.search(r"Build ID: (\w+)", run(["readelf", "-n", lib]).stdout.decode()).group(1)
    rep, want = report(snap, "-n", "--debug-path=")[0], report(whole, "-n", "--debug-path=")[0]
    tap.equal(functions(rep), PARKED, "--bundle=none: the files are here and proven: all frames, with names")
    tap.equal([essence([f for f in frames_of(r) if f["lang"] == "c"]) for r in (rep,)], [essence([f for f in frames_of(want) if f["lang"] == "c"])],
              "--bundle=none: the same stack as with their code")
    tap.ok(module(rep)["build_id"] == build_id and not [c for c in codes(rep) if c.startswith("PZ2") and c not in ("PZ204", "PZ209")], "and nothing to admit", rep["problems"])
    tap.ok(all("build_id" in m for m in rep["modules"]), "all build-ids are known", rep["modules"])
    s.use(other)
    rep, _ = report(snap, "-n", "--debug-path=")
    said = [p["message"] for p in rep["problems"] if p["code"] == "PZ202"]
    tap.ok("file" not in module(rep) and module(rep)["symbols"] == "mismatch" and len(said) == 1 and build_id in said[0] and module(rep)["disk_build_id"] in said[0],
           "--bundle=none: another build at its place is not used, both ids are said", (module(rep), said))
    tap.equal(functions(rep)[-1:], [None], "--bundle=none: and no name is taken from it")
    for file in (snap, whole):
        how_well(file, run([PYANALYZE, "--debug-path=", file], env=dict(os.environ, DEBUGINFOD_URLS="", COLUMNS="200")).stdout.decode(), "--debug-path=")
    s.use(None)
    rep, _ = report(snap, "-n", "--debug-path=")
    tap.ok("PZ203" in codes(rep) and any(LIB in p["message"] for p in rep["problems"] if p["code"] == "PZ203"), "--bundle=none: a file that is not here is told of", rep["problems"])


def act(s):
    lib, other = build_parks(s, "parks.so"), build_parks(s, "parks_other.so", "-DOTHER", "-O0")
    bundle_none(s, lib, other)
    travels(s, lib, other)
    large(s)
    mini(s, lib)


play("bundled", ("gcc", "objcopy", "readelf"), Place, act)
