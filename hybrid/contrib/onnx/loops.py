"""Loops of primitives (``ir/scan.py``) in ONNX: Scan, or Loop where the number of steps is found out while it runs."""
from __future__ import annotations

from typing import Any, Callable, Sequence

import numpy as np

from ...ir import Node, Program
from ...ir.scan import count_of, stacked
from .builder import LAST, Graph
from .primitives import Emitter, NoForm, emit, form


@form("item")
def _item(e: Emitter, n: Node) -> str:
    loop, index = n.args[0], n.attrs["index"]
    if loop not in e.loops:
        simple = count_of(loop) is None and not loop.attrs["stops"] and loop.attrs["slices"]
        e.loops[loop] = _scan(e, loop) if simple else _loop(e, loop)
    return e.loops[loop][index]                    # the number of steps, item -1, stands last


def _body(g: Graph, loop: Node, inputs: Sequence[Callable[[], str]]) -> list[str]:
    """The nodes of a step, in a graph of its own; names of its results, which are made there."""
    body = loop.attrs["body"]
    names = emit(g, Program(body.inputs, body.outputs), inputs)
    return [g.node("Identity", [name]) for name in names]


def _constants(e: Emitter, loop: Node) -> list[Callable[[], str]]:
    """Arguments that are the same in every step: names of the graph around."""
    begin, end = loop.attrs["carries"] + loop.attrs["slices"], len(loop.attrs["body"].inputs)
    names = [e.of(x) for x in loop.args[begin:end]]
    return [lambda name=name: name for name in names]                        # type: ignore[misc]


def _infos(g: Graph, names: Sequence[str], nodes: Sequence[Node]) -> list[Any]:
    return [g.info(name, n.dtype) for name, n in zip(names, nodes)]


def _scan(e: Emitter, loop: Node) -> list[str]:
    a, g, body = loop.attrs, Graph(e.g.opset, e.g), loop.attrs["body"]
    seen = a["carries"] + a["slices"]
    leaves = [g.fresh(f"{g.owner}_step") for _ in range(seen)]
    rest = _constants(e, loop)
    results = _body(g, loop, [*((lambda name=name: name) for name in leaves), *rest])             # type: ignore[misc]
    made = g.onnx.helper.make_graph(g.nodes, g.fresh(f"{g.owner}_body"), _infos(g, leaves, body.inputs),
                                    _infos(g, results, body.outputs))
    count = len(body.outputs)
    back = int(a["reverse"])
    out = e.g.node("Scan", [e.of(x) for x in loop.args[:seen]], [e.g.fresh(f"{g.owner}_scan") for _ in range(count)],
                   body=made, num_scan_inputs=a["slices"],
                   scan_input_directions=[back] * a["slices"],
                   scan_output_directions=[back] * (count - a["carries"]) or None)
    return [*out, e.g.const(a["length"], np.int64)]


def _loop(e: Emitter, loop: Node) -> list[str]:
    a, g, body, carries = loop.attrs, Graph(e.g.opset, e.g), loop.attrs["body"], loop.attrs["carries"]
    count = count_of(loop)
    if a["reverse"] and a["stops"]:
        raise NoForm("a loop that runs backwards and stops early has no form in ONNX")
    steps = e.g.const(a["length"], np.int64)
    most = steps if count is None else e.g.node("Max", [e.g.node("Min", [e.of(count), steps]), e.g.const(0, np.int64)])
    number, flag, done, *state = [g.fresh(f"{g.owner}_step") for _ in range(carries + 3)]
    at = g.node("Sub", [g.node("Sub", [most, g.const(1, np.int64)]), number]) if a["reverse"] else number
    slices = [g.node("Gather", [e.of(x), at], axis=0) for x in loop.args[carries:carries + a["slices"]]]
    rest = _constants(e, loop)
    results = _body(g, loop, [*((lambda name=name: name) for name in (*state, *slices)),
                              *rest])          # type: ignore[misc]
    go = results.pop(carries) if a["stops"] else g.node("Identity", [flag])
    total = g.node("Add", [done, g.const(1, np.int64)])
    h = g.onnx.helper
    kept = [n for i, n in enumerate(body.outputs) if not (a["stops"] and i == carries)]
    inputs = [g.info(number, np.int64, ()), g.info(flag, np.bool_, ()), g.info(done, np.int64, ()),
              *_infos(g, state, body.inputs)]
    outputs = [g.info(go, np.bool_, ()), g.info(total, np.int64, ()), *_infos(g, results, kept)]
    made = h.make_graph(g.nodes, g.fresh(f"{g.owner}_body"), inputs, outputs)
    first = [most, e.g.const(True, np.bool_), e.g.const(0, np.int64), *(e.of(x) for x in loop.args[:carries])]
    out = e.g.node("Loop", first, [e.g.fresh(f"{g.owner}_loop") for _ in range(1 + len(results))], body=made)
    last, stacks = out[1:1 + carries], out[1 + carries:]
    return [*last, *(_padded(e.g, s, n, a) for s, n in zip(stacks, stacked(loop))), out[0]]


def _padded(g: Graph, name: str, n: Node, a: Any) -> str:
    """What was stacked, in order, and zeros for the steps that were not done."""
    lists = [g.const([v], np.int64) for v in (-1, -LAST, 0, -1)]
    name = g.node("Slice", [name, *lists]) if a["reverse"] else name
    zeros = g.expand(g.const(np.zeros((1,) * (n.ndim + 1), n.dtype)), (1,) * (n.ndim + 1), (a["length"], *n.shape))
    whole = g.node("Concat", [name, zeros], axis=0)
    return g.node("Slice", [whole, *(g.const([v], np.int64) for v in (0, a["length"], 0, 1))])

