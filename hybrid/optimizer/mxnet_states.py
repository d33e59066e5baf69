"""Trainer states as MXNet writes them, which is a pickle. It is read as data: the few instructions that such a file
needs are followed here, classes are names without code, and anything else is an error.
"""
from __future__ import annotations

import pickletools
from dataclasses import field
from typing import Any

import numpy as np

from ..base.records import dataclass
from ..buffers.array import array
from ..base.errors import FileFormatError
from ..serialize.params import read_array

ARRAYS = ("mxnet.ndarray.ndarray.NDArray", "mxnet.numpy.multiarray.ndarray")
DEPTH = 32                              # of tuples and dicts within each other
CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
VALUES = frozenset(("INT BININT BININT1 BININT2 LONG LONG1 LONG4 FLOAT BINFLOAT UNICODE BINUNICODE SHORT_BINUNICODE "
                    "BINUNICODE8 "
                    "SHORT_BINBYTES BINBYTES BINBYTES8 BYTEARRAY8").split())
EMPTY = {"EMPTY_DICT": dict, "EMPTY_LIST": list, "EMPTY_TUPLE": tuple}
SHORT_TUPLES = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}


class _Name(str):
    """A class or function, by name alone."""


@dataclass(eq=False)
class Thing:
    """An object: its class's name, what it was called with, its attributes."""
    name: str
    args: tuple[Any, ...] = ()
    state: dict[str, Any] = field(default_factory=dict)


def read(data: bytes) -> tuple[dict[Any, Any], Thing | None]:
    """States by index, with arrays in them, and the optimizer as a Thing if the file holds one (its scheduler is a
    Thing within).

    FileFormatError for what is truncated or damaged, or a pickle of something else.
    """
    try:
        found = _Convert().value(_run(data), 0)
    except FileFormatError:
        raise
    except (ValueError, IndexError, KeyError, TypeError, AttributeError, StopIteration, OverflowError, UnicodeError,
            MemoryError, RecursionError) as err:
        raise FileFormatError(f"these optimizer states are a pickle that is truncated, damaged or not written by "
                              f"MXNet ({str(err)[:120]})") from None
    states, optimizer = found if isinstance(found, tuple) and len(found) == 2 else (found, None)
    if not isinstance(states, dict) or not (optimizer is None or isinstance(optimizer, Thing)
                                            and optimizer.name.startswith("mxnet.optimizer.")):
        raise FileFormatError("these optimizer states are a pickle, but not of the states that MXNet writes")
    return states, optimizer


class _Stack:
    """The stack that instructions work on, with its marks and what was put aside by number."""

    def __init__(self) -> None:
        self.items: list[Any] = []
        self.marks: list[int] = []
        self.memo: dict[int, Any] = {}

    def since_mark(self) -> list[Any]:
        """Takes what came after the last mark."""
        at = self.marks.pop()
        items = self.items[at:]
        del self.items[at:]
        return items

    def value(self, name: str, arg: Any) -> bool:
        """Follow an instruction that leaves a value; False where it is none of these."""
        if name in VALUES:
            self.items.append(arg)
        elif name in CONSTANTS:
            self.items.append(CONSTANTS[name])
        elif name in EMPTY:
            self.items.append(EMPTY[name]())
        elif name in SHORT_TUPLES:
            n = SHORT_TUPLES[name]
            self.items[-n:] = [tuple(self.items[-n:])]
        elif name == "TUPLE":
            self.items.append(tuple(self.since_mark()))
        elif name in ("BINGET", "LONG_BINGET", "GET"):
            self.items.append(self.memo[int(str(arg))])
        elif name == "GLOBAL":
            self.items.append(_Name(str(arg).replace(" ", ".")))
        elif name == "STACK_GLOBAL":
            last, module = self.items.pop(), self.items.pop()
            self.items.append(_Name(f"{module}.{last}"))
        elif name in ("REDUCE", "NEWOBJ"):
            args, function = self.items.pop(), self.items.pop()
            self.items.append(_called(function, args))
        else:
            return False
        return True

    def change(self, name: str, arg: Any) -> bool:
        """Follow an instruction that changes what is there; False where it is none of these."""
        if name == "MARK":
            self.marks.append(len(self.items))
        elif name == "MEMOIZE":
            self.memo[len(self.memo)] = self.items[-1]
        elif name in ("BINPUT", "LONG_BINPUT", "PUT"):
            self.memo[int(str(arg))] = self.items[-1]
        elif name in ("SETITEM", "SETITEMS"):
            items = self.since_mark() if name == "SETITEMS" else [self.items.pop(-2), self.items.pop()]
            self.items[-1].update(zip(items[::2], items[1::2], strict=True))
        elif name in ("APPEND", "APPENDS"):
            items = self.since_mark() if name == "APPENDS" else [self.items.pop()]
            self.items[-1].extend(items)
        elif name == "BUILD":
            state = self.items.pop()
            if not isinstance(self.items[-1], Thing):
                raise ValueError("attributes of what is no object")
            if isinstance(state, dict):                      # else it is a dtype's byte order
                self.items[-1].state.update(state)
        else:
            return name in ("PROTO", "FRAME")
        return True


def _run(data: bytes) -> Any:
    """Follow the instructions; the value they leave."""
    stack = _Stack()
    for op, arg, _ in pickletools.genops(data):
        if op.name == "STOP":
            return stack.items.pop()
        if not stack.value(op.name, arg) and not stack.change(op.name, arg):
            raise ValueError(f"the instruction {op.name}, which such a file has no use for")
    raise ValueError("no end")


def _called(function: Any, args: Any) -> Any:
    if not isinstance(function, _Name) or not isinstance(args, tuple):
        raise ValueError("a call of what is no function")
    if function in ("builtins.bytearray", "__builtin__.bytearray") and len(args) in (1, 2):
        return args[0] if isinstance(args[0], bytes) else str(args[0]).encode("latin-1")
    if function in ("_codecs.encode",) and len(args) == 2:
        return str(args[0]).encode("latin-1")
    if function.endswith("multiarray.scalar") and len(args) == 2 and isinstance(args[0], Thing):
        dtype = np.dtype(str(args[0].args[0]))
        if dtype.kind not in "fiub":
            raise ValueError(f"a number of dtype {dtype}")
        return np.frombuffer(args[1], dtype)[0].item()
    return Thing(str(function), args)


class _Convert:
    """Arrays for their bytes, in tuples, lists and dicts. What is referred to twice is converted once."""

    def __init__(self) -> None:
        self.done: dict[int, tuple[Any, Any]] = {}

    def value(self, x: Any, depth: int) -> Any:
        """The value with arrays in it."""
        if x is None or isinstance(x, (bool, int, float, str)) and not isinstance(x, _Name):
            return x
        if depth > DEPTH:
            raise ValueError("values within each other too deep")
        if id(x) not in self.done:
            self.done[id(x)] = x, self._made(x, depth + 1)
        return self.done[id(x)][1]

    def _made(self, x: Any, depth: int) -> Any:
        if isinstance(x, (tuple, list)):
            return type(x)(self.value(v, depth) for v in x)
        if isinstance(x, dict):
            if not all(isinstance(k, (str, int)) for k in x):
                raise ValueError("a key that is neither a number nor text")
            return {k: self.value(v, depth) for k, v in x.items()}
        if isinstance(x, Thing) and x.name in ARRAYS:
            raw = read_array(x.state["handle"])
            return array(raw, dtype=raw.dtype)
        if isinstance(x, Thing) and x.name.startswith("mxnet."):
            return Thing(x.name, (), {str(k): self.value(v, depth) for k, v in x.state.items()})
        raise ValueError(f"a value of {x.name if isinstance(x, Thing) else type(x).__name__}")
