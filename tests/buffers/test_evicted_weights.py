"""Weights are in memory once: after a hybridized inference call has packed them their plain buffers are evicted, and
whoever looks at one gets it again, bit for bit.
"""
from __future__ import annotations

import copy
import pickle
import threading
from pathlib import Path
from typing import Any, Callable, Iterator

import numpy as np
import pytest

import hybrid as mx
from hybrid import autograd, gluon, ir, nd
from hybrid.buffers import evict
from hybrid.base.device import find_cupy
from hybrid.gluon import nn
from hybrid.ir import Program
from hybrid.ir.packed import joined, pack
from hybrid.passes import layout
from hybrid.passes.unpack import ways_back
from hybrid.runtime import prepacked, reference

pytestmark = pytest.mark.skipif(find_cupy() is not None, reason="of weights on the CPU")


@pytest.fixture(autouse=True)
def every_size(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(layout, "LEAST_WORK", 1)
    monkeypatch.setattr(evict, "LEAST", 1)
    monkeypatch.setattr(prepacked, "AT_ONCE", 1 << 14)            # several portions
    monkeypatch.setenv("HYBRID_TUNE", "0")
    yield


def network() -> tuple[Any, Any]:
    """All forms (1x1, strided, depthwise, dense, Winograd's), with odd numbers of filters."""
    mx.random.seed(3)
    net = nn.HybridSequential()
    net.add(nn.Conv2D(33, 3, strides=2, padding=1, in_channels=16, activation="relu"), nn.BatchNorm(in_channels=33),
            nn.Conv2D(33, 3, padding=1, groups=33, in_channels=33), nn.Conv2D(48, 1, in_channels=33, activation="relu"),
            nn.Conv2D(32, 3, padding=1, in_channels=48), nn.HybridLambda(lambda F, x: F.mean(x, axis=3)),
            nn.Dense(40, flatten=False, in_units=9))
    net.initialize(mx.init.Uniform(0.3))
    net.hybridize()
    return net, nd.array(np.random.RandomState(4).rand(1, 16, 18, 18))


PACKED = (0, 2, 3, 4, 6)


def weights(net: Any) -> list[Any]:
    return [net[i].weight.data() for i in PACKED]


def away(x: Any) -> bool:
    return evict.of(x) is not None


def called() -> tuple[Any, Any, list[np.ndarray], np.ndarray]:
    """A network after an inference call, its argument, its weights as they were before, and its result."""
    net, x = network()
    before = [w.asnumpy() for w in weights(net)]
    y = net(x).asnumpy()
    assert [away(w) for w in weights(net)] == [True] * 5
    return net, x, before, y


def eager(net: Any, x: Any) -> np.ndarray:
    """What a net without programs, of the same parameters, gives."""
    other, _ = network()
    for a, b in zip(other.collect_params().values(), net.collect_params().values()):
        a.set_data(nd.array(b.data().asnumpy()))
    other.hybridize(False)
    return other(x).asnumpy()


# ---- what is evicted
def test_packed_weights_are_given_up() -> None:
    net, x, before, y = called()
    assert not away(net[1].gamma.data())
    for w, old in zip(weights(net), before):
        assert (w.shape == old.shape and w.dtype is np.float32 and w.size == old.size and w.ndim == old.ndim
                and w.itemsize == 4 and len(w) == len(old))
        np.testing.assert_array_equal(w.asnumpy(), old)
        assert away(w)                                           # a copy is made without it
    np.testing.assert_array_equal(net(x).asnumpy(), y)
    np.testing.assert_allclose(y, eager(net, x), rtol=1e-5, atol=1e-5)


def test_the_report_counts_bytes() -> None:
    net, _, before, _ = called()
    report, size = net.report(), sum(w.nbytes for w in before)
    assert report.evicted_bytes == report.movable_bytes == size < report.source_bytes < report.prepared_bytes + size
    assert f"{size} evicted" in str(report)
    weights(net)[0][0, 0] = 1
    assert net.report().evicted_bytes == size - before[0].nbytes


LOOKS: dict[str, Callable[[Any, Path], Any]] = {
    "asnumpy": lambda w, _: w.asnumpy(),
    "copy": lambda w, _: w.copy().asnumpy(),
    "deepcopy": lambda w, _: copy.deepcopy(w).asnumpy(),
    "pickle": lambda w, _: pickle.loads(pickle.dumps(w)).asnumpy(),
    "array": lambda w, _: np.asarray(w),
    "again": lambda w, _: nd.array(w).asnumpy(),
    "eager": lambda w, _: (w * 1).asnumpy(),
    "view": lambda w, _: w[:].asnumpy(),
    "detached": lambda w, _: w.detach().asnumpy(),
    "other_class": lambda w, _: w.as_np_ndarray().asnumpy(),
    "handle": lambda w, _: np.array(w.handle),
    "dlpack": lambda w, _: np.array(np.from_dlpack(w)),
    "numbers": lambda w, _: np.array(w.tolist(), np.float32),
    "saved": lambda w, d: (nd.save(str(d / "w"), [w]), nd.load(str(d / "w"))[0].asnumpy())[1],
    "moved": lambda w, _: w.copyto(mx.cpu()).asnumpy(),
    "cast": lambda w, _: w.astype("float64").asnumpy().astype("float32"),
}


@pytest.mark.parametrize("how", LOOKS)
def test_whoever_looks_sees_the_same_bits(how: str, tmp_path: Path) -> None:
    net, x, before, y = called()
    for w, old in zip(weights(net), before):
        np.testing.assert_array_equal(LOOKS[how](w, tmp_path).reshape(old.shape), old)
    np.testing.assert_array_equal(net(x).asnumpy(), y)


WRITES: dict[str, Callable[[Any], Any]] = {
    "all": lambda w: w.__setitem__(slice(None), 0.25),
    "one": lambda w: w.__setitem__(0, 0.5),
    "view": lambda w: w[0:1].__setitem__(slice(None), 0.75),
    "detached": lambda w: w.detach().__setitem__(slice(None), 0.125),
    "added": lambda w: w.__iadd__(1),
    "out": lambda w: nd.zeros(w.shape).copyto(w),
    "raw": lambda w: w.handle.__setitem__(0, 2.5),
    "other_buffer": lambda w: w._rebind(np.full(w.shape, 0.5, np.float32)),
}


@pytest.mark.parametrize("how", WRITES)
@pytest.mark.parametrize("which", [0, 1, 3, 4], ids=["strided", "depthwise", "winograd", "dense"])
def test_no_write_is_lost(how: str, which: int) -> None:
    net, x, before, y = called()
    WRITES[how](weights(net)[which])
    after = net(x).asnumpy()
    assert np.abs(after - y).max() > 1e-4
    np.testing.assert_allclose(after, eager(net, x), rtol=1e-5, atol=1e-5 * np.abs(after).max())
    for i, old in enumerate(before):
        assert np.array_equal(weights(net)[i].asnumpy(), old) == (i != which)
    WRITES[how](weights(net)[which])                             # and once more
    again = net(x).asnumpy()
    np.testing.assert_allclose(again, eager(net, x), rtol=1e-5, atol=1e-5 * np.abs(again).max())


def test_a_net_is_saved_loaded_and_trained(tmp_path: Path) -> None:
    net, x, before, y = called()
    net.save_parameters(str(tmp_path / "a"))
    assert all(map(away, weights(net)))
    other, _ = network()
    other.load_parameters(str(tmp_path / "a"))
    np.testing.assert_array_equal(other(x).asnumpy(), y)
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.05})
    for _ in range(3):
        with autograd.record():
            loss = (net(x) ** 2).mean()
        loss.backward()
        trainer.step(1)
        y = net(x).asnumpy()
        assert not any(map(away, weights(net)))                  # what is trained keeps its buffers
        np.testing.assert_allclose(y, eager(net, x), rtol=1e-4, atol=1e-5)
    assert all(np.abs(w.asnumpy() - old).max() > 0 for w, old in zip(weights(net), before))


def test_other_batches_share_packed_weights() -> None:
    net, x, before, y = called()
    many = nd.array(np.repeat(x.asnumpy(), 3, axis=0))
    for _ in range(3):
        np.testing.assert_allclose(net(many).asnumpy(), np.repeat(y, 3, axis=0), rtol=1e-5, atol=1e-5)
        np.testing.assert_array_equal(net(x).asnumpy(), y)
    first, second = (e.bound._prepared for e in dict.fromkeys(net._engine.entries.values()))
    assert sum(any(a is b for b in first.values) for a in second.values) >= 2 and all(map(away, weights(net)))
    weights(net)[0][:] = 0.5
    np.testing.assert_allclose(net(many).asnumpy(), np.repeat(net(x).asnumpy(), 3, axis=0), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(net(x).asnumpy(), eager(net, x), rtol=1e-5, atol=1e-5)
    assert len(before) == 5


# ---- what stays
KEPT: dict[str, Callable[[Any], Any]] = {
    "view": lambda w: w[0:1],
    "raw": lambda w: w._data,
    "detached": lambda w: w.detach(),
    "memoryview": lambda w: memoryview(w._data),
    "handle": lambda w: w.handle,
    "part_of_base": lambda w: w._data.base[:3],
}


@pytest.mark.parametrize("how", KEPT)
def test_what_others_hold_stays(how: str) -> None:
    net, x = network()
    held = KEPT[how](weights(net)[0])
    net(x)
    assert held is not None and [away(w) for w in weights(net)][0] is False


def test_what_has_a_gradient_stays() -> None:
    net, x = network()
    with autograd.record():
        net(x).sum().backward()
    net(x)
    assert not any(map(away, weights(net)))


def test_small_arrays_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evict, "LEAST", 1 << 30)
    net, x = network()
    net(x)
    assert not any(map(away, weights(net)))


def test_what_is_asked_for_again_and_again_stays() -> None:
    net, x, _, _ = called()
    for k in range(4):
        weights(net)[0][:] = k
        y = net(x).asnumpy()
    assert not any(map(away, weights(net)))
    np.testing.assert_allclose(y, eager(net, x), rtol=1e-5, atol=1e-5 * np.abs(y).max())


def test_a_failed_preparation_loses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    net, x = network()
    before = [w.asnumpy() for w in weights(net)]

    def fail(*_: Any) -> None:
        raise MemoryError("no room")
    with monkeypatch.context() as m:
        m.setattr(prepacked.Prepared, "_run", fail)
        with pytest.raises(MemoryError):
            net(x)
    for w, old in zip(weights(net), before):
        assert not away(w) and np.array_equal(w._data, old)
    np.testing.assert_allclose(net(x).asnumpy(), eager(net, x), rtol=1e-5, atol=1e-5)


# ---- gradients
def test_gradients_take_memory_when_somebody_looks() -> None:
    net, x, _, y = called()
    grads = [w.grad for w in weights(net)]
    assert all(map(away, grads)) and [g.shape for g in grads] == [w.shape for w in weights(net)]
    assert not grads[0].asnumpy().any() and away(grads[0])
    grads[1][:] = 2
    assert (grads[1].asnumpy() == 2).all() and not away(grads[1]) and grads[1] is weights(net)[1].grad
    for _ in range(2):
        with autograd.record():
            net(x).sum().backward()
    alone, _ = network()
    alone.hybridize(False)
    with autograd.record():
        alone(x).sum().backward()
    for a, b in zip(weights(net), weights(alone)):
        np.testing.assert_allclose(a.grad.asnumpy(), b.grad.asnumpy(), rtol=1e-4,
                                   atol=1e-4 * np.abs(b.grad.asnumpy()).max())


# ---- several threads
def test_threads_read_write_and_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evict, "MOST_TIMES", 1 << 30)
    net, x = network()
    bias = net[6].bias.data()
    for w in weights(net):
        w[:] = 0
    stop, wrong = threading.Event(), []

    def run(step: Callable[[int], Any]) -> None:
        k = 0
        try:
            while not stop.is_set() and k < 400:
                k += 1
                step(k)
        except Exception as err:
            wrong.append(err)

    def write(k: int) -> None:
        """The sum of the dense weights is a multiple of all of them."""
        weights(net)[4][:] = k
        if not (got := weights(net)[4].asnumpy()).max() == got.min() == k:
            wrong.append(got)

    def read(_: int) -> None:
        for w in weights(net)[:4]:
            if np.any(w.asnumpy()) or np.any((w * 1).asnumpy()):
                wrong.append(w)

    def call(_: int) -> None:
        if not np.allclose(net(x).asnumpy(), bias.asnumpy()):    # zeros times whatever the last weights are
            wrong.append("result")
    bias[:] = 3
    net[4].bias.data()[:] = 0
    threads = [threading.Thread(target=run, args=(f,)) for f in (write, read, call, call)]
    for t in threads:
        t.start()
    threads[0].join(3)
    stop.set()
    for t in threads:
        t.join()
    assert not wrong


# ---- the way back
FORMS: dict[str, Callable[[Any], Any]] = {
    "direct": lambda w: pack(w, "direct", 16),
    "groups": lambda w: pack(w, "direct", 16, 5),
    "depthwise": lambda w: pack(ir.reshape(w, (35, 1, 3, 18)), "depthwise", 16),
    "joined": lambda w: pack(joined(w, 35, 5), "direct", 16, 7),
    "winograd": lambda w: pack(ir.reshape(w, (35, 6, 3, 3)), "winograd", 16),
    "rounded": lambda w: ir.cast(w, np.float16),
    "concat": lambda w: ir.concat([ir.permute(w, (1, 0, 2, 3)), ir.full(1.0, (2, 35, 3, 3), np.float32)], 0),
    "part": lambda w: ir.slice(w, (0, 0, 0, 0), (35, 6, 3, 2)),
    "cut": lambda w: ir.pad(w, (0, 0, 0, 0), (0, 0, 0, -1)),
}
NO_FAST_PATH = ("joined", "rounded", "part", "cut")


@pytest.mark.parametrize("form", FORMS)
def test_way_back(form: str) -> None:
    w = ir.input(0, (35, 6, 3, 3), np.float32)
    program = Program((w,), (FORMS[form](w),))
    way, = ways_back(program)
    assert (way is None) == (form in NO_FAST_PATH)
    if way is not None:
        raw = np.random.RandomState(1).rand(35, 6, 3, 3).astype(np.float32)
        packed = reference.run(program, [raw], np)[0][way[0]]
        np.testing.assert_array_equal(evict.unpacked(packed, way[1]), raw)
