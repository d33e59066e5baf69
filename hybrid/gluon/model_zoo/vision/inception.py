"""Inception, version 3 (Szegedy et al. 2015, arXiv 1512.00567)."""
from __future__ import annotations

from typing import Any

from ... import nn
from ...contrib.nn import HybridConcurrent
from ...hybrid_block import HybridBlock
from ..model_store import finish

__all__ = ["Inception3", "inception_v3"]


def _convolution(channels: int, kernel_size: Any, strides: int = 1, padding: Any = 0) -> nn.HybridSequential:
    out = nn.HybridSequential(prefix="")
    out.add(nn.Conv2D(channels, kernel_size, strides, padding, use_bias=False), nn.BatchNorm(epsilon=0.001),
            nn.Activation("relu"))
    return out


def _branch(*convolutions: tuple[Any, ...], pool: str = "") -> nn.HybridSequential:
    """Convolutions (channels, kernel, stride, padding) one after another, perhaps after a pooling."""
    out = nn.HybridSequential(prefix="")
    if pool:
        out.add(nn.AvgPool2D(pool_size=3, strides=1, padding=1) if pool == "avg"
                else nn.MaxPool2D(pool_size=3, strides=2))
    for given in convolutions:
        out.add(_convolution(*given))
    return out


def _side_by_side(prefix: str, *branches: Any) -> HybridConcurrent:
    """Branches whose channels are put together. They are given as functions, so that they are made inside this block's
    name scope."""
    out = HybridConcurrent(axis=1, prefix=prefix)
    with out.name_scope():
        for make in branches:
            make(out)
    return out


def _of(*convolutions: tuple[Any, ...], pool: str = "") -> Any:
    return lambda out: out.add(_branch(*convolutions, pool=pool))


def _fork(*before: tuple[Any, ...]) -> Any:
    """A branch that ends in a 1x3 and a 3x1 convolution side by side."""
    def make(out: HybridConcurrent) -> None:
        branch = nn.HybridSequential(prefix="")
        out.add(branch)
        branch.add(_branch(*before))
        ends = HybridConcurrent(axis=1, prefix="")
        ends.add(_branch((384, (1, 3), 1, (0, 1))), _branch((384, (3, 1), 1, (1, 0))))
        branch.add(ends)
    return make


def _a(pool_features: int, prefix: str) -> HybridConcurrent:
    return _side_by_side(prefix, _of((64, 1)), _of((48, 1), (64, 5, 1, 2)), _of((64, 1), (96, 3, 1, 1), (96, 3, 1, 1)),
                         _of((pool_features, 1), pool="avg"))


def _b(prefix: str) -> HybridConcurrent:
    return _side_by_side(prefix, _of((384, 3, 2)), _of((64, 1), (96, 3, 1, 1), (96, 3, 2)), _of(pool="max"))


def _c(channels: int, prefix: str) -> HybridConcurrent:
    flat, tall = ((1, 7), 1, (0, 3)), ((7, 1), 1, (3, 0))
    return _side_by_side(prefix, _of((192, 1)), _of((channels, 1), (channels, *flat), (192, *tall)),
                         _of((channels, 1), (channels, *tall), (channels, *flat), (channels, *tall), (192, *flat)),
                         _of((192, 1), pool="avg"))


def _d(prefix: str) -> HybridConcurrent:
    return _side_by_side(prefix, _of((192, 1), (320, 3, 2)),
                         _of((192, 1), (192, (1, 7), 1, (0, 3)), (192, (7, 1), 1, (3, 0)), (192, 3, 2)),
                         _of(pool="max"))


def _e(prefix: str) -> HybridConcurrent:
    return _side_by_side(prefix, _of((320, 1)), _fork((384, 1)), _fork((448, 1), (384, 3, 1, 1)),
                         _of((192, 1), pool="avg"))


def make_aux(classes: int) -> nn.HybridSequential:
    """The side output of the paper, which trains the lower layers; the network does not use it by itself."""
    out = nn.HybridSequential(prefix="")
    out.add(nn.AvgPool2D(pool_size=5, strides=3), _convolution(128, 1), _convolution(768, 5), nn.Flatten(),
            nn.Dense(classes))
    return out


class Inception3(HybridBlock):
    """Images (N, 3, 299, 299) to (N, classes)."""

    def __init__(self, classes: int = 1000, **kwargs: Any):
        super().__init__(**kwargs)
        with self.name_scope():
            self.features = nn.HybridSequential(prefix="")
            self.features.add(_convolution(32, 3, 2), _convolution(32, 3), _convolution(64, 3, 1, 1),
                              nn.MaxPool2D(pool_size=3, strides=2),
                              _convolution(80, 1), _convolution(192, 3), nn.MaxPool2D(pool_size=3, strides=2),
                              _a(32, "A1_"), _a(64, "A2_"), _a(64, "A3_"), _b("B_"), _c(128, "C1_"), _c(160, "C2_"),
                              _c(160, "C3_"), _c(192, "C4_"),
                              _d("D_"), _e("E1_"), _e("E2_"), nn.AvgPool2D(pool_size=8), nn.Dropout(0.5))
            self.output = nn.Dense(classes)

    def hybrid_forward(self, F: Any, x: Any) -> Any:                 # type: ignore[override]  # noqa: N803
        return self.output(self.features(x))


def inception_v3(pretrained: bool = False, ctx: Any = None, root: Any = None, **kwargs: Any) -> Inception3:
    """Inception, version 3, for images (N, 3, 299, 299).

    classes: number of outputs (1000). pretrained: load trained parameters, from the folder ``root`` onto the device
    ``ctx``.
    """
    return finish(Inception3(**kwargs), "inceptionv3", pretrained, ctx, root)
