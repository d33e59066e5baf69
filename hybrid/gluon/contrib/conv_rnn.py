"""Convolutional recurrent cells (Shi et al. 2015, arXiv 1506.04214): products with weights are convolutions."""
from __future__ import annotations

from typing import Any

from ...base.errors import AttributeValueError
from ..rnn.cell import HybridRecurrentCell


def _several(name: str, what: str, value: Any, dims: int) -> tuple[int, ...]:
    if isinstance(value, int):
        return (value,) * dims
    if len(value) != dims:
        raise AttributeValueError(f"{name}: {what} must be an integer or {dims} of them, got {value!r}")
    return tuple(value)


class _ConvCell(HybridRecurrentCell):
    """What the cells share: input_shape without the batch axis, e.g. (channels, height, width); states keep the size of
    the i2h convolution."""
    gates, dims, states = 1, 1, 1

    def __init__(self, input_shape: Any, hidden_channels: int, i2h_kernel: Any, h2h_kernel: Any, i2h_pad: Any = 0,
                 i2h_dilate: Any = 1, h2h_dilate: Any = 1,
                 i2h_weight_initializer: Any = None, h2h_weight_initializer: Any = None,
                 i2h_bias_initializer: Any = "zeros",
                 h2h_bias_initializer: Any = "zeros", conv_layout: str | None = None, activation: Any = "tanh",
                 prefix: str | None = None, params: Any = None):
        super().__init__(prefix=prefix, params=params)
        name = type(self).__name__
        conv_layout = conv_layout or "NC" + "DHW"[3 - self.dims:]
        if len(input_shape) != self.dims + 1 or len(conv_layout) != self.dims + 2:
            raise AttributeValueError(f"{name}: input_shape must have {self.dims + 1} lengths and conv_layout "
                                      f"{self.dims + 2} letters, got {input_shape} and {conv_layout!r}")
        self._hidden_channels, self._input_shape, self._conv_layout, self._activation = hidden_channels, tuple(
                input_shape), conv_layout, activation
        given = {"i2h_kernel": i2h_kernel, "i2h_pad": i2h_pad, "i2h_dilate": i2h_dilate, "h2h_kernel": h2h_kernel,
                 "h2h_dilate": h2h_dilate}
        self._sizes = {what: _several(name, what, value, self.dims) for what, value in given.items()}
        if any(k % 2 == 0 for k in self._sizes["h2h_kernel"]):
            raise AttributeValueError(f"{name}: h2h_kernel must be odd, so that states keep their size; got "
                                      f"{h2h_kernel!r}")
        self._channel_axis = conv_layout.find("C")
        wide = self.gates * hidden_channels
        channels = self._input_shape[self._channel_axis - 1]
        options = {"allow_deferred_init": True}
        self.i2h_weight = self.params.get("i2h_weight", shape=self._weight_shape(wide, channels, "i2h_kernel"),
                                          init=i2h_weight_initializer, **options)
        self.h2h_weight = self.params.get("h2h_weight", shape=self._weight_shape(wide, hidden_channels, "h2h_kernel"),
                                          init=h2h_weight_initializer, **options)
        self.i2h_bias = self.params.get("i2h_bias", shape=(wide,), init=i2h_bias_initializer, **options)
        self.h2h_bias = self.params.get("h2h_bias", shape=(wide,), init=h2h_bias_initializer, **options)

    def _weight_shape(self, out: int, channels: int, kernel: str) -> tuple[int, ...]:
        return (out, channels,
                *self._sizes[kernel]) if self._channel_axis == 1 else (out, *self._sizes[kernel], channels)

    def _state_shape(self) -> tuple[int, ...]:
        own = list(self._input_shape)
        own.pop(self._channel_axis - 1)
        s = self._sizes
        size = tuple(x + 2 * p - d * (k - 1) if x else 0
                     for x, k, p, d in zip(own, s["i2h_kernel"], s["i2h_pad"], s["i2h_dilate"]))
        return (self._hidden_channels, *size) if self._channel_axis == 1 else (*size, self._hidden_channels)

    def state_info(self, batch_size: int = 0) -> list[dict[str, Any]]:
        return [{"shape": (batch_size, *self._state_shape()), "__layout__": self._conv_layout}
                for _ in range(self.states)]

    def __repr__(self) -> str:
        shape = self.i2h_weight.shape
        channels = shape[1 if self._channel_axis == 1 else -1]
        return f"{type(self).__name__}({channels or None} -> {shape[0]}, {self._activation}, {self._conv_layout})"

    def _products(self, F: Any, inputs: Any, state: Any, params: dict[str, Any]) -> tuple[str, Any, Any]:  # noqa: N803
        p, s = f"t{self._counter}_", self._sizes
        shared = {"num_filter": self.gates * self._hidden_channels, "stride": (1,) * self.dims,
                  "layout": self._conv_layout}
        i2h = F.Convolution(data=inputs, weight=params["i2h_weight"], bias=params["i2h_bias"], kernel=s["i2h_kernel"],
                            pad=s["i2h_pad"],
                            dilate=s["i2h_dilate"], name=p + "i2h", **shared)
        keep = tuple(d * (k - 1) // 2 for d, k in zip(s["h2h_dilate"], s["h2h_kernel"]))
        h2h = F.Convolution(data=state, weight=params["h2h_weight"], bias=params["h2h_bias"], kernel=s["h2h_kernel"],
                            pad=keep,
                            dilate=s["h2h_dilate"], name=p + "h2h", **shared)
        return p, i2h, h2h


class _ConvRNNCell(_ConvCell):
    def _alias(self) -> str:
        return "conv_rnn"

    def hybrid_forward(self, F: Any, inputs: Any, states: Any,
                       **params: Any) -> Any:  # type: ignore[override]  # noqa: N803
        p, i2h, h2h = self._products(F, inputs, states[0], params)
        output = self._get_activation(F, i2h + h2h, self._activation, name=p + "out")
        return output, [output]


class _ConvLSTMCell(_ConvCell):
    gates, states = 4, 2

    def _alias(self) -> str:
        return "conv_lstm"

    def hybrid_forward(self, F: Any, inputs: Any, states: Any,
                       **params: Any) -> Any:  # type: ignore[override]  # noqa: N803
        p, i2h, h2h = self._products(F, inputs, states[0], params)
        gate = F.SliceChannel(i2h + h2h, num_outputs=4, name=p + "slice", axis=self._channel_axis)
        i = F.Activation(gate[0], act_type="sigmoid", name=p + "i")
        f = F.Activation(gate[1], act_type="sigmoid", name=p + "f")
        g = self._get_activation(F, gate[2], self._activation, name=p + "c")
        o = F.Activation(gate[3], act_type="sigmoid", name=p + "o")
        next_c = F.elemwise_add(f * states[1], i * g, name=p + "state")
        next_h = F.elemwise_mul(o, self._get_activation(F, next_c, self._activation), name=p + "out")
        return next_h, [next_h, next_c]


class _ConvGRUCell(_ConvCell):
    gates = 3

    def _alias(self) -> str:
        return "conv_gru"

    def hybrid_forward(self, F: Any, inputs: Any, states: Any,
                       **params: Any) -> Any:  # type: ignore[override]  # noqa: N803
        p, i2h, h2h = self._products(F, inputs, states[0], params)
        i_r, i_z, i_n = F.SliceChannel(i2h, num_outputs=3, name=p + "i2h_slice", axis=self._channel_axis)
        h_r, h_z, h_n = F.SliceChannel(h2h, num_outputs=3, name=p + "h2h_slice", axis=self._channel_axis)
        r = F.Activation(i_r + h_r, act_type="sigmoid", name=p + "r_act")
        z = F.Activation(i_z + h_z, act_type="sigmoid", name=p + "z_act")
        new = self._get_activation(F, i_n + r * h_n, self._activation, name=p + "h_act")
        output = F.elemwise_add((1.0 - z) * new, z * states[0], name=p + "out")
        return output, [output]


class Conv1DRNNCell(_ConvRNNCell):
    """Elman's cell over (N, C, W).

    >>> Conv1DRNNCell(input_shape=(3, 20), hidden_channels=8, i2h_kernel=3, h2h_kernel=3, i2h_pad=1)
    Conv1DRNNCell(3 -> 8, tanh, NCW)
    """
    dims = 1


class Conv2DRNNCell(_ConvRNNCell):
    """Elman's cell over (N, C, H, W)."""
    dims = 2


class Conv3DRNNCell(_ConvRNNCell):
    """Elman's cell over (N, C, D, H, W)."""
    dims = 3


class Conv1DLSTMCell(_ConvLSTMCell):
    """LSTM over (N, C, W)."""
    dims = 1


class Conv2DLSTMCell(_ConvLSTMCell):
    """LSTM over (N, C, H, W)."""
    dims = 2


class Conv3DLSTMCell(_ConvLSTMCell):
    """LSTM over (N, C, D, H, W)."""
    dims = 3


class Conv1DGRUCell(_ConvGRUCell):
    """Gated recurrent unit over (N, C, W)."""
    dims = 1


class Conv2DGRUCell(_ConvGRUCell):
    """Gated recurrent unit over (N, C, H, W)."""
    dims = 2


class Conv3DGRUCell(_ConvGRUCell):
    """Gated recurrent unit over (N, C, D, H, W)."""
    dims = 3
