"""``autograd.Function`` inside hybridized code whose Python code wants real arrays (``asnumpy()``): a call from within
the program.

Each call of the program runs ``forward`` on a copy of the instance, which its ``backward`` meets again with what it
kept. What cannot be found any more (more than KEPT calls ago) is computed again.
"""
from __future__ import annotations

import copy
import itertools
from collections import OrderedDict
from typing import Any, Sequence

import numpy as np

from ..base import dtype as dt
from .. import ir
from ..buffers.array import NDArray, wrap
from ..base.device import Context, current_context
from ..base.errors import HybridError, ShapeError
from ..ir import HostCall, Node
from .custom import device_of, outside
from ..base.scope import SCOPE
from ..graph.symbol import Symbol
from .traced_grad import inline

KEPT = 64                            # calls whose instances are kept for a backward pass
Infos = Sequence[tuple[tuple[int, ...], np.dtype]]


class HostFunction:
    """What stands in the program for a call of a Function."""

    def __init__(self, function: Any, inputs: Infos, train: bool, recording: bool, ctx: Context):
        self.function, self.inputs, self.train, self.recording = function, list(inputs), train, recording
        self.name = f"{type(function).__name__} (autograd.Function)"
        self._kept: OrderedDict[int, Any] = OrderedDict()
        self._numbers = itertools.count()
        blank = [wrap(np.zeros(s, d), Context("cpu", 0)) for s, d in self.inputs]
        if ctx.device_type == "gpu":
            blank = [x.as_in_context(ctx) for x in blank]
        found = self._forward(copy.copy(function), blank)
        self.single = not isinstance(found, (list, tuple))
        self.kind: Any = type(found)
        self.outputs: Infos = [(x.shape, x._data.dtype) for x in self._listed(found)]

    def _forward(self, function: Any, arrays: Sequence[NDArray]) -> Any:
        with outside(self.train):
            return function.forward(*arrays)

    def _listed(self, found: Any) -> list[NDArray]:
        out = list(found) if isinstance(found, (list, tuple)) else [found]
        if not all(isinstance(x, NDArray) for x in out):
            raise HybridError(f"{self.name}: forward and backward must return arrays, got "
                              f"{', '.join(type(x).__name__ for x in out)}")
        return out

    # ---- what the program calls
    def forward(self, xp: Any, arrays: Sequence[Any]) -> list[Any]:
        """The outputs, and the number under which the instance is kept."""
        ctx, instance = device_of(xp, arrays), copy.copy(self.function)
        found = self._listed(self._forward(instance, [wrap(x, ctx) for x in arrays]))
        number = next(self._numbers)
        if self.recording:
            self._kept[number] = instance
            if len(self._kept) > KEPT:
                self._kept.popitem(last=False)
        return [*(_new(xp, x._data, arrays) for x in found), xp.asarray(np.array([number], np.int64))]

    def backward(self, xp: Any, number: Any, arrays: Sequence[Any], grads: Sequence[Any]) -> list[Any]:
        """Gradients of all inputs."""
        ctx = device_of(xp, grads)
        instance = self._kept.get(int(number[0]))
        if instance is None:
            instance = copy.copy(self.function)
            self._forward(instance, [wrap(x, ctx) for x in arrays])
        with outside(self.train):
            found = self._listed(instance.backward(*(wrap(g, ctx) for g in grads)))
        if len(found) != len(self.inputs):
            raise HybridError(f"{self.name}: backward returned {len(found)} gradients for {len(self.inputs)} inputs")
        for g, (shape, _) in zip(found, self.inputs):
            if g.shape != shape:
                raise ShapeError(f"{self.name}: backward returned a gradient of shape {g.shape} for an input of shape "
                                 f"{shape}")
        return [g._data for g in found]

    # ---- primitives
    def lower(self, nodes: Sequence[Node]) -> list[Node]:
        """The outputs as primitives."""
        token = ((1,), np.dtype(np.int64))
        return ir.host(HostCall(self.name, self.forward, (*self.outputs, token), self._vjp), nodes)[:len(self.outputs)]

    def _vjp(self, grads: Sequence[Node], node: Node) -> list[Node | None]:
        floats = [i for i, (_, dtype) in enumerate(self.inputs) if dt.is_float(dtype)]
        n, count = len(self.outputs), len(self.inputs)

        def backward(xp: Any, arrays: Sequence[Any]) -> list[Any]:
            found = self.backward(xp, arrays[0], arrays[1:1 + count], arrays[1 + count:])
            return [_new(xp, found[i].astype(self.inputs[i][1], copy=False), arrays) for i in floats]
        again = HostCall(f"{self.name}, backward", backward, tuple(self.inputs[i] for i in floats))
        pulled = dict(zip(floats, ir.host(again, [ir.make("host_item", (node,), index=n), *node.args, *grads[:n]])))
        return [pulled.get(i) for i in range(count)]


def _new(xp: Any, x: Any, others: Sequence[Any]) -> Any:
    """An array that shares no memory with what the program keeps: user code may return its input."""
    return xp.array(x, order="C") if x.base is not None or any(x is o for o in others) else x


def call(function: Any, symbols: Sequence[Symbol]) -> Any:
    """A Function on traced values, as a call from within the program."""
    infos = [s._one()[0].info[s._one()[1]] for s in symbols]
    host = HostFunction(function, infos, SCOPE.training, SCOPE.recording,
                        SCOPE.traces[-1].ctx if SCOPE.traces else current_context())
    results = inline(type(function).__name__, list(symbols), host.lower, host.outputs)
    return results[0] if host.single else host.kind(results)
