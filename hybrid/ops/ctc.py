"""Connectionist temporal classification: the forward recursion over time, written out step by step.

A. Graves, S. Fernández, F. Gomez, J. Schmidhuber, "Connectionist Temporal Classification" (ICML 2006), section 4.1.
"""
from __future__ import annotations

from ..base import dtype as dt
from .. import ir
from ..base.errors import ShapeError
from ..ir import Node
from .attributes import Attrs
from .nn import softmax_of, wide
from .registry import Bool, Enum, op

NEVER = -1e30                            # the logarithm of an impossible path; finite, so that differences are numbers


def _log_sum(*terms: Node) -> Node:
    """log Σ exp; its gradient is the share of each term, also where terms are equal."""
    most = terms[0]
    for t in terms[1:]:
        most = ir.map("maximum", most, t)
    most = ir.detach(most)
    total = ir.map("exp", terms[0] - most)
    for t in terms[1:]:
        total = total + ir.map("exp", t - most)
    return ir.map("log", total) + most


def _later(x: Node, by: int) -> Node:
    """x moved ``by`` places along the last axis, with impossible paths before it."""
    n = x.shape[-1]
    return ir.pad(ir.slice(x, (0, 0), (x.shape[0], n - by)), (0, by), (0, 0), NEVER)


def _checked(data: Node, label: Node, data_lengths: Node | None, label_lengths: Node | None) -> None:
    if data.ndim != 3 or label.ndim != 2 or label.shape[0] != data.shape[1]:
        raise ShapeError(f"data must be (time, batch, alphabet) and label (batch, label length), got {data.shape} and "
                         f"{label.shape}")
    if data.shape[0] < max(label.shape[1], 1) or data.shape[2] < 2:
        raise ShapeError(f"data {data.shape} must have as many time steps as the labels {label.shape} have places, "
                         f"and a blank and a class at least")
    for name, x in (("data_lengths", data_lengths), ("label_lengths", label_lengths)):
        if x is not None and x.shape != (data.shape[1],):
            raise ShapeError(f"{name} must be {(data.shape[1],)}, one length for each sequence, got {x.shape}")


def _lengths(given: Node | None, most: int, batch: int) -> Node:
    if given is None:
        return ir.full(most, (batch,), dt.int64)
    return ir.map("minimum", ir.map("maximum", ir.cast(given, dt.int64), 0), most)


def _labels(label: Node, label_lengths: Node | None, a: Attrs) -> tuple[Node, Node]:
    """Labels in int64, and their lengths: as given, or up to the first padding (-1, with the blank first 0)."""
    label = ir.cast(label, dt.int64)
    batch, places = label.shape
    if a.use_label_lengths:
        return label, _lengths(label_lengths, places, batch)
    padding = ir.map("eq", label, 0 if a.blank_label == "first" else -1)
    at = ir.map("where", padding, ir.expand(ir.reshape(ir.iota(places), (1, places)), label.shape), places)
    return label, ir.reduce("min", at, (1,))


@op("CTCLoss", "data label data_lengths? label_lengths?",
    takes={"data_lengths": lambda a: a.use_data_lengths, "label_lengths": lambda a: a.use_label_lengths},
    mx=("ctc_loss", "contrib.CTCLoss", "contrib.ctc_loss"), npx=("ctc_loss",),
    json=("ctc_loss", "_contrib_CTCLoss", "_contrib_ctc_loss", "_npx_ctc_loss"),
    use_data_lengths=Bool(False), use_label_lengths=Bool(False), blank_label=Enum("first", "first", "last"))
def ctc_loss(data: Node, label: Node, data_lengths: Node | None, label_lengths: Node | None, a: Attrs) -> Node:
    """−log of the probability of each label over all its alignments with the time steps.

    data: (time, batch, alphabet) scores before the softmax. label: (batch, length) class numbers. blank_label: "first",
    the blank is class 0 and labels are padded with 0; "last", it is the last class and they are padded with −1. A label
    that does not fit into its time steps gives 0 and no gradient, as in MXNet. Returns (batch,).
    """
    if a.use_data_lengths != (data_lengths is not None) and data_lengths is not None and label_lengths is None:
        # MXNet leaves the unused input out, so the next takes its place
        data_lengths, label_lengths = None, data_lengths
    _checked(data, label, data_lengths, label_lengths)
    steps, batch, alphabet = data.shape
    places = label.shape[1]
    blank = 0 if a.blank_label == "first" else alphabet - 1
    numbers, length = _labels(label, label_lengths, a)
    frames = _lengths(data_lengths if a.use_data_lengths else None, steps, batch)
    inside = ir.map("lt", ir.expand(ir.reshape(ir.iota(places), (1, places)), (batch, places)),
                    ir.expand(ir.reshape(length, (batch, 1)), (batch, places)))
    numbers = ir.map("where", inside, ir.map("minimum", ir.map("maximum", numbers, 0), alphabet - 1), blank)
    repeats = _repeats(numbers, inside)
    counted = ir.map("lt", ir.reshape(ir.iota(steps), (steps, 1, 1)),
                     ir.expand(ir.reshape(frames, (1, batch, 1)), (steps, batch, 1)))
    # padding may hold anything
    data = ir.map("where", ir.expand(counted, data.shape), data, 0) if a.use_data_lengths else data
    alpha = _forward(_emissions(wide(data), numbers, blank), frames, repeats)           # NEVER is no half
    end = _ends(alpha, length)
    loss = ir.map("where", ir.map("le", length + ir.reduce("sum", ir.cast(repeats, dt.int64), (1,)), frames), -end, 0)
    return ir.cast(loss, data.dtype) if dt.is_float(data.dtype) else loss


def _repeats(numbers: Node, inside: Node) -> Node:
    """Where a label equals the one before it, so that a blank must stand between: (batch, places)."""
    before = ir.pad(ir.slice(numbers, (0, 0), (numbers.shape[0], numbers.shape[1] - 1)), (0, 1), (0, 0), -1)
    return ir.map("logical_and", inside, ir.map("eq", numbers, before))


def _between(x: Node, blanks: Node) -> Node:
    """blank x0 blank x1 … blank along the last axis."""
    both = ir.concat([ir.reshape(blanks, (*x.shape, 1)), ir.reshape(x, (*x.shape, 1))], x.ndim)
    flat = ir.reshape(both, (*x.shape[:-1], 2 * x.shape[-1]))
    last = ir.slice(blanks, (0,) * blanks.ndim, (*blanks.shape[:-1], 1))
    return ir.concat([flat, last], x.ndim - 1)


def _emissions(data: Node, numbers: Node, blank: int) -> Node:
    """log p of the extended label (blanks between and around) at every step: (time, batch, 2 · places + 1)."""
    steps, batch, alphabet = data.shape
    logp = ir.reshape(softmax_of(data, 2, True), (steps, batch * alphabet))
    rows = ir.reshape(ir.iota(batch) * alphabet, (batch, 1))
    index = _between(numbers + rows, ir.expand(rows + blank, numbers.shape))
    return ir.gather(logp, index, 1)


def _forward(emit: Node, frames: Node, repeats: Node) -> Node:
    """log of the probability of all paths that end in each place of the extended label after the last frame."""
    steps, batch, places = emit.shape
    # from one label to the next, past a blank
    may_skip = _between(ir.map("logical_not", repeats), ir.full(False, repeats.shape, bool))
    begin = ir.expand(ir.reshape(ir.map("lt", ir.iota(places), 2), (1, places)), (batch, places))

    def at(t: int) -> Node:
        return ir.reshape(ir.slice(emit, (t, 0, 0), (1, batch, places)), (batch, places))
    alpha = ir.map("where", begin, at(0), NEVER)
    for t in range(1, steps):
        skipped = ir.map("where", may_skip, _later(alpha, 2), NEVER)
        new = _log_sum(alpha, _later(alpha, 1), skipped) + at(t)
        alpha = ir.map("where", ir.expand(ir.reshape(ir.map("lt", ir.full(t, (batch,), dt.int64), frames), (batch, 1)),
                                          (batch, places)), new, alpha)
    return alpha


def _ends(alpha: Node, length: Node) -> Node:
    """log of the probability of all paths that end in the last label or the blank behind it."""
    batch, places = alpha.shape
    flat = ir.reshape(alpha, (batch * places,))
    last = ir.iota(batch) * places + length * 2
    blank = ir.gather(flat, last, 0)
    label = ir.gather(flat, ir.map("maximum", last - 1, ir.iota(batch) * places), 0)
    return _log_sum(blank, ir.map("where", ir.map("gt", length, 0), label, NEVER))
