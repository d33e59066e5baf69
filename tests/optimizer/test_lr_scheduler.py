"""Learning rate schedulers: MXNet's values, and clear errors."""
from __future__ import annotations

import json
from typing import Any

import pytest

from hybrid import lr_scheduler
from hybrid.base.errors import HybridError

from ..paths import DATA

RECORD = json.loads((DATA / "optimizers.json").read_text())


@pytest.mark.parametrize("row", RECORD["schedules"],
                         ids=[f"{i}-{r['spec'][0]}" for i, r in enumerate(RECORD["schedules"])])
def test_values_are_mxnets(row: dict[str, Any]) -> None:
    name, kwargs = row["spec"]
    schedule = getattr(lr_scheduler, name)(**kwargs)
    assert [schedule(i) for i in range(1, 25)] == row["values"]


WRONG = {
    "step-zero": ("FactorScheduler", {"step": 0}, "step must be at least 1"),
    "factor-above-one": ("FactorScheduler", {"step": 1, "factor": 1.5}, "factor must not be above 1"),
    "steps-fall": ("MultiFactorScheduler", {"step": [5, 3]}, "rising update numbers"),
    "steps-no-list": ("MultiFactorScheduler", {"step": 5}, "rising update numbers"),
    "max-update": ("PolyScheduler", {"max_update": 0}, "max_update must be"),
    "nothing-left": ("CosineScheduler", {"max_update": 3, "warmup_steps": 3}, "nothing is left to decay"),
    "warmup-falls": ("FactorScheduler", {"step": 1, "base_lr": 0.1, "warmup_begin_lr": 0.2}, "a warm-up rises"),
    "warmup-mode": ("FactorScheduler", {"step": 1, "warmup_mode": "cubic"}, "linear or constant"),
    "warmup-steps": ("FactorScheduler", {"step": 1, "warmup_steps": -1}, "warmup_steps must be"),
}


@pytest.mark.parametrize("case", sorted(WRONG))
def test_wrong_arguments(case: str) -> None:
    name, kwargs, message = WRONG[case]
    with pytest.raises(HybridError, match=message):
        getattr(lr_scheduler, name)(**kwargs)


def test_base_must_be_overridden() -> None:
    with pytest.raises(NotImplementedError, match="must define __call__"):
        lr_scheduler.LRScheduler()(1)


def test_after_the_warmup_there_is_no_warmup_rate() -> None:
    with pytest.raises(HybridError, match="after the warm-up"):
        lr_scheduler.FactorScheduler(step=2, warmup_steps=3).get_warmup_lr(3)


def test_a_custom_scheduler_decides_the_rate() -> None:
    from hybrid import optimizer

    class Half(lr_scheduler.LRScheduler):
        def __call__(self, num_update: int) -> float:
            return self.base_lr / 2 ** num_update
    sgd = optimizer.SGD(lr_scheduler=Half(base_lr=1.0))
    sgd._update_count([0])
    assert sgd.learning_rate == 0.5
    with pytest.raises(UserWarning, match="lr_scheduler"):
        sgd.set_learning_rate(0.1)


def test_learning_rate_replaces_the_base() -> None:
    from hybrid import optimizer
    schedule = lr_scheduler.PolyScheduler(max_update=10, base_lr=0.5)
    with pytest.warns(UserWarning, match="SGD's learning_rate 0.1 .* replaces the base_lr 0.5 .*: give the optimizer"):
        optimizer.SGD(learning_rate=0.1, lr_scheduler=schedule)
    assert schedule.base_lr == 0.1
