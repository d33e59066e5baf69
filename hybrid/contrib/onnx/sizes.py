"""Values that a graph computes from the lengths of its inputs, for networks of any length.

Such a value is an array of objects: integers, symbolic sizes (while one program is traced for all lengths) and numbers
computed of them. A row of ``COMPUTED`` is an operator that gives such a value for such values; other operators take the
integers among them as they take what is known.
"""
from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any, Callable

import numpy as np

from ...base import dtype as dt
from ...graph.symbol import Symbol
from ...ir.size import Size

if TYPE_CHECKING:
    from .reader import OnnxNode

COMPUTED: dict[str, Callable[["OnnxNode", list[Any]], Any]] = {}


def is_size_array(value: Any) -> bool:
    """Whether a value is computed from lengths."""
    return isinstance(value, np.ndarray) and value.dtype == object


def size_array(shape: Any) -> np.ndarray:
    """The lengths of a shape as a value."""
    out = np.empty(len(shape), object)
    out[:] = list(shape)
    return out


def settled(value: Any) -> Any:
    """The value as an array of numbers, where no symbolic size is in it."""
    if not is_size_array(value) or any(type(v) not in (int, float, bool) for v in value.reshape(-1)):
        return value
    items = value.reshape(-1).tolist()
    kind = np.float32 if any(type(v) is float for v in items) else np.int64
    return np.asarray(items, kind).reshape(value.shape)


def whole(value: Any) -> Any:
    """An integer or a symbolic size."""
    return value if type(value) is Size else int(value)


def computed(n: "OnnxNode") -> Any:
    """The result of a node of which an input is computed from lengths; None for operators that are read as others."""
    row = COMPUTED.get(n.kind)
    if row is None or not all(v is None or isinstance(v, np.ndarray) for v in n.values):
        return None
    found = row(n, n.values)
    if found is None or isinstance(found, Symbol):
        return found
    if not isinstance(found, np.ndarray):                    # what NumPy's functions give in the place of rank 0
        alone = np.empty((), object)
        alone[()] = found
        return alone
    # plain Python's numbers: comparisons of NumPy's with sizes would be NumPy's
    return found if found.dtype in (object, bool) else np.array(found.tolist(), object)


def _row(*kinds: str) -> Callable[[Any], Any]:
    def add(fn: Any) -> Any:
        COMPUTED.update(dict.fromkeys(kinds, fn))
        return fn
    return add


def _objects(value: Any) -> np.ndarray:
    """An array of Python's own numbers."""
    if value.dtype == object:
        return value                                         # type: ignore[no-any-return]
    out = np.empty(value.shape, object)
    out.reshape(-1)[:] = value.reshape(-1).tolist()
    return out


def _is_real(v: np.ndarray) -> bool:
    return v.dtype.kind == "f" or v.dtype == object and any(type(x) not in (int, bool, Size) for x in v.reshape(-1))


def _paired(fn: Callable[[Any, Any], Any]) -> Callable[["OnnxNode", list[Any]], Any]:
    def row(n: "OnnxNode", v: list[Any]) -> Any:
        out = _objects(v[0])
        for other in v[1:]:
            out = np.frompyfunc(fn, 2, 1)(out, _objects(other))
        return out
    return row


COMPUTED.update({kind: _paired(fn) for kind, fn in {
    "Add": operator.add, "Sub": operator.sub, "Mul": operator.mul, "Mod": operator.mod, "Pow": operator.pow,
    "Max": lambda a, b: a if a >= b else b, "Min": lambda a, b: a if a <= b else b}.items()})


@_row("Div")
def _div(n: "OnnxNode", v: list[Any]) -> Any:
    """Integers are rounded down: lengths are not negative."""
    return _paired(operator.truediv if any(map(_is_real, v)) else operator.floordiv)(n, v)


@_row("Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual")
def _compared(n: "OnnxNode", v: list[Any]) -> Any:
    fn = {"Equal": operator.eq, "Less": operator.lt, "LessOrEqual": operator.le, "Greater": operator.gt,
          "GreaterOrEqual": operator.ge}[n.kind]
    return np.array(_paired(lambda a, b: bool(fn(a, b)))(n, v), bool)


@_row("Where")
def _where(n: "OnnxNode", v: list[Any]) -> Any:
    return None if is_size_array(v[0]) else np.where(v[0].astype(bool), _objects(v[1]), _objects(v[2]))


@_row("Identity")
def _identity(n: "OnnxNode", v: list[Any]) -> Any:
    return v[0]


@_row("Cast")
def _cast(n: "OnnxNode", v: list[Any]) -> Any:
    target = n.reader.dtype(n.attr("to"))
    if dt.is_float(target):
        return np.frompyfunc(lambda x: x * 1.0, 1, 1)(v[0])
    return v[0] if target in (dt.int64, dt.int32) and not _is_real(v[0]) else None


@_row("Sqrt")
def _sqrt(n: "OnnxNode", v: list[Any]) -> Any:
    return np.frompyfunc(lambda x: x ** 0.5, 1, 1)(v[0])


@_row("Neg")
def _neg(n: "OnnxNode", v: list[Any]) -> Any:
    return np.frompyfunc(operator.neg, 1, 1)(v[0])


@_row("Gather")
def _gather(n: "OnnxNode", v: list[Any]) -> Any:
    return None if is_size_array(v[1]) else np.take(v[0], v[1].astype(np.int64), n.attr("axis", 0))


@_row("Concat")
def _concat(n: "OnnxNode", v: list[Any]) -> Any:
    return np.concatenate([_objects(x) for x in v], n.attr("axis", 0))


@_row("Unsqueeze", "Squeeze", "ReduceProd", "ReduceSum")
def _along_axes(n: "OnnxNode", v: list[Any]) -> Any:
    if any(map(is_size_array, v[1:])):
        return None
    axes = n.ints("axes", 1)
    if n.kind == "Unsqueeze":
        return np.expand_dims(v[0], tuple(axes))
    over = None if axes is None else tuple(axes)
    if n.kind == "Squeeze":
        return np.squeeze(v[0], over)
    reduce: Any = np.prod if n.kind == "ReduceProd" else np.sum
    return reduce(v[0], over, keepdims=bool(n.attr("keepdims", 1)))


@_row("Reshape")
def _reshape(n: "OnnxNode", v: list[Any]) -> Any:
    return None if is_size_array(v[1]) else v[0].reshape(n.ints("shape", 1))


@_row("Slice")
def _slice(n: "OnnxNode", v: list[Any]) -> Any:
    if any(map(is_size_array, v[1:])):
        return None
    starts, ends = n.ints("starts", 1), n.ints("ends", 2)
    axes, steps = n.ints("axes", 3, list(range(len(starts)))), n.ints("steps", 4, [1] * len(starts))
    key = [slice(None)] * v[0].ndim
    for start, end, axis, step in zip(starts, ends, axes, steps):
        key[axis] = slice(start, None if step < 0 and end < -len(v[0]) else end, step)
    return v[0][tuple(key)]


@_row("Range")
def _range(n: "OnnxNode", v: list[Any]) -> Any:
    start, stop, step = (_objects(x).reshape(()).item() for x in v)
    return n.op("_arange", start=start, stop=stop, step=step, dtype="int64") if type(step) is int else None


@_row("ConstantOfShape")
def _constant_of_shape(n: "OnnxNode", v: list[Any]) -> Any:
    given = n.attrs.get("value")
    number = np.zeros(1, np.float32) if given is None else n.reader.onnx.numpy_helper.to_array(given)
    return n.op("_full", shape=tuple(v[0]), value=number.reshape(()).item(), dtype=number.dtype.name)
