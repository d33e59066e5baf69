"""What an assignment to an attribute of a block means for the programs that were compiled for the block.

A block is in a numbered state; programs belong to a state. An assignment leaves the block in its state if no program
can tell the new value from the old one. Else it brings the block into another state: a new one, or one in which it was
before, whose programs are used again.
"""
from __future__ import annotations

import functools
import itertools
import threading
from typing import Any

import numpy as np

from ..base.names import module_of
from ..buffers.array import NDArray
from ..jit.fingerprint import codes_of, named_in_methods, words_of
from ..jit.free_variables import GONE, guard_value
from ..jit.watches import UNDER_WAY

_MOST = 64                                               # states of a block that are remembered
_NUMBERS = itertools.count(1)
_LOCK = threading.RLock()
# the number of assignments that left a block in its state, though what is exported may differ: of attributes that no
# traced code could read, and of another array of the same kind
UNREAD = [0]
_PLAIN = frozenset({int, float, complex, str, bytes, bool, type(None)})


def another() -> int:
    """The number of a new state."""
    return next(_NUMBERS)


def _is_plain(value: Any) -> bool:
    """Whether a value is a number, a text or the like, or a tuple of such, whose contents cannot change: it
    is compared by them."""
    if type(value) is tuple:
        return all(map(_is_plain, value))
    return type(value) in _PLAIN or isinstance(value, (np.generic, np.dtype)) and not isinstance(value, np.void)


def _told(block: Any, value: Any) -> Any:
    """What programs depend on of a value: of a number or text, the value; of an array in a user's block, its kind
    (class, shape, dtype, device), for programs look the array up at each call. None where that cannot be said."""
    if _is_plain(value):
        return guard_value(value)
    if (isinstance(value, NDArray) and value.stype == "default" and value._ag is None
            and module_of(type(block)).split(".")[0] != "hybrid"):
        return type(value), value.shape, value.dtype, value._ctx
    return None


@functools.cache
def _names_of(cls: type) -> frozenset[str]:
    """Names and words in the code of all methods of a class and of its bases, this library's too, but ``__init__``."""
    return frozenset(name for base in cls.__mro__ for key, member in vars(base).items() if key != "__init__"
                     for code in codes_of(member) for name in words_of(code))


def _unread(block: Any, name: str) -> bool:
    """Whether no code that was traced, and no method of the block's class, can have read its attribute of this name."""
    cls, read = type(block), states_of(block).read
    return (not UNDER_WAY and named_in_methods(cls) is not None and name not in _names_of(cls)
            and not any(names is None or name in names for names in list(read)))


class States:
    """The states in which a block was since the last change that was no assignment of a number, a text or an array."""
    __slots__ = ("_names", "_numbers", "read")

    def __init__(self) -> None:
        # by which names traced code may have read attributes of the block, one set for each trace; None: by any
        self.read: set[frozenset[str] | None] = set()
        self._names: tuple[str, ...] = ()
        self._numbers: dict[Any, int] = {}

    def assign(self, block: Any, name: str, value: Any) -> int:
        """Give an attribute another value. Returns the number of the state in which the block is then."""
        own = vars(block)
        with _LOCK:
            if UNDER_WAY or _told(block, own.get(name, GONE)) is None or _told(block, value) is None:
                own[name] = value                        # what is being traced may have read either value
                self.forget()
                return another()
            if name not in self._names:
                self._names += (name,)
                self._numbers = {self._now(block): own["_version"]}
            own["_version"] = another()                  # until its state is found
            own[name] = value
            if len(self._numbers) >= _MOST:
                self._numbers.clear()
            return self._numbers.setdefault(self._now(block), own["_version"])

    def _now(self, block: Any) -> Any:
        return tuple(_told(block, vars(block).get(name, GONE)) for name in self._names)

    def forget(self) -> None:
        """Forget all states, after another kind of change: none of them can come again."""
        self._names, self._numbers = (), {}


def hold(block: Any, name: str, value: Any) -> int | None:
    """Give an attribute of a block a value. Returns the number of the state in which the block is then; None if it is
    the state of before, as no program can tell this value from the old one."""
    own = vars(block)
    existing = own.get(name, GONE)
    if existing is not GONE and not hasattr(type(value), "_signature_version") and _alike(block, name, existing, value):
        own[name] = value
        return None
    return states_of(block).assign(block, name, value)


def _alike(block: Any, name: str, old: Any, new: Any) -> bool:
    if new is old:
        return True
    told = _told(block, new)
    if told is not None and told == _told(block, old) and (name not in block._loose or _is_plain(new)):
        UNREAD[0] += not _is_plain(new)
        return True                                      # attributes in _loose are compared at each call
    if _unread(block, name):
        UNREAD[0] += 1
        return True
    return False


def states_of(block: Any) -> States:
    """The states of a block; a block from a file of an older version gets them here."""
    states: States = vars(block).setdefault("_states", States())
    return states
