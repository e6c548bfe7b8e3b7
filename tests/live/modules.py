#!/usr/bin/env python3
"""Modules: the same names, lines and inlined functions from a library with debug information, and from a stripped one whose debug
information lies wherever it may lie; what is refused; what is said with no file at all; and a child that unwinds and dies.

usage: modules.py PYSNAP PYANALYZE
"""
import glob
import http.client
import json
import lzma
import os
import random
import re
import resource
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
import zlib

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
    done = run([PYANALYZE, "--json", *options, core], env={**os.environ, "DEBUGINFOD_URLS": "", **(env or {})}, timeout=300)
    try:
        return json.loads(done.stdout), done
    except ValueError:
        return None, done


def frames_of(rep):
    thread = rep["threads"][0]
    folded, out, at = {f["at"]: f for f in thread.get("folded", [])}, [], 0
    while at < len(thread["stack"]):
        piece = folded.get(at, {"frames": 1, "repeat": 1})
        out += [rep["frames"][i] for i in thread["stack"][at:at + piece["frames"]] * piece["repeat"]]
        at += piece["frames"]
    return out


def lib_frames(rep):
    return [f for f in frames_of(rep) if os.path.basename(f.get("module", "")) == LIB]


def essence(frames):
    return [(f.get("function"), f.get("symbol"), f.get("file"), f.get("line"), f.get("inlined"), f["pc"], f["module_offset"]) for f in frames]


def codes(rep):
    return [p["code"] for p in rep["problems"]]


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


class Scene:
    """The library as it was built, and places to put what it is split into."""

    def __init__(self, top, python):
        self.top, self.python = top, python
        self.app = os.path.join(top, "app")
        os.mkdir(self.app)
        self.lib = os.path.join(self.app, LIB)
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

    def id_parts(self, top):
        return (top, ".build-id", self.build_id[:2], self.build_id[2:] + ".debug")


def same(s, name, want, *options, env=None, core=None):
    rep, done = report(core or s.core, "-n", *options, env=env)
    if not tap.ok(rep is not None and done.returncode == 0, name + ": report", done.stderr.decode("utf-8", "replace")):
        return None
    tap.equal(essence(lib_frames(rep)), want, name + ": the same frames")
    tap.equal(module(rep)["symbols"], "full", name + ": all symbols")
    return rep


def whole(s):
    rep, done = report(s.core, "-n", "--debug-path=")
    if not tap.ok(rep is not None, "whole library: report", done.stderr.decode("utf-8", "replace")):
        return None
    frames = lib_frames(rep)
    demangles = "libiberty" in rep["tool"].get("features", [])
    names = [f.get("function") for f in frames]
    if demangles:
        tap.equal(names, NAMES, "C++ names are demangled")
        tap.ok(all(f.get("symbol") == SYMBOLS[f["function"]] for f in frames if f["function"] in SYMBOLS), "and stand as they are beside it", frames)
    else:
        tap.equal(names[:2], ["start_parsing", "_ZN6orders6Parser5parseEi"], "C++ names stay mangled")
    tap.ok(frames[-1].get("inlined") and not frames[-2].get("inlined") and frames[-1]["pc"] == frames[-2]["pc"], "the inlined function is there", frames[-2:])
    with open(os.path.join(PROGRAMS, "parsing.cc")) as f:
        lines = f.read().split("\n")
    tap.ok("throw std::runtime_error" in lines[frames[-1]["line"] - 1] and "check(" in lines[frames[-2]["line"] - 1], "lines of the throw and of where it was inlined",
           frames[-2:])
    tap.ok("abort" in [f.get("function") for f in frames_of(rep)], "up to abort", names)
    text = run([PYANALYZE, "--debug-path=", s.core], env=dict(os.environ, DEBUGINFOD_URLS="")).stdout.decode()
    tap.ok(not demangles or "orders::Parser::parse" in text, "the text report has them too", text)
    ids = {o: report(s.core, *o)[0]["verdict"] for o in ((), ("-n",), ("--debug-path=",))}
    tap.ok(len({v.get("group_id") for v in ids.values()}) == 1, "one group_id", ids)
    return essence(frames)


def separate(s, want):
    nowhere = "--debug-path="
    dirs = "--debug-path=.debug:" + os.path.join(s.top, "dbg")

    s.use(s.stripped)
    s.put(s.debug, *s.id_parts("dbg"))
    rep = same(s, "by build-id", want, dirs)
    tap.ok(rep and module(rep).get("debug_file", "").endswith(s.build_id[2:] + ".debug"), "by build-id: the file is named", rep and module(rep))
    same(s, "by build-id, beneath a sysroot", want, "--sysroot=" + s.top, "--debug-path=/dbg")
    rep, _ = report(s.core, "-n", nowhere)
    frames = lib_frames(rep)
    tap.ok(not any("line" in f or f.get("inlined") for f in frames) and frames, "without it: no lines", frames)
    tap.equal([f.get("symbol") or f.get("function") for f in frames], [SYMBOLS.get(n, n) or n for n in NAMES[:DEPTH + 2]] + [frames[-1].get("symbol") or frames[-1].get("function")],
              "without it: exported names")
    tap.ok(any(LIB in p["message"] for p in rep["problems"] if p["code"] == "PZ209"), "without it: said once", rep["problems"])
    tap.equal(module(rep)["symbols"], "dynsym", "without it: dynsym")

    s.use(s.linked)
    for name, place in (("beside it", ("app", "usr.debug")), ("in .debug", ("app", ".debug", "usr.debug"))):
        s.use(s.linked)
        s.put(s.debug, *place)
        same(s, "by .gnu_debuglink " + name, want)
    s.use(s.linked)
    s.put(s.debug, "dbg", s.app.lstrip("/"), "usr.debug")
    shutil.rmtree(os.path.join(s.top, "dbg", ".build-id"))
    same(s, "by .gnu_debuglink in the debug path", want, dirs)

    # What is refused.
    s.use(s.linked)
    changed = s.put(s.debug, "app", "usr.debug")
    with open(changed, "ab") as f:
        f.write(b"\0")
    rep, _ = report(s.core, "-n")
    tap.ok("debug_file" not in module(rep), "another checksum: not used", module(rep))
    wrong = os.path.join(s.top, "wrong.debug")
    subprocess.run(["objcopy", "--only-keep-debug", s.other, wrong], check=True)
    s.use(s.stripped)
    s.put(wrong, *s.id_parts("dbg"))
    rep, _ = report(s.core, "-n", dirs)
    said = [p["message"] for p in rep["problems"] if p["code"] == "PZ208"]
    tap.ok("debug_file" not in module(rep) and len(said) == 1 and s.build_id in said[0], "another build's debug file: not used, both ids are said", rep["problems"])

    if here("dwz"):
        tap.skip("shared debug information", "no dwz here")
        return
    shared = os.path.join(s.top, "dwz")
    os.mkdir(shared)
    mine, theirs = os.path.join(shared, "a.debug"), os.path.join(shared, "b.debug")
    shutil.copy(s.debug, mine)
    shutil.copy(wrong, theirs)
    done = run(["dwz", "-m", os.path.join(shared, "common.debug"), "-M", "common.debug", mine, theirs])
    if not tap.ok(done.returncode == 0 and os.path.exists(os.path.join(shared, "common.debug")), "dwz makes a shared file", done.stderr):
        return
    for name, place in (("by its name, relative", ("dbg", ".build-id", s.build_id[:2], "common.debug")), ("in .dwz", ("dbg", ".dwz", "common.debug")),
                        ("by its build-id", None)):
        shutil.rmtree(os.path.join(s.top, "dbg"))
        s.put(mine, *s.id_parts("dbg"))
        if place is None:
            alt = re.search(r"Build ID: (\w+)", run(["readelf", "-n", os.path.join(shared, "common.debug")]).stdout.decode()).group(1)
            place = ("dbg", ".build-id", alt[:2], alt[2:] + ".debug")
        s.put(os.path.join(shared, "common.debug"), *place)
        same(s, "shared debug information " + name, want, dirs)
    shutil.rmtree(os.path.join(s.top, "dbg"))
    s.put(mine, *s.id_parts("dbg"))
    rep, done = report(s.core, "-n", dirs)
    tap.ok(rep and len(lib_frames(rep)) >= DEPTH + 3, "shared debug information that is not there: the frames are", done.stderr)


def fetched(s, want):
    s.use(s.stripped)
    tools = os.path.join(s.top, "bin")
    os.mkdir(tools)
    log = os.path.join(s.top, "asked")
    script = os.path.join(tools, "debuginfod-find")
    with open(script, "w") as f:
        f.write("#!/bin/sh\necho \"$#:$1:$2\" >> %s\ntest $1:$2 = debuginfo:%s && echo %s && exit 0\ntest $1:$2 = executable:%s && echo %s && exit 0\nexit 1\n"
                % (log, s.build_id, s.debug, s.build_id, s.stripped))
    os.chmod(script, 0o755)
    path = {"PATH": tools + ":" + os.environ["PATH"]}

    def asked():
        with open(log) as f:
            lines = f.read().split()
        os.unlink(log)
        return lines
    rep, _ = report(s.core, "-n", "--debug-path=", env=path)
    tap.ok(not os.path.exists(log), "debuginfod-find is not run by itself")
    rep, _ = report(s.core, "-n", "--debug-path=", "--debuginfod=off", env=dict(path, DEBUGINFOD_URLS="http://localhost:1/"))
    tap.ok(not os.path.exists(log), "nor when it is off")
    same(s, "debuginfod-find, on", want, "--debug-path=", "--debuginfod=on", env=path)
    lines = asked()
    tap.ok(all(re.match(r"^2:(debuginfo|executable):[0-9a-f]{8,}$", l) for l in lines) and len(set(lines)) == len(lines), "it is asked for build-ids, each once", lines)
    done = run([PYANALYZE, "--json", "-n", "--debug-path=", s.core], env={**os.environ, "DEBUGINFOD_URLS": "http://localhost:1/", **path})
    tap.ok(essence(lib_frames(json.loads(done.stdout))) == want, "and where DEBUGINFOD_URLS is set")
    asked()
    # The library itself is not here: only once it is fetched can what called it be seen.
    s.use(None)
    same(s, "debuginfod-find, no file of it here", want, "--debug-path=", "--debuginfod=on", env=path)
    lines = asked()
    tap.ok("2:executable:" + s.build_id in lines, "it is asked for the file itself", lines)
    with open(script, "w") as f:
        f.write("#!/bin/sh\necho %s\n" % s.other)
    rep, _ = report(s.core, "-n", "--debug-path=", "--debuginfod=on", env=path)
    tap.ok(rep and "file" not in module(rep) and "debug_file" not in module(rep), "what it says is another build: not used", rep and module(rep))
    tap.ok(rep and "PZ214" not in codes(rep), "it gave one: nothing is said", rep and rep["problems"])
    with open(script, "w") as f:
        f.write("#!/bin/sh\nexit 1\n")
    rep, _ = report(s.core, "-n", "--debug-path=", "--debuginfod=on", env=path)
    tap.ok(rep and codes(rep).count("PZ214") == 1, "it gives none: said once", rep and rep["problems"])
    empty = os.path.join(s.top, "empty")
    os.mkdir(empty)
    rep, done = report(s.core, "--debug-path=", "--debuginfod=on", env={"PATH": empty})
    tap.ok(rep and "PZ210" in codes(rep), "no debuginfod-find here: said", rep and rep["problems"])


def real_debuginfod(s, want):
    missing = here("debuginfod", "debuginfod-find")
    if missing:
        tap.skip("a debuginfod server", "no %s here" % missing[0])
        return
    s.use(s.stripped)
    served = os.path.join(s.top, "served")
    os.mkdir(served)
    shutil.copy(s.whole, os.path.join(served, "lib.so"))
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port = sock.getsockname()[1]
    env = dict(os.environ, HOME=s.top)
    server = subprocess.Popen(["debuginfod", "-F", "-p", str(port), "-d", os.path.join(s.top, "sqlite"), "-t", "0", served], env=env,
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    try:
        for _ in range(100):
            try:
                c = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
                c.request("GET", "/buildid/%s/debuginfo" % s.build_id)
                if c.getresponse().status == 200:
                    break
            except OSError:
                pass
            time.sleep(0.1)
        more = {"DEBUGINFOD_URLS": "http://127.0.0.1:%d/" % port, "DEBUGINFOD_CACHE_PATH": os.path.join(s.top, "cache")}
        done = run([PYANALYZE, "--json", "-n", "--debug-path=", s.core], env=dict(os.environ, **more))
        rep = json.loads(done.stdout)
        tap.equal(essence(lib_frames(rep)), want, "a debuginfod server: the same frames")
        tap.ok(s.build_id in module(rep).get("debug_file", ""), "a debuginfod server: the file is named", module(rep))
    finally:
        os.killpg(server.pid, signal.SIGKILL)
        server.wait()


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
    tap.ok(all(l in said for l in lacking) or "..." in said, "and which lack them is said", (lacking, said))


def no_file(s, want):
    s.use(None)
    rep, done = report(s.core37, "-n", "--debug-path=")
    frames = lib_frames(rep)
    tap.equal([f["module_offset"] for f in frames], [w[6] for w in want if not w[4]], "no file of it, its pages in the core: the same frames, by offset")
    s.put(s.debug, *s.id_parts("only"))
    rep, done = report(s.core37, "-n", "--debug-path=" + os.path.join(s.top, "only"))
    tap.equal([(f.get("function"), f.get("line"), f["module_offset"]) for f in lib_frames(rep)], [(w[0], w[3], w[6]) for w in want],
              "its debug file alone, its pages in the core: names, lines and inlined functions too")
    rep, done = report(s.core, "-n", "--debug-path=")
    mod = module(rep)
    tap.ok(mod["build_id"] == s.build_id and "file" not in mod and mod["symbols"] in ("none", "dynsym"), "no file of it: its build-id is known", mod)
    text = run([PYANALYZE, "-n", "--debug-path=", "--show=+modules", s.core_hidden], env=dict(os.environ, DEBUGINFOD_URLS="")).stdout.decode()
    build_id = re.search(r"Build ID: (\w+)", run(["readelf", "-n", s.hidden]).stdout.decode()).group(1)
    tap.ok(re.search(re.escape(LIB) + r"\+0x[0-9a-f]+  \(build-id %s\)" % build_id, text), "no file of it, no name: offset and build-id", text)
    how_well(s.core_hidden, text, "--debug-path=")
    tap.ok(re.search(r"0x[0-9a-f]{12}-0x[0-9a-f]{12}  symbols: \w+ +build-id: %s  \S*%s" % (build_id, LIB), text), "and its line among the modules", text)
    s.use(s.other)
    rep, _ = report(s.core, "-n", "--debug-path=")
    mod = module(rep)
    said = [p["message"] for p in rep["problems"] if p["code"] == "PZ202"]
    tap.ok(mod["symbols"] in ("mismatch", "dynsym") and mod["disk_build_id"] != s.build_id and "file" not in mod, "another build at its place: not used", mod)
    tap.ok(len(said) == 1 and s.build_id in said[0] and mod["disk_build_id"] in said[0], "both ids are said", said)
    s.use(s.whole)
    rep, done = report(s.core, "-e", s.other)
    said = [p["message"] for p in rep["problems"] if p["code"] == "PZ202" and s.other in p["message"]]
    tap.ok(done.returncode == 0 and len(said) == 1 and "start_parsing" in [f.get("function") for f in frames_of(rep)] and rep["verdict"],
           "-e with a wrong file: refused, and the report goes on", rep["problems"])
    snap_like = module(rep)
    tap.ok(snap_like["symbols"] == "full", "the right one is used again", snap_like)


def child_of(pid):
    for _ in range(20000):
        try:
            with open("/proc/%d/task/%d/children" % (pid, pid)) as f:
                kids = f.read().split()
        except OSError:
            return None
        if kids:
            return int(kids[0])
    return None


def deaths(s):
    """The process that unwinds, stopped as soon as it is there and ended in some way: the Python report is whole."""
    plain, _ = report(s.core, "--show=-native")
    want = [(f["function"], f["line"]) for f in frames_of(plain)]
    if not os.path.exists("/proc/self/task/%d/children" % os.getpid()):
        tap.skip("a child that dies", "this kernel does not list children")
        return

    def end_with(sig):
        return lambda kid: (os.kill(kid, sig), os.kill(kid, signal.SIGCONT))

    def starve(kid):
        resource.prlimit(kid, resource.RLIMIT_DATA, (1, 1))
        os.kill(kid, signal.SIGCONT)

    def exhaust(kid):
        resource.prlimit(kid, resource.RLIMIT_CPU, (0, 5))
        os.kill(kid, signal.SIGCONT)
    for name, act, words in (("is killed", end_with(signal.SIGKILL), "died of signal 9"), ("crashes", end_with(signal.SIGSEGV), "died of signal 11"),
                             ("crashes, of a caller that ignores SIGCHLD", end_with(signal.SIGSEGV), "died of signal 11"),
                             ("aborts", end_with(signal.SIGABRT), "died of signal 6"), ("has no memory", starve, "memory"), ("loops", exhaust, "longer than"), ("stands still", lambda kid: None, "longer than")):
        tried = 0
        while tried < 8:
            tried += 1
            ignored = (lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN)) if "SIGCHLD" in name else None
            p = subprocess.Popen([PYANALYZE, "--json", "-n", s.core], stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=ignored,
                                 env=dict(os.environ, DEBUGINFOD_URLS=""))
            kid = child_of(p.pid)
            try:
                os.kill(kid, signal.SIGSTOP)
                act(kid)
            except (TypeError, ProcessLookupError):
                p.communicate()
                continue
            out, err = p.communicate(timeout=100)
            rep = json.loads(out)
            if "PZ408" in codes(rep):
                break
        else:
            tap.skip("a child that " + name, "it was always done before")
            continue
        said = next(pr for pr in rep["problems"] if pr["code"] == "PZ408")
        python = [(f["function"], f["line"]) for f in frames_of(rep) if f["lang"] == "python"]
        tap.equal(python, want, "a child that %s: Python's stack is whole" % name)
        libdw_says = name == "has no memory" and "htab->table" in said["message"] # its assertion that an allocation gave something
        tap.ok(p.returncode == 0 and (words in said["message"] or libdw_says) and said.get("hint"), "a child that %s: said" % name, said)


NO_TABLES = """
#include <stdlib.h>
volatile int keep;
__attribute__((noinline)) static int inner(int n) { int room[50]; for (int i = 0; i < 50; i++) room[i] = keep + n; if (!n) abort(); return inner(n - 1) + room[n]; }
__attribute__((noinline)) int start_parsing(int n) { return inner(n) + keep; }
"""


def debug_frame(s):
    """Code whose unwind tables are in its debug file alone."""
    source, whole = os.path.join(s.top, "notables.c"), os.path.join(s.top, "notables.so")
    with open(source, "w") as f:
        f.write(NO_TABLES)
    subprocess.run(["gcc", "-g", "-O1", "-fno-asynchronous-unwind-tables", "-fno-unwind-tables", "-fno-optimize-sibling-calls", "-fomit-frame-pointer", "-shared", "-fPIC",
                    "-Wl,--build-id=sha1", "-o", whole, source], check=True)
    s.use(whole)
    core = make_core(s.top, s.python, s.lib, "0x33")
    rep, _ = report(core, "-n", "--debug-path=")
    want = lib_frames(rep)
    tap.equal([f.get("function") for f in want], ["start_parsing"] + ["inner"] * (DEPTH + 1), "unwind tables in .debug_frame")
    tap.ok(all(f.get("unwound_by") == "cfi" for f in want), "and nothing was guessed", want)
    build_id = re.search(r"Build ID: (\w+)", run(["readelf", "-n", whole]).stdout.decode()).group(1)
    debug = s.put(whole, "tables", ".build-id", build_id[:2], build_id[2:] + ".debug")
    subprocess.run(["objcopy", "--only-keep-debug", whole, debug], check=True)
    subprocess.run(["strip", s.lib], check=True)
    rep, _ = report(core, "-n", "--debug-path=" + os.path.join(s.top, "tables"))
    tap.equal(essence(lib_frames(rep)), essence(want), "unwind tables in the debug file's .debug_frame: the same frames")
    rep, _ = report(core, "-n", "--debug-path=")
    guessed = lib_frames(rep)
    tap.ok(essence(guessed) != essence(want) and all(f.get("unwound_by") != "cfi" for f in guessed[:-1]), "without them: no claim that a table told", guessed)


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


def functions(rep):
    return [f.get("function") for f in lib_frames(rep)]


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
    for less in (10, 200, 5000, 60000):
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


RUST = """
mod orders { pub mod parsing {
    pub struct Parser(pub i32);
    pub trait Parse { fn parse(&self) -> i32; }
    impl Parse for Parser { #[inline(never)] fn parse(&self) -> i32 { if self.0 == 7 { std::process::abort() } self.0 + 1 } }
    #[inline(never)] pub fn all<T: Parse>(p: &T) -> i32 { p.parse() + 1 }
} }
#[no_mangle] pub extern "C" fn start_parsing(n: i32) -> i32 { orders::parsing::all(&orders::parsing::Parser(n + 4)) + 1 }
"""
RUST_NAMES = {"legacy": ["start_parsing", "throws::orders::parsing::all", "<throws::orders::parsing::Parser as throws::orders::parsing::Parse>::parse"],
              "v0": ["start_parsing", "throws::orders::parsing::all::<throws::orders::parsing::Parser>",
                     "<throws::orders::parsing::Parser as throws::orders::parsing::Parse>::parse"]}


def rust(top, python):
    """Both manglings of rustc."""
    if not shutil.which("rustc"):
        tap.skip("names of Rust functions", "no rustc here")
        return
    source = os.path.join(top, "throws.rs")
    with open(source, "w") as f:
        f.write(RUST)
    for mangling, want in sorted(RUST_NAMES.items()):
        lib = os.path.join(top, LIB)
        argv = ["rustc", "-g", "-O", "--crate-type=cdylib", "-C", "symbol-mangling-version=" + mangling, "-o", lib, source]
        done = run(argv if mangling == "v0" else argv + ["-Z", "unstable-options"], env=dict(os.environ, RUSTC_BOOTSTRAP="1"), cwd=top)
        core = make_core(top, python, lib, "0x33") if done.returncode == 0 else None
        if not core:
            tap.skip("names of Rust functions, " + mangling, "rustc makes no such library here: %s" % done.stderr[-200:].decode("utf-8", "replace").replace("\n", " "))
            continue
        rep, _ = report(core)
        frames = [f for f in lib_frames(rep) if f.get("function", "").split("::")[0] in ("start_parsing", "throws", "<throws")]
        if "libiberty" in rep["tool"].get("features", []):
            tap.equal([f["function"] for f in frames], want, "names of Rust functions, " + mangling)
        else:
            tap.skip("names of Rust functions, " + mangling, "built without libiberty")


def sections(path):
    """{name: (offset, size)} of the file."""
    out = {}
    for m in re.finditer(r"^\s*\[\s*\d+\] (\S+)\s+(\S+)\s+[0-9a-f]+ ([0-9a-f]+) ([0-9a-f]+)", run(["readelf", "-SW", path]).stdout.decode(), re.M):
        if m.group(2) != "NOBITS":
            out[m.group(1)] = (int(m.group(3), 16), int(m.group(4), 16))
    return out


def damaged(s):
    """Files that have the right build-id and are wrong elsewhere: the report comes, in time, with all of Python's stack."""
    plain, _ = report(s.core, "--show=-native")
    want = [(f["function"], f["line"]) for f in frames_of(plain)]
    seed = int(os.environ.get("SEED", time.time()))
    rng = random.Random(seed)
    dirs = "--debug-path=" + os.path.join(s.top, "dbg")

    def check(name, rep, done, took):
        python = [(f["function"], f["line"]) for f in frames_of(rep) if f["lang"] == "python"] if rep else None
        return rep is not None and done.returncode == 0 and python == want and took < 30 and done.stderr == b"" or (name, done.returncode, done.stderr, python, took)

    def several(what, original, names, n, place):
        at, bad, whole = sections(original), [], open(original, "rb").read()
        note = at[".note.gnu.build-id"]
        for i in range(n):
            data = bytearray(whole)
            name = rng.choice(names)
            start, size = at.get(name, (0, 64)) if name != "headers" else (struct.unpack_from("<Q", whole, 40)[0], len(whole) - struct.unpack_from("<Q", whole, 40)[0])
            for _ in range(rng.choice((1, 3, 30, 300))):
                k = start + rng.randrange(max(1, min(size, len(data) - start)))
                if not note[0] <= k < note[0] + note[1]:
                    data[k] = rng.choice((0, 0xff, 0x7f, 0x80, rng.randrange(256)))
            to = s.put(original, *place)
            with open(to, "wb") as f:
                f.write(data)
            before = time.time()
            rep, done = report(s.core, "-n", "-q", dirs)
            result = check("%d: %s" % (i, name), rep, done, time.time() - before)
            if result is not True:
                bad.append(result)
        tap.ok(not bad, "%s, damaged %d times: the report comes (SEED=%d)" % (what, n, seed), bad[:5])

    s.use(s.stripped)
    several("a debug file", s.debug, [".debug_info", ".debug_abbrev", ".debug_line", ".debug_str", ".symtab", ".strtab", "headers", ".debug_rnglists", ".debug_aranges"],
            60, s.id_parts("dbg"))
    shutil.rmtree(os.path.join(s.top, "dbg"))
    several("the library", s.whole, [".eh_frame", ".eh_frame_hdr", ".dynsym", ".gnu.hash", ".symtab", ".strtab", "headers", ".debug_info", ".debug_frame", ".dynamic"], 60,
            ("app", LIB))

    # Sections that say they unpack to very much, and that do.
    s.use(s.stripped)
    packed = os.path.join(s.top, "packed.debug")
    if run(["objcopy", "--compress-debug-sections=zlib", s.debug, packed]).returncode != 0:
        tap.skip("packed debug information", "objcopy cannot pack it")
        return
    s.put(packed, *s.id_parts("dbg"))
    rep, _ = report(s.core, "-n", dirs)
    tap.ok(rep and any("line" in f for f in lib_frames(rep)), "packed debug information is read")
    for name, size in (("1 TiB", 1 << 40), ("2^64 - 1 bytes", (1 << 64) - 1), ("0 bytes", 0)):
        data = bytearray(open(packed, "rb").read())
        for section, (at, length) in sections(packed).items():
            if section.startswith(".debug_"):
                data[at + 8:at + 16] = size.to_bytes(8, "little")
        to = s.put(packed, *s.id_parts("dbg"))
        with open(to, "wb") as f:
            f.write(data)
        before = time.time()
        rep, done = report(s.core, "-n", dirs)
        result = check(name, rep, done, time.time() - before)
        tap.ok(result is True, "packed debug information that says it is %s" % name, result)
    bomb = zlib.compress(b"\0" * (3 << 29), 9) # 1.5 GiB
    data = bytearray(open(packed, "rb").read())
    index = {m.group(2): int(m.group(1)) for m in re.finditer(r"^\s*\[\s*(\d+)\] (\S+)", run(["readelf", "-SW", packed]).stdout.decode(), re.M)}
    shoff = struct.unpack_from("<Q", data, 40)[0]
    end = len(data)
    data += struct.pack("<IIQQ", 1, 0, 3 << 29, 1) + bomb
    struct.pack_into("<QQ", data, shoff + 64 * index[".debug_info"] + 24, end, 24 + len(bomb))
    to = s.put(packed, *s.id_parts("dbg"))
    with open(to, "wb") as f:
        f.write(data)
    before = time.time()
    rep, done = report(s.core, "-n", dirs)
    result = check("bomb", rep, done, time.time() - before)
    tap.ok(result is True, "packed debug information of 1.5 GiB of zeros", result)


def sandboxed(s):
    done = run([PYANALYZE, "-v", s.core])
    tap.ok(re.search(rb"confined by (seccomp and landlock|seccomp|landlock|limits alone)", done.stderr), "-v says what confines it", done.stderr)
    one, two = report(s.core, "-n")[0], report(s.core, "-n", "--no-sandbox")[0]
    tap.equal(essence([f for f in frames_of(two) if f["lang"] == "c" and "module" in f]), essence([f for f in frames_of(one) if f["lang"] == "c" and "module" in f]), "--no-sandbox: the same frames")
    done = run([PYANALYZE, "-v", "--no-sandbox", s.core])
    tap.ok(b"confined by limits alone" in done.stderr, "--no-sandbox: said", done.stderr)
    if not shutil.which("strace"):
        tap.skip("it opens nothing", "no strace here")
        return
    log = os.path.join(s.top, "strace")
    done = run(["strace", "-f", "-e", "trace=openat,openat2,open,clone,clone3,fork,vfork,execve", "-o", log, PYANALYZE, "-n", s.core])
    if done.returncode != 0 or not os.path.exists(log):
        tap.skip("it opens nothing", "strace does not work here")
        return
    with open(log) as f:
        lines = f.read().split("\n")
    parent = lines[0].split()[0]
    opened = [l for l in lines if l and l.split()[0] != parent and re.search(r"\bopen(at2?)?\(", l) and " = -1 " not in l]
    tap.equal([l for l in opened if "statm" not in l], [], "it opens nothing")


def main():
    missing = here("g++", "objcopy", "readelf")
    found, _ = find()
    known = layouts(PYANALYZE)
    usable = [p for p in found if not p.root and p.version.startswith("3.") and (p.minor, p.config) in known]
    with open("/proc/sys/kernel/core_pattern") as f:
        pattern = f.read().strip()
    if missing or not usable or pattern.startswith(("|", "/")):
        tap.skip("modules", "no %s here" % missing[0] if missing else "no interpreter that fits" if not usable else "kernel.core_pattern is %s" % pattern)
        tap.done()
    top = tempfile.mkdtemp(prefix="pysnap-modules-")
    try:
        s = Scene(top, usable[-1])
        if tap.ok(s.core and s.core37, "cores of an uncaught C++ exception"):
            want = whole(s)
            if want:
                separate(s, want)
                fetched(s, want)
                real_debuginfod(s, want)
                no_file(s, want)
                sandboxed(s)
                deaths(s)
                lib, other = build_parks(s, "parks.so"), build_parks(s, "parks_other.so", "-DOTHER", "-O0")
                bundle_none(s, lib, other)
                travels(s, lib, other)
                large(s)
                mini(s, lib)
                debug_frame(s)
                rust(top, s.python)
                s.use(s.whole)
                damaged(s)
    finally:
        shutil.rmtree(top, ignore_errors=True)
    tap.done()


main()
