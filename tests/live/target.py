"""A program that is parked, asked, and made to leave a core; and running a command with a time limit."""
import json
import os
import re
import resource
import select
import shutil
import signal
import subprocess
import tempfile
import time

PROGRAMS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "fixtures", "programs")


def run(argv, **more):
    """stdin is empty and output is kept, unless more says otherwise."""
    more = dict({"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "timeout": 120}, **more)
    return subprocess.run(argv, **more)


def folder_in(root):
    """A new folder under /tmp of that root (None: of this system), which a cleaned cache may have lost."""
    if root:
        os.makedirs(os.path.join(root, "tmp"), exist_ok=True)
    return tempfile.mkdtemp(prefix="pysnap-live-", dir=os.path.join(root, "tmp") if root else None)


def ended(pid):
    """The kernel is done with a process and has written its core (it may still wait for its parent to ask)."""
    try:
        with open("/proc/%d/stat" % pid, "rb") as f:
            return f.read().rpartition(b")")[2].split()[0] in (b"Z", b"X")
    except (OSError, IndexError):
        return True


def wait_end(process, seconds):
    """process.wait(seconds), which itself would look only every 50 ms."""
    if process.poll() is None and hasattr(os, "pidfd_open"):
        fd = os.pidfd_open(process.pid)
        poll = select.poll()
        poll.register(fd, select.POLLIN)
        poll.poll(1000 * seconds)
        os.close(fd)
    process.wait(0 if hasattr(os, "pidfd_open") else seconds)


def enter(root, folder, limit=resource.RLIM_INFINITY):
    """For preexec_fn: cores are wanted, of up to so many bytes; and the folder, which lies in that root (chroot(1) would move to "/", where a core meets those of others)."""
    def prepare():
        resource.setrlimit(resource.RLIMIT_CORE, (limit, resource.RLIM_INFINITY))
        if root:
            os.chroot(root)
            os.chdir(folder[len(root):])
    return prepare


class Target:
    """A program that runs in a folder of its own (with a name that is not ASCII), inside the interpreter's root."""
    limit = resource.RLIM_INFINITY # of its core

    def __init__(self, python, program, *args, **more):
        """prefix: what starts the interpreter (it has to go on as the process that it is, or to fork one). env: variables, of which it has none of Python's."""
        self.python, prefix = python, more.get("prefix")
        self.top = folder_in(python.root)
        self.folder = os.path.join(self.top, "földer 目")
        os.mkdir(self.folder)
        shutil.copy(os.path.join(PROGRAMS, program), self.folder)
        inside = self.folder[len(python.root):]
        self.script = os.path.join(inside, program)
        self.truth = os.path.join(self.folder, "truth.json")
        argv = ((prefix + python.argv) if prefix else python.argv[2:] if python.root else python.argv) + [self.script] + [a.replace("TRUTH", os.path.join(inside, "truth.json")) for a in args]
        env = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "ASAN", "UBSAN", "LD_"))}
        env.update(PYTHONIOENCODING="utf-8", LANG="C.UTF-8", LC_ALL="C.UTF-8", PYTHONDONTWRITEBYTECODE="1", **more.get("env", {}))
        self.start(argv, env, None if prefix else python.root)

    def start(self, argv, env, inside):
        """inside: the root that it starts in; None: it stays in this system's."""
        self.out = open(os.path.join(self.top, "out"), "w+b")
        self.process = subprocess.Popen(argv, cwd=self.folder, env=env, stdin=subprocess.DEVNULL, stdout=self.out,
                                        stderr=subprocess.STDOUT, start_new_session=True, preexec_fn=enter(inside, self.folder, self.limit))
        self.pid = self.process.pid

    def text(self):
        self.out.flush()
        with open(self.out.name, "rb") as f:
            return f.read().decode("utf-8", "replace")

    def wait_ready(self):
        for _ in range(600):
            if "READY" in self.text():
                time.sleep(0.3)
                return True
            if self.process.poll() is not None:
                return False
            time.sleep(0.05)
        return False

    def state(self):
        with open("/proc/%d/status" % self.pid) as f:
            text = f.read()
        return re.search(r"^State:\s+(\S)", text, re.M).group(1), int(re.search(r"^TracerPid:\s+(\d+)", text, re.M).group(1))

    def ask_truth(self):
        os.kill(self.pid, signal.SIGUSR1)
        for _ in range(600):
            if os.path.exists(self.truth):
                with open(self.truth) as f:
                    return json.load(f)
            time.sleep(0.05)
        return None

    def core(self, send=None):
        """The core after the signal, or (None, why)."""
        with open("/proc/sys/kernel/core_pattern") as f:
            pattern = f.read().strip()
        if pattern.startswith("|"):
            return None, "kernel.core_pattern is a pipe"
        if send:
            os.kill(self.pid, send)
        wait_end(self.process, 120)
        places = [self.folder] + ([os.path.dirname(pattern)] if pattern.startswith("/") else [])
        for place in places:
            names = [n for n in os.listdir(place) if n == "core" or n.startswith("core.") or str(self.pid) in n]
            for name in names:
                path = os.path.join(place, name)
                if os.path.isfile(path) and not name.endswith((".pz", ".json")):
                    kept = os.path.join(self.top, "core")
                    os.rename(path, kept)
                    return kept, ""
        return None, "no core was written"

    def left(self):
        """What it started and left: of its group, and in its folder, since the number of an ended process may be another's by now."""
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open("/proc/%s/stat" % pid) as f:
                    group = int(f.read().rpartition(")")[2].split()[2])
                if group == self.pid and os.readlink("/proc/%s/cwd" % pid).startswith(self.top):
                    yield int(pid)
            except OSError:
                pass

    def end(self):
        try:
            if self.process.poll() is None: # the number is its own until it is waited for
                os.killpg(self.pid, signal.SIGKILL)
            for pid in list(self.left()):
                os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()
        self.out.close()
        shutil.rmtree(self.top, ignore_errors=True)
