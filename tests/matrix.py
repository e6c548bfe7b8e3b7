#!/usr/bin/env python3
"""`pyanalyze --version -v` says for every version, build and machine how its table was had, and what it says is so.

usage: matrix.py SOURCE_ROOT PYANALYZE
"""
import glob
import os
import re
import subprocess
import sys

ROOT, PYANALYZE = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
sys.path.insert(0, os.path.join(ROOT, "tests", "live"))
from pythons import matrix  # noqa: E402
from tap import Tap  # noqa: E402

MACHINES = ["x86_64", "i386", "aarch64", "arm"]


def main():
    tap = Tap()
    cells = matrix(PYANALYZE)
    tables = [os.path.basename(path)[: -len(".layout")] for path in glob.glob(os.path.join(ROOT, "formats", "layouts", "*.layout"))]
    first = {name: name if name.count(".") == 2 else name + ".0" for name in tables}  # how the matrix calls a table's row
    want = set()
    for version in first.values():
        threaded = [int(n) for n in version.split(".")[:2]] >= [3, 13]
        want |= {(version, m + build) for m in MACHINES for build in (["", "-d", "-t"] if threaded else ["", "-d"])}
    tap.equal(sorted(cells), sorted(want), "a cell for every version, build and machine")
    tap.equal(sorted(set(cells.values()) - {"proven", "recorded", "derived"}), [], "each says how it was had")
    recorded = {(first.get(name.split("-", 1)[0]), name.split("-", 1)[1])
                for name in os.listdir(os.path.join(ROOT, "fixtures", "snaps")) if glob.glob(os.path.join(ROOT, "fixtures", "snaps", name, "*.pz"))}
    without = sorted(cell for cell, word in cells.items() if word != "derived" and cell not in recorded)
    # Of ARM's there are cores of qemu's, which live/foreign.py and live/layouts.py make anew: their interpreters are unpacked by tools/pythons.
    with open(os.path.join(ROOT, "tools", "pythons"), encoding="utf-8") as f:
        unpacked = {(m[1], {"arm64": "aarch64", "armhf": "arm"}[m[2]]) for m in re.finditer(r"^[-+] \w+-(\d+\.\d+)-(arm64|armhf) ", f.read(), re.M)}
    tap.equal([cell for cell in without if (".".join(cell[0].split(".")[:2]), cell[1]) not in unpacked], [],
              "what is called proven or recorded has a fixture, or an interpreter that runs under qemu")
    tap.equal([cell for cell in without if cells[cell] == "recorded"], [], "what is called recorded has a fixture")
    tap.equal(sorted(cell for cell in recorded if cells.get(cell, "derived") == "derived"), [], "what has a fixture is not called derived")
    text = subprocess.run([PYANALYZE, "--version", "-v"], stdout=subprocess.PIPE).stdout.decode()
    tap.equal({line.split(":")[0] for line in text.splitlines() if re.match(r"(proven|recorded|derived): ", line)}, set(cells.values()), "the words that occur are explained, no others")
    tap.equal([line for line in text.splitlines() if len(line) > 100], [], "no line is longer than 100 columns")
    tap.done()


main()
