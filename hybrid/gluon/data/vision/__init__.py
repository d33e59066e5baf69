"""Image datasets and transforms."""
from __future__ import annotations

from ....base.other_names import hinted as _hinted
from . import transforms
from .datasets import CIFAR10, CIFAR100, FashionMNIST, ImageFolderDataset, ImageRecordDataset, MNIST

__all__ = ["CIFAR10", "CIFAR100", "FashionMNIST", "ImageFolderDataset", "ImageRecordDataset", "MNIST", "transforms"]

_hinted(globals())
