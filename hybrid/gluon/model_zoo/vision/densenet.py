"""DenseNet-BC (Huang et al. 2017, arXiv 1608.06993)."""
from __future__ import annotations

from typing import Any, Sequence

from ... import nn
from ...contrib.nn import HybridConcurrent, Identity
from ...hybrid_block import HybridBlock
from ..model_store import finish, variant

__all__ = ["DenseNet", "densenet121", "densenet161", "densenet169", "densenet201"]


def _dense_block(num_layers: int, bn_size: int, growth_rate: int, dropout: float, stage: int) -> nn.HybridSequential:
    out = nn.HybridSequential(prefix=f"stage{stage}_")
    with out.name_scope():
        for _ in range(num_layers):
            out.add(_dense_layer(growth_rate, bn_size, dropout))
    return out


def _dense_layer(growth_rate: int, bn_size: int, dropout: float) -> HybridConcurrent:
    """The input itself beside ``growth_rate`` new channels."""
    new = nn.HybridSequential(prefix="")
    new.add(nn.BatchNorm(), nn.Activation("relu"), nn.Conv2D(bn_size * growth_rate, kernel_size=1, use_bias=False),
            nn.BatchNorm(), nn.Activation("relu"), nn.Conv2D(growth_rate, kernel_size=3, padding=1, use_bias=False))
    if dropout:
        new.add(nn.Dropout(dropout))
    out = HybridConcurrent(axis=1, prefix="")
    out.add(Identity(), new)
    return out


def _transition(channels: int) -> nn.HybridSequential:
    out = nn.HybridSequential(prefix="")
    out.add(nn.BatchNorm(), nn.Activation("relu"), nn.Conv2D(channels, kernel_size=1, use_bias=False),
            nn.AvgPool2D(pool_size=2, strides=2))
    return out


class DenseNet(HybridBlock):
    """Blocks in which every layer sees all earlier ones.

    num_init_features: channels of the first convolution. growth_rate: channels that a layer adds. block_config: layers
    of each block. bn_size: width of a layer's 1x1 convolution, in growth rates. dropout: rate after each layer.
    """

    def __init__(self, num_init_features: int, growth_rate: int, block_config: Sequence[int], bn_size: int = 4,
                 dropout: float = 0, classes: int = 1000,
                 **kwargs: Any):
        super().__init__(**kwargs)
        with self.name_scope():
            self.features = nn.HybridSequential(prefix="")
            self.features.add(nn.Conv2D(num_init_features, kernel_size=7, strides=2, padding=3, use_bias=False),
                              nn.BatchNorm(), nn.Activation("relu"),
                              nn.MaxPool2D(pool_size=3, strides=2, padding=1))
            channels = num_init_features
            for i, num_layers in enumerate(block_config):
                self.features.add(_dense_block(num_layers, bn_size, growth_rate, dropout, i + 1))
                channels += num_layers * growth_rate
                if i != len(block_config) - 1:
                    channels //= 2
                    self.features.add(_transition(channels))
            self.features.add(nn.BatchNorm(), nn.Activation("relu"), nn.AvgPool2D(pool_size=7), nn.Flatten())
            self.output = nn.Dense(classes)

    def hybrid_forward(self, F: Any, x: Any) -> Any:                 # type: ignore[override]  # noqa: N803
        return self.output(self.features(x))


densenet_spec = {121: (64, 32, [6, 12, 24, 16]), 161: (96, 48, [6, 12, 36, 24]), 169: (64, 32, [6, 12, 32, 32]),
                 201: (64, 32, [6, 12, 48, 32])}


def get_densenet(num_layers: int, pretrained: bool = False, ctx: Any = None, root: Any = None,
                 **kwargs: Any) -> DenseNet:
    """DenseNet with 121, 161, 169 or 201 layers."""
    if num_layers not in densenet_spec:
        raise ValueError(f"DenseNet has {', '.join(map(str, densenet_spec))} layers, not {num_layers}")
    return finish(DenseNet(*densenet_spec[num_layers], **kwargs), f"densenet{num_layers}", pretrained, ctx, root)


densenet121 = variant(get_densenet, "densenet121", "DenseNet with 121 layers", 121)
densenet161 = variant(get_densenet, "densenet161", "DenseNet with 161 layers", 161)
densenet169 = variant(get_densenet, "densenet169", "DenseNet with 169 layers", 169)
densenet201 = variant(get_densenet, "densenet201", "DenseNet with 201 layers", 201)
