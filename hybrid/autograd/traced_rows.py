"""Row_sparse gradients inside hybridized code: of a parameter that is a table whose rows are looked up
(``Embedding(sparse_grad=True)``).

The program computes a gradient for each row that was looked up and writes it, with the rows' numbers, into buffers as
large as the batch. After the call they are added up to the row_sparse gradient, and a Trainer's step in the same
program updates those rows. Where the traced code asks for the gradient itself, or uses the table otherwise, the program
computes with a dense copy of it.
"""
from __future__ import annotations

from typing import Any, Callable, Sequence

from ..base import dtype as dt
from .. import ir
from ..buffers.array import NDArray, wrap
from ..base.device import zeros
from ..base.errors import TraceError, user_location
from ..base.scope import untraced
from ..ir import Node
from ..graph.lower import lower
from ..passes.differentiate import cotangents
from ..passes.row_gradients import with_rows
from ..graph.symbol import Symbol

Layout = tuple["int | None", ...]
SPARSE: dict[str, Callable[..., Any]] = {}          # functions of hybrid.sparse, which is loaded when they are called


def slot_of(owner: Any, ctx: Any) -> Any:
    """The slot on the tape of a Parameter or an array."""
    with untraced():
        x = owner if isinstance(owner, NDArray) else owner.data(ctx) if owner._data is not None else None
    return None if x is None else x._ag


def is_sparse(owner: Any, ctx: Any) -> bool:
    """Whether the gradient that an owner collects is row_sparse."""
    if not isinstance(owner, NDArray):
        return getattr(owner, "_grad_stype", "default") == "row_sparse"
    slot = owner._ag
    return slot is not None and slot.grad is not None and slot.grad.stype == "row_sparse"


def laid_out(heads: Sequence[Symbol], seeds: Sequence[Symbol], wanted: Sequence[Symbol], sparse: Sequence[bool],
             train: bool) -> tuple[Layout, list[Any]]:
    """How many pairs of row numbers and rows each gradient takes (None: it is dense), and the shapes and dtypes of all
    of them."""
    every = Symbol([s._one() for s in (*heads, *seeds, *wanted)])
    program, _ = lower(every, [n for n in every.nodes() if n.opdef is None], train)
    flat, layout = gradients(program.outputs, len(heads), sparse)
    return layout, [(n.shape, n.dtype) for n in flat]


def gradients(nodes: Sequence[Node], heads: int, sparse: Sequence[bool]) -> tuple[list[Node], Layout]:
    """Gradients of the first nodes (times the next ones) with respect to the rest, those marked as sparse as pairs
    where they can be."""
    return with_rows(cotangents(nodes[:heads], nodes[heads:2 * heads], nodes[2 * heads:]), sparse)


class RowGradient:
    """A gradient by rows that the program computes: (numbers, rows) of each look-up, as traced values and as the
    buffers they are written to."""

    def __init__(self, trace: Any, owner: Any, pairs: Sequence[tuple[Symbol, Symbol]], shape: tuple[int, ...],
                 dtype: Any):
        self.owner, self.ctx, self.pairs, self.shape, self.dtype = owner, trace.ctx, list(pairs), shape, dtype
        self.trace = trace
        self.handles: list[tuple[Symbol, Any]] = []
        self.buffers = [tuple(self._buffer(trace, s) for s in pair) for pair in self.pairs]
        trace.after.append(self.collect)

    def _buffer(self, trace: Any, value: Symbol) -> NDArray:
        node, k = value._one()
        with untraced():
            shape, dtype = node.info[k]
            made: NDArray = wrap(zeros(shape, dtype, trace.ctx), trace.ctx)
        handle = trace.capture(made)
        self.handles.append((handle, list(handle.entries)))
        handle.entries = list(value.entries)
        return made

    def drop(self) -> None:
        """Another gradient, or a dense one, takes its place: nothing is written to the buffers."""
        self.trace.after.remove(self.collect)
        for handle, entries in self.handles:
            handle.entries = entries

    def collect(self) -> None:
        """After the call: the sum of what the buffers hold becomes the gradient, or is added to it."""
        slot = slot_of(self.owner, self.ctx)
        pairs = [(n._data, rows._data) for n, rows in self.buffers]
        found = SPARSE["gathered"](pairs, self.shape, self.dtype, self.ctx)
        slot.grad[:] = slot.grad + found if slot.req == "add" else found
        slot.fresh, slot.lost = True, False

    def dense(self, inline: Callable[..., list[Symbol]]) -> Symbol:
        """The gradient as a dense traced value; the buffers are not looked at any more."""
        self.drop()
        size, shape, dtype = self.shape[0], self.shape, self.dtype

        def lowering(nodes: list[Node]) -> Sequence[Node]:
            total = ir.full(0, shape, dtype)
            for numbers, rows in zip(nodes[::2], nodes[1::2]):
                total = total + ir.cast(ir.scatter_add(numbers, rows, 0, size), dtype)
            return (total,)
        [value] = inline("rows", [s for pair in self.pairs for s in pair], lowering, [(shape, dtype)])
        return value


class DenseCopy:
    """Stands for a dense copy of a row_sparse gradient, which a program reads and writes; between calls the gradient
    itself is what counts."""

    def __init__(self, trace: Any, number: int, owner: Any, read: bool):
        if number < len(trace.given):
            raise TraceError(f"{user_location()}: the row_sparse gradient of an argument cannot be used inside of "
                             f"hybridized code: call it without hybridize")
        self.owner, self.argument = owner, None
        self.array: NDArray | None = None

        def load() -> None:
            self.of_call((), trace.ctx)[:] = slot_of(owner, trace.ctx).grad.tostype("default")

        def store() -> None:
            if number in trace.fresh and number not in trace.used_up:
                slot_of(owner, trace.ctx).grad[:] = self.of_call((), trace.ctx)
        if read:
            trace.before.append(load)
        self.store = store
        trace.after.append(store)

    def forget(self, trace: Any) -> None:
        """The gradient is used up within the program: nothing is kept of it."""
        trace.after.remove(self.store)

    def slot(self, inputs: Sequence[NDArray], ctx: Any) -> Any:
        """The owner's slot on the tape."""
        return slot_of(self.owner, ctx)

    def of_call(self, inputs: Sequence[NDArray], ctx: Any) -> NDArray:
        """The dense array."""
        if self.array is None:
            grad = self.slot(inputs, ctx).grad
            with untraced():
                self.array = wrap(zeros(grad.shape, dt.as_dtype(grad.dtype), ctx), ctx)
        return self.array
