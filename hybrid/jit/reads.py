"""What traced Python code reads of Python objects, found out while it runs.

A profile hook sees every function of the user's that is called during the trace: helpers, methods, properties. The
names in their code are looked up on what they can reach (globals, variables of enclosing functions, default values,
arguments, and what those lead to), and every place that is found so becomes part of the trace's guard
(hybrid/jit/free_variables.py). Code of Python's own library and of this one is left out.
"""
from __future__ import annotations

import functools
import gc
import logging
import sys
import warnings
from collections.abc import Iterator
from types import CodeType, FrameType, FunctionType, MethodType
from typing import Any, Callable

import numpy as np

from ..base.names import module_of
from ..buffers.array import NDArray
from ..base.errors import TraceError, given_symbols
from ..base.profiling import Hooked
from .free_variables import GONE, Contents, Guard, Place, attributes, guard_value
from ..graph.symbol import Symbol
from ..ir.size import Specialised
from . import answers
from ..graph.traced_number import TracedNumber
from .machine_reads import READERS, kind_of, line_of
from .code_reads import (_climbs, _compares, _globals_of, _imports_of, _is_plain, _keeps_place, _moved, _reads_any,
                         _tells_apart, _tells_types, _types_asked, asks_what_is_handled, is_foreign_array,
                         is_library, is_numeric)
from .plain_calls import PlainOnly
from .reachable import Reachable, _BOXES
from .settings import KEEPERS, handled, setting, sets
from .replaced import SHOWN, LibraryClass, foreign

_CLASSES = frozenset({"NDArray", "ndarray", "__name__", "__qualname__", "__module__"})
_ALL = frozenset("""vars dir __dict__ asdict astuple attrgetter __getattribute__ fields getmembers getattr_static
__getstate__ __reduce__ __reduce_ex__""".split())
_ASKS = frozenset({"getattr", "hasattr", "setattr", "attrgetter"})
_NAMED_BY_TEXT = frozenset({"globals", "vars", "modules", "import_module", "__dict__"})     # code that names globals so
_GIVEN_OUT = 256                        # results of libraries' functions that are looked at
_FRESH = sys.getrefcount([object()].pop()) + 1          # of an object that one variable holds
_UNLOCKING = frozenset({"acquire", "release", "__enter__", "__exit__", "acquire_lock", "release_lock"})


class Reader(Reachable):
    """The places that the code which runs meanwhile reads. Use it as a context around the call."""

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
            self._of_machine(frame, arg)
        elif event == "c_call" and self._opaque and id(getattr(arg, "__self__", None)) in self._opaque:
            self._asked_opaque(frame, arg)
        elif event == "c_call" and arg is sys._getframe:
            self._stack(frame)
        elif event == "c_call" and arg is warnings.warn and not is_library(frame.f_globals.get("__name__") or ""):
            self._put(answers.Answer(warnings, "filters", lambda: answers.raises_warnings(warnings.filters)))
        elif event == "c_call" and arg.__module__ in KEEPERS:
            self._of_settings(frame, arg)
        elif event == "call" and self._resumable and id(frame) in self._resumable:
            self._resumed[id(frame)] = f"{code.co_filename}:{code.co_firstlineno}"
        if id(code) in self._others:
            if event != "c_call" and frame.f_back is not None and id(frame.f_back.f_code) in self._codes:
                self._by_library(frame, event, arg)
            return
        if event == "return" and _types_asked(code):
            self._types(frame)
        elif event == "call":
            if id(code) not in self._codes:
                if is_library(frame.f_globals.get("__name__") or ""):
                    self._others[id(code)] = code
                    self._hook(frame, event, arg)
                    return
                self._enter(code, frame.f_globals, frame.f_locals)
                self._named(code, frame.f_locals)
            self._arguments(code, frame.f_locals)
        elif event == "c_call" and self._stood and (arg is next or getattr(arg, "__self__", None) is not None):
            if arg is next or any(arg.__self__ is s for s, _ in self._stood):
                self._at = f"{code.co_filename}:{frame.f_lineno}"

    def _of_machine(self, frame: FrameType, function: Any) -> None:
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

    def _of_settings(self, frame: FrameType, function: Any) -> None:
        """A built-in function is called of a module that holds settings: by the user's code, or by a function of a
        library that it calls."""
        mine = next((f for f in (frame, frame.f_back) if f is not None and id(f.f_code) in self._codes), None)
        if mine is None:
            return
        line = f"{mine.f_code.co_filename}:{mine.f_lineno}"
        if function in (sys.getprofile, sys.setprofile):
            self.profiler = self.profiler or line
        elif sets(function):
            self.outside.setdefault(f"settings of Python ({function.__name__})", line)
        elif mine is frame:
            self._ask(setting(function, function.__name__))

    def _by_library(self, frame: FrameType, event: str, result: Any) -> None:
        """A function of a library that the user's code calls: what it reads, and objects that it keeps and gives."""
        module = frame.f_globals.get("__name__") or ""
        if event == "return":
            if not _is_plain(result) and len(self._given_out) < _GIVEN_OUT:
                self._given_out.append(result)
        elif module.endswith(".arrayprint"):
            self._ask(setting(np.get_printoptions, "get_printoptions"))
        elif module == "logging" and frame.f_code.co_name == "isEnabledFor":
            self._put(answers.level_of(frame.f_locals["self"]))
        elif module == "traceback" and frame.f_code.co_name in ("extract_stack", "walk_stack", "format_stack"):
            above: Any = frame.f_back
            self.callers = self.callers or f"{above.f_code.co_filename}:{above.f_lineno}"

    def _stack(self, frame: FrameType) -> None:
        """Code asks for a frame: one beyond the function that is compiled belongs to whoever calls it."""
        asks = frame.f_back if frame.f_globals.get("__name__") == "inspect" else frame
        above = asks and asks.f_back
        if (asks and above and not is_library(asks.f_globals.get("__name__") or "")
            and (above.f_globals.get("__name__") or "").startswith("hybrid.")
                and (answers.BEYOND & {*asks.f_code.co_names}
                     or asks is frame and any(type(c) is int and c > 0 for c in asks.f_code.co_consts))
            or asks is not None and id(asks.f_code) in self._codes and _climbs(asks.f_code)):
            self.callers = self.callers or f"{asks.f_code.co_filename}:{asks.f_lineno}"

    def _types(self, frame: FrameType) -> None:
        """Code has asked for the class of one of its variables: that of a traced value is not what it will be.

        Only hybrid_forward is told by Gluon's contract that its inputs are Symbols while it is traced.
        """
        if frame.f_code.co_name == "hybrid_forward":
            return
        # of arrays only what compares with their classes, or reads the name, can tell them apart
        names_classes = not _CLASSES.isdisjoint(frame.f_code.co_names)
        for name, line, how in _types_asked(frame.f_code):
            for value in [frame.f_locals.get(name)] if name else frame.f_locals.values():
                if type(value) is TracedNumber:
                    value._looked("type() of it is asked for")
                elif isinstance(value, Symbol) and (how == "callable" or how == "isinstance" and not given_symbols(
                        frame) or how == "type" and names_classes):
                    self.types.append((f"{frame.f_code.co_filename}:{line}", name or "a variable", how))

    def _enter(self, code: CodeType, space: dict[str, Any], values: dict[str, Any]) -> None:
        """Code runs for the first time: what it names of the values at hand is looked at before it changes them."""
        self._codes[id(code)] = code
        named = frozenset(code.co_names)
        self.names |= named | ({"_value_"} if "value" in named else set())     # what a member of an enumeration has
        if code.co_name == "hybrid_forward":                # its F stands for nd, eagerly
            functions = _functions()
            self._of_forwards |= {*functions["_kept"].among(named), *(named & functions.keys())}
            for name in self._of_forwards:
                self._put(Place(functions, name))
        if asks_what_is_handled(code):
            self._put(handled())
            if sys.exc_info()[0] is not None and self._called_in_error:
                self.outside.setdefault("the error that is being handled", f"{code.co_filename}:{code.co_firstlineno}")
        self.every = self.every or bool(named & _ALL) or _reads_any(code)
        self.compares = self.compares or _compares(code)
        self.tells_apart = self.tells_apart or _tells_apart(code)
        self.tells_types = self.tells_types or _tells_types(code, space)
        for module in _imports_of(code):
            self._imported(module)
        if named & _ASKS:
            self.asked.update(c for c in code.co_consts if isinstance(c, str) and len(c) < 100)
            self.names |= self.asked
        if "environ" in named or "getenv" in named:
            self._keys = getattr(self, "_keys", frozenset()) | {c for c in code.co_consts if isinstance(c, str)}
        texts = {c for c in code.co_consts if isinstance(c, str)} if named & _NAMED_BY_TEXT else frozenset()
        if "modules" in named:
            for text in texts:
                self._put(Place(sys.modules, text))
        self._spaces.append((space, _globals_of(code) | texts))
        cells = [c for fn in self._functions.get(id(code), ()) for c in fn.__closure__ or ()]
        for value in (*values.values(), *map(space.get, self._spaces[-1][1]), *(Place(c, "").get() for c in cells)):
            self._done.pop(id(value), None)                     # with fewer names it may have been looked at already
        self._space(*self._spaces[-1])
        for fn in self._functions.get(id(code), ()):
            self._function(fn)

    def _named(self, code: CodeType, values: dict[str, Any]) -> None:
        """What code that runs for the first time names of its first argument, which was looked at with fewer names:
        iterators must be seen before they are advanced."""
        first = values.get(code.co_varnames[0]) if code.co_argcount else None
        own = {} if first is None or isinstance(first, logging.Handler) else attributes(first)
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
        self._called_in_error = sys.exc_info()[0] is not None
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
        self._elsewhere(name)
        for of in list(self._codes.values()):
            for module in _imports_of(of):
                self._imported(module)
        self._finished = True
        for memo in self._memos:
            self._memo(memo)
        while self._given_out:
            kept = self._given_out.pop()
            if sys.getrefcount(kept) > _FRESH:                   # others hold it
                self.walk(kept)
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
                at = self._at or self.line()
                raise TraceError(f"{at}: {name or 'this function'} took values from a {type(value).__name__} while it "
                                 f"was compiled; they would stay the same at every call. Take them outside and give "
                                 f"them as arguments.")

    def _elsewhere(self, name: str) -> None:
        """Functions that ran and that nothing which was looked at leads to: a layer of this library calls them, or a
        package. The collector knows who holds their code, but not of what ``gc.freeze`` keeps from it."""
        missing = self._without_function()
        if missing and gc.get_freeze_count():
            self._walk_functions_of_blocks()
        for fn in gc.get_referrers(*missing) if missing else ():
            if isinstance(fn, FunctionType):
                self.walk(fn)
        if missing and gc.get_freeze_count():
            for code in (c for c in self._without_function() if {*c.co_freevars} - {"__class__"}):
                name = name or "this function"
                raise PlainOnly(f"{code.co_filename}:{code.co_firstlineno}: {name} calls {code.co_name}, whose outer "
                                f"variables cannot be watched after gc.freeze(): such calls run as plain Python. Call "
                                f"{name} twice before gc.freeze(), so that it is compiled.")

    def _walk_functions_of_blocks(self) -> None:
        """Look at the functions that networks hold in attributes, or in lists and dicts there."""
        for block in self.blocks():
            for value in attributes(block).values():
                values = value.values() if isinstance(value, dict) else value
                for fn in values if isinstance(value, (dict, list, tuple)) else (value,):
                    if isinstance(fn, (FunctionType, MethodType, functools.partial)):
                        self.walk(fn)

    def _without_function(self) -> list[CodeType]:
        """The code that ran and can read variables of the function that it belongs to, which was not found."""
        made = {id(c) for code in self._codes.values() for c in code.co_consts if isinstance(c, CodeType)}
        return [c for i, c in self._codes.items() if i not in self._functions and i not in made
                and (c.co_freevars or c.co_argcount or c.co_kwonlyargcount)]

    def written(self) -> str:
        """Description of a guarded value that the traced code itself changed; empty if there is none. Values that are
        arrays, this library's own state and caches do not count."""
        for _, place in self._changed():
            kind = type(place.where).__name__
            return f"{place.name} of a {kind}" if isinstance(place.name, str) else f"a {kind}"
        return ""

    def restore(self) -> str:
        """Put back what the code has changed, for it runs again. What cannot be put back, in words."""
        for key, place in self._changed():
            if isinstance(place, Place):
                place.put(self.values[key])
            elif self._undo.get(key) is not None:
                self._undo[key]()
        return self.written()

    def _changed(self) -> Iterator[tuple[Any, Any]]:
        return ((key, place) for key, place in list(self.places.items())
                if not _of_ours(place.where) and _differs(place, self.values[key]))

    def methods(self) -> str:
        """Names of methods of arrays, or of functions that a hybrid_forward has as F, that are not this library's any
        more, and that the code uses or an operator of Python's may."""
        every = {n for k, place in self.places.items() if isinstance(place, LibraryClass) and issubclass(
            place.where, NDArray) for _, n, _ in self.values[k]}
        used = {n for n in every - SHOWN if n in self.names or n.startswith("__")}
        return ", ".join(sorted(used | foreign(_functions(), self._of_forwards)))

    def guard(self, fixed: Callable[[Any, NDArray], bool]) -> tuple[Guard, Any]:
        """The guard, and its stamp for what the places held when they were found. fixed: whether another array in a
        place is another trace."""
        keys = list(self.places)
        places = [self.places[k] for k in keys]
        values = [self.values[k] for k in keys]
        guard = Guard(places, frozenset(i for i, (p, v) in enumerate(zip(places, values)) if isinstance(v, NDArray)
                                        and fixed(p, v)))
        return guard, values


def _functions() -> dict[str, Any]:
    """The functions of nd, whose room comes later."""
    return vars(sys.modules["hybrid.nd"])


def _of_ours(value: Any) -> bool:
    """Whether an object, or the variables of a module, belong to this library."""
    module = value.get("__name__") if type(value) is dict else module_of(value if isinstance(value, (
        type, FunctionType)) else type(value))
    return isinstance(module, str) and module.split(".")[0] == "hybrid"


def _differs(place: Any, before: Any) -> bool:
    try:
        now = place.get()
        if isinstance(place, Contents):
            # caches fill, and classes get new subclasses: no change by the code
            return not isinstance(place.name, tuple) and place.name not in ("registered", "subclasses"
                                                                            ) and now != before
        return now is not before and not isinstance(now, (NDArray, Symbol)) and guard_value(now) != guard_value(before)
    except Specialised:                                          # a number that was computed from symbolic sizes
        return True
