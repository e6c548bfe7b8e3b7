#!/usr/bin/env python3
"""Native stacks of other machines: a small program, compiled for each and run here or by qemu, whose core is a guest's own.

machines.py PYSNAP PYANALYZE     Without a cross compiler or qemu a machine is skipped.

The program's stack is known, so it is compared whole, with how each frame was found.  ARM's code has no unwind tables: what is found
there is a likely answer, and says so.
"""
import glob
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from pythons import CACHE
from reports import report, unfolded
from tap import Tap
from target import PROGRAMS, enter, folder_in, run

PYSNAP, PYANALYZE = [os.path.abspath(p) for p in sys.argv[1:3]]
tap = Tap()

# name, compiler, options, command before the program
MACHINES = [
    ("x86_64", "gcc", ["-O1"], []),
    ("i386", "i686-linux-gnu-gcc", ["-O1"], []),
    ("aarch64", "aarch64-linux-gnu-gcc", ["-O1"], ["qemu-aarch64-static"]),
    ("arm", "arm-linux-gnueabihf-gcc", ["-O1"], ["qemu-arm-static"]),
    ("arm, frame pointers", "arm-linux-gnueabihf-gcc", ["-O1", "-marm", "-fno-omit-frame-pointer"], ["qemu-arm-static"]),
]
CRASH = ["main"] + ["deep"] * 6 + ["leaf"]
HANDLER = ["handler"] + ["deep"] * 3 + ["leaf"]
LIKELY = {"link register", "frame pointer", "scan"}


def report_of(path, *options):
    return report(path, "-n", *options)


def frames(rep, thread):
    """Physical ones, oldest first, none folded."""
    return [f for f in unfolded(rep, thread) if not f.get("inlined")]


def plain(frame):
    return re.sub(r"\.(constprop|part|isra|cold)\b.*$", "", frame.get("function", "?"))


def core_of(folder, command, program, *args, send=None, root=""):
    """send: the signal that it gets once it is ready."""
    for old in glob.glob(os.path.join(folder, "*core*")):
        os.unlink(old)
    try:
        child = subprocess.Popen(command + [program, *args], cwd=folder, stdout=subprocess.PIPE if send else subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                 preexec_fn=enter(root, folder))
        if send:
            child.stdout.readline()
            time.sleep(0.2)
            child.send_signal(send)
        try:
            child.wait(60)
        finally:
            child.kill()
            if send:
                child.stdout.close()
    except (OSError, subprocess.TimeoutExpired):
        return None
    # qemu leaves the guest's core beside its own.
    cores = glob.glob(os.path.join(folder, "qemu_*.core")) if command else glob.glob(os.path.join(folder, "core*"))
    return cores[0] if cores else None


def crash(name, rep, likely):
    main = frames(rep, rep["threads"][rep["verdict"]["thread"]])
    names = [plain(f) for f in main]
    tap.equal(names[-len(CRASH):], CRASH, "%s: the crash's stack" % name)
    tap.equal(names[:1], ["_start"], "%s: from where it began" % name)
    tap.ok("native_broken" not in rep["threads"][rep["verdict"]["thread"]], "%s: whole" % name)
    how = {f["unwound_by"] for f in main[:-1]}
    tap.ok(how <= LIKELY if likely else how == {"cfi"}, "%s: how they were found" % name, how)
    tap.equal(main[-1]["unwound_by"], "registers", "%s: the innermost one" % name)
    tap.ok(all(("guessed_by" in f) == (f["unwound_by"] in LIKELY) for f in rep["frames"]), "%s: likely ones say so" % name)
    other = [[plain(f) for f in frames(rep, t)] for t in rep["threads"] if t["tid"] != rep["verdict"]["tid"]]
    tap.ok(len(other) == 1 and "start_thread" in other[0] and (likely or "waiter" in other[0]), "%s: the other thread" % name, other)


def handler(name, rep, likely):
    main = frames(rep, rep["threads"][rep["verdict"]["thread"]])
    names = [plain(f) for f in main]
    tap.equal(names[-len(HANDLER):], HANDLER, "%s: the handler's stack" % name)
    signals = [i for i, f in enumerate(main) if f.get("signal_frame")]
    tap.equal(signals, [len(main) - len(HANDLER) - 1], "%s: a signal frame below it" % name)
    if signals:
        below = names[:signals[0]]
        tap.ok(below[:1] == ["_start"] and any("kill" in n or "raise" in n for n in below), "%s: and what was interrupted" % name, names)
        tap.ok("likely" in names or "guessed_by" not in main[signals[0] - 1], "%s: whose registers the kernel kept" % name, main[signals[0] - 1])


def handled(name, compiler, options, command, folder):
    """Below a handler without siginfo: a fault, and a signal from outside, which ARM's frames of an emulator do not tell from one."""
    program = os.path.join(folder, "handled")
    if run([compiler, *options, "-static", os.path.join(PROGRAMS, "handled.c"), "-o", program]).returncode:
        return
    for how in ("fault", "outside"):
        core = core_of(folder, command, program, how, send=signal.SIGSEGV if how == "outside" else None)
        if not core:
            tap.skip("%s: %s" % (name, how), "no core was written")
            continue
        rep, done = report_of(core, "-e", program)
        if not tap.ok(rep is not None, "%s: a report" % name, done.stderr.decode("utf-8", "replace")):
            continue
        verdict = rep["verdict"]
        # qemu keeps the address on aarch64, and nothing on ARM.
        want = (r"SIGSEGV: (write|access) to address 0x1234 \(nothing is mapped there\)" if how == "fault" and not name.startswith("arm") else
                r"SIGSEGV: a fault, or sent by another process: which is not in the core" if command else
                r"SIGSEGV from outside \(the sender is not in the core\)")
        tap.ok(re.fullmatch(want, verdict["title"]), "%s: %s below a handler" % (name, how), verdict["title"])
        tap.equal(verdict["kind"], "stopped" if how == "outside" and not command else "crash", "%s: %s: its kind" % (name, how))
        tap.equal(verdict["confidence"], "certain" if how == "fault" and not command else "likely", "%s: %s: how sure" % (name, how))
        if how == "fault" or command:
            tap.equal((verdict.get("location") or {}).get("function"), "work", "%s: %s: where" % (name, how))


def machine(name, compiler, options, command, folder):
    likely = name.startswith("arm")
    if not shutil.which(compiler) or (command and not shutil.which(command[0])):
        tap.skip(name, "no %s here" % (compiler if not shutil.which(compiler) else command[0]))
        return
    program = os.path.join(folder, "deep")
    done = run([compiler, *options, "-static", "-pthread", os.path.join(PROGRAMS, "deep.c"), "-o", program])
    if done.returncode:
        tap.skip(name, "%s has no C library here" % compiler)
        return
    for args, check in (([], crash), (["in a handler"], handler)):
        core = core_of(folder, command, program, *args)
        if not core:
            tap.skip(name, "no core was written")
            continue
        rep, done = report_of(core, "-e", program)
        if tap.ok(rep is not None and done.returncode in (0, 5), "%s: a report" % name, done.stderr.decode("utf-8", "replace")):
            check(name, rep, likely)
        text = run([PYANALYZE, "-n", "-e", program, core]).stdout.decode()
        tap.equal("(likely: found by " in text, likely, "%s: the text marks them too" % name)
        tap.equal("(a signal came in the frame above)" in text, bool(args), "%s: and the signal frame" % name)


R01 = """
import ctypes, os, threading, time
os.chdir(os.path.dirname(os.path.abspath(__file__)))
def parse(depth):
    if depth: return parse(depth - 1)
    ctypes.string_at(0x1234)
for i in range(3): threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
threading.Thread(target=parse, args=(4,)).start()
"""


def i386_python(root):
    """A stripped interpreter of Debian's for i386, which runs here as it is: native stacks need no layout table."""
    name = os.path.basename(root)
    folder = folder_in(root)
    try:
        with open(os.path.join(folder, "r01.py"), "w") as f:
            f.write(R01)
        python = sorted(p for p in glob.glob(os.path.join(root, "usr/bin/python[23].*")) if re.match(r".*python\d\.\d+$", p))[0]
        inside = os.path.join(folder[len(root):], "r01.py")
        core = core_of(folder, [], python[len(root):], inside, root=root)
        if not core:
            tap.skip(name, "does not start here, or no core was written")
            return
        rep, done = report_of(core, "--sysroot", root)
        if not tap.ok(rep is not None, "%s: a report" % name, done.stderr.decode("utf-8", "replace")):
            return
        tap.ok(not any("native_broken" in t for t in rep["threads"]) and len(rep["threads"]) == 5, "%s: five whole stacks" % name,
               [t.get("native_broken") for t in rep["threads"]])
        native = [f for f in rep["frames"] if f["lang"] == "c"]
        tap.ok(native and all(f.get("unwound_by") in ("registers", "cfi") for f in native), "%s: by the tables" % name, {f.get("unwound_by") for f in native})
        # glibc 2.41 makes no cancellable call through it.
        tap.ok(all(f.get("function") == "__kernel_vsyscall" for f in native if f.get("module") == "[vdso]"), "%s: the vdso's function has its name" % name)
        crashed = [f.get("module", "") for f in frames(rep, rep["threads"][rep["verdict"]["thread"]]) if f["lang"] == "c"]
        tap.ok(sum("/python" in m for m in crashed) > 3 and "libc" in crashed[-1], "%s: the interpreter in the crash's stack" % name, crashed)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def main():
    for spec in MACHINES:
        folder = tempfile.mkdtemp(prefix="pysnap-machines-")
        try:
            machine(*spec, folder)
            if shutil.which(spec[1]) and not (spec[3] and not shutil.which(spec[3][0])):
                handled(*spec, folder)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    roots = sorted(r for r in glob.glob(os.path.join(CACHE, "*-i386")) if os.path.exists(os.path.join(r, ".complete")))
    for root in roots:
        if os.geteuid() == 0:
            i386_python(root)
        else:
            tap.skip(os.path.basename(root), "needs root for chroot")
    if not roots:
        tap.skip("a Python for i386", "none was fetched (tools/pythons)")
    tap.done()


main()
