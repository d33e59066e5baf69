"""The layers over whole sequences, under the module name that MXNet has for them."""
from __future__ import annotations

from .layer import GRU, LSTM, RNN

__all__ = ["GRU", "LSTM", "RNN"]
