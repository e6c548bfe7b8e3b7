#!/usr/bin/env python3
"""Make fields.gen.h and fields.gen.c from formats/cpython.fields and formats/cpython.traits.

usage: gen_fields.py CPYTHON.FIELDS CPYTHON.TRAITS FIELDS.GEN.H FIELDS.GEN.C

Out come: enum py_struct (S_NAME), enum py_field (F_STRUCT_FIELD), enum py_trait (T_NAME), the constants that the
traits name (TRAIT_WORD), and the tables py_struct_info, py_field_info, py_trait_name and py_trait_rows that
src/python/layout.h declares.  The grammar of both inputs is told at their tops; anything else is an error with
file and line.
"""
import re
import sys

KINDS = ['ptr', 'word', 'sword', 'u8', 'u16', 'u32', 'u64', 'i8', 'i32', 'i64', 'at', 'bits']
NAME = re.compile(r'[A-Za-z_][A-Za-z0-9_]*\Z')
PATH = re.compile(r'(\$size(\([A-Za-z_]\w*\))?|[A-Za-z_]\w*(\.[A-Za-z_]\w*)*)\Z')


def fail(path, number, text):
    sys.exit(f'{path}:{number}: {text}')


def lines(path):
    with open(path, encoding='ascii') as f:
        for number, line in enumerate(f, 1):
            line = line.split('#', 1)[0].rstrip()
            if line.strip():
                yield number, line


def read_fields(path):
    """-> [(struct, [spellings], [(field, kind, target, [paths])])]"""
    structs, wanted = [], []
    names = set()
    for number, line in lines(path):
        words = line.split()
        if words[0] == 'struct':
            if len(words) != 3 or not NAME.match(words[1]):
                fail(path, number, 'expected: struct NAME TYPE[|TYPE...]')
            if words[1] in names:
                fail(path, number, f'struct {words[1]} is there already')
            names.add(words[1])
            structs.append((words[1], words[2].split('|'), []))
            continue
        if not structs or len(words) != 3 or not NAME.match(words[0]):
            fail(path, number, 'expected: FIELD KIND PATH[|PATH...]')
        field, kind, paths = words[0], words[1], words[2].split('|')
        full = f'{structs[-1][0]}.{field}'
        if full in names:
            fail(path, number, f'field {full} is there already')
        names.add(full)
        target = None
        if kind.startswith('off:') or kind.startswith('size:'):
            kind, target = kind.split(':', 1)
            wanted.append((number, kind, target))
        elif kind not in KINDS:
            fail(path, number, f'unknown kind {kind}')
        for p in paths:
            if not PATH.match(p):
                fail(path, number, f'malformed path {p}')
        structs[-1][2].append((field, kind, target, paths))
    for number, kind, target in wanted:
        if target not in names or ('.' in target) != (kind == 'off'):
            fail(path, number, f'unknown target {target}')
    return structs


def version(path, number, text, last):
    """'3.13.1' as PY_VERSION_HEX; of an end of a range (last), what is not said is the highest."""
    m = re.match(r'(\d+)\.(\d+)(?:\.(\d+))?\Z', text)
    if not m:
        fail(path, number, f'malformed version {text}')
    major, minor = int(m[1]), int(m[2])
    micro = int(m[3]) if m[3] else 0xff if last else 0
    return major << 24 | minor << 16 | micro << 8 | (0xff if last else 0)


def read_traits(path, structs):
    """-> [(trait, [(WORD, value)], [(value, from, to, cond, target, n)])]"""
    fields = {s: {f[0] for f in fs} for s, _, fs in structs}
    traits, began = [], {}
    for number, line in lines(path):
        line, _, source = line.partition(' : ')
        words = line.split()
        if words[0] == 'trait':
            if len(words) < 2 or not NAME.match(words[1]) or words[1] in [t[0] for t in traits]:
                fail(path, number, 'expected: trait NEWNAME [WORD=NUMBER ...]')
            values = []
            for w in words[2:]:
                m = re.match(r'([A-Z][A-Z0-9_]*)=(-?\d+)\Z', w)
                if not m:
                    fail(path, number, f'malformed value {w}')
                values.append((m[1], int(m[2])))
            traits.append((words[1], values, []))
            began[words[1]] = number
            continue
        if not traits or len(words) < 2 or not source.strip():
            fail(path, number, 'expected: VALUE FROM..[TO] [if COND] : SOURCE')
        known = dict(traits[-1][1])
        if words[0] in known:
            value = known[words[0]]
        elif not known and re.match(r'-?\d+\Z', words[0]):
            value = int(words[0])
        else:
            fail(path, number, f'unknown value {words[0]}')
        first, dots, end = words[1].partition('..')
        if not dots:
            fail(path, number, f'malformed range {words[1]}')
        low = version(path, number, first, False)
        high = version(path, number, end, True) if end else 0xffffffff
        if low > high:
            fail(path, number, f'empty range {words[1]}')
        cond, target, n = 'TRAIT_ALWAYS', '0', 0
        rest = words[2:]
        if rest:
            if len(rest) >= 3 and rest[0] == 'if' and rest[1] in ('has', 'lacks') and len(rest) == 3:
                s, _, f = rest[2].partition('.')
                if f not in fields.get(s, ()):
                    fail(path, number, f'unknown field {rest[2]}')
                cond, target = 'TRAIT_IF_' + rest[1].upper(), f'F_{s}_{f}'
            elif len(rest) == 4 and rest[:2] == ['if', 'size'] and rest[2] in fields and rest[3].isdigit():
                cond, target, n = 'TRAIT_IF_SIZE', f'S_{rest[2]}', int(rest[3])
            else:
                fail(path, number, 'malformed condition ' + ' '.join(rest))
        traits[-1][2].append((value, low, high, cond, target, n))
    for name, _, rows in traits:
        if not rows:
            fail(path, began[name], f'trait {name} has no rows')
    return traits


def paths_text(paths):
    return '"' + '|'.join(paths) + '"'


def main():
    if len(sys.argv) != 5:
        sys.exit(__doc__)
    fields_path, traits_path, h_path, c_path = sys.argv[1:]
    structs = read_fields(fields_path)
    traits = read_traits(traits_path, structs)
    head = '/* Generated by tools/gen_fields.py from formats/cpython.fields and formats/cpython.traits; not to be edited. */\n'
    h = [head, '#ifndef FIELDS_GEN_H\n#define FIELDS_GEN_H\n\n']
    h.append('enum py_struct {\n')
    h += [f'\tS_{s},\n' for s, _, _ in structs]
    h.append('\tPY_STRUCT_COUNT\n};\n\nenum py_field {\n')
    h += [f'\tF_{s}_{f[0]},\n' for s, _, fs in structs for f in fs]
    h.append('\tPY_FIELD_COUNT\n};\n\nenum py_trait {\n')
    h += [f'\tT_{t},\n' for t, _, _ in traits]
    h.append(f'\tPY_TRAIT_COUNT\n}};\n\n')
    n_rows = sum(len(rows) for _, _, rows in traits)
    h.append(f'enum {{ PY_TRAIT_ROWS = {n_rows} }};\n')
    for t, values, _ in traits:
        if values:
            h.append('enum { ' + ', '.join(f'{t.upper()}_{w} = {v}' for w, v in values) + ' };\n')
    h.append('\n#endif\n')
    c = [head, '#include "python/layout.h"\n\n']
    c.append('const struct py_struct_info py_struct_info[PY_STRUCT_COUNT] = {\n')
    for s, types, fs in structs:
        first = f'F_{s}_{fs[0][0]}' if fs else '0'
        c.append(f'\t[S_{s}] = {{ "{s}", {paths_text(types)}, {first}, {len(fs)} }},\n')
    c.append('};\n\nconst struct py_field_info py_field_info[PY_FIELD_COUNT] = {\n')
    for s, _, fs in structs:
        for f, kind, target, paths in fs:
            off = 'F_' + target.replace('.', '_', 1) if kind == 'off' else '0'
            size = 'S_' + target if kind == 'size' else '0'
            c.append(f'\t[F_{s}_{f}] = {{ "{f}", S_{s}, K_{kind.upper()}, {off}, {size}, {paths_text(paths)} }},\n')
    c.append('};\n\nconst char *const py_trait_name[PY_TRAIT_COUNT] = {\n')
    c += [f'\t[T_{t}] = "{t}",\n' for t, _, _ in traits]
    c.append('};\n\nconst struct py_trait_row py_trait_rows[PY_TRAIT_ROWS] = {\n')
    for t, _, rows in traits:
        for value, low, high, cond, target, n in rows:
            c.append(f'\t{{ T_{t}, {cond}, {value}, {low:#010x}, {high:#010x}, {target}, {n} }},\n')
    c.append('};\n')
    for path, text in ((h_path, h), (c_path, c)):
        with open(path, 'w', encoding='ascii') as f:
            f.write(''.join(text))


if __name__ == '__main__':
    main()
