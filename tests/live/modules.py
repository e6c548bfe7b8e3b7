#!/usr/bin/env python3
"""Modules: the same names, lines and inlined functions from a library with debug information, and from a stripped one whose debug
information lies wherever it may lie; what is refused; and what is said with no file at all.

usage: modules.py PYSNAP PYANALYZE
"""
import http.client
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import time

from reports import codes
from scene import DEPTH, LIB, NAMES, SYMBOLS, PYANALYZE, Scene, essence, frames_of, here, how_well, lib_frames, make_core, module, play, report, tap
from target import PROGRAMS, run


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
    for urls, why in ("", "DEBUGINFOD_URLS is not set"), ("http://localhost:1/", "the servers of DEBUGINFOD_URLS cannot be reached or lack them"):
        rep, _ = report(s.core, "-n", "--debug-path=", "--debuginfod=on", env=dict(path, DEBUGINFOD_URLS=urls))
        said = [p["message"] for p in rep["problems"] if p["code"] == "PZ214"] if rep else []
        tap.ok(len(said) == 1 and said[0].endswith(": " + why), "it gives none: said once, and that %s" % why, (said, rep and rep["problems"]))
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


def act(s):
    want = whole(s)
    if want:
        separate(s, want)
        fetched(s, want)
        real_debuginfod(s, want)
        no_file(s, want)
        sandboxed(s)
        debug_frame(s)
        rust(s.top, s.python)


play("modules", ("g++", "objcopy", "readelf"), Scene, act)
