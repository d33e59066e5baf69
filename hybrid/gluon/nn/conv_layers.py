"""Convolution and pooling layers."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...base.errors import AttributeValueError
from ..hybrid_block import HybridBlock
from .activations import Activation
from .checks import several, whole

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ..options import BlockOptions


def check_layout(layer: str, layout: Any, n: int) -> None:
    """NCHW or NHWC with n spatial axes, else ValueError."""
    known = (LAYOUTS[n], f"N{LAYOUTS[n][2:]}C")
    if layout not in known:
        raise AttributeValueError(f"{layer}: layout must be {known[0]} or {known[1]}, got {layout!r}")


LAYOUTS = {1: "NCW", 2: "NCHW", 3: "NCDHW"}


class _Conv(HybridBlock):
    _op = "Convolution"

    def __init__(self, n: int, channels: int, kernel_size: Any, strides: Any, padding: Any, dilation: Any, groups: int,
                 layout: str, in_channels: int = 0,
                 activation: Any = None, use_bias: bool = True, weight_initializer: Any = None,
                 bias_initializer: Any = "zeros", output_padding: Any = None,
                 **kwargs: Unpack[BlockOptions]):
        super().__init__(**kwargs)
        me = type(self).__name__
        check_layout(me, layout, n)
        groups = whole(me, "groups", groups)
        with self.name_scope():
            self._channels, self._in_channels = whole(me, "channels",
                                                      channels), whole(me, "in_channels", in_channels, 0)
            if channels % groups or in_channels % groups:
                raise AttributeValueError(f"{me}: channels={channels} and in_channels={in_channels} must be multiples "
                                          f"of groups={groups}")
            self._kwargs = {"kernel": several(me, "kernel_size", kernel_size, n, 1),
                            "stride": several(me, "strides", strides, n, 1),
                            "dilate": several(me, "dilation", dilation, n, 1),
                            "pad": several(me, "padding", padding, n),
                            "num_filter": channels, "num_group": groups, "no_bias": not use_bias, "layout": layout}
            if output_padding is not None:
                self._kwargs["adj"] = several(me, "output_padding", output_padding, n)
            self.weight = self.params.get("weight", shape=self._weight_shape(layout, groups), init=weight_initializer,
                                          allow_deferred_init=True)
            self.bias = self.params.get("bias", shape=(channels,), init=bias_initializer,
                                        allow_deferred_init=True) if use_bias else None
            self.act = Activation(activation, prefix=activation + "_") if activation is not None else None

    def _weight_shape(self, layout: str, groups: int) -> tuple[int, ...]:
        each = self._in_channels // groups if self._in_channels else 0
        if layout[-1] == "C":
            return (self._channels, *self._kwargs["kernel"], each)
        return (self._channels, each, *self._kwargs["kernel"])

    def hybrid_forward(self, F: Any, x: Any, weight: Any, bias: Any = None) -> Any:      # type: ignore[override]
        args = (x, weight) if bias is None else (x, weight, bias)
        out = getattr(F, self._op)(*args, name="fwd", **self._kwargs)
        return out if self.act is None else self.act(out)

    def __repr__(self) -> str:
        shape = self.weight.shape
        k = self._kwargs
        text = f"{shape[1] or None} -> {shape[0]}, kernel_size={k['kernel']}, stride={k['stride']}"
        n = len(k["kernel"])
        for name, key, default in (("padding", "pad", (0,) * n), ("dilation", "dilate", (1,) * n),
                                   ("groups", "num_group", 1)):
            text += f", {name}={k[key]}" if k[key] != default else ""
        text += ", bias=False" if self.bias is None else ""
        return f"{type(self).__name__}({text}{f', {self.act}' if self.act else ''})"


class _Transposed(_Conv):
    _op = "Deconvolution"

    def _weight_shape(self, layout: str, groups: int) -> tuple[int, ...]:
        return (self._in_channels, self._channels // groups, *self._kwargs["kernel"])


_AXES = {1: "width", 2: "height, width", 3: "depth, height, width"}
_CONVOLUTION = """{kind}: (batch, in_channels, {axes}) -> (batch, channels, {axes}),
    of which a length n becomes {length}.

    kernel_size, strides, padding, dilation{more}: a number, or one for each of the axes.
    groups: so many groups of channels are convolved apart. layout: {layout}, or channels last.
    activation: the name of one (see Activation), applied to the result. in_channels 0: found out at the first call.
    Parameters: ``weight`` {weight},
    and ``bias`` (channels,) unless use_bias is False. ValueError for a layout of other axes.
    """
_POOLING = """The {what} of each window: (batch, channels, {axes}) -> the same axes,
    of which a length n becomes (n + 2 padding - pool_size) // strides + 1.

    pool_size, strides, padding: a number, or one for each of the axes; strides None: those of pool_size.
    ceil_mode: the quotient is rounded up, so that a last window may lie partly outside.
    layout: {layout}, or channels last.{more}
    """
_GLOBAL = """The {what} over all positions of a channel:
    (batch, channels, {axes}) -> (batch, channels, {ones}). layout: {layout}, or channels last."""
_WHAT = {"max": "largest value", "avg": "mean"}


def _conv(name: str, n: int, layout_default: str) -> type:
    def __init__(self: Any, channels: int, kernel_size: Any, strides: Any = 1, padding: Any = 0, dilation: Any = 1,
                 groups: int = 1,  # noqa: N807
                 layout: str = layout_default, activation: Any = None, use_bias: bool = True,
                 weight_initializer: Any = None,
                 bias_initializer: Any = "zeros", in_channels: int = 0, **kwargs: Unpack[BlockOptions]) -> None:
        _Conv.__init__(self, n, channels, kernel_size, strides, padding, dilation, groups, layout, in_channels,
                       activation, use_bias, weight_initializer,
                       bias_initializer, **kwargs)
    doc = _CONVOLUTION.format(kind="A convolution", axes=_AXES[n], layout=layout_default, more="",
                              weight="(channels, in_channels / groups, the kernel's axes; channels last: these before)",
                              length="(n + 2 padding - dilation (kernel_size - 1) - 1) // strides + 1")
    return type(name, (_Conv,), {"__init__": __init__, "__doc__": doc})


def _transposed(name: str, n: int, layout_default: str) -> type:
    def __init__(self: Any, channels: int, kernel_size: Any, strides: Any = 1, padding: Any = 0,
                 output_padding: Any = 0, dilation: Any = 1,  # noqa: N807
                 groups: int = 1, layout: str = layout_default, activation: Any = None, use_bias: bool = True,
                 weight_initializer: Any = None,
                 bias_initializer: Any = "zeros", in_channels: int = 0, **kwargs: Unpack[BlockOptions]) -> None:
        _Conv.__init__(self, n, channels, kernel_size, strides, padding, dilation, groups, layout, in_channels,
                       activation, use_bias, weight_initializer,
                       bias_initializer, output_padding, **kwargs)
        self.outpad = self._kwargs["adj"]
    doc = _CONVOLUTION.format(kind="A transposed convolution", axes=_AXES[n], layout=layout_default,
                              more=", output_padding", weight="(in_channels, channels / groups, the kernel's axes)",
                              length="(n - 1) strides - 2 padding + dilation (kernel_size - 1) + output_padding + 1")
    return type(name, (_Transposed,), {"__init__": __init__, "__doc__": doc})


class _Pooling(HybridBlock):
    def __init__(self, n: int, pool_size: Any, strides: Any, padding: Any, ceil_mode: bool, global_pool: bool,
                 pool_type: str, layout: str,
                 count_include_pad: Any = None, **kwargs: Unpack[BlockOptions]):
        super().__init__(**kwargs)
        me = type(self).__name__
        check_layout(me, layout, n)
        kernel = several(me, "pool_size", pool_size, n, 1)
        self._kwargs = {"kernel": kernel, "stride": several(me, "strides", kernel if strides is None else strides, n,
                                                            1), "pad": several(me, "padding", padding, n),
                        "global_pool": global_pool, "pool_type": pool_type,
                        "pooling_convention": "full" if ceil_mode else "valid", "layout": layout}
        if count_include_pad is not None:
            self._kwargs["count_include_pad"] = count_include_pad

    def _alias(self) -> str:
        return "pool"

    def hybrid_forward(self, F: Any, x: Any) -> Any:                 # type: ignore[override]
        return F.Pooling(x, name="fwd", **self._kwargs)

    def __repr__(self) -> str:
        k = self._kwargs
        return (f"{type(self).__name__}(size={k['kernel']}, stride={k['stride']}, padding={k['pad']}, "
                f"ceil_mode={k['pooling_convention'] == 'full'}, "
                f"global_pool={k['global_pool']}, pool_type={k['pool_type']}, layout={k['layout']})")


def _pool(name: str, n: int, kind: str, layout_default: str) -> type:
    if kind == "avg":
        def __init__(self: Any, pool_size: Any = 2, strides: Any = None, padding: Any = 0, ceil_mode: bool = False,
                     layout: str = layout_default,  # noqa: N807
                     count_include_pad: bool = True, **kwargs: Unpack[BlockOptions]) -> None:
            _Pooling.__init__(self, n, pool_size, strides, padding, ceil_mode, False, "avg", layout, count_include_pad,
                              **kwargs)
    else:
        def __init__(self: Any, pool_size: Any = 2, strides: Any = None, padding: Any = 0,
                     layout: str = layout_default,  # type: ignore[misc]  # noqa: N807
                     ceil_mode: bool = False, **kwargs: Unpack[BlockOptions]) -> None:
            _Pooling.__init__(self, n, pool_size, strides, padding, ceil_mode, False, "max", layout, **kwargs)
    doc = _POOLING.format(what=_WHAT[kind], axes=_AXES[n], layout=layout_default,
                          more=" count_include_pad: zeros of the padding count in the mean." if kind == "avg" else "")
    return type(name, (_Pooling,), {"__init__": __init__, "__doc__": doc})


def _global_pool(name: str, n: int, kind: str, layout_default: str) -> type:
    def __init__(self: Any, layout: str = layout_default, **kwargs: Unpack[BlockOptions]) -> None:  # noqa: N807
        _Pooling.__init__(self, n, 1, None, 0, True, True, kind, layout, **kwargs)
    doc = _GLOBAL.format(what=_WHAT[kind], axes=_AXES[n], ones=", ".join("1" * n), layout=layout_default)
    return type(name, (_Pooling,), {"__init__": __init__, "__doc__": doc})


if TYPE_CHECKING:                                        # the classes below, as type checkers see them
    class _Conv_(_Conv):
        def __init__(self, channels: int, kernel_size: Any, strides: Any = 1, padding: Any = 0, dilation: Any = 1,
                     groups: int = 1, layout: str = "", activation: str | None = None, use_bias: bool = True,
                     weight_initializer: Any = None, bias_initializer: Any = "zeros", in_channels: int = 0,
                     **kwargs: Unpack[BlockOptions]) -> None: ...

    class _Transposed_(_Transposed):
        def __init__(self, channels: int, kernel_size: Any, strides: Any = 1, padding: Any = 0,
                     output_padding: Any = 0, dilation: Any = 1, groups: int = 1, layout: str = "",
                     activation: str | None = None, use_bias: bool = True, weight_initializer: Any = None,
                     bias_initializer: Any = "zeros", in_channels: int = 0,
                     **kwargs: Unpack[BlockOptions]) -> None: ...

    class _MaxPool_(_Pooling):
        def __init__(self, pool_size: Any = 2, strides: Any = None, padding: Any = 0, layout: str = "",
                     ceil_mode: bool = False, **kwargs: Unpack[BlockOptions]) -> None: ...

    class _AvgPool_(_Pooling):
        def __init__(self, pool_size: Any = 2, strides: Any = None, padding: Any = 0, ceil_mode: bool = False,
                     layout: str = "", count_include_pad: bool = True, **kwargs: Unpack[BlockOptions]) -> None: ...

    class _GlobalPool_(_Pooling):
        def __init__(self, layout: str = "", **kwargs: Unpack[BlockOptions]) -> None: ...

    class Conv1D(_Conv_): ...
    class Conv2D(_Conv_): ...
    class Conv3D(_Conv_): ...
    class Conv1DTranspose(_Transposed_): ...
    class Conv2DTranspose(_Transposed_): ...
    class Conv3DTranspose(_Transposed_): ...
    class MaxPool1D(_MaxPool_): ...
    class MaxPool2D(_MaxPool_): ...
    class MaxPool3D(_MaxPool_): ...
    class AvgPool1D(_AvgPool_): ...
    class AvgPool2D(_AvgPool_): ...
    class AvgPool3D(_AvgPool_): ...
    class GlobalMaxPool1D(_GlobalPool_): ...
    class GlobalMaxPool2D(_GlobalPool_): ...
    class GlobalMaxPool3D(_GlobalPool_): ...
    class GlobalAvgPool1D(_GlobalPool_): ...
    class GlobalAvgPool2D(_GlobalPool_): ...
    class GlobalAvgPool3D(_GlobalPool_): ...
else:
    Conv1D, Conv2D, Conv3D = (_conv(f"Conv{n}D", n, LAYOUTS[n]) for n in (1, 2, 3))
    Conv1DTranspose, Conv2DTranspose, Conv3DTranspose = (_transposed(f"Conv{n}DTranspose", n, LAYOUTS[n])
                                                         for n in (1, 2, 3))
    MaxPool1D, MaxPool2D, MaxPool3D = (_pool(f"MaxPool{n}D", n, "max", LAYOUTS[n]) for n in (1, 2, 3))
    AvgPool1D, AvgPool2D, AvgPool3D = (_pool(f"AvgPool{n}D", n, "avg", LAYOUTS[n]) for n in (1, 2, 3))
    GlobalMaxPool1D, GlobalMaxPool2D, GlobalMaxPool3D = (_global_pool(f"GlobalMaxPool{n}D", n, "max", LAYOUTS[n])
                                                         for n in (1, 2, 3))
    GlobalAvgPool1D, GlobalAvgPool2D, GlobalAvgPool3D = (_global_pool(f"GlobalAvgPool{n}D", n, "avg", LAYOUTS[n])
                                                         for n in (1, 2, 3))

for _cls in (Conv1D, Conv2D, Conv3D, Conv1DTranspose, Conv2DTranspose, Conv3DTranspose):
    _cls._alias = lambda self: "conv"                                # type: ignore[attr-defined]


class Pool2D(_Pooling):
    """2-D max pooling by the name and with the ``kernel_size`` that MXNet's first tutorial has; MaxPool2D
    otherwise."""

    def __init__(self, kernel_size: Any = 2, strides: Any = None, padding: Any = 0, layout: str = "NCHW",
                 ceil_mode: bool = False, **kwargs: Unpack[BlockOptions]):
        super().__init__(2, kernel_size, strides, padding, ceil_mode, False, "max", layout, **kwargs)


class ReflectionPad2D(HybridBlock):
    """Height and width of (batch, channels, height, width) padded with the mirror image: (batch, channels, height + 2
    padding, width + 2 padding). padding: a number, or MXNet's 8, two for each axis."""

    def __init__(self, padding: Any = 0, **kwargs: Unpack[BlockOptions]):
        super().__init__(**kwargs)
        p = (0, 0, 0, 0, *(padding,) * 4) if isinstance(padding, int) else tuple(padding)
        if len(p) != 8:
            raise AttributeValueError(f"ReflectionPad2D takes one number or eight, got {padding!r}")
        self._padding = p

    def hybrid_forward(self, F: Any, x: Any) -> Any:                 # type: ignore[override]
        return F.pad(x, mode="reflect", pad_width=self._padding)
