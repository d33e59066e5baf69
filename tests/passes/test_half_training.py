"""Products of half types whose operands both change from call to call, as in training: operands are converted as
vectors on the way into panels (codegen/printers/products/vector_packing.py), and results are stored as vectors."""
from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hybrid as mx
from hybrid import autograd, gluon, nd
from hybrid.base import dtype as dt
from hybrid.contrib import amp
from hybrid.gluon import nn
from hybrid.runtime import cpu, toolchain

from ..cpu_kernels import half_products, run_sanitized, vectors_of, without_sanitizers

NEAR = {"float16": 2.0**-11, "bfloat16": 2.0**-8}
ENDS = {"float16": "_HALF", "bfloat16": "_BF16"}
pytestmark = pytest.mark.skipif(toolchain.compiler() is None, reason="no C compiler")


@pytest.fixture(params=[("float16", 64), ("float16", 32), ("bfloat16", 32), ("bfloat16", 64)],
                ids=lambda p: f"{p[0]} in {p[1]} bytes")
def kind(request: Any, monkeypatch: pytest.MonkeyPatch) -> tuple[str, int]:
    """A half type, and the bytes of a vector."""
    half, width = request.param
    if half == "bfloat16":
        pytest.importorskip("ml_dtypes")
    vectors_of(width, monkeypatch)
    return half, width


def text_of(f: Any) -> str:
    """C of a function's kernels, without what stands before them."""
    return str(f.report().source).split("static void k0(")[-1].split("void net(")[0]


def random(shape: tuple[int, ...], half: str, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32).astype(dt.as_dtype(half))


def near(got: Any, want: np.ndarray, half: str, steps: float = 1.01) -> None:
    """The nearest half of a sum in float32, or one beside it where that lies between two."""
    np.testing.assert_allclose(got.astype("float64").asnumpy(), want, rtol=steps * NEAR[half],
                               atol=3e-6 * np.abs(want).max())


def layouts(a: Any, b: Any) -> list[Any]:
    """a by b, each of them also transposed in memory."""
    c, d = nd.transpose(a) + 0, nd.transpose(b) + 0
    return [nd.dot(a, b), nd.dot(a, d, transpose_b=True), nd.dot(c, b, transpose_a=True),
            nd.dot(c, d, transpose_a=True, transpose_b=True)]


@pytest.mark.parametrize("sizes", [(64, 48, 32), (33, 17, 19), (1, 40, 70), (130, 35, 600)], ids=str)
def test_products_of_every_layout(sizes: tuple[int, int, int], kind: tuple[str, int]) -> None:
    (m, n, k), half = sizes, kind[0]
    a, b = random((m, k), half, 1), random((k, n), half, 2)
    f = mx.hybridize(layouts)
    for got in f(nd.array(a, dtype=half), nd.array(b, dtype=half)):
        assert got.dtype == dt.as_dtype(half)
        near(got, a.astype(np.float64) @ b.astype(np.float64), half)


@pytest.mark.parametrize("transposed", [(a, b) for a in (False, True) for b in (False, True)], ids=str)
def test_operands_and_results_are_vectors(transposed: tuple[bool, bool], monkeypatch: pytest.MonkeyPatch) -> None:
    vectors_of(32, monkeypatch)
    a, b = (random(s[::-1] if t else s, "float16", 1) for s, t in zip([(64, 32), (32, 48)], transposed))
    f = mx.hybridize(lambda a, b: nd.relu(nd.dot(a, b, *transposed)))
    f(nd.array(a, dtype="float16"), nd.array(b, dtype="float16"))
    text = text_of(f)
    assert text.count("HYV_LOAD_HALF(") >= 2 and "HYV_STORE_HALF(" in text and "hy_store_half" not in text


def test_short_vectors_stay_plain(monkeypatch: pytest.MonkeyPatch) -> None:
    vectors_of(16, monkeypatch)
    a, b = random((33, 19), "float16", 1), random((19, 17), "float16", 2)
    f = mx.hybridize(layouts)
    for got in f(nd.array(a, dtype="float16"), nd.array(b, dtype="float16")):
        near(got, a.astype(np.float64) @ b.astype(np.float64), "float16")


@pytest.mark.thorough
def test_nothing_beyond_an_array_is_touched(tmp_path: Path) -> None:
    if why := without_sanitizers(tmp_path):
        pytest.skip(why)
    p, arrays = half_products(37)
    exe = cpu.compiled(p)
    for got, want in zip(run_sanitized(exe, arrays, tmp_path), exe(arrays)):
        np.testing.assert_allclose(got.astype(np.float64), want.astype(np.float64), rtol=2e-3, atol=1e-2)


@pytest.mark.parametrize("shape", [(3, 20, 33, 17), (2, 3, 16, 32)], ids=str)
def test_batches_of_products(shape: tuple[int, ...], kind: tuple[str, int]) -> None:
    half = kind[0]
    a, b = random(shape, half, 3), random(shape, half, 4)
    f = mx.hybridize(lambda a, b: nd.linalg.gemm2(a, b, transpose_b=True))
    near(f(nd.array(a, dtype=half), nd.array(b, dtype=half)),
         a.astype(np.float64) @ b.astype(np.float64).swapaxes(-1, -2), half)


def test_what_is_no_ordinary_number(kind: tuple[str, int]) -> None:
    """NaN and infinities of operands, sums beyond the largest half and below the smallest normal one."""
    half = kind[0]
    of = dt.as_dtype(half)
    a, b = random((64, 32), half, 5), random((32, 48), half, 6)
    a[0, 0], a[1, 1], a[2] = np.nan, np.inf, 0
    b[0, 5] = -np.inf
    a[3], b[:, 7] = of.type(3e4), of.type(3e4)                # beyond float16, and not beyond bfloat16
    a[4], b[:, 8] = of.type(2.0 ** -13), of.type(2.0 ** -8)   # a subnormal float16
    a[5] = of.type(1.1754944e-38 if half == "bfloat16" else 6e-8)
    got = mx.hybridize(lambda a, b: nd.dot(a, b))(nd.array(a, dtype=half), nd.array(b, dtype=half)).asnumpy()
    with np.errstate(all="ignore"):
        want = (a.astype(np.float32) @ b.astype(np.float32)).astype(of)
    assert np.array_equal(np.isnan(got.astype(np.float32)), np.isnan(want.astype(np.float32)))
    finite = np.isfinite(want.astype(np.float32))
    assert np.array_equal(got[~finite].astype(np.float32), want[~finite].astype(np.float32), equal_nan=True)
    np.testing.assert_allclose(got[finite].astype(np.float64), want[finite].astype(np.float64), rtol=2 * NEAR[half],
                               atol=2.0 ** -24 if half == "float16" else 2e-37)    # the instruction has no subnormals
    if half == "float16":
        assert np.isinf(got[3, 7].astype(np.float32)) and 0 < abs(float(got[4, 8])) < 6.2e-5


@pytest.mark.parametrize("sizes", [(64, 96, 48), (33, 40, 65)], ids=str)
def test_operands_that_are_computed(sizes: tuple[int, int, int], kind: tuple[str, int]) -> None:
    """A cast of float32, and a value behind a mask, are vectors on the way into a panel."""
    (m, n, k), half = sizes, kind[0]
    x, w = (np.random.default_rng(i).standard_normal(s).astype(np.float32) for i, s in enumerate([(m, k), (n, k)]))
    of = dt.as_dtype(half)

    def f(x: Any, w: Any) -> Any:
        y = nd.dot(nd.relu(x.astype(half)), w.astype(half), transpose_b=True)
        return nd.relu(y + 1) * y
    g = mx.hybridize(f)
    got = g(nd.array(x), nd.array(w))
    y = (np.maximum(x.astype(of), of.type(0)).astype(np.float64) @ w.astype(of).astype(np.float64).T)
    y = y.astype(np.float32).astype(of)
    want = (np.maximum(y + of.type(1), of.type(0)) * y).astype(np.float64)
    np.testing.assert_allclose(got.astype("float64").asnumpy(), want, rtol=8 * NEAR[half],
                               atol=6 * NEAR[half] * np.abs(want).max() / 8)
    if half == "float16" and sizes[0] == 64:
        assert "HYV_NEAR_HALF(" in text_of(g) and "hy_load_half(" not in text_of(g)


@pytest.mark.parametrize("sparse", [True, False], ids=["half of it zero", "no zero"])
@pytest.mark.parametrize("across", [False, True], ids=["along the depth", "across it"])
def test_factors_that_are_zero(across: bool, sparse: bool, kind: tuple[str, int]) -> None:
    """Steps whose factor comes out of a ReLU are left out where enough are zero."""
    half, width = kind
    x, w = random((96, 128), half, 7), random((128, 256) if not across else (96, 256), half, 8)
    if not sparse:
        x = np.abs(x)

    def f(x: Any, w: Any) -> Any:
        y = nd.relu(x)
        return nd.dot(y, w, transpose_a=across), y
    g = mx.hybridize(f)
    got, _ = g(nd.array(x, dtype=half), nd.array(w, dtype=half))
    y = np.maximum(x, x.dtype.type(0)).astype(np.float64)
    near(got, (y.T if across else y) @ w.astype(np.float64), half)
    if width == 64 and half == "float16":
        assert "hy_sparse_halves(" in text_of(g)


def _network(half: str) -> Any:
    mx.random.seed(3)
    net = nn.HybridSequential()
    net.add(nn.Dense(96, activation="relu", in_units=70), nn.Dense(33, activation="relu", in_units=96),
            nn.Dense(10, in_units=33))
    net.initialize(mx.init.Xavier())
    net.cast(half)
    return net


@pytest.mark.parametrize("half", NEAR)
@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_a_training_step_follows_the_eager_one(optimizer: str, half: str) -> None:
    if half == "bfloat16":
        pytest.importorskip("ml_dtypes")
    rng, found = np.random.default_rng(9), []
    x, y = rng.standard_normal((40, 70)).astype(np.float32), rng.integers(0, 10, 40)
    for compiled in (False, True):
        net, loss_of = _network(half), gluon.loss.SoftmaxCrossEntropyLoss()
        trainer = gluon.Trainer(net.collect_params(), optimizer, {"learning_rate": 0.01, "multi_precision": True})

        def step(x: Any, y: Any, net: Any = net, trainer: Any = trainer, loss_of: Any = loss_of) -> Any:
            with autograd.record():
                loss = loss_of(net(x), y)
            loss.backward()
            trainer.step(40)
            return loss
        call = mx.hybridize(step) if compiled else step
        found.append([float(call(nd.array(x, dtype=half), nd.array(y)).astype("float32").mean().asscalar())
                      for _ in range(8)])
    eager, one = np.array(found)
    np.testing.assert_allclose(one, eager, rtol=30 * NEAR[half])
    assert one[-1] < one[0]


def test_halves_that_are_moved_keep_their_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    """As they are, NaN among them, without a conversion."""
    bits = np.arange(1 << 16, dtype=np.uint16)
    x = nd.array(bits.view(np.float16).reshape(256, 256), dtype="float16")
    f = mx.hybridize(lambda x: nd.concat(nd.transpose(x), x, dim=1))
    got = f(x).asnumpy().view(np.uint16)
    np.testing.assert_array_equal(got, np.concatenate([bits.reshape(256, 256).T, bits.reshape(256, 256)], 1))
    assert "hy_store_half" not in text_of(f)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan, 0.0])
def test_whether_all_is_finite(value: float, dtype: str) -> None:
    f = mx.hybridize(lambda a, b: nd.multi_all_finite(a, b, num_arrays=2))
    a, b = (np.random.default_rng(i).standard_normal((33, 65)).astype(dtype) for i in (1, 2))
    b[17, 64] = value
    assert f(nd.array(a, dtype=dtype), nd.array(b, dtype=dtype)).asnumpy() == [np.isfinite(value)]
    assert "isfinite[33, 65]" not in str(f.report())


@pytest.mark.parametrize("shape", [(70, 33), (9, 5)], ids=str)
def test_rows_are_added_at_places(shape: tuple[int, int], kind: tuple[str, int]) -> None:
    """The gradient of an embedding: every addition is rounded, in the order of the places."""
    half, of = kind[0], dt.as_dtype(kind[0])
    at = np.random.default_rng(1).integers(0, shape[0], (4, 25))
    head = random((4, 25, shape[1]), half, 2)

    def gradient(w: Any, at: Any, head: Any) -> Any:
        with autograd.record():
            y = nd.sum((nd.Embedding(at, w, input_dim=shape[0], output_dim=shape[1]) * head).astype("float32"))
        return autograd.grad(y, [w])[0]
    w = nd.zeros(shape, dtype=half)
    w.attach_grad()
    f = mx.hybridize(gradient)
    want = np.zeros(shape, of)
    for i, row in zip(at.ravel(), head.reshape(-1, shape[1])):
        want[i] = (want[i].astype(np.float32) + row.astype(np.float32)).astype(of)
    got = f(w, nd.array(at), nd.array(head, dtype=half))
    np.testing.assert_array_equal(got.asnumpy().astype(np.float32), want.astype(np.float32))


@pytest.mark.parametrize("shape", [(256, 200), (130, 147)], ids=str)
def test_halves_that_are_read_across(shape: tuple[int, int], kind: tuple[str, int]) -> None:
    half, of = kind[0], dt.as_dtype(kind[0])
    a, b = random(shape, half, 1), random(shape[::-1], half, 2)
    f = mx.hybridize(lambda a, b: nd.transpose(a) * 3 + b)
    got = f(nd.array(a, dtype=half), nd.array(b, dtype=half))
    want = (a.T * of.type(3)).astype(of) + b
    np.testing.assert_array_equal(got.asnumpy().astype(np.float32), want.astype(np.float32))
    assert f"hyv_square{ENDS[half]}(" in text_of(f)


def test_an_update_that_may_be_left_out_is_one_kernel() -> None:
    """New states and the weight that is computed from them, behind the check for overflows."""
    amp.init("float16")
    try:
        net = nn.Dense(48, in_units=64)
        net.initialize(mx.init.Xavier())
        trainer, loss_of = gluon.Trainer(net.collect_params(), "adam"), gluon.loss.L2Loss()
        amp.init_trainer(trainer)

        @mx.hybridize
        def step(x: Any, y: Any) -> None:
            with autograd.record(), amp.scale_loss(loss_of(net(x), y), trainer) as scaled:
                autograd.backward(scaled)
            trainer.step(32)
        step(nd.ones((32, 64)), nd.ones((32, 48)))
        written = [line.split("writes ")[1] for line in str(step.report()).splitlines() if "; writes " in line]
        updates = [line for line in written if "where[48, 64]" in line]
        assert len(updates) == 1 and updates[0].count("where[48, 64]") == 3
    finally:
        amp.off()
