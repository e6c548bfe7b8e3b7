"""Finds the interpreters of this machine: pyenv's, /usr/bin's, and the roots that tools/pythons unpacked."""
import glob
import os
import re
import subprocess

CACHE = os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "pysnap")
ASK = "import sys; sys.stdout.write('%d.%d.%d' % sys.version_info[:3])"


class Python:
    """One interpreter: argv to start it, its root folder ('' for this machine's own), version text and a short name."""

    def __init__(self, argv, version, name, root=""):
        self.argv, self.version, self.name, self.root = argv, version, name, root

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


def find():
    """(interpreters, [(name, why it was left out)]), each program once, oldest version first."""
    found, absent, seen = [], [], set()
    for path in sorted(glob.glob(os.path.expanduser("~/.pyenv/versions/*/bin/python")) + glob.glob("/usr/bin/python3*")):
        if not re.match(r"^python[0-9.]*$", os.path.basename(path)):
            continue
        real = os.path.realpath(path)
        if real in seen:
            continue
        seen.add(real)
        version = ask([path])
        where = "pyenv" if ".pyenv" in path else "system"
        if version:
            found.append(Python([path], version, "%s-%s" % (where, version)))
        else:
            absent.append((path, "does not start"))
    for program in sorted(glob.glob(os.path.join(CACHE, "*", "usr", "bin", "python[23].*"))):
        root = program[: program.index("/usr/bin/")]
        name = os.path.basename(root)
        if not re.match(r"^python\d\.\d+(-dbg)?$", os.path.basename(program)) or os.path.islink(program):
            continue
        if os.geteuid() != 0:
            absent.append((name, "needs root for chroot"))
            continue
        argv = ["chroot", root, "/usr/bin/" + os.path.basename(program)]
        version = ask(argv)
        if version:
            found.append(Python(argv, version, name, root))
        else:
            absent.append((name, "does not start"))
    found.sort(key=lambda p: [int(n) for n in p.version.split(".")] + [p.name])
    return found, absent
