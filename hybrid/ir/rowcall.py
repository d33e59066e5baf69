"""Row kernels: algorithms that go step by step (a factorisation, a greedy choice), written once by hand.

A row kernel is a function over the last axes of its arguments, done for every position of the leading ones. Its text
(``kernels/include/rows_*.h``) is C and CUDA at once: the threads of a block share a row, in C there is one. What it is
called with, its shapes, its NumPy form and its gradient stand in one ``RowKernel``.
"""
from __future__ import annotations

import math
from dataclasses import field
from typing import Any, Callable, Mapping, Sequence

import numpy as np

from ..base import dtype as dt
from ..base.records import dataclass
from ..base.errors import DTypeError
from .node import Node


Box = tuple[tuple[int, ...], tuple[int, ...]]            # where a part of an array begins, and its shape
Eager = Callable[[Any, Sequence[Any], tuple[Any, ...]], Any]


@dataclass(frozen=True)
class RowKernel:
    """``name``: the C function ``hy_NAME_HY_T(out, args…, params…)`` in ``header``; every argument and the result are
    of one type HY_T. ranks: how many last axes of each argument belong to a row. infer: shape of a row's result from
    those of the arguments and the parameters. params: the integers and numbers handed to C. eager: ``(xp, arrays,
    params)`` on arrays (rows, …), giving (rows, …). vjp: ``(g, node, *args)``, or None where no gradient flows.
    eager_from: pairs (count, size): for at least ``count`` rows (matrices, vectors) whose last axis has at least
    ``size`` elements, ``eager`` is faster on a CPU than the compiled kernel. parts: for kernels with
    several results, where these lie in a row's one array, from the arguments' shapes and the parameters; the rest is
    working memory, which nobody reads. Then ``eager`` gives a list of the parts. alone: by the number of a part, a
    function like ``eager`` that computes this part alone.
    """
    name: str
    header: str
    ranks: tuple[int, ...]
    infer: Callable[[Sequence[tuple[int, ...]], tuple[Any, ...]], tuple[int, ...]]
    params: Callable[[Sequence[tuple[int, ...]], tuple[Any, ...]], tuple[Any, ...]]
    eager: Eager
    vjp: Callable[..., tuple[Any, ...]] | None = None
    eager_from: tuple[tuple[int, int], ...] = ()
    parts: Callable[[Sequence[tuple[int, ...]], tuple[Any, ...]], Sequence[Box]] | None = None
    alone: Mapping[int, Eager] = field(default_factory=dict)


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


def parts_of(n: Node) -> list[Box]:
    """Where a row kernel's results lie in one row of its node's array."""
    kernel = ROW_KERNELS[n.attrs["name"]]
    whole = n.shape[n.args[0].ndim - kernel.ranks[0]:]
    own = own_shapes(kernel, [a.shape for a in n.args])
    return [((0,) * len(whole), whole)] if kernel.parts is None else list(kernel.parts(own, n.attrs["params"]))


def by_numpy(n: Node, shapes: Sequence[tuple[int, ...]] | None = None,
             alone: int | None = None) -> Callable[[Any, Sequence[Any]], list[Any]]:
    """A function of the array library and arrays that gives the results of a row kernel. shapes: of the results,
    instead of (leading axes, …). alone: the number of the only result that is wanted."""
    kernel, params, dtype = ROW_KERNELS[n.attrs["name"]], n.attrs["params"], n.dtype
    lead = n.args[0].shape[:n.args[0].ndim - kernel.ranks[0]]
    given = [(math.prod(lead), *s) for s in own_shapes(kernel, [a.shape for a in n.args])]
    wanted = shapes or [(*lead, *size) for _, size in parts_of(n)]
    one = kernel.parts is None or alone is not None
    run = kernel.eager if alone is None else kernel.alone[alone]
    if alone is not None:
        wanted = [wanted[alone]]

    def found(xp: Any, arrays: Sequence[Any]) -> list[Any]:
        made = run(xp, [xp.ascontiguousarray(a).reshape(s) for a, s in zip(arrays, given)], params)
        return [xp.asarray(x, dtype=dtype, order="C").reshape(s) for x, s in zip([made] if one else made, wanted)]
    return found


def run_rows(xp: Any, n: Node, *arrays: Any) -> Any:
    """A row kernel by NumPy or CuPy: all results in one array, with zeros as working memory."""
    found = by_numpy(n)(xp, arrays)
    if ROW_KERNELS[n.attrs["name"]].parts is None:
        return found[0]
    out = xp.zeros(n.shape, n.dtype)
    for x, (begin, size) in zip(found, parts_of(n)):
        out[(..., *(slice(b, b + d) for b, d in zip(begin, size)))] = x
    return out
