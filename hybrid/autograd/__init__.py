"""Automatic differentiation: a tape of programs. An eager operator and a hybridized call are one entry each."""
from __future__ import annotations

from typing import Any, ContextManager, Sequence

from . import history, traced_function, traced_grad
from .traced_rows import SPARSE
from ..buffers.array import NDArray, full_like, wrap
from .dispatch import apply_program
from ..base import pending
from ..base.errors import AttributeValueError, DTypeError, HybridError, ShapeError
from ..base.other_names import GRADIENTS as _GRADIENTS, hinted as _hinted
from ..ir.node import inputs_first
from ..passes.differentiate import vjp_program, vjp_with_rows
from ..passes.partition import of_heads
from ..base.device import on, refuse_apart
from ..base.scope import SCOPE
from ..buffers.moving import copied, put
from ..buffers.tape import Entry, Slot, collect, flags, rows_wanted, wanted
from ..buffers.writes import since


def record(train_mode: bool = True) -> ContextManager[Any]:  # noqa: A002
    """Scope in which calls are recorded for ``backward``; in training mode unless told otherwise."""
    return flags(True, train_mode)


def pause(train_mode: bool = False) -> ContextManager[Any]:  # noqa: A002
    """Scope in which nothing is recorded."""
    return flags(False, train_mode)


def train_mode() -> ContextManager[Any]:
    """Scope of training mode (Dropout drops, BatchNorm uses the batch)."""
    return flags(None, True)


def predict_mode() -> ContextManager[Any]:
    """Scope of inference mode."""
    return flags(None, False)


def is_recording() -> bool:
    """Whether calls are recorded."""
    return SCOPE.recording


def is_training() -> bool:
    """Whether training mode is on."""
    return SCOPE.training


def set_recording(is_recording: bool) -> bool:
    """Switch recording; returns what it was."""
    old, SCOPE.recording = SCOPE.recording, bool(is_recording)
    return old


def set_training(train_mode: bool) -> bool:
    """Switch training mode; returns what it was."""
    old, SCOPE.training = SCOPE.training, bool(train_mode)
    return old


def mark_variables(variables: Any, gradients: Any, grad_reqs: Any = "write") -> None:
    """Let arrays collect gradients into other arrays; grad_reqs: write, add or null."""
    variables, gradients = ([x] if not isinstance(x, (list, tuple)) else x for x in (variables, gradients))
    reqs = [grad_reqs] * len(variables) if isinstance(grad_reqs, str) else grad_reqs
    for v, g, r in zip(variables, gradients, reqs):
        if r not in ("write", "add", "null"):
            raise HybridError(f"grad_req must be write, add or null, got {r!r}")
        collect(v, g, r)


# ---- backward
def _order(heads: Sequence[Any]) -> list[Entry]:
    """The entries below some arrays, the last inputs' first: gradients are added in this order."""
    return inputs_first([h._ag.entry for h in reversed(heads) if h._ag is not None and h._ag.entry is not None],
                        lambda e: e.before()[::-1])


def leads_to(heads: Sequence[Any], slots: set[int]) -> bool:
    """Whether gradients flow from some arrays into some slots, given by their ids."""
    return any(id(s) in slots for entry in _order(heads) for s in entry.sources)


def changed_in_place(what: str) -> HybridError:
    """The error when backward goes over a computation from an array that holds another value by now."""
    return HybridError(f"{what} was changed in place after it was used in a recorded computation, so its gradient "
                       "would be wrong: use x = x + y instead of x += y inside autograd.record()")


def _check_versions(entry: Entry) -> None:
    # running statistics: a layer called again changes them
    own = set(entry.program.written) if entry.program is not None else set()
    for i, (x, v, raw) in enumerate(zip(entry.inputs, entry.versions, entry.raws)):
        if i not in own and (x._data is raw and x._version != v or since(raw, entry.when)):
            raise changed_in_place(f"an array of shape {x.shape}")


def _as_recorded(entry: Entry) -> list[Any]:
    """The inputs as they were: those that have another value by now (x += y) with the old one."""
    out = []
    for x, raw, slot in zip(entry.inputs, entry.raws, entry.sources):
        if x._data is not raw:
            x = wrap(raw, x._ctx, type(x))
            x._ag = slot
        out.append(x)
    return out


def _pull(entry: Entry, grads: list[Any], create_graph: bool) -> list[Any]:
    """Cotangents of an entry's inputs from those of its outputs."""
    if entry.function is not None:
        return entry.function._pull(entry, grads)
    assert entry.program is not None
    _check_versions(entry)
    wrt = wanted(entry.program, entry.sources, entry.raws)
    # heads that nobody used have no cotangent: zeros would not do where a derivative is infinite
    heads, filled = tuple(i for i, g in enumerate(grads) if g is not None), [g for g in grads if g is not None]
    rows = () if create_graph else rows_wanted(wrt, entry.sources)
    parts, kept = entry.kept if entry.kept is not None and not create_graph else (None, ())
    if parts is not None and len(heads) < len(grads):
        some = of_heads(parts, heads)
        if some is None:
            filled = [g if g is not None else full_like(o, 0) for g, o in zip(grads, entry.outputs)]
        parts = some or parts
    if parts is not None:
        raw = entry.runner(parts.backward, [*(entry.raws[i] for i in parts.reads), *kept, *(g._data for g in filled)])
        out = _of_results(entry, raw, wrt, parts.layout)
    elif rows:
        program, layout = vjp_with_rows(entry.program, wrt, rows, heads)
        out = _of_results(entry, entry.runner(program, [*entry.raws, *(g._data for g in filled)]), wrt, layout)
    else:
        # again from the inputs, so that it can be differentiated itself
        with flags(create_graph, None):
            out = apply_program(vjp_program(entry.program, wrt, heads), [*_as_recorded(entry), *filled], entry.runner)
    result: list[Any] = [None] * len(entry.inputs)
    for i, g in zip(wrt, out):
        result[i] = g
    return result


def _of_results(entry: Entry, raw: Sequence[Any], wrt: Sequence[int], layout: Sequence[int | None]) -> list[Any]:
    """Gradients from the results of a backward program, those of a table's rows as row_sparse arrays."""
    like = entry.outputs[0]

    def dense(r: Any) -> Any:
        return wrap(r, like._ctx, type(like))
    if all(count is None for count in layout):
        return [dense(r) for r in raw]
    return SPARSE["gradients_of"](raw, layout, [entry.inputs[i] for i in wrt], dense)


def _backward(heads: Sequence[Any], head_grads: Sequence[Any], retain_graph: bool, create_graph: bool,
              asked: Sequence[Slot] | None) -> dict[int, Any]:
    """Gradients by id of slot."""
    order = _order(heads)
    if not order and all(h._ag is None for h in heads):
        raise HybridError("this array was not computed inside autograd.record() from an array with attach_grad(), so "
                          "it has no gradient; or backward() "
                          "went over it already, which forgets the recording (the first call may keep it: "
                          "backward(retain_graph=True))")
    slots: dict[int, Slot] = {}
    grads: dict[int, Any] = {}                            # by id(entry), index or id(slot)
    pending: dict[int, list[Any]] = {}

    def give(slot: Slot | None, g: Any) -> None:
        if slot is None or g is None:
            return
        if slot.entry is not None:
            row = pending.setdefault(id(slot.entry), [None] * len(slot.entry.outputs))
            row[slot.index] = g if row[slot.index] is None else row[slot.index] + g
        if slot.entry is None or asked is not None and any(slot is w for w in asked):
            slots[id(slot)] = slot
            grads[id(slot)] = g if id(slot) not in grads else grads[id(slot)] + g
    with flags(create_graph, None):
        for h, g in zip(heads, head_grads):
            give(h._ag, g)
        for entry in reversed(order):
            row = pending.pop(id(entry), None)
            if row is None:
                continue
            for slot, g in zip(entry.sources, _pull(entry, row, create_graph)):
                give(slot, g)
    if asked is None:
        _zeros_where_nothing_flows(order, slots, grads)
    if not retain_graph and not create_graph:
        for entry in order:
            for o in entry.outputs:
                if o._ag is not None and o._ag.entry is entry:
                    o._ag = None
            for held, slot in entry.variables:
                x = held()
                if x is not None and x._ag is not None and x._ag.entry is entry:
                    x._ag = slot
    return {k: (slots[k], g) for k, g in grads.items()}


def _zeros_where_nothing_flows(order: Sequence[Entry], slots: dict[int, Slot], grads: dict[int, Any]) -> None:
    """Arrays that the heads depend on through comparisons and indices alone have a gradient too."""
    for entry in order:
        for slot in entry.sources:
            if slot is not None and slot.entry is None and slot.grad is not None and id(slot) not in grads:
                slots[id(slot)], grads[id(slot)] = slot, full_like(slot.grad, 0)


def _heads(heads: Any, head_grads: Any) -> tuple[list[Any], list[Any]]:
    heads = list(heads) if isinstance(heads, (list, tuple)) else [heads]
    given = ([None] * len(heads) if head_grads is None else list(head_grads) if isinstance(head_grads, (list, tuple))
             else [head_grads])
    if not heads or not all(isinstance(h, NDArray) for h in heads):
        raise DTypeError(f"heads must be an array or a list of arrays, got "
                         f"{', '.join(type(h).__name__ for h in heads) or 'an empty list'}")
    if len(heads) != len(given):
        raise AttributeValueError(f"heads and head_grads must be lists of the same length: there are {len(heads)} "
                                  f"heads and {len(given)} gradients")
    return heads, [full_like(h, 1) if g is None else _head_gradient(h, g) for h, g in zip(heads, given)]


def _head_gradient(head: Any, given: Any) -> Any:
    """A gradient given for a head, in the head's dtype; one of another shape is an error."""
    if not isinstance(given, NDArray):
        raise DTypeError(f"the gradient of a head must be an array, got {type(given).__name__}")
    if given.shape != head.shape:
        raise ShapeError(f"backward: the array has shape {head.shape}, the gradient given for it {given.shape}; they "
                         f"must be the same")
    refuse_apart("backward: an array and the gradient given for it", head._ctx, given._ctx)
    return given if given._data.dtype == head._data.dtype else given.astype(head.dtype)


def backward(heads: Any, head_grads: Any = None, retain_graph: bool = False,
             train_mode: bool = True) -> None:  # noqa: A002
    """Gradients of the heads (times head_grads, ones by default) into the arrays with ``attach_grad``."""
    if SCOPE.traces:
        with flags(False, train_mode):
            return traced_grad.backward(heads, head_grads)
    if pending.WATCHED[0]:
        return pending.LATER[0].backward(heads, head_grads, retain_graph, train_mode, _write_gradients)
    return _write_gradients(heads, head_grads, retain_graph, train_mode)


def _write_gradients(heads: Any, head_grads: Any, retain_graph: bool, train_mode: bool) -> None:
    heads, seeds = _heads(heads, head_grads)
    with flags(None, train_mode):
        found = _backward(heads, seeds, retain_graph, False, None)
    for slot, g in found.values():
        if slot.grad is None:
            continue
        if slot.grad.stype != "default":
            slot.grad[:] = slot.grad + g if slot.req == "add" else g
        elif slot.req == "add":
            with on(slot.grad._ctx):
                slot.grad._data[...] += g._data.astype(slot.grad._data.dtype, copy=False)
        else:
            put(slot.grad._data, ..., g._data, slot.grad._ctx)
        slot.grad._bump()
        slot.fresh, slot.lost = True, False


def grad(heads: Any, variables: Any, head_grads: Any = None, retain_graph: bool | None = None,
         create_graph: bool = False,
         train_mode: bool = True) -> list[NDArray]:  # noqa: A002
    """Gradients with respect to variables: a list, also for one variable, as MXNet gives it; with create_graph they can
    be differentiated again."""
    if SCOPE.traces:
        with flags(create_graph, train_mode):
            return traced_grad.grad(heads, variables, head_grads)
    asked = list(variables) if isinstance(variables, (list, tuple)) else [variables]
    if not asked:
        raise AttributeValueError("autograd.grad: variables is an empty list")
    if pending.WATCHED[0]:
        return pending.LATER[0].grad(heads, asked, head_grads, retain_graph, create_graph,      # type: ignore[no-any-return]
                                     train_mode, _gradients_of)
    return _gradients_of(heads, asked, head_grads, retain_graph, create_graph, train_mode)


def _gradients_of(heads: Any, asked: Sequence[Any], head_grads: Any, retain_graph: bool | None, create_graph: bool,
                  train_mode: bool) -> list[NDArray]:
    for v in asked:
        if v._ag is None:
            raise HybridError("autograd.grad: a variable has no gradient: call attach_grad() on it before recording")
    heads, seeds = _heads(heads, head_grads)
    keep = create_graph if retain_graph is None else retain_graph
    slots = [v._ag for v in asked]
    with flags(None, train_mode):
        found = _backward(heads, seeds, keep, create_graph, slots)
    return [found[id(s)][1] if id(s) in found else full_like(v, 0) for s, v in zip(slots, asked)]


def get_symbol(x: Any) -> Any:
    """The recorded computation of an array as a Symbol, with variables for what it was computed from.

    >>> from hybrid import nd
    >>> a = nd.ones((2,)); a.attach_grad()
    >>> with record():
    ...     b = a * 2
    >>> get_symbol(b).list_arguments()
    ['var0']
    """
    return history.as_symbol(x)


class Function:
    """A function with a gradient of one's own: override ``forward`` and ``backward``; call the instance.

    >>> class Double(Function):
    ...     def forward(self, x): return x * 2
    ...     def backward(self, dy): return dy * 2
    """

    def forward(self, *inputs: Any, **named: Any) -> Any:
        """Outputs from inputs (arrays)."""
        raise NotImplementedError("override forward")

    def backward(self, *output_grads: Any, **named: Any) -> Any:
        """Input gradients from output gradients."""
        raise NotImplementedError("override backward")

    def save_for_backward(self, *arrays: Any) -> None:
        """Keep arrays as ``self.saved_tensors``."""
        self.saved_tensors = arrays

    def __call__(self, *inputs: Any) -> Any:
        if SCOPE.traces:
            return traced_function.call(self, inputs, self._forward)
        if pending.WATCHED[0] and SCOPE.recording:
            return pending.LATER[0].python_code(type(self).__name__, inputs, lambda: self._recorded(inputs))
        return self._recorded(inputs)

    def _recorded(self, inputs: Sequence[Any]) -> Any:
        out = self._forward(*inputs)
        several = isinstance(out, (list, tuple))
        outputs = list(out) if several else [out]
        if is_recording() and any(x._ag is not None for x in inputs):
            # an input that is returned as it is stays what it was: the result is another array of its values
            outputs = [wrap(copied(o._data, o._ctx), o._ctx, type(o)) if any(o is x for x in inputs) else o
                       for o in outputs]
            entry = Entry(None, list(inputs), outputs, function=self)
            for i, o in enumerate(outputs):
                o._ag = Slot(entry, i)
            if any(a is not b for a, b in zip(outputs, out if several else [out])):
                return tuple(outputs) if isinstance(out, tuple) else outputs if several else outputs[0]
        return out

    def _forward(self, *inputs: Any) -> Any:
        with pause(is_training()):
            return self.forward(*inputs)

    def _pull(self, entry: Entry, grads: list[Any]) -> list[Any]:
        filled = [g if g is not None else full_like(o, 0) for g, o in zip(grads, entry.outputs)]
        with pause(is_training()):
            out = self.backward(*filled)
        out = list(out) if isinstance(out, (list, tuple)) else [out]
        if len(out) != len(entry.inputs):
            raise HybridError(f"{type(self).__name__}.backward returned {len(out)} gradients for {len(entry.inputs)} "
                              f"inputs")
        return out


_hinted(globals(), _GRADIENTS)
