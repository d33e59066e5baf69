"""FusedRNNCell: several recurrent layers as one operator, whose weights are one packed vector."""
from __future__ import annotations

import logging
from typing import Any, Iterator, Mapping, Sequence

from .. import nd
from ..graph import symbol
from ..base.errors import AttributeValueError
from ..mxnet.initializer import FusedRNN
from ..ops.rnn import GATES, GATE_SUFFIXES, packed_pieces
from ..graph.symbol import Symbol
from .cell import BaseRNNCell, GRUCell, LSTMCell, RNNCell, RNNParams, format_sequence
from .containers import BidirectionalCell, DropoutCell, SequentialRNNCell


class FusedRNNCell(BaseRNNCell):
    """Recurrent layers over a whole sequence as one ``RNN`` operator. It is unrolled, not stepped.

    num_hidden: size of the states. mode: ``rnn_relu``, ``rnn_tanh``, ``lstm`` or ``gru``. dropout: between layers, in
    training. get_next_state: give the last states too. forget_bias: what the forget gates' biases begin with. prefix:
    ``lstm_`` and so on by default.

    >>> outputs, _ = FusedRNNCell(5, num_layers=2).unroll(3, sym.var("data"), layout="TNC")
    >>> outputs.infer_shape(data=(3, 2, 10))[1]
    [(3, 2, 5)]
    """

    def __init__(self, num_hidden: int, num_layers: int = 1, mode: str = "lstm", bidirectional: bool = False,
                 dropout: float = 0.0,
                 get_next_state: bool = False, forget_bias: float = 1.0, prefix: str | None = None,
                 params: RNNParams | None = None):
        if mode not in GATES:
            raise AttributeValueError(f"FusedRNNCell: mode must be one of {', '.join(GATES)}, got {mode!r}")
        super().__init__(prefix=f"{mode}_" if prefix is None else prefix, params=params)
        self._num_hidden, self._num_layers, self._mode = num_hidden, num_layers, mode
        self._bidirectional, self._dropout, self._get_next_state, self._forget_bias = (bidirectional, dropout,
                get_next_state, forget_bias)
        self._directions = ["l", "r"] if bidirectional else ["l"]
        self._parameter = self._params.get("parameters",
                                           init=FusedRNN(None, num_hidden, num_layers, mode, bidirectional,
                                                         forget_bias))

    @property
    def state_info(self) -> list[dict[str, Any]]:
        lead = self._num_layers * len(self._directions)
        return [{"shape": (lead, 0, self._num_hidden), "__layout__": "LNC"}
                for _ in range(2 if self._mode == "lstm" else 1)]

    @property
    def _gate_names(self) -> Sequence[str]:
        return list(GATE_SUFFIXES[self._mode])

    @property
    def _num_gates(self) -> int:
        return GATES[self._mode]

    # ---- weights
    def _pieces(self, width: int) -> Iterator[tuple[str, slice, tuple[int, ...]]]:
        """Name, place and shape of each gate's weights within the vector."""
        at = 0
        for group, gate, kind, shape in packed_pieces(self._mode, width, self._num_hidden, self._num_layers,
                                                      self._bidirectional):
            count = shape[0] * (shape[1] if len(shape) > 1 else 1)
            yield f"{self._prefix}{group}{self._gate_names[gate]}_{kind}", slice(at, at + count), shape
            at += count

    def _width(self, count: int) -> int:
        """The inputs' width for a vector of ``count`` numbers."""
        ways, hidden = len(self._directions), self._num_hidden
        rows, rest = divmod(count, ways * hidden * self._num_gates)
        width = rows - (self._num_layers - 1) * (hidden + ways * hidden + 2) - hidden - 2
        if rest or width < 1:
            raise AttributeValueError(f"{self._prefix}parameters of {count} numbers do not fit num_hidden={hidden}, "
                                      f"num_layers={self._num_layers}, "
                                      f"mode={self._mode!r}, bidirectional={self._bidirectional}")
        return width

    def unpack_weights(self, args: Mapping[str, Any]) -> dict[str, Any]:
        """Arrays by name, with one for each layer's and gate's weights (``lstm_l0_i2h_i_weight``, …) instead of the
        vector."""
        args = dict(args)
        name = f"{self._prefix}parameters"
        if name not in args:
            raise AttributeValueError(f"no array {name!r} among {', '.join(sorted(args))}")
        whole = args.pop(name)
        args.update({name: whole[at].reshape(shape).copy()
                     for name, at, shape in self._pieces(self._width(whole.size))})
        return args

    def pack_weights(self, args: Mapping[str, Any]) -> dict[str, Any]:
        """The reverse of ``unpack_weights``."""
        args = dict(args)
        first = f"{self._prefix}l0_i2h{self._gate_names[0]}_weight"
        if first not in args:
            raise AttributeValueError(f"no array {first!r} among {', '.join(sorted(args))}")
        names = [name for name, _, _ in self._pieces(args[first].shape[1])]
        args[f"{self._prefix}parameters"] = nd.concatenate([args.pop(name).reshape((-1,)) for name in names])
        return args

    # ---- use
    def __call__(self, inputs: Symbol, states: Sequence[Symbol]) -> tuple[Symbol, list[Symbol]]:
        raise NotImplementedError("FusedRNNCell cannot be stepped: use unroll(), or unfuse() it")

    def unroll(self, length: int, inputs: Any, begin_state: Sequence[Symbol] | None = None, layout: str = "NTC",
               merge_outputs: bool | None = None) -> tuple[Any, list[Any]]:
        """All layers over a sequence, as ``BaseRNNCell.unroll``; TNC is the layout of the operator, NTC costs two
        transpositions."""
        self.reset()
        inputs, axis = format_sequence(length, inputs, layout, True)
        if axis == 1:
            logging.getLogger(__name__).debug("FusedRNNCell.unroll: layout %s is transposed; TNC is not", layout)
            inputs = symbol.swapaxes(inputs, dim1=0, dim2=1)
        states = self.begin_state() if begin_state is None else begin_state
        more = {"state": states[0], **({"state_cell": states[1]} if self._mode == "lstm" else {})}
        rnn = symbol.RNN(data=inputs, parameters=self._parameter, state_size=self._num_hidden,
                         num_layers=self._num_layers, bidirectional=self._bidirectional,
                         p=self._dropout, state_outputs=self._get_next_state, mode=self._mode,
                         name=f"{self._prefix}rnn",
                         **({"__layout__": "LNC"} if self._get_next_state else {}), **more)
        outputs, last = (rnn[0], [rnn[k] for k in range(1, len(rnn))]) if self._get_next_state else (rnn, [])
        if axis == 1:
            outputs = symbol.swapaxes(outputs, dim1=0, dim2=1)
        return format_sequence(length, outputs, layout, merge_outputs)[0], last

    def unfuse(self) -> SequentialRNNCell:
        """The same layers as cells, which can be stepped; ``unpack_weights`` here and ``pack_weights`` there carry
        weights over."""
        def cell(prefix: str) -> BaseRNNCell:
            if self._mode == "lstm":
                return LSTMCell(self._num_hidden, prefix, forget_bias=self._forget_bias)
            return GRUCell(self._num_hidden,
                           prefix) if self._mode == "gru" else RNNCell(self._num_hidden, self._mode[4:], prefix)
        stack = SequentialRNNCell()
        for i in range(self._num_layers):
            one = cell(f"{self._prefix}l{i}_")
            stack.add(BidirectionalCell(one, cell(f"{self._prefix}r{i}_"), output_prefix=f"{self._prefix}bi_l{i}_")
                      if self._bidirectional else one)
            if self._dropout > 0 and i != self._num_layers - 1:
                stack.add(DropoutCell(self._dropout, prefix=f"{self._prefix}_dropout{i}_"))
        return stack


__all__ = ["FusedRNNCell"]
