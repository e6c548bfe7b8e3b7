#!/usr/bin/python3
"""The options that choose what a report shows: each over one snapshot, against what the report without it shows.  Prints TAP.

usage: options.py SOURCE_ROOT PYANALYZE
"""
import json
import os
import re
import subprocess
import sys
import tempfile

ROOT, PYANALYZE = sys.argv[1], os.path.abspath(sys.argv[2])
FOLDER = os.path.join(ROOT, 'fixtures/snaps/3.12-x86_64')
HEAD = re.compile(r'^(?:Thread|\d+ threads?:|\d+ more)\b.*')
done = failed = 0


def check(what, good, why=''):
    global done, failed
    done += 1
    failed += not good
    print(f'{"ok" if good else "not ok"} {done} - {what}')
    if not good:
        for line in str(why).splitlines()[:20]:
            print('# ' + line)


def run(*options, code=0, stderr=False):
    p = subprocess.run([PYANALYZE, '--source-map', '/=/nonexistent/', *options, 'threads.pz'], cwd=FOLDER, capture_output=True,
                       env={'PATH': os.environ['PATH'], 'LC_ALL': 'C'})
    if p.returncode != code:
        check(f'{options}: exit {code}', False, f'{p.returncode}: {p.stderr.decode()}')
    return p.stdout.decode() if code == 0 and not stderr else p.stderr.decode()


def stacks(text):
    """{heading's name: its lines} of a text report."""
    out, now = {}, None
    for line in text.split('\nLimits of this report')[0].split('\n'):
        if HEAD.match(line):
            now = re.search(r'"((?:[^"\\]|\\.)*)"', line).group(1)
            out[now] = []
        elif now and line.startswith('  '):
            out[now].append(line)
    return out


plain = run()
whole = stacks(plain)
rep = json.loads(run('--json'))
check('the snapshot has many threads', len(whole) > 10 and len(rep['threads']) == 13)

# --thread
by_name = {t['name']: t for t in rep['threads']}
for options, names in ((['-t', 'deep'], ['deep']), (['--thread=ping-pong', '-t', 'deep'], ['deep', 'ping-pong']),
                       (['-t', str(by_name['computes']['tid'])], ['computes']), (['-t', str(by_name['deep']['tid']), '-t', 'deep'], ['deep'])):
    got = stacks(run(*options))
    check(f'{options}: these threads', sorted(got) == names, sorted(got))
    check(f'{options}: the stacks they have', all(got[n] == whole[n] for n in names))
    one = json.loads(run('--json', *options))
    check(f'{options}: in JSON too', sorted(t['name'] for t in one['threads']) == names and sorted(i for g in one['groups'] for i in g['threads']) == list(range(len(names))),
          [t['name'] for t in one['threads']])
    used = {f for t in one['threads'] for f in t['stack']}
    check(f'{options}: and its frames are theirs', used == set(range(len(one['frames']))))
check('-t of one that is there and one that is not', "has no thread 'nobody'" in run('-t', 'deep', '-t', 'nobody', stderr=True))
some = run('-t', 'deep')
check('-t: how many of how many', '1 of 13 threads shown' in some, some[:600])
check('-t: who holds the GIL, shown or not', re.findall(r'GIL: .*', some) == re.findall(r'GIL: .*', plain), some[:600])
check('-t main: the main one', list(stacks(run('-t', 'main'))) == ['MainThread'])
none = run('-t', 'nobody', code=1)
check('-t of nobody: what was asked for', 'pyanalyze: threads.pz has no thread "nobody"\n' in none, none)
listed = re.search(r'  try: -t with the number or name of (.*) or one of (\d+) more$', none, re.M)
known = [f'{t["tid"]} "{t["name"]}"' for t in rep['threads']]
check('-t of nobody: who is there', listed and 1 <= listed.group(1).count(', ') + 1 == 13 - int(listed.group(2)) and set(listed.group(1).split(', ')) <= set(known), none)
check('-t of a part of a name', 'has no thread "dee"' in run('-t', 'dee', code=1))
quoted = run('-t', '"deep"', '-t', 'a"b', code=1)
check('-t of a name with quotes: escaped', 'has no thread "\\"deep\\"" or "a\\"b"\n' in quoted, quoted)
quoted = run('--format=a"b', code=2)
check('a value with a quote: escaped', 'unknown format "a\\"b"\n' in quoted, quoted)
many = run(*[f'-t{name}' for name in 'abcde'], code=1)
check('-t of many', 'has no thread "a", "b", "c" or 2 more\n' in many, many)
check('-t of two', 'has no thread "a" or "b"\n' in run('-ta', '-tb', code=1))
wrong = run('--python-version=3.8', '-t', 'deep', code=1)
check('-t where no layout fits: that is said', 'has no thread "deep"\n  why: ' in wrong and 'no layout fits' in wrong and '\n  try: without --python-version\n' in wrong, wrong)
check('-t of a name of the kernel where no layout fits', '"python3.12"' in subprocess.run([PYANALYZE, '--python-version=3.8', '-t', 'python3.12', 'threads.pz'], cwd=FOLDER,
      capture_output=True).stdout.decode())
check('-qv: the last one counts', 'layout 3.12' in run('-q', '-v', stderr=True) and run('-v', '-q', stderr=True) == '')


def said(text):
    return text.split('\n\n')[0]


check('-t: the verdict is whole, its thread shown or not', said(some) == said(plain) and '\n  thread  ' in said(some), some[:600])
check('-t: in JSON too', {k: v for k, v in json.loads(run('--json', '-t', 'deep'))['verdict'].items() if k != 'thread'} ==
      {k: v for k, v in rep['verdict'].items() if k != 'thread'})

# --order
newest = run('--order=newest-first')
got = stacks(newest)
check('--order: says so', plain.count('(most recent call last)') == newest.count('(most recent call first)') > 0 and 'call last' not in newest)
for name, lines in whole.items():
    turned, repeats = [], None
    for line in lines[::-1]: # what says how often stands below its piece both ways
        if re.search(r'above [\d,]+ times more', line):
            repeats = (line, int(re.search(r'the (\d+)? ?frame', line).group(1) or 1))
            continue
        turned.append(line)
        if repeats:
            repeats = (repeats[0], repeats[1] - 1)
            if not repeats[1]:
                turned.append(repeats[0])
                repeats = None
    check(f'--order: {name}', got[name] == turned, '\n'.join(got[name] + ['want'] + turned))
check('--order=oldest-first is what there is without it', run('--order=oldest-first') == plain)
check('--order: JSON is always oldest first', json.loads(run('--json', '--order=newest-first')) == rep)
check('--order: a word it does not know', '--order is oldest-first or newest-first, not "newest"' in run('--order=newest', code=2))

# --frames
for n in (1, 2, 5, 7):
    got = stacks(run(f'--frames={n}'))
    for name, lines in got.items():
        frames = [x for x in lines if x.startswith(('  Py ', '  C '))]
        kept = [x for x in whole[name] if x.startswith(('  Py ', '  C '))]
        gap = [x for x in lines if 'left out (--frames=0 shows all)' in x]
        if len(kept) <= n:
            check(f'--frames={n}: {name}: all of it', lines == whole[name])
        else:
            first = n // 2
            check(f'--frames={n}: {name}: first and last', len(frames) <= n and len(gap) == 1 and kept[:first][:len(frames)] == frames[:first] and
                  (not frames or kept[-1] == frames[-1]), '\n'.join(lines))
check('--frames=0: all of it', stacks(run('--frames=0')) == whole)
check('--frames: JSON is whole all the same', json.loads(run('--json', '--frames=1')) == rep)

# --show
def sections(text):
    return {word for word, sign in (('verdict', r'^SNAPSHOT  '), ('threads', r'^Thread \d+ "'), ('modules', r'^Modules \(\d+\)$')) if re.search(sign, text, re.M)}


for value, want in (('verdict', 'verdict'), ('threads', 'threads'), ('modules', 'modules'), ('all', 'verdict threads modules'), ('+modules', 'verdict threads modules'),
                    ('-threads', 'verdict'), ('-verdict,+modules', 'threads modules'), ('threads,modules', 'threads modules'), ('verdict,-verdict', ''),
                    ('all,-threads', 'verdict modules'), ('-native', 'verdict threads'), ('native', 'threads'), ('verdict,native', 'verdict threads')):
    check(f'--show={value}', sections(run(f'--show={value}')) == set(want.split()), sections(run(f'--show={value}')))
check('--show=native: threads with frames of C', stacks(run('--show=native')) == stacks(plain) and any('  C   ' in x for lines in stacks(run('--show=native')).values() for x in lines))
check('--show=threads: without them', not any('  C   ' in x for lines in stacks(run('--show=threads')).values() for x in lines))
check('-s is --show', run('-s', '+modules') == run('--show=+modules'))
check('-s twice adds up', sections(run('-s', '+modules', '-s', '-verdict')) == {'threads', 'modules'})
check('--show: a word it does not know', '--show knows no "thread"\n  try: --show=threads' in run('--show=thread', code=2))
check('--show=-native: no native frame', not any(f['lang'] == 'c' for f in json.loads(run('--json', '--show=-native'))['frames']))
check('-n after --show=-native: native frames again', json.loads(run('--json', '--show=-native', '-n')) == json.loads(run('--json', '-n')))

check('--show=-native after -n: none again', run('-n', '--show=-native') == run('--show=-native') and json.loads(run('--json', '-n', '--show=-native')) == json.loads(run('--json', '--show=-native')))
check('--show in JSON: only whether there are frames of C', all(json.loads(run('--json', '--show=verdict'))[k] == json.loads(run('--json', '--show=-native'))[k] for k in ('threads', 'frames', 'modules')) and
      json.loads(run('--json', '--show=native,modules')) == rep)
check('--show of other parts after -n: only those', run('-n', '--show=verdict,threads') == run('--show=verdict,threads'))
check('--json and --format: the last one', run('--format=text', '--json') == run('--json') and run('--json', '--format=text') == plain)
check('--python-version of the same minor version: it is what it says', run('--python-version=3.12.7') == plain and run('--python-version=3.12') == plain)
check('--show: a list of nothing', all('--show names nothing\n  try: --show=' in run(f'--show={x}', code=2) for x in ('', ',', ',,')))

# a name as it is shown, where it has what cannot be
for asked in 'outer\\x1b[31m\\"\'\\u202e', 'outer\\x1b[31m"\'\\u202e', 'outer\x1b[31m"\'\u202e':
    check(f'-t {asked!r}: as it is, and as it is shown', list(stacks(run('-t', asked))) == ['outer\\x1b[31m\\"\'\\u202e'])

# one width, wherever the report goes but to a terminal
with tempfile.TemporaryDirectory() as folder:
    out = os.path.join(folder, 'out.txt')
    run('-q', '-o', out)
    with open(out) as f:
        check('-o FILE and standard output are the same', f.read() == plain)

# what each form writes is replaced by each, and by what was written without the verdict
with tempfile.TemporaryDirectory() as folder:
    for options in [], ['-s', 'threads'], ['-s', 'modules', '-v'], ['-s', '-verdict', '-t', 'deep'], ['-n', '--order=newest-first', '--frames=2'], ['--format=json'], ['--format=svg']:
        for again in 'text', 'json', 'svg':
            for empty in (True, False):
                out = os.path.join(folder, 'out')
                if empty:
                    open(out, 'w').close()
                p = [subprocess.run([PYANALYZE, '-q', '--source-map', '/=/nonexistent/', '-o', out, *o, 'threads.pz'], cwd=FOLDER, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
                     for o in (['--format=text', *options], [f'--format={again}'])]
                if empty or p[0].returncode or p[1].returncode:
                    check(f'{options}, then {again}: replaced', not p[0].returncode and not p[1].returncode and os.stat(out).st_size > 1000, p)
    out = os.path.join(folder, 'all')
    for i in (1, 2):
        check(f'-o DIR/ of SVG, time {i}', subprocess.run([PYANALYZE, '-q', '--format=svg', '-o', out + '/', 'threads.pz'], cwd=FOLDER).returncode == 0)

# places that are not there
def said(*options):
    p = subprocess.run([PYANALYZE, *options, 'threads.pz'], cwd=FOLDER, capture_output=True, env={'PATH': os.environ['PATH'], 'LC_ALL': 'C'})
    return p.returncode, p.stderr.decode(), len(p.stdout) > 1000


def warning(*what):
    return ''.join(f"pyanalyze: warning: {option} '{path}' cannot be used: {why}\n" for option, path, why in what)


GONE, HERE = 'No such file or directory', os.path.abspath(FOLDER)
for options, want in ((['-e', '/nonexistent'], [('-e', '/nonexistent', GONE)]), (['-e', HERE], [('-e', HERE, 'not a regular file')]),
                      (['-e', 'threads.txt'], [('-e', 'threads.txt', 'not an ELF file')]),
                      (['--sysroot', '/nonexistent'], [('--sysroot', '/nonexistent', GONE)]), (['--sysroot', 'threads.pz'], [('--sysroot', 'threads.pz', 'not a folder')]),
                      ([f'--lib-path={HERE}:/nonexistent:/gone'], [('--lib-path', '/nonexistent', GONE), ('--lib-path', '/gone', GONE)]),
                      (['--debug-path=.debug:/nonexistent'], [('--debug-path', '/nonexistent', GONE)]), (['--source-map=/a=/nonexistent'], [('--source-map', '/nonexistent', GONE)]),
                      (['-e', '/nonexistent', '-q'], []), ([f'--sysroot={HERE}', '--source-map=/srv=', '-e', os.path.realpath(PYANALYZE)], [])):
    check(f'{options}: said, and the report is written', said(*options) == (0, warning(*want), True), said(*options))

# a snapshot that was damaged on its way
with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, 'damaged.pz')
    with open(os.path.join(FOLDER, 'threads.pz'), 'rb') as f:
        whole_file = bytearray(f.read())
    for at in range(len(whole_file) // 8, len(whole_file) * 7 // 8, 2048):
        whole_file[at:at + 64] = b'x' * 64
    with open(path, 'wb') as f:
        f.write(whole_file)
    text = subprocess.run([PYANALYZE, path], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout.decode('utf-8', 'replace')
    check('damaged in the middle: it is said', 'the file is damaged: checksums in it do not fit; ' in text and ', incomplete' in text and
          'try: copy it again from where it came, and compare' in text and 'the snapshot is complete otherwise' not in text, text[-1500:])

# layouts that were named
LAYOUT = os.path.join(os.path.abspath(ROOT), 'formats/layouts/3.9.layout')
for options, hint in ((['--python-version=3.9'], 'without --python-version'), (['--layout', LAYOUT], 'without --layout'),
                      (['--layout', LAYOUT, '--python-version=3.9'], 'without --layout and --python-version')):
    text = run(*options, code=1)
    report = subprocess.run([PYANALYZE, '--json', *options, 'threads.pz'], cwd=FOLDER, capture_output=True).stdout
    asked = 'with the layout that --layout names' if '--layout' in options else 'as the Python 3.9 that --python-version asks for'
    check(f'{options}: the head says what was asked for', re.search(r'   Python 3\.12\.\d+ \(not %s\)\n' % asked, subprocess.run(
          [PYANALYZE, *options, 'threads.pz'], cwd=FOLDER, capture_output=True).stdout.decode()) and ('--layout' in options or re.search(r'no layout fits this Python 3\.12\.\d+ ' + asked, text)), text)
    check(f'{options}: which do not fit', 'no layout fits' in text and f'\n  try: {hint}\n' in text and
          [p['hint'] for p in json.loads(report)['problems'] if p['code'] == 'PZ302'] == [hint], text)

# an address that is none of a Python
for wrong in '0x1234', 'abc':
    text = run('-q', f'--runtime={wrong}', code=5)
    report = subprocess.run([PYANALYZE, '--json', f'--runtime={wrong}', 'threads.pz'], cwd=FOLDER, capture_output=True).stdout
    there = re.fullmatch(r'pyanalyze: no Python is at 0x(1234|abc)\n  why: those found: 0x[0-9a-f]+ \(Python 3\.12\.[0-9]+\)\n  try: without --runtime\n', text)
    problems = {p['code']: p for p in json.loads(report)['problems']}
    check(f'--runtime={wrong}: those that there are', there and problems['PZ310']['message'] == '; '.join(re.findall(r': (no.*|those.*)', text)) and 'PZ301' not in problems, (text, problems))
    check(f'--runtime={wrong}: nothing is known of its threads', not any('native' in t['state'] for t in json.loads(report)['threads']))

# -o DIR/: inputs of one name do not replace each other's reports
with tempfile.TemporaryDirectory() as folder:
    for one in 'a', 'b':
        os.mkdir(os.path.join(folder, one))
        os.symlink(os.path.join(os.path.abspath(FOLDER), 'threads.pz'), os.path.join(folder, one, 'core'))
        os.symlink(os.path.join(os.path.abspath(FOLDER), 'threads.pz'), os.path.join(folder, one, 'core.2'))
    inputs = [os.path.join(folder, name) for name in ('a/core', 'b/core', 'a/core.2', 'b/core.2')]
    for form, want in ('json', ['core.2.2.json', 'core.2.3.json', 'core.2.json', 'core.json']), ('svg', 4):
        out = os.path.join(folder, form)
        p = subprocess.run([PYANALYZE, '-q', '--show=-native', '--format', form, '-o', out + '/', *inputs], capture_output=True, env={'PATH': os.environ['PATH']})
        got = sorted(os.listdir(out)) if os.path.isdir(out) else p.stderr.decode()
        if form == 'svg':
            got = len({re.match(r'(core[.0-9]*)-', name).group(1) for name in got})
        check(f'{form} of inputs of one name: a file each', got == want, got)
    for names, want in (['deep'], ': 1 file, one a thread'), (['deep', 'computes'], ': 2 files, one a thread'):
        text = run('--format=svg', '-o', os.path.join(folder, f'{len(names)}/'), *[f'--thread={name}' for name in names], stderr=True)
        check(f'a file for each of {len(names)}: how many there are', want in text, text)

# the verdict is the same whatever else is shown, of a whole snapshot and of those that were cut: without Python's frames it is a native place
with open(os.path.join(FOLDER, 'threads-native.pz'), 'rb') as f:
    whole = f.read()
for percent in 100, 60, 20, 5:
    with tempfile.TemporaryDirectory() as folder:
        cut = os.path.join(folder, 'cut.pz')
        with open(cut, 'wb') as f:
            f.write(whole[:len(whole) * percent // 100])
        head, alone = [subprocess.run([PYANALYZE, *options, cut], capture_output=True).stdout.decode().split('\n\n')[0] for options in ([], ['-s', 'verdict'])]
    check(f'--show=verdict of {percent} %: the same verdict', head == alone and re.match('(SNAPSHOT|UNKNOWN)  ', head) and re.search('^  (at|in)  ', head, re.M), f'{head}\n{alone}')

# a snapshot that was cut: every limit says what to try, and none speaks of letting it crash again
with open(os.path.join(FOLDER, 'threads.pz'), 'rb') as f:
    whole = f.read()
# part: of how many threads frames are lost; what is lifted by another copy
for part, n_broken, want in ((0.42, 5, {'PZ101', 'PZ305', 'PZ401', 'PZ406', 'PZ410', 'PZ412'}), (0.6, 2, {'PZ101', 'PZ305', 'PZ401', 'PZ410', 'PZ412', 'PZ414'})):
    with tempfile.TemporaryDirectory() as folder:
        cut = os.path.join(folder, 'cut.pz')
        with open(cut, 'wb') as f:
            f.write(whole[:int(len(whole) * part)])
        problems = json.loads(subprocess.run([PYANALYZE, '--json', cut], capture_output=True).stdout)['problems']
        text, folded = [subprocess.run([PYANALYZE, *options, cut], capture_output=True).stdout.decode() for options in (['-v'], [])]
    name = f'a snapshot cut to {100 * part:.0f} %'
    again = {p['code'] for p in problems if 'copy it again and compare sizes, or take it again with pysnap' in p['hint']}
    check(f'{name}: copy it or take it again', again == want, problems)
    check(f'{name}: nothing of crashes', not any('ulimit' in p['hint'] or 'crash' in p['hint'] or 'coredump' in p['hint'] for p in problems), problems)
    limits = text.split('\nLimits of this report')[1]
    broken = ['  ' + p['message'] + ' [PZ401]' for p in problems if p['code'] == 'PZ401']
    check(f'{name}: many of one kind in one line', folded.split('\nLimits of this report')[1].count('older frames are unknown') == (n_broken if n_broken <= 3 else 1) and
          (f'    and {n_broken - 1} more like this (-v and --json list them)\n' in folded) == (n_broken > 3), folded)
    check(f'{name}: what several need is said once', len(broken) == n_broken == limits.count('older frames are unknown') and
          '\n'.join(broken) + '\n    try: copy it again' in limits, text)

help_text = subprocess.run([PYANALYZE, '--help'], capture_output=True).stdout.decode()
for option in ('-s, --show LIST', '-n, --native', '-t, --thread TID|NAME', '    --order=ORDER', '    --frames=N'):
    check(f'--help has {option.strip()}', option in help_text)
check('--help: --frames=0 does not unfold', 'frames that repeat are shown once' in help_text)
print(f'1..{done}')
sys.exit(1 if failed else 0)
