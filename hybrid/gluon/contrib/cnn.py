"""MXNet's ``gluon.contrib.cnn``: deformable convolutions, whose offsets another convolution learns."""
from __future__ import annotations

import sys
from typing import Any

from ..hybrid_block import HybridBlock
from ..nn.activations import Activation
from ..nn.checks import several, whole

__all__ = ["DeformableConvolution", "ModulatedDeformableConvolution"]


class _Deformable(HybridBlock):
    _per_tap = 2                                          # numbers that the offset convolution gives for each tap
    _order = ("offset_weight", "offset_bias", "deformable_conv_weight", "deformable_conv_bias")      # of the parameters

    def __init__(self, channels: int, kernel_size: Any, strides: Any, padding: Any, dilation: Any, groups: int,
                 num_deformable_group: int, layout: str,
                 use_bias: bool, in_channels: int, activation: Any, weight_initializer: Any, bias_initializer: Any,
                 offset_weight_initializer: Any,
                 offset_bias_initializer: Any, offset_use_bias: bool, prefix: Any, params: Any):
        super().__init__(prefix=prefix, params=params)
        me = type(self).__name__
        if layout != "NCHW":
            raise ValueError(f"{me}: layout must be NCHW, got {layout!r}")
        with self.name_scope():
            kernel = several(me, "kernel_size", kernel_size, 2, 1)
            self._parts = whole(me, "num_deformable_group", num_deformable_group)
            self._taps = kernel[0] * kernel[1]
            window = {"kernel": kernel, "stride": several(me, "strides", strides, 2, 1),
                      "dilate": several(me, "dilation", dilation, 2, 1),
                      "pad": several(me, "padding", padding, 2), "num_group": whole(me, "groups", groups),
                      "layout": layout}
            offsets = self._per_tap * self._taps * self._parts
            self._kwargs_offset = {**window, "num_filter": offsets, "no_bias": not offset_use_bias}
            self._kwargs_deformable_conv = {**window, "num_filter": channels, "num_deformable_group": self._parts,
                                            "no_bias": not use_bias}
            each = in_channels // groups

            def parameter(name: str, shape: Any, init: Any) -> Any:
                return self.params.get(name, shape=shape, init=init, allow_deferred_init=True)
            makers = {
                "offset_weight": lambda: parameter("offset_weight", (offsets, each, *kernel),
                                                   offset_weight_initializer),
                "offset_bias": lambda: parameter("offset_bias", (offsets,), offset_bias_initializer) if offset_use_bias
                else None,
                "deformable_conv_weight": lambda: parameter("deformable_conv_weight", (channels, each, *kernel),
                                                            weight_initializer),
                "deformable_conv_bias": lambda: parameter("deformable_conv_bias", (channels,), bias_initializer)
                if use_bias else None}
            for name in self._order:
                setattr(self, name, makers[name]())
            self.act = Activation(activation, prefix=activation + "_") if activation else None

    def hybrid_forward(self, F: Any, x: Any, offset_weight: Any, deformable_conv_weight: Any,
                       offset_bias: Any = None,     # type: ignore[override]  # noqa: N803
                       deformable_conv_bias: Any = None) -> Any:
        offset = F.Convolution(x, offset_weight, *([] if offset_bias is None else [offset_bias]), cudnn_off=True,
                               **self._kwargs_offset)
        rest = [deformable_conv_weight, *([] if deformable_conv_bias is None else [deformable_conv_bias])]
        out = self._convolve(F, x, offset, rest)
        return out if self.act is None else self.act(out)

    def _convolve(self, F: Any, x: Any, offset: Any, rest: list[Any]) -> Any:                              # noqa: N803
        return F.contrib.DeformableConvolution(x, offset, *rest, name="fwd", **self._kwargs_deformable_conv)

    def __repr__(self) -> str:
        k, shape = self._kwargs_deformable_conv, self.deformable_conv_weight.shape
        text = (f"{type(self).__name__}({shape[1] or None} -> {shape[0]}, kernel_size={k['kernel']}, "
                f"stride={k['stride']}")
        for name, key, default in (("padding", "pad", (0, 0)), ("dilation", "dilate", (1, 1)),
                                   ("groups", "num_group", 1)):
            text += f", {name}={k[key]}" if k[key] != default else ""
        return text + (", bias=False" if self.deformable_conv_bias is None
                       else "") + (f", {self.act}" if self.act else "") + ")"


class DeformableConvolution(_Deformable):
    """2-D convolution (N, C, H, W) whose taps are moved by learned offsets (Dai et al. 2017, arXiv 1703.06211).

    >>> layer = DeformableConvolution(4, (3, 3), padding=(1, 1)); layer.initialize(); layer(nd.zeros((1, 2, 5, 5))).shape
    (1, 4, 5, 5)
    """  # noqa: E501

    def __init__(self, channels: int, kernel_size: Any = (1, 1), strides: Any = (1, 1), padding: Any = (0, 0),
                 dilation: Any = (1, 1), groups: int = 1,
                 num_deformable_group: int = 1, layout: str = "NCHW", use_bias: bool = True, in_channels: int = 0,
                 activation: Any = None,
                 weight_initializer: Any = None, bias_initializer: Any = "zeros",
                 offset_weight_initializer: Any = "zeros",
                 offset_bias_initializer: Any = "zeros", offset_use_bias: bool = True,
                 op_name: str = "DeformableConvolution", adj: Any = None,
                 prefix: Any = None, params: Any = None):
        super().__init__(channels, kernel_size, strides, padding, dilation, groups, num_deformable_group, layout,
                         use_bias, in_channels, activation,
                         weight_initializer, bias_initializer, offset_weight_initializer, offset_bias_initializer,
                         offset_use_bias, prefix, params)

    def _alias(self) -> str:
        return "deformable_conv"


class ModulatedDeformableConvolution(_Deformable):
    """Deformable convolution with a learned factor for each tap (Zhu et al. 2018, arXiv 1811.11168)."""
    _per_tap = 3
    _order = ("deformable_conv_weight", "deformable_conv_bias", "offset_weight", "offset_bias")

    def __init__(self, channels: int, kernel_size: Any = (1, 1), strides: Any = (1, 1), padding: Any = (0, 0),
                 dilation: Any = (1, 1), groups: int = 1,
                 num_deformable_group: int = 1, layout: str = "NCHW", use_bias: bool = True, in_channels: int = 0,
                 activation: Any = None,
                 weight_initializer: Any = None, bias_initializer: Any = "zeros",
                 offset_weight_initializer: Any = "zeros",
                 offset_bias_initializer: Any = "zeros", offset_use_bias: bool = True,
                 op_name: str = "ModulatedDeformableConvolution", adj: Any = None,
                 prefix: Any = None, params: Any = None):
        super().__init__(channels, kernel_size, strides, padding, dilation, groups, num_deformable_group, layout,
                         use_bias, in_channels, activation,
                         weight_initializer, bias_initializer, offset_weight_initializer, offset_bias_initializer,
                         offset_use_bias, prefix, params)

    def _convolve(self, F: Any, x: Any, offset: Any, rest: list[Any]) -> Any:                              # noqa: N803
        split = 2 * self._taps * self._parts
        mask = F.sigmoid(F.slice_axis(offset, axis=1, begin=split, end=None)) * 2
        return F.contrib.ModulatedDeformableConvolution(x, F.slice_axis(offset, axis=1, begin=0, end=split), mask,
                                                        *rest, name="fwd", **self._kwargs_deformable_conv)

    def _alias(self) -> str:
        return "modulated_deformable_conv"

conv_layers = sys.modules[__name__]                                  # MXNet has a folder
