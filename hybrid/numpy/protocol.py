"""NumPy's protocols: ``numpy.mean(x)`` and ``numpy.add(x, y)`` of our arrays are our functions, where NumPy's names are
ours."""
from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np

from ..buffers.array import NDArray

UFUNCS = {"conjugate": "copy", "positive": "copy"}              # the identity of real numbers
SPACE: list[ModuleType] = []                                    # hybrid.numpy, put here when it is made


def namespace() -> ModuleType:
    """hybrid.numpy, which comes after the classes that ask for it."""
    return SPACE[0]


def array_function(func: Any, args: Any, kwargs: Any) -> Any:
    """numpy.mean(x, …) and the like: our function of the same name; NumPy's own on copies where we have none."""
    space: Any = namespace()
    module = getattr(func, "__module__", "") or ""
    for part in ("linalg", "random"):
        if module.startswith(f"numpy.{part}"):
            space = getattr(space, part)
    mine = getattr(space, func.__name__, None)
    if mine is None:
        return NotImplemented
    kwargs = {k: v for k, v in kwargs.items() if not (v is np._NoValue or k == "like" and v is None)}
    return mine(*args, **kwargs)


def array_ufunc(ufunc: Any, method: str, inputs: Any, kwargs: Any) -> Any:
    """numpy.add(x, y) and ``numpy_array + x``: our function of the same name."""
    if method != "__call__":
        raise TypeError(f"numpy.{ufunc.__name__}.{method} of arrays of this library is not supported; call it on "
                        f"x.asnumpy()")
    out = kwargs.pop("out", None)
    target = out[0] if isinstance(out, tuple) and len(out) == 1 else out
    if target is not None and not isinstance(target, NDArray):
        raise TypeError(f"numpy.{ufunc.__name__}: out must be an array of this library too, got {type(target).__name__}")  # noqa: E501
    mine = getattr(namespace(), UFUNCS.get(ufunc.__name__, ufunc.__name__), None)
    if mine is None:
        return NotImplemented
    here = next(x._ctx for x in (*inputs, *kwargs.values(), target) if isinstance(x, NDArray))
    values = [namespace().array(x, ctx=here) if isinstance(x, np.ndarray) else x.item() if isinstance(x, np.generic)
              else x for x in inputs]
    return mine(*values, **kwargs, **({} if target is None else {"out": target}))
