"""Line tables and what the interpreter itself makes of them, for tests/test_linetable.c.

usage: pythonX.Y tools/linetable_cases.py [--all] >> fixtures/linetable.cases

Runs under any Python from 2.7 on and prints, for code objects of its own (or of every standard
module with --all):

    code SCHEME FIRSTLINENO HEX-TABLE NAME
    LASTI LINE END_LINE COL END_COL

where SCHEME is lnotab-u8, lnotab-s8, linetable-310 or locations, LASTI a byte offset, and a second
line is printed wherever the answer changes, and 'LENGTH end' after the last.  '-' is None.  The answers come from co_positions(), from
co_lines() or from dis.findlinestarts(), never from the table's bytes.
"""
import binascii
import dis
import os
import sys
import types

SAMPLES = [
    # Ordinary statements, an expression over lines, a loop whose jump goes back, try/finally, with.
    ("plain", u"""
def f(a, b=1):
    x = a + b
    for i in range(x):
        if i % 2:
            continue
        try:
            x += (i *
                  b -
                  len(str(i)))
        except ValueError as e:
            raise
        finally:
            x -= 1
    with open('x') as g, open(
            'y'):
        pass
    while x:
        x -= 1
    return [k for k in range(3)
            if k]
class C(object):
    '''Doc.'''
    y = 1
    @property
    def z(self):
        return lambda: (yield)
"""),
    # Steps too big for one byte, up and down.
    ("jump", u"def f(a):\n    return (a +" + u"\n" * 700 + u"        a.b)\n" + u"\n" * 300 + u"x = f\n"),
    # Much code on one line: addresses above 255 without a line step.
    ("wide", u"def f(a):\n    x = (" + u" + ".join([u"a.b"] * 200) + u")\n    return x\n"),
    # Columns count bytes of UTF-8; long lines need the long form.
    ("bytes", u"# -*- coding: utf-8 -*-\ndef f(a):\n    return u'\u65e5\u672c\u8a9e\U0001f40d' + a.b + (a.c)(u'" +
     u"\u00e9" * 200 + u"', a.d)\n"),
]


def nested(code):
    yield code
    for const in code.co_consts:
        if isinstance(const, types.CodeType):
            for inner in nested(const):
                yield inner


def units(code):
    """(lasti, (line, end_line, col, end_col)) of every instruction."""
    if hasattr(code, 'co_positions'):
        for i, pos in enumerate(code.co_positions()):
            line, end_line, col, end_col = pos
            yield 2 * i, (line, end_line, col, end_col)
        return
    if hasattr(code, 'co_lines'):
        for start, end, line in code.co_lines():
            for i in range(start, end, 2):
                yield i, (line, None, None, None)
        return
    # findlinestarts leaves out a start on the line before it, which changes no answer.
    starts = dict(dis.findlinestarts(code))
    line = code.co_firstlineno
    for i in range(len(code.co_code)):
        line = starts.get(i, line)
        yield i, (line, None, None, None)


def dump(code, out):
    if hasattr(code, 'co_positions'):
        scheme, table = 'locations', code.co_linetable
    elif hasattr(code, 'co_lines'):
        scheme, table = 'linetable-310', code.co_linetable
    else:
        scheme, table = 'lnotab-s8' if sys.version_info >= (3, 6) else 'lnotab-u8', code.co_lnotab
    out.write('code %s %d %s %d.%d:%s\n' % (scheme, code.co_firstlineno, binascii.hexlify(table).decode() or '-',
                                            sys.version_info[0], sys.version_info[1],
                                            code.co_name.encode('ascii', 'replace').decode().replace(' ', '_')))
    last = ()
    for lasti, pos in units(code):
        if pos != last:
            out.write('%d %s\n' % (lasti, ' '.join('-' if x is None else str(x) for x in pos)))
            last = pos
    out.write('%d end\n' % len(code.co_code))


def standard_modules():
    root = os.path.dirname(os.__file__)
    for folder, folders, files in os.walk(root):
        folders[:] = sorted(d for d in folders if d not in ('site-packages', 'lib2to3', 'lib-tk'))
        for name in sorted(files):
            if name.endswith('.py'):
                yield os.path.join(folder, name)


def main():
    if '--all' in sys.argv[1:]:
        for path in standard_modules():
            with open(path, 'rb') as f:
                source = f.read()
            try:
                code = compile(source, path, 'exec', dont_inherit=True)
            except (SyntaxError, ValueError, TypeError):
                continue  # inputs for tests that are not meant to compile
            for inner in nested(code):
                dump(inner, sys.stdout)
        return
    for name, source in SAMPLES:
        if sys.version_info[0] == 2:
            source = source.encode('utf-8')
        for inner in nested(compile(source, name, 'exec', dont_inherit=True)):
            dump(inner, sys.stdout)


if __name__ == '__main__':
    main()
