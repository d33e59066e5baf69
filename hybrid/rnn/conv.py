"""Convolutional recurrent cells on Symbols (Shi et al. 2015): the products of the cells are convolutions."""
from __future__ import annotations

from functools import partial
from typing import Any, Sequence

from ..graph import symbol
from ..base.errors import AttributeValueError
from ..graph.symbol import Symbol
from .cell import BaseRNNCell, RNNParams, add, gru_step, lstm_step

_LEAKY: Any = partial(getattr(symbol, "LeakyReLU"), act_type="leaky", slope=0.2)


class BaseConvRNNCell(BaseRNNCell):
    """What the three cells share.

    input_shape: of the whole batch of one step, as (N, C, H, W). num_hidden: channels of the states. h2h_kernel: odd,
    so that the states keep their size. conv_layout: ``NCHW`` or ``NHWC``. activation: a name or a function of a Symbol,
    leaky by default.
    """
    gates: Sequence[str] = ("",)

    def __init__(self, input_shape: Sequence[int], num_hidden: int, h2h_kernel: Sequence[int] = (3, 3),
                 h2h_dilate: Sequence[int] = (1, 1),
                 i2h_kernel: Sequence[int] = (3, 3), i2h_stride: Sequence[int] = (1, 1),
                 i2h_pad: Sequence[int] = (1, 1), i2h_dilate: Sequence[int] = (1, 1),
                 i2h_weight_initializer: Any = None, h2h_weight_initializer: Any = None,
                 i2h_bias_initializer: Any = "zeros",
                 h2h_bias_initializer: Any = "zeros", activation: Any = _LEAKY, prefix: str | None = None,
                 params: RNNParams | None = None,
                 conv_layout: str = "NCHW"):
        super().__init__(prefix=f"{type(self).__name__[:-4]}_" if prefix is None else prefix, params=params)
        if any(k % 2 == 0 for k in h2h_kernel):
            raise AssertionError(f"{type(self).__name__}: h2h_kernel must be odd, so that the states keep their size; "
                                 f"got {tuple(h2h_kernel)}")
        if len(input_shape) != len(conv_layout):
            raise AttributeValueError(f"{type(self).__name__}: input_shape {tuple(input_shape)} must name {conv_layout}")  # noqa: E501
        self._num_hidden, self._conv_layout, self._activation = num_hidden, conv_layout, activation
        self._i2h = {"kernel": tuple(i2h_kernel), "stride": tuple(i2h_stride), "pad": tuple(i2h_pad),
                     "dilate": tuple(i2h_dilate)}
        self._h2h = {"kernel": tuple(h2h_kernel), "stride": (1,) * len(h2h_kernel), "dilate": tuple(h2h_dilate),
                     "pad": tuple(d * (k - 1) // 2 for d, k in zip(h2h_dilate, h2h_kernel))}
        probe = symbol.Convolution(symbol.var("data"), num_filter=num_hidden, layout=conv_layout, name="probe",
                                   **self._i2h)
        self._state_shape = (0, *probe.infer_shape(data=tuple(input_shape))[1][0][1:])
        get = self._params.get
        self._iW, self._hW = get("i2h_weight",
                                 init=i2h_weight_initializer), get("h2h_weight", init=h2h_weight_initializer)
        self._iB, self._hB = get("i2h_bias", init=i2h_bias_initializer), get("h2h_bias", init=h2h_bias_initializer)

    @property
    def state_info(self) -> list[dict[str, Any]]:
        return [{"shape": self._state_shape, "__layout__": self._conv_layout}]

    @property
    def _gate_names(self) -> Sequence[str]:
        return self.gates

    @property
    def _num_gates(self) -> int:
        return len(self.gates)

    @property
    def _channels(self) -> int:
        return self._conv_layout.find("C")

    def _conv_forward(self, inputs: Symbol, states: Sequence[Symbol], name: str) -> tuple[Symbol, Symbol]:
        """Both convolutions, of all gates."""
        filters = self._num_hidden * self._num_gates
        return (symbol.Convolution(data=inputs, weight=self._iW, bias=self._iB, num_filter=filters,
                                   layout=self._conv_layout, name=f"{name}i2h", **self._i2h),
                symbol.Convolution(data=states[0], weight=self._hW, bias=self._hB, num_filter=filters,
                                   layout=self._conv_layout, name=f"{name}h2h", **self._h2h))

    def __call__(self, inputs: Symbol, states: Sequence[Symbol]) -> tuple[Symbol, list[Symbol]]:
        raise NotImplementedError(f"{type(self).__name__} must define __call__(self, inputs, states)")


class ConvRNNCell(BaseConvRNNCell):
    """h' = act(W_ih * x + b_ih + W_hh * h + b_hh)."""

    def __call__(self, inputs: Symbol, states: Sequence[Symbol]) -> tuple[Symbol, list[Symbol]]:
        name = self._step_name()
        output = self._get_activation(add(*self._conv_forward(inputs, states, name)), self._activation,
                                      name=f"{name}out")
        return output, [output]


class ConvLSTMCell(BaseConvRNNCell):
    """Long short-term memory with convolutions. States h and c."""
    gates = ["_i", "_f", "_c", "_o"]

    @property
    def state_info(self) -> list[dict[str, Any]]:
        return super().state_info + super().state_info

    def __call__(self, inputs: Symbol, states: Sequence[Symbol]) -> tuple[Symbol, list[Symbol]]:
        name = self._step_name()
        total = add(*self._conv_forward(inputs, states, name))
        return lstm_step(self, symbol.SliceChannel(total, num_outputs=4, axis=self._channels, name=f"{name}slice"),
                         states[1], self._activation, name)


class ConvGRUCell(BaseConvRNNCell):
    """Gated recurrent unit with convolutions."""
    gates = ["_r", "_z", "_o"]

    def __call__(self, inputs: Symbol, states: Sequence[Symbol]) -> tuple[Symbol, list[Symbol]]:
        name = self._step_name()
        i2h, h2h = self._conv_forward(inputs, states, name)
        return gru_step(self, i2h, h2h, states[0], self._activation, name,
                        **({"axis": self._channels} if self._channels != 1 else {}))


__all__ = ["BaseConvRNNCell", "ConvGRUCell", "ConvLSTMCell", "ConvRNNCell"]
