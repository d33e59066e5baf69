"""Functions that are called with the gradient of a value when it is computed: what backward hooks of blocks see.

The value passes through an operator that changes nothing, and whose gradient is a call of Python code (ir/host.py): so
it is the same eagerly, in the backward program of a compiled call, and in a hybridized training step.
"""
from __future__ import annotations

import itertools
import weakref
from typing import Any, Callable, Sequence

from .. import ir
from ..base.errors import ShapeError
from ..base.scope import SCOPE
from ..buffers.array import NDArray, wrap
from ..ir import HostCall, Node
from ..ir.vjp import register_grad
from ..ops.registry import OpDef
from .custom import device_of, outside
from .dispatch import invoke

_hooks: "weakref.WeakValueDictionary[int, GradientHook]" = weakref.WeakValueDictionary()
_numbers = itertools.count()


class GradientHook:
    """A function for the gradients of some values. What it gives, if not None, takes the gradient's place.

    >>> from hybrid import autograd, nd
    >>> seen = []
    >>> hook = GradientHook(lambda g: seen.append(g.asnumpy()), "mine")
    >>> x = nd.ones((2,)); x.attach_grad()
    >>> with autograd.record():
    ...     y = (hook.through(x * 2) * 3).sum()
    >>> y.backward(); seen[0].tolist(), x.grad.asnumpy().tolist()
    ([3.0, 3.0], [6.0, 6.0])
    """

    def __init__(self, call: Callable[[NDArray], Any], name: str):
        self.call, self.name = call, name
        number = next(_numbers)
        _hooks[number] = self

        def lower(node: Node, a: Any) -> tuple[Node, ...]:
            return (ir.with_grad(node, (node,), "shown", (number,)),)
        self._operator = OpDef("shown", lower, ("data",), frozenset(), False, (), {}, {})

    def __reduce__(self) -> Any:
        """A copy has a number of its own."""
        return GradientHook, (self.call, self.name)

    def through(self, x: Any) -> Any:
        """A value equal to ``x``, with whose gradient the function is called."""
        return invoke(self._operator, [x], {})

    def run(self, xp: Any, arrays: Sequence[Any]) -> list[Any]:
        """What the backward program calls."""
        given = wrap(xp.array(arrays[0]), device_of(xp, arrays))
        with outside(SCOPE.training):
            found = self.call(given)
        if found is None:
            return [arrays[0]]
        if not isinstance(found, NDArray) or found.shape != given.shape:
            raise ShapeError(f"{self.name} returned {getattr(found, 'shape', type(found).__name__)} in the place of a "
                             f"gradient of shape {given.shape}: return an array of that shape, or None")
        return [found._data.astype(given._data.dtype, copy=True)]


@register_grad("shown")
def _pull(g: Node, attrs: Any, value: Node, x: Node) -> tuple[Node]:
    hook = _hooks.get(attrs[0])                              # None: detached since
    return (ir.host(HostCall(hook.name, hook.run, ((g.shape, g.dtype),)), [g])[0] if hook is not None else g,)
