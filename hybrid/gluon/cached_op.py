"""``nd.CachedOp``: a Symbol as a function of arrays, as MXNet's ``HybridBlock`` keeps it."""
from __future__ import annotations

from typing import Any

from ..buffers.array import NDArray
from ..base.errors import AttributeValueError
from ..jit.api import hybridize
from ..graph.symbol import Symbol
from .graph import run_graph


class CachedOp:
    """A compiled function of a Symbol's inputs in the order of ``list_inputs()``. flags: options of MXNet's engine, not
    needed here.

    >>> from hybrid import nd, sym
    >>> CachedOp(sym.var("a") * sym.var("b"))(nd.array([2]), nd.array([3])).asnumpy().tolist()
    [6.0]
    """

    def __init__(self, sym: Symbol, flags: Any = (), thread_safe: bool = False):
        if not isinstance(sym, Symbol):
            raise AttributeValueError(f"CachedOp takes a Symbol, got {type(sym).__name__}")
        self._names = sym.list_inputs()
        names = list(self._names)

        def function(*values: Any) -> Any:
            return run_graph(sym, dict(zip(names, values)).__getitem__, False)
        self._function = hybridize(function)

    def __call__(self, *args: NDArray, out: Any = None, default_ctx: Any = None) -> Any:
        """The outputs: an array, or a list of them."""
        if len(args) != len(self._names):
            raise AttributeValueError(f"this CachedOp takes {len(self._names)} arrays ({', '.join(self._names)}), got "
                                      f"{len(args)}")
        found = self._function(*args)
        if out is None:
            return found
        for target, value in zip(out if isinstance(out, (list, tuple)) else [out],
                                 found if isinstance(found, (list, tuple)) else [found]):
            target[:] = value
        return out


__all__ = ["CachedOp"]
