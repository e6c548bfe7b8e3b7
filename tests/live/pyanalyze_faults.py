#!/usr/bin/env python3
"""What pyanalyze says of inputs that are missing, wrong, cut or without their files: whole messages and exit codes.

pyanalyze_faults.py PYSNAP PYANALYZE
"""
import gzip
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from pythons import Python, find, layouts
from reports import names_python
from tap import Tap
from target import Target, enter, run

PYSNAP, PYANALYZE = [os.path.abspath(p) for p in sys.argv[1:3]]
tap = Tap()


def says(name, argv, code, text, **more):
    """The exit code and all of standard error; {} in text stands for anything."""
    done = run([PYANALYZE] + argv, **more)
    said = done.stderr.decode("utf-8", "replace")
    pattern = "^" + ".*".join(re.escape(part) for part in text.split("{}")) + "$"
    tap.ok(done.returncode == code and re.match(pattern, said.rstrip("\n"), re.S), name, "exit %d, want %d\n%s\nwant\n%s" % (done.returncode, code, said, text))
    return done


def usage():
    says("no input", [], 2, "pyanalyze: no core or snapshot was named\n  try: pyanalyze core, or pyanalyze --help")
    says("unknown option", ["--jsn", "x"], 2, "pyanalyze: unknown option \"--jsn\"\n  try: --json, or pyanalyze --help")
    says("abbreviated option", ["--vers"], 2, "pyanalyze: unknown option \"--vers\"{}")
    says("unknown format", ["--format=jsno", "x"], 2, "pyanalyze: unknown format \"jsno\"\n  try: --format=json")
    says("frames that are no number", ["--frames=many", "x"], 2, "pyanalyze: --frames: \"many\" will not do\n  try: a whole number from 0 to 4294967295")
    says("a version that is none", ["--python-version=new", "x"], 2, "pyanalyze: \"new\" is not a version of Python\n  try: --python-version=3.12.1")
    says("a source map without =", ["--source-map=/x", "x"], 2, "pyanalyze: --source-map needs OLD=NEW\n  try: {}")
    for argv in ["--format=svg"], ["--format=svg", "-o", "-"], ["-o", "-", "--format=svg", "-o", "all/"]:
        done = says("several into one SVG: %s" % " ".join(argv), argv + ["x", "y"], 2, "pyanalyze: 2 inputs do not fit into one svg on standard output\n  try: -o DIR/, which gets a file for each")
        tap.equal(done.stdout, b"", "several into one SVG: nothing is written")
    done = run([PYANALYZE, "--help"])
    tap.ok(done.returncode == 0 and done.stdout.startswith(b"Usage: pyanalyze") and not done.stderr, "help goes to standard output", done)
    with open("/dev/full", "w") as full:
        done = run([PYANALYZE, "--help"], stdout=full)
        tap.equal((done.returncode, done.stderr), (1, b"pyanalyze: cannot write to standard output: No space left on device\n  try: pyanalyze --help | less\n"),
                  "help that cannot be written fails, and says so")
    for argv in ["-o", "-n", "x"], ["--output=--json", "x"], ["-o-q", "x"]:
        value = argv[1] if len(argv) == 3 else argv[0].replace("--output=", "").replace("-o-", "-")
        says("an option where -o wants a name: %s" % " ".join(argv), argv, 2, "pyanalyze: -o: \"%s\" is more likely an option than a file's name\n  try: -o FILE, or -o ./%s if that is its name" % (value, value))


def not_a_core(folder):
    def path(name, data):
        p = os.path.join(folder, name)
        with open(p, "wb") as f:
            f.write(data)
        return p
    with open("/proc/sys/kernel/core_pattern") as f:
        systemd = re.match(r"\|.*systemd-coredump", f.read())
    says("no such file", [os.path.join(folder, "none")], 1, "pyanalyze: cannot open {}/none: No such file or directory\n  try: " +
         ("coredumpctl list; ls /var/lib/systemd/coredump" if systemd else "another name; \"cat /proc/sys/kernel/core_pattern\" says where cores are written"))
    says("a process's number", [str(os.getpid())], 1, "pyanalyze: %d is not a file; a process has that number\n  try: pysnap %d -o snap.pz && pyanalyze snap.pz" % (os.getpid(), os.getpid()))
    text = path("report.txt", b"Fatal Python error\n")
    says("a text", [text], 1, "pyanalyze: %s is not a core or a snapshot (it starts with \"Fata\")\n  try: the core file itself; \"file %s\" says what it is" % (text, text))
    says("an empty file", [path("empty", b"")], 6, "pyanalyze: {}/empty is {}\n  try: {}")
    bad = path("bad\x1b[31m\n", b"\x1b[2J")
    done = says("a name and a text with control characters", [bad], 1, "pyanalyze: {}")
    tap.ok(b"\x1b" not in done.stderr, "control characters of a message are escaped", done.stderr)
    says("a program", ["/bin/sh"], 1, "pyanalyze: /bin/sh is an ELF program, not a core\n  try: pyanalyze -e /bin/sh CORE")
    says("a folder", [folder], 1, "pyanalyze: %s is a directory, not a file\n  try: name a file in it" % folder)
    fifo = os.path.join(folder, "fifo")
    os.mkfifo(fifo)
    says("a fifo does not block", [fifo], 1, "pyanalyze: %s is a pipe, not a file\n  try: pyanalyze - < %s" % (fifo, fifo), timeout=20)
    done = run(["bash", "-c", "\"$0\" <(cat /bin/sh)", PYANALYZE])
    said = done.stderr.decode()
    tap.ok(re.fullmatch(r"pyanalyze: /dev/fd/\d+ is a pipe, not a file\n  try: COMMAND \| pyanalyze -, in place of pyanalyze <\(COMMAND\)\n", said), "the shell's <(...)", said) \
        if shutil.which("bash") else tap.skip("the shell's <(...)", "no bash")
    says("half an ELF header", [path("half", b"\x7fELF\x02\x01\x01")], 6, "pyanalyze: {}half{}")
    hidden = path("hidden", b"\x7fELF")
    os.chmod(hidden, 0)
    if os.geteuid() == 0:
        os.chmod(folder, 0o755)
        done = run(["setpriv", "--reuid=65534", "--clear-groups", PYANALYZE, hidden]) if shutil.which("setpriv") else None
        if done is None or done.returncode in (126, 127):
            tap.skip("an unreadable file", "the program cannot be started as another user here")
        else:
            tap.equal((done.returncode, done.stderr.split(b"\n")[0]), (4, b"pyanalyze: cannot read %s: Permission denied" % hidden.encode()), "an unreadable file")
    else:
        says("an unreadable file", [hidden], 4, "pyanalyze: cannot read %s: Permission denied\n{}" % hidden)
    says("one bad input among several", [text, hidden + "x"], 1, "pyanalyze: {}\npyanalyze: {}")


def no_python(folder):
    program = os.path.join(folder, "sleeps")
    shutil.copy(shutil.which("sleep"), program)
    target = subprocess.Popen([program, "1000"], cwd=folder, preexec_fn=enter("", ""))
    time.sleep(0.3)
    target.send_signal(signal.SIGABRT)
    target.wait()
    cores = [n for n in os.listdir(folder) if n == "core" or n.startswith("core.")]
    if not cores:
        tap.skip("a core without Python", "no core was written here")
        return
    core = os.path.join(folder, cores[0])
    done = run([PYANALYZE, core])
    text = done.stdout.decode()
    tap.ok(done.returncode == 5 and "found no Python in this core (threads: 1)" in text, "a core without Python: report and exit code 5", text)
    likely = "nothing lifts this, if it is no Python program, which is likely: its files are here"
    tap.ok(likely in " ".join(text.split()), "a core without Python: all files are here, so it likely is no Python program", text)
    os.unlink(program)
    gone = run([PYANALYZE, core]).stdout.decode()
    tap.ok("no Python program" not in gone and "-e PROGRAM or --sysroot DIR, with the files that ran" in " ".join(gone.split()), "a core without Python, and without its program", gone)
    for options in ["-q", "-o", os.path.join(folder, "x.txt")], ["-o", os.path.join(folder, "x.svg")], ["--json"]:
        done = run([PYANALYZE, *options, core])
        tap.ok(done.returncode == 5 and b"pyanalyze: found no CPython\n  why: " in done.stderr, "a core without Python: standard error says so: %s" % options[0], done.stderr)
    done = run([PYANALYZE, "--format=svg", "-o", os.path.join(folder, "graphs/"), core])
    tap.ok(done.returncode == 5 and len(os.listdir(os.path.join(folder, "graphs"))) == 1 and b"graphs/: 1 file, one a thread with native frames; no thread has Python ones\n" in done.stderr,
           "a core without Python: a graph of native frames a thread", done.stderr)
    os.unlink(core)


def aborted(folder):
    """glibc's own words of an abort, and the id of the crash over two runs, with and without files."""
    known = layouts(PYANALYZE)
    found = [p for p in find()[0] if (p.minor, p.config) in known and not p.root]
    if not found:
        tap.skip("abort messages", "no interpreter here that there is a layout for")
        return
    ids = []
    for _ in range(2):
        done = subprocess.run([found[-1].argv[0], "-c", "import ctypes; ctypes.CDLL(None).free(ctypes.c_void_p(id(object()) + 8))"], cwd=folder,
                              preexec_fn=enter("", ""), stderr=subprocess.PIPE)
        cores = [n for n in os.listdir(folder) if n == "core" or n.startswith("core.")]
        if not cores:
            tap.skip("abort messages", "no core was written here")
            return
        core = os.path.join(folder, cores[0])
        rep, _ = analyze(core)
        tap.equal(rep["verdict"]["title"], "SIGABRT: aborted by the C library: " + done.stderr.decode().strip().split("\n")[0], "an abort in glibc's words")
        ids.append(rep["verdict"]["group_id"])
        rep, _ = analyze("--show=-native", core)
        ids.append(rep["verdict"]["group_id"])
        os.unlink(core)
    tap.equal(len(set(ids)), 1, "the same crash has the same id")


def messages(rep, code):
    return [p["message"] for p in rep["problems"] if p["code"] == code]


def names_and_stacks(rep):
    """Python frames: which native ones there are depends on the files that are here."""
    return {t.get("name"): [rep["frames"][i]["function"] for i in t["stack"] if rep["frames"][i]["lang"] == "python"] for t in rep["threads"]}


def analyze(*argv):
    done = run([PYANALYZE, "--json", *argv])
    try:
        return json.loads(done.stdout), done
    except ValueError:
        return None, done


def moved_on(folder):
    """A process that is elsewhere than where it was started: which folder's sources are shown, and that others may have run."""
    known = layouts(PYANALYZE)
    found = [p for p in find()[0] if (p.minor, p.config) in known and not p.root]
    if not found:
        tap.skip("folders of relative names", "no interpreter here that there is a layout for")
        return
    start, end, snap = (os.path.join(folder, n) for n in ("start", "end", "moved.pz"))
    parks = "print('ready', flush=True)\nimport time; time.sleep(600)  # of %s\n"
    for place, names in (start, ("both.py", "first.py")), (end, ("both.py", "last.py")):
        os.mkdir(place)
        for name in names:
            with open(os.path.join(place, name), "w") as f:
                f.write(parks % os.path.basename(place))
    for name, shown, words in (("both.py", b"# of end", "where the process was in the end; by its environment (PWD) it was started in '%s'" % start),
                               ("first.py", b"# of start", "where the process was started by its environment (PWD), as '%s', where it was in the end, has none" % end)):
        code = "import os; os.chdir(%r); exec(compile(%r, %r, 'exec'))" % (end, parks % "neither", name)
        child = subprocess.Popen([found[-1].argv[0], "-c", code], cwd=start, env=dict(os.environ, PWD=start), stdout=subprocess.PIPE)
        try:
            child.stdout.readline()
            if not tap.ok(run([PYSNAP, str(child.pid), "-f", "-o", snap]).returncode == 0, "moved on: %s: pysnap takes it" % name):
                continue
        finally:
            child.kill()
            child.wait()
            child.stdout.close()
        rep, _ = analyze(snap)
        tap.ok(shown in run([PYANALYZE, snap]).stdout, "moved on: %s: the line shown" % name, rep and rep["verdict"])
        said = messages(rep, "PZ211")
        tap.ok(len(said) == 1 and words in said[0] and said[0].endswith("; others may have run"), "moved on: %s: it is said" % name, said)
        rep, _ = analyze("--source-map", ".=" + start, snap)
        tap.equal(messages(rep, "PZ211"), [], "moved on: %s: a map says which" % name)
        os.unlink(snap)


def relative(folder):
    """A source with a relative name, which scripts have up to 3.8, is found in the places that the report and the README name."""
    known = layouts(PYANALYZE)
    found = [p for p in find()[0] if (p.minor, p.config) in known and not p.root]
    if not found:
        tap.skip("relative names", "no interpreter here that there is a layout for")
        return
    place, moved = os.path.join(folder, "place"), os.path.join(folder, "moved")
    os.mkdir(place)
    with open(os.path.join(place, "crash.py"), "w") as f:
        f.write("import os\nos.abort()\n")
    without = {k: v for k, v in os.environ.items() if k != "PWD"}
    for name, env in ("with PWD", dict(without, PWD=place)), ("without PWD", without):
        subprocess.run([found[-1].argv[0], "-c", "exec(compile(open('crash.py').read(), 'crash.py', 'exec'))"], cwd=place, env=env,
                       preexec_fn=enter("", ""), stderr=subprocess.DEVNULL)
        cores = [n for n in os.listdir(place) if n == "core" or n.startswith("core.")]
        if not cores:
            tap.skip("relative names", "no core was written here")
            return
        core = os.path.join(folder, "core.relative")
        os.rename(os.path.join(place, cores[0]), core)

        def expect(options, want, code, how):
            rep, _ = analyze("--show=-native", *options, core)
            said = [p for p in rep["problems"] if p["code"] in ("PZ204", "PZ211")]
            tap.ok((b"os.abort()" in run([PYANALYZE, "--show=-native", *options, core]).stdout) == want and [p["code"] for p in said] == code,
                   "%s, %s" % (name, how), rep["problems"])
            tap.ok(all("--source-map .=DIR" in p["hint"] for p in said), "%s, %s: what to try" % (name, how), said)

        expect([], env is not without, ["PZ211" if env is not without else "PZ204"], "as it is")
        os.rename(place, moved)
        expect([], False, ["PZ204"], "moved")
        expect(["--source-map", ".=" + moved], True, [], "the map of the folder")
        expect(["--source-map", "crash.py=" + os.path.join(moved, "crash.py")], True, [], "the map of the file")
        os.rename(moved, place)
        os.unlink(core)


def with_python(folder):
    """A copy of an interpreter under another name, so that it can be taken away and replaced afterwards."""
    known = layouts(PYANALYZE)
    found = [p for p in find()[0] if (p.minor, p.config) in known and not p.root]
    if not found:
        tap.skip("files that are not there", "no interpreter here that there is a layout for")
        return
    python = found[-1]
    program = os.path.join(folder, "pyapp")
    base = run([python.argv[0], "-c", "import sys; print(sys.base_prefix)"]).stdout.decode().strip()
    shutil.copy(os.path.realpath(python.argv[0]), program)
    # A copy elsewhere needs to be told where its library is.
    target = Target(Python(["env", "PYTHONHOME=" + base, "LD_LIBRARY_PATH=" + os.path.join(base, "lib"), program], python.version, "copy"), "threads.py", "TRUTH")
    try:
        if not tap.ok(target.wait_ready(), "a copied interpreter parks", target.text()):
            return
        snap = os.path.join(folder, "snap.pz")
        done = run([PYSNAP, str(target.pid), "-o", snap])
        tap.ok(done.returncode == 0, "a copied interpreter is snapshotted", done.stderr)
        os.kill(target.pid, signal.SIGSTOP)
        time.sleep(0.2)
        halted = os.path.join(folder, "halted.pz")
        run([PYSNAP, str(target.pid), "-o", halted])
        tap.equal(target.state()[0], "T", "a stopped process stays stopped")
        os.kill(target.pid, signal.SIGCONT)
        rep, done = analyze(halted)
        tap.ok(all("stopped" in t["state"] for t in rep["threads"]) and "had been stopped by a signal" in rep["verdict"]["title"],
               "a stopped process is told as that", rep["verdict"])
        time.sleep(0.3)
        core, why = target.core(signal.SIGABRT)
        if not core:
            tap.skip("files that are not there", why)
            return
        whole, done = analyze(core)
        stripped = () if names_python(whole) else ("PZ209",)
        tap.equal([p for p in whole["problems"] if p["code"] not in stripped], [], "nothing to admit while all files are there")
        want = names_and_stacks(whole)

        script = os.path.join(target.folder, "threads.py")
        os.utime(script, (os.path.getmtime(core) + 100,) * 2)
        rep, done = analyze(core)
        tap.ok(len(messages(rep, "PZ205")) == 1 and script in messages(rep, "PZ205")[0], "a source that is newer is said", rep["problems"])
        os.utime(script, (os.path.getmtime(core) - 100,) * 2)

        denied(core, script, program)
        os.unlink(program)
        rep, done = analyze(core)
        tap.equal((done.returncode, names_and_stacks(rep)), (0, want), "missing executable: the same stacks")
        tap.ok(any("pyapp" in m for m in messages(rep, "PZ201") + messages(rep, "PZ203")), "missing executable: said", rep["problems"])

        tools = os.path.join(folder, "tools")
        os.mkdir(tools)
        install = "apt install debuginfod, or dnf install elfutils-debuginfod-client"
        for there, env, needs in ((False, {}, " (it needs DEBUGINFOD_URLS, and debuginfod-find: " + install + ")"), (False, {"DEBUGINFOD_URLS": "x"}, " (it needs debuginfod-find: " + install + ")"),
                                  (True, {}, " (it needs DEBUGINFOD_URLS)"), (True, {"DEBUGINFOD_URLS": "x"}, "")):
            if there and not os.listdir(tools):
                with open(os.path.join(tools, "debuginfod-find"), "w") as f:
                    os.fchmod(f.fileno(), 0o755)
            rep = json.loads(run([PYANALYZE, "--json", "--debuginfod=off", core], env=dict(env, PATH="/nonexistent:" + tools)).stdout)
            said = [p["hint"] for p in rep["problems"] if p["code"] == "PZ201"]
            tap.ok(len(said) == 1 and said[0].endswith(" or --debuginfod=on" + needs), "missing executable: what --debuginfod=on needs that is not here: %r" % needs, said)
            if not there:
                unset = "" if env else "; DEBUGINFOD_URLS is not set either"
                rep = json.loads(run([PYANALYZE, "--json", "--debuginfod=on", core], env=dict(env, PATH="/nonexistent:" + tools)).stdout)
                said = [(p["message"], p["hint"]) for p in rep["problems"] if p["code"] == "PZ210"]
                tap.equal(said, [("debuginfod-find is not in PATH, so nothing was fetched" + unset,
                                  install + (", and DEBUGINFOD_URLS=https://... with a server of the distribution" if unset else ""))], "missing executable: debuginfod-find lacks%s" % unset)
                tap.ok(not any("--debuginfod=on" in p["hint"] for p in rep["problems"]), "missing executable: no hint of the option that was given%s" % unset, rep["problems"])

        shutil.copy("/bin/true", program)
        rep, done = analyze(core)
        tap.equal((done.returncode, names_and_stacks(rep)), (0, want), "another build at the path: the same stacks")
        said = messages(rep, "PZ202")
        tap.ok(len(said) == 1 and len(set(re.findall(r"[0-9a-f]{40}", said[0]))) == 2 and program in said[0], "another build at the path: both build-ids", said)

        rep, done = analyze("-e", "/bin/true", core)
        said = messages(rep, "PZ202")
        tap.ok(done.returncode == 0 and len(said) >= 1 and names_and_stacks(rep) == want, "-e with another build is refused", said)
        rep, done = analyze("-e", os.path.realpath(python.argv[0]), core)
        tap.equal((done.returncode, messages(rep, "PZ201") + [m for m in messages(rep, "PZ203") if "pyapp" in m]), (0, []), "-e with the right file is used")

        rep, done = analyze(snap)
        tap.equal((done.returncode, names_and_stacks(rep), messages(rep, "PZ201")), (0, want, []), "a snapshot needs no file")
        whole_size = rep["input"]["size"]

        size = os.path.getsize(core)
        for percent in (95, 60, 20, 3):
            cut = os.path.join(folder, "cut")
            shutil.copy(core, cut)
            os.truncate(cut, size * percent // 100)
            rep, done = analyze(cut)
            tap.ok(rep is not None and done.returncode in (0, 5) and rep["input"]["complete"] is False and messages(rep, "PZ101"),
                   "core cut to %d %%: said" % percent, done.stderr)
            got = names_and_stacks(rep)
            tap.ok(all(got[n] == want[n] or messages(rep, "PZ401") for n in got if n in want and got[n]), "core cut to %d %%: no wrong stack" % percent, got)
        size = os.path.getsize(snap)
        for percent in (99, 60, 20):
            cut = os.path.join(folder, "cut.pz")
            shutil.copy(snap, cut)
            os.truncate(cut, size - 3000 if percent == 99 and stripped else size * percent // 100) # of a stripped one there are no tables
            rep, done = analyze(cut)
            said = messages(rep, "PZ101") if rep else []
            # At its end are the tables of names.
            missing = "memory and all that is told of it are complete; of what follows the end is missing" if percent == 99 and stripped else \
                      r"memory is complete; behind it tables are missing that name the functions of [1-9]\d* files?" if percent == 99 else \
                      r"the last [\d.]+ \wiB of [\d.]+ MiB are missing; segments lost: [1-9].*"
            tap.ok(rep is not None and done.returncode in (0, 5) and rep["input"]["complete"] is False and len(said) == 1 and
                   re.match("the file is truncated: %s$" % missing, said[0]), "snapshot cut to %d %%: said" % percent, (done.stderr, said))
            tap.ok(rep is not None and rep["input"]["expected_size"] == whole_size, "snapshot cut to %d %%: the size that it should have" % percent, rep and rep["input"])
            if percent == 99:
                tap.equal(names_and_stacks(rep), want, "snapshot cut to 99 %: all stacks")

        missing = os.path.join(folder, "none", "x.json")
        says("no folder for the report", ["-o", missing, core], 1, "pyanalyze: cannot write '%s': No such file or directory\n  try: mkdir -p '%s'" % (missing, os.path.dirname(missing)))
        says("a folder that takes no report", ["-o", "/proc/x.json", core], 1, "pyanalyze: cannot write '/proc/x.json': No such file or directory\n  try: another -o")
        says("a snapshot as output", ["-o", snap, core], 1, "pyanalyze: '%s' is a core, a snapshot or compressed, which no report replaces\n  try: another -o" % snap)
        out = os.path.join(folder, "x.json")
        with open(out, "w") as f:
            f.write('{"schema": "pysnap.report/1", "old": 1}')
        says("a format that the name does not say", ["-o", os.path.join(folder, "x.foo"), core], 2, "pyanalyze: \"{}x.foo\" does not say which format\n  try: {}")
        done = run([PYANALYZE, "-q", "-o", out, core])
        tap.ok(done.returncode == 0 and not done.stderr and json.load(open(out))["schema"] == "pysnap.report/1" and not [n for n in os.listdir(folder) if n.endswith(".part")],
               "a report file is replaced as a whole", done.stderr)
        places(folder, core)
        private(folder, core)
        interrupted(folder, core)
        several = os.path.join(folder, "several")
        done = run([PYANALYZE, "-o", several + "/", core, snap])
        said = done.stderr.decode().splitlines()
        tap.ok(done.returncode == 0 and len(said) == 4 and said[1].startswith(core + ": STOPPED  ") and said[3].startswith(snap + ": SNAPSHOT  "),
               "several inputs into a folder: each verdict with its input", said)
        tap.ok(len(said) == 4 and re.fullmatch(re.escape(several) + r"//?core\.txt: [\d.]+ KiB of text", said[0]) and re.fullmatch(re.escape(several) + r"//?snap\.pz\.txt: [\d.]+ KiB of text", said[2]),
               "several inputs into a folder: each file that was written", said)
        says("several inputs into one file", ["-o", out, core, snap], 2, "pyanalyze: 2 inputs do not fit into the one file \"%s\"\n  try: -o DIR/, which gets a file for each; or, for one after the other, --format=json > %s" % (out, out))
        says("a layout that is none", ["--layout", script, core], 1, "pyanalyze: '%s' is not a layout table: line {}\n  try: {}" % script)
        both = run([PYANALYZE, core, snap]).stdout.decode()
        tap.ok(both.startswith("== %s ==\n" % core) and "\n\n== %s ==\n" % snap in both, "several text reports say which is which", both[:200])
        with open("/dev/full", "w") as full:
            done = run([PYANALYZE, core], stdout=full)
            tap.ok(done.returncode == 1 and b"cannot write the report: No space left on device" in done.stderr, "a full disk is said", done.stderr)
        says("no such thread", ["-t", "nobody", core], 1, "pyanalyze: {} has no thread \"nobody\"\n  try: -t with the number or name of {}")
        done = run([PYANALYZE, "--json", "-t", "deep", core])
        tap.equal([t["name"] for t in json.loads(done.stdout)["threads"]], ["deep"], "only one thread")
        done = run([PYANALYZE, "--json", core, snap])
        tap.equal([json.loads(line)["input"]["kind"] for line in done.stdout.decode().splitlines()], ["core", "snapshot"], "several inputs are JSON lines")
        text = run([PYANALYZE, "--frames=4", core]).stdout.decode()
        tap.ok("frames" in text.split('"ping-pong"')[1].split("Thread ")[0], "--frames leaves out the middle and says so", text)
        colored = run([PYANALYZE, "--color=always", core]).stdout
        plain = run([PYANALYZE, "--color=never", core]).stdout
        tap.ok(b"\x1b[" in colored and b"\x1b" not in plain and re.sub(rb"\x1b\[[0-9;]*m", b"", colored) == plain, "colour changes nothing but colour")
    finally:
        target.end()


def denied(core, script, program):
    """Files that may not be read are not said to be missing."""
    public, mode = tempfile.mkdtemp(prefix="pysnap-faults-"), os.stat(program).st_mode
    try:
        os.chmod(public, 0o755)
        tool, copy, source = shutil.copy(PYANALYZE, public), shutil.copy(core, public), shutil.copy(script, public)
        os.chmod(copy, 0o644)
        os.chmod(source, 0)
        os.chmod(program, 0)
        other = (lambda: (os.setgroups([]), os.setgid(65534), os.setuid(65534))) if os.geteuid() == 0 else None
        rep = json.loads(run([tool, "--json", "--source-map", "%s=%s" % (script, source), "--source-map", "/=/nonexistent/", copy], preexec_fn=other).stdout)
        tap.equal(messages(rep, "PZ215"), ["source files that may not be read (1): %s" % script], "a source that may not be read")
        said = messages(rep, "PZ216") # more, where the interpreter is the user's own
        tap.ok(len(said) == 1 and re.match(r"mapped files that may not be read \(\d+\): ", said[0]) and program in said[0], "a program that may not be read", rep["problems"])
        tap.ok(not any(script in m or program in m for c in ("PZ201", "PZ203", "PZ204") for m in messages(rep, c)), "what may not be read is not missing", rep["problems"])
    finally:
        os.chmod(program, mode)
        shutil.rmtree(public)


def private(folder, core):
    """A report is for the user alone, also where it replaces one that was for all."""
    folder = os.path.join(folder, "private")
    os.mkdir(folder)
    out = os.path.join(folder, "out.txt")
    old = "SNAPSHOT\n\npython x.py   pid 1   Python 3.8.1 (GIL build)\ncore 1.0 MiB, complete\n1 thread\n"
    with open(out, "w") as f:
        f.write(old)
    os.chmod(out, 0o644)
    run([PYANALYZE, "-q", "-o", out, "-o", os.path.join(folder, "new.json"), "--format=svg", "-o", os.path.join(folder, "all/"), core])
    files = [os.path.join(top, n) for top, _, names in os.walk(folder) for n in names]
    tap.ok(len(files) > 2 and all(os.stat(f).st_mode & 0o777 == 0o600 for f in files) and open(out).read() != old, "reports have mode 0600 and replace older ones",
           [(f, oct(os.stat(f).st_mode)) for f in files])
    done = run(["unshare", "-m", "sh", "-c", "mount -t tmpfs -o ro none \"$1\" && { for o in $1/x.json $1/new/; do \"$2\" --format=json -o $o \"$3\"; echo $?; done; }",
                "sh", folder, PYANALYZE, core])
    if done.returncode != 0:
        tap.skip("a folder that is read-only", "no tmpfs can be mounted here")
        return
    tap.equal(done.stdout.split(), [b"4", b"4"], "a folder that is read-only: exit code 4")


def interrupted(folder, core):
    """A signal in the middle of a report: no partial file stays; one that nohup switched off ends nothing."""
    def parts(where):
        return [n for n in os.listdir(where) if n.endswith(".part")]

    for name, number in (("SIGTERM", signal.SIGTERM), ("SIGINT", signal.SIGINT), ("SIGHUP", signal.SIGHUP), ("SIGHUP switched off", signal.SIGHUP)):
        where, off = os.path.join(folder, name.replace(" ", "-")), "off" in name
        os.mkdir(where)
        outputs = [word for i in range(400) for word in ("-o", os.path.join(where, "%d.json" % i))]
        process = subprocess.Popen([PYANALYZE, "-q", "--json"] + outputs + [core], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                   preexec_fn=lambda: signal.signal(number, signal.SIG_IGN if off else signal.SIG_DFL))
        caught = False
        while not caught and process.poll() is None:
            process.send_signal(signal.SIGSTOP)
            while process.poll() is None and open("/proc/%d/stat" % process.pid).read().rpartition(")")[2].split()[0] not in "TZ":
                time.sleep(0.001)
            caught = bool(parts(where))
            if caught:
                process.send_signal(number)
            process.send_signal(signal.SIGCONT)
            time.sleep(0.001)
        process.wait(120)
        if not caught:
            tap.skip("%s within a report" % name, "none was caught")
            continue
        tap.equal((parts(where), process.returncode), ([], 0 if off else -number), "%s within a report: the partial file is removed" % name)
        tap.ok(all(json.load(open(os.path.join(where, n))) for n in os.listdir(where) if n.endswith(".json")), "%s within a report: those that are there are whole" % name)
        shutil.rmtree(where)


def places(folder, core):
    """What is no file of ours is not replaced by one."""
    folder = os.path.join(folder, "places")
    os.mkdir(folder)
    fifo, to_stdout, linked = [os.path.join(folder, n) for n in ("fifo", "stdout.json", "link.json")]
    os.mkfifo(fifo)
    reader = subprocess.Popen(["cat", fifo], stdout=subprocess.PIPE)
    done = run([PYANALYZE, "-q", "--json", "-o", fifo, core])
    tap.ok(done.returncode == 0 and os.path.exists(fifo) and not os.path.isfile(fifo), "a pipe stays one", done.stderr)
    said = reader.communicate(timeout=60)[0] if not os.path.isfile(fifo) else reader.kill()
    tap.ok(said and json.loads(said)["schema"] == "pysnap.report/1", "a pipe gets the report", said)
    os.unlink(fifo)
    os.symlink("/proc/self/fd/1", to_stdout)
    done = run([PYANALYZE, "-q", "-o", to_stdout, core])
    tap.ok(os.path.islink(to_stdout) and json.loads(done.stdout)["schema"] == "pysnap.report/1", "a link to standard output, as /dev/stdout is one", done.stderr)
    os.unlink(to_stdout)
    os.symlink("behind.json", linked)
    done = run([PYANALYZE, "-q", "-o", linked, core])
    behind = os.path.join(folder, "behind.json")
    tap.ok(os.path.islink(linked) and json.load(open(behind))["schema"] == "pysnap.report/1", "a link stays one", done.stderr)
    os.unlink(linked)
    os.unlink(behind)
    victim = os.path.join(folder, "victim")
    with open(victim, "w") as f:
        f.write("precious")
    os.symlink(victim, behind + ".part")
    done = run([PYANALYZE, "-q", "-o", behind, core])
    tap.ok(done.returncode == 0 and open(victim).read() == "precious" and not os.path.islink(behind), "a link under the name of a partial report is not followed", done.stderr)
    os.unlink(behind + ".part")
    os.unlink(behind)
    for name, link in ("hang.py", False), ("x.json", False), ("linked.txt", True):
        path = os.path.join(folder, name)
        with open(victim, "w") as f:
            f.write("import time\n")
        os.symlink(victim, path) if link else os.rename(victim, path)
        says("a file that is no report: %s" % name, ["-q", "--format=text", "-o", path, core], 1, "pyanalyze: '%s' exists and is no report, and only reports are replaced\n  try: another -o" % path)
        tap.ok(open(path).read() == "import time\n" and os.listdir(folder).count(name) == 1 and os.path.islink(path) == link, "a file that is no report: %s: untouched" % name, os.listdir(folder))
        os.unlink(path)
    if os.path.exists(victim):
        os.unlink(victim)
    own = os.path.join(folder, "own.json")
    shutil.copy(core, own)
    says("the input as output", ["-o", own, own], 1, "pyanalyze: '%s' is a core, a snapshot or compressed, which no report replaces\n  try: another -o" % own)
    tap.equal(os.path.getsize(own), os.path.getsize(core), "the input as output: untouched")
    with open(core, "rb") as f, gzip.open(own, "wb", 1) as packed:
        shutil.copyfileobj(f, packed)
    size = os.path.getsize(own)
    says("a compressed input as output", ["-o", own, own], 1, "pyanalyze: '%s' is a core, a snapshot or compressed, which no report replaces\n  try: another -o" % own)
    tap.equal(os.path.getsize(own), size, "a compressed input as output: untouched")
    os.unlink(own)


def main():
    folder = tempfile.mkdtemp(prefix="pysnap-faults-")
    try:
        usage()
        not_a_core(folder)
        no_python(folder)
        aborted(folder)
        moved_on(folder)
        relative(folder)
        with_python(folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    tap.done()


main()
