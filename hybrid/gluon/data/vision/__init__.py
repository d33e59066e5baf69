"""Image datasets and transforms."""
from __future__ import annotations

from . import transforms
from .datasets import CIFAR10, CIFAR100, FashionMNIST, ImageFolderDataset, ImageRecordDataset, MNIST

__all__ = ["CIFAR10", "CIFAR100", "FashionMNIST", "ImageFolderDataset", "ImageRecordDataset", "MNIST", "transforms"]
