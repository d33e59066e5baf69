"""What traced Python code reads of Python objects, found out while it runs.

A profile hook sees every function of the user's that is called during the trace: helpers, methods, properties. The
names in their code are looked up on what they can reach (globals, variables of enclosing functions, default values,
arguments, and what those lead to), and every place that is found so becomes part of the trace's guard
(hybrid/jit/free_variables.py). Code of Python's own library and of this one is left out.
"""
from __future__ import annotations

import builtins
import dis
import functools
import io
import itertools
import operator
import os
import random
import sys
import threading
import warnings
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
from .free_variables import GONE, Contents, Guard, OfThread, Place, attributes, on_class
from ..graph.symbol import Symbol
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
_DEFAULTS = FunctionType.__dict__["__defaults__"]
_KWDEFAULTS = FunctionType.__dict__["__kwdefaults__"]
_CODE = FunctionType.__dict__["__code__"]
_CLASS = object.__dict__["__class__"]
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


def is_foreign_array(value: Any) -> bool:
    """Whether a value is another library's array, which can be converted."""
    cls = type(value)
    return (hasattr(cls, "__dlpack__") or hasattr(cls, "__array__")
            or hasattr(cls, "__array_interface__")) and not isinstance(
        value, (np.ndarray, *_PLAIN)) and not cls.__module__.startswith("hybrid")


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
        return (operator.length_hint(value, -1), numbered, within[2:] if len(within) > 2 else (),
                [_moved(p) for p in parts if isinstance(p, Iterator)])
    except Exception:  # noqa: BLE001  what another class's methods raise
        return GONE


def _keeps_place(value: Any) -> bool:
    if isinstance(value, (random.Random, np.random.Generator, np.random.RandomState)):
        return not isinstance(value, random.SystemRandom)
    cls = type(value)
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
        self.outside: dict[str, str] = {}                      # what of the machine it read: where
        self._stood: list[tuple[Any, Any]] = []                # (what can be drawn from, where it stood)
        self._at = ""

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
        self.every = self.every or bool(named & _ALL)
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
            elif not isinstance(value, (*_PLAIN, *_BOXES)) and id(value) not in self._done and not _keeps_place(value):
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
        if isinstance(value, (list, tuple)):
            for v in value:
                self._given(v)
        elif isinstance(value, dict):
            for v in value.values():
                self._given(v)
        elif not isinstance(value, (*_PLAIN, np.ndarray)) and not is_foreign_array(value):
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
        for code in list(self._codes):
            for fn in self._functions.get(code, ()):
                self._function(fn)
        for value, stood in self._stood:
            if _moved(value) == stood:
                continue
            if hasattr(value, "random") or hasattr(value, "rand"):
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
        if isinstance(value, _PLAIN) or value is GONE or id(value) in self._done or id(value) in self._fresh:
            return
        self._done[id(value)] = value
        if isinstance(value, ModuleType):
            self._module(value)
        elif isinstance(value, type):
            self._class(value)
        elif isinstance(value, FunctionType):
            self._of_function(value)
        elif isinstance(value, (MethodType, BuiltinFunctionType)):
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
            self._stood.append((value, _moved(value))) if all(s is not value for s, _ in self._stood) else None
        elif isinstance(value, _BOXES) or is_foreign_array(value):
            self._box(value)
        elif hasattr(type(value), "_signature_version"):
            self._block(value)
        elif type(value).__module__.split(".")[0] == "hybrid":
            self.walk(attributes(value).get("_fn"))             # a hybridized function
        else:
            self._object(value)

    def _module(self, module: ModuleType) -> None:
        if not is_library(module.__name__):
            self._space(vars(module), self.names & vars(module).keys() | self.asked)
            return
        for name in sorted(self.names & vars(module).keys()):
            value = vars(module)[name]
            if isinstance(value, _CONSTANT):
                self._put(Place(vars(module), name))
            elif isinstance(value, ModuleType):
                self.walk(value)
            elif type(value) is list and module is sys:         # arguments of the process, folders of modules
                self.walk(self._put(Place(vars(module), name)))
        if "__getattr__" in vars(module) and module.__name__.startswith("hybrid"):      # it makes operators when asked
            for name in sorted((self.names - vars(module).keys()).intersection(dir(module))):
                self._put(Place(vars(module), name))
        if module is os and self.names & {"environ", "getenv"}:
            self.walk(os.environ)

    def _of_function(self, fn: FunctionType) -> None:
        if is_library(fn.__module__ or ""):
            return
        self._functions.setdefault(id(fn.__code__), []).append(fn)
        if id(fn.__code__) in self._codes:
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
        if isinstance(value, (dict, MappingProxyType)):
            for v in list(value.values()):
                self.walk(v)
        elif isinstance(value, (list, tuple, set, frozenset, deque)):
            for v in list(value):
                self.walk(v)
        elif isinstance(value, ContextVar):
            self.walk(value.get(None))
        if type(value) not in (dict, list, tuple, set, frozenset, deque) and attributes(value):
            self._object(value)

    def _class(self, cls: type) -> None:
        if is_library(cls.__module__):
            return
        for name in self.names:
            found = on_class(cls, name)
            if found is not GONE and not isinstance(found,
                                                    (MemberDescriptorType,
                                                     GetSetDescriptorType)) and not _of_library(cls, name):
                self._put(Place(cls, name))
                self.walk(found)

    def _block(self, block: Any) -> None:
        """A network notes assignments to its attributes itself: what they hold is looked at."""
        self._class(type(block))
        if not is_library(type(block).__module__):
            for name, value in list(attributes(block).items()):
                if (name in self.names
                    or self.every) and not name.startswith("_hybrid") and not hasattr(type(value), "_signature_version"):  # noqa: E501
                    self.walk(value)

    def _object(self, value: Any) -> None:
        """An object of any other class."""
        cls = type(value)
        kind = OfThread if isinstance(value, threading.local) else Place
        own = vars(value) if kind is OfThread else attributes(value)
        self._class(cls)
        if not is_library(cls.__module__):
            self._put(Place(value, _CLASS))
        every = self.every or any(b.__module__ == "collections" for b in cls.__mro__)      # UserDict, ChainMap
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


def _of_library(cls: type, name: str) -> bool:
    """Whether what a class has under a name comes from a base that is a library's."""
    return next((is_library(b.__module__) for b in cls.__mro__ if name in b.__dict__), True)
