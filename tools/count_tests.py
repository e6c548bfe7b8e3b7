#!/usr/bin/env python3
"""Counts TAP subtests in meson's testlog.json files.

Prints the names of what failed and why things were skipped, then "N passed, N failed, N skipped". A test that printed
no TAP counts as one, and so does each --broken=BUILD, a build that failed. Exit 1 if anything failed or nothing ran.
"""
import collections
import json
import re
import sys

passed = failed = skipped = 0
why = collections.Counter()
bad = []
line = re.compile(r"^(not )?ok\b\s*\d*\s*(?:- )?([^#]*)(?:#\s*(skip|todo)\S*\s*(.*))?$", re.I)
for path in sys.argv[1:]:
    if path.startswith("--broken="):
        failed += 1
        bad.append("%s does not build" % path[len("--broken="):])
        continue
    with open(path, errors="replace") as log:
        for record in map(json.loads, log):
            seen = 0
            for text in record.get("stdout", "").splitlines():
                m = line.match(text)
                if not m:
                    plan = re.match(r"^1\.\.0\s*#\s*skip\S*\s*(.*)$", text, re.I)
                    if plan:
                        seen += 1
                        skipped += 1
                        why["%s: %s" % (record["name"], plan.group(1))] += 1
                    continue
                seen += 1
                if m.group(3) and m.group(3).lower() == "skip":
                    skipped += 1
                    why["%s: %s" % (m.group(2).strip(), m.group(4).strip())] += 1
                elif m.group(1):
                    failed += 1
                    bad.append("%s: %s" % (record["name"], m.group(2).strip()))
                else:
                    passed += 1
            if record["result"] not in ("OK", "SKIP") and not any(b.startswith(record["name"] + ":") for b in bad):
                failed += 1
                bad.append("%s: %s" % (record["name"], record["result"]))
            elif not seen:
                if record["result"] == "SKIP":
                    skipped += 1
                    why[record["name"]] += 1
                else:
                    passed += 1
for text, n in sorted(why.items()):
    print("skipped: %s%s" % (text, " (x%d)" % n if n > 1 else ""))
for text in bad:
    print("failed: %s" % text)
print("%d passed, %d failed, %d skipped" % (passed, failed, skipped))
sys.exit(1 if failed or not passed else 0)
