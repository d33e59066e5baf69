"""SqueezeNet 1.0 and 1.1 (Iandola et al. 2016, arXiv 1602.07360)."""
from __future__ import annotations

from typing import Any

from ... import nn
from ...contrib.nn import HybridConcurrent
from ...hybrid_block import HybridBlock
from ..model_store import finish, variant

__all__ = ["SqueezeNet", "squeezenet1_0", "squeezenet1_1"]


def _convolution(channels: int, kernel_size: int, padding: int = 0) -> nn.HybridSequential:
    out = nn.HybridSequential(prefix="")
    out.add(nn.Conv2D(channels, kernel_size, padding=padding), nn.Activation("relu"))
    return out


def _fire(squeeze: int, expand: int) -> nn.HybridSequential:
    """A 1x1 convolution to few channels, then 1x1 and 3x3 ones side by side."""
    out = nn.HybridSequential(prefix="")
    out.add(_convolution(squeeze, 1))
    paths = HybridConcurrent(axis=1, prefix="")
    paths.add(_convolution(expand, 1), _convolution(expand, 3, 1))
    out.add(paths)
    return out


# channels and kernel of the first convolution; then 0 for a pooling and n for a fire module that squeezes to n channels
squeezenet_spec = {"1.0": ((96, 7), [0, 16, 16, 32, 0, 32, 48, 48, 64, 0, 64]),
                   "1.1": ((64, 3), [0, 16, 16, 0, 32, 32, 0, 48, 48, 64, 64])}


class SqueezeNet(HybridBlock):
    """Fire modules and a convolution in place of dense layers. version: "1.0" or "1.1"."""

    def __init__(self, version: str, classes: int = 1000, **kwargs: Any):
        super().__init__(**kwargs)
        if version not in squeezenet_spec:
            raise ValueError(f"SqueezeNet has the versions {', '.join(squeezenet_spec)}, not {version!r}")
        (channels, kernel), fires = squeezenet_spec[version]
        with self.name_scope():
            self.features = nn.HybridSequential(prefix="")
            self.features.add(nn.Conv2D(channels, kernel_size=kernel, strides=2), nn.Activation("relu"))
            for squeeze in fires:
                self.features.add(_fire(squeeze, 4 * squeeze) if squeeze
                                  else nn.MaxPool2D(pool_size=3, strides=2, ceil_mode=True))
            self.features.add(nn.Dropout(0.5))
            self.output = nn.HybridSequential(prefix="")
            self.output.add(nn.Conv2D(classes, kernel_size=1), nn.Activation("relu"), nn.AvgPool2D(13), nn.Flatten())

    def hybrid_forward(self, F: Any, x: Any) -> Any:                 # type: ignore[override]  # noqa: N803
        return self.output(self.features(x))


def get_squeezenet(version: str, pretrained: bool = False, ctx: Any = None, root: Any = None,
                   **kwargs: Any) -> SqueezeNet:
    """SqueezeNet of version "1.0" or "1.1"."""
    return finish(SqueezeNet(version, **kwargs), f"squeezenet{version}", pretrained, ctx, root)


squeezenet1_0 = variant(get_squeezenet, "squeezenet1_0", "SqueezeNet 1.0", "1.0")
squeezenet1_1 = variant(get_squeezenet, "squeezenet1_1", "SqueezeNet 1.1, with 2.4 times less arithmetic", "1.1")
