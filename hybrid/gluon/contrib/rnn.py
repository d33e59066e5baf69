"""MXNet's ``gluon.contrib.rnn``: variational dropout, LSTM with projection, convolutional cells, and unrolling by a
loop."""
from __future__ import annotations

import sys
from typing import Any

from ...base.errors import AttributeValueError
from ..rnn.cell import HybridRecurrentCell
from ..rnn.containers import BidirectionalCell
from ..rnn.modifier import ModifierCell, Remembered
from ..rnn.sequence import TENSORS, format_sequence, mask_sequence, namespace_of
from . import conv_rnn as conv_rnn_cell
from .conv_rnn import (Conv1DGRUCell, Conv1DLSTMCell, Conv1DRNNCell, Conv2DGRUCell, Conv2DLSTMCell, Conv2DRNNCell,
                       Conv3DGRUCell, Conv3DLSTMCell,
                       Conv3DRNNCell)

__all__ = ["Conv1DGRUCell", "Conv1DLSTMCell", "Conv1DRNNCell", "Conv2DGRUCell", "Conv2DLSTMCell", "Conv2DRNNCell",
           "Conv3DGRUCell", "Conv3DLSTMCell",
           "Conv3DRNNCell", "LSTMPCell", "VariationalDropoutCell", "conv_rnn_cell", "dynamic_unroll", "rnn_cell"]

rnn_cell = sys.modules[__name__]                                     # MXNet has two files


class VariationalDropoutCell(ModifierCell):
    """Dropout with one mask for all steps (Gal and Ghahramani 2016, arXiv 1512.05287), on inputs, the first state and
    outputs.

    >>> cell = VariationalDropoutCell(gluon.rnn.LSTMCell(100), drop_inputs=0.2, drop_states=0.3)
    """

    def __init__(self, base_cell: Any, drop_inputs: float = 0.0, drop_states: float = 0.0, drop_outputs: float = 0.0):
        if drop_states and isinstance(base_cell, BidirectionalCell):
            raise AttributeValueError("VariationalDropoutCell cannot drop states of a BidirectionalCell, which does "
                                      "not step; put it around the cells inside")
        super().__init__(base_cell)
        self.drop_inputs, self.drop_states, self.drop_outputs = drop_inputs, drop_states, drop_outputs
        self.__dict__["_masks"] = {what: Remembered() for what in ("inputs", "states", "outputs")}

    def _alias(self) -> str:
        return "vardrop"

    def reset(self) -> None:
        """Begin a new sequence, with new masks."""
        super().reset()
        for mask in self.__dict__.get("_masks", {}).values():
            mask.clear()

    def _masked(self, F: Any, what: str, rate: float, x: Any) -> Any:  # noqa: N803
        if not rate:
            return x
        kept = self.__dict__["_masks"][what]
        mask = kept.get()
        return x * (mask if mask is not None else kept.set(F.Dropout(F.ones_like(x), p=rate)))

    def hybrid_forward(self, F: Any, inputs: Any, states: Any) -> Any:        # type: ignore[override]  # noqa: N803
        states = [states] if isinstance(states, TENSORS) else list(states)
        states = [self._masked(F, "states", self.drop_states, states[0]), *states[1:]]
        output, new = self.base_cell(self._masked(F, "inputs", self.drop_inputs, inputs), states)
        return self._masked(F, "outputs", self.drop_outputs, output), new

    def __repr__(self) -> str:
        return f"{type(self).__name__}(p_out = {self.drop_outputs}, p_state = {self.drop_states})"

    def unroll(self, length: int, inputs: Any, begin_state: Any = None, layout: str = "NTC",
               merge_outputs: bool | None = None,
               valid_length: Any = None) -> tuple[Any, Any]:
        """Step over a sequence, or, where no states are dropped, the base cell over the masked sequence; see
        ``RecurrentCell.unroll``."""
        if self.drop_states:
            return super().unroll(length, inputs, begin_state, layout, merge_outputs, valid_length)
        self.reset()
        inputs, axis = format_sequence(length, inputs, layout, True)
        F = namespace_of(inputs)  # noqa: N806
        states = self._first_states(F, begin_state, inputs, layout)
        if self.drop_inputs:
            inputs = F.Dropout(inputs, p=self.drop_inputs, axes=(axis,))
        self.base_cell.__dict__["_modified"] = False
        try:
            outputs, states = self.base_cell.unroll(length, inputs, states, layout, merge_outputs=True,
                                                    valid_length=valid_length)
        finally:
            self.base_cell.__dict__["_modified"] = True
        if self.drop_outputs:
            outputs = F.Dropout(outputs, p=self.drop_outputs, axes=(axis,))
        merge = isinstance(outputs, TENSORS) if merge_outputs is None else merge_outputs
        outputs, _ = format_sequence(length, outputs, layout, merge)
        if valid_length is not None:
            steps = length if length is not None else outputs.shape[axis] if merge else len(outputs)
            outputs = mask_sequence(F, outputs, steps, valid_length, axis, merge)
        return outputs, states


class LSTMPCell(HybridRecurrentCell):
    """LSTM whose output and first state are projected to ``projection_size`` (Sak et al. 2014, arXiv 1402.1128).

    Inputs (N, C), states r (N, projection_size) and c (N, hidden_size).
    """

    def __init__(self, hidden_size: int, projection_size: int, i2h_weight_initializer: Any = None,
                 h2h_weight_initializer: Any = None,
                 h2r_weight_initializer: Any = None, i2h_bias_initializer: Any = "zeros",
                 h2h_bias_initializer: Any = "zeros", input_size: int = 0,
                 prefix: str | None = None, params: Any = None):
        super().__init__(prefix=prefix, params=params)
        self._hidden_size, self._input_size, self._projection_size = hidden_size, input_size, projection_size
        shapes = {"i2h_weight": (4 * hidden_size, input_size), "h2h_weight": (4 * hidden_size, projection_size),
                  "h2r_weight": (projection_size, hidden_size),
                  "i2h_bias": (4 * hidden_size,), "h2h_bias": (4 * hidden_size,)}
        inits = {"i2h_weight": i2h_weight_initializer, "h2h_weight": h2h_weight_initializer,
                 "h2r_weight": h2r_weight_initializer,
                 "i2h_bias": i2h_bias_initializer, "h2h_bias": h2h_bias_initializer}
        for name, shape in shapes.items():
            setattr(self, name, self.params.get(name, shape=shape, init=inits[name], allow_deferred_init=True))

    def state_info(self, batch_size: int = 0) -> list[dict[str, Any]]:
        return [{"shape": (batch_size, n), "__layout__": "NC"} for n in (self._projection_size, self._hidden_size)]

    def _alias(self) -> str:
        return "lstmp"

    def __repr__(self) -> str:
        shape = self.i2h_weight.shape
        return f"{type(self).__name__}({shape[1] or None} -> {shape[0]} -> {self.h2r_weight.shape[0]})"

    def hybrid_forward(self, F: Any, inputs: Any, states: Any, i2h_weight: Any, h2h_weight: Any, h2r_weight: Any,
                       i2h_bias: Any,     # type: ignore[override]
                       h2h_bias: Any) -> Any:  # noqa: N803
        p, wide = f"t{self._counter}_", 4 * self._hidden_size
        i2h = F.FullyConnected(data=inputs, weight=i2h_weight, bias=i2h_bias, num_hidden=wide, name=p + "i2h")
        h2h = F.FullyConnected(data=states[0], weight=h2h_weight, bias=h2h_bias, num_hidden=wide, name=p + "h2h")
        gate = F.SliceChannel(i2h + h2h, num_outputs=4, name=p + "slice")
        i = F.Activation(gate[0], act_type="sigmoid", name=p + "i")
        f = F.Activation(gate[1], act_type="sigmoid", name=p + "f")
        g = F.Activation(gate[2], act_type="tanh", name=p + "c")
        o = F.Activation(gate[3], act_type="sigmoid", name=p + "o")
        next_c = F.elemwise_add(f * states[1], i * g, name=p + "state")
        hidden = F.elemwise_mul(o, F.Activation(next_c, act_type="tanh"), name=p + "hidden")
        next_r = F.FullyConnected(data=hidden, num_hidden=self._projection_size, weight=h2r_weight, no_bias=True,
                                  name=p + "out")
        return next_r, [next_r, next_c]


def dynamic_unroll(cell: Any, inputs: Any, begin_state: Any, drop_inputs: float = 0, drop_outputs: float = 0,
                   layout: str = "TNC",
                   valid_length: Any = None) -> tuple[Any, Any]:
    """A cell over a sequence by ``contrib.foreach``: one array in, one array out, any length; see
    ``RecurrentCell.unroll``."""
    inputs, axis = format_sequence(None, inputs, layout, True)
    F = namespace_of(inputs)  # noqa: N806
    if axis:
        inputs = F.swapaxes(inputs, 0, axis)
    if drop_inputs:
        inputs = F.Dropout(inputs, p=drop_inputs, axes=(0,))
    states = [begin_state] if isinstance(begin_state, TENSORS) else list(begin_state)

    def masked(x: Any, own: Any) -> Any:
        step = own[-1]
        out, new = cell(x, own[:-1])
        inside = F.broadcast_greater(valid_length, step)
        return out, [*(F.where(inside, n, old) for n, old in zip(new, own)), step + 1]
    if valid_length is None:
        outputs, states = F.contrib.foreach(cell, inputs, states)
    else:
        outputs, states = F.contrib.foreach(masked, inputs, [*states, F.zeros((1,))])
        states = states[:-1]
    if drop_outputs:
        outputs = F.Dropout(outputs, p=drop_outputs, axes=(0,))
    if axis:
        outputs = F.swapaxes(outputs, 0, axis)
    if valid_length is not None:
        outputs = F.SequenceMask(outputs, sequence_length=valid_length, use_sequence_length=True, axis=axis)
    return outputs, states
