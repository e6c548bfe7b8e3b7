"""A library of C++ that a Python calls into, cores of what it throws, and places to put it and what it is split into."""
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile

import reports
from pythons import find, layouts
from tap import Tap
from target import PROGRAMS, run

PYSNAP, PYANALYZE = [os.path.abspath(p) for p in sys.argv[1:3]]
tap = Tap()
LIB = "libthrows.so"
DEPTH = 3
# Innermost last; of the library's own frames.
NAMES = ["start_parsing"] + ["orders::Parser::parse"] * (DEPTH + 1) + ["orders::Price<int>::twice", "orders::check"]
SYMBOLS = {"orders::Parser::parse": "_ZN6orders6Parser5parseEi", "start_parsing": None}


def here(*tools):
    return [t for t in tools if not shutil.which(t)]


def report(core, *options, env=None):
    return reports.report(core, *options, env={**os.environ, "DEBUGINFOD_URLS": "", **(env or {})}, timeout=300)


def frames_of(rep):
    return reports.unfolded(rep, rep["threads"][0])


def lib_frames(rep):
    return [f for f in frames_of(rep) if os.path.basename(f.get("module", "")) == LIB]


def essence(frames):
    return [(f.get("function"), f.get("symbol"), f.get("file"), f.get("line"), f.get("inlined"), f["pc"], f["module_offset"]) for f in frames]


def module(rep, name=LIB):
    return next(m for m in rep["modules"] if os.path.basename(m.get("path", "")) == name)


def make_core(top, python, lib, filt):
    """A core of the uncaught exception."""
    code = "import ctypes, sys; ctypes.CDLL(sys.argv[1]).start_parsing(%d)" % DEPTH
    folder = tempfile.mkdtemp(dir=top)

    def prepare():
        resource.setrlimit(resource.RLIMIT_CORE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        with open("/proc/self/coredump_filter", "w") as f:
            f.write(filt)
    subprocess.run(python.argv + ["-c", code, lib], cwd=folder, stderr=subprocess.DEVNULL, preexec_fn=prepare)
    found = [os.path.join(folder, n) for n in os.listdir(folder) if n.startswith("core")]
    return found[0] if found else None


class Place:
    """Where the library lies, and the interpreter that loads it from there."""

    def __init__(self, top, python):
        self.top, self.python = top, python
        self.app = os.path.join(top, "app")
        os.mkdir(self.app)
        self.lib = os.path.join(self.app, LIB)

    def use(self, what):
        """That is the library now, and no debug file lies anywhere near."""
        for leftover in [os.path.join(self.app, n) for n in os.listdir(self.app)]:
            shutil.rmtree(leftover) if os.path.isdir(leftover) else os.unlink(leftover)
        if what:
            shutil.copy(what, self.lib)

    def put(self, what, *parts):
        to = os.path.join(self.top, *parts)
        os.makedirs(os.path.dirname(to), exist_ok=True)
        shutil.copy(what, to)
        return to


class Scene(Place):
    """The library as it was built, and cores of its uncaught exception."""

    def __init__(self, top, python):
        super().__init__(top, python)
        self.whole = os.path.join(top, "whole.so")
        source = os.path.join(PROGRAMS, "parsing.cc")
        subprocess.run(["g++", "-g", "-O1", "-fno-optimize-sibling-calls", "-shared", "-fPIC", "-Wl,--build-id=sha1", "-o", self.whole, source], check=True)
        other = os.path.join(top, "other.so")
        subprocess.run(["g++", "-g", "-O1", "-DSPACE=others", "-shared", "-fPIC", "-Wl,--build-id=sha1", "-o", other, source], check=True)
        self.other = other
        shutil.copy(self.whole, self.lib)
        self.build_id = re.search(r"Build ID: (\w+)", run(["readelf", "-n", self.whole]).stdout.decode()).group(1)
        self.hidden = os.path.join(top, "hidden.so")
        subprocess.run(["g++", "-O1", "-fvisibility=hidden", "-shared", "-fPIC", "-s", "-Wl,--build-id=sha1", "-o", self.hidden, source], check=True)
        shutil.copy(self.hidden, self.lib)
        self.core_hidden = make_core(top, python, self.lib, "0x33")
        shutil.copy(self.whole, self.lib)
        self.core = make_core(top, python, self.lib, "0x33")
        self.core37 = make_core(top, python, self.lib, "0x37")
        self.debug = os.path.join(top, "debug", "usr.debug")
        os.mkdir(os.path.dirname(self.debug))
        subprocess.run(["objcopy", "--only-keep-debug", self.whole, self.debug], check=True)
        self.stripped = os.path.join(top, "stripped.so")
        subprocess.run(["objcopy", "--strip-unneeded", self.whole, self.stripped], check=True)
        self.linked = os.path.join(top, "linked.so")
        subprocess.run(["objcopy", "--strip-unneeded", "--add-gnu-debuglink=" + self.debug, self.whole, self.linked], check=True)

    def id_parts(self, top):
        return (top, ".build-id", self.build_id[:2], self.build_id[2:] + ".debug")


def functions(rep):
    return [f.get("function") for f in lib_frames(rep)]


def how_well(file, text, *options):
    """The header counts the modules whose functions have names, if any has none; those that lack them are named once below it."""
    rep, _ = report(file, "-n", *options)
    lacking = {os.path.basename(f["module"]) for t in rep["threads"] for i in t["stack"] for f in [rep["frames"][i]]
               if f["lang"] == "c" and "function" not in f and "module" in f}
    lacking -= {os.path.basename(m["path"]) for m in rep["modules"] if m["symbols"] == "full"}
    n, named = rep["symbols"]["modules"], rep["symbols"]["named"]
    tap.equal(n - named, len(lacking), "modules without names are counted")
    tap.equal(re.findall(r"symbols for .*", text), ["symbols for %d of %d module%s" % (named, n, "" if n == 1 else "s")] if lacking else [], "the header says how many have them")
    said = " ".join(p["message"] for p in rep["problems"] if p["code"] in ("PZ209", "PZ212"))
    absent = " ".join(p["message"] for p in rep["problems"] if p["code"] in ("PZ201", "PZ202", "PZ203", "PZ206"))
    tap.ok(all((l in said) != (l in absent) for l in lacking) or "..." in said, "and which lack them is said, of those that are absent or not used that alone", (lacking, said, absent))


def play(name, tools, kind, act):
    """act(place) with the newest interpreter that fits, where these tools are; kind: Place, or what is one."""
    missing = here(*tools)
    found, _ = find()
    known = layouts(PYANALYZE)
    usable = [p for p in found if not p.root and p.version.startswith("3.") and (p.minor, p.config) in known]
    with open("/proc/sys/kernel/core_pattern") as f:
        pattern = f.read().strip()
    if missing or not usable or pattern.startswith(("|", "/")):
        tap.skip(name, "no %s here" % missing[0] if missing else "no interpreter that fits" if not usable else "kernel.core_pattern is %s" % pattern)
        tap.done()
    top = tempfile.mkdtemp(prefix="pysnap-%s-" % name)
    try:
        place = kind(top, usable[-1])
        if kind is not Scene or tap.ok(place.core and place.core37, "cores of an uncaught C++ exception"):
            act(place)
    finally:
        shutil.rmtree(top, ignore_errors=True)
    tap.done()
