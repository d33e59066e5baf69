"""Recurrent cells that make Symbols: their base class, RNN, LSTM and GRU cells. Gluon's cells are in ``gluon.rnn``."""
from __future__ import annotations

from typing import Any, Callable, Mapping, Sequence

from ..base import names
from .. import nd
from ..graph import symbol
from ..base.errors import AttributeValueError, ShapeError
from ..mxnet.initializer import LSTMBias
from ..graph.symbol import Symbol


class RNNParams:
    """Variables by name, made when they are first asked for; cells that share one share their weights. prefix: stands
    before every name.

    >>> RNNParams("rnn_").get("i2h_weight").name
    'rnn_i2h_weight'
    """

    def __init__(self, prefix: str = ""):
        self._prefix = prefix
        self._params: dict[str, Symbol] = {}

    def get(self, name: str, **kwargs: Any) -> Symbol:
        """The variable of a name; kwargs go to ``sym.var`` when it is made."""
        name = self._prefix + name
        if name not in self._params:
            self._params[name] = symbol.var(name, **kwargs)
        return self._params[name]


class BaseRNNCell:
    """One step of a recurrent network on Symbols: ``output, states = cell(inputs, states)``; ``unroll`` goes over a
    sequence.

    A subclass defines ``state_info`` and ``__call__``. prefix: of all names; params: an ``RNNParams`` of another cell,
    to share weights.

    >>> outputs, states = LSTMCell(100).unroll(3, sym.var("data"), merge_outputs=True)
    >>> outputs.infer_shape(data=(2, 3, 10))[1]
    [(2, 3, 100)]
    """

    def __init__(self, prefix: str = "", params: RNNParams | None = None):
        self._own_params = params is None
        self._prefix = prefix
        self._params = RNNParams(prefix) if params is None else params
        self._modified = False
        self._cells: list[BaseRNNCell] = []
        self.reset()

    def reset(self) -> None:
        """Begin a new graph: step numbers in names begin at 0 again."""
        self._init_counter = self._counter = -1
        for cell in self._cells:
            cell.reset()

    def __call__(self, inputs: Symbol, states: Sequence[Symbol]) -> tuple[Symbol, list[Symbol]]:
        """One step. inputs: (N, C). Returns the output and the new states."""
        raise NotImplementedError(f"{type(self).__name__} must define __call__(self, inputs, states)")

    @property
    def params(self) -> RNNParams:
        """The cell's variables. A cell whose variables were asked for shares them: a container cannot put its own in
        their place."""
        self._own_params = False
        return self._params

    @property
    def state_info(self) -> list[dict[str, Any]]:
        """Shape (0 where the batch size stands) and layout of each state."""
        raise NotImplementedError(f"{type(self).__name__} must define state_info")

    @property
    def state_shape(self) -> list[tuple[int, ...]]:
        """Shapes of the states, with 0 for the batch size."""
        return [info["shape"] for info in self.state_info]

    @property
    def _gate_names(self) -> Sequence[str]:
        """Suffixes of the gates' weights in unpacked form."""
        return ()

    def _check_free(self) -> None:
        if self._modified:
            raise AssertionError(f"{type(self).__name__} {self._prefix!r} was given to a modifier cell (ZoneoutCell, "
                                 f"ResidualCell): call that one instead of it")

    def begin_state(self, func: Callable[..., Symbol] = symbol.zeros, **kwargs: Any) -> list[Symbol]:
        """The first states. func: what makes one (``sym.zeros``, ``sym.ones``, ``sym.var`` …); kwargs go to it."""
        self._check_free()
        states = []
        for info in self.state_info:
            self._init_counter += 1
            state = func(name=f"{self._prefix}begin_state_{self._init_counter}", **{**kwargs, **info})
            if "__layout__" in info:
                state._one()[0].extra["__layout__"] = info["__layout__"]
            states.append(state)
        return states

    # ---- weights
    def _each_gate(self, group: str, kind: str) -> list[str]:
        return [f"{self._prefix}{group}{gate}_{kind}" for gate in self._gate_names]

    def unpack_weights(self, args: Mapping[str, Any]) -> dict[str, Any]:
        """Arrays by name, with one for each gate's weights: ``lstm_i2h_i_weight``, … instead of ``lstm_i2h_weight``."""
        args = dict(args)
        for group in ("i2h", "h2h") if self._gate_names else ():
            for kind in ("weight", "bias"):
                whole = _taken(args, f"{self._prefix}{group}_{kind}")
                names = self._each_gate(group, kind)
                rows = whole.shape[0] // len(names)
                args.update({name: whole[j * rows:(j + 1) * rows].copy() for j, name in enumerate(names)})
        return args

    def pack_weights(self, args: Mapping[str, Any]) -> dict[str, Any]:
        """The reverse of ``unpack_weights``."""
        args = dict(args)
        for group in ("i2h", "h2h") if self._gate_names else ():
            for kind in ("weight", "bias"):
                parts = [_taken(args, name) for name in self._each_gate(group, kind)]
                args[f"{self._prefix}{group}_{kind}"] = nd.concatenate(parts)
        return args

    # ---- sequences
    def unroll(self, length: int, inputs: Any, begin_state: Sequence[Symbol] | None = None, layout: str = "NTC",
               merge_outputs: bool | None = None) -> tuple[Any, list[Any]]:
        """Step over a sequence.

        inputs: one Symbol of the layout (``NTC`` or ``TNC``), or a list of Symbols (N, C), one a step. merge_outputs:
        True, one Symbol; False, a list; None, what comes. Returns the outputs and the last states.
        """
        self.reset()
        steps, _ = format_sequence(length, inputs, layout, False)
        states = self.begin_state() if begin_state is None else begin_state
        outputs = []
        for step in steps:
            output, states = self(step, states)
            outputs.append(output)
        return format_sequence(length, outputs, layout, merge_outputs)[0], list(states)

    def _get_activation(self, inputs: Symbol, activation: Any, **kwargs: Any) -> Symbol:
        if isinstance(activation, str):
            return symbol.Activation(inputs, act_type=activation, **kwargs)
        return activation(inputs, **kwargs)

    def _step_name(self) -> str:
        self._counter += 1
        return f"{self._prefix}t{self._counter}_"


def _taken(args: dict[str, Any], name: str) -> Any:
    if name not in args:
        raise AttributeValueError(f"no array {name!r} among {', '.join(sorted(args))}")
    return args.pop(name)


def format_sequence(length: int, inputs: Any, layout: str, merge: bool | None,
                    in_layout: str | None = None) -> tuple[Any, int]:
    """A sequence as one Symbol (``merge`` True), as a list (False) or as it is (None), and the time axis of
    ``layout``."""
    if inputs is None:
        raise AssertionError("unroll needs inputs: a Symbol with a time axis, or a list with one Symbol a step")
    axis, old = layout.find("T"), (in_layout or layout).find("T")
    if axis < 0 or old < 0:
        raise AttributeValueError(f"layout must name the time axis T, as in NTC and TNC, got {layout!r}")
    if isinstance(inputs, Symbol):
        if merge is False:
            if len(inputs.entries) != 1:
                raise AssertionError("unroll takes one Symbol or a list of Symbols, not a group: give list(group)")
            return list(symbol.split(inputs, axis=old, num_outputs=length, squeeze_axis=1)), axis
    else:
        if length is not None and len(inputs) != length:
            raise ShapeError(f"unroll over {length} steps was given {len(inputs)} inputs")
        if merge is not True:
            return list(inputs), axis
        inputs, old = symbol.Concat(*[symbol.expand_dims(i, axis=axis) for i in inputs], dim=axis), axis
    return (inputs if axis == old else symbol.swapaxes(inputs, dim1=axis, dim2=old)), axis


class _GatedCell(BaseRNNCell):
    """What the three cells share: two products with weights, of as many rows as gates times ``num_hidden``."""

    def __init__(self, num_hidden: int, prefix: str, params: RNNParams | None,
                 i2h_bias: Mapping[str, Any] | None = None):
        super().__init__(prefix=prefix, params=params)
        if not isinstance(num_hidden, int) or num_hidden < 1:
            raise AttributeValueError(f"{type(self).__name__}: num_hidden must be a positive integer, got "
                                      f"{num_hidden!r}")
        self._num_hidden = num_hidden
        get = self._params.get
        self._iW, self._iB = get("i2h_weight"), get("i2h_bias", **(i2h_bias or {}))
        self._hW, self._hB = get("h2h_weight"), get("h2h_bias")

    @property
    def state_info(self) -> list[dict[str, Any]]:
        return [{"shape": (0, self._num_hidden), "__layout__": "NC"}]

    def _products(self, inputs: Symbol, state: Symbol, name: str) -> tuple[Symbol, Symbol]:
        rows = self._num_hidden * len(self._gate_names)
        return (symbol.FullyConnected(data=inputs, weight=self._iW, bias=self._iB, num_hidden=rows, name=f"{name}i2h"),
                symbol.FullyConnected(data=state, weight=self._hW, bias=self._hB, num_hidden=rows, name=f"{name}h2h"))


class RNNCell(_GatedCell):
    """Elman's cell: h' = act(W_ih x + b_ih + W_hh h + b_hh). activation: ``tanh``, ``relu`` … or a function of a
    Symbol."""

    def __init__(self, num_hidden: int, activation: Any = "tanh", prefix: str = "rnn_",
                 params: RNNParams | None = None):
        super().__init__(num_hidden, prefix, params)
        self._activation = activation

    @property
    def _gate_names(self) -> Sequence[str]:
        return ("",)

    def __call__(self, inputs: Symbol, states: Sequence[Symbol]) -> tuple[Symbol, list[Symbol]]:
        name = self._step_name()
        i2h, h2h = self._products(inputs, states[0], name)
        output = self._get_activation(symbol.elemwise_add(i2h, h2h, name=_auto("_plus")), self._activation,
                                      name=f"{name}out")
        return output, [output]


def _auto(hint: str) -> str:
    """The next automatic name of an operator, as ``+`` and ``*`` give it."""
    return names.current().get(None, hint)


def add(a: Symbol, b: Symbol) -> Symbol:
    """The sum of Symbols of one shape."""
    return symbol.elemwise_add(a, b, name=_auto("_plus"))


def multiply(a: Symbol, b: Symbol) -> Symbol:
    """The product of Symbols of one shape."""
    return symbol.elemwise_mul(a, b, name=_auto("_mul"))


class LSTMCell(_GatedCell):
    """Long short-term memory (Hochreiter and Schmidhuber 1997): c' = f c + i g, h' = o tanh(c'). States h and c, both
    (N, num_hidden).

    forget_bias: what the forget gate's bias begins with (Jozefowicz et al. 2015).
    """

    def __init__(self, num_hidden: int, prefix: str = "lstm_", params: RNNParams | None = None,
                 forget_bias: float = 1.0):
        super().__init__(num_hidden, prefix, params, {"init": LSTMBias(forget_bias=forget_bias)})

    @property
    def state_info(self) -> list[dict[str, Any]]:
        return super().state_info + super().state_info

    @property
    def _gate_names(self) -> Sequence[str]:
        return ["_i", "_f", "_c", "_o"]

    def __call__(self, inputs: Symbol, states: Sequence[Symbol]) -> tuple[Symbol, list[Symbol]]:
        name = self._step_name()
        i2h, h2h = self._products(inputs, states[0], name)
        return lstm_step(self, symbol.SliceChannel(add(i2h, h2h), num_outputs=4, name=f"{name}slice"), states[1],
                         "tanh", name)


def lstm_step(cell: BaseRNNCell, gates: Any, c: Symbol, activation: Any, name: str) -> tuple[Symbol, list[Symbol]]:
    """Output and states of an LSTM from the sums for its gates (input, forget, candidate, output) and the old c."""
    i, f = (symbol.Activation(gates[k], act_type="sigmoid", name=f"{name}{n}") for k, n in ((0, "i"), (1, "f")))
    g = cell._get_activation(gates[2], activation, name=f"{name}c")
    o = symbol.Activation(gates[3], act_type="sigmoid", name=f"{name}o")
    kept = multiply(f, c)
    next_c = symbol.elemwise_add(kept, multiply(i, g), name=f"{name}state")
    next_h = symbol.elemwise_mul(o, cell._get_activation(next_c, activation), name=f"{name}out")
    return next_h, [next_h, next_c]


class GRUCell(_GatedCell):
    """Gated recurrent unit (Cho et al. 2014, in cuDNN's form). One state (N, num_hidden)."""

    def __init__(self, num_hidden: int, prefix: str = "gru_", params: RNNParams | None = None):
        super().__init__(num_hidden, prefix, params)

    @property
    def _gate_names(self) -> Sequence[str]:
        return ["_r", "_z", "_o"]

    def __call__(self, inputs: Symbol, states: Sequence[Symbol]) -> tuple[Symbol, list[Symbol]]:
        name = self._step_name()
        i2h, h2h = self._products(inputs, states[0], f"{name}_")
        return gru_step(self, i2h, h2h, states[0], "tanh", name)


def gru_step(cell: BaseRNNCell, i2h: Symbol, h2h: Symbol, h: Symbol, activation: Any, name: str,
             **axis: int) -> tuple[Symbol, list[Symbol]]:
    """r = σ(i_r + h_r), z = σ(i_z + h_z), n = act(i_n + r h_n), h' = (1 − z) n + z h."""
    i_r, i_z, i_n = symbol.SliceChannel(i2h, num_outputs=3, name=f"{name}_i2h_slice", **axis)
    h_r, h_z, h_n = symbol.SliceChannel(h2h, num_outputs=3, name=f"{name}_h2h_slice", **axis)
    r = symbol.Activation(add(i_r, h_r), act_type="sigmoid", name=f"{name}_r_act")
    z = symbol.Activation(add(i_z, h_z), act_type="sigmoid", name=f"{name}_z_act")
    new = cell._get_activation(add(i_n, multiply(r, h_n)), activation, name=f"{name}_h_act")
    fresh = multiply(1.0 - z, new)
    output = symbol.elemwise_add(fresh, multiply(z, h), name=f"{name}out")
    return output, [output]


__all__ = ["BaseRNNCell", "GRUCell", "LSTMCell", "RNNCell", "RNNParams"]
