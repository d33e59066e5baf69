"""The operators: importing the package registers every family."""
from __future__ import annotations

from . import (arrange, conv, creation, elementwise, indexing, linalg, nn, norm, random, reduction, registry, shape)

__all__ = ["arrange", "conv", "creation", "elementwise", "indexing", "linalg", "nn", "norm", "random",
           "reduction", "registry", "shape"]
