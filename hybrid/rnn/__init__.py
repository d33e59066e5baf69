"""MXNet's ``mx.rnn``: recurrent cells on Symbols, for ``mod.Module`` and ``mod.BucketingModule``. Cells for blocks are
in ``gluon.rnn``."""
from __future__ import annotations

from .cell import BaseRNNCell, GRUCell, LSTMCell, RNNCell, RNNParams
from .checkpoint import do_rnn_checkpoint, load_rnn_checkpoint, rnn_unroll, save_rnn_checkpoint
from .containers import BidirectionalCell, DropoutCell, ModifierCell, ResidualCell, SequentialRNNCell, ZoneoutCell
from .conv import BaseConvRNNCell, ConvGRUCell, ConvLSTMCell, ConvRNNCell
from .fused import FusedRNNCell
from .io import BucketSentenceIter, encode_sentences

__all__ = ["BaseConvRNNCell", "BaseRNNCell", "BidirectionalCell", "BucketSentenceIter", "ConvGRUCell", "ConvLSTMCell",
           "ConvRNNCell", "DropoutCell",
           "FusedRNNCell", "GRUCell", "LSTMCell", "ModifierCell", "RNNCell", "RNNParams", "ResidualCell",
           "SequentialRNNCell", "ZoneoutCell",
           "do_rnn_checkpoint", "encode_sentences", "load_rnn_checkpoint", "rnn_unroll", "save_rnn_checkpoint"]
