"""Calls of NumPy's functions, made from a table of argument forms: the same text runs with NumPy, with hybrid.np and
with MXNet's mx.np. Nothing but NumPy is needed here."""
from __future__ import annotations

import copy
import math
import operator
import pickle
from collections import ChainMap
from typing import Any, Callable, Mapping

import numpy as onp

from ..paths import DATA

DTYPES = {"b": "bool", "i1": "int8", "u1": "uint8", "i4": "int32", "i8": "int64", "f2": "float16", "f4": "float32",
          "f8": "float64"}
_BASE = onp.array([[1, 2, 0], [3, 1, 4]])
_NEGATIVE = onp.array([[-1, 2, 0], [3, -4, 1]])


def _arrays() -> dict[str, onp.ndarray]:
    found = {name: (_BASE if name in ("b", "u1") else _NEGATIVE).astype(dtype) for name, dtype in DTYPES.items()}
    found["b"] = _BASE % 2 == 1
    found |= {f"{name}_pos": (_BASE + 1).astype(DTYPES[name]) for name in ("i4", "i8", "f2", "f4", "f8", "u1", "i1")}
    found |= {f"{name}_row": onp.array([2, 1, 3]).astype(DTYPES[name]) for name in DTYPES}
    found |= {
        "f4_col": onp.array([[0.5], [2]], "f4"), "f4_0d": onp.array(0.5, "f4"), "i4_0d": onp.array(3, "i4"),
        "f4_empty": onp.zeros((0, 3), "f4"), "i4_empty": onp.zeros((0, 3), "i4"), "f4_none": onp.zeros(0, "f4"),
        "unit": onp.array([[0.25, -0.5, 0], [0.75, 1, -1]], "f4"), "unit8": onp.array([0.25, -0.5, 0.75], "f8"),
        "special": onp.array([onp.nan, onp.inf, -onp.inf, 0.0, -0.0, 1.5, -2.5], "f4"),
        "special2": onp.array([1.0, onp.inf, onp.inf, 0.0, onp.nan, -onp.inf, 0.5], "f4"),
        "nan3": onp.array([[1, onp.nan, 3], [onp.nan, onp.nan, onp.nan]], "f4"),
        "nan1": onp.array([2, onp.nan, 1, 4], "f4"),
        "sq": onp.array([[4, 1, 0.5], [1, 3, 0.25], [0.5, 0.25, 2]], "f4"), "sq8": onp.diag([2.0, 3.0]) + 0.5,
        "sqi": onp.array([[2, 1], [1, 3]], "i4"), "stacked": onp.stack([onp.eye(3) * 2 + 0.5,
                                                                        onp.eye(3) + 1]).astype("f4"),
        "singular": onp.ones((2, 2), "f4"), "cube": onp.arange(24).reshape(2, 3, 4).astype("f4") / 8 - 1,
        "icube": onp.arange(24).reshape(2, 3, 4).astype("i4"), "tall": onp.arange(6).reshape(3, 2).astype("f4") / 2 - 1,
        "one": onp.ones((1, 3, 1), "f4"), "vec": onp.array([3, 1, 2, 1, 5], "f4"),
        "vec8": onp.array([3, 1, 2.5, 1, 5.0]),
        "up": onp.array([0, 1, 1, 4, 6], "f4"), "whole": onp.array([0, 1, 1, 3, 2], "i8"),
        "wholei4": onp.array([0, 1, 1, 3, 2], "i4"),
        "idx": onp.array([0, 2], "i8"), "idx4": onp.array([1, 0], "i4"), "far": onp.array([0, 9], "i8"),
        "minus": onp.array([-1, 0], "i8"), "mask": onp.array([True, False, True]),
        "halves": onp.array([0.5, 1.5, 2.5, -0.5, -1.5], "f4"),
        "big": onp.array([100, 127, -128], "i1"), "ubig": onp.array([200, 255, 0], "u1"),
        "two31": onp.array([2 ** 31 - 1, -2 ** 31, 5], "i4"), "zeros": onp.array([0, 0, 0], "i4"),
        "poly": onp.array([1, -3, 2], "f4"), "angles": onp.array([0, 2, 6.5, 1], "f4"),
        "bits": onp.array([3, 129], "u1"),
        "put": onp.array([9, 8], "f4")}
    return found


ARRAYS = _arrays()
MODULES = {"onp": onp, "copy": copy, "math": math, "operator": operator, "pickle": pickle}


class Values(dict):
    """Arrays by name, made when first asked for, anew for each call."""

    def __init__(self, make: Callable[[onp.ndarray], Any]):
        super().__init__()
        self.make = make

    def __missing__(self, name: str) -> Any:
        if name not in ARRAYS:
            raise KeyError(name)
        self[name] = self.make(ARRAYS[name].copy())
        return self[name]


def evaluate(call: str, space: Any, make: Callable[[onp.ndarray], Any], given: Mapping[str, Any] = {}) -> Any:
    """What an expression gives with a namespace's functions on arrays that ``make`` makes."""
    code = compile(call, "<call>", "eval")       # a file name of its own: of "python -c" "<string>" is the user's code
    return eval(code, {"np": space, **MODULES}, ChainMap(dict(given), Values(make)))



def calls() -> dict[str, list[str]]:
    """Expressions by the function, method or operation that they are about."""
    kinds: dict[str, str] = {}
    forms: dict[str, list[str]] = {}
    for line in (DATA / "np_calls.txt").read_text().splitlines():
        if " | " in line and ": " not in line:
            kind, names = line.split(" | ")
            kinds |= dict.fromkeys(names.split(), kind)
        elif line and not line.startswith("#"):
            name, _, rest = line.partition(": ")
            forms.setdefault(name.strip(), []).extend(rest.split("; "))
    found: dict[str, list[str]] = {}
    for name in [*kinds, *(n for n in forms if n not in kinds and n not in kinds.values())]:
        texts = [*forms.get(kinds.get(name, ""), ()), *forms.get(name, ())]
        found[name] = list(dict.fromkeys(f"np.{name}{t}" if t.startswith("(") and not _whole(name) else t
                                         for t in texts))
    return found


def _whole(name: str) -> bool:
    """Whether the forms of a name are expressions of their own."""
    return name.startswith("ndarray.") or name in ("array protocols", "conversion", "iteration", "indexing",
                                                   "assignment", "operators", "in place")
