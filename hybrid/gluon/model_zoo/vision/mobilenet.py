"""MobileNet (Howard et al. 2017, arXiv 1704.04861) and MobileNetV2 (Sandler et al. 2018, arXiv 1801.04381)."""
from __future__ import annotations

from typing import Any

from ... import nn
from ...hybrid_block import HybridBlock
from ..model_store import finish, variant

__all__ = ["MobileNet", "MobileNetV2", "get_mobilenet", "get_mobilenet_v2", "mobilenet0_25", "mobilenet0_5",
           "mobilenet0_75", "mobilenet1_0",
           "mobilenet_v2_0_25", "mobilenet_v2_0_5", "mobilenet_v2_0_75", "mobilenet_v2_1_0"]


class RELU6(HybridBlock):
    """min(max(x, 0), 6)."""

    def hybrid_forward(self, F: Any, x: Any) -> Any:                 # type: ignore[override]  # noqa: N803
        return F.clip(x, 0, 6, name="relu6")


def _add_conv(out: nn.HybridSequential, channels: int = 1, kernel: int = 1, stride: int = 1, pad: int = 0,
              num_group: int = 1, active: bool = True,
              relu6: bool = False) -> None:
    out.add(nn.Conv2D(channels, kernel, stride, pad, groups=num_group, use_bias=False), nn.BatchNorm(scale=True))
    if active:
        out.add(RELU6() if relu6 else nn.Activation("relu"))


class LinearBottleneck(HybridBlock):
    """A block of MobileNetV2: widened ``t`` times, filtered channel by channel, narrowed without an activation."""

    def __init__(self, in_channels: int, channels: int, t: int, stride: int, **kwargs: Any):
        super().__init__(**kwargs)
        self.use_shortcut = stride == 1 and in_channels == channels
        with self.name_scope():
            self.out = nn.HybridSequential()
            _add_conv(self.out, in_channels * t, relu6=True)
            _add_conv(self.out, in_channels * t, kernel=3, stride=stride, pad=1, num_group=in_channels * t, relu6=True)
            _add_conv(self.out, channels, active=False, relu6=True)

    def hybrid_forward(self, F: Any, x: Any) -> Any:                 # type: ignore[override]  # noqa: N803
        out = self.out(x)
        return F.elemwise_add(out, x) if self.use_shortcut else out


class MobileNet(HybridBlock):
    """Convolutions of one channel each, mixed by 1x1 convolutions. multiplier: of all widths, 0.25 or more."""

    def __init__(self, multiplier: float = 1.0, classes: int = 1000, **kwargs: Any):
        super().__init__(**kwargs)
        widths = [int(c * multiplier) for c in (32, 64, 128, 128, 256, 256, *[512] * 6, 1024, 1024)]
        strides = (1, 2, 1, 2, 1, 2, 1, 1, 1, 1, 1, 2, 1)
        with self.name_scope():
            self.features = nn.HybridSequential(prefix="")
            with self.features.name_scope():
                _add_conv(self.features, channels=widths[0], kernel=3, pad=1, stride=2)
                for before, after, stride in zip(widths, widths[1:], strides):
                    _add_conv(self.features, channels=before, kernel=3, stride=stride, pad=1, num_group=before)
                    _add_conv(self.features, channels=after)
                self.features.add(nn.GlobalAvgPool2D(), nn.Flatten())
            self.output = nn.Dense(classes)

    def hybrid_forward(self, F: Any, x: Any) -> Any:                 # type: ignore[override]  # noqa: N803
        return self.output(self.features(x))


class MobileNetV2(HybridBlock):
    """Linear bottlenecks. multiplier: of all widths."""

    def __init__(self, multiplier: float = 1.0, classes: int = 1000, **kwargs: Any):
        super().__init__(**kwargs)
        widths = [int(c * multiplier) for c in (32, 16, *[24] * 2, *[32] * 3, *[64] * 4, *[96] * 3, *[160] * 3, 320)]
        strides = (1, 2, 1, 2, 1, 1, 2, 1, 1, 1, 1, 1, 1, 2, 1, 1, 1)
        with self.name_scope():
            self.features = nn.HybridSequential(prefix="features_")
            with self.features.name_scope():
                _add_conv(self.features, widths[0], kernel=3, stride=2, pad=1, relu6=True)
                for i, (before, after, stride) in enumerate(zip(widths, widths[1:], strides)):
                    self.features.add(LinearBottleneck(in_channels=before, channels=after, t=6 if i else 1,
                                                       stride=stride))
                _add_conv(self.features, int(1280 * max(multiplier, 1.0)), relu6=True)
                self.features.add(nn.GlobalAvgPool2D())
            self.output = nn.HybridSequential(prefix="output_")
            with self.output.name_scope():
                self.output.add(nn.Conv2D(classes, 1, use_bias=False, prefix="pred_"), nn.Flatten())

    def hybrid_forward(self, F: Any, x: Any) -> Any:                 # type: ignore[override]  # noqa: N803
        return self.output(self.features(x))


def _suffix(multiplier: float) -> str:
    """A width as the files are named: 1.0, 0.75, 0.5, 0.25."""
    text = f"{multiplier:.2f}"
    return text[:-1] if text in ("1.00", "0.50") else text


def get_mobilenet(multiplier: float, pretrained: bool = False, ctx: Any = None, root: Any = None,
                  **kwargs: Any) -> MobileNet:
    """MobileNet of a width."""
    return finish(MobileNet(multiplier, **kwargs), f"mobilenet{_suffix(multiplier)}", pretrained, ctx, root)


def get_mobilenet_v2(multiplier: float, pretrained: bool = False, ctx: Any = None, root: Any = None,
                     **kwargs: Any) -> MobileNetV2:
    """MobileNetV2 of a width."""
    return finish(MobileNetV2(multiplier, **kwargs), f"mobilenetv2_{_suffix(multiplier)}", pretrained, ctx, root)


mobilenet1_0 = variant(get_mobilenet, "mobilenet1_0", "MobileNet", 1.0)
mobilenet0_75 = variant(get_mobilenet, "mobilenet0_75", "MobileNet of width 0.75", 0.75)
mobilenet0_5 = variant(get_mobilenet, "mobilenet0_5", "MobileNet of width 0.5", 0.5)
mobilenet0_25 = variant(get_mobilenet, "mobilenet0_25", "MobileNet of width 0.25", 0.25)
mobilenet_v2_1_0 = variant(get_mobilenet_v2, "mobilenet_v2_1_0", "MobileNetV2", 1.0)
mobilenet_v2_0_75 = variant(get_mobilenet_v2, "mobilenet_v2_0_75", "MobileNetV2 of width 0.75", 0.75)
mobilenet_v2_0_5 = variant(get_mobilenet_v2, "mobilenet_v2_0_5", "MobileNetV2 of width 0.5", 0.5)
mobilenet_v2_0_25 = variant(get_mobilenet_v2, "mobilenet_v2_0_25", "MobileNetV2 of width 0.25", 0.25)
