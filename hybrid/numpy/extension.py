"""``npx``: neural-network operators for ``np`` arrays, and the switch of NumPy semantics."""
from __future__ import annotations

from types import ModuleType
from typing import Any

from ..nd import functions
from .. import serialize
from ..autograd.demands import demand
from ..buffers.array import NDArray, wrap
from ..nd.dynamic import nonzero
from ..base.device import Context, cpu, cpu_pinned, current_context, gpu, num_gpus
from ..nd import waitall
from . import ndarray
from . import random as _np_random
from .multiarray import as_value, is_value
from .random import seed
from ..base.other_names import import_error_with_hint as _with_hint
from ..base.scope import SCOPE


def set_np(shape: bool = True, array: bool = True, dtype: bool = False) -> None:
    """Gluon and operators make ``np.ndarray`` from here on."""
    if array and not shape:
        raise ValueError("set_np: array=True needs shape=True (np arrays have zero-dim and zero-size shapes)")
    SCOPE.np_shape, SCOPE.np_array = shape, array


def reset_np() -> None:
    """Back to ``nd.NDArray``."""
    set_np(False, False)


def is_np_array() -> bool:
    """Whether ``set_np`` is on."""
    return SCOPE.np_array


def is_np_shape() -> bool:
    """Whether zero-dim and zero-size shapes are on (they always work here)."""
    return SCOPE.np_shape


def save(file: Any, arr: Any) -> None:
    """Save arrays in MXNet's .params format."""
    serialize.save(file, arr, version=3)


def load(file: Any) -> Any:
    """What ``save`` wrote, as np.ndarray."""
    return serialize.load(file, ndarray)


def cpu_context() -> Context:
    """The CPU."""
    return cpu()


def constraint_check(x: Any, msg: str = "Constraint violated!") -> Any:
    """True where all of x is; a ValueError with ``msg`` where something is not."""
    found = functions.resolve("np", "all")(as_value(x))
    if is_value(found):
        text = msg.replace("{", "{{").replace("}", "}}")
        demand(functions.resolve("np", "logical_not")(found), found, ValueError, text)
    return found


def _random() -> ModuleType:
    space: Any = ModuleType("hybrid.npx.random",
                            "Draws of npx: ``bernoulli``, ``uniform_n``, ``normal_n``, and ``seed``.")
    for name in ("bernoulli", "uniform_n", "normal_n"):
        setattr(space, name, getattr(_np_random, name))
    space.seed, space.current_context = seed, current_context
    return space


random = _random()


@_with_hint
def __getattr__(name: str) -> Any:
    """Operators as functions."""
    if name.startswith("__"):
        raise AttributeError(name)
    return _kept(name, functions.resolve("npx", name))


_kept = functions.Kept(globals(), functions.registry.namespace("npx"))


def __dir__() -> list[str]:
    return sorted({*__all__, *functions.listing("npx"), "cpu_context"} - {"wrap"})


__all__ = ["NDArray", "constraint_check", "cpu", "cpu_pinned", "current_context", "gpu", "is_np_array", "is_np_shape",
           "load",
           "nonzero", "num_gpus", "random", "reset_np", "save", "seed",
           "set_np", "waitall", "wrap"]
