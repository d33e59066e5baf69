"""Images: reading, resizing, cropping, augmenting, as arrays (height, width, channels)."""
from __future__ import annotations

from ..base.other_names import hinted as _hinted
from . import image
from .augmenters import (Augmenter, BrightnessJitterAug, CastAug, CenterCropAug, ColorJitterAug, ColorNormalizeAug,
                         ContrastJitterAug, CreateAugmenter,
                         ForceResizeAug, HorizontalFlipAug, HueJitterAug, LightingAug, RandomCropAug, RandomGrayAug,
                         RandomOrderAug, RandomSizedCropAug,
                         ResizeAug, SaturationJitterAug, SequentialAug)
from .detection import (CreateDetAugmenter, CreateMultiRandCropAugmenter, DetAugmenter, DetBorrowAug,
                        DetHorizontalFlipAug, DetRandomCropAug,
                        DetRandomPadAug, DetRandomSelectAug)
from .detection_iterator import ImageDetIter
from .image import _get_interp_method  # noqa: F401  programs take it from here
from .image import (center_crop, color_normalize, copyMakeBorder, fixed_crop, imdecode, imread, imresize, random_crop,
                    random_size_crop, resize_short,
                    scale_down)
from .iterator import ImageIter
from .rotation import imrotate, random_rotate

__all__ = ["Augmenter", "BrightnessJitterAug", "CastAug", "CenterCropAug", "ColorJitterAug", "ColorNormalizeAug",
           "ContrastJitterAug", "CreateAugmenter",
           "CreateDetAugmenter", "CreateMultiRandCropAugmenter", "DetAugmenter", "DetBorrowAug",
           "DetHorizontalFlipAug", "DetRandomCropAug",
           "DetRandomPadAug", "DetRandomSelectAug", "ImageDetIter", "ImageIter",
           "ForceResizeAug", "HorizontalFlipAug", "HueJitterAug", "LightingAug", "RandomCropAug", "RandomGrayAug",
           "RandomOrderAug", "RandomSizedCropAug",
           "ResizeAug", "SaturationJitterAug", "SequentialAug", "center_crop", "color_normalize", "copyMakeBorder",
           "fixed_crop", "image", "imdecode",
           "imread", "imresize", "imrotate", "random_crop", "random_rotate", "random_size_crop", "resize_short",
           "scale_down"]

_hinted(globals())
