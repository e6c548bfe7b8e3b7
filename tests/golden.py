#!/usr/bin/python3
"""Golden reports: each is what the schema says, nothing in it contradicts anything else, and nothing unsafe is in any form.

usage: golden.py SOURCE_ROOT [PYANALYZE]

With PYANALYZE also runs it over fixtures/snaps/**/*.pz and compares what it prints with NAME.txt and NAME.json beside each (but for
what depends on the machine; GOLDEN_UPDATE=1 writes them anew), and checks its JSON like the goldens.  Prints TAP.
"""
import copy
import glob
import json
import os
import re
import subprocess
import sys
import unicodedata
import xml.etree.ElementTree as ET

try:
    import jsonschema
except ImportError:
    print('1..0 # SKIP python3-jsonschema is not installed')
    sys.exit(0)

ROOT = sys.argv[1]
PYANALYZE = os.path.abspath(sys.argv[2]) if len(sys.argv) > 2 else None
done = failed = 0


def check(what, problem):
    global done, failed
    done += 1
    if problem:
        failed += 1
        print(f'not ok {done} - {what}')
        for line in str(problem).splitlines()[:20]:
            print('# ' + line)
    else:
        print(f'ok {done} - {what}')


def strict(schema):
    """The schema for what this version writes: no key and no word that it does not name."""
    schema = copy.deepcopy(schema)
    schema['$defs']['word'] = False

    def close(node):
        if isinstance(node, dict):
            if node.get('type') == 'object' and 'properties' in node:
                node['additionalProperties'] = False
            for value in node.values():
                close(value)
        elif isinstance(node, list):
            for value in node:
                close(value)
    close(schema)
    return schema


def nulls(node, path='$'):
    if node is None:
        yield path
    elif isinstance(node, dict):
        for key, value in node.items():
            yield from nulls(value, f'{path}.{key}')
    elif isinstance(node, list):
        for i, value in enumerate(node):
            yield from nulls(value, f'{path}[{i}]')


def contradictions(report):
    """What the schema cannot say."""
    yield from (f'{path} is null' for path in nulls(report))
    threads, frames, groups = report['threads'], report['frames'], report['groups']
    used = set()
    for i, thread in enumerate(threads):
        where = f'threads[{i}]'
        if any(f >= len(frames) for f in thread['stack']):
            yield f'{where} shows a frame that is not in frames'
        used.update(thread['stack'])
        if thread['group'] >= len(groups) or i not in groups[thread['group']]['threads']:
            yield f'{where} is not in its group'
        total, end = len(thread['stack']), 0
        for piece in thread.get('folded', []):
            if piece['at'] < end or piece['at'] + piece['frames'] > len(thread['stack']):
                yield f'{where} folds frames it does not have'
            end = piece['at'] + piece['frames']
            total += piece['frames'] * (piece['repeat'] - 1)
        if total != thread['frame_count']:
            yield f'{where} has {total} frames, frame_count says {thread["frame_count"]}'
        if 'interpreter' in thread and thread['interpreter'] not in [p.get('id') for p in report['interpreters']]:
            yield f'{where} is of an interpreter that is not there'
        if ('name' in thread) != ('name_source' in thread):
            yield f'{where} has a name or its source, not both'
    for i, e in enumerate(report.get('exceptions', []) + [t['handling'] for t in report['threads'] if 'handling' in t]):
        used.update(e['traceback'])
        if len(e['traceback']) > e['frame_count']:
            yield f'exceptions[{i}] has more of a traceback than there is'
    if [f['id'] for f in frames] != list(range(len(frames))) or used != set(range(len(frames))):
        yield 'frames are not those of the stacks and tracebacks, in order'
    if sorted(t for g in groups for t in g['threads']) != list(range(len(threads))):
        yield 'groups do not hold each thread once'
    for g in groups:
        if len({sum(not frames[f].get('plumbing') for f in threads[t]['stack'] if f < len(frames)) for t in g['threads']}) != 1:
            yield f'group {g["id"]} has stacks of different length'
        if g['tids'] != [threads[t]['tid'] for t in g['threads'] if 'tid' in threads[t]]:
            yield f'group {g["id"]} has other tids than its threads'
    verdict = report['verdict']
    if 'thread' in verdict and threads[verdict['thread']].get('tid') != verdict.get('tid'):
        yield 'the verdict is of another thread'


def unsafe(text):
    for c in text:
        if c != '\n' and (unicodedata.category(c) in ('Cc', 'Cf', 'Zl', 'Zp', 'Cs', 'Co')):
            return f'U+{ord(c):04X} in it'
    return None


with open(f'{ROOT}/formats/report.schema.json') as f:
    SCHEMA = json.load(f)
check('report.schema.json is a schema', None if not jsonschema.Draft202012Validator.check_schema(SCHEMA) else 'invalid')
OPEN, STRICT = jsonschema.Draft202012Validator(SCHEMA), jsonschema.Draft202012Validator(strict(SCHEMA))


def check_json(name, text):
    try:
        report = json.loads(text)
    except ValueError as e:
        check(f'{name}: is JSON', e)
        return
    errors = [f'{e.json_path}: {e.message[:200]}' for e in OPEN.iter_errors(report)]
    errors += [f'strictly: {e.json_path}: {e.message[:200]}' for e in STRICT.iter_errors(report)]
    check(f'{name}: fits the schema', '\n'.join(errors))
    check(f'{name}: holds together', '' if errors else '\n'.join(contradictions(report)))
    check(f'{name}: nothing unsafe', unsafe(text))


def refused():
    """The schema refuses what it should: each row spoils one thing of a good report."""
    with open(f'{ROOT}/fixtures/golden/crash.json') as f:
        good = json.load(f)
    rows = [
        ('another schema', lambda r: r.update(schema='pysnap.report/2')),
        ('no threads', lambda r: r.pop('threads')),
        ('a number for an address', lambda r: r['threads'][0].update(python_id=1)),
        ('an upper-case address', lambda r: r['modules'][0].update(start='0X1F')),
        ('a tid as text', lambda r: r['threads'][0].update(tid='19452')),
        ('null', lambda r: r['process'].update(exe=None)),
        ('a frame without id', lambda r: r['frames'][0].pop('id')),
        ('line 0', lambda r: r['frames'][0].update(line=0)),
        ('a problem without code', lambda r: r['problems'][0].pop('code')),
        ('an odd code', lambda r: r['problems'][0].update(code='PZ1')),
        ('a word in capitals', lambda r: r['verdict'].update(kind='CRASH')),
        ('an empty group', lambda r: r['groups'][0].update(threads=[])),
        ('one round', lambda r: r['threads'][0].update(folded=[{'at': 0, 'frames': 1, 'repeat': 1}])),
        ('a local time', lambda r: r['process'].update(dump_time='2026-11-30 03:35:41')),
    ]
    for what, spoil in rows:
        report = copy.deepcopy(good)
        spoil(report)
        check(f'the schema refuses {what}', None if not OPEN.is_valid(report) else 'accepted')
    report = copy.deepcopy(good)
    report['verdict']['kind'] = 'deadlock'
    report['later'] = {}
    check('the schema takes keys and words of later versions', None if OPEN.is_valid(report) else 'refused')
    check('but this version writes none', None if not STRICT.is_valid(report) else 'accepted')


def same(name, path, got):
    if os.environ.get('GOLDEN_UPDATE'):
        with open(path, 'w', encoding='utf-8') as f:
            f.write(got)
    try:
        with open(path, encoding='utf-8') as f:
            want = f.read()
    except OSError as e:
        check(name, e)
        return
    problem = None
    if got != want:
        a, b = want.splitlines(), got.splitlines()
        i = next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))
        problem = f'line {i + 1}\nwant {a[i] if i < len(a) else "the end"}\ngot  {b[i] if i < len(b) else "the end"}'
    check(name, problem)


def portable(text):
    """A JSON report without what depends on the build and on the files of this machine."""
    report = json.loads(text)
    del report['tool']
    for module in report['modules']:
        for key in ('file', 'debug_file', 'disk_build_id', 'symbols'):
            module.pop(key, None)
    report['problems'] = [p['code'] for p in report['problems'] if not p['code'].startswith('PZ2')]
    return json.dumps(report, ensure_ascii=False, indent=1) + '\n'


def run_snaps():
    for snap in sorted(glob.glob(f'{ROOT}/fixtures/snaps/**/*.pz', recursive=True)):
        stem, folder = os.path.splitext(os.path.basename(snap))[0], os.path.dirname(snap)
        name = os.path.relpath(snap, f'{ROOT}/fixtures/snaps')
        for form, suffix in (('text', '.txt'), ('json', '.json')):
            # The same wherever it runs: a relative path, no sources, native stacks where the fixture holds what they take, and nothing of what this machine has or lacks of the modules.
            native = '-n' if stem.endswith('-native') else '--show=-native'
            p = subprocess.run([PYANALYZE, native, '--format', form, '--debug-path=', '--source-map', '/=/nonexistent/', os.path.basename(snap)], cwd=folder,
                               capture_output=True, env={'PATH': os.environ['PATH'], 'COLUMNS': '100', 'LC_ALL': 'C'})
            check(f'{name}: {form}: exit 0', None if p.returncode == 0 else f'{p.returncode}: {p.stderr.decode(errors="replace")}')
            text = p.stdout.decode('utf-8')
            if form == 'json':
                check_json(f'{name}: {form}', text)
                text = portable(text)
            else:
                text = re.sub(r'  \(build-id [0-9a-f]+\)', '', text.split('\nLimits of this report')[0])
            same(f'{name}: {form}: as {stem}{suffix}', f'{folder}/{stem}{suffix}', text)


for path in sorted(glob.glob(f'{ROOT}/fixtures/golden/*.json')):
    with open(path, encoding='utf-8') as f:
        check_json(os.path.basename(path), f.read())
for path in sorted(glob.glob(f'{ROOT}/fixtures/golden/*.svg')):
    with open(path, encoding='utf-8') as f:
        text = f.read()
    try:
        root = ET.fromstring(text.encode())
        problem = None if root.tag == '{http://www.w3.org/2000/svg}svg' else root.tag
        if re.search(r'<script|\son\w+=|href', text):
            problem = 'script or link in it'
    except ET.ParseError as e:
        problem = e
    check(f'{os.path.basename(path)}: is SVG without script', problem)
    check(f'{os.path.basename(path)}: nothing unsafe', unsafe(text))
for path in sorted(glob.glob(f'{ROOT}/fixtures/golden/*.txt')):
    with open(path, encoding='utf-8') as f:
        check(f'{os.path.basename(path)}: nothing unsafe', unsafe(f.read()))
refused()
if PYANALYZE:
    run_snaps()
print(f'1..{done}')
sys.exit(1 if failed else 0)
