"""Algorithms that are one primitive here (``ir/rowcall.py``) and loops of primitives in ONNX. A row of ``ROWS`` is one
of them."""
from __future__ import annotations

from typing import Any, Callable, Sequence

from ... import ir
from ...ir import Node
from ...ops.boxes import overlap
from .primitives import Emitter, NoForm, form


def suppressed(n: Node) -> Node:
    """Greedy suppression: each of the first boxes that is still kept drops later ones which overlap it
    (kernels/include/rows_boxes.h)."""
    boxes, classes, valid = n.args
    limit, force, threshold = n.attrs["params"]
    rows, count = valid.shape
    most = min(limit, count)
    boxes, classes, valid = (ir.slice(x, (0,) * x.ndim, (rows, most, *x.shape[2:])) for x in (boxes, classes, valid))
    numbers = ir.iota(most)

    def step(state: Sequence[Node], own: Sequence[Node], constants: Sequence[Node]) -> tuple[list[Node], list[Node]]:
        keep, (box, cls, i), (others, ids, later) = state[0], own, constants
        near = ir.map("gt", ir.reshape(overlap(ir.reshape(box, (rows, 1, 4)), others), (rows, most)), threshold)
        drop = ir.map("logical_and", near, ir.map("gt", ir.reshape(later, (1, most)), i))
        if not force:
            drop = ir.map("logical_and", drop, ir.map("eq", ir.reshape(cls, (rows, 1)), ids))
        drop = ir.map("logical_and", drop, ir.reshape(ir.gather(keep, i, 1), (rows, 1)))
        return [ir.map("logical_and", keep, ir.map("logical_not", drop))], []
    kept, _ = ir.loop(step, [ir.map("ne", valid, 0)],
                      [ir.permute(boxes, (1, 0, 2)), ir.permute(classes, (1, 0)), numbers], [boxes, classes, numbers])
    return ir.pad(ir.cast(kept[0], n.dtype), (0, 0), (0, count - most))


ROWS: dict[str, Callable[[Node], Node]] = {"nms": suppressed}


@form("rows")
def _rows(e: Emitter, n: Node) -> str:
    made: Any = ROWS.get(n.attrs["name"])
    if made is None:
        raise NoForm("it is an algorithm of many steps, which ONNX has no operator for")
    return e.run([made(n)])[0]
