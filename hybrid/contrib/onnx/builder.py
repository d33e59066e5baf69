"""An ONNX graph under construction: nodes, constants and the values between them."""
from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Sequence

import numpy as np

from . import library

LAST = 2**63 - 1                        # an end of a slice that lies behind every axis


@dataclass(frozen=True, eq=False)
class Value:
    """A value between operators. ``array``: its numbers, where they are known when the file is written."""
    name: str
    shape: tuple[int, ...]
    dtype: np.dtype
    array: np.ndarray | None = None


@dataclass(frozen=True)
class Sized:
    """A node (Reshape, Expand) whose second input is a shape: that of its first input, and the target."""
    kind: str
    source: tuple[int, ...]
    target: tuple[int, ...]


class Graph:
    """Nodes in order, each with the operator it stands for (``owners``), and constants by name.

    A graph within a loop has a ``parent``: names are of all graphs together, and constants stand in the outermost one.
    """

    def __init__(self, opset: int, parent: "Graph | None" = None):
        self.onnx = library.onnx()
        self.opset = opset
        self.nodes: list[Any] = []
        self.owners: list[str] = []
        self.sized: dict[int, Sized] = {}
        self.root: Graph = parent.root if parent is not None else self
        self.constants: dict[str, np.ndarray] = {}
        self.taken: dict[str, int] = {}
        self.owner: str = parent.owner if parent is not None else ""        # the operator that is being written
        self.start = 0                                                      # its first node
        self._known: dict[Any, str] = {}

    # ---- names and constants
    def fresh(self, hint: str) -> str:
        """A name that no value has yet."""
        taken = self.root.taken
        while True:
            n = taken.get(hint, 0)
            taken[hint] = n + 1
            name = f"{hint}_{n}" if n else hint
            if not n or name not in taken:
                taken.setdefault(name, 1)
                return name

    def const(self, value: Any, dtype: Any = None) -> str:
        """The name of a constant; equal ones are one."""
        a = np.ascontiguousarray(np.asarray(value, dtype)).reshape(np.shape(value))
        key = (a.dtype, a.shape, a.tobytes())
        name = self.root._known.get(key)
        if name is None:
            name = self.root._known[key] = self.fresh(f"{self.owner}_const")
            self.root.constants[name] = a
        return name

    def use(self, v: Value) -> str:
        """The name of a value, which is among the constants from now on if its numbers are known."""
        if v.array is not None:
            self.root.constants.setdefault(v.name, v.array)
        return v.name

    # ---- nodes
    def node(self, kind: str, inputs: Sequence[str], outputs: int | Sequence[str] = 1, **attrs: Any) -> Any:
        """Add a node; the name of its output, or a list of names for several. Attributes that are None are left out."""
        names = [self.fresh(f"{self.owner}_{kind.lower()}")
                 for _ in range(outputs)] if isinstance(outputs, int) else list(outputs)
        given = {k: v for k, v in attrs.items() if v is not None}
        self.nodes.append(self.onnx.helper.make_node(kind, list(inputs), names,
                                                     name=self.root.fresh(f"{self.owner}_{kind}"), **given))
        self.owners.append(self.owner)
        return names[0] if outputs == 1 else names

    def cast(self, name: str, dtype: Any) -> str:
        """A cast."""
        return self.node("Cast", [name], to=self.type(dtype))

    def type(self, dtype: Any) -> int:
        """ONNX's number of a dtype."""
        return self.onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype))

    def reshape(self, name: str, source: Sequence[int], target: Sequence[int]) -> str:
        """A value of shape ``source`` in the shape ``target``."""
        return name if tuple(source) == tuple(target) else self._sized("Reshape", name, source, target)

    def expand(self, name: str, source: Sequence[int], target: Sequence[int]) -> str:
        """A value of shape ``source`` broadcast to ``target``."""
        return name if tuple(source) == tuple(target) else self._sized("Expand", name, source, target)

    def _sized(self, kind: str, name: str, source: Sequence[int], target: Sequence[int]) -> str:
        self.sized[len(self.nodes)] = Sized(kind, tuple(source), tuple(target))
        # never shared: with lengths that vary it is computed
        sizes = self.fresh(f"{self.owner}_shape")
        self.root.constants[sizes] = np.asarray(target, np.int64)
        # where 0 else means the length that was there
        if kind == "Reshape" and 0 in target and self.opset >= 14:
            return self.node(kind, [name, sizes], allowzero=1)
        return self.node(kind, [name, sizes])

    def transpose(self, name: str, axes: Sequence[int]) -> str:
        """A permutation of axes."""
        return name if list(axes) == list(range(len(axes))) else self.node("Transpose", [name], perm=list(axes))

    def slice(self, name: str, shape: Sequence[int], begin: Sequence[int], size: Sequence[int],
              step: Sequence[int]) -> str:
        """``size`` elements of each axis, from ``begin`` on. Axes that are whole are left alone."""
        axes = [i for i, (b, n, s, d) in enumerate(zip(begin, size, step, shape)) if (b, n, s) != (0, d, 1)]
        if not axes:
            return name
        ends = [_end(begin[i], size[i], step[i], shape[i]) for i in axes]
        lists = ([begin[i] for i in axes], ends, axes, [step[i] for i in axes])
        return self.node("Slice", [name, *(self.const(v, np.int64) for v in lists)])

    def reduce(self, kind: str, name: str, axes: Sequence[int], keepdims: bool = False) -> str:
        """A reduction over axes."""
        # in these opsets the only one that takes its axes as an input
        if kind == "ReduceSum":
            return self.node(kind, [name, self.const(axes, np.int64)], keepdims=int(keepdims))
        return self.node(kind, [name], axes=list(axes), keepdims=int(keepdims))

    # ---- results of an operator
    def rename(self, start: int, old: str, new: str) -> str:
        """Give a value that nodes from number ``start`` on make the name of its operator, where that is possible; the
        name it has."""
        own = self.nodes[start:]
        if new in self.root.taken or not any(old in n.output
                                             for n in own) or any(a.HasField("g") for n in own for a in n.attribute):
            return old
        self.root.taken[new] = 1
        for n in own:
            for names in (n.input, n.output):
                for i, name in enumerate(names):
                    if name == old:
                        names[i] = new
        return new

    def info(self, name: str, dtype: Any, shape: Sequence[Any] | None = None) -> Any:
        """The declaration of an input or output; within loops without a shape."""
        return self.onnx.helper.make_tensor_value_info(name, self.type(dtype), None if shape is None else list(shape))


def _end(begin: int, size: int, step: int, length: int) -> int:
    end = begin + size * step
    if step > 0:
        return LAST if begin + (size - 1) * step + step >= length and size else end
    return end if end >= 0 else -LAST
