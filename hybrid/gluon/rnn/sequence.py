"""Sequences as cells take them: one array with a time axis, or a list with one array a step."""
from __future__ import annotations

from typing import Any, Sequence

from ... import nd
from ...graph import symbol
from ...buffers.array import NDArray
from ...base.errors import AttributeValueError, ShapeError
from ...graph.symbol import Symbol

TENSORS = (NDArray, Symbol)


def namespace_of(value: Any) -> Any:
    """``nd`` or ``sym``, by what a sequence is made of."""
    first = value if isinstance(value, TENSORS) else value[0]
    return symbol if isinstance(first, Symbol) else nd


def outputs_of(value: Any) -> list[Any]:
    """The results of an operator with several outputs as a list, also where there is one."""
    if isinstance(value, Symbol):
        return [Symbol([e]) for e in value.entries]
    return list(value) if isinstance(value, (list, tuple)) else [value]


def _axes(layout: str) -> tuple[int, int]:
    if sorted(layout) not in (sorted("TNC"), sorted("TNCHW"), sorted("TNCW"), sorted("TNCDHW")) or layout.find("T") > 1:
        raise AttributeValueError(f"layout must be NTC or TNC, got {layout!r}")
    return layout.find("T"), layout.find("N")


def batch_of(inputs: Any, layout: str) -> int:
    """The batch size of a sequence, 0 where it is unknown."""
    one = isinstance(inputs, TENSORS)
    shape = inputs.shape if one else inputs[0].shape
    at = layout.find("N") if one else 0
    return shape[at] if shape is not None and len(shape) > at and shape[at] > 0 else 0


def format_sequence(length: int | None, inputs: Any, layout: str, merge: bool | None) -> tuple[Any, int]:
    """A sequence as one array (``merge`` True), as a list (False) or as it is (None), and its time axis."""
    if inputs is None:
        raise TypeError("unroll needs inputs: an array with a time axis, or a list with one array a step")
    axis, _ = _axes(layout)
    F = namespace_of(inputs)  # noqa: N806  the field's name
    if isinstance(inputs, TENSORS):
        steps = _steps(inputs, axis, length)
        if merge is False:
            inputs = outputs_of(F.split(inputs, axis=axis, num_outputs=steps, squeeze_axis=True))
        return inputs, axis
    if length is not None and len(inputs) != length:
        raise ShapeError(f"unroll over {length} steps was given {len(inputs)} inputs")
    return (F.stack(*inputs, axis=axis) if merge is True else inputs), axis


def _steps(inputs: Any, axis: int, length: int | None) -> int:
    if isinstance(inputs, Symbol) and len(inputs.entries) != 1:
        raise ShapeError("unroll takes one Symbol or a list of Symbols, not a group: give list(group)")
    shape = inputs.shape
    if shape is not None and len(shape) <= axis:
        raise ShapeError(f"a sequence needs a time axis {axis}, got an array of shape {shape}")
    known = shape[axis] if shape is not None and shape[axis] > 0 else None
    if length is not None and known is not None and known != length:
        raise ShapeError(f"unroll over {length} steps was given a sequence of {known} steps (axis {axis} of {shape})")
    if length is None and known is None:
        raise ShapeError("the number of steps is not known: give it as length")
    return known if length is None else length                # type: ignore[return-value]


def mask_sequence(F: Any, data: Any, length: int, valid_length: Any, axis: int, merge: bool) -> Any:  # noqa: N803
    """Zeros behind the end of each sequence."""
    whole = data if isinstance(data, TENSORS) else F.stack(*data, axis=axis)
    masked = F.SequenceMask(whole, sequence_length=valid_length, use_sequence_length=True, axis=axis)
    return masked if merge else outputs_of(F.split(masked, num_outputs=length, axis=axis, squeeze_axis=True))


def reverse_sequence(steps: Sequence[Any], valid_length: Any = None) -> list[Any]:
    """The steps backwards; with lengths, each sequence within its length."""
    if valid_length is None:
        return list(reversed(steps))
    F = namespace_of(steps)  # noqa: N806
    turned = F.SequenceReverse(F.stack(*steps, axis=0), sequence_length=valid_length, use_sequence_length=True)
    return outputs_of(F.split(turned, axis=0, num_outputs=len(steps), squeeze_axis=True))


def first_state(func: Any, name: str, info: dict[str, Any] | None, more: dict[str, Any]) -> Any:
    """A state made by ``func``. On a Symbol its layout is a note, as MXNet writes it."""
    info = {**(info or {}), **more}
    state = func(name=name, **info)
    if isinstance(state, Symbol) and "__layout__" in info:
        state._one()[0].extra["__layout__"] = info["__layout__"]
    return state


def open_batch(states: list[Any]) -> list[Any]:
    """First states whose batch is that of the inputs: a file holds 0 for it, as MXNet's do, and takes batches of any
    size."""
    for node in [s._one()[0] for s in states if isinstance(s, Symbol)]:
        attrs, layout = node.attrs, node.extra.get("__layout__", "")
        if attrs is not None and attrs.gives("shape") and "N" in layout:
            node.attrs = attrs.written(shape=tuple(0 if a == layout.index("N") else size
                                                   for a, size in enumerate(attrs.shape)))
    return states
