#!/usr/bin/env python3
"""The process that unwinds dies in every way, or is given files that are damaged: the report comes, with all of Python's stack.

usage: damaged.py PYSNAP PYANALYZE
"""
import json
import os
import random
import re
import resource
import shutil
import signal
import struct
import subprocess
import time
import zlib

from reports import codes
from scene import LIB, PYANALYZE, Scene, frames_of, lib_frames, play, report, tap
from target import run


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
            for check in ("Python's stack is whole", "said"):
                tap.skip("a child that %s: %s" % (name, check), "it was always done before")
            continue
        said = next(pr for pr in rep["problems"] if pr["code"] == "PZ408")
        python = [(f["function"], f["line"]) for f in frames_of(rep) if f["lang"] == "python"]
        tap.equal(python, want, "a child that %s: Python's stack is whole" % name)
        libdw_says = name == "has no memory" and "htab->table" in said["message"] # its assertion that an allocation gave something
        tap.ok(p.returncode == 0 and (words in said["message"] or libdw_says) and said.get("hint"), "a child that %s: said" % name, said)


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


def act(s):
    deaths(s)
    damaged(s)


play("damaged", ("g++", "objcopy", "readelf"), Scene, act)
