"""The layers over whole sequences, under the module name that MXNet has for them."""
from __future__ import annotations

from ..hybrid_block import HybridBlock  # noqa: F401  found here in MXNet
from .layer import GRU, LSTM, RNN, _RNNLayer  # noqa: F401

__all__ = ["GRU", "LSTM", "RNN"]
