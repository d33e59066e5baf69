"""Transforms: blocks that change one image (height, width, channels), or what ``ToTensor`` made of it.

Those on pixel values are HybridBlocks and can be part of a hybridized network; those that cut by Python's ``random``
are plain Blocks.
"""
from __future__ import annotations

import itertools
import random
from typing import Any, Callable, Sequence

import numpy as np

from ....base import config
from .... import image
from ....base.other_names import hinted as _hinted
from ....buffers.array import NDArray, wrap
from ....base import numeric_types
from ....base.device import array_module, on
from ....base.errors import DTypeError, HybridError, ShapeError
from ....ops.image import saturate_array
from ....base.scope import SCOPE
from ...block import Block
from ...hybrid_block import HybridBlock
from ...nn import HybridSequential, Lambda, Sequential


def _pair(size: Any) -> tuple[int, int]:
    """(width, height) from one number or two."""
    if isinstance(size, numeric_types):
        return int(size), int(size)
    width, height = size
    return int(width), int(height)


# images of one shape and dtype before a run is compiled for them; and for how many shapes
_OFTEN, _KINDS = 32, 4


class _Run(HybridSequential):
    """Neighbouring HybridBlocks of a Compose: eager for images of ever new sizes, compiled for a kind that comes
    often."""

    def __init__(self, transforms: Sequence[HybridBlock]):
        super().__init__()
        self.add(*transforms)
        self.__dict__.update(_seen={}, _program=None)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        d = self.__dict__
        x = args[0] if len(args) == 1 and not kwargs else None
        if not isinstance(x, NDArray) or d["_active"] or SCOPE.traces or d["_forward_hooks"] or d["_forward_pre_hooks"]:
            return super().__call__(*args, **kwargs)
        kind, seen = (x.shape, x._data.dtype), d["_seen"]
        times = seen.get(kind, 0)
        if times < _OFTEN:
            if len(seen) > 256:
                d["_seen"] = seen = {k: n for k, n in seen.items() if n >= _OFTEN}
            seen[kind] = times + 1 if times + 1 < _OFTEN or sum(n >= _OFTEN for n in seen.values()) < _KINDS else times
            return super().__call__(x)
        if d["_program"] is None:
            d["_program"] = self._compiled()
        # an image is small, and the other cores have work of their own
        old, config.LIMIT.threads = config.LIMIT.threads, 1
        try:
            return d["_program"](x)
        finally:
            config.LIMIT.threads = old

    def _compiled(self) -> HybridSequential:
        program = HybridSequential()
        program.add(*self._children.values())
        program.hybridize()
        # they stay as they are: images of other sizes still come eagerly
        for child in self._children.values():
            child.hybridize(False)
        return program

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_program": None, "_seen": {}}


class Compose(Sequential):
    """Transforms one after another. Functions may stand among the blocks.

    Neighbouring HybridBlocks are compiled into one program for images of a shape that comes again and again.

    >>> Compose([Resize(8), ToTensor()])(hybrid.nd.zeros((4, 4, 3), dtype="uint8")).shape        # doctest: +SKIP
    (3, 8, 8)
    """

    def __init__(self, transforms: Sequence[Any]):
        super().__init__()
        for t in transforms:
            if not isinstance(t, Block) and not callable(t):
                raise HybridError(f"Compose takes transforms, that is blocks or functions; got {type(t).__name__}: "
                                  f"{t!r}")
        for hybrid, run in itertools.groupby(transforms, lambda t: isinstance(t, HybridBlock)):
            blocks = [t if isinstance(t, Block) else Lambda(t) for t in run]
            self.add(*([_Run(blocks)] if hybrid and len(blocks) > 1 else blocks))


class HybridCompose(HybridSequential):
    """Transforms that are HybridBlocks, compiled as one program for each shape of image."""

    def __init__(self, transforms: Sequence[HybridBlock]):
        super().__init__()
        self.add(*transforms)
        self.hybridize()


class Cast(HybridBlock):
    """Cast to a dtype."""

    def __init__(self, dtype: Any = "float32"):
        super().__init__()
        self._dtype = dtype

    def hybrid_forward(self, F: Any, x: Any) -> Any:  # noqa: N803
        return F.cast(x, self._dtype)


class ToTensor(HybridBlock):
    """(height, width, channels) of 0 to 255 to (channels, height, width) of 0 to 1, float32. A batch likewise."""

    def hybrid_forward(self, F: Any, x: Any) -> Any:  # noqa: N803
        return F.image.to_tensor(x)


class Normalize(HybridBlock):
    """(x - mean) / std for each channel of a tensor (channels, height, width), or a batch. One number serves all
    channels."""

    def __init__(self, mean: Any = 0.0, std: Any = 1.0):
        super().__init__()
        self._mean, self._std = mean, std

    def hybrid_forward(self, F: Any, x: Any) -> Any:  # noqa: N803
        return F.image.normalize(x, self._mean, self._std)


class Resize(HybridBlock):
    """Resize to ``size``, (width, height) or one number; with keep_ratio one number is for the shorter edge.
    interpolation: see ``image.imresize``.
    """

    def __init__(self, size: Any, keep_ratio: bool = False, interpolation: int = 1):
        super().__init__()
        self._size, self._keep, self._interpolation = size, keep_ratio, interpolation

    def hybrid_forward(self, F: Any, x: Any) -> Any:  # noqa: N803
        return F.image.resize(x, self._size, self._keep, self._interpolation)


class CropResize(HybridBlock):
    """The part from column x and row y, then resized to ``size`` if given. A batch likewise."""

    def __init__(self, x: int, y: int, width: int, height: int, size: Any = None, interpolation: int | None = None):
        super().__init__()
        self._box, self._size, self._interpolation = (x, y, width, height), size, interpolation

    def hybrid_forward(self, F: Any, x: Any) -> Any:  # noqa: N803
        out = F.image.crop(x, *self._box)
        return F.image.resize(out, self._size, False,
                              1 if self._interpolation is None else self._interpolation) if self._size else out


class CenterCrop(Block):
    """The middle part of ``size``, (width, height) or one number; a smaller image is enlarged."""

    def __init__(self, size: Any, interpolation: int = 1):
        super().__init__()
        self._args = _pair(size), interpolation

    def forward(self, x: Any) -> Any:
        return image.center_crop(x, *self._args)[0]


class RandomResizedCrop(Block):
    """A part of random area (``scale``: shares of the image) and aspect ratio, resized to ``size``."""

    def __init__(self, size: Any, scale: tuple[float, float] = (0.08, 1.0),
                 ratio: tuple[float, float] = (3.0 / 4.0, 4.0 / 3.0), interpolation: int = 1):
        super().__init__()
        self._args = _pair(size), scale, ratio, interpolation

    def forward(self, x: Any) -> Any:
        return image.random_size_crop(x, *self._args)[0]


class RandomCrop(Block):
    """A random part of ``size`` after padding: ``pad`` pixels of ``pad_value`` on each side, or ((top, bottom), (left,
    right), …)."""

    def __init__(self, size: Any, pad: Any = None, pad_value: float = 0, interpolation: int = 1):
        super().__init__()
        self._args, self._pad, self._pad_value = (_pair(size), interpolation), pad, pad_value

    def forward(self, x: Any) -> Any:
        if self._pad:
            widths = [(self._pad, self._pad)] * 2 if isinstance(self._pad,
                                                                numeric_types) else [tuple(p) for p in self._pad][:2]
            if x.ndim != 3:
                raise ShapeError(f"RandomCrop takes a picture (height, width, channels), got {x.shape}")
            with on(x.ctx):
                padded = array_module(x.ctx).pad(x._data, [*widths, (0, 0)], mode="constant",
                                                 constant_values=self._pad_value)
            x = wrap(padded, x.ctx, type(x))
        return image.random_crop(x, *self._args)[0]


class RandomFlipLeftRight(HybridBlock):
    """Mirrored left to right, half of the time."""

    def hybrid_forward(self, F: Any, x: Any) -> Any:  # noqa: N803
        return F.image.random_flip_left_right(x)


class RandomFlipTopBottom(HybridBlock):
    """Mirrored upside down, half of the time."""

    def hybrid_forward(self, F: Any, x: Any) -> Any:  # noqa: N803
        return F.image.random_flip_top_bottom(x)


class _RandomFactor(HybridBlock):
    """A change by a random factor from max(0, 1 - strength) to 1 + strength."""

    operator = ""

    def __init__(self, strength: float):
        super().__init__()
        if strength < 0:
            raise ValueError(f"{type(self).__name__}: the strength must not be negative, got {strength}")
        self._args = max(0, 1 - strength), 1 + strength

    def hybrid_forward(self, F: Any, x: Any) -> Any:  # noqa: N803
        return getattr(F.image, self.operator)(x, *self._args)


class RandomBrightness(_RandomFactor):
    """Brightness times a random factor from max(0, 1 - brightness) to 1 + brightness."""

    operator = "random_brightness"

    def __init__(self, brightness: float):
        super().__init__(brightness)


class RandomContrast(_RandomFactor):
    """Contrast changed by a random factor from max(0, 1 - contrast) to 1 + contrast."""

    operator = "random_contrast"

    def __init__(self, contrast: float):
        super().__init__(contrast)


class RandomSaturation(_RandomFactor):
    """Saturation changed by a random factor from max(0, 1 - saturation) to 1 + saturation."""

    operator = "random_saturation"

    def __init__(self, saturation: float):
        super().__init__(saturation)


class RandomHue(_RandomFactor):
    """The hue turned by a random share of the circle from -hue to hue."""

    operator = "random_hue"

    def __init__(self, hue: float):
        super().__init__(hue)


class RandomColorJitter(HybridBlock):
    """Brightness, contrast, saturation and hue changed at random, in random order."""

    def __init__(self, brightness: float = 0, contrast: float = 0, saturation: float = 0, hue: float = 0):
        super().__init__()
        self._args = brightness, contrast, saturation, hue

    def hybrid_forward(self, F: Any, x: Any) -> Any:  # noqa: N803
        return F.image.random_color_jitter(x, *self._args)


class RandomLighting(HybridBlock):
    """Noise along the principal directions of ImageNet's colours, of deviation ``alpha``."""

    def __init__(self, alpha: float):
        super().__init__()
        self._alpha = alpha

    def hybrid_forward(self, F: Any, x: Any) -> Any:  # noqa: N803
        return F.image.random_lighting(x, self._alpha)


class Rotate(Block):
    """A tensor (channels, height, width), or a batch, turned by ``rotation_degrees``; the shape stays. zoom_in,
    zoom_out: see ``image.imrotate``."""

    def __init__(self, rotation_degrees: float, zoom_in: bool = False, zoom_out: bool = False):
        super().__init__()
        self._args = rotation_degrees, zoom_in, zoom_out

    def forward(self, x: Any) -> Any:
        return image.imrotate(_floats(x), *self._args)


class RandomRotation(Block):
    """``Rotate`` by an angle drawn uniformly between two limits in degrees, with the probability rotate_with_proba.
    Draws from NumPy's generator."""

    def __init__(self, angle_limits: Sequence[float], zoom_in: bool = False, zoom_out: bool = False,
                 rotate_with_proba: float = 1.0):
        super().__init__()
        low, high = angle_limits
        if low >= high:
            raise ValueError(f"`angle_limits` must be an ordered tuple, the smaller limit first; got "
                             f"{tuple(angle_limits)}")
        if not 0 <= rotate_with_proba <= 1:
            raise ValueError(f"Probability of rotating the image should be between 0 and 1, got {rotate_with_proba}")
        self._args, self._proba = ((low, high), zoom_in, zoom_out), rotate_with_proba

    def forward(self, x: Any) -> Any:
        return x if np.random.random() > self._proba else image.random_rotate(_floats(x), *self._args)


def _floats(x: Any) -> Any:
    if x._data.dtype != np.float32:
        raise DTypeError(f"This transformation only supports float32. Consider calling it after ToTensor; got "
                         f"{x._data.dtype}")
    return x


class RandomGray(Block):
    """Gray, in as many channels, with probability p. Keeps the dtype."""

    def __init__(self, p: float = 0.5):
        super().__init__()
        self.p = p

    def forward(self, x: Any) -> Any:
        if random.random() >= self.p:
            return x
        xp = array_module(x.ctx)
        with on(x.ctx):
            gray = (x._data * xp.asarray(np.array([0.2989, 0.5870, 0.114], np.float32))).sum(axis=-1, keepdims=True)
            return wrap(saturate_array(xp, xp.broadcast_to(gray, x.shape), x._data.dtype), x.ctx, type(x))


class RandomApply(Sequential):
    """A transform (or several) applied with probability p."""

    def __init__(self, transforms: Callable[[Any], Any] | Sequence[Any], p: float = 0.5):
        super().__init__()
        self.transforms: Any = Compose(transforms) if isinstance(transforms, (list, tuple)) else transforms
        self.p = p

    def forward(self, x: Any, *args: Any) -> Any:
        return x if self.p < random.random() else self.transforms(x)


__all__ = ["CenterCrop", "Cast", "Compose", "CropResize", "HybridCompose", "Normalize", "RandomApply",
           "RandomBrightness", "RandomColorJitter",
           "RandomContrast", "RandomCrop", "RandomFlipLeftRight", "RandomFlipTopBottom", "RandomGray", "RandomHue",
           "RandomLighting", "RandomResizedCrop", "RandomRotation",
           "RandomSaturation", "Resize", "Rotate", "ToTensor"]

_hinted(globals())
