"""Random fills for initializers, from the same generator as nd.random; always eager, also while a trace is active."""
from __future__ import annotations

from typing import Any

import numpy as np

from ..base import rng
from ..buffers.array import NDArray
from ..buffers.moving import move
from ..ops.registry import OPS
from ..runtime import reference


def _draw(op: str, shape: tuple[int, ...], **attrs: Any) -> np.ndarray:
    d = OPS[op]
    program = d.program([], [], d.parse({"shape": shape, **attrs}))
    return np.asarray(reference.run(program, [rng.next_key()], np)[0][0])


def raw_uniform(shape: tuple[int, ...], low: float, high: float) -> np.ndarray:
    """Uniform float32 numbers."""
    return _draw("_random_uniform", shape, low=low, high=high)


def raw_normal(shape: tuple[int, ...], loc: float, scale: float) -> np.ndarray:
    """Normal float32 numbers."""
    return _draw("_random_normal", shape, loc=loc, scale=scale)


def to_device(raw: np.ndarray, like: NDArray) -> Any:
    """A raw array on the device of another."""
    return move(raw, like._ctx, False)


def uniform(arr: NDArray, low: float, high: float) -> None:
    """Fill an array."""
    arr._write(to_device(raw_uniform(arr.shape, low, high).astype(arr._data.dtype), arr))


def normal(arr: NDArray, loc: float, scale: float) -> None:
    """Fill an array."""
    arr._write(to_device(raw_normal(arr.shape, loc, scale).astype(arr._data.dtype), arr))
