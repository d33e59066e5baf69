"""The operators: importing the package registers every family."""
from __future__ import annotations

from . import (arrange, assign, attention, boxes, conv, creation, ctc, decompose, deformable, distributions, einsum, elementwise, image, indexing, linalg, multibox, nn, norm,
               order, output, random, reduction, regions, registry, resize, rnn, sequence, shape, updates, updates_many)

__all__ = ["arrange", "assign", "attention", "boxes", "conv", "creation", "ctc", "decompose", "deformable", "distributions", "einsum",
           "elementwise", "image", "indexing", "linalg", "multibox", "nn", "norm",
           "order", "output", "random", "reduction", "regions", "registry", "resize", "rnn", "sequence", "shape", "updates", "updates_many"]
