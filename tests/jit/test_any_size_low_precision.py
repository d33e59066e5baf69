"""Products of bfloat16 and of 8-bit integers with any batch size: one program gives what eager code and programs made
for each size give."""
from __future__ import annotations

import re
from typing import Any, Iterator

import numpy as np
import pytest

from hybrid import autograd, gluon, hybridize, init, nd, random
from hybrid.contrib import amp, quantization
from hybrid.gluon import nn
from hybrid.runtime import toolchain

pytest.importorskip("ml_dtypes")
needs_words = pytest.mark.skipif(not {"bfloat16", "uint8"} <= toolchain.words(),
                                 reason="the processor or the compiler has no products of bfloat16 and bytes")
SIZES = (64, 63, 1, 2, 15, 16, 17, 64, 100, 33)


def dense() -> list[Any]:
    """Layers whose filters and depth are no multiples of vectors, tiles and words."""
    return [nn.Dense(70, activation="relu"), nn.Dense(33, activation="relu"), nn.Dense(10)]


def images() -> list[Any]:
    """Convolutions by words, with and without a border, and 3x3 ones in Winograd's form where bfloat16 has it."""
    return [nn.Conv2D(16, 5, activation="relu"), nn.MaxPool2D(), nn.Conv2D(33, 3, padding=1, activation="relu"),
            nn.Conv2D(32, 3, padding=1, activation="relu"), nn.Conv2D(48, 1, strides=2), nn.Flatten(), nn.Dense(10)]


NETS = {"dense": (dense, (129,)), "images": (images, (3, 20, 18))}


def network(name: str, numbers: bool = True) -> tuple[Any, np.ndarray]:
    """A network, and images for its largest batch. numbers: whether weights and data are bfloat16 numbers."""
    make, shape = NETS[name]
    random.seed(0)
    net = nn.HybridSequential()
    net.add(*make())
    net.initialize(init.Xavier())
    x = np.random.default_rng(0).standard_normal((max(SIZES), *shape)).astype("float32")
    net(nd.array(x[:2]))
    if numbers:
        for p in net.collect_params().values():
            p.set_data(p.data().astype("bfloat16").astype("float32"))
    return net, x


def same_at_all_sizes(fast: Any, wanted: Any, x: np.ndarray, near: float) -> None:
    """Whether two networks agree at all sizes, to so much of the greatest result."""
    for n in SIZES:
        want = wanted(nd.array(x[:n])).asnumpy()
        np.testing.assert_allclose(fast(nd.array(x[:n])).asnumpy(), want, rtol=0, atol=near * np.abs(want).max(),
                                   err_msg=str(n))


@needs_words
@pytest.mark.parametrize("name", NETS)
def test_bfloat16_of_any_batch_is_one_program(name: str) -> None:
    """Of 1, and for all others; near float32's results, and those of programs of each size, which
    round the same operands."""
    (net, x), (each, _), (exact, _) = network(name), network(name), network(name)
    each.hybridize(precision="bf16", dynamic=False)
    net.hybridize(precision="bf16")
    same_at_all_sizes(net, exact, x, 2e-2)
    assert len(net.programs) == 2 and "words" in str(net.report()), [str(p) for p in net.programs]
    for n in (17, 64):                           # a rounding that falls the other way is 2 ** -9 of an operand
        got, want = net(nd.array(x[:n])).asnumpy(), each(nd.array(x[:n])).asnumpy()
        np.testing.assert_allclose(got, want, rtol=0, atol=2e-3 * np.abs(want).max())


@needs_words
def test_operands_are_rounded_at_all_sizes() -> None:
    """Of one layer: its results are those of rounded operands, to float32's rounding, and not those of exact ones."""
    random.seed(0)
    net = nn.Dense(33, in_units=130)
    net.initialize(init.Normal(0.1))
    x = np.random.default_rng(0).standard_normal((100, 130)).astype("float32")
    w, exact = (nd.array(a).astype("bfloat16").astype("float32").asnumpy() for a in (net.weight.data().asnumpy(), x))
    net.hybridize(precision="bf16")
    for n in (64, 63, 2, 15, 16, 17, 100):
        y = net(nd.array(x[:n])).asnumpy()
        np.testing.assert_allclose(y, exact[:n] @ w.T, rtol=0, atol=1e-5, err_msg=str(n))
        assert np.abs(y - x[:n] @ net.weight.data().asnumpy().T).max() > 1e-4, n
    assert len(net.programs) == 1, [str(p) for p in net.programs]


@needs_words
@pytest.mark.parametrize("name, dtype", [("dense", "int8"), ("images", "auto")])
def test_bytes_of_any_batch_are_one_program(name: str, dtype: str) -> None:
    """Sums of bytes are exact, so eager results are the same but for the rounding of scales."""
    net, x = network(name)
    net.hybridize()
    net(nd.array(x))
    fast, wanted = (quantization.quantize_net(net, dtype, calib_data=[nd.array(x)], calib_mode="naive")
                    for _ in range(2))
    fast.hybridize()
    same_at_all_sizes(fast, wanted, x, 2e-3)
    assert len(fast.programs) == 2 and "words of 4" in str(fast.report()), [str(p) for p in fast.programs]
    assert not getattr(wanted, "programs", ())


# ---- training
def steps(dynamic: Any) -> tuple[Any, Any]:
    """A compiled training step with dense layers, and its network."""
    random.seed(0)
    net = nn.HybridSequential()
    net.add(nn.Dense(70, activation="relu", in_units=96), nn.Dense(64, activation="relu", in_units=70), nn.Dense(10))
    net.initialize(init.Xavier())
    net(nd.zeros((2, 96)))
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1, "momentum": 0.9})
    loss_of = gluon.loss.SoftmaxCrossEntropyLoss()

    @hybridize(dynamic=dynamic)
    def step(x: Any, y: Any) -> Any:
        with autograd.record():
            loss = loss_of(net(x), y)
        loss.backward()
        trainer.step(x.shape[0])
        return loss
    return step, net


def batches() -> Iterator[tuple[Any, Any]]:
    """Data and labels at all sizes."""
    rng = np.random.default_rng(1)
    for n in SIZES:
        yield nd.array(rng.standard_normal((n, 96))), nd.array(rng.integers(0, 10, n))


@pytest.fixture
def mixed() -> Iterator[None]:
    amp.init("bfloat16")
    yield
    amp.off()


@needs_words
def test_a_step_of_any_batch_multiplies_pairs(mixed: None) -> None:
    """A batch that is rows, and one that is a depth, odd and even: losses and weights are those of a program for each
    size, one rounding of bfloat16 apart."""
    (step, net), (each, same) = steps(True), steps(False)
    for x, y in batches():
        np.testing.assert_allclose(*(f(x, y).astype("float32").asnumpy() for f in (step, each)), rtol=2e-2, atol=2e-2,
                                   err_msg=str(x.shape))
    for a, b in zip(net.collect_params().values(), same.collect_params().values()):
        np.testing.assert_allclose(a.data().asnumpy(), b.data().asnumpy(), rtol=0, atol=4e-3)
    report = str(step.report())
    assert len(step.programs) == 2, [str(p) for p in step.programs]
    assert len(re.findall(r"writes pairs\[70, \(\(\(n0", report)) == 1 and report.count("[call] pairs") == 7, report


@needs_words
def test_a_loop_with_a_smaller_last_batch_stays_joined(mixed: None) -> None:
    """The ordinary loop: full batches are one program, and one more serves the last ones."""
    _, net = steps(True)
    net.hybridize()
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1})
    loss_of = gluon.loss.SoftmaxCrossEntropyLoss()
    rng = np.random.default_rng(1)
    for n in ((64,) * 6 + (17,)) * 5:
        x, y = nd.array(rng.standard_normal((n, 96))), nd.array(rng.integers(0, 10, n))
        with autograd.record():
            loss = loss_of(net(x), y)
        loss.backward()
        trainer.step(n)
    rounds = net._engine.rounds
    assert rounds.joined >= 28 and not rounds.refused, str(rounds)
    programs = [str(p) for plans in trainer.joined.values() for plan in plans.values() for p in plan.engine.programs()]
    assert len(programs) <= 2, programs


# ---- hybridize(precision="bf16") in training
def rounded(x: Any) -> np.ndarray:
    return nd.array(x).astype("bfloat16").astype("float32").asnumpy()


@needs_words
def test_precision_of_recorded_calls() -> None:
    """The product of a layer and both gradients are those of rounded operands, summed in float32, at any batch."""
    net = nn.Dense(48, in_units=64)
    net.initialize(init.Normal(0.1))
    net.hybridize(precision="bf16")
    rng, w = np.random.default_rng(0), net.weight.data().asnumpy()
    for n in SIZES:
        x, g = nd.array(rng.standard_normal((n, 64))), rng.standard_normal((n, 48)).astype("float32")
        x.attach_grad()
        with autograd.record():
            y = net(x)
        y.backward(nd.array(g))
        lowest = n > 2                                  # a program for one row or two may keep float32
        for got, exact, low in ((y, x.asnumpy() @ w.T, rounded(x) @ rounded(w).T),
                                (x.grad, g @ w, rounded(g) @ rounded(w)),
                                (net.weight.grad(), g.T @ x.asnumpy(), rounded(g).T @ rounded(x))):
            far, near = (np.abs(got.asnumpy() - z).max() / np.abs(exact).max() for z in (exact, low))
            assert min(near, far) < 1e-5 and (near < 1e-5 or not lowest), (n, near, far)
        np.testing.assert_allclose(net.bias.grad().asnumpy(), g.sum(0), rtol=1e-4, atol=1e-4)
    assert len(net.programs) <= 3, [str(p) for p in net.programs]


def losses(precision: str | None, whole: bool, dynamic: Any = True) -> tuple[list[float], str]:
    """Losses of a training run, by a compiled step or by the ordinary loop, and the report."""
    random.seed(0)
    net = nn.HybridSequential()
    net.add(nn.Dense(64, activation="relu", in_units=48), nn.BatchNorm(in_channels=64), nn.Dense(32, in_units=64))
    net.initialize(init.Xavier())
    more = {} if precision is None else {"precision": precision}
    loss_of = gluon.loss.SoftmaxCrossEntropyLoss()
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.5})
    rng = np.random.default_rng(1)
    centres = 2 * rng.standard_normal((32, 48))

    def step(x: Any, y: Any) -> Any:
        with autograd.record():
            loss = loss_of(net(x), y)
        loss.backward()
        trainer.step(x.shape[0])
        return loss.mean()
    fast = hybridize(step, **more) if whole else step
    if not whole:
        net.hybridize(**more)
        loss_of.hybridize()
    found = []
    for i in range(24):
        n = 64 if i % 4 else 33
        y = rng.integers(0, 32, n)
        loss = fast(nd.array(rng.standard_normal((n, 48)) + centres[y]), nd.array(y))
        found.append(float(loss.asscalar()))
    if whole:
        return found, str(fast.report())
    return found, "".join(str(plan.engine.report()) for plans in trainer.joined.values() for plan in plans.values())


@needs_words
@pytest.mark.parametrize("whole", [True, False])
def test_precision_of_steps_and_loops(whole: bool) -> None:
    """They learn as float32 does, by pairs of bfloat16."""
    (exact, plain), (low, report) = losses(None, whole), losses("bf16", whole)
    assert "[call] pairs" in report and "[call]" not in plain and exact[-1] < exact[0] / 4
    np.testing.assert_allclose(low, exact, rtol=0.05, atol=0.02)
    assert low != exact


@needs_words
def test_networks_of_different_precisions_in_one_loop() -> None:
    """Each keeps its own, and the report says why the loop is not one program."""
    nets = [nn.Dense(32, in_units=64), nn.Dense(32, in_units=32)]
    for net, more in zip(nets, ({"precision": "bf16"}, {})):
        net.initialize(init.Normal(0.1))
        net.hybridize(**more)
    trainer = gluon.Trainer([p for net in nets for p in net.collect_params().values()], "sgd")
    for _ in range(6):
        with autograd.record():
            loss = nets[1](nets[0](nd.ones((32, 64)))).sum()
        loss.backward()
        trainer.step(32)
        loss.asnumpy()
    assert "different precisions" in str(nets[0].report()), nets[0].report()
