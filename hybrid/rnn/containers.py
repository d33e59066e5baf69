"""Cells made of cells, on Symbols: sequential and bidirectional ones; dropout, zoneout and residual connections."""
from __future__ import annotations

from typing import Any, Callable, Mapping, Sequence

from ..graph import symbol
from ..base.errors import ShapeError
from ..graph.symbol import Symbol
from .cell import BaseRNNCell, RNNParams, format_sequence


class _Container(BaseRNNCell):
    """What cells that hold others share: states and weights of all of them."""

    def __init__(self, params: RNNParams | None, cells: Sequence[BaseRNNCell]):
        super().__init__(prefix="", params=params)
        self._override_cell_params = params is not None
        for cell in cells:
            self._hold(cell)

    def _hold(self, cell: BaseRNNCell) -> None:
        self._cells.append(cell)
        if self._override_cell_params:
            if not cell._own_params:
                raise AssertionError(f"give params to {type(self).__name__} or to its cells, not to both")
            cell.params._params.update(self.params._params)
        self.params._params.update(cell.params._params)

    @property
    def state_info(self) -> list[dict[str, Any]]:
        return [info for c in self._cells for info in c.state_info]

    def begin_state(self, **kwargs: Any) -> list[Symbol]:                # type: ignore[override]
        """The first states of all cells; kwargs as those of a cell."""
        self._check_free()
        return [s for c in self._cells for s in c.begin_state(**kwargs)]

    def unpack_weights(self, args: Mapping[str, Any]) -> dict[str, Any]:
        out = dict(args)
        for cell in self._cells:
            out = cell.unpack_weights(out)
        return out

    def pack_weights(self, args: Mapping[str, Any]) -> dict[str, Any]:
        out = dict(args)
        for cell in self._cells:
            out = cell.pack_weights(out)
        return out

    def _shares(self, states: Sequence[Any]) -> list[list[Any]]:
        """The states of each cell."""
        counts = [len(c.state_info) for c in self._cells]
        if sum(counts) != len(states):
            raise ShapeError(f"{type(self).__name__} has {sum(counts)} states, got {len(states)}")
        return [list(states[sum(counts[:i]):sum(counts[:i + 1])]) for i in range(len(counts))]


class SequentialRNNCell(_Container):
    """Cells one after another.

    >>> stack = SequentialRNNCell()
    >>> stack.add(LSTMCell(100, prefix="l0_"))
    >>> stack.add(LSTMCell(100, prefix="l1_"))
    """

    def __init__(self, params: RNNParams | None = None):
        super().__init__(params, ())

    def add(self, cell: BaseRNNCell) -> None:
        """Put a cell behind the others."""
        self._hold(cell)

    def __call__(self, inputs: Symbol, states: Sequence[Symbol]) -> tuple[Symbol, list[Symbol]]:
        self._counter += 1
        new: list[Symbol] = []
        for cell, own in zip(self._cells, self._shares(states)):
            if isinstance(cell, BidirectionalCell):
                raise AssertionError("a SequentialRNNCell with a BidirectionalCell cannot be stepped: use unroll")
            inputs, own = cell(inputs, own)
            new += own
        return inputs, new

    def unroll(self, length: int, inputs: Any, begin_state: Sequence[Symbol] | None = None, layout: str = "NTC",
               merge_outputs: bool | None = None) -> tuple[Any, list[Any]]:
        self.reset()
        states: list[Any] = []
        for i, (cell, own) in enumerate(zip(self._cells,
                                            self._shares(self.begin_state() if begin_state is None else begin_state))):
            last = i == len(self._cells) - 1
            inputs, own = cell.unroll(length, inputs, own, layout, merge_outputs if last else None)
            states += own
        return inputs, states


class BidirectionalCell(_Container):
    """One cell forwards and one backwards; their outputs stand side by side. It is unrolled, not stepped.
    output_prefix: of the outputs' names."""

    def __init__(self, l_cell: BaseRNNCell, r_cell: BaseRNNCell, params: RNNParams | None = None,
                 output_prefix: str = "bi_"):
        super().__init__(params, (l_cell, r_cell))
        self._output_prefix = output_prefix

    def __call__(self, inputs: Symbol, states: Sequence[Symbol]) -> tuple[Symbol, list[Symbol]]:
        raise NotImplementedError("BidirectionalCell cannot be stepped: use unroll")

    def unroll(self, length: int, inputs: Any, begin_state: Sequence[Symbol] | None = None, layout: str = "NTC",
               merge_outputs: bool | None = None) -> tuple[Any, list[Any]]:
        """Both cells over a sequence. The last states are two lists: of the cell forwards, and of the one backwards."""
        self.reset()
        steps, axis = format_sequence(length, inputs, layout, False)
        forwards, backwards = self._shares(self.begin_state() if begin_state is None else begin_state)
        left, l_states = self._cells[0].unroll(length, steps, forwards, layout, merge_outputs)
        right, r_states = self._cells[1].unroll(length, steps[::-1], backwards, layout, merge_outputs)
        if merge_outputs is None:
            merge_outputs = isinstance(left, Symbol) and isinstance(right, Symbol)
            left, right = (format_sequence(length, side, layout, merge_outputs)[0] for side in (left, right))
        if merge_outputs:
            return symbol.Concat(left, symbol.reverse(right, axis=axis), dim=2,
                                 name=f"{self._output_prefix}out"), [l_states, r_states]
        pairs = zip(left, reversed(right))
        return [symbol.Concat(a, b, dim=1, name=f"{self._output_prefix}t{i}")
                for i, (a, b) in enumerate(pairs)], [l_states, r_states]


class DropoutCell(BaseRNNCell):
    """Dropout of the inputs, with the given probability, in training."""

    def __init__(self, dropout: float, prefix: str = "dropout_", params: RNNParams | None = None):
        super().__init__(prefix, params)
        if isinstance(dropout, bool) or not isinstance(dropout, (int, float)):
            raise AssertionError(f"dropout must be a number, got {dropout!r}")
        self.dropout = dropout

    @property
    def state_info(self) -> list[dict[str, Any]]:
        return []

    def __call__(self, inputs: Symbol, states: Sequence[Symbol]) -> tuple[Symbol, list[Symbol]]:
        return (symbol.Dropout(inputs, p=self.dropout) if self.dropout > 0 else inputs), list(states)

    def unroll(self, length: int, inputs: Any, begin_state: Sequence[Symbol] | None = None, layout: str = "NTC",
               merge_outputs: bool | None = None) -> tuple[Any, list[Any]]:
        self.reset()
        inputs, _ = format_sequence(length, inputs, layout, merge_outputs)
        if isinstance(inputs, Symbol):
            return self(inputs, [])
        return super().unroll(length, inputs, begin_state, layout, merge_outputs)


class ModifierCell(BaseRNNCell):
    """A cell that changes what another one gives; the other is called through this one alone."""

    def __init__(self, base_cell: BaseRNNCell):
        base_cell._modified = True
        super().__init__()
        self.base_cell = base_cell

    @property
    def params(self) -> RNNParams:
        """The variables of the cell within."""
        self._own_params = False
        return self.base_cell.params

    @property
    def state_info(self) -> list[dict[str, Any]]:
        return self.base_cell.state_info

    def begin_state(self, init_sym: Callable[..., Symbol] | None = None,  # type: ignore[override]
                    **kwargs: Any) -> list[Symbol]:
        """The first states of the cell within; init_sym (or func): what makes one."""
        self._check_free()
        func = init_sym or kwargs.pop("func", symbol.zeros)
        self.base_cell._modified = False
        try:
            return self.base_cell.begin_state(func=func, **kwargs)
        finally:
            self.base_cell._modified = True

    def unpack_weights(self, args: Mapping[str, Any]) -> dict[str, Any]:
        return self.base_cell.unpack_weights(args)

    def pack_weights(self, args: Mapping[str, Any]) -> dict[str, Any]:
        return self.base_cell.pack_weights(args)

    def __call__(self, inputs: Symbol, states: Sequence[Symbol]) -> tuple[Symbol, list[Symbol]]:
        raise NotImplementedError(f"{type(self).__name__} must define __call__(self, inputs, states)")


class ZoneoutCell(ModifierCell):
    """Keeps, with the given probabilities and in training, elements of the last output and of the last states (Krueger
    et al. 2016)."""

    def __init__(self, base_cell: BaseRNNCell, zoneout_outputs: float = 0.0, zoneout_states: float = 0.0):
        if not isinstance(base_cell, (BaseRNNCell,)) or hasattr(base_cell, "unfuse"):
            raise AssertionError(f"{type(base_cell).__name__} cannot have zoneout, for it is not stepped: unfuse() it "
                                 f"first")
        if isinstance(base_cell, BidirectionalCell):
            raise AssertionError("BidirectionalCell cannot have zoneout, for it is not stepped: put ZoneoutCell on "
                                 "the cells within")
        if isinstance(base_cell, SequentialRNNCell) and any(isinstance(c, BidirectionalCell) for c in base_cell._cells):
            raise AssertionError("a SequentialRNNCell with a BidirectionalCell cannot have zoneout, for it is not "
                                 "stepped")
        super().__init__(base_cell)
        self.zoneout_outputs, self.zoneout_states = zoneout_outputs, zoneout_states
        self.prev_output: Symbol | None = None

    def reset(self) -> None:
        """Forget the last output."""
        super().reset()
        self.prev_output = None

    def __call__(self, inputs: Symbol, states: Sequence[Symbol]) -> tuple[Symbol, list[Symbol]]:
        output, new = self.base_cell(inputs, states)

        def mixed(p: float, fresh: Symbol, old: Symbol) -> Symbol:
            return symbol.where(symbol.Dropout(symbol.ones_like(fresh), p=p), fresh, old)
        if self.zoneout_outputs:
            output = _mixed_output(self.zoneout_outputs, output, self.prev_output)
        if self.zoneout_states:
            new = [mixed(self.zoneout_states, fresh, old) for fresh, old in zip(new, states)]
        self.prev_output = output
        return output, new


def _mixed_output(p: float, fresh: Symbol, old: Symbol | None) -> Symbol:
    """The output with elements of the last one, of zeros at the first step."""
    mask = symbol.Dropout(symbol.ones_like(fresh), p=p)
    return symbol.where(mask, fresh, symbol.zeros((0, 0)) if old is None else old)


class ResidualCell(ModifierCell):
    """Adds the inputs to the outputs (Wu et al. 2016)."""

    def __call__(self, inputs: Symbol, states: Sequence[Symbol]) -> tuple[Symbol, list[Symbol]]:
        output, new = self.base_cell(inputs, states)
        return _plus(output, inputs), new

    def unroll(self, length: int, inputs: Any, begin_state: Sequence[Symbol] | None = None, layout: str = "NTC",
               merge_outputs: bool | None = None) -> tuple[Any, list[Any]]:
        self.reset()
        self.base_cell._modified = False
        try:
            outputs, states = self.base_cell.unroll(length, inputs, begin_state, layout, merge_outputs)
        finally:
            self.base_cell._modified = True
        whole = isinstance(outputs, Symbol)
        inputs, _ = format_sequence(length, inputs, layout, whole)
        return (_plus(outputs, inputs) if whole else [_plus(o, i) for o, i in zip(outputs, inputs)]), states


def _plus(output: Symbol, inputs: Symbol) -> Symbol:
    return symbol.elemwise_add(output, inputs, name=f"{output.name}_plus_residual")


__all__ = ["BidirectionalCell", "DropoutCell", "ModifierCell", "ResidualCell", "SequentialRNNCell", "ZoneoutCell"]
