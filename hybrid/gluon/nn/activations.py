"""Activation layers."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...mxnet import initializer
from ..hybrid_block import HybridBlock
from .checks import number

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ..options import BlockOptions


class Activation(HybridBlock):
    """A function of each element, by its name in activation: relu max(x, 0), sigmoid 1 / (1 + exp(-x)), tanh,
    softrelu log(1 + exp(x)), softsign x / (1 + abs(x)), log_sigmoid log(sigmoid(x)), mish x tanh(softrelu(x)).
    Shape and dtype stay. A call with another name is an AttributeValueError."""

    def __init__(self, activation: str, **kwargs: Unpack[BlockOptions]):
        self.__dict__["_act_type"] = activation
        super().__init__(**kwargs)

    def _alias(self) -> str:
        return self._act_type

    def hybrid_forward(self, F: Any, x: Any) -> Any:                 # type: ignore[override]
        return F.Activation(x, act_type=self._act_type, name="fwd")

    def __repr__(self) -> str:
        return f"Activation({self._act_type})"


class LeakyReLU(HybridBlock):
    """x where it is positive, alpha x elsewhere. Shape and dtype stay."""

    def __init__(self, alpha: float, **kwargs: Unpack[BlockOptions]):
        super().__init__(**kwargs)
        self._alpha = number("LeakyReLU", "alpha", alpha, 0)

    def hybrid_forward(self, F: Any, x: Any) -> Any:                 # type: ignore[override]
        return F.LeakyReLU(x, act_type="leaky", slope=self._alpha, name="fwd")

    def __repr__(self) -> str:
        return f"LeakyReLU({self._alpha})"


class PReLU(HybridBlock):
    """x where it is positive, alpha x elsewhere, with a learned alpha. Shape and dtype stay.

    in_channels 1: one alpha for all; else one for each of the channels, the second axis. Parameter: ``alpha``
    (in_channels,).
    """

    def __init__(self, alpha_initializer: Any = None, in_channels: int = 1, **kwargs: Unpack[BlockOptions]):
        super().__init__(**kwargs)
        with self.name_scope():
            self.alpha = self.params.get("alpha", shape=(in_channels,),
                                         init=alpha_initializer or initializer.Constant(0.25))

    def hybrid_forward(self, F: Any, x: Any, alpha: Any) -> Any:     # type: ignore[override]
        return F.LeakyReLU(x, gamma=alpha, act_type="prelu", name="fwd")


class ELU(HybridBlock):
    """x where it is positive, alpha (exp(x) - 1) elsewhere. Shape and dtype stay."""

    def __init__(self, alpha: float = 1.0, **kwargs: Unpack[BlockOptions]):
        super().__init__(**kwargs)
        self._alpha = alpha

    def hybrid_forward(self, F: Any, x: Any) -> Any:                 # type: ignore[override]
        return F.LeakyReLU(x, act_type="elu", slope=self._alpha)


class SELU(HybridBlock):
    """1.0507 x where x is positive, 1.0507 * 1.67326 (exp(x) - 1) elsewhere. Shape and dtype stay."""

    def hybrid_forward(self, F: Any, x: Any) -> Any:                 # type: ignore[override]
        return F.LeakyReLU(x, act_type="selu", name="fwd")


class GELU(HybridBlock):
    """x (1 + erf(x / sqrt(2))) / 2: x times the normal distribution function. Shape and dtype stay."""

    def hybrid_forward(self, F: Any, x: Any) -> Any:                 # type: ignore[override]
        return F.LeakyReLU(x, act_type="gelu", name="fwd")


class Swish(HybridBlock):
    """x sigmoid(beta x). Shape and dtype stay."""

    def __init__(self, beta: float = 1.0, **kwargs: Unpack[BlockOptions]):
        super().__init__(**kwargs)
        self._beta = beta

    def hybrid_forward(self, F: Any, x: Any) -> Any:                 # type: ignore[override]
        return x * F.sigmoid(self._beta * x, name="fwd")


class SiLU(HybridBlock):
    """x sigmoid(x). Shape and dtype stay."""

    def hybrid_forward(self, F: Any, x: Any) -> Any:                 # type: ignore[override]
        return x * F.sigmoid(x, name="fwd")
