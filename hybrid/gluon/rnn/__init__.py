"""Recurrent cells, and layers over whole sequences."""
from __future__ import annotations

from ...base.other_names import hinted as _hinted
from . import rnn_cell, rnn_layer
from .cell import GRUCell, HybridRecurrentCell, LSTMCell, RecurrentCell, RNNCell
from .containers import BidirectionalCell, HybridSequentialRNNCell, SequentialRNNCell
from .layer import GRU, LSTM, RNN
from .modifier import DropoutCell, ModifierCell, ResidualCell, ZoneoutCell

__all__ = ["BidirectionalCell", "DropoutCell", "GRU", "GRUCell", "HybridRecurrentCell", "HybridSequentialRNNCell",
           "LSTM", "LSTMCell", "ModifierCell",
           "RNN", "RNNCell", "RecurrentCell", "ResidualCell", "SequentialRNNCell", "ZoneoutCell", "rnn_cell",
           "rnn_layer"]

_hinted(globals())
