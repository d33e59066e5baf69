"""A moving average of a network's parameters, which often predicts better than the parameters of the last step (Polyak
and Juditsky 1992)."""
from __future__ import annotations

import contextlib
from typing import Any, Iterator, Mapping

from .. import nd
from ..base.errors import AttributeValueError, user_location
from ..buffers.array import NDArray
from .block import Block
from .parameter import ParameterDict


class ExponentialMovingAverage:
    """average = decay * average + (1 - decay) * parameter, at each ``update``.

    Parameters: params (a Block, or what ``collect_params`` gives; initialized), decay (in [0, 1)), warmup (the decay of
    update t is at most (1 + t) / (10 + t), so that the first values are soon forgotten).

    >>> from hybrid import gluon, nd
    >>> net = gluon.nn.Dense(1, in_units=1, use_bias=False)
    >>> net.initialize("ones")
    >>> ema = gluon.ExponentialMovingAverage(net.collect_params(), decay=0.5)
    >>> net.weight.set_data(nd.array([[3]]))
    >>> ema.update()
    >>> with ema.applied():
    ...     print(net.weight.data().asscalar())
    2.0
    >>> net.weight.data().asscalar()
    3.0
    """

    def __init__(self, params: Block | ParameterDict | Mapping[str, Any], decay: float = 0.999, warmup: bool = False):
        if not 0 <= decay < 1:
            raise AttributeValueError(f"{user_location()}: decay={decay} must be 0 or more and below 1")
        self._params = dict((params.collect_params() if isinstance(params, Block) else params).items())
        self.decay, self.warmup = decay, warmup
        self._count = nd.zeros((1,))                          # an array: compiled steps count too
        self.averages: dict[str, NDArray] = {name: p.data().copy() for name, p in self._params.items()}

    def update(self) -> None:
        """Move the averages towards the parameters; call it after each ``trainer.step``."""
        self._count += 1
        decay: Any = nd.broadcast_minimum((1 + self._count) / (10 + self._count), nd.full((1,), self.decay)) \
            if self.warmup else self.decay
        for name, p in self._params.items():
            average, kept = self.averages[name], decay
            if self.warmup:
                kept = decay.as_in_context(average.ctx).reshape((1,) * len(average.shape)).astype(average.dtype)
            average[:] = average * kept + p.data() * (1 - kept)

    @property
    def updates(self) -> int:
        """How often ``update`` was called."""
        return int(self._count.asscalar())

    def copy_to(self) -> None:
        """Make the averages the parameters' values."""
        for name, p in self._params.items():
            p.set_data(self.averages[name])

    @contextlib.contextmanager
    def applied(self) -> Iterator[None]:
        """The averages are the parameters' values within a ``with`` statement, and the old values return behind it."""
        old = {name: p.data().copy() for name, p in self._params.items()}
        self.copy_to()
        try:
            yield
        finally:
            for name, p in self._params.items():
                p.set_data(old[name])


__all__ = ["ExponentialMovingAverage"]
