#!/usr/bin/env python3
"""Cores as people keep them: compressed by each command that is here, under any name, out of pipes, cut, without room to unpack.

packed.py PYSNAP PYANALYZE

What is reported is what the plain core gives, but for the input's own facts.
"""
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile

from pythons import find, layouts
from tap import Tap
from target import Target, run

PYSNAP, PYANALYZE = [os.path.abspath(p) for p in sys.argv[1:3]]
tap = Tap()

# format, command; both ends of each command's range where they differ in kind
COMMANDS = [
    ("gzip", ["gzip", "-1"]), ("gzip", ["pigz", "-1"]), ("gzip", ["bgzip", "-c"]),
    ("zstd", ["zstd", "-q"]), ("zstd", ["zstd", "-q", "-T0", "--long=27"]), ("zstd", ["pzstd", "-q", "-c"]),
    ("xz", ["xz", "-0"]), ("xz", ["xz", "-0", "-T2"]), ("xz", ["pixz", "-0"]),
    ("lz4", ["lz4", "-q"]), ("lz4", ["lz4", "-q", "-BD", "-B4"]),
]


def compiled_in():
    return re.search(r"of cores: (.*)", run([PYANALYZE, "--version"]).stdout.decode()).group(1).split()


def pack(command, source, name):
    with open(source, "rb") as f, open(name, "wb") as out:
        return subprocess.run(command, stdin=f, stdout=out, stderr=subprocess.DEVNULL).returncode == 0


def analyze(argv, stdin=None, env=None):
    done = run([PYANALYZE, "--json"] + argv, stdin=stdin or subprocess.DEVNULL, env=env)
    try:
        rep = json.loads(done.stdout)
    except ValueError:
        return None, None, done
    return rep, rep.pop("input"), done


def through_pipe(path):
    """Standard input is a pipe that cat fills."""
    cat = subprocess.Popen(["cat", path], stdout=subprocess.PIPE)
    got = analyze(["-"], cat.stdout)
    cat.stdout.close()
    cat.wait()
    return got


def one(name, got, want, kind, compression, file_size):
    rep, facts, done = got
    if not tap.ok(rep is not None and done.returncode == 0, "%s: a report" % name, done.stderr.decode("utf-8", "replace")):
        return
    tap.ok(rep == want, "%s: the report of the plain file" % name,
           "\n".join("%s:\n%s\n%s" % (k, json.dumps(rep.get(k))[:600], json.dumps(want.get(k))[:600]) for k in want if rep.get(k) != want[k]))
    tap.equal((facts["kind"], facts.get("compression"), facts["file_size"], facts["complete"]), (kind, compression, file_size, True), "%s: what the input is" % name)


def formats(folder, core, want):
    here = compiled_in()
    seen = set()
    for fmt, command in COMMANDS:
        name = " ".join(command)
        if fmt not in here or not shutil.which(command[0]):
            tap.skip(name, "the format is not compiled in" if fmt not in here else "no such command here")
            continue
        packed = os.path.join(folder, "core.python.0.0a1b.123.456." + fmt[:3])  # systemd's manner of naming
        if not pack(command, core, packed):
            tap.skip(name, "the command fails")
            continue
        size = os.path.getsize(packed)
        one(name, analyze([packed]), want, "core", fmt, size)
        bare = os.path.join(folder, "bare")
        os.rename(packed, bare)
        one("%s, no suffix" % name, analyze([bare]), want, "core", fmt, size)
        if fmt not in seen:
            seen.add(fmt)
            one("%s, through a pipe" % name, through_pipe(bare), want, "core", fmt, size)
            with open(bare, "rb") as f:
                one("%s, as standard input" % name, analyze(["-"], f), want, "core", fmt, size)
            cut(folder, bare, name, fmt, want)
        os.unlink(bare)
    one("plain, through a pipe", through_pipe(core), want, "core", None, os.path.getsize(core))


def cut(folder, packed, name, fmt, want):
    """Half of it: a report of what is there, which says so."""
    part = os.path.join(folder, "part")
    with open(packed, "rb") as f, open(part, "wb") as out:
        out.write(f.read(os.path.getsize(packed) * 9 // 10))
    rep, facts, done = analyze([part])
    if not tap.ok(rep is not None and done.returncode in (0, 5), "%s, cut: a report" % name, done.stderr.decode("utf-8", "replace")):
        return
    said = [p["message"] for p in rep["problems"] if p["code"] == "PZ106"]
    tap.ok(len(said) == 1 and re.match(r"the file is cut off at [0-9.]+ \w+, inside its %s stream; the first .* were used; segments lost: [1-9]" % fmt, said[0]) and
           not facts["complete"] and facts["size"] < facts["expected_size"], "%s, cut: it says where" % name, (said, facts))
    os.unlink(part)


def snapshots(folder, snap):
    want, facts, _ = analyze([snap])
    if not tap.ok(want is not None, "the snapshot: a report"):
        return
    one(".pz, through a pipe", through_pipe(snap), want, "snapshot", None, os.path.getsize(snap))
    with open(snap, "rb") as f:
        one(".pz, as standard input", analyze(["-"], f), want, "snapshot", None, os.path.getsize(snap))
    if "zstd" in compiled_in() and shutil.which("zstd"):
        packed = os.path.join(folder, "snap.pz.zst")
        pack(["zstd", "-q"], snap, packed)
        one(".pz.zst", analyze([packed]), want, "snapshot", "zstd", os.path.getsize(packed))


def no_room(folder, core):
    """A TMPDIR with less room than the core needs: the message, and nothing left behind."""
    packed = os.path.join(folder, "core.gz")
    pack(["gzip", "-1"], core, packed)
    small = os.path.join(folder, "small")
    os.mkdir(small)
    done = run(["unshare", "-m", "sh", "-c", "mount -t tmpfs -o size=33m none \"$1\" && (TMPDIR=\"$1\" \"$2\" \"$3\"; echo $?; ls \"$1\"; df -k --output=used \"$1\" | tail -n 1)",
                "sh", small, PYANALYZE, packed])
    if done.returncode != 0 or os.geteuid() != 0:
        tap.skip("no room to unpack", "no tmpfs can be mounted here")
        return
    said = done.stderr.decode()
    # 32 MiB are left to others, and it is looked at every 8 MiB; the content is at least as large as what it is packed into.
    words = "pyanalyze: needs more than %.0f MiB in %s to unpack %s, %%s MiB are free\n  try: TMPDIR=DIR pyanalyze %s, with a DIR on a disk that has room\n" % (
        os.path.getsize(packed) / (1 << 20) + 40, small, packed, packed)
    tap.equal(said, words % "33", "no room to unpack: it says what is needed")
    tap.equal(done.stdout.split(), [b"1", b"0"], "no room to unpack: exit code 1 and nothing left behind")
    done = run(["unshare", "-m", "sh", "-c", "mount -t tmpfs -o size=2m none \"$1\" && TMPDIR=\"$1\" \"$2\" \"$3\"", "sh", small, PYANALYZE, packed])
    tap.equal(done.stderr.decode(), words % "2.0", "hardly any room to unpack: it says what is needed")


def main():
    known = layouts(PYANALYZE)
    pythons = [p for p in find()[0] if (p.minor, p.config) in known and not p.root and p.minor != "2.7"]
    if not pythons:
        tap.skip("packed", "no interpreter here that there is a layout for")
        tap.done()
    target = Target(pythons[-1], "threads.py", "TRUTH")
    folder = tempfile.mkdtemp(prefix="pysnap-packed-")
    try:
        if not tap.ok(target.wait_ready(), "%s: the program parks" % pythons[-1].name, target.text()):
            tap.done()
        snap = os.path.join(folder, "snap.pz")
        run([PYSNAP, "-q", str(target.pid), "-o", snap])
        snapshots(folder, snap)
        core, why = target.core(signal.SIGABRT)
        if core:
            want, facts, _ = analyze([core])
            tap.ok(want is not None and "compression" not in facts, "the plain core: a report", facts)
            formats(folder, core, want)
            no_room(folder, core)
        else:
            tap.skip("compressed cores", why)
    finally:
        target.end()
        shutil.rmtree(folder, ignore_errors=True)
    tap.done()


if __name__ == "__main__":
    main()
