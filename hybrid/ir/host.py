"""Calls of Python code from within a program: ``host`` runs a function on arrays, ``host_item`` is one of its results.

A host node stands for all results of its call together and has no value of its own, as a loop (scan.py). The runtime
cuts a program at its host nodes (runtime/staged.py): what lies between is compiled.
"""
from __future__ import annotations

import itertools
from dataclasses import field
from typing import Any, Callable, Mapping, Sequence

import numpy as np

from ..base.records import dataclass
from ..base.errors import ShapeError, user_location
from .build import full, make
from .node import Node
from .primitives import PRIMS, Prim
from .scan import Cotangents
from .size import Specialised, fixed
from .vjp import VJP

_serials = itertools.count()


@dataclass(frozen=True, eq=False)
class HostCall:
    """What is called. Two calls are never one: each has its own state and a ``serial``, in whose order they run.

    run: ``(xp, arrays) -> arrays``, new ones of the shapes and dtypes in ``outputs``. vjp: cotangents of the arguments
    from those of all results (zeros where nothing flows) and the call's node; None where no gradient flows. lends:
    whether results are arrays that the next such call writes again. shows: whether code of the user's may see the
    arrays. alone: for the number of a result, a function as ``run`` that gives this result alone, for programs
    that read no other.
    """
    name: str
    run: Callable[[Any, Sequence[Any]], Sequence[Any]]
    outputs: tuple[tuple[tuple[int, ...], np.dtype], ...]
    vjp: Callable[[Sequence[Node], Node], Sequence["Node | None"]] | None = None
    lends: bool = False
    shows: bool = True
    alone: Mapping[int, Callable[[Any, Sequence[Any]], Sequence[Any]]] = field(default_factory=dict)
    serial: int = field(default_factory=lambda: next(_serials))

    def __lt__(self, other: "HostCall") -> bool:
        return self.serial < other.serial


def host(call: HostCall, args: Sequence[Node]) -> list[Node]:
    """The results of a call. Specialised where arrays of symbolic sizes come or go: the function is made for numbers.

    >>> double = HostCall("double", lambda xp, arrays: [arrays[0] * 2], (((3,), np.dtype("float32")),))
    >>> host(double, [full(1, (3,), "float32")])[0].shape
    (3,)
    """
    shapes = [*(a.shape for a in args), *(shape for shape, _ in call.outputs)]
    if not all(fixed(length) for shape in shapes for length in shape):
        raise Specialised(f"{user_location()}: {call.name} is Python code, which needs numbers for sizes")
    made = make("host", tuple(args), call=call)
    return [make("host_item", (made,), index=i) for i in range(len(call.outputs))]


def _run(xp: Any, n: Node, *arrays: Any) -> tuple[Any, ...]:
    call = n.attrs["call"]
    found = tuple(call.run(xp, arrays))
    for k, (x, (shape, dtype)) in enumerate(zip(found, call.outputs)):
        if x.shape != shape or x.dtype != dtype:
            raise ShapeError(f"{call.name}: result {k} is {x.dtype}{x.shape}, {dtype}{shape} was declared")
    return found


def _host_vjp(g: Cotangents, n: Node, *args: Node) -> tuple["Node | None", ...]:
    call = n.attrs["call"]
    if call.vjp is None:
        return (None,) * len(args)
    return tuple(call.vjp([g[i] if i in g else full(0, shape, dtype) for i, (shape, dtype) in enumerate(call.outputs)],
                          n))


PRIMS["host"] = Prim("host", lambda args, call: ((), np.dtype(np.float32)), _run)
PRIMS["host_item"] = Prim("host_item", lambda args, index: args[0].attrs["call"].outputs[index],
                          lambda xp, n, results: results[n.attrs["index"]])
VJP["host"] = _host_vjp
VJP["host_item"] = lambda g, n, made: (Cotangents({n.attrs["index"]: g}),)
