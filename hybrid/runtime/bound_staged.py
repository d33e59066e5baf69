"""Programs that call Python code on the way (staged.py) with their parameters bound: the launcher checks a call, and
hands the arrays on."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any, Sequence

import numpy as np

from . import launcher
from .bound import MAX_LAUNCHER_SLOTS, MOST_RESULTS
from .observers import OBSERVERS

if TYPE_CHECKING:
    from .staged import StagedProgram


class BoundStaged:
    """``bound(a, b)`` takes the inputs that are not fixed, in slot order. fixed: by slot, objects whose array is
    ``_data``."""

    plain = False                                            # no closure may take its calls (hybrid/jit/fast_path.py)

    def __init__(self, program: StagedProgram, fixed: dict[int, Any]):
        self.program, self._fixed = program, fixed
        inputs = program.program.inputs
        self._free = [(i, n.shape, n.dtype) for i, n in enumerate(inputs) if i not in fixed]
        self._launchers = launcher.Made()
        self._alone = program.alone if not fixed else None
        self._plan = program.bound_plan({i: x._data for i, x in fixed.items()} if program.program.updates else {})

    def launcher(self, cls: type, ctx: Any, scope: Any, train: bool, counters: tuple[list[int], ...], kind: int = 0,
                 places: tuple[Any, ...] = (), form: Any = None, step: Any = None) -> Any:
        """As of other bound programs (bound.py); the steps of training loops take the slow path."""
        outputs = self.program.program.outputs
        slots = len(self.program.program.inputs) + len(outputs)
        if (step is not None or self.program.program.updates or len(outputs) > MOST_RESULTS
            or slots > MAX_LAUNCHER_SLOTS or not kind and len(outputs) != 1):
            return None
        made = launcher.found()
        if made is None or made is launcher.later:
            return made
        results = tuple((slots - len(outputs) + i, n.shape, n.dtype) for i, n in enumerate(outputs))
        found = made(cls, 0, slots, 0, 0, tuple(self._free), results, (), ctx, scope, bool(train), counters, places,
                     form, (None,) * len(results), kind, None, self.program, None, self._alone or self._call)
        self._launchers.add(bool(counters), found)
        return found

    def launched(self, *_: Any) -> Any:
        """Nothing: what else a call does (keys, checks) goes the slow path."""
        return None

    def uses(self) -> int:
        """How often a launcher called it."""
        return self._launchers.calls()

    def changed(self) -> bool:
        """Whether values that were prepared are old: none are."""
        return False

    def evicted(self) -> int:
        """Bytes of evicted parameters: none are."""
        return 0

    def __call__(self, *arrays: np.ndarray) -> list[Any]:
        """Outputs, new arrays."""
        return self._call(arrays)

    def _call(self, arrays: Sequence[Any]) -> list[Any]:
        if self._fixed:
            given = iter(arrays)
            arrays = [self._fixed[i]._data if i in self._fixed else next(given)
                      for i in range(len(self.program.program.inputs))]
        return self.program(arrays) if OBSERVERS else self.program.run(arrays, self._plan)
