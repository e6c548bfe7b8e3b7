#!/usr/bin/env python3
"""What pysnap says and does when it cannot: whole messages, exit codes, no half file, and a target that runs on.

pysnap_faults.py PYSNAP PYANALYZE
"""
import fcntl
import json
import os
import pty
import re
import resource
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import termios
import time

from tap import Tap
from target import run

PYSNAP, PYANALYZE = [os.path.abspath(p) for p in sys.argv[1:3]]
tap = Tap()
SLEEPER = [sys.executable, "-c", "import time\nprint('READY', flush=True)\nwhile True: time.sleep(0.01)"]
LARGE = [sys.executable, "-c", "import time\nx = [str(i) * 10 for i in range(300000)]\nprint('READY', flush=True)\nwhile True: time.sleep(0.01)"]


class Process:
    """A child that is ready, and killed at the end."""

    def __init__(self, argv, ready=True, **more):
        self.process = subprocess.Popen(argv, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, **more)
        self.pid = self.process.pid
        if ready:
            self.process.stdout.readline()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()


def status(pid, key):
    with open("/proc/%d/status" % pid) as f:
        return re.search("^%s:\\s*(\\S+)" % key, f.read(), re.M).group(1)


def proc_text(pid, name):
    with open("/proc/%d/%s" % (pid, name)) as f:
        return f.read()


def switches(pid):
    with open("/proc/%d/status" % pid) as f:
        return sum(int(n) for n in re.findall("ctxt_switches:\\s*(\\d+)", f.read()))


def runs(pid, name):
    """Not traced, not stopped, and it gets on."""
    state, tracer = "?", "?"
    for _ in range(100):
        state, tracer = status(pid, "State"), status(pid, "TracerPid")
        if state in "SR" and tracer == "0":
            break
        time.sleep(0.01)
    before = switches(pid)
    for _ in range(200):
        if switches(pid) > before:
            break
        time.sleep(0.01)
    return tap.ok(state in "SR" and tracer == "0" and switches(pid) > before, name + ": the process runs on",
                  "state %s, tracer %s" % (state, tracer))


def says(name, argv, code, text, **more):
    """The exit code and all of standard error; {} in text stands for anything."""
    done = run([PYSNAP] + [str(a) for a in argv], **more)
    said = done.stderr.decode("utf-8", "replace")
    pattern = "^" + ".*".join(re.escape(part) for part in text.split("{}")) + "$"
    tap.ok(done.returncode == code and re.match(pattern, said.rstrip("\n"), re.S), name,
           "exit %d, want %d\n%s\nwant\n%s" % (done.returncode, code, said, text))
    return done


def nothing_in(folder, name):
    return tap.ok(os.listdir(folder) == [], name + ": no file is left", os.listdir(folder))


def usage():
    says("no process", [], 2, "pysnap: which process?\n  try: pgrep -af python shows process numbers")
    says("no number", ["python"], 2, "pysnap: \"python\" is not a process number\n  try: pgrep -af python shows process numbers")
    says("a negative number", ["--", "-5"], 2, "pysnap: \"-5\" is not a process number\n  try: pgrep -af python shows process numbers")
    says("two processes", ["1", "2"], 2, "pysnap: one process number at a time\n  try: pysnap --help")
    says("unknown option", ["--ouput=x", "1"], 2, "pysnap: unknown option \"--ouput\"\n  try: --output, or pysnap --help")
    says("a level that is none", ["-Z", "10", "1"], 2, "pysnap: --compress: \"10\" will not do\n  try: a whole number from 0 to 9")
    says("a bundle that is none", ["--bundle=all", "1"], 2, "pysnap: --bundle=all is not known\n  try: --bundle=elf or --bundle=none")
    says("a pause that is none", ["--max-pause=soon", "1"], 2, "pysnap: --max-pause: \"soon\" will not do\n  try: seconds from 0 to 4294967, with up to three decimals, as in 0.5")
    for pause in "-1", "", ".", ".5", "5.", "0.0001", "1e3", "4294967.296", "99999999999999999999", "0.5s":
        says("a pause that is none: %r" % pause, ["--max-pause=" + pause, "1"], 2, "pysnap: --max-pause: \"%s\" will not do\n  try: {}" % pause)
    done = run([PYSNAP, "--help"])
    tap.ok(done.returncode == 0 and done.stdout.startswith(b"Usage: pysnap [OPTIONS] PID") and not done.stderr, "help goes to standard output", done)


def which_process(folder):
    out = os.path.join(folder, "snap.pz")
    with Process(["/bin/sleep", "100"], ready=False) as gone:
        pid = gone.pid
    says("no such process", [pid, "-o", out], 3, "pysnap: no process %d\n  try: pgrep -af python" % pid)
    with Process(["/bin/sleep", "100"], ready=False) as p:
        says("not CPython", [p.pid, "-o", out], 5,
             "pysnap: process %d (sleep) does not run CPython: no libpython or _PyRuntime in it\n  try: pgrep -af python" % p.pid)
        tap.equal(status(p.pid, "TracerPid"), "0", "not CPython: not touched")
    with Process(["/bin/sh", "-c", "%s -c 'import time; print(1, flush=True); time.sleep(100)'; :" % sys.executable]) as p:
        with open("/proc/%d/task/%d/children" % (p.pid, p.pid)) as f:
            child = int(f.read().split()[0])
        says("a launcher", [p.pid, "-o", out], 5,
             "pysnap: process %d (sh) does not run CPython: no libpython or _PyRuntime in it\n  try: pysnap %d (its child \"%s -c import time;{}\")"
             % (p.pid, child, sys.executable))
        os.kill(child, signal.SIGKILL)
    strange = os.path.join(folder, "a\x1b[31m\nb")
    shutil.copy("/bin/sleep", strange)
    with Process([strange, "100"], ready=False) as p:
        time.sleep(0.1)
        says("a name with control characters", [p.pid, "-o", out], 5, "pysnap: process %d (a\\x1b[31m\\nb) does not run CPython: {}" % p.pid)
    os.unlink(strange)
    with Process([sys.executable, "-c", "import threading, time\nthreading.Thread(target=time.sleep, args=(100,)).start()\nprint(1, flush=True)"]) as p:
        tid = max(int(t) for t in os.listdir("/proc/%d/task" % p.pid))
        says("a thread's number", [tid, "-o", out], 3, "pysnap: %d is a thread of process %d\n  try: pysnap %d" % (tid, p.pid, p.pid))
    says("the kernel's", [2, "-o", out], 5, "pysnap: process 2 ({}) does not run CPython: {}") if os.path.exists("/proc/2/exe") is False and os.path.exists("/proc/2") else \
        tap.skip("the kernel's", "process 2 is not the kernel's here")
    nothing_in(folder, "wrong process")


def not_allowed(folder):
    out = os.path.join(folder, "snap.pz")
    with Process(SLEEPER) as p:
        if os.geteuid() == 0:
            public = tempfile.mkdtemp(prefix="pysnap-faults-")
            os.chmod(public, 0o755)
            tool = shutil.copy(PYSNAP, public)
            done = run([tool, str(p.pid), "-o", out], preexec_fn=lambda: (os.setgroups([]), os.setgid(65534), os.setuid(65534)))
            tap.equal((done.returncode, done.stderr.decode()),
                      (4, "pysnap: cannot stop process %d: it belongs to user \"root\"\n  try: sudo pysnap %d\n" % (p.pid, p.pid)),
                      "another user's process")
            shutil.rmtree(public)
        else:
            tap.skip("another user's process", "not root")
        if os.geteuid() == 0 and shutil.which("setpriv"):
            done = run(["setpriv", "--bounding-set=-sys_ptrace", "--inh-caps=-sys_ptrace", PYSNAP, str(p.pid), "-o", out])
            tap.equal((done.returncode, done.stderr.decode()),
                      (4, "pysnap: cannot stop process %d: Operation not permitted\n  why: this container lacks CAP_SYS_PTRACE\n"
                          "  try: docker run --cap-add SYS_PTRACE ..., or run pysnap on the host\n" % p.pid), "without CAP_SYS_PTRACE")
        else:
            tap.skip("without CAP_SYS_PTRACE", "not root, or no setpriv")
        public = tempfile.mkdtemp(prefix="pysnap-faults-")
        os.chmod(public, 0o755)
        tool = shutil.copy(PYSNAP, public)
        hide = ["unshare", "-m", "sh", "-c", "mount -t proc -o hidepid=2 proc /proc && exec setpriv --reuid 65534 --regid 65534 --clear-groups \"$@\"", "sh"]
        if os.geteuid() == 0 and shutil.which("setpriv") and run(hide + ["true"]).returncode == 0:
            done = run(hide + [tool, str(p.pid), "-o", out])
            tap.equal((done.returncode, done.stderr.decode()),
                      (4, "pysnap: process %d belongs to another user, and /proc does not show it (hidepid)\n  try: sudo pysnap %d\n" % (p.pid, p.pid)),
                      "a process that /proc does not show")
        else:
            tap.skip("a process that /proc does not show", "mount is not permitted here")
        shutil.rmtree(public)
        if shutil.which("strace"):
            tracer = subprocess.Popen(["strace", "-f", "-p", str(p.pid), "-o", "/dev/null"], stderr=subprocess.DEVNULL)
            for _ in range(500):
                if status(p.pid, "TracerPid") == str(tracer.pid):
                    break
                time.sleep(0.01)
            says("already traced", [p.pid, "-o", out], 1,
                 "pysnap: process %d is already being traced by strace (pid %d)\n  try: end that session first" % (p.pid, tracer.pid))
            tracer.terminate()
            tracer.wait()
        else:
            tap.skip("already traced", "no strace")
        runs(p.pid, "not allowed")
    nothing_in(folder, "not allowed")


def whole(name, path):
    done = run(["gzip", "-t", path])
    return tap.ok(done.returncode == 0, name + ": the file is whole", done.stderr.decode())


def wait_for(what):
    for _ in range(1000):
        if what():
            return True
        time.sleep(0.01)
    return False


def size_of(path):
    return os.stat(path).st_size if os.path.exists(path) else 0


def own(pid, folder):
    """Names of its own do not meet, also of snapshots in the same second, forced or not."""
    many = os.path.join(folder, "many")
    os.mkdir(many)
    processes = [run([PYSNAP, "-q", str(pid), "-o", many + "/"] + more) for more in ([], [], ["-f"], [], [])]
    names = sorted(os.listdir(many))
    tap.ok([p.returncode for p in processes] == [0] * 5 and len(names) == 5 and all(re.fullmatch(r"snap-%d-\d{8}T\d{6}Z(-[2-5])?\.pz" % pid, n) for n in names),
           "names of its own in one second", (names, processes))
    shutil.rmtree(many)


def parts(pid, folder, out):
    """What stands under FILE.part: of a pysnap that was killed, of one that is at work, of somebody else."""
    part = out + ".part"
    says("a snapshot", [pid, "-q", "-o", out], 0, "")
    with open(out, "rb") as f:
        begin = f.read(10000)
    os.unlink(out)
    for name, left in ("nothing", b""), ("a beginning", begin):
        with open(part, "wb") as f:
            f.write(left)
        says("a .part with %s, left by one that was killed" % name, [pid, "-q", "-o", out], 0, "")
        whole("a .part with %s" % name, out)
        os.unlink(out)
    with open(part, "w") as f:
        f.write("someone's")
    says("a .part of another kind", [pid, "-o", out], 1,
         "pysnap: %s exists and is no partial snapshot\n  try: -f to replace it, or another -o" % part)
    tap.equal(open(part).read(), "someone's", "a .part of another kind: untouched")
    says("a .part of another kind, and -f", [pid, "-q", "-f", "-o", out], 0, "")
    tap.equal(os.listdir(folder), ["snap.pz"], "a .part of another kind, and -f: it is gone")
    os.unlink(out)
    os.symlink("/etc/passwd", part)
    for force in [], ["-f"]:
        says("a .part that is a link" + " -f" * len(force), [pid, "-o", out] + force, 1, "pysnap: %s exists and is no partial snapshot\n  try: another -o" % part)
    os.unlink(part)


def few_files(pid, folder, out):
    """Whatever may not be opened any more, a process that lives is not called gone."""
    bad, done, warned = [], 0, 0
    for limit in range(4, 40, 3):
        snap = run([PYSNAP, str(pid), "-o", out], preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit)))
        said = snap.stderr.decode()
        if snap.returncode == 0:
            done += 1
            warned += "warning: too many files are open: " in said
            os.unlink(out)
        elif snap.returncode != 1 or not re.match("pysnap: cannot (read .* of process %d|write .*): Too many open files\n  try: ulimit -n 1024\n$" % pid, said):
            bad.append("%d: exit %d: %s" % (limit, snap.returncode, said))
        if os.listdir(folder):
            bad.append("left: %s" % os.listdir(folder))
            break
    tap.ok(not bad and done > warned > 0, "few files may be open: it says so, or does it", "%d done, %d of them warned\n%s" % (done, warned, "\n".join(bad)))


def rivals(folder):
    """Several at the same file: whoever exits 0 has written it, whole; the others say so before they stop anything."""
    out = os.path.join(folder, "snap.pz")
    part = out + ".part"
    with Process(LARGE) as p:
        first = subprocess.Popen([PYSNAP, str(p.pid), "-q", "-o", out])
        begun = wait_for(lambda: size_of(part) > 0)
        first.send_signal(signal.SIGSTOP)
        tap.ok(begun and not os.path.exists(out), "one is at work")
        for force in [], ["-f"]:
            says("a second one" + " -f" * len(force), [p.pid, "-o", out] + force, 1,
                 "pysnap: another pysnap is writing %s\n  try: another -o, or again when it is done" % part)
        first.send_signal(signal.SIGCONT)
        tap.equal(first.wait(), 0, "the first is done all the same")
        whole("the first", out)
        os.unlink(out)

        first = subprocess.Popen([PYSNAP, str(p.pid), "-f", "-o", out], stderr=subprocess.PIPE)
        begun = wait_for(lambda: size_of(part) > 0)
        first.send_signal(signal.SIGSTOP)
        os.unlink(part) if begun else None
        with open(part, "w") as f:
            f.write("another's")
        first.send_signal(signal.SIGCONT)
        said = first.communicate()[1].decode()
        tap.equal((first.returncode, said), (1, "pysnap: %s was removed or replaced while it was written; no snapshot was written\n  try: the same again\n" % part),
                  "a .part that is another's by now")
        tap.equal([(n, open(os.path.join(folder, n)).read()) for n in os.listdir(folder)], [("snap.pz.part", "another's")], "a .part that is another's by now: untouched")
        os.unlink(part)
    with Process(SLEEPER) as p:
        all_of_them = [subprocess.Popen([PYSNAP, str(p.pid), "-o", out], stderr=subprocess.PIPE) for _ in range(8)]
        ends = [(q.communicate()[1].decode(), q.returncode) for q in all_of_them]
        tap.ok([code for _, code in ends].count(0) == 1 and all(code in (0, 1) and (code == 0 or "\n  try: " in said) for said, code in ends), "eight at once: one of them", ends)
        whole("eight at once", out)
        os.unlink(out)
    nothing_in(folder, "rivals")


def links(pid, folder, out):
    """A link is neither followed nor replaced."""
    for name, to in ("a link to nothing", "none.pz"), ("a link to a file", "there.pz"):
        with open(os.path.join(folder, "there.pz"), "w") as f:
            f.write("precious")
        os.symlink(to, out)
        for force in "", " -f":
            says(name + force, [pid, "-o", out] + force.split(), 1,
                 "pysnap: %s is a symbolic link to %s\n  try: -o %s%s" % (out, to, os.path.join(folder, to), force))
        tap.equal((os.readlink(out), open(os.path.join(folder, "there.pz")).read(), len(os.listdir(folder))), (to, "precious", 2), name + ": untouched")
        os.unlink(out)
    path = os.path.join(folder, "there.pz")
    with open(path, "wb") as f:
        f.write(b"before ")
        f.flush()
        os.symlink("/proc/self/fd/1", out)
        says("a link to standard output, as /dev/stdout is one", [pid, "-f", "-o", out], 0, "standard output: {}", stdout=f)
        tap.ok(os.path.islink(out), "a link to standard output stays one")
        os.unlink(out)
    with open(path, "rb") as f:
        tap.equal(f.read(11), b"before \x1f\x8b\x08\x04", "a link to standard output: behind what is there")
    os.unlink(path)


def strange(pid, folder):
    """What nobody means by a file."""
    path = os.path.join(folder, "strange")
    with socket.socket(socket.AF_UNIX) as s:
        s.bind(path)
        says("a socket", [pid, "-f", "-o", path], 1, "pysnap: %s is a socket\n  try: -o FILE, or -o - into a program that writes there" % path)
    os.unlink(path)
    try:
        os.mknod(path, stat.S_IFBLK | 0o600, os.makedev(7, 250))
    except OSError as e:
        tap.skip("a disk", e)
        return
    says("a disk", [pid, "-f", "-o", path], 1, "pysnap: %s is a disk\n  try: -o FILE, or -o - into a program that writes there" % path)
    os.unlink(path)


def closed(pid, out):
    """No standard input, output or error: what is said must not go into the file."""
    for fds in (0,), (1,), (2,), (0, 1, 2):
        name = "without " + ", ".join(str(fd) for fd in fds)
        done = subprocess.run(["/bin/sh", "-c", "exec \"$@\" " + " ".join("%d>&-" % fd for fd in fds), "sh", PYSNAP, str(pid), "-v", "-o", out],
                              stderr=subprocess.PIPE)
        tap.equal(done.returncode, 0, name)
        whole(name, out)
        os.unlink(out)
    done = subprocess.run(["/bin/sh", "-c", "exec \"$@\" >&-", "sh", PYSNAP, str(pid), "-o", "-"], stderr=subprocess.PIPE)
    tap.equal((done.returncode, done.stderr), (1, b"pysnap: standard output is closed\n  try: -o FILE\n"), "a closed standard output")
    done = subprocess.run(["/bin/sh", "-c", "exec \"$@\" 2>&-", "sh", PYANALYZE, "/none"], stdout=subprocess.PIPE)
    tap.equal((done.returncode, done.stdout), (1, b""), "pyanalyze without standard error")


def pipes(pid, folder):
    fifo = os.path.join(folder, "fifo")
    os.mkfifo(fifo)
    snap = subprocess.Popen([PYSNAP, str(pid), "-o", fifo], stderr=subprocess.PIPE)
    said = snap.stderr.readline().decode()
    tap.equal(said, "%s: waiting for its reader; the process was not stopped yet\n" % fifo, "a pipe that nobody reads")
    done = run(["gzip", "-t"], stdin=open(fifo, "rb"))
    tap.equal((snap.wait(), done.returncode), (0, 0), "a pipe that nobody reads, until somebody does")
    snap.stderr.close()
    for name, reads, state in (("before there is a reader", False, "runs on"), ("when the reader does not read", True, "runs on"),
                               ("with a stopped process", False, "is stopped, as it was before"), ("with a process that ends", False, "has ended")):
        with Process(SLEEPER) as p:
            if "stopped" in name:
                os.kill(p.pid, signal.SIGSTOP)
                wait_for(lambda: status(p.pid, "State") == "T")
            reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK) if reads else -1
            snap = subprocess.Popen([PYSNAP, str(p.pid), "-o", fifo], stderr=subprocess.PIPE, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
            if reads:
                waiting = bytearray(4)
                wait_for(lambda: fcntl.ioctl(reader, termios.FIONREAD, waiting) == 0 and int.from_bytes(waiting, sys.byteorder) >= 65536)
            else:
                snap.stderr.readline()
            if "ends" in name:
                p.process.kill()
                p.process.wait()
            snap.send_signal(signal.SIGINT)
            said = snap.communicate(timeout=60)[1].decode()
            what = "what went to %s is not a whole snapshot" % fifo if reads else "no snapshot was written"
            hint = "pgrep -af python" if "ends" in name else "the same again"
            tap.equal((snap.returncode, said), (130, "pysnap: interrupted; %s and process %d %s\n  try: %s\n" % (what, p.pid, state, hint)), "interrupted " + name)
            if reads:
                os.close(reader)
    os.unlink(fifo)


def output(folder):
    out = os.path.join(folder, "snap.pz")
    with Process(SLEEPER) as p:
        with open(out, "w") as f:
            f.write("precious")
        says("output exists", [p.pid, "-o", out], 1, "pysnap: %s exists\n  try: -f to replace it, or another -o" % out)
        tap.equal(open(out).read(), "precious", "output exists: untouched")
        says("-f replaces it", [p.pid, "-f", "-o", out], 0, "%s: {} MiB (unpacked {} MiB), process %d was stopped for {}s" % (out, p.pid))
        tap.equal(stat.S_IMODE(os.stat(out).st_mode), 0o600, "the file is its owner's alone")
        tap.equal(os.listdir(folder), ["snap.pz"], "only the snapshot is there")
        done = run(["zcat", out])
        tap.ok(done.returncode == 0 and done.stdout[:4] == b"\x7fELF" and done.stdout[16] == 4, "zcat gives an ELF core", done.stderr)
        os.unlink(out)
        parts(p.pid, folder, out)
        links(p.pid, folder, out)
        says("no such folder", [p.pid, "-o", folder + "/none/snap.pz"], 1,
             "pysnap: cannot write %s/none/snap.pz: No such file or directory\n  try: mkdir -p %s/none, or -o FILE somewhere else" % (folder, folder))
        says("a folder that is there and takes no files", [p.pid, "-o", "/proc/x.pz"], 1, "pysnap: cannot write /proc/x.pz: No such file or directory\n  try: -o FILE somewhere else")
        says("an option where -o wants a name", ["-o", "-f", p.pid], 2, "pysnap: -o: \"-f\" is more likely an option than a file's name\n  try: -o FILE, or -o ./-f if that is its name")
        own(p.pid, folder)
        with Process(LARGE) as large:
            says("a pause that is too short", [large.pid, "-o", out, "--max-pause=0.001"], 1,
                 "pysnap: gave up after 0.001 s: process %d ({}) was still being copied; it runs again\n  try: --max-pause=1, or 0, which has no limit" % large.pid)
        says("no file name", [p.pid, "-o", ""], 2, "pysnap: -o: \"\" is not a file name\n  try: -o FILE")
        for given in "sub", "sub/":
            os.mkdir(os.path.join(folder, "sub"))
            says("a folder: " + given, [p.pid, "-o", given], 0, "sub/snap-%d-{}Z.pz: {}" % p.pid, cwd=folder)
            tap.equal([re.sub("\\d{8}T\\d{6}", "", n) for n in os.listdir(os.path.join(folder, "sub"))], ["snap-%d-Z.pz" % p.pid], "a folder: a name of its own in " + given)
            shutil.rmtree(os.path.join(folder, "sub"))
        says("a name of its own", [p.pid], 0, "snap-%d-{}Z.pz: {}" % p.pid, cwd=folder)
        names = os.listdir(folder)
        tap.ok(len(names) == 1 and re.match("^snap-%d-\\d{8}T\\d{6}Z\\.pz$" % p.pid, names[0]), "a name of its own: process and time", names)
        for name in names:
            os.unlink(os.path.join(folder, name))
        done = says("standard output", [p.pid, "-o", "-"], 0, "standard output: {}")
        tap.equal(done.stdout[:4], b"\x1f\x8b\x08\x04", "standard output: the snapshot is there")
        says("quiet", [p.pid, "-q", "-o", out], 0, "")
        os.unlink(out)
        says("into a device", [p.pid, "-q", "-o", "/dev/null"], 0, "")
        tap.ok(stat.S_ISCHR(os.stat("/dev/null").st_mode), "into a device: it stays one")
        says("a full device", [p.pid, "-o", "/dev/full"], 1,
             "pysnap: no space left on /dev/full after 0 B; the process was resumed\n  try: -o FILE on another disk")
        with open("/dev/full", "wb") as full:
            says("a full standard output", [p.pid, "-o", "-"], 1,
                 "pysnap: no space left on standard output after 0 B; the process was resumed\n  try: -o FILE on another disk", stdout=full)
        master, slave = pty.openpty()
        says("a terminal", [p.pid, "-o", "-"], 1, "pysnap: refusing to write a snapshot to the terminal\n  try: -o FILE", stdout=slave)
        os.close(master)
        os.close(slave)
        reader, writer = os.pipe()
        os.close(reader)
        says("a closed pipe", [p.pid, "-o", "-"], 1, "pysnap: the reader of standard output closed it after 0 B; the process was resumed\n  try: -o FILE, or a reader that reads to the end",
             stdout=writer)
        os.close(writer)
        says("a limit of file size", [p.pid, "-o", out], 1, "pysnap: %s may not become larger than 64 KiB; the process was resumed, the partial file removed\n"
             "  try: ulimit -f unlimited, or --bundle=none for a smaller file" % out,
             preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (65536, 65536)))
        few_files(p.pid, folder, out)
        strange(p.pid, folder)
        closed(p.pid, out)
        pipes(p.pid, folder)
        with open(PYSNAP, "rb") as f:
            sanitized = b"__asan_init" in f.read()
        if sanitized:
            tap.skip("too little memory", "AddressSanitizer needs much address space itself")
            tap.skip("a small stack", "AddressSanitizer needs much of it itself")
        else:
            says("a small stack", [p.pid, "-q", "-o", out], 0, "", preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_STACK, (65536, 65536)))
            os.unlink(out)
            says("too little memory", [p.pid, "-o", out], 1,
                 "pysnap: copying process %d needs about {} MiB of memory, {} MiB are free; the process was not stopped\n  try: {}" % p.pid,
                 preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (14 << 20, 14 << 20)))
        runs(p.pid, "output")
        disk = os.path.join(folder, "disk")
        os.mkdir(disk)
        if run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", disk]).returncode == 0:
            try:
                says("disk full", [p.pid, "-o", disk + "/snap.pz"], 1,
                     "pysnap: no space left on %s after {}; the process was resumed, the partial file removed\n  try: -o on another disk" % disk)
                nothing_in(disk, "disk full")
                runs(p.pid, "disk full")
            finally:
                run(["umount", disk])
        else:
            tap.skip("disk full", "mount is not permitted here")
        os.rmdir(disk)
    nothing_in(folder, "output")


def interrupted(folder):
    out = os.path.join(folder, "snap.pz")
    with Process(LARGE) as p:
        start = time.monotonic()
        says("a large process", [p.pid, "-o", out], 0, out + ": {}")
        whole = time.monotonic() - start
        os.unlink(out)
        for signo in signal.SIGINT, signal.SIGTERM, signal.SIGHUP:
            name = signal.Signals(signo).name
            ended = 0
            bad = []
            for i in range(6):
                snap = subprocess.Popen([PYSNAP, str(p.pid), "-o", out], stderr=subprocess.PIPE, preexec_fn=lambda: signal.signal(signo, signal.SIG_DFL))
                time.sleep(whole * (i + 1) / 8)
                snap.send_signal(signo)
                said = snap.communicate(timeout=60)[1].decode()
                if snap.returncode == 0:
                    os.unlink(out)
                elif snap.returncode == 128 + signo:
                    ended += 1
                    if said != "pysnap: interrupted; no snapshot was written and process %d runs on\n  try: the same again\n" % p.pid:
                        bad.append(said)
                elif snap.returncode != -signo: # before it could listen
                    bad.append("exit %d: %s" % (snap.returncode, said))
                if os.listdir(folder):
                    bad.append("left: %s" % os.listdir(folder))
                    for left in os.listdir(folder):
                        os.unlink(os.path.join(folder, left))
            tap.ok(not bad and ended, "%s at any time: exit %d, nothing left" % (name, 128 + signo), "%d ended\n%s" % (ended, "\n".join(bad)))
            runs(p.pid, name)
        for i in range(8):
            snap = subprocess.Popen([PYSNAP, str(p.pid), "-q", "-f", "-o", out])
            time.sleep(whole * i / 8)
            snap.kill()
            snap.wait()
            if os.path.exists(out): # it was done, and only had to end
                done = run(["gzip", "-t", out])
                if done.returncode:
                    tap.ok(False, "kill -9: nothing but a whole file under the final name", done.stderr.decode())
                os.unlink(out)
            tracer = status(p.pid, "TracerPid")
            for _ in range(100):
                if status(p.pid, "State") in "SR":
                    break
                time.sleep(0.01)
            if status(p.pid, "State") not in "SR" or tracer != "0":
                tap.ok(False, "kill -9: state %s, tracer %s" % (status(p.pid, "State"), tracer))
        runs(p.pid, "kill -9 at any time")
        os.kill(p.pid, signal.SIGSTOP)
        time.sleep(0.1)
        says("a stopped process", [p.pid, "-o", out], 0, out + ": {}")
        tap.equal(status(p.pid, "State"), "T", "a stopped process stays stopped")
        os.kill(p.pid, signal.SIGCONT)
        runs(p.pid, "a stopped process that is continued")
        os.unlink(out)
    nothing_in(folder, "interrupted")


def ends_meanwhile(folder):
    out = os.path.join(folder, "snap.pz")
    bad, gone, whole = [], 0, 0.5
    for i in range(8):
        with Process(LARGE) as p:
            start = time.monotonic()
            snap = subprocess.Popen([PYSNAP, str(p.pid), "-o", out], stderr=subprocess.PIPE)
            if i:
                time.sleep(whole * i / 8)
                p.process.kill()
            said = snap.communicate(timeout=60)[1].decode()
            if not i:
                whole = (time.monotonic() - start) / 2 # later it is only written
            if snap.returncode == 0:
                os.unlink(out)
            else:
                gone += 1
                if snap.returncode != 3 or not re.match("^pysnap: (no process %d|process %d (ended while it was being read; no snapshot was written|has ended; its parent .*))\n  try: " % (p.pid, p.pid), said):
                    bad.append("exit %d: %s" % (snap.returncode, said))
                if os.listdir(folder):
                    bad.append("left: %s" % os.listdir(folder))
    tap.ok(not bad and gone, "a process that ends at any time: exit 3 or a whole snapshot", "%d\n%s" % (gone, "\n".join(bad)))
    nothing_in(folder, "a process that ends")


def again(folder):
    """What threads wait in stays that, however often they are stopped: their calls go on as others."""
    code = ("import select, threading\np, l = select.poll(), threading.Lock()\nl.acquire()\nthreading.Thread(target=p.poll, args=(600000,), daemon=True).start()\n"
            "print('READY', flush=True)\nl.acquire(timeout=600)")
    with Process([sys.executable, "-c", code]) as p:
        until = time.monotonic() + 10
        while not all(wchan := [proc_text(p.pid, "task/%s/wchan" % tid).strip("0") for tid in os.listdir("/proc/%d/task" % p.pid)]):
            if time.monotonic() > until:
                tap.skip("taken again: what threads wait in", "the kernel does not say: %r" % wchan)
                return
            time.sleep(0.02)
        snap, seen = os.path.join(folder, "again.pz"), []
        for _ in range(3):
            run([PYSNAP, str(p.pid), "-f", "-q", "-o", snap])
            done = run([PYANALYZE, "--json", "--show=-native", snap])
            seen.append(sorted(t.get("waits_in", "?") for t in json.loads(done.stdout)["threads"]))
        tap.equal(seen, [["futex", "poll"]] * 3, "taken again: what threads wait in")
        os.unlink(snap)


def little_memory(folder):
    """What a control group leaves, as its files say: those of another folder, shown to pysnap alone."""
    top, groups = os.path.join(folder, "group"), ("", "a", "a/b")

    def snap(name, code, text, *files, first=False):
        """first: in version 1, whose memory controller has a folder and names of its own."""
        shutil.rmtree(top, ignore_errors=True)
        names = {"max": "limit_in_bytes", "current": "usage_in_bytes"} if first else {}
        for group, content in zip(groups, files):
            place = os.path.join(top, "memory" if first else "", group)
            os.makedirs(place, exist_ok=True)
            for key, value in content.items():
                with open(os.path.join(place, "memory." + names.get(key, key)), "w") as f:
                    f.write(value + "\n")
        with open(os.path.join(top, "self"), "w") as f:
            f.write("3:memory_not,cpu:/\n4:cpuset,memory:/a/b\n0::/\n" if first else "1:name=systemd:/\n0::/a/b\n")
        with Process(SLEEPER) as p:
            done = run(["unshare", "-m", "sh", "-c", 'mount --bind "$1" /sys/fs/cgroup && mount --bind "$1/self" /proc/$$/cgroup && shift && exec "$@"', "sh", top,
                        PYSNAP, str(p.pid), "-o", "/dev/null"])
            said = done.stderr.decode()
            name += ", version 1" if first else ""
            tap.ok(done.returncode == code and re.match(text, said), name, said)
            runs(p.pid, name)
    if os.geteuid() or not shutil.which("unshare") or not os.path.isdir("/sys/fs/cgroup") or run(
            ["unshare", "-m", "sh", "-c", "mount --bind /dev/null /proc/$$/cgroup"]).returncode:
        tap.skip("a control group's memory", "needs root, unshare and /sys/fs/cgroup")
        return
    plenty = {"max": "max", "current": "90000000000", "stat": "anon 90000000000"}
    used = {"max": "1000000000", "current": "999000000", "stat": "anon 990000000\nfile 9000000\ninactive_anon 900000000\ninactive_file 4000000\nactive_file 3000000"}
    files = {"max": "1000000000", "current": "999000000", "stat": "anon 90000000\nfile 900000000\nshmem 100000000\ninactive_file 700000000\nactive_file 100000000"}
    refused = "pysnap: copying process \\d+ needs about .* of memory, 7.6 MiB are free; the process was not stopped\n  try: "
    snap("a control group without a limit", 0, "/dev/null: ", plenty, plenty, plenty)
    snap("a control group that is full", 1, refused, plenty, plenty, used)
    snap("a control group around it that is full", 1, refused, plenty, used, plenty)
    snap("a control group that is full of files, which can be dropped", 0, "/dev/null: ", plenty, plenty, files)
    snap("a control group that tells nothing of files", 1, "pysnap: copying .* 977 KiB are free", plenty, plenty, {"max": "1000000000", "current": "999000000"})
    # Without a limit it is the largest number of pages; what is not "total_" is of the group alone.
    plenty = {"max": "9223372036854771712", "current": "90000000000", "stat": "cache 0\nrss 90000000000"}
    used = dict(used, stat="cache 990000000\ninactive_file 900000000\nactive_file 90000000\ntotal_cache 9000000\ntotal_inactive_file 4000000\ntotal_active_file 3000000")
    files = dict(files, stat="cache 900000000\ninactive_file 1\nactive_file 1\ntotal_cache 900000000\ntotal_inactive_file 700000000\ntotal_active_file 100000000")
    snap("a control group without a limit", 0, "/dev/null: ", plenty, plenty, plenty, first=True)
    snap("a control group that is full", 1, refused, plenty, plenty, used, first=True)
    snap("a control group around it that is full", 1, refused, plenty, used, plenty, first=True)
    snap("a container's control group, mounted as the first there is", 1, refused, used, first=True)
    snap("a control group that is full of files, which can be dropped", 0, "/dev/null: ", plenty, plenty, files, first=True)
    shutil.rmtree(top, ignore_errors=True)


def main():
    top = tempfile.mkdtemp(prefix="pysnap-faults-")
    try:
        usage()
        which_process(top)
        not_allowed(top)
        output(top)
        rivals(top)
        interrupted(top)
        ends_meanwhile(top)
        little_memory(top)
        again(top)
    finally:
        shutil.rmtree(top, ignore_errors=True)
    tap.done()


main()
