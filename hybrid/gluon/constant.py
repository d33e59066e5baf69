"""A parameter that is never trained. Users find it in ``gluon.parameter``."""
from __future__ import annotations

from typing import Any

from ..base.errors import warn_user
from ..mxnet import initializer
from ..buffers.array import NDArray, array
from ..base.device import cpu
from .one_parameter import Parameter


class Constant(Parameter):
    """A parameter that is not trained."""

    def __init__(self, name: str, value: Any):
        value = value if isinstance(value, NDArray) else array(value, cpu(), "float32")
        self.value = value
        super().__init__(name, grad_req="null", shape=value.shape, dtype=value.dtype, init=initializer.Constant(value),
                         differentiable=False)

    @property
    def grad_req(self) -> str:
        """Always null."""
        return "null"

    @grad_req.setter
    def grad_req(self, req: str) -> None:
        if req != "null":
            warn_user(f"Constant {self.name!r} has no gradient: grad_req={req!r} is ignored.")
        self._grad_req = "null"
