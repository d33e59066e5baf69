"""``Block.summary``: a table of layers, output shapes and numbers of parameters."""
from __future__ import annotations

from typing import Any

import numpy as np

from ..graph.symbol import Symbol


def print_summary(net: Any, inputs: Any) -> None:
    """Run a block once on inputs, with hooks that note what each layer gives, and print the table."""
    rows: list[tuple[str, Any, int, int, int]] = []
    seen: set[int] = set()
    handles = []

    def note(block: Any, _: Any, out: Any) -> None:
        if isinstance(out, Symbol):                           # only finds out shapes
            return
        own = list(block._reg_params.values())
        total = sum(int(np.prod(p.shape)) for p in own)
        train = sum(int(np.prod(p.shape)) for p in own if p.grad_req != "null")
        shared = sum(int(np.prod(p.shape)) for p in own if id(p) in seen)
        seen.update(id(p) for p in own)
        rows.append((f"{type(block).__name__}-{len(rows) + 1}", _shapes(out), total, train, shared))

    def watch(b: Any) -> None:
        assert not getattr(b, "_active",
                           False), f"{type(b).__name__} {b.name} is hybridized; call summary before hybridize()"
        if not (b._children and hasattr(b, "add")):           # containers have nothing of their own
            handles.append(b.register_forward_hook(note))
    try:
        net.apply(watch)
        net(*inputs)
    finally:
        for h in handles:
            h.detach()
    _print(rows, _shapes(inputs[0] if len(inputs) == 1 else inputs))


def _shapes(out: Any) -> Any:
    return [_shapes(o) for o in out] if isinstance(out, (list, tuple)) else getattr(out, "shape", None)


def _shape_text(shapes: Any) -> str:
    """(2, 3), or (2, 3), (4,) for several."""
    return str(shapes)[1:-1] if isinstance(shapes, list) else str(shapes)


def _print(rows: list[tuple[str, Any, int, int, int]], given: Any) -> None:
    line = "{:>20}  {:>42} {:>15}"
    print("-" * 80)
    print(line.format("Layer (type)", "Output Shape", "Param #"))
    print("=" * 80)
    print(line.format("Input", _shape_text(given), 0))
    for name, shape, total, _, _ in rows:
        print(line.format(name, _shape_text(shape), total))
    total, train, shared = (sum(r[i] for r in rows) for i in (2, 3, 4))
    print("=" * 80)
    print("Parameters in forward computation graph, duplicate included")
    print(f"   Total params: {total}")
    print(f"   Trainable params: {train}")
    print(f"   Non-trainable params: {total - train}")
    print(f"Shared params in forward computation graph: {shared}")
    print(f"Unique parameters in model: {total - shared}")
    print("-" * 80)
