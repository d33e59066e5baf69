"""MXNet's ``gluon.contrib.nn``: the pixel shuffles, and layers that stand in ``gluon.nn`` here."""
from __future__ import annotations

import sys
from typing import Any

from ...base.other_names import hinted as _hinted
from ...nd.functions import resolve
from ..block import Block
from ..hybrid_block import HybridBlock
from ..nn.basic_layers import Concurrent, HybridConcurrent, Identity, SyncBatchNorm
from ..nn.checks import several


class _PixelShuffle(HybridBlock):
    _axes = 0

    def __init__(self, factor: Any):
        super().__init__()
        self._factors = several(type(self).__name__, "factor", factor, self._axes, 1)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._factors if self._axes > 1 else self._factors[0]})"


class PixelShuffle1D(_PixelShuffle):
    """Channels to pixels: (N, f C, W) to (N, C, f W).

    >>> PixelShuffle1D(2)(nd.zeros((1, 8, 3))).shape
    (1, 4, 6)
    """
    _axes = 1

    def hybrid_forward(self, F: Any, x: Any) -> Any:                 # type: ignore[override]  # noqa: N803
        x = F.reshape(x, (0, -4, -1, self._factors[0], 0))           # (N, C, f, W)
        return F.reshape(F.transpose(x, (0, 1, 3, 2)), (0, 0, -3))


class PixelShuffle2D(_PixelShuffle):
    """Channels to pixels: (N, f1 f2 C, H, W) to (N, C, f1 H, f2 W) (Shi et al. 2016, arXiv 1609.05158).

    >>> PixelShuffle2D((2, 3))(nd.zeros((1, 12, 3, 5))).shape
    (1, 2, 6, 15)
    """
    _axes = 2

    def hybrid_forward(self, F: Any, x: Any) -> Any:                 # type: ignore[override]  # noqa: N803
        f1, f2 = self._factors
        x = F.reshape(x, (0, -4, -1, f1 * f2, 0, 0))                 # (N, C, f1 f2, H, W)
        x = F.reshape(x, (0, 0, -4, f1, f2, 0, 0))                   # (N, C, f1, f2, H, W)
        return F.reshape(F.transpose(x, (0, 1, 4, 2, 5, 3)), (0, 0, -3, -3))


class PixelShuffle3D(_PixelShuffle):
    """Channels to voxels: (N, f1 f2 f3 C, D, H, W) to (N, C, f1 D, f2 H, f3 W)."""
    _axes = 3

    def hybrid_forward(self, F: Any, x: Any) -> Any:                 # type: ignore[override]  # noqa: N803
        f1, f2, f3 = self._factors                                   # one axis at a time: MXNet cannot transpose eight
        x = F.reshape(x, (0, -4, -1, f1 * f2 * f3, 0, 0, 0))         # (N, C, f1 f2 f3, D, H, W)
        x = F.reshape(F.swapaxes(x, 2, 3), (0, 0, 0, -4, f1, f2 * f3, 0, 0))
        x = F.swapaxes(F.reshape(x, (0, 0, -3, 0, 0, 0)), 3, 4)      # (N, C, D f1, H, f2 f3, W)
        x = F.reshape(F.reshape(x, (0, 0, 0, 0, -4, f2, f3, 0)), (0, 0, 0, -3, 0, 0))
        return F.reshape(F.swapaxes(x, 4, 5), (0, 0, 0, 0, -3))


class SparseEmbedding(Block):
    """Embedding whose weight is row_sparse: a call brings the rows that it looks up from the value that a Trainer
    keeps, and their gradient is row_sparse."""

    def __init__(self, input_dim: int, output_dim: int, dtype: Any = "float32", weight_initializer: Any = None,
                 **kwargs: Any):
        super().__init__(**kwargs)
        self._kwargs = {"input_dim": input_dim, "output_dim": output_dim, "dtype": dtype}
        self.weight = self.params.get("weight", shape=(input_dim, output_dim), init=weight_initializer, dtype=dtype,
                                      grad_stype="row_sparse", stype="row_sparse")

    def forward(self, x: Any) -> Any:
        return resolve("nd", "Embedding")(x, self.weight.row_sparse_data(x), **self._kwargs)

    def __repr__(self) -> str:
        return f"SparseEmbedding({self._kwargs['input_dim']} -> {self._kwargs['output_dim']}, {self._kwargs['dtype']})"


__all__ = ["Concurrent", "HybridConcurrent", "Identity", "PixelShuffle1D", "PixelShuffle2D", "PixelShuffle3D",
           "SparseEmbedding", "SyncBatchNorm"]
basic_layers = sys.modules[__name__]                                 # MXNet has a folder

_hinted(globals())
