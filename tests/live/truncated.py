#!/usr/bin/env python3
"""Cores and snapshots that ulimit -c or a full disk cut: what is shown of them is what the whole core shows, and nothing else.

truncated.py PYSNAP PYANALYZE [NAME...]     NAME: only interpreters whose name contains it

A stack of a cut core may lack older frames (then the report says so) and names (shown as unknown); a stack that is not the inner
part of the true one fails.  Without a runtime, stacks come from thread states that were proved one by one (PZ305).
"""
import json
import os
import re
import resource
import signal
import struct
import sys

from pythons import find, layouts
from reports import codes, report, unfolded
from tap import Tap
from target import Target, run

PYSNAP, PYANALYZE = [os.path.abspath(p) for p in sys.argv[1:3]]
tap = Tap()
FOUND = [] # how many names of threads, in each cut core that has any


class Limited(Target):
    """Its core ends after so many bytes (holes do not count)."""


def limited(python, limit):
    return type("Limited", (Limited,), {"limit": limit})(python, "threads.py", "TRUTH")


def is_about(words, size):
    """`12 MiB` is what a size reads when rounded."""
    number, unit = words.split()
    unit = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}[unit]
    return abs(float(number) * unit - size) <= unit * (0.051 if "." in number else 0.51)


def stacks(rep):
    """[(tid, broken, [(function, file, line)] innermost first)] of threads with Python frames."""
    out = []
    for t in rep["threads"]:
        frames = [(f.get("function"), f.get("file"), f.get("line")) for f in unfolded(rep, t) if f["lang"] == "python"]
        if frames:
            out.append((t["tid"], "broken" in t, frames[::-1]))
    return out


def names(rep, source):
    return {t["tid"]: t["name"] for t in rep["threads"] if t.get("name_source") == source and "tid" in t}


def same(got, want):
    """What was lost is unknown; what is shown is true."""
    function, file, line = got
    return (function in (None, want[0]) or function.startswith("<code 0x")) and file in (None, want[1]) and line in (None, want[2])


def inner_part(got, broken, want):
    return len(got) <= len(want) and (broken or len(got) == len(want)) and all(same(a, b) for a, b in zip(got, want))


def runtime_at(core, rep):
    """Where in the file the data of libpython (or of the program that is Python) begins."""
    places = [(int(m["start"], 16), int(m["end"], 16)) for m in rep["modules"] if "python" in os.path.basename(m["path"])]
    with open(core, "rb") as f:
        head = f.read(64)
        phoff, (size, count) = struct.unpack_from("<Q", head, 32)[0], struct.unpack_from("<HH", head, 54)
        f.seek(phoff)
        table = f.read(size * count)
    found = []
    for i in range(count):
        kind, flags, offset, start, _, filesz = struct.unpack_from("<IIQQQQ", table, i * size)
        if kind == 1 and flags & 2 and filesz > 0x8000 and any(a <= start < b for a, b in places):
            found.append(offset)
    return max(found) if found else 0


def check(name, path, rep, done, whole, by_tid, known=None):
    """Returns how many stacks were shown.  known: the names of threads in the whole core."""
    if not tap.ok(rep is not None and done.returncode in (0, 5), "%s: a report" % name, done.stderr.decode("utf-8", "replace")):
        return 0
    said = [p["message"] for p in rep["problems"] if p["code"] == "PZ101"]
    lost = rep["input"].get("lost", {})
    if rep["input"]["kind"] == "core":
        words = "segments lost: %d of %d" % (lost.get("segments", -1), lost.get("of_segments", -1))
        part, gone, of = (lost.get(k, -1) for k in ("thread_stacks_in_part", "thread_stacks", "of_thread_stacks"))
        stacks_of = ": %d with thread stacks (of %d of %d thread%s%s)" % (lost.get("stack_segments", -1), gone + part, of, "s" * (of != 1),
                                                                          ", in part" if part and not gone else ", %d in part" % part if part else "")
        tap.ok(len(said) == 1 and words + (stacks_of if lost.get("stack_segments") else "") in said[0] and not re.search(r"[ (:]0 (of|with)", said[0]), "%s: it says that it is truncated, and what is lost" % name, (said, lost))
        # What the kernel writes in the order of addresses is cut from above: the stack of the main thread goes first.
        tap.ok(lost.get("of_thread_stacks") == len(rep["threads"]) and (not lost.get("segments") or lost["thread_stacks"] > 0 or lost["segments"] <= 4),
               "%s: stacks are counted" % name, lost)
        tap.ok(lost.get("stack_segments", -1) + lost.get("file_segments", -1) + lost.get("other_segments", -1) == lost.get("segments"),
               "%s: the parts add up" % name, lost)
        what, missing, want = (re.search(r"is truncated: (the last|only the first) (\S+ \w+) of (\S+ \w+) are (?:missing|there);", said[0]) or re.search("()()()", "")).groups()
        text = run([PYANALYZE, "-q", "--show=-native", path]).stdout.decode("utf-8", "replace")
        header = re.search(r"^core (\S+ \w+), TRUNCATED \((of|by) (\S+ \w+)\)", text, re.M)
        size, of_all = rep["input"]["size"], rep["input"]["expected_size"]
        tap.ok(header and header.group(3) == (want if header.group(2) == "of" else missing) and (header.group(2) == "of") == (header.group(1) != want) and size == os.stat(path).st_size and
               is_about(header.group(1), size) and is_about(want, of_all) and is_about(missing, of_all - size if what == "the last" else size), "%s: the sizes, in the header too" % name, (said, text.split("\n")[:12]))
    else:
        tap.ok(len(said) == 1, "%s: it says that it is truncated" % name, said)
    if any(p["code"] == "PZ301" for p in rep["problems"]): # then native frames are all that one sees
        plain, every = [[line for line in run([PYANALYZE, "-q", "-v", "--frames=0", path] + more).stdout.decode("utf-8", "replace").split("\n") if line.startswith("  C   ")]
                        for more in ([], ["-n"])]
        every = [line for line in every if not line.endswith("(inlined)")]
        tap.equal(len(plain), len(every), "%s: of no Python all native frames" % name)
    wrong = []
    shown = stacks(rep)
    for tid, broken, frames in shown:
        candidates = [w for t, _, w in whole if t == tid or not by_tid]
        if not any(inner_part(frames, broken, w) for w in candidates):
            wrong.append((tid, broken, frames[:6], candidates[:1] if by_tid else ""))
    tap.ok(not wrong, "%s: %d stacks shown, each a true one" % (name, len(shown)), "\n".join(map(repr, wrong)))
    found = names(rep, "found")
    if known is not None: # where memory was cut, and so whether there are any, is another place in every run
        FOUND.extend([len(found)] if found else [])
        tap.equal(found, {t: known.get(t) for t in found}, "%s: %d names found, each a true one" % (name, len(found)))
        tap.equal("PZ414" in codes(rep), len(found) > 0, "%s: that they were found is said" % name)
    return len(shown)


def with_folder(frames, folder):
    return [(function, file.replace(folder, "DIR") if file else file, line) for function, file, line in frames]


def snapshot(name, target):
    """A snapshot that was cut, too: by a full disk, or on its way."""
    path, cut, shown = os.path.join(target.top, "snap.pz"), os.path.join(target.top, "cut.pz"), 0
    done = run([PYSNAP, str(target.pid), "-o", path])
    rep, _ = report(path)
    if not tap.ok(rep is not None, "%s: the whole snapshot: a report" % name, done.stderr.decode("utf-8", "replace")):
        return 0
    whole = stacks(rep)
    with open(path, "rb") as f:
        data = f.read()
    for percent in (90, 70, 50, 30):
        with open(cut, "wb") as f:
            f.write(data[: len(data) * percent // 100])
        rep, done = report(cut)
        shown += check("%s: snapshot cut to %d %%" % (name, percent), cut, rep, done, whole, True)
    return shown


def one(python):
    name = python.name
    target = limited(python, resource.RLIM_INFINITY)
    shown = 0
    try:
        if not tap.ok(target.wait_ready(), "%s: the program parks" % name, target.text()):
            return 0
        shown += snapshot(name, target)
        core, why = target.core(signal.SIGABRT)
        if not core:
            tap.skip("%s: cores" % name, why)
            return 0
        rep, done = report(core)
        if not tap.ok(rep is not None and done.returncode == 0, "%s: the whole core: a report" % name, done.stderr.decode("utf-8", "replace")):
            return 0
        whole = stacks(rep)
        tap.ok(len(whole) == 13, "%s: the whole core: 13 stacks" % name, len(whole))
        size, known = os.path.getsize(core), names(rep, "python")
        # The worst that the kernel does: all is there up to the data of libpython, which has the runtime and the static types.
        cut_at = runtime_at(core, rep)
        for percent in (99, 95, 60, 20) + ((100 * cut_at / size,) if cut_at else ()):
            cut = os.path.join(target.top, "cut")
            with open(core, "rb") as f, open(cut, "wb") as out:
                left = int(size * percent // 100)
                while left:
                    block = f.read(min(left, 1 << 20))
                    if block.count(0) == len(block):
                        out.seek(len(block), os.SEEK_CUR)
                    else:
                        out.write(block)
                    left -= len(block)
                out.truncate()
            rep, done = report(cut)
            shown += check("%s: cut to %d %%" % (name, percent), cut, rep, done, whole, True, known)
            os.unlink(cut)
        whole = [(t, b, with_folder(w, target.script)) for t, b, w in whole]
    finally:
        target.end()
    for limit in (1024, 4096):
        target = limited(python, limit << 10)
        try:
            if not tap.ok(target.wait_ready(), "%s: the program parks" % name, target.text()):
                continue
            core, why = target.core(signal.SIGABRT)
            if not core:
                tap.skip("%s: ulimit -c %d" % (name, limit), why)
                continue
            rep, done = report(core)
            here = [(t, b, with_folder(w, target.script)) for t, b, w in whole]
            if rep is not None:
                text = json.dumps(rep["frames"]).replace(json.dumps(target.script)[1:-1], "DIR")
                rep["frames"] = json.loads(text)
            if limit == 4096 and rep is not None and "PZ101" not in codes(rep):
                tap.skip("%s: ulimit -c %d" % (name, limit), "the core fits")
                continue
            shown += check("%s: ulimit -c %d" % (name, limit), core, rep, done, here, False)
        finally:
            target.end()
    return shown


def main():
    known, shown, ran = layouts(PYANALYZE), 0, 0
    interpreters, absent = find()
    for name, why in absent:
        tap.skip(name, why)
    seen = set()
    for python in interpreters:
        if sys.argv[3:] and not any(n in python.name for n in sys.argv[3:]):
            continue
        # One of each version that the program runs on.
        if python.config != os.uname().machine or python.minor == "2.7" or (python.minor, python.config) not in known or python.minor in seen:
            continue
        seen.add(python.minor)
        ran += 1
        shown += one(python)
    if ran and not sys.argv[3:]:
        tap.ok(sum(FOUND) >= 3 * ran, "names out of cut cores: %d of %d interpreters" % (sum(FOUND), ran))
    if ran:
        tap.ok(shown >= 8 * ran, "stacks out of cut cores: %d of %d interpreters" % (shown, ran))
    tap.done()


if __name__ == "__main__":
    main()
