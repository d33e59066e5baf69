"""A training step for C: its optimizer's numbers, and the names of what it changes."""
from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..base.errors import HybridError
from ..jit.compiled_call import Entry
from .rates import Number, numbers_of

COUNT = "hybrid.updates"                 # the weight that counts the steps
RANDOM = "hybrid.random"                 # and that of the generator: its seed, and how many draws there were


@dataclass
class Training:
    """What a program with updates needs beside its weights. slot: of the input that holds the optimizer's numbers, None
    for a program that changes arrays without an optimizer; count: updates so far."""
    slot: int | None = None
    numbers: list[Number] | None = None
    count: int = 0
    draws: int = 0                       # random draws of a step

    def counter(self) -> np.ndarray:
        """The value of the weight that counts the steps."""
        return np.array(self.count, np.int64)


def training_of(entry: Entry, what: str) -> Training | None:
    """How the numbers of a step are computed; None for a program that changes nothing."""
    if not entry.program.updates and not entry.steps:
        return None
    advice = f"{what} cannot be exported to C"
    if len(entry.steps) != len(entry.before) or entry.after:
        raise HybridError(f"{advice}: it scales losses (amp) or updates rows of a sparse gradient, which Python does "
                          f"beside the program")
    if not entry.steps:
        return Training(draws=entry.draws)
    if len(entry.steps) > 1:
        raise HybridError(f"{advice}: it makes {len(entry.steps)} steps of Trainers; export a function of each")
    trainer, step = entry.steps[0]
    if step is None or step.key is not None or trainer._ranks is not None:
        raise HybridError(f"{advice}: its update draws random numbers, or adds gradients of several processes")
    counts = {step.optimizer._index_update_count.get(i, step.optimizer.begin_num_update) for i in step.indices}
    if len(counts) != 1:
        raise HybridError(f"{advice}: its parameters have been updated {sorted(counts)} times; they must have been "
                          f"updated together")
    slot = entry.arguments + next(i for i, h in enumerate(entry.captured) if h is step.numbers)
    return Training(slot, numbers_of(step), counts.pop(), entry.draws)


def name_of(holder: Any) -> str | None:
    """A name for a state of an optimizer."""
    weight, number = getattr(holder, "weight", None), getattr(holder, "number", None)
    return f"{weight.name}.state{number}" if weight is not None and isinstance(number, int) else None
