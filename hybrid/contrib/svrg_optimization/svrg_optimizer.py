"""The optimizer of an SVRGModule: another optimizer, and an assignment for the full gradients that a kvstore adds
up."""
from __future__ import annotations

import inspect
from typing import Any

from ... import optimizer as opt
from ...optimizer import Optimizer, register


@register
class _AssignmentOptimizer(Optimizer):
    """Writes the gradient into the weight: how a kvstore keeps the sum of gradients."""

    def update(self, index: Any, weight: Any, grad: Any, state: Any) -> None:
        """weight = grad."""
        weight[:] = grad


@register
class _SVRGOptimizer(Optimizer):
    """Updates weights by ``default_optimizer`` (a name, with its arguments in kwargs, or an Optimizer), and keys that
    end in ``_full`` by assignment.
    """

    def __init__(self, default_optimizer: Any, **kwargs: Any):
        super().__init__(**self._check_params(**kwargs))
        self.default_opt = opt.create(default_optimizer,
                                      **kwargs) if isinstance(default_optimizer, str) else default_optimizer
        self.aux_opt = opt.create(_AssignmentOptimizer.__name__)

    @staticmethod
    def _check_params(**kwargs: Any) -> dict[str, Any]:
        """The arguments that every optimizer takes."""
        own = inspect.signature(Optimizer.__init__).parameters
        return {k: v for k, v in kwargs.items() if k in own}

    def _check_index(self, index: Any) -> str:
        """The name of a parameter: index may be its number or the name itself."""
        return str(index if index in self.idx2name.values() else self.idx2name[index])

    def _of(self, index: Any) -> Any:
        return self.aux_opt if "full" in self._check_index(index) else self.default_opt

    def create_state(self, index: Any, weight: Any) -> Any:
        """The state that the parameter's optimizer wants."""
        return self._of(index).create_state(index, weight)

    def update(self, index: Any, weight: Any, grad: Any, state: Any) -> None:
        """One step of the parameter's optimizer."""
        self._of(index).update(index, weight, grad, state)
