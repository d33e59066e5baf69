"""The places that values lead to: attributes, items, variables of enclosing functions, and what is found there."""
from __future__ import annotations

import builtins
import abc
import functools
import logging
import operator
import os
import random
import sys
import threading
import weakref
from array import array as Buffer
from collections import deque
from contextvars import ContextVar
from types import (BuiltinFunctionType, FunctionType, GeneratorType, GetSetDescriptorType,
                   MappingProxyType, MemberDescriptorType, MethodType,
                   ModuleType, SimpleNamespace, WrapperDescriptorType)
from typing import Any, Sequence

import numpy as np

from ..base.names import module_of
from .free_variables import GONE, OF_BLOCKS, Contents, OfThread, Place, attributes, on_class, guard_value
from ..buffers.array import NDArray
from . import answers
from .fingerprint import words_of
from .found_places import FoundPlaces
from .in_c import places_of, told
from .settings import setting
from .code_reads import _VALUES, _is_plain, _keeps_place, _moved, is_foreign_array, is_library

_BOXES = (dict, list, tuple, set, frozenset, deque, bytearray, memoryview, Buffer, MappingProxyType, np.ndarray,
          ContextVar, os._Environ)
_STATES = frozenset({"get_state", "getstate", "state", "bit_generator"})
_RANDOM = (random.Random, np.random.RandomState, np.random.Generator, np.random.BitGenerator)
_OF_ERRORS = frozenset({"__cause__", "__context__", "__suppress_context__", "__traceback__"})
# functions that read attributes of any name, under whatever name code calls them
_READERS = (getattr, hasattr, vars, dir, operator.attrgetter, object.__getattribute__)
_MAKE_NAMES = frozenset({"format", "format_map", "methodcaller"})        # they read attributes that texts name
_KEPT = 256                     # results of a function with a cache that are compared
_DEFAULTS = FunctionType.__dict__["__defaults__"]
_KWDEFAULTS = FunctionType.__dict__["__kwdefaults__"]
_CODE = FunctionType.__dict__["__code__"]
_CLASS = object.__dict__["__class__"]
# what a module of a library has that code reads and a program depends on: no streams, locks and other services
_CONSTANT = (FunctionType, BuiltinFunctionType, type, np.ufunc, functools.partial, int, float, complex, str, bytes,
             type(None))


def _property_value(value: Any, name: str) -> Any:
    return guard_value(getattr(value, name))


def _described(descriptor: Any, value: Any, kind: type) -> Any:
    return guard_value(descriptor.__get__(value, kind))


def _of_library(cls: type, name: str) -> bool:
    """Whether what a class has under a name comes from a base that is a library's."""
    return next((is_library(module_of(b)) for b in cls.__mro__ if name in b.__dict__), True)


class Reachable(FoundPlaces):
    """The places that can be reached from values by the names that code was seen to use."""

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
        if module_of(cls) in answers.OPAQUE:
            self._opaque[id(value)] = value
        elif isinstance(value, (operator.attrgetter, operator.methodcaller)):
            self.asked |= {n for text in value.__reduce__()[1] if isinstance(text, str) for n in text.split(".")}
            self.names |= self.asked
        elif isinstance(value, BaseException):
            for name in {"args"} | self.names & _OF_ERRORS:
                self._put(answers.Answer(value, name, functools.partial(_property_value, value, name)))
        elif isinstance(value, super):
            for base in type(value.__self__).__mro__:            # type: ignore[attr-defined]
                self.walk(base)

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
        self.every = self.every or any(value is reads for reads in _READERS)
        if isinstance(value, ModuleType):
            self._module(value)
        elif isinstance(value, type):
            self._class(value)
        elif isinstance(value, FunctionType):
            self._of_function(value)
        elif isinstance(value, answers.MEMO):
            self._memo(value)
        elif isinstance(value, (MethodType, BuiltinFunctionType)):
            self._ask(setting(value, value.__name__))
            self.walk(getattr(value, "__func__", None))
            if not isinstance(value.__self__, ModuleType):
                self.walk(value.__self__)
        elif isinstance(value, functools.partial):
            self._state(value)
            for name in self.names:
                self.walk(self._put(Place(value, name)))
        elif isinstance(value, (staticmethod, classmethod, property)):
            self._state(value)
        elif _keeps_place(value):
            if self.names & _STATES or not isinstance(value, _RANDOM):
                self._put(answers.Answer(value, "state", lambda: told(_moved(value))))
            if all(s is not value for s, _ in self._stood):
                self._stood.append((value, _moved(value)))
                if isinstance(value, GeneratorType) and value.gi_frame is not None:
                    self._resumable[id(value.gi_frame)] = value
        elif isinstance(value, _BOXES) or is_foreign_array(value):
            self._box(value)
        elif hasattr(type(value), "_signature_version"):
            self._block(value)
        elif module_of(type(value)).split(".")[0] == "hybrid":
            self.walk(attributes(value).get("_fn"))             # a hybridized function
            self.library([type(value)])
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
                if isinstance(getattr(value, "__self__", None), _RANDOM):
                    self.walk(value)
            elif isinstance(value, ModuleType):
                self.walk(value)
            elif type(value) in (list, dict, set) and len(value) < _KEPT and value is not sys.modules:
                self.walk(self._put(Place(vars(module), name)))  # arguments of the process, filters of warnings
            else:
                self._ask(answers.kind_of(module, name))
                self.walk(value)
            self._ask(setting(value, name))
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

    def _memo(self, memo: Any) -> None:
        """A function with a cache: what it keeps, which may change inside, and whether it forgets."""
        if is_library(module_of(memo)):
            return
        if all(m is not memo for m in self._memos):
            self._memos.append(memo)
        self.walk(memo.__wrapped__)
        for result in answers.kept_results(memo):
            self.walk(result)
        if self._finished and answers.memory_of(memo):
            self._put(answers.memory(memo, _KEPT))

    def _of_function(self, fn: FunctionType) -> None:
        if is_library(module_of(fn)):
            self._ask(setting(fn, fn.__name__))
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
        if isinstance(value, (dict, deque)):
            self._state(value)

    def _state(self, value: Any) -> None:
        """What an object of a class in C shows, and what that leads to."""
        places, parts, known = places_of(value)
        for place in places:
            self._put(place)
        for part in parts:
            self.walk(part)
        if not known:
            self._opaque[id(value)] = value

    def _class(self, cls: type) -> None:
        if is_library(module_of(cls)):
            self._ask(setting(cls, cls.__name__))
            return
        self._shape(cls, type)
        if not is_library(module_of(type(cls))):
            self.walk(type(cls))
        if isinstance(cls, abc.ABCMeta):
            self._abstract(cls)
        if "__subclasses__" in self.names:
            self._put(answers.Answer(cls, "subclasses", lambda: tuple(map(id, cls.__subclasses__()))))
        named = self.names | {n for b in cls.__mro__ for n, v in vars(b).items()
                              if n.startswith("__") and isinstance(v, FunctionType) and id(v.__code__) in self._codes}
        for name in named | {"__match_args__"} if self.every else named:
            found = on_class(cls, name)
            if found is GONE and (name in self.asked or hasattr(type(cls), "__getattr__")
                                  or not _of_library(type(cls), name)):      # the metaclass has it: a class may too
                self._put(Place(cls, name))
            if found is not GONE and not isinstance(found,
                                                    (MemberDescriptorType,
                                                     GetSetDescriptorType)) and not _of_library(cls, name):
                self._put(Place(cls, name))
                self.walk(found)
        if "super" in self.names:
            for base in cls.__mro__[1:]:
                self.walk(base)

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
            if described is _DEFAULTS or name == "__annotations__":
                self.walk(self._put(Place(value, described)))
            elif hasattr(described, "__get__"):
                self._put(answers.Answer(value, name, functools.partial(_described, described, value, kind)))

    def _block(self, block: Any) -> None:
        """A network notes assignments to its attributes itself: what they hold is looked at."""
        self._class(type(block))
        self.library([type(block)])
        self._arrays_in(block)
        if not hasattr(block, "forward"):                       # a Parameter, whose counter tells of its array alone
            self._numbers_of(block)
        elif self.names & answers.OF_OURS:
            for value in list(attributes(block).values()):
                if hasattr(type(value), "_signature_version"):
                    self.walk(value)
        if not is_library(module_of(type(block))):
            for name, value in list(attributes(block).items()):
                own = name.startswith("_hybrid") or name in OF_BLOCKS and name not in self.names
                if (name in self.names or self.every) and not own and not hasattr(type(value), "_signature_version"):
                    self.walk(value)

    def _arrays_in(self, block: Any) -> None:
        """Notes the arrays in attributes of a user's network and its children as places: assigning another array of
        the same kind does not bring the network into another state (assigned.py)."""
        if not is_library(module_of(type(block))):
            own = attributes(block)
            for name in list(own) if self.every else self.names.intersection(own):
                if isinstance(own[name], NDArray) and own[name]._ag is None and name not in OF_BLOCKS:
                    self._put(Place(block, name))
        self._blocks[id(block)] = block
        for child in list(getattr(block, "_children", {}).values()):
            self._arrays_in(child)

    def reaches(self, generator: Any) -> bool:
        """Whether the code that ran can have drawn from a generator of random numbers: the code names the generator or
        what leads to it; it reads attributes whose names are made at run time (``every``); or it calls a library that
        may draw."""
        return (self.every or any(s is generator for s, _ in self._stood)
                or any(os.path.basename(c.co_filename) == "random.py" or f"{os.sep}scipy{os.sep}" in c.co_filename
                       for c in self._others.values()))

    def blocks(self) -> list[Any]:
        """The networks that were reached, also those that the code does not call: it may read their attributes."""
        return [b for b in self._blocks.values() if hasattr(b, "forward")]

    def tell(self, called: Sequence[Any]) -> None:
        """Tell the blocks that were reached or called which of their attributes, by name, the code may have read."""
        anyhow = self.every or self.names & _MAKE_NAMES
        names = None if anyhow else frozenset(self.names).union(*map(words_of, self._codes.values()))
        todo, told = [*self.blocks(), *called], set()
        while todo:
            block = todo.pop()
            if hasattr(block, "_may_read") and id(block) not in told:
                told.add(id(block))
                block._may_read(names)
                todo += block._children.values()

    def _numbers_of(self, value: Any) -> None:
        """Numbers and texts of an object of this library (a metric, a schedule, a parameter) that code reads by
        name."""
        own, cls = attributes(value), type(value)
        for name in self.names.intersection(own):
            if isinstance(own[name], (*_VALUES, type(None))):
                self._put(Place(value, name))
        for name in self.names & answers.OF_OURS:
            if isinstance(getattr(cls, name, None), property):
                self._put(answers.Answer(value, name, functools.partial(_property_value, value, name)))

    def _object(self, value: Any) -> None:
        """An object of any other class. What a handler of log records keeps is output, which may be made once."""
        if isinstance(value, logging.Handler):
            return
        cls = type(value)
        kind = OfThread if isinstance(value, threading.local) else Place
        own = vars(value) if kind is OfThread else attributes(value)
        self._class(cls)
        if not is_library(module_of(cls)):
            self._put(Place(value, _CLASS))
            for hook in ("__getattr__", "__getattribute__") if self.asked else ():
                self.walk(self._put(Place(cls, hook)))
        self._ask(answers.state_of(value))
        self._state(value)
        if answers.points(value):
            self.outside.setdefault(f"memory behind a {cls.__name__}", self.line())
        if isinstance(value, (weakref.ref, *weakref.ProxyTypes)) and not isinstance(answers.leads_to(value), type):
            self.weak = True                             # functools keeps classes so, in caches that are found by them
        self.walk(answers.leads_to(value))
        self._of_library(value, cls)
        if isinstance(value, logging.Logger) and self.names & {"isEnabledFor", "getEffectiveLevel"}:
            self._put(answers.level_of(value))
        every = self.every or any(map(answers.shows_state, cls.__mro__[:-1])) or (      # UserDict, Queue, WeakSet
            self.compares and issubclass(cls, SimpleNamespace))
        if every and cls.__dictoffset__:
            self._put(answers.Answer(value, "names", lambda: tuple(n for n in attributes(value)
                                                                   if not str(n).startswith("_hybrid_"))))
        for name in [n for n in own if every or n in self.names]:
            if isinstance(name, str) and not name.startswith("_hybrid_"):
                self.walk(self._put(kind(value, name)))
        for name in self.names:
            if name in own:
                continue
            found = on_class(cls, name)
            if isinstance(found, property) and _of_library(cls, name):
                self._ask(answers.number_of(value, name))
            elif isinstance(found, MemberDescriptorType):
                self.walk(self._put(Place(value, found)))
            elif name in self.asked or found is not GONE and not hasattr(type(found), "__set__"):
                plain = isinstance(cls.__getattribute__, WrapperDescriptorType) and hasattr(value, "__dict__")
                if kind is OfThread or plain:
                    self._put(kind(value, name))                # it may get one of its own
