"""Which storage type the result of an operator has, and how it is computed: MXNet's rules, one row an operator.

``route`` is asked by the dispatcher once sparse arrays exist. What has no rule, or whose rule says no, is computed from
the dense contents and is dense. Where a gradient is recorded, the tape holds the dense operator between casts of the
storage type, so gradients are those of dense arrays.
"""
from __future__ import annotations

from typing import Any, Callable, Mapping, Sequence

import numpy as np

from ..autograd import dispatch
from ..nd import functions
from ..buffers.array import NDArray, array
from ..base.errors import AttributeValueError, HybridError
from ..ops.registry import OPS, OpDef
from ..base.scope import SCOPE
from ..buffers.tape import Entry, Slot, flags
from . import product, updates
from .create import from_places, refuse_trace, zeros
from .lookup import look_up
from .reduction import reduced, square_sum
from .storage import BaseSparseNDArray, CSRNDArray, RowSparseNDArray, cast, make

Rule = Callable[[OpDef, Sequence[Any], Mapping[str, Any], str], Any]
# functions with f(0) = 0: they are applied to the stored values, whose places stay
_ZERO_AT_ZERO = ("_copy BlockGrad make_loss abs arcsin arcsinh arctan arctanh cbrt ceil degrees expm1 fix floor log1p "
                 "negative radians relu rint round sign sin "
                 "sinh sqrt square tan tanh trunc").split()
# with numbers: kept where f(0, numbers) = 0
_WITH_NUMBER = ("_plus_scalar _minus_scalar _equal_scalar _not_equal_scalar _greater_scalar _greater_equal_scalar "
                "_lesser_scalar _lesser_equal_scalar").split()
# x + y and nd.add(x, y) broadcast; nd.elemwise_add(x, y) and nd.sparse.add(x, y) do not
_HINTS = ("_plus", "_minus", "_mul", "_div")


def is_sparse(x: Any) -> bool:
    """Whether an array has sparse storage."""
    return isinstance(x, BaseSparseNDArray)


def _on_values(d: OpDef, x: Any, attrs: Mapping[str, Any], *others: NDArray) -> np.ndarray:
    """The operator applied to the stored values."""
    return dispatch.invoke(d, [x.data, *others], attrs).asnumpy()


def _unary(d: OpDef, inputs: Sequence[Any], attrs: Mapping[str, Any], hint: str) -> Any:
    x, = inputs
    return x._like(_on_values(d, x, attrs))


def _with_number(d: OpDef, inputs: Sequence[Any], attrs: Mapping[str, Any], hint: str) -> Any:
    x, = inputs
    at_zero = dispatch.invoke(d, [array(np.zeros(1, x.dtype))], attrs).asnumpy()[0]
    return x._like(_on_values(d, x, attrs)) if at_zero == 0 else None


def _quadratic(d: OpDef, inputs: Sequence[Any], attrs: Mapping[str, Any], hint: str) -> Any:
    return _with_number(d, inputs, attrs, hint) if inputs[0].stype == "csr" else None


def _clip(d: OpDef, inputs: Sequence[Any], attrs: Mapping[str, Any], hint: str) -> Any:
    x, = inputs
    return x._like(_on_values(d, x, attrs)) if attrs["a_min"] <= 0 <= attrs["a_max"] else None


def _zeros_like(d: OpDef, inputs: Sequence[Any], attrs: Mapping[str, Any], hint: str) -> Any:
    return zeros(inputs[0].stype, inputs[0].shape, inputs[0]._ctx, inputs[0].dtype)


# ---- two arrays
def _flat(x: CSRNDArray) -> np.ndarray:
    """Places of the stored values, counted row by row."""
    return x._rows() * x.shape[1] + x._aux[1]


def _spread(x: Any, places: np.ndarray, own: np.ndarray) -> NDArray:
    """The values of x at sorted places that hold its own ones, zero at the others."""
    out = np.zeros((len(places), *x._values.shape[1:]), x._values.dtype)
    out[np.searchsorted(places, own)] = x._values
    return array(out)


def _together(d: OpDef, x: Any, y: Any, attrs: Mapping[str, Any], join: Callable[..., np.ndarray]) -> Any:
    """The operator on the places that ``join`` takes from those of two arrays of one kind."""
    if x.shape != y.shape or x.dtype != y.dtype:
        return None
    mine, theirs = (_flat(x), _flat(y)) if x.stype == "csr" else (x._aux[0], y._aux[0])
    places = join(mine, theirs)
    every = np.union1d(mine, theirs)
    values = dispatch.invoke(d, [_spread(x, every, mine), _spread(y, every, theirs)],
                             attrs).asnumpy()[np.searchsorted(every, places)]
    # zeros among the results are dropped, as in MXNet; rows of zeros stay
    if x.stype == "csr":
        return from_places(values[values != 0], places[values != 0], x.shape, x._ctx)
    return make(RowSparseNDArray, x.shape, values, (places,), x._ctx)


def _sum(d: OpDef, inputs: Sequence[Any], attrs: Mapping[str, Any], hint: str) -> Any:
    x, y = inputs
    if hint in _HINTS or not (is_sparse(x) and is_sparse(y)) or x.stype != y.stype:
        return None
    return _together(d, x, y, attrs, np.union1d)


def _times(d: OpDef, inputs: Sequence[Any], attrs: Mapping[str, Any], hint: str) -> Any:
    x, y = inputs
    if hint in _HINTS:
        return _broadcast(d, inputs, attrs, hint)
    if is_sparse(x) and is_sparse(y):
        return _together(d, x, y, attrs, np.intersect1d if x.stype == "csr"
                         else np.union1d) if x.stype == y.stype else None
    if x.shape != y.shape or x.dtype != y.dtype:
        return None
    if is_sparse(y):
        return y._like(dispatch.invoke(d, [_at(x, y), y.data], attrs).asnumpy())
    return x._like(_on_values(d, x, attrs, _at(y, x)))


def _at(dense: NDArray, x: Any) -> NDArray:
    """The elements of a dense array that can be broadcast to x's shape, where x has stored values."""
    wide = np.broadcast_to(dense.asnumpy(), x.shape)
    return array(wide[x._rows(), x._aux[1]] if x.stype == "csr" else wide[x._aux[0]], x._ctx)


def _broadcast(d: OpDef, inputs: Sequence[Any], attrs: Mapping[str, Any], hint: str) -> Any:
    """A csr array times (by) a dense one is csr, also where that is broadcast; everything else is dense."""
    x, y = inputs
    if not isinstance(x, CSRNDArray) or not isinstance(y,
                                                       NDArray) or is_sparse(
            y) or x.dtype != y.dtype or np.broadcast_shapes(x.shape, y.shape) != x.shape:
        return None
    return x._like(_on_values(d, x, attrs, _at(y, x)))


def _ratio(d: OpDef, inputs: Sequence[Any], attrs: Mapping[str, Any], hint: str) -> Any:
    """By a dense array of the same shape the result is dense, 0/0 included; MXNet refuses x / y of these."""
    return None if hint not in _HINTS and d.name != "broadcast_div" or inputs[0].shape == inputs[
            1].shape else _broadcast(d, inputs, attrs, hint)


def _ratio_of_rows(d: OpDef, inputs: Sequence[Any], attrs: Mapping[str, Any], hint: str) -> Any:
    """lhs / rhs in the rows that lhs has."""
    x, y = inputs
    if not isinstance(x, RowSparseNDArray) or x.shape != y.shape or x.dtype != y.dtype:
        return None
    return x._like(_on_values(d, x, attrs, _at(y, x)))


def _add_n(d: OpDef, inputs: Sequence[Any], attrs: Mapping[str, Any], hint: str) -> Any:
    if not all(isinstance(x, RowSparseNDArray) and x.shape == inputs[0].shape and x.dtype == inputs[0].dtype
               for x in inputs):
        return None
    rows = np.unique(np.concatenate([x._aux[0] for x in inputs]))
    parts = [_spread(x, rows, x._aux[0]) for x in inputs]
    return make(RowSparseNDArray, inputs[0].shape, dispatch.invoke(d, parts, {}).asnumpy(), (rows,), inputs[0]._ctx)


# ---- rows
def _slice(d: OpDef, inputs: Sequence[Any], attrs: Mapping[str, Any], hint: str) -> Any:
    x, = inputs
    a = d.parse(attrs)
    if x.stype != "csr" or any(s not in (None, 1) for s in a.step or ()):
        return None
    limits = [slice(b, e).indices(n)[:2] for b, e, n in zip((*a.begin, None)[:2], (*a.end, None)[:2], x.shape)]
    (top, bottom), (first, last) = [(b, max(b, e)) for b, e in limits]
    rows = x._row_range(top, bottom)
    kept = (rows._aux[1] >= first) & (rows._aux[1] < last)
    ends = np.concatenate([[0], np.cumsum(kept)])[rows._aux[0]].astype(np.int64)
    return x._like(rows._values[kept], (ends, rows._aux[1][kept] - first), (bottom - top, last - first))


def take_rows(x: CSRNDArray, rows: np.ndarray) -> Any:
    """Some rows of a csr array, in the order given."""
    ends, columns = x._aux
    lengths = np.diff(ends)[rows]
    new = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    at = np.repeat(ends[:-1][rows] - new[:-1], lengths) + np.arange(new[-1])
    return x._like(x._values[at], (new, columns[at]), (len(rows), x.shape[1]))


def _take(d: OpDef, inputs: Sequence[Any], attrs: Mapping[str, Any], hint: str) -> Any:
    x, index = inputs
    a = d.parse(attrs)
    if (not isinstance(x, CSRNDArray) or is_sparse(index) or index.ndim != 1 or a.axis != 0
        or a.mode not in ("clip", "wrap") or not x.shape[0]):
        return None
    rows = index.asnumpy().astype(np.int64)
    return take_rows(x, rows % x.shape[0] if a.mode == "wrap" else rows.clip(0, x.shape[0] - 1))


def _concat(d: OpDef, inputs: Sequence[Any], attrs: Mapping[str, Any], hint: str) -> Any:
    first = inputs[0]
    if d.parse({**attrs, "num_args": len(inputs)}).dim != 0 or not all(isinstance(x, CSRNDArray)
                                                                       and x.shape[1] == first.shape[1]
                                                                       and x.dtype == first.dtype for x in inputs):
        return None
    starts = np.cumsum([0, *(len(x._values) for x in inputs)])
    ends = np.concatenate([[0], *(x._aux[0][1:] + s for x, s in zip(inputs, starts))])
    return make(CSRNDArray, (len(ends) - 1, first.shape[1]), np.concatenate([x._values for x in inputs]),
                (ends.astype(np.int64), np.concatenate([x._aux[1] for x in inputs])), first._ctx)


RULES: dict[str, Rule] = {**dict.fromkeys(_ZERO_AT_ZERO, _unary), **dict.fromkeys(_WITH_NUMBER, _with_number),
                          **dict.fromkeys(("_mul_scalar", "_div_scalar", "_scatter_plus_scalar",
                                           "_scatter_minus_scalar"), _unary),
                          "clip": _clip, "_contrib_quadratic": _quadratic, "zeros_like": _zeros_like,
                          "elemwise_add": _sum, "elemwise_sub": _sum,
                          "elemwise_mul": _times, "elemwise_div": _ratio,
                          "_scatter_elemwise_div": _ratio_of_rows, "broadcast_mul": _broadcast,
                          "broadcast_div": _ratio, "add_n": _add_n, "slice": _slice,
                          "take": _take, "Concat": _concat, "sum": reduced, "mean": reduced, "norm": reduced,
                          "_square_sum": square_sum}


# ---- the tape
class Cast:
    """What the tape keeps of a change of storage: its gradient is the gradient of the result."""

    def _pull(self, entry: Any, grads: list[Any]) -> list[Any]:
        return grads


def recorded(source: Any, result: Any, function: Any = None, inputs: Sequence[Any] = ()) -> Any:
    """``result`` with a note on the tape that it was made from ``source`` (or ``inputs``), where that is recorded."""
    inputs = list(inputs) or [source]
    if SCOPE.recording and result is not source and any(x._ag is not None for x in inputs):
        entry = Entry(None, [], [result], function=function or Cast())
        entry.inputs, entry.sources = inputs, [x._ag for x in inputs]
        result._ag = Slot(entry, 0)
    return result


def densely(x: Any) -> Any:
    """A sparse array as a dense one; through it flows a gradient. Other values as they are."""
    return recorded(x, cast(x._dense(), "default", x._ctx)) if is_sparse(x) else x


# ---- the dispatcher's question
def route(d: OpDef, inputs: Sequence[Any], attrs: Mapping[str, Any], out: Any, name: str | None,
          hint: str | None) -> Any:
    """The result of an operator with a sparse array among its inputs; NotImplemented where there is none."""
    if not any(isinstance(x, BaseSparseNDArray) for x in inputs):
        return NotImplemented
    refuse_trace(f"{d.name} of a {next(x.stype for x in inputs if is_sparse(x))} array")
    dispatch.common_context(f"operator {d.name}", [x for x in inputs if isinstance(x, NDArray)])
    if d.name == "dot":
        return dot(inputs[0], inputs[1], out=out, **attrs)
    if d.name == "_sparse_retain":
        return functions.resolve("nd", "sparse.retain")(*inputs, out=out)
    if d.name == "Embedding" and isinstance(inputs[1], RowSparseNDArray) and not is_sparse(inputs[0]):
        ids = dispatch.as_inputs(d, inputs[:1], inputs[1]._ctx)[0]
        made, kept = look_up(ids, inputs[1], dispatch.parse(d, attrs))            # type: ignore[arg-type]
        made = recorded(ids, made, kept, [ids, inputs[1]])
        return made if out is None else made.copyto(out)
    if updates.is_lazy(d, inputs, attrs):
        return updates.update_rows(d, inputs, attrs, out)
    found = None
    if d.name in RULES and not (SCOPE.recording and out is not None):
        with flags(False, None):
            found = RULES[d.name](d, inputs, attrs, hint or "")
    if found is None:
        dense = [densely(x) for x in inputs]
        result = dispatch.invoke(d, dense, attrs, out, name, NDArray, hint)
        for x, y in zip(inputs, dense):
            if y is not x and y._version:                        # a state that the operator changes in place
                x[:] = y
        return result
    if SCOPE.recording and any(getattr(x, "_ag", None) is not None for x in inputs):
        recorded(dispatch.invoke(d, [densely(x) for x in inputs], attrs, None, name, NDArray, hint), found)
    return found if out is None else found.copyto(out)


class Product:
    """What the tape keeps of a product with a csr array on the left: its gradients are products too, and can be
    differentiated again."""

    def __init__(self, a: CSRNDArray, b: Any, transpose_a: bool):
        self.matrix, self.transposed, self.version = a.detach(), transpose_a, b._version

    def _pull(self, entry: Any, grads: list[Any]) -> list[Any]:
        """Gradients of both sides from that of the product; of the csr side only where one is wanted."""
        g, = grads
        of_right = dot(self.matrix, g, transpose_a=not self.transposed)
        if entry.sources[0] is None:
            return [None, of_right]
        b = entry.inputs[1]
        if b._version != self.version:
            raise HybridError(f"an array of shape {b.shape} was changed in place after it was multiplied with a csr "
                              f"array in a recorded computation, "
                              "so the gradient of that would be wrong")
        pair = [b, g] if self.transposed else [g, b]
        return [dispatch.invoke(OPS["dot"], [densely(x) for x in pair], {"transpose_b": True}), of_right]


def dot(lhs: Any, rhs: Any, transpose_a: bool = False, transpose_b: bool = False, forward_stype: str | None = None,
        out: Any = None, **_: Any) -> Any:
    """Product of matrices of which one at least is sparse: (m, n) and (n, k) -> (m, k).

    csr times dense (or row_sparse) is dense, its transpose times dense row_sparse, dense times csr is csr; other pairs
    are computed from the dense contents. forward_stype asks for another storage type of the result. Gradients flow into
    both sides; that of the right side of a csr array takes time in proportion to what is stored. Raises ShapeError for
    vectors and shapes that do not fit, DTypeError for different dtypes.

    >>> from hybrid import nd
    >>> dot(nd.sparse.csr_matrix(([2.], [1], [0, 1]), shape=(1, 3)), nd.ones((3, 2))).asnumpy().tolist()
    [[2.0, 2.0]]
    """
    if forward_stype not in (None, "None", "default", "csr", "row_sparse"):
        raise AttributeValueError(f"dot: forward_stype must be default, csr or row_sparse, got {forward_stype!r}")
    stype = None if forward_stype == "None" else forward_stype
    attrs = {"transpose_a": transpose_a, "transpose_b": transpose_b}
    if not is_sparse(lhs) and not is_sparse(rhs) and stype in (None, "default"):
        return dispatch.invoke(OPS["dot"], [lhs, rhs], attrs, out, hint="dot")
    lhs, rhs = (x if isinstance(x, NDArray) else array(x) for x in (lhs, rhs))
    dispatch.common_context("dot", [lhs, rhs])
    product.check(lhs, rhs, bool(transpose_a), bool(transpose_b))
    if isinstance(lhs, CSRNDArray) and not isinstance(rhs, CSRNDArray) and not transpose_b:
        made = recorded(lhs, product.left(lhs, rhs, bool(transpose_a), stype), Product(lhs, rhs, bool(transpose_a)),
                        [lhs, rhs])
    elif (isinstance(rhs, CSRNDArray) and not is_sparse(lhs) and not transpose_a
          and not (SCOPE.recording and (lhs._ag or rhs._ag))):
        made = cast(product.right(lhs, rhs, bool(transpose_b)), stype or "csr", lhs._ctx)
    else:
        from_dense = dispatch.invoke(OPS["dot"], [densely(lhs), densely(rhs)], attrs)
        kind = stype or ("csr" if isinstance(rhs, CSRNDArray) and not is_sparse(lhs) and not transpose_a else "default")
        made = from_dense if kind == "default" else recorded(from_dense,
                                                             cast(from_dense.asnumpy(), kind, from_dense._ctx))
    return made if out is None else made.copyto(out)
