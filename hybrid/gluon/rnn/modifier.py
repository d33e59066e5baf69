"""Cells that change what another cell does: dropout, zoneout, residual connections."""
from __future__ import annotations

from typing import Any

from ... import nd
from ...base.errors import AttributeValueError
from ...base.scope import tracing
from .cell import HybridRecurrentCell
from .containers import BidirectionalCell
from .sequence import TENSORS, format_sequence, mask_sequence, namespace_of


class Remembered:
    """A value that a cell keeps from step to step, within one trace or outside of any."""
    __slots__ = ("_trace", "_value")

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Forget it."""
        self._trace: Any = None
        self._value: Any = None

    def get(self) -> Any:
        """The value, or None where there is none that can be used here."""
        return self._value if self._trace is tracing() else None

    def set(self, value: Any) -> Any:
        """Keep a value; returns it."""
        self._trace, self._value = tracing(), value
        return value


class DropoutCell(HybridRecurrentCell):
    """Dropout of the inputs; it has no states. rate: share of zeros; axes: those along which one mask is shared."""

    def __init__(self, rate: float, axes: Any = (), prefix: str | None = None, params: Any = None):
        super().__init__(prefix=prefix, params=params)
        if isinstance(rate, bool) or not isinstance(rate, (int, float)):
            raise AttributeValueError(f"DropoutCell: rate must be a number, got {rate!r}")
        self._rate, self._axes = rate, axes

    def __repr__(self) -> str:
        return f"{type(self).__name__}(rate={self._rate}, axes={self._axes})"

    def state_info(self, batch_size: int = 0) -> list[dict[str, Any]]:
        return []

    def _alias(self) -> str:
        return "dropout"

    def hybrid_forward(self, F: Any, inputs: Any, states: Any) -> Any:        # type: ignore[override]  # noqa: N803
        if self._rate > 0:
            inputs = F.Dropout(data=inputs, p=self._rate, axes=self._axes, name=f"t{self._counter}_fwd")
        return inputs, states

    def unroll(self, length: int, inputs: Any, begin_state: Any = None, layout: str = "NTC",
               merge_outputs: bool | None = None,
               valid_length: Any = None) -> tuple[Any, Any]:
        """Dropout of a whole sequence at once where it is one array; see ``RecurrentCell.unroll``."""
        self.reset()
        inputs, _ = format_sequence(length, inputs, layout, merge_outputs)
        if isinstance(inputs, TENSORS):
            return self.hybrid_forward(namespace_of(inputs), inputs, begin_state or [])
        return super().unroll(length, inputs, begin_state, layout, merge_outputs)


class ModifierCell(HybridRecurrentCell):
    """Base of cells around another cell, whose parameters they have. Only the outer cell can be called."""

    def __init__(self, base_cell: Any):
        if base_cell._modified:
            raise AttributeValueError(f"cell {base_cell.name!r} is in a modifier cell already; a cell can be in one "
                                      f"only")
        base_cell.__dict__["_modified"] = True
        super().__init__(prefix=base_cell.prefix + self._alias(), params=None)
        self.base_cell = base_cell

    @property
    def params(self) -> Any:
        """The base cell's parameters."""
        return self.base_cell.params

    def state_info(self, batch_size: int = 0) -> list[dict[str, Any]]:
        return self.base_cell.state_info(batch_size)

    def begin_state(self, batch_size: int = 0, func: Any = nd.zeros, **kwargs: Any) -> list[Any]:
        """The base cell's first states."""
        self._check_free()
        with _Released(self.base_cell):
            return self.base_cell.begin_state(batch_size=batch_size, func=func, **kwargs)

    def hybrid_forward(self, F: Any, inputs: Any, states: Any) -> Any:        # type: ignore[override]  # noqa: N803
        """One step; override it."""
        raise NotImplementedError(f"{type(self).__name__} must define hybrid_forward(self, F, inputs, states)")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.base_cell})"


class _Released:
    """Scope in which a base cell can be used itself."""

    def __init__(self, cell: Any):
        self._cell = cell

    def __enter__(self) -> None:
        self._cell.__dict__["_modified"] = False

    def __exit__(self, *_: Any) -> None:
        self._cell.__dict__["_modified"] = True


def check_steps(name: str, base_cell: Any) -> None:
    """A clear error for cells that cannot step."""
    if isinstance(base_cell, BidirectionalCell):
        raise AttributeValueError(f"{name} cannot be put around a BidirectionalCell, which does not step; put it "
                                  f"around the cells inside")


class ZoneoutCell(ModifierCell):
    """Zoneout (Krueger et al. 2017, arXiv 1606.01305): while training, values keep those of the step before at
    random."""

    def __init__(self, base_cell: Any, zoneout_outputs: float = 0.0, zoneout_states: float = 0.0):
        check_steps("ZoneoutCell", base_cell)
        super().__init__(base_cell)
        self.zoneout_outputs, self.zoneout_states = zoneout_outputs, zoneout_states
        self.__dict__["_previous"] = Remembered()

    def __repr__(self) -> str:
        return f"{type(self).__name__}(p_out={self.zoneout_outputs}, p_state={self.zoneout_states}, {self.base_cell})"

    def _alias(self) -> str:
        return "zoneout"

    def reset(self) -> None:
        """Begin a new sequence."""
        super().reset()
        if "_previous" in self.__dict__:
            self.__dict__["_previous"].clear()

    def hybrid_forward(self, F: Any, inputs: Any, states: Any) -> Any:        # type: ignore[override]  # noqa: N803
        output, new = self.base_cell(inputs, states)

        def mixed(p: float, fresh: Any, old: Any) -> Any:
            return F.where(F.Dropout(F.ones_like(fresh), p=p), fresh, old)
        previous = self.__dict__["_previous"].get()
        if previous is None:
            previous = F.zeros_like(output)
        if self.zoneout_outputs != 0.0:
            output = mixed(self.zoneout_outputs, output, previous)
        if self.zoneout_states != 0.0:
            new = [mixed(self.zoneout_states, n, s) for n, s in zip(new, states)]
        return self.__dict__["_previous"].set(output), new


class ResidualCell(ModifierCell):
    """Adds the input to the output (He et al. 2015; Wu et al. 2016, arXiv 1609.08144). Both must have the same size."""

    def hybrid_forward(self, F: Any, inputs: Any, states: Any) -> Any:        # type: ignore[override]  # noqa: N803
        output, states = self.base_cell(inputs, states)
        return F.elemwise_add(output, inputs, name=f"t{self._counter}_fwd"), states

    def unroll(self, length: int, inputs: Any, begin_state: Any = None, layout: str = "NTC",
               merge_outputs: bool | None = None,
               valid_length: Any = None) -> tuple[Any, Any]:
        """The base cell over the sequence, plus the sequence; see ``RecurrentCell.unroll``."""
        self.reset()
        with _Released(self.base_cell):
            outputs, states = self.base_cell.unroll(length, inputs=inputs, begin_state=begin_state, layout=layout,
                                                    merge_outputs=merge_outputs,
                                                    valid_length=valid_length)
        merge = isinstance(outputs, TENSORS) if merge_outputs is None else merge_outputs
        inputs, axis = format_sequence(length, inputs, layout, merge)
        F = namespace_of(inputs)  # noqa: N806
        if valid_length is not None:
            steps = inputs.shape[axis] if merge and length is None else length if merge else len(inputs)
            inputs = mask_sequence(F, inputs, steps, valid_length, axis, merge)
        if merge:
            return F.elemwise_add(outputs, inputs), states
        return [F.elemwise_add(a, b) for a, b in zip(outputs, inputs)], states
