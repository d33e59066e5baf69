"""The tape: what autograd remembers of recorded calls."""
from __future__ import annotations

import weakref
from contextlib import ContextDecorator
from typing import Any, Callable, Sequence

from ..base import dtype as dt, pending
from ..base.device import refuse_apart
from ..ir import Program
from ..passes.differentiate import reaches
from ..base.scope import RECORDS, SCOPE
from .writes import CLOCK

# by id: an array with grad_req "null" (weakly), and the gradient that nothing is written to
_IDLE: dict[int, tuple[Any, Any]] = {}
Runner = Callable[[Program, list[Any]], list[Any]]


class Entry:
    """One recorded call: its program, inputs and outputs, and how to run a program on raw arrays."""
    __slots__ = ("program", "inputs", "outputs", "runner", "versions", "raws", "function", "sources", "kept", "origin",
                 "when", "variables")

    def __init__(self, program: Program | None, inputs: list[Any], outputs: list[Any], runner: Any = None,
                 function: Any = None):
        self.program, self.inputs, self.outputs, self.runner, self.function = program, inputs, outputs, runner, function
        self.when = CLOCK[0]
        self.versions = [getattr(x, "_version", 0) for x in inputs]
        self.raws = [getattr(x, "_data", None) for x in inputs]          # x += y while recording gives x another buffer
        self.sources = [x._ag for x in inputs]
        # the operator and its attributes, or the traced graph (history.py)
        self.origin: Any = None
        # (partition, raw values kept for the backward pass), or None
        self.kept: Any = None
        # arrays with a gradient of their own that were written here: they are variables again behind backward
        self.variables: list[tuple[Any, Slot]] = []

    def before(self) -> list["Entry"]:
        """The entries of which this one takes results, in the order of its inputs."""
        return [s.entry for s in self.sources if s is not None and s.entry is not None]


class Slot:
    """What hangs on an array: the entry that made it, or the gradient it collects."""
    __slots__ = ("entry", "index", "grad", "req", "shape", "dtype", "fresh", "lost", "part",
                 "parts")

    def __init__(self, entry: Entry | None = None, index: int = 0, grad: Any = None, req: str = "write"):
        self.entry, self.index, self.grad, self.req = entry, index, grad, req
        # whether a compiled step computed the gradient and used it without writing it here
        self.lost = False
        # of a range of another array: that array and the index; of an array: its ranges, while they live
        self.part: Any = None
        self.parts: dict[int, tuple[Any, Any]] = {}
        # whether backward has written grad since an optimizer used it
        self.fresh = False


def collect(x: Any, grad: Any, req: str) -> None:
    """Let an array collect its gradient in another one. With "null" nothing is recorded for it, but the gradient is
    there to be read."""
    if grad is not None:
        refuse_apart("an array and its gradient", x._ctx, grad._ctx)
    pending.settle_for("an array was told to collect a gradient", (x,))
    x._ag = Slot(grad=grad, req=req) if req != "null" else None
    if req == "null":
        _IDLE[id(x)] = weakref.ref(x, lambda _, key=id(x): _IDLE.pop(key, None)), grad          # type: ignore[misc]          
    elif _IDLE:
        _IDLE.pop(id(x), None)


def idle_gradient(x: Any) -> Any:
    """The gradient of an array with grad_req "null", which nothing is written to; None where there is none."""
    owner, idle = _IDLE.get(id(x), (None, None))
    return idle if owner is not None and owner() is x else None


class flags(ContextDecorator):  # noqa: N801  it is called as a function is
    """Scope with recording and training set (None leaves one as it is)."""

    def __init__(self, recording: bool | None, training: bool | None):
        self._wanted = recording, training
        self._before: list[tuple[bool, bool]] = []           # one may be entered while it is

    def __enter__(self) -> None:
        recording, training = self._wanted
        self._before.append((SCOPE.recording, SCOPE.training))
        if recording is not None:
            RECORDS.number += recording and not SCOPE.recording
            SCOPE.recording = recording
        if training is not None:
            SCOPE.training = training

    def __exit__(self, kind: Any, *_: Any) -> None:
        try:
            if kind is not None and self._wanted[0] and pending.WATCHED[0]:
                pending.given_up()
        finally:
            SCOPE.recording, SCOPE.training = self._before.pop()


def wants_gradient(x: Any) -> bool:
    """Whether a gradient can flow into an array."""
    return x._ag is not None and dt.has_gradient(x._data.dtype)


def wanted(program: Program, slots: Sequence[Any], raws: Sequence[Any]) -> tuple[int, ...]:
    """Numbers of the inputs into which a gradient flows: those with a slot; of integers those that are no mere
    indices."""
    return tuple(i for i, (s, raw) in enumerate(zip(slots, raws)) if s is not None and dt.has_gradient(raw.dtype)
                 and (dt.is_float(raw.dtype) or reaches(program, i)))


def rows_wanted(wrt: Sequence[int], slots: Sequence[Any]) -> tuple[int, ...]:
    """Those of the inputs ``wrt`` whose gradients are collected in row_sparse arrays."""
    return tuple(i for i in wrt if (s := slots[i]) is not None and s.entry is None and s.grad is not None
                 and s.grad.stype == "row_sparse")


def record_call(program: Program, inputs: list[Any], outputs: list[Any], runner: Runner, kept: Any = None,
                origin: Any = None) -> None:
    """Put a call on the tape, if any input wants a gradient. kept, origin: see ``Entry``."""
    if all(x._ag is None for x in inputs):
        return
    entry = Entry(program, inputs, outputs, runner)
    entry.kept, entry.origin = kept, origin
    for i, o in enumerate(outputs):
        o._ag = Slot(entry, i)
