"""AlexNet in one column (Krizhevsky 2014, arXiv 1404.5997)."""
from __future__ import annotations

from typing import Any

from ... import nn
from ...hybrid_block import HybridBlock
from ..model_store import finish

__all__ = ["AlexNet", "alexnet"]


class AlexNet(HybridBlock):
    """Five convolutions and three dense layers: images (N, 3, 224, 224) to (N, classes)."""

    def __init__(self, classes: int = 1000, **kwargs: Any):
        super().__init__(**kwargs)
        with self.name_scope():
            self.features = nn.HybridSequential(prefix="")
            with self.features.name_scope():
                self.features.add(nn.Conv2D(64, kernel_size=11, strides=4, padding=2, activation="relu"),
                                  nn.MaxPool2D(pool_size=3, strides=2),
                                  nn.Conv2D(192, kernel_size=5, padding=2, activation="relu"),
                                  nn.MaxPool2D(pool_size=3, strides=2),
                                  nn.Conv2D(384, kernel_size=3, padding=1, activation="relu"),
                                  nn.Conv2D(256, kernel_size=3, padding=1, activation="relu"),
                                  nn.Conv2D(256, kernel_size=3, padding=1, activation="relu"),
                                  nn.MaxPool2D(pool_size=3, strides=2), nn.Flatten(),
                                  nn.Dense(4096, activation="relu"), nn.Dropout(0.5),
                                  nn.Dense(4096, activation="relu"), nn.Dropout(0.5))
            self.output = nn.Dense(classes)

    def hybrid_forward(self, F: Any, x: Any) -> Any:                 # type: ignore[override]  # noqa: N803
        return self.output(self.features(x))


def alexnet(pretrained: bool = False, ctx: Any = None, root: Any = None, **kwargs: Any) -> AlexNet:
    """AlexNet for images (N, 3, height, width).

    classes: number of outputs (1000). pretrained: load trained parameters, from the folder ``root`` onto the device
    ``ctx``.
    """
    return finish(AlexNet(**kwargs), "alexnet", pretrained, ctx, root)
