"""What the code of functions names, and what of the values it names can be compared: read without running either."""
from __future__ import annotations

import dis
import enum
import functools
import io
import itertools
import operator
import os
import random
import sys
import warnings
import weakref
from collections.abc import Iterator
from types import CodeType, GeneratorType
from typing import Any

import numpy as np

from ..base.names import module_of
from ..buffers.array import NDArray
from .free_variables import GONE
from ..graph.symbol import Symbol
from . import answers

_OWN = frozenset({"hybrid", "numpy", "cupy", "scipy", "cffi", "onnx"})
_ASKED_BY = frozenset({"type", "callable", "Symbol"})         # names in code that asks what its variables are
_STDLIB = os.path.dirname(os.__file__)
_PLAIN = (int, float, complex, str, bytes, type(None), np.generic, np.dtype, Symbol, NDArray)
_NUMBERED = (itertools.count, itertools.repeat)
_VALUES = (int, float, complex, str, bytes)
_EXACT = frozenset(_VALUES) | {bool}


@functools.cache
def is_library(module: str) -> bool:
    """Whether a module is Python's own, this library's or one that it stands on, whose state is not the user's."""
    top = module.split(".")[0]
    if top == "__main__":
        return False
    file = getattr(sys.modules.get(module), "__file__", None) or ""
    if not file and top in sys.stdlib_module_names or top in _OWN:
        return True
    return file.startswith(_STDLIB) and "site-packages" not in file and "dist-packages" not in file


def is_numeric(value: Any) -> bool:
    """Whether a value is a NumPy array that an array of this library can hold: no texts, dates, records, objects."""
    return isinstance(value, np.ndarray) and (value.dtype.kind in "biuf" or value.dtype.name == "bfloat16")


def is_foreign_array(value: Any) -> bool:
    """Whether a value is another library's array, which can be converted."""
    cls = type(value)
    return (hasattr(cls, "__dlpack__") or hasattr(cls, "__array__")
            or hasattr(cls, "__array_interface__")) and not isinstance(
        value, (np.ndarray, *_PLAIN)) and not module_of(cls).startswith("hybrid")


def _has_names(value: Any) -> bool:
    """Whether a value is a record of NumPy's, which is a view, or its dtype, whose names can change."""
    return isinstance(value, np.void) or isinstance(value, np.dtype) and value.names is not None


def _is_plain(value: Any) -> bool:
    """Whether a value holds nothing that could change: a number or text, but not of a user's class with attributes."""
    return isinstance(value, _PLAIN) and not (_has_names(value) or isinstance(value, _VALUES) and type(
        value) not in _EXACT
                                              and not is_library(module_of(type(value)))
                                              and not isinstance(value, enum.Enum))


@functools.lru_cache(4096)
def _imports_of(code: CodeType) -> tuple[str, ...]:
    """Modules that some code imports by their full name."""
    return tuple(i.argval for i in dis.get_instructions(code) if i.opname == "IMPORT_NAME")


def _compared_objects(code: CodeType) -> Iterator[str]:
    """For each ``x is y`` in some code, the instruction that loads y, where it is not a constant (``None``)."""
    before = ""
    for i in dis.get_instructions(code):
        if i.opname == "IS_OP" and before != "LOAD_CONST":
            yield before
        if i.opname != "CACHE":
            before = i.opname


@functools.lru_cache(4096)
def _tells_apart(code: CodeType) -> bool:
    """Whether some code asks which objects its variables are (``x is y``, ``id(x)``)."""
    return "id" in code.co_names or any(y.startswith(("LOAD_FAST", "LOAD_DEREF")) for y in _compared_objects(code))


@functools.lru_cache(4096)
def _tells_types(code: CodeType) -> bool:
    """Whether some code may ask by ``type`` which of its variables are Python's integers, in a way that sizes hear
    nothing of: ``type(n) is int``, ``issubclass(type(n), int)``. Attributes that are named so do not count."""
    return "type" in _globals_of(code) and ("issubclass" in code.co_names or any(True for _ in _compared_objects(code)))


def _reads_any(code: CodeType) -> bool:
    """Whether some code reads attributes by names that it makes while it runs, or by the patterns of ``match``."""
    asking, named = False, False
    for i in dis.get_instructions(code):
        if i.opname == "MATCH_CLASS":
            return True
        if i.opname in ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_ATTR", "LOAD_METHOD") and i.argval in ("getattr", "hasattr"):
            asking, named = True, False
        elif asking and i.opname in ("FORMAT_VALUE", "FORMAT_SIMPLE", "BUILD_STRING", "BINARY_OP", "BINARY_ADD"):
            return True
        elif asking and i.opname == "LOAD_CONST" and isinstance(i.argval, str):
            named = True
        elif asking and i.opname.startswith("CALL") and i.argval in (2, 3):
            if not named:
                return True
            asking = False
    return False


@functools.lru_cache(4096)
def _climbs(code: CodeType) -> bool:
    """Whether some code goes up the frames in a loop, as far as there are any."""
    steps = list(dis.get_instructions(code))
    inside = [(j.argval, j.offset) for j in steps if j.opname.startswith(("JUMP_BACKWARD", "POP_JUMP_BACKWARD"))]
    return any(i.argval == "f_back" and any(start <= i.offset <= stop for start, stop in inside) for i in steps)


@functools.lru_cache(4096)
def asks_what_is_handled(code: CodeType) -> bool:
    """Whether some code asks which error is being handled: by name, or by ``raise`` outside of an ``except``."""
    if "exc_info" in code.co_names or "__context__" in code.co_names or {"sys", "exception"} <= {*code.co_names}:
        return True
    for i in dis.get_instructions(code):
        if i.opname == "PUSH_EXC_INFO":
            return False
        if i.opname == "RAISE_VARARGS" and i.argval == 0:
            return True
    return False


_SHOWS = frozenset({"repr", "str", "format", "print", "copy", "deepcopy", "replace", "pformat"})


@functools.lru_cache(4096)
def _compares(code: CodeType) -> bool:
    """Whether some code compares objects by what is in them, or makes texts or copies of them: ``a == b``, ``repr(a)``.
    Comparisons of attributes and with constants are those of numbers."""
    before = ""
    for i in dis.get_instructions(code):
        if i.opname.startswith("FORMAT_") or i.opname == "COMPARE_OP" and i.argval in ("==", "!=") and before not in (
                "LOAD_CONST", "LOAD_ATTR"):
            return True
        if i.opname != "CACHE":
            before = i.opname
    return not _SHOWS.isdisjoint(code.co_names)


@functools.lru_cache(4096)
def _globals_of(code: CodeType) -> frozenset[str]:
    """Names that some code reads as globals; attributes may have the same ones."""
    return frozenset(i.argval for i in dis.get_instructions(code) if i.opname in ("LOAD_GLOBAL", "LOAD_NAME"))


@functools.lru_cache(4096)
def _types_asked(code: CodeType) -> tuple[tuple[str, int, str], ...]:
    """Variables of which some code asks what they are: by ``type()``, ``callable()``, or whether they are Symbols. With
    the lines, and how it asks; no variable (``""``) stands for any of them."""
    if not _ASKED_BY.intersection(code.co_names):
        return ()
    found: list[tuple[str, int, str]] = []
    variables: tuple[str, ...] = ()
    line, asks, last = code.co_firstlineno, "", ""
    for i in dis.get_instructions(code):
        where: Any = getattr(i, "positions", None)
        line = where and where.lineno or line
        if i.opname in ("LOAD_GLOBAL", "LOAD_NAME") and i.argval in ("type", "callable", "isinstance"):
            asks, variables, last = i.argval, (), ""
        elif i.opname.startswith(("LOAD_FAST", "LOAD_DEREF")):
            if asks and not variables:
                variables = i.argval if isinstance(i.argval, tuple) else (i.argval,)
                if asks != "isinstance":
                    found.append((variables[0], line, asks))
                    asks = ""
        elif i.opname in ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_ATTR", "LOAD_METHOD"):
            last = i.argval
        elif i.opname == "MATCH_CLASS" and last == "Symbol":
            found.append(("", line, "isinstance"))
        elif i.opname.startswith("CALL") and asks:
            found += [(v, line, asks) for v in variables[:1] if asks == "isinstance" and last == "Symbol"]
            asks = ""
        elif i.opname.startswith("BUILD_"):
            last = ""                                            # a tuple of classes, arrays probably among them
    return tuple(found)


def _moved(value: Any) -> Any:
    """Where a generator of random numbers or an iterator stands; GONE where nobody can tell."""
    try:
        if (stands := answers.position(value)) is not None:
            return stands
        if type(value).__name__ == "callable_iterator":          # of iter(function, end), re.finditer
            return GONE
        if isinstance(value, GeneratorType):
            return value.gi_frame and value.gi_frame.f_lasti
        if isinstance(value, random.Random):
            return value.getstate()
        if isinstance(value, np.random.Generator):
            return repr(value.bit_generator.state)
        if isinstance(value, np.random.RandomState):
            return repr(value.get_state())
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")                    # itertools will lose it
            within: tuple[Any, ...] = tuple(value.__reduce__()) if type(value) not in _NUMBERED else ()
        parts = within[1] if len(within) > 1 and isinstance(within[1], tuple) else ()
        numbered = repr(value) if type(value) in _NUMBERED else None
        return (operator.length_hint(value, -1), numbered, getattr(value, "line_num", None),
                within[2:] if len(within) > 2 else (),
                [_moved(p) for p in parts if isinstance(p, Iterator)])
    except Exception:  # noqa: BLE001  what another class's methods raise
        return GONE


def _keeps_place(value: Any) -> bool:
    if isinstance(value, (random.Random, np.random.Generator, np.random.RandomState)):
        return not isinstance(value, random.SystemRandom)
    if answers.position(value) is not None:
        return True
    cls = type(value)
    if cls in weakref.ProxyTypes:
        return False
    return isinstance(value, GeneratorType) or isinstance(value,
                                                          Iterator) and is_library(module_of(cls)) and not isinstance(
            value, io.IOBase)
