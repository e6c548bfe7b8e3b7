"""Finds the interpreters of this machine: pyenv's, /usr/bin's, and the roots that tools/pythons unpacked."""
import glob
import os
import re
import subprocess

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


def layouts(pyanalyze):
    """{(minor version, config)} that pyanalyze has a table for."""
    text = subprocess.run([pyanalyze, "--version"], stdout=subprocess.PIPE).stdout.decode()
    return set(re.findall(r"(\d+\.\d+)(?:\.\d+)? (\S+)", text.split("layouts:")[1].split("\n")[0]))


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
        if re.match(r"^python\d\.\d+(-dbg|d)?$", os.path.basename(path)) and not os.path.islink(path) and os.path.exists(root + "/.complete"):
            debug = path.endswith(("-dbg", "d"))
            yield path[len(root):], root, os.path.basename(root).split("-")[-1] + ("-d" if debug else ""), os.path.basename(root) + ("-dbg" if debug else "")
    for path in sorted(glob.glob(os.path.join(CACHE, "built-*", "bin", "python3.*t"))):
        if os.path.exists(os.path.join(os.path.dirname(path), "..", ".complete")):
            yield path, "", os.uname().machine + "-t", path.split(os.sep)[-3]


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
