"""Cells made of cells: one after another, or in both directions."""
from __future__ import annotations

from typing import Any

from ...base.errors import AttributeValueError, HybridError
from ..block import _indent
from .cell import HybridRecurrentCell, RecurrentCell
from .sequence import TENSORS, format_sequence, mask_sequence, namespace_of, outputs_of, reverse_sequence


class _Stack(RecurrentCell):
    """Cells, each of which takes the output of the one before it."""

    def __init__(self, prefix: str | None = None, params: Any = None):
        super().__init__(prefix=prefix, params=params)

    def __repr__(self) -> str:
        lines = [f"({k}): {_indent(repr(c))}" for k, c in self._children.items()]
        return "\n".join([f"{type(self).__name__}(", *(lines or [""]), ")"])

    def add(self, cell: Any) -> None:
        """Put a cell on top."""
        self.register_child(cell)

    def __getitem__(self, i: int) -> Any:
        return list(self._children.values())[i]

    def __len__(self) -> int:
        return len(self._children)

    def _cells(self) -> list[Any]:
        return list(self._children.values())

    def state_info(self, batch_size: int = 0) -> list[dict[str, Any]]:
        return [info for c in self._cells() for info in c.state_info(batch_size)]

    def begin_state(self, batch_size: int = 0, **kwargs: Any) -> list[Any]:   # type: ignore[override]
        """The first states of all cells in order."""
        self._check_free()
        return [s for c in self._cells() for s in c.begin_state(batch_size=batch_size, **kwargs)]

    def _own(self, states: Any) -> list[Any]:
        """The states of each cell."""
        states = [states] if isinstance(states, TENSORS) else states
        counts = [len(c.state_info()) for c in self._cells()]
        if sum(counts) != len(states):
            raise AttributeValueError(f"{type(self).__name__} has {sum(counts)} states ({', '.join(map(str, counts))} "
                                      f"by cell), got {len(states)}")
        return [states[sum(counts[:i]):sum(counts[:i + 1])] for i in range(len(counts))]

    def forward(self, inputs: Any, states: Any) -> Any:                       # type: ignore[override]
        """One step through all cells."""
        self._next("_counter")
        after: list[Any] = []
        for cell, own in zip(self._cells(), self._own(states)):
            inputs, new = cell(inputs, own)
            after += new
        return inputs, after

    def unroll(self, length: int, inputs: Any, begin_state: Any = None, layout: str = "NTC",
               merge_outputs: bool | None = None,
               valid_length: Any = None) -> tuple[Any, Any]:
        """Each cell over the whole sequence, one cell after the other; see ``RecurrentCell.unroll``."""
        self.reset()
        inputs, _ = format_sequence(length, inputs, layout, None)
        begin = self._first_states(namespace_of(inputs), begin_state, inputs, layout)
        after: list[Any] = []
        cells = self._cells()
        for i, (cell, own) in enumerate(zip(cells, self._own(begin))):
            merge = merge_outputs if i == len(cells) - 1 else None
            inputs, states = cell.unroll(length, inputs=inputs, begin_state=own, layout=layout, merge_outputs=merge,
                                         valid_length=valid_length)
            after += states
        return inputs, after


class SequentialRNNCell(_Stack):
    """Cells one on another.

    >>> stack = SequentialRNNCell()
    >>> stack.add(LSTMCell(20)); stack.add(DropoutCell(0.5)); stack.add(LSTMCell(10))
    """


class HybridSequentialRNNCell(_Stack, HybridRecurrentCell):
    """Cells one on another, compiled together when hybridized."""

    def hybrid_forward(self, F: Any, inputs: Any, states: Any) -> Any:        # type: ignore[override]  # noqa: N803
        """One step through all cells."""
        return self.forward(inputs, states)


class BidirectionalCell(HybridRecurrentCell):
    """One cell over the sequence and one over it backwards; their outputs side by side. It has ``unroll`` only."""

    def __init__(self, l_cell: Any, r_cell: Any, output_prefix: str = "bi_"):
        super().__init__(prefix="", params=None)
        self.register_child(l_cell, "l_cell")
        self.register_child(r_cell, "r_cell")
        self._output_prefix = output_prefix

    def __call__(self, inputs: Any, states: Any) -> Any:                      # type: ignore[override]
        raise NotImplementedError("BidirectionalCell cannot step: it needs the whole sequence. Use unroll(length, "
                                  "inputs)")

    def __repr__(self) -> str:
        return f"{type(self).__name__}(forward={self._children['l_cell']}, backward={self._children['r_cell']})"

    def state_info(self, batch_size: int = 0) -> list[dict[str, Any]]:
        return [info for c in self._children.values()
                for info in c.state_info(batch_size)]        # type: ignore[attr-defined]

    def begin_state(self, batch_size: int = 0, **kwargs: Any) -> list[Any]:   # type: ignore[override]
        """The first states of both cells."""
        self._check_free()
        return [s for c in self._children.values()
                for s in c.begin_state(batch_size=batch_size, **kwargs)]     # type: ignore[attr-defined]

    def unroll(self, length: int, inputs: Any, begin_state: Any = None, layout: str = "NTC",
               merge_outputs: bool | None = None,
               valid_length: Any = None) -> tuple[Any, Any]:
        """Both directions over a sequence; see ``RecurrentCell.unroll``. Outputs have the channels of both, forward
        first."""
        self.reset()
        steps, axis = format_sequence(length, inputs, layout, False)
        F = namespace_of(steps)  # noqa: N806
        states = self._first_states(F, begin_state, steps, layout)
        left, right = self._children.values()
        n = len(left.state_info())                                            # type: ignore[attr-defined]
        if len(states) != len(self.state_info()):
            raise HybridError(f"BidirectionalCell has {len(self.state_info())} states, got {len(states)}")
        there, left_states = left.unroll(length, inputs=steps, begin_state=states[:n], layout=layout,
                                         merge_outputs=merge_outputs,    # type: ignore[attr-defined]
                                         valid_length=valid_length)
        back, right_states = right.unroll(length, inputs=reverse_sequence(steps, valid_length), begin_state=states[n:],
                                          layout=layout,   # type: ignore[attr-defined]
                                          merge_outputs=False, valid_length=valid_length)
        back = reverse_sequence(back, valid_length)
        if merge_outputs is None:
            merge_outputs = isinstance(there, TENSORS)
            there = format_sequence(None, there, layout, merge_outputs)[0]
        outputs = self._joined(F, there, back, axis, merge_outputs)
        if valid_length is not None:
            outputs = mask_sequence(F, outputs, len(steps), valid_length, axis, merge_outputs)
        return outputs, list(left_states) + list(right_states)

    def _joined(self, F: Any, there: Any, back: Any, axis: int, merge: bool) -> Any:  # noqa: N803
        if merge:
            return F.concat(there, F.stack(*back, axis=axis), dim=2, name=f"{self._output_prefix}out")
        return [F.concat(a, b, dim=1, name=f"{self._output_prefix}t{i}")
                for i, (a, b) in enumerate(zip(outputs_of(there), back))]
