"""The operators: importing the package registers every family."""
from __future__ import annotations

from . import (arrange, assign, attention, boxes, conv, copying, creation, ctc, decompose, deformable, densities,
               distributions,
               einsum, elementwise, image, indexing, linalg,
               multibox, nn, norm, np_arrange, np_fourier, np_linalg, order, orthogonal, output, output_names, padding,
               patches, pooling, position_sensitive, proposal, quantization, random, reduction, regions, registry,
               resize, rnn, rounding, sequence, shape, slicing, triangles, updates, updates_many,
               various)
from . import np_files  # gives more names to operators of the families above

__all__ = ["arrange", "assign", "attention", "boxes", "conv", "copying", "creation", "ctc", "decompose", "deformable",
           "densities", "distributions", "einsum",
           "elementwise", "image", "indexing", "linalg", "multibox", "nn", "norm", "np_arrange", "np_files",
           "np_fourier", "np_linalg", "order", "orthogonal", "output", "output_names",
           "padding", "patches", "pooling", "position_sensitive", "proposal", "quantization", "random",
           "reduction", "regions",
           "registry", "resize", "rnn", "rounding", "sequence", "shape", "slicing",
           "triangles", "updates", "updates_many", "various"]
