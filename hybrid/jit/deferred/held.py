"""Arrays that are the same in every round, told by identity: variables (parameters, arrays with ``attach_grad``), their
gradients, states of a hand-written optimizer that rounds write. A program takes them as inputs of its own.
"""
from __future__ import annotations

import functools
import weakref
from typing import Any, Iterable, Sequence

from ...autograd.traced_grad import gradient_of, parameter_gradient
from ...base.scope import tracing
from ...buffers import evict
from ...buffers.array import NDArray
from ...buffers.derived import is_shared

_HELD: "dict[int, Held]" = {}                            # by id of the array


class Held:
    """A held array, as keys of events contain it. collects: whether it is the gradient of another one."""
    __slots__ = ("ref", "collects")

    def __init__(self, x: NDArray):
        self.collects = False
        self.ref = weakref.ref(x, functools.partial(_forget, id(x)))

    def array(self) -> Any:
        """The array itself."""
        return self.ref()


def _forget(key: int, ref: Any) -> None:
    found = _HELD.get(key)
    if found is not None and found.ref is ref:
        del _HELD[key]


def hold(x: NDArray) -> Held:
    """Hold an array from now on."""
    found = _HELD.get(id(x))
    if found is None or found.ref() is not x:
        found = _HELD[id(x)] = Held(x)
    return found


def hold_gradient(x: NDArray) -> None:
    """Hold the gradient of a variable from now on."""
    hold(x._ag.grad).collects = True                     # type: ignore[union-attr, arg-type]


def collects(x: NDArray) -> bool:
    """Whether a held array is the gradient of another one."""
    return _HELD[id(x)].collects


def is_variable(x: NDArray) -> bool:
    """Whether an array collects a gradient of its own."""
    slot = x._ag
    return slot is not None and slot.entry is None and slot.grad is not None


def is_held(x: Any) -> bool:
    """Whether an array is held already."""
    found = _HELD.get(id(x))
    return found is not None and found.ref() is x


def held(x: Any) -> Held | None:
    """The ``Held`` of an array; None where it is not held. A variable is held as soon as it is asked for."""
    if is_held(x):
        return _HELD[id(x)]
    return hold(x) if isinstance(x, NDArray) and x.stype == "default" and is_variable(x) else None


def unfit(x: NDArray) -> str:
    """Why nothing that reads or writes such an array can be put off; nothing where it can."""
    if x._ag is not None and x._ag.grad is not None and x._ag.grad.stype != "default":
        return "a parameter or its gradient is sparse"
    if evict.of(x) is None and is_shared([x._data]):     # an evicted array has memory of its own
        return "it uses an array whose memory others may write (from_numpy, DLPack)"
    return ""


class Owners:
    """Finds the parameter or array under which a trace knows an array that some events use."""

    def __init__(self, nodes: Sequence[Any]):
        self._of: dict[int, tuple[Any, bool]] = {}       # by id: the owner, whether the array is its gradient
        for node in nodes:
            if node.entry is not None:
                for holder, x in zip(node.entry.captured, node.entry.fixed()):
                    if hasattr(holder, "traced_variable"):
                        self._of[id(x)] = holder, False
        arrays = [*arrays_of(nodes), *(x for n in nodes if n.entry is not None for x in n.entry.fixed())]
        for x in arrays:
            owner, _ = self._of.setdefault(id(x), (x, False))
            if is_variable(x):
                self._of[id(x._ag.grad)] = owner, True
        self._arrays = arrays                            # so that no id comes again

    def value(self, h: Held) -> Any:
        """The array; in traced code what stands for it there."""
        trace, x = tracing(), h.ref()
        if trace is None:
            return x
        owner, collects = self._of[id(x)]
        if not isinstance(owner, NDArray):
            return parameter_gradient(trace, owner) if collects else trace.parameter(owner)
        handle = trace.capture(owner)
        if not collects:
            return handle
        return gradient_of(trace, next(i for i, (h, _) in enumerate(trace.handles) if h is handle))


def arrays_of(nodes: Iterable[Any]) -> list[NDArray]:
    """The held arrays among the inputs of some events."""
    found = [i.ref() for node in nodes for i in node.event.inputs if type(i) is Held]
    return [x for x in found if x is not None]


def variables(nodes: Sequence[Any]) -> list[NDArray]:
    """The arrays that some events read and that collect gradients."""
    every = [x for node in nodes if node.entry is not None for x in node.entry.fixed()] + arrays_of(nodes)
    return list({id(x): x for x in every if is_variable(x)}.values())
