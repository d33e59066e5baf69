"""Trainer: steps, stale gradients, several devices, states that resume bit for bit, hostile and truncated files."""
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
from hybrid.device import cpu
from hybrid.errors import FileFormatError, HybridError
from hybrid.gluon import nn
from hybrid.gluon.trainer import StaleGradientError


def mlp(seed: int = 0, ctx: Any = None) -> nn.HybridSequential:
    net = nn.HybridSequential()
    net.add(nn.Dense(5, in_units=4, activation="tanh"), nn.Dense(3, in_units=5))
    net.initialize(ctx=ctx)
    rng = np.random.RandomState(seed)
    for p in net.collect_params().values():
        p.set_data(nd.array(rng.uniform(-1, 1, p.shape).astype("float32")))
    return net


def batch(step: int, ctx: Any = None) -> Any:
    return nd.array(np.random.RandomState(100 + step).randn(6, 4).astype("float32"), ctx=ctx)


def train(net: Any, trainer: Any, steps: Any) -> None:
    for step in steps:
        with autograd.record():
            loss = (net(batch(step)) ** 2).sum()
        loss.backward()
        trainer.step(6)


def values(net: Any) -> np.ndarray:
    return np.concatenate([p.data().asnumpy().ravel() for p in net.collect_params().values()])


# ---- steps
def test_step_is_the_formula() -> None:
    net = mlp()
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.5, "wd": 0.1})
    with autograd.record():
        loss = (net(batch(0)) ** 2).sum()
    loss.backward()
    before = {n: (p.data().asnumpy(), p.grad().asnumpy()) for n, p in net.collect_params().items()}
    trainer.step(6)
    for n, p in net.collect_params().items():
        w, g = before[n]
        np.testing.assert_allclose(p.data().asnumpy(), w - 0.5 * (g / 6 + 0.1 * w), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("hybrid", [False, True], ids=["eager", "hybridized"])
def test_training_lowers_the_loss(hybrid: bool) -> None:
    net = mlp()
    if hybrid:
        net.hybridize()
    trainer = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 0.02})
    first = float((net(batch(0)) ** 2).sum().asscalar())
    train(net, trainer, [0] * 40)
    assert float((net(batch(0)) ** 2).sum().asscalar()) < 0.2 * first


def test_weights_and_gradients_keep_their_identity() -> None:
    net = mlp()
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"momentum": 0.9})
    held = [(p.data(), p.data().handle, p.grad(), p.grad().handle) for p in net.collect_params().values()]
    train(net, trainer, range(2))
    for p, (w, raw, g, raw_g) in zip(net.collect_params().values(), held):
        assert p.data() is w and w.handle is raw and p.grad() is g and g.handle is raw_g


def test_list_of_parameters_and_multipliers() -> None:
    net = mlp()
    params = list(net.collect_params().values())
    params[0].lr_mult, params[1].grad_req = 0.0, "null"
    before = [p.data().asnumpy() for p in params]
    trainer = gluon.Trainer(params, optimizer.SGD(learning_rate=0.1))
    train(net, trainer, [0])
    same = [np.array_equal(b, p.data().asnumpy()) for b, p in zip(before, params)]
    assert same == [True, True, False, False]
    params[0].lr_mult = 1.0                            # counts from the next step on
    train(net, trainer, [1])
    assert not np.array_equal(before[0], params[0].data().asnumpy())


def test_learning_rate() -> None:
    net = mlp()
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1})
    assert trainer.learning_rate == 0.1
    trainer.set_learning_rate(0.0)
    before = values(net)
    train(net, trainer, [0])
    np.testing.assert_array_equal(values(net), before)
    assert trainer.optimizer.num_update == 1


def test_scheduler_is_called_with_the_number_of_updates() -> None:
    net = mlp()
    schedule = lr_scheduler.FactorScheduler(step=1, factor=0.5, base_lr=1.0)
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"lr_scheduler": schedule})
    train(net, trainer, range(3))
    assert trainer.learning_rate == 0.25
    with pytest.raises(UserWarning, match="lr_scheduler"):
        trainer.set_learning_rate(0.1)


def test_gradients_that_are_added() -> None:
    """grad_req add: two backward passes, one step."""
    net = mlp()
    for p in net.collect_params().values():
        p.grad_req = "add"
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 1.0})
    for step in range(2):
        with autograd.record():
            loss = net(batch(step)).sum()
        loss.backward()
    p = net.collect_params()[sorted(net.collect_params().keys())[0]]
    w, g = p.data().asnumpy(), p.grad().asnumpy()
    trainer.step(1)
    np.testing.assert_allclose(p.data().asnumpy(), w - g, rtol=1e-5, atol=1e-6)


def test_gradients_changed_between_backward_and_update() -> None:
    net = mlp()
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 1.0})
    before = values(net)
    with autograd.record():
        loss = net(batch(0)).sum()
    loss.backward()
    trainer.allreduce_grads()
    for p in net.collect_params().values():
        p.grad()[:] = 2.0
    trainer.update(4)
    np.testing.assert_allclose(values(net), before - 0.5, rtol=1e-5, atol=1e-6)


def test_parameters_that_get_other_arrays() -> None:
    """cast, new gradient rules and loading are noticed by a prepared step."""
    net = mlp()
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1})
    train(net, trainer, [0])
    for p in net.collect_params().values():
        p.grad_req = "add"
    before = values(net)
    train(net, trainer, [1])
    assert not np.array_equal(values(net), before)
    net.cast("float64")
    with autograd.record():
        loss = (net(batch(2).astype("float64")) ** 2).sum()
    loss.backward()
    before = values(net)
    trainer.step(6)
    assert values(net).dtype == np.float64 and not np.array_equal(values(net), before)


def test_multi_precision() -> None:
    net = mlp()
    net.cast("float16")
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 1e-4, "momentum": 0.9, "multi_precision": True})
    for _ in range(3):
        with autograd.record():
            loss = net(batch(0).astype("float16")).sum()
        loss.backward()
        trainer.step(1)
    states = trainer._updaters[0].states
    for i, p in enumerate(trainer._params):
        momentum, copy = states[i]
        assert momentum.dtype == copy.dtype == np.float32 and p.data().dtype == np.float16
        np.testing.assert_array_equal(p.data().asnumpy(), copy.asnumpy().astype(np.float16))


# ---- stale gradients
def test_step_before_backward() -> None:
    net = mlp()
    trainer = gluon.Trainer(net.collect_params(), "sgd")
    before = values(net)
    with pytest.raises(StaleGradientError, match=r"has not written the gradient of parameter .*loss.backward\(\)"):
        trainer.step(1)
    np.testing.assert_array_equal(values(net), before)


def test_second_step_without_backward_is_a_user_warning() -> None:
    net = mlp()
    trainer = gluon.Trainer(net.collect_params(), "sgd")
    train(net, trainer, [0])
    with pytest.raises(UserWarning, match="ignore_stale_grad"):
        trainer.step(1)


def test_ignored_stale_gradients_leave_parameters_as_they_are() -> None:
    net, unused = mlp(), nn.Dense(2, in_units=2)
    unused.initialize()
    params = {**net.collect_params(), **unused.collect_params()}
    trainer = gluon.Trainer(params, "sgd", {"learning_rate": 0.1, "wd": 0.5})
    kept, before = unused.weight.data().asnumpy(), values(net)
    with autograd.record():
        loss = net(batch(0)).sum()
    loss.backward()
    with pytest.raises(UserWarning, match=unused.bias.name):
        trainer.step(1)
    trainer.step(1, ignore_stale_grad=True)
    np.testing.assert_array_equal(unused.weight.data().asnumpy(), kept)
    assert not np.array_equal(values(net), before)
    before = values(net)
    trainer.step(1, ignore_stale_grad=True)            # nothing is fresh now
    np.testing.assert_array_equal(values(net), before)


def test_parameters_are_taken_in_natural_order() -> None:
    """States are saved by position: names that differ in their numbers alone must give the same order."""
    nets = []
    for first in (8, 9):
        params = {f"dense{i}_weight": gluon.Parameter(f"dense{i}_weight", shape=(i,)) for i in range(first, first + 4)}
        for p in params.values():
            p.initialize()
        nets.append([p.name for p in gluon.Trainer(params, "sgd")._params])
    assert nets[0] == [f"dense{i}_weight" for i in (8, 9, 10, 11)] and nets[1] == [f"dense{i}_weight" for i in (9, 10, 11, 12)]


# ---- several devices
def split_step(net: Any, trainer: Any, contexts: Any, call: Any) -> None:
    with autograd.record():
        losses = [(net(batch(k, c)) ** 2).sum() for k, c in enumerate(contexts)]
    autograd.backward(losses)
    call(trainer)


@pytest.mark.parametrize("on_store", [None, False], ids=["once-for-all", "on-each-device"])
def test_devices_add_their_gradients(on_store: Any) -> None:
    contexts = [cpu(0), cpu(1)]
    net, alone = mlp(ctx=contexts), mlp()
    trainer = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 0.01}, update_on_kvstore=on_store)
    single = gluon.Trainer(alone.collect_params(), "adam", {"learning_rate": 0.01})
    for _ in range(3):
        split_step(net, trainer, contexts, lambda t: t.step(12))
        with autograd.record():
            loss = (alone(batch(0)) ** 2).sum() + (alone(batch(1)) ** 2).sum()
        loss.backward()
        single.step(12)
    for p, q in zip(net.collect_params().values(), alone.collect_params().values()):
        first, second = (p.data(c).asnumpy() for c in contexts)
        np.testing.assert_array_equal(first, second)
        np.testing.assert_allclose(first, q.data().asnumpy(), rtol=1e-4, atol=1e-5)


def test_gradients_of_devices_can_be_changed() -> None:
    contexts = [cpu(0), cpu(1)]
    net = mlp(ctx=contexts)
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1}, update_on_kvstore=False)
    one = next(iter(net.collect_params().values()))
    parts: list[Any] = []

    def clip(t: Any) -> None:
        parts.extend(g.asnumpy() for g in one.list_grad())
        t.allreduce_grads()
        for g in one.list_grad():
            np.testing.assert_allclose(g.asnumpy(), parts[0] + parts[1], rtol=1e-5, atol=1e-6)
        t.update(12)
    split_step(net, trainer, contexts, clip)


def test_weights_updated_once_refuse_the_two_halves() -> None:
    contexts = [cpu(0), cpu(1)]
    trainer = gluon.Trainer(mlp(ctx=contexts).collect_params(), "sgd")
    for call in (trainer.allreduce_grads, lambda: trainer.update(1)):
        with pytest.raises(HybridError, match="update_on_kvstore=False"):
            call()


def test_no_store_keeps_devices_apart() -> None:
    contexts = [cpu(0), cpu(1)]
    net = mlp(ctx=contexts)
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1}, kvstore=None)
    split_step(net, trainer, contexts, lambda t: t.step(6))
    one = next(iter(net.collect_params().values()))
    assert not np.array_equal(one.data(contexts[0]).asnumpy(), one.data(contexts[1]).asnumpy())


# ---- states
OPTIMIZERS = {
    "sgd": {"momentum": 0.9}, "nag": {"momentum": 0.5}, "adam": {"wd": 0.01}, "adamw": {}, "adagrad": {}, "adadelta": {}, "rmsprop": {"centered": True},
    "adamax": {}, "nadam": {}, "ftrl": {}, "ftml": {}, "signum": {}, "lamb": {}, "lars": {"momentum": 0.9}, "lbsgd": {"batch_scale": 2, "momentum": 0.5},
    "dcasgd": {},
}


@pytest.mark.parametrize("name", sorted(OPTIMIZERS))
def test_training_resumes_bit_for_bit(name: str, tmp_path: Path) -> None:
    """Saved after three steps of six, loaded into a new trainer that was made with other numbers."""
    def schedule() -> Any:
        return lr_scheduler.FactorScheduler(step=2, factor=0.5, base_lr=0.1)
    net = mlp()
    trainer = gluon.Trainer(net.collect_params(), name, {**OPTIMIZERS[name], "learning_rate": 0.1, "lr_scheduler": schedule()})
    train(net, trainer, range(3))
    net.save_parameters(str(tmp_path / "net.params"))
    trainer.save_states(tmp_path / "trainer.states")
    train(net, trainer, range(3, 6))
    other = mlp(seed=9)
    again = gluon.Trainer(other.collect_params(), name, {**OPTIMIZERS[name], "learning_rate": 0.3, "wd": 0.5,
                                                        "lr_scheduler": lr_scheduler.FactorScheduler(step=2, factor=0.9, base_lr=0.3)})
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
    updater.states = {0: None, "fc_weight": (nd.array(2.0), [nd.zeros((0, 3)), None, 1.5, True]), 7: {"a": nd.array([1, 2], dtype="bfloat16")},
                      8: nd.NDArray(np.asfortranarray(np.arange(6.0).reshape(2, 3)))}
    data = updater.get_states()
    other = optimizer.get_updater(optimizer.create("adam"))
    other.set_states(data)
    a, b = updater.states, other.states
    assert list(b) == [0, "fc_weight", 7, 8] and b[0] is None and b["fc_weight"][1][1:] == [None, 1.5, True]
    assert b["fc_weight"][0].shape == () and b["fc_weight"][0].asscalar() == 2.0 and b["fc_weight"][1][0].shape == (0, 3)
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
    "another-optimizer": (lambda h, a: h["optimizer"].update({"class": "sgd"}), "of the optimizer 'sgd', this one is 'adam'"),
    "unknown-attribute": (hostile("__class__", "x"), "does not have"),
    "method": (hostile("rule", 1.0), "does not have"),
    "kind": (hostile("beta1", "0.9"), "to a str, it is a float"),
    "scheduler-attribute": (hostile("lr_scheduler", None), "does not have"),
    "scheduler": (lambda h, a: h.update(lr_scheduler={"class": "FactorScheduler", "attributes": {}}), "this optimizer has none"),
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
    from hybrid.serialize.atomic import write_bytes
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


# ---- bad input
BAD = {
    "no-parameters": (lambda n: gluon.Trainer(n, "sgd"), "must be a list or dict of Parameters, got HybridSequential"),
    "other-things": (lambda n: gluon.Trainer([nd.ones((1,))], "sgd"), "it holds a NDArray"),
    "twice": (lambda n: gluon.Trainer(list(n.collect_params().values()) * 2, "sgd"), "given twice"),
    "optimizer": (lambda n: gluon.Trainer(n.collect_params(), "sgdd"), "unknown optimizer"),
    "argument": (lambda n: gluon.Trainer(n.collect_params(), "sgd", {"lr": 0.1}), "SGD has no argument 'lr'"),
    "params-no-dict": (lambda n: gluon.Trainer(n.collect_params(), "sgd", [0.1]), "must be a dict"),
    "params-and-object": (lambda n: gluon.Trainer(n.collect_params(), optimizer.SGD(), {"wd": 0.1}), "belong to an optimizer given by name"),
    "store-name": (lambda n: gluon.Trainer(n.collect_params(), "sgd", kvstore="devices"), "kvstore must be None or one of"),
    "store-distributed": (lambda n: gluon.Trainer(n.collect_params(), "sgd", kvstore="dist_sync"), "one process here"),
    "batch-zero": (lambda n: gluon.Trainer(n.collect_params(), "sgd").step(0), "batch_size must be a number other than 0"),
    "batch-text": (lambda n: gluon.Trainer(n.collect_params(), "sgd").step("4"), "batch_size must be a number"),
    "not-initialized": (lambda n: gluon.Trainer(nn.Dense(2, in_units=2).collect_params(), "sgd"), "has not been initialized"),
}


@pytest.mark.parametrize("case", sorted(BAD))
def test_bad_input(case: str) -> None:
    call, message = BAD[case]
    with pytest.raises(HybridError, match=message):
        call(mlp())


def test_a_trainer_without_parameters(tmp_path: Path) -> None:
    trainer = gluon.Trainer({}, "sgd")
    trainer.step(1)
    trainer.save_states(tmp_path / "s")
    trainer.load_states(tmp_path / "s")
    assert trainer.optimizer.num_update == 0


def test_a_store_object_counts_by_its_type() -> None:
    class Store:
        type = "dist_async"
    with pytest.raises(HybridError, match="one process here"):
        gluon.Trainer(mlp().collect_params(), "sgd", kvstore=Store())


def test_deferred_parameters_at_a_step() -> None:
    net = nn.Dense(2)
    net.initialize()
    trainer = gluon.Trainer(net.collect_params(), "sgd")
    with pytest.raises(HybridError, match="not been initialized yet|gradient"):
        trainer.step(1)
    with autograd.record():
        loss = net(nd.ones((3, 4))).sum()
    loss.backward()
    trainer.step(3)
    assert trainer.optimizer.num_update == 1


def test_devices_must_agree() -> None:
    a, b = nn.Dense(1, in_units=1), nn.Dense(1, in_units=1)
    a.initialize(ctx=cpu(0))
    b.initialize(ctx=cpu(1))
    with pytest.raises(HybridError, match="same devices"):
        gluon.Trainer({**a.collect_params(), **b.collect_params()}, "sgd")
