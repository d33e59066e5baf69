"""Networks for pictures: AlexNet, DenseNet, Inception, MobileNet, ResNet, SqueezeNet, VGG.

>>> net = resnet18_v1(classes=10)
>>> net.initialize(); net.hybridize()
>>> net(nd.zeros((1, 3, 224, 224))).shape
(1, 10)

The trained parameters expect images in RGB with values in [0, 1], normalized by the mean [0.485, 0.456, 0.406] and
the standard deviation [0.229, 0.224, 0.225].
"""
from __future__ import annotations

from typing import Any, Callable

from ....base.other_names import hinted as _hinted
from . import (alexnet as _alexnet, densenet as _densenet, inception as _inception, mobilenet as _mobilenet,
               resnet as _resnet, squeezenet as _squeezenet, vgg as _vgg)
from ...hybrid_block import HybridBlock
from .alexnet import *  # noqa: F403  the families say what is public
from .densenet import *  # noqa: F403
from .inception import *  # noqa: F403
from .mobilenet import *  # noqa: F403
from .resnet import *  # noqa: F403
from .squeezenet import *  # noqa: F403
from .vgg import *  # noqa: F403

_FAMILIES = (_alexnet, _densenet, _inception, _mobilenet, _resnet, _squeezenet, _vgg)
_SPELLED = {"squeezenet1_0": "squeezenet1.0", "squeezenet1_1": "squeezenet1.1", "inception_v3": "inceptionv3",
            **{f"mobilenet{w.replace('.', '_')}": f"mobilenet{w}" for w in ("1.0", "0.75", "0.5", "0.25")},
            **{f"mobilenet_v2_{w.replace('.', '_')}": f"mobilenetv2_{w}" for w in ("1.0", "0.75", "0.5", "0.25")}}
MODELS: dict[str, Callable[..., Any]] = {_SPELLED.get(name, name): globals()[name] for family in _FAMILIES
                                         for name in family.__all__
                                         if name[0].islower() and not name.startswith("get_")}


def get_model(name: str, **kwargs: Any) -> HybridBlock:
    """A network by its name, such as ``resnet50_v1`` or ``mobilenet0.5``. ValueError for other names.

    classes, pretrained, ctx, root: as of the functions of this module.
    """
    if name.lower() not in MODELS:
        raise ValueError(f"there is no model {name!r}; there are {', '.join(sorted(MODELS))}")
    return MODELS[name.lower()](**kwargs)


__all__ = ["MODELS", "get_model", *(name for family in _FAMILIES
                                    for name in family.__all__)]          # noqa: PLE0604  names of the families

_hinted(globals())
