"""Recurrent layers over whole sequences: RNN, LSTM and GRU, each one fused operator."""
from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, overload

from ... import nd
from ...graph import symbol
from ...buffers.array import NDArray
from ...base.errors import AttributeValueError, DeferredInitializationError, ShapeError
from ...base.scope import SCOPE
from ...graph.symbol import Symbol, known
from ..hybrid_block import HybridBlock, first_array
from .cell import GRUCell, LSTMCell, RNNCell
from .containers import BidirectionalCell, HybridSequentialRNNCell
from .modifier import DropoutCell
from .sequence import TENSORS, first_state, open_batch

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ..options import BlockOptions

GATES = {"rnn_relu": 1, "rnn_tanh": 1, "lstm": 4, "gru": 3}
_NAME = re.compile(r"([lr])(\d+)_(i2h|h2h|h2r)_(weight|bias)\Z")


class _RNNLayer(HybridBlock):
    """What the layers share: their parameters, their states, and the call of the operator."""

    def __init__(self, hidden_size: int, num_layers: int, layout: str, dropout: float, bidirectional: bool,
                 input_size: int, i2h_weight_initializer: Any,
                 h2h_weight_initializer: Any, i2h_bias_initializer: Any, h2h_bias_initializer: Any, mode: str,
                 projection_size: int | None,
                 h2r_weight_initializer: Any, lstm_state_clip_min: float | None, lstm_state_clip_max: float | None,
                 lstm_state_clip_nan: bool,
                 dtype: Any, use_sequence_length: bool = False, **kwargs: Unpack[BlockOptions]):
        super().__init__(**kwargs)
        if layout not in ("TNC", "NTC"):
            raise AttributeValueError(f"{type(self).__name__}: layout must be TNC or NTC, got {layout!r}")
        for what, n in (("hidden_size", hidden_size), ("num_layers", num_layers)):
            if not isinstance(n, int) or n < 1:
                raise AttributeValueError(f"{type(self).__name__}: {what} must be a positive integer, got {n!r}")
        self._hidden_size, self._num_layers, self._mode, self._layout = hidden_size, num_layers, mode, layout
        self._projection_size = projection_size or None
        self._dropout, self._dir, self._input_size = dropout, 2 if bidirectional else 1, input_size
        self._clip = {"lstm_state_clip_min": lstm_state_clip_min, "lstm_state_clip_max": lstm_state_clip_max,
                      "lstm_state_clip_nan": lstm_state_clip_nan}
        self._use_sequence_length, self._dtype = use_sequence_length, dtype
        self._gates = GATES[mode]
        self._init = {"i2h_weight": i2h_weight_initializer, "h2h_weight": h2h_weight_initializer,
                      "i2h_bias": i2h_bias_initializer,
                      "h2h_bias": h2h_bias_initializer, "h2r_weight": h2r_weight_initializer}
        wide, out = self._gates * hidden_size, self._projection_size or hidden_size
        for layer in range(num_layers):
            shapes = {"i2h_weight": (wide, input_size), "h2h_weight": (wide, out), "i2h_bias": (wide,),
                      "h2h_bias": (wide,)}
            if self._projection_size:
                shapes["h2r_weight"] = (out, hidden_size)
            for side in "lr"[:self._dir]:
                for name, shape in shapes.items():
                    setattr(self, f"{side}{layer}_{name}",
                            self.params.get(f"{side}{layer}_{name}", shape=shape, init=self._init[name],
                                                                           allow_deferred_init=True, dtype=dtype))
            input_size = out * self._dir

    def __repr__(self) -> str:
        shape = self.l0_i2h_weight.shape
        parts = [f"{shape[1] or None} -> {shape[0] // self._gates}", self._layout]
        parts += [f"num_layers={self._num_layers}"] if self._num_layers != 1 else []
        parts += [f"dropout={self._dropout}"] if self._dropout else []
        parts += ["bidirectional"] if self._dir == 2 else []
        return f"{type(self).__name__}({', '.join(parts)})"

    def _collect_params_with_prefix(self, prefix: str = "") -> dict[str, Any]:
        """Names in files are those of the cells that the layer stands for."""
        lead = prefix + "." if prefix else ""

        def name(key: str) -> str:
            side, layer, gate, kind = _NAME.fullmatch(key).groups()            # type: ignore[union-attr]
            return (f"_unfused.{layer}.{side}_cell.{gate}_{kind}" if self._dir == 2
                    else f"_unfused.{layer}.{gate}_{kind}")
        out = {lead + name(k) if _NAME.fullmatch(k) else lead + k: p for k, p in self._reg_params.items()}
        for child_name, child in self._children.items():
            out.update(child._collect_params_with_prefix(lead + child_name))
        return out

    # ---- states
    def state_info(self, batch_size: int = 0) -> list[dict[str, Any]]:
        """Shape, layout and dtype of each state."""
        lead = self._num_layers * self._dir
        sizes = [self._projection_size or self._hidden_size, *([self._hidden_size] if self._mode == "lstm" else [])]
        return [{"shape": (lead, batch_size, n), "__layout__": "LNC", "dtype": self._dtype} for n in sizes]

    def begin_state(self, batch_size: int = 0, func: Any = nd.zeros, **kwargs: Any) -> list[Any]:
        """The first states (layers · directions, batch, hidden size); for an LSTM also those of the cells. func makes
        one."""
        return [first_state(func, f"{self.prefix}h0_{i}", info, kwargs)
                for i, info in enumerate(self.state_info(batch_size))]

    def cast(self, dtype: Any) -> None:
        """Another dtype for all parameters and new states."""
        super().cast(dtype)
        self._dtype = dtype

    # ---- calls
    @overload
    def __call__(self, inputs: Any, states: None = None, sequence_length: Any = None) -> NDArray: ...

    @overload
    def __call__(self, inputs: Any, states: Any, sequence_length: Any = None) -> tuple[NDArray, list[NDArray]]: ...

    def __call__(self, inputs: Any, states: Any = None, sequence_length: Any = None, **kwargs: Any) -> Any:
        """Outputs for a sequence; with given states also the last states.

        inputs: (T, N, C) or, with the layout NTC, (N, T, C). sequence_length: (N,), with use_sequence_length.
        """
        if self._use_sequence_length and sequence_length is None:
            raise AttributeValueError(f"{type(self).__name__} was made with use_sequence_length=True: give "
                                      f"sequence_length, of shape (batch,)")
        lengths = [sequence_length] if self._use_sequence_length else []
        if states is None and isinstance(inputs, Symbol) and not SCOPE.traces:
            return super().__call__(inputs, self.begin_state(0, func=symbol.zeros), *lengths, **kwargs)[0]
        states = [states] if isinstance(states, TENSORS) else states
        if states is None and not lengths:
            return super().__call__(inputs, **kwargs)
        return super().__call__(inputs, states, *lengths, **kwargs)

    def hybrid_forward(self, F: Any, inputs: Any, states: Any = None, sequence_length: Any = None,
                       **params: Any) -> Any:  # type: ignore[override]  # noqa: N803
        """The operator on packed parameters."""
        at = self._layout.find("N")
        if inputs.shape is not None and len(inputs.shape) != 3:
            raise ShapeError(f"{type(self).__name__} takes inputs of layout {self._layout}, got shape {inputs.shape}")
        given = states
        if given is None:
            batch = inputs.shape[at] if inputs.shape is not None else 0
            more = {"ctx": inputs.context} if F is nd else {}
            given = open_batch(self.begin_state(batch, func=F.zeros, **more,
                                                **({"dtype": inputs.dtype} if inputs.dtype is not None else {})))
        else:
            self._check_states(given, inputs.shape[at] if inputs.shape is not None else 0)
        if self._layout == "NTC":
            inputs = F.swapaxes(inputs, 0, 1)
        rest = [*given, *([sequence_length] if self._use_sequence_length else [])]
        out = F.RNN(inputs, self._packed(F, inputs, params), *rest, use_sequence_length=self._use_sequence_length,
                    state_size=self._hidden_size,
                    projection_size=self._projection_size, num_layers=self._num_layers, bidirectional=self._dir == 2,
                    p=self._dropout,
                    state_outputs=True, mode=self._mode, **self._clip)
        outputs, last = out[0], [out[i + 1] for i in range(len(given))]
        if self._layout == "NTC":
            outputs = F.swapaxes(outputs, 0, 1)
        return outputs if states is None else (outputs, last)

    def _check_states(self, states: Any, batch: int) -> None:
        want = [info["shape"] for info in self.state_info(batch)]
        if len(states) != len(want):
            raise ShapeError(f"{type(self).__name__} has {len(want)} states, got {len(states)}")
        if isinstance(states[0], Symbol) and not SCOPE.traces:                # zeros that do not know the batch
            return
        for s, shape in zip(states, want):
            if batch and known(s.shape) and tuple(s.shape) != shape:
                raise ShapeError(f"{type(self).__name__}: a state must have shape {shape} (layers and directions, "
                                 f"batch, size), got {tuple(s.shape)}")

    def _packed(self, F: Any, inputs: Any, params: dict[str, Any]) -> Any:  # noqa: N803
        """All weights, then all biases, each layer by layer and direction by direction."""
        if isinstance(inputs, Symbol):
            self._complete(inputs, params)
        weights = ["i2h", "h2h", *(["h2r"] if self._projection_size else [])]
        names = [f"{side}{layer}_{gate}_{kind}" for kind, gates in (("weight", weights), ("bias", ["i2h", "h2h"]))
                 for layer in range(self._num_layers) for side in "lr"[:self._dir] for gate in gates]
        return F._rnn_param_concat(*(F.reshape(params[n], shape=-1) for n in names), dim=0)

    def _complete(self, inputs: Symbol, params: dict[str, Any]) -> None:
        """The width of the inputs on the variables of the first layer's weights."""
        if inputs.shape is None or inputs.shape[2] <= 0:
            return
        for side in "lr"[:self._dir]:
            node = params[f"{side}0_i2h_weight"]._one()[0]
            shape, dtype = node.info[0]
            if node.opdef is None and not known(shape) or 0 in shape:
                node.info[0] = ((self._gates * self._hidden_size, inputs.shape[2]), dtype)

    def infer_shape(self, *args: Any, **kwargs: Any) -> None:
        """Take over the inputs' width."""
        x = first_array(args)
        if len(x.shape) != 3:
            raise ShapeError(f"{type(self).__name__} takes inputs of layout {self._layout}, got shape {x.shape}")
        for side in "lr"[:self._dir]:
            p = self._reg_params[f"{side}0_i2h_weight"]
            if p.shape[1] not in (0, -1, x.shape[2]):
                raise ShapeError(f"{type(self).__name__} was made for inputs of width {p.shape[1]}, got {x.shape}")
            p.shape = (p.shape[0], x.shape[2])
        unknown = [p.name for p in self._reg_params.values() if any(d <= 0 for d in p.shape)]
        if unknown:
            raise DeferredInitializationError(f"the shapes of {', '.join(unknown)} could not be found out")

    # ---- as cells
    def _unfuse(self) -> Any:
        """The same layer as a stack of cells, with the same parameters."""
        if self._projection_size or self._clip["lstm_state_clip_min"] or self._clip["lstm_state_clip_max"]:
            raise AttributeValueError(f"{type(self).__name__}._unfuse: cells have no projection and no clipping of "
                                      f"states")
        stack = HybridSequentialRNNCell(prefix=self.prefix, params=self.params)
        with stack.name_scope():
            width = self._input_size
            for layer in range(self._num_layers):
                sides = [self._cell(f"{side}{layer}_", width) for side in "lr"[:self._dir]]
                stack.add(BidirectionalCell(*sides) if len(sides) == 2 else sides[0])
                if self._dropout > 0 and layer != self._num_layers - 1:
                    stack.add(DropoutCell(self._dropout))
                width = self._hidden_size * self._dir
        return stack

    def _cell(self, prefix: str, width: int) -> Any:
        options = {f"{k}_initializer": v for k, v in self._init.items() if k != "h2r_weight"}
        if self._mode in ("lstm", "gru"):
            return (LSTMCell if self._mode == "lstm" else GRUCell)(self._hidden_size, input_size=width, prefix=prefix,
                                                                   **options)
        return RNNCell(self._hidden_size, activation=self._mode[4:], input_size=width, prefix=prefix, **options)


class RNN(_RNNLayer):
    """Elman layers: h' = act(W_ih x + b_ih + W_hh h + b_hh).

    hidden_size: of each layer and direction. num_layers: layers on each other. activation: relu or tanh. layout: TNC or
    NTC. dropout:
    of the outputs between layers, while training. bidirectional: also backwards, outputs side by side. input_size: C,
    found out at the first call unless given. Inputs (T, N, C), states (num_layers · directions, N, hidden_size),
    outputs (T, N, directions · hidden_size).

    >>> layer = RNN(100, 3)
    >>> layer.initialize()
    >>> layer(nd.ones((5, 3, 10))).shape
    (5, 3, 100)
    """

    def __init__(self, hidden_size: int, num_layers: int = 1, activation: str = "relu", layout: str = "TNC",
                 dropout: float = 0, bidirectional: bool = False,
                 i2h_weight_initializer: Any = None, h2h_weight_initializer: Any = None,
                 i2h_bias_initializer: Any = "zeros",
                 h2h_bias_initializer: Any = "zeros", input_size: int = 0, dtype: Any = "float32",
                 **kwargs: Unpack[BlockOptions]):
        if activation not in ("relu", "tanh"):
            raise AttributeValueError(f"RNN: activation must be relu or tanh, got {activation!r}; other cells step "
                                      f"with RNNCell(...).unroll")
        super().__init__(hidden_size, num_layers, layout, dropout, bidirectional, input_size, i2h_weight_initializer,
                         h2h_weight_initializer,
                         i2h_bias_initializer, h2h_bias_initializer, "rnn_" + activation, None, None, None, None,
                         False, dtype, **kwargs)


class LSTM(_RNNLayer):
    """Long short-term memory layers (Hochreiter and Schmidhuber 1997); see ``RNN`` and ``LSTMCell``. States h and c.

    projection_size: outputs are projected to it (Sak et al. 2014, arXiv 1402.1128). state_clip_min, state_clip_max:
    bounds of c after each step; state_clip_nan: nan becomes a bound too.
    """

    def __init__(self, hidden_size: int, num_layers: int = 1, layout: str = "TNC", dropout: float = 0,
                 bidirectional: bool = False, input_size: int = 0,
                 i2h_weight_initializer: Any = None, h2h_weight_initializer: Any = None,
                 i2h_bias_initializer: Any = "zeros", h2h_bias_initializer: Any = "zeros",
                 projection_size: int | None = None, h2r_weight_initializer: Any = None,
                 state_clip_min: float | None = None,
                 state_clip_max: float | None = None, state_clip_nan: bool = False, dtype: Any = "float32",
                 **kwargs: Unpack[BlockOptions]):
        super().__init__(hidden_size, num_layers, layout, dropout, bidirectional, input_size, i2h_weight_initializer,
                         h2h_weight_initializer,
                         i2h_bias_initializer, h2h_bias_initializer, "lstm", projection_size, h2r_weight_initializer,
                         state_clip_min, state_clip_max,
                         state_clip_nan, dtype, **kwargs)


class GRU(_RNNLayer):
    """Gated recurrent layers (Cho et al. 2014, in cuDNN's form); see ``RNN`` and ``GRUCell``."""

    def __init__(self, hidden_size: int, num_layers: int = 1, layout: str = "TNC", dropout: float = 0,
                 bidirectional: bool = False, input_size: int = 0,
                 i2h_weight_initializer: Any = None, h2h_weight_initializer: Any = None,
                 i2h_bias_initializer: Any = "zeros",
                 h2h_bias_initializer: Any = "zeros", dtype: Any = "float32", **kwargs: Unpack[BlockOptions]):
        super().__init__(hidden_size, num_layers, layout, dropout, bidirectional, input_size, i2h_weight_initializer,
                         h2h_weight_initializer,
                         i2h_bias_initializer, h2h_bias_initializer, "gru", None, None, None, None, False, dtype,
                         **kwargs)
