"""Recurrent cells: the base classes, and ``unroll`` over time."""
from __future__ import annotations

from typing import Any

from ... import nd
from ...buffers.array import NDArray
from ...base.errors import AttributeValueError, ShapeError
from ...graph.symbol import Symbol
from .. import nn
from ..block import Block
from ..hybrid_block import HybridBlock
from .sequence import TENSORS, batch_of, first_state, format_sequence, mask_sequence, namespace_of, open_batch


Stepped = tuple[NDArray, list[NDArray]]            # what a step gives: its output and the new states


class RecurrentCell(Block[Stepped]):
    """One step of a recurrent network: ``output, states = cell(inputs, states)``.

    A subclass defines ``state_info(batch_size)`` and ``forward(inputs, states)``; ``unroll`` goes over a sequence.

    >>> cell = LSTMCell(100)
    >>> cell.initialize()
    >>> outputs, states = cell.unroll(3, nd.ones((2, 3, 10)), merge_outputs=True)
    >>> outputs.shape
    (2, 3, 100)
    """

    _counter: int
    _init_counter: int
    _modified: bool

    def __init__(self, prefix: str | None = None, params: Any = None):
        super().__init__(prefix=prefix, params=params)
        self.__dict__["_modified"] = False
        self.reset()

    def reset(self) -> None:
        """Begin a new sequence: step numbers in names, and what a cell remembers between steps."""
        # past __setattr__: a compiled step does not depend on them
        self.__dict__["_counter"] = self.__dict__["_init_counter"] = -1
        for cell in self._children.values():
            if isinstance(cell, RecurrentCell):
                cell.reset()

    def _next(self, counter: str) -> int:
        self.__dict__[counter] += 1
        return self.__dict__[counter]

    def state_info(self, batch_size: int = 0) -> list[dict[str, Any]]:
        """Shape and layout of each state."""
        raise NotImplementedError(f"{type(self).__name__} must define state_info(self, batch_size=0)")

    def _check_free(self) -> None:
        if self._modified:
            raise AttributeValueError(f"{type(self).__name__} {self.name!r} was given to a modifier cell "
                                      f"(ZoneoutCell, ResidualCell …); use that one instead of it")

    def begin_state(self, batch_size: int = 0, func: Any = nd.zeros, **kwargs: Any) -> list[Any]:
        """The first states. func: what makes one (``nd.zeros``, ``nd.ones``, ``sym.zeros``, ``sym.var`` …); kwargs go
        to it."""
        self._check_free()
        states = []
        for info in self.state_info(batch_size):
            n = self._next("_init_counter")
            states.append(first_state(func, f"{self._prefix}begin_state_{n}", info, kwargs))
        return states

    def _first_states(self, F: Any, begin_state: Any, inputs: Any, layout: str) -> Any:  # noqa: N803
        if begin_state is not None:
            return [begin_state] if isinstance(begin_state, TENSORS) else begin_state
        batch = batch_of(inputs, layout)
        first = inputs if isinstance(inputs, TENSORS) else inputs[0]
        more = {} if isinstance(first, Symbol) and first.dtype is None else {"dtype": first.dtype}
        if F is nd:
            more["ctx"] = first.context
        return open_batch(self.begin_state(batch_size=batch, func=F.zeros, **more))

    def unroll(self, length: int, inputs: Any, begin_state: Any = None, layout: str = "NTC",
               merge_outputs: bool | None = None,
               valid_length: Any = None) -> tuple[Any, Any]:
        """Step over a sequence.

        length: number of steps. inputs: one array of the layout ``NTC`` or ``TNC``, or a list of arrays (N, C), one a
        step. begin_state: the first states, zeros unless given. merge_outputs: True, one array; False, a list; None,
        what comes. valid_length: (N,), the length of each sequence; outputs behind it are zero, states are those at the
        end. Returns outputs and the last states.
        """
        self.reset()
        steps, axis = format_sequence(length, inputs, layout, False)
        F = namespace_of(steps)  # noqa: N806
        states = self._first_states(F, begin_state, steps, layout)
        outputs, every = [], []
        for i in range(len(steps)):
            output, states = self(steps[i], states)
            outputs.append(output)
            if valid_length is not None:
                every.append(states)
        if valid_length is not None:
            states = [F.SequenceLast(F.stack(*parts, axis=0), sequence_length=valid_length, use_sequence_length=True,
                                     axis=0) for parts in zip(*every)]
            outputs = mask_sequence(F, outputs, len(steps), valid_length, axis, True)
        return format_sequence(len(steps), outputs, layout, merge_outputs)[0], states

    def _get_activation(self, F: Any, inputs: Any, activation: Any, **kwargs: Any) -> Any:  # noqa: N803
        if activation in ("tanh", "relu", "sigmoid", "softsign"):
            return getattr(F, activation)(inputs, **kwargs)
        if isinstance(activation, str):
            return F.Activation(inputs, act_type=activation, **kwargs)
        if isinstance(activation, nn.LeakyReLU):
            return F.LeakyReLU(inputs, act_type="leaky", slope=activation._alpha, **kwargs)
        return activation(inputs, **kwargs)

    def forward(self, inputs: Any, states: Any) -> Any:                      # type: ignore[override]
        """One step: output and new states."""
        self._next("_counter")
        return super().forward(inputs, states)


class HybridRecurrentCell(RecurrentCell, HybridBlock[Stepped]):
    """A cell that can be hybridized: it defines ``hybrid_forward(F, inputs, states, **params)``."""

    def hybrid_forward(self, F: Any, x: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N803
        """One step; override it."""
        raise NotImplementedError(f"{type(self).__name__} must define hybrid_forward(self, F, inputs, states, **params)")  # noqa: E501


class GatedCell(HybridRecurrentCell):
    """What RNNCell, LSTMCell and GRUCell share: two products with weights, of ``gates`` times the hidden size."""
    gates = 1

    def __init__(self, hidden_size: int, i2h_weight_initializer: Any, h2h_weight_initializer: Any,
                 i2h_bias_initializer: Any,
                 h2h_bias_initializer: Any, input_size: int, prefix: str | None, params: Any):
        super().__init__(prefix=prefix, params=params)
        if not isinstance(hidden_size, int) or hidden_size < 1:
            raise AttributeValueError(f"{type(self).__name__}: hidden_size must be a positive integer, got "
                                      f"{hidden_size!r}")
        self._hidden_size, self._input_size = hidden_size, input_size
        wide = self.gates * hidden_size
        self.i2h_weight = self.params.get("i2h_weight", shape=(wide, input_size), init=i2h_weight_initializer,
                                          allow_deferred_init=True)
        self.h2h_weight = self.params.get("h2h_weight", shape=(wide, hidden_size), init=h2h_weight_initializer,
                                          allow_deferred_init=True)
        self.i2h_bias = self.params.get("i2h_bias", shape=(wide,), init=i2h_bias_initializer, allow_deferred_init=True)
        self.h2h_bias = self.params.get("h2h_bias", shape=(wide,), init=h2h_bias_initializer, allow_deferred_init=True)

    def state_info(self, batch_size: int = 0) -> list[dict[str, Any]]:
        return [{"shape": (batch_size, self._hidden_size), "__layout__": "NC"}]

    def _alias(self) -> str:
        return type(self).__name__[:-4].lower()

    def _mapping(self) -> str:
        shape = self.i2h_weight.shape
        return f"{shape[1] or None} -> {shape[0]}"

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._mapping()})"

    def _products(self, F: Any, inputs: Any, state: Any, i2h_weight: Any, h2h_weight: Any, i2h_bias: Any,
                  h2h_bias: Any) -> tuple[str, Any, Any]:  # noqa: N803
        prefix, wide = f"t{self._counter}_", self.gates * self._hidden_size
        i2h = F.FullyConnected(data=inputs, weight=i2h_weight, bias=i2h_bias, num_hidden=wide, name=prefix + "i2h")
        return prefix, i2h, F.FullyConnected(data=state, weight=h2h_weight, bias=h2h_bias, num_hidden=wide,
                                             name=prefix + "h2h")


class RNNCell(GatedCell):
    """Elman's cell: h' = act(W_ih x + b_ih + W_hh h + b_hh). Inputs (N, C), one state (N, hidden_size)."""

    def __init__(self, hidden_size: int, activation: Any = "tanh", i2h_weight_initializer: Any = None,
                 h2h_weight_initializer: Any = None,
                 i2h_bias_initializer: Any = "zeros", h2h_bias_initializer: Any = "zeros", input_size: int = 0,
                 prefix: str | None = None, params: Any = None):
        super().__init__(hidden_size, i2h_weight_initializer, h2h_weight_initializer, i2h_bias_initializer,
                         h2h_bias_initializer, input_size, prefix, params)
        self._activation = activation

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._mapping()}, {self._activation})"

    def hybrid_forward(self, F: Any, inputs: Any, states: Any,
                       **params: Any) -> Any:  # type: ignore[override]  # noqa: N803
        prefix, i2h, h2h = self._products(F, inputs, one_state(states), **params)
        output = self._get_activation(F, F.elemwise_add(i2h, h2h, name=prefix + "plus0"), self._activation,
                                      name=prefix + "out")
        return output, [output]


class LSTMCell(GatedCell):
    """Long short-term memory (Hochreiter and Schmidhuber 1997) with the gates input, forget, candidate, output.

    c' = f c + i g, h' = o tanh(c'). Inputs (N, C), states h and c of (N, hidden_size).
    """
    gates = 4

    def __init__(self, hidden_size: int, i2h_weight_initializer: Any = None, h2h_weight_initializer: Any = None,
                 i2h_bias_initializer: Any = "zeros",
                 h2h_bias_initializer: Any = "zeros", input_size: int = 0, prefix: str | None = None,
                 params: Any = None, activation: Any = "tanh",
                 recurrent_activation: Any = "sigmoid"):
        super().__init__(hidden_size, i2h_weight_initializer, h2h_weight_initializer, i2h_bias_initializer,
                         h2h_bias_initializer, input_size, prefix, params)
        self._activation, self._recurrent_activation = activation, recurrent_activation

    def state_info(self, batch_size: int = 0) -> list[dict[str, Any]]:
        return super().state_info(batch_size) + super().state_info(batch_size)

    def hybrid_forward(self, F: Any, inputs: Any, states: Any,
                       **params: Any) -> Any:  # type: ignore[override]  # noqa: N803
        if len(states) != 2:
            raise ShapeError(f"LSTMCell has 2 states (h and c), got {len(states)}")
        p, i2h, h2h = self._products(F, inputs, states[0], **params)
        gate = F.SliceChannel(F.elemwise_add(i2h, h2h, name=p + "plus0"), num_outputs=4, name=p + "slice")
        i = self._get_activation(F, gate[0], self._recurrent_activation, name=p + "i")
        f = self._get_activation(F, gate[1], self._recurrent_activation, name=p + "f")
        g = self._get_activation(F, gate[2], self._activation, name=p + "c")
        o = self._get_activation(F, gate[3], self._recurrent_activation, name=p + "o")
        next_c = F.elemwise_add(F.elemwise_mul(f, states[1], name=p + "mul0"), F.elemwise_mul(i, g, name=p + "mul1"),
                                name=p + "state")
        next_h = F.elemwise_mul(o, F.Activation(next_c, act_type=self._activation, name=p + "activation0"),
                                name=p + "out")
        return next_h, [next_h, next_c]


class GRUCell(GatedCell):
    """Gated recurrent unit (Cho et al. 2014, in cuDNN's form): gates reset, update, candidate.

    r = σ(i_r + h_r), z = σ(i_z + h_z), n = tanh(i_n + r h_n), h' = (1 − z) n + z h. One state (N, hidden_size).
    """
    gates = 3

    def __init__(self, hidden_size: int, i2h_weight_initializer: Any = None, h2h_weight_initializer: Any = None,
                 i2h_bias_initializer: Any = "zeros",
                 h2h_bias_initializer: Any = "zeros", input_size: int = 0, prefix: str | None = None,
                 params: Any = None):
        super().__init__(hidden_size, i2h_weight_initializer, h2h_weight_initializer, i2h_bias_initializer,
                         h2h_bias_initializer, input_size, prefix, params)

    def hybrid_forward(self, F: Any, inputs: Any, states: Any,
                       **params: Any) -> Any:  # type: ignore[override]  # noqa: N803
        h = one_state(states)
        p, i2h, h2h = self._products(F, inputs, h, **params)
        i_r, i_z, i_n = F.SliceChannel(i2h, num_outputs=3, name=p + "i2h_slice")
        h_r, h_z, h_n = F.SliceChannel(h2h, num_outputs=3, name=p + "h2h_slice")
        r = F.Activation(F.elemwise_add(i_r, h_r, name=p + "plus0"), act_type="sigmoid", name=p + "r_act")
        z = F.Activation(F.elemwise_add(i_z, h_z, name=p + "plus1"), act_type="sigmoid", name=p + "z_act")
        new = F.Activation(F.elemwise_add(i_n, F.elemwise_mul(r, h_n, name=p + "mul0"), name=p + "plus2"),
                           act_type="tanh", name=p + "h_act")
        ones = F.ones_like(z, name=p + "ones_like0")
        fresh = F.elemwise_mul(F.elemwise_sub(ones, z, name=p + "minus0"), new, name=p + "mul1")
        output = F.elemwise_add(fresh, F.elemwise_mul(z, h, name=p + "mul20"), name=p + "out")
        return output, [output]


def one_state(states: Any) -> Any:
    """The only state of a cell, given alone or in a list."""
    if isinstance(states, TENSORS):
        return states
    if len(states) != 1:
        raise ShapeError(f"this cell has 1 state, got {len(states)}")
    return states[0]
