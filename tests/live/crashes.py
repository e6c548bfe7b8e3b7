#!/usr/bin/env python3
"""Crashes of every kind that a verdict tells apart, on every interpreter: their cores, and what is said of them.

crashes.py PYSNAP PYANALYZE [NAME...]     NAME: only interpreters whose name contains it
"""
import json
import os
import re
import shutil
import tempfile

from crashed import DECODES, HERE, PYANALYZE, crash, line, tap, without_likely
from pythons import each_interpreter
from target import Target, run


def faults(python):
    """What was wanted of which address, by the instruction; the same below a handler that ran on it, with the same group id."""
    decodes = DECODES and python.config.split("-")[0] in ("x86_64", "i386")
    ids = {}
    for case, like, access, title, ended in (
            ("fault", "fault", "read", "SIGSEGV: read of address 0x1234 (nothing is mapped there)", None),
            ("write", "write", "write", "SIGSEGV: write to address 0x5678 (nothing is mapped there)", None),
            ("jump", "jump", "exec", "SIGSEGV: execution of address 0x41000 (a call of unmapped memory)", None),
            ("same-null", "same-null", "exec", "SIGSEGV: execution of address 0x0 (a call of a null pointer)", None),
            ("same-wild", "same-wild", "exec", "SIGSEGV: execution of address 0x41000 (a call of unmapped memory)", None),
            ("same-sent", "same-sent", None, "SIGSEGV: the process sent it to itself", None),
            ("faulthandler", "fault", "read", "SIGSEGV: read of address 0x1234 (nothing is mapped there)", "SIGSEGV"),
            ("handler", "fault", "read", "SIGSEGV: read of address 0x1234 (nothing is mapped there)", "SIGABRT"),
            ("handler-info", "fault", "read", "SIGSEGV: read of address 0x1234 (nothing is mapped there)", "SIGABRT"),
            ("handler-python", "fault", "read", "SIGSEGV: read of address 0x1234 (nothing is mapped there)", "SIGABRT"),
            ("handler-write", "write", "write", "SIGSEGV: write to address 0x5678 (nothing is mapped there)", "SIGABRT"),
            ("faulthandler-abort", "abort", None, "SIGABRT: the process aborted itself (abort, a failed assertion or a fatal error)", "SIGABRT"),
            ("abort", "abort", None, "SIGABRT: the process aborted itself (abort, a failed assertion or a fatal error)", None),
            ("watched-abort", "abort", None, "SIGABRT: the process aborted itself (abort, a failed assertion or a fatal error)", None),
            ("raise", "raise", None, "SIGSEGV: the process sent it to itself", None)):
        if ("faulthandler" in case or "watched" in case) and python.minor == "2.7":
            continue
        if python.config.startswith("i386"):
            title = title.replace("0x1234", "0x1230")  # its strlen reads 16 bytes at a time, from where they are aligned
        got = crash(python, case)
        if not got:
            continue
        rep, text, _, target = got
        name, verdict = "%s: %s" % (python.name, case), rep["verdict"]
        if not decodes and access in ("read", "write") and ended is None:
            title = title.replace("read of", "access to").replace("write to", "access to")
            access = None
        # memset() begins with either half of the 64 bytes, by the machine.
        tap.equal((verdict["kind"], verdict["title"].replace("0x5698", "0x5678"), verdict["signal"].get("access")), ("crash", title, access), "%s: title" % name)
        tap.ok(without_likely(rep), "%s: for certain" % name, rep["problems"])
        tap.equal(verdict.get("ended_by", {}).get("name"), ended, "%s: what ended it" % name)
        tap.equal(ids.setdefault(like, verdict["group_id"]), verdict["group_id"], "%s: the same group id as %s" % (name, like))
        if case == "watched-abort":
            tap.equal([[rep["frames"][i]["lang"] for i in t["stack"] if rep["frames"][i]["lang"] == "python"] for t in rep["threads"]][1:], [[]], "%s: faulthandler's thread has no Python" % name)
            tap.ok(not {"stale", "starting"} & set(rep["threads"][-1]["state"]) and rep["threads"][-1].get("python_id") is None, "%s: and no thread state" % name, rep["threads"][-1])
        if case == "fault":
            location = {"string_at": "string_at"}.get(verdict["location"]["function"])
            tap.equal(location, "string_at", "%s: Python's place" % name)
        if access in ("read", "write") and decodes:
            shown = verdict.get("instruction", {})
            tap.ok(re.search(r"\[\w+[^]]*\]|stos", shown.get("text", "")) and re.search(r"\w+ = 0x(1234|5678|\w+)", shown.get("operands", "")) and
                   "=> " + shown["text"] in text, "%s: the instruction and its registers" % name, shown)
        if ended:
            tap.ok("handler" in (line(text, "handler") or "") + " handler" and "the process ended by " + ended in text, "%s: that a handler ran" % name, text[:800])
        tap.equal(verdict.get("ids_likely"), None if without_likely(rep) else True, "%s: how sure its ids are" % name)
        if case in ("abort", "raise", "same-sent", "faulthandler-abort"):
            tap.ok((line(text, "raised by") or "").startswith(("abort()", "kill()", "raise()")), "%s: who raised it" % name, text[:600])
        target.end()
    tap.ok(len(set(ids.values())) == len(ids), "%s: different crashes have different group ids" % python.name, ids)


def passed_on(python):
    """A signal that another thread sent: that is the place as long as it stands there.  Else whose it was is not claimed below a handler that did not ask."""
    for case in ("thread-kill", "faulthandler-thread"):
        got = crash(python, case) if case == "thread-kill" or python.minor != "2.7" else None
        if not got:
            continue
        rep, text, _, target = got
        verdict, name = rep["verdict"], "%s: %s" % (python.name, case)
        if line(text, "signal"):
            tap.ok(line(text, "signal") == "it came to thread %d" % target.pid and (line(text, "raised by") or "").startswith("kill()") and
                   verdict["location"]["function"] == "<lambda>" and verdict["kind"] == "crash", "%s: which thread sent it" % name, text[:500])
        elif case == "thread-kill":
            tap.equal((verdict["kind"], verdict["tid"]), ("crash", target.pid), "%s: the thread that it came to" % name)
        else:
            tap.equal((verdict["kind"], verdict["title"], without_likely(rep)),
                      ("stopped", "SIGABRT from another thread of the process or from outside (the sender is not in the core)", False), "%s: it is not claimed who sent it" % name)
        target.end()


def cut_off(python):
    """The stack of what faulthandler passed on is not in the file: then it is not claimed that the process did it by itself."""
    if python.minor == "2.7":
        return
    for case, signo in (("faulthandler", "SIGSEGV"), ("faulthandler-abort", "SIGABRT")):
        target = type("Limited", (Target,), {"limit": 300 << 10})(python, "crash.py", case)
        core, why = target.core()
        name = "%s: %s, cut off" % (python.name, case)
        if not core:
            tap.skip(name, why)
        else:
            rep = json.loads(run([PYANALYZE, "--json", core] + (["--sysroot", python.root] if python.root else [])).stdout)
            tap.equal((rep["verdict"]["kind"], rep["verdict"]["title"], without_likely(rep)),
                      ("crash", signo + ": the process sent it to itself; a handler may have passed on what came before: its stack is not in the file", False), name)
        target.end()


def without_files(python):
    """Native frames that end in the handler: what it interrupted is the place of the crash all the same."""
    if python.minor == "2.7" or python.config.split("-")[0] != "x86_64":
        return
    target = Target(python, "crash.py", "faulthandler")
    core, why = target.core()
    if not core:
        tap.skip("%s: without files" % python.name, why)
    else:
        with tempfile.TemporaryDirectory(prefix="pysnap-live-") as empty:
            rep, whole = [json.loads(run([PYANALYZE, "--json", core] + options).stdout) for options in
                          (["--sysroot", empty, "--debug-path", empty], ["--sysroot", python.root] if python.root else [])]
        places = [r["verdict"].get("native_location", {}) for r in (rep, whole)]
        tap.equal(places[0].get("module_offset"), places[1].get("module_offset"), "%s: the place without files" % python.name)
        tap.equal(rep["verdict"]["title"][:20], whole["verdict"]["title"][:20], "%s: title without files" % python.name)
        certain = rep["verdict"]["confidence"] == "certain"
        tap.equal((rep["verdict"]["group_id"] == whole["verdict"]["group_id"], rep["verdict"].get("ids_likely", False)), (certain, not certain), "%s: id without files" % python.name)
    target.end()


def fatal_errors(python):
    version = [int(n) for n in python.minor.split(".")]
    decodes = DECODES and python.config.startswith("x86_64")
    ways = [("fatal", "PyThreadState_Get: "), ("dynamic-fatal", "Fatal Python error: made up: 42"), ("assert", "pysnap: Assertion `one' failed.")]
    if [3, 9] <= version <= [3, 12]:
        ways.append(("formatted-fatal", "Fatal Python error: made_up: it is -42 of 7%, not A"))
    if version >= [3, 6]:
        ways.append(("freed", "bad ID: Allocated using API 'r', verified using API 'm'"))
    for case, want in ways:
        got = crash(python, case)
        if not got:
            continue
        rep, text, _, target = got
        name, title = "%s: %s" % (python.name, case), rep["verdict"]["title"]
        # Where code is not decoded, a text that is no constant is only what frames lead to.  Up to 3.9 that is so of what ctypes gives
        # too.  From 3.13 on the function with a format is no exported one, and known by its code.
        known = want in title if decodes else want in title or not without_likely(rep) or "(its text is not known)" in title
        if case == "freed" and version >= [3, 13] and not decodes:
            known = known or title == "SIGABRT: the process aborted itself (abort, a failed assertion or a fatal error)"
        elif case == "assert":
            known = known and title.startswith("SIGABRT: aborted by the C library: ")
        else:
            known = known and title.startswith("SIGABRT: Fatal Python error")
        tap.ok(known, "%s: its text" % name, title)
        if decodes and not (case in ("dynamic-fatal", "freed") and [3, 7] <= version <= [3, 9]):
            tap.ok(without_likely(rep), "%s: for certain" % name, rep["problems"])
        # glibc 2.41's __assert_fail jumps into a function that has no name there; nor has 3.13's with a format.
        nameless = (case == "assert" and python.root) or (case == "freed" and version >= [3, 13])
        tap.ok(re.match(r"abort\(\)" if nameless else r"abort\(\) <- (_?Py_FatalError|__assert_fail)", line(text, "raised by") or ""), "%s: who raised it" % name, text[:500])
        target.end()


NO_ADDRESS = " (no memory can have such an address)"
IN_C = (  # function: the title, as a pattern
    ("fault_divide", r"SIGFPE: integer division by zero(?: or overflow)? at 0x[0-9a-f]+"),
    ("fault_illegal", r"SIGILL: illegal operand at 0x[0-9a-f]+"),
    ("fault_breakpoint", r"SIGTRAP: the process sent it to itself"),
    ("fault_bus", r"SIGBUS: write to address 0x[0-9a-f]+008 \(past the end of the mapped file, or its file system is full or failed\)"),
    ("fault_read_only", r"SIGSEGV: write to address 0x[0-9a-f]+005 \(the mapping does not allow it\)"),
    ("fault_null_call", r"SIGSEGV: execution of address 0x0 \(a call of a null pointer\)"),
    ("fault_no_code", r"SIGSEGV: execution of address 0x[0-9a-f]+000 \(a call of memory that is no code\)"),
    ("fault_data", r"SIGSEGV: execution of address 0x[0-9a-f]+ \(a call of memory that is no code\)"),
    ("fault_wild", r"SIGSEGV: read of address 0x4141414141414140" + re.escape(NO_ADDRESS)),
    ("fault_wild_call", r"SIGSEGV: call to 0x4343434343434343" + re.escape(NO_ADDRESS)),
    ("fault_wild_return", r"SIGSEGV: return to 0x4444444444444444" + re.escape(NO_ADDRESS)),
    ("fault_return", r"SIGSEGV: execution of address 0x77777 \(a jump or return to unmapped memory\)"),
    ("fault_tail", r"SIGSEGV: execution of address 0x0 \(a jump(?: or return)? to a null pointer\)"),
    ("fault_pushed", r"SIGSEGV: execution of address 0x77777 \(a call of unmapped memory\)"),
    ("fault_table", r"SIGSEGV: privileged instruction lgdt, which only the kernel may execute"),
    ("fault_unaligned", r"SIGSEGV: write to address 0x[0-9a-f]+1, which the instruction wants to be a multiple of 16"),
    ("fault_privileged", r"SIGSEGV: privileged instruction hlt, which only the kernel may execute"),
    ("fault_no_room", r"SIGSEGV: (write to|read of) address 0x[0-9a-f]+ \(stack overflow: in the guard page of the main thread's stack\)"),
    ("fault_no_room_there", r"SIGSEGV: (write to|read of) address 0x[0-9a-f]+ \(stack overflow: in the guard page of a stack\)"),
    ("fault_both", r"SIGSEGV: read and write of address 0x2468 \(nothing is mapped there\)"),
    ("fault_push", r"SIGSEGV: write to address 0x13568 \(where the stack pointer is, but no stack\)"),
    ("fault_raised_again", r"SIGSEGV: write to address 0x99990 \(nothing is mapped there\)"),
    ("fault_killed_again", r"SIGSEGV: write to address 0x99990 \(nothing is mapped there\)"),
    ("fault_in_handler", r"SIGSEGV: write to address 0x99990 \(nothing is mapped there\)"),
    ("fault_leaf", r"SIGSEGV: read of address 0x5550 \(nothing is mapped there\)"),
    ("fault_saving", r"SIGSEGV: read of address 0x5550 \(nothing is mapped there\)"),
)
IN_CXX = (
    ("throw_std", "std::out_of_range: index 9 of 3"), ("throw_own", "shop::Rejected: order 7 was rejected"), ("throw_plain", "shop::Plain"),
    ("throw_int", "int"), ("throw_text", "const char *: a text"), ("throw_system", "std::system_error: reading it: No such file or directory"),
    ("throw_kept", "std::out_of_range: 5Order"), ("throw_noted", "shop::Noted<std::out_of_range>: noted"), ("throw_shared", "shop::Shared: kept by a virtual base"),
    ("throw_hidden", "(anonymous namespace)::Hidden: of this file alone"), ("throw_within", "std::_Nested_exception<std::logic_error>: what came of it"),
)
TERMINATE = {"throw_nothing": "", "throw_nothing_again": "", "terminate_later": "", "terminate_handling": " while std::out_of_range: index 9 of 3 was being handled",
             "terminate_again": " while std::out_of_range: kept was being handled"}


def compiled(folder, name, compilers):
    """programs/NAME as a library, or None."""
    source, library = os.path.join(HERE, "..", "..", "fixtures", "programs", name), os.path.join(folder, name + ".so")
    for compiler in compilers:
        if shutil.which(compiler):
            done = run([compiler, "-O1", "-g", "-w", "-shared", "-fPIC", "-o", library, source, "-lm"])
            if done.returncode == 0:
                return library
            tap.ok(False, "%s is built with %s" % (name, compiler), done.stderr.decode("utf-8", "replace"))
    return None


def without_lock(python):
    """The interpreter's code in a thread that does not hold the lock: that is said, and of nobody who need not hold it."""
    for case, why in ("without-lock", "without holding the GIL"), ("without-state", "but has no thread state, so it cannot hold the GIL"), ("fault", None):
        got = crash(python, case)
        if not got:
            continue
        rep, text, _, target = got
        name, note = "%s: %s" % (python.name, case), line(text, "GIL")
        free = "free-threaded" in rep["python"]["build"]
        if why and not free:
            tap.ok(re.match(r"likely the cause: the thread ran _?PyErr_\w+, the interpreter's, %s$" % why, note or "") and note in rep["verdict"].get("explain", []), "%s: why" % name, text[:500])
        else:
            tap.equal(note, None, "%s: nothing of the lock" % name)
        tap.equal((line(text, "thread") or "").endswith(", not holding the GIL"), not free and case == "without-lock", "%s: whether it holds it" % name)
        target.end()


def in_libraries(python):
    """What C and C++ can do, each with its own words; the library is to blame."""
    if python.root or python.config.split("-")[0] != "x86_64" or not DECODES:
        return
    with tempfile.TemporaryDirectory(prefix="pysnap-live-") as folder:
        c, cxx = compiled(folder, "faults.c", ("cc", "gcc", "clang")), compiled(folder, "throws.cc", ("c++", "g++", "clang++"))
        if not c:
            tap.skip("%s: faults in C" % python.name, "no compiler")
        for function, want in IN_C if c else ():
            got = crash(python, "c", c, function)
            if not got:
                continue
            rep, text, core, target = got
            name, verdict = "%s: %s" % (python.name, function), rep["verdict"]
            tap.ok(re.fullmatch(want, verdict["title"]), "%s: title" % name, verdict["title"])
            if function != "fault_return": # nothing leads back from there
                tap.equal(verdict.get("culprit_module"), c, "%s: who is to blame" % name)
            if function.endswith("_again"):
                tap.equal((line(text, "handler"), verdict.get("ended_by", {}).get("name"), without_likely(rep)),
                          ("a signal handler ran then; the process ended by SIGSEGV", "SIGSEGV", True), "%s: that it was raised again" % name)
            if function in ("fault_null_call", "fault_no_code", "fault_data", "fault_pushed"):
                in_line = line(text, "in") or ""
                tap.ok(in_line.startswith(function + ", ") and "(its call went to 0x" in in_line and verdict["called_from"]["function"] == function,
                       "%s: whose call it was" % name, text[:500])
                tap.ok("instruction" not in verdict and "\n        => " not in text, "%s: no instruction" % name, verdict.get("instruction"))
            if function == "fault_divide":
                tap.ok(re.fullmatch(r"fault_divide, \S*faults\.c:\d+, faults\.c\.so", line(text, "in") or "") and re.search(r"\n  C   fault_divide  \S*faults\.c:\d+  faults\.c\.so\n", text),
                       "%s: its line of C" % name, text[:900])
                alone = run([PYANALYZE, "--show=verdict", core]).stdout.decode("utf-8", "replace")
                tap.ok(alone.split("\n\n")[0] == text.split("\n\n")[0] and "\nThread " not in alone, "%s: the verdict alone is the same" % name, alone)
                threads = run([PYANALYZE, "--show=verdict,threads", core]).stdout.decode("utf-8", "replace")
                tap.ok(threads.startswith(text.split("\n\n")[0]) and "\n  Py  " in threads and "\n  C   " not in threads, "%s: threads without frames of C" % name, threads)
            if function == "fault_tail":
                in_line, called = line(text, "in") or "", verdict.get("called", {}).get("function")
                tap.ok(in_line.startswith("tail_of_nothing, ") and "(called by fault_tail, " in in_line and (called, verdict["called_directly"]) == ("tail_of_nothing", False),
                       "%s: who jumped there" % name, text[:500])
            if function in ("fault_leaf", "fault_saving"):
                crashed = rep["threads"][0]["stack"]
                tap.equal([rep["frames"][i].get("function") for i in crashed][-4:], [function, "above_it", "with_frame", function[6:]], "%s: none is missed" % name)
            if function == "fault_in_handler":
                tap.equal(line(text, "handler"), "it came in a signal handler, likely of SIGUSR1", "%s: in a handler" % name)
            target.end()
        for handler in ("faulthandler", "abort") if c and python.minor != "2.7" else ():
            got = crash(python, "c", c, "fault_null_call", handler)
            if not got:
                continue
            rep, text, core, target = got
            verdict = rep["verdict"]
            lines = json.loads(run([PYANALYZE, "--json", "-n", core]).stdout)
            tap.equal(sum(lines["frames"][i].get("signal_frame", False) for i in lines["threads"][0]["stack"]), 1, "%s: one signal frame, %s" % (python.name, handler))
            tap.equal((verdict["title"], verdict.get("called_from", {}).get("function"), verdict.get("culprit_module")),
                      ("SIGSEGV: execution of address 0x0 (a call of a null pointer)", "fault_null_call", c), "%s: a call of nothing, below %s" % (python.name, handler))
            target.end()
        got = crash(python, "c", c, "fault_bus", "faulthandler") if c and python.minor != "2.7" else None
        if got:
            tap.ok(re.fullmatch(dict(IN_C)["fault_bus"], got[0]["verdict"]["title"]), "%s: past the end of a file, below faulthandler" % python.name, got[0]["verdict"]["title"])
            got[3].end()
        got = crash(python, "daemon-at-end", c) if c and python.minor != "2.7" else None # there sys.modules is dropped too late
        if got:
            _, text, _, target = got
            tap.ok(re.match(r"Python was shutting down, which thread \d+ did$", line(text, "state") or ""), "%s: another thread shuts it down" % python.name, text[:600])
            target.end()
        if not cxx:
            tap.skip("%s: exceptions of C++" % python.name, "no compiler")
            return
        for function, want in IN_CXX + tuple((name, None) for name in TERMINATE):
            got = crash(python, "c", cxx, function)
            if not got:
                continue
            rep, text, _, target = got
            name = "%s: %s" % (python.name, function)
            tap.equal(rep["verdict"]["title"], "SIGABRT: " + ("an uncaught C++ exception: " + want if want else "C++'s std::terminate was called" + TERMINATE[function]), "%s: title" % name)
            tap.ok(without_likely(rep) and re.match(r"(abort|raise)\(\) <- std::terminate(\(\))?( <- (__cxa_(re)?throw|std::rethrow_exception(\(.*?\))?))? <- %s \(throws" % function, line(text, "raised by") or ""),
                   "%s: who raised it" % name, text[:500])
            target.end()
        got = crash(python, "c", cxx, "throw_pure")
        if got:
            tap.equal(got[0]["verdict"]["title"], "SIGABRT: a pure virtual method was called", "%s: throw_pure: title" % python.name)
            tap.ok(re.match(r"abort\(\) <- std::terminate(\(\))? <- __cxa_pure_virtual <- .*Asks", line(got[1], "raised by") or ""), "%s: throw_pure: who raised it" % python.name, got[1][:500])
            got[3].end()


def languages(python):
    """Names of inlined functions have their namespaces, whichever C++ the compiler says that it was."""
    if python.root or python.config.split("-")[0] != "x86_64" or not shutil.which("g++"):
        return
    source = os.path.join(HERE, "..", "..", "fixtures", "programs", "namespaces.cc")
    with tempfile.TemporaryDirectory(prefix="pysnap-live-") as folder:
        assembly = os.path.join(folder, "namespaces.s")
        run(["g++", "-S", "-g", "-gdwarf-5", "-dA", "-O1", "-fPIC", "-o", assembly, source])
        with open(assembly) as f:
            text = f.read()
        if not re.search(r"0x21\s+# DW_AT_language", text):
            tap.skip("%s: languages" % python.name, "this compiler names another one")
            return
        for number in (0x21, 0x2b, 0x2c, 0x3a):
            library = os.path.join(folder, "namespaces-%x.so" % number)
            with open(assembly, "w") as f:
                f.write(re.sub(r"0x21(\s+# DW_AT_language)", r"0x%x\1" % number, text))
            run(["g++", "-shared", "-o", library, assembly])
            got = crash(python, "c", library, "priced_nothing")
            if not got:
                continue
            said = run([PYANALYZE, "-n", got[2]]).stdout.decode("utf-8", "replace") # inlined ones
            tap.ok((line(said, "in") or "").startswith("shop::priced, "), "%s: language 0x%x" % (python.name, number), said[:400])
            got[3].end()


ITSELF = r"SIGABRT: the process aborted itself \(abort, a failed assertion or a fatal error\)"
NESTED = r"\d{3} signal handlers had interrupted each other; the first ran on SIGSEGV: write to address 0x99990 \(nothing is mapped there\)"
HANDLERS = (  # function, what else runs; kind, title, what a line with this key says
    ("recovered_then_sent", "faulthandler", "stopped", r"SIGABRT from outside \(the sender is not in the core\)", "handler", r".* ran then; the process ended by SIGABRT"),
    ("recovered_asked_then_sent", "faulthandler", "stopped", r"SIGABRT from outside \(the sender is not in the core\)", "handler", r".* ran then; the process ended by SIGABRT"),
    ("left_over_then_sent", "faulthandler", "stopped", r"SIGABRT from outside \(the sender is not in the core\)", "handler", r".* ran then; the process ended by SIGABRT"),
    ("alarm_raises", None, "crash", r"SIGABRT: the process sent it to itself", "handler", r"it came in a signal handler, likely of SIGALRM"),
    ("handlers_nested", None, "crash", r"SIGSEGV: stack overflow: no room was left for the frame of a signal handler", "handler", NESTED),
    ("handlers_use_up", None, "crash", r"SIGSEGV: write to address 0x[0-9a-f]+ \(stack overflow: in the guard page of the main thread's stack\)", "handler", NESTED),
    ("abort_after_message", None, "crash", ITSELF, "raised by", r"abort\(\) <- abort_after_message .*"),
    ("watched_fault", None, "crash", ITSELF, "handler", r"thread \d+ \(main\) stands in a handler of a fault: SIGSEGV: write to address 0x99990 \(nothing is mapped there\)"),
    ("stuck_in_fault", None, "stopped", r"SIGABRT sent by pid \d+ \(uid \d+\)", "handler", r"thread \d+ \(main\) stands in a handler of a fault: SIGSEGV: write to address 0x99990 \(nothing is mapped there\)"),
    ("timer_ends", None, "crash", r"SIGSEGV: a timer of the process ran out \(timer_create\)", "exception", r".*"),
    ("ended_divide", None, "crash", r"SIGFPE: integer division by zero at 0x[0-9a-f]+", "handler", r"end ran then; the process ended by SIGABRT"),
    ("ended_float", None, "crash", r"SIGFPE: floating-point division by zero at 0x[0-9a-f]+", "handler", r"end ran then; the process ended by SIGABRT"),
    ("ended_illegal", None, "crash", r"SIGILL: illegal operand at 0x[0-9a-f]+", "handler", r"end ran then; the process ended by SIGABRT"),
    ("ended_bus", None, "crash", r"SIGBUS: write to address 0x[0-9a-f]+008 \(past the end of the mapped file, or its file system is full or failed\)", "handler", r"end ran then; .*"),
    ("ended_read_only", None, "crash", r"SIGSEGV: write to address 0x[0-9a-f]+005 \(the mapping does not allow it\)", "handler", r"end ran then; the process ended by SIGABRT"),
    ("ended_raised", None, "crash", r"SIGFPE: the process sent it to itself", "raised by", r"raise\(\) <- ended_raised \(handlers.c.so\)"),
    ("stuck_in_divide", None, "stopped", r"SIGABRT sent by pid \d+ \(uid \d+\)", "handler", r"thread \d+ \(main\) stands in a handler of a fault: SIGFPE: integer division by zero at .*"),
    ("alarm_ends", None, "crash", ITSELF, "raised by", r"abort\(\) <- end \(handlers.c.so\) <- \(a signal came\) <- alarm_ends \(handlers.c.so\)"),
    ("null_member", None, "crash", r"SIGSEGV: execution of address 0x10 \(a call of an address 16 bytes past a null pointer\)", "in", r"null_member, .*\(its call went to 0x10\)"),
    ("sent_by_thread", None, "crash", r"SIGSEGV: the process sent it to itself(, likely by another thread than this one)?", "in|raised by", r"pause.*|__libc_pause.*|kill\(\).*"),
)


def handlers(python):
    """Signals that come from outside or elsewhere, and handlers that are not the verdict."""
    if python.root or python.config.split("-")[0] != "x86_64" or not DECODES:
        return
    with tempfile.TemporaryDirectory(prefix="pysnap-live-") as folder:
        library = compiled(folder, "handlers.c", ("cc", "gcc", "clang"))
        if not library:
            tap.skip("%s: handlers in C" % python.name, "no compiler")
        for function, more, kind, title, key, said in HANDLERS if library else ():
            if more and python.minor == "2.7":
                continue
            got = crash(python, "c", library, function, *(more,) if more else ())
            if not got:
                continue
            rep, text, _, target = got
            name, verdict = "%s: %s" % (python.name, function), rep["verdict"]
            tap.ok(verdict["kind"] == kind and re.fullmatch(title, verdict["title"]), "%s: title" % name, verdict["title"])
            tap.ok(re.fullmatch(said, line(text, "(?:%s)" % key) or ""), "%s: what is said" % name, text[:600])
            if function in ("recovered_asked_then_sent", "left_over_then_sent", "alarm_raises"):
                tap.ok(not without_likely(rep), "%s: likely" % name, rep["problems"])
            if function == "watched_fault":
                tap.equal([t.get("in_handler", "")[:7] for t in rep["threads"] if t["main"]], ["SIGSEGV"], "%s: of which thread" % name)
            target.end()


each_interpreter(tap, PYANALYZE, "crashes", faults, passed_on, cut_off, without_files, fatal_errors, without_lock, in_libraries, languages, handlers)
