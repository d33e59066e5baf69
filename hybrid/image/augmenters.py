"""Augmenters: callables that change one image, at random by Python's ``random`` (lighting: ``numpy.random``)."""
from __future__ import annotations

import json
import random
from typing import Any, Callable, Sequence

import numpy as np

from ..buffers.array import NDArray, array, wrap
from ..buffers.moving import copied
from ..base.device import array_module, on
from ..base.dtype import is_int
from ..base.errors import AttributeValueError
from ..ops.image import GRAY
from .image import (_get_interp_method, center_crop, color_normalize, imresize, random_crop, random_size_crop,
                    resize_short)


class Augmenter:
    """Base class: ``augmenter(picture)`` gives an image. ``dumps()`` describes it as JSON."""

    def __init__(self, **kwargs: Any):
        self._kwargs = {k: np.asarray(v.asnumpy() if isinstance(v, NDArray) else v).tolist()
                        if isinstance(v, (NDArray, np.ndarray)) else v
                        for k, v in kwargs.items()}

    def dumps(self) -> Any:
        """Name and arguments as JSON."""
        return json.dumps([type(self).__name__.lower(), self._kwargs])

    def __call__(self, src: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__} must define __call__")


class SequentialAug(Augmenter):
    """Augmenters one after another."""

    def __init__(self, ts: Sequence[Callable[[Any], Any]]):
        super().__init__()
        self.ts = list(ts)

    def dumps(self) -> Any:
        """Names and arguments of all."""
        return [type(self).__name__.lower(), [t.dumps() for t in self.ts]]       # type: ignore[attr-defined]

    def __call__(self, src: Any) -> Any:
        for t in self.ts:
            src = t(src)
        return src


class RandomOrderAug(SequentialAug):
    """Augmenters in a random order."""

    def __call__(self, src: Any) -> Any:
        random.shuffle(self.ts)
        return super().__call__(src)


class ResizeAug(Augmenter):
    """Resize the shorter edge to ``size``."""

    def __init__(self, size: int, interp: int = 2):
        super().__init__(size=size, interp=interp)
        self.size, self.interp = size, interp

    def __call__(self, src: Any) -> Any:
        return resize_short(src, self.size, self.interp)


class ForceResizeAug(Augmenter):
    """Resize to ``size`` (width, height), whatever the proportions."""

    def __init__(self, size: Sequence[int], interp: int = 2):
        super().__init__(size=size, interp=interp)
        self.size, self.interp = size, interp

    def __call__(self, src: Any) -> Any:
        method = _get_interp_method(self.interp, (src.shape[0], src.shape[1], self.size[1], self.size[0]))
        return imresize(src, self.size[0], self.size[1], method)


class RandomCropAug(Augmenter):
    """``random_crop`` to ``size`` (width, height)."""

    def __init__(self, size: Sequence[int], interp: int = 2):
        super().__init__(size=size, interp=interp)
        self.size, self.interp = size, interp

    def __call__(self, src: Any) -> Any:
        return random_crop(src, self.size, self.interp)[0]


class RandomSizedCropAug(Augmenter):
    """``random_size_crop``."""

    def __init__(self, size: Sequence[int], area: Any, ratio: Sequence[float], interp: int = 2, **kwargs: Any):
        super().__init__(size=size, area=area, ratio=ratio, interp=interp)
        self.size, self.ratio, self.interp = size, ratio, interp
        self.area = kwargs.pop("min_area", area)
        if kwargs:
            raise TypeError(f"RandomSizedCropAug has no argument {', '.join(map(repr, kwargs))}")

    def __call__(self, src: Any) -> Any:
        return random_size_crop(src, self.size, self.area, self.ratio, self.interp)[0]


class CenterCropAug(Augmenter):
    """``center_crop`` to ``size`` (width, height)."""

    def __init__(self, size: Sequence[int], interp: int = 2):
        super().__init__(size=size, interp=interp)
        self.size, self.interp = size, interp

    def __call__(self, src: Any) -> Any:
        return center_crop(src, self.size, self.interp)[0]


def _changed(src: Any, change: Callable[[Any, Any], Any]) -> Any:
    """The image that a function gives of the array module and the raw image, in float32 if that holds integers: on the
    image's device."""
    dtype = np.float32 if is_int(src._data.dtype) else src._data.dtype
    with on(src.ctx):
        made = change(array_module(src.ctx), src._data.astype(dtype, copy=False))
        return wrap(made.astype(dtype, copy=False), src.ctx, type(src))


def flipped(src: Any) -> Any:
    """The image mirrored left to right."""
    return wrap(copied(src._data[:, ::-1], src.ctx), src.ctx, type(src))


def _gray(xp: Any, x: Any) -> Any:
    return (x * xp.asarray(np.array(GRAY, x.dtype))).sum(axis=2, keepdims=True)


class BrightnessJitterAug(Augmenter):
    """Times a random factor from 1 - brightness to 1 + brightness. The result is floating."""

    def __init__(self, brightness: float):
        super().__init__(brightness=brightness)
        self.brightness = brightness

    def __call__(self, src: Any) -> Any:
        alpha = 1.0 + random.uniform(-self.brightness, self.brightness)
        return _changed(src, lambda xp, x: x * alpha)


class ContrastJitterAug(Augmenter):
    """Away from the mean brightness by a random factor from 1 - contrast to 1 + contrast."""

    def __init__(self, contrast: float):
        super().__init__(contrast=contrast)
        self.contrast = contrast

    def __call__(self, src: Any) -> Any:
        alpha = 1.0 + random.uniform(-self.contrast, self.contrast)
        return _changed(src, lambda xp, x: x * alpha + _gray(xp, x).mean() * (1.0 - alpha))


class SaturationJitterAug(Augmenter):
    """Away from each pixel's gray by a random factor from 1 - saturation to 1 + saturation."""

    def __init__(self, saturation: float):
        super().__init__(saturation=saturation)
        self.saturation = saturation

    def __call__(self, src: Any) -> Any:
        alpha = 1.0 + random.uniform(-self.saturation, self.saturation)
        return _changed(src, lambda xp, x: x * alpha + _gray(xp, x) * (1.0 - alpha))


class HueJitterAug(Augmenter):
    """Colours turned by a random angle, at most ``hue`` times 180 degrees, in the YIQ plane
    (https://beesbuzz.biz/code/hsv_color_transforms.php).
    """
    tyiq = np.array([[0.299, 0.587, 0.114], [0.596, -0.274, -0.321], [0.211, -0.523, 0.311]])
    ityiq = np.array([[1.0, 0.956, 0.621], [1.0, -0.272, -0.647], [1.0, -1.107, 1.705]])

    def __init__(self, hue: float):
        super().__init__(hue=hue)
        self.hue = hue

    def __call__(self, src: Any) -> Any:
        angle = random.uniform(-self.hue, self.hue) * np.pi
        turn = np.array([[1.0, 0.0, 0.0], [0.0, np.cos(angle), -np.sin(angle)], [0.0, np.sin(angle), np.cos(angle)]])
        return _mixed(src, (self.ityiq @ turn @ self.tyiq).T)


def _mixed(src: Any, matrix: np.ndarray) -> Any:
    """Channels times a matrix."""
    return _changed(src, lambda xp, x: x @ xp.asarray(matrix.astype(x.dtype)))


class ColorJitterAug(RandomOrderAug):
    """Brightness, contrast and saturation in random order; strengths of 0 are left out."""

    def __init__(self, brightness: float, contrast: float, saturation: float):
        made = ((BrightnessJitterAug, brightness), (ContrastJitterAug, contrast), (SaturationJitterAug, saturation))
        super().__init__([cls(v) for cls, v in made if v > 0])


class LightingAug(Augmenter):
    """Noise along the principal directions of the colours: ``eigvec`` (3, 3), ``eigval`` (3,), deviation
    ``alphastd``."""

    def __init__(self, alphastd: float, eigval: Any, eigvec: Any):
        super().__init__(alphastd=alphastd, eigval=eigval, eigvec=eigvec)
        self.alphastd, self.eigval, self.eigvec = alphastd, np.asarray(eigval), np.asarray(eigvec)

    def __call__(self, src: Any) -> Any:
        alpha = np.random.normal(0, self.alphastd, size=(3,))
        noise = (self.eigvec * alpha) @ self.eigval
        return _changed(src, lambda xp, x: x + xp.asarray(noise.astype(x.dtype)))


class ColorNormalizeAug(Augmenter):
    """(x - mean) / std by channel; either may be None."""

    def __init__(self, mean: Any, std: Any):
        super().__init__(mean=mean, std=std)
        self.mean, self.std = (v if v is None or isinstance(v, NDArray) else array(np.asarray(v), dtype="float32")
                               for v in (mean, std))

    def __call__(self, src: Any) -> Any:
        mean, std = (v if v is None else v.as_in_context(src.ctx) for v in (self.mean, self.std))
        return color_normalize(_changed(src, lambda xp, x: x.copy()), mean, std)


class RandomGrayAug(Augmenter):
    """Gray, in three channels, with probability p."""
    matrix = np.array([[0.21] * 3, [0.72] * 3, [0.07] * 3])

    def __init__(self, p: float):
        super().__init__(p=p)
        self.p = p

    def __call__(self, src: Any) -> Any:
        return _mixed(src, self.matrix) if random.random() < self.p else src


class HorizontalFlipAug(Augmenter):
    """Mirrored left to right with probability p."""

    def __init__(self, p: float):
        super().__init__(p=p)
        self.p = p

    def __call__(self, src: Any) -> Any:
        return flipped(src) if random.random() < self.p else src


class CastAug(Augmenter):
    """Cast to a dtype, float32 by default."""

    def __init__(self, typ: str = "float32"):
        super().__init__(type=typ)
        self.typ = typ

    def __call__(self, src: Any) -> Any:
        return src.astype(self.typ)


def statistics(given: Any, known: Sequence[float], name: str, dtype: Any = np.float32) -> Any:
    """A mean or deviation by channel: the known one for True, None for none, else as given."""
    if given is None or given is False:
        return None
    if given is True:
        return np.array(known, dtype)
    if not isinstance(given, (np.ndarray, NDArray)) or given.shape[0] not in (1, 3):
        raise AttributeValueError(f"{name} is True (ImageNet's), None, or an array of 1 or 3 numbers; got {given!r}")
    return given


def CreateAugmenter(data_shape: Sequence[int], resize: int = 0, rand_crop: bool = False, rand_resize: bool = False,
                    rand_mirror: bool = False,  # noqa: N802
                    mean: Any = None, std: Any = None, brightness: float = 0, contrast: float = 0,
                    saturation: float = 0, hue: float = 0,
                    pca_noise: float = 0, rand_gray: float = 0, inter_method: int = 2) -> list[Augmenter]:
    """The usual list of augmenters for images of ``data_shape`` (channels, height, width).

    resize: shorter edge first. rand_crop, rand_resize (needs rand_crop): how it is cut, else from the middle.
    rand_mirror:
    flipped half of the time. mean, std: True for ImageNet's. The rest: strengths of colour changes.
    """
    if rand_resize and not rand_crop:
        raise AttributeValueError("rand_resize needs rand_crop=True")
    size = (data_shape[2], data_shape[1])
    out: list[Augmenter] = [ResizeAug(resize, inter_method)] if resize > 0 else []
    if rand_resize:
        out.append(RandomSizedCropAug(size, 0.08, (3.0 / 4.0, 4.0 / 3.0), inter_method))
    else:
        out.append(RandomCropAug(size, inter_method) if rand_crop else CenterCropAug(size, inter_method))
    if rand_mirror:
        out.append(HorizontalFlipAug(0.5))
    out.append(CastAug())
    if brightness or contrast or saturation:
        out.append(ColorJitterAug(brightness, contrast, saturation))
    if hue:
        out.append(HueJitterAug(hue))
    if pca_noise > 0:
        out.append(LightingAug(pca_noise, np.array([55.46, 4.794, 1.148]),
                               np.array([[-0.5675, 0.7192, 0.4009], [-0.5808, -0.0045, -0.8140],
                                         [-0.5836, -0.6948, 0.4203]])))
    if rand_gray > 0:
        out.append(RandomGrayAug(rand_gray))
    mean, std = statistics(mean, (123.68, 116.28, 103.53), "mean"), statistics(std, (58.395, 57.12, 57.375), "std")
    return [*out, ColorNormalizeAug(mean, std)] if mean is not None or std is not None else out
