"""States of a Trainer: training resumes bit for bit; hostile, damaged and truncated files, a save that is killed."""
from __future__ import annotations

import io
import json
import os
import pickle
import signal
import subprocess
import sys
import time
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hybrid import autograd, gluon, lr_scheduler, nd, optimizer
from hybrid.base.errors import FileFormatError, HybridError
from hybrid.gluon import nn

from .trainer_tools import batch, mlp, train, values


# ---- states
OPTIMIZERS = {
    "sgd": {"momentum": 0.9}, "nag": {"momentum": 0.5}, "adam": {"wd": 0.01}, "adamw": {}, "adagrad": {},
    "adadelta": {}, "rmsprop": {"centered": True},
    "adamax": {}, "nadam": {}, "ftrl": {}, "ftml": {}, "signum": {}, "lamb": {}, "lars": {"momentum": 0.9},
    "lbsgd": {"batch_scale": 2, "momentum": 0.5},
    "dcasgd": {},
}


@pytest.mark.parametrize("name", sorted(OPTIMIZERS))
def test_training_resumes_bit_for_bit(name: str, tmp_path: Path) -> None:
    """Saved after three steps of six, loaded into a new trainer that was made with other numbers."""
    def schedule() -> Any:
        return lr_scheduler.FactorScheduler(step=2, factor=0.5, base_lr=0.1)
    net = mlp()
    trainer = gluon.Trainer(net.collect_params(), name,
                            {**OPTIMIZERS[name], "learning_rate": 0.1, "lr_scheduler": schedule()})
    train(net, trainer, range(3))
    net.save_parameters(str(tmp_path / "net.params"))
    trainer.save_states(tmp_path / "trainer.states")
    train(net, trainer, range(3, 6))
    other = mlp(seed=9)
    again = gluon.Trainer(other.collect_params(), name, {**OPTIMIZERS[name], "learning_rate": 0.3, "wd": 0.5,
                                                        "lr_scheduler": lr_scheduler.FactorScheduler(step=2,
            factor=0.9, base_lr=0.3)})
    train(other, again, range(1))
    other.load_parameters(str(tmp_path / "net.params"))
    again.load_states(tmp_path / "trainer.states")
    assert again.learning_rate != 0.3
    train(other, again, range(3, 6))
    np.testing.assert_array_equal(values(net), values(other))


def test_states_with_a_float32_copy_resume(tmp_path: Path) -> None:
    nets = [mlp(), mlp(seed=3)]
    trainers = []
    for net in nets:
        net.cast("float16")
        trainers.append(gluon.Trainer(net.collect_params(), "adam", {"multi_precision": True}))

    def go(k: int, steps: Any) -> None:
        for s in steps:
            with autograd.record():
                loss = (nets[k](batch(s).astype("float16")) ** 2).sum()
            loss.backward()
            trainers[k].step(6)
    go(0, range(2))
    nets[0].save_parameters(str(tmp_path / "p"))
    trainers[0].save_states(str(tmp_path / "s"))
    go(0, range(2, 4))
    nets[1].load_parameters(str(tmp_path / "p"))
    trainers[1].load_states(str(tmp_path / "s"))
    go(1, range(2, 4))
    np.testing.assert_array_equal(values(nets[0]), values(nets[1]))


def test_states_of_an_updater_hold_what_create_state_gave() -> None:
    """Tuples, lists, None, numbers, names as indices, bfloat16, arrays without axes or elements."""
    updater = optimizer.get_updater(optimizer.create("sgd"))
    updater.states = {0: None, "fc_weight": (nd.array(2.0), [nd.zeros((0, 3)), None, 1.5, True]),
                      7: {"a": nd.array([1, 2], dtype="bfloat16")},
                      8: nd.NDArray(np.asfortranarray(np.arange(6.0).reshape(2, 3)))}
    data = updater.get_states()
    other = optimizer.get_updater(optimizer.create("adam"))
    other.set_states(data)
    a, b = updater.states, other.states
    assert list(b) == [0, "fc_weight", 7, 8] and b[0] is None and b["fc_weight"][1][1:] == [None, 1.5, True]
    assert (b["fc_weight"][0].shape == () and b["fc_weight"][0].asscalar() == 2.0
            and b["fc_weight"][1][0].shape == (0, 3))
    assert b[7]["a"].dtype == a[7]["a"].dtype and b[7]["a"].asnumpy().tolist() == [1, 2]
    np.testing.assert_array_equal(b[8].asnumpy(), a[8].asnumpy())
    assert optimizer.get_updater(optimizer.create("sgd")).get_states() and other.get_states() == data


def test_an_optimizer_that_keeps_arrays_in_itself_resumes() -> None:
    class Own(optimizer.Optimizer):
        def __init__(self, **kwargs: Any):
            super().__init__(**kwargs)
            self.sums: dict[int, Any] = {}
            self.log = print                            # not part of the state

        def update(self, index: Any, weight: Any, grad: Any, state: Any) -> None:
            self._update_count(index)
            self.sums[index] = grad + self.sums[index] if index in self.sums else grad.copy()
            weight[:] -= self._get_lr(index) * self.sums[index]
    first, second = (optimizer.get_updater(Own(learning_rate=0.5)) for _ in range(2))
    w = nd.ones((2,))
    first(0, nd.array([1.0, 2.0]), w)
    second.set_states(first.get_states(dump_optimizer=True))
    again = w.copy()
    first(0, nd.ones((2,)), w)
    second(0, nd.ones((2,)), again)
    np.testing.assert_array_equal(w.asnumpy(), again.asnumpy())
    assert second.optimizer.num_update == 2 and w.asnumpy().tolist() == [-0.5, -1.5]


def saved(tmp_path: Path, name: str = "adam", **kwargs: Any) -> tuple[Any, Path]:
    net = mlp()
    trainer = gluon.Trainer(net.collect_params(), name, kwargs)
    train(net, trainer, range(2))
    path = tmp_path / "trainer.states"
    trainer.save_states(path)
    return trainer, path


def snapshot(trainer: Any) -> Any:
    return trainer._updaters[0].get_states(dump_optimizer=True)


def test_every_truncation_is_an_error_that_changes_nothing(tmp_path: Path) -> None:
    trainer, path = saved(tmp_path)
    data, before = path.read_bytes(), snapshot(trainer)
    for size in [0, 1, 4, 30, *range(50, len(data), 97), len(data) - 1]:
        path.write_bytes(data[:size])
        with pytest.raises(FileFormatError, match="truncated or damaged"):
            trainer.load_states(path)
    assert snapshot(trainer) == before


def test_damaged_bytes_are_an_error_or_harmless(tmp_path: Path) -> None:
    """Every array and the description have a checksum."""
    trainer, path = saved(tmp_path)
    data, before, refused = path.read_bytes(), snapshot(trainer), 0
    rng = np.random.RandomState(0)
    for at in rng.randint(0, len(data), 200):
        changed = bytearray(data)
        changed[at] ^= 0x41
        path.write_bytes(bytes(changed))
        try:
            trainer.load_states(path)
        except FileFormatError:
            refused += 1
        assert snapshot(trainer) == before
    assert refused > 100


def rewrite(path: Path, change: Any) -> None:
    """The file again with its description changed."""
    with np.load(path) as z:
        arrays = dict(z)
    header = json.loads(arrays.pop("header").tobytes())
    change(header, arrays)
    out = io.BytesIO()
    np.savez(out, header=np.frombuffer(json.dumps(header).encode(), np.uint8), **arrays)
    path.write_bytes(out.getvalue())


def hostile(attribute: str, value: Any) -> Any:
    return lambda h, a: h["optimizer"]["attributes"].__setitem__(attribute, value)


HOSTILE = {
    "another-format": (lambda h, a: h.update(format="x"), "no optimizer states of this library"),
    "another-version": (lambda h, a: h.update(version=2), "version 2"),
    "another-optimizer": (lambda h, a: h["optimizer"].update({"class": "sgd"}),
                          "of the optimizer 'sgd', this one is 'adam'"),
    "unknown-attribute": (hostile("__class__", "x"), "does not have"),
    "method": (hostile("rule", 1.0), "does not have"),
    "kind": (hostile("beta1", "0.9"), "to a str, it is a float"),
    "scheduler-attribute": (hostile("lr_scheduler", None), "does not have"),
    "scheduler": (lambda h, a: h.update(lr_scheduler={"class": "FactorScheduler", "attributes": {}}),
                  "this optimizer has none"),
    "no-devices": (lambda h, a: h.pop("devices"), "devices are missing"),
    "odd-devices": (lambda h, a: h.update(devices=[["gpu", {}]]), "devices are missing"),
    "missing-array": (lambda h, a: a.pop("1"), "array 1 is missing"),
    "negative-array": (lambda h, a: h.update(states={"dict": [[0, {"array": -1}]]}), "array -1 is missing"),
    "odd-value": (lambda h, a: h.update(states={"dict": [[0, {"code": "import os"}]]}), "of no known form"),
    "odd-index": (lambda h, a: h.update(states={"dict": [[{"list": []}, None]]}), "damaged"),
    "states-no-dict": (lambda h, a: h.update(states=[1]), "damaged"),
    "no-attributes": (lambda h, a: h["optimizer"].pop("attributes"), "attributes are missing"),
    "objects": (lambda h, a: a.update({"2": np.array([1.0, None], dtype=object)}), "truncated or damaged"),
}


@pytest.mark.parametrize("case", sorted(HOSTILE))
def test_hostile_files(case: str, tmp_path: Path) -> None:
    trainer, path = saved(tmp_path)
    before = snapshot(trainer)
    change, message = HOSTILE[case]
    rewrite(path, change)
    with pytest.raises(FileFormatError, match=message):
        trainer.load_states(path)
    assert snapshot(trainer) == before


def test_a_pickle_is_not_loaded(tmp_path: Path) -> None:
    class Boom:
        def __reduce__(self) -> Any:
            return os.mkdir, (str(tmp_path / "made"),)
    trainer, path = saved(tmp_path)
    path.write_bytes(pickle.dumps(Boom()))
    with pytest.raises(FileFormatError, match="pickle"):
        trainer.load_states(path)
    assert not (tmp_path / "made").exists()


def test_compressed_archives_are_refused(tmp_path: Path) -> None:
    """A small file must not unpack to a large one."""
    trainer, path = saved(tmp_path)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("header.npy", b"\0" * 10_000_000)
    with pytest.raises(FileFormatError, match="truncated or damaged"):
        trainer.load_states(path)


def test_states_of_another_network_are_found_out(tmp_path: Path) -> None:
    _, path = saved(tmp_path)
    net = nn.Dense(7, in_units=4)
    net.initialize()
    trainer = gluon.Trainer(net.collect_params(), "adam")
    trainer.load_states(path)
    with autograd.record():
        loss = net(batch(0)).sum()
    loss.backward()
    with pytest.raises(HybridError, match="state"):
        trainer.step(1)


def test_no_file(tmp_path: Path) -> None:
    trainer, _ = saved(tmp_path)
    with pytest.raises(FileNotFoundError):
        trainer.load_states(tmp_path / "none")


KILLED = """
import sys, numpy as np
from hybrid import nd, optimizer
updater = optimizer.get_updater(optimizer.create("adam"))
n = 0
while True:
    n += 1
    updater.states = {{0: (nd.array(np.full(200000, n, "float32")), nd.array(np.full(200000, n, "float32")))}}
    from hybrid.base.atomic import write_bytes
    write_bytes({path!r}, updater.get_states(dump_optimizer=True))
    print(n, flush=True)
"""


def test_a_killed_save_leaves_a_whole_file(tmp_path: Path) -> None:
    path = tmp_path / "states"
    rng = np.random.RandomState(0)
    for _ in range(4):
        worker = subprocess.Popen([sys.executable, "-c", KILLED.format(path=str(path))], stdout=subprocess.PIPE)
        assert worker.stdout is not None and worker.stdout.readline()
        time.sleep(rng.uniform(0, 0.05))
        worker.send_signal(signal.SIGKILL)
        worker.wait()
        worker.stdout.close()
        updater = optimizer.get_updater(optimizer.create("adam"))
        updater.set_states(path.read_bytes())
        mean, var = (x.asnumpy() for x in updater.states[0])
        assert mean[0] >= 1 and (mean == mean[0]).all() and (var == mean[0]).all()
