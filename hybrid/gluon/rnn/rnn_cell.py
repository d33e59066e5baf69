"""All recurrent cells, under the module name that MXNet has for them."""
from __future__ import annotations

from ..block import Block  # noqa: F401  found here in MXNet
from ..hybrid_block import HybridBlock  # noqa: F401
from .cell import GRUCell, HybridRecurrentCell, LSTMCell, RecurrentCell, RNNCell
from .containers import BidirectionalCell, HybridSequentialRNNCell, SequentialRNNCell
from .modifier import DropoutCell, ModifierCell, ResidualCell, ZoneoutCell

__all__ = ["BidirectionalCell", "DropoutCell", "GRUCell", "HybridRecurrentCell", "HybridSequentialRNNCell", "LSTMCell",
           "ModifierCell", "RNNCell", "RecurrentCell",
           "ResidualCell", "SequentialRNNCell", "ZoneoutCell"]
