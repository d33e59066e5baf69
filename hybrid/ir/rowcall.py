"""Row kernels: algorithms that go step by step (a factorisation, a greedy choice), written once by hand.

A row kernel is a function over the last axes of its arguments, done for every position of the leading ones. Its text
(``kernels/include/rows_*.h``) is C and CUDA at once: the threads of a block share a row, in C there is one. What it is
called with, its shapes, its NumPy form and its gradient stand in one ``RowKernel``.
"""
from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Callable, Sequence

import numpy as np

from ..base import dtype as dt
from ..base.errors import DTypeError
from .node import Node


@dataclass(frozen=True)
class RowKernel:
    """``name``: the C function ``hy_NAME_HY_T(out, args…, params…)`` in ``header``; every argument and the result are
    of one type HY_T. ranks: how many last axes of each argument belong to a row. infer: shape of a row's result from
    those of the arguments and the parameters. params: the integers and numbers handed to C. eager: ``(xp, arrays,
    params)`` on arrays (rows, …), giving (rows, …). vjp: ``(g, node, *args)``, or None where no gradient flows.
    eager_from: pairs (count, size): for at least ``count`` rows (matrices, vectors) whose last axis has at least
    ``size`` elements, ``eager`` is faster on a CPU than the compiled kernel. eager_part: where, in the first axis of
    a row's result, a part begins and ends that is quicker to compute alone, from the arguments' shapes; as ``eager``,
    that part.
    """
    name: str
    header: str
    ranks: tuple[int, ...]
    infer: Callable[[Sequence[tuple[int, ...]], tuple[Any, ...]], tuple[int, ...]]
    params: Callable[[Sequence[tuple[int, ...]], tuple[Any, ...]], tuple[Any, ...]]
    eager: Callable[[Any, Sequence[Any], tuple[Any, ...]], Any]
    vjp: Callable[..., tuple[Any, ...]] | None = None
    eager_from: tuple[tuple[int, int], ...] = ()
    eager_part: tuple[Callable[[Sequence[tuple[int, ...]]], tuple[int, int]], Callable[..., Any]] | None = None


ROW_KERNELS: dict[str, RowKernel] = {}


def register_rows(kernel: RowKernel) -> RowKernel:
    """Add a row kernel. A name that is taken is an error."""
    if kernel.name in ROW_KERNELS:
        raise ValueError(f"a row kernel named {kernel.name!r} is registered already")
    ROW_KERNELS[kernel.name] = kernel
    return kernel


def own_shapes(kernel: RowKernel, shapes: Sequence[tuple[int, ...]]) -> list[tuple[int, ...]]:
    """The part of each argument's shape that belongs to a row."""
    return [s[len(s) - r:] for s, r in zip(shapes, kernel.ranks)]


def infer_rows(args: tuple[Node, ...], name: str, params: tuple[Any, ...]) -> tuple[tuple[int, ...], np.dtype]:
    """Shape and dtype of a row kernel's result."""
    kernel = ROW_KERNELS[name]
    leading = {a.shape[:a.ndim - r] for a, r in zip(args, kernel.ranks)}
    if len(args) != len(kernel.ranks) or len(leading) != 1:
        raise ValueError(f"{name}: {len(kernel.ranks)} arguments with the same leading axes are wanted, got "
                         f"{[a.shape for a in args]}")
    if len({a.dtype for a in args}) != 1 or not dt.is_float(args[0].dtype) or args[0].dtype.itemsize < 4:
        raise DTypeError(f"{name} takes float32 or float64, got {', '.join(a.dtype.name for a in args)}")
    return leading.pop() + kernel.infer(own_shapes(kernel, [a.shape for a in args]), params), args[0].dtype


def faster_eagerly(n: Node) -> bool:
    """Whether NumPy's function does a row kernel's work faster on a CPU, as measured (``eager_from``)."""
    if n.prim != "rows":
        return False
    kernel, first = ROW_KERNELS[n.attrs["name"]], n.args[0]
    rows = math.prod(first.shape[:first.ndim - kernel.ranks[0]])
    return any(rows >= count and first.shape[-1] >= size for count, size in kernel.eager_from)


def part_of_rows(n: Node, readers: Sequence[Node]) -> tuple[int, int] | None:
    """Where the part of a row kernel's result begins and ends that is all that readers read, where there is one."""
    kernel = ROW_KERNELS[n.attrs["name"]]
    axis = n.args[0].ndim - kernel.ranks[0]
    if kernel.eager_part is None or not readers or any(u.prim != "slice" for u in readers):
        return None
    begin, end = kernel.eager_part[0](own_shapes(kernel, [a.shape for a in n.args]))
    inside = all(begin <= u.attrs["begin"][axis] and u.attrs["begin"][axis] + u.attrs["size"][axis] <= end
                 and u.attrs["step"][axis] == 1 for u in readers)
    return (begin, end) if inside else None


def run_rows(xp: Any, n: Node, *arrays: Any, part: tuple[int, int] | None = None) -> Any:
    """A row kernel by NumPy or CuPy. part: what alone is wanted of each row's result; the rest is zeros."""
    kernel = ROW_KERNELS[n.attrs["name"]]
    own = own_shapes(kernel, [a.shape for a in arrays])
    rows = math.prod(arrays[0].shape[:arrays[0].ndim - len(own[0])])
    given = [xp.ascontiguousarray(a).reshape((rows, *s)) for a, s in zip(arrays, own)]
    if part is None or kernel.eager_part is None:
        return xp.asarray(kernel.eager(xp, given, n.attrs["params"]), dtype=n.dtype).reshape(n.shape)
    out = xp.zeros(n.shape, n.dtype)
    whole = out.reshape((rows, *n.shape[arrays[0].ndim - len(own[0]):]))
    whole[:, part[0]:part[1]] = kernel.eager_part[1](xp, given, n.attrs["params"])
    return out
