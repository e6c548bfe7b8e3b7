"""Finds the interpreters of this machine: pyenv's, /usr/bin's, and the roots that tools/pythons unpacked."""
import glob
import os
import re
import shutil
import subprocess
import sys

CACHE = os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "pysnap")
ASK = "import sys; sys.stdout.write('%d.%d.%d' % sys.version_info[:3])"


class Python:
    """One interpreter: argv to start it, its root folder ('' for this machine's own), version text and a short name.
    config: the column of a layout table that fits it, "x86_64", "x86_64-d" (debug build), "i386"."""

    def __init__(self, argv, version, name, root="", config="x86_64"):
        self.argv, self.version, self.name, self.root, self.config = argv, version, name, root, config

    @property
    def minor(self):
        return ".".join(self.version.split(".")[:2])


def ask(argv):
    try:
        done = subprocess.run(argv + ["-c", ASK], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return None
    text = done.stdout.decode("ascii", "replace")
    return text if done.returncode == 0 and re.match(r"^\d+\.\d+\.\d+$", text) else None


BUILDS = {"release": "", "debug": "-d", "free-threaded": "-t", "both": "-d-t"}


def matrix(pyanalyze):
    """{(first release, config): proven, recorded or derived}: what `pyanalyze --version -v` shows."""
    text = subprocess.run([pyanalyze, "--version", "-v"], stdout=subprocess.PIPE).stdout.decode()
    cells, build, machines = {}, None, []
    for line in text.splitlines():
        words = line.split()
        if words and words[0] in BUILDS and not line.startswith(" "):
            build, machines = BUILDS[words[0]], words[1:]
        elif build is not None and re.match(r"^  \d+\.\d+\.\d+ ", line):
            cells.update({(words[0], machine + build): word for machine, word in zip(machines, words[1:])})
        else:
            build = None
    return cells


def layouts(pyanalyze):
    """{(minor version, config)} that pyanalyze has a table for."""
    return {(".".join(version.split(".")[:2]), config) for version, config in matrix(pyanalyze)}


def programs():
    """(program, root, config, name) of what is installed here and unpacked in the cache; each program once."""
    seen = set()
    for path in sorted(glob.glob(os.path.expanduser("~/.pyenv/versions/*/bin/python")) + glob.glob("/usr/bin/python[23].*")):
        if re.match(r"^python(\d\.\d+)?(-dbg)?$", os.path.basename(path)) and os.path.realpath(path) not in seen:
            seen.add(os.path.realpath(path))
            config = os.uname().machine + ("-d" if path.endswith("-dbg") else "")
            yield path, "", config, "pyenv" if ".pyenv" in path else "system"
    for path in sorted(glob.glob(os.path.join(CACHE, "*", "usr", "bin", "python[23].*"))):
        root = path[: path.index("/usr/bin/")]
        if os.path.basename(root).split("-")[-1] in MACHINES:
            continue
        if re.match(r"^python\d\.\d+(-dbg|d)?$", os.path.basename(path)) and not os.path.islink(path) and os.path.exists(root + "/.complete"):
            debug = path.endswith(("-dbg", "d"))
            yield path[len(root):], root, os.path.basename(root).split("-")[-1] + ("-d" if debug else ""), os.path.basename(root) + ("-dbg" if debug else "")
    for path in sorted(glob.glob(os.path.join(CACHE, "built-*", "bin", "python3.*t"))):
        if os.path.exists(os.path.join(os.path.dirname(path), "..", ".complete")):
            yield path, "", os.uname().machine + "-t", path.split(os.sep)[-3]


MACHINES = {"arm64": ("aarch64", "qemu-aarch64-static"), "armhf": ("arm", "qemu-arm-static")}


def foreign():
    """(interpreters of other machines, [(name, why it was left out)]): unpacked in the cache, run by qemu's user emulation. Their
    processes are qemu's, so pysnap does not come into it; qemu itself writes the guest's core."""
    found, absent = [], []
    for path in sorted(glob.glob(os.path.join(CACHE, "*", "usr", "bin", "python[23].*"))):
        root = path[: path.index("/usr/bin/")]
        name = os.path.basename(root)
        if name.split("-")[-1] not in MACHINES or not re.match(r"^python\d\.\d+$", os.path.basename(path)) or not os.path.exists(root + "/.complete"):
            continue
        config, qemu = MACHINES[name.split("-")[-1]]
        if not shutil.which(qemu):
            absent.append((name, "no %s" % qemu))
            continue
        argv = [qemu, "-L", root, "-E", "PYTHONHOME=%s/usr" % root, path]
        version = ask(argv)
        if version:
            found.append(Python(argv, version, name, "", config))
        else:
            absent.append((name, "does not start here"))
    return found, absent


def find():
    """(interpreters, [(name, why it was left out)]), oldest version first. PYSNAP_TEST_PYTHONS, if set, holds words of
    which a name must contain one: sanitized builds are slow, so tools/test gives them one interpreter a frame shape."""
    found, absent = [], []
    for program, root, config, name in programs():
        if root and os.geteuid() != 0:
            absent.append((name, "needs root for chroot"))
            continue
        argv = ["chroot", root, program] if root else [program]
        version = ask(argv)
        if version:
            found.append(Python(argv, version, name if root else "%s-%s%s" % (name, version, "-dbg" if program.endswith("-dbg") else ""), root, config))
        else:
            absent.append((name, "does not start here"))
    words = os.environ.get("PYSNAP_TEST_PYTHONS", "").split()
    kept = [p for p in found if not words or any(w in p.name for w in words)]
    if kept and len(kept) < len(found):
        absent.append(("%d interpreters" % (len(found) - len(kept)), "left out by PYSNAP_TEST_PYTHONS=%s" % " ".join(words)))
        found = kept
    found.sort(key=lambda p: [int(n) for n in p.version.split(".")] + [p.name])
    return found, absent


def each_interpreter(tap, pyanalyze, what, *checks):
    """The checks of every interpreter, or of those whose names contain a word of the command line; then the plan."""
    wanted, known = sys.argv[3:], layouts(pyanalyze)
    found, absent = find()
    for python in found:
        if wanted and not any(w in python.name for w in wanted):
            continue
        if (python.minor, python.config) not in known:
            tap.skip("%s of %s" % (what, python.name), "no table of its version yet")
            continue
        for check in checks:
            tap.part(python, check)
    for name, why in absent:
        if not wanted:
            tap.skip("%s of %s" % (what, name), why)
    tap.done()
