"""ResNet version 1 (He et al. 2015, arXiv 1512.03385) and version 2 (He et al. 2016, arXiv 1603.05027)."""
from __future__ import annotations

from typing import Any, Sequence

from ... import nn
from ...hybrid_block import HybridBlock
from ..model_store import finish, variant

__all__ = ["BasicBlockV1", "BasicBlockV2", "BottleneckV1", "BottleneckV2", "ResNetV1", "ResNetV2", "get_resnet",
           "resnet101_v1", "resnet101_v2", "resnet152_v1",
           "resnet152_v2", "resnet18_v1", "resnet18_v2", "resnet34_v1", "resnet34_v2", "resnet50_v1", "resnet50_v2"]


def _conv3x3(channels: int, stride: int, in_channels: int) -> HybridBlock:
    return nn.Conv2D(channels, kernel_size=3, strides=stride, padding=1, use_bias=False, in_channels=in_channels)


class _BlockV1(HybridBlock):
    """relu(body(x) + x), where x goes through a 1x1 convolution if the shapes differ (``downsample``)."""

    def _shortcut(self, channels: int, stride: int, downsample: bool, in_channels: int) -> None:
        self.downsample = None
        if downsample:
            self.downsample = nn.HybridSequential(prefix="")
            self.downsample.add(nn.Conv2D(channels, kernel_size=1, strides=stride, use_bias=False,
                                          in_channels=in_channels), nn.BatchNorm())

    def hybrid_forward(self, F: Any, x: Any) -> Any:                 # type: ignore[override]  # noqa: N803
        residual = x
        x = self.body(x)
        if self.downsample:
            residual = self.downsample(residual)
        return F.Activation(residual + x, act_type="relu")


class BasicBlockV1(_BlockV1):
    """Two 3x3 convolutions: in version 1 with 18 and 34 layers.

    channels: of the result. stride: of the first convolution. downsample: whether the shortcut has a convolution.
    """

    def __init__(self, channels: int, stride: int, downsample: bool = False, in_channels: int = 0, **kwargs: Any):
        super().__init__(**kwargs)
        self.body = nn.HybridSequential(prefix="")
        self.body.add(_conv3x3(channels, stride, in_channels), nn.BatchNorm(), nn.Activation("relu"),
                      _conv3x3(channels, 1, channels), nn.BatchNorm())
        self._shortcut(channels, stride, downsample, in_channels)


class BottleneckV1(_BlockV1):
    """1x1, 3x3 and 1x1 convolutions: in version 1 with 50, 101 and 152 layers. Arguments as of BasicBlockV1."""

    def __init__(self, channels: int, stride: int, downsample: bool = False, in_channels: int = 0, **kwargs: Any):
        super().__init__(**kwargs)
        self.body = nn.HybridSequential(prefix="")
        self.body.add(nn.Conv2D(channels // 4, kernel_size=1, strides=stride), nn.BatchNorm(), nn.Activation("relu"),
                      _conv3x3(channels // 4, 1, channels // 4), nn.BatchNorm(), nn.Activation("relu"),
                      nn.Conv2D(channels, kernel_size=1, strides=1), nn.BatchNorm())
        self._shortcut(channels, stride, downsample, in_channels)


class _BlockV2(HybridBlock):
    """x + a chain of convolutions, each behind a normalization and an activation; x goes through a 1x1 convolution
    behind the first activation if the shapes differ (``downsample``).
    """

    def _layers(self, channels: int, stride: int, downsample: bool, in_channels: int,
                convolutions: Sequence[HybridBlock]) -> None:
        self._length = len(convolutions)
        for i, convolution in enumerate(convolutions, 1):
            setattr(self, f"bn{i}", nn.BatchNorm())
            setattr(self, f"conv{i}", convolution)
        self.downsample = nn.Conv2D(channels, 1, stride, use_bias=False,
                                    in_channels=in_channels) if downsample else None

    def hybrid_forward(self, F: Any, x: Any) -> Any:                 # type: ignore[override]  # noqa: N803
        residual = x
        for i in range(1, self._length + 1):
            x = F.Activation(getattr(self, f"bn{i}")(x), act_type="relu")
            if i == 1 and self.downsample:
                residual = self.downsample(x)
            x = getattr(self, f"conv{i}")(x)
        return x + residual


class BasicBlockV2(_BlockV2):
    """Normalization and activation before each of two 3x3 convolutions. Arguments as of BasicBlockV1."""

    def __init__(self, channels: int, stride: int, downsample: bool = False, in_channels: int = 0, **kwargs: Any):
        super().__init__(**kwargs)
        self._layers(channels, stride, downsample, in_channels,
                     [_conv3x3(channels, stride, in_channels), _conv3x3(channels, 1, channels)])


class BottleneckV2(_BlockV2):
    """Normalization and activation before 1x1, 3x3 and 1x1 convolutions. Arguments as of BasicBlockV1."""

    def __init__(self, channels: int, stride: int, downsample: bool = False, in_channels: int = 0, **kwargs: Any):
        super().__init__(**kwargs)
        self._layers(channels, stride, downsample, in_channels,
                     [nn.Conv2D(channels // 4, kernel_size=1, strides=1, use_bias=False),
                      _conv3x3(channels // 4, stride, channels // 4),
                      nn.Conv2D(channels, kernel_size=1, strides=1, use_bias=False)])


class _ResNet(HybridBlock):
    def _stages(self, block: Any, layers: Sequence[int], channels: Sequence[int]) -> None:
        """Four stages; all but the first halve the image."""
        if len(layers) != len(channels) - 1:
            raise ValueError(f"{type(self).__name__}: channels must have one more entry than layers, got "
                             f"{len(channels)} and {len(layers)}")
        for i, count in enumerate(layers):
            stage = nn.HybridSequential(prefix=f"stage{i + 1}_")
            with stage.name_scope():
                stage.add(block(channels[i + 1], 2 if i else 1, channels[i + 1] != channels[i],
                                in_channels=channels[i], prefix=""))
                for _ in range(count - 1):
                    stage.add(block(channels[i + 1], 1, False, in_channels=channels[i + 1], prefix=""))
            self.features.add(stage)

    def _stem(self, channels: int, thumbnail: bool) -> None:
        """thumbnail: for images of 32x32, which are not made smaller here."""
        if thumbnail:
            self.features.add(_conv3x3(channels, 1, 0))
        else:
            self.features.add(nn.Conv2D(channels, 7, 2, 3, use_bias=False), nn.BatchNorm(), nn.Activation("relu"),
                              nn.MaxPool2D(3, 2, 1))

    def hybrid_forward(self, F: Any, x: Any) -> Any:                 # type: ignore[override]  # noqa: N803
        return self.output(self.features(x))


class ResNetV1(_ResNet):
    """Stages of residual blocks: images (N, 3, height, width) to (N, classes).

    block: BasicBlockV1 or BottleneckV1. layers: blocks of each stage. channels: of the stem and of each stage.
    thumbnail: for small images, which the stem does not make smaller.
    """

    def __init__(self, block: Any, layers: Sequence[int], channels: Sequence[int], classes: int = 1000,
                 thumbnail: bool = False, **kwargs: Any):
        super().__init__(**kwargs)
        with self.name_scope():
            self.features = nn.HybridSequential(prefix="")
            self._stem(channels[0], thumbnail)
            self._stages(block, layers, channels)
            self.features.add(nn.GlobalAvgPool2D())
            self.output = nn.Dense(classes, in_units=channels[-1])


class ResNetV2(_ResNet):
    """As ResNetV1, of blocks that normalize first (BasicBlockV2, BottleneckV2)."""

    def __init__(self, block: Any, layers: Sequence[int], channels: Sequence[int], classes: int = 1000,
                 thumbnail: bool = False, **kwargs: Any):
        super().__init__(**kwargs)
        with self.name_scope():
            self.features = nn.HybridSequential(prefix="")
            self.features.add(nn.BatchNorm(scale=False, center=False))
            self._stem(channels[0], thumbnail)
            self._stages(block, layers, channels)
            self.features.add(nn.BatchNorm(), nn.Activation("relu"), nn.GlobalAvgPool2D(), nn.Flatten())
            self.output = nn.Dense(classes, in_units=channels[-1])


_NARROW, _WIDE = [64, 64, 128, 256, 512], [64, 256, 512, 1024, 2048]
resnet_spec = {18: ("basic_block", [2, 2, 2, 2], _NARROW), 34: ("basic_block", [3, 4, 6, 3], _NARROW),
               50: ("bottle_neck", [3, 4, 6, 3], _WIDE),
               101: ("bottle_neck", [3, 4, 23, 3], _WIDE), 152: ("bottle_neck", [3, 8, 36, 3], _WIDE)}
resnet_net_versions = [ResNetV1, ResNetV2]
resnet_block_versions = [{"basic_block": BasicBlockV1, "bottle_neck": BottleneckV1},
                         {"basic_block": BasicBlockV2, "bottle_neck": BottleneckV2}]


def get_resnet(version: int, num_layers: int, pretrained: bool = False, ctx: Any = None, root: Any = None,
               **kwargs: Any) -> HybridBlock:
    """ResNet of version 1 or 2 with 18, 34, 50, 101 or 152 layers."""
    if num_layers not in resnet_spec:
        raise ValueError(f"ResNet has {', '.join(map(str, resnet_spec))} layers, not {num_layers}")
    if version not in (1, 2):
        raise ValueError(f"ResNet has the versions 1 and 2, not {version}")
    kind, layers, channels = resnet_spec[num_layers]
    net = resnet_net_versions[version - 1](resnet_block_versions[version - 1][kind], layers, channels, **kwargs)
    return finish(net, f"resnet{num_layers}_v{version}", pretrained, ctx, root)


resnet18_v1 = variant(get_resnet, "resnet18_v1", "ResNet with 18 layers", 1, 18)
resnet34_v1 = variant(get_resnet, "resnet34_v1", "ResNet with 34 layers", 1, 34)
resnet50_v1 = variant(get_resnet, "resnet50_v1", "ResNet with 50 layers", 1, 50)
resnet101_v1 = variant(get_resnet, "resnet101_v1", "ResNet with 101 layers", 1, 101)
resnet152_v1 = variant(get_resnet, "resnet152_v1", "ResNet with 152 layers", 1, 152)
resnet18_v2 = variant(get_resnet, "resnet18_v2", "ResNet, version 2, with 18 layers", 2, 18)
resnet34_v2 = variant(get_resnet, "resnet34_v2", "ResNet, version 2, with 34 layers", 2, 34)
resnet50_v2 = variant(get_resnet, "resnet50_v2", "ResNet, version 2, with 50 layers", 2, 50)
resnet101_v2 = variant(get_resnet, "resnet101_v2", "ResNet, version 2, with 101 layers", 2, 101)
resnet152_v2 = variant(get_resnet, "resnet152_v2", "ResNet, version 2, with 152 layers", 2, 152)
