"""Primitives in ONNX: whatever operator has no form of its own becomes the nodes of its primitives.

``FORMS`` is keyed by primitive. Constants and broadcasts are written where somebody wants them: elementwise nodes
broadcast themselves.
"""
from __future__ import annotations

import math
from typing import Any, Callable, Sequence

import numpy as np

from ...base import dtype as dt
from ...base.errors import HybridError
from ...ir import Node, Program
from ...ir.primitives import positions
from ...ir.pattern import constant
from ...passes.fold import fold
from ...passes.loops import tidy
from .builder import Graph
from .scalars import LOGIC, NODES, made_of

LAZY = ("const", "data", "iota", "expand")
NARROW = {np.dtype(k): np.dtype(v) for k, v in (("bool", "int32"), ("int8", "int32"), ("uint8", "int32"),
                                                ("int16", "int32"), ("uint16", "int32"),
                                                # runtimes compute with few types
                                                ("uint32", "int64"), ("uint64", "int64"))}
REDUCE = {"sum": "ReduceSum", "prod": "ReduceProd", "max": "ReduceMax", "min": "ReduceMin"}
FORMS: dict[str, Callable[["Emitter", Node], str]] = {}


class NoForm(HybridError):
    """Something that cannot be said in ONNX; the message says what."""


def emit(g: Graph, program: Program, inputs: Sequence[Callable[[], str]]) -> list[str]:
    """The nodes of a program; the names of its outputs. inputs: give the names of its inputs, asked when one is
    used."""
    roots = fold(tidy(Program(program.inputs, program.outputs))).outputs
    e = Emitter(g, {})
    e.inputs = {leaf: name for leaf, name in zip(program.inputs, inputs)}
    return e.run(roots)


class Emitter:
    """Names of the nodes that are written already."""

    def __init__(self, g: Graph, names: dict[Node, str]):
        self.g, self.names = g, names
        self.inputs: dict[Node, Callable[[], str]] = {}
        self.loops: dict[Node, list[str]] = {}

    def run(self, roots: Sequence[Node]) -> list[str]:
        """Write what the roots need; their names."""
        stack = [(r, False) for r in reversed(roots)]
        while stack:
            n, ready = stack.pop()
            if n in self.names or constant(n) is not None:
                continue
            if not ready:
                stack.append((n, True))
                stack += [(a, False) for a in reversed(n.args) if a.prim != "scan"]
                stack += [(b, False) for a in n.args if a.prim == "scan" for b in reversed(a.args)]
            elif n.prim == "input":
                if n in self.inputs:
                    self.names[n] = self.inputs[n]()
            elif n.prim not in LAZY:
                self.names[n] = self._write(n)
        return [self.of(r) for r in roots]

    def _write(self, n: Node) -> str:
        form = FORMS.get(n.prim)
        if form is None:
            raise NoForm(WHY.get(n.prim, f"the primitive {n.prim!r} has no form in ONNX"))
        return form(self, n)

    def of(self, n: Node) -> str:
        """The name of a whole value."""
        found = self.names.get(n)
        if found is None:
            value = constant(n)
            if value is not None:
                found = self.g.expand(self.g.const(np.full((1,) * n.ndim, value, n.dtype)), (1,) * n.ndim, n.shape)
            elif n.prim == "expand":
                found = self.g.expand(self.of(n.args[0]), n.args[0].shape, n.shape)
            elif n.prim == "iota":
                found = self.g.const(np.arange(n.attrs["n"], dtype=n.dtype))
            elif n.prim == "data":
                found = self.g.const(np.frombuffer(n.attrs["value"], n.dtype).reshape(n.shape))
            else:
                found, = self.run([n])
            self.names[n] = found
        return found

    def thin(self, n: Node) -> tuple[str, tuple[int, ...]]:
        """A value before it is broadcast, and its shape."""
        value = constant(n)
        if value is not None and n not in self.names:
            return self.g.const(value, n.dtype), ()
        if n.prim == "expand" and n not in self.names:
            return self.thin(n.args[0])
        return self.of(n), n.shape


def form(*prims: str) -> Callable[[Any], Any]:
    """Register the form of primitives."""
    def add(fn: Any) -> Any:
        FORMS.update(dict.fromkeys(prims, fn))
        return fn
    return add


WHY = {"random_bits": "it draws random numbers", "host": "it runs Python code", "host_item": "it runs Python code",
       "bitcast": "it reads the bits of numbers"}


# ---- elementwise
@form("map")
def _map(e: Emitter, n: Node) -> str:
    other = made_of(n)
    if other is not None:
        return e.run([other])[0]
    fn = n.attrs["fn"]
    if fn not in NODES:
        raise NoForm(f"the function {fn!r} is not in ONNX")
    pairs = [e.thin(a) for a in n.args]
    if np.broadcast_shapes(*(shape for _, shape in pairs)) != n.shape:
        pairs[0] = e.of(n.args[0]), n.shape
    names = [name for name, _ in pairs]
    want: list[Any] = [dt.bool_] * len(names) if fn in LOGIC else [NARROW.get(a.dtype, a.dtype) for a in n.args]
    if fn == "where":
        want = [dt.bool_, n.dtype, n.dtype]
    out = e.g.node(NODES[fn][0], [_cast(e.g, name, a.dtype, t) for name, a, t in zip(names, n.args, want)])
    return _cast(e.g, out, dt.bool_ if n.dtype == dt.bool_ and fn not in ("maximum", "minimum") else want[-1], n.dtype)


def _cast(g: Graph, name: str, source: np.dtype, target: np.dtype) -> str:
    return name if source == target else g.cast(name, target)


@form("cast")
def _cast_form(e: Emitter, n: Node) -> str:
    return e.g.cast(e.of(n.args[0]), n.dtype)


# ---- movement
@form("reshape")
def _reshape(e: Emitter, n: Node) -> str:
    return e.g.reshape(e.of(n.args[0]), n.args[0].shape, n.shape)


@form("permute")
def _permute(e: Emitter, n: Node) -> str:
    return e.g.transpose(e.of(n.args[0]), n.attrs["axes"])


@form("slice")
def _slice(e: Emitter, n: Node) -> str:
    return e.g.slice(e.of(n.args[0]), n.args[0].shape, n.attrs["begin"], n.attrs["size"], n.attrs["step"])


@form("pad")
def _pad(e: Emitter, n: Node) -> str:
    if not any((*n.attrs["lo"], *n.attrs["hi"])):
        return e.of(n.args[0])
    return e.g.node("Pad", [e.of(n.args[0]), e.g.const([*n.attrs["lo"], *n.attrs["hi"]], np.int64),
                            e.g.const(n.attrs["value"], n.dtype)], mode="constant")


@form("concat")
def _concat(e: Emitter, n: Node) -> str:
    return e.g.node("Concat", [e.of(a) for a in n.args], axis=n.attrs["axis"])


def _window_indices(n: Node, k: int, length: int) -> np.ndarray:
    """Where the elements of the windows over one axis are: (windows, size)."""
    size = n.shape[n.ndim - len(n.attrs["axes"]) + k] if n.prim == "window" else n.args[0].shape[n.ndim + k]
    stride, dilation = n.attrs["stride"][k], n.attrs["dilation"][k]
    return np.arange(positions(length, size, stride, dilation))[:, None] * stride + np.arange(size) * dilation


@form("window")
def _window(e: Emitter, n: Node) -> str:
    """One Gather an axis puts the place within a window behind that of the window; then those go to the end."""
    x = n.args[0]
    name, axes, at = e.of(x), n.attrs["axes"], list(range(x.ndim))
    for k in sorted(range(len(axes)), key=lambda k: -axes[k]):
        name = e.g.node("Gather", [name, e.g.const(_window_indices(n, k, x.shape[axes[k]]), np.int64)], axis=axes[k])
        at.insert(axes[k] + 1, x.ndim + k)
    return e.g.transpose(name, np.argsort(at).tolist())


@form("unwindow")
def _unwindow(e: Emitter, n: Node) -> str:
    """Windows are added back axis by axis: (…, windows, …, size) becomes (…, length, …)."""
    y, axes = n.args[0], n.attrs["axes"]
    name, shape = e.of(y), list(y.shape)
    for k in reversed(range(len(axes))):
        indices, ax = _window_indices(n, k, n.shape[axes[k]]), axes[k]
        order = [*range(ax), ax, len(shape) - 1, *range(ax + 1, len(shape) - 1)]
        name, moved = e.g.transpose(name, order), [shape[i] for i in order]
        shape = [*moved[:ax], moved[ax] * moved[ax + 1], *moved[ax + 2:]]
        name = e.g.reshape(name, moved, shape)
        name, shape = _added(e.g, e.g.const(indices.reshape(-1), np.int64), name, shape, ax, n.shape[ax], n.dtype)
    return name


# ---- reductions, order
@form("reduce")
def _reduce(e: Emitter, n: Node) -> str:
    wide = NARROW.get(n.dtype, n.dtype)
    name = _cast(e.g, e.of(n.args[0]), n.dtype, wide)
    return _cast(e.g, e.g.reduce(REDUCE[n.attrs["op"]], name, n.attrs["axes"]), wide, n.dtype)


@form("argreduce")
def _argreduce(e: Emitter, n: Node) -> str:
    x = n.args[0]
    name = _cast(e.g, e.of(x), x.dtype, NARROW.get(x.dtype, x.dtype))
    return e.g.node({"argmax": "ArgMax", "argmin": "ArgMin"}[n.attrs["op"]], [name], axis=n.attrs["axis"], keepdims=0)


@form("cumulate")
def _cumulate(e: Emitter, n: Node) -> str:
    wide = NARROW.get(n.dtype, n.dtype)
    name = _cast(e.g, e.of(n.args[0]), n.dtype, wide)
    return _cast(e.g, e.g.node("CumSum", [name, e.g.const(n.attrs["axis"], np.int64)],
                               reverse=int(n.attrs["reverse"])), wide, n.dtype)


@form("argsort")
def _argsort(e: Emitter, n: Node) -> str:
    x = n.args[0]
    name = _cast(e.g, e.of(x), x.dtype, NARROW.get(x.dtype, x.dtype))
    return e.g.node("TopK", [name, e.g.const([x.shape[-1]], np.int64)], 2, axis=-1, largest=int(n.attrs["descending"]),
                    sorted=1)[1]


# ---- indexing
@form("gather")
def _gather(e: Emitter, n: Node) -> str:
    x, idx = n.args
    return e.g.node("Gather", [e.of(x), _cast(e.g, e.of(idx), idx.dtype, idx.dtype if idx.dtype in (dt.int32, dt.int64)
                                              else dt.int64)], axis=n.attrs["axis"])


def _added(g: Graph, idx: str, name: str, shape: Sequence[int], axis: int, size: int,
           dtype: np.dtype) -> tuple[str, list[int]]:
    """Rows of an axis added up at the indices that a vector gives; with the new shape."""
    if g.opset < 16:
        raise NoForm("adding at indices needs opset 16 or later")
    new = [*shape[:axis], size, *shape[axis + 1:]]
    thin = [1] * axis + [shape[axis]] + [1] * (len(shape) - axis - 1)
    indices = g.expand(g.reshape(idx, (shape[axis],), thin), thin, shape)
    zeros = g.expand(g.const(np.zeros([1] * len(new), dtype)), [1] * len(new), new)
    return g.node("ScatterElements", [zeros, indices, name], axis=axis, reduction="add"), new


@form("scatter_add")
def _scatter_add(e: Emitter, n: Node) -> str:
    idx, upd = n.args
    axis = n.attrs["axis"]
    flat = [*upd.shape[:axis], idx.size, *upd.shape[axis + idx.ndim:]]
    place = _cast(e.g, e.g.reshape(e.of(idx), idx.shape, (idx.size,)), idx.dtype, dt.int64)
    return _added(e.g, place, e.g.reshape(e.of(upd), upd.shape, flat), flat, axis, n.attrs["size"], n.dtype)[0]


# ---- contraction
def _side(e: Emitter, x: Node, axes: Sequence[int], contracted: Sequence[int], batch: Sequence[int],
          last: bool) -> tuple[str, list[int]]:
    """An argument as (batch…, free, contracted), or the last two the other way round; with the free lengths."""
    free = [i for i in range(x.ndim) if i not in (*contracted, *batch)]
    order = [*batch, *free, *contracted] if last else [*batch, *contracted, *free]
    lengths = [x.shape[i] for i in free]
    matrix = [math.prod(lengths), math.prod(x.shape[i] for i in contracted)]
    moved = [x.shape[i] for i in order]
    target = [*moved[:len(batch)], *(matrix if last else matrix[::-1])]
    return e.g.reshape(e.g.transpose(e.of(x), order), moved, target), lengths


@form("dot")
def _dot(e: Emitter, n: Node) -> str:
    a, b = n.args
    (ca, cb), (ba, bb) = n.attrs["contract"], n.attrs["batch"]
    free = [i for i in range(a.ndim) if i not in (*ca, *ba)]
    if not ba and len(ca) == 1 and free and b.ndim == 2:                 # rows of any number of axes times a matrix
        left, lengths = e.g.transpose(e.of(a), [*free, *ca]), [a.shape[i] for i in free]
        right, more = _side(e, b, range(b.ndim), cb, bb, False)
        return e.g.node("MatMul", [left, right])
    left, lengths = _side(e, a, range(a.ndim), ca, ba, True)
    right, more = _side(e, b, range(b.ndim), cb, bb, False)
    batch = [a.shape[i] for i in ba]
    out = e.g.node("MatMul", [left, right])
    return e.g.reshape(out, [*batch, math.prod(lengths), math.prod(more)], n.shape)
