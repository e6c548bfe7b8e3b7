"""The report of a file, and what most tests look for in one.  pyanalyze is the second word of the command line."""
import json
import os
import sys

from target import run


def report(path, *options, prefix=(), **more):
    """(report or None, how it was done); prefix: what starts pyanalyze; more: of run()."""
    done = run([*prefix, os.path.abspath(sys.argv[2]), "--json", *options, path], **more)
    try:
        return json.loads(done.stdout), done
    except ValueError:
        return None, done


def unfolded(rep, thread):
    """The thread's frames, oldest first, each repeated piece as often as it was there."""
    folded = {f["at"]: f for f in thread.get("folded", [])}
    out, at, ids = [], 0, thread["stack"]
    while at < len(ids):
        piece = folded.get(at, {"frames": 1, "repeat": 1})
        out += [rep["frames"][i] for i in ids[at:at + piece["frames"]] * piece["repeat"]]
        at += piece["frames"]
    return out


def names_python(rep):
    """Are all functions' names known of the file that the interpreter is in?"""
    return any(m.get("symbols") == "full" and os.path.basename(m["path"]).startswith(("python", "libpython")) for m in rep["modules"])


def codes(rep):
    return [p["code"] for p in rep["problems"]]
