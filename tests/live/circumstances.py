#!/usr/bin/env python3
"""What a verdict says beside the crash: the exceptions that were being handled, what the collector tripped over, and where in its life the process was.

circumstances.py PYSNAP PYANALYZE [NAME...]     NAME: only interpreters whose name contains it
"""
import json
import os
import re
import tempfile

from crashed import HERE, PYANALYZE, crash, line, tap
from pythons import each_interpreter
from reports import names_python
from target import run


def place(python, text):
    """The line of crash.py that has this in it."""
    with open(os.path.join(HERE, "..", "..", "fixtures", "programs", "crash.py"), encoding="utf-8") as f:
        return [i for i, s in enumerate(f, 1) if text in s][0]


def exceptions(python):
    """case: (type, its text, the function that handles it, a part of the line that raised it)."""
    old, name = python.minor == "2.7", python.name
    cases = {
        "top": ("ValueError", "invalid literal for int() with base 10: 'zz'", "top", 'int("zz")'),
        "oserror": ("IOError", "[Errno 2] No such file or directory: '/nonexistent/e'", "handled", "open(") if old else
                   ("FileNotFoundError", "[Errno 2] No such file or directory: '/nonexistent/é'", "handled", "open("),
        "text": ("RuntimeError", "bé \x1b[31m 中", "handled", "raise RuntimeError(u"),
        "nothing": ("RuntimeError", "", "handled", "raise RuntimeError\n"),
        "syntax": ("SyntaxError", "invalid syntax (bad.py, line 1)", "handled", "compile("),
        "decode": ("UnicodeDecodeError", "'ascii' codec can't decode byte 0xff in position 2: ordinal not in range(128)", "handled", '.decode("ascii")'),
        "both": ("NoSuchName", "'colour'", "handled", "raise NoSuchName("),
        "deep": ("ValueError", "('deep', 1.5, %s, None, [True, (1,)])" % ("'\\xff'" if old else "b'\\xff'"), "handled", 'raise ValueError("deep"'),
        "chosen": ("Rejected", "(42, 'order 7')", "handled", "raise Rejected(42"),
        "finally": ("ValueError", "let pass", "let_pass", 'raise ValueError("let pass")'),
        "generator": None if old else ("KeyError", "'missing'", "generator", 'raise KeyError("missing")'),
        "group": ("ExceptionGroup", "several (2 sub-exceptions)", "handled", "raise ExceptionGroup("),
        "thread": ("ValueError", "invalid literal for int() with base 10: 'zz'", "top", 'int("zz")'),
        # 2.7 forgets when the function returns, later ones when the handler ends.
        "after": None,
    }
    if [int(n) for n in python.minor.split(".")] < [3, 11]:
        del cases["group"]
    for case, want in cases.items():
        got = crash(python, case)
        if not got:
            continue
        rep, text, _, target = got
        name = "%s: %s" % (python.name, case)
        found = [e for e in rep.get("exceptions", [{"type": "not known"}]) if e["state"] == "handled"]
        if want is None:
            tap.equal((found, line(text, "exception")), ([], "none was being handled"), "%s: nothing is handled" % name)
        elif tap.ok(len(found) == 1, "%s: one is handled" % name, rep.get("exceptions")):
            e = found[0]
            passed = [rep["frames"][i] for i in e["traceback"]]
            tap.equal((e.get("type"), e.get("value"), e["tid"]), want[:2] + (rep["verdict"]["tid"],), "%s: type and message" % name)
            tap.equal((passed[0]["function"], passed[-1]["line"]), (want[2], place(python, want[3])), "%s: where" % name)
            if case == "deep":
                tap.ok(e["frame_count"] == 402 and len(passed) < 100, "%s: the two ends of its traceback" % name, e)
            said = line(text, "exception") or ""
            tap.ok(said.startswith(want[0]) and "handled in " + want[2] in said and ":%d)" % passed[-1]["line"] in said and "\x1b" not in text,
                   "%s: a line of it" % name, text[:600])
        if case == "thread":
            first = rep["threads"][0]
            tap.equal((first.get("name"), first["main"], "crashed" in first["state"]), ("crasher", False, True), "%s: whose it is" % name)
        target.end()


def uncaught(python):
    """An exception that nothing caught is being printed, or its hook runs: no thread state has it."""
    for case, value in (("uncaught", "(42, 'order 7')"), ("uncaught-printed", "(42, 'order 7')"), ("uncaught-finalizer", "in a finalizer")):
        got = crash(python, case)
        if not got:
            continue
        rep, text, core, target = got
        name, known = "%s: %s" % (python.name, case), rep.get("exceptions", [])
        if case == "uncaught-finalizer" and [int(n) for n in python.minor.split(".")] >= [3, 8]:
            # What the hook is called with is known without any name.
            with tempfile.TemporaryDirectory(prefix="pysnap-live-") as empty:
                bare = json.loads(run([PYANALYZE, "--json", "--sysroot", empty, "--debug-path", empty, core]).stdout)
            tap.equal([[e.get("state"), e.get("type"), e.get("value")] for e in bare.get("exceptions", [])], [["uncaught", "Rejected", value]], "%s: which, without files" % name)
        if case != "uncaught-finalizer" or known:
            tap.equal([[e.get("state"), e.get("type"), e.get("value")] for e in known], [["uncaught", "Rejected", value]], "%s: which" % name)
            # Up to 3.6 those of finalizers have no traceback of their own.
            tap.ok(re.match(r"Rejected: %s   \((nothing caught it; it|likely what nothing caught and) was being printed, or a hook for it ran%s\)"
                            % (re.escape(value), r"; raised at .*crash.py:\d+" if case != "uncaught-finalizer" else "(; raised at .*crash.py:\\d+)?"),
                            line(text, "exception") or ""), "%s: it is said" % name, text[:600])
        else:
            # What prints it is not known where it has no name, nor which one where it has several at hand.
            tap.ok(line(text, "exception") in ("one that nothing caught was being printed, or a hook for it ran", "none was being handled"), "%s: it is said" % name, text[:600])
        target.end()
    if [int(n) for n in python.minor.split(".")] >= [3, 8]:
        got = crash(python, "uncaught-kept")
        if got:
            rep, text, _, target = got
            tap.equal((rep.get("exceptions", []), line(text, "exception")), ([], "none was being handled"), "%s: uncaught-kept: what a hook was called with once" % python.name)
            target.end()


def collections(python):
    """The collector trips over an object: its type, or its link to the next, overwritten."""
    free = python.config.endswith("-t")
    for case, field, value in (("bad-type", "ob_type", "0x4141414141414140"), ("text-type", "ob_type", "0x7472617473"), ("bad-link", "_gc_next", "0x4242424242424240")):
        if python.config.startswith("i386") or (free and case == "bad-link"):
            continue
        got = crash(python, case)
        if not got:
            continue
        rep, text, _, target = got
        name, found = "%s: %s" % (python.name, case), rep["verdict"].get("collector", {})
        victim = re.search(r"VICTIM (0x[0-9a-f]+)", target.text()).group(1)
        tap.equal((found.get("object"), found.get("field"), found.get("value"), found.get("confidence")), (victim, field, value, "certain"),
                  "%s: the object and its field" % name)
        tap.ok((line(text, "collector") or "").startswith("garbage was being collected") and victim in (line(text, "object") or ""), "%s: it is said" % name, text[:900])
        tap.ok(value + {"text-type": " ('start') is", "bad-type": " ('@AAAAAAA') is", "bad-link": " ('@BBBBBBB') leads"}[case] in (line(text, "object") or ""),
               "%s: and what text it is" % name, text[:900])
        if [int(n) for n in python.minor.split(".")] >= [3, 8] and not free and not (python.config.endswith("-d") and case == "bad-link"):
            tap.equal(found.get("generation"), 2, "%s: the generation" % name)
        target.end()


def fields(python):
    """The collector trips over what an object leads to."""
    free, old = python.config.endswith("-t"), python.minor.startswith("2")
    for case, kind, field, value, words in (("item", "list", "ob_item[1]", "0xdead0000", "is no object"), ("items", "list", "ob_item", "0xdead0000", "leads nowhere"),
                                            ("size", "list", "ob_size", "0x8000000", "is more than there is"), ("tuple", "tuple", "ob_item[1]", "0xdead0000", "is no object"),
                                            ("slot", "Pair", "attribute right", "0xdead0000", "is no object"),
                                            ("value", "dict", "value of 'last'", "0xdead0000", "is no object"),
                                            ("keys", "dict", "ma_table" if old else "ma_keys", "0xdead0000", "leads nowhere"),
                                            ("default", "defaultdict", "attribute default_factory", "0xdead0000", "is no object"),
                                            ("dict", "partial", "__dict__", "0xdead0000", "is no object"),
                                            ("weak", "Weak", "list of weak references", "0xdead0000", "leads nowhere")):
        if python.config.startswith("i386") and case == "size":
            continue
        got = crash(python, "bad-field", case)
        if not got:
            continue
        rep, text, _, target = got
        name, found = "%s: bad-field %s" % (python.name, case), rep["verdict"].get("collector", {})
        victim = re.findall(r"VICTIM (0x[0-9a-f]+)", target.text())[-1]
        if case == "weak" and not names_python(rep) and not found.get("field"):
            # Where the collector's functions have no names, what is only likely is not claimed.
            tap.equal(line(text, "object"), None, "%s: nothing is claimed" % name)
            target.end()
            continue
        sure, kind = case != "weak", found.get("type", kind) if found.get("type", "").endswith("." + kind) else kind # up to 3.8 with its module
        tap.equal([found.get(key) for key in ("object", "type", "field", "value", "confidence")], [victim, kind, field, value, "certain" if sure else "likely"],
                  "%s: the object and its field" % name)
        tap.equal(line(text, "object"), "%s %s%s its %s = %s %s; %s what it tripped over" % (kind, victim, " cannot be right:" if sure else ":", field, value, words, "this is" if sure else "likely"),
                  "%s: it is said" % name)
        target.end()


def renews_number(python):
    """Does os.fork() give threading's main thread its new number?  Then nothing is left of the parent's (later releases of 3.13 on)."""
    ask = "import inspect, threading; print('_set_native_id' in inspect.getsource(getattr(threading.Thread, '_after_fork', threading.Event)))"
    return b"True" in run(python.argv + ["-c", ask]).stdout


def lives(python):
    """While Python shuts down, and in children that were forked in every way: what is known of it in this version."""
    version, counted = [int(n) for n in python.minor.split(".")], python.config.startswith("x86_64")  # glibc's count of forks is read
    by_thread, forked = version >= [3, 8] and not renews_number(python), r"in a child that (?:pid (\d+) forked$|was forked \(no exec since\); its parent was pid (\d+)$)"
    for case, known, want in (("at-end", True, r"Python was shutting down, which this thread did$"),
                              ("exit-handler", True, r"Python was shutting down, which this thread did: it ran an exit handler$"),
                              ("main-ended", True, r"the main program had ended; Python waited for threads that are no daemons$"),
                              ("forked", counted or by_thread, forked),
                              ("forked-twice", counted or by_thread, r"in a child that (?:pid (\d+) forked, or that a child of it did$|was forked \(2 forks since its program was executed\); "
                                                                     r"its parent was pid (\d+)$)"),
                              ("forked-thread", True, r"in a child that a thread other than the main one forked%s$" % (r" \(thread (\d+)\)" if by_thread else "")),
                              ("forked-c", True, forked + r"|likely in a child that C code forked without telling Python"),
                              ("forked-kernel", version >= [3, 8], r"likely in a child that pid (\d+) made by vfork or clone$" if counted else forked),
                              ("multiprocessing", True, r'in a child that multiprocessing forked \("worker-7"\) from pid (\d+)$'),
                              ("forked-parent", False, None),
                              ("abort", False, None)):
        got = crash(python, case)
        if not got:
            continue
        rep, text, _, target = got
        name, said = "%s: %s" % (python.name, case), line(text, "state")
        if known:
            match = re.match(want, said or "")
            tap.ok(match and all(int(n) == target.pid or (int(n) > target.pid and ("thread" in case or "twice" in case)) for n in match.groups() if n), "%s: it is said" % name, (said, target.pid))
            tap.ok(said in rep["verdict"].get("explain", []), "%s: in JSON too" % name, rep["verdict"])
        else:
            tap.equal(said, None, "%s: nothing is claimed" % name)
        target.end()


each_interpreter(tap, PYANALYZE, "circumstances", exceptions, uncaught, collections, fields, lives)
