"""Copies of arrays, onto other arrays and devices: gradients flow through them while recording, and a trace computes
them at every call."""
from __future__ import annotations

from typing import Any

from ..buffers.array import NDArray
from ..base.device import Context
from ..autograd.dispatch import invoke
from ..base.errors import ShapeError, warn_user
from ..ops.registry import OPS
from ..base.scope import SCOPE
from ..graph.symbol import Symbol
from ..buffers.tape import Entry, Slot

_plain_copy = NDArray.copy
_plain_copyto = NDArray.copyto


class Move:
    """What the tape remembers of a copy to another device: the gradient goes the way back."""

    def _pull(self, entry: Entry, grads: list[Any]) -> list[Any]:
        return [grads[0].as_in_context(entry.inputs[0]._ctx)]


def captured(x: NDArray) -> Any:
    """The traced input for an array on any device; when one of another device is written, its copy here is made
    anew."""
    trace = SCOPE.traces[-1]
    if x._ctx != trace.ctx:
        trace.read(x)
        x = _plain_copyto(x, trace.ctx)
        trace.made[id(x)] = x
    return trace.capture(x)


def copy(self: NDArray) -> Any:
    """A copy on the same device; through it flows a gradient while recording."""
    if SCOPE.traces:
        return SCOPE.traces[-1].capture(self).copy()
    return invoke(OPS["_copy"], [self], {},
                  hint="_copy") if SCOPE.recording and self._ag is not None else _plain_copy(self)


def copyto(self: NDArray, other: Any) -> Any:
    """Copy into another array, or onto a device; a gradient flows through while recording. Into itself: a warning, and
    False, as in MXNet.

    >>> from hybrid import cpu, nd
    >>> nd.ones((2,)).copyto(nd.zeros((2,))).asnumpy().tolist(), nd.ones((2,)).copyto(cpu()).shape
    ([1.0, 1.0], (2,))
    """
    if SCOPE.traces:
        return captured(self).copyto(other)
    if other is self:
        warn_user("copyto: an array was given itself to copy into; nothing is done")
        return False
    if SCOPE.recording and isinstance(other, Context) and self._ag is not None:
        return copy(self) if other == self._ctx else _moved(self, other)
    if SCOPE.recording and isinstance(other,
                                      NDArray) and other.stype == "default" and (self._ag is not None
            or other._ag is not None):
        _check_shape(self, other)
        other[:] = self.as_in_context(other._ctx)
        return other
    return _plain_copyto(self, other)


def _moved(x: NDArray, ctx: Context) -> NDArray:
    out = _plain_copyto(x, ctx)
    out._ag = Slot(Entry(None, [x], [out], function=Move()), 0)
    return out


def _check_shape(source: Any, target: Any) -> None:
    if tuple(target.shape) != tuple(source.shape):
        raise ShapeError(f"copyto: the target has shape {tuple(target.shape)}, this array {tuple(source.shape)}")


def symbol_copyto(self: Symbol, other: Any) -> Any:
    """Copy into another value of the program; on a device: a copy, since a program runs on one."""
    if isinstance(other, Context):
        return self.copy()                                    # type: ignore[attr-defined]
    if not isinstance(other, (NDArray, Symbol)):
        raise TypeError(f"copyto takes an array or a device such as cpu(), got {other!r:.60}")
    _check_shape(self, other)
    other[:] = self                                           # type: ignore[index]
    return other
