#!/usr/bin/env python3
"""Processes in states that a healthy one is never in for long: code objects overwritten, threads that are being made, a main thread
that has ended, a child that fork(2) made, another pid namespace, an interpreter that is only starting.

states.py PYSNAP PYANALYZE [NAME...]     NAME: only interpreters whose name contains it
"""
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time

from pythons import find, layouts
from reports import codes, report, unfolded
from tap import Tap
from target import Target, ended as has_ended, run

PYSNAP, PYANALYZE = [os.path.abspath(p) for p in sys.argv[1:3]]
SNAPSHOTS = 12
tap = Tap()


def snapshot(pid, folder):
    path = os.path.join(folder, "snap.pz")
    done = run([PYSNAP, str(pid), "-f", "-o", path])
    if done.returncode:
        return None, done
    return report(path)


def functions(rep, thread):
    """Python's, innermost first."""
    return [f["function"] for f in unfolded(rep, thread)[::-1] if f["lang"] == "python"]


def in_state(python, which):
    """A target in that state, or None with a check that says why."""
    target = Target(python, "states.py", which)
    if target.wait_ready():
        return target
    said = target.text()
    if "_ctypes" in said or "libffi" in said or "Assertion" in said:
        tap.skip("%s: %s" % (python.name, which), "a debug build refuses" if "Assertion" in said else "no ctypes")
    else:
        tap.ok(False, "%s: %s: the program gets there" % (python.name, which), said)
    target.end()
    return None


def damaged(python):
    target, name = in_state(python, "damaged"), "%s: damaged code" % python.name
    if not target:
        return
    try:
        rep, done = snapshot(target.pid, target.top)
        if not tap.ok(rep is not None and done.returncode == 0, "%s: report" % name, done.stderr.decode("utf-8", "replace")):
            return
        names = functions(rep, rep["threads"][0])
        tap.ok(all(n.startswith("<0x") and n.endswith(" is not a code object>") for n in names[:4]) and names[1:3] == names[2:4] and
               names[0] != names[1] and names[4:] == ["damaged", "<module>"], "%s: every frame is there" % name, names)
        tap.ok("PZ412" in codes(rep), "%s: it is said" % name, rep["problems"])
    finally:
        target.end()


def churn(python):
    target, name = in_state(python, "churn"), "%s: threads being made" % python.name
    if not target:
        return
    try:
        starting = 0
        twice, idle = [], []
        for _ in range(SNAPSHOTS):
            rep, done = snapshot(target.pid, target.top)
            if not tap.ok(rep is not None and done.returncode == 0, "%s: report" % name, done.stderr.decode("utf-8", "replace")):
                return
            tids = [t["tid"] for t in rep["threads"] if "tid" in t]
            twice += sorted(t for t in set(tids) if tids.count(t) > 1)
            for t in rep["threads"]:
                if "starting" in t["state"]:
                    starting += 1
                    idle += [t] if "tid" in t or "name" in t or "waits_in" in t or t["stack"] else []
        tap.equal(twice, [], "%s: no thread stands there twice (%d were starting)" % (name, starting))
        tap.equal(idle, [], "%s: nothing is claimed of those that start" % name)
    finally:
        target.end()


def ended(python):
    target, name = in_state(python, "ended"), "%s: main thread ended" % python.name
    if not target:
        return
    try:
        rep, done = snapshot(target.pid, target.top)
        if not tap.ok(rep is not None and done.returncode == 0, "%s: report" % name, done.stderr.decode("utf-8", "replace")):
            return
        first = rep["threads"][0]
        tap.equal((first["name"], rep["verdict"].get("tid")), ("parked", first["tid"]), "%s: a live one matters" % name)
        tap.equal([t["name"] for t in rep["threads"] if "stale" in t["state"]], ["MainThread"], "%s: it is said" % name)
    finally:
        target.end()


def handling(python):
    target, name = in_state(python, "handling"), "%s: exceptions under way" % python.name
    if not target:
        return
    try:
        rep, done = snapshot(target.pid, target.top)
        if not tap.ok(rep is not None and done.returncode == 0, "%s: report" % name, done.stderr.decode("utf-8", "replace")):
            return
        got = {t["name"]: (t["handling"].get("type"), t["handling"].get("value"), rep["frames"][t["handling"]["traceback"][0]]["function"]) if "handling" in t else None
               for t in rep["threads"]}
        want = {"MainThread": ("KeyError", "'key'", "handling"), "retrying": ("ValueError", "invalid literal for int() with base 10: 'zz'", "retrying"), "calm": None}
        # 2.7 keeps an exception until its function returns: nothing is said then.
        tap.equal(got, dict.fromkeys(want) if python.minor == "2.7" else want, "%s: whose" % name)
        tap.equal(rep.get("exceptions"), None, "%s: none is that of a crash" % name)
        text = run([PYANALYZE, os.path.join(target.top, "snap.pz")]).stdout.decode("utf-8", "replace")
        said = re.findall(r"^  exception: (\w+): .*\(being handled in (\w+); raised at .*states.py:\d+\)$", text, re.M)
        tap.equal(sorted(said), [] if python.minor == "2.7" else [("KeyError", "handling"), ("ValueError", "retrying")], "%s: a line each" % name)
        # What comes from outside is no crash either.
        core, why = target.core(signal.SIGABRT)
        if not core:
            tap.skip("%s: core" % name, why)
            return
        rep = json.loads(run([PYANALYZE, "--json", core]).stdout)
        tap.equal((rep["verdict"]["kind"], sorted(t["handling"]["type"] for t in rep["threads"] if "handling" in t)),
                  ("stopped", [] if python.minor == "2.7" else ["KeyError", "ValueError"]), "%s: in a core of a signal from outside" % name)
    finally:
        target.end()


def forked(python):
    target, name = in_state(python, "forked"), "%s: forked" % python.name
    if not target:
        return
    try:
        child = int(re.search(r"CHILD (\d+)", target.text()).group(1))
        rep, done = snapshot(child, target.top)
        forked_report("%s: snapshot" % name, rep, done, child)
        text = run([PYANALYZE, os.path.join(target.top, "snap.pz")]).stdout.decode("utf-8", "replace")
        said = re.search(r"^  state +in a child that pid (\d+) \(\"\S+\"\) forked$", text, re.M)
        tap.equal(said and int(said.group(1)), target.pid, "%s: snapshot: who forked it" % name)
        snapshot(target.pid, target.top)
        text = run([PYANALYZE, os.path.join(target.top, "snap.pz")]).stdout.decode("utf-8", "replace")
        tap.ok("Thread " in text and "in a child that" not in text, "%s: the parent was not" % name, text[:600])
        os.kill(child, signal.SIGABRT)
        for _ in range(1200):
            if has_ended(child):
                break
            time.sleep(0.05)
        cores = [os.path.join(target.folder, f) for f in os.listdir(target.folder) if f.startswith("core")]
        if not cores:
            tap.skip("%s: core" % name, "no core was written")
            return
        done = run([PYANALYZE, "--json", cores[0]])
        forked_report("%s: core" % name, json.loads(done.stdout) if done.stdout else None, done, child)
        text = run([PYANALYZE, cores[0]]).stdout.decode()
        tap.ok("\n1 thread and 3 thread states without one" in text, "%s: the text counts it" % name, text[:800])
        tap.ok("\n  state      " in text and "in a child that" in text, "%s: that it was forked, although it is no crash" % name, text[:800])
        os.unlink(cores[0])
    finally:
        target.end()


def forked_report(name, rep, done, child):
    """One thread, and three thread states whose threads the parent has."""
    if not tap.ok(rep is not None and done.returncode == 0, "%s: report" % name, done.stderr.decode("utf-8", "replace")):
        return
    tap.equal([(t.get("tid"), t["name"], functions(rep, t)[0]) for t in rep["threads"] if "stale" not in t["state"]], [(child, "MainThread", "child")],
              "%s: the thread that is there" % name)
    tap.equal(sorted((t.get("tid"), t["name"], functions(rep, t)[0]) for t in rep["threads"] if "stale" in t["state"]),
              [(None, "keeper-%d" % i, "parked") for i in range(3)], "%s: those that are not" % name)
    tap.ok("PZ407" in codes(rep), "%s: it is said" % name, rep["problems"])


def children(pid):
    with open("/proc/%d/task/%d/children" % (pid, pid)) as f:
        return [int(p) for p in f.read().split()]


def namespace(python):
    """Processes of another pid namespace: numbers are those that pysnap's user sees, and Python's own are said to be of there."""
    name, prefix = "%s: a pid namespace" % python.name, ["unshare", "--pid", "--fork"]
    try:
        done = run(prefix + ["true"])
        why = done.stderr.decode("utf-8", "replace").strip() if done.returncode else None
        children(os.getpid())
    except OSError as e:
        why = str(e)
    if why is not None:
        tap.skip(name, why)
        return
    target, inside = Target(python, "states.py", "namespace", prefix=prefix), []
    try:
        if not target.wait_ready():
            said = target.text()
            if "_ctypes" in said or "libffi" in said:
                tap.skip(name, "no ctypes")
            elif "/dev/urandom" in said:
                tap.skip(name, "multiprocessing of 2.7 wants /dev/urandom, which its root does not have")
            else:
                tap.ok(False, "%s: the program gets there" % name, said)
            return
        first = children(target.pid)
        inside = first + [c for p in first for c in children(p)]
        own = [int(re.search(r"%s (\d+)" % word, target.text()).group(1)) for word in ("SELF", "CHILD")]
        if not tap.ok(len(inside) == 2 and own[0] == 1 and own[1] not in inside, "%s: it is one" % name, (inside, own)):
            return
        for pid in inside:
            rep, done = snapshot(pid, target.top)
            if not tap.ok(rep is not None and done.returncode == 0, "%s: report" % name, done.stderr.decode("utf-8", "replace")):
                return
            tids = sorted(int(t) for t in os.listdir("/proc/%d/task" % pid))
            tap.equal((rep["process"]["pid"], rep["verdict"]["tid"], sorted(t.get("tid") for t in rep["threads"])), (pid, pid, tids), "%s: numbers" % name)
            tap.equal([(t["tid"], t["main"]) for t in rep["threads"] if t["name"] == "MainThread"], [(pid, True)], "%s: the main thread" % name)
            tap.equal([t["name"] for t in rep["threads"] if t["tid"] != pid], ["keeper"] if pid == first[0] else [], "%s: the other" % name)
            tap.ok(not [t for t in rep["threads"] if "stale" in t["state"]] and all(functions(rep, t) for t in rep["threads"]), "%s: all have their stacks" % name, rep["threads"])
            text = run([PYANALYZE, os.path.join(target.top, "snap.pz")]).stdout.decode("utf-8", "replace")
            said = re.search(r"^  state +(.*)$", text, re.M)
            said = said and said.group(1)
            if pid == first[0]: # whose own number is no other process's
                tap.equal(said, None, "%s: nobody forked it" % name)
            else:
                tap.ok(said == 'in a child that multiprocessing forked ("worker-7") from pid 1 (in its pid namespace)' or
                       re.match(r'in a child that pid %d \("[^"]+"\) forked$' % first[0], said or ""), "%s: who forked the child" % name, text[:600])
            with open(os.path.join(target.top, "snap.pz"), "rb") as f:
                plain = run(["gzip", "-dc"], stdin=f).stdout
            tap.equal([int(n) for n in re.findall(rb'"ns_pid": ?(\d+)', plain)], [own[inside.index(pid)]], "%s: its own number is kept" % name)
    finally:
        for pid in inside[:1]:
            os.kill(pid, signal.SIGKILL) # the first one of a namespace takes all others with it
        target.end()


def starting(python):
    """Python reads pyvenv.cfg beside its executable before it can import anything; a pipe there makes it wait."""
    name = "%s: starting" % python.name
    if python.root or python.minor == "2.7":
        tap.skip(name, "reads no pyvenv.cfg" if not python.root else "is in another root")
        return
    with tempfile.TemporaryDirectory(prefix="pysnap-live-") as folder:
        os.mkdir(os.path.join(folder, "bin"))
        link = os.path.join(folder, "bin", "python")
        os.symlink(os.path.realpath(python.argv[0]), link)
        os.mkfifo(os.path.join(folder, "pyvenv.cfg"))
        process = subprocess.Popen([link, "-c", "pass"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            time.sleep(1)
            if process.poll() is not None:
                tap.skip(name, "it did not wait")
                return
            rep, done = snapshot(process.pid, folder)
            said = done.stderr.decode("utf-8", "replace") + (json.dumps(rep["problems"]) if rep else "")
            tap.ok(rep is not None and done.returncode in (0, 5) and "no layout" not in said, "%s: report" % name, said)
            frames = [(f["function"], f["file"]) for f in rep["frames"] if f["lang"] == "python"] if rep else []
            if done.returncode == 0 and "PZ306" not in codes(rep): # from 3.11 on a frozen module, which runs after importlib
                tap.equal(frames, [("<module>", "<frozen getpath>")], "%s: what runs" % name)
            else:
                tap.ok(not frames and ("is starting" in said or "is mapped, but has no interpreter" in said), "%s: it is said" % name, said)
        finally:
            process.kill()
            process.wait()


def main():
    wanted, known = sys.argv[3:], layouts(PYANALYZE)
    for python in find()[0]:
        if (wanted and not any(w in python.name for w in wanted)) or (python.minor, python.config) not in known:
            continue
        for check in (damaged, churn, ended, handling, forked, namespace, starting):
            tap.part(python, check)
    tap.done()


main()
