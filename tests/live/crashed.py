"""A program that has crashed, its core, and the report of it."""
import json
import os
import re
import sys

from tap import Tap
from target import Target, run

HERE = os.path.dirname(os.path.abspath(__file__))
PYANALYZE = os.path.abspath(sys.argv[2])
DECODES = "(Zydis)" in run([PYANALYZE, "--version"]).stdout.decode()
tap = Tap()
try:
    import jsonschema
    with open(os.path.join(HERE, "..", "..", "formats", "report.schema.json"), encoding="utf-8") as f:
        SCHEMA = jsonschema.Draft202012Validator(json.load(f))
except ImportError:
    SCHEMA = None


def crash(python, case, *arguments):
    """(report, its text, core's path, target) of a program that has crashed; None after a check that says why."""
    target, name, options = Target(python, "crash.py", case, *arguments), "%s: %s" % (python.name, " ".join((case,) + arguments[1:])), []
    core, why = target.core()
    if not core:
        said = target.text()
        if "pipe" in why:
            tap.skip(name, why)
        elif "_ctypes" in said or "libffi" in said:
            tap.skip(name, "no ctypes")
        elif "/dev/urandom" in said:
            tap.skip(name, "no /dev/urandom in its root")
        else:
            tap.ok(False, "%s: a core" % name, why + "\n" + said)
        target.end()
        return None
    options += ["--sysroot", python.root] if python.root else []
    both = os.path.join(target.top, "report.json")
    done = run([PYANALYZE, "-o", both, "-o", "-", core] + options)
    text = done.stdout.decode("utf-8", "replace")
    try:
        with open(both, encoding="utf-8") as f:
            rep = json.load(f)
    except (OSError, ValueError):
        tap.ok(False, "%s: report" % name, done.stderr.decode("utf-8", "replace"))
        target.end()
        return None
    wrong = [e.message for e in SCHEMA.iter_errors(rep)] if SCHEMA else []
    if wrong:
        tap.ok(False, "%s: fits the schema" % name, wrong)
    return rep, text, core, target


def line(text, key):
    """What a line of the verdict says."""
    found = re.search(r"^  %s +(.*)$" % key, text, re.M)
    return found.group(1) if found else None


def without_likely(rep):
    return rep["verdict"]["confidence"] == "certain"
