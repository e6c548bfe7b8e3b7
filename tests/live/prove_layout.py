"""Run by the interpreter under test, with TABLE (a .layout text) set before it: reads its own memory through the column
of its own build and compares with what Python says. Prints "FIELD ok", or "FIELD found X, expected Y", one a line;
or "no column NAME"."""
from __future__ import print_function

import atexit
import ctypes
import gc
import os
import platform
import struct
import sys
import sysconfig
import threading
import types
import weakref

PY2 = sys.version_info < (3,)
try:
    import builtins
except ImportError:
    import __builtin__ as builtins
if PY2:
    import thread
    threading.get_ident = thread.get_ident
Text, Long = type(u""), type(1 << 70)
fields, sizes = {}, {}
W = struct.calcsize("P")
TOP = (1 << 8 * W) - 1
ORDER = "<" if sys.byteorder == "little" else ">"


def own_column():
    machine = platform.machine()
    if W == 4:
        machine = {"x86_64": "i386", "i686": "i386", "aarch64": "arm", "armv7l": "arm"}.get(machine, machine)
    debug = "-d" if hasattr(sys, "gettotalrefcount") else ""
    return machine + debug + ("-t" if sysconfig.get_config_var("Py_GIL_DISABLED") else "")


def parse(text, column):
    current = at = None
    for line in text.splitlines():
        words = line.split("#")[0].split()
        if not words or words[0] in ("layout", "had", "source", "trait"):
            continue
        if words[0] == "config":
            if column not in words:
                print("no column", column)
                sys.exit(0)
            at = words.index(column) + 1
        elif words[1] == "size":
            current = words[0]
            if words[at] != "-":
                sizes[current] = int(words[at])
        elif words[at] != "-":
            fields[current + "." + words[0]] = (words[1], words[at])


def memory(addr, size):
    return ctypes.string_at(addr, size)


FORMAT = {"ptr": "Q" if W == 8 else "I", "word": "Q" if W == 8 else "I", "sword": "q" if W == 8 else "i", "u8": "B", "u16": "H", "u32": "I", "u64": "Q", "i8": "b", "i32": "i", "i64": "q"}


def read(addr, field):
    kind, cell = fields[field]
    if kind == "at":
        return addr + int(cell)
    if kind == "bits":
        byte, rest = cell.split(":")
        bit, count = rest.split("+")
        return struct.unpack(ORDER + "I", memory(addr + int(byte), 4))[0] >> int(bit) & (1 << int(count)) - 1
    code = "Q" if kind.startswith(("off:", "size:")) else FORMAT[kind]
    return struct.unpack(ORDER + code, memory(addr + int(cell), struct.calcsize("=" + code)))[0]


def word(addr):
    return struct.unpack("P", memory(addr, W))[0]


def cstring(addr):
    return ctypes.string_at(addr) if addr else None


def has(field):
    return field in fields


checked = set()


def check(field, found, expected):
    checked.add(field)
    print(field, "ok" if found == expected else "found %r, expected %r" % (found, expected))


def expect(addr, field, expected):
    """The field, where this build has it, has this value."""
    if has(field):
        check(field, read(addr, field), expected)


def points(addr, field, obj):
    """The field, where this build has it, points to this object."""
    expect(addr, field, id(obj))


def is_ascii(s):
    return all(ord(c) < 128 for c in s)


def name_of(addr):
    """A name: str, which is bytes in 2.7."""
    if not PY2:
        return text_of(addr)
    return memory(read(addr, "PyBytes.ob_sval"), read(addr, "PyBytes.ob_size"))


def text_of(addr):
    """A str (2.7: unicode) read through the table."""
    if PY2:
        unit = 4 if sys.maxunicode > 0xffff else 2
        return memory(read(addr, "PyUnicode.wide"), unit * read(addr, "PyUnicode.length")).decode("utf-%d-%se" % (8 * unit, sys.byteorder[0]))
    if not read(addr, "PyUnicode.compact"):
        data = read(addr, "PyUnicode.data")
    elif read(addr, "PyUnicode.ascii"):
        data = read(addr, "PyUnicode.data_ascii")
    else:
        data = read(addr, "PyUnicode.data_compact")
    kind, n = read(addr, "PyUnicode.kind"), read(addr, "PyUnicode.length")
    return memory(data, kind * n).decode({1: "latin-1", 2: "utf-16-%se", 4: "utf-32-%se"}[kind].replace("%s", sys.byteorder[0]))


def objects():
    class Base(object):
        pass

    class Thing(Base):
        """An ordinary class."""
        def method(self):
            return self

    class Slots(object):
        __slots__ = ("one", "two")
    thing = Thing()
    expect(id(thing), "PyObject.ob_type", id(Thing))
    if has("PyObject.ob_refcnt"):
        odd = object()
        many = [odd] * 1000
        check("PyObject.ob_refcnt", 1001 <= read(id(odd), "PyObject.ob_refcnt") < 1010, True)
        del many
    expect(id((1, 2, 3)), "PyVarObject.ob_size", 3)
    t = id(Thing)
    check("PyType.tp_name", cstring(read(t, "PyType.tp_name")), b"Thing")
    expect(t, "PyType.tp_basicsize", Thing.__basicsize__)
    expect(id(tuple), "PyType.tp_itemsize", W)
    expect(t, "PyType.tp_flags", Thing.__flags__)
    expect(id(BaseException), "PyType.tp_dictoffset", BaseException.__dictoffset__)
    expect(id(type), "PyType.tp_weaklistoffset", type.__weakrefoffset__)
    points(t, "PyType.tp_base", Base)
    points(t, "PyType.tp_bases", Thing.__bases__)
    points(t, "PyType.tp_mro", Thing.__mro__)
    if has("PyType.tp_dict"):
        check("PyType.tp_dict", read(read(t, "PyType.tp_dict"), "PyObject.ob_type"), id(dict))
    check("PyType.tp_members", read(id(Slots), "PyType.tp_members") != 0, True)
    check("PyHeapType.ht_name", name_of(read(t, "PyHeapType.ht_name")), "Thing")
    if has("PyHeapType.ht_qualname"):
        check("PyHeapType.ht_qualname", text_of(read(t, "PyHeapType.ht_qualname")), Thing.__qualname__)
    expect(t, "PyHeapType.ht_module", 0)
    check("PyHeapType.ht_slots", read(read(id(Slots), "PyHeapType.ht_slots"), "PyVarObject.ob_size"), 2)
    for s in (u"plain", u"Gr\xfc\xdfe", u"\u4f60\u597d", u"\U0001f40d snake"):
        a = id(s)
        expect(a, "PyUnicode.length", len(s))
        expect(a, "PyUnicode.kind", {"p": 1, "G": 1, u"\u4f60": 2}.get(s[0], 4))
        expect(a, "PyUnicode.compact", 1)
        expect(a, "PyUnicode.ascii", int(is_ascii(s)))
        expect(a, "PyUnicode.ready", 1)
        check("PyUnicode.wide" if PY2 else "PyUnicode.data_ascii" if is_ascii(s) else "PyUnicode.data_compact", text_of(a), s)
        if not is_ascii(s) and has("PyUnicode.utf8"):
            ctypes.pythonapi.PyUnicode_AsUTF8.restype = ctypes.c_void_p
            check("PyUnicode.utf8", ctypes.pythonapi.PyUnicode_AsUTF8(ctypes.py_object(s)), read(a, "PyUnicode.utf8"))
            expect(a, "PyUnicode.utf8_length", len(s.encode("utf-8")))
    if has("PyUnicode.data"):       # of an instance of a subclass the text lies elsewhere
        class Text2(Text):
            pass
        s = Text2(u"\U0001f40d and more")
        check("PyUnicode.data", text_of(id(s)), u"\U0001f40d and more")
        if has("PyUnicode.wstr"):   # the same where both have four bytes
            check("PyUnicode.wstr", read(id(s), "PyUnicode.wstr"), read(id(s), "PyUnicode.data"))
            expect(id(s), "PyUnicode.wstr_length", len(s))
    if has("PyUnicode.interned"):
        check("PyUnicode.interned", read(id(sys.intern("an_interned_name")), "PyUnicode.interned") != 0, True)
    b = b"bytes of 17 chars"
    expect(id(b), "PyBytes.ob_size", len(b))
    check("PyBytes.ob_sval", memory(read(id(b), "PyBytes.ob_sval"), len(b)), b)
    per, size = (sys.long_info if PY2 else sys.int_info)[:2]
    n = 3 << 62 | 12345
    minus, digits = -n, -(-64 // per)
    if has("PyInt.ob_ival"):
        expect(id(1234567), "PyInt.ob_ival", 1234567)
    expect(id(n), "PyLong.ob_size", digits)
    expect(id(minus), "PyLong.ob_size", -digits)
    if has("PyLong.lv_tag"):
        check("PyLong.lv_tag", (read(id(n), "PyLong.lv_tag") >> 3, read(id(minus), "PyLong.lv_tag") & 3), (digits, 2))
    parts = struct.unpack("%d%s" % (digits, "I" if size == 4 else "H"), memory(read(id(n), "PyLong.ob_digit"), digits * size))
    check("PyLong.ob_digit", sum(part << per * i for i, part in enumerate(parts)), n)
    check("PyDigit.size", sizes["PyDigit"], size)
    expect(id(1.5), "PyFloat.ob_fval", struct.unpack("Q", struct.pack("d", 1.5))[0])
    tup = (b, n)
    expect(id(tup), "PyTuple.ob_size", 2)
    check("PyTuple.ob_item", word(read(id(tup), "PyTuple.ob_item") + W), id(n))
    lst = [b, n, tup]
    expect(id(lst), "PyList.ob_size", 3)
    check("PyList.ob_item", word(read(id(lst), "PyList.ob_item") + 2 * W), id(tup))
    check("PyList.allocated", 3 <= read(id(lst), "PyList.allocated") < 20, True)
    s = {b, n, 7}
    expect(id(s), "PySet.used", 3)
    expect(id(s), "PySet.fill", 3)
    expect(id(s), "PySet.mask", 7)
    keys = set()
    for i in range(8):
        entry = read(id(s), "PySet.table") + i * sizes["PySetEntry"]
        if read(entry, "PySetEntry.key"):
            keys.add(read(entry, "PySetEntry.key"))
            if read(entry, "PySetEntry.key") == id(b):
                expect(entry, "PySetEntry.hash", hash(b))
    check("PySetEntry.key", keys, {id(b), id(n), id(7)})
    check("PySet.table", True, True)
    dictionaries()
    function_objects(Thing, thing)


def dict_entries(addr):
    if has("PyDict.ma_table"):      # 2.7: sparse, in no order that Python tells otherwise
        first, n, size = read(addr, "PyDict.ma_table"), read(addr, "PyDict.ma_mask") + 1, sizes["PyDictKeyEntry"]
        every = [first + i * size for i in range(n)]
        return addr, "PyDictKeyEntry", [e for e in every if read(e, "PyDictKeyEntry.me_value")]
    keys = read(addr, "PyDict.ma_keys")
    if has("PyDictKeys.dk_log2_index_bytes"):
        index = 1 << read(keys, "PyDictKeys.dk_log2_index_bytes")
        kind = "PyDictUnicodeEntry" if read(keys, "PyDictKeys.dk_kind") else "PyDictKeyEntry"
    else:
        size = read(keys, "PyDictKeys.dk_size")
        index = size * (1 if size <= 0xff else 2 if size <= 0xffff else 4)
        kind = "PyDictKeyEntry"
    first = read(keys, "PyDictKeys.dk_indices") + index
    return keys, kind, [first + i * sizes[kind] for i in range(read(keys, "PyDictKeys.dk_nentries"))]


def dictionaries():
    for d in ({"one": b"1", "two": b"2"}, {1: b"1", "two": b"2", 3: b"3"}, {"k%d" % i: i for i in range(300)}):
        expect(id(d), "PyDict.ma_used", len(d))
        expect(id(d), "PyDict.ma_values", 0)
        keys, kind, entries = dict_entries(id(d))
        expect(keys, "PyDictKeys.dk_nentries", len(d))
        expect(keys, "PyDictKeys.dk_kind", int(kind == "PyDictUnicodeEntry"))
        check(kind + ".me_key", [read(e, kind + ".me_key") for e in entries], [id(k) for k in d])
        check(kind + ".me_value", [read(e, kind + ".me_value") for e in entries], [id(v) for v in d.values()])
        if kind == "PyDictKeyEntry":
            check(kind + ".me_hash", [read(e, kind + ".me_hash") for e in entries], [hash(k) for k in d])
        if has("PyDict.ma_table"):
            expect(id(d), "PyDict.ma_fill", len(d))
            check("PyDict.ma_mask", read(id(d), "PyDict.ma_mask") + 1 >= max(8, len(d) * 3 // 2), True)
            check("PyDict.ma_table", True, True)
            continue
        slots = 1 << read(keys, "PyDictKeys.dk_log2_size") if has("PyDictKeys.dk_log2_size") else read(keys, "PyDictKeys.dk_size")
        name = "PyDictKeys.dk_log2_size" if has("PyDictKeys.dk_log2_size") else "PyDictKeys.dk_size"
        check(name, slots >= 8 and slots & slots - 1 == 0 and slots > len(d), True)
        check("PyDictKeys.dk_usable", len(d) + read(keys, "PyDictKeys.dk_usable"), slots * 2 // 3)
    for f in ("PyDict.ma_keys", "PyDictKeys.dk_indices", "PyDictKeys.dk_log2_index_bytes"):
        if has(f):
            check(f, True, True)    # the entries above were found through it

    if has("PyDict.ma_table"):
        class Old:
            pass
        old = Old()
        old.attribute = 1
        points(id(old), "PyInstance.in_class", Old)
        points(id(old), "PyInstance.in_dict", old.__dict__)
        check("PyClass.cl_name", name_of(read(id(Old), "PyClass.cl_name")), "Old")
        return

    class Split(object):
        def __init__(self):
            self.first, self.second = b"f", b"s"
    one, two = Split(), Split()
    # Names of a split table lie in the type; values where the traits say.  Through __dict__ they must agree.
    d = two.__dict__
    values = read(id(d), "PyDict.ma_values")
    if values:
        base = read(values, "PyDictValues.values") if has("PyDictValues.values") else values
        check("PyDict.ma_values", [word(base), word(base + W)], [id(two.first), id(two.second)])
        if has("PyDictValues.values"):
            check("PyDictValues.values", True, True)
        expect(values, "PyDictValues.valid", 1)
        expect(values, "PyDictValues.size", 2)
        expect(values, "PyDictValues.embedded", 1)
        if has("PyDictValues.capacity"):
            check("PyDictValues.capacity", 2 <= read(values, "PyDictValues.capacity") <= 30, True)
        check("PyHeapType.ht_cached_keys", read(id(Split), "PyHeapType.ht_cached_keys"), read(id(d), "PyDict.ma_keys"))
    del one


def run(text):
    """What 2.7 cannot compile."""
    names = {}
    exec(text, names)
    return names


def code_fields(code):
    a = id(code)
    for name in ("co_argcount", "co_kwonlyargcount", "co_nlocals", "co_stacksize", "co_flags", "co_firstlineno"):
        if hasattr(code, name):
            expect(a, "PyCode." + name, getattr(code, name))
    for name in ("co_consts", "co_names", "co_filename", "co_name", "co_qualname", "co_exceptiontable"):
        if hasattr(code, name):
            points(a, "PyCode." + name, getattr(code, name))
    for name in ("co_varnames", "co_freevars", "co_cellvars", "co_lnotab", "co_code"):
        if has("PyCode." + name):
            points(a, "PyCode." + name, getattr(code, name))
    if has("PyCode.co_linetable"):
        points(a, "PyCode.co_linetable", code.co_linetable)
    if has("PyCode.co_localsplusnames"):
        every = code.co_varnames + tuple(c for c in code.co_cellvars if c not in code.co_varnames) + code.co_freevars
        expect(a, "PyCode.co_nlocalsplus", len(every))
        names = read(a, "PyCode.co_localsplusnames")
        first = read(names, "PyTuple.ob_item")
        check("PyCode.co_localsplusnames", tuple(text_of(word(first + W * i)) for i in range(len(every))), every)
        kinds = read(a, "PyCode.co_localspluskinds")
        kinds = memory(read(kinds, "PyBytes.ob_sval"), read(kinds, "PyBytes.ob_size"))
        check("PyCode.co_localspluskinds", tuple(n for n, k in zip(every, kinds) if k & 0x80), code.co_freevars)
        # opcodes change as they adapt; the arguments of units that are no caches stay
        start = memory(read(a, "PyCode.co_code_adaptive"), 2)
        check("PyCode.co_code_adaptive", start[1], code.co_code[1])


def function_objects(Thing, thing):
    outside = 5

    def work(one, two=2):
        inner = outside

        def nested():
            return inner
        return nested
    if not PY2:
        code_fields(run("def keyword(one, *, two=2):\n    return one")["keyword"].__code__)
    a = id(work)
    points(a, "PyFunction.func_code", work.__code__)
    points(a, "PyFunction.func_globals", work.__globals__)
    points(a, "PyFunction.func_closure", work.__closure__)
    points(a, "PyFunction.func_name", work.__name__)
    if not PY2:
        points(a, "PyFunction.func_qualname", work.__qualname__)
    points(a, "PyFunction.func_module", work.__module__)
    points(a, "PyFunction.func_dict", work.__dict__)
    code_fields(work.__code__)
    code_fields(code_fields.__code__)
    points(id(work.__closure__[0]), "PyCell.ob_ref", outside)
    bound = thing.method
    points(id(bound), "PyMethod.im_func", Thing.__dict__["method"])
    points(id(bound), "PyMethod.im_self", thing)
    lst = []
    append = lst.append
    points(id(append), "PyCFunction.m_self", lst)
    check("PyMethodDef.ml_name", cstring(read(read(id(append), "PyCFunction.m_ml"), "PyMethodDef.ml_name")), b"append")
    check("PyCFunction.m_ml", True, True)
    points(id(len), "PyCFunction.m_module", len.__module__)
    module = types.ModuleType("made_here")
    points(id(module), "PyModule.md_dict", module.__dict__)
    if has("PyModule.md_name"):
        check("PyModule.md_name", text_of(read(id(module), "PyModule.md_name")), "made_here")
    expect(id(module), "PyModule.md_state", 0)
    ref = weakref.ref(thing, lambda r: None)
    points(id(ref), "PyWeakRef.wr_object", thing)
    check("PyWeakRef.wr_callback", read(read(id(ref), "PyWeakRef.wr_callback"), "PyObject.ob_type"), id(types.FunctionType))

    def gen():
        yield 1
    g = gen()
    next(g)
    a = id(g)
    if has("PyGen.gi_name"):
        check("PyGen.gi_name", text_of(read(a, "PyGen.gi_name")), "gen")
        check("PyGen.gi_qualname", text_of(read(a, "PyGen.gi_qualname")), gen.__qualname__)
    points(a, "PyGen.gi_code", g.gi_code)
    expect(a, "PyGen.gi_running", 0)
    if has("PyGen.gi_exc_state"):
        expect(read(a, "PyGen.gi_exc_state"), "PyErrItem.exc_value", 0)
        check("PyGen.gi_exc_state", True, True)
    if has("PyGen.gi_iframe"):
        frame = read(a, "PyGen.gi_iframe")
        check("PyGen.gi_iframe", read(frame, "PyFrame.code") & ~3, id(g.gi_code))
        expect(frame, "PyFrame.owner", 1)
        suspended = 1 if sys.version_info >= (3, 15) else -2 if sys.version_info >= (3, 13) else -1
        check("PyGen.gi_frame_state", read(a, "PyGen.gi_frame_state"), suspended)
    else:
        points(a, "PyGen.gi_frame", g.gi_frame)
        points(id(g.gi_frame), "PyFrameObject.f_gen", g)
    try:
        if PY2:
            raise ValueError("outer", 2)
        run("try:\n    raise KeyError('inner')\nexcept KeyError as e:\n    raise ValueError('outer', 2) from e")
    except ValueError as e:
        if hasattr(e, "add_note"):
            e.add_note("a note")
        e.extra = 1
        a = id(e)
        points(a, "PyException.args", e.args)
        points(a, "PyException.dict", e.__dict__)
        if not PY2:
            points(a, "PyException.traceback", e.__traceback__)
            points(a, "PyException.context", e.__context__)
            points(a, "PyException.cause", e.__cause__)
        expect(a, "PyException.suppress_context", 1)
        if has("PyException.notes"):
            expect(a, "PyException.notes", read(a, "PyException.notes"))
        tb = sys.exc_info()[2]
        points(id(tb), "PyTraceback.tb_frame", tb.tb_frame)
        # found out when somebody asks, from 3.11 on
        check("PyTraceback.tb_lineno", read(id(tb), "PyTraceback.tb_lineno") in (-1, tb.tb_lineno), True)
        expect(id(tb), "PyTraceback.tb_next", id(tb.tb_next) if tb.tb_next else 0)
        expect(id(tb), "PyTraceback.tb_lasti", tb.tb_lasti)
        exception_being_handled(e)


def exception_being_handled(e):
    if has("PyThread.exc_value"):       # up to 3.6
        points(tstate, "PyThread.exc_type", type(e))
        points(tstate, "PyThread.exc_value", e)
        points(tstate, "PyThread.exc_traceback", sys.exc_info()[2])
        return
    item = read(tstate, "PyThread.exc_info")
    # the innermost that has something: frames of generators and this one push items of their own up to 3.10
    while item and not read(item, "PyErrItem.exc_value"):
        item = read(item, "PyErrItem.previous_item")
    check("PyThread.exc_info", bool(item), True)
    points(item, "PyErrItem.exc_value", e)
    points(item, "PyErrItem.exc_type", type(e))
    points(item, "PyErrItem.exc_traceback", e.__traceback__)
    expect(tstate, "PyThread.exc_state", item)
    expect(item, "PyErrItem.previous_item", 0)


def frames():
    here = sys._getframe()
    local_value = object()
    a = id(here)
    below = here.f_back
    expect(a, "PyFrameObject.f_trace", 0)
    if has("PyThread.frame"):
        points(a, "PyFrameObject.f_back", below)
        points(a, "PyFrameObject.f_code", here.f_code)
        points(a, "PyFrameObject.f_globals", here.f_globals)
        points(a, "PyFrameObject.f_builtins", builtins.__dict__)
        expect(a, "PyFrameObject.f_locals", 0)
        first = read(a, "PyFrameObject.f_localsplus")
        names = here.f_code.co_varnames
        check("PyFrameObject.f_localsplus", word(first + W * names.index("local_value")), id(local_value))
        n = len(names) + len(here.f_code.co_cellvars) + len(here.f_code.co_freevars)
        expect(a, "PyFrameObject.f_valuestack", first + W * n)
        expect(a, "PyFrameObject.f_executing", 1)
        expect(a, "PyFrameObject.f_state", 0)
        expect(a, "PyFrameObject.f_stacktop", 0)
        if has("PyFrameObject.f_stackdepth"):
            check("PyFrameObject.f_stackdepth", -1 <= read(a, "PyFrameObject.f_stackdepth") <= 20, True)
        unit = 2 if sys.version_info >= (3, 10) else 1
        before = here.f_lasti
        check("PyFrameObject.f_lasti", 0 < read(a, "PyFrameObject.f_lasti") * unit - before < 100, True)
        try:
            check("PyFrameObject.f_iblock", read(a, "PyFrameObject.f_iblock"), 1)
            block = read(a, "PyFrameObject.f_blockstack")
            check("PyTryBlock.b_type", read(block, "PyTryBlock.b_type"), 122)   # SETUP_FINALLY
            check("PyTryBlock.b_level", read(block, "PyTryBlock.b_level"), 0)
            check("PyTryBlock.b_handler", 0 < read(block, "PyTryBlock.b_handler") < len(here.f_code.co_code), True)
            check("PyFrameObject.f_blockstack", True, True)
        finally:
            pass
        thread_frame = read(tstate, "PyThread.frame")
        seen = []
        while thread_frame and len(seen) < 50:
            seen.append(thread_frame)
            thread_frame = read(thread_frame, "PyFrameObject.f_back")
        check("PyThread.frame", id(here) in seen and id(below) in seen, True)
        if has("PyThread.cframe"):
            check("PyThread.root_cframe", 0 < read(tstate, "PyThread.root_cframe") - tstate < sizes["PyThread"], True)
            # The first one lies in the thread state, and nobody sets what it has as previous (Python/pystate.c, new_threadstate).
            at, n = read(tstate, "PyThread.cframe"), 0
            while at != read(tstate, "PyThread.root_cframe") and n < 50:
                at, n = read(at, "PyCFrame.previous"), n + 1
            check("PyCFrame.previous", n < 50, True)
            check("PyThread.cframe", True, True)
        return
    inner = read(a, "PyFrameObject.f_frame")
    check("PyFrameObject.f_frame", read(inner, "PyFrame.frame_obj"), a)
    check("PyFrame.frame_obj", True, True)
    check("PyFrame.code", read(inner, "PyFrame.code") & ~3, id(here.f_code))
    check("PyFrame.func", read(inner, "PyFrame.func") & ~3, id(frames))
    points(inner, "PyFrame.globals", here.f_globals)
    points(inner, "PyFrame.builtins", builtins.__dict__)
    expect(inner, "PyFrame.locals", 0)
    expect(inner, "PyFrame.owner", 0)
    first = read(inner, "PyFrame.localsplus")
    names = here.f_code.co_varnames
    check("PyFrame.localsplus", word(first + W * names.index("local_value")) & ~3, id(local_value))
    outer = read(inner, "PyFrame.previous")
    check("PyFrame.previous", read(outer, "PyFrame.code") & ~3, id(below.f_code))
    for name in ("PyFrame.instr_ptr", "PyFrame.prev_instr"):
        if has(name):
            start = read(id(below.f_code), "PyCode.co_code_adaptive")
            at = read(outer, name) - start
            # where the caller is: its f_lasti, or within the call that runs (with its caches)
            check(name, 0 <= at - below.f_lasti <= 20, True)
    if has("PyFrame.stacktop"):     # -1 while it runs itself; saved while Python that it called runs, as read does here
        n = read(id(here.f_code), "PyCode.co_nlocalsplus")
        check("PyFrame.stacktop", n <= read(inner, "PyFrame.stacktop") <= n + here.f_code.co_stacksize, True)
    if has("PyFrame.stackpointer"):
        at = read(outer, "PyFrame.stackpointer") - read(outer, "PyFrame.localsplus")
        check("PyFrame.stackpointer", 0 <= at // W <= read(id(below.f_code), "PyCode.co_nlocalsplus") + below.f_code.co_stacksize, True)
    if has("PyThread.current_frame"):
        frame = read(tstate, "PyThread.current_frame")
        name = "PyThread.current_frame"
    else:
        cframe = read(tstate, "PyThread.cframe")
        frame = read(cframe, "PyCFrame.current_frame")
        name = "PyThread.cframe"
        check("PyCFrame.current_frame", True, True)
        check("PyThread.root_cframe", read(tstate, "PyThread.root_cframe") - tstate < sizes["PyThread"], True)
        root = cframe
        while read(root, "PyCFrame.previous"):
            root = read(root, "PyCFrame.previous")
        check("PyCFrame.previous", root, read(tstate, "PyThread.root_cframe"))
    seen = []
    while frame and len(seen) < 50:
        seen.append(frame)
        frame = read(frame, "PyFrame.previous")
    check(name, inner in seen and outer in seen, True)
    if has("PyThread.base_frame"):
        check("PyThread.base_frame", read(tstate, "PyThread.base_frame"), seen[-1])
    if has("PyFrame.is_entry"):     # a call out of the evaluation loop itself is none
        called = []
        sorted([1], key=lambda x: called.append(read(read(id(sys._getframe()), "PyFrameObject.f_frame"), "PyFrame.is_entry")))
        check("PyFrame.is_entry", (called, read(inner, "PyFrame.is_entry")), ([1], 0))
    chunk = read(tstate, "PyThread.datastack_chunk")
    check("PyThread.datastack_chunk", chunk < inner < read(tstate, "PyThread.datastack_limit"), True)
    check("PyThread.datastack_limit", read(tstate, "PyThread.datastack_limit"), chunk + read(chunk, "PyStackChunk.size"))
    check("PyThread.datastack_top", inner < read(tstate, "PyThread.datastack_top") <= read(tstate, "PyThread.datastack_limit"), True)
    check("PyStackChunk.size", read(chunk, "PyStackChunk.size"), 16384)
    check("PyStackChunk.previous", read(chunk, "PyStackChunk.previous"), 0)
    check("PyStackChunk.data", read(chunk, "PyStackChunk.data") <= inner, True)


def frame_left():
    """A frame object that outlived its call."""
    def f():
        kept = b"kept"      # noqa: F841
        return sys._getframe()
    frame = f()
    if has("PyFrameObject.f_frame_data"):
        check("PyFrameObject.f_frame_data", read(id(frame), "PyFrameObject.f_frame"), read(id(frame), "PyFrameObject.f_frame_data"))
        expect(read(id(frame), "PyFrameObject.f_frame"), "PyFrame.owner", 2)
        points(id(frame), "PyFrameObject.f_back", sys._getframe())


def lines():
    """The line of a frame is in it while it is traced."""
    seen = []

    def local(frame, event, arg):
        if event == "line":
            seen.append((read(id(frame), "PyFrameObject.f_lineno"), frame.f_lineno))
        return local

    def body():
        one = 1
        two = one
        return two
    sys.settrace(lambda frame, event, arg: local if frame.f_code is body.__code__ else None)
    body()
    sys.settrace(None)
    first = body.__code__.co_firstlineno
    check("PyFrameObject.f_lineno", seen, [(first + i, first + i) for i in (1, 2, 3)])


def collected():
    """What stands before an object that the collector knows; not in free-threaded builds."""
    if "PyGCHead" not in sizes or sysconfig.get_config_var("Py_GIL_DISABLED"):
        return
    known = [[]]
    head = id(known) - sizes["PyGCHead"]
    after, before = read(head, "PyGCHead.next") & ~3, read(head, "PyGCHead.prev") & ~3
    check("PyGCHead.next", read(after, "PyGCHead.prev") & ~3, head)
    check("PyGCHead.prev", read(before, "PyGCHead.next") & ~3, head)


def static_collector():
    """Up to 3.6 the generations are a variable of the program; what leads to the first of them has a name."""
    first = ctypes.c_void_p.in_dll(ctypes.pythonapi, "_PyGC_generation0").value - int(fields["PyGCGeneration.head"][1])
    found = tuple(read(first + i * sizes["PyGCGeneration"], "PyGCGeneration.threshold") for i in range(3))
    check("PyGCGeneration.threshold", found, gc.get_threshold())
    check("PyGCGeneration.count", read(first + sizes["PyGCGeneration"], "PyGCGeneration.count"), gc.get_count()[1])
    head = read(first, "PyGCGeneration.head")
    check("PyGCGeneration.head", read(read(head, "PyGCHead.next"), "PyGCHead.prev"), head)


def collector(at, field):
    """The collector's state, which the field of the runtime or the interpreter leads to."""
    if not has("PyGC.generations"):
        return
    first, size, thresholds = read(at, "PyGC.generations"), sizes["PyGCGeneration"], gc.get_threshold()
    found = tuple(read(first + i * size, "PyGCGeneration.threshold") for i in range(len(thresholds)))
    check("PyGCGeneration.threshold", found, thresholds)
    check("PyGC.generations", found, thresholds)
    check(field, found, thresholds)
    check("PyGCGeneration.count", read(first + size, "PyGCGeneration.count"), gc.get_count()[1])
    expect(at, "PyGC.collecting", 0)
    check("PyGCGeneration.head", read(first, "PyGCGeneration.head"), first)
    if not sysconfig.get_config_var("Py_GIL_DISABLED"):     # those have the fields and no lists
        expect(at, "PyGC.generation0", first)
        lone = read(at, "PyGC.permanent")
        check("PyGC.permanent", read(read(lone, "PyGCHead.next") & ~3, "PyGCHead.prev") & ~3, lone)


def named_error():
    e = OSError(2, "text", "one") if PY2 else OSError(2, "text", "one", None, "two")
    points(id(e), "PyOSError.filename", e.filename)
    if has("PyOSError.filename2"):
        points(id(e), "PyOSError.filename2", e.filename2)


def shutting_down(interp):
    """Set before the exit handlers: up to 3.11 of a further interpreter alone, which ends while the main one goes on."""
    if sys.version_info >= (3, 12):
        atexit.register(lambda: expect(interp, "PyInterp.shutting_down", 1))
        return
    import _xxsubinterpreters as interpreters
    result, out = os.pipe()
    further = interpreters.create()
    interpreters.run_string(further, """if True:
        import atexit, ctypes, os
        get = getattr(ctypes.pythonapi, "PyInterpreterState_Get", None) or ctypes.pythonapi._PyInterpreterState_Get
        get.restype = ctypes.c_void_p
        at = ctypes.c_int.from_address(get() + %d)
        before = at.value
        atexit.register(lambda: os.write(%d, b"%%d%%d" %% (before, at.value)))
    """ % (int(fields["PyInterp.shutting_down"][1]), out))
    interpreters.destroy(further)
    check("PyInterp.shutting_down", os.read(result, 2), b"01")


def runtime():
    api = ctypes.pythonapi
    api.PyThreadState_GetDict.restype = ctypes.c_void_p
    expect(tstate, "PyThread.thread_id", threading.get_ident() & TOP)  # 2.7's is signed
    if has("PyThread.native_thread_id"):
        expect(tstate, "PyThread.native_thread_id", threading.get_native_id())
    expect(tstate, "PyThread.dict", api.PyThreadState_GetDict())
    if hasattr(api, "PyThreadState_GetID"):
        api.PyThreadState_GetID.restype = ctypes.c_uint64
        expect(tstate, "PyThread.id", api.PyThreadState_GetID(ctypes.c_void_p(tstate)))
    else:
        expect(tstate, "PyThread.id", 1)    # the first
    started, stop = threading.Event(), threading.Event()
    other = threading.Thread(target=lambda: (started.set(), stop.wait()))
    other.daemon = True
    other.start()
    started.wait()
    interp = read(tstate, "PyThread.interp")
    # 3.7 and before: there is but one
    get = getattr(api, "PyInterpreterState_Get", None) or getattr(api, "_PyInterpreterState_Get", None) or api.PyInterpreterState_Head
    get.restype = ctypes.c_void_p
    check("PyThread.interp", interp, get())
    head = read(interp, "PyInterp.tstate_head")
    check("PyInterp.tstate_head", read(head, "PyThread.thread_id"), other.ident & TOP)
    check("PyThread.next", read(head, "PyThread.next"), tstate)
    if has("PyThread.prev"):
        check("PyThread.prev", (read(tstate, "PyThread.prev"), read(head, "PyThread.prev")), (head, 0))
    expect(tstate, "PyThread.next", 0)
    stop.set()
    other.join()
    expect(interp, "PyInterp.next", 0)
    expect(interp, "PyInterp.id", 0)
    points(interp, "PyInterp.modules", sys.modules)
    points(interp, "PyInterp.sysdict", sys.__dict__)
    points(interp, "PyInterp.builtins", builtins.__dict__)
    if has("PyInterp.importlib"):
        points(interp, "PyInterp.importlib", sys.modules["_frozen_importlib"])
    expect(interp, "PyInterp.finalizing", 0)
    if hasattr(api, "PyInterpreterState_GetDict"):
        api.PyInterpreterState_GetDict.restype = ctypes.c_void_p
        expect(interp, "PyInterp.dict", api.PyInterpreterState_GetDict(ctypes.c_void_p(interp)))
    if has("PyInterp.threads_main"):
        expect(interp, "PyInterp.threads_main", tstate)
    for name in ("curexc_type", "curexc_value", "curexc_traceback", "current_exception"):
        expect(tstate, "PyThread." + name, 0)
    if has("PyInterp.shutting_down"):
        expect(interp, "PyInterp.shutting_down", 0)
        shutting_down(interp)
    if "PyRuntime" not in sizes:        # up to 3.6
        static_collector()
        return
    address = ctypes.addressof(ctypes.c_char.in_dll(api, "_PyRuntime"))
    expect(interp, "PyInterp.runtime", address)
    expect(interp, "PyInterp.initial_thread", tstate)
    expect(address, "PyRuntime.interp_head", interp)
    expect(address, "PyRuntime.interp_main", interp)
    expect(address, "PyRuntime.main_interp", interp)
    expect(address, "PyRuntime.main_thread", threading.main_thread().ident)
    expect(address, "PyRuntime.main_tstate", tstate)
    expect(address, "PyRuntime.finalizing", 0)
    expect(address, "PyRuntime.core_initialized", 1)
    expect(address, "PyRuntime.initialized", 1)
    for at, field in ((interp, "PyInterp.gc"), (address, "PyRuntime.gc")):
        if has(field):
            collector(read(at, field), field)
    expect(address, "PyRuntime.auto_interp", interp)
    expect(address, "PyRuntime.gil_tstate_current", tstate)
    threaded = int(bool(sysconfig.get_config_var("Py_GIL_DISABLED")))
    expect(address, "PyRuntime.gil_locked", 1)
    expect(address, "PyRuntime.gil_last_holder", tstate)
    if has("PyRuntime.gil"):
        gil = read(address, "PyRuntime.gil")
        check("PyRuntime.gil", read(gil, "PyGil.locked"), 1)
    elif has("PyInterp.gil"):
        gil = read(interp, "PyInterp.gil")
        expect(interp, "PyInterp.gil", read(interp, "PyInterp.own_gil"))
        expect(interp, "PyInterp.own_gil", gil)
        expect(interp, "PyInterp.gil_last_holder", tstate)
        expect(interp, "PyInterp.gil_locked", 1 - threaded)
        expect(interp, "PyInterp.gil_enabled", 0)
    expect(gil, "PyGil.last_holder", tstate)
    expect(gil, "PyGil.locked", 1 - threaded)
    expect(tstate, "PyThread.holds_gil", 1)
    expect(tstate, "PyThread.state", 1)
    if "PyDebugOffsets" in sizes:
        check("PyDebugOffsets.cookie", memory(address, 8), b"xdebugpy")
        expect(address, "PyDebugOffsets.version", sys.hexversion)
        expect(address, "PyDebugOffsets.free_threaded", threaded)
        for field, (kind, _) in fields.items():
            if field.startswith("PyDebugOffsets.") and kind.startswith("off:"):
                wanted = fields.get(kind[4:])
                expect(address, field, int(wanted[1]) if wanted else 0)
            elif field.startswith("PyDebugOffsets.") and kind.startswith("size:"):
                expect(address, field, sizes[kind[5:]])


ctypes.pythonapi.PyThreadState_Get.restype = ctypes.c_void_p
tstate = ctypes.pythonapi.PyThreadState_Get()
parse(TABLE, own_column())   # noqa: F821
objects()
frames()
frame_left()
lines()
collected()
named_error()
runtime()


@atexit.register
def unasked():
    for field in sorted(set(fields) - checked - {"PyInterp.shutting_down"}):
        print(field, "unasked")
