"""The operators: importing the package registers every family."""
from __future__ import annotations

from . import (arrange, boxes, conv, creation, ctc, decompose, einsum, elementwise, image, indexing, linalg, nn, norm, order,
               output, random, reduction, registry, resize, sequence, shape)

__all__ = ["arrange", "boxes", "conv", "creation", "ctc", "decompose", "einsum", "elementwise", "image", "indexing", "linalg", "nn", "norm",
           "order", "output", "random", "reduction", "registry", "resize", "sequence", "shape"]
