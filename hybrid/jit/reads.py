"""What traced Python code reads of Python objects, found out while it runs.

A profile hook sees every function of the user's that is called during the trace: helpers, methods, properties. The
names in their code are looked up on what they can reach (globals, variables of enclosing functions, default values,
arguments, and what those lead to), and every place that is found so becomes part of the trace's guard
(hybrid/jit/free_variables.py). Code of Python's own library and of this one is left out.
"""
from __future__ import annotations

import builtins
import abc
import dis
import enum
import functools
import io
import itertools
import logging
import operator
import os
import random
import sys
import threading
import warnings
import weakref
from array import array as Buffer
from collections import deque
from collections.abc import Iterator
from contextvars import ContextVar
from types import (BuiltinFunctionType, CodeType, FrameType, FunctionType, GeneratorType, GetSetDescriptorType,
                   MappingProxyType, MemberDescriptorType, MethodType,
                   ModuleType)
from typing import Any, Callable

import numpy as np

from ..buffers.array import NDArray
from ..base.errors import TraceError
from ..base.profiling import Hooked
from .free_variables import GONE, Contents, Guard, OfThread, Place, attributes, on_class, told
from ..graph.symbol import Symbol
from . import answers
from ..graph.traced_number import TracedNumber
from .surroundings import READERS, kind_of, line_of

_OWN = frozenset({"hybrid", "numpy", "cupy", "scipy", "cffi"})
_CLASSES = frozenset({"NDArray", "ndarray", "__name__", "__qualname__", "__module__"})
_STDLIB = os.path.dirname(os.__file__)
_ALL = frozenset({"vars", "__dict__", "asdict", "astuple", "attrgetter", "__getattribute__", "fields"})
_ASKS = frozenset({"getattr", "hasattr", "setattr", "attrgetter"})
_NAMED_BY_TEXT = frozenset({"globals", "vars", "modules", "import_module", "__dict__"})     # code that names globals so
_ALWAYS = frozenset({"forward", "hybrid_forward", "__call__"})       # of blocks: this library calls them
_PLAIN = (int, float, complex, str, bytes, type(None), np.generic, np.dtype, Symbol, NDArray)
_BOXES = (dict, list, tuple, set, frozenset, deque, bytearray, memoryview, Buffer, MappingProxyType, np.ndarray,
          ContextVar, os._Environ)
_NUMBERED = (itertools.count, itertools.repeat)
_VALUES = (int, float, complex, str, bytes)
_UNLOCKING = frozenset({"acquire", "release", "__enter__", "__exit__", "acquire_lock", "release_lock"})
_STATES = frozenset({"get_state", "getstate", "state", "bit_generator"})
_KEPT = 256                     # results of a function with a cache that are compared
_DEFAULTS = FunctionType.__dict__["__defaults__"]
_KWDEFAULTS = FunctionType.__dict__["__kwdefaults__"]
_CODE = FunctionType.__dict__["__code__"]
_CLASS = object.__dict__["__class__"]
_EXACT = frozenset(_VALUES) | {bool}
# what a module of a library has that code reads and a program depends on: no streams, locks and other services
_CONSTANT = (FunctionType, BuiltinFunctionType, type, np.ufunc, functools.partial, int, float, complex, str, bytes,
             type(None))


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
        value, (np.ndarray, *_PLAIN)) and not cls.__module__.startswith("hybrid")


def _is_plain(value: Any) -> bool:
    """Whether a value holds nothing that could change: a number or text, but not of a user's class with attributes."""
    return isinstance(value, _PLAIN) and not (isinstance(value, _VALUES) and type(value) not in _EXACT
                                              and not is_library(type(value).__module__)
                                              and not isinstance(value, enum.Enum))


@functools.lru_cache(4096)
def _imports_of(code: CodeType) -> tuple[str, ...]:
    """Modules that some code imports by their full name."""
    return tuple(i.argval for i in dis.get_instructions(code) if i.opname == "IMPORT_NAME")


@functools.lru_cache(4096)
def _reads_any(code: CodeType) -> bool:
    """Whether some code reads attributes by names that it makes while it runs, or by the patterns of ``match``."""
    asking, named = False, False
    for i in dis.get_instructions(code):
        if i.opname == "MATCH_CLASS":
            return True
        if i.opname in ("LOAD_GLOBAL", "LOAD_NAME") and i.argval in ("getattr", "hasattr"):
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
def _globals_of(code: CodeType) -> frozenset[str]:
    """Names that some code reads as globals; attributes may have the same ones."""
    return frozenset(i.argval for i in dis.get_instructions(code) if i.opname in ("LOAD_GLOBAL", "LOAD_NAME"))


@functools.lru_cache(4096)
def _types_asked(code: CodeType) -> tuple[tuple[str, int], ...]:
    """Variables whose class some code asks for by ``type()``, with the lines."""
    if "type" not in code.co_names:
        return ()
    found, line, called = [], code.co_firstlineno, False
    for i in dis.get_instructions(code):
        where: Any = getattr(i, "positions", None)
        line = where and where.lineno or line
        if called and i.opname in ("LOAD_FAST", "LOAD_FAST_BORROW", "LOAD_FAST_CHECK", "LOAD_DEREF"):
            found.append((i.argval, line))
        called = i.opname == "LOAD_GLOBAL" and i.argval == "type" or called and i.opname in ("PUSH_NULL", "PRECALL")
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
                                                          Iterator) and is_library(cls.__module__) and not isinstance(
            value, io.IOBase)


class Reader:
    """The places that the code which runs meanwhile reads. Use it as a context around the call."""

    def __init__(self, note_array: Callable[[NDArray, Place], Any]):
        # told of each array and where it is, before the code reads it
        self._note_array = note_array
        self.names: set[str] = set(_ALWAYS)
        self.asked: set[str] = set()                           # names given to getattr
        self.every = False                                     # whether code reads attributes that no name tells of
        self.places: dict[Any, Any] = {}
        self.values: dict[Any, Any] = {}                       # what they held when they were found
        self._codes: dict[int, CodeType] = {}                  # of the user's that ran
        self._others: dict[int, CodeType] = {}
        self._functions: dict[int, list[FunctionType]] = {}    # found, by their code
        self._fresh: dict[int, Any] = {}                       # objects that the code itself makes
        self._done: dict[int, Any] = {}
        self._roots: list[Any] = []
        self._spaces: list[tuple[dict[str, Any], frozenset[str]]] = []
        self.drew: list[str] = []                              # generators of random numbers that code drew from
        self.types: list[tuple[str, str]] = []                 # (line, variable) of traced values given to type()
        self.callers = ""                                      # the line that looks at what called the function
        self.outside: dict[str, str] = {}                      # what of the machine it read: where
        self._stood: list[tuple[Any, Any]] = []                # (what can be drawn from, where it stood)
        self._resumable: dict[int, GeneratorType[Any, Any, Any]] = {}     # generators among them, by their frames' id
        self._resumed: dict[int, str] = {}                     # those that ran on, and their lines
        self._at = ""
        self._opaque: dict[int, Any] = {}                      # objects whose state nothing shows
        self._memos: list[Any] = []                            # functions with a cache
        self._finished = False

    # ---- the hook
    def __enter__(self) -> "Reader":
        self._hooked = Hooked(self._hook)
        self._hooked.install()
        return self

    def __exit__(self, *_: object) -> None:
        self._hooked.remove()

    def _hook(self, frame: FrameType, event: str, arg: Any) -> None:
        code = frame.f_code
        if event == "c_call" and arg.__name__ in READERS:
            self._surroundings(frame, arg)
        elif event == "c_call" and self._opaque and id(getattr(arg, "__self__", None)) in self._opaque:
            self._asked_opaque(frame, arg)
        elif event == "c_call" and arg is sys._getframe:
            self._stack(frame)
        elif event == "c_call" and arg is warnings.warn and not is_library(frame.f_globals.get("__name__") or ""):
            self._put(answers.Answer(warnings, "filters", lambda: answers.raises_warnings(warnings.filters)))
        elif event == "call" and self._resumable and id(frame) in self._resumable:
            self._resumed[id(frame)] = f"{code.co_filename}:{code.co_firstlineno}"
        if id(code) in self._others:
            return
        if event == "return" and _types_asked(code):
            self._types(frame)
        elif event == "call":
            if id(code) not in self._codes:
                if is_library(frame.f_globals.get("__name__") or ""):
                    self._others[id(code)] = code
                    return
                self._enter(code, frame.f_globals)
                self._named(code, frame.f_locals)
            self._arguments(code, frame.f_locals)
        elif event == "c_call" and self._stood and (arg is next or getattr(arg, "__self__", None) is not None):
            if arg is next or any(arg.__self__ is s for s, _ in self._stood):
                self._at = f"{code.co_filename}:{frame.f_lineno}"

    def _surroundings(self, frame: FrameType, function: Any) -> None:
        """A built-in function is called that may read clocks, files, …"""
        kind = kind_of(function, frame)
        line = kind and line_of(frame, kind, is_library)
        if kind and line:
            self.outside.setdefault(kind, line)

    def _asked_opaque(self, frame: FrameType, method: Any) -> None:
        """A method is called of an object whose state nothing shows."""
        if method.__name__ not in _UNLOCKING:
            kind = f"the state of a {type(method.__self__).__name__}"
            line = line_of(frame, kind, is_library)
            if line:
                self.outside.setdefault(kind, line)

    def _stack(self, frame: FrameType) -> None:
        """Code asks for a frame: one beyond the function that is compiled belongs to whoever calls it."""
        asks = frame.f_back if frame.f_globals.get("__name__") == "inspect" else frame
        above = asks and asks.f_back
        if (asks and above and not is_library(asks.f_globals.get("__name__") or "")
            and (above.f_globals.get("__name__") or "").startswith("hybrid.")
                and (answers.BEYOND & {*asks.f_code.co_names}
                     or asks is frame and any(type(c) is int and c > 0 for c in asks.f_code.co_consts))):
            self.callers = self.callers or f"{asks.f_code.co_filename}:{asks.f_lineno}"

    def _types(self, frame: FrameType) -> None:
        """Code has asked for the class of one of its variables: that of a traced value is not what it will be.

        Only hybrid_forward is told by Gluon's contract that its inputs are Symbols while it is traced.
        """
        if frame.f_code.co_name == "hybrid_forward":
            return
        # of arrays only what compares with their classes, or reads the name, can tell them apart
        names_classes = not _CLASSES.isdisjoint(frame.f_code.co_names)
        for name, line in _types_asked(frame.f_code):
            value = frame.f_locals.get(name)
            if type(value) is TracedNumber:
                value._looked("type() of it is asked for")
            elif names_classes and isinstance(value, Symbol):
                self.types.append((f"{frame.f_code.co_filename}:{line}", name))

    def _enter(self, code: CodeType, space: dict[str, Any]) -> None:
        self._codes[id(code)] = code
        named = frozenset(code.co_names)
        self.names |= named
        self.every = self.every or bool(named & _ALL) or _reads_any(code)
        for module in _imports_of(code):
            self._imported(module)
        if named & _ASKS:
            self.asked.update(c for c in code.co_consts if isinstance(c, str) and c.isidentifier())
            self.names |= self.asked
        if "environ" in named or "getenv" in named:
            self._keys = getattr(self, "_keys", frozenset()) | {c for c in code.co_consts if isinstance(c, str)}
        texts = {c for c in code.co_consts if isinstance(c, str)} if named & _NAMED_BY_TEXT else frozenset()
        self._spaces.append((space, _globals_of(code) | texts))
        self._space(*self._spaces[-1])
        for fn in self._functions.get(id(code), ()):
            self._function(fn)

    def _named(self, code: CodeType, values: dict[str, Any]) -> None:
        """What code that runs for the first time names of its first argument, which was looked at with fewer names:
        iterators must be seen before they are advanced."""
        own = attributes(values.get(code.co_varnames[0])) if code.co_argcount else {}
        for name in code.co_names:
            if isinstance(own.get(name), (*_BOXES, Iterator)):
                self.walk(own[name])

    def _arguments(self, code: CodeType, values: dict[str, Any]) -> None:
        count = code.co_argcount + code.co_kwonlyargcount + bool(code.co_flags & 4) + bool(code.co_flags & 8)
        for i, name in enumerate(code.co_varnames[:count]):
            value = values.get(name)
            if i == 0 and code.co_name == "__init__":
                self._fresh[id(value)] = value
            elif not _is_plain(value) and not isinstance(value, _BOXES) and id(value) not in self._done and not (
                    _keeps_place(value)):
                self._roots.append(value)
                self.walk(value)

    # ---- roots
    def start(self, fn: Any, args: Any) -> None:
        """Look at the function that is called, and at its arguments."""
        self._roots.append(fn)
        self._done[id(fn)] = fn
        self._call(fn)
        self._given(args)

    def _call(self, fn: Any) -> None:
        while not isinstance(fn, FunctionType):
            if isinstance(fn, functools.partial):
                fn = fn.func
            elif isinstance(fn, MethodType):
                fn = fn.__func__
            else:
                return
        self._functions.setdefault(id(fn.__code__), []).append(fn)

    def _given(self, value: Any) -> None:
        """An argument: what containers hold is part of the signature."""
        if isinstance(value, (dict, list, tuple)):
            self._roots.append(type(value))
            self.walk(type(value))
            for v in (*value, *value.values()) if isinstance(value, dict) else value:
                self._given(v)
        elif not _is_plain(value) and not is_numeric(value) and not is_foreign_array(value):
            self._roots.append(value)
            self.walk(value)

    def finish(self, name: str) -> None:
        """Look once more, with the names of all the code that ran. TraceError where an iterator was advanced;
        generators of random numbers that were drawn from are in ``drew`` then."""
        self._done = {}
        for space, names in self._spaces:
            self._space(space, names)
        for root in self._roots:
            self.walk(root)
        for of in list(self._codes.values()):
            for module in _imports_of(of):
                self._imported(module)
        self._finished = True
        for memo in self._memos:
            self._memo(memo)
        for code in list(self._codes):
            for fn in self._functions.get(code, ()):
                self._function(fn)
        for value, stood in self._stood:
            stands = _moved(value)
            if stands == stood and stands is not GONE and all(self._resumable[r] is not value for r in self._resumed):
                continue
            if any(hasattr(value, drawing) for drawing in ("random", "rand", "random_raw", "spawn")):
                self.drew.append(f"a {type(value).__name__}")
            else:
                ran = next(iter(self._codes.values()), None)
                at = self._at or (f"{ran.co_filename}:{ran.co_firstlineno}" if ran else "<unknown>")
                raise TraceError(f"{at}: {name or 'this function'} took values from a {type(value).__name__} while it "
                                 f"was compiled; they would stay the same at every call. Take them outside and give "
                                 f"them as arguments.")

    def guard(self, fixed: Callable[[Any, NDArray], bool]) -> tuple[Guard, Any]:
        """The guard, and its stamp for what the places held when they were found. fixed: whether another array in a
        place is another trace."""
        keys = list(self.places)
        places = [self.places[k] for k in keys]
        values = [self.values[k] for k in keys]
        guard = Guard(places, frozenset(i for i, (p, v) in enumerate(zip(places, values)) if isinstance(v, NDArray)
                                        and fixed(p, v)))
        return guard, values

    # ---- places
    def _put(self, place: Any) -> Any:
        value = place.get()
        if place.key not in self.places and not isinstance(value, Symbol):
            self.places[place.key], self.values[place.key] = place, value
            if isinstance(value, NDArray) and value._ag is None:
                self._note_array(value, place)
        return value

    def _space(self, space: dict[str, Any], names: Any) -> None:
        """Variables of a module."""
        for name in sorted(names):
            if name not in space and name in vars(builtins):
                self._put(Place(space, name))                   # a global would take its place
                self._put(Place(vars(builtins), name))
            elif name in space and not (name in vars(builtins) and space[name] is vars(builtins)[name]):
                value = space[name]
                if not isinstance(value, ModuleType):
                    self._put(Place(space, name))
                self.walk(value)
            elif name in self.asked and name not in vars(builtins):
                self._put(Place(space, name))

    def _of_library(self, value: Any, cls: type) -> None:
        """What an object shows by other means than attributes."""
        if cls.__module__ in answers.OPAQUE:
            self._opaque[id(value)] = value
        elif isinstance(value, (operator.attrgetter, operator.methodcaller)):
            self.asked |= {n for text in value.__reduce__()[1] if isinstance(text, str) for n in text.split(".")}
            self.names |= self.asked
        elif isinstance(value, BaseException) and "args" in self.names:
            self._put(answers.Answer(value, "args", lambda: told(value.args)))

    def _function(self, fn: FunctionType) -> None:
        """A function that ran: variables of the enclosing function, default values."""
        if id(fn) in self._fresh:
            return
        for name, cell in zip(fn.__code__.co_freevars, fn.__closure__ or ()):
            if name != "__class__":
                self.walk(self._put(Place(cell, name)))
        self._put(Place(fn, _CODE))
        if fn.__defaults__:
            self.walk(self._put(Place(fn, _DEFAULTS)))
        if fn.__kwdefaults__:
            self.walk(self._put(Place(fn, _KWDEFAULTS)))

    def walk(self, value: Any) -> None:
        """Note what is read of a value."""
        if _is_plain(value) or value is GONE or id(value) in self._done or id(value) in self._fresh:
            return
        self._done[id(value)] = value
        if isinstance(value, ModuleType):
            self._module(value)
        elif isinstance(value, type):
            self._class(value)
        elif isinstance(value, FunctionType):
            self._of_function(value)
        elif isinstance(value, answers.MEMO):
            self._memo(value)
        elif isinstance(value, (MethodType, BuiltinFunctionType)):
            self._ask(answers.setting(value, value.__name__))
            self.walk(getattr(value, "__func__", None))
            if not isinstance(value.__self__, ModuleType):
                self.walk(value.__self__)
        elif isinstance(value, functools.partial):
            for part in (value.func, value.args, value.keywords):
                self.walk(part)
        elif isinstance(value, (staticmethod, classmethod)):
            self.walk(value.__func__)
        elif isinstance(value, property):
            for f in (value.fget, value.fset):
                self.walk(f)
        elif _keeps_place(value):
            if self.names & _STATES and isinstance(value, (random.Random, np.random.RandomState, np.random.Generator)):
                self._put(answers.Answer(value, "state", functools.partial(_moved, value)))
            if all(s is not value for s, _ in self._stood):
                self._stood.append((value, _moved(value)))
                if isinstance(value, GeneratorType) and value.gi_frame is not None:
                    self._resumable[id(value.gi_frame)] = value
        elif isinstance(value, _BOXES) or is_foreign_array(value):
            self._box(value)
        elif hasattr(type(value), "_signature_version"):
            self._block(value)
        elif type(value).__module__.split(".")[0] == "hybrid":
            self.walk(attributes(value).get("_fn"))             # a hybridized function
            self._numbers_of(value)
        else:
            self._object(value)

    def _module(self, module: ModuleType) -> None:
        if not is_library(module.__name__):
            self._space(vars(module), self.names & vars(module).keys() | self.asked)
            if "__getattr__" in vars(module):                   # what it gives for names that the module has not
                for name in (self.names - vars(module).keys()) | {"__getattr__"}:
                    self.walk(self._put(Place(vars(module), name)))
            return
        for name in sorted(self.names & vars(module).keys()):
            value = vars(module)[name]
            if isinstance(value, _CONSTANT):
                self._put(Place(vars(module), name))
            elif isinstance(value, ModuleType):
                self.walk(value)
            elif type(value) is list and module is sys:         # arguments of the process, folders of modules
                self.walk(self._put(Place(vars(module), name)))
            self._ask(answers.setting(value, name))
        if "__getattr__" in vars(module) and module.__name__.startswith("hybrid"):      # it makes operators when asked
            kept = vars(module).get("_kept")
            made = kept.among(self.names) if kept is not None else []
            for name in sorted({*made, *(self.names - vars(module).keys()).intersection(dir(module))}):
                self._put(Place(vars(module), name))
        if module is os and self.names & {"environ", "getenv"}:
            self.walk(os.environ)

    def _imported(self, name: str) -> None:
        """A module that code imports while it runs."""
        module = sys.modules.get(name)
        if isinstance(module, ModuleType):
            if not is_library(name):
                self._put(Place(sys.modules, name))
            self.walk(module)

    def _ask(self, place: Any) -> None:
        if place is not None:
            self._put(place)

    def _memo(self, memo: Any) -> None:
        """A function with a cache: what it keeps, which may change inside, and whether it forgets."""
        if is_library(memo.__module__ or ""):
            return
        if all(m is not memo for m in self._memos):
            self._memos.append(memo)
        self.walk(memo.__wrapped__)
        for result in answers.kept_results(memo):
            self.walk(result)
        if self._finished and answers.memory_of(memo):
            self._put(answers.memory(memo, _KEPT))

    def _of_function(self, fn: FunctionType) -> None:
        if is_library(fn.__module__ or ""):
            self._ask(answers.setting(fn, fn.__name__))
            return
        self._shape(fn, FunctionType)
        self._functions.setdefault(id(fn.__code__), []).append(fn)
        if id(fn.__code__) in self._codes or self.names & {"signature", "getfullargspec"}:
            self._function(fn)
        wrapper = is_library(fn.__globals__.get("__name__") or "")         # as of functools.singledispatch
        for name in [n for n in vars(fn) if wrapper or self.every or n in self.names]:
            if isinstance(name, str) and not name.startswith("_hybrid_") and name != "__wrapped__":
                self.walk(self._put(Place(fn, name)))
        for name in self.asked - vars(fn).keys():
            self._put(Place(fn, name))
        self.walk(getattr(fn, "__wrapped__", None))

    def _box(self, value: Any) -> None:
        """A container, or an array of another library."""
        if type(value) is not tuple and type(value) is not frozenset:
            self._put(Contents(value, getattr(self, "_keys", frozenset()) if isinstance(value, os._Environ)
                               else frozenset()))
        self._ask(answers.state_of(value))
        if isinstance(value, (dict, MappingProxyType)):
            for k, v in list(value.items()):
                self.walk(k)
                self.walk(v)
        elif isinstance(value, np.ndarray) and value.dtype == object:
            for v in value.ravel():
                self.walk(v)
        elif isinstance(value, (list, tuple, set, frozenset, deque)):
            for v in list(value):
                self.walk(v)
        elif isinstance(value, ContextVar):
            self.walk(value.get(None))
        if type(value) not in (dict, list, tuple, set, frozenset, deque):
            self._object(value) if attributes(value) else self._class(type(value))

    def _class(self, cls: type) -> None:
        if is_library(cls.__module__):
            self._ask(answers.setting(cls, cls.__name__))
            return
        self._shape(cls, type)
        if not is_library(type(cls).__module__):
            self.walk(type(cls))
        if isinstance(cls, abc.ABCMeta):
            self._abstract(cls)
        if "__subclasses__" in self.names:
            self._put(answers.Answer(cls, "subclasses", lambda: tuple(map(id, cls.__subclasses__()))))
        named = self.names | {n for b in cls.__mro__ for n, v in vars(b).items()
                              if n.startswith("__") and isinstance(v, FunctionType) and id(v.__code__) in self._codes}
        for name in named | {"__match_args__"} if self.every else named:
            found = on_class(cls, name)
            if found is GONE and (name in self.asked or hasattr(type(cls), "__getattr__")):
                self._put(Place(cls, name))
            if found is not GONE and not isinstance(found,
                                                    (MemberDescriptorType,
                                                     GetSetDescriptorType)) and not _of_library(cls, name):
                self._put(Place(cls, name))
                self.walk(found)

    def _abstract(self, cls: type) -> None:
        """A class that others can be registered with, or that is told by what its objects have."""
        if self.names & {"isinstance", "issubclass"}:
            self._put(answers.Answer(cls, "registered", abc.get_cache_token))
            if getattr(cls, "_is_protocol", False):
                self.asked |= {n for n in vars(cls) if not n.startswith("_")}
                self.names |= self.asked

    def _shape(self, value: Any, kind: type) -> None:
        """A class or function whose name, text or bases code reads."""
        for name in self.names.intersection(answers.SHAPES):
            described = kind.__dict__.get(name)
            if hasattr(described, "__get__"):
                self._put(answers.Answer(value, name, functools.partial(_described, described, value, kind)))

    def _block(self, block: Any) -> None:
        """A network notes assignments to its attributes itself: what they hold is looked at."""
        self._class(type(block))
        if not hasattr(block, "forward"):                       # a Parameter, whose counter tells of its array alone
            self._numbers_of(block)
        elif self.names & answers.OF_OURS:
            for value in list(attributes(block).values()):
                if hasattr(type(value), "_signature_version"):
                    self.walk(value)
        if not is_library(type(block).__module__):
            for name, value in list(attributes(block).items()):
                if (name in self.names
                    or self.every) and not name.startswith("_hybrid") and not hasattr(type(value), "_signature_version"):  # noqa: E501
                    self.walk(value)

    def _numbers_of(self, value: Any) -> None:
        """Numbers and texts of an object of this library (a metric, a schedule, a parameter) that code reads by
        name."""
        own, cls = attributes(value), type(value)
        for name in self.names.intersection(own):
            if isinstance(own[name], (*_VALUES, type(None))):
                self._put(Place(value, name))
        for name in self.names & answers.OF_OURS:
            if isinstance(getattr(cls, name, None), property):
                self._put(answers.Answer(value, name, functools.partial(_told_property, value, name)))

    def _object(self, value: Any) -> None:
        """An object of any other class."""
        cls = type(value)
        kind = OfThread if isinstance(value, threading.local) else Place
        own = vars(value) if kind is OfThread else attributes(value)
        self._class(cls)
        if not is_library(cls.__module__):
            self._put(Place(value, _CLASS))
        self._ask(answers.state_of(value))
        self.walk(answers.leads_to(value))
        self._of_library(value, cls)
        if isinstance(value, logging.Logger) and self.names & {"isEnabledFor", "getEffectiveLevel"}:
            self._put(answers.level_of(value))
        every = self.every or any(map(answers.shows_state, cls.__mro__[:-1]))      # UserDict, Queue, WeakSet
        if self.every and own:
            self._put(answers.Answer(value, "names", lambda: tuple(n for n in attributes(value)
                                                                   if not str(n).startswith("_hybrid_"))))
        for name in [n for n in own if every or n in self.names]:
            if isinstance(name, str) and not name.startswith("_hybrid_"):
                self.walk(self._put(kind(value, name)))
        for name in self.names:
            if name in own:
                continue
            found = on_class(cls, name)
            if isinstance(found, MemberDescriptorType):
                self.walk(self._put(Place(value, found)))
            elif name in self.asked or found is not GONE and not hasattr(type(found), "__set__"):
                if kind is OfThread or cls.__getattribute__ is object.__getattribute__ and hasattr(value, "__dict__"):
                    self._put(kind(value, name))                # it may get one of its own


def _told_property(value: Any, name: str) -> Any:
    return told(getattr(value, name))


def _described(descriptor: Any, value: Any, kind: type) -> Any:
    return told(descriptor.__get__(value, kind))


def _of_library(cls: type, name: str) -> bool:
    """Whether what a class has under a name comes from a base that is a library's."""
    return next((is_library(b.__module__) for b in cls.__mro__ if name in b.__dict__), True)
