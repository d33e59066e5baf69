"""Functions of linear algebra that have no answer for every matrix: a singular one is an error, as in MXNet, and no
NaN."""
from __future__ import annotations

from typing import Any, Callable

from . import functions
from ..autograd import pause
from ..autograd.demands import demand
from ..base.errors import SingularMatrixError
from ..base.names import kept, named
from ..base.scope import SCOPE
from ..graph.symbol import Symbol


def _finite(x: Any) -> Any:
    """1 where all of x is finite, else 0, as an array of one element."""
    return functions.resolve("nd", "min")(functions.resolve("nd", "contrib.isfinite")(x))


def checked(name: str, plain: Callable[..., Any]) -> Callable[..., Any]:
    """The function of an operator, with an error where its result is not finite and the matrix is."""
    def function(*args: Any, **kwargs: Any) -> Any:
        found = plain(*args, **kwargs)
        given = args[0] if args else kwargs.get("A")
        if isinstance(found, Symbol) and (not SCOPE.traces or found.shape is None
                                          or getattr(given, "shape", None) is None):
            return found
        if 0 in found.shape:
            return found
        with kept(), pause(SCOPE.training):
            solved, sound = _finite(found), _finite(given)
            demand((1 - solved) * sound, sound, SingularMatrixError,
                   f"{name[1:].replace('_', '.', 1)}: {functions.SOLVERS[name]}")
        return found
    function.__signature__ = plain.__signature__                 # type: ignore[attr-defined]
    return named(function, plain.__qualname__, plain.__module__, plain.__doc__)
