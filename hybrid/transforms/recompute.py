"""``checkpoint``: intermediate values are computed again in the backward pass instead of being kept."""
from __future__ import annotations

from typing import Any, Callable, ParamSpec, TypeVar

from .transformed import Transformed
from .values import call, flatten, unflatten

P = ParamSpec("P")
R = TypeVar("R")


class Checkpointed(Transformed):
    """What ``checkpoint`` gives."""
    what = "checkpoint"

    def _called(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        leaves, structure = flatten(list(args), "the arguments")
        known: dict[str, Any] = {}

        def run(*values: Any) -> list[Any]:
            result = self._fn(*unflatten(structure, values), **kwargs)
            found, known["structure"] = flatten(result, "the result of a checkpointed function")
            return found
        results = call(run, leaves)
        return unflatten(known["structure"], results)


def checkpoint(f: Callable[P, R]) -> Callable[P, R]:
    """A function like ``f``, of which a recording keeps the arguments alone, not what is computed on the way.

    The backward pass computes that again, with the same random numbers: more time, less memory. f: a function of arrays
    or a Block; it is traced, so that values cannot steer Python code in it. In hybridized code the compiler decides by
    itself what to keep, and the function is called as it is.

    >>> from hybrid import autograd, np
    >>> x = np.array([1.0, 2.0]); x.attach_grad()
    >>> with autograd.record():
    ...     y = checkpoint(lambda v: np.exp(np.sin(v)).sum())(x)
    >>> y.backward()
    >>> [round(g, 4) for g in x.grad.tolist()]
    [1.2534, -1.0331]
    """
    return Checkpointed(f)
