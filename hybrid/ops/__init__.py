"""The operators: importing the package registers every family."""
from __future__ import annotations

from . import (arrange, conv, creation, einsum, elementwise, indexing, linalg, nn, norm, output, random, reduction,
               registry, sequence, shape)

__all__ = ["arrange", "conv", "creation", "einsum", "elementwise", "indexing", "linalg", "nn", "norm",
           "output", "random", "reduction", "registry", "sequence", "shape"]
