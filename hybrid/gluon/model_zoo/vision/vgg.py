"""VGG networks, plain and with batch normalization (Simonyan and Zisserman 2014, arXiv 1409.1556)."""
from __future__ import annotations

from typing import Any, Sequence

from ....mxnet.initializer import Xavier
from ... import nn
from ...hybrid_block import HybridBlock
from ..model_store import finish, variant

__all__ = ["VGG", "get_vgg", "vgg11", "vgg11_bn", "vgg13", "vgg13_bn", "vgg16", "vgg16_bn", "vgg19", "vgg19_bn"]


class VGG(HybridBlock):
    """Stages of 3x3 convolutions, each ended by a pooling, then three dense layers.

    layers: convolutions of each stage. filters: their channels.
    """

    def __init__(self, layers: Sequence[int], filters: Sequence[int], classes: int = 1000, batch_norm: bool = False,
                 **kwargs: Any):
        super().__init__(**kwargs)
        if len(layers) != len(filters):
            raise ValueError(f"VGG: {len(layers)} stages in layers and {len(filters)} in filters")
        normal = {"weight_initializer": "normal", "bias_initializer": "zeros"}
        with self.name_scope():
            self.features = _features(layers, filters, batch_norm)
            self.features.add(nn.Dense(4096, activation="relu", **normal), nn.Dropout(rate=0.5),
                              nn.Dense(4096, activation="relu", **normal), nn.Dropout(rate=0.5))
            self.output = nn.Dense(classes, **normal)

    def hybrid_forward(self, F: Any, x: Any) -> Any:                 # type: ignore[override]  # noqa: N803
        return self.output(self.features(x))


def _features(layers: Sequence[int], filters: Sequence[int], batch_norm: bool) -> nn.HybridSequential:
    out = nn.HybridSequential(prefix="")
    for count, channels in zip(layers, filters):
        for _ in range(count):
            out.add(nn.Conv2D(channels, kernel_size=3, padding=1,
                              weight_initializer=Xavier(rnd_type="gaussian", factor_type="out", magnitude=2),
                              bias_initializer="zeros"))
            if batch_norm:
                out.add(nn.BatchNorm())
            out.add(nn.Activation("relu"))
        out.add(nn.MaxPool2D(strides=2))
    return out


vgg_spec = {11: ([1, 1, 2, 2, 2], [64, 128, 256, 512, 512]),
            13: ([2, 2, 2, 2, 2], [64, 128, 256, 512, 512]),
            16: ([2, 2, 3, 3, 3], [64, 128, 256, 512, 512]),
            19: ([2, 2, 4, 4, 4], [64, 128, 256, 512, 512])}


def get_vgg(num_layers: int, pretrained: bool = False, ctx: Any = None, root: Any = None, **kwargs: Any) -> VGG:
    """VGG with 11, 13, 16 or 19 layers; ``batch_norm=True`` for the normalized kind."""
    if num_layers not in vgg_spec:
        raise ValueError(f"VGG has {', '.join(map(str, vgg_spec))} layers, not {num_layers}")
    name = f"vgg{num_layers}{'_bn' if kwargs.get('batch_norm') else ''}"
    return finish(VGG(*vgg_spec[num_layers], **kwargs), name, pretrained, ctx, root)


vgg11 = variant(get_vgg, "vgg11", "VGG with 11 layers", 11)
vgg13 = variant(get_vgg, "vgg13", "VGG with 13 layers", 13)
vgg16 = variant(get_vgg, "vgg16", "VGG with 16 layers", 16)
vgg19 = variant(get_vgg, "vgg19", "VGG with 19 layers", 19)
vgg11_bn = variant(get_vgg, "vgg11_bn", "VGG with 11 layers and batch normalization", 11, batch_norm=True)
vgg13_bn = variant(get_vgg, "vgg13_bn", "VGG with 13 layers and batch normalization", 13, batch_norm=True)
vgg16_bn = variant(get_vgg, "vgg16_bn", "VGG with 16 layers and batch normalization", 16, batch_norm=True)
vgg19_bn = variant(get_vgg, "vgg19_bn", "VGG with 19 layers and batch normalization", 19, batch_norm=True)
