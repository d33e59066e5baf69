"""What traced Python code assigns: attributes, variables of modules and of enclosing functions, items of containers.

Traced code runs once, the program it gives many times, and an assignment must happen at every call. Everything that the
code can reach is noted before it is reached (a profile hook sees each function that starts) and compared when the code
is done:

* An array that takes the place of another one of the same kind (``self.ema = self.ema * .5 + x``) is one more result of
the
  program, which is put there after every call.
* Any other change (a counter, a list that grows) has happened for this call, whose program is used once; where it
happens at
  the next calls too, the function runs as plain Python from then on, with a warning.

Traced values are taken out of the user's objects before anybody can see them there, also when the trace fails.
"""
from __future__ import annotations

import dis
import functools
import inspect
import sys
import threading
import weakref
from collections import deque
from types import (CellType, CodeType, FrameType, FunctionType, MethodType,
                   ModuleType)
from typing import Any

from ..base.names import module_of
from ..buffers.array import NDArray
from ..base.scope import SCOPE
from . import answers
from ..base.pytree import ById
from ..ir.size import Size, Specialised
from .concealed import holds_traced, refuse_concealed
from ..base.errors import DeferredInitializationError, TraceError, user_location
from ..base.profiling import Hooked
from .reads import is_library
from .free_variables import GONE, Place, attributes
from .plain_calls import PlainOnly
from .assignments import Change, Holder, _PLAIN, _of_library, _of_objects, is_buffer, traced_in
from .assignments import replaced  # noqa: F401  their place for others

# elements of a container that are looked into; longer ones are compared, not looked into
LIMIT = 10_000


@functools.lru_cache(4096)
def _globals_of(code: CodeType) -> frozenset[str]:
    """Names that some code reads or assigns as variables of its module."""
    return frozenset(i.argval for i in dis.get_instructions(code)
                     if i.opname in ("LOAD_GLOBAL", "LOAD_NAME", "STORE_GLOBAL", "DELETE_GLOBAL"))


# the trace did not take place: the code runs again, or its caller is told how to run it
_RETRIED = (TraceError, DeferredInitializationError)


class Changes:
    """Notes what can be reached, as a context around the code, and tells afterwards what was assigned."""

    def __init__(self, trace: Any, *roots: Any):
        self._trace, self._roots = trace, roots
        self._seen: dict[int, Any] = {}
        self._holders: list[Holder] = []
        self._spaces: dict[int, Holder] = {}
        self._memos: dict[int, tuple[Any, Any]] = {}     # functions with a cache, and how full it was
        self._remembering: set[int] = set()              # ids of the code of those functions
        self._apart: Any = None                          # (the frame of one that runs, the traces it does not see)
        self._codes: dict[int, CodeType] = {}
        self._others: dict[int, CodeType] = {}
        self.places: dict[int, list[Place]] = {}         # what holds an array, by the array's id

    def __enter__(self) -> "Changes":
        self.look(*self._roots)
        self._hooked = Hooked(self._hook)
        self._hooked.install()
        return self

    def __exit__(self, kind: Any, *_: object) -> None:
        self._stop()
        if kind is not None:
            self.undo(all_of_them=issubclass(kind, _RETRIED) or self._symbolic())

    def _symbolic(self) -> bool:
        """Whether the code runs with symbolic sizes, of which nothing may be left in the user's objects."""
        return self._trace is not None and self._trace.symbolic

    def _stop(self) -> None:
        self._hooked.remove()
        self._together()
        for memo, before in self._memos.values():
            now = memo.cache_info()
            if self._trace is not None and now != before:
                self._trace.remembered = True
            if now.misses != before.misses:                      # what it keeps of traced values is computed again
                answers.forget(memo, lambda kept: any(True for _ in traced_in(kept)))
            if now.misses != before.misses and self._symbolic():
                answers.forget(memo, lambda kept: holds_traced(kept, Size))
        self._memos.clear()

    def _hook(self, frame: FrameType, event: str, arg: Any) -> None:
        """Called by Python with everything that starts and ends."""
        if event == "call" and id(frame.f_code) in self._remembering:
            self._set_apart(frame)
        elif event == "return" and self._apart is not None and frame is self._apart[0]:
            self._together()
        if event != "call" or id(frame.f_code) in self._others:
            return
        code = frame.f_code
        if id(code) not in self._codes:
            if is_library(frame.f_globals.get("__name__") or ""):
                self._others[id(code)] = code
                return
            self._codes[id(code)] = code
            self._space(frame.f_globals, _globals_of(code), frozenset(code.co_names))

    def _set_apart(self, frame: FrameType) -> None:
        """A function with a cache begins to compute what it will keep. Where that does not depend on traced values, it
        computes with arrays, which later calls find in the cache as they would eagerly."""
        traced = any(True for _ in traced_in(frame.f_locals))
        if traced and self._trace is not None and not self._trace.transformed:
            code = frame.f_code
            self._trace.refused.append(PlainOnly(
                f"{code.co_filename}:{code.co_firstlineno}: arrays are arguments of a function with a cache, which "
                "gives what it kept for the same array whatever that holds now: such calls run as plain Python. Give "
                "it numbers."))
        if self._apart is None and not SCOPE.recording and not traced:
            self._apart, SCOPE.traces = (frame, SCOPE.traces), []

    def _together(self) -> None:
        if self._apart is not None:
            SCOPE.traces, self._apart = self._apart[1], None

    def _space(self, space: dict[str, Any], names: frozenset[str], attributes_: frozenset[str] = frozenset()) -> None:
        """Variables of a module that some code names."""
        holder = self._spaces.get(id(space))
        if holder is None:
            holder = self._spaces[id(space)] = Holder(space, "variables")
            self._holders.append(holder)
        for name in names:
            holder.before.setdefault(name, space.get(name, GONE))
            value = space.get(name)
            if isinstance(value, NDArray) and value._ag is None:
                self._array(value, holder.place(name))
            if isinstance(value, ModuleType):
                if not is_library(value.__name__):
                    self._space(vars(value), attributes_ & vars(value).keys())
            else:
                self.look(value)

    # ---- what can be reached
    def look(self, *values: Any) -> None:
        """Note what values hold, and what those hold."""
        todo = list(values)
        while todo:
            value = todo.pop()
            if isinstance(value, _PLAIN) and not is_buffer(value) or id(value) in self._seen:
                continue
            self._seen[id(value)] = value
            if isinstance(value, answers.MEMO) and not is_library(module_of(value)):
                self._memos[id(value)] = value, value.cache_info()
                self._remembering.update(id(c) for c in [getattr(value.__wrapped__, "__code__", None)] if c is not None)
            kind = _kind_of(value)
            if kind is not None:
                holder = Holder(value, kind)
                self._holders.append(holder)
                if kind == "elements":
                    todo += holder.before[None].flat if _of_objects(value) else ()
                elif len(holder.before) <= LIMIT and kind != "module" and not (
                        kind == "object" and _of_others(_module_of(value))):
                    todo += holder.before.values()
                self._arrays(holder)
            todo += _beside(value)

    def _arrays(self, holder: Holder) -> None:
        for name, value in holder.before.items():
            if isinstance(value, NDArray) and value._ag is None:
                self._array(value, holder.place(name))

    def _array(self, value: NDArray, place: Place | None) -> None:
        if place is not None and all(place.key != p.key for p in self.places.setdefault(id(value), [])):
            self.places[id(value)].append(place)
            if self._trace is not None:
                self._trace.places.setdefault(id(value), place)

    def mentioned(self) -> set[str]:
        """Names in the user's code that ran, and its texts, which may be names for ``getattr``."""
        return {name for code in self._codes.values()
                for name in (*code.co_names, *(c for c in code.co_consts if isinstance(c, str)))}

    # ---- what was assigned
    def found(self, incidental: bool = False) -> list[Change]:
        """The changes. incidental: those too that no call must do."""
        out = []
        for holder in self._holders:
            keys = holder.differs()
            if keys and holder.kind in ("row", "set"):
                out.append(Change(holder, None, list(holder.before.values()), list(holder.what)))
            elif keys:
                now = holder.now()
                out += [Change(holder, k, holder.before.get(k, GONE), now.get(k, GONE)) for k in keys]
        return [c for c in out if c.traced or incidental or not _incidental(c)]

    def undo(self, all_of_them: bool = True) -> None:
        """Traced values out of the user's objects, whatever ended the trace. all_of_them: everything as it was, but for
        layers and parameters that the code made; else what the code did before an error of its own stays done.
        """
        self._stop()
        symbolic = self._symbolic()
        for change in self.found(symbolic):
            if change.traced or (holds_traced(change.new, Size) if symbolic and _incidental(change)
                                 else all_of_them and not _is_network(change.new)):
                change.undo()

    def settle(self) -> list[Change]:
        """The changes; traced values are out of the user's objects."""
        self._stop()
        changes = self.found()
        if self._symbolic() and (self.found(incidental=True) or self._trace.remembered):
            raise Specialised(f"{self.first_line()}: the code changes or keeps what is outside of it")
        for change in changes:
            refuse_concealed(change.new, f"{change.what()} is given", self.line(change), self._trace.texts)
            change.settle(self._trace, self.line(change))
            change.at = "" if change.kept else self.line(change)
        # what an autograd.Function saved for its backward
        return [c for c in changes if not (c.traced and c.holder.kind == "settings")]

    def own(self, result: Any) -> Any:
        """Results with the user's own lists, dicts and sets in them told by identity, where they hold no traced values:
        eager calls give those themselves."""
        if isinstance(result, (list, dict, set, deque)) and id(result) in self._seen and not holds_traced(result):
            return ById(result)
        if type(result) is dict:
            return {k: self.own(v) for k, v in result.items()}
        return type(result)(map(self.own, result)) if type(result) in (list, tuple) else result

    def settled_places(self, ids: set[int]) -> list[tuple[Place, NDArray]]:
        """The places of some arrays that hold them still."""
        return [(p, x) for i in ids for p in self.places.get(i, ()) for x in [p.get()] if isinstance(x, NDArray)
                and id(x) == i]

    def first_line(self) -> str:
        """Where the code begins."""
        return next((f"{c.co_filename}:{c.co_firstlineno}" for c in self._codes.values()), None) or user_location()

    def line(self, change: Change) -> str:
        """Where the code does it."""
        at = ""
        for code in self._codes.values():
            for i in dis.get_instructions(code):
                where: Any = getattr(i, "positions", None)
                line = where and where.lineno or i.starts_line
                at = f"{code.co_filename}:{line}" if line and not isinstance(line, bool) else at
                if i.opname.startswith("STORE_") and i.argval == change.key or self._names(i, change):
                    return at
        return self.first_line()

    def _names(self, i: dis.Instruction, change: Change) -> bool:
        """Whether an instruction reads the container that changed, from wherever it is kept."""
        what = change.holder.what
        if change.holder.kind == "cell":
            return i.opname == "STORE_DEREF"
        if change.holder.kind not in ("row", "set", "items", "elements") or not i.opname.startswith(
                "LOAD_") or not isinstance(i.argval, str):
            return False
        return any(h.before.get(i.argval) is what for h in self._holders
                   if h.kind in ("block", "object", "variables", "class")) or (
            i.opname == "LOAD_DEREF" and any(h.kind == "cell" and h.before.get("") is what for h in self._holders))


def _is_network(value: Any) -> bool:
    """Layers and parameters, also in containers, hold no traced values and keep the names that they were given."""
    if isinstance(value, (list, tuple)):
        return any(map(_is_network, value))
    return hasattr(type(value), "_signature_version")


@functools.cache
def _of_others(module: str) -> bool:
    """Whether the classes of a module are an installed package's or Python's own, whose counters are no user's state;
    but for those that only hold attributes."""
    if module in ("types", "argparse", "builtins", "collections", "functools", "queue", "weakref", "_weakrefset",
                  "string"):
        return False
    return is_library(module) or "-packages" in (getattr(sys.modules.get(module), "__file__", None) or "")


def _module_of(value: Any) -> str:
    """The module whose state the attributes of an object are: of a function, where it was written."""
    return (module_of(value)) if isinstance(value, FunctionType) else module_of(type(value))


def _incidental(change: Change) -> bool:
    """Whether a change without traced values is none that a call must do: of other libraries' objects, or layers that
    the code made."""
    return _is_network(change.new) or change.holder.kind == "object" and _of_others(_module_of(change.holder.what))


def _kind_of(value: Any) -> str | None:
    """How a value holds others; None where nothing can be assigned to it, or where it is no user's business."""
    cls = type(value)
    if isinstance(value, dict):
        return "items"
    if isinstance(value, (list, deque)):
        return "row"
    if isinstance(value, set):
        return "set"
    if is_buffer(value):
        return "elements"
    if isinstance(value, CellType):
        return "cell"
    if isinstance(value, type):
        return None if is_library(module_of(value)) else "class"
    if hasattr(cls, "_signature_version") and not is_library(module_of(cls)):
        return "block"
    if isinstance(value, FunctionType):
        return None if is_library(module_of(value)) else "object"
    if isinstance(value, threading.local):
        return "thread"
    if any(map(_of_library, cls.__mro__)):
        return "settings"
    if isinstance(value, ModuleType):
        return None if is_library(value.__name__) else "module"
    if isinstance(value, (tuple, frozenset, MethodType, property)):
        return None
    if is_library(module_of(cls)) and not cls.__dictoffset__:
        return None
    return "object"


def _in_class(value: Any) -> Any:
    """What runs where an attribute of a class is asked for: methods, those of properties, descriptors and objects that
    are called."""
    if isinstance(value, property):
        return [f for f in (value.fget, value.fset, value.fdel) if f is not None]
    if isinstance(value, (FunctionType, type)):
        return (value,) if isinstance(value, FunctionType) else ()
    if is_library(module_of(type(value))):                      # staticmethod, partialmethod, cached_property
        return [f for f in (getattr(value, n, None) for n in ("__func__", "func")) if f is not None]
    return (value,) if callable(value) or hasattr(type(value), "__get__") else ()


def _beside(value: Any) -> Any:
    """What a value leads to beside what is assigned to it."""
    if isinstance(value, (tuple, frozenset)):
        return value
    if isinstance(value, FunctionType):
        return () if is_library(module_of(value)) else [*(value.__closure__ or ()), *(value.__defaults__ or ()),
                                                              *(value.__kwdefaults__ or {}).values()]
    if isinstance(value, MethodType):
        return value.__func__, value.__self__
    if isinstance(value, functools.partial):
        return value.func, *value.args, *value.keywords.values()
    if isinstance(value, type):
        return () if is_library(module_of(value)) else [part for v in vars(value).values() for part in _in_class(v)] + [
            c for c in (type(value), *value.__bases__) if not is_library(module_of(c))]
    if hasattr(type(value), "_signature_version"):
        own = attributes(value)
        hooks = [*own.get("_forward_hooks", {}).values(), *own.get("_forward_pre_hooks", {}).values()]
        return [*own.get("_children", {}).values(), *hooks, type(value)]
    # a Trainer's optimizer, its schedule; the function of a hybridized one
    if any(map(_of_library, type(value).__mro__)):
        return [v for v in attributes(value).values() if not isinstance(v, (dict, list, tuple, set, deque))]
    if isinstance(value, weakref.ref):
        return (value(),)
    return inspect.getattr_static(value, "__wrapped__", None), type(value)
