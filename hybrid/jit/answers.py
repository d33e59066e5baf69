"""What traced code reads of objects that hold no attributes: settings of the process and of Python's own library,
buffers, text streams, weak references, caches of functions, iterators.

Each is a place of the guard (hybrid/jit/free_variables.py) whose value is what a function gives at every call.
"""
from __future__ import annotations

import ctypes
import gc
import io
import logging
import sys
import weakref
from contextvars import Context
from functools import lru_cache, partial
from typing import Any, Callable, Iterator

import numpy as np

from ..base.names import module_of
from ..base.pytree import ById
from .free_variables import GONE, Contents, guard_value

# attributes and properties of this library's objects that code reads as numbers
OF_OURS = frozenset({"learning_rate", "lr", "lr_mult", "wd_mult", "grad_req", "wd", "num_update"})
# modules of Python whose objects have a state that nothing shows: code that calls their methods cannot be guarded
OPAQUE = frozenset({"_hashlib", "_md5", "_sha1", "_sha2", "_sha256", "_sha512", "_sha3", "_blake2", "_thread",
                    "sqlite3",
                    "_queue", "zlib", "_bz2", "_lzma", "select", "_socket", "_ssl"})
MEMO = type(lru_cache(abs))
BEYOND = frozenset({"f_back", "stack", "getouterframes"})    # by which code gets from a frame to those that called it
_VIEWS: tuple[type, ...] = (type({}.keys()), type({}.values()), type({}.items()))
_POINTERS: Any = (ctypes._Pointer, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_wchar_p, ctypes.py_object)
_STREAMS = (io.StringIO, io.BytesIO)
SHAPES = ("__name__", "__qualname__", "__doc__", "__bases__", "__mro__", "__module__", "__defaults__",
          "__annotations__")
# of Python's library: objects of these modules are services, not state that code depends on
_SERVICES = frozenset({"logging", "importlib", "_frozen_importlib", "tempfile", "inspect", "multiprocessing",
                       "unittest",
                       "asyncio", "socket", "ssl", "typing", "types", "dataclasses", "enum", "abc", "re", "pathlib",
                       "io",
                       "datetime", "itertools", "builtins", "operator", "zoneinfo", "ctypes", "contextlib", "_io"})


class Answer(Contents):
    """What a function gives, as a place of a guard. where: what is asked, which it keeps alive; ask: the function,
    whose values can be compared and hashed."""
    __slots__ = ("ask",)

    def __init__(self, where: Any, name: Any, ask: Callable[[], Any]):
        super().__init__(where)
        self.name, self.ask = name, ask

    @property
    def key(self) -> Any:
        """What tells one place from others."""
        return id(self.where), "answer", self.name

    def get(self) -> Any:
        """The answer now."""
        return self.ask()

    def pinned(self, value: Any) -> tuple[Any, Any, Any]:
        """The launcher asks."""
        return partial(self._holds, value), None, None


def state_of(value: Any) -> Answer | None:
    """The place for an object of a library whose state its attributes do not show, None for other objects."""
    if isinstance(value, _STREAMS):
        return None if value.closed else Answer(value, "stream", lambda: not value.closed and (value.getvalue(),
                                                                                              value.tell()))
    if isinstance(value, weakref.ref):
        return Answer(value, "referent", lambda: guard_value(value()))
    if isinstance(value, Context):
        return Answer(value, "variables", lambda: tuple((ById(k), guard_value(v)) for k, v in value.items()))
    if isinstance(value, np.void):
        return Answer(value, "memory", value.tobytes)
    if isinstance(value, np.dtype):
        return Answer(value, "names", lambda: value.names)
    if isinstance(value, np.ma.MaskedArray):
        return Answer(value, "mask", lambda: np.ma.getmaskarray(value).tobytes())
    return _buffer(value)


def number_of(value: Any, name: str) -> Answer | None:
    """The place for a number or text that a property of an object of a library gives; None for others."""
    def ask() -> Any:
        try:
            return getattr(value, name)
        except Exception:  # noqa: BLE001  what the property raises
            return GONE
    return Answer(value, ("property", name), lambda: guard_value(ask())) if isinstance(
        ask(), (int, float, complex, str, bytes, type(None))) else None


def kind_of(module: Any, name: str) -> Answer:
    """The place for the class of what a module of a library has under a name: of a stream, a lock or None."""
    return Answer(module, ("kind", name), lambda: guard_value(type(vars(module).get(name))))


def _buffer(value: Any) -> Answer | None:
    """The place for an object that shows its memory (of ctypes, mmap)."""
    cls: Any = type(value)
    if module_of(cls).split(".")[0] not in ("ctypes", "_ctypes", "mmap") and not _is_structure(cls):
        return None
    try:
        memoryview(value).release()
    except (TypeError, ValueError):
        return None
    return Answer(value, "memory", lambda: memoryview(value).tobytes())


def points(value: Any) -> bool:
    """Whether an object of ctypes or cffi refers to memory that nobody can compare."""
    cls: Any = type(value)
    return module_of(cls) == "_cffi_backend" or issubclass(cls, _POINTERS) or issubclass(cls, ctypes.Structure) and any(
        issubclass(f[1], _POINTERS) for f in getattr(cls, "_fields_", ()))


@lru_cache(1024)
def _is_structure(cls: type) -> bool:
    return any(module_of(base) == "_ctypes" for base in cls.__mro__)


def leads_to(value: Any) -> Any:
    """What an object of a library stands for, to be looked at in its place; None where there is no such thing."""
    of_dict: Any = value if isinstance(value, _VIEWS) else None
    if of_dict is not None:
        return of_dict.mapping
    if type(value) in weakref.ProxyTypes:
        try:
            return value.__init__.__self__                      # what a proxy gives is bound to its referent
        except (ReferenceError, AttributeError):
            return None
    return value() if isinstance(value, weakref.ref) else None


def shows_state(cls: type) -> bool:
    """Whether all attributes of objects of a class of Python's library are state that code may read by its methods."""
    top = module_of(cls).split(".")[0]
    return top == "numpy" and not issubclass(cls, np.ndarray) or top in sys.stdlib_module_names and top not in _SERVICES


def level_of(logger: logging.Logger) -> Answer:
    """The place for what a logger lets through."""
    return Answer(logger, "level", lambda: (logger.getEffectiveLevel(), logger.disabled, logger.manager.disable))


def raises_warnings(filters: Any) -> Any:
    """The filters of warnings where one makes errors of them: else a warning is only output."""
    return tuple(filters) if any(f[0] == "error" for f in filters) else ()


def position(value: Any) -> Any:
    """Where an object of a library stands that can be drawn from or taken from; None for others."""
    if isinstance(value, np.random.BitGenerator):
        return repr(value.state)
    if isinstance(value, np.random.SeedSequence):
        return value.n_children_spawned
    if isinstance(value, np.flatiter):
        return value.index
    return None


# ---- functions with a cache
def memory_of(memo: Any) -> dict[Any, Any]:
    """What a function with ``lru_cache`` keeps, by key: results, or the links that hold them."""
    own = getattr(memo, "__dict__", None)
    return next((r for r in gc.get_referents(memo) if type(r) is dict and r is not own), {})


def kept_results(memo: Any) -> Iterator[Any]:
    """Those results."""
    for value in list(memory_of(memo).values()):
        if type(value).__name__ == "_lru_list_elem":
            yield from gc.get_referents(value)
        else:
            yield value


def forget(memo: Any, which: Callable[[Any], bool]) -> None:
    """Take the results out of a function's cache of which ``which(key and result)`` holds; it keeps the others."""
    cache = memory_of(memo)
    for key, value in list(cache.items()):
        if which([key, *gc.get_referents(value)] if type(value).__name__ == "_lru_list_elem" else [key, value]):
            del cache[key]


def memory(memo: Any, limit: int) -> Answer:
    """The place for what a function keeps now: it holds as long as none of it is computed again or forgotten."""
    cache = memory_of(memo)
    pairs = list(cache.items())[-limit:]
    name = tuple(id(v) for _, v in pairs)
    seen = ById(pairs)
    return Answer(cache, ("memory", name), lambda: seen if all(cache.get(k) is v for k, v in seen.value) else None)
