"""Functions of linear algebra that have no answer for every matrix: a singular one is an error, as in MXNet, and no
NaN."""
from __future__ import annotations

from typing import Any, Callable

from . import functions
from ..autograd import pause
from ..autograd.demands import demand
from ..base.errors import SingularMatrixError
from ..base.names import kept
from ..base.scope import SCOPE
from ..graph.symbol import Symbol
from ..ops.registry import OPS

UNSOLVABLE = {"potrf": "the matrix is not positive definite", "potri": "the triangular matrix is singular",
              "inverse": "the matrix is singular"}


def _finite(x: Any) -> Any:
    """1 where all of x is finite, else 0, as an array of one element."""
    return functions.resolve("nd", "min")(functions.resolve("nd", "contrib.isfinite")(x))


def _checked(name: str) -> Callable[..., Any]:
    plain = {space: functions.make_function(OPS[f"_linalg_{name}"], f"linalg.{name}", space) for space in ("nd", "sym")}

    def function(*args: Any, **kwargs: Any) -> Any:
        values = [*args, *kwargs.values()]
        symbolic = any(isinstance(x, Symbol) for x in values)
        found = plain["sym" if symbolic else "nd"](*args, **kwargs)
        given = values[0]
        if symbolic and (not SCOPE.traces or found.shape is None or getattr(given, "shape", None) is None):
            return found
        with kept(), pause(SCOPE.training):
            solved, sound = _finite(found), _finite(given)
            demand((1 - solved) * sound, sound, SingularMatrixError, f"linalg.{name}: {UNSOLVABLE[name]}")
        return found
    function.__name__ = function.__qualname__ = name
    function.__doc__ = plain["nd"].__doc__
    function.__signature__ = plain["nd"].__signature__           # type: ignore[attr-defined]
    return function


potrf = linalg_potrf = _checked("potrf")
potri = linalg_potri = _checked("potri")
inverse = linalg_inverse = _checked("inverse")
