"""What a call gives, in a form that can be written down and compared: dtype, shape and values, or the error."""
from __future__ import annotations

import warnings
from typing import Any, Callable, Mapping

import numpy as onp

from tests.numpy.np_calls import evaluate

ERRORS = (TypeError, ValueError, IndexError, KeyError, AttributeError, ZeroDivisionError, OverflowError,
          NotImplementedError, MemoryError, AssertionError)
RTOL = {"float16": 4e-3, "float32": 3e-5, "float64": 1e-9, "complex64": 3e-5, "complex128": 1e-9}
NUMBERS = {bool: "bool", int: "int", float: "float", complex: "complex"}

# an answer: ["error", classes] | ["other", text] | ["list", answers] | [dtype, shape, values], dtype "int", "float", …
# of Python's numbers
Answer = list[Any]


def answer(call: str, space: Any, make: Callable[[onp.ndarray], Any], given: Mapping[str, Any] = {}) -> Answer:
    """The answer to a call; of draws the shape and dtype alone."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with onp.errstate(all="ignore"):
                found = described(evaluate(call, space, make, given))
    except Exception as err:
        return ["error", type(err).__name__, [e.__name__ for e in ERRORS if isinstance(err, e)]]
    return _without_values(found) if call.startswith("np.random.") else found


def described(value: Any) -> Answer:
    if type(value) in NUMBERS:
        return [NUMBERS[type(value)], [], [value.real, value.imag] if isinstance(value, complex) else value]
    if hasattr(value, "asnumpy"):
        value = value.asnumpy()
    if isinstance(value, (list, tuple)):
        return ["list", [described(v) for v in value]]
    if isinstance(value, (onp.ndarray, onp.generic)) and value.dtype.kind in "biufc":
        value = onp.asarray(value)
        return [str(value.dtype), list(value.shape), _plain(value)]
    if isinstance(value, (onp.dtype, type)):
        return ["other", onp.dtype(value).name if isinstance(value, onp.dtype) else value.__name__]
    return ["other", value if isinstance(value, str) else "None" if value is None else type(value).__name__]


def _plain(value: Any) -> Any:
    if value.dtype.kind == "c":
        return [_plain(onp.asarray(value.real)), _plain(onp.asarray(value.imag))]
    return value.tolist()


def _without_values(found: Answer) -> Answer:
    if found[0] == "list":
        return ["list", [_without_values(v) for v in found[1]]]
    return [*found[:2], None] if len(found) == 3 and found[0] != "error" else found


def difference(ours: Answer, numpys: Answer) -> str:
    """How an answer differs from NumPy's: "" | "error" | "type" | "length" | "shape" | "dtype" | "values"."""
    if "error" in (ours[0], numpys[0]):
        if ours[0] != numpys[0]:
            return "error"
        return "" if not numpys[2] or set(ours[2]) & set(numpys[2]) else "class of error"
    if "list" in (ours[0], numpys[0]) or "other" in (ours[0], numpys[0]):
        if ours[0] != numpys[0]:
            return "type"
        if ours[0] == "other":
            return "" if ours[1] == numpys[1] else "values"
        if len(ours[1]) != len(numpys[1]):
            return "length"
        return next((d for d in map(difference, ours[1], numpys[1]) if d), "")
    if ours[1] != numpys[1]:
        return "shape"
    if ours[2] is not None and not _equal(ours, numpys):
        return "values"
    return "" if same_dtype(ours[0], numpys[0]) else "dtype"


def same_dtype(a: str, b: str) -> bool:
    """Whether dtypes are equal; a number of Python's is of any width."""
    python = NUMBERS.values()
    if a in python or b in python:
        return a.rstrip("0123456789").lstrip("u") == b.rstrip("0123456789").lstrip("u")
    return a == b


def _equal(a: Answer, b: Answer) -> bool:
    if a[0].startswith("complex") != b[0].startswith("complex"):
        return False
    x, y = (onp.asarray(v[2], object if v[0] == "int" else None) for v in (a, b))
    if x.dtype.kind in "biu" and y.dtype.kind in "biu":
        return bool(onp.array_equal(x, y))
    rtol = max(RTOL.get(v[0], 1e-9) for v in (a, b))
    return bool(onp.allclose(x.astype(float), y.astype(float), rtol=rtol, atol=rtol, equal_nan=True))


def brief(found: Answer) -> str:
    """An answer in a few words, for a table."""
    if found[0] == "error":
        return found[1]
    if found[0] == "other":
        return str(found[1])[:24]
    if found[0] == "list":
        return f"({', '.join(brief(v) for v in found[1][:3])}{', …' if len(found[1]) > 3 else ''})"
    values = "" if found[2] is None else str(found[2]).replace("'", "")
    shape = f"{tuple(found[1])}" if found[1] else ""
    return f"{found[0]}{shape}" + (f" {values}" if values and len(values) < 32 else "")
