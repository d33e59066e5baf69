"""How ONNX's Scan, Loop and If are read: as ``foreach``, ``while_loop`` and ``cond`` of Symbols."""
from __future__ import annotations

from typing import Any, Sequence

import numpy as np

from ...nd.control_flow import cond, foreach, while_loop
from ...graph.symbol import Symbol
from .reader import Known, OnnxNode, reads

MOST_STEPS = 2**31 - 1


def _steps(n: OnnxNode, body: Any, values: Sequence[Any]) -> list[Symbol]:
    """The results of a body for its inputs. What they are may not be a variable of the loop itself."""
    return [n.op("_copy", s) for s in n.reader.inside(body, dict(zip((i.name for i in body.input), values)))]


def _reversed(n: OnnxNode, s: Symbol, back: int) -> Symbol:
    return n.op("reverse", s, axis=(0,)) if back else s


@reads("Scan")
def scan(n: OnnxNode) -> list[Symbol]:
    if n.opset < 9:
        return _scan_of_batches(n)
    if any(n.attrs.get("scan_input_axes", [])) or any(n.attrs.get("scan_output_axes", [])):
        raise n.fail("Scan over other axes than the first is not supported")
    count = n.attr("num_scan_inputs")
    outputs = len(n.attr("body").output) - len(n) + count
    return _scanned(n, n.all(), n.attrs.get("scan_input_directions", [0] * count),
                    n.attrs.get("scan_output_directions", [0] * outputs))


def _scan_of_batches(n: OnnxNode) -> list[Symbol]:
    """Scan as opset 8 has it: the first axis of every value is a batch, and its first input the lengths of the
    sequences."""
    if n.has(0):
        raise n.fail("Scan of opset 8 with sequence_lens is not supported")
    count, given = n.attr("num_scan_inputs"), [n[k] for k in range(1, len(n))]
    outputs = len(n.attr("body").output) - len(given) + count
    rows = [[n.op("_np_squeeze", n.op("slice_axis", s, axis=0, begin=b, end=b + 1), axis=(0,)) for s in given]
            for b in range(n.shape_of(given[-1])[0])]
    found = [_scanned(n, row, n.attrs.get("directions", [0] * count), [0] * outputs) for row in rows]
    return [n.op("stack", *of_one_output, axis=0) for of_one_output in zip(*found)]


def _scanned(n: OnnxNode, given: Sequence[Symbol], backwards: Sequence[int],
             reversed_outputs: Sequence[int]) -> list[Symbol]:
    """The last states and the stacked results of a body. given: the first states and what is scanned."""
    body, carried = n.attr("body"), len(given) - len(backwards)
    data = [_reversed(n, s, back) for s, back in zip(given[carried:], backwards)]

    def step(slices: list[Symbol], states: list[Symbol]) -> tuple[list[Symbol], list[Symbol]]:
        found = _steps(n, body, [*states, *slices])
        return found[carried:], found[:carried]
    stacked, last = foreach(step, data, list(given[:carried]), name=n.reader.fresh(f"{n.proto.output[0]}_scan"))
    return [*last, *(_reversed(n, s, back) for s, back in zip(stacked, reversed_outputs))]


@reads("Loop")
def loop(n: OnnxNode) -> list[Symbol]:
    """With a known number of steps a foreach; else a while_loop, whose stacked results are as long as the most
    steps."""
    body = n.attr("body")
    most = n.known(0, "number of steps")
    limit = MOST_STEPS if most is None else int(most)
    first = n.known(1, "condition")
    carried = n.all()[2:]
    number, flag = body.input[0].name, body.input[1].name
    last, = [p for p in body.node if body.output[0].name in p.output] or [None]
    always = first is not False and (body.output[0].name == flag or last is not None and last.op_type == "Identity"
                                     and list(last.input) == [flag])
    if always and limit < MOST_STEPS:
        def step(slices: Any, states: list[Symbol]) -> tuple[list[Symbol], list[Symbol]]:
            given = {number: slices, flag: np.asarray(True), **dict(zip((i.name for i in body.input[2:]), states))}
            found = [n.op("_copy", s) for s in n.reader.inside(body, given)][1:]
            return found[len(carried):], found[:len(carried)]
        stacked, states = foreach(step, n.constant("steps", np.arange(limit)), carried,
                                  name=n.reader.fresh(f"{n.proto.output[0]}_loop"))
        return [*states, *stacked]
    if limit >= MOST_STEPS or len(body.output) > 1 + len(carried):
        raise n.fail("a loop without a known greatest number of steps, or one that stacks results and stops by a "
                     "condition, is not supported")

    def func(i: Symbol, go: Symbol, *states: Symbol) -> tuple[list[Symbol], list[Symbol]]:
        found = _steps(n, body, [i, go, *states])
        return [], [n.op("_plus_scalar", i, scalar=1), *found]
    begin = [n.constant("step", np.asarray([0], np.int64)),
             n.constant("condition", np.asarray([True if first is None else bool(first)]))]
    _, (_, _, *states) = while_loop(lambda i, go, *states: go, func, [*begin, *carried], limit,
                                    name=n.reader.fresh(f"{n.proto.output[0]}_loop"))
    return states


@reads("If")
def branch(n: OnnxNode) -> list[Symbol]:
    """The branch of a known condition, else both of them."""
    condition = n.values[0]
    if isinstance(condition, Known):
        return n.reader.inside(n.attr("then_branch" if bool(condition.reshape(())) else "else_branch"), {})
    then, other = (lambda name=name: _steps(n, n.attr(name), [])
                   for name in ("then_branch", "else_branch"))            # type: ignore[misc]
    return list(cond(n[0], then, other, name=n.reader.fresh(f"{n.proto.output[0]}_if")))
