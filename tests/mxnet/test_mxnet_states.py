"""Trainer states that MXNet 1.9.1 wrote: training goes on here as it went on there. Anything else that is a pickle is
refused."""
from __future__ import annotations

import json
import os
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hybrid import lr_scheduler, nd, optimizer
from hybrid.base.errors import FileFormatError

from ..paths import DATA

with np.load(DATA / "mxnet_states.npz") as _file:
    DATA = {k: _file[k] for k in _file.files}
RUNS = json.loads(DATA["runs"].tobytes())


def _updater(run: dict[str, Any]) -> Any:
    schedule = lr_scheduler.FactorScheduler(**run["schedule"]) if run["schedule"] else None
    made = {"lr_scheduler": schedule} if schedule else {"learning_rate": 0.3}                # the file says 0.1
    return optimizer.get_updater(optimizer.create(run["optimizer"], param_idx2name={0: "a_weight", 1: "b_bias"},
                                                  **run["arguments"], **made))


@pytest.mark.parametrize("run", RUNS, ids=lambda run: run["key"])
def test_training_goes_on(run: dict[str, Any]) -> None:
    key, dtype = run["key"], run["dtype"]
    updater = _updater(run)
    updater.set_states(DATA[f"{key}.file"].tobytes())
    before = DATA[f"{key}.before"]
    weights = [nd.array(before[:6].reshape(3, 2), dtype=dtype), nd.array(before[6:], dtype=dtype)]
    for row in DATA["grads"][3:]:
        for i, g in enumerate((row[:6].reshape(3, 2), row[6:])):
            updater(i, nd.array(g, dtype=dtype), weights[i])
    got = np.concatenate([w.asnumpy().ravel() for w in weights])
    np.testing.assert_allclose(got, DATA[f"{key}.after"], rtol=0, atol=1e-6 if dtype == "float32" else 1e-3)
    assert updater.optimizer.num_update == 6


ADAM = DATA["adam-float32.file"].tobytes()


def test_another_optimizer_or_scheduler_is_an_error() -> None:
    with pytest.raises(FileFormatError, match="the states are of MXNet's optimizer Adam, this one is 'sgd'"):
        optimizer.get_updater(optimizer.create("sgd")).set_states(ADAM)
    with pytest.raises(FileFormatError, match="lr_scheduler none.*FactorScheduler"):
        optimizer.get_updater(optimizer.create("adam", lr_scheduler=lr_scheduler.FactorScheduler(3))).set_states(ADAM)


class _Boom:
    def __reduce__(self) -> Any:
        return os.mkdir, ("made",)


class _State:
    pass


@pytest.mark.parametrize("value", [_Boom(), {0: _Boom()}, {0: print}, {0: {1, 2}}, [1, 2], ({}, _State()), {(1, 2): 3},
                                   7],
                         ids=["call", "call-inside", "function", "set", "list", "object", "key", "number"])
@pytest.mark.parametrize("protocol", [2, 4])
def test_other_pickles_are_refused_and_run_nothing(value: Any, protocol: int, tmp_path: Path,
                                                   monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FileFormatError, match="pickle"):
        optimizer.get_updater(optimizer.create("adam")).set_states(pickle.dumps(value, protocol))
    assert not list(tmp_path.iterdir())


def test_values_within_each_other_do_not_blow_up() -> None:
    """Lists of the same list twice, forty deep; and a list within itself."""
    deep: Any = [1]
    for _ in range(40):
        deep = [deep, deep]
    own: list[Any] = []
    own.append(own)
    for value in (deep, own):
        with pytest.raises(FileFormatError, match="too deep"):
            optimizer.get_updater(optimizer.create("adam")).set_states(pickle.dumps({0: value}, 4))


def test_every_truncation_and_many_mutations() -> None:
    """A clear error or a right load, and the optimizer stays usable."""
    rng = np.random.RandomState(0)
    broken = [ADAM[:n] for n in range(1, len(ADAM))]
    for _ in range(1500):
        data = bytearray(ADAM)
        for _ in range(rng.randint(1, 4)):
            data[rng.randint(1, len(data))] = rng.randint(256)
        broken.append(bytes(data))
    errors = 0
    for data in broken:
        updater = optimizer.get_updater(optimizer.create("adam"))
        try:
            updater.set_states(data)
        except FileFormatError:
            errors += 1
    assert errors >= len(ADAM) - 1
